/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/shorten - apply a shorter affinity timeout to existing entries.
 *
 * A rule sets the expiration of an entry when the client connects, so an entry with the old timeout
 * would outlast the new one. After the transaction the map is walked in pieces: such entries get
 * the new timeout minus the time since the client's last connection. Other entries stay unchanged.
 * After a load, all pools with affinity are walked once.
 *
 * The kernel changes an expiration only by replacing the element. If the packet path has removed an
 * entry meanwhile, the batch fails, and each entry is replaced alone.
 */
#include "plane/nft/state.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "nft/decode.h"

/* Failed walks before entries are left unchanged. */
#define TRIES 10
/* An entry with less time left is deleted at once. */
#define LEFT_MIN_MS 1000

struct walking {
	struct nft_plane *p;
	enum ipfam fam; /* of the entries in `v` */
	VEC(struct nft_affinity_entry) v;
};

void nft_shorten_init(struct nft_plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		nft_keymap_init(&p->shorten[fam], sizeof(uint32_t), sizeof(struct nft_shorten));
		nft_keymap_init(&p->shortening[fam], sizeof(uint32_t), sizeof(struct nft_shorten));
	}
}

static void shortening_end(struct nft_plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_keymap_clear(&p->shortening[fam]);
}

void nft_shorten_fini(struct nft_plane *p)
{
	shortening_end(p);
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_keymap_clear(&p->shorten[fam]);
}

size_t nft_shorten_count(const struct nft_plane *p)
{
	size_t n = 0;

	for (int fam = 0; fam < IPFAM_N; fam++)
		n += p->shorten[fam].n + p->shortening[fam].n;
	return n;
}

/* The key of records: a pool and its peer share their entries. */
static uint32_t entries_pool(uint32_t word)
{
	return nft_word_pool(word) & ~PLAN_POOL_LOCAL;
}

static void shorten_put(struct nft_keymap *t, const void *pool, const void *s)
{
	memcpy(nft_keymap_put(t, pool, NULL), s, sizeof(struct nft_shorten));
}

/* A walk begins. After a failed one, its pools have been kept. */
static void shortening_begin(struct nft_plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		nft_keymap_for_each (pos, &p->shorten[fam])
			shorten_put(&p->shortening[fam], pos.key, pos.val);
		nft_keymap_clear(&p->shorten[fam]);
	}
}

/* A record has the timeout in force, which no newer entry exceeds. False: the pool has none. */
static bool shorten_follow(struct nft_keymap *t, uint32_t pool, const struct nft_shorten *to)
{
	void *record = nft_keymap_find(t, &pool);
	struct nft_shorten s;

	if (record == NULL)
		return false;
	memcpy(&s, record, sizeof(s));
	s.old_s = s.old_s != 0 ? MAX(s.old_s, to->old_s) : 0;
	s.new_s = to->new_s;
	memcpy(record, &s, sizeof(s));
	return true;
}

void nft_shorten_applied(struct nft_plane *p)
{
	vec_for_each (ch, &p->common.changes.v) {
		uint32_t was, will, pool;
		struct nft_shorten s;

		if (!nft_set_is_leading(ch->set) || !ch->has_programmed || !ch->has_new)
			continue;
		was = nft_get_word(ch->programmed);
		will = nft_get_word(ch->data);
		pool = entries_pool(will);
		if (entries_pool(was) != pool)
			continue;
		s.old_s = nft_class_affinity(nft_word_kind(was));
		s.new_s = nft_class_affinity(nft_word_kind(will));
		if (s.new_s == 0)
			continue;
		(void)shorten_follow(&p->shortening[ch->fam], pool, &s);
		if (!shorten_follow(&p->shorten[ch->fam], pool, &s) && s.new_s < s.old_s)
			shorten_put(&p->shorten[ch->fam], &pool, &s);
	}
}

/* Queue all pools with affinity in a map to pools. */
static void shorten_all(struct nft_keymap *t, const struct nft_keymap *words)
{
	nft_keymap_for_each (e, words) {
		uint32_t word = nft_get_word(e.val);
		uint32_t pool = entries_pool(word);
		struct nft_shorten s = { 0, nft_class_affinity(nft_word_kind(word)) };

		if (s.new_s != 0 && nft_keymap_find(t, &pool) == NULL)
			shorten_put(t, &pool, &s);
	}
}

void nft_shorten_loaded(struct nft_plane *p)
{
	const struct nft_loaded *h = nft_plane_loaded(p);

	for (int fam = 0; fam < IPFAM_N; fam++)
		for (enum nft_set_id set = 0; set < NFTSET_N && !h->elems.is_fresh[fam]; set++)
			if (nft_set_is_leading(set))
				shorten_all(&p->shorten[fam], &h->elems.sets[fam][set]);
}

static void entry_found(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct walking *w = arg;
	uint32_t pool = entries_pool(nft_get_word(key));
	const void *record = nft_keymap_find(&w->p->shortening[w->fam], &pool);
	uint64_t left = w->p->walk.expires_ms;
	struct nft_affinity_entry *e;
	struct nft_shorten s;
	uint64_t less;

	if (data == NULL || record == NULL)
		return;
	memcpy(&s, record, sizeof(s));
	if (left <= (uint64_t)s.new_s * 1000)
		return;
	/* Else the time since the client's last connection is not known. */
	less = s.old_s > s.new_s ? (uint64_t)(s.old_s - s.new_s) * 1000 : 0;
	e = vec_push(&w->v);
	*e = (struct nft_affinity_entry){ .timeout_ms = (uint64_t)s.new_s * 1000 };
	e->left_ms = left > less + LEFT_MIN_MS ? MIN(left - less, e->timeout_ms) : 0;
	memcpy(e->key, key, nft_key_len(NFTSET_AFFINITY, w->fam));
	memcpy(e->data, data, nft_data_len(NFTSET_AFFINITY, w->fam));
}

int nft_affinity_replace(struct nft_plane *p, enum ipfam fam, const struct nft_affinity_entry *v,
			 size_t n, struct err *err)
{
	struct nft_elem_writer w = { .batch = p->common.batch };

	w.tables[fam] = nft_plane_table(p, fam);
	nl_batch_reset(p->common.batch);
	for (size_t i = 0; i < n; i++) {
		nft_elem_put(&w, NFT_WRITE_DEL, fam, NFTSET_AFFINITY, v[i].key, NULL, NULL);
		w.timeout_ms = v[i].timeout_ms;
		w.left_ms = v[i].left_ms;
		if (v[i].left_ms != 0)
			nft_elem_put(&w, NFT_WRITE_ADD, fam, NFTSET_AFFINITY, v[i].key, v[i].data,
				     NULL);
	}
	return plane_batch_commit(&p->common, err);
}

/* Replace the entries of one piece of the walk; deleted ones are skipped. */
static int piece_replace(struct walking *w, struct err *err)
{
	int failed = nft_affinity_replace(w->p, w->fam, w->v.v, w->v.n, err);

	if (failed != -ENOENT)
		return failed;
	failed = 0;
	for (size_t i = 0; i < w->v.n; i++) {
		int r = nft_affinity_replace(w->p, w->fam, &w->v.v[i], 1, err);

		if (r < 0 && r != -ENOENT)
			failed = r;
	}
	return failed;
}

bool nft_shorten_step(struct nft_plane *p, struct err *err)
{
	struct walking w = { .p = p, .fam = p->walk_fam };
	int r;

	if (!p->is_shortening) {
		shortening_begin(p);
		p->is_shorten_failed = false;
	}
	r = nft_plane_walk(p, NFTSET_AFFINITY, entry_found, &w, err);
	/* Continue after a failure: the socket must be read to the end. */
	if ((r < 0 || (w.v.n > 0 && piece_replace(&w, err) < 0)) && !p->is_shorten_failed) {
		p->is_shorten_failed = true;
		p->shorten_cause = *err;
	}
	vec_fini(&w.v);
	p->is_shortening = r > 0;
	if (r > 0)
		return true;
	if (p->is_shorten_failed) {
		if (++p->shorten_tries < TRIES)
			return false;
		log_warn(LOG_AREA_PLANE,
			 "session affinity: entries not shortened after %d walks: %s; they last as "
			 "long as the previous timeout",
			 TRIES, p->shorten_cause.text);
	}
	p->shorten_tries = 0;
	shortening_end(p);
	return nft_shorten_count(p) > 0;
}
