/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/refs - number of users of each address, with a grace period for unused ones. The
 * address of an endpoint includes its port.
 *
 * A kernel set contains an address once, however many frontends or backends use it.
 * Counts are those of programmed users. An entry takes 9 bytes for IPv4, 21 for IPv6,
 * and its share of free places.
 *
 * An address in its grace period has no users, is still in the kernel, and has an entry
 * in a FIFO. When it is used again, nothing has to be written; its FIFO entry is
 * recognised as stale by its number.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"
#include "nft/keymap.h"

/* An address in its grace period. */
struct nft_grace {
	uint8_t addr[20];
	uint32_t seq;
	uint32_t since_s; /* 0: not yet stamped */
};

struct nft_refs {
	struct nft_keymap tab; /* address -> 32 bits: a count, or IN_GRACE | FIFO number */
	VEC(struct nft_grace) fifo;
	size_t head;      /* of the FIFO in its vector */
	size_t n_stamped; /* entries from the head with since_s */
	uint32_t seq;
	size_t n_in_grace; /* addresses; the FIFO may hold stale entries besides */
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
void nft_refs_inherit(struct nft_refs *r, struct nft_refs *old);
/* Start the grace period of addresses of `old` that are not in `r`. */
void nft_refs_grace_rest(struct nft_refs *r, const struct nft_refs *old);

/* Set since_s of new entries to `now_s` (> 0). */
void nft_refs_stamp(struct nft_refs *r, uint32_t now_s);
/*
 * Up to `max` addresses whose grace period of `wait_s` is over, oldest first, into `addrs`
 * (key length each). They stay in the FIFO until nft_refs_set(.., 0).
 */
size_t nft_refs_due(struct nft_refs *r, uint32_t now_s, uint32_t wait_s, uint8_t *addrs,
		    size_t max);
/* When (in seconds) the oldest stamped entry is due; 0 when there is none. */
uint32_t nft_refs_next_due(struct nft_refs *r, uint32_t wait_s);
