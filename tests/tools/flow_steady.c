/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow steady - long-lived connections that must never fail.
 *
 * Each flow sends a request, waits for the answer, pauses, and repeats; "stat" ends the pauses, so
 * that later answers show what happened before it. Failures: a broken
 * connection, a gap, a change of the backend, the source address or the source port. A broken
 * flow is not opened again: a failure stays visible.
 *
 * A gap is a late answer after packet loss: TCP sent the request again, or a datagram is never
 * answered. An answer that is late because a busy machine delays the backend is not a gap.
 */
#include "flow.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

struct flow {
	const struct flow_target *target;
	int fd; /* -1 = broken */
	bool is_waiting;
	bool is_known; /* `first` is set */
	struct flow_answer first;
	uint64_t asked_ns;
	uint32_t resent_at_ask; /* retransmissions before the request */
	uint64_t stall_at_ask_ns;
	uint64_t next_ns; /* time of the next request */
	uint64_t answers;
	uint64_t longest_ns;
	uint64_t gaps;
	uint64_t unanswered; /* datagrams among `gaps` that may still be answered */
	uint64_t moved;
	char broken[120]; /* reason; empty = not broken */
};

struct state {
	struct flow_loop loop;
	const struct flow_options *o;
	struct flow flows[FLOW_SLOTS_MAX];
	size_t n;
};

/* Age of the open request, without stalls of this process. */
static uint64_t flow_waited_ns(const struct state *s, const struct flow *f)
{
	uint64_t waited = now_ns() - f->asked_ns;
	uint64_t stalled = s->loop.stall_ns - f->stall_at_ask_ns;

	return waited > stalled ? waited - stalled : 0;
}

/* The answer is late after packet loss. */
static bool flow_is_gap(const struct state *s, const struct flow *f)
{
	return flow_waited_ns(s, f) > s->o->gap_ms * NSEC_PER_MSEC &&
	       (f->target->type != SOCK_STREAM ||
		flow_resent(f->target, f->fd) != f->resent_at_ask);
}

/* A gap that has not ended. */
static bool flow_is_open_gap(const struct state *s, const struct flow *f)
{
	return f->fd != -1 && f->is_waiting && flow_is_gap(s, f);
}

static void flow_print(const struct state *s, const struct flow *f, bool is_first)
{
	char text[IP_ENDPOINT_TEXT_MAX] = "";
	char peer[IP_ENDPOINT_TEXT_MAX] = "";

	if (f->is_known) {
		(void)ip_endpoint_text(&f->first.backend, f->first.backend_port, text);
		(void)ip_endpoint_text(&f->first.peer, f->first.peer_port, peer);
	}
	(void)printf("%s{\"to\": \"%s\", \"backend\": \"%s\", \"peer\": \"%s\", \"answers\": %llu, "
		     "\"longest_ms\": %.1f, \"gaps\": %llu, \"moved\": %llu, \"broken\": \"%s\"}",
		     is_first ? "" : ", ", f->target->text, text, peer,
		     (unsigned long long)f->answers, (double)f->longest_ns / 1e6,
		     (unsigned long long)f->gaps + flow_is_open_gap(s, f),
		     (unsigned long long)f->moved, f->broken);
}

static void state_print(const struct state *s)
{
	size_t bad = 0;

	(void)printf("{\"flows\": [");
	for (size_t i = 0; i < s->n; i++) {
		const struct flow *f = &s->flows[i];

		flow_print(s, f, i == 0);
		bad += f->broken[0] != '\0' || f->moved != 0 || f->gaps != 0 ||
		       flow_is_open_gap(s, f);
	}
	(void)printf("], \"n\": %zu, \"bad\": %zu, \"stall_ms\": %llu}\n", s->n, bad,
		     (unsigned long long)(s->loop.stall_ns / NSEC_PER_MSEC));
}

static void stat_print(void *arg)
{
	struct state *s = arg;

	state_print(s);
	for (size_t i = 0; i < s->n; i++)
		if (!s->flows[i].is_waiting)
			s->flows[i].next_ns = 0;
}

static void flow_break(const struct state *s, struct flow *f, const char *what, int error)
{
	(void)snprintf(f->broken, sizeof(f->broken), "%s: %s after %.1f s, %llu answers", what,
		       error ? strerror(error) : "closed by the peer",
		       (double)(now_ns() - s->loop.start_ns) / 1e9, (unsigned long long)f->answers);
	(void)close(f->fd);
	f->fd = -1;
}

static void flow_open(struct state *s, const struct flow_target *t)
{
	struct flow *f = &s->flows[s->n];
	union flow_sa sa;
	socklen_t len = flow_sa_fill(&sa, &t->addr, t->port);
	int on = 1;

	*f = (struct flow){ .target = t, .fd = flow_socket(t, s->o) };
	if (t->type == SOCK_STREAM)
		(void)setsockopt(f->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	f->asked_ns = now_ns();
	f->next_ns = UINT64_MAX;
	f->is_waiting = true; /* for the connection */
	if (connect(f->fd, &sa.sa, len) == -1 && errno != EINPROGRESS)
		flow_break(s, f, "connect", errno);
	else
		flow_loop_add(&s->loop, f->fd, EPOLLOUT, s->n);
	s->n++;
}

static void flow_ask(struct state *s, struct flow *f)
{
	f->is_waiting = true;
	f->next_ns = UINT64_MAX;
	f->asked_ns = now_ns();
	f->stall_at_ask_ns = s->loop.stall_ns;
	f->resent_at_ask = flow_resent(f->target, f->fd);
	if (send(f->fd, "?\n", 2, MSG_NOSIGNAL) != 2)
		flow_break(s, f, "send", errno);
}

static void flow_answered(struct state *s, struct flow *f, const char *line)
{
	struct flow_answer a;
	uint64_t waited = flow_waited_ns(s, f);

	if (!f->is_waiting && f->unanswered > 0) { /* late, not lost */
		f->unanswered--;
		f->gaps--;
		return;
	}
	if (f->target->type == SOCK_STREAM && flow_is_gap(s, f))
		f->gaps++;
	f->is_waiting = false;
	f->next_ns = now_ns() + s->o->interval_ms * NSEC_PER_MSEC;
	f->longest_ns = MAX(f->longest_ns, waited);
	f->answers++;
	if (!flow_answer_parse(&a, line)) {
		flow_break(s, f, "invalid answer", 0);
		return;
	}
	if (!f->is_known) {
		f->first = a;
		f->is_known = true;
	}
	if (!ip_addr_is_equal(&a.backend, &f->first.backend) ||
	    a.backend_port != f->first.backend_port || !ip_addr_is_equal(&a.peer, &f->first.peer) ||
	    a.peer_port != f->first.peer_port)
		f->moved++;
}

static void flow_ready(struct state *s, struct flow *f, uint32_t events)
{
	char buf[FLOW_LINE_MAX];
	socklen_t len = sizeof(int);
	int error = 0;
	ssize_t n;

	if (f->fd == -1)
		return;
	if (events & (EPOLLERR | EPOLLHUP)) {
		(void)getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		flow_break(s, f, f->answers ? "connection" : "connect", error);
		return;
	}
	if (events & EPOLLOUT) {
		flow_loop_change(&s->loop, f->fd, EPOLLIN, (uint64_t)(f - s->flows));
		flow_ask(s, f);
		return;
	}
	n = recv(f->fd, buf, sizeof(buf) - 1, 0);
	if (n == -1 && errno == EAGAIN)
		return;
	if (n <= 0) {
		flow_break(s, f, "receive", n == 0 ? 0 : errno);
		return;
	}
	buf[n] = '\0';
	flow_answered(s, f, buf);
}

/* Send due requests; returns the time of the next one. */
static uint64_t flows_turn(struct state *s)
{
	uint64_t now = now_ns();
	uint64_t next = now + 50 * NSEC_PER_MSEC;

	for (size_t i = 0; i < s->n; i++) {
		struct flow *f = &s->flows[i];

		if (f->fd == -1)
			continue;
		if (f->is_waiting) {
			f->longest_ns = MAX(f->longest_ns, flow_waited_ns(s, f));
			/* Half a minute without an answer: lost. */
			if (flow_waited_ns(s, f) > 30 * NSEC_PER_SEC) {
				f->gaps++;
				flow_break(s, f, "no answer", ETIMEDOUT);
			} else if (f->target->type == SOCK_DGRAM && flow_is_gap(s, f)) {
				f->gaps++; /* datagrams are not retransmitted */
				f->unanswered++;
				flow_ask(s, f);
			}
		} else if (f->next_ns <= now) {
			flow_ask(s, f);
		}
		next = MIN(next, f->next_ns);
	}
	return next;
}

int flow_steady(const struct flow_options *o)
{
	static struct state s;
	struct epoll_event ev[256];

	s.o = o;
	flow_loop_open(&s.loop, o, stat_print, &s);
	for (size_t t = 0; t < o->n_targets; t++) {
		for (size_t i = 0; i < o->concurrency && s.n < FLOW_SLOTS_MAX; i++)
			flow_open(&s, &o->targets[t]);
	}
	flow_loop_ready();
	while (!s.loop.is_ending) {
		uint64_t until = flows_turn(&s);
		int n = flow_loop_wait(&s.loop, ev, ARRAY_SIZE(ev), until);

		for (int i = 0; i < n; i++)
			flow_ready(&s, &s.flows[ev[i].data.u64], ev[i].events);
	}
	state_print(&s);
	return 0;
}
