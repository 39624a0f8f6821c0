/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/helper - the checks, for a daemon whose loop must not wait.
 *
 *     check_helper_open()    fork, early: nothing large is held yet
 *     check_helper_run()     begin; done() is called from the loop when there are results
 *     check_helper_close()   the helper ends
 *
 * The helper process waits for requests and forks once more for each, so that whatever a
 * check does or holds is gone afterwards. A run that does not end is killed after
 * CHECK_DEADLINE_S; the report says so. A helper that dies is replaced at the next run.
 */
#pragma once

#include <stdbool.h>

#include "doctor/check.h"

struct event_base;
struct check_helper;

#define CHECK_DEADLINE_S 30

struct check_helper_state {
	const struct check_report *report; /* of the last run, borrowed; NULL: none has ended */
	uint64_t ended_ns;                 /* when that was; 0: never */
	uint64_t took_ns;
	uint64_t runs; /* that have ended */
	bool is_running;
};

/* `done` may be NULL; `plane` as in check_env, of static storage. */
MUST_USE int check_helper_open(struct check_helper **ret, struct event_base *base,
			       const char *plane,
			       void (*done)(void *arg, const struct check_report *report),
			       void *arg, struct err *err);
void check_helper_close(struct check_helper *h);
DEFINE_AUTO(struct check_helper *, check_helper_close);

/* While one is under way, which may have looked already: another follows it. */
void check_helper_run(struct check_helper *h);
struct check_helper_state check_helper_state(const struct check_helper *h);
