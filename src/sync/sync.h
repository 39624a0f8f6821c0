/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync - program dirty services of the model into the kernel, in transactions.
 *
 * Level-triggered: a service stays dirty until the kernel acknowledged it. A service that
 * the kernel rejects is isolated, logged by name and retried alone with backoff; the other
 * services continue. Nothing is written before all sources are synced and the plane is
 * loaded. Each step does one transaction, so that the event loop stays responsive.
 *
 * The caller owns the timer: sync_step() returns the time of its next call.
 */
#pragma once

#include "plan/plan.h"
#include "plane/plane.h"

#define SYNC_NOW UINT64_C(0)
#define SYNC_NEVER UINT64_MAX

enum sync_state {
	SYNC_WAITING = 0, /* for all sources to be synced */
	SYNC_LOADING,     /* the kernel state has to be read */
	SYNC_ADOPTING,    /* loaded: every service is compared */
	SYNC_RUNNING,
};

/* A service that the kernel rejected. */
struct sync_failure {
	struct hnode node;
	const struct name *ns;
	const struct name *name;
	char text[256];
	int code; /* -errno of the plane; -EEXIST: a foreign object occupies the service's key */
	uint32_t attempts;
	uint64_t since_ns;
	uint64_t retry_ns; /* earliest next attempt */
	/*
	 * Number of the load whose sweep spares the service's kernel objects, because the service
	 * was rejected before that sweep; 0: none. Only a loaded plane knows those objects: the
	 * next attempt follows the next load.
	 */
	uint32_t spared_load;
};

struct sync_stats {
	uint64_t steps;    /* transactions tried */
	uint64_t services; /* services programmed */
	uint64_t writes;   /* kernel operations acknowledged */
	uint64_t batches;
	uint64_t kernel_ns; /* time spent in batches */
	uint64_t rejected;
	uint64_t loads;             /* full reads: adoptions, and loads after a failure */
	uint64_t audits;            /* passes over all services */
	uint64_t checks;            /* checks for foreign changes */
	uint64_t claims_searched;   /* dirty services looked at to find those without claims */
	uint64_t foreign_changes;   /* those that leave vipd's tables in place */
	uint64_t repairs;           /* writes of audits; of loads, of node-wide rules and by the
				       plane itself after a foreign change */
	uint64_t reloaded;          /* writes of other loads after the first adoption */
	uint64_t first_sync_ns;     /* how long the first adoption took; 0 = not yet */
	uint64_t failures;          /* transactions, loads and node-wide changes that failed */
	uint64_t sweep_failures;    /* failures that were sweeps of undesired objects */
	uint64_t last_load_took_ns; /* duration of the last load, to the end of its sweep */
	uint64_t last_ok_ns;        /* now_ns() of the last step that left nothing pending */
	uint64_t last_success_ns; /* now_ns() of the last successful commit, env(), sweep, audit */
	struct hist event_to_ack; /* arrival of the oldest event of a service to the kernel's ack */
	struct hist step_time;
	/* The last transaction step, for the metrics. */
	uint64_t last_step_ns; /* its end; 0 = none yet */
	uint64_t last_step_took_ns;
	/* The last sync: all transactions from the first change to an empty queue, or a load. */
	uint64_t last_sync_ns; /* its end; 0 = none yet */
	uint64_t last_sync_took_ns;
	uint64_t last_sync_writes;
	uint64_t last_sync_services;
	char last_error[ERR_TEXT_MAX];
	uint64_t last_error_ns;
};

struct sync_config {
	/*
	 * Shortest time from the end of a sync to the start of the next, 0 = none. A sync is
	 * all transactions that empty the dirty queue. Limits SYNC_RUNNING only: adoption,
	 * audit and repair do not wait.
	 */
	uint64_t min_period_ns;
	/*
	 * 0 = never. An audit compares every service with the kernel, a few in a step, and
	 * repairs. Takes at most a fifth of the loop's time, and at most half of the loop's time
	 * after a foreign change. A change waits for one step of it (at most about 10 ms).
	 */
	uint64_t audit_period_ns;
	uint64_t check_period_ns; /* between checks of the generation id; 0 = never */
	size_t piece_ops;         /* operations in a piece of a large service; 0 = default */
	size_t batch_ops; /* operations in a transaction, cut between services; 0 = default */
	/*
	 * The kernel acknowledged `new` in place of `old` for `svc`; NULL = no rows. Called
	 * before `old` is freed. `is_whole`: `new` is the desired state of the current model;
	 * otherwise an intermediate state, whose frontends may be of an earlier Service object.
	 * May be NULL. Must not change the model.
	 */
	void (*accepted)(void *arg, const struct svc *svc, const struct plan_rows *old,
			 const struct plan_rows *new, bool is_whole);
	/* The kernel rejected `svc` because of `text`. May be NULL; must not change the model. */
	void (*rejected)(void *arg, const struct svc *svc, const char *text);
	void *accepted_arg; /* of both functions */
};

struct sync;

void sync_open(struct sync **ret, struct model *m, struct plan *p, struct plane *plane,
	       const struct sync_config *config);
void sync_close(struct sync *s);

/* All sources are synced; sync_step() does nothing before this call. */
void sync_sources_ready(struct sync *s);
/*
 * A source has objects that it could not read yet. From the next load on, adoption ends
 * without its sweep: kernel state without a Kubernetes object stays, and so do frontends
 * with endpoints whose service has none in the model. Everything else is programmed, and
 * changes continue. With neither such frontends nor services there is nothing to keep: the
 * sweep is not pending. Call it before sync_sources_ready().
 */
void sync_sweep_hold(struct sync *s);
/* The sources have read all objects: load, compare and sweep. */
void sync_sweep_release(struct sync *s);
/* Did an adoption end without its sweep? It is on hold, or for the reason SYNC_UNSTEADY. */
bool sync_is_sweep_pending(const struct sync *s);
#define SYNC_UNSTEADY "a large service is replaced faster than it is compared with the kernel"
/* Number of frontends that the pending sweep would remove; searches all frontends. */
size_t sync_orphaned_count(const struct sync *s);
/*
 * Do at most one transaction. Returns when to call again: SYNC_NOW (work is left),
 * a now_ns() time, or SYNC_NEVER (not before the next change).
 */
uint64_t sync_step(struct sync *s, uint64_t now);
/*
 * Another process may have changed the ruleset: check in the next step instead of at the
 * end of check_period_ns, unless a check has just found a foreign change. stats.checks
 * counts completed checks.
 */
void sync_check(struct sync *s, uint64_t now);

enum sync_state sync_state_get(const struct sync *s);
/*
 * Begin of the pending state: arrival of the oldest change that is not in the kernel, or
 * the time since which the kernel cannot be read or written at all. 0 = nothing is pending,
 * or sources are not synced (SYNC_WAITING). Rejected services count only if they are half of all
 * services and the kernel has accepted no change since: its state is then the cause, and not their
 * specs.
 */
uint64_t sync_pending_since(const struct sync *s);
const struct sync_stats *sync_stats_get(const struct sync *s);
/* NULL when the service is not rejected. */
struct sync_failure *sync_failure_find(const struct sync *s, const struct svc *svc);
size_t sync_failure_count(const struct sync *s);
/* Services with changes that are not in the kernel, rejected ones included. */
size_t sync_pending_count(const struct sync *s);
/* Failures because a foreign object occupies the service's key in the kernel. */
size_t sync_occupied_count(const struct sync *s);
/* All failures, sorted by name; caller frees the array. */
const struct sync_failure **sync_failures(const struct sync *s, size_t *n);
