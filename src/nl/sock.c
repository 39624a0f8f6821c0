/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/sock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * Receive buffer. The kernel charges about 4.5 KiB for an answer to a keyed read and
 * 0.8 KiB for an acknowledgement; the default of 208 KiB holds 47 answers.
 */
#define RECV_BUFFER (8 * 1024 * 1024)
/* Part of sk_sndbuf that netlink_sendmsg() keeps for itself, rounded up. */
#define SEND_SLACK 64
/* Datagrams that one system call reads: an answer to a keyed read costs less than the call. */
#define AHEAD_N 16

/* Datagrams that were read together. Only the pages that they fill are ever used. */
struct ahead {
	unsigned int n;
	unsigned int i; /* the next one */
	struct mmsghdr m[AHEAD_N];
	struct iovec iov[AHEAD_N];
	struct sockaddr_nl from[AHEAD_N];
	uint8_t data[AHEAD_N - 1][NL_RECV_MAX];
};

/* What recv() may expect; see ahead_fill(). */
enum expected {
	EXPECT_ANY = 0, /* notifications, or pieces of a dump */
	EXPECT_ANSWERS, /* all are queued */
	EXPECT_NONE,    /* all were read */
};

struct nl_sock {
	struct nl_io io; /* of a real socket: the functions below, and the socket itself */
	uint32_t seq;
	int fd;                /* -1: scripted */
	struct nl_sock *muted; /* or NULL */
	unsigned int muted_group;
	struct nl_stats stats;
	void *buffer; /* NULL: not used yet */
	/* Of a real socket. */
	size_t sndbuf;     /* what setsockopt last achieved */
	bool is_listening; /* it has joined a group */
	enum expected expected;
	struct ahead *ahead;
};

static bool is_dump(const void *data, size_t len)
{
	const struct nlmsghdr *h = data;

	return len >= sizeof(*h) && (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
}

/* Raise the socket's limit for a datagram of `len` bytes. Returns 0 or -errno. */
static int room_make(struct nl_sock *nl, size_t len)
{
	int size;

	if (len + SEND_SLACK <= nl->sndbuf)
		return 0;
	if (len > INT32_MAX / 4)
		return -EMSGSIZE;
	size = (int)len + SEND_SLACK;
	/* Without CAP_NET_ADMIN the limit is net.core.wmem_max; send() then fails. */
	if (setsockopt(nl->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) == -1 &&
	    setsockopt(nl->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == -1)
		return -errno;
	nl->sndbuf = (size_t)size;
	return 0;
}

static ssize_t kernel_send(void *ctx, const void *data, size_t len)
{
	struct nl_sock *nl = ctx;
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	ssize_t n = room_make(nl, len);

	if (n < 0)
		return n;
	nl->expected = nl->is_listening || is_dump(data, len) ? EXPECT_ANY : EXPECT_ANSWERS;
	do
		n = sendto(nl->fd, data, len, 0, (const struct sockaddr *)&to, sizeof(to));
	while (n == -1 && errno == EINTR);
	return n == -1 ? -errno : n;
}

/*
 * Read a datagram into `data`, and those behind it, if they are answers, into ahead.data. Returns 0
 * or -errno. Answers to a request other than a dump are queued when send() returns, and none
 * follows: they are read together. A dump continues with each datagram that is read, which takes
 * its time, and the event loop waits for notifications: those are read one by one.
 */
static int ahead_fill(struct nl_sock *nl, void *data, size_t size)
{
	unsigned int n_max = nl->expected == EXPECT_ANY ? 1 : AHEAD_N;
	struct ahead *a = nl->ahead;
	int n;

	if (nl->expected == EXPECT_NONE)
		return -EAGAIN;
	a->i = a->n = 0;
	for (size_t i = 0; i < n_max; i++) {
		a->iov[i] = i == 0 ? (struct iovec){ data, size }
				   : (struct iovec){ a->data[i - 1], sizeof(a->data[0]) };
		a->m[i].msg_hdr = (struct msghdr){ .msg_name = &a->from[i],
						   .msg_namelen = sizeof(a->from[i]),
						   .msg_iov = &a->iov[i],
						   .msg_iovlen = 1 };
	}
	do
		n = recvmmsg(nl->fd, a->m, n_max, MSG_DONTWAIT, NULL);
	while (n == -1 && errno == EINTR);
	if (n == -1)
		return -errno;
	a->n = (unsigned int)n;
	if (a->n < n_max)
		nl->expected = EXPECT_NONE;
	return 0;
}

static ssize_t kernel_recv(void *ctx, void *data, size_t size)
{
	struct nl_sock *nl = ctx;
	struct ahead *a = nl->ahead;

	for (;;) {
		int r = a->i == a->n ? ahead_fill(nl, data, size) : 0;
		const struct mmsghdr *m = &a->m[a->i];

		if (r < 0)
			return r;
		/* Any process may send to our port id; only port id 0 is the kernel. */
		if (a->from[a->i++].nl_pid != 0)
			continue;
		if ((m->msg_hdr.msg_flags & MSG_TRUNC) || m->msg_len > size)
			return -EMSGSIZE;
		if (m->msg_hdr.msg_iov->iov_base != data)
			memcpy(data, m->msg_hdr.msg_iov->iov_base, m->msg_len);
		return m->msg_len;
	}
}

static void option_set(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

int nl_sock_open(struct nl_sock **ret, int protocol, struct err *err)
{
	struct sockaddr_nl self = { .nl_family = AF_NETLINK };
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	socklen_t len = sizeof(int);
	int sndbuf = 0;

	nl_sock_open_io(&nl, &(struct nl_io){ .send = kernel_send, .recv = kernel_recv });
	nl->io.ctx = nl;
	nl->ahead = xmalloc(sizeof(*nl->ahead));
	nl->ahead->i = nl->ahead->n = 0;
	nl->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	if (nl->fd == -1)
		return err_errno(err, "netlink socket %d", protocol);
	if (bind(nl->fd, (const struct sockaddr *)&self, sizeof(self)) == -1)
		return err_errno(err, "bind netlink socket %d", protocol);
	/* Best effort: without these an error is longer, or has no text. */
	option_set(nl->fd, SOL_NETLINK, NETLINK_CAP_ACK, 1);
	option_set(nl->fd, SOL_NETLINK, NETLINK_EXT_ACK, 1);
	option_set(nl->fd, SOL_SOCKET, SO_RCVBUF, RECV_BUFFER);
	option_set(nl->fd, SOL_SOCKET, SO_RCVBUFFORCE, RECV_BUFFER);
	if (getsockopt(nl->fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &len) == 0 && sndbuf > 0)
		nl->sndbuf = (size_t)sndbuf;
	*ret = TAKE(nl);
	return 0;
}

void nl_sock_open_io(struct nl_sock **ret, const struct nl_io *io)
{
	struct nl_sock *nl = xcalloc(1, sizeof(*nl));

	nl->io = *io;
	nl->fd = -1;
	*ret = nl;
}

void nl_sock_close(struct nl_sock *nl)
{
	if (nl == NULL)
		return;
	if (nl->io.close != NULL)
		nl->io.close(nl->io.ctx);
	if (nl->fd != -1)
		close(nl->fd);
	free(nl->ahead);
	free(nl->buffer);
	free(nl);
}

int nl_sock_join(struct nl_sock *nl, unsigned int group, struct err *err)
{
	if (nl->fd == -1)
		return err_set(err, -ENOTSUP, "join netlink group %u: scripted socket", group);
	nl->is_listening = true;
	nl->expected = EXPECT_ANY;
	if (setsockopt(nl->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) == -1)
		return err_errno(err, "join netlink group %u", group);
	return 0;
}

int nl_sock_filter(struct nl_sock *nl, struct sock_filter *prog, uint16_t n, struct err *err)
{
	struct sock_fprog f = { .len = n, .filter = prog };

	if (nl->fd == -1)
		return err_set(err, -ENOTSUP, "netlink filter: scripted socket");
	if (setsockopt(nl->fd, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f)) == -1)
		return err_errno(err, "netlink filter");
	return 0;
}

void nl_sock_mute(struct nl_sock *nl, struct nl_sock *watch, unsigned int group)
{
	nl->muted = watch;
	nl->muted_group = group;
}

void nl_sock_muted_set(const struct nl_sock *nl, int option)
{
	if (nl->muted != NULL)
		option_set(nl->muted->fd, SOL_NETLINK, option, (int)nl->muted_group);
}

int nl_sock_fd(const struct nl_sock *nl)
{
	return nl->fd;
}

uint32_t nl_sock_port(const struct nl_sock *nl)
{
	struct sockaddr_nl self = { 0 };
	socklen_t len = sizeof(self);

	if (nl->fd == -1 || getsockname(nl->fd, (struct sockaddr *)&self, &len) == -1)
		return 0;
	return self.nl_pid;
}

uint32_t nl_sock_seq(struct nl_sock *nl, uint32_t n)
{
	uint32_t first;

	/* 0 marks notifications: a range that would include it starts at 1. */
	if (nl->seq > UINT32_MAX - n)
		nl->seq = 0;
	first = nl->seq + 1;
	nl->seq += n;
	return first;
}

struct nl_stats *nl_sock_stats(struct nl_sock *nl)
{
	return &nl->stats;
}

int nl_sock_send(struct nl_sock *nl, const void *data, size_t len)
{
	ssize_t n = nl->io.send(nl->io.ctx, data, len);

	if (n < 0)
		return (int)n;
	nl->stats.n_sends++;
	/* A datagram is sent whole or not at all. */
	return (size_t)n == len ? 0 : -EMSGSIZE;
}

ssize_t nl_sock_recv(struct nl_sock *nl, void *data, size_t size)
{
	ssize_t n = nl->io.recv(nl->io.ctx, data, size);

	nl->stats.n_recvs += n >= 0;
	return n;
}

/* Not allocated for each request: malloc() is slow after each free() of 64 KiB. */
void *nl_sock_buffer(struct nl_sock *nl)
{
	if (nl->buffer == NULL)
		nl->buffer = xmalloc(NL_RECV_MAX);
	return nl->buffer;
}

void nl_sock_drain(struct nl_sock *nl)
{
	char buf[256]; /* the kernel drops the rest of a larger datagram */
	ssize_t n;

	do
		n = nl_sock_recv(nl, buf, sizeof(buf));
	while (n >= 0 || n == -EMSGSIZE || n == -ENOBUFS);
}
