/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/doctor - is this node fit? vipd looks again; where none answers, vipctl looks itself.
 */
#pragma once

#include "ctl/client.h"

/* Exit codes of `vipctl doctor`; those of other commands do not apply. */
enum doctor_exit {
	DOCTOR_WELL = 0, /* at most notes */
	DOCTOR_WARNINGS = 1,
	DOCTOR_ERRORS = 2,
};

/*
 * An answer of /v1/doctor with results of checks that began after the call. "by" is "vipd"; or
 * "vipctl", which ran the checks itself, and "vipd" says why. `plane` NULL: the plane of vipd, or
 * the one whose tables exist; for another plane vipctl runs the checks.
 */
void doctor_ask(json_t **ret, const struct client *c, const char *plane);
enum doctor_exit doctor_exit(const json_t *answer);
