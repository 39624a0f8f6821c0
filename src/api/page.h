/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/page - the status page: what vipd knows, for people with a browser.
 *
 * Files of src/api/page/, compiled in, and the views of the control socket that are
 * harmless: status without options, lists, pages of services and their counters, history,
 * what the doctor found. It stands on the metrics server, and only when that is for this
 * host alone or somebody asked for it.
 *
 * Nothing can be changed here. Scripts of other sites are kept out: the name in the
 * request must be an address, localhost or this node's (a name of theirs that resolves
 * to this host is none of these), no answer may be framed or read from elsewhere, and the
 * page runs no script but its own file.
 */
#pragma once

#include "http/http.h"
#include "state/context.h"

struct page_server;

/* `ctx` is borrowed. */
void page_server_open(struct page_server **ret, const struct serve_context *ctx);
void page_server_close(struct page_server *p);
/*
 * Is the Host header an address, localhost or the name of this node? A web page that makes
 * a browser send requests here does so by a name of its own: nothing on the port answers it.
 */
bool page_host_is_good(const struct serve_context *ctx, const char *host);
/* False: the path is not the page's, and `reply` untouched. The Host was examined. */
bool page_answer(struct page_server *p, const struct http_request *q, struct http_reply *reply);
