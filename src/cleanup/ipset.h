/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipset - ipsets of kube-proxy's ipvs mode and of kube-router.
 *
 * Kernel: linux/netfilter/ipset/ip_set.h, protocol 6, which all supported kernels have.
 */
#pragma once

#include "base/bits.h"
#include "base/ip.h"
#include "base/util.h"
#include "base/vec.h"
#include "cleanup/report.h"
#include "nl/sock.h"

/* A port of one address. */
struct node_port {
	struct ip_endpoint at;
	uint8_t proto; /* IPPROTO_* */
};

/* Node ports in the sets of node ports. */
struct node_ports {
	/* kube-proxy's, of any address; by family (IPFAM_*) and protocol: tcp, udp, sctp. */
	uint64_t bits[2][3][BITS_WORDS(65536)];
	VEC(struct node_port) at; /* kube-router's, sorted */
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
bool node_ports_has(const struct node_ports *p, const struct ip_endpoint *at, uint8_t proto);
void node_ports_free(struct node_ports *p);
DEFINE_AUTO(struct node_ports *, node_ports_free);
/* Call after the rules that use the sets are deleted; waits until the kernel has released them. */
MUST_USE int cleanup_ipsets(struct nl_sock *nl, struct report *report, struct err *err);
