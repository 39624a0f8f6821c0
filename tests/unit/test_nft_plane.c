/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The nftables plane over a fake kernel. tests/kernel runs the shared cases over a real one. */
#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sync_steps.h"
#include "base/hash.h"
#include "base/log.h"
#include "fake/fake.h"
#include "nft/decode.h"
#include "nft/elem.h"
#include "nft_cases.h"
#include "nft_large.h"
#include "nl/dump.h"
#include "objects.h"
#include "plane/failover.h"
#include "plane/nft/loaded.h"
#include "plane/nft/state.h"
#include "test.h"

static struct nl_sock *connect_fake(void *ctx)
{
	return fake_connect(ctx);
}

static void test_shared_cases(void **state)
{
	size_t n;
	const struct nft_case *cases = nft_cases(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		AUTO(fake_close) struct fake *f = NULL;
		struct world_kernel kernel = { .connect = connect_fake };

		print_message("  %s\n", cases[i].name);
		fake_open(&f);
		kernel.ctx = f;
		cases[i].run(&kernel);
	}
}

/* BAL-01: annotations that are not in force, by name. */
static void test_remarks(void **state)
{
	static const struct {
		const char *service;
		const char *remark;
	} cases[] = {
		{ "weights=a-*=5,*=95", NULL },
		{ "", NULL },
		{ "sched=wlc,x weights=a=101 drain=10",
		  "vipd.io/scheduler: 'x' is not one of sh-fallback, sh-port, mh-fallback, mh-port: "
		  "endpoints are picked at random; "
		  "vipd.io/drain-timeout: is for the ipvs plane: connections of removed endpoints "
		  "have no time limit; "
		  "vipd.io/weights: 'a=101': allowed are an address, a name or a prefix and *, with "
		  "a weight from 0 to 100, such as web-canary-*=5: each endpoint has weight 1" },
		{ "fwd=tunnel", "vipd.io/forwarding: 'tunnel' is for the ipvs plane: connections "
				"are masqueraded" },
		{ "fwd=masquerade", NULL },
		{ "sched=rr weights=a-*=5", NULL },
		{ "sched=wrr", NULL },
		{ "sched=wrr weights=a-*=5,*=95", NULL },
		{ "sched=wrr,mh-port",
		  "vipd.io/scheduler: flag 'mh-port' is not for scheduler 'wrr': endpoints are picked "
		  "at random" },
		{ "sched=mh", NULL },
		{ "sched=mh,mh-fallback,mh-port", NULL },
		{ "sched=sh,sh-port", "vipd.io/scheduler: 'sh' is a scheduler of the ipvs plane: "
				      "mh,mh-port is in force" },
		{ "sched=mh affinity=60",
		  "vipd.io/scheduler: 'mh' is not possible with session affinity: a client keeps "
		  "the endpoint that is picked at random" },
		{ "sched=lc", "vipd.io/scheduler: 'lc' is a scheduler of the ipvs plane: endpoints "
			      "are picked at random" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct svc svc = { .service = test_service("shop/web", cases[i].service) };
		struct str text = { 0 };

		service_normalise((struct service *)svc.service);
		nft_plane_ops.remark(NULL, &svc, &text);
		if (cases[i].remark == NULL)
			assert_int_equal(text.len, 0);
		else
			assert_string_equal(str_text(&text), cases[i].remark);
		str_fini(&text);
		service_close((struct service *)svc.service);
	}
}

/* BAL-13 */
static void test_remark_of_many_sets(void **state)
{
	struct plan_pool pools[PLAN_HASH_POOLS_MAX + 1] = { 0 };
	struct plan_rows rows = { .pools = { .v = pools, .n = PLAN_HASH_POOLS_MAX } };
	struct svc svc = { .service = test_service("shop/web", "sched=mh"), .rows = &rows };
	struct str text = { 0 };

	(void)state;
	nft_plane_ops.remark(NULL, &svc, &text);
	assert_int_equal(text.len, 0);
	rows.pools.n++;
	nft_plane_ops.remark(NULL, &svc, &text);
	assert_string_equal(
		str_text(&text),
		"vipd.io/scheduler: 'mh' supports at most 32 sets of endpoints, not 33: "
		"endpoints of the other sets are picked at random");
	str_fini(&text);
	service_close((struct service *)svc.service);
}

/* BAL-04 */
static void test_remark_of_many_slots(void **state)
{
	uint16_t table[] = { 0, 1 };
	uint8_t weights[] = { 5, 95 };
	struct plan_pool pool = { .backends.n = 2, .weights = weights, .table = { table, 2, 2 } };
	struct plan_rows rows = { .pools = { .v = &pool, .n = 1 } };
	struct svc svc = { .service = test_service("shop/web", "ip=10.96.0.1 port=http:80 weights="
							       "a-*=5,*=95"),
			   .rows = &rows };
	struct str text = { 0 };

	(void)state;
	service_normalise((struct service *)svc.service);
	nft_plane_ops.remark(NULL, &svc, &text);
	assert_string_equal(str_text(&text), "vipd.io/weights: at most 65536 slots in each set of "
					     "endpoints: weights are rounded");
	str_fini(&text);
	service_close((struct service *)svc.service);
}

/* --- a plane and its kernel, without a sync in between --- */

struct bench {
	struct fake *f;
	struct world w;
	struct plan_ops ops;
	struct plane_result res;
	struct err err;
};

static void bench_open(struct bench *b)
{
	static struct world_kernel kernel;

	*b = (struct bench){ 0 };
	fake_open(&b->f);
	kernel = (struct world_kernel){ .connect = connect_fake, .ctx = b->f };
	world_open(&b->w, &kernel);
	world_settle(&b->w);
}

static void bench_close(struct bench *b)
{
	vec_fini(&b->ops.ops);
	world_close(&b->w);
	fake_close(b->f);
}

static void text_key(uint8_t key[static NFT_KEY_MAX], const char *addr, uint16_t port)
{
	struct ip_addr a;

	memset(key, 0, NFT_KEY_MAX);
	assert_int_equal(ip_addr_parse(&a, addr, NULL), 0);
	nft_key_tuple(key, &a, L4PROTO_TCP, port);
}

/* Commit the differences of all dirty services in one transaction; they stay dirty. */
static int commit_dirty(struct bench *b, enum plane_commit_mode mode)
{
	struct plan_displaced displaced = { 0 };
	VEC(struct plan_rows *) rows = { 0 };
	int r;

	vec_clear(&b->ops.ops);
	b->res = (struct plane_result){ 0 };
	b->err = (struct err){ 0 };
	list_for_each (l, &b->w.m.dirty) {
		struct svc *svc = list_entry(l, struct svc, dirty);
		struct plan_rows *new = plan_rows_build(&b->w.p, svc);

		*vec_push(&rows) = new;
		plan_rows_settle(&b->w.p, new, &displaced);
		plan_rows_number(&b->w.p, new);
		plan_diff(&b->ops, svc, svc->rows, new);
	}
	r = b->w.plane->ops->commit(b->w.plane, b->ops.ops.v, b->ops.ops.n, mode, &b->res, &b->err);
	vec_for_each (p, &rows)
		plan_rows_reject(&b->w.p, (*p)->svc, *p);
	vec_fini(&rows);
	vec_fini(&displaced.svcs);
	return r;
}

/* --- refusals --- */

static const struct {
	const char *what;
	bool no_offsets;
	bool is_alone;
	const char *culprit; /* NULL: unknown */
} refusal_cases[] = {
	{ "the kernel points at the element", false, false, "shop/b" },
	{ "it does not, and there are several", true, false, NULL },
	{ "it does not, but there is only one", true, true, "shop/b" },
};

static void test_refusal_names_culprit(void **state)
{
	uint8_t key[NFT_KEY_MAX];

	(void)state;
	text_key(key, "10.96.0.2", 80);
	for (size_t i = 0; i < ARRAY_SIZE(refusal_cases); i++) {
		struct bench b;
		char *before;
		char *after;

		print_message("    %s\n", refusal_cases[i].what);
		bench_open(&b);
		before = world_elements(&b.w);
		fake_no_offsets(b.f, refusal_cases[i].no_offsets);
		fake_refuse_key(b.f, NFTSET_FRONTENDS, key, 12, ENOSPC);
		if (!refusal_cases[i].is_alone) {
			world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80");
			world_service(&b.w, "shop/c", "ip=10.96.0.3 port=http:80");
		}
		world_service(&b.w, "shop/b", "ip=10.96.0.2 port=http:80");
		assert_int_equal(commit_dirty(&b, PLANE_COMMIT_NORMAL), -ENOSPC);
		if (refusal_cases[i].culprit != NULL)
			assert_ptr_equal(b.res.culprit, world_svc(&b.w, refusal_cases[i].culprit));
		else
			assert_null(b.res.culprit);
		if (!refusal_cases[i].no_offsets)
			assert_non_null(strstr(b.err.text, "ip frontends 10.96.0.2:80/TCP"));
		assert_int_equal(b.res.done.n_writes, 0);
		after = world_elements(&b.w);
		assert_string_equal(after, before); /* all or nothing */
		free(before);
		free(after);

		/* The sync excludes the service and programs the others; later it is accepted. */
		world_settle_refused(&b.w);
		assert_int_equal(sync_failure_count(b.w.s), 1);
		world_check(&b.w);
		fake_calm(b.f);
		world_settle(&b.w);
		world_check(&b.w);
		bench_close(&b);
	}
}

/*
 * Killed after each step while a service gets affinity and loses an address: until the sweep, the
 * old address leads to the same pool without affinity and with more slots. Then the service is
 * deleted: nothing of its pool stays.
 */
static void test_killed_before_the_sweep(void **state)
{
	bool is_done = false;

	(void)state;
	for (int n_steps = 1; !is_done; n_steps++) {
		struct bench b;

		assert_true(n_steps < 100);
		bench_open(&b);
		world_service(&b.w, "shop/a", "ip=10.96.0.1 ext=192.0.2.1 port=http:80");
		world_slice(&b.w, "shop/a-1", "a", "| http:8080 | 1 rs; 2 rs; 3 rs; 4 rs; 5 rs");
		world_settle(&b.w);
		world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80 affinity=60");
		world_slice(&b.w, "shop/a-1", "a", "| http:8080 | 1 rs; 2 rs");
		world_restart(&b.w);
		for (int i = 0; i < n_steps && !is_done; i++)
			is_done = sync_step(b.w.s, b.w.now) != SYNC_NOW;
		world_no_service(&b.w, "shop/a");
		world_no_slice(&b.w, "shop/a-1");
		world_restart(&b.w);
		world_settle(&b.w);
		world_walk(&b.w);
		world_check(&b.w);
		bench_close(&b);
	}
}

/* IN-20: a restart before Node and ServiceCIDRs are listed keeps their ranges, and the rules. */
static void test_restart_before_ranges(void **state)
{
	const struct name *name = name_get_str("a");
	struct bench b;

	(void)state;
	bench_open(&b);
	model_put_service_cidr(&b.w.m, test_service_cidr("a", "10.200.0.0/16 fd00::/112"), 1);
	world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80");
	world_settle(&b.w);
	model_del_service_cidr(&b.w.m, name, 2);
	node_close(TAKE(b.w.m.self));
	(void)model_await_node(&b.w.m, true, 2);
	(void)model_await_service_cidrs(&b.w.m, true, 2);
	world_restart(&b.w);
	assert_int_equal(world_settle(&b.w), 0);
	assert_int_equal(fake_set_size(b.f, IPFAM_V4, NFTSET_POD_CIDRS), 2);
	assert_int_equal(fake_set_size(b.f, IPFAM_V4, NFTSET_SERVICE_CIDRS), 4);
	assert_int_equal(fake_set_size(b.f, IPFAM_V6, NFTSET_SERVICE_CIDRS), 2);
	/* The lists have neither. */
	(void)model_await_node(&b.w.m, false, 3);
	(void)model_await_service_cidrs(&b.w.m, false, 3);
	assert_true(world_settle(&b.w) > 0);
	assert_int_equal(fake_set_size(b.f, IPFAM_V4, NFTSET_POD_CIDRS), 0);
	assert_int_equal(fake_set_size(b.f, IPFAM_V4, NFTSET_SERVICE_CIDRS), 2);
	assert_int_equal(fake_set_size(b.f, IPFAM_V6, NFTSET_SERVICE_CIDRS), 0);
	world_restart(&b.w);
	assert_int_equal(world_settle(&b.w), 0);
	bench_close(&b);
	name_unref(name);
}

/* The sweep deletes the slots of a pool with its last frontend, and not of many pools at once. */
static void test_sweep_of_large_pools(void **state)
{
	struct str eps = { 0 };
	size_t n_steps = 0;
	struct bench b;

	(void)state;
	bench_open(&b);
	str_puts(&eps, "| http:8080 | ");
	for (int i = 0; i < 250; i++)
		str_printf(&eps, "10.1.0.%d rs; ", i);
	for (int i = 0; i < 34; i++) {
		char name[32], slice[32], text[64];

		(void)snprintf(name, sizeof(name), "shop/s%d", i);
		(void)snprintf(slice, sizeof(slice), "shop/s%d-1", i);
		(void)snprintf(text, sizeof(text), "ip=10.96.0.%d port=http:80%s", i + 1,
			       i < 4 ? " sched=mh" : "");
		world_service(&b.w, name, text);
		world_slice(&b.w, slice, name + strlen("shop/"), str_text(&eps));
	}
	str_fini(&eps);
	world_settle(&b.w);
	world_restart(&b.w);
	for (int i = 0; i < 34; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "shop/s%d", i);
		world_no_service(&b.w, name);
	}
	while (sync_state_get(b.w.s) != SYNC_RUNNING) {
		uint64_t before = sync_stats_get(b.w.s)->writes;

		(void)sync_step(b.w.s, b.w.now);
		assert_in_range(sync_stats_get(b.w.s)->writes - before, 0, 16384 + 2 * 2048);
		n_steps += sync_stats_get(b.w.s)->writes > before;
	}
	assert_in_range(n_steps, 7, 30);
	world_settle(&b.w);
	world_walk(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

/* The sweep deletes a bounded number of elements in a step. */
static void test_sweep_in_steps(void **state)
{
	const int n_services = 3000;
	size_t n_steps = 0;
	char name[32];
	char text[64];
	struct bench b;

	(void)state;
	bench_open(&b);
	for (int i = 0; i < n_services; i++) {
		(void)snprintf(name, sizeof(name), "shop/s%d", i);
		(void)snprintf(text, sizeof(text), "ip=10.96.%d.%d port=http:80", 1 + i / 200,
			       1 + i % 200);
		world_service(&b.w, name, text);
		(void)snprintf(text, sizeof(text), "shop/s%d-1", i);
		world_slice(&b.w, text, name + strlen("shop/"), "| http:8080 | 1 rs");
	}
	world_settle(&b.w);
	world_restart(&b.w);
	for (int i = 1; i < n_services; i++) {
		(void)snprintf(name, sizeof(name), "shop/s%d", i);
		world_no_service(&b.w, name);
	}
	while (sync_state_get(b.w.s) != SYNC_RUNNING) {
		uint64_t before = sync_stats_get(b.w.s)->writes;

		(void)sync_step(b.w.s, b.w.now);
		assert_in_range(sync_stats_get(b.w.s)->writes - before, 0, 2 * 2048 + 50);
		n_steps += sync_stats_get(b.w.s)->writes > before;
	}
	assert_in_range(n_steps, 3, 30);
	world_settle(&b.w);
	world_walk(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

/* A service of an earlier process continues while its change is rejected. */
static void test_refused_while_adopting(void **state)
{
	uint8_t key[NFT_KEY_MAX];
	struct bench b;
	char *programmed;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/a-1", "a", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_service(&b.w, "shop/b", "ip=10.96.0.2 port=http:80");
	world_slice(&b.w, "shop/b-1", "b", "| http:8080 | 4 rs; 5 rs; 6 rs");
	world_settle(&b.w);
	world_slice(&b.w, "shop/b-1", "b", "| http:8080 | 4 rs; 7 rs");
	text_key(key, "10.96.0.2", 80);
	fake_refuse_key(b.f, NFTSET_FRONTENDS, key, 12, ENOSPC);
	world_restart(&b.w);
	assert_int_equal(world_settle_refused(&b.w), 0);
	world_walk(&b.w);
	programmed = world_elements(&b.w);
	assert_non_null(strstr(programmed, "ip frontends 10.96.0.2:80/TCP -> pool 2 p3\n"));
	assert_non_null(strstr(programmed, "ip endpoints pool 2 slot 2 -> 10.0.1.6:8080\n"));
	assert_non_null(strstr(programmed, "ip vips 10.96.0.2\n"));
	assert_non_null(strstr(programmed, "ip cluster_ips 10.96.0.2\n"));
	free(programmed);
	b.w.plane->ops->tick(b.w.plane, b.w.now + 2 * NFT_GRACE_S * NSEC_PER_SEC);
	programmed = world_elements(&b.w);
	assert_non_null(strstr(programmed, "ip endpoint_addrs 10.0.1.6:8080\n"));
	free(programmed);
	/* Accepted later, it gets its desired state: same pool, one slot less. */
	fake_calm(b.f);
	assert_int_equal(world_settle(&b.w), 2 + 3 + 1);
	world_walk(&b.w);
	world_check(&b.w);

	/* As above, but the service is deleted while it is rejected. */
	world_slice(&b.w, "shop/b-1", "b", "| http:8080 | 4 rs; 5 rs; 6 rs");
	text_key(key, "10.96.0.2", 80);
	fake_refuse_key(b.f, NFTSET_FRONTENDS, key, 12, ENOSPC);
	world_restart(&b.w);
	world_settle_refused(&b.w);
	assert_int_equal(sync_failure_count(b.w.s), 1);
	world_no_service(&b.w, "shop/b");
	world_no_slice(&b.w, "shop/b-1");
	world_settle(&b.w);
	world_walk(&b.w);
	world_check(&b.w);
	programmed = world_elements(&b.w);
	assert_null(strstr(programmed, "10.96.0.2"));
	free(programmed);
	bench_close(&b);
}

/* Services share addresses with one that is rejected while it is adopted, and then are deleted. */
static void test_refused_shares(void **state)
{
	uint8_t key[NFT_KEY_MAX];
	uint8_t addr[NFT_KEY_MAX];
	struct ip_addr a = test_addr("10.0.1.1");
	struct bench b;

	bench_open(&b);
	world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80 ext=192.0.2.1");
	world_slice(&b.w, "shop/a-1", "a", "| http:8080 | 1 rs; 2 rs");
	world_service(&b.w, "shop/b", "ip=10.96.0.2 port=http:81 ext=192.0.2.1");
	world_slice(&b.w, "shop/b-1", "b", "| http:8080 | 1 rs");
	world_settle(&b.w);
	world_slice(&b.w, "shop/a-1", "a", "| http:8080 | 1 rs");
	text_key(key, "192.0.2.1", 80);
	fake_refuse_key(b.f, NFTSET_FRONTENDS, key, 12, ENOSPC);
	world_restart(&b.w);
	world_settle_refused(&b.w);
	assert_int_equal(sync_failure_count(b.w.s), 1);
	world_no_service(&b.w, "shop/b");
	world_settle_refused(&b.w);
	world_wait(&b.w, NSEC_PER_SEC);
	world_wait(&b.w, 2 * NFT_GRACE_S * NSEC_PER_SEC);
	assert_int_equal(sync_failure_count(b.w.s), 1);
	assert_non_null(fake_find(b.f, IPFAM_V4, NFTSET_FRONTENDS, key));
	assert_non_null(fake_find(b.f, IPFAM_V4, NFTSET_VIPS, key));
	nft_key_endpoint(addr, &a, 8080);
	assert_non_null(fake_find(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, addr));
	fake_calm(b.f);
	world_settle(&b.w);
	world_no_service(&b.w, "shop/a");
	world_settle(&b.w);
	assert_null(fake_find(b.f, IPFAM_V4, NFTSET_VIPS, key));
	world_walk(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

/* --- the kernel holds something else --- */

static void test_stale(void **state)
{
	uint8_t slot[NFT_KEY_MAX];
	uint8_t addr[NFT_KEY_MAX];
	uint8_t front[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];
	struct ip_addr a;
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&b.w);

	/* An element to be deleted is missing; one to be added exists. */
	nft_key_slot(slot, 1, 2);
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot));
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	assert_int_equal(commit_dirty(&b, PLANE_COMMIT_NORMAL), -ESTALE);
	world_settle(&b.w);
	world_check(&b.w);

	assert_int_equal(ip_addr_parse(&a, "10.9.9.9", NULL), 0);
	nft_data_endpoint(data, &a, 99);
	fake_foreign_add(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot, data);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 4 rs");
	assert_int_equal(commit_dirty(&b, PLANE_COMMIT_NORMAL), -ESTALE);
	world_settle(&b.w);
	world_check(&b.w);

	/* The audit finds changes that no transaction meets. */
	text_key(front, "10.96.0.1", 80);
	assert_int_equal(ip_addr_parse(&a, "10.0.1.1", NULL), 0);
	nft_key_endpoint(addr, &a, 8080);
	nft_key_slot(slot, 1, 0);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_CHANGED);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_QUIET);
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot));
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_FRONTENDS, front));
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, addr));
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_VIPS, front));
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_CHANGED);
	assert_int_equal(world_audit(&b.w), 4);
	world_check(&b.w);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_QUIET);

	/* Foreign changes of an element, and a load instead of an audit. */
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot));
	fake_foreign_add(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot, data);
	assert_int_equal(world_audit(&b.w), 2);
	world_check(&b.w);
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot));
	fake_foreign_add(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot, data);
	assert_int_equal(world_reload(&b.w), 2);
	world_walk(&b.w);
	world_wait(&b.w, 2 * NFT_GRACE_S * NSEC_PER_SEC);
	world_check(&b.w);
	bench_close(&b);
}

/* A service with two endpoints is programmed, and no walk is due. */
static void bench_web(struct bench *b)
{
	bench_open(b);
	world_service(&b->w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b->w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	world_settle(&b->w);
	world_walk(&b->w);
}

/*
 * A walk after a load reads an address that is deleted before the walk's answer is processed. It is
 * written again when it is used.
 */
static void test_walk_is_stale(void **state)
{
	uint8_t addr[NFT_KEY_MAX];
	struct ip_addr a = test_addr("10.0.1.2");
	struct bench b;

	bench_web(&b);
	nft_key_endpoint(addr, &a, 8080);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs");
	world_settle(&b.w);
	world_wait(&b.w, NSEC_PER_SEC);
	b.w.now += 2 * NFT_GRACE_S * NSEC_PER_SEC;
	world_reload(&b.w);
	world_walk(&b.w);
	assert_null(fake_find(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, addr));
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, 0);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	world_settle(&b.w);
	assert_non_null(fake_find(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, addr));
	bench_close(&b);
}

/* The key of stray address number `i`. */
static void stray_key(uint8_t key[static NFT_KEY_MAX], uint32_t i)
{
	struct ip_addr a = test_addr("172.16.0.0");

	a.bytes[1] = (uint8_t)(a.bytes[1] + (i >> 16));
	a.bytes[2] = (uint8_t)(i >> 8);
	a.bytes[3] = (uint8_t)i;
	nft_key_endpoint(key, &a, 8080);
}

static bool has_stray(const struct bench *b, uint32_t i)
{
	uint8_t key[NFT_KEY_MAX];

	stray_key(key, i);
	return fake_find(b->f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, key) != NULL;
}

/*
 * A load and its sweep during a walk: the dump under way is read to its end, in pieces, before the
 * next walk begins. A dump that is given up would be read to its end in one step.
 */
static void test_sweep_during_walk(void **state)
{
	const uint32_t n = 5000;
	const struct nft_plane *p;
	uint8_t key[NFT_KEY_MAX];
	struct bench b;

	(void)state;
	bench_web(&b);
	for (uint32_t i = 0; i < n; i++) {
		stray_key(key, i);
		fake_foreign_add(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, key, NULL);
	}
	world_restart(&b.w);
	world_settle(&b.w);
	p = nft_plane_of(b.w.plane);
	world_wait(&b.w, NSEC_PER_SEC);
	assert_true(p->is_walking);
	world_reload(&b.w);
	assert_true(p->is_walking);
	fake_count_reset(b.f);
	world_wait(&b.w, NSEC_PER_SEC);
	assert_true(p->is_walking);
	assert_int_equal(fake_count(b.f).n_dumps, 0);
	world_walk(&b.w);
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, n);
	assert_int_equal(fake_count(b.f).n_dumps, 3); /* the rest: IPv6; the next walk: both */
	bench_close(&b);
}

/* Of more than NFT_RETAINED_MAX retained addresses the oldest go, also while strays are found. */
static void test_retained_limit(void **state)
{
	const uint32_t over = 3000;
	uint8_t key[NFT_KEY_MAX];
	struct ip_addr a = test_addr("10.0.1.2");
	struct nft_refs *refs;
	struct bench b;

	(void)state;
	bench_web(&b);
	for (uint32_t i = 0; i < NFT_RETAINED_MAX + over; i++) {
		stray_key(key, i);
		fake_foreign_add(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, key, NULL);
	}
	world_restart(&b.w);
	world_settle(&b.w);
	world_walk(&b.w);
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, NFT_RETAINED_MAX);
	assert_false(has_stray(&b, over - 1));
	assert_true(has_stray(&b, over));
	world_check(&b.w);

	/* A removed endpoint displaces the oldest address. */
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs");
	world_settle(&b.w);
	world_wait(&b.w, NSEC_PER_SEC);
	nft_key_endpoint(key, &a, 8080);
	assert_non_null(fake_find(b.f, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, key));
	assert_false(has_stray(&b, over));
	assert_true(has_stray(&b, over + 1));
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, NFT_RETAINED_MAX);

	/* Of many, a bounded number in each transaction, soon after each other. */
	assert_false(b.w.plane->is_tick_urgent);
	refs = nft_endpoint_addrs(nft_plane_of(b.w.plane), IPFAM_V4);
	for (uint32_t i = 0; i < 40000; i++) {
		stray_key(key, 2 * NFT_RETAINED_MAX + i);
		nft_refs_grace(refs, key);
	}
	world_wait(&b.w, NSEC_PER_SEC);
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, NFT_RETAINED_MAX + 40000 - 2048);
	assert_false(has_stray(&b, over + 2048));
	assert_true(has_stray(&b, over + 2049));

	/* A rejected transaction is repeated after a minute, not with the next tick. */
	fake_refuse(b.f, 1, EINVAL);
	log_level_set_all(LOG_LEVEL_ERR);
	world_wait(&b.w, 20 * NSEC_PER_MSEC);
	log_level_set_all(LOG_LEVEL_NOTICE);
	assert_false(b.w.plane->is_tick_urgent);
	fake_calm(b.f);
	world_wait(&b.w, 20 * NSEC_PER_MSEC);
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, NFT_RETAINED_MAX + 40000 - 2048);
	world_wait(&b.w, 60 * NSEC_PER_SEC);
	assert_true(b.w.plane->is_tick_urgent);
	for (int i = 0; i < 100 && b.w.plane->is_tick_urgent; i++)
		world_wait(&b.w, 20 * NSEC_PER_MSEC);
	assert_false(b.w.plane->is_tick_urgent);
	assert_int_equal(nft_plane_stats(b.w.plane).n_in_grace, NFT_RETAINED_MAX);
	bench_close(&b);
}

static size_t n_slots(const struct world *w)
{
	char *text = world_elements(w);
	size_t n = 0;

	for (const char *l = text; (l = strstr(l, "endpoints pool ")) != NULL; l++)
		n++;
	free(text);
	return n;
}

/*
 * While vipd is down, a new service gets an address of another one. It does not adopt that one's
 * pool, to which the other cluster IP leads, even if the kernel rejects the other service.
 */
static void test_adopt_moved(void **state)
{
	static const struct {
		const char *before; /* the new service; NULL: none */
		const char *shared; /* external IP of the old one */
		const char *after;
	} cases[] = {
		{ NULL, "192.0.2.7", "ip=10.96.0.9 port=http:80 ext=192.0.2.7 created=1" },
		{ NULL, "192.0.2.7", "ip=192.0.2.7 port=http:80" },
		{ "ip=10.96.0.9 port=tls:443", "10.96.0.9",
		  "ip=10.96.0.9 port=tls:443 port=http:80" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str text = { 0 };
		uint8_t key[NFT_KEY_MAX];
		struct bench b;

		bench_open(&b);
		if (cases[i].before != NULL)
			world_service(&b.w, "shop/new", cases[i].before);
		world_service(&b.w, "shop/old",
			      str_local(128, "ip=10.96.0.3 port=http:80 ext=%s created=2",
					cases[i].shared));
		world_slice(&b.w, "shop/old-1", "old", "| http:8080 | 1 rs; 2 rs");
		world_settle(&b.w);
		world_restart(&b.w);
		world_service(&b.w, "shop/new", cases[i].after);
		world_slice(&b.w, "shop/new-1", "new", "| http:8080 | 9 rs");
		text_key(key, "10.96.0.3", 80);
		fake_refuse_key(b.f, NFTSET_FRONTENDS, key, 12, ENOSPC);
		world_settle_refused(&b.w);
		fake_print_services(b.f, &text);
		assert_non_null(strstr(str_text(&text), "10.96.0.3:80/TCP cluster-ip -> "
							"10.0.1.1:8080 10.0.1.2:8080\n"));
		assert_non_null(strstr(str_text(&text), "-> 10.0.1.9:8080\n"));
		str_fini(&text);
		fake_refuse_key(b.f, NFTSET_N, NULL, 0, 0);
		world_settle(&b.w);
		world_walk(&b.w);
		world_check(&b.w);
		world_restart(&b.w);
		assert_int_equal(world_settle(&b.w), 0);
		bench_close(&b);
	}
}

/* A part of a large pool is verified in adoption: the slots behind it stay. */
static void test_stale_part(void **state)
{
	const char *const heads[] = { "| http:8080 | 10.1.0.5 rs; ",
				      "| http:8080 | 10.2.0.5 rs; " };
	struct str eps[2] = { 0 };
	uint8_t slot[NFT_KEY_MAX];
	struct bench b;

	(void)state;
	for (int k = 0; k < 2; k++) {
		str_puts(&eps[k], heads[k]);
		for (int i = 6; i < 4000; i++)
			str_printf(&eps[k], "10.1.%d.%d rs; ", i / 250, i % 250);
	}
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/web-1", "web", str_text(&eps[0]));
	world_settle(&b.w);
	world_slice(&b.w, "shop/web-1", "web", str_text(&eps[1]));
	world_restart(&b.w);
	while (sync_state_get(b.w.s) == SYNC_LOADING)
		(void)sync_step(b.w.s, b.w.now);
	nft_key_slot(slot, 1, 0);
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot));
	while (sync_state_get(b.w.s) != SYNC_RUNNING) {
		(void)sync_step(b.w.s, b.w.now);
		assert_in_range(n_slots(&b.w), 3994, 3995);
	}
	world_settle(&b.w);
	world_walk(&b.w);
	world_check(&b.w);
	str_fini(&eps[0]);
	str_fini(&eps[1]);
	bench_close(&b);
}

/* A slot after the last one of a size class would be picked. */
static void test_stranger_in_class(void **state)
{
	uint8_t data[NFT_DATA_MAX];
	uint8_t slot[NFT_KEY_MAX];
	struct str text = { 0 };
	struct ip_addr a;
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	str_puts(&text, "| http:80 | ");
	for (int i = 1; i <= 66; i++)
		str_printf(&text, "%d rs; ", i);
	world_slice(&b.w, "shop/web-1", "web", str_text(&text));
	str_fini(&text);
	world_settle(&b.w);
	assert_int_equal(ip_addr_parse(&a, "10.9.9.9", NULL), 0);
	nft_data_endpoint(data, &a, 99);
	nft_key_slot(slot, 1, 66);
	fake_foreign_add(b.f, IPFAM_V4, NFTSET_ENDPOINTS, slot, data);
	assert_int_equal(world_audit(&b.w), 1);
	world_check(&b.w);
	bench_close(&b);
}

/* --- outcomes unknown, tables gone --- */

static void test_lost_answer(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&b.w);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 4 rs");
	fake_lose_answer(b.f, 1);
	assert_int_equal(commit_dirty(&b, PLANE_COMMIT_NORMAL), -EBUSY);
	/* The kernel has everything; a load writes nothing. */
	world_reload(&b.w);
	world_walk(&b.w);
	world_check(&b.w);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 5 rs");
	fake_lose_answer(b.f, 1);
	assert_int_equal(world_settle(&b.w), 0);
	world_walk(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

static void test_tables_gone(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80 ip=fd02::1");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&b.w);
	fake_foreign_flush(b.f, IPFAM_V4);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_LOST);
	sync_reload(b.w.s);
	world_settle(&b.w);
	world_check(&b.w);

	/* No check before the next change. */
	fake_foreign_flush(b.f, IPFAM_V4);
	fake_foreign_flush(b.f, IPFAM_V6);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 4 rs; 5 rs");
	assert_int_equal(commit_dirty(&b, PLANE_COMMIT_NORMAL), -ENOTRECOVERABLE);
	assert_null(b.res.culprit);
	assert_non_null(strstr(b.err.text, "table ip vipd, set endpoint"));
	world_settle(&b.w);
	world_check(&b.w);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_QUIET);
	assert_int_equal(b.w.plane->ops->cleanup(b.w.plane, &b.err), 0);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4) + fake_chain_count(b.f, IPFAM_V6), 0);
	bench_close(&b);
}

#define TIMEOUTS 100
#define CHAINS_STEP 32

/* Sync; returns the largest number of chains that one step added. */
static size_t chains_step_max(struct bench *b)
{
	size_t n = fake_chain_count(b->f, IPFAM_V4);
	uint64_t next = SYNC_NOW;
	size_t max = 0;

	while (next == SYNC_NOW) {
		size_t before = n;

		next = sync_step(b->w.s, b->w.now);
		n = fake_chain_count(b->f, IPFAM_V4);
		max = MAX(max, n - MIN(n, before));
	}
	return max;
}

/* Many timeouts of session affinity at once: few chains in a step, also when the table is lost. */
static void test_timeouts_in_steps(void **state)
{
	size_t beside;
	struct bench b;

	(void)state;
	bench_open(&b);
	world_settle(&b.w);
	beside = fake_chain_count(b.f, IPFAM_V4);
	for (int i = 1; i <= TIMEOUTS; i++) {
		char service[32], text[80];

		(void)snprintf(service, sizeof(service), "shop/s%d", i);
		(void)snprintf(text, sizeof(text), "ip=10.96.1.%d port=http:80 affinity=%d", i, i);
		world_service(&b.w, service, text);
		(void)snprintf(text, sizeof(text), "%s-1", service);
		world_slice(&b.w, text, service + strlen("shop/"), "| http:8080 | 1 rs");
	}
	assert_int_equal(chains_step_max(&b), CHAINS_STEP);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4), beside + TIMEOUTS);
	world_check(&b.w);
	fake_foreign_flush(b.f, IPFAM_V4);
	sync_reload(b.w.s);
	assert_int_equal(chains_step_max(&b), beside + CHAINS_STEP);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4), beside + TIMEOUTS);
	world_check(&b.w);
	bench_close(&b);
}

/* The table is lost: a large service is served from its first piece on, and found after a kill. */
static void test_tables_gone_large(void **state)
{
	for (int is_killed = 0; is_killed < 2; is_killed++) {
		struct bench b;

		(void)state;
		bench_open(&b);
		world_service(&b.w, "shop/other", "ip=10.96.0.9 port=http:80");
		world_settle(&b.w);
		nft_large_put(&b.w, 4000);
		world_settle(&b.w);
		world_no_service(&b.w, "shop/other"); /* its pool has the first id */
		world_settle(&b.w);
		fake_foreign_flush(b.f, IPFAM_V4);
		sync_reload(b.w.s);
		nft_large_step(&b.w, 1);
		if (is_killed)
			world_restart(&b.w);
		nft_large_step(&b.w, 100);
		world_settle(&b.w);
		world_walk(&b.w);
		world_check(&b.w);
		bench_close(&b);
	}
}

/*
 * Foreign commits interrupt every read of our tables. The known state stays: the next change is
 * written, and the first complete read finds equal tables.
 */
static void test_interrupted_look(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80 ip=fd02::1");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	world_settle(&b.w);
	fake_foreign_commit(b.f);
	fake_interrupt_dump(b.f, 1, true);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_CHANGED);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 3 rs");
	assert_in_range(world_settle(&b.w), 1, 4);
	fake_calm(b.f);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_QUIET);
	world_check(&b.w);
	bench_close(&b);
}

/* A kernel without support: nothing is replaced, and one warning is logged. */
static void test_owner_is_refused(void **state)
{
	struct bench b;
	uint64_t reported;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80 ip=fd02::1");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&b.w);
	fake_no_table_flags(b.f, NFT_FIXED_TABLE_F_PERSIST);
	log_level_set_all(LOG_LEVEL_WARN);
	reported = log_count(LOG_LEVEL_WARN);
	for (int i = 0; i < 2; i++) {
		b.w.is_table_owner = true;
		world_restart(&b.w);
		assert_int_equal(world_settle(&b.w), 0);
		world_check(&b.w);
		assert_int_equal(log_count(LOG_LEVEL_WARN), ++reported);
		assert_false(nft_plane_stats(b.w.plane).is_table_owner);
	}
	log_level_set_all(LOG_LEVEL_ERR);
	/* vipd also starts on an empty kernel. */
	fake_foreign_flush(b.f, IPFAM_V4);
	fake_foreign_flush(b.f, IPFAM_V6);
	world_restart(&b.w);
	assert_true(world_settle(&b.w) > 100);
	world_check(&b.w);
	bench_close(&b);
}

/* Tables owned by another process: it is logged, and the plane waits. */
static void test_held_by_other(void **state)
{
	struct bench b;
	struct plane *plane;

	(void)state;
	bench_open(&b);
	b.w.is_table_owner = true;
	world_restart(&b.w);
	world_settle(&b.w);
	assert_true(nft_plane_stats(b.w.plane).is_table_owner);
	nft_plane_open(&plane, fake_connect(b.f), fake_connect(b.f));
	assert_int_equal(plane_load_all(plane, &b.err), 0);
	assert_int_equal(plane->ops->env(plane, &b.w.m, &b.res, &b.err), -EPERM);
	assert_string_equal(b.err.text,
			    "table ip vipd-2 is owned by another running process (netlink port "
			    "4711, which is usually its process id): end that one first");
	assert_int_equal(plane->ops->cleanup(plane, &b.err), -EPERM);
	assert_non_null(strstr(b.err.text, "end that one first"));
	world_check(&b.w);
	world_restart(&b.w); /* without an owner in between ... */
	world_settle(&b.w);
	b.w.plane->ops->close(b.w.plane); /* ... and from here on */
	assert_int_equal(plane->ops->cleanup(plane, &b.err), 0);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4) + fake_chain_count(b.f, IPFAM_V6), 0);
	b.w.plane = plane;
	bench_close(&b);
}

/* A kernel without such tables: one log line, one rejected batch, otherwise unchanged. */
static void test_guard_is_refused(void **state)
{
	struct bench b;
	uint64_t reported;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80 ip=fd02::1");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&b.w);
	fake_no_table_flags(b.f, NFT_TABLE_F_OWNER);
	b.w.guard = WORLD_GUARD_ON;
	world_restart(&b.w);
	fake_count_reset(b.f);
	assert_int_equal(world_settle(&b.w), 0);
	log_level_set_all(LOG_LEVEL_INFO);
	reported = log_count(LOG_LEVEL_INFO);
	for (int i = 0; i < 3; i++)
		world_wait(&b.w, 60 * NSEC_PER_SEC);
	assert_int_equal(log_count(LOG_LEVEL_INFO), reported + 1);
	log_level_set_all(LOG_LEVEL_ERR);
	assert_int_equal(fake_count(b.f).n_refused, 1);
	assert_int_equal(fake_count(b.f).n_batches, 0);
	assert_false(nft_plane_stats(b.w.plane).has_guard);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_QUIET);
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 4 rs");
	world_settle(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

/* A flush removes the tables but not the guard, which is not written again. */
static void test_guard_stays(void **state)
{
	struct bench b;
	uint32_t genid;
	size_t n_chains;

	(void)state;
	bench_open(&b);
	b.w.guard = WORLD_GUARD_ON;
	world_restart(&b.w);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80 ip=fd02::1");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_settle(&b.w);
	assert_true(nft_plane_stats(b.w.plane).has_guard);
	fake_foreign_flush(b.f, IPFAM_V4);
	fake_foreign_flush(b.f, IPFAM_V6);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4), 2);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V6), 2);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_LOST);
	sync_reload(b.w.s);
	world_settle(&b.w);
	world_check(&b.w);
	genid = fake_genid(b.f);
	world_wait(&b.w, 60 * NSEC_PER_SEC);
	assert_int_equal(fake_genid(b.f), genid);
	assert_int_equal(b.w.plane->ops->check(b.w.plane, &b.err), PLANE_CHECK_QUIET);
	/* It ends with its owner. */
	n_chains = fake_chain_count(b.f, IPFAM_V4) + fake_chain_count(b.f, IPFAM_V6);
	b.w.plane->ops->close(b.w.plane);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4) + fake_chain_count(b.f, IPFAM_V6),
			 n_chains - 4);
	nft_plane_open(&b.w.plane, fake_connect(b.f), fake_connect(b.f));
	assert_int_equal(b.w.plane->ops->cleanup(b.w.plane, &b.err), 0);
	assert_int_equal(fake_chain_count(b.f, IPFAM_V4) + fake_chain_count(b.f, IPFAM_V6), 0);
	bench_close(&b);
}

/* Another process owns it, or a foreign table has its name: logged once, retried. */
static void test_guard_is_held(void **state)
{
	struct plane_result res = { 0 };
	struct plane *other;
	struct bench b;
	uint64_t reported;
	int r;

	(void)state;
	bench_open(&b);
	b.w.guard = WORLD_GUARD_ON;
	world_restart(&b.w);
	world_settle(&b.w);
	world_wait(&b.w, 11 * NSEC_PER_SEC);
	assert_true(nft_plane_stats(b.w.plane).has_guard);
	nft_plane_open(&other, fake_connect(b.f), fake_connect(b.f));
	nft_plane_guard(other, true);
	assert_int_equal(plane_load_all(other, &b.err), 0);
	assert_int_equal(other->ops->env(other, &b.w.m, &res, &b.err), 0);
	do
		r = other->ops->sweep(other, &res, &b.err);
	while (r > 0);
	assert_int_equal(r, 0);
	log_level_set_all(LOG_LEVEL_INFO);
	reported = log_count(LOG_LEVEL_INFO);
	for (uint64_t s = 1; s < 300; s += 30)
		(void)other->ops->tick(other, s * NSEC_PER_SEC);
	assert_int_equal(log_count(LOG_LEVEL_INFO), reported + 1);
	log_level_set_all(LOG_LEVEL_ERR);
	assert_false(nft_plane_stats(other).has_guard);
	b.w.plane->ops->close(b.w.plane);
	(void)other->ops->tick(other, 400 * NSEC_PER_SEC);
	assert_true(nft_plane_stats(other).has_guard);
	b.w.plane = other;
	bench_close(&b);
}

/* --- reading under difficulties --- */

static void test_reading(void **state)
{
	size_t n_dumps, n_gets;
	struct bench b;

	(void)state;
	bench_open(&b);
	for (int i = 1; i < 200; i++) {
		char name[32];
		char slice[32];
		char text[64];

		snprintf(name, sizeof(name), "shop/s%d", i);
		snprintf(text, sizeof(text), "ip=10.96.1.%d port=http:80", i);
		world_service(&b.w, name, text);
		snprintf(slice, sizeof(slice), "shop/s%d-1", i);
		snprintf(text, sizeof(text), "| http:80 | %d rs; %d rs; %d rs", i, i + 1, i + 2);
		world_slice(&b.w, slice, name + 5, text);
	}
	world_settle(&b.w);
	world_check(&b.w);
	/* A small receive buffer: keys are requested in smaller portions. */
	fake_recv_limit(b.f, 20);
	world_restart(&b.w);
	assert_int_equal(world_settle(&b.w), 0);
	world_check(&b.w);
	/* Permanent foreign commits: dumps of our tables are not repeated. */
	fake_calm(b.f);
	world_restart(&b.w);
	fake_count_reset(b.f);
	assert_int_equal(world_settle(&b.w), 0);
	n_dumps = fake_count(b.f).n_dumps;
	n_gets = fake_count(b.f).n_gets;
	world_restart(&b.w);
	fake_count_reset(b.f);
	fake_interrupt_dump(b.f, 1, true);
	assert_int_equal(world_settle(&b.w), 0);
	assert_int_equal(fake_count(b.f).n_dumps, n_dumps);
	assert_int_equal(fake_count(b.f).n_gets, n_gets);
	fake_calm(b.f);
	assert_int_equal(world_reload(&b.w), 0);
	world_check(&b.w);
	bench_close(&b);
}

/* The kernel resizes a hash table during the load, at whatever dump: no element is missed. */
static void test_torn_dumps(void **state)
{
	enum {
		SERVICES_N = 70
	}; /* more than a message of a dump lists */

	(void)state;
	for (size_t n = 1; n <= 8; n++) {
		struct bench b;
		char name[32];
		char text[64];

		bench_open(&b);
		for (int i = 1; i <= SERVICES_N; i++) {
			(void)snprintf(name, sizeof(name), "shop/s%d", i);
			(void)snprintf(text, sizeof(text), "ip=10.96.0.%d port=http:80 ip=fd02::%d",
				       i, i);
			world_service(&b.w, name, text);
			(void)snprintf(text, sizeof(text), "| http:8080 | %d rs", i);
			world_slice(&b.w, name, name + strlen("shop/"), text);
		}
		world_settle(&b.w);
		world_restart(&b.w);
		fake_tear_dumps(b.f, n);
		assert_int_equal(world_settle(&b.w), 0);
		world_walk(&b.w);
		world_check(&b.w);
		/* Elements of services that were removed while no vipd ran are found. */
		for (int i = 1; i <= SERVICES_N; i++) {
			(void)snprintf(name, sizeof(name), "shop/s%d", i);
			world_no_service(&b.w, name);
		}
		world_restart(&b.w);
		fake_tear_dumps(b.f, n);
		world_settle(&b.w);
		world_walk(&b.w);
		world_check(&b.w);
		assert_int_equal(fake_set_size(b.f, IPFAM_V4, NFTSET_FRONTENDS), 0);
		bench_close(&b);
	}
}

/* Endpoints 10.x.y.0 to .`n` of a slice, each of which two ports lead to. */
static void large_slice(struct world *w, int i, int n)
{
	struct str text = { 0 };
	char name[32];

	str_puts(&text, "| a:80 b:81 | ");
	for (int k = 0; k < n; k++)
		str_printf(&text, "10.1.%d.%d rs; ", i, k);
	snprintf(name, sizeof(name), "shop/large-%d", i);
	world_slice(w, name, "large", str_text(&text));
	str_fini(&text);
}

/* Of the socket with notifications: none has arrived. */
static ssize_t count_read(void *ctx, void *data, size_t size)
{
	size_t *n = ctx;

	(void)data;
	(void)size;
	++*n;
	return -EAGAIN;
}

/*
 * Run a load to its end; its number of keys and steps is in range, and each step reads
 * notifications.
 */
static void load_in_steps(struct bench *b, size_t steps_max)
{
	struct nft_watch *watch = &plane_common_of(b->w.plane)->watch;
	size_t n_read = 0;
	size_t n_keys = 0;
	size_t n_steps = 0;

	nl_sock_open_io(&watch->nl, &(struct nl_io){ .recv = count_read, .ctx = &n_read });
	while (sync_state_get(b->w.s) == SYNC_LOADING) {
		fake_count_reset(b->f);
		assert_int_equal(sync_step(b->w.s, b->w.now), SYNC_NOW);
		assert_true(fake_count(b->f).n_gets <= NFT_READ_ELEMS);
		assert_int_equal(fake_count(b->f).n_batches, 0);
		n_keys += fake_count(b->f).n_gets;
		n_steps++;
		assert_true(n_read >= n_steps);
	}
	nl_sock_close(TAKE(watch->nl));
	assert_in_range(n_keys, 12000, 14000);
	assert_in_range(n_steps, 5, steps_max);
}

/*
 * A load goes in steps: none reads more than its share, none twice. An attempt that ends in
 * between begins anew. Ids between those of two pools take no time.
 */
static void test_load_in_steps(void **state)
{
	uint8_t key[NFT_KEY_MAX] = { 10, 96, 0, 99, 6 };
	uint8_t data[NFT_DATA_MAX] = { 0 };
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/large", "ip=10.96.0.9 port=a:80 port=b:81");
	for (int i = 0; i < 24; i++)
		large_slice(&b.w, i, 250);
	world_settle(&b.w);
	world_restart(&b.w);
	for (int life = 0; life < 2; life++) {
		load_in_steps(&b, 12);
		assert_int_equal(world_settle(&b.w), 0);
		world_check(&b.w);
		sync_reload(b.w.s);
		(void)sync_step(b.w.s, b.w.now);
		assert_int_equal(sync_state_get(b.w.s), SYNC_LOADING);
	}
	world_restart(&b.w); /* in the middle of a load */
	nft_put_word(data, nft_word(UINT32_MAX >> NFT_KIND_BITS, 1));
	fake_foreign_add(b.f, IPFAM_V4, NFTSET_FRONTENDS, key, data);
	load_in_steps(&b, 12);
	assert_int_equal(world_settle(&b.w), 1);
	world_restart(&b.w);
	assert_int_equal(world_settle(&b.w), 0);
	world_check(&b.w);
	/* Slots at the end and one in the middle are no longer desired. */
	world_restart(&b.w);
	world_no_slice(&b.w, "shop/large-7");
	large_slice(&b.w, 3, 249);
	assert_true(world_settle(&b.w) > 0);
	world_walk(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

/* Datagrams to the kernel for a lookup of `n` keys, of which every `step`th exists. */
static uint64_t sends_of_get(struct bench *b, struct nl_sock *nl, size_t n, uint32_t step)
{
	struct nft_table_ref table = { .name = "vipd", .fam = IPFAM_V4 };
	struct nft_lookup *keys = xcalloc(n, sizeof(*keys));
	uint64_t before = nl_sock_stats(nl)->n_sends;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t data[NFT_DATA_MAX] = { 10, 0, 0, 1 };

		nft_key_slot(keys[i].key, 700 + step, i);
		if (step > 0 && i % step == 0)
			fake_foreign_add(b->f, IPFAM_V4, NFTSET_ENDPOINTS, keys[i].key, data);
	}
	assert_int_equal(nft_elems_get(nl, &table, NFTSET_ENDPOINTS, keys, n, &b->err), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(keys[i].is_found, step > 0 && i % step == 0);
	free(keys);
	return nl_sock_stats(nl)->n_sends - before;
}

/* Missing keys take no more requests than existing ones. */
static void test_missing_keys(void **state)
{
	struct nl_sock *nl;
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs");
	world_settle(&b.w);
	nl = fake_connect(b.f);
	assert_int_equal(sends_of_get(&b, nl, 10240, 1), 40);
	assert_int_equal(sends_of_get(&b, nl, 10240, 0), 40);
	assert_in_range(sends_of_get(&b, nl, 10240, 2), 40, 42);
	/* A missing key ends a request; another one follows. */
	assert_in_range(sends_of_get(&b, nl, 2560, 3), 10, 12);
	nl_sock_close(nl);
	bench_close(&b);
}

/* The error of the first request names what vipd or the kernel lacks. */
static void test_lacking(void **state)
{
	static const struct {
		int error, expect;
		const char *text;
	} cases[] = {
		{ EPERM, -EPERM,
		  "nf_tables: Operation not permitted: vipd needs CAP_NET_ADMIN in the user "
		  "namespace that owns this network namespace; run it as root, or give it this "
		  "capability" },
		{ EINVAL, -EOPNOTSUPP, "no nf_tables in this kernel (module nf_tables)" },
	};
	struct bench b;

	(void)state;
	bench_open(&b);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_deny(b.f, cases[i].error);
		b.err = (struct err){ 0 };
		assert_int_equal(plane_load_all(b.w.plane, &b.err), cases[i].expect);
		assert_string_equal(b.err.text, cases[i].text);
	}
	fake_calm(b.f);
	assert_int_equal(world_reload(&b.w), 0);
	bench_close(&b);
}

/* BAL-13: a kernel without jhash. Neither the family nor another service is affected. */
static void test_no_jhash(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	world_settle(&b.w);
	world_service(&b.w, "shop/hashed", "ip=10.96.0.2 port=http:80 sched=mh");
	world_slice(&b.w, "shop/hashed-1", "hashed", "| http:8080 | 1 rs; 2 rs");
	fake_no_hash(b.f, true);
	world_settle(&b.w);
	world_check(&b.w);
	for (int i = 0; i < 2; i++) {
		struct svc *svc = world_svc(&b.w, i == 0 ? "shop/web" : "shop/hashed");
		const struct plan_rows *rows = svc->rows;
		struct str remark = { 0 };

		assert_int_equal(rows->pools.v[0].table.n, 0);
		nft_plane_ops.remark(b.w.plane, svc, &remark);
		assert_int_equal(strstr(str_text(&remark), "CONFIG_NFT_HASH") != NULL, i);
		str_fini(&remark);
	}
	assert_int_equal(plane_families_failed(b.w.plane), 0);
	nft_hashing_lack(false);
	bench_close(&b);
}

/* --- at random --- */

#define SERVICES 12
#define ENDPOINTS 9

/* A random service, or none. */
static void random_service(struct world *w, struct rng *r, size_t i)
{
	char name[32];
	struct str s = { 0 };

	snprintf(name, sizeof(name), "r/s%zu", i);
	if (rng_below(r, 8) == 0) {
		world_no_service(w, name);
		return;
	}
	str_printf(&s, "type=LoadBalancer ip=10.96.0.%zu port=a:80", i + 1);
	if (rng_below(r, 2) == 0)
		str_printf(&s, ":%zu", 30000 + i);
	if (rng_below(r, 3) == 0)
		str_puts(&s, " port=b/UDP:81");
	if (rng_below(r, 3) == 0)
		str_printf(&s, " ip=fd02::%zx", i + 1);
	if (rng_below(r, 3) == 0) /* few addresses, so that services conflict */
		str_printf(&s, " ext=192.0.2.%zu created=%zu", rng_below(r, 4), rng_below(r, 3));
	if (rng_below(r, 3) == 0)
		str_printf(&s, " vip=198.51.100.%zu", i + 1);
	if (rng_below(r, 3) == 0)
		str_printf(&s, " range=10.%zu.0.0/%zu", rng_below(r, 2), 12 + rng_below(r, 3));
	if (rng_below(r, 4) == 0)
		str_puts(&s, " etp");
	if (rng_below(r, 5) == 0)
		str_puts(&s, " itp");
	if (rng_below(r, 4) == 0)
		str_printf(&s, " affinity=%zu", 60 * (1 + rng_below(r, 3)));
	if (i == 0 && rng_below(r, 12) == 0) /* 16,384 elements a pool */
		str_puts(&s, rng_below(r, 2) == 0 ? " sched=mh" : " sched=sh,sh-port");
	world_service(w, name, str_text(&s));
	str_fini(&s);
}

static void random_slice(struct world *w, struct rng *r, size_t i)
{
	bool is_v6 = rng_below(r, 4) == 0;
	size_t max = rng_below(r, 30) == 0 ? 90 : ENDPOINTS;
	struct str s = { 0 };
	char name[32];
	char svc[32];

	snprintf(svc, sizeof(svc), "s%zu", i);
	snprintf(name, sizeof(name), "r/s%zu-%d", i, is_v6 ? 6 : 4);
	if (rng_below(r, 10) == 0) {
		world_no_slice(w, name);
		return;
	}
	str_printf(&s, "%s | a:8080 b/UDP:8081 | ", is_v6 ? "v6" : "");
	for (size_t e = 1; e <= max; e++)
		if (rng_below(r, 4) != 0)
			str_printf(&s, "%zu rs @n%zu; ", e, 1 + rng_below(r, 2));
	world_slice(w, name, svc, str_text(&s));
	str_fini(&s);
}

static void random_trouble(struct fake *f, struct rng *r)
{
	static const int errors[] = { ENOMEM, ENOSPC, EEXIST, ENOENT, EBUSY, EINVAL };

	switch (rng_below(r, 12)) {
	case 0:
		fake_refuse(f, 1 + rng_below(r, 30), errors[rng_below(r, ARRAY_SIZE(errors))]);
		return;
	case 1:
		fake_lose_answer(f, 1);
		return;
	case 2:
		fake_fail_send(f, 1 + rng_below(r, 3), ENOBUFS);
		return;
	case 3:
		fake_no_offsets(f, rng_below(r, 2));
		return;
	case 4:
		fake_foreign_commit(f);
		return;
	default:
		return;
	}
}

/*
 * Thousands of changes with failures. After each round the kernel state equals the accepted rows
 * byte for byte, and a new process writes nothing.
 */
static void test_random(void **state)
{
	const char *want = getenv("VIPD_RANDOM_RUNS"); /* more, for a longer search */
	int runs = want ? atoi(want) : 3;
	struct rng r = { .state = 20261121 };

	(void)state;
	for (int run = 0; run < runs; run++) {
		struct bench b;

		print_message("    seed %llu\n", (unsigned long long)r.state);
		bench_open(&b);
		b.w.m.config.preserves_local_source = run % 2 == 0;
		world_count(&b.w, (enum plane_counting)(run % 3));
		for (int lot = 0; lot < 100; lot++) {
			for (size_t n = 1 + rng_below(&r, 6); n > 0; n--) {
				size_t i = rng_below(&r, SERVICES);

				if (rng_below(&r, 3) == 0)
					random_service(&b.w, &r, i);
				else
					random_slice(&b.w, &r, i);
			}
			random_trouble(b.f, &r);
			world_settle(&b.w);
			fake_truce(b.f, true);
			world_walk(&b.w);
			world_check(&b.w);
			fake_truce(b.f, false);
			if (lot % 10 != 9)
				continue;
			fake_calm(b.f);
			if (rng_below(&r, 3) == 0)
				world_restart(&b.w);
			world_settle(&b.w);
			if (rng_below(&r, 3) == 0)
				world_audit(&b.w);
			world_walk(&b.w);
			world_check(&b.w);
		}
		fake_calm(b.f);
		world_restart(&b.w);
		assert_int_equal(world_settle(&b.w), 0);
		world_walk(&b.w);
		world_check(&b.w);
		bench_close(&b);
	}
}

static void flush_v4(void *ctx)
{
	fake_foreign_flush(ctx, IPFAM_V4);
}

static void test_large_random(void **state)
{
	static const uint64_t seeds[] = { 1, 4, 101, 1074, 2237, 2285 };
	const char *want = getenv("VIPD_RANDOM_RUNS"); /* more, for a longer search */
	size_t runs = want ? (size_t)atoi(want) : ARRAY_SIZE(seeds);

	(void)state;
	for (size_t run = 0; run < runs; run++) {
		uint64_t seed = run < ARRAY_SIZE(seeds) ? seeds[run] : run;
		AUTO(fake_close) struct fake *f = NULL;
		struct world_kernel kernel = { .connect = connect_fake };
		struct rng r = { .state = seed };

		print_message("    seed %llu\n", (unsigned long long)seed);
		fake_open(&f);
		kernel.ctx = f;
		nft_large_random(&kernel, &r, flush_v4);
	}
}

/* --- address families --- */

#define DUALS 12

static void dual_service(struct bench *b, size_t i, const char *hosts)
{
	char name[64], slice[80], svc[32], text[128], four[128], six[128];

	snprintf(svc, sizeof(svc), "d%zu", i);
	snprintf(name, sizeof(name), "dual/%s", svc);
	snprintf(text, sizeof(text), "ip=10.96.1.%zu ip=fd02::1:%zx port=http:80", i + 1, i + 1);
	snprintf(four, sizeof(four), "| http:8080 | %s", hosts);
	snprintf(six, sizeof(six), "v6 | http:8080 | %s", hosts);
	world_service(&b->w, name, text);
	snprintf(slice, sizeof(slice), "%s-4", name);
	world_slice(&b->w, slice, svc, four);
	snprintf(slice, sizeof(slice), "%s-6", name);
	world_slice(&b->w, slice, svc, six);
}

static void duals(struct bench *b, const char *hosts)
{
	for (size_t i = 0; i < DUALS; i++)
		dual_service(b, i, hosts);
}

/* IPv4 equals the rows; the kernel's IPv6 state equals `six`. */
static void check_one_family(struct bench *b, bool is_failed, const char *six)
{
	struct str all = { 0 };
	struct plane_rule_counts counts;
	struct err err;
	const char *at;

	assert_int_equal(plane_families_failed(b->w.plane), is_failed ? 1 << IPFAM_V6 : 0);
	assert_int_equal(b->w.plane->faults[PLANE_FAULT_FAMILY + (int)IPFAM_V6].text[0] != '\0',
			 is_failed);
	assert_int_equal(plane_family_has_failed(b->w.plane, IPFAM_V6), is_failed);
	assert_false(plane_family_has_failed(b->w.plane, IPFAM_V4));
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		assert_int_equal(b->w.plane->ops->rule_counts(b->w.plane, fam, &counts, &err),
				 fam == IPFAM_V6 && is_failed ? -EAGAIN : 0);
	fake_print_services(b->f, &all);
	for (size_t i = 0; i < DUALS; i++) {
		char text[64];

		snprintf(text, sizeof(text), "10.96.1.%zu:80/TCP", i + 1);
		at = strstr(str_text(&all), text);
		assert_non_null(at);
		assert_non_null(strstr(at, "10.0.1.3:8080"));
		snprintf(text, sizeof(text), "[fd02::1:%zx]:80/TCP", i + 1);
		at = strstr(str_text(&all), text);
		if (six == NULL) {
			assert_null(at);
			continue;
		}
		assert_non_null(at);
		assert_int_equal(strstr(at, six) != NULL && strstr(at, six) < strchr(at, '\n'), 1);
	}
	str_fini(&all);
}

static void family_recovers(struct bench *b)
{
	uint64_t writes;

	fake_calm(b->f);
	world_settle(&b->w);
	check_one_family(b, false, "::3]:8080");
	world_walk(&b->w);
	world_check(&b->w);
	writes = sync_stats_get(b->w.s)->writes;
	world_reload(&b->w);
	assert_int_equal(sync_stats_get(b->w.s)->writes, writes);
}

static const int family_errors[] = { EPERM, EOPNOTSUPP, EBUSY, ENOMEM };

/* IPv6 fails from the start: IPv4 is served, and current, until it recovers. */
static void test_family_fails_at_start(void **state)
{
	(void)state;
	for (int what = FAKE_FAILING_READS; what <= FAKE_FAILING_ELEMENTS; what++)
		for (size_t i = 0; i < ARRAY_SIZE(family_errors); i++) {
			struct bench b;

			print_message("    %d, %s\n", what, strerror(family_errors[i]));
			b = (struct bench){ 0 };
			bench_open(&b);
			fake_foreign_flush(b.f, IPFAM_V4);
			fake_foreign_flush(b.f, IPFAM_V6);
			fake_fail_family(b.f, IPFAM_V6, what, family_errors[i]);
			world_restart(&b.w);
			duals(&b, "1 rs; 2 rs");
			world_settle_refused(&b.w);
			duals(&b, "1 rs; 3 rs");
			world_settle_refused(&b.w);
			check_one_family(&b, true, NULL);
			family_recovers(&b);
			bench_close(&b);
		}
}

/* IPv6 fails later: its rules stay, IPv4 gets every change. */
static void test_family_fails_later(void **state)
{
	(void)state;
	for (int what = FAKE_FAILING_WRITES; what <= FAKE_FAILING_ELEMENTS; what++)
		for (size_t i = 0; i < ARRAY_SIZE(family_errors); i++) {
			struct bench b;

			print_message("    %d, %s\n", what, strerror(family_errors[i]));
			bench_open(&b);
			duals(&b, "1 rs; 2 rs");
			world_settle(&b.w);
			fake_fail_family(b.f, IPFAM_V6, what, family_errors[i]);
			duals(&b, "1 rs; 3 rs");
			world_settle_refused(&b.w);
			check_one_family(&b, true, "::2]:8080");
			world_no_service(&b.w, "dual/d0"); /* also while it is left out */
			world_settle_refused(&b.w);
			dual_service(&b, 0, "3 rs");
			world_settle_refused(&b.w);
			family_recovers(&b);
			bench_close(&b);
		}
}

/* While IPv6 fails, affinity timeouts of IPv4 are shortened, and unused affinity kinds removed. */
static void test_family_fails_beside_housekeeping(void **state)
{
	static const char web[] = "ip=10.96.0.1 port=http:80";
	struct bench b;
	char text[64];

	(void)state;
	for (int what = FAKE_FAILING_READS; what <= FAKE_FAILING_WRITES; what++) {
		bench_open(&b);
		fake_foreign_flush(b.f, IPFAM_V6);
		fake_fail_family(b.f, IPFAM_V6, what, EPERM);
		world_restart(&b.w);
		for (int affinity_s = 600; affinity_s >= 60; affinity_s -= 540) {
			snprintf(text, sizeof(text), "%s affinity=%d", web, affinity_s);
			world_service(&b.w, "shop/web", text);
			world_slice(&b.w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
			world_settle_refused(&b.w);
		}
		assert_int_equal(plane_families_failed(b.w.plane), 1 << IPFAM_V6);
		assert_int_equal(nft_kind_count(), 2);
		/* in the walk after the load, and in the next one */
		assert_int_equal(nft_plane_stats(b.w.plane).n_shorten, 2);
		for (int i = 0; i < 8; i++)
			world_wait(&b.w, NSEC_PER_SEC);
		assert_int_equal(nft_plane_stats(b.w.plane).n_shorten, 0);
		for (int i = 0; i < 2; i++)
			world_wait(&b.w, 600 * NSEC_PER_SEC);
		assert_int_equal(nft_kind_count(), 1);
		bench_close(&b);
	}
}

/* Another process deletes the tables of IPv6 again and again: IPv4 is not loaded each time. */
static void test_family_is_deleted_again_and_again(void **state)
{
	struct bench b;
	uint64_t loads;

	(void)state;
	bench_open(&b);
	duals(&b, "1 rs; 3 rs");
	world_settle(&b.w);
	for (int i = 0; i < 20; i++) { /* both at a time: a flush of the ruleset */
		fake_foreign_flush(b.f, IPFAM_V4);
		fake_foreign_flush(b.f, IPFAM_V6);
		dual_service(&b, 0, i % 2 == 0 ? "3 rs" : "1 rs; 3 rs");
		world_settle_refused(&b.w);
	}
	check_one_family(&b, false, "::3]:8080");
	for (int i = 0; i < 20 && plane_families_failed(b.w.plane) == 0; i++) {
		fake_foreign_flush(b.f, IPFAM_V6);
		dual_service(&b, 0, i % 2 == 0 ? "3 rs" : "1 rs; 3 rs");
		world_settle_refused(&b.w);
	}
	check_one_family(&b, true, NULL);
	loads = sync_stats_get(b.w.s)->loads;
	dual_service(&b, 0, "1 rs; 2 rs; 3 rs");
	world_settle_refused(&b.w);
	assert_int_equal(sync_stats_get(b.w.s)->loads, loads);
	family_recovers(&b);
	bench_close(&b);
}

/* --- counters --- */

static struct plane_count count(struct bench *b, enum plane_counter which,
				const struct plane_counted *of)
{
	struct plane_count c = { 0 };
	struct err err;

	assert_int_equal(b->w.plane->ops->count(b->w.plane, which, of, 1, &c, &err), 0);
	return c;
}

static struct plane_count count_of(struct bench *b, enum plane_counter which)
{
	const struct plan_rows *rows = world_svc(&b->w, "shop/web")->rows;
	const struct plan_frontend *f = &rows->frontends.v[0];

	return count(b, which, &(struct plane_counted){ .at = { f->addr, f->port, f->proto, 0 } });
}

static const struct plan_pool *only_pool(struct bench *b)
{
	const struct plan_rows *rows = world_svc(&b->w, "shop/web")->rows;

	return &rows->pools.v[0];
}

static struct plane_count count_of_slot(struct bench *b, uint32_t slot)
{
	struct plane_counted of = plane_counted_slot(only_pool(b), slot);

	return count(b, PLANE_COUNTER_BACKEND, &of);
}

/* The element of a frontend stays while it exists, with any target; a slot gets other backends. */
static void test_counters(void **state)
{
	struct bench b;
	uint8_t key[NFT_KEY_MAX];
	struct ip_addr ip = test_addr("10.96.0.1");

	(void)state;
	bench_open(&b);
	world_count(&b.w, PLANE_COUNT_ENDPOINTS);
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_slice(&b.w, "shop/web-1", "web", "|http:8080|1 rs; 2 rs");
	world_settle(&b.w);
	nft_key_tuple(key, &ip, L4PROTO_TCP, 80);
	fake_packets(b.f, IPFAM_V4, NFTSET_COUNTED, key, 7);
	fake_packets(b.f, IPFAM_V4, NFTSET_REJECTED, key, 3);
	nft_key_slot(key, only_pool(&b)->id, 1);
	fake_packets(b.f, IPFAM_V4, NFTSET_ENDPOINTS, key, 5);
	assert_int_equal(count_of(&b, PLANE_COUNTER_CONNECTIONS).packets, 7);
	assert_int_equal(count_of(&b, PLANE_COUNTER_REJECTED).packets, 3);
	assert_int_equal(count_of_slot(&b, 0).packets, 0);
	assert_int_equal(count_of_slot(&b, 1).packets, 5);
	world_slice(&b.w, "shop/web-1", "web", "|http:8080|2 rs; 3 rs; 4 rs");
	world_settle(&b.w);
	assert_int_equal(count_of(&b, PLANE_COUNTER_CONNECTIONS).packets, 7);
	assert_int_equal(count_of_slot(&b, 1).packets, 5); /* kept its place */
	world_restart(&b.w);
	assert_int_equal(world_settle(&b.w), 0);
	assert_int_equal(count_of(&b, PLANE_COUNTER_CONNECTIONS).packets, 7);
	/* Without affinity and with it, in other sets. */
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80 affinity=60");
	world_settle(&b.w);
	assert_true(count_of_slot(&b, 1).is_known);
	assert_int_equal(count_of_slot(&b, 1).packets, 0);
	assert_int_equal(count_of(&b, PLANE_COUNTER_CONNECTIONS).packets, 7);
	/* A foreign change put another backend at the requested key. */
	nft_put_word(key, nft_word(only_pool(&b)->id, only_pool(&b)->backends.v[0].aff_id));
	assert_true(fake_foreign_del(b.f, IPFAM_V4, NFTSET_AFF_ENDPOINTS, key));
	assert_false(count_of_slot(&b, 0).is_known);
	bench_close(&b);
}

static uint64_t packets_at(struct bench *b, enum plane_counter which, const char *addr)
{
	return count(b, which, &(struct plane_counted){ { test_addr(addr), 80, L4PROTO_TCP, 0 } })
		.packets;
}

/* A frontend that moves to another service counts from 0 there; others count on. */
static void test_counters_of_owners(void **state)
{
	const char *const addrs[] = { "192.0.2.1", "192.0.2.2", "10.96.0.1" };
	uint8_t key[NFT_KEY_MAX];
	struct bench b;
	uint32_t genid;

	(void)state;
	bench_open(&b);
	world_count(&b.w, PLANE_COUNT_SERVICES);
	world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80 ext=192.0.2.1");
	world_service(&b.w, "shop/b", "ip=10.96.0.2 port=http:80 ext=192.0.2.2");
	world_slice(&b.w, "shop/a-1", "a", "|http:8080|1 rs; 2 rs");
	world_slice(&b.w, "shop/b-1", "b", "|http:8080|3 rs");
	world_settle(&b.w);
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
		struct ip_addr ip = test_addr(addrs[i]);

		nft_key_tuple(key, &ip, L4PROTO_TCP, 80);
		fake_packets(b.f, IPFAM_V4, NFTSET_COUNTED, key, 50);
		fake_packets(b.f, IPFAM_V4, NFTSET_REJECTED, key, 5);
	}
	genid = world_genid(&b.w);
	world_service(&b.w, "shop/a", "ip=10.96.0.1 port=http:80 ext=192.0.2.2");
	world_service(&b.w, "shop/b", "ip=10.96.0.2 port=http:80 ext=192.0.2.1");
	world_settle(&b.w);
	assert_int_equal(world_genid(&b.w), genid + 1); /* frontend and counter in one */
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
		uint64_t n = i == 2; /* the one that stays */

		assert_int_equal(packets_at(&b, PLANE_COUNTER_CONNECTIONS, addrs[i]), 50 * n);
		assert_int_equal(packets_at(&b, PLANE_COUNTER_REJECTED, addrs[i]), 5 * n);
	}
	world_check(&b.w);
	world_restart(&b.w);
	assert_int_equal(world_settle(&b.w), 0);
	bench_close(&b);
}

/* --- a kernel full of nonsense --- */

/* Random key or data, sometimes close to valid ones. */
static void nonsense(struct rng *r, uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(rng_below(r, 3) == 0 ? rng_next(r) : rng_below(r, 4));
	if (len >= 4 && rng_below(r, 2) == 0) /* a word of a pool that may be ours */
		nft_put_word(bytes, nft_word((uint32_t)rng_below(r, 14),
					     (uint16_t)(rng_below(r, 2) ? rng_below(r, 8)
									: rng_below(r, 4096))));
}

static void nonsense_element(struct fake *f, struct rng *r, enum plane_counting counting)
{
	enum ipfam fam = (enum ipfam)rng_below(r, IPFAM_N);
	enum nft_set_id set = (enum nft_set_id)rng_below(r, NFTSET_POD_CIDRS);
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];

	nonsense(r, key, nft_key_len(set, fam));
	nonsense(r, data, sizeof(data));
	if (set == NFTSET_AFFINITY || !nft_set_exists(set, counting) ||
	    fake_find(f, fam, set, key) != NULL)
		return;
	fake_foreign_add(f, fam, set, key, data);
}

static const enum nft_set_id led_by[] = { NFTSET_FRONTENDS,      NFTSET_XL_CLUSTER,
					  NFTSET_XL_LOCAL,       NFTSET_FW_FRONTENDS,
					  NFTSET_MASQ_FRONTENDS, NFTSET_MASQ_HOSTS,
					  NFTSET_VIPS,           NFTSET_CLUSTER_IPS,
					  NFTSET_LOCAL_BACKENDS };

/*
 * With random elements at the start, services work as on an empty kernel, and no other frontend
 * exists.
 */
static void test_nonsense(void **state)
{
	struct rng r = { .state = 99 };

	(void)state;
	for (int run = 0; run < 8; run++) {
		struct str want = { 0 };
		struct str have = { 0 };
		size_t sizes[IPFAM_N][ARRAY_SIZE(led_by)];
		struct bench b;

		bench_open(&b);
		world_count(&b.w, (enum plane_counting)(run % 3));
		for (size_t i = 0; i < SERVICES; i++) {
			random_service(&b.w, &r, i);
			random_slice(&b.w, &r, i);
		}
		world_settle(&b.w);
		fake_print_services(b.f, &want);
		for (int fam = 0; fam < IPFAM_N; fam++)
			for (size_t i = 0; i < ARRAY_SIZE(led_by); i++)
				sizes[fam][i] = fake_set_size(b.f, fam, led_by[i]);
		for (int i = 0; i < 400; i++)
			nonsense_element(b.f, &r, b.w.counting);
		if (run % 2 == 0)
			world_restart(&b.w);
		else
			sync_reload(b.w.s);
		world_settle(&b.w);
		fake_print_services(b.f, &have);
		assert_string_equal(str_text(&have), str_text(&want));
		for (int fam = 0; fam < IPFAM_N; fam++)
			for (size_t i = 0; i < ARRAY_SIZE(led_by); i++)
				assert_int_equal(fake_set_size(b.f, fam, led_by[i]), sizes[fam][i]);
		world_restart(&b.w);
		assert_int_equal(world_settle(&b.w), 0);
		str_fini(&want);
		str_fini(&have);
		bench_close(&b);
	}
}

static void on_handshake(void *arg, const struct plane_handshake *h)
{
	(void)arg;
	(void)h;
}

/* CT-33: both reads of the flows fail; the error is that of the first one. */
static void test_handshakes_unreadable(void **state)
{
	const struct plane_failover_config config = { .table = NFT_FAILOVER_TABLE,
						      .limit_ms = 500,
						      .udp_ms = 2000 };
	AUTO(fake_close) struct fake *f = NULL;
	struct world_kernel kernel = { .connect = connect_fake };
	struct err err = { 0 };
	struct world w;

	(void)state;
	fake_open(&f);
	kernel.ctx = f;
	world_open(&w, &kernel);
	plane_failover_open(w.plane, &config);
	world_settle(&w);
	assert_int_equal(w.plane->ops->handshakes(w.plane, PLANE_HANDSHAKES_SILENT, on_handshake,
						  NULL, &err),
			 0);
	fake_fail_family(f, IPFAM_V4, FAKE_FAILING_READS, ENOMEM);
	assert_int_equal(w.plane->ops->handshakes(w.plane, PLANE_HANDSHAKES_SILENT, on_handshake,
						  NULL, &err),
			 -ENOMEM);
	assert_non_null(strstr(err.text, "handshakes"));
	assert_int_equal(w.plane->ops->handshakes(w.plane, PLANE_UDP_REPLIES, NULL, NULL, NULL),
			 -ENOMEM);
	world_close(&w);
}

/*
 * CT-34: more than half of @handshakes is used. The first deletion meets an element that is gone:
 * no further one is sent before the next read.
 */
static void test_handshakes_relief(void **state)
{
	const struct plane_failover_config config = { .table = NFT_FAILOVER_TABLE,
						      .limit_ms = 500 };
	uint8_t key[NFT_KEY_MAX] = { 0 };
	struct bench b;

	(void)state;
	bench_open(&b);
	plane_failover_open(b.w.plane, &config);
	world_settle(&b.w);
	assert_int_equal(b.w.plane->ops->handshakes(b.w.plane, PLANE_HANDSHAKES_SILENT,
						    on_handshake, NULL, &b.err),
			 0);
	for (uint32_t i = 0; i < 4200; i++) {
		memcpy(key, &i, sizeof(i));
		fake_foreign_add(b.f, IPFAM_V4, FAILSET_HANDSHAKES, key, NULL);
	}
	fake_expire(b.f, 5000);
	fake_count_reset(b.f);
	fake_refuse(b.f, 1, ENOENT);
	assert_int_equal(b.w.plane->ops->handshakes(b.w.plane, PLANE_HANDSHAKES_SILENT,
						    on_handshake, NULL, &b.err),
			 0);
	assert_int_equal(fake_count(b.f).n_refused, 1);
	assert_int_equal(fake_count(b.f).n_dels, 0);
	assert_int_equal(b.w.plane->ops->handshakes(b.w.plane, PLANE_HANDSHAKES_SILENT,
						    on_handshake, NULL, &b.err),
			 0);
	assert_int_equal(fake_count(b.f).n_dels, 1024);
	bench_close(&b);
}

/* An element of a flow has expired. */
static void expire(struct fake *f, enum nft_set_id set, const struct ip_flow *of)
{
	enum ipfam fam = ip_fam(&of->to.addr);
	uint8_t key[NFT_KEY_MAX];

	nft_data_endpoint(key, &of->from.addr, of->from.port);
	nft_data_endpoint(key + nft_data_len(FAILSET_MOVES, fam), &of->to.addr, of->to.port);
	assert_true(fake_foreign_del(f, fam, set, key));
}

/*
 * The end of moves whose claims have expired, and one of which has expired, too: no transaction is
 * aborted.
 */
static void test_moves_end(void **state)
{
	const struct plane_failover_config config = { .table = NFT_FAILOVER_TABLE,
						      .limit_ms = 500,
						      .udp_ms = 2000 };
	struct plane_move v[16] = { 0 };
	struct bench b;

	(void)state;
	bench_open(&b);
	plane_failover_open(b.w.plane, &config);
	world_settle(&b.w);
	assert_int_equal(b.w.plane->ops->handshakes(b.w.plane, PLANE_HANDSHAKES_SILENT,
						    on_handshake, NULL, &b.err),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		bool is_v6 = i % 2 > 0;

		v[i] = (struct plane_move){
			.of = { { test_addr(is_v6 ? "2001:db8::7" : "203.0.113.7"),
				  (uint16_t)(1000 + i), 0 },
				{ test_addr(is_v6 ? "fd00:96::1" : "10.96.0.1"), 80, 0 },
				i % 4 < 2 ? L4PROTO_TCP : L4PROTO_UDP },
			.to = { .addr = test_addr(is_v6 ? "fd00::1" : "10.0.1.1"), .port = 8080 },
			.life_s = 35,
		};
	}
	fake_count_reset(b.f);
	assert_int_equal(b.w.plane->ops->move_begin(b.w.plane, v, ARRAY_SIZE(v), &b.err), 0);
	assert_int_equal(fake_count(b.f).n_adds, 2 * ARRAY_SIZE(v));
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		expire(b.f, i % 4 < 2 ? FAILSET_CLAIMED : FAILSET_UDP_CLAIMED, &v[i].of);
		v[i].is_void = true;
	}
	expire(b.f, FAILSET_MOVES, &v[0].of);
	fake_count_reset(b.f);
	assert_int_equal(b.w.plane->ops->move_end(b.w.plane, v, ARRAY_SIZE(v), &b.err), 0);
	assert_int_equal(fake_count(b.f).n_refused, 0);
	assert_int_equal(fake_count(b.f).n_dels, ARRAY_SIZE(v) - 1);
	bench_close(&b);
}

/* IN-19: while the sweep is pending, the guard and the tables for failover are in order. */
static void test_pending_sweep(void **state)
{
	const struct plane_failover_config config = { .table = NFT_FAILOVER_TABLE,
						      .limit_ms = 500 };
	struct bench b;

	(void)state;
	bench_open(&b);
	b.w.guard = WORLD_GUARD_ON;
	world_service(&b.w, "shop/web", "ip=10.96.0.1 port=http:80");
	world_settle(&b.w);
	world_restart(&b.w);
	plane_failover_open(b.w.plane, &config);
	sync_sweep_hold(b.w.s);
	world_settle(&b.w);
	assert_true(sync_is_sweep_pending(b.w.s));
	world_wait(&b.w, 0);
	world_wait(&b.w, 11 * NSEC_PER_SEC);
	assert_true(nft_plane_stats(b.w.plane).has_guard);
	assert_int_equal(b.w.plane->ops->handshakes(b.w.plane, PLANE_HANDSHAKES_SILENT,
						    on_handshake, NULL, &b.err),
			 0);
	sync_sweep_release(b.w.s);
	world_settle(&b.w);
	world_check(&b.w);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adopt_moved),
		cmocka_unit_test(test_shared_cases),
		cmocka_unit_test(test_handshakes_unreadable),
		cmocka_unit_test(test_handshakes_relief),
		cmocka_unit_test(test_moves_end),
		cmocka_unit_test(test_pending_sweep),
		cmocka_unit_test(test_remarks),
		cmocka_unit_test(test_refusal_names_culprit),
		cmocka_unit_test(test_remark_of_many_sets),
		cmocka_unit_test(test_remark_of_many_slots),
		cmocka_unit_test(test_killed_before_the_sweep),
		cmocka_unit_test(test_sweep_in_steps),
		cmocka_unit_test(test_sweep_of_large_pools),
		cmocka_unit_test(test_refused_while_adopting),
		cmocka_unit_test(test_refused_shares),
		cmocka_unit_test(test_restart_before_ranges),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_walk_is_stale),
		cmocka_unit_test(test_sweep_during_walk),
		cmocka_unit_test(test_retained_limit),
		cmocka_unit_test(test_stale_part),
		cmocka_unit_test(test_stranger_in_class),
		cmocka_unit_test(test_lost_answer),
		cmocka_unit_test(test_tables_gone),
		cmocka_unit_test(test_timeouts_in_steps),
		cmocka_unit_test(test_tables_gone_large),
		cmocka_unit_test(test_interrupted_look),
		cmocka_unit_test(test_owner_is_refused),
		cmocka_unit_test(test_held_by_other),
		cmocka_unit_test(test_guard_is_refused),
		cmocka_unit_test(test_guard_stays),
		cmocka_unit_test(test_guard_is_held),
		cmocka_unit_test(test_load_in_steps),
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_missing_keys),
		cmocka_unit_test(test_torn_dumps),
		cmocka_unit_test(test_lacking),
		cmocka_unit_test(test_no_jhash),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_large_random),
		cmocka_unit_test(test_family_fails_at_start),
		cmocka_unit_test(test_family_fails_beside_housekeeping),
		cmocka_unit_test(test_family_fails_later),
		cmocka_unit_test(test_family_is_deleted_again_and_again),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_counters_of_owners),
		cmocka_unit_test(test_nonsense),
	};

	log_level_set_all(LOG_LEVEL_ERR - 1);
	hash_seed(1, 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
