/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/state - state shared by the files of the nftables plane. */
#pragma once

#include "plane/common.h"
#include "plane/nft/guard.h"
#include "plane/nft/layout.h"
#include "plane/nft/loaded.h"
#include "plane/nft/plane_nft.h"
#include "plane/translate.h"

/* Change of the number of frontends that lead to an affinity kind, applied when the transaction is
 * acknowledged. */
struct nft_kind_led {
	uint16_t kind;
	uint8_t fam;
	int8_t by; /* 1 or -1 */
};

/* The last time that a pool's affinity timeout became shorter, or may have before a load. */
struct nft_shorten {
	uint32_t old_s; /* 0: not known */
	uint32_t new_s;
};

struct nft_plane {
	struct plane_common common; /* first: plane/common.h */
	struct nft_layout *layout[IPFAM_N];
	struct nft_guard *guard;      /* or NULL */
	VEC(struct nft_kind_led) led; /* of the transaction under way */
	uint32_t n_led[IPFAM_N][NFT_KIND_AFFINITY_END - NFT_KIND_AFFINITY];
	struct nft_kinds kept[IPFAM_N]; /* found by the last load and led to at its sweep */
	/* Pools whose entries must be shortened: pool id -> struct nft_shorten. */
	struct nft_keymap shorten[IPFAM_N];    /* by the next walk */
	struct nft_keymap shortening[IPFAM_N]; /* by the current walk, or again by the next one */
	bool is_shortening;                    /* a walk is under way */
	unsigned int shorten_tries;            /* failed walks in a row */
	bool is_shorten_failed;                /* the current walk, or a replacement of entries */
	struct err shorten_cause;              /* of the first such failure */
	uint64_t shorten_at;                   /* no step before */
	uint64_t retained_at[IPFAM_N];         /* after a failed deletion: no other one before */
	uint64_t kinds_at;                     /* when tick() finds idle ones; 0 = not set */
	struct nft_kinds idle;                 /* affinity kinds whose chains are to be removed */
	/* Progress of load(), during which `query` has no other use. */
	struct {
		struct nft_loaded *loaded;   /* NULL: no load in progress */
		struct nft_reading *reading; /* of `fam`; NULL: the layout is read next */
		enum ipfam fam;
		uint32_t genid;
	} load;
	/* Walk over stray addresses or affinity entries, one at a time (plane_nft.h). */
	struct nl_sock *walk_nl; /* or NULL */
	struct nft_walk walk;
	enum ipfam walk_fam; /* of its next piece */
	bool is_walking;
	bool is_walk_wanted; /* when no walk is under way: an unread dump would be drained at once
			      */
	uint64_t walk_at;    /* its next piece, or the next walk; 0 = never */
};

static inline struct nft_plane *nft_plane_of(struct plane *p)
{
	return container_of(p, struct nft_plane, common.plane);
}

/* The copy of the kernel's elements; NULL outside the loaded phase. */
static inline struct nft_loaded *nft_plane_loaded(const struct nft_plane *p)
{
	return p->common.loaded != NULL ? nft_loaded_of(p->common.loaded) : NULL;
}

static inline struct nft_refs *nft_endpoint_addrs(struct nft_plane *p, enum ipfam fam)
{
	return plane_refs(&p->common, fam, NFTSET_ENDPOINT_ADDRS);
}

static inline struct nft_table_ref nft_plane_table(const struct nft_plane *p, enum ipfam fam)
{
	return (struct nft_table_ref){ p->layout[fam]->table, fam };
}

extern const struct plane_counting_chain nft_counting_chains[];

/* --- adopt.c: plane_ops.adopt --- */

void nft_adopt(struct plane *plane, struct plan *plan, struct plan_rows *rows);

/* --- translate.c --- */

/* For plane_translate(); `arg`: struct nft_kinds[IPFAM_N], which gets the kinds that are led to. */
void nft_translate(struct plane_tr *t, const struct plan_op *op);

/* --- tuning.c: schedulers mh and sh of a Service (plan/table.h), and remarks --- */

/* plan_traits.hashing */
enum plan_hashing nft_hashing(const struct service *s);
/*
 * Records whether the kernel lacks jhash: then services with mh are served at random, with a
 * remark. False in tests only.
 */
void nft_hashing_lack(bool is_lacking);
/* plan_traits.hash_class */
uint16_t nft_hash_class(enum plan_hashing how);
/* plane_ops.remark */
void nft_remark(const struct plane *p, const struct svc *svc, struct str *ret);

/* --- commit.c --- */

/* 0: the layouts of all families are known, except of failed ones. */
MUST_USE int nft_plane_ready_check(const struct nft_plane *p, struct err *err);
MUST_USE int nft_commit(struct plane *plane, const struct plan_op *ops, size_t n,
			enum plane_commit_mode mode, struct plane_result *res, struct err *err);
/* plane_common_ops.settle_loaded */
void nft_settle_loaded(struct plane_common *c);

/* --- supersede.c: plane_ops.supersede, .orphaned and .is_orphaned --- */

MUST_USE int nft_supersede(struct plane *plane, struct plane_result *res, struct err *err);
size_t nft_orphaned(const struct plane *plane);
bool nft_is_orphaned(const struct plane *plane, const struct plan_frontend *f);

/* --- kinds.c --- */

/* Create the missing chains of `need`; -EINPROGRESS: some of them, repeat. */
MUST_USE int nft_kinds_make(struct nft_plane *p, enum ipfam fam, const struct nft_kinds *need,
			    struct plane_result *res, struct err *err);
/* The current transaction adds (1) or removes (-1) a frontend of this kind. */
void nft_kinds_led(struct nft_plane *p, enum ipfam fam, uint16_t kind, int by);
/* The transaction was acknowledged. */
void nft_kinds_applied(struct nft_plane *p);
/* A load begins: reset the count of frontends of the family. */
void nft_kinds_restart(struct nft_plane *p, enum ipfam fam);
/* A sweep ends: keep the kinds of frontends that are in the kernel but not counted. */
void nft_kinds_keep(struct nft_plane *p);
/*
 * Find the affinity kinds that nft_pool_class() has not returned since the last such call; if
 * numbers are short, all to which no frontend leads.
 */
void nft_kinds_find(struct nft_plane *p, bool is_short);
/*
 * Remove some chains of the kinds that were found, unless a frontend leads there, and release their
 * numbers. 1: call it again. After a failure the others have to be found again.
 */
MUST_USE int nft_kinds_remove(struct nft_plane *p, struct err *err);

/* --- shorten.c --- */

void nft_shorten_init(struct nft_plane *p);
void nft_shorten_fini(struct nft_plane *p);
/* A transaction was acknowledged: queue the pools whose affinity timeout became shorter. */
void nft_shorten_applied(struct nft_plane *p);
/*
 * A sweep ends, with the elements of the last load: queue all pools with affinity. An earlier
 * process may have ended before its walk.
 */
void nft_shorten_loaded(struct nft_plane *p);
/* Number of pools whose entries must be shortened; those of a walk may count twice. */
size_t nft_shorten_count(const struct nft_plane *p);
/* Do one piece of the walk over affinity entries; false: the next one may be seconds later. */
bool nft_shorten_step(struct nft_plane *p, struct err *err);

/* An affinity entry to be replaced. */
struct nft_affinity_entry {
	uint8_t key[NFT_KEY_MAX];
	uint8_t data[NFT_DATA_MAX];
	uint64_t left_ms; /* 0: delete */
	uint64_t timeout_ms;
};
/* Replace all of them or none. -ENOENT: the packet path has deleted one. */
MUST_USE int nft_affinity_replace(struct nft_plane *p, enum ipfam fam,
				  const struct nft_affinity_entry *v, size_t n, struct err *err);

/* --- moves.c --- */

/* plane_ops.is_backend, .move_begin, .move_end */
bool nft_is_backend(struct plane *plane, const struct ip_addr *addr, uint16_t port);
MUST_USE int nft_move_begin(struct plane *plane, const struct plane_move *v, size_t n,
			    struct err *err);
MUST_USE int nft_move_end(struct plane *plane, const struct plane_move *v, size_t n,
			  struct err *err);

/* --- tick.c --- */

/* plane_ops.tick */
uint64_t nft_tick(struct plane *plane, uint64_t now);
/*
 * Do a piece of a walk over a set of both families; for stray addresses, or affinity entries. 1:
 * more left; 0: complete. A call after another result begins a new walk.
 */
MUST_USE int nft_plane_walk(struct nft_plane *p, enum nft_set_id set, nft_elem_fn *fn, void *arg,
			    struct err *err);
/* Delete some unused affinity chains; after a failure the next period retries. True: more left. */
bool nft_tick_kinds_remove(struct nft_plane *p);
/* Does `cmd` own both tables? */
bool nft_plane_is_owner(const struct nft_plane *p);
/* Another write was made: create, claim or remove the guard now. */
void nft_plane_guard_follow(struct nft_plane *p);
/* The guard, or the owner of the tables, may be another one. */
void nft_plane_guard_written(struct nft_plane *p);
