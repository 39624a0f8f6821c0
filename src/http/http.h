/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/http - a small HTTP/1.1 server with bounded memory, time and use of the event loop.
 *
 * GET and HEAD (by configuration also PUT and POST, or any method), one request per
 * connection, no request bodies. The body of an answer is a buffer, or is produced in pieces
 * (struct http_body_ops) at the speed of the client. All connections together get
 * HTTP_TURN_NS of every turn of the loop.
 *
 * Limits: the head of a request has at most `head_max` bytes and must be complete `head_ms`
 * after the connection was accepted; the client must read the answer within `reply_ms`, and some of
 * it within each `stall_ms`. At `connections_max` a new connection replaces the oldest one without
 * a complete request; if all have one, further clients wait in the kernel's backlog. A client (an
 * IPv4 address, or a /64) has at most half of `connections_max`: its next connection replaces its
 * own oldest.
 *
 * Signals: http_server_open() ignores SIGPIPE.
 *
 * evhttp of libevent 2.1 is no alternative: its only timeout restarts with every byte, so that
 * a slow client holds a connection for hours; it does not limit connections; and it exits the
 * process (event_errx) on unexpected states of a peer.
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
	const char *name;
	const char *value;
};

/* Path and parameters are decoded: terminated UTF-8 without control characters. */
struct http_request {
	char *head; /* copy, divided into the texts below */
	char *path; /* begins with "/" */
	VEC(struct http_param) params;
	const char *host;          /* Host header; NULL: none */
	const char *if_none_match; /* If-None-Match header; NULL: none */
	bool is_head;              /* HEAD: answer without the body */
	bool is_write;             /* PUT or POST, where allowed */
	bool is_other;  /* another method, for the answer 405; only with HTTP_TAKES_WRITES */
	bool is_http10; /* no chunked encoding */
};

/*
 * Length of the head including the empty line at its end, 0 if incomplete. A bare LF ends a
 * line too (RFC 9112 section 2.2).
 */
size_t http_head_len(const char *data, size_t len);
/* Requests that a server accepts. */
enum http_takes {
	HTTP_TAKES_READS = 0, /* GET and HEAD */
	HTTP_TAKES_WRITES,    /* PUT and POST too, with arguments in the target */
	HTTP_TAKES_ANY,       /* any method and a body, which is discarded: for health probes */
};

/*
 * Parse a complete head. Returns 0, or the HTTP status of an invalid request (400, 405, 413,
 * 501, 505) with the reason in `err`. `ret` is initialised in any case.
 */
MUST_USE int http_request_parse(struct http_request *ret, const char *head, size_t len,
				enum http_takes takes, struct err *err);
void http_request_fini(struct http_request *q);
/* Return the first parameter `name`, or NULL. */
const char *http_request_param(const struct http_request *q, const char *name);

/* Result of more(): no data now; http_wake() follows. */
#define HTTP_BODY_WAIT 2

struct http_conn;

struct http_body_ops {
	/*
	 * Append the next piece to `out`. Returns 1 when there is more (a piece may be
	 * empty), 0 at the end, HTTP_BODY_WAIT, or -errno when the body cannot be
	 * completed: the client gets a truncated answer. Returns soon after `deadline_ns`
	 * (now_ns()).
	 */
	int (*more)(void *state, struct str *out, uint64_t deadline_ns);
	void (*close)(void *state);
	/*
	 * Not NULL: an endless body, which ends with the connection. It may return
	 * HTTP_BODY_WAIT; `reply_ms` limits the time in which the client reads nothing. `conn` is
	 * the argument of http_wake(), valid until close().
	 */
	void (*begin)(void *state, struct http_conn *conn);
};

/* A body that returned HTTP_BODY_WAIT has data. May be called at any time. */
void http_wake(struct http_conn *conn);

struct http_reply {
	int status;
	const char *type;   /* static text */
	struct str body;    /* the whole body; with `ops`, its first piece */
	struct str headers; /* further headers, each with CR LF */
	const char *allow;  /* methods, in the answer 405; NULL: GET and HEAD */
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
/* "health server" */
const char *http_class_text(enum http_class class);

enum http_limit {
	HTTP_LIMIT_ALL = 0,
	HTTP_LIMIT_CLIENT,
	HTTP_LIMIT_READING, /* the client did not read the answer in time */
	HTTP_LIMITS,
};

struct http_config {
	enum http_class class;
	size_t head_max;
	unsigned int head_ms;
	unsigned int reply_ms;
	unsigned int stall_ms; /* not of endless bodies; 0: reply_ms */
	unsigned int connections_max;
	enum http_takes takes;
	/* Fill the zeroed `reply`. Called once per request; must not block. */
	void (*handler)(void *arg, const struct http_request *q, struct http_reply *reply);
	void *arg;
};

/* Limits for servers that administrators use. */
#define HTTP_CONFIG_DEFAULT                                                      \
	.head_max = 8192, .head_ms = 5000, .reply_ms = 60000, .stall_ms = 10000, \
	.connections_max = 32

/* Health probes send their request at once. */
#define HTTP_PROBE_HEAD_MS 2000

struct http_server;

/* `listen_fd` listens and is non-blocking. Takes `listen_fd`, also on failure. */
MUST_USE int http_server_open(struct http_server **ret, struct event_base *base, int listen_fd,
			      const struct http_config *config, struct err *err);
void http_server_close(struct http_server *s);
DEFINE_AUTO(struct http_server *, http_server_close);
/*
 * Stop accepting connections, and answer open ones. After the last one is closed (or at
 * once, without any) the server is freed and `gone` is called. http_server_close() before
 * that does not call `gone`.
 */
void http_server_retire(struct http_server *s, void (*gone)(void *arg));
/* Connections of all servers of a class closed at a limit, since the start. */
uint64_t http_closed(enum http_class class, enum http_limit limit);
/* Number of open connections. */
size_t http_server_connections(const struct http_server *s);
