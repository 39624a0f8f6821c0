/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/stale - which tracked flows the accepted changes made stale.
 *
 *     stale_accepted() ...     every service the kernel took: what it had, what it has
 *     stale_start()            the first adoption is over: everything is looked at once
 *     stale_job_take()         what is due goes to the helper ...
 *     stale_job_done()         ... and is settled, or owed still
 *
 * A ledger of the UDP frontends and, for each service port, its live endpoints:
 * those that are ready or serving, whatever policies and topology say (CT-04), so
 * that a terminating endpoint keeps its flows while it answers. Whatever differs
 * from the ledger makes flows stale, and is owed from that moment until a pass
 * that looked for it has succeeded:
 *
 *   an endpoint is no longer live        flows of each frontend that lead to it
 *   a frontend is new, or had no live    flows that nobody translated, made before
 *   endpoint and now has one
 *   a frontend is gone                   all translated flows to it (CT-12b)
 *
 * Scaling up owes nothing. Each target is looked for twice, the second time
 * STALE_AGAIN_NS later: a packet that chose its endpoint before the commit may be
 * confirmed after the first pass, and such a flow would stay for good.
 *
 * TCP: with `is_reset` also the frontends and endpoints of TCP services are kept.
 * A flow is dead when its endpoint's address is in no slice of any service any
 * more and stays so for STALE_DEAD_NS; otherwise TCP is never touched (CT-03).
 *
 * Pure: no I/O, no clock. Costs of a change depend on the services it touches.
 */
#pragma once

#include "conntrack/job.h"
#include "plan/rows.h"

#define STALE_AGAIN_NS (2 * NSEC_PER_SEC)
#define STALE_DEAD_NS (5 * NSEC_PER_SEC)
/* How often an endpoint that is gone from one service, not from all, is thought of again. */
#define STALE_ALIVE_NS (30 * NSEC_PER_SEC)
#define STALE_RETRY_MIN_NS (100 * NSEC_PER_MSEC)
#define STALE_RETRY_MAX_NS (60 * NSEC_PER_SEC)
#define STALE_NEVER UINT64_MAX

struct stale;

struct stale_stats {
	size_t frontends; /* in the ledger */
	size_t owed;      /* targets not settled, those under way too */
};

/* `m` is borrowed. `is_reset`: --dead-flows=reset; the model must track addresses then. */
void stale_open(struct stale **ret, const struct model *m, bool is_reset);
void stale_close(struct stale *s);
DEFINE_AUTO(struct stale *, stale_close);

/*
 * The kernel holds `rows` (NULL: nothing) for `svc`, and the model still says what
 * they were made of. Called for every service, those without UDP too.
 */
void stale_accepted(struct stale *s, const struct svc *svc, const struct plan_rows *rows,
		    uint64_t now);
/* The kernel had this frontend, of an earlier life, and no longer has it. */
void stale_gone(struct stale *s, const struct ip_addr *addr, uint16_t port, uint8_t proto,
		uint64_t now);
/*
 * The ledger is complete. Until then nothing is owed but what is gone: flows made
 * by an earlier process are as good as our own. Now every frontend is looked at.
 */
void stale_start(struct stale *s, uint64_t now);
/* Others meddled with the rules: every frontend is looked at again. */
void stale_recheck(struct stale *s, uint64_t now);

/* When stale_job_take() has something to give; STALE_NEVER while a job is under way. */
uint64_t stale_next(const struct stale *s);
/*
 * Fill `ret` (zeroed) with what is due, within the bounds of a job. False: nothing.
 * One job at a time.
 */
bool stale_job_take(struct stale *s, struct job *ret, uint64_t now);
/*
 * The job is over, `took_ns` after it began. `result` is 0, or a negative errno:
 * then all of it is still owed, and tried again with backoff. A helper that has
 * worked for long is given a rest: four times what it took, at most half a second.
 */
void stale_job_done(struct stale *s, uint32_t id, int result, uint64_t took_ns, uint64_t now);

struct stale_stats stale_stats_get(const struct stale *s);
