/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipvs - removes virtual services of kube-proxy's ipvs mode, and no others.
 *
 * Its own are those of an address on kube-ipvs0, and those of a port that is in one of
 * the sets of node ports; firewall-mark services never are, nor vipd's own. A virtual service
 * carries its established connections, while vipd takes the new ones before they reach it: one with
 * connections stays until they are over, or for as long as it is not forced.
 */
#pragma once

#include "cleanup/ipset.h"
#include "cleanup/link.h"
#include "nl/ipvs.h"

struct cleanup_ipvs_result {
	size_t n_handed_over;
	bool is_busy; /* some are left that carry connections */
};

/*
 * `hands_over`: services of vipd with ClientIP affinity wait for virtual services at their
 * addresses. Persistent ones become vipd's, with their connections, and are not deleted.
 */
MUST_USE int cleanup_ipvs(struct cleanup_ipvs_result *ret, struct ipvs_wire *wire,
			  const struct ipvs_link *link, const struct node_ports *ports,
			  bool hands_over, struct report *report, struct err *err);
