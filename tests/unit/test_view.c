/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/view: the answers to "where does this VIP go, and why not to pod X?" */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/view.h"
#include "base/log.h"
#include "explain/text.h"
#include "serve_world.h"

/* The page of a service in the smallest pieces. */
static json_t *page(struct serve_world *w, const char *ns, const char *name)
{
	const struct svc *svc = model_find_text(&w->m, ns, name);
	struct str out = { 0 };
	struct jsonw jw = { .out = &out };
	struct view_page *v;
	json_t *json;

	assert_non_null(svc);
	view_page_open(&v, &jw, &w->ctx, svc, T0 + NSEC_PER_SEC);
	while (view_page_more(v, &jw, 0))
		;
	view_page_close(v);
	json = json_of(out.text, out.len);
	str_fini(&out);
	return json;
}

static json_t *row(struct serve_world *w, const char *ns, const char *name)
{
	const struct svc *svc = model_find_text(&w->m, ns, name);
	struct view_row r = { 0 };
	struct str out = { 0 };
	struct jsonw jw = { .out = &out };
	json_t *json;

	view_row_begin(&r, &jw, &w->ctx, svc);
	while (view_row_more(&r, &jw, &w->ctx, svc, 0))
		;
	json = json_of(out.text, out.len);
	str_fini(&out);
	serve_facts_fini(&r.facts);
	return json;
}

static json_t *status(struct serve_world *w, uint64_t now)
{
	struct view_totals t = { 0 };
	struct str out = { 0 };
	struct jsonw jw = { .out = &out };
	json_t *json;

	htable_for_each (n, &w->m.services)
		view_totals_add(&t, &w->ctx, container_of(n, struct svc, node));
	view_status(&jw, &w->ctx, &t, now);
	json = json_of(out.text, out.len);
	str_fini(&out);
	serve_facts_fini(&t.scratch);
	return json;
}

/* The endpoint of this address in the first port and family of a page. */
static json_t *endpoint(json_t *p, const char *addr)
{
	json_t *list = at(p, "ports.0.families.0.endpoints");
	json_t *ep;
	size_t i;

	json_array_foreach (list, i, ep)
		if (strcmp(text_at(ep, "address"), addr) == 0)
			return ep;
	fail_msg("no endpoint %s", addr);
	return NULL;
}

static json_t *frontend(json_t *p, const char *addr)
{
	json_t *fe;
	size_t i;

	json_array_foreach (at(p, "frontends"), i, fe)
		if (strcmp(text_at(fe, "address"), addr) == 0)
			return fe;
	fail_msg("no frontend %s", addr);
	return NULL;
}

/* Endpoints that share an address are in the order of their ports, as numbers. */
static void test_ports_of_one_address(void **state)
{
	struct serve_world w;
	FINI(str_fini) struct str line = { 0 };
	const struct plan_rows *rows;
	json_t *backend;
	json_t *p;
	size_t i;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w, "shop/cart-1", "cart", "|http:256|1 rs");
	put_slice(&w, "shop/cart-2", "cart", "|http:255|1 rs");
	sync_all(&w);
	p = page(&w, "shop", "cart");
	assert_int_equal(len_at(p, "pools.0.backends"), 2);
	json_array_foreach (at(p, "pools.0.backends"), i, backend) {
		json_t *eps = at(p, "ports.0.families.0.endpoints");
		json_t *ep = json_array_get(eps, int_at(backend, "port") == 256);

		assert_int_equal(int_at(ep, "port"), int_at(backend, "port"));
		assert_int_equal(int_at(ep, "cluster_set.slot"), int_at(backend, "slot"));
	}
	json_decref(p);
	rows = model_find_text(&w.m, "shop", "cart")->rows;
	plan_frontend_led_print(&line, rows, &rows->frontends.v[0], NULL);
	assert_string_equal(line.text, "10.96.0.1:80/TCP cluster-ip -> 10.0.1.1:255 10.0.1.1:256");
	/* Both have gone, and the pool not yet. */
	put_slice(&w, "shop/cart-1", "cart", "|http:256|");
	put_slice(&w, "shop/cart-2", "cart", "|http:255|");
	p = page(&w, "shop", "cart");
	assert_int_equal(len_at(p, "pools.0.backends"), 2);
	assert_int_equal(len_at(p, "ports.0.families.0.endpoints"), 0);
	json_decref(p);
	serve_world_fini(&w);
}

/* Every exclusion reason, and the slots of used endpoints. */
static const struct {
	const char *name;
	const char *service;
	const char *slice;
	const char *addr;
	const char *cluster; /* "slot N" or the reason */
	const char *local;
} exclusion_cases[] = {
	{ "used", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs @n2;2 rs @n1", "10.0.1.2", "slot 1",
	  "not used by a frontend" },
	{ "not ready", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs @n2;2 @n1", "10.0.1.2",
	  "not ready", "not used by a frontend" },
	{ "terminating beside a ready one", "ip=10.96.0.1 port=http:80",
	  "|http:8080|1 rs @n2;2 st @n1", "10.0.1.2", "terminating, others are ready",
	  "not used by a frontend" },
	{ "terminating alone (POL-04)", "ip=10.96.0.1 port=http:80", "|http:8080|2 st @n1",
	  "10.0.1.2", "slot 0", "not used by a frontend" },
	{ "gone", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs;2 t @n1", "10.0.1.2",
	  "terminating, no longer serving", "not used by a frontend" },
	{ "other zone (POL-15)", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs +a;2 rs +b",
	  "10.0.1.2", "hinted for other zones", "not used by a frontend" },
	{ "other node (POL-14)", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs %n1;2 rs %n2",
	  "10.0.1.2", "hinted for other nodes", "not used by a frontend" },
	{ "not on this node", "ip=10.96.0.1 port=http:80 itp", "|http:8080|1 rs @n1;2 rs @n2",
	  "10.0.1.2", "not used by a frontend", "not on this node" },
	{ "on this node", "ip=10.96.0.1 port=http:80 itp", "|http:8080|1 rs @n1;2 rs @n2",
	  "10.0.1.1", "not used by a frontend", "slot 0" },
	{ "both sets", "type=NodePort ip=10.96.0.1 port=http:80:30080 etp",
	  "|http:8080|1 rs @n1;2 rs @n2", "10.0.1.1", "slot 0", "slot 0" },
};

static void check_set(json_t *ep, const char *set, const char *want)
{
	char path[64];

	if (strncmp(want, "slot ", 5) == 0) {
		(void)snprintf(path, sizeof(path), "%s.slot", set);
		assert_int_equal(int_at(ep, path), atoi(want + 5));
		(void)snprintf(path, sizeof(path), "%s.reason", set);
		assert_string_equal(text_at(ep, path), "null");
	} else {
		(void)snprintf(path, sizeof(path), "%s.reason", set);
		assert_string_equal(text_at(ep, path), want);
		(void)snprintf(path, sizeof(path), "%s.slot", set);
		assert_true(json_is_null(at(ep, path)));
	}
}

static void test_exclusions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(exclusion_cases); i++) {
		struct serve_world w;
		json_t *p;

		print_message("    %s\n", exclusion_cases[i].name);
		serve_world_init(&w);
		put_service(&w, "shop/cart", exclusion_cases[i].service);
		put_slice(&w, "shop/cart-1", "cart", exclusion_cases[i].slice);
		sync_all(&w);
		p = page(&w, "shop", "cart");
		check_set(endpoint(p, exclusion_cases[i].addr), "cluster_set",
			  exclusion_cases[i].cluster);
		check_set(endpoint(p, exclusion_cases[i].addr), "local_set",
			  exclusion_cases[i].local);
		assert_true(json_is_true(at(p, "complete")));
		json_decref(p);
		serve_world_fini(&w);
	}
}

/* Shares of the connections that stay on this node, n1, and in its zone, a; -1 = null. */
static const struct {
	const char *name;
	const char *slice;
	double node;
	double zone;
} locality_cases[] = {
	{ "by zone and node", "|http:8080|1 rs @n1 /a;2 rs @n2 /a;3 rs @n3 /b;4 rs @n4 /b", 0.25,
	  0.5 },
	{ "hinted for this zone", "|http:8080|1 rs @n1 /a +a;2 rs @n2 /a +a;3 rs @n3 /b +b", 0.5,
	  1 },
	{ "hinted for this node", "|http:8080|1 rs @n1 /a %n1;2 rs @n2 /a %n2", 1, 1 },
	{ "this node is in this zone", "|http:8080|1 rs @n1;2 rs @n2 /b", 0.5, 0.5 },
	{ "an endpoint of an unknown zone", "|http:8080|1 rs @n1 /a;2 rs @n2", 0.5, -1 },
	{ "not used, so its zone does not matter", "|http:8080|1 rs @n1 /a;2 @n2", 1, 1 },
	{ "nothing usable", "|http:8080|1 @n1 /a", -1, -1 },
};

static void check_share(json_t *page, const char *key, double want)
{
	char path[64];
	json_t *value;

	(void)snprintf(path, sizeof(path), "ports.0.families.0.%s", key);
	value = at(page, path);
	assert_true(json_is_null(value) == (want < 0));
	if (want >= 0)
		assert_float_equal(json_number_value(value), want, 1e-9);
}

static void test_locality(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(locality_cases); i++) {
		struct serve_world w;
		json_t *p;

		print_message("    %s\n", locality_cases[i].name);
		serve_world_init(&w);
		put_service(&w, "shop/cart", "ip=10.96.0.1 port=http:80");
		put_slice(&w, "shop/cart-1", "cart", locality_cases[i].slice);
		sync_all(&w);
		p = page(&w, "shop", "cart");
		check_share(p, "on_this_node_share", locality_cases[i].node);
		check_share(p, "in_this_zone_share", locality_cases[i].zone);
		json_decref(p);
		serve_world_fini(&w);
	}
}

/* State and note of the first port, and of the service. */
static const struct {
	const char *name;
	const char *service; /* NULL: slices only */
	const char *slice;   /* NULL: none */
	bool is_synced;
	const char *state;
	const char *note;      /* of the service; "null" = none */
	const char *port_note; /* "null" = none */
} state_cases[] = {
	{ "ok", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs", true, "ok", "null", "null" },
	{ "nothing (REJ-01)", "ip=10.96.0.1 port=http:80", NULL, true, "no-endpoints", "null",
	  "no usable endpoint anywhere" },
	{ "nothing usable", "ip=10.96.0.1 port=http:80", "|http:8080|1 t", true, "no-endpoints",
	  "null", "no usable endpoint anywhere" },
	{ "one family", "ip=10.96.0.1 ip=fd00::1 port=http:80", "|http:8080|1 rs", true,
	  "no-endpoints", "null", "IPv6: no usable endpoint anywhere" },
	{ "no slice has the port (EPS-04)", "ip=10.96.0.1 port=http:80", "|web:8080|1 rs", true,
	  "no-endpoints", "null", "no EndpointSlice has a port named 'http' (TCP)" },
	{ "of this protocol", "ip=10.96.0.1 port=/UDP:80", "|:8080|1 rs", true, "no-endpoints",
	  "null", "no EndpointSlice has an unnamed port (UDP)" },
	{ "in one family", "ip=10.96.0.1 ip=fd00::1 port=http:80", "v6|web:8080|1 rs", true,
	  "no-endpoints", "null", "no usable endpoint anywhere" },
	{ "a slice without endpoints", "ip=10.96.0.1 port=http:80", "|web:8080|", true,
	  "no-endpoints", "null", "no usable endpoint anywhere" },
	{ "ITP Local, elsewhere (REJ-02)", "ip=10.96.0.1 port=http:80 itp", "|http:8080|1 rs @n2",
	  true, "dropping", "null",
	  "cluster IP: internalTrafficPolicy Local, no endpoint on this node" },
	{ "ETP Local, elsewhere (REJ-03)", "type=NodePort ip=10.96.0.1 port=http:80:30080 etp",
	  "|http:8080|1 rs @n2", true, "dropping", "null",
	  "outside clients: externalTrafficPolicy Local, no endpoint on this node" },
	{ "headless (SEL-01)", "headless port=http:80", "|http:8080|1 rs", true, "not-proxied",
	  "headless, no cluster IP", "null" },
	{ "other proxy (SEL-03)", "ip=10.96.0.1 port=http:80 label", NULL, true, "not-proxied",
	  "label service.kubernetes.io/service-proxy-name: left to another proxy", "null" },
	{ "slices alone", NULL, "|http:8080|1 rs", true, "no-service",
	  "1 slice, but no valid Service of this name (vipctl status lists rejected objects)",
	  "null" },
	{ "before the first sync", "ip=10.96.0.1 port=http:80", "|http:8080|1 rs", false, "pending",
	  "not in the kernel yet", "null" },
};

static void test_states(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(state_cases); i++) {
		struct serve_world w;
		json_t *p;
		json_t *r;

		print_message("    %s\n", state_cases[i].name);
		serve_world_init(&w);
		if (state_cases[i].service != NULL)
			put_service(&w, "shop/cart", state_cases[i].service);
		if (state_cases[i].slice != NULL)
			put_slice(&w, "shop/cart-1", "cart", state_cases[i].slice);
		if (state_cases[i].is_synced)
			sync_all(&w);
		p = page(&w, "shop", "cart");
		r = row(&w, "shop", "cart");
		assert_string_equal(text_at(p, "state"), state_cases[i].state);
		assert_string_equal(text_at(p, "note"), state_cases[i].note);
		assert_string_equal(text_at(r, "state"), state_cases[i].state);
		assert_string_equal(text_at(r, "note"), state_cases[i].note);
		if (state_cases[i].service != NULL) {
			assert_string_equal(text_at(p, "ports.0.state"), state_cases[i].state);
			assert_string_equal(text_at(p, "ports.0.note"), state_cases[i].port_note);
			assert_string_equal(text_at(r, "ports.0.note"), state_cases[i].port_note);
		}
		json_decref(p);
		json_decref(r);
		serve_world_fini(&w);
	}
}

/* A search of all slices for each port is limited: the note names no cause then. */
static void test_many_ports_and_slices(void **state)
{
	struct str text = { 0 };
	struct serve_world w;
	char key[32];
	json_t *p;

	(void)state;
	serve_world_init(&w);
	str_puts(&text, "ip=10.96.0.1");
	for (int i = 0; i < 400; i++)
		str_printf(&text, " port=p%d:%d", i, 1000 + i);
	put_service(&w, "shop/cart", str_text(&text));
	for (int i = 0; i < 251; i++) {
		(void)snprintf(key, sizeof(key), "shop/cart-%d", i);
		put_slice(&w, key, "cart", "|web:8080|1 rs");
		if (i != 249 && i != 250)
			continue;
		sync_all(&w);
		p = page(&w, "shop", "cart");
		assert_string_equal(text_at(p, "ports.399.note"),
				    i == 249 ? "no EndpointSlice has a port named 'p399' (TCP)"
					     : "no usable endpoint anywhere");
		json_decref(p);
	}
	str_fini(&text);
	serve_world_fini(&w);
}

/* A frontend with different pools for external clients and for pods and the host (POL-25). */
static void test_frontends(void **state)
{
	struct serve_world w;
	json_t *p;
	json_t *fe;

	(void)state;
	serve_world_init(&w);
	put_service(
		&w, "shop/cart",
		"type=LoadBalancer ip=10.96.0.1 port=http:80:30080 vip=203.0.113.9 "
		"proxy=203.0.113.10 ext=198.51.100.7 left-out etp range=198.51.100.0/25 affinity=60 "
		"hc=32000");
	put_slice(&w, "shop/cart-1", "cart", "|http:8080|1 rs @n1 ~cart-a;2 rs @n2 ~cart-b");
	sync_all(&w);
	p = page(&w, "shop", "cart");
	assert_string_equal(text_at(p, "type"), "LoadBalancer");
	assert_string_equal(text_at(p, "external_policy"), "Local");
	assert_string_equal(text_at(p, "internal_policy"), "Cluster");
	assert_int_equal(int_at(p, "affinity_s"), 60);
	assert_int_equal(int_at(p, "health_check_node_port"), 32000);
	assert_string_equal(text_at(p, "source_ranges.0"), "198.51.100.0/25");
	assert_string_equal(text_at(p, "ingress.1.address"), "203.0.113.10");
	assert_false(int_at(p, "ingress.1.captured")); /* SVC-16 */
	assert_int_equal(int_at(p, "left_out_addresses"), 1);
	assert_int_equal(len_at(p, "frontends"), 4);

	fe = frontend(p, "10.96.0.1");
	assert_string_equal(text_at(fe, "kind"), "ClusterIP");
	assert_string_equal(text_at(fe, "port_name"), "http");
	assert_string_equal(text_at(fe, "masquerade"), "not-pods");
	assert_false(int_at(fe, "split"));
	assert_string_equal(text_at(fe, "outside.verdict"), "balance");
	assert_string_equal(text_at(fe, "inside.verdict"), "balance");
	fe = frontend(p, "203.0.113.9");
	assert_string_equal(text_at(fe, "kind"), "LoadBalancer");
	assert_string_equal(text_at(fe, "masquerade"), "this-host");
	assert_true(int_at(fe, "split"));
	assert_true(int_at(fe, "pods_are_inside"));
	assert_true(int_at(fe, "has_source_ranges"));
	assert_string_equal(text_at(fe, "outside.scope"), "local");
	assert_string_equal(text_at(fe, "inside.scope"), "cluster");
	assert_true(int_at(fe, "outside.pool") != int_at(fe, "inside.pool"));
	fe = frontend(p, "192.0.2.1");
	assert_string_equal(text_at(fe, "kind"), "NodePort");
	assert_int_equal(int_at(fe, "port"), 30080);
	assert_false(int_at(fe, "has_source_ranges")); /* SVC-24 */

	assert_int_equal(len_at(p, "pools"), 2);
	assert_string_equal(text_at(p, "pools.0.scope"), "cluster");
	assert_int_equal(len_at(p, "pools.0.backends"), 2);
	assert_int_equal(int_at(p, "pools.0.backends.1.slot"), 1);
	assert_true(int_at(p, "pools.0.backends.1.affinity_id") > 0);
	assert_int_equal(len_at(p, "pools.1.backends"), 1);
	assert_string_equal(text_at(p, "pools.1.backends.0.address"), "10.0.1.1");
	assert_string_equal(text_at(p, "pools.1.source_ranges.0"), "198.51.100.0/25");
	assert_string_equal(text_at(endpoint(p, "10.0.1.2"), "pod"), "cart-b");
	assert_string_equal(text_at(endpoint(p, "10.0.1.2"), "node"), "n2");
	assert_true(int_at(endpoint(p, "10.0.1.1"), "on_this_node"));
	json_decref(p);

	p = row(&w, "shop", "cart");
	assert_string_equal(text_at(p, "load_balancer_ips.0"), "203.0.113.9");
	assert_int_equal(len_at(p, "load_balancer_ips"), 1);
	assert_string_equal(text_at(p, "external_ips.0"), "198.51.100.7");
	assert_int_equal(int_at(p, "ports.0.node_port"), 30080);
	assert_int_equal(int_at(p, "ports.0.families.0.endpoints"), 2);
	assert_int_equal(int_at(p, "ports.0.families.0.pools.0.backends"), 2);
	assert_int_equal(int_at(p, "ports.0.families.0.pools.1.backends"), 1);
	json_decref(p);
	serve_world_fini(&w);
}

/* SEL-14: the older service has the address; the other one shows the owner. */
static void test_conflict(void **state)
{
	struct serve_world w;
	json_t *p;
	json_t *st;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "shop/old", "ip=10.96.0.1 port=http:80 ext=198.51.100.7 created=100");
	put_service(&w, "shop/young", "ip=10.96.0.2 port=http:80 ext=198.51.100.7 created=200");
	put_slice(&w, "shop/old-1", "old", "|http:8080|1 rs");
	put_slice(&w, "shop/young-1", "young", "|http:8080|2 rs");
	sync_all(&w);
	p = page(&w, "shop", "young");
	assert_string_equal(text_at(p, "state"), "conflict");
	assert_string_equal(text_at(p, "ports.0.note"),
			    "198.51.100.7:80 is served by shop/old (older service)");
	assert_string_equal(text_at(p, "conflicts.0.owner_name"), "old");
	assert_string_equal(text_at(p, "conflicts.0.kind"), "ExternalIP");
	assert_int_equal(len_at(p, "frontends"), 1);
	json_decref(p);
	p = page(&w, "shop", "old");
	assert_string_equal(text_at(p, "state"), "ok");
	json_decref(p);
	st = status(&w, T0);
	assert_int_equal(int_at(st, "counts.conflicts"), 1);
	assert_string_equal(text_at(st, "problems.0.text"),
			    "1 frontend that a service claims is served by another service");
	json_decref(st);
	serve_world_fini(&w);
}

/* The desired rows become the programmed ones: the plane of arrays is slow with large services. */
static void rows_accept(struct serve_world *w, const char *name)
{
	struct svc *svc = model_find_text(&w->m, "shop", name);
	struct plan_displaced displaced = { 0 };
	struct plan_rows *rows = plan_rows_build(&w->p, svc);

	plan_rows_settle(&w->p, rows, &displaced);
	plan_rows_number(&w->p, rows);
	plan_rows_accept(&w->p, svc, rows);
	vec_fini(&displaced.svcs);
}

/* Two services with `n` equal ports and one address. */
static void put_conflicts(struct serve_world *w, int n)
{
	for (int i = 1; i <= 2; i++) {
		FINI(str_fini) struct str ports = { 0 };
		FINI(str_fini) struct str slice = { 0 };
		const char *key = i == 1 ? "shop/old" : "shop/young";

		str_printf(&ports, "ip=10.96.0.%d ext=198.51.100.7 created=%d", i, i);
		str_puts(&slice, "|");
		for (int p = 0; p < n; p++) {
			str_printf(&ports, " port=p%d:%d", p, 1000 + p);
			str_printf(&slice, " p%d:%d", p, 1000 + p);
		}
		str_puts(&slice, "|1 rs");
		put_service(w, key, ports.text);
		put_slice(w, key, key + strlen("shop/"), slice.text);
		rows_accept(w, key + strlen("shop/"));
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/*
 * CPU time to write the row and to open the page of a service of `n` ports that are all in
 * conflict, also after its object changed: no frontend has the index of its port any more.
 */
static uint64_t conflicts_cpu_ns(int n)
{
	struct serve_world w;
	struct str out = { 0 };
	struct jsonw jw = { .out = &out };
	struct view_row r = { 0 };
	struct view_page *page;
	const struct plan_rows *rows;
	struct svc *svc;
	uint64_t took;
	int pieces = 1;

	serve_world_init(&w);
	put_conflicts(&w, n);
	svc = model_find_text(&w.m, "shop", "young");
	rows = svc->rows;
	assert_int_equal(rows->conflicts.n, n);
	took = cpu_ns();
	for (int i = 0; i < 2; i++) {
		struct jsonw page_jw = { .out = &out };

		view_row_begin(&r, &jw, &w.ctx, svc);
		while (view_row_more(&r, &jw, &w.ctx, svc, UINT64_MAX))
			;
		view_page_open(&page, &page_jw, &w.ctx, svc, T0);
		view_page_close(page);
		for (int p = 0; p < n / 2; p++) {
			struct service_port *a = &svc->service->ports.v[p];
			struct service_port *b = &svc->service->ports.v[n - 1 - p];
			struct service_port swap = *a;

			*a = *b;
			*b = swap;
		}
	}
	took = cpu_ns() - took;
	view_row_begin(&r, &jw, &w.ctx, svc);
	while (view_row_more(&r, &jw, &w.ctx, svc, 0))
		pieces++;
	assert_int_equal(pieces, n / VIEW_ROW_PORTS + 1);
	str_fini(&out);
	serve_facts_fini(&r.facts);
	serve_world_fini(&w);
	return took;
}

/* The cost of a service does not grow with the square of its ports. */
static void test_many_conflicts(void **state)
{
	uint64_t few = UINT64_MAX;
	uint64_t many = UINT64_MAX;
	struct serve_world w;
	json_t *json;

	(void)state;
	serve_world_init(&w);
	put_conflicts(&w, 200);
	json = row(&w, "shop", "young");
	assert_int_equal(len_at(json, "ports"), 200);
	assert_string_equal(text_at(json, "ports.199.note"),
			    "198.51.100.7:1199 is served by shop/old (older service)");
	assert_int_equal(int_at(json, "ports.199.families.0.endpoints"), 1);
	assert_int_equal(len_at(json, "ports.199.families.0.pools"), 1);
	json_decref(json);
	serve_world_fini(&w);
	for (int i = 0; i < 3; i++) {
		few = MIN(few, conflicts_cpu_ns(1250));
		many = MIN(many, conflicts_cpu_ns(20000));
	}
	print_message("    1,250: %lu us, 20,000: %lu us\n", (unsigned long)few / 1000,
		      (unsigned long)many / 1000);
	assert_true(many < few * 16 * 5 / 2);
}

static void test_refused(void **state)
{
	struct serve_world w;
	json_t *p;
	json_t *st;

	(void)state;
	serve_world_init(&w);
	w.k.refuse_name = "bad";
	w.k.is_culprit_named = true;
	put_service(&w, "shop/bad", "ip=10.96.0.1 port=http:80");
	put_service(&w, "shop/good", "ip=10.96.0.2 port=http:80");
	put_slice(&w, "shop/good-1", "good", "|http:8080|1 rs");
	log_level_set_all(LOG_LEVEL_ERR);
	sync_all(&w);
	p = page(&w, "shop", "bad");
	assert_string_equal(text_at(p, "state"), "rejected");
	assert_string_equal(text_at(p, "note"), "set to refuse bad");
	assert_string_equal(text_at(p, "rejected.text"), "set to refuse bad");
	assert_int_equal(int_at(p, "rejected.attempts"), 1);
	assert_false(int_at(p, "programmed"));
	json_decref(p);
	st = status(&w, T0 + 50 * NSEC_PER_MSEC);
	assert_int_equal(int_at(st, "rejected.count"), 1);
	assert_string_equal(text_at(st, "rejected.items.0.name"), "bad");
	assert_int_equal(int_at(st, "rejected.items.0.since_ms"), 50);
	assert_int_equal(int_at(st, "rejected.items.0.retry_ms"), 50);
	assert_int_equal(int_at(st, "states.rejected"), 1);
	assert_int_equal(int_at(st, "states.ok"), 1);
	assert_int_equal(int_at(st, "pending.services"), 1);
	assert_string_equal(text_at(st, "sync.last_error.text"), "set to refuse bad");
	assert_string_equal(text_at(st, "problems.0.text"), "1 service is rejected by the kernel");
	json_decref(st);
	serve_world_fini(&w);
}

/* The kernel has the old state: the page shows both and the difference. */
static void test_pending_change(void **state)
{
	struct serve_world w;
	json_t *p;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w, "shop/cart-1", "cart", "|http:8080|1 rs;2 rs");
	sync_all(&w);
	put_slice(&w, "shop/cart-1", "cart", "|http:8080|2 rs;3 rs");
	p = page(&w, "shop", "cart");
	assert_string_equal(text_at(p, "state"), "pending");
	assert_string_equal(text_at(p, "note"), "changed; previous rules in force");
	assert_true(int_at(p, "pending"));
	assert_int_equal(int_at(p, "pending_ms"), 1000);
	check_set(endpoint(p, "10.0.1.2"), "cluster_set", "slot 1");
	assert_true(int_at(endpoint(p, "10.0.1.3"), "cluster_set.used"));
	assert_true(json_is_null(at(endpoint(p, "10.0.1.3"), "cluster_set.slot")));
	assert_string_equal(text_at(p, "pools.0.backends.0.address"), "10.0.1.1");
	json_decref(p);
	del_service(&w, "shop", "cart");
	p = page(&w, "shop", "cart");
	assert_string_equal(text_at(p, "note"), "deleted; removal pending");
	assert_false(int_at(p, "has_object"));
	assert_int_equal(len_at(p, "frontends"), 1);
	json_decref(p);
	serve_world_fini(&w);
}

/* After a failure every service is compared; none is pending during that time. */
static void test_reload_is_not_pending(void **state)
{
	struct serve_world w;
	json_t *p;

	(void)state;
	serve_world_init(&w);
	put_service(&w, "shop/cart", "ip=10.96.0.1 port=http:80");
	put_slice(&w, "shop/cart-1", "cart", "|http:8080|1 rs");
	sync_all(&w);
	sync_reload(w.s);
	while (sync_state_get(w.s) != SYNC_ADOPTING)
		sync_step(w.s, T0);
	assert_true(list_is_linked(&model_find_text(&w.m, "shop", "cart")->dirty));
	p = page(&w, "shop", "cart");
	assert_string_equal(text_at(p, "state"), "ok");
	json_decref(p);
	serve_world_fini(&w);
}

/* The service changes between two pieces: the rest is valid JSON and says so. */
static void test_change_between_pieces(void **state)
{
	(void)state;
	for (int cut = 0; cut < 40; cut++) {
		struct serve_world w;
		struct str out = { 0 };
		struct jsonw jw = { .out = &out };
		struct view_page *v;
		json_t *p;

		serve_world_init(&w);
		put_service(&w, "shop/cart", "ip=10.96.0.1 ip=fd00::1 port=a:80 port=b:81");
		put_slice(&w, "shop/cart-1", "cart",
			  "|a:8080 b:8081|1 rs ~cart-a;2 rs ~cart-b;3 rs");
		sync_all(&w);
		view_page_open(&v, &jw, &w.ctx, model_find_text(&w.m, "shop", "cart"), T0);
		for (int i = 0; i < cut; i++)
			view_page_more(v, &jw, 0);
		if (cut % 2 == 0)
			put_service(&w, "shop/cart", "ip=10.96.0.1 port=c:82");
		else
			del_service(&w, "shop", "cart");
		put_slice(&w, "shop/cart-1", "cart", "|b:8081|3 rs");
		sync_settle(w.s, T0);
		while (view_page_more(v, &jw, 0))
			;
		view_page_close(v);
		p = json_of(out.text, out.len);
		assert_int_equal(len_at(p, "frontends"), 4); /* as at the beginning */
		assert_int_equal(len_at(p, "ports"), 2);
		if (cut == 0)
			assert_false(int_at(p, "complete"));
		json_decref(p);
		str_fini(&out);
		serve_world_fini(&w);
	}
}

static void describe(void *arg, struct serve_source_info *ret)
{
	const int *n_errors = arg;

	ret->text = strdup("manifests in /etc/vipd/services");
	ret->is_complete = true;
	ret->last_event_ns = T0;
	ret->errors.n_all = (size_t)*n_errors;
	for (int i = 0; i < MIN(*n_errors, 2); i++)
		*vec_push(&ret->errors) = (struct serve_source_error){
			.where = strdup("web.yaml: document 2"),
			.text = strdup(
				"spec.ports[0]: port: 70000 is not a number from 1 to 65535"),
			.since_ns = T0,
		};
	ret->notes.n_all = 1;
	*vec_push(&ret->notes) = (struct serve_source_error){
		.where = strdup("web.yaml"),
		.text = strdup("1 object of a kind that is not read: Deployment"),
	};
}

static void test_status(void **state)
{
	struct serve_world w;
	int n_errors = 0;
	json_t *st;

	(void)state;
	serve_world_init(&w);
	w.ctx.source = (struct serve_source){ .describe = describe, .arg = &n_errors };
	w.ctx.options = json_pack("{s:s}", "min-sync-period", "0s");
	put_service(&w, "shop/cart", "ip=10.96.0.1 ip=fd00::1 port=http:80");
	put_slice(&w, "shop/cart-1", "cart", "|http:8080|1 rs;2 rs");
	st = status(&w, T0 + 2 * NSEC_PER_SEC);
	assert_string_equal(text_at(st, "state"), "waiting");
	assert_int_equal(int_at(st, "pending.services"), 1);
	assert_int_equal(int_at(st, "pending.oldest_ms"), 2000);
	assert_true(json_is_null(at(st, "sync.last")));
	assert_true(json_is_null(at(st, "sync.first_sync_us")));
	json_decref(st);

	sync_all(&w);
	n_errors = 3;
	st = status(&w, now_ns());
	assert_string_equal(text_at(st, "state"), "running");
	assert_string_equal(text_at(st, "plane"), "mock");
	assert_string_equal(text_at(st, "version"), VIPD_VERSION);
	assert_string_equal(text_at(st, "node.name"), "n1");
	assert_string_equal(text_at(st, "node.zone"), "a");
	assert_string_equal(text_at(st, "node.addresses.1"), "2001:db8::1");
	assert_string_equal(text_at(st, "node.nodeport_addresses.0"), "192.0.2.1");
	assert_string_equal(text_at(st, "node.detect_local.mode"), "ClusterCIDR");
	assert_string_equal(text_at(st, "node.detect_local.prefixes.0"), "10.0.0.0/8");
	assert_true(int_at(st, "node.detect_local.ipv4"));
	assert_false(int_at(st, "node.detect_local.ipv6"));
	assert_int_equal(int_at(st, "counts.services"), 1);
	assert_int_equal(int_at(st, "counts.endpoints"), 2);
	assert_int_equal(int_at(st, "counts.frontends"), 2);
	assert_int_equal(int_at(st, "counts.pools"), 2);
	assert_int_equal(int_at(st, "counts.backends"), 2);
	assert_int_equal(int_at(st, "states.no-endpoints"), 1); /* IPv6 has no endpoint */
	assert_int_equal(int_at(st, "pending.services"), 0);
	assert_true(int_at(st, "sync.writes") > 0);
	assert_int_equal(int_at(st, "sync.last.services"), 1);
	assert_string_equal(text_at(st, "source.text"), "manifests in /etc/vipd/services");
	assert_int_equal(int_at(st, "source.errors.count"), 3);
	assert_int_equal(len_at(st, "source.errors.items"), 2);
	assert_int_equal(int_at(st, "source.notes.count"), 1); /* no problem */
	assert_string_equal(text_at(st, "source.notes.items.0.where"), "web.yaml");
	assert_string_equal(text_at(st, "problems.0.text"), "3 problems with the source");
	assert_string_equal(text_at(st, "options.min-sync-period"), "0s");
	json_decref(st);
	serve_world_fini(&w);
}

/* Requests before sync and plane are open. */
/* --- session affinity that is not in force --- */

static uint32_t class_timeout;

static uint32_t timeout_of(uint16_t class)
{
	(void)class;
	return class_timeout;
}

/* Number of problems of the kind "affinity"; `text`, if not NULL, is the text of one. */
static size_t affinity_problems(struct serve_world *w, const char *text)
{
	json_t *st = status(w, T0);
	size_t n = 0;
	json_t *p;
	size_t i;

	json_array_foreach (at(st, "problems"), i, p) {
		if (strcmp(text_at(p, "kind"), "affinity") != 0)
			continue;
		n++;
		assert_string_equal(text_at(p, "text"), text);
	}
	json_decref(st);
	return n;
}

static void expect_remark(struct serve_world *w, const char *text)
{
	json_t *p = page(w, "shop", "web");

	if (text != NULL)
		assert_string_equal(text_at(p, "remark"), text);
	else
		assert_true(json_is_null(at(p, "remark")));
	json_decref(p);
}

static void test_affinity(void **state)
{
	struct plan_traits traits = { .pool_class = mock_pool_class, .class_affinity = timeout_of };
	struct str many = { 0 };
	struct serve_world w;

	(void)state;
	serve_world_init(&w);
	w.p.traits = &traits;
	/* No kind is free. */
	put_service(&w, "shop/web", "ip=10.96.0.1 port=http:80 affinity=600");
	put_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	put_service(&w, "shop/plain", "ip=10.96.0.2 port=http:80");
	put_slice(&w, "shop/plain-1", "plain", "| http:8080 | 1 rs");
	sync_all(&w);
	assert_int_equal(w.p.n_unsticky, 1);
	assert_int_equal(
		affinity_problems(&w, "1 service has no session affinity: see vipctl svc NAME"), 1);
	expect_remark(&w, "affinity: not in force: no chain is free for this number of endpoints "
			  "and this timeout");
	/* Another timeout is no loss of affinity, but it is shown. */
	class_timeout = 500;
	put_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	sync_all(&w);
	assert_int_equal(w.p.n_unsticky, 0);
	assert_int_equal(affinity_problems(&w, NULL), 0);
	expect_remark(&w, "affinity: lasts 500 s instead of 600 s: too many different timeouts are "
			  "in use");
	class_timeout = 600;
	put_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	sync_all(&w);
	expect_remark(&w, NULL);
	/* More endpoints than local ids, of two services. */
	str_puts(&many, "| http:8080 | ");
	for (int i = 0; i <= PLAN_AFFINITY_BACKENDS_MAX; i++)
		str_printf(&many, "10.9.%d.%d rs; ", i / 250, i % 250);
	put_slice(&w, "shop/web-1", "web", str_text(&many));
	put_service(&w, "shop/other", "ip=10.96.0.3 port=http:80 affinity=60");
	put_slice(&w, "shop/other-1", "other", str_text(&many));
	sync_all(&w);
	assert_int_equal(
		affinity_problems(&w, "2 services have no session affinity: see vipctl svc NAME"),
		1);
	expect_remark(&w, "affinity: not in force: 4096 endpoints, at most 4095");
	del_service(&w, "shop", "other");
	del_service(&w, "shop", "web");
	sync_all(&w);
	assert_int_equal(affinity_problems(&w, NULL), 0);
	str_fini(&many);
	serve_world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exclusions),
		cmocka_unit_test(test_ports_of_one_address),
		cmocka_unit_test(test_locality),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_many_ports_and_slices),
		cmocka_unit_test(test_frontends),
		cmocka_unit_test(test_conflict),
		cmocka_unit_test(test_many_conflicts),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_pending_change),
		cmocka_unit_test(test_reload_is_not_pending),
		cmocka_unit_test(test_change_between_pieces),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_affinity),
	};

	log_level_set_all(LOG_LEVEL_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
