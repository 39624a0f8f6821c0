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
 * An answer of /v1/doctor, whose results are younger than the call. "by" is "vipd", or
 * "vipctl" with "vipd": why it was not asked. `plane` NULL: vipd's, or that whose tables are
 * there; another one, and vipctl looks itself.
 */
void doctor_ask(json_t **ret, const struct client *c, const char *plane);
enum doctor_exit doctor_exit(const json_t *answer);
