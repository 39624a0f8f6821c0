/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/http_port - listen, and retry while that is not possible. */
#include "http/http_port.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/loop.h"

struct http_port {
	struct event_base *base;
	struct http_port_config config;
	struct http_server *http; /* NULL while it does not listen */
	struct event *retry;
	bool has_failed;
};

static void listen_or_retry(struct http_port *p, int r, const struct err *err)
{
	char text[IP_ENDPOINT_TEXT_MAX];
	const char *where = p->config.path;

	if (r < 0) {
		if (!p->has_failed)
			log_err(LOG_AREA_HTTP, "%s: %s; next attempt in %d s", p->config.name,
				err->text, LISTEN_RETRY_S);
		p->has_failed = true;
		event_after(p->retry, LISTEN_RETRY_S * NSEC_PER_SEC);
		return;
	}
	if (where == NULL)
		where = ip_endpoint_text(&p->config.at.addr, p->config.at.port, text);
	if (p->has_failed)
		log_notice(LOG_AREA_HTTP, "%s: recovered; listening on %s", p->config.name, where);
	else
		log_info(LOG_AREA_HTTP, "%s: listening on %s", p->config.name, where);
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
	struct http_port *p = xcalloc(1, sizeof(*p));
	int r;

	p->base = base;
	p->config = *config;
	p->retry = xtimer_new(base, on_retry, p);
	r = listen_now(p, err);
	if (r < 0 && config->is_hard_fail) {
		http_port_close(p);
		return err_wrap(err, r, "%s", config->name);
	}
	listen_or_retry(p, r, err);
	*ret = p;
	return 0;
}

void http_port_close(struct http_port *p)
{
	if (p == NULL)
		return;
	http_server_close(p->http);
	event_free(p->retry);
	free(p);
}
