/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health/health - /livez and /healthz.
 *
 * /livez reports whether the process needs a restart, /healthz whether load balancers
 * should use this node (section 12.1 of doc/behaviour.md). A sync covers both families, so
 * both have one state.
 *
 * vipd is unhealthy when a change has been pending for twice the sync period (HC-04); see
 * sync_pending_since() for what is pending. Before the first sync vipd is alive but not ready:
 * load balancers should not use a node whose lists are incomplete (IN-18).
 */
#pragma once

#include "base/str.h"
#include "http/http_port.h"
#include "state/context.h"

struct health;

#define HEALTH_REASON_MAX 384

/* All that an answer depends on. */
struct health_facts {
	int64_t wall_ns;                /* time of the answer, Unix ns */
	uint64_t now_ns;                /* time of the answer, now_ns() */
	uint64_t started_ns;            /* start of the sync loop, counts as an update (HC-03) */
	uint64_t updated_ns;            /* last successful sync; 0 = none yet */
	uint64_t pending_since_ns;      /* 0 = no change is pending */
	uint64_t limit_ns;              /* maximum age of a pending change: 2 x sync period */
	bool has_synced;                /* the first sync was completed */
	bool is_eligible;               /* HC-08 */
	char reason[HEALTH_REASON_MAX]; /* for status 503 of /healthz, else empty */
	bool has_failed[IPFAM_N];       /* address family failed and has not recovered */
	const char *unready;            /* missing feature (HC-05); borrowed, NULL = none */
};

enum health_probe {
	HEALTH_READY = 0, /* /healthz */
	HEALTH_LIVE,      /* /livez */
	HEALTH_PROBES,
};

/* HC-04 only. */
bool health_is_good(const struct health_facts *f);
/* Append the body (HC-10); returns 200 or 503. */
int health_answer(struct str *body, const struct health_facts *f, enum health_probe q);

struct health_config {
	const struct serve_context *ctx; /* borrowed */
	uint64_t sync_period_ns;
	/* Without a Node object the node is eligible: the source has no Node objects. */
	bool is_node_optional;
	struct ip_endpoint at; /* port 0: no server, only facts */
	bool is_hard_fail;     /* see http_port.h */
};

MUST_USE int health_open(struct health **ret, struct event_base *base,
			 const struct health_config *config, struct err *err);
void health_close(struct health *h);
DEFINE_AUTO(struct health *, health_close);
/*
 * What follows when the synced source has no Node object of this node's name, but should: it is
 * the API server, or has Node objects of other names. NULL: nothing is missing.
 */
const char *health_lacks_node(const struct health *h);
void health_facts_get(struct health_facts *ret, const struct health *h, uint64_t now_ns,
		      int64_t wall_ns);
/* HC-16: the proxy's state in answers of health check node ports. */
bool health_is_serving(const struct health *h);
/* Number of answers (HC-12) with status 200 (`is_good`) or 503. */
uint64_t health_answers(const struct health *h, enum health_probe q, bool is_good);
