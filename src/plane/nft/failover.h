/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/failover - tables that list TCP handshakes without an answer, and move them.
 *
 *     open -> (follow, handshakes, move_begin, move_end)* -> close    --failover=handshake
 *     open -> follow -> close                                         --failover=off
 *
 * One table per family, "vipd-failover", apart from the tables of services:
 *
 *   postrouting, input   a SYN that was translated: its flow becomes an element of @handshakes
 *   answers_*            SYN or RST of a backend: the element goes; in @claimed: the packet is
 *                        dropped
 *   prerouting, output   a first packet of a flow in @moves gets the backend of the element;
 *                        before all other nat chains
 *
 * @handshakes contains flows of other programs too, if these translate; the caller leaves
 * them alone. It has only handshakes in flight: an established connection costs its packets one
 * rule, and reading the set costs nothing that depends on the number of flows.
 *
 * A move is a claim, a look at the flow, its deletion, and the end of the claim. While a flow is
 * claimed, an answer of its backend is dropped: so the client has received no answer when the
 * caller deletes the flow, and the backend repeats an answer that was dropped.
 *
 * A table that another process deleted or changed is made again by the next call. A family whose
 * table cannot be made is left out, and the other one is served. Private to plane/nft/.
 */
#pragma once

#include "plane/nft/state.h"

#define NFT_FAILOVER_TABLE "vipd-failover"

struct nft_failover;

/* `limit_ms` 0: remove the tables of an earlier process. `nl` is borrowed. */
void nft_failover_open(struct nft_failover **ret, struct nl_sock *nl, uint64_t limit_ms);
void nft_failover_close(struct nft_failover *f);
DEFINE_AUTO(struct nft_failover *, nft_failover_close);

/*
 * Create, keep or remove the tables; without effect once they are as desired. Families of the bits
 * `left_out` are skipped, except for removal. The second failure in a row is logged; returns the
 * time of the next attempt, 0 = none.
 */
uint64_t nft_failover_follow(struct nft_failover *f, uint8_t left_out, uint64_t now,
			     struct nft_result *res);
/* Another process changed the ruleset: the next follow() reads the tables again. */
void nft_failover_recheck(struct nft_failover *f);
MUST_USE int nft_failover_cleanup(struct nft_failover *f, struct err *err);

/* plane_ops.handshakes, .move_begin, .move_end */
MUST_USE int nft_handshakes(struct plane *plane, plane_handshake_fn *fn, void *arg,
			    struct err *err);
MUST_USE int nft_move_begin(struct plane *plane, const struct plane_move *v, size_t n,
			    struct err *err);
MUST_USE int nft_move_end(struct plane *plane, const struct plane_move *v, size_t n,
			  struct err *err);
