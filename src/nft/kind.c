/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/kind.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rendezvous.h"
#include "nft/keymap.h"

#define AFFINITY_MAX (NFT_KIND_AFFINITY_END - NFT_KIND_AFFINITY)
/* Bounds grow by an eighth from 64; the 59th is the first that reaches NFT_POOL_SLOTS_MAX. */
#define CLASS_MAX 64

/* The combination of an affinity number; slots 0 = free. */
struct affinity {
	uint32_t slots;
	uint32_t affinity_s;
	uint32_t is_coarse;
};
_Static_assert(sizeof(struct affinity) == 12, "hashed and compared as raw bytes");

static struct affinity affinities[AFFINITY_MAX];
/* Returned by nft_pool_class(), since nft_kind_is_idle() last saw it. */
static bool is_used[AFFINITY_MAX];
/* Index of each combination in `affinities`. */
static struct nft_keymap numbers = { .key_len = sizeof(struct affinity),
				     .val_len = sizeof(uint16_t) };
static size_t n_exact; /* numbers of exact combinations */
static bool is_short;  /* an exact combination got no number, since one was released */

/* Timeouts of coarse combinations: others are rounded up. */
static const uint32_t coarse_timeouts[] = {
	10,   20,   30,   60,    120,   180,   300,   600,   900,   1200,  1800,
	2700, 3600, 7200, 10800, 14400, 21600, 28800, 36000, 43200, 64800, 86400,
};
/* 1, 2, 3, 4, 6, 8, 12 ... 4096: cover all sizes that can have affinity. */
#define COARSE_SIZES 24
#define COARSE_SLOTS_MAX 4096
#define COARSE_MAX (COARSE_SIZES * ARRAY_SIZE(coarse_timeouts))
/* Numbers for exact combinations; the others suffice for all coarse ones. */
#define EXACT_MAX (AFFINITY_MAX - COARSE_MAX)

/*
 * The next size of a chain. Exact: each number to NFT_KIND_EXACT_MAX, then class bounds.
 * Coarse: 1.5 times `size`, or 4/3 when `size` is not a power of two.
 */
static uint32_t size_next(uint32_t size, bool is_coarse)
{
	if (!is_coarse && size >= NFT_KIND_EXACT_MAX)
		return MIN((size * 9 + 7) / 8, (uint32_t)NFT_POOL_SLOTS_MAX);
	if (!is_coarse || size < 4)
		return size + 1;
	return (size & (size - 1)) == 0 ? size + size / 2 : size + size / 3;
}

/* The smallest size that holds `n` slots; fills the size below it, 0 = none. */
static uint32_t size_of(size_t n, bool is_coarse, uint32_t *below)
{
	const uint32_t max = is_coarse ? COARSE_SLOTS_MAX : NFT_POOL_SLOTS_MAX;
	uint32_t size = 1;

	for (*below = 0; size < n && size < max; size = size_next(size, is_coarse))
		*below = size;
	return size;
}

/* The bound of size class `i`; 0 when there is no such class. */
static uint32_t class_bound(unsigned int i)
{
	uint32_t bound = NFT_KIND_EXACT_MAX;

	for (unsigned int k = 0; k <= i; k++) {
		if (bound == NFT_POOL_SLOTS_MAX)
			return 0;
		bound = size_next(bound, false);
	}
	return bound;
}

/* The class with this bound. */
static unsigned int class_of(uint32_t bound)
{
	unsigned int i = 0;

	while (class_bound(i) < bound)
		i++;
	return i;
}

/* The smallest coarse combination that holds `slots` and lasts `affinity_s`. */
static struct affinity coarse_of(uint32_t slots, uint32_t affinity_s)
{
	uint32_t below;
	struct affinity a = { .slots = size_of(slots, true, &below), .is_coarse = true };

	for (size_t i = 0; i < ARRAY_SIZE(coarse_timeouts) && a.affinity_s < affinity_s; i++)
		a.affinity_s = coarse_timeouts[i];
	return a;
}

/* The number that is registered for the combination `a`, or NULL. */
static struct affinity *affinity_find(const struct affinity *a)
{
	const void *p = nft_keymap_find(&numbers, a);
	uint16_t i;

	if (p == NULL)
		return NULL;
	memcpy(&i, p, sizeof(i));
	return &affinities[i];
}

static void affinity_set(struct affinity *number, const struct affinity *a)
{
	uint16_t i = (uint16_t)(number - affinities);

	*number = *a;
	is_used[i] = false;
	n_exact += !a->is_coarse;
	memcpy(nft_keymap_put(&numbers, a, NULL), &i, sizeof(i));
}

/* A new number for `a`; NULL when its range of numbers is used up. */
static struct affinity *affinity_add(const struct affinity *a)
{
	struct affinity *number = affinities;

	if (numbers.n == AFFINITY_MAX || (!a->is_coarse && n_exact >= EXACT_MAX)) {
		is_short = true;
		return NULL;
	}
	while (number->slots != 0)
		number++;
	affinity_set(number, a);
	return number;
}

/*
 * NULL when exact combinations use all their numbers and the pool has more slots (by weight) than
 * coarse ones have, or when those of an earlier version use all numbers.
 */
static struct affinity *affinity_get(size_t n, uint32_t slots, uint32_t affinity_s)
{
	const struct affinity exact = { .slots = slots, .affinity_s = affinity_s };
	struct affinity *a = affinity_find(&exact) ?: affinity_add(&exact);
	struct affinity coarse;

	if (a != NULL || n > COARSE_SLOTS_MAX)
		return a;
	coarse = coarse_of((uint32_t)n, affinity_s);
	return affinity_find(&coarse) ?: affinity_add(&coarse);
}

uint16_t nft_pool_class(size_t n, uint32_t affinity_s)
{
	uint32_t below, slots = size_of(n, false, &below);
	uint16_t plain = (uint16_t)n;
	struct affinity *a;

	if (n > NFT_KIND_EXACT_MAX)
		plain = (uint16_t)(NFT_KIND_CLASS + class_of(slots));
	if (n == 0 || affinity_s == 0)
		return plain;
	a = affinity_get(n, slots, affinity_s);
	if (a == NULL)
		return plain;
	is_used[a - affinities] = true;
	return (uint16_t)(NFT_KIND_AFFINITY + (a - affinities));
}

struct nft_kind_info nft_kind_info(uint16_t kind)
{
	struct nft_kind_info info = { 0 };
	bool is_coarse = false;
	uint32_t below;

	if (kind <= NFT_KIND_EXACT_MAX) {
		info.slots = kind;
	} else if (kind >= NFT_KIND_CLASS && kind < NFT_KIND_CLASS + CLASS_MAX) {
		info.slots = class_bound(kind - NFT_KIND_CLASS);
	} else if (kind == NFT_KIND_HASH_ADDR || kind == NFT_KIND_HASH_PORT) {
		info.slots = RENDEZVOUS_SLOTS;
		info.is_hashed = true;
		info.has_port = kind == NFT_KIND_HASH_PORT;
	} else if (kind >= NFT_KIND_AFFINITY && kind < NFT_KIND_AFFINITY_END) {
		info.slots = affinities[kind - NFT_KIND_AFFINITY].slots;
		info.affinity_s = affinities[kind - NFT_KIND_AFFINITY].affinity_s;
		is_coarse = affinities[kind - NFT_KIND_AFFINITY].is_coarse;
	}
	if (info.slots == 0)
		return info;
	/* One more than the size below is always filled. */
	(void)size_of(info.slots, is_coarse, &below);
	info.safe_slots = info.is_hashed ? info.slots : below + 1;
	return info;
}

/* "a<slots>-<seconds>", "b<slots>-<seconds>" */
static const char *affinity_name(const struct affinity *a, char buf[static NFT_CHAIN_NAME_MAX])
{
	snprintf(buf, NFT_CHAIN_NAME_MAX, "%c%" PRIu32 "-%" PRIu32, a->is_coarse ? 'b' : 'a',
		 a->slots, a->affinity_s);
	return buf;
}

const char *nft_kind_chain(uint16_t kind, char buf[static NFT_CHAIN_NAME_MAX])
{
	struct nft_kind_info info = nft_kind_info(kind);

	switch (kind) {
	case NFT_KIND_FW:
		return "fw";
	case NFT_KIND_XL:
		return "xl";
	case NFT_KIND_DROP:
		return "drop_conn";
	case NFT_KIND_REJECT:
		return "reject_conn";
	}
	if (info.slots == 0)
		return NULL;
	if (info.affinity_s != 0)
		return affinity_name(&affinities[kind - NFT_KIND_AFFINITY], buf);
	if (info.is_hashed)
		snprintf(buf, NFT_CHAIN_NAME_MAX, "%s%" PRIu32, info.has_port ? "hp" : "h",
			 info.slots);
	else
		snprintf(buf, NFT_CHAIN_NAME_MAX, "%c%" PRIu32, kind < NFT_KIND_CLASS ? 'p' : 'c',
			 info.slots);
	return buf;
}

/* The combination in the name of its chain, as affinity_name() writes it. Numbers that overflow
 * differ from their text. */
static bool affinity_parse(struct affinity *ret, const char *name)
{
	char canonical[NFT_CHAIN_NAME_MAX];
	struct affinity coarse;
	uint32_t below;

	*ret = (struct affinity){ .is_coarse = name[0] == 'b' };
	if (sscanf(name, "%*c%" SCNu32 "-%" SCNu32, &ret->slots, &ret->affinity_s) != 2 ||
	    strcmp(affinity_name(ret, canonical), name) != 0 || ret->affinity_s == 0)
		return false;
	if (!ret->is_coarse)
		return size_of(ret->slots, false, &below) == ret->slots;
	coarse = coarse_of(ret->slots, ret->affinity_s);
	return coarse.slots == ret->slots && coarse.affinity_s == ret->affinity_s;
}

int nft_kind_adopt(uint16_t kind, const char *name)
{
	char buf[NFT_CHAIN_NAME_MAX];
	struct affinity desired, *have;
	const char *now;

	if (kind < NFT_KIND_AFFINITY || kind >= NFT_KIND_AFFINITY_END) {
		now = nft_kind_chain(kind, buf);
		return now != NULL && strcmp(now, name) == 0 ? 0 : -EINVAL;
	}
	if (!affinity_parse(&desired, name))
		return -EINVAL;
	have = &affinities[kind - NFT_KIND_AFFINITY];
	if (affinity_find(&desired) == have)
		return 0;
	if (have->slots != 0 || affinity_find(&desired) != NULL)
		return -EEXIST;
	affinity_set(have, &desired);
	return 0;
}

bool nft_kind_is_idle(uint16_t kind)
{
	size_t i = (size_t)kind - NFT_KIND_AFFINITY;
	bool is_idle;

	assert(i < AFFINITY_MAX);
	is_idle = affinities[i].slots != 0 && !is_used[i];
	is_used[i] = false;
	return is_idle;
}

size_t nft_kind_count(void)
{
	return numbers.n;
}

bool nft_kind_is_short(void)
{
	return is_short;
}

void nft_kind_release(uint16_t kind)
{
	struct affinity *a;

	assert(kind >= NFT_KIND_AFFINITY && kind < NFT_KIND_AFFINITY_END);
	a = &affinities[kind - NFT_KIND_AFFINITY];
	if (nft_keymap_del(&numbers, a) && !a->is_coarse) {
		n_exact--;
		is_short = false;
	}
	*a = (struct affinity){ 0 };
}

uint32_t nft_class_affinity(uint16_t class)
{
	return nft_kind_info(class).affinity_s;
}

void nft_kind_reset(void)
{
	for (uint16_t kind = NFT_KIND_AFFINITY; kind < NFT_KIND_AFFINITY_END; kind++)
		nft_kind_release(kind);
	is_short = false;
}
