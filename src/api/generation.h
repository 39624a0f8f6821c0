/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/generation - ETag of the answers of /v1.
 *
 * A hash of the status, without the sums over all services, and of the counters of the model's
 * events. Answers with equal generations are equal, except for ages, which a client can advance
 * itself. It needs no walk over services, so polling an idle vipd is cheap. It differs
 * between starts of vipd.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

/*
 * Add the current ETag to `reply`. True if it is the If-None-Match of the request: `reply`
 * is then complete, with status 304.
 */
bool serve_unchanged(struct http_reply *reply, const struct serve_context *ctx,
		     const struct http_request *q);
