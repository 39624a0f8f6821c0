/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/metrics - metrics for Prometheus (section 13 of doc/behaviour.md).
 *
 *     kernel accepted a service ──► metrics_accepted()    programmed state, latency
 *     end of a sync step ─────────► metrics_stepped()     duration
 *     sync request of a source ───► metrics_queued()
 *     GET /metrics ───────────────► metrics_text()
 *
 * Metrics that kube-proxy has keep its prefix, names and buckets, so that its dashboards
 * and alerts work unchanged; metrics of vipd begin with vipd_. A sync covers both
 * families: metrics with the label ip_family have equal values for both, except those
 * counted by frontend.
 *
 * Sums are updated with each change, without walks over all services. The number of
 * series depends on the objects in the cluster with --metrics-per-service only (counts.h).
 */
#pragma once

#include "health/health.h"
#include "health/health_service.h"
#include "http/http_port.h"
#include "state/context.h"

struct metrics;
struct pass_result;

struct metrics_config {
	const struct serve_context *ctx; /* borrowed */
	struct ip_endpoint at;           /* port 0: no server */
	bool has_page;                   /* of api/page.h */
	bool is_hard_fail;
	int64_t started_wall_ns; /* Unix ns */
};

MUST_USE int metrics_open(struct metrics **ret, struct event_base *base,
			  const struct metrics_config *config, struct err *err);
void metrics_close(struct metrics *m);
DEFINE_AUTO(struct metrics *, metrics_close);

/*
 * As sync_config.accepted; `wall_ns` is the current Unix time in ns. `svc` NULL: a part of a large
 * service, whose sync continues.
 */
void metrics_accepted(struct metrics *m, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, uint64_t now_ns, int64_t wall_ns);
void metrics_stepped(struct metrics *m);
/* The model changed. Not recorded as a sync request if nothing is pending. */
void metrics_queued(struct metrics *m, int64_t wall_ns);
/* A stale flow scan ended, as conntrack_config.scanned. */
void metrics_conntrack(struct metrics *m, uint64_t took_ns, const struct pass_result *total);

/* Append the text of /metrics. */
void metrics_text(struct metrics *m, struct str *out, uint64_t now_ns, int64_t wall_ns);
