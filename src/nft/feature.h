/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/feature - test whether the kernel has an nf_tables feature, by using it.
 *
 * All features are sent in one transaction whose last message the kernel must reject, so
 * that it checks every message and applies none. The kernel loads missing modules. If it
 * rejects an earlier message, each feature is tested alone.
 */
#pragma once

#include "nft/write.h"

struct nft_op;

#define NFT_TRIES_MAX 20

struct nft_try {
	const char *what;  /* static text: "maps with concatenated keys" */
	const char *needs; /* the kernel's options: "CONFIG_NFT_NUMGEN" */
	int result;        /* 0, or the kernel's -errno */
	char detail[96];   /* the kernel's text about the rejected message, or "" */
};

/* A test: sets, then a rule, then the messages of add(), in a table of its own. */
struct nft_feature {
	const char *what;
	const char *needs[IPFAM_N]; /* IPv6 may be NULL: as IPv4 */
	size_t n_sets;
	enum nft_set_id sets[3];
	const struct nft_op *rule; /* OPS() of nft/rule.h, or NULL */
	const struct nft_chain
		*base; /* of the rule, named NFT_TRY_CHAIN; NULL: an ordinary chain */
	void (*add)(struct nft_writer *w); /* or NULL */
};
#define NFT_TRY_CHAIN "try"

/* Add a chain NFT_TRY_CHAIN with the rule of the feature. */
void nft_try_rule(struct nft_writer *w, const struct nft_feature *f);
/* Try each of `n` features; ret[i] is the result of features[i]. */
void nft_try_list(struct nft_try *ret, struct nl_sock *nl, enum ipfam fam,
		  const struct nft_schema *schema, const struct nft_feature *features, size_t n);
