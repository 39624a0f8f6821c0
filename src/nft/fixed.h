/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/fixed - the fixed part of a table in the kernel.
 *
 * Tables are identified by their comment, rules by the hash in their userdata (see
 * plane/nft/layout.h) and by the names of the chains that they lead to: after a chain was
 * renamed, rules lead to its new name. A renamed base chain is deleted, because it keeps its hook.
 * Other foreign chains and sets inside our table are ignored.
 */
#pragma once

#include "base/htable.h"
#include "nft/bounds.h"
#include "nft/kind.h"
#include "nft/sets.h"
#include "nl/sock.h"

/* Type of rule userdata with the hash, 8 bytes; nft ignores it. */
#define NFT_RULE_UDATA_HASH 0x76
#define NFT_TABLE_COMMENT_MAX 64 /* with the version */

/* A chain that a schema declares. */
struct nft_chain {
	const char *name;
	const char *
		type; /* "nat", "filter", "route": a base chain; NULL: a chain that rules jump to */
	uint32_t hook; /* NF_INET_* */
	int32_t priority;
};

struct nft_rules;

/* Properties of the tables of one plane. */
struct nft_schema {
	const char *table;   /* its tables' first name: nft_table_name() */
	const char *comment; /* of its tables, before the version */
	int version;
	uint8_t family;        /* NFPROTO_* of tables that serve both families; 0: one table each */
	enum nft_set_id begin; /* its sets, up to before `end` ... */
	enum nft_set_id end;
	enum nft_set_id ranges; /* ... of them NFT_RANGE_SETS that are written with the rules */
	bool has_verdict_maps;
	const struct nft_chain *(*chain)(size_t i); /* the i-th chain, NULL after the last */
	/*
	 * Build the rules of the i-th chain. `rs` NULL: nothing. Returns whether the table has that
	 * chain.
	 */
	bool (*build)(const void *ctx, struct nft_rules *rs, enum ipfam fam, size_t i);
};

/* NFT_TABLE_F_PERSIST, Linux 6.9: headers of Linux 6.1 do not have it. */
#define NFT_FIXED_TABLE_F_PERSIST 0x4

struct nlattr;
/* The comment in the userdata of a table, NULL or not; "": none. */
const char *nft_table_comment(const struct nlattr *udata);
/* The chain of that name, or NULL. */
const struct nft_chain *nft_schema_chain(const struct nft_schema *schema, const char *name);

/* The maps and sets whose elements belong to the layout. */
#define NFT_VERDICT_MAPS 3 /* NFTSET_LEAVES + i */
#define NFT_RANGE_SETS 2   /* NFTSET_POD_CIDRS + i */

#define NFT_FIXED_KINDS (1 << NFT_KIND_BITS)

struct nft_fixed_chain {
	struct hnode node; /* in nft_fixed.chains */
	char *name;
	bool is_fresh; /* created in the current batch: nothing may jump to it yet */
	uint32_t policy;
	bool is_led;   /* a verdict map leads to it */
	bool is_stray; /* a base chain with rules of ours, which the schema does not have */
	/* One per rule, in order: nft_rule.hash ^ nft_rule.target; 0: a foreign rule. */
	VEC(uint64_t) hashes;
};

/* An element of a verdict map. */
struct nft_verdict {
	uint32_t kind;                  /* below NFT_FIXED_KINDS; others are not read */
	int32_t code;                   /* NFT_JUMP, NFT_GOTO, NF_DROP ... */
	char chain[NFT_CHAIN_NAME_MAX]; /* "" when the code has none; a longer name is cut */
	bool exists;                    /* false: deleted */
};

struct nft_fixed_verdicts {
	uint16_t at[NFT_FIXED_KINDS]; /* place in `v`, from 1; 0: the kind was never there */
	VEC(struct nft_verdict) v;    /* in any order */
};

struct nft_fixed {
	bool exists;
	uint32_t flags;
	bool has_set[NFTSET_END]; /* with our types: others are not to be dumped */
	char misfit[128];         /* reason why it cannot be repaired in place; "" = it can */
	struct htable chains;     /* of struct nft_fixed_chain, by name */
	struct nft_fixed_verdicts *verdicts[NFT_VERDICT_MAPS]; /* NULL: none */
	struct nft_bounds ranges[NFT_RANGE_SETS];              /* sorted */
};

/* A table of this family, ours or not. */
struct nft_fixed_table {
	uint8_t family; /* NFPROTO_* */
	char name[NFT_TABLE_NAME_MAX];
	uint64_t handle; /* 0: there is none */
	uint32_t flags;
	uint32_t owner; /* netlink port; of a table with NFT_TABLE_F_OWNER */
	bool is_ours;
	int version; /* of its layout */
};

struct nft_fixed_tables {
	VEC(struct nft_fixed_table) v; /* in order of handle: oldest first */
};

/* Tables that may exist at a time: "vipd", "vipd-2" ... */
#define NFT_TABLE_NAMES_MAX 9
/* The name of the `i`th, from 1. */
void nft_table_name(char buf[static NFT_TABLE_NAME_MAX], const char *base, int i);

void nft_fixed_fini(struct nft_fixed *h);

/* NFPROTO_* of the tables of a schema. */
static inline uint8_t nft_schema_family(const struct nft_schema *schema, enum ipfam fam)
{
	return schema->family != 0 ? schema->family : nft_family(fam);
}

/* The table of that name, vipd's or not: 1; 0: none. */
MUST_USE int nft_fixed_table_read(struct nft_fixed_table *ret, struct nl_sock *nl, enum ipfam fam,
				  const struct nft_schema *schema, const char *name,
				  struct err *err);
/* Those of nft_table_name(). */
MUST_USE int nft_fixed_tables_read(struct nft_fixed_tables *ret, struct nl_sock *nl, enum ipfam fam,
				   const struct nft_schema *schema, struct err *err);
/* The table with the schema's first name: 1; 0: none; -EEXIST: it is not vipd's. */
MUST_USE int nft_fixed_table_find(struct nft_fixed_table *ret, struct nl_sock *nl, enum ipfam fam,
				  const struct nft_schema *schema, struct err *err);
/* -EPERM: another process owns the table, and only that process can modify it. */
MUST_USE int nft_fixed_owner_check(const struct nft_fixed_table *t, const struct nl_sock *nl,
				   struct err *err);
/*
 * Read `table`; replaces `ret`. Sets and chains of another level of counting do not fit,
 * unless `counting` is NFT_COUNT_ANY. Of a table for both families, reads the sets of `fam`.
 * -EAGAIN also when the table changes meanwhile.
 */
MUST_USE int nft_fixed_read(struct nft_fixed *ret, struct nl_sock *nl, enum ipfam fam,
			    const struct nft_fixed_table *table, const struct nft_schema *schema,
			    unsigned int counting, struct err *err);
/* Add the packets and bytes that the rules of one chain have counted. */
MUST_USE int nft_fixed_counters(struct nl_sock *nl, uint8_t family, const char *table,
				const char *chain, uint64_t *packets, uint64_t *bytes,
				struct err *err);

/* NULL when there is none. */
struct nft_fixed_chain *nft_fixed_chain(const struct nft_fixed *h, const char *name);
/* Makes one without rules if there is none. */
struct nft_fixed_chain *nft_fixed_chain_get(struct nft_fixed *h, const char *name);
void nft_fixed_chain_del(struct nft_fixed *h, const char *name);
struct nft_verdict *nft_fixed_verdict(const struct nft_fixed *h, unsigned int map, uint32_t kind);
/* Enter or replace. */
void nft_fixed_verdict_put(struct nft_fixed *h, unsigned int map, const struct nft_verdict *v);
