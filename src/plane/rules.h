/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/rules - rules that both planes have, and the values of the model that rules depend on.
 *
 * Node ports on the loopback address need no route_localnet: a loopback source cannot be routed to
 * another device, nor a reply to it come from one. So packets of the node's processes get the
 * node's address as their source before connection tracking sees them, and replies get the loopback
 * address back as their destination after it. The network cannot reach either rule: the kernel
 * drops loopback addresses that arrive on another device, and prerouting leaves them alone.
 */
#pragma once

#include "model/model.h"
#include "nft/expr.h"
#include "nft/sets.h"
#include "plane/plane.h"

struct nft_fixed;
struct nft_writer;

/* Hook priorities, of linux/netfilter_ipv4.h. The reply's is behind nat (100) and IPVS (98, 99). */
#define PLANE_PRI_LOCALHOST_OUT NF_IP_PRI_RAW
#define PLANE_PRI_LOCALHOST_IN (NF_IP_PRI_NAT_SRC + 10)

/* Sets that both planes have alike. */
struct plane_sets {
	bool is_inet;          /* the table has both families */
	enum nft_set_id begin; /* those with elements of services ... */
	enum nft_set_id end;   /* ... up to before this one */
	enum nft_set_id vips;
	enum nft_set_id cluster_ips;
	enum nft_set_id local_backends;
	enum nft_set_id masq;
	enum nft_set_id masq_hosts;
	enum nft_set_id counted;  /* counts first packets of a frontend */
	enum nft_set_id rejected; /* counts those that were rejected */
	enum nft_set_id pod_cidrs;
};

/* Arrays are borrowed; prefixes of the other family are skipped. */
struct plane_rules_params {
	enum detect_local detect;
	bool has_detector[IPFAM_N];
	bool is_masquerade_all;
	bool preserves_local_source;
	bool is_tcp_liberal;
	char ifname[IFNAME_MAX];
	/* If set, node ports are served on the loopback address; clients there get this source. */
	struct ip_addr localhost_source[IPFAM_N];
	const struct ip_prefix *pod_cidrs;
	size_t n_pod_cidrs;
	const struct ip_prefix *service_cidrs;
	size_t n_service_cidrs;
	bool keeps_pod_cidrs; /* as in struct model_env */
	bool keeps_service_cidrs;
	enum plane_counting counting;
	const struct plane_sets *sets; /* of the table; the layout fills it in */
};
struct plane_rules_params plane_rules_params_from(const struct model *m);
/* With these the rules have every expression: for plane/tryout.h. */
#define PLANE_RULES_TRIED 3
extern const struct plane_rules_params plane_rules_tried[PLANE_RULES_TRIED];
/* If the pod CIDRs in `h` stay, so do the rules that use them. */
void plane_keep_detector(struct plane_rules_params *p, enum ipfam fam, const struct nft_fixed *h);
/* Write the ranges of the writer's family that do not stay. */
void plane_write_ranges(struct nft_writer *w, struct nft_fixed *h,
			const struct plane_rules_params *p);

/* Are packets of pods known by their interface? Else by their source. */
bool plane_detects_by_ifname(const struct plane_rules_params *p);
bool plane_has_detector(const struct plane_rules_params *p, enum ipfam fam);
/* Operations of nft/rule.h. In a table of both families a rule matches its own. */
#define PLANE_FAMILY(p) WHEN((p)->sets->is_inet, FAMILY)
/*
 * Packets from pods (`op` EQ) or other packets (NEQ) in prerouting, by detect-local (section 6.1 of
 * doc/behaviour.md). Packets of this host have no input interface and are others (MASQ-02).
 */
#define PLANE_POD(p, op)                                                            \
	WHEN(plane_detects_by_ifname(p),                                            \
	     IFNAME(IIFNAME, op, (p)->ifname, (p)->detect == DETECT_LOCAL_PREFIX)), \
		WHEN(!plane_detects_by_ifname(p), PLANE_FAMILY(p), SADDR,           \
		     LOOKUP(op, (p)->sets->pod_cidrs))
/*
 * A rule for each length of source ranges (SVC-20): return if the source is in a range of the pool
 * whose word the packet has in the field `meta_key`, NFT_META_*.
 */
void plane_ranges(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p,
		  uint32_t meta_key, enum nft_set_id set);
/*
 * External frontends: with policy Cluster (MASQ-07), and for clients on this host (MASQ-08). This
 * host may have used the frontend's address as its source, so its connections are masqueraded to
 * all backends.
 */
void plane_masquerade_frontends(struct nft_rules *rs, enum ipfam fam,
				const struct plane_rules_params *p);

/* At output, PLANE_PRI_LOCALHOST_OUT. */
void plane_localhost_out(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p);
/* At input, PLANE_PRI_LOCALHOST_IN. */
void plane_localhost_in(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p);
/* First in prerouting: packets that arrive for the loopback address are not translated. */
void plane_localhost_pre(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p);
