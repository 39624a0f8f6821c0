/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/layout - the fixed part of one family's table: chains, rules, sets,
 * verdict maps, and the elements that depend on the node and not on a service.
 *
 *     open -> load -> apply -> (chains_need, apply)* ... -> close
 *                        \-> retire, once the table has all its services
 *
 * load() reads the kernel state and writes nothing. apply() compares it with the parameters and
 * writes the difference: a correct table costs no write. The result is kept, so a later apply()
 * with other parameters writes only what they change.
 *
 * Rules are recognised by the names of the chains that they lead to, and by a hash of their
 * expressions, which each carries as userdata that nft ignores. A foreign edit makes another rule,
 * without the hash. A chain whose list of hashes differs gets a new rule list in one transaction:
 * packets pass the old list or the new one.
 *
 * The table is called "vipd", or "vipd-2" to "vipd-9"; its comment, "vipd layout <version>",
 * identifies it as vipd's. A table of vipd whose sets or base chains cannot be repaired is
 * replaced: the whole layout is created under another name, the caller adds the elements, and
 * retire() deletes the old table. Meanwhile both serve: the hooks of the newer table run first, and
 * packets that match nothing there reach the older one. So only the newest is repaired, and while
 * the sweep is pending, old ones lose what the table in force translates (nft_supersede()).
 *
 * Errors: a failed batch changes nothing and leaves the layout "not loaded":
 *         load again. -EEXIST, -ENOENT: another process changed the table
 *         meanwhile. -EAGAIN: dumps kept being interrupted. -EOPNOTSUPP, -ENOENT
 *         on a first apply: `err` names the rule, and so the kernel module, that is missing.
 */
#pragma once

#include "nft/fixed.h"
#include "nft/kind.h"
#include "nft/sets.h"
#include "nft/write.h"
#include "plane/rules.h"

#define NFT_LAYOUT_VERSION 6

/* --- rules.c: chains and rules, without access to the kernel --- */

/* After the nat chains of all other proxies, which have then translated their packets. */
#define NFT_PRI_NAT_LAST (NF_IP_PRI_NAT_DST + 10)

/* The nftables plane's tables; rules are built for struct plane_rules_params. */
extern const struct nft_schema nft_schema;
extern const struct plane_sets nft_plane_sets;
/* The chain that picks a backend for a kind that nft_kind_info() knows. */
void nft_rules_pick(struct nft_rules *rs, enum ipfam fam, const struct nft_kind_info *kind);

/* --- layout.c --- */

enum nft_layout_state {
	NFT_LAYOUT_UNKNOWN = 0, /* not loaded, or a write failed */
	NFT_LAYOUT_ABSENT,      /* no table of ours */
	NFT_LAYOUT_PRESENT,     /* ours; apply() can repair it in place */
	NFT_LAYOUT_OBSOLETE,    /* ours, of another version or with other sets: will be replaced */
};

/* Other files read `state` and what it says is valid; before load() they set `counting`. */
struct nft_layout {
	struct nl_sock *nl;
	enum ipfam fam;
	enum nft_layout_state state;
	char table[NFT_TABLE_NAME_MAX]; /* in force: that load() found or apply() created */
	uint64_t handle;                /* of that table, unique for each table; 0 = unknown */
	struct nft_fixed programmed;
	VEC(struct nft_fixed_table) old; /* tables of ours that this one replaces */
	size_t n_orphans; /* frontends that only `old` tables have; 1 also if not counted yet */
	char misfit[512]; /* the reason if one of them could not be repaired */
	bool is_fresh;    /* read and not written since: differences are foreign changes */
	/* Accept tables with and without an owner, for reading only: apply() must not be called. */
	bool is_readonly;
	bool is_owned; /* nft_layout_own() */
	/* The last apply() failed: no tables that outlive their owner (before Linux 6.9). */
	bool is_owner_rejected;
	struct err holder;            /* another process owns a table of ours, or "" */
	enum plane_counting counting; /* a table of another level is replaced */
	struct nft_kinds kinds;       /* with an existing or desired chain */
};

/* `nl` is borrowed. Both families may share one socket. */
void nft_layout_open(struct nft_layout **ret, struct nl_sock *nl, enum ipfam fam);
void nft_layout_close(struct nft_layout *l);
DEFINE_AUTO(struct nft_layout *, nft_layout_close);

/*
 * Should the socket `nl` own the table, and should the table persist after it? Default: no. apply()
 * claims a persistent table without an owner with one write, and replaces a table of the other
 * kind. While another process owns a table of vipd, apply() and cleanup() fail with -EPERM.
 */
void nft_layout_own(struct nft_layout *l, bool yes);
/* Does `nl` own the table in force? */
bool nft_layout_is_owner(const struct nft_layout *l);

/* On an error (-EAGAIN: foreign changes interrupted each attempt) the previous state stays. */
MUST_USE int nft_layout_load(struct nft_layout *l, struct err *err);
/* Write the difference; `res` may be NULL. One batch (two when chains for known kinds are missing).
 */
MUST_USE int nft_layout_apply(struct nft_layout *l, const struct plane_rules_params *params,
			      struct nft_result *res, struct err *err);
/*
 * Create the missing pick chains of `kinds` in one batch, then their entries in the verdict maps in
 * a second one: a packet that entered the ruleset before the first batch sees an empty chain. Call
 * before the batch whose elements use the kinds; at the first load, with all kinds in one call
 * before `endpoints` is filled, because the kernel walks that map once for a new rule.
 * Existing kinds, and reject, drop, xl and fw, cost nothing. -EINVAL: not a kind.
 */
MUST_USE int nft_layout_chains_need(struct nft_layout *l, const uint16_t *kinds, size_t n,
				    struct nft_result *res, struct err *err);
/*
 * Delete the chains of `kinds` and their entries in the verdict maps in one batch; no frontend may
 * lead there. Kinds without a chain cost nothing.
 */
MUST_USE int nft_layout_chains_remove(struct nft_layout *l, const uint16_t *kinds, size_t n,
				      struct err *err);
/* Delete the tables that this one replaces. Call when all services are programmed. */
MUST_USE int nft_layout_retire(struct nft_layout *l, struct nft_result *res, struct err *err);
/* Delete every table of this family with our comment (--cleanup). The state is then ABSENT. */
MUST_USE int nft_layout_cleanup(struct nft_layout *l, struct nft_result *res, struct err *err);

/* After load(): does a chain for this kind exist and do the verdict maps lead to it? */
bool nft_layout_has_kind(const struct nft_layout *l, uint16_t kind);
