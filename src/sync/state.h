/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/state - what the parts of the sync share: sync, transaction, failure.
 */
#pragma once

#include "plan/pieces.h"
#include "sync/sync.h"

#define SYNC_RETRY_MIN_NS (100 * NSEC_PER_MSEC)
#define SYNC_RETRY_MAX_NS (30 * NSEC_PER_SEC)

/* One service of the transaction in the making. */
struct sync_item {
	struct svc *svc;
	struct plan_rows *rows; /* wanted; NULL = nothing */
	size_t ops_begin;
	size_t ops_end;
	bool is_glued; /* belongs together with the item before it */
	bool is_settled;
};

enum sync_large_phase {
	SYNC_LARGE_BUILD = 0,
	SYNC_LARGE_RECALL,
	SYNC_LARGE_PIECES,
};

struct sync {
	struct model *model;
	struct plan *plan;
	struct plane *plane;
	struct sync_config config;
	struct sync_stats stats;
	enum sync_state state;
	bool is_load_wanted;
	bool is_load_begun; /* and not all is read */
	bool is_env_owed;
	/* Of the sync under way, when it began: for stats.last_sync_*. */
	uint64_t sync_begin_ns;
	uint64_t sync_writes;
	uint64_t sync_services;
	bool is_sweep_held;    /* sync_sweep_hold() */
	bool is_sweep_pending; /* RUNNING, and the plane is in its loaded phase */
	struct {
		bool is_wanted;
		size_t left; /* services of the pass under way */
		const struct svc
			*part_of; /* large service at the head of model.all; compared only */
		size_t part;      /* its operations before this one are compared */
		uint64_t writes;
		uint64_t begin_ns;
		uint64_t worked_ns; /* of the pass, without its rests */
		uint64_t next_ns;   /* next step, or the earliest begin of the next pass */
	} audit;
	/* What somebody else did, from the look that found it until all is compared and told. */
	struct {
		uint64_t begin_ns; /* 0: nothing */
		uint64_t repaired_ns;
		uint64_t writes;
		char who[sizeof(((struct plane *)0)->changed_by)];
	} incident;
	/* Services at the head of model.all that it may have been about: they are compared first.
	 */
	struct {
		bool is_due; /* something was found; the rest of `incident` is not yet told */
		size_t left;
		uint64_t next_ns;
	} touched;
	uint32_t load_no;
	uint32_t load_failures; /* in a row, without a complete adoption between them */
	uint64_t load_told_ns;  /* when the log last had it, and what it was */
	char load_told[ERR_TEXT_MAX];
	uint64_t load_writes; /* stats.writes when the load began */
	uint64_t load_begin_ns;
	uint64_t behind_since_ns; /* not RUNNING since then; 0 = RUNNING, or WAITING */
	uint64_t env_failed_ns;   /* when node-wide rules were first refused; 0 = they were not */
	uint64_t not_before_ns;   /* backoff of a failed load or of failed node-wide rules */
	bool is_draining;         /* a sync has begun: dirty services are left of it */
	uint64_t next_sync_ns;    /* earliest start of the next sync: config.min_period_ns */
	uint64_t next_check_ns;
	uint64_t look_after_ns; /* the earliest that sync_look() may ask for */
	uint64_t next_audit_ns;
	uint64_t next_tick_ns;
	uint64_t env_done;
	uint32_t env_failures;
	struct htable failures;
	uint64_t next_retry_ns; /* the earliest of them */
	VEC(struct sync_item) items;
	struct plan_ops ops;
	struct plan_displaced displaced;
	/* The service that is brought up to date in pieces; it stays in model.dirty. */
	struct {
		struct svc *svc; /* NULL: none */
		uint32_t service_no;
		enum sync_large_phase phase;
		bool is_turn;           /* after a transaction of others */
		bool is_built;          /* all ports; the goal is made in the next step */
		struct build *build;    /* BUILD */
		struct plan_rows *goal; /* from then on; NULL: nothing is wanted */
		size_t recalled;        /* pools */
		struct plan_pieces pieces;
		const struct svc *whole; /* large, and yet to be done in one; compared only */
	} large;
	uint32_t family_refusals[IPFAM_N]; /* in a row, without a commit that the kernel took */
};

/*
 * A service that was not yet accepted since the kernel was read counts as holding
 * nothing; also later, when it was refused then: the plane has not counted its rows.
 */
static inline bool sync_is_adopted(const struct sync *s, const struct svc *svc)
{
	return svc->adopted_load == s->load_no;
}

/* Does the plane hold a copy of the kernel's state, so that it can recall and compare? */
static inline bool sync_is_plane_loaded(const struct sync *s)
{
	return s->state == SYNC_ADOPTING || s->is_sweep_pending;
}

/* --- transaction.c --- */

/*
 * Take dirty services and bring the kernel up to date with them: accepted, or
 * refused one by one. A negative errno: the outcome is unknown or our tables are
 * gone; what was not decided is dirty again.
 */
MUST_USE int sync_transaction(struct sync *s, uint64_t now);

/* A plane transaction, repeated in verify mode if the kernel holds something else. */
MUST_USE int sync_commit_ops(struct sync *s, const struct plan_op *ops, size_t n,
			     struct plane_result *res, struct err *err);
/* Bring `svc` to `rows`, which are settled: as sync_transaction(). */
MUST_USE int sync_commit_rows(struct sync *s, struct svc *svc, struct plan_rows *rows, uint64_t now,
			      struct err *err);
/* Drop frontends that a source which is not complete may not know enough of. */
void sync_rows_explain(struct sync *s, struct plan_rows *rows);
/* Are the numbers of rows to be recalled from the kernel? */
bool sync_is_recalled(const struct sync *s);

/* --- large.c --- */

/* Is `svc` to be brought up to date in pieces? */
bool sync_is_large(const struct sync *s, const struct svc *svc);
void sync_large_begin(struct sync *s, struct svc *svc);
/* Drop what was planned; what the kernel took stays. The service stays dirty. */
void sync_large_forget(struct sync *s);
/* A piece of work. Errors as sync_transaction(). */
MUST_USE int sync_large_step(struct sync *s, uint64_t now, struct err *err);

/* --- failure.c --- */

/*
 * What the plane refused names one address family: has the family failed as a whole? Then it
 * is left out from now on.
 */
bool sync_family_failed(struct sync *s, int r, const struct plane_result *res,
			const struct err *err);
/* The kernel took `n` operations. */
void sync_family_ok(struct sync *s, const struct plan_op *ops, size_t n);

/* How long to wait after that many failures in a row: doubling from SYNC_RETRY_MIN_NS. */
uint64_t sync_backoff(uint32_t attempts, uint64_t max);
/* NULL when `svc` is not refused. */
struct sync_failure *sync_failure_get(const struct sync *s, const struct svc *svc);
void sync_failure_note(struct sync *s, struct svc *svc, int code, const struct err *err,
		       uint64_t now);
/* `svc` was accepted: forget that it ever was refused. */
void sync_failure_clear(struct sync *s, const struct svc *svc);
/* Owe a sync to those whose time has come; returns when the next one's comes. */
uint64_t sync_failures_requeue(struct sync *s, uint64_t now);
void sync_failures_fini(struct sync *s);

/* --- sync.c --- */

void sync_hist_add(struct sync_hist *h, uint64_t ns);
void sync_error_note(struct sync *s, const struct err *err, uint64_t now);
void sync_result_note(struct sync *s, const struct plane_result *res);
