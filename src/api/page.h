/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/page - the status page for browsers.
 *
 * Serves the files of src/api/page/, compiled in, and the harmless paths of the control
 * socket: status without options, lists, pages of services and their counters, history,
 * results of the node checks. Part of the metrics server, by default only if that is not
 * reachable from other hosts.
 *
 * Read-only. Scripts of other sites cannot read it: the Host must be an address, localhost
 * or the name of this node (against DNS rebinding), answers cannot be framed or read by
 * other origins, and the page runs only its own script file.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

/*
 * True if the Host header is an address, localhost or the name of this node. All paths of the
 * port reject other names: a foreign web page can send requests only with its own name.
 */
bool page_host_is_good(const struct serve_context *ctx, const char *host);
/* False: not a path of the page; `reply` is unchanged. The caller has checked the Host. */
bool page_answer(const struct serve_context *ctx, const struct http_request *q,
		 struct http_reply *reply);
