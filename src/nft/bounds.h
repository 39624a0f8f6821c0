/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/bounds - prefixes as the elements of an interval set.
 *
 * An interval set holds where ranges begin and, as elements of their own with a
 * flag, the first address behind each. A range that reaches the last address has
 * no end. Ranges must neither overlap nor touch: touching ones would need a
 * beginning and an end at the same address. Pure.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"

struct nft_bound {
	uint8_t key[16]; /* address, network order; unused bytes are zero */
	bool is_end;
};

/* Zeroed memory is an empty list. */
struct nft_bounds {
	VEC(struct nft_bound) v;
};

void nft_bounds_fini(struct nft_bounds *b);
/* The union of the prefixes of family `fam`, any order, overlapping or not; replaces `ret`. */
void nft_bounds_from(struct nft_bounds *ret, enum ipfam fam, const struct ip_prefix *prefixes,
		     size_t n);
/* Into address order; at the same address the end comes first. */
void nft_bounds_sort(struct nft_bounds *b);
/* Both sorted. */
bool nft_bounds_are_equal(const struct nft_bounds *a, const struct nft_bounds *b);
