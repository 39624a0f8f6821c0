/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/history - the last five minutes, second by second.
 *
 *     source brought news, sync made a step ──► history_note()
 *     GET /v1/history ────────────────────────► the seconds in which something happened
 *
 * There is no timer: a second in which nothing happens is not written down, and what
 * is not there was nothing. The differences of the sync's and the model's counters since
 * the last note belong to the second of the note.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

#define HISTORY_SECONDS 300

struct history;

/* `ctx` is borrowed. */
void history_open(struct history **ret, const struct serve_context *ctx);
void history_close(struct history *h);
/* Cheap; from the places where counters move. */
void history_note(struct history *h, uint64_t now_ns);

/* /v1/history */
void body_history(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q);
