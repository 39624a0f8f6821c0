/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan - the difference between desired and programmed rows, as an ordered list of operations.
 *
 *     new = plan_rows_build(p, svc)               desired rows, from the model
 *     plan_rows_settle(p, new, &displaced)        drop frontends that other services get
 *     plan_rows_number(p, new)                    ids, after the plane has adopted some
 *     plan_diff(&ops, svc, svc->rows, new)        operations
 *     ... the plane accepts ...                   plan_rows_accept(p, svc, new)
 *     ... or rejects ...                          plan_rows_reject(p, svc, new)
 *
 * svc->rows is programmed: acknowledged by the kernel. Pure: no I/O, no clock.
 *
 * Order of the operations of one service: pools, backends and ranges are added before
 * the frontends that use them, and removed after them. Every prefix of the list is a
 * safe state for a plane without transactions, if that plane drains the backend of a
 * BACKEND_DEL.
 *
 * A frontend that two services claim goes to one of them by precedence (SEL-14): cluster IP,
 * node port, load balancer address, external IP; within one kind the older service
 * (creation time, then namespace and name). Building rows claims frontends; settling
 * drops those that another service gets. The claims of all pending services are registered
 * before the first is settled. A service that loses a programmed frontend, or gets one that
 * another service loses, is reported in `displaced` and must be part of the transaction,
 * so that the kernel never lacks an address that moves.
 */
#pragma once

#include "base/str.h"
#include "plan/rows.h"

/* Properties of a plane that the plan depends on; the functions are pure. */
struct plan_traits {
	/*
	 * A number that frontends leading to a pool of `n` > 0 backends carry: when it
	 * changes, they are rewritten (PLAN_FRONTEND_CHANGE). Constant if they need not be.
	 */
	uint16_t (*pool_class)(size_t n, uint32_t affinity_s);
	/* The effective affinity timeout of a class, 0 = none; NULL: as desired. */
	uint32_t (*class_affinity)(uint16_t class);
	/*
	 * A client's affinity is shared by the Cluster and the Local pool of a port: their ids
	 * differ in PLAN_POOL_LOCAL only, and a backend has the same local id in both.
	 */
	bool shares_affinity;
	/* Forwards other than by masquerading, too (enum forwarding). */
	bool has_forwarding;
	/* Balances by the number of slots of a backend; else by PLAN_BACKEND_WEIGH. */
	bool weighs_by_slots;
	/* Whether a hash of the client selects the backend. NULL: the plan assigns no slots. */
	enum plan_hashing (*hashing)(const struct service *s);
	/* In place of pool_class: of a pool with hashing. */
	uint16_t (*hash_class)(enum plan_hashing how);
};

struct plane;
/*
 * Work of an operation on a backend of a pool, in operations on a small pool: the kernel may need
 * more time for larger pools, or by the settings of the service. `leading`: one of the `n_leading`
 * desired frontends of the pool, or NULL. `pool` NULL: by the settings alone.
 */
typedef size_t plan_work_fn(const struct plane *plane, const struct svc *svc,
			    const struct plan_pool *pool, const struct plan_frontend *leading,
			    size_t n_leading);

enum plan_op_kind {
	PLAN_OP_UNSET = 0,
	/*
	 * pool; its backends follow as BACKEND_ADD, its ranges as RANGE_ADD. Loaded phase: other
	 * elements of the pool are removed, except slots if plan_pool_is_part().
	 */
	PLAN_POOL_ADD,
	PLAN_POOL_END, /* pool, no longer a part: slots behind its end go, other backends drain */
	PLAN_BACKEND_ADD, /* pool, backend, slot */
	/* pool, backend, from -> slot, which are equal if only its is_local changes: was_local */
	PLAN_BACKEND_MOVE,
	PLAN_BACKEND_WEIGH,   /* pool, backend, slot: has another weight (plan_pool_weight()) */
	PLAN_SLOT_ADD,        /* pool, backend, slot; with pool->table: backends have no slot */
	PLAN_RANGE_ADD,       /* pool, range */
	PLAN_POOL_CHANGE,     /* pool: scheduler, weights, ... */
	PLAN_FRONTEND_ADD,    /* frontend */
	PLAN_FRONTEND_CHANGE, /* old_frontend -> frontend, same key */
	PLAN_FRONTEND_DEL,    /* old_frontend */
	PLAN_RANGE_DEL,       /* pool, range */
	PLAN_SLOT_DEL,        /* pool, backend, slot */
	PLAN_BACKEND_DEL,     /* pool, backend, slot */
	PLAN_POOL_DEL,        /* pool */
};

#define PLAN_SLOT_NONE UINT32_MAX

/* Pointers are borrowed from the rows that were compared. */
struct plan_op {
	uint8_t kind; /* enum plan_op_kind */
	bool was_local;
	uint32_t slot; /* of a backend; PLAN_SLOT_NONE: with PLAN_SLOT_ADD or _DEL */
	uint32_t from;
	struct svc *svc;
	const struct plan_pool *pool; /* of the new rows, of the old for *_DEL */
	const struct plan_backend *backend;
	const struct ip_prefix *range;
	const struct plan_frontend *frontend;
	const struct plan_frontend *old_frontend;
};

struct plan_ops {
	VEC(struct plan_op) ops;
};

struct plan {
	struct model *model;
	const struct plan_traits *traits;
	struct {
		uint64_t *used;       /* bitmap of ids: those of rows, and `programmed` */
		uint64_t *programmed; /* ids in the kernel that are not adopted yet; NULL: none */
		uint32_t next;
		bool is_exhausted; /* none is free */
	} ids[IPFAM_N];
	struct htable claims;      /* plan/claims.c: the only one of a key */
	struct htable contests;    /* plan/claims.c: keys with several claims */
	uint64_t n_claims_made;    /* so far: the work of plan_claim() */
	uint64_t n_claims_visited; /* so far: the work of searches among the claims of a key */
	uint64_t n_selected;       /* so far: endpoints of plan_build_end() and plan_rows_patch() */
	uint32_t load_no;          /* the sync's: of the last load; svc.adopted_load */
	uint8_t left_out;          /* address families that rows are built without, as bits */
	size_t piece_work;         /* services with more work change in pieces; 0: none */
	plan_work_fn *work;        /* NULL: always 1 */
	const struct plane *plane; /* for `work` */
	size_t n_conflicts;        /* frontends that a service claims and did not get */
	size_t n_unsticky;         /* services with affinity that is not in effect in a pool */
	size_t n_host_cluster_ips; /* services whose cluster IP is an address of this host */
};

/*
 * Services that lose a frontend to a service, or gain one from it. A large service gains one that
 * another service has with the piece that contains it: plan_claim_due().
 */
struct plan_displaced {
	VEC(struct svc *) svcs;
};

void plan_init(struct plan *p, struct model *m, const struct plan_traits *traits);
void plan_fini(struct plan *p);

/*
 * The desired rows of `svc`; NULL when none are desired (claims are then released).
 * Pools that exist in svc->rows keep id and slots; new ones have id 0 until
 * plan_rows_number(). Marks services dirty that may now get a frontend.
 */
struct plan_rows *plan_rows_build(struct plan *p, struct svc *svc);
/*
 * plan_rows_build() in steps, for a service with many ports and endpoints: step until it
 * returns false, then end, or close. The service object must not change meanwhile; slices
 * may. `max`: select_work() and slots of a step, at least one port.
 */
struct build;
void plan_build_open(struct build **ret, const struct plan *p, struct svc *svc);
bool plan_build_step(struct build *b, size_t max);
struct plan_rows *plan_build_end(struct plan *p, struct build *b);
void plan_build_close(struct build *b);
/*
 * Does `svc` change in pieces? Is the upper bound of the work of a change above `piece_work`:
 * backends, frontends and source ranges programmed plus those possible, and tables?
 */
bool plan_is_large(const struct plan *p, const struct svc *svc);
/* Does a service of this transaction get a frontend that is programmed for `svc`? */
bool plan_is_lost(struct plan *p, const struct svc *svc, const struct plan_frontend *f);
bool plan_is_claimed(const struct svc *svc, const struct plan_frontend *f);
/*
 * The next transaction programs `f` for the large service `svc`: append the services that lose it.
 * Returns false without precedence. plan_claims_defer(): it was not programmed.
 */
bool plan_claim_due(struct plan *p, const struct svc *svc, const struct plan_frontend *f,
		    struct plan_displaced *displaced);
void plan_claims_defer(struct plan *p, const struct svc *svc);
/* The service that the frontend with the key of `f` is programmed for, or NULL. */
const struct svc *plan_programmed(const struct plan *p, const struct plan_frontend *f);
/* The other service that has a frontend in conflict with `svc`, or gets it. Without one, `svc`. */
struct plan_owner plan_conflict_owner(const struct plan *p, const struct svc *svc,
				      const struct plan_conflict *c);
/*
 * Like plan_rows_build(), without side effects: takes no claims and no ids. Used by trace
 * and diff.
 */
struct plan_rows *plan_rows_desired(const struct plan *p, struct svc *svc);
/* Precedence of a frontend claimed by `a` as `kind_a` over one claimed by `b` (SEL-14). */
bool plan_precedes(const struct svc *a, uint8_t kind_a, const struct svc *b, uint8_t kind_b);
/*
 * Register the claims of `svc` like plan_rows_build(), without rows. Cheap if nothing
 * changed. Called for all dirty services before the first one is built: a service that
 * loses a frontend must find the service that gains it. Also sets svc->is_large, and
 * svc->is_unchanged, which the next change of the model clears.
 */
void plan_claim(struct plan *p, struct svc *svc);
/* Frontends that plan_claim() visits: those that `svc` may have now, or has had. */
size_t plan_claim_work(const struct plan *p, const struct svc *svc);
/*
 * Append the services that get a programmed frontend of `svc` that `svc` no longer claims
 * or loses by precedence. They belong to one transaction with `svc`. After plan_rows_build().
 */
void plan_heirs(struct plan *p, const struct svc *svc, struct plan_displaced *heirs);
/* Is a large service going to take a frontend that is programmed for `svc` and not claimed? */
bool plan_awaits_heir(struct plan *p, const struct svc *svc);
/*
 * Drop the frontends that other services get; they become conflicts. Appends services that
 * have a frontend of `rows` programmed, claimed or not, to `displaced`: they give these up in
 * the same transaction (plan_piece_yield()). NULL: frontends move later, by plan_claim_due().
 */
void plan_rows_settle(struct plan *p, struct plan_rows *rows, struct plan_displaced *displaced);
/*
 * Assign ids to pools without one and local ids to backends that need one, and set the
 * class of pools and targets. Before this call a plane may set ids and slot orders that it
 * adopts from the kernel (plane_ops.adopt).
 */
void plan_rows_number(struct plan *p, struct plan_rows *rows);
/* plan_rows_number() without the tables of pools with hashing, each about 1 ms of work. */
void plan_rows_number_ids(struct plan *p, struct plan_rows *rows);
/* Append the operations that change `old` into `new`; either may be NULL (no rows). */
void plan_diff(struct plan_ops *ops, struct svc *svc, const struct plan_rows *old,
	       const struct plan_rows *new);
/*
 * About `max` of the operations that create `rows`, from index `from` on. Returns the index
 * to continue from, 0 after the last one.
 */
size_t plan_diff_part(struct plan_ops *ops, struct svc *svc, const struct plan_rows *rows,
		      size_t from, size_t max);
/* Remove operations of address families that are left out from `ops`, from index `begin` on. */
void plan_ops_leave_out(const struct plan *p, struct plan_ops *ops, size_t begin);
/* `new` (may be NULL) is programmed: takes it, frees the old rows and their ids. */
void plan_rows_accept(struct plan *p, struct svc *svc, struct plan_rows *new);
/* The pool of the port's other scope that shares affinity with `pool`, or NULL. */
struct plan_pool *plan_affinity_peer(const struct plan *p, const struct plan_rows *rows,
				     const struct plan_pool *pool);
/*
 * Give `pool`, which is not programmed, the id and local ids of its programmed peer, so that
 * clients keep their endpoint when it takes the peer's place.
 */
void plan_affinity_inherit(const struct plan *p, const struct plan_rows *programmed,
			   struct plan_pool *pool);
/* PLAN_POOL_LOCAL if the id of `pool` must have it, else 0. */
uint32_t plan_affinity_id_bit(const struct plan *p, const struct plan_pool *pool);
/*
 * Assign local ids to backends of `pool` and of `peer` (may be NULL) that have none; if possible
 * not those in `programmed` (may be NULL).
 */
void plan_affinity_number(struct plan_pool *pool, struct plan_pool *peer,
			  const struct plan_rows *programmed);
/* Is affinity desired and not in effect in one of the pools of `rows`? */
bool plan_rows_is_unsticky(const struct plan *p, const struct plan_rows *rows);
/* Is another affinity timeout in effect, or none, in one of the pools of `rows`? */
bool plan_rows_is_inexact(const struct plan *p, const struct plan_rows *rows);
/* Append why the affinity of a pool is not as desired; nothing when it is. */
void plan_affinity_text(const struct plan *p, const struct plan_rows *rows, struct str *out);
/* Part of accept: the ids of `kept` stay taken; the caller keeps the old rows and claims. */
void plan_rows_replace(struct plan *p, struct svc *svc, struct plan_rows *next,
		       const struct plan_rows *kept);
/* The kernel rejected `new`: frees it and the ids that only it used. */
void plan_rows_reject(struct plan *p, struct svc *svc, struct plan_rows *new);
/*
 * Adoption. Ids in the kernel are not given to new pools. The rows that an id was made for
 * adopt it, once, unless other rows have it already; if these are rejected or replaced, another
 * attempt may adopt it. At the end of adoption the other ids are freed.
 */
void plan_id_reserve(struct plan *p, enum ipfam fam, uint32_t id);
bool plan_id_adopt(struct plan *p, const struct plan_rows *rows, const struct plan_pool *pool,
		   uint32_t id);
void plan_ids_release(struct plan *p);
/* Arrange `desired` (any order) with the least change against the programmed slots `programmed`. */
void plan_slots_arrange(struct plan_backend *desired, size_t n_desired,
			const struct plan_backend *programmed, size_t n_programmed);

const char *plan_op_text(enum plan_op_kind k);
