/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/claims - the frontends that each service asks for, and the precedence among services
 * that ask for the same one. Private to plan/.
 */
#pragma once

#include "plan/plan.h"

/*
 * Lower goes first. Cluster IPs and node ports are allocated by the API server, load
 * balancer addresses by a controller; an external IP is whatever a service's author writes.
 */
unsigned int plan_kind_rank(uint8_t kind);
/*
 * Replace the claims of `svc` by those of `rows` (sorted; NULL: none) and of the frontends
 * that the kernel still has for the service. Marks services dirty that may get a frontend.
 */
void plan_claims_replace(struct plan *p, struct svc *svc, const struct plan_rows *rows);
/* The kernel no longer has the frontends that the service does not ask for. */
void plan_claims_left(struct plan *p, struct svc *svc);
