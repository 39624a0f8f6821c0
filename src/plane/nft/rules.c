/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/rules - the chains that doc/design/0002-nft-layout.md describes. */
#include "plane/nft/layout.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/netfilter_ipv4.h>

#include "nft/rule.h"
#include "plan/table.h"

/*
 * Number of dispatch rules. When a commit happens between two lookups of a packet, the pick chain
 * may not find the slot; the packet returns and the next dispatch rule uses the new generation. One
 * retry was sufficient in a million changes.
 */
#define DISPATCHES 3
/* Picks that may find an empty slot of a size class; the pick after them uses filled slots only. */
#define CLASS_TRIES 3

/* The pool of the frontend, from the scratch word. */
#define POOL META(PRIORITY), MASK(NFT_POOL_MASK)

/* Store the word of the frontend in the scratch word, then jump to the chain of its kind. */
static void dispatch(struct nft_rules *rs, enum ipfam fam, enum nft_set_id words,
		     enum nft_set_id verdicts)
{
	RULE(rs, fam, TUPLE, MAP(words), META_SET(PRIORITY), META(PRIORITY), MASK(NFT_KIND_MASK),
	     VMAP(verdicts));
}

/* A rule that counts packets of a frontend in its element, if the table has counters. */
static void count(struct nft_rules *rs, enum ipfam fam, enum nft_set_id set,
		  const struct plane_rules_params *p)
{
	if (nft_set_exists(set, p->counting))
		RULE(rs, fam, TUPLE, IN(set));
}

static void reject_conn(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	count(rs, fam, NFTSET_REJECTED, p);
	RULE(rs, fam, L4PROTO(IPPROTO_TCP), COUNTER, REJECT_TCP);
	RULE(rs, fam, COUNTER, REJECT_PORT);
}

static void drop_conn(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	count(rs, fam, NFTSET_REJECTED, p);
	RULE(rs, fam, COUNTER, DROP);
}

static void xl_outside(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	dispatch(rs, fam, NFTSET_XL_LOCAL, NFTSET_LEAVES);
}

/*
 * externalTrafficPolicy Local: the cluster pool for pods and this host (POL-25). One rule for both:
 * the kernel's loop check walks the chains of a verdict map once for each way to it.
 */
static void xl(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, WHEN(plane_has_detector(p, fam), PLANE_POD(p, NEQ)),
	     FIB_TYPE(SADDR, NEQ, LOCAL), GOTO("xl_outside"));
	dispatch(rs, fam, NFTSET_XL_CLUSTER, NFTSET_LEAVES);
}

/* loadBalancerSourceRanges (REJ-10): drop, or return to `fw` */
static void fw_check(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	plane_ranges(rs, fam, p, NFT_META_PRIORITY, NFTSET_FW_RANGES);
	count(rs, fam, NFTSET_REJECTED, p);
	RULE(rs, fam, COUNTER, DROP);
}

/* One way to the map, as in `xl`. */
static void fw(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, JUMP("fw_check"));
	dispatch(rs, fam, NFTSET_FW_FRONTENDS, NFTSET_KINDS_X);
}

static void services(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	count(rs, fam, NFTSET_COUNTED, p);
	for (int i = 0; i < DISPATCHES; i++)
		dispatch(rs, fam, NFTSET_FRONTENDS, NFTSET_KINDS);
	/*
	 * REJ-05, except for an address of this node, whose other ports are the node's own. Through
	 * a map: while a flush of the ruleset is committed, all maps are empty, sets are not, and
	 * some rules still run. The lookup then fails, and REJ-06 drops the packet.
	 */
	RULE(rs, fam, DADDR, IN(NFTSET_CLUSTER_IPS), FIB_TYPE(DADDR, NEQ, LOCAL), COUNTER,
	     META_SET_TO(PRIORITY, NFT_KIND_REJECT), META(PRIORITY), MASK(NFT_KIND_MASK),
	     VMAP(NFTSET_KINDS));
}

/* prerouting and output: the first packet of a connection, before it is routed */
static void entry(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, DADDR, IN(NFTSET_VIPS), JUMP("services"));
}

static void entry_pre(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	plane_localhost_pre(rs, fam, p);
	entry(rs, fam, p);
}

/*
 * REJ-06, after REJ-05 (REJ-07) and after the nat chains of all other proxies: an address that
 * another proxy serves is not unknown, during a takeover in either direction or beside vipd. An
 * address of this host inside a service CIDR is a configuration error, but stays reachable.
 */
static void unknown_address(struct nft_rules *rs, enum ipfam fam,
			    const struct plane_rules_params *p)
{
	RULE(rs, fam, DADDR, IN(NFTSET_SERVICE_CIDRS), FIB_TYPE(DADDR, NEQ, LOCAL), COUNTER, DROP);
}

/*
 * A packet that leaves through its input interface. To the destination itself, without a router in
 * between, it does not loop: addresses of other nodes are in `vips`, too, as load balancer
 * addresses and external IPs. A packet translated to an endpoint at such an address does not loop
 * either, unless the endpoint's address and port are a frontend. Then the packet passes only if
 * postrouting will masquerade it for its external frontend: with an address of this host as its
 * source it is dropped when it returns (IPv4: as a martian).
 */
static void vip_loop(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, NEIGHBOUR(NFTSET_HOPS), RETURN);
	RULE(rs, fam, CT_HAS(STATUS, IPS_DST_NAT), ORIGINAL_TUPLE, IN(NFTSET_MASQ_FRONTENDS),
	     FIB_TYPE(SADDR, NEQ, LOCAL), RETURN);
	/* The word is not needed, but nft prints a map only with its use. */
	RULE(rs, fam, TUPLE, MAP(NFTSET_FRONTENDS), META_SET(PRIORITY), COUNTER, DROP);
	RULE(rs, fam, CT_HAS(STATUS, IPS_DST_NAT), RETURN);
	RULE(rs, fam, COUNTER, DROP);
}

/* The end of a rule: masquerade if the original destination is a cluster IP. */
#define MASQUERADE_CLUSTER_IP ORIGINAL_DADDR, IN(NFTSET_CLUSTER_IPS), MASQUERADE

/*
 * Match packets that are not from pods in postrouting, by interface: another interface, another
 * bridge, or this host. With br_netfilter a packet between two ports of a bridge has no
 * input interface, like one from this host; pod to pod over a bridge must keep its source
 * (MASQ-13), so packets from and to the same bridge are recognised by the output interface.
 */
static void masquerade_by_ifname(struct nft_rules *rs, enum ipfam fam,
				 const struct plane_rules_params *p)
{
	bool is_prefix = p->detect == DETECT_LOCAL_PREFIX;

	RULE(rs, fam, META_IS(IIF, NEQ, 0), IFNAME(IIFNAME, NEQ, p->ifname, is_prefix),
	     MASQUERADE_CLUSTER_IP);
	RULE(rs, fam, META_IS(IIF, EQ, 0), IFNAME(OIFNAME, NEQ, p->ifname, is_prefix),
	     MASQUERADE_CLUSTER_IP);
	RULE(rs, fam, META_IS(IIF, EQ, 0), FIB_TYPE(SADDR, EQ, LOCAL), MASQUERADE_CLUSTER_IP);
}

/*
 * Cluster IPs: clients that are not pods, or all (MASQ-05); without detection no rule (MASQ-01).
 * What costs least comes first: most connections are from pods and end a rule there.
 */
static void masquerade_cluster_ips(struct nft_rules *rs, enum ipfam fam,
				   const struct plane_rules_params *p)
{
	if (p->is_masquerade_all)
		RULE(rs, fam, MASQUERADE_CLUSTER_IP);
	else if (plane_has_detector(p, fam) && plane_detects_by_ifname(p))
		masquerade_by_ifname(rs, fam, p);
	else if (plane_has_detector(p, fam))
		RULE(rs, fam, SADDR, NOT_IN(NFTSET_POD_CIDRS), MASQUERADE_CLUSTER_IP);
}

static void postrouting(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, CT_LACKS(STATUS, IPS_DST_NAT), RETURN);
	/* Clear the scratch word: queueing disciplines use the packet priority. */
	RULE(rs, fam, META_SET_TO(PRIORITY, 0));
	/* Hairpin (MASQ-09) */
	RULE(rs, fam, SADDR, DPORT, DADDR, IN(NFTSET_ENDPOINT_ADDRS), MASQUERADE);
	plane_masquerade_frontends(rs, fam, p);
	masquerade_cluster_ips(rs, fam, p);
}

/*
 * An INVALID packet of a backend is not translated and leaves with the backend's address; the
 * client, which has no such connection, answers with a reset, and the reset ends the connection. At
 * the input hook this host would send the reset, for connections that it masquerades to a remote
 * backend. Only addresses and ports of backends match: asymmetric routes of other hosts, and other
 * ports of a host with a hostNetwork endpoint, are not affected. conntrack's liberal mode, for
 * nodes with asymmetric routes to endpoints, leaves the rule out, as in kube-proxy's mode iptables.
 */
static void drop_invalid(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	if (!p->is_tcp_liberal)
		RULE(rs, fam, CT_STATE(INVALID), SADDR, SPORT, SADDR, IN(NFTSET_ENDPOINT_ADDRS),
		     COUNTER, DROP);
}

/*
 * REJ-17. A router sends the packets of a load balancer address or external IP to this node.
 * One that this node does not translate would go back to the router, and loop until its hop limit
 * is reached. nat chains see neither an INVALID packet nor one that returns with the conntrack
 * entry of a first pass, from a pod to the router. A packet that this node routes elsewhere passes.
 */
static void forward(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	/* Packets of established connections meet this rule only. */
	RULE(rs, fam, CT_LACKS(STATE, NFT_CT_STATE_NEW | NFT_CT_STATE_INVALID), RETURN);
	RULE(rs, fam, DADDR, IN(NFTSET_VIPS), RETURNS(NFTSET_PAIRS), JUMP("vip_loop"));
	drop_invalid(rs, fam, p);
}

/*
 * dnat to the backend whose local id is in the scratch word. One chain for all kinds with affinity:
 * the kernel visits all rules that look the map up for each new one, and for each new element.
 */
static void aff_dnat(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, L4PROTOS, META(PRIORITY), MAP(NFTSET_AFF_ENDPOINTS), DNAT);
}

/* A client for which the affinity map has no room: plain balancing. */
static void aff_full(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	RULE(rs, fam, COUNTER, JUMP("aff_dnat"));
}

/* In order of creation: chains without jumps first. */
static const struct {
	struct nft_chain chain;
	void (*build)(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p);
} chains[] = {
	{ { "reject_conn", NULL, 0, 0 }, reject_conn },
	{ { "drop_conn", NULL, 0, 0 }, drop_conn },
	{ { "aff_dnat", NULL, 0, 0 }, aff_dnat },
	{ { "aff_full", NULL, 0, 0 }, aff_full },
	{ { "xl_outside", NULL, 0, 0 }, xl_outside },
	{ { "xl", NULL, 0, 0 }, xl },
	{ { "fw_check", NULL, 0, 0 }, fw_check },
	{ { "fw", NULL, 0, 0 }, fw },
	{ { "services", NULL, 0, 0 }, services },
	{ { "vip_loop", NULL, 0, 0 }, vip_loop },
	{ { "prerouting", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST }, entry_pre },
	{ { "output", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST }, entry },
	{ { "prerouting_last", "nat", NF_INET_PRE_ROUTING, NFT_PRI_NAT_LAST }, unknown_address },
	{ { "output_last", "nat", NF_INET_LOCAL_OUT, NFT_PRI_NAT_LAST }, unknown_address },
	{ { "localhost_out", "filter", NF_INET_LOCAL_OUT, PLANE_PRI_LOCALHOST_OUT },
	  plane_localhost_out },
	{ { "localhost_in", "filter", NF_INET_LOCAL_IN, PLANE_PRI_LOCALHOST_IN },
	  plane_localhost_in },
	{ { "postrouting", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC }, postrouting },
	{ { "input", "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER }, drop_invalid },
	{ { "forward", "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER }, forward },
};

static const struct nft_chain *chain_at(size_t i)
{
	return i < ARRAY_SIZE(chains) ? &chains[i].chain : NULL;
}

static bool build(const void *params, struct nft_rules *rs, enum ipfam fam, size_t i)
{
	if (rs != NULL)
		chains[i].build(rs, fam, params);
	return true;
}

const struct plane_sets nft_plane_sets = {
	.begin = 0,
	.end = NFTSET_N,
	.vips = NFTSET_VIPS,
	.cluster_ips = NFTSET_CLUSTER_IPS,
	.local_backends = NFTSET_LOCAL_BACKENDS,
	.masq = NFTSET_MASQ_FRONTENDS,
	.masq_hosts = NFTSET_MASQ_HOSTS,
	.counted = NFTSET_COUNTED,
	.rejected = NFTSET_REJECTED,
	.pod_cidrs = NFTSET_POD_CIDRS,
};

const struct nft_schema nft_schema = {
	.table = "vipd",
	.comment = "vipd layout ",
	.version = NFT_LAYOUT_VERSION,
	.begin = 0,
	.end = NFTSET_N,
	.ranges = NFTSET_POD_CIDRS,
	.has_verdict_maps = true,
	.chain = chain_at,
	.build = build,
};

/* dnat to @endpoints[pool . random slot] */
static void pick(struct nft_rules *rs, enum ipfam fam, uint32_t slots)
{
	RULE(rs, fam, L4PROTOS, POOL, RANDOM(slots), MAP(NFTSET_ENDPOINTS), DNAT);
}

/* dnat to @endpoints[pool . slot of the client]; plan_table_pick() computes the same slot. */
static void pick_hashed(struct nft_rules *rs, enum ipfam fam, const struct nft_kind_info *kind)
{
	RULE(rs, fam, L4PROTOS, POOL, AT(2, 2), SADDR, WHEN(kind->has_port, SPORT),
	     JHASH(kind->slots, PLAN_HASH_SEED), MAP(NFTSET_ENDPOINTS), DNAT);
}

/*
 * Key and data of the affinity entry of (pool, client). `flip`: 0, or NFT_POOL_LOCAL for the entry
 * of the pool's peer. nft's word for the data in IPv4; in IPv6 the key occupies that word.
 */
#define AFFINITY_ENTRY(flip)                                                            \
	META(PRIORITY), MASK_XOR(NFT_POOL_MASK, flip), SADDR, AT(4, 5), META(PRIORITY), \
		WHEN((flip) != 0, MASK_XOR(UINT32_MAX, flip))

/* Pick a local id, and store it in the affinity map; `affinity_s` 0: it has no room. */
static void pick_sticky(struct nft_rules *rs, enum ipfam fam, uint32_t slots, uint32_t affinity_s)
{
	RULE(rs, fam, POOL, RANDOM(slots), MAP(NFTSET_AFF_SLOTS), META_SET(PRIORITY),
	     WHEN(affinity_s != 0, AFFINITY_ENTRY(0),
		  ADD(NFTSET_AFFINITY, UINT64_C(1000) * affinity_s)),
	     JUMP(affinity_s != 0 ? "aff_dnat" : "aff_full"));
}

/* A client with an affinity entry: refresh it; if its backend is gone, delete the entry. */
static void follow_affinity(struct nft_rules *rs, enum ipfam fam, uint32_t affinity_s)
{
	RULE(rs, fam, POOL, SADDR, MAP(NFTSET_AFFINITY), META_SET(PRIORITY), AFFINITY_ENTRY(0),
	     UPDATE(NFTSET_AFFINITY, UINT64_C(1000) * affinity_s), JUMP("aff_dnat"));
	RULE(rs, fam, AFFINITY_ENTRY(0), DELETE(NFTSET_AFFINITY));
}

/*
 * A client with an affinity entry of the pool's peer only (SVC-32): refresh that entry and use the
 * same backend if it is in this pool. The scratch word is set back to this pool before any
 * expression can end the rule, because the following rules pick by it.
 */
static void adopt_peer(struct nft_rules *rs, enum ipfam fam, uint32_t affinity_s)
{
	RULE(rs, fam, META(PRIORITY), MASK_XOR(NFT_POOL_MASK, NFT_POOL_LOCAL), SADDR,
	     MAP(NFTSET_AFFINITY), META_SET(PRIORITY), META(PRIORITY),
	     MASK_XOR(UINT32_MAX, NFT_POOL_LOCAL), META_SET(PRIORITY),
	     AFFINITY_ENTRY(NFT_POOL_LOCAL), UPDATE(NFTSET_AFFINITY, UINT64_C(1000) * affinity_s),
	     JUMP("aff_dnat"));
}

void nft_rules_pick(struct nft_rules *rs, enum ipfam fam, const struct nft_kind_info *kind)
{
	bool is_exact = kind->slots == kind->safe_slots;
	int tries = is_exact ? 0 : CLASS_TRIES;

	if (kind->is_hashed) {
		pick_hashed(rs, fam, kind);
		return;
	}
	if (kind->affinity_s == 0) {
		for (int i = 0; i < tries; i++)
			pick(rs, fam, kind->slots);
		pick(rs, fam, kind->safe_slots);
		return;
	}
	follow_affinity(rs, fam, kind->affinity_s);
	adopt_peer(rs, fam, kind->affinity_s);
	for (int i = 0; i < tries; i++)
		pick_sticky(rs, fam, kind->slots, kind->affinity_s);
	pick_sticky(rs, fam, kind->safe_slots, kind->affinity_s);
	for (int i = 0; i < tries; i++)
		pick_sticky(rs, fam, kind->slots, 0);
	pick_sticky(rs, fam, kind->safe_slots, 0);
}
