/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/tryout - does this kernel have the features that a plane uses?
 *
 * *_try_features() tests all expressions, sets and chains (nft/feature.h) without changing
 * anything.
 * *_try_layout() creates the whole layout, with chains of every kind, and removes it: only for an
 * otherwise empty network namespace.
 */
#pragma once

#include "nft/feature.h"
#include "nl/ipvs.h"

/* Test the features of one family; returns their number. */
size_t nft_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			enum ipfam fam);
size_t ipvs_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			 enum ipfam fam);
/* Both families. Errors as nft_layout_apply(). Registers kinds (nft/kind.h) in this process. */
MUST_USE int nft_try_layout(struct nl_sock *nl, struct err *err);
MUST_USE int ipvs_try_layout(struct nl_sock *nl, struct err *err);

#define IPVS_TRIES_MAX 8
/* A scheduler, and the result of adding a virtual service with it: 0 or -errno. */
struct ipvs_try {
	const char *sched; /* static text */
	int result;
};
/*
 * Add virtual services with the usual schedulers, the required one first, in an unused network
 * namespace. Returns the number of attempts.
 */
size_t ipvs_try_scheds(struct ipvs_try ret[static IPVS_TRIES_MAX], struct ipvs_wire *w);
