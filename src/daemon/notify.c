/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/notify - datagrams to the supervisor. */
#include "daemon/notify.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"

#define STATUS_MAX 512

struct notify {
	int fd; /* -1: no NOTIFY_SOCKET */
	struct sockaddr_un addr;
	socklen_t addr_len;
	struct event *watchdog; /* NULL: no WATCHDOG_USEC */
	struct event *late;
	bool is_ready;
	bool is_status_sent;
	char status[STATUS_MAX];
};

/* False: the supervisor has too many unread messages, and this one is lost. */
static bool message_send(const struct notify *n, const char *text)
{
	return n->fd < 0 ||
	       sendto(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
		      (const struct sockaddr *)&n->addr, n->addr_len) >= 0 ||
	       errno != EAGAIN;
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	(void)message_send(arg, "WATCHDOG=1");
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct notify *n = arg;

	if (!n->is_ready && n->fd >= 0)
		log_notice(LOG_AREA_MAIN,
			   "supervisor: vipd reported as started before the first sync: %s",
			   n->status);
	notify_ready(n);
}

/* `path`: a path, or "@name" of an abstract socket. */
static void address_set(struct notify *n, const char *path)
{
	size_t len = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(n->addr.sun_path)) {
		log_warn(LOG_AREA_MAIN,
			 "NOTIFY_SOCKET: '%.64s' is neither a path nor @NAME; the supervisor "
			 "gets no messages",
			 path);
		return;
	}
	n->addr.sun_family = AF_UNIX;
	memcpy(n->addr.sun_path, path, len);
	n->addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (path[0] == '@')
		n->addr.sun_path[0] = '\0';
	else
		n->addr_len++; /* the terminating zero byte */
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (n->fd < 0)
		log_warn(LOG_AREA_MAIN, "NOTIFY_SOCKET: %s; the supervisor gets no messages",
			 strerror(errno));
}

static void watchdog_set(struct notify *n, struct event_base *base)
{
	const char *pid = getenv("WATCHDOG_PID");
	const char *usec = getenv("WATCHDOG_USEC");
	uint64_t us = usec ? strtoull(usec, NULL, 10) / 2 : 0;

	if (us == 0 || n->fd < 0 || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
		return;
	n->watchdog = xevent_new(base, -1, EV_PERSIST, on_watchdog, n);
	event_after(n->watchdog, us * NSEC_PER_USEC);
}

void notify_open(struct notify **ret, struct event_base *base, uint64_t latest_ns)
{
	struct notify *n = xcalloc(1, sizeof(*n));
	const char *path = getenv("NOTIFY_SOCKET");

	n->fd = -1;
	if (path != NULL && *path != '\0')
		address_set(n, path);
	watchdog_set(n, base);
	n->late = xtimer_new(base, on_late, n);
	event_after(n->late, latest_ns);
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	*ret = n;
}

void notify_close(struct notify *n)
{
	if (n == NULL)
		return;
	(void)message_send(n, "STOPPING=1");
	event_drop(n->watchdog);
	event_drop(n->late);
	if (n->fd >= 0)
		close(n->fd);
	free(n);
}

void notify_ready(struct notify *n)
{
	if (n->is_ready)
		return;
	n->is_ready = message_send(n, "READY=1");
}

void notify_status(struct notify *n, const char *text)
{
	char message[STATUS_MAX + 8];

	if (n->fd < 0 ||
	    (n->is_status_sent && strncmp(n->status, text, sizeof(n->status) - 1) == 0))
		return;
	(void)snprintf(n->status, sizeof(n->status), "%s", text);
	(void)snprintf(message, sizeof(message), "STATUS=%s", n->status);
	n->is_status_sent = message_send(n, message);
}
