/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/door - try, say so, try again. */
#include "http/door.h"

#include <errno.h>
#include <stdlib.h>

#include <event2/event.h>

#include "base/log.h"

struct door {
	struct event_base *base;
	struct door_config config;
	struct http_server *http; /* NULL while the place is taken */
	struct event *retry;
	bool is_trouble_told;
};

static int listen_now(struct door *d, struct err *err)
{
	int fd = -1;
	int r = listen_tcp(&fd, &d->config.at, true, err);

	return r < 0 ? r : http_server_open(&d->http, d->base, fd, &d->config.http, err);
}

static void try_again_later(struct door *d, const struct err *err)
{
	const struct timeval later = { .tv_sec = LISTEN_RETRY_S };

	if (!d->is_trouble_told)
		log_err(LOG_AREA_SERVE, "%s: %s: next try in %d s", d->config.what, err->text,
			LISTEN_RETRY_S);
	d->is_trouble_told = true;
	(void)event_add(d->retry, &later);
}

static void told(const struct door *d)
{
	char text[IP_ENDPOINT_TEXT_MAX];

	(void)ip_endpoint_text(&d->config.at.addr, d->config.at.port, text);
	if (d->is_trouble_told)
		log_notice(LOG_AREA_SERVE, "%s: listens on %s now", d->config.what, text);
	else
		log_info(LOG_AREA_SERVE, "%s: %s", d->config.what, text);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct door *d = arg;
	struct err err = { 0 };

	(void)fd;
	(void)what;
	if (listen_now(d, &err) < 0)
		try_again_later(d, &err);
	else
		told(d);
}

int door_open(struct door **ret, struct event_base *base, const struct door_config *config,
	      struct err *err)
{
	struct door *d = xcalloc(1, sizeof(*d));
	int r;

	d->base = base;
	d->config = *config;
	d->retry = evtimer_new(base, on_retry, d);
	if (d->retry == NULL) {
		free(d);
		return err_set(err, -ENOMEM, "%s: no memory for events", config->what);
	}
	r = listen_now(d, err);
	if (r < 0 && config->is_hard_fail) {
		door_close(d);
		return err_wrap(err, r, "%s", config->what);
	}
	if (r < 0)
		try_again_later(d, err);
	else
		told(d);
	*ret = d;
	return 0;
}

void door_close(struct door *d)
{
	if (d == NULL)
		return;
	http_server_close(d->http);
	event_free(d->retry);
	free(d);
}
