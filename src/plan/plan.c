/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/plan - build the desired rows of a service.
 *
 * All policy about frontends is in this file: which exist (section 3 of
 * doc/behaviour.md), their targets by source (sections 5.3 and 7), masquerading
 * (6.2). model/select decides which endpoints a pool has.
 */
#include "plan/plan.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/rendezvous.h"
#include "model/select.h"
#include "model/track.h"
#include "model/tuning.h"
#include "plan/between.h"
#include "plan/private.h"
#include "plan/table.h"

void plan_init(struct plan *p, struct model *m, const struct plan_traits *traits)
{
	*p = (struct plan){ .model = m, .traits = traits };
	plan_ids_init(p);
}

void plan_fini(struct plan *p)
{
	htable_for_each_entry (svc, &p->model->services, struct svc) {
		plan_rows_close(svc->rows);
		svc->rows = NULL;
		free(svc->claims);
		svc->claims = NULL;
		svc->is_claimed = svc->is_unchanged = false;
	}
	plan_claims_fini(p);
	plan_ids_fini(p);
}

/* --- building --- */

struct build {
	const struct plan *p;
	struct svc *svc;
	const struct service *s;
	struct plan_rows *rows;
	const struct plan_rows *old; /* programmed */
	enum ipfam fam;              /* the next port to build */
	size_t port;
	size_t n_seen; /* work of the current step, in endpoints */
	size_t n_selected;
	uint32_t tuning;             /* hash of the annotations' texts */
	uint32_t forwarding;         /* as requested */
	struct selection_sums *sums; /* to fill in; NULL: not needed */
};

static struct plan_target target_to(enum plan_scope scope, size_t n, enum plan_verdict if_empty)
{
	return (struct plan_target){
		.verdict = (uint8_t)(n > 0 ? PLAN_VERDICT_POOL : if_empty),
		.scope = (uint8_t)scope,
	};
}

static void frontend_add(struct build *b, const struct plan_frontend *like,
			 const struct ip_addr *addr, uint16_t port, enum plan_frontend_kind kind)
{
	struct plan_frontend *f = vec_push(&b->rows->frontends);

	*f = *like;
	f->addr = *addr;
	f->port = port;
	f->kind = (uint8_t)kind;
}

static bool ranges_are_unrestricted(const struct service *s, enum ipfam fam)
{
	if (vec_has(&s->source_ranges, r, ip_fam(&r->addr) == fam && r->len == 0)) /* SVC-21 */
		return true;
	/* SVC-22: no range of this family means unrestricted. SVC-23: unless one was unreadable. */
	return !vec_has(&s->source_ranges, r, ip_fam(&r->addr) == fam) &&
	       s->n_bad_source_ranges == 0;
}

/*
 * The kernel looks a client up once for each length of ranges, so there are few lengths: a range of
 * another one becomes 2, 4 or 8.
 */
static void ranges_split(struct plan_pool *pool)
{
	VEC(struct ip_prefix) parts = { 0 };

	vec_for_each (r, &pool->ranges) {
		unsigned int n_bits = service_range_bits(r);

		for (unsigned int i = 0; i < 1U << n_bits; i++)
			*vec_push(&parts) = ip_prefix_part(r, r->len + n_bits, i);
	}
	vec_fini(&pool->ranges);
	memcpy(&pool->ranges, &parts, sizeof(pool->ranges));
}

static void pool_guard(struct build *b, struct plan_pool *pool)
{
	enum ipfam fam = pool->fam;
	const struct ip_addr *node_ip = &b->p->model->env.node_ip[fam];
	bool is_node_inside = false;

	vec_for_each (r, &b->s->source_ranges) {
		if (ip_fam(&r->addr) != fam)
			continue;
		*vec_push(&pool->ranges) = *r;
		is_node_inside |= ip_is_set(node_ip) && ip_prefix_contains(r, node_ip);
	}
	vec_for_each (in, &b->s->ingress) /* SVC-25 */
		if (is_node_inside && !in->is_proxy_mode && ip_fam(&in->addr) == fam)
			*vec_push(&pool->ranges) = ip_prefix_host(&in->addr);
	vec_cut(&pool->ranges, ip_prefixes_join(pool->ranges.v, pool->ranges.n));
	ranges_split(pool);
}

static uint32_t forwarding_requested(const struct plan *p, const struct service *s)
{
	uint32_t f = FORWARDING_MASQUERADE;

	if (p->traits->has_forwarding && s->tuning != NULL && s->tuning->forwarding != NULL)
		(void)!forwarding_parse(&f, s->tuning->forwarding->text, NULL);
	return f;
}

/* A backend that gets packets unchanged must listen on the Service's port. */
static uint32_t forwarding_of(const struct build *b, const struct service_port *port,
			      const struct selection *sel)
{
	bool is_local = service_is_etp_local(b->s);

	if (b->forwarding == FORWARDING_MASQUERADE)
		return FORWARDING_MASQUERADE;
	vec_for_each (ep, &sel->endpoints)
		if ((is_local ? ep->local : ep->cluster) == EXCLUSION_NONE &&
		    ep->port != port->port)
			return FORWARDING_MASQUERADE;
	return b->forwarding;
}

static void external_frontends(struct build *b, const struct plan_frontend *like, enum ipfam fam,
			       const struct service_port *port, uint32_t forwarding)
{
	const struct model *m = b->p->model;
	struct plan_frontend external = *like;
	struct plan_frontend guarded;

	external.forwarding = forwarding;
	if (forwarding != FORWARDING_MASQUERADE && external.masq == PLAN_MASQ_ALWAYS)
		external.masq = PLAN_MASQ_UNSET;
	guarded = external;
	guarded.is_guarded = !ranges_are_unrestricted(b->s, fam);
	vec_for_each (in, &b->s->ingress) /* SVC-16, SVC-18; SVC-24: guarded */
		if (!in->is_proxy_mode && ip_fam(&in->addr) == fam)
			frontend_add(b, &guarded, &in->addr, port->port, PLAN_FRONTEND_LB);
	vec_for_each (ip, &b->s->external_ips) /* SVC-13, SVC-15 */
		if (!m->config.no_external_ips && ip_fam(ip) == fam)
			frontend_add(b, &external, ip, port->port, PLAN_FRONTEND_EXTERNALIP);
	vec_for_each (addr, &m->env.nodeport_addrs) /* SVC-06 */
		if (port->node_port != 0 && ip_fam(addr) == fam &&
		    !(ip_addr_is_loopback(addr) && model_is_client_port(m, port->node_port)))
			frontend_add(b, like, addr, port->node_port, PLAN_FRONTEND_NODEPORT);
}

static void port_frontends(struct build *b, size_t index, enum ipfam fam,
			   const struct selection *sel)
{
	const struct service_port *port = &b->s->ports.v[index];
	enum plan_verdict if_local_empty = sel->has_any ? PLAN_VERDICT_DROP : PLAN_VERDICT_REJECT;
	bool is_external = service_is_external(b->s, index, fam);
	struct plan_target cluster =
		target_to(PLAN_SCOPE_CLUSTER, sel->n_cluster, PLAN_VERDICT_REJECT);
	struct plan_target local = target_to(PLAN_SCOPE_LOCAL, sel->n_local, if_local_empty);
	struct plan_frontend f = { .proto = port->proto, .port_index = (uint16_t)index };

	f.masq = PLAN_MASQ_CLUSTERIP;
	f.target = b->s->is_itp_local ? local : cluster; /* SVC-30; REJ-01, REJ-02 */
	frontend_add(b, &f, &b->s->cluster_ip[fam], port->port, PLAN_FRONTEND_CLUSTERIP);
	if (!is_external)
		return;
	if (!service_is_etp_local(b->s)) {
		f.masq = PLAN_MASQ_ALWAYS;
		f.target = cluster;
	} else {
		f.masq = PLAN_MASQ_HOST;
		f.target = local;
		f.is_split = sel->has_any; /* POL-25, REJ-03; without endpoints: reject all */
		f.inside = sel->has_any ? cluster : (struct plan_target){ 0 };
	}
	external_frontends(b, &f, fam, port, forwarding_of(b, port, sel));
}

/* Keep the programmed id, slots and local ids, unless affinity was switched. */
static void pool_inherit(const struct build *b, struct plan_pool *pool)
{
	const struct plan_pool *programmed = plan_rows_pool_like(b->old, pool);

	if (programmed == NULL)
		plan_affinity_inherit(b->p, b->old, pool);
	if (programmed == NULL || (programmed->affinity_s != 0) != (pool->affinity_s != 0))
		return;
	pool->id = programmed->id;
	pool->next_aff_id = programmed->next_aff_id;
	plan_slots_arrange(pool->backends.v, pool->backends.n, programmed->backends.v,
			   programmed->backends.n);
}

/* The weights of the backends, and the slots of a plane that balances by slots. */
static void pool_weigh(struct build *b, struct plan_pool *pool, const struct selection *sel)
{
	static const struct plan_pool none;
	const struct plan_pool *was = plan_rows_pool_like(b->old, pool);

	if (service_weights(b->s) == NULL || pool->backends.n == 0 ||
	    pool->backends.n > PLAN_WEIGHT_SLOTS_MAX)
		return;
	pool->weights = xmalloc(pool->backends.n);
	for (size_t i = 0; i < pool->backends.n; i++) {
		const struct endpoint *ep =
			vec_search(&sel->endpoints, &pool->backends.v[i], ip_endpoint_cmp);

		assert(ep != NULL);
		pool->weights[i] = ep->weight;
	}
	if (!b->p->traits->weighs_by_slots || pool->hashing != PLAN_HASHING_NONE)
		return;
	if (was == NULL || was->id != pool->id)
		was = &none;
	plan_table_weigh(pool, b->s, was);
	b->n_seen += pool->table.n + plan_pool_slots(was);
}

/* Hashes: comparing pointers is unsafe, as names may be freed and their memory used again. */
static uint32_t texts_hash(const struct service_tuning *t)
{
	const struct name *const texts[] = { t->scheduler, t->weights, t->drain_timeout };
	uint32_t parts[ARRAY_SIZE(texts)];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		parts[i] = texts[i] != NULL ? texts[i]->node.hash : 0;
	return hash_bytes(parts, sizeof(parts));
}

/* Of the annotations and the affinity; with affinity, of the policy that leads clients inside. */
static uint32_t tuning_of(const struct build *b, uint32_t affinity_s)
{
	uint32_t parts[] = { b->tuning, affinity_s, 0 };

	if (b->p->traits->class_affinity != NULL) /* the class has the affinity */
		parts[1] = 0;
	parts[2] = parts[1] != 0 && service_is_etp_local(b->s);
	if (b->s->tuning == NULL && parts[1] == 0)
		return 0;
	return hash_bytes(parts, sizeof(parts)) | 1;
}

/* Local ids that a pool of `n` backends takes: including those of its peer. */
static size_t n_local_ids(const struct build *b, const struct selection *sel, size_t n)
{
	if (b->s->affinity_s == 0 || !b->p->traits->shares_affinity || !sel->uses_cluster ||
	    !sel->uses_local)
		return n;
	n = 0;
	vec_for_each (ep, &sel->endpoints)
		n += ep->local == EXCLUSION_NONE || ep->cluster == EXCLUSION_NONE;
	return n;
}

static void port_pool(struct build *b, const struct service_port *port, enum ipfam fam,
		      enum plan_scope scope, const struct selection *sel)
{
	size_t n = scope == PLAN_SCOPE_LOCAL ? sel->n_local : sel->n_cluster;
	bool preserves = b->p->model->config.preserves_local_source;
	struct plan_pool like = { .fam = (uint8_t)fam,
				  .scope = (uint8_t)scope,
				  .proto = port->proto,
				  .port_name = port->name,
				  .next_aff_id = 1 };
	struct plan_pool *pool;

	like.is_sticky = b->s->affinity_s != 0;
	if (n_local_ids(b, sel, n) <= PLAN_AFFINITY_BACKENDS_MAX)
		like.affinity_s = b->s->affinity_s;
	if (!like.is_sticky && n <= PLAN_HASH_BACKENDS_MAX &&
	    b->rows->pools.n < PLAN_HASH_POOLS_MAX && b->p->traits->hashing != NULL)
		like.hashing = (uint8_t)b->p->traits->hashing(b->s);
	like.tuning = tuning_of(b, like.affinity_s);
	pool = vec_push(&b->rows->pools);
	*pool = like;
	(void)name_ref(pool->port_name);
	vec_reserve(&pool->backends, n);
	vec_for_each (ep, &sel->endpoints)
		if ((scope == PLAN_SCOPE_LOCAL ? ep->local : ep->cluster) == EXCLUSION_NONE)
			*vec_push(&pool->backends) = plan_backend_of(ep, preserves);
	assert(pool->backends.n == n);
	pool_inherit(b, pool);
	pool_weigh(b, pool, sel);
}

/* A frontend's source ranges are looked up under the id of its `target` pool. */
static void guard_pools(struct build *b)
{
	const struct plan_pool *first[IPFAM_N] = { 0 }; /* the others have equal ranges */

	vec_for_each (f, &b->rows->frontends) {
		struct plan_pool *pool;

		if (!f->is_guarded)
			continue;
		pool = plan_rows_pool_of(b->rows, f, f->target.scope);
		assert(pool != NULL);
		if (pool->ranges.n > 0)
			continue;
		if (first[pool->fam] != NULL) {
			vec_append(&pool->ranges, &first[pool->fam]->ranges);
			continue;
		}
		pool_guard(b, pool);
		first[pool->fam] = pool;
	}
}

/*
 * Of two frontends of one service with one key, the kind that has precedence comes first. It is
 * kept, and guarded if one of the two is: REJ-10 applies to the address and port.
 */
static int frontend_cmp(const void *a, const void *b)
{
	const struct plan_frontend *fa = a;
	const struct plan_frontend *fb = b;

	return ip_tuple_cmp(fa, fb) ?: plan_kind_rank(fa->kind) - plan_kind_rank(fb->kind) ?:
	       CMP(fa->port_index, fb->port_index);
}

static void frontends_sort(struct plan_rows *rows)
{
	size_t kept = 0;

	if (rows->frontends.n == 0)
		return;
	vec_sort(&rows->frontends, frontend_cmp);
	for (size_t i = 1; i < rows->frontends.n; i++)
		if (ip_tuple_cmp(&rows->frontends.v[kept], &rows->frontends.v[i]) != 0)
			rows->frontends.v[++kept] = rows->frontends.v[i];
		else
			rows->frontends.v[kept].is_guarded |= rows->frontends.v[i].is_guarded;
	vec_cut(&rows->frontends, kept + 1);
}

/* Two ports with one name and protocol, which the API rejects, share a pool. */
static void pools_sort(struct plan_rows *rows)
{
	size_t kept = 0;

	if (rows->pools.n < 2)
		return;
	vec_sort(&rows->pools, plan_pool_key_cmp);
	for (size_t i = 1; i < rows->pools.n; i++) {
		if (plan_pool_key_cmp(&rows->pools.v[kept], &rows->pools.v[i]) != 0)
			rows->pools.v[++kept] = rows->pools.v[i];
		else
			plan_pool_fini(&rows->pools.v[i]);
	}
	vec_cut(&rows->pools, kept + 1);
}

static void port_rows(struct build *b, size_t i, enum ipfam fam)
{
	FINI(selection_fini) struct selection sel;

	select_endpoints(&sel, b->p->model, b->svc, i, fam);
	if (sel.uses_cluster)
		port_pool(b, &b->s->ports.v[i], fam, PLAN_SCOPE_CLUSTER, &sel);
	if (sel.uses_local)
		port_pool(b, &b->s->ports.v[i], fam, PLAN_SCOPE_LOCAL, &sel);
	port_frontends(b, i, fam, &sel);
	if (b->sums != NULL)
		b->sums[plan_sums_at(b->s, i, fam)] = sel.sums;
	b->n_selected += sel.endpoints.n;
	b->n_seen += select_work(b->svc, sel.endpoints.n);
}

static void build_open(struct build **ret, const struct plan *p, struct svc *svc)
{
	struct build *b = *ret = xcalloc(1, sizeof(*b));

	*b = (struct build){
		.p = p, .svc = svc, .s = svc->service, .old = plan_rows_or_none(svc->rows)
	};
	if (!service_is_proxied(svc->service))
		return;
	b->rows = xcalloc(1, sizeof(*b->rows));
	b->rows->svc = svc;
	b->forwarding = forwarding_requested(p, b->s);
	if (b->s->tuning != NULL)
		b->tuning = texts_hash(b->s->tuning);
	/* Most services have one of each: rows grown and shrunk later leave holes in the heap. */
	vec_reserve(&b->rows->pools, b->s->ports.n);
	vec_reserve(&b->rows->frontends, b->s->ports.n);
	b->rows->is_of_host = model_host_cluster_ip(p->model, b->s) != NULL;
}

void plan_build_open(struct build **ret, const struct plan *p, struct svc *svc)
{
	build_open(ret, p, svc);
	svc_track_close(svc);
	if (!plan_is_patchable(p, svc->service))
		return;
	svc_track_open(svc, IPFAM_N * svc->service->ports.n);
	(*ret)->sums = svc->track->next;
}

bool plan_build_step(struct build *b, size_t max)
{
	b->n_seen = 0;
	for (; b->rows != NULL && b->fam < IPFAM_N; b->fam++, b->port = 0) {
		if (!service_has_family(b->s, b->fam) || b->p->left_out >> b->fam & 1)
			continue;
		for (; b->port < b->s->ports.n; b->port++) {
			if (b->n_seen >= max)
				return true;
			port_rows(b, b->port, b->fam);
		}
	}
	return false;
}

static struct plan_rows *build_end(struct build *b)
{
	struct plan_rows *rows = b->rows;

	if (rows != NULL) {
		pools_sort(rows);
		frontends_sort(rows);
		guard_pools(b);
	}
	free(b);
	return rows;
}

struct plan_rows *plan_rows_desired(const struct plan *p, struct svc *svc)
{
	struct build *b;

	build_open(&b, p, svc);
	(void)plan_build_step(b, SIZE_MAX);
	return build_end(b);
}

void plan_build_close(struct build *b)
{
	if (b == NULL)
		return;
	plan_rows_close(b->rows);
	free(b);
}

struct plan_rows *plan_build_end(struct plan *p, struct build *b)
{
	struct svc *svc = b->svc;
	struct plan_rows *rows;

	p->n_selected += b->n_selected;
	rows = build_end(b);
	plan_claims_follow(p, svc, rows);
	return rows;
}

/* Upper bound of the slots of a desired pool of `n` backends; 0: it has no table. */
static size_t slots_max(const struct plan *p, const struct service *s, size_t n)
{
	if (n > 0 && p->traits->hashing != NULL && p->traits->hashing(s) != PLAN_HASHING_NONE)
		return RENDEZVOUS_SLOTS;
	if (!p->traits->weighs_by_slots || service_weights(s) == NULL)
		return 0;
	return MAX(MIN(n * WEIGHT_MAX, plan_weight_slots_max(s)), n);
}

/* Source ranges of a port at most, of both families. */
static size_t ranges_max(const struct service *s)
{
	size_t n = s->source_ranges.n > 0 ? s->ingress.n : 0; /* SVC-25 */

	vec_for_each (r, &s->source_ranges)
		n += (size_t)1 << service_range_bits(r);
	return n;
}

size_t plan_frontends_max(const struct plan *p, const struct service *s)
{
	size_t n_addrs = s->external_ips.n + s->ingress.n;

	for (int fam = 0; fam < IPFAM_N; fam++)
		n_addrs += ip_is_set(&s->cluster_ip[fam]);
	if (s->type != SERVICE_TYPE_CLUSTERIP)
		n_addrs += p->model->env.nodeport_addrs.n;
	return s->ports.n * n_addrs;
}

/* Stop when the answer is known: called for each change, also of a service with 500 slices. */
bool plan_is_large(const struct plan *p, const struct svc *svc)
{
	const struct plan_rows *rows = plan_rows_or_none(svc->rows);
	const struct service *s = svc->service;
	size_t max = p->piece_work;
	size_t work = plan_work(p, svc, NULL, NULL, 0);
	size_t n = 0;

	if (p->piece_work == 0)
		return false;
	if (s != NULL && s->ports.n > 0) {
		bool has_ids = s->affinity_s != 0 && p->traits->class_affinity != NULL;

		if ((size_t)s->ports.n * svc->n_slices > max)
			return true; /* slices may be many, and without endpoints */
		for (struct list *l = svc->slices.next; l != &svc->slices && n <= max; l = l->next)
			n += list_entry(l, struct slice_entry, link)->slice->endpoints.n;
		n = s->ports.n * ((n << has_ids) * work + svc->n_slices + slots_max(p, s, n) +
				  ranges_max(s)) +
		    plan_frontends_max(p, s);
	}
	n += rows->frontends.n;
	for (size_t i = 0; i < rows->pools.n && n <= max; i++)
		n += plan_pool_cost(p, &rows->pools.v[i], work) + rows->pools.v[i].ranges.n;
	return n > max;
}

struct plan_rows *plan_rows_build(struct plan *p, struct svc *svc)
{
	struct plan_rows *rows = plan_rows_desired(p, svc);

	svc_track_close(svc);
	plan_claims_follow(p, svc, rows);
	return rows;
}

/* Which frontends a service has depends on its object and this node, not on endpoints. */
void plan_claim(struct plan *p, struct svc *svc)
{
	static const struct selection none;
	struct build b = { .p = p, .svc = svc, .s = svc->service };

	svc->is_unchanged = true;
	plan_claims_size(p, svc);
	if (svc->is_claimed)
		return;
	svc->is_claimed = true;
	if (service_is_proxied(svc->service)) {
		b.rows = xcalloc(1, sizeof(*b.rows));
		b.forwarding = forwarding_requested(p, b.s);
		for (int fam = 0; fam < IPFAM_N; fam++)
			for (size_t i = 0; !(p->left_out >> fam & 1) &&
					   service_has_family(b.s, fam) && i < b.s->ports.n;
			     i++)
				port_frontends(&b, i, fam, &none);
		frontends_sort(b.rows);
	}
	plan_claims_replace(p, svc, b.rows);
	plan_rows_close(b.rows);
}

/* --- numbers --- */

static void target_number(const struct plan_rows *rows, const struct plan_frontend *f,
			  struct plan_target *t)
{
	const struct plan_pool *pool;

	if (t->verdict == PLAN_VERDICT_UNSET)
		return;
	pool = plan_rows_pool_of(rows, f, t->scope);
	assert(pool != NULL);
	t->pool_id = pool->id;
	t->class = t->verdict == PLAN_VERDICT_POOL ? pool->class : 0;
}

static void pool_number(struct plan *p, const struct plan_rows *rows, struct plan_pool *pool)
{
	struct plan_pool *peer = plan_affinity_peer(p, rows, pool);

	if (pool->id == 0 && peer != NULL && peer->id != 0)
		pool->id = peer->id ^ PLAN_POOL_LOCAL;
	if (pool->id == 0)
		pool->id = plan_id_take(p, pool->fam);
	if (pool->id != 0)
		pool->id |= plan_affinity_id_bit(p, pool);
	if (pool->affinity_s != 0 && (peer == NULL || pool->scope == PLAN_SCOPE_CLUSTER))
		plan_affinity_number(pool, peer, rows->svc->rows);
}

static uint16_t pool_class(const struct plan_traits *traits, const struct plan_pool *pool)
{
	if (pool->backends.n == 0)
		return 0;
	return pool->hashing != PLAN_HASHING_NONE
		       ? traits->hash_class(pool->hashing)
		       : traits->pool_class(plan_pool_slots(pool), pool->affinity_s);
}

void plan_rows_number(struct plan *p, struct plan_rows *rows)
{
	const struct plan_rows *programmed = plan_rows_or_none(rows->svc->rows);

	plan_rows_number_ids(p, rows);
	vec_for_each (pool, &rows->pools) {
		plan_table_make(pool, plan_rows_pool_like(programmed, pool));
		pool->n_found = 0; /* one transaction writes all frontends */
	}
}

void plan_rows_number_ids(struct plan *p, struct plan_rows *rows)
{
	vec_for_each (pool, &rows->pools) {
		pool_number(p, rows, pool);
		pool->class = pool_class(p->traits, pool);
	}
	plan_rows_index(rows);
	vec_for_each (f, &rows->frontends) {
		target_number(rows, f, &f->target);
		target_number(rows, f, &f->inside);
	}
}

/* --- outcomes --- */

void plan_rows_replace(struct plan *p, struct svc *svc, struct plan_rows *next,
		       const struct plan_rows *kept)
{
	const struct plan_rows *old = plan_rows_or_none(svc->rows);
	const struct plan_rows *new = plan_rows_or_none(next);

	if (next != NULL)
		next->is_unsticky = plan_rows_is_unsticky(p, next);
	plan_ids_free(p, svc->rows, next, kept);
	/* Differences may wrap: the sums do not. */
	p->n_unsticky += (size_t) new->is_unsticky - old->is_unsticky;
	p->n_conflicts += (size_t) new->conflicts.n - old->conflicts.n;
	p->n_host_cluster_ips += (size_t) new->is_of_host - old->is_of_host;
	svc->rows = next;
	plan_claims_hold(p, svc);
	plan_claims_size(p, svc);
}

void plan_rows_accept(struct plan *p, struct svc *svc, struct plan_rows *new)
{
	struct plan_rows *old = svc->rows;

	plan_rows_replace(p, svc, new, NULL);
	plan_rows_close(old);
	plan_claims_left(p, svc);
}

void plan_rows_reject(struct plan *p, struct svc *svc, struct plan_rows *new)
{
	plan_ids_free(p, new, svc->rows, NULL);
	plan_ids_give_back(p, new);
	plan_rows_close(new);
}
