/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/loaded_read - dump the sets that name pools, then read slots by key.
 *
 * Pools are read in order of their ids, so that requests do not depend on hash order. Slots have no
 * gaps; the last slots of a size class may be empty, so the first missing one ends the pool. A pool
 * that was growing in adoption when vipd ended has slots behind those that its class picks.
 */
#include "plane/nft/loaded.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "nft/decode.h"

#define POOLS_N (UINT32_C(1) << (32 - NFT_KIND_BITS))

struct nft_reading {
	struct nft_loaded *h;
	struct nl_sock *nl;
	const struct nft_layout *layout;
	struct nft_table_ref table;
	size_t work; /* of the current step */
	size_t i;    /* of nft_dumped; NFT_DUMPED_N: slots are read */
	struct nft_walk walk;
	uint64_t pools[BITS_WORDS(POOLS_N)]; /* ids of all */
	/* The next key, and how many slots of its pool exist, one after the other. */
	uint32_t id;
	uint32_t slot;
	uint32_t n_found;
	/* keys gathered for nft_elems_get() */
	size_t n;
	struct nft_lookup keys[NFT_READ_ELEMS];
};

/* --- dumps --- */

/*
 * Store the number of slots of the pool in `word`, whether it has affinity, and whether it is of a
 * cluster IP. Frontends of one pool differ while the kernel still has one that was removed from the
 * service.
 */
static void kind_note(struct nft_reading *rd, uint32_t word, bool is_cluster_ip)
{
	uint32_t id = nft_word_pool(word);
	struct nft_kind_info info = nft_kind_info(nft_word_kind(word));
	struct nft_loaded_pool pool;

	if (!nft_loaded_pool_get(rd->h, rd->table.fam, id, &pool))
		return;
	pool.is_of_cluster_ip |= is_cluster_ip;
	if (info.slots > pool.n_slots) {
		pool.kind = nft_word_kind(word);
		pool.n_slots = info.slots;
	}
	pool.has_affinity |= info.affinity_s != 0;
	nft_loaded_pool_put(rd->h, rd->table.fam, id, &pool);
}

static void dump_elem(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct nft_reading *rd = arg;
	enum nft_set_id set = nft_dumped[rd->i];

	plane_loaded_put(&rd->h->elems, rd->table.fam, set, key, data, false);
	if (nft_set_is_leading(set))
		kind_note(rd, nft_get_word(data),
			  plane_loaded_is_cluster_ip(&rd->h->elems, &nft_plane_sets, rd->table.fam,
						     key));
	rd->work++;
}

static void pools_list(struct nft_reading *rd)
{
	uint32_t id;

	nft_keymap_for_each (e, &rd->h->pools[rd->table.fam]) {
		memcpy(&id, e.key, sizeof(id));
		bit_set(rd->pools, id);
	}
}

/*
 * Read one datagram. For each datagram the kernel skips all earlier elements; skipping 64 takes as
 * long as returning one.
 */
static int dump_some(struct nft_reading *rd, struct err *err)
{
	int r = rd->layout->programmed.has_set[nft_dumped[rd->i]]
			? plane_loaded_dump_step(&rd->h->elems, &rd->walk, rd->nl, &rd->table,
						 nft_dumped[rd->i], dump_elem, rd, err)
			: 0;

	rd->work += rd->h->elems.sets[rd->table.fam][nft_dumped[rd->i]].n / 64;
	if (r != 0)
		return r;
	rd->walk = (struct nft_walk){ 0 };
	if (++rd->i < NFT_DUMPED_N)
		return 1;
	plane_loaded_ranges_list(&rd->h->elems, rd->table.fam, NFTSET_FW_RANGES);
	plane_loaded_ranges_list(&rd->h->elems, rd->table.fam, NFTSET_AFF_ENDPOINTS);
	pools_list(rd);
	return rd->layout->programmed.has_set[NFTSET_ENDPOINTS];
}

/* --- slots, by key --- */

/* Look up the collected keys. */
static int keys_flush(struct nft_reading *rd, struct err *err)
{
	const enum nft_set_id set = NFTSET_ENDPOINTS;
	size_t n = rd->n;
	int r;

	rd->n = 0;
	r = nft_elems_get(rd->nl, &rd->table, set, rd->keys, n, err);
	for (size_t i = 0; i < n && r == 0; i++)
		if (rd->keys[i].is_found)
			plane_loaded_put(&rd->h->elems, rd->table.fam, set, rd->keys[i].key,
					 rd->keys[i].data, false);
	return r;
}

/* Is a slot missing among those read of a pool of a size class? Sets its number of slots. */
static bool class_ends(struct nft_reading *rd)
{
	struct nft_loaded_pool pool;
	uint8_t key[NFT_KEY_MAX];

	for (; rd->n_found < rd->slot; rd->n_found++) {
		nft_key_slot(key, rd->id, rd->n_found);
		if (plane_loaded_find(&rd->h->elems, rd->table.fam, NFTSET_ENDPOINTS, key) == NULL)
			break;
	}
	if (rd->n_found == rd->slot)
		return false;
	(void)nft_loaded_pool_get(rd->h, rd->table.fam, rd->id, &pool);
	pool.n_slots = rd->n_found;
	nft_loaded_pool_put(rd->h, rd->table.fam, rd->id, &pool);
	return true;
}

/* The kind of a pool, with the number of slots that its chains pick; all zero: none. */
static struct nft_kind_info kind_of(const struct nft_reading *rd, uint32_t id)
{
	struct nft_loaded_pool pool;

	return nft_loaded_pool_get(rd->h, rd->table.fam, id, &pool) ? nft_kind_info(pool.kind)
								    : (struct nft_kind_info){ 0 };
}

/* Read the next slots, at most those of one step. */
static int slots_some(struct nft_reading *rd, struct err *err)
{
	int r;

	while (rd->work < NFT_READ_ELEMS &&
	       (rd->id = (uint32_t)bits_next(rd->pools, rd->id, POOLS_N)) < POOLS_N) {
		struct nft_kind_info info = kind_of(rd, rd->id);
		bool is_class = info.slots > info.safe_slots;
		uint32_t end = info.slots + is_class;
		bool has_ended;

		if (rd->slot > info.slots) /* all of them exist */
			end = rd->slot + NFT_READ_ELEMS;
		for (; rd->slot < end && rd->work < NFT_READ_ELEMS; rd->slot++, rd->work++)
			nft_key_slot(rd->keys[rd->n++].key, rd->id, rd->slot);
		has_ended = rd->slot >= end;
		if (is_class) { /* the answer decides where it ends */
			r = keys_flush(rd, err);
			if (r < 0)
				return r;
			has_ended = class_ends(rd);
		}
		if (!has_ended)
			continue;
		rd->id++;
		rd->slot = rd->n_found = 0;
		rd->work++;
	}
	r = keys_flush(rd, err);
	return r < 0 ? r : rd->id < POOLS_N;
}

/* --- steps --- */

void nft_reading_open(struct nft_reading **ret, struct nft_loaded *h, struct nl_sock *nl,
		      const struct nft_layout *l)
{
	struct nft_reading *rd = xcalloc(1, sizeof(*rd));

	rd->h = h;
	rd->nl = nl;
	rd->layout = l;
	rd->table = (struct nft_table_ref){ l->table, l->fam };
	h->elems.is_fresh[l->fam] = l->state != NFT_LAYOUT_PRESENT;
	*ret = rd;
}

void nft_reading_close(struct nft_reading *rd)
{
	free(rd);
}

int nft_reading_step(struct nft_reading *rd, struct err *err)
{
	int r = !rd->h->elems.is_fresh[rd->table.fam];

	for (rd->work = 0; r > 0 && rd->work < NFT_READ_ELEMS;)
		r = rd->i < NFT_DUMPED_N ? dump_some(rd, err) : slots_some(rd, err);
	return r;
}
