/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/doctor - check the node: by vipd, or by vipctl itself when vipd does not answer. */
#pragma once

#include "ctl/client.h"

/* Exit codes of `vipctl doctor`; those of other commands do not apply. */
enum doctor_exit {
	DOCTOR_WELL = 0, /* at most notes */
	DOCTOR_WARNINGS = 1,
	DOCTOR_ERRORS = 2,
};

/*
 * Set `*ret` to an answer of /v1/doctor whose checks began after the call. Its member "by" names
 * the program that ran the checks: "vipd", or "vipctl" with the reason in the member "vipd".
 * `plane` NULL: the plane of vipd, or the one whose tables exist; vipctl checks for any other
 * plane.
 */
void doctor_fetch(json_t **ret, const struct client *c, const char *plane);
enum doctor_exit doctor_exit(const json_t *answer);
