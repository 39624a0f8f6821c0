/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/rules - the chains of table inet vipd-ipvs, and the rules of each.
 *
 * Pure: rules come out as objects. What each chain is for, and why at its
 * priority, stands in doc/design/0007-ipvs-plane.md.
 */
#pragma once

#include "model/model.h"
#include "nft/expr.h"
#include "nft/fixed.h"
#include "nft/write.h"
#include "plane/ipvs/marks.h"
#include "plane/plane.h"

#define IPVS_TABLE "vipd-ipvs"
#define IPVS_TABLE_COMMENT "vipd ipvs layout "
/*
 * Elements of an older version are taken over, where the set has the same name and types:
 * who gives them another meaning gives the set another name.
 */
#define IPVS_LAYOUT_VERSION 1

/* What the rules depend on. */
struct ipvs_rules_params {
	struct ipvs_marks marks;
	enum detect_local detect;
	bool has_detector[IPFAM_N];
	bool is_masquerade_all;
	char ifname[IFNAME_MAX];
	enum plane_counting counting;
	struct ip_addr localhost_source[IPFAM_N]; /* as in nft_localhost */
	/* Another plane serves: only connections that IPVS has already are captured. */
	bool is_retiring;
};

extern const struct nft_schema ipvs_schema;

/* The i-th chain, those that lead nowhere first; NULL behind the last. */
const struct nft_chain *ipvs_chain_at(size_t i);
/* Is the i-th in a table that counts so much? */
bool ipvs_chain_exists(size_t i, enum plane_counting counting);
/* The rules of the i-th. */
void ipvs_rules_build(struct nft_rules *rs, size_t i, const struct ipvs_rules_params *p);

/* Chains whose rules count what is refused (PLANE_REJECT_N: INVALID packets), and how many. */
struct ipvs_drop_chain {
	const char *name;
	enum plane_reject_reason refusal;
};
const struct ipvs_drop_chain *ipvs_drop_chains(size_t *n);
