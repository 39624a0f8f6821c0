/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/ids - numbers of pools. Private to plan/; adoption's part is in plan.h (plan_id_hold()). */
#pragma once

#include "plan/plan.h"

void plan_ids_init(struct plan *p);
void plan_ids_fini(struct plan *p);
/* Rising, so that a freed id rests as long as possible: packets in flight may hold it. 0: none. */
uint32_t plan_id_take(struct plan *p, enum ipfam fam);
/* Free the ids of `rows` that neither `kept` nor `also_kept` use; all may be NULL. */
void plan_ids_free(struct plan *p, const struct plan_rows *rows, const struct plan_rows *kept,
		   const struct plan_rows *also_kept);
/*
 * The kernel rejected `rows`: no packet has met their ids. The next attempt takes the same
 * ids. After plan_ids_free().
 */
void plan_ids_give_back(struct plan *p, const struct plan_rows *rows);
