/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/between - a pool on the way from its programmed to its desired state.
 *
 * An intermediate pool serves: each slot that its class picks has a backend. Without a table the
 * pool grows, is replaced slot by slot, or shrinks, and its class follows. With a table (hashing,
 * weights) slots are set from the first one on, each after its backend, and a backend goes with its
 * last slot; then slots beyond the desired number go. Such a pool has a table meanwhile, but no
 * hashing.
 *
 * With hashing the class picks at random until the table is complete: a part of it would serve a
 * part of the clients. A complete table is replaced slot by slot.
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
	bool is_whole;                /* not divisible if it has local ids */
	size_t cost;                  /* out: operations, if all are done */
};

/*
 * Are operations left for a later transaction? Then `ret`, unless NULL, is the pool meanwhile.
 * False also for a pool that is not divisible: two tables with more than 65,536 different backends;
 * local ids of affinity that are used again, or are compared with those of an earlier process.
 */
bool plan_pool_between(struct plan_pool *ret, struct plan_between *b);
/*
 * Return whether each backend also has elements for its local id. Such a pool always keeps a
 * frontend: adoption finds pools by their frontends, and affinity entries of clients still name the
 * ids.
 */
bool plan_pool_has_ids(const struct plan *p, const struct plan_pool *pool);
/* Operations that make all of the pool, or remove it. */
size_t plan_pool_cost(const struct plan *p, const struct plan_pool *pool, size_t work);
bool plan_pool_is_equal(const struct plan_pool *a, const struct plan_pool *b);
/* Copy `from` to `to`, with vectors of its own; room for `n` backends. */
void plan_pool_copy(struct plan_pool *to, const struct plan_pool *from, size_t n);
/* plan_pool_copy() without the table, which may have PLAN_WEIGHT_SLOTS_MAX slots. */
void plan_pool_copy_backends(struct plan_pool *to, const struct plan_pool *from, size_t n);
