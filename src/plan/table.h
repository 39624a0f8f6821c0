/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/table - slots of a pool in which a backend has more than one: with hashing, or by weight.
 *
 * By weight, a backend of weight w has w slots: a change moves as few slots as possible. If these
 * are more than PLAN_WEIGHT_SLOTS_PLAIN, it has w / unit slots, where the unit is the greatest
 * common divisor of the weights in the annotation; above plan_weight_slots_max() slots a multiple.
 *
 * With hashing, slots are assigned by rendezvous hashing (base/rendezvous.h) from addresses and
 * ports of the backends alone, so that all nodes with these backends, and all processes, agree on
 * the slots.
 */
#pragma once

#include "plan/rows.h"

/* A constant, as the kernel's rule has it: a client's slot is the same on all nodes. */
#define PLAN_HASH_SEED UINT32_C(0x76697064)

/*
 * Assign the slots of a pool with hashing, once. Others, and a pool without backends, have no
 * table. `programmed` (may be NULL): its table is copied if it has these backends.
 */
void plan_table_make(struct plan_pool *pool, const struct plan_pool *programmed);
/* Number of slots in the pool's table, also before plan_table_make(). */
size_t plan_table_slots(const struct plan_pool *pool);
/*
 * Slots of a pool of `s`, which has weights. Of `programmed`, the backends in the present slots
 * count; an unset address is an empty slot.
 */
#define PLAN_WEIGHT_SLOTS_PLAIN 4096
#define PLAN_WEIGHT_SLOTS_MAX 65536 /* of all cluster sets of a service; of all local sets, too */
void plan_table_weigh(struct plan_pool *pool, const struct service *s,
		      const struct plan_pool *programmed);
/*
 * Slots that each pool of `s` may have; one for each backend is always allowed. It does not depend
 * on endpoints: a change of one pool moves no slots of another.
 */
size_t plan_weight_slots_max(const struct service *s);
/* Are shares not exact, because a pool would have more slots? */
bool plan_table_is_rounded(const struct plan_pool *pool, const struct service *s);
/* Of pools with equal backends. */
bool plan_weights_are_equal(const struct plan_pool *a, const struct plan_pool *b);
/* "mh", "mh,mh-port"; "" for PLAN_HASHING_NONE. */
const char *plan_hashing_text(enum plan_hashing how);
/*
 * The backend of a client of a pool with hashing and backends, table or not. `port` counts with
 * PLAN_HASHING_PORT only.
 */
const struct plan_backend *plan_table_pick(const struct plan_pool *pool,
					   const struct ip_addr *client, uint16_t port);
