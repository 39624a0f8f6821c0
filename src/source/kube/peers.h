/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/peers - sockets of the requests, and detection of dead connections.
 *
 * TCP detects a lost machine (keepalive, user timeout). A process that hangs behind a working
 * kernel is detected by a probe: peer_check() requests one after `quiet_ns` of silence and shuts
 * the connection when no byte follows within `probe_ns`. TCP_INFO has the time of the last byte
 * received.
 */
#pragma once

#include <event2/event.h>

#include "base/list.h"

struct kube_timing;

/* A socket from which libcurl expects events. */
struct peer {
	struct list link;
	int fd;
	size_t server;
	struct event *event;
	uint64_t probed_ns;  /* a probe was requested; 0: none since the last byte */
	uint64_t silence_ns; /* at the last check */
};

/* A socket of a connection to server number `server`. peer_close() does not close the socket. */
struct peer *peer_open(struct list *peers, int fd, size_t server);
void peer_close(struct peer *p);
/* TCP ends the connection after `silence_ns`; programs that are started do not inherit it. */
void peer_options_set(int fd, uint64_t silence_ns);

enum peer_state {
	PEER_ALIVE = 0,
	PEER_QUIET, /* send a request that the server answers */
	PEER_DEAD,  /* was shut */
};
/* `alive_ns`: the server has answered a probe, perhaps over another connection; 0: never. */
enum peer_state peer_check(struct peer *p, const struct kube_timing *timing, uint64_t alive_ns,
			   uint64_t now_ns);
