/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/dealing - how a plane deals connections to the backends of a pool; for people.
 *
 * A plane with schedulers knows more of that than pools say: which one is in force, and
 * what each backend weighs.
 */
#pragma once

#include "plan/rows.h"

enum plan_deal {
	PLAN_DEAL_EVENLY = 0,
	PLAN_DEAL_BY_WEIGHT,
	PLAN_DEAL_UNTOLD, /* by the connections there are: nobody can say beforehand */
};

#define PLAN_SCHEDULER_MAX 40

struct plan_dealing {
	uint8_t deal;      /* enum plan_deal; who weighs 0 gets nothing in any case */
	bool is_by_client; /* the same client is led the same way; chances are those of clients */
	uint32_t affinity_s;
	char scheduler[PLAN_SCHEDULER_MAX]; /* "wrr", "mh,mh-port"; "": the plane has none */
};

/* Who knows. Either may be NULL: as the pool says, and 1. */
struct plan_dealer {
	/* `is_inside`: to pods and this host, at a split frontend. Fills what it knows. */
	void (*dealing)(const void *ctx, const struct plan_rows *rows, const struct plan_pool *pool,
			bool is_inside, struct plan_dealing *ret);
	uint32_t (*weight)(const void *ctx, const struct plan_rows *rows,
			   const struct plan_pool *pool, const struct plan_backend *b);
	const void *ctx;
};
