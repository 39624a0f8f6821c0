/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/translate - translate operations of the plan into set elements.
 *
 *   frontend   frontends: tuple -> word. Its address in vips, a cluster IP's also
 *              in cluster_ips. Masqueraded clients: masq_frontends, masq_hosts.
 *              Split (POL-25): frontends says xl, xl_local and xl_cluster say where.
 *              Guarded (REJ-10): frontends says fw, fw_frontends what comes after it.
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

#include <errno.h>

#include "nft/decode.h"

_Static_assert(NFT_POOL_LOCAL == PLAN_POOL_LOCAL << NFT_KIND_BITS, "a bit of the pool id");

/* Before the transaction or after it. */
enum side {
	WAS = 0,
	WILL,
};

struct tr {
	struct nft_changes *c;
	struct nft_plane *plane;
	const struct nft_loaded *loaded;
	struct nft_kinds *need;
	enum plane_counting counting;
	struct svc *svc;
};

static void element(struct tr *t, enum side side, enum ipfam fam, enum nft_set_id set,
		    const uint8_t *key, const uint8_t *data)
{
	if (side == WAS)
		nft_changes_was(t->c, fam, set, key, data, t->svc);
	else
		nft_changes_will(t->c, fam, set, key, data, t->svc);
}

static void map_word(struct tr *t, enum side side, enum ipfam fam, enum nft_set_id set,
		     const uint8_t *key, uint32_t pool_id, uint16_t kind)
{
	uint8_t data[NFT_DATA_MAX];

	nft_put_word(data, nft_word(pool_id, kind));
	element(t, side, fam, set, key, data);
}

static uint16_t target_kind(struct tr *t, enum side side, enum ipfam fam,
			    const struct plan_target *target)
{
	switch ((enum plan_verdict)target->verdict) {
	case PLAN_VERDICT_POOL:
		if (side == WILL)
			bit_set(t->need[fam].bits, target->class & NFT_KIND_MASK);
		nft_kinds_led(t->plane, fam, target->class & NFT_KIND_MASK, side == WILL ? 1 : -1);
		return target->class & NFT_KIND_MASK;
	case PLAN_VERDICT_DROP:
		return NFT_KIND_DROP;
	case PLAN_VERDICT_UNSET:
	case PLAN_VERDICT_REJECT:
		break;
	}
	return NFT_KIND_REJECT;
}

static void map_target(struct tr *t, enum side side, enum ipfam fam, enum nft_set_id set,
		       const uint8_t *key, const struct plan_target *target)
{
	map_word(t, side, fam, set, key, target->pool_id, target_kind(t, side, fam, target));
}

static void frontend(struct tr *t, enum side side, const struct plan_frontend *f)
{
	enum ipfam fam = ip_fam(&f->addr);
	enum nft_set_id to = NFTSET_FRONTENDS;
	int32_t one = side == WILL ? 1 : -1;
	uint8_t key[NFT_KEY_MAX];

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	if (side == WILL && t->loaded != NULL)
		nft_loaded_touch_frontend(t->loaded, fam, key, t->c, t->svc);
	if (f->is_guarded) {
		map_word(t, side, fam, to, key, f->target.pool_id, NFT_KIND_FW);
		to = NFTSET_FW_FRONTENDS;
	}
	if (f->is_split) {
		map_word(t, side, fam, to, key, f->target.pool_id, NFT_KIND_XL);
		map_target(t, side, fam, NFTSET_XL_LOCAL, key, &f->target);
		map_target(t, side, fam, NFTSET_XL_CLUSTER, key, &f->inside);
	} else {
		map_target(t, side, fam, to, key, &f->target);
	}
	if (f->masq == PLAN_MASQ_ALWAYS)
		element(t, side, fam, NFTSET_MASQ_FRONTENDS, key, NULL);
	else if (f->masq == PLAN_MASQ_HOST)
		element(t, side, fam, NFTSET_MASQ_HOSTS, key, NULL);
	if (t->counting >= PLANE_COUNT_SERVICES) {
		element(t, side, fam, NFTSET_COUNTED, key, NULL);
		element(t, side, fam, NFTSET_REFUSED, key, NULL);
	}
	nft_changes_count(t->c, fam, NFTSET_VIPS, f->addr.bytes, one, t->svc);
	if (f->kind == PLAN_FRONTEND_CLUSTERIP)
		nft_changes_count(t->c, fam, NFTSET_CLUSTER_IPS, f->addr.bytes, one, t->svc);
}

static bool has_affinity(const struct plan_pool *pool, const struct plan_backend *b)
{
	return pool->affinity_s != 0 && b->aff_id != 0;
}

/* Add the elements of a slot, unless no chain picks it. */
static void in_slot(struct tr *t, enum side side, const struct plan_pool *pool,
		    const struct plan_backend *b, uint32_t slot)
{
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];

	if (slot >= NFT_POOL_SLOTS_MAX)
		return;
	nft_key_slot(key, pool->id, slot);
	nft_data_endpoint(data, &b->addr, b->port);
	element(t, side, pool->fam, NFTSET_ENDPOINTS, key, data);
	if (has_affinity(pool, b))
		map_word(t, side, pool->fam, NFTSET_AFF_SLOTS, key, pool->id, b->aff_id);
}

static void of_locality(struct tr *t, enum side side, enum ipfam fam, const struct plan_backend *b,
			bool is_local)
{
	if (is_local)
		nft_changes_count(t->c, fam, NFTSET_LOCAL_BACKENDS, b->addr.bytes,
				  side == WILL ? 1 : -1, t->svc);
}

/* Add the elements of a backend that do not depend on its slot. */
static void of_backend(struct tr *t, enum side side, const struct plan_pool *pool,
		       const struct plan_backend *b)
{
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];

	nft_key_endpoint(key, &b->addr, b->port);
	nft_changes_count(t->c, pool->fam, NFTSET_ENDPOINT_ADDRS, key, side == WILL ? 1 : -1,
			  t->svc);
	of_locality(t, side, pool->fam, b, b->is_local);
	if (!has_affinity(pool, b))
		return;
	nft_put_word(key, nft_word(pool->id, b->aff_id));
	nft_data_endpoint(data, &b->addr, b->port);
	element(t, side, pool->fam, NFTSET_AFF_ENDPOINTS, key, data);
}

static void range(struct tr *t, enum side side, const struct plan_pool *pool,
		  const struct ip_prefix *r)
{
	uint8_t key[NFT_KEY_MAX];

	nft_key_range(key, pool->id, r);
	element(t, side, pool->fam, NFTSET_FW_RANGES, key, NULL);
}

static void operation(struct tr *t, const struct plan_op *op)
{
	switch ((enum plan_op_kind)op->kind) {
	case PLAN_POOL_ADD:
		if (t->loaded != NULL)
			nft_loaded_touch_pool(t->loaded, op->pool, t->c, t->svc);
		return;
	case PLAN_POOL_END:
		if (t->loaded != NULL)
			nft_loaded_touch_end(t->loaded, op->pool, t->c, t->svc);
		return;
	case PLAN_SLOT_ADD:
		in_slot(t, WILL, op->pool, op->backend, op->slot);
		return;
	case PLAN_BACKEND_ADD:
		in_slot(t, WILL, op->pool, op->backend, op->slot);
		of_backend(t, WILL, op->pool, op->backend);
		return;
	case PLAN_BACKEND_MOVE:
		in_slot(t, WAS, op->pool, op->backend, op->from);
		in_slot(t, WILL, op->pool, op->backend, op->slot);
		of_locality(t, WAS, op->pool->fam, op->backend, op->was_local);
		of_locality(t, WILL, op->pool->fam, op->backend, op->backend->is_local);
		return;
	case PLAN_RANGE_ADD:
		range(t, WILL, op->pool, op->range);
		return;
	case PLAN_FRONTEND_ADD:
		frontend(t, WILL, op->frontend);
		return;
	case PLAN_FRONTEND_CHANGE:
		frontend(t, WAS, op->old_frontend);
		frontend(t, WILL, op->frontend);
		return;
	case PLAN_FRONTEND_DEL:
		frontend(t, WAS, op->old_frontend);
		return;
	case PLAN_RANGE_DEL:
		range(t, WAS, op->pool, op->range);
		return;
	case PLAN_SLOT_DEL:
		in_slot(t, WAS, op->pool, op->backend, op->slot);
		return;
	case PLAN_BACKEND_DEL:
		in_slot(t, WAS, op->pool, op->backend, op->slot);
		of_backend(t, WAS, op->pool, op->backend);
		return;
	case PLAN_OP_UNSET:
	case PLAN_BACKEND_WEIGH: /* its slots change */
	case PLAN_POOL_CHANGE:
	case PLAN_POOL_DEL: /* its backends were deleted one by one */
		return;
	}
}

int nft_translate(struct nft_plane *p, const struct plan_op *ops, size_t n,
		  struct nft_kinds need[IPFAM_N], struct svc **culprit, struct err *err)
{
	struct nft_changes *c = &p->common.changes;
	struct tr t = { .c = c,
			.plane = p,
			.loaded = nft_plane_loaded(p),
			.need = need,
			.counting = p->common.counting };

	for (size_t i = 0; i < n; i++) {
		t.svc = ops[i].svc;
		if (ops[i].kind == PLAN_POOL_ADD && ops[i].pool->id == 0) {
			*culprit = ops[i].svc;
			return err_set(err, -ENOSPC, "all %d pool ids are in use",
				       PLAN_POOL_ID_MAX);
		}
		operation(&t, &ops[i]);
	}
	return plane_conflict_check(&p->common, culprit, err);
}
