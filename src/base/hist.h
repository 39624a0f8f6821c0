/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/hist - a log-linear histogram of durations. Never decreases. */
#pragma once

#include "base/util.h"

#define HIST_BUCKETS 24

struct hist {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t bucket[HIST_BUCKETS]; /* i: values < 2^i us; the last: larger values */
};

static inline void hist_add(struct hist *h, uint64_t ns)
{
	unsigned int i = 0;

	while (i < HIST_BUCKETS - 1 && ns >= (UINT64_C(1) << i) * NSEC_PER_USEC)
		i++;
	h->bucket[i]++;
	h->count++;
	h->sum_ns += ns;
	h->max_ns = MAX(h->max_ns, ns);
}
