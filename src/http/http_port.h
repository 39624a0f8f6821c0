/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * http/http_port - an HTTP server on a TCP port that another process may occupy, or on a socket
 * file that cannot always be made.
 *
 * http_port_open() logs a failure to listen once and retries every LISTEN_RETRY_S (HC-02),
 * or returns it, with is_hard_fail.
 */
#pragma once

#include "base/ip.h"
#include "http/http.h"

#define LISTEN_RETRY_S 5 /* HC-02: interval of attempts to bind a port in use */

/*
 * Open a non-blocking listening socket. With `is_dual` 0.0.0.0 and :: accept both families, as in
 * Go (0.0.0.0: IPv4 alone if the kernel has no IPv6), else their own. `err` has the address.
 */
MUST_USE int listen_tcp(int *ret, const struct ip_endpoint *at, bool is_dual, struct err *err);

struct http_port;

struct http_port_config {
	struct ip_endpoint at;
	/* Of a socket file, borrowed, instead of `at`: `listen` gets http.arg. */
	const char *path;
	int (*listen)(int *ret, void *arg, struct err *err);
	bool is_hard_fail;
	struct http_config http;
};

MUST_USE int http_port_open(struct http_port **ret, struct event_base *base,
			    const struct http_port_config *config, struct err *err);
void http_port_close(struct http_port *p);
DEFINE_AUTO(struct http_port *, http_port_close);
/* Why the open server of this class does not listen; NULL: it does, or none is open. Borrowed. */
const char *http_port_failure(enum http_class class);
