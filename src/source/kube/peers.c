/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/peers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEPALIVE_PROBES 3

struct peer {
	struct list link;
	int fd;
	ino_t inode;
	size_t server;
	uint64_t probed_ns; /* a probe was requested; 0: none since the last byte */
	uint64_t alive_ns;  /* a probe was answered, perhaps over another connection */
};

void peers_init(struct peers *p)
{
	*p = (struct peers){ .opened = 0 };
	list_init(&p->sockets);
}

static void peer_free(struct peer *c)
{
	list_del(&c->link);
	free(c);
}

void peers_fini(struct peers *p)
{
	list_for_each_safe (n, tmp, &p->sockets)
		peer_free(list_entry(n, struct peer, link));
}

/* --- sockets -------------------------------------------------------------- */

static void option_set(int fd, int level, int name, uint64_t value)
{
	int v = (int)MIN(value, (uint64_t)INT32_MAX);

	(void)setsockopt(fd, level, name, &v, sizeof(v));
}

/*
 * The first keepalive probe follows after half of `silence_ns`, the others within the other half.
 * TCP_USER_TIMEOUT limits unanswered probes and unanswered data.
 */
static void keepalive_set(int fd, uint64_t silence_ns)
{
	uint64_t s = MAX(silence_ns / NSEC_PER_SEC, UINT64_C(2));

	option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, s / 2);
	option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, MAX(s / 2 / KEEPALIVE_PROBES, UINT64_C(1)));
	option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	option_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ns / NSEC_PER_MSEC);
}

int peers_open(struct peers *p, int family, int type, int protocol, size_t server)
{
	struct peer *c;
	struct stat st;
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd == -1)
		return -1;
	if (fstat(fd, &st) == -1) {
		close(fd);
		return -1;
	}
	keepalive_set(fd, p->keepalive_ns);
	c = xcalloc(1, sizeof(*c));
	*c = (struct peer){ .fd = fd, .inode = st.st_ino, .server = server };
	list_add_tail(&p->sockets, &c->link);
	p->opened++;
	return fd;
}

int peers_close(struct peers *p, int fd)
{
	list_for_each_entry_safe (c, tmp, &p->sockets, struct peer, link) {
		if (c->fd == fd)
			peer_free(c);
	}
	return close(fd);
}

size_t peers_fds(const struct peers *p, int *fds, size_t n)
{
	size_t have = 0;

	list_for_each (node, &p->sockets)
		if (have < n)
			fds[have++] = list_entry(node, struct peer, link)->fd;
	return have;
}

/* Forget sockets that libcurl has closed without a callback. */
static void forget_closed(struct peers *p)
{
	list_for_each_entry_safe (c, tmp, &p->sockets, struct peer, link) {
		struct stat st;

		if (fstat(c->fd, &st) == -1 || st.st_ino != c->inode)
			peer_free(c);
	}
}

/* --- dead or quiet -------------------------------------------------------- */

void peers_alive(struct peers *p, size_t server, uint64_t now_ns)
{
	list_for_each_entry (c, &p->sockets, struct peer, link) {
		if (c->server == server)
			c->alive_ns = now_ns;
	}
}

/* Nanoseconds since the last byte was received; 0: not connected. */
static uint64_t silence_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == -1 ||
	    info.tcpi_state != TCP_ESTABLISHED)
		return 0;
	return info.tcpi_last_data_recv * NSEC_PER_MSEC;
}

static void check(struct peers *p, struct peer *c, uint64_t now, const struct peers_ops *ops,
		  void *arg)
{
	uint64_t alive = now - MIN(c->alive_ns, now);
	uint64_t silence = silence_of(c->fd);

	silence = MIN(silence, alive);
	if (silence < p->quiet_ns) {
		c->probed_ns = 0;
		return;
	}
	if (c->probed_ns == 0) {
		c->probed_ns = now;
		ops->probe(arg);
		return;
	}
	if (now - c->probed_ns < p->probe_ns)
		return;
	p->dead++;
	c->probed_ns = now;               /* not dead again at the next check */
	(void)shutdown(c->fd, SHUT_RDWR); /* libcurl reads EOF and ends all transfers */
	ops->dead(arg, c->server, silence);
}

void peers_check(struct peers *p, bool can_probe, uint64_t now_ns, const struct peers_ops *ops,
		 void *arg)
{
	forget_closed(p);
	if (!can_probe)
		return;
	list_for_each_safe (n, tmp, &p->sockets)
		check(p, list_entry(n, struct peer, link), now_ns, ops, arg);
}
