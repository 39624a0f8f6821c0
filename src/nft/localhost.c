/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/localhost.h"

#include <linux/netfilter/nf_tables.h>

#include "base/util.h"

/* One address of the packet, source or destination, is `addr`. */
static void addr_is(struct nft_rules *rs, const struct ip_addr *addr,
		    void (*load)(struct nft_rules *rs, enum ipfam fam, unsigned int word))
{
	enum ipfam fam = ip_fam(addr);

	load(rs, fam, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, addr->bytes, (uint32_t)ip_len(fam));
}

static void localhost_rule(struct nft_rules *rs, const struct nft_localhost *l)
{
	nft_rule_begin(rs);
	if (l->is_inet)
		nft_match_family(rs, ip_fam(&l->source));
}

void nft_localhost_out(struct nft_rules *rs, const struct nft_localhost *l)
{
	const enum ipfam fam = ip_fam(&l->source);
	const struct ip_addr localhost = ip_addr_loopback(fam);

	for (size_t i = 0; i < ARRAY_SIZE(l->sets) && ip_is_set(&l->source); i++) {
		localhost_rule(rs, l);
		addr_is(rs, &localhost, nft_expr_saddr);
		addr_is(rs, &localhost, nft_expr_daddr);
		nft_expr_tuple(rs, fam);
		nft_expr_in(rs, 0, nft_set_desc(l->sets[i], fam)->name);
		nft_expr_addr(rs, &l->source, 0);
		nft_expr_saddr_set(rs, fam, 0);
	}
}

void nft_localhost_in(struct nft_rules *rs, const struct nft_localhost *l)
{
	const enum ipfam fam = ip_fam(&l->source);
	const struct ip_addr localhost = ip_addr_loopback(fam);
	unsigned int n = nft_addr_words(fam);

	for (size_t i = 0; i < ARRAY_SIZE(l->sets) && ip_is_set(&l->source); i++) {
		localhost_rule(rs, l);
		addr_is(rs, &localhost, nft_expr_saddr);
		addr_is(rs, &l->source, nft_expr_daddr);
		nft_expr_saddr(rs, fam, 0);
		nft_expr_meta(rs, NFT_META_L4PROTO, n);
		nft_expr_sport(rs, n + 1);
		nft_expr_in(rs, 0, nft_set_desc(l->sets[i], fam)->name);
		nft_expr_addr(rs, &localhost, 0);
		nft_expr_daddr_set(rs, fam, 0);
	}
}

void nft_localhost_pre(struct nft_rules *rs, const struct nft_localhost *l)
{
	const struct ip_addr localhost = ip_addr_loopback(ip_fam(&l->source));

	if (!ip_is_set(&l->source))
		return;
	localhost_rule(rs, l);
	addr_is(rs, &localhost, nft_expr_daddr);
	nft_expr_verdict(rs, NFT_RETURN, NULL);
}
