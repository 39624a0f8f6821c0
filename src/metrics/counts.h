/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/counts - metrics of single services and endpoints (--metrics-per-service).
 *
 * They follow the metrics of the node in an answer of /metrics. vipd keeps no copy: an answer
 * walks over the services, reads COUNTS_BATCH counters at a time from the kernel (less than a
 * millisecond), and writes them as the client reads them. A counter restarts at 0 with its
 * element, as Prometheus expects: a frontend's when the frontend was removed, a backend's also
 * when the backend moves to another slot of its pool.
 *
 * An answer has at most COUNTS_SERIES_MAX series, of the same services in every answer while
 * the services do not change. vipd_omitted_series counts the rest.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

#define COUNTS_BATCH 256
#define COUNTS_SERIES_MAX 50000

/* The metrics follow what the body has already. */
void counts_reply(struct http_reply *reply, const struct serve_context *ctx, size_t series_max);
