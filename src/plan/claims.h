/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/claims - the frontends that each service claims, and the precedence of services that
 * claim one frontend (SEL-14). Private to plan/.
 */
#pragma once

#include "plan/plan.h"

/*
 * A lower rank has precedence. Cluster IPs and node ports are allocated by the API server,
 * load balancer addresses by a controller; external IPs are unchecked user input.
 */
unsigned int plan_kind_rank(uint8_t kind);
/*
 * Replace the claims of `svc` by those of `rows` (sorted; NULL: none) and of the service's
 * programmed frontends. Marks services dirty that may get a frontend.
 */
void plan_claims_replace(struct plan *p, struct svc *svc, const struct plan_rows *rows);
/* plan_claims_replace(), unless only endpoints changed since the last time; no claim is due then.
 */
void plan_claims_follow(struct plan *p, struct svc *svc, const struct plan_rows *rows);
/* The services' claims are freed already. */
void plan_claims_fini(struct plan *p);
/* Number of frontends that `svc` claims. */
size_t plan_claims_count(const struct svc *svc);
/* The kernel no longer has frontends of `svc` that `svc` does not claim. */
void plan_claims_left(struct plan *p, struct svc *svc);
