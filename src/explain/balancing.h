/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/balancing - how a plane balances connections over the backends of a pool.
 *
 * A plane with schedulers provides the scheduler in effect, which a pool does not have.
 */
#pragma once

#include "plan/rows.h"

enum plan_balance {
	PLAN_BALANCE_EVENLY = 0,
	PLAN_BALANCE_BY_WEIGHT,
	PLAN_BALANCE_UNKNOWN, /* depends on present connections: not predictable */
};

#define PLAN_SCHEDULER_MAX 40

struct plan_balancing {
	uint8_t balance;   /* enum plan_balance */
	bool is_by_client; /* hashes the source: shares are those of clients */
	uint32_t affinity_s;
	char scheduler[PLAN_SCHEDULER_MAX]; /* "wrr", "mh,mh-port"; "": the plane has none */
};

/* What the pool itself says: affinity, weights, and mh if its slots are assigned by hash. */
void plan_balancing_of(struct plan_balancing *ret, const struct plan_pool *pool);

/*
 * Share of connections of a backend, 0 to 1; negative when it is not predictable. `sum`: weights of
 * all `n` backends.
 */
double plan_balance_share(enum plan_balance balance, uint32_t weight, uint64_t sum, size_t n);

/* `is_inside`: for pods and this host, at a split frontend. Unknown fields stay. */
typedef void plan_balancing_fn(const void *ctx, const struct plan_rows *rows,
			       const struct plan_pool *pool, bool is_inside,
			       struct plan_balancing *ret);

/* Access to a plane's balancing. `balancing` NULL: by the pool alone. */
struct plan_balancer {
	plan_balancing_fn *balancing;
	const void *ctx;
};
