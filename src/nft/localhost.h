/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/localhost - rules for node ports on the loopback address, on both planes.
 *
 * No route_localnet: a loopback source cannot be routed to another device, nor a reply to it come
 * from one. So packets of the node's processes get the node's address as their source before
 * connection tracking sees them, and replies get the loopback address back as their destination
 * after it. The network cannot reach either rule: the kernel drops loopback addresses that arrive
 * on another device, and prerouting leaves them alone.
 */
#pragma once

#include <linux/netfilter_ipv4.h>

#include "base/ip.h"
#include "nft/expr.h"
#include "nft/sets.h"

/* Hook priorities. The reply's is behind nat (100) and IPVS (98, 99). */
#define NFT_PRI_LOCALHOST_OUT NF_IP_PRI_RAW
#define NFT_PRI_LOCALHOST_IN (NF_IP_PRI_NAT_SRC + 10)

struct nft_localhost {
	struct ip_addr source;   /* the node's address; unset: localhost is not served, no rules */
	enum nft_set_id sets[2]; /* of (address, protocol, port); node ports are in one of them */
	bool is_inet;            /* the table has both families */
};

/* At output, NFT_PRI_LOCALHOST_OUT. */
void nft_localhost_out(struct nft_rules *rs, const struct nft_localhost *l);
/* At input, NFT_PRI_LOCALHOST_IN. */
void nft_localhost_in(struct nft_rules *rs, const struct nft_localhost *l);
/* First in prerouting: packets that arrive for the loopback address are not translated. */
void nft_localhost_pre(struct nft_rules *rs, const struct nft_localhost *l);
