/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/rules.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>

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

static const char *set_name(enum nft_set_id id, enum ipfam fam)
{
	return nft_set_desc(id, fam)->name;
}

/* --- conditions --- */

/* Compare the tag of the mark with `tag` (`op`: NFT_CMP_EQ or NFT_CMP_NEQ). */
static void tag_is(struct nft_rules *rs, uint32_t op, uint32_t tag)
{
	nft_expr_meta(rs, NFT_META_MARK, 0);
	nft_expr_mask(rs, 0, IPVS_MARK_MASK);
	nft_expr_cmp(rs, op, 0, &tag, sizeof(tag));
}

static void rule_tagged(struct nft_rules *rs, uint32_t tag)
{
	nft_rule_begin(rs);
	tag_is(rs, NFT_CMP_EQ, tag);
}

static void rule_of_family(struct nft_rules *rs, enum ipfam fam)
{
	nft_rule_begin(rs);
	nft_match_family(rs, fam);
}

/*
 * The tag alone: rules of other software match single bits of a mark (CNI plugin portmap: 0x2000),
 * and would match ids of pools.
 */
static void keep_tag(struct nft_rules *rs, uint32_t tag)
{
	rule_tagged(rs, tag);
	nft_expr_meta_number(rs, NFT_META_MARK, tag);
}

static void daddr_in(struct nft_rules *rs, enum ipfam fam, enum nft_set_id set)
{
	nft_match_family(rs, fam);
	nft_expr_daddr(rs, fam, 0);
	nft_expr_in(rs, 0, set_name(set, fam));
}

static void reply_return(struct nft_rules *rs)
{
	nft_rule_begin(rs);
	nft_match_reply(rs);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}

/* Return if the connection has one of these bits of its status (NFT_CMP_NEQ), or none. */
static void status_return(struct nft_rules *rs, uint32_t bits, uint32_t op)
{
	nft_rule_begin(rs);
	nft_match_ct_bits(rs, NFT_CT_STATUS, bits, op);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}

static void tag_return(struct nft_rules *rs, uint32_t op, uint32_t tag)
{
	nft_rule_begin(rs);
	tag_is(rs, op, tag);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}

/* --- counting --- */

static void tuple_in(struct nft_rules *rs, enum ipfam fam, enum nft_set_id set)
{
	nft_match_family(rs, fam);
	nft_expr_l4protos(rs);
	nft_expr_tuple(rs, fam);
	nft_expr_in(rs, 0, set_name(set, fam));
}

/* Count a packet that will be rejected in the elements of its frontend, if these sets exist. */
static void count_refused(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	static const enum nft_set_id sets[] = { IPVSSET_COUNTED, IPVSSET_REFUSED };

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		if (!nft_set_exists(sets[i], p->common.counting))
			continue;
		nft_rule_begin(rs);
		tuple_in(rs, fam, sets[i]);
	}
}

static void counter_then(struct nft_rules *rs, int verdict, const char *chain)
{
	nft_rule_begin(rs);
	nft_expr_counter(rs);
	nft_expr_verdict(rs, verdict, chain);
}

/* For chains that get packets of all states: count first packets of connections. */
static void count_new(struct nft_rules *rs)
{
	nft_rule_begin(rs);
	nft_match_ct_state(rs, NFT_CT_STATE_NEW);
	nft_expr_counter(rs);
}

/* --- chains that are jump targets --- */

/* A synchronous ICMP error would cost a TCP client its first retransmission: a second. */
static void refuse(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	nft_rule_begin(rs);
	nft_match_l4proto(rs, IPPROTO_TCP);
	nft_expr_reject_tcp(rs);
	nft_rule_begin(rs);
	nft_expr_reject_port_any(rs);
}

static void no_endpoints(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		count_refused(rs, fam, p);
	counter_then(rs, NFT_GOTO, "refuse");
}

static void no_local(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		count_refused(rs, fam, p);
	counter_then(rs, NF_DROP, NULL);
}

/*
 * An established connection comes here if another process changed the table while the packet was in
 * transit: a retransmission is better than a reset.
 */
static void unknown_port(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	count_new(rs);
	nft_rule_begin(rs);
	nft_match_ct_state(rs, NFT_CT_STATE_ESTABLISHED);
	nft_expr_verdict(rs, NF_DROP, NULL);
	/* Captured, but forwarded: policy routing is missing, and vipd will repair it. */
	rule_tagged(rs, p->marks.tag);
	nft_expr_verdict(rs, NF_DROP, NULL);
	nft_rule_begin(rs);
	nft_expr_verdict(rs, NFT_GOTO, "refuse");
}

/*
 * REJ-17: not captured, and back to the router that sent it, but not to the destination itself: the
 * address of another node may be a load balancer address or external IP. With br_netfilter a bridge
 * forwards captured packets of a neighbour's IPVS to an endpoint (0020), from and to itself.
 */
static void vip_loop(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		nft_rule_begin(rs);
		daddr_in(rs, fam, IPVSSET_VIPS);
		nft_match_neighbour(rs, fam, set_name(IPVSSET_HOPS, fam));
		nft_expr_verdict(rs, NFT_RETURN, NULL);
		nft_rule_begin(rs);
		daddr_in(rs, fam, IPVSSET_VIPS);
		tag_is(rs, NFT_CMP_NEQ, p->marks.tag);
		nft_match_returns(rs, set_name(IPVSSET_PAIRS, fam));
		nft_expr_counter(rs);
		nft_expr_verdict(rs, NF_DROP, NULL);
	}
}

static void unknown_address(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	count_new(rs);
	nft_rule_begin(rs);
	nft_expr_verdict(rs, NF_DROP, NULL);
}

/*
 * Return if a socket of this host matches. Without a socket the kernel would answer with a reset.
 */
static void no_socket(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	for (uint8_t is_any = 0; is_any < 2; is_any++) {
		nft_rule_begin(rs);
		nft_expr_socket_wildcard(rs, 0);
		nft_expr_cmp(rs, NFT_CMP_EQ, 0, &is_any, sizeof(is_any));
		nft_expr_verdict(rs, NFT_RETURN, NULL);
	}
	counter_then(rs, NF_DROP, NULL);
}

static void mark_from(struct nft_rules *rs, enum ipfam fam, enum nft_set_id map)
{
	rule_of_family(rs, fam); /* redundant, but nft needs it to print the rule */
	nft_expr_l4protos(rs);
	nft_expr_tuple(rs, fam);
	nft_expr_map(rs, 0, set_name(map, fam));
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}

/* externalTrafficPolicy Local, for pods and this host: the cluster pool (POL-25) */
static void inside(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	mark_from(rs, fam, IPVSSET_FE_IN);
}

/*
 * loadBalancerSourceRanges (REJ-10): the source address must be in a range of the pool whose mark
 * the packet has temporarily.
 */
static void guard(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	plane_ranges(rs, fam, &p->common, NFT_META_MARK, IPVSSET_RANGES);
	count_refused(rs, fam, p);
	counter_then(rs, NF_DROP, NULL);
}

static void guard_jump(struct nft_rules *rs, enum ipfam fam)
{
	rule_of_family(rs, fam);
	nft_expr_l4protos(rs);
	nft_match_ct_state(rs, NFT_CT_STATE_NEW);
	nft_expr_tuple(rs, fam);
	nft_expr_map(rs, 0, set_name(IPVSSET_GUARDED, fam));
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
	nft_expr_verdict(rs, NFT_JUMP, fam == IPFAM_V6 ? "guard6" : "guard4");
}

/*
 * A removed port of a cluster IP: established connections go on while the backends drain; IPVS
 * finds them by address and port.
 */
static void ended(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	nft_rule_begin(rs);
	daddr_in(rs, fam, IPVSSET_CLUSTER_IPS);
	nft_match_ct_state(rs, NFT_CT_STATE_ESTABLISHED);
	nft_expr_meta_number(rs, NFT_META_MARK, p->marks.tag);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}

/* The destination is in `vips`. */
static void assign(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	const char *in = fam == IPFAM_V6 ? "inside6" : "inside4";

	/* A DNS cache of this node has the cluster IP, and excludes its packets from tracking. */
	nft_rule_begin(rs);
	nft_match_ct_state(rs, NFT_CT_STATE_UNTRACKED);
	daddr_in(rs, fam, IPVSSET_CLUSTER_IPS);
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_EQ);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
	guard_jump(rs, fam);
	if (plane_has_detector(&p->common, fam) && plane_detects_by_ifname(&p->common)) {
		nft_rule_begin(rs);
		nft_match_ct_state(rs, NFT_CT_STATE_NEW);
		plane_match_pod(rs, fam, &p->common, NFT_CMP_EQ);
		nft_expr_meta_number(rs, NFT_META_PRIORITY, PRIORITY_POD);
	}
	mark_from(rs, fam, IPVSSET_FE);
	ended(rs, fam, p);
	if (plane_has_detector(&p->common, fam)) {
		nft_rule_begin(rs);
		plane_match_pod(rs, fam, &p->common, NFT_CMP_EQ);
		nft_expr_verdict(rs, NFT_GOTO, in);
	}
	nft_rule_begin(rs);
	nft_match_fib_local(rs, NFTA_FIB_F_SADDR, NFT_CMP_EQ);
	nft_expr_verdict(rs, NFT_GOTO, in);
	mark_from(rs, fam, IPVSSET_FE_OUT);
}

/*
 * `tag` 0: for all packets. Else for those with it, before IPVS, which compares the whole mark:
 * without bits that foreign chains have set (kube-proxy's 0x4000: masquerade, Calico's 0x10000:
 * accepted). Also for later packets of a connection: IPVS may choose another backend for them.
 */
static void assign_jumps(struct nft_rules *rs, uint32_t tag)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		nft_rule_begin(rs);
		if (tag != 0)
			tag_is(rs, NFT_CMP_EQ, tag);
		daddr_in(rs, fam, IPVSSET_VIPS);
		nft_expr_verdict(rs, NFT_JUMP, fam == IPFAM_V6 ? "assign6" : "assign4");
	}
}

/*
 * An unknown port of a cluster IP (REJ-05). A cluster IP that is also an address of this node is
 * exempt: other ports are the node's.
 */
static void unknown(struct nft_rules *rs, enum ipfam fam, uint32_t tag)
{
	nft_rule_begin(rs);
	daddr_in(rs, fam, IPVSSET_CLUSTER_IPS);
	if (tag != 0)
		tag_is(rs, NFT_CMP_NEQ, tag);
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_NEQ);
	nft_expr_l4protos(rs);
	nft_expr_verdict(rs, NFT_GOTO, "unknown_port");
}

/* An unallocated cluster IP (REJ-06). */
static void unknown_addresses(struct nft_rules *rs, enum ipfam fam)
{
	nft_rule_begin(rs);
	daddr_in(rs, fam, IPVSSET_SERVICE_CIDRS);
	nft_expr_not_in(rs, 0, set_name(IPVSSET_CLUSTER_IPS, fam));
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_NEQ);
	nft_expr_verdict(rs, NFT_GOTO, "unknown_address");
}

static void unknown_targets(struct nft_rules *rs)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		unknown(rs, fam, 0);
		unknown_addresses(rs, fam);
	}
}

/* Frontends without endpoints reject new connections; established ones have another state. */
static void reject_new(struct nft_rules *rs, uint32_t mark, const char *chain)
{
	nft_rule_begin(rs);
	nft_match_meta(rs, NFT_META_MARK, NFT_CMP_EQ, mark);
	nft_match_ct_state(rs, NFT_CT_STATE_NEW);
	nft_expr_verdict(rs, NFT_GOTO, chain);
}

static void capture(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	reply_return(rs);
	status_return(rs, IPS_DST_NAT, NFT_CMP_NEQ);
	if (p->is_retiring) /* the first packet of a connection */
		status_return(rs, IPS_CONFIRMED, NFT_CMP_EQ);
	assign_jumps(rs, 0);
	if (p->is_retiring)
		return;
	/* Not later: for a packet routed to this host the kernel cannot send ICMP from the VIP. */
	reject_new(rs, p->marks.tag | IPVS_MARK_REFUSE, "no_endpoints");
	reject_new(rs, p->marks.tag | IPVS_MARK_DROP, "no_local");
}

static void rule_of_icmp(struct nft_rules *rs, enum ipfam fam)
{
	rule_of_family(rs, fam);
	nft_match_l4proto(rs, fam == IPFAM_V6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
}

/* A rule for pings of a cluster IP. */
static void rule_of_ping(struct nft_rules *rs, enum ipfam fam)
{
	uint8_t type = fam == IPFAM_V6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO;

	rule_of_icmp(rs, fam);
	nft_expr_icmp_type(rs, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, &type, sizeof(type));
	nft_expr_daddr(rs, fam, 0);
	nft_expr_in(rs, 0, set_name(IPVSSET_CLUSTER_IPS, fam));
}

/*
 * ICMP errors about answers go to the frontend's address: IPVS takes them at input, also for an
 * endpoint of this host, for which it leaves forwarded ones alone.
 */
static void errors(struct nft_rules *rs, enum ipfam fam)
{
	static const enum nft_set_id maps[] = { IPVSSET_FE, IPVSSET_FE_OUT };

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		rule_of_icmp(rs, fam);
		nft_match_ct_state(rs, NFT_CT_STATE_RELATED);
		nft_expr_related_tuple(rs, fam);
		nft_expr_map(rs, 0, set_name(maps[i], fam));
		nft_expr_meta_set(rs, NFT_META_MARK, 0);
	}
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
	if (p->is_retiring)
		return;
	/*
	 * A cluster IP answers pings: a captured packet is delivered here, and the kernel replies.
	 */
	rule_of_ping(rs, IPFAM_V6);
	nft_expr_meta_number(rs, NFT_META_MARK, p->marks.tag);
}

/* Type route: a mark sends the packet to lo. */
static void out_first(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	tag_return(rs, NFT_CMP_EQ, p->marks.tag); /* the second time, after IPVS */
	capture(rs, p);
	rule_tagged(rs, p->marks.tag);
	nft_expr_meta_number(rs, NFT_META_MARK, p->marks.birth);
}

/*
 * Another proxy's nat, of vipd's nft plane before its removal or of kube-proxy, has precedence at a
 * shared frontend: the packet takes the route to its new destination. Its own bits of the mark stay
 * (kube-proxy's 0x4000: masquerade).
 */
static void nat_wins(struct nft_rules *rs, uint32_t tag)
{
	rule_tagged(rs, tag);
	nft_match_ct_bits(rs, NFT_CT_STATUS, IPS_DST_NAT, NFT_CMP_NEQ);
	nft_expr_meta(rs, NFT_META_MARK, 0);
	nft_expr_mask(rs, 0, ~IPVS_MARK_MASK);
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
}

/* REJ-05 and REJ-06 follow nat: an address that another proxy serves is not unknown. */
static void out_last(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	assign_jumps(rs, p->marks.birth);
	rule_tagged(rs, p->marks.birth);
	nft_match_ct_bits(rs, NFT_CT_STATUS, IPS_DST_NAT, NFT_CMP_EQ);
	nft_expr_meta_number(rs, NFT_META_MARK, p->marks.tag);
	if (p->is_retiring)
		return;
	tag_return(rs, NFT_CMP_EQ, p->marks.tag);
	reply_return(rs);
	status_return(rs, IPS_DST_NAT, NFT_CMP_NEQ);
	unknown_targets(rs);
}

static void in(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	/*
	 * An INVALID packet of a backend to a connection that this host masquerades: the host would
	 * answer with a reset. To a frontend, IPVS takes it: of a connection without translation
	 * conntrack sees one direction.
	 */
	nft_rule_begin(rs);
	tag_is(rs, NFT_CMP_NEQ, p->marks.tag);
	nft_match_l4proto(rs, IPPROTO_TCP);
	nft_match_ct_state(rs, NFT_CT_STATE_INVALID);
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_EQ);
	nft_expr_verdict(rs, NFT_JUMP, "no_socket");
	for (int fam = 0; fam < IPFAM_N && !p->is_retiring; fam++)
		unknown(rs, fam, p->marks.tag);
}

/*
 * IPVS has no entry of the connection. The kernel cannot answer from an address that is not local:
 * without a reset the client would wait for its timeout.
 */
static void late(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	rule_tagged(rs, p->marks.tag);
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_NEQ);
	nft_match_l4proto(rs, IPPROTO_TCP);
	nft_expr_reject_tcp(rs);
	rule_tagged(rs, p->marks.tag);
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_NEQ);
	nft_expr_l4protos(rs);
	nft_expr_verdict(rs, NF_DROP, NULL);
}

static void forward(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	if (p->is_retiring)
		return;
	unknown_targets(rs);
	nft_rule_begin(rs);
	nft_match_ct_state(rs, NFT_CT_STATE_NEW | NFT_CT_STATE_INVALID);
	nft_expr_verdict(rs, NFT_GOTO, "vip_loop");
}

static void ping(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	if (p->is_retiring)
		return;
	rule_of_ping(rs, IPFAM_V4);
	nft_expr_redirect(rs);
}

/* Masquerade all sources, or sources outside detect-local (MASQ-05); else no rule (MASQ-01) */
static void masquerade_cluster_ips(struct nft_rules *rs, enum ipfam fam,
				   const struct ipvs_rules_params *p)
{
	if (!p->common.is_masquerade_all && !plane_has_detector(&p->common, fam))
		return;
	rule_of_family(rs, fam);
	nft_expr_original_daddr(rs, fam);
	nft_expr_in(rs, 0, set_name(IPVSSET_CLUSTER_IPS, fam));
	if (!p->common.is_masquerade_all && plane_detects_by_ifname(&p->common)) {
		nft_match_meta(rs, NFT_META_PRIORITY, NFT_CMP_NEQ, PRIORITY_POD);
	} else if (!p->common.is_masquerade_all) {
		nft_expr_saddr(rs, fam, 0);
		nft_expr_not_in(rs, 0, set_name(IPVSSET_POD_CIDRS, fam));
	}
	nft_expr_masquerade(rs);
}

static void post(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	tag_return(rs, NFT_CMP_NEQ, p->marks.tag);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		/* Hairpin (MASQ-09) */
		rule_of_family(rs, fam);
		nft_expr_saddr(rs, fam, 0);
		nft_expr_daddr(rs, fam, nft_addr_words(fam));
		nft_expr_in(rs, 0, set_name(IPVSSET_HAIRPINS, fam));
		nft_expr_masquerade(rs);
		plane_masquerade_frontends(rs, fam, &p->common);
		masquerade_cluster_ips(rs, fam, p);
	}
}

/* A tunnel copies the mark to its outer packet, which would be captured again. */
static void clear(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	rule_tagged(rs, p->marks.tag);
	nft_expr_number(rs, 0, 0);
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
	if (plane_detects_by_ifname(&p->common))
		nft_expr_meta_set(rs, NFT_META_PRIORITY, 0);
}

/*
 * Count connections: a nat chain sees only first packets, and only until another nat chain has
 * chosen a destination.
 */
static void asked(struct nft_rules *rs, uint32_t tag)
{
	tag_return(rs, NFT_CMP_NEQ, tag);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		nft_rule_begin(rs);
		tuple_in(rs, fam, IPVSSET_COUNTED);
		nft_expr_verdict(rs, NFT_RETURN, NULL); /* no other family can match */
	}
}

static void mark_asked(struct nft_rules *rs, enum ipfam fam, enum nft_set_id map)
{
	nft_expr_original_tuple(rs, fam);
	nft_expr_map(rs, 0, set_name(map, fam));
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
}

/* The pool of the frontend to which the client connects, as assign() chooses it. */
static void mark_asked_pool(struct nft_rules *rs, enum ipfam fam, const struct ipvs_rules_params *p)
{
	rule_of_family(rs, fam);
	mark_asked(rs, fam, IPVSSET_FE);
	rule_of_family(rs, fam);
	mark_asked(rs, fam, IPVSSET_FE_OUT);
	if (plane_has_detector(&p->common, fam)) {
		rule_of_family(rs, fam);
		if (plane_detects_by_ifname(&p->common)) {
			nft_match_meta(rs, NFT_META_PRIORITY, NFT_CMP_EQ, PRIORITY_POD);
		} else {
			nft_expr_saddr(rs, fam, 0);
			nft_expr_in(rs, 0, set_name(IPVSSET_POD_CIDRS, fam));
		}
		mark_asked(rs, fam, IPVSSET_FE_IN);
	}
	rule_of_family(rs, fam);
	nft_match_fib_local(rs, NFTA_FIB_F_SADDR, NFT_CMP_EQ);
	mark_asked(rs, fam, IPVSSET_FE_IN);
	/* The mark of a service by address and port has no pool. */
	rule_of_family(rs, fam);
	nft_match_meta(rs, NFT_META_MARK, NFT_CMP_EQ, p->marks.tag);
	mark_asked(rs, fam, IPVSSET_IDLE);
}

/* IPVS has chosen a backend. */
static void reached(struct nft_rules *rs, const struct ipvs_rules_params *p)
{
	tag_return(rs, NFT_CMP_NEQ, p->marks.tag);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		mark_asked_pool(rs, fam, p);
		rule_of_family(rs, fam);
		nft_expr_l4protos(rs);
		nft_expr_meta(rs, NFT_META_MARK, 0);
		nft_expr_daddr(rs, fam, 1);
		nft_expr_dport(rs, 1 + nft_addr_words(fam));
		nft_expr_in(rs, 0, set_name(IPVSSET_REACHED, fam));
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
	.refused = IPVSSET_REFUSED,
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
