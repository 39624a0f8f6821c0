/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/loaded - a copy of the kernel's elements, and which of them are desired.
 *
 *      cover -> put ... -> find, put, del ... -> undesired -> forget
 *
 *  load() reads elements, commits keep the copy equal to the kernel, sweep() removes the elements
 *  that no commit desired. A set that is not covered has no copy: it must not be named.
 */
#pragma once

#include "nft/decode.h"
#include "nft/elem.h"
#include "nft/keymap.h"
#include "plan/plan.h"

struct plane_sets;

struct plane_loaded {
	/* key -> data and one byte: is it desired. Keys of 0 bytes: not covered */
	struct nft_keymap sets[IPFAM_N][NFTSET_END];
	/*
	 * The kernel had no table, or one whose elements are lost: its elements are those of this
	 * process. The copy is not kept up to date; pools still adopt their ids from it.
	 */
	bool is_fresh[IPFAM_N];
	/* Keys at the load of sets whose keys name a pool: those of a pool are adjacent. */
	struct plane_loaded_ranges {
		uint8_t *keys;
		size_t n;
	} ranges[IPFAM_N][NFTSET_END];
	struct plan *plan; /* in which the ids are reserved; NULL: not yet */
	/* An element changes from `was` to `will`; NULL: it does not exist. May be NULL. */
	void (*changed)(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			const uint8_t *was, const uint8_t *will);
};

/* Zeroed memory covers no set. */
void plane_loaded_cover(struct plane_loaded *l, enum nft_set_id set);
/* Forget the elements of a family. */
void plane_loaded_forget(struct plane_loaded *l, enum ipfam fam);
static inline bool plane_loaded_covers(const struct plane_loaded *l, enum nft_set_id set)
{
	return l->sets[IPFAM_V4][set].key_len != 0;
}

/* Data of the element (valid until the next put or del; not NULL in sets either), or NULL. */
static inline const uint8_t *plane_loaded_find(const struct plane_loaded *l, enum ipfam fam,
					       enum nft_set_id set, const uint8_t *key)
{
	return nft_keymap_find(&l->sets[fam][set], key);
}
/*
 * Does the key name a frontend of a cluster IP? Those of other kinds at the same address are
 * masqueraded, at least for clients on this host.
 */
bool plane_loaded_is_cluster_ip(const struct plane_loaded *l, const struct plane_sets *sets,
				enum ipfam fam, const uint8_t *key);
/*
 * Record an element of the kernel, and mark it as desired. Without `is_desired` a known element
 * keeps its mark, and a new one is not desired.
 */
void plane_loaded_put(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
		      const uint8_t *key, const uint8_t *data, bool is_desired);
/*
 * nft_elems_dump_step() for an `fn` that calls plane_loaded_put(), until the copy is complete:
 * while the kernel resizes the hash table of a set, a dump lists some elements twice instead of
 * others.
 */
MUST_USE int plane_loaded_dump_step(const struct plane_loaded *l, struct nft_walk *w,
				    struct nl_sock *nl, const struct nft_table_ref *table,
				    enum nft_set_id set, nft_elem_fn *fn, void *arg,
				    struct err *err);
void plane_loaded_del(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
		      const uint8_t *key);
/* Mark the element as desired or not. No effect if it does not exist. */
void plane_loaded_desire(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			 const uint8_t *key, bool is_desired);

/* At most `max` keys of elements that are not desired, sorted; NULL: none. Freed by the caller. */
uint8_t *plane_loaded_undesired(const struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
				size_t max, size_t *n);
bool plane_loaded_is_undesired(const struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			       const uint8_t *key);
size_t plane_loaded_undesired_count(const struct plane_loaded *l, enum ipfam fam,
				    enum nft_set_id set);

/*
 * For text (nft/decode.h), before the first commit. Elements of sets that are not covered are
 * assumed to exist.
 */
struct nft_source plane_loaded_source(const struct plane_loaded *l);

/* After the load: remember the keys of the set for plane_loaded_each_range(). */
void plane_loaded_ranges_list(struct plane_loaded *l, enum ipfam fam, enum nft_set_id set);
/* Call `fn` for each of these keys whose pool is that of `word`. */
void plane_loaded_each_range(const struct plane_loaded *l, enum ipfam fam, enum nft_set_id set,
			     uint32_t word,
			     void (*fn)(void *arg, enum nft_set_id set, const uint8_t *key),
			     void *arg);

/* Add an element that the kernel has to the changes: desired absent unless an operation sets it. */
struct plane_touch {
	const struct plane_loaded *l;
	enum ipfam fam;
	struct nft_changes *changes;
	struct svc *svc;
};
void plane_touch_key(void *touch, enum nft_set_id set, const uint8_t *key);
