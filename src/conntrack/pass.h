/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/pass - do a job: find the stale flows and delete them.
 *
 * Two ways, by what they are estimated to cost (conntrack/ctnl says what they do):
 *
 *   match   the kernel deletes by itself, one walk a target; for jobs of IPv4 only
 *   dump    flows are dumped and judged here: everything, or UDP where that is enough of
 *           the table
 *
 * A table that holds nothing is not walked. Runs in the helper process; blocks.
 */
#pragma once

#include "conntrack/ctnl.h"

struct pass;

struct pass_result {
	uint64_t n_matches; /* targets that were left to the kernel; it does not count */
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
