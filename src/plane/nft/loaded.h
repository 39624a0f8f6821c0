/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/loaded - what the kernel's sets hold, read for adoption and audit.
 *
 *     open -> reading (each family) -> adopt, find, put, ... -> unwanted -> close
 *
 * The sets that frontends lead through are dumped. Every frontend's word names a
 * pool and a kind, and the kind says how many slots there are: those are read by
 * key, then the affinity elements they lead to. `endpoint_addrs` is not read
 * here: a wanted address is looked up when it is asked for.
 *
 * The copy is kept equal to the kernel through the loaded phase. Each element
 * also knows whether anybody asked for it; sweeping walks those nobody did.
 */
#pragma once

#include "nft/elem.h"
#include "nft/keymap.h"
#include "plan/plan.h"
#include "plane/nft/layout.h"

struct nft_loaded;
struct nft_reading;

void nft_loaded_open(struct nft_loaded **ret);
void nft_loaded_close(struct nft_loaded *h);
DEFINE_AUTO(struct nft_loaded *, nft_loaded_close);

/*
 * Read the table of `l`, which has been loaded, in steps of NFT_READ_ELEMS elements or keys: step
 * until it returns 0 or -errno; 1: there is more. A table that is not ours to keep holds
 * nothing. All is borrowed until close, and `nl` must have no other use.
 */
#define NFT_READ_ELEMS 4096 /* about 8 ms */
void nft_reading_open(struct nft_reading **ret, struct nft_loaded *h, struct nl_sock *nl,
		      const struct nft_layout *l);
MUST_USE int nft_reading_step(struct nft_reading *rd, struct err *err);
void nft_reading_close(struct nft_reading *rd);
/* As if the kernel held nothing of this family. */
void nft_loaded_forget(struct nft_loaded *h, enum ipfam fam);
/* Did the kernel hold a table of ours, so that unread elements may exist? */
bool nft_loaded_has_table(const struct nft_loaded *h, enum ipfam fam);
/* Is the set copied here? Not: endpoint_addrs and what layout.c writes. */
bool nft_loaded_covers(enum nft_set_id set);
/* Is it copied only as far as frontends lead, so that the kernel may hold more? */
bool nft_loaded_is_partial(enum nft_set_id set);

/* Data of the element (good until the next put or del; not NULL for sets either), or NULL. */
const uint8_t *nft_loaded_find(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			       const uint8_t *key);
/* The kernel holds it now and it was asked for. */
void nft_loaded_put(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		    const uint8_t *data);
/* Found in the kernel, not yet desired. */
void nft_loaded_found(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		      const uint8_t *data);
void nft_loaded_del(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key);
/* Keep it, if it is there: somebody asked for it. */
void nft_loaded_mark(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set, const uint8_t *key);
/* The element is not desired any more. */
void nft_loaded_unmark(struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
		       const uint8_t *key);
/*
 * Keep all that makes the frontend with this key work, its pools too; `fn` is told
 * the data of each slot: address and port.
 */
void nft_loaded_mark_led(struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
			 void (*fn)(void *arg, const uint8_t *endpoint), void *arg);

/*
 * After the gathered changes some pools may no longer be led to by anything: all
 * the kernel holds of them joins the transaction. Otherwise a stop between this
 * transaction and the sweep would leave slots that no later process finds.
 */
void nft_loaded_touch_unled(const struct nft_loaded *h, struct nft_changes *changes);

/*
 * The elements of a pool, slots from `from` on, become part of the transaction: wanted absent
 * until an operation asks for them.
 */
void nft_loaded_touch_pool(const struct nft_loaded *h, enum ipfam fam, uint32_t id, uint32_t from,
			   struct nft_changes *changes, struct svc *svc);

/* The same with all elements whose key is this frontend. */
void nft_loaded_touch_frontend(const struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
			       struct nft_changes *changes, struct svc *svc);

/* plane_ops.adopt */
void nft_loaded_adopt(struct nft_loaded *h, struct plan *plan, struct plan_rows *rows);
/* Ids found in the kernel that no pool adopted: the plan can give them again. */
void nft_loaded_let_go(struct nft_loaded *h);

/*
 * The keys of `set` nobody asked for, sorted, in an array the caller frees; NULL
 * and 0 when there are none.
 */
uint8_t *nft_loaded_unwanted(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			     size_t *n);

/* Number of keys of `set` that are not desired. */
size_t nft_loaded_unwanted_count(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set);

/* How a frontend is led, as the kernel has it: words, 0 where there is none. */
struct nft_led {
	bool is_guarded;
	bool is_split;
	uint32_t guard; /* its pool's ranges are asked first */
	uint32_t target;
	uint32_t inside; /* of a split one */
};
/* False when there is no such frontend. */
bool nft_loaded_led(const struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
		    struct nft_led *ret);

/* Add the kinds that the kernel's frontends lead to. */
void nft_loaded_kinds(const struct nft_loaded *h, enum ipfam fam, struct nft_kinds *ret);

/* Elements copied, over all sets. */
size_t nft_loaded_count(const struct nft_loaded *h);
