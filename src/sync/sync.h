/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync - brings the kernel to what the model says: dirty services in, transactions out.
 *
 * Level-triggered: a service stays dirty until the kernel took it. What the kernel
 * refuses is isolated, named, and tried again with backoff, alone; all others go
 * on. Nothing is written before every source has delivered its first complete
 * list and the plane was loaded. One transaction a step, so the loop stays responsive.
 *
 * The caller owns the timer: sync_step() says when it wants to be called again.
 */
#pragma once

#include "plan/plan.h"
#include "plane/plane.h"

#define SYNC_NOW UINT64_C(0)
#define SYNC_NEVER UINT64_MAX

enum sync_state {
	SYNC_WAITING = 0, /* for the first complete lists */
	SYNC_LOADING,     /* the kernel's state is to be read */
	SYNC_ADOPTING,    /* loaded phase: every service is compared */
	SYNC_RUNNING,
};

/* A service the kernel refused. */
struct sync_failure {
	struct hnode node;
	const struct name *ns;
	const struct name *name;
	char text[256];
	int code; /* -errno of the plane; -EEXIST: a foreign object has the service's place */
	uint32_t attempts;
	uint64_t since_ns;
	uint64_t retry_ns; /* not before */
	/*
	 * It was refused before the sweep, which so spared what the kernel had of it. Only
	 * a plane that has read the kernel knows what that is: so the next attempt is made
	 * after the kernel was read again.
	 */
	bool is_spared;
};

/* Log-linear latency histogram; values in ns. Never decreases. */
#define SYNC_HIST_BUCKETS 24
struct sync_hist {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t bucket[SYNC_HIST_BUCKETS]; /* i: values < 2^i us; the last: all others */
};

struct sync_stats {
	uint64_t steps;    /* transactions tried */
	uint64_t services; /* services brought up to date */
	uint64_t writes;   /* kernel operations acknowledged */
	uint64_t batches;
	uint64_t kernel_ns; /* time spent in them */
	uint64_t refused;
	uint64_t loads;             /* adoptions, and readings after trouble */
	uint64_t audits;            /* passes over all services */
	uint64_t looks;             /* for changes by somebody else */
	uint64_t doubts;            /* times somebody else changed the ruleset */
	uint64_t repairs;           /* writes made by audits after the first adoption */
	uint64_t first_sync_ns;     /* how long the first adoption took; 0 = not yet */
	uint64_t failures;          /* transactions, loads and node-wide changes that failed */
	uint64_t sweep_failures;    /* of them: removals of what nobody asked for */
	uint64_t last_load_took_ns; /* adoption or reading after trouble, to the end of its sweep */
	uint64_t last_ok_ns;        /* now_ns() of the last step that left nothing owed */
	uint64_t last_success_ns;   /* now_ns() of the last transaction or sweep the kernel took */
	struct sync_hist
		event_to_ack; /* arrival of the oldest event of a service to the kernel's ack */
	struct sync_hist step_time;
	/* The last step that had services to bring up to date, for people; ns 0 = none yet. */
	uint64_t last_step_ns; /* when it ended */
	uint64_t last_step_took_ns;
	uint64_t last_step_writes;
	uint64_t last_step_services;
	/* The last sync: all transactions from the first change to an empty queue, or a load. */
	uint64_t last_sync_ns; /* when it ended; 0 = none yet */
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
	uint64_t audit_period_ns; /* 0 = never */
	uint64_t check_period_ns; /* generation id look; 0 = never */
	size_t piece_ops;         /* operations of a piece of a large service; 0 = default */
	size_t batch_ops;         /* operations a transaction, cut between services; 0 = default */
	/*
	 * The kernel took `new` in place of `old` for `svc`, NULL is nothing. Called before
	 * `old` is freed. `is_whole`: `new` is what the service shall hold, as the model still
	 * says; otherwise a piece of the way there, whose frontends may be of an earlier
	 * Service object. May be NULL. Must not change the model.
	 */
	void (*accepted)(void *arg, const struct svc *svc, const struct plan_rows *old,
			 const struct plan_rows *new, bool is_whole);
	/* The kernel refused it; `text` says why. May be NULL. Must not change the model. */
	void (*refused)(void *arg, const struct svc *svc, const char *text);
	void *accepted_arg; /* of both */
};

struct sync;

void sync_open(struct sync **ret, struct model *m, struct plan *p, struct plane *plane,
	       const struct sync_config *config);
void sync_close(struct sync *s);
DEFINE_AUTO(struct sync *, sync_close);

/* Every source delivered its complete first list; before that sync_step() does nothing. */
void sync_sources_ready(struct sync *s);
/*
 * A source has objects that it could not read yet. From the next load on, adoption ends
 * without its sweep: kernel state that no object explains stays, and so do frontends that
 * lead to endpoints while their service is listed without any. Everything else is
 * programmed, and changes go on. Call it before sync_sources_ready().
 */
void sync_sweep_hold(struct sync *s);
/* All objects are known: the kernel is read again, compared and swept. */
void sync_sweep_release(struct sync *s);
/* Has an adoption ended without its sweep? `kept`: number of frontends the sweep would remove. */
bool sync_is_sweep_pending(const struct sync *s, size_t *kept);
/*
 * Do at most one transaction. Returns when to call again: SYNC_NOW (more is owed),
 * a now_ns() time, or SYNC_NEVER (until something changes).
 */
uint64_t sync_step(struct sync *s, uint64_t now);
/* Steps until nothing is due at `now`; for tests and benchmarks. Returns number of steps. */
size_t sync_settle(struct sync *s, uint64_t now);
/*
 * Compare every service with the kernel, a few at a time, and repair. A pass takes a
 * fifth of the loop's time at most and is never in the way of a change.
 */
void sync_audit(struct sync *s);
/*
 * Somebody may have changed the ruleset: look at the next step, instead of when the
 * next look is due, unless the last one has only just found something. stats.looks tells
 * when it was done.
 */
void sync_look(struct sync *s, uint64_t now);
/* Read the kernel as at the start, at the next step. */
void sync_reload(struct sync *s);

enum sync_state sync_state_get(const struct sync *s);
/*
 * Since when the kernel is behind: the oldest change it has not taken, or the moment
 * since which it can not be read or written as a whole. 0 = it is not behind, or nothing
 * can be known yet (SYNC_WAITING). A service that was refused stands aside and does not
 * count, unless half of all do: then it is not them.
 */
uint64_t sync_owed_since(const struct sync *s);
const struct sync_stats *sync_stats_get(const struct sync *s);
/* NULL when the service is not refused. */
const struct sync_failure *sync_failure_find(const struct sync *s, const struct svc *svc);
size_t sync_failure_count(const struct sync *s);
/* Of them: those whose place in the kernel a foreign object has. */
size_t sync_occupied_count(const struct sync *s);
/* All failures, sorted by name; caller frees the array. */
const struct sync_failure **sync_failures(const struct sync *s, size_t *n);
