/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/bounds.h"

#include <string.h>

/* The first address after the prefix; false: it has the last address. */
static bool address_after(uint8_t ret[static 16], const struct ip_prefix *p)
{
	memcpy(ret, p->addr.bytes, sizeof(p->addr.bytes));
	for (size_t bit = p->len; bit-- > 0;) {
		uint8_t mask = (uint8_t)(0x80 >> bit % 8);

		ret[bit / 8] ^= mask;
		if (ret[bit / 8] & mask) /* no carry */
			return true;
	}
	return false;
}

void nft_bounds_from(struct nft_bounds *ret, enum ipfam fam, const struct ip_prefix *prefixes,
		     size_t n)
{
	AUTO(vec_fini) VEC(struct ip_prefix) apart = { 0 };

	vec_clear(&ret->v);
	for (size_t i = 0; i < n; i++)
		if (ip_is_set(&prefixes[i].addr) && ip_fam(&prefixes[i].addr) == fam)
			*vec_push(&apart) = prefixes[i];
	vec_cut(&apart, ip_prefixes_reduce(apart.v, apart.n));
	vec_for_each (p, &apart) {
		struct nft_bound begin = { 0 };
		struct nft_bound end = { .is_end = true };

		memcpy(begin.key, p->addr.bytes, sizeof(begin.key));
		if (ret->v.n > 0 && memcmp(ret->v.v[ret->v.n - 1].key, begin.key, 16) == 0)
			ret->v.n--; /* the prefix touches the previous one */
		else
			*vec_push(&ret->v) = begin;
		if (address_after(end.key, p))
			*vec_push(&ret->v) = end;
	}
}

static int bound_cmp(const void *a, const void *b)
{
	const struct nft_bound *x = a, *y = b;

	return memcmp(x->key, y->key, sizeof(x->key)) ?: CMP(y->is_end, x->is_end);
}

void nft_bounds_sort(struct nft_bounds *b)
{
	vec_sort(&b->v, bound_cmp);
}
