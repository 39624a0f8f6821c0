/* SPDX-License-Identifier: GPL-2.0-or-later */
/*  plane/ipvs/commit - one commit: add hairpins, add to IPVS, change nf_tables, remove from IPVS.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "nft/decode.h"
#include "plane/ipvs/state.h"

/* Read a large service in steps. Its destinations besides those of the commit: for the audit. */
static int large_verify(struct ipvs_plane *p, struct ipvs_vs *vs, struct err *err)
{
	int r = ipvs_large_read(p, vs, err);

	vs->is_verified = r > 0;
	vs->is_part = true;
	return r > 0 ? err_set(err, -EINPROGRESS, "a large service is being read") : r;
}

/* Verify and audit: read the touched services, in an audit with the first part of each. */
static int services_read(struct ipvs_plane *p, enum plane_commit_mode mode, struct err *err)
{
	vec_for_each (each, &p->touched) {
		struct ipvs_vs *vs = *each;
		int r = 0;

		if (mode == PLANE_COMMIT_VERIFY && ipvs_vs_is_large(vs)) {
			r = large_verify(p, vs, err);
			if (r < 0)
				return r;
			continue;
		}
		if (mode != PLANE_COMMIT_AUDIT || (vs->is_whole && !vs->is_read))
			r = ipvs_vs_read(p, vs, err);
		if (r < 0)
			return r;
		/* Parts that follow add the destinations of a large service. */
		vs->is_part = mode == PLANE_COMMIT_AUDIT && (vs->is_read || !vs->is_whole);
		vs->is_read &= !vs->is_whole;
		/* Else a loaded service may lack pieces (n_found in plan/rows.h). */
		vs->is_whole |= mode != PLANE_COMMIT_AUDIT && p->common.loaded == NULL;
	}
	return 0;
}

/* --- commit --- */

int ipvs_commit(struct plane *plane, const struct plan_op *ops, size_t n,
		enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	if (p->layout->state != IPVS_LAYOUT_PRESENT)
		return err_set(err, -ENOTRECOVERABLE, "the layout of the table is not known");
	assert(mode != PLANE_COMMIT_AUDIT || p->common.loaded == NULL);
	nft_changes_reset(&p->common.changes);
	r = plane_translate(&p->common, ipvs_translate, NULL, ops, n, &res->culprit, err);
	vec_for_each (vs, &p->touched)
		if (mode == PLANE_COMMIT_NORMAL && (*vs)->is_verified)
			mode = PLANE_COMMIT_VERIFY;
	for (size_t i = 0; i < n && r == 0 && mode == PLANE_COMMIT_VERIFY; i++)
		if (ops[i].kind == PLAN_FRONTEND_ADD || ops[i].kind == PLAN_FRONTEND_CHANGE)
			plane_frontend_look(&p->common, ops[i].frontend, ops[i].svc);
	if (r == 0)
		r = plane_settle(&p->common, mode, err);
	if (r == 0 && mode != PLANE_COMMIT_NORMAL)
		r = services_read(p, mode, err);
	if (r == 0)
		r = plane_transact_early(&p->common, res, err);
	if (r == 0) {
		r = ipvs_ops_add(p, res, err);
		if (r < 0)
			r = plane_early_undo(&p->common, r, res, err);
	}
	if (r == 0)
		r = plane_transact(&p->common, res, err);
	if (r < 0) {
		ipvs_ops_undo(p, plane_rejected(&p->common, r, mode, ops, n, res), r == -EBUSY);
		return r;
	}
	if (plane_fault_clear(&p->common.plane, PLANE_FAULT_SCHEDULER))
		log_notice(LOG_AREA_PLANE, "ipvs: recovered: the kernel has scheduler %s",
			   scheduler_name(p->sched.no));
	if (mode != PLANE_COMMIT_AUDIT)
		plane_applied(&p->common);
	/* In the loaded phase another service of an earlier transaction may have been rejected. */
	vec_for_each (vs, &p->touched)
		(*vs)->is_kept = false;
	r = ipvs_ops_remove(p, res, err);
	ipvs_ops_done(p);
	if (r == 0)
		return 0;
	/* nf_tables is up to date: the next load, of both families, finds what is left in IPVS. */
	res->families = 0;
	return -EBUSY;
}
