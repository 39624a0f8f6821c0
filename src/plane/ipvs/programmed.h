/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/programmed - kernel state of the plane as text, read without a running vipd.
 *
 *  Reads as adoption does, writes nothing. On a node without the table of this plane IPVS is not
 *  queried, because a query loads its module.
 *
 *  Tag of the marks, routing table and priorities come from vipd's policy routing rules. Without
 *  rules, the tag comes from the maps, and the rest are the defaults.
 */
#pragma once

#include "base/str.h"
#include "model/tuning.h"
#include "plane/ipvs/plane_ipvs.h"

/* Zeroed memory is empty. */
struct ipvs_programmed {
	bool exists; /* the table inet vipd-ipvs exists and is vipd's */
	/*
	 *  All frontends, one a line, sorted as in plane/nft/programmed.h:
	 *
	 *      10.96.0.10:53/UDP cluster-ip -> 10.1.0.4:53=3 10.1.0.5:53 scheduler=wrr
	 *      10.96.0.20:80/TCP -> 10.1.0.6:80 affinity=600s scheduler=rr draining=10.1.0.7:80/81s
	 *
	 *  then vipd's virtual services that no frontend uses: "mark/0x5a000007/IPv4 -> ...".
	 *  Inconsistencies are in capitals.
	 */
	struct str frontends;
	struct str routing; /* vipd's rules and routes: ipvs_route_text() */
	struct str routing_desired;
};

/*
 *    -EAGAIN     foreign changes interrupted each attempt
 *    -EEXIST     a foreign table has this name
 *    -EPERM, -EOPNOTSUPP     `err` names what is missing
 */
MUST_USE int ipvs_programmed_read(struct ipvs_programmed *ret, struct err *err);
/* Like ipvs_programmed_read(), through the caller's sockets (taken). */
MUST_USE int ipvs_programmed_read_from(struct ipvs_programmed *ret, const struct ipvs_socks *socks,
				       struct err *err);
void ipvs_programmed_fini(struct ipvs_programmed *h);
/* Does the table exist? Cheap: 1, 0 or -errno as above. */
MUST_USE int ipvs_programmed_exists(struct err *err);

/*
 * Desired load balancing by the annotations of Services, for a default scheduler (borrowed) and a
 * kernel with all schedulers.
 */
struct plan_balancer ipvs_objects_balancer(const struct scheduler *by_default);
