/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/bounds.h"

#include <string.h>

/* All addresses from first to last, inclusive. */
struct range {
	uint8_t first[16];
	uint8_t last[16];
};

void nft_bounds_fini(struct nft_bounds *b)
{
	vec_fini(&b->v);
}

static struct range range_of(const struct ip_prefix *p, size_t len)
{
	struct range r = { 0 };

	memcpy(r.first, p->addr.bytes, len);
	memcpy(r.last, p->addr.bytes, len);
	for (size_t bit = p->len; bit < len * 8; bit++)
		r.last[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
	return r;
}

/* Increment `a`; false for the last address. */
static bool successor(uint8_t a[16], size_t len)
{
	for (size_t i = len; i-- > 0;) {
		if (++a[i] != 0)
			return true;
	}
	return false;
}

static int range_cmp(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return memcmp(x->first, y->first, sizeof(x->first));
}

static void bound_push(struct nft_bounds *b, const uint8_t key[16], bool is_end)
{
	struct nft_bound *n = vec_push(&b->v);

	*n = (struct nft_bound){ .is_end = is_end };
	memcpy(n->key, key, sizeof(n->key));
}

static void range_push(struct nft_bounds *b, const struct range *r, size_t len)
{
	uint8_t end[16];

	bound_push(b, r->first, false);
	memcpy(end, r->last, sizeof(end));
	if (successor(end, len))
		bound_push(b, end, true);
}

/* Does `next` overlap or touch `r`? `next` must not begin before `r`. */
static bool range_joins(const struct range *r, const struct range *next, size_t len)
{
	uint8_t end[16];

	memcpy(end, r->last, sizeof(end));
	return !successor(end, len) || memcmp(next->first, end, sizeof(end)) <= 0;
}

/* Append the bounds of sorted ranges; join ranges that overlap or touch. */
static void ranges_push(struct nft_bounds *b, const struct range *ranges, size_t n, size_t len)
{
	struct range r = ranges[0];

	for (size_t i = 1; i < n; i++) {
		if (!range_joins(&r, &ranges[i], len)) {
			range_push(b, &r, len);
			r = ranges[i];
		} else if (memcmp(ranges[i].last, r.last, sizeof(r.last)) > 0) {
			memcpy(r.last, ranges[i].last, sizeof(r.last));
		}
	}
	range_push(b, &r, len);
}

void nft_bounds_from(struct nft_bounds *ret, enum ipfam fam, const struct ip_prefix *prefixes,
		     size_t n)
{
	AUTO(vec_fini) VEC(struct range) ranges = { 0 };
	size_t len = ip_len(fam);

	vec_clear(&ret->v);
	for (size_t i = 0; i < n; i++) {
		if (ip_is_set(&prefixes[i].addr) && ip_fam(&prefixes[i].addr) == fam)
			*vec_push(&ranges) = range_of(&prefixes[i], len);
	}
	if (ranges.n > 0) {
		vec_sort(&ranges, range_cmp);
		ranges_push(ret, ranges.v, ranges.n, len);
	}
}

static int bound_cmp(const void *a, const void *b)
{
	const struct nft_bound *x = a, *y = b;
	int r = memcmp(x->key, y->key, sizeof(x->key));

	return r != 0 ? r : (int)y->is_end - (int)x->is_end;
}

void nft_bounds_sort(struct nft_bounds *b)
{
	vec_sort(&b->v, bound_cmp);
}

bool nft_bounds_are_equal(const struct nft_bounds *a, const struct nft_bounds *b)
{
	if (a->v.n != b->v.n)
		return false;
	for (size_t i = 0; i < a->v.n; i++) {
		if (bound_cmp(&a->v.v[i], &b->v.v[i]) != 0)
			return false;
	}
	return true;
}
