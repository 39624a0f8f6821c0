/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/job - the targets of one pass over the tracked flows, as plain data.
 *
 *     frontend 10.96.0.10:53/UDP   live 10.1.0.7:53
 *         target exact 10.1.0.5:53     flows to this endpoint
 *         target untranslated          flows without DNAT
 *
 * A target defines which flows of its frontend are stale. A flow's two tuples show how
 * it was translated: the original destination is the frontend, the source of its replies
 * is the endpoint; when both are equal, the flow was not translated.
 *
 * conntrack/stale makes a job, conntrack/worker sends it to the helper process, and
 * conntrack/pass performs it there. Pure.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"

/* Limits of one job: making it must not delay the event loop. */
#define JOB_FRONTENDS_MAX 16384
#define JOB_TARGETS_MAX 65536
#define JOB_LIVE_MAX 131072
#define JOB_DEAD_MAX 16384

enum job_kind {
	JOB_TARGET_UNSET = 0,
	JOB_TARGET_EXACT,        /* translated to `to` */
	JOB_TARGET_UNTRANSLATED, /* older than the frontend or its first endpoint; or the mirror
				    image of such a flow */
	JOB_TARGET_TRANSLATED,   /* to any endpoint: the frontend was removed */
	JOB_TARGET_NOT_LIVE,     /* untranslated, or to an endpoint that is not live */
};

struct job_target {
	struct ip_endpoint to; /* JOB_TARGET_EXACT only, else zero */
	uint8_t kind;          /* enum job_kind */
	uint8_t pad[3];
};

struct job_frontend {
	struct ip_tuple key; /* first: ip_tuple_cmp() */
	uint32_t target;     /* the first of n_targets in job.targets */
	uint32_t n_targets;
	uint32_t live; /* the first of n_live in job.live; these are sorted */
	uint32_t n_live;
};
_Static_assert(offsetof(struct job_frontend, key) == 0, "ip_tuple_cmp()");

struct job {
	uint32_t id;
	VEC(struct job_frontend) frontends; /* of UDP; sorted by ip_tuple_cmp() */
	VEC(struct job_target) targets;
	VEC(struct ip_endpoint) live;
	/*
	 * TCP: flows of these frontends that were translated to dead addresses are stale (CT-03),
	 * or, with has_handshakes, untranslated handshakes (CT-12). In any order until job_sort().
	 */
	VEC(struct ip_endpoint) tcp;
	VEC(struct ip_addr) dead;
	bool has_handshakes;
};

/*
 * One tracked flow. Mirror image of an untranslated flow: if the flow is deleted while an
 * answer is in flight, the kernel tracks the answer as a new flow from the frontend's
 * address to the client. The client's next packet is then a "reply" of the new flow and
 * passes untranslated again.
 */
struct job_flow {
	struct ip_endpoint from; /* original source */
	struct ip_endpoint to;   /* original destination */
	struct ip_endpoint by;   /* source of the replies */
	struct ip_endpoint back; /* destination of the replies */
	uint8_t proto;
	/*
	 * In the default zone. An untranslated flow of another zone is another tracker's view
	 * of packets that are translated in the default zone (CT-12d).
	 */
	bool is_default_zone;
	bool is_unanswered; /* no packet of the other direction was seen */
};

void job_fini(struct job *j);
/* Call before job_is_stale(); in the helper, because it takes milliseconds. */
void job_sort(struct job *j);
/* Is `e` a live endpoint of the frontend `f`? */
bool job_is_live(const struct job *j, const struct job_frontend *f, const struct ip_endpoint *e);

/* Does a target of the job match the flow? */
bool job_is_stale(const struct job *j, const struct job_flow *flow);
/* Does the job concern UDP flows of this family? */
bool job_has_family(const struct job *j, enum ipfam fam);
