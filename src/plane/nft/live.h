/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/live - what the kernel's rules do with real packets of one flow, for people.
 *
 *     nft_live_open(&l, &query, err)          from now on the kernel tells
 *     nft_live_next(l, &event, deadline, err)  until enough is seen
 *     nft_live_close(l)
 *
 * A table of its own, "vipd-trace", marks the first packet of each new connection of that
 * flow (meta nftrace), before any address is translated; nothing of vipd's tables is
 * touched. The table belongs to the socket: it goes when that is closed, however the
 * process ends.
 *
 * Kernel: nf_tables.h NFTA_TRACE_*, NFT_TABLE_F_OWNER (Linux 5.12).
 */
#pragma once

#include "base/ip.h"

struct nft_live;

struct nft_live_query {
	struct ip_addr src; /* unset: anybody */
	struct ip_addr dst;
	uint16_t port;
	uint8_t proto; /* IPPROTO_* */
};

struct nft_live_event {
	uint32_t id; /* the same for one packet */
	char table[64];
	char chain[64];
	char verdict[80]; /* "jump services", "accept", "drop", "policy accept" ... */
	bool has_addrs;   /* the packet as it is here: */
	struct ip_addr src;
	struct ip_addr dst;
	uint16_t sport;
	uint16_t dport;
};

/* -EEXIST: somebody else is tracing; -EOPNOTSUPP: this kernel cannot own tables. */
MUST_USE int nft_live_open(struct nft_live **ret, const struct nft_live_query *q, struct err *err);
/* 1: an event; 0: none until `deadline_ns` (now_ns()), or a signal came. */
MUST_USE int nft_live_next(struct nft_live *l, struct nft_live_event *ret, uint64_t deadline_ns,
			   struct err *err);
/* Accepts NULL. */
void nft_live_close(struct nft_live *l);
