/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/bounds - prefixes as the elements of an interval set.
 *
 * An interval set contains the first address of each range and, as a separate element
 * with a flag, the first address after it. A range up to the last address has no end.
 * Ranges must neither overlap nor touch: touching ranges would need a beginning and an
 * end at one address. Pure.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"

struct nft_bound {
	uint8_t key[16]; /* address, network order; unused bytes are zero */
	bool is_end;
};
_Static_assert(sizeof(struct nft_bound) == 17, "compared as raw bytes");

/* Zeroed memory is an empty list. */
struct nft_bounds {
	VEC(struct nft_bound) v;
};

/* The union of the prefixes of family `fam`, any order, overlapping or not; replaces `ret`. */
void nft_bounds_from(struct nft_bounds *ret, enum ipfam fam, const struct ip_prefix *prefixes,
		     size_t n);
/* Sort by address; at one address the end comes first. */
void nft_bounds_sort(struct nft_bounds *b);
