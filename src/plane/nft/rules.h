/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/rules - which chains there are, and the rules of each.
 *
 * Pure: returns rules as objects, no kernel access. What a chain does
 * is drawn in doc/design/0002-nft-layout.md. Private to plane/nft/.
 */
#pragma once

#include "nft/expr.h"
#include "nft/kind.h"
#include "plane/nft/layout.h"

/* Behind the nat chains of all other proxies: what these serve is translated by then. */
#define NFT_PRI_NAT_LAST (NF_IP_PRI_NAT_DST + 10)

/* The i-th chain of the layout, those that lead nowhere first; NULL behind the last. */
const struct nft_chain *nft_chain_at(size_t i);
/* The rules of the i-th. */
void nft_rules_build(struct nft_rules *rs, size_t i, enum ipfam fam,
		     const struct nft_layout_params *p);

/* The chain that picks a backend for a kind that nft_kind_info() knows. */
void nft_rules_pick(struct nft_rules *rs, enum ipfam fam, const struct nft_kind_info *kind);
