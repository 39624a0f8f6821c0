/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipset - ipsets of kube-proxy's ipvs mode and of kube-router.
 *
 * Kernel: linux/netfilter/ipset/ip_set.h, protocol 6, which all supported kernels have.
 */
#pragma once

#include "base/ip.h"
#include "base/util.h"
#include "base/vec.h"
#include "cleanup/report.h"
#include "nl/sock.h"

/* Node ports in the sets of node ports. Address 0.0.0.0, or ::, is any: kube-proxy's. */
struct node_ports {
	VEC(struct ip_tuple) at; /* sorted */
};

/* Is it a set of the proxy, of either family: "KUBE-...", "KUBE-6-...", or kube-router's? */
bool ipset_is_owned(enum proxy p, const char *name);
/*
 * `ret` must be zeroed. A protocol without a set stays empty. kube-router has no set of node ports
 * alone: they are the entries with an address of kube-router-local-ips. Version 1 lists all virtual
 * services of the kernel: only ports of Kubernetes' default range of node ports count.
 */
MUST_USE int ipset_node_ports(struct node_ports *ret, enum proxy p, struct nl_sock *nl,
			      struct err *err);
bool node_ports_has(const struct node_ports *p, const struct ip_tuple *at);
/* Call after the rules that use the sets are deleted; waits until the kernel has released them. */
MUST_USE int cleanup_ipsets(struct nl_sock *nl, struct cleanup *c, struct err *err);
