/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/check - checks of the node, behind `vipctl doctor`.
 *
 *     check_run(&report, &env)             everything; takes up to a second
 *     vec_for_each (c, &report.v) ...
 *     check_report_fini(&report)
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
#include "base/vec.h"

enum check_level {
	CHECK_UNSET = 0,
	CHECK_OK,
	CHECK_NOTE,    /* information */
	CHECK_WARNING, /* some connections can fail */
	CHECK_ERROR,   /* services do not work */
};

/* "ok", "note", "warning", "error" */
const char *check_level_text(enum check_level level);

/* A check may have several results, one for each finding. */
struct check_result {
	char *check; /* "conntrack": stable, for scripts */
	enum check_level level;
	char *found;  /* one line */
	char *advice; /* what to do; NULL: nothing */
};

/* Zeroed memory is an empty report. */
struct check_report {
	VEC(struct check_result) v;
};

void check_report_fini(struct check_report *r);
enum check_level check_report_worst(const struct check_report *r);
/* `advice` may be NULL. */
void check_add(struct check_report *r, const char *check, enum check_level level,
	       const char *advice, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* The members of an answer of /v1/doctor: an array, and back. -EPROTO: not a report. */
json_t *check_report_json(const struct check_report *r);
MUST_USE int check_report_from_json(struct check_report *ret, const json_t *results,
				    struct err *err);

#define CHECK_ADVICE_FAILED "run the check again; report the fault if it persists"

struct check_env {
	const char *root; /* in front of /proc and /sys; "" */
	/* Wall clock minus monotonic clock when the daemon started; 0: no daemon. */
	int64_t clock_offset_ns;
	/* "nftables" or "ipvs": the plane to check for. NULL: the one whose tables exist. */
	const char *plane;
};

/* Wall clock minus monotonic clock, now. */
int64_t check_clock_offset_ns(void);

/* If the child process fails, the report has that as its only result. */
void check_run(struct check_report *ret, const struct check_env *env);
