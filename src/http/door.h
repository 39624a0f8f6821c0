/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/door - an HTTP server on a TCP port that may be taken for a while.
 *
 * A place that cannot be had is logged once and tried again every LISTEN_RETRY_S, until
 * it is had (HC-02); or it is a failure of door_open(), with is_hard_fail.
 */
#pragma once

#include "http/http.h"
#include "http/listen.h"

struct door;

struct door_config {
	const char *what; /* for the log: "health server" */
	struct listen_place at;
	bool is_hard_fail;
	struct http_config http;
};

MUST_USE int door_open(struct door **ret, struct event_base *base, const struct door_config *config,
		       struct err *err);
void door_close(struct door *d);
