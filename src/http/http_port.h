/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/http_port - an HTTP server on a TCP port that another process may occupy.
 *
 * http_port_open() logs a failure to bind once and retries every LISTEN_RETRY_S (HC-02),
 * or returns it, with is_hard_fail.
 */
#pragma once

#include "http/http.h"
#include "http/listen.h"

struct http_port;

struct http_port_config {
	const char *name; /* for the log: "health server" */
	struct listen_place at;
	bool is_hard_fail;
	struct http_config http;
};

MUST_USE int http_port_open(struct http_port **ret, struct event_base *base,
			    const struct http_port_config *config, struct err *err);
void http_port_close(struct http_port *p);
