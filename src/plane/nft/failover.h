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
 *   answers_*            SYN or RST of a backend: delete the element; drop the packet if its flow
 *                        is in @claimed. Repeated SYN of a client: add the element if there is none
 *                        With ejections: a backend that accepts becomes an element of
 *                        @answered, a flow that is refused one of @refused
 *   prerouting, output   a first packet of a flow in @moves gets the backend of the element;
 *                        before all other nat chains
 *
 * With UDP, flows without a reply are in @udp_flows, @udp_moves and @udp_claimed alike, and
 * backends that replied in @udp_replied. The kernel considers a flow with several replies assured;
 * packets of such a flow pass one rule.
 *
 * @handshakes also contains flows that other programs translate; the caller ignores them. The set
 * contains handshakes in flight only, so the cost of reading it does not depend on the number of
 * flows; a packet of an established connection passes one rule.
 *
 * A move claims a flow, reads it, deletes it, and ends the claim. While a flow is claimed, answers
 * of its backend are dropped: the client has received no answer when the caller deletes the flow,
 * and a backend repeats an answer that was dropped.
 *
 * The next call creates a table again that another process deleted or changed; handshakes of its
 * set are listed again with their next SYN. A family whose table cannot be created is left out; the
 * other one is served. Private to plane/nft/.
 */
#pragma once

#include "plane/nft/state.h"

#define NFT_FAILOVER_TABLE "vipd-failover"

struct nft_failover;

/* `nl` is borrowed. */
void nft_failover_open(struct nft_failover **ret, struct nl_sock *nl,
		       const struct nft_failover_config *config);
void nft_failover_close(struct nft_failover *f);
DEFINE_AUTO(struct nft_failover *, nft_failover_close);

/*
 * Create, keep or remove the tables; without effect once they are as desired, or without failover.
 * Families that failed are skipped, except for removal. The second failure in a row is logged, and
 * a fault of the plane; returns the time of the next attempt, 0 = none.
 */
uint64_t nft_failover_follow(struct nft_plane *p, uint64_t now);
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
/* plane_ops.udp_replies, .refusals, .answers */
MUST_USE int nft_udp_replies(struct plane *plane, plane_reply_fn *fn, void *arg, struct err *err);
MUST_USE int nft_refusals(struct plane *plane, plane_refusal_fn *fn, void *arg, struct err *err);
MUST_USE int nft_answers(struct plane *plane, struct plane_answer *v, size_t n, struct err *err);
