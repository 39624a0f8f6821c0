/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/child - helper process at the other end of a socket pair, for work that would block the
 * event loop.
 *
 *     child_start()            fork: early, while the process is small
 *     read, write c.fd         until the end of the stream
 *     child_stop()             does not wait for work in progress; or
 *     child_reap()             it has ended: wait for it
 *
 * The helper inherits no other files (an inherited lock would outlive the daemon), ends with its
 * parent, and ignores SIGTERM, SIGINT, SIGHUP and SIGPIPE.
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
 * The process runs `run` with a blocking `fd` and ends when `run` returns. `name` (up to 15
 * characters) is its name in ps. -errno: no process, *c is unchanged.
 */
MUST_USE int child_start(struct child *c, const char *name, void (*run)(void *arg, int fd),
			 void *arg, struct err *err);
/* Close the socket and kill the process without waiting. */
void child_stop(struct child *c);
/* child_stop(), then wait for the process. */
void child_reap(struct child *c);

/* In the process: set its name, end with its parent, ignore the signals named above. */
void child_become(const char *name);

/* Transfer `len` bytes on a blocking descriptor; false: end of the stream, or an error. */
MUST_USE bool child_read(int fd, void *data, size_t len);
MUST_USE bool child_write(int fd, const void *data, size_t len);
