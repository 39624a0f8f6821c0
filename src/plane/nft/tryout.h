/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/tryout - does this kernel have what the plane uses? Asked by doing it.
 *
 * nft_try_features() offers the kernel all expressions, sets and chains, and if it dislikes
 * them each on its own, in transactions whose last message it must refuse: it has looked at
 * everything before, and nothing is ever applied. So it may be asked where traffic flows, and a
 * module that was not loaded yet is loaded on the way.
 *
 * nft_try_layout() makes the layout as a whole, with chains of every sort, and removes it: for
 * a network namespace that nobody uses.
 */
#pragma once

#include "nft/feature.h"

/* Fills the tries of one family; returns how many there are, at most NFT_TRIES_MAX. */
size_t nft_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			enum ipfam fam);

/* Both families. Errors as nft_layout_apply(). Forget the kinds (kind.h) of this process after. */
MUST_USE int nft_try_layout(struct nl_sock *nl, struct err *err);
