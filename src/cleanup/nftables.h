/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/nftables - what of kube-proxy's is in nf_tables: its own tables (mode nftables),
 * and chains in the tables of iptables-nft.
 *
 * Rules are deleted by handle and chains by name, so what they say need not be understood.
 * One transaction each: the tables of kube-proxy; the chains of both families.
 */
#pragma once

#include "cleanup/report.h"
#include "nl/sock.h"

/* Are tables of vipd's, whatever its plane, in this network namespace? 1, 0 or -errno. */
MUST_USE int cleanup_has_vipd(struct nl_sock *nl, struct err *err);
/* The tables "kube-proxy" of ip and ip6. What cannot be removed is reported, and is no error. */
MUST_USE int cleanup_nftables(struct nl_sock *nl, struct report *report, struct err *err);
MUST_USE int cleanup_iptables_nft(struct nl_sock *nl, struct report *report, struct err *err);
