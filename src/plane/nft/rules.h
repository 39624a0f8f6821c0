/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/rules - which chains there are, and the rules of each.
 *
 * Pure: rules come out as objects, nobody talks to the kernel. What a chain does
 * is drawn in doc/design/0002-nft-layout.md. Private to nft/.
 */
#pragma once

#include "plane/nft/expr.h"
#include "plane/nft/kind.h"
#include "plane/nft/layout.h"

/* Behind the nat chains of all other proxies: what these serve is translated by then. */
#define NFT_PRI_NAT_LAST (NF_IP_PRI_NAT_DST + 10)

/* A chain of the fixed layout. */
struct nft_chain {
	const char *name;
	const char *type; /* "nat" or "filter": a base chain; NULL: a chain that others lead to */
	uint32_t hook;    /* NF_INET_* */
	int32_t priority;
	void (*build)(struct nft_rules *rs, enum ipfam fam, const struct nft_layout_params *p);
};

/* All of them, those that lead nowhere first. */
const struct nft_chain *nft_chains(size_t *n);
/* NULL when the layout has no such chain; pick chains are not among them. */
const struct nft_chain *nft_chain_find(const char *name);

/* The chain that picks a backend for a kind that nft_kind_info() knows. */
void nft_rules_pick(struct nft_rules *rs, enum ipfam fam, const struct nft_kind_info *kind);
