/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The node's environment: sections 3.3, 6.1, 16.2 and 1.5 of doc/behaviour.md. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/model.h"
#include "objects.h"

#define HOST "127.0.0.1 ::1 169.254.1.1 fe80::1 10.0.0.5 10.0.0.6 192.0.2.9 fd00::5 2001:db8::5"

struct env_case {
	const char *name;
	/* configuration */
	const char *bind;           /* --bind-address, of each family */
	const char *nodeport_cidrs; /* NULL: "primary" */
	enum detect_local detect;
	const char *cluster_cidrs;
	const char *service_cidrs;
	/* what is heard */
	bool is_node_awaited;
	const char *node; /* objects.h; NULL = none */
	const char *host;
	const char *cidr_objects[3];
	/* what follows */
	const char *node_ip; /* IPv4 and IPv6 */
	const char *nodeport_addrs;
	const char *detector; /* families, then CIDRs */
	const char *service_cidrs_all;
};

static const struct env_case env_cases[] = {
	{ "nothing known", .node_ip = "- -", .nodeport_addrs = "" },

	/* LIFE-12 to LIFE-16, T-159 */
	{ "LIFE-12, T-159: first of each family",
	  .node = "addr=10.0.0.5 addr=fd00::5 addr=10.0.0.6", .host = HOST,
	  .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "10.0.0.5 fd00::5" },
	{ "LIFE-12: IPv6 first", .node = "addr=fd00::5 addr=10.0.0.6 addr=10.0.0.5", .host = HOST,
	  .node_ip = "10.0.0.6 fd00::5", .nodeport_addrs = "10.0.0.6 fd00::5" },
	{ "SVC-09: a Node without IPv6 has no IPv6 node ports", .node = "addr=10.0.0.5",
	  .host = HOST, .node_ip = "10.0.0.5 -", .nodeport_addrs = "10.0.0.5" },
	{ "LIFE-14: bind address goes first", .bind = "192.0.2.9",
	  .node = "addr=10.0.0.5 addr=fd00::5", .host = HOST, .node_ip = "192.0.2.9 fd00::5",
	  .nodeport_addrs = "192.0.2.9 fd00::5" },
	{ "LIFE-14: bind addresses of both families", .bind = "192.0.2.9 2001:db8::5",
	  .node = "addr=10.0.0.5 addr=fd00::5", .host = HOST, .node_ip = "192.0.2.9 2001:db8::5",
	  .nodeport_addrs = "192.0.2.9 2001:db8::5" },
	{ "LIFE-14: 0.0.0.0 and :: have no effect",
	  .bind = "0.0.0.0 ::", .node = "addr=10.0.0.5 addr=fd00::5", .node_ip = "10.0.0.5 fd00::5",
	  .nodeport_addrs = "10.0.0.5 fd00::5" },
	{ "SVC-09, LIFE-15: a loopback bind address serves nobody", .bind = "127.0.0.1",
	  .node = "addr=10.0.0.5", .host = HOST, .node_ip = "127.0.0.1 -", .nodeport_addrs = "" },
	{ "no Node: the host's first addresses", .host = HOST, .node_ip = "10.0.0.5 fd00::5",
	  .nodeport_addrs = "10.0.0.5 fd00::5" },
	{ "LIFE-04: no Node yet: no guess", .is_node_awaited = true, .host = HOST,
	  .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "" },
	{ "LIFE-04, LIFE-14: no Node yet, but a bind address", .is_node_awaited = true,
	  .bind = "192.0.2.9", .host = HOST, .node_ip = "192.0.2.9 fd00::5",
	  .nodeport_addrs = "192.0.2.9" },
	{ "LIFE-04: no Node yet, but CIDRs", .is_node_awaited = true,
	  .nodeport_cidrs = "10.0.0.6/32", .host = HOST, .node_ip = "10.0.0.5 fd00::5",
	  .nodeport_addrs = "10.0.0.6" },
	{ "LIFE-04: the Node arrives before the end of its list", .is_node_awaited = true,
	  .node = "addr=10.0.0.6", .host = HOST, .node_ip = "10.0.0.6 -",
	  .nodeport_addrs = "10.0.0.6" },
	{ "LIFE-04: a Node without addresses yet: no guess", .is_node_awaited = true,
	  .node = "zone=a", .host = HOST, .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "" },
	{ "a manifest of a Node without addresses", .node = "zone=a", .host = HOST,
	  .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "10.0.0.5 fd00::5" },
	{ "LIFE-13: a host with nothing but loopback", .host = "127.0.0.1 ::1 fe80::1",
	  .node_ip = "- -", .nodeport_addrs = "" },

	/* SVC-06 to SVC-12, T-102 to T-105 */
	{ "SVC-11, T-102: a list with one address", .nodeport_cidrs = "10.0.0.6/32",
	  .node = "addr=10.0.0.5", .host = HOST, .node_ip = "10.0.0.5 -",
	  .nodeport_addrs = "10.0.0.6" },
	{ "SVC-11: a CIDR is resolved to the addresses in it", .nodeport_cidrs = "10.0.0.0/24",
	  .host = HOST, .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "10.0.0.5 10.0.0.6" },
	{ "SVC-07, T-103: each family its own", .nodeport_cidrs = "10.0.0.6/32 2001:db8::/32",
	  .host = HOST, .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "10.0.0.6 2001:db8::5" },
	{ "SVC-07: no CIDR of a family: none served", .nodeport_cidrs = "2001:db8::/32",
	  .host = HOST, .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "2001:db8::5" },
	{ "SVC-07: an empty list", .nodeport_cidrs = "", .host = HOST,
	  .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "" },
	{ "SVC-08, T-104: zero prefix with others", .nodeport_cidrs = "10.0.0.6/32 0.0.0.0/0",
	  .host = HOST, .node_ip = "10.0.0.5 fd00::5",
	  .nodeport_addrs = "10.0.0.5 10.0.0.6 169.254.1.1 192.0.2.9" },
	{ "SVC-08: zero prefixes of both families", .nodeport_cidrs = "0.0.0.0/0 ::/0",
	  .host = "10.0.0.6 10.0.0.5 ::1 2001:db8::5 127.0.0.1 fd00::5",
	  .node_ip = "10.0.0.6 2001:db8::5",
	  .nodeport_addrs = "10.0.0.5 10.0.0.6 2001:db8::5 fd00::5" },
	{ "SVC-11, T-105: loopback never", .nodeport_cidrs = "127.0.0.0/8 ::1/128 0.0.0.0/0",
	  .host = "127.0.0.1 127.0.0.2 ::1 10.0.0.5", .node_ip = "10.0.0.5 -",
	  .nodeport_addrs = "10.0.0.5" },
	{ "SVC-11: an address of no interface", .nodeport_cidrs = "10.9.9.9/32", .host = HOST,
	  .node_ip = "10.0.0.5 fd00::5", .nodeport_addrs = "" },
	{ "service addresses on another proxy's device", .nodeport_cidrs = "0.0.0.0/0",
	  .host = "10.0.0.5 | 10.96.0.1 fd00:96::1", .node_ip = "10.0.0.5 -",
	  .nodeport_addrs = "10.0.0.5" },
	{ "an address that two interfaces carry", .nodeport_cidrs = "10.0.0.0/8",
	  .host = "10.0.0.5 10.0.0.4 10.0.0.5", .node_ip = "10.0.0.5 -",
	  .nodeport_addrs = "10.0.0.4 10.0.0.5" },

	/* section 6.1 */
	{ "MASQ-01: no detector", .cluster_cidrs = "10.1.0.0/16", .node_ip = "- -",
	  .nodeport_addrs = "", .detector = "" },
	{ "ClusterCIDR: one family", .detect = DETECT_LOCAL_CLUSTER_CIDR,
	  .cluster_cidrs = "10.1.0.0/16", .node_ip = "- -", .nodeport_addrs = "",
	  .detector = "4 10.1.0.0/16" },
	{ "MASQ-03: all CIDRs of a family", .detect = DETECT_LOCAL_CLUSTER_CIDR,
	  .cluster_cidrs = "10.2.0.0/16 10.1.0.0/16 fd00:1::/64", .node = "pods=10.9.0.0/24",
	  .node_ip = "- -", .nodeport_addrs = "",
	  .detector = "46 10.1.0.0/16 10.2.0.0/16 fd00:1::/64" },
	{ "ClusterCIDR: contained and repeated ones", .detect = DETECT_LOCAL_CLUSTER_CIDR,
	  .cluster_cidrs = "10.1.2.0/24 10.1.0.0/16 10.1.0.0/16 10.1.255.0/24 10.2.0.0/16",
	  .node_ip = "- -", .nodeport_addrs = "", .detector = "4 10.1.0.0/16 10.2.0.0/16" },
	{ "ClusterCIDR: none given", .detect = DETECT_LOCAL_CLUSTER_CIDR, .node_ip = "- -",
	  .nodeport_addrs = "", .detector = "" },
	{ "NodeCIDR", .detect = DETECT_LOCAL_NODE_CIDR, .cluster_cidrs = "10.1.0.0/16",
	  .node = "pods=10.1.7.0/24 pods=fd00:1:7::/64", .node_ip = "- -", .nodeport_addrs = "",
	  .detector = "46 10.1.7.0/24 fd00:1:7::/64" },
	{ "NodeCIDR: no Node", .detect = DETECT_LOCAL_NODE_CIDR, .cluster_cidrs = "10.1.0.0/16",
	  .node_ip = "- -", .nodeport_addrs = "", .detector = "" },
	{ "BridgeInterface: both families", .detect = DETECT_LOCAL_BRIDGE,
	  .cluster_cidrs = "10.1.0.0/16", .node_ip = "- -", .nodeport_addrs = "",
	  .detector = "46" },
	{ "InterfaceNamePrefix: both families", .detect = DETECT_LOCAL_PREFIX, .node_ip = "- -",
	  .nodeport_addrs = "", .detector = "46" },

	/* section 1.5 */
	{ "IN-26, T-029: two objects, mixed families",
	  .cidr_objects = { "10.96.0.0/16 fd00::/112", "10.97.0.0/16" }, .node_ip = "- -",
	  .nodeport_addrs = "", .service_cidrs_all = "10.96.0.0/16 10.97.0.0/16 fd00::/112" },
	{ "IN-26: configuration and objects", .service_cidrs = "10.98.0.0/16",
	  .cidr_objects = { "10.96.0.0/16" }, .node_ip = "- -", .nodeport_addrs = "",
	  .service_cidrs_all = "10.96.0.0/16 10.98.0.0/16" },
	{ "IN-27: the same in several", .service_cidrs = "10.96.0.0/16",
	  .cidr_objects = { "10.96.0.0/16", "10.96.0.0/16" }, .node_ip = "- -",
	  .nodeport_addrs = "", .service_cidrs_all = "10.96.0.0/16" },
	{ "one inside another", .service_cidrs = "10.96.7.0/24",
	  .cidr_objects = { "10.96.0.0/12", "10.96.0.0/16 10.111.255.0/24 10.112.0.0/24" },
	  .node_ip = "- -", .nodeport_addrs = "",
	  .service_cidrs_all = "10.96.0.0/12 10.112.0.0/24" },
	{ "everything", .service_cidrs = "0.0.0.0/0 10.0.0.0/8 ::/0 fd00::/8", .node_ip = "- -",
	  .nodeport_addrs = "", .service_cidrs_all = "0.0.0.0/0 ::/0" },
};

/* Calls `add` for each word of `text`, which may be NULL. */
static void each_word(const char *text, void (*add)(struct model *m, const char *word),
		      struct model *m)
{
	char *copy = xstrdup(text ? text : "");
	char *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		add(m, w);
	free(copy);
}

static void add_bind(struct model *m, const char *word)
{
	struct ip_addr a = test_addr(word);

	m->config.bind_addr[ip_fam(&a)] = a;
}

static void add_nodeport_cidr(struct model *m, const char *word)
{
	*vec_push(&m->config.nodeport_cidrs) = test_prefix(word);
}

static void add_cluster_cidr(struct model *m, const char *word)
{
	*vec_push(&m->config.cluster_cidrs) = test_prefix(word);
}

static void add_service_cidr(struct model *m, const char *word)
{
	*vec_push(&m->config.service_cidrs) = test_prefix(word);
}

static void configure(struct model *m, const struct env_case *c)
{
	model_init(m);
	m->config.node_name = name_get_str("n1");
	m->config.detect_local = c->detect;
	m->config.has_nodeport_cidrs = c->nodeport_cidrs != NULL;
	each_word(c->bind, add_bind, m);
	each_word(c->nodeport_cidrs, add_nodeport_cidr, m);
	each_word(c->cluster_cidrs, add_cluster_cidr, m);
	each_word(c->service_cidrs, add_service_cidr, m);
	model_configured(m);
}

static void hear_host(struct model *m, const char *text)
{
	VEC(struct ip_addr) addrs = { 0 };
	char *copy = xstrdup(text);
	char *save = NULL;

	size_t n_service = 0;
	bool is_service = false; /* after "|" */

	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		if (*w == '|') {
			is_service = true;
			continue;
		}
		*vec_push(&addrs) = test_addr(w);
		n_service += is_service;
	}
	model_put_host_addrs(m, addrs.v, addrs.n, n_service, 1);
	vec_fini(&addrs);
	free(copy);
}

/* The inputs arrive in one of two orders; the result must be equal. */
static void hear(struct model *m, const struct env_case *c, bool backwards)
{
	if (backwards && c->host != NULL)
		hear_host(m, c->host);
	if (c->is_node_awaited)
		(void)model_await_node(m, true, 1);
	for (size_t i = 0; i < ARRAY_SIZE(c->cidr_objects); i++) {
		size_t k = backwards ? ARRAY_SIZE(c->cidr_objects) - 1 - i : i;
		char name[] = { 'a', (char)('0' + k), '\0' };

		if (c->cidr_objects[k] != NULL)
			model_put_service_cidr(m, test_service_cidr(name, c->cidr_objects[k]), 1);
	}
	if (c->node != NULL)
		model_put_node(m, test_node("n1", c->node), 1);
	if (!backwards && c->host != NULL)
		hear_host(m, c->host);
}

static void check_env(const struct env_case *c, const struct model_env *e)
{
	struct str s = { 0 };
	char a[IP_TEXT_MAX];
	char b[IP_TEXT_MAX];
	char p[IP_PREFIX_TEXT_MAX];

	str_printf(&s, "%s %s", ip_addr_text(&e->node_ip[IPFAM_V4], a),
		   ip_addr_text(&e->node_ip[IPFAM_V6], b));
	assert_string_equal(str_text(&s), c->node_ip);
	str_clear(&s);
	vec_for_each (addr, &e->nodeport_addrs)
		str_printf(&s, "%s%s", s.len > 0 ? " " : "", ip_addr_text(addr, a));
	assert_string_equal(str_text(&s), c->nodeport_addrs);
	str_clear(&s);
	str_printf(&s, "%s%s", e->has_detector[IPFAM_V4] ? "4" : "",
		   e->has_detector[IPFAM_V6] ? "6" : "");
	vec_for_each (prefix, &e->pod_cidrs)
		str_printf(&s, " %s", ip_prefix_text(prefix, p));
	assert_string_equal(str_text(&s), c->detector ? c->detector : "");
	str_clear(&s);
	vec_for_each (prefix, &e->service_cidrs)
		str_printf(&s, "%s%s", s.len > 0 ? " " : "", ip_prefix_text(prefix, p));
	assert_string_equal(str_text(&s), c->service_cidrs_all ? c->service_cidrs_all : "");
	str_fini(&s);
}

static void test_env(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(env_cases); i++) {
		print_message("    %s\n", env_cases[i].name);
		for (int backwards = 0; backwards < 2; backwards++) {
			struct model m;
			uint64_t generation;

			configure(&m, &env_cases[i]);
			hear(&m, &env_cases[i], backwards == 1);
			check_env(&env_cases[i], &m.env);
			generation = m.env_generation;
			hear(&m, &env_cases[i], backwards == 1); /* heard before: no news */
			assert_int_equal(m.env_generation, generation);
			model_fini(&m);
			assert_int_equal(name_count(), 0);
		}
	}
}

/* SVC-07, SVC-09: why a family has no node ports, once a service has some. */
static void test_nodeports_failure(void **state)
{
	static const struct {
		const char *node;           /* NULL: none */
		const char *nodeport_cidrs; /* NULL: "primary" */
		const char *service;
		const char *failures[IPFAM_N];
		const char *bind;
	} cases[] = {
		{ NULL, NULL, "ip=10.96.0.1 port=http:80:30080", { 0 } },
		{ NULL,
		  NULL,
		  "ip=10.96.0.1 port=http:80:30080",
		  { "IPv4 node ports are not served: --bind-address is no IPv4 address of this host" },
		  "172.31.9.9" },
		{ "addr=10.0.0.5",
		  NULL,
		  "ip=10.96.0.1 port=http:80:30080",
		  { "IPv4 node ports are not served: the node's IPv4 address is a loopback address" },
		  "127.0.0.1" },
		{ "addr=10.0.0.5 addr=fd00::5", NULL, "ip=fd00:96::1 port=http:80:30080", { 0 } },
		{ "addr=10.0.0.5", NULL, "ip=10.96.0.1 port=http:80:30080", { 0 } },
		{ "addr=10.0.0.5", NULL, "ip=fd00:96::1 port=http:80", { 0 } },
		{ "addr=10.0.0.5",
		  NULL,
		  "ip=10.96.0.1 ip=fd00:96::1 port=http:80:30080",
		  { NULL, "IPv6 node ports are not served: the Node has no IPv6 address; "
			  "--nodeport-addresses selects others" } },
		{ "addr=172.31.9.9",
		  NULL,
		  "ip=10.96.0.1 port=http:80:30080",
		  { "IPv4 node ports are not served: the Node's IPv4 address is none of this host; "
		    "--nodeport-addresses selects others" } },
		{ "addr=10.0.0.5",
		  "fd99::/64",
		  "ip=10.96.0.1 port=http:80",
		  { "IPv4 node ports are not served: --nodeport-addresses has no IPv4 prefix",
		    "IPv6 node ports are not served: no IPv6 address of this node is in "
		    "--nodeport-addresses" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct env_case c = { .bind = cases[i].bind,
					    .nodeport_cidrs = cases[i].nodeport_cidrs,
					    .node = cases[i].node,
					    .host = HOST };
		struct model m;

		print_message("    %s: %s\n", cases[i].node ? cases[i].node : "-",
			      cases[i].service);
		configure(&m, &c);
		hear(&m, &c, false);
		if (cases[i].nodeport_cidrs == NULL)
			for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
				assert_null(model_nodeports_failure(&m, fam));
		(void)model_put_service(&m, test_service("a", cases[i].service), 1);
		for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
			const char *failure = model_nodeports_failure(&m, fam);

			assert_string_equal(failure ? failure : "-",
					    cases[i].failures[fam] ? cases[i].failures[fam] : "-");
		}
		model_fini(&m);
	}
}

/* IN-27: a range stays until the last object with it is deleted. */
static void test_service_cidr_counts(void **state)
{
	static const struct env_case both = { .node_ip = "- -",
					      .nodeport_addrs = "",
					      .service_cidrs_all = "10.96.0.0/16 10.97.0.0/16" };
	static const struct env_case one = { .node_ip = "- -",
					     .nodeport_addrs = "",
					     .service_cidrs_all = "10.96.0.0/16" };
	static const struct env_case none = { .node_ip = "- -", .nodeport_addrs = "" };
	const struct name *a = name_get_str("a");
	const struct name *b = name_get_str("b");
	struct model m;

	(void)state;
	configure(&m, &none);
	model_put_service_cidr(&m, test_service_cidr("a", "10.96.0.0/16 10.97.0.0/16"), 1);
	model_put_service_cidr(&m, test_service_cidr("b", "10.96.0.0/16"), 1);
	check_env(&both, &m.env);
	model_del_service_cidr(&m, a, 2);
	check_env(&one, &m.env);
	model_put_service_cidr(&m, test_service_cidr("b", "10.96.0.0/16 10.97.0.0/16"), 3);
	check_env(&both, &m.env);
	model_put_service_cidr(&m, test_service_cidr("b", "10.96.0.0/16"), 4);
	check_env(&one, &m.env);
	model_del_service_cidr(&m, b, 5);
	check_env(&none, &m.env);
	name_unref(a);
	name_unref(b);
	model_fini(&m);
	assert_int_equal(name_count(), 0);
}

/* IN-21: of the labels only the zone matters; otherwise addresses and pod CIDRs. */
static void test_zone(void **state)
{
	static const struct env_case none = { 0 };
	struct model m;

	(void)state;
	configure(&m, &none);
	assert_null(m.env.zone);
	model_put_node(&m, test_node("n1", "zone=a"), 1);
	assert_string_equal(name_text(m.env.zone), "a");
	model_put_node(&m, test_node("n1", "zone="), 2);
	assert_null(m.env.zone);
	model_put_node(&m, test_node("n1", "zone=b"), 3);
	assert_string_equal(name_text(m.env.zone), "b");
	model_put_node(&m, test_node("n1", ""), 4);
	assert_null(m.env.zone);
	model_fini(&m);
	assert_int_equal(name_count(), 0);
}

/* IN-24: the last copy has what a new Node lacks, unless it is a manifest. */
static void test_node_is_created_again(void **state)
{
	static const struct env_case filled = { .detect = DETECT_LOCAL_NODE_CIDR,
						.node_ip = "10.0.0.6 -",
						.nodeport_addrs = "10.0.0.6",
						.detector = "4 10.1.7.0/24" };
	static const struct env_case bare = { .node_ip = "10.0.0.5 fd00::5",
					      .nodeport_addrs = "10.0.0.5 fd00::5" };
	static const struct env_case moved = { .node_ip = "10.0.0.5 -",
					       .nodeport_addrs = "10.0.0.5",
					       .detector = "4 10.1.8.0/24" };

	(void)state;
	for (int is_api = 0; is_api < 2; is_api++) {
		struct model m;

		configure(&m, &filled);
		hear_host(&m, HOST);
		if (is_api)
			(void)model_await_node(&m, true, 1);
		model_put_node(&m, test_node("n1", "zone=a addr=10.0.0.6 pods=10.1.7.0/24"), 2);
		if (is_api)
			(void)model_await_node(&m, false, 2);
		check_env(&filled, &m.env);
		assert_int_equal(model_del(&m, OBJECT_KIND_NODE, NULL, m.self->name, 3), 1);
		assert_int_equal(model_put_node(&m, test_node("n1", "zone=a"), 4), 1);
		assert_false(m.self->is_deleting);
		check_env(is_api ? &filled : &bare, &m.env);
		assert_int_equal(model_put_node(&m, test_node("n1", "zone=a"), 5), 0);
		model_put_node(&m, test_node("n1", "zone=a addr=10.0.0.5 pods=10.1.8.0/24"), 6);
		check_env(&moved, &m.env);
		model_fini(&m);
		assert_int_equal(name_count(), 0);
	}
}

/* IN-20: ranges that are not listed yet stay in the kernel. */
static void test_awaited_ranges(void **state)
{
	static const struct env_case by_node = { .detect = DETECT_LOCAL_NODE_CIDR };
	static const struct env_case by_flag = { .detect = DETECT_LOCAL_CLUSTER_CIDR };
	uint64_t generation;
	struct model m;

	(void)state;
	configure(&m, &by_node);
	assert_false(m.env.keeps_pod_cidrs);
	assert_true(model_await_node(&m, true, 1));
	assert_true(m.env.keeps_pod_cidrs);
	model_put_node(&m, test_node("n1", "zone=a"), 2);
	assert_true(m.env.keeps_pod_cidrs);
	model_put_node(&m, test_node("n1", "pods=10.1.7.0/24"), 3);
	assert_false(m.env.keeps_pod_cidrs);
	assert_true(model_await_service_cidrs(&m, true, 4));
	assert_true(m.env.keeps_service_cidrs);
	generation = m.env_generation;
	assert_true(model_await_service_cidrs(&m, false, 5));
	assert_false(m.env.keeps_service_cidrs);
	assert_int_equal(m.env_generation, generation + 1); /* planes write them */
	model_fini(&m);

	configure(&m, &by_node);
	(void)model_await_node(&m, true, 1);
	generation = m.env_generation;
	(void)model_await_node(&m, false, 2); /* there is no Node */
	assert_false(m.env.keeps_pod_cidrs);
	assert_int_equal(m.env_generation, generation + 1);
	model_fini(&m);

	configure(&m, &by_flag);
	(void)model_await_node(&m, true, 1);
	assert_false(m.env.keeps_pod_cidrs);
	(void)model_await_service_cidrs(&m, true,
					2); /* the Node may be in a file without a version */
	assert_true(m.env.keeps_pod_cidrs);
	model_put_node(&m, test_node("n1", "zone=a"), 3);
	assert_false(m.env.keeps_pod_cidrs);
	model_fini(&m);

	configure(&m, &by_node);
	(void)model_await_service_cidrs(&m, true, 1);
	assert_true(m.env.keeps_pod_cidrs);
	(void)model_await_service_cidrs(&m, false, 2);
	assert_false(m.env.keeps_pod_cidrs);
	model_fini(&m);
}

/* Few bits, so that many prefixes contain others. */
static struct ip_prefix random_prefix(struct rng *rng)
{
	char text[IP_PREFIX_TEXT_MAX];

	if (rng_below(rng, 4) == 0)
		(void)snprintf(text, sizeof(text), "fd0%zx:%zx::/%zu", rng_below(rng, 4),
			       rng_below(rng, 65536), 4 + rng_below(rng, 29));
	else
		(void)snprintf(text, sizeof(text), "10.%zu.%zu.0/%zu", rng_below(rng, 4),
			       rng_below(rng, 256), 4 + rng_below(rng, 21));
	return test_prefix(text);
}

/* Random prefixes: the reduced set covers the same addresses and has no prefix inside another. */
static void test_reduce_property(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 500; seed++) {
		struct rng rng = { seed };
		struct model m;
		size_t n = rng_below(&rng, 30);

		model_init(&m);
		for (size_t i = 0; i < n; i++)
			*vec_push(&m.config.service_cidrs) = random_prefix(&rng);
		model_configured(&m);
		vec_for_each (p, &m.config.service_cidrs) {
			size_t covered = 0;

			vec_for_each (q, &m.env.service_cidrs)
				covered += ip_prefix_covers(q, p);
			assert_int_equal(covered, 1);
		}
		vec_for_each (p, &m.env.service_cidrs)
			if (p > m.env.service_cidrs.v)
				assert_true(ip_addr_cmp(&p[-1].addr, &p->addr) < 0);
		model_fini(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_nodeports_failure),
		cmocka_unit_test(test_nodeports_failure),
		cmocka_unit_test(test_service_cidr_counts),
		cmocka_unit_test(test_zone),
		cmocka_unit_test(test_node_is_created_again),
		cmocka_unit_test(test_awaited_ranges),
		cmocka_unit_test(test_reduce_property),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
