/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/audit - compare programmed services with the kernel, a few in each step, and log what a
 * foreign change did.
 */
#include "sync/state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"

/*
 * Services that an audit verifies in a step, fewer when they are large. After a step the
 * audit pauses four times the step's duration, once its duration after a foreign change. A
 * Kubernetes change waits for the lookup of some hundred elements at most, well below a
 * millisecond, unless a single service has more.
 */
#define AUDIT_SERVICES 32
#define AUDIT_OPS 64
#define AUDIT_PART_OPS 1000 /* of a service that has more: below 10 ms */
#define AUDIT_WORK 10000    /* rows searched for touched ones: below 10 ms */
#define AUDIT_REST 4
#define AUDIT_REST_INCIDENT 1
/* A change delays the next step by this duration, and many changes by no more than the limit. */
#define AUDIT_QUIET_NS (20 * NSEC_PER_MSEC)
#define AUDIT_DELAY_NS (100 * NSEC_PER_MSEC)
/*
 * Limits verification when another process changes rules permanently: passes take a
 * twentieth of the time, but no pass waits longer than this.
 */
#define AUDIT_GAP_NS (10 * NSEC_PER_SEC)
#define AUDIT_GAP_FACTOR 19

/* --- foreign changes --- */

void sync_incident_begin(struct sync *s)
{
	if (s->incident.begin_ns != 0 && s->incident.writes > 0)
		return; /* the previous one is not yet logged: count both as one */
	s->incident.begin_ns = now_ns();
	s->incident.writes = 0;
	memcpy(s->incident.by, s->plane->changed_by, sizeof(s->incident.by));
}

void sync_incident_writes(struct sync *s, uint64_t writes)
{
	if (s->incident.begin_ns == 0 || writes == 0)
		return;
	s->incident.writes += writes;
	s->incident.repaired_ns = now_ns();
}

/*
 * Every service is verified: log the repair, if there was one. `is_more`: another foreign
 * change occurred meanwhile.
 */
static void incident_end(struct sync *s, bool is_more)
{
	if (s->incident.begin_ns != 0 && s->incident.writes > 0)
		log_notice(LOG_AREA_SYNC,
			   "ruleset changed by %s: repaired: kernel operations %" PRIu64
			   ", %" PRIu64 " ms",
			   s->incident.by, s->incident.writes,
			   (s->incident.repaired_ns - s->incident.begin_ns) / NSEC_PER_MSEC);
	s->incident.begin_ns = 0;
	if (is_more)
		sync_incident_begin(s);
}

/* --- steps --- */

/*
 * Audit part of the rows of a large service. 1: rows are left. Rows that change between two
 * parts may be compared twice, or not before the next audit.
 */
static int audit_part(struct sync *s, struct svc *svc, struct err *err)
{
	const struct plane_ops *ops = s->plane->ops;
	size_t from = svc == s->audit.part_of ? s->audit.part : 0;
	int r = 0;

	if (from == 0) {
		s->audit.part_ops = AUDIT_PART_OPS;
		if (ops->audit_read != NULL)
			r = ops->audit_read(s->plane, svc->rows, &s->audit.part_ops, err);
	}
	if (r != 0)
		return r;
	s->audit.part = plan_diff_part(&s->ops, svc, svc->rows, from, s->audit.part_ops);
	s->audit.part_of = s->audit.part > 0 ? svc : NULL;
	return s->audit.part > 0;
}

/* Is the service audited? Adds the work of this decision to `work`. */
static bool is_audited(const struct sync *s, const struct svc *svc, bool is_touched_only,
		       size_t *work)
{
	++*work;
	if (svc->rows == NULL || !sync_is_adopted(s, svc))
		return false;
	if (!is_touched_only)
		return true;
	*work += sync_rows_weight(svc->rows);
	return s->plane->ops->touched(s->plane, svc->rows);
}

/*
 * Collect the rows of the next services as additions; of `touched.left`, the touched ones. An error
 * is that of a service that was left out.
 */
static int audit_collect(struct sync *s, size_t *left, struct err *err)
{
	struct list *all = &s->model->all;
	size_t work = 0;
	int n = 0;
	int r = 0;

	vec_clear(&s->ops.ops);
	*left = MIN(*left, s->model->services.count); /* removed ones: visit none twice */
	while (r == 0 && *left > 0 && n < AUDIT_SERVICES && s->ops.ops.n < AUDIT_OPS &&
	       work < AUDIT_WORK) {
		struct svc *svc = list_entry(all->next, struct svc, all);
		bool is_in = is_audited(s, svc, left == &s->touched.left, &work);

		n += is_in;
		if (is_in && sync_rows_weight(svc->rows) > AUDIT_PART_OPS) {
			r = audit_part(s, svc, err);
			if (r > 0)
				break;
			is_in = false;
		}
		list_move_tail(all, &svc->all);
		--*left;
		if (is_in)
			plan_diff(&s->ops, svc, NULL, svc->rows);
	}
	plan_ops_leave_out(s->plan, &s->ops, 0);
	return MIN(r, 0);
}

static void audit_end(struct sync *s, uint64_t now)
{
	uint64_t took = now_ns() - s->audit.begin_ns;

	s->stats.audits++;
	s->stats.repairs += s->audit.writes;
	if (!s->audit.has_failed)
		s->stats.last_success_ns = now_ns();
	if (s->audit.writes > 0 && s->incident.begin_ns == 0)
		log_notice(LOG_AREA_SYNC,
			   "foreign changes repaired: kernel operations %" PRIu64 ", %" PRIu64
			   " ms",
			   s->audit.writes, took / NSEC_PER_MSEC);
	s->next_audit_ns = now + s->config.audit_period_ns;
	s->audit.next_ns = now + MIN(AUDIT_GAP_FACTOR * s->audit.worked_ns, AUDIT_GAP_NS);
	incident_end(s, s->audit.is_wanted && s->incident.begin_ns != 0);
}

/* Compare the next services of `left`. Negative: kernel state is loaded again. */
static int audit_piece(struct sync *s, size_t *left, struct plane_result *res, uint64_t now)
{
	struct err left_out = { 0 };
	struct err err = { 0 };
	int q = audit_collect(s, left, &left_out);
	int r = 0;

	if (s->ops.ops.n > 0)
		r = s->plane->ops->commit(s->plane, s->ops.ops.v, s->ops.ops.n, PLANE_COMMIT_AUDIT,
					  res, &err);
	if (r == 0 && q < 0) {
		r = q;
		err = left_out;
	}
	sync_result_note(s, res);
	sync_incident_writes(s, res->done.n_writes);
	if (r == -EBUSY || r == -ENOTRECOVERABLE) {
		(void)sync_load_again(s, r, &err, now);
		return r;
	}
	if (r < 0) { /* a concurrent change, or rejected: retry later */
		sync_error_note(s, &err, now);
		log_warn(LOG_AREA_SYNC,
			 "audit: not all services are verified: %s; another audit follows",
			 err.text);
		s->audit.is_wanted = s->audit.has_failed = true;
	}
	return 0;
}

uint64_t sync_touched_step(struct sync *s, uint64_t now)
{
	struct plane_result res = { 0 };
	uint64_t begin = now_ns();

	if (s->touched.left > 0 && audit_piece(s, &s->touched.left, &res, now) < 0)
		return s->not_before_ns;
	s->stats.repairs += res.done.n_writes;
	s->touched.next_ns = now + AUDIT_REST_INCIDENT * (now_ns() - begin);
	if (s->touched.left == 0) {
		s->touched.is_due = false;
		incident_end(s, true);
	}
	return SYNC_NOW;
}

uint64_t sync_audit_step(struct sync *s, uint64_t now)
{
	struct plane_result res = { 0 };
	uint64_t begin = now_ns();
	uint64_t worked;

	if (s->audit.left == 0) {
		s->audit.is_wanted = s->audit.has_failed = false;
		s->next_audit_ns = now + s->config.audit_period_ns;
		s->audit.left = s->model->services.count;
		s->audit.begin_ns = begin;
		s->audit.writes = 0;
		s->audit.worked_ns = 0;
	}
	if (audit_piece(s, &s->audit.left, &res, now) < 0)
		return s->not_before_ns;
	s->audit.writes += res.done.n_writes;
	worked = now_ns() - begin;
	s->audit.worked_ns += worked;
	s->audit.next_ns =
		now + (s->incident.begin_ns != 0 ? AUDIT_REST_INCIDENT : AUDIT_REST) * worked;
	s->audit.late_ns = s->audit.next_ns + AUDIT_DELAY_NS;
	if (s->audit.left == 0)
		audit_end(s, now);
	return SYNC_NOW;
}

void sync_audit_put_off(struct sync *s, uint64_t now)
{
	if (s->incident.begin_ns == 0)
		s->audit.next_ns =
			MAX(s->audit.next_ns, MIN(now + AUDIT_QUIET_NS, s->audit.late_ns));
}
