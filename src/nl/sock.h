/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/sock - one netlink socket: datagrams out, datagrams in, sequence numbers.
 *
 * Commands, dumps and notifications have separate sockets, so answers never mix.
 * The kernel handles a request inside send(), and its answers are queued when
 * send() returns. So a command socket never waits: read until -EAGAIN.
 *
 * Seam: all I/O uses a struct nl_io. nl_sock_open() opens a real socket;
 * nl_sock_open_io() takes a scripted kernel, so that tests can fail the k-th call,
 * count writes, or answer like a kernel of another version.
 *
 * Kernel: netlink(7); linux/netlink.h. NETLINK_CAP_ACK and NETLINK_EXT_ACK are
 *         on, so an error quotes only the header of the request, and has a text.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hist.h"

struct nlmsghdr;
struct nl_sock;

/* The socket functions that vipd uses. Results: bytes, or -errno. */
struct nl_io {
	/* One datagram of whole netlink messages to the kernel, all of it or -errno. */
	ssize_t (*send)(void *ctx, const void *data, size_t len);
	/*
	 * The next datagram from the kernel; never waits. -EAGAIN: none left;
	 * -ENOBUFS: some were lost, continue reading; -EMSGSIZE: it did not fit `size`.
	 */
	ssize_t (*recv)(void *ctx, void *data, size_t size);
	void (*close)(void *ctx); /* may be NULL */
	void *ctx;
};

/* Batches that were sent. */
struct nl_account {
	uint64_t n_commits; /* acknowledged */
	struct hist times;  /* rejected ones included */
};

/* Traffic since the socket was opened. */
struct nl_stats {
	uint64_t n_sends;           /* datagrams to the kernel */
	uint64_t n_recvs;           /* datagrams from it */
	struct nl_account *account; /* or NULL: batches are counted there, too; borrowed */
};

/* The largest datagram the kernel builds for a dump is 32 KiB; a quoted request may be longer. */
#define NL_RECV_MAX 65536

/*
 * `protocol` is NETLINK_NETFILTER, _ROUTE or _GENERIC; non-blocking, close-on-exec.
 * Only the kernel's datagrams are returned.
 */
MUST_USE int nl_sock_open(struct nl_sock **ret, int protocol, struct err *err);
/* `io` is copied; its ctx is borrowed until io->close, which nl_sock_close() calls. */
void nl_sock_open_io(struct nl_sock **ret, const struct nl_io *io);
void nl_sock_close(struct nl_sock *nl);
DEFINE_AUTO(struct nl_sock *, nl_sock_close);

/* Receive the notifications of `group` (RTNLGRP_*, NFNLGRP_*) too. Not on scripted sockets. */
MUST_USE int nl_sock_join(struct nl_sock *nl, unsigned int group, struct err *err);
/*
 * The kernel queues only datagrams that `prog` (linux/filter.h, `n` instructions) accepts
 * and drops the others. Not on scripted sockets.
 */
struct sock_filter;
MUST_USE int nl_sock_filter(struct nl_sock *nl, struct sock_filter *prog, uint16_t n,
			    struct err *err);
/*
 * Remove `watch` from `group`, which it has joined, while a batch is sent on `nl`. Without
 * listeners the kernel builds no notifications, so that `watch` does not make our own
 * changes more expensive. Borrowed.
 */
void nl_sock_mute(struct nl_sock *nl, struct nl_sock *watch, unsigned int group);
/* For nl/batch: the muted socket leaves its group (NETLINK_DROP_MEMBERSHIP), or joins it again. */
void nl_sock_muted_set(const struct nl_sock *nl, int option);
/* For the event loop; -1 on a scripted socket. */
int nl_sock_fd(const struct nl_sock *nl);
/*
 * The socket's netlink port id: usually the process id for the first socket of a process.
 * 0 on a scripted socket.
 */
uint32_t nl_sock_port(const struct nl_sock *nl);
/* Reserve `n` consecutive sequence numbers and return the first; never 0. */
uint32_t nl_sock_seq(struct nl_sock *nl, uint32_t n);
struct nl_stats *nl_sock_stats(struct nl_sock *nl);

/* Send one datagram of any size, raising SO_SNDBUF as needed. Returns 0 or -errno. */
MUST_USE int nl_sock_send(struct nl_sock *nl, const void *data, size_t len);
/* The next datagram; results as nl_io.recv. Datagrams of other processes are skipped. */
MUST_USE ssize_t nl_sock_recv(struct nl_sock *nl, void *data, size_t size);
/* NL_RECV_MAX bytes for nl_sock_recv(), which all users of the socket share. Owned by the socket.
 */
void *nl_sock_buffer(struct nl_sock *nl);
/* Drop all queued datagrams: before a request, after an interrupted one. */
void nl_sock_drain(struct nl_sock *nl);
