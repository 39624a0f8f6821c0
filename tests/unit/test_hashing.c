/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/table: pools with hashing; their operations, policies, and the backend that trace predicts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rendezvous.h"
#include "explain/trace.h"
#include "make.h"
#include "mock_plane.h"
#include "plan/pieces.h"
#include "plan/table.h"

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
	wanted = PLAN_HASHING_PORT;
	assert_int_not_equal(world_put(&w, NULL)->id, id);
	assert_int_equal(count(&w, PLAN_SLOT_ADD), RENDEZVOUS_SLOTS);
	assert_int_equal(count(&w, PLAN_SLOT_DEL), RENDEZVOUS_SLOTS);
	wanted = PLAN_HASHING_NONE;
	assert_int_equal(world_put(&w, NULL)->table.n, 0);
	assert_int_equal(count(&w, PLAN_SLOT_DEL), RENDEZVOUS_SLOTS);
	assert_int_equal(count(&w, PLAN_SLOT_ADD), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations), cmocka_unit_test(test_history_has_no_effect),
		cmocka_unit_test(test_switch),     cmocka_unit_test(test_parts),
		cmocka_unit_test(test_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
