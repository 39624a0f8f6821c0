/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/common - the nf_tables half of a plane: what both planes do alike with their elements.
 *
 *      commit   settle (programmed and desired state) -> transact -> applied, or rejected
 *      sweep    plane_sweep_elements()
 *      check    the ruleset's generation, and notifications
 *
 *  The programmed state of an element is the acknowledged one (normal operation), comes from the
 *  copy (loaded phase), or is read (verify, audit). Counts and the copy change only after the
 *  acknowledgement.
 *
 *  Batches do not name the ruleset's generation (doc/design/0003-nft-elements.md): one that meets a
 *  foreign change of vipd's sets fails by itself (EEXIST, ENOENT). check() finds others: it
 *  compares the generation with the one after vipd's last transaction.
 */
#pragma once

#include <errno.h>

#include "nft/change.h"
#include "nft/elem.h"
#include "nft/refs.h"
#include "nft/watch.h"
#include "nft/write.h"
#include "plane/loaded.h"
#include "plane/plane.h"
#include "plane/rules.h"

struct plane_common;
#define PLANE_COUNTED_N 4

/* A chain that counts packets. The last one has no name. */
struct plane_counting_chain {
	const char *name;
	enum plane_rule_counter counter;
	bool leads_on; /* to a chain of PLANE_REJECT_NO_ENDPOINTS, which counts a packet again */
};

/* Where the planes differ. */
struct plane_common_ops {
	struct nft_table_ref (*table)(const struct plane_common *c, enum ipfam fam);
	const struct plane_sets *sets;
	/* Sets of addresses with reference counts: plane_refs(). */
	enum nft_set_id counted[PLANE_COUNTED_N];
	/* Addresses of this set stay for a grace period after the last use. NFTSET_END: none. */
	enum nft_set_id retained_set;
	/*
	 * Sets that sweep() covers. Elements are removed before those that they lead to: the first
	 * `n_frontends` sets have frontends as keys; the first `n_leading`, if any, are removed in
	 * transactions of their own.
	 */
	const enum nft_set_id *sweep;
	size_t n_sweep;
	size_t n_frontends;
	size_t n_leading;
	/* Loaded phase: set the programmed state of all changes. NULL: plane_settle_copied(). */
	void (*settle_loaded)(struct plane_common *c);
	/* How many elements may go with this one in sweep_prepare(), at most. May be NULL: none. */
	size_t (*sweep_more)(const struct plane_common *c, enum ipfam fam, enum nft_set_id set,
			     const uint8_t *key);
	/* Before a transaction of the sweep. May be NULL. */
	void (*sweep_prepare)(struct plane_common *c);
	/* Read the layouts again. Returns enum plane_check or -errno; env() repairs differences. */
	int (*layouts_check)(struct plane_common *c, struct err *err);
	void (*loaded_close)(struct plane_loaded *l);
	/*
	 * Counters (counters.c). Is the table of the family in force? 1; 0: the family is
	 * left out; -EAGAIN: not now.
	 */
	int (*is_in_force)(const struct plane_common *c, enum ipfam fam);
	const struct plane_counting_chain *counting_chains;
	const enum nft_set_id *slot_counters; /* each slot has a counter in one of them */
	size_t n_slot_counters;
	/*
	 * The key of a slot's element in `set`, and the data that it has while the counter is that
	 * of the slot's backend. False: the slot has its counter in another set.
	 */
	bool (*slot_counter)(const struct plane_common *c, enum nft_set_id set,
			     const struct plane_counted *s, uint8_t key[static NFT_KEY_MAX],
			     uint8_t data[static NFT_DATA_MAX]);
};

struct plane_common {
	struct plane plane; /* first: plane.h */
	const struct plane_common_ops *ops;
	struct nl_sock *cmd;
	struct nl_sock *query;
	struct nl_sock *watch_nl; /* or NULL */
	struct nl_batch *batch;
	struct nft_changes changes;  /* of the transaction under way */
	bool is_early_sent;          /* ... and its early part is in effect */
	struct plane_loaded *loaded; /* loaded phase only */
	struct nft_watch watch;
	struct plane_failover *failover; /* or NULL; plane/failover.h */
	struct nft_refs refs[IPFAM_N][PLANE_COUNTED_N];
	enum plane_counting counting;
	uint32_t genid;     /* after the first `n_commits` transactions of plane.batches */
	uint64_t n_commits; /* ... each later one raises it by 1 */
};

static inline struct plane_common *plane_common_of(struct plane *p)
{
	return container_of(p, struct plane_common, plane);
}

/* Is the loaded state being adopted? While the sweep is pending it is not. */
static inline bool plane_is_adopting(const struct plane_common *c)
{
	return c->loaded != NULL && !c->plane.is_sweep_pending;
}

/* Reference counts of a counted set. */
static inline struct nft_refs *plane_refs(struct plane_common *c, enum ipfam fam,
					  enum nft_set_id set)
{
	size_t i = 0;

	while (c->ops->counted[i] != set)
		i++;
	return &c->refs[fam][i];
}
/* Set all reference counts of a family to 0. */
void plane_refs_restart(struct plane_common *c, enum ipfam fam);

/* Takes the sockets. */
void plane_common_open(struct plane_common *c, const struct plane_ops *ops,
		       const struct plane_common_ops *common_ops, struct nl_sock *cmd,
		       struct nl_sock *query);
void plane_common_close(struct plane_common *c);
/*
 * Takes a socket for notifications of foreign changes. The caller polls nl_sock_fd(watch) and calls
 * check() soon after it is readable. Without the socket, check() still finds changes, but not the
 * process that made them.
 */
MUST_USE int plane_watch_with(struct plane *p, struct nl_sock *watch, struct err *err);

/* The loaded phase begins with `loaded` (taken), read at generation `genid`; it ends. */
void plane_loaded_begin(struct plane_common *c, struct plane_loaded *loaded, uint32_t genid);
void plane_loaded_end(struct plane_common *c);

/* Commit c->batch, and empty it. */
MUST_USE int plane_batch_commit(struct plane_common *c, struct err *err);

/* --- a commit --- */

/* Set programmed and desired state of the changes. */
MUST_USE int plane_settle(struct plane_common *c, enum plane_commit_mode mode, struct err *err);
/* Set the programmed state of a change from the copy. */
void plane_settle_copied(const struct plane_common *c, struct nft_change *ch);
/* Read the programmed state of changes with needs_read. Errors as nft_elems_get(). */
MUST_USE int plane_changes_read(struct plane_common *c, struct err *err);
/*
 * Send what must be in effect before the rest: hairpins that come. If the commit fails with `r`
 * before plane_transact(), plane_early_undo() takes them back and returns `r`, or -EBUSY if they
 * stay.
 */
MUST_USE int plane_transact_early(struct plane_common *c, struct plane_result *res,
				  struct err *err);
MUST_USE int plane_early_undo(struct plane_common *c, int r, struct plane_result *res,
			      struct err *err);
/*
 * Send the difference between desired and programmed, deletions first, in one transaction. What
 * plane_transact_early() has sent is undone if the kernel rejects the rest. Adds to `res` and to
 * the plane's times; may replace c->batch. Returns as plane_ops.commit; after a rejection `err`
 * names the element as nft prints it, after the family of its table, and res->culprit is its
 * service.
 */
MUST_USE int plane_transact(struct plane_common *c, struct plane_result *res, struct err *err);
/* After -ESTALE, read the programmed state and send the difference. */
MUST_USE int plane_transact_verified(struct plane_common *c, struct plane_result *res,
				     struct err *err);
/* Did the kernel reject a change? Else it lost the answer, or its state differs. */
static inline bool plane_is_rejection(int r)
{
	return r < 0 && r != -EBUSY && r != -ENOTRECOVERABLE && r != -ESTALE && r != -EINPROGRESS;
}
/* The transaction was acknowledged: update counts and the copy. */
void plane_applied(struct plane_common *c);
/*
 * The commit failed with `r`. Returns whether the kernel rejected it. Then the last acknowledged
 * state of its services stays: sweep() keeps elements of the commit, and addresses stay until the
 * next load, even if other services that use them are deleted.
 */
bool plane_rejection_note(struct plane_common *c, int r, enum plane_commit_mode mode,
			  const struct plan_op *ops, size_t n, struct plane_result *res);

/* --- counters.c --- */

/* Packets that the rules of one table have counted. */
MUST_USE int plane_rule_counts_read(struct nl_sock *nl, const struct nft_table_ref *table,
				    const struct plane_counting_chain *chains,
				    struct plane_rule_counts *ret, struct err *err);

/* plane_ops.rule_counts, .count */
MUST_USE int plane_rule_counts(const struct plane *plane, enum ipfam fam,
			       struct plane_rule_counts *ret, struct err *err);
MUST_USE int plane_count(const struct plane *plane, enum plane_counter which,
			 const struct plane_counted *v, size_t n, struct plane_count *ret,
			 struct err *err);

/* --- plane_ops --- */

/* Remove some elements that are not desired. 1: call it again. */
MUST_USE int plane_sweep_elements(struct plane_common *c, struct plane_result *res,
				  struct err *err);
/* Nothing is left to sweep: release the reserved ids that no pool adopted, end the loaded phase. */
void plane_sweep_end(struct plane_common *c);
size_t plane_orphaned(const struct plane *p);
bool plane_is_orphaned(const struct plane *p, const struct plan_frontend *f);
MUST_USE int plane_check(struct plane *p, struct err *err);
bool plane_touched(const struct plane *p, const struct plan_rows *rows);
