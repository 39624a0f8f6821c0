/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/metrics_state - what metrics.c counts and metrics_text.c tells. */
#pragma once

#include "metrics/expo.h"
#include "metrics/metrics.h"
#include "metrics/zpages.h"

enum metrics_policy {
	METRICS_INTERNAL = 0,
	METRICS_EXTERNAL,
	METRICS_POLICIES,
};

struct metrics {
	struct metrics_config config;
	struct zpages_config zpages;
	struct door *door;
	size_t n_proxied; /* services the kernel holds something for */
	size_t n_frontends;
	size_t n_pools;
	size_t n_backends;
	size_t n_no_local[METRICS_POLICIES][IPFAM_N];
	struct expo_hist sync_time;
	struct expo_hist full_time;
	struct expo_hist partial_time;
	struct expo_hist programming[IPFAM_N];
	struct expo_hist conntrack_time;
	uint64_t conntrack_deleted;
	int64_t queued_wall_ns;
	uint64_t seen_step_ns; /* of the sync's statistics: counted already */
	uint64_t seen_loads;
	uint64_t consumed_slices; /* slice events up to the last moment nothing was dirty */
	struct {
		uint64_t asked_ns;       /* the kernel is asked once a second at most */
		struct plane_drops last; /* what it said ... */
		struct plane_drops sum;  /* ... and what it said before rules were made anew */
	} drops;
};
