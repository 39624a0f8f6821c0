/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/stale - the tracked flows that accepted changes have made stale.
 *
 *     stale_accepted() ...     for every service that was programmed
 *     stale_start()            after the first adoption: scan all frontends once
 *     stale_job_take()         due targets go to the helper ...
 *     stale_job_done()         ... and are done, or still pending
 *
 * A ledger of the UDP frontends and, for each service port, its live endpoints: those
 * that are ready or serving, independent of policies and topology (CT-04), so that a
 * terminating endpoint keeps its flows while it answers. A difference from the ledger
 * makes flows stale; the target is pending until a pass that scanned for it succeeded:
 *
 *   an endpoint is no longer live        flows of each frontend to the endpoint
 *   a frontend is new, or had no live    older, untranslated flows
 *   endpoint and now has one
 *   a frontend was removed               all translated flows to it (CT-12b)
 *
 * Scaling up needs no scan. Each target is scanned twice, the second time after
 * STALE_AGAIN_NS: the flow of a packet that was translated before the commit may be
 * confirmed after the first pass.
 *
 * TCP: a handshake without an answer that was not translated, because the rules were missing, is
 * stale when they are there again. With `is_reset` a flow is dead when its endpoint's address was
 * in no slice of any service for STALE_DEAD_NS. Other TCP flows are never deleted (CT-03). See
 * conntrack/tcp.
 *
 * Pure: no I/O, no clock. The cost of a change depends on the services it affects.
 */
#pragma once

#include "conntrack/job.h"
#include "plan/rows.h"

#define STALE_AGAIN_NS (2 * NSEC_PER_SEC)
#define STALE_DEAD_NS (5 * NSEC_PER_SEC)
#define STALE_LATE_NS (30 * NSEC_PER_SEC)
/* Until the next scan of a job with flows that the kernel cannot delete now. */
#define STALE_BUSY_NS (5 * NSEC_PER_SEC)
#define STALE_RETRY_MIN_NS (100 * NSEC_PER_MSEC)
#define STALE_RETRY_MAX_NS (60 * NSEC_PER_SEC)
#define STALE_NEVER UINT64_MAX

struct stale;

struct stale_stats {
	size_t frontends; /* in the ledger */
	size_t pending;   /* targets, those of the current job included */
};

/* `m` is borrowed. `is_reset`: --dead-flows=reset; the caller reports stale_addr_event() then. */
void stale_open(struct stale **ret, const struct model *m, bool is_reset);
void stale_close(struct stale *s);

/*
 * `rows` (NULL: none) are programmed for `svc`; the model has not changed since they were
 * built, without the address families `left_out` (bits), whose rules stay. Called for every
 * service, also without UDP.
 */
void stale_accepted(struct stale *s, const struct svc *svc, const struct plan_rows *rows,
		    uint8_t left_out, uint64_t now);
/*
 * `new` rows (NULL: none) are programmed instead of `old` ones, perhaps on the way to those of
 * stale_accepted().
 */
void stale_replaced(struct stale *s, const struct plan_rows *old, const struct plan_rows *new);
/* As model.addr_event. */
void stale_addr_event(struct stale *s, const struct ip_addr *addr, bool is_listed, uint64_t now);
/* A frontend that an earlier process programmed was removed. */
void stale_gone(struct stale *s, const struct ip_addr *addr, uint16_t port, uint8_t proto,
		uint64_t now);
/*
 * The ledger is complete: scan every frontend. Before this call only removed frontends are
 * pending: flows of an earlier process are as valid as our own.
 */
void stale_start(struct stale *s, uint64_t now);
/* After a foreign change to the rules: scan every frontend again. */
void stale_recheck(struct stale *s, uint64_t now);

/* When stale_job_take() can return a job; STALE_NEVER while a job is under way. */
uint64_t stale_next(const struct stale *s);
/*
 * Fill `ret` (zeroed) with due targets, within the limits of a job. False: none is due. One
 * job at a time.
 */
bool stale_job_take(struct stale *s, struct job *ret, uint64_t now);
/*
 * The id of the job under way if it would delete flows that a later change has made valid, else 0.
 * The caller ends this job with -ECANCELED.
 */
uint32_t stale_job_outdated(const struct stale *s);
/*
 * The job ended, `took_ns` after its begin. `result` is 0, or a negative errno: its targets
 * then stay pending and are retried with backoff. -EBUSY: those of UDP are retried after
 * STALE_BUSY_NS, in a job without other targets, which do not wait; dead addresses after
 * STALE_DEAD_NS, with other targets. -ECANCELED: without backoff. The next job
 * waits for half a second at most, if the helper has used more than its share.
 */
void stale_job_done(struct stale *s, uint32_t id, int result, uint64_t took_ns, uint64_t now);

/* Is the first scan of a removed frontend pending? The next process does not repeat it. */
bool stale_has_removed(const struct stale *s);
struct stale_stats stale_stats_get(const struct stale *s);
