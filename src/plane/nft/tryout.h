/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/tryout - does this kernel have what the plane uses? Asked by doing it.
 *
 * nft_try_features() offers the kernel all expressions, sets and chains, and if it dislikes
 * them each on its own, in transactions whose last message it must refuse: it has looked at
 * everything before, and nothing is ever applied. So it may be asked where traffic flows, and a
 * module that was not loaded yet is loaded on the way.
 *
 * nft_try_layout() makes the layout as a whole, with chains of every sort, and removes it: for
 * a network namespace that nobody uses.
 */
#pragma once

#include "base/ip.h"
#include "nl/sock.h"
#include "plane/nft/sets.h"

struct nft_chain;
struct nft_rules;
struct nft_schema;
struct nft_writer;

#define NFT_TRIES_MAX 20

struct nft_try {
	const char *what;  /* static text: "maps with concatenated keys" */
	const char *needs; /* the kernel's options: "CONFIG_NFT_NUMGEN" */
	int result;        /* 0, or the -errno of the refusal */
	char detail[96];   /* what was refused, in the kernel's words; "" when nothing was */
};

/* A try: sets, then a rule, then whatever add() writes, in a table of its own. */
struct nft_feature {
	const char *what;
	const char *needs[IPFAM_N]; /* of IPv6 NULL: as IPv4 */
	size_t n_sets;
	enum nft_set_id sets[3];
	void (*expr)(struct nft_rules *rs, enum ipfam fam); /* or NULL: no rule */
	const struct nft_chain
		*base; /* of the rule, named NFT_TRY_CHAIN; NULL: an ordinary chain */
	void (*add)(struct nft_writer *w); /* or NULL */
};
#define NFT_TRY_CHAIN "try"

/* Features of any plane; `schema` NULL: of the nft plane. */
void nft_try_list(struct nft_try *ret, struct nl_sock *nl, enum ipfam fam,
		  const struct nft_schema *schema, const struct nft_feature *features, size_t n);

/* Fills the tries of one family; returns how many there are, at most NFT_TRIES_MAX. */
size_t nft_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			enum ipfam fam);

/* Both families. Errors as nft_layout_apply(). Forget the kinds (kind.h) of this process after. */
MUST_USE int nft_try_layout(struct nl_sock *nl, struct err *err);
