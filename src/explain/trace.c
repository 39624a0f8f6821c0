/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * explain/trace - visit every service once, then decide.
 *
 * A visit relates a service to the destination by addresses and ports only, which
 * is cheap. Rows are built for the matching service only, by plan_rows_desired():
 * this file repeats no decision of the plan.
 */
#include "explain/trace.h"

#include <string.h>

#include "model/tuning.h"
#include "plan/table.h"

/* --- visits --- */

static void pod_note(char **pod, const struct slice_endpoint *e)
{
	/* Several slices may list the address: keep a result that is independent of order. */
	if (e->pod == NULL || (*pod != NULL && strcmp(*pod, e->pod) <= 0))
		return;
	free(*pod);
	*pod = xstrdup(e->pod);
}

static void source_note(struct plan_trace *t, const struct slice_endpoint *e)
{
	t->is_pod_of_this_node |= select_is_local(t->plan->model, e);
	pod_note(&t->pod, e);
	if (t->pod_node == NULL)
		t->pod_node = name_ref(e->place->node);
}

/* A pod by name has one address of a family; of two, take the smaller. */
static void source_by_name(struct plan_trace *t, const struct slice *sl,
			   const struct slice_endpoint *e)
{
	if (e->pod == NULL || strcmp(e->pod, t->query.src_pod->text) != 0)
		return;
	if (t->src_ns == NULL)
		t->src_ns = name_ref(sl->ns);
	t->is_ambiguous |= sl->ns != t->src_ns;
	if (ip_is_set(&t->query.src) && ip_addr_cmp(&t->query.src, &e->addr) <= 0)
		return;
	t->query.src = e->addr;
	/* source_note() noted another address. */
	free(TAKE(t->pod));
	name_unref(TAKE(t->pod_node));
	t->is_pod_of_this_node = false;
}

static void relate_endpoints(struct plan_trace *t, const struct slice *sl)
{
	vec_for_each (e, &sl->endpoints) {
		if (t->query.src_pod != NULL)
			source_by_name(t, sl, e);
		if (ip_is_set(&t->query.src) && ip_addr_is_equal(&e->addr, &t->query.src))
			source_note(t, e);
		if (ip_addr_is_equal(&e->addr, &t->query.dst)) {
			t->is_dst_endpoint = true;
			pod_note(&t->dst_pod, e);
		}
	}
}

/* MASQ-07: a backend of any service makes its address one of this node. */
static void relate_backends(struct plan_trace *t, const struct plan_rows *rows)
{
	vec_for_each (pool, &rows->pools)
		vec_for_each (b, &pool->backends)
			if (b->is_local && pool->fam == ip_fam(&t->query.dst))
				*vec_push(&t->local_backends) = b->addr;
}

static bool is_host_addr(const struct model *m, const struct ip_addr *a)
{
	return ip_addr_is_loopback(a) || model_is_host_addr(m, a) ||
	       ip_addr_is_equal(&m->env.node_ip[ip_fam(a)], a);
}

static bool ingress_has(const struct service *s, const struct ip_addr *a, bool is_proxy_mode)
{
	return vec_has(&s->ingress, in,
		       in->is_proxy_mode == is_proxy_mode && ip_addr_is_equal(&in->addr, a));
}

/* The kind of the destination among the addresses of `s`; UNSET: not among them. */
static enum plan_frontend_kind kind_of_address(const struct plan_trace *t, const struct service *s)
{
	const struct ip_addr *dst = &t->query.dst;

	if (ip_addr_is_equal(&s->cluster_ip[ip_fam(dst)], dst))
		return PLAN_FRONTEND_CLUSTERIP;
	if (ingress_has(s, dst, false))
		return PLAN_FRONTEND_LB;
	if (vec_has(&s->external_ips, a, ip_addr_is_equal(a, dst)))
		return PLAN_FRONTEND_EXTERNALIP;
	return PLAN_FRONTEND_UNSET;
}

static bool has_port(const struct plan_trace *t, const struct service *s)
{
	return vec_has(&s->ports, p, p->port == t->query.port && p->proto == t->query.proto);
}

static bool has_node_port(const struct plan_trace *t, const struct service *s)
{
	return vec_has(&s->ports, p,
		       p->node_port != 0 && p->node_port == t->query.port &&
			       p->proto == t->query.proto);
}

/* A place for `new`; NULL when enough services of its relation with smaller names are kept. */
static struct plan_trace_other *other_room(struct plan_trace *t, const struct plan_trace_other *new)
{
	struct plan_trace_other *last = NULL;

	if (new->relation == PLAN_TRACE_CLAIMS ||
	    t->n_others[new->relation] <= PLAN_TRACE_OTHERS_MAX)
		return vec_push(&t->others);
	vec_for_each (o, &t->others)
		if (o->relation == new->relation &&
		    (last == NULL || name_pair_cmp(last->ns, last->name, o->ns, o->name) < 0))
			last = o;
	if (name_pair_cmp(new->ns, new->name, last->ns, last->name) >= 0)
		return NULL;
	name_pair_unref(last->ns, last->name);
	return last;
}

static void relate(struct plan_trace *t, const struct svc *svc, enum plan_trace_relation relation,
		   enum plan_frontend_kind kind)
{
	struct plan_trace_other new = { svc->ns, svc->name, (uint8_t)relation, (uint8_t)kind };
	struct plan_trace_other *room;

	t->n_others[relation]++;
	room = other_room(t, &new);
	if (room == NULL)
		return;
	*room = new;
	(void)name_ref(new.ns);
	(void)name_ref(new.name);
}

/* Relate by the service's own addresses; node ports are on the node's. */
static bool relate_addresses(struct plan_trace *t, const struct svc *svc)
{
	const struct service *s = svc->service;
	const struct model *m = t->plan->model;
	enum plan_frontend_kind kind = kind_of_address(t, s);

	if (kind == PLAN_FRONTEND_UNSET) {
		if (!ingress_has(s, &t->query.dst, true) || !has_port(t, s))
			return false;
		relate(t, svc, PLAN_TRACE_NOT_CAPTURED, PLAN_FRONTEND_LB);
		return true;
	}
	t->is_cluster_ip |= kind == PLAN_FRONTEND_CLUSTERIP;
	if (!has_port(t, s))
		relate(t, svc,
		       kind == PLAN_FRONTEND_CLUSTERIP && !is_host_addr(m, &t->query.dst)
			       ? PLAN_TRACE_HAS_CLUSTER_IP
			       : PLAN_TRACE_HAS_ADDRESS,
		       kind);
	else if (kind == PLAN_FRONTEND_EXTERNALIP && m->config.no_external_ips)
		relate(t, svc, PLAN_TRACE_EXTERNAL_OFF, kind);
	else
		relate(t, svc, PLAN_TRACE_CLAIMS, kind);
	return true;
}

static void relate_service(struct plan_trace *t, const struct svc *svc)
{
	const struct service *s = svc->service;
	const struct model_env *env = &t->plan->model->env;
	bool is_here = vec_has(&env->nodeport_addrs, a, ip_addr_is_equal(a, &t->query.dst));
	enum plan_frontend_kind kind = kind_of_address(t, s);

	if (service_skip_reason(s) != NULL) {
		if (kind != PLAN_FRONTEND_UNSET)
			relate(t, svc, PLAN_TRACE_NOT_PROXIED, kind);
		else if (is_here && has_node_port(t, s))
			relate(t, svc, PLAN_TRACE_NOT_PROXIED, PLAN_FRONTEND_NODEPORT);
		return;
	}
	if (!service_has_family(s, ip_fam(&t->query.dst)))
		return;
	if (has_node_port(t, s) && is_here && (kind != PLAN_FRONTEND_CLUSTERIP || !has_port(t, s)))
		relate(t, svc, PLAN_TRACE_CLAIMS, PLAN_FRONTEND_NODEPORT);
	else if (!relate_addresses(t, svc) && has_node_port(t, s) &&
		 is_host_addr(t->plan->model, &t->query.dst))
		relate(t, svc, PLAN_TRACE_HAS_NODE_PORT, PLAN_FRONTEND_NODEPORT);
}

void plan_trace_init(struct plan_trace *ret, const struct plan *p,
		     const struct plan_trace_query *query)
{
	*ret = (struct plan_trace){ .plan = p, .query = *query };
	ret->is_src_given = ip_is_set(&query->src) || query->src_pod != NULL;
	if (!ret->is_src_given)
		ret->query.src = p->model->env.node_ip[ip_fam(&query->dst)];
}

void plan_trace_visit(struct plan_trace *t, const struct svc *svc)
{
	list_for_each_entry (l, &svc->slices, struct slice_entry, link)
		if (l->slice->fam == ip_fam(&t->query.dst))
			relate_endpoints(t, l->slice);
	if (svc->service != NULL)
		relate_service(t, svc);
	if (svc->rows != NULL && t->plan->model->config.preserves_local_source)
		relate_backends(t, svc->rows);
}

bool plan_trace_lacks_source(const struct plan_trace *t)
{
	return t->query.src_pod != NULL && !ip_is_set(&t->query.src);
}

/* --- the source --- */

/* detect-local by interface: an address is assumed local if it is a pod's of this node. */
static bool is_behind_interface(struct plan_trace *t)
{
	const struct node *self = t->plan->model->self;

	t->is_assumed = !t->is_host;
	if (t->is_host)
		return false;
	if (t->is_pod_of_this_node)
		return true;
	return self != NULL && vec_has(&self->pod_cidrs, p, ip_prefix_contains(p, &t->query.src));
}

static void decide_source(struct plan_trace *t)
{
	const struct model *m = t->plan->model;
	bool has_source = ip_is_set(&t->query.src);

	t->is_host = !has_source || is_host_addr(m, &t->query.src);
	switch (m->config.detect_local) {
	case DETECT_LOCAL_UNSET:
		break;
	case DETECT_LOCAL_CLUSTER_CIDR:
	case DETECT_LOCAL_NODE_CIDR:
		t->is_pod = has_source &&
			    vec_has(&m->env.pod_cidrs, p, ip_prefix_contains(p, &t->query.src));
		break;
	case DETECT_LOCAL_BRIDGE:
	case DETECT_LOCAL_PREFIX:
		t->is_pod = is_behind_interface(t);
		break;
	}
}

/* --- the endpoints --- */

/* Add endpoints that the selection lacks: slices without the port, and duplicates. */
static void unlisted_add(struct plan_trace *t, const struct svc *svc, const struct selection *sel)
{
	list_for_each (l, &svc->slices) {
		const struct slice *sl = list_entry(l, struct slice_entry, link)->slice;
		const struct slice_port *port;
		struct plan_trace_endpoint like = { 0 };

		if (sl->fam != ip_fam(&t->query.dst))
			continue;
		port = slice_port_find(sl, t->port_name, t->query.proto);
		like.why = port ? "another entry of the same address and port counts" /* EPS-14 */
				: "its slice has no port of this name and protocol";  /* EPS-04 */
		like.port = port ? port->port : 0;
		vec_for_each (e, &sl->endpoints) {
			const struct endpoint *classified = selection_find(sel, &e->addr);

			if (port == NULL ? classified == NULL
					 : classified != NULL && classified->port == port->port &&
						   slice_endpoint_cmp(classified->from, e) != 0) {
				like.from = e;
				like.is_local = select_is_local(t->plan->model, e);
				*vec_push(&t->endpoints) = like;
			}
		}
	}
}

static int endpoint_cmp(const void *a, const void *b)
{
	const struct plan_trace_endpoint *ea = a;
	const struct plan_trace_endpoint *eb = b;

	return CMP(ea->why != NULL, eb->why != NULL) ?:
	       ip_addr_cmp(&ea->from->addr, &eb->from->addr) ?: CMP(ea->port, eb->port) ?:
	       CMP(eb->exclusion, ea->exclusion) ?: /* the entry that counts is the first one */
	       strcmp(ea->from->pod ?: "", eb->from->pod ?: "");
}

static bool is_masqueraded(const struct plan_trace *t, const struct endpoint *e)
{
	/* Delivered to this host without postrouting. */
	if (!t->is_host && is_host_addr(t->plan->model, &e->addr))
		return false;
	if (ip_addr_is_equal(&e->addr, &t->query.src))
		return true;
	return t->masq >= PLAN_TRACE_MASQ_ALL ||
	       (t->masq == PLAN_TRACE_MASQ_REMOTE && !e->is_local &&
		vec_search(&t->local_backends, &e->addr, ip_addr_cmp) == NULL);
}

bool plan_trace_masquerades(const struct plan_trace *t)
{
	return t->masq >= PLAN_TRACE_MASQ_REMOTE &&
	       vec_has(&t->endpoints, ep, ep->why == NULL && ep->is_masqueraded);
}

static void decide_endpoints(struct plan_trace *t, const struct svc *svc)
{
	FINI(selection_fini) struct selection sel;

	list_for_each_entry (l, &svc->slices, struct slice_entry, link)
		*vec_push(&t->slices) =
			object_ref(&(struct object){ OBJECT_KIND_SLICE, .slice = l->slice });
	select_endpoints(&sel, t->plan->model, svc, t->frontend.port_index, ip_fam(&t->query.dst));
	t->topology = t->scope == PLAN_SCOPE_CLUSTER ? sel.topology : TOPOLOGY_OFF;
	t->is_fallback =
		t->scope == PLAN_SCOPE_CLUSTER ? sel.is_cluster_fallback : sel.is_local_fallback;
	vec_for_each (e, &sel.endpoints) {
		struct plan_trace_endpoint ep = {
			.from = e->from,
			.port = e->port,
			.is_local = e->is_local,
			.weight = e->weight,
			.exclusion = t->scope == PLAN_SCOPE_CLUSTER ? e->cluster : e->local,
			.is_masqueraded = is_masqueraded(t, e),
		};

		if (ep.exclusion != EXCLUSION_NONE) {
			ep.why = exclusion_text(ep.exclusion);
		} else {
			t->n_used++;
			t->weight += e->weight;
		}
		*vec_push(&t->endpoints) = ep;
	}
	unlisted_add(t, svc, &sel);
	vec_sort(&t->endpoints, endpoint_cmp);
}

/* --- a frontend matches --- */

static const struct plan_pool *pool_find(const struct plan_trace *t, const struct plan_rows *rows,
					 const struct plan_target *target)
{
	return plan_rows_pool_at(rows, ip_fam(&t->query.dst), target->scope, t->query.proto,
				 t->port_name);
}

/* In the order of the postrouting rules: the frontend's own, then that of cluster IPs. */
static enum plan_trace_masq decide_masq(const struct plan_trace *t)
{
	const struct model *m = t->plan->model;
	enum plan_masq masq = t->frontend.masq;
	bool is_preserved =
		masq == PLAN_MASQ_ALWAYS && m->config.preserves_local_source && !t->is_host;
	bool has_detector = m->env.has_detector[ip_fam(&t->query.dst)];

	if (masq == PLAN_MASQ_ALWAYS && !is_preserved)
		return PLAN_TRACE_MASQ_EXTERNAL;
	if (masq == PLAN_MASQ_HOST && t->is_host)
		return PLAN_TRACE_MASQ_HOST;
	if (t->frontend.forwarding != FORWARDING_MASQUERADE && !t->is_inside)
		return PLAN_TRACE_MASQ_NONE_DIRECT;
	if (t->is_cluster_ip && m->config.is_masquerade_all)
		return PLAN_TRACE_MASQ_ALL;
	if (t->is_cluster_ip && has_detector && !t->is_pod)
		return PLAN_TRACE_MASQ_NOT_POD;
	if (is_preserved)
		return PLAN_TRACE_MASQ_REMOTE;
	if (!t->is_cluster_ip)
		return PLAN_TRACE_MASQ_NONE_LOCAL;
	return has_detector ? PLAN_TRACE_MASQ_NONE_POD : PLAN_TRACE_MASQ_NONE_DETECTOR;
}

static const struct plan_target *target_of(const struct plan_frontend *f, bool is_inside)
{
	return f->is_split && is_inside ? &f->inside : &f->target;
}

static bool backends_are_same(const struct plan_pool *a, const struct plan_pool *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return vec_is_equal(&a->backends, &b->backends);
}

/* Desired pools keep the programmed slots, so equal pools are equal slot by slot. */
static enum plan_trace_programmed decide_programmed(const struct plan_trace *t,
						    const struct plan_rows *programmed,
						    const struct plan_rows *rows)
{
	const struct plan_frontend *f =
		programmed ? plan_rows_frontend(programmed, &t->frontend) : NULL;
	const struct plan_target *desired = target_of(&t->frontend, t->is_inside);
	const struct plan_target *have = f ? target_of(f, t->is_inside) : NULL;

	if (f == NULL)
		return PLAN_TRACE_PROGRAMMED_NOT;
	if (f->is_guarded != t->frontend.is_guarded || f->masq != t->frontend.masq ||
	    f->forwarding != t->frontend.forwarding || have->verdict != desired->verdict ||
	    have->scope != desired->scope)
		return PLAN_TRACE_PROGRAMMED_OTHER;
	return backends_are_same(pool_find(t, programmed, have), pool_find(t, rows, desired))
		       ? PLAN_TRACE_PROGRAMMED_SAME
		       : PLAN_TRACE_PROGRAMMED_OTHER;
}

static void decide_ranges(struct plan_trace *t, const struct plan_rows *rows)
{
	const struct plan_pool *pool = pool_find(t, rows, &t->frontend.target);
	const struct ip_prefix *range;

	if (!t->frontend.is_guarded || pool == NULL)
		return;
	vec_append(&t->ranges, &pool->ranges);
	vec_cut(&t->ranges, ip_prefixes_join(t->ranges.v, t->ranges.n));
	range = vec_find(&t->ranges, p, ip_prefix_contains(p, &t->query.src));
	if (range != NULL)
		t->range = *range;
}

static void decide_verdict(struct plan_trace *t, const struct plan_target *target)
{
	bool is_cluster_ip = t->frontend.kind == PLAN_FRONTEND_CLUSTERIP;
	const enum plan_trace_why whys[] = {
		[PLAN_VERDICT_UNSET] = PLAN_TRACE_WHY_UNSET,
		[PLAN_VERDICT_POOL] = PLAN_TRACE_WHY_POOL,
		[PLAN_VERDICT_REJECT] = PLAN_TRACE_WHY_NO_ENDPOINT,
		[PLAN_VERDICT_DROP] = is_cluster_ip ? PLAN_TRACE_WHY_INTERNAL_POLICY
						    : PLAN_TRACE_WHY_EXTERNAL_POLICY,
	};

	t->verdict = target->verdict;
	t->why = whys[t->verdict];
	if (t->frontend.is_guarded && !ip_is_set(&t->range.addr)) {
		t->verdict = PLAN_VERDICT_DROP;
		t->why = PLAN_TRACE_WHY_RANGES;
	}
}

/* The balancing of the pool and of the plane, and the backend that slots give to the client. */
static void decide_backend(struct plan_trace *t, const struct plan_rows *rows,
			   const struct plan_pool *pool)
{
	const struct plan_balancer *b = &t->query.balancer;

	if (pool == NULL)
		return;
	plan_balancing_of(&t->balancing, pool);
	if (b->balancing != NULL && t->verdict == PLAN_VERDICT_POOL && t->pool_id != 0)
		b->balancing(b->ctx, rows, pool, t->is_inside, &t->balancing);
	if (pool->hashing == PLAN_HASHING_NONE || pool->backends.n == 0 ||
	    !ip_is_set(&t->query.src) ||
	    (pool->hashing == PLAN_HASHING_PORT && t->query.src_port == 0))
		return;
	t->is_predicted = true;
	t->predicted = *plan_table_pick(pool, &t->query.src, t->query.src_port);
}

static void decide_frontend(struct plan_trace *t, struct svc *svc, const struct plan_rows *rows,
			    const struct plan_frontend *f)
{
	const struct service_port *port = &svc->service->ports.v[f->port_index];
	const struct plan_target *target;
	const struct plan_pool *pool;

	t->frontend = *f;
	t->ns = name_ref(svc->ns);
	t->name = name_ref(svc->name);
	t->port_name = name_ref(port->name);
	t->service_port = port->port;
	/* POL-23: without detect-local no source counts as a pod. */
	t->is_inside = f->is_split && (t->is_host || t->is_pod);
	target = target_of(f, t->is_inside);
	t->scope = target->scope;
	pool = pool_find(t, rows, target);
	t->pool_id = pool ? pool->id : 0;
	t->masq = decide_masq(t);
	decide_ranges(t, rows);
	decide_verdict(t, target);
	decide_backend(t, rows, pool);
	t->is_assumed |= !t->is_src_given && (f->is_guarded || t->is_predicted);
	t->programmed = decide_programmed(t, svc->rows, rows);
	decide_endpoints(t, svc);
}

/*
 * The claimant that has precedence, if its rows have the frontend: it leaves `others`. False: no
 * frontend.
 */
static bool decide_owner(struct plan_trace *t)
{
	struct plan_frontend key = { .addr = t->query.dst,
				     .port = t->query.port,
				     .proto = t->query.proto };
	const struct plan_frontend *f;
	struct plan_trace_other *best = NULL;
	struct svc *owner = NULL;
	struct plan_rows *rows;

	vec_for_each (o, &t->others) {
		struct svc *svc = model_find(t->plan->model, o->ns, o->name);

		if (o->relation == PLAN_TRACE_CLAIMS && svc != NULL && svc->service != NULL &&
		    (best == NULL || plan_precedes(svc, o->kind, owner, best->kind))) {
			best = o;
			owner = svc;
		}
	}
	if (best == NULL)
		return false;
	rows = plan_rows_desired(t->plan, owner);
	f = rows ? plan_rows_frontend(rows, &key) : NULL;
	if (f != NULL) {
		decide_frontend(t, owner, rows, f);
		name_pair_unref(best->ns, best->name);
		*best = t->others.v[--t->others.n];
		t->n_others[PLAN_TRACE_CLAIMS]--;
	}
	plan_rows_close(rows);
	return f != NULL;
}

/* --- no frontend matches --- */

static void decide_none(struct plan_trace *t)
{
	bool is_local = is_host_addr(t->plan->model, &t->query.dst);
	unsigned int relation = PLAN_TRACE_NOT_CAPTURED;

	while (relation < PLAN_TRACE_RELATION_N && t->n_others[relation] == 0)
		relation++;
	if (t->is_cluster_ip && !is_local) {
		t->verdict = PLAN_VERDICT_REJECT;
		t->why = PLAN_TRACE_WHY_OTHER_PORT;
	} else if (ip_is_set(&t->service_cidr.addr) && !is_local) {
		t->verdict = PLAN_VERDICT_DROP;
		t->why = PLAN_TRACE_WHY_UNALLOCATED;
	} else if (relation < PLAN_TRACE_RELATION_N) {
		t->why = PLAN_TRACE_WHY_NOT_CAPTURED + relation - PLAN_TRACE_NOT_CAPTURED;
	} else if (is_local) {
		t->why = PLAN_TRACE_WHY_NO_NODE_PORT;
	} else {
		t->why = t->is_dst_endpoint ? PLAN_TRACE_WHY_ENDPOINT : PLAN_TRACE_WHY_UNKNOWN;
	}
}

static int others_cmp(const void *a, const void *b)
{
	const struct plan_trace_other *oa = a;
	const struct plan_trace_other *ob = b;

	return CMP(oa->relation, ob->relation) ?: name_pair_cmp(oa->ns, oa->name, ob->ns, ob->name);
}

void plan_trace_decide(struct plan_trace *t)
{
	const struct model_env *env = &t->plan->model->env;
	const struct ip_prefix *cidr =
		vec_find(&env->service_cidrs, p, ip_prefix_contains(p, &t->query.dst));

	if (cidr != NULL)
		t->service_cidr = *cidr;
	vec_sort(&t->local_backends, ip_addr_cmp);
	decide_source(t);
	if (!decide_owner(t))
		decide_none(t);
	vec_sort(&t->others, others_cmp);
}

double plan_trace_share(const struct plan_trace *t, const struct plan_trace_endpoint *ep)
{
	if (t->is_predicted) /* all connections of the client get one endpoint */
		return ep->port == t->predicted.port &&
		       ip_addr_is_equal(&ep->from->addr, &t->predicted.addr);
	return plan_balance_share(t->balancing.balance, ep->weight, t->weight, t->n_used);
}

void plan_trace_fini(struct plan_trace *t)
{
	vec_for_each (o, &t->others)
		name_pair_unref(o->ns, o->name);
	vec_for_each (slice, &t->slices)
		object_fini(slice);
	vec_fini(&t->slices);
	vec_fini(&t->others);
	vec_fini(&t->endpoints);
	vec_fini(&t->ranges);
	vec_fini(&t->local_backends);
	name_unref(t->query.src_pod);
	name_unref(t->src_ns);
	name_unref(t->pod_node);
	name_pair_unref(t->ns, t->name);
	name_unref(t->port_name);
	free(t->pod);
	free(t->dst_pod);
	*t = (struct plan_trace){ 0 };
}
