/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan: rows of services (policy), conflicts, slots, and the order of operations. */
#include "test.h"

#include <stdlib.h>

#include "base/bits.h"
#include "make.h"
#include "mock_plane.h"
#include "model/tuning.h"
#include "plan/between.h"
#include "plan/private.h"
#include "plan/table.h"

static const struct plan_traits traits = { .pool_class = mock_pool_class };

struct world {
	struct model m;
	struct plan p;
};

static const struct plan *last_plan; /* that of the last world */

static void world_init(struct world *w)
{
	*w = (struct world){ 0 };
	make_model(&w->m);
	plan_init(&w->p, &w->m, &traits);
	last_plan = &w->p;
}

static void world_fini(struct world *w)
{
	plan_fini(&w->p);
	model_fini(&w->m);
}

/* Build, settle and number one service; its rows become the programmed ones. */
static struct plan_rows *world_sync(struct world *w, const char *ns, const char *name)
{
	struct svc *svc = model_find_text(&w->m, ns, name);
	struct plan_displaced displaced = { 0 };
	struct plan_rows *rows = plan_rows_build(&w->p, svc);

	if (rows != NULL) {
		plan_rows_settle(&w->p, rows, &displaced);
		plan_rows_number(&w->p, rows);
	}
	plan_rows_accept(&w->p, svc, rows);
	vec_fini(&displaced.svcs);
	return svc->rows;
}

static void pool_print(struct str *out, const struct plan_pool *pool)
{
	char buf[IP_ENDPOINT_TEXT_MAX];

	str_printf(out, "pool %u %s %s/%s %s", pool->id, pool->fam == IPFAM_V6 ? "v6" : "v4",
		   pool->port_name->text, l4proto_text(pool->proto), plan_scope_text(pool->scope));
	if (pool->affinity_s != 0)
		str_printf(out, " affinity=%us", pool->affinity_s);
	vec_for_each (r, &pool->ranges)
		str_printf(out, " from=%s", ip_prefix_text(r, buf));
	str_puts(out, ":");
	for (size_t i = 0; i < pool->backends.n; i++) {
		const struct plan_backend *b = &pool->backends.v[i];

		str_printf(out, " %zu=%s", i, ip_endpoint_text(&b->addr, b->port, buf));
		if (b->aff_id != 0)
			str_printf(out, "#%u", b->aff_id);
	}
	str_puts(out, "\n");
}

static void frontend_print(struct str *out, const struct plan_frontend *f)
{
	struct plan_op op = { .kind = PLAN_FRONTEND_ADD, .frontend = f };
	struct str s = { 0 };

	plan_op_print(&s, &op); /* "frontend-add ..." */
	str_printf(out, "frontend%s", strchr(s.text, ' '));
	str_fini(&s);
}

/* One line each: pools, frontends, conflicts, in the rows' order. */
static void rows_print(struct str *out, const struct plan_rows *rows)
{
	char buf[IP_ENDPOINT_TEXT_MAX];

	vec_for_each (pool, &rows->pools)
		pool_print(out, pool);
	vec_for_each (f, &rows->frontends)
		frontend_print(out, f);
	vec_for_each (c, &rows->conflicts) {
		const struct plan_owner o = plan_conflict_owner(last_plan, rows->svc, c);

		str_printf(out, "conflict %s/%s %s owned by %s/%s: %s\n",
			   ip_endpoint_text(&c->addr, c->port, buf), l4proto_text(c->proto),
			   plan_frontend_kind_text(c->kind), o.svc->ns->text, o.svc->name->text,
			   plan_conflict_reason(c, &o));
	}
}

/* The owner of the only conflict. */
static void assert_owner(const struct plan_rows *rows, const char *name, const char *reason)
{
	struct plan_owner o;

	assert_int_equal(rows->conflicts.n, 1);
	o = plan_conflict_owner(last_plan, rows->svc, &rows->conflicts.v[0]);
	assert_string_equal(o.svc->name->text, name);
	assert_string_equal(plan_conflict_reason(&rows->conflicts.v[0], &o), reason);
}

static void assert_rows(const struct plan_rows *rows, const char *expected)
{
	struct str s = { 0 };

	if (rows != NULL)
		rows_print(&s, rows);
	assert_string_equal(str_text(&s), expected);
	str_fini(&s);
}

/* --- policy: one service, its rows --- */

static void set_itp_local(struct service *s)
{
	s->is_itp_local = true;
}

static void set_node_port(struct service *s)
{
	s->type = SERVICE_TYPE_NODEPORT;
	s->ports.v[0].node_port = 30080;
}

static void set_node_port_local(struct service *s)
{
	set_node_port(s);
	s->is_etp_local = true;
}

static void set_lb(struct service *s)
{
	s->type = SERVICE_TYPE_LOADBALANCER;
	*vec_push(&s->ingress) = (struct service_ingress){ make_ip("203.0.113.10"), false };
	*vec_push(&s->ingress) = (struct service_ingress){ make_ip("203.0.113.11"), true };
}

static void range_add(struct service *s, const char *text)
{
	struct ip_prefix p;

	assert_int_equal(ip_prefix_parse(&p, text, NULL), 0);
	*vec_push(&s->source_ranges) = p;
}

static void set_lb_ranges(struct service *s)
{
	set_lb(s);
	range_add(s, "198.51.100.0/24");
	range_add(s, "198.51.100.128/25");
	range_add(s, "192.0.2.0/24"); /* contains the node's own address */
	range_add(s, "2001:db8:1::/48");
}

static void set_lb_any_range(struct service *s)
{
	set_lb(s);
	range_add(s, "198.51.100.0/24");
	range_add(s, "0.0.0.0/0");
}

static void set_lb_bad_range(struct service *s)
{
	set_lb(s);
	s->n_bad_source_ranges = 1;
}

static void set_lb_ranges_at_node(struct service *s)
{
	set_node_port(s);
	s->ports.v[0].node_port = 80;
	*vec_push(&s->ingress) = (struct service_ingress){ make_ip("192.0.2.1"), false };
	range_add(s, "198.51.100.0/24");
}

static void set_lb_ranges_at_cluster_ip(struct service *s)
{
	set_itp_local(s);
	*vec_push(&s->ingress) = (struct service_ingress){ make_ip("10.96.0.1"), false };
	range_add(s, "198.51.100.0/24");
}

static void set_lb_local(struct service *s)
{
	set_lb(s);
	s->is_etp_local = true;
}

static void set_external_ip(struct service *s)
{
	*vec_push(&s->external_ips) = make_ip("203.0.113.20");
}

static void set_external_ip_and_lb(struct service *s)
{
	set_lb_ranges(s);
	*vec_push(&s->external_ips) = make_ip("203.0.113.10");
}

static void set_affinity(struct service *s)
{
	s->affinity_s = 10800;
}

static void set_headless(struct service *s)
{
	s->is_headless = true;
}

static void set_affinity_node_port(struct service *s)
{
	set_affinity(s);
	set_node_port(s);
}

static void set_affinity_local(struct service *s)
{
	set_affinity(s);
	set_node_port_local(s);
}

static void set_affinity_local_only(struct service *s)
{
	set_affinity(s);
	set_itp_local(s);
}

static const struct {
	const char *name;
	void (*change)(struct service *s);
	const char *endpoints;
	const char *rows;
} policy_cases[] = {
	{ "SVC-04 cluster IP, two endpoints", NULL, "10.1.0.2 10.1.0.1@n1",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080 1=10.1.0.2:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n" },
	{ "REJ-01 no endpoints (T-070)", NULL, "",
	  "pool 1 v4 http/TCP cluster:\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> reject\n" },
	{ "POL-04 all terminating and serving (T-065)", NULL, "10.1.0.1!st 10.1.0.2!t",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n" },
	{ "REJ-02 ITP Local, remote only (T-062)", set_itp_local, "10.1.0.1@n2",
	  "pool 1 v4 http/TCP local:\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> drop\n" },
	{ "ITP Local, nothing anywhere", set_itp_local, "",
	  "pool 1 v4 http/TCP local:\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> reject\n" },
	{ "ITP Local, one here (T-082)", set_itp_local, "10.1.0.1@n1 10.1.0.2@n2",
	  "pool 1 v4 http/TCP local: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (local)\n" },
	{ "SVC-06 node port, ETP Cluster (T-076)", set_node_port, "10.1.0.1@n2",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 192.0.2.1:30080/TCP NodePort masq=always -> pool 1 (cluster)\n" },
	{ "POL-25 node port, ETP Local, one here (T-078..080)", set_node_port_local,
	  "10.1.0.1@n1 10.1.0.2@n2",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080 1=10.1.0.2:8080\n"
	  "pool 2 v4 http/TCP local: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 192.0.2.1:30080/TCP NodePort masq=host -> pool 2 (local), inside -> pool 1 "
	  "(cluster)\n" },
	{ "REJ-03 ETP Local, remote only", set_node_port_local, "10.1.0.2@n2",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.2:8080\n"
	  "pool 2 v4 http/TCP local:\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 192.0.2.1:30080/TCP NodePort masq=host -> drop, inside -> pool 1 (cluster)\n" },
	{ "REJ-01 ETP Local, nothing anywhere: everybody is rejected", set_node_port_local, "",
	  "pool 1 v4 http/TCP cluster:\n"
	  "pool 2 v4 http/TCP local:\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> reject\n"
	  "frontend 192.0.2.1:30080/TCP NodePort masq=host -> reject\n" },
	{ "SVC-16 ipMode VIP and Proxy (T-021)", set_lb, "10.1.0.1",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=always -> pool 1 (cluster)\n" },
	{ "SVC-20, SVC-25 ranges merged, the VIP itself let in", set_lb_ranges, "10.1.0.1",
	  "pool 1 v4 http/TCP cluster from=192.0.2.0/24 from=198.51.100.0/24 "
	  "from=203.0.113.10/32: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=always guarded -> pool 1 (cluster)\n" },
	{ "REJ-12 ranges and no endpoints: guarded, then rejected", set_lb_ranges, "",
	  "pool 1 v4 http/TCP cluster from=192.0.2.0/24 from=198.51.100.0/24 "
	  "from=203.0.113.10/32:\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> reject\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=always guarded -> reject\n" },
	{ "SVC-21 a range of length 0 (T-100)", set_lb_any_range, "10.1.0.1",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=always -> pool 1 (cluster)\n" },
	{ "SVC-23 no readable range: closed", set_lb_bad_range, "10.1.0.1",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=always guarded -> pool 1 (cluster)\n" },
	{ "ETP Local, VIP, terminating here (T-067)", set_lb_local, "10.1.0.1@n1!st 10.1.0.2@n2",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.2:8080\n"
	  "pool 2 v4 http/TCP local: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=host -> pool 2 (local), inside -> pool 1 "
	  "(cluster)\n" },
	{ "SVC-15 external IP", set_external_ip, "10.1.0.1",
	  "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.20:80/TCP ExternalIP masq=always -> pool 1 (cluster)\n" },
	{ "an address that is both VIP and external IP stays guarded", set_external_ip_and_lb,
	  "10.1.0.1",
	  "pool 1 v4 http/TCP cluster from=192.0.2.0/24 from=198.51.100.0/24 "
	  "from=203.0.113.10/32: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 203.0.113.10:80/TCP LoadBalancer masq=always guarded -> pool 1 (cluster)\n" },
	{ "SVC-24 a VIP that is the node's address, at the node port", set_lb_ranges_at_node,
	  "10.1.0.1",
	  "pool 1 v4 http/TCP cluster from=198.51.100.0/24: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
	  "frontend 192.0.2.1:80/TCP NodePort masq=always guarded -> pool 1 (cluster)\n" },
	{ "SVC-24 a VIP that is the cluster IP, ITP Local: the ranges of its pool",
	  set_lb_ranges_at_cluster_ip, "10.1.0.1@n1 10.1.0.2@n2",
	  "pool 1 v4 http/TCP local from=198.51.100.0/24: 0=10.1.0.1:8080\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip guarded -> pool 1 (local)\n" },
	{ "SVC-31 affinity gives local ids", set_affinity, "10.1.0.1 10.1.0.2",
	  "pool 1 v4 http/TCP cluster affinity=10800s: 0=10.1.0.1:8080#1 1=10.1.0.2:8080#2\n"
	  "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n" },
	{ "SEL-01 headless", set_headless, "10.1.0.1", "" },
};

static void test_policy(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_cases); i++) {
		struct service *s =
			make_service_object("shop/web", "10.96.0.1", NULL, "http:TCP:80");
		struct world w;

		print_message("    %s\n", policy_cases[i].name);
		world_init(&w);
		if (policy_cases[i].change != NULL)
			policy_cases[i].change(s);
		model_put_service(&w.m, s, 1);
		if (*policy_cases[i].endpoints != '\0')
			make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080",
				   policy_cases[i].endpoints);
		assert_rows(world_sync(&w, "shop", "web"), policy_cases[i].rows);
		world_fini(&w);
	}
}

/* Only the pools of `rows`. */
static void assert_pools(const struct plan_rows *rows, const char *expected)
{
	struct str s = { 0 };

	vec_for_each (pool, &rows->pools) {
		str_printf(&s, "%u %s:", pool->id, plan_scope_text(pool->scope));
		vec_for_each (b, &pool->backends)
			str_printf(&s, " %u#%u", b->addr.bytes[3], b->aff_id);
		str_puts(&s, "\n");
	}
	assert_string_equal(str_text(&s), expected);
	str_fini(&s);
}

/* SVC-32: the two pools of a port have a pair of ids, and a backend has one local id in both. */
static void test_shared_affinity(void **state)
{
	static const struct plan_traits sharing = { .pool_class = mock_pool_class,
						    .shares_affinity = true };
	static const struct {
		const char *what;
		void (*change)(struct service *s);
		const char *endpoints;
		const char *pools;
	} steps[] = {
		{ "policy Cluster", set_affinity_node_port, "10.1.0.1@n1 10.1.0.2@n2",
		  "1 cluster: 1#1 2#2\n" },
		{ "a Local pool beside it", set_affinity_local, "10.1.0.1@n1 10.1.0.2@n2",
		  "1 cluster: 1#1 2#2\n524289 local: 1#1\n" },
		{ "a backend of the Local pool alone", set_affinity_local,
		  "10.1.0.2@n2 10.1.0.3@n1!st", "1 cluster: 2#2\n524289 local: 3#3\n" },
		{ "now of both, beside new ones", set_affinity_local,
		  "10.1.0.2@n2 10.1.0.3@n1 10.1.0.4@n1",
		  "1 cluster: 2#2 3#3 4#4\n524289 local: 3#3 4#4\n" },
		{ "the Cluster pool is gone", set_affinity_local_only,
		  "10.1.0.2@n2 10.1.0.3@n1 10.1.0.4@n1", "524289 local: 3#3 4#4\n" },
		{ "and back", set_affinity_local, "10.1.0.2@n2 10.1.0.3@n1 10.1.0.4@n1",
		  "1 cluster: 2#5 3#3 4#4\n524289 local: 3#3 4#4\n" },
		{ "the Local pool is gone", set_affinity_node_port, "10.1.0.2@n2 10.1.0.3@n1",
		  "1 cluster: 2#5 3#3\n" },
		{ "a Local pool in place of the Cluster pool", set_affinity_local_only,
		  "10.1.0.2@n2 10.1.0.3@n1 10.1.0.4@n1", "524289 local: 3#3 4#6\n" },
		{ "a Cluster pool in place of the Local pool", set_affinity,
		  "10.1.0.2@n2 10.1.0.3@n1 10.1.0.4@n1", "1 cluster: 2#7 3#3 4#6\n" },
		{ "no affinity", set_node_port_local, "10.1.0.2@n2 10.1.0.3@n1",
		  "11 cluster: 2#0 3#0\n12 local: 3#0\n" },
	};
	char name[] = "other0";
	struct world w;

	world_init(&w);
	w.p.traits = &sharing;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct service *s =
			make_service_object("shop/web", "10.96.0.1", NULL, "http:TCP:80");
		char ip[] = "10.96.1.0";
		char key[16];

		print_message("    %s\n", steps[i].what);
		steps[i].change(s);
		model_put_service(&w.m, s, 1);
		make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", steps[i].endpoints);
		assert_pools(world_sync(&w, "shop", "web"), steps[i].pools);
		/* Another service gets no id of the pair, even if only one of the two is used. */
		name[5] = ip[8] = (char)('0' + i);
		snprintf(key, sizeof(key), "shop/%s", name);
		s = make_service_object(key, ip, NULL, "http:TCP:80");
		model_put_service(&w.m, s, 1);
		assert_int_not_equal(world_sync(&w, "shop", name)->pools.v[0].id, 1);
	}
	world_fini(&w);
}

/* Contradicting state of an earlier process: the pools agree again. */
static void test_shared_affinity_repaired(void **state)
{
	struct plan_backend in_pool[3] = { { make_ip("10.1.0.1"), 80, 1 },
					   { make_ip("10.1.0.2"), 80, 2 },
					   { make_ip("10.1.0.3"), 80, 0 } };
	struct plan_backend in_peer[4] = { { make_ip("10.1.0.2"), 80, 7 },
					   { make_ip("10.1.0.9"), 80, 1 },
					   { make_ip("10.1.0.3"), 80, 5 },
					   { make_ip("10.1.0.8"), 80, 0 } };
	struct plan_pool pool = { .next_aff_id = 3 };
	struct plan_pool peer = { .next_aff_id = 6 };

	pool.backends.v = in_pool;
	pool.backends.n = ARRAY_SIZE(in_pool);
	peer.backends.v = in_peer;
	peer.backends.n = ARRAY_SIZE(in_peer);
	plan_affinity_number(&pool, &peer, NULL);
	assert_int_equal(in_pool[0].aff_id, 1);
	assert_int_equal(in_pool[1].aff_id, 2);
	assert_int_equal(in_pool[2].aff_id, 5);
	assert_int_equal(in_peer[0].aff_id, 2);
	assert_int_equal(in_peer[1].aff_id, 6);
	assert_int_equal(in_peer[2].aff_id, 5);
	assert_int_equal(in_peer[3].aff_id, 7);
	assert_int_equal(pool.next_aff_id, 8);
	assert_int_equal(peer.next_aff_id, 8);
}

static void test_dual_stack(void **state)
{
	struct world w;

	world_init(&w);
	model_put_service(
		&w.m,
		make_service_object("shop/web", "10.96.0.1", "fd00::1", "http:TCP:80 dns:UDP:53"),
		1);
	make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080 dns:UDP:5353", "10.1.0.1");
	make_slice(&w.m, "shop/web-2", "web", "http:TCP:8080", "fd01::1");
	assert_rows(world_sync(&w, "shop", "web"),
		    "pool 1 v4 dns/UDP cluster: 0=10.1.0.1:5353\n"
		    "pool 2 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
		    "pool 1 v6 dns/UDP cluster:\n"
		    "pool 2 v6 http/TCP cluster: 0=[fd01::1]:8080\n"
		    "frontend 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 2 (cluster)\n"
		    "frontend 10.96.0.1:53/UDP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
		    "frontend [fd00::1]:80/TCP ClusterIP masq=clusterip -> pool 2 (cluster)\n"
		    "frontend [fd00::1]:53/UDP ClusterIP masq=clusterip -> reject\n");
	world_fini(&w);
}

/* --- operations --- */

/* Change objects, diff, accept; returns the operations as text. */
static char *world_ops(struct world *w)
{
	struct svc *svc = model_find_text(&w->m, "shop", "web");
	struct plan_displaced displaced = { 0 };
	struct plan_rows *rows = plan_rows_build(&w->p, svc);
	struct plan_ops ops = { 0 };
	struct str s = { 0 };

	if (rows != NULL) {
		plan_rows_settle(&w->p, rows, &displaced);
		plan_rows_number(&w->p, rows);
	}
	plan_diff(&ops, svc, svc->rows, rows);
	vec_for_each (op, &ops.ops)
		plan_op_print(&s, op);
	plan_rows_accept(&w->p, svc, rows);
	vec_fini(&ops.ops);
	vec_fini(&displaced.svcs);
	return s.text ? s.text : xstrdup("");
}

static void assert_ops(struct world *w, const char *expected)
{
	char *text = world_ops(w);

	assert_string_equal(text, expected);
	free(text);
}

static void test_operations(void **state)
{
	struct world w;

	world_init(&w);
	make_service(&w.m, "shop/web", "10.96.0.1", "http:TCP:80");
	print_message("    service without endpoints\n");
	assert_ops(&w, "pool-add pool 1\n"
		       "frontend-add 10.96.0.1:80/TCP ClusterIP masq=clusterip -> reject\n");
	print_message("    first endpoints (T-094)\n");
	make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", "10.1.0.1 10.1.0.2 10.1.0.3");
	assert_ops(
		&w,
		"backend-add pool 1 10.1.0.1:8080 at 0\n"
		"backend-add pool 1 10.1.0.2:8080 at 1\n"
		"backend-add pool 1 10.1.0.3:8080 at 2\n"
		"frontend-change 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n");
	print_message("    nothing changed (T-121)\n");
	assert_ops(&w, "");
	print_message("    one replaced: in its slot, no frontend touched (T-120)\n");
	make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", "10.1.0.1 10.1.0.9 10.1.0.3");
	assert_ops(&w, "backend-add pool 1 10.1.0.9:8080 at 1\n"
		       "backend-del pool 1 10.1.0.2:8080 at 1\n");
	print_message("    one removed: the tail fills the hole\n");
	make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", "10.1.0.9 10.1.0.3");
	assert_ops(&w,
		   "backend-move pool 1 10.1.0.3:8080 2 -> 0\n"
		   "frontend-change 10.96.0.1:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
		   "backend-del pool 1 10.1.0.1:8080 at 0\n");
	print_message("    all gone: reject first, then the backends\n");
	drop_slice(&w.m, "shop/web-1");
	assert_ops(&w, "frontend-change 10.96.0.1:80/TCP ClusterIP masq=clusterip -> reject\n"
		       "backend-del pool 1 10.1.0.3:8080 at 0\n"
		       "backend-del pool 1 10.1.0.9:8080 at 1\n");
	print_message("    service gone\n");
	make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", "10.1.0.1");
	free(world_ops(&w));
	drop_service(&w.m, "shop/web");
	assert_ops(&w, "frontend-del 10.96.0.1:80/TCP\n"
		       "backend-del pool 1 10.1.0.1:8080 at 0\n"
		       "pool-del pool 1\n");
	world_fini(&w);
}

/*
 * T-127, SEL-14: the older service keeps the address; the newer one shows the owner and gets it
 * later.
 */
static void test_conflict(void **state)
{
	struct service *s = make_service_object("shop/new", "10.96.0.2", NULL, "http:TCP:80");
	struct plan_displaced displaced = { 0 };
	struct plan_rows *rows;
	struct svc *old;
	struct world w;

	world_init(&w);
	s->created_s = 2000;
	*vec_push(&s->external_ips) = make_ip("203.0.113.20");
	model_put_service(&w.m, s, 1);
	make_slice(&w.m, "shop/new-1", "new", "http:TCP:8080", "10.1.0.1");
	assert_rows(world_sync(&w, "shop", "new"),
		    "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
		    "frontend 10.96.0.2:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
		    "frontend 203.0.113.20:80/TCP ExternalIP masq=always -> pool 1 (cluster)\n");

	s = make_service_object("shop/old", "10.96.0.3", NULL, "http:TCP:80");
	*vec_push(&s->external_ips) = make_ip("203.0.113.20");
	model_put_service(&w.m, s, 1);
	old = model_find_text(&w.m, "shop", "old");
	rows = plan_rows_build(&w.p, old);
	plan_rows_settle(&w.p, rows, &displaced);
	assert_int_equal(displaced.svcs.n, 1);
	assert_string_equal(displaced.svcs.v[0]->name->text, "new");
	plan_rows_number(&w.p, rows);
	plan_rows_accept(&w.p, old, rows);
	assert_rows(world_sync(&w, "shop", "new"),
		    "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
		    "frontend 10.96.0.2:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
		    "conflict 203.0.113.20:80/TCP ExternalIP owned by shop/old: older service\n");
	assert_int_equal(w.p.n_conflicts, 1);

	model_clean(&w.m, model_find_text(&w.m, "shop", "new"));
	model_clean(&w.m, old);
	drop_service(&w.m, "shop/old");
	assert_null(world_sync(&w, "shop", "old"));
	assert_true(list_is_linked(&model_find_text(&w.m, "shop", "new")->dirty));
	assert_rows(world_sync(&w, "shop", "new"),
		    "pool 1 v4 http/TCP cluster: 0=10.1.0.1:8080\n"
		    "frontend 10.96.0.2:80/TCP ClusterIP masq=clusterip -> pool 1 (cluster)\n"
		    "frontend 203.0.113.20:80/TCP ExternalIP masq=always -> pool 1 (cluster)\n");
	assert_int_equal(w.p.n_conflicts, 0);
	vec_fini(&displaced.svcs);
	world_fini(&w);
}

static void claimant_sync(struct world *w, const char *key, const char *ip, int64_t created_s)
{
	struct service *s = make_service_object(key, ip, NULL, "http:TCP:80");

	s->created_s = created_s;
	*vec_push(&s->external_ips) = make_ip("203.0.113.20");
	model_put_service(&w->m, s, 1);
	(void)world_sync(w, "shop", key + 5);
	model_clean(&w->m, model_find_text(&w->m, "shop", key + 5));
}

/* SEL-14: the end of a claim that had no precedence concerns no other service. */
static void test_loser_goes(void **state)
{
	static const char *const keys[] = { "shop/a", "shop/b", "shop/c" };
	static const char *const ips[] = { "10.96.0.1", "10.96.0.2", "10.96.0.3" };
	struct world w;

	world_init(&w);
	for (int i = 0; i < 3; i++)
		claimant_sync(&w, keys[i], ips[i], 1000 + i);
	assert_int_equal(w.p.n_conflicts, 2);
	for (int i = 1; i >= 0; i--) {
		drop_service(&w.m, keys[i]);
		assert_null(world_sync(&w, "shop", keys[i] + 5));
		assert_int_equal(list_is_linked(&model_find_text(&w.m, "shop", "c")->dirty),
				 i == 0);
	}
	world_fini(&w);
}

/* SEL-14: a conflict names the present owner, also if its own service is not synced again. */
static void test_owner_changes(void **state)
{
	static const char *const keys[] = { "shop/b", "shop/c", "shop/a", "shop/b" };
	static const char *const ips[] = { "10.96.0.2", "10.96.0.3", "10.96.0.1", "10.96.0.2" };
	static const int created[] = { 2000, 3000, 1000, 2000 };
	const struct plan_rows *rows;
	struct world w;

	world_init(&w);
	for (int i = 0; i < 4; i++)
		claimant_sync(&w, keys[i], ips[i], created[i]);
	rows = model_find_text(&w.m, "shop", "c")->rows;
	assert_owner(rows, "a", "older service");
	drop_service(&w.m, "shop/b");
	assert_null(world_sync(&w, "shop", "b"));
	assert_owner(rows, "a", "older service");
	/* The owner's Service changes; then it loses the frontend. */
	claimant_sync(&w, "shop/a", "10.96.0.9", 1000);
	assert_owner(rows, "a", "older service");
	claimant_sync(&w, "shop/z", "10.96.0.4", 500);
	assert_owner(rows, "z", "older service");
	world_fini(&w);
}

/* CPU time to find, `times`, the owner of an address that `n` large services claim. */
static uint64_t claimed_cpu_ns(int n, int times)
{
	struct plan_displaced displaced = { 0 };
	struct plan_rows *rows;
	struct svc *svc = NULL;
	struct world w;
	uint64_t took = 0;

	world_init(&w);
	w.p.piece_work = 1;
	for (int i = 0; i <= n; i++) {
		struct service *s;
		char key[32];
		char ip[32];

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		(void)snprintf(ip, sizeof(ip), "10.96.%d.%d", i / 250, i % 250 + 1);
		s = make_service_object(key, ip, NULL, "http:TCP:80");
		s->created_s = 1000 + i;
		*vec_push(&s->external_ips) = make_ip("203.0.113.20");
		model_put_service(&w.m, s, 1);
		svc = model_find_text(&w.m, "shop", key + 5);
		if (i == 0)
			(void)world_sync(&w, "shop", "s0");
		else
			plan_claim(&w.p, svc);
	}
	for (int i = 0; i < times; i++) {
		rows = plan_rows_build(&w.p, svc);
		took -= thread_cpu_ns();
		plan_rows_settle(&w.p, rows, &displaced);
		took += thread_cpu_ns();
		assert_owner(rows, "s0", "older service");
		plan_rows_reject(&w.p, svc, rows);
	}
	vec_fini(&displaced.svcs);
	world_fini(&w);
	return took;
}

static void test_claimed_by_many(void **state)
{
	uint64_t few = UINT64_MAX;
	uint64_t many = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		few = MIN(few, claimed_cpu_ns(250, 320));
		many = MIN(many, claimed_cpu_ns(4000, 20));
	}
	print_message("    320 times 250: %lu us, 20 times 4,000: %lu us\n",
		      (unsigned long)few / 1000, (unsigned long)many / 1000);
	assert_true(many < few * 8);
}

/* Frontends are work, too. */
static void test_large_by_frontends(void **state)
{
	struct service *s =
		make_service_object("shop/a", "10.96.0.1", NULL, "x:TCP:80 y:TCP:81 z:TCP:82");
	struct world w;

	world_init(&w);
	w.p.piece_work = 300;
	model_put_service(&w.m, s, 1);
	assert_false(plan_is_large(&w.p, model_find_text(&w.m, "shop", "a")));
	s = make_service_object("shop/a", "10.96.0.1", NULL, "x:TCP:80 y:TCP:81 z:TCP:82");
	for (int i = 0; i < 100; i++) {
		char ip[16];

		(void)snprintf(ip, sizeof(ip), "192.0.2.%d", i);
		*vec_push(&s->external_ips) = make_ip(ip);
	}
	model_put_service(&w.m, s, 1);
	assert_true(plan_is_large(&w.p, model_find_text(&w.m, "shop", "a")));
	world_fini(&w);
}

/* The number of slices decides before any of them is examined: they may have no endpoints. */
static void test_large_by_slices(void **state)
{
	struct slice_entry unexamined = { .slice = NULL };
	struct svc *svc;
	struct world w;

	(void)state;
	world_init(&w);
	w.p.piece_work = 300;
	model_put_service(&w.m,
			  make_service_object("shop/a", "10.96.0.1", NULL, "x:TCP:80 y:TCP:81"), 1);
	svc = model_find_text(&w.m, "shop", "a");
	list_add_tail(&svc->slices, &unexamined.link);
	svc->n_slices = 151;
	assert_true(plan_is_large(&w.p, svc));
	list_del(&unexamined.link);
	svc->n_slices = 140;
	assert_false(plan_is_large(&w.p, svc));
	svc->n_slices = 0;
	world_fini(&w);
}

/* A step of a build looks at so many endpoints and slices, also at slices without endpoints. */
static void test_steps_count_slices(void **state)
{
	struct build *b;
	struct world w;
	int steps = 1;

	world_init(&w);
	model_put_service(&w.m,
			  make_service_object("shop/a", "10.96.0.1", NULL,
					      "a:TCP:80 b:TCP:81 c:TCP:82 d:TCP:83"),
			  1);
	for (int i = 0; i < 50; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "shop/a-%d", i);
		make_slice(&w.m, name, "a", "a:TCP:8080", "");
	}
	plan_build_open(&b, &w.p, model_find_text(&w.m, "shop", "a"));
	while (plan_build_step(b, 60))
		steps++;
	assert_int_equal(steps, 2);
	plan_rows_reject(&w.p, model_find_text(&w.m, "shop", "a"), plan_build_end(&w.p, b));
	world_fini(&w);
}

/* Endpoints with weights count more in a step, and so do the slots of a table. */
static void test_steps_count_weights(void **state)
{
	const struct plan_traits by_slots = { .weighs_by_slots = true };
	struct service *s = make_service_object("shop/a", "10.96.0.1", NULL, "a:TCP:80 b:TCP:81");
	struct build *b;
	struct world w;
	size_t steps[2] = { 1, 1 };

	world_init(&w);
	s->tuning = xcalloc(1, sizeof(*s->tuning));
	s->tuning->weights = name_get_str("*=100");
	model_put_service(&w.m, s, 1);
	make_slice(&w.m, "shop/a-1", "a", "a:TCP:8080 b:TCP:8081", "10.0.0.1 10.0.0.2");
	for (size_t i = 0; i < 2; i++) {
		if (i == 1)
			w.p.traits = &by_slots;
		plan_build_open(&b, &w.p, model_find_text(&w.m, "shop", "a"));
		while (plan_build_step(b, i == 0 ? 5 : 20))
			steps[i]++;
		plan_rows_reject(&w.p, model_find_text(&w.m, "shop", "a"), plan_build_end(&w.p, b));
	}
	assert_int_equal(steps[0], 2);
	assert_int_equal(steps[1], 2);
	world_fini(&w);
}

static size_t n_parsed; /* annotations */
static size_t n_hashed; /* bytes */

int __real_forwarding_parse(uint32_t *ret, const char *text, struct err *err);
int __wrap_forwarding_parse(uint32_t *ret, const char *text, struct err *err);
int __wrap_forwarding_parse(uint32_t *ret, const char *text, struct err *err)
{
	n_parsed++;
	return __real_forwarding_parse(ret, text, err);
}

uint32_t __real_hash_bytes(const void *data, size_t len);
uint32_t __wrap_hash_bytes(const void *data, size_t len);
uint32_t __wrap_hash_bytes(const void *data, size_t len)
{
	n_hashed += len;
	return __real_hash_bytes(data, len);
}

/* Annotations are parsed once for all ports of a service, and their texts are not hashed. */
static void test_annotations_work(void **state)
{
	const struct plan_traits with_forwarding = { .pool_class = mock_pool_class,
						     .has_forwarding = true };
	struct service *s = make_service_object("shop/a", "10.96.0.1", NULL,
						"a:TCP:80 b:TCP:81 c:TCP:82 d:TCP:83");
	char weights[4096] = "10.0.0.1=3";
	struct plan_rows *rows;
	struct world w;
	size_t n = 0;

	world_init(&w);
	w.p.traits = &with_forwarding;
	memset(weights + strlen(weights), ' ', sizeof(weights) - 1 - strlen(weights));
	*vec_push(&s->external_ips) = (struct ip_addr){ AF_INET, { 0 }, { 192, 0, 2, 1 } };
	s->tuning = xcalloc(1, sizeof(*s->tuning));
	s->tuning->weights = name_get_str(weights);
	s->tuning->forwarding = name_get_str("tunnel");
	model_put_service(&w.m, s, 1);
	make_slice(&w.m, "shop/a-1", "a", "a:TCP:80 b:TCP:81 c:TCP:82 d:TCP:83", "10.0.0.1");
	n_parsed = n_hashed = 0;
	plan_claim(&w.p, model_find_text(&w.m, "shop", "a"));
	assert_int_equal(n_parsed, 1);
	rows = world_sync(&w, "shop", "a");
	assert_int_equal(n_parsed, 2);
	assert_in_range(n_hashed, 1, sizeof(weights) - 2);
	vec_for_each (f, &rows->frontends)
		n += f->forwarding == FORWARDING_TUNNEL;
	assert_int_equal(n, 4);
	world_fini(&w);
}

/* BAL-04: the number of slots of a service has a limit, however many ports it has. */
static void test_weight_slots(void **state)
{
	static const struct {
		int n_ports;
		size_t slots; /* of each */
		bool is_rounded;
	} cases[] = {
		{ 1, 98 + 19 * 100, false }, { 32, 98 + 19 * 100, false },
		{ 33, 49 + 19 * 50, false }, { 66, 25 + 19 * 25, true },
		{ 4000, 20, true },
	};
	const struct plan_traits by_slots = { .weighs_by_slots = true };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str ports = { 0 };
		struct str eps = { 0 };
		struct service *s;
		struct plan_rows *rows;
		struct world w;

		world_init(&w);
		w.p.traits = &by_slots;
		for (int k = 1; k <= cases[i].n_ports; k++)
			str_printf(&ports, "%sp%d:TCP:%d", k > 1 ? " " : "", k, k);
		for (int k = 1; k <= 20; k++)
			str_printf(&eps, "10.0.0.%d ", k);
		s = make_service_object("shop/a", "10.96.0.1", NULL, str_text(&ports));
		s->tuning = xcalloc(1, sizeof(*s->tuning));
		s->tuning->weights = name_get_str("10.0.0.1=98,*=100");
		model_put_service(&w.m, s, 1);
		make_slice(&w.m, "shop/a-1", "a", str_text(&ports), str_text(&eps));
		rows = plan_rows_desired(&w.p, model_find_text(&w.m, "shop", "a"));
		assert_int_equal(rows->pools.n, cases[i].n_ports);
		vec_for_each (pool, &rows->pools) {
			assert_int_equal(plan_pool_slots(pool), cases[i].slots);
			assert_int_equal(plan_table_is_rounded(pool, rows->svc->service),
					 cases[i].is_rounded);
		}
		plan_rows_close(rows);
		world_fini(&w);
		str_fini(&ports);
		str_fini(&eps);
	}
}

/* A service that claims CONTESTED:80/TCP as a frontend of `kind`. */
#define CONTESTED "192.168.0.1"

static void claim_as(struct world *w, const char *key, enum plan_frontend_kind kind,
		     const char *cluster_ip, int64_t created_s)
{
	bool is_cluster_ip = kind == PLAN_FRONTEND_CLUSTERIP;
	bool is_node_port = kind == PLAN_FRONTEND_NODEPORT;
	struct service *s = make_service_object(key, is_cluster_ip ? CONTESTED : cluster_ip, NULL,
						is_node_port ? ":TCP:8080:80" : ":TCP:80");

	s->created_s = created_s;
	if (kind == PLAN_FRONTEND_LB)
		*vec_push(&s->ingress) = (struct service_ingress){ make_ip(CONTESTED), false };
	if (kind == PLAN_FRONTEND_EXTERNALIP)
		*vec_push(&s->external_ips) = make_ip(CONTESTED);
	model_put_service(&w->m, s, 1);
}

static uint8_t kind_held(const struct plan_rows *rows)
{
	const struct plan_frontend key = { .addr = make_ip(CONTESTED),
					   .port = 80,
					   .proto = L4PROTO_TCP };
	const struct plan_frontend *f = plan_rows_frontend(rows, &key);

	return f != NULL ? f->kind : PLAN_FRONTEND_UNSET;
}

/*
 * SEL-14: where a claim falls behind, the next claimant is marked dirty. If that one is large, its
 * frontend comes with a piece, so the next one that is not large is, too.
 */
static void test_next_claimants(void **state)
{
	static const char *const keys[] = { "shop/a", "shop/b", "shop/c", "shop/d", "shop/e" };
	static const char *const ips[] = { "10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4",
					   "10.96.0.5" };

	(void)state;
	for (int n_large = 0; n_large <= 3; n_large++) {
		int want = 1 << 1 | 1 << (n_large + 1); /* the first one and the first small one */
		int got = 0;
		struct world w;

		print_message("    %d large ones\n", n_large);
		world_init(&w);
		w.p.piece_work = 10;
		for (int i = 0; i < 5; i++) {
			claim_as(&w, keys[i], i == 0 ? PLAN_FRONTEND_LB : PLAN_FRONTEND_EXTERNALIP,
				 ips[i], 1000 + i);
			if (i >= 1 && i <= n_large)
				make_slice(&w.m, keys[i], keys[i] + 5, ":TCP:80",
					   "10.1.0.1 10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5 10.1.0.6");
			(void)world_sync(&w, "shop", keys[i] + 5);
		}
		for (int i = 0; i < 5; i++)
			model_clean(&w.m, model_find_text(&w.m, "shop", keys[i] + 5));
		claim_as(&w, "shop/a", PLAN_FRONTEND_EXTERNALIP, ips[0], 2000);
		plan_claim(&w.p, model_find_text(&w.m, "shop", "a"));
		for (int i = 1; i < 5; i++)
			got |= list_is_linked(&model_find_text(&w.m, "shop", keys[i] + 5)->dirty)
			       << i;
		assert_int_equal(got, want);
		world_fini(&w);
	}
}

/* SEL-14: the kind has precedence over age and order of arrival. */
static void test_precedence(void **state)
{
	static const struct {
		enum plan_frontend_kind first, second;
		const char *reason;
	} pairs[] = {
		{ PLAN_FRONTEND_CLUSTERIP, PLAN_FRONTEND_NODEPORT, "cluster IP before node port" },
		{ PLAN_FRONTEND_CLUSTERIP, PLAN_FRONTEND_LB,
		  "cluster IP before load balancer address" },
		{ PLAN_FRONTEND_CLUSTERIP, PLAN_FRONTEND_EXTERNALIP,
		  "cluster IP before external IP" },
		{ PLAN_FRONTEND_NODEPORT, PLAN_FRONTEND_LB,
		  "node port before load balancer address" },
		{ PLAN_FRONTEND_NODEPORT, PLAN_FRONTEND_EXTERNALIP,
		  "node port before external IP" },
		{ PLAN_FRONTEND_LB, PLAN_FRONTEND_EXTERNALIP,
		  "load balancer address before external IP" },
	};
	static const char *const orders[][3] = { { "winner", "loser", "winner" },
						 { "loser", "winner", "loser" } };

	for (size_t i = 0; i < ARRAY_SIZE(pairs) * ARRAY_SIZE(orders); i++) {
		const char *const *order = orders[i % 2];
		enum plan_frontend_kind first = pairs[i / 2].first, second = pairs[i / 2].second;
		struct world w;

		print_message("    %s, %s first\n", pairs[i / 2].reason, order[0]);
		world_init(&w);
		*vec_push(&w.m.env.nodeport_addrs) = make_ip(CONTESTED);
		claim_as(&w, "shop/winner", first, "10.96.0.1", 2000);
		claim_as(&w, "shop/loser", second, "10.96.0.2", 1000);
		for (size_t k = 0; k < ARRAY_SIZE(orders[0]); k++)
			world_sync(&w, "shop", order[k]);
		assert_int_equal(kind_held(model_find_text(&w.m, "shop", "winner")->rows), first);
		assert_int_equal(kind_held(model_find_text(&w.m, "shop", "loser")->rows),
				 PLAN_FRONTEND_UNSET);
		assert_int_equal(w.p.n_conflicts, 1);
		assert_owner(model_find_text(&w.m, "shop", "loser")->rows, "winner",
			     pairs[i / 2].reason);
		/* The owner no longer claims it: the other service is marked dirty and gets it. */
		drop_service(&w.m, "shop/winner");
		assert_null(world_sync(&w, "shop", "winner"));
		assert_int_equal(kind_held(world_sync(&w, "shop", "loser")), second);
		world_fini(&w);
	}
}

/* --- slots --- */

static size_t random_backends(struct plan_backend *v, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < max; i++)
		if (random() % 2)
			v[n++] = (struct plan_backend){
				.addr = { .family = AF_INET, .bytes = { 10, 0, 0, (uint8_t)i } },
				.port = 80
			};
	return n;
}

static bool is_same_backend(const struct plan_backend *a, const struct plan_backend *b)
{
	return ip_addr_is_equal(&a->addr, &b->addr) && a->port == b->port;
}

/* Every desired backend once; no backend moves that could keep its slot. */
static void test_slots_random(void **state)
{
	srandom(7);
	for (int round = 0; round < 5000; round++) {
		struct plan_backend programmed[24];
		struct plan_backend want[24];
		struct plan_backend got[24];
		size_t n_programmed = random_backends(programmed, ARRAY_SIZE(programmed));
		size_t n_want = random_backends(want, ARRAY_SIZE(want));

		memcpy(got, want, sizeof(got));
		plan_slots_arrange(got, n_want, programmed, n_programmed);
		for (size_t i = 0; i < n_want; i++) {
			size_t seen = 0;

			for (size_t k = 0; k < n_want; k++) {
				seen += is_same_backend(&want[i], &got[k]);
				if (i < n_programmed && is_same_backend(&want[k], &programmed[i]))
					assert_true(is_same_backend(&got[i], &programmed[i]));
			}
			assert_int_equal(seen, 1);
		}
	}
}

/* After every prefix of the operations each balancing frontend has a backend. */
static void test_prefixes_are_safe(void **state)
{
	struct plan_ops ops = { 0 };
	struct world w;

	srandom(11);
	world_init(&w);
	make_service(&w.m, "shop/web", "10.96.0.1", "http:TCP:80");
	for (int round = 0; round < 2000; round++) {
		struct svc *svc = model_find_text(&w.m, "shop", "web");
		struct str eps = { 0 };
		struct plan_rows *rows;
		struct plan_displaced displaced = { 0 };
		const struct plan_rows *old = svc->rows;
		size_t n_backends = old ? old->pools.v[0].backends.n : 0;
		bool leads = old && old->frontends.v[0].target.verdict == PLAN_VERDICT_POOL;

		for (int i = 0; i < 8; i++)
			if (random() % 3 == 0)
				str_printf(&eps, "10.1.0.%d ", i);
		make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", str_text(&eps));
		str_fini(&eps);
		rows = plan_rows_build(&w.p, svc);
		plan_rows_settle(&w.p, rows, &displaced);
		plan_rows_number(&w.p, rows);
		vec_clear(&ops.ops);
		plan_diff(&ops, svc, old, rows);
		vec_for_each (op, &ops.ops) {
			n_backends += op->kind == PLAN_BACKEND_ADD;
			n_backends -= op->kind == PLAN_BACKEND_DEL;
			if (op->kind == PLAN_FRONTEND_ADD || op->kind == PLAN_FRONTEND_CHANGE)
				leads = op->frontend->target.verdict == PLAN_VERDICT_POOL;
			assert_true(!leads || n_backends > 0);
		}
		assert_int_equal(n_backends, rows->pools.v[0].backends.n);
		plan_rows_accept(&w.p, svc, rows);
	}
	vec_fini(&ops.ops);
	world_fini(&w);
}

/* Ids are reused only after all others were used, and never while in use. */
static void test_ids_rise(void **state)
{
	struct world w;
	uint32_t last = 0;

	world_init(&w);
	for (int i = 0; i < 100; i++) {
		struct plan_rows *rows;

		make_service(&w.m, "shop/web", "10.96.0.1", "http:TCP:80");
		rows = world_sync(&w, "shop", "web");
		assert_true(rows->pools.v[0].id > last);
		last = rows->pools.v[0].id;
		drop_service(&w.m, "shop/web");
		world_sync(&w, "shop", "web");
	}
	world_fini(&w);
}

/* No id is free: this is found without a search, for each of many pools. */
static void test_ids_exhausted(void **state)
{
	struct plan_rows rows = { 0 };
	uint64_t begin = thread_cpu_ns();
	uint64_t took;
	struct world w;
	uint32_t n = 0;

	world_init(&w);
	while (plan_id_take(&w.p, IPFAM_V4) != 0)
		n++;
	took = thread_cpu_ns() - begin;
	assert_int_equal(n, PLAN_POOL_ID_MAX);
	begin = thread_cpu_ns();
	for (int i = 0; i < 20000; i++)
		assert_int_equal(plan_id_take(&w.p, IPFAM_V4), 0);
	assert_true(thread_cpu_ns() - begin < 20 * took);
	*vec_push(&rows.pools) = (struct plan_pool){ .fam = IPFAM_V4, .id = 1000 };
	plan_ids_free(&w.p, &rows, NULL, NULL);
	assert_int_equal(plan_id_take(&w.p, IPFAM_V4), 1000);
	assert_int_equal(plan_id_take(&w.p, IPFAM_V4), 0);
	vec_fini(&rows.pools);
	world_fini(&w);
}

static struct plan_rows *adopting_rows(struct world *w, uint32_t id)
{
	struct plan_rows *rows = plan_rows_build(&w->p, model_find_text(&w->m, "shop", "web"));

	assert_true(plan_id_adopt(&w->p, rows, &rows->pools.v[0], id));
	rows->pools.v[0].id = id;
	return rows;
}

/*
 * Frontends in the kernel lead to a reserved id until the sweep: after the rows that adopted it are
 * rejected, only the next rows of the service can adopt it, and no other pool gets it.
 */
static void test_reserved_id_rejected(void **state)
{
	struct world w;
	struct plan_rows *rows;

	world_init(&w);
	make_service(&w.m, "shop/web", "10.96.0.1", "http:TCP:80");
	make_service(&w.m, "shop/api", "10.96.0.2", "http:TCP:80");
	plan_id_reserve(&w.p, IPFAM_V4, 7);
	rows = adopting_rows(&w, 7);
	plan_rows_reject(&w.p, rows->svc, rows);
	assert_int_not_equal(world_sync(&w, "shop", "api")->pools.v[0].id, 7);
	rows = adopting_rows(&w, 7);
	plan_rows_accept(&w.p, rows->svc, rows);
	assert_false(plan_id_adopt(&w.p, rows, &rows->pools.v[0], 7));
	drop_service(&w.m, "shop/web");
	world_sync(&w, "shop", "web");
	plan_ids_release(&w.p);
	assert_int_equal(w.p.ids[IPFAM_V4].next, 9);
	assert_false(bit_is_set(w.p.ids[IPFAM_V4].used, 7));
	assert_true(bit_is_set(w.p.ids[IPFAM_V4].used, 8)); /* shop/api */
	world_fini(&w);
}

/* Rows of a common service are allocated in their final size: shrinking leaves holes in the heap.
 */
static void test_rows_fit(void **state)
{
	struct plan_rows *rows;
	struct world w;

	world_init(&w);
	make_service(&w.m, "shop/web", "10.96.0.1", "http:TCP:80");
	make_slice(&w.m, "shop/web-1", "web", "http:TCP:8080", "10.1.0.1 10.1.0.2");
	rows = plan_rows_build(&w.p, model_find_text(&w.m, "shop", "web"));
	assert_int_equal(rows->pools.cap, 1);
	assert_int_equal(rows->frontends.cap, 1);
	assert_int_equal(rows->pools.v[0].backends.cap, 2);
	plan_rows_reject(&w.p, rows->svc, rows);
	world_fini(&w);
}

/* A pool without a slot that differs is not divided: otherwise its pieces would never end. */
static void test_between_equal(void **state)
{
	struct plan p = { .traits = &traits };
	struct plan_pool was = { .port_name = name_get_str("p"), .tuning = 1 };
	struct plan_pool will = { .port_name = name_get_str("p"), .tuning = 2 };
	struct plan_between b = { .p = &p, .was = &was, .will = &will, .work = 1, .max = 24 };
	struct plan_pool between;

	(void)state;
	for (uint16_t i = 0; i < 2000; i++)
		*vec_push(&was.backends) = (struct plan_backend){ .port = i };
	vec_for_each (x, &was.backends)
		*vec_push(&will.backends) = *x;
	assert_false(plan_pool_between(NULL, &b));
	assert_true(b.cost > b.max);
	for (int n = 0; n < 2; n++) { /* the first piece has the only slot that differs */
		will.backends.v[7].port = 9999;
		b.work = 1;
		assert_int_equal(plan_pool_between(&between, &b), n == 0);
		if (n > 0)
			break;
		plan_pool_fini(&was);
		was = between;
	}
	plan_pool_fini(&was);
	plan_pool_fini(&will);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_dual_stack),
		cmocka_unit_test(test_shared_affinity),
		cmocka_unit_test(test_shared_affinity_repaired),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_conflict),
		cmocka_unit_test(test_loser_goes),
		cmocka_unit_test(test_owner_changes),
		cmocka_unit_test(test_next_claimants),
		cmocka_unit_test(test_claimed_by_many),
		cmocka_unit_test(test_large_by_frontends),
		cmocka_unit_test(test_large_by_slices),
		cmocka_unit_test(test_steps_count_slices),
		cmocka_unit_test(test_steps_count_weights),
		cmocka_unit_test(test_weight_slots),
		cmocka_unit_test(test_annotations_work),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_slots_random),
		cmocka_unit_test(test_prefixes_are_safe),
		cmocka_unit_test(test_ids_rise),
		cmocka_unit_test(test_ids_exhausted),
		cmocka_unit_test(test_reserved_id_rejected),
		cmocka_unit_test(test_rows_fit),
		cmocka_unit_test(test_between_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
