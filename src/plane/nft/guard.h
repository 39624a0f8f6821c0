/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/guard - a small table that survives a flush of the ruleset by another process.
 *
 *     open -> desire -> (tick, follow)* ... -> close  while vipd serves
 *     cleanup                                        --cleanup
 *
 * A flush deletes vipd's tables, and with the last NAT chain the hooks of NAT and connection
 * tracking in this network namespace. Until vipd is back, packets of established connections
 * are not translated, and their peers reset them. The tables "vipd-guard" (one per family) are
 * owned by the socket `nl`, so a flush does not delete them; a nat chain and a rule that reads the
 * connection's state keep the hooks registered. Translations are in conntrack entries, not in
 * rules, so established connections continue.
 *
 * The rules apply REJ-06 again, after all other chains: a first packet to a service CIDR that no
 * chain translated is dropped without an answer, so a client that connects while the tables are
 * missing retransmits instead of failing. UDP from this host passes: dropping it would return
 * EPERM to the sender. nat chains see only first packets that no earlier chain has translated, so
 * the guard costs nothing for packets to services.
 *
 * The tables end with their owner, because without one they would protect nothing: a flush deletes
 * them, and nft 1.0.6 prints their flags as text that it cannot load again, so that a ruleset saved
 * meanwhile would be lost at the next boot. A restart still writes nothing: they are created
 * NFT_GUARD_AFTER_NS after the adoption, or with the first other write. Those that an older vipd
 * left are replaced then.
 *
 * Kernel: NFT_TABLE_F_OWNER, Linux 5.12. Older kernels reject it: one log line, and no guard.
 *         Private to plane/nft/.
 */
#pragma once

#include "nl/sock.h"
#include "plane/nft/layout.h"

#define NFT_GUARD_TABLE "vipd-guard"
/* Beginning of the table's comment; the version follows. */
#define NFT_GUARD_COMMENT "vipd guard "
#define NFT_GUARD_AFTER_NS (10 * NSEC_PER_SEC)

struct nft_guard;

/* `nl` is borrowed; it owns the tables. False: tick() removes those of an older vipd. */
void nft_guard_open(struct nft_guard **ret, struct nl_sock *nl, bool is_desired);
void nft_guard_close(struct nft_guard *g);

/* Set the service CIDRs of both families; written at once into tables that this process owns, else
 * by tick(). */
void nft_guard_desire(struct nft_guard *g, const struct ip_prefix *cidrs, size_t n);
/*
 * Create or remove the tables. tick(): if it is due; returns the time of its next call, 0 =
 * none. follow(): at once, after another write. Failures are logged; tick() retries.
 */
uint64_t nft_guard_tick(struct nft_guard *g, uint64_t now);
void nft_guard_follow(struct nft_guard *g);
/* Delete the tables. -EPERM: another process owns one. */
MUST_USE int nft_guard_cleanup(struct nl_sock *nl, struct err *err);

/* Are the tables of both families as desired, and owned by this process? */
bool nft_guard_is_programmed(const struct nft_guard *g);
