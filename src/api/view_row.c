/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/view_row - one service of a list. */
#include "api/view.h"

#include "conntrack/failover.h"
#include "model/eject.h"

static void view_hints(struct jsonw *w, const char *key, const struct hints *h)
{
	jsonw_array(w, key);
	for (uint32_t i = 0; i < h->n; i++)
		jsonw_name(w, NULL, h->names[i]);
	jsonw_end(w);
}

void view_endpoint_state(struct jsonw *w, const struct slice_endpoint *from, bool is_local)
{
	jsonw_text(w, "pod", from->pod);
	jsonw_name(w, "node", from->place->node);
	jsonw_bool(w, "on_this_node", is_local);
	view_hints(w, "zone_hints", &from->place->zones);
	view_hints(w, "node_hints", &from->place->nodes);
	jsonw_bool(w, "ready", from->flags & ENDPOINT_READY);
	jsonw_bool(w, "serving", from->flags & ENDPOINT_SERVING);
	jsonw_bool(w, "terminating", from->flags & ENDPOINT_TERMINATING);
}

void view_silence(struct jsonw *w, const struct serve_context *ctx, const struct ip_addr *addr,
		  uint16_t port, enum l4proto proto)
{
	const struct failover_silence *s = NULL;
	uint64_t now = now_ns();

	if (ctx->failover != NULL && proto == L4PROTO_TCP)
		s = failover_silence(ctx->failover, addr, port);
	if (s == NULL)
		return;
	jsonw_object(w, "silent");
	jsonw_uint(w, "unanswered", s->unanswered);
	view_age(w, "since_ms", s->since_ns, now);
	view_age(w, "last_ms", s->last_ns, now);
	jsonw_end(w);
}

void view_reason(struct jsonw *w, const struct model *m, const struct name *ns,
		 const struct name *name, const struct ip_addr *addr, uint16_t port,
		 enum exclusion why, uint64_t now)
{
	const struct model_ejection *e = NULL;
	FINI(str_fini) struct str text = { 0 };

	if (why == EXCLUSION_EJECTED)
		e = model_ejection(m, ns, name, addr, port);
	if (e != NULL)
		model_ejection_text(&text, e, now);
	else if (why != EXCLUSION_NONE)
		str_puts(&text, exclusion_text(why));
	jsonw_text(w, "reason", text.text);
}

static void view_addrs(struct jsonw *w, const struct service *s)
{
	jsonw_addrs(w, "cluster_ips", s->cluster_ip, IPFAM_N);
	jsonw_array(w, "load_balancer_ips");
	vec_for_each (in, &s->ingress)
		if (!in->is_proxy_mode)
			jsonw_addr(w, NULL, &in->addr);
	jsonw_end(w);
	jsonw_addrs(w, "external_ips", s->external_ips.v, s->external_ips.n);
}

/*
 * Number of endpoints that slices list for this port. Counts by slice, not by endpoint, to
 * keep long lists cheap: an endpoint in two slices counts twice here, and once in the page
 * of the service.
 */
static size_t endpoints_listed(const struct svc *svc, const struct service_port *port,
			       enum ipfam fam)
{
	size_t n = 0;

	list_for_each (l, &svc->slices) {
		const struct slice *sl = list_entry(l, struct slice_entry, link)->slice;

		if (sl->fam != fam)
			continue;
		for (const struct slice_port *p = slice_port_find(sl, port->name, port->proto);
		     p != NULL && p < vec_end(&sl->ports) && p->name == port->name &&
		     p->proto == port->proto;
		     p++)
			n += sl->endpoints.n;
	}
	return n;
}

static void view_port_pools(struct jsonw *w, const struct plan_rows *rows,
			    const struct service_port *port, enum ipfam fam)
{
	jsonw_array(w, "pools");
	for (unsigned int scope = PLAN_SCOPE_CLUSTER; rows != NULL && scope <= PLAN_SCOPE_LOCAL;
	     scope++) {
		const struct plan_pool *pool =
			plan_rows_pool_at(rows, fam, scope, port->proto, port->name);

		if (pool == NULL)
			continue;
		jsonw_object(w, NULL);
		jsonw_uint(w, "id", pool->id);
		jsonw_text(w, "scope", plan_scope_text(pool->scope));
		jsonw_uint(w, "backends", pool->backends.n);
		jsonw_end(w);
	}
	jsonw_end(w);
}

void view_port_begin(struct jsonw *w, const struct service_port *port, enum serve_state state,
		     const char *note)
{
	jsonw_object(w, NULL);
	jsonw_name(w, "name", port->name);
	jsonw_text(w, "protocol", l4proto_text(port->proto));
	jsonw_uint(w, "port", port->port);
	jsonw_uint(w, "node_port", port->node_port);
	jsonw_text(w, "state", serve_state_names[state]);
	jsonw_text(w, "note", note);
	jsonw_array(w, "families");
}

static void view_port(struct jsonw *w, const struct serve_context *ctx, const struct svc *svc,
		      const struct serve_facts *f, size_t i)
{
	const struct service_port *port = &svc->service->ports.v[i];
	FINI(str_fini) struct str note = { 0 };

	serve_port_note(&note, f, ctx, svc, i);
	view_port_begin(w, port, serve_port_state(f, i), note.text);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		if (!service_has_family(svc->service, fam))
			continue;
		jsonw_object(w, NULL);
		jsonw_text(w, "family", ipfam_text(fam));
		jsonw_uint(w, "endpoints", endpoints_listed(svc, port, fam));
		view_port_pools(w, svc->rows, port, fam);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_end(w);
}

void view_row_begin(struct view_row *r, struct jsonw *w, const struct serve_context *ctx,
		    const struct svc *svc)
{
	const struct service *s = svc->service;
	FINI(str_fini) struct str note = { 0 };

	serve_facts_get(&r->facts, ctx, svc);
	serve_service_note(&note, &r->facts, svc);
	jsonw_object(w, NULL);
	jsonw_names(w, svc->ns, svc->name);
	jsonw_text(w, "type", s ? service_type_text(s->type) : NULL);
	jsonw_text(w, "state", serve_state_names[r->facts.state]);
	jsonw_text(w, "note", note.text);
	if (s != NULL)
		view_addrs(w, s);
	jsonw_array(w, "ports");
	r->port = 0;
}

bool view_row_more(struct view_row *r, struct jsonw *w, const struct serve_context *ctx,
		   const struct svc *svc, uint64_t deadline_ns)
{
	size_t n = svc != NULL && svc->service != NULL ? svc->service->ports.n : 0;
	size_t first = r->port;

	if (first > 0 && first < n) /* the service may have changed since */
		serve_facts_get(&r->facts, ctx, svc);
	while (r->port < n) {
		view_port(w, ctx, svc, &r->facts, r->port++);
		if (r->port - first >= VIEW_ROW_PORTS && now_ns() >= deadline_ns)
			return true;
	}
	jsonw_end(w);
	jsonw_end(w);
	return false;
}
