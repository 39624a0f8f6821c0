/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/control - the control socket, for vipctl and tests.
 *
 * HTTP and JSON on a Unix socket, read-only except for log levels, node checks, drains and
 * ejections; see doc/control-api.md. The socket is bound under a temporary name and renamed to
 * `path`, so that it appears with mode 0660 and listening. A socket without a listener is replaced.
 */
#pragma once

#include "api/body.h"

struct event_base;
struct serve_control;

/* A path of the API. */
struct control_route {
	const char *path;
	body_answer *answer;
	const char *params;  /* separated by blanks; NULL: not checked here */
	bool takes_writes;   /* PUT and POST */
	bool is_public;      /* harmless: also on the status page */
	bool is_conditional; /* answers If-None-Match (body_unchanged()) */
};

/* NULL: no such path. */
const struct control_route *control_route_find(const char *path);
/* Check the parameters and If-None-Match, then answer. */
void control_route_answer(const struct control_route *r, struct http_reply *reply,
			  const struct serve_context *ctx, const struct http_request *q);

/*
 * `ctx` is borrowed. Creates the last folder of `path` if it is missing. -EADDRINUSE:
 * another process listens on `path`; -EEXIST: `path` is not a socket; -ENAMETOOLONG. Any other
 * error (-EACCES, -EROFS, -ENOSPC) is logged, and retried every LISTEN_RETRY_S.
 */
MUST_USE int serve_control_open(struct serve_control **ret, struct event_base *base,
				const struct serve_context *ctx, const char *path, struct err *err);
/* Removes the socket, unless another one has replaced it. Accepts NULL. */
void serve_control_close(struct serve_control *c);
DEFINE_AUTO(struct serve_control *, serve_control_close);
