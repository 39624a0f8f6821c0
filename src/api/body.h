/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body - answers of the control socket, in pieces.
 *
 * Each function turns a request into a reply (http/http.h): a stream, or an error
 * that names the parameter. Between two pieces a stream keeps names, copies and objects that it
 * references, never other pointers into the model.
 */
#pragma once

#include "http/http.h"
#include "http/jsonw.h"
#include "model/walk.h"
#include "state/context.h"

#define BODY_SERVICES "/v1/services"

/* False for a parameter that is not in `names`, separated by blanks: `reply` has the error. */
bool body_params_check(struct http_reply *reply, const struct http_request *q, const char *names);
/*
 * The parameter "service", NAMESPACE/NAME: counted names, or NULL without the parameter. False:
 * `reply` has the error.
 */
bool body_service_param(const struct name **ns, const struct name **name, struct http_reply *reply,
			const struct http_request *q);
/*
 * Bits of the words of a list separated by commas: bit i is words[i]. Words before `first` are not
 * allowed. -EINVAL: `err` lists the allowed words.
 */
MUST_USE int body_words_parse(uint32_t *ret, const char *list, const char *const *words,
			      size_t first, size_t n, const char *key, struct err *err);
/*
 * Add an ETag to `reply`: a hash of the status, without the sums over all services, and of the
 * counters of the model's events. Answers with equal tags are equal, except for ages, which a
 * client can advance itself. It needs no walk over services, so polling an idle vipd is cheap. It
 * differs between starts of vipd. True if it is the If-None-Match of the request: `reply` is then
 * complete, with status 304.
 */
bool body_unchanged(struct http_reply *reply, const struct serve_context *ctx,
		    const struct http_request *q);
/* An answer that is written at once: an object that begins with "api". */
void body_begin(struct http_reply *reply, struct jsonw *w);
void body_end(struct http_reply *reply, struct jsonw *w);

/*
 * A list of services as a stream: an object with "api", the members of head(), "items", and the
 * members of tail(). It is the first member of the allocated state of a list, whose other members
 * begin as zeros.
 */
struct items {
	const struct serve_context *ctx;
	const struct items_ops *ops;
	struct page page;
	const struct walk_key *key; /* of the current service */
	struct jsonw w;
	bool is_found; /* the keys of `page` are complete */
};

/* All except `item` may be NULL. */
struct items_ops {
	void (*head)(struct items *b);
	void (*item)(struct items *b, const struct svc *svc);
	/* Continue the item that item() has begun. False: none is open. */
	bool (*more)(struct items *b, uint64_t deadline_ns);
	void (*tail)(struct items *b);
	void (*close)(struct items *b);
};

/* Takes `b`. */
void items_open(struct http_reply *reply, struct items *b, const struct serve_context *ctx,
		const struct items_ops *ops, const struct page_query *query);

/* Answers by path: control.c has the paths, doc/control-api.md parameters and members. */
typedef void body_answer(struct http_reply *reply, const struct serve_context *ctx,
			 const struct http_request *q);

body_answer body_status;
body_answer body_status_public; /* without the options */
body_answer body_services;
body_answer body_service; /* 404 when there is neither an object, a slice nor a row */
body_answer body_dump;    /* every service in full, without ages and times */
body_answer body_rows;    /* programmed state of every service, one text per frontend */
body_answer body_counts;  /* as far as the plane counts connections */
body_answer body_trace;
body_answer body_history;
body_answer body_monitor;
body_answer admin_log;
body_answer admin_doctor;    /* the last results; PUT starts another run */
body_answer admin_drains;    /* PUT drains an endpoint until undrain */
body_answer admin_ejections; /* those for failed handshakes included; PUT: until a restart */
