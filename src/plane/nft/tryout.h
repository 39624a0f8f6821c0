/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/tryout - does this kernel have the features that the plane uses?
 *
 * nft_try_features() tests all expressions, sets and chains (nft/feature.h) without changing
 * anything. nft_try_layout() creates the whole layout, with chains of every kind, and removes it:
 * only for an otherwise empty network namespace.
 */
#pragma once

#include "nft/feature.h"

/* Test the features of one family; returns their number, at most NFT_TRIES_MAX. */
size_t nft_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			enum ipfam fam);

/* Both families. Errors as nft_layout_apply(). Registers kinds (kind.h) in this process. */
MUST_USE int nft_try_layout(struct nl_sock *nl, struct err *err);
