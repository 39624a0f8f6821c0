/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/large - program a service that is too large for one transaction.
 *
 *     BUILD -> SETTLE -> DIVIDE -> ADOPT -> PIECES -> an ordinary transaction with the rest
 *
 * One large service at a time; its steps of bounded work alternate with transactions of
 * other services. It stays in the dirty queue until its last piece. svc->rows is what is
 * programmed at any time: after a rejection, a change of the service or a load in between,
 * work continues from there. The piece that brings a frontend of another service takes it from
 * there in one transaction. A large service that loses a frontend gives it up at once, in the
 * transaction of the service that gains it.
 */
#include "sync/state.h"

#define STEP_ENDPOINTS 20000 /* endpoints of a step of BUILD or ADOPT: about 6 ms */

void sync_large_forget(struct sync *s)
{
	if (s->large.svc == NULL)
		return;
	plan_claims_defer(s->plan, s->large.svc);
	plan_build_close(TAKE(s->large.build));
	if (s->large.goal != NULL)
		plan_rows_reject(s->plan, s->large.svc, TAKE(s->large.goal));
	plan_pieces_fini(&s->large.pieces);
	s->large.svc = NULL;
}

/* A service that changes often does not keep others from their turn. */
static void turn_end(struct sync *s, struct svc *svc)
{
	list_move_tail(&s->model->dirty, &svc->dirty);
}

void sync_large_begin(struct sync *s, struct svc *svc)
{
	turn_end(s, svc);
	plan_claim(s->plan, svc); /* any later change clears svc->is_unchanged */
	s->large.svc = svc;
	s->large.service_no = svc->service_no;
	s->large.phase = SYNC_LARGE_BUILD;
	s->large.is_built = false;
	s->large.adopted = 0;
	plan_build_open(&s->large.build, s->plan, svc);
}

static void step_build(struct sync *s)
{
	if (!s->large.is_built) {
		s->large.is_built = !plan_build_step(s->large.build, STEP_ENDPOINTS);
		return;
	}
	s->large.goal = plan_build_end(s->plan, TAKE(s->large.build));
	s->large.phase = SYNC_LARGE_SETTLE;
}

static int step_settle(struct sync *s, uint64_t now, struct err *err)
{
	struct svc *svc = s->large.svc;

	vec_clear(&s->displaced.svcs);
	if (sync_is_adopted(s, svc))
		plan_heirs(s->plan, svc, &s->displaced);
	if (s->displaced.svcs.n > 0) {
		sync_large_forget(s);
		return sync_commit_displaced(s, now, err);
	}
	if (s->large.goal != NULL) {
		plan_rows_settle(s->plan, s->large.goal, NULL);
		sync_rows_explain(s, s->large.goal);
	}
	s->large.phase = SYNC_LARGE_DIVIDE;
	return 0;
}

static void step_adopt(struct sync *s)
{
	struct plan_rows *part = NULL;

	if (sync_is_plane_loaded(s))
		part = plan_pieces_part(&s->large.pieces, &s->large.adopted, STEP_ENDPOINTS);
	if (part != NULL) {
		s->plane->ops->adopt(s->plane, s->plan, part);
		plan_pieces_adopted(&s->large.pieces, part);
		return;
	}
	if (s->large.goal != NULL)
		plan_rows_number_ids(s->plan, s->large.goal);
	s->large.phase = SYNC_LARGE_PIECES;
}

/* Claim the frontends of the next transaction. Otherwise the goal is no longer right. */
static bool is_claiming(struct sync *s, bool is_rest)
{
	vec_clear(&s->displaced.svcs);
	return plan_pieces_claim(&s->large.pieces, s->plan, is_rest, &s->displaced);
}

/* Program the rest, or everything, in one transaction. */
static int step_rest(struct sync *s, uint64_t now, struct err *err)
{
	struct svc *svc = s->large.svc;
	bool is_changed = !svc->is_unchanged;
	int r;

	if (!is_claiming(s, true)) {
		sync_large_forget(s);
		return 0;
	}
	s->large.svc = NULL;
	plan_pieces_fini(&s->large.pieces);
	if (is_changed)
		turn_end(s, svc); /* it stays dirty, in adoption at the head of the queue */
	r = sync_commit_rows(s, svc, TAKE(s->large.goal), false, now, err);
	if (r == 0 && is_changed)
		svc->dirty_since_ns = now; /* only changes since the goal was built are pending */
	return r;
}

static int step_piece(struct sync *s, uint64_t now, struct err *err)
{
	struct svc *svc = s->large.svc;
	const struct plan_rows *programmed = sync_programmed(s, svc);
	struct plan_rows *rows = plan_pieces_next(&s->large.pieces, s->plan, programmed);
	int r;

	if (rows == NULL)
		return step_rest(s, now, err);
	if (!is_claiming(s, false)) {
		plan_piece_reject(svc, rows);
		sync_large_forget(s);
		return 0;
	}
	s->large.is_rejected = false;
	r = sync_commit_rows(s, svc, rows, true, now, err);
	return r == 0 && s->large.is_rejected ? step_rest(s, now, err) : r;
}

void sync_large_follow(struct sync *s, uint64_t now)
{
	struct svc *svc = s->large.svc;

	if (svc == NULL || svc->service_no == s->large.service_no)
		return;
	svc->dirty_since_ns = now; /* what was pending is replaced */
	s->large.is_unsteady = true;
	turn_end(s, svc);
	sync_large_forget(s);
	plan_claim(s->plan, svc); /* its turn may be far away */
}

int sync_large_step(struct sync *s, uint64_t now, struct err *err)
{
	switch (s->large.phase) {
	case SYNC_LARGE_BUILD:
		step_build(s);
		return 0;
	case SYNC_LARGE_SETTLE:
		return step_settle(s, now, err);
	case SYNC_LARGE_DIVIDE:
		plan_pieces_init(&s->large.pieces, s->large.goal, sync_programmed(s, s->large.svc));
		s->large.phase = SYNC_LARGE_ADOPT;
		return 0;
	case SYNC_LARGE_ADOPT:
		step_adopt(s);
		return 0;
	case SYNC_LARGE_PIECES:
		break;
	}
	return step_piece(s, now, err);
}
