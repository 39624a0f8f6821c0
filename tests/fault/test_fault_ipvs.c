/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault-ipvs: IPVS has no transactions, so the ipvs plane may die between any two
 * messages. Wherever it does, every frontend that is served before and after the change
 * leads to a virtual service with a backend that gets connections; the next life makes
 * everything right, and the one after that has nothing to write. A life may count less or
 * more than the one before it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/name.h"
#include "fake/fake.h"
#include "fake/ipvs.h"
#include "nft/decode.h"
#include "objects.h"
#include "plane/ipvs/plane_ipvs.h"
#include "sync/sync.h"
#include "test.h"

#define STEPS_MAX 20000
#define CUTS_MAX 400

static uint32_t clock_s;
static enum plane_counting counting; /* of lives that begin */

static uint32_t clock_now(void)
{
	return clock_s;
}

struct world {
	struct fake *nft;
	struct fake_ipvs *ipvs;
	struct model m;
	struct plan p;
	struct plane *plane;
	struct sync *s;
	uint64_t now;
};

/* --- lives --- */

static void model_make(struct model *m)
{
	struct ip_addr addrs[] = { test_addr("192.168.0.1"), test_addr("fd01::1") };

	model_init(m);
	m->config.node_name = name_get_str("n1");
	m->config.detect_local = DETECT_LOCAL_NODE_CIDR;
	m->config.has_nodeport_cidrs = true;
	*vec_push(&m->config.nodeport_cidrs) = test_prefix("192.168.0.0/24");
	*vec_push(&m->config.service_cidrs) = test_prefix("10.96.0.0/12");
	model_configured(m);
	model_put_node(m, test_node("n1", "addr=192.168.0.1 pods=10.0.0.0/16"), 1);
	model_put_host_addrs(m, addrs, ARRAY_SIZE(addrs), 0, 1);
}

static void life_begin(struct world *w)
{
	struct ipvs_config config = { .drain_s = 60, .now_s = clock_now, .counting = counting };
	struct sync_config sync = { 0 };
	struct ipvs_socks socks = { .nft = fake_connect(w->nft),
				    .query = fake_connect(w->nft),
				    .genl = fake_ipvs_connect(w->ipvs),
				    .route = fake_ipvs_connect_route(w->ipvs),
				    .large = fake_ipvs_connect(w->ipvs) };

	model_make(&w->m);
	assert_int_equal(ipvs_plane_open(&w->plane, &socks, &config, NULL), 0);
	plan_init(&w->p, &w->m, &w->plane->ops->traits);
	sync_open(&w->s, &w->m, &w->p, w->plane, &sync);
}

static void life_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	w->plane->ops->close(w->plane);
	model_fini(&w->m);
}

static void world_begin(struct world *w)
{
	*w = (struct world){ .now = NSEC_PER_SEC };
	clock_s = 1000000;
	fake_open(&w->nft);
	fake_ipvs_open(&w->ipvs);
	life_begin(w);
}

static void world_end(struct world *w)
{
	life_end(w);
	fake_ipvs_close(w->ipvs);
	fake_close(w->nft);
}

/* Run until nothing is pending, or until the first rejected message simulates a kill. */
static bool settle(struct world *w)
{
	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t next = sync_step(w->s, w->now);

		if (fake_ipvs_is_cut(w->ipvs) || sync_stats_get(w->s)->last_error[0] != '\0')
			return false;
		if (next == SYNC_NOW)
			continue;
		if (sync_state_get(w->s) == SYNC_RUNNING && list_is_empty(&w->m.dirty))
			return true;
		w->now = next;
	}
	fail_msg("no rest: %s", sync_stats_get(w->s)->last_error);
	return false;
}

/* Let seconds pass; backends without connections are deleted. */
static void pass(struct world *w, uint32_t seconds)
{
	for (uint32_t i = 0; i < seconds; i++) {
		clock_s++;
		w->now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
		(void)w->plane->ops->tick(w->plane, w->now);
	}
}

/* --- states --- */

static void put(struct model *m, const char *name, const char *service, const char *slice)
{
	char key[64];
	char slice_key[80];

	(void)snprintf(key, sizeof(key), "shop/%s", name);
	(void)snprintf(slice_key, sizeof(slice_key), "shop/%s-1", name);
	model_put_service(m, test_service(key, service), 1);
	model_put_slice(m, test_slice(slice_key, name, slice), 1);
}

/*
 * Services whose endpoints, kind, affinity, weights, forwarding and addresses change; one is
 * deleted, one is added.
 */
static void state_first(struct model *m)
{
	put(m, "web", "ip=10.96.0.10 port=http:80", "| http:8080 | 1 rs; 2 rs; 3 rs");
	put(m, "all", "ip=10.96.0.11 port=http:80", "| http:8080 | 1 rs; 2 rs");
	put(m, "sticky", "type=LoadBalancer ip=10.96.0.12 port=http:80 ext=192.0.2.1 affinity=600",
	    "| http:8080 | 4 rs; 5 rs");
	put(m, "turns", "ip=10.96.0.13 port=http:80", "| http:8080 | 6 rs; 7 rs");
	put(m, "back", "ip=10.96.0.14 port=http:80 affinity=60", "| http:8080 | 8 rs");
	put(m, "goes", "ip=10.96.0.15 port=http:80", "| http:8080 | 1 rs");
	put(m, "weighs", "ip=10.96.0.17 port=http:80 sched=wrr weights=10.0.1.1=3,10.0.1.2=0",
	    "| http:8080 | 1 rs; 2 rs; 3 rs");
	put(m, "direct", "ip=10.96.0.18 port=http:80 ext=192.0.2.2 fwd=route",
	    "| http:80 | 1 rs; 2 rs");
	put(m, "turns-direct", "ip=10.96.0.19 port=http:80 ext=192.0.2.3",
	    "| http:80 | 1 rs; 2 rs");
	put(m, "turns-back", "ip=10.96.0.20 port=http:80 ext=192.0.2.4 fwd=tunnel",
	    "| http:80 | 1 rs; 2 rs");
}

static void state_second(struct model *m)
{
	const struct name *ns = name_get_str("shop");
	const struct name *name = name_get_str("goes");

	put(m, "web", "ip=10.96.0.10 port=http:80", "| http:8080 | 1 rs; 2 st; 4 rs");
	put(m, "all", "ip=10.96.0.11 port=http:80", "| http:8080 | 8 rs; 9 rs");
	put(m, "sticky", "type=LoadBalancer ip=10.96.0.12 port=http:80 ext=192.0.2.1 affinity=90",
	    "| http:8080 | 5 rs; 6 rs");
	put(m, "turns", "ip=10.96.0.13 port=http:80 affinity=60", "| http:8080 | 7 rs; 8 rs");
	put(m, "back", "ip=10.96.0.14 port=http:80", "| http:8080 | 8 rs; 9 rs");
	put(m, "comes", "ip=10.96.0.16 port=http:80", "| http:8080 | 1 rs");
	put(m, "weighs", "ip=10.96.0.17 port=http:80 sched=mh weights=10.0.1.1=0,10.0.1.2=5",
	    "| http:8080 | 1 rs; 2 rs; 3 rs");
	put(m, "direct", "ip=10.96.0.18 port=http:80 ext=192.0.2.2 fwd=tunnel,gue",
	    "| http:80 | 2 rs; 3 rs");
	put(m, "turns-direct", "ip=10.96.0.19 port=http:80 ext=192.0.2.3 fwd=route",
	    "| http:80 | 1 rs; 2 rs");
	put(m, "turns-back", "ip=10.96.0.20 port=http:80 ext=192.0.2.4", "| http:80 | 1 rs; 2 rs");
	model_del_service(m, ns, name, 1);
	name_unref(ns);
	name_unref(name);
}

static const char *const stable[] = { "10.96.0.10", "10.96.0.11", "10.96.0.12", "192.0.2.1",
				      "10.96.0.13", "10.96.0.14", "10.96.0.17", "192.0.2.2",
				      "192.0.2.3",  "192.0.2.4",  "10.96.0.20" };

/* --- what clients meet --- */

/* The virtual service of a frontend as text, without its name; NULL: none. */
static char *led_to(struct world *w, const char *ipvs, const char *addr)
{
	struct ip_addr a = test_addr(addr);
	uint8_t key[NFT_KEY_MAX];
	const uint8_t *data;
	char begin[80];
	const char *line;

	nft_key_tuple(key, &a, L4PROTO_TCP, 80);
	data = fake_find(w->nft, IPFAM_V4, IPVSSET_FE, key);
	if (data == NULL)
		return NULL;
	if (nft_get_word(data) == UINT32_C(0x5a000000))
		(void)snprintf(begin, sizeof(begin), "%s:80/TCP ", addr);
	else
		(void)snprintf(begin, sizeof(begin), "mark 0x%08x ", nft_get_word(data));
	line = strstr(ipvs, begin);
	if (line == NULL || (line != ipvs && line[-1] != '\n'))
		return NULL;
	line += strlen(begin);
	return xstrndup(line, strcspn(line, "\n"));
}

/* Is a weight above 0? */
static bool gets_connections(const char *line)
{
	for (const char *at = line; (at = strchr(at, '=')) != NULL; at++)
		if (at[1] != '0')
			return true;
	return false;
}

static void assert_safe(struct world *w, const char *when, size_t k)
{
	struct str ipvs = { 0 };

	fake_ipvs_print(w->ipvs, &ipvs);
	for (size_t i = 0; i < ARRAY_SIZE(stable); i++) {
		char *line = led_to(w, str_text(&ipvs), stable[i]);

		if (line == NULL || !gets_connections(line))
			fail_msg("%s after %zu messages: %s leads to %s of\n%s", when, k, stable[i],
				 line ? line : "nothing", str_text(&ipvs));
		free(line);
	}
	str_fini(&ipvs);
}

/* Targets of all frontends, and number of objects. */
static char *picture(struct world *w)
{
	static const char *const others[] = { "10.96.0.15", "10.96.0.16" };
	struct str ipvs = { 0 };
	struct str out = { 0 };
	size_t n = 0;

	fake_ipvs_print(w->ipvs, &ipvs);
	for (size_t i = 0; i < ARRAY_SIZE(stable) + ARRAY_SIZE(others); i++) {
		const char *addr =
			i < ARRAY_SIZE(stable) ? stable[i] : others[i - ARRAY_SIZE(stable)];
		char *line = led_to(w, str_text(&ipvs), addr);

		str_printf(&out, "%s: %s\n", addr, line ? line : "nowhere");
		free(line);
	}
	for (const char *c = str_text(&ipvs); *c != '\0'; c++)
		n += *c == '\n';
	str_printf(&out, "%zu virtual services\n", n);
	str_fini(&ipvs);
	return out.text;
}

/* --- the test --- */

static void first_settled(struct world *w)
{
	world_begin(w);
	state_first(&w->m);
	sync_sources_ready(w->s);
	assert_true(settle(w));
}

/* Restart over the present kernel state. */
static void life_again(struct world *w)
{
	life_end(w);
	fake_ipvs_cut(w->ipvs, SIZE_MAX);
	fake_calm(w->nft);
	life_begin(w);
	state_second(&w->m);
	sync_sources_ready(w->s);
	assert_true(settle(w));
}

static void assert_right(struct world *w, const char *want, const char *when, size_t k)
{
	char *got;

	counting = k / 3 % 3;
	life_again(w);
	assert_safe(w, when, k);
	pass(w, 3);
	got = picture(w);
	if (strcmp(got, want) != 0)
		print_message("%s after %zu messages\n", when, k);
	assert_string_equal(got, want);
	free(got);
	fake_ipvs_writes_reset(w->ipvs);
	fake_count_reset(w->nft);
	life_again(w);
	assert_int_equal(fake_ipvs_writes(w->ipvs), 0);
	assert_int_equal(fake_count(w->nft).n_messages, 0);
}

static char *wanted(void)
{
	struct world w;
	char *text;

	first_settled(&w);
	state_second(&w.m);
	assert_true(settle(&w));
	pass(&w, 3);
	text = picture(&w);
	print_message("%s", text);
	world_end(&w);
	return text;
}

/* With is_nft_dead its nf_tables transaction fails, too: killed directly before it. */
static size_t cut_everywhere(const char *want, const char *when, bool is_nft_dead)
{
	size_t k;

	for (k = 0; k < CUTS_MAX; k++) {
		struct world w;
		bool is_done;

		counting = k % 3;
		first_settled(&w);
		assert_safe(&w, "before", k);
		fake_ipvs_cut(w.ipvs, k);
		if (is_nft_dead)
			fake_fail_send(w.nft, 1, EPERM);
		state_second(&w.m);
		is_done = settle(&w);
		assert_safe(&w, when, k);
		assert_right(&w, want, when, k);
		world_end(&w);
		if (is_done || (is_nft_dead && k > 60))
			break;
	}
	return k;
}

static void test_cut_after_every_message(void **state)
{
	char *want = wanted();
	size_t n;

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	n = cut_everywhere(want, "cut", false);
	print_message("    %zu messages, cut after each\n", n);
	assert_in_range(n, 20, CUTS_MAX - 1);
	(void)cut_everywhere(want, "cut, nf_tables unchanged", true);
	free(want);
}

/* The first process over an empty kernel: every frontend with a target is served. */
static void test_cut_at_first(void **state)
{
	char *want = wanted();

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	for (size_t k = 0; k < CUTS_MAX; k++) {
		struct world w;
		bool is_done;

		counting = k % 3;
		world_begin(&w);
		fake_ipvs_cut(w.ipvs, k);
		state_second(&w.m);
		sync_sources_ready(w.s);
		is_done = settle(&w);
		assert_right(&w, want, "cut at first", k);
		world_end(&w);
		if (is_done)
			break;
	}
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_after_every_message),
		cmocka_unit_test(test_cut_at_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
