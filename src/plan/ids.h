/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/ids - pool ids. Private to plan/; plan.h has the part for adoption (plan_id_reserve()). */
#pragma once

#include "plan/plan.h"

void plan_ids_init(struct plan *p);
void plan_ids_fini(struct plan *p);
/* Return ids in rising order: a freed id may be in packets in flight. 0: none is free. */
uint32_t plan_id_take(struct plan *p, enum ipfam fam);
/* Free the ids of `rows` that neither `kept` nor `also_kept` use; all may be NULL. */
void plan_ids_free(struct plan *p, const struct plan_rows *rows, const struct plan_rows *kept,
		   const struct plan_rows *also_kept);
/*
 * The kernel rejected `rows`, so their ids are in no packet: the next attempt takes them
 * again. Call after plan_ids_free().
 */
void plan_ids_give_back(struct plan *p, const struct plan_rows *rows);
