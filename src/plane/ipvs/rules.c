/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/rules.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter_ipv4.h>

#include "nft/rule.h"

/* IPVS sees packets of this host at -98 of its output hook, nat at -100. */
#define PRI_BIRTH_END (-99)
#define PRI_OUT_DONE (-97)
/* IPVS takes captured packets at 98 and 99 of the input hook. */
#define PRI_IN_LAST 97
#define PRI_LATE 110
#define PRI_CLEAR (NF_IP_PRI_NAT_SRC + 50)

/* Chains of counters: after the choice of a destination, before the choice of a source. */
#define PRI_ASKED (NF_IP_PRI_NAT_DST + 10)
#define PRI_REACHED (NF_IP_PRI_NAT_SRC - 10)

/* skb->priority from prerouting to postrouting: the packet came through an interface of a pod. */
#define PRIORITY_POD UINT32_C(0x76697064)

/* A rule for both families: without addresses and sets. */
#define RULE_ANY(rs, ...) RULE(rs, IPFAM_V4, __VA_ARGS__)

/* The tag of the mark is `tag` (`op` EQ), or another one (NEQ). */
#define TAG(op, tag) META(MARK), MASK(IPVS_MARK_MASK), IS(op, tag)

/*
 * The tag alone: rules of other software match single bits of a mark (CNI plugin portmap: 0x2000),
 * and would match ids of pools.
 */
static void keep_tag(struct nft_rules *rs, uint32_t tag)
{
	RULE_ANY(rs, TAG(EQ, tag), META_SET_TO(MARK, tag));
}

/* Count a packet that will be rejected in the elements of its frontend, if these sets exist. */
static void count_rejected(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	static const enum nft_set_id sets[] = { IPVSSET_COUNTED, IPVSSET_REJECTED };

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (nft_set_exists(sets[i], p->common.counting))
			RULE(rs, fam, FAMILY, L4PROTOS, TUPLE, IN(sets[i]));
}

/* --- chains that are jump targets --- */

/* A synchronous ICMP error would cost a TCP client its first retransmission: a second. */
static void refuse(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, L4PROTO(IPPROTO_TCP), REJECT_TCP);
	RULE_ANY(rs, REJECT_PORT_ANY);
}

static void no_endpoints(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		count_rejected(rs, fam, p);
	RULE_ANY(rs, COUNTER, GOTO("refuse"));
}

static void no_local(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		count_rejected(rs, fam, p);
	RULE_ANY(rs, COUNTER, DROP);
}

/*
 * An established connection comes here if another process changed the table while the packet was in
 * transit: a retransmission is better than a reset.
 */
static void unknown_port(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	/* Packets of all states come here: count first packets of connections. */
	RULE_ANY(rs, CT_STATE(NEW), COUNTER);
	RULE_ANY(rs, CT_STATE(ESTABLISHED), DROP);
	/* Captured, but forwarded: policy routing is missing, and vipd will repair it. */
	RULE_ANY(rs, TAG(EQ, p->marks.tag), DROP);
	RULE_ANY(rs, GOTO("refuse"));
}

/*
 * REJ-17: not captured, and back to the router that sent it, but not to the destination itself: the
 * address of another node may be a load balancer address or external IP. With br_netfilter a bridge
 * forwards captured packets of a neighbour's IPVS to an endpoint (0020), from and to itself.
 */
static void vip_loop(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		RULE(rs, fam, FAMILY, DADDR, IN(IPVSSET_VIPS), NEIGHBOUR(IPVSSET_HOPS), RETURN);
		RULE(rs, fam, FAMILY, DADDR, IN(IPVSSET_VIPS), TAG(NEQ, p->marks.tag),
		     RETURNS(IPVSSET_PAIRS), COUNTER, DROP);
	}
}

static void unknown_address(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	/* Packets of all states, as in unknown_port(). */
	RULE_ANY(rs, CT_STATE(NEW), COUNTER);
	RULE_ANY(rs, DROP);
}

/*
 * Return if a socket of this host matches. Without a socket the kernel would answer with a reset.
 */
static void no_socket(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, SOCKET_WILDCARD, IS_BYTE(EQ, false), RETURN);
	RULE_ANY(rs, SOCKET_WILDCARD, IS_BYTE(EQ, true), RETURN);
	RULE_ANY(rs, COUNTER, DROP);
}

/* FAMILY is redundant, but nft needs it to print the rule. */
#define MARK_FROM(map) FAMILY, L4PROTOS, TUPLE, MAP(map), META_SET(MARK)

/* externalTrafficPolicy Local, for pods and this host: the cluster pool (POL-25) */
static void inside(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	RULE(rs, fam, MARK_FROM(IPVSSET_FE_IN), RETURN);
}

/*
 * loadBalancerSourceRanges (REJ-10): the source address must be in a range of the pool whose mark
 * the packet has temporarily.
 */
static void guard(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	plane_ranges(rs, fam, &p->common, NFT_META_MARK, IPVSSET_RANGES);
	count_rejected(rs, fam, p);
	RULE_ANY(rs, COUNTER, DROP);
}

/* The destination is in `vips`. */
static void assign(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	const bool has_detector = plane_has_detector(&p->common, fam);
	const char *in = fam == IPFAM_V6 ? "inside6" : "inside4";

	/* A DNS cache of this node has the cluster IP, and excludes its packets from tracking. */
	RULE(rs, fam, CT_STATE(UNTRACKED), FAMILY, DADDR, IN(IPVSSET_CLUSTER_IPS),
	     FIB_TYPE(DADDR, EQ, LOCAL), RETURN);
	RULE(rs, fam, FAMILY, L4PROTOS, CT_STATE(NEW), TUPLE, MAP(IPVSSET_GUARDED), META_SET(MARK),
	     JUMP(fam == IPFAM_V6 ? "guard6" : "guard4"));
	if (has_detector && plane_detects_by_ifname(&p->common))
		RULE(rs, fam, CT_STATE(NEW), PLANE_POD(&p->common, EQ),
		     META_SET_TO(PRIORITY, PRIORITY_POD));
	RULE(rs, fam, MARK_FROM(IPVSSET_FE), RETURN);
	/*
	 * A removed port of a cluster IP: established connections go on while the backends drain;
	 * IPVS finds them by address and port.
	 */
	RULE(rs, fam, FAMILY, DADDR, IN(IPVSSET_CLUSTER_IPS), CT_STATE(ESTABLISHED),
	     META_SET_TO(MARK, p->marks.tag), RETURN);
	if (has_detector)
		RULE(rs, fam, PLANE_POD(&p->common, EQ), GOTO(in));
	RULE(rs, fam, FIB_TYPE(SADDR, EQ, LOCAL), GOTO(in));
	RULE(rs, fam, MARK_FROM(IPVSSET_FE_OUT), RETURN);
}

/*
 * `tag` 0: for all packets. Else for those with it, before IPVS, which compares the whole mark:
 * without bits that foreign chains have set (kube-proxy's 0x4000: masquerade, Calico's 0x10000:
 * accepted). Also for later packets of a connection: IPVS may choose another backend for them.
 */
static void assign_jumps(struct nft_rules *rs, uint32_t tag)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		RULE(rs, fam, WHEN(tag != 0, TAG(EQ, tag)), FAMILY, DADDR, IN(IPVSSET_VIPS),
		     JUMP(fam == IPFAM_V6 ? "assign6" : "assign4"));
}

/*
 * An unknown port of a cluster IP (REJ-05). A cluster IP that is also an address of this node is
 * exempt: other ports are the node's.
 */
static void unknown(struct nft_rules *rs, enum ipfam fam, uint32_t tag)
{
	RULE(rs, fam, FAMILY, DADDR, IN(IPVSSET_CLUSTER_IPS), WHEN(tag != 0, TAG(NEQ, tag)),
	     FIB_TYPE(DADDR, NEQ, LOCAL), L4PROTOS, GOTO("unknown_port"));
}

static void unknown_targets(struct nft_rules *rs)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		unknown(rs, fam, 0);
		/* An unallocated cluster IP (REJ-06). */
		RULE(rs, fam, FAMILY, DADDR, IN(IPVSSET_SERVICE_CIDRS), NOT_IN(IPVSSET_CLUSTER_IPS),
		     FIB_TYPE(DADDR, NEQ, LOCAL), GOTO("unknown_address"));
	}
}

/* Frontends without endpoints reject new connections; established ones have another state. */
static void reject_new(struct nft_rules *rs, uint32_t mark, const char *chain)
{
	RULE_ANY(rs, META_IS(MARK, EQ, mark), CT_STATE(NEW), GOTO(chain));
}

static void capture(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, REPLY, RETURN);
	RULE_ANY(rs, CT_HAS(STATUS, IPS_DST_NAT), RETURN);
	if (p->is_retiring) /* the first packet of a connection */
		RULE_ANY(rs, CT_LACKS(STATUS, IPS_CONFIRMED), RETURN);
	assign_jumps(rs, 0);
	if (p->is_retiring)
		return;
	/* Not later: for a packet routed to this host the kernel cannot send ICMP from the VIP. */
	reject_new(rs, p->marks.tag | IPVS_MARK_REJECT, "no_endpoints");
	reject_new(rs, p->marks.tag | IPVS_MARK_DROP, "no_local");
}

#define ICMP(fam) FAMILY, L4PROTO((fam) == IPFAM_V6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)
/* A ping of a cluster IP. */
#define PING(fam)                                                                               \
	ICMP(fam), ICMP_TYPE, IS_BYTE(EQ, (fam) == IPFAM_V6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO), \
		DADDR, IN(IPVSSET_CLUSTER_IPS)

/*
 * ICMP errors about answers go to the frontend's address: IPVS takes them at input, also for an
 * endpoint of this host, for which it leaves forwarded ones alone.
 */
static void errors(struct nft_rules *rs, enum ipfam fam)
{
	static const enum nft_set_id maps[] = { IPVSSET_FE, IPVSSET_FE_OUT };

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		RULE(rs, fam, ICMP(fam), CT_STATE(RELATED), RELATED_TUPLE, MAP(maps[i]),
		     META_SET(MARK));
}

/* --- base chains --- */

static void localhost_out(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		plane_localhost_out(rs, fam, &p->common);
}

static void localhost_in(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		plane_localhost_in(rs, fam, &p->common);
}

static void pre(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		plane_localhost_pre(rs, fam, &p->common);
	capture(rs, p);
	for (int fam = 0; fam < IPFAM_N; fam++)
		errors(rs, fam);
	keep_tag(rs, p->marks.tag);
	/*
	 * A cluster IP answers pings: a captured packet is delivered here, and the kernel replies.
	 */
	if (!p->is_retiring)
		RULE(rs, IPFAM_V6, PING(IPFAM_V6), META_SET_TO(MARK, p->marks.tag));
}

/* Type route: a mark sends the packet to lo. */
static void out_first(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	/* the second time, after IPVS */
	RULE_ANY(rs, TAG(EQ, p->marks.tag), RETURN);
	capture(rs, p);
	RULE_ANY(rs, TAG(EQ, p->marks.tag), META_SET_TO(MARK, p->marks.birth));
}

/*
 * Another proxy's nat, of vipd's nft plane before its removal or of kube-proxy, has precedence at a
 * shared frontend: the packet takes the route to its new destination. Its own bits of the mark stay
 * (kube-proxy's 0x4000: masquerade).
 */
static void nat_wins(struct nft_rules *rs, uint32_t tag)
{
	RULE_ANY(rs, TAG(EQ, tag), CT_HAS(STATUS, IPS_DST_NAT), META(MARK), MASK(~IPVS_MARK_MASK),
		 META_SET(MARK));
}

/* REJ-05 and REJ-06 follow nat: an address that another proxy serves is not unknown. */
static void out_last(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	assign_jumps(rs, p->marks.birth);
	RULE_ANY(rs, TAG(EQ, p->marks.birth), CT_LACKS(STATUS, IPS_DST_NAT),
		 META_SET_TO(MARK, p->marks.tag));
	if (p->is_retiring)
		return;
	RULE_ANY(rs, TAG(EQ, p->marks.tag), RETURN);
	RULE_ANY(rs, REPLY, RETURN);
	RULE_ANY(rs, CT_HAS(STATUS, IPS_DST_NAT), RETURN);
	unknown_targets(rs);
}

static void in(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	/*
	 * An INVALID packet of a backend in a connection that this host masquerades: the host would
	 * answer with a reset. IPVS handles an INVALID packet to a frontend: of a connection
	 * without translation conntrack sees only one direction.
	 */
	RULE_ANY(rs, TAG(NEQ, p->marks.tag), L4PROTO(IPPROTO_TCP), CT_STATE(INVALID),
		 FIB_TYPE(DADDR, EQ, LOCAL), JUMP("no_socket"));
	for (int fam = 0; fam < IPFAM_N && !p->is_retiring; fam++)
		unknown(rs, fam, p->marks.tag);
}

/*
 * IPVS has no entry of the connection. The kernel cannot answer from an address that is not local:
 * without a reset the client would wait for its timeout.
 */
static void late(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, TAG(EQ, p->marks.tag), FIB_TYPE(DADDR, NEQ, LOCAL), L4PROTO(IPPROTO_TCP),
		 REJECT_TCP);
	RULE_ANY(rs, TAG(EQ, p->marks.tag), FIB_TYPE(DADDR, NEQ, LOCAL), L4PROTOS, DROP);
}

static void forward(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	if (p->is_retiring)
		return;
	unknown_targets(rs);
	RULE_ANY(rs, CT_HAS(STATE, NFT_CT_STATE_NEW | NFT_CT_STATE_INVALID), GOTO("vip_loop"));
}

static void ping(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	if (!p->is_retiring)
		RULE(rs, IPFAM_V4, PING(IPFAM_V4), REDIRECT);
}

/* Masquerade all sources, or sources outside detect-local (MASQ-05); else no rule (MASQ-01) */
static void masquerade_cluster_ips(struct nft_rules *rs, enum ipfam fam,
				   const struct ipvs_rules_params *p)
{
	bool is_all = p->common.is_masquerade_all;
	bool is_by_ifname = plane_detects_by_ifname(&p->common);

	if (is_all || plane_has_detector(&p->common, fam))
		RULE(rs, fam, FAMILY, ORIGINAL_DADDR, IN(IPVSSET_CLUSTER_IPS),
		     WHEN(!is_all && is_by_ifname, META_IS(PRIORITY, NEQ, PRIORITY_POD)),
		     WHEN(!is_all && !is_by_ifname, SADDR, NOT_IN(IPVSSET_POD_CIDRS)), MASQUERADE);
}

static void post(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, TAG(NEQ, p->marks.tag), RETURN);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		/* Hairpin (MASQ-09) */
		RULE(rs, fam, FAMILY, SADDR, DADDR, IN(IPVSSET_HAIRPINS), MASQUERADE);
		plane_masquerade_frontends(rs, fam, &p->common);
		masquerade_cluster_ips(rs, fam, p);
	}
}

/* A tunnel copies the mark to its outer packet, which would be captured again. */
static void clear(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, TAG(EQ, p->marks.tag), NUMBER(0), META_SET(MARK),
		 WHEN(plane_detects_by_ifname(&p->common), META_SET(PRIORITY)));
}

/*
 * Count connections: a nat chain sees only first packets, and only until another nat chain has
 * chosen a destination.
 */
static void asked(struct nft_rules *rs, uint32_t tag)
{
	RULE_ANY(rs, TAG(NEQ, tag), RETURN);
	for (int fam = 0; fam < IPFAM_N; fam++) /* RETURN: no other family can match */
		RULE(rs, fam, FAMILY, L4PROTOS, TUPLE, IN(IPVSSET_COUNTED), RETURN);
}

#define MARK_ASKED(map) ORIGINAL_TUPLE, MAP(map), META_SET(MARK)

/* The pool of the frontend to which the client connects, as assign() chooses it. */
static void mark_asked_pool(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	bool is_by_ifname = plane_detects_by_ifname(&p->common);

	RULE(rs, fam, FAMILY, MARK_ASKED(IPVSSET_FE));
	RULE(rs, fam, FAMILY, MARK_ASKED(IPVSSET_FE_OUT));
	if (plane_has_detector(&p->common, fam))
		RULE(rs, fam, FAMILY, WHEN(is_by_ifname, META_IS(PRIORITY, EQ, PRIORITY_POD)),
		     WHEN(!is_by_ifname, SADDR, IN(IPVSSET_POD_CIDRS)), MARK_ASKED(IPVSSET_FE_IN));
	RULE(rs, fam, FAMILY, FIB_TYPE(SADDR, EQ, LOCAL), MARK_ASKED(IPVSSET_FE_IN));
	/* The mark of a service by address and port has no pool. */
	RULE(rs, fam, FAMILY, META_IS(MARK, EQ, p->marks.tag), MARK_ASKED(IPVSSET_IDLE));
}

/* IPVS has chosen a backend. */
static void reached(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	RULE_ANY(rs, TAG(NEQ, p->marks.tag), RETURN);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		mark_asked_pool(rs, fam, p);
		RULE(rs, fam, FAMILY, L4PROTOS, META(MARK), DADDR, DPORT, IN(IPVSSET_REACHED));
	}
	keep_tag(rs, p->marks.tag);
}

/* Targets of jumps first. */
static const struct {
	struct nft_chain chain;
	void (*build)(struct nft_rules *rs, const struct ipvs_rules_params *p);
	enum plane_counting exists_at;
	/* instead of `build`: chain of one family */
	void (*build_of)(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p);
	enum ipfam fam;
	/* instead of `build`: chain of packets with the tag; `is_birth`: of this host's packets */
	void (*build_tagged)(struct nft_rules *rs, uint32_t tag);
	bool is_birth;
} chains[] = {
	{ { "refuse", NULL, 0, 0 }, refuse },
	{ { "no_endpoints", NULL, 0, 0 }, no_endpoints },
	{ { "no_local", NULL, 0, 0 }, no_local },
	{ { "unknown_port", NULL, 0, 0 }, unknown_port },
	{ { "vip_loop", NULL, 0, 0 }, vip_loop },
	{ { "unknown_address", NULL, 0, 0 }, unknown_address },
	{ { "no_socket", NULL, 0, 0 }, no_socket },
	{ { "inside4", NULL, 0, 0 }, .build_of = inside, .fam = IPFAM_V4 },
	{ { "inside6", NULL, 0, 0 }, .build_of = inside, .fam = IPFAM_V6 },
	{ { "guard4", NULL, 0, 0 }, .build_of = guard, .fam = IPFAM_V4 },
	{ { "guard6", NULL, 0, 0 }, .build_of = guard, .fam = IPFAM_V6 },
	{ { "assign4", NULL, 0, 0 }, .build_of = assign, .fam = IPFAM_V4 },
	{ { "assign6", NULL, 0, 0 }, .build_of = assign, .fam = IPFAM_V6 },
	{ { "pre", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE }, pre },
	{ { "out_first", "route", NF_INET_LOCAL_OUT, NF_IP_PRI_MANGLE }, out_first },
	{ { "localhost_out", "filter", NF_INET_LOCAL_OUT, PLANE_PRI_LOCALHOST_OUT },
	  localhost_out },
	{ { "localhost_in", "filter", NF_INET_LOCAL_IN, PLANE_PRI_LOCALHOST_IN }, localhost_in },
	{ { "pre_nat", "filter", NF_INET_PRE_ROUTING, PRI_BIRTH_END }, .build_tagged = nat_wins },
	/* Type route: a packet without the mark takes another route. */
	{ { "out_nat", "route", NF_INET_LOCAL_OUT, PRI_BIRTH_END },
	  .build_tagged = nat_wins,
	  .is_birth = true },
	{ { "out_last", "filter", NF_INET_LOCAL_OUT, PRI_BIRTH_END }, out_last },
	/*
	 * IPVS has chosen a backend: packets to another host pass the output hook from its
	 * beginning, those to this host, of this host, go on behind IPVS.
	 */
	{ { "out_again", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_RAW }, .build_tagged = keep_tag },
	{ { "out_done", "filter", NF_INET_LOCAL_OUT, PRI_OUT_DONE }, .build_tagged = keep_tag },
	{ { "in", "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER }, in },
	{ { "in_last", "filter", NF_INET_LOCAL_IN, PRI_IN_LAST }, .build_tagged = assign_jumps },
	{ { "late", "filter", NF_INET_LOCAL_IN, PRI_LATE }, late },
	{ { "forward", "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER }, forward },
	{ { "ping", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST }, ping },
	{ { "post", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC }, post },
	{ { "clear", "filter", NF_INET_POST_ROUTING, PRI_CLEAR }, clear },
	{ { "asked", "nat", NF_INET_PRE_ROUTING, PRI_ASKED },
	  .exists_at = PLANE_COUNT_SERVICES,
	  .build_tagged = asked },
	{ { "asked_out", "nat", NF_INET_LOCAL_OUT, PRI_ASKED },
	  .exists_at = PLANE_COUNT_SERVICES,
	  .build_tagged = asked,
	  .is_birth = true },
	{ { "reached", "nat", NF_INET_POST_ROUTING, PRI_REACHED }, reached, PLANE_COUNT_ENDPOINTS },
	/* The backend is this host: the packet stays here. */
	{ { "reached_in", "nat", NF_INET_LOCAL_IN, PRI_REACHED }, reached, PLANE_COUNT_ENDPOINTS },
};

static const struct nft_chain *chain_at(size_t i)
{
	return i < ARRAY_SIZE(chains) ? &chains[i].chain : NULL;
}

static bool build(const void *ctx, struct nft_rules *rs, enum ipfam fam, size_t i)
{
	const struct ipvs_rules_params *p = ctx;

	if (p->common.counting < chains[i].exists_at)
		return false;
	if (rs == NULL)
		return true;
	if (chains[i].build_of != NULL)
		chains[i].build_of(rs, chains[i].fam, p);
	else if (chains[i].build_tagged != NULL)
		chains[i].build_tagged(rs, chains[i].is_birth ? p->marks.birth : p->marks.tag);
	else
		chains[i].build(rs, p);
	return true;
}

const struct plane_sets ipvs_plane_sets = {
	.is_inet = true,
	.begin = IPVSSET_BEGIN,
	.end = IPVSSET_REMEMBERED,
	.vips = IPVSSET_VIPS,
	.cluster_ips = IPVSSET_CLUSTER_IPS,
	.local_backends = IPVSSET_LOCAL_BACKENDS,
	.masq = IPVSSET_MASQ,
	.masq_hosts = IPVSSET_MASQ_HOSTS,
	.counted = IPVSSET_COUNTED,
	.rejected = IPVSSET_REJECTED,
	.pod_cidrs = IPVSSET_POD_CIDRS,
};

const struct nft_schema ipvs_schema = {
	.table = IPVS_TABLE,
	.comment = IPVS_TABLE_COMMENT,
	.version = IPVS_LAYOUT_VERSION,
	.family = NFPROTO_INET,
	.begin = IPVSSET_BEGIN,
	.end = NFTSET_END,
	.ranges = IPVSSET_POD_CIDRS,
	.chain = chain_at,
	.build = build,
};
