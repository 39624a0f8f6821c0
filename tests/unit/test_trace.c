/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/trace: each path of a first packet, and its reason; a trace and the rows of a model
 * always agree.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/trace.h"
#include "mock_plane.h"
#include "objects.h"

static const struct plan_traits traits = { .pool_class = mock_pool_class };

struct world {
	struct model m;
	struct plan p;
};

/* Node n1 in zone a, 192.0.2.1; pods are 10.0.0.0/8, services 10.96.0.0/16 and fd96::/112. */
static void world_init_with(struct world *w, enum detect_local detect)
{
	struct ip_addr addrs[] = { test_addr("192.0.2.1"), test_addr("192.0.2.9"),
				   test_addr("2001:db8::1") };

	*w = (struct world){ 0 };
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	w->m.config.detect_local = detect;
	strcpy(w->m.config.detect_ifname, "br0");
	*vec_push(&w->m.config.cluster_cidrs) = test_prefix("10.0.0.0/8");
	*vec_push(&w->m.config.cluster_cidrs) = test_prefix("fd00::/64");
	*vec_push(&w->m.config.service_cidrs) = test_prefix("172.30.0.0/16");
	*vec_push(&w->m.config.service_cidrs) = test_prefix("fd96::/112");
	model_configured(&w->m);
	model_put_host_addrs(&w->m, addrs, ARRAY_SIZE(addrs), 0, 1);
	model_put_node(&w->m,
		       test_node("n1", "zone=a addr=192.0.2.1 addr=2001:db8::1 pods=10.0.1.0/24"),
		       1);
	plan_init(&w->p, &w->m, &traits);
}

static void world_init(struct world *w)
{
	world_init_with(w, DETECT_LOCAL_CLUSTER_CIDR);
}

static void world_fini(struct world *w)
{
	plan_fini(&w->p);
	model_fini(&w->m);
	assert_int_equal(name_count(), 0);
}

static void put(struct world *w, const char *name, const char *service, const char *slice)
{
	model_put_service(&w->m, test_service(name, service), 1);
	if (slice != NULL)
		model_put_slice(&w->m, test_slice(name, strchr(name, '/') + 1, slice), 1);
}

static void sync_all(struct world *w)
{
	for (int pass = 0; pass < 2; pass++)
		list_for_each (l, &w->m.all) {
			struct svc *svc = list_entry(l, struct svc, all);
			struct plan_displaced displaced = { 0 };
			struct plan_rows *rows = plan_rows_build(&w->p, svc);

			if (rows != NULL) {
				plan_rows_settle(&w->p, rows, &displaced);
				plan_rows_number(&w->p, rows);
			}
			plan_rows_accept(&w->p, svc, rows);
			vec_fini(&displaced.svcs);
		}
}

static void trace(struct plan_trace *t, struct world *w, const char *src, const char *dst,
		  unsigned int port, uint8_t proto)
{
	struct plan_trace_query q = { .dst = test_addr(dst),
				      .port = (uint16_t)port,
				      .proto = proto };

	if (strncmp(src, "pod ", 4) == 0)
		q.src_pod = name_get_str(src + 4);
	else if (strcmp(src, "host") != 0)
		q.src = test_addr(src);
	plan_trace_init(t, &w->p, &q);
	list_for_each (l, &w->m.all)
		plan_trace_visit(t, list_entry(l, struct svc, all));
	plan_trace_decide(t);
}

/* "balance shop/web cluster masq: 10.0.1.1:8080 10.0.1.2:8080(not ready)" */
static void say(struct str *out, const struct plan_trace *t)
{
	static const char *const masq[] = { "pod",     "no-detector", "keeps",
					    "direct",  "to-others",   "all",
					    "not-pod", "external",    "this-host" };

	str_printf(out, "%s%s %s/%d",
		   t->is_host  ? "host"
		   : t->is_pod ? "pod"
			       : "outside",
		   t->is_assumed ? "?" : "",
		   t->verdict == PLAN_VERDICT_UNSET ? "untouched" : plan_verdict_text(t->verdict),
		   (int)t->why);
	if (t->ns != NULL)
		str_printf(out, " %s/%s %s%s %s", t->ns->text, t->name->text,
			   plan_scope_text(t->scope), t->is_inside ? "(inside)" : "",
			   masq[t->masq]);
	str_puts(out, ":");
	vec_for_each (ep, &t->endpoints) {
		char text[IP_ENDPOINT_TEXT_MAX];

		str_printf(out, " %s", ip_endpoint_text(&ep->from->addr, ep->port, text));
		if (ep->why != NULL)
			str_printf(out, "(%s)", ep->why);
		else if (ep->is_masqueraded)
			str_puts(out, "*");
	}
	vec_for_each (o, &t->others)
		str_printf(out, "; %d %s/%s %s", o->relation, o->ns->text, o->name->text,
			   plan_frontend_kind_text(o->kind));
}

#define OUTSIDE "203.0.113.9"
#define POD "10.0.1.13"
#define FAR_POD "10.0.2.13"

static const struct {
	const char *what;
	const char *service; /* shop/web */
	const char *slice;
	const char *src;
	const char *dst;
	unsigned int port;
	uint8_t proto;
	const char *want;
} cases[] = {
	{ "outside client to a cluster IP", "ip=172.30.0.1 port=http:80",
	  "|http:8080|1 rs @n1;2 rs @n2", OUTSIDE, "172.30.0.1", 80, L4PROTO_TCP,
	  "outside balance/1 shop/web cluster not-pod: 10.0.1.1:8080* 10.0.1.2:8080*" },
	{ "a pod keeps its address (MASQ-13)", "ip=172.30.0.1 port=http:80",
	  "|http:8080|1 rs @n1;2 rs @n2", POD, "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.1:8080 10.0.1.2:8080" },
	{ "a pod that may meet itself (MASQ-09)", "ip=172.30.0.1 port=http:80",
	  "|http:8080|1 rs @n1;2 rs @n2", "10.0.1.1", "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.1:8080* 10.0.1.2:8080" },
	{ "this host", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs @n1", "host", "172.30.0.1",
	  80, L4PROTO_TCP, "host balance/1 shop/web cluster not-pod: 10.0.1.1:8080*" },
	{ "no endpoint (REJ-01)", "ip=172.30.0.1 port=http:80", NULL, POD, "172.30.0.1", 80,
	  L4PROTO_TCP, "pod reject/2 shop/web cluster pod:" },
	{ "not ready", "ip=172.30.0.1 port=http:80", "|http:8080|1 @n1;2 rs;3 t", POD, "172.30.0.1",
	  80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.2:8080 10.0.1.1:8080(not ready) "
	  "10.0.1.3:8080(terminating, no longer serving)" },
	{ "terminating while others are ready", "ip=172.30.0.1 port=http:80",
	  "|http:8080|1 st;2 rs", POD, "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.2:8080 "
	  "10.0.1.1:8080(terminating, others are ready)" },
	{ "other zones", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs +b;2 rs +a", POD,
	  "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.2:8080 "
	  "10.0.1.1:8080(hinted for other zones)" },
	{ "other nodes", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs %n2;2 rs %n1", POD,
	  "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.2:8080 "
	  "10.0.1.1:8080(hinted for other nodes)" },
	{ "a slice without the port's name", "ip=172.30.0.1 port=http:80", "|web:8080|1 rs", POD,
	  "172.30.0.1", 80, L4PROTO_TCP,
	  "pod reject/2 shop/web cluster pod: "
	  "10.0.1.1:0(its slice has no port of this name and protocol)" },
	{ "a slice with the port for another protocol", "ip=172.30.0.1 port=http:80",
	  "|http/UDP:8080|1 rs", POD, "172.30.0.1", 80, L4PROTO_TCP,
	  "pod reject/2 shop/web cluster pod: "
	  "10.0.1.1:0(its slice has no port of this name and protocol)" },
	{ "internal policy Local, endpoint here", "ip=172.30.0.1 port=http:80 itp",
	  "|http:8080|1 rs @n1;2 rs @n2", FAR_POD, "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web local pod: 10.0.1.1:8080 10.0.1.2:8080(not on this node)" },
	{ "internal policy Local, none here (REJ-02)", "ip=172.30.0.1 port=http:80 itp",
	  "|http:8080|2 rs @n2", POD, "172.30.0.1", 80, L4PROTO_TCP,
	  "pod drop/3 shop/web local pod: 10.0.1.2:8080(not on this node)" },
	{ "node port, policy Cluster", "type=NodePort ip=172.30.0.1 port=http:80:30080",
	  "|http:8080|2 rs @n2", OUTSIDE, "192.0.2.1", 30080, L4PROTO_TCP,
	  "outside balance/1 shop/web cluster external: 10.0.1.2:8080*" },
	{ "external policy Local from outside, endpoint here (POL-25)",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080 etp",
	  "|http:8080|1 rs @n1;2 rs @n2", OUTSIDE, "198.51.100.1", 80, L4PROTO_TCP,
	  "outside balance/1 shop/web local keeps: 10.0.1.1:8080 "
	  "10.0.1.2:8080(not on this node)" },
	{ "external policy Local from a pod",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080 etp",
	  "|http:8080|1 rs @n1;2 rs @n2", POD, "198.51.100.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster(inside) keeps: 10.0.1.1:8080 10.0.1.2:8080" },
	{ "external policy Local from this host (MASQ-08)",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080 etp",
	  "|http:8080|2 rs @n2", "192.0.2.1", "198.51.100.1", 80, L4PROTO_TCP,
	  "host balance/1 shop/web cluster(inside) this-host: 10.0.1.2:8080*" },
	{ "external policy Local, none here (REJ-03)",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080 etp",
	  "|http:8080|2 rs @n2", OUTSIDE, "198.51.100.1", 80, L4PROTO_TCP,
	  "outside drop/4 shop/web local keeps: 10.0.1.2:8080(not on this node)" },
	{ "external policy Local, none anywhere: refused for everybody",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080 etp", NULL, OUTSIDE,
	  "198.51.100.1", 80, L4PROTO_TCP, "outside reject/2 shop/web local keeps:" },
	{ "source ranges, inside",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80 range=203.0.113.0/24",
	  "|http:8080|1 rs", OUTSIDE, "198.51.100.1", 80, L4PROTO_TCP,
	  "outside balance/1 shop/web cluster external: 10.0.1.1:8080*" },
	{ "source ranges, a pod is not in them (REJ-11)",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80 range=203.0.113.0/24",
	  "|http:8080|1 rs", POD, "198.51.100.1", 80, L4PROTO_TCP,
	  "pod drop/5 shop/web cluster external: 10.0.1.1:8080*" },
	{ "source ranges that cannot be read (SVC-23)",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80 bad", "|http:8080|1 rs",
	  OUTSIDE, "198.51.100.1", 80, L4PROTO_TCP,
	  "outside drop/5 shop/web cluster external: 10.0.1.1:8080*" },
	{ "ranges do not guard the node port (REJ-13)",
	  "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080 "
	  "range=198.18.0.0/24",
	  "|http:8080|1 rs", OUTSIDE, "192.0.2.1", 30080, L4PROTO_TCP,
	  "outside balance/1 shop/web cluster external: 10.0.1.1:8080*" },
	{ "ranges guard a node port that is also the VIP's (SVC-24)",
	  "type=LoadBalancer ip=172.30.0.1 vip=192.0.2.1 port=http:80:80 range=198.18.0.0/24",
	  "|http:8080|1 rs", OUTSIDE, "192.0.2.1", 80, L4PROTO_TCP,
	  "outside drop/5 shop/web cluster external: 10.0.1.1:8080*" },
	{ "another port of a cluster IP (REJ-05)", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs",
	  POD, "172.30.0.1", 81, L4PROTO_TCP, "pod reject/6:; 6 shop/web ClusterIP" },
	{ "another protocol of a cluster IP (REJ-05)", "ip=172.30.0.1 port=http:80",
	  "|http:8080|1 rs", POD, "172.30.0.1", 80, L4PROTO_UDP,
	  "pod reject/6:; 6 shop/web ClusterIP" },
	{ "an unallocated cluster IP (REJ-06)", "ip=172.30.0.1 port=http:80", NULL, POD,
	  "172.30.0.2", 80, L4PROTO_TCP, "pod drop/7:" },
	{ "left to the balancer (SVC-16)",
	  "type=LoadBalancer ip=172.30.0.1 proxy=198.51.100.1 port=http:80", NULL, POD,
	  "198.51.100.1", 80, L4PROTO_TCP, "pod untouched/8:; 1 shop/web LoadBalancer" },
	{ "left to another proxy (SEL-03)", "ip=172.31.0.1 port=http:80 label", NULL, POD,
	  "172.31.0.1", 80, L4PROTO_TCP, "pod untouched/10:; 3 shop/web ClusterIP" },
	{ "left to another proxy, in a service CIDR", "ip=172.30.0.1 port=http:80 label", NULL, POD,
	  "172.30.0.1", 80, L4PROTO_TCP, "pod drop/7:; 3 shop/web ClusterIP" },
	{ "another port of an external IP", "ip=172.30.0.1 ext=198.51.100.7 port=http:80", NULL,
	  POD, "198.51.100.7", 443, L4PROTO_TCP, "pod untouched/11:; 4 shop/web ExternalIP" },
	{ "a node port on an address that serves none (REJ-14)",
	  "type=NodePort ip=172.30.0.1 port=http:80:30080", NULL, OUTSIDE, "192.0.2.9", 30080,
	  L4PROTO_TCP, "outside untouched/12:; 5 shop/web NodePort" },
	{ "a node port on the loopback address (SVC-11)",
	  "type=NodePort ip=172.30.0.1 port=http:80:30080", NULL, "127.0.0.1", "127.0.0.1", 30080,
	  L4PROTO_TCP, "host untouched/12:; 5 shop/web NodePort" },
	{ "no node port", "type=NodePort ip=172.30.0.1 port=http:80:30080", NULL, OUTSIDE,
	  "192.0.2.1", 30081, L4PROTO_TCP, "outside untouched/13:" },
	{ "the address of an endpoint", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs", POD,
	  "10.0.1.1", 8080, L4PROTO_TCP, "pod untouched/14:" },
	{ "nobody's address", "ip=172.30.0.1 port=http:80", NULL, POD, "198.51.100.77", 80,
	  L4PROTO_TCP, "pod untouched/15:" },
	{ "IPv6", "ip=172.30.0.1 ip=fd96::1 port=http:80", "v6|http:8080|1 rs", "fd00::99",
	  "fd96::1", 80, L4PROTO_TCP, "pod balance/1 shop/web cluster pod: [fd00::1]:8080" },
	{ "a pod by its name", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs @n2 ~web-1;2 rs",
	  "pod web-1", "172.30.0.1", 80, L4PROTO_TCP,
	  "pod balance/1 shop/web cluster pod: 10.0.1.1:8080* 10.0.1.2:8080" },
};

/* Pods of one name: the answer is about one of them, in either order of the services. */
static void test_pods_of_one_name(void **state)
{
	static const struct {
		const char *ns; /* of the second pod */
		bool is_ambiguous;
	} pairs[] = { { "shop", false }, { "test", true } };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(pairs); i++) {
		const char *ns[2] = { "shop", pairs[i / 2].ns };
		static const char *const slices[2] = { "|http:8080|10.0.1.1 rs @n2 ~db-0",
						       "|http:8080|10.0.1.7 rs @n1 ~db-0" };
		struct world w;
		struct plan_trace t;
		char key[2][16];

		print_message("    %s, order %zu\n", ns[1], i % 2);
		world_init(&w);
		for (size_t k = 0; k < 2; k++) {
			size_t which = k ^ (i % 2);

			(void)snprintf(key[k], sizeof(key[k]), "%s/s%zu", ns[which], which);
			put(&w, key[k],
			    which == 0 ? "ip=172.30.0.1 port=http:80"
				       : "ip=172.30.0.2 port=http:80",
			    slices[which]);
		}
		trace(&t, &w, "pod db-0", "172.30.0.1", 80, L4PROTO_TCP);
		assert_int_equal(t.query.src.bytes[3], 1);
		assert_string_equal(t.pod, "db-0");
		assert_string_equal(t.pod_node->text, "n2");
		assert_false(t.is_pod_of_this_node);
		assert_int_equal(t.is_ambiguous, pairs[i / 2].is_ambiguous);
		plan_trace_fini(&t);
		world_fini(&w);
	}
}

static const struct {
	const char *what;
	const char *service;
	const char *src;
	const char *want;
} preserved[] = {
	{ "--preserve-local-source: policy Cluster, from outside (MASQ-07)", "", OUTSIDE,
	  "outside balance/1 shop/web cluster to-others: 10.0.1.1:8080 10.0.1.2:8080*" },
	{ "... from a pod", "", POD,
	  "pod balance/1 shop/web cluster to-others: 10.0.1.1:8080 10.0.1.2:8080*" },
	{ "... from itself", "", "10.0.1.1",
	  "pod balance/1 shop/web cluster to-others: 10.0.1.1:8080* 10.0.1.2:8080*" },
	{ "... from this host", "", "192.0.2.1",
	  "host balance/1 shop/web cluster external: 10.0.1.1:8080* 10.0.1.2:8080*" },
	{ "... policy Local", " etp", OUTSIDE,
	  "outside balance/1 shop/web local keeps: 10.0.1.1:8080 "
	  "10.0.1.2:8080(not on this node)" },
};

static void test_preserve_local_source(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(preserved); i++) {
		struct world w;
		struct plan_trace t;
		struct str out = { 0 };
		char text[128];

		print_message("    %s\n", preserved[i].what);
		snprintf(text, sizeof(text),
			 "type=LoadBalancer ip=172.30.0.1 vip=198.51.100.1 port=http:80:30080%s",
			 preserved[i].service);
		world_init(&w);
		w.m.config.preserves_local_source = true;
		put(&w, "shop/web", text, "|http:8080|1 rs @n1;2 rs @n2");
		trace(&t, &w, preserved[i].src, "198.51.100.1", 80, L4PROTO_TCP);
		say(&out, &t);
		assert_string_equal(out.text, preserved[i].want);
		str_fini(&out);
		plan_trace_fini(&t);
		world_fini(&w);
	}
}

/* MASQ-07 with other services: shop/web has the address of an endpoint, and the cluster IP. */
static void test_preserve_with_others(void **state)
{
	static const struct {
		const char *other; /* shop/web */
		const char *node;  /* of 10.0.1.1 in the slice of shop/vip */
		const char *src;
		const char *dst;
		const char *want;
	} rows[] = {
		{ "", "", OUTSIDE, "198.51.100.1",
		  "outside balance/1 shop/vip cluster to-others: 10.0.1.1:8080 10.0.1.2:8080*" },
		{ " label", "", OUTSIDE, "198.51.100.1",
		  "outside balance/1 shop/vip cluster to-others: 10.0.1.1:8080* 10.0.1.2:8080*" },
		{ "", " @n1", OUTSIDE, "172.30.0.1",
		  "outside balance/1 shop/vip cluster not-pod: 10.0.1.1:8080* 10.0.1.2:8080*; "
		  "6 shop/web ClusterIP" },
		{ "", " @n1", POD, "172.30.0.1",
		  "pod balance/1 shop/vip cluster to-others: 10.0.1.1:8080 10.0.1.2:8080*; "
		  "6 shop/web ClusterIP" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world w;
		struct plan_trace t;
		struct str out = { 0 };
		char web[64], slice[64];

		(void)snprintf(web, sizeof(web), "ip=172.30.0.1 port=http:80%s", rows[i].other);
		(void)snprintf(slice, sizeof(slice), "|http:8080|1 rs%s;2 rs", rows[i].node);
		world_init(&w);
		w.m.config.preserves_local_source = true;
		put(&w, "shop/web", web, "|http:8080|1 rs @n1");
		put(&w, "shop/vip", "ip=172.30.0.2 vip=198.51.100.1 ext=172.30.0.1 port=http:81",
		    slice);
		sync_all(&w);
		trace(&t, &w, rows[i].src, rows[i].dst, 81, L4PROTO_TCP);
		say(&out, &t);
		assert_string_equal(out.text, rows[i].want);
		str_fini(&out);
		plan_trace_fini(&t);
		world_fini(&w);
	}
}

/* A packet to an address of this host passes no chain that could masquerade it. */
static void test_host_network(void **state)
{
	static const struct {
		const char *src;
		const char *want;
	} sources[] = {
		{ OUTSIDE, "outside balance/1 shop/web cluster external: 192.0.2.1:8080" },
		{ "192.0.2.1", "host balance/1 shop/web cluster external: 192.0.2.1:8080*" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, "shop/web", "ip=172.30.0.1 vip=198.51.100.1 port=http:80",
	    "|http:8080|192.0.2.1 rs @n1");
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct plan_trace t;
		struct str out = { 0 };

		trace(&t, &w, sources[i].src, "198.51.100.1", 80, L4PROTO_TCP);
		say(&out, &t);
		assert_string_equal(out.text, sources[i].want);
		str_fini(&out);
		plan_trace_fini(&t);
	}
	world_fini(&w);
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world w;
		struct plan_trace t;
		struct str out = { 0 };

		print_message("    %s\n", cases[i].what);
		world_init(&w);
		put(&w, "shop/web", cases[i].service, cases[i].slice);
		trace(&t, &w, cases[i].src, cases[i].dst, cases[i].port, cases[i].proto);
		say(&out, &t);
		assert_string_equal(out.text, cases[i].want);
		str_fini(&out);
		plan_trace_fini(&t);
		world_fini(&w);
	}
}

/* The endpoints of a trace are read later, when their slice may have changed. */
static void test_slice_changes(void **state)
{
	static const char service[] = "ip=172.30.0.1 port=http:80";
	struct world w;
	struct plan_trace t;
	struct str out = { 0 };

	(void)state;
	world_init(&w);
	put(&w, "shop/web", service, "|http:8080|10.0.1.1 rs ~web-a;10.0.1.2 t ~web-b");
	trace(&t, &w, POD, "172.30.0.1", 80, L4PROTO_TCP);
	put(&w, "shop/web", service, "|http:9090|10.0.1.3 rs");
	say(&out, &t);
	assert_string_equal(out.text, "pod balance/1 shop/web cluster pod: 10.0.1.1:8080 "
				      "10.0.1.2:8080(terminating, no longer serving)");
	assert_string_equal(t.endpoints.v[0].from->pod, "web-a");
	assert_string_equal(t.endpoints.v[1].from->pod, "web-b");
	str_fini(&out);
	plan_trace_fini(&t);
	world_fini(&w);
}

/* Detection by interface does not apply to an address alone. */
static void test_interface_detector(void **state)
{
	static const struct {
		const char *src;
		const char *want;
	} sources[] = {
		{ "10.0.1.13", "pod? balance/1 shop/web cluster pod: 10.0.9.9:8080" },
		{ "10.0.9.9", "pod? balance/1 shop/web cluster pod: 10.0.9.9:8080*" },
		{ "10.0.2.1", "outside? balance/1 shop/web cluster not-pod: 10.0.9.9:8080*" },
		{ "192.0.2.9", "host balance/1 shop/web cluster not-pod: 10.0.9.9:8080*" },
	};
	struct world w;

	(void)state;
	world_init_with(&w, DETECT_LOCAL_BRIDGE);
	put(&w, "shop/web", "ip=172.30.0.1 port=http:80", "|http:8080|10.0.9.9 rs @n1");
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct plan_trace t;
		struct str out = { 0 };

		trace(&t, &w, sources[i].src, "172.30.0.1", 80, L4PROTO_TCP);
		say(&out, &t);
		assert_string_equal(out.text, sources[i].want);
		str_fini(&out);
		plan_trace_fini(&t);
	}
	world_fini(&w);
}

/* SEL-14: the older service has the frontend, the others are named. */
static void test_conflict(void **state)
{
	struct world w;
	struct plan_trace t;
	struct str out = { 0 };

	(void)state;
	world_init(&w);
	put(&w, "a/young", "ip=172.30.0.1 ext=198.51.100.7 port=http:80 created=200",
	    "|http:8080|1 rs");
	put(&w, "b/old", "ip=172.30.0.2 ext=198.51.100.7 port=http:80 created=100",
	    "|http:8080|2 rs");
	trace(&t, &w, OUTSIDE, "198.51.100.7", 80, L4PROTO_TCP);
	say(&out, &t);
	assert_string_equal(out.text, "outside balance/1 b/old cluster external: 10.0.1.2:8080*; 0 "
				      "a/young ExternalIP");
	str_fini(&out);
	plan_trace_fini(&t);
	world_fini(&w);
}

/* Two slices contradict each other: the entry with precedence is evaluated, the other one named. */
static void test_twin(void **state)
{
	struct world w;
	struct plan_trace t;
	struct str out = { 0 };

	(void)state;
	world_init(&w);
	put(&w, "shop/web", "ip=172.30.0.1 port=http:80", "version=5|http:8080|1 rs @n1 ~web-1");
	model_put_slice(&w.m, test_slice("shop/old", "web", "version=4|http:8080|1 @n1 ~web-0"), 1);
	model_put_slice(&w.m, test_slice("shop/none", "web", "|web:8080|2 @n1"), 1);
	trace(&t, &w, POD, "172.30.0.1", 80, L4PROTO_TCP);
	say(&out, &t);
	assert_string_equal(out.text,
			    "pod balance/1 shop/web cluster pod: 10.0.1.1:8080 10.0.1.1:8080("
			    "another entry of the same address and port counts) 10.0.1.2:0("
			    "its slice has no port of this name and protocol)");
	vec_for_each (ep, &t.endpoints)
		assert_true(ep->is_local);
	str_fini(&out);
	plan_trace_fini(&t);
	world_fini(&w);
}

/* Programmed state is compared with desired state. */
static void test_held(void **state)
{
	struct world w;
	struct plan_trace t;

	(void)state;
	world_init(&w);
	put(&w, "shop/web", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs;2 rs");
	trace(&t, &w, POD, "172.30.0.1", 80, L4PROTO_TCP);
	assert_int_equal(t.programmed, PLAN_TRACE_PROGRAMMED_NOT);
	assert_int_equal(t.pool_id, 0);
	plan_trace_fini(&t);
	sync_all(&w);
	trace(&t, &w, POD, "172.30.0.1", 80, L4PROTO_TCP);
	assert_int_equal(t.programmed, PLAN_TRACE_PROGRAMMED_SAME);
	assert_int_equal(t.pool_id, 1);
	plan_trace_fini(&t);
	put(&w, "shop/web", "ip=172.30.0.1 port=http:80", "|http:8080|1 rs;3 rs");
	trace(&t, &w, POD, "172.30.0.1", 80, L4PROTO_TCP);
	assert_int_equal(t.programmed, PLAN_TRACE_PROGRAMMED_OTHER);
	plan_trace_fini(&t);
	world_fini(&w);
}

/* Many services have the address: a limited number is named, equal in any order. */
static void test_others_are_bounded(void **state)
{
	struct world w;
	struct plan_trace t;
	char name[32];
	char text[64];

	(void)state;
	world_init(&w);
	for (int i = 99; i >= 0; i--) {
		(void)snprintf(name, sizeof(name), "shop/s%02d", i);
		(void)snprintf(text, sizeof(text), "ip=172.30.1.%d ext=198.51.100.7 port=:%d", i,
			       1000 + i);
		put(&w, name, text, NULL);
	}
	trace(&t, &w, OUTSIDE, "198.51.100.7", 80, L4PROTO_TCP);
	assert_int_equal(t.n_others[PLAN_TRACE_HAS_ADDRESS], 100);
	assert_int_equal(t.others.n, PLAN_TRACE_OTHERS_MAX);
	for (size_t i = 0; i < t.others.n; i++) {
		(void)snprintf(name, sizeof(name), "s%02zu", i);
		assert_string_equal(t.others.v[i].name->text, name);
	}
	plan_trace_fini(&t);
	world_fini(&w);
}

/* --- a trace and the rows agree --- */

static const char *const random_services[] = {
	"ip=172.30.0.%d port=http:80 port=dns/UDP:53",
	"ip=172.30.0.%d port=http:80 itp",
	"type=NodePort ip=172.30.0.%d port=http:80:3008%d etp",
	"type=LoadBalancer ip=172.30.0.%d ext=198.51.100.7 port=http:80:3008%d",
	"type=LoadBalancer ip=172.30.0.%d vip=198.51.100.7 port=http:80 range=10.0.0.0/8",
	"type=LoadBalancer ip=172.30.0.%d vip=198.51.100.8 port=http:80:3008%d etp itp",
	"type=LoadBalancer ip=172.30.0.%d vip=192.0.2.1 port=http:80:80 range=10.0.0.0/8 etp",
	"ip=172.30.0.%d port=http:80 label",
};

static const char *const random_slices[] = {
	"|http:8080 dns/UDP:53|1 rs @n1;2 rs @n2",
	"|http:8080|1 st @n1;2 s @n2",
	"|http:8080|3 rs @n2",
	"|http:8080|1 rs @n1 +a;2 rs @n2 +b",
	"|web:8080|1 rs @n1",
	"|http:8080|1 t;2",
};

static uint32_t rnd(uint32_t *state, uint32_t n)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % n;
}

static void random_world(struct world *w, uint32_t *seed)
{
	for (int i = 1; i <= 6; i++) {
		char name[32];
		char text[128];

		(void)snprintf(name, sizeof(name), "shop/s%d", i);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(text, sizeof(text),
			       random_services[rnd(seed, ARRAY_SIZE(random_services))], i,
			       (int)rnd(seed, 3));
#pragma GCC diagnostic pop
		put(w, name, text,
		    rnd(seed, 5) ? random_slices[rnd(seed, ARRAY_SIZE(random_slices))] : NULL);
	}
	sync_all(w);
}

static const struct plan_pool *pool_by_id(const struct plan_rows *rows, uint32_t id)
{
	return plan_rows_pool(rows, IPFAM_V4, id);
}

static void check_frontend(struct world *w, const struct svc *svc, const struct plan_frontend *f,
			   const char *src, bool is_inside)
{
	const struct plan_rows *rows = svc->rows;
	const struct plan_target *target = f->is_split && is_inside ? &f->inside : &f->target;
	const struct plan_pool *pool = pool_by_id(rows, target->pool_id);
	struct ip_addr from = test_addr(src);
	char text[IP_TEXT_MAX];
	struct plan_trace t;
	bool is_let_in = !f->is_guarded;

	trace(&t, w, src, ip_addr_text(&f->addr, text), f->port, f->proto);
	assert_ptr_equal(t.ns, svc->ns);
	assert_ptr_equal(t.name, svc->name);
	assert_int_equal(t.programmed, PLAN_TRACE_PROGRAMMED_SAME);
	vec_for_each (r, &pool_by_id(rows, f->target.pool_id)->ranges)
		is_let_in |= ip_prefix_contains(r, &from);
	if (!is_let_in) {
		assert_int_equal(t.verdict, PLAN_VERDICT_DROP);
	} else {
		assert_int_equal(t.verdict, target->verdict);
		assert_int_equal(t.pool_id, target->pool_id);
		assert_int_equal(t.n_used, pool->backends.n);
	}
	plan_trace_fini(&t);
}

static void test_agrees_with_rows(void **state)
{
	uint32_t seed = 7;
	size_t n = 0;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct world w;

		world_init(&w);
		random_world(&w, &seed);
		list_for_each (l, &w.m.all) {
			const struct svc *svc = list_entry(l, struct svc, all);
			const struct plan_rows *rows = svc->rows;

			for (size_t i = 0; rows != NULL && i < rows->frontends.n; i++) {
				check_frontend(&w, svc, &rows->frontends.v[i], OUTSIDE, false);
				check_frontend(&w, svc, &rows->frontends.v[i], POD, true);
				check_frontend(&w, svc, &rows->frontends.v[i], "192.0.2.1", true);
				n += 3;
			}
		}
		world_fini(&w);
	}
	assert_true(n > 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_preserve_local_source),
		cmocka_unit_test(test_preserve_with_others),
		cmocka_unit_test(test_pods_of_one_name),
		cmocka_unit_test(test_host_network),
		cmocka_unit_test(test_slice_changes),
		cmocka_unit_test(test_interface_detector),
		cmocka_unit_test(test_conflict),
		cmocka_unit_test(test_twin),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_others_are_bounded),
		cmocka_unit_test(test_agrees_with_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
