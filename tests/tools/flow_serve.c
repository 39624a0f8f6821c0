/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flow serve - answer every line and every datagram with the addresses of both ends.
 *
 * Sockets are bound to the wildcard address. The source of an answer to a datagram is the
 * datagram's destination, so one process can be any number of backends.
 *
 * With --drain-ms it ends like a well-behaved pod: after SIGTERM it marks each answer as the last
 * one of its connection, closes its listening sockets after this time, and ends with the last
 * connection.
 */
#include "flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum sock_kind {
	SOCK_KIND_UNSET = 0,
	SOCK_KIND_LISTEN,
	SOCK_KIND_UDP,
	SOCK_KIND_CONN,
};

struct conn {
	uint8_t kind; /* enum sock_kind; SOCK_KIND_UNSET: free */
	uint16_t port;
	size_t n_answer;
	char answer[FLOW_LINE_MAX];
};

struct server {
	struct flow_loop loop;
	VEC(struct conn) conns; /* by descriptor */
	uint64_t answered;
	size_t n_open; /* connections */
	bool is_draining;
	uint64_t drain_ns; /* time to close listening sockets; 0 = closed */
};

static void stat_print(void *arg)
{
	const struct server *s = arg;

	(void)printf("{\"answered\": %llu}\n", (unsigned long long)s->answered);
}

static struct conn *conn_at(struct server *s, int fd)
{
	size_t want = (size_t)fd + 1;

	if (want > s->conns.n) {
		vec_reserve(&s->conns, want);
		memset(s->conns.v + s->conns.n, 0, (want - s->conns.n) * sizeof(*s->conns.v));
		vec_cut(&s->conns, want);
	}
	return &s->conns.v[fd];
}

static void listen_open(struct server *s, uint16_t port, int type)
{
	union flow_sa sa = { .v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	int fd = socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int off = 0;
	int on = 1;

	if (fd == -1)
		flow_die("socket: %s", strerror(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	/* For answers from addresses that are local by a route only. */
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
	if (bind(fd, &sa.sa, sizeof(sa.v6)) == -1)
		flow_die("bind to port %u: %s", port, strerror(errno));
	if (type == SOCK_STREAM && listen(fd, 4096) == -1)
		flow_die("listen on port %u: %s", port, strerror(errno));
	*conn_at(s, fd) =
		(struct conn){ .kind = type == SOCK_STREAM ? SOCK_KIND_LISTEN : SOCK_KIND_UDP,
			       .port = port };
	flow_loop_add(&s->loop, fd, EPOLLIN, (uint64_t)fd);
}

static size_t answer_text(char buf[static FLOW_LINE_MAX], const struct ip_addr *local,
			  uint16_t local_port, const union flow_sa *peer)
{
	char a[IP_TEXT_MAX];
	char b[IP_TEXT_MAX];
	struct ip_addr addr;
	uint16_t port;

	flow_sa_read(peer, &addr, &port);
	return (size_t)snprintf(buf, FLOW_LINE_MAX, "%s %u %s %u\n", ip_addr_text(local, a),
				local_port, ip_addr_text(&addr, b), port);
}

static void conn_accept(struct server *s, int listener)
{
	for (int i = 0; i < 256; i++) {
		union flow_sa local;
		union flow_sa peer;
		socklen_t local_len = sizeof(local);
		socklen_t peer_len = sizeof(peer);
		struct ip_addr addr;
		struct conn *c;
		uint16_t port;
		int on = 1;
		int fd;

		fd = accept4(listener, &peer.sa, &peer_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd == -1)
			return;
		if (getsockname(fd, &local.sa, &local_len) == -1) {
			(void)close(fd);
			continue;
		}
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		flow_sa_read(&local, &addr, &port);
		c = conn_at(s, fd);
		*c = (struct conn){ .kind = SOCK_KIND_CONN };
		s->n_open++;
		c->n_answer = answer_text(c->answer, &addr, port, &peer);
		flow_loop_add(&s->loop, fd, EPOLLIN, (uint64_t)fd);
	}
}

static void conn_close(struct server *s, int fd)
{
	s->n_open -= s->conns.v[fd].kind == SOCK_KIND_CONN;
	s->conns.v[fd].kind = SOCK_KIND_UNSET;
	(void)close(fd);
}

static bool conn_answer(const struct server *s, const struct conn *c, int fd)
{
	char line[FLOW_LINE_MAX + 8];
	int n = snprintf(line, sizeof(line), "%.*s%s\n", (int)c->n_answer - 1, c->answer,
			 s->is_draining ? " close" : "");

	return send(fd, line, (size_t)n, MSG_NOSIGNAL) == n;
}

static void conn_read(struct server *s, int fd)
{
	const struct conn *c = &s->conns.v[fd];
	char buf[1024];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n == -1 && errno == EAGAIN)
		return;
	if (n <= 0) {
		conn_close(s, fd);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] != '\n')
			continue;
		/* The client does not read. */
		if (!conn_answer(s, c, fd)) {
			conn_close(s, fd);
			return;
		}
		s->answered++;
	}
}

static void datagrams_read(struct server *s, int fd)
{
	for (int i = 0; i < 64; i++) {
		char control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		char text[FLOW_LINE_MAX];
		char buf[256];
		union flow_sa peer;
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr m = { .msg_name = &peer,
				    .msg_namelen = sizeof(peer),
				    .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		union flow_sa local = { .v6 = { .sin6_family = AF_INET6 } };
		struct in6_pktinfo *info;
		struct ip_addr addr;
		struct cmsghdr *h;
		uint16_t port;

		if (recvmsg(fd, &m, 0) < 0)
			return;
		h = CMSG_FIRSTHDR(&m);
		if (h == NULL || h->cmsg_type != IPV6_PKTINFO)
			continue;
		info = (struct in6_pktinfo *)(void *)CMSG_DATA(h);
		info->ipi6_ifindex = 0; /* let routing choose the way back */
		local.v6.sin6_addr = info->ipi6_addr;
		flow_sa_read(&local, &addr, &port);
		iov.iov_base = text;
		iov.iov_len = answer_text(text, &addr, s->conns.v[fd].port, &peer);
		if (sendmsg(fd, &m, 0) > 0)
			s->answered++;
	}
}

/* SIGTERM: end at once, or drain. */
static bool is_still_draining(struct server *s, const struct flow_options *o)
{
	if (o->drain_ms == 0 || now_ns() >= s->loop.end_ns)
		return false;
	if (!s->is_draining) {
		s->is_draining = true;
		s->drain_ns = now_ns() + o->drain_ms * NSEC_PER_MSEC;
	}
	if (s->drain_ns != 0 && now_ns() >= s->drain_ns) {
		s->drain_ns = 0;
		for (size_t fd = 0; fd < s->conns.n; fd++)
			if (s->conns.v[fd].kind == SOCK_KIND_LISTEN ||
			    s->conns.v[fd].kind == SOCK_KIND_UDP)
				conn_close(s, (int)fd);
	}
	return s->drain_ns != 0 || s->n_open > 0;
}

/*
 * Real-time priority, if permitted: answer before other processes run. When vipd deletes the
 * conntrack entry of a removed endpoint, answers to queued datagrams are no longer translated: on
 * a busy machine dozens would be lost.
 */
static void run_at_once(void)
{
	struct sched_param p = { .sched_priority = 1 };

	(void)sched_setscheduler(0, SCHED_FIFO, &p);
}

int flow_serve(const struct flow_options *o)
{
	static struct server s;
	struct epoll_event ev[256];

	run_at_once();
	flow_loop_open(&s.loop, o, stat_print, &s);
	for (size_t i = 0; i < o->n_tcp_ports; i++)
		listen_open(&s, o->tcp_ports[i], SOCK_STREAM);
	for (size_t i = 0; i < o->n_udp_ports; i++)
		listen_open(&s, o->udp_ports[i], SOCK_DGRAM);
	flow_loop_ready();
	while (!s.loop.is_ending || is_still_draining(&s, o)) {
		int n = flow_loop_wait(&s.loop, ev, ARRAY_SIZE(ev),
				       s.is_draining ? now_ns() + 10 * NSEC_PER_MSEC : UINT64_MAX);

		for (int i = 0; i < n; i++) {
			int fd = (int)ev[i].data.u64;

			if (s.conns.v[fd].kind == SOCK_KIND_LISTEN)
				conn_accept(&s, fd);
			else if (s.conns.v[fd].kind == SOCK_KIND_UDP)
				datagrams_read(&s, fd);
			else if (s.conns.v[fd].kind == SOCK_KIND_CONN)
				conn_read(&s, fd);
		}
	}
	stat_print(&s);
	vec_fini(&s.conns);
	return 0;
}
