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
 * nothing has to be written. These addresses are in a list, oldest first, and take about 70 bytes.
 */
#pragma once

#include "base/htable.h"
#include "base/list.h"
#include "nft/keymap.h"

/* An address in its grace period. */
struct nft_retained {
	struct hnode node;
	struct list order;
	uint32_t since_s; /* second in which the period began; 0: not yet known */
	uint8_t addr[];
};

struct nft_refs {
	struct nft_keymap tab;  /* address -> number of users, 32 bits */
	struct htable retained; /* struct nft_retained */
	struct list in_order;   /* the same, oldest first */
	struct list *unstamped; /* the first of them without a second, or NULL */
};

/* Keys are `key_len` bytes: an address in network order, or what endpoint_addrs begins with. */
void nft_refs_init(struct nft_refs *r, size_t key_len);
void nft_refs_clear(struct nft_refs *r);
/* Set all counts to 0; grace periods continue. */
void nft_refs_restart(struct nft_refs *r);

uint32_t nft_refs_count(const struct nft_refs *r, const void *addr);
bool nft_refs_in_grace(const struct nft_refs *r, const void *addr);
/* Set the count; 0 removes the address. Ends its grace period. */
void nft_refs_set(struct nft_refs *r, const void *addr, uint32_t count);
/* The address has no users, but is in the kernel: start its grace period, unless it has. */
void nft_refs_grace(struct nft_refs *r, const void *addr);
/* The address is in the kernel and must stay: it has one more user, until the counts restart. */
void nft_refs_keep(struct nft_refs *r, const void *addr);
bool nft_refs_is_known(const struct nft_refs *r, const void *addr);
/*
 * Grace periods without a second began in second `now_s` (> 0): those of the oldest
 * NFT_REFS_STAMP_MAX of these addresses. The others remain for the next call.
 */
#define NFT_REFS_STAMP_MAX 10000 /* 1 ms */
void nft_refs_stamp(struct nft_refs *r, uint32_t now_s);
/* The first one of `in_order`, or NULL. */
struct nft_retained *nft_refs_oldest(const struct nft_refs *r);
