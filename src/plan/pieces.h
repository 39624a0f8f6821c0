/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/pieces - change a large service from programmed to desired rows, in several transactions.
 *
 *     plan_pieces_init(&pp, goal, programmed)
 *     while ((rows = plan_pieces_next(&pp, plan, programmed)) != NULL)
 *             ... plan_diff(programmed, rows), the plane accepts: plan_piece_accept()
 *             ... or rejects: plan_piece_reject(), plan_pieces_fini()
 *     the rest is at most about plan->piece_work: plan_diff(programmed, goal)
 *
 * The rows after each piece are valid on their own: every frontend has a pool whose slots
 * are all filled, and every pool has a frontend, so that a restart adopts all of them. New
 * pools come first, each with its frontends; a frontend is removed after its replacement
 * exists; undesired pools are removed with their last frontend, or last if they must be divided.
 * Frontends of a pool that becomes empty stay until it is. A pool that is larger than a piece
 * grows, is replaced slot by slot, or shrinks while it serves. A pool that was adopted comes
 * without its frontends until it has the slots that they pick in the kernel (n_found in rows.h);
 * slots behind its end stay until all frontends of its port are written. Source ranges come with
 * the first piece of a port, and go with the last one.
 */
#pragma once

#include "plan/plan.h"

/* A frontend of the goal, and the last pool that must be programmed before it. */
struct plan_waiting {
	uint32_t pool;
	uint32_t frontend;
};

/*
 * Desired rows, as plan_rows_build() makes them, of a large service of which few endpoints changed
 * since its programmed rows were built (model/track.h): other endpoints are not selected. NULL:
 * more may have changed, or the change has more work than p->piece_work.
 */
struct plan_rows *plan_rows_patch(struct plan *p, struct svc *svc);

struct plan_pieces {
	/* Settled; the caller's; may be NULL. n_found of its pools stays that of the load. */
	struct plan_rows *goal;
	size_t next_pool; /* pools of the goal before this index are programmed */
	VEC(struct plan_waiting) order;
	size_t next_waiting;
	size_t first_new;     /* index in `order` of the last piece */
	uint8_t *is_selected; /* frontends of the goal whose pools are programmed */
};

void plan_pieces_init(struct plan_pieces *pp, struct plan_rows *goal,
		      const struct plan_rows *programmed);
void plan_pieces_fini(struct plan_pieces *pp);
/*
 * Part of the goal, for plane_ops.adopt: pools from *pool on with about `max` backends, and
 * their frontends. Raises *pool. plan_pieces_adopted() takes over the ids that the plane
 * has filled in and frees the part.
 */
struct plan_rows *plan_pieces_part(struct plan_pieces *pp, size_t *pool, size_t max);
void plan_pieces_adopted(struct plan_pieces *pp, struct plan_rows *part);
/*
 * The next rows, at most about p->piece_work from `programmed` (the programmed rows, or NULL).
 * NULL: only the step to the goal is left. The goal must have its ids; it gets tables here, pool by
 * pool. Backends that do not change are borrowed from `programmed`.
 */
struct plan_rows *plan_pieces_next(struct plan_pieces *pp, struct plan *p,
				   const struct plan_rows *programmed);
/*
 * Claim the frontends that the last piece brings (plan_claim_due()), or all that are left: append
 * the services that lose one to `displaced`. Returns false if another service has precedence by
 * now.
 */
bool plan_pieces_claim(const struct plan_pieces *pp, struct plan *p, bool is_rest,
		       struct plan_displaced *displaced);
/*
 * A piece of its own: the programmed rows of a service of any size without the frontends that it
 * has lost to other services.
 */
struct plan_rows *plan_piece_yield(struct plan *p, const struct svc *svc);
/* As plan_rows_accept() and plan_rows_reject(); claims, and ids of `goal` (or NULL), stay taken. */
void plan_piece_accept(struct plan *p, struct svc *svc, struct plan_rows *piece,
		       const struct plan_rows *goal);
void plan_piece_reject(struct svc *svc, struct plan_rows *piece);
