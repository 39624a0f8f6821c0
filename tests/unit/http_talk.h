/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/http_talk - a client on a Unix socket, in the thread of the server's loop. Neither
 * blocks: the client sends and reads what it can, then the loop runs one turn, and so on.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/str.h"

/* A test that hangs ends after this time. No behaviour depends on it. */
#define TALK_LIMIT_NS (60 * NSEC_PER_SEC)

struct talk {
	struct event_base *base;
	size_t turns;
};

static inline void talk_turn(struct talk *t)
{
	event_base_loop(t->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	t->turns++;
}

static inline int talk_connect(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	strcpy(addr.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Read available data. 1: open, 0: closed by the server. */
static inline int talk_read(int fd, struct str *out, size_t max)
{
	static char buf[65536];
	ssize_t n = read(fd, buf, MIN(sizeof(buf), max));

	if (n > 0)
		str_add(out, buf, (size_t)n);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Send `request`, read until the server closes. */
static inline void talk_all(struct talk *t, int fd, const char *request, size_t len,
			    struct str *out)
{
	uint64_t end = now_ns() + TALK_LIMIT_NS;
	size_t sent = 0;

	while (now_ns() < end) {
		ssize_t n = sent < len ? send(fd, request + sent, len - sent, MSG_NOSIGNAL) : 0;

		if (n > 0)
			sent += (size_t)n;
		talk_turn(t);
		if (!talk_read(fd, out, SIZE_MAX))
			return;
	}
	fail_msg("the answer does not end");
}

/*
 * Return the status of an answer and store its body, without chunk framing, in `body`; -1:
 * incomplete.
 */
static inline int talk_parse(const struct str *answer, struct str *body)
{
	const char *head_end = answer->text ? strstr(answer->text, "\r\n\r\n") : NULL;
	const char *p;
	const char *end = str_text(answer) + answer->len;

	if (head_end == NULL || strncmp(answer->text, "HTTP/1.1 ", 9) != 0)
		return -1;
	p = head_end + 4;
	if (strcasestr(answer->text, "Transfer-Encoding: chunked") == NULL ||
	    strcasestr(answer->text, "Transfer-Encoding: chunked") > head_end) {
		str_add(body, p, (size_t)(end - p));
		return atoi(answer->text + 9);
	}
	for (;;) {
		char *after;
		unsigned long n = strtoul(p, &after, 16);

		if (after == p || end - after < 2 || memcmp(after, "\r\n", 2) != 0)
			return -1;
		p = after + 2;
		if (n == 0)
			return end - p == 2 ? atoi(answer->text + 9) : -1;
		if ((size_t)(end - p) < n + 2)
			return -1;
		str_add(body, p, n);
		p += n + 2;
	}
}

/* Do one request; return the status, or -1. */
static inline int talk_get(struct talk *t, const char *path, const char *request, struct str *body)
{
	struct str answer = { 0 };
	int fd = talk_connect(path);
	int status;

	talk_all(t, fd, request, strlen(request), &answer);
	close(fd);
	str_clear(body);
	status = talk_parse(&answer, body);
	str_fini(&answer);
	return status;
}
