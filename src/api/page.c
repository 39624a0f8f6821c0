/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/page - check of requests, and the function of each path. */
#include "api/page.h"

#include <string.h>
#include <strings.h>

#include "api/control.h"
#include "api/page_files.h"

/* No foreign content, frames or destinations; only the page's own script file. */
static const char safe_headers[] =
	"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
	"connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
	"frame-ancestors 'none'\r\n"
	"Cross-Origin-Opener-Policy: same-origin\r\n"
	"Cross-Origin-Resource-Policy: same-origin\r\n"
	"Referrer-Policy: no-referrer\r\n"
	"X-Frame-Options: DENY\r\n";

/* --- check of the Host header --- */

/* Is `host` this name: "name" or "name:80"? */
static bool is_name(const char *host, const char *name)
{
	size_t len = strlen(name);

	return strncasecmp(host, name, len) == 0 &&
	       (host[len] == '\0' || (host[len] == ':' && strchr(host + len + 1, ':') == NULL));
}

bool page_host_is_good(const struct serve_context *ctx, const char *host)
{
	const struct name *node = ctx->model->config.node_name;
	struct ip_addr addr;
	uint16_t port;

	if (host == NULL)
		return false;
	return ip_given_parse(&addr, &port, host) == 0 || is_name(host, "localhost") ||
	       (node != NULL && node->len > 0 && is_name(host, node->text));
}

/* --- routes --- */

static const struct page_file *file_find(const char *path)
{
	const char *name = strcmp(path, "/") == 0 ? "index.html" : path + 1;

	return array_find(page_files, page_n_files, f, strcmp(f->name, name) == 0);
}

/* GET and HEAD only: starts no checks of the node. */
static void view_answer(const struct control_route *view, const struct serve_context *ctx,
			const struct http_request *q, struct http_reply *reply)
{
	struct control_route route = *view;

	if (route.answer == body_status)
		route.answer = body_status_public;
	if (route.answer == body_counts && http_request_param(q, "service") == NULL)
		http_reply_error(reply, 400, "service: NAMESPACE/NAME is missing");
	else
		control_route_answer(&route, reply, ctx, q);
}

bool page_answer(const struct serve_context *ctx, const struct http_request *q,
		 struct http_reply *reply)
{
	const struct page_file *file = file_find(q->path);
	const struct control_route *view = control_route_find(q->path);

	if (file == NULL && (view == NULL || !view->is_public))
		return false;
	str_puts(&reply->headers, safe_headers);
	if (file != NULL) {
		reply->status = 200;
		reply->type = file->type;
		str_add(&reply->body, file->data, file->len);
	} else {
		view_answer(view, ctx, q, reply);
	}
	return true;
}
