/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health/health - is this proxy alive, and may this node be given traffic?
 *
 * /livez asks whether the process should be restarted, /healthz whether load balancers
 * should choose this node (section 12.1 of doc/behaviour.md). One sync does both
 * families, so both have the same state.
 *
 * A change that the kernel has not taken for twice the sync period makes us
 * unhealthy (HC-04); see sync_owed_since() for what counts as owed. Before the first
 * sync we are alive but not ready: nobody should send traffic to a node whose
 * lists could not be read (IN-18).
 */
#pragma once

#include "base/str.h"
#include "http/listen.h"
#include "state/context.h"

struct event_base;
struct health;

#define HEALTH_REASON_MAX 384

/* All that an answer depends on. */
struct health_facts {
	int64_t wall_ns;                /* the answer's time, Unix ns */
	uint64_t now_ns;                /* the same moment in terms of now_ns() */
	uint64_t started_ns;            /* begin of the sync loop: counts as an update (HC-03) */
	uint64_t updated_ns;            /* last successful sync; 0 = none yet */
	uint64_t owed_since_ns;         /* 0 = nothing is owed */
	uint64_t limit_ns;              /* how long something may be owed: 2 x sync period */
	bool has_synced;                /* the first sync was completed */
	bool is_eligible;               /* HC-08 */
	char reason[HEALTH_REASON_MAX]; /* why /healthz is 503, for people; empty: it is not */
	bool has_failed[IPFAM_N];       /* an address family, and has not recovered */
	const char *unready;            /* what the plane lacks (HC-05); borrowed, NULL = nothing */
};

enum health_question {
	HEALTH_READY = 0, /* /healthz */
	HEALTH_LIVE,      /* /livez */
	HEALTH_QUESTIONS,
};

/* HC-04, and nothing else: what servers of single services say of us (HC-16). */
bool health_is_good(const struct health_facts *f);
/* Append the body (HC-10); returns 200 or 503. */
int health_answer(struct str *body, const struct health_facts *f, enum health_question q);

struct health_config {
	const struct serve_context *ctx; /* borrowed */
	uint64_t sync_period_ns;
	/* Without any Node object we are eligible: nobody could have said that we are not. */
	bool is_node_optional;
	struct listen_place at; /* port 0: no server, but facts are known */
	bool is_hard_fail;      /* a place that is taken is a failure, not a reason to wait */
};

/* With is_hard_fail the bind's errno; else it is logged, and tried again every LISTEN_RETRY_S. */
MUST_USE int health_open(struct health **ret, struct event_base *base,
			 const struct health_config *config, struct err *err);
void health_close(struct health *h);
/* The source is complete, and has no Node object of our name although it should. */
bool health_lacks_node(const struct health *h);
void health_facts_get(struct health_facts *ret, const struct health *h, uint64_t now_ns,
		      int64_t wall_ns);
/* Answers given (HC-12); `is_good`: those with 200, else with 503. */
uint64_t health_answers(const struct health *h, enum health_question q, bool is_good);
