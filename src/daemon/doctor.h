/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/doctor - run the checks of the node (doctor/check.h) and log warnings and errors.
 *
 * The checks run after the first sync, or DOCTOR_PATIENCE_S after the start if the first sync is
 * not complete by then, and once more when it is; later only on request. A warning or an error is
 * logged once, and again only after it was gone.
 */
#pragma once

#include "doctor/check.h"

struct doctor;

#define DOCTOR_PATIENCE_S 10

/* `plane`: "nftables" or "ipvs". */
void doctor_open(struct doctor **ret, struct event_base *base, const char *plane);
void doctor_close(struct doctor *d);
/* The first sync is complete. Only the first call has an effect. */
void doctor_settled(struct doctor *d);
/* For the API; borrowed. */
struct check_runs *doctor_checks(struct doctor *d);
