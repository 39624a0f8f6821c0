/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow new - new connections without a pause, and the outcome of each.
 *
 * Each connection sends a request and checks the answer. With --requests it sends several, one
 * after the other, --interval-ms apart, until the server marks an answer as the last: each answer
 * counts as "answered", the connection as ok if all arrived. TCP connections are closed with a
 * reset, so that neither side keeps TIME_WAIT and a port is usable again at once.
 *
 * A connection that exceeds the time limit failed if TCP sent a segment again: a lost SYN is a
 * failure here, not a delay. Without retransmissions the packets arrived and a busy machine delays
 * the server. A datagram is lost after several times the limit.
 */
#include "flow.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKENDS_MAX 4096
#define BACKEND_BUCKETS 8192
#define PEERS_MAX 16
#define UDP_LIMITS 5 /* a datagram is never sent again: time limits until it counts as lost */
#define HANGS_NS (30 * NSEC_PER_SEC)

enum outcome {
	OUTCOME_UNSET = 0,
	OUTCOME_OK,
	OUTCOME_REFUSED,
	OUTCOME_RESET,
	OUTCOME_TIMEOUT,
	OUTCOME_UNREACHABLE,
	OUTCOME_WRONG,     /* invalid answer */
	OUTCOME_UNTOUCHED, /* answered by the requested address: not translated */
	OUTCOME_OTHER,
	OUTCOME_N,
};

static const char *const outcome_text[OUTCOME_N] = {
	[OUTCOME_UNSET] = "unset",     [OUTCOME_OK] = "ok",
	[OUTCOME_REFUSED] = "refused", [OUTCOME_RESET] = "reset",
	[OUTCOME_TIMEOUT] = "timeout", [OUTCOME_UNREACHABLE] = "unreachable",
	[OUTCOME_WRONG] = "wrong",     [OUTCOME_UNTOUCHED] = "untouched",
	[OUTCOME_OTHER] = "other",
};

struct backend {
	struct ip_addr addr;
	uint16_t port;
	uint16_t next; /* index + 1 in the chain of its bucket */
	uint64_t n;
	uint64_t first_ns; /* CLOCK_MONOTONIC, comparable between processes */
	uint64_t last_ns;
};

struct slot {
	int fd; /* -1 = free */
	bool is_requested;
	const struct flow_target *target;
	unsigned left; /* requests, including the one in flight */
	uint64_t start_ns;
	uint64_t ask_ns; /* time of the next request; 0 = waiting for an answer */
	uint32_t resent; /* retransmissions before the request */
};

struct second {
	uint32_t ok;
	uint32_t failed;
};

struct state {
	struct flow_loop loop;
	const struct flow_options *o;
	struct slot slots[FLOW_SLOTS_MAX];
	uint32_t free_slots[FLOW_SLOTS_MAX];
	size_t n_free;
	size_t next_target;
	uint64_t started;
	uint64_t answered;
	uint64_t outcomes[OUTCOME_N];
	uint64_t latency_us[24]; /* i: below 2^i us; the last: all others */
	uint64_t latency_max_us;
	struct backend backends[BACKENDS_MAX];
	uint16_t buckets[BACKEND_BUCKETS];
	size_t n_backends;
	struct ip_addr peers[PEERS_MAX]; /* the first source addresses in answers */
	size_t n_peers;
	struct second seconds[FLOW_SECONDS_MAX + 1];
	char first_failure[160];
};

/* ---- results ---- */

static void failure_remember(struct state *s, const struct slot *c, enum outcome what, int error)
{
	union flow_sa sa = { 0 };
	socklen_t len = sizeof(sa);
	struct ip_addr addr;
	uint16_t port = 0;

	if (s->first_failure[0] != '\0')
		return;
	if (getsockname(c->fd, &sa.sa, &len) == 0)
		flow_sa_read(&sa, &addr, &port);
	(void)snprintf(s->first_failure, sizeof(s->first_failure),
		       "%s from port %u: %s (%s) after %.1f s", c->target->text, port,
		       outcome_text[what], error ? strerror(error) : "no error",
		       (double)(now_ns() - s->loop.start_ns) / 1e9);
}

static void slot_free(struct state *s, struct slot *c)
{
	static const struct linger reset = { .l_onoff = 1 };

	if (c->target->type == SOCK_STREAM)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void)close(c->fd);
	c->fd = -1;
	s->free_slots[s->n_free++] = (uint32_t)(c - s->slots);
}

static void slot_end(struct state *s, struct slot *c, enum outcome what, int error)
{
	uint64_t now = now_ns();
	uint64_t us = (now - c->start_ns) / NSEC_PER_USEC;
	size_t second = MIN((now - s->loop.start_ns) / NSEC_PER_SEC, (uint64_t)FLOW_SECONDS_MAX);
	size_t i = 0;

	s->outcomes[what]++;
	if (what == OUTCOME_OK) {
		while (i + 1 < ARRAY_SIZE(s->latency_us) && us >= UINT64_C(1) << i)
			i++;
		s->latency_us[i]++;
		s->latency_max_us = MAX(s->latency_max_us, us);
		s->seconds[second].ok++;
	} else {
		s->seconds[second].failed++;
		failure_remember(s, c, what, error);
	}
	slot_free(s, c);
}

static void slot_fail(struct state *s, struct slot *c, int error)
{
	switch (error) {
	case ECONNREFUSED:
		/* An established TCP connection that broke counts as reset. */
		slot_end(s, c, OUTCOME_REFUSED, error);
		break;
	case ECONNRESET:
	case EPIPE:
		slot_end(s, c, OUTCOME_RESET, error);
		break;
	case ETIMEDOUT:
		slot_end(s, c, OUTCOME_TIMEOUT, error);
		break;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EPERM: /* netfilter rejected a local datagram */
	case EACCES:
		slot_end(s, c, OUTCOME_UNREACHABLE, error);
		break;
	default:
		slot_end(s, c, OUTCOME_OTHER, error);
		break;
	}
}

static void backend_count(struct state *s, const struct flow_answer *a)
{
	uint32_t h = 2166136261u;
	struct backend *b;

	for (size_t i = 0; i < sizeof(a->backend.bytes); i++)
		h = (h ^ a->backend.bytes[i]) * 16777619u;
	h = ((h ^ a->backend_port) * 16777619u) % BACKEND_BUCKETS;
	for (uint16_t i = s->buckets[h]; i != 0; i = b->next) {
		b = &s->backends[i - 1];
		if (b->port == a->backend_port && ip_addr_is_equal(&b->addr, &a->backend)) {
			b->n++;
			b->last_ns = now_ns();
			return;
		}
	}
	if (s->n_backends == BACKENDS_MAX)
		return;
	b = &s->backends[s->n_backends++];
	*b = (struct backend){ .addr = a->backend, .port = a->backend_port, .n = 1 };
	b->first_ns = b->last_ns = now_ns();
	b->next = s->buckets[h];
	s->buckets[h] = (uint16_t)s->n_backends;
}

static void peer_remember(struct state *s, const struct ip_addr *peer)
{
	for (size_t i = 0; i < s->n_peers; i++) {
		if (ip_addr_is_equal(&s->peers[i], peer))
			return;
	}
	if (s->n_peers < PEERS_MAX)
		s->peers[s->n_peers++] = *peer;
}

static uint64_t latency_percentile(const struct state *s, double p)
{
	uint64_t want = (uint64_t)(p * (double)s->outcomes[OUTCOME_OK]);
	uint64_t seen = 0;

	for (size_t i = 0; i < ARRAY_SIZE(s->latency_us); i++) {
		seen += s->latency_us[i];
		if (seen > want)
			return UINT64_C(1) << i;
	}
	return s->latency_max_us;
}

static void backends_print(const struct state *s)
{
	char text[IP_ENDPOINT_TEXT_MAX];

	(void)printf("\"backends\": {");
	for (size_t i = 0; i < s->n_backends; i++) {
		const struct backend *b = &s->backends[i];

		(void)printf("%s\"%s\": {\"n\": %llu, \"first_ns\": %llu, \"last_ns\": %llu}",
			     i ? ", " : "", ip_endpoint_text(&b->addr, b->port, text),
			     (unsigned long long)b->n, (unsigned long long)b->first_ns,
			     (unsigned long long)b->last_ns);
	}
	(void)printf("}, \"peers\": [");
	for (size_t i = 0; i < s->n_peers; i++) {
		char addr[IP_TEXT_MAX];

		(void)printf("%s\"%s\"", i ? ", " : "", ip_addr_text(&s->peers[i], addr));
	}
	(void)printf("]");
}

static void stat_print(void *arg)
{
	const struct state *s = arg;
	uint64_t failed = 0;
	size_t seconds =
		MIN((now_ns() - s->loop.start_ns) / NSEC_PER_SEC + 1, (uint64_t)FLOW_SECONDS_MAX);

	(void)printf("{\"started\": %llu, \"answered\": %llu, ", (unsigned long long)s->started,
		     (unsigned long long)s->answered);
	for (size_t i = OUTCOME_OK; i < OUTCOME_N; i++) {
		(void)printf("\"%s\": %llu, ", outcome_text[i], (unsigned long long)s->outcomes[i]);
		failed += i == OUTCOME_OK ? 0 : s->outcomes[i];
	}
	(void)printf("\"failed\": %llu, \"first_failure\": \"%s\", \"stall_ms\": %llu, ",
		     (unsigned long long)failed, s->first_failure,
		     (unsigned long long)(s->loop.stall_ns / NSEC_PER_MSEC));
	(void)printf("\"p50_us\": %llu, \"p99_us\": %llu, \"max_us\": %llu, ",
		     (unsigned long long)latency_percentile(s, 0.5),
		     (unsigned long long)latency_percentile(s, 0.99),
		     (unsigned long long)s->latency_max_us);
	backends_print(s);
	(void)printf(", \"per_second\": [");
	for (size_t i = 0; i < seconds; i++)
		(void)printf("%s[%u, %u]", i ? ", " : "", s->seconds[i].ok, s->seconds[i].failed);
	(void)printf("]}\n");
}

/* ---- connections ---- */

static void slot_start(struct state *s)
{
	const struct flow_options *o = s->o;
	struct slot *c = &s->slots[s->free_slots[--s->n_free]];
	union flow_sa sa;
	socklen_t len;
	int on = 1;

	c->target = &o->targets[s->next_target++ % o->n_targets];
	c->start_ns = now_ns();
	c->is_requested = false;
	c->ask_ns = 0;
	c->resent = 0;
	c->left = c->target->type == SOCK_STREAM ? o->requests : 1;
	c->fd = flow_socket(c->target, o);
	s->started++;
	len = flow_sa_fill(&sa, &c->target->addr, c->target->port);
	if (c->target->type == SOCK_STREAM)
		(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(c->fd, &sa.sa, len) == -1 && errno != EINPROGRESS) {
		slot_fail(s, c, errno);
		return;
	}
	flow_loop_add(&s->loop, c->fd, EPOLLOUT, (uint64_t)(c - s->slots));
}

/* Too late, and packets were lost. */
static bool slot_is_lost(const struct state *s, const struct slot *c)
{
	uint64_t limit = s->o->timeout_ms * NSEC_PER_MSEC;
	uint64_t waited = now_ns() - c->start_ns;

	if (waited <= limit)
		return false;
	if (c->target->type != SOCK_STREAM)
		return waited > UDP_LIMITS * limit;
	return waited > HANGS_NS || flow_resent(c->target, c->fd) != c->resent;
}

static void slot_ask(struct state *s, struct slot *c)
{
	if (c->is_requested) { /* the time of the first request began with the connection */
		c->start_ns = now_ns();
		c->resent = flow_resent(c->target, c->fd);
	}
	c->is_requested = true;
	c->ask_ns = 0;
	if (send(c->fd, "?\n", 2, MSG_NOSIGNAL) != 2)
		slot_fail(s, c, errno);
}

static void slot_answered(struct state *s, struct slot *c, const struct flow_answer *a)
{
	if (slot_is_lost(s, c)) {
		slot_end(s, c, OUTCOME_TIMEOUT, 0);
		return;
	}
	backend_count(s, a);
	peer_remember(s, &a->peer);
	s->answered++;
	if (--c->left == 0 || a->is_last || s->loop.is_ending)
		slot_end(s, c, OUTCOME_OK, 0);
	else
		c->ask_ns = now_ns() + s->o->interval_ms * NSEC_PER_MSEC;
}

static void slot_ready(struct state *s, struct slot *c, uint32_t events)
{
	struct flow_answer a;
	char buf[FLOW_LINE_MAX];
	socklen_t len = sizeof(int);
	int error = 0;
	ssize_t n;

	if (c->fd == -1)
		return;
	if (events & (EPOLLERR | EPOLLHUP)) {
		(void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		slot_fail(s, c, error ? error : ECONNRESET);
		return;
	}
	if (!c->is_requested) {
		flow_loop_change(&s->loop, c->fd, EPOLLIN, (uint64_t)(c - s->slots));
		slot_ask(s, c);
		return;
	}
	n = recv(c->fd, buf, sizeof(buf) - 1, 0);
	if (n == -1 && errno == EAGAIN)
		return;
	if (n <= 0) {
		slot_fail(s, c, n == 0 ? ECONNRESET : errno);
		return;
	}
	buf[n] = '\0';
	if (!flow_answer_parse(&a, buf)) {
		slot_end(s, c, OUTCOME_WRONG, 0);
		return;
	}
	if (ip_addr_is_equal(&a.backend, &c->target->addr)) {
		slot_end(s, c, OUTCOME_UNTOUCHED, 0);
		return;
	}
	slot_answered(s, c, &a);
}

/* Handle connections above the time limit, and due requests. */
static void slots_check(struct state *s)
{
	uint64_t now = now_ns();

	for (size_t i = 0; i < s->o->concurrency; i++) {
		struct slot *c = &s->slots[i];

		if (c->fd == -1)
			continue;
		if (c->ask_ns == 0 && slot_is_lost(s, c))
			slot_end(s, c, OUTCOME_TIMEOUT, 0);
		else if (c->ask_ns != 0 && s->loop.is_ending)
			slot_end(s, c, OUTCOME_OK, 0);
		else if (c->ask_ns != 0 && now >= c->ask_ns)
			slot_ask(s, c);
	}
}

/* Number of connections to begin now. */
static size_t starts_due(const struct state *s)
{
	size_t due = s->n_free;

	if (s->loop.is_ending)
		return 0;
	if (s->o->count != 0)
		due = MIN(due, (size_t)(s->o->count - s->started));
	if (s->o->rate != 0) {
		uint64_t want = (now_ns() - s->loop.start_ns) * s->o->rate / NSEC_PER_SEC + 1;

		due = MIN(due, (size_t)(want > s->started ? want - s->started : 0));
	}
	return due;
}

int flow_new(const struct flow_options *o)
{
	static struct state s;
	struct epoll_event ev[256];
	uint64_t checked_ns = 0;

	s.o = o;
	for (size_t i = 0; i < o->concurrency; i++) {
		s.slots[i].fd = -1;
		s.free_slots[s.n_free++] = (uint32_t)(o->concurrency - 1 - i);
	}
	flow_loop_open(&s.loop, o, stat_print, &s);
	flow_loop_ready();
	for (;;) {
		size_t due = starts_due(&s);
		uint64_t now = now_ns();
		int n;

		while (due-- > 0)
			slot_start(&s);
		if (s.n_free == o->concurrency &&
		    (s.loop.is_ending || (o->count != 0 && s.started >= o->count)))
			break;
		n = flow_loop_wait(&s.loop, ev, ARRAY_SIZE(ev), now + NSEC_PER_MSEC);
		for (int i = 0; i < n; i++)
			slot_ready(&s, &s.slots[ev[i].data.u64], ev[i].events);
		if (now > checked_ns + 5 * NSEC_PER_MSEC) {
			slots_check(&s);
			checked_ns = now;
		}
	}
	stat_print(&s);
	return 0;
}
