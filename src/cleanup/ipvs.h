/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipvs - the virtual services of kube-proxy's ipvs mode, and nobody else's.
 *
 * Its own are those of an address on kube-ipvs0, and those of a port that is in one of
 * the sets of node ports; firewall-mark services never are, nor vipd's own. A virtual service
 * carries its established connections, while vipd takes the new ones before they reach it: one with
 * connections stays until they are over, or for as long as it is not forced.
 */
#pragma once

#include "cleanup/ipset.h"
#include "cleanup/link.h"
#include "plane/ipvs/wire.h"

/* *ret: none is left that carries connections. */
MUST_USE int cleanup_ipvs(bool *ret, struct ipvs_wire *wire, const struct ipvs_link *link,
			  const struct node_ports *ports, struct report *report, struct err *err);
