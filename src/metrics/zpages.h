/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/zpages - debugging pages of Kubernetes components, on the metrics server.
 *
 *   /configz       the configuration in force, JSON (CFG-47)
 *   /flagz         the flags in force, text (CFG-48)
 *   /statusz       version, start time, paths, text (CFG-48)
 *   /metrics/slis  results of the health checks as metrics (MET-28)
 *
 * No page contains secrets: files appear by name, and URLs without user information.
 */
#pragma once

#include "http/http.h"
#include "metrics/metrics.h"

/* False when the path is none of these; `reply` is unchanged. */
bool zpages_answer(const struct metrics_config *config, const struct http_request *q,
		   struct http_reply *reply);
