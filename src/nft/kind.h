/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/kind - the number that says which chain picks the backend.
 *
 * A frontend's value is a word: pool id << 12 | kind. The kind is led to a chain
 * by the small verdict maps (leaves, kinds_x, kinds):
 *
 *   1..64       p<n>        exactly n backends
 *   0x400 + i   c<bound>    up to `bound` backends: empty slots miss and are retried
 *   0x800 + i   a<n>-<t>    ClientIP affinity of t seconds over n backends, where
 *                           n is exact to 64 and a class bound above
 *   0x800 + i   b<n>-<t>    the same for up to n backends and at most t seconds: coarse
 *   0xffb..     fw, xl, drop_conn, reject_conn
 *
 * Affinity numbers are given out as needed: (size, seconds) does not fit twelve
 * bits. This registry is the one piece of process-wide state of the plane.
 * Adoption enters the numbers of an earlier process, from the kernel's maps,
 * before the first pool_class(). A number that no pool uses is released.
 *
 * Of the 2,043 numbers 1,515 are for exact combinations. A combination that finds
 * none free gets a coarse one: the size and the timeout are rounded up to one of
 * 24 sizes and of 22 timeouts. All 528 of those have room in the rest, so no
 * service can deprive another of affinity: only of the exact timeout.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/util.h"
#include "nft/sets.h"

/* In a word: PLAN_POOL_LOCAL of the pool id. Flipping it leads to the pool's peer. */
#define NFT_POOL_LOCAL UINT32_C(0x80000000)

#define NFT_KIND_EXACT_MAX 64
#define NFT_KIND_PRECREATED 16 /* p1..p16 are part of the fixed layout */
#define NFT_KIND_CLASS 0x400
#define NFT_KIND_AFFINITY 0x800
#define NFT_KIND_AFFINITY_END 0xffb /* one past the last */
#define NFT_KIND_FW 0xffb
#define NFT_KIND_XL 0xffc
#define NFT_KIND_DROP 0xffd
#define NFT_KIND_REJECT 0xffe

/* The largest pool that is balanced over whole; slots are counted modulo at most this. */
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

/* What a kind's chain does; all zero for kinds that pick nothing. */
struct nft_kind_info {
	uint32_t slots;      /* picks modulo this: the exact number, or the class bound */
	uint32_t safe_slots; /* that many are always filled: equals slots when exact */
	uint32_t affinity_s; /* 0 = none */
};

/*
 * plan_traits.pool_class: the kind of a pool of `n` > 0 backends, equal for all n of one size
 * class. Equal arguments return equal kinds until nft_kind_release().
 */
uint16_t nft_pool_class(size_t n, uint32_t affinity_s);
/* plan_traits.class_affinity: the timeout in force in a pool of that class; 0 = none. */
uint32_t nft_class_affinity(uint16_t class);
/* Is it a number of a pick or affinity chain, known here? Fills `ret` if so. */
bool nft_kind_info(uint16_t kind, struct nft_kind_info *ret);
/* The chain's name, also of reject, drop, xl and fw; NULL for an unknown kind. */
const char *nft_kind_chain(uint16_t kind, char buf[static NFT_CHAIN_NAME_MAX]);
/*
 * An earlier process gave `kind` to the chain `name`. 0 when that is, or now
 * becomes, what this process says too; -EEXIST when `kind` or the combination is
 * already given out otherwise; -EINVAL when it is no name of ours for that range.
 */
MUST_USE int nft_kind_adopt(uint16_t kind, const char *name);
/* Is this affinity number taken, and has pool_class() not returned it since the last call? */
bool nft_kind_is_idle(uint16_t kind);
/* Affinity numbers that are taken. */
size_t nft_kind_count(void);
/* No pool and no chain uses this affinity number: another combination may have it. */
void nft_kind_release(uint16_t kind);
/* Forget all affinity numbers; for tests only. */
void nft_kind_reset(void);
