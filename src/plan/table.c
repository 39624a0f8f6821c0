/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan/table.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/rendezvous.h"
#include "model/select.h"
#include "model/tuning.h"

/* Constants: every node and every version assigns alike. */
#define KEY_0 UINT64_C(0x5f8e3a1b7c2d4960)
#define KEY_1 UINT64_C(0xc3a5917e04b86d2f)

/* A hash of address and port in network order. */
static uint64_t backend_id(const struct plan_backend *b)
{
	size_t len = ip_len(ip_fam(&b->addr));
	uint8_t bytes[18];

	memcpy(bytes, b->addr.bytes, len);
	bytes[len] = (uint8_t)(b->port >> 8);
	bytes[len + 1] = (uint8_t)b->port;
	return hash_bytes_fixed(bytes, len + 2, KEY_0, KEY_1);
}

static bool has_backends(const struct plan_pool *pool, const struct plan_pool *programmed)
{
	return programmed != NULL && programmed->hashing != PLAN_HASHING_NONE &&
	       programmed->table.n == RENDEZVOUS_SLOTS &&
	       vec_is_equal(&programmed->backends, &pool->backends) &&
	       plan_weights_are_equal(programmed, pool);
}

void plan_table_make(struct plan_pool *pool, const struct plan_pool *programmed)
{
	AUTO(free) struct rendezvous_member *v = NULL;

	if (pool->hashing == PLAN_HASHING_NONE || pool->table.n > 0 || pool->backends.n == 0)
		return;
	if (has_backends(pool, programmed)) {
		vec_append(&pool->table, &programmed->table);
		return;
	}
	vec_reserve(&pool->table, RENDEZVOUS_SLOTS);
	vec_cut(&pool->table, RENDEZVOUS_SLOTS);
	v = xreallocarray(NULL, pool->backends.n, sizeof(*v));
	for (size_t i = 0; i < pool->backends.n; i++)
		v[i] = (struct rendezvous_member){ backend_id(&pool->backends.v[i]),
						   plan_pool_weight(pool, i) };
	rendezvous_assign(pool->table.v, v, pool->backends.n);
}

size_t plan_table_slots(const struct plan_pool *pool)
{
	return pool->hashing != PLAN_HASHING_NONE && pool->backends.n > 0 ? RENDEZVOUS_SLOTS
									  : pool->table.n;
}

/* --- by weight --- */

/* Number of slots of a weight above 0, rounded. */
static uint32_t slots_of(uint8_t weight, uint32_t unit)
{
	return MAX((weight + unit / 2) / unit, 1U);
}

static size_t slots_sum(const struct plan_pool *pool, uint32_t unit)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->backends.n; i++)
		n += slots_of(pool->weights[i], unit);
	return n;
}

size_t plan_weight_slots_max(const struct service *s)
{
	size_t n = 0;

	for (int fam = 0; fam < IPFAM_N; fam++)
		n += service_has_family(s, fam) ? s->ports.n : 0;
	return PLAN_WEIGHT_SLOTS_MAX / MAX(n, (size_t)1);
}

bool plan_table_is_rounded(const struct plan_pool *pool, const struct service *s)
{
	return pool->weights != NULL && pool->hashing == PLAN_HASHING_NONE && pool->table.n > 0 &&
	       pool->table.n < slots_sum(pool, weights_unit(service_weights(s)));
}

/* The unit of slots_of(). */
static uint32_t unit_of(const struct plan_pool *pool, const struct service *s)
{
	size_t max = plan_weight_slots_max(s);
	uint32_t unit = weights_unit(service_weights(s));

	if (slots_sum(pool, 1) <= MIN(max, (size_t)PLAN_WEIGHT_SLOTS_PLAIN))
		return 1;
	return unit * (1 + (uint32_t)bisect(2 * WEIGHT_MAX / unit, k,
					    slots_sum(pool, unit * ((uint32_t)k + 1)) > max));
}

/* Fill the empty slots, the backends in turns. `left`: slots that each of them lacks. */
static void holes_fill(struct plan_pool *pool, const uint8_t *is_taken,
		       const struct plan_places *places, uint32_t *left)
{
	size_t i = 0;

	for (size_t slot = 0; slot < pool->table.n; slot++) {
		if (is_taken[slot])
			continue;
		for (; left[places->v.v[i].slot] == 0; i = (i + 1) % places->v.n)
			;
		pool->table.v[slot] = (uint16_t)places->v.v[i].slot;
		left[places->v.v[i].slot]--;
		i = (i + 1) % places->v.n;
	}
}

void plan_table_weigh(struct plan_pool *pool, const struct service *s,
		      const struct plan_pool *programmed)
{
	uint32_t unit = unit_of(pool, s);
	size_t n = slots_sum(pool, unit);
	AUTO(free) uint32_t *left = xreallocarray(NULL, pool->backends.n, sizeof(*left));
	AUTO(free) uint8_t *is_taken = xcalloc(n, 1);
	AUTO(vec_fini) struct plan_places places = { 0 };

	plan_places_of(&places, pool);
	for (size_t i = 0; i < pool->backends.n; i++)
		left[i] = slots_of(pool->weights[i], unit);
	vec_reserve(&pool->table, n);
	vec_cut(&pool->table, n);
	for (size_t slot = 0; slot < MIN(n, plan_pool_slots(programmed)); slot++) {
		const struct plan_place *to =
			vec_search(&places.v, plan_pool_at(programmed, slot), ip_endpoint_cmp);

		if (to == NULL || left[to->slot] == 0)
			continue;
		left[to->slot]--;
		pool->table.v[slot] = (uint16_t)to->slot;
		is_taken[slot] = 1;
	}
	holes_fill(pool, is_taken, &places, left);
}

bool plan_weights_are_equal(const struct plan_pool *a, const struct plan_pool *b)
{
	if (a->weights == NULL || b->weights == NULL)
		return a->weights == b->weights;
	return memcmp(a->weights, b->weights, a->backends.n) == 0;
}

const char *plan_hashing_text(enum plan_hashing how)
{
	static const char *const texts[] = {
		[PLAN_HASHING_NONE] = "",
		[PLAN_HASHING_ADDR] = "mh",
		[PLAN_HASHING_PORT] = "mh,mh-port",
	};

	return texts[how];
}

const struct plan_backend *plan_table_pick(const struct plan_pool *pool,
					   const struct ip_addr *client, uint16_t port)
{
	size_t len = ip_len(ip_fam(client));
	struct plan_pool assigned = { .hashing = pool->hashing, .weights = pool->weights };
	const struct plan_backend *ret;
	uint8_t key[20] = { 0 };
	uint32_t slot;

	assert(pool->hashing != PLAN_HASHING_NONE && pool->backends.n > 0);
	memcpy(key, client->bytes, len);
	if (pool->hashing == PLAN_HASHING_PORT) {
		key[len] = (uint8_t)(port >> 8);
		key[len + 1] = (uint8_t)port;
		len += 4; /* a register: the port and two bytes of padding */
	}
	slot = rendezvous_slot(key, len, PLAN_HASH_SEED);
	if (pool->table.n > 0)
		return plan_pool_at(pool, slot);
	memcpy(&assigned.backends, &pool->backends, sizeof(assigned.backends));
	plan_table_make(&assigned, NULL);
	ret = plan_pool_at(&assigned, slot);
	vec_fini(&assigned.table);
	return ret;
}
