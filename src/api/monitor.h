/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/monitor - what happens, told to who looks on, while it happens.
 *
 *     an object came or went -> what the kernel took for it -> how long that took
 *
 * With nobody looking on, nothing is made: the model's news are not even asked for.
 * Each reader has a queue of MONITOR_QUEUE_MAX bytes. One that is too slow loses
 * events and is told how many; it never holds anything up.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

#define MONITOR_QUEUE_MAX (256 * 1024)
#define MONITOR_READERS_MAX 8
#define MONITOR_OPS_SHOWN 20 /* operations of one event that are told one by one */

struct monitor;

void monitor_open(struct monitor **ret, struct model *m);
/* All readers are gone: the control socket is closed first. Accepts NULL. */
void monitor_close(struct monitor *mon);

/* As sync_config.accepted and .refused; `mon` may be NULL. */
void monitor_accepted(struct monitor *mon, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new);
void monitor_refused(struct monitor *mon, const struct svc *svc, const char *text);
/* After each step of the sync: has somebody else changed the kernel's state, was it repaired? */
void monitor_stepped(struct monitor *mon, const struct sync *sync);

/* /v1/monitor */
void body_monitor(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q);
