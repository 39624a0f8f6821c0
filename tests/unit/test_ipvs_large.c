/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One large service on the ipvs plane: each step has a bounded number of operations. */
#include <stdio.h>
#include <string.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "ipvs_world.h"

#define N 9000
#define N_WRITES 6000 /* of tests that the fake's search makes slow */
/* Of a step: IPVS_READ_DESTS (plane/ipvs/state.h) or AUDIT_PART_OPS (sync.c), and some. */
#define READ_MAX 2100
#define WRITES_MAX 1100
/*
 * Destinations that IPVS may compare in a step: PLANE_PIECE_WORK or IPVS_READ_DESTS units of work,
 * of 1000 destinations each (DESTS_OF_WORK).
 */
#define SEARCHED_MAX (2000 * 1000)
#define FILLED_MAX 50     /* changes of destinations of `mh` in a step (MH_WORK) */
#define ELEMENTS_MAX 6100 /* of nf_tables, in a step */
#define N_AFFINITY 4000   /* with ClientIP affinity a pool has at most 4,095 backends */

struct work {
	size_t n_dumps;
	size_t n_writes;
	size_t n_steps;
	size_t writes_max; /* of a step */
	size_t n_lacked;
};

static void work_begin(const struct world *w)
{
	fake_ipvs_writes_reset(w->ipvs);
	fake_count_reset(w->nft);
}

static void work_end(const struct world *w, struct work *sum)
{
	size_t n_writes = fake_ipvs_writes(w->ipvs);

	assert_true(fake_ipvs_received(w->ipvs) <= READ_MAX + n_writes);
	assert_true(n_writes <= sum->writes_max);
	if (sum->writes_max <= WRITES_MAX)
		assert_true(fake_ipvs_searched(w->ipvs) <= SEARCHED_MAX);
	assert_true(fake_count(w->nft).n_gets <= 3 * sum->writes_max);
	sum->n_dumps += fake_ipvs_dumps(w->ipvs);
	sum->n_writes += n_writes;
	sum->n_steps++;
}

/* Steps until the audit has ended, at most `max`. */
static void audit_go(struct world *w, struct work *sum, size_t max)
{
	uint64_t before = sync_stats_get(w->s)->audits;

	while (sync_stats_get(w->s)->audits == before && max-- > 0) {
		uint64_t next;

		work_begin(w);
		next = sync_step(w->s, w->now);
		work_end(w, sum);
		w->now = next == SYNC_NOW ? w->now : next;
	}
}

static struct work audit(struct world *w, size_t writes_max)
{
	struct work sum = { .writes_max = writes_max };

	sync_audit(w->s);
	w->now += 60 * NSEC_PER_SEC;
	audit_go(w, &sum, STEPS_MAX);
	return sum;
}

static void audits_in_steps(int n, size_t max, const char *more, const struct ipvs_key *key)
{
	char text[128];
	struct work sum;
	struct world w;

	world_open(&w);
	service_of(&w, 1, n);
	(void)snprintf(text, sizeof(text), "ip=10.96.0.1 port=http:80 %s", more);
	service(&w, "shop/s1", text);
	service_of(&w, 2, 3);
	settle(&w);
	sum = audit(&w, max);
	assert_int_equal(sum.n_writes, 0);
	assert_int_equal(sum.n_dumps, 2);
	assert_in_range(sum.n_steps, (size_t)n / READ_MAX + (size_t)n / max, 60);

	fake_ipvs_foreign_del(w.ipvs, "10.1.0.1");
	fake_ipvs_foreign_weight(w.ipvs, "10.1.0.2", 9);
	assert_int_equal(audit(&w, max).n_writes, 2);
	assert_int_equal(audit(&w, max).n_writes, 0);
	fake_ipvs_foreign_flags(w.ipvs, key, 0); /* the virtual service is deleted */
	assert_int_equal(audit(&w, max).n_writes, n + 1);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, n + 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 0);
	assert_int_equal(audit(&w, max).n_writes, 0);
	world_close(&w);
}

static void test_audit_in_steps(void **state)
{
	audits_in_steps(N, WRITES_MAX, "",
			&(struct ipvs_key){ .fam = IPFAM_V4, .mark = 0x5a000002 });
}

static void test_audit_of_affinity(void **state)
{
	struct ip_addr addr = test_addr("10.96.0.1");
	struct ipvs_key key = { .fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 80, .addr = addr };

	audits_in_steps(N_AFFINITY, WRITES_MAX, "affinity=300", &key);
}

/* What changes while the service is read is neither lost nor repaired. */
static void test_change_while_read(void **state)
{
	struct work sum = { .writes_max = WRITES_MAX };
	struct world w;

	world_open(&w);
	service_of(&w, 1, N);
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 1, 0);
	fake_ipvs_foreign_del(w.ipvs, "10.1.0.7");
	sync_audit(w.s);
	w.now += 60 * NSEC_PER_SEC;
	audit_go(&w, &sum, 2);
	assert_int_equal(sum.n_dumps, 1);
	endpoints_of(&w, 1, 1, N); /* one goes, one comes */
	audit_go(&w, &sum, STEPS_MAX);
	assert_int_equal(sum.n_dumps, 1);
	assert_int_equal(sum.n_writes, 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N + 1);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1);
	assert_int_equal(audit(&w, WRITES_MAX).n_writes, 0);
	world_close(&w);
}

/* The service is deleted while it is read. */
static void test_gone_while_read(void **state)
{
	struct work sum = { .writes_max = WRITES_MAX };
	struct world w;

	world_open(&w);
	service_of(&w, 1, N);
	service_of(&w, 2, 3);
	settle(&w);
	sync_audit(w.s);
	w.now += 60 * NSEC_PER_SEC;
	audit_go(&w, &sum, 2);
	no_service(&w, "shop", "s1");
	settle(&w);
	pass(&w, 120);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 3);
	world_close(&w);
}

/* Ticks of `seconds`, each of them bounded. Returns the number of reads. */
static struct work ticks(struct world *w, uint32_t seconds)
{
	uint64_t until = w->now + seconds * NSEC_PER_SEC;
	struct work sum = { 0 };

	while (w->now < until) {
		uint64_t next;

		fake_ipvs_writes_reset(w->ipvs);
		next = w->plane->ops->tick(w->plane, w->now);
		assert_true(fake_ipvs_received(w->ipvs) <= READ_MAX + fake_ipvs_writes(w->ipvs));
		assert_true(fake_ipvs_writes(w->ipvs) <= READ_MAX);
		assert_true(fake_ipvs_searched(w->ipvs) <= SEARCHED_MAX);
		assert_true(fake_ipvs_filled(w->ipvs) <= FILLED_MAX);
		assert_true(fake_ipvs_waits(w->ipvs) <= 1);
		sum.n_dumps += fake_ipvs_dumps(w->ipvs);
		sum.n_lacked += fake_ipvs_lacked(w->ipvs);
		assert_true(next > w->now);
		w->now = MIN(next, until);
	}
	clock_s += seconds;
	return sum;
}

/* Draining backends of large services are read once a second, in steps, and deleted in steps. */
static void test_drain_in_steps(void **state)
{
	struct world w;

	world_open(&w);
	service_of(&w, 1, N);
	service_of(&w, 2, 3000);
	service_of(&w, 3, 2);
	settle(&w);
	w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 2, 0);
	fake_ipvs_conns(w.ipvs, "10.2.0.0", 1, 0);
	fake_ipvs_conns(w.ipvs, "10.3.0.0", 1, 0);
	endpoints_of(&w, 1, 5000, N - 5000);
	endpoints_of(&w, 2, 1, 2999);
	endpoints_of(&w, 3, 1, 1);
	settle(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 5002);
	(void)ticks(&w, 6);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 3);
	assert_in_range(ticks(&w, 10).n_dumps, 9 * 3, 11 * 3);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 0, 0);
	fake_ipvs_conns(w.ipvs, "10.3.0.0", 0, 0);
	(void)ticks(&w, 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N - 5000 + 3000 + 1);
	world_close(&w);
}

/* A backend that is removed while the service is read: its connections are not known yet. */
static void test_removed_while_read(void **state)
{
	struct world w;

	world_open(&w);
	service_of(&w, 1, N);
	settle(&w);
	w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 1, 0);
	fake_ipvs_conns(w.ipvs, "10.1.0.1", 1, 0);
	endpoints_of(&w, 1, 1, N - 1);
	settle(&w);
	w.now = w.plane->ops->tick(w.plane, w.now); /* reads a part */
	assert_int_equal(fake_ipvs_dumps(w.ipvs), 1);
	endpoints_of(&w, 1, 2, N - 2);
	settle(&w);
	(void)ticks(&w, 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 2);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 0, 0);
	fake_ipvs_conns(w.ipvs, "10.1.0.1", 0, 0);
	(void)ticks(&w, 3);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 0);
	world_close(&w);
}

#define N_UDP 8             /* services */
#define N_UDP_ENDPOINTS 500 /* of each */

/* All endpoints serve, the first `n_draining` of them are terminating. */
static void udp_endpoints(struct world *w, int no, int n_draining)
{
	struct str text = { 0 };
	char name[32];
	char of[32];

	str_puts(&text, "| dns/UDP:53 | ");
	for (int k = 0; k < N_UDP_ENDPOINTS; k++)
		str_printf(&text, "10.%d.%d.%d %s; ", no, k / 250, k % 250,
			   k < n_draining ? "st" : "rs");
	(void)snprintf(name, sizeof(name), "shop/s%d-1", no);
	(void)snprintf(of, sizeof(of), "s%d", no);
	slice(w, name, of, str_text(&text));
	str_fini(&text);
}

static void udp_service(struct world *w, int no)
{
	char name[32];
	char text[64];

	(void)snprintf(name, sizeof(name), "shop/s%d", no);
	(void)snprintf(text, sizeof(text), "ip=10.96.0.%d port=dns/UDP:53", no);
	service(w, name, text);
}

/* One tick; returns the number of endpoints compared. */
static size_t tick_compares(struct world *w)
{
	size_t before = ipvs_plane_of(w->plane)->n_compared;
	uint64_t next = w->plane->ops->tick(w->plane, w->now);

	assert_true(next > w->now);
	w->now = next;
	return ipvs_plane_of(w->plane)->n_compared - before;
}

/*
 * Draining UDP backends that still serve: a commit and a tick compare each endpoint of a service
 * once, and a tick only some services.
 */
static void test_drain_udp_in_steps(void **state)
{
	size_t sum = 0;
	struct world w;

	(void)state;
	world_open(&w);
	for (int i = 1; i <= N_UDP; i++) {
		udp_service(&w, i);
		udp_endpoints(&w, i, 0);
	}
	settle(&w);
	for (int i = 1; i <= N_UDP; i++)
		udp_endpoints(&w, i, N_UDP_ENDPOINTS / 2);
	settle(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, N_UDP * N_UDP_ENDPOINTS / 2);
	assert_in_range(ipvs_plane_of(w.plane)->n_compared, N_UDP * N_UDP_ENDPOINTS,
			2 * N_UDP * N_UDP_ENDPOINTS);
	w.now = now_ns(); /* the backends are read from the kernel a second later */
	udp_endpoints(&w, 1, N_UDP_ENDPOINTS / 2 + 1);
	for (int i = 0; i < 10; i++) {
		size_t n = tick_compares(&w);

		assert_true(n <= IPVS_READ_DESTS);
		sum += n;
	}
	assert_int_equal(sum, N_UDP * N_UDP_ENDPOINTS);
	world_close(&w);
}

#define N_UDP_PORTS 200 /* of a service and its slice, in one step */

/* A search among the ports of a slice for each endpoint of each port takes few comparisons. */
static void test_drain_udp_ports(void **state)
{
	struct str service_text = { 0 };
	uint64_t n;
	struct world w;

	(void)state;
	world_open(&w);
	str_puts(&service_text, "ip=10.96.0.1");
	for (int i = 0; i < N_UDP_PORTS; i++)
		str_printf(&service_text, " port=p%d/UDP:%d", i, 1000 + i);
	service(&w, "shop/web", str_text(&service_text));
	for (int is_less = 0; is_less < 2; is_less++) {
		struct str text = { 0 };

		str_puts(&text, "|");
		for (int i = 0; i < N_UDP_PORTS; i++)
			str_printf(&text, " p%d/UDP:%d", i, 2000 + i);
		str_puts(&text, is_less ? " | 1 rs; 2 st; 3 rs" : " | 1 rs; 2 rs; 3 rs; 4 rs");
		slice(&w, "shop/web-1", "web", str_text(&text));
		str_fini(&text);
		n = ipvs_plane_of(w.plane)->n_ports_compared;
		settle(&w);
	}
	/* 4 is deleted, as no slice lists it; 2 drains. */
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, N_UDP_PORTS);
	n = ipvs_plane_of(w.plane)->n_ports_compared - n;
	assert_in_range(n, 3 * N_UDP_PORTS, 3 * N_UDP_PORTS * 8);
	str_fini(&service_text);
	world_close(&w);
}

/* --- writes: IPVS searches a service's destinations for each of them --- */

/* settle() with bounded steps. Returns the number of steps that write to IPVS. */
static size_t settle_in_steps(struct world *w)
{
	size_t n_steps = 0;

	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t next;

		work_begin(w);
		next = sync_step(w->s, w->now);
		assert_true(fake_ipvs_searched(w->ipvs) <= SEARCHED_MAX);
		assert_true(fake_ipvs_filled(w->ipvs) <= FILLED_MAX);
		assert_true(fake_ipvs_waits(w->ipvs) <= IPVS_RENEWALS);
		assert_true(fake_ipvs_writes(w->ipvs) <= READ_MAX);
		assert_true(fake_ipvs_received(w->ipvs) <= READ_MAX + fake_ipvs_writes(w->ipvs));
		assert_true(fake_count(w->nft).n_adds + fake_count(w->nft).n_dels <= ELEMENTS_MAX);
		n_steps += fake_ipvs_writes(w->ipvs) > 0;
		if (next == SYNC_NOW)
			continue;
		if (sync_state_get(w->s) == SYNC_RUNNING && list_is_empty(&w->m.dirty)) {
			assert_int_equal(sync_failure_count(w->s), 0);
			return n_steps;
		}
		w->now = next;
	}
	fail_msg("no rest");
	return 0;
}

static size_t restart_in_steps(struct world *w)
{
	life_end(w);
	htable_for_each (n, &w->m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	life_begin(w);
	return settle_in_steps(w);
}

/* First sync, half of the endpoints replaced, all draining ones deleted, removal. */
static void test_changes_in_steps(void **state)
{
	struct world w;

	world_open(&w);
	service_of(&w, 1, N_WRITES);
	(void)settle_in_steps(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N_WRITES);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 1, 0);
	endpoints_of(&w, 1, N_WRITES / 2, N_WRITES);
	(void)settle_in_steps(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, N_WRITES / 2);
	w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
	(void)ticks(&w, 10);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N_WRITES + 1);
	no_service(&w, "shop", "s1");
	(void)settle_in_steps(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, N_WRITES + 1);
	(void)ticks(&w, 20);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 1);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 0, 0);
	(void)ticks(&w, 3);
	expect_ipvs(&w, "");
	world_close(&w);
}

/* Work of an operation on a destination of the only service. */
static size_t work_of_one(const struct world *w)
{
	struct hnode *n = htable_next(&w->m.services, NULL);
	const struct svc *svc = container_of(n, struct svc, node);
	const struct plan_rows *rows = svc->rows;

	return w->plane->ops->backend_work(w->plane, svc, &rows->pools.v[0], NULL, 0);
}

/* IPVS searches destinations that were deleted in the last minutes for each new one. */
static void test_deleted_are_work(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	service_of(&w, 1, N_WRITES);
	settle(&w);
	assert_int_equal(work_of_one(&w), 2 + N_WRITES / 1000);
	w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
	endpoints_of(&w, 1, N_WRITES, N_WRITES);
	settle(&w);
	(void)ticks(&w, 10);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N_WRITES);
	assert_int_equal(work_of_one(&w), 2 + 2 * N_WRITES / 1000);
	(void)ticks(&w, 230);
	assert_int_equal(work_of_one(&w), 2 + 2 * N_WRITES / 1000);
	(void)ticks(&w, 260);
	assert_int_equal(work_of_one(&w), 2 + N_WRITES / 1000);
	world_close(&w);
}

/* With weights; all of them change, half of the endpoints are replaced, the weights are removed. */
static void test_weights_in_steps(void **state)
{
	struct str text = { 0 };
	struct world w;

	world_open(&w);
	service_of(&w, 1, N_WRITES);
	service(&w, "shop/s1", "ip=10.96.0.1 port=http:80 weights=10.1.0.7=4,*=2");
	assert_in_range(settle_in_steps(&w), N_WRITES / 1500, N_WRITES);
	fake_ipvs_print(w.ipvs, &text);
	assert_non_null(strstr(str_text(&text), " 10.1.0.7:8080=4 "));
	assert_non_null(strstr(str_text(&text), " 10.1.0.8:8080=2 "));
	assert_int_equal(restart_in_steps(&w), 0);
	service(&w, "shop/s1", "ip=10.96.0.1 port=http:80 weights=10.1.0.7=4,*=3");
	endpoints_of(&w, 1, N_WRITES / 2, N_WRITES);
	assert_in_range(settle_in_steps(&w), N_WRITES / 1500, N_WRITES);
	str_clear(&text);
	fake_ipvs_print(w.ipvs, &text);
	assert_null(strstr(str_text(&text), "=2 "));
	service(&w, "shop/s1", "ip=10.96.0.1 port=http:80");
	assert_in_range(settle_in_steps(&w), N_WRITES / 1500, N_WRITES);
	str_clear(&text);
	fake_ipvs_print(w.ipvs, &text);
	assert_null(strstr(str_text(&text), "=3 "));
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests - ipvs_plane_stats(w.plane).n_draining,
			 N_WRITES);
	assert_int_equal(restart_in_steps(&w), 0);
	str_fini(&text);
	world_close(&w);
}

static size_t text_count(const struct world *w, const char *part)
{
	struct str text = { 0 };
	size_t n = 0;

	fake_ipvs_print(w->ipvs, &text);
	for (const char *at = str_text(&text); (at = strstr(at, part)) != NULL; at++)
		n++;
	str_fini(&text);
	return n;
}

static void expect_mh(struct world *w, bool is_in_force)
{
	struct svc *svc = model_find_text(&w->m, "shop", "s1");
	struct str text = { 0 };

	fake_ipvs_print(w->ipvs, &text);
	assert_non_null(strstr(str_text(&text), is_in_force ? "mark 0x5a000001 mh flags 0x8: "
							    : "mark 0x5a000001 wrr: "));
	str_clear(&text);
	w->plane->ops->remark(w->plane, svc, &text);
	assert_string_equal(
		text.len > 0 ? str_text(&text) : "",
		is_in_force ? ""
			    : "vipd.io/scheduler: 'mh' of more than 4093 endpoints, draining "
			      "ones included: the default scheduler is in force");
	str_fini(&text);
}

/* `mh` fills its slots for each change of a destination. */
static void test_mh_in_steps(void **state)
{
	static const char *const sched[] = { "sched=mh", "" }; /* by annotation, by default */

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sched); i++) {
		char text[64];
		struct world w;

		world_open(&w);
		w.config.sched = i == 0 ? "rr" : "mh";
		(void)restart(&w);
		(void)snprintf(text, sizeof(text), "ip=10.96.0.1 port=http:80 %s", sched[i]);
		service(&w, "shop/s1", text);
		endpoints_of(&w, 1, 0, 1000);
		(void)settle_in_steps(&w);
		expect_mh(&w, true);
		endpoints_of(&w, 1, 0, 1);
		(void)settle_in_steps(&w);
		assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 999);
		endpoints_of(&w, 1, 0, 2000);
		(void)settle_in_steps(&w);
		endpoints_of(&w, 1, 1000, 2000);
		(void)settle_in_steps(&w);
		assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1000);
		w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
		(void)ticks(&w, 5);
		assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 2000);
		endpoints_of(&w, 1, 1000, 900);
		(void)settle_in_steps(&w);
		(void)ticks(&w, 5);
		no_service(&w, "shop", "s1");
		(void)settle_in_steps(&w);
		assert_int_equal(ipvs_plane_stats(w.plane).n_draining,
				 ipvs_plane_stats(w.plane).n_dests);
		world_close(&w);
	}
}

/* With ClientIP affinity and policy Local IPVS has a service by mark with `mh`, whatever the
 * default is. */
static void test_mh_by_mark_in_steps(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	service(&w, "shop/s1",
		"type=LoadBalancer ip=10.96.0.1 port=http:80 vip=192.0.2.9 etp affinity=600");
	endpoints_of(&w, 1, 0, 1000);
	(void)settle_in_steps(&w);
	assert_int_equal(text_count(&w, " mh "), 1);
	world_close(&w);
}

/* With ClientIP affinity: each address has a virtual service with all destinations. */
static void test_affinity_in_steps(void **state)
{
	struct world w;

	world_open(&w);
	service_of(&w, 1, N_AFFINITY);
	service(&w, "shop/s1", "ip=10.96.0.1 port=http:80 ext=192.0.2.1 affinity=300");
	(void)settle_in_steps(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 2 * N_AFFINITY);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 1, 0);
	endpoints_of(&w, 1, N_AFFINITY / 2, N_AFFINITY);
	assert_in_range(settle_in_steps(&w), 2 * N_AFFINITY / WRITES_MAX, N_AFFINITY);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, N_AFFINITY);
	/* Without endpoints its virtual services only drain; then all destinations are back. */
	endpoints_of(&w, 1, 0, 0);
	(void)settle_in_steps(&w);
	endpoints_of(&w, 1, 0, N_AFFINITY);
	assert_in_range(settle_in_steps(&w), 2 * N_AFFINITY / WRITES_MAX, N_AFFINITY);
	assert_in_range(ipvs_plane_stats(w.plane).n_dests, 2 * N_AFFINITY, 3 * N_AFFINITY);
	assert_int_equal(restart_in_steps(&w), 0);
	no_service(&w, "shop", "s1");
	(void)settle_in_steps(&w);
	world_close(&w);
}

/*
 * An object is unreadable at the start, so no sweep follows: endpoints that left while vipd was
 * down drain as those of a small service.
 */
static void test_left_while_down(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	service_of(&w, 1, 2000);
	settle(&w);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 1, 0);
	life_end(&w);
	htable_for_each (n, &w.m.services)
		container_of(n, struct svc, node)->adopted_load = 0;
	endpoints_of(&w, 1, 100, 1900);
	life_begin(&w);
	sync_sweep_hold(w.s);
	for (int i = 0; i < 100; i++)
		(void)sync_step(w.s, w.now);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 100);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, 2000);
	world_close(&w);
}

/* A restart compares in large pieces. What changed meanwhile is written in small ones. */
static void test_adoption_in_steps(void **state)
{
	size_t batches;
	struct world w;

	world_open(&w);
	service_of(&w, 1, N_WRITES);
	settle(&w);
	batches = sync_stats_get(w.s)->steps;
	assert_int_equal(restart_in_steps(&w), 0);
	assert_in_range(sync_stats_get(w.s)->steps, N_WRITES / 1500, N_WRITES / 1500 + 3);
	assert_in_range(batches, 3 * (N_WRITES / 1500), N_WRITES);
	endpoints_of(&w, 1, 3000, N_WRITES);
	assert_in_range(restart_in_steps(&w), 2 * 3000 / 200, N_WRITES);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 3000);
	no_service(&w, "shop", "s1"); /* swept */
	assert_in_range(restart_in_steps(&w), N_WRITES / 200, N_WRITES);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, N_WRITES + 3000);
	world_close(&w);
}

/*
 * A change finds that the kernel differs: the service is read in steps, then the change is made.
 * An audit repairs the rest.
 */
static void test_verified_in_steps(void **state)
{
	struct work sum = { .writes_max = WRITES_MAX };
	struct str text = { 0 };
	struct world w;

	world_open(&w);
	service_of(&w, 1, N_WRITES);
	settle(&w);
	fake_ipvs_foreign_del(w.ipvs, "10.1.0.7");
	fake_ipvs_foreign_del(w.ipvs, "10.1.0.9");
	service(&w, "shop/s1", "ip=10.96.0.1 port=http:80 weights=10.1.0.7=4");
	(void)settle_in_steps(&w);
	fake_ipvs_print(w.ipvs, &text);
	assert_non_null(strstr(str_text(&text), " 10.1.0.7:8080=4 "));
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N_WRITES - 1);
	w.now += 20 * NSEC_PER_SEC;
	audit_go(&w, &sum, STEPS_MAX);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N_WRITES);

	fake_ipvs_foreign_flags(w.ipvs, &(struct ipvs_key){ .fam = IPFAM_V4, .mark = 0x5a000001 },
				0); /* the virtual service is deleted */
	endpoints_of(&w, 1, 0, N_WRITES + 1);
	(void)settle_in_steps(&w);
	assert_in_range(ipvs_plane_stats(w.plane).n_dests, 1, 1000);
	w.now += 20 * NSEC_PER_SEC;
	audit_go(&w, &sum, STEPS_MAX);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, N_WRITES + 1);
	assert_int_equal(audit(&w, WRITES_MAX).n_writes, 0);
	str_fini(&text);
	world_close(&w);
}

/* BAL-13: mh has no table for more destinations than slots. */
static void test_mh_limit(void **state)
{
	struct world w;

	world_open(&w);
	service(&w, "shop/s1", "ip=10.96.0.1 port=http:80 sched=mh");
	endpoints_of(&w, 1, 0, IPVS_MH_DESTS_MAX);
	settle(&w);
	expect_mh(&w, true);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 1, 0);
	endpoints_of(&w, 1, 1, IPVS_MH_DESTS_MAX); /* one drains, one is new */
	settle(&w);
	assert_int_equal(ipvs_plane_stats(w.plane).n_draining, 1);
	expect_mh(&w, false);
	expect_adopted(&w);
	fake_ipvs_conns(w.ipvs, "10.1.0.0", 0, 0);
	pass(&w, 5);
	assert_int_equal(ipvs_plane_stats(w.plane).n_dests, IPVS_MH_DESTS_MAX);
	expect_mh(&w, true);
	assert_int_equal(audit(&w, WRITES_MAX).n_writes, 0);
	endpoints_of(&w, 1, 1, IPVS_MH_DESTS_MAX + 1);
	settle(&w);
	expect_mh(&w, false);
	world_close(&w);
}

/* --- one service with many ports: a virtual service each --- */

#define N_PORTS 300
#define N_SOME 20 /* of a service that shares a transaction */

/* Service shop/s1 with the `n` ports 1000, 1001, ... */
static void ports_put(struct world *w, int n, const char *more)
{
	struct str text = { 0 };

	str_printf(&text, "ip=10.96.0.1 %s", more);
	for (int i = 0; i < n; i++)
		str_printf(&text, " port=p%d:%d", i, 1000 + i);
	service(w, "shop/s1", str_text(&text));
	str_clear(&text);
	str_puts(&text, "|");
	for (int i = 0; i < n; i++)
		str_printf(&text, " p%d:8080", i);
	str_puts(&text, " | 10.1.0.1 rs");
	slice(w, "shop/s1-1", "s1", str_text(&text));
	str_fini(&text);
}

/* Each port has the source ranges: a step has those of a few. */
static void test_ranges_in_steps(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	for (int from = 0; from <= 2000; from += 500) { /* replaced; none at last */
		FINI(str_fini) struct str text = { 0 };

		str_puts(&text, "type=LoadBalancer vip=192.0.2.9");
		for (int k = from; k < from + 500 && from < 2000; k++)
			str_printf(&text, " range=10.%d.%d.0/24", k / 100, k % 100 * 2);
		ports_put(&w, 20, str_text(&text));
		(void)settle_in_steps(&w);
		assert_int_equal(restart_in_steps(&w), 0);
	}
	no_service(&w, "shop", "s1");
	(void)settle_in_steps(&w);
	world_close(&w);
}

/*
 * The kernel requests a missing module for each operation with its scheduler: only for those of
 * one datagram.
 */
static void test_sched_missing_once(void **state)
{
	static const char *const more[] = { "sched=twos", "sched=twos affinity=300" };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(more); i++) {
		struct world w;

		world_open(&w);
		if (i % 2 != 0) { /* an annotation of an existing service */
			ports_put(&w, N_PORTS, more[i / 2] + strlen("sched=twos"));
			settle(&w);
		}
		fake_ipvs_lack(w.ipvs, "twos");
		fake_ipvs_writes_reset(w.ipvs);
		ports_put(&w, N_PORTS, more[i / 2]);
		settle(&w);
		assert_in_range(fake_ipvs_lacked(w.ipvs), 1, IPVS_BATCH_MAX);
		assert_int_equal(text_count(&w, " rr"), N_PORTS);
		assert_int_equal(text_count(&w, " 10.1.0.1:8080=1"), N_PORTS);
		world_close(&w);
	}
}

static void no_dest(void *arg, const struct ip_addr *addr)
{
	fail_msg("a destination is added");
}

/* ... a foreign virtual service among those that are sent afterwards gets no destination. */
static void test_sched_missing_and_foreign(void **state)
{
	struct ipvs_key key = {
		.fam = IPFAM_V4, .proto = L4PROTO_TCP, .port = 1299, .addr = test_addr("10.96.0.1")
	};
	struct world w;

	(void)state;
	world_open(&w);
	settle(&w);
	fake_ipvs_lack(w.ipvs, "twos");
	fake_ipvs_foreign(w.ipvs, &key, 0x1, "10.9.0.1", 1);
	fake_ipvs_adding(w.ipvs, no_dest, NULL);
	ports_put(&w, N_PORTS, "sched=twos affinity=300");
	for (int i = 0; i < 100; i++)
		(void)sync_step(w.s, w.now);
	assert_int_equal(sync_failure_count(w.s), 1);
	expect_ipvs(&w, "10.96.0.1:1299/TCP wlc flags 0x1: 10.9.0.1:1=1\n");
	world_close(&w);
}

/*
 * The kernel waits for each scheduler that it replaces: a commit changes some, each tick one more.
 * By annotation, and at the start with another default.
 */
static void test_sched_in_steps(void **state)
{
	(void)state;
	for (int is_default = 0; is_default < 2; is_default++) {
		struct world w;

		world_open(&w);
		ports_put(&w, N_PORTS, "");
		settle(&w);
		if (is_default) {
			w.config.sched = "lc";
			assert_int_equal(restart_in_steps(&w), 1);
		} else {
			ports_put(&w, N_PORTS, "sched=lc");
			assert_int_equal(settle_in_steps(&w), 1);
		}
		assert_int_equal(text_count(&w, " lc: 10.1.0.1:8080=1"), IPVS_RENEWALS);
		w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
		(void)ticks(&w, 1);
		assert_in_range(text_count(&w, " lc: 10.1.0.1:8080=1"), IPVS_RENEWALS + 50,
				IPVS_RENEWALS + 100);
		(void)ticks(&w, 4);
		assert_int_equal(text_count(&w, " lc: 10.1.0.1:8080=1"), N_PORTS);
		assert_true(list_is_empty(&ipvs_plane_of(w.plane)->draining));
		expect_adopted(&w);
		world_close(&w);
	}
}

/*
 * One backend is more work than a piece, because each of 41 addresses has a virtual service with
 * `mh`. The last one goes with its pool; another large service gets its turn.
 */
static void test_backend_above_a_piece(void **state)
{
	(void)state;
	for (int is_deleted = 0; is_deleted < 2; is_deleted++) {
		FINI(str_fini) struct str text = { 0 };
		struct world w;

		world_open(&w);
		str_puts(&text,
			 "type=LoadBalancer ip=10.96.0.1 port=http:80 affinity=600 sched=mh");
		for (int i = 0; i < 40; i++)
			str_printf(&text, " ext=192.0.2.%d", i);
		service(&w, "shop/s1", str_text(&text));
		endpoints_of(&w, 1, 0, 40);
		settle(&w);
		assert_int_equal(text_count(&w, " 10.1.0.0:8080=1"), 41);
		if (is_deleted)
			no_service(&w, "shop", "s1");
		else
			endpoints_of(&w, 1, 0, 0);
		settle(&w);
		assert_int_equal(text_count(&w, " 10.1.0.0:8080=1"), 0);
		service(&w, "shop/s2", "ip=10.96.0.2 port=http:80");
		endpoints_of(&w, 2, 0, 2000);
		settle(&w);
		assert_int_equal(text_count(&w, " 10.2.0.0:8080=1"), 1);
		world_close(&w);
	}
}

/* The first tick with a scheduler finds that the kernel lacks it: no later one requests it. */
static void test_sched_missing_in_tick(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	ports_put(&w, N_SOME, "");
	service(&w, "shop/s2", "ip=10.96.0.2 port=a:80 port=b:81 port=c:82");
	slice(&w, "shop/s2-1", "s2", "| a:8080 b:8081 c:8082 | 10.2.0.0 rs");
	settle(&w);
	fake_ipvs_lack(w.ipvs, "twos");
	ports_put(&w, N_SOME, "sched=lc");
	service(&w, "shop/s2",
		"ip=10.96.0.2 port=a:80 port=b:81 port=c:82 sched=twos weights=10.2.0.0=3");
	settle(&w);
	assert_int_equal(fake_ipvs_lacked(w.ipvs), 0);
	w.now = (uint64_t)clock_s * 1000 * NSEC_PER_SEC;
	assert_int_equal(ticks(&w, 6).n_lacked, 1);
	assert_int_equal(text_count(&w, " lc: "), N_SOME);
	assert_int_equal(text_count(&w, " wrr: 10.2.0.0:808"), 3);
	assert_string_equal(w.plane->faults[PLANE_FAULT_SCHEDULER].text, "");
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_audit_in_steps),
		cmocka_unit_test(test_audit_of_affinity),
		cmocka_unit_test(test_change_while_read),
		cmocka_unit_test(test_gone_while_read),
		cmocka_unit_test(test_drain_in_steps),
		cmocka_unit_test(test_removed_while_read),
		cmocka_unit_test(test_changes_in_steps),
		cmocka_unit_test(test_deleted_are_work),
		cmocka_unit_test(test_weights_in_steps),
		cmocka_unit_test(test_adoption_in_steps),
		cmocka_unit_test(test_left_while_down),
		cmocka_unit_test(test_verified_in_steps),
		cmocka_unit_test(test_affinity_in_steps),
		cmocka_unit_test(test_mh_limit),
		cmocka_unit_test(test_drain_udp_in_steps),
		cmocka_unit_test(test_drain_udp_ports),
		cmocka_unit_test(test_mh_in_steps),
		cmocka_unit_test(test_mh_by_mark_in_steps),
		cmocka_unit_test(test_ranges_in_steps),
		cmocka_unit_test(test_sched_missing_once),
		cmocka_unit_test(test_sched_missing_and_foreign),
		cmocka_unit_test(test_sched_in_steps),
		cmocka_unit_test(test_sched_missing_in_tick),
		cmocka_unit_test(test_backend_above_a_piece),
	};

	log_level_set_all(LOG_LEVEL_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
