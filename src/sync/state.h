/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sync/state - state shared by the files of this folder. */
#pragma once

#include "plan/pieces.h"
#include "sync/sync.h"

#define SYNC_RETRY_MIN_NS (100 * NSEC_PER_MSEC)
#define SYNC_RETRY_MAX_NS (30 * NSEC_PER_SEC)

/* One service of the transaction that is being collected. */
struct sync_item {
	struct svc *svc;
	struct plan_rows *rows; /* desired; NULL = nothing */
	size_t ops_begin;
	size_t ops_end;
	uint32_t group; /* items of one change together */
	uint32_t no;    /* in its group: one that gets a frontend comes before one that had it */
	bool is_whole;  /* `rows` are the desired state of the current model */
	bool is_piece;  /* `rows` are between programmed and desired ones: plan/pieces.h */
	bool is_settled;
};

enum sync_large_phase {
	SYNC_LARGE_BUILD = 0,
	SYNC_LARGE_SETTLE,
	SYNC_LARGE_DIVIDE,
	SYNC_LARGE_ADOPT, /* what the load found, and numbers */
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
	bool is_repair;     /* a foreign change caused the load */
	bool is_env_pending;
	/* Values of the current sync and of `stats` at its begin: for stats.last_sync_*. */
	uint64_t sync_begin_ns;
	uint64_t sync_writes;
	uint64_t sync_services;
	bool are_claims_made;  /* of all dirty services but those changed since ... */
	uint64_t claimed_no;   /* ... model.n_changed had this value */
	bool is_sweep_on_hold; /* sync_sweep_hold() */
	struct {
		bool is_wanted;
		bool has_failed;           /* a piece of the current pass */
		size_t left;               /* services left in the current pass */
		const struct svc *part_of; /* large, at the head of model.all; compared only */
		size_t part;               /* its operations before this index are compared */
		size_t part_ops;           /* of one part */
		uint64_t writes;
		uint64_t begin_ns;
		uint64_t worked_ns; /* duration of the pass without its pauses */
		uint64_t next_ns;   /* next step, or earliest start of the next pass */
		uint64_t late_ns;   /* changes delay the next step until then at most */
	} audit;
	/* A foreign change, from its detection until every service is verified and it is logged. */
	struct {
		uint64_t begin_ns; /* 0: none */
		uint64_t repaired_ns;
		uint64_t writes;
		char by[sizeof(((struct plane *)0)->changed_by)];
	} incident;
	/* Services that the foreign change may concern: verified before all others. */
	struct {
		bool is_due; /* there was a foreign change, and `incident` is not yet logged */
		size_t left; /* services that are not yet searched */
		uint64_t next_ns;
	} touched;
	uint32_t load_failures;  /* since the last complete adoption */
	uint64_t load_logged_ns; /* time and text of the last logged load failure */
	char load_logged[ERR_TEXT_MAX];
	uint64_t load_writes; /* stats.writes when the load began */
	uint64_t load_begin_ns;
	uint64_t pending_since_ns; /* not RUNNING since then; 0 = RUNNING, or WAITING */
	uint64_t not_before_ns;    /* backoff after a failed load */
	bool is_draining;          /* a sync is in progress: dirty services are left */
	uint64_t next_sync_ns;     /* earliest start of the next sync: config.min_period_ns */
	uint64_t next_check_ns;
	uint64_t check_after_ns; /* the earliest that sync_check() may ask for */
	uint64_t next_audit_ns;
	uint64_t next_tick_ns;
	bool is_tick_wanted; /* a load or a commit may have given the plane work */
	uint64_t busy_ns;    /* services are pending since then, or since the last step_idle() */
	uint64_t env_done;
	struct htable failures;
	uint64_t next_retry_ns; /* earliest retry of `failures` */
	/* The first rejection since the last accepted transaction that wrote something; 0: none. */
	uint64_t rejected_since_ns;
	VEC(struct sync_item) items;
	struct plan_ops ops;
	struct plan_displaced displaced;
	/* The service that is being updated in pieces; it stays in model.dirty. */
	struct {
		struct svc *svc; /* NULL: none */
		uint32_t service_no;
		enum sync_large_phase phase;
		bool is_turn;           /* the last step was a transaction of other services */
		bool is_built;          /* all ports are built; the next step makes the goal */
		struct build *build;    /* phase BUILD */
		struct plan_rows *goal; /* later phases; NULL: no rows are desired */
		size_t adopted;         /* number of pools */
		struct plan_pieces pieces;
		bool is_rejected; /* the last piece, in adoption */
		bool is_unsteady; /* since the load one was replaced before it was programmed */
	} large;
	uint32_t family_rejections[IPFAM_N]; /* in a row, since the last accepted commit */
};

/*
 * A service that was not accepted since the last load counts as having no rows in the
 * kernel, also after the load if it was rejected during it: the plane has not counted its rows.
 */
static inline bool sync_is_adopted(const struct sync *s, const struct svc *svc)
{
	return svc->adopted_load == s->plan->load_no;
}

/* The rows of `svc` in the kernel, or NULL. */
static inline const struct plan_rows *sync_programmed(const struct sync *s, const struct svc *svc)
{
	return sync_is_adopted(s, svc) ? svc->rows : NULL;
}

/* Does the plane have the loaded kernel state, so that it can adopt ids and compare? */
static inline bool sync_is_plane_loaded(const struct sync *s)
{
	return s->state == SYNC_ADOPTING || s->plane->is_sweep_pending;
}

/* --- transaction.c --- */

/*
 * Take dirty services and program them; each is accepted or rejected on its own.
 * Returns a negative errno when the outcome is unknown or our tables are gone;
 * undecided services are then dirty again.
 */
MUST_USE int sync_transaction(struct sync *s, uint64_t now);

/*
 * Program `rows`, which are settled, for the large service `svc`, together with the services in
 * s->displaced. Errors as sync_transaction().
 */
MUST_USE int sync_commit_rows(struct sync *s, struct svc *svc, struct plan_rows *rows,
			      bool is_piece, uint64_t now, struct err *err);
/* Program the services in s->displaced. Errors as sync_transaction(). */
MUST_USE int sync_commit_displaced(struct sync *s, uint64_t now, struct err *err);
/* While the sweep is on hold: drop frontends whose endpoints no source has delivered yet. */
void sync_rows_explain(struct sync *s, struct plan_rows *rows);
/* Measure of the work that rows cause; `rows` may be NULL. */
size_t sync_rows_weight(const struct plan_rows *rows);

/* --- large.c --- */

void sync_large_begin(struct sync *s, struct svc *svc);
/* Drop the goal; programmed pieces stay. The service stays dirty. */
void sync_large_forget(struct sync *s);
/* Forget it if its Service was replaced: it then claims other frontends. */
void sync_large_follow(struct sync *s, uint64_t now);
/* Do one step of bounded work. Errors as sync_transaction(). */
MUST_USE int sync_large_step(struct sync *s, uint64_t now, struct err *err);

/* --- failure.c --- */

/*
 * The kernel rejected operations of one address family. Has the whole family failed? The
 * family is then left out of all rows.
 */
bool sync_family_failed(struct sync *s, int r, const struct plane_result *res,
			const struct err *err);
/* The kernel acknowledged `n` operations: reset the rejection counts of their families. */
void sync_family_ok(struct sync *s, const struct plan_op *ops, size_t n);

/* Delay after `attempts` failures in a row: doubles from SYNC_RETRY_MIN_NS up to `max`. */
uint64_t sync_backoff(uint32_t attempts, uint64_t max);
void sync_failure_note(struct sync *s, struct svc *svc, int code, const struct err *err,
		       uint64_t now);
/* `svc` was accepted: remove its failure record. */
void sync_failure_clear(struct sync *s, const struct svc *svc);
/* Mark failed services dirty whose retry is due; return the time of the next retry. */
uint64_t sync_failures_requeue(struct sync *s, uint64_t now);
void sync_failures_fini(struct sync *s);

/* --- audit.c --- */

/* Count writes from now on as repair of a foreign change. */
void sync_incident_begin(struct sync *s);
void sync_incident_writes(struct sync *s, uint64_t writes);
/* Compare some services that a foreign change may concern; after the last, log the repair. */
uint64_t sync_touched_step(struct sync *s, uint64_t now);
/* Compare the next services of all. */
uint64_t sync_audit_step(struct sync *s, uint64_t now);
/* A change delays the next step. */
void sync_audit_put_off(struct sync *s, uint64_t now);

/* --- sync.c --- */

/* Load again, after a failed transaction or comparison. Returns when. */
uint64_t sync_load_again(struct sync *s, int r, const struct err *err, uint64_t now);
void sync_error_note(struct sync *s, const struct err *err, uint64_t now);
void sync_result_note(struct sync *s, const struct plane_result *res);
