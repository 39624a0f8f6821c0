/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/drain - requests to drain, and the file of drained endpoints. */
#include "api/drain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/body.h"
#include "base/log.h"
#include "model/drain.h"

#define LINE_MAX_BYTES 2048

struct drains {
	struct model *model;
	char *path; /* NULL: no file */
	void (*changed)(void *arg);
	void *arg;
};

/* --- the file --- */

static bool line_take(struct drains *d, char *line)
{
	char *rest = line;
	const char *ns = strsep(&rest, "/");
	const char *name = rest ? strsep(&rest, " ") : NULL;
	const char *addr_text = rest ? strsep(&rest, " ") : NULL;
	const char *pod = rest;
	struct ip_addr addr;
	const struct name *n[2];

	if (addr_text == NULL || *ns == '\0' || *name == '\0' ||
	    ip_addr_parse(&addr, addr_text, NULL) < 0)
		return false;
	n[0] = name_get_str(ns);
	n[1] = name_get_str(name);
	(void)model_drain(d->model, n[0], n[1], &addr, pod, 0);
	name_unref(n[0]);
	name_unref(n[1]);
	return true;
}

static void file_read(struct drains *d)
{
	char line[LINE_MAX_BYTES];
	unsigned int number = 0;
	FILE *f = fopen(d->path, "re");

	if (f == NULL) {
		if (errno != ENOENT)
			log_warn(LOG_AREA_HTTP, "%s: %s; no endpoint is drained", d->path,
				 strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), f) != NULL) {
		number++;
		line[strcspn(line, "\n")] = '\0';
		if (*line != '\0' && !line_take(d, line))
			log_warn(LOG_AREA_HTTP, "%s:%u: not NAMESPACE/NAME ADDRESS [POD]: ignored",
				 d->path, number);
	}
	(void)fclose(f);
	if (d->model->drains.n > 0)
		log_notice(LOG_AREA_HTTP, "endpoints drained by an operator: %zu (%s)",
			   d->model->drains.n, d->path);
}

static int file_print(const struct drains *d, FILE *f)
{
	char addr[IP_TEXT_MAX];
	int r = 0;

	vec_for_each (e, &d->model->drains) {
		/* A name with these characters would break the line format. */
		bool has_pod = e->pod != NULL && strpbrk(e->pod, " \r\n") == NULL;

		if (fprintf(f, "%s/%s %s%s%s\n", e->ns->text, e->name->text,
			    ip_addr_text(&e->addr, addr), has_pod ? " " : "",
			    has_pod ? e->pod : "") < 0)
			r = -errno;
	}
	return r;
}

/* Write a new file and rename it, so that readers find the old or the new list. */
static int file_write(const struct drains *d)
{
	char *tmp;
	FILE *f;
	int r;

	if (d->path == NULL)
		return 0;
	if (asprintf(&tmp, "%s.new", d->path) < 0)
		abort();
	f = fopen(tmp, "we");
	r = f == NULL ? -errno : file_print(d, f);
	if (f != NULL && fclose(f) != 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(tmp, d->path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(tmp);
	free(tmp);
	return r;
}

/* --- the request --- */

static void drains_print(struct http_reply *reply, const struct drains *d, const char *problem)
{
	struct jsonw w;

	body_begin(reply, &w);
	jsonw_text(&w, "problem", problem);
	jsonw_array(&w, "items");
	vec_for_each (e, &d->model->drains) {
		jsonw_object(&w, NULL);
		jsonw_name(&w, "namespace", e->ns);
		jsonw_name(&w, "name", e->name);
		jsonw_addr(&w, "address", &e->addr);
		jsonw_text(&w, "pod", e->pod);
		jsonw_end(&w);
	}
	jsonw_end(&w);
	body_end(reply, &w);
}

/* Is the endpoint meant by `text`, with the address `addr` or the name of a pod? */
static bool is_meant(const struct ip_addr *own, const char *pod, const struct ip_addr *addr,
		     const char *text)
{
	if (ip_is_set(addr))
		return ip_addr_is_equal(own, addr);
	return pod != NULL && strcmp(pod, text) == 0;
}

/* Drain all addresses that the slices of the service list for `text`; return their number. */
static int endpoints_drain(struct drains *d, const struct svc *svc, const char *text)
{
	struct ip_addr addr = { 0 };
	int n = 0;

	(void)!ip_addr_parse(&addr, text, NULL); /* else the name of a pod */
	list_for_each (l, &svc->slices)
		vec_for_each (e, &list_entry(l, struct slice_entry, link)->slice->endpoints) {
			int r;

			if (!is_meant(&e->addr, e->pod, &addr, text))
				continue;
			r = model_drain(d->model, svc->ns, svc->name, &e->addr, e->pod, now_ns());
			if (r < 0)
				return r;
			n++;
		}
	return n;
}

/* Search the list of drains: the endpoint may be in no slice any more. */
static int endpoints_undrain(struct drains *d, const char *ns, const char *name, const char *text)
{
	struct ip_addr addr = { 0 };
	int n = 0;

	(void)!ip_addr_parse(&addr, text, NULL);
	for (size_t i = d->model->drains.n; i-- > 0;) {
		const struct model_drain *e = &d->model->drains.v[i];
		const struct model_drain copy = *e;

		if (strcmp(e->ns->text, ns) == 0 && strcmp(e->name->text, name) == 0 &&
		    is_meant(&e->addr, e->pod, &addr, text))
			n += model_undrain(d->model, copy.ns, copy.name, &copy.addr, now_ns());
	}
	return n;
}

struct change {
	char *ns;
	const char *name;
	const char *endpoint;
	bool is_drain;
};

/* False: `reply` has the error. */
static bool change_parse(struct change *ret, struct http_reply *reply, const struct http_request *q)
{
	const char *service = http_request_param(q, "service");
	const char *state = http_request_param(q, "state");
	const char *slash = service ? strchr(service, '/') : NULL;

	*ret = (struct change){ .endpoint = http_request_param(q, "endpoint") };
	if (slash == NULL) {
		http_reply_error(reply, 400, "service: '%.64s' is not NAMESPACE/NAME",
				 service ? service : "");
	} else if (ret->endpoint == NULL || ret->endpoint[0] == '\0') {
		http_reply_error(reply, 400, "endpoint: a pod's name or an address is missing");
	} else if (state == NULL ||
		   (strcmp(state, "drained") != 0 && strcmp(state, "serving") != 0)) {
		http_reply_error(reply, 400, "state: '%.64s' is not drained or serving",
				 state ? state : "");
	} else {
		ret->ns = xstrndup(service, (size_t)(slash - service));
		ret->name = slash + 1;
		ret->is_drain = strcmp(state, "drained") == 0;
		return true;
	}
	return false;
}

static void change_done(struct http_reply *reply, struct drains *d, const struct change *c)
{
	char problem[256] = "";
	int r = file_write(d);

	log_notice(LOG_AREA_HTTP, "service %s/%s: %s %s by an operator", c->ns, c->name,
		   c->endpoint, c->is_drain ? "drained" : "undrained");
	if (r < 0)
		(void)snprintf(problem, sizeof(problem),
			       "%s cannot be written (%s): the drain ends with this process",
			       d->path, strerror(-r));
	d->changed(d->arg);
	drains_print(reply, d, *problem != '\0' ? problem : NULL);
}

/* A pod with several addresses may be drained in part: the file and the sync have to follow. */
static void limit_reached(struct http_reply *reply, struct drains *d)
{
	(void)!file_write(d);
	d->changed(d->arg);
	http_reply_error(reply, 503, "no more than %d endpoints can be drained", MODEL_DRAINS_MAX);
}

static void change_perform(struct http_reply *reply, struct drains *d, const struct change *c)
{
	const struct svc *svc = model_find_text(d->model, c->ns, c->name);
	int n;

	if (c->is_drain && svc == NULL) {
		http_reply_error(reply, 404, "there is no service %.64s/%.64s", c->ns, c->name);
		return;
	}
	n = c->is_drain ? endpoints_drain(d, svc, c->endpoint)
			: endpoints_undrain(d, c->ns, c->name, c->endpoint);
	if (n < 0)
		limit_reached(reply, d);
	else if (n == 0)
		http_reply_error(reply, 404, "%.64s/%.64s has no %sendpoint '%.64s'", c->ns,
				 c->name, c->is_drain ? "" : "drained ", c->endpoint);
	else
		change_done(reply, d, c);
}

void admin_drains(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q)
{
	struct change c;

	if (ctx->drains == NULL)
		http_reply_error(reply, 404, "draining is not available");
	else if (!body_params_check(reply, q, q->is_write ? "service endpoint state" : ""))
		return;
	else if (!q->is_write)
		drains_print(reply, ctx->drains, NULL);
	else if (change_parse(&c, reply, q)) {
		change_perform(reply, ctx->drains, &c);
		free(c.ns);
	}
}

/* --- life --- */

void drains_open(struct drains **ret, struct model *m, const char *path, void (*changed)(void *arg),
		 void *arg)
{
	struct drains *d = xcalloc(1, sizeof(*d));

	d->model = m;
	d->path = path != NULL ? xstrdup(path) : NULL;
	d->changed = changed;
	d->arg = arg;
	if (path != NULL)
		file_read(d);
	*ret = d;
}

void drains_close(struct drains *d)
{
	if (d == NULL)
		return;
	free(d->path);
	free(d);
}
