/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/keymap - a compact hash table of fixed-size keys and values.
 *
 * Half a million addresses and elements are remembered here, so an entry is its
 * bytes and one tag: no pointer, no allocation of its own. Entries live in 64
 * shards of open addressing with linear probing; a shard grows by half when it
 * is three quarters full. So growth never copies more than a 64th of the table,
 * and no insertion takes long because the table is large.
 *
 * Values are bytes without alignment: memcpy() them. Pointers into the table
 * are good until the next put or delete. The order of a walk is random from run
 * to run: sort before anything is printed, planned or sent.
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

/* Where a walk stands; zero is the beginning. */
struct nft_keymap_pos {
	uint32_t shard;
	uint32_t i;
};

void nft_keymap_init(struct nft_keymap *t, size_t key_len, size_t val_len);
/* Frees all entries; the table is empty then and may be used again. */
void nft_keymap_clear(struct nft_keymap *t);

/* The value, or NULL. */
void *nft_keymap_find(const struct nft_keymap *t, const void *key);
/* The value; zeroed when the key was not there. `is_new` may be NULL. */
void *nft_keymap_put(struct nft_keymap *t, const void *key, bool *is_new);
/* Was it there? */
bool nft_keymap_del(struct nft_keymap *t, const void *key);
/* Entries whose value has none of the bits `mask` in byte `at`. */
size_t nft_keymap_count_without(const struct nft_keymap *t, size_t at, uint8_t mask);
/*
 * The next entry of a walk, false at the end. Values may be changed on the way,
 * entries neither added nor deleted. The value follows the key in memory.
 */
bool nft_keymap_next(const struct nft_keymap *t, struct nft_keymap_pos *pos, const uint8_t **key,
		     uint8_t **val);
