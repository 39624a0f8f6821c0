/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/zpages - what components of Kubernetes tell of themselves beside their metrics.
 *
 *   /configz       the configuration in force, JSON (CFG-47)
 *   /flagz         the flags in force, text (CFG-48)
 *   /statusz       version, since when, which paths, text (CFG-48)
 *   /metrics/slis  the health of the proxy as a metric (MET-28)
 *
 * For people and their tools on this host, like all on the metrics server. None tells a
 * secret: files are named and not read, and URLs lose the user they name.
 */
#pragma once

#include "health/health.h"
#include "http/http.h"

struct zpages_config {
	const struct serve_context *ctx; /* borrowed, like all here */
	const struct health *health;     /* may be NULL */
	int64_t started_wall_ns;         /* Unix ns */
	/* Append what /configz says, and the lines of /flagz. NULL: there are no such paths. */
	void (*config)(void *arg, struct str *out);
	void (*flags)(void *arg, struct str *out);
	void *arg;
};

/* False: the path is none of these, and `reply` untouched. */
bool zpages_answer(const struct zpages_config *config, const struct http_request *q,
		   struct http_reply *reply);
