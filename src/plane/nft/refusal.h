/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/refusal - what it means that the kernel refused a batch of elements.
 *
 * An element that is there already, or is not, means that the kernel holds something
 * else than we believe; a missing table or set, that somebody took it away.
 */
#pragma once

#include "plane/nft/elem.h"
#include "plane/plane.h"

/*
 * After nl_batch_commit() of `b` returned `r` < 0; its tags are struct nft_change. Returns
 * what plane.h commit does; `err` names the element as nft would, behind the family of
 * its table, and `res->culprit` is its service.
 */
MUST_USE int nft_refusal(const struct nl_batch *b, const struct nft_table_ref tables[IPFAM_N],
			 int r, struct plane_result *res, struct err *err);
