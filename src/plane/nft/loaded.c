/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/loaded - dumps, slots by key, recall.
 *
 * Values in the tables are the element's data and one byte more: WANTED once
 * somebody has asked for it.
 */
#include "plane/nft/loaded.h"

#include <string.h>

#include "plane/nft/decode.h"

#define WANTED 1
/* Keys gathered before they are looked up. */
#define CHUNK 4096

/* One pool that a frontend of the kernel names. */
struct pool {
	uint32_t n_slots; /* slots 0..n-1 were looked for; the kernel may lack some */
	uint32_t n_leads; /* elements of maps that name it */
	uint16_t kind;    /* 0: nothing is picked from it */
	uint8_t is_ours;  /* to recall: the plan had not given the id out */
	uint8_t is_taken;
};

struct family {
	bool has_table;
	struct nft_tab sets[NFTSET_N];
	struct nft_tab pools; /* id -> struct pool */
	uint8_t *ranges;      /* keys of fw_ranges as read, sorted, and so by pool */
	size_t n_ranges;
};

struct nft_loaded {
	struct family fam[IPFAM_N];
	struct plan *plan; /* who was told which ids the kernel holds; NULL: nobody yet */
};

/* Dumped whole, in this order. */
static const enum nft_set_id dumped[] = {
	NFTSET_FRONTENDS, NFTSET_FW_FRONTENDS,   NFTSET_XL_CLUSTER,
	NFTSET_XL_LOCAL,  NFTSET_VIPS,           NFTSET_CLUSTER_IPS,
	NFTSET_FW_RANGES, NFTSET_MASQ_FRONTENDS, NFTSET_MASQ_HOSTS,
};
/* Read by key, pool by pool. */
static const enum nft_set_id by_key[] = {
	NFTSET_ENDPOINTS,
	NFTSET_AFF_SLOTS,
	NFTSET_AFF_ENDPOINTS,
};
/* Maps whose data is the word of a pool. */
static const enum nft_set_id leading[] = {
	NFTSET_FRONTENDS,
	NFTSET_FW_FRONTENDS,
	NFTSET_XL_CLUSTER,
	NFTSET_XL_LOCAL,
};

bool nft_loaded_is_partial(enum nft_set_id set)
{
	for (size_t i = 0; i < ARRAY_SIZE(by_key); i++)
		if (by_key[i] == set)
			return true;
	return false;
}

bool nft_loaded_covers(enum nft_set_id set)
{
	for (size_t i = 0; i < ARRAY_SIZE(dumped); i++)
		if (dumped[i] == set)
			return true;
	return nft_loaded_is_partial(set);
}

void nft_loaded_open(struct nft_loaded **ret)
{
	struct nft_loaded *h = xcalloc(1, sizeof(*h));

	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (int set = 0; set < NFTSET_N; set++)
			if (nft_loaded_covers(set))
				nft_tab_init(&h->fam[fam].sets[set], nft_key_len(set, fam),
					     nft_data_len(set, fam) + 1);
		nft_tab_init(&h->fam[fam].pools, sizeof(uint32_t), sizeof(struct pool));
	}
	*ret = h;
}

void nft_loaded_close(struct nft_loaded *h)
{
	if (h == NULL)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (int set = 0; set < NFTSET_N; set++)
			nft_tab_clear(&h->fam[fam].sets[set]);
		nft_tab_clear(&h->fam[fam].pools);
		free(h->fam[fam].ranges);
	}
	free(h);
}

/* --- elements --- */

static int u32_cmp(const void *a, const void *b)
{
	const uint32_t *x = a;
	const uint32_t *y = b;

	return *x == *y ? 0 : *x < *y ? -1 : 1;
}

static bool pool_get(const struct family *f, uint32_t id, struct pool *ret)
{
	const void *p = nft_tab_find(&f->pools, &id);

	if (p != NULL)
		memcpy(ret, p, sizeof(*ret));
	return p != NULL;
}

static void pool_put(struct family *f, uint32_t id, const struct pool *pool)
{
	memcpy(nft_tab_put(&f->pools, &id, NULL), pool, sizeof(*pool));
}

static bool is_leading(enum nft_set_id set)
{
	for (size_t i = 0; i < ARRAY_SIZE(leading); i++)
		if (leading[i] == set)
			return true;
	return false;
}

/* One more element, or one less, names the pool of `word`. */
static void lead_count(struct nft_loaded *h, enum ipfam fam, uint32_t word, int by)
{
	struct pool pool = { 0 };

	if (nft_word_pool(word) == 0)
		return;
	(void)pool_get(&h->fam[fam], nft_word_pool(word), &pool);
	pool.n_leads = (uint32_t)((int64_t)pool.n_leads + by);
	pool_put(&h->fam[fam], nft_word_pool(word), &pool);
}

const uint8_t *nft_loaded_find(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			       const uint8_t *key)
{
	return nft_tab_find(&h->fam[fam].sets[set], key);
}

static void put(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		const uint8_t *data, uint8_t state)
{
	size_t len = nft_data_len(set, fam);
	bool is_new;
	uint8_t *val = nft_tab_put(&h->fam[fam].sets[set], key, &is_new);

	if (is_leading(set) && !is_new)
		lead_count(h, fam, nft_get_word(val), -1);
	if (is_leading(set))
		lead_count(h, fam, nft_get_word(data), 1);
	if (len > 0)
		memcpy(val, data, len);
	val[len] |= state;
}

void nft_loaded_put(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		    const uint8_t *data)
{
	put(h, fam, set, key, data, WANTED);
}

void nft_loaded_found(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		      const uint8_t *data)
{
	put(h, fam, set, key, data, 0);
}

void nft_loaded_del(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	const uint8_t *data = nft_loaded_find(h, fam, set, key);

	if (data == NULL)
		return;
	if (is_leading(set))
		lead_count(h, fam, nft_get_word(data), -1);
	(void)nft_tab_del(&h->fam[fam].sets[set], key);
}

void nft_loaded_mark(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	uint8_t *val = nft_tab_find(&h->fam[fam].sets[set], key);

	if (val != NULL)
		val[nft_data_len(set, fam)] |= WANTED;
}

void nft_loaded_unmark(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
		       const uint8_t *key)
{
	uint8_t *val = nft_tab_find(&h->fam[fam].sets[set], key);

	if (val != NULL)
		val[nft_data_len(set, fam)] &= (uint8_t)~WANTED;
}

size_t nft_loaded_count(const struct nft_loaded *h)
{
	size_t n = 0;

	for (int fam = 0; fam < IPFAM_N; fam++)
		for (int set = 0; set < NFTSET_N; set++)
			n += h->fam[fam].sets[set].n;
	return n;
}

bool nft_loaded_has_table(const struct nft_loaded *h, enum ipfam fam)
{
	return h->fam[fam].has_table;
}

static uint32_t word_at(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			const uint8_t *key)
{
	const uint8_t *data = nft_loaded_find(h, fam, set, key);

	return data != NULL ? nft_get_word(data) : 0;
}

bool nft_loaded_led(const struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
		    struct nft_led *ret)
{
	uint32_t word = word_at(h, fam, NFTSET_FRONTENDS, key);

	*ret = (struct nft_led){ 0 };
	if (word == 0)
		return false;
	if (nft_word_kind(word) == NFT_KIND_FW) {
		ret->is_guarded = true;
		ret->guard = word;
		word = word_at(h, fam, NFTSET_FW_FRONTENDS, key);
	}
	if (nft_word_kind(word) == NFT_KIND_XL) {
		ret->is_split = true;
		ret->inside = word_at(h, fam, NFTSET_XL_CLUSTER, key);
		word = word_at(h, fam, NFTSET_XL_LOCAL, key);
	}
	ret->target = word;
	return true;
}

/* --- pools --- */

/* The ranges of a pool as they were read: their keys begin with its number, high byte first. */
static const uint8_t *ranges_of(const struct nft_loaded *h, enum ipfam fam, uint32_t id, size_t *n)
{
	const struct family *f = &h->fam[fam];
	size_t len = nft_key_len(NFTSET_FW_RANGES, fam);
	size_t lo = 0;
	size_t hi = f->n_ranges;
	size_t end;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (nft_get_range_pool(f->ranges + mid * len) < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (end = lo; end < f->n_ranges; end++)
		if (nft_get_range_pool(f->ranges + end * len) != id)
			break;
	*n = end - lo;
	return f->ranges == NULL ? NULL : f->ranges + lo * len;
}

typedef void key_fn(void *arg, enum nft_set_id set, const uint8_t *key);

/* Every key that may stand for a part of the pool: its slots, what they lead to, its ranges. */
static void each_key(const struct nft_loaded *h, enum ipfam fam, uint32_t id, key_fn *fn, void *arg)
{
	size_t len = nft_key_len(NFTSET_FW_RANGES, fam);
	struct pool pool = { 0 };
	const uint8_t *ranges;
	size_t n;

	(void)pool_get(&h->fam[fam], id, &pool);
	for (uint32_t slot = 0; slot < pool.n_slots; slot++) {
		uint8_t key[NFT_KEY_MAX];
		uint32_t aff;

		nft_key_slot(key, id, slot);
		aff = word_at(h, fam, NFTSET_AFF_SLOTS, key);
		fn(arg, NFTSET_ENDPOINTS, key);
		fn(arg, NFTSET_AFF_SLOTS, key);
		if (nft_word_pool(aff) == id && nft_word_kind(aff) != 0) {
			nft_put_word(key, aff);
			fn(arg, NFTSET_AFF_ENDPOINTS, key);
		}
	}
	ranges = ranges_of(h, fam, id, &n);
	for (size_t i = 0; i < n; i++)
		fn(arg, NFTSET_FW_RANGES, ranges + i * len);
}

struct touch {
	const struct nft_loaded *h;
	enum ipfam fam;
	struct nft_changes *changes;
	struct svc *svc;
};

static void touch_key(void *arg, enum nft_set_id set, const uint8_t *key)
{
	const struct touch *t = arg;

	if (nft_loaded_find(t->h, t->fam, set, key) != NULL)
		(void)nft_changes_touch(t->changes, t->fam, set, key, t->svc);
}

void nft_loaded_touch_pool(const struct nft_loaded *h, enum ipfam fam, uint32_t id,
			   struct nft_changes *changes, struct svc *svc)
{
	struct touch t = { h, fam, changes, svc };

	each_key(h, fam, id, touch_key, &t);
}

void nft_loaded_touch_frontend(const struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
			       struct nft_changes *changes, struct svc *svc)
{
	struct touch t = { h, fam, changes, svc };

	for (int set = 0; set < NFTSET_N; set++)
		if (nft_set_is_by_tuple(set))
			touch_key(&t, set, key);
}

/* A pool that the transaction leads fewer, or more, elements to. */
struct unled {
	uint32_t id;
	int64_t change;
};

static int unled_cmp(const void *a, const void *b)
{
	return u32_cmp(&((const struct unled *)a)->id, &((const struct unled *)b)->id);
}

/* What is held was settled before: say so for what joins now. */
static void unled_key(void *arg, enum nft_set_id set, const uint8_t *key)
{
	const struct touch *t = arg;
	const uint8_t *data = nft_loaded_find(t->h, t->fam, set, key);
	struct nft_change *ch;

	if (data == NULL)
		return;
	ch = nft_changes_touch(t->changes, t->fam, set, key, NULL);
	ch->has_held = true;
	memcpy(ch->held, data, nft_data_len(set, t->fam));
}

static void unled_family(const struct nft_loaded *h, enum ipfam fam, struct nft_changes *changes)
{
	struct touch t = { h, fam, changes, NULL };
	VEC(struct unled) v = { 0 };
	struct pool pool;

	for (size_t i = 0; i < ARRAY_SIZE(leading); i++)
		nft_changes_for_each (ch, changes, fam, leading[i]) {
			if (ch->has_held)
				*vec_push(&v) =
					(struct unled){ nft_word_pool(nft_get_word(ch->held)), -1 };
			if (ch->has_new)
				*vec_push(&v) =
					(struct unled){ nft_word_pool(nft_get_word(ch->data)), 1 };
		}
	if (v.n > 1)
		qsort(v.v, v.n, sizeof(v.v[0]), unled_cmp);
	for (size_t i = 0, end; i < v.n; i = end) {
		int64_t change = 0;

		for (end = i; end < v.n && v.v[end].id == v.v[i].id; end++)
			change += v.v[end].change;
		if (change < 0 && pool_get(&h->fam[fam], v.v[i].id, &pool) &&
		    pool.n_leads + change <= 0)
			each_key(h, fam, v.v[i].id, unled_key, &t);
	}
	vec_fini(&v);
}

void nft_loaded_touch_unled(const struct nft_loaded *h, struct nft_changes *changes)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		unled_family(h, fam, changes);
}

struct marking {
	struct nft_loaded *h;
	enum ipfam fam;
	void (*fn)(void *arg, const uint8_t *endpoint);
	void *arg;
};

static void mark_key(void *arg, enum nft_set_id set, const uint8_t *key)
{
	const struct marking *m = arg;
	const uint8_t *data = nft_loaded_find(m->h, m->fam, set, key);

	nft_loaded_mark(m->h, m->fam, set, key);
	if (set == NFTSET_ENDPOINTS && data != NULL)
		m->fn(m->arg, data);
}

void nft_loaded_mark_led(struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
			 void (*fn)(void *arg, const uint8_t *endpoint), void *arg)
{
	struct marking m = { h, fam, fn, arg };
	struct nft_led led;

	if (!nft_loaded_led(h, fam, key, &led))
		return;
	for (int set = 0; set < NFTSET_N; set++)
		if (nft_set_is_by_tuple(set))
			nft_loaded_mark(h, fam, set, key);
	each_key(h, fam, nft_word_pool(led.target), mark_key, &m);
	if (led.is_split)
		each_key(h, fam, nft_word_pool(led.inside), mark_key, &m);
	if (led.is_guarded)
		each_key(h, fam, nft_word_pool(led.guard), mark_key, &m);
}

/* --- reading --- */

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
	for (size_t i = 0; i < ARRAY_SIZE(dumped); i++) {
		int r;

		rd->set = dumped[i];
		if (!nft_layout_has_set(l, dumped[i]))
			continue;
		r = nft_elems_dump(rd->nl, &rd->table, dumped[i], dump_begin, dump_elem, rd,
				   rd->err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A word of the kernel names a pool, and how many slots it has. */
static void pool_note(struct family *f, uint32_t word)
{
	uint32_t id = nft_word_pool(word);
	struct nft_kind_info info = { 0 };
	struct pool pool = { 0 };

	if (id == 0)
		return;
	(void)pool_get(f, id, &pool);
	pool.n_leads++;
	if (nft_kind_info(nft_word_kind(word), &info) && info.slots > pool.n_slots) {
		pool.kind = nft_word_kind(word);
		pool.n_slots = info.slots;
	}
	pool_put(f, id, &pool);
}

/* The ids of all pools, sorted: what is sent must not depend on hash order. */
static uint32_t *pools_find(struct family *f, size_t *n)
{
	struct nft_tab_pos pos = { 0 };
	const uint8_t *key;
	uint32_t *ids;
	uint8_t *val;

	nft_tab_clear(&f->pools); /* a dump that was interrupted has counted too */
	for (size_t i = 0; i < ARRAY_SIZE(leading); i++) {
		struct nft_tab_pos at = { 0 };

		while (nft_tab_next(&f->sets[leading[i]], &at, &key, &val))
			pool_note(f, nft_get_word(val));
	}
	ids = xmalloc((f->pools.n + 1) * sizeof(*ids));
	for (*n = 0; nft_tab_next(&f->pools, &pos, &key, &val); ++*n)
		memcpy(&ids[*n], key, sizeof(ids[0]));
	qsort(ids, *n, sizeof(ids[0]), u32_cmp);
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
static void class_read(struct reading *rd, uint32_t id, struct pool *pool,
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
	pool_put(&rd->h->fam[rd->table.fam], id, pool);
}

static void slots_read(struct reading *rd, const uint32_t *ids, size_t n)
{
	const struct family *f = &rd->h->fam[rd->table.fam];
	struct nft_kind_info info;
	struct pool pool;

	rd->set = NFTSET_ENDPOINTS;
	for (size_t i = 0; i < n; i++)
		if (pool_get(f, ids[i], &pool) && nft_kind_info(pool.kind, &info) &&
		    info.slots == info.safe_slots)
			slots_gather(rd, ids[i], 0, info.slots, NFT_GET_ALL);
	keys_flush(rd, NFT_GET_ALL);
	for (size_t i = 0; i < n && rd->result == 0; i++)
		if (pool_get(f, ids[i], &pool) && nft_kind_info(pool.kind, &info) &&
		    info.slots > info.safe_slots)
			class_read(rd, ids[i], &pool, &info);
}

static void affinity_read(struct reading *rd, const uint32_t *ids, size_t n)
{
	const struct family *f = &rd->h->fam[rd->table.fam];
	struct nft_kind_info info;
	struct pool pool;
	uint8_t key[NFT_KEY_MAX];

	rd->set = NFTSET_AFF_SLOTS;
	for (size_t i = 0; i < n; i++)
		if (pool_get(f, ids[i], &pool) && nft_kind_info(pool.kind, &info) &&
		    info.affinity_s != 0)
			slots_gather(rd, ids[i], 0, pool.n_slots, NFT_GET_ALL);
	keys_flush(rd, NFT_GET_ALL);
	rd->set = NFTSET_AFF_ENDPOINTS;
	for (size_t i = 0; i < n; i++) {
		if (!pool_get(f, ids[i], &pool))
			continue;
		for (uint32_t slot = 0; slot < pool.n_slots; slot++) {
			uint32_t word;

			nft_key_slot(key, ids[i], slot);
			word = word_at(rd->h, rd->table.fam, NFTSET_AFF_SLOTS, key);
			if (word == 0 || nft_word_pool(word) != ids[i])
				continue;
			nft_put_word(key, word);
			key_gather(rd, key, NFT_GET_ALL);
		}
	}
	keys_flush(rd, NFT_GET_ALL);
}

static int key_cmp(const void *a, const void *b, void *len)
{
	return memcmp(a, b, *(const size_t *)len);
}

static void ranges_list(struct family *f)
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
	qsort_r(f->ranges, f->n_ranges, len, key_cmp, &len);
}

static bool has_pool_sets(const struct nft_layout *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(by_key); i++)
		if (!nft_layout_has_set(l, by_key[i]))
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

/* --- recall --- */

/* Ids of the kernel that the plan has not given out may be recalled, and are not given out anew. */
static void ids_reserve(struct nft_loaded *h, struct plan *plan)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct nft_tab_pos pos = { 0 };
		const uint8_t *key;
		uint8_t *val;

		while (nft_tab_next(&h->fam[fam].pools, &pos, &key, &val)) {
			struct pool pool;
			uint32_t id;

			memcpy(&id, key, sizeof(id));
			memcpy(&pool, val, sizeof(pool));
			pool.is_ours = !plan_id_is_used(plan, fam, id);
			memcpy(val, &pool, sizeof(pool));
			plan_id_reserve(plan, fam, id);
		}
	}
	h->plan = plan;
}

void nft_loaded_release_ids(struct nft_loaded *h)
{
	for (int fam = 0; fam < IPFAM_N && h->plan != NULL; fam++) {
		struct nft_tab_pos pos = { 0 };
		const uint8_t *key;
		uint8_t *val;

		while (nft_tab_next(&h->fam[fam].pools, &pos, &key, &val)) {
			struct pool pool;
			uint32_t id;

			memcpy(&id, key, sizeof(id));
			memcpy(&pool, val, sizeof(pool));
			if (pool.is_ours && !pool.is_taken)
				plan_id_release(h->plan, fam, id);
		}
	}
}

/* Local ids as the kernel has them; none where the elements do not agree. */
static uint16_t recall_aff_id(const struct nft_loaded *h, enum ipfam fam, uint32_t id,
			      const uint8_t *slot_key, const uint8_t *endpoint)
{
	uint32_t word = word_at(h, fam, NFTSET_AFF_SLOTS, slot_key);
	const uint8_t *data;
	uint8_t key[NFT_KEY_MAX];

	if (nft_word_pool(word) != id || nft_word_kind(word) == 0)
		return 0;
	nft_put_word(key, word);
	data = nft_loaded_find(h, fam, NFTSET_AFF_ENDPOINTS, key);
	if (data == NULL || memcmp(data, endpoint, nft_data_len(NFTSET_AFF_ENDPOINTS, fam)) != 0)
		return 0;
	return nft_word_kind(word);
}

static void recall_slots(const struct nft_loaded *h, struct plan_pool *pool, uint32_t n_slots)
{
	struct plan_backend *held = xcalloc(MAX(n_slots, 1U), sizeof(*held));
	uint64_t used[(PLAN_AFFINITY_BACKENDS_MAX + 64) / 64] = { 0 };
	uint16_t max = 0;

	for (uint32_t slot = 0; slot < n_slots; slot++) {
		uint8_t key[NFT_KEY_MAX];
		const uint8_t *data;
		uint16_t aff;

		nft_key_slot(key, pool->id, slot);
		data = nft_loaded_find(h, pool->fam, NFTSET_ENDPOINTS, key);
		if (data == NULL)
			continue;
		nft_get_endpoint(&held[slot], pool->fam, data);
		aff = pool->affinity_s != 0 ? recall_aff_id(h, pool->fam, pool->id, key, data) : 0;
		if (aff == 0 || (used[aff / 64] >> (aff % 64)) & 1)
			continue;
		used[aff / 64] |= UINT64_C(1) << (aff % 64);
		held[slot].aff_id = aff;
		max = aff > max ? aff : max;
	}
	plan_slots_arrange(pool->backends.v, pool->backends.n, held, n_slots);
	if (pool->affinity_s != 0)
		pool->next_aff_id = max == PLAN_AFFINITY_BACKENDS_MAX ? 1 : (uint16_t)(max + 1);
	free(held);
}

static struct plan_pool *rows_pool(const struct plan_rows *rows, const struct plan_frontend *f,
				   enum plan_scope scope)
{
	const struct name *port_name = rows->svc->service->ports.v[f->port_index].name;

	vec_for_each (pool, &rows->pools)
		if (pool->fam == ip_fam(&f->addr) && pool->scope == scope &&
		    pool->proto == f->proto && pool->port_name == port_name)
			return pool;
	return NULL;
}

/* The pool of `rows` gets the id in `word` if neither has anything else. */
static void recall_pool(struct nft_loaded *h, struct plan_pool *pool, uint32_t word)
{
	uint32_t id = nft_word_pool(word);
	struct pool held;

	if (pool == NULL || pool->id != 0 || id == 0 || !pool_get(&h->fam[pool->fam], id, &held) ||
	    !held.is_ours || held.is_taken)
		return;
	held.is_taken = 1;
	pool_put(&h->fam[pool->fam], id, &held);
	pool->id = id;
	recall_slots(h, pool, held.n_slots);
}

/* The frontend is led in the kernel the way it shall be. */
static void recall_alike(struct nft_loaded *h, const struct plan_rows *rows,
			 const struct plan_frontend *f, const struct nft_led *led)
{
	recall_pool(h, rows_pool(rows, f, f->target.scope), led->target);
	if (f->is_split)
		recall_pool(h, rows_pool(rows, f, f->inside.scope), led->inside);
}

/* It was split and shall no longer be, or the reverse: what served all were the cluster's. */
static void recall_unlike(struct nft_loaded *h, const struct plan_rows *rows,
			  const struct plan_frontend *f, const struct nft_led *led)
{
	if (f->is_split) {
		recall_pool(h, rows_pool(rows, f, f->inside.scope), led->target);
		recall_pool(h, rows_pool(rows, f, f->target.scope), led->target);
	} else {
		bool is_local = f->target.scope == PLAN_SCOPE_LOCAL;

		recall_pool(h, rows_pool(rows, f, f->target.scope),
			    is_local ? led->target : led->inside);
	}
}

void nft_loaded_recall(struct nft_loaded *h, struct plan *plan, struct plan_rows *rows)
{
	if (h->plan == NULL)
		ids_reserve(h, plan);
	for (int pass = 0; pass < 2; pass++) {
		vec_for_each (f, &rows->frontends) {
			uint8_t key[NFT_KEY_MAX];
			struct nft_led led;

			nft_key_tuple(key, &f->addr, f->proto, f->port);
			if (!nft_loaded_led(h, ip_fam(&f->addr), key, &led))
				continue;
			if (pass == 0 && f->is_split == led.is_split)
				recall_alike(h, rows, f, &led);
			else if (pass == 1 && f->is_split != led.is_split)
				recall_unlike(h, rows, f, &led);
		}
	}
}

/* --- sweeping --- */

uint8_t *nft_loaded_unwanted(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			     size_t *n)
{
	const struct nft_tab *t = &h->fam[fam].sets[set];
	size_t len = nft_key_len(set, fam);
	size_t data_len = nft_data_len(set, fam);
	struct nft_tab_pos pos = { 0 };
	uint8_t *keys = NULL;
	size_t cap = 0;
	const uint8_t *key;
	uint8_t *val;

	*n = 0;
	while (nft_tab_next(t, &pos, &key, &val)) {
		if (val[data_len] & WANTED)
			continue;
		if (*n == cap) {
			cap = cap == 0 ? 64 : cap * 2;
			keys = xreallocarray(keys, cap, len);
		}
		memcpy(keys + (*n)++ * len, key, len);
	}
	if (*n > 0)
		qsort_r(keys, *n, len, key_cmp, &len);
	return keys;
}
