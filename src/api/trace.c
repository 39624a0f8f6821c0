/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/trace - /v1/trace: the parameters, and the answer in pieces.
 *
 * The walk over all services and the list of endpoints are cut into pieces; the decision
 * (explain/trace.h) is one piece, whose cost depends on the size of the service.
 */
#include "api/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/view.h"
#include "base/control.h"

struct trace_body {
	const struct serve_context *ctx;
	struct plan_trace trace;
	struct walk walk;
	struct jsonw w;
	bool is_decided;
	size_t i; /* next endpoint */
};

/* --- the answer --- */

static void trace_visit(void *arg, struct svc *svc)
{
	plan_trace_visit(arg, svc);
}

static void trace_begin(struct trace_body *b)
{
	jsonw_object(&b->w, NULL);
	jsonw_uint(&b->w, "api", CONTROL_API_VERSION);
	if (plan_trace_lacks_source(&b->trace)) {
		jsonw_printf(&b->w, "problem",
			     "'%.128s' is neither an %s address nor a pod of a service",
			     b->trace.query.src_pod->text, ipfam_text(ip_fam(&b->trace.query.dst)));
	} else if (b->trace.is_ambiguous) {
		jsonw_printf(&b->w, "problem",
			     "'%.128s' is a pod in several namespaces: use its address",
			     b->trace.query.src_pod->text);
	} else {
		jsonw_text(&b->w, "problem", NULL);
		plan_trace_decide(&b->trace);
		view_trace(&b->w, b->ctx, &b->trace);
	}
	jsonw_array(&b->w, "endpoints");
}

static int trace_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct trace_body *b = state;

	b->w.out = out;
	if (!b->is_decided) {
		if (walk_services(&b->walk, b->ctx->model, trace_visit, &b->trace, deadline_ns))
			return 1;
		b->is_decided = true;
		trace_begin(b);
		return 1;
	}
	while (b->i < b->trace.endpoints.n) {
		view_trace_endpoint(&b->w, b->ctx, &b->trace, &b->trace.endpoints.v[b->i++]);
		if (now_ns() >= deadline_ns)
			return 1;
	}
	jsonw_end(&b->w);
	jsonw_end(&b->w);
	str_puts(out, "\n");
	return 0;
}

static void trace_close(void *state)
{
	struct trace_body *b = state;

	plan_trace_fini(&b->trace);
	free(b);
}

static const struct http_body_ops trace_ops = { trace_more, trace_close };

/* --- the parameters --- */

/*
 * Find a port of the service by name or number; TCP if several protocols have it. Empty `text`: the
 * service's only port.
 */
static const struct service_port *port_find(const struct service *s, const char *text,
					    enum l4proto proto)
{
	const struct service_port *found = NULL;

	vec_for_each (p, &s->ports) {
		if (proto != L4PROTO_UNSET && p->proto != proto)
			continue;
		if (*text == '\0' && found != NULL)
			return NULL;
		if (*text != '\0' && strcmp(text, p->name->text) != 0 &&
		    strcmp(text, str_local(8, "%u", p->port)) != 0)
			continue;
		if (found == NULL || p->proto == L4PROTO_TCP)
			found = p;
	}
	return found;
}

/* NAMESPACE/NAME[:PORT]: its cluster IP, of the source's family if that is known. */
static int service_parse(struct plan_trace_query *ret, const struct serve_context *ctx, char *text,
			 enum l4proto proto, struct err *err)
{
	const char *ns = strsep(&text, "/");
	const char *name = strsep(&text, ":");
	const struct svc *svc = model_find_text(ctx->model, ns, name);
	const struct service_port *port;
	enum ipfam fam = ip_is_set(&ret->src) ? ip_fam(&ret->src) : IPFAM_V4;

	if (svc == NULL || svc->service == NULL)
		return err_set(err, -ENOENT, "there is no service %.64s/%.64s", ns, name);
	port = port_find(svc->service, text != NULL ? text : "", proto);
	if (port == NULL)
		return err_set(err, -EINVAL,
			       "to: no such port, or no single port, of %.64s/%.64s; use "
			       "NAMESPACE/NAME:PORT",
			       ns, name);
	if (!ip_is_set(&svc->service->cluster_ip[fam]) && !ip_is_set(&ret->src))
		fam = IPFAM_V6;
	if (!ip_is_set(&svc->service->cluster_ip[fam]))
		return err_set(err, -EINVAL, "to: %.64s/%.64s has no cluster IP of that family", ns,
			       name);
	ret->dst = svc->service->cluster_ip[fam];
	ret->port = port->port;
	ret->proto = port->proto;
	return 0;
}

static int to_parse(struct plan_trace_query *ret, const struct serve_context *ctx, const char *to,
		    struct err *err)
{
	AUTO(free) char *text = xstrdup(to);
	enum l4proto proto = l4proto_cut(text);

	if (ip_endpoint_parse(&ret->dst, &ret->port, text) == 0) {
		ret->proto = (uint8_t)(proto != L4PROTO_UNSET ? proto : L4PROTO_TCP);
		return 0;
	}
	if (strchr(text, '/') != NULL && strcspn(text, "/") < strcspn(text, ":"))
		return service_parse(ret, ctx, text, proto, err);
	return err_set(err, -EINVAL,
		       "to: '%.64s' is not ADDRESS:PORT[/PROTOCOL] or "
		       "NAMESPACE/NAME[:PORT][/PROTOCOL]",
		       to);
}

static int query_parse(struct plan_trace_query *ret, const struct serve_context *ctx,
		       const struct http_request *q, struct err *err)
{
	const char *from = http_request_param(q, "from");
	const char *to = http_request_param(q, "to");
	int r;

	if (from == NULL || *from == '\0')
		return err_set(err, -EINVAL, "from: an address, a pod's name or 'host' is missing");
	if (to == NULL || *to == '\0')
		return err_set(err, -EINVAL, "to: ADDRESS:PORT[/PROTOCOL] is missing");
	if (ip_given_parse(&ret->src, &ret->src_port, from) < 0 && strcmp(from, "host") != 0)
		ret->src_pod = name_get_str(from);
	r = to_parse(ret, ctx, to, err);
	if (r == 0 && ip_is_set(&ret->src) && ret->src.family != ret->dst.family)
		r = err_set(err, -EINVAL, "from and to are of different families");
	if (r < 0)
		name_unref(TAKE(ret->src_pod));
	return r;
}

void body_trace(struct http_reply *reply, const struct serve_context *ctx,
		const struct http_request *q)
{
	struct plan_trace_query query = { 0 };
	struct trace_body *b;
	struct err err = { 0 };
	int r = query_parse(&query, ctx, q, &err);

	if (r < 0) {
		http_reply_error(reply, r == -ENOENT ? 404 : 400, "%s", err.text);
		return;
	}
	query.balancer = plane_balancer(ctx->plane);
	b = xcalloc(1, sizeof(*b));
	b->ctx = ctx;
	plan_trace_init(&b->trace, ctx->plan, &query);
	http_reply_stream(reply, "application/json", &trace_ops, b);
}
