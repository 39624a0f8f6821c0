/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/layout - the fixed part of table inet vipd-ipvs: chains, rules, sets,
 * and the ranges that depend on the node.
 *
 *     open -> load -> apply, apply ... -> close
 *
 * As plane/nft/layout.h, whose writers it uses: rules carry a hash, a chain whose
 * hashes differ gets its rules anew in one transaction, and what is as it should
 * be costs no write. There are no chains per pool size, so one batch does it.
 * A table of ours that cannot be put right in place is replaced in one transaction, in
 * which the caller fills the new one with what the old one had. Sets and chains that
 * count come and go in place.
 */
#pragma once

#include "nft/elem.h"
#include "plane/ipvs/rules.h"

struct ipvs_layout;

enum ipvs_layout_state {
	IPVS_LAYOUT_UNKNOWN = 0, /* not loaded, or a write failed */
	IPVS_LAYOUT_ABSENT,      /* no table of ours, or one that will be replaced */
	IPVS_LAYOUT_HELD,
};

/* `nl` is borrowed. */
void ipvs_layout_open(struct ipvs_layout **ret, struct nl_sock *nl);
void ipvs_layout_close(struct ipvs_layout *l);
DEFINE_AUTO(struct ipvs_layout *, ipvs_layout_close);
/* Only look: what would be replaced is read as well. Never apply() after that. */
void ipvs_layout_look(struct ipvs_layout *l);

/* When it cannot be read (-EAGAIN: others write all the time), what was known stays so. */
MUST_USE int ipvs_layout_load(struct ipvs_layout *l, struct err *err);
/* What a table is given that takes the place of another; `w` knows the tables. NULL: nothing. */
struct ipvs_heritage {
	void (*fill)(void *arg, struct nft_elem_writer *w);
	void *arg;
};
/*
 * Write the difference. Should the kernel refuse a table with its heritage, the next
 * attempt, after load(), makes it without.
 */
MUST_USE int ipvs_layout_apply(struct ipvs_layout *l, const struct ipvs_rules_params *params,
			       const struct model *m, const struct ipvs_heritage *heritage,
			       struct nft_result *res, struct err *err);
/* What its rules have refused and dropped; from the kernel. */
MUST_USE int ipvs_layout_drops(const struct ipvs_layout *l, struct plane_drops *ret,
			       struct err *err);
/* Delete the table if it is ours. */
MUST_USE int ipvs_layout_cleanup(struct ipvs_layout *l, struct err *err);

enum ipvs_layout_state ipvs_layout_state(const struct ipvs_layout *l);
uint64_t ipvs_layout_handle(const struct ipvs_layout *l);
/* After load(): is the set there, with our types? Also in a table that will be replaced. */
bool ipvs_layout_has_set(const struct ipvs_layout *l, enum ipfam fam, enum nft_set_id set);

static inline struct nft_table_ref ipvs_table(enum ipfam fam)
{
	return (struct nft_table_ref){ IPVS_TABLE, fam, ipvs_schema.family };
}
