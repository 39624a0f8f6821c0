/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/layout - fixed part of table inet vipd-ipvs: chains, rules, sets, and the ranges that
 *  depend on the node.
 *
 *      load -> apply, apply ... -> fini
 *
 *  Like plane/nft/layout.h: rules carry a hash, a chain with other hashes gets new rules in one
 *  transaction, and a correct chain costs no write. One batch is enough: no chain depends on a
 * pool. A table that cannot be repaired in place is replaced in one transaction, in which the new
 * table gets the elements of the old one. Sets and chains of counters are added and removed in
 * place.
 */
#pragma once

#include "nft/elem.h"
#include "plane/ipvs/rules.h"
#include "plane/loaded.h"

enum ipvs_layout_state {
	IPVS_LAYOUT_UNKNOWN = 0, /* not loaded, or a write failed */
	IPVS_LAYOUT_ABSENT,      /* no table of vipd, or one that will be replaced */
	IPVS_LAYOUT_PRESENT,
};

/* Zeroed memory, except `nl`, is not loaded. */
struct ipvs_layout {
	struct nl_sock *nl; /* borrowed */
	enum ipvs_layout_state state;
	uint64_t handle; /* of vipd's table, also of one that will be replaced; 0 = none */
	/* per family: its sets and ranges, and all chains; also of a table that will be replaced */
	struct nft_fixed fixed[IPFAM_N];
	bool is_fresh; /* no write since load() */
	/* A table that would be replaced is read, too. apply() is not allowed. */
	bool is_readonly;
	bool is_content_rejected; /* the kernel rejected the elements of the replaced table */
};

/* Forget what was loaded. */
void ipvs_layout_fini(struct ipvs_layout *l);
/* On an error (-EAGAIN: foreign changes interrupted it) the previous state stays. */
MUST_USE int ipvs_layout_load(struct ipvs_layout *l, struct err *err);
/*
 * Write the difference. `elements`: those of a table that may be replaced, or NULL. If the kernel
 * rejects a table with these elements, the next attempt, after load(), omits them. `previous`:
 * IPVS_PREVIOUS_N values that a replaced table remembers.
 */
MUST_USE int ipvs_layout_apply(struct ipvs_layout *l, const struct ipvs_rules_params *params,
			       const struct plane_loaded *elements, const uint32_t *previous,
			       struct nft_result *res, struct err *err);

/* Has the table the rules of a plane that retires? */
bool ipvs_layout_is_retiring(const struct ipvs_layout *l);

static inline struct nft_table_ref ipvs_table(enum ipfam fam)
{
	return (struct nft_table_ref){ IPVS_TABLE, fam, ipvs_schema.family };
}
