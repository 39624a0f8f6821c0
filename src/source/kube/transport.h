/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/transport - requests to one of several API servers, on the one event loop.
 *
 *     transport_open -> http_open ... head, data, data ... done -> transport_close
 *
 * libcurl's multi-socket interface drives the sockets. HTTP/2 is used where the
 * server offers it, and then one connection carries everything; compression is
 * never asked for. Certificates and tokens are fetched anew for each request
 * (kube/access.h), so a rotation needs nobody's help.
 *
 * Dead peers: a server whose machine is gone, or a middle box that forgot us,
 * says nothing, exactly as a quiet cluster does. Three things tell them apart,
 * all in well under 45 s: TCP's keepalive, and its user timeout for what we have
 * sent; and on HTTP/2, where a process may hang behind a kernel that answers, a
 * tiny request (GET /version) once a connection has been quiet for `quiet_ns`.
 * If not a single byte arrives within `probe_ns` after it, the connection is shut.
 * libcurl 7.88 cannot send HTTP/2's own PING from the multi interface.
 *
 * Several servers: the first is used until it cannot be reached, then the next,
 * and so on round; nobody goes back while it works. All requests move together.
 *
 * SIGPIPE must be ignored by the program.
 */
#pragma once

#include "source/kube/access.h"

struct transport;
struct http;

struct transport_config {
	const char *user_agent;
	uint64_t connect_ns; /* TCP and TLS, per address */
	uint64_t quiet_ns;
	uint64_t probe_ns;
	uint64_t keepalive_ns; /* TCP gives up after this much silence */
};

struct transport_stats {
	uint64_t requests;
	uint64_t connections;
	uint64_t failovers;
	uint64_t probes;
	uint64_t dead; /* connections that were given up because nothing came */
};

MUST_USE int transport_open(struct transport **ret, struct event_base *base, struct access *access,
			    const struct transport_config *config, struct err *err);
/* All requests must have been closed. Accepts NULL. */
void transport_close(struct transport *t);

/* The server in use, "https://10.0.0.1:6443". Borrowed. */
const char *transport_server(const struct transport *t);
size_t transport_n_servers(const struct transport *t);
/* Server number `server` cannot be reached, or cannot serve: go on with the next, if there is one.
 */
void transport_avoid(struct transport *t, size_t server);
bool transport_is_http2(const struct transport *t);
struct transport_stats transport_stats(const struct transport *t);

enum http_outcome {
	HTTP_ANSWERED = 1, /* the whole answer came, whatever its status says */
	HTTP_NO_ACCESS,    /* no credentials: nothing was sent */
	HTTP_UNREACHABLE,  /* no answer began */
	HTTP_CUT,          /* it stopped in the middle */
	HTTP_STOPPED,      /* an operation returned an error */
};

struct http_head {
	int status;
	const char *content_type; /* NULL: none. Borrowed for the call */
};

struct http_result {
	enum http_outcome outcome;
	int code;                 /* HTTP_STOPPED: what the operation returned */
	int status;               /* 0: none came */
	size_t server;            /* for transport_avoid() */
	uint64_t retry_after_s;   /* 0: the server asked for nothing */
	const char *content_type; /* as in http_head */
	const struct str *body;   /* of an answer that is not 200: its first 64 KiB */
	const char *why;          /* all outcomes but HTTP_ANSWERED: text for people */
};

struct http_ops {
	/* An answer with status 200 begins. Less than 0 ends it: HTTP_STOPPED. */
	int (*head)(void *arg, const struct http_head *head, struct err *err);
	/* Bytes of its body; the same. */
	int (*data)(void *arg, const void *data, size_t len, struct err *err);
	/* Called once, from the loop, never from http_open(). The request is closed by then. */
	void (*done)(void *arg, const struct http_result *result);
};

struct http_request {
	const char *path;   /* with the query; copied */
	const char *accept; /* copied */
	uint64_t head_ns;   /* the answer must have begun after this ... */
	uint64_t idle_ns;   /* ... and never pause for longer; 0: it may */
	uint64_t total_ns;  /* ... and be complete after this; 0: no limit */
	const struct http_ops *ops;
	void *arg;
};

void http_open(struct http **ret, struct transport *t, const struct http_request *request);
/* Ends it without a word; not from head() or data(). Accepts NULL. */
void http_close(struct http *h);
/* From now on the answer may pause that long, and go on without end. */
void http_set_idle(struct http *h, uint64_t idle_ns);
