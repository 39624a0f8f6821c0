/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/metrics - what is counted, for Prometheus (section 13 of doc/behaviour.md).
 *
 *     sync accepts a service ──► metrics_accepted()    what the kernel holds, latency
 *     after a step of the sync ► metrics_stepped()     how long it took
 *     a source brought news ───► metrics_queued()
 *     GET /metrics ────────────► all of it, as text
 *
 * Names that kube-proxy has keep its prefix, names and buckets, so that its dashboards
 * and alerts go on working; ours begin with vipd_. One sync does both families: what
 * has a label ip_family is the same for both, but for what is counted by frontend.
 *
 * Nothing is counted by walking over services: sums follow the changes. The number of
 * lines does not depend on what the cluster holds.
 */
#pragma once

#include "health/health.h"
#include "health/health_service.h"
#include "http/listen.h"
#include "state/context.h"

struct event_base;
struct metrics;
struct page_server;

/* One list and watch, or one folder. */
struct metrics_source {
	const char *name;       /* "services" */
	bool is_complete;       /* its first list was delivered */
	bool is_failing;        /* in trouble now */
	uint64_t last_event_ns; /* 0 = none yet */
	uint64_t objects;
	uint64_t refused; /* of them */
	uint64_t lists;
	uint64_t watches;
	uint64_t events;
	uint64_t bytes;
};

struct metrics_config {
	const struct serve_context *ctx;               /* borrowed, like all here */
	const struct health *health;                   /* may be NULL */
	const struct health_services *health_services; /* may be NULL */
	struct page_server *page;                      /* answers before us; may be NULL */
	struct listen_place at;                        /* port 0: no server */
	bool is_hard_fail;
	int64_t started_wall_ns;      /* Unix ns */
	const char *mode;             /* for /proxyMode */
	enum plane_counting counting; /* as the plane was told */
	/* Call `add` for each source. May be NULL. */
	void (*sources)(void *arg, void (*add)(void *add_arg, const struct metrics_source *s),
			void *add_arg);
	/* Before each answer: tell what was not told yet (metrics_conntrack). May be NULL. */
	void (*refresh)(void *arg);
	/* For /configz and /flagz (zpages.h); may be NULL. */
	void (*config)(void *arg, struct str *out);
	void (*flags)(void *arg, struct str *out);
	void *arg;
};

MUST_USE int metrics_open(struct metrics **ret, struct event_base *base,
			  const struct metrics_config *config, struct err *err);
void metrics_close(struct metrics *m);

/* A piece of a large service: what the kernel holds changes, and nothing is over yet. */
void metrics_piece_accepted(struct metrics *m, const struct plan_rows *old,
			    const struct plan_rows *new);
/* As sync_config.accepted; `wall_ns` is now by the wall's clock, Unix ns. */
void metrics_accepted(struct metrics *m, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, uint64_t now_ns, int64_t wall_ns);
void metrics_stepped(struct metrics *m);
void metrics_queued(struct metrics *m, int64_t wall_ns);
/* A pass over tracked flows ended, which is for both families; `deleted`: ever. */
void metrics_conntrack(struct metrics *m, uint64_t took_ns, uint64_t deleted);

/* The text of /metrics at this moment. */
void metrics_text(struct metrics *m, struct str *out, uint64_t now_ns, int64_t wall_ns);
