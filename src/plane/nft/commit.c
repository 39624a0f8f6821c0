/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/commit - one commit, a single transaction (plane/common.h):
 *
 *     translate -> settle (plane/common.h) -> transact -> applied
 *
 * In the loaded phase it also reads keys that were not loaded.
 */
#include "plane/nft/state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nft/decode.h"

/* --- settling --- */

/* Not loaded: addresses, and slots of pools without a frontend. */
static void settle_loaded(struct nft_plane *p, struct nft_change *ch)
{
	if (p->common.loaded->is_fresh[ch->fam])
		return;
	if (ch->set == NFTSET_ENDPOINT_ADDRS) {
		if (nft_refs_count(nft_endpoint_addrs(p, ch->fam), ch->key) > 0)
			return; /* acknowledged since the load */
		ch->has_programmed = false;
		ch->needs_read = ch->has_new;
		return;
	}
	plane_settle_copied(&p->common, ch);
	if (!ch->has_programmed)
		ch->needs_read = ch->has_new && ch->set == NFTSET_ENDPOINTS;
}

/*
 * A slot and its backend's address are always written in one transaction: if the kernel has the
 * desired slot, it has the address, which need not be read. The audit after an adoption reads it.
 */
static void trust_addresses(struct nft_plane *p, enum ipfam fam)
{
	nft_changes_for_each (ch, &p->common.changes, fam, NFTSET_ENDPOINTS) {
		uint8_t key[NFT_KEY_MAX];
		struct nft_change *addr;

		if (!ch->has_programmed || !ch->has_new ||
		    memcmp(ch->programmed, ch->data, nft_data_len(ch->set, fam)) != 0)
			continue;
		nft_key_endpoint_from(key, fam, ch->data);
		addr = nft_changes_find(&p->common.changes, fam, NFTSET_ENDPOINT_ADDRS, key);
		if (addr == NULL || !addr->needs_read)
			continue;
		addr->needs_read = false;
		addr->has_programmed = true;
	}
}

void nft_settle_loaded(struct plane_common *c)
{
	struct nft_plane *p = nft_plane_of(&c->plane);

	vec_for_each (ch, &c->changes.v)
		settle_loaded(p, ch);
	for (int fam = 0; fam < IPFAM_N; fam++)
		trust_addresses(p, fam);
}

/* Slots after the end of a pool that are looked up at once, if the first one exists. */
#define BEYOND 16

/* Delete an element in a slot after the end of its pool. */
static void beyond_found(struct nft_plane *p, const struct plan_op *op, const uint8_t *key)
{
	static const enum nft_set_id with_slot[] = { NFTSET_ENDPOINTS, NFTSET_AFF_SLOTS };

	for (size_t i = 0; i < ARRAY_SIZE(with_slot); i++)
		nft_changes_touch(&p->common.changes, op->pool->fam, with_slot[i], key, op->svc)
			->needs_read = true;
}

/*
 * The kernel may have more slots of a pool than acknowledged: after a rejected smaller version, or
 * by a foreign change. The chain of a size class would pick from them.
 */
static int pool_beyond(struct nft_plane *p, const struct plan_op *op, struct err *err)
{
	const struct plan_pool *pool = op->pool;
	struct nft_table_ref table = nft_plane_table(p, pool->fam);
	uint32_t slot = (uint32_t)MIN(plan_pool_slots(pool), (size_t)NFT_POOL_SLOTS_MAX);

	for (uint32_t n = 1;; slot += n, n = BEYOND) {
		struct nft_lookup keys[BEYOND];
		int r;

		for (uint32_t i = 0; i < n; i++)
			nft_key_slot(keys[i].key, pool->id, slot + i);
		r = nft_elems_get(p->common.query, &table, NFTSET_ENDPOINTS, keys, n, err);
		for (uint32_t i = 0; i < n && r == 0; i++) {
			if (!keys[i].is_found)
				return 0;
			beyond_found(p, op, keys[i].key);
		}
		if (r < 0)
			return r;
	}
}

/* The pool with this id, if there are operations that add to it; they may name a part of it. */
static const struct plan_pool *pool_added(const struct plan_op *ops, size_t n, enum ipfam fam,
					  uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if ((ops[i].kind == PLAN_POOL_ADD || ops[i].kind == PLAN_BACKEND_ADD ||
		     ops[i].kind == PLAN_SLOT_ADD) &&
		    ops[i].pool->fam == fam && ops[i].pool->id == id)
			return ops[i].pool;
	return NULL;
}

/*
 * Delete local ids that no backend has any more, so that affinity entries do not lead to their old
 * endpoints.
 */
static void find_old_ids(struct nft_plane *p, const struct plan_op *ops, size_t n)
{
	struct nft_changes *c = &p->common.changes;
	const struct plan_pool *pool = NULL; /* most slots are of the pool of the slot before */

	for (size_t i = 0; i < c->v.n; i++) {
		/* a copy: touching another key may move the changes */
		const struct nft_change ch = c->v.v[i];
		uint32_t word = nft_get_word(ch.programmed);

		if (ch.set != NFTSET_AFF_SLOTS || !ch.has_programmed ||
		    (ch.has_new && nft_get_word(ch.data) == word) ||
		    nft_word_pool(nft_get_word(ch.key)) != nft_word_pool(word))
			continue;
		if (pool == NULL || pool->fam != ch.fam || pool->id != nft_word_pool(word))
			pool = pool_added(ops, n, ch.fam, nft_word_pool(word));
		if (pool != NULL && pool->affinity_s != 0 &&
		    !vec_has(&pool->backends, b, b->aff_id == nft_word_kind(word)))
			nft_changes_touch(c, ch.fam, NFTSET_AFF_ENDPOINTS, ch.programmed, ch.svc)
				->needs_read = true;
	}
}

/* May the kernel have slots behind the end of the operation's pool that matter? */
static bool needs_end(const struct nft_plane *p, const struct plan_op *op,
		      enum plane_commit_mode mode)
{
	const struct nft_loaded *h = nft_plane_loaded(p);
	struct nft_loaded_pool loaded;

	if (op->kind != PLAN_POOL_END && (op->kind != PLAN_POOL_ADD || plan_pool_is_part(op->pool)))
		return false;
	if (mode == PLANE_COMMIT_VERIFY)
		return true;
	if (mode == PLANE_COMMIT_AUDIT) { /* its class picks them */
		uint32_t slots = nft_kind_info(op->pool->class).slots;

		return op->kind == PLAN_POOL_ADD &&
		       (slots == 0 || plan_pool_slots(op->pool) < slots);
	}
	/* In a loaded pool they are known. */
	return h != NULL && !h->elems.is_fresh[op->pool->fam] &&
	       !nft_loaded_pool_get(h, op->pool->fam, op->pool->id, &loaded);
}

/* Read further elements of pools whose operations add the whole pool. */
static int find_more(struct nft_plane *p, const struct plan_op *ops, size_t n,
		     enum plane_commit_mode mode, struct err *err)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		if (ops[i].kind == PLAN_FRONTEND_ADD && mode == PLANE_COMMIT_VERIFY)
			plane_frontend_reread(&p->common, ops[i].frontend, ops[i].svc);
		if (!needs_end(p, &ops[i], mode))
			continue;
		r = pool_beyond(p, &ops[i], err);
		if (r < 0)
			return r;
	}
	r = plane_changes_read(&p->common, err);
	if (r < 0 || mode == PLANE_COMMIT_NORMAL)
		return r;
	find_old_ids(p, ops, n);
	return plane_changes_read(&p->common, err);
}

/* --- afterwards --- */

/*
 * The last acknowledged state of a service whose commit was rejected stays: pools that its
 * frontends lead to, and the addresses of their backends, which are not counted.
 */
static void keep_led(struct nft_plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_changes_for_each (ch, &p->common.changes, fam, NFTSET_FRONTENDS)
			nft_loaded_keep_led(nft_plane_loaded(p), fam, ch->key,
					    nft_endpoint_addrs(p, fam));
}

/* --- commit --- */

/*
 * Could an old table serve a frontend that the transaction removes, or masquerade one that it has
 * added?
 */
static bool needs_supersede(const struct nft_plane *p, bool is_added)
{
	return vec_has(&p->common.changes.v, ch,
		       ch->set == NFTSET_FRONTENDS && ch->has_new == is_added &&
			       p->layout[ch->fam]->old.n > 0);
}

int nft_plane_ready_check(const struct nft_plane *p, struct err *err)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (!p->common.plane.family[fam].is_failed &&
		    p->layout[fam]->state != NFT_LAYOUT_PRESENT)
			return err_set(err, -ENOTRECOVERABLE,
				       "tables of family %s: layout not loaded", nft_fam_text(fam));
	return 0;
}

int nft_commit(struct plane *plane, const struct plan_op *ops, size_t n,
	       enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	struct nft_kinds need[IPFAM_N] = { 0 };
	int r = nft_plane_ready_check(p, err);

	if (r < 0)
		return r;
	assert(mode != PLANE_COMMIT_AUDIT || p->common.loaded == NULL);
	nft_changes_reset(&p->common.changes);
	vec_clear(&p->led);
	r = plane_translate(&p->common, nft_translate, need, ops, n, &res->culprit, err);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		r = nft_kinds_make(p, fam, &need[fam], res, err);
		if (r < 0)
			res->families = (uint8_t)(1u << fam);
	}
	if (r == 0)
		r = plane_settle(&p->common, mode, err);
	if (r == 0 && p->common.loaded != NULL)
		nft_loaded_touch_unled(nft_plane_loaded(p), &p->common.changes);
	if (r == 0 && (mode != PLANE_COMMIT_NORMAL || p->common.loaded != NULL))
		r = find_more(p, ops, n, mode, err);
	if (r == 0 && needs_supersede(p, false))
		r = nft_supersede(plane, res, err);
	if (r == 0)
		r = plane_transact(&p->common, res, err);
	if (r == 0) {
		if (mode != PLANE_COMMIT_AUDIT) {
			plane_applied(&p->common);
			nft_kinds_applied(p);
			nft_shorten_applied(p);
		}
		if (plane->is_sweep_pending && needs_supersede(p, true) &&
		    nft_supersede(plane, res, err) < 0)
			plane->is_load_wanted = true;
		nft_plane_guard_follow(p);
		return 0;
	}
	if (plane_rejection_note(&p->common, r, mode, ops, n, res) && p->common.loaded != NULL)
		keep_led(p);
	return r;
}
