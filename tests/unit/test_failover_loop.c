/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/failover: how often handshakes are read, and the state after errors. Flows are invented.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "conntrack/ctnl.h"
#include "daemon/eject.h"
#include "daemon/failover.h"
#include "mock_plane.h"
#include "objects.h"
#include "state/context.h"

#define LIMIT (100 * NSEC_PER_MSEC)
#define LAST_SYN_S 32 /* time between the last two SYNs of a client */

int __wrap_ctnl_lookup(struct ctnl *c, const struct ip_flow *v, size_t n,
		       void (*fn)(void *arg, size_t i, const struct ctnl_entry *e), void *arg,
		       struct err *err);

void __wrap_ctnl_delete(struct ctnl *c, const struct ctnl_entry *e);
void __wrap_ctnl_delete_drop(struct ctnl *c);
int __wrap_ctnl_delete_flush(struct ctnl *c, uint64_t *n_deleted, struct err *err);

static struct {
	struct event_base *base;
	uint64_t syn_ns;     /* of all handshakes */
	size_t n_handshakes; /* that the kernel lists */
	size_t n_other;      /* the last of them, to another Service */
	int read_fails;      /* negative errno, returned after the list */
	int lookup_fails;    /* negative errno, once */
	size_t n_reads;
	size_t n_lookups; /* flows */
	size_t most;      /* at once */
	size_t until;     /* number after which the loop ends */
	bool is_claimed;
	bool has_flows; /* of all handshakes, without an answer, to 10.0.1.1:8080 */
	int stop_at;    /* this flow, once, between claim and deletion; 0: none, 1: the first */
	size_t n_queued;
	size_t n_deleted;
	size_t n_ended; /* moves */
	size_t n_void;
	int end_fails;        /* so many move_end() without a claim */
	bool is_udp;          /* the handshakes are flows of UDP */
	const char *replying; /* backend; NULL: none */
	uint64_t limit_ns;    /* 0: LIMIT */
	struct ip_addr by;    /* unset: 10.0.1.1 */
	struct ip_addr to;    /* of the last move */
	size_t n_begun;       /* moves */
	size_t n_long;        /* that last until the client's last SYN */
	size_t n_refused;     /* handshakes, by 10.0.1.1; 0: endpoints are not ejected */
	size_t n_old;         /* moves of an earlier process to each of 10.0.1.2 and 10.0.1.9 */
	int old_fails;        /* negative errno, once */
	void (*then)(struct failover_loop *loop);
	struct model *m;
	struct sync *s;
	struct mock_plane *k;
} w;

static int list_silent(plane_handshake_fn *fn, void *arg, struct err *err)
{
	w.n_reads++;
	for (size_t i = 0; i < w.n_handshakes; i++) {
		bool is_other = i + w.n_other >= w.n_handshakes;
		struct plane_handshake h = {
			{ { test_addr("203.0.113.7"), (uint16_t)(1 + i), 0 },
			  { test_addr(is_other ? "10.96.0.2" : "10.96.0.1"), 80, 0 },
			  w.is_udp ? L4PROTO_UDP : L4PROTO_TCP },
			now_ns() - w.syn_ns,
		};

		fn(arg, &h);
	}
	return w.read_fails != 0 ? err_set(err, w.read_fails, "read") : 0;
}

static int list_replies(plane_handshake_fn *fn, void *arg)
{
	if (w.replying != NULL) {
		const struct plane_handshake h = { .by = { test_addr(w.replying), 8080, 0 } };

		fn(arg, &h);
	}
	return 0;
}

static int list_moves(plane_handshake_fn *fn, void *arg, struct err *err)
{
	int r = w.old_fails;

	w.old_fails = 0;
	for (size_t i = 0; i < 2 * w.n_old; i++) {
		const struct plane_handshake h = {
			.flow = { { test_addr("203.0.113.8"), (uint16_t)(1 + i), 0 },
				  { test_addr("10.96.0.1"), 80, 0 },
				  i % 4 < 2 ? L4PROTO_TCP : L4PROTO_UDP },
			.by = { test_addr(i % 2 == 0 ? "10.0.1.2" : "10.0.1.9"), 8080, 0 },
		};

		fn(arg, &h);
	}
	return r != 0 ? err_set(err, r, "moves") : 0;
}

static int list_refused(plane_handshake_fn *fn, void *arg)
{
	for (size_t i = 0; i < w.n_refused; i++) {
		const struct plane_handshake h = {
			.flow = { { test_addr("203.0.113.9"), (uint16_t)(1 + i), 0 },
				  { test_addr("10.96.0.1"), 80, 0 },
				  L4PROTO_TCP },
			.by = { test_addr("10.0.1.1"), 8080, 0 },
		};

		fn(arg, &h);
	}
	return 0;
}

static int answers(struct plane *p, struct endpoint_answer *v, size_t n, struct err *err)
{
	(void)p;
	(void)err;
	for (size_t i = 0; i < n; i++)
		v[i].age_ns = UINT64_MAX;
	return 0;
}

static int list_handshakes(struct plane *p, enum plane_handshakes which, plane_handshake_fn *fn,
			   void *arg, struct err *err)
{
	(void)p;
	if (which == PLANE_UDP_REPLIES)
		return list_replies(fn, arg);
	if (which == PLANE_HANDSHAKES_MOVED)
		return list_moves(fn, arg, err);
	if (which == PLANE_HANDSHAKES_REFUSED)
		return list_refused(fn, arg);
	assert_int_equal(which, PLANE_HANDSHAKES_SILENT);
	return list_silent(fn, arg, err);
}

int __wrap_ctnl_lookup(struct ctnl *c, const struct ip_flow *v, size_t n,
		       void (*fn)(void *arg, size_t i, const struct ctnl_entry *e), void *arg,
		       struct err *err)
{
	int r = w.lookup_fails;

	(void)c;
	(void)v;
	w.lookup_fails = 0;
	for (size_t i = 0; i < n && w.has_flows; i++) {
		struct ctnl_entry e = { .status = IPS_DST_NAT };

		if (w.is_claimed && (int)i + 1 == w.stop_at) {
			const struct timespec stop = { 0, 600 * NSEC_PER_MSEC };

			w.stop_at = 0;
			(void)nanosleep(&stop, NULL);
		}
		e.flow.by = (struct ip_endpoint){ test_addr("10.0.1.1"), 8080, 0 };
		if (ip_is_set(&w.by))
			e.flow.by.addr = w.by;
		fn(arg, i, &e);
	}
	w.n_lookups += n;
	w.most = MAX(w.most, n);
	if (w.n_lookups >= w.until)
		(void)event_base_loopbreak(w.base);
	return r != 0 ? err_set(err, r, "look-up") : 0;
}

void __wrap_ctnl_delete(struct ctnl *c, const struct ctnl_entry *e)
{
	(void)c;
	(void)e;
	w.n_queued++;
}

void __wrap_ctnl_delete_drop(struct ctnl *c)
{
	(void)c;
	w.n_queued = 0;
}

int __wrap_ctnl_delete_flush(struct ctnl *c, uint64_t *n_deleted, struct err *err)
{
	(void)c;
	(void)err;
	*n_deleted = w.n_queued;
	w.n_deleted += w.n_queued;
	w.n_queued = 0;
	return 0;
}

static int move_begin(struct plane *p, const struct plane_move *v, size_t n, struct err *err)
{
	(void)p;
	(void)err;
	w.is_claimed = true;
	w.n_begun += n;
	w.to = v[n - 1].to.addr;
	for (size_t i = 0; i < n; i++)
		w.n_long += v[i].life_s > LAST_SYN_S;
	return 0;
}

static int move_end(struct plane *p, const struct plane_move *v, size_t n, struct err *err)
{
	(void)p;
	if (!w.is_claimed && w.end_fails > 0) {
		w.end_fails--;
		return err_set(err, -EIO, "delete");
	}
	w.is_claimed = false;
	w.n_ended += n;
	for (size_t i = 0; i < n; i++)
		w.n_void += v[i].is_void;
	return 0;
}

static void on_changed(void *arg)
{
	(void)arg;
}

/* Run the loop until w.until flows were looked up. */
static void run(void)
{
	struct plane_ops ops = mock_plane_ops;
	struct serve_failovers counts = { 0 };
	struct failover_config config = { .limit_ns = w.limit_ns ? w.limit_ns : LIMIT,
					  .counts = &counts };
	struct sync_config sync_config = { .check_period_ns = 3600 * NSEC_PER_SEC };
	struct failover_loop *loop = NULL;
	struct mock_plane k;
	struct err err = { 0 };
	struct model m;
	struct plan p;
	struct sync *s;

	log_level_set_all(LOG_LEVEL_ERR - 1);
	mock_init(&k);
	ops.handshakes = list_handshakes;
	ops.move_begin = move_begin;
	ops.move_end = move_end;
	ops.answers = answers;
	k.plane.ops = &ops;
	model_init(&m);
	m.config.node_name = name_get_str("n1");
	model_configured(&m);
	plan_init(&p, &m, &mock_plane_ops.traits);
	sync_open(&s, &m, &p, &k.plane, &sync_config);
	(void)model_put_service(&m, test_service("a", "ip=10.96.0.1 port=web:80 port=u/UDP:80"), 1);
	(void)model_put_slice(&m, test_slice("a1", "a", "| web:8080 u/UDP:8080 | 1 rs; 2 rs"), 1);
	sync_sources_ready(s);
	sync_settle(s, now_ns());
	w.base = event_base_new();
	w.m = &m;
	w.s = s;
	w.k = &k;
	w.syn_ns = now_ns() - 2 * LIMIT;
	config.udp_ns = w.is_udp ? LIMIT : 0;
	config.plan = &p;
	config.sync = s;
	config.plane = &k.plane;
	config.ejects = w.n_refused > 0;
	config.changed = on_changed;
	assert_int_equal(failover_loop_open(&loop, w.base, &config, &err), 0);
	(void)event_base_dispatch(w.base);
	if (w.then != NULL)
		w.then(loop);
	failover_loop_close(loop);
	event_base_free(w.base);
	sync_close(s);
	plan_fini(&p);
	model_fini(&m);
	mock_fini(&k);
	log_level_set_all(LOG_LEVEL_NOTICE);
}

/* Many handshakes: one read, processed in portions. */
static void test_one_read(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = w.until = 8 * FAILOVER_STEP;
	run();
	assert_int_equal(w.n_reads, 1);
	assert_int_equal(w.n_lookups, w.until);
	assert_int_equal(w.most, FAILOVER_STEP);
}

/* A pause of the machine, which counts as CPU time, does not end the work for minutes. */
static void test_rest(void **state)
{
	(void)state;
	assert_int_equal(failover_rest_ns(0), 0);
	assert_int_equal(failover_rest_ns(NSEC_PER_MSEC), 19 * NSEC_PER_MSEC);
	assert_int_equal(failover_rest_ns(NSEC_PER_SEC), 5 * NSEC_PER_SEC);
	assert_int_equal(failover_rest_ns(3600 * NSEC_PER_SEC), 5 * NSEC_PER_SEC);
}

/* Handshakes read before an error are looked up. */
static void test_read_fails(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = w.until = 10;
	w.read_fails = -EIO;
	run();
	assert_int_equal(w.n_reads, 1);
}

/* A failed portion is looked up again, the others once. */
static void test_portion_fails(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = 3 * FAILOVER_STEP;
	w.lookup_fails = -EIO;
	w.until = 4 * FAILOVER_STEP;
	run();
	assert_int_equal(w.n_reads, 2);
	assert_int_equal(w.n_lookups, w.until);
}

/*
 * CT-21: this process is stopped between claim and deletion, until the claims may have expired:
 * nothing is deleted, and the handshakes are due again.
 */
static void test_stopped(void **state)
{
	(void)state;
	for (int at = 1; at <= 3; at++) { /* some deletions are queued */
		memset(&w, 0, sizeof(w));
		w.n_handshakes = 3;
		w.has_flows = true;
		w.stop_at = at;
		w.until = 4 * w.n_handshakes;
		run();
		assert_int_equal(w.stop_at, 0);
		assert_int_equal(w.n_deleted, 3);
		assert_int_equal(w.n_ended, 6);
		assert_int_equal(w.n_void, 3);
	}
}

#define FLOWS 4096

/* A backend of another Service replies: each flow that was left is examined again. */
static void examine_again(struct failover_loop *loop)
{
	const struct failover *f = failover_loop_state(loop);
	uint64_t begin = failover_work(f), last = begin;

	w.replying = "10.9.9.9";
	while (last - begin < 2 * FLOWS) {
		uint64_t before = last;

		(void)event_base_loop(w.base, EVLOOP_ONCE);
		last = failover_work(f);
		assert_true(last - before < FAILOVER_WORK_MAX + 16 * FAILOVER_STEP);
	}
}

/* CT-33: flows that nothing replies to are examined in portions, too. */
static void test_one_way(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = w.until = FLOWS;
	w.is_udp = w.has_flows = true;
	w.then = examine_again;
	run();
	assert_int_equal(w.n_deleted, 0);
}

/* The moved flows' backend leaves: their next datagrams must not go there. */
static void backend_leaves(struct failover_loop *loop)
{
	size_t n_void;

	while (w.n_deleted < w.n_handshakes)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	w.has_flows = false;
	n_void = w.n_void;
	failover_loop_accepted(loop);
	(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.n_void, n_void);
	(void)model_put_slice(w.m, test_slice("a1", "a", "| web:8080 u/UDP:8080 | 1 rs"), 2);
	sync_settle(w.s, now_ns());
	/* Not during a load, which another program's change causes. */
	w.k->check_answer = PLANE_CHECK_LOST;
	sync_check(w.s, now_ns());
	for (int i = 0; i < 10 && sync_state_get(w.s) == SYNC_RUNNING; i++)
		(void)sync_step(w.s, now_ns() + (uint64_t)i * NSEC_PER_SEC);
	assert_int_not_equal(sync_state_get(w.s), SYNC_RUNNING);
	failover_loop_accepted(loop);
	for (int i = 0; i < 5; i++)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.n_void, n_void);
	sync_settle(w.s, now_ns());
	for (int i = 0; i < 1000 && w.n_void - n_void < w.n_handshakes; i++)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.end_fails, 0);
	assert_int_equal(w.n_void - n_void, w.n_handshakes);
	failover_loop_accepted(loop); /* once */
	for (int i = 0; i < 5; i++)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.n_void - n_void, w.n_handshakes);
}

/* CT-20, CT-33: a move ends when its backend leaves the pool, also if this fails at first. */
static void test_moved_to_removed(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		memset(&w, 0, sizeof(w));
		w.n_handshakes = w.until = 40;
		w.is_udp = i % 2 == 0;
		w.has_flows = true;
		w.replying = "10.0.1.2";
		w.end_fails = i / 2;
		w.then = backend_leaves;
		run();
	}
}

static void loop_until(const size_t *n, size_t wanted)
{
	for (int i = 0; i < 10000 && *n < wanted; i++)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(*n, wanted);
}

static void endpoints_put(const char *text)
{
	static int64_t number = 10;

	(void)model_put_slice(w.m, test_slice("a1", "a", text), number++);
	sync_settle(w.s, now_ns());
}

/* The flow moves twice; then both of its former endpoints leave, and then the last one. */
static void move_again(struct failover_loop *loop)
{
	struct ip_addr first;
	char text[64];

	endpoints_put("| web:8080 u/UDP:8080 | 1 rs; 2 rs; 3 rs");
	loop_until(&w.n_begun, 1);
	first = w.by = w.to;
	w.syn_ns = now_ns(); /* the next SYN */
	loop_until(&w.n_begun, 2);
	assert_false(ip_addr_is_equal(&first, &w.to));
	w.has_flows = false;
	(void)snprintf(text, sizeof(text), "| web:8080 u/UDP:8080 | 1 rs; %d rs", w.to.bytes[3]);
	endpoints_put(text);
	failover_loop_accepted(loop);
	for (int i = 0; i < 5; i++)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.n_void, 0);
	endpoints_put("| web:8080 u/UDP:8080 | 1 rs");
	failover_loop_accepted(loop);
	loop_until(&w.n_void, 1);
}

/* CT-20: only the last move of a flow ends when its backend leaves. */
static void test_moved_again(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = 1;
	w.until = 1;
	w.limit_ns = 5 * NSEC_PER_MSEC;
	w.has_flows = true;
	w.then = move_again;
	run();
}

static void old_moves_end(struct failover_loop *loop)
{
	(void)loop;
	w.n_handshakes = 0;
	loop_until(&w.n_void, w.n_old);
	for (int i = 0; i < 5; i++)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.n_void, w.n_old);
}

/* CT-20: moves of an earlier process end if their endpoint is no longer in the pool. */
static void test_old_moves(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		memset(&w, 0, sizeof(w));
		w.n_handshakes = w.until = 1;
		w.n_old = 40;
		w.old_fails = i == 0 ? 0 : -EAGAIN;
		w.then = old_moves_end;
		run();
	}
}

static void flows_move(struct failover_loop *loop)
{
	(void)loop;
	loop_until(&w.n_begun, w.n_handshakes);
}

/* CT-18: a move lasts until the client's last SYN; CT-34: unless there are very many. */
static void test_life(void **state)
{
	static const size_t limit = 16384;

	(void)state;
	for (size_t n = 1; n < 20000; n += 19000) {
		memset(&w, 0, sizeof(w));
		w.n_handshakes = n;
		w.until = 1;
		w.has_flows = true;
		w.then = flows_move;
		run();
		assert_in_range(w.n_long, MIN(n, limit), MIN(n, limit + FAILOVER_STEP));
	}
}

static void put_many(struct model *m, int n)
{
	struct str text = { 0 };

	str_puts(&text, "| u/UDP:8080 |");
	for (int i = 1; i <= n; i++)
		str_printf(&text, " %d rs;", i);
	(void)model_put_slice(m, test_slice("a1", "a", str_text(&text)), 3);
	str_fini(&text);
}

#define LOOKS_MAX 10000 /* three times what the comparison of all moves needs */

/* Each transaction is followed by the next one before all moves are compared. */
static void other_leaves(struct failover_loop *loop)
{
	struct service *other = test_service("b", "ip=10.96.0.2 port=u/UDP:80");
	size_t n_void;
	uint64_t looks;

	(void)model_put_service(w.m, other, 2);
	(void)model_put_slice(w.m, test_slice("b1", "b", "| u/UDP:8080 | 1 rs; 2 rs"), 2);
	put_many(w.m, 200);
	sync_settle(w.s, now_ns());
	failover_loop_accepted(loop);
	while (w.n_deleted < w.n_handshakes)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	w.has_flows = false;
	n_void = w.n_void;
	(void)model_put_slice(w.m, test_slice("b1", "b", "| u/UDP:8080 | 1 rs"), 3);
	sync_settle(w.s, now_ns());
	looks = failover_work(failover_loop_state(loop));
	while (w.n_void - n_void < w.n_other) {
		failover_loop_accepted(loop);
		(void)event_base_loop(w.base, EVLOOP_ONCE);
		assert_true(failover_work(failover_loop_state(loop)) - looks < LOOKS_MAX);
	}
}

/* CT-20: transactions of other Services do not delay the end of a move. */
static void test_moved_among_changes(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = 160;
	w.n_other = 40;
	w.until = 1;
	w.is_udp = w.has_flows = true;
	w.replying = "10.0.1.2";
	w.then = other_leaves;
	run();
}

#define LARGE 30000
/* Searches for a backend: of the last flow of a step, and of the last refusal. */
#define LAST_WORK (8 * LARGE / 16)

static void put_large(struct model *m)
{
	struct slice *s = test_slice("a1", "a", "| web:8080 u/UDP:8080 | 2 rs; 1 rs");

	for (int i = 0; i < LARGE; i++) {
		struct slice_endpoint e = s->endpoints.v[0];

		(void)slice_place_ref(e.place);
		e.addr.bytes[2] = (uint8_t)(2 + i / 256);
		e.addr.bytes[3] = (uint8_t)i;
		*vec_push(&s->endpoints) = e;
	}
	(void)model_put_slice(m, s, 3);
}

static void in_large_pool(struct failover_loop *loop)
{
	const struct failover *f = failover_loop_state(loop);

	put_large(w.m);
	sync_settle(w.s, now_ns());
	failover_loop_accepted(loop);
	w.n_handshakes = 100;
	w.n_refused = 1024;
	for (int i = 0; i < 100000 && w.n_deleted < w.n_handshakes; i++) {
		uint64_t before = failover_work(f);

		(void)event_base_loop(w.base, EVLOOP_ONCE);
		assert_true(failover_work(f) - before < 2 * FAILOVER_WORK_MAX + LAST_WORK);
	}
	assert_int_equal(w.n_deleted, w.n_handshakes);
}

/* A step takes few flows of a large pool, and a read few refusals; the next ones continue. */
static void test_large_pool(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.n_handshakes = w.n_refused = w.until = 1;
	w.has_flows = true;
	w.then = in_large_pool;
	run();
}

static int connect_to(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

/* CT-26: the socket, not the time, tells whether an endpoint has answered a probe. */
static void test_probe_error(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fds[3];

	assert_int_equal(bind(listener, (const struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	assert_int_equal(listen(listener, 0), 0); /* it queues one */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = connect_to(&to);
	assert_int_equal(eject_probe_error(fds[0]), 0);
	assert_int_equal(eject_probe_error(fds[2]), ETIMEDOUT);
	close(listener); /* resets */
	assert_int_equal(eject_probe_error(fds[0]), ECONNRESET);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	fds[0] = connect_to(&to);
	assert_int_equal(eject_probe_error(fds[0]), ECONNREFUSED);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_read),         cmocka_unit_test(test_rest),
		cmocka_unit_test(test_read_fails),       cmocka_unit_test(test_one_way),
		cmocka_unit_test(test_moved_to_removed), cmocka_unit_test(test_portion_fails),
		cmocka_unit_test(test_stopped),          cmocka_unit_test(test_moved_among_changes),
		cmocka_unit_test(test_moved_again),      cmocka_unit_test(test_old_moves),
		cmocka_unit_test(test_probe_error),      cmocka_unit_test(test_life),
		cmocka_unit_test(test_large_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
