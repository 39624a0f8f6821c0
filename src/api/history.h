/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/history - the last five minutes, second by second.
 *
 *     event of a source, step of the sync ──► history_note()
 *     GET /v1/history ──────────────────────► seconds with events
 *
 * There is no timer: seconds without events are absent. history_note() adds the changes of
 * the counters of sync and model since its last call to the current second.
 */
#pragma once

#include "state/context.h"

#define HISTORY_SECONDS 300

struct history;

/* `ctx` is borrowed. */
void history_open(struct history **ret, const struct serve_context *ctx);
void history_close(struct history *h);
/* Cheap; called after changes of the counters. */
void history_note(struct history *h, uint64_t now_ns);
