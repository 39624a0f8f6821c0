/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipvs - delete the virtual services of kube-proxy's ipvs mode, or of kube-router.
 *
 * These are virtual services with an address of kube-ipvs0 (kube-router: kube-dummy-if) or a port
 * in a set of node ports, and those of kube-router by mark, for direct server return; never vipd's
 * own, and none at an address in --ipvs-exclude-cidrs. A virtual service forwards its established
 * connections; vipd takes new ones before they reach it. So a virtual service with connections
 * stays, unless force is requested.
 */
#pragma once

#include "cleanup/ipset.h"
#include "nl/ipvs.h"

/* The dummy device with the service addresses: kube-ipvs0, kube-dummy-if. */
struct ipvs_link {
	VEC(struct ip_addr) addrs; /* sorted */
	const char *name;
	int index; /* 0: no such device */
	bool is_dummy;
};

/* `nl` is of NETLINK_ROUTE. The addresses in `ret` are freed by the caller. */
MUST_USE int ipvs_link_read(struct ipvs_link *ret, enum proxy p, struct nl_sock *nl,
			    struct err *err);
/* Delete the device and its addresses. */
MUST_USE int cleanup_link(const struct ipvs_link *l, struct nl_sock *nl, struct cleanup *c,
			  struct err *err);

/*
 * If c->n_occupied is not 0, services of vipd with ClientIP affinity are pending while another
 * proxy's virtual services have their addresses: vipd takes over persistent ones with their
 * connections.
 */
MUST_USE int cleanup_ipvs(struct ipvs_wire *wire, const struct ipvs_link *link,
			  const struct node_ports *ports, struct cleanup *c, struct err *err);
