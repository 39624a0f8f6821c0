/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/change - what one transaction does to set elements, each key once.
 *
 *     reset -> was / will / count ... -> (settled by the plane) -> walked by set
 *
 * The parts of a service's operations may name one key twice: a backend moves
 * into a slot another one leaves, a frontend goes from one service to an other.
 * So each key collects, in any order, what it was (what the kernel is believed to
 * hold) and what it will be. Both absent or both equal: nothing to write. Addresses
 * that are counted (nft/refs.h) collect a difference instead.
 *
 * Everything is kept in two arrays that are used again for the next transaction.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"
#include "nft/sets.h"

#define NFT_KEY_MAX 40  /* fw_ranges of IPv6: word . first address, word . last address */
#define NFT_DATA_MAX 20 /* address . port of IPv6 */

struct svc;

struct nft_change {
	struct svc *svc; /* who asked last; NULL: the plane itself */
	uint32_t next;   /* index of the next one of the same set, plus 1; 0 = the last */
	uint32_t hash;
	uint8_t fam; /* enum ipfam */
	uint8_t set; /* enum nft_set_id */
	bool is_counted;
	bool has_held;   /* the kernel is believed, or known, to hold `held` */
	bool has_new;    /* it shall hold `data` */
	bool needs_look; /* what the kernel holds is to be read */
	int32_t delta;   /* of a counted address */
	uint32_t count;  /* of a counted address, once this is committed */
	uint8_t key[NFT_KEY_MAX];
	uint8_t held[NFT_DATA_MAX];
	uint8_t data[NFT_DATA_MAX];
};

struct nft_changes {
	VEC(struct nft_change) v;
	uint32_t *index; /* open addressing: position in v plus 1, or 0 */
	size_t n_index;  /* a power of two, or 0 */
	struct {
		uint32_t first; /* position plus 1 */
		uint32_t last;
		uint32_t n;
	} sets[IPFAM_N][NFTSET_END];
	uint32_t conflict; /* position plus 1 of the first key two operations disagree on, or 0 */
};

/* Bytes of a key and of the data as they are kept here: for fw_ranges both ends. */
size_t nft_key_len(enum nft_set_id set, enum ipfam fam);
size_t nft_data_len(enum nft_set_id set, enum ipfam fam);
/* Are the keys of this set frontends: address . protocol . port? */
bool nft_set_is_by_tuple(enum nft_set_id set);
/* Are the keys of this set ranges? Then a key is its first value and its last. */
bool nft_set_is_ranges(enum nft_set_id set);

void nft_changes_reset(struct nft_changes *c);
void nft_changes_fini(struct nft_changes *c);

/*
 * Yield the change of a key, made when there is none; it wants the key to be
 * absent until somebody says otherwise. `svc` may be NULL: nobody in particular.
 * Pointers are good until the next call.
 */
struct nft_change *nft_changes_touch(struct nft_changes *c, enum ipfam fam, enum nft_set_id set,
				     const void *key, struct svc *svc);
/* The change of a key, or NULL when nobody has touched it. */
struct nft_change *nft_changes_find(const struct nft_changes *c, enum ipfam fam,
				    enum nft_set_id set, const void *key);
/* Before this transaction the key held `data` (NULL in sets). */
void nft_changes_was(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		     const void *data, struct svc *svc);
/* After it the key shall hold `data` (NULL in sets). */
void nft_changes_will(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		      const void *data, struct svc *svc);
/* The address is needed by that many more, or fewer. */
void nft_changes_count(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		       int32_t delta, struct svc *svc);

/* Does it need the key's element deleted, and an element added? */
static inline bool nft_change_is_del(const struct nft_change *ch, size_t data_len)
{
	return ch->has_held &&
	       (!ch->has_new || __builtin_memcmp(ch->held, ch->data, data_len) != 0);
}

static inline bool nft_change_is_add(const struct nft_change *ch, size_t data_len)
{
	return ch->has_new &&
	       (!ch->has_held || __builtin_memcmp(ch->held, ch->data, data_len) != 0);
}

/* Walk the changes of one set in the order in which they were first touched. */
static inline struct nft_change *nft_changes_next(const struct nft_changes *c, enum ipfam fam,
						  enum nft_set_id set,
						  const struct nft_change *prev)
{
	uint32_t i = prev ? prev->next : c->sets[fam][set].first;

	return i == 0 ? NULL : &c->v.v[i - 1];
}
#define nft_changes_for_each(pos, c, fam, set)                                             \
	for (struct nft_change * (pos) = nft_changes_next((c), (fam), (set), NULL); (pos); \
	     (pos) = nft_changes_next((c), (fam), (set), (pos)))
