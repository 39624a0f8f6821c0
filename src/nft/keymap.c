/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/keymap - probing, growth of one shard, deletion by moving back. */
#include "nft/keymap.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/util.h"

#define CAP_MIN 8

/*
 * Three independent uses of one hash: the lowest six bits choose the shard, the
 * next seven are the tag, and its size relative to 2^32 is the place in the shard.
 */
static size_t hash_shard(uint32_t hash)
{
	return hash % NFT_KEYMAP_SHARDS;
}

static uint8_t hash_tag(uint32_t hash)
{
	return (uint8_t)(0x80 | ((hash >> 6) & 0x7f));
}

static uint32_t hash_home(uint32_t hash, uint32_t cap)
{
	return (uint32_t)(((uint64_t)hash * cap) >> 32);
}

static size_t entry_len(const struct nft_keymap *t)
{
	return (size_t)t->key_len + t->val_len;
}

static uint8_t *entry_at(const struct nft_keymap *t, const struct nft_keymap_shard *s, uint32_t i)
{
	return s->tags + s->cap + entry_len(t) * i;
}

static uint32_t after(const struct nft_keymap_shard *s, uint32_t i)
{
	return i + 1 == s->cap ? 0 : i + 1;
}

void nft_keymap_init(struct nft_keymap *t, size_t key_len, size_t val_len)
{
	*t = (struct nft_keymap){ .key_len = (uint8_t)key_len, .val_len = (uint8_t)val_len };
}

void nft_keymap_clear(struct nft_keymap *t)
{
	for (size_t i = 0; i < NFT_KEYMAP_SHARDS; i++) {
		free(t->shards[i].tags);
		t->shards[i] = (struct nft_keymap_shard){ 0 };
	}
	t->n = 0;
}

/* The place of `key`, or the empty place where the search ended. The shard must have one. */
static uint32_t probe(const struct nft_keymap *t, const struct nft_keymap_shard *s, const void *key,
		      uint32_t hash)
{
	uint8_t tag = hash_tag(hash);
	uint32_t i = hash_home(hash, s->cap);

	while (s->tags[i] != 0 &&
	       (s->tags[i] != tag || memcmp(entry_at(t, s, i), key, t->key_len) != 0))
		i = after(s, i);
	return i;
}

static void shard_grow(const struct nft_keymap *t, struct nft_keymap_shard *s)
{
	struct nft_keymap_shard old = *s;

	s->cap = old.cap == 0 ? CAP_MIN : old.cap + old.cap / 4;
	s->tags = xreallocarray(NULL, s->cap, 1 + entry_len(t));
	memset(s->tags, 0, s->cap);
	for (uint32_t k = 0; k < old.cap; k++) {
		const uint8_t *e = entry_at(t, &old, k);
		uint32_t i;

		if (old.tags[k] == 0)
			continue;
		i = hash_home(hash_bytes(e, t->key_len), s->cap);
		while (s->tags[i] != 0)
			i = after(s, i);
		s->tags[i] = old.tags[k];
		memcpy(entry_at(t, s, i), e, entry_len(t));
	}
	free(old.tags);
}

void *nft_keymap_find(const struct nft_keymap *t, const void *key)
{
	uint32_t hash = hash_bytes(key, t->key_len);
	const struct nft_keymap_shard *s = &t->shards[hash_shard(hash)];
	uint32_t i;

	if (s->n == 0)
		return NULL;
	i = probe(t, s, key, hash);
	return s->tags[i] == 0 ? NULL : entry_at(t, s, i) + t->key_len;
}

void *nft_keymap_put(struct nft_keymap *t, const void *key, bool *is_new)
{
	uint32_t hash = hash_bytes(key, t->key_len);
	struct nft_keymap_shard *s = &t->shards[hash_shard(hash)];
	uint32_t i;

	if (s->n + 1 > s->cap - s->cap / 6)
		shard_grow(t, s);
	i = probe(t, s, key, hash);
	if (is_new != NULL)
		*is_new = s->tags[i] == 0;
	if (s->tags[i] == 0) {
		s->tags[i] = hash_tag(hash);
		memcpy(entry_at(t, s, i), key, t->key_len);
		memset(entry_at(t, s, i) + t->key_len, 0, t->val_len);
		s->n++;
		t->n++;
	}
	return entry_at(t, s, i) + t->key_len;
}

/* Is `home` in the circular interval (hole, i]? The entry at i must then stay. */
static bool is_between(uint32_t hole, uint32_t home, uint32_t i)
{
	return hole < i ? hole < home && home <= i : hole < home || home <= i;
}

bool nft_keymap_del(struct nft_keymap *t, const void *key)
{
	uint32_t hash = hash_bytes(key, t->key_len);
	struct nft_keymap_shard *s = &t->shards[hash_shard(hash)];
	uint32_t hole;

	if (s->n == 0)
		return false;
	hole = probe(t, s, key, hash);
	if (s->tags[hole] == 0)
		return false;
	for (uint32_t i = after(s, hole); s->tags[i] != 0; i = after(s, i)) {
		const uint8_t *e = entry_at(t, s, i);

		if (is_between(hole, hash_home(hash_bytes(e, t->key_len), s->cap), i))
			continue;
		s->tags[hole] = s->tags[i];
		memcpy(entry_at(t, s, hole), e, entry_len(t));
		hole = i;
	}
	s->tags[hole] = 0;
	s->n--;
	t->n--;
	return true;
}

bool nft_keymap_next(const struct nft_keymap *t, struct nft_keymap_pos *pos)
{
	for (; pos->shard < NFT_KEYMAP_SHARDS; pos->shard++, pos->i = 0) {
		const struct nft_keymap_shard *s = &t->shards[pos->shard];

		while (pos->i < s->cap) {
			uint32_t i = pos->i++;

			if (s->tags[i] == 0)
				continue;
			pos->key = entry_at(t, s, i);
			pos->val = entry_at(t, s, i) + t->key_len;
			return true;
		}
	}
	return false;
}
