/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ipvs plane with the sync, over fakes of nf_tables, IPVS and policy routing. After every step
 * the virtual services are compared with a text, and a second process must find nothing to write.
 * Each test runs at three levels of counting: none, services, endpoints.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ip_vs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "ipvs_world.h"
#include "model/drain.h"
#include "nl/dump.h"

#define WEB "ip=10.96.0.10 port=http:80"

/* --- services --- */

static void test_first(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	assert_true(settle(&w) > 0);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000001);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 8);
	assert_int_equal(fake_ipvs_n_routes(w.ipvs), 2);
	expect_adopted(&w);
	world_close(&w);
}

/* With any number of frontends, one endpoint is one operation per pool and one address. */
static void test_one_endpoint(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80:30080 ext=192.0.2.1 ext=192.0.2.2 "
		"vip=192.0.2.3");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_writes_reset(w.ipvs);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	/* The destination, its address in hairpins, and its counters. */
	assert_int_equal(settle(&w), 2 + (counting == PLANE_COUNT_ENDPOINTS));
	assert_int_equal(fake_ipvs_writes(w.ipvs), 1);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1 10.0.1.3:8080=1\n");
	world_close(&w);
}

/*
 * A load reads about IPVS_READ_DESTS destinations per step, also within a virtual service. The
 * kernel lists destinations newest first; the loaded service equals the programmed one.
 */
static void test_load_in_steps(void **state)
{
	size_t n_steps = 0;
	size_t n_dumps = 0;
	struct world w;

	world_open(&w);
	for (int i = 1; i <= 10; i++)
		service_of(&w, i, 700);
	service_of(&w, 11, 9000);
	settle(&w);
	expect_adopted(&w);
	sync_reload(w.s);
	do {
		fake_ipvs_writes_reset(w.ipvs);
		assert_int_equal(sync_step(w.s, w.now), SYNC_NOW);
		assert_true(fake_ipvs_received(w.ipvs) <= 2100);
		n_dumps += fake_ipvs_dumps(w.ipvs);
		n_steps++;
	} while (sync_state_get(w.s) == SYNC_LOADING);
	assert_int_equal(n_dumps, 11);
	assert_in_range(n_steps, 8, 80);
	assert_int_equal(settle(&w), 0);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 16000);
	world_close(&w);
}

/* Permanent foreign commits: dumps of our table are not repeated. */
static void test_reading(void **state)
{
	size_t n_dumps, n_gets;
	struct world w;

	world_open(&w);
	for (int i = 1; i <= 20; i++)
		service_of(&w, i, 30);
	settle(&w);
	expect_adopted(&w);
	n_dumps = fake_count(w.nft).n_dumps;
	n_gets = fake_count(w.nft).n_gets;
	fake_interrupt_dump(w.nft, 1, true);
	expect_adopted(&w);
	assert_int_equal(fake_count(w.nft).n_dumps, n_dumps);
	assert_int_equal(fake_count(w.nft).n_gets, n_gets);
	fake_calm(w.nft);
	sync_reload(w.s);
	assert_int_equal(settle(&w), 0);
	world_close(&w);
}

/* The kernel answers the last message of a datagram, and each one that it rejects. */
static void test_few_answers(void **state)
{
	struct world w;

	world_open(&w);
	settle(&w);
	for (int i = 1; i <= 100; i++)
		service_of(&w, i, 5);
	fake_ipvs_writes_reset(w.ipvs);
	settle(&w);
	assert_in_range(fake_ipvs_writes(w.ipvs), 600, 700);
	assert_in_range(fake_ipvs_received(w.ipvs), 1, 700 / IPVS_BATCH_MAX + 10);
	fake_ipvs_writes_reset(w.ipvs);
	fake_ipvs_refuse(w.ipvs, 3, ENOMEM);
	for (int i = 101; i <= 110; i++)
		service_of(&w, i, 5);
	settle(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 550);
	world_close(&w);
}

/*
 * A cluster IP at which another Service has external frontends, or node ports. Its local pool, or
 * the cluster pool to which no cluster IP leads, is its own.
 */
static void test_adopt_at_cluster_ip(void **state)
{
	static const char *const others[] = {
		"type=LoadBalancer ip=10.96.0.10 port=http:80:30080 vip=192.0.2.1 etp",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.1 etp affinity=600",
		"ip=10.96.0.10 port=http:80 ext=192.0.2.1 itp",
		"ip=10.96.0.10 port=http:80 ext=192.0.2.1 itp fwd=tunnel",
		"type=NodePort ip=10.96.0.10 port=http:80:30080 etp",
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct world w;

		world_open(&w);
		service(&w, "shop/first", "ip=192.0.2.1 port=tls:443");
		service(&w, "shop/node", "ip=192.168.0.1 port=tls:443");
		service(&w, "shop/web", others[i]);
		slice(&w, "shop/web-1", "web", "| http:80 | 1 rs @n1; 2 rs @n2");
		settle(&w);
		expect_adopted(&w);
		world_close(&w);
	}
}

/*
 * While vipd is down, a Service opens a port at its cluster IP that was an external frontend of
 * another one: it does not adopt that one's pool.
 */
static void test_port_of_another(void **state)
{
	struct world w;
	uint32_t mark;

	(void)state;
	world_open(&w);
	service(&w, "shop/new", "ip=10.96.0.9 port=tls:443");
	service(&w, "shop/old", "ip=10.96.0.3 port=http:80 ext=10.96.0.9");
	slice(&w, "shop/old-1", "old", "| http:80 | 1 rs; 2 rs");
	settle(&w);
	mark = mark_of(&w, "10.96.0.3", 80);
	life_end(&w);
	htable_for_each (n, &w.m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	service(&w, "shop/new", "ip=10.96.0.9 port=tls:443 port=http:80");
	slice(&w, "shop/new-1", "new", "| http:80 | 9 rs");
	life_begin(&w);
	settle(&w);
	assert_int_equal(mark_of(&w, "10.96.0.3", 80), mark);
	assert_true(mark_of(&w, "10.96.0.9", 80) != mark);
	expect_adopted(&w);
	world_close(&w);
}

/* A Service was deleted between two processes, and the sweep is pending: its frontends alone. */
static void test_orphaned(void **state)
{
	struct plan_frontend f = { .port = 80, .proto = L4PROTO_TCP };
	struct world w;

	(void)state;
	world_open(&w);
	service_of(&w, 1, 2);
	service(&w, "shop/s2", "type=LoadBalancer ip=10.96.0.2 port=http:80 vip=192.0.2.1 etp");
	endpoints_of(&w, 2, 0, 2);
	settle(&w);
	life_end(&w);
	htable_for_each (n, &w.m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	no_service(&w, "shop", "s2");
	life_begin(&w);
	sync_sweep_hold(w.s);
	settle(&w);
	assert_true(sync_is_sweep_pending(w.s));
	f.addr = test_addr("10.96.0.1");
	assert_false(w.plane->ops->is_orphaned(w.plane, &f));
	f.addr = test_addr("10.96.0.2");
	assert_true(w.plane->ops->is_orphaned(w.plane, &f));
	f.addr = test_addr("192.0.2.1");
	assert_true(w.plane->ops->is_orphaned(w.plane, &f));
	f.port = 81;
	assert_false(w.plane->ops->is_orphaned(w.plane, &f));
	sync_sweep_release(w.s);
	settle(&w);
	f.port = 80;
	assert_false(w.plane->ops->is_orphaned(w.plane, &f));
	world_close(&w);
}

#define LARGE 4000 /* three pieces */

/*
 * A large service is adopted in pieces, and the first piece is read again. Backends of later pieces
 * do not drain.
 */
static void test_adopt_in_pieces(void **state)
{
	struct world w;

	world_open(&w);
	service_of(&w, 1, LARGE);
	settle(&w);
	fake_ipvs_foreign_weight(w.ipvs, "10.1.0.1", 9);
	sync_reload(w.s);
	do
		(void)sync_step(w.s, w.now);
	while (sync_state_get(w.s) == SYNC_LOADING);
	fake_ipvs_foreign_del(w.ipvs, "10.1.0.1"); /* -ENOENT for the first piece */
	fake_ipvs_writes_reset(w.ipvs);
	for (int i = 0; i < STEPS_MAX && sync_state_get(w.s) != SYNC_RUNNING; i++) {
		assert_int_equal(sync_step(w.s, w.now), SYNC_NOW);
		assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 0);
	}
	assert_int_equal(fake_ipvs_writes(w.ipvs), 2);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, LARGE);
	assert_int_equal(settle(&w), 0);
	world_close(&w);
}

/* The kernel resizes a hash table during the load, at whatever dump: no element is missed. */
static void test_torn_dumps(void **state)
{
	for (size_t n = 1; n <= 4; n++) {
		struct world w;

		world_open(&w);
		for (int i = 1; i <= 70; i++) /* more than a message of a dump lists */
			service_of(&w, i, 1);
		settle(&w);
		fake_tear_dumps(w.nft, n);
		expect_adopted(&w);
		world_close(&w);
	}
}

/* Another network namespace ends during the dump of virtual services, which then lacks some. */
static void test_incomplete_dump(void **state)
{
	struct world w;

	world_open(&w);
	for (int i = 1; i <= 10; i++)
		service_of(&w, i, 1);
	settle(&w);
	fake_ipvs_miss(w.ipvs, 6);
	expect_adopted(&w);
	fake_ipvs_miss(w.ipvs, 6);
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	expect_ipvs(&w, "");
	world_close(&w);
}

static void test_local_policy(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", "type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.3 etp");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs @n1; 2 rs @n2");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"mark 0x5a800002 rr: 10.0.1.1:8080=1\n");
	assert_int_equal(mark_of(&w, "192.0.2.3", 80), 0);
	assert_int_equal(mark_in(&w, IPVSSET_FE_IN, "192.0.2.3", 80, L4PROTO_TCP), 0x5a000001);
	assert_int_equal(mark_in(&w, IPVSSET_FE_OUT, "192.0.2.3", 80, L4PROTO_TCP), 0x5a800002);
	expect_adopted(&w);
	/*
	 * No local endpoint any more: packets of outside clients are dropped, the pool is
	 * remembered.
	 */
	slice(&w, "shop/web-1", "web", "| http:8080 | 2 rs @n2");
	settle(&w);
	assert_int_equal(mark_in(&w, IPVSSET_FE_OUT, "192.0.2.3", 80, L4PROTO_TCP), 0x5a7ff0ff);
	assert_int_equal(mark_in(&w, IPVSSET_IDLE, "192.0.2.3", 80, L4PROTO_TCP), 0x5a800002);
	expect_adopted(&w);
	world_close(&w);
}

/* --preserve-local-source: the addresses of backends on this node, and rules that use them. */
static void test_local_source(void **state)
{
	static const char *const slices[] = { "| http:8080 | 1 rs @n1; 2 rs @n2",
					      "| http:8080 | 1 rs @n1; 2 rs @n1",
					      "| http:8080 | 1 rs @n2; 2 rs @n1" };
	struct world w;

	world_open(&w);
	w.m.config.preserves_local_source = true;
	service(&w, "shop/web", "type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.3");
	for (size_t i = 0; i < ARRAY_SIZE(slices); i++) {
		struct ip_addr one = test_addr("10.0.1.1");
		struct ip_addr two = test_addr("10.0.1.2");

		slice(&w, "shop/web-1", "web", slices[i]);
		fake_ipvs_writes_reset(w.ipvs);
		settle(&w);
		assert_int_equal(fake_ipvs_writes(w.ipvs) != 0, i == 0);
		expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
		assert_int_equal(fake_find(w.nft, IPFAM_V4, IPVSSET_LOCAL_BACKENDS, one.bytes) !=
					 NULL,
				 i < 2);
		assert_int_equal(fake_find(w.nft, IPFAM_V4, IPVSSET_LOCAL_BACKENDS, two.bytes) !=
					 NULL,
				 i > 0);
		expect_adopted(&w);
	}
	w.m.config.preserves_local_source = false;
	restart(&w);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_LOCAL_BACKENDS), 0);
	expect_adopted(&w);
	world_close(&w);
}

static void test_empty(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr:\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a7ff0fe);
	expect_adopted(&w);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000001);
	world_close(&w);
}

static void test_affinity(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 ext=192.0.2.1 "
		"affinity=600");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"192.0.2.1:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000000);
	expect_adopted(&w);
	/* Only the time changes: no other message is sent. */
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 ext=192.0.2.1 "
		"affinity=300");
	assert_int_equal(settle(&w), 2);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 300s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"192.0.2.1:80/TCP rr flags 0x21 300s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 ext=192.0.2.1 "
		"affinity=600");
	settle(&w);
	slice(&w, "shop/web-1", "web", "| http:8080 | 2 rs; 3 rs");
	settle(&w);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=0 10.0.1.2:8080=1 "
			"10.0.1.3:8080=1\n"
			"192.0.2.1:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=0 10.0.1.2:8080=1 "
			"10.0.1.3:8080=1\n");
	/* Without affinity: a service by mark; the others drain and are deleted. */
	service(&w, "shop/web", "type=LoadBalancer ip=10.96.0.10 port=http:80 ext=192.0.2.1");
	settle(&w);
	assert_true(mark_of(&w, "10.96.0.10", 80) > 0x5a000000);
	pass(&w, 2);
	expect_ipvs(&w, "mark 0x5a000002 rr: 10.0.1.2:8080=1 10.0.1.3:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

/* An address moves to the older service and back: only the backends of its service serve. */
static void test_affinity_taken_over(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web",
		"ip=10.96.0.10 port=http:80 ext=192.0.2.1 affinity=600 created=200");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	service(&w, "shop/old", "ip=10.96.0.11 port=http:80 ext=192.0.2.1 affinity=60 created=100");
	slice(&w, "shop/old-1", "old", "| http:8080 | 3 rs");
	settle(&w);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"10.96.0.11:80/TCP rr flags 0x21 60s: 10.0.1.3:8080=1\n"
			"192.0.2.1:80/TCP rr flags 0x21 60s: 10.0.1.1:8080=0 10.0.1.2:8080=0 "
			"10.0.1.3:8080=1\n");
	expect_adopted(&w);
	service(&w, "shop/old", "ip=10.96.0.11 port=http:80 affinity=60 created=100");
	settle(&w);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"10.96.0.11:80/TCP rr flags 0x21 60s: 10.0.1.3:8080=1\n"
			"192.0.2.1:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=1 "
			"10.0.1.3:8080=0\n");
	world_close(&w);
}

/*
 * Affinity and Local policy: outside by address, inside by a mark that hashes clients. The mark
 * follows the policy.
 */
static void test_affinity_local(void **state)
{
	static const char *const policies[] = { "", " etp", "", " itp", " itp etp", " itp" };
	struct world w;

	world_open(&w);
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.1 etp "
		"affinity=600");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs @n1; 2 rs @n2");
	settle(&w);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"192.0.2.1:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1\n"
			"mark 0x5a000001 mh flags 0x8: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	for (size_t i = 0; i < 4 * ARRAY_SIZE(policies); i++) {
		struct str text = { 0 };
		bool has_endpoints = i / ARRAY_SIZE(policies) % 2 == 0;

		print_message("    policies:%s\n", policies[i % ARRAY_SIZE(policies)]);
		str_printf(&text, "type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.1 %s%s",
			   "affinity=600", policies[i % ARRAY_SIZE(policies)]);
		service(&w, "shop/web", str_text(&text));
		slice(&w, "shop/web-1", "web",
		      has_endpoints ? "| http:8080 | 1 rs @n1; 2 rs @n2" : "| http:8080 |");
		settle(&w);
		expect_adopted(&w);
		str_fini(&text);
	}
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.1 affinity=600");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=0\n"
			"192.0.2.1:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 10.0.1.2:8080=0\n"
			"mark 0x5a000001 mh flags 0x8: 10.0.1.1:8080=0 10.0.1.2:8080=0\n"
			"mark 0x5a000003 mh flags 0x8: 10.0.1.1:8080=0 10.0.1.2:8080=0\n");
	world_close(&w);
}

/*
 * BAL-20: external addresses have virtual services of their own, whose backends answer directly;
 * nothing is masqueraded there. Cluster IP and node port stay as they are.
 */
static void test_forwarding(void **state)
{
#define EXTERNAL "type=LoadBalancer ip=10.96.0.10 port=http:8080:30080 ext=192.0.2.1 vip=192.0.2.2"
	struct str remark = { 0 };
	struct world w;

	world_open(&w);
	service(&w, "shop/web", EXTERNAL " fwd=route");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	expect_ipvs(&w, "192.0.2.1:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(route) "
			"10.0.1.2:8080=1(route)\n"
			"192.0.2.2:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(route) "
			"10.0.1.2:8080=1(route)\n"
			"mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 8080), 0x5a000001);
	assert_int_equal(mark_of(&w, "192.0.2.1", 8080), 0x5a000000);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_MASQ), 1); /* the node port */
	expect_adopted(&w);
	/* A backend drains as others do. */
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 1, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	expect_ipvs(&w, "192.0.2.1:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(route) "
			"10.0.1.2:8080=0(route)\n"
			"192.0.2.2:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(route) "
			"10.0.1.2:8080=0(route)\n"
			"mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	expect_adopted(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 0, 0);
	pass(&w, 2);
	/* Another method is an update of each destination; affinity is possible. */
	service(&w, "shop/web", EXTERNAL " fwd=tunnel");
	settle(&w);
	expect_ipvs(&w, "192.0.2.1:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(tunnel)\n"
			"192.0.2.2:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(tunnel)\n"
			"mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	/* A tunnel of another kind is an update of each destination, too, and repaired. */
	service(&w, "shop/web", EXTERNAL " fwd=tunnel,gue:555");
	settle(&w);
	pass(&w, 2);
	expect_ipvs(&w, "192.0.2.1:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(tunnel,1:555,0)\n"
			"192.0.2.2:8080/TCP rr flags 0x20: 10.0.1.1:8080=1(tunnel,1:555,0)\n"
			"mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	expect_adopted(&w);
	for (uint16_t type = IP_VS_CONN_F_TUNNEL_TYPE_IPIP; type < IP_VS_CONN_F_TUNNEL_TYPE_MAX;
	     type++) {
		fake_ipvs_foreign_tunnel(w.ipvs, (uint8_t)type, 554, 0);
		sync_audit(w.s);
		w.now += 60 * NSEC_PER_SEC;
		assert_true(sync_settle(w.s, w.now) > 0);
		expect_ipvs(&w, "192.0.2.1:8080/TCP rr flags 0x20: "
				"10.0.1.1:8080=1(tunnel,1:555,0)\n"
				"192.0.2.2:8080/TCP rr flags 0x20: "
				"10.0.1.1:8080=1(tunnel,1:555,0)\n"
				"mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	}
	service(&w, "shop/web", EXTERNAL " fwd=tunnel affinity=60");
	settle(&w);
	pass(&w, 2);
	expect_ipvs(&w, "10.96.0.10:8080/TCP rr flags 0x21 60s: 10.0.1.1:8080=1\n"
			"192.0.2.1:8080/TCP rr flags 0x21 60s: 10.0.1.1:8080=1(tunnel)\n"
			"192.0.2.2:8080/TCP rr flags 0x21 60s: 10.0.1.1:8080=1(tunnel)\n"
			"192.168.0.1:30080/TCP rr flags 0x21 60s: 10.0.1.1:8080=1\n");
	expect_adopted(&w);
	/* An endpoint with another port: all are masqueraded, and the remark names it. */
	service(&w, "shop/web", EXTERNAL " fwd=tunnel");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	slice(&w, "shop/web-2", "web", "| http:8081 | 3 rs");
	settle(&w);
	pass(&w, 2);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_MASQ), 3);
	w.plane->ops->remark(w.plane, model_find_text(&w.m, "shop", "web"), &remark);
	assert_string_equal(remark.text,
			    "vipd.io/forwarding: 'tunnel' needs endpoints with the Service's port "
			    "8080: 10.0.1.3:8081: connections are masqueraded");
	str_fini(&remark);
	/* A change that is not programmed yet: the Service has no ports any more. */
	service(&w, "shop/web", "type=ExternalName fwd=tunnel");
	w.plane->ops->remark(w.plane, model_find_text(&w.m, "shop", "web"), &remark);
	assert_non_null(strstr(remark.text, "10.0.1.3:8081"));
	str_fini(&remark);
	settle(&w);
	expect_adopted(&w);
	world_close(&w);
}

static bool has_kube_ipvs;

/* In place of the C library's, in this program. */
unsigned int if_nametoindex(const char *name)
{
	return has_kube_ipvs && strcmp(name, "kube-ipvs0") == 0;
}

/* As for affinity: the error names a foreign service at the address, and what needs the place. */
static void test_forwarding_occupied(void **state)
{
	struct ip_addr vip = test_addr("192.0.2.1");
	struct ipvs_key key = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 8080, .addr = vip };
	struct ip_prefix exclude = { vip, 32 };

	for (int i = 0; i < 3; i++) {
		const struct sync_failure **v;
		struct world w;
		size_t n;

		world_open(&w);
		has_kube_ipvs = i > 0;
		w.config.exclude = &exclude;
		w.config.n_exclude = i == 2; /* which --cleanup=kube-proxy leaves, too */
		(void)restart(&w);
		fake_ipvs_foreign(w.ipvs, &key, 0x1, "10.0.1.2", 8080);
		service(&w, "shop/web", EXTERNAL " fwd=route");
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
		settle_until(&w, true);
		v = sync_failures(w.s, &n);
		assert_int_equal(n, 1);
		assert_string_equal(
			v[0]->text,
			i == 1 ? "IPVS 192.0.2.1:8080/TCP: kube-proxy's ipvs mode left a virtual "
				 "service there; run vipd --cleanup=kube-proxy, which hands it "
				 "over to vipd"
			       : "IPVS 192.0.2.1:8080/TCP: a foreign virtual service is there "
				 "(ipvsadm -Ln): delete it, or serve without vipd.io/forwarding");
		free(v);
		has_kube_ipvs = false;
		world_close(&w);
	}
}

/* --- leaving --- */

static struct plane_drains drains(const struct world *w)
{
	struct plane_drains d;

	w->plane->ops->drains(w->plane, &d);
	return d;
}

static void leaving_found(void *arg, const struct plane_draining *l)
{
	struct plane_draining *ret = arg;

	*ret = *l;
}

/* The draining backend of shop/web. */
static void expect_leaving(struct world *w, bool is_counted, uint32_t active)
{
	struct plane_draining l = { 0 };

	w->plane->ops->draining(w->plane, model_find_text(&w->m, "shop", "web"), leaving_found, &l);
	assert_int_equal(l.port, 8080);
	assert_int_equal(l.is_counted, is_counted);
	assert_int_equal(l.active, active);
}

static void test_drain(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 1);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 st");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000060);
	expect_leaving(&w, false, 0); /* not read yet */
	pass(&w, 3);                  /* it has connections */
	expect_leaving(&w, true, 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1);
	assert_int_equal(drains(&w).n_draining, 1);
	expect_adopted(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1);
	/* A foreign weight is repaired, the drain goes on. */
	fake_ipvs_foreign_weight(w.ipvs, "10.0.1.2", 1);
	sync_audit(w.s);
	w.now += 60 * NSEC_PER_SEC;
	assert_int_equal(sync_settle(w.s, w.now), 1);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000060);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 0, 1);
	pass(&w, 2);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 0, 0);
	pass(&w, 2);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	assert_int_equal(drains(&w).n_draining, 0);
	assert_int_equal(drains(&w).n_drained, 1);
	/* Nothing drains: nothing is read. */
	fake_ipvs_writes_reset(w.ipvs);
	pass(&w, 5);
	assert_int_equal(fake_ipvs_dumps(w.ipvs), 0);
	world_close(&w);
}

/* Destinations that cannot be read stay known: a deleted service drains its connections. */
static void test_drain_unread(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 1, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	fake_ipvs_refuse_dumps(w.ipvs, ENOMEM);
	pass(&w, 1);
	fake_ipvs_refuse_dumps(w.ipvs, 0);
	no_service(&w, "shop", "web");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=0 10.0.1.2:8080=0\n");
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 0, 0);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 0, 0);
	pass(&w, 8);
	expect_ipvs(&w, "");
	world_close(&w);
}

/* A rejected service, in the transaction of the start, does not keep backends of others. */
static void test_drain_beside_rejected(void **state)
{
	struct ip_addr vip = test_addr("10.96.0.11");
	struct ipvs_key key = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 80, .addr = vip };
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_foreign(w.ipvs, &key, 0x1, "10.9.0.1", 80);
	service(&w, "shop/sticky", "ip=10.96.0.11 port=http:80 affinity=600");
	slice(&w, "shop/sticky-1", "sticky", "| http:8080 | 3 rs");
	life_end(&w);
	life_begin(&w);
	settle_until(&w, true);
	assert_int_equal(sync_failure_count(w.s), 1);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle_until(&w, true);
	pass(&w, 3);
	expect_ipvs(&w, "10.96.0.11:80/TCP wlc flags 0x1: 10.9.0.1:80=1\n"
			"mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	world_close(&w);
}

/* With any number of draining services, each is read once per second. */
static void test_drain_many(void **state)
{
	struct world w;
	uint64_t until;

	world_open(&w);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 300; i++) {
			char name[16], key[32], slice_key[48], text[64];

			(void)snprintf(name, sizeof(name), "s%d", i);
			(void)snprintf(key, sizeof(key), "shop/%s", name);
			(void)snprintf(slice_key, sizeof(slice_key), "shop/%s-1", name);
			(void)snprintf(text, sizeof(text), "ip=10.97.%d.%d port=http:80", i / 250,
				       i % 250 + 1);
			service(&w, key, text);
			slice(&w, slice_key, name,
			      round == 0 ? "| http:8080 | 1 rs; 2 rs" : "| http:8080 | 1 rs");
			if (round == 1 && i == 0)
				fake_ipvs_conns(w.ipvs, "10.0.1.2", 1, 0);
			if (i == 299)
				settle(&w);
		}
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 300);
	fake_ipvs_writes_reset(w.ipvs);
	w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
	until = w.now + 10 * NSEC_PER_SEC;
	while (w.now < until) {
		uint64_t next = w.plane->ops->tick(w.plane, w.now);

		assert_true(next > w.now);
		w.now = MIN(next, until);
	}
	assert_in_range(fake_ipvs_dumps(w.ipvs), 9 * 300, 11 * 300);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 300);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 0, 0);
	pass(&w, 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 0);
	world_close(&w);
}

static void test_drain_deadline(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB " drain=10");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000010);
	pass(&w, 4);
	expect_adopted(&w); /* the deadline goes on */
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	pass(&w, 6);
	/* The drain may have begun at the end of its first second. */
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	pass(&w, 1);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	assert_int_equal(drains(&w).n_timed_out, 1);
	world_close(&w);
}

/*
 * A changed timeout applies to draining backends from the begin of the drain, at once and after a
 * restart.
 */
static void test_drain_timeout_changes(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB " drain=600");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000600);
	pass(&w, 4);
	service(&w, "shop/web", WEB " drain=30");
	fake_ipvs_writes_reset(w.ipvs);
	settle(&w);
	assert_int_equal(fake_ipvs_writes(w.ipvs), 1);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000030);
	expect_adopted(&w);
	service(&w, "shop/web", WEB " drain=0");
	settle(&w);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), INT32_MAX);
	expect_adopted(&w);
	/* A deadline above the kernel's range means no deadline. */
	service(&w, "shop/web", WEB " drain=2147483647");
	settle(&w);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), INT32_MAX);
	service(&w, "shop/web", WEB " drain=20");
	(void)restart(&w);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000020);
	/* A deleted service keeps its deadline, also after a restart. */
	no_service(&w, "shop", "web");
	settle(&w);
	pass(&w, 2);
	expect_adopted(&w);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000020);
	pass(&w, 12);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.2:8080=0\n");
	pass(&w, 4);
	expect_ipvs(&w, "");
	world_close(&w);
}

/* Weight 0 drains (BAL-03): the deadline is in the kernel and outlives the process. */
static void test_drain_of_weight_0(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB " drain=10");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 0);
	service(&w, "shop/web", WEB " drain=10 weights=10.0.1.2=0");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 wrr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 1000010);
	pass(&w, 6);
	expect_adopted(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	pass(&w, 5);
	expect_ipvs(&w, "mark 0x5a000001 wrr: 10.0.1.1:8080=1\n");
	world_close(&w);
}

static void expect_deadline_after(const struct world *w, uint32_t seconds)
{
	/* It was set by one of the last checks. */
	assert_in_range(fake_ipvs_threshold(w->ipvs, "10.0.1.2"), clock_s + seconds - 3,
			clock_s + seconds);
}

/*
 * The drain timeout does not apply to a backend of another zone while a slice lists it as serving,
 * unless an operator drains it. It counts from the end of that.
 */
static void test_drain_unlimited(void **state)
{
	struct ip_addr addr = test_addr("10.0.1.2");
	const struct name *ns = name_get_str("shop");
	const struct name *name = name_get_str("web");
	struct world w;

	world_open(&w);
	model_put_node(&w.m, test_node("n1", "zone=a addr=192.168.0.1 pods=10.0.0.0/16"), 1);
	service(&w, "shop/web", WEB " drain=10");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs +a; 2 rs +a");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs +a; 2 rs +b");
	settle(&w);
	pass(&w, 30);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), IPVS_DRAIN_UNLIMITED);
	/* Nothing changes: nothing is sent, also after a restart. */
	fake_ipvs_writes_reset(w.ipvs);
	pass(&w, 5);
	assert_int_equal(fake_ipvs_writes(w.ipvs), 0);
	expect_adopted(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	pass(&w, 5);
	assert_int_equal(fake_ipvs_writes(w.ipvs), 0);
	/* Drained by an operator, twice, and not any more */
	(void)model_drain(&w.m, ns, name, &addr, NULL, 1);
	settle(&w);
	pass(&w, 3);
	expect_deadline_after(&w, 10);
	(void)model_undrain(&w.m, ns, name, &addr, NULL, 1);
	settle(&w);
	pass(&w, 3);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), IPVS_DRAIN_UNLIMITED);
	service(&w, "shop/web", WEB " drain=10 weights=10.0.1.2=0");
	settle(&w);
	pass(&w, 3);
	expect_deadline_after(&w, 10);
	service(&w, "shop/web", WEB " drain=10");
	settle(&w);
	pass(&w, 3);
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), IPVS_DRAIN_UNLIMITED);
	/* Removed */
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs +a");
	settle(&w);
	pass(&w, 3);
	expect_deadline_after(&w, 10);
	assert_int_equal(drains(&w).n_timed_out, 0);
	pass(&w, 12);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	assert_int_equal(drains(&w).n_timed_out, 1);
	name_unref(ns);
	name_unref(name);
	world_close(&w);
}

/* --dead-flows=reset: 5 s after the removal, if no slice of another Service lists the address. */
static void test_drain_dead(void **state)
{
	struct world w;

	world_open(&w);
	w.m.config.tracks_addrs = true;
	service(&w, "shop/web", WEB " drain=600");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	slice(&w, "shop/other-1", "other", "| http:9090 | 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	fake_ipvs_conns(w.ipvs, "10.0.1.3", 3, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	pass(&w, 5);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0 10.0.1.3:8080=0\n");
	pass(&w, 15);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	/* The drain began long before: the address may return at once. */
	slice(&w, "shop/other-1", "other", "| http:9090 | 4 rs");
	pass(&w, 3);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	slice(&w, "shop/other-1", "other", "| http:9090 | 2 rs");
	pass(&w, 2);
	slice(&w, "shop/other-1", "other", "| http:9090 | 4 rs");
	pass(&w, 4);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	pass(&w, 4);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	/* It returns before 5 s are over, and goes again later: 5 s from then on. */
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 5 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.5", 3, 0);
	for (int i = 0; i < 2; i++) {
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
		settle(&w);
		pass(&w, 3);
		expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.5:8080=0\n");
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 5 rs");
		settle(&w);
		pass(&w, 20);
	}
	world_close(&w);
}

/* Desired again: one operation restores the weight. */
static void test_drain_back(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 3, 0);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	pass(&w, 2);
	fake_ipvs_writes_reset(w.ipvs);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	assert_int_equal(fake_ipvs_writes(w.ipvs), 1);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.2"), 0);
	pass(&w, 100);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

/* UDP: flows stay while the backend serves, and move when no slice lists it. */
static void test_drain_udp(void **state)
{
	struct world w;
	size_t dumps;

	world_open(&w);
	service(&w, "shop/dns", "ip=10.96.0.10 port=dns/UDP:53");
	slice(&w, "shop/dns-1", "dns", "| dns/UDP:53 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 5, 5);
	slice(&w, "shop/dns-1", "dns", "| dns/UDP:53 | 1 rs; 2 st");
	settle(&w);
	pass(&w, 3);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:53=1 10.0.1.2:53=0\n");
	/*
	 * Nothing changed: the next check of the objects is soon, without a request to the kernel.
	 */
	dumps = fake_ipvs_dumps(w.ipvs);
	for (int i = 0; i < 10; i++) {
		uint64_t next = w.plane->ops->tick(w.plane, w.now);

		assert_in_range(next - w.now, 1, 50 * NSEC_PER_MSEC);
		w.now = next;
	}
	assert_int_equal(fake_ipvs_dumps(w.ipvs), dumps);
	slice(&w, "shop/dns-1", "dns", "| dns/UDP:53 | 1 rs");
	settle(&w);
	(void)w.plane->ops->tick(w.plane, w.now);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:53=1\n");
	/* At once, when the backend disappears without terminating. */
	slice(&w, "shop/dns-1", "dns", "| dns/UDP:53 | 3 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.3:53=1\n");
	/* At once, too, when it serves on another port. */
	fake_ipvs_conns(w.ipvs, "10.0.1.3", 5, 5);
	slice(&w, "shop/dns-1", "dns", "| dns/UDP:5353 | 3 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.3:5353=1\n");
	/* The whole service is deleted in the commit. */
	no_service(&w, "shop", "dns");
	settle(&w);
	expect_ipvs(&w, "");
	world_close(&w);
}

static void test_service_gone(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
	no_service(&w, "shop", "web");
	settle(&w);
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=0\n");
	expect_adopted(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 0, 0);
	pass(&w, 2);
	expect_ipvs(&w, "");
	world_close(&w);
}

/* --- what services ask for --- */

static void test_tuning(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB " sched=wrr weights=10.0.1.1=5");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 wrr: 10.0.1.1:8080=5 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	fake_ipvs_writes_reset(w.ipvs);
	service(&w, "shop/web", WEB " sched=mh,mh-port weights=10.0.1.1=5,10.0.1.2=2");
	settle(&w);
	assert_int_equal(fake_ipvs_writes(w.ipvs), 2);
	expect_ipvs(&w, "mark 0x5a000001 mh flags 0x18: 10.0.1.1:8080=5 10.0.1.2:8080=2\n");
	service(&w, "shop/web", WEB " sched=nonsense");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

static void expect_remark(struct world *w, const char *expected)
{
	struct str text = { 0 };

	w->plane->ops->remark(w->plane, model_find_text(&w->m, "shop", "web"), &text);
	assert_string_equal(text.len > 0 ? str_text(&text) : "", expected);
	str_fini(&text);
}

/* IPVS-17: weights are in force with each default; a scheduler that ignores them is named. */
static void test_weights_by_default(void **state)
{
	static const struct {
		const char *by_default;
		const char *annotations;
		const char *missing;
		const char *sched; /* in force */
		const char *remark;
	} cases[] = {
		{ "rr", "", NULL, "wrr", "" },
		{ "lc", "", NULL, "wlc", "" },
		{ "sed", "", NULL, "sed", "" },
		{ "rr", " sched=mh", NULL, "mh flags 0x8", "" },
		{ "rr", " sched=x", NULL, "wrr",
		  "vipd.io/scheduler: unknown scheduler 'x': served with wrr" },
		{ "rr", " sched=lc", NULL, "lc",
		  "vipd.io/weights: 'lc' ignores weights: only weight 0 has an effect" },
		{ "dh", "", NULL, "dh",
		  "vipd.io/weights: 'dh' ignores weights: only weight 0 has an effect" },
		{ "rr", "", "wrr", "rr",
		  "vipd.io/weights: 'wrr' is not loaded (module ip_vs_wrr): only weight 0 "
		  "has an effect" },
		{ "rr", " sched=rr", "wrr", "rr",
		  "vipd.io/weights: 'rr' ignores weights: only weight 0 has an effect" },
		{ "rr", " sched=twos", "twos", "wrr",
		  "vipd.io/scheduler: 'twos' is not loaded (module ip_vs_twos): served "
		  "with wrr" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[160];
		struct world w;

		print_message("    %s%s\n", cases[i].by_default, cases[i].annotations);
		world_open(&w);
		w.config.sched = cases[i].by_default;
		(void)restart(&w);
		if (cases[i].missing != NULL)
			fake_ipvs_lack(w.ipvs, cases[i].missing);
		(void)snprintf(text, sizeof(text), WEB " weights=10.0.1.1=5%s",
			       cases[i].annotations);
		service(&w, "shop/web", text);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
		settle(&w);
		settle(&w); /* a missing scheduler is known */
		(void)snprintf(text, sizeof(text),
			       "mark 0x5a000001 %s: 10.0.1.1:8080=5 10.0.1.2:8080=1\n",
			       cases[i].sched);
		expect_ipvs(&w, text);
		expect_remark(&w, cases[i].remark);
		world_close(&w);
	}
}

static void expect_dests(struct world *w, const char *head, const char *dests)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%s%s\n", head, dests);
	expect_ipvs(w, text);
}

/* BAL-02: by name of pod or slice; a weight that changes is one operation. */
static void test_weights_by_name(void **state)
{
	static const char *const services[] = { WEB " sched=wrr", WEB " sched=wrr affinity=60" };

	for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
		const char *head =
			i == 0 ? "mark 0x5a000001 wrr: " : "10.96.0.10:80/TCP wrr flags 0x21 60s: ";
		char text[160];
		struct world w;

		world_open(&w);
		(void)snprintf(text, sizeof(text), "%s weights=a-*=5,web-2=7,*=95", services[i]);
		service(&w, "shop/web", text);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs ~a-1; 2 rs ~b-1");
		slice(&w, "shop/web-2", "web", "| http:8080 | 3 rs ~b-2");
		settle(&w);
		expect_dests(&w, head, "10.0.1.1:8080=5 10.0.1.2:8080=95 10.0.1.3:8080=7");
		expect_adopted(&w);
		/* a pod with another name has the address */
		fake_ipvs_writes_reset(w.ipvs);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs ~a-1; 2 rs ~a-2");
		settle(&w);
		assert_int_equal(fake_ipvs_writes(w.ipvs), 1);
		expect_dests(&w, head, "10.0.1.1:8080=5 10.0.1.2:8080=5 10.0.1.3:8080=7");
		fake_ipvs_writes_reset(w.ipvs);
		(void)snprintf(text, sizeof(text), "%s weights=a-*=5,web-2=8,*=95", services[i]);
		service(&w, "shop/web", text);
		settle(&w);
		assert_int_equal(fake_ipvs_writes(w.ipvs), 1);
		slice(&w, "shop/web-2", "web", "| http:8080 | 3 rs ~a-3");
		settle(&w);
		expect_dests(&w, head, "10.0.1.1:8080=5 10.0.1.2:8080=5 10.0.1.3:8080=5");
		expect_adopted(&w);
		world_close(&w);
	}
}

static void test_sched_missing(void **state)
{
	struct world w;

	world_open(&w);
	fake_ipvs_lack(w.ipvs, "lblcr");
	service(&w, "shop/web", WEB " sched=lblcr");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	service(&w, "shop/api", "ip=10.96.0.11 port=http:80 sched=wlc");
	slice(&w, "shop/api-1", "api", "| http:8080 | 3 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"mark 0x5a000002 wlc: 10.0.1.3:8080=1\n");
	world_close(&w);
}

/*
 * The module is unloaded and loaded again, and has another number: a change or an audit loads the
 * state again, and no scheduler is taken for a missing one.
 */
static void test_module_reloaded(void **state)
{
	struct world w;

	world_open(&w);
	settle(&w);
	fake_ipvs_reload(w.ipvs);
	service(&w, "shop/web", WEB " sched=wlc");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 wlc: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(sync_stats_get(w.s)->loads, 2);
	fake_ipvs_reload(w.ipvs);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 3 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 wlc: 10.0.1.1:8080=1 10.0.1.3:8080=1\n");
	fake_ipvs_reload(w.ipvs);
	sync_audit(w.s);
	w.now += 60 * NSEC_PER_SEC;
	(void)sync_settle(w.s, w.now);
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 wlc: 10.0.1.1:8080=1 10.0.1.3:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

static void load_module(void *arg)
{
	fake_ipvs_reload(arg);
}

/* Linux 5.15: the request for the match loads the module; without it the error says what to do. */
static void test_module_loaded(void **state)
{
	struct world w;
	struct err err;

	world_open(&w);
	fake_ipvs_unload(w.ipvs);
	assert_int_equal(ipvs_sysctls_prepare(w.plane, &err), -EOPNOTSUPP);
	assert_string_equal(err.text,
			    "IPVS is not loaded: modprobe ip_vs, also at boot (modules-load.d)");
	fake_loading(w.nft, load_module, w.ipvs);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	world_close(&w);
}

/* A scheduler that the kernel cannot load safely is not requested before its module is loaded. */
static void test_sched_unsafe(void **state)
{
	char root[] = "/tmp/vipd-test-XXXXXX";
	char command[256];
	struct world w;

	assert_non_null(mkdtemp(root));
	(void)snprintf(command, sizeof(command),
		       "mkdir -p %s/sys/module/ip_vs && touch %s/sys/module/ip_vs/initstate", root,
		       root);
	assert_int_equal(system(command), 0);
	world_open(&w);
	w.config.sysctl_root = root;
	(void)restart(&w);
	service(&w, "shop/web", WEB " sched=lblc");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	(void)snprintf(command, sizeof(command), "mkdir %s/sys/module/ip_vs_lblc", root);
	assert_int_equal(system(command), 0);
	service(&w, "shop/web", WEB " sched=lblc drain=60s");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 lblc: 10.0.1.1:8080=1\n");
	world_close(&w);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0);
}

/*
 * Without the default scheduler: the plane is not ready, with the reason; no service is rejected,
 * and attempts use no pool ids.
 */
static void test_no_sched(void **state)
{
	struct world w;

	world_open(&w);
	fake_ipvs_lack(w.ipvs, "rr");
	service(&w, "shop/web", "ip=10.96.0.10 port=http:80 port=tls:443");
	slice(&w, "shop/web-1", "web", "| http:8080 tls:8443 | 1 rs; 2 rs");
	service(&w, "shop/api", "ip=10.96.0.11 port=http:80");
	slice(&w, "shop/api-1", "api", "| http:8080 | 3 rs");
	for (int i = 0; i < 100 || sync_stats_get(w.s)->failures < 5; i++) {
		uint64_t next = sync_step(w.s, w.now);

		w.now = next == SYNC_NOW ? w.now : next;
		assert_true(i < STEPS_MAX);
	}
	assert_string_equal(plane_unready(w.plane),
			    "IPVS scheduler rr is not loaded: modprobe ip_vs_rr, or choose another "
			    "with --ipvs-scheduler");
	assert_true(sync_stats_get(w.s)->failures >= 5);
	assert_int_equal(sync_failure_count(w.s), 0);
	assert_int_equal(sync_stats_get(w.s)->first_sync_ns, 0);
	expect_ipvs(&w, "");
	fake_ipvs_lack(w.ipvs, "");
	settle(&w);
	assert_null(plane_unready(w.plane));
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"mark 0x5a000002 rr: 10.0.1.1:8443=1 10.0.1.2:8443=1\n"
			"mark 0x5a000003 rr: 10.0.1.3:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

/* The module of a scheduler is loaded later: one load, and the service has it. */
static void test_sched_comes(void **state)
{
	char root[] = "/tmp/vipd-test-XXXXXX";
	char command[256];
	struct world w;
	uint64_t loads;

	assert_non_null(mkdtemp(root));
	world_open(&w);
	w.config.sysctl_root = root;
	(void)restart(&w);
	fake_ipvs_lack(w.ipvs, "mh");
	service(&w, "shop/web", WEB " sched=mh");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	loads = sync_stats_get(w.s)->loads;
	pass(&w, 12);
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(sync_stats_get(w.s)->loads, loads);
	fake_ipvs_lack(w.ipvs, "");
	(void)snprintf(command, sizeof(command), "mkdir -p %s/sys/module/ip_vs_mh", root);
	assert_int_equal(system(command), 0);
	for (int i = 0; i < 2; i++) {
		pass(&w, 12);
		settle(&w);
		expect_ipvs(&w, "mark 0x5a000001 mh flags 0x8: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
		assert_int_equal(sync_stats_get(w.s)->loads, loads + 1);
	}
	expect_remark(&w, "");
	world_close(&w);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0);
}

/* --- sysctls --- */

static void sysctl_put(const char *root, const char *name, const char *value)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/proc/sys/net/ipv4/vs/%s", root, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(value, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int sysctl_get(const char *root, const char *name)
{
	char path[256];
	int value = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/proc/sys/net/ipv4/vs/%s", root, name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &value), 1);
	assert_int_equal(fclose(f), 0);
	return value;
}

/* Foreign changes are repaired; with conntrack=0 that cannot be changed the plane is not ready. */
static void test_sysctls(void **state)
{
	char root[] = "/tmp/vipd-test-XXXXXX";
	char command[256];
	struct world w;

	assert_non_null(mkdtemp(root));
	(void)snprintf(command, sizeof(command), "mkdir -p %s/proc/sys/net/ipv4/vs", root);
	assert_int_equal(system(command), 0);
	sysctl_put(root, "conntrack", "0\n");
	sysctl_put(root, "sloppy_tcp", "0\n");
	world_open(&w);
	w.config.sysctl_root = root;
	w.config.timeouts.tcp = 7200;
	(void)restart(&w);
	assert_int_equal(sysctl_get(root, "conntrack"), 1);
	sysctl_put(root, "conntrack", "0\n");
	sysctl_put(root, "sloppy_tcp", "1\n");
	fake_ipvs_foreign_timeout(w.ipvs, 900);
	pass(&w, 12);
	assert_int_equal(sysctl_get(root, "conntrack"), 1);
	assert_int_equal(sysctl_get(root, "sloppy_tcp"), 0);
	assert_int_equal(fake_ipvs_timeout(w.ipvs), 7200);
	assert_int_equal(w.plane->n_repaired, 3);
	assert_null(plane_unready(w.plane));
	/* A readable file that cannot be written. */
	(void)snprintf(
		command, sizeof(command),
		"cd %s/proc/sys/net/ipv4/vs && rm conntrack && ln -s /proc/version conntrack",
		root);
	assert_int_equal(system(command), 0);
	pass(&w, 12);
	assert_non_null(plane_unready(w.plane));
	assert_non_null(strstr(plane_unready(w.plane),
			       "net.ipv4.vs.conntrack is 0, must be 1 and cannot be set: "));
	(void)snprintf(command, sizeof(command), "rm %s/proc/sys/net/ipv4/vs/conntrack", root);
	assert_int_equal(system(command), 0);
	/* A kernel without CONFIG_IP_VS_NFCT. */
	pass(&w, 12);
	assert_non_null(plane_unready(w.plane));
	assert_string_equal(plane_unready(w.plane),
			    "net.ipv4.vs.conntrack is missing: the kernel needs CONFIG_IP_VS_NFCT");
	sysctl_put(root, "conntrack", "0\n");
	pass(&w, 12);
	assert_null(plane_unready(w.plane));
	world_close(&w);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0);
}

static void expect_expiry(void *arg)
{
	assert_int_equal(sysctl_get(arg, "expire_nodest_conn"), 1);
}

/*
 * --cleanup: as long as virtual services are deleted, the kernel ends their connections. Without
 * that it drops packets from their client ports, for minutes.
 */
static void test_cleanup_ends_connections(void **state)
{
	char root[] = "/tmp/vipd-test-XXXXXX";
	char command[256];
	struct world w;

	assert_non_null(mkdtemp(root));
	(void)snprintf(command, sizeof(command),
		       "mkdir -p %s/proc/sys/net/ipv4/vs %s/proc/net && touch %s/proc/net/ip_vs",
		       root, root, root);
	assert_int_equal(system(command), 0);
	sysctl_put(root, "expire_nodest_conn", "0\n");
	world_open(&w);
	w.config.sysctl_root = root;
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	(void)restart(&w);
	assert_int_equal(sysctl_get(root, "expire_nodest_conn"), 1);
	fake_ipvs_deleting(w.ipvs, expect_expiry, root);
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	expect_ipvs(&w, "");
	assert_int_equal(sysctl_get(root, "expire_nodest_conn"), 0);
	world_close(&w);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0);
}

/* --- others --- */

static void test_foreign(void **state)
{
	struct ipvs_key theirs = { .fam = IPFAM_V4, .mark = 0x77 };
	struct ipvs_key vip = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 443 };
	struct ipvs_key excluded = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 444 };
	struct ip_prefix exclude = test_prefix("192.0.2.128/25");
	struct world w;

	world_open(&w);
	vip.addr = test_addr("192.0.2.9");
	excluded.addr = test_addr("192.0.2.200");
	fake_ipvs_foreign(w.ipvs, &theirs, 0, "10.9.0.1", 1);
	fake_ipvs_foreign(w.ipvs, &vip, 0, "10.9.0.1", 1);
	fake_ipvs_foreign(w.ipvs, &excluded, 0x20, "10.9.0.1", 1);
	w.config.exclude = &exclude;
	w.config.n_exclude = 1;
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	restart(&w);
	pass(&w, 3);
	expect_ipvs(&w, "192.0.2.200:444/TCP wlc flags 0x20: 10.9.0.1:1=1\n"
			"192.0.2.9:443/TCP wlc: 10.9.0.1:1=1\n"
			"mark 0x5a000001 rr: 10.0.1.1:8080=1\n"
			"mark 0x77 wlc: 10.9.0.1:1=1\n");
	expect_adopted(&w);
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	expect_ipvs(&w, "192.0.2.200:444/TCP wlc flags 0x20: 10.9.0.1:1=1\n"
			"192.0.2.9:443/TCP wlc: 10.9.0.1:1=1\n"
			"mark 0x77 wlc: 10.9.0.1:1=1\n");
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 0);
	assert_int_equal(fake_ipvs_n_routes(w.ipvs), 0);
	world_close(&w);
}

#define THEIRS "192.168.0.1:444/TCP wlc flags 0x20: 10.9.0.1:1=1\n"
#define EXCLUDED(weight)                                              \
	"10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=" weight \
	"\n192.168.0.1:30080/TCP rr flags 0x21 600s: 10.0.1.1:8080=" weight "\n"

static void node_port(struct world *w)
{
	service(w, "shop/web", "type=NodePort ip=10.96.0.10 port=http:80:30080 affinity=600");
	slice(w, "shop/web-1", "web", "| http:8080 | 1 rs");
}

/* A Service needs an excluded address, and there is a foreign virtual service with the flag. */
static void open_excluded(struct world *w)
{
	struct ipvs_key theirs = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 444 };
	static struct ip_prefix exclude;

	exclude = test_prefix("192.168.0.0/24"); /* of the node */
	world_open(w);
	theirs.addr = test_addr("192.168.0.1");
	fake_ipvs_foreign(w->ipvs, &theirs, 0x20, "10.9.0.1", 1);
	w->config.exclude = &exclude;
	w->config.n_exclude = 1;
	node_port(w);
	(void)restart(w);
}

static void expect_drained(struct world *w)
{
	expect_ipvs(w, EXCLUDED("0") THEIRS);
	expect_adopted(w);
	fake_ipvs_conns(w->ipvs, "10.0.1.1", 0, 0);
	pass(w, 2);
	expect_ipvs(w, THEIRS);
}

/*
 * Excluded addresses: a Service that needs one is served as elsewhere, also after an audit, a
 * restart and the loss of the table. What no Service needs stays, with the flag, too.
 */
static void test_excluded(void **state)
{
	struct world w;

	open_excluded(&w);
	sync_audit(w.s);
	w.now += 60 * NSEC_PER_SEC;
	(void)sync_settle(w.s, w.now);
	assert_int_equal(sync_failure_count(w.s), 0);
	expect_ipvs(&w, EXCLUDED("1") THEIRS);
	expect_adopted(&w);
	fake_ipvs_writes_reset(w.ipvs);
	fake_foreign_flush(w.nft, IPFAM_V4);
	sync_reload(w.s);
	settle(&w);
	assert_int_equal(fake_ipvs_writes(w.ipvs), 0);
	expect_adopted(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
	no_service(&w, "shop", "web");
	settle(&w);
	sync_reload(w.s); /* its drain continues, also after a restart */
	settle(&w);
	expect_drained(&w);
	world_close(&w);
}

/*
 * A virtual service of an earlier process that no Service needs drains if vipd's table leads to it.
 * Without the table it stays; when it is deleted, and needed again, it is added.
 */
static void test_excluded_leftover(void **state)
{
	struct ipvs_key key = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 30080 };
	struct world w;

	open_excluded(&w);
	key.addr = test_addr("192.168.0.1");
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
	no_service(&w, "shop", "web");
	(void)restart(&w);
	expect_drained(&w);
	node_port(&w);
	settle(&w);
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	no_service(&w, "shop", "web");
	(void)restart(&w);
	pass(&w, 2);
	expect_ipvs(&w, "192.168.0.1:30080/TCP rr flags 0x21 600s: 10.0.1.1:8080=1\n" THEIRS);
	fake_ipvs_foreign_flags(w.ipvs, &key, 0);
	node_port(&w);
	settle(&w);
	expect_ipvs(&w, EXCLUDED("1") THEIRS);
	expect_adopted(&w);
	/* Weight 0 and a lower threshold alone are no drain of vipd. */
	fake_ipvs_foreign_weight(w.ipvs, "10.9.0.1", 0);
	fake_ipvs_foreign_threshold(w.ipvs, "10.9.0.1", 5);
	(void)restart(&w);
	pass(&w, 3);
	expect_ipvs(&w, EXCLUDED("1") "192.168.0.1:444/TCP wlc flags 0x20: 10.9.0.1:1=0\n");
	world_close(&w);
}

/* A virtual service of an earlier process that is not desired drains and is deleted. */
static void test_leftover(void **state)
{
	struct ipvs_key key = { .fam = IPFAM_V4, .mark = 0x5a000123 };
	struct world w;

	world_open(&w);
	settle(&w);
	fake_ipvs_foreign(w.ipvs, &key, 0, "10.9.0.1", 1);
	fake_ipvs_conns(w.ipvs, "10.9.0.1", 1, 0);
	restart(&w);
	expect_ipvs(&w, "mark 0x5a000123 wlc: 10.9.0.1:1=0\n");
	fake_ipvs_conns(w.ipvs, "10.9.0.1", 0, 0);
	pass(&w, 2);
	expect_ipvs(&w, "");
	world_close(&w);
}

/* Put a TCP service and a UDP service with connections, and restart with mark tag 0x60. */
static void tag_change(struct world *w)
{
	service(w, "shop/web", WEB);
	slice(w, "shop/web-1", "web", "| http:8080 | 1 rs");
	service(w, "shop/dns", "ip=10.96.0.11 port=dns/UDP:53");
	slice(w, "shop/dns-1", "dns", "| dns/UDP:53 | 5 rs");
	settle(w);
	fake_ipvs_conns(w->ipvs, "10.0.1.1", 1, 0);
	fake_ipvs_conns(w->ipvs, "10.0.1.5", 1, 0);
	w->config.mark_tag = 0x60;
	w->config.rule_priority = 2000;
	restart(w);
}

#define NEW_TAG "mark 0x60000001 rr: 10.0.1.1:8080=1\nmark 0x60000002 rr: 10.0.1.5:53=1\n"

/*
 * With another --ipvs-mark, virtual services of the earlier mark drain; those of UDP are deleted at
 * once. When none is left, the earlier mark is released.
 */
static void test_other_tag(void **state)
{
	static const uint8_t tags[] = { 0x60, 0 };
	struct ipvs_key foreign = { .fam = IPFAM_V4, .mark = 0x5a000009 };
	struct world w;

	world_open(&w);
	tag_change(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=0\n" NEW_TAG);
	restart(&w); /* while they drain */
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 0, 0);
	pass(&w, 2);
	expect_ipvs(&w, NEW_TAG);
	fake_ipvs_foreign(w.ipvs, &foreign, 0, "10.9.0.1", 1);
	expect_adopted(&w);
	pass(&w, 2);
	expect_ipvs(&w, "mark 0x5a000009 wlc: 10.9.0.1:1=1\n" NEW_TAG);
	fake_ipvs_foreign_flags(w.ipvs, &foreign, 0);
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) { /* also without the flag */
		w.config.mark_tag = tags[i];
		life_end(&w);
		life_begin(&w);
		assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
		expect_ipvs(&w, "");
		assert_int_equal(fake_ipvs_n_rules(w.ipvs), 0);
		w.config.mark_tag = 0x60;
		restart(&w);
	}
	world_close(&w);
}

/* --cleanup with a third mark finds the mark in use and the one that drains. */
static void test_cleanup_of_tags(void **state)
{
	struct world w;

	world_open(&w);
	tag_change(&w);
	w.config.mark_tag = 0x70;
	life_end(&w);
	life_begin(&w);
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	expect_ipvs(&w, "");
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 0);
	world_close(&w);
}

/* Another plane serves; this one only drains. */
static struct plane *retiree(struct world *w)
{
	struct ipvs_socks socks = { .nft = fake_connect(w->nft),
				    .query = fake_connect(w->nft),
				    .genl = fake_ipvs_connect(w->ipvs),
				    .route = fake_ipvs_connect_route(w->ipvs),
				    .large = fake_ipvs_connect(w->ipvs) };
	struct plane *p;

	assert_int_equal(ipvs_plane_open(&p, &socks, &w->config, NULL), 0);
	return p;
}

/* Call retire() until the plane is loaded. */
static uint64_t retire_once(struct world *w, struct plane *p)
{
	uint64_t again = 0;

	do {
		w->now = MAX(w->now, again);
		assert_int_equal(p->ops->retire(p, &w->m, w->now, &again, NULL), 0);
	} while (again != 0 && !ipvs_plane_of(p)->is_retiring);
	return again;
}

/*
 * Let at least `seconds` pass. True while something is left. The start of a drain is read from the
 * real clock, so the next call is as late as the plane requests.
 */
static bool retires(struct world *w, struct plane *p, uint32_t seconds)
{
	for (uint32_t i = 0; i <= seconds; i++) {
		uint64_t again = retire_once(w, p);

		if (again == 0)
			return false;
		assert_true(again > w->now);
		clock_s += i < seconds;
		w->now = i < seconds ? MAX(w->now + NSEC_PER_SEC, again) : w->now;
	}
	return true;
}

/*
 * Connections end, datagrams move at once, and after a kill the next process continues. Weights
 * stay: for a SYN that arrives twice at weight 0, IPVS would end its connection.
 */
static void test_retires(void **state)
{
	struct plane *p;
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	service(&w, "shop/dns", "ip=10.96.0.11 port=dns/UDP:53");
	slice(&w, "shop/dns-1", "dns", "| dns/UDP:53 | 5 rs; 6 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 2, 0);
	fake_ipvs_conns(w.ipvs, "10.0.1.5", 0, 3);
	life_end(&w);
	w.now = now_ns() + NSEC_PER_SEC / 2;
	p = retiree(&w);
	assert_true(retires(&w, p, 0));
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000001); /* packets must reach IPVS */
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.1"), 1000060);
	p->ops->close(p);
	p = retiree(&w);
	fake_ipvs_writes_reset(w.ipvs);
	fake_count_reset(w.nft);
	assert_true(retires(&w, p, 5));
	assert_int_equal(fake_ipvs_writes(w.ipvs), 1); /* the one without connections was deleted */
	assert_int_equal(fake_count(w.nft).n_batches, 0);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 0, 0);
	assert_true(retires(&w, p, 5));
	expect_ipvs(&w, "");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000001); /* datagrams may come */
	assert_false(retires(&w, p, 200));
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 0);
	p->ops->close(p);
	life_begin(&w);
	world_close(&w);
}

/* With another --ipvs-mark, rules keep the mark of draining connections. */
static void test_retires_other_tag(void **state)
{
	struct plane *p;
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 2, 0);
	life_end(&w);
	w.now = now_ns() + NSEC_PER_SEC / 2;
	w.config.mark_tag = 0x60;
	w.config.route_table = 77;
	w.config.rule_priority = 2000;
	p = retiree(&w);
	fake_ipvs_writes_reset(w.ipvs);
	assert_true(retires(&w, p, 0));
	assert_int_equal(fake_ipvs_writes(w.ipvs), 1); /* the deadline; no rule, no route */
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000001);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 0, 0);
	assert_false(retires(&w, p, 5));
	expect_ipvs(&w, "");
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 0);
	p->ops->close(p);
	life_begin(&w);
	world_close(&w);
}

/* A large service is loaded, and its drain begins, in steps; the loop runs between them. */
static void test_retires_in_steps(void **state)
{
	uint64_t again = 0;
	size_t n = 0;
	struct plane *p;
	struct world w;

	world_open(&w);
	service_of(&w, 1, 9000);
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.1.0.1", 1, 0);
	life_end(&w);
	w.now = now_ns() + NSEC_PER_SEC / 2;
	p = retiree(&w);
	for (; ipvs_plane_stats(p).n_draining < 9000; n++) {
		assert_in_range(n, 0, 100);
		fake_ipvs_writes_reset(w.ipvs);
		assert_int_equal(p->ops->retire(p, &w.m, w.now, &again, NULL), 0);
		assert_true(again > w.now);
		assert_true(fake_ipvs_received(w.ipvs) <= 2100 + fake_ipvs_writes(w.ipvs));
		assert_true(fake_ipvs_searched(w.ipvs) <= 2000 * 1000);
		w.now = again;
	}
	assert_in_range(n, 5 + 9000 / 200, 100);
	p->ops->close(p);
	life_begin(&w);
	world_close(&w);
}

/*
 * Virtual services at excluded addresses drain, too; a foreign one is not waited for. A cleanup by
 * another process deletes them.
 */
static void test_retires_excluded(void **state)
{
	(void)state;
	for (int is_cleaned = 0; is_cleaned < 2; is_cleaned++) {
		struct plane *p;
		struct world w;

		open_excluded(&w);
		fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
		life_end(&w);
		w.now = now_ns() + NSEC_PER_SEC / 2;
		p = retiree(&w);
		assert_true(retires(&w, p, 5));
		assert_int_equal(ipvs_plane_of(p)->vss.count, 2); /* as in the log */
		expect_ipvs(&w, EXCLUDED("1") THEIRS);
		if (is_cleaned) {
			p->ops->close(p);
			p = retiree(&w);
			assert_int_equal(p->ops->cleanup(p, NULL), 0);
		} else {
			fake_ipvs_conns(w.ipvs, "10.0.1.1", 0, 0);
			assert_false(retires(&w, p, 5));
		}
		expect_ipvs(&w, THEIRS);
		p->ops->close(p);
		life_begin(&w);
		world_close(&w);
	}
}

/* The plane is chosen again before the drain ends: everything is restored. */
static void test_retires_not(void **state)
{
	struct plane *p;
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.0.1.1", 2, 0);
	fake_ipvs_conns(w.ipvs, "10.0.1.2", 2, 0);
	life_end(&w);
	w.now = now_ns() + NSEC_PER_SEC / 2;
	p = retiree(&w);
	assert_true(retires(&w, p, 3));
	p->ops->close(p);
	life_begin(&w);
	assert_true(settle(&w) > 0);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	assert_int_equal(fake_ipvs_threshold(w.ipvs, "10.0.1.1"), 0);
	expect_adopted(&w);
	/* No kernel state: nothing to wait for. */
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	p = retiree(&w);
	assert_false(retires(&w, p, 0));
	p->ops->close(p);
	world_close(&w);
}

static void test_audit(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_foreign_del(w.ipvs, "10.0.1.1");
	fake_ipvs_foreign_weight(w.ipvs, "10.0.1.2", 9);
	fake_ipvs_rules_flush(w.ipvs);
	sync_audit(w.s);
	w.now += 60 * NSEC_PER_SEC;
	assert_true(sync_settle(w.s, w.now) > 0);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	pass(&w, 2); /* routing is checked periodically */
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 8);
	expect_adopted(&w);
	world_close(&w);
}

/* Kernel state differs from the programmed state: it is read, and the commit succeeds. */
static void test_stale(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_foreign_del(w.ipvs, "10.0.1.1");
	service(&w, "shop/web", WEB " weights=10.0.1.1=4");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 wrr: 10.0.1.1:8080=4 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

/* --- ranges of the environment --- */

/* IN-20: a restart before Node and ServiceCIDRs are listed keeps their ranges, and the rules. */
static void test_restart_before_ranges(void **state)
{
	const struct name *name = name_get_str("a");
	struct world w;

	(void)state;
	world_open(&w);
	model_put_service_cidr(&w.m, test_service_cidr("a", "10.200.0.0/16 fd00::/112"), 1);
	service(&w, "shop/web", WEB);
	settle(&w);
	model_del_service_cidr(&w.m, name, 2);
	node_close(TAKE(w.m.self));
	(void)model_await_node(&w.m, true, 2);
	(void)model_await_service_cidrs(&w.m, true, 2);
	expect_adopted(&w);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_POD_CIDRS), 2);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_SERVICE_CIDRS), 4);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V6, IPVSSET_SERVICE_CIDRS), 2);
	/* The lists have neither. */
	(void)model_await_node(&w.m, false, 3);
	(void)model_await_service_cidrs(&w.m, false, 3);
	assert_true(settle(&w) > 0);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_POD_CIDRS), 0);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_SERVICE_CIDRS), 2);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V6, IPVSSET_SERVICE_CIDRS), 0);
	expect_adopted(&w);
	world_close(&w);
	name_unref(name);
}

/* --- source ranges (REJ-10) --- */

#define LB_A "type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.1"
#define LB_B "type=LoadBalancer ip=10.96.0.11 port=http:80 vip=192.0.2.2"

static void open_guarded(struct world *w)
{
	world_open(w);
	service(w, "shop/a", LB_A " range=10.0.0.0/8");
	slice(w, "shop/a-1", "a", "| http:8080 | 1 rs");
	service(w, "shop/b", LB_B);
	slice(w, "shop/b-1", "b", "| http:8080 | 2 rs");
	settle(w);
}

static bool has_range(const struct world *w, const char *range, uint32_t mark)
{
	struct ip_prefix p = test_prefix(range);
	uint8_t key[NFT_KEY_MAX];

	nft_key_range(key, IPVSSET_RANGES, mark, &p);
	return fake_find(w->nft, IPFAM_V4, IPVSSET_RANGES, key) != NULL;
}

/* Ranges come and go in one transaction with the frontends that use them. */
static void test_ranges_with_frontends(void **state)
{
	struct world w;
	uint32_t a, b, before;

	open_guarded(&w);
	a = mark_in(&w, IPVSSET_GUARDED, "192.0.2.1", 80, L4PROTO_TCP);
	b = mark_of(&w, "192.0.2.2", 80);
	assert_true(a != 0 && b != 0 && has_range(&w, "10.0.0.0/8", a));
	before = fake_genid(w.nft);
	service(&w, "shop/a", LB_A);
	service(&w, "shop/b", LB_B " range=172.16.0.0/12");
	settle(&w);
	assert_int_equal(fake_genid(w.nft) - before, 1);
	assert_true(has_range(&w, "172.16.0.0/12", b));
	assert_false(has_range(&w, "10.0.0.0/8", a));
	assert_int_equal(mark_in(&w, IPVSSET_GUARDED, "192.0.2.1", 80, L4PROTO_TCP), 0);
	assert_int_equal(mark_in(&w, IPVSSET_GUARDED, "192.0.2.2", 80, L4PROTO_TCP), b);
	expect_adopted(&w);
	world_close(&w);
}

/* A range that overlaps one of an earlier process replaces it. */
static void test_ranges_while_down(void **state)
{
	struct world w;
	uint32_t a;

	open_guarded(&w);
	a = mark_in(&w, IPVSSET_GUARDED, "192.0.2.1", 80, L4PROTO_TCP);
	service(&w, "shop/a", LB_A " range=10.0.0.0/9");
	(void)restart(&w);
	assert_int_equal(sync_stats_get(w.s)->failures, 0);
	assert_true(has_range(&w, "10.112.0.0/12", a)); /* the last part */
	assert_false(has_range(&w, "10.0.0.0/8", a));
	assert_int_equal(mark_in(&w, IPVSSET_GUARDED, "192.0.2.1", 80, L4PROTO_TCP), a);
	expect_adopted(&w);
	world_close(&w);
}

/* --- refusals --- */

/*
 * For each operation of a change: if it is rejected, other services are served, and later this one.
 */
static void test_refused(void **state)
{
	for (size_t k = 1; k <= 6; k++) {
		struct world w;

		world_open(&w);
		service(&w, "shop/web", WEB);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
		service(&w, "shop/api", "ip=10.96.0.11 port=http:80");
		slice(&w, "shop/api-1", "api", "| http:8080 | 3 rs");
		settle_until(&w, true);
		fake_ipvs_refuse(w.ipvs, k, EINVAL);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 4 rs; 5 rs");
		slice(&w, "shop/api-1", "api", "| http:8080 | 3 rs; 6 rs");
		settle(&w);
		pass(&w, 2);
		expect_ipvs(&w,
			    "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.4:8080=1 10.0.1.5:8080=1\n"
			    "mark 0x5a000002 rr: 10.0.1.3:8080=1 10.0.1.6:8080=1\n");
		expect_adopted(&w);
		fake_ipvs_refuse(w.ipvs, 0, 0);
		world_close(&w);
	}
}

/* A removal that IPVS rejects is repeated after a load, and the address family has not failed. */
static void test_refused_removal(void **state)
{
	struct world w;
	uint64_t loads;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	loads = sync_stats_get(w.s)->loads;
	fake_ipvs_refuse(w.ipvs, 1, EINVAL);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	for (; sync_stats_get(w.s)->loads == loads; w.now += 10 * NSEC_PER_MSEC) {
		(void)sync_step(w.s, w.now);
		assert_int_equal(plane_families_failed(w.plane), 0);
	}
	settle(&w);
	pass(&w, 2);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1\n");
	world_close(&w);
}

/* The kernel rejects rules for a changed node once. */
static void test_refused_rules(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	settle(&w);
	fake_refuse(w.nft, 1, ENOMEM);
	model_put_node(&w.m, test_node("n1", "addr=192.168.0.1 pods=10.1.0.0/16"), 1);
	settle(&w);
	assert_int_equal(sync_stats_get(w.s)->loads, 2);
	world_close(&w);
}

/*
 * An endpoint that IPVS never accepts, such as a broadcast address: the family has not failed, and
 * the service is not pending.
 */
static void test_refused_for_ever(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	for (int i = 0; i < 600; i++, w.now += 100 * NSEC_PER_MSEC) {
		fake_ipvs_refuse(w.ipvs, 1, EINVAL);
		(void)sync_step(w.s, w.now);
		assert_int_equal(plane_families_failed(w.plane), 0);
		assert_int_equal(sync_pending_since(w.s), 0);
	}
	assert_in_range(sync_stats_get(w.s)->rejected, 9, 20);
	fake_ipvs_refuse(w.ipvs, 0, 0);
	settle(&w);
	world_close(&w);
}

/*
 * The kernel rejects another scheduler when it has unbound the old one: that is bound again, and
 * the address family has not failed.
 */
static void test_refused_sched(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_mh_slots(w.ipvs, 1);
	service(&w, "shop/web", WEB " sched=mh");
	for (uint64_t n = 0; n < 10; n = sync_stats_get(w.s)->rejected) {
		uint64_t next = sync_step(w.s, w.now);

		w.now = next == SYNC_NOW ? w.now : next;
		assert_int_equal(plane_families_failed(w.plane), 0);
		expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	}
	fake_ipvs_mh_slots(w.ipvs, 2);
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 mh flags 0x8: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

/* The old one is rejected, too: it is bound within seconds. */
static void test_refused_old_sched(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	fake_ipvs_mh_slots(w.ipvs, 1);
	fake_ipvs_refuse(w.ipvs, 2, ENOMEM);
	service(&w, "shop/web", WEB " sched=mh");
	settle_until(&w, true);
	expect_ipvs(&w, "mark 0x5a000001 : 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	pass(&w, 2);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	fake_ipvs_writes_reset(w.ipvs);
	pass(&w, 5);
	assert_int_equal(fake_ipvs_dumps(w.ipvs), 0);
	world_close(&w);
}

static void test_refused_at_first(void **state)
{
	for (size_t k = 1; k <= 5; k++) {
		struct world w;

		world_open(&w);
		settle(&w);
		fake_ipvs_refuse(w.ipvs, k, EINVAL);
		service(&w, "shop/web", WEB);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
		settle(&w);
		expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
		fake_ipvs_refuse(w.ipvs, 0, 0);
		expect_adopted(&w);
		world_close(&w);
	}
}

/*
 * While vipd is down, a new service gets an address of another one. It does not adopt that one's
 * pool, to which the other cluster IP leads, even if the kernel rejects the other service.
 */
static void test_adopt_moved(void **state)
{
	const struct ip_addr addr = test_addr("10.96.0.3");
	uint8_t key[NFT_KEY_MAX] = { 0 };
	struct world w;

	world_open(&w);
	service(&w, "shop/old", "ip=10.96.0.3 port=http:80 ext=192.0.2.7 created=2");
	slice(&w, "shop/old-1", "old", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	life_end(&w);
	htable_for_each (n, &w.m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	life_begin(&w);
	service(&w, "shop/new", "ip=10.96.0.9 port=http:80 ext=192.0.2.7 created=1");
	slice(&w, "shop/new-1", "new", "| http:8080 | 9 rs");
	nft_key_tuple(key, &addr, L4PROTO_TCP, 80);
	fake_refuse_key(w.nft, IPVSSET_FE, key, nft_key_len(IPVSSET_FE, IPFAM_V4), ENOSPC);
	settle_until(&w, true);
	assert_int_equal(mark_of(&w, "10.96.0.3", 80), 0x5a000001);
	assert_int_equal(mark_of(&w, "192.0.2.7", 80), 0x5a000002);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"mark 0x5a000002 rr: 10.0.1.9:8080=1\n");
	fake_refuse_key(w.nft, NFTSET_N, NULL, 0, 0);
	settle(&w);
	expect_adopted(&w);
	world_close(&w);
}

/*
 * A foreign virtual service has the address and port that affinity needs: the error names it, the
 * last good state stays, also after a restart, and the service is served when the foreign one is
 * deleted or taken over.
 */
static void count_addition(void *arg, const struct ip_addr *addr)
{
	(void)addr;
	++*(size_t *)arg;
}

static void test_occupied(void **state)
{
	struct ip_addr vip = test_addr("10.96.0.10");
	struct ipvs_key key = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 80, .addr = vip };

	for (int is_handed_over = 0; is_handed_over < 2; is_handed_over++) {
		struct world w;
		size_t n;
		const struct sync_failure **v;

		world_open(&w);
		service(&w, "shop/web", WEB);
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
		settle(&w);
		fake_ipvs_foreign(w.ipvs, &key, 0x1, "10.0.1.2", 8080);
		service(&w, "shop/web", WEB " affinity=600");
		fake_ipvs_adding(w.ipvs, count_addition, &n);
		n = 0;
		settle_until(&w, true);
		assert_int_equal(n, 0); /* not for a moment, either */
		fake_ipvs_adding(w.ipvs, NULL, NULL);
		for (int life = 0; life < 2; life++) {
			v = sync_failures(w.s, &n);
			assert_int_equal(n, 1);
			assert_int_equal(v[0]->code, -EEXIST);
			assert_non_null(strstr(v[0]->text, "10.96.0.10:80/TCP: a foreign virtual"));
			free(v);
			assert_int_equal(sync_occupied_count(w.s), 1);
			assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000001);
			expect_ipvs(&w, "10.96.0.10:80/TCP wlc flags 0x1: 10.0.1.2:8080=1\n"
					"mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
			life_end(&w);
			life_begin(&w);
			settle_until(&w, true);
		}
		fake_ipvs_foreign_flags(w.ipvs, &key, is_handed_over ? 0x21 : 0);
		settle(&w);
		assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000000);
		pass(&w, 3);
		expect_ipvs(&w, "10.96.0.10:80/TCP rr flags 0x21 600s: 10.0.1.1:8080=1 "
				"10.0.1.2:8080=1\n");
		expect_adopted(&w);
		world_close(&w);
	}
}

/* Another process replaces a virtual service of vipd that serves or drains. */
static void test_replaced_by_foreign(void **state)
{
	static const char theirs[] = "10.96.0.10:80/TCP wlc flags 0x1: 10.9.0.1:1=1\n";
	struct ipvs_key key = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 80 };

	(void)state;
	key.addr = test_addr("10.96.0.10");
	for (int is_draining = 0; is_draining < 2; is_draining++) {
		struct world w;

		world_open(&w);
		service(&w, "shop/web", WEB " affinity=600");
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
		settle(&w);
		fake_ipvs_conns(w.ipvs, "10.0.1.1", 1, 0);
		if (is_draining) {
			no_service(&w, "shop", "web");
			settle(&w);
		}
		fake_ipvs_foreign_flags(w.ipvs, &key, 0); /* deleted */
		fake_ipvs_foreign(w.ipvs, &key, 0x1, "10.9.0.1", 1);
		if (!is_draining) { /* the audit finds it */
			sync_audit(w.s);
			w.now += 60 * NSEC_PER_SEC;
			(void)sync_settle(w.s, w.now);
			expect_ipvs(&w, theirs);
			slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
			settle_until(&w, true);
			assert_int_equal(sync_occupied_count(w.s), 1);
		}
		pass(&w, 3);
		expect_ipvs(&w, theirs);
		world_close(&w);
	}
}

/* nf_tables rejects: IPVS is unchanged. */
static void test_refused_by_nft(void **state)
{
	struct world w;

	world_open(&w);
	settle(&w);
	fake_refuse(w.nft, 1, EINVAL);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle_until(&w, true);
	expect_ipvs(&w, "");
	settle(&w);
	assert_true(mark_of(&w, "10.96.0.10", 80) != 0);
	expect_adopted(&w);
	world_close(&w);
}

/*
 * A table of another layout is replaced, with its elements. If the kernel rejects that, commits
 * write the elements, with the marks that they had.
 */
static void test_replaced(void **state)
{
	for (int is_rejected = 0; is_rejected < 2; is_rejected++) {
		struct world w;

		world_open(&w);
		service(&w, "shop/gone", "ip=10.96.0.9 port=http:80");
		slice(&w, "shop/gone-1", "gone", "| http:8080 | 9 rs");
		settle(&w);
		service(&w, "shop/web", LB_A " range=10.0.0.0/8");
		slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
		settle(&w);
		no_service(&w, "shop", "gone");
		fake_foreign_version(w.nft);
		if (is_rejected)
			fake_refuse(w.nft, 1, ENOMEM);
		restart(&w);
		assert_int_equal(sync_stats_get(w.s)->failures, is_rejected);
		assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000002);
		pass(&w, 2);
		expect_ipvs(&w, "mark 0x5a000002 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
		expect_adopted(&w);
		world_close(&w);
	}
}

/* vipd ends at any request while a table is replaced: previous values of sysctls are kept. */
static void test_replaced_and_killed(void **state)
{
	uint8_t key[NFT_KEY_MAX] = { 0 };
	bool is_killed = true;

	nft_put_word(key, IPVS_PREVIOUS_TIMEOUTS);
	for (size_t k = 1; is_killed; k++) {
		struct world w;

		world_open(&w);
		settle(&w);
		fake_foreign_version(w.nft);
		life_end(&w);
		life_begin(&w);
		fake_fail_send(w.nft, k, EPERM);
		while (sync_state_get(w.s) != SYNC_RUNNING && sync_stats_get(w.s)->failures == 0)
			(void)sync_step(w.s, w.now);
		is_killed = sync_state_get(w.s) != SYNC_RUNNING;
		assert_true(is_killed || k > 10);
		assert_non_null(fake_find(w.nft, IPFAM_V4, IPVSSET_REMEMBERED, key));
		world_close(&w);
	}
}

/* A lost answer of nf_tables: the new frontends may exist, so IPVS serves them until the load. */
static void test_answer_lost(void **state)
{
	struct world w;
	uint64_t before;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	before = sync_stats_get(w.s)->failures;
	fake_lose_answer(w.nft, 2); /* the first one has the hairpins */
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	service(&w, "shop/api", "ip=10.96.0.11 port=http:80");
	slice(&w, "shop/api-1", "api", "| http:8080 | 3 rs");
	while (sync_stats_get(w.s)->failures == before)
		(void)sync_step(w.s, w.now);
	assert_int_equal(mark_of(&w, "10.96.0.11", 80), 0x5a000002);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n"
			"mark 0x5a000002 rr: 10.0.1.3:8080=1\n");
	settle(&w);
	expect_adopted(&w);
	world_close(&w);
}

/* nf_tables rejects the change of a service: a new backend, which may have connections, drains. */
static void test_backend_refused_by_nft(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs");
	settle(&w);
	fake_refuse(w.nft, 2, ENOSPC);
	service(&w, "shop/web", WEB " ext=192.0.2.1");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle_until(&w, true);
	assert_int_equal(mark_of(&w, "192.0.2.1", 80), 0);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=0\n");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	expect_adopted(&w);
	/* Its hairpin is rejected: IPVS does not get it. */
	fake_refuse(w.nft, 1, ENOSPC);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	settle_until(&w, true);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1\n");
	settle(&w);
	expect_ipvs(&w, "mark 0x5a000001 rr: 10.0.1.1:8080=1 10.0.1.2:8080=1 10.0.1.3:8080=1\n");
	expect_adopted(&w);
	world_close(&w);
}

static void test_route_conflict(void **state)
{
	struct world w;

	/* At the start: vipd's local route would deliver the packets of that rule to this host. */
	world_open(&w);
	fake_ipvs_foreign_rule(w.ipvs, AF_INET, 32000, IPVS_ROUTE_TABLE_DEFAULT);
	fake_ipvs_foreign_rule(w.ipvs, AF_INET6, 32000, IPVS_ROUTE_TABLE_DEFAULT);
	for (int i = 0; i < 50 && *sync_stats_get(w.s)->last_error == '\0'; i++)
		(void)sync_step(w.s, w.now);
	assert_non_null(strstr(sync_stats_get(w.s)->last_error,
			       "of IPv4: '32000: lookup 23130' leads into vipd's routing table"));
	assert_string_equal(plane_unready(w.plane), sync_stats_get(w.s)->last_error);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 2);
	assert_int_equal(fake_ipvs_n_routes(w.ipvs), 0);
	/* After the rules are deleted vipd serves. */
	fake_ipvs_rules_del(w.ipvs, 32000);
	settle(&w);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 8);
	assert_null(plane_unready(w.plane));
	/* Later: logged; vipd's own rules are repaired. */
	fake_ipvs_foreign_rule(w.ipvs, AF_INET6, 32000, IPVS_ROUTE_TABLE_DEFAULT);
	fake_ipvs_rules_del(w.ipvs, 102);
	pass(&w, 12);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 9);
	assert_int_equal(w.plane->n_repaired, 2);
	assert_null(plane_unready(w.plane));
	assert_non_null(strstr(w.plane->faults[PLANE_FAULT_ROUTING].text,
			       "rule of IPv6: '32000: lookup 23130'"));
	(void)restart(&w);
	assert_non_null(strstr(w.plane->faults[PLANE_FAULT_ROUTING].text, "'32000:"));
	fake_ipvs_rules_del(w.ipvs, 32000);
	pass(&w, 12);
	assert_string_equal(w.plane->faults[PLANE_FAULT_ROUTING].text, "");
	world_close(&w);
}

static size_t n_notifications;

static ssize_t notification_recv(void *ctx, void *data, size_t size)
{
	struct nlmsghdr h = { .nlmsg_len = sizeof(h), .nlmsg_type = RTM_DELRULE };

	if (n_notifications == 0)
		return -EAGAIN;
	n_notifications--;
	assert_true(size >= sizeof(h));
	memcpy(data, &h, sizeof(h));
	return sizeof(h);
}

/* After a notification the next check() repairs policy routing. */
static void test_rule_notified(void **state)
{
	const struct nl_io io = { .recv = notification_recv };
	struct err err = { 0 };
	struct world w;

	world_open(&w);
	settle(&w);
	nl_sock_open_io(&ipvs_plane_of(w.plane)->rules, &io);
	for (size_t i = 0; i < 2; i++) {
		fake_ipvs_rules_del(w.ipvs, 102);
		assert_true(w.plane->ops->check(w.plane, &err) >= 0);
		assert_int_equal(fake_ipvs_n_rules(w.ipvs), 6);
		n_notifications = 2;
		assert_true(w.plane->ops->check(w.plane, &err) >= 0);
		assert_int_equal(fake_ipvs_n_rules(w.ipvs), 8);
		assert_int_equal(n_notifications, 0);
		assert_int_equal(w.plane->n_repaired, 2 * (i + 1));
	}
	world_close(&w);
}

/* --- address families --- */

static void dual_service(struct world *w, int no, const char *hosts)
{
	static const char *const prefixes[IPFAM_N] = { "", "v6 " };
	char of[8];
	char name[32];
	char text[96];

	(void)snprintf(of, sizeof(of), "d%d", no);
	(void)snprintf(name, sizeof(name), "shop/%s", of);
	(void)snprintf(text, sizeof(text), "ip=10.96.1.%d ip=fd02::%x port=http:80", no, no);
	service(w, name, text);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		(void)snprintf(name, sizeof(name), "shop/%s-%d", of, fam);
		(void)snprintf(text, sizeof(text), "%s| http:8080 | %s", prefixes[fam], hosts);
		slice(w, name, of, text);
	}
}

/* The services of one family, as in expect_ipvs(). */
static void expect_family(const struct world *w, enum ipfam fam, size_t n, const char *host)
{
	struct str all = { 0 };
	size_t n_hosts = 0;
	size_t n_all = 0;

	fake_ipvs_print(w->ipvs, &all);
	for (char *line = all.text; line != NULL && *line; line = strchr(line, '\n') + 1) {
		char *end = strchr(line, '\n');
		const char *v6 = strstr(line, " (IPv6)");

		if ((v6 != NULL && v6 < end) != (fam == IPFAM_V6))
			continue;
		n_all++;
		n_hosts += strstr(line, host) != NULL && strstr(line, host) < end;
	}
	assert_int_equal(n_all, n);
	assert_int_equal(n_hosts, n);
	str_fini(&all);
}

static bool has_family_failed(const struct world *w)
{
	bool has_failed = plane_family_has_failed(w->plane, IPFAM_V6);

	assert_false(plane_family_has_failed(w->plane, IPFAM_V4));
	assert_int_equal(has_failed,
			 w->plane->faults[PLANE_FAULT_FAMILY + (int)IPFAM_V6].text[0] != '\0');
	return has_failed;
}

static void family_recovers(struct world *w, size_t n)
{
	for (int i = 0; i < STEPS_MAX && has_family_failed(w); i++) {
		uint64_t next = sync_step(w->s, w->now);

		w->now = next == SYNC_NOW ? w->now : next;
	}
	assert_false(has_family_failed(w));
	(void)settle(w);
	pass(w, 3);
	expect_family(w, IPFAM_V4, n, "10.0.1.3:8080=1");
	expect_family(w, IPFAM_V6, n, "[fd00::3]:8080=1");
	assert_true(mark_of(w, "fd02::1", 80) != 0);
	expect_adopted(w);
}

/* IPv6 fails at the start: IPv4 is served, and gets every change. */
static void test_family_fails_at_start(void **state)
{
	for (int is_ipvs = 0; is_ipvs < 2; is_ipvs++) {
		struct world w;

		world_open(&w);
		if (is_ipvs)
			fake_ipvs_lack_v6(w.ipvs, true);
		else
			fake_ipvs_foreign_rule(w.ipvs, AF_INET6, 32000, IPVS_ROUTE_TABLE_DEFAULT);
		for (int i = 1; i <= 12; i++)
			dual_service(&w, i, "1 rs; 2 rs");
		(void)settle(&w);
		assert_true(has_family_failed(&w));
		for (int i = 1; i <= 12; i++)
			dual_service(&w, i, "1 rs; 3 rs");
		(void)settle(&w);
		assert_true(has_family_failed(&w));
		assert_non_null(
			strstr(w.plane->faults[PLANE_FAULT_FAMILY + (int)IPFAM_V6].text,
			       is_ipvs ? "Address family not supported"
				       : "IPv6 failed: foreign policy routing rule of IPv6"));
		expect_family(&w, IPFAM_V4, 12, "10.0.1.3:8080=1");
		expect_family(&w, IPFAM_V6, 0, "");
		assert_int_equal(mark_of(&w, "fd02::1", 80), 0);
		assert_int_equal(fake_ipvs_n_rules(w.ipvs), is_ipvs ? 8 : 5);
		fake_ipvs_lack_v6(w.ipvs, false);
		fake_ipvs_rules_del(w.ipvs, 32000);
		family_recovers(&w, 12);
		world_close(&w);
	}
}

/* IPv6 fails later: what it has in the kernel stays, also over a restart; IPv4 gets every change.
 */
static void test_family_fails_later(void **state)
{
	struct world w;

	world_open(&w);
	for (int i = 1; i <= 3; i++)
		dual_service(&w, i, "1 rs; 2 rs");
	(void)settle(&w);
	fake_ipvs_lack_v6(w.ipvs, true);
	for (int i = 1; i <= 4; i++) /* the last one is new */
		dual_service(&w, i, "1 rs; 3 rs");
	(void)settle(&w);
	for (int life = 0; life < 2; life++) {
		assert_true(has_family_failed(&w));
		pass(&w, 3);
		expect_family(&w, IPFAM_V4, 4, "10.0.1.3:8080=1");
		expect_family(&w, IPFAM_V6, 3, "[fd00::1]:8080=1");
		assert_true(mark_of(&w, "fd02::3", 80) != 0);
		assert_int_equal(mark_of(&w, "fd02::4", 80), 0);
		(void)restart(&w);
	}
	fake_ipvs_lack_v6(w.ipvs, false);
	family_recovers(&w, 4);
	world_close(&w);
}

struct troubles {
	size_t n_hard;
	size_t n_soft;
};

static void trouble_count(void *arg, bool is_hard, const char *text)
{
	struct troubles *t = arg;

	t->n_hard += is_hard;
	t->n_soft += !is_hard;
}

/* Rules with marks that conflict with vipd's, and others. */
static void test_route_marks(void **state)
{
	static const struct {
		uint32_t priority, mark, mask;
		struct troubles found;
	} cases[] = {
		{ 32000, 0x5a000000, 0xff000000, { 1, 0 } },
		{ 32000, 0x5b000001, 0xff000001, { 1, 0 } },
		{ 32000, 0x5a000000, 0xff000f00, { 1, 0 } },
		{ 7, 0x5a000000, 0xff000f00, { 1, 1 } },
		{ 32000, 0x20, 0xf0, { 0, 0 } }, /* asked after vipd's */
		{ 7, 0x20, 0xf0, { 0, 1 } },
		{ 7, 0x5a000000, 0xf0000000, { 0, 1 } },
		{ 7, 0x4a000000, 0xff000000, { 0, 0 } },
		{ 7, 0x200, 0xf00, { 0, 0 } }, /* Cilium's */
		{ 7, 0x5a070200, 0xffffffff, { 0, 0 } },
	};
	struct ipvs_route_config c = { .marks = ipvs_marks_from(IPVS_MARK_TAG_DEFAULT),
				       .table = IPVS_ROUTE_TABLE_DEFAULT,
				       .priority = IPVS_RULE_PRIORITY_DEFAULT };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct troubles found = { 0 };
		struct fake_ipvs *f;
		struct nl_sock *nl;
		struct str text = { 0 };
		struct err err;

		fake_ipvs_open(&f);
		nl = fake_ipvs_connect_route(f);
		fake_ipvs_foreign_mark_rule(f, AF_INET, cases[i].priority, cases[i].mark,
					    cases[i].mask);
		assert_int_equal(ipvs_route_text(nl, &c, &text, &text, trouble_count, &found, &err),
				 0);
		str_fini(&text);
		assert_int_equal(found.n_hard, cases[i].found.n_hard);
		assert_int_equal(found.n_soft, cases[i].found.n_soft);
		nl_sock_close(nl);
		fake_ipvs_close(f);
	}
}

#define MAIN_TABLE 254

/* A foreign rule with one of vipd's priorities coexists, at the start and later. */
static void test_route_priority_shared(void **state)
{
	struct world w;

	world_open(&w);
	fake_ipvs_foreign_rule(w.ipvs, AF_INET, 102, MAIN_TABLE);
	settle(&w);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 9);
	assert_null(plane_unready(w.plane));
	fake_ipvs_rules_flush(w.ipvs);
	fake_ipvs_foreign_rule(w.ipvs, AF_INET, 101, MAIN_TABLE);
	pass(&w, 12);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 9);
	expect_adopted(&w);
	world_close(&w);
}

/* Another table was configured before: its route is deleted with the rules. */
static void test_route_table_changes(void **state)
{
	struct world w;

	world_open(&w);
	w.config.route_table = 77;
	(void)restart(&w);
	assert_int_equal(fake_ipvs_n_routes(w.ipvs), 2);
	w.config.route_table = 0;
	(void)restart(&w);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 8);
	assert_int_equal(fake_ipvs_n_routes(w.ipvs), 2);
	expect_adopted(&w);
	w.config.route_table = 77;
	(void)restart(&w);
	assert_int_equal(w.plane->ops->cleanup(w.plane, NULL), 0);
	assert_int_equal(fake_ipvs_n_routes(w.ipvs), 0);
	assert_int_equal(fake_ipvs_n_rules(w.ipvs), 0);
	world_close(&w);
}

/* --- counters --- */

static const struct plan_rows *web_rows(const struct world *w)
{
	const struct name *ns = name_get_str("shop");
	const struct name *name = name_get_str("web");
	const struct svc *svc = model_find(&w->m, ns, name);

	name_unref(ns);
	name_unref(name);
	assert_non_null(svc);
	return svc->rows;
}

static struct plane_count count(const struct world *w, enum plane_counter which,
				const struct plane_counted *of)
{
	struct plane_count c = { 0 };
	struct err err;

	assert_int_equal(w->plane->ops->count(w->plane, which, of, 1, &c, &err), 0);
	return c;
}

static struct plane_count asked(const struct world *w, enum plane_counter which, size_t i)
{
	const struct plan_frontend *f = &web_rows(w)->frontends.v[i];

	return count(w, which, &(struct plane_counted){ .at = { f->addr, f->port, f->proto, 0 } });
}

/* Of the backend at `addr` in the pool of this scope. */
static struct plane_count reached(const struct world *w, enum plan_scope scope, const char *addr)
{
	struct plane_counted of = { .at.addr = test_addr(addr) };

	vec_for_each (pool, &web_rows(w)->pools) {
		if (pool->scope != scope || pool->fam != ip_fam(&of.at.addr))
			continue;
		of.pool_id = pool->id;
		vec_for_each (b, &pool->backends)
			if (ip_addr_cmp(&b->addr, &of.at.addr) == 0)
				of.at.port = b->port;
	}
	return count(w, PLANE_COUNTER_BACKEND, &of);
}

static void packets_come(const struct world *w, uint32_t mark, const char *addr, uint64_t n)
{
	struct ip_addr a = test_addr(addr);
	uint8_t key[NFT_KEY_MAX];

	nft_key_reached(key, mark, &a, 8080);
	fake_packets(w->nft, ip_fam(&a), IPVSSET_REACHED, key, n);
}

static void packets_ask(const struct world *w, enum nft_set_id set, const char *addr, uint64_t n)
{
	struct ip_addr a = test_addr(addr);
	uint8_t key[NFT_KEY_MAX];

	nft_key_tuple(key, &a, L4PROTO_TCP, 80);
	fake_packets(w->nft, ip_fam(&a), set, key, n);
}

/* A frontend counts while it exists, a backend while it is in its pool. */
static void test_counters(void **state)
{
	struct world w;

	world_open(&w);
	w.config.counting = PLANE_COUNT_ENDPOINTS;
	restart(&w);
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	packets_ask(&w, IPVSSET_COUNTED, "10.96.0.10", 7);
	packets_ask(&w, IPVSSET_REJECTED, "10.96.0.10", 3);
	packets_come(&w, 0x5a000001, "10.0.1.1", 4);
	packets_come(&w, 0x5a000001, "10.0.1.2", 5);
	slice(&w, "shop/web-1", "web", "| http:8080 | 2 rs; 3 rs");
	settle(&w);
	expect_adopted(&w);
	assert_int_equal(asked(&w, PLANE_COUNTER_CONNECTIONS, 0).packets, 7);
	assert_int_equal(asked(&w, PLANE_COUNTER_REJECTED, 0).packets, 3);
	assert_int_equal(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.2").packets, 5);
	assert_true(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.3").is_known);
	/* A draining backend is not counted. */
	assert_false(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.1").is_known);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	settle(&w);
	assert_true(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.1").is_known);
	assert_int_equal(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.1").packets, 0);
	/* Without endpoints packets are rejected and counted for the frontend. */
	slice(&w, "shop/web-1", "web", "| http:8080 |");
	settle(&w);
	assert_int_equal(asked(&w, PLANE_COUNTER_CONNECTIONS, 0).packets, 7);
	expect_adopted(&w);
	no_service(&w, "shop", "web");
	settle(&w);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_COUNTED), 0);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_REJECTED), 0);
	assert_int_equal(fake_set_size(w.nft, IPFAM_V4, IPVSSET_REACHED), 0);
	world_close(&w);
}

/* A frontend that moves to another service counts from 0 there. */
static void test_counters_of_owners(void **state)
{
	struct world w;

	world_open(&w);
	w.config.counting = PLANE_COUNT_SERVICES;
	restart(&w);
	service(&w, "shop/other", "ip=10.96.0.11 port=http:80 ext=192.0.2.1");
	service(&w, "shop/web", WEB);
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs");
	settle(&w);
	packets_ask(&w, IPVSSET_COUNTED, "10.96.0.10", 7);
	packets_ask(&w, IPVSSET_COUNTED, "192.0.2.1", 50);
	packets_ask(&w, IPVSSET_REJECTED, "192.0.2.1", 50);
	service(&w, "shop/other", "ip=10.96.0.11 port=http:80");
	service(&w, "shop/web", WEB " ext=192.0.2.1");
	settle(&w);
	assert_int_equal(asked(&w, PLANE_COUNTER_CONNECTIONS, 0).packets, 7);
	assert_true(asked(&w, PLANE_COUNTER_CONNECTIONS, 1).is_known);
	assert_int_equal(asked(&w, PLANE_COUNTER_CONNECTIONS, 1).packets, 0);
	assert_int_equal(asked(&w, PLANE_COUNTER_REJECTED, 1).packets, 0);
	expect_adopted(&w);
	world_close(&w);
}

/* Counted by the pool's mark, also if the packet's mark has no pool: `idle` has the pool's mark. */
static void test_counters_of_pools(void **state)
{
	struct world w;

	world_open(&w);
	w.config.counting = PLANE_COUNT_ENDPOINTS;
	restart(&w);
	service(&w, "shop/web",
		"type=LoadBalancer ip=10.96.0.10 port=http:80 vip=192.0.2.1 etp affinity=600");
	slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs @n1; 2 rs @n2");
	settle(&w);
	assert_int_equal(mark_of(&w, "10.96.0.10", 80), 0x5a000000);
	assert_int_equal(mark_in(&w, IPVSSET_IDLE, "10.96.0.10", 80, L4PROTO_TCP), 0x5a000001);
	assert_int_equal(mark_in(&w, IPVSSET_IDLE, "192.0.2.1", 80, L4PROTO_TCP), 0x5a800002);
	packets_come(&w, 0x5a000001, "10.0.1.1", 4);
	packets_come(&w, 0x5a000001, "10.0.1.2", 5);
	packets_come(&w, 0x5a800002, "10.0.1.1", 6);
	assert_int_equal(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.1").packets, 4);
	assert_int_equal(reached(&w, PLAN_SCOPE_CLUSTER, "10.0.1.2").packets, 5);
	assert_int_equal(reached(&w, PLAN_SCOPE_LOCAL, "10.0.1.1").packets, 6);
	expect_adopted(&w);
	world_close(&w);
}

static void expect_counting(const struct world *w, enum plane_counting is)
{
	assert_int_equal(fake_table_with(w->nft, "counted4") != 0, is >= PLANE_COUNT_SERVICES);
	assert_int_equal(fake_table_with(w->nft, "refused6") != 0, is >= PLANE_COUNT_SERVICES);
	assert_int_equal(fake_table_with(w->nft, "asked") != 0, is >= PLANE_COUNT_SERVICES);
	assert_int_equal(fake_table_with(w->nft, "reached4") != 0, is >= PLANE_COUNT_ENDPOINTS);
	assert_int_equal(fake_table_with(w->nft, "reached_in") != 0, is >= PLANE_COUNT_ENDPOINTS);
	assert_int_equal(asked(w, PLANE_COUNTER_CONNECTIONS, 0).is_known,
			 is >= PLANE_COUNT_SERVICES);
	assert_int_equal(reached(w, PLAN_SCOPE_CLUSTER, "10.0.1.1").is_known,
			 is >= PLANE_COUNT_ENDPOINTS);
}

/*
 * From any level of counting to any other: the table stays, and serving elements are not removed.
 */
static void test_counting_changes(void **state)
{
	for (enum plane_counting from = 0; from <= PLANE_COUNT_ENDPOINTS; from++)
		for (enum plane_counting to = 0; to <= PLANE_COUNT_ENDPOINTS; to++) {
			struct world w;
			uint64_t table;

			world_open(&w);
			w.config.counting = from;
			restart(&w);
			service(&w, "shop/web", WEB);
			slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
			settle(&w);
			expect_counting(&w, from);
			if (from != PLANE_COUNT_NONE)
				packets_ask(&w, IPVSSET_COUNTED, "10.96.0.10", 7);
			table = fake_table_with(w.nft, "fe4");
			w.config.counting = to;
			fake_count_reset(w.nft);
			fake_ipvs_writes_reset(w.ipvs);
			restart(&w);
			expect_counting(&w, to);
			assert_int_equal(asked(&w, PLANE_COUNTER_CONNECTIONS, 0).packets,
					 from != 0 && to != 0 ? 7 : 0);
			assert_int_equal(fake_table_with(w.nft, "fe4"), table);
			assert_int_equal(fake_count(w.nft).n_dels, 0);
			assert_int_equal(fake_ipvs_writes(w.ipvs), 0);
			expect_adopted(&w);
			world_close(&w);
		}
}

int main(void)
{
	int failed = 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_one_endpoint),
		cmocka_unit_test(test_load_in_steps),
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_few_answers),
		cmocka_unit_test(test_adopt_at_cluster_ip),
		cmocka_unit_test(test_port_of_another),
		cmocka_unit_test(test_orphaned),
		cmocka_unit_test(test_adopt_in_pieces),
		cmocka_unit_test(test_torn_dumps),
		cmocka_unit_test(test_incomplete_dump),
		cmocka_unit_test(test_local_policy),
		cmocka_unit_test(test_local_source),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_affinity),
		cmocka_unit_test(test_affinity_local),
		cmocka_unit_test(test_forwarding),
		cmocka_unit_test(test_forwarding_occupied),
		cmocka_unit_test(test_affinity_taken_over),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_drain_many),
		cmocka_unit_test(test_drain_deadline),
		cmocka_unit_test(test_drain_timeout_changes),
		cmocka_unit_test(test_drain_of_weight_0),
		cmocka_unit_test(test_drain_unlimited),
		cmocka_unit_test(test_drain_dead),
		cmocka_unit_test(test_sched_comes),
		cmocka_unit_test(test_drain_back),
		cmocka_unit_test(test_drain_udp),
		cmocka_unit_test(test_service_gone),
		cmocka_unit_test(test_tuning),
		cmocka_unit_test(test_weights_by_default),
		cmocka_unit_test(test_weights_by_name),
		cmocka_unit_test(test_sched_missing),
		cmocka_unit_test(test_module_loaded),
		cmocka_unit_test(test_module_reloaded),
		cmocka_unit_test(test_sched_unsafe),
		cmocka_unit_test(test_no_sched),
		cmocka_unit_test(test_sysctls),
		cmocka_unit_test(test_cleanup_ends_connections),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_excluded),
		cmocka_unit_test(test_excluded_leftover),
		cmocka_unit_test(test_leftover),
		cmocka_unit_test(test_drain_unread),
		cmocka_unit_test(test_drain_beside_rejected),
		cmocka_unit_test(test_other_tag),
		cmocka_unit_test(test_cleanup_of_tags),
		cmocka_unit_test(test_retires),
		cmocka_unit_test(test_retires_other_tag),
		cmocka_unit_test(test_retires_in_steps),
		cmocka_unit_test(test_retires_excluded),
		cmocka_unit_test(test_retires_not),
		cmocka_unit_test(test_audit),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_restart_before_ranges),
		cmocka_unit_test(test_ranges_with_frontends),
		cmocka_unit_test(test_ranges_while_down),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_removal),
		cmocka_unit_test(test_refused_rules),
		cmocka_unit_test(test_refused_for_ever),
		cmocka_unit_test(test_refused_sched),
		cmocka_unit_test(test_refused_old_sched),
		cmocka_unit_test(test_refused_at_first),
		cmocka_unit_test(test_adopt_moved),
		cmocka_unit_test(test_occupied),
		cmocka_unit_test(test_replaced_by_foreign),
		cmocka_unit_test(test_refused_by_nft),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_replaced_and_killed),
		cmocka_unit_test(test_answer_lost),
		cmocka_unit_test(test_backend_refused_by_nft),
		cmocka_unit_test(test_route_conflict),
		cmocka_unit_test(test_rule_notified),
		cmocka_unit_test(test_family_fails_at_start),
		cmocka_unit_test(test_family_fails_later),
		cmocka_unit_test(test_route_marks),
		cmocka_unit_test(test_route_priority_shared),
		cmocka_unit_test(test_route_table_changes),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_counters_of_owners),
		cmocka_unit_test(test_counters_of_pools),
		cmocka_unit_test(test_counting_changes),
	};

	log_level_set_all(LOG_LEVEL_ERR);
	for (counting = 0; counting <= PLANE_COUNT_ENDPOINTS; counting++)
		failed += cmocka_run_group_tests(tests, NULL, NULL);
	return failed;
}
