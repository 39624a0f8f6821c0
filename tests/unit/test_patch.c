/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random changes of slices: rows that follow them (plan_rows_patch()) are equal to rows that are
 * built from all endpoints, and so are the sums that the next change starts from.
 */
#include "test.h"

#include <stdio.h>

#include "base/str.h"
#include "mock_plane.h"
#include "model/drain.h"
#include "model/eject.h"
#include "model/track.h"
#include "objects.h"
#include "plan/pieces.h"

#define SLICES 6
#define ENTRIES 12
#define HISTORIES 200
#define EVENTS 120

static const struct plan_traits traits = { .pool_class = mock_pool_class, .has_forwarding = true };

struct entry {
	unsigned int addr; /* 0: none */
	const char *flags;
	unsigned int node; /* 0: none */
	bool is_hinted;
};

struct world {
	struct model m;
	struct plan p;
	struct rng rng;
	struct entry slices[SLICES][ENTRIES];
	size_t n_duplicates; /* of 100 addresses, those that another slice may have */
	size_t n_odd;        /* of 100 endpoints: not ready, or not hinted like the others */
	bool are_hinted;
	size_t n_patched;
	size_t n_built;
};

static bool is_odd(struct world *w)
{
	return rng_below(&w->rng, 100) < w->n_odd;
}

/* Of entry `k` of a slice: one of two addresses, or one of another entry. */
static void entry_make(struct world *w, size_t slice, size_t k)
{
	static const char *const flags[] = { "s", "st", "t", "r" };
	struct entry *e = &w->slices[slice][k];

	if (rng_below(&w->rng, 100) < w->n_duplicates)
		slice = rng_below(&w->rng, SLICES);
	if (rng_below(&w->rng, 100) < w->n_duplicates)
		k = rng_below(&w->rng, ENTRIES);
	e->addr = 1 + (unsigned int)((slice * ENTRIES + k) * 2 + rng_below(&w->rng, 2));
	if (rng_below(&w->rng, 4) == 0)
		e->addr = 0;
	e->flags = is_odd(w) ? flags[rng_below(&w->rng, w->n_odd > 90 ? 3 : 4)] : "rs";
	e->node = (unsigned int)rng_below(&w->rng, 4);
	e->is_hinted = w->are_hinted != is_odd(w);
}

static void slice_put(struct world *w, size_t i)
{
	static const char *const ports[] = { "http:8080 dns/UDP:53", "http:8080 http:8081",
					     "http:80", "x:1 x:1", "http:8080 x:1 x:1" };
	char name[16];
	struct str s = { 0 };

	str_printf(&s, "version=%u | %s |", (unsigned int)rng_below(&w->rng, 5),
		   ports[rng_below(&w->rng, 30) == 0 ? 1 + rng_below(&w->rng, 4) : 0]);
	for (size_t k = 0; k < ENTRIES; k++) {
		const struct entry *e = &w->slices[i][k];

		if (e->addr == 0)
			continue;
		str_printf(&s, "%s %u %s", k > 0 ? ";" : "", e->addr, e->flags);
		if (e->node > 0)
			str_printf(&s, " @n%u", e->node);
		if (e->is_hinted)
			str_printf(&s, " %%n%u +%c", 1 + e->addr % 3, "ab"[e->addr % 2]);
	}
	(void)snprintf(name, sizeof(name), "shop/web-%zu", i);
	model_put_slice(&w->m, test_slice(name, "web", s.text), 1);
	str_fini(&s);
}

static void service_put(struct world *w)
{
	static const char *const texts[] = {
		"port=http:80:30080 port=dns/UDP:53",
		"port=http:80:30080 port=dns/UDP:53 itp",
		"port=http:80:30080 port=dns/UDP:53 etp",
		"port=http:80 ext=203.0.113.7 etp itp",
		"port=http:80 vip=203.0.113.8 range=10.0.0.0/8",
		"port=http:80 affinity=100",
		"port=http:8080 ext=203.0.113.7 fwd=route",
		"port=http:80 weights=10.0.1.7=3,*=1",
	};
	char text[128];

	(void)snprintf(text, sizeof(text), "type=LoadBalancer ip=10.96.0.1 %s",
		       texts[rng_below(&w->rng, ARRAY_SIZE(texts))]);
	model_put_service(&w->m, test_service("shop/web", text), 1);
}

/* Other events end the tracking, or make it useless. */
static void other_event(struct world *w, struct svc *svc)
{
	char text[16];
	struct ip_addr addr;
	size_t i = rng_below(&w->rng, SLICES);
	struct model_ejection ejection = { .ns = svc->ns, .name = svc->name };

	(void)snprintf(text, sizeof(text), "10.0.1.%zu", 1 + rng_below(&w->rng, 40));
	addr = ejection.addr = test_addr(text);
	switch (rng_below(&w->rng, 6)) {
	case 0:
		service_put(w);
		break;
	case 1:
		if (w->m.drains.n > 0)
			(void)model_undrain(&w->m, svc->ns, svc->name, &w->m.drains.v[0].addr, NULL,
					    1);
		else
			(void)model_drain(&w->m, svc->ns, svc->name, &addr, NULL, 1);
		break;
	case 2:
		if (w->m.ejections.n > 0)
			(void)model_admit(&w->m, svc->ns, svc->name, &w->m.ejections.v[0].addr, 0,
					  1);
		else
			(void)!model_eject(&w->m, &ejection, 1);
		break;
	case 3:
		model_put_node(&w->m, test_node("n1", rng_below(&w->rng, 2) ? "zone=a" : "zone=b"),
			       1);
		break;
	case 4:
		(void)snprintf(text, sizeof(text), "web-%zu", i);
		(void)model_del_slice(&w->m, svc->ns, name_get_str(text), 1);
		name_unref(name_find(text, strlen(text)));
		break;
	default:
		memset(w->slices[i], 0, sizeof(w->slices[i]));
		slice_put(w, i);
	}
}

static void event(struct world *w, struct svc *svc)
{
	size_t i = rng_below(&w->rng, SLICES);

	if (rng_below(&w->rng, 20) == 0) {
		other_event(w, svc);
		return;
	}
	for (size_t n = rng_below(&w->rng, 4); n > 0; n--)
		entry_make(w, i, rng_below(&w->rng, ENTRIES));
	slice_put(w, i);
}

static struct plan_rows *built(struct world *w, struct svc *svc)
{
	struct build *b;

	plan_build_open(&b, &w->p, svc);
	while (plan_build_step(b, 20))
		;
	return plan_build_end(&w->p, b);
}

static void assert_equal_rows(struct svc *svc, const struct plan_rows *rows,
			      const struct plan_rows *desired)
{
	struct plan_ops ops = { 0 };

	assert_int_equal(rows->pools.n, desired->pools.n);
	assert_int_equal(rows->frontends.n, desired->frontends.n);
	plan_diff(&ops, svc, rows, desired);
	assert_int_equal(ops.ops.n, 0);
	vec_fini(&ops.ops);
}

static void assert_equal_sums(struct world *w, const struct svc *svc)
{
	for (size_t i = 0; i < svc->service->ports.n; i++) {
		struct selection sel;

		select_endpoints(&sel, &w->m, svc, i, IPFAM_V4);
		assert_memory_equal(&svc->track->next[i], &sel.sums, sizeof(sel.sums));
		selection_fini(&sel);
	}
}

static void finish(struct world *w, struct plan_rows *rows)
{
	struct plan_displaced none = { 0 };

	plan_rows_settle(&w->p, rows, &none);
	assert_int_equal(none.svcs.n, 0);
	plan_rows_number(&w->p, rows);
}

static void step(struct world *w, struct svc *svc, bool is_rejected)
{
	struct plan_rows *rows;

	plan_claim(&w->p, svc);
	rows = plan_rows_patch(&w->p, svc);
	if (rows != NULL) {
		struct plan_rows *desired = plan_rows_desired(&w->p, svc);

		w->n_patched++;
		finish(w, rows);
		finish(w, desired);
		assert_equal_rows(svc, rows, desired);
		assert_equal_sums(w, svc);
		plan_rows_close(desired);
	} else {
		w->n_built++;
		rows = built(w, svc);
		finish(w, rows);
	}
	if (is_rejected) {
		plan_rows_reject(&w->p, svc, rows);
	} else {
		plan_rows_accept(&w->p, svc, rows);
		svc_track_begin(svc);
	}
	model_clean(&w->m, svc);
}

static void world_init(struct world *w, uint64_t seed)
{
	struct ip_addr addr = test_addr("192.0.2.1");

	w->rng.state = seed;
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	w->m.config.preserves_local_source = rng_below(&w->rng, 2);
	model_configured(&w->m);
	model_put_node(&w->m, test_node("n1", "zone=a"), 1);
	model_put_host_addrs(&w->m, &addr, 1, 0, 1);
	plan_init(&w->p, &w->m, &traits);
	w->p.piece_work = 100;
}

static void world_fini(struct world *w)
{
	plan_fini(&w->p);
	model_fini(&w->m);
	assert_int_equal(name_count(), 0);
}

static void history(struct world *w, uint64_t seed)
{
	struct svc *svc;

	world_init(w, seed);
	w->n_duplicates = seed % 3 == 0 ? 10 : 0;
	w->n_odd = (size_t[]){ 0, 5, 40, 95 }[rng_below(&w->rng, 4)];
	w->are_hinted = rng_below(&w->rng, 2);
	service_put(w);
	for (size_t i = 0; i < SLICES; i++) {
		for (size_t k = 0; k < ENTRIES; k++)
			entry_make(w, i, k);
		slice_put(w, i);
	}
	svc = model_find_text(&w->m, "shop", "web");
	for (int i = 0; i < EVENTS; i++) {
		event(w, svc);
		if (rng_below(&w->rng, 3) != 0)
			step(w, svc, rng_below(&w->rng, 8) == 0);
	}
	world_fini(w);
}

static void test_random(void **state)
{
	struct world w = { 0 };

	(void)state;
	for (uint64_t seed = 0; seed < HISTORIES; seed++)
		history(&w, seed);
	print_message("    %zu patched, %zu built\n", w.n_patched, w.n_built);
	assert_true(w.n_patched > 2000);
	assert_true(w.n_built > 2000);
}

/* A second slice with these ports has no endpoint, then one. Returns the number of patches. */
static size_t second_slice(const char *ports)
{
	static const char *const endpoints[] = { "", "3 rs" };
	struct world w = { 0 };
	struct svc *svc;
	char text[64];

	world_init(&w, 1);
	model_put_service(&w.m, test_service("shop/web", "ip=10.96.0.1 port=http:80"), 1);
	model_put_slice(&w.m, test_slice("shop/web-0", "web", "| http:8080 | 1 rs; 2 rs"), 1);
	svc = model_find_text(&w.m, "shop", "web");
	for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
		(void)snprintf(text, sizeof(text), "| %s | %s", ports, endpoints[i]);
		model_put_slice(&w.m, test_slice("shop/web-1", "web", text), 1);
		step(&w, svc, false);
	}
	assert_int_equal(((struct plan_rows *)svc->rows)->pools.v[0].backends.n, 3);
	world_fini(&w);
	return w.n_patched;
}

/* An empty slice may list a port twice; its first endpoint has one backend then. */
static void test_port_twice(void **state)
{
	(void)state;
	assert_int_equal(second_slice("http:8080 http:8080"), 0);
	/* Ports that the service does not have are not compared. */
	assert_int_equal(second_slice("http:8080 x:1 x:1"), 1);
}

/* While no two slices have one endpoint their versions have no effect, and need no comparison. */
static void test_versions(void **state)
{
	enum {
		MANY = 150
	};
	struct world w = { 0 };
	struct svc *svc;
	char name[16];
	char text[32];
	uint64_t was;

	(void)state;
	world_init(&w, 1);
	model_put_service(&w.m, test_service("shop/web", "ip=10.96.0.1 port=http:80"), 1);
	svc = model_find_text(&w.m, "shop", "web");
	for (int version = 1; version <= 2; version++) {
		was = w.m.stats.addrs_compared;
		for (int i = 0; i < MANY; i++) {
			(void)snprintf(name, sizeof(name), "shop/web-%d", i);
			(void)snprintf(text, sizeof(text), "version=%d | http:80 | %d rs", version,
				       1 + i);
			assert_int_equal(model_put_slice(&w.m, test_slice(name, "web", text), 1),
					 version == 1);
		}
		assert_int_equal(w.m.stats.addrs_compared, was);
		if (version == 1)
			step(&w, svc, false);
	}
	model_put_slice(&w.m, test_slice("shop/web-0", "web", "version=3 | http:80 | 2 s"), 1);
	step(&w, svc, false);
	assert_int_equal(((struct plan_rows *)svc->rows)->pools.v[0].backends.n, MANY - 2);
	assert_int_equal(
		model_put_slice(&w.m, test_slice("shop/web-1", "web", "version=4 | http:80 | 2 rs"),
				1),
		1);
	step(&w, svc, false);
	assert_int_equal(((struct plan_rows *)svc->rows)->pools.v[0].backends.n, MANY - 1);
	world_fini(&w);
}

/* The node gets another zone while hints go: their number stays right. */
static void test_zone_and_hints(void **state)
{
	static const char *const texts[][2] = {
		{ "| http:8080 | 1 rs; 2 rs; 3 rs +b", "| http:8080 | 4 rs" },
		{ "| http:8080 | 1 rs; 2 rs; 3 rs", "| http:8080 | 4 rs" },
		{ "| http:8080 | 1 rs +b", "| http:8080 | 4 rs +c" },
	};
	struct world w = { 0 };
	struct svc *svc;

	(void)state;
	world_init(&w, 1);
	model_put_service(&w.m, test_service("shop/web", "ip=10.96.0.1 port=http:80"), 1);
	svc = model_find_text(&w.m, "shop", "web");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		model_put_slice(&w.m, test_slice("shop/web-0", "web", texts[i][0]), 1);
		model_put_slice(&w.m, test_slice("shop/web-1", "web", texts[i][1]), 1);
		if (i == 1)
			model_put_node(&w.m, test_node("n1", "zone=b"), 1);
		step(&w, svc, false);
	}
	assert_int_equal(((struct plan_rows *)svc->rows)->pools.v[0].backends.n, 1);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_port_twice),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_zone_and_hints),
	};

	return cmocka_run_group_tests_name("patch", tests, NULL, NULL);
}
