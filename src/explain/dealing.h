/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/dealing - how a plane balances connections over the backends of a pool.
 *
 * A plane with schedulers provides the scheduler in effect and the weight of each backend,
 * which a pool does not have.
 */
#pragma once

#include "plan/rows.h"

enum plan_deal {
	PLAN_DEAL_EVENLY = 0,
	PLAN_DEAL_BY_WEIGHT,
	PLAN_DEAL_UNTOLD, /* depends on present connections: not predictable */
};

#define PLAN_SCHEDULER_MAX 40

struct plan_dealing {
	uint8_t deal;      /* enum plan_deal; a backend of weight 0 gets no connections */
	bool is_by_client; /* hashes the source: shares are those of clients */
	uint32_t affinity_s;
	char scheduler[PLAN_SCHEDULER_MAX]; /* "wrr", "mh,mh-port"; "": the plane has none */
};

/* Access to a plane's balancing. `dealing` NULL: by the pool alone; `weight` NULL: 1. */
struct plan_dealer {
	/* `is_inside`: for pods and this host, at a split frontend. Unknown fields stay. */
	void (*dealing)(const void *ctx, const struct plan_rows *rows, const struct plan_pool *pool,
			bool is_inside, struct plan_dealing *ret);
	uint32_t (*weight)(const void *ctx, const struct plan_rows *rows,
			   const struct plan_pool *pool, const struct plan_backend *b);
	const void *ctx;
};
