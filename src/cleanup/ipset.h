/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipset - ipsets of kube-proxy's ipvs mode and of kube-router.
 *
 * Kernel: linux/netfilter/ipset/ip_set.h, protocol 6, which all supported kernels have.
 */
#pragma once

#include "base/bits.h"
#include "cleanup/report.h"
#include "nl/sock.h"

/* Node ports in the sets of node ports. */
struct node_ports {
	/* Indexed by family (IPFAM_*) and protocol: tcp, udp, sctp. */
	uint64_t bits[2][3][BITS_WORDS(65536)];
};

/* Is it a set of the proxy, of either family: "KUBE-...", "KUBE-6-...", or kube-router's? */
bool ipset_is_owned(enum proxy p, const char *name);
/*
 * `ret` must be zeroed. A protocol without a set stays empty. kube-router has no set of node ports
 * alone: those of addresses in kube-router-local-ips.
 */
MUST_USE int ipset_node_ports(struct node_ports *ret, enum proxy p, struct nl_sock *nl,
			      struct err *err);
bool node_ports_has(const struct node_ports *p, uint8_t family, uint8_t proto, uint16_t port);
/* Call after the rules that use the sets are deleted; waits until the kernel has released them. */
MUST_USE int cleanup_ipsets(struct nl_sock *nl, struct report *report, struct err *err);
