/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/pass - do a job: find the stale flows and delete them.
 *
 * Few targets of IPv4 are left to the kernel, one walk each; anything else is
 * one dump that we judge (conntrack/ctnl says what each costs). A table that
 * holds nothing is not walked.
 *
 * Runs in the helper process; blocks.
 */
#pragma once

#include "conntrack/ctnl.h"

/* More walks than this, and one dump is cheaper: 0.25 us an entry and walk against 2 us. */
#define PASS_MATCHES_MAX 8

struct pass;

struct pass_result {
	uint64_t n_matches; /* walks in which the kernel deleted by itself, uncounted */
	uint64_t n_seen;    /* flows that were dumped and judged */
	uint64_t n_deleted; /* of those */
};

/* Takes `c`. */
void pass_open(struct pass **ret, struct ctnl *c);
void pass_close(struct pass *p);
DEFINE_AUTO(struct pass *, pass_close);

/*
 * 0: whatever the job is about and was there is gone. Otherwise a part of it may
 * be; do it again.
 */
MUST_USE int pass_run(struct pass *p, const struct job *job, struct pass_result *ret,
		      struct err *err);
