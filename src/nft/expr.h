/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/expr - lists of rules, to which nft/rule.h appends; and what the expressions of a rule do
 * that was read from the kernel: its NFTA_RULE_EXPRESSIONS, of linux/netfilter/nf_tables.h.
 */
#pragma once

#include "base/ip.h"
#include "base/vec.h"

struct nlattr;
struct nftnl_rule;
struct nftnl_expr;

struct nft_rule {
	struct nftnl_rule *r;
	struct nftnl_expr *l4protos; /* lookup of an anonymous set, created before the rule */
	uint64_t hash;               /* of the expressions; not 0 after nft_rules_hash() */
	uint64_t target;             /* nft_target_hash(), after nft_rules_hash() */
};

/* nft's state bits: NF_CT_STATE_*_BIT of the kernel's nf_conntrack.h. */
#define NFT_CT_STATE_INVALID 1
#define NFT_CT_STATE_ESTABLISHED 2
#define NFT_CT_STATE_RELATED 4
#define NFT_CT_STATE_NEW 8
#define NFT_CT_STATE_UNTRACKED 64

/* Zeroed memory is an empty list. */
struct nft_rules {
	VEC(struct nft_rule) v;
};

void nft_rules_fini(struct nft_rules *rs);
/* All rules are complete: compute their hashes. */
void nft_rules_hash(struct nft_rules *rs);
/* The chain to which the rule jumps or goes, or NULL; without verdict maps. */
const char *nft_target(const struct nlattr *expressions);
/* Hash of the name of that chain; 0: none. */
uint64_t nft_target_hash(const struct nlattr *expressions);

/* A number, NFTA_COUNTER_*, of the expression if it is a counter, else 0. */
uint64_t nft_counter(const struct nlattr *expression, uint16_t type);

/* The value that an expression "cmp" with this NFTA_EXPR_DATA compares with. */
const struct nlattr *nft_cmp_value(const struct nlattr *data);
/* Does the rule with these NFTA_RULE_EXPRESSIONS drop or reject every packet? */
bool nft_rejects_all(const struct nlattr *expressions);
/* Does every packet get the rule's verdict: accept, return, jump, ...? */
bool nft_is_unconditional(const struct nlattr *expressions);

/*
 * What the rule accepts if it has at most one condition: on the state or status of connections, of
 * nft or iptables' `-m conntrack`, or on a prefix (CNI plugins accept all packets of pods).
 */
enum {
	NFT_ACCEPTS_ESTABLISHED = 1, /* packets of established connections */
	NFT_ACCEPTS_NEW = 2,
	NFT_ACCEPTS_DNAT = 4, /* new and established: those with a translated destination */
	NFT_ACCEPTS_ALL = 15, /* no condition */
};
unsigned int nft_accepts(const struct nlattr *expressions);
