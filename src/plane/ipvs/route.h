/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/route - policy routing that delivers captured packets to this host.
 *
 *      local default dev lo                       table 23130
 *      100: fwmark 0x5b000000/0xff000f00          lookup 23130
 *      101: fwmark 0x5a000000/0xff000f00 iif lo   goto 103
 *      102: fwmark 0x5a000000/0xff000f00          lookup 23130
 *      103: nop
 *
 *  in both families. The rule with goto excludes packets that do not come from another device:
 * packets that the nat hook routes again after IPVS changed their destination, and look-ups of
 * reverse path filters. Rules and routes of vipd have a route protocol of their own.
 *
 *  Kernel: linux/fib_rules.h, linux/rtnetlink.h; net/core/fib_rules.c.
 */
#pragma once

#include "base/str.h"
#include "nl/sock.h"
#include "plane/ipvs/marks.h"

/*
 * 0x5a5a. Not used by kube-router (77 to 79), kube-vip (198), Cilium (2004, 2005, and 11 on for
 * devices), Calico (1 to 250), the VPC CNI (2 on), wg-quick (51820), Tailscale (52) or iproute2.
 */
#define IPVS_ROUTE_TABLE_DEFAULT 23130
#define IPVS_RULE_PRIORITY_DEFAULT 100
/* RTPROT_*: unused in linux/rtnetlink.h and in iproute2's rt_protos. */
#define IPVS_ROUTE_PROTOCOL 118

struct ipvs_route_config {
	struct ipvs_marks marks;
	uint32_t table;
	uint32_t priority; /* of the first of four rules */
	/* The rules are in use: a conflict does not stop their repair. Set by ipvs_route_apply() */
	bool is_in_force[IPFAM_N];
};

/*
 *  Read rules and routes of a family, add missing ones, remove vipd's old ones; `n_writes` counts
 * writes. -EBUSY: a foreign rule or route uses the table or the marks, and vipd's rules do not
 * exist yet; `err` names it. If they exist they are repaired in spite of it, and `conflict` names
 * it. Foreign rules with vipd's priorities are no conflict: rules of one priority coexist.
 */
MUST_USE int ipvs_route_apply(struct nl_sock *nl, struct ipvs_route_config *c, enum ipfam fam,
			      size_t *n_writes, struct err *conflict, struct err *err);
/* Remove all rules and routes with vipd's protocol. */
MUST_USE int ipvs_route_cleanup(struct nl_sock *nl, struct err *err);

/*
 * Read the configuration from vipd's rules in the kernel; values that the rules lack stay unchanged
 * in `c`. Returns the number of rules of both families, or -errno.
 */
MUST_USE int ipvs_route_config_read(struct nl_sock *nl, struct ipvs_route_config *c,
				    struct err *err);
/* A foreign rule or route. `is_fatal`: vipd does not serve beside it. */
typedef void ipvs_conflict_fn(void *arg, bool is_fatal, const char *text);
/*
 * Desired rules and routes, and vipd's programmed ones, one a line, in the same order:
 * "IPv4/rule/102 fwmark 0x5a000000/0xff000f00 lookup 23130". Calls `fn`, which may be NULL, for
 * foreign ones that use vipd's table or marks, or precede its rules.
 */
MUST_USE int ipvs_route_text(struct nl_sock *nl, const struct ipvs_route_config *c,
			     struct str *desired, struct str *programmed, ipvs_conflict_fn *fn,
			     void *arg, struct err *err);
