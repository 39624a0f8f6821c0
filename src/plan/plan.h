/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan - desired minus held, as an ordered list of operations.
 *
 *     new = plan_rows_build(p, svc)               desired rows, from the model
 *     plan_rows_settle(p, new, &displaced)        less what other services get
 *     plan_rows_number(p, new)                    ids, after the plane's recall
 *     plan_diff(&ops, svc, svc->rows, new)        what to do about it
 *     ... the plane accepts ...                   plan_rows_accept(p, svc, new)
 *     ... or refuses ...                          plan_rows_refuse(p, svc, new)
 *
 * svc->rows is what the kernel holds. Pure: no I/O, no clock.
 *
 * Order of the operations of one service: what is led to comes before what leads
 * there (pools, backends, ranges, then frontends), and goes after it. Every
 * prefix of the list is a safe state for a plane without transactions, if that
 * plane performs a BACKEND_DEL as "no new connections, then drain".
 *
 * A frontend that two services claim goes to one by precedence (SEL-14): cluster IP,
 * node port, load balancer address, external IP; within one kind the older service
 * (creation time, then namespace and name). Building rows claims frontends; settling
 * drops those that another service gets. All services of one transaction are built
 * before the first is settled. A service that loses a frontend it holds, or that gets
 * a frontend that another one loses, is reported in `displaced` and must be synced in the
 * same transaction: the kernel never lacks an address that moves.
 */
#pragma once

#include "base/str.h"
#include "plan/rows.h"

/* What the plan must know of a plane: pure functions of it. */
struct plan_traits {
	/*
	 * A number that frontends leading to a pool of `n` > 0 backends carry: when it
	 * changes, they are rewritten (PLAN_FRONTEND_CHANGE). Constant if they need not be.
	 */
	uint16_t (*pool_class)(size_t n, uint32_t affinity_s);
	/* The affinity timeout in force in pools of a class, 0 = none; NULL: as asked for. */
	uint32_t (*class_affinity)(uint16_t class);
	/* Rows may be audited in parts (plan_diff_part()): each element is by itself. */
	bool has_parts;
	/*
	 * A client's affinity is shared by the Cluster and the Local pool of a port: their ids
	 * differ in PLAN_POOL_LOCAL only, and a backend has the same local id in both.
	 */
	bool shares_affinity;
	/* It schedules: wants to know when a service's annotations about that change. */
	bool has_tuning;
};

enum plan_op_kind {
	PLAN_OP_UNSET = 0,
	/*
	 * pool; its backends follow as BACKEND_ADD, its ranges as RANGE_ADD. Loaded phase: what the
	 * kernel has besides goes, but for slots before part_of, whose backends come later.
	 */
	PLAN_POOL_ADD,
	PLAN_BACKEND_ADD,     /* pool, backend, slot */
	PLAN_BACKEND_MOVE,    /* pool, backend, from -> slot */
	PLAN_RANGE_ADD,       /* pool, range */
	PLAN_POOL_CHANGE,     /* pool: scheduler, weights, ...; only with traits.has_tuning */
	PLAN_FRONTEND_ADD,    /* frontend */
	PLAN_FRONTEND_CHANGE, /* old_frontend -> frontend, same key */
	PLAN_FRONTEND_DEL,    /* old_frontend */
	PLAN_RANGE_DEL,       /* pool, range */
	PLAN_BACKEND_DEL,     /* pool, backend, slot */
	PLAN_POOL_DEL,        /* pool */
};

/* Pointers are borrowed from the rows the diff was made of. */
struct plan_op {
	uint8_t kind; /* enum plan_op_kind */
	uint32_t slot;
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
		uint64_t *used; /* bitmap of ids: those of rows, and those held */
		uint64_t *held; /* the kernel's, which nobody has recalled yet; NULL: none */
		uint32_t next;
	} ids[IPFAM_N];
	struct htable claims;
	uint8_t left_out;          /* address families that rows are built without, as bits */
	size_t n_conflicts;        /* frontends somebody asked for and did not get */
	size_t n_unsticky;         /* services with affinity that a pool of theirs does not have */
	size_t n_host_cluster_ips; /* services whose cluster IP is an address of this host */
};

/* Services that lose a frontend to a service, or gain one from it. */
struct plan_displaced {
	VEC(struct svc *) svcs;
};

void plan_init(struct plan *p, struct model *m, const struct plan_traits *traits);
void plan_fini(struct plan *p);

/*
 * The desired rows of `svc`; NULL when it shall hold nothing (its claims are then
 * released). Pools that exist in svc->rows keep id and slots; new ones have id 0
 * until plan_rows_number(). Services that may now get a frontend are marked dirty
 * in the model.
 */
struct plan_rows *plan_rows_build(struct plan *p, struct svc *svc);
/*
 * plan_rows_build() in steps, for a service with many ports and endpoints: step until it
 * returns false, then end, or close. The service object must not change meanwhile; slices
 * may. `max`: endpoints that a step looks at, at least one port.
 */
struct build;
void plan_build_open(struct build **ret, const struct plan *p, struct svc *svc);
bool plan_build_step(struct build *b, size_t max);
struct plan_rows *plan_build_end(struct plan *p, struct build *b);
void plan_build_close(struct build *b);
/* Backends that the service holds, and at most may have: the work that a change may cause. */
size_t plan_size(const struct svc *svc);
/* Does `svc` have precedence for its frontend? */
bool plan_is_owner(const struct plan *p, const struct svc *svc, const struct plan_frontend *f);
/* The same, and nothing else happens: no claims, no ids. For those who only want to know. */
struct plan_rows *plan_rows_desired(const struct plan *p, struct svc *svc);
/* Precedence of a frontend claimed by `a` as `kind_a` over one claimed by `b` (SEL-14). */
bool plan_precedes(const struct svc *a, uint8_t kind_a, const struct svc *b, uint8_t kind_b);
/*
 * Register the frontends that `svc` asks for, as plan_rows_build() does, without rows.
 * Cheap if nothing changed since. Called for all dirty services before the first one is
 * built: a service that loses a frontend must find the service that gains it.
 */
void plan_claim(struct plan *p, struct svc *svc);
/*
 * Append the services that get a frontend that `svc` holds and no longer asks for, or
 * loses by precedence. They belong to the same transaction. After plan_rows_build().
 */
void plan_heirs(const struct plan *p, const struct svc *svc, struct plan_displaced *heirs);
/*
 * Drop the frontends that other services get (they become conflicts). Services that hold
 * one of `rows`, whether they ask for it or are leaving it, are appended to `displaced`:
 * build and settle those too, for the same transaction.
 */
void plan_rows_settle(struct plan *p, struct plan_rows *rows, struct plan_displaced *displaced);
/*
 * Give ids to the pools that have none, local ids to backends that need one, and
 * fill the class of pools and targets. Between build and this a plane may have
 * set ids and slot orders that it recalls from the kernel (plane.h recall).
 */
void plan_rows_number(struct plan *p, struct plan_rows *rows);
/* Append the operations that lead from `old` to `new`; either may be NULL (nothing). */
void plan_diff(struct plan_ops *ops, struct svc *svc, const struct plan_rows *old,
	       const struct plan_rows *new);
/*
 * About `max` of the operations that lead from nothing to `rows`, from number `from` on.
 * Returns the number to go on from; 0: these were the last. A pool with affinity is not cut.
 */
size_t plan_diff_part(struct plan_ops *ops, struct svc *svc, const struct plan_rows *rows,
		      size_t from, size_t max);
/* Remove from `ops`, from number `begin` on, those of address families that are left out. */
void plan_ops_leave_out(const struct plan *p, struct plan_ops *ops, size_t begin);
/* The kernel holds `new` now (may be NULL): takes it, frees the old rows and their ids. */
void plan_rows_accept(struct plan *p, struct svc *svc, struct plan_rows *new);
/* The pool of the same port and the other scope that shares affinity with `pool`, or NULL. */
struct plan_pool *plan_affinity_peer(const struct plan *p, const struct plan_rows *rows,
				     const struct plan_pool *pool);
/* PLAN_POOL_LOCAL if the id of `pool` must have it, else 0. */
uint32_t plan_affinity_id_bit(const struct plan *p, const struct plan_pool *pool);
/* Give local ids to backends that have none; the same in `peer`, which may be NULL. */
void plan_affinity_number(struct plan_pool *pool, struct plan_pool *peer);
/* The affinity timeout in force in a numbered pool, 0 = none. */
uint32_t plan_pool_affinity(const struct plan *p, const struct plan_pool *pool);
/* Does the service ask for affinity that is not in force in one of these rows' pools? */
bool plan_rows_is_unsticky(const struct plan *p, const struct plan_rows *rows);
/* Append why the affinity of a pool is not as the service asks; nothing when it is. */
void plan_affinity_text(const struct plan *p, const struct plan_rows *rows, struct str *out);
/* Part of accept: the ids of `kept` stay taken; the old rows and claims stay the caller's. */
void plan_rows_replace(struct plan *p, struct svc *svc, struct plan_rows *new,
		       const struct plan_rows *kept);
/* The kernel refused: frees `new` and the ids that only it used. */
void plan_rows_refuse(struct plan *p, struct svc *svc, struct plan_rows *new);
/*
 * Adoption. An id that the kernel holds is not given out to others: it is recalled, once, by
 * the rows that it was made for, unless some have it already. When all have been asked,
 * those that nobody recalled are let go.
 */
void plan_id_hold(struct plan *p, enum ipfam fam, uint32_t id);
bool plan_id_recall(struct plan *p, const struct plan_rows *rows, const struct plan_pool *pool,
		    uint32_t id);
void plan_ids_let_go(struct plan *p);
/* Slot order: arrange `want` (any order) with the least change against `held`. Exposed for planes
 * and tests. */
void plan_slots_arrange(struct plan_backend *want, size_t n_want, const struct plan_backend *held,
			size_t n_held);

const char *plan_op_text(enum plan_op_kind k);
