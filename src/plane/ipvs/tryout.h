/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/tryout - does this kernel have what the plane uses? As nft/feature.h.
 */
#pragma once

#include "nft/feature.h"
#include "nl/ipvs.h"

#define IPVS_TRIES_MAX 8

/* A scheduler, and 0 or the -errno of a service with it. */
struct ipvs_try {
	const char *sched; /* static text */
	int result;
};

/* What of nf_tables it uses; nothing is ever applied. */
size_t ipvs_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			 enum ipfam fam);
/* The whole table made and removed: for a network namespace that nobody uses. */
MUST_USE int ipvs_try_layout(struct nl_sock *nl, struct err *err);
/*
 * Virtual services with the usual schedulers, the first without which nothing is served: for
 * such a namespace as well. Returns how many were tried.
 */
size_t ipvs_try_scheds(struct ipvs_try ret[static IPVS_TRIES_MAX], struct ipvs_wire *w);
