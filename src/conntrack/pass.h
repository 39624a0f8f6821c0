/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/pass - do a job: find the stale flows and delete them.
 *
 * Two ways, chosen by estimated cost; see conntrack/ctnl:
 *
 *   match   the kernel filters and deletes, one walk per target; for IPv4-only jobs
 *   dump    flows are dumped and checked here: all flows, or UDP flows if they are a
 *           sufficient part of the table
 *
 * An empty table is not walked. Runs in the helper process; blocks.
 */
#pragma once

#include "conntrack/ctnl.h"

struct pass_result {
	uint64_t n_matches; /* targets filtered by the kernel, which does not count flows */
	uint64_t n_seen;    /* flows dumped and checked */
	uint64_t n_deleted; /* of n_seen */
};

struct pass {
	struct ctnl *ctnl; /* not closed by the pass */
	/*
	 * While it is the id of a job, the job ends before its next deletion: another process may
	 * set it. NULL: no job does.
	 */
	const _Atomic uint32_t *outdated;
	/* IPVS translates: entries have no IPS_DST_NAT, which selects JOB_TARGET_TRANSLATED. */
	bool is_ipvs;
	/* Results of earlier passes; zero before the first one. */
	bool cannot_match;       /* the kernel cannot delete by filter */
	uint64_t n_udp[IPFAM_N]; /* UDP flows in the last dump of them */
};

/*
 * 0: all flows that match the job were deleted. After an error, part of them may have been:
 * repeat the job. -EBUSY: all but offloaded ones were (conntrack/ctnl.h). -ECANCELED: outdated.
 */
MUST_USE int pass_run(struct pass *p, const struct job *job, struct pass_result *ret,
		      struct err *err);
