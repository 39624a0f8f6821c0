/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/helper - runs the checks in a helper process: the event loop does not wait.
 *
 *     check_helper_open()    fork, early: while the process is small
 *     check_helper_run()     start; the event loop calls done() with the results, or
 *                            check_helper_run() itself if no helper can be started
 *     check_helper_close()   the helper ends
 *
 * The helper calls check_run(), which forks again: a run leaves no state behind. If the helper
 * ends, the next run starts another.
 */
#pragma once

#include <stdbool.h>

#include "doctor/check.h"

struct event_base;
struct check_helper;

struct check_helper_state {
	json_t *report;    /* of the last run, borrowed; NULL: none yet */
	uint64_t ended_ns; /* end of the last run; 0: never */
	uint64_t took_ns;
	uint64_t runs; /* completed */
	bool is_running;
};

/* `done` may be NULL; `plane` as in check_env, of static storage. */
MUST_USE int check_helper_open(struct check_helper **ret, struct event_base *base,
			       const char *plane, void (*done)(void *arg, const json_t *report),
			       void *arg, struct err *err);
void check_helper_close(struct check_helper *h);
DEFINE_AUTO(struct check_helper *, check_helper_close);

/* During a run, another one is queued: the first may have read older facts. */
void check_helper_run(struct check_helper *h);
struct check_helper_state check_helper_state(const struct check_helper *h);
