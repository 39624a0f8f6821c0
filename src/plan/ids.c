/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/ids - pool ids: assigned, reserved for adoption, freed. */
#include "plan/private.h"

#include <stdlib.h>

#include "base/bits.h"

#define ID_WORDS BITS_WORDS(PLAN_POOL_ID_MAX + 1)

void plan_ids_init(struct plan *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		p->ids[fam].used = xcalloc(ID_WORDS, sizeof(uint64_t));
		p->ids[fam].next = 1;
	}
}

void plan_ids_fini(struct plan *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		free(p->ids[fam].used);
		free(p->ids[fam].programmed);
	}
}

static uint32_t id_after(uint32_t id)
{
	return id == PLAN_POOL_ID_MAX ? 1 : id + 1;
}

uint32_t plan_id_take(struct plan *p, enum ipfam fam)
{
	uint64_t *used = p->ids[fam].used;
	uint32_t id = p->ids[fam].next;
	uint32_t left = p->ids[fam].is_exhausted ? 0 : PLAN_POOL_ID_MAX;
	uint32_t step;

	for (; left > 0; left -= MIN(left, step)) {
		if (!bit_is_set(used, id)) {
			bit_set(used, id);
			p->ids[fam].next = id_after(id);
			return id;
		}
		step = used[id / 64] == UINT64_MAX ? 64 - id % 64 : 1;
		step = MIN(step, PLAN_POOL_ID_MAX - id + 1);
		id = id_after(id + step - 1);
	}
	p->ids[fam].is_exhausted = true;
	return 0;
}

void plan_id_reserve(struct plan *p, enum ipfam fam, uint32_t id)
{
	id &= ~PLAN_POOL_LOCAL;
	if (id < 1 || id > PLAN_POOL_ID_MAX || /* elements have more bits */
	    bit_is_set(p->ids[fam].used, id))
		return;
	if (p->ids[fam].programmed == NULL)
		p->ids[fam].programmed = xcalloc(ID_WORDS, sizeof(uint64_t));
	bit_set(p->ids[fam].used, id);
	bit_set(p->ids[fam].programmed, id);
	if (id >= p->ids[fam].next)
		p->ids[fam].next = id_after(id);
}

bool plan_id_adopt(struct plan *p, const struct plan_rows *rows, const struct plan_pool *pool,
		   uint32_t id)
{
	const struct plan_pool *peer = plan_affinity_peer(p, rows, pool);
	uint32_t base = id ^ plan_affinity_id_bit(p, pool);
	uint64_t *programmed = p->ids[pool->fam].programmed;

	if (peer != NULL && peer->id != 0)
		return id == (peer->id ^ PLAN_POOL_LOCAL);
	if (base == 0 || base > PLAN_POOL_ID_MAX || programmed == NULL ||
	    !bit_is_set(programmed, base))
		return false;
	bit_clear(programmed, base);
	return true;
}

void plan_ids_release(struct plan *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		for (size_t i = 0; p->ids[fam].programmed != NULL && i < ID_WORDS; i++)
			if (p->ids[fam].programmed[i] != 0)
				p->ids[fam].used[i] &= ~p->ids[fam].programmed[i];
		free(p->ids[fam].programmed);
		p->ids[fam].programmed = NULL;
		p->ids[fam].is_exhausted = false;
	}
}

/* Does a pool of `rows` have the id of `pool`, or its peer's? */
static bool rows_use_id(const struct plan_rows *rows, const struct plan_pool *pool)
{
	return rows != NULL &&
	       (plan_rows_pool(rows, pool->fam, pool->id) != NULL ||
		plan_rows_pool(rows, pool->fam, pool->id ^ PLAN_POOL_LOCAL) != NULL);
}

/* Until the sweep a frontend in the kernel may lead to any reserved id, of any service. */
static void id_free(struct plan *p, enum ipfam fam, uint32_t id)
{
	if (p->ids[fam].programmed != NULL)
		bit_set(p->ids[fam].programmed, id);
	else
		bit_clear(p->ids[fam].used, id);
	p->ids[fam].is_exhausted = false;
}

void plan_ids_free(struct plan *p, const struct plan_rows *rows, const struct plan_rows *kept,
		   const struct plan_rows *also_kept)
{
	rows = plan_rows_or_none(rows);
	vec_for_each (pool, &rows->pools) {
		uint32_t id = pool->id & ~PLAN_POOL_LOCAL;

		if (id != 0 && !rows_use_id(kept, pool) && !rows_use_id(also_kept, pool))
			id_free(p, pool->fam, id);
	}
}

void plan_ids_give_back(struct plan *p, const struct plan_rows *rows)
{
	for (size_t i = rows != NULL ? rows->pools.n : 0; i-- > 0;) {
		const struct plan_pool *pool = &rows->pools.v[i];
		uint32_t *next = &p->ids[pool->fam].next;
		uint32_t id = pool->id & ~PLAN_POOL_LOCAL;

		if (id != 0 && id + 1 == *next && !bit_is_set(p->ids[pool->fam].used, id))
			*next = id;
	}
}
