/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/check - is this node fit for a service proxy? What `vipctl doctor` shows.
 *
 *     check_run(&report, &env)             everything, in this process; takes up to a second
 *     vec_for_each (c, &report.v) ...
 *     check_report_fini(&report)
 *
 * Three steps: read (read_*.c, proc.c: files below a root that tests choose, and netlink),
 * try (try.c: a child process asks the kernel for every nf_tables feature), judge (judge_*.c:
 * from facts to results, pure). Nothing is written, in the kernel or elsewhere.
 *
 * The addresses that are asked about (who else has them?) are those in the kernel's
 * tables, so that vipctl sees the same where no vipd runs.
 */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "base/vec.h"

enum check_level {
	CHECK_UNSET = 0,
	CHECK_OK,
	CHECK_NOTE,    /* good to know */
	CHECK_WARNING, /* some traffic may go wrong */
	CHECK_ERROR,   /* services cannot work as they should */
};

/* "ok", "note", "warning", "error" */
const char *check_level_text(enum check_level level);

/* A check may have several results: one a thing that was found. */
struct check_result {
	char *check; /* "conntrack": stable, for scripts */
	enum check_level level;
	char *found;  /* one line */
	char *advice; /* what to do about it; NULL: nothing */
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

/* The members of an answer of /v1/doctor: an array, and back. -EPROTO: that is none. */
json_t *check_report_json(const struct check_report *r);
MUST_USE int check_report_from_json(struct check_report *ret, const json_t *results,
				    struct err *err);

struct check_env {
	const char *root; /* in front of /proc and /sys; "" */
	/* Wall clock minus monotonic clock when the daemon started; 0: no daemon. */
	int64_t clock_offset_ns;
	/* "nftables" or "ipvs": what the node shall be fit for. NULL: whose tables are there. */
	const char *plane;
};

/* Wall clock minus monotonic clock, now. */
int64_t check_clock_offset_ns(void);

void check_run(struct check_report *ret, const struct check_env *env);
