/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/tryout.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>

#include "plane/nft/layout.h"

#define AFFINITY_S 10800

static void base_chain(struct nft_writer *w, const char *name)
{
	nft_write_chain(w, name, nft_schema_chain(&nft_schema, name));
}

/* --- features ------------------------------------------------------------------------ */

static void expr_vmap(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_meta(rs, NFT_META_PRIORITY, 0);
	nft_expr_mask(rs, 0, NFT_KIND_MASK);
	nft_expr_vmap(rs, 0, nft_set_desc(NFTSET_LEAVES, fam)->name);
}

static void try_verdicts(struct nft_writer *w)
{
	const struct nft_verdict v = { NFT_KIND_DROP, NFT_GOTO, "drop_conn" };

	nft_write_set(w, NFTSET_LEAVES);
	nft_write_chain(w, v.chain, NULL);
	nft_write_verdict(w, NFTSET_LEAVES, &v);
	nft_try_rule(w, &(struct nft_feature){ .expr = expr_vmap });
}

static void expr_dynset(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_meta(rs, NFT_META_PRIORITY, 0);
	nft_expr_mask(rs, 0, NFT_POOL_MASK);
	nft_expr_saddr(rs, fam, 1);
	nft_expr_meta(rs, NFT_META_PRIORITY, 5);
	nft_expr_dynset(rs, NFT_DYNSET_OP_UPDATE, nft_set_desc(NFTSET_AFFINITY, fam)->name, 0, 5,
			UINT64_C(1000) * AFFINITY_S);
}

static void try_nat_chains(struct nft_writer *w)
{
	base_chain(w, "prerouting");
	base_chain(w, "output");
	base_chain(w, "postrouting");
}

static void try_filter_chains(struct nft_writer *w)
{
	base_chain(w, "input");
	base_chain(w, "forward");
}

static void expr_payload(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_l4protos(rs);
	nft_expr_tuple(rs, fam);
	nft_expr_meta_set(rs, NFT_META_PRIORITY, nft_addr_words(fam));
}

static void expr_random(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_random(rs, 0, 7);
}

static void expr_dnat(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_l4protos(rs);
	nft_expr_number(rs, 0, 0);
	nft_expr_number(rs, 1, 0);
	nft_expr_map(rs, 0, nft_set_desc(NFTSET_ENDPOINTS, fam)->name);
	nft_expr_dnat(rs, fam, 0, nft_addr_words(fam));
}

static void expr_reject_tcp(struct nft_rules *rs, enum ipfam fam)
{
	nft_match_l4proto(rs, IPPROTO_TCP);
	nft_expr_reject_tcp(rs);
}

static void try_reject(struct nft_writer *w)
{
	FINI(nft_rules_fini) struct nft_rules rs = { 0 };

	nft_try_rule(w, &(struct nft_feature){ .expr = expr_reject_tcp });
	nft_rule_begin(&rs);
	nft_expr_reject_port(&rs, w->fam);
	nft_write_rules(w, NFT_TRY_CHAIN, &rs);
}

static void expr_fib(struct nft_rules *rs, enum ipfam fam)
{
	nft_match_fib_local(rs, NFTA_FIB_F_SADDR, NFT_CMP_EQ);
	nft_match_fib_local(rs, NFTA_FIB_F_DADDR, NFT_CMP_EQ);
}

static void expr_ct(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_ct(rs, NFT_CT_STATE, 0);
	nft_expr_ct(rs, NFT_CT_STATUS, 0);
	nft_expr_original_tuple(rs, fam);
}

static void expr_ifname(struct nft_rules *rs, enum ipfam fam)
{
	nft_match_meta(rs, NFT_META_IIF, NFT_CMP_NEQ, 0);
	nft_expr_meta(rs, NFT_META_IIFNAME, 0);
	nft_expr_meta(rs, NFT_META_OIFNAME, 0);
}

static const struct nft_feature features_nft[] = {
	{ "tables",
	  { "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4",
	    "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV6" } },
	{ "sets of addresses",
	  { "CONFIG_NF_TABLES" },
	  .n_sets = 2,
	  .sets = { NFTSET_VIPS, NFTSET_CLUSTER_IPS } },
	{ "maps with concatenated keys",
	  { "CONFIG_NF_TABLES" },
	  .n_sets = 3,
	  .sets = { NFTSET_FRONTENDS, NFTSET_ENDPOINTS, NFTSET_MASQ_FRONTENDS } },
	{ "sets of prefixes", { "CONFIG_NF_TABLES" }, .n_sets = 1, .sets = { NFTSET_POD_CIDRS } },
	{ "maps to verdicts", { "CONFIG_NF_TABLES" }, .add = try_verdicts },
	{ "maps that packets fill, with timeouts",
	  { "CONFIG_NF_TABLES" },
	  .n_sets = 1,
	  .sets = { NFTSET_AFFINITY },
	  .expr = expr_dynset },
	{ "NAT chains", { "CONFIG_NFT_NAT, CONFIG_NF_NAT" }, .add = try_nat_chains },
	{ "filter chains", { "CONFIG_NF_TABLES" }, .add = try_filter_chains },
	{ "addresses and ports of packets, SCTP's too",
	  { "CONFIG_NF_TABLES" },
	  .expr = expr_payload },
	{ "random numbers", { "CONFIG_NFT_NUMGEN" }, .expr = expr_random },
	{ "NAT from a map",
	  { "CONFIG_NFT_NAT" },
	  .n_sets = 1,
	  .sets = { NFTSET_ENDPOINTS },
	  .expr = expr_dnat },
	{ "masquerading", { "CONFIG_NFT_MASQ" }, .statement = nft_expr_masquerade },
	{ "rejecting",
	  { "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV4",
	    "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV6" },
	  .add = try_reject },
	{ "types of addresses",
	  { "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV4", "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV6" },
	  .expr = expr_fib },
	{ "connection tracking", { "CONFIG_NFT_CT, CONFIG_NF_CONNTRACK" }, .expr = expr_ct },
	{ "counters", { "CONFIG_NFT_COUNTER" }, .statement = nft_expr_counter },
	{ "names of interfaces", { "CONFIG_NF_TABLES" }, .expr = expr_ifname },
};
_Static_assert(ARRAY_SIZE(features_nft) <= NFT_TRIES_MAX, "they must fit what callers have");

size_t nft_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			enum ipfam fam)
{
	nft_try_list(ret, nl, fam, &nft_schema, features_nft, ARRAY_SIZE(features_nft));
	return ARRAY_SIZE(features_nft);
}

static int layout_try(struct nl_sock *nl, enum ipfam fam, const struct plane_rules_params *params,
		      struct err *err)
{
	AUTO(nft_layout_close) struct nft_layout *l = NULL;
	uint16_t kinds[] = { nft_pool_class(3, 0), nft_pool_class(1000, 0),
			     nft_pool_class(3, AFFINITY_S), nft_pool_class(1000, AFFINITY_S) };
	int r;

	nft_layout_open(&l, nl, fam);
	r = nft_layout_load(l, err);
	if (r == 0)
		r = nft_layout_apply(l, params, NULL, err);
	if (r == 0)
		r = nft_layout_chains_need(l, kinds, ARRAY_SIZE(kinds), NULL, err);
	if (r == 0)
		r = nft_layout_cleanup(l, NULL, err);
	return r;
}

int nft_try_layout(struct nl_sock *nl, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < IPFAM_N * PLANE_RULES_TRIED; i++)
		r = layout_try(nl, (enum ipfam)(i % IPFAM_N), &plane_rules_tried[i / IPFAM_N], err);
	return r;
}
