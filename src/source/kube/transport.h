/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/transport - requests to one of several API servers, on the one event loop.
 *
 *     transport_open -> http_open ... head, data, data ... done -> transport_close
 *
 * libcurl's multi-socket interface drives the sockets. With HTTP/2 one connection carries all
 * requests. No compression. Each request reads certificates and tokens again (kube/access.h), so
 * rotated credentials take effect without a restart.
 *
 * Dead peers (kube/peers.h): a lost server or a middle box without state is as silent as a quiet
 * cluster. It is detected in less than 45 s; the probe of an HTTP/2 connection is GET /version,
 * because libcurl 7.88 cannot send a PING from the multi interface.
 *
 * Several servers: the first is used until it is unreachable, then the next, round robin. There is
 * no return to an earlier server while the current one works. All requests move together.
 *
 * The program must ignore SIGPIPE.
 */
#pragma once

#include "source/kube/access.h"
#include "source/kube/kube.h"

struct transport;
struct http;

/* `timing` is borrowed. */
MUST_USE int transport_open(struct transport **ret, struct event_base *base, struct access *access,
			    const struct kube_timing *timing, struct err *err);
/* All requests must have been closed. Accepts NULL. */
void transport_close(struct transport *t);
DEFINE_AUTO(struct transport *, transport_close);

size_t transport_n_servers(const struct transport *t);
/* Fail over from `server`, which is unreachable or failing, to the next server, if there is one. */
void transport_avoid(struct transport *t, size_t server);
/* The servers are others now: the last request of each connection closes it. */
void transport_leave(struct transport *t);
struct kube_status transport_status(const struct transport *t);

enum http_outcome {
	HTTP_ANSWERED = 1, /* complete answer, with any status */
	HTTP_NO_ACCESS,    /* no credentials: nothing was sent */
	HTTP_UNREACHABLE,  /* no answer began */
	HTTP_CUT,          /* the answer is incomplete */
	HTTP_STOPPED,      /* an operation returned an error */
};

#define RETRY_AFTER_MAX_S 300

/* Texts are borrowed for the call. */
struct http_result {
	enum http_outcome outcome;
	int code;                 /* HTTP_STOPPED: what the operation returned; else 0 */
	int status;               /* 0: none */
	size_t server;            /* for transport_avoid() */
	uint64_t retry_after_s;   /* Retry-After, at most RETRY_AFTER_MAX_S; 0: none */
	const char *content_type; /* NULL: none */
	const struct str *body;   /* first 64 KiB, unless `data` got them */
	const char *why;          /* cause of an outcome that is not HTTP_ANSWERED */
};

/* No answer, a lost connection, or 502 to 504: a load balancer may have no server. */
bool http_is_away(const struct http_result *result);
/* An incomplete or unreadable answer, or rejected credentials: another server may do better. */
bool http_is_useless(const struct http_result *result);
/* Retry-After in nanoseconds with jitter, because all clients get the same value; 0: none. */
uint64_t http_pause(const struct http_result *result);

struct http_ops {
	/*
	 * An answer with status 200 begins. A negative result ends the request: HTTP_STOPPED.
	 * NULL, as `data`: the body goes to the result.
	 */
	int (*head)(void *arg, const char *content_type, struct err *err);
	/* Bytes of the body. A negative result ends the request: HTTP_STOPPED. */
	int (*data)(void *arg, const void *data, size_t len, struct err *err);
	/* Called once, from the event loop; then the request is closed. */
	void (*done)(void *arg, const struct http_result *result);
};

struct http_request {
	const char *path;   /* with the query; copied */
	const char *accept; /* borrowed */
	const char *body;   /* JSON for POST, copied; NULL: GET */
	bool is_probe;      /* any answer will do: do not wait for a valid credential */
	uint64_t head_ns;   /* limit until the answer begins */
	uint64_t idle_ns;   /* limit of a pause in the answer; 0: no limit */
	uint64_t total_ns;  /* limit of the complete answer; 0: no limit */
	const struct http_ops *ops;
	void *arg;
};

void http_open(struct http **ret, struct transport *t, const struct http_request *request);
/* End the request without done(). Not to be called from head() or data(). Accepts NULL. */
void http_close(struct http *h);
/* Replace `idle_ns` and remove the limit `total_ns`. */
void http_set_idle(struct http *h, uint64_t idle_ns);
