/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/http_port - listen, and retry while that is not possible. */
#include "http/http_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/loop.h"

#define BACKLOG 1024

struct http_port {
	struct event_base *base;
	struct http_port_config config;
	struct http_server *http; /* NULL while it does not listen */
	struct event *retry;
	char *failure; /* NULL: it listens */
};

static const struct http_port *ports[HTTP_CLASSES]; /* that are open */

/* Returns -errno. */
static int listen_on(int *ret, const struct ip_addr *on_addr, uint16_t port, int v6only)
{
	struct sockaddr_storage addr;
	socklen_t len = ip_sockaddr(&addr, on_addr, port);
	int on = 1;
	AUTO(close) int fd = socket(on_addr->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* Connections in TIME_WAIT of an earlier process do not block the port. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (on_addr->family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) < 0) ||
	    bind(fd, (const struct sockaddr *)&addr, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret = fd;
	fd = -1;
	return 0;
}

int listen_tcp(int *ret, const struct ip_endpoint *at, bool is_dual, struct err *err)
{
	static const struct ip_addr any_v6 = { .family = AF_INET6 };
	bool is_both = is_dual && at->addr.family == AF_INET && ip_addr_is_any(&at->addr);
	int r = listen_on(ret, is_both ? &any_v6 : &at->addr, at->port, !is_dual);

	if (is_both && r == -EAFNOSUPPORT) { /* a kernel without IPv6 */
		is_both = false;
		r = listen_on(ret, &at->addr, at->port, !is_dual);
	}
	if (r < 0)
		return err_set(err, r, "listen on %s%s: %s", ip_endpoint_str(&at->addr, at->port),
			       is_both ? " and [::]" : "", strerror(-r));
	return 0;
}

static void listen_or_retry(struct http_port *p, int r, const struct err *err)
{
	const char *name = http_class_text(p->config.http.class);
	const char *where =
		p->config.path ?: ip_endpoint_str(&p->config.at.addr, p->config.at.port);
	AUTO(free) char *failure = TAKE(p->failure);

	if (r < 0) {
		p->failure = xasprintf("%s: %s%s", name, err->text,
				       r == -EADDRINUSE ? ": another process has the port" : "");
		if (failure == NULL)
			log_err(LOG_AREA_HTTP, "%s; next attempt in %d s", p->failure,
				LISTEN_RETRY_S);
		event_after(p->retry, LISTEN_RETRY_S * NSEC_PER_SEC);
		return;
	}
	if (failure != NULL)
		log_notice(LOG_AREA_HTTP, "%s: recovered; listening on %s", name, where);
	else
		log_info(LOG_AREA_HTTP, "%s: listening on %s", name, where);
}

static int listen_now(struct http_port *p, struct err *err)
{
	const struct http_port_config *config = &p->config;
	int fd = -1;
	int r = config->path != NULL ? config->listen(&fd, config->http.arg, err)
				     : listen_tcp(&fd, &config->at, true, err);

	return r < 0 ? r : http_server_open(&p->http, p->base, fd, &config->http, err);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct http_port *p = arg;
	struct err err = { 0 };

	listen_or_retry(p, listen_now(p, &err), &err);
}

int http_port_open(struct http_port **ret, struct event_base *base,
		   const struct http_port_config *config, struct err *err)
{
	AUTO(http_port_close) struct http_port *p = xcalloc(1, sizeof(*p));
	int r;

	p->base = base;
	p->config = *config;
	p->retry = xtimer_new(base, on_retry, p);
	r = listen_now(p, err);
	if (r < 0 && config->is_hard_fail)
		return err_wrap(err, r, "%s", http_class_text(config->http.class));
	listen_or_retry(p, r, err);
	ports[config->http.class] = p;
	*ret = TAKE(p);
	return 0;
}

void http_port_close(struct http_port *p)
{
	if (p == NULL)
		return;
	if (ports[p->config.http.class] == p)
		ports[p->config.http.class] = NULL;
	http_server_close(p->http);
	event_free(p->retry);
	free(p->failure);
	free(p);
}

const char *http_port_failure(enum http_class class)
{
	return ports[class] != NULL ? ports[class]->failure : NULL;
}
