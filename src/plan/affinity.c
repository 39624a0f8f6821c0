/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/affinity - is the session affinity that a service asks for in force? */
#include "plan/plan.h"

uint32_t plan_pool_affinity(const struct plan *p, const struct plan_pool *pool)
{
	return pool->affinity_s == 0 || p->traits->class_affinity == NULL || pool->class == 0
		       ? pool->affinity_s
		       : p->traits->class_affinity(pool->class);
}

bool plan_rows_is_unsticky(const struct plan *p, const struct plan_rows *rows)
{
	for (size_t i = 0; rows != NULL && i < rows->pools.n; i++)
		if (rows->pools.v[i].is_sticky && plan_pool_affinity(p, &rows->pools.v[i]) == 0)
			return true;
	return false;
}

void plan_affinity_text(const struct plan *p, const struct plan_rows *rows, struct str *out)
{
	vec_for_each (pool, &rows->pools) {
		uint32_t s = plan_pool_affinity(p, pool);

		if (!pool->is_sticky || (s != 0 && s == pool->affinity_s))
			continue;
		if (out->len > 0)
			str_puts(out, "; ");
		if (pool->affinity_s == 0)
			str_printf(out, "affinity: not in force: %zu endpoints, at most %d",
				   pool->backends.n, PLAN_AFFINITY_BACKENDS_MAX);
		else if (s == 0)
			str_puts(out, "affinity: not in force: no chain is free for this number "
				      "of endpoints and this timeout");
		else
			str_printf(out,
				   "affinity: lasts %u s instead of %u s: too many different "
				   "timeouts are in use",
				   s, pool->affinity_s);
		return;
	}
}
