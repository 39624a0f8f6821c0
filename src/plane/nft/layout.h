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
 * Rules are recognised by a hash of their expressions, which each carries as userdata that nft
 * ignores. A foreign edit makes another rule, without the hash. A chain whose list of hashes
 * differs gets a new rule list in one transaction: packets pass the old list or the new one.
 *
 * The table is called "vipd", or "vipd-2" to "vipd-9"; its comment, "vipd layout <version>",
 * identifies it as vipd's. A table of vipd whose sets or base chains cannot be repaired is
 * replaced: the whole layout is created under another name, the caller adds the elements, and
 * retire() deletes the old table. Meanwhile both serve: the hooks of the newer table run first, and
 * packets that match nothing there reach the older one.
 *
 * Errors: a failed batch changes nothing and leaves the layout "not loaded":
 *         load again. -EEXIST, -ENOENT: another process changed the table
 *         meanwhile. -EAGAIN: dumps kept being interrupted. -EOPNOTSUPP, -ENOENT
 *         on a first apply: `err` names the rule, and so the kernel module, that is missing.
 */
#pragma once

#include "model/model.h"
#include "nft/fixed.h"
#include "nft/kind.h"
#include "nft/sets.h"
#include "nft/write.h"
#include "nl/batch.h"
#include "plane/plane.h"

#define NFT_LAYOUT_VERSION 3

struct nft_layout;

/* The nft plane's tables. */
extern const struct nft_schema nft_schema;

/* Values of the model that rules depend on. Arrays are borrowed; prefixes of the other family are
 * skipped. */
struct nft_layout_params {
	enum detect_local detect;
	bool has_detector;
	bool is_masquerade_all;
	bool preserves_local_source;
	char ifname[IFNAME_MAX];
	/* If set, node ports are served on the loopback address; clients there get this source. */
	struct ip_addr localhost_source;
	const struct ip_prefix *pod_cidrs;
	size_t n_pod_cidrs;
	const struct ip_prefix *service_cidrs;
	size_t n_service_cidrs;
	enum plane_counting counting; /* nft_layout_apply() fills it in */
};

enum nft_layout_state {
	NFT_LAYOUT_UNKNOWN = 0, /* not loaded, or a write failed */
	NFT_LAYOUT_ABSENT,      /* no table of ours */
	NFT_LAYOUT_PRESENT,     /* ours; apply() can repair it in place */
	NFT_LAYOUT_FOREIGN,     /* ours, of another version or with other sets: will be replaced */
};

/* `nl` is borrowed. Both families may share one socket. */
void nft_layout_open(struct nft_layout **ret, struct nl_sock *nl, enum ipfam fam);
/* Set the level of counting before load(); a table of another level is replaced. */
void nft_layout_count(struct nft_layout *l, enum plane_counting counting);
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
/* Accept tables with and without an owner, for reading only: apply() must not be called. */
void nft_layout_look(struct nft_layout *l);
/* Did the last apply() fail because the kernel does not support owned tables? */
bool nft_layout_is_owner_refused(const struct nft_layout *l);

/* Borrowed arrays of the model's environment. */
struct nft_layout_params nft_layout_params_from(const struct model *m, enum ipfam fam);

/* On an error (-EAGAIN: foreign changes interrupted each attempt) the previous state stays. */
MUST_USE int nft_layout_load(struct nft_layout *l, struct err *err);
/* Write the difference; `res` may be NULL. One batch (two when chains for known kinds are missing).
 */
MUST_USE int nft_layout_apply(struct nft_layout *l, const struct nft_layout_params *params,
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
				      struct nft_result *res, struct err *err);
/* Delete the tables that this one replaces. Call when all services are programmed. */
MUST_USE int nft_layout_retire(struct nft_layout *l, struct nft_result *res, struct err *err);
/* Delete every table of this family with our comment (--cleanup). The state is then ABSENT. */
MUST_USE int nft_layout_cleanup(struct nft_layout *l, struct nft_result *res, struct err *err);

enum nft_layout_state nft_layout_state(const struct nft_layout *l);
enum ipfam nft_layout_fam(const struct nft_layout *l);
/* Name of the table in force: the one that load() found or apply() created. */
const char *nft_layout_table(const struct nft_layout *l);
/* The kernel's handle of that table, unique for each table; 0 = unknown. */
uint64_t nft_layout_handle(const struct nft_layout *l);
/* After load(): does the table have this set with our types? Otherwise do not dump it. */
bool nft_layout_has_set(const struct nft_layout *l, enum nft_set_id id);
/* After load(): does a chain for this kind exist and do the verdict maps lead to it? */
bool nft_layout_has_kind(const struct nft_layout *l, uint16_t kind);
