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

/* Copy the name of "name", "name:80", "[::1]:80" or "::1". False: too long. */
static bool host_name(char ret[static 256], const char *host)
{
	const char *colon = strrchr(host, ':');
	size_t len = strlen(host);

	if (host[0] == '[') {
		const char *end = strchr(host, ']');

		len = end ? (size_t)(end - host - 1) : 0;
		host++;
	} else if (colon != NULL && colon == strchr(host, ':')) {
		len = (size_t)(colon - host);
	}
	if (len > 255)
		return false;
	memcpy(ret, host, len);
	ret[len] = '\0';
	return true;
}

bool page_host_is_good(const struct serve_context *ctx, const char *host)
{
	const struct name *node = ctx->model->config.node_name;
	struct ip_addr addr;
	char name[256];

	if (host == NULL || !host_name(name, host))
		return false;
	return ip_addr_parse(&addr, name, NULL) == 0 || strcasecmp(name, "localhost") == 0 ||
	       (node != NULL && node->len > 0 && strcasecmp(name, node->text) == 0);
}

/* --- routes --- */

static const struct page_file *file_find(const char *path)
{
	const char *name = strcmp(path, "/") == 0 ? "index.html" : path + 1;

	for (size_t i = 0; i < page_n_files; i++)
		if (strcmp(page_files[i].name, name) == 0)
			return &page_files[i];
	return NULL;
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
