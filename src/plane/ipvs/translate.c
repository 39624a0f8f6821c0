/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/translate - operations of the plan become elements and desired state of IPVS.
 *
 *    frontend   fe: tuple -> mark of its pool. Split (POL-25): fe_out and fe_in instead.
 *               Rejecting or dropping: a mark of its own, and idle: tuple -> mark of its pool.
 *               With affinity or forwarding (BAL-20): the mark without a pool, idle, and a virtual
 *               service by address and port. Its address in vips, a cluster IP's in cluster_ips.
 *               masq, masq_hosts, guarded by the plan. With counters per service: counted and
 *               refused, whatever its target.
 *    pool       a virtual service by mark. With affinity: its VIP:port services, and a service by
 *               mark only if pods reach a split frontend through the pool.
 *    backend    a destination of each virtual service; its address in hairpins; with counters per
 *               endpoint: reached, with the pool's mark.
 *    range      ranges, with the pool's mark
 */

#include "model/select.h"
#include "model/tuning.h"
#include "nft/decode.h"
#include "plane/ipvs/state.h"

/* Values of a target's class. */
enum pool_class {
	CLASS_PLAIN = 1,
	CLASS_AFFINITY,
};

static struct ipvs_plane *plane_of(const struct plane_tr *t)
{
	return ipvs_plane_of(&t->c->plane);
}

uint16_t ipvs_pool_class(size_t n, uint32_t affinity_s)
{
	return affinity_s != 0 ? CLASS_AFFINITY : CLASS_PLAIN;
}

void ipvs_vs_touch(struct ipvs_plane *p, struct ipvs_vs *vs, struct svc *svc)
{
	if (svc != NULL)
		vs->svc = svc;
	if (list_is_linked(&vs->touched))
		return;
	list_add_tail(&p->touched, &vs->touched);
	vs->was = vs->desired;
}

/* Desire a destination of a touched service with this weight; 0: not. */
static void dst_desire(struct ipvs_dst *d, uint16_t weight)
{
	if (!(d->flags & DST_TOUCHED)) {
		d->was_flags = d->flags;
		d->was_desired_weight = d->desired_weight;
	}
	d->flags |= DST_TOUCHED;
	d->desired_weight = weight;
}

/* --- elements --- */

static uint32_t target_pool(const struct plane_tr *t, const struct plan_target *target)
{
	return ipvs_mark_pool(&plane_of(t)->routing.marks, target->pool_id, target->scope);
}

/* Has the frontend a virtual service of its own, by address and port? */
static bool is_by_vip(const struct plan_frontend *f)
{
	return f->target.verdict == PLAN_VERDICT_POOL &&
	       (f->target.class == CLASS_AFFINITY || f->forwarding != FORWARDING_MASQUERADE);
}

static uint32_t target_mark(const struct plane_tr *t, const struct plan_target *target)
{
	switch ((enum plan_verdict)target->verdict) {
	case PLAN_VERDICT_POOL:
		return target_pool(t, target);
	case PLAN_VERDICT_DROP:
		return plane_of(t)->routing.marks.tag | IPVS_MARK_DROP;
	case PLAN_VERDICT_UNSET:
	case PLAN_VERDICT_REJECT:
		break;
	}
	return plane_of(t)->routing.marks.tag | IPVS_MARK_REJECT;
}

/* The mark for clients outside, or for all clients. */
static uint32_t frontend_mark(const struct plane_tr *t, const struct plan_frontend *f)
{
	return is_by_vip(f) ? plane_of(t)->routing.marks.tag : target_mark(t, &f->target);
}

static void vs_named(struct ipvs_vs *vs, const struct svc *svc)
{
	if (vs->ns == svc->ns && vs->name == svc->name)
		return;
	name_pair_unref(vs->ns, vs->name);
	vs->ns = name_ref(svc->ns);
	vs->name = name_ref(svc->name);
}

/* --- services by address and port --- */

static void dests_undesire(struct ipvs_vs *vs)
{
	vec_for_each (d, &vs->dests)
		if (d->desired_weight != 0)
			dst_desire(d, 0);
}

static void vip_service_attach(struct plane_tr *t, struct ipvs_vs *vs, struct ipvs_vs *pool,
			       uint32_t forwarding)
{
	ipvs_vs_touch(plane_of(t), vs, t->svc);
	vs->desired.forwarding = forwarding;
	vs->desired.exists = true;
	vs->is_whole = true;
	vs->desired.sched = pool->desired.sched;
	vs->desired.timeout_s = pool->desired.timeout_s;
	vs->drain_s = pool->drain_s;
	vs_named(vs, t->svc);
	if (vs->desired.pool != pool) { /* perhaps before the service that has it detaches it */
		dests_undesire(vs);
		list_move_tail(&pool->vip_services, &vs->sibling);
		vs->desired.pool = pool;
	}
	vec_for_each (from, &pool->dests) {
		struct ipvs_dst *d;

		if (from->desired_weight == 0)
			continue;
		d = ipvs_dst_get(vs, &from->addr, from->port);
		if (d->desired_weight != from->desired_weight)
			dst_desire(d, from->desired_weight);
	}
}

static void vip_service_detach(struct plane_tr *t, struct ipvs_vs *vs, const struct ipvs_vs *pool)
{
	if (vs == NULL || vs->desired.pool != pool) /* another service already has it */
		return;
	ipvs_vs_touch(plane_of(t), vs, t->svc);
	vs->desired.exists = false;
	vs->is_whole = true;
	vs->desired.pool = NULL;
	list_del(&vs->sibling);
	dests_undesire(vs);
}

static void vip_service(struct plane_tr *t, enum plane_side side, const struct plan_frontend *f)
{
	struct ipvs_key key = ipvs_key_vip(&f->addr, f->proto, f->port);
	struct ipvs_vs *pool =
		ipvs_vs_by_mark(plane_of(t), ip_fam(&f->addr), target_pool(t, &f->target));

	if (pool == NULL)
		return;
	if (side == PLANE_WILL)
		vip_service_attach(t, ipvs_vs_get(plane_of(t), key), pool, f->forwarding);
	else
		vip_service_detach(t, ipvs_vs_find(plane_of(t), key), pool);
}

/* --- frontends --- */

static void frontend_leads(struct plane_tr *t, enum plane_side side, const struct plan_frontend *f,
			   const uint8_t *key)
{
	enum ipfam fam = ip_fam(&f->addr);

	if (f->is_split) {
		plane_element_word(t, side, fam, IPVSSET_FE_OUT, key, frontend_mark(t, f));
		plane_element_word(t, side, fam, IPVSSET_FE_IN, key, target_mark(t, &f->inside));
	} else {
		plane_element_word(t, side, fam, IPVSSET_FE, key, frontend_mark(t, f));
	}
	if (f->target.verdict != PLAN_VERDICT_POOL || is_by_vip(f))
		plane_element_word(t, side, fam, IPVSSET_IDLE, key, target_pool(t, &f->target));
	if (is_by_vip(f))
		vip_service(t, side, f);
}

static void frontend(struct plane_tr *t, enum plane_side side, const struct plan_frontend *f)
{
	uint8_t key[NFT_KEY_MAX];

	plane_frontend(t, side, f, key);
	frontend_leads(t, side, f, key);
	if (f->is_guarded)
		plane_element_word(t, side, ip_fam(&f->addr), IPVSSET_GUARDED, key,
				   target_pool(t, &f->target));
}

/* --- pools and backends --- */

static uint32_t pool_mark(const struct plane_tr *t, const struct plan_pool *pool)
{
	return ipvs_mark_pool(&plane_of(t)->routing.marks, pool->id, pool->scope);
}

/* The virtual service of the pool, as part of the commit. */
static struct ipvs_vs *pool_touch(const struct plane_tr *t, const struct plan_pool *pool)
{
	struct ipvs_vs *vs = ipvs_vs_get(plane_of(t), ipvs_key_mark(pool->fam, pool_mark(t, pool)));

	ipvs_vs_touch(plane_of(t), vs, t->svc);
	return vs;
}

/* Set scheduler, weights and drain timeout by the settings of the service. */
static void vs_tune(struct plane_tr *t, struct ipvs_vs *vs, const struct plan_pool *pool)
{
	struct ipvs_tuning tuning;

	ipvs_tuning_read(&tuning, plane_of(t), t->svc->service, NULL);
	vs->desired.sched = tuning.sched;
	vs->drain_s = tuning.drain_s;
	vs->desired.timeout_s = pool->affinity_s;
	vs->proto = pool->proto;
}

/* Without a virtual service by mark: no split frontend leads clients inside to the pool. */
static bool is_vip_only(const struct service *s, const struct plan_pool *pool)
{
	return pool->affinity_s != 0 &&
	       !(s != NULL && pool->scope == PLAN_SCOPE_CLUSTER && service_is_etp_local(s));
}

/* Source ranges of an earlier process go, unless they are added again. */
static void ranges_touch(struct plane_tr *t, const struct plan_pool *pool)
{
	struct plane_touch touch = { t->c->loaded, pool->fam, &t->c->changes, t->svc };

	if (t->c->loaded != NULL)
		plane_loaded_each_range(t->c->loaded, pool->fam, IPVSSET_RANGES, pool_mark(t, pool),
					plane_touch_key, &touch);
}

static void pool_add(struct plane_tr *t, const struct plan_pool *pool)
{
	struct ipvs_vs *vs = pool_touch(t, pool);
	bool was_desired = vs->desired.exists;

	vs_named(vs, t->svc);
	vs_tune(t, vs, pool);
	ranges_touch(t, pool);
	vs->desired.exists = true;
	vs->is_whole = !plan_pool_is_part(pool); /* else sweep() removes the rest */
	if (!was_desired) /* an audit adds the pool again, perhaps with a newer Service */
		vs->desired.is_vip_only = is_vip_only(t->svc->service, pool);
}

/* Drain destinations of an earlier process; if they are many, sweep() does it in steps. */
static void pool_end(struct plane_tr *t, const struct plan_pool *pool)
{
	struct ipvs_vs *vs = pool_touch(t, pool);
	size_t n = 0;

	vec_for_each (d, &vs->dests)
		n += d->desired_weight == 0;
	vs->is_whole |= n * ipvs_dests_work(vs, vs->dests.n) <= PLANE_PIECE_WORK;
}

static void pool_change(struct plane_tr *t, const struct plan_pool *pool)
{
	struct ipvs_vs *vs = pool_touch(t, pool);

	vs_tune(t, vs, pool);
	vs->desired.is_vip_only = is_vip_only(t->svc->service, pool);
	vs->is_whole = true;
	list_for_each_entry_safe (vip, tmp, &vs->vip_services, struct ipvs_vs, sibling)
		vip_service_attach(t, vip, vs, vip->desired.forwarding);
}

static void backend_weigh(struct plane_tr *t, const struct plan_pool *pool,
			  const struct plan_backend *b, uint8_t weight)
{
	struct ipvs_vs *vs = pool_touch(t, pool);

	dst_desire(ipvs_dst_get(vs, &b->addr, b->port), weight);
	list_for_each_entry (vip, &vs->vip_services, struct ipvs_vs, sibling) {
		ipvs_vs_touch(plane_of(t), vip, t->svc);
		dst_desire(ipvs_dst_get(vip, &b->addr, b->port), weight);
	}
}

static void backend(struct plane_tr *t, enum plane_side side, const struct plan_op *op)
{
	const struct plan_pool *pool = op->pool;
	const struct plan_backend *b = op->backend;
	uint8_t key[NFT_KEY_MAX];

	backend_weigh(t, pool, b, side == PLANE_WILL ? plan_pool_weight(pool, op->slot) : 0);
	if (nft_set_exists(IPVSSET_REACHED, t->c->counting)) {
		nft_key_reached(key, pool_mark(t, pool), &b->addr, b->port);
		plane_element(t, side, pool->fam, IPVSSET_REACHED, key, NULL);
	}
	nft_key_addr_pair(key, &b->addr);
	plane_element_count(t, side, pool->fam, IPVSSET_HAIRPINS, key);
	plane_locality(t, side, op, b->is_local);
}

static void range(struct plane_tr *t, enum plane_side side, const struct plan_pool *pool,
		  const struct ip_prefix *r)
{
	uint8_t key[NFT_KEY_MAX];

	nft_key_range(key, IPVSSET_RANGES, pool_mark(t, pool), r);
	plane_element(t, side, pool->fam, IPVSSET_RANGES, key, NULL);
}

void ipvs_translate(struct plane_tr *t, const struct plan_op *op)
{
	switch ((enum plan_op_kind)op->kind) {
	case PLAN_POOL_ADD:
		pool_add(t, op->pool);
		return;
	case PLAN_POOL_CHANGE:
		pool_change(t, op->pool);
		return;
	case PLAN_BACKEND_ADD:
		backend(t, PLANE_WILL, op);
		return;
	case PLAN_BACKEND_DEL:
		backend(t, PLANE_WAS, op);
		return;
	case PLAN_RANGE_ADD:
		range(t, PLANE_WILL, op->pool, op->range);
		return;
	case PLAN_RANGE_DEL:
		range(t, PLANE_WAS, op->pool, op->range);
		return;
	case PLAN_FRONTEND_ADD:
		frontend(t, PLANE_WILL, op->frontend);
		return;
	case PLAN_FRONTEND_CHANGE:
		frontend(t, PLANE_WAS, op->old_frontend);
		frontend(t, PLANE_WILL, op->frontend);
		return;
	case PLAN_FRONTEND_DEL:
		frontend(t, PLANE_WAS, op->old_frontend);
		return;
	case PLAN_POOL_END:
		pool_end(t, op->pool);
		return;
	case PLAN_POOL_DEL:
		pool_touch(t, op->pool)->desired.exists = false;
		return;
	case PLAN_BACKEND_MOVE: /* destinations have no order */
		plane_locality(t, PLANE_WAS, op, op->was_local);
		plane_locality(t, PLANE_WILL, op, op->backend->is_local);
		return;
	case PLAN_BACKEND_WEIGH:
		backend_weigh(t, op->pool, op->backend, plan_pool_weight(op->pool, op->slot));
		return;
	case PLAN_SLOT_ADD:
	case PLAN_SLOT_DEL:
	case PLAN_OP_UNSET:
		return;
	}
}
