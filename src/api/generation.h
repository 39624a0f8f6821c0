/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/generation - has anything changed that an answer of /v1 could tell?
 *
 * One number over all counters that move when objects, the kernel's state, health or
 * the source change. While it stays, so does every answer, but for ages, which the
 * reader can count on by himself. It costs no walk, so whoever looks at a vipd in
 * which nothing happens costs nothing; it differs from one start of vipd to the next.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

uint64_t serve_generation(const struct serve_context *ctx);

/*
 * Put the ETag of now into `reply`. True when the reader holds it already: `reply` is
 * complete then, with status 304.
 */
bool serve_unchanged(struct http_reply *reply, const struct serve_context *ctx,
		     const struct http_request *q);
