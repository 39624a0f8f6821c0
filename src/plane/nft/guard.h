/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/guard - a small table that stays when somebody flushes the ruleset.
 *
 *     open -> want -> (tick, follow)* ... -> close    vipd serves
 *     open -> cleanup -> close                       --cleanup
 *
 * A flush takes our tables, and with the last of them the hooks of NAT and connection
 * tracking in this network namespace: until we are back, packets of established
 * connections are not translated, and their peers reset them. "vipd-guard", one table a
 * family, has an owner, the socket `nl`, so a flush leaves it out; it has a nat
 * chain and a rule that asks for the connection's state, and these two keep the
 * hooks. Mappings live in the tracked connections, not in rules: those go on.
 *
 * Its rules are REJ-06 once more, behind everybody else's: the first packet of a connection
 * to a service CIDR that nobody translated is dropped without an answer, so a client that
 * comes while the tables are away sends again, and is not told that there is nothing.
 * A datagram of this host is let pass: its sender would be told at once (EPERM).
 * nat chains see first packets only, and none that an earlier chain translated:
 * what is served pays nothing for this.
 *
 * Zero writes at a restart stay zero: what an earlier process left, which has no owner then,
 * is taken GUARD_AFTER_NS after the adoption, or when something else was written.
 *
 * Kernel: NFT_TABLE_F_OWNER and NFT_TABLE_F_PERSIST, Linux 6.9. Older ones refuse them:
 *         one line in the log, and no guard. Private to plane/nft/.
 */
#pragma once

#include "nl/sock.h"
#include "plane/nft/layout.h"

#define NFT_GUARD_TABLE "vipd-guard"
/* Of the table's comment, before the version. */
#define NFT_GUARD_COMMENT "vipd guard "
#define NFT_GUARD_AFTER_NS (10 * NSEC_PER_SEC)

enum nft_guard_mode {
	NFT_GUARD_UNSET = 0, /* never looked at */
	NFT_GUARD_OFF,       /* shall not be there */
	NFT_GUARD_ON,        /* shall be there, where the kernel can */
};

struct nft_guard;

/* `nl` is borrowed, and is what owns the tables. */
void nft_guard_open(struct nft_guard **ret, struct nl_sock *nl, enum nft_guard_mode mode);
void nft_guard_close(struct nft_guard *g);
DEFINE_AUTO(struct nft_guard *, nft_guard_close);

/* The service CIDRs, of both families. A guard that is held gets them at once, others by tick(). */
void nft_guard_want(struct nft_guard *g, const struct ip_prefix *cidrs, size_t n,
		    struct nft_result *res);
/*
 * Make it so: when the time is come, and returns when to come again, 0 = not at all; or now,
 * because something else was written. Failures are logged, and the former tries again.
 */
uint64_t nft_guard_tick(struct nft_guard *g, uint64_t now, struct nft_result *res);
void nft_guard_follow(struct nft_guard *g, struct nft_result *res);
/* Delete it. -EPERM: another process holds it. */
MUST_USE int nft_guard_cleanup(struct nft_guard *g, struct err *err);

/* Is it there, as wanted, and ours, of both families? */
bool nft_guard_is_held(const struct nft_guard *g);
