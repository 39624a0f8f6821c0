/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sync/large - program a service that is too large for one transaction.
 *
 *     BUILD -> (ADOPT) -> PIECES -> an ordinary transaction with the rest
 *
 * One large service at a time; its steps of bounded work alternate with transactions of
 * other services. It stays in the dirty queue until its last piece. svc->rows is what is
 * programmed at any time: after a rejection, a change of the service or a load in between,
 * work continues from there. Services that exchange a frontend are not cut: they need one
 * transaction of any size.
 */
#include "sync/state.h"

#include <errno.h>

#define STEP_ENDPOINTS 20000 /* endpoints of a step of BUILD or ADOPT: about 6 ms */

bool sync_is_large(const struct sync *s, const struct svc *svc)
{
	size_t max = s->config.piece_ops ? s->config.piece_ops : PLANE_PIECE_WORK;

	return svc != s->large.whole && plan_size(s->plan, svc) > max;
}

void sync_large_forget(struct sync *s)
{
	if (s->large.svc == NULL)
		return;
	plan_build_close(TAKE(s->large.build));
	if (s->large.goal != NULL)
		plan_rows_reject(s->plan, s->large.svc, TAKE(s->large.goal));
	plan_pieces_fini(&s->large.pieces);
	s->large.svc = NULL;
}

void sync_large_begin(struct sync *s, struct svc *svc)
{
	plan_claim(s->plan, svc); /* any later change clears svc->is_claimed */
	s->large.svc = svc;
	s->large.service_no = svc->service_no;
	s->large.phase = SYNC_LARGE_BUILD;
	s->large.is_built = false;
	s->large.adopted = 0;
	plan_build_open(&s->large.build, s->plan, svc);
}

/* Does a frontend move to or from another service? Both then need one transaction. */
static bool is_exchanging(struct sync *s)
{
	vec_clear(&s->displaced.svcs);
	plan_heirs(s->plan, s->large.svc, &s->displaced);
	if (s->large.goal != NULL)
		plan_rows_settle(s->plan, s->large.goal, &s->displaced);
	return s->displaced.svcs.n > 0;
}

static void pieces_begin(struct sync *s)
{
	if (s->large.goal != NULL)
		plan_rows_number_ids(s->plan, s->large.goal);
	s->large.phase = SYNC_LARGE_PIECES;
}

static void step_build(struct sync *s)
{
	struct svc *svc = s->large.svc;

	if (!s->large.is_built) {
		s->large.is_built = !plan_build_step(s->large.build, STEP_ENDPOINTS);
		return;
	}
	s->large.goal = plan_build_end(s->plan, TAKE(s->large.build));
	if (is_exchanging(s)) {
		sync_large_forget(s);
		s->large.whole = svc;
		return;
	}
	if (s->large.goal != NULL)
		sync_rows_explain(s, s->large.goal);
	plan_pieces_init(&s->large.pieces, s->large.goal, s->plane->ops->backend_work, s->plane);
	if (sync_is_plane_loaded(s))
		s->large.phase = SYNC_LARGE_ADOPT;
	else
		pieces_begin(s);
}

static void step_adopt(struct sync *s)
{
	struct plan_rows *part =
		plan_pieces_part(&s->large.pieces, &s->large.adopted, STEP_ENDPOINTS);

	if (part == NULL) {
		pieces_begin(s);
		return;
	}
	s->plane->ops->adopt(s->plane, s->plan, part);
	plan_pieces_adopted(&s->large.pieces, part);
}

/* Program the rest, or everything, in one transaction. */
static int step_rest(struct sync *s, uint64_t now, struct err *err)
{
	struct svc *svc = TAKE(s->large.svc);

	plan_pieces_fini(&s->large.pieces);
	return sync_commit_rows(s, svc, TAKE(s->large.goal), now, err);
}

static void piece_accepted(struct sync *s, struct plan_rows *rows)
{
	struct svc *svc = s->large.svc;

	if (s->config.accepted != NULL)
		s->config.accepted(s->config.accepted_arg, svc, svc->rows, rows, false);
	plan_piece_accept(s->plan, svc, rows, &s->large.pieces);
	svc->adopted_load = s->load_no;
}

/* The service keeps its programmed rows; the next attempt starts from them. */
static void piece_rejected(struct sync *s, int code, const struct err *err, uint64_t now)
{
	struct svc *svc = s->large.svc;

	sync_large_forget(s);
	sync_failure_note(s, svc, code, err, now);
	if (!svc->is_claimed) /* changed meanwhile: retry at once */
		return;
	list_del(&svc->dirty);
	svc->dirty_since_ns = 0;
	model_reap(s->model, svc);
}

static int step_piece(struct sync *s, uint64_t now, struct err *err)
{
	size_t max = s->config.piece_ops ? s->config.piece_ops : PLANE_PIECE_WORK;
	struct svc *svc = s->large.svc;
	const struct plan_rows *programmed = sync_is_adopted(s, svc) ? svc->rows : NULL;
	struct plan_rows *rows = plan_pieces_next(&s->large.pieces, s->plan, programmed, max);
	bool is_owned = plan_pieces_are_owned(&s->large.pieces, s->plan);
	struct plane_result res = { 0 };
	int r = 0;

	if (!is_owned) { /* another service claimed a frontend meanwhile */
		if (rows != NULL)
			plan_piece_reject(svc, rows);
		sync_large_forget(s);
		return 0;
	}
	if (rows == NULL)
		return step_rest(s, now, err);
	vec_clear(&s->ops.ops);
	plan_diff(&s->ops, svc, programmed, rows);
	plan_ops_leave_out(s->plan, &s->ops, 0);
	if (s->ops.ops.n > 0)
		r = sync_commit_ops(s, s->ops.ops.v, s->ops.ops.n, &res, err);
	sync_result_note(s, &res);
	if (r == 0) {
		piece_accepted(s, rows);
		return 0;
	}
	plan_piece_reject(svc, rows);
	if (r == -EINPROGRESS) {
		sync_large_forget(s);
		return -EAGAIN;
	}
	sync_error_note(s, err, now);
	s->stats.failures++;
	if (sync_family_failed(s, r, &res, err)) {
		sync_large_forget(s);
		return -EAGAIN;
	}
	if (r == -EBUSY || r == -ENOTRECOVERABLE || r == -EPERM) {
		sync_large_forget(s);
		return r;
	}
	/* Before the sweep every object must be requested once, or it is removed: plane.h. */
	if (sync_is_plane_loaded(s))
		return step_rest(s, now, err);
	piece_rejected(s, r, err, now);
	return 0;
}

int sync_large_step(struct sync *s, uint64_t now, struct err *err)
{
	if (s->large.svc->service_no != s->large.service_no) {
		sync_large_forget(s);
		return 0;
	}
	switch (s->large.phase) {
	case SYNC_LARGE_BUILD:
		step_build(s);
		return 0;
	case SYNC_LARGE_ADOPT:
		step_adopt(s);
		return 0;
	case SYNC_LARGE_PIECES:
		break;
	}
	return step_piece(s, now, err);
}
