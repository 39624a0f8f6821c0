/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/peers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "source/kube/kube.h"

#define KEEPALIVE_PROBES 3

struct peer *peer_open(struct list *peers, int fd, size_t server)
{
	struct peer *p = xcalloc(1, sizeof(*p));

	p->fd = fd;
	p->server = server;
	list_add_tail(peers, &p->link);
	return p;
}

void peer_close(struct peer *p)
{
	list_del(&p->link);
	event_drop(p->event);
	free(p);
}

static void option_set(int fd, int level, int name, uint64_t value)
{
	int v = (int)MIN(value, (uint64_t)INT32_MAX);

	(void)setsockopt(fd, level, name, &v, sizeof(v));
}

/*
 * The first keepalive probe follows after half of `silence_ns`, the others within the other half.
 * TCP_USER_TIMEOUT limits unanswered probes and unanswered data.
 */
void peer_options_set(int fd, uint64_t silence_ns)
{
	uint64_t s = MAX(silence_ns / NSEC_PER_SEC, UINT64_C(2));

	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, s / 2);
	option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, MAX(s / 2 / KEEPALIVE_PROBES, UINT64_C(1)));
	option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	option_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ns / NSEC_PER_MSEC);
}

/* --- dead or quiet -------------------------------------------------------- */

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

enum peer_state peer_check(struct peer *p, const struct kube_timing *timing, uint64_t alive_ns,
			   uint64_t now_ns)
{
	p->silence_ns = MIN(silence_of(p->fd), now_ns - alive_ns);
	if (p->silence_ns < timing->quiet_ns) {
		p->probed_ns = 0;
		return PEER_ALIVE;
	}
	if (p->probed_ns == 0) {
		p->probed_ns = now_ns;
		return PEER_QUIET;
	}
	if (now_ns - p->probed_ns < timing->probe_ns)
		return PEER_ALIVE;
	p->probed_ns = now_ns;            /* not dead again at the next check */
	(void)shutdown(p->fd, SHUT_RDWR); /* libcurl reads EOF and ends all transfers */
	return PEER_DEAD;
}
