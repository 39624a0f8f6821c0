/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/exchange - changes of elements meet the kernel, for every plane that keeps some.
 *
 *     read what the kernel holds -> send the difference -> what a refusal means
 */
#pragma once

#include <errno.h>

#include "nft/change.h"
#include "nft/elem.h"
#include "nft/watch.h"
#include "plane/plane.h"

struct nl_batch;
struct nl_sock;

/*
 * Look up every change with needs_look: `held` is what the kernel has, and `seen` (may be
 * NULL) is told. Errors as nft_elems_get().
 */
MUST_USE int nft_changes_read(struct nft_changes *c, struct nl_sock *query,
			      const struct nft_table_ref tables[IPFAM_N],
			      void (*seen)(void *arg, const struct nft_change *ch), void *arg,
			      struct err *err);

/*
 * Send what is wanted and not held, deletions first, in one transaction. Returns 1, or 0 when
 * there was nothing to send; `res` and the times of `plane` are added to. `*batch` may
 * be another one afterwards.
 *
 * Errors are those of plane.h commit: an element that is there already, or is not, means
 * that the kernel holds something else than we believe (-ESTALE); a missing table or set,
 * that somebody took it away (-ENOTRECOVERABLE). `err` names the element as nft would,
 * behind the family of its table, and `res->culprit` is its service.
 */
MUST_USE int nft_changes_send(const struct nft_changes *c, struct nl_batch **batch,
			      struct nl_sock *cmd, const struct nft_table_ref tables[IPFAM_N],
			      struct plane *plane, struct plane_result *res, struct err *err);

/* Did the kernel refuse what a commit asked for, rather than lose, or turn out to hold, something?
 */
static inline bool nft_is_rejection(int r)
{
	return r < 0 && r != -EBUSY && r != -ENOTRECOVERABLE && r != -ESTALE;
}

/* May a change that `w` noticed concern these rows? */
bool nft_watch_touches(const struct nft_watch *w, const struct plan_rows *rows);

/* A refusal that names nobody is about the one service of a commit, if there is but one. */
void nft_rejection_blame(struct plane_result *res, const struct plan_op *ops, size_t n);
