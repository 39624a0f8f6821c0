/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/live - traces real packets of one flow through the rules, for `vipctl trace --live`.
 *
 *     nft_live_open(&l, &query, err)           start
 *     nft_live_next(l, &event, deadline, err)  repeat
 *     nft_live_close(l)
 *
 * A table "vipd-trace" marks the first packet of each new connection of the flow (meta nftrace)
 * before its address is translated; vipd's tables are not changed. The socket owns the table: the
 * kernel deletes it when the process ends.
 *
 * Kernel: nf_tables.h NFTA_TRACE_*, NFT_TABLE_F_OWNER (Linux 5.12).
 */
#pragma once

#include "base/ip.h"

struct nft_live;

struct nft_live_query {
	struct ip_addr src; /* unset: any */
	struct ip_addr dst;
	uint16_t port;
	uint8_t proto; /* IPPROTO_* */
};

struct nft_live_event {
	uint32_t id; /* of the packet */
	char table[64];
	char chain[64];
	char verdict[80]; /* "jump services", "accept", "drop", "policy accept" ... */
	bool has_addrs;   /* addresses of the packet at this point: */
	struct ip_addr src;
	struct ip_addr dst;
	uint16_t sport;
	uint16_t dport;
};

/* -EEXIST: another trace is running; -EOPNOTSUPP: no owned tables in this kernel. */
MUST_USE int nft_live_open(struct nft_live **ret, const struct nft_live_query *q, struct err *err);
/* 1: an event; 0: none until `deadline_ns` (now_ns()), or interrupted by a signal. */
MUST_USE int nft_live_next(struct nft_live *l, struct nft_live_event *ret, uint64_t deadline_ns,
			   struct err *err);
/* Accepts NULL. */
void nft_live_close(struct nft_live *l);
DEFINE_AUTO(struct nft_live *, nft_live_close);
