/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/tryout - features of the kernel that the plane uses. Like nft/feature.h. */
#pragma once

#include "nft/feature.h"
#include "nl/ipvs.h"

#define IPVS_TRIES_MAX 8

/* A scheduler, and the result of adding a virtual service with it: 0 or -errno. */
struct ipvs_try {
	const char *sched; /* static text */
	int result;
};

/* Features of nf_tables; nothing is applied. */
size_t ipvs_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			 enum ipfam fam);
/* Create and delete the whole table, in an unused network namespace. */
MUST_USE int ipvs_try_layout(struct nl_sock *nl, struct err *err);
/*
 * Add virtual services with the usual schedulers, the required one first, in an unused network
 * namespace. Returns the number of attempts.
 */
size_t ipvs_try_scheds(struct ipvs_try ret[static IPVS_TRIES_MAX], struct ipvs_wire *w);
