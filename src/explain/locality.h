/* SPDX-License-Identifier: GPL-2.0-or-later */
/* explain/locality - how much of a service port's traffic stays on this node and in its zone. */
#pragma once

#include "explain/balancing.h"
#include "model/select.h"

/* Shares of new connections to the cluster set, 0 to 1; negative: unknown. */
struct plan_locality {
	double node;
	double zone; /* unknown also if the zone of this node or of a used endpoint is */
};

/*
 * `pool`: the programmed cluster pool of the port, or NULL: all weights count as 1. Both shares are
 * unknown while the set is empty, and for a scheduler whose shares are not predictable.
 */
void plan_locality_of(struct plan_locality *ret, const struct model *m, const struct selection *sel,
		      const struct plan_rows *rows, const struct plan_pool *pool,
		      const struct plan_balancer *balancer);
