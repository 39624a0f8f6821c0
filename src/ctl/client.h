/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/client - one request to vipd and its answer.
 *
 * HTTP/1.1 on the control socket, one request a connection, blocking with a bound:
 * an answer that makes no progress for `timeout_ms` is an error, and so is one that
 * is incomplete or invalid (doc/control-api.md). Texts of errors are for people: what failed,
 * and what to try.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

/* Bodies that are kept in memory; what is larger is an error. */
#define CLIENT_BODY_MAX (256U << 20)

struct client {
	const char *path; /* of the socket */
	unsigned int timeout_ms;
};

/*
 * The pieces of an answer, fed as they come. Separate from the socket, so that tests
 * can cut it wherever they like.
 */
enum answer_state {
	ANSWER_HEAD = 0,
	ANSWER_SIZED,      /* `left` bytes of body */
	ANSWER_CHUNK_SIZE, /* the line before a chunk */
	ANSWER_CHUNK,      /* `left` bytes of it */
	ANSWER_CHUNK_END,  /* the empty line behind it */
	ANSWER_TRAILER,
	ANSWER_TO_CLOSE, /* until the other side closes */
	ANSWER_DONE,
};

struct answer {
	enum answer_state state;
	int status;
	uint64_t left;
	struct str line; /* head or chunk line, as far as it came */
	/* Takes the body; a negative errno ends the exchange. */
	int (*sink)(void *arg, const char *data, size_t len);
	void *arg;
};

/* -EPROTO: this is no HTTP answer; or what the sink returned. */
MUST_USE int answer_feed(struct answer *a, const char *data, size_t len, struct err *err);
/* The other side closed: 0 when the answer is whole, else -EPROTO. */
MUST_USE int answer_end(struct answer *a, struct err *err);
void answer_fini(struct answer *a);

/*
 * GET `target`; the body of an answer of status 200 goes to `sink` piece by piece.
 * Returns 0, or with vipd's own words in `err` -ENODATA for status 404 and -EINVAL for
 * 400; what the sink returned; other -errno when there is no usable answer.
 */
MUST_USE int client_get(const struct client *c, const char *target,
			int (*sink)(void *arg, const char *data, size_t len), void *arg,
			struct err *err);
/*
 * The same into a value; -EPROTONOSUPPORT when vipd speaks another version. The method PUT changes
 * something: logs, drains, checks of the node.
 */
MUST_USE int client_json(json_t **ret, const struct client *c, const char *method,
			 const char *target, struct err *err);

/* Append `text` percent-encoded (RFC 3986 section 2.3). */
void client_encode(struct str *out, const char *text);
