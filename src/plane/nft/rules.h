/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/rules - the chains and their rules, as objects.
 *
 * Pure: no kernel access. doc/design/0002-nft-layout.md describes the chains. Private to
 * plane/nft/.
 */
#pragma once

#include "nft/expr.h"
#include "nft/kind.h"
#include "plane/nft/layout.h"

/* After the nat chains of all other proxies, which have then translated their packets. */
#define NFT_PRI_NAT_LAST (NF_IP_PRI_NAT_DST + 10)

extern const struct plane_sets nft_plane_sets;

/* The chain that picks a backend for a kind that nft_kind_info() knows. */
void nft_rules_pick(struct nft_rules *rs, enum ipfam fam, const struct nft_kind_info *kind);
