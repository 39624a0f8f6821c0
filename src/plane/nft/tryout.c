/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/tryout.h"

#include <arpa/inet.h> /* before linux/in.h: that one then steps back */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "nl/attr.h"
#include "plane/nft/write.h"

#define TABLE "vipd-tryout"
#define NO_TABLE "vipd-tryout-end" /* nobody has it: deleting it ends the transaction */
#define AFFINITY_S 10800

/* A chain with one rule, which `expr` fills. */
static void try_rule(struct nft_writer *w, const struct nft_chain *base,
		     void (*expr)(struct nft_rules *rs, enum ipfam fam))
{
	struct nft_rules rs = { 0 };

	nft_write_chain(w, NFT_TRY_CHAIN, base);
	nft_rule_begin(&rs);
	expr(&rs, w->fam);
	nft_rules_hash(&rs);
	nft_write_rules(w, NFT_TRY_CHAIN, &rs);
	nft_rules_fini(&rs);
}

static void base_chain(struct nft_writer *w, const char *name)
{
	nft_write_chain(w, name, nft_chain_find(name));
}

/* --- what a feature takes ------------------------------------------------------------- */

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
	nft_write_verdicts(w, NFTSET_LEAVES, &v, 1);
	try_rule(w, NULL, expr_vmap);
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
	unsigned int n = nft_addr_words(fam);

	nft_expr_l4protos(rs);
	nft_expr_tuple(rs, fam);
	nft_expr_hton(rs, n);
	nft_expr_meta_set(rs, NFT_META_PRIORITY, n);
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

static void expr_masquerade(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_masquerade(rs);
}

static void expr_reject_tcp(struct nft_rules *rs, enum ipfam fam)
{
	nft_match_l4proto(rs, IPPROTO_TCP);
	nft_expr_reject_tcp(rs);
}

static void try_reject(struct nft_writer *w)
{
	struct nft_rules rs = { 0 };

	try_rule(w, NULL, expr_reject_tcp);
	nft_rule_begin(&rs);
	nft_expr_reject_port(&rs, w->fam);
	nft_rules_hash(&rs);
	nft_write_rules(w, NFT_TRY_CHAIN, &rs);
	nft_rules_fini(&rs);
}

static void expr_fib(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_fib_type(rs, NFTA_FIB_F_SADDR, 0);
	nft_expr_fib_type(rs, NFTA_FIB_F_DADDR, 0);
}

static void expr_ct(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_ct(rs, NFT_CT_STATE, 0);
	nft_expr_ct(rs, NFT_CT_STATUS, 0);
	nft_expr_original_tuple(rs, fam);
}

static void expr_counter(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_counter(rs);
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
	{ "sets of concatenated ranges",
	  { "CONFIG_NF_TABLES of Linux 5.6" },
	  .n_sets = 1,
	  .sets = { NFTSET_FW_RANGES } },
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
	{ "masquerading", { "CONFIG_NFT_MASQ" }, .expr = expr_masquerade },
	{ "rejecting",
	  { "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV4",
	    "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV6" },
	  .add = try_reject },
	{ "types of addresses",
	  { "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV4", "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV6" },
	  .expr = expr_fib },
	{ "connection tracking", { "CONFIG_NFT_CT, CONFIG_NF_CONNTRACK" }, .expr = expr_ct },
	{ "counters", { "CONFIG_NFT_COUNTER" }, .expr = expr_counter },
	{ "names of interfaces", { "CONFIG_NF_TABLES" }, .expr = expr_ifname },
};
_Static_assert(ARRAY_SIZE(features_nft) <= NFT_TRIES_MAX, "they must fit what callers have");

/* --- asking --------------------------------------------------------------------------- */

static const char end_tag[] = "the end";

/* What the kernel is sure to refuse, when it has looked at all the rest. */
static void end_add(struct nft_writer *w)
{
	struct nlmsghdr *h = nl_batch_msg(w->batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE, 0,
					  w->family, end_tag);

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NO_TABLE);
}

static void feature_add(struct nft_writer *w, const struct nft_feature *f)
{
	for (size_t i = 0; i < f->n_sets; i++)
		nft_write_set(w, f->sets[i]);
	if (f->expr != NULL)
		try_rule(w, f->base, f->expr);
	if (f->add != NULL)
		f->add(w);
}

/* Was the end all that the kernel refused? */
static bool is_through(const struct nft_writer *w, int r)
{
	return r < 0 && nl_batch_refusal(w->batch)->tag == end_tag;
}

struct trying {
	struct nl_sock *nl;
	enum ipfam fam;
	const struct nft_schema *schema; /* NULL: the nft plane's */
};

static void writer_begin(struct nft_writer *w, const struct trying *t)
{
	if (t->schema != NULL)
		nft_writer_init_as(w, t->nl, t->schema, TABLE);
	else
		nft_writer_init(w, t->nl, t->fam, TABLE);
	w->fam = t->fam;
}

/* All of them in one transaction, which is the usual answer for the price of one. */
static bool features_try(const struct trying *t, const struct nft_feature *features, size_t n)
{
	char names[NFT_TRIES_MAX][sizeof(TABLE) + 4];
	struct nft_writer w;
	bool is_well;

	writer_begin(&w, t);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), TABLE "%zu", i % 100);
		w.table = names[i];
		nft_write_table(&w, 0);
		feature_add(&w, &features[i]);
	}
	end_add(&w);
	is_well = is_through(&w, nft_writer_commit(&w, NULL, NULL));
	nft_writer_fini(&w);
	return is_well;
}

static void feature_try(struct nft_try *ret, const struct trying *t,
			const struct nft_feature *feature)
{
	struct nft_writer w;
	struct err err = { 0 };
	int r;

	writer_begin(&w, t);
	nft_write_table(&w, 0);
	feature_add(&w, feature);
	end_add(&w);
	r = nft_writer_commit(&w, NULL, &err);
	if (is_through(&w, r)) {
		ret->result = 0;
	} else if (r < 0) {
		ret->result = r;
		(void)snprintf(ret->detail, sizeof(ret->detail), "%.*s",
			       (int)sizeof(ret->detail) - 1, err.text);
	} else { /* somebody has a table of that name */
		ret->result = -EEXIST;
		(void)snprintf(ret->detail, sizeof(ret->detail), "table %s existed", NO_TABLE);
	}
	nft_writer_fini(&w);
}

void nft_try_list(struct nft_try *ret, struct nl_sock *nl, enum ipfam fam,
		  const struct nft_schema *schema, const struct nft_feature *features, size_t n)
{
	const struct trying t = { nl, fam, schema };
	bool is_well = features_try(&t, features, n);

	for (size_t i = 0; i < n; i++) {
		const char *const *needs = features[i].needs;

		ret[i] = (struct nft_try){ .what = features[i].what,
					   .needs = needs[fam] != NULL ? needs[fam] : needs[0] };
		if (!is_well)
			feature_try(&ret[i], &t, &features[i]);
	}
}

size_t nft_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			enum ipfam fam)
{
	nft_try_list(ret, nl, fam, NULL, features_nft, ARRAY_SIZE(features_nft));
	return ARRAY_SIZE(features_nft);
}

static int layout_try(struct nl_sock *nl, enum ipfam fam, const struct nft_layout_params *params,
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
	struct nft_layout_params params[] = {
		{ .detect = DETECT_LOCAL_CLUSTER_CIDR, .has_detector = true },
		{ .detect = DETECT_LOCAL_BRIDGE, .has_detector = true, .ifname = "vipd-try" },
		{ .is_masquerade_all = true },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < IPFAM_N * ARRAY_SIZE(params); i++)
		r = layout_try(nl, (enum ipfam)(i % IPFAM_N), &params[i / IPFAM_N], err);
	return r;
}
