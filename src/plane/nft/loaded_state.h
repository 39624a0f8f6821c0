/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/loaded_state - what the parts of the copy share: loaded, loaded_read, adopt.
 */
#pragma once

#include "plane/nft/loaded.h"

/* One pool that a frontend of the kernel names. */
struct nft_loaded_pool {
	uint32_t n_slots; /* slots 0..n-1 were looked for; the kernel may lack some */
	uint32_t n_leads; /* elements of maps that name it */
	uint16_t kind;    /* 0: nothing is picked from it */
};

struct nft_loaded_family {
	bool has_table;
	struct nft_keymap sets[NFTSET_N];
	struct nft_keymap pools; /* id -> struct nft_loaded_pool */
	uint32_t pool_max;       /* the highest id that was read */
	uint8_t *ranges;         /* keys of fw_ranges as read, sorted, and so by pool */
	size_t n_ranges;
};

struct nft_loaded {
	struct nft_loaded_family fam[IPFAM_N];
	struct plan *plan; /* who was told which ids the kernel holds; NULL: nobody yet */
};

/* Sets that are dumped whole, in this order; and those read by key, pool by pool. */
#define NFT_DUMPED_N 11
extern const enum nft_set_id nft_dumped[NFT_DUMPED_N];
#define NFT_BY_KEY_N 3
extern const enum nft_set_id nft_by_key[NFT_BY_KEY_N];
/* Maps whose data is the word of a pool. */
#define NFT_LEADING_N 4
extern const enum nft_set_id nft_leading[NFT_LEADING_N];

bool nft_loaded_pool_get(const struct nft_loaded_family *f, uint32_t id,
			 struct nft_loaded_pool *ret);
void nft_loaded_pool_put(struct nft_loaded_family *f, uint32_t id,
			 const struct nft_loaded_pool *pool);
/* The word an element has as data; 0 when there is none. */
uint32_t nft_loaded_word(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			 const uint8_t *key);
bool nft_loaded_is_leading(enum nft_set_id set);
/* For qsort_r(): keys of *(size_t *)len bytes. */
int nft_loaded_key_cmp(const void *a, const void *b, void *len);
