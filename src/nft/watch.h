/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/watch - nf_tables notifications: foreign processes, and changed elements of our tables.
 *
 *     join -> (wait for nl_sock_fd) -> read -> text, touches, reset
 *
 * For each commit the kernel sends its changes, then the process that made it. A socket
 * filter accepts the message about the process, datagrams of several messages, and single messages
 * about elements of tables whose names begin with "vipd"; other changes cost vipd nothing. A
 * foreign transaction of some 100,000 elements may overflow the socket. Our own commits are made
 * while the socket is not a member of the group (nl_sock_mute), so that they cause no
 * notifications.
 *
 * Notifications are hints only: commits while the socket is outside the group and overflows of the
 * socket are missed. The ruleset generation (nft_genid_read) and a full read are authoritative. For
 * both planes.
 *
 * Kernel: NFNLGRP_NFTABLES, NFT_MSG_NEWGEN: linux/netfilter/nf_tables.h (NFTA_GEN_*).
 *         The process id is that of the first pid namespace.
 */
#pragma once

#include "base/ip.h"
#include "nft/keymap.h"
#include "nl/sock.h"

#define NFT_WATCH_TEXT_MAX 64
/* Touched addresses and pools; more are counted as a flood. */
#define NFT_WATCH_TOUCHED_MAX 1024

struct nft_watch {
	struct nl_sock *nl; /* or NULL: no notifications */
	uint32_t pid;       /* of the last commit received; 0 = none */
	char name[17];      /* of that process, printable */
	bool is_several;    /* other processes committed too */
	bool is_flood;
	bool is_lost;    /* the socket overflowed: notifications are missing */
	bool is_awaited; /* the generation has changed, and no notification has arrived */
	unsigned int n_waits;
	unsigned int n_loads;      /* loads in a row during which our tables were modified */
	struct nft_keymap touched; /* addresses and pools of changed elements */
	char *buf;
};

/* The ruleset's generation: each commit of any process in this network namespace raises it by 1. */
MUST_USE int nft_genid_read(struct nl_sock *nl, uint32_t *genid, struct err *err);

void nft_watch_init(struct nft_watch *w);
void nft_watch_fini(struct nft_watch *w);
/* Listen on `nl`, owned by the caller; `cmd` sends our batches. On error: no notifications. */
MUST_USE int nft_watch_join(struct nft_watch *w, struct nl_sock *nl, struct nl_sock *cmd,
			    struct err *err);
/* Begin a check: drop notifications of the previous one, unless it waited. */
void nft_watch_begin(struct nft_watch *w);
/* Read notifications without waiting, up to a limit. */
void nft_watch_read(struct nft_watch *w);
/*
 * Return whether to wait for the next check; at most WAITS_MAX calls in a row return true. For a
 * changed generation: a commit raises it first and sends its notification last, so that a large
 * commit may need some time. Notifications may be lost.
 */
bool nft_watch_await(struct nft_watch *w);
/*
 * Begin and end of a load of our tables. End returns 0, 1 when another process changed an
 * element of them meanwhile, or may have done so because notifications were lost (load again), or
 * -EAGAIN the eighth time in a row. Commits to other tables are irrelevant (nl/dump.h), but each is
 * a notification: read between the steps of a load. The next check finds a commit whose
 * notifications are late.
 */
void nft_watch_load_begin(struct nft_watch *w);
MUST_USE int nft_watch_load_end(struct nft_watch *w, struct err *err);
/* "nft (pid 4711)", "nft (pid 4711) and others", or "another process" without a notification. */
void nft_watch_text(const struct nft_watch *w, char buf[static NFT_WATCH_TEXT_MAX]);
/* Did an element with this address (network order), or of this pool, change? */
bool nft_watch_touches_addr(const struct nft_watch *w, enum ipfam fam, const uint8_t *addr);
bool nft_watch_touches_pool(const struct nft_watch *w, enum ipfam fam, uint32_t pool_id);
/* Drop all notifications. */
void nft_watch_reset(struct nft_watch *w);
/* Process one message; for tests. */
void nft_watch_message(struct nft_watch *w, const struct nlmsghdr *h);
