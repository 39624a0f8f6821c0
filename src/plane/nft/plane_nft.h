/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft - the nftables plane: operations become elements of a few large sets.
 *
 * One fixed table per family (plane/nft/layout.h); everything that depends on services is a set
 * element (nft/sets.h). A commit is one batch, all or nothing; a new pool size needs two small
 * batches before it.
 *
 * Rejections: the kernel's answer names an element, and the element its service:
 *             plane_result.culprit.
 * Grace period: the address of a removed backend stays in `endpoint_addrs` for NFT_GRACE_S,
 *             because INVALID packets of its established connections must be dropped. Of more
 *             than NFT_RETAINED_MAX the oldest go earlier. tick() removes them.
 * Kernel:     linux/netfilter/nf_tables.h; Linux 5.10 or newer.
 */
#pragma once

#include "nl/sock.h"
#include "plane/plane.h"

/* Grace period of an address after its last backend. */
#define NFT_GRACE_S 3600
/*
 * Addresses of a family in their grace period. Their number is that of replaced endpoints and
 * ports, of which a tenant can replace thousands a second.
 */
#define NFT_RETAINED_MAX 65536

extern const struct plane_ops nft_plane_ops;

/*
 * Takes both sockets: `cmd` for batches, `query` for dumps and look-ups. Nothing is read or written
 * before load().
 */
void nft_plane_open(struct plane **ret, struct nl_sock *cmd, struct nl_sock *query);

/*
 * Takes a third socket for walks: over `endpoint_addrs`, to find stray addresses (entries without a
 * backend, left by an earlier process or by a transaction whose outcome was lost), and over
 * affinity entries after a timeout became shorter. tick() walks `endpoint_addrs` in pieces after
 * each sweep and once a day; strays get the grace period. Without the socket, strays stay, and
 * affinity entries keep their old timeout.
 */
void nft_plane_walk_with(struct plane *p, struct nl_sock *walk);

/*
 * Before the first load(): create tables that the socket `cmd` owns and that persist after it
 * (NFT_TABLE_F_OWNER, NFT_TABLE_F_PERSIST). No other process can change them, and a flush of the
 * ruleset does not delete them. The next process claims them with one write per family.
 * Before Linux 6.9 the tables have no owner, and a warning is logged.
 */
void nft_plane_own_tables(struct plane *p);

/*
 * Before the first load(): keep guard tables (plane/nft/guard.h), or remove those of an older
 * vipd. If never called, existing ones stay. tick() does the work.
 */
void nft_plane_guard(struct plane *p, bool is_wanted);

/* Of plane/failover.h. */
#define NFT_FAILOVER_TABLE "vipd-failover"

/* Set the level of counting before the first load(). Tables of another level are replaced. */
void nft_plane_count(struct plane *p, enum plane_counting counting);
