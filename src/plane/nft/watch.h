/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/watch - who changes the ruleset.
 *
 *     join -> (wait for nl_sock_fd) -> read -> text, reset
 *
 * After each commit the kernel tells the generation, and the process it was made
 * by. Only that is queued here, one small datagram a commit; what was changed is thrown
 * away by a filter in the kernel. Our own commits are made while nobody listens
 * (nl_sock_mute), so they cost what they cost without this, and are not heard.
 *
 * It is a hint: a commit between leaving and joining again is not heard, nor are those that
 * overflow the socket. What is true says the generation (nft_genid_read). Private to nft/.
 *
 * Kernel: NFNLGRP_NFTABLES, NFT_MSG_NEWGEN: linux/netfilter/nf_tables.h (NFTA_GEN_*).
 *         The process id is that of the first pid namespace.
 */
#pragma once

#include "nl/sock.h"

#define NFT_WATCH_TEXT_MAX 64

struct nft_watch {
	struct nl_sock *nl; /* or NULL: nothing is heard */
	uint32_t pid;       /* of the last commit heard; 0 = none */
	char name[17];      /* its process's, printable */
	bool is_several;    /* other processes committed too */
};

/* Listen on `nl`, which the caller keeps; `cmd` sends our own batches. On failure nothing is heard.
 */
MUST_USE int nft_watch_join(struct nft_watch *w, struct nl_sock *nl, struct nl_sock *cmd,
			    struct err *err);
/* Take in what was heard, never waiting; a storm is cut short. */
void nft_watch_read(struct nft_watch *w);
/* "nft (pid 4711)", "nft (pid 4711) and others", or "somebody" when nobody was heard. */
void nft_watch_text(const struct nft_watch *w, char buf[static NFT_WATCH_TEXT_MAX]);
/* Begin anew: whatever was heard is dealt with. */
void nft_watch_reset(struct nft_watch *w);
/* Take in one message; for tests. */
void nft_watch_message(struct nft_watch *w, const struct nlmsghdr *h);
