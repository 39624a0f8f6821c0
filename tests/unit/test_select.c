/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sections 4 and 5 of doc/behaviour.md as tables: each case names the behaviour
 * (EPS, POL, SVC, SEL) or the scenario of section 17 (T) it pins.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/select.h"
#include "objects.h"

#define CLUSTER "ip=10.96.0.1 port=http:80 "
#define ITP CLUSTER "itp "
#define ETP "type=NodePort etp ip=10.96.0.1 port=http:80:30080 "
#define BOTH ETP "itp "

/* This node is n1 in zone a, as in the tables of section 5.4, by default. */
static void world_init(struct model *m, const char *node, const char *node_text)
{
	model_init(m);
	m->config.node_name = node != NULL ? name_get_str(node) : NULL;
	model_configured(m);
	if (node != NULL && node_text != NULL)
		model_put_node(m, test_node(node, node_text), 1);
}

static void world_fini(struct model *m)
{
	model_fini(m);
	assert_int_equal(name_count(), 0);
}

static void put_slice(struct model *m, size_t i, const char *text)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "shop/web-%zu", i);
	model_put_slice(m, test_slice(name, "web", text), 1);
}

static const struct svc *web(const struct model *m)
{
	const struct svc *svc = model_find_text(m, "shop", "web");

	assert_non_null(svc);
	return svc;
}

/* --- which endpoints, and why not ------------------------------------------------- */

/* One letter per endpoint, in order of address. */
static char letter(uint8_t exclusion)
{
	switch ((enum exclusion)exclusion) {
	case EXCLUSION_NONE:
		return '.';
	case EXCLUSION_NOT_READY:
		return 'r';
	case EXCLUSION_TERMINATING:
		return 't';
	case EXCLUSION_NOT_SERVING:
		return 's';
	case EXCLUSION_OTHER_NODE:
		return 'n';
	case EXCLUSION_OTHER_ZONE:
		return 'z';
	case EXCLUSION_NOT_LOCAL:
		return 'l';
	case EXCLUSION_DRAINED:
		return 'd';
	case EXCLUSION_WEIGHTLESS:
		return 'w';
	case EXCLUSION_EJECTED:
		return 'e';
	case EXCLUSION_SET_UNUSED:
		return '-';
	}
	return '?';
}

struct set_case {
	const char *name;
	const char *service;
	const char *endpoints; /* "1 ...; 2 ...": of one slice */
	const char *cluster;   /* verdicts for the cluster set */
	const char *local;     /* verdicts for the local set */
	enum topology_mode topology;
	bool has_any;
	const char *node; /* NULL: "zone=a" */
};

static const struct set_case set_cases[] = {
	/* the worked results of section 5.4, row by row */
	{ "5.4 row 1", CLUSTER, "1 rs +a; 2 rs +b; 3 rs +a", ".z.", "---", TOPOLOGY_SAME_ZONE,
	  true },
	{ "5.4 row 2", CLUSTER, "1 rs +a; 2 rs +b; 3 rs", "...", "---", TOPOLOGY_OFF, true },
	{ "5.4 row 3", CLUSTER, "1 rs +b; 2 rs +c", "..", "--", TOPOLOGY_OFF, true },
	{ "5.4 row 4", CLUSTER, "1 +a; 2 rs +b", "r.", "--", TOPOLOGY_OFF, true },
	{ "5.4 row 5", CLUSTER, "1 rs %n1; 2 rs %n2", ".n", "--", TOPOLOGY_SAME_NODE, true },
	{ "5.4 row 6", ETP, "1 rs @n1 +a; 2 rs @n1 +b; 3 rs +a", ".z.", "..l", TOPOLOGY_SAME_ZONE,
	  true },
	{ "5.4 row 7", ITP, "1 rs @n2; 2 rs @n3", "--", "ll", TOPOLOGY_OFF, true },
	{ "5.4 row 8", BOTH, "1 st @n2; 2 st @n3", "..", "ll", TOPOLOGY_OFF, true },
	{ "5.4 row 9", ETP, "1 rs @n2; 2 st @n1; 3 t @n1", ".ts", "l.s", TOPOLOGY_OFF, true },
	{ "5.4 row 10", ITP, "1 rs @n1; 2 st @n1", "--", ".t", TOPOLOGY_OFF, true },
	{ "5.4 row 11, Cluster", CLUSTER, "1 @n1; 2 t @n1", "rs", "--", TOPOLOGY_OFF, false },
	{ "5.4 row 11, Local", BOTH, "1 @n1; 2 t @n1; 3", "rsr", "rsl", TOPOLOGY_OFF, false },
	{ "5.4 row 11, ITP Local", ITP, "1 @n1; 2 t @n1; 3", "---", "rsl", TOPOLOGY_OFF, false },

	/* table 4.3: eligibility of a combination of conditions */
	{ "4.3: each alone, ready wins", CLUSTER, "1 rs; 2 rst; 3 rt; 4 r; 5 st; 6 t; 7 s; 8",
	  "....tsrr", "--------", TOPOLOGY_OFF, true },
	{ "4.3: without a ready one", CLUSTER, "5 st; 6 t; 7 s; 8", ".srr", "----", TOPOLOGY_OFF,
	  true },
	{ "4.3, EPS-21: serving alone is nothing", CLUSTER, "7 s", "r", "-", TOPOLOGY_OFF, false },

	/* section 17.3 */
	{ "T-051, POL-15: zone hints complete", CLUSTER, "1 rs +a; 2 rs +b; 3 rs +c; 4 rs +a",
	  ".zz.", "----", TOPOLOGY_SAME_ZONE, true },
	{ "T-052, POL-16: a hint missing", CLUSTER, "1 rs +a; 2 rs +b; 3 rs; 4 rs +a", "....",
	  "----", TOPOLOGY_OFF, true },
	{ "T-053, POL-16: node without zone", CLUSTER, "1 rs +a; 2 rs +b", "..", "--", TOPOLOGY_OFF,
	  true, "" },
	{ "T-053, IN-22: empty zone label", CLUSTER, "1 rs +a; 2 rs +b", "..", "--", TOPOLOGY_OFF,
	  true, "zone=" },
	{ "T-053, IN-22: empty zone label, empty hint", CLUSTER, "1 rs +; 2 rs +b", "..", "--",
	  TOPOLOGY_OFF, true, "zone=" },
	{ "T-054, POL-15: no hint for my zone", CLUSTER, "1 rs +b; 2 rs +c", "..", "--",
	  TOPOLOGY_OFF, true },
	{ "POL-21: case of a zone counts", CLUSTER, "1 rs +A; 2 rs +b", "..", "--", TOPOLOGY_OFF,
	  true },
	{ "T-055, POL-13: unready hinted endpoint", CLUSTER, "1 s +a; 2 rs +b; 3 rs +c", "r..",
	  "---", TOPOLOGY_OFF, true },
	{ "POL-16: unready unhinted endpoint does not hurt", CLUSTER, "1 s; 2 rs +a; 3 rs +c",
	  "r.z", "---", TOPOLOGY_SAME_ZONE, true },
	{ "T-056, POL-18: multiple hints", CLUSTER, "1 rs +a +b +c; 2 rs +b; 3 rs +c +a", ".z.",
	  "---", TOPOLOGY_SAME_ZONE, true },
	{ "T-057, POL-14: node hints", CLUSTER, "1 rs %n2; 2 rs %n1; 3 rs %n3", "n.n", "---",
	  TOPOLOGY_SAME_NODE, true },
	{ "POL-18: multiple node hints", CLUSTER, "1 rs %n2 %n1; 2 rs %n1; 3 rs %n3", "..n", "---",
	  TOPOLOGY_SAME_NODE, true },
	{ "T-058: node hints incomplete, zones decide", CLUSTER,
	  "1 rs %n1 +b; 2 rs %n1 +a; 3 rs +a", "z..", "---", TOPOLOGY_SAME_ZONE, true },
	{ "T-058: both incomplete", CLUSTER, "1 rs %n1 +a; 2 rs %n1; 3 rs +a", "...", "---",
	  TOPOLOGY_OFF, true },
	{ "T-059, POL-17: node hints, none for me", CLUSTER, "1 rs %n2 +a; 2 rs %n3 +b", ".z", "--",
	  TOPOLOGY_SAME_ZONE, true },
	{ "POL-17: same node goes before same zone", CLUSTER, "1 rs %n1 +b; 2 rs %n2 +a", ".n",
	  "--", TOPOLOGY_SAME_NODE, true },
	{ "T-060, POL-06: topology ignored for local set", ETP,
	  "1 rs @n1 +b; 2 rs @n1 %n2; 3 rs @n2", "...", "..l", TOPOLOGY_OFF, true },
	{ "T-060: local endpoints hinted elsewhere", ETP, "1 rs @n1 +b; 2 rs @n2 +a", "z.", ".l",
	  TOPOLOGY_SAME_ZONE, true },
	{ "T-061: hints and localness conflict", ETP,
	  "1 rs @n1 +b; 2 rs @n1 +a; 3 rs @n2 +a; 4 rs +b", "z..z", "..ll", TOPOLOGY_SAME_ZONE,
	  true },
	{ "BAL-03: weight 0 counts as not ready", CLUSTER "weights=10.0.1.2=0", "1 rs; 2 rs; 3 rs",
	  ".w.", "---", TOPOLOGY_OFF, true },
	{ "BAL-03: weight 0, hints of the others count", CLUSTER "weights=a-*=0,*=3",
	  "1 rs +a; 2 rs ~a-1; 3 rs +b", ".wz", "---", TOPOLOGY_SAME_ZONE, true },
	{ "BAL-03: weight 0 is no fallback", CLUSTER "weights=web-*=0", "1 rs; 2 st; 3 s", "www",
	  "---", TOPOLOGY_OFF, false },
	{ "BAL-03: weight 0 in the local set", ETP "weights=10.0.1.1=0",
	  "1 rs @n1; 2 st @n1; 3 rs @n2", "wt.", "w.l", TOPOLOGY_OFF, true },
	{ "BAL-01: weights with an error have no effect", CLUSTER "weights=10.0.1.2=0,x",
	  "1 rs; 2 rs", "..", "--", TOPOLOGY_OFF, true },
	{ "T-062, POL-10: ITP Local, remote only", ITP, "1 rs @n2; 2 rs @n2", "--", "ll",
	  TOPOLOGY_OFF, true },
	{ "POL-10: ITP Local, remote terminating", ITP, "1 st @n2", "-", "l", TOPOLOGY_OFF, true },
	{ "POL-10: ITP Local, remote not serving", ITP, "1 t @n2; 2 s @n2", "--", "ll",
	  TOPOLOGY_OFF, false },
	{ "T-063, POL-02: ITP Local, internal only", ITP, "1 rs @n1 +a; 2 rs @n2 +a", "--", ".l",
	  TOPOLOGY_OFF, true },
	{ "POL-26: ITP Local, ETP Cluster", ITP "ext=192.0.2.1", "1 rs @n1; 2 rs @n2", "..", ".l",
	  TOPOLOGY_OFF, true },
	{ "T-064, SVC-28: ETP Local on a ClusterIP service", CLUSTER "etp", "1 rs @n1; 2 rs @n2",
	  "..", "--", TOPOLOGY_OFF, true },
	{ "SVC-28: ETP Local, ClusterIP with external IP", CLUSTER "etp ext=192.0.2.1",
	  "1 rs @n1; 2 rs @n2", "..", ".l", TOPOLOGY_OFF, true },
	{ "SVC-03: ETP Local, LoadBalancer without VIP and node port",
	  CLUSTER "etp type=LoadBalancer", "1 rs @n1; 2 rs @n2", "..", "--", TOPOLOGY_OFF, true },
	{ "SVC-01: ipMode Proxy is no VIP", CLUSTER "etp type=LoadBalancer proxy=192.0.2.1",
	  "1 rs @n1; 2 rs @n2", "..", "--", TOPOLOGY_OFF, true },
	{ "SVC-01: VIP", CLUSTER "etp type=LoadBalancer vip=192.0.2.1", "1 rs @n1; 2 rs @n2", "..",
	  ".l", TOPOLOGY_OFF, true },
	{ "SVC-01: VIP of the other family", CLUSTER "etp type=LoadBalancer vip=2001:db8::1",
	  "1 rs @n1; 2 rs @n2", "..", "--", TOPOLOGY_OFF, true },
	{ "T-065, POL-04: all terminating and serving", CLUSTER, "1 st +b; 2 st +a; 3 st %n2",
	  "...", "---", TOPOLOGY_OFF, true },
	{ "T-066: terminating, not serving", CLUSTER, "1 t", "s", "-", TOPOLOGY_OFF, false },
	{ "T-067, POL-09: local terminating, remote ready", ETP, "1 st @n1; 2 rs @n2", "t.", ".l",
	  TOPOLOGY_OFF, true },
	{ "T-068: remote terminating only", BOTH, "1 st @n2; 2 st @n2", "..", "ll", TOPOLOGY_OFF,
	  true },
	{ "T-069: not ready, not serving, not terminating", CLUSTER, "1", "r", "-", TOPOLOGY_OFF,
	  false },
	{ "T-070, POL-12: empty endpoint list", BOTH, "", "", "", TOPOLOGY_OFF, false },
	{ "T-071, SVC-35: publishNotReadyAddresses", ETP, "1 rst @n1; 2 rs @n2; 3 rt @n1", "...",
	  ".l.", TOPOLOGY_OFF, true },
	{ "POL-07: a local ready one hides local terminating ones", ETP,
	  "1 rs @n1; 2 st @n1; 3 st @n2", ".tt", ".tl", TOPOLOGY_OFF, true },
	{ "POL-05: topology never empties a ready set", CLUSTER, "1 rs +b %n2; 2 st +a %n1", ".t",
	  "--", TOPOLOGY_OFF, true },
	{ "POL-08: local fallback takes serving ones only", ITP, "1 st @n1; 2 t @n1; 3 s @n1",
	  "---", ".sr", TOPOLOGY_OFF, true },
};

static void check_set(const struct set_case *c, const struct model *m)
{
	struct selection s;
	struct str cluster = { 0 };
	struct str local = { 0 };
	size_t n_cluster = 0;
	size_t n_local = 0;
	bool fallback[2] = { false, false };

	select_endpoints(&s, m, web(m), 0, IPFAM_V4);
	vec_for_each (e, &s.endpoints) {
		bool is_ready = (e->flags & ENDPOINT_READY) != 0;

		str_printf(&cluster, "%c", letter(e->cluster));
		str_printf(&local, "%c", letter(e->local));
		n_cluster += e->cluster == EXCLUSION_NONE;
		n_local += e->local == EXCLUSION_NONE;
		fallback[0] |= e->cluster == EXCLUSION_NONE && !is_ready;
		fallback[1] |= e->local == EXCLUSION_NONE && !is_ready;
	}
	assert_string_equal(str_text(&cluster), c->cluster);
	assert_string_equal(str_text(&local), c->local);
	assert_int_equal(s.n_cluster, n_cluster);
	assert_int_equal(s.n_local, n_local);
	assert_int_equal(s.is_cluster_fallback, fallback[0]);
	assert_int_equal(s.is_local_fallback, fallback[1]);
	assert_int_equal(s.topology, c->topology);
	assert_int_equal(s.has_any, c->has_any);
	if (s.endpoints.n > 0) {
		assert_int_equal(s.uses_cluster, strchr(c->cluster, '-') == NULL);
		assert_int_equal(s.uses_local, strchr(c->local, '-') == NULL);
	}
	str_fini(&cluster);
	str_fini(&local);
	selection_fini(&s);
}

/* EPS-03: how endpoints are spread over slices makes no difference. */
static void put_one_by_one(struct model *m, const char *endpoints)
{
	char *copy = xstrdup(endpoints);
	size_t i = 0;
	char *last;

	while ((last = strrchr(copy, ';')) != NULL || copy[0] != '\0') {
		char text[256];

		(void)snprintf(text, sizeof(text), "| http:80 | %s", last ? last + 1 : copy);
		put_slice(m, i++, text);
		if (last == NULL)
			break;
		*last = '\0';
	}
	free(copy);
}

static void test_sets(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(set_cases); i++) {
		const struct set_case *c = &set_cases[i];

		print_message("    %s\n", c->name);
		for (int spread = 0; spread < 2; spread++) {
			struct model m;
			char text[512];

			world_init(&m, "n1", c->node != NULL ? c->node : "zone=a");
			model_put_service(&m, test_service("shop/web", c->service), 1);
			(void)snprintf(text, sizeof(text), "| http:80 | %s", c->endpoints);
			if (spread == 0)
				put_slice(&m, 0, text);
			else
				put_one_by_one(&m, c->endpoints);
			check_set(c, &m);
			world_fini(&m);
		}
	}
}

/* T-072: the zone is evaluated at selection, not when slices arrive. */
static void test_zone_change(void **state)
{
	static const struct set_case in_a = {
		"", CLUSTER, "", ".z", "--", TOPOLOGY_SAME_ZONE, true
	};
	static const struct set_case in_b = {
		"", CLUSTER, "", "z.", "--", TOPOLOGY_SAME_ZONE, true
	};
	struct model m;

	(void)state;
	world_init(&m, "n1", "zone=a");
	model_put_service(&m, test_service("shop/web", CLUSTER), 1);
	put_slice(&m, 0, "| http:80 | 1 rs +a; 2 rs +b");
	check_set(&in_a, &m);
	model_put_node(&m, test_node("n1", "zone=b"), 2);
	check_set(&in_b, &m);
	world_fini(&m);
}

/* --- which node is ours ----------------------------------------------------------------- */

static const struct {
	const char *name;
	const char *self;
	const char *endpoints;
	const char *local;
} local_cases[] = {
	{ "T-039, EPS-12: equal, different, absent", "n1", "1 rs @n1; 2 rs @n2; 3 rs", ".ll" },
	{ "T-039: own name empty", "", "1 rs @; 2 rs @n2; 3 rs", "lll" },
	{ "T-039: own name unknown", NULL, "1 rs @; 2 rs @n2; 3 rs", "lll" },
	{ "POL-21: case of a node counts", "n1", "1 rs @N1", "l" },
	{ "EPS-12: part of a name is another name", "n1", "1 rs @n11; 2 rs @n", "ll" },
};

static void test_local(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(local_cases); i++) {
		struct selection s;
		struct model m;
		char text[128];

		print_message("    %s\n", local_cases[i].name);
		world_init(&m, local_cases[i].self, NULL);
		model_put_service(&m, test_service("shop/web", ITP), 1);
		(void)snprintf(text, sizeof(text), "| http:80 | %s", local_cases[i].endpoints);
		put_slice(&m, 0, text);
		select_endpoints(&s, &m, web(&m), 0, IPFAM_V4);
		assert_int_equal(s.endpoints.n, strlen(local_cases[i].local));
		vec_for_each (e, &s.endpoints) {
			char want = local_cases[i].local[e - s.endpoints.v];

			assert_int_equal(letter(e->local), want);
			assert_int_equal(e->is_local, want == '.');
		}
		selection_fini(&s);
		world_fini(&m);
	}
}

/* --- merging ------------------------------------------------------------------------------ */

#define SLICES 4

struct merge_case {
	const char *name;
	const char *service;
	size_t port;
	enum ipfam fam;
	const char *slices[SLICES];
	const char *merged; /* ADDR:PORT=FLAGS[~POD] ...; ADDR as in objects.h */
};

static const struct merge_case merge_cases[] = {
	{ "T-031, EPS-03: two slices, same port",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 rs; 3 rs; 5 rs", "| http:80 | 2 rs; 4 rs; 6 rs" },
	  "1:80=rs 2:80=rs 3:80=rs 4:80=rs 5:80=rs 6:80=rs" },
	{ "T-032: overlapping slices",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 rs; 2 rs; 3 rs", "| http:80 | 1 rs; 2 rs; 3 rs; 4 rs" },
	  "1:80=rs 2:80=rs 3:80=rs 4:80=rs" },
	{ "T-033: first port only in one slice",
	  "ip=10.96.0.1 port=p1:80 port=p2:81",
	  0,
	  IPFAM_V4,
	  { "| p1:80 | 1 rs; 2 rs", "| p2:81 | 2 rs; 3 rs" },
	  "1:80=rs 2:80=rs" },
	{ "T-033: second port only in another",
	  "ip=10.96.0.1 port=p1:80 port=p2:81",
	  1,
	  IPFAM_V4,
	  { "| p1:80 | 1 rs; 2 rs", "| p2:81 | 2 rs; 3 rs" },
	  "2:81=rs 3:81=rs" },
	{ "T-034, EPS-10: same IP, two port numbers",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 rs; 2 rs", "| http:8080 | 1 rs" },
	  "1:80=rs 1:8080=rs 2:80=rs" },
	{ "T-034: both numbers in one slice",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:8080 http:80 | 2 rs; 1 rs" },
	  "1:80=rs 1:8080=rs 2:80=rs 2:8080=rs" },
	{ "T-050, SVC-36: named port with different numbers",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:8080 | 1 rs", "| http:8000 | 2 rs" },
	  "1:8080=rs 2:8000=rs" },
	{ "T-023, EPS-04: protocol counts, number does not",
	  "ip=10.96.0.1 port=d:53 port=d/UDP:53 port=d/SCTP:53",
	  0,
	  IPFAM_V4,
	  { "| d:5353 d/UDP:53 d/SCTP:54 | 1 rs" },
	  "1:5353=rs" },
	{ "T-023: UDP",
	  "ip=10.96.0.1 port=d:53 port=d/UDP:53 port=d/SCTP:53",
	  1,
	  IPFAM_V4,
	  { "| d:5353 d/UDP:53 d/SCTP:54 | 1 rs" },
	  "1:53=rs" },
	{ "T-023: SCTP",
	  "ip=10.96.0.1 port=d:53 port=d/UDP:53 port=d/SCTP:53",
	  2,
	  IPFAM_V4,
	  { "| d:5353 d/UDP:53 d/SCTP:54 | 1 rs" },
	  "1:54=rs" },
	{ "EPS-04: equal number, other name", CLUSTER, 0, IPFAM_V4, { "| web:80 | 1 rs" }, "" },
	{ "T-036, EPS-05: empty name matches the unnamed port",
	  "ip=10.96.0.1 port=:80",
	  0,
	  IPFAM_V4,
	  { "| :8080 | 1 rs", "| x:8081 | 2 rs" },
	  "1:8080=rs" },
	{ "EPS-07: no ports", CLUSTER, 0, IPFAM_V4, { "| | 1 rs" }, "" },
	{ "EPS-01, T-013: other family", CLUSTER, 0, IPFAM_V4, { "v6 | http:80 | 1 rs" }, "" },
	{ "EPS-01: IPv6 takes only its own",
	  "ip=fd00:1::1 port=http:80",
	  0,
	  IPFAM_V6,
	  { "v6 | http:80 | 2 rs; 1 rs", "| http:80 | 3 rs" },
	  "1:80=rs 2:80=rs" },
	{ "EPS-17: IPv6 is ordered by all its bytes",
	  "ip=fd00:1::1 port=http:80",
	  0,
	  IPFAM_V6,
	  { "v6 | http:80 | fd00:0:0:1::1 rs; fe00:: rs; 2 rs",
	    "v6 | http:80 | 1 rs; fd00::1:1 rs" },
	  "1:80=rs 2:80=rs [fd00::1:1]:80=rs [fd00:0:0:1::1]:80=rs [fe00::]:80=rs" },
	{ "EPS-17: addresses far apart",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 200.0.0.1 rs; 9.0.0.1 rs", "| http:80 | 10.0.1.1 rs" },
	  "9.0.0.1:80=rs 1:80=rs 200.0.0.1:80=rs" },
	{ "EPS-18: hopeless ones are kept",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1; 2 t" },
	  "1:80= 2:80=t" },
	{ "T-038, EPS-14: terminating, running, terminating in one list",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 st ~p1; 1 rs ~p2; 1 st ~p3" },
	  "1:80=rs~p2" },
	{ "T-038: the same over slices",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "version=3 | http:80 | 1 st ~p1", "version=1 | http:80 | 1 rs ~p2",
	    "version=2 | http:80 | 1 st ~p3" },
	  "1:80=rs~p2" },
	{ "EPS-14: a running one wins even if unready",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "version=2 | http:80 | 1 st ~old", "version=1 | http:80 | 1 ~new" },
	  "1:80=~new" },
	{ "EPS-15: the newer slice wins, ready",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "version=10 | http:80 | 1 s ~p", "version=9 | http:80 | 1 rs ~p" },
	  "1:80=s~p" },
	{ "EPS-15: the newer slice wins, unready",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "version=9 | http:80 | 1 s ~p", "version=10 | http:80 | 1 rs ~p" },
	  "1:80=rs~p" },
	{ "EPS-15: a version beats none",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 rs ~p", "version=1 | http:80 | 1 s ~q" },
	  "1:80=s~q" },
	{ "EPS-15: no versions, readiness with or",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 s ~p1", "| http:80 | 1 rs ~p2", "| http:80 | 1 ~p3" },
	  "1:80=rs~p2" },
	{ "EPS-15: no versions, serving then",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 ~p1", "| http:80 | 1 s ~p2" },
	  "1:80=s~p2" },
	{ "EPS-15: no versions, equal but for the pod",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 1 rs ~p2", "| http:80 | 1 rs ~p1", "| http:80 | 1 rs ~p3" },
	  "1:80=rs~p1" },
	{ "EPS-15: all terminating, newer wins",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "version=1 | http:80 | 1 st ~p", "version=2 | http:80 | 1 t ~p" },
	  "1:80=t~p" },
	{ "EPS-10: the duplicate on another port stands alone",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "version=1 | http:80 | 1 rs ~p", "version=2 | http:81 | 1 s ~q" },
	  "1:80=rs~p 1:81=s~q" },
	{ "several runs of uneven length",
	  CLUSTER,
	  0,
	  IPFAM_V4,
	  { "| http:80 | 7 rs", "| http:80 | 1 rs; 2 rs; 9 rs; 10 rs", "| http:80 |",
	    "| http:80 | 3 rs; 8 rs" },
	  "1:80=rs 2:80=rs 3:80=rs 7:80=rs 8:80=rs 9:80=rs 10:80=rs" },
};

/* The address as short as objects.h takes it. */
static void render_addr(struct str *s, const struct ip_addr *a)
{
	static const uint8_t v4[] = { 10, 0, 1 };
	static const uint8_t v6[15] = { 0xfd };
	char text[IP_TEXT_MAX];

	if (a->family == AF_INET && memcmp(a->bytes, v4, sizeof(v4)) == 0)
		str_printf(s, "%u", a->bytes[3]);
	else if (a->family == AF_INET6 && memcmp(a->bytes, v6, sizeof(v6)) == 0)
		str_printf(s, "%x", a->bytes[15]);
	else
		str_printf(s, a->family == AF_INET6 ? "[%s]" : "%s", ip_addr_text(a, text));
}

static void render_endpoint(struct str *s, const struct endpoint *e)
{
	if (s->len > 0)
		str_puts(s, " ");
	render_addr(s, &e->addr);
	str_printf(s, ":%u=%s%s%s", e->port, e->flags & ENDPOINT_READY ? "r" : "",
		   e->flags & ENDPOINT_SERVING ? "s" : "",
		   e->flags & ENDPOINT_TERMINATING ? "t" : "");
	if (e->from->pod != NULL)
		str_printf(s, "~%s", e->from->pod);
}

/* The k-th order of `n` things. */
static void permutation(size_t *order, size_t n, size_t k)
{
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n; i > 1; i--) {
		size_t j = k % i;
		size_t swap = order[i - 1];

		k /= i;
		order[i - 1] = order[j];
		order[j] = swap;
	}
}

/* The merge does not depend on order of arrival and names of slices. */
static void test_merge(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(merge_cases); i++) {
		const struct merge_case *c = &merge_cases[i];

		print_message("    %s\n", c->name);
		for (size_t k = 0; k < 2 * 24; k++) {
			struct selection s;
			struct str text = { 0 };
			struct model m;
			size_t order[SLICES];

			permutation(order, SLICES, k / 2);
			world_init(&m, "n1", "zone=a");
			model_put_service(&m, test_service("shop/web", c->service), 1);
			for (size_t j = 0; j < SLICES; j++)
				if (c->slices[order[j]] != NULL)
					put_slice(&m, k % 2 == 0 ? j : order[j],
						  c->slices[order[j]]);
			select_endpoints(&s, &m, web(&m), c->port, c->fam);
			vec_for_each (e, &s.endpoints)
				render_endpoint(&text, e);
			assert_string_equal(str_text(&text), c->merged);
			str_fini(&text);
			selection_fini(&s);
			world_fini(&m);
		}
	}
}

/* --- which services -------------------------------------------------------------------------- */

static const struct {
	const char *name;
	const char *service;
	bool is_proxied;
	bool has_v4;
	bool has_v6;
} skip_cases[] = {
	{ "SVC-04: plain", CLUSTER, true, true, false },
	{ "SEL-04, T-013: IPv6 only", "ip=fd00::1 port=http:80", true, false, true },
	{ "SEL-05: both families", CLUSTER "ip=fd00::1", true, true, true },
	{ "SEL-01, T-003: headless", "port=http:80 headless", false, false, false },
	{ "SEL-01: headless, with a node port", "port=http:80:30080 headless type=NodePort", false,
	  false, false },
	{ "SEL-02, T-004: ExternalName with a cluster IP", CLUSTER "type=ExternalName", false, true,
	  false },
	{ "SEL-03, T-006: label", CLUSTER "label", false, true, false },
	{ "SEL-09: no ports", "ip=10.96.0.1", false, true, false },
	{ "SEL-04: no cluster IP that could be read", "port=http:80", false, false, false },
	{ "SEL-06: ClusterIP with a node port", "ip=10.96.0.1 port=http:80:30080", true, true,
	  false },
};

static void test_skip(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(skip_cases); i++) {
		AUTO(service_close)
		struct service *s = test_service("shop/web", skip_cases[i].service);

		print_message("    %s\n", skip_cases[i].name);
		assert_int_equal(service_skip_reason(s) == NULL, skip_cases[i].is_proxied);
		assert_int_equal(service_has_family(s, IPFAM_V4), skip_cases[i].has_v4);
		assert_int_equal(service_has_family(s, IPFAM_V6), skip_cases[i].has_v6);
	}
}

static const struct {
	const char *name;
	const char *service;
	bool is_external[IPFAM_N]; /* of the first port */
	bool is_etp_local;
} external_cases[] = {
	{ "SVC-01: plain", CLUSTER, { false, false }, false },
	{ "SVC-01, SEL-06: node port", "ip=10.96.0.1 port=http:80:30080", { true, true }, false },
	{ "SVC-01: node port of another port",
	  "ip=10.96.0.1 port=a:1 port=b:2:30080",
	  { false, false },
	  false },
	{ "SVC-01: VIP", CLUSTER "vip=192.0.2.1", { true, false }, false },
	{ "SVC-01: VIP of IPv6", CLUSTER "vip=2001:db8::1", { false, true }, false },
	{ "SVC-16, T-021: ipMode Proxy", CLUSTER "proxy=192.0.2.1", { false, false }, false },
	{ "SVC-16: both modes", CLUSTER "proxy=192.0.2.1 vip=192.0.2.2", { true, false }, false },
	{ "SVC-01: external IPs", CLUSTER "ext=192.0.2.1 ext=2001:db8::1", { true, true }, false },
	{ "SVC-28: NodePort", CLUSTER "etp type=NodePort", { false, false }, true },
	{ "SVC-28: LoadBalancer", CLUSTER "etp type=LoadBalancer", { false, false }, true },
	{ "SVC-28, T-064: ClusterIP", CLUSTER "etp", { false, false }, false },
	{ "SVC-28: ClusterIP with VIP only", CLUSTER "etp vip=192.0.2.1", { true, false }, false },
	{ "SVC-28: ClusterIP with external IP",
	  CLUSTER "etp ext=192.0.2.1",
	  { true, false },
	  true },
	{ "SVC-29: ETP absent",
	  "type=LoadBalancer ip=10.96.0.1 port=http:80",
	  { false, false },
	  false },
};

static void test_external(void **state)
{
	struct model m;

	(void)state;
	world_init(&m, "n1", NULL);
	for (int gate = 0; gate < 2; gate++) {
		/* SVC-01: the list counts as written, also when SVC-13 hides its frontends. */
		m.config.no_external_ips = gate == 1;
		for (size_t i = 0; i < ARRAY_SIZE(external_cases); i++) {
			AUTO(service_close)
			struct service *s = test_service("shop/web", external_cases[i].service);

			print_message("    %s\n", external_cases[i].name);
			for (int fam = 0; fam < IPFAM_N; fam++)
				assert_int_equal(service_is_external(s, 0, (enum ipfam)fam),
						 external_cases[i].is_external[fam]);
			assert_int_equal(service_is_etp_local(s), external_cases[i].is_etp_local);
		}
	}
	world_fini(&m);
}

/* --- health check port ------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	const char *service;
	const char *slices[SLICES];
	size_t local_ready[IPFAM_N];
} ready_cases[] = {
	{ "T-047, EPS-24: one pod on two ports",
	  "ip=10.96.0.1 port=a:80 port=b:443",
	  { "| a:80 b:443 | 1 rs @n1" },
	  { 1, 0 } },
	{ "EPS-24: ports in different slices",
	  "ip=10.96.0.1 port=a:80 port=b:443",
	  { "| a:80 | 1 rs @n1; 2 rs @n1", "| b:443 | 2 rs @n1; 3 rs @n1" },
	  { 3, 0 } },
	{ "EPS-24: remote ones do not count",
	  CLUSTER,
	  { "| http:80 | 1 rs @n1; 2 rs @n2; 3 rs" },
	  { 1, 0 } },
	{ "T-156: terminating ones do not count",
	  CLUSTER,
	  { "| http:80 | 1 st @n1; 2 t @n1" },
	  { 0, 0 } },
	{ "EPS-24: unready ones do not count",
	  CLUSTER,
	  { "| http:80 | 1 s @n1; 2 @n1; 3 rs @n1" },
	  { 1, 0 } },
	{ "EPS-14: a reused address counts once",
	  CLUSTER,
	  { "| http:80 | 1 st @n1", "| http:80 | 1 rs @n1" },
	  { 1, 0 } },
	{ "EPS-15: the newer slice says unready",
	  CLUSTER,
	  { "version=1 | http:80 | 1 rs @n1", "version=2 | http:80 | 1 s @n1" },
	  { 0, 0 } },
	{ "EPS-25, HC-24: families are counted apart",
	  CLUSTER "ip=fd00::1",
	  { "| http:80 | 1 rs @n1", "v6 | http:80 | 1 rs @n1; 2 rs @n1" },
	  { 1, 2 } },
	{ "EPS-07: a slice without ports", CLUSTER, { "| | 1 rs @n1" }, { 0, 0 } },
	{ "no slice", CLUSTER, { NULL }, { 0, 0 } },
};

static void test_local_ready(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ready_cases); i++) {
		struct model m;

		print_message("    %s\n", ready_cases[i].name);
		world_init(&m, "n1", NULL);
		for (size_t j = 0; j < SLICES && ready_cases[i].slices[j] != NULL; j++)
			put_slice(&m, j, ready_cases[i].slices[j]);
		if (ready_cases[i].slices[0] != NULL) /* no Service yet: no result */
			assert_int_equal(service_local_ready(&m, web(&m), IPFAM_V4), 0);
		model_put_service(&m, test_service("shop/web", ready_cases[i].service), 1);
		for (int fam = 0; fam < IPFAM_N; fam++)
			assert_int_equal(service_local_ready(&m, web(&m), (enum ipfam)fam),
					 ready_cases[i].local_ready[fam]);
		world_fini(&m);
	}
}

static size_t n_compared;

int __real_ip_addr_cmp(const void *a, const void *b);
int __wrap_ip_addr_cmp(const void *a, const void *b);

int __wrap_ip_addr_cmp(const void *a, const void *b)
{
	n_compared++;
	return __real_ip_addr_cmp(a, b);
}

static size_t local_ready_steps(const struct model *m, size_t max)
{
	AUTO(vec_fini) struct local_ready l = { 0 };
	size_t n = 1;

	while (local_ready_step(&l, m, web(m), IPFAM_V4, max))
		n++;
	assert_int_equal(l.v.n, 200);
	return n;
}

/* Ports with the addresses of the ports before them add nothing that is sorted. */
static void test_local_ready_ports(void **state)
{
	struct str service = { 0 };
	struct str slice = { 0 };
	struct model m;

	(void)state;
	str_puts(&service, "ip=10.96.0.1");
	str_puts(&slice, "|");
	for (int i = 0; i < 50; i++) {
		str_printf(&service, " port=p%d:%d", i, 80 + i);
		str_printf(&slice, " p%d:%d", i, 8080 + i);
	}
	str_puts(&slice, " |");
	for (int i = 1; i <= 200; i++)
		str_printf(&slice, "%s %d rs @n1", i > 1 ? ";" : "", i);
	world_init(&m, "n1", NULL);
	put_slice(&m, 0, str_text(&slice));
	model_put_service(&m, test_service("shop/web", str_text(&service)), 1);
	n_compared = 0;
	assert_int_equal(service_local_ready(&m, web(&m), IPFAM_V4), 200);
	assert_in_range(n_compared, 50 * 200, 50 * 200 * 3);
	assert_int_equal(local_ready_steps(&m, 2000),
			 10); /* 201 for the port, 200 for the result */
	assert_int_equal(local_ready_steps(&m, 1), 50);
	world_fini(&m);
	str_fini(&service);
	str_fini(&slice);
}

/* --- text ----------------------------------------------------------------------------------------
 */

static void test_text(void **state)
{
	(void)state;
	for (int e = EXCLUSION_NONE; e <= EXCLUSION_SET_UNUSED; e++) {
		assert_string_not_equal(exclusion_text((enum exclusion)e), "-");
		for (int f = EXCLUSION_NONE; f < e; f++)
			assert_string_not_equal(exclusion_text((enum exclusion)e),
						exclusion_text((enum exclusion)f));
	}
	assert_string_equal(topology_text(TOPOLOGY_OFF), "off");
	assert_string_equal(topology_text(TOPOLOGY_SAME_NODE), "same node");
	assert_string_equal(topology_text(TOPOLOGY_SAME_ZONE), "same zone");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_zone_change),
		cmocka_unit_test(test_local),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_external),
		cmocka_unit_test(test_local_ready),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_local_ready_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
