/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/rules - chains of table inet vipd-ipvs, and their rules.
 *
 *  Pure: returns rules as objects. doc/design/0007-ipvs-plane.md explains each chain and its
 * priority.
 */
#pragma once

#include "nft/fixed.h"
#include "plane/ipvs/marks.h"
#include "plane/rules.h"

#define IPVS_TABLE "vipd-ipvs"
/* In both families; plane/failover.h. */
#define IPVS_FAILOVER_TABLE "vipd-ipvs-failover"
#define IPVS_TABLE_COMMENT "vipd ipvs layout "
/*
 * Elements of a replaced table are kept where the set has the same name and types: a set whose
 * elements change their meaning needs a new name.
 */
#define IPVS_LAYOUT_VERSION 3

/* Parameters of the rules. */
struct ipvs_rules_params {
	struct plane_rules_params common;
	struct ipvs_marks marks;
	/* another plane serves: capture only connections that IPVS already has */
	bool is_retiring;
};

extern const struct plane_sets ipvs_plane_sets;
/* Rules are built for struct ipvs_rules_params. */
extern const struct nft_schema ipvs_schema;
