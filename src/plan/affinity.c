/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/affinity - local ids of backends, and whether desired session affinity is in effect. */
#include "plan/plan.h"

#include "base/bits.h"

static bool shares(const struct plan *p, const struct plan_pool *pool)
{
	return p->traits->shares_affinity && pool->affinity_s != 0;
}

struct plan_pool *plan_affinity_peer(const struct plan *p, const struct plan_rows *rows,
				     const struct plan_pool *pool)
{
	enum plan_scope other =
		pool->scope == PLAN_SCOPE_LOCAL ? PLAN_SCOPE_CLUSTER : PLAN_SCOPE_LOCAL;
	struct plan_pool *peer;

	if (!shares(p, pool))
		return NULL;
	peer = plan_rows_pool_at(rows, pool->fam, other, pool->proto, pool->port_name);
	return peer != NULL && shares(p, peer) ? peer : NULL;
}

uint32_t plan_affinity_id_bit(const struct plan *p, const struct plan_pool *pool)
{
	return shares(p, pool) && pool->scope == PLAN_SCOPE_LOCAL ? PLAN_POOL_LOCAL : 0;
}

void plan_affinity_inherit(const struct plan *p, const struct plan_rows *programmed,
			   struct plan_pool *pool)
{
	const struct plan_pool *peer = plan_affinity_peer(p, programmed, pool);
	AUTO(vec_fini) struct plan_places places = { 0 };

	if (peer == NULL || peer->id == 0)
		return;
	pool->id = peer->id ^ PLAN_POOL_LOCAL;
	pool->next_aff_id = peer->next_aff_id;
	plan_places_of(&places, peer);
	vec_for_each (b, &pool->backends) {
		const struct plan_place *at = vec_search(&places.v, b, ip_endpoint_cmp);

		if (at != NULL)
			plan_backend_set_aff_id(b, at->b.aff_id);
	}
}

/* --- local ids --- */

struct local_ids {
	uint64_t used[BITS_WORDS(PLAN_AFFINITY_BACKENDS_MAX + 1)];
	uint16_t next;
	size_t n_new; /* ids to take */
};

/* Return ids in rising order: a freed id may still be in clients' affinity entries. */
static uint16_t id_take(struct local_ids *ids)
{
	uint16_t id;

	do {
		id = ids->next;
		ids->next = id == PLAN_AFFINITY_BACKENDS_MAX ? 1 : (uint16_t)(id + 1);
	} while (bit_is_set(ids->used, id));
	bit_set(ids->used, id);
	return id;
}

/*
 * A backend of both pools keeps its id in `pool`, or else its id in `peer`. An id of another
 * backend of `pool` is not used in `peer`.
 */
static void ids_agree(struct local_ids *ids, struct plan_backend *in_peer,
		      struct plan_backend *in_pool)
{
	if (in_pool != NULL && in_pool->aff_id != 0)
		in_peer->aff_id = in_pool->aff_id;
	else if (in_peer->aff_id != 0 && bit_is_set(ids->used, in_peer->aff_id))
		in_peer->aff_id = 0;
	if (in_peer->aff_id != 0)
		bit_set(ids->used, in_peer->aff_id);
	if (in_pool != NULL)
		in_pool->aff_id = in_peer->aff_id;
}

/*
 * While ids suffice, those of backends that leave are not given to others: between pieces of a
 * change a pool has both.
 */
static void leaving_mark(struct local_ids *ids, const struct plan_pool *pool,
			 const struct plan_rows *programmed)
{
	struct local_ids all = *ids;
	size_t n_used = ids->n_new;

	for (unsigned int scope = PLAN_SCOPE_CLUSTER; scope <= PLAN_SCOPE_LOCAL; scope++) {
		const struct plan_pool *was = plan_rows_pool_at(programmed, pool->fam, scope,
								pool->proto, pool->port_name);

		for (size_t i = 0; was != NULL && i < was->backends.n; i++)
			bit_set(all.used, was->backends.v[i].aff_id);
	}
	for (size_t i = 0; i < ARRAY_SIZE(all.used); i++)
		n_used += (size_t)__builtin_popcountll(all.used[i]);
	if (n_used <= PLAN_AFFINITY_BACKENDS_MAX + 1)
		*ids = all;
}

static void number_both(struct local_ids *ids, struct plan_pool *pool, struct plan_pool *peer,
			const struct plan_rows *programmed)
{
	AUTO(free) struct plan_backend **same = xcalloc(peer->backends.n + 1, sizeof(*same));
	AUTO(vec_fini) struct plan_places places = { 0 };

	if (peer->backends.n > 0)
		plan_places_of(&places, pool);
	for (size_t i = 0; i < peer->backends.n; i++) {
		struct plan_backend *b = &peer->backends.v[i];
		const struct plan_place *at = vec_search(&places.v, b, ip_endpoint_cmp);

		same[i] = at != NULL ? &pool->backends.v[at->slot] : NULL;
		ids_agree(ids, b, same[i]);
		ids->n_new += b->aff_id == 0 && at == NULL;
	}
	if (programmed != NULL)
		leaving_mark(ids, pool, programmed);
	vec_for_each (b, &pool->backends)
		if (b->aff_id == 0)
			plan_backend_set_aff_id(b, id_take(ids));
	for (size_t i = 0; i < peer->backends.n; i++)
		if (peer->backends.v[i].aff_id == 0)
			plan_backend_set_aff_id(&peer->backends.v[i],
						same[i] != NULL ? same[i]->aff_id : id_take(ids));
}

void plan_affinity_number(struct plan_pool *pool, struct plan_pool *peer,
			  const struct plan_rows *programmed)
{
	struct plan_pool none = { 0 };
	struct local_ids ids = { .next = pool->next_aff_id };

	peer = peer != NULL ? peer : &none;
	bit_set(ids.used, 0);
	vec_for_each (b, &pool->backends) {
		bit_set(ids.used, b->aff_id);
		ids.n_new += b->aff_id == 0;
	}
	ids.next = (uint16_t)MAX(ids.next, peer->next_aff_id);
	number_both(&ids, pool, peer, programmed);
	pool->next_aff_id = peer->next_aff_id = ids.next;
}

/* --- effective affinity --- */

/* The effective affinity timeout of a numbered pool, 0 = none. */
static uint32_t pool_affinity(const struct plan *p, const struct plan_pool *pool)
{
	return pool->affinity_s == 0 || p->traits->class_affinity == NULL || pool->class == 0
		       ? pool->affinity_s
		       : p->traits->class_affinity(pool->class);
}

bool plan_rows_is_unsticky(const struct plan *p, const struct plan_rows *rows)
{
	return vec_has(&rows->pools, pool, pool->is_sticky && pool_affinity(p, pool) == 0);
}

bool plan_rows_is_inexact(const struct plan *p, const struct plan_rows *rows)
{
	return vec_has(&rows->pools, pool, pool_affinity(p, pool) != pool->affinity_s);
}

void plan_affinity_text(const struct plan *p, const struct plan_rows *rows, struct str *out)
{
	vec_for_each (pool, &rows->pools) {
		uint32_t s = pool_affinity(p, pool);

		if (!pool->is_sticky || (s != 0 && s == pool->affinity_s))
			continue;
		if (out->len > 0)
			str_puts(out, "; ");
		if (pool->affinity_s == 0)
			str_printf(out, "affinity: not in force: %u endpoints, at most %d",
				   pool->backends.n, PLAN_AFFINITY_BACKENDS_MAX);
		else if (s == 0)
			str_puts(out, "affinity: not in force: no chain is free for this number "
				      "of endpoints and this timeout");
		else
			str_printf(out,
				   "affinity: lasts %u s instead of %u s: too many different "
				   "timeouts are in use",
				   s, pool->affinity_s);
		return;
	}
}
