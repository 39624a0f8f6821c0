/* SPDX-License-Identifier: GPL-2.0-or-later */
/* serve/lock - bind a name; when it is taken, ask who has it. */
#include "serve/lock.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define PF_EXITING 0x4 /* linux/sched.h of the kernel; proc(5), stat, field 9 */

#define RETRY_NS (2 * NSEC_PER_MSEC)
/* How long to wait for one that lives, and for one that is ending or has left somebody. */
#define BUSY_WAIT_NS (200 * NSEC_PER_MSEC)
#define DEAD_WAIT_NS (5 * NSEC_PER_SEC)

struct lock {
	int fd;              /* -1: somebody who cannot be a vipd has the name */
	struct event *asked; /* NULL before lock_answer() */
};

static socklen_t address(struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path + 1, LOCK_NAME, sizeof(LOCK_NAME) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(LOCK_NAME));
}

static int open_socket(struct err *err)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? err_errno(err, "socket") : fd;
}

/* The credentials of the holder as it called listen(); pid 0: of another pid namespace. */
static int holder_find(struct ucred *ret, const struct sockaddr_un *addr, socklen_t len)
{
	socklen_t size = sizeof(*ret);
	struct err err;
	int fd = open_socket(&err);
	int r = 0;

	if (fd < 0)
		return fd;
	if (connect(fd, (const struct sockaddr *)addr, len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* A number of /proc/PID/status that is printed in base 16; 0 when it cannot be read. */
static uint64_t status_bits(pid_t pid, const char *name)
{
	size_t len = strlen(name);
	uint64_t bits = 0;
	char path[32];
	char line[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, name, len) == 0 && line[len] == ':')
			bits = strtoull(line + len + 1, NULL, 16);
	(void)fclose(f);
	return bits;
}

/* It is within exit(), or was killed: it gives things back one after the other. */
static bool is_exiting(pid_t pid)
{
	char path[32];
	char line[512] = "";
	const char *rest;
	unsigned int flags = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	if (fgets(line, sizeof(line), f) == NULL)
		line[0] = '\0';
	(void)fclose(f);
	rest = strrchr(line, ')'); /* state, parent, group, session, terminal, its group, flags */
	return rest != NULL && sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & PF_EXITING) != 0;
}

/* It was sent what ends a vipd, and had no time yet to obey: there may be no CPU for it. */
static bool is_told_to_end(pid_t pid)
{
	static const uint64_t ends = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGTERM - 1) |
				     UINT64_C(1) << (SIGINT - 1);

	return ((status_bits(pid, "SigPnd") | status_bits(pid, "ShdPnd")) & ends) != 0 ||
	       is_exiting(pid);
}

/*
 * Has the process that called listen() ended? Somebody it forked may have the socket still,
 * for the moment that it takes to close it.
 */
static bool is_dead(pid_t pid)
{
	struct pollfd p = { .events = POLLIN };
	bool is_over;

	if (pid <= 0)
		return false;
	p.fd = pidfd_open(pid, 0);
	if (p.fd < 0)
		return errno == ESRCH;
	is_over = poll(&p, 1, 0) == 1;
	close(p.fd);
	return is_over;
}

/* What is known of the one who has it; asked once, each question waits in its queue. */
struct holder {
	bool is_known;
	struct ucred cred;
};

/* 0: no vipd has it, go on; -EAGAIN: it ends, or has just ended. */
static int judge_holder(struct holder *h, const struct sockaddr_un *addr, socklen_t len,
			struct err *err)
{
	char who[64] = "a process of another pid namespace";

	if (!h->is_known && holder_find(&h->cred, addr, len) < 0) /* or gone this very moment */
		return err_set(err, -EBUSY, "another vipd serves this network namespace");
	h->is_known = true;
	if (h->cred.pid > 0)
		(void)snprintf(who, sizeof(who), "process %d", (int)h->cred.pid);
	if (is_dead(h->cred.pid) || is_told_to_end(h->cred.pid))
		return err_set(err, -EAGAIN,
			       "another vipd served this network namespace, %s, and is not yet "
			       "gone, or has left a process that holds on to it",
			       who);
	if (h->cred.uid != 0 && h->cred.uid != geteuid()) {
		log_warn(LOG_AREA_MAIN,
			 "the lock is held by %s of user %u, which is no vipd: going on without",
			 who, (unsigned int)h->cred.uid);
		return 0;
	}
	return err_set(err, -EBUSY, "another vipd serves this network namespace: %s", who);
}

static int attempt(struct lock **ret, struct holder *h, struct err *err)
{
	AUTO(lock_release) struct lock *l = xcalloc(1, sizeof(*l));
	struct sockaddr_un addr;
	socklen_t len = address(&addr);
	int r;

	l->fd = open_socket(err);
	if (l->fd < 0)
		return l->fd;
	if (bind(l->fd, (const struct sockaddr *)&addr, len) < 0) {
		if (errno != EADDRINUSE)
			return err_errno(err, "lock");
		r = judge_holder(h, &addr, len, err);
		if (r < 0)
			return r;
		close(l->fd);
		l->fd = -1;
	} else if (listen(l->fd, SOMAXCONN) < 0) {
		return err_errno(err, "lock");
	}
	*ret = TAKE(l);
	return 0;
}

/* A vipd that was told to end a moment ago, or killed, may be on its way out. */
int lock_take(struct lock **ret, struct err *err)
{
	static const struct timespec pause = { .tv_nsec = RETRY_NS };
	struct holder holder = { 0 };
	uint64_t begin = now_ns();
	int r;

	while ((r = attempt(ret, &holder, err)) == -EBUSY || r == -EAGAIN) {
		if (now_ns() - begin > (r == -EBUSY ? BUSY_WAIT_NS : DEAD_WAIT_NS))
			return -EBUSY;
		(void)nanosleep(&pause, NULL);
	}
	return r;
}

/* Who asked has its answer, with the connection: our credentials. */
static void on_asked(evutil_socket_t fd, short what, void *arg)
{
	int asker = accept4((int)fd, NULL, NULL, SOCK_CLOEXEC);

	(void)what;
	(void)arg;
	if (asker >= 0)
		close(asker);
}

int lock_answer(struct lock *l, struct event_base *base, struct err *err)
{
	if (l->fd < 0)
		return 0;
	l->asked = event_new(base, l->fd, EV_READ | EV_PERSIST, on_asked, l);
	if (l->asked == NULL || event_add(l->asked, NULL) < 0)
		return err_set(err, -ENOMEM, "lock: event");
	return 0;
}

void lock_release(struct lock *l)
{
	if (l == NULL)
		return;
	if (l->asked != NULL)
		event_free(l->asked);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}
