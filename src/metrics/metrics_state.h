/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/metrics_state - values updated by metrics.c and formatted by metrics_text.c. */
#pragma once

#include "conntrack/pass.h"
#include "metrics/expo.h"
#include "metrics/metrics.h"

struct metrics {
	struct metrics_config config;
	struct http_port *port;
	size_t n_programmed; /* services with state in the kernel */
	size_t n_frontends;
	size_t n_pools;
	size_t n_backends;
	size_t n_no_local[2][IPFAM_N]; /* by traffic policy: internal, external */
	struct expo_hist sync_time;
	struct expo_hist full_time;
	struct expo_hist partial_time;
	struct expo_hist programming[IPFAM_N];
	struct expo_hist conntrack_time;
	struct pass_result scans; /* since the start */
	int64_t queued_wall_ns;
	uint64_t queued_env;   /* the model's env_generation then */
	uint64_t seen_step_ns; /* step and loads of the sync's statistics already counted */
	uint64_t seen_loads;
	uint64_t consumed_slices; /* slice events when no service was dirty last */
	struct {
		uint64_t read_ns;                       /* last read; at most one a second */
		struct plane_rule_counts last[IPFAM_N]; /* counters of the current rules */
		struct plane_rule_counts total;
		uint64_t no_endpoints; /* as last printed */
		uint8_t families;      /* bits: read at least once */
	} rules;
};
