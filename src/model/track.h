/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model/track - which slices of a large service changed since its rows were built.
 *
 *     svc_track_open(svc, n)     rows are being built: fill in `next`
 *     svc_track_begin(svc)       they are programmed, and nothing changed since they were built
 *     ... slices change ...      select_changes() finds the endpoints that changed
 *     svc_track_begin(svc)       rows with these changes are programmed; they have the sums `next`
 *
 * Any other change of the service ends the tracking: its rows are then built from all endpoints.
 */
#pragma once

#include "model/select.h"

#define TRACK_SLICES_MAX 16 /* more changed slices end the tracking */

struct slice_change {
	const struct slice_entry *entry; /* has the present version */
	struct slice *was;               /* version of the programmed rows */
};

struct svc_track {
	bool is_on; /* `slices` are all changes */
	VEC(struct slice_change) slices;
	/* For each family and port: of rows that are being built, and of the programmed ones. */
	struct selection_sums *next;
	size_t n;
	struct selection_sums sums[];
};

/* `n`: families times ports. Tracking is off. */
void svc_track_open(struct svc *svc, size_t n);
void svc_track_begin(struct svc *svc);
void svc_track_end(struct svc *svc);
void svc_track_close(struct svc *svc);
/* Is it certain that no two entries of slices are one endpoint? */
bool svc_track_has_none_twice(const struct svc *svc);
/* The slice of `e` had the version `was`: takes it. */
void svc_track_slice(const struct slice_entry *e, struct slice *was);
