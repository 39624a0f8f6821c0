/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/select - merge the slices, then classify every endpoint with a reason.
 *
 * Merge: each slice that serves the port adds a run of candidates that is sorted
 * already (slice_normalise), so the runs are merged, not sorted again. Of
 * neighbours with the same identity one wins; the rule compares contents only,
 * never the order of arrival.
 *
 * Classify: one pass counts (ready, hinted, ...), one pass stores the exclusion reason
 * of every endpoint for both sets.
 */
#include "model/select.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "model/drain.h"
#include "model/eject.h"
#include "model/track.h"
#include "model/tuning.h"

/* --- text ------------------------------------------------------------------ */

const char *exclusion_text(enum exclusion e)
{
	static const char *const texts[] = {
		[EXCLUSION_NONE] = "used",
		[EXCLUSION_NOT_READY] = "not ready",
		[EXCLUSION_TERMINATING] = "terminating, others are ready",
		[EXCLUSION_NOT_SERVING] = "terminating, no longer serving",
		[EXCLUSION_OTHER_NODE] = "hinted for other nodes",
		[EXCLUSION_OTHER_ZONE] = "hinted for other zones",
		[EXCLUSION_NOT_LOCAL] = "not on this node",
		[EXCLUSION_DRAINED] = "drained by an operator",
		[EXCLUSION_WEIGHTLESS] = "weight 0",
		[EXCLUSION_EJECTED] = "ejected",
		[EXCLUSION_SET_UNUSED] = "not used by a frontend",
	};

	return texts[e];
}

const char *topology_text(enum topology_mode t)
{
	static const char *const texts[] = {
		[TOPOLOGY_OFF] = "off",
		[TOPOLOGY_SAME_NODE] = "same node",
		[TOPOLOGY_SAME_ZONE] = "same zone",
	};

	return texts[t];
}

/* --- the service's fields ------------------------------------------------------ */

const char *service_skip_reason(const struct service *s)
{
	if (s->type == SERVICE_TYPE_EXTERNALNAME)
		return "type ExternalName"; /* SEL-02 */
	if (s->is_headless)
		return "headless, no cluster IP"; /* SEL-01 */
	if (s->has_proxy_name_label)
		return "label service.kubernetes.io/service-proxy-name: left to another proxy";
	if (s->ports.n == 0)
		return "no ports"; /* SEL-09 */
	if (!service_has_family(s, IPFAM_V4) && !service_has_family(s, IPFAM_V6))
		return "no valid cluster IP"; /* SEL-04 */
	return NULL;
}

bool service_is_proxied(const struct service *s)
{
	return s != NULL && service_skip_reason(s) == NULL;
}

bool service_has_family(const struct service *s, enum ipfam fam)
{
	return ip_is_set(&s->cluster_ip[fam]);
}

bool service_is_external(const struct service *s, size_t port, enum ipfam fam)
{
	/* The gate of SVC-13 does not apply here: the list counts as written. */
	return s->ports.v[port].node_port != 0 ||
	       vec_has(&s->ingress, i, ip_fam(&i->addr) == fam && !i->is_proxy_mode) ||
	       vec_has(&s->external_ips, a, ip_fam(a) == fam);
}

bool service_is_etp_local(const struct service *s)
{
	if (!s->is_etp_local)
		return false;
	return s->type == SERVICE_TYPE_LOADBALANCER || s->type == SERVICE_TYPE_NODEPORT ||
	       (s->type == SERVICE_TYPE_CLUSTERIP && s->external_ips.n > 0);
}

/* --- merge -------------------------------------------------------------------- */

/* An endpoint's entry in a slice; the address as integers, for fast comparison. */
struct candidate {
	uint64_t hi;
	uint64_t lo;
	const struct slice_endpoint *from;
	const struct slice *slice;
	uint16_t port;
};

struct candidates {
	VEC(struct candidate) all; /* with as much room again, to merge into */
	VEC(size_t) runs;          /* where each sorted run starts */
};

static void candidates_fini(struct candidates *c)
{
	vec_fini(&c->all);
	vec_fini(&c->runs);
}

/* Identity (EPS-10); the family is the same for all. Agrees with ip_addr_cmp(). */
static inline int identity_cmp(const struct candidate *a, const struct candidate *b)
{
	if (a->hi != b->hi)
		return a->hi < b->hi ? -1 : 1;
	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	return (int)a->port - (int)b->port;
}

static void add_run(struct candidates *c, const struct slice *s, uint16_t port)
{
	struct candidate *to;

	if (s->endpoints.n == 0)
		return;
	*vec_push(&c->runs) = c->all.n;
	vec_reserve(&c->all, c->all.n + s->endpoints.n);
	to = &c->all.v[c->all.n];
	vec_for_each (e, &s->endpoints) {
		uint64_t raw[2];

		memcpy(raw, e->addr.bytes, sizeof(raw));
		*to++ = (struct candidate){ .hi = be64toh(raw[0]),
					    .lo = be64toh(raw[1]),
					    .from = e,
					    .slice = s,
					    .port = port };
	}
	c->all.n += s->endpoints.n;
}

/* The next port of a slice with the name and protocol of `p`, or NULL. */
static const struct slice_port *port_next(const struct slice *s, const struct slice_port *p)
{
	const struct slice_port *next = p + 1;

	return next < vec_end(&s->ports) && next->name == p->name && next->proto == p->proto ? next
											     : NULL;
}

/* EPS-01 to EPS-07: slices of the family, their ports by name and protocol. */
static void collect(struct candidates *c, const struct svc *svc, const struct service_port *port,
		    enum ipfam fam)
{
	size_t n = 0;

	list_for_each_entry (e, &svc->slices, struct slice_entry, link)
		n += e->slice->endpoints.n;
	vec_reserve(&c->all, 2 * n);
	list_for_each_entry (e, &svc->slices, struct slice_entry, link) {
		const struct slice *s = e->slice;

		if (s->fam != fam)
			continue;
		for (const struct slice_port *p = slice_port_find(s, port->name, port->proto);
		     p != NULL; p = port_next(s, p))
			add_run(c, s, p->port);
	}
}

static void merge_two(struct candidate *to, const struct candidate *a, const struct candidate *mid,
		      const struct candidate *end)
{
	const struct candidate *b = mid;

	while (a < mid && b < end)
		*to++ = identity_cmp(b, a) < 0 ? *b++ : *a++;
	memcpy(to, a, (size_t)(mid - a) * sizeof(*a));
	memcpy(to + (mid - a), b, (size_t)(end - b) * sizeof(*b));
}

/*
 * Merge neighbouring runs until one is left, and return it. Both halves are one block: a block is
 * what glibc keeps free without returning it, and page faults of a large service cost more than
 * the merge.
 */
static const struct candidate *merge_runs(struct candidates *c)
{
	struct candidate *from;
	struct candidate *to;

	vec_reserve(&c->all, 2ULL * c->all.n);
	from = c->all.v;
	to = vec_end(&c->all);
	while (c->runs.n > 1) {
		struct candidate *swap = from;
		size_t n = 0;

		for (size_t i = 0; i < c->runs.n; i += 2) {
			size_t start = c->runs.v[i];
			size_t mid = i + 1 < c->runs.n ? c->runs.v[i + 1] : c->all.n;
			size_t end = i + 2 < c->runs.n ? c->runs.v[i + 2] : c->all.n;

			merge_two(to + start, from + start, from + mid, from + end);
			c->runs.v[n++] = start;
		}
		vec_cut(&c->runs, n);
		from = to;
		to = swap;
	}
	return from;
}

/*
 * EPS-14, EPS-15: a running endpoint takes precedence over a terminating one of the
 * same identity; then the newer slice; then the more usable endpoint.
 */
static bool does_beat(const struct candidate *a, const struct candidate *b)
{
	bool a_ends = (a->from->flags & ENDPOINT_TERMINATING) != 0;
	bool b_ends = (b->from->flags & ENDPOINT_TERMINATING) != 0;

	if (a_ends != b_ends)
		return b_ends;
	if (a->slice->version != b->slice->version)
		return a->slice->version > b->slice->version;
	return slice_endpoint_cmp(a->from, b->from) < 0;
}

bool select_is_local(const struct model *m, const struct slice_endpoint *e)
{
	const struct name *self = m->config.node_name;

	return self != NULL && e->place->node == self && self->len > 0;
}

const struct weights *service_weights(const struct service *s)
{
	return s->tuning != NULL ? s->tuning->by_name : NULL;
}

/* Without its ejection. */
static struct endpoint endpoint_of(const struct model *m, const struct svc *svc,
				   const struct selection *s, const struct candidate *c)
{
	struct endpoint e = { .addr = c->from->addr,
			      .port = c->port,
			      .flags = c->from->flags,
			      .is_local = select_is_local(m, c->from),
			      .weight = 1,
			      .from = c->from };

	if (s->weights != NULL)
		e.weight = weights_of(s->weights, &e.addr, c->from->pod, c->slice->name);
	e.is_drained = e.weight == 0 || (s->has_drains && model_is_drained(m, svc, c->from));
	return e;
}

static bool is_ejection_of(const struct model_ejection *e, const struct svc *svc)
{
	return e->ns == svc->ns && e->name == svc->name;
}

/* As model_ejection() of each endpoint: an ejection from all ports comes first. */
static void mark_ejected(struct selection *s, const struct model *m, const struct svc *svc,
			 uint8_t proto)
{
	vec_for_each (x, &m->ejections) {
		struct endpoint *e = is_ejection_of(x, svc) ? selection_find(s, &x->addr) : NULL;

		for (; e != NULL && e < vec_end(&s->endpoints) &&
		       ip_addr_is_equal(&e->addr, &x->addr);
		     e++)
			if (x->port == 0 || (proto == L4PROTO_TCP && x->port == e->port &&
					     e->ejection == EJECTION_NONE))
				e->ejection = x->is_manual ? EJECTION_MANUAL : EJECTION_OWN;
	}
}

/* Fill `ret->endpoints`: sorted, one per identity. */
static void merge(struct selection *ret, const struct model *m, const struct svc *svc,
		  const struct service_port *port, enum ipfam fam)
{
	FINI(candidates_fini) struct candidates c = { 0 };
	const struct candidate *i;
	const struct candidate *end;

	collect(&c, svc, port, fam);
	if (c.all.n == 0)
		return;
	ret->has_drains = model_has_drains(m, svc);
	i = merge_runs(&c);
	vec_reserve(&ret->endpoints, c.all.n);
	end = i + c.all.n;
	while (i < end) {
		const struct candidate *best = i;

		for (i++; i < end && identity_cmp(i, best) == 0; i++)
			if (does_beat(i, best))
				best = i;
		*vec_push(&ret->endpoints) = endpoint_of(m, svc, ret, best);
	}
	ret->sums.twice = (int32_t)(c.all.n - ret->endpoints.n);
	mark_ejected(ret, m, svc, port->proto);
}

/* --- classify ------------------------------------------------------------------ */

static bool is_ready(const struct endpoint *e)
{
	return (e->flags & ENDPOINT_READY) != 0 && !e->is_drained;
}

static bool is_fallback(const struct endpoint *e)
{
	const unsigned int both = ENDPOINT_SERVING | ENDPOINT_TERMINATING;

	return (e->flags & both) == both && !e->is_drained;
}

/* Add the endpoints of `s` to `t`, `sign` times. */
static void count(struct selection_sums *t, const struct selection *s, const struct model *m,
		  int sign)
{
	vec_for_each (e, &s->endpoints) {
		if (!is_ready(e)) {
			t->fallback += sign * is_fallback(e);
			continue;
		}
		t->ready += sign;
		t->ready_local += sign * e->is_local;
		t->node_hinted += sign * (e->from->place->nodes.n > 0);
		t->zone_hinted += sign * (e->from->place->zones.n > 0);
		t->node_ours += sign * hints_contain(&e->from->place->nodes, m->config.node_name);
		t->zone_ours += sign * hints_contain(&e->from->place->zones, m->env.zone);
	}
}

/* POL-13 to POL-17: every ready endpoint must be hinted, and one for this node or zone. */
static enum topology_mode topology(const struct selection_sums *t)
{
	if (t->ready == 0)
		return TOPOLOGY_OFF;
	if (t->node_hinted == t->ready && t->node_ours > 0)
		return TOPOLOGY_SAME_NODE;
	if (t->zone_hinted == t->ready && t->zone_ours > 0)
		return TOPOLOGY_SAME_ZONE;
	return TOPOLOGY_OFF;
}

/* Table 4.3. `has_ready`: the set has a ready endpoint. */
static enum exclusion classify_condition(const struct endpoint *e, bool has_ready)
{
	if (e->is_drained)
		return e->weight == 0 ? EXCLUSION_WEIGHTLESS : EXCLUSION_DRAINED;
	if (is_ready(e))
		return EXCLUSION_NONE;
	if ((e->flags & ENDPOINT_TERMINATING) == 0)
		return EXCLUSION_NOT_READY;
	if ((e->flags & ENDPOINT_SERVING) == 0)
		return EXCLUSION_NOT_SERVING;
	return has_ready ? EXCLUSION_TERMINATING : EXCLUSION_NONE;
}

/* POL-03, POL-04. */
static enum exclusion classify_cluster(const struct endpoint *e, const struct selection *s,
				       const struct model *m, const struct selection_sums *t)
{
	if (!s->uses_cluster)
		return EXCLUSION_SET_UNUSED;
	if (is_ready(e) && s->topology == TOPOLOGY_SAME_NODE &&
	    !hints_contain(&e->from->place->nodes, m->config.node_name))
		return EXCLUSION_OTHER_NODE;
	if (is_ready(e) && s->topology == TOPOLOGY_SAME_ZONE &&
	    !hints_contain(&e->from->place->zones, m->env.zone))
		return EXCLUSION_OTHER_ZONE;
	return classify_condition(e, t->ready > 0);
}

/* POL-06 to POL-08; hints do not count. */
static enum exclusion classify_local(const struct endpoint *e, const struct selection *s,
				     const struct selection_sums *t)
{
	if (!s->uses_local)
		return EXCLUSION_SET_UNUSED;
	if (!e->is_local)
		return EXCLUSION_NOT_LOCAL;
	return classify_condition(e, t->ready_local > 0);
}

/* Leave ejected endpoints out of a set of *n, down to `least`. */
static void leave_out(struct selection *s, bool is_local_set, enum ejection by, size_t least,
		      size_t *n)
{
	vec_for_each (e, &s->endpoints) {
		uint8_t *why = is_local_set ? &e->local : &e->cluster;

		if (*n == least || e->ejection != by || *why != EXCLUSION_NONE)
			continue;
		*why = EXCLUSION_EJECTED;
		(*n)--;
	}
}

/* At most half of a set. */
static void leave_out_ejected(struct selection *s, bool is_local_set, size_t *n)
{
	size_t least = *n - *n / 2;

	leave_out(s, is_local_set, EJECTION_MANUAL, least, n);
	leave_out(s, is_local_set, EJECTION_OWN, least, n);
}

/* With the sums of the whole selection. */
static void classify_each(struct selection *s, const struct model *m,
			  const struct selection_sums *t)
{
	s->topology = s->uses_cluster ? topology(t) : TOPOLOGY_OFF;
	vec_for_each (e, &s->endpoints) {
		e->cluster = (uint8_t)classify_cluster(e, s, m, t);
		e->local = (uint8_t)classify_local(e, s, t);
		s->n_cluster += e->cluster == EXCLUSION_NONE;
		s->n_local += e->local == EXCLUSION_NONE;
	}
}

static void classify(struct selection *s, const struct model *m)
{
	const struct selection_sums *t = &s->sums;

	count(&s->sums, s, m, 1);
	classify_each(s, m, t);
	if (m->ejections.n > 0) {
		leave_out_ejected(s, false, &s->n_cluster);
		leave_out_ejected(s, true, &s->n_local);
	}
	s->is_cluster_fallback = t->ready == 0 && s->n_cluster > 0;
	s->is_local_fallback = t->ready_local == 0 && s->n_local > 0;
	s->has_any = s->n_cluster > 0 || (s->uses_local && (t->ready > 0 || t->fallback > 0));
}

/* --- changes ---------------------------------------------------------------------- */

/* Searches for addresses in slices: more take longer than selecting 50,000 endpoints. */
#define SEARCHES_MAX 20000

/* Is a port number twice among those of the name and protocol of `p`, the first one? */
static bool is_port_twice(const struct slice *s, const struct slice_port *p)
{
	for (const struct slice_port *next; (next = port_next(s, p)) != NULL; p = next)
		if (next->port == p->port)
			return true;
	return false;
}

/*
 * Has another slice, or another entry of this one, the address of entry `e` of the new version of
 * a slice? Also true when `*searches` is at its limit.
 */
static bool is_twice(const struct svc *svc, const struct slice_change *change,
		     const struct slice_endpoint *e, size_t *searches)
{
	const struct slice *in = change->entry->slice;
	const struct slice_endpoint *near = vec_search(&in->endpoints, &e->addr, ip_addr_cmp);

	assert(near != NULL);
	if ((near > in->endpoints.v && ip_addr_is_equal(&near[-1].addr, &e->addr)) ||
	    (near + 1 < vec_end(&in->endpoints) && ip_addr_is_equal(&near[1].addr, &e->addr)))
		return true;
	/* No other slice had it then, and one that has it now has this search for its entry. */
	if (vec_search(&change->was->endpoints, &e->addr, ip_addr_cmp) != NULL)
		return false;
	list_for_each_entry (entry, &svc->slices, struct slice_entry, link) {
		const struct slice *s = entry->slice;

		if (s == in || s->fam != in->fam)
			continue;
		if (++*searches > SEARCHES_MAX ||
		    vec_search(&s->endpoints, &e->addr, ip_addr_cmp) != NULL)
			return true;
	}
	return false;
}

/* The endpoints of one entry of a slice: one for each of its ports that serves `port`. */
static void add_entry(struct selection *to, const struct model *m, const struct svc *svc,
		      const struct service_port *port, const struct slice *s,
		      const struct slice_endpoint *e)
{
	for (const struct slice_port *p = slice_port_find(s, port->name, port->proto); p != NULL;
	     p = port_next(s, p)) {
		const struct candidate c = { .from = e, .slice = s, .port = p->port };

		*vec_push(&to->endpoints) = endpoint_of(m, svc, to, &c);
	}
}

/* The entries that one version of a slice has and the other has not. False: some are twice. */
static bool add_change(struct selection *gone, struct selection *come, const struct model *m,
		       const struct svc *svc, const struct service_port *port,
		       const struct slice_change *change, size_t *searches)
{
	const struct slice *was = change->was;
	const struct slice *is = change->entry->slice;
	const struct slice_port *p = slice_port_find(is, port->name, port->proto); /* as in `was` */
	size_t i = 0;
	size_t j = 0;

	if (p == NULL)
		return true;
	if (is_port_twice(is, p))
		return false;
	while (i < was->endpoints.n || j < is->endpoints.n) {
		int c = i == was->endpoints.n ? 1
			: j == is->endpoints.n
				? -1
				: slice_endpoint_cmp(&was->endpoints.v[i], &is->endpoints.v[j]);

		if (c < 0)
			add_entry(gone, m, svc, port, was, &was->endpoints.v[i]);
		else if (c > 0 && is_twice(svc, change, &is->endpoints.v[j], searches))
			return false;
		else if (c > 0)
			add_entry(come, m, svc, port, is, &is->endpoints.v[j]);
		i += c <= 0;
		j += c >= 0;
	}
	return true;
}

static bool has_local(const struct selection *s)
{
	return vec_has(&s->endpoints, e, e->is_local);
}

/*
 * Do all other endpoints stay in the sets in which they are, or not? Endpoints of several slices
 * depend on the versions of these. The local set has local endpoints only.
 */
static bool do_others_stay(const struct selection *gone, const struct selection *come,
			   const struct selection_sums *was, const struct selection_sums *is)
{
	if (was->twice > 0 || was->ready == 0 || is->ready == 0)
		return false;
	if (gone->uses_cluster && topology(was) != topology(is))
		return false;
	return !gone->uses_local || (was->ready_local > 0 && is->ready_local > 0) ||
	       (!has_local(gone) && !has_local(come));
}

/* --- entry points ----------------------------------------------------------------- */

static struct selection selection_of(const struct service *s, size_t port, enum ipfam fam)
{
	bool is_external = service_is_external(s, port, fam);

	return (struct selection){
		.uses_cluster = !s->is_itp_local || is_external,
		.uses_local = s->is_itp_local || (service_is_etp_local(s) && is_external),
		.weights = service_weights(s),
	};
}

bool select_changes(struct selection *gone, struct selection *come, struct selection_sums *sums,
		    const struct model *m, const struct svc *svc, size_t port, enum ipfam fam)
{
	const struct selection_sums was = *sums;
	size_t searches = 0;

	*gone = *come = selection_of(svc->service, port, fam);
	gone->has_drains = come->has_drains = model_has_drains(m, svc);
	if (vec_has(&m->ejections, e, is_ejection_of(e, svc)))
		return false;
	vec_for_each (c, &svc->track->slices) {
		if (!slice_ports_are_equal(c->was, c->entry->slice))
			return false;
		if (c->was->fam == fam &&
		    !add_change(gone, come, m, svc, &svc->service->ports.v[port], c, &searches))
			return false;
	}
	count(sums, gone, m, -1);
	count(sums, come, m, 1);
	classify_each(gone, m, &was);
	classify_each(come, m, sums);
	return do_others_stay(gone, come, &was, sums);
}

void select_endpoints(struct selection *ret, const struct model *m, const struct svc *svc,
		      size_t port, enum ipfam fam)
{
	const struct service *s = svc->service;

	*ret = selection_of(s, port, fam);
	merge(ret, m, svc, &s->ports.v[port], fam);
	classify(ret, m);
}

void select_merged(struct selection *ret, const struct model *m, const struct svc *svc, size_t port,
		   enum ipfam fam)
{
	*ret = (struct selection){ 0 };
	merge(ret, m, svc, &svc->service->ports.v[port], fam);
}

void selection_fini(struct selection *s)
{
	vec_fini(&s->endpoints);
}

struct endpoint *selection_find(const struct selection *s, const struct ip_addr *a)
{
	size_t lo = bisect(s->endpoints.n, i, ip_addr_cmp(&s->endpoints.v[i].addr, a) < 0);

	return lo < s->endpoints.n && ip_addr_is_equal(&s->endpoints.v[lo].addr, a)
		       ? &s->endpoints.v[lo]
		       : NULL;
}

#define WEIGHT_WORK 4 /* weights_of(), in endpoints without weights */

size_t select_work(const struct svc *svc, size_t n)
{
	return n * (service_weights(svc->service) != NULL ? WEIGHT_WORK : 1) + svc->n_slices + 1;
}

/* Most ports have the addresses of the ports before them, all in the same order. */
static void local_ready_add(struct local_ready *l, const struct selection *s)
{
	size_t had = l->v.n;
	size_t j = 0;

	vec_for_each (e, &s->endpoints) {
		if (!e->is_local || !is_ready(e))
			continue;
		while (j < had && ip_addr_cmp(&l->v.v[j], &e->addr) < 0)
			j++;
		if (j < had && ip_addr_is_equal(&l->v.v[j], &e->addr))
			continue;
		if (l->v.n == had || !ip_addr_is_equal(&l->v.v[l->v.n - 1], &e->addr))
			*vec_push(&l->v) = e->addr;
	}
	if (l->v.n > had)
		vec_sort(&l->v, ip_addr_cmp);
}

bool local_ready_step(struct local_ready *l, const struct model *m, const struct svc *svc,
		      enum ipfam fam, size_t max)
{
	const struct service *s = svc->service;

	for (size_t work = 0; s != NULL && l->port < s->ports.n; l->port++) {
		FINI(selection_fini) struct selection sel = { .weights = service_weights(s) };

		if (work >= max)
			return true;
		merge(&sel, m, svc, &s->ports.v[l->port], fam);
		local_ready_add(l, &sel);
		work += select_work(svc, sel.endpoints.n) + l->v.n;
	}
	return false;
}
