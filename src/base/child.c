/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_FD 3

bool child_read(int fd, void *data, size_t len)
{
	uint8_t *at = data;

	while (len > 0) {
		ssize_t n = read(fd, at, len);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

bool child_write(int fd, const void *data, size_t len)
{
	const uint8_t *at = data;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

void child_become(const char *name)
{
	(void)prctl(PR_SET_NAME, name);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
}

static _Noreturn void child_main(const char *name, void (*run)(void *arg, int fd), void *arg,
				 int fd, pid_t parent)
{
	/* First close inherited files: the lock of a parent that is killed now (daemon/lock.h). */
	if (fd != CHILD_FD && dup2(fd, CHILD_FD) == -1)
		_exit(1);
	if (syscall(SYS_close_range, CHILD_FD + 1, ~0U, 0) == -1) /* musl has no function */
		_exit(1);
	child_become(name);
	if (getppid() != parent) /* the parent ended before child_become() */
		_exit(0);
	run(arg, CHILD_FD);
	_exit(0);
}

int child_start(struct child *c, const char *name, void (*run)(void *arg, int fd), void *arg,
		struct err *err)
{
	pid_t self = getpid();
	pid_t pid;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		return err_errno(err, "%s: socket pair", name);
	pid = fcntl(fds[0], F_SETFL, O_NONBLOCK) == -1 ? -1 : fork();
	if (pid == -1) {
		int r = err_errno(err, "%s: fork", name);

		close(fds[0]);
		close(fds[1]);
		return r;
	}
	if (pid == 0)
		child_main(name, run, arg, fds[1], self);
	close(fds[1]);
	*c = (struct child){ .pid = pid, .fd = fds[0] };
	return 0;
}

void child_stop(struct child *c)
{
	if (c->fd != -1)
		close(c->fd);
	c->fd = -1;
	if (c->pid > 0)
		(void)kill(c->pid, SIGKILL);
}

void child_reap(struct child *c)
{
	child_stop(c);
	while (c->pid > 0 && waitpid(c->pid, NULL, 0) == -1 && errno == EINTR)
		;
	c->pid = 0;
}
