/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/route - what makes the kernel deliver captured packets to itself.
 *
 *     local default dev lo                       table 23130
 *     100: fwmark 0x5b000000/0xff000f00          lookup 23130
 *     101: fwmark 0x5a000000/0xff000f00 iif lo   goto 103
 *     102: fwmark 0x5a000000/0xff000f00          lookup 23130
 *     103: nop
 *
 * in both families. The line with goto takes everything out that does not come
 * from another device: packets that the nat hook routes once more after IPVS gave
 * them another destination, and the look-ups of reverse path filters.
 *
 * What is ours carries a route protocol of its own.
 *
 * Kernel: linux/fib_rules.h, linux/rtnetlink.h; net/core/fib_rules.c.
 */
#pragma once

#include "base/str.h"
#include "nl/sock.h"
#include "plane/ipvs/marks.h"

/*
 * 0x5a5a. Not a table of kube-router (77 to 79), kube-vip (198), Cilium (2004, 2005, and 11 on for
 * devices), Calico (1 to 250), the VPC CNI (2 on), wg-quick (51820), Tailscale (52) or iproute2.
 */
#define IPVS_ROUTE_TABLE_DEFAULT 23130
#define IPVS_RULE_PRIORITY_DEFAULT 100
/* RTPROT_*: nobody's in linux/rtnetlink.h and in iproute2's rt_protos. */
#define IPVS_ROUTE_PROTOCOL 118

struct ipvs_route_config {
	struct ipvs_marks marks;
	uint32_t table;
	uint32_t priority; /* of the first of four rules */
	bool is_in_force;  /* vipd serves by them: a conflict does not stop their repair */
};

/*
 * Read rules and routes, add what is missing, remove what is ours and not wanted.
 * -EBUSY: a foreign rule or route uses the table or the marks, and vipd's rules do not stand yet;
 * `err` names it. Where they stand they are repaired all the same, and `conflict` names it.
 * Foreign rules at the priorities of ours are no conflict: rules of one priority coexist.
 * `n_writes` counts what was written.
 */
MUST_USE int ipvs_route_apply(struct nl_sock *nl, const struct ipvs_route_config *c,
			      size_t *n_writes, struct err *conflict, struct err *err);
/* Remove all that carries our protocol. */
MUST_USE int ipvs_route_cleanup(struct nl_sock *nl, struct err *err);

/*
 * The configuration that the rules of ours in the kernel were made with; what they do not say
 * stays as it is in `c`. Returns how many there are, of both families, or -errno.
 */
MUST_USE int ipvs_route_recall(struct nl_sock *nl, struct ipvs_route_config *c, struct err *err);
/*
 * Rules and routes as there shall be, and those of ours as there are, one a line, both in the
 * same order: "IPv4/rule/102 fwmark 0x5a000000/0xff000f00 lookup 23130".
 */
MUST_USE int ipvs_route_text(struct nl_sock *nl, const struct ipvs_route_config *c,
			     struct str *want, struct str *held, struct err *err);
/*
 * Call `fn` for all that stands in the way: rules and routes of others that use our places or
 * marks, or decide before ours. `is_hard`: vipd will not serve beside it.
 */
MUST_USE int ipvs_route_troubles(struct nl_sock *nl, const struct ipvs_route_config *c,
				 void (*fn)(void *arg, bool is_hard, const char *text), void *arg,
				 struct err *err);
