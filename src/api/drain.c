/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/drain - requests to drain and to eject, and the file of drained endpoints. */
#include "api/drain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/body.h"
#include "api/monitor.h"
#include "base/file.h"
#include "base/log.h"
#include "model/drain.h"
#include "model/eject.h"

#define FILE_MAX (16U << 20) /* more than MODEL_DRAINS_MAX lines */

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
	name_pair_unref(n[0], n[1]);
	return true;
}

static void list_read(struct drains *d)
{
	FINI(str_fini) struct str text = { 0 };
	int r = file_read(&text, d->path, FILE_MAX, NULL);
	char *rest = text.text;
	unsigned int number = 0;
	char *line;

	if (r < 0 && r != -ENOENT)
		log_warn(LOG_AREA_HTTP, "%s: %s; no endpoint is drained", d->path, strerror(-r));
	while (r == 0 && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		if (*line != '\0' && !line_take(d, line))
			log_warn(LOG_AREA_HTTP,
				 "%s:%u: not NAMESPACE/NAME ADDRESS [POD]; line ignored", d->path,
				 number);
	}
	if (d->model->drains.n > 0)
		log_notice(LOG_AREA_HTTP, "endpoints drained by an operator: %u (%s)",
			   d->model->drains.n, d->path);
}

/* Write a new file and rename it, so that readers find the old or the new list. */
static int list_write(const struct drains *d)
{
	FINI(str_fini) struct str text = { 0 };
	FINI(str_fini) struct str tmp = { 0 };
	int r;

	if (d->path == NULL)
		return 0;
	vec_for_each (e, &d->model->drains) {
		/* A name with these characters would break the line format. */
		bool has_pod = e->pod != NULL && strpbrk(e->pod, " \r\n") == NULL;

		str_printf(&text, "%s/%s %s%s%s\n", e->ns->text, e->name->text,
			   ip_addr_str(&e->addr), has_pod ? " " : "", has_pod ? e->pod : "");
	}
	str_printf(&tmp, "%s.new", d->path);
	r = file_write(tmp.text, str_text(&text), NULL);
	if (r == 0 && rename(tmp.text, d->path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(tmp.text);
	return r;
}

/* --- the request --- */

/* A request of PUT. */
struct change {
	const struct name *ns; /* counted */
	const struct name *name;
	const char *endpoint;
	struct ip_addr addr; /* that is `endpoint`; unset: it is the name of a pod */
	bool is_out;
};

/* A kind of request: the list of endpoints without new connections, and how it is changed. */
struct list_kind {
	const char *out; /* states */
	const char *in;
	int (*take_out)(struct model *m, const struct svc *svc, const struct slice_endpoint *e);
	/* Return all endpoints that `c` names; their number. */
	int (*bring_in)(const struct serve_context *ctx, const struct change *c);
	void (*item)(struct jsonw *w, const struct model *m, size_t i);
	int limit;
};

static void item_print(struct jsonw *w, const struct name *ns, const struct name *name,
		       const struct ip_addr *addr, const char *pod)
{
	jsonw_names(w, ns, name);
	jsonw_addr(w, "address", addr);
	jsonw_text(w, "pod", pod);
}

static bool is_meant(const struct change *c, const struct ip_addr *addr, const char *pod)
{
	if (ip_is_set(&c->addr))
		return ip_addr_is_equal(addr, &c->addr);
	return pod != NULL && strcmp(pod, c->endpoint) == 0;
}

/* Take out all addresses that the slices of the service list; return their number, or -errno. */
static int endpoints_take_out(const struct list_kind *k, struct model *m, const struct svc *svc,
			      const struct change *c)
{
	int n = 0;

	list_for_each (l, &svc->slices)
		vec_for_each (e, &list_entry(l, struct slice_entry, link)->slice->endpoints) {
			int r;

			if (!is_meant(c, &e->addr, e->pod))
				continue;
			r = k->take_out(m, svc, e);
			if (r < 0)
				return r;
			n++;
		}
	return n;
}

/* --- drains --- */

static int drain_one(struct model *m, const struct svc *svc, const struct slice_endpoint *e)
{
	return model_drain(m, svc->ns, svc->name, &e->addr, e->pod, now_ns());
}

/* Search the list of drains: the endpoint may be in no slice any more. */
static int endpoints_undrain(const struct serve_context *ctx, const struct change *c)
{
	struct model *m = ctx->drains->model;
	int n = 0;

	for (size_t i = m->drains.n; i-- > 0;) {
		const struct model_drain e = m->drains.v[i];

		if (e.ns == c->ns && e.name == c->name && is_meant(c, &e.addr, e.pod))
			n += model_undrain(m, e.ns, e.name, &e.addr, e.pod, now_ns());
	}
	return n;
}

static void drain_item(struct jsonw *w, const struct model *m, size_t i)
{
	const struct model_drain *e = &m->drains.v[i];

	item_print(w, e->ns, e->name, &e->addr, e->pod);
}

static const struct list_kind drain_kind = {
	"drained", "serving", drain_one, endpoints_undrain, drain_item, MODEL_DRAINS_MAX,
};

/* --- ejections --- */

/* End the ejections of an address, by this process and by operators. */
static int address_admit(const struct serve_context *ctx, const struct name *ns,
			 const struct name *name, const struct ip_addr *addr, bool is_manual_too)
{
	struct model *m = ctx->drains->model;
	int n = 0;

	for (size_t i = m->ejections.n; i-- > 0;) {
		struct model_ejection e = m->ejections.v[i];

		if (e.ns != ns || e.name != name || !ip_addr_is_equal(&e.addr, addr) ||
		    (e.is_manual && !is_manual_too))
			continue;
		monitor_ejection(ctx->monitor, &e, true);
		n += model_admit(m, e.ns, e.name, &e.addr, e.port, now_ns());
	}
	return n;
}

static int eject_one(struct model *m, const struct svc *svc, const struct slice_endpoint *e)
{
	const struct model_ejection of = { .ns = svc->ns,
					   .name = svc->name,
					   .addr = e->addr,
					   .is_manual = true,
					   .since_ns = now_ns() };
	int r = model_eject(m, &of, of.since_ns);

	return r == -EEXIST ? 0 : r;
}

/*
 * The ejections from index `first` are those of a request. If it succeeded they replace ejections
 * by this process, else they end.
 */
static void ejections_end(const struct serve_context *ctx, size_t first, bool is_ok)
{
	struct model *m = ctx->drains->model;

	for (size_t n = m->ejections.n - first; n > 0; n--) {
		const struct model_ejection e = m->ejections.v[m->ejections.n - n];

		if (is_ok) {
			(void)address_admit(ctx, e.ns, e.name, &e.addr, false);
			monitor_ejection(ctx->monitor, &e, false);
		} else {
			(void)model_admit(m, e.ns, e.name, &e.addr, 0, now_ns());
		}
	}
}

static int endpoints_admit(const struct serve_context *ctx, const struct change *c)
{
	const struct svc *svc = model_find(ctx->model, c->ns, c->name);
	int n = 0;

	if (ip_is_set(&c->addr))
		return address_admit(ctx, c->ns, c->name, &c->addr, true);
	if (svc == NULL)
		return 0;
	list_for_each (l, &svc->slices)
		vec_for_each (e, &list_entry(l, struct slice_entry, link)->slice->endpoints)
			if (is_meant(c, &e->addr, e->pod))
				n += address_admit(ctx, c->ns, c->name, &e->addr, true);
	return n;
}

/* The pod of an address that slices of the service list, or NULL. */
static const char *pod_of(const struct svc *svc, const struct ip_addr *addr)
{
	list_for_each_entry (l, &svc->slices, struct slice_entry, link) {
		const struct slice_endpoint *e =
			vec_search(&l->slice->endpoints, addr, ip_addr_cmp);

		if (e != NULL && e->pod != NULL)
			return e->pod;
	}
	return NULL;
}

static void ejection_item(struct jsonw *w, const struct model *m, size_t i)
{
	const struct model_ejection *e = &m->ejections.v[i];
	const struct svc *svc = model_find(m, e->ns, e->name);
	FINI(str_fini) struct str text = { 0 };

	item_print(w, e->ns, e->name, &e->addr, svc != NULL ? pod_of(svc, &e->addr) : NULL);
	jsonw_uint_if(w, "port", e->port != 0, e->port);
	jsonw_bool(w, "by_operator", e->is_manual);
	model_ejection_text(&text, e, now_ns());
	jsonw_text(w, "text", text.text);
}

static const struct list_kind ejection_kind = {
	"ejected", "admitted", eject_one, endpoints_admit, ejection_item, MODEL_EJECTIONS_MAX,
};

/* --- both --- */

static void list_print(struct http_reply *reply, const struct list_kind *k, const struct model *m,
		       const char *problem)
{
	size_t n = k == &drain_kind ? m->drains.n : m->ejections.n;
	struct jsonw w;

	body_begin(reply, &w);
	jsonw_text(&w, "problem", problem);
	jsonw_array(&w, "items");
	for (size_t i = 0; i < n; i++) {
		jsonw_object(&w, NULL);
		k->item(&w, m, i);
		jsonw_end(&w);
	}
	jsonw_end(&w);
	body_end(reply, &w);
}

/* False: `reply` has the error. */
static bool change_parse(struct change *ret, struct http_reply *reply, const struct list_kind *k,
			 const struct http_request *q)
{
	const char *state = http_request_param(q, "state");

	*ret = (struct change){ .endpoint = http_request_param(q, "endpoint") };
	if (!body_service_param(&ret->ns, &ret->name, reply, q))
		return false;
	if (ret->ns == NULL) {
		http_reply_error(reply, 400, "service: '' is not NAMESPACE/NAME");
	} else if (ret->endpoint == NULL || ret->endpoint[0] == '\0') {
		http_reply_error(reply, 400, "endpoint: a pod's name or an address is missing");
	} else if (state == NULL || (strcmp(state, k->out) != 0 && strcmp(state, k->in) != 0)) {
		http_reply_error(reply, 400, "state: '%.64s' is not %s or %s", state ? state : "",
				 k->out, k->in);
	} else {
		(void)!ip_addr_parse(&ret->addr, ret->endpoint, NULL);
		ret->is_out = strcmp(state, k->out) == 0;
		return true;
	}
	return false;
}

/* `problem`: what a restart undoes, if the file cannot be written. */
static void change_store(struct str *problem, const struct list_kind *k, struct drains *d,
			 bool is_out)
{
	int r = k == &drain_kind ? list_write(d) : 0;

	if (r == 0)
		return;
	str_printf(problem, "%s cannot be written (%s): %s", d->path, strerror(-r),
		   is_out ? "the drain ends with this process"
			  : "after a restart the endpoint is drained again");
	log_warn(LOG_AREA_HTTP, "%s", problem->text);
}

static void change_done(struct http_reply *reply, const struct list_kind *k, struct drains *d,
			const struct change *c)
{
	FINI(str_fini) struct str problem = { 0 };

	log_notice(LOG_AREA_HTTP, "service %s/%s: endpoint %s: %s by an operator", c->ns->text,
		   c->name->text, c->endpoint,
		   c->is_out          ? k->out
		   : k == &drain_kind ? "undrained"
				      : k->in);
	change_store(&problem, k, d, c->is_out);
	d->changed(d->arg);
	list_print(reply, k, d->model, problem.text);
}

/* A pod with several addresses may be taken out in part: the file and the sync have to follow. */
static void change_failed(struct http_reply *reply, const struct list_kind *k, struct drains *d,
			  const struct change *c, int r)
{
	FINI(str_fini) struct str problem = { 0 };

	change_store(&problem, k, d, c->is_out);
	d->changed(d->arg);
	if (r == -ENOSPC)
		http_reply_error(reply, 503, "no more than %d endpoints can be %s%s%s", k->limit,
				 k->out, problem.len > 0 ? "; " : "", str_text(&problem));
	else
		http_reply_error(
			reply, 409, "%.64s/%.64s: endpoint '%.64s': %s", c->ns->text, c->name->text,
			c->endpoint,
			r == -EDOM ? "at most half of the endpoints can be ejected; drain has "
				     "no limit"
				   : "already gets no new connections");
}

static void change_perform(struct http_reply *reply, const struct list_kind *k,
			   const struct serve_context *ctx, const struct change *c)
{
	const struct svc *svc = model_find(ctx->model, c->ns, c->name);
	size_t n_ejections = ctx->model->ejections.n;
	int n;

	if (c->is_out && svc == NULL) {
		http_reply_error(reply, 404, "there is no service %.64s/%.64s", c->ns->text,
				 c->name->text);
		return;
	}
	if (c->is_out && k == &ejection_kind && !service_is_proxied(svc->service)) {
		http_reply_error(reply, 409, "%.64s/%.64s: this node does not proxy the service",
				 c->ns->text, c->name->text);
		return;
	}
	n = c->is_out ? endpoints_take_out(k, ctx->drains->model, svc, c) : k->bring_in(ctx, c);
	if (c->is_out && k == &ejection_kind) /* all addresses of a pod, or none */
		ejections_end(ctx, n_ejections, n >= 0);
	if (n < 0)
		change_failed(reply, k, ctx->drains, c, n);
	else if (n == 0)
		http_reply_error(reply, 404, "%.64s/%.64s has no %s%sendpoint '%.64s'", c->ns->text,
				 c->name->text, c->is_out ? "" : k->out, c->is_out ? "" : " ",
				 c->endpoint);
	else
		change_done(reply, k, ctx->drains, c);
}

static void answer(struct http_reply *reply, const struct list_kind *k,
		   const struct serve_context *ctx, const struct http_request *q)
{
	struct change c = { 0 };

	if (ctx->drains == NULL)
		http_reply_error(reply, 404, "endpoints cannot be %s here", k->out);
	else if (!body_params_check(reply, q, q->is_write ? "service endpoint state" : ""))
		return;
	else if (!q->is_write)
		list_print(reply, k, ctx->model, NULL);
	else if (change_parse(&c, reply, k, q))
		change_perform(reply, k, ctx, &c);
	name_pair_unref(c.ns, c.name);
}

void admin_drains(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q)
{
	answer(reply, &drain_kind, ctx, q);
}

void admin_ejections(struct http_reply *reply, const struct serve_context *ctx,
		     const struct http_request *q)
{
	answer(reply, &ejection_kind, ctx, q);
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
		list_read(d);
	*ret = d;
}

void drains_close(struct drains *d)
{
	if (d == NULL)
		return;
	free(d->path);
	free(d);
}
