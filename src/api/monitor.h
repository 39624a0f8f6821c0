/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/monitor - event stream behind `vipctl monitor`.
 *
 *     object received -> operations acknowledged by the kernel, and their latency
 *
 * Without subscribers no events are formatted, and the model reports none. Each subscriber
 * has a queue of MONITOR_QUEUE_MAX bytes. A slow subscriber loses events, and gets their
 * number; it delays nothing.
 */
#pragma once

#include "conntrack/failover.h"
#include "state/context.h"

#define MONITOR_QUEUE_MAX (256 * 1024)
#define MONITOR_SUBSCRIBERS_MAX 8
#define MONITOR_OPS_SHOWN 20 /* operations listed in one event */

struct monitor;

void monitor_open(struct monitor **ret, struct model *m);
/* To be called when the control socket, and so every subscriber, is closed. Accepts NULL. */
void monitor_close(struct monitor *mon);

/* As sync_config.accepted and .rejected; `mon` may be NULL. */
void monitor_accepted(struct monitor *mon, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new);
void monitor_rejected(struct monitor *mon, const struct svc *svc, const char *text);
/* After each step of the sync: report loads, foreign changes and repairs. */
void monitor_stepped(struct monitor *mon, const struct sync *sync);

/* A backend is silent, or is not any more; `mon` may be NULL. */
void monitor_silence(struct monitor *mon, const struct failover_silence *s, bool is_over);

/* An ejection begins, or is over; `mon` may be NULL. */
void monitor_ejection(struct monitor *mon, const struct model_ejection *e, bool is_over);
