/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/peers - the sockets behind the requests, and whether anybody is at their other end.
 *
 * TCP finds out by itself about a machine that is gone (keepalive, user timeout).
 * A process that hangs behind a kernel is found by asking: peers_check() says when
 * to, and shuts the connection when nothing follows. What came in is asked of the
 * kernel (TCP_INFO), so it counts whatever libcurl did with it.
 *
 * libcurl 7.88 tells the end of sockets that were connected, but not of attempts
 * that it drops; so a socket is known by its inode, not by its number alone.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"

struct peers {
	struct list sockets;
	uint64_t quiet_ns;     /* silence after which somebody should ask ... */
	uint64_t probe_ns;     /* ... and the time for an answer */
	uint64_t keepalive_ns; /* silence of TCP itself */
	uint64_t opened;       /* ever */
	uint64_t dead;         /* shut because nothing came */
};

void peers_init(struct peers *p);
/* Forgets the sockets; they are libcurl's to close. */
void peers_fini(struct peers *p);

/* A socket for a connection to server number `server`; -1 when there is none. */
int peers_open(struct peers *p, int family, int type, int protocol, size_t server);
/* Close one; the result of close(). */
int peers_close(struct peers *p, int fd);
/* The numbers of at most `n` sockets. */
size_t peers_fds(const struct peers *p, int *fds, size_t n);

/* `server` has answered something: all connections to it count as alive. */
void peers_vouch(struct peers *p, size_t server, uint64_t now_ns);

/* What became of one connection. */
struct peers_ops {
	void (*ask)(void *arg); /* nothing came for a while: send something that is answered */
	void (*dead)(void *arg, size_t server, uint64_t silence_ns); /* it has been shut */
};
/* Look at all of them; `is_asking` false: those that can be asked nothing are left alone. */
void peers_check(struct peers *p, bool is_asking, uint64_t now_ns, const struct peers_ops *ops,
		 void *arg);
