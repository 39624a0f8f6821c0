/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/translate - translate operations of the plan into set elements.
 *
 *   frontend   frontends: tuple -> word. Its address in vips, a cluster IP's also
 *              in cluster_ips. Masqueraded clients: masq_frontends, masq_hosts.
 *              Split (POL-25): frontends has kind xl; xl_local and xl_cluster have the words.
 *              Guarded (REJ-10): frontends has kind fw; fw_frontends has what follows.
 *   backend    endpoints: pool.slot -> address.port; address and port in endpoint_addrs.
 *              With --preserve-local-source the address of one on this node in local_backends.
 *              With a table each slot is an operation of its own.
 *              With affinity aff_slots: pool.slot -> id, aff_endpoints: id -> address.port.
 *   range      fw_ranges
 *
 * With counting, each frontend is also in `counted` and `refused` as long as it exists, so that its
 * counters continue whatever its target is.
 *
 * A word's upper bits always name a pool, also when its kind is reject or drop:
 * adoption finds the pool again that way.
 */
#include "plane/nft/state.h"

#include "nft/decode.h"

_Static_assert(NFT_POOL_LOCAL == PLAN_POOL_LOCAL << NFT_KIND_BITS, "a bit of the pool id");

static uint16_t target_kind(struct plane_tr *t, enum plane_side side, enum ipfam fam,
			    const struct plan_target *target)
{
	struct nft_kinds *need = t->arg;

	switch ((enum plan_verdict)target->verdict) {
	case PLAN_VERDICT_POOL:
		if (side == PLANE_WILL)
			bit_set(need[fam].bits, target->class & NFT_KIND_MASK);
		nft_kinds_led(nft_plane_of(&t->c->plane), fam, target->class & NFT_KIND_MASK,
			      side == PLANE_WILL ? 1 : -1);
		return target->class & NFT_KIND_MASK;
	case PLAN_VERDICT_DROP:
		return NFT_KIND_DROP;
	case PLAN_VERDICT_UNSET:
	case PLAN_VERDICT_REJECT:
		break;
	}
	return NFT_KIND_REJECT;
}

static void map_target(struct plane_tr *t, enum plane_side side, enum ipfam fam,
		       enum nft_set_id set, const uint8_t *key, const struct plan_target *target)
{
	plane_element_word(t, side, fam, set, key,
			   nft_word(target->pool_id, target_kind(t, side, fam, target)));
}

static void frontend(struct plane_tr *t, enum plane_side side, const struct plan_frontend *f)
{
	enum ipfam fam = ip_fam(&f->addr);
	enum nft_set_id to = NFTSET_FRONTENDS;
	uint8_t key[NFT_KEY_MAX];

	plane_frontend(t, side, f, key);
	if (f->is_guarded) {
		plane_element_word(t, side, fam, to, key, nft_word(f->target.pool_id, NFT_KIND_FW));
		to = NFTSET_FW_FRONTENDS;
	}
	if (f->is_split) {
		plane_element_word(t, side, fam, to, key, nft_word(f->target.pool_id, NFT_KIND_XL));
		map_target(t, side, fam, NFTSET_XL_LOCAL, key, &f->target);
		map_target(t, side, fam, NFTSET_XL_CLUSTER, key, &f->inside);
	} else {
		map_target(t, side, fam, to, key, &f->target);
	}
}

static bool has_affinity(const struct plan_pool *pool, const struct plan_backend *b)
{
	return pool->affinity_s != 0 && b->aff_id != 0;
}

/* Add the elements of a slot, unless no chain picks it. */
static void in_slot(struct plane_tr *t, enum plane_side side, const struct plan_pool *pool,
		    const struct plan_backend *b, uint32_t slot)
{
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];

	if (slot >= NFT_POOL_SLOTS_MAX)
		return;
	nft_key_slot(key, pool->id, slot);
	nft_data_endpoint(data, &b->addr, b->port);
	plane_element(t, side, pool->fam, NFTSET_ENDPOINTS, key, data);
	if (has_affinity(pool, b))
		plane_element_word(t, side, pool->fam, NFTSET_AFF_SLOTS, key,
				   nft_word(pool->id, b->aff_id));
}

static void backend(struct plane_tr *t, enum plane_side side, const struct plan_op *op)
{
	const struct plan_pool *pool = op->pool;
	const struct plan_backend *b = op->backend;
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];

	in_slot(t, side, pool, b, op->slot);
	plane_locality(t, side, op, b->is_local);
	nft_key_endpoint(key, &b->addr, b->port);
	plane_element_count(t, side, pool->fam, NFTSET_ENDPOINT_ADDRS, key);
	if (!has_affinity(pool, b))
		return;
	nft_put_word(key, nft_word(pool->id, b->aff_id));
	nft_data_endpoint(data, &b->addr, b->port);
	plane_element(t, side, pool->fam, NFTSET_AFF_ENDPOINTS, key, data);
}

static void range(struct plane_tr *t, enum plane_side side, const struct plan_pool *pool,
		  const struct ip_prefix *r)
{
	uint8_t key[NFT_KEY_MAX];

	nft_key_range(key, NFTSET_FW_RANGES, nft_word(pool->id, 0), r);
	plane_element(t, side, pool->fam, NFTSET_FW_RANGES, key, NULL);
}

void nft_translate(struct plane_tr *t, const struct plan_op *op)
{
	const struct nft_loaded *loaded = nft_plane_loaded(nft_plane_of(&t->c->plane));

	switch ((enum plan_op_kind)op->kind) {
	case PLAN_POOL_ADD:
		if (loaded != NULL)
			nft_loaded_touch_pool(loaded, op->pool, &t->c->changes, t->svc);
		return;
	case PLAN_POOL_END:
		if (loaded != NULL)
			nft_loaded_touch_end(loaded, op->pool, &t->c->changes, t->svc);
		return;
	case PLAN_SLOT_ADD:
		in_slot(t, PLANE_WILL, op->pool, op->backend, op->slot);
		return;
	case PLAN_BACKEND_ADD:
		backend(t, PLANE_WILL, op);
		return;
	case PLAN_BACKEND_MOVE:
		in_slot(t, PLANE_WAS, op->pool, op->backend, op->from);
		in_slot(t, PLANE_WILL, op->pool, op->backend, op->slot);
		plane_locality(t, PLANE_WAS, op, op->was_local);
		plane_locality(t, PLANE_WILL, op, op->backend->is_local);
		return;
	case PLAN_RANGE_ADD:
		range(t, PLANE_WILL, op->pool, op->range);
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
	case PLAN_RANGE_DEL:
		range(t, PLANE_WAS, op->pool, op->range);
		return;
	case PLAN_SLOT_DEL:
		in_slot(t, PLANE_WAS, op->pool, op->backend, op->slot);
		return;
	case PLAN_BACKEND_DEL:
		backend(t, PLANE_WAS, op);
		return;
	case PLAN_OP_UNSET:
	case PLAN_BACKEND_WEIGH: /* its slots change */
	case PLAN_POOL_CHANGE:
	case PLAN_POOL_DEL: /* its backends were deleted one by one */
		return;
	}
}
