/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/adopt - set pool ids and slots of rows to those in the kernel.
 *
 * A pool is identified by the frontends that lead to it. Frontends with unchanged structure are
 * matched first, because their match is certain.
 */
#include "plane/nft/loaded.h"

#include <string.h>

#include "base/bits.h"
#include "nft/decode.h"

static void ids_hold(struct nft_loaded *h, struct plan *plan)
{
	plan_ids_release(plan); /* of an earlier load that did not complete */
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct nft_keymap_pos pos = { 0 };
		const uint8_t *key;
		uint8_t *val;

		while (nft_keymap_next(&h->fam[fam].pools, &pos, &key, &val)) {
			uint32_t id;

			memcpy(&id, key, sizeof(id));
			plan_id_reserve(plan, fam, id);
		}
	}
	h->elems.plan = plan;
}

/* The local id of a slot in the kernel; 0 if its elements contradict each other. */
static uint16_t adopt_aff_id(const struct nft_loaded *h, enum ipfam fam, uint32_t id,
			     const uint8_t *slot_key, const uint8_t *endpoint)
{
	uint32_t word = nft_loaded_word(h, fam, NFTSET_AFF_SLOTS, slot_key);
	const uint8_t *data;
	uint8_t key[NFT_KEY_MAX];

	if (nft_word_pool(word) != id || nft_word_kind(word) == 0)
		return 0;
	nft_put_word(key, word);
	data = plane_loaded_find(&h->elems, fam, NFTSET_AFF_ENDPOINTS, key);
	if (data == NULL || memcmp(data, endpoint, nft_data_len(NFTSET_AFF_ENDPOINTS, fam)) != 0)
		return 0;
	return nft_word_kind(word);
}

static void adopt_slots(const struct nft_loaded *h, struct plan_pool *pool, uint32_t n_slots)
{
	struct plan_backend *programmed = xcalloc(MAX(n_slots, 1U), sizeof(*programmed));
	uint64_t used[BITS_WORDS(PLAN_AFFINITY_BACKENDS_MAX + 1)] = { 0 };
	uint16_t max = 0;

	for (uint32_t slot = 0; slot < n_slots; slot++) {
		uint8_t key[NFT_KEY_MAX];
		struct nft_endpoint at;
		const uint8_t *data;
		uint16_t aff;

		nft_key_slot(key, pool->id, slot);
		data = plane_loaded_find(&h->elems, pool->fam, NFTSET_ENDPOINTS, key);
		if (data == NULL)
			continue;
		nft_get_endpoint(&at, pool->fam, data);
		programmed[slot] = (struct plan_backend){ .addr = at.addr, .port = at.port };
		aff = pool->affinity_s != 0 ? adopt_aff_id(h, pool->fam, pool->id, key, data) : 0;
		if (aff == 0 || bit_is_set(used, aff))
			continue;
		bit_set(used, aff);
		plan_backend_set_aff_id(&programmed[slot], aff);
		max = aff > max ? aff : max;
	}
	plan_slots_arrange(pool->backends.v, pool->backends.n, programmed, n_slots);
	if (pool->affinity_s != 0)
		pool->next_aff_id = max == PLAN_AFFINITY_BACKENDS_MAX ? 1 : (uint16_t)(max + 1);
	free(programmed);
}

/* Give the pool the id in `word`, unless either is matched already. */
static void adopt_pool(struct nft_loaded *h, const struct plan_rows *rows, struct plan_pool *pool,
		       uint32_t word)
{
	uint32_t id = nft_word_pool(word);
	struct nft_loaded_pool programmed;

	if (pool == NULL || pool->id != 0 ||
	    !nft_loaded_pool_get(&h->fam[pool->fam], id, &programmed) ||
	    !plan_id_adopt(h->elems.plan, rows, pool, id))
		return;
	pool->id = id;
	adopt_slots(h, pool, programmed.n_slots);
}

/* The frontend has the desired structure in the kernel. */
static void adopt_alike(struct nft_loaded *h, const struct plan_rows *rows,
			const struct plan_frontend *f, const struct nft_led *led)
{
	adopt_pool(h, rows, plan_rows_pool_of(rows, f, f->target.scope), led->target);
	if (f->is_split)
		adopt_pool(h, rows, plan_rows_pool_of(rows, f, f->inside.scope), led->inside);
}

/* The frontend becomes split, or no longer is: the pool for all clients was the cluster pool. */
static void adopt_unlike(struct nft_loaded *h, const struct plan_rows *rows,
			 const struct plan_frontend *f, const struct nft_led *led)
{
	if (f->is_split) {
		adopt_pool(h, rows, plan_rows_pool_of(rows, f, f->inside.scope), led->target);
		adopt_pool(h, rows, plan_rows_pool_of(rows, f, f->target.scope), led->target);
	} else {
		bool is_local = f->target.scope == PLAN_SCOPE_LOCAL;

		adopt_pool(h, rows, plan_rows_pool_of(rows, f, f->target.scope),
			   is_local ? led->target : led->inside);
	}
}

void nft_loaded_adopt(struct nft_loaded *h, struct plan *plan, struct plan_rows *rows)
{
	if (h->elems.plan == NULL)
		ids_hold(h, plan);
	for (int pass = 0; pass < 2; pass++) {
		vec_for_each (f, &rows->frontends) {
			uint8_t key[NFT_KEY_MAX];
			struct nft_led led;

			nft_key_tuple(key, &f->addr, f->proto, f->port);
			if (!nft_loaded_led(h, ip_fam(&f->addr), key, &led))
				continue;
			if (pass == 0 && f->is_split == led.is_split)
				adopt_alike(h, rows, f, &led);
			else if (pass == 1 && f->is_split != led.is_split)
				adopt_unlike(h, rows, f, &led);
		}
	}
}
