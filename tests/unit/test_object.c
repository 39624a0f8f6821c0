/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "objects.h"

static int no_leaks(void **state)
{
	(void)state;
	return name_count() == 0 ? 0 : -1;
}

/* --- equality ------------------------------------------------------------- */

#define WEB "ip=10.96.0.1 port=http:80 port=dns/UDP:53:30053 "

static const struct {
	const char *name;
	const char *a;
	const char *b;
	bool is_equal;
} service_cases[] = {
	{ "IN-13, T-010: the same", WEB "vip=192.0.2.1 affinity=10",
	  WEB "vip=192.0.2.1 affinity=10", true },
	{ "IN-32: order of external IPs", WEB "ext=192.0.2.1 ext=192.0.2.2",
	  WEB "ext=192.0.2.2 ext=192.0.2.1", true },
	{ "IN-32: order of ingress", WEB "vip=192.0.2.1 vip=192.0.2.2 proxy=192.0.2.1",
	  WEB "proxy=192.0.2.1 vip=192.0.2.2 vip=192.0.2.1", true },
	{ "IN-32: order of source ranges", WEB "range=10.0.0.0/8 range=2001:db8::/32",
	  WEB "range=2001:db8::/32 range=10.0.0.0/8", true },
	{ "order of ports is shown", "ip=10.96.0.1 port=a:1 port=b:2",
	  "ip=10.96.0.1 port=b:2 port=a:1", false },
	{ "cluster IP", "ip=10.96.0.1 port=a:1", "ip=10.96.0.2 port=a:1", false },
	{ "second family", "ip=10.96.0.1 port=a:1", "ip=10.96.0.1 ip=fd00::1 port=a:1", false },
	{ "type", "type=NodePort ip=10.96.0.1 port=a:1", "ip=10.96.0.1 port=a:1", false },
	{ "port number", "ip=10.96.0.1 port=a:1", "ip=10.96.0.1 port=a:2", false },
	{ "port name", "ip=10.96.0.1 port=a:1", "ip=10.96.0.1 port=b:1", false },
	{ "protocol", "ip=10.96.0.1 port=a:1", "ip=10.96.0.1 port=a/UDP:1", false },
	{ "node port", "ip=10.96.0.1 port=a:1:30000", "ip=10.96.0.1 port=a:1:30001", false },
	{ "fewer ports", "ip=10.96.0.1 port=a:1 port=b:2", "ip=10.96.0.1 port=a:1", false },
	{ "external IP", WEB "ext=192.0.2.1", WEB "ext=192.0.2.2", false },
	{ "external IP twice and another", WEB "ext=192.0.2.1 ext=192.0.2.1 ext=192.0.2.2",
	  WEB "ext=192.0.2.1 ext=192.0.2.2 ext=192.0.2.2", false },
	{ "T-021: ipMode", WEB "vip=192.0.2.1", WEB "proxy=192.0.2.1", false },
	{ "source range", WEB "range=10.0.0.0/8", WEB "range=10.0.0.0/9", false },
	{ "SVC-23: bad range", WEB "bad", WEB, false },
	{ "SVC-15: address left out", WEB "left-out", WEB, false },
	{ "ITP", WEB "itp", WEB, false },
	{ "ETP", WEB "etp", WEB, false },
	{ "headless", WEB "headless", WEB, false },
	{ "T-007: proxy name label", WEB "label", WEB, false },
	{ "affinity", WEB "affinity=10", WEB "affinity=11", false },
	{ "T-025: health check node port", WEB "hc=345", WEB "hc=346", false },
	{ "SEL-14: creation time", WEB "created=1", WEB "created=2", false },
};

static void test_service_equality(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(service_cases); i++) {
		AUTO(service_close)
		struct service *a = test_service("shop/web", service_cases[i].a);
		AUTO(service_close)
		struct service *b = test_service("shop/web", service_cases[i].b);

		print_message("    %s\n", service_cases[i].name);
		service_normalise(a);
		service_normalise(b);
		assert_int_equal(service_is_equal(a, b), service_cases[i].is_equal);
		assert_int_equal(service_is_equal(b, a), service_cases[i].is_equal);
		assert_true(service_is_equal(a, a));
	}
}

static const struct {
	const char *name;
	const char *a;
	const char *b;
	bool is_equal;
} slice_cases[] = {
	{ "IN-13, T-010: the same", "| http:80 | 1 rs @n1 +a ~p1; 2 rs",
	  "| http:80 | 1 rs @n1 +a ~p1; 2 rs", true },
	{ "IN-32, T-042: order of endpoints", "| http:80 | 1 rs; 2 s t; 3",
	  "| http:80 | 3; 1 rs; 2 s t", true },
	{ "IN-32: order of ports", "| a:1 b:2 a/UDP:1 | 1 rs", "| a/UDP:1 b:2 a:1 | 1 rs", true },
	{ "IN-32: order of hints", "| a:1 | 1 rs +a +b %n1 %n2", "| a:1 | 1 rs +b +a %n2 %n1",
	  true },
	{ "IN-32: order of duplicates", "| a:1 | 1 rs ~p; 1 s t ~q", "| a:1 | 1 s t ~q; 1 rs ~p",
	  true },
	{ "versions do not count", "version=1 | a:1 | 1 rs", "version=2 | a:1 | 1 rs", true },
	{ "trigger times do not count", "trigger=1 | a:1 | 1 rs", "trigger=2 | a:1 | 1 rs", true },
	{ "both empty", "| |", "| |", true },
	{ "T-041: port number", "| a:1 | 1 rs", "| a:2 | 1 rs", false },
	{ "T-041: port name", "| a:1 | 1 rs", "| b:1 | 1 rs", false },
	{ "protocol", "| a:1 | 1 rs", "| a/UDP:1 | 1 rs", false },
	{ "T-041: endpoint added", "| a:1 | 1 rs", "| a:1 | 1 rs; 2 rs", false },
	{ "address", "| a:1 | 1 rs", "| a:1 | 2 rs", false },
	{ "ready", "| a:1 | 1 rs", "| a:1 | 1 s", false },
	{ "serving", "| a:1 | 1 rs", "| a:1 | 1 r", false },
	{ "terminating", "| a:1 | 1 rs", "| a:1 | 1 rst", false },
	{ "node", "| a:1 | 1 rs @n1", "| a:1 | 1 rs @n2", false },
	{ "node gone", "| a:1 | 1 rs @n1", "| a:1 | 1 rs", false },
	{ "pod", "| a:1 | 1 rs ~p1", "| a:1 | 1 rs ~p2", false },
	{ "pod gone", "| a:1 | 1 rs ~p1", "| a:1 | 1 rs", false },
	{ "zone hint", "| a:1 | 1 rs +a", "| a:1 | 1 rs +b", false },
	{ "one zone hint more", "| a:1 | 1 rs +a", "| a:1 | 1 rs +a +b", false },
	{ "node hint", "| a:1 | 1 rs %n1", "| a:1 | 1 rs", false },
	{ "hint of the other kind", "| a:1 | 1 rs %a", "| a:1 | 1 rs +a", false },
	{ "swapped between endpoints", "| a:1 | 1 rs @n1; 2 rs @n2", "| a:1 | 1 rs @n2; 2 rs @n1",
	  false },
	{ "family", "| a:1 |", "v6 | a:1 |", false },
};

static void test_slice_equality(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(slice_cases); i++) {
		AUTO(slice_close) struct slice *a = test_slice("shop/x", "web", slice_cases[i].a);
		AUTO(slice_close) struct slice *b = test_slice("shop/x", "web", slice_cases[i].b);

		print_message("    %s\n", slice_cases[i].name);
		slice_normalise(a);
		slice_normalise(b);
		assert_int_equal(slice_is_equal(a, b), slice_cases[i].is_equal);
		assert_int_equal(slice_is_equal(b, a), slice_cases[i].is_equal);
		assert_true(slice_is_equal(a, a));
	}
}

/* IN-36: the service a slice belongs to is part of it. */
static void test_slice_service(void **state)
{
	AUTO(slice_close) struct slice *a = test_slice("shop/x", "web", "| a:1 | 1 rs");
	AUTO(slice_close) struct slice *b = test_slice("shop/x", "api", "| a:1 | 1 rs");

	(void)state;
	assert_false(slice_is_equal(a, b));
}

static const struct {
	const char *name;
	const char *a;
	const char *b;
	bool is_equal;
} node_cases[] = {
	{ "the same", "zone=a addr=10.0.0.1 pods=10.1.0.0/24",
	  "zone=a addr=10.0.0.1 pods=10.1.0.0/24", true },
	{ "order of pod CIDRs", "pods=10.1.0.0/24 pods=fd00::/64",
	  "pods=fd00::/64 pods=10.1.0.0/24", true },
	{ "LIFE-12: order of addresses", "addr=10.0.0.1 addr=10.0.0.2",
	  "addr=10.0.0.2 addr=10.0.0.1", false },
	{ "zone", "zone=a", "zone=b", false },
	{ "no zone", "zone=a", "", false },
	{ "addresses", "addr=10.0.0.1", "", false },
	{ "HC-08: deleting", "deleting", "", false },
	{ "HC-08: taint", "taint", "", false },
};

static void test_node_equality(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(node_cases); i++) {
		AUTO(node_close) struct node *a = test_node("n1", node_cases[i].a);
		AUTO(node_close) struct node *b = test_node("n1", node_cases[i].b);

		print_message("    %s\n", node_cases[i].name);
		node_normalise(a);
		node_normalise(b);
		assert_int_equal(node_is_equal(a, b), node_cases[i].is_equal);
		assert_int_equal(node_is_equal(b, a), node_cases[i].is_equal);
	}
}

/* --- normal form ------------------------------------------------------------ */

/* Sorted, without spare memory, complete; a second call changes nothing. */
static void test_normalise(void **state)
{
	AUTO(slice_close)
	struct slice *s = test_slice(
		"shop/x", "web", "| b:2 a/UDP:1 a:1 | 3 rs ~p3; 1 s t; 10.0.0.9 rs ~p9; 1 rs ~p1");

	(void)state;
	for (int round = 0; round < 2; round++) {
		slice_normalise(s);
		assert_int_equal(s->endpoints.n, 4);
		assert_int_equal(s->endpoints.cap, 4);
		assert_string_equal(s->endpoints.v[0].pod, "p9");
		assert_string_equal(s->endpoints.v[1].pod, "p1"); /* ready before terminating */
		assert_null(s->endpoints.v[2].pod);
		assert_string_equal(s->endpoints.v[3].pod, "p3");
		assert_int_equal(s->ports.cap, 3);
		assert_int_equal(s->ports.v[0].proto, L4PROTO_TCP);
		assert_int_equal(s->ports.v[1].proto, L4PROTO_UDP);
		assert_int_equal(s->ports.v[2].port, 2);
	}
}

/* The order is total: for any three endpoints it is antisymmetric and transitive. */
static void test_endpoint_order(void **state)
{
	AUTO(slice_close)
	struct slice *s =
		test_slice("shop/x", "web",
			   "| a:1 | 1 rs; 1 r; 1 s; 1; 1 rst; 1 st; 1 t; 1 rs @n1; 1 rs @n2;"
			   "1 rs ~p; 1 rs @n1 ~p; 1 rs +a; 1 rs +b; 1 rs +a +b; 1 rs %a;"
			   "1 rs %a +a; 2 rs; 2; 10.0.0.1 rs; 1 rs");
	size_t n = s->endpoints.n;
	size_t ties = 0;

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			int ij = slice_endpoint_cmp(&s->endpoints.v[i], &s->endpoints.v[j]);
			int ji = slice_endpoint_cmp(&s->endpoints.v[j], &s->endpoints.v[i]);

			assert_int_equal((ij > 0) - (ij < 0), (ji < 0) - (ji > 0));
			ties += i != j && ij == 0;
			for (size_t k = 0; k < n; k++)
				if (ij <= 0 &&
				    slice_endpoint_cmp(&s->endpoints.v[j], &s->endpoints.v[k]) <= 0)
					assert_true(slice_endpoint_cmp(&s->endpoints.v[i],
								       &s->endpoints.v[k]) <= 0);
		}
	assert_int_equal(ties, 2); /* only the last one equals the first */
}

/* Among many ports with names in no order; two ports may have one name and protocol. */
static void test_port_find(void **state)
{
	AUTO(slice_close)
	struct slice *s = test_slice("shop/x", "web", "| n7:9 n7:3 n7/UDP:4 | 1 rs");
	const struct name *name;
	const struct slice_port *p;
	char text[16];

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "n%d", i * 7 % 300);
		if (i * 7 % 300 != 7)
			*vec_push(&s->ports) = (struct slice_port){ .name = name_get_str(text),
								    .proto = L4PROTO_TCP,
								    .port = (uint16_t)i };
	}
	slice_normalise(s);
	for (int i = 0; i < 302; i++) {
		snprintf(text, sizeof(text), "n%d", i);
		name = name_get_str(text);
		p = slice_port_find(s, name, L4PROTO_TCP);
		assert_int_equal(p != NULL, i < 300);
		assert_true(p == NULL || p->name == name);
		p = slice_port_find(s, name, L4PROTO_UDP);
		assert_int_equal(p != NULL, i == 7);
		name_unref(name);
	}
	name = name_get_str("n7");
	p = slice_port_find(s, name, L4PROTO_TCP);
	assert_int_equal(p[0].port, 3);
	assert_int_equal(p[1].port, 9);
	name_unref(name);
}

/* Ports by number: those of one number by name, and few comparisons for any. */
static void test_port_at(void **state)
{
	AUTO(slice_close)
	struct slice *s = test_slice("shop/x", "web", "| b:70 c/UDP:70 a:70 d:65535 | 1 rs");
	const struct slice_port *p;
	uint64_t work = 0;
	char text[16];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof(text), "n%d", i);
		*vec_push(&s->ports) =
			(struct slice_port){ .name = name_get_str(text),
					     .proto = L4PROTO_TCP,
					     .port = (uint16_t)(1000 + i * 7 % 2000) };
	}
	slice_normalise(s);
	for (size_t i = 0; i < 3; i++) {
		p = slice_port_at(s, L4PROTO_TCP, 70, i, &work);
		assert_int_equal(p != NULL, i < 2);
		assert_true(p == NULL || strcmp(p->name->text, i == 0 ? "a" : "b") == 0);
	}
	assert_string_equal(slice_port_at(s, L4PROTO_UDP, 70, 0, &work)->name->text, "c");
	assert_string_equal(slice_port_at(s, L4PROTO_TCP, 65535, 0, &work)->name->text, "d");
	assert_null(slice_port_at(s, L4PROTO_UDP, 70, 1, &work));
	assert_null(slice_port_at(s, L4PROTO_UDP, 1000, 0, &work));
	assert_null(slice_port_at(s, L4PROTO_SCTP, 70, 0, &work));
	work = 0;
	for (uint16_t port = 1000; port < 3000; port++)
		assert_int_equal(slice_port_at(s, L4PROTO_TCP, port, 0, &work)->port, port);
	assert_in_range(work, 2000, 2000 * 11);
	vec_for_each (of, &s->ports)
		name_unref(of->name);
	vec_clear(&s->ports);
	slice_normalise(s);
	assert_null(slice_port_at(s, L4PROTO_TCP, 70, 0, &work));
}

static void test_close_null(void **state)
{
	(void)state;
	service_close(NULL);
	slice_close(NULL);
	node_close(NULL);
	service_cidr_close(NULL);
	service_close(object_open(OBJECT_KIND_SERVICE).service);
	slice_close(object_open(OBJECT_KIND_SLICE).slice);
	node_close(object_open(OBJECT_KIND_NODE).node);
	service_cidr_close(object_open(OBJECT_KIND_SERVICE_CIDR).cidr);
}

/* --- places ------------------------------------------------------------------- */

/* `zones` and `nodes`: names of one letter each. */
static struct slice_place *place(const char *node, const char *zones, const char *nodes)
{
	const struct name *names[2][HINTS_MAX];
	struct hints h[2] = { { names[0], 0 }, { names[1], 0 } };

	for (; *zones != '\0'; zones++)
		names[0][h[0].n++] = name_get(zones, 1);
	for (; *nodes != '\0'; nodes++)
		names[1][h[1].n++] = name_get(nodes, 1);
	return slice_place_make(node ? name_get_str(node) : NULL, NULL, h[0], h[1]);
}

/* EPS-13: hints are sets; equal places are stored once. */
static void test_places(void **state)
{
	struct slice_place *none = place(NULL, "", "");
	struct slice_place *ab = place("n", "ab", "");
	struct slice_place *ba = place("n", "bab", "");
	struct slice_place *other[] = { place("n", "a", "b"), place("n", "", "ab"),
					place("n", "a", ""), place("m", "ab", ""),
					place(NULL, "ab", "") };
	const struct name *name_a = name_get_str("a");
	const struct name *name_b = name_get_str("b");
	const struct name *upper = name_get_str("A");

	(void)state;
	assert_ptr_equal(ab, ba);
	assert_int_equal(ab->refs, 2);
	assert_int_equal(ab->zones.n, 2);
	assert_ptr_equal(ab->zones.names[0], name_a);
	assert_int_equal(none->zones.n + none->nodes.n, 0);
	assert_null(none->node);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		assert_int_equal(other[i]->refs, 1);
		assert_ptr_not_equal(other[i], ab);
	}
	assert_true(hints_contain(&ab->zones, name_b));
	assert_false(hints_contain(&ab->nodes, name_b));
	assert_true(hints_contain(&other[0]->nodes, name_b));
	assert_false(hints_contain(&other[2]->zones, name_b));
	assert_false(hints_contain(&ab->zones, upper)); /* POL-21: case counts */
	assert_false(hints_contain(&none->zones, name_a));
	assert_false(hints_contain(&ab->zones, NULL));
	slice_place_unref(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		slice_place_unref(other[i]);
	slice_place_unref(none);
	slice_place_unref(ab);
	slice_place_unref(ba);
	assert_int_equal(name_count(), 3);
	name_unref(name_a);
	name_unref(name_b);
	name_unref(upper);
	none = place(NULL, "", ""); /* the table works again when empty */
	assert_int_equal(none->refs, 1);
	slice_place_unref(none);
}

/* --- text ------------------------------------------------------------------------ */

static void test_text(void **state)
{
	(void)state;
	assert_int_equal(l4proto_parse("TCP"), L4PROTO_TCP);
	assert_int_equal(l4proto_parse("UDP"), L4PROTO_UDP);
	assert_int_equal(l4proto_parse("SCTP"), L4PROTO_SCTP);
	assert_int_equal(l4proto_parse(""), L4PROTO_TCP); /* SEL-13 */
	assert_int_equal(l4proto_parse(NULL), L4PROTO_TCP);
	assert_int_equal(l4proto_parse("tcp"), L4PROTO_UNSET);
	assert_int_equal(l4proto_parse("ICMP"), L4PROTO_UNSET);
	assert_string_equal(l4proto_text(L4PROTO_TCP), "TCP");
	assert_string_equal(l4proto_text(L4PROTO_UDP), "UDP");
	assert_string_equal(l4proto_text(L4PROTO_SCTP), "SCTP");
	assert_string_equal(l4proto_text(0), "-");
	assert_string_equal(l4proto_text(1), "-");
	assert_string_equal(service_type_text(SERVICE_TYPE_LOADBALANCER), "LoadBalancer");
	assert_string_equal(service_type_text(SERVICE_TYPE_UNSET), "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_service_equality, no_leaks),
		cmocka_unit_test_teardown(test_slice_equality, no_leaks),
		cmocka_unit_test_teardown(test_slice_service, no_leaks),
		cmocka_unit_test_teardown(test_node_equality, no_leaks),
		cmocka_unit_test_teardown(test_normalise, no_leaks),
		cmocka_unit_test_teardown(test_endpoint_order, no_leaks),
		cmocka_unit_test_teardown(test_port_find, no_leaks),
		cmocka_unit_test_teardown(test_port_at, no_leaks),
		cmocka_unit_test_teardown(test_close_null, no_leaks),
		cmocka_unit_test_teardown(test_places, no_leaks),
		cmocka_unit_test_teardown(test_text, no_leaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
