/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/http - a small HTTP/1.1 server: bounded in size, in time, and in what it takes
 * from the loop.
 *
 * GET and HEAD (or PUT and POST too, or any method, where a server is told so), one request
 * a connection, no request bodies. A body of an answer is whole (http_reply_body) or made piece by
 * piece (struct http_body_ops) while the reader takes it: what nobody reads is not made. All
 * connections together get HTTP_TURN_NS of every turn of the loop.
 *
 * Bounds: the head of a request is at most `head_max` bytes and complete within
 * `head_ms` of the connection, however slowly it drips; the answer is taken within
 * `reply_ms`. At `connections_max` a new connection takes the place of the oldest one without
 * a complete request; while all have one, further ones wait in the kernel's backlog. A client
 * (an IPv4 address, or a /64) has half of that at most: its next connection takes the place
 * of its own oldest.
 *
 * Signals: opening a server sets SIGPIPE to be ignored.
 *
 * Why not evhttp of libevent 2.1, which the loop comes from: its only timeout starts
 * again with every byte, so a client that drips holds a connection for hours; it
 * cannot count connections; and it leaves the process (event_errx) where it meets a
 * state or a peer it did not expect.
 *
 * Source: RFC 9112 (HTTP/1.1), RFC 3986 (percent-encoding).
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct event_base;

#define HTTP_TURN_NS (2 * NSEC_PER_MSEC)
#define HTTP_PARAMS_MAX 32

struct http_param {
	char *name;
	char *value;
};

/* Decoded: terminated UTF-8 without control characters. */
struct http_request {
	char *path; /* begins with "/" */
	VEC(struct http_param) params;
	char *host;          /* whom the client believes to talk to; NULL: it did not say */
	char *if_none_match; /* the tags it holds; NULL: none */
	bool is_head;        /* HEAD: as GET, but nobody wants the body */
	bool is_write;       /* PUT or POST, where they are taken */
	bool is_http10;      /* no chunks */
};

/*
 * Bytes of `data` up to and including the empty line that ends the head, 0 while there
 * is none. A bare LF ends a line too (RFC 9112 section 2.2).
 */
size_t http_head_len(const char *data, size_t len);
/*
 * Parse a complete head. Returns 0, or the HTTP status that refuses it (400, 405, 413,
 * 501, 505) with `err` saying why. `ret` is initialised in any case.
 */
MUST_USE int http_request_parse(struct http_request *ret, const char *head, size_t len,
				struct err *err);
/* The same, but PUT and POST are taken as well: what they say stands in the target. */
MUST_USE int http_request_parse_write(struct http_request *ret, const char *head, size_t len,
				      struct err *err);
/* The same, but any method will do and a body may follow: what asks only whether we live. */
MUST_USE int http_request_parse_any(struct http_request *ret, const char *head, size_t len,
				    struct err *err);
void http_request_fini(struct http_request *q);
/* The first parameter of that name, or NULL. */
const char *http_request_param(const struct http_request *q, const char *name);

/* more(): nothing for now; http_wake() when there is. */
#define HTTP_BODY_WAIT 2

struct http_conn;

struct http_body_ops {
	/*
	 * Append the next piece to `out`. Returns 1 when there is more (also when nothing
	 * was appended: looking takes time as well), 0 at the end, -errno when the body
	 * cannot be finished: the reader then sees it cut. Returns soon after
	 * `deadline_ns`, in terms of now_ns().
	 */
	int (*more)(void *state, struct str *out, uint64_t deadline_ns);
	void (*close)(void *state);
	/*
	 * Not NULL: a body without an end, as long as the reader stays. It may wait, and
	 * `reply_ms` is for what the reader has not taken yet, not for the whole. Told the
	 * connection to wake, which is good until close().
	 */
	void (*begin)(void *state, struct http_conn *conn);
};

/* There is more of a body that waits. May be called at any time, also for nothing. */
void http_wake(struct http_conn *conn);

struct http_reply {
	int status;
	const char *type;   /* static text */
	struct str body;    /* the whole body, unless `ops` is set */
	struct str headers; /* further ones, each ended by CR LF */
	const struct http_body_ops *ops;
	void *state;
};

void http_reply_stream(struct http_reply *reply, const char *type, const struct http_body_ops *ops,
		       void *state);
/* {"error":{"status":...,"text":...}} */
void http_reply_error(struct http_reply *reply, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* For the log and the metrics. */
enum http_class {
	HTTP_CONTROL = 0,
	HTTP_HEALTH,
	HTTP_METRICS,
	HTTP_SERVICE_HEALTH,
	HTTP_CLASSES,
};

enum http_limit {
	HTTP_LIMIT_ALL = 0,
	HTTP_LIMIT_CLIENT,
	HTTP_LIMITS,
};

struct http_config {
	enum http_class class;
	size_t head_max;
	unsigned int head_ms;
	unsigned int reply_ms;
	unsigned int connections_max;
	bool takes_writes;     /* http_request_parse_write() */
	bool takes_any_method; /* http_request_parse_any(); what follows the head is not read */
	/* Fill `reply`, zeroed before. Called once a request; must not wait. */
	void (*handler)(void *arg, const struct http_request *q, struct http_reply *reply);
	void *arg;
};

/* Bounds for people and their tools on one host. */
#define HTTP_CONFIG_DEFAULT \
	.head_max = 8192, .head_ms = 5000, .reply_ms = 60000, .connections_max = 32

/* Probes send their request at once: what has sent none by then is no probe. */
#define HTTP_PROBE_HEAD_MS 2000

struct http_server;

/* `listen_fd` listens and does not block; it is taken over, also on failure. */
MUST_USE int http_server_open(struct http_server **ret, struct event_base *base, int listen_fd,
			      const struct http_config *config, struct err *err);
void http_server_close(struct http_server *s);
/*
 * No connection is accepted any more; those that are open are still answered. When the
 * last of them is gone, `gone` is called and the server is freed: in this call already if
 * there is none. http_server_close() before that is allowed, and calls nothing.
 */
void http_server_retire(struct http_server *s, void (*gone)(void *arg));
/* Connections of all servers of a class that were closed because of a limit, since the start. */
uint64_t http_closed(enum http_class class, enum http_limit limit);
/* Connections that are open now. */
size_t http_server_connections(const struct http_server *s);
