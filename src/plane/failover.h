/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/failover - tables that list TCP handshakes without an answer, for both planes:
 * doc/design/0013-failover.md.
 *
 *     open -> (follow, handshakes, ...)* -> close    --failover=handshake, eject
 *     open -> follow -> close                        --failover=off
 *
 * One table per family, apart from the tables of services:
 *
 *   postrouting, input   a SYN that was translated: its flow becomes an element of @handshakes
 *   answers_*            SYN or RST of a backend: delete the element; drop the packet if its flow
 *                        is in @claimed. Repeated SYN of a client: add the element if there is none
 *                        With ejections: a backend that accepts becomes an element of
 *                        @answered, a flow that is refused one of @refused
 *   prerouting, output   a first packet of a flow in @moves gets the backend of the element;
 *                        before all other nat chains
 *
 * plane/nft/moves.c moves a handshake. Where IPVS translates, none moves: these tables have neither
 * @moves nor @claimed, and a SYN is known by its mark, which only postrouting and input see. With
 * UDP, @udp_flows, @udp_moves and @udp_claimed do the same for flows without a reply, and
 * @udp_replied lists backends that replied.
 *
 * @handshakes also contains flows that other programs translate; the caller ignores them. While
 * more than half of a set is used, a read deletes the elements that its caller needs least.
 *
 * The next call creates a table again that another process deleted or changed; handshakes of its
 * set are listed again with their next SYN. A family whose table cannot be created is left out; the
 * other one is served.
 */
#pragma once

#include "plane/common.h"

/* What the tables contain. */
struct plane_failover_config {
	const char *table; /* its name in both families */
	uint64_t limit_ms; /* 0: remove the tables of an earlier process */
	uint64_t udp_ms;   /* 0: no flows of UDP */
	bool ejects;       /* with the rules for ejections */
	/*
	 * Mark of the packets that IPVS translates; handshakes cannot move. `mark_mask` 0: packets
	 * that nat translates.
	 */
	uint32_t mark;
	uint32_t mark_mask;
};

/* Before the first load(). If it is never called, existing tables stay. */
void plane_failover_open(struct plane *p, const struct plane_failover_config *config);
/*
 * Create, keep or remove the tables; without effect once they are as desired, or without failover.
 * Families that failed are skipped, except for removal. The second failure in a row is logged and
 * becomes a fault of the plane. Returns the time of the next attempt, 0 = none.
 */
uint64_t plane_failover_follow(struct plane_common *c, uint64_t now);
/* Another process changed the ruleset: the next follow() reads the tables again. */
void plane_failover_recheck(struct plane_common *c);
/* Remove vipd's tables of this name. */
MUST_USE int plane_failover_cleanup(struct plane_common *c, const char *table, struct err *err);
struct nft_table_ref plane_failover_table(const struct plane_common *c, enum ipfam fam);
/* Write elements: begin, nft_elem_put(), plane_batch_commit(): all or nothing. */
void plane_failover_begin(struct plane_common *c, struct nft_elem_writer *w);

/* plane_ops.handshakes, .answers */
MUST_USE int plane_handshakes(struct plane *plane, enum plane_handshakes which,
			      plane_handshake_fn *fn, void *arg, struct err *err);
MUST_USE int plane_answers(struct plane *plane, struct endpoint_answer *v, size_t n,
			   struct err *err);
