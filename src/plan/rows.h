/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/rows - the state of one service in the kernel, independent of the plane.
 *
 *   frontend  (address, protocol, port) a client connects to, and its target
 *   pool      an ordered set of backends: one (service port, family, scope)
 *   backend   (address, port) in a slot of a pool
 *
 * Slots are dense, 0..n-1, and stable: a change moves as few backends as possible,
 * so that a plane that addresses backends by slot writes few of them. Planes that
 * address backends by value ignore the slot.
 */
#pragma once

#include "model/model.h"

/* The set of endpoints of a pool. */
enum plan_scope {
	PLAN_SCOPE_CLUSTER = 0, /* the cluster set (POL-03) */
	PLAN_SCOPE_LOCAL = 1,   /* the local set (POL-06) */
};

#define PLAN_POOL_ID_MAX 524285 /* 19 bits without the last two; ids start at 1 */
/*
 * With traits->shares_affinity: set in the id of a Local pool with affinity. The id without
 * this bit belongs to the Cluster pool of the port, or to no pool.
 */
#define PLAN_POOL_LOCAL UINT32_C(0x80000)
#define PLAN_HASH_BACKENDS_MAX 2048     /* of a pool with hashing: beyond it hashing is off */
#define PLAN_HASH_POOLS_MAX 32          /* of a service: the first ones have hashing */
#define PLAN_AFFINITY_BACKENDS_MAX 4095 /* local ids have 12 bits; beyond it affinity is off */

struct plan_backend {
	struct ip_addr addr;
	uint16_t port; /* host order */
	/* 1..4095 in a pool with affinity: stable while the backend lives; else 0 */
	uint16_t aff_id : 15;
	/* On this node; always 0 without --preserve-local-source, which alone needs it. */
	uint16_t is_local : 1;
};
_Static_assert(sizeof(struct plan_backend) == 24, "one per endpoint: kept small");
BEGINS_LIKE_ENDPOINT(struct plan_backend);

/* Backends and their slots in a pool, sorted: vec_search() with ip_endpoint_cmp(). */
struct plan_place {
	struct plan_backend b;
	uint32_t slot;
};
struct plan_places {
	VEC(struct plan_place) v;
};

/* What of a packet decides on its backend; traits->hashing. */
enum plan_hashing {
	PLAN_HASHING_NONE = 0,
	PLAN_HASHING_ADDR, /* the source address */
	PLAN_HASHING_PORT, /* and the source port */
};

struct plan_pool {
	uint32_t id;     /* 1..PLAN_POOL_ID_MAX, perhaps with PLAN_POOL_LOCAL; unique in its family;
			  * 0 = not yet given */
	uint8_t fam;     /* enum ipfam */
	uint8_t scope;   /* enum plan_scope */
	uint8_t proto;   /* enum l4proto */
	bool is_sticky;  /* affinity is desired */
	uint8_t hashing; /* enum plan_hashing */
	const struct name *port_name;
	uint32_t affinity_s;  /* 0 = none, or too many backends for it */
	uint16_t class;       /* traits->pool_class(n, affinity_s), or hash_class(hashing) */
	uint16_t next_aff_id; /* next local id to give out; wraps past ids in use */
	uint32_t tuning;      /* hash of the service's annotations for schedulers; 0 = none */
	/*
	 * Slots that frontends in the kernel pick and no transaction has written yet
	 * (plane_ops.adopt); 0: all such frontends are written. Until then slots below it stay.
	 */
	uint32_t n_found;
	VEC(struct plan_backend) backends; /* by slot; with `table`, in any order */
	uint8_t *weights;                  /* of the backends, each above 0; NULL: all are 1 */
	/* Index of each slot's backend: with hashing once numbered; by weight (plan/table.h). */
	VEC(uint16_t) table;
	/*
	 * Source ranges of the pool's guarded frontends (SVC-20): sorted, none inside another,
	 * their lengths multiples of SERVICE_RANGE_STEP and not 0.
	 */
	VEC(struct ip_prefix) ranges;
};

/* The ranges of a pool as few prefixes, of any length, for display. Freed by the caller. */
struct ip_prefix *plan_pool_ranges(const struct plan_pool *pool, size_t *n);

enum plan_verdict {
	PLAN_VERDICT_UNSET = 0,
	PLAN_VERDICT_POOL,   /* balance over the pool */
	PLAN_VERDICT_REJECT, /* no endpoints (REJ-01) */
	PLAN_VERDICT_DROP,   /* Local policy, endpoints only elsewhere (REJ-02, REJ-03) */
};

struct plan_target {
	uint8_t verdict;  /* enum plan_verdict */
	uint8_t scope;    /* enum plan_scope of the pool */
	uint16_t class;   /* of the pool; 0 unless verdict is POOL */
	uint32_t pool_id; /* set for every verdict: a rejecting frontend keeps its pool's id */
};

enum plan_frontend_kind {
	PLAN_FRONTEND_UNSET = 0,
	PLAN_FRONTEND_CLUSTERIP,
	PLAN_FRONTEND_NODEPORT,
	PLAN_FRONTEND_EXTERNALIP,
	PLAN_FRONTEND_LB,
};

/* Which sources are masqueraded on the way to the backend (section 6.2); hairpins always are. */
enum plan_masq {
	PLAN_MASQ_UNSET = 0,
	PLAN_MASQ_CLUSTERIP, /* by detect-local, or all sources with --masquerade-all */
	PLAN_MASQ_ALWAYS,    /* external, ETP Cluster */
	PLAN_MASQ_HOST,      /* external, ETP Local: only connections of this host (MASQ-08) */
};

struct plan_frontend {
	struct ip_addr addr;
	uint16_t port; /* host order */
	uint8_t proto; /* enum l4proto */
	uint8_t kind;  /* enum plan_frontend_kind */
	uint8_t masq;  /* enum plan_masq */
	/* ETP Local: `inside` serves pods and this host, `target` other clients (POL-25). */
	bool is_split : 1;
	bool is_guarded : 1; /* the target pool's ranges are checked first (REJ-10) */
	uint16_t port_index; /* into the service's ports */
	/* To `target` (model/tuning.h). Other than MASQUERADE: backends answer clients directly. */
	uint32_t forwarding;
	struct plan_target target;
	struct plan_target inside; /* zero unless is_split */
};
_Static_assert(sizeof(struct plan_frontend) == 48, "one per address and port: kept small");
BEGINS_LIKE_TUPLE(struct plan_frontend);

/* A frontend that the service claims and did not get: plan_conflict_owner(). */
struct plan_conflict {
	struct ip_addr addr;
	uint16_t port;
	uint8_t proto;
	uint8_t kind; /* enum plan_frontend_kind of the claim */
};
_Static_assert(sizeof(struct plan_conflict) == 24, "compared as raw bytes");
BEGINS_LIKE_TUPLE(struct plan_conflict);

/* The service that has a frontend, or gets it. */
struct plan_owner {
	const struct svc *svc;
	uint8_t kind; /* enum plan_frontend_kind of its claim */
};

/* A pool by family and id; apart from the pools, so that a search touches little memory. */
struct plan_pool_key {
	uint32_t key;
	uint32_t index; /* of the pool */
};

struct plan_rows {
	struct svc *svc;
	VEC(struct plan_pool) pools; /* sorted by (fam, port_name, proto, scope, has affinity) */
	VEC(struct plan_frontend) frontends; /* sorted by ip_tuple_cmp() */
	VEC(struct plan_conflict) conflicts;
	bool is_unsticky;            /* once accepted: plan_rows_is_unsticky() */
	bool is_of_host;             /* model_host_cluster_ip() */
	struct plan_pool_key *by_id; /* sorted, of plan_rows_index(); NULL: few pools */
};
_Static_assert(sizeof(struct plan_rows) == 72, "one per service: kept small");

#define PLAN_INDEX_MIN 16 /* pools; fewer are searched linearly */

/* `id`: 0..PLAN_AFFINITY_BACKENDS_MAX */
static inline void plan_backend_set_aff_id(struct plan_backend *b, unsigned int id)
{
	b->aff_id = id & PLAN_AFFINITY_BACKENDS_MAX;
}
/* Number of slots: those of the table, or one for each backend. */
static inline size_t plan_pool_slots(const struct plan_pool *pool)
{
	return pool->table.n > 0 ? pool->table.n : pool->backends.n;
}

/* Does the kernel have further slots of the pool that must stay? */
static inline bool plan_pool_is_part(const struct plan_pool *pool)
{
	return pool->n_found > plan_pool_slots(pool);
}

static inline uint8_t plan_pool_weight(const struct plan_pool *pool, size_t backend)
{
	return pool->weights != NULL ? pool->weights[backend] : 1;
}

/* Sum of the weights of the backends. */
uint64_t plan_pool_weights(const struct plan_pool *pool);

static inline const struct plan_backend *plan_pool_at(const struct plan_pool *pool, size_t slot)
{
	return &pool->backends.v[pool->table.n > 0 ? pool->table.v[slot] : slot];
}

/* With affinity each backend has a counter, else each slot. */
static inline size_t plan_pool_counters(const struct plan_pool *pool)
{
	return pool->affinity_s != 0 ? pool->backends.n : plan_pool_slots(pool);
}

static inline const struct plan_backend *plan_pool_counter(const struct plan_pool *pool, size_t i)
{
	return pool->affinity_s != 0 ? &pool->backends.v[i] : plan_pool_at(pool, i);
}

/* Fills `ret`, which is empty, with all backends. */
void plan_places_of(struct plan_places *ret, const struct plan_pool *pool);

/* Frees the pool's members, not the pool. */
void plan_pool_fini(struct plan_pool *pool);
/* Frees names, vectors and the rows; accepts NULL. Does not free pool ids. */
void plan_rows_close(struct plan_rows *r);
/* `r`, or rows without any element in place of NULL. */
const struct plan_rows *plan_rows_or_none(const struct plan_rows *r);

/* The frontend with the key (address, protocol, port) of `key`, or NULL. */
const struct plan_frontend *plan_rows_frontend(const struct plan_rows *r,
					       const struct plan_frontend *key);
/*
 * The pool of a frontend of `rows` in that scope; NULL: none. `rows` are of the current object of
 * their service: plan_rows_pool() finds pools of older ones.
 */
struct plan_pool *plan_rows_pool_of(const struct plan_rows *rows, const struct plan_frontend *f,
				    enum plan_scope scope);
/*
 * Drop pools without a frontend: a plane that adopts pools by their frontends would never
 * find them. For rows without ids.
 */
void plan_rows_drop_unled(struct plan_rows *rows);
/* The pool with family, port name, protocol and scope of `like`, or NULL. */
struct plan_pool *plan_rows_pool_like(const struct plan_rows *r, const struct plan_pool *like);
struct plan_pool *plan_rows_pool_at(const struct plan_rows *r, enum ipfam fam,
				    enum plan_scope scope, uint8_t proto,
				    const struct name *port_name);
int plan_pool_key_cmp(const void *a, const void *b);
/* The pool with that id. Linear search before plan_rows_index(). */
struct plan_pool *plan_rows_pool(const struct plan_rows *r, enum ipfam fam, uint32_t id);
/* Call when all pools have ids; the order of the pools must not change afterwards. */
void plan_rows_index(struct plan_rows *r);
const char *plan_frontend_kind_text(enum plan_frontend_kind k);
/* Why the owner has precedence: "older service", "cluster IP before external IP" ... */
const char *plan_conflict_reason(const struct plan_conflict *c, const struct plan_owner *owner);
const char *plan_verdict_text(enum plan_verdict v);
const char *plan_scope_text(enum plan_scope s);
