/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/rules.h"

#include <string.h>

#include "nft/decode.h"
#include "nft/rule.h"
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

/* --- pods and masquerading --- */

bool plane_detects_by_ifname(const struct plane_rules_params *p)
{
	return p->detect == DETECT_LOCAL_BRIDGE || p->detect == DETECT_LOCAL_PREFIX;
}

bool plane_has_detector(const struct plane_rules_params *p, enum ipfam fam)
{
	return p->has_detector[fam] && p->detect != DETECT_LOCAL_UNSET;
}

void plane_ranges(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p,
		  uint32_t meta_key, enum nft_set_id set)
{
	/* Usual lengths first: 128, ..., 64, 48, 32, 16; then 56, 40, 24, 8; then the others. */
	for (unsigned int step = 16; step >= SERVICE_RANGE_STEP; step /= 2)
		for (unsigned int len = 8 * (unsigned int)ip_len(fam); len >= step; len -= step) {
			if (step < 16 && len % (2 * step) == 0)
				continue;
			RULE(rs, fam, PLANE_FAMILY(p), OP(meta, meta_key),
			     MASK_XOR(nft_range_mask(set), nft_range_bits(set, len)), SADDR,
			     PREFIX(len), IN(set), RETURN);
		}
}

#define TO_FRONTEND(p, set) PLANE_FAMILY(p), ORIGINAL_TUPLE, IN(set)

void plane_masquerade_frontends(struct nft_rules *rs, enum ipfam fam,
				const struct plane_rules_params *p)
{
	const struct plane_sets *sets = p->sets;

	RULE(rs, fam, TO_FRONTEND(p, sets->masq),
	     WHEN(p->preserves_local_source, DADDR, NOT_IN(sets->local_backends)), MASQUERADE);
	if (p->preserves_local_source)
		RULE(rs, fam, TO_FRONTEND(p, sets->masq), FIB_TYPE(SADDR, EQ, LOCAL), MASQUERADE);
	RULE(rs, fam, TO_FRONTEND(p, sets->masq_hosts), FIB_TYPE(SADDR, EQ, LOCAL), MASQUERADE);
}

/* --- node ports on the loopback address --- */

void plane_localhost_out(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	const enum nft_set_id sets[] = { p->sets->masq, p->sets->masq_hosts };
	const struct ip_addr localhost = ip_addr_loopback(fam);
	const struct ip_addr *source = &p->localhost_source[fam];

	for (size_t i = 0; i < ARRAY_SIZE(sets) && ip_is_set(source); i++)
		RULE(rs, fam, PLANE_FAMILY(p), SADDR, IS_ADDRESS(&localhost), DADDR,
		     IS_ADDRESS(&localhost), TUPLE, IN(sets[i]), ADDRESS(source), SADDR_SET);
}

void plane_localhost_in(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	const enum nft_set_id sets[] = { p->sets->masq, p->sets->masq_hosts };
	const struct ip_addr localhost = ip_addr_loopback(fam);
	const struct ip_addr *source = &p->localhost_source[fam];

	for (size_t i = 0; i < ARRAY_SIZE(sets) && ip_is_set(source); i++)
		RULE(rs, fam, PLANE_FAMILY(p), SADDR, IS_ADDRESS(&localhost), DADDR,
		     IS_ADDRESS(source), SADDR, META(L4PROTO), SPORT, IN(sets[i]),
		     ADDRESS(&localhost), DADDR_SET);
}

void plane_localhost_pre(struct nft_rules *rs, enum ipfam fam, const struct plane_rules_params *p)
{
	const struct ip_addr localhost = ip_addr_loopback(fam);

	if (ip_is_set(&p->localhost_source[fam]))
		RULE(rs, fam, PLANE_FAMILY(p), DADDR, IS_ADDRESS(&localhost), RETURN);
}
