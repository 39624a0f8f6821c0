/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/change - one entry a key, found by hash, listed by set. */
#include "nft/change.h"

#include <string.h>

#include "base/hash.h"

#define INDEX_MIN 64
#define KEEP_MAX 32768 /* entries kept from one transaction to the next */

void nft_changes_fini(struct nft_changes *c)
{
	vec_fini(&c->v);
	free(c->index);
	*c = (struct nft_changes){ 0 };
}

void nft_changes_reset(struct nft_changes *c)
{
	if (c->v.cap > KEEP_MAX) {
		nft_changes_fini(c);
		return;
	}
	if (c->v.n * 8 > c->n_index) {
		if (c->n_index > 0)
			memset(c->index, 0, c->n_index * sizeof(c->index[0]));
	} else {
		/* few entries, a large index: clear each entry's run of places */
		vec_for_each (ch, &c->v)
			for (size_t i = ch->hash & (c->n_index - 1); c->index[i] != 0;
			     i = (i + 1) & (c->n_index - 1))
				c->index[i] = 0;
	}
	vec_clear(&c->v);
	memset(c->sets, 0, sizeof(c->sets));
	c->conflict = 0;
}

static uint32_t key_hash(enum ipfam fam, enum nft_set_id set, const void *key, size_t len)
{
	uint8_t buf[2 + NFT_KEY_MAX];

	buf[0] = (uint8_t)fam;
	buf[1] = (uint8_t)set;
	memcpy(buf + 2, key, len);
	return hash_bytes(buf, 2 + len);
}

static void index_put(struct nft_changes *c, uint32_t pos)
{
	size_t i = c->v.v[pos].hash & (c->n_index - 1);

	while (c->index[i] != 0)
		i = (i + 1) & (c->n_index - 1);
	c->index[i] = pos + 1;
}

static void index_grow(struct nft_changes *c)
{
	c->n_index = c->n_index == 0 ? INDEX_MIN : c->n_index * 2;
	free(c->index);
	c->index = xcalloc(c->n_index, sizeof(c->index[0]));
	for (uint32_t i = 0; i < c->v.n; i++)
		index_put(c, i);
}

static struct nft_change *find(const struct nft_changes *c, enum ipfam fam, enum nft_set_id set,
			       const void *key, size_t len, uint32_t hash)
{
	for (size_t i = hash & (c->n_index - 1); c->index[i] != 0; i = (i + 1) & (c->n_index - 1)) {
		struct nft_change *ch = &c->v.v[c->index[i] - 1];

		if (ch->hash == hash && ch->fam == fam && ch->set == set &&
		    memcmp(ch->key, key, len) == 0)
			return ch;
	}
	return NULL;
}

static void list_append(struct nft_changes *c, enum ipfam fam, enum nft_set_id set)
{
	uint32_t at = (uint32_t)c->v.n;

	if (c->sets[fam][set].last != 0)
		c->v.v[c->sets[fam][set].last - 1].next = at;
	else
		c->sets[fam][set].first = at;
	c->sets[fam][set].last = at;
	c->sets[fam][set].n++;
}

struct nft_change *nft_changes_find(const struct nft_changes *c, enum ipfam fam,
				    enum nft_set_id set, const void *key)
{
	size_t len = nft_key_len(set, fam);

	return c->n_index == 0 ? NULL : find(c, fam, set, key, len, key_hash(fam, set, key, len));
}

struct nft_change *nft_changes_touch(struct nft_changes *c, enum ipfam fam, enum nft_set_id set,
				     const void *key, struct svc *svc)
{
	size_t len = nft_key_len(set, fam);
	uint32_t hash = key_hash(fam, set, key, len);
	struct nft_change *ch;

	if (c->v.n * 2 >= c->n_index)
		index_grow(c);
	ch = find(c, fam, set, key, len, hash);
	if (ch == NULL) {
		ch = vec_push(&c->v);
		memset(ch, 0, sizeof(*ch));
		ch->fam = (uint8_t)fam;
		ch->set = (uint8_t)set;
		ch->hash = hash;
		memcpy(ch->key, key, len);
		index_put(c, (uint32_t)c->v.n - 1);
		list_append(c, fam, set);
	}
	if (svc != NULL) {
		if (ch->svc != NULL && ch->svc != svc)
			ch->is_restarted = nft_set_counts(set, NFT_COUNT_FRONTENDS);
		ch->svc = svc;
	}
	return ch;
}

/* Set the old or the new state of a key; note the first key of which two operations set it. */
static void state_put(struct nft_changes *c, const struct nft_change *ch, bool *has, uint8_t *state,
		      const void *data)
{
	if (*has && c->conflict == 0)
		c->conflict = (uint32_t)(ch - c->v.v) + 1;
	*has = true;
	if (data != NULL)
		memcpy(state, data, nft_data_len(ch->set, ch->fam));
}

void nft_changes_was(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		     const void *data, struct svc *svc)
{
	struct nft_change *ch = nft_changes_touch(c, fam, set, key, svc);

	state_put(c, ch, &ch->has_programmed, ch->programmed, data);
}

void nft_changes_will(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		      const void *data, struct svc *svc)
{
	struct nft_change *ch = nft_changes_touch(c, fam, set, key, svc);

	state_put(c, ch, &ch->has_new, ch->data, data);
}

void nft_changes_count(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		       int32_t delta, struct svc *svc)
{
	struct nft_change *ch = nft_changes_touch(c, fam, set, key, svc);

	ch->is_counted = true;
	ch->delta += delta;
}
