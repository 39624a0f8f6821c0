/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/refs - number of users of each address, with a grace period for unused ones. The
 * address of an endpoint includes its port.
 *
 * A kernel set contains an address once, however many frontends or backends use it.
 * Counts are those of programmed users. An entry takes 9 bytes for IPv4, 21 for IPv6,
 * and its share of free places.
 *
 * An address in its grace period has no users and is still in the kernel. When it is used again,
 * nothing has to be written.
 */
#pragma once

#include "nft/keymap.h"

struct nft_refs {
	/* address -> 32 bits: a count, or IN_GRACE | second of its begin (0: not yet known) */
	struct nft_keymap tab;
	size_t n_in_grace;
};

/* Keys are `key_len` bytes: an address in network order, or what endpoint_addrs begins with. */
void nft_refs_init(struct nft_refs *r, size_t key_len);
void nft_refs_clear(struct nft_refs *r);

uint32_t nft_refs_count(const struct nft_refs *r, const void *addr);
bool nft_refs_in_grace(const struct nft_refs *r, const void *addr);
/* Set the count; 0 removes the address. Ends its grace period. */
void nft_refs_set(struct nft_refs *r, const void *addr, uint32_t count);
/* The address has no users, but is in the kernel: start its grace period, unless it has. */
void nft_refs_grace(struct nft_refs *r, const void *addr);
/* The address is in the kernel and must stay: it has one more user, until the counts restart. */
void nft_refs_keep(struct nft_refs *r, const void *addr);
bool nft_refs_is_known(const struct nft_refs *r, const void *addr);
/* Take over the addresses of `old` in their grace period; `r` is empty. */
void nft_refs_inherit(struct nft_refs *r, const struct nft_refs *old);
/*
 * Up to `max` addresses whose grace period of `wait_s` is over, into `addrs` (key length each).
 * They stay until nft_refs_set(.., 0). Grace periods since the last call begin in second `now_s` (>
 * 0). `next_s`: when one of the other addresses is due; 0: none. Walks all addresses.
 */
size_t nft_refs_due(struct nft_refs *r, uint32_t now_s, uint32_t wait_s, uint8_t *addrs, size_t max,
		    uint32_t *next_s);
