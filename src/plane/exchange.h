/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/exchange - read elements from and send changes of elements to the kernel, for both planes.
 *
 *      read programmed elements -> send the difference -> interpret a rejection
 */
#pragma once

#include <errno.h>

#include "nft/change.h"
#include "nft/elem.h"
#include "nft/watch.h"
#include "plane/plane.h"

struct nl_sock;
struct plane_common;

/*
 * Read the programmed state, `programmed`, of each change with needs_look, and pass the change to
 * `seen`. Errors as nft_elems_get().
 */
MUST_USE int plane_changes_read(struct nft_changes *c, struct nl_sock *query,
				const struct nft_table_ref tables[IPFAM_N],
				void (*seen)(void *arg, const struct nft_change *ch), void *arg,
				struct err *err);

/*
 *  Send the difference between desired and programmed, deletions first, in one transaction. Source
 *  ranges that come are one before it, which is undone if the kernel rejects the rest. Adds to
 * `res` and to the times of the plane. May replace c->batch.
 *
 *  Errors as plane.h commit: an element that already exists, or does not exist, means that the
 *  programmed state is unknown (-ESTALE); a missing table or set, that another process deleted it
 *  (-ENOTRECOVERABLE). `err` names the element as nft prints it, after the family of its table;
 *  res->culprit is its service.
 */
MUST_USE int plane_changes_send(struct plane_common *c, const struct nft_table_ref tables[IPFAM_N],
				struct plane_result *res, struct err *err);

/* Did the kernel reject a change? Else it lost the answer, or its state differs. */
static inline bool plane_is_rejection(int r)
{
	return r < 0 && r != -EBUSY && r != -ENOTRECOVERABLE && r != -ESTALE;
}

/* Can a change that `w` recorded concern these rows? */
bool plane_watch_touches(const struct nft_watch *w, const struct plan_rows *rows);

/* A rejection without a culprit is due to the service of the commit, if there is only one. */
void plane_rejection_blame(struct plane_result *res, const struct plan_op *ops, size_t n);
