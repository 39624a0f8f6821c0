/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/tryout.h"

#include "nft/rule.h"
#include "plane/nft/layout.h"

#define AFFINITY_S 10800

static void base_chain(struct nft_writer *w, const char *name)
{
	nft_write_chain(w, name, nft_schema_chain(&nft_schema, name));
}

/* --- features ------------------------------------------------------------------------ */

static void try_verdicts(struct nft_writer *w)
{
	const struct nft_verdict v = { NFT_KIND_DROP, NFT_GOTO, "drop_conn" };

	nft_write_set(w, NFTSET_LEAVES);
	nft_write_chain(w, v.chain, NULL);
	nft_write_verdict(w, NFTSET_LEAVES, &v);
	nft_try_rule(w, &(struct nft_feature){ .rule = OPS(META(PRIORITY), MASK(NFT_KIND_MASK),
							   VMAP(NFTSET_LEAVES)) });
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

static void try_reject(struct nft_writer *w)
{
	FINI(nft_rules_fini) struct nft_rules rs = { 0 };

	nft_try_rule(w, &(struct nft_feature){ .rule = OPS(L4PROTO(IPPROTO_TCP), REJECT_TCP) });
	RULE(&rs, w->fam, REJECT_PORT);
	nft_write_rules(w, NFT_TRY_CHAIN, &rs);
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
	  .rule = OPS(META(PRIORITY), MASK(NFT_POOL_MASK), SADDR, AT(5, 5), META(PRIORITY),
		      UPDATE(NFTSET_AFFINITY, UINT64_C(1000) * AFFINITY_S)) },
	{ "NAT chains", { "CONFIG_NFT_NAT, CONFIG_NF_NAT" }, .add = try_nat_chains },
	{ "filter chains", { "CONFIG_NF_TABLES" }, .add = try_filter_chains },
	{ "addresses and ports of packets, SCTP's too",
	  { "CONFIG_NF_TABLES" },
	  .rule = OPS(L4PROTOS, TUPLE, AT(1, 4), META_SET(PRIORITY)) },
	{ "random numbers", { "CONFIG_NFT_NUMGEN" }, .rule = OPS(RANDOM(7)) },
	{ "NAT from a map",
	  { "CONFIG_NFT_NAT" },
	  .n_sets = 1,
	  .sets = { NFTSET_ENDPOINTS },
	  .rule = OPS(L4PROTOS, NUMBER(0), NUMBER(0), MAP(NFTSET_ENDPOINTS), DNAT) },
	{ "masquerading", { "CONFIG_NFT_MASQ" }, .rule = OPS(MASQUERADE) },
	{ "rejecting",
	  { "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV4",
	    "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV6" },
	  .add = try_reject },
	{ "types of addresses",
	  { "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV4", "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV6" },
	  .rule = OPS(FIB_TYPE(SADDR, EQ, LOCAL), FIB_TYPE(DADDR, EQ, LOCAL)) },
	{ "connection tracking",
	  { "CONFIG_NFT_CT, CONFIG_NF_CONNTRACK" },
	  .rule = OPS(CT(STATE), AT(0, 0), CT(STATUS), AT(0, 0), ORIGINAL_TUPLE) },
	{ "counters", { "CONFIG_NFT_COUNTER" }, .rule = OPS(COUNTER) },
	{ "names of interfaces",
	  { "CONFIG_NF_TABLES" },
	  .rule = OPS(META_IS(IIF, NEQ, 0), META(IIFNAME), AT(0, 0), META(OIFNAME)) },
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
