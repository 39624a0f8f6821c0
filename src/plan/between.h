/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/between - a pool on the way from its programmed to its desired state.
 *
 * An intermediate pool serves: each slot that its class picks has a backend. Without affinity and
 * table the pool grows, is replaced slot by slot, or shrinks, and its class follows. On a plane
 * with slots, a pool with affinity, hashing or weights gets a table meanwhile. Slots are set from
 * the first one on, each after its backend, and a backend goes with its last slot; then slots
 * beyond the desired number go.
 *
 * With hashing the class picks at random unless all slots are those of one table: a part of them
 * would serve a part of the clients. With affinity the class stays until all slots are right, so
 * that clients keep their backends.
 */
#pragma once

#include "plan/plan.h"
#include "plan/table.h"

struct plan_between {
	const struct plan *p;
	const struct plan_pool *was;  /* NULL: a new pool */
	const struct plan_pool *will; /* with class and table; NULL: all but one slot go */
	size_t work;                  /* of a backend, in operations */
	size_t max;                   /* operations of this transaction, about */
	size_t cost;                  /* out: operations, if all are done */
};

/* Are operations left for a later transaction? Then `ret`, unless NULL, is the pool meanwhile. */
bool plan_pool_between(struct plan_pool *ret, struct plan_between *b);
/* Operations that make all of the pool, or remove it. */
size_t plan_pool_cost(const struct plan *p, const struct plan_pool *pool, size_t work);
bool plan_pool_is_equal(const struct plan_pool *a, const struct plan_pool *b);
/* Copy `from` to `to`, with vectors of its own. */
void plan_pool_copy(struct plan_pool *to, const struct plan_pool *from);
