/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/control - the control socket, and the function of each path. */
#include "api/control.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/http_port.h"

#define BACKLOG 64
#define SOCKET_MODE 0660
#define SUFFIX_MAX 16 /* ".<pid>" of the temporary name */

struct serve_control {
	const struct serve_context *ctx;
	struct http_port *port;
	char *path;
	dev_t dev; /* identity of the socket file that was made last */
	ino_t ino;
};

/* --- the socket --- */

/* 0 when `addr` does not exist, or is a socket without a listener. */
static int path_check(const struct sockaddr_un *addr, struct err *err)
{
	AUTO(close) int fd = -1;
	struct stat st;

	if (lstat(addr->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "%s", addr->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EEXIST, "%s exists and is not a socket", addr->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "socket");
	/* EAGAIN: full backlog of a listener */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN)
		return err_set(err, -EADDRINUSE, "another process answers on %s", addr->sun_path);
	return errno == ECONNREFUSED || errno == ENOENT ? 0 : err_errno(err, "%s", addr->sun_path);
}

static int folder_make(const char *path, struct err *err)
{
	AUTO(free) char *copy = xstrdup(path);
	const char *folder = dirname(copy);

	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "folder %s", folder);
	return 0;
}

/* Bind and listen under a temporary name, then rename. */
static int socket_place(int fd, struct serve_control *c, struct err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = c->path;
	struct stat st;

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.%d", path, getpid());
	(void)unlink(addr.sun_path); /* left by a killed process with this pid */
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return err_errno(err, "bind %s", addr.sun_path);
	if (chmod(addr.sun_path, SOCKET_MODE) < 0 || listen(fd, BACKLOG) < 0 ||
	    lstat(addr.sun_path, &st) < 0 || rename(addr.sun_path, path) < 0) {
		int r = err_errno(err, "%s", path);

		(void)unlink(addr.sun_path);
		return r;
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	return 0;
}

static int addr_check(struct sockaddr_un *addr, const char *path, struct err *err)
{
	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) + SUFFIX_MAX >= sizeof(addr->sun_path))
		return err_set(err, -ENAMETOOLONG, "%s: longer than %zu bytes", path,
			       sizeof(addr->sun_path) - SUFFIX_MAX - 1);
	strcpy(addr->sun_path, path);
	return path_check(addr, err);
}

static int socket_listen(int *ret, void *arg, struct err *err)
{
	struct serve_control *c = arg;
	struct sockaddr_un addr;
	AUTO(close) int fd = -1;
	int r = folder_make(c->path, err);

	if (r == 0)
		r = addr_check(&addr, c->path, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "socket");
	r = socket_place(fd, c, err);
	if (r < 0)
		return r;
	*ret = fd;
	fd = -1;
	return 0;
}

/* --- routes --- */

static const struct control_route routes[] = {
	{ "/v1/status", body_status, .is_public = true, .is_conditional = true },
	{ BODY_SERVICES, body_services, "namespace name q state limit after sort",
	  .is_public = true, .is_conditional = true },
	{ BODY_SERVICES "/NAMESPACE/NAME", body_service, .is_public = true },
	{ "/v1/trace", body_trace, "from to" },
	{ "/v1/rows", body_rows, "" },
	{ "/v1/counts", body_counts, "service", .is_public = true },
	{ "/v1/monitor", body_monitor, "service kind" },
	{ "/v1/history", body_history, .is_public = true, .is_conditional = true },
	{ "/v1/doctor", admin_doctor, "", .takes_writes = true, .is_public = true },
	{ "/v1/drains", admin_drains, .takes_writes = true },
	{ "/v1/ejections", admin_ejections, .takes_writes = true },
	{ "/v1/log", admin_log, "area level", .takes_writes = true },
	{ "/v1/dump", body_dump, "namespace name q state" },
};

const struct control_route *control_route_find(const char *path)
{
	return array_find(routes, ARRAY_SIZE(routes), r,
			  strcmp(path, r->path) == 0 || (r->answer == body_service &&
							 str_begins(path, BODY_SERVICES "/")));
}

void control_route_answer(const struct control_route *r, struct http_reply *reply,
			  const struct serve_context *ctx, const struct http_request *q)
{
	if (r->params != NULL && !body_params_check(reply, q, r->params))
		return;
	if (!r->is_conditional || !body_unchanged(reply, ctx, q))
		r->answer(reply, ctx, q);
}

static void not_found(struct http_reply *reply, const char *path)
{
	FINI(str_fini) struct str list = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		str_printf(&list, "%s%s", i > 0 ? ", " : "", routes[i].path);
	if (strncmp(path, "/v1/", 4) != 0)
		http_reply_error(reply, 404, "'%.128s': only version 1 (/v1/...) is supported",
				 path);
	else
		http_reply_error(reply, 404, "'%.128s': path not found; available: %s", path,
				 list.text);
}

static void method_rejected(struct http_reply *reply, const struct control_route *r,
			    const char *path)
{
	bool takes_writes = r != NULL && r->takes_writes;

	if (takes_writes)
		reply->allow = "GET, HEAD, PUT, POST";
	http_reply_error(reply, 405, "'%.128s': only GET%s", path,
			 takes_writes ? ", HEAD, PUT and POST" : " and HEAD");
}

static void route(void *arg, const struct http_request *q, struct http_reply *reply)
{
	const struct serve_control *c = arg;
	const struct control_route *r = control_route_find(q->path);

	if (q->is_other || (q->is_write && (r == NULL || !r->takes_writes)))
		method_rejected(reply, r, q->path);
	else if (r == NULL)
		not_found(reply, q->path);
	else
		control_route_answer(r, reply, c->ctx, q);
}

int serve_control_open(struct serve_control **ret, struct event_base *base,
		       const struct serve_context *ctx, const char *path, struct err *err)
{
	AUTO(serve_control_close) struct serve_control *c = xcalloc(1, sizeof(*c));
	struct http_port_config port = {
		.path = c->path = xstrdup(path),
		.listen = socket_listen,
		.http = { HTTP_CONFIG_DEFAULT, .takes = HTTP_TAKES_WRITES, .handler = route,
			  .arg = c },
	};
	struct sockaddr_un addr;
	int r = addr_check(&addr, path, err);

	c->ctx = ctx;
	/* Other errors are those of the file system, and may end. */
	if (r != -EADDRINUSE && r != -EEXIST && r != -ENAMETOOLONG)
		r = http_port_open(&c->port, base, &port, err);
	if (r < 0)
		return err_wrap(err, r, "control socket");
	*ret = TAKE(c);
	return 0;
}

void serve_control_close(struct serve_control *c)
{
	struct stat st;

	if (c == NULL)
		return;
	if (lstat(c->path, &st) == 0 && st.st_dev == c->dev && st.st_ino == c->ino)
		(void)unlink(c->path);
	http_port_close(c->port);
	free(c->path);
	free(c);
}
