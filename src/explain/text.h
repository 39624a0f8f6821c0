/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/text - operations and frontends as stable text, for logs, vipctl and golden tests.
 *
 *     frontend-add 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)
 *     backend-move pool 1 10.1.0.5:8080 4 -> 1
 */
#pragma once

#include "base/str.h"
#include "explain/balancing.h"
#include "plan/plan.h"

/* One line. */
void plan_op_print(struct str *out, const struct plan_op *op);
/*
 * A frontend and its backends, without pool ids and slots, no newline. nft/decode.h prints
 * kernel state in this format too, so that both can be compared.
 *
 *     10.96.0.10:53/UDP cluster-ip -> 10.1.0.4:53 10.1.0.5:53
 *     10.96.0.10:53/UDP cluster-ip -> 10.1.0.4:53=3 10.1.0.5:53 scheduler=wrr
 *
 * `balancer` provides scheduler and weights; NULL: the plane has none.
 */
void plan_frontend_led_print(struct str *out, const struct plan_rows *rows,
			     const struct plan_frontend *f, const struct plan_balancer *balancer);
/* Parts of that line: " 10.1.0.4:53=3", " affinity=600s scheduler=rr". */
void plan_led_backend_print(struct str *out, const struct ip_addr *addr, uint16_t port,
			    uint32_t weight);
void plan_led_balancing_print(struct str *out, const struct plan_balancing *d);
