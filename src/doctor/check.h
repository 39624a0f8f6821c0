/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/check - checks of the node, behind `vipctl doctor`.
 *
 *     report = check_run(&env)             everything; takes up to a second
 *     json_array_foreach (report, i, result) ...
 *
 * Three steps in a child process (run.c), which is killed after 2 minutes: read facts (read_*.c,
 * proc.c: netlink, and files below a root that tests choose), try each kernel feature, check
 * (checks_*.c, pure). Nothing is written, in the kernel or elsewhere.
 *
 * Addresses of services are read from the kernel's tables, so the results do not depend on a
 * running vipd.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

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

struct check_env {
	/* Wall clock minus monotonic clock when the daemon started; 0: no daemon. */
	int64_t clock_offset_ns;
	/* "nftables" or "ipvs": the plane to check for. NULL: the one whose tables exist. */
	const char *plane;
};

/* Wall clock minus monotonic clock, now. */
int64_t check_clock_offset_ns(void);

/* A new report. If the child process fails, it has that as its only result. */
json_t *check_run(const struct check_env *env);
