/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/path - both ends of the traffic of bench/path.py, in one process:
 *
 *     path CLIENT-NETNS SERVER-NETNS PROTO FROM TO SPREAD PORT FIRST-PORT KIND COUNT
 *
 * The client has the address FROM, the server accepts on port 8080 of all addresses. One process
 * with one thread makes the sockets of both: a packet's whole way, including the router between
 * the two, is then in the CPU time of this process, no process is woken up, and no time is spent in
 * a scheduler.
 *
 * Connection i goes to address TO + (i * 7919 mod SPREAD) and PORT, from the client's port
 * FIRST-PORT + i. KIND:
 *
 *     new      COUNT connections with one request each
 *     request  COUNT requests of one connection
 *     bulk     COUNT bytes over one connection, from the client to the server
 *
 * Prints a line of JSON: operations (bulk: bytes), CPU time and wall time in ns, and the median,
 * 99 % and 99.9 % of the durations of operations in ns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/ip.h"
#include "base/util.h"

#define SERVER_PORT 8080
#define STRIDE 7919   /* a prime: neighbours in time are not neighbours in memory */
#define DATAGRAM 1400 /* bulk */
#define DATAGRAMS 64  /* in flight, less than a receive buffer has room for */
#define WRITE_BYTES 65536

union sa {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct ends {
	int client_ns;
	int server_ns;
	int type; /* SOCK_STREAM or SOCK_DGRAM */
	struct ip_addr from;
	struct ip_addr to;
	uint32_t spread;
	uint16_t port;
	uint16_t first_port;
	int listener; /* UDP: the server's socket */
};

struct result {
	uint64_t *ns; /* of each operation */
	uint64_t n;
	uint64_t cpu_ns;
	uint64_t wall_ns;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "path: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static int netns_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		die(path);
	return fd;
}

static socklen_t sa_fill(union sa *sa, const struct ip_addr *addr, uint16_t port)
{
	memset(sa, 0, sizeof(*sa));
	if (addr->family == AF_INET6) {
		sa->v6.sin6_family = AF_INET6;
		sa->v6.sin6_port = htons(port);
		memcpy(&sa->v6.sin6_addr, addr->bytes, 16);
		return sizeof(sa->v6);
	}
	sa->v4.sin_family = AF_INET;
	sa->v4.sin_port = htons(port);
	memcpy(&sa->v4.sin_addr, addr->bytes, 4);
	return sizeof(sa->v4);
}

/* An address `n` after another one. */
static struct ip_addr address_after(const struct ip_addr *first, uint32_t n)
{
	size_t at = first->family == AF_INET6 ? 12 : 0;
	struct ip_addr a = *first;
	uint32_t low;

	memcpy(&low, a.bytes + at, 4);
	low = htonl(ntohl(low) + n);
	memcpy(a.bytes + at, &low, 4);
	return a;
}

/* A socket in a namespace, bound to an address and port. It waits at most 5 s. */
static int bound(const struct ends *e, int netns, const struct ip_addr *addr, uint16_t port)
{
	static const struct timeval limit = { .tv_sec = 5 };
	union sa sa;
	int on = 1;
	int fd;

	if (setns(netns, CLONE_NEWNET) == -1)
		die("setns");
	fd = socket(addr->family, e->type | SOCK_CLOEXEC, 0);
	if (fd == -1)
		die("socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	/* Addresses of the lab may be local by a route only. */
	if (addr->family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
	if (bind(fd, &sa.sa, sa_fill(&sa, addr, port)) == -1)
		die("bind");
	return fd;
}

static void listen_on(struct ends *e)
{
	const struct ip_addr any = { .family = e->to.family };
	int on = 1;

	e->listener = bound(e, e->server_ns, &any, SERVER_PORT);
	if (e->type == SOCK_STREAM && listen(e->listener, 16) == -1)
		die("listen");
	if (e->type == SOCK_DGRAM)
		(void)setsockopt(e->listener, any.family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP,
				 any.family == AF_INET6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on,
				 sizeof(on));
}

/* One connection: returns the client's socket; *server is accepted, or the UDP server's. */
static int connected(const struct ends *e, uint64_t i, int *server)
{
	static const struct linger reset = { .l_onoff = 1 };
	const struct ip_addr to = address_after(&e->to, (uint32_t)(i * STRIDE % e->spread));
	union sa sa;
	int fd = bound(e, e->client_ns, &e->from, (uint16_t)(e->first_port + i));

	if (connect(fd, &sa.sa, sa_fill(&sa, &to, e->port)) == -1)
		die("connect");
	*server = e->listener;
	if (e->type == SOCK_STREAM) {
		*server = accept(e->listener, NULL, NULL);
		if (*server == -1)
			die("accept");
		/* Neither end keeps TIME_WAIT. */
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	return fd;
}

static void disconnect(const struct ends *e, int fd, int server)
{
	(void)close(fd);
	if (server != e->listener)
		(void)close(server);
}

/* A datagram is answered from the address that it was sent to. */
static void answer_datagram(int server)
{
	char control[128];
	char byte;
	union sa peer;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = { .msg_name = &peer,
			    .msg_namelen = sizeof(peer),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c;

	if (recvmsg(server, &m, 0) != 1)
		die("request");
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_level == IPPROTO_IP)
		((struct in_pktinfo *)(void *)CMSG_DATA(c))->ipi_ifindex = 0;
	else if (c != NULL)
		((struct in6_pktinfo *)(void *)CMSG_DATA(c))->ipi6_ifindex = 0;
	if (sendmsg(server, &m, 0) != 1)
		die("answer");
}

static void request(const struct ends *e, int fd, int server)
{
	char byte = '?';

	if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
		die("send");
	if (e->type == SOCK_DGRAM)
		answer_datagram(server);
	else if (recv(server, &byte, 1, 0) != 1 || send(server, &byte, 1, MSG_NOSIGNAL) != 1)
		die("request");
	if (recv(fd, &byte, 1, 0) != 1)
		die("answer");
}

static void run_new(const struct ends *e, struct result *r)
{
	for (uint64_t i = 0; i < r->n; i++) {
		uint64_t begin = now_ns();
		int server;
		int fd = connected(e, i, &server);

		request(e, fd, server);
		r->ns[i] = now_ns() - begin;
		disconnect(e, fd, server);
	}
}

static void run_requests(const struct ends *e, struct result *r)
{
	int server;
	int fd = connected(e, 0, &server);

	request(e, fd, server);
	r->cpu_ns = cpu_ns();
	r->wall_ns = now_ns();
	for (uint64_t i = 0; i < r->n; i++) {
		uint64_t begin = now_ns();

		request(e, fd, server);
		r->ns[i] = now_ns() - begin;
	}
	disconnect(e, fd, server);
}

static void run_bulk(const struct ends *e, struct result *r)
{
	static char buf[WRITE_BYTES];
	size_t len = e->type == SOCK_STREAM ? sizeof(buf) : DATAGRAM;
	size_t burst = e->type == SOCK_STREAM ? SIZE_MAX : DATAGRAMS;
	uint64_t received = 0;
	int server;
	int fd = connected(e, 0, &server);

	request(e, fd, server);
	r->cpu_ns = cpu_ns();
	r->wall_ns = now_ns();
	while (received < r->n) {
		ssize_t n = 1;

		for (size_t i = 0; i < burst && n > 0; i++)
			n = send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		do {
			/* TCP: MSG_TRUNC discards, which excludes the copy. */
			n = recv(server, buf, sizeof(buf),
				 MSG_DONTWAIT | (e->type == SOCK_STREAM ? MSG_TRUNC : 0));
			received += n > 0 ? (uint64_t)n : 0;
		} while (n > 0);
		if (n == 0 || errno != EAGAIN)
			die("bulk");
	}
	r->n = received;
	disconnect(e, fd, server);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t quantile(const struct result *r, uint64_t per_mille, bool is_timed)
{
	return is_timed ? r->ns[MIN(r->n - 1, r->n * per_mille / 1000)] : 0;
}

static void ends_read(struct ends *e, char **argv)
{
	e->client_ns = netns_open(argv[1]);
	e->server_ns = netns_open(argv[2]);
	e->type = strcmp(argv[3], "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;
	errno = EINVAL;
	if (ip_addr_parse(&e->from, argv[4], NULL) < 0 || ip_addr_parse(&e->to, argv[5], NULL) < 0)
		die("address");
	e->spread = (uint32_t)strtoul(argv[6], NULL, 10);
	e->port = (uint16_t)strtoul(argv[7], NULL, 10);
	e->first_port = (uint16_t)strtoul(argv[8], NULL, 10);
	if (e->spread == 0 || e->port == 0 || e->first_port == 0)
		die("SPREAD, PORT or FIRST-PORT");
	listen_on(e);
}

int main(int argc, char **argv)
{
	struct result r = { 0 };
	struct ends e = { 0 };
	bool is_bulk;

	if (argc != 11) {
		(void)fprintf(stderr, "bench/path: the traffic program of bench/path.py\n");
		return 77;
	}
	ends_read(&e, argv);
	is_bulk = strcmp(argv[9], "bulk") == 0;
	r.n = strtoull(argv[10], NULL, 10);
	r.ns = calloc(is_bulk ? 1 : r.n, sizeof(*r.ns));
	if (r.n == 0 || r.ns == NULL)
		die("COUNT");
	r.cpu_ns = cpu_ns();
	r.wall_ns = now_ns();
	if (is_bulk)
		run_bulk(&e, &r);
	else if (strcmp(argv[9], "request") == 0)
		run_requests(&e, &r);
	else
		run_new(&e, &r);
	r.cpu_ns = cpu_ns() - r.cpu_ns;
	r.wall_ns = now_ns() - r.wall_ns;
	qsort(r.ns, is_bulk ? 0 : r.n, sizeof(*r.ns), compare);
	(void)printf("{\"n\": %llu, \"cpu_ns\": %llu, \"wall_ns\": %llu, \"p50\": %llu, "
		     "\"p99\": %llu, \"p999\": %llu}\n",
		     (unsigned long long)r.n, (unsigned long long)r.cpu_ns,
		     (unsigned long long)r.wall_ns, (unsigned long long)quantile(&r, 500, !is_bulk),
		     (unsigned long long)quantile(&r, 990, !is_bulk),
		     (unsigned long long)quantile(&r, 999, !is_bulk));
	free(r.ns);
	return 0;
}
