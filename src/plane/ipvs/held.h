/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/held - what the kernel holds of this plane, without a running vipd.
 *
 * For people and their tools: loads as adoption does, writes nothing. A node without the
 * table of this plane is not asked for IPVS, which would load its module.
 *
 * The tag of the marks, the routing table and the priorities are those that the policy routing
 * rules of ours have; without any, the tag is that of the maps, the rest the defaults.
 */
#pragma once

#include "base/str.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/ipvs/sched.h"

/* Zeroed memory is empty. */
struct ipvs_held {
	bool is_there; /* table inet vipd-ipvs, of vipd's */
	/*
	 * All frontends, one a line, sorted as plane/nft/held.h has them:
	 *
	 *     10.96.0.10:53/UDP cluster-ip -> 10.1.0.4:53=3 10.1.0.5:53 scheduler=wrr
	 *     10.96.0.20:80/TCP -> 10.1.0.6:80 affinity=600s scheduler=rr leaving=10.1.0.7:80/812s
	 *
	 * then virtual services of ours that no frontend leads to: "mark/0x5a000007/IPv4 -> ...".
	 * What does not fit together is said in capitals.
	 */
	struct str frontends;
	struct str routing; /* rules and routes of ours: ipvs_route_text() */
	struct str routing_want;
};

/*
 *   -EAGAIN     others kept changing the ruleset while it was read
 *   -EEXIST     a table of this name is there, and is not vipd's
 *   -EPERM, -EOPNOTSUPP     `err` says what is missing
 */
MUST_USE int ipvs_held_read(struct ipvs_held *ret, struct err *err);
/* The same by sockets that are given (taken). */
MUST_USE int ipvs_held_read_by(struct ipvs_held *ret, const struct ipvs_socks *socks,
			       struct err *err);
void ipvs_held_fini(struct ipvs_held *h);
/* Is the table there? Cheap: 1, 0 or -errno as above. */
MUST_USE int ipvs_held_is_there(struct err *err);

/*
 * How pools shall be dealt by what their services say, for a plane with this default
 * (borrowed), in a kernel with all schedulers.
 */
struct plan_balancer ipvs_objects_dealer(const struct ipvs_sched *by_default);
