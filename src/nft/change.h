/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/change - the changes of one transaction to set elements, one entry per key.
 *
 *     reset -> was / will / count ... -> (settled by the plane) -> walked by set
 *
 * Operations may name a key twice: a backend moves into a slot that another one leaves,
 * a frontend moves between services. So each entry collects, in any order, the key's old
 * state (as programmed) and its new state. Both absent or both equal: nothing to write, unless
 * the element counts for services and passes from one to another: only a new one starts at 0.
 * Counted addresses (nft/refs.h) collect a difference instead.
 *
 * Entries are in two arrays that the next transaction uses again.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"
#include "nft/sets.h"

#define NFT_KEY_MAX 40  /* a flow of IPv6 */
#define NFT_DATA_MAX 20 /* address . port of IPv6 */

struct svc;

struct nft_change {
	struct svc *svc; /* service of the last operation; NULL: the plane itself */
	uint32_t next;   /* index of the set's next entry, plus 1; 0 = the last */
	uint32_t hash;
	uint8_t fam; /* enum ipfam */
	uint8_t set; /* enum nft_set_id */
	bool is_counted;
	bool has_programmed; /* the kernel has the key, with data `programmed` */
	bool has_new;        /* the desired data is `data` */
	bool needs_read;     /* the kernel's data has to be read */
	bool is_restarted;   /* counts for another service than before: from 0 */
	int32_t delta;       /* of a counted address */
	uint32_t count;      /* of a counted address, after the commit */
	uint8_t key[NFT_KEY_MAX];
	uint8_t programmed[NFT_DATA_MAX];
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
	uint32_t
		conflict; /* position plus 1 of the first key with contradicting operations, or 0 */
};

void nft_changes_reset(struct nft_changes *c);
void nft_changes_fini(struct nft_changes *c);

/*
 * Return the entry of a key; a new one desires that the key is absent. `svc` may be
 * NULL. Pointers are valid until the next call.
 */
struct nft_change *nft_changes_touch(struct nft_changes *c, enum ipfam fam, enum nft_set_id set,
				     const void *key, struct svc *svc);
/* The entry of a key, or NULL. */
struct nft_change *nft_changes_find(const struct nft_changes *c, enum ipfam fam,
				    enum nft_set_id set, const void *key);
/* Before this transaction the key has `data` (NULL in sets). */
void nft_changes_was(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		     const void *data, struct svc *svc);
/* After this transaction the key has `data` (NULL in sets). */
void nft_changes_will(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		      const void *data, struct svc *svc);
/* Add `delta` to the number of users of the address. */
void nft_changes_count(struct nft_changes *c, enum ipfam fam, enum nft_set_id set, const void *key,
		       int32_t delta, struct svc *svc);

/* Is an element of the new state another one than that of the programmed state? */
static inline bool nft_change_is_other(const struct nft_change *ch, size_t data_len)
{
	return ch->is_restarted || __builtin_memcmp(ch->programmed, ch->data, data_len) != 0;
}

/* Does the change delete the key's element; does it add one? */
static inline bool nft_change_is_del(const struct nft_change *ch, size_t data_len)
{
	return ch->has_programmed && (!ch->has_new || nft_change_is_other(ch, data_len));
}

static inline bool nft_change_is_add(const struct nft_change *ch, size_t data_len)
{
	return ch->has_new && (!ch->has_programmed || nft_change_is_other(ch, data_len));
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
