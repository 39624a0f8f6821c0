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
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"

/* Largest body that is kept in memory; a larger one is an error. */
#define CLIENT_BODY_MAX (256U << 20)

struct client {
	const char *path; /* of the socket */
	unsigned int timeout_ms;
};

struct answer {
	int status; /* 0: not read yet */
	/* Takes a piece of the body; a negative errno ends the exchange. */
	int (*sink)(void *arg, const char *data, size_t len);
	void *arg;
	struct str *error; /* takes the body of a status other than 200; NULL: the sink does */
};

/*
 * Read an answer. -EPROTO: `in` is no HTTP answer, or an incomplete one; -ETIMEDOUT; what the sink
 * returned; or another -errno of reading.
 */
MUST_USE int answer_read(struct answer *a, FILE *in, struct err *err);

/*
 * Request `target`; the body of an answer of status 200 goes to `sink` piece by piece.
 * Returns 0, or with vipd's error text in `err` -ENODATA for status 404, 409 and 503, and
 * -EINVAL for 400; what the sink returned; other -errno when there is no usable answer.
 */
MUST_USE int client_request(const struct client *c, const char *method, const char *target,
			    int (*sink)(void *arg, const char *data, size_t len), void *arg,
			    struct err *err);
/*
 * Like client_request(), into a JSON value; -EPROTONOSUPPORT when vipd speaks another version. The
 * method PUT changes something: logs, drains, checks of the node; else it is GET.
 */
MUST_USE int client_json(json_t **ret, const struct client *c, const char *method,
			 const char *target, struct err *err);
