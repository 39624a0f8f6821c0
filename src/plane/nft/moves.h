/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/moves - the next SYN of a handshake goes to another backend.
 *
 * A move claims a flow, reads it, deletes it, and ends the claim. While a flow is claimed, answers
 * of its backend are dropped: the client has received no answer when the caller deletes the flow,
 * and a backend repeats an answer that was dropped. Tables: plane/failover.h. Private to
 * plane/nft/.
 */
#pragma once

#include "plane/plane.h"

/* plane_ops.is_backend, .move_begin, .move_end */
bool nft_is_backend(struct plane *plane, const struct ip_addr *addr, uint16_t port);
MUST_USE int nft_move_begin(struct plane *plane, const struct plane_move *v, size_t n,
			    struct err *err);
MUST_USE int nft_move_end(struct plane *plane, const struct plane_move *v, size_t n,
			  struct err *err);
