/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/feature.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>

#include "nft/rule.h"

#define TABLE "vipd-tryout"
#define NO_TABLE "vipd-tryout-end" /* does not exist: deleting it ends the transaction */

void nft_try_rule(struct nft_writer *w, const struct nft_feature *f)
{
	FINI(nft_rules_fini) struct nft_rules rs = { 0 };

	nft_write_chain(w, NFT_TRY_CHAIN, f->base);
	nft_rule_add(&rs, w->fam, f->rule);
	nft_write_rules(w, NFT_TRY_CHAIN, &rs);
}

static const char end_tag[] = "the end";

/* The message that the kernel rejects after it has checked all others. */
static void end_add(struct nft_writer *w)
{
	struct nlmsghdr *h =
		nl_batch_msg(w->batch, NFT_TYPE(NFT_MSG_DELTABLE), 0, w->family, end_tag);

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NO_TABLE);
}

static void feature_add(struct nft_writer *w, const struct nft_feature *f)
{
	for (size_t i = 0; i < f->n_sets; i++)
		nft_write_set(w, f->sets[i]);
	if (f->rule != NULL)
		nft_try_rule(w, f);
	if (f->add != NULL)
		f->add(w);
}

struct trying {
	struct nl_sock *nl;
	enum ipfam fam;
	const struct nft_schema *schema;
};

/* Test `n` features in one transaction, each in a table of its own. 0: the kernel has them. */
static int features_try(const struct trying *t, const struct nft_feature *features, size_t n,
			struct err *err)
{
	char names[NFT_TRIES_MAX][sizeof(TABLE) + 4] = { TABLE };
	FINI(nft_writer_fini) struct nft_writer w;
	int r;

	nft_writer_init(&w, t->nl, t->schema, t->fam, TABLE);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			(void)snprintf(names[i], sizeof(names[i]), TABLE "%zu", i % 100);
		w.table = names[i];
		nft_write_table(&w, 0);
		feature_add(&w, &features[i]);
	}
	end_add(&w);
	r = nft_writer_commit(&w, NULL, err);
	if (r == 0) /* a foreign table has this name */
		return err_set(err, -EEXIST, "table %s existed", NO_TABLE);
	/* Did the kernel reject only the last message? */
	return nl_batch_rejection(w.batch)->tag == end_tag ? 0 : r;
}

void nft_try_list(struct nft_try *ret, struct nl_sock *nl, enum ipfam fam,
		  const struct nft_schema *schema, const struct nft_feature *features, size_t n)
{
	const struct trying t = { nl, fam, schema };
	/* Sufficient when the kernel has all features. */
	bool is_well = features_try(&t, features, n, NULL) == 0;

	for (size_t i = 0; i < n; i++) {
		const char *const *needs = features[i].needs;
		struct err err = { 0 };

		ret[i] = (struct nft_try){ .what = features[i].what,
					   .needs = needs[fam] != NULL ? needs[fam] : needs[0] };
		ret[i].result = is_well ? 0 : features_try(&t, &features[i], 1, &err);
		if (ret[i].result < 0)
			(void)snprintf(ret[i].detail, sizeof(ret[i].detail), "%.*s",
				       (int)sizeof(ret[i].detail) - 1, err.text);
	}
}
