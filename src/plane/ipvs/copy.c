/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/copy - the elements the kernel has, read for adoption, and the pools they name.
 *
 * A pool is found again by a frontend that leads to it. Frontends whose mark names no pool,
 * because they refuse or are served by address and port, have a second element that
 * does, in `idle`.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nft/decode.h"
#include "plane/ipvs/state.h"

#define WANTED 1
#define READ_DATAGRAMS 10 /* a step of a load, about 4000 elements */

/* Sets that count and shall be no more go as a whole, when the layout is put right. */
static bool is_copied(const struct ipvs_plane *p, enum nft_set_id set)
{
	return set < IPVSSET_REMEMBERED && nft_set_exists(set, p->config.counting);
}

void ipvs_copy_open(struct ipvs_copy **ret)
{
	struct ipvs_copy *c = xcalloc(1, sizeof(*c));

	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (enum nft_set_id set = IPVSSET_BEGIN; set < NFTSET_END; set++)
			nft_keymap_init(&c->sets[fam][set], nft_key_len(set, fam),
					nft_data_len(set, fam) + 1);
	}
	*ret = c;
}

void ipvs_copy_close(struct ipvs_copy *c)
{
	if (c == NULL)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (enum nft_set_id set = IPVSSET_BEGIN; set < NFTSET_END; set++)
			nft_keymap_clear(&c->sets[fam][set]);
	}
	free(c);
}

const uint8_t *ipvs_copy_find(const struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set,
			      const uint8_t *key)
{
	return nft_keymap_find(&c->sets[fam][set], key);
}

void ipvs_copy_put(struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		   const uint8_t *data, bool is_wanted)
{
	size_t len = nft_data_len(set, fam);
	uint8_t *val = nft_keymap_put(&c->sets[fam][set], key, NULL);

	if (len > 0 && data != NULL)
		memcpy(val, data, len);
	val[len] = is_wanted ? WANTED : 0;
}

void ipvs_copy_del(struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	(void)nft_keymap_del(&c->sets[fam][set], key);
}

/* --- reading --- */

static int element_found(void *arg, const uint8_t *key, const uint8_t *data, struct err *err)
{
	const struct ipvs_plane *p = arg;

	(void)err;
	ipvs_copy_put(p->load.loaded, p->load.fam, p->load.set, key, data, false);
	return 0;
}

/* A datagram, or the end of a set. */
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

int ipvs_copy_read(struct ipvs_plane *p, struct err *err)
{
	int r = 1;

	for (int i = 0; i < READ_DATAGRAMS && r > 0; i++)
		r = read_some(p, err);
	return r;
}

void ipvs_copy_write(const struct ipvs_copy *c, struct nft_elem_writer *w)
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

uint8_t *ipvs_copy_unwanted(const struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set,
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

size_t ipvs_copy_unwanted_count(const struct ipvs_copy *c, enum ipfam fam, enum nft_set_id set)
{
	return nft_keymap_count_without(&c->sets[fam][set], nft_data_len(set, fam), WANTED);
}

/* --- recalling --- */

/* Maps whose data may name a pool. */
static const enum nft_set_id naming[] = { IPVSSET_FE, IPVSSET_FE_OUT, IPVSSET_FE_IN, IPVSSET_IDLE };

/* Calls fn() for each element that names, or could name, a pool. */
static void frontends_walk(const struct ipvs_copy *c,
			   void (*fn)(void *arg, enum ipfam fam, const struct nft_tuple *t,
				      uint32_t mark),
			   void *arg)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < ARRAY_SIZE(naming); i++) {
			struct nft_keymap_pos pos = { 0 };
			const uint8_t *key;
			uint8_t *val;

			while (nft_keymap_next(&c->sets[fam][naming[i]], &pos, &key, &val)) {
				struct nft_tuple t;

				nft_get_tuple(&t, fam, key);
				fn(arg, fam, &t, nft_get_word(val));
			}
		}
}

static void protocol_note(void *arg, enum ipfam fam, const struct nft_tuple *t, uint32_t mark)
{
	struct ipvs_plane *p = arg;
	struct ipvs_key key = ipvs_key_mark(fam, mark);
	struct ipvs_vs *vs = ipvs_mark_id(&p->marks, mark) != 0 ? ipvs_vs_find(p, &key) : NULL;

	if (vs != NULL)
		vs->proto = t->proto;
}

void ipvs_copy_protocols(const struct ipvs_copy *c, struct ipvs_plane *p)
{
	frontends_walk(c, protocol_note, p);
}

struct protocol_query {
	uint8_t proto;
	bool is_found;
};

static void protocol_ask(void *arg, enum ipfam fam, const struct nft_tuple *t, uint32_t mark)
{
	struct protocol_query *q = arg;

	q->is_found |= t->proto == q->proto;
}

bool ipvs_copy_has_protocol(const struct ipvs_copy *c, uint8_t proto)
{
	struct protocol_query q = { .proto = proto };

	frontends_walk(c, protocol_ask, &q);
	return q.is_found;
}

static void id_hold(void *arg, enum ipfam fam, const struct nft_tuple *t, uint32_t mark)
{
	struct ipvs_plane *p = arg;
	uint32_t id = ipvs_mark_id(&p->marks, mark);

	if (id != 0)
		plan_id_reserve(p->loaded->plan, fam, id);
}

static void ids_hold(struct ipvs_plane *p, struct plan *plan)
{
	plan_ids_release(plan); /* of a load that was begun anew */
	p->loaded->plan = plan;
	frontends_walk(p->loaded, id_hold, p);
	htable_for_each (n, &p->vss) {
		const struct ipvs_vs *vs = container_of(n, struct ipvs_vs, node);

		id_hold(p, vs->key.fam, NULL, vs->key.mark);
	}
}

void ipvs_copy_let_go(struct ipvs_copy *c)
{
	if (c->plan != NULL)
		plan_ids_release(c->plan);
}

/* The pool that the element of this frontend names gets its number, if it is of that scope. */
static void recall_from(const struct ipvs_plane *p, const struct plan_rows *rows,
			const struct plan_frontend *f, enum nft_set_id set)
{
	enum ipfam fam = ip_fam(&f->addr);
	struct plan_pool *pool;
	const uint8_t *data;
	uint8_t key[NFT_KEY_MAX];
	uint32_t mark;
	uint32_t id;

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	data = ipvs_copy_find(p->loaded, fam, set, key);
	mark = data != NULL ? nft_get_word(data) : 0;
	id = ipvs_mark_id(&p->marks, mark);
	pool = plan_rows_pool_of(rows, f,
				 mark & IPVS_MARK_LOCAL ? PLAN_SCOPE_LOCAL : PLAN_SCOPE_CLUSTER);
	if (pool != NULL && pool->id == 0 && plan_id_adopt(p->loaded->plan, rows, pool, id))
		pool->id = id;
}

void ipvs_copy_recall(struct ipvs_plane *p, struct plan *plan, struct plan_rows *rows)
{
	if (p->loaded->plan == NULL)
		ids_hold(p, plan);
	for (size_t i = 0; i < ARRAY_SIZE(naming); i++)
		vec_for_each (f, &rows->frontends)
			recall_from(p, rows, f, naming[i]);
}
