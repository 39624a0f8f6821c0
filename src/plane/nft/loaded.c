/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/loaded.h"

#include <string.h>

#include "nft/decode.h"

const enum nft_set_id nft_dumped[NFT_DUMPED_N] = {
	/* Kinds of frontends are read before maps that lead to pools. */
	NFTSET_CLUSTER_IPS,  NFTSET_MASQ_FRONTENDS, NFTSET_MASQ_HOSTS, NFTSET_FRONTENDS,
	NFTSET_FW_FRONTENDS, NFTSET_XL_CLUSTER,     NFTSET_XL_LOCAL,   NFTSET_VIPS,
	NFTSET_FW_RANGES,    NFTSET_COUNTED,        NFTSET_REJECTED,   NFTSET_LOCAL_BACKENDS,
	NFTSET_AFF_SLOTS,    NFTSET_AFF_ENDPOINTS,
};

/* --- pools and the elements that name them --- */

bool nft_loaded_pool_get(const struct nft_loaded *h, enum ipfam fam, uint32_t id,
			 struct nft_loaded_pool *ret)
{
	const void *p = nft_keymap_find(&h->pools[fam], &id);

	if (p != NULL)
		memcpy(ret, p, sizeof(*ret));
	return p != NULL;
}

void nft_loaded_pool_put(struct nft_loaded *h, enum ipfam fam, uint32_t id,
			 const struct nft_loaded_pool *pool)
{
	memcpy(nft_keymap_put(&h->pools[fam], &id, NULL), pool, sizeof(*pool));
}

/* Add `by` to the number of elements that name a known pool; returns it. */
static uint32_t leads_add(struct nft_loaded *h, enum ipfam fam, const uint8_t *word, int by)
{
	uint32_t id = nft_word_pool(nft_get_word(word));
	struct nft_loaded_pool pool;

	if (!nft_loaded_pool_get(h, fam, id, &pool))
		return UINT32_MAX;
	pool.n_leads += (uint32_t)by;
	nft_loaded_pool_put(h, fam, id, &pool);
	return pool.n_leads;
}

static void changed(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set, const uint8_t *was,
		    const uint8_t *will)
{
	struct nft_loaded *h = nft_loaded_of(l);
	uint32_t id = will != NULL ? nft_word_pool(nft_get_word(will)) : 0;

	if (!nft_set_is_leading(set))
		return;
	if (was != NULL)
		(void)leads_add(h, fam, was, -1);
	if (id == 0)
		return;
	(void)nft_keymap_put(&h->pools[fam], &id, NULL);
	(void)leads_add(h, fam, will, 1);
}

/* --- opening and closing --- */

void nft_loaded_open(struct nft_loaded **ret)
{
	struct nft_loaded *h = xcalloc(1, sizeof(*h));

	h->elems.changed = changed;
	for (size_t i = 0; i < NFT_DUMPED_N; i++)
		plane_loaded_cover(&h->elems, nft_dumped[i]);
	plane_loaded_cover(&h->elems, NFTSET_ENDPOINTS);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		nft_keymap_init(&h->pools[fam], sizeof(uint32_t), sizeof(struct nft_loaded_pool));
		h->elems.is_fresh[fam] = true;
	}
	*ret = h;
}

void nft_loaded_forget(struct nft_loaded *h, enum ipfam fam)
{
	plane_loaded_forget(&h->elems, fam);
	nft_keymap_clear(&h->pools[fam]);
	h->elems.is_fresh[fam] = true;
}

void nft_loaded_close(struct nft_loaded *h)
{
	if (h == NULL)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_loaded_forget(h, fam);
	free(h);
}

uint32_t nft_loaded_word(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			 const uint8_t *key)
{
	const uint8_t *data = plane_loaded_find(&h->elems, fam, set, key);

	return data != NULL ? nft_get_word(data) : 0;
}

bool nft_loaded_led(const struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
		    struct nft_led *ret)
{
	uint32_t word = nft_loaded_word(h, fam, NFTSET_FRONTENDS, key);

	*ret = (struct nft_led){ 0 };
	if (word == 0)
		return false;
	if (nft_word_kind(word) == NFT_KIND_FW) {
		ret->is_guarded = true;
		ret->guard = word;
		word = nft_loaded_word(h, fam, NFTSET_FW_FRONTENDS, key);
	}
	if (nft_word_kind(word) == NFT_KIND_XL) {
		ret->is_split = true;
		ret->inside = nft_loaded_word(h, fam, NFTSET_XL_CLUSTER, key);
		word = nft_loaded_word(h, fam, NFTSET_XL_LOCAL, key);
	}
	ret->target = word;
	return true;
}

void nft_loaded_kinds(const struct nft_loaded *h, enum ipfam fam, struct nft_kinds *ret)
{
	for (enum nft_set_id set = 0; set < NFTSET_N; set++)
		if (nft_set_is_leading(set))
			nft_keymap_for_each (e, &h->elems.sets[fam][set])
				bit_set(ret->bits, nft_word_kind(nft_get_word(e.val)));
}

/* --- pools --- */

/* Call `fn` for every key of slots from `from` on that may belong to the pool, and their ids. */
static void each_slot(const struct nft_loaded *h, enum ipfam fam, uint32_t id, uint32_t from,
		      nft_key_fn *fn, void *arg)
{
	struct nft_loaded_pool pool = { 0 };

	(void)nft_loaded_pool_get(h, fam, id, &pool);
	for (uint32_t slot = from; slot < pool.n_slots; slot++) {
		uint8_t key[NFT_KEY_MAX];
		uint32_t aff;

		nft_key_slot(key, id, slot);
		aff = nft_loaded_word(h, fam, NFTSET_AFF_SLOTS, key);
		fn(arg, NFTSET_ENDPOINTS, key);
		fn(arg, NFTSET_AFF_SLOTS, key);
		if (nft_word_pool(aff) == id && nft_word_kind(aff) != 0) {
			nft_put_word(key, aff);
			fn(arg, NFTSET_AFF_ENDPOINTS, key);
		}
	}
}

void nft_loaded_each_id(const struct nft_loaded *h, enum ipfam fam, uint32_t id, nft_key_fn *fn,
			void *arg)
{
	plane_loaded_each_range(&h->elems, fam, NFTSET_AFF_ENDPOINTS, nft_word(id, 0), fn, arg);
}

void nft_loaded_touch_pool(const struct nft_loaded *h, const struct plan_pool *pool,
			   struct nft_changes *changes, struct svc *svc)
{
	struct plane_touch t = { &h->elems, pool->fam, changes, svc };

	if (!plan_pool_is_part(pool)) {
		each_slot(h, pool->fam, pool->id, 0, plane_touch_key, &t);
		nft_loaded_each_id(h, pool->fam, pool->id, plane_touch_key, &t);
	}
	plane_loaded_each_range(&h->elems, pool->fam, NFTSET_FW_RANGES, nft_word(pool->id, 0),
				plane_touch_key, &t);
}

void nft_loaded_touch_end(const struct nft_loaded *h, const struct plan_pool *pool,
			  struct nft_changes *changes, struct svc *svc)
{
	struct plane_touch t = { &h->elems, pool->fam, changes, svc };

	each_slot(h, pool->fam, pool->id, (uint32_t)plan_pool_slots(pool), plane_touch_key, &t);
}

static void each_key(const struct nft_loaded *h, enum ipfam fam, uint32_t id, nft_key_fn *fn,
		     void *arg)
{
	each_slot(h, fam, id, 0, fn, arg);
	nft_loaded_each_id(h, fam, id, fn, arg);
	plane_loaded_each_range(&h->elems, fam, NFTSET_FW_RANGES, nft_word(id, 0), fn, arg);
}

/* plane_settle() has run already: set the programmed state of added keys here. */
static void unled_key(void *arg, enum nft_set_id set, const uint8_t *key)
{
	const struct plane_touch *t = arg;
	const uint8_t *data = plane_loaded_find(t->l, t->fam, set, key);
	struct nft_change *ch;

	if (data == NULL)
		return;
	ch = nft_changes_touch(t->changes, t->fam, set, key, NULL);
	ch->has_programmed = true;
	memcpy(ch->programmed, data, nft_data_len(set, t->fam));
}

/* Count the leads that the first `n` changes add (`by` 1), or take them back (-1). */
static void new_leads_count(struct nft_loaded *h, const struct nft_changes *c, size_t n, int by)
{
	for (size_t i = 0; i < n; i++)
		if (nft_set_is_leading(c->v.v[i].set) && c->v.v[i].has_new)
			(void)leads_add(h, c->v.v[i].fam, c->v.v[i].data, by);
}

/* As new_leads_count(), for leads that changes remove: touch the pools that have none left. */
static void old_leads_count(struct nft_loaded *h, struct nft_changes *c, size_t n, int by)
{
	for (size_t i = 0; i < n; i++) {
		const struct nft_change *ch = &c->v.v[i];
		struct plane_touch t = { &h->elems, ch->fam, c, NULL };

		if (nft_set_is_leading(ch->set) && ch->has_programmed &&
		    leads_add(h, ch->fam, ch->programmed, by) == 0)
			each_key(h, t.fam, nft_word_pool(nft_get_word(ch->programmed)), unled_key,
				 &t);
	}
}

void nft_loaded_touch_unled(struct nft_loaded *h, struct nft_changes *changes)
{
	size_t n = changes->v.n; /* touched keys are added */

	new_leads_count(h, changes, n, 1);
	old_leads_count(h, changes, n, -1);
	old_leads_count(h, changes, n, 1);
	new_leads_count(h, changes, n, -1);
}

struct keeping {
	struct nft_loaded *h;
	enum ipfam fam;
	struct nft_refs *addrs;
};

static void keep_key(void *arg, enum nft_set_id set, const uint8_t *key)
{
	const struct keeping *k = arg;
	const uint8_t *data = plane_loaded_find(&k->h->elems, k->fam, set, key);

	plane_loaded_desire(&k->h->elems, k->fam, set, key, true);
	if (set == NFTSET_ENDPOINTS && data != NULL)
		nft_refs_keep(k->addrs, data);
}

void nft_loaded_keep_led(struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
			 struct nft_refs *addrs)
{
	struct keeping k = { h, fam, addrs };
	struct nft_led led;

	if (!nft_loaded_led(h, fam, key, &led))
		return;
	for (int set = 0; set < NFTSET_N; set++)
		if (nft_set_is_by_tuple(set))
			plane_loaded_desire(&h->elems, fam, set, key, true);
	each_key(h, fam, nft_word_pool(led.target), keep_key, &k);
	if (led.is_split)
		each_key(h, fam, nft_word_pool(led.inside), keep_key, &k);
	if (led.is_guarded)
		each_key(h, fam, nft_word_pool(led.guard), keep_key, &k);
}
