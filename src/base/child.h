/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/child - a process of our own for what the loop must not wait for, at the other end
 * of a socket pair.
 *
 *     child_start()            fork: early, while nothing large is held
 *     read, write c.fd         until it says the end of the stream
 *     child_stop()             does not wait for work in progress; or
 *     child_reap()             it has ended: wait for it
 *
 * It has none of our other files (a lock among them would outlive us), ends when we do,
 * and leaves the signals that end a daemon to the daemon.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct child {
	pid_t pid; /* 0: none */
	int fd;    /* non-blocking; -1: none */
};

#define CHILD_NONE ((struct child){ .fd = -1 })

/*
 * `run` is the process: it ends when `run` returns, fd is blocking. `name` (up to 15
 * characters) is what ps shows. -errno: there is none, *c is as before.
 */
MUST_USE int child_start(struct child *c, const char *name, void (*run)(void *arg, int fd),
			 void *arg, struct err *err);
/* Close, kill; the process is waited for by child_reap(). */
void child_stop(struct child *c);
/* The same, and wait. */
void child_reap(struct child *c);

/* All of it, on a blocking descriptor; false at the end of the stream or on an error. */
MUST_USE bool child_read(int fd, void *data, size_t len);
MUST_USE bool child_write(int fd, const void *data, size_t len);
