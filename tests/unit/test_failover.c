/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/failover: which handshakes move, and where, with the real plan and sync. */
#include "test.h"

#include <stdio.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "conntrack/failover.h"
#include "mock_plane.h"
#include "objects.h"
#include "sync/sync.h"

#define T0 (1000 * NSEC_PER_SEC)
#define MS NSEC_PER_MSEC
#define LIMIT (500 * MS)

struct world {
	struct model m;
	struct plan p;
	struct mock_plane k;
	struct sync *s;
	struct failover *f;
	uint64_t now;
	struct failover_choice c; /* the last choice */
	unsigned int n_silent;    /* transitions */
	unsigned int n_over;
	unsigned int waited; /* for it, in limits */
};

static void on_silence(void *arg, const struct failover_silence *s, bool is_over)
{
	struct world *w = arg;

	assert_string_equal(s->name->text, "a");
	w->n_silent += !is_over;
	w->n_over += is_over;
}

static void world_init(struct world *w)
{
	struct ip_addr addrs[] = { test_addr("192.0.2.1") };
	struct sync_config config = { 0 };

	*w = (struct world){ .now = T0 };
	log_level_set_all(LOG_LEVEL_ERR - 1);
	mock_init(&w->k);
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	model_configured(&w->m);
	model_put_host_addrs(&w->m, addrs, ARRAY_SIZE(addrs), 0, 1);
	plan_init(&w->p, &w->m, &mock_plane_ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->k.plane, &config);
	failover_open(&w->f, &w->p, LIMIT, on_silence, w);
	sync_sources_ready(w->s);
	sync_settle(w->s, w->now);
}

static void world_fini(struct world *w)
{
	failover_close(w->f);
	sync_close(w->s);
	plan_fini(&w->p);
	model_fini(&w->m);
	mock_fini(&w->k);
	log_level_set_all(LOG_LEVEL_NOTICE);
	assert_int_equal(name_count(), 0);
}

/* Service "a" with these endpoints. */
static void put(struct world *w, const char *service, const char *slice)
{
	(void)model_put_service(&w->m, test_service("a", service), 1);
	(void)model_put_slice(&w->m, test_slice("a1", "a", slice), 1);
	sync_settle(w->s, w->now);
	failover_accepted(w->f, w->now);
	w->now += MS;
}

static struct ip_endpoint at(const char *addr, uint16_t port)
{
	return (struct ip_endpoint){ test_addr(addr), port, 0 };
}

static struct ip_flow shake(uint16_t client_port)
{
	return (struct ip_flow){ at("203.0.113.7", client_port), at("10.96.0.1", 80), L4PROTO_TCP };
}

/* `h`, which was taken, has no answer of `by`. */
static bool choose(struct world *w, const struct ip_flow *h, const struct ip_endpoint *by)
{
	failover_note(w->f, h, by, w->now);
	return failover_choose(w->f, h, by, w->now, &w->c);
}

/* A SYN of `h` to endpoint `by` (10.0.1.N) has no answer. Where does it move? 0: nowhere */
static unsigned int ask_of(struct world *w, const struct ip_flow *h, unsigned int by)
{
	char text[16];
	struct ip_endpoint e;

	(void)snprintf(text, sizeof(text), "10.0.1.%u", by);
	e = at(text, 8080);
	w->now += LIMIT + MS;
	for (w->waited = 1; !failover_take(w->f, h, w->waited * LIMIT, w->now); w->waited *= 2) {
		assert_true(w->waited < 8);
		w->now += w->waited * LIMIT;
	}
	if (!choose(w, h, &e)) { /* the others may be silent, too */
		uint64_t left = FAILOVER_WAIT_NS - w->waited * LIMIT;

		if (w->waited * LIMIT >= FAILOVER_WAIT_NS ||
		    !failover_take(w->f, h, FAILOVER_WAIT_NS, w->now + left))
			return 0;
		w->now += left;
		w->waited = 4;
		if (!choose(w, h, &e))
			return 0;
	}
	assert_int_equal(w->c.to.port, 8080);
	assert_memory_equal(&w->c.from.addr, &e.addr, sizeof(e.addr));
	return w->c.to.addr.bytes[3];
}

static unsigned int ask(struct world *w, uint16_t client_port, unsigned int by)
{
	struct ip_flow h = shake(client_port);

	return ask_of(w, &h, by);
}

#define SVC "ip=10.96.0.1 port=web:80"
#define P "| web:8080 |"

/* CT-18: to another backend of the pool, each handshake once per SYN. */
static void test_moves(void **state)
{
	struct ip_flow h = shake(1000);
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs");
	assert_false(failover_take(w.f, &h, LIMIT - MS, w.now));
	for (uint16_t port = 1000; port < 1050; port++) {
		unsigned int to = ask(&w, port, 2);

		assert_true(to == 1 || to == 3);
		assert_ptr_equal(((struct plan_rows *)w.c.svc->rows)->pools.v, w.c.pool);
	}
	h = shake(1049);
	assert_false(failover_take(w.f, &h, LIMIT, w.now));
	assert_false(failover_take(w.f, &h, 2 * LIMIT, w.now + LIMIT));
	/* The repeated SYN made a new flow; its backend has twice the time. */
	assert_false(failover_take(w.f, &h, 2 * LIMIT - MS, w.now + 2 * LIMIT));
	assert_true(failover_take(w.f, &h, 2 * LIMIT, w.now + 2 * LIMIT + MS));
	/* The kernel may list it twice. */
	assert_false(failover_take(w.f, &h, 2 * LIMIT, w.now + 2 * LIMIT + MS));
	failover_again(w.f, &h);
	assert_true(failover_take(w.f, &h, 2 * LIMIT, w.now));
	/* A step that failed does not double the time. */
	h = shake(2000);
	assert_true(ask(&w, 2000, 2) != 0);
	failover_again(w.f, &h);
	assert_true(failover_take(w.f, &h, LIMIT, w.now));
	/* Nor does it forget the endpoints that were tried, however many steps fail. */
	for (unsigned int i = 0; i < 20; i++) {
		struct ip_flow other = shake((uint16_t)(3000 + i));
		struct ip_endpoint by = at("10.0.1.2", 8080);

		failover_again(w.f, &h);
		(void)failover_take(w.f, &other, 0, w.now);
		assert_true(failover_take(w.f, &h, LIMIT, w.now));
		assert_true(choose(&w, &h, &by));
		assert_int_not_equal(w.c.to.addr.bytes[3], 2);
	}
	world_fini(&w);
}

/* CT-19: not back while there is another one, each time with twice the time; silent ones last. */
static void test_each_once(void **state)
{
	static const unsigned int waits[] = { 1, 2, 4, 8, 8, 8 };
	unsigned int by = 1, seen = 1u << 1;
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs; 4 rs; 5 rs");
	for (int i = 0; i < 4; i++) {
		by = ask(&w, 1000, by);
		assert_int_equal(w.waited, waits[i]);
		assert_true(by != 0 && !(seen & 1u << by));
		seen |= 1u << by;
	}
	by = ask(&w, 1000, by);
	assert_int_equal(by, 1);
	assert_int_equal(w.waited, 8);
	world_fini(&w);

	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs; 4 rs");
	assert_int_not_equal(ask(&w, 1000, 1), 0);
	assert_int_not_equal(ask(&w, 1001, 2), 0);
	for (uint16_t port = 2000; port < 2010; port++) {
		unsigned int to = ask(&w, port, 1);

		assert_true(to == 3 || to == 4);
	}
	/* If all others are silent, one of them is chosen. */
	w.now += 2 * FAILOVER_SILENT_NS;
	put(&w, SVC, P "1 rs; 2 rs");
	assert_int_equal(ask(&w, 3000, 1), 2);
	assert_int_equal(ask(&w, 3001, 2), 1);
	assert_int_equal(ask(&w, 3000, 2), 1);
	assert_int_equal(w.waited, 2);
	world_fini(&w);
}

/*
 * CT-19: all backends of the pool answer after 0.8 s: no handshake moves, whichever is examined
 * first. One that never answers loses its handshakes before the client's third SYN.
 */
static void test_all_late(void **state)
{
	struct ip_endpoint by[3];
	struct world w;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "10.0.1.%u", i + 1);
		by[i] = at(text, 8080);
	}
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs");
	for (unsigned int wave = 0; wave < 20; wave++) {
		w.now += LIMIT + wave * NSEC_PER_SEC; /* more than silences last, later */
		for (unsigned int i = 0; i < 6; i++) {
			struct ip_flow h = shake((uint16_t)(1000 + 10 * wave + i));

			assert_true(failover_take(w.f, &h, LIMIT, w.now));
			failover_note(w.f, &h, &by[i % 3], w.now);
		}
		for (unsigned int i = 0; i < 6; i++) {
			struct ip_flow h = shake((uint16_t)(1000 + 10 * wave + i));

			assert_false(failover_choose(w.f, &h, &by[i % 3], w.now, &w.c));
			assert_false(failover_take(w.f, &h, LIMIT + 300 * MS, w.now + 300 * MS));
		}
	}
	w.now += FAILOVER_WAIT_NS - LIMIT;
	for (unsigned int i = 0; i < 2; i++) { /* the kernel lists the last one still */
		struct ip_flow h = shake(1000 + 190);

		assert_int_equal(failover_take(w.f, &h, FAILOVER_WAIT_NS, w.now), i == 0);
		if (i == 0)
			assert_true(choose(&w, &h, &by[0]));
	}
	world_fini(&w);
}

/* CT-19, CT-20: silence of the others some time ago, or an update, does not make one wait. */
static void test_no_wait(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs");
	assert_int_equal(ask(&w, 1000, 2), 1);
	w.now += FAILOVER_WAIT_NS;
	assert_int_equal(ask(&w, 1001, 1), 2);
	assert_int_equal(w.waited, 1);
	put(&w, SVC, P "2 rs");
	(void)ask(&w, 1002, 2);
	assert_int_equal(ask(&w, 1003, 1), 2);
	assert_int_equal(w.waited, 1);
	world_fini(&w);
}

/* A client port is reused later: the handshake may try every backend again. */
static void test_forgets(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs");
	assert_int_equal(ask(&w, 1000, 1), 2);
	w.now += FAILOVER_FORGET_NS;
	assert_int_equal(ask(&w, 1000, 2), 1);
	assert_int_equal(w.waited, 1);
	world_fini(&w);
}

/* CT-25: a backend is silent until none of its handshakes was left unanswered for 10 s. */
static void test_silence(void **state)
{
	const struct ip_addr addr = test_addr("10.0.1.1");
	const struct failover_silence *s;
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs");
	assert_null(failover_silence(w.f, &addr, 8080));
	for (uint16_t port = 1000; port < 1003; port++)
		assert_int_equal(ask(&w, port, 1), 0);
	s = failover_silence(w.f, &addr, 8080);
	assert_int_equal(s->unanswered, 3);
	assert_int_equal(s->last_ns, w.now);
	assert_int_equal(s->last_ns - s->since_ns, 2 * (LIMIT + MS));
	assert_null(failover_silence(w.f, &addr, 8081));
	assert_int_equal(w.n_silent, 1);
	failover_tick(w.f, w.now + FAILOVER_SILENT_NS - MS);
	assert_int_equal(failover_n_silent(w.f), 1);
	assert_int_equal(w.n_over, 0);
	failover_tick(w.f, w.now + FAILOVER_SILENT_NS);
	assert_int_equal(failover_n_silent(w.f), 0);
	assert_int_equal(w.n_over, 1);
	w.now += 2 * FAILOVER_SILENT_NS;
	assert_int_equal(ask(&w, 1000, 1), 0);
	assert_int_equal(w.n_silent, 2);
	assert_int_equal(failover_silence(w.f, &addr, 8080)->unanswered, 1);
	assert_int_equal(failover_unanswered(w.f), 4);
	world_fini(&w);
}

/* CT-19: the time between two SYNs of a client may be a multiple of the limit. */
static void test_long_limit(void **state)
{
	struct ip_flow h = shake(1000);
	struct ip_endpoint by;
	struct world w;

	(void)state;
	world_init(&w);
	failover_close(w.f);
	failover_open(&w.f, &w.p, 4 * NSEC_PER_SEC, NULL, NULL);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs");
	by = at("10.0.1.1", 8080);
	for (unsigned int i = 0, seen = 1u << 1; i < 2; i++) {
		assert_true(choose(&w, &h, &by));
		by.addr = w.c.to.addr;
		assert_false(seen & 1u << by.addr.bytes[3]);
		seen |= 1u << by.addr.bytes[3];
		w.now += 3 * FAILOVER_FORGET_NS;
	}
	world_fini(&w);
}

/* CT-20: one backend keeps its handshakes until the pool has another one. */
static void test_single(void **state)
{
	struct ip_flow h = shake(1000);
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs");
	assert_int_equal(ask(&w, 1000, 1), 0);
	assert_false(failover_take(w.f, &h, 2 * LIMIT, w.now));
	put(&w, SVC, P "1 rs; 2 ");
	w.now += MS;
	assert_false(failover_take(w.f, &h, 2 * LIMIT, w.now));
	put(&w, SVC, P "1 rs; 2 rs");
	w.now += MS;
	assert_true(failover_take(w.f, &h, 2 * LIMIT, w.now));
	assert_int_equal(ask(&w, 1000, 1), 2);
	h = shake(1001);
	put(&w, SVC, P "1 rs");
	assert_int_equal(ask(&w, 1001, 1), 0);
	put(&w, SVC, P "3 rs");
	w.now += MS;
	assert_true(failover_take(w.f, &h, 2 * LIMIT, w.now));
	assert_int_equal(ask(&w, 1001, 1), 3);
	world_fini(&w);
}

struct failed {
	unsigned int n;
	unsigned int n_refused;
	uint64_t at_ns;
};

static void on_failed(void *arg, const struct svc *svc, const struct ip_endpoint *by,
		      uint64_t at_ns, bool is_refused)
{
	struct failed *f = arg;

	assert_string_equal(svc->name->text, "a");
	assert_int_equal(by->port, 8080);
	f->n++;
	f->n_refused += is_refused;
	f->at_ns = at_ns;
}

/*
 * CT-20: a backend that an update removed gets no longer than FAILOVER_REMOVED_NS, also when its
 * handshake has more time; other handshakes keep theirs, and a failure counts once.
 */
static void test_removed(void **state)
{
	static const uint64_t limit = 4 * NSEC_PER_SEC;
	const struct ip_endpoint one = at("10.0.1.1", 8080), two = at("10.0.1.2", 8080);
	struct ip_flow h = shake(1000), other = shake(1001);
	struct failed f = { 0 };
	struct world w;

	(void)state;
	world_init(&w);
	failover_close(w.f);
	failover_open(&w.f, &w.p, limit, NULL, NULL);
	failover_watch(w.f, on_failed, &f);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs");
	put(&w, SVC, P "2 rs; 3 rs");
	w.now += NSEC_PER_SEC;
	assert_false(failover_take(w.f, &h, FAILOVER_REMOVED_NS - MS, w.now));
	/* A SYN that was repeated after the update; the first attempt to move it fails. */
	for (int i = 0; i < 2; i++) {
		assert_true(failover_take(w.f, &h, NSEC_PER_SEC - 2 * MS, w.now));
		assert_true(choose(&w, &h, &one));
		assert_int_not_equal(w.c.to.addr.bytes[3], 1);
		if (i == 0)
			failover_again(w.f, &h);
	}
	assert_int_equal(failover_n_silent(w.f) + f.n, 0);
	assert_true(failover_take(w.f, &other, NSEC_PER_SEC, w.now));
	assert_false(choose(&w, &other, &two));
	assert_int_equal(failover_n_silent(w.f) + f.n, 0);
	w.now += MS;
	assert_false(failover_take(w.f, &other, NSEC_PER_SEC + MS, w.now)); /* once for an update */
	w.now += limit - NSEC_PER_SEC;
	assert_true(failover_take(w.f, &other, limit + MS, w.now));
	assert_true(choose(&w, &other, &two));
	assert_int_equal(w.c.to.addr.bytes[3], 3);
	assert_int_equal(f.n, 1);
	world_fini(&w);

	/* The pool has no backend when the handshake is due, and then another one. */
	world_init(&w);
	put(&w, SVC, P "");
	assert_int_equal(ask(&w, 1000, 1), 0);
	put(&w, SVC, P "3 rs");
	w.now += MS;
	h = shake(1000);
	assert_true(failover_take(w.f, &h, 2 * LIMIT, w.now));
	assert_true(choose(&w, &h, &one));
	assert_int_equal(w.c.to.addr.bytes[3], 3);
	world_fini(&w);
}

/* CT-21: no service has this frontend, or it has no backend. */
static void test_not_ours(void **state)
{
	struct ip_flow h = { at("203.0.113.7", 1000), at("10.96.0.2", 80), L4PROTO_TCP };
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs");
	assert_int_equal(ask_of(&w, &h, 1), 0);
	assert_false(failover_take(w.f, &h, 2 * LIMIT, w.now));
	h.to = at("10.96.0.1", 81);
	assert_int_equal(ask_of(&w, &h, 1), 0);
	put(&w, SVC, P "");
	h.to = at("10.96.0.1", 80);
	assert_int_equal(ask_of(&w, &h, 1), 0);
	world_fini(&w);
}

/* CT-23: both pools of a frontend with externalTrafficPolicy Local. */
static void test_local_policy(void **state)
{
	struct ip_flow h = { at("203.0.113.7", 1000), at("203.0.113.1", 80), L4PROTO_TCP };
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, "type=LoadBalancer ip=10.96.0.1 vip=203.0.113.1 etp port=web:80:30080",
	    P "1 rs @n1; 2 rs @n1; 3 rs; 4 rs");
	for (uint16_t port = 1000; port < 1020; port++) {
		unsigned int to;

		h.from.port = port;
		assert_int_equal(ask_of(&w, &h, 1), 2);
		h.from.port = (uint16_t)(port + 1000);
		to = ask_of(&w, &h, 3);
		assert_true(to == 4 || to == 2);
	}
	put(&w, "type=LoadBalancer ip=10.96.0.1 vip=203.0.113.1 etp port=web:80:30080",
	    P "1 rs @n1; 3 rs; 4 rs");
	h.from.port = 5000;
	assert_int_equal(ask_of(&w, &h, 1), 0);
	world_fini(&w);
}

/* More handshakes than the limit: the oldest are dropped. */
static void test_many(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "1 rs; 2 rs; 3 rs");
	for (unsigned int i = 0; i < 100000; i++) {
		struct ip_flow h = shake((uint16_t)(1 + i % 60000));
		struct ip_endpoint by = at("10.0.1.1", 8080);

		h.from.addr.bytes[2] = (uint8_t)(i / 60000);
		assert_true(failover_choose(w.f, &h, &by, w.now + i, &w.c));
	}
	world_fini(&w);
}

/* CT-26: a SYN is evidence once, and a refusal is, however often the kernel lists it. */
static void test_evidence(void **state)
{
	struct ip_endpoint of_pool = at("10.0.1.2", 8080);
	struct ip_endpoint other = at("10.0.1.9", 8080);
	struct ip_flow h = shake(1000);
	struct failed f = { 0 };
	struct world w;

	(void)state;
	world_init(&w);
	put(&w, SVC, P "2 rs");
	failover_watch(w.f, on_failed, &f);
	w.now += LIMIT;
	assert_true(failover_take(w.f, &h, LIMIT, w.now));
	assert_false(choose(&w, &h, &of_pool));
	assert_int_equal(f.n, 1);
	assert_int_equal(f.at_ns, w.now - LIMIT);
	put(&w, SVC, P "2 rs; 3 rs"); /* moves now, after the same SYN */
	assert_true(failover_take(w.f, &h, LIMIT + MS, w.now));
	assert_true(choose(&w, &h, &of_pool));
	assert_int_equal(f.n, 1);
	h = shake(2000);
	for (unsigned int i = 0; i < 10; i++)
		failover_refused(w.f, &h, &of_pool, T0 + i % 3 * MS, T0 + i % 3 * MS, w.now += MS);
	assert_int_equal(f.n_refused, 1);
	/* Reads of a busy machine: it may have been the refusal that is known, or not. */
	failover_refused(w.f, &h, &of_pool, T0 - 200 * MS, T0 + 300 * MS, w.now);
	assert_int_equal(f.n_refused, 1);
	failover_refused(w.f, &h, &of_pool, T0 + 100 * MS, T0 + 100 * MS,
			 w.now); /* the port again */
	assert_int_equal(f.n_refused, 2);
	/* The port again, before the refusal was read. */
	w.now += 200 * MS;
	failover_refused(w.f, &h, &of_pool, w.now, w.now, w.now + 20 * MS);
	w.now += 10 * MS + LIMIT;
	assert_true(failover_take(w.f, &h, LIMIT, w.now));
	h = shake(3000);
	failover_refused(w.f, &h, &other, T0, T0, w.now);
	h.to.port = 81;
	failover_refused(w.f, &h, &of_pool, T0, T0, w.now);
	assert_int_equal(f.n_refused, 3);
	world_fini(&w);
}

/* CT-33: a flow of UDP moves only to a backend that replied to others, after a time of its own. */
static void test_udp(void **state)
{
	static const uint64_t udp_limit = 2 * NSEC_PER_SEC;
	const struct ip_endpoint one = at("10.0.1.1", 8080), two = at("10.0.1.2", 8080);
	struct ip_flow h = shake(1000);
	struct failed f = { 0 };
	struct world w;

	(void)state;
	world_init(&w);
	failover_udp(w.f, udp_limit);
	failover_watch(w.f, on_failed, &f);
	put(&w, "ip=10.96.0.1 port=web:80 port=dns/UDP:80",
	    "| web:8080 dns/UDP:8080 | 1 rs; 2 rs; 3 rs");
	h.proto = L4PROTO_UDP;
	w.now += udp_limit;
	assert_false(failover_take(w.f, &h, udp_limit - MS, w.now));
	assert_true(failover_take(w.f, &h, udp_limit, w.now));
	/* No backend replies: it stays, until one does. */
	assert_false(choose(&w, &h, &one));
	assert_false(failover_take(w.f, &h, udp_limit + MS, w.now += MS));
	failover_replied(w.f, &one, w.now, w.now); /* its own */
	assert_false(failover_take(w.f, &h, udp_limit + 2 * MS, w.now += MS));
	failover_replied(w.f, &two, w.now, w.now);
	assert_true(failover_take(w.f, &h, udp_limit + 3 * MS, w.now += MS));
	assert_true(choose(&w, &h, &one));
	assert_memory_equal(&w.c.to.addr, &two.addr, sizeof(two.addr));
	assert_int_equal(w.c.pool->proto, L4PROTO_UDP);
	/* A reply is forgotten after 10 s, unless there are later ones. */
	for (unsigned int i = 0; i < 2; i++) {
		h.from.port++;
		w.now += FAILOVER_SILENT_NS - 2 * MS;
		assert_true(failover_take(w.f, &h, udp_limit, w.now));
		assert_int_equal(choose(&w, &h, &one), i == 0);
		w.now += 2 * MS;
	}
	/* Neither silence nor evidence, and TCP of the same client is another flow. */
	assert_int_equal(f.n + failover_n_silent(w.f) + failover_unanswered(w.f), 0);
	h.proto = L4PROTO_TCP;
	assert_true(failover_take(w.f, &h, LIMIT, w.now));
	assert_true(choose(&w, &h, &one));
	assert_int_equal(f.n, 1);
	world_fini(&w);
}

/* CT-33: a long time for UDP keeps no patience for the next handshake from a TCP port. */
static void test_long_udp_limit(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	failover_udp(w.f, 10 * NSEC_PER_SEC);
	put(&w, SVC, P "1 rs; 2 rs");
	assert_int_equal(ask(&w, 1000, 1), 2);
	w.now += FAILOVER_FORGET_NS;
	assert_int_equal(ask(&w, 1000, 2), 1);
	assert_int_equal(w.waited, 1);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moves),    cmocka_unit_test(test_each_once),
		cmocka_unit_test(test_all_late), cmocka_unit_test(test_no_wait),
		cmocka_unit_test(test_forgets),  cmocka_unit_test(test_single),
		cmocka_unit_test(test_not_ours), cmocka_unit_test(test_local_policy),
		cmocka_unit_test(test_many),     cmocka_unit_test(test_long_limit),
		cmocka_unit_test(test_silence),  cmocka_unit_test(test_evidence),
		cmocka_unit_test(test_udp),      cmocka_unit_test(test_long_udp_limit),
		cmocka_unit_test(test_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
