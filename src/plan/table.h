/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/table - the slots of a pool with hashing: a client's slot, and the backend in each slot.
 *
 * Slots are assigned by rendezvous hashing (base/rendezvous.h) from addresses and ports of the
 * backends alone, so that all nodes with these backends, and all processes, agree on the slots.
 */
#pragma once

#include "plan/rows.h"

/* A constant, as the kernel's rule has it: a client's slot is the same on all nodes. */
#define PLAN_HASH_SEED UINT32_C(0x76697064)

/*
 * Assign the slots of a pool with hashing. Others, and a pool without backends, have no table.
 * `programmed` (may be NULL): its table is copied if it has these backends.
 */
void plan_table_make(struct plan_pool *pool, const struct plan_pool *programmed);
/* "mh", "mh,mh-port"; "" for PLAN_HASHING_NONE. */
const char *plan_hashing_text(enum plan_hashing how);
/*
 * The backend of a client of a pool with hashing and backends, table or not. `port` counts with
 * PLAN_HASHING_PORT only.
 */
const struct plan_backend *plan_table_pick(const struct plan_pool *pool,
					   const struct ip_addr *client, uint16_t port);
