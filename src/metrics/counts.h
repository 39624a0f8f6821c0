/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/counts - the metrics that have lines for single services and backends.
 *
 * They stand behind the others in an answer of /metrics, when the plane counts at all
 * (--metrics-per-service). Nothing of them is kept: an answer walks over the services, asks
 * the kernel for COUNTS_ASK counters at a time, less than a millisecond, and writes them as the
 * reader takes them. A counter begins again at 0 when its element is made anew, which
 * Prometheus knows how to read: a frontend's when it was gone, a backend's also when it moves
 * to another slot of its pool.
 *
 * An answer has COUNTS_SERIES_MAX such lines at most. Which services they are is the same in
 * every answer of a process, as long as the services are; how many lines were left out is
 * a metric too.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

#define COUNTS_ASK 256
#define COUNTS_SERIES_MAX 50000

struct counts_config {
	const struct serve_context *ctx; /* borrowed */
	enum plane_counting counting;
	size_t series_max;
};

/* `head`, the text before them, is taken. */
void counts_reply(struct http_reply *reply, const struct counts_config *config, struct str *head);
