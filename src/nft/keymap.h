/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/keymap - a compact hash table with keys and values of fixed size.
 *
 * For half a million addresses and elements: an entry is its bytes and one tag, without
 * a pointer or an allocation. Entries are in 64 shards of open addressing with linear
 * probing; a shard grows by a quarter when it is five sixths full. So growth copies at most
 * a 64th of the table, and insertions stay fast in large tables.
 *
 * Values are unaligned: memcpy() them. Pointers into the table are valid until the next
 * put or delete. The order of a walk is random from run to run: sort before output,
 * planning or sending.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NFT_KEYMAP_SHARDS 64

struct nft_keymap_shard {
	uint8_t *tags; /* `cap` tags (0 = empty), then `cap` entries of key and value */
	uint32_t n;
	uint32_t cap;
};

struct nft_keymap {
	uint8_t key_len;
	uint8_t val_len;
	size_t n;
	struct nft_keymap_shard shards[NFT_KEYMAP_SHARDS];
};

/* An entry in a walk; zero is before the first. */
struct nft_keymap_pos {
	const uint8_t *key;
	uint8_t *val;
	uint32_t shard; /* of the next entry */
	uint32_t i;
};

void nft_keymap_init(struct nft_keymap *t, size_t key_len, size_t val_len);
/* Frees all entries; the empty table may be used again. */
void nft_keymap_clear(struct nft_keymap *t);

/* The value, or NULL. */
void *nft_keymap_find(const struct nft_keymap *t, const void *key);
/* The value; zeroed when the key is new. `is_new` may be NULL. */
void *nft_keymap_put(struct nft_keymap *t, const void *key, bool *is_new);
/* Returns whether the key existed. */
bool nft_keymap_del(struct nft_keymap *t, const void *key);
/*
 * The next entry of a walk, false at the end. During a walk values may change, but no entry
 * may be added or deleted. The value follows the key in memory.
 */
bool nft_keymap_next(const struct nft_keymap *t, struct nft_keymap_pos *pos);
#define nft_keymap_for_each(pos, t) \
	for (struct nft_keymap_pos(pos) = { 0 }; nft_keymap_next((t), &(pos));)
