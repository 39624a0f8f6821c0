/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft/watch - who changes the ruleset, and which of our elements.
 *
 *     join -> (wait for nl_sock_fd) -> read -> text, touches, reset
 *
 * After each commit the kernel tells the process it was made by, and before that each thing that
 * it changed. A filter in the kernel lets through the one and, of the other, datagrams
 * that begin with an element of a table whose name begins like ours; whatever else
 * somebody writes costs us nothing. Our own commits are made while nobody listens
 * (nl_sock_mute), so they cost what they cost without this, and are not heard.
 *
 * It is a hint: a commit between leaving and joining again is not heard, nor are those that
 * overflow the socket, nor elements of ours in the middle of a datagram. What is
 * true says the generation (nft_genid_read), and a look at everything. For both planes.
 *
 * Kernel: NFNLGRP_NFTABLES, NFT_MSG_NEWGEN: linux/netfilter/nf_tables.h (NFTA_GEN_*).
 *         The process id is that of the first pid namespace.
 */
#pragma once

#include "base/ip.h"
#include "nft/keymap.h"
#include "nl/sock.h"

#define NFT_WATCH_TEXT_MAX 64
/* Touched addresses and pools; with more it is a flood. */
#define NFT_WATCH_TOUCHED_MAX 1024

struct nft_watch {
	struct nl_sock *nl; /* or NULL: nothing is heard */
	uint32_t pid;       /* of the last commit heard; 0 = none */
	char name[17];      /* its process's, printable */
	bool is_several;    /* other processes committed too */
	bool is_flood;
	bool is_awaited; /* the generation is another, and nobody was heard yet */
	unsigned int n_waits;
	unsigned int n_loads;      /* readings in a row that others modified our tables under */
	struct nft_keymap touched; /* addresses and pools of elements that were changed */
	char *buf;
};

/* The ruleset's generation: each commit of any process in this network namespace raises it by 1. */
MUST_USE int nft_genid_read(struct nl_sock *nl, uint32_t *genid, struct err *err);

void nft_watch_init(struct nft_watch *w);
void nft_watch_fini(struct nft_watch *w);
/* Listen on `nl`, which the caller keeps; `cmd` sends our own batches. Failed: nothing is heard. */
MUST_USE int nft_watch_join(struct nft_watch *w, struct nl_sock *nl, struct nl_sock *cmd,
			    struct err *err);
/* A look begins: what was heard before the last one is dealt with, unless that one waited. */
void nft_watch_begin(struct nft_watch *w);
/* Take in what was heard, never waiting; a storm is cut short. */
void nft_watch_read(struct nft_watch *w);
/*
 * The generation is another: wait for the next look? A commit raises it first and tells of
 * itself last, which takes a large one some time: then a later look has all of it. Should there
 * be nothing to hear, three of them wait and no more.
 */
bool nft_watch_is_awaited(struct nft_watch *w);
/*
 * A reading of our tables begins, and ends: 0, or 1 when another process changed an element of
 * theirs meanwhile: begin again; -EAGAIN the eighth time in a row. Commits to other tables do not
 * matter (nl/dump.h). A commit whose notifications are still on their way is found by the
 * next look.
 */
void nft_watch_load_begin(struct nft_watch *w);
MUST_USE int nft_watch_load_end(struct nft_watch *w, struct err *err);
/* "nft (pid 4711)", "nft (pid 4711) and others", or "somebody" when nobody was heard. */
void nft_watch_text(const struct nft_watch *w, char buf[static NFT_WATCH_TEXT_MAX]);
/* Was an element with this address (network order), or of this pool, changed? */
bool nft_watch_touches_addr(const struct nft_watch *w, enum ipfam fam, const uint8_t *addr);
bool nft_watch_touches_pool(const struct nft_watch *w, enum ipfam fam, uint32_t pool_id);
/* Begin anew: whatever was heard is dealt with. */
void nft_watch_reset(struct nft_watch *w);
/* Take in one message; for tests. */
void nft_watch_message(struct nft_watch *w, const struct nlmsghdr *h);
