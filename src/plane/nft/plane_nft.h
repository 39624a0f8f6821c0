/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft - the nftables plane: operations become elements of a few big sets.
 *
 * One fixed table a family (plane/nft/layout.h); whatever depends on services is
 * set elements (nft/sets.h). One commit() is one batch, all or nothing; only
 * a pool size never seen before needs two small batches more, ahead of it.
 *
 * Refusals: the kernel's answer points at an element, the element knows its
 *           service: that is plane_result.culprit.
 * Lingering: an address that no backend has any more stays in `endpoint_addrs`
 *           for NFT_LINGER_S, because established connections to it go on and
 *           their INVALID packets must still be caught. tick() removes it.
 * Kernel:   linux/netfilter/nf_tables.h; Linux 5.10 or newer.
 */
#pragma once

#include "nl/sock.h"
#include "plane/plane.h"

/* How long an address outlives its last backend. */
#define NFT_LINGER_S 3600
/*
 * Elements a batch. The kernel holds its nft lock for 1 to 2 us an element, so a
 * batch stays below 50 ms. A single service larger than that is still one batch.
 */
#define NFT_BATCH_ELEMS 16384

extern const struct plane_ops nft_plane_ops;

/*
 * Takes both sockets. `cmd` carries batches, `query` dumps and look-ups; tests
 * give scripted ones. Nothing is read or written before load().
 */
void nft_plane_open(struct plane **ret, struct nl_sock *cmd, struct nl_sock *query);

/*
 * Gives the plane a third socket (taken) to look for strays with: addresses in
 * `endpoint_addrs` that nobody knows, left by an earlier process or by a transaction
 * whose outcome was lost. tick() then goes over that set piece by piece, after each
 * sweep and once a day, and what it finds lingers from then on. Without it they stay.
 */
void nft_plane_walk_with(struct plane *p, struct nl_sock *walk);

/*
 * Gives the plane a socket (taken) to hear with who changes the ruleset. The caller
 * waits for nl_sock_fd(watch), and calls check() when something comes, or soon after:
 * that takes it in. A failure costs nothing but the names: check() finds changes without it.
 */
MUST_USE int nft_plane_watch_with(struct plane *p, struct nl_sock *watch, struct err *err);

/*
 * Before the first load(): our tables get an owner, the socket `cmd`, and outlive it
 * (NFT_TABLE_F_OWNER, NFT_TABLE_F_PERSIST). Nobody else can change them, and a flush
 * of the ruleset leaves them out. When the process ends they have no owner, and the
 * next one claims them: one write a family. Where the kernel cannot (before Linux 6.9)
 * they are made without, and a warning says so.
 */
void nft_plane_own_tables(struct plane *p);

/*
 * Before the first load(): shall there be a table that a flush of the ruleset leaves, so that
 * established connections go on until ours are back (plane/nft/guard.h)? If not, what an
 * earlier process left of it is removed. Never called: nobody looks. tick() does the work.
 */
void nft_plane_guard(struct plane *p, bool is_wanted);

/* What the plane remembers; for status, tests and memory budgets. */
struct nft_plane_stats {
	size_t n_vips; /* addresses counted, both families */
	size_t n_cluster_ips;
	size_t n_endpoint_addrs;
	size_t n_lingering;
	size_t n_loaded;     /* elements copied from the kernel; 0 outside the loaded phase */
	uint64_t n_foreign;  /* times check() saw that somebody else changed the ruleset */
	bool is_table_owner; /* our tables are held by this process */
	bool has_guard;      /* nft_plane_guard(): it is there and held */
};
struct nft_plane_stats nft_plane_stats(const struct plane *p);

/* What the kernel shall count, before the first load(). Tables that count otherwise are replaced.
 */
void nft_plane_count(struct plane *p, enum plane_counting counting);
