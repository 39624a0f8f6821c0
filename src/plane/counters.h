/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/counters - counters of rules and of elements, for both planes. */
#pragma once

#include "plane/common.h"

/* Packets that the rules of one table have rejected and dropped. */
MUST_USE int plane_drops_read(struct nl_sock *nl, const struct nft_table_ref *table,
			      const struct plane_drop_chain *chains, struct plane_drops *ret,
			      struct err *err);

/* plane_ops.drops, .count_frontends, .count_slots */
MUST_USE int plane_drops(const struct plane *plane, enum ipfam fam, struct plane_drops *ret,
			 struct err *err);
MUST_USE int plane_count_frontends(const struct plane *plane, enum plane_frontend_counter which,
				   const struct plan_frontend *v, size_t n, struct plane_count *ret,
				   struct err *err);
MUST_USE int plane_count_slots(const struct plane *plane, const struct plane_slot *v, size_t n,
			       struct plane_count *ret, struct err *err);
