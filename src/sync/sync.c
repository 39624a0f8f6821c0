/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/sync - the state machine, one step at a time.
 *
 * Order of precedence: load, node-wide rules, pending services (sync/transaction), then,
 * when nothing is pending, checks of the generation, audits (sync/audit) and timers. Under
 * permanent changes these get a step every IDLE_DELAY_NS, urgent timers (is_tick_urgent) theirs at
 * once.
 */
#include "sync/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define BATCH_OPS_DEFAULT 1000 /* about 1,300 elements: 2 to 4 ms under the lock of nf_tables */
/* Shortest time between two requested checks that find nothing. */
#define CHECK_GAP_NS (5 * NSEC_PER_MSEC)
#define IDLE_DELAY_NS (250 * NSEC_PER_MSEC) /* changes delay checks, audits and ticks so long */
#define TICK_AFTER_NS (2 * NSEC_PER_SEC)    /* from a load or commit to a call of plane_ops.tick */
#define NEWEST_MAX 256                      /* services that are compared first after a load */
#define LOAD_RETRY_MAX_NS (5 * NSEC_PER_SEC)
/* A failure that a change by another process explains is logged from this number of attempts on. */
#define LOAD_AGAIN_MAX 3
/* Interval of log lines about a load failure that persists. */
#define LOAD_LOG_NS (300 * NSEC_PER_SEC)

/* --- statistics --- */

void sync_error_note(struct sync *s, const struct err *err, uint64_t now)
{
	memcpy(s->stats.last_error, err->text, sizeof(s->stats.last_error));
	s->stats.last_error_ns = now;
}

void sync_result_note(struct sync *s, const struct plane_result *res)
{
	s->stats.writes += res->done.n_writes;
	s->stats.batches += res->done.n_batches;
	s->stats.kernel_ns += res->done.kernel_ns;
}

static void sync_note(struct sync *s, uint64_t begin_ns, uint64_t end_ns, uint64_t services,
		      uint64_t writes)
{
	s->stats.last_sync_ns = end_ns;
	s->stats.last_sync_took_ns = end_ns - begin_ns;
	s->stats.last_sync_services = services;
	s->stats.last_sync_writes = writes;
}

/* --- states --- */

/* Put a service that is dirty before all others. */
static void queue_first(struct sync *s, struct svc *svc)
{
	list_del(&svc->dirty);
	list_add_after(&s->model->dirty, &svc->dirty);
}

/*
 * Put the services first whose slices have the newest versions: these were probably changed while
 * vipd was stopped.
 */
static void queue_newest_first(struct sync *s)
{
	struct {
		uint64_t version;
		struct svc *svc;
	} newest[NEWEST_MAX]; /* the oldest of them first */
	size_t n = 0;

	list_for_each_entry (svc, &s->model->all, struct svc, all) {
		uint64_t version = 0;
		size_t at;

		list_for_each_entry (e, &svc->slices, struct slice_entry, link)
			version = MAX(version, e->slice->version);
		if (version == 0 || (n == NEWEST_MAX && version <= newest[0].version))
			continue;
		if (n == NEWEST_MAX)
			memmove(&newest[0], &newest[1], --n * sizeof(newest[0]));
		for (at = n; at > 0 && newest[at - 1].version > version; at--)
			newest[at] = newest[at - 1];
		newest[at].version = version;
		newest[at].svc = svc;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		queue_first(s, newest[i].svc);
}

/* Mark every service dirty: the API and DNS first, then the newest, then in order of arrival. */
static void queue_all(struct sync *s)
{
	static const char *const first[][2] = { { "kube-system", "coredns" },
						{ "kube-system", "kube-dns" },
						{ "default", "kubernetes" } };

	list_for_each_entry (svc, &s->model->all, struct svc, all)
		list_move_tail(&s->model->dirty, &svc->dirty);
	queue_newest_first(s);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		struct svc *svc = model_find_text(s->model, first[i][0], first[i][1]);

		if (svc != NULL)
			queue_first(s, svc);
	}
}

/* Log a load failure when it first occurs, when its cause changes, then every LOAD_LOG_NS. */
static void load_failure_log(struct sync *s, const struct err *err, uint64_t wait, uint64_t now)
{
	bool is_same = strcmp(s->load_logged, err->text) == 0;

	if (is_same && now < s->load_logged_ns + LOAD_LOG_NS)
		return;
	log_err(LOG_AREA_SYNC,
		"cannot read or repair kernel state: %s; attempt %" PRIu32
		" failed, next attempt in %.1f s",
		err->text, s->load_failures, (double)wait / NSEC_PER_SEC);
	memcpy(s->load_logged, err->text, sizeof(s->load_logged));
	s->load_logged_ns = now;
}

static uint64_t load_failed(struct sync *s, int r, const struct err *err, uint64_t now)
{
	uint64_t wait = sync_backoff(s->load_failures++, LOAD_RETRY_MAX_NS);
	bool is_change = r == -EAGAIN || r == -ENOENT || r == -ENOTRECOVERABLE;

	s->is_repair |= r == -ENOTRECOVERABLE || r == -ESTALE;
	sync_error_note(s, err, now);
	if (!is_change || s->load_failures >= LOAD_AGAIN_MAX)
		load_failure_log(s, err, wait, now);
	s->state = SYNC_LOADING;
	s->not_before_ns = now + wait;
	return s->not_before_ns;
}

static int env_update(struct sync *s, struct err *err)
{
	struct plane_result res = { 0 };
	uint64_t generation = s->model->env_generation;
	int r = s->plane->ops->env(s->plane, s->model, &res, err);

	sync_result_note(s, &res);
	if (s->state == SYNC_RUNNING)
		sync_incident_writes(s, res.done.n_writes);
	if (s->is_env_pending) /* after a foreign change */
		s->stats.repairs += res.done.n_writes;
	if (r == 0)
		s->env_done = generation;
	return r;
}

/* Rows are built without address families that failed. */
static void left_out_follow(struct sync *s, uint64_t now)
{
	uint8_t failed = plane_families_failed(s->plane);

	if (s->plan->left_out == failed)
		return;
	/*
	 * A family is included again: it may have missed changes. In adoption this happens when the
	 * other family failed: back off.
	 */
	if (s->plan->left_out & ~failed) {
		s->is_load_wanted = true;
		if (s->state == SYNC_ADOPTING)
			s->not_before_ns =
				now + sync_backoff(s->load_failures++, LOAD_RETRY_MAX_NS);
	}
	s->plan->left_out = failed;
	sync_large_forget(s); /* its goal was built for other families */
	s->are_claims_made = false;
	list_for_each_entry (svc, &s->model->all, struct svc, all)
		svc->is_claimed = svc->is_unchanged = false;
}

static void load_begin(struct sync *s)
{
	s->is_repair |= s->incident.begin_ns != 0;
	s->load_begin_ns = now_ns();
	s->load_writes = s->stats.writes;
	s->is_load_wanted = false;
	s->is_env_pending = false;
	s->is_draining = false;
	s->are_claims_made = false;
	sync_large_forget(s);
	s->large.is_unsteady = false;
	s->plane->is_sweep_pending = false;
	queue_all(s);
}

static uint64_t step_load(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r;

	if (!s->is_load_begun)
		load_begin(s);
	r = s->plane->ops->load(s->plane, &err);
	s->is_load_begun = r > 0;
	if (r > 0)
		return SYNC_NOW;
	if (r == 0)
		r = env_update(s, &err);
	if (r < 0) {
		s->stats.failures++;
		return load_failed(s, r, &err, now);
	}
	left_out_follow(s, now);
	s->plan->load_no++;
	s->stats.loads++;
	s->is_tick_wanted = true;
	s->state = SYNC_ADOPTING;
	return SYNC_NOW;
}

/*
 * Is the adoption waiting only for large services that are replaced before they are compared, which
 * may happen again and again? It ends, and the sweep waits for them.
 */
static bool is_unsteady(const struct sync *s)
{
	if (!s->large.is_unsteady)
		return false;
	list_for_each_entry (svc, &s->model->dirty, struct svc, dirty)
		if (!sync_is_adopted(s, svc) && !svc->is_large)
			return false;
	return true;
}

/*
 * Services are pending, or unknown objects may explain kernel state: with services also addresses
 * of node ports.
 */
static bool is_sweep_waiting(const struct sync *s)
{
	return !list_is_empty(&s->model->dirty) ||
	       (s->is_sweep_on_hold &&
		(s->model->stats.services > 0 || s->plane->ops->orphaned(s->plane) > 0));
}

static int sweep(struct sync *s, struct plane_result *res, struct err *err)
{
	const struct plane_ops *ops = s->plane->ops;
	int r = 0;

	if (is_sweep_waiting(s) && ops->supersede != NULL)
		r = ops->supersede(s->plane, res, err); /* then orphans may be gone */
	s->plane->is_sweep_pending = is_sweep_waiting(s);
	return r < 0 || s->plane->is_sweep_pending ? r : ops->sweep(s->plane, res, err);
}

static uint64_t step_sweep(struct sync *s, uint64_t now)
{
	struct plane_result res = { 0 };
	struct err err = { 0 };
	uint64_t writes;
	uint64_t took;
	int r = sweep(s, &res, &err);

	s->busy_ns = 0;
	sync_result_note(s, &res);
	if (r > 0 || (r < 0 && sync_family_failed(s, r, &res, &err)))
		return SYNC_NOW;
	if (r < 0) {
		s->stats.failures++;
		s->stats.sweep_failures++;
		return load_failed(s, r, &err, now);
	}
	s->state = SYNC_RUNNING;
	memory_trim(); /* the loaded state was large and is no longer needed */
	plane_families_settled(s->plane);
	s->load_failures = 0;
	s->load_logged[0] = '\0';
	s->pending_since_ns = 0;
	writes = s->stats.writes - s->load_writes;
	sync_note(s, s->load_begin_ns, now_ns(), s->model->stats.services, writes);
	took = s->stats.last_load_took_ns = MAX(s->stats.last_sync_took_ns, UINT64_C(1));
	if (s->stats.first_sync_ns == 0) {
		s->stats.first_sync_ns = took;
		log_notice(LOG_AREA_SYNC,
			   "in service: services %zu, kernel operations %" PRIu64 ", %" PRIu64
			   " ms",
			   s->model->stats.services, writes, took / NSEC_PER_MSEC);
	} else if (writes > 0 && s->is_repair) {
		s->stats.repairs += writes;
		log_notice(LOG_AREA_SYNC,
			   "foreign changes repaired: kernel operations %" PRIu64 ", %" PRIu64
			   " ms",
			   writes, took / NSEC_PER_MSEC);
	} else if (writes > 0) {
		s->stats.reloaded += writes;
		log_info(LOG_AREA_SYNC,
			 "sync after a load: kernel operations %" PRIu64 ", %" PRIu64 " ms", writes,
			 took / NSEC_PER_MSEC);
	}
	s->is_repair = false;
	s->incident.begin_ns = 0;
	s->touched.is_due = false;
	s->stats.last_success_ns = now_ns();
	if (list_is_empty(&s->model->dirty))
		s->stats.last_ok_ns = s->stats.last_success_ns;
	s->next_check_ns = now + s->config.check_period_ns;
	s->next_audit_ns = now + s->config.audit_period_ns;
	/* Loading compares less than an audit does: schedule one. */
	s->audit.is_wanted = s->config.audit_period_ns != 0;
	s->audit.left = 0;
	s->audit.next_ns = now + NSEC_PER_SEC;
	return SYNC_NOW;
}

/* --- foreign changes --- */

/*
 * Verify the services that the foreign change may concern before all others. While the sweep is
 * pending, the plane's copy of its tables may be out of date: load again.
 */
static void touched_begin(struct sync *s, uint64_t now)
{
	const struct plane_ops *ops = s->plane->ops;
	bool is_any = ops->touched == NULL || ops->touched(s->plane, NULL);

	sync_incident_begin(s);
	/*
	 * While the sweep is pending no audit runs, and a notification can be missed without a
	 * trace: load once per audit period.
	 */
	if (s->plane->is_sweep_pending && !is_any &&
	    (s->config.audit_period_ns == 0 || now < s->next_audit_ns))
		return;
	if (s->plane->is_sweep_pending) {
		s->is_load_wanted = true;
		s->check_after_ns += s->stats.last_load_took_ns;
	}
	s->touched.is_due = true;
	s->touched.left = is_any && ops->touched != NULL ? s->model->services.count : 0;
}

static int foreign_check(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r = s->plane->ops->check(s->plane, &err);

	s->stats.checks++;
	s->next_check_ns = s->check_after_ns = now + s->config.check_period_ns;
	if (r == PLANE_CHECK_CHANGED) {
		s->stats.foreign_changes++;
		s->is_env_pending = true;
		s->audit.is_wanted = true;
		touched_begin(s, now);
		log_debug(LOG_AREA_SYNC, "ruleset changed by %s: verifying", s->plane->changed_by);
	} else if (r == PLANE_CHECK_LOST) {
		s->is_load_wanted = s->is_repair = true;
		/* Limit the share of time in loads when changes do not end. */
		s->check_after_ns += s->stats.last_load_took_ns;
		log_notice(LOG_AREA_SYNC, "ruleset changed by %s: %s; loading again",
			   s->plane->changed_by, err.text);
	} else if (r < 0) {
		sync_error_note(s, &err, now);
	} else {
		s->check_after_ns = now + CHECK_GAP_NS;
	}
	return r;
}

/* Did the failure meet a removal before a check could find it? */
uint64_t sync_load_again(struct sync *s, int r, const struct err *err, uint64_t now)
{
	if (r == -ENOTRECOVERABLE && s->state == SYNC_RUNNING &&
	    foreign_check(s, now) == PLANE_CHECK_LOST)
		return SYNC_NOW;
	return load_failed(s, r, err, now);
}

static void sync_ended(struct sync *s)
{
	uint64_t services = s->stats.services - s->sync_services;
	uint64_t writes = s->stats.writes - s->sync_writes;

	if (services == 0)
		return;
	sync_note(s, s->sync_begin_ns, s->stats.last_step_ns, services, writes);
	log_info(LOG_AREA_SYNC,
		 "sync done: services %" PRIu64 ", kernel operations %" PRIu64 ", %" PRIu64 " us",
		 services, writes, s->stats.last_sync_took_ns / NSEC_PER_USEC);
}

static uint64_t step_transaction(struct sync *s, uint64_t now)
{
	uint64_t services = s->stats.services;
	uint64_t begin = now_ns();
	uint64_t end;
	int r;

	if (!s->is_draining) {
		s->sync_begin_ns = begin;
		s->sync_writes = s->stats.writes;
		s->sync_services = services;
	}
	r = sync_transaction(s, now);
	end = now_ns();

	s->stats.last_step_ns = end;
	s->stats.last_step_took_ns = end - begin;
	if (r == -EAGAIN) /* an address family failed: retry without it */
		return SYNC_NOW;
	if (r < 0) {
		struct err err = { 0 };

		memcpy(err.text, s->stats.last_error, sizeof(err.text));
		return sync_load_again(s, r, &err, now);
	}
	if (s->stats.services > services)
		s->stats.last_success_ns = end;
	sync_audit_put_off(s, now);
	hist_add(&s->stats.step_time, end - begin);
	s->is_draining = s->state == SYNC_RUNNING && !list_is_empty(&s->model->dirty);
	if (s->state == SYNC_RUNNING && !s->is_draining)
		sync_ended(s);
	if (s->config.min_period_ns != 0 && s->state == SYNC_RUNNING && !s->is_draining)
		s->next_sync_ns = now + (end - begin) + s->config.min_period_ns;
	if (s->failures.count == 0 && list_is_empty(&s->model->dirty))
		s->stats.last_ok_ns = end;
	return SYNC_NOW;
}

static void tick(struct sync *s, uint64_t now)
{
	s->plane->has_goal = s->large.goal != NULL;
	s->next_tick_ns = s->plane->ops->tick(s->plane, now);
	if (s->next_tick_ns == 0)
		s->next_tick_ns = now + 60 * NSEC_PER_SEC;
}

/* Do checks, audits and ticks that are due. Returns when the next one is. */
static uint64_t step_idle(struct sync *s, uint64_t now, uint64_t next)
{
	const struct plane_ops *ops = s->plane->ops;

	s->busy_ns = 0;
	/* A check discards touched elements of the previous one: verify their services first. */
	if (s->config.check_period_ns != 0 && !s->touched.is_due) {
		if (now >= s->next_check_ns && foreign_check(s, now) > 0)
			return SYNC_NOW;
		next = MIN(next, s->next_check_ns);
	}
	if (s->config.audit_period_ns != 0 && !s->plane->is_sweep_pending) {
		s->audit.is_wanted |= now >= s->next_audit_ns;
		next = MIN(next, MAX(s->next_audit_ns, now + 1));
	}
	if (s->touched.is_due && !s->plane->is_sweep_pending) {
		if (now >= s->touched.next_ns)
			return sync_touched_step(s, now);
		next = MIN(next, s->touched.next_ns);
	}
	if ((s->audit.is_wanted || s->audit.left > 0) && !s->plane->is_sweep_pending) {
		if (now >= s->audit.next_ns)
			return sync_audit_step(s, now);
		next = MIN(next, s->audit.next_ns);
	}
	if (ops->tick != NULL) {
		if (s->is_tick_wanted)
			s->next_tick_ns = MIN(s->next_tick_ns, now + TICK_AFTER_NS);
		s->is_tick_wanted = false;
		if (now >= s->next_tick_ns)
			tick(s, now);
		next = MIN(next, s->next_tick_ns);
	}
	return next;
}

/* After a failure, what the plane knows of its rules may be wrong: load. */
static uint64_t step_env(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r = env_update(s, &err);

	if (r == 0) {
		s->is_env_pending = false;
		s->stats.last_success_ns = now_ns();
		return SYNC_NOW;
	}
	s->stats.failures++;
	return load_failed(s, r, &err, now);
}

/* Returns when the next attempt for failed address families is due. The attempt is a load. */
static uint64_t families_follow(struct sync *s, uint64_t now)
{
	bool is_due = false;
	uint64_t next = 0;

	if (s->state != SYNC_ADOPTING && !s->is_load_begun)
		next = plane_families_retry(s->plane, now, &is_due);
	s->is_load_wanted |= is_due;
	left_out_follow(s, now);
	return next != 0 ? next : SYNC_NEVER;
}

static uint64_t step(struct sync *s, uint64_t now)
{
	uint64_t retry;
	uint64_t next;

	if (s->state == SYNC_WAITING)
		return SYNC_NEVER;
	retry = families_follow(s, now);
	if (s->state != SYNC_RUNNING && s->pending_since_ns == 0)
		s->pending_since_ns = now;
	if (now < s->not_before_ns)
		return s->not_before_ns;
	if (s->is_load_wanted)
		s->state = SYNC_LOADING;
	if (s->state == SYNC_LOADING)
		return step_load(s, now);
	if (s->is_env_pending || s->env_done != s->model->env_generation)
		return step_env(s, now);
	next = MIN(retry, sync_failures_requeue(s, now));
	if (s->is_load_wanted)
		return SYNC_NOW;
	/* One tick after a commit at most: however long it takes, changes go on. */
	if (s->state == SYNC_RUNNING && s->plane->is_tick_urgent && s->is_tick_wanted &&
	    now >= s->next_tick_ns) {
		s->is_tick_wanted = false;
		tick(s, now);
		return SYNC_NOW;
	}
	/* Permanent changes delay checks, audits and ticks; they do not suppress them. */
	if (list_is_empty(&s->model->dirty) || s->busy_ns == 0)
		s->busy_ns = now;
	if (s->state == SYNC_RUNNING && now >= s->busy_ns + IDLE_DELAY_NS) {
		(void)step_idle(s, now, next);
		return SYNC_NOW;
	}
	if (s->state == SYNC_ADOPTING && now >= s->busy_ns + IDLE_DELAY_NS && is_unsteady(s))
		return step_sweep(s, now);
	if (!list_is_empty(&s->model->dirty)) {
		/* RUN-14: only the first transaction of a sync waits for the minimum period. */
		if (s->state != SYNC_RUNNING || s->is_draining || now >= s->next_sync_ns)
			return step_transaction(s, now);
		next = MIN(next, s->next_sync_ns);
	} else if (s->plane->is_sweep_pending && !s->is_sweep_on_hold) {
		s->plane->is_sweep_pending = false;
		s->state = SYNC_ADOPTING;
		s->load_begin_ns = now_ns();
		s->load_writes = s->stats.writes;
	}
	if (s->state == SYNC_ADOPTING)
		return step_sweep(s, now);
	return step_idle(s, now, next);
}

/* Mark services dirty that may get the affinity that they desire. */
static void replan(struct sync *s)
{
	list_for_each_entry (svc, &s->model->all, struct svc, all)
		if (svc->rows != NULL && plan_rows_is_inexact(s->plan, svc->rows))
			model_mark_displaced(s->model, svc);
}

/* In adoption all services are pending: changes between steps go before them. */
uint64_t sync_step(struct sync *s, uint64_t now)
{
	uint64_t next;

	s->model->has_changes_first = false;
	next = step(s, now);
	s->stats.repairs += s->plane->n_repaired;
	s->plane->n_repaired = 0;
	if (s->plane->is_load_wanted) {
		s->plane->is_load_wanted = false;
		s->is_load_wanted = true;
		next = SYNC_NOW;
	}
	if (s->plane->is_replan_wanted) {
		s->plane->is_replan_wanted = false;
		replan(s);
		next = SYNC_NOW;
	}
	s->model->has_changes_first = s->state == SYNC_ADOPTING;
	return next;
}

void sync_check(struct sync *s, uint64_t now)
{
	s->next_check_ns = MIN(s->next_check_ns, MAX(now, s->check_after_ns));
}

void sync_sources_ready(struct sync *s)
{
	if (s->state == SYNC_WAITING)
		s->state = SYNC_LOADING;
}

void sync_sweep_hold(struct sync *s)
{
	s->is_sweep_on_hold = true;
}

void sync_sweep_release(struct sync *s)
{
	s->is_sweep_on_hold = false;
	/* In adoption, the rows of some services may lack what the hold could not explain. */
	s->is_load_wanted |= s->plane->is_sweep_pending || s->state == SYNC_ADOPTING;
}

bool sync_is_sweep_pending(const struct sync *s)
{
	return s->plane->is_sweep_pending;
}

size_t sync_orphaned_count(const struct sync *s)
{
	return s->plane->is_sweep_pending ? s->plane->ops->orphaned(s->plane) : 0;
}

void sync_open(struct sync **ret, struct model *m, struct plan *p, struct plane *plane,
	       const struct sync_config *config)
{
	struct sync *s = xcalloc(1, sizeof(*s));

	s->model = m;
	s->plan = p;
	s->plane = plane;
	s->config = *config;
	p->piece_work = config->piece_ops ? config->piece_ops : PLANE_PIECE_WORK;
	p->work = plane->ops->backend_work;
	p->plane = plane;
	if (s->config.batch_ops == 0)
		s->config.batch_ops = BATCH_OPS_DEFAULT;
	*ret = s;
}

void sync_close(struct sync *s)
{
	if (s == NULL)
		return;
	sync_large_forget(s);
	sync_failures_fini(s);
	vec_fini(&s->items);
	vec_fini(&s->ops.ops);
	vec_fini(&s->displaced.svcs);
	free(s);
}

enum sync_state sync_state_get(const struct sync *s)
{
	return s->state;
}

const struct sync_stats *sync_stats_get(const struct sync *s)
{
	return &s->stats;
}
