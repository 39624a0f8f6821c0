/* SPDX-License-Identifier: GPL-2.0-or-later */
/* health/health: the answers at given times (HC-03 to HC-11), and what counts as pending (sync). */
#include "test.h"

#include <jansson.h>

#include <event2/event.h>

#include "health/health.h"
#include "health/health_service.h"
#include "model/select.h"
#include "serve_world.h"

#define S NSEC_PER_SEC
#define WALL INT64_C(1700000000123456789)

static const struct answer_case {
	const char *name;
	struct health_facts f; /* wall_ns, limit_ns are filled in */
	int ready;
	int live;
	bool is_healthy;     /* /healthz */
	const char *updated; /* of /healthz; NULL: the current time (HC-11) */
} answer_cases[] = {
	{ "just started: alive, not ready (HC-03, IN-18)",
	  { .now_ns = 1000 * S, .started_ns = 999 * S, .is_eligible = true },
	  503,
	  200,
	  false,
	  "2023-11-14T22:13:19.123456789Z" },
	{ "waiting for its lists for an hour: still alive",
	  { .now_ns = 5000 * S, .started_ns = 1000 * S, .is_eligible = true },
	  503,
	  200,
	  false,
	  "2023-11-14T21:06:40.123456789Z" },
	{ "in step",
	  { .now_ns = 1000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 990 * S,
	    .has_synced = true,
	    .is_eligible = true },
	  200,
	  200,
	  true,
	  NULL },
	{ "the plane lacks something (HC-05)",
	  { .now_ns = 1000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 990 * S,
	    .has_synced = true,
	    .unready = "IPVS scheduler rr is not loaded",
	    .is_eligible = true },
	  503,
	  200,
	  false,
	  "2023-11-14T22:13:10.123456789Z" },
	{ "IPv6 failed (HC-05)",
	  { .now_ns = 1000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 990 * S,
	    .has_synced = true,
	    .has_failed = { [IPFAM_V6] = true },
	    .unready = "IPv6 failed: table ip6 vipd: Operation not permitted",
	    .is_eligible = true },
	  503,
	  200,
	  false,
	  "2023-11-14T22:13:10.123456789Z" },
	{ "nothing changed for a day (HC-04)",
	  { .now_ns = 100000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 10 * S,
	    .has_synced = true,
	    .is_eligible = true },
	  200,
	  200,
	  true,
	  NULL },
	{ "pending for just less than the limit",
	  { .now_ns = 1000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 900 * S,
	    .pending_since_ns = 940 * S + 1,
	    .has_synced = true,
	    .is_eligible = true },
	  200,
	  200,
	  true,
	  NULL },
	{ "pending for the limit (HC-04)",
	  { .now_ns = 1000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 900 * S,
	    .pending_since_ns = 940 * S,
	    .has_synced = true,
	    .is_eligible = true },
	  503,
	  503,
	  false,
	  "2023-11-14T22:11:40.123456789Z" },
	{ "not eligible: healthy all the same (HC-06, HC-07)",
	  { .now_ns = 1000 * S, .started_ns = 1 * S, .updated_ns = 990 * S, .has_synced = true },
	  503,
	  200,
	  true,
	  "2023-11-14T22:13:10.123456789Z" },
	{ "pending since a time in the future",
	  { .now_ns = 1000 * S,
	    .started_ns = 1 * S,
	    .updated_ns = 990 * S,
	    .pending_since_ns = 1001 * S,
	    .has_synced = true,
	    .is_eligible = true },
	  200,
	  200,
	  true,
	  NULL },
};

static void check_status(json_t *json, const struct health_facts *f)
{
	static const char *const families[] = { "IPv4", "IPv6" };
	char path[64];

	if (!f->has_synced) { /* HC-10: left out while empty */
		assert_null(json_object_get(json, "status"));
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "status.%s.healthy", families[i]);
		assert_int_equal(int_at(json, path), health_is_good(f) && !f->has_failed[i]);
		(void)snprintf(path, sizeof(path), "status.%s.lastUpdated", families[i]);
		assert_int_equal(strlen(text_at(json, path)), 30);
	}
	assert_int_equal(json_object_size(at(json, "status")), 2);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(answer_cases); i++) {
		const struct answer_case *c = &answer_cases[i];
		struct health_facts f = c->f;
		struct str body = { 0 };
		json_t *json;

		print_message("    %s\n", c->name);
		f.wall_ns = WALL;
		f.limit_ns = 60 * S;
		strcpy(f.reason, f.unready ? f.unready : "why");
		assert_int_equal(health_answer(&body, &f, HEALTH_READY), c->ready);
		json = json_of(body.text, body.len);
		assert_int_equal(int_at(json, "healthy"), c->is_healthy);
		assert_int_equal(int_at(json, "nodeEligible"), f.is_eligible);
		assert_string_equal(text_at(json, "currentTime"), "2023-11-14T22:13:20.123456789Z");
		if (c->ready == 503)
			assert_string_equal(text_at(json, "reason"), f.reason);
		else
			assert_null(json_object_get(json, "reason"));
		assert_string_equal(text_at(json, "lastUpdated"),
				    c->updated ? c->updated : text_at(json, "currentTime"));
		check_status(json, &f);
		json_decref(json);

		str_clear(&body);
		assert_int_equal(health_answer(&body, &f, HEALTH_LIVE), c->live);
		json = json_of(body.text, body.len);
		assert_null(json_object_get(json, "nodeEligible"));
		assert_int_equal(int_at(json, "healthy"), c->live == 200);
		check_status(json, &f);
		json_decref(json);
		str_fini(&body);
	}
}

/* --- a failed address family --- */

/* HC-05: /healthz names the family after it has failed for 10 s, until it recovers. */
static void test_family(void **state)
{
	struct health_config config;
	struct health_facts f;
	struct serve_world w;
	struct plane_family *v6 = &w.k.plane.family[IPFAM_V6];
	struct health *h;
	struct err err;

	(void)state;
	serve_world_init(&w);
	sync_all(&w);
	config = (struct health_config){ .ctx = &w.ctx, .sync_period_ns = 30 * S };
	assert_int_equal(health_open(&h, NULL, &config, &err), 0);
	(void)err_set(&err, -EPERM, "its table is another process's");
	for (int k = 0; k < 2; k++) { /* each failure has its 10 s */
		assert_int_equal(plane_family_fail(&w.k.plane, IPFAM_V6, -EPERM, &err), 0);
		health_facts_get(&f, h, now_ns(), WALL);
		assert_string_equal(f.reason, "");
		assert_true(f.has_failed[IPFAM_V6]);
		assert_false(f.has_failed[IPFAM_V4]);
		v6->since_ns -= 5 * S;
		assert_int_equal(plane_family_fail(&w.k.plane, IPFAM_V6, -EPERM, &err), 0);
		health_facts_get(&f, h, now_ns(), WALL);
		assert_string_equal(f.reason, "");
		v6->since_ns -= 5 * S;
		assert_int_equal(plane_family_fail(&w.k.plane, IPFAM_V6, -EPERM, &err), 0);
		health_facts_get(&f, h, now_ns(), WALL);
		assert_string_equal(f.reason, "IPv6 failed: its table is another process's");
		v6->is_failed = false;
		plane_families_settled(&w.k.plane);
		health_facts_get(&f, h, now_ns(), WALL);
		assert_string_equal(f.reason, "");
		assert_false(f.has_failed[IPFAM_V6]);
	}
	health_close(h);
	serve_world_fini(&w);
}

/* --- health check node ports --- */

static size_t n_steps;
static size_t n_local; /* endpoints found by the last step */

bool __real_local_ready_step(struct local_ready *l, const struct model *m, const struct svc *svc,
			     enum ipfam fam, size_t max);
bool __wrap_local_ready_step(struct local_ready *l, const struct model *m, const struct svc *svc,
			     enum ipfam fam, size_t max);
bool __wrap_local_ready_step(struct local_ready *l, const struct model *m, const struct svc *svc,
			     enum ipfam fam, size_t max)
{
	bool is_unfinished = __real_local_ready_step(l, m, svc, fam, max);

	n_steps++;
	n_local = l->v.n;
	return is_unfinished;
}

/* The local endpoints of a service with many ports are counted in several turns of the loop. */
static void test_local_steps(void **state)
{
	struct event_base *base = event_base_new();
	struct health_services *hs;
	struct serve_world w;
	struct str service = { 0 };
	struct str slice = { 0 };

	(void)state;
	serve_world_init(&w);
	str_puts(&service, "type=LoadBalancer ip=10.96.0.1 etp hc=31999");
	str_puts(&slice, "|");
	for (int i = 1; i <= 3 * SELECT_STEP_WORK / (2 * 200) + 1; i++) {
		str_printf(&service, " port=p%d:%d", i, i);
		str_printf(&slice, " p%d:%d", i, i);
	}
	str_puts(&slice, " |");
	for (int i = 1; i <= 200; i++)
		str_printf(&slice, "%s %d rs @n1", i > 1 ? ";" : "", i);
	put_service(&w, "shop/a", str_text(&service));
	put_slice(&w, "shop/a-1", "a", str_text(&slice));
	health_services_open(&hs, base, &w.m, NULL);
	health_services_accepted(hs, model_find_text(&w.m, "shop", "a"));
	assert_int_equal(n_steps, 1);
	for (int turn = 2; turn < 6; turn++) {
		(void)event_base_loop(base, EVLOOP_ONCE);
		assert_int_equal(n_steps, MIN(turn, 4));
	}
	assert_int_equal(n_local, 200);
	health_services_close(hs);
	event_base_free(base);
	str_fini(&service);
	str_fini(&slice);
	serve_world_fini(&w);
}

/* --- pending changes of the sync --- */

static void test_pending(void **state)
{
	struct serve_world w;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "shop/a", "ip=10.96.0.1 port=http:80");
	put_service(&w, "shop/b", "ip=10.96.0.2 port=http:80");
	put_service(&w, "shop/c", "ip=10.96.0.3 port=http:80");
	/* Waiting for lists is not a pending change. */
	assert_int_equal(sync_pending_since(w.s), 0);

	/* The kernel cannot be read. */
	sync_sources_ready(w.s);
	w.k.fail_next_load = -EAGAIN;
	(void)sync_step(w.s, T0 + 5);
	assert_int_equal(sync_pending_since(w.s), T0); /* the services are older than the failure */
	sync_settle(w.s, T0 + 10 * S);
	assert_int_equal(sync_pending_since(w.s), 0);
	assert_true(sync_stats_get(w.s)->first_sync_ns != 0);
	assert_true(sync_stats_get(w.s)->last_success_ns != 0);
	assert_int_equal(sync_stats_get(w.s)->failures, 1);

	/* A pending change keeps the time of its first event until it is accepted. */
	model_put_service(&w.m, test_service("shop/a", "ip=10.96.0.1 port=http:81"), T0 + 20 * S);
	model_put_service(&w.m, test_service("shop/b", "ip=10.96.0.2 port=http:81"), T0 + 21 * S);
	assert_int_equal(sync_pending_since(w.s), T0 + 20 * S);
	sync_settle(w.s, T0 + 22 * S);
	assert_int_equal(sync_pending_since(w.s), 0);

	/* One of three is rejected: it does not count, the node is healthy. */
	w.k.refuse_name = "a";
	w.k.refuse_with = -EINVAL;
	w.k.is_culprit_named = true;
	model_put_service(&w.m, test_service("shop/a", "ip=10.96.0.1 port=http:82"), T0 + 30 * S);
	sync_settle(w.s, T0 + 30 * S);
	assert_int_equal(sync_failure_count(w.s), 1);
	assert_int_equal(sync_pending_since(w.s), 0);

	/* Two of three are rejected: they count. */
	w.k.refuse_name = "b";
	model_put_service(&w.m, test_service("shop/b", "ip=10.96.0.2 port=http:82"), T0 + 40 * S);
	sync_settle(w.s, T0 + 30 * S + 1);
	assert_int_equal(sync_failure_count(w.s), 2);
	assert_int_equal(sync_pending_since(w.s), T0 + 30 * S);
	serve_world_fini(&w);
}

static void put_refused(struct serve_world *w, int port, uint64_t now)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "ip=10.96.0.1 port=http:%d", port);
	model_put_service(&w->m, test_service("shop/a", text), now);
	(void)snprintf(text, sizeof(text), "ip=10.96.0.2 port=http:%d", port);
	model_put_service(&w->m, test_service("other/a", text), now);
	sync_settle(w->s, now);
	assert_int_equal(sync_failure_count(w->s), 2);
}

/* Most services are rejected. They count unless they are the cause themselves. */
static void test_rejected(void **state)
{
	struct serve_world w;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "shop/a", "ip=10.96.0.1 port=http:80");
	put_service(&w, "other/a", "ip=10.96.0.2 port=http:80");
	put_service(&w, "shop/c", "ip=10.96.0.3 port=http:80");
	sync_all(&w);
	w.k.refuse_name = "a";
	w.k.refuse_with = -EINVAL;
	w.k.is_culprit_named = true;
	put_refused(&w, 81, T0 + 10 * S);
	assert_int_equal(sync_pending_since(w.s), T0 + 10 * S);

	/* The kernel accepts another one: they do not count any more. */
	model_put_service(&w.m, test_service("shop/c", "ip=10.96.0.3 port=http:81"), T0 + 10 * S);
	sync_settle(w.s, T0 + 10 * S + 1); /* before their next attempt */
	assert_int_equal(sync_failure_count(w.s), 2);
	assert_int_equal(sync_pending_since(w.s), 0);

	/* It accepts nothing since the next rejection. */
	put_refused(&w, 82, T0 + 90 * S);
	put_refused(&w, 83, T0 + 100 * S);
	assert_int_equal(sync_pending_since(w.s), T0 + 90 * S);

	/* Rejections that do not depend on the kernel's state. */
	w.k.refuse_with = -ENOSPC;
	put_refused(&w, 84, T0 + 200 * S);
	assert_int_equal(sync_pending_since(w.s), 0);
	w.k.refuse_with = -EADDRNOTAVAIL;
	put_refused(&w, 85, T0 + 210 * S);
	assert_int_equal(sync_pending_since(w.s), 0);
	w.k.refuse_with = -ENOMEM;
	put_refused(&w, 86, T0 + 220 * S);
	assert_int_equal(sync_pending_since(w.s), T0 + 90 * S);
	serve_world_fini(&w);
}

/* MET-27: a rejected change is measured from its trigger when it is accepted. */
static int64_t seen_trigger;

static void note_trigger(void *arg, const struct svc *svc, const struct plan_rows *old,
			 const struct plan_rows *new, bool is_whole)
{
	(void)arg;
	(void)old;
	(void)new;
	seen_trigger = svc->trigger_ns;
}

static void test_trigger_survives_refusal(void **state)
{
	struct sync_config config = { .accepted = note_trigger };
	struct serve_world w;

	(void)state;
	serve_world_init(&w);
	sync_close(w.s);
	sync_open(&w.s, &w.m, &w.p, &w.k.plane, &config);
	put_service(&w, "shop/a", "ip=10.96.0.1 port=http:80");
	put_service(&w, "shop/b", "ip=10.96.0.2 port=http:80");
	sync_all(&w);
	w.k.refuse_name = "a";
	w.k.refuse_with = -EINVAL;
	w.k.is_culprit_named = true;
	put_slice(&w, "shop/a-x", "a", "trigger=1000 |http:8080|1 rs");
	sync_settle(w.s, T0);
	assert_int_equal(sync_failure_count(w.s), 1);
	/* With a later change the older trigger counts. */
	put_slice(&w, "shop/a-y", "a", "trigger=2000 |http:8080|2 rs");
	sync_settle(w.s, T0);
	w.k.refuse_name = NULL;
	sync_settle(w.s, T0 + 60 * S);
	assert_int_equal(sync_failure_count(w.s), 0);
	assert_int_equal(seen_trigger, 1000);
	/* And is counted once. */
	put_service(&w, "shop/a", "ip=10.96.0.1 port=http:81");
	sync_settle(w.s, T0 + 61 * S);
	assert_int_equal(seen_trigger, 0);
	serve_world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),     cmocka_unit_test(test_family),
		cmocka_unit_test(test_local_steps), cmocka_unit_test(test_pending),
		cmocka_unit_test(test_rejected),    cmocka_unit_test(test_trigger_survives_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
