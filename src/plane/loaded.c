/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/loaded.h"

#include <stdlib.h>
#include <string.h>

#include "plane/rules.h"

#define DESIRED 1

void plane_loaded_cover(struct plane_loaded *l, enum nft_set_id set)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_keymap_init(&l->sets[fam][set], nft_key_len(set, fam),
				nft_data_len(set, fam) + 1);
}

void plane_loaded_forget(struct plane_loaded *l, enum ipfam fam)
{
	for (int set = 0; set < NFTSET_END; set++) {
		nft_keymap_clear(&l->sets[fam][set]);
		free(l->ranges[fam][set].keys);
		l->ranges[fam][set] = (struct plane_loaded_ranges){ 0 };
	}
}

/* --- elements --- */

void plane_loaded_put(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
		      const uint8_t *key, const uint8_t *data, bool is_desired)
{
	size_t len = nft_data_len(set, fam);
	bool is_new;
	uint8_t *val = nft_keymap_put(&l->sets[fam][set], key, &is_new);

	if (l->changed != NULL)
		l->changed(l, fam, set, is_new ? NULL : val, data);
	if (len > 0)
		memcpy(val, data, len);
	if (is_desired)
		val[len] = DESIRED;
}

bool plane_loaded_is_cluster_ip(const struct plane_loaded *l, const struct plane_sets *sets,
				enum ipfam fam, const uint8_t *key)
{
	return plane_loaded_find(l, fam, sets->cluster_ips, key) != NULL &&
	       plane_loaded_find(l, fam, sets->masq, key) == NULL &&
	       plane_loaded_find(l, fam, sets->masq_hosts, key) == NULL;
}

/*
 * For each datagram the kernel walks the hash table from its first bucket and skips as many
 * elements as it has sent (net/netfilter/nft_set_hash.c nft_rhash_walk). A resize between two
 * datagrams changes the order, but a dump never lists fewer elements than the set has: if all of
 * them are different, the dump is complete, and so is the copy once it has as many elements as a
 * dump listed.
 */
int plane_loaded_dump_step(const struct plane_loaded *l, struct nft_walk *w, struct nl_sock *nl,
			   const struct nft_table_ref *table, enum nft_set_id set, nft_elem_fn *fn,
			   void *arg, struct err *err)
{
	int r = nft_elems_dump_step(w, nl, table, set, fn, arg, err);

	return r == 0 && w->n > l->sets[table->fam][set].n ? nft_elems_dump_again(w, err) : r;
}

void plane_loaded_del(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
		      const uint8_t *key)
{
	const uint8_t *data = plane_loaded_find(l, fam, set, key);

	if (data == NULL)
		return;
	if (l->changed != NULL)
		l->changed(l, fam, set, data, NULL);
	(void)nft_keymap_del(&l->sets[fam][set], key);
}

void plane_loaded_desire(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			 const uint8_t *key, bool is_desired)
{
	uint8_t *val = nft_keymap_find(&l->sets[fam][set], key);

	if (val != NULL)
		val[nft_data_len(set, fam)] = is_desired ? DESIRED : 0;
}

/* --- undesired elements --- */

static int key_cmp(const void *a, const void *b, void *len)
{
	return memcmp(a, b, *(const size_t *)len);
}

bool plane_loaded_is_undesired(const struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			       const uint8_t *key)
{
	const uint8_t *val = plane_loaded_find(l, fam, set, key);

	return !l->is_fresh[fam] && val != NULL && val[nft_data_len(set, fam)] != DESIRED;
}

size_t plane_loaded_undesired_count(const struct plane_loaded *l, enum ipfam fam,
				    enum nft_set_id set)
{
	size_t at = nft_data_len(set, fam);
	size_t n = 0;

	if (l->is_fresh[fam])
		return 0;
	nft_keymap_for_each (e, &l->sets[fam][set])
		n += e.val[at] != DESIRED;
	return n;
}

uint8_t *plane_loaded_undesired(const struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
				size_t max, size_t *n)
{
	size_t len = nft_key_len(set, fam);
	size_t data_len = nft_data_len(set, fam);
	uint8_t *keys;

	*n = 0;
	max = MIN(max, plane_loaded_undesired_count(l, fam, set));
	if (max == 0)
		return NULL;
	keys = xreallocarray(NULL, max, len);
	nft_keymap_for_each (e, &l->sets[fam][set]) {
		if (*n == max)
			break;
		if (e.val[data_len] != DESIRED)
			memcpy(keys + (*n)++ * len, e.key, len);
	}
	qsort_r(keys, *n, len, key_cmp, &len);
	return keys;
}

static const uint8_t *source_find(const void *ctx, enum ipfam fam, enum nft_set_id set,
				  const uint8_t *key)
{
	return plane_loaded_covers(ctx, set) ? plane_loaded_find(ctx, fam, set, key) : key;
}

/* Before the first commit no element is desired. */
static void source_each(const void *ctx, enum ipfam fam, enum nft_set_id set,
			void (*fn)(void *arg, const uint8_t *key), void *arg)
{
	size_t len = nft_key_len(set, fam);
	size_t n;
	AUTO(free) uint8_t *keys = plane_loaded_undesired(ctx, fam, set, SIZE_MAX, &n);

	for (size_t i = 0; i < n; i++)
		fn(arg, keys + i * len);
}

struct nft_source plane_loaded_source(const struct plane_loaded *l)
{
	return (struct nft_source){ source_find, source_each, l };
}

/* The pool that a key names: of a range without its length, of a local id without the id. */
static uint32_t range_word(enum nft_set_id set, const uint8_t *key)
{
	return nft_get_word(key) & nft_range_mask(set);
}

static int range_cmp(const void *a, const void *b, void *set)
{
	uint32_t x = range_word(*(const enum nft_set_id *)set, a);
	uint32_t y = range_word(*(const enum nft_set_id *)set, b);

	return CMP(x, y);
}

/* Before the first commit no element is desired. */
void plane_loaded_ranges_list(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set)
{
	struct plane_loaded_ranges *r = &l->ranges[fam][set];

	free(r->keys);
	r->keys = plane_loaded_undesired(l, fam, set, SIZE_MAX, &r->n);
	if (r->n > 0)
		qsort_r(r->keys, r->n, nft_key_len(set, fam), range_cmp, &set);
}

void plane_loaded_each_range(const struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			     uint32_t word,
			     void (*fn)(void *arg, enum nft_set_id set, const uint8_t *key),
			     void *arg)
{
	const uint8_t *keys = l->ranges[fam][set].keys;
	size_t len = nft_key_len(set, fam);
	size_t n = l->ranges[fam][set].n;
	size_t i;

	word &= nft_range_mask(set);
	i = bisect(n, k, range_word(set, keys + k * len) < word);
	for (; i < n && range_word(set, keys + i * len) == word; i++)
		fn(arg, set, keys + i * len);
}

void plane_touch_key(void *touch, enum nft_set_id set, const uint8_t *key)
{
	const struct plane_touch *t = touch;

	if (plane_loaded_find(t->l, t->fam, set, key) != NULL)
		(void)nft_changes_touch(t->changes, t->fam, set, key, t->svc);
}
