/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/check - checks of the node, behind `vipctl doctor`.
 *
 *     if (check_process(argc, argv))       first in main(): a run
 *             return 0;
 *     report = check_run(plane)            everything; takes up to a second
 *     json_array_foreach (report, i, result) ...
 *
 * A run is a process of the same program, which leaves no state behind and is killed after 2
 * minutes. It reads facts (read_*.c, proc.c: netlink, and files below a root that tests choose),
 * tries each kernel feature, and checks (checks_*.c, pure). Nothing is written, in the kernel or
 * elsewhere.
 *
 * Addresses of services are read from the kernel's tables, so the results do not depend on a
 * running vipd.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

struct event_base;
struct process;

enum check_level {
	CHECK_UNSET = 0,
	CHECK_OK,
	CHECK_NOTE,    /* information */
	CHECK_WARNING, /* some connections can fail */
	CHECK_ERROR,   /* services do not work */
};

/* "ok", "note", "warning", "error" */
const char *check_level_text(enum check_level level);

/*
 * A report is an array of results, as in answers of /v1/doctor: objects with the texts "check"
 * ("conntrack": stable, for scripts), "level", "found" (one line) and "advice" (what to do; null:
 * nothing). A check may have several results, one for each finding.
 */
void check_add(json_t *report, const char *check, enum check_level level, const char *advice,
	       const char *fmt, ...) PRINTF_LIKE(5, 6);
/* CHECK_UNSET: not a result. */
enum check_level check_level(const json_t *result);
/* A member; NULL for null. */
const char *check_text(const json_t *result, const char *key);
enum check_level check_report_worst(const json_t *report);

#define CHECK_ADVICE_FAILED "run the check again; report the fault if it persists"

/* Wall clock minus monotonic clock, now. */
int64_t check_clock_offset_ns(void);

/* True: argv is that of a run, which printed its report as JSON. */
bool check_process(int argc, char **argv);

/*
 * Start a run and wait for it. Returns a new report; a failure of the process is its only result.
 * `plane`: "nftables" or "ipvs", the plane to check for. NULL: the one whose tables exist.
 */
json_t *check_run(const char *plane);

/* Runs of a daemon, one at a time. The caller fills the first members; the others are 0. */
struct check_runs {
	struct event_base *base;
	const char *plane; /* as that of check_run(), borrowed */
	/* Wall clock minus monotonic clock when the daemon started; 0: no daemon. */
	int64_t clock_offset_ns;
	/*
	 * NULL, or called after each run: by the event loop, or by check_start() if it fails.
	 * `last`: the report of the run before; NULL: none.
	 */
	void (*done)(void *arg, const json_t *last);
	void *arg;

	struct process *process; /* NULL: no run */
	bool is_wanted_again;
	uint64_t begun_ns;
	json_t *report;    /* of the last run; NULL: none yet */
	uint64_t ended_ns; /* 0: never */
	uint64_t took_ns;
	uint64_t n; /* completed */
};

/* During a run, another one is queued: the first may have read older facts. */
void check_start(struct check_runs *c);
void check_runs_fini(struct check_runs *c);
