/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/sync - one transaction a step.
 *
 * A step takes dirty services in order, builds their rows, and hands the
 * differences to the plane, cut only between services. A refusal that names a
 * service sets it aside and goes on with its neighbours; one that names nobody
 * halves the transaction until somebody is left alone. A service that takes a
 * frontend from another is glued to it: both sides change in one transaction.
 */
#include "sync/sync.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

#define BATCH_OPS_DEFAULT 6000 /* 2-3 elements each: about 20 ms under the kernel's lock */
#define RETRY_MIN_NS (100 * NSEC_PER_MSEC)
#define RETRY_MAX_NS (30 * NSEC_PER_SEC)
#define SPARED_RETRY_MAX_NS (300 * NSEC_PER_SEC) /* each reads the kernel as a whole */
#define DIRTY_LOOK_MAX 64
#define LOAD_RETRY_MAX_NS (5 * NSEC_PER_SEC)
/* An audit looks at this many services a step, and rests four times as long as it worked. */
#define AUDIT_SERVICES 32
#define AUDIT_REST 4
/* Somebody who changes rules all the time does not keep us auditing all the time. */
#define AUDIT_GAP_NS (10 * NSEC_PER_SEC)

/* One service of the transaction in the making. */
struct item {
	struct svc *svc;
	struct plan_rows *rows; /* wanted; NULL = nothing */
	size_t ops_begin;
	size_t ops_end;
	bool is_glued; /* belongs together with the item before it */
	bool is_settled;
};

struct sync {
	struct model *model;
	struct plan *plan;
	struct plane *plane;
	struct sync_config config;
	struct sync_stats stats;
	enum sync_state state;
	bool is_load_wanted;
	bool is_env_owed;
	struct {
		bool is_wanted;
		size_t left; /* services of the pass under way */
		uint64_t writes;
		uint64_t begin_ns;
		uint64_t next_ns; /* next step, or the earliest begin of the next pass */
	} audit;
	uint32_t load_no;
	uint32_t load_failures;
	uint64_t load_writes; /* stats.writes when the load began */
	uint64_t load_begin_ns;
	uint64_t behind_since_ns; /* not RUNNING since then; 0 = RUNNING, or WAITING */
	uint64_t env_failed_ns;   /* when node-wide rules were first refused; 0 = they were not */
	uint64_t not_before_ns;   /* minimum period, or backoff of a failed load */
	uint64_t next_check_ns;
	uint64_t next_audit_ns;
	uint64_t next_tick_ns;
	uint64_t env_done;
	uint32_t env_failures;
	struct htable failures;
	uint64_t next_retry_ns; /* the earliest of them */
	VEC(struct item) items;
	struct plan_ops ops;
	struct plan_displaced displaced;
};

/* --- failures --- */

static uint32_t svc_hash(const struct name *ns, const struct name *name)
{
	const struct name *key[2] = { ns, name };

	return hash_bytes(key, sizeof(key));
}

static struct sync_failure *failure_find(const struct sync *s, const struct svc *svc)
{
	htable_for_each_hash (n, &s->failures, svc_hash(svc->ns, svc->name)) {
		struct sync_failure *f = container_of(n, struct sync_failure, node);

		if (f->ns == svc->ns && f->name == svc->name)
			return f;
	}
	return NULL;
}

static void failure_close(struct sync *s, struct sync_failure *f)
{
	htable_remove(&s->failures, &f->node);
	name_unref(f->ns);
	name_unref(f->name);
	free(f);
}

static void failure_end(struct sync *s, struct sync_failure *f)
{
	s->is_load_wanted |= f->is_spared && s->state == SYNC_RUNNING;
	failure_close(s, f);
}

static uint64_t backoff(uint32_t attempts, uint64_t max)
{
	uint64_t ns = RETRY_MIN_NS << MIN(attempts, (uint32_t)20);

	return MIN(ns, max);
}

static void failure_note(struct sync *s, struct svc *svc, const struct err *err, uint64_t now)
{
	struct sync_failure *f = failure_find(s, svc);

	if (f == NULL) {
		f = xcalloc(1, sizeof(*f));
		f->ns = name_ref(svc->ns);
		f->name = name_ref(svc->name);
		f->since_ns = now;
		htable_insert(&s->failures, &f->node, svc_hash(svc->ns, svc->name));
	}
	f->is_spared |= s->state == SYNC_ADOPTING;
	f->retry_ns =
		now + backoff(f->attempts++, f->is_spared ? SPARED_RETRY_MAX_NS : RETRY_MAX_NS);
	s->next_retry_ns = MIN(s->next_retry_ns, f->retry_ns);
	if (strncmp(f->text, err->text, sizeof(f->text) - 1) != 0)
		log_warn(LOG_AREA_SYNC, "service %s/%s refused, its last good state stays: %s",
			 svc->ns->text, svc->name->text, err->text);
	(void)snprintf(f->text, sizeof(f->text), "%.*s", (int)sizeof(f->text) - 1, err->text);
	s->stats.refused++;
}

static void failure_clear(struct sync *s, const struct svc *svc)
{
	struct sync_failure *f = s->failures.count ? failure_find(s, svc) : NULL;

	if (f == NULL)
		return;
	log_notice(LOG_AREA_SYNC, "service %s/%s programmed after %u refusals", svc->ns->text,
		   svc->name->text, f->attempts);
	failure_end(s, f);
}

/* Owe a sync to those whose time has come; returns when the next one's comes. */
static uint64_t failures_requeue(struct sync *s, uint64_t now)
{
	uint64_t next = SYNC_NEVER;

	if (s->failures.count == 0)
		return SYNC_NEVER;
	if (now < s->next_retry_ns)
		return s->next_retry_ns;
	htable_for_each_safe (n, tmp, &s->failures) {
		struct sync_failure *f = container_of(n, struct sync_failure, node);
		struct svc *svc = model_find(s->model, f->ns, f->name);

		if (svc == NULL) {
			failure_end(s, f);
		} else if (f->retry_ns <= now) {
			f->retry_ns = now + RETRY_MAX_NS; /* until the attempt sets it anew */
			if (f->is_spared && s->state == SYNC_RUNNING)
				s->is_load_wanted = true;
			else
				model_mark_dirty(s->model, svc, now);
		} else {
			next = MIN(next, f->retry_ns);
		}
	}
	s->next_retry_ns = next;
	return next;
}

/* --- statistics --- */

static void hist_add(struct sync_hist *h, uint64_t ns)
{
	uint64_t us = ns / NSEC_PER_USEC;
	unsigned int i = 0;

	while (i < SYNC_HIST_BUCKETS - 1 && us >= (UINT64_C(1) << i))
		i++;
	h->bucket[i]++;
	h->count++;
	h->sum_ns += ns;
	h->max_ns = MAX(h->max_ns, ns);
}

static void error_note(struct sync *s, const struct err *err, uint64_t now)
{
	memcpy(s->stats.last_error, err->text, sizeof(s->stats.last_error));
	s->stats.last_error_ns = now;
}

static void result_note(struct sync *s, const struct plane_result *res)
{
	s->stats.writes += res->n_writes;
	s->stats.batches += res->n_batches;
	s->stats.kernel_ns += res->kernel_ns;
}

/* --- items --- */

/* The outcome is known. A service that was marked again meanwhile stays dirty. */
static void item_decided(struct sync *s, struct item *it)
{
	struct svc *svc = TAKE(it->svc);

	svc->is_in_transaction = false;
	if (!list_is_linked(&svc->dirty))
		model_clean(s->model, svc);
}

static void item_accept(struct sync *s, struct item *it)
{
	uint64_t since = it->svc->dirty_since_ns;

	if (s->config.accepted != NULL)
		s->config.accepted(s->config.accepted_arg, it->svc, it->svc->rows, it->rows);
	it->svc->trigger_ns = 0; /* measured, also if it was marked again meanwhile */
	plan_rows_accept(s->plan, it->svc, TAKE(it->rows));
	it->svc->adopted_load = s->load_no;
	failure_clear(s, it->svc);
	if (since != 0 && s->state == SYNC_RUNNING)
		hist_add(&s->stats.event_to_ack, now_ns() - since);
	s->stats.services++;
	item_decided(s, it);
}

static void item_refuse(struct sync *s, struct item *it, const struct err *err, uint64_t now)
{
	int64_t trigger_ns = it->svc->trigger_ns;
	bool is_kept = it->svc->service != NULL || it->svc->n_slices > 0;
	struct svc *svc = it->svc;

	plan_rows_refuse(s->plan, it->svc, TAKE(it->rows));
	failure_note(s, it->svc, err, now);
	item_decided(s, it);
	if (is_kept) /* the wait goes on: MET-27 */
		svc->trigger_ns = trigger_ns;
}

static struct item item_make(struct sync *s, struct svc *svc, bool is_glued)
{
	list_del(&svc->dirty);
	svc->is_in_transaction = true;
	return (struct item){ .svc = svc,
			      .rows = plan_rows_build(s->plan, svc),
			      .is_glued = is_glued };
}

static size_t item_weight(const struct item *it)
{
	size_t n = 4;

	if (it->rows == NULL)
		return n;
	n += it->rows->frontends.n;
	vec_for_each (pool, &it->rows->pools)
		n += pool->backends.n;
	return n;
}

/* Make room for `n` items at `at`, uninitialised. */
static struct item *items_insert(struct sync *s, size_t at, size_t n)
{
	vec_reserve(&s->items, s->items.n + n);
	memmove(&s->items.v[at + n], &s->items.v[at], (s->items.n - at) * sizeof(struct item));
	s->items.n += n;
	return &s->items.v[at];
}

static size_t item_find(const struct sync *s, const struct svc *svc)
{
	for (size_t i = 0; i < s->items.n; i++)
		if (s->items.v[i].svc == svc)
			return i;
	return s->items.n;
}

static size_t group_begin(const struct sync *s, size_t i);
static size_t group_end(const struct sync *s, size_t i);

/* Move items [from, from + n) so that they end up directly before what is at `to` now. */
static void items_move(struct sync *s, size_t from, size_t n, size_t to)
{
	struct item *tmp = xreallocarray(NULL, n, sizeof(*tmp));

	memcpy(tmp, &s->items.v[from], n * sizeof(*tmp));
	if (from < to) {
		memmove(&s->items.v[from], &s->items.v[from + n], (to - from - n) * sizeof(*tmp));
		memcpy(&s->items.v[to - n], tmp, n * sizeof(*tmp));
	} else {
		memmove(&s->items.v[to + n], &s->items.v[to], (from - to) * sizeof(*tmp));
		memcpy(&s->items.v[to], tmp, n * sizeof(*tmp));
	}
	free(tmp);
}

/*
 * `loser` gives a frontend up to the item at `winner`: both are of one group from
 * now on, and whoever else is in the loser's. Returns the index of the winner,
 * which moves if the loser's group stood before it.
 */
static size_t item_glue(struct sync *s, size_t winner, struct svc *loser)
{
	size_t at = item_find(s, loser);
	size_t end = group_end(s, winner);
	size_t n;

	if (at == s->items.n) {
		struct item it = item_make(s, loser, true);

		*items_insert(s, end, 1) = it;
		return winner;
	}
	at = group_begin(s, at);
	if (at == group_begin(s, winner))
		return winner;
	n = group_end(s, at) - at;
	s->items.v[at].is_glued = true;
	items_move(s, at, n, end);
	return at < winner ? winner - n : winner;
}

/* Frontends that several services ask for go to the oldest; who holds one now joins in. */
static void items_settle(struct sync *s)
{
	for (size_t i = 0; i < s->items.n; i++) {
		if (s->items.v[i].rows == NULL || s->items.v[i].is_settled)
			continue;
		vec_clear(&s->displaced.svcs);
		s->items.v[i].is_settled = true;
		plan_rows_settle(s->plan, s->items.v[i].rows, &s->displaced);
		for (size_t k = 0; k < s->displaced.svcs.n; k++)
			i = item_glue(s, i, s->displaced.svcs.v[k]);
	}
}

/*
 * A service that was not yet accepted since the kernel was read counts as holding
 * nothing; also later, when it was refused then: the plane has not counted its rows.
 */
static bool is_adopted(const struct sync *s, const struct svc *svc)
{
	return svc->adopted_load == s->load_no;
}

static void item_diff(struct sync *s, struct item *it)
{
	const struct plan_rows *held = is_adopted(s, it->svc) ? it->svc->rows : NULL;

	if (it->rows != NULL) {
		if (s->state == SYNC_ADOPTING && it->svc->rows == NULL)
			s->plane->ops->recall(s->plane, s->plan, it->rows);
		plan_rows_number(s->plan, it->rows);
	}
	it->ops_begin = s->ops.ops.n;
	plan_diff(&s->ops, it->svc, held, it->rows);
	it->ops_end = s->ops.ops.n;
}

/*
 * What the kernel has of a spared service is known only while the kernel is read:
 * it waits for that, and not for long if it is gone.
 */
static bool is_put_off(struct sync *s, struct svc *svc)
{
	struct sync_failure *f =
		s->failures.count > 0 && s->state == SYNC_RUNNING ? failure_find(s, svc) : NULL;

	if (f == NULL || !f->is_spared)
		return false;
	if (svc->service == NULL)
		f->retry_ns = s->next_retry_ns = 0;
	list_del(&svc->dirty);
	return true;
}

/* Fill the transaction: build all, settle who owns what, then the differences in order. */
static void items_collect(struct sync *s)
{
	size_t weight = 0;

	vec_clear(&s->items);
	vec_clear(&s->ops.ops);
	while (!list_is_empty(&s->model->dirty) && weight < s->config.batch_ops) {
		struct svc *svc = list_entry(s->model->dirty.next, struct svc, dirty);

		if (svc->is_in_transaction) /* marked again by one after it */
			break;
		if (is_put_off(s, svc))
			continue;
		*vec_push(&s->items) = item_make(s, svc, false);
		weight += item_weight(&s->items.v[s->items.n - 1]);
	}
	items_settle(s);
	vec_for_each (it, &s->items)
		item_diff(s, it);
}

static size_t group_end(const struct sync *s, size_t i)
{
	for (i++; i < s->items.n && s->items.v[i].is_glued; i++)
		;
	return i;
}

static size_t group_begin(const struct sync *s, size_t i)
{
	while (i > 0 && s->items.v[i].is_glued)
		i--;
	return i;
}

/* --- committing --- */

static int commit_range(struct sync *s, size_t begin, size_t end, uint64_t now, struct err *err);

static void refuse_range(struct sync *s, size_t begin, size_t end, const struct err *err,
			 uint64_t now)
{
	for (size_t i = begin; i < end; i++)
		item_refuse(s, &s->items.v[i], err, now);
}

/* Try what surrounds the group of item `bad` without it. */
static int commit_without(struct sync *s, size_t begin, size_t end, size_t bad, uint64_t now,
			  struct err *err)
{
	size_t bad_begin = group_begin(s, bad);
	size_t bad_end = group_end(s, bad);
	int r;

	refuse_range(s, bad_begin, bad_end, err, now);
	r = commit_range(s, begin, bad_begin, now, err);
	return r < 0 ? r : commit_range(s, bad_end, end, now, err);
}

static int commit_halves(struct sync *s, size_t begin, size_t end, uint64_t now, struct err *err)
{
	size_t mid = group_begin(s, begin + (end - begin) / 2);
	int r;

	if (mid <= begin)
		mid = group_end(s, begin);
	r = commit_range(s, begin, mid, now, err);
	return r < 0 ? r : commit_range(s, mid, end, now, err);
}

static int plane_commit(struct sync *s, size_t begin, size_t end, struct plane_result *res,
			struct err *err)
{
	const struct plan_op *ops = s->ops.ops.v + s->items.v[begin].ops_begin;
	size_t n = s->items.v[end - 1].ops_end - s->items.v[begin].ops_begin;
	int r;

	if (n == 0)
		return 0;
	s->stats.steps++;
	r = s->plane->ops->commit(s->plane, ops, n, PLANE_COMMIT_NORMAL, res, err);
	if (r != -ESTALE)
		return r;
	log_notice(LOG_AREA_SYNC, "the kernel differs from what was believed, comparing: %s",
		   err->text);
	return s->plane->ops->commit(s->plane, ops, n, PLANE_COMMIT_VERIFY, res, err);
}

/*
 * Items [begin, end): accepted, refused one by one, or a negative errno when the
 * outcome is unknown or our tables are gone; then nothing is decided about the rest.
 */
static int commit_range(struct sync *s, size_t begin, size_t end, uint64_t now, struct err *err)
{
	struct plane_result res = { 0 };
	int r;

	if (begin >= end)
		return 0;
	r = plane_commit(s, begin, end, &res, err);
	result_note(s, &res);
	if (r == 0) {
		for (size_t i = begin; i < end; i++)
			item_accept(s, &s->items.v[i]);
		return 0;
	}
	error_note(s, err, now);
	s->stats.failures++;
	if (r == -EBUSY || r == -ENOTRECOVERABLE || r == -EPERM)
		return r;
	for (size_t i = begin; res.culprit != NULL && i < end; i++)
		if (s->items.v[i].svc == res.culprit)
			return commit_without(s, begin, end, i, now, err);
	if (group_end(s, begin) >= end) {
		refuse_range(s, begin, end, err, now);
		return 0;
	}
	return commit_halves(s, begin, end, now, err);
}

/* Undecided items go back to the front of the queue as they were. */
static void items_put_back(struct sync *s)
{
	for (size_t i = s->items.n; i-- > 0;) {
		struct item *it = &s->items.v[i];

		if (it->svc == NULL)
			continue;
		plan_rows_refuse(s->plan, it->svc, TAKE(it->rows));
		it->svc->is_in_transaction = false;
		list_del(&it->svc->dirty);
		list_add_after(&s->model->dirty, &it->svc->dirty);
	}
}

static int transaction(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r;

	items_collect(s);
	r = commit_range(s, 0, s->items.n, now, &err);
	if (r < 0)
		items_put_back(s);
	return r;
}

/* --- states --- */

static bool is_first_served(const struct svc *svc)
{
	if (strcmp(svc->ns->text, "default") == 0)
		return strcmp(svc->name->text, "kubernetes") == 0;
	return strcmp(svc->ns->text, "kube-system") == 0 &&
	       (strcmp(svc->name->text, "kube-dns") == 0 ||
		strcmp(svc->name->text, "coredns") == 0);
}

/* Every service is owed a sync, the API and DNS first, the others by name. */
static void queue_all(struct sync *s)
{
	size_t n;
	struct svc **all = model_sorted(s->model, &n);

	for (int is_rest = 0; is_rest < 2; is_rest++)
		for (size_t i = 0; i < n; i++) {
			if (is_first_served(all[i]) == is_rest)
				continue;
			list_del(&all[i]->dirty);
			list_add_tail(&s->model->dirty, &all[i]->dirty);
		}
	free(all);
}

static uint64_t load_failed(struct sync *s, const struct err *err, uint64_t now)
{
	uint64_t wait = backoff(s->load_failures++, LOAD_RETRY_MAX_NS);

	error_note(s, err, now);
	log_err(LOG_AREA_SYNC,
		"cannot read or repair the kernel's state, next try in %" PRIu64 " ms: %s",
		wait / NSEC_PER_MSEC, err->text);
	s->state = SYNC_LOADING;
	s->not_before_ns = now + wait;
	return s->not_before_ns;
}

static int env_update(struct sync *s, struct err *err)
{
	struct plane_result res = { 0 };
	uint64_t generation = s->model->env_generation;
	int r = s->plane->ops->env(s->plane, s->model, &res, err);

	result_note(s, &res);
	if (r == 0)
		s->env_done = generation;
	return r;
}

static uint64_t step_load(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r;

	s->load_begin_ns = now_ns();
	s->load_writes = s->stats.writes;
	s->is_load_wanted = false;
	s->is_env_owed = false;
	r = s->plane->ops->load(s->plane, &err);
	if (r == 0)
		r = env_update(s, &err);
	if (r < 0) {
		s->stats.failures++;
		return load_failed(s, &err, now);
	}
	s->load_failures = 0;
	s->env_failed_ns = 0;
	s->load_no++;
	s->stats.loads++;
	s->state = SYNC_ADOPTING;
	queue_all(s);
	return SYNC_NOW;
}

static uint64_t step_sweep(struct sync *s, uint64_t now)
{
	struct plane_result res = { 0 };
	struct err err = { 0 };
	uint64_t took;
	uint64_t writes;
	int r;

	r = s->plane->ops->sweep(s->plane, &res, &err);
	result_note(s, &res);
	if (r < 0) {
		s->stats.failures++;
		s->stats.sweep_failures++;
		return load_failed(s, &err, now);
	}
	s->state = SYNC_RUNNING;
	s->behind_since_ns = 0;
	took = now_ns() - s->load_begin_ns;
	s->stats.last_load_took_ns = MAX(took, UINT64_C(1));
	writes = s->stats.writes - s->load_writes;
	if (s->stats.first_sync_ns == 0) {
		s->stats.first_sync_ns = MAX(took, UINT64_C(1));
		log_notice(LOG_AREA_SYNC,
			   "in service: %zu services, %" PRIu64 " kernel operations, %" PRIu64
			   " ms",
			   s->model->stats.services, writes, took / NSEC_PER_MSEC);
	} else if (writes > 0) {
		s->stats.repairs += writes;
		log_notice(LOG_AREA_SYNC, "repaired: %" PRIu64 " kernel operations, %" PRIu64 " ms",
			   writes, took / NSEC_PER_MSEC);
	}
	s->stats.last_ok_ns = s->stats.last_success_ns = now_ns();
	s->next_check_ns = now + s->config.check_period_ns;
	s->next_audit_ns = now + s->config.audit_period_ns;
	s->audit.is_wanted = false; /* this was one */
	s->audit.left = 0;
	return SYNC_NOW;
}

static uint64_t step_transaction(struct sync *s, uint64_t now)
{
	uint64_t writes = s->stats.writes;
	uint64_t services = s->stats.services;
	uint64_t begin = now_ns();
	int r = transaction(s, now);
	uint64_t end = now_ns();

	s->stats.last_step_ns = end;
	s->stats.last_step_took_ns = end - begin;
	s->stats.last_step_writes = s->stats.writes - writes;
	s->stats.last_step_services = s->stats.services - services;
	if (r < 0) {
		struct err err = { 0 };

		memcpy(err.text, s->stats.last_error, sizeof(err.text));
		s->state = SYNC_LOADING;
		return load_failed(s, &err, now);
	}
	if (s->stats.services > services)
		s->stats.last_success_ns = end;
	hist_add(&s->stats.step_time, end - begin);
	s->not_before_ns =
		s->config.min_period_ns ? now + (end - begin) + s->config.min_period_ns : 0;
	if (s->failures.count == 0 && list_is_empty(&s->model->dirty))
		s->stats.last_ok_ns = end;
	return SYNC_NOW;
}

/* --- audit --- */

/* The next few services as if nothing were held; a service that is owed a sync is left to it. */
static void audit_collect(struct sync *s)
{
	struct list *all = &s->model->all;

	vec_clear(&s->ops.ops);
	for (int i = 0; i < AUDIT_SERVICES && s->audit.left > 0 && !list_is_empty(all); i++) {
		struct svc *svc = list_entry(all->next, struct svc, all);

		list_del(&svc->all);
		list_add_tail(all, &svc->all);
		s->audit.left--;
		if (svc->rows != NULL && is_adopted(s, svc) && !list_is_linked(&svc->dirty))
			plan_diff(&s->ops, svc, NULL, svc->rows);
	}
}

static void audit_end(struct sync *s, uint64_t now)
{
	uint64_t took = now_ns() - s->audit.begin_ns;

	s->stats.audits++;
	s->stats.repairs += s->audit.writes;
	if (s->audit.writes > 0)
		log_notice(LOG_AREA_SYNC,
			   "repaired what somebody else changed: %" PRIu64
			   " kernel operations, %" PRIu64 " ms",
			   s->audit.writes, took / NSEC_PER_MSEC);
	s->next_audit_ns = now + s->config.audit_period_ns;
	s->audit.next_ns = now + AUDIT_GAP_NS;
}

static uint64_t step_audit(struct sync *s, uint64_t now)
{
	struct plane_result res = { 0 };
	struct err err = { 0 };
	uint64_t begin = now_ns();
	int r = 0;

	if (s->audit.left == 0) {
		s->audit.is_wanted = false;
		s->audit.left = s->model->services.count;
		s->audit.begin_ns = begin;
		s->audit.writes = 0;
	}
	audit_collect(s);
	if (s->ops.ops.n > 0)
		r = s->plane->ops->commit(s->plane, s->ops.ops.v, s->ops.ops.n, PLANE_COMMIT_AUDIT,
					  &res, &err);
	result_note(s, &res);
	s->audit.writes += res.n_writes;
	if (r == -EBUSY || r == -ENOTRECOVERABLE)
		return load_failed(s, &err, now);
	if (r < 0) { /* changed under our hands, or refused: once more later */
		error_note(s, &err, now);
		log_warn(LOG_AREA_SYNC, "audit: %s", err.text);
		s->audit.is_wanted = true;
	}
	s->audit.next_ns = now + AUDIT_REST * (now_ns() - begin);
	if (s->audit.left == 0)
		audit_end(s, now);
	return SYNC_NOW;
}

static int look(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r = s->plane->ops->check(s->plane, &err);

	if (r == PLANE_CHECK_DOUBT) {
		s->stats.doubts++;
		s->is_env_owed = true;
		s->audit.is_wanted = true;
		log_debug(LOG_AREA_SYNC, "somebody else changed the ruleset, comparing");
	} else if (r == PLANE_CHECK_LOST) {
		s->is_load_wanted = true;
		log_notice(LOG_AREA_SYNC,
			   "our tables were taken away or replaced by somebody else");
	} else if (r < 0) {
		error_note(s, &err, now);
	}
	return r;
}

/* Nothing is dirty: looks, audits and ticks that are due. Returns when the next one is. */
static uint64_t step_idle(struct sync *s, uint64_t now, uint64_t next)
{
	const struct plane_ops *ops = s->plane->ops;

	if (s->config.check_period_ns != 0) {
		if (now >= s->next_check_ns) {
			s->next_check_ns = now + s->config.check_period_ns;
			if (look(s, now) > 0)
				return SYNC_NOW;
		}
		next = MIN(next, s->next_check_ns);
	}
	if (s->config.audit_period_ns != 0) {
		s->audit.is_wanted |= now >= s->next_audit_ns;
		next = MIN(next, MAX(s->next_audit_ns, now + 1));
	}
	if (s->audit.is_wanted || s->audit.left > 0) {
		if (now >= s->audit.next_ns)
			return step_audit(s, now);
		next = MIN(next, s->audit.next_ns);
	}
	if (ops->tick != NULL) {
		if (now >= s->next_tick_ns) {
			s->next_tick_ns = ops->tick(s->plane, now);
			if (s->next_tick_ns == 0)
				s->next_tick_ns = now + 60 * NSEC_PER_SEC;
		}
		next = MIN(next, s->next_tick_ns);
	}
	return next;
}

static uint64_t step_env(struct sync *s, uint64_t now)
{
	struct err err = { 0 };
	int r = env_update(s, &err);

	if (r == 0) {
		s->is_env_owed = false;
		s->env_failures = 0;
		s->env_failed_ns = 0;
		return SYNC_NOW;
	}
	error_note(s, &err, now);
	s->stats.failures++;
	if (s->env_failed_ns == 0)
		s->env_failed_ns = now;
	log_err(LOG_AREA_SYNC, "node-wide rules: %s", err.text);
	if (r == -EBUSY || r == -ENOTRECOVERABLE || r == -ESTALE)
		return load_failed(s, &err, now);
	s->not_before_ns = now + backoff(s->env_failures++, RETRY_MAX_NS);
	return s->not_before_ns;
}

uint64_t sync_step(struct sync *s, uint64_t now)
{
	uint64_t next;

	if (s->state == SYNC_WAITING)
		return SYNC_NEVER;
	if (s->state != SYNC_RUNNING && s->behind_since_ns == 0)
		s->behind_since_ns = now;
	if (now < s->not_before_ns)
		return s->not_before_ns;
	if (s->state == SYNC_LOADING)
		return step_load(s, now);
	if (s->is_load_wanted) {
		s->state = SYNC_LOADING;
		return step_load(s, now);
	}
	if (s->is_env_owed || s->env_done != s->model->env_generation)
		return step_env(s, now);
	next = failures_requeue(s, now);
	if (s->is_load_wanted)
		return SYNC_NOW;
	if (!list_is_empty(&s->model->dirty))
		return step_transaction(s, now);
	if (s->state == SYNC_ADOPTING)
		return step_sweep(s, now);
	return step_idle(s, now, next);
}

size_t sync_settle(struct sync *s, uint64_t now)
{
	size_t n = 0;

	while (sync_step(s, now) == SYNC_NOW)
		n++;
	return n;
}

void sync_audit(struct sync *s)
{
	s->audit.is_wanted = true;
}

void sync_reload(struct sync *s)
{
	if (s->state != SYNC_WAITING)
		s->is_load_wanted = true;
}

void sync_sources_ready(struct sync *s)
{
	if (s->state == SYNC_WAITING)
		s->state = SYNC_LOADING;
}

void sync_open(struct sync **ret, struct model *m, struct plan *p, struct plane *plane,
	       const struct sync_config *config)
{
	struct sync *s = xcalloc(1, sizeof(*s));

	s->model = m;
	s->plan = p;
	s->plane = plane;
	s->config = *config;
	if (s->config.batch_ops == 0)
		s->config.batch_ops = BATCH_OPS_DEFAULT;
	*ret = s;
}

void sync_close(struct sync *s)
{
	if (s == NULL)
		return;
	htable_for_each_safe (n, tmp, &s->failures)
		failure_close(s, container_of(n, struct sync_failure, node));
	htable_fini(&s->failures);
	vec_fini(&s->items);
	vec_fini(&s->ops.ops);
	vec_fini(&s->displaced.svcs);
	free(s);
}

enum sync_state sync_state_get(const struct sync *s)
{
	return s->state;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The queue is in order of arrival; entries that somebody else's change made dirty have no time. */
static uint64_t dirty_since(const struct sync *s)
{
	int looked = 0;

	list_for_each (l, &s->model->dirty) {
		uint64_t since = list_entry(l, struct svc, dirty)->dirty_since_ns;

		if (since > 1)
			return since;
		if (++looked == DIRTY_LOOK_MAX)
			break;
	}
	return 0;
}

static uint64_t refused_since(const struct sync *s)
{
	uint64_t since = 0;

	if (s->failures.count == 0 || s->failures.count * 2 < s->model->stats.services)
		return 0;
	htable_for_each (n, &s->failures)
		since = earlier(since, container_of(n, struct sync_failure, node)->since_ns);
	return since;
}

uint64_t sync_owed_since(const struct sync *s)
{
	uint64_t since = earlier(s->behind_since_ns, s->env_failed_ns);

	if (s->state == SYNC_WAITING)
		return 0;
	return earlier(earlier(since, dirty_since(s)), refused_since(s));
}

const struct sync_stats *sync_stats_get(const struct sync *s)
{
	return &s->stats;
}

const struct sync_failure *sync_failure_find(const struct sync *s, const struct svc *svc)
{
	return failure_find(s, svc);
}

size_t sync_failure_count(const struct sync *s)
{
	return s->failures.count;
}

static int failure_cmp(const void *a, const void *b)
{
	const struct sync_failure *fa = *(const struct sync_failure *const *)a;
	const struct sync_failure *fb = *(const struct sync_failure *const *)b;
	int c = strcmp(fa->ns->text, fb->ns->text);

	return c != 0 ? c : strcmp(fa->name->text, fb->name->text);
}

const struct sync_failure **sync_failures(const struct sync *s, size_t *n)
{
	const struct sync_failure **v = xcalloc(s->failures.count, sizeof(*v));
	size_t i = 0;

	htable_for_each (node, &s->failures)
		v[i++] = container_of(node, struct sync_failure, node);
	qsort(v, i, sizeof(*v), failure_cmp);
	*n = i;
	return v;
}
