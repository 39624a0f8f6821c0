/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/kind - the number of the chain that picks the backend.
 *
 * A frontend's value is a word: pool id << 12 | kind. The verdict maps leaves, kinds_x
 * and kinds map the kind to a chain:
 *
 *   1..64       p<n>        exactly n backends
 *   0x400 + i   c<bound>    up to `bound` backends: empty slots miss and are retried
 *   0x7fe       h<slots>    the slot is a hash of the source address
 *   0x7ff       hp<slots>   the slot is a hash of source address and port
 *   0x800 + i   a<n>-<t>    ClientIP affinity of t seconds over n backends, where
 *                           n is exact to 64 and a class bound above
 *   0x800 + i   b<n>-<t>    coarse: up to n backends and at most t seconds
 *   0xffb..     fw, xl, drop_conn, reject_conn
 *
 * Affinity numbers are allocated as needed: (size, seconds) does not fit twelve
 * bits. This registry and is_jhash_lacking (plane/nft/tuning.c) are the only
 * process-wide state of the plane. Adoption enters the numbers of an earlier
 * process, from the kernel's maps, before the first pool_class(). A number that
 * no pool uses is released.
 *
 * Of the 2,043 numbers 1,515 are for exact combinations. When these are used up, size
 * and timeout are rounded up to one of 24 sizes and one of 22 timeouts. The other
 * numbers suffice for all 528 of these, so no service can deprive another of affinity,
 * only of the exact timeout.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/util.h"
#include "nft/sets.h"

/* PLAN_POOL_LOCAL of the pool id in a word. Flipping the bit yields the pool's peer. */
#define NFT_POOL_LOCAL UINT32_C(0x80000000)

#define NFT_KIND_EXACT_MAX 64
#define NFT_KIND_PRECREATED 16 /* p1..p16 are part of the fixed layout */
#define NFT_KIND_CLASS 0x400
#define NFT_KIND_HASH_ADDR 0x7fe
#define NFT_KIND_HASH_PORT 0x7ff
#define NFT_KIND_AFFINITY 0x800
#define NFT_KIND_AFFINITY_END 0xffb /* one past the last */
#define NFT_KIND_FW 0xffb
#define NFT_KIND_XL 0xffc
#define NFT_KIND_DROP 0xffd
#define NFT_KIND_REJECT 0xffe

/* The largest pool whose backends are all picked; slots are random modulo at most this. */
#define NFT_POOL_SLOTS_MAX 65536

#define NFT_CHAIN_NAME_MAX 24

static inline uint32_t nft_word(uint32_t pool_id, uint16_t kind)
{
	return pool_id << NFT_KIND_BITS | kind;
}

static inline uint32_t nft_word_pool(uint32_t word)
{
	return word >> NFT_KIND_BITS;
}

static inline uint16_t nft_word_kind(uint32_t word)
{
	return (uint16_t)(word & NFT_KIND_MASK);
}

/* Kinds (12 bits) as a set. */
struct nft_kinds {
	uint64_t bits[BITS_WORDS(NFT_KIND_MASK + 1)];
};

/* Properties of a registered pick or affinity chain; all zero for other kinds. */
struct nft_kind_info {
	uint32_t slots;      /* modulus of the pick: the exact number, or the class bound */
	uint32_t safe_slots; /* number of slots that are always filled: `slots` when exact */
	uint32_t affinity_s; /* 0 = none */
	bool is_hashed;      /* the slot is a hash of the source address ... */
	bool has_port;       /* ... and port */
};

/*
 * plan_traits.pool_class: the kind of a pool of `n` > 0 backends, equal for all n of one size
 * class. Equal arguments return equal kinds until nft_kind_release().
 */
uint16_t nft_pool_class(size_t n, uint32_t affinity_s);
/* plan_traits.class_affinity: the effective timeout in a pool of that class; 0 = none. */
uint32_t nft_class_affinity(uint16_t class);
struct nft_kind_info nft_kind_info(uint16_t kind);
/* The chain's name, also of reject, drop, xl and fw; NULL for an unknown kind. */
const char *nft_kind_chain(uint16_t kind, char buf[static NFT_CHAIN_NAME_MAX]);
/*
 * Register `kind` for the chain `name`, as an earlier process did. 0 when this is or was
 * registered; -EEXIST when `kind` or the combination is registered otherwise; -EINVAL when
 * `name` is not a name of ours for that range.
 */
MUST_USE int nft_kind_adopt(uint16_t kind, const char *name);
/*
 * Is this affinity number registered, and not returned by pool_class() since the last call for this
 * number? The call starts a new period.
 */
bool nft_kind_is_idle(uint16_t kind);
/* Number of registered affinity numbers. */
size_t nft_kind_count(void);
/* Did an exact combination find no number free since the last release of an exact one? */
bool nft_kind_is_short(void);
/* Free an affinity number that no pool and no chain uses. */
void nft_kind_release(uint16_t kind);
/* Free all affinity numbers; for tests only. */
void nft_kind_reset(void);
