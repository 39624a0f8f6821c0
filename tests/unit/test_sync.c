/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sync: start, adoption, rejections, lost answers, retries, one owner per frontend. */
#include "test.h"

#include <stdlib.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "make.h"
#include "mock_plane.h"
#include "sync/sync.h"

#define T0 (1000 * NSEC_PER_SEC)

struct world {
	struct model m;
	struct plan p;
	struct mock_plane k;
	struct sync *s;
};

static void process_begin_with(struct world *w, const struct sync_config *config)
{
	make_model(&w->m);
	plan_init(&w->p, &w->m, &mock_plane_ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->k.plane, config);
}

static const struct sync_config usual = { .check_period_ns = 250 * NSEC_PER_MSEC };

static void process_begin(struct world *w)
{
	process_begin_with(w, &usual);
}

/* The process ends, the kernel (w->k) stays. */
static void process_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	model_fini(&w->m);
}

static void world_init(struct world *w)
{
	*w = (struct world){ 0 };
	mock_init(&w->k);
	process_begin(w);
}

static void world_fini(struct world *w)
{
	process_end(w);
	mock_fini(&w->k);
	assert_int_equal(name_count(), 0);
}

static void some_services(struct world *w, int n)
{
	for (int i = 0; i < n; i++) {
		char key[32];
		char slice[40];
		char name[16];
		char ip[32];
		char eps[64];

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		(void)snprintf(slice, sizeof(slice), "shop/s%d-a", i);
		(void)snprintf(name, sizeof(name), "s%d", i);
		(void)snprintf(ip, sizeof(ip), "10.96.0.%d", i + 1);
		(void)snprintf(eps, sizeof(eps), "10.1.%d.1 10.1.%d.2", i, i);
		make_service(&w->m, key, ip, "http:TCP:80");
		make_slice(&w->m, slice, name, "http:TCP:8080", eps);
	}
}

static struct mock_frontend *frontend(struct world *w, const char *ip)
{
	struct plan_frontend key = { .addr = make_ip(ip), .port = 80, .proto = L4PROTO_TCP };

	return mock_frontend_find(&w->k, &key);
}

/* T-001, T-002 */
static void test_gate(void **state)
{
	struct world w;

	world_init(&w);
	some_services(&w, 3);
	assert_true(sync_step(w.s, T0) == SYNC_NEVER);
	assert_int_equal(w.k.n_loads, 0);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_int_equal(w.k.frontends.n, 3);
	assert_int_equal(w.k.slots.n, 6);
	world_fini(&w);
}

/* T-122: without a change nothing is written; changes made meanwhile are. */
static void test_restart(void **state)
{
	struct world w;
	size_t writes;

	world_init(&w);
	some_services(&w, 20);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	process_end(&w);

	process_begin(&w);
	some_services(&w, 20);
	writes = w.k.n_writes;
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.n_writes, writes);
	process_end(&w);

	process_begin(&w);
	some_services(&w, 19); /* one was deleted, one lost an endpoint */
	make_slice(&w.m, "shop/s3-a", "s3", "http:TCP:8080", "10.1.3.2");
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.frontends.n, 19);
	assert_int_equal(w.k.slots.n, 37);
	assert_null(frontend(&w, "10.96.0.20"));
	world_fini(&w);
}

/* A process begins with the 60 services that the kernel has; its transactions are small. */
static void world_adopting(struct world *w)
{
	static const struct sync_config config = { .batch_ops = 20 };

	world_init(w);
	some_services(w, 60);
	sync_sources_ready(w->s);
	sync_settle(w->s, T0);
	process_end(w);

	process_begin_with(w, &config);
	some_services(w, 60);
}

/* A change in the middle of adoption is programmed by the next transaction. */
static void test_change_in_adoption(void **state)
{
	struct world w;
	size_t writes;

	world_adopting(&w);
	sync_sources_ready(w.s);
	while (sync_stats_get(w.s)->services == 0)
		assert_true(sync_step(w.s, T0) == SYNC_NOW);
	writes = w.k.n_writes;
	/* The service that sorts last: a slot, and a frontend of another class. */
	make_slice(&w.m, "shop/s9-a", "s9", "http:TCP:8080", "10.1.9.1 10.1.9.2 10.1.9.3");
	assert_true(sync_step(w.s, T0) == SYNC_NOW);
	assert_int_equal(sync_state_get(w.s), SYNC_ADOPTING);
	assert_int_equal(w.k.n_writes, writes + 2);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.n_writes, writes + 2);
	assert_int_equal(w.k.frontends.n, 60);
	assert_int_equal(w.k.slots.n, 121);
	world_fini(&w);
}

/* A change made while vipd was stopped is in the first transaction: its slice has the newest
 * version. */
static void test_newest_first(void **state)
{
	struct world w;
	struct slice *newest;
	size_t writes;

	world_adopting(&w);
	for (int i = 0; i < 60; i++) {
		char key[32], name[16], eps[64];

		(void)snprintf(key, sizeof(key), "shop/s%d-a", i);
		(void)snprintf(name, sizeof(name), "s%d", i);
		(void)snprintf(eps, sizeof(eps), "10.1.%d.1 10.1.%d.2%s", i, i,
			       i == 59 ? " 10.1.59.3" : "");
		newest = make_slice_object(key, name, "http:TCP:8080", eps);
		newest->version = i == 59 ? 2000 : 1000 + (uint64_t)(i * 7 % 60);
		(void)model_put_slice(&w.m, newest, 1);
	}
	writes = w.k.n_writes;
	sync_sources_ready(w.s);
	while (sync_stats_get(w.s)->services == 0)
		assert_true(sync_step(w.s, T0) == SYNC_NOW);
	assert_int_equal(sync_state_get(w.s), SYNC_ADOPTING);
	assert_true(sync_stats_get(w.s)->services < 30);
	assert_int_equal(w.k.n_writes, writes + 2);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.n_writes, writes + 2);
	world_fini(&w);
}

/* The status shows the whole sync, not the last of its transactions. */
static void test_last_sync(void **state)
{
	const struct sync_config config = { .batch_ops = 20 };
	const struct sync_stats *st;
	struct world w;
	uint64_t steps;

	(void)state;
	world_init(&w);
	sync_close(w.s);
	sync_open(&w.s, &w.m, &w.p, &w.k.plane, &config);
	some_services(&w, 20);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	st = sync_stats_get(w.s);
	assert_true(st->steps > 1);
	assert_int_equal(st->last_sync_services, 20);
	assert_int_equal(st->last_sync_writes, w.k.n_writes);
	steps = st->steps;
	for (int i = 0; i < 20; i++) {
		char slice[40];
		char name[16];

		(void)snprintf(slice, sizeof(slice), "shop/s%d-a", i);
		(void)snprintf(name, sizeof(name), "s%d", i);
		make_slice(&w.m, slice, name, "http:TCP:8080", "10.2.0.1 10.2.0.2");
	}
	sync_settle(w.s, T0 + 1);
	assert_true(st->steps > steps + 1);
	assert_int_equal(st->last_sync_services, 20);
	assert_int_equal(st->last_sync_writes, 80);
	world_fini(&w);
}

/* A process starts with an incomplete source: the objects of its first read. */
static void process_begin_incomplete_with(struct world *w, const struct sync_config *config)
{
	process_end(w);
	process_begin_with(w, config);
	make_service(&w->m, "shop/s0", "10.96.0.1", "http:TCP:80");
	make_slice(&w->m, "shop/s0-a", "s0", "http:TCP:8080", "10.1.0.1 10.1.0.2");
	make_service(&w->m, "shop/s1", "10.96.0.2", "http:TCP:80"); /* its slice is not known */
	sync_sweep_hold(w->s);
	sync_sources_ready(w->s);
}

static void process_begin_incomplete(struct world *w)
{
	process_begin_incomplete_with(w, &usual);
}

/* The source is complete before adoption ends: what was not explained is no longer kept. */
static void test_sweep_released_in_adoption(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	some_services(&w, 2);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	process_begin_incomplete(&w);
	do
		(void)sync_step(w.s, T0);
	while (!list_is_empty(&w.m.dirty));
	assert_int_equal(sync_state_get(w.s), SYNC_ADOPTING);
	sync_sweep_release(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(frontend(&w, "10.96.0.2")->f.target.verdict, PLAN_VERDICT_REJECT);
	world_fini(&w);
}

/* IN-19: kernel state without an object stays while objects are unknown, and is removed later. */
static void test_sweep_held(void **state)
{
	struct world w;
	size_t writes;

	world_init(&w);
	some_services(&w, 4);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_false(sync_is_sweep_pending(w.s));
	writes = w.k.n_writes;

	process_begin_incomplete(&w);
	sync_settle(w.s, T0);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_true(sync_is_sweep_pending(w.s));
	assert_int_equal(sync_orphaned_count(w.s), 3);
	assert_int_equal(w.k.n_writes, writes);
	assert_int_equal(sync_pending_since(w.s), 0);

	/* Changes continue: of a known service, and of one whose slice appears. */
	make_slice(&w.m, "shop/s0-a", "s0", "http:TCP:8080", "10.1.0.2");
	make_slice(&w.m, "shop/s1-a", "s1", "http:TCP:8080", "10.1.1.1 10.1.1.2");
	sync_settle(w.s, T0 + 1);
	assert_int_equal(w.k.slots.n, 7);
	assert_true(sync_is_sweep_pending(w.s));
	assert_int_equal(sync_orphaned_count(w.s), 2);
	/* It loses its last endpoint by a change, which is not an unknown object. */
	make_slice(&w.m, "shop/s0-a", "s0", "http:TCP:8080", "");
	sync_settle(w.s, T0 + 2);
	assert_int_equal(frontend(&w, "10.96.0.1")->f.target.verdict, PLAN_VERDICT_REJECT);

	sync_sweep_release(w.s);
	sync_settle(w.s, T0 + 3);
	assert_false(sync_is_sweep_pending(w.s));
	assert_int_equal(w.k.frontends.n, 2);
	assert_int_equal(w.k.slots.n, 2);
	assert_int_equal(sync_stats_get(w.s)->repairs, 0); /* nothing was modified */
	assert_in_range(sync_stats_get(w.s)->reloaded, 1, 100);
	world_fini(&w);
}

/* IN-19: a source without any object. Without frontends in the kernel there is nothing to keep. */
static void test_sweep_held_empty(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	sync_sweep_hold(w.s);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_false(sync_is_sweep_pending(w.s));
	some_services(&w, 4);
	sync_sweep_release(w.s);
	sync_settle(w.s, T0 + 1);
	assert_int_equal(w.k.frontends.n, 4);
	assert_int_equal(w.k.n_loads, 1);

	process_end(&w);
	process_begin(&w);
	sync_sweep_hold(w.s);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0 + 2);
	assert_true(sync_is_sweep_pending(w.s));
	assert_int_equal(sync_orphaned_count(w.s), 4);
	world_fini(&w);
}

/* A foreign change while the sweep is pending: the plane only loads again. */
static void test_sweep_held_foreign(void **state)
{
	struct world w;
	size_t loads;

	world_init(&w);
	some_services(&w, 4);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	process_begin_incomplete(&w);
	sync_settle(w.s, T0);
	loads = w.k.n_loads;
	mock_remove(&w.k.frontends, &w.k.frontends.v[0]);
	w.k.check_answer = PLANE_CHECK_CHANGED;
	sync_check(w.s, T0 + NSEC_PER_SEC);
	sync_settle(w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(w.k.n_loads, loads + 1);
	assert_true(sync_is_sweep_pending(w.s));
	assert_non_null(frontend(&w, "10.96.0.1"));
	assert_int_equal(sync_stats_get(w.s)->repairs, 1);
	/* Nothing is due before the next check. */
	assert_true(sync_step(w.s, T0 + NSEC_PER_SEC + 1) > T0 + NSEC_PER_SEC + 1);
	world_fini(&w);
}

static bool is_touched;

static bool touched_if(const struct plane *p, const struct plan_rows *rows)
{
	return is_touched;
}

/* As above: changes of other tables cause no load, and do not end the checks. */
static void test_sweep_held_elsewhere(void **state)
{
	static struct plane_ops ops;
	struct world w;
	size_t loads;

	world_init(&w);
	ops = mock_plane_ops;
	ops.touched = touched_if;
	w.k.plane.ops = &ops;
	some_services(&w, 4);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	process_begin_incomplete(&w);
	sync_settle(w.s, T0);
	assert_true(sync_is_sweep_pending(w.s));
	loads = w.k.n_loads;
	for (uint64_t i = 1; i <= 10; i++) {
		is_touched = i == 10;
		if (is_touched)
			mock_remove(&w.k.frontends, &w.k.frontends.v[0]);
		w.k.check_answer = PLANE_CHECK_CHANGED;
		sync_check(w.s, T0 + i * NSEC_PER_SEC);
		sync_settle(w.s, T0 + i * NSEC_PER_SEC);
		assert_int_equal(sync_stats_get(w.s)->foreign_changes, i);
		assert_int_equal(w.k.n_loads, loads + is_touched);
	}
	assert_true(sync_is_sweep_pending(w.s));
	assert_int_equal(sync_stats_get(w.s)->repairs, 1);
	world_fini(&w);
}

/* A notification was missed: the next commit of any process after an audit's period shows the
 * change. */
static void test_sweep_held_unseen(void **state)
{
	static const struct sync_config config = { .check_period_ns = 250 * NSEC_PER_MSEC,
						   .audit_period_ns = 600 * NSEC_PER_SEC };
	static const unsigned int at_s[] = { 1, 599, 601, 602 };
	static struct plane_ops ops;
	struct world w;
	size_t loads;

	world_init(&w);
	ops = mock_plane_ops;
	ops.touched = touched_if;
	is_touched = false;
	w.k.plane.ops = &ops;
	some_services(&w, 4);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	process_begin_incomplete_with(&w, &config);
	sync_settle(w.s, T0);
	loads = w.k.n_loads;
	mock_remove(&w.k.frontends, &w.k.frontends.v[0]);
	for (size_t i = 0; i < ARRAY_SIZE(at_s); i++) {
		w.k.check_answer = PLANE_CHECK_CHANGED;
		sync_check(w.s, T0 + at_s[i] * NSEC_PER_SEC);
		sync_settle(w.s, T0 + at_s[i] * NSEC_PER_SEC);
		assert_int_equal(w.k.n_loads, loads + (at_s[i] > 600));
	}
	assert_int_equal(sync_stats_get(w.s)->repairs, 1);
	world_fini(&w);
}

static unsigned int n_ticks;

static uint64_t tick_tomorrow(struct plane *plane, uint64_t now)
{
	(void)plane;
	n_ticks++;
	return now + 86400 * NSEC_PER_SEC;
}

/* A commit may give the plane delayed work, whenever it wanted to be called before. */
static void test_tick_after_commit(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	world_init(&w);
	ops = mock_plane_ops;
	ops.tick = tick_tomorrow;
	w.k.plane.ops = &ops;
	n_ticks = 0;
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(n_ticks, 1);
	sync_settle(w.s, T0 + 3600 * NSEC_PER_SEC);
	assert_int_equal(n_ticks, 1);
	some_services(&w, 1);
	sync_settle(w.s, T0 + 3600 * NSEC_PER_SEC);
	assert_int_equal(n_ticks, 1);
	sync_settle(w.s, T0 + 3602 * NSEC_PER_SEC);
	assert_int_equal(n_ticks, 2);
	sync_settle(w.s, T0 + 7200 * NSEC_PER_SEC);
	assert_int_equal(n_ticks, 2);
	world_fini(&w);
}

static uint64_t tick_soon(struct plane *plane, uint64_t now)
{
	(void)plane;
	n_ticks++;
	return now + 20 * NSEC_PER_MSEC;
}

/* Permanent changes delay ticks, except for urgent ones. */
static void test_urgent_ticks(void **state)
{
	static const struct sync_config config = { .batch_ops = 1 };
	static struct plane_ops ops;
	struct world w = { 0 };

	(void)state;
	mock_init(&w.k);
	process_begin_with(&w, &config);
	ops = mock_plane_ops;
	ops.tick = tick_soon;
	w.k.plane.ops = &ops;
	some_services(&w, 3);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	for (int is_urgent = 0; is_urgent < 2; is_urgent++) {
		uint64_t begin = T0 + (uint64_t)(10 + is_urgent) * NSEC_PER_SEC;

		w.k.plane.is_tick_urgent = is_urgent;
		n_ticks = 0;
		for (int ms = 0; ms < 1000; ms++) {
			for (int i = 0; i < 3; i++) { /* a step takes one of them */
				char slice[16], name[8], eps[16];

				(void)snprintf(slice, sizeof(slice), "shop/s%d-a", i);
				(void)snprintf(name, sizeof(name), "s%d", i);
				(void)snprintf(eps, sizeof(eps), "10.1.%d.%d", i, ms % 250 + 1);
				make_slice(&w.m, slice, name, "http:TCP:8080", eps);
			}
			(void)sync_step(w.s, begin + (uint64_t)ms * NSEC_PER_MSEC);
		}
		assert_in_range(n_ticks, is_urgent ? 45 : 2, is_urgent ? 50 : 5);
	}
	sync_settle(w.s, T0 + 20 * NSEC_PER_SEC);
	world_fini(&w);
}

static void refuse(struct world *w, const char *name, bool is_named)
{
	w->k.refuse_name = name;
	w->k.is_culprit_named = is_named;
}

/* A rejection affects one service; all others are programmed in the same turn. */
static void test_refusal(void **state)
{
	for (int is_named = 0; is_named < 2; is_named++) {
		const struct sync_failure **failures;
		struct world w;
		uint64_t next;
		size_t n;

		print_message("    the kernel %s whom it refuses\n",
			      is_named ? "says" : "does not say");
		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		some_services(&w, 17);
		refuse(&w, "s5", is_named);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		assert_int_equal(w.k.frontends.n, 16);
		assert_null(frontend(&w, "10.96.0.6"));
		failures = sync_failures(w.s, &n);
		assert_int_equal(n, 1);
		assert_string_equal(failures[0]->name->text, "s5");
		assert_string_equal(failures[0]->text, "set to refuse s5");
		free(failures);

		next = sync_step(w.s, T0 + 1);
		assert_true(next > T0 && next <= T0 + 100 * NSEC_PER_MSEC);
		sync_settle(w.s, T0 + 150 * NSEC_PER_MSEC); /* rejected again: a longer delay */
		n = w.k.n_commits;
		sync_settle(w.s, T0 + 200 * NSEC_PER_MSEC);
		assert_int_equal(sync_failure_count(w.s), 1);
		refuse(&w, NULL, false);
		sync_settle(w.s, T0 + 10 * NSEC_PER_SEC);
		assert_int_equal(sync_failure_count(w.s), 0);
		assert_non_null(frontend(&w, "10.96.0.6"));
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/* A rejected service that is deleted is not pending. */
static void test_refused_then_deleted(void **state)
{
	struct world w;

	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	some_services(&w, 2);
	refuse(&w, "s1", true);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	drop_service(&w.m, "shop/s1");
	drop_slice(&w.m, "shop/s1-a");
	sync_settle(w.s, T0 + 1);
	sync_settle(w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(sync_failure_count(w.s), 0);
	assert_null(model_find_text(&w.m, "shop", "s1"));
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* After a lost answer or a deleted table: load, then repair. */
static void test_unknown_outcome(void **state)
{
	static const int faults[] = { -EBUSY, -ENOTRECOVERABLE, -EPERM };

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		struct world w;

		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR - 1);
		some_services(&w, 5);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		make_slice(&w.m, "shop/s1-a", "s1", "http:TCP:8080", "10.1.1.9");
		make_slice(&w.m, "shop/s2-a", "s2", "http:TCP:8080", "10.1.2.9");
		w.k.fail_next_commit = faults[i];
		if (faults[i] == -ENOTRECOVERABLE) {
			mock_slots_clear(&w.k);
			vec_clear(&w.k.frontends);
		}
		sync_settle(w.s, T0 + 1);
		sync_settle(w.s, T0 + 6 * NSEC_PER_SEC);
		assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
		assert_int_equal(w.k.n_loads, 2);
		assert_int_equal(w.k.frontends.n, 5);
		assert_int_equal(w.k.slots.n, 8);
		assert_int_equal(sync_failure_count(w.s), 0);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/* A transaction or a comparison finds first that the tables are gone: load at once. */
static void test_removal_is_met(void **state)
{
	for (int is_audit = 0; is_audit < 2; is_audit++) {
		uint64_t now = T0 + 20 * NSEC_PER_SEC;
		struct world w;

		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		some_services(&w, 5);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		if (is_audit) {
			w.k.check_answer = PLANE_CHECK_CHANGED;
			sync_check(w.s, now);
			sync_step(w.s, now);
			assert_int_equal(w.k.check_answer, 0);
		} else {
			make_slice(&w.m, "shop/s1-a", "s1", "http:TCP:8080", "10.1.1.9");
		}
		mock_slots_clear(&w.k);
		vec_clear(&w.k.frontends);
		w.k.fail_next_commit = -ENOTRECOVERABLE;
		w.k.check_answer = PLANE_CHECK_LOST;
		sync_settle(w.s, now);
		assert_int_equal(w.k.fail_next_commit, 0);
		assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
		assert_int_equal(w.k.n_loads, 2);
		assert_int_equal(w.k.frontends.n, 5);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/* The first failures that a change by another process explains are not logged. */
static void test_load_fails(void **state)
{
	static const int faults[] = { -EAGAIN, -ENOENT, -ENOTRECOVERABLE };

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		uint64_t reported = log_count(LOG_LEVEL_ERR);
		struct world w;
		uint64_t next;

		world_init(&w);
		some_services(&w, 2);
		w.k.fail_next_load = faults[i];
		sync_sources_ready(w.s);
		next = sync_step(w.s, T0);
		assert_true(next > T0 && next < T0 + NSEC_PER_SEC);
		assert_int_equal(w.k.n_writes, 0);
		sync_settle(w.s, next);
		assert_int_equal(w.k.frontends.n, 2);
		assert_int_equal(log_count(LOG_LEVEL_ERR), reported);
		world_fini(&w);
	}
}

/* A persistent failure is logged once, another one too, and the first again after minutes. */
static void test_load_failure_is_logged_once(void **state)
{
	struct world w;
	uint64_t now = T0;
	uint64_t reported;

	world_init(&w);
	some_services(&w, 2);
	sync_sources_ready(w.s);
	reported = log_count(LOG_LEVEL_ERR);
	for (int i = 0; i < 40; i++) {
		w.k.fail_next_load = -EPERM;
		now = sync_step(w.s, now);
	}
	assert_int_equal(log_count(LOG_LEVEL_ERR), reported + 1);
	assert_true(now > T0 + 100 * NSEC_PER_SEC && now < T0 + 300 * NSEC_PER_SEC);
	w.k.fail_next_load = -EOPNOTSUPP;
	now = sync_step(w.s, now);
	assert_int_equal(log_count(LOG_LEVEL_ERR), reported + 2);
	for (uint64_t end = now + 310 * NSEC_PER_SEC; now < end;) {
		w.k.fail_next_load = -EOPNOTSUPP;
		now = sync_step(w.s, now);
	}
	assert_int_equal(log_count(LOG_LEVEL_ERR), reported + 3);
	assert_int_equal(sync_state_get(w.s), SYNC_LOADING);
	sync_settle(w.s, now);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_int_equal(w.k.frontends.n, 2);
	world_fini(&w);
}

static void test_stale(void **state)
{
	struct world w;

	world_init(&w);
	some_services(&w, 2);
	log_level_set_all(LOG_LEVEL_ERR);
	w.k.is_stale_once = true;
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.frontends.n, 2);
	assert_int_equal(sync_failure_count(w.s), 0);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* check() reports a foreign change: compare service by service, or load; repair. */
static void test_drift(void **state)
{
	static const int answers[] = { PLANE_CHECK_CHANGED, PLANE_CHECK_LOST };

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		struct world w;
		size_t loads;

		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		some_services(&w, 40);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		loads = w.k.n_loads;
		mock_slots_clear(&w.k);
		w.k.check_answer = answers[i];
		for (int k = 0; k < 4; k++)
			sync_settle(w.s, T0 + (uint64_t)(20 + k) * NSEC_PER_SEC);
		assert_int_equal(w.k.slots.n, 80);
		assert_int_equal(sync_stats_get(w.s)->repairs, 80);
		assert_int_equal(w.k.n_loads - loads, answers[i] == PLANE_CHECK_LOST);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

static size_t env_writes;

static int env_writing(struct plane *p, const struct model *m, struct plane_result *res,
		       struct err *err)
{
	res->done.n_writes = env_writes;
	env_writes = 0;
	return 0;
}

/* Repaired rules count as repairs, as repaired elements do; changes of the model do not. */
static void test_drift_of_rules(void **state)
{
	static struct plane_ops ops;
	struct world w;

	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	ops = mock_plane_ops;
	ops.env = env_writing;
	w.k.plane.ops = &ops;
	some_services(&w, 2);
	env_writes = 7;
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	env_writes = 5;
	w.m.env_generation++;
	sync_settle(w.s, T0 + 1);
	assert_int_equal(env_writes, 0);
	assert_int_equal(sync_stats_get(w.s)->repairs, 0);
	env_writes = 3;
	w.k.check_answer = PLANE_CHECK_CHANGED;
	sync_settle(w.s, T0 + 20 * NSEC_PER_SEC);
	assert_int_equal(sync_stats_get(w.s)->repairs, 3);
	/* By the plane itself, once */
	w.k.plane.n_repaired = 2;
	sync_settle(w.s, T0 + 21 * NSEC_PER_SEC);
	sync_settle(w.s, T0 + 22 * NSEC_PER_SEC);
	assert_int_equal(sync_stats_get(w.s)->repairs, 5);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* The periodic audit finds differences without a notification and changes nothing else. */
static void test_audit(void **state)
{
	struct world w;
	uint64_t success;
	size_t writes;

	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	some_services(&w, 40);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	writes = w.k.n_writes;
	success = sync_stats_get(w.s)->last_success_ns;
	mock_remove(&w.k.frontends, &w.k.frontends.v[7]);
	sync_audit(w.s);
	for (int k = 0; k < 4; k++)
		sync_settle(w.s, T0 + (uint64_t)(20 + k) * NSEC_PER_SEC);
	assert_int_equal(w.k.n_writes, writes + 1);
	assert_int_equal(w.k.frontends.n, 40);
	assert_int_equal(sync_stats_get(w.s)->audits, 1);
	assert_true(sync_stats_get(w.s)->last_success_ns > success); /* MET-04 */
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* A pass in pieces ends with its last one: the next one begins after audit_period_ns. */
static void test_audit_once_a_period(void **state)
{
	static const struct sync_config config = { .check_period_ns = 250 * NSEC_PER_MSEC,
						   .audit_period_ns = 600 * NSEC_PER_SEC };
	struct world w;
	uint64_t now = T0;

	(void)state;
	world_init(&w);
	process_end(&w);
	process_begin_with(&w, &config);
	some_services(&w, 200);
	sync_sources_ready(w.s);
	for (int period = 0; period < 3; period++) {
		for (int k = 0; k < 590; k++)
			sync_settle(w.s, now += NSEC_PER_SEC);
		/* The first one follows the load, within the first period. */
		assert_int_equal(sync_stats_get(w.s)->audits, period + 1);
		now += 20 * NSEC_PER_SEC;
	}
	world_fini(&w);
}

/* `n` changes, one every 10 ms. */
static uint64_t storm(struct world *w, uint64_t now, int n)
{
	for (int i = 0; i < n; i++) {
		make_service(&w->m, "shop/s1", "10.96.0.2", i % 2 ? "http:TCP:80" : "http:TCP:81");
		sync_settle(w->s, now += 10 * NSEC_PER_MSEC);
	}
	return now;
}

/* Many changes delay the steps of an audit, and do not stop it. */
static void test_audit_in_storm(void **state)
{
	struct world w;
	uint64_t now = T0;

	world_init(&w);
	some_services(&w, 240);
	sync_sources_ready(w.s);
	sync_settle(w.s, now);
	sync_audit(w.s);
	sync_settle(w.s, now += 20 * NSEC_PER_SEC);
	now = storm(&w, now, 50);
	assert_int_equal(sync_stats_get(w.s)->audits, 0); /* 8 steps, each after 100 ms */
	(void)storm(&w, now, 1000);
	assert_int_equal(sync_stats_get(w.s)->audits, 1);
	world_fini(&w);
}

/* Services may be deleted during an audit: the others are compared once. */
static void test_audit_of_fewer(void **state)
{
	struct world w;

	world_init(&w);
	some_services(&w, 40);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	sync_audit(w.s);
	sync_settle(w.s, T0 + 20 * NSEC_PER_SEC);
	assert_int_equal(sync_stats_get(w.s)->audits, 0); /* 32 of 40 */
	for (int i = 0; i < 38; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		(void)drop_service(&w.m, key);
		(void)snprintf(key, sizeof(key), "shop/s%d-a", i);
		(void)drop_slice(&w.m, key);
	}
	for (int k = 1; k < 4; k++)
		sync_settle(w.s, T0 + (uint64_t)(20 + k) * NSEC_PER_SEC);
	assert_int_equal(sync_stats_get(w.s)->audits, 1);
	assert_string_equal(sync_stats_get(w.s)->last_error, "");
	assert_int_equal(w.k.frontends.n, 2);
	world_fini(&w);
}

struct reported {
	size_t n;
	bool had_rows;
	bool has_rows;
};

static void on_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole)
{
	struct reported *t = arg;

	assert_ptr_equal(svc->rows, old);
	t->n++;
	t->had_rows = old != NULL;
	t->has_rows = new != NULL;
}

/*
 * A service that is rejected during adoption keeps its kernel state. After the next load it can be
 * accepted or deleted completely.
 */
static void test_spared(void **state)
{
	struct world w;

	for (int is_gone = 0; is_gone < 2; is_gone++) {
		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		some_services(&w, 2);
		refuse(&w, "s0", true);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		assert_int_equal(w.k.n_loads, 1);
		assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
		sync_settle(w.s, T0 + NSEC_PER_SEC);
		assert_int_equal(w.k.n_loads, 2);                          /* refused again */
		make_service(&w.m, "shop/s0", "10.96.0.1", "http:TCP:81"); /* no reason to hurry */
		sync_settle(w.s, T0 + NSEC_PER_SEC);
		assert_int_equal(w.k.n_loads, 2);
		refuse(&w, NULL, false);
		if (is_gone) { /* a reason */
			drop_service(&w.m, "shop/s0");
			drop_slice(&w.m, "shop/s0-a");
			sync_settle(w.s, T0 + NSEC_PER_SEC);
		} else {
			sync_settle(w.s, T0 + 60 * NSEC_PER_SEC);
		}
		assert_int_equal(w.k.n_loads, 3);
		assert_int_equal(sync_failure_count(w.s), 0);
		assert_int_equal(w.k.frontends.n, is_gone ? 1 : 2);
		sync_settle(w.s, T0 + 120 * NSEC_PER_SEC);
		assert_int_equal(w.k.n_loads, 3);
		world_fini(&w);
	}
}

/* After many attempts a load is far away; a change of the service brings it near. */
static void test_spared_and_changed(void **state)
{
	uint64_t now = T0;
	struct world w;
	size_t loads;

	(void)state;
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	some_services(&w, 2);
	refuse(&w, "s0", true);
	sync_sources_ready(w.s);
	for (int i = 0; i < 14; i++, now += 400 * NSEC_PER_SEC)
		sync_settle(w.s, now);
	refuse(&w, NULL, false);
	loads = w.k.n_loads;
	now -= 399 * NSEC_PER_SEC;
	sync_settle(w.s, now);
	assert_int_equal(sync_failure_count(w.s), 1);
	make_service(&w.m, "shop/s0", "10.96.0.1", "http:TCP:81");
	sync_settle(w.s, now);
	assert_int_equal(w.k.n_loads, loads); /* not for each change */
	sync_settle(w.s, now + 30 * NSEC_PER_SEC);
	assert_int_equal(w.k.n_loads, loads + 1);
	assert_int_equal(sync_failure_count(w.s), 0);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

static int env_result;

static int env_failing(struct plane *p, const struct model *m, struct plane_result *res,
		       struct err *err)
{
	(void)p, (void)m, (void)res;
	return env_result == 0 ? 0 : err_set(err, env_result, "as the test wants it");
}

/* What a plane knows of its rules may be wrong after any failure: it loads. */
static void test_env_fails(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	ops = mock_plane_ops;
	ops.env = env_failing;
	w.k.plane.ops = &ops;
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	env_result = -ENOENT;
	w.m.env_generation++;
	(void)sync_step(w.s, T0);
	env_result = 0;
	sync_settle(w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(w.k.n_loads, 2);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/*
 * A service is rejected in adoption, and deleted or changed before its end: what the sweep spared
 * is removed.
 */
static void test_spared_in_vain(void **state)
{
	struct world w;

	for (int is_gone = 0; is_gone < 2; is_gone++) {
		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		some_services(&w, 2);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		process_end(&w);
		process_begin(&w);
		some_services(&w, 2);
		refuse(&w, "s0", true);
		sync_sources_ready(w.s);
		while (sync_failure_count(w.s) == 0)
			(void)sync_step(w.s, T0);
		assert_int_equal(sync_state_get(w.s), SYNC_ADOPTING);
		refuse(&w, NULL, false);
		if (is_gone)
			drop_service(&w.m, "shop/s0");
		else
			make_service(&w.m, "shop/s0", "10.96.0.9", "http:TCP:80");
		sync_settle(w.s, T0);
		assert_null(frontend(&w, "10.96.0.1"));
		assert_int_equal(w.k.frontends.n, is_gone ? 1 : 2);
		assert_int_equal(w.k.slots.n, is_gone ? 2 : 4);
		assert_int_equal(w.k.n_loads, 3);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/*
 * A service that is put off until the next load, and deleted: its claims are released before the
 * model frees it, also if it has no frontends meanwhile.
 */
static void test_spared_claims(void **state)
{
	struct world w;

	for (int is_headless = 0; is_headless < 2; is_headless++) {
		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		some_services(&w, 1);
		refuse(&w, "s0", true);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		assert_int_equal(w.p.claims.count, 1);
		if (is_headless)
			make_service(&w.m, "shop/s0", NULL, "http:TCP:80");
		else
			drop_service(&w.m, "shop/s0");
		while (!list_is_empty(&w.m.dirty))
			(void)sync_step(w.s, T0);
		drop_slice(&w.m, "shop/s0-a");
		drop_service(&w.m, "shop/s0");
		assert_null(model_find_text(&w.m, "shop", "s0"));
		assert_int_equal(w.p.claims.count, 0);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/* Callbacks get acknowledged rows, and no rejected ones. */
static void test_accepted(void **state)
{
	struct reported reported = { 0 };
	struct sync_config config = { .accepted = on_accepted, .accepted_arg = &reported };
	struct world w;

	world_init(&w);
	sync_close(w.s);
	sync_open(&w.s, &w.m, &w.p, &w.k.plane, &config);
	log_level_set_all(LOG_LEVEL_ERR);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	some_services(&w, 1);
	refuse(&w, "s0", true);
	sync_settle(w.s, T0);
	assert_int_equal(reported.n, 0);
	refuse(&w, NULL, false);
	sync_settle(w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(reported.n, 1);
	assert_false(reported.had_rows);
	assert_true(reported.has_rows);
	drop_service(&w.m, "shop/s0");
	sync_settle(w.s, T0 + 2 * NSEC_PER_SEC);
	assert_int_equal(reported.n, 2);
	assert_true(reported.had_rows);
	assert_false(reported.has_rows);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

static void with_external_ip(struct world *w, const char *key, const char *ip, int64_t created)
{
	struct service *s = make_service_object(key, ip, NULL, "http:TCP:80");

	s->created_s = created;
	*vec_push(&s->external_ips) = make_ip("203.0.113.20");
	model_put_service(&w->m, s, 1);
}

static const char *owner(struct world *w)
{
	const struct mock_frontend *f = frontend(w, "203.0.113.20");
	static const char *const names[] = { "a", "b", "c" };

	for (size_t i = 0; f != NULL && i < ARRAY_SIZE(names); i++) {
		struct svc *svc = model_find_text(&w->m, "shop", names[i]);
		const struct plan_rows *rows = svc ? svc->rows : NULL;

		for (size_t k = 0; rows != NULL && k < rows->frontends.n; k++)
			if (ip_tuple_cmp(&rows->frontends.v[k], &f->f) == 0)
				return names[i];
	}
	return "nobody";
}

/* T-127: at the first sync, when the older service arrives later, and when it is deleted. */
static void test_one_owner(void **state)
{
	uint64_t reported = log_count(LOG_LEVEL_WARN);
	struct world w;

	world_init(&w);
	with_external_ip(&w, "shop/a", "10.96.0.1", 3000);
	with_external_ip(&w, "shop/b", "10.96.0.2", 2000);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_string_equal(owner(&w), "b");
	assert_int_equal(log_count(LOG_LEVEL_WARN) - reported, 1); /* SEL-14: a is named ... */
	make_slice(&w.m, "shop/a-1", "a", "http:TCP:8080", "10.1.0.9");
	sync_settle(w.s, T0 + 1);
	assert_int_equal(log_count(LOG_LEVEL_WARN) - reported, 1); /* ... once */
	with_external_ip(&w, "shop/c", "10.96.0.3", 1000);
	sync_settle(w.s, T0 + 1);
	assert_int_equal(log_count(LOG_LEVEL_WARN) - reported, 2); /* b lost it */
	assert_string_equal(owner(&w), "c");
	assert_int_equal(w.p.n_conflicts, 2);
	drop_service(&w.m, "shop/c");
	sync_settle(w.s, T0 + 2);
	assert_string_equal(owner(&w), "b");
	drop_service(&w.m, "shop/b");
	drop_service(&w.m, "shop/a");
	sync_settle(w.s, T0 + 3);
	assert_int_equal(w.k.frontends.n, 0);
	assert_int_equal(w.k.slots.n, 0);
	assert_int_equal(sync_failure_count(w.s), 0);
	world_fini(&w);
}

/* A service that another one's change made dirty has no event and no latency. */
static void test_latency(void **state)
{
	const struct hist *h;
	struct world w;

	world_init(&w);
	with_external_ip(&w, "shop/a", "10.96.0.1", 3000);
	with_external_ip(&w, "shop/b", "10.96.0.2", 2000);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	h = &sync_stats_get(w.s)->event_to_ack;
	assert_int_equal(h->count, 0); /* an adoption */
	model_put_slice(&w.m, make_slice_object("shop/a-1", "a", "http:TCP:8080", "10.1.0.9"),
			now_ns());
	sync_settle(w.s, T0 + 1);
	assert_int_equal(h->count, 1);
	drop_service(&w.m, "shop/b"); /* a gets what b had */
	sync_settle(w.s, T0 + 2);
	assert_string_equal(owner(&w), "a");
	assert_int_equal(h->count, 1);
	assert_true(h->max_ns < 60 * NSEC_PER_SEC);
	world_fini(&w);
}

/* Random services claim a few addresses while the kernel sometimes rejects. */
static void test_random(void **state)
{
	struct world w;
	uint64_t now = T0;

	srandom(3);
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR - 1);
	sync_sources_ready(w.s);
	for (int round = 0; round < 3000; round++) {
		char key[16];
		char ip[16];
		int i = (int)(random() % 12);

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		(void)snprintf(ip, sizeof(ip), "10.96.0.%d", i + 1);
		if (random() % 3 == 0)
			drop_service(&w.m, key);
		else
			with_external_ip(&w, key, ip, 1 + random() % 50);
		if (random() % 20 == 0)
			w.k.fail_next_commit = random() % 2 ? -EBUSY : -EINVAL;
		if (random() % 2)
			sync_settle(w.s, now += NSEC_PER_SEC);
	}
	for (int i = 0; i < 40; i++)
		sync_settle(w.s, now += 30 * NSEC_PER_SEC);
	assert_int_equal(sync_failure_count(w.s), 0);
	assert_int_equal(w.k.frontends.n, w.m.stats.services + (w.m.stats.services > 0));
	assert_int_equal(w.p.n_conflicts, w.m.stats.services - (w.m.stats.services > 0));
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* A requested check is done at once; a second one not before the minimum gap. */
static void test_look(void **state)
{
	const uint64_t period = 250 * NSEC_PER_MSEC;
	struct world w;
	uint64_t now = T0;

	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	some_services(&w, 3);
	sync_sources_ready(w.s);
	sync_settle(w.s, now);
	assert_int_equal(sync_stats_get(w.s)->checks, 0);

	now += NSEC_PER_MSEC;
	w.k.check_answer = PLANE_CHECK_CHANGED;
	sync_check(w.s, now);
	sync_settle(w.s, now);
	assert_int_equal(sync_stats_get(w.s)->checks, 1);
	assert_int_equal(sync_stats_get(w.s)->foreign_changes, 1);

	/* A thousand requests per second are one check per gap. */
	for (int i = 0; i < 1000; i++) {
		now += NSEC_PER_MSEC;
		sync_check(w.s, now);
		w.k.check_answer = PLANE_CHECK_CHANGED;
		sync_settle(w.s, now);
	}
	assert_int_equal(sync_stats_get(w.s)->checks, 1 + NSEC_PER_SEC / period);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* Permanent changes do not prevent checks. */
static void test_look_under_changes(void **state)
{
	struct world w;
	uint64_t now = T0;

	world_init(&w);
	some_services(&w, 3);
	sync_sources_ready(w.s);
	sync_settle(w.s, now);
	for (int i = 0; i < 100; i++) {
		now += 20 * NSEC_PER_MSEC;
		make_slice(&w.m, "shop/s1-a", "s1", "http:TCP:8080",
			   i % 2 ? "10.1.1.1" : "10.1.1.1 10.1.1.9");
		sync_step(w.s, now); /* one step, then the next change arrives */
	}
	assert_in_range(sync_stats_get(w.s)->checks, 3, 8);
	world_fini(&w);
}

#define MOVERS 2000

static size_t n_boundaries;

/* Every moving address is programmed after every transaction. */
static int commit_watched(struct plane *p, const struct plan_op *ops, size_t n,
			  enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	int r = mock_commit(p, ops, n, mode, res, err);
	size_t n_external = 0;

	vec_for_each (f, &mock_of(p)->frontends)
		n_external += f->f.kind == PLAN_FRONTEND_EXTERNALIP;
	if (n_boundaries > 0) {
		assert_int_equal(n_external, MOVERS);
		n_boundaries++;
	}
	return r;
}

static void mover(struct world *w, int i, int external, int64_t created)
{
	struct service *s;
	char key[32];
	char ip[32];

	(void)snprintf(key, sizeof(key), "shop/s%d", i);
	(void)snprintf(ip, sizeof(ip), "10.96.%d.%d", i / 250, i % 250 + 1);
	s = make_service_object(key, ip, NULL, "http:TCP:80");
	s->created_s = created;
	if (external >= 0) {
		(void)snprintf(ip, sizeof(ip), "203.%d.%d.1", external / 250, external % 250);
		*vec_push(&s->external_ips) = make_ip(ip);
	}
	model_put_service(&w->m, s, 1);
}

/*
 * SEL-14: 4,000 services change at once and their frontends move, to an older service, or because
 * the old owner no longer claims them or is deleted. Old and new owner are many transactions apart
 * in the queue; no address is ever missing.
 */
static void test_move_is_atomic(void **state)
{
	static const struct sync_config config = { .batch_ops = 800 };
	static struct plane_ops watched;
	struct world w;

	log_level_set_all(LOG_LEVEL_ERR);
	w = (struct world){ 0 };
	mock_init(&w.k);
	process_begin_with(&w, &config);
	watched = mock_plane_ops;
	watched.commit = commit_watched;
	w.k.plane.ops = &watched;
	n_boundaries = 0;
	for (int i = 0; i < 2 * MOVERS; i++)
		mover(&w, i, i < MOVERS ? i : -1, 1000);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.frontends.n, 3 * MOVERS);

	for (int i = 0; i < MOVERS; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		if (i % 3 == 0)
			drop_service(&w.m, key);
		else if (i % 3 == 1)
			mover(&w, i, -1, 1000);
		else
			mover(&w, i, i, 3000); /* created again: the younger one */
	}
	for (int i = 0; i < MOVERS; i++)
		mover(&w, MOVERS + i, i, 2000);
	n_boundaries = 1;
	sync_settle(w.s, T0 + 1);
	assert_in_range(n_boundaries, 10, 100);
	assert_true(list_is_empty(&w.m.dirty));
	for (int i = 0; i < MOVERS; i += 97) {
		struct plan_frontend key = { .port = 80, .proto = L4PROTO_TCP };
		const struct plan_rows *rows;
		char text[32];

		(void)snprintf(text, sizeof(text), "203.%d.%d.1", i / 250, i % 250);
		key.addr = make_ip(text);
		(void)snprintf(text, sizeof(text), "s%d", MOVERS + i);
		rows = model_find_text(&w.m, "shop", text)->rows;
		assert_non_null(plan_rows_frontend(rows, &key));
	}
	n_boundaries = 0;
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* Services programmed for the last changes. */
static uint64_t services_synced(struct world *w, uint64_t now)
{
	uint64_t before = sync_stats_get(w->s)->services;

	sync_settle(w->s, now);
	return sync_stats_get(w->s)->services - before;
}

static bool has_address(struct world *w, const char *name, const char *addr)
{
	const struct plan_rows *rows = model_find_text(&w->m, "shop", name)->rows;
	struct ip_addr a = make_ip(addr);

	return vec_has(&rows->frontends, f, ip_addr_is_equal(&f->addr, &a));
}

/* SEL-14: of many claimants, only the one that gets the address is programmed. */
static void test_many_claimants(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	for (int i = 0; i < 1000; i++)
		mover(&w, i, 0, 1000 + i);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_true(has_address(&w, "s0", "203.0.0.1"));
	assert_in_range(w.p.n_claims_visited, 1000, 20000);
	for (int round = 1; round <= 2; round++) {
		w.p.n_claims_visited = 0;
		mover(&w, 0, -1, 1000);
		assert_int_equal(services_synced(&w, T0 + round), 2);
		assert_true(has_address(&w, "s1", "203.0.0.1"));
		mover(&w, 0, 0, 1000);
		assert_int_equal(services_synced(&w, T0 + round), 2);
		assert_true(has_address(&w, "s0", "203.0.0.1"));
		assert_in_range(w.p.n_claims_visited, 1, 100);
	}
	drop_service(&w.m, "shop/s0");
	drop_service(&w.m, "shop/s1");
	assert_int_equal(services_synced(&w, T0 + 3), 3);
	assert_true(has_address(&w, "s2", "203.0.0.1"));
	assert_int_equal(w.p.n_conflicts, 997);
	/* All but the last give the address up, in any order. */
	w.p.n_claims_visited = 0;
	for (int i = 0; i < 997; i++) {
		int k = 2 + i * 599 % 997;

		mover(&w, k, -1, 1000 + k);
	}
	sync_settle(w.s, T0 + 4);
	assert_true(has_address(&w, "s999", "203.0.0.1"));
	assert_int_equal(w.p.n_conflicts, 0);
	assert_in_range(w.p.n_claims_visited, 1000, 20000);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* `n` frontends of the same addresses and ports as all others, or one. */
static void wide_mover(struct world *w, int i, int n)
{
	char name[16];
	char ip[24];
	struct service *s;

	(void)snprintf(name, sizeof(name), "shop/s%d", i);
	(void)snprintf(ip, sizeof(ip), "10.96.%d.%d", i / 250, i % 250 + 1);
	s = make_service_object(name, ip, NULL, "http:TCP:80");
	s->created_s = 1000 + i;
	for (int k = 0; k < n; k++) {
		(void)snprintf(ip, sizeof(ip), "203.0.%d.%d", k / 250, k % 250);
		*vec_push(&s->external_ips) = make_ip(ip);
	}
	model_put_service(&w->m, s, 1);
}

/*
 * SEL-14: large services, and a small one without precedence, claim the same frontends. What a
 * change of one of them costs is bounded by its frontends, wherever it is in the order and whether
 * a service has the frontends or not.
 */
static void test_many_large_claimants(void **state)
{
	enum {
		LARGE = 100,
		WIDE = 200
	};
	static const struct sync_config config = { .piece_ops = WIDE };
	static const int changed[] = { 0, 0, LARGE - 1, LARGE / 2, LARGE, 0 };
	struct world w = { 0 };
	uint64_t now = T0;

	(void)state;
	mock_init(&w.k);
	process_begin_with(&w, &config);
	log_level_set_all(LOG_LEVEL_ERR);
	for (int i = 0; i < LARGE; i++)
		wide_mover(&w, i, WIDE);
	wide_mover(&w, LARGE, WIDE / 4);
	sync_sources_ready(w.s);
	sync_settle(w.s, now++);
	assert_in_range(w.p.n_claims_visited, LARGE * WIDE, 20 * LARGE * WIDE);
	for (size_t k = 0; k < ARRAY_SIZE(changed); k++)
		for (int is_back = 0; is_back < 2; is_back++) {
			w.p.n_claims_visited = 0;
			wide_mover(&w, changed[k], is_back ? WIDE : 0);
			sync_settle(w.s, now++);
			assert_true(w.p.n_claims_visited <= 40 * WIDE);
			assert_int_equal(w.k.frontends.n, LARGE + 1 + WIDE);
			assert_true(has_address(&w, changed[k] || is_back ? "s0" : "s1",
						"203.0.0.199"));
		}
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

static void assert_owner(const struct world *w, const struct plan_rows *rows, const char *name)
{
	const struct plan_owner o = plan_conflict_owner(&w->p, rows->svc, &rows->conflicts.v[0]);

	assert_string_equal(o.svc->name->text, name);
}

/* The kernel rejects a claimant with precedence: conflicts name the service that has the address.
 */
static void test_rejected_claimant(void **state)
{
	const struct plan_rows *rows;
	struct world w;

	(void)state;
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR - 1);
	mover(&w, 0, 0, 2000);
	mover(&w, 1, 0, 3000);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	w.k.refuse_name = "s2";
	mover(&w, 2, 0, 1000);
	sync_settle(w.s, T0 + 1);
	assert_true(sync_failure_count(w.s) > 0);
	assert_true(has_address(&w, "s0", "203.0.0.1"));
	rows = model_find_text(&w.m, "shop", "s1")->rows;
	assert_int_equal(rows->conflicts.n, 1);
	assert_owner(&w, rows, "s0");
	w.k.refuse_name = NULL;
	sync_settle(w.s, T0 + 60 * NSEC_PER_SEC);
	assert_true(has_address(&w, "s2", "203.0.0.1"));
	rows = model_find_text(&w.m, "shop", "s1")->rows;
	assert_owner(&w, rows, "s2");
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

static void two_owners(struct world *w)
{
	some_services(w, 60);
	for (int i = 0; i < 60; i++)
		mover(w, i, i == 0 || i == 59 ? 0 : -1, i == 0 ? 3000 : 2000);
	sync_sources_ready(w->s);
}

static bool has_frontend(const struct world *w, const char *addr)
{
	struct ip_addr a = make_ip(addr);

	vec_for_each (f, &w->k.frontends)
		if (ip_addr_cmp(&f->f.addr, &a) == 0)
			return true;
	return false;
}

/*
 * SEL-14, in adoption: an address of two services stays with the older one, which is adopted last,
 * even if the younger one changes. When the owner is deleted during adoption, the next service gets
 * the address in the same transaction.
 */
static void test_claims_in_adoption(void **state)
{
	static const struct sync_config config = { .batch_ops = 20 };
	struct world w;
	size_t writes;

	(void)state;
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	two_owners(&w);
	sync_settle(w.s, T0);
	process_end(&w);

	process_begin_with(&w, &config);
	two_owners(&w);
	writes = w.k.n_writes;
	sync_settle(w.s, T0);
	assert_int_equal(w.k.n_writes, writes);
	process_end(&w);
	mock_fini(&w.k);

	mock_init(&w.k);
	process_begin_with(&w, &config);
	two_owners(&w);
	mover(&w, 0, 0, 1000);
	while (sync_stats_get(w.s)->services == 0)
		assert_true(sync_step(w.s, T0) == SYNC_NOW);
	assert_true(has_frontend(&w, "203.0.0.1"));
	drop_service(&w.m, "shop/s0");
	assert_int_equal(sync_state_get(w.s), SYNC_ADOPTING);
	while (sync_state_get(w.s) == SYNC_ADOPTING) {
		(void)sync_step(w.s, T0);
		assert_true(has_frontend(&w, "203.0.0.1"));
	}
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* A rejected service does not delay the removal of services whose frontends it gets. */
static void test_rejected_heir(void **state)
{
	for (int is_named = 0; is_named < 2; is_named++) {
		struct world w;

		world_init(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		with_external_ip(&w, "shop/a", "10.96.0.1", 1000);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		with_external_ip(&w, "shop/b", "10.96.0.2", 2000);
		refuse(&w, "b", is_named);
		drop_service(&w.m, "shop/a");
		sync_settle(w.s, T0 + 1);
		assert_null(model_find_text(&w.m, "shop", "a"));
		assert_int_equal(w.k.frontends.n, 0);
		assert_int_equal(sync_failure_count(w.s), 1);
		refuse(&w, NULL, false);
		sync_settle(w.s, T0 + NSEC_PER_SEC);
		assert_string_equal(owner(&w), "b");

		/* The last good state stays while another service claims its frontends. */
		with_external_ip(&w, "shop/c", "10.96.0.3", 1500);
		refuse(&w, "c", is_named);
		sync_settle(w.s, T0 + 2 * NSEC_PER_SEC);
		assert_string_equal(owner(&w), "b");
		assert_int_equal(w.k.frontends.n, 2);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

static void all_slices(struct world *w, int n, const char *eps)
{
	for (int i = 0; i < n; i++) {
		char slice[40];
		char name[16];

		(void)snprintf(slice, sizeof(slice), "shop/s%d-a", i);
		(void)snprintf(name, sizeof(name), "s%d", i);
		make_slice(&w->m, slice, name, "http:TCP:8080", eps);
	}
}

/* Transactions until nothing is due at `now`. */
static size_t commits_at(struct world *w, uint64_t now)
{
	size_t before = w->k.n_commits;

	sync_settle(w->s, now);
	return w->k.n_commits - before;
}

/*
 * RUN-14: first sync, adoption, repair and all transactions of a sync are not delayed by the
 * minimum period; only the next sync is.
 */
static void test_min_period(void **state)
{
	for (int has_period = 0; has_period < 2; has_period++) {
		const struct sync_config config = { .min_period_ns = has_period * NSEC_PER_SEC,
						    .check_period_ns = 100 * NSEC_PER_MSEC,
						    .batch_ops = 40 };
		uint64_t now = T0;
		struct world w = { 0 };

		log_level_set_all(LOG_LEVEL_ERR);
		mock_init(&w.k);
		process_begin_with(&w, &config);
		some_services(&w, 100);
		sync_sources_ready(w.s);
		assert_in_range(commits_at(&w, now), 15, 25); /* the first sync */
		assert_int_equal(w.k.frontends.n, 100);
		assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);

		all_slices(&w, 100, "10.1.9.1"); /* after idle time: all transactions at once */
		assert_in_range(commits_at(&w, now += NSEC_PER_MSEC), 12, 25);
		assert_int_equal(w.k.slots.n, 100);

		mock_slots_clear(&w.k); /* the table is deleted: loaded again at once */
		vec_clear(&w.k.frontends);
		w.k.check_answer = PLANE_CHECK_LOST;
		sync_check(w.s, now);
		assert_in_range(commits_at(&w, now += 200 * NSEC_PER_MSEC), 12, 25);
		assert_int_equal(w.k.frontends.n, 100);

		process_end(&w); /* adoption */
		process_begin_with(&w, &config);
		some_services(&w, 100);
		all_slices(&w, 100, "10.1.9.1");
		sync_sources_ready(w.s);
		assert_in_range(commits_at(&w, now), 12, 25);
		assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/* RUN-04, RUN-05: a change within the period waits for its end; a repair does not. */
static void test_min_period_waits(void **state)
{
	static const struct sync_config config = { .min_period_ns = NSEC_PER_SEC,
						   .check_period_ns = 100 * NSEC_PER_MSEC };
	struct world w = { 0 };
	uint64_t now = T0;

	log_level_set_all(LOG_LEVEL_ERR);
	mock_init(&w.k);
	process_begin_with(&w, &config);
	some_services(&w, 3);
	sync_sources_ready(w.s);
	sync_settle(w.s, now);
	all_slices(&w, 1, "10.1.9.1");
	assert_int_equal(commits_at(&w, now += 10 * NSEC_PER_SEC), 1); /* idle before: at once */
	for (int i = 1; i < 10; i++) { /* ten changes become one sync */
		all_slices(&w, 2, i % 2 ? "10.1.9.2" : "10.1.9.1");
		assert_int_equal(commits_at(&w, now + (uint64_t)i * 20 * NSEC_PER_MSEC), 0);
		assert_true(sync_step(w.s, now + (uint64_t)i * 20 * NSEC_PER_MSEC) <=
			    now + 2 * NSEC_PER_SEC);
	}
	mock_remove(&w.k.frontends, &w.k.frontends.v[0]);
	w.k.check_answer = PLANE_CHECK_CHANGED;
	sync_check(w.s, now + 300 * NSEC_PER_MSEC);
	sync_settle(w.s, now + 400 * NSEC_PER_MSEC);
	assert_int_equal(w.k.frontends.n, 3);
	assert_int_equal(sync_stats_get(w.s)->repairs, 1);
	assert_false(list_is_empty(&w.m.dirty));
	assert_int_equal(commits_at(&w, now + 1100 * NSEC_PER_MSEC), 1);
	assert_true(list_is_empty(&w.m.dirty));
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* --- services in pieces --- */

#define PIECE 24

/* Slots of a pool in the kernel, which must be filled from 0 on. */
static size_t slots_of(struct mock_plane *k, uint8_t fam, uint32_t pool)
{
	size_t n = 0;
	uint32_t last = 0;

	vec_for_each (s, &k->slots)
		if (s->fam == fam && s->pool == pool) {
			n++;
			last = MAX(last, s->slot);
		}
	assert_true(n == 0 || last == n - 1);
	return n;
}

static bool is_led(struct mock_plane *k, const struct mock_slot *s)
{
	vec_for_each (f, &k->frontends)
		if (f->f.target.verdict == PLAN_VERDICT_POOL && f->f.target.pool_id == s->pool)
			return true;
	return false;
}

/*
 * Every pool is complete: each frontend leads to its number of backends, and no backend is in a
 * pool without a frontend, which a restart would not find.
 */
static void assert_consistent(struct mock_plane *k)
{
	vec_for_each (f, &k->frontends) {
		size_t n = slots_of(k, (uint8_t)ip_fam(&f->f.addr), f->f.target.pool_id);

		if (f->f.target.verdict == PLAN_VERDICT_POOL)
			assert_int_equal(f->f.target.class, mock_pool_class(n, 0));
	}
	vec_for_each (s, &k->slots)
		assert_true(is_led(k, s));
}

static size_t longest_commit;

static int commit_consistent(struct plane *p, const struct plan_op *ops, size_t n,
			     enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	int r = mock_commit(p, ops, n, mode, res, err);

	if (r == 0 && !mock_of(p)->is_loaded_phase)
		assert_consistent(mock_of(p));
	longest_commit = MAX(longest_commit, n);
	return r;
}

static int mock_commit_counted(struct plane *p, const struct plan_op *ops, size_t n,
			       enum plane_commit_mode mode, struct plane_result *res,
			       struct err *err)
{
	longest_commit = MAX(longest_commit, n);
	return mock_commit(p, ops, n, mode, res, err);
}

/* With an external IP, unless NULL. */
static void large_put_with(struct world *w, int i, int ports, int endpoints, int shift,
			   const char *external)
{
	struct service *s = make_service_object("shop/x", "10.96.0.1", NULL, "p:TCP:1");
	struct slice *sl = make_slice_object("shop/x-a", "x", "p:TCP:1", "10.1.0.1");
	char text[32];

	s->name = (name_unref(s->name), (void)snprintf(text, sizeof(text), "x%d", i),
		   name_get_str(text));
	s->cluster_ip[IPFAM_V4].bytes[3] = (uint8_t)(i + 1);
	if (external != NULL)
		*vec_push(&s->external_ips) = make_ip(external);
	sl->service = (name_unref(sl->service), name_ref(s->name));
	sl->name = (name_unref(sl->name), name_ref(s->name));
	vec_for_each (p, &s->ports)
		name_unref(p->name);
	vec_for_each (p, &sl->ports)
		name_unref(p->name);
	vec_clear(&s->ports);
	vec_clear(&sl->ports);
	vec_clear(&sl->endpoints);
	for (int k = 0; k < ports; k++) {
		(void)snprintf(text, sizeof(text), "p%d", k);
		*vec_push(&s->ports) = (struct service_port){ .name = name_get_str(text),
							      .proto = L4PROTO_TCP,
							      .port = (uint16_t)(1000 + k) };
		*vec_push(&sl->ports) = (struct slice_port){ .name = name_get_str(text),
							     .proto = L4PROTO_TCP,
							     .port = (uint16_t)(2000 + k) };
	}
	for (int k = 0; k < endpoints; k++) {
		(void)snprintf(text, sizeof(text), "10.1.%d.%d", i, (k + shift) % 250);
		*vec_push(&sl->endpoints) =
			(struct slice_endpoint){ .addr = make_ip(text),
						 .flags = ENDPOINT_READY | ENDPOINT_SERVING,
						 .place = slice_place_make(NULL, NULL,
									   (struct hints){ 0 },
									   (struct hints){ 0 }) };
	}
	model_put_service(&w->m, s, 1);
	model_put_slice(&w->m, sl, 1);
}

static void large_put(struct world *w, int i, int ports, int endpoints, int shift)
{
	large_put_with(w, i, ports, endpoints, shift, NULL);
}

static void large_drop(struct world *w, int i)
{
	char key[32];

	(void)snprintf(key, sizeof(key), "shop/x%d", i);
	(void)drop_service(&w->m, key);
	(void)drop_slice(&w->m, key);
}

static void large_world(struct world *w, struct plane_ops *ops)
{
	static const struct sync_config config = { .batch_ops = PIECE, .piece_ops = PIECE };

	*w = (struct world){ 0 };
	mock_init(&w->k);
	*ops = mock_plane_ops;
	ops->commit = commit_consistent;
	w->k.plane.ops = ops;
	process_begin_with(w, &config);
	longest_commit = 0;
}

/* Ready to sync. Only errors are logged. */
static void large_world_ready(struct world *w, struct plane_ops *ops)
{
	large_world(w, ops);
	log_level_set_all(LOG_LEVEL_ERR);
	sync_sources_ready(w->s);
}

static uint64_t slots_hash(const struct world *w)
{
	uint64_t h = 0;

	vec_for_each (s, &w->k.slots)
		h += hash_bytes(s, offsetof(struct mock_slot, is_wanted));
	return h;
}

/* The step that registers claims is bounded by ports, not by services. */
static void test_claims_of_many_ports(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	for (int i = 0; i < 20; i++)
		large_put(&w, i, 500, 0, 0);
	for (size_t was = 0; was < 20 * 500; was = w.p.claims.count) {
		(void)sync_step(w.s, T0 + 1);
		assert_in_range(w.p.claims.count - was, 1, 3000);
	}
	world_fini(&w);
}

/*
 * Many services change, and then a few while these are pending: each transaction looks for claims
 * at those that changed since, not at all pending ones.
 */
static void test_claims_of_many_services(void **state)
{
	const struct sync_config config = { .batch_ops = 64 };
	uint64_t steps = 0;
	uint64_t searched;
	struct world w;

	(void)state;
	mock_init(&w.k);
	process_begin_with(&w, &config);
	sync_sources_ready(w.s);
	some_services(&w, 250);
	sync_settle(w.s, T0);
	all_slices(&w, 250, "10.1.9.1");
	searched = sync_stats_get(w.s)->claims_searched;
	while (!list_is_empty(&w.m.dirty)) {
		if (steps++ % 2 == 0 && steps < 20)
			make_slice(&w.m, "shop/s7-a", "s7", "http:TCP:8080",
				   steps % 4 == 1 ? "10.1.9.2" : "10.1.9.3");
		(void)sync_step(w.s, T0 + 1);
	}
	assert_in_range(steps, 10, 250);
	assert_in_range(sync_stats_get(w.s)->claims_searched - searched, 250, 500);
	world_fini(&w);
}

static void claimant(struct world *w, const char *key, const char *ip, const char *external,
		     int64_t created)
{
	struct service *s = make_service_object(key, ip, NULL, "http:TCP:80");

	s->created_s = created;
	*vec_push(&s->external_ips) = make_ip(external);
	model_put_service(&w->m, s, 1);
}

static const char *owner_name(struct world *w, const char *ip)
{
	const struct plan_frontend f = { .addr = make_ip(ip), .port = 80, .proto = L4PROTO_TCP };
	const struct svc *svc = plan_programmed(&w->p, &f);

	return svc != NULL ? svc->name->text : "";
}

/*
 * While many services are pending, the end of a's claim marks b, and b then claims the address of
 * c, which it precedes: c does not get it, although its turn comes first.
 */
static void test_claims_of_marked_services(void **state)
{
	const struct sync_config config = { .batch_ops = 64 };
	struct world w;

	(void)state;
	mock_init(&w.k);
	process_begin_with(&w, &config);
	sync_sources_ready(w.s);
	log_level_set_all(LOG_LEVEL_ERR); /* the conflict */
	some_services(&w, 100);
	claimant(&w, "x/a", "10.97.0.1", "203.0.113.20", 1000);
	claimant(&w, "x/b", "10.97.0.2", "203.0.113.20", 2000);
	make_service(&w.m, "x/c", "10.97.0.3", "http:TCP:80");
	sync_settle(w.s, T0);
	all_slices(&w, 30, "10.1.9.2");
	claimant(&w, "x/c", "10.97.0.3", "203.0.113.77", 3000);
	all_slices(&w, 100, "10.1.9.1");
	(void)sync_step(w.s, T0 + 1);
	drop_service(&w.m, "x/a");
	(void)sync_step(w.s, T0 + 1);
	assert_true(list_is_linked(&model_find_text(&w.m, "x", "b")->dirty));
	assert_true(list_is_linked(&model_find_text(&w.m, "x", "c")->dirty));
	claimant(&w, "x/b", "10.97.0.2", "203.0.113.77", 2000);
	while (!list_is_empty(&w.m.dirty)) {
		(void)sync_step(w.s, T0 + 1);
		assert_string_not_equal(owner_name(&w, "203.0.113.77"), "c");
	}
	assert_string_equal(owner_name(&w, "203.0.113.77"), "b");
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

#define CLAIM_SERVICES 60
#define CLAIM_ADDRS 5

/* Claims of external addresses 203.0.113.1 to .5; `on`: 0, none. */
struct claims {
	int on[CLAIM_SERVICES];
	int64_t age[CLAIM_SERVICES];
};

static void claims_change(struct world *w, struct claims *c, struct rng *r)
{
	size_t i = rng_below(r, CLAIM_SERVICES);
	char key[16];
	char ip[32];
	char external[32];

	(void)snprintf(key, sizeof(key), "x/%zu", i);
	if (rng_below(r, 3) == 0) {
		drop_service(&w->m, key);
		c->on[i] = 0;
		return;
	}
	if (c->on[i] == 0)
		c->age[i] = 1000 + (int64_t)rng_below(r, 50) * CLAIM_SERVICES + (int64_t)i;
	c->on[i] = 1 + (int)rng_below(r, CLAIM_ADDRS);
	(void)snprintf(ip, sizeof(ip), "10.97.0.%zu", i + 1);
	(void)snprintf(external, sizeof(external), "203.0.113.%d", c->on[i]);
	claimant(w, key, ip, external, c->age[i]);
}

/* A service that newly owns an address precedes all that claim it. */
static void claims_check(struct world *w, const struct claims *c, int was[static CLAIM_ADDRS + 1])
{
	for (int at = 1; at <= CLAIM_ADDRS; at++) {
		char external[32];
		const char *name;
		int now;

		(void)snprintf(external, sizeof(external), "203.0.113.%d", at);
		name = owner_name(w, external);
		now = name[0] != '\0' ? atoi(name) : -1;
		for (int i = 0;
		     now >= 0 && now != was[at] && c->on[now] == at && i < CLAIM_SERVICES; i++)
			assert_false(c->on[i] == at && c->age[i] < c->age[now]);
		was[at] = now;
	}
}

static void test_claims_random(void **state)
{
	const struct sync_config config = { .batch_ops = 24 };

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR);
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct rng r = { seed };
		struct claims c = { .on = { 0 } };
		int was[CLAIM_ADDRS + 1] = { -1, -1, -1, -1, -1, -1 };
		struct world w;

		mock_init(&w.k);
		process_begin_with(&w, &config);
		sync_sources_ready(w.s);
		some_services(&w, 60);
		sync_settle(w.s, T0);
		for (int i = 0; i < 300; i++) {
			for (size_t n = rng_below(&r, 4); n > 0; n--)
				claims_change(&w, &c, &r);
			if (rng_below(&r, 20) == 0)
				all_slices(&w, 60, rng_below(&r, 2) ? "10.1.9.1" : "10.1.9.2");
			(void)sync_step(w.s, T0 + 1);
			claims_check(&w, &c, was);
		}
		sync_settle(w.s, T0 + 1);
		world_fini(&w);
	}
	log_level_set_all(LOG_LEVEL_NOTICE);
}

/* The step that ends claims is bounded by the ports that services had. */
static void test_claims_given_up(void **state)
{
	struct world w;

	(void)state;
	for (int is_deleted = 0; is_deleted < 2; is_deleted++) {
		uint64_t made;
		uint64_t next;

		world_init(&w);
		sync_sources_ready(w.s);
		for (int i = 0; i < 20; i++)
			large_put(&w, i, 500, 0, 0);
		sync_settle(w.s, T0);
		for (int i = 0; i < 20; i++)
			is_deleted ? large_drop(&w, i) : large_put(&w, i, 1, 0, 0);
		do {
			made = w.p.n_claims_made;
			next = sync_step(w.s, T0 + 1);
			assert_true(w.p.n_claims_made - made <= 3000);
		} while (next == SYNC_NOW);
		assert_true(list_is_empty(&w.m.dirty));
		assert_int_equal(w.k.frontends.n, is_deleted ? 0 : 20);
		world_fini(&w);
	}
}

/*
 * Many large services are deleted. All claims are visited a few times in all: not in each step
 * those of all services that wait for their turn, or for the large services that get a frontend of
 * each. A small one, deleted after them, does not wait.
 */
static void test_deleted_in_turns(void **state)
{
	enum {
		N = 40,
		PORTS = 150
	};
	static const struct sync_config config = { .piece_ops = 100 };

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR);
	for (int has_heirs = 0; has_heirs < 2; has_heirs++) {
		struct world w = { 0 };
		uint64_t next;
		char ip[32];

		mock_init(&w.k);
		process_begin_with(&w, &config);
		sync_sources_ready(w.s);
		for (int i = 0; i < N; i++) {
			(void)snprintf(ip, sizeof(ip), "203.0.113.%d", i);
			large_put_with(&w, 10 + i, PORTS, 0, 0, ip); /* precede by name */
			if (has_heirs)
				large_put_with(&w, 10 + N + i, 1, 120, 0, ip);
		}
		large_put(&w, 0, 1, 1, 0);
		sync_settle(w.s, T0);
		assert_int_equal(w.k.frontends.n, 1 + N * (2 * PORTS + has_heirs));
		for (int i = 0; i < N; i++)
			large_drop(&w, 10 + i);
		large_drop(&w, 0);
		w.p.n_claims_visited = 0;
		do {
			next = sync_step(w.s, T0 + 1);
			assert_true(w.k.frontends.n > N * PORTS ||
				    model_find_text(&w.m, "shop", "x0") == NULL);
		} while (next == SYNC_NOW);
		assert_in_range(w.p.n_claims_visited, 1, 10 * N * 2 * PORTS);
		assert_true(list_is_empty(&w.m.dirty));
		assert_int_equal(w.k.frontends.n, N * 2 * has_heirs);
		world_fini(&w);
	}
	log_level_set_all(LOG_LEVEL_NOTICE);
}

/* A change of endpoints does not renew the claims of a service; a change of its ports does. */
static void test_claims_stay(void **state)
{
	static struct plane_ops ops;
	struct world w;
	uint64_t made;

	(void)state;
	large_world(&w, &ops);
	sync_sources_ready(w.s);
	large_put(&w, 0, 40, 3, 0); /* in pieces */
	large_put(&w, 1, 2, 3, 0);  /* in one transaction */
	sync_settle(w.s, T0);
	made = w.p.n_claims_made;
	for (int i = 1; i < 5; i++) {
		large_put(&w, 0, 40, 3 + i, i);
		large_put(&w, 1, 2, 3 + i, i);
		for (int k = 0; k < 3 * i; k++) /* the next change may come between two pieces */
			(void)sync_step(w.s, T0 + 1);
	}
	sync_settle(w.s, T0 + 1);
	assert_int_equal(w.k.slots.n, 42 * 7);
	assert_int_equal(w.p.n_claims_made, made);
	large_put(&w, 0, 41, 7, 4);
	sync_settle(w.s, T0 + 2);
	assert_in_range(w.p.n_claims_made - made, 41, 4 * 41);
	assert_int_equal(w.p.claims.count, 43);
	world_fini(&w);
}

/* Slice `i` of service shop/x has 20 endpoints; `shift` is in the addresses of the first `n`, which
 * have `flags`. */
static void part_put(struct world *w, int i, int n, int shift, const char *flags)
{
	char endpoints[20 * 18] = "";
	char key[16];
	int len = 0;

	(void)snprintf(key, sizeof(key), "shop/x-%d", i);
	for (int k = 0; k < 20; k++)
		len += snprintf(endpoints + len, sizeof(endpoints) - (size_t)len, "%s10.%d.%d.%d%s",
				k > 0 ? " " : "", k < n ? shift : 0, i, k, k < n ? flags : "");
	make_slice(&w->m, key, "x", "p:TCP:1", endpoints);
}

/* One changed endpoint costs a service of 1,000 endpoints as much as one of 200: a transaction. */
static void test_few_changed(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	for (int n = 10; n <= 50; n += 40) {
		large_world(&w, &ops);
		ops.commit = mock_commit_counted;
		sync_sources_ready(w.s);
		make_service(&w.m, "shop/x", "10.96.0.1", "p:TCP:80");
		for (int i = 0; i < n; i++)
			part_put(&w, i, 0, 0, "");
		sync_settle(w.s, T0);
		assert_int_equal(w.k.slots.n, 20 * n);
		for (int shift = 1; shift < 4; shift++) {
			uint64_t selected = w.p.n_selected;
			size_t commits = w.k.n_commits;
			size_t writes = w.k.n_writes;

			part_put(&w, n / 2, 1, shift, "");
			(void)sync_step(w.s, T0 + 1);
			assert_true(list_is_empty(&w.m.dirty));
			assert_int_equal(w.p.n_selected - selected, 2);
			assert_int_equal(w.k.n_commits - commits, 1);
			assert_int_equal(w.k.n_writes - writes, 2);
		}
		world_fini(&w);
	}
}

/*
 * A new address is searched in all slices. When many are, all endpoints are selected instead; but
 * an entry whose address stays needs no search.
 */
static void test_searched(void **state)
{
	enum {
		FILLED = 10,
		SLICES = 5050,
		FEW = 3,
		MANY = 4
	}; /* MANY * SLICES > 20,000 */
	static struct plane_ops ops;
	struct world w;
	uint64_t selected;

	(void)state;
	large_world(&w, &ops);
	ops.commit = mock_commit_counted;
	sync_sources_ready(w.s);
	make_service(&w.m, "shop/x", "10.96.0.1", "p:TCP:80");
	for (int i = 0; i < FILLED; i++)
		part_put(&w, i, 0, 0, "");
	for (int i = FILLED; i < SLICES; i++) {
		char key[24];

		(void)snprintf(key, sizeof(key), "shop/x-%d", i);
		make_slice(&w.m, key, "x", "p:TCP:1", "");
	}
	sync_settle(w.s, T0);
	selected = w.p.n_selected;
	part_put(&w, 3, FEW, 1, "");
	sync_settle(w.s, T0 + 1);
	assert_int_equal(w.p.n_selected - selected, 2 * FEW);
	selected = w.p.n_selected;
	part_put(&w, 4, MANY, 1, "");
	sync_settle(w.s, T0 + 2);
	assert_int_equal(w.p.n_selected - selected, 20 * FILLED);
	selected = w.p.n_selected;
	part_put(&w, 4, MANY, 1, "!t"); /* the same addresses */
	sync_settle(w.s, T0 + 3);
	assert_int_equal(w.p.n_selected - selected, 2 * MANY);
	assert_int_equal(w.k.slots.n, 20 * FILLED - MANY);
	world_fini(&w);
}

/* A service with many ports or many endpoints is programmed in pieces. */
static void test_pieces(void **state)
{
	static const struct sync_config config = { .batch_ops = PIECE, .piece_ops = PIECE };
	static struct plane_ops ops;
	struct world w;
	size_t writes;
	uint64_t hash;

	large_world_ready(&w, &ops);
	sync_settle(w.s, T0);
	large_put(&w, 0, 40, 10, 0);
	large_put(&w, 1, 1, 200, 0);
	some_services(&w, 1);
	for (int i = 0; i < 6 && frontend(&w, "10.96.0.1") == NULL; i++)
		(void)sync_step(w.s, T0); /* a small service does not wait for the large ones */
	sync_settle(w.s, T0);
	assert_int_equal(w.k.slots.n, 402 + 200);
	assert_int_equal(w.k.frontends.n, 42);
	large_put(&w, 0, 40, 10, 5); /* half of the endpoints of all ports replaced */
	large_put(&w, 1, 1, 200, 100);
	sync_settle(w.s, T0 + 1);
	large_put(&w, 1, 1, 20, 130); /* fewer */
	sync_settle(w.s, T0 + 2);
	assert_int_equal(w.k.slots.n, 402 + 20);
	large_put(&w, 1, 1, 150, 0);
	sync_settle(w.s, T0 + 3);
	assert_true(longest_commit <= 4 * PIECE);

	process_end(&w); /* adopted in pieces, without writes */
	writes = w.k.n_writes;
	hash = slots_hash(&w);
	longest_commit = 0;
	process_begin_with(&w, &config);
	large_put(&w, 0, 40, 10, 5);
	large_put(&w, 1, 1, 150, 0);
	some_services(&w, 1);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.n_writes, writes);
	assert_int_equal(slots_hash(&w), hash);
	assert_true(longest_commit <= 2 * PIECE);

	longest_commit = 0;
	large_drop(&w, 0);
	large_drop(&w, 1);
	sync_settle(w.s, T0 + 4);
	assert_int_equal(w.k.slots.n, 2);
	assert_int_equal(w.k.frontends.n, 1);
	assert_true(longest_commit <= 4 * PIECE);
	assert_null(model_find_text(&w.m, "shop", "x0"));
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

#define MOVING "10.96.0.1"

static size_t n_moving;

/* `n_moving` frontends of MOVING are programmed after each transaction. */
static int commit_moving(struct plane *p, const struct plan_op *ops, size_t n,
			 enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	int r = commit_consistent(p, ops, n, mode, res, err);
	const struct ip_addr addr = make_ip(MOVING);
	size_t have = 0;

	vec_for_each (f, &mock_of(p)->frontends)
		have += ip_addr_is_equal(&f->f.addr, &addr);
	assert_int_equal(have, n_moving);
	return r;
}

static void moving_expect(struct world *w, const char *name, size_t n)
{
	const struct plan_rows *rows = model_find_text(&w->m, "shop", name)->rows;
	const struct ip_addr addr = make_ip(MOVING);
	size_t have = 0;

	vec_for_each (f, &rows->frontends)
		have += ip_addr_is_equal(&f->addr, &addr);
	assert_int_equal(have, n);
}

/*
 * SEL-14: the frontends of an external IP move to a large service, which has the address as its
 * cluster IP, piece by piece; those of a large service move to it in the same way, and one moves to
 * a small service. Each is programmed at any time, and no transaction is large.
 */
static void test_pieces_move(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	large_world_ready(&w, &ops);
	large_put_with(&w, 1, 40, 1, 0, MOVING); /* before: not one large transaction */
	large_put_with(&w, 2, 40, 10, 0, MOVING);
	sync_settle(w.s, T0);
	moving_expect(&w, "x1", 40);
	moving_expect(&w, "x2", 0);
	n_moving = 40;
	ops.commit = commit_moving;
	large_put(&w, 0, 40, 10, 0);
	for (int i = 0; w.k.slots.n < 600; i++) { /* small changes meanwhile */
		make_slice(&w.m, "shop/x1-b", "x1", "p0:TCP:2000", i % 2 ? "10.1.1.9" : "");
		(void)sync_step(w.s, T0 + 1);
	}
	sync_settle(w.s, T0 + 1);
	moving_expect(&w, "x0", 40);
	moving_expect(&w, "x1", 0);
	assert_int_equal(w.p.n_conflicts, 80);
	assert_int_equal(w.k.frontends.n, 3 * 40);

	large_drop(&w, 0); /* both claim them: x1 by name */
	sync_settle(w.s, T0 + 2);
	moving_expect(&w, "x1", 40);
	assert_true(longest_commit <= 8 * PIECE);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* `n_moving` frontends of external IPs are programmed after each transaction. */
static int commit_external(struct plane *p, const struct plan_op *ops, size_t n,
			   enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	int r = commit_consistent(p, ops, n, mode, res, err);
	size_t have = 0;

	vec_for_each (f, &mock_of(p)->frontends)
		have += f->f.kind == PLAN_FRONTEND_EXTERNALIP;
	assert_int_equal(have, n_moving);
	return r;
}

#define GROUP 20
#define GROUP_ENDPOINTS 100

/* `shop/a` precedes all others and has one address of each, or none. */
static void taker_put(struct world *w, int n)
{
	struct service *s = make_service_object("shop/a", "10.96.1.1", NULL, "p0:TCP:1000");
	char ip[32];

	for (int i = 0; i < n; i++) {
		(void)snprintf(ip, sizeof(ip), "203.0.113.%d", i);
		*vec_push(&s->external_ips) = make_ip(ip);
	}
	model_put_service(&w->m, s, 1);
}

/*
 * SEL-14: one service, which may be large, takes a frontend of each of many services and gives it
 * back, while all endpoints of these are replaced. The changes do not become one transaction,
 * wherever the one service is in the queue.
 */
static void many_losers(size_t n_endpoints)
{
	static const struct sync_config config = { .batch_ops = 3 * GROUP_ENDPOINTS,
						   .piece_ops = 3 * GROUP_ENDPOINTS };
	static struct plane_ops ops;
	struct world w = { 0 };

	mock_init(&w.k);
	ops = mock_plane_ops;
	w.k.plane.ops = &ops;
	process_begin_with(&w, &config);
	sync_sources_ready(w.s);
	for (size_t i = 0; i < n_endpoints; i++) {
		char slice[32];
		char ip[32];

		(void)snprintf(slice, sizeof(slice), "shop/a-%zu", i);
		(void)snprintf(ip, sizeof(ip), "10.2.%zu.%zu", i / 250, i % 250);
		make_slice(&w.m, slice, "a", "p0:TCP:2000", ip);
	}
	n_moving = GROUP;
	for (int round = 0; round < 5; round++) {
		int n = round % 2 ? GROUP : 0;

		if (round < 3)
			taker_put(&w, n);
		for (int i = 0; i < GROUP; i++) {
			char ip[32];

			(void)snprintf(ip, sizeof(ip), "203.0.113.%d", i);
			large_put_with(&w, i, 1, GROUP_ENDPOINTS, round % 2 * GROUP_ENDPOINTS, ip);
		}
		if (round >= 3)
			taker_put(&w, n);
		longest_commit = 0;
		sync_settle(w.s, T0 + (uint64_t)round);
		assert_true(list_is_empty(&w.m.dirty));
		assert_int_equal(sync_failure_count(w.s), 0);
		assert_int_equal(w.p.n_conflicts, n);
		assert_int_equal(w.k.slots.n, n_endpoints + GROUP * GROUP_ENDPOINTS);
		ops.commit = commit_external;
		assert_true(longest_commit <= 7 * GROUP_ENDPOINTS);
	}
	world_fini(&w);
}

static void test_many_losers(void **state)
{
	(void)state;
	log_level_set_all(LOG_LEVEL_ERR);
	many_losers(0);
	many_losers(4 * GROUP_ENDPOINTS);
	log_level_set_all(LOG_LEVEL_NOTICE);
}

/* SEL-14: the claims of services that lose a frontend stay. */
static void test_claims_of_losers(void **state)
{
	static struct plane_ops ops;
	struct world w;
	uint64_t made;

	(void)state;
	large_world_ready(&w, &ops);
	for (int i = 0; i < 10; i++) {
		char ip[32];

		(void)snprintf(ip, sizeof(ip), "203.0.113.%d", i);
		large_put_with(&w, i, 40, 1, 0, ip);
	}
	sync_settle(w.s, T0);
	made = w.p.n_claims_made;
	taker_put(&w, 10);
	sync_settle(w.s, T0 + 1);
	assert_int_equal(w.p.n_conflicts, 10);
	assert_int_equal(w.p.n_claims_made - made, 1 + 10);
	taker_put(&w, 0);
	sync_settle(w.s, T0 + 2);
	assert_int_equal(w.p.n_conflicts, 0);
	assert_int_equal(w.k.frontends.n, 1 + 10 * 2 * 40);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

#define ADDRS 6
#define CLAIMANTS 12

/* Claims the addresses in `mask`; a service that is created earlier precedes. */
static void claimant_put(struct world *w, int i, unsigned mask, int64_t created, int n, int shift)
{
	char key[16];
	char slice[16];
	char eps[256] = "";
	int len = 0;
	char ip[24];
	struct service *s;

	(void)snprintf(key, sizeof(key), "shop/s%d", i);
	(void)snprintf(slice, sizeof(slice), "shop/s%d-a", i);
	(void)snprintf(ip, sizeof(ip), "10.96.0.%d", i + 1);
	s = make_service_object(key, ip, NULL, "http:TCP:80");
	s->created_s = created;
	for (int a = 0; a < ADDRS; a++) {
		(void)snprintf(ip, sizeof(ip), "203.0.113.%d", a);
		if (mask >> a & 1)
			*vec_push(&s->external_ips) = make_ip(ip);
	}
	model_put_service(&w->m, s, 1);
	for (int k = 0; k < n; k++)
		len += snprintf(eps + len, sizeof(eps) - (size_t)len, "10.1.%d.%d ", i, k + shift);
	make_slice(&w->m, slice, strchr(key, '/') + 1, "http:TCP:8080", eps);
}

/*
 * SEL-14: several services change at once, frontends and endpoints. Another service claims every
 * address, without precedence: each is programmed at any time, finally for the service that
 * precedes.
 */
static void moves_random(unsigned seed, bool with_loads)
{
	static const struct sync_config config = { .batch_ops = 30 };
	int64_t created[CLAIMANTS + 1] = { 0 };
	unsigned mask[CLAIMANTS + 1] = { 0 };
	static struct plane_ops ops;
	struct world w = { 0 };

	srandom(seed);
	mock_init(&w.k);
	ops = mock_plane_ops;
	w.k.plane.ops = &ops;
	process_begin_with(&w, &config);
	sync_sources_ready(w.s);
	mask[CLAIMANTS] = (1U << ADDRS) - 1;
	claimant_put(&w, CLAIMANTS, mask[CLAIMANTS], 0, 4, 0);
	sync_settle(w.s, T0);
	n_moving = ADDRS;
	ops.commit = commit_external;
	for (int round = 0; round < 300; round++) {
		for (long k = random() % 8; k >= 0; k--) {
			int i = (int)(random() % CLAIMANTS);
			char key[16];

			(void)snprintf(key, sizeof(key), "shop/s%d", i);
			mask[i] = (unsigned)(random() & random()) % (1U << ADDRS);
			if (random() % 4 == 0) {
				mask[i] = 0;
				created[i] = 0;
				(void)drop_service(&w.m, key);
				continue;
			}
			if (created[i] == 0)
				created[i] = 1 + random() % 1000 * CLAIMANTS + i;
			claimant_put(&w, i, mask[i], created[i], (int)(random() % 12),
				     (int)(random() % 100));
		}
		if (with_loads && random() % 8 == 0)
			sync_reload(w.s);
		for (long k = random() % 12; k > 0; k--)
			(void)sync_step(w.s, T0);
		if (random() % 3 != 0)
			continue;
		sync_settle(w.s, T0);
		assert_true(list_is_empty(&w.m.dirty));
		assert_int_equal(w.k.frontends.n, w.m.stats.services + ADDRS);
		for (int a = 0; a < ADDRS; a++) {
			int best = CLAIMANTS;
			char text[24];
			char ip[24];

			for (int i = 0; i < CLAIMANTS; i++)
				if (mask[i] >> a & 1 &&
				    (best == CLAIMANTS || created[i] < created[best]))
					best = i;
			(void)snprintf(text, sizeof(text), "s%d", best);
			(void)snprintf(ip, sizeof(ip), "203.0.113.%d", a);
			assert_true(has_address(&w, text, ip));
		}
	}
	assert_int_equal(sync_failure_count(w.s), 0);
	world_fini(&w);
}

static void test_moves_random(void **state)
{
	(void)state;
	log_level_set_all(LOG_LEVEL_ERR);
	for (unsigned seed = 0; seed < 10; seed++)
		moves_random(seed, seed % 2 != 0);
	log_level_set_all(LOG_LEVEL_NOTICE);
}

/*
 * A large service keeps a frontend that another one would get, while the kernel rejects that one.
 * The frontend moves when it no longer does.
 */
static void test_pieces_keep(void **state)
{
	(void)state;
	for (int is_named = 0; is_named < 2; is_named++) {
		static struct plane_ops ops;
		struct world w;

		large_world_ready(&w, &ops);
		large_put_with(&w, 1, 40, 10, 0, MOVING);
		sync_settle(w.s, T0);
		n_moving = 40;
		ops.commit = commit_moving;
		make_service(&w.m, "shop/b", MOVING, "p0:TCP:1000");
		refuse(&w, "b", is_named);
		sync_settle(w.s, T0 + 1);
		moving_expect(&w, "x1", 40);
		assert_in_range(sync_failure_count(w.s), 1, 2);
		refuse(&w, NULL, false);
		for (uint64_t k = 1; k < 5; k++)
			sync_settle(w.s, T0 + k * NSEC_PER_SEC);
		moving_expect(&w, "x1", 39);
		moving_expect(&w, "b", 1);
		assert_int_equal(sync_failure_count(w.s), 0);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/*
 * A service has a frontend that a large service and a small one get, in either order, while it
 * changes itself. The frontend is programmed at any time, at the end for the large service.
 */
static void test_pieces_precede(void **state)
{
	(void)state;
	for (int is_small_first = 0; is_small_first < 2; is_small_first++) {
		static struct plane_ops ops;
		struct world w;

		large_world_ready(&w, &ops);
		large_put_with(&w, 2, 1, 2, 0, MOVING);
		sync_settle(w.s, T0);
		n_moving = 1;
		ops.commit = commit_moving;
		if (is_small_first)
			large_put_with(&w, 1, 1, 2, 0, MOVING); /* precedes by name */
		large_put(&w, 0, 1, 200, 0);
		if (!is_small_first)
			large_put_with(&w, 1, 1, 2, 0, MOVING);
		make_slice(&w.m, "shop/x2-b", "x2", "p0:TCP:2000", "10.1.2.9");
		sync_settle(w.s, T0 + 1);
		moving_expect(&w, "x0", 1);
		assert_int_equal(w.p.n_conflicts, 2);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

/*
 * A service that is large for its next change only, as it has rows by now, gets the frontend of a
 * deleted one.
 */
static void test_pieces_inherit(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	large_world_ready(&w, &ops);
	large_put(&w, 0, 1, 1, 0);
	large_put_with(&w, 1, 1, PIECE * 2 / 3, 0, MOVING);
	sync_settle(w.s, T0);
	n_moving = 1;
	ops.commit = commit_moving;
	large_drop(&w, 0);
	sync_settle(w.s, T0 + 1);
	moving_expect(&w, "x1", 1);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

#define TAKEN "10.96.0.3" /* the cluster IP of x2 */

/* Reject transactions in which x1 loses a frontend to x2. */
static int commit_refusing(struct plane *p, const struct plan_op *ops, size_t n,
			   enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	struct svc *x2 = NULL;
	bool is_lost = false;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(ops[i].svc->name->text, "x2") == 0)
			x2 = ops[i].svc;
		else
			is_lost |= ops[i].kind == PLAN_FRONTEND_DEL;
	}
	if (x2 == NULL || !is_lost)
		return mock_commit_counted(p, ops, n, mode, res, err);
	res->culprit = x2;
	mock_spare(mock_of(p), ops, n);
	return err_set(err, -EINVAL, "set to reject x2");
}

/* In adoption a large service takes frontends of another one: when this is rejected, both stay. */
static void test_piece_rejected_in_adoption(void **state)
{
	static const struct sync_config config = { .batch_ops = PIECE, .piece_ops = PIECE };
	static struct plane_ops ops;
	struct world w;
	size_t n_slots;

	(void)state;
	large_world(&w, &ops);
	log_level_set_all(LOG_LEVEL_ERR);
	large_put_with(&w, 1, 60, 2, 0, TAKEN);
	large_put(&w, 2, 40, 10, 0);
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	n_slots = w.k.slots.n;
	assert_int_equal(w.k.frontends.n, 2 * 60); /* x1 has 20 of the address */
	process_end(&w);

	ops.commit = commit_refusing;
	process_begin_with(&w, &config);
	large_put_with(&w, 1, 60, 2, 0, TAKEN);
	large_put(&w, 2, 40, 10, 0);
	sync_sources_ready(w.s);
	while (list_is_linked(&model_find_text(&w.m, "shop", "x1")->dirty))
		(void)sync_step(w.s, T0);
	assert_int_equal(sync_state_get(w.s), SYNC_ADOPTING);
	large_put(&w, 2, 60, 10, 0);
	sync_settle(w.s, T0);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_in_range(sync_failure_count(w.s), 1, 2);
	assert_in_range(w.k.slots.n, n_slots, n_slots + PIECE);
	ops.commit = commit_consistent;
	for (uint64_t k = 1; k < 5; k++)
		sync_settle(w.s, T0 + k * 60 * NSEC_PER_SEC);
	assert_int_equal(sync_failure_count(w.s), 0);
	assert_int_equal(w.k.frontends.n, 60 + 60);
	assert_int_equal(w.k.slots.n, 60 * 2 + 60 * 10);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

struct parts {
	size_t n_parts;
	size_t n_whole;
};

static void on_part(void *arg, const struct svc *svc, const struct plan_rows *old,
		    const struct plan_rows *new, bool is_whole)
{
	struct parts *t = arg;

	t->n_parts += !is_whole;
	t->n_whole += is_whole;
}

/*
 * Endpoints change between two pieces: the last piece is not the current desired state. A change of
 * another service at that time does not hide this.
 */
static void test_piece_outdated(void **state)
{
	(void)state;
	for (int with_other = 0; with_other < 2; with_other++) {
		struct parts reported = { 0 };
		struct sync_config config = { .batch_ops = PIECE,
					      .piece_ops = PIECE,
					      .accepted = on_part,
					      .accepted_arg = &reported };
		struct world w = { 0 };

		mock_init(&w.k);
		process_begin_with(&w, &config);
		sync_sources_ready(w.s);
		sync_settle(w.s, T0);
		large_put(&w, 0, 1, 100, 0);
		while (w.k.slots.n == 0)
			(void)sync_step(w.s, T0);
		large_put(&w, 0, 1, 100, 50);
		if (with_other)
			make_service(&w.m, "shop/other", "10.96.1.1", "http:TCP:80");
		while (w.k.slots.n < 100)
			(void)sync_step(w.s, T0);
		assert_int_equal(reported.n_whole, with_other);
		assert_false(list_is_empty(&w.m.dirty));
		sync_settle(w.s, T0);
		assert_int_equal(reported.n_whole, 1 + with_other);
		assert_true(reported.n_parts > 5);
		assert_true(list_is_empty(&w.m.dirty));
		world_fini(&w);
	}
}

/* While loads fail, a change is pending from its arrival. */
static void test_change_while_load_fails(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	sync_sources_ready(w.s);
	some_services(&w, 3);
	sync_settle(w.s, T0);
	w.k.check_answer = PLANE_CHECK_LOST;
	w.k.fail_next_load = -EIO;
	sync_check(w.s, T0 + NSEC_PER_SEC);
	for (int i = 0; i < 6 && w.k.fail_next_load != 0; i++)
		(void)sync_step(w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(sync_state_get(w.s), SYNC_LOADING);
	make_slice(&w.m, "shop/s0-a", "s0", "http:TCP:8080", "10.1.9.1");
	assert_int_equal(model_find_text(&w.m, "shop", "s0")->dirty_since_ns, 1);
	sync_settle(w.s, T0 + 2 * NSEC_PER_SEC);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

static size_t n_searched;
static bool is_any_touched;

static bool touched_by_name(const struct plane *p, const struct plan_rows *rows)
{
	n_searched += rows != NULL;
	return rows != NULL ? strcmp(rows->svc->name->text, "touched") == 0 : is_any_touched;
}

/* Steps until `frontend` is repaired, at most `max`. Returns the most services that one searched.
 */
static size_t longest_search(struct world *w, const char *ip, int max, uint64_t now)
{
	size_t longest = 0;

	w->k.check_answer = PLANE_CHECK_CHANGED;
	sync_check(w->s, now);
	for (int i = 0; i < max && frontend(w, ip) == NULL; i++) {
		size_t before = n_searched;

		(void)sync_step(w->s, now += 6 * NSEC_PER_SEC);
		longest = MAX(longest, n_searched - before);
	}
	return longest;
}

/*
 * The services that a foreign change touched are verified before all others. The search for
 * them is bounded work in each step; without touched elements there is none.
 */
static void test_touched(void **state)
{
	static const struct sync_config config = { .check_period_ns = 10 * NSEC_PER_SEC };
	static struct plane_ops ops;
	struct world w;
	uint64_t checks;

	mock_init(&w.k);
	ops = mock_plane_ops;
	ops.touched = touched_by_name;
	w.k.plane.ops = &ops;
	process_begin_with(&w, &config);
	log_level_set_all(LOG_LEVEL_ERR);
	for (int i = 0; i < 40; i++)
		large_put(&w, i, 25, 16, 0);
	make_service(&w.m, "shop/touched", "10.96.1.1", "http:TCP:80");
	make_slice(&w.m, "shop/touched-a", "touched", "http:TCP:8080", "10.2.0.1");
	sync_sources_ready(w.s);
	sync_settle(w.s, T0);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);

	n_searched = 0;
	mock_remove(&w.k.frontends, frontend(&w, "10.96.1.1"));
	assert_null(frontend(&w, "10.96.1.1"));
	is_any_touched = false;
	assert_int_equal(longest_search(&w, "10.96.1.1", 3, T0 + 100 * NSEC_PER_SEC), 0);
	is_any_touched = true;
	checks = sync_stats_get(w.s)->checks;
	assert_in_range(longest_search(&w, "10.96.1.1", 8, T0 + 300 * NSEC_PER_SEC), 10, 30);
	assert_non_null(frontend(&w, "10.96.1.1"));
	assert_int_equal(n_searched, 41);
	/* A second check would discard the touched elements. */
	assert_int_equal(sync_stats_get(w.s)->checks, checks + 1);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* The audit of a large service is divided into parts of bounded size and repairs all of it. */
static void test_audit_in_parts(void **state)
{
	static struct plane_ops ops;
	struct world w;
	size_t commits;

	large_world_ready(&w, &ops);
	large_put(&w, 0, 20, 200, 0);
	large_put(&w, 1, 1, 3, 0);
	sync_settle(w.s, T0);
	assert_int_equal(w.k.slots.n, 4003);
	ops.commit = mock_commit_counted;
	mock_slot_remove(&w.k, &w.k.slots.v[0]);
	mock_slot_remove(&w.k, &w.k.slots.v[2000]);
	mock_remove(&w.k.frontends, &w.k.frontends.v[7]);
	longest_commit = 0;
	commits = w.k.n_commits;
	sync_audit(w.s);
	for (uint64_t k = 0; k < 30; k++)
		sync_settle(w.s, T0 + (20 + k) * NSEC_PER_SEC);
	assert_int_equal(sync_stats_get(w.s)->audits, 1);
	assert_int_equal(sync_stats_get(w.s)->repairs, 3);
	assert_int_equal(w.k.slots.n, 4003);
	assert_int_equal(w.k.frontends.n, 21);
	assert_in_range(w.k.n_commits - commits, 4, 10);
	assert_true(longest_commit <= 1100);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* A rejected piece: accepted pieces serve, and the next attempt continues from there. */
static void test_piece_rejected(void **state)
{
	static struct plane_ops ops;
	struct world w;
	size_t served;

	large_world_ready(&w, &ops);
	sync_settle(w.s, T0);
	large_put(&w, 0, 40, 10, 0);
	while (w.k.frontends.n < 10)
		(void)sync_step(w.s, T0);
	refuse(&w, "x0", true);
	served = w.k.frontends.n;
	sync_settle(w.s, T0);
	assert_int_equal(w.k.frontends.n, served);
	assert_int_equal(sync_failure_count(w.s), 1);
	assert_true(list_is_empty(&w.m.dirty));
	refuse(&w, NULL, false);
	sync_settle(w.s, T0 + NSEC_PER_SEC);
	assert_int_equal(w.k.frontends.n, 40);
	assert_int_equal(w.k.slots.n, 400);
	assert_int_equal(sync_failure_count(w.s), 0);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* With a cluster IP and an external IP, `n` endpoints on this node and `n` on another one. */
static void policies_put(struct world *w, bool is_itp_local, bool is_etp_local, int n)
{
	struct service *s = make_service_object("shop/x", "10.96.0.1", NULL, "p:TCP:1");
	struct str text = { 0 };

	*vec_push(&s->external_ips) = make_ip("203.0.113.9");
	s->is_itp_local = is_itp_local;
	s->is_etp_local = is_etp_local;
	model_put_service(&w->m, s, 1);
	str_puts(&text, "");
	for (int i = 1; i <= n; i++)
		str_printf(&text, "10.1.0.%d@n1 10.1.1.%d@n2 ", i, i);
	make_slice(&w->m, "shop/x-a", "x", "p:TCP:1", str_text(&text));
	str_fini(&text);
}

/*
 * The pool of the local endpoints loses its frontend to the other pool of its port, and becomes
 * empty: its slots go together with the frontend.
 */
static void test_pieces_empty(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	large_world_ready(&w, &ops);
	sync_settle(w.s, T0);
	for (int n = PIECE / 2; n <= 2 * PIECE; n *= 2) {
		policies_put(&w, true, false, n);
		sync_settle(w.s, T0);
		assert_int_equal(w.k.slots.n, 3 * n);
		policies_put(&w, false, true, 0);
		sync_settle(w.s, T0);
		assert_int_equal(w.k.slots.n, 0);
		assert_int_equal(w.k.frontends.n, 2);
	}
	assert_true(longest_commit <= 4 * PIECE);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/*
 * Large services change at any time, transactions are rejected or lost, the process ends between
 * two pieces: the kernel is consistent after each transaction and finally equals the desired state.
 */
/* `pace`: from one step to the next; with one, an adoption ends under changes. */
static void pieces_random(unsigned seed, uint64_t pace)
{
	static const struct sync_config config = { .batch_ops = PIECE, .piece_ops = PIECE };
	static struct plane_ops ops;
	int ports[4] = { 0 };
	int endpoints[4] = { 0 };
	int shift[4] = { 0 };
	const char *external[4] = { 0 }; /* of the same address: frontends move */
	struct world w;
	uint64_t now = T0;

	srandom(seed);
	large_world(&w, &ops);
	log_level_set_all(LOG_LEVEL_ERR - 1);
	sync_sources_ready(w.s);
	for (int round = 0; round < 400; round++) {
		int i = (int)(random() % 4);
		size_t n_slots = 0;
		size_t n_frontends = 0;
		size_t n_external = 0;

		ports[i] = random() % 4 == 0 ? 0 : 1 + (int)(random() % (random() % 2 ? 3 : 30));
		endpoints[i] = (int)(random() % (ports[i] > 3 ? 12 : 120));
		shift[i] = (int)(random() % 60);
		external[i] = random() % 2 ? "203.0.113.9" : NULL;
		if (ports[i] == 0)
			large_drop(&w, i);
		else
			large_put_with(&w, i, ports[i], endpoints[i], shift[i], external[i]);
		if (random() % 8 == 0)
			w.k.fail_next_commit = random() % 2 ? -EBUSY : -EINVAL;
		for (long n = random() % 30; n > 0; n--)
			(void)sync_step(w.s, now += pace);
		while (ports[i] > 0 && random() % 3 != 0) { /* two endpoints change */
			shift[i]++;
			large_put_with(&w, i, ports[i], endpoints[i], shift[i], external[i]);
			for (long n = random() % 3; n > 0; n--)
				(void)sync_step(w.s, now += pace);
		}
		if (random() % 8 == 0) {
			process_end(&w);
			process_begin_with(&w, &config);
			for (int k = 0; k < 4; k++) {
				if (random() % 2) { /* endpoints change while vipd is down */
					endpoints[k] = (int)(random() % (ports[k] > 3 ? 12 : 120));
					shift[k] = (int)(random() % 60);
				}
				if (ports[k] > 0)
					large_put_with(&w, k, ports[k], endpoints[k], shift[k],
						       external[k]);
			}
			sync_sources_ready(w.s);
		}
		if (random() % 3 != 0)
			continue;
		w.k.fail_next_commit = 0;
		for (int k = 0; k < 40; k++)
			sync_settle(w.s, now += 400 * NSEC_PER_SEC);
		for (int k = 0; k < 4; k++) {
			n_frontends += (size_t)ports[k];
			if (external[k] != NULL)
				n_external = MAX(n_external, (size_t)ports[k]);
			n_slots += (size_t)(ports[k] * endpoints[k]);
		}
		assert_int_equal(sync_failure_count(w.s), 0);
		assert_int_equal(w.k.frontends.n, n_frontends + n_external);
		assert_int_equal(w.k.slots.n, n_slots);
		assert_consistent(&w.k);
	}
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* A large service that changes again and again does not keep another one from its turn. */
static void test_large_turns(void **state)
{
	static const struct sync_config config = { .batch_ops = PIECE, .piece_ops = PIECE };
	static struct plane_ops ops;
	const struct plan_rows *rows;
	struct svc *other;
	struct world w;

	(void)state;
	large_world(&w, &ops);
	log_level_set_all(LOG_LEVEL_ERR);
	for (int is_adoption = 0; is_adoption < 2; is_adoption++) {
		sync_sources_ready(w.s);
		if (!is_adoption)
			sync_settle(w.s, T0);
		large_put(&w, 0, 1, 200, 0);
		large_put(&w, 1, 1, 200, 0);
		other = model_find_text(&w.m, "shop", "x1");
		for (int i = 0; i < 500; i++) {
			if (!is_adoption || i % 7 == 0)
				large_put(&w, 0, 1, 200, i);
			(void)sync_step(w.s, T0);
		}
		rows = other->rows;
		assert_non_null(rows);
		assert_int_equal(rows->pools.v[0].backends.n, 200);
		assert_false(list_is_linked(&other->dirty));
		sync_settle(w.s, T0);
		assert_true(list_is_empty(&w.m.dirty));
		process_end(&w);
		process_begin_with(&w, &config);
	}
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/* A large service is replaced faster than it is programmed: ticks go on, nothing is pending long.
 */
static void test_large_unsteady(void **state)
{
	static struct plane_ops ops;
	uint64_t now = T0;
	struct svc *svc;
	struct world w;

	(void)state;
	large_world(&w, &ops);
	ops.tick = tick_tomorrow;
	log_level_set_all(LOG_LEVEL_ERR);
	sync_sources_ready(w.s);
	large_put(&w, 0, 200, 1, 0);
	sync_settle(w.s, now);
	svc = model_find_text(&w.m, "shop", "x0");
	n_ticks = 0;
	for (int i = 1; i < 400; i++, now += NSEC_PER_SEC) {
		large_put(&w, 0, 200 + i % 2, 1, i);
		if (svc->dirty_since_ns == 1) /* large_put() has no clock */
			svc->dirty_since_ns = now;
		if (i % 100 == 0) /* a commit, which wants a tick */
			large_put(&w, 1, 1, 1, i);
		for (int k = 0; k < 3; k++)
			(void)sync_step(w.s, now);
		assert_in_range(sync_pending_since(w.s), now - 10 * NSEC_PER_SEC, now);
	}
	assert_in_range(n_ticks, 1, 10);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/*
 * The same after a restart: the adoption ends with all others in force, without its sweep. That one
 * follows when the service is programmed, and removes what is no longer needed, nothing else.
 */
static void test_large_unsteady_in_adoption(void **state)
{
	static const struct sync_config config = { .batch_ops = PIECE, .piece_ops = PIECE };
	static struct plane_ops ops;
	uint64_t now = T0;
	struct world w;
	size_t slots;

	(void)state;
	large_world_ready(&w, &ops);
	large_put(&w, 0, 200, 1, 0);
	large_put(&w, 1, 200, 1, 0);
	some_services(&w, 20);
	sync_settle(w.s, now);
	slots = w.k.slots.n;
	process_end(&w);
	process_begin_with(&w, &config);
	large_put(&w, 0, 200, 1, 0);
	large_put(&w, 1, 200, 1, 0);
	some_services(&w, 19); /* one was deleted */
	sync_sources_ready(w.s);
	for (int i = 0; i < 400; i++, now += 10 * NSEC_PER_MSEC) {
		large_put(&w, 0, 200 + i % 2, 1, i);
		(void)sync_step(w.s, now);
		assert_in_range(w.k.slots.n, slots - 1, slots + 1);
	}
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_true(sync_is_sweep_pending(w.s));
	assert_false(list_is_linked(&model_find_text(&w.m, "shop", "x1")->dirty));
	assert_int_equal(sync_stats_get(w.s)->loads, 1);
	large_put(&w, 0, 200, 1, 0);
	sync_settle(w.s, now);
	assert_false(sync_is_sweep_pending(w.s));
	assert_int_equal(sync_stats_get(w.s)->loads, 1);
	assert_int_equal(w.k.slots.n, slots - 2);
	assert_int_equal(w.k.frontends.n, 200 + 200 + 19);
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

static void test_pieces_random(void **state)
{
	static const struct {
		unsigned seed;
		uint64_t pace_ms;
	} cases[] = { { 7, 0 },    { 26, 0 },   { 106, 0 },  { 119, 0 },
		      { 1062, 0 }, { 138, 90 }, { 152, 60 }, { 7, 30 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		pieces_random(cases[i].seed, cases[i].pace_ms * NSEC_PER_MSEC);
}

/* A service with external IP 203.0.113.9 and `n` endpoints. */
static void aged_put(struct world *w, const char *key, const char *ip, int64_t created, int n)
{
	struct service *s = make_service_object(key, ip, NULL, "http:TCP:80");
	char eps[1024] = "";
	char slice[32];
	int len = 0;

	s->created_s = created;
	*vec_push(&s->external_ips) = make_ip("203.0.113.9");
	model_put_service(&w->m, s, 1);
	(void)snprintf(slice, sizeof(slice), "%s-a", key);
	for (int k = 0; k < n; k++)
		len += snprintf(eps + len, sizeof(eps) - (size_t)len, "10.3.1.%d ", k);
	make_slice(&w->m, slice, strchr(key, '/') + 1, "http:TCP:8080", eps);
}

/*
 * A service is deleted and created again before a step: it is younger now, and the large service
 * that claims its frontend gets it.
 */
static void test_recreated(void **state)
{
	static struct plane_ops ops;
	struct world w;

	(void)state;
	large_world_ready(&w, &ops);
	aged_put(&w, "shop/b", "10.96.0.7", 100, 2);
	aged_put(&w, "shop/large", "10.96.0.8", 200, 60);
	sync_settle(w.s, T0);
	assert_true(has_address(&w, "b", "203.0.113.9"));
	(void)drop_service(&w.m, "shop/b");
	aged_put(&w, "shop/b", "10.96.0.7", 300, 2);
	sync_settle(w.s, T0 + 1);
	assert_true(has_address(&w, "large", "203.0.113.9"));
	log_level_set_all(LOG_LEVEL_NOTICE);
	world_fini(&w);
}

/*
 * A large service that has had a frontend, and has a change of its own pending, lost it to a
 * service that is deleted: this one waits, wherever the large service is.
 */
static void test_pieces_wait_again(void **state)
{
	(void)state;
	for (int n_steps = 0; n_steps < 2; n_steps++) {
		static struct plane_ops ops;
		char eps[2048] = "";
		struct world w;
		int len = 0;

		large_world_ready(&w, &ops);
		large_put_with(&w, 1, 1, 200, 0, MOVING);
		sync_settle(w.s, T0);
		n_moving = 1;
		ops.commit = commit_moving;
		large_put(&w, 5, 1, 200, 0); /* in progress all the time */
		for (int i = 0; i < 6; i++)
			(void)sync_step(w.s, T0 + 1);
		for (int k = 0; k < 60; k++)
			len += snprintf(eps + len, sizeof(eps) - (size_t)len, "10.3.1.%d ", k);
		make_slice(&w.m, "shop/x1-b", "x1", "p0:TCP:2000", eps);
		large_put(&w, 0, 1, 2, 0); /* its cluster IP precedes */
		while (model_find_text(&w.m, "shop", "x0")->rows == NULL)
			(void)sync_step(w.s, T0 + 1);
		moving_expect(&w, "x1", 0);
		for (int i = 0; i < n_steps; i++)
			(void)sync_step(w.s, T0 + 1);
		large_drop(&w, 0);
		sync_settle(w.s, T0 + 2);
		moving_expect(&w, "x1", 1);
		log_level_set_all(LOG_LEVEL_NOTICE);
		world_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gate),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_change_in_adoption),
		cmocka_unit_test(test_newest_first),
		cmocka_unit_test(test_last_sync),
		cmocka_unit_test(test_sweep_released_in_adoption),
		cmocka_unit_test(test_sweep_held),
		cmocka_unit_test(test_sweep_held_empty),
		cmocka_unit_test(test_sweep_held_foreign),
		cmocka_unit_test(test_drift_of_rules),
		cmocka_unit_test(test_sweep_held_elsewhere),
		cmocka_unit_test(test_sweep_held_unseen),
		cmocka_unit_test(test_refusal),
		cmocka_unit_test(test_refused_then_deleted),
		cmocka_unit_test(test_unknown_outcome),
		cmocka_unit_test(test_removal_is_met),
		cmocka_unit_test(test_load_fails),
		cmocka_unit_test(test_load_failure_is_logged_once),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_look),
		cmocka_unit_test(test_look_under_changes),
		cmocka_unit_test(test_audit),
		cmocka_unit_test(test_audit_of_fewer),
		cmocka_unit_test(test_audit_once_a_period),
		cmocka_unit_test(test_audit_in_storm),
		cmocka_unit_test(test_spared),
		cmocka_unit_test(test_spared_and_changed),
		cmocka_unit_test(test_env_fails),
		cmocka_unit_test(test_spared_in_vain),
		cmocka_unit_test(test_spared_claims),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_one_owner),
		cmocka_unit_test(test_latency),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_claims_stay),
		cmocka_unit_test(test_few_changed),
		cmocka_unit_test(test_searched),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_pieces_move),
		cmocka_unit_test(test_pieces_wait_again),
		cmocka_unit_test(test_recreated),
		cmocka_unit_test(test_many_losers),
		cmocka_unit_test(test_moves_random),
		cmocka_unit_test(test_pieces_keep),
		cmocka_unit_test(test_piece_rejected),
		cmocka_unit_test(test_pieces_empty),
		cmocka_unit_test(test_pieces_precede),
		cmocka_unit_test(test_pieces_inherit),
		cmocka_unit_test(test_piece_rejected_in_adoption),
		cmocka_unit_test(test_piece_outdated),
		cmocka_unit_test(test_touched),
		cmocka_unit_test(test_audit_in_parts),
		cmocka_unit_test(test_tick_after_commit),
		cmocka_unit_test(test_urgent_ticks),
		cmocka_unit_test(test_large_turns),
		cmocka_unit_test(test_large_unsteady),
		cmocka_unit_test(test_large_unsteady_in_adoption),
		cmocka_unit_test(test_pieces_random),
		cmocka_unit_test(test_move_is_atomic),
		cmocka_unit_test(test_many_claimants),
		cmocka_unit_test(test_many_large_claimants),
		cmocka_unit_test(test_rejected_claimant),
		cmocka_unit_test(test_claims_in_adoption),
		cmocka_unit_test(test_claims_of_many_ports),
		cmocka_unit_test(test_claims_of_many_services),
		cmocka_unit_test(test_claims_of_marked_services),
		cmocka_unit_test(test_claims_random),
		cmocka_unit_test(test_change_while_load_fails),
		cmocka_unit_test(test_claims_given_up),
		cmocka_unit_test(test_deleted_in_turns),
		cmocka_unit_test(test_claims_of_losers),
		cmocka_unit_test(test_rejected_heir),
		cmocka_unit_test(test_min_period),
		cmocka_unit_test(test_min_period_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
