/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/nft/loaded - the kernel's elements (plane/loaded.h), and pools found through frontends.
 *
 *     open -> reading (each family) -> adopt, find, put ... -> close
 *
 *  The sets are dumped, except `endpoints`: the word of each frontend names a pool and a kind, and
 *  the kind implies the number of slots, which are read by key. Local ids are also those of pools
 *  without a frontend: a pool with the same id would lead a client to their endpoints.
 *  `endpoint_addrs` is not covered: a desired address is read when a commit needs it.
 */
#pragma once

#include "nft/elem.h"
#include "nft/refs.h"
#include "plane/loaded.h"
#include "plane/nft/layout.h"

/* A pool that a frontend in the kernel names. */
struct nft_loaded_pool {
	uint32_t n_slots;      /* slots 0..n-1 were read; the kernel may lack some */
	uint32_t n_leads;      /* number of map elements that name it */
	uint16_t kind;         /* with the most slots; 0: no chain picks from it */
	bool has_affinity;     /* of any kind that leads to it */
	bool is_of_cluster_ip; /* a frontend of a cluster IP leads to it */
};

struct nft_loaded {
	struct plane_loaded elems;        /* first: plane/loaded.h */
	struct nft_keymap pools[IPFAM_N]; /* id -> struct nft_loaded_pool */
};

static inline struct nft_loaded *nft_loaded_of(struct plane_loaded *l)
{
	return container_of(l, struct nft_loaded, elems);
}

/* Sets that are dumped, in this order; then `endpoints` is read by key, pool by pool. */
#define NFT_DUMPED_N 14
extern const enum nft_set_id nft_dumped[NFT_DUMPED_N];

bool nft_loaded_pool_get(const struct nft_loaded *h, enum ipfam fam, uint32_t id,
			 struct nft_loaded_pool *ret);
void nft_loaded_pool_put(struct nft_loaded *h, enum ipfam fam, uint32_t id,
			 const struct nft_loaded_pool *pool);
/* The word in the data of an element; 0: no such element. */
uint32_t nft_loaded_word(const struct nft_loaded *h, enum ipfam fam, enum nft_set_id set,
			 const uint8_t *key);

void nft_loaded_open(struct nft_loaded **ret);
void nft_loaded_close(struct nft_loaded *h);
DEFINE_AUTO(struct nft_loaded *, nft_loaded_close);

/*
 * Read the table of `l`, which has been loaded, in steps of NFT_READ_ELEMS elements or keys: step
 * until it returns 0 or -errno; 1: more left. A table that will be replaced has no elements.
 * Arguments are borrowed until close, and `nl` must have no other use.
 */
#define NFT_READ_ELEMS 4096 /* about 8 ms */
struct nft_reading;
void nft_reading_open(struct nft_reading **ret, struct nft_loaded *h, struct nl_sock *nl,
		      const struct nft_layout *l);
MUST_USE int nft_reading_step(struct nft_reading *rd, struct err *err);
void nft_reading_close(struct nft_reading *rd);
/* Drop the elements and pools of a family, as if the kernel had no table. */
void nft_loaded_forget(struct nft_loaded *h, enum ipfam fam);

/* Keep all elements of the frontend with this key and of its pools; in `addrs` their backends. */
void nft_loaded_keep_led(struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
			 struct nft_refs *addrs);

/*
 * Add all elements of pools to which the changes leave no frontend. Otherwise an exit between this
 * transaction and the sweep would leave slots that no later process finds.
 */
void nft_loaded_touch_unled(struct nft_loaded *h, struct nft_changes *changes);

typedef void nft_key_fn(void *arg, enum nft_set_id set, const uint8_t *key);

/* Call `fn` for the keys of the pool's local ids at the load. */
void nft_loaded_each_id(const struct nft_loaded *h, enum ipfam fam, uint32_t id, nft_key_fn *fn,
			void *arg);

/*
 * Add the elements of a pool, without the slots and local ids of a part, to the transaction:
 * desired absent unless an operation sets them.
 */
void nft_loaded_touch_pool(const struct nft_loaded *h, const struct plan_pool *pool,
			   struct nft_changes *changes, struct svc *svc);
/* Like nft_loaded_touch_pool(), for slots behind the pool's end. */
void nft_loaded_touch_end(const struct nft_loaded *h, const struct plan_pool *pool,
			  struct nft_changes *changes, struct svc *svc);

/* Words of a frontend in the kernel; 0: none. */
struct nft_led {
	bool is_guarded;
	bool is_split;
	uint32_t guard; /* names the pool whose source ranges apply first */
	uint32_t target;
	uint32_t inside; /* of a split frontend: for pods and this host */
};
/* False: no such frontend. */
bool nft_loaded_led(const struct nft_loaded *h, enum ipfam fam, const uint8_t *key,
		    struct nft_led *ret);

/* Add the kinds that frontends in the kernel lead to. */
void nft_loaded_kinds(const struct nft_loaded *h, enum ipfam fam, struct nft_kinds *ret);
