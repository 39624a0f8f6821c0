/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/servers - health and metrics servers, history, status page, supervisor.
 *
 * One object that vipd.c updates, so that the wiring in vipd.c stays short.
 */
#pragma once

#include "metrics/metrics.h"
#include "settings/options.h"

struct servers;

/* Sets ctx->health, ctx->history and ctx->health_services. */
MUST_USE int servers_open(struct servers **ret, struct event_base *base, struct serve_context *ctx,
			  const struct options *options, struct err *err);
void servers_close(struct servers *s);
DEFINE_AUTO(struct servers *, servers_close);

/* As sync_config.accepted. */
void servers_accepted(struct servers *s, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, bool is_whole);
/* After each step of the sync. */
void servers_stepped(struct servers *s);
/* The model was changed. */
void servers_changed(struct servers *s);
struct metrics *servers_metrics(const struct servers *s);
