/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/view_page - the page of a service, in pieces.
 *
 * view_page_open() writes the head and copies rows. Endpoints are selected later, one port
 * and family at a time. From one turn of the event loop to the next a page keeps pointers
 * into objects only, which it references.
 */
#include "api/view.h"

#include <stdlib.h>

#include "base/control.h"
#include "explain/balancing.h"
#include "model/tuning.h"
#include "plan/between.h"

/* Write the next element of a list, or end the list. Sets the step that follows. */
typedef void step_fn(struct view_page *v, struct jsonw *w);

static step_fn step_frontends, step_conflicts, step_pools, step_backends, step_ports, step_families,
	step_slots, step_endpoints, step_end;

/* A service port at the time of view_page_open(). */
struct page_port {
	const struct service_port *port; /* of the page's service */
	uint8_t state;
	char *note; /* NULL = none */
};

struct page_endpoint {
	struct endpoint as;   /* `from` is in the page's slices */
	int64_t cluster_slot; /* -1 = not in the programmed pool */
	int64_t local_slot;
};

struct view_page {
	const struct serve_context *ctx;
	const struct name *ns;
	const struct name *name;
	uint64_t now;  /* of view_page_open() */
	step_fn *step; /* NULL: done */
	bool is_cut;
	struct plan_balancing balancing; /* of the current pool */
	uint64_t weights;                /* sum, of its backends */
	size_t i;                        /* position in the list of the step */
	size_t k;                        /* position in its inner list */
	int fam;
	struct plan_rows *rows; /* a copy; svc is not set */
	struct object service;  /* referenced; empty: there was none */
	VEC(struct page_port) ports;
	VEC(struct object) slices; /* referenced: of the endpoints */
	VEC(struct page_endpoint) endpoints;
};

/* --- texts --- */

/* Limit of draining backends in the head, which is written at once. */
#define DRAINING_MAX 1000

static const char *policy_text(bool is_local)
{
	return is_local ? "Local" : "Cluster";
}

/* Clients that are masqueraded at this frontend with the configuration of the node (section 6.2) */
static const char *masq_text(const struct model *m, const struct plan_frontend *f)
{
	switch ((enum plan_masq)f->masq) {
	case PLAN_MASQ_UNSET: /* forwarded without it */
		return "none";
	case PLAN_MASQ_CLUSTERIP:
		if (m->config.is_masquerade_all)
			return "all";
		return m->env.has_detector[ip_fam(&f->addr)] ? "not-pods" : "none";
	case PLAN_MASQ_ALWAYS:
		return m->config.preserves_local_source ? "to-other-nodes" : "all";
	case PLAN_MASQ_HOST:
		return "this-host";
	}
	return "-";
}

/* --- head --- */

static void head_addrs(struct jsonw *w, const struct service *s)
{
	jsonw_addrs(w, "cluster_ips", s->cluster_ip, IPFAM_N);
	jsonw_addrs(w, "external_ips", s->external_ips.v, s->external_ips.n);
	jsonw_array(w, "ingress");
	vec_for_each (in, &s->ingress) {
		jsonw_object(w, NULL);
		jsonw_addr(w, "address", &in->addr);
		jsonw_bool(w, "captured", !in->is_proxy_mode);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_uint(w, "left_out_addresses", s->n_left_out_addrs);
	jsonw_prefixes(w, "source_ranges", s->source_ranges.v, s->source_ranges.n);
	jsonw_uint(w, "invalid_source_ranges", s->n_bad_source_ranges);
}

static void head_object(struct jsonw *w, const struct service *s)
{
	jsonw_text(w, "type", service_type_text(s->type));
	jsonw_text(w, "not_proxied", service_skip_reason(s));
	jsonw_int(w, "created_s", s->created_s);
	jsonw_text(w, "internal_policy", policy_text(s->is_itp_local));
	jsonw_text(w, "external_policy", policy_text(service_is_etp_local(s)));
	jsonw_uint(w, "affinity_s", s->affinity_s);
	jsonw_uint(w, "health_check_node_port", s->health_check_node_port);
	head_addrs(w, s);
}

static void head_pending(struct jsonw *w, const struct svc *svc, const struct sync_failure *failure,
			 uint64_t now)
{
	jsonw_bool(w, "pending", serve_is_pending(svc));
	if (svc->dirty_since_ns > 1 && now > svc->dirty_since_ns)
		view_age(w, "pending_ms", svc->dirty_since_ns, now);
	if (!jsonw_object_if(w, "rejected", failure != NULL))
		return;
	view_failure(w, failure, now);
	jsonw_end(w);
}

struct draining {
	struct jsonw *w;
	size_t n;
};

static void draining_add(void *arg, const struct plane_draining *l)
{
	struct draining *all = arg;

	if (all->n++ >= DRAINING_MAX)
		return;
	jsonw_object(all->w, NULL);
	jsonw_frontend(all->w, &l->addr, l->port, l->proto);
	jsonw_uint_if(all->w, "active", l->is_counted, l->active);
	jsonw_uint_if(all->w, "inactive", l->is_counted, l->inactive);
	jsonw_uint(all->w, "since_ms", l->age_s * 1000);
	if (l->has_deadline)
		jsonw_uint(all->w, "timeout_ms", l->left_s * 1000);
	jsonw_end(all->w);
}

/* Requests of the service that are not in force, and draining backends. */
static void head_plane(struct jsonw *w, const struct view_page *v, const struct svc *svc)
{
	const struct plane *p = v->ctx->plane;
	struct draining all = { .w = w };
	FINI(str_fini) struct str remark = { 0 };

	if (p->ops->remark != NULL)
		p->ops->remark(p, svc, &remark);
	if (svc->rows != NULL)
		plan_affinity_text(v->ctx->plan, svc->rows, &remark);
	jsonw_text(w, "remark", remark.text);
	if (p->ops->draining == NULL || v->now == 0)
		return;
	jsonw_array(w, "draining");
	p->ops->draining(p, svc, draining_add, &all);
	jsonw_end(w);
}

static void head_write(const struct view_page *v, struct jsonw *w, const struct svc *svc,
		       const struct serve_facts *f)
{
	FINI(str_fini) struct str note = { 0 };

	serve_service_note(&note, f, svc);
	jsonw_object(w, NULL);
	jsonw_uint(w, "api", CONTROL_API_VERSION);
	jsonw_names(w, svc->ns, svc->name);
	jsonw_text(w, "state", serve_state_names[f->state]);
	jsonw_text(w, "note", note.text);
	jsonw_bool(w, "has_object", svc->service != NULL);
	jsonw_bool(w, "programmed", svc->rows != NULL);
	jsonw_uint(w, "slices", svc->n_slices);
	head_pending(w, svc, f->failure, v->now);
	if (svc->service != NULL)
		head_object(w, svc->service);
	head_plane(w, v, svc);
}

/* --- rows and ports --- */

static void rows_copy(struct view_page *v, const struct plan_rows *rows)
{
	vec_append(&v->rows->frontends, &rows->frontends);
	vec_append(&v->rows->conflicts, &rows->conflicts);
	vec_for_each (pool, &rows->pools)
		plan_pool_copy_backends(vec_push(&v->rows->pools), pool, 0);
}

static void ports_take(struct view_page *v, const struct svc *svc, const struct serve_facts *f)
{
	v->service = object_ref(&(struct object){ OBJECT_KIND_SERVICE, .service = svc->service });
	for (size_t i = 0; i < svc->service->ports.n; i++) {
		struct page_port *p = vec_push(&v->ports);
		struct str note = { 0 };

		serve_port_note(&note, f, v->ctx, svc, i);
		*p = (struct page_port){
			.port = &svc->service->ports.v[i],
			.state = (uint8_t)serve_port_state(f, i),
			.note = note.text,
		};
	}
}

/* --- endpoints and their slots --- */

static const struct plan_pool *pool_of(const struct view_page *v, const struct page_port *port,
				       enum plan_scope scope)
{
	return plan_rows_pool_at(v->rows, v->fam, scope, port->port->proto, port->port->name);
}

/* Endpoints are in order of address and port. */
static void slots_assign(struct view_page *v, const struct page_port *port, enum plan_scope scope)
{
	const struct plan_pool *pool = pool_of(v, port, scope);

	for (size_t slot = 0; pool != NULL && slot < pool->backends.n; slot++) {
		const struct plan_backend *b = &pool->backends.v[slot];
		struct page_endpoint *ep = vec_search(&v->endpoints, b, ip_endpoint_cmp);

		if (ep != NULL)
			*(scope == PLAN_SCOPE_LOCAL ? &ep->local_slot : &ep->cluster_slot) =
				(int64_t)slot;
	}
}

static void endpoints_clear(struct view_page *v)
{
	vec_for_each (slice, &v->slices)
		object_fini(slice);
	vec_clear(&v->slices);
	vec_clear(&v->endpoints);
}

static void endpoints_take(struct view_page *v, const struct svc *svc, const struct selection *sel)
{
	endpoints_clear(v);
	list_for_each_entry (l, &svc->slices, struct slice_entry, link)
		*vec_push(&v->slices) =
			object_ref(&(struct object){ OBJECT_KIND_SLICE, .slice = l->slice });
	vec_reserve(&v->endpoints, sel->endpoints.n);
	vec_for_each (ep, &sel->endpoints)
		*vec_push(&v->endpoints) = (struct page_endpoint){ *ep, -1, -1 };
}

static void view_set(struct view_page *v, struct jsonw *w, const char *key,
		     const struct page_endpoint *ep, enum exclusion why, int64_t slot)
{
	jsonw_object(w, key);
	jsonw_bool(w, "used", why == EXCLUSION_NONE);
	view_reason(w, v->ctx->model, v->ns, v->name, &ep->as.addr, ep->as.port, why,
		    v->now != 0 ? now_ns() : 0);
	jsonw_uint_if(w, "slot", slot >= 0, (uint64_t)slot);
	jsonw_end(w);
}

static void view_endpoint(struct view_page *v, struct jsonw *w, const struct page_endpoint *ep)
{
	jsonw_object(w, NULL);
	jsonw_endpoint(w, &ep->as.addr, ep->as.port);
	jsonw_name(w, "zone", ep->as.from->place->zone);
	view_endpoint_state(w, ep->as.from, ep->as.is_local);
	view_set(v, w, "cluster_set", ep, ep->as.cluster, ep->cluster_slot);
	view_set(v, w, "local_set", ep, ep->as.local, ep->local_slot);
	if (v->now != 0)
		view_silence(w, v->ctx, &ep->as.addr, ep->as.port, v->ports.v[v->i].port->proto);
	jsonw_end(w);
}

/* --- steps --- */

/*
 * Open the list `key` of `n` elements at its first one. False after the last one: the list is
 * closed, and `next` begins.
 */
static bool list_more(struct view_page *v, struct jsonw *w, const char *key, size_t n,
		      step_fn *next)
{
	if (v->i == 0)
		jsonw_array(w, key);
	if (v->i < n)
		return true;
	jsonw_end(w);
	v->step = next;
	v->i = 0;
	return false;
}

static void view_target(struct jsonw *w, const char *key, const struct plan_target *t)
{
	jsonw_object(w, key);
	jsonw_text(w, "verdict", plan_verdict_text(t->verdict));
	jsonw_uint(w, "pool", t->pool_id);
	jsonw_text(w, "scope", plan_scope_text(t->scope));
	jsonw_end(w);
}

static void view_frontend(struct view_page *v, struct jsonw *w, const struct plan_frontend *f)
{
	const char *port_name = NULL;

	/* At its index, unless the rows are older than the object. */
	for (size_t i = 0; port_name == NULL && i < v->ports.n; i++) {
		const struct page_port *p = &v->ports.v[(f->port_index + i) % v->ports.n];

		if (p->port->proto == f->proto &&
		    f->port == (f->kind == PLAN_FRONTEND_NODEPORT ? p->port->node_port
								  : p->port->port))
			port_name = p->port->name->text;
	}
	jsonw_object(w, NULL);
	jsonw_frontend(w, &f->addr, f->port, f->proto);
	jsonw_text(w, "kind", plan_frontend_kind_text(f->kind));
	jsonw_text(w, "port_name", port_name);
	view_target(w, "outside", &f->target);
	view_target(w, "inside", f->is_split ? &f->inside : &f->target);
	jsonw_bool(w, "split", f->is_split);
	/* POL-23: without detect-local, pods count as outside clients */
	jsonw_bool(w, "pods_are_inside", v->ctx->model->env.has_detector[ip_fam(&f->addr)]);
	jsonw_text(w, "masquerade", masq_text(v->ctx->model, f));
	if (f->forwarding != FORWARDING_MASQUERADE)
		jsonw_text(w, "forwarding", forwarding_str(f->forwarding));
	jsonw_bool(w, "has_source_ranges", f->is_guarded);
	jsonw_end(w);
}

static void step_frontends(struct view_page *v, struct jsonw *w)
{
	if (list_more(v, w, "frontends", v->rows->frontends.n, step_conflicts))
		view_frontend(v, w, &v->rows->frontends.v[v->i++]);
}

static void step_conflicts(struct view_page *v, struct jsonw *w)
{
	const struct svc *svc = model_find(v->ctx->model, v->ns, v->name);
	const struct plan_conflict *c;
	struct plan_owner owner;

	if (!list_more(v, w, "conflicts", v->rows->conflicts.n, step_pools))
		return;
	c = &v->rows->conflicts.v[v->i++];
	if (svc == NULL) { /* deleted meanwhile */
		v->is_cut = true;
		return;
	}
	owner = plan_conflict_owner(v->ctx->plan, svc, c);
	if (owner.svc == svc)
		return;
	jsonw_object(w, NULL);
	jsonw_frontend(w, &c->addr, c->port, c->proto);
	jsonw_text(w, "kind", plan_frontend_kind_text(c->kind));
	jsonw_name(w, "owner_namespace", owner.svc->ns);
	jsonw_name(w, "owner_name", owner.svc->name);
	jsonw_text(w, "owner_kind", plan_frontend_kind_text(owner.kind));
	jsonw_text(w, "reason", plan_conflict_reason(c, &owner));
	jsonw_end(w);
}

static void balancing_get(struct plan_balancing *ret, const struct view_page *v,
			  const struct plan_pool *pool)
{
	const struct plane *p = v->ctx->plane;

	plan_balancing_of(ret, pool);
	if (p->ops->balancing != NULL)
		p->ops->balancing(p, v->rows, pool, false, ret);
}

static void step_pools(struct view_page *v, struct jsonw *w)
{
	const struct plan_pool *pool;
	AUTO(free) struct ip_prefix *ranges = NULL;
	size_t n_ranges;
	bool has_scheduler;

	if (!list_more(v, w, "pools", v->rows->pools.n, step_ports))
		return;
	pool = &v->rows->pools.v[v->i];
	jsonw_object(w, NULL);
	jsonw_uint(w, "id", pool->id);
	jsonw_text(w, "family", ipfam_text(pool->fam));
	jsonw_text(w, "scope", plan_scope_text(pool->scope));
	jsonw_name(w, "port_name", pool->port_name);
	jsonw_text(w, "protocol", l4proto_text(pool->proto));
	jsonw_uint(w, "affinity_s", pool->affinity_s);
	jsonw_uint(w, "class", pool->class);
	v->weights = plan_pool_weights(pool);
	balancing_get(&v->balancing, v, pool);
	has_scheduler = v->balancing.scheduler[0] != '\0';
	if (has_scheduler || v->ctx->plane->ops->balancing != NULL)
		jsonw_text(w, "scheduler", has_scheduler ? v->balancing.scheduler : NULL);
	ranges = plan_pool_ranges(pool, &n_ranges);
	jsonw_prefixes(w, "source_ranges", ranges, n_ranges);
	jsonw_array(w, "backends");
	v->step = step_backends;
	v->k = 0;
}

static void backend_share(const struct view_page *v, struct jsonw *w, uint8_t weight)
{
	jsonw_uint(w, "weight", weight);
	jsonw_share(w, "share",
		    plan_balance_share(v->balancing.balance, weight, v->weights,
				       v->rows->pools.v[v->i].backends.n));
}

static void step_backends(struct view_page *v, struct jsonw *w)
{
	const struct plan_pool *pool = &v->rows->pools.v[v->i];

	if (v->k < pool->backends.n) {
		const struct plan_backend *b = &pool->backends.v[v->k];

		jsonw_object(w, NULL);
		jsonw_uint(w, "slot", v->k);
		jsonw_endpoint(w, &b->addr, b->port);
		if (pool->affinity_s != 0)
			jsonw_uint(w, "affinity_id", b->aff_id);
		if (pool->weights != NULL || v->balancing.scheduler[0] != '\0')
			backend_share(v, w, plan_pool_weight(pool, v->k));
		jsonw_end(w);
		v->k++;
		return;
	}
	jsonw_end(w);
	jsonw_end(w);
	v->i++;
	v->step = step_pools;
}

static void step_ports(struct view_page *v, struct jsonw *w)
{
	const struct page_port *p;

	if (!list_more(v, w, "ports", v->ports.n, step_end))
		return;
	p = &v->ports.v[v->i];
	view_port_begin(w, p->port, p->state, p->note);
	v->step = step_families;
	v->fam = 0;
}

/* The current service, if its port `i` is still that of the page, else NULL. */
static const struct svc *port_still(const struct view_page *v, size_t i)
{
	const struct svc *svc = model_find(v->ctx->model, v->ns, v->name);
	const struct page_port *p = &v->ports.v[i];
	const struct service_port *now;

	if (svc == NULL || svc->service == NULL || i >= svc->service->ports.n)
		return NULL;
	now = &svc->service->ports.v[i];
	return now->name == p->port->name && now->proto == p->port->proto ? svc : NULL;
}

static void view_selection(struct jsonw *w, const struct selection *sel)
{
	jsonw_text(w, "topology", topology_text(sel->topology));
	jsonw_bool(w, "uses_cluster_set", sel->uses_cluster);
	jsonw_bool(w, "uses_local_set", sel->uses_local);
	jsonw_bool(w, "usable_anywhere", sel->has_any);
	jsonw_bool(w, "cluster_fallback", sel->is_cluster_fallback);
	jsonw_bool(w, "local_fallback", sel->is_local_fallback);
	jsonw_uint(w, "in_cluster_set", sel->n_cluster);
	jsonw_uint(w, "in_local_set", sel->n_local);
}

/* The share `part` of `all`; -1: unknown. 0 and `all` are certain with any scheduler. */
static double share_of(const struct plan_balancing *b, uint64_t part, uint64_t all)
{
	bool is_mixed = part != 0 && part != all;

	return all == 0 || (is_mixed && b->balance == PLAN_BALANCE_UNKNOWN)
		       ? -1.0
		       : (double)part / (double)all;
}

/*
 * The shares of new connections to the cluster set that stay on this node and in its zone. Without
 * a programmed pool all weights count as 1.
 */
static void view_locality(struct view_page *v, struct jsonw *w, const struct selection *sel)
{
	const struct plan_pool *pool = pool_of(v, &v->ports.v[v->i], PLAN_SCOPE_CLUSTER);
	const struct name *zone = v->ctx->model->env.zone;
	struct plan_balancing balancing = { 0 };
	bool are_zones_known = zone != NULL;
	uint64_t in_zone = 0;
	uint64_t on_node = 0;
	uint64_t all = 0;

	if (pool != NULL)
		balancing_get(&balancing, v, pool);
	vec_for_each (e, &sel->endpoints) {
		const struct name *its = e->from->place->zone;
		uint32_t weight = balancing.balance == PLAN_BALANCE_EVENLY ? 1 : e->weight;

		if (e->cluster != EXCLUSION_NONE)
			continue;
		all += weight;
		on_node += e->is_local ? weight : 0;
		in_zone += e->is_local || its == zone ? weight : 0;
		are_zones_known &= weight == 0 || e->is_local || its != NULL;
	}
	jsonw_share(w, "on_this_node_share", share_of(&balancing, on_node, all));
	jsonw_share(w, "in_this_zone_share",
		    are_zones_known ? share_of(&balancing, in_zone, all) : -1.0);
}

static void step_families(struct view_page *v, struct jsonw *w)
{
	const struct svc *svc;
	struct selection sel;

	if (v->fam == IPFAM_N) {
		jsonw_end(w);
		jsonw_end(w);
		v->i++;
		v->step = step_ports;
		return;
	}
	svc = port_still(v, v->i);
	if (svc == NULL)
		v->is_cut = true;
	if (svc == NULL || !service_has_family(svc->service, v->fam)) {
		v->fam++;
		return;
	}
	select_endpoints(&sel, v->ctx->model, svc, v->i, v->fam);
	jsonw_object(w, NULL);
	jsonw_text(w, "family", ipfam_text(v->fam));
	view_selection(w, &sel);
	view_locality(v, w, &sel);
	jsonw_array(w, "endpoints");
	endpoints_take(v, svc, &sel);
	selection_fini(&sel);
	v->step = step_slots;
	v->k = PLAN_SCOPE_CLUSTER;
}

static void step_slots(struct view_page *v, struct jsonw *w)
{
	slots_assign(v, &v->ports.v[v->i], (enum plan_scope)v->k);
	if (v->k++ == PLAN_SCOPE_LOCAL) {
		v->step = step_endpoints;
		v->k = 0;
	}
}

static void step_endpoints(struct view_page *v, struct jsonw *w)
{
	if (v->k < v->endpoints.n) {
		view_endpoint(v, w, &v->endpoints.v[v->k++]);
		return;
	}
	jsonw_end(w);
	jsonw_end(w);
	v->fam++;
	v->step = step_families;
}

static void step_end(struct view_page *v, struct jsonw *w)
{
	jsonw_bool(w, "complete", !v->is_cut);
	jsonw_end(w);
	v->step = NULL;
}

int view_page_more(struct view_page *v, struct jsonw *w, uint64_t deadline_ns)
{
	while (v->step != NULL) {
		v->step(v, w);
		if (now_ns() >= deadline_ns)
			break;
	}
	return v->step != NULL;
}

void view_page_open(struct view_page **ret, struct jsonw *w, const struct serve_context *ctx,
		    const struct svc *svc, uint64_t now)
{
	struct view_page *v = xcalloc(1, sizeof(*v));
	struct serve_facts facts = { 0 };

	v->step = step_frontends;
	v->rows = xcalloc(1, sizeof(*v->rows));
	v->ctx = ctx;
	v->now = now;
	v->ns = name_ref(svc->ns);
	v->name = name_ref(svc->name);
	serve_facts_get(&facts, ctx, svc);
	head_write(v, w, svc, &facts);
	if (svc->rows != NULL)
		rows_copy(v, svc->rows);
	if (svc->service != NULL)
		ports_take(v, svc, &facts);
	serve_facts_fini(&facts);
	*ret = v;
}

void view_page_close(struct view_page *v)
{
	if (v == NULL)
		return;
	plan_rows_close(v->rows);
	vec_for_each (p, &v->ports)
		free(p->note);
	vec_fini(&v->ports);
	object_fini(&v->service);
	endpoints_clear(v);
	vec_fini(&v->slices);
	vec_fini(&v->endpoints);
	name_pair_unref(v->ns, v->name);
	free(v);
}
