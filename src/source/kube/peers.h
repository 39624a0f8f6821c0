/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/peers - sockets of the requests, and detection of dead connections.
 *
 * TCP detects a lost machine (keepalive, user timeout). A process that hangs behind a working
 * kernel is detected by a probe: peers_check() requests one after `quiet_ns` of silence and shuts
 * the connection when no byte follows. TCP_INFO has the time of the last byte received.
 *
 * libcurl 7.88 reports the close of connected sockets only, not of connection attempts that it
 * drops; so fd and inode together identify a socket.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"

struct peers {
	struct list sockets;
	uint64_t quiet_ns;     /* silence before a probe ... */
	uint64_t probe_ns;     /* ... and after it, until the connection is shut */
	uint64_t keepalive_ns; /* TCP keepalive and user timeout */
	uint64_t opened;       /* since start */
	uint64_t dead;         /* shut because of silence */
};

void peers_init(struct peers *p);
/* libcurl closes the sockets. */
void peers_fini(struct peers *p);

/* Open a socket for a connection to server number `server`; -1 and errno on failure. */
int peers_open(struct peers *p, int family, int type, int protocol, size_t server);
/* Close a socket; returns the result of close(). */
int peers_close(struct peers *p, int fd);
/* Store at most `n` file descriptors; returns their number. */
size_t peers_fds(const struct peers *p, int *fds, size_t n);

/* `server` has answered: all connections to it count as alive. */
void peers_alive(struct peers *p, size_t server, uint64_t now_ns);

struct peers_ops {
	void (*probe)(void *arg); /* send a request that the server answers */
	void (*dead)(void *arg, size_t server, uint64_t silence_ns); /* the connection was shut */
};
/* Check all connections. `can_probe` false (HTTP/1.1): only forget closed sockets. */
void peers_check(struct peers *p, bool can_probe, uint64_t now_ns, const struct peers_ops *ops,
		 void *arg);
