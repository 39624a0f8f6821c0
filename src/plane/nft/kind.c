/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define AFFINITY_MAX (NFT_KIND_AFFINITY_END - NFT_KIND_AFFINITY)
/* Bounds grow by an eighth from 64; the 59th is the first that reaches NFT_POOL_SLOTS_MAX. */
#define CLASS_MAX 64

/* What an affinity number stands for; slots 0 = not given out. */
struct affinity {
	uint32_t slots;
	uint32_t affinity_s;
};

static struct affinity affinities[AFFINITY_MAX];
static size_t affinity_next; /* numbers below were tried; recalled ones may lie above */

static uint32_t bound_next(uint32_t bound)
{
	return MIN((bound * 9 + 7) / 8, (uint32_t)NFT_POOL_SLOTS_MAX);
}

/* The bound of size class `i`; 0 when there is no such class. */
static uint32_t class_bound(unsigned int i)
{
	uint32_t bound = NFT_KIND_EXACT_MAX;

	for (unsigned int k = 0; k <= i; k++) {
		if (bound == NFT_POOL_SLOTS_MAX)
			return 0;
		bound = bound_next(bound);
	}
	return bound;
}

/* The class of `n` > 64 backends; fills its bound. */
static unsigned int class_of(size_t n, uint32_t *bound)
{
	unsigned int i = 0;

	*bound = bound_next(NFT_KIND_EXACT_MAX);
	while (*bound < n && *bound < NFT_POOL_SLOTS_MAX) {
		*bound = bound_next(*bound);
		i++;
	}
	return i;
}

/* `slots` is a number that pools can be counted by: exact, or a class bound. */
static bool slots_are_valid(uint32_t slots)
{
	uint32_t bound;

	if (slots <= NFT_KIND_EXACT_MAX)
		return slots > 0;
	(void)class_of(slots, &bound);
	return bound == slots;
}

/* How many of `slots` are filled for certain: one more than the bound below. */
static uint32_t slots_safe(uint32_t slots)
{
	uint32_t below = NFT_KIND_EXACT_MAX;

	if (slots <= NFT_KIND_EXACT_MAX)
		return slots;
	while (bound_next(below) < slots)
		below = bound_next(below);
	return below + 1;
}

static struct affinity *affinity_find(uint32_t slots, uint32_t affinity_s)
{
	for (size_t i = 0; i < AFFINITY_MAX; i++) {
		if (affinities[i].slots == slots && affinities[i].affinity_s == affinity_s)
			return &affinities[i];
	}
	return NULL;
}

/* NULL when all numbers are taken. Never given back, so the answer stays NULL. */
static struct affinity *affinity_get(uint32_t slots, uint32_t affinity_s)
{
	struct affinity *a = affinity_find(slots, affinity_s);

	if (a != NULL)
		return a;
	while (affinity_next < AFFINITY_MAX && affinities[affinity_next].slots != 0)
		affinity_next++;
	if (affinity_next == AFFINITY_MAX) {
		log_warn(LOG_AREA_PLANE,
			 "affinity: %d sizes and timeouts are in use, no number is left: a service "
			 "with %" PRIu32 " backends and %" PRIu32 " s is balanced without",
			 AFFINITY_MAX, slots, affinity_s);
		return NULL;
	}
	a = &affinities[affinity_next++];
	*a = (struct affinity){ .slots = slots, .affinity_s = affinity_s };
	return a;
}

uint16_t nft_pool_class(size_t n, uint32_t affinity_s)
{
	uint32_t slots = (uint32_t)n;
	uint16_t plain = (uint16_t)n;
	struct affinity *a;

	if (n > NFT_KIND_EXACT_MAX)
		plain = (uint16_t)(NFT_KIND_CLASS + class_of(n, &slots));
	if (n == 0 || affinity_s == 0)
		return plain;
	a = affinity_get(slots, affinity_s);
	return a == NULL ? plain : (uint16_t)(NFT_KIND_AFFINITY + (a - affinities));
}

bool nft_kind_info(uint16_t kind, struct nft_kind_info *ret)
{
	struct nft_kind_info info = { 0 };

	if (kind <= NFT_KIND_EXACT_MAX) {
		info.slots = kind;
	} else if (kind >= NFT_KIND_CLASS && kind < NFT_KIND_CLASS + CLASS_MAX) {
		info.slots = class_bound(kind - NFT_KIND_CLASS);
	} else if (kind >= NFT_KIND_AFFINITY && kind < NFT_KIND_AFFINITY_END) {
		info.slots = affinities[kind - NFT_KIND_AFFINITY].slots;
		info.affinity_s = affinities[kind - NFT_KIND_AFFINITY].affinity_s;
	}
	info.safe_slots = slots_safe(info.slots);
	if (info.slots == 0)
		return false;
	*ret = info;
	return true;
}

const char *nft_kind_chain(uint16_t kind, char buf[static NFT_CHAIN_NAME_MAX])
{
	struct nft_kind_info info;

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
	if (!nft_kind_info(kind, &info))
		return NULL;
	if (info.affinity_s != 0)
		snprintf(buf, NFT_CHAIN_NAME_MAX, "a%" PRIu32 "-%" PRIu32, info.slots,
			 info.affinity_s);
	else
		snprintf(buf, NFT_CHAIN_NAME_MAX, "%c%" PRIu32, kind < NFT_KIND_CLASS ? 'p' : 'c',
			 info.slots);
	return buf;
}

/* Decimal digits without a leading zero, up to `end`; 0 when it is anything else. */
static uint32_t number_parse(const char *s, const char *end)
{
	uint64_t n = 0;

	if (s == end || *s == '0' || end - s > 10)
		return 0;
	for (; s < end; s++) {
		if (*s < '0' || *s > '9')
			return 0;
		n = n * 10 + (uint64_t)(*s - '0');
	}
	return n <= UINT32_MAX ? (uint32_t)n : 0;
}

/* "a<slots>-<seconds>" */
static bool affinity_parse(struct affinity *ret, const char *name)
{
	const char *dash = strchr(name, '-');

	if (name[0] != 'a' || dash == NULL)
		return false;
	ret->slots = number_parse(name + 1, dash);
	ret->affinity_s = number_parse(dash + 1, dash + strlen(dash));
	return slots_are_valid(ret->slots) && ret->affinity_s != 0;
}

int nft_kind_recall(uint16_t kind, const char *name)
{
	char buf[NFT_CHAIN_NAME_MAX];
	struct affinity want, *have;
	const char *now;

	if (kind < NFT_KIND_AFFINITY || kind >= NFT_KIND_AFFINITY_END) {
		now = nft_kind_chain(kind, buf);
		return now != NULL && strcmp(now, name) == 0 ? 0 : -EINVAL;
	}
	if (!affinity_parse(&want, name))
		return -EINVAL;
	have = &affinities[kind - NFT_KIND_AFFINITY];
	if (have->slots == want.slots && have->affinity_s == want.affinity_s)
		return 0;
	if (have->slots != 0 || affinity_find(want.slots, want.affinity_s) != NULL)
		return -EEXIST;
	*have = want;
	return 0;
}

void nft_kind_reset(void)
{
	memset(affinities, 0, sizeof(affinities));
	affinity_next = 0;
}
