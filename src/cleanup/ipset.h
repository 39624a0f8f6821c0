/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/ipset - the sets of kube-proxy's ipvs mode.
 *
 * Kernel: linux/netfilter/ipset/ip_set.h, protocol 6, which every kernel of today speaks.
 */
#pragma once

#include "base/bits.h"
#include "cleanup/report.h"
#include "nl/sock.h"

/* Node ports, as the sets of them say. */
struct node_ports {
	/* By family (IPFAM_*) and protocol: tcp, udp, sctp. */
	uint64_t bits[2][3][BITS_WORDS(65536)];
};

/* Of both families: "KUBE-..." and "KUBE-6-..." */
bool ipset_is_owned(const char *name);
/* Zeroed before; what has no set stays empty. */
MUST_USE int ipset_node_ports(struct node_ports *ret, struct nl_sock *nl, struct err *err);
bool node_ports_has(const struct node_ports *p, uint8_t family, uint8_t proto, uint16_t port);
/* After the rules that use them are gone; waits a little for the kernel to let go of those. */
MUST_USE int cleanup_ipsets(struct nl_sock *nl, struct report *report, struct err *err);
