/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Exact requests to the server (sections 1.1 and 1.2 of doc/behaviour.md). */
#include "source/kube/query.h"

#include "test.h"

#define SERVICES                                                       \
	"labelSelector=%21service.kubernetes.io%2Fservice-proxy-name&" \
	"fieldSelector=spec.clusterIP%21%3DNone"
#define SLICES "labelSelector=%21service.kubernetes.io%2Fheadless"

static const struct {
	const char *name;
	enum object_kind kind;
	struct kube_query q;
	const char *want;
} cases[] = {
	{ "the first list, from what the server has at hand",
	  OBJECT_KIND_SERVICE,
	  { KUBE_QUERY_LIST, .version = "" },
	  "/api/v1/services?limit=1000&resourceVersion=0&" SERVICES },
	{ "a later list, nothing older",
	  OBJECT_KIND_SLICE,
	  { KUBE_QUERY_LIST, .version = "77" },
	  "/apis/discovery.k8s.io/v1/endpointslices?resourceVersion=77&"
	  "resourceVersionMatch=NotOlderThan&" SLICES },
	{ "a server without a cache: in pages",
	  OBJECT_KIND_SLICE,
	  { KUBE_QUERY_LIST, .version = "77", .has_no_cache = true },
	  "/apis/discovery.k8s.io/v1/endpointslices?limit=1000&resourceVersion=77&"
	  "resourceVersionMatch=NotOlderThan&" SLICES },
	{ "any version, from etcd: in pages",
	  OBJECT_KIND_SLICE,
	  { KUBE_QUERY_LIST, .version = "77", .is_version_lost = true },
	  "/apis/discovery.k8s.io/v1/endpointslices?limit=1000&" SLICES },
	{ "the next page: the token says the rest",
	  OBJECT_KIND_SLICE,
	  { KUBE_QUERY_LIST, .version = "77", .next = "a/b+c=" },
	  "/apis/discovery.k8s.io/v1/endpointslices?limit=1000&continue=a%2Fb%2Bc%3D&" SLICES },
	{ "a token expired: in one piece",
	  OBJECT_KIND_SLICE,
	  { KUBE_QUERY_LIST, .version = "77", .is_unpaged = true, .is_version_lost = true },
	  "/apis/discovery.k8s.io/v1/endpointslices?" SLICES },
	{ "the first watch-list (IN-09)",
	  OBJECT_KIND_NODE,
	  { KUBE_QUERY_WATCH_LIST, .version = "", .node = "n 1", .timeout_s = 300 },
	  "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&"
	  "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
	  "fieldSelector=metadata.name%3Dn%201" },
	{ "a later one",
	  OBJECT_KIND_SERVICE_CIDR,
	  { KUBE_QUERY_WATCH_LIST, .version = "77", .timeout_s = 600 },
	  "/apis/networking.k8s.io/v1/servicecidrs?watch=1&allowWatchBookmarks=true&"
	  "timeoutSeconds=600&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
	  "resourceVersion=77" },
	{ "after a restored backup",
	  OBJECT_KIND_SERVICE_CIDR,
	  { KUBE_QUERY_WATCH_LIST, .version = "77", .is_version_lost = true, .timeout_s = 600 },
	  "/apis/networking.k8s.io/v1/servicecidrs?watch=1&allowWatchBookmarks=true&"
	  "timeoutSeconds=600&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" },
	{ "a watch (IN-10), at an older server",
	  OBJECT_KIND_SERVICE_CIDR,
	  { KUBE_QUERY_WATCH, .version = "77", .is_old_path = true, .timeout_s = 450 },
	  "/apis/networking.k8s.io/v1beta1/servicecidrs?watch=1&allowWatchBookmarks=true&"
	  "timeoutSeconds=450&resourceVersion=77" },
	{ "a list without the field selector, for servers before 1.31 (IN-03)",
	  OBJECT_KIND_SERVICE,
	  { KUBE_QUERY_LIST, .version = "", .is_unselected = true },
	  "/api/v1/services?limit=1000&resourceVersion=0&"
	  "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name" },
	{ "an odd version cannot add parameters",
	  OBJECT_KIND_SERVICE_CIDR,
	  { KUBE_QUERY_WATCH, .version = "7&watch=0#\xff", .timeout_s = 1 },
	  "/apis/networking.k8s.io/v1/servicecidrs?watch=1&allowWatchBookmarks=true&"
	  "timeoutSeconds=1&resourceVersion=7%26watch%3D0%23%FF" },
};

static void test_text(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kube_query q = cases[i].q;
		struct str s = { 0 };

		print_message("    %s\n", cases[i].name);
		q.resource = kube_resource(cases[i].kind);
		kube_query_text(&s, &q);
		assert_string_equal(s.text, cases[i].want);
		str_fini(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_text) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
