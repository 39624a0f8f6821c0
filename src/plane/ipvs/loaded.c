/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/loaded - elements of the kernel, read for adoption, and the pools in their marks.
 *
 *  A pool is found by a frontend that leads to it. A frontend whose mark has no pool, because it
 *  rejects or is served by address and port, has a second element with the mark of its pool, in
 * `idle`.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nft/decode.h"
#include "plane/ipvs/state.h"

#define WANTED 1
#define READ_DATAGRAMS 10 /* a step of load(), about 4000 elements */

/* Obsolete sets of counters are removed as a whole with the layout. */
static bool is_copied(const struct ipvs_plane *p, enum nft_set_id set)
{
	return set < IPVSSET_REMEMBERED && nft_set_exists(set, p->config.counting);
}

void ipvs_loaded_open(struct ipvs_loaded **ret)
{
	struct ipvs_loaded *c = xcalloc(1, sizeof(*c));

	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (enum nft_set_id set = IPVSSET_BEGIN; set < NFTSET_END; set++)
			nft_keymap_init(&c->sets[fam][set], nft_key_len(set, fam),
					nft_data_len(set, fam) + 1);
	}
	*ret = c;
}

void ipvs_loaded_close(struct ipvs_loaded *c)
{
	if (c == NULL)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (enum nft_set_id set = IPVSSET_BEGIN; set < NFTSET_END; set++)
			nft_keymap_clear(&c->sets[fam][set]);
	}
	free(c);
}

const uint8_t *ipvs_loaded_find(const struct ipvs_loaded *c, enum ipfam fam, enum nft_set_id set,
				const uint8_t *key)
{
	return nft_keymap_find(&c->sets[fam][set], key);
}

void ipvs_loaded_put(struct ipvs_loaded *c, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		     const uint8_t *data, bool is_desired)
{
	size_t len = nft_data_len(set, fam);
	uint8_t *val = nft_keymap_put(&c->sets[fam][set], key, NULL);

	if (len > 0 && data != NULL)
		memcpy(val, data, len);
	val[len] = is_desired ? WANTED : 0;
}

void ipvs_loaded_del(struct ipvs_loaded *c, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	(void)nft_keymap_del(&c->sets[fam][set], key);
}

/* --- reading --- */

static int element_found(void *arg, const uint8_t *key, const uint8_t *data, struct err *err)
{
	const struct ipvs_plane *p = arg;

	(void)err;
	ipvs_loaded_put(p->load.loaded, p->load.fam, p->load.set, key, data, false);
	return 0;
}

/* Read one datagram, or begin the next set. */
static int read_some(struct ipvs_plane *p, struct err *err)
{
	struct nft_table_ref table = ipvs_table(p->load.fam);
	int r = 0;

	if (is_copied(p, p->load.set) && ipvs_layout_has_set(p->layout, p->load.fam, p->load.set))
		r = nft_elems_dump_step(&p->load.walk, p->query, &table, p->load.set, element_found,
					p, err);
	if (r != 0)
		return r;
	p->load.walk = (struct nft_walk){ 0 };
	if (++p->load.set < NFTSET_END)
		return 1;
	p->load.set = IPVSSET_BEGIN;
	return ++p->load.fam < IPFAM_N;
}

int ipvs_loaded_read(struct ipvs_plane *p, struct err *err)
{
	int r = 1;

	for (int i = 0; i < READ_DATAGRAMS && r > 0; i++)
		r = read_some(p, err);
	return r;
}

void ipvs_loaded_write(const struct ipvs_loaded *c, struct nft_elem_writer *w)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (enum nft_set_id set = IPVSSET_BEGIN; set < IPVSSET_REMEMBERED; set++) {
			bool has_data = nft_data_len(set, fam) > 0;
			struct nft_keymap_pos pos = { 0 };
			const uint8_t *key;
			uint8_t *val;

			while (nft_keymap_next(&c->sets[fam][set], &pos, &key, &val))
				nft_elem_put(w, NFT_WRITE_ADD, fam, set, key, has_data ? val : NULL,
					     "an element of the old one");
		}
}

static int key_cmp(const void *a, const void *b, void *len)
{
	return memcmp(a, b, *(const size_t *)len);
}

uint8_t *ipvs_loaded_undesired(const struct ipvs_loaded *c, enum ipfam fam, enum nft_set_id set,
			       size_t *n)
{
	const struct nft_keymap *t = &c->sets[fam][set];
	size_t key_len = nft_key_len(set, fam);
	size_t data_len = nft_data_len(set, fam);
	struct nft_keymap_pos pos = { 0 };
	const uint8_t *key;
	uint8_t *keys = NULL;
	uint8_t *val;

	*n = 0;
	if (t->n == 0)
		return NULL;
	keys = xreallocarray(NULL, t->n, key_len);
	while (nft_keymap_next(t, &pos, &key, &val))
		if (val[data_len] != WANTED)
			memcpy(keys + (*n)++ * key_len, key, key_len);
	if (*n > 1)
		qsort_r(keys, *n, key_len, key_cmp, &key_len);
	return keys;
}

size_t ipvs_loaded_undesired_count(const struct ipvs_loaded *c, enum ipfam fam, enum nft_set_id set)
{
	return nft_keymap_count_without(&c->sets[fam][set], nft_data_len(set, fam), WANTED);
}

/* --- adoption --- */

/* Maps whose data are marks of pools. */
static const enum nft_set_id pool_maps[] = { IPVSSET_FE, IPVSSET_FE_OUT, IPVSSET_FE_IN,
					     IPVSSET_IDLE };

/* Call fn() for each element with a mark. */
static void frontends_walk(const struct ipvs_loaded *c,
			   void (*fn)(void *arg, enum ipfam fam, const struct nft_tuple *t,
				      uint32_t mark),
			   void *arg)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < ARRAY_SIZE(pool_maps); i++) {
			struct nft_keymap_pos pos = { 0 };
			const uint8_t *key;
			uint8_t *val;

			while (nft_keymap_next(&c->sets[fam][pool_maps[i]], &pos, &key, &val)) {
				struct nft_tuple t;

				nft_get_tuple(&t, fam, key);
				fn(arg, fam, &t, nft_get_word(val));
			}
		}
}

static void protocol_set(void *arg, enum ipfam fam, const struct nft_tuple *t, uint32_t mark)
{
	struct ipvs_plane *p = arg;
	struct ipvs_key key = ipvs_key_mark(fam, mark);
	struct ipvs_vs *vs = ipvs_vs_find(p, &key);

	if (vs != NULL)
		vs->proto = t->proto;
}

void ipvs_loaded_set_protocols(const struct ipvs_loaded *c, struct ipvs_plane *p)
{
	frontends_walk(c, protocol_set, p);
}

struct protocol_query {
	uint8_t proto;
	bool is_found;
};

static void protocol_match(void *arg, enum ipfam fam, const struct nft_tuple *t, uint32_t mark)
{
	struct protocol_query *q = arg;

	q->is_found |= t->proto == q->proto;
}

bool ipvs_loaded_has_protocol(const struct ipvs_loaded *c, uint8_t proto)
{
	struct protocol_query q = { .proto = proto };

	frontends_walk(c, protocol_match, &q);
	return q.is_found;
}

static void id_reserve(void *arg, enum ipfam fam, const struct nft_tuple *t, uint32_t mark)
{
	struct ipvs_plane *p = arg;
	uint32_t id = ipvs_mark_id(&p->marks, mark);

	if (id != 0)
		plan_id_reserve(p->loaded->plan, fam, id);
}

static void ids_reserve(struct ipvs_plane *p, struct plan *plan)
{
	plan_ids_release(plan); /* of an interrupted load */
	p->loaded->plan = plan;
	frontends_walk(p->loaded, id_reserve, p);
	htable_for_each (n, &p->vss) {
		const struct ipvs_vs *vs = container_of(n, struct ipvs_vs, node);

		id_reserve(p, vs->key.fam, NULL, vs->key.mark);
	}
}

void ipvs_loaded_ids_release(struct ipvs_loaded *c)
{
	if (c->plan != NULL)
		plan_ids_release(c->plan);
}

/* Give a pool the id in the mark of this frontend's element, if the scope matches. */
static void adopt_from(const struct ipvs_plane *p, const struct plan_rows *rows,
		       const struct plan_frontend *f, enum nft_set_id set)
{
	enum ipfam fam = ip_fam(&f->addr);
	struct plan_pool *pool;
	const uint8_t *data;
	uint8_t key[NFT_KEY_MAX];
	uint32_t mark;
	uint32_t id;

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	data = ipvs_loaded_find(p->loaded, fam, set, key);
	mark = data != NULL ? nft_get_word(data) : 0;
	id = ipvs_mark_id(&p->marks, mark);
	pool = plan_rows_pool_of(rows, f,
				 mark & IPVS_MARK_LOCAL ? PLAN_SCOPE_LOCAL : PLAN_SCOPE_CLUSTER);
	if (pool != NULL && pool->id == 0 && plan_id_adopt(p->loaded->plan, rows, pool, id))
		pool->id = id;
}

void ipvs_loaded_adopt(struct ipvs_plane *p, struct plan *plan, struct plan_rows *rows)
{
	if (p->loaded->plan == NULL)
		ids_reserve(p, plan);
	for (size_t i = 0; i < ARRAY_SIZE(pool_maps); i++)
		vec_for_each (f, &rows->frontends)
			adopt_from(p, rows, f, pool_maps[i]);
}
