/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/write - write the fixed part of a table.
 *
 *     init -> table, set, chain, rules, verdicts, ranges ... -> commit -> fini
 *
 * One transaction. The tag of each message is a text for errors: "chain p3, rule 1: ...".
 */
#pragma once

#include "nft/expr.h"
#include "nft/fixed.h"
#include "nl/batch.h"

/* A message that is a list of elements, to which more can be appended while it is the last one. */
struct nft_writer_list {
	struct nlmsghdr *h;
	struct nlattr *list;
	struct nlattr *elem; /* the last one */
	size_t end;          /* messages of the batch with this one */
	uint16_t msg;        /* NFT_MSG_* */
	const char *set;
	size_t n;
};

struct nft_writer {
	struct nl_batch *batch;
	enum ipfam fam;
	uint8_t family;
	const char *table;
	const struct nft_schema *schema;
	unsigned int counting;       /* enum nft_counting of new sets; set it after init */
	uint32_t last_set_id;        /* numbers of sets within a transaction */
	size_t n_writes;             /* messages, elements one by one */
	struct nft_writer_list list; /* the last one */
	VEC(char *) tags;
};

/* Totals of commits; added to, never reset. */
struct nft_result {
	size_t n_writes;  /* messages other than batch begin and end; elements one by one */
	size_t n_batches; /* committed */
	uint64_t kernel_ns;
};

/* `schema` and `table` are borrowed until fini. `fam` selects the sets; it may be changed. */
void nft_writer_init(struct nft_writer *w, struct nl_sock *nl, const struct nft_schema *schema,
		     enum ipfam fam, const char *table);
void nft_writer_fini(struct nft_writer *w);

/*
 * Creating fails with -EEXIST when the object exists; but an ordinary chain may exist if it
 * is empty and nothing jumps to it.
 */
void nft_write_table(struct nft_writer *w, uint32_t flags);
/* Set the flags of an existing table: make it active, or own it. */
void nft_write_table_flags(struct nft_writer *w, uint32_t flags);
void nft_write_table_del(struct nft_writer *w, uint64_t handle);
void nft_write_set(struct nft_writer *w, enum nft_set_id id);
/* No rule may use the set any more; deletes its elements too. */
void nft_write_set_del(struct nft_writer *w, enum nft_set_id id);
/* `base`: type, hook and priority; NULL: an ordinary chain. */
void nft_write_chain(struct nft_writer *w, const char *name, const struct nft_chain *base);
/* Append the rules, with their hashes, to the chain. */
void nft_write_rules(struct nft_writer *w, const char *chain, struct nft_rules *rs);
/* Elements of a verdict map: many in a row are one message. */
void nft_write_verdict_del(struct nft_writer *w, enum nft_set_id map, uint32_t kind);
void nft_write_verdict(struct nft_writer *w, enum nft_set_id map, const struct nft_verdict *v);

/*
 * Write the parts that `h`, the table in the kernel, lacks, and update `h`. After a failed
 * commit `h` is invalid.
 */
struct nft_fixed_chain *nft_ensure_chain(struct nft_writer *w, struct nft_fixed *h,
					 const char *name, const struct nft_chain *base);
void nft_ensure_rules(struct nft_writer *w, struct nft_fixed_chain *c, struct nft_rules *rs);
/* Delete a chain, to which nothing may jump any more, with its rules. */
void nft_remove_chain(struct nft_writer *w, struct nft_fixed *h, const char *name);
/* The schema's chains with their rules, built for `ctx`; chains that the table does not have, and
 * stray ones, are deleted. */
void nft_ensure_chains(struct nft_writer *w, struct nft_fixed *h, const void *ctx);
void nft_ensure_sets(struct nft_writer *w, struct nft_fixed *h);
void nft_ensure_ranges(struct nft_writer *w, struct nft_fixed *h, unsigned int index,
		       const struct ip_prefix *prefixes, size_t n);

/*
 * Without messages returns 0 without a transaction. Adds to `res`, which may be NULL.
 * Errors as nl_batch_commit(); -EOPNOTSUPP: `err` names the expression and the module
 * that the kernel lacks.
 */
MUST_USE int nft_writer_commit(struct nft_writer *w, struct nft_result *res, struct err *err);
/* Was the last commit rejected because the kernel does not support a table's flags? */
bool nft_writer_is_table_rejected(const struct nft_writer *w);

/* Delete a table, or all tables of the schema; 0 also if one no longer exists. */
MUST_USE int nft_table_delete(struct nl_sock *nl, const struct nft_schema *schema,
			      const struct nft_fixed_table *t, struct nft_result *res,
			      struct err *err);
MUST_USE int nft_tables_delete(struct nl_sock *nl, const struct nft_schema *schema, enum ipfam fam,
			       struct nft_result *res, struct err *err);
