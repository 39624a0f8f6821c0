/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/table: pools with hashing; their operations, policies, and the backend that trace predicts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "base/rendezvous.h"
#include "explain/text.h"
#include "explain/trace.h"
#include "make.h"
#include "mock_plane.h"
#include "plan/pieces.h"
#include "plan/table.h"
#include "plane/remark.h"
#include "sync/sync.h"

static enum plan_hashing wanted = PLAN_HASHING_ADDR;

static enum plan_hashing hashing(const struct service *s)
{
	return wanted;
}

static uint16_t hash_class(enum plan_hashing how)
{
	return (uint16_t)(0x400 + how);
}

static const struct plan_traits traits = { .pool_class = mock_pool_class,
					   .hashing = hashing,
					   .hash_class = hash_class };

struct world {
	struct model m;
	struct plan p;
	struct plan_ops ops; /* of the last change; pointers into old rows are freed */
};

static void world_init(struct world *w)
{
	*w = (struct world){ 0 };
	wanted = PLAN_HASHING_ADDR;
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	model_configured(&w->m);
	plan_init(&w->p, &w->m, &traits);
	(void)make_service(&w->m, "shop/web", "10.96.0.1", "http:TCP:80");
}

static void world_fini(struct world *w)
{
	vec_fini(&w->ops.ops);
	plan_fini(&w->p);
	model_fini(&w->m);
}

/* These endpoints, by their last numbers; the rows become the programmed ones. */
static const struct plan_pool *world_put(struct world *w, const char *endpoints)
{
	struct svc *svc = model_find_text(&w->m, "shop", "web");
	struct plan_displaced displaced = { 0 };
	struct plan_rows *rows;

	if (endpoints != NULL)
		(void)make_slice(&w->m, "shop/web-1", "web", "http:TCP:8080", endpoints);
	rows = plan_rows_build(&w->p, svc);
	plan_rows_settle(&w->p, rows, &displaced);
	plan_rows_number(&w->p, rows);
	vec_clear(&w->ops.ops);
	plan_diff(&w->ops, svc, svc->rows, rows);
	plan_rows_accept(&w->p, svc, rows);
	vec_fini(&displaced.svcs);
	return &rows->pools.v[0];
}

static size_t count(const struct world *w, enum plan_op_kind kind)
{
	size_t n = 0;

	vec_for_each (op, &w->ops.ops)
		n += op->kind == kind;
	return n;
}

static void table_copy(struct plan_backend *to, const struct plan_pool *pool)
{
	assert_int_equal(pool->table.n, RENDEZVOUS_SLOTS);
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++)
		to[i] = *plan_pool_at(pool, i);
}

static struct plan_backend was[RENDEZVOUS_SLOTS], will[RENDEZVOUS_SLOTS];

/* One operation for each slot that moves, and none for backends that take other places. */
static void test_operations(void **state)
{
	struct world w;
	size_t moved = 0;

	world_init(&w);
	table_copy(was, world_put(&w, "10.1.0.1 10.1.0.2 10.1.0.3"));
	assert_int_equal(count(&w, PLAN_SLOT_ADD), RENDEZVOUS_SLOTS);
	assert_int_equal(count(&w, PLAN_BACKEND_ADD), 3);
	table_copy(will, world_put(&w, "10.1.0.2 10.1.0.3 10.1.0.9"));
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++) {
		if (memcmp(&was[i], &will[i], sizeof(was[i])) == 0)
			continue;
		moved++;
		assert_true(was[i].addr.bytes[3] == 1 || will[i].addr.bytes[3] == 9);
	}
	assert_int_equal(count(&w, PLAN_SLOT_ADD), moved);
	assert_int_equal(count(&w, PLAN_SLOT_DEL), moved);
	assert_int_equal(count(&w, PLAN_BACKEND_ADD) + count(&w, PLAN_BACKEND_DEL), 2);
	(void)world_put(&w, "10.1.0.9 10.1.0.3 10.1.0.2");
	assert_int_equal(w.ops.ops.n, 0);
	(void)world_put(&w, "");
	assert_int_equal(count(&w, PLAN_SLOT_DEL), RENDEZVOUS_SLOTS);
	assert_int_equal(count(&w, PLAN_FRONTEND_CHANGE), 1);
	world_fini(&w);
}

/* A backend that takes the place of a removed one has no slot of its own: the table has them. */
static void test_move_as_text(void **state)
{
	struct str out = { 0 };
	struct world w;

	world_init(&w);
	(void)world_put(&w, "10.1.0.1 10.1.0.2");
	(void)world_put(&w, "10.1.0.2");
	assert_int_equal(count(&w, PLAN_BACKEND_MOVE), 1);
	vec_for_each (op, &w.ops.ops)
		if (op->kind == PLAN_BACKEND_MOVE)
			plan_op_print(&out, op);
	assert_string_equal(out.text, "backend-move pool 1 10.1.0.2:8080 - -> -\n");
	str_fini(&out);
	world_fini(&w);
}

/* Slots are assigned alike after any history, and in the order of any slice. */
static void test_history_has_no_effect(void **state)
{
	static const char *const histories[][4] = {
		{ "10.1.0.1 10.1.0.2 10.1.0.3 10.1.0.4" },
		{ "10.1.0.4", "10.1.0.7 10.1.0.4 10.1.0.3", "10.1.0.4 10.1.0.3 10.1.0.2 10.1.0.1" },
		{ "10.1.0.9", "", "10.1.0.2 10.1.0.1", "10.1.0.3 10.1.0.1 10.1.0.4 10.1.0.2" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(histories); i++) {
		const struct plan_pool *pool = NULL;
		struct world w;

		world_init(&w);
		for (size_t k = 0; k < 4 && histories[i][k] != NULL; k++)
			pool = world_put(&w, histories[i][k]);
		table_copy(i == 0 ? was : will, pool);
		if (i > 0)
			assert_memory_equal(was, will, sizeof(was));
		world_fini(&w);
	}
}

/* A switch makes another pool: slots of both never mix. */
static void test_switch(void **state)
{
	struct world w;
	uint32_t id;

	world_init(&w);
	id = world_put(&w, "10.1.0.1 10.1.0.2")->id;
	wanted = PLAN_HASHING_PORT; /* the table is the same */
	assert_int_equal(world_put(&w, NULL)->id, id);
	assert_int_equal(count(&w, PLAN_SLOT_ADD) + count(&w, PLAN_SLOT_DEL), 0);
	assert_int_equal(count(&w, PLAN_FRONTEND_CHANGE), 1);
	wanted = PLAN_HASHING_NONE;
	assert_int_equal(world_put(&w, NULL)->table.n, 0);
	assert_int_equal(count(&w, PLAN_SLOT_DEL) - count(&w, PLAN_SLOT_ADD), RENDEZVOUS_SLOTS - 2);
	assert_in_range(count(&w, PLAN_SLOT_ADD), 0, 2);
	world_fini(&w);
}

/* Operations in parts, as the audit needs them, are those of the whole. */
static void test_parts(void **state)
{
	struct plan_ops ops = { 0 };
	struct world w;
	size_t from = 0;

	world_init(&w);
	(void)world_put(&w, "10.1.0.1 10.1.0.2");
	do {
		size_t n = ops.ops.n;

		from = plan_diff_part(&ops, NULL, model_find_text(&w.m, "shop", "web")->rows, from,
				      1000);
		assert_true(ops.ops.n - n <= 1000);
	} while (from != 0);
	assert_int_equal(ops.ops.n, w.ops.ops.n);
	for (size_t i = 0; i < ops.ops.n; i++) {
		assert_int_equal(ops.ops.v[i].kind, w.ops.ops.v[i].kind);
		assert_int_equal(ops.ops.v[i].slot, w.ops.ops.v[i].slot);
	}
	vec_fini(&ops.ops);
	world_fini(&w);
}

static void trace(struct plan_trace *t, struct world *w, const char *client, uint16_t port)
{
	struct plan_trace_query q = { .src = make_ip(client),
				      .src_port = port,
				      .dst = make_ip("10.96.0.1"),
				      .port = 80,
				      .proto = L4PROTO_TCP };

	plan_trace_init(t, &w->p, &q);
	htable_for_each (n, &w->m.services)
		plan_trace_visit(t, container_of(n, struct svc, node));
	plan_trace_decide(t);
}

/* Trace predicts from desired rows what the programmed table has. */
static void test_trace(void **state)
{
	const struct plan_pool *pool;
	struct plan_trace t;
	struct world w;
	double sum = 0;

	world_init(&w);
	pool = world_put(&w, "10.1.0.1 10.1.0.2 10.1.0.3");
	trace(&t, &w, "10.0.0.1", 0);
	assert_true(t.is_predicted);
	assert_memory_equal(&t.predicted, plan_pool_at(pool, 14764), sizeof(t.predicted));
	vec_for_each (ep, &t.endpoints)
		sum += plan_trace_share(&t, ep);
	assert_true(sum == 1.0);
	assert_string_equal(t.balancing.scheduler, "mh");
	plan_trace_fini(&t);

	wanted = PLAN_HASHING_PORT;
	pool = world_put(&w, NULL);
	trace(&t, &w, "10.0.0.1", 0);
	assert_false(t.is_predicted);
	assert_true(plan_trace_share(&t, &t.endpoints.v[0]) < 0.34);
	plan_trace_fini(&t);
	trace(&t, &w, "10.0.0.1", 4242);
	assert_true(t.is_predicted);
	assert_memory_equal(&t.predicted, plan_pool_at(pool, 2640), sizeof(t.predicted));
	plan_trace_fini(&t);
	world_fini(&w);
}

/* A random pool by weight that has as many slots as a table: none of them is by hash. */
static void test_switch_of_weighted(void **state)
{
	uint8_t weights[] = { 1, 3 };
	struct plan_pool pools[2];

	for (int i = 0; i < 2; i++) {
		pools[i] = (struct plan_pool){ .weights = weights };
		*vec_push(&pools[i].backends) = (struct plan_backend){ make_ip("10.1.0.1"), 1 };
		*vec_push(&pools[i].backends) = (struct plan_backend){ make_ip("10.1.0.2"), 1 };
	}
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++)
		*vec_push(&pools[0].table) = i % 4 > 0;
	pools[1].hashing = PLAN_HASHING_ADDR;
	plan_table_make(&pools[1], &pools[0]);
	assert_memory_not_equal(pools[1].table.v, pools[0].table.v,
				RENDEZVOUS_SLOTS * sizeof(pools[0].table.v[0]));
	for (int i = 0; i < 2; i++) {
		vec_fini(&pools[i].backends);
		vec_fini(&pools[i].table);
	}
}

/* --- transactions --- */

static size_t longest_commit, n_committed;

static int commit_counted(struct plane *p, const struct plan_op *ops, size_t n,
			  enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	longest_commit = MAX(longest_commit, n);
	n_committed += n;
	return 0;
}

struct synced {
	struct model m;
	struct plan p;
	struct plane_ops ops;
	struct mock_plane k;
	struct sync *s;
};

static void synced_open(struct synced *w)
{
	static const struct sync_config config = { 0 };

	*w = (struct synced){ .ops = mock_plane_ops };
	wanted = PLAN_HASHING_ADDR;
	mock_init(&w->k);
	w->ops.traits = traits;
	w->ops.commit = commit_counted;
	w->k.plane.ops = &w->ops;
	make_model(&w->m);
	plan_init(&w->p, &w->m, &w->ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->k.plane, &config);
	sync_sources_ready(w->s);
	longest_commit = n_committed = 0;
}

static void synced_close(struct synced *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	model_fini(&w->m);
	mock_fini(&w->k);
}

#define OPS_MAX (RENDEZVOUS_SLOTS + 50) /* of a pool: its table, pool, backends, frontend */
/* Of a transaction: PLANE_PIECE_WORK operations of two elements, a slot is one; and some. */
#define COMMIT_MAX (2 * PLANE_PIECE_WORK + 10)

/* A transaction has a part of one table, however many services wait. */
static void test_many_services(void **state)
{
	struct synced w;

	synced_open(&w);
	for (int i = 0; i < 100; i++) {
		char key[32], slice[32], name[16], ip[32];

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		(void)snprintf(slice, sizeof(slice), "shop/s%d-a", i);
		(void)snprintf(name, sizeof(name), "s%d", i);
		(void)snprintf(ip, sizeof(ip), "10.96.0.%d", i + 1);
		make_service(&w.m, key, ip, "http:TCP:80");
		make_slice(&w.m, slice, name, "http:TCP:8080", "10.1.0.1 10.1.0.2");
	}
	sync_settle(w.s, NSEC_PER_SEC);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	assert_true(n_committed > (size_t)100 * RENDEZVOUS_SLOTS);
	assert_in_range(longest_commit, PLANE_PIECE_WORK, COMMIT_MAX);
	synced_close(&w);
}

/* Ports a0 to aN of one service, each with these endpoints. */
static void put_ports(struct synced *w, int n, const char *endpoints)
{
	char ports[1024] = "";
	char targets[1024] = "";

	for (int i = 0; i < n; i++) {
		char one[32];

		(void)snprintf(one, sizeof(one), "%sa%d:TCP:%d", i > 0 ? " " : "", i, 1000 + i);
		strcat(ports, one);
		strcat(targets, one);
	}
	make_service(&w->m, "shop/web", "10.96.0.1", ports);
	make_slice(&w->m, "shop/web-a", "web", targets, endpoints);
}

/* Tables of one service are written in parts. */
static void test_many_ports(void **state)
{
	struct synced w;
	size_t n_commits;

	synced_open(&w);
	put_ports(&w, 8, "10.1.0.1 10.1.0.2");
	sync_settle(w.s, NSEC_PER_SEC);
	assert_int_equal(sync_state_get(w.s), SYNC_RUNNING);
	put_ports(&w, 9, "10.1.0.1 10.1.0.2 10.1.0.3"); /* without the loads of adoption */
	n_committed = longest_commit = 0;
	sync_settle(w.s, 2 * NSEC_PER_SEC);
	assert_in_range(n_committed, 9 * RENDEZVOUS_SLOTS / 2, 9 * OPS_MAX);
	assert_in_range(longest_commit, PLANE_PIECE_WORK, COMMIT_MAX);
	/* A switch keeps pools and tables. */
	wanted = PLAN_HASHING_PORT;
	put_ports(&w, 10, "10.1.0.1 10.1.0.2 10.1.0.3");
	n_committed = longest_commit = 0;
	n_commits = sync_stats_get(w.s)->steps;
	sync_settle(w.s, 3 * NSEC_PER_SEC);
	assert_in_range(n_committed, RENDEZVOUS_SLOTS, OPS_MAX);
	assert_in_range(longest_commit, PLANE_PIECE_WORK, COMMIT_MAX);
	assert_in_range(sync_stats_get(w.s)->steps - n_commits, RENDEZVOUS_SLOTS / COMMIT_MAX, 30);
	put_ports(&w, 10, "");
	n_committed = longest_commit = 0;
	sync_settle(w.s, 4 * NSEC_PER_SEC);
	assert_in_range(n_committed, 10 * RENDEZVOUS_SLOTS, 10 * OPS_MAX);
	assert_in_range(longest_commit, PLANE_PIECE_WORK, COMMIT_MAX);
	synced_close(&w);
}

/* Does a frontend lead to each pool of the programmed rows? */
static bool are_led(const struct plan_rows *rows)
{
	size_t n = 0;

	vec_for_each (pool, &rows->pools) {
		bool is_led = false;

		vec_for_each (f, &rows->frontends)
			is_led |= f->target.pool_id == pool->id;
		n += is_led;
	}
	return n == rows->pools.n;
}

/* A restart between two pieces finds all pools, also those that a switch replaces. */
static void test_pieces_lead(void **state)
{
	struct synced w;

	synced_open(&w);
	put_ports(&w, 6, "10.1.0.1 10.1.0.2");
	sync_settle(w.s, NSEC_PER_SEC);
	for (int i = 0; i < 3; i++) {
		static const enum plan_hashing to[] = { PLAN_HASHING_NONE, PLAN_HASHING_ADDR,
							PLAN_HASHING_PORT };
		uint64_t before = sync_stats_get(w.s)->steps;

		wanted = to[i];
		put_ports(&w, 7 + i, "10.1.0.1 10.1.0.2");
		while (!list_is_empty(&w.m.dirty)) {
			(void)sync_step(w.s, (uint64_t)(2 + i) * NSEC_PER_SEC);
			assert_true(are_led(model_find_text(&w.m, "shop", "web")->rows));
		}
		assert_true(sync_stats_get(w.s)->steps > before + 2);
	}
	assert_in_range(longest_commit, PLANE_PIECE_WORK, COMMIT_MAX);
	synced_close(&w);
}

/* BAL-13: a service has a bounded number of tables; further pools are served at random. */
static void test_pools_max(void **state)
{
	const struct plan_rows *rows;
	size_t n = 0;
	struct synced w;

	synced_open(&w);
	put_ports(&w, PLAN_HASH_POOLS_MAX + 3, "10.1.0.1 10.1.0.2");
	sync_settle(w.s, NSEC_PER_SEC);
	rows = model_find_text(&w.m, "shop", "web")->rows;
	assert_int_equal(rows->pools.n, PLAN_HASH_POOLS_MAX + 3);
	vec_for_each (pool, &rows->pools)
		n += pool->table.n > 0;
	assert_int_equal(n, PLAN_HASH_POOLS_MAX);
	assert_in_range(longest_commit, PLANE_PIECE_WORK, COMMIT_MAX);
	synced_close(&w);
}

static char remarked[64];

static void remark(const struct plane *p, const struct svc *svc, struct str *ret)
{
	const struct plan_rows *rows = svc->rows;

	str_printf(ret, "%u endpoints", rows->pools.v[0].backends.n);
	(void)snprintf(remarked, sizeof(remarked), "%s", str_text(ret));
}

/* BAL-01: the remark in the log is on the accepted rows. */
static void test_remark(void **state)
{
	struct service *s = make_service_object("shop/web", "10.96.0.1", NULL, "http:TCP:80");
	struct synced w;

	synced_open(&w);
	log_level_set_all(LOG_LEVEL_ERR);
	w.ops.remark = remark;
	s->tuning = xcalloc(1, sizeof(*s->tuning));
	s->tuning->scheduler = name_get_str("mh");
	model_put_service(&w.m, s, 1);
	make_slice(&w.m, "shop/web-a", "web", "http:TCP:8080", "10.1.0.1 10.1.0.2");
	sync_settle(w.s, NSEC_PER_SEC);
	assert_string_equal(remarked, "2 endpoints");
	make_slice(&w.m, "shop/web-a", "web", "http:TCP:8080", "10.1.0.1 10.1.0.2 10.1.0.3");
	sync_settle(w.s, 2 * NSEC_PER_SEC);
	assert_string_equal(remarked, "3 endpoints");
	log_level_set_all(LOG_LEVEL_NOTICE);
	synced_close(&w);
}

static size_t n_parsed; /* texts of weights */

int __real_weights_parse(struct weights **ret, const char *text, struct err *err);
int __wrap_weights_parse(struct weights **ret, const char *text, struct err *err);
int __wrap_weights_parse(struct weights **ret, const char *text, struct err *err)
{
	n_parsed++;
	return __real_weights_parse(ret, text, err);
}

static void remark_weights(const struct plane *p, const struct svc *svc, struct str *ret)
{
	plane_remark_weights(ret, svc->service->tuning);
	(void)snprintf(remarked, sizeof(remarked), "%.40s", str_text(ret));
}

/* The text, which may be long, is parsed once for each object, not in each transaction. */
static void test_remark_work(void **state)
{
	static const char *const eps[] = { "10.1.0.1", "10.1.0.2", "10.1.0.3" };
	static const struct {
		const char *weights;
		const char *remark;
	} cases[] = {
		{ "*=3", "" },
		{ "*=3,x", "vipd.io/weights: 'x': allowed are an add" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct service *s = make_service_object("shop/web", "10.96.0.1", NULL, "h:TCP:80");
		struct synced w;

		synced_open(&w);
		log_level_set_all(LOG_LEVEL_ERR);
		w.ops.remark = remark_weights;
		s->tuning = xcalloc(1, sizeof(*s->tuning));
		s->tuning->weights = name_get_str(cases[i].weights);
		n_parsed = 0;
		model_put_service(&w.m, s, 1);
		for (size_t k = 0; k < ARRAY_SIZE(eps); k++) {
			(void)snprintf(remarked, sizeof(remarked), "none");
			make_slice(&w.m, "shop/web-a", "web", "h:TCP:8080", eps[k]);
			sync_settle(w.s, (k + 1) * NSEC_PER_SEC);
			assert_string_equal(remarked, cases[i].remark);
		}
		assert_int_equal(n_parsed, 1);
		log_level_set_all(LOG_LEVEL_NOTICE);
		synced_close(&w);
	}
}

/* BAL-13: affinity has precedence over hashing also in a pool that is too large for it. */
static void test_affinity_too_large(void **state)
{
	struct service *s = make_service_object("shop/web", "10.96.0.1", NULL, "http:TCP:80:30080");
	struct str eps = { 0 };
	const struct plan_rows *rows;
	struct synced w;

	synced_open(&w);
	w.ops.traits.shares_affinity = true;
	s->type = SERVICE_TYPE_NODEPORT;
	s->is_itp_local = true;
	s->affinity_s = 60;
	model_put_service(&w.m, s, 1);
	for (int i = 0; i <= PLAN_AFFINITY_BACKENDS_MAX; i++)
		str_printf(&eps, "10.1.%d.%d%s ", i / 256, i % 256, i < 5 ? "@n1" : "");
	make_slice(&w.m, "shop/web-a", "web", "http:TCP:8080", str_text(&eps));
	str_fini(&eps);
	sync_settle(w.s, NSEC_PER_SEC);
	rows = model_find_text(&w.m, "shop", "web")->rows;
	assert_int_equal(rows->pools.n, 2);
	vec_for_each (pool, &rows->pools) {
		assert_int_equal(pool->affinity_s, 0);
		assert_int_equal(pool->hashing, PLAN_HASHING_NONE);
	}
	synced_close(&w);
}

/* The audit reads a table in parts. */
static void test_audit_in_parts(void **state)
{
	struct synced w;

	synced_open(&w);
	make_service(&w.m, "shop/web", "10.96.0.1", "http:TCP:80");
	make_slice(&w.m, "shop/web-a", "web", "http:TCP:8080", "10.1.0.1 10.1.0.2");
	sync_settle(w.s, NSEC_PER_SEC);
	longest_commit = n_committed = 0;
	sync_audit(w.s);
	for (uint64_t k = 0; k < 200 && sync_stats_get(w.s)->audits == 0; k++)
		sync_settle(w.s, (20 + k) * NSEC_PER_SEC);
	assert_int_equal(sync_stats_get(w.s)->audits, 1);
	assert_true(n_committed > RENDEZVOUS_SLOTS);
	assert_in_range(longest_commit, 1, 1100);
	synced_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),    cmocka_unit_test(test_history_has_no_effect),
		cmocka_unit_test(test_switch),        cmocka_unit_test(test_parts),
		cmocka_unit_test(test_trace),         cmocka_unit_test(test_switch_of_weighted),
		cmocka_unit_test(test_many_services), cmocka_unit_test(test_many_ports),
		cmocka_unit_test(test_pools_max),     cmocka_unit_test(test_pieces_lead),
		cmocka_unit_test(test_remark),        cmocka_unit_test(test_affinity_too_large),
		cmocka_unit_test(test_remark_work),   cmocka_unit_test(test_audit_in_parts),
		cmocka_unit_test(test_move_as_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
