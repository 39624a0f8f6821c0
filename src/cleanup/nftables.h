/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/nftables - kube-proxy's state in nf_tables: its own tables (mode nftables), and chains in
 * the tables of iptables-nft.
 *
 * Rules are deleted by handle and chains by name, without decoding their expressions. One
 * transaction for the tables of kube-proxy, one for the chains of both families.
 */
#pragma once

#include "cleanup/report.h"
#include "nl/sock.h"

/* Does this network namespace have tables of vipd, of either plane? 1, 0 or -errno. */
MUST_USE int cleanup_has_vipd(struct nl_sock *nl, struct err *err);
/* Delete the tables ip and ip6 kube-proxy. A table that cannot be deleted is reported, not an
 * error. */
MUST_USE int cleanup_nftables(struct nl_sock *nl, struct cleanup *c, struct err *err);
MUST_USE int cleanup_iptables_nft(struct nl_sock *nl, struct cleanup *c, struct err *err);
