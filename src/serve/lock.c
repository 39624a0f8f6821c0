/* SPDX-License-Identifier: GPL-2.0-or-later */
/* serve/lock - bind a name; when it is taken, ask who has it. */
#include "serve/lock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

struct lock {
	int fd; /* -1: somebody who cannot be a vipd has the name */
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

/* 0: no vipd has it, go on. */
static int judge_holder(const struct sockaddr_un *addr, socklen_t len, struct err *err)
{
	struct ucred holder = { 0 };
	char who[64] = "a process of another pid namespace";

	if (holder_find(&holder, addr, len) < 0) /* a full backlog, or gone this very moment */
		return err_set(err, -EBUSY, "another vipd serves this network namespace");
	if (holder.pid > 0)
		(void)snprintf(who, sizeof(who), "process %d", (int)holder.pid);
	if (holder.uid != 0 && holder.uid != geteuid()) {
		log_warn(LOG_AREA_MAIN,
			 "the lock is held by %s of user %u, which is no vipd: going on without",
			 who, (unsigned int)holder.uid);
		return 0;
	}
	return err_set(err, -EBUSY, "another vipd serves this network namespace: %s", who);
}

int lock_take(struct lock **ret, struct err *err)
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
		r = judge_holder(&addr, len, err);
		if (r < 0)
			return r;
		close(l->fd);
		l->fd = -1;
	} else if (listen(l->fd, 1) < 0) {
		return err_errno(err, "lock");
	}
	*ret = TAKE(l);
	return 0;
}

void lock_release(struct lock *l)
{
	if (l == NULL)
		return;
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}
