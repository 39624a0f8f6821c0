/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/lock - record locks on the lock file, their holder, and whether the holder exits. */
#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

#define PF_EXITING 0x4 /* linux/sched.h of the kernel; proc(5), stat, field 9 */

#define PROC_MAX 16384
#define RETRY_NS (2 * NSEC_PER_MSEC)
/* Time to wait for a running holder, and for one that exits. */
#define BUSY_WAIT_NS (200 * NSEC_PER_MSEC)
#define DEAD_WAIT_NS (5 * NSEC_PER_SEC)

#define OLD_NAME "vipd/lock" /* abstract socket of vipd 0.1, without the leading zero byte */

struct lock {
	int fd; /* -1: without effect */
};

/* --- the holder --- */

/* Empty if the process is gone. */
static void proc_read(struct str *ret, pid_t pid, const char *file)
{
	(void)!file_read(ret, str_local(32, "/proc/%d/%s", (int)pid, file), PROC_MAX, NULL);
}

/* A hexadecimal field, "\nName:", of /proc/PID/status; 0 without it. */
static uint64_t status_bits(const struct str *status, const char *field)
{
	const char *at = strstr(str_text(status), field);

	return at != NULL ? strtoull(at + strlen(field), NULL, 16) : 0;
}

/* In exit(), or killed: the kernel is releasing resources of the process. */
static bool is_exiting(pid_t pid)
{
	FINI(str_fini) struct str stat = { 0 };
	unsigned int flags = 0;
	const char *rest;

	proc_read(&stat, pid, "stat");
	rest = strrchr(str_text(&stat), ')'); /* state, parent, group, session, terminal, its
						 group, flags */
	return rest != NULL && sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
	       (flags & PF_EXITING) != 0;
}

/* The process exits, or has a pending signal that ends it. */
static bool is_ending(pid_t pid)
{
	static const uint64_t ends = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGTERM - 1) |
				     UINT64_C(1) << (SIGINT - 1);
	FINI(str_fini) struct str status = { 0 };

	proc_read(&status, pid, "status");
	return ((status_bits(&status, "\nSigPnd:") | status_bits(&status, "\nShdPnd:")) & ends) !=
		       0 ||
	       is_exiting(pid);
}

/* -EAGAIN: the holder exits; else -EBUSY. */
static int busy(pid_t pid, struct err *err)
{
	if (pid <= 0)
		return err_set(err, -EBUSY,
			       "another vipd serves this network namespace: a process of another "
			       "pid namespace");
	if (is_ending(pid))
		return err_set(err, -EAGAIN,
			       "another vipd serves this network namespace: process %d, which has "
			       "not exited yet after a signal",
			       (int)pid);
	return err_set(err, -EBUSY, "another vipd serves this network namespace: process %d",
		       (int)pid);
}

/*
 * vipd 0.1 listens on an abstract socket instead of the file. Any user can bind the name, so
 * only a listener of root or of the effective user counts. `*ret`: its pid, 0 when there is
 * none; unchanged when the backlog of the socket is full.
 */
static int old_holder_find(pid_t *ret, struct err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + sizeof(OLD_NAME);
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(cred);
	AUTO(close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_errno(err, "lock: socket");
	memcpy(addr.sun_path + 1, OLD_NAME, sizeof(OLD_NAME) - 1);
	if (connect(fd, (const struct sockaddr *)&addr, len) == 0) {
		(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size);
		if (cred.uid != 0 && cred.uid != geteuid())
			*ret = 0;
		else
			*ret = cred.pid > 0 ? cred.pid : -1; /* -1: another pid namespace */
	} else if (errno != EAGAIN) {
		*ret = 0;
	}
	return 0;
}

/* --- the file --- */

static int owner_check(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "lock: %s", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(err, -EPERM, "lock: %s: owned by uid %u; must be root's", path,
			       (unsigned int)st.st_uid);
	if (S_ISDIR(st.st_mode) ? (st.st_mode & (S_IWGRP | S_IWOTH)) != 0
				: !S_ISREG(st.st_mode) || (st.st_mode & 077) != 0)
		return err_set(err, -EPERM, "lock: %s: mode %04o; must be %s", path,
			       (unsigned int)(st.st_mode & 07777),
			       S_ISDIR(st.st_mode) ? "writable by its owner only"
						   : "that of a file, 0600");
	return 0;
}

/* Open the lock file. -EPERM: wrong owner or mode; -EROFS, -EACCES, ...: not available. */
static int file_open(const char *dir, struct err *err)
{
	const char *path = str_local(256, "%s/lock", dir);
	int dir_fd;
	int fd = -1;
	int r;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "lock: %s", dir);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "lock: %s", dir);
	r = owner_check(dir_fd, dir, err);
	if (r == 0) {
		fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
			    0600);
		r = fd < 0 ? err_errno(err, "lock: %s", path) : owner_check(fd, path, err);
	}
	close(dir_fd);
	if (r < 0 && fd >= 0)
		close(fd);
	return r < 0 ? r : fd;
}

static struct flock byte_at(off_t at)
{
	return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
}

static int attempt(int fd, off_t at, pid_t *old, struct err *err)
{
	struct flock lock = byte_at(at);
	struct flock process = byte_at(at + 1);
	int r = old_holder_find(old, err);

	if (r < 0 || *old != 0)
		return r < 0 ? r : busy(*old, err);
	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return fcntl(fd, F_SETLK, &process) == 0 ? 0 : err_errno(err, "lock");
	if (errno != EAGAIN && errno != EACCES)
		return err_errno(err, "lock");
	if (fcntl(fd, F_GETLK, &process) < 0)
		return err_errno(err, "lock");
	if (process.l_type == F_UNLCK)
		return err_set(
			err, -EAGAIN,
			"another vipd serves this network namespace and will exit, or a process "
			"that it started still holds its lock");
	return busy(process.l_pid, err);
}

/* Retry for a while: the holder may exit after a signal. */
static int wait_for(int fd, struct err *err)
{
	static const struct timespec pause = { .tv_nsec = RETRY_NS };
	uint64_t begin = now_ns();
	struct stat ns;
	pid_t old = 0;
	int r;

	if (stat("/proc/self/ns/net", &ns) < 0)
		return err_errno(err, "lock: /proc/self/ns/net");
	while ((r = attempt(fd, (off_t)ns.st_ino * 2, &old, err)) == -EBUSY || r == -EAGAIN) {
		if (now_ns() - begin > (r == -EBUSY ? BUSY_WAIT_NS : DEAD_WAIT_NS))
			return -EBUSY;
		(void)nanosleep(&pause, NULL);
	}
	return r;
}

/* Serve without the lock, which only detects a second vipd. */
static bool is_dispensable(int error)
{
	return error == EROFS || error == EACCES || error == ENOENT || error == ENOSPC ||
	       error == EDQUOT;
}

int lock_take(struct lock **ret, const char *dir, struct err *err)
{
	AUTO(lock_release) struct lock *l = xcalloc(1, sizeof(*l));
	int r = 0;

	l->fd = file_open(dir, err);
	if (is_dispensable(-l->fd)) {
		log_warn(LOG_AREA_MAIN,
			 "%s; continuing without the lock; a second vipd is not detected",
			 err->text);
		l->fd = -1;
	} else if (l->fd < 0) {
		r = l->fd;
		l->fd = -1;
	} else {
		r = wait_for(l->fd, err);
	}
	if (r == 0)
		*ret = TAKE(l);
	return r;
}

void lock_end(struct lock *l)
{
	struct flock process = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	/* The lock of the open file description stays. */
	if (l->fd >= 0)
		(void)fcntl(l->fd, F_SETLK, &process);
}

void lock_release(struct lock *l)
{
	if (l == NULL)
		return;
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}
