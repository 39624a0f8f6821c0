/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/outside - all that watches vipd from outside: health, metrics, the service manager.
 *
 * One object for vipd.c to feed, so that what is wired there stays short.
 */
#pragma once

#include "metrics/metrics.h"

struct outside;

struct outside_config {
	const struct serve_context *ctx; /* borrowed */
	struct listen_place healthz;     /* port 0: none */
	struct listen_place metrics;     /* port 0: none */
	bool has_page;                   /* the status page, beside the metrics */
	bool is_hard_fail;
	bool is_node_optional; /* see health.h */
	uint64_t sync_period_ns;
	const char *mode;
	enum plane_counting counting; /* as the plane was told */
	/* As in metrics_config; may be NULL. */
	void (*sources)(void *arg, void (*add)(void *add_arg, const struct metrics_source *s),
			void *add_arg);
	void (*refresh)(void *arg);
	void (*config)(void *arg, struct str *out);
	void (*flags)(void *arg, struct str *out);
	void *arg;
};

MUST_USE int outside_open(struct outside **ret, struct event_base *base,
			  const struct outside_config *config, struct err *err);
void outside_close(struct outside *o);

/* For the context, which is there before they are. */
const struct health *outside_health(const struct outside *o);
const struct history *outside_history(const struct outside *o);

/* As sync_config.accepted. */
void outside_accepted(struct outside *o, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, bool is_whole);
/* After each step of the sync. */
void outside_stepped(struct outside *o);
/* The model was changed. */
void outside_changed(struct outside *o);
/* As metrics_conntrack(). */
void outside_conntrack(struct outside *o, uint64_t took_ns, uint64_t deleted);
