/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane - what holds frontends, pools and backends in the kernel.
 *
 * One struct of functions, so that the sync, the tests and the tools see the
 * nft and the ipvs plane alike. Life of a plane:
 *
 *     load -> (recall, commit)* -> sweep        adoption, audit: "loaded" phase
 *     env, commit, check ...                    normal running
 *     load -> commit* -> sweep                  the next audit, or after -ENOTRECOVERABLE
 *
 * Between load and sweep the plane knows what the kernel holds. In that phase
 * the first commit of a service is given the operations that lead from nothing
 * to the wanted rows; the plane sends only what the kernel does not hold already
 * and remembers what was asked for. Should the service change again before the
 * sweep, the usual difference follows (with *_DEL of rows asked for before).
 * What a refused commit asked for counts as asked for. sweep() then removes, from
 * what is provably vipd's own, everything nobody asked for. With nothing
 * changed, no write is sent.
 *
 * Threads: none. All calls may block for one kernel transaction (bounded by the
 * size of the batch), never for the network.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "explain/dealing.h"
#include "nl/batch.h"
#include "plan/plan.h"

struct plane;

/* What became of a commit. */
struct plane_result {
	/* After a refusal: families whose element, chain or table it names, as bits. */
	uint8_t families;
	/*
	 * After a refusal: whom the kernel's answer names, or NULL when it cannot be
	 * told (the caller then splits the transaction).
	 */
	struct svc *culprit;
	size_t n_writes;    /* elements, rules, chains, sets: operations sent and acknowledged */
	size_t n_batches;   /* kernel transactions */
	uint64_t kernel_ns; /* time spent in them */
};

enum plane_commit_mode {
	PLANE_COMMIT_NORMAL = 0,
	/*
	 * The kernel may differ from what was believed: read the touched elements by
	 * key first and send only what is needed. Used after -ESTALE.
	 */
	PLANE_COMMIT_VERIFY,
	/*
	 * The operations lead from nothing to rows that were accepted before: read
	 * their elements by key and send what the kernel lacks or has otherwise.
	 */
	PLANE_COMMIT_AUDIT,
};

/* What the kernel counts, besides what it does; more costs more (doc/design/0010-counters.md). */
enum plane_counting {
	PLANE_COUNT_NONE = 0,
	PLANE_COUNT_SERVICES,  /* for each frontend */
	PLANE_COUNT_ENDPOINTS, /* and for each backend of a pool */
};

/* Why packets that ask for a connection get none; each retransmission is one more. */
enum plane_refusal {
	PLANE_REFUSAL_NO_ENDPOINTS = 0,   /* REJ-01 */
	PLANE_REFUSAL_NO_LOCAL_ENDPOINTS, /* REJ-02, REJ-03 */
	PLANE_REFUSAL_SOURCE_RANGES,      /* REJ-10 */
	PLANE_REFUSAL_UNKNOWN_PORT,       /* of a cluster IP, REJ-05 */
	PLANE_REFUSAL_UNKNOWN_ADDRESS,    /* of a service CIDR, REJ-06 */
	PLANE_REFUSAL_N,
};

/* Of both families, since the kernel's rules were made: they may begin again at 0. */
struct plane_drops {
	uint64_t refused[PLANE_REFUSAL_N]; /* packets */
	uint64_t invalid_packets;          /* of backends, that belong to no connection */
	uint64_t invalid_bytes;
};

/* Which counter of a frontend: packets that asked for a connection, and those of them refused. */
enum plane_frontend_counter {
	PLANE_FRONTEND_ASKED = 0,
	PLANE_FRONTEND_REFUSED,
};

/* A backend where it stands. */
struct plane_slot {
	struct ip_addr addr;
	uint32_t pool_id;
	uint32_t slot;
	uint16_t port;
	uint16_t aff_id;
};

/*
 * Of a frontend, since it is there; of a backend, since it stands in its slot; of both,
 * since the kernel's rules were made. A backend that stands elsewhere by now is not known.
 */
struct plane_count {
	bool is_known;
	uint64_t packets; /* each asked for a connection */
};

enum plane_check {
	PLANE_CHECK_QUIET = 0,
	/* Something changed, our tables stand: call env(), then audit the services. */
	PLANE_CHECK_DOUBT = 1,
	/* Our tables are gone or others: load again. */
	PLANE_CHECK_LOST = 2,
};

/* A backend on its way out: no new connections, until its old ones are over. For people. */
struct plane_leaving {
	struct ip_addr addr;
	uint16_t port;
	uint8_t proto;     /* enum l4proto; 0 = unknown */
	bool is_looked_at; /* since it leaves: how many connections it has is known */
	uint32_t active;   /* connections, as of the last look */
	uint32_t inactive; /* closed ones that are not yet forgotten */
	bool has_deadline; /* else it drains until its connections have ended */
	uint64_t age_s;    /* since it began to drain */
	uint64_t left_s;   /* to its deadline */
};

struct plane_drains {
	uint64_t n_leaving; /* backends on their way out now */
	uint64_t n_drained; /* of this process, ended: without a connection left ... */
	uint64_t n_expired; /* ... or because their time was up */
};

struct plane_ops {
	const char *name; /* "nftables", "ipvs" */
	struct plan_traits traits;

	/*
	 * Read what the kernel holds, in steps of about 10 ms: 1 until it is read; no other
	 * operation is used meanwhile but those that tell. 0: enters the loaded phase (a second
	 * load starts it anew). Nothing is written. -EAGAIN: foreign changes kept interrupting,
	 * try again; -EPERM, -EOPNOTSUPP: `err` names what is missing.
	 */
	int (*load)(struct plane *p, struct err *err);
	/*
	 * Loaded phase only: give the pools in `rows` (fresh from plan_rows_build, ids 0)
	 * the ids, slot orders and local ids the kernel holds for their frontends, as far
	 * as they fit, each id at most once. Never fails: what cannot be recalled is new.
	 */
	void (*recall)(struct plane *p, struct plan *plan, struct plan_rows *rows);
	/*
	 * Make everything that depends on model.env and not on a service true (rules of
	 * the detector, pod and service CIDRs). Cheap when nothing changed. In the loaded
	 * phase it also creates or repairs the fixed layout, so it is called first.
	 */
	int (*env)(struct plane *p, const struct model *m, struct plane_result *res,
		   struct err *err);
	/*
	 * Perform operations, all or (nft) nothing. Returns 0, or
	 *   -ESTALE        the kernel holds something else than believed: nothing was
	 *                  applied; repeat with PLANE_COMMIT_VERIFY
	 *   -EBUSY         outcome unknown (a lost answer): load again
	 *   -ENOTRECOVERABLE  our tables are gone or foreign: load again
	 *   -EPERM         the plane lacks what every service needs (see faults): load again
	 *   other -errno   refused, nothing was applied; `err` says why, res->culprit whom
	 */
	int (*commit)(struct plane *p, const struct plan_op *ops, size_t n,
		      enum plane_commit_mode mode, struct plane_result *res, struct err *err);
	/* End of the loaded phase: remove what nobody asked for. Errors as commit. */
	int (*sweep)(struct plane *p, struct plane_result *res, struct err *err);
	/* Loaded phase: number of frontends that sweep() would remove. */
	size_t (*unwanted)(const struct plane *p);
	/* Loaded phase: does the kernel lead the frontend with the key of `f` to a pool? */
	bool (*leads)(const struct plane *p, const struct plan_frontend *f);
	/*
	 * A few times a second, microseconds: has somebody else changed the ruleset
	 * since our last transaction? enum plane_check, or -errno. When somebody has,
	 * plane.changed_by says who, and for PLANE_CHECK_LOST `err` says what became of us.
	 */
	int (*check)(struct plane *p, struct err *err);
	/*
	 * After check() said PLANE_CHECK_DOUBT, until the next one: may what was changed
	 * belong to these rows? They are worth the first look. May be NULL.
	 */
	bool (*touched)(const struct plane *p, const struct plan_rows *rows);
	/*
	 * Work that waits for time (lingering elements); returns when it wants to be
	 * called again, in now_ns() terms, 0 = not at all. May be NULL.
	 */
	uint64_t (*tick)(struct plane *p, uint64_t now);
	/*
	 * What was counted, read from the kernel: drops in 0.2 ms, the others in 3 us an
	 * item. All three may be NULL: nothing is counted. -EAGAIN while nothing is in force.
	 */
	int (*drops)(const struct plane *p, struct plane_drops *ret, struct err *err);
	int (*count_frontends)(const struct plane *p, enum plane_frontend_counter which,
			       const struct plan_frontend *v, size_t n, struct plane_count *ret,
			       struct err *err);
	int (*count_slots)(const struct plane *p, const struct plane_slot *v, size_t n,
			   struct plane_count *ret, struct err *err);
	/* Backends of `svc` that are leaving. May be NULL: they leave at once. */
	void (*leaving)(const struct plane *p, const struct svc *svc,
			void (*fn)(void *arg, const struct plane_leaving *l), void *arg);
	/* All of them, in numbers. NULL where `leaving` is. */
	void (*drains)(const struct plane *p, struct plane_drains *ret);
	/*
	 * How connections are dealt to a pool of rows that were accepted (explain/dealing.h), as
	 * the kernel acknowledged it; what is not known stays as it is. Both may be NULL: evenly.
	 */
	void (*dealing)(const struct plane *p, const struct plan_pool *pool, bool is_inside,
			struct plan_dealing *ret);
	uint32_t (*weight)(const struct plane *p, const struct plan_pool *pool,
			   const struct plan_backend *b);
	/* Append what `svc` asks of the plane and does not get. May be NULL. */
	void (*remark)(const struct plane *p, const struct svc *svc, struct str *ret);
	/*
	 * Another plane serves now. What an earlier process left of this one is removed, but
	 * not what connections that stand still need: those come first to an end. Called
	 * again at *again (now_ns() terms) until that is 0: nothing is left. No other
	 * operation but close is used then.
	 */
	int (*retire)(struct plane *p, const struct model *m, uint64_t now, uint64_t *again,
		      struct err *err);
	/*
	 * For --init-only, without load(): set what needs a writable /proc/sys, so that a process
	 * with CAP_NET_ADMIN alone finds it set. An error names what cannot be set and is
	 * required. May be NULL: nothing is needed.
	 */
	int (*prepare)(struct plane *p, struct err *err);
	/* Remove everything of ours from the kernel (--cleanup). */
	int (*cleanup)(struct plane *p, struct err *err);
	void (*close)(struct plane *p);
};

/*
 * What this node lacks for the plane, and what another process does to its surroundings. A kind has
 * one fault at a time.
 */
enum plane_fault_kind {
	PLANE_FAULT_SCHEDULER = 0, /* the kernel has no module for it */
	PLANE_FAULT_SYSCTL,        /* cannot be set */
	PLANE_FAULT_ROUTING,       /* foreign policy routing */
	PLANE_FAULT_FAMILY,        /* IPv4 failed; one kind for each family, struct plane_family */
	PLANE_FAULT_FAMILY_LAST = PLANE_FAULT_FAMILY + IPFAM_N - 1,
	PLANE_FAULT_N,
};

struct plane_fault {
	bool is_unready; /* services are not served as they should be: /healthz is 503 */
	char text[256];  /* "" = none */
};

/*
 * An address family that failed is left out of every operation, and the caller leaves it out of
 * rows and operations: what the kernel holds of it stays. The caller retries by clearing
 * is_failed before a load. Planes whose families cannot fail one by one never set it.
 */
struct plane_family {
	bool is_failed;
	uint32_t failures;     /* without a long time in order between them */
	uint64_t since_ns;     /* of the first of them; 0 = in order */
	uint64_t retry_ns;     /* not before; 0 = plane_families_retry() sets it */
	uint64_t recovered_ns; /* 0 = never */
	uint32_t n_lost;       /* losses of the family's table within LOST_WINDOW_NS */
	uint64_t lost_ns;      /* the first of these */
	uint32_t n_again;      /* loads in a row that foreign changes interrupted */
};

/* Every plane embeds this first. */
struct plane {
	const struct plane_ops *ops;
	/*
	 * Told of each frontend that sweep() is about to remove: the kernel held it, of an
	 * earlier life, and nobody has asked for it. May be told twice. May be NULL.
	 */
	void (*gone)(void *arg, const struct ip_addr *addr, uint16_t port, uint8_t proto);
	void *gone_arg;
	/*
	 * Loaded phase: every known service was committed, and sweep() has to wait for objects
	 * that could not be read yet. Work that waits for time goes on. Set by the caller.
	 */
	bool is_sweep_pending;
	/* Whom the last check() that found a change found it of: "nft (pid 4711)", for people. */
	char changed_by[64];
	/* A flush of the ruleset by others would not be noticed by established connections. */
	bool is_flush_safe;
	struct nl_times times;
	struct plane_fault faults[PLANE_FAULT_N];
	struct plane_family family[IPFAM_N];
};

/*
 * `fam` failed with `code` and `err`: leave it out until its next attempt. Returns `code`, and
 * changes nothing, if no other family is left: then the plane as a whole failed, and the next
 * attempt includes all families. Otherwise 0.
 */
int plane_family_fail(struct plane *p, enum ipfam fam, int code, const struct err *err);
/* The table of `fam` is gone. Like plane_family_fail(), if that happens again and again. */
int plane_family_lost(struct plane *p, enum ipfam fam);
/* Families that failed, as bits. */
uint8_t plane_families_failed(const struct plane *p);
/* It did, and has not recovered, even if an attempt is under way. `p` may be NULL. */
bool plane_family_has_failed(const struct plane *p, enum ipfam fam);
/* End of a load: families that had failed and were included have recovered. */
void plane_families_settled(struct plane *p);
/*
 * Include failed families whose time has come in the next load; `is_due` says whether there are
 * any. Returns when the next one's time comes, 0 = none.
 */
uint64_t plane_families_retry(struct plane *p, uint64_t now, bool *is_due);

/* Both return true when that is news, for the log. */
bool plane_fault_set(struct plane *p, enum plane_fault_kind kind, bool is_unready,
		     const char *text);
bool plane_fault_clear(struct plane *p, enum plane_fault_kind kind);
/* Why the plane is not ready; NULL when it is. `p` may be NULL. */
const char *plane_unready(const struct plane *p);

/* load() to its end, for callers without an event loop. */
static inline int plane_load_all(struct plane *p, struct err *err)
{
	int r;

	do
		r = p->ops->load(p, err);
	while (r > 0);
	return r;
}

static inline void plane_dealing(const void *plane, const struct plan_rows *rows,
				 const struct plan_pool *pool, bool is_inside,
				 struct plan_dealing *ret)
{
	const struct plane *p = plane;

	(void)rows;
	if (p->ops->dealing != NULL)
		p->ops->dealing(p, pool, is_inside, ret);
}

static inline uint32_t plane_weight(const void *plane, const struct plan_rows *rows,
				    const struct plan_pool *pool, const struct plan_backend *b)
{
	const struct plane *p = plane;

	(void)rows;
	return p->ops->weight != NULL ? p->ops->weight(p, pool, b) : 1;
}

/* The plane as one who knows (explain/text.h). */
static inline struct plan_dealer plane_dealer(const struct plane *p)
{
	return (struct plan_dealer){ plane_dealing, plane_weight, p };
}
