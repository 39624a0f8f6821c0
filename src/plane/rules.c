/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/rules.h"

#include <linux/netfilter/nf_tables.h>
#include <string.h>

#include "nft/decode.h"
#include "nft/write.h"

struct plane_rules_params plane_rules_params_from(const struct model *m)
{
	struct plane_rules_params p = {
		.detect = m->config.detect_local,
		.is_masquerade_all = m->config.is_masquerade_all,
		.preserves_local_source = m->config.preserves_local_source,
		.is_tcp_liberal = m->config.is_tcp_liberal,
		.pod_cidrs = m->env.pod_cidrs.v,
		.n_pod_cidrs = m->env.pod_cidrs.n,
		.service_cidrs = m->env.service_cidrs.v,
		.n_service_cidrs = m->env.service_cidrs.n,
		.keeps_pod_cidrs = m->env.keeps_pod_cidrs,
		.keeps_service_cidrs = m->env.keeps_service_cidrs,
	};

	for (int fam = 0; fam < IPFAM_N; fam++) {
		p.has_detector[fam] = m->env.has_detector[fam];
		if (model_serves_localhost(m, fam))
			p.localhost_source[fam] = m->env.node_ip[fam];
	}
	memcpy(p.ifname, m->config.detect_ifname, sizeof(p.ifname));
	return p;
}

const struct plane_rules_params plane_rules_tried[PLANE_RULES_TRIED] = {
	{ .detect = DETECT_LOCAL_CLUSTER_CIDR, .has_detector = { true, true } },
	{ .detect = DETECT_LOCAL_BRIDGE, .has_detector = { true, true }, .ifname = "vipd-try" },
	{ .is_masquerade_all = true, .preserves_local_source = true },
};

/* Indexes of the ranges in both schemas. */
enum {
	PODS,
	SERVICES
};

void plane_keep_detector(struct plane_rules_params *p, enum ipfam fam, const struct nft_fixed *h)
{
	p->has_detector[fam] |= p->keeps_pod_cidrs && h->ranges[PODS].v.n > 0;
}

void plane_write_ranges(struct nft_writer *w, struct nft_fixed *h,
			const struct plane_rules_params *p)
{
	if (!p->keeps_pod_cidrs)
		nft_ensure_ranges(w, h, PODS, p->pod_cidrs, p->n_pod_cidrs);
	if (!p->keeps_service_cidrs || h->ranges[SERVICES].v.n == 0)
		nft_ensure_ranges(w, h, SERVICES, p->service_cidrs, p->n_service_cidrs);
}

static void rule_begin(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	nft_rule_begin(rs);
	if (p->sets->is_inet)
		nft_match_family(rs, fam);
}

static void expr_in(struct nft_rules *rs, enum ipfam fam, enum nft_set_id set)
{
	nft_expr_in(rs, 0, nft_set_desc(set, fam)->name);
}

/* --- pods and masquerading --- */

bool plane_detects_by_ifname(const struct plane_rules_params *p)
{
	return p->detect == DETECT_LOCAL_BRIDGE || p->detect == DETECT_LOCAL_PREFIX;
}

bool plane_has_detector(const struct plane_rules_params *p, enum ipfam fam)
{
	return p->has_detector[fam] && p->detect != DETECT_LOCAL_UNSET;
}

void plane_match_pod(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p,
		     uint32_t op)
{
	if (plane_detects_by_ifname(p)) {
		nft_match_ifname(rs, NFT_META_IIFNAME, op, p->ifname,
				 p->detect == DETECT_LOCAL_PREFIX);
		return;
	}
	if (p->sets->is_inet)
		nft_match_family(rs, fam);
	nft_expr_saddr(rs, fam, 0);
	(op == NFT_CMP_EQ ? nft_expr_in
			  : nft_expr_not_in)(rs, 0, nft_set_desc(p->sets->pod_cidrs, fam)->name);
}

void plane_ranges(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p,
		  uint32_t meta, enum nft_set_id set)
{
	/* Usual lengths first: 128, ..., 64, 48, 32, 16; then 56, 40, 24, 8; then the others. */
	for (unsigned int step = 16; step >= SERVICE_RANGE_STEP; step /= 2)
		for (unsigned int len = 8 * (unsigned int)ip_len(fam); len >= step; len -= step) {
			if (step < 16 && len % (2 * step) == 0)
				continue;
			rule_begin(rs, fam, p);
			nft_expr_meta(rs, meta, 0);
			nft_expr_mask_xor(rs, 0, nft_range_mask(set), nft_range_bits(set, len));
			nft_expr_saddr(rs, fam, 1);
			nft_expr_mask_addr(rs, fam, 1, len);
			expr_in(rs, fam, set);
			nft_expr_verdict(rs, NFT_RETURN, NULL);
		}
}

static void to_frontend(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p,
			enum nft_set_id set)
{
	rule_begin(rs, fam, p);
	nft_expr_original_tuple(rs, fam);
	expr_in(rs, fam, set);
}

/* Masquerade connections of this host to the frontends of a set. */
static void masquerade_host(struct nft_rules *rs, enum ipfam fam,
			    const struct plane_rules_params *p, enum nft_set_id set)
{
	to_frontend(rs, fam, p, set);
	nft_match_fib_local(rs, NFTA_FIB_F_SADDR, NFT_CMP_EQ);
	nft_expr_masquerade(rs);
}

void plane_masquerade_frontends(struct nft_rules *rs, enum ipfam fam,
				const struct plane_rules_params *p)
{
	to_frontend(rs, fam, p, p->sets->masq);
	if (p->preserves_local_source) {
		nft_expr_daddr(rs, fam, 0);
		nft_expr_not_in(rs, 0, nft_set_desc(p->sets->local_backends, fam)->name);
	}
	nft_expr_masquerade(rs);
	if (p->preserves_local_source)
		masquerade_host(rs, fam, p, p->sets->masq);
	masquerade_host(rs, fam, p, p->sets->masq_hosts);
}

/* --- node ports on the loopback address --- */

/* One address of the packet, source or destination, is `addr`. */
static void addr_is(struct nft_rules *rs, const struct ip_addr *addr,
		    void (*load)(struct nft_rules *rs, enum ipfam fam, unsigned int word))
{
	enum ipfam fam = ip_fam(addr);

	load(rs, fam, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, addr->bytes, (uint32_t)ip_len(fam));
}

void plane_localhost_out(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	const enum nft_set_id sets[] = { p->sets->masq, p->sets->masq_hosts };
	const struct ip_addr localhost = ip_addr_loopback(fam);
	const struct ip_addr *source = &p->localhost_source[fam];

	for (size_t i = 0; i < ARRAY_SIZE(sets) && ip_is_set(source); i++) {
		rule_begin(rs, fam, p);
		addr_is(rs, &localhost, nft_expr_saddr);
		addr_is(rs, &localhost, nft_expr_daddr);
		nft_expr_tuple(rs, fam);
		expr_in(rs, fam, sets[i]);
		nft_expr_saddr_set(rs, source);
	}
}

void plane_localhost_in(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	const enum nft_set_id sets[] = { p->sets->masq, p->sets->masq_hosts };
	const struct ip_addr localhost = ip_addr_loopback(fam);
	const struct ip_addr *source = &p->localhost_source[fam];
	unsigned int n = nft_addr_words(fam);

	for (size_t i = 0; i < ARRAY_SIZE(sets) && ip_is_set(source); i++) {
		rule_begin(rs, fam, p);
		addr_is(rs, &localhost, nft_expr_saddr);
		addr_is(rs, source, nft_expr_daddr);
		nft_expr_saddr(rs, fam, 0);
		nft_expr_meta(rs, NFT_META_L4PROTO, n);
		nft_expr_sport(rs, n + 1);
		expr_in(rs, fam, sets[i]);
		nft_expr_daddr_set(rs, &localhost);
	}
}

void plane_localhost_pre(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	const struct ip_addr localhost = ip_addr_loopback(fam);

	if (!ip_is_set(&p->localhost_source[fam]))
		return;
	rule_begin(rs, fam, p);
	addr_is(rs, &localhost, nft_expr_daddr);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}
