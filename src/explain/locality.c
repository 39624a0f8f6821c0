/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "explain/locality.h"

void plan_locality_of(struct plan_locality *ret, const struct model *m, const struct selection *sel,
		      const struct plan_rows *rows, const struct plan_pool *pool,
		      const struct plan_balancer *balancer)
{
	struct plan_balancing balancing = { 0 };
	bool are_zones_known = m->env.zone != NULL;
	uint64_t in_zone = 0;
	uint64_t on_node = 0;
	uint64_t all = 0;

	*ret = (struct plan_locality){ -1, -1 };
	if (pool != NULL) {
		plan_balancing_of(&balancing, pool);
		balancer->balancing(balancer->ctx, rows, pool, false, &balancing);
	}
	vec_for_each (e, &sel->endpoints) {
		uint32_t weight = e->cluster != EXCLUSION_NONE            ? 0
				  : balancing.deal == PLAN_BALANCE_EVENLY ? 1
									  : e->weight;

		all += weight;
		on_node += e->is_local ? weight : 0;
		in_zone += e->is_local || e->from->place->zone == m->env.zone ? weight : 0;
		are_zones_known &= weight == 0 || e->is_local || e->from->place->zone != NULL;
	}
	/* Where all are alike, no choice matters. */
	if (all == 0)
		return;
	if (balancing.deal != PLAN_BALANCE_UNKNOWN || on_node == 0 || on_node == all)
		ret->node = (double)on_node / (double)all;
	if (are_zones_known &&
	    (balancing.deal != PLAN_BALANCE_UNKNOWN || in_zone == 0 || in_zone == all))
		ret->zone = (double)in_zone / (double)all;
}
