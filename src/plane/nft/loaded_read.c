/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/loaded_read - dumps of the sets that lead, slots and local ids by key. */
#include "plane/nft/loaded_state.h"

#include <string.h>

#include "nft/decode.h"

/* Keys gathered before they are looked up. */
#define CHUNK 4096

struct reading {
	struct nft_loaded *h;
	struct nl_sock *nl;
	struct nft_table_ref table;
	enum nft_set_id set; /* the one under work */
	struct err *err;
	int result; /* the first failure */
	/* keys gathered for nft_elems_get() */
	uint8_t *keys;
	uint8_t *data;
	uint8_t *found;
	size_t n;
};

static void dump_begin(void *arg)
{
	const struct reading *rd = arg;

	nft_tab_clear(&rd->h->fam[rd->table.fam].sets[rd->set]);
}

static int dump_elem(void *arg, const uint8_t *key, const uint8_t *data, struct err *err)
{
	const struct reading *rd = arg;

	(void)err;
	nft_loaded_found(rd->h, rd->table.fam, rd->set, key, data);
	return 0;
}

static int sets_dump(struct reading *rd, const struct nft_layout *l)
{
	for (size_t i = 0; i < NFT_DUMPED_N; i++) {
		int r;

		rd->set = nft_dumped[i];
		if (!nft_layout_has_set(l, nft_dumped[i]))
			continue;
		r = nft_elems_dump(rd->nl, &rd->table, nft_dumped[i], dump_begin, dump_elem, rd,
				   rd->err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A word of the kernel names a pool, and how many slots it has. */
static void pool_note(struct nft_loaded_family *f, uint32_t word)
{
	uint32_t id = nft_word_pool(word);
	struct nft_kind_info info = { 0 };
	struct nft_loaded_pool pool = { 0 };

	if (id == 0)
		return;
	(void)nft_loaded_pool_get(f, id, &pool);
	pool.n_leads++;
	if (nft_kind_info(nft_word_kind(word), &info) && info.slots > pool.n_slots) {
		pool.kind = nft_word_kind(word);
		pool.n_slots = info.slots;
	}
	nft_loaded_pool_put(f, id, &pool);
}

/* The ids of all pools, sorted: what is sent must not depend on hash order. */
static uint32_t *pools_find(struct nft_loaded_family *f, size_t *n)
{
	struct nft_tab_pos pos = { 0 };
	const uint8_t *key;
	uint32_t *ids;
	uint8_t *val;

	nft_tab_clear(&f->pools); /* a dump that was interrupted has counted too */
	for (size_t i = 0; i < NFT_LEADING_N; i++) {
		struct nft_tab_pos at = { 0 };

		while (nft_tab_next(&f->sets[nft_leading[i]], &at, &key, &val))
			pool_note(f, nft_get_word(val));
	}
	ids = xmalloc((f->pools.n + 1) * sizeof(*ids));
	for (*n = 0; nft_tab_next(&f->pools, &pos, &key, &val); ++*n)
		memcpy(&ids[*n], key, sizeof(ids[0]));
	qsort(ids, *n, sizeof(ids[0]), nft_loaded_id_cmp);
	return ids;
}

/* Look up what was gathered. */
static void keys_flush(struct reading *rd, enum nft_get how)
{
	enum ipfam fam = rd->table.fam;
	size_t key_len = nft_key_len(rd->set, fam);
	size_t data_len = nft_data_len(rd->set, fam);

	if (rd->n == 0 || rd->result < 0)
		return;
	rd->result = nft_elems_get(rd->nl, &rd->table, rd->set, rd->keys, rd->n, rd->data,
				   rd->found, how, rd->err);
	for (size_t i = 0; i < rd->n && rd->result == 0; i++)
		if (rd->found[i])
			nft_loaded_found(rd->h, fam, rd->set, rd->keys + i * key_len,
					 rd->data + i * data_len);
	rd->n = 0;
}

static void key_gather(struct reading *rd, const uint8_t *key, enum nft_get how)
{
	size_t len = nft_key_len(rd->set, rd->table.fam);

	if (rd->result < 0)
		return;
	memcpy(rd->keys + rd->n++ * len, key, len);
	if (rd->n == CHUNK)
		keys_flush(rd, how);
}

/* Slots from..to-1 of a pool. */
static void slots_gather(struct reading *rd, uint32_t id, uint32_t from, uint32_t to,
			 enum nft_get how)
{
	uint8_t key[NFT_KEY_MAX];

	for (uint32_t slot = from; slot < to; slot++) {
		nft_key_slot(key, id, slot);
		key_gather(rd, key, how);
	}
}

static bool has_slot(const struct reading *rd, uint32_t id, uint32_t slot)
{
	uint8_t key[NFT_KEY_MAX];

	nft_key_slot(key, id, slot);
	return nft_loaded_find(rd->h, rd->table.fam, NFTSET_ENDPOINTS, key) != NULL;
}

/*
 * Slots are filled without gaps, and the last ones of a size class may be empty: the
 * first missing one ends the look.
 */
static void class_read(struct reading *rd, uint32_t id, struct nft_loaded_pool *pool,
		       const struct nft_kind_info *info)
{
	uint32_t end = 0;

	while (end < info->slots && rd->result == 0) {
		uint32_t to = MIN(end + CHUNK, info->slots);

		slots_gather(rd, id, end, to, NFT_GET_PREFIX);
		keys_flush(rd, NFT_GET_PREFIX);
		while (end < to && has_slot(rd, id, end))
			end++;
		if (end < to)
			break;
	}
	pool->n_slots = end;
	nft_loaded_pool_put(&rd->h->fam[rd->table.fam], id, pool);
}

static void slots_read(struct reading *rd, const uint32_t *ids, size_t n)
{
	const struct nft_loaded_family *f = &rd->h->fam[rd->table.fam];
	struct nft_kind_info info;
	struct nft_loaded_pool pool;

	rd->set = NFTSET_ENDPOINTS;
	for (size_t i = 0; i < n; i++)
		if (nft_loaded_pool_get(f, ids[i], &pool) && nft_kind_info(pool.kind, &info) &&
		    info.slots == info.safe_slots)
			slots_gather(rd, ids[i], 0, info.slots, NFT_GET_ALL);
	keys_flush(rd, NFT_GET_ALL);
	for (size_t i = 0; i < n && rd->result == 0; i++)
		if (nft_loaded_pool_get(f, ids[i], &pool) && nft_kind_info(pool.kind, &info) &&
		    info.slots > info.safe_slots)
			class_read(rd, ids[i], &pool, &info);
}

static void affinity_read(struct reading *rd, const uint32_t *ids, size_t n)
{
	const struct nft_loaded_family *f = &rd->h->fam[rd->table.fam];
	struct nft_kind_info info;
	struct nft_loaded_pool pool;
	uint8_t key[NFT_KEY_MAX];

	rd->set = NFTSET_AFF_SLOTS;
	for (size_t i = 0; i < n; i++)
		if (nft_loaded_pool_get(f, ids[i], &pool) && nft_kind_info(pool.kind, &info) &&
		    info.affinity_s != 0)
			slots_gather(rd, ids[i], 0, pool.n_slots, NFT_GET_ALL);
	keys_flush(rd, NFT_GET_ALL);
	rd->set = NFTSET_AFF_ENDPOINTS;
	for (size_t i = 0; i < n; i++) {
		if (!nft_loaded_pool_get(f, ids[i], &pool))
			continue;
		for (uint32_t slot = 0; slot < pool.n_slots; slot++) {
			uint32_t word;

			nft_key_slot(key, ids[i], slot);
			word = nft_loaded_word(rd->h, rd->table.fam, NFTSET_AFF_SLOTS, key);
			if (word == 0 || nft_word_pool(word) != ids[i])
				continue;
			nft_put_word(key, word);
			key_gather(rd, key, NFT_GET_ALL);
		}
	}
	keys_flush(rd, NFT_GET_ALL);
}

static void ranges_list(struct nft_loaded_family *f)
{
	const struct nft_tab *t = &f->sets[NFTSET_FW_RANGES];
	struct nft_tab_pos pos = { 0 };
	size_t len = t->key_len;
	const uint8_t *key;
	uint8_t *val;

	if (t->n == 0)
		return;
	f->ranges = xreallocarray(NULL, t->n, len);
	while (nft_tab_next(t, &pos, &key, &val))
		memcpy(f->ranges + f->n_ranges++ * len, key, len);
	qsort_r(f->ranges, f->n_ranges, len, nft_loaded_key_cmp, &len);
}

static bool has_pool_sets(const struct nft_layout *l)
{
	for (size_t i = 0; i < NFT_BY_KEY_N; i++)
		if (!nft_layout_has_set(l, nft_by_key[i]))
			return false;
	return true;
}

static void pools_read(struct reading *rd)
{
	size_t n;
	uint32_t *ids = pools_find(&rd->h->fam[rd->table.fam], &n);

	rd->keys = xreallocarray(NULL, CHUNK, NFT_KEY_MAX);
	rd->data = xreallocarray(NULL, CHUNK, NFT_DATA_MAX);
	rd->found = xmalloc(CHUNK);
	slots_read(rd, ids, n);
	affinity_read(rd, ids, n);
	free(rd->keys);
	free(rd->data);
	free(rd->found);
	free(ids);
}

int nft_loaded_read(struct nft_loaded *h, struct nl_sock *nl, const struct nft_layout *l,
		    struct err *err)
{
	enum ipfam fam = nft_layout_fam(l);
	struct reading rd = { .h = h, .nl = nl, .table = { nft_layout_table(l), fam }, .err = err };
	int r;

	if (nft_layout_state(l) != NFT_LAYOUT_HELD)
		return 0;
	h->fam[fam].has_table = true;
	r = sets_dump(&rd, l);
	if (r < 0)
		return r;
	ranges_list(&h->fam[fam]);
	if (has_pool_sets(l))
		pools_read(&rd);
	return rd.result;
}
