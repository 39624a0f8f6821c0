/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane - programs frontends, pools and backends into the kernel.
 *
 * One struct of functions: the sync, the tests and the tools use the nft and the ipvs plane alike.
 * Life of a plane:
 *
 *     load -> env -> (adopt, commit)* -> sweep  adoption, audit: the "loaded" phase
 *     env, commit, check ...                    normal operation
 *     load -> env -> commit* -> sweep           the next audit, or after -ENOTRECOVERABLE
 *
 * In the loaded phase, between load and sweep, the plane has a copy of the kernel state. The first
 * commit of each service then contains the operations from nothing to the desired rows; the plane
 * sends only what the kernel lacks, and notes what is desired. If the service changes again before
 * the sweep, the usual difference follows (with *_DEL of rows committed before). Operations of a
 * rejected commit count as desired. sweep() removes all state that is provably vipd's own and not
 * desired. If nothing changed, nothing is written.
 *
 * Threads: none. Each call may block for one kernel transaction (bounded by the size of the batch),
 * never for the network.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "explain/balancing.h"
#include "nft/write.h"
#include "nl/batch.h"
#include "plan/plan.h"

struct endpoint_answer; /* model/eject.h */
struct plane;

/* Result of a commit. */
struct plane_result {
	/* After a rejection: families of the element, chain or table at fault, as bits. */
	uint8_t families;
	/* After a rejection: the service at fault; NULL: unknown, the caller splits the
	 * transaction. */
	struct svc *culprit;
	struct nft_result done; /* operations, kernel transactions, and the time spent in them */
};

/* Of a piece of a large service: operations, about 10 ms. */
#define PLANE_PIECE_WORK 1500

enum plane_commit_mode {
	PLANE_COMMIT_NORMAL = 0,
	/* After -ESTALE: read the elements by key first, and send only the difference. */
	PLANE_COMMIT_VERIFY,
	/*
	 * The operations lead from nothing to rows that were acknowledged before: read their
	 * elements by key, and send what the kernel lacks or has otherwise.
	 */
	PLANE_COMMIT_AUDIT,
};

/* What the kernel counts; each level costs more (doc/design/0010-counters.md). */
enum plane_counting {
	PLANE_COUNT_NONE = 0,
	PLANE_COUNT_SERVICES,  /* per frontend */
	PLANE_COUNT_ENDPOINTS, /* and per backend of a pool */
};

/*
 * Packets that rules count. The first PLANE_REJECT_N: why a first packet gets no connection; each
 * retransmission counts again.
 */
enum plane_rule_counter {
	PLANE_REJECT_NO_ENDPOINTS = 0,   /* REJ-01 */
	PLANE_REJECT_NO_LOCAL_ENDPOINTS, /* REJ-02, REJ-03 */
	PLANE_REJECT_SOURCE_RANGES,      /* REJ-10 */
	PLANE_REJECT_UNKNOWN_PORT,    /* of a cluster IP (REJ-05); of another address, back to its
					 router (REJ-17) */
	PLANE_REJECT_UNKNOWN_ADDRESS, /* of a service CIDR, REJ-06 */
	PLANE_REJECT_N,
	PLANE_INVALID_DROPPED = PLANE_REJECT_N, /* of backends, in conntrack's state INVALID */
	/* First packets balanced without affinity: the affinity map had no room (SVC-31). */
	PLANE_AFFINITY_FULL,
	PLANE_RULE_COUNTERS_N,
};

/* Since the rules were made: counters can restart at 0. */
struct plane_rule_counts {
	uint64_t packets[PLANE_RULE_COUNTERS_N];
	uint64_t twice;         /* of PLANE_REJECT_NO_ENDPOINTS: also counted by their own reason */
	uint64_t invalid_bytes; /* of PLANE_INVALID_DROPPED */
};

/* All count first packets of connections. */
enum plane_counter {
	PLANE_COUNTER_CONNECTIONS = 0, /* of a frontend */
	PLANE_COUNTER_REJECTED,        /* of a frontend: those that were rejected or dropped */
	PLANE_COUNTER_BACKEND,         /* of a backend at its place in a pool */
	PLANE_COUNTER_N,
};

/* Object of a counter: a frontend (`at` alone), or a backend at its place in a pool. */
struct plane_counted {
	struct ip_tuple at;
	uint32_t pool_id;
	uint32_t slot;
	uint16_t aff_id;
};

static inline struct plane_counted plane_counted_slot(const struct plan_pool *pool, size_t i)
{
	const struct plan_backend *b = plan_pool_counter(pool, i);

	return (struct plane_counted){
		{ b->addr, b->port, pool->proto, 0 }, pool->id, (uint32_t)i, b->aff_id
	};
}

/*
 * A counter since the frontend, or the backend in its slot, was added, and since the rules were
 * made. Unknown for a backend that has another slot now.
 */
struct plane_count {
	bool is_known;
	uint64_t packets; /* first packets of connections */
};

enum plane_check {
	PLANE_CHECK_QUIET = 0,
	/* A foreign change, vipd's tables exist: call env(), then audit the services. */
	PLANE_CHECK_CHANGED = 1,
	/* vipd's tables are gone or were replaced: load again. */
	PLANE_CHECK_LOST = 2,
};

/* A backend that gets no new connections and finishes its old ones. For people. */
struct plane_draining {
	struct ip_addr addr;
	uint16_t port;
	uint8_t proto;     /* enum l4proto; 0 = unknown */
	bool is_counted;   /* `active` and `inactive` are known */
	uint32_t active;   /* connections, at the last check */
	uint32_t inactive; /* closed connections that IPVS still has */
	bool has_deadline; /* else it drains until no connection is left */
	uint64_t age_s;    /* since the drain began */
	uint64_t left_s;   /* to the deadline */
};

struct plane_drains {
	uint64_t n_draining;  /* backends now */
	uint64_t n_drained;   /* by this process: ended without connections left ... */
	uint64_t n_timed_out; /* ... or at the drain timeout */
};

/*
 * A SYN, or the first datagram of a flow, that was sent to a backend: without an answer yet, or
 * with that of `by`. May be another program's.
 */
struct plane_handshake {
	struct ip_flow flow;   /* of a client to a frontend */
	uint64_t age_ns;       /* since the last packet that made a flow, or since the answer */
	struct ip_endpoint by; /* backend of an answer: a reset, or a reply to a flow of UDP */
};
typedef void plane_handshake_fn(void *arg, const struct plane_handshake *h);

/* Lists of handshakes. */
enum plane_handshakes {
	PLANE_HANDSHAKES_SILENT = 0, /* without an answer yet */
	PLANE_HANDSHAKES_MOVED,      /* to `by`; the move ends at the age of PLANE_MOVE_MAX_S */
	PLANE_HANDSHAKES_REFUSED, /* by `by`, with --failover=eject; may be listed several times */
	PLANE_UDP_REPLIES,        /* not flows: backends that replied to one in the last 10 s */
};

#define PLANE_MOVE_MAX_S 35 /* Linux repeats its last SYN 32 s after the one before */
/* A handshake that gets another backend of the pool. */
struct plane_move {
	struct ip_flow of;
	const struct plan_pool *pool;
	struct plan_backend from; /* aff_id 0: unknown, or without affinity */
	struct plan_backend to;
	uint32_t life_s; /* of the move: the client's next packet must come within this time */
	bool is_void;    /* move_end(): the flow was not deleted and stays */
};

struct plane_ops {
	const char *name; /* "nftables", "ipvs" */
	struct plan_traits traits;

	/*
	 * Read the kernel state in steps of about 10 ms: returns 1 until all is read; meanwhile
	 * only read-only operations are allowed. 0: the loaded phase begins (again). Nothing is
	 * written. -EAGAIN: foreign changes interrupted each attempt, retry; -EPERM, -EOPNOTSUPP:
	 * `err` names what is missing.
	 */
	int (*load)(struct plane *p, struct err *err);
	/*
	 * Loaded phase only: give the pools in `rows` (fresh from plan_rows_build, ids 0) the ids,
	 * slots and local ids that the kernel has for their frontends, as far as they fit, each id
	 * at most once; set n_found (plan/rows.h). Never fails: a pool without a match is new.
	 */
	void (*adopt)(struct plane *p, struct plan *plan, struct plan_rows *rows);
	/*
	 * Work of an operation on a backend of this pool, in operations on a small pool: a piece of
	 * a large service is at most PLANE_PIECE_WORK. May be NULL: always 1.
	 */
	plan_work_fn *backend_work;
	/*
	 * Program everything that depends on model.env and not on a service (pod detection, pod and
	 * service CIDRs). Called when model.env has changed, after PLANE_CHECK_CHANGED, and first
	 * in the loaded phase, where it also creates or repairs the fixed layout.
	 */
	int (*env)(struct plane *p, const struct model *m, struct plane_result *res,
		   struct err *err);
	/*
	 * Commit operations: all of them or, on the nftables plane, none. On the ipvs plane,
	 * hairpins of rejected operations may have been in force for some milliseconds. Returns:
	 *   0                 acknowledged
	 *   -ESTALE           the kernel state differs from the acknowledged one; nothing was
	 *                     applied; repeat with PLANE_COMMIT_VERIFY
	 *   -EINPROGRESS      a large service in mode VERIFY, or many new chains: about 10 ms of
	 *                     the reading or writing are done, and none of the operations;
	 *                     repeat, NORMAL is enough
	 *   -EBUSY            outcome unknown (an answer was lost): load again
	 *   -ENOTRECOVERABLE  vipd's tables are gone or foreign: load again
	 *   -EPERM            the plane lacks what every service needs (see faults): load again
	 *   -ENOSPC           rejected, and the services are the cause: no pool ids are left
	 *   -EADDRNOTAVAIL    rejected, and the service is the cause: an address of an endpoint
	 *   -EEXIST           rejected: another process has a virtual service with its address
	 *   other -errno      rejected by the kernel, nothing was applied; see `err`, res->culprit
	 */
	int (*commit)(struct plane *p, const struct plan_op *ops, size_t n,
		      enum plane_commit_mode mode, struct plane_result *res, struct err *err);
	/*
	 * Before a large service is audited in parts: read the kernel state of its rows that cannot
	 * be read by key, in steps of about 10 ms. 1: more left. At the end it may reduce `*part`,
	 * the operations of a part. May be NULL.
	 */
	int (*audit_read)(struct plane *p, const struct plan_rows *rows, size_t *part,
			  struct err *err);
	/*
	 * End of the loaded phase: remove state that is not desired, in steps of about 10 ms. 1:
	 * more left; commits may come between. Errors as commit.
	 */
	int (*sweep)(struct plane *p, struct plane_result *res, struct err *err);
	/*
	 * While the sweep is pending: remove programmed frontends from replaced tables, which still
	 * serve orphaned frontends. May be NULL. Errors as commit.
	 */
	int (*supersede)(struct plane *p, struct plane_result *res, struct err *err);
	/* Loaded phase: number of frontends that sweep() would remove. */
	size_t (*orphaned)(const struct plane *p);
	/*
	 * Loaded phase: is the frontend with the key of `f` one of these? For people. Reads
	 * replaced tables.
	 */
	bool (*is_orphaned)(const struct plane *p, const struct plan_frontend *f);
	/* Loaded phase: does the kernel lead the frontend with the key of `f` to a pool? */
	bool (*leads)(const struct plane *p, const struct plan_frontend *f);
	/*
	 * Called a few times a second, takes microseconds: did another process change the ruleset
	 * since the last transaction? Returns enum plane_check, or -errno. After a change,
	 * plane.changed_by names the process; for PLANE_CHECK_LOST `err` says what happened.
	 */
	int (*check)(struct plane *p, struct err *err);
	/*
	 * After PLANE_CHECK_CHANGED, until the next check: may the change concern these rows
	 * (NULL: any rows)? Such rows are audited first. True for NULL if notifications are
	 * missing. May be NULL.
	 */
	bool (*touched)(const struct plane *p, const struct plan_rows *rows);
	/*
	 * Delayed work (addresses kept for a grace period). Returns the time of the next call in
	 * now_ns() terms. 0: no work is known; the caller calls again after 60 s, or within 2 s of
	 * a load or commit. May be NULL.
	 */
	uint64_t (*tick)(struct plane *p, uint64_t now);
	/*
	 * Counters, read from the kernel: of rules in 0.2 ms for both families, others in 3 us
	 * each. -EAGAIN before the first transaction; of rules also while the family has failed.
	 */
	int (*rule_counts)(const struct plane *p, enum ipfam fam, struct plane_rule_counts *ret,
			   struct err *err);
	int (*count)(const struct plane *p, enum plane_counter which, const struct plane_counted *v,
		     size_t n, struct plane_count *ret, struct err *err);
	/* Draining backends of `svc`. May be NULL: backends are removed at once. */
	void (*draining)(const struct plane *p, const struct svc *svc,
			 void (*fn)(void *arg, const struct plane_draining *d), void *arg);
	/* Numbers of draining and drained backends. NULL if `draining` is. */
	void (*drains)(const struct plane *p, struct plane_drains *ret);
	/*
	 * How connections are balanced over a pool of acknowledged rows (explain/balancing.h);
	 * its context is the plane. May be NULL: as the pool says.
	 */
	plan_balancing_fn *balancing;
	/* Append settings of `svc` that the plane does not support. May be NULL. */
	void (*remark)(const struct plane *p, const struct svc *svc, struct str *ret);
	/*
	 * Failover of handshakes. Without move_begin() and move_end() they are listed, but cannot
	 * move. handshakes() calls `fn` for one of the lists; an error of one family, or of UDP,
	 * does not stop the others.
	 * move_begin() makes the next SYN of each flow go to `to` and drops answers of `from`;
	 * the caller then deletes the flows that still have no answer, and move_end() ends the
	 * claim. All of `v` or nothing. -EAGAIN: not now.
	 */
	int (*handshakes)(struct plane *p, enum plane_handshakes which, plane_handshake_fn *fn,
			  void *arg, struct err *err);
	int (*move_begin)(struct plane *p, const struct plane_move *v, size_t n, struct err *err);
	int (*move_end)(struct plane *p, const struct plane_move *v, size_t n, struct err *err);
	/* Is it a backend, or was it one for the last hour? May be NULL: unknown. */
	bool (*is_backend)(struct plane *p, const struct ip_addr *addr, uint16_t port);
	/* Evidence for ejections: set the ages of `v`, all of one family. */
	int (*answers)(struct plane *p, struct endpoint_answer *v, size_t n, struct err *err);
	/*
	 * Another plane serves now: remove the state that an earlier process left of this one, but
	 * only after its connections have ended. Called again at *again (now_ns() terms) until that
	 * is 0: nothing is left. No other operation but close is used then.
	 */
	int (*retire)(struct plane *p, const struct model *m, uint64_t now, uint64_t *again,
		      struct err *err);
	/*
	 * For --init-only, without load(): set everything that needs a writable /proc/sys; then a
	 * process with CAP_NET_ADMIN alone can run. An error names a required setting that cannot
	 * be made. May be NULL: nothing to set.
	 */
	int (*prepare)(struct plane *p, struct err *err);
	/* Remove all of vipd's state from the kernel (--cleanup). */
	int (*cleanup)(struct plane *p, struct err *err);
	void (*close)(struct plane *p);
};

/* A setting or a feature that the plane requires and this node lacks. One fault of a kind at a
 * time. */
enum plane_fault_kind {
	PLANE_FAULT_SCHEDULER = 0, /* the kernel has no module for it */
	PLANE_FAULT_SYSCTL,        /* cannot be set */
	PLANE_FAULT_ROUTING,       /* foreign policy routing */
	PLANE_FAULT_FAMILY,        /* IPv4 failed; one kind for each family, struct plane_family */
	PLANE_FAULT_FAMILY_LAST = PLANE_FAULT_FAMILY + IPFAM_N - 1,
	PLANE_FAULT_FAILOVER, /* tables for failover cannot be made */
	PLANE_FAULT_MOVES,    /* handshakes cannot be moved */
	PLANE_FAULT_N,
};

struct plane_fault {
	bool is_unready; /* services are not served as they should be: /healthz is 503 */
	char text[256];  /* "" = none */
};

/*
 * An address family that failed is left out of every operation, and the caller leaves it out of
 * rows and operations: its kernel state stays. The caller retries by clearing is_failed before a
 * load.
 */
struct plane_family {
	bool is_failed;
	uint32_t failures;     /* in a row, until it has worked for FAMILY_FORGET_NS */
	uint64_t since_ns;     /* of the first of these; 0: not failed */
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
	 * Called for each frontend that sweep() is about to remove: an earlier process programmed
	 * it, and it is not desired. May be called twice for one. May be NULL.
	 */
	void (*gone)(void *arg, const struct ip_addr *addr, uint16_t port, uint8_t proto);
	void *gone_arg;
	/*
	 * Loaded phase: every known service is committed, except large ones that are replaced again
	 * and again. sweep() waits for these, and for objects that could not be read yet. tick()
	 * continues for tables without services. Set by the caller.
	 */
	bool is_sweep_pending;
	/* Operations by which check() and tick() repaired foreign changes; the caller clears it. */
	uint64_t n_repaired;
	bool is_load_wanted; /* by tick(); the caller clears it */
	/*
	 * By tick(); the caller clears it: classes are free again, of services whose pools got
	 * another affinity than they desire.
	 */
	bool is_replan_wanted;
	/* Set by the caller: rows have classes (plan_rows_number()) and are not programmed yet. */
	bool has_goal;
	bool is_tick_urgent; /* changes do not delay the next tick() */
	/* The process of the last foreign change: "nft (pid 4711)", for people. */
	char changed_by[64];
	/* Established connections survive a flush of the ruleset by another process. */
	bool is_flush_safe;
	struct nl_account batches; /* kernel transactions */
	struct plane_fault faults[PLANE_FAULT_N];
	struct plane_family family[IPFAM_N];
};

/*
 * `fam` failed with `code` and `err`: leave it out until its next attempt. Returns `code`, and
 * changes nothing, if no other family is left: then the plane as a whole failed, and the next
 * attempt includes all families. Otherwise 0.
 */
int plane_family_fail(struct plane *p, enum ipfam fam, int code, const struct err *err);
/*
 * The table of `fam` is gone. Returns -ENOTRECOVERABLE; after several losses in a short time it
 * fails the family like plane_family_fail().
 */
int plane_family_lost(struct plane *p, enum ipfam fam);
/* Families that failed, as bits. */
uint8_t plane_families_failed(const struct plane *p);
/* `fam` failed and has not recovered, even if an attempt is under way. `p` may be NULL. */
bool plane_family_has_failed(const struct plane *p, enum ipfam fam);
/* End of a load: families that had failed and were included have recovered. */
void plane_families_settled(struct plane *p);
/*
 * Include failed families whose time has come in the next load; `is_due` says whether there are
 * any. Returns when the next one's time comes, 0 = none.
 */
uint64_t plane_families_retry(struct plane *p, uint64_t now, bool *is_due);

/* Set or clear a fault. Return true if the fault changed: the caller logs it. */
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

/* The plane as a source for explain/text.h. */
static inline struct plan_balancer plane_balancer(const struct plane *p)
{
	return (struct plan_balancer){ p->ops->balancing, p };
}
