/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor - what vipd tells without being asked: what is wrong with its node, and what the log
 * held back.
 *
 * The checks (doctor/check.h) run when the first sync is done, or DOCTOR_PATIENCE_S after the
 * start if it does not get there, and then once more when it does; later only when somebody
 * asks. A warning or an error is logged once, not again until it was gone.
 */
#pragma once

#include "doctor/helper.h"

struct doctor;

#define DOCTOR_PATIENCE_S 3

/* Forks: early, while nothing large is held. */
/* `plane`: what the node shall be fit for, "nftables" or "ipvs". */
MUST_USE int doctor_open(struct doctor **ret, struct event_base *base, const char *plane,
			 struct err *err);
void doctor_close(struct doctor *d);
DEFINE_AUTO(struct doctor *, doctor_close);
/* The kernel holds what it should. Only the first call counts. */
void doctor_settled(struct doctor *d);
/* For those who ask; borrowed. */
struct check_helper *doctor_checks(struct doctor *d);
