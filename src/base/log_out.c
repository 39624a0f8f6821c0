/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/log_out - a queue in front of standard error. */
#include "base/log_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char queue[LOG_OUT_QUEUE];
static size_t queue_at; /* bytes before are written */
static size_t queue_end;
static int own_fd = -1; /* standard error, opened again */

/*
 * `st` is the status of standard error, which may be another file than at the last call (dup2()).
 * In a forked child own_fd may be closed or reused: it is then replaced without close().
 */
static int own_fd_get(const struct stat *st)
{
	struct stat own;

	if (own_fd >= 0 && fstat(own_fd, &own) == 0 && own.st_dev == st->st_dev &&
	    own.st_ino == st->st_ino)
		return own_fd;
	own_fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return own_fd;
}

/* Like write(), without waiting. */
static ssize_t out_write(const char *data, size_t len)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct stat st;
	int fd;

	if (fstat(STDERR_FILENO, &st) < 0)
		return -1;
	if (S_ISSOCK(st.st_mode))
		return send(STDERR_FILENO, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return write(STDERR_FILENO, data, len);
	fd = own_fd_get(&st);
	if (fd >= 0)
		return write(fd, data, len);
	if (poll(&p, 1, 0) == 1)
		return write(STDERR_FILENO, data, len);
	errno = EAGAIN;
	return -1;
}

/* Number of bytes written of a line, or of the rest of a line. */
static size_t line_write(const char *line, size_t len)
{
	size_t at = 0;
	ssize_t n;

	do {
		n = out_write(line + at, len - at);
		if (n > 0)
			at += (size_t)n;
	} while (at < len && (n > 0 || (n < 0 && errno == EINTR)));
	return at;
}

bool log_out_flush(void)
{
	while (queue_at < queue_end) { /* line by line: lines of two processes do not mix */
		const char *line = queue + queue_at;
		const char *end = memchr(line, '\n', queue_end - queue_at);
		size_t len = end ? (size_t)(end - line) + 1 : queue_end - queue_at;
		size_t n = line_write(line, len);

		queue_at += n;
		if (n < len)
			return false;
	}
	queue_at = queue_end = 0;
	return true;
}

bool log_out_put(const char *line, size_t len)
{
	size_t n = log_out_flush() ? line_write(line, len) : 0;

	if (n == len)
		return true;
	if (queue_end - queue_at + len - n > sizeof(queue))
		return false;
	memmove(queue, queue + queue_at, queue_end - queue_at);
	queue_end -= queue_at;
	queue_at = 0;
	memcpy(queue + queue_end, line + n, len - n);
	queue_end += len - n;
	return true;
}

void log_out_drain(int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * NSEC_PER_MSEC;
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	while (!log_out_flush()) {
		uint64_t now = now_ns();

		if (errno != EAGAIN || now >= end ||
		    poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) != 1)
			return;
	}
}

bool log_out_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev;
	unsigned long long ino;
	struct stat st;

	return text != NULL && sscanf(text, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}
