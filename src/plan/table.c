/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan/table.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/rendezvous.h"

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

static void assign(uint16_t table[static RENDEZVOUS_SLOTS], const struct plan_pool *pool)
{
	struct rendezvous_member *v = xreallocarray(NULL, pool->backends.n, sizeof(*v));

	for (size_t i = 0; i < pool->backends.n; i++)
		v[i] = (struct rendezvous_member){ backend_id(&pool->backends.v[i]), 1 };
	rendezvous_assign(table, v, pool->backends.n);
	free(v);
}

static bool has_backends(const struct plan_pool *pool, const struct plan_pool *programmed)
{
	return programmed != NULL && programmed->table.n == RENDEZVOUS_SLOTS &&
	       programmed->backends.n == pool->backends.n &&
	       memcmp(programmed->backends.v, pool->backends.v,
		      pool->backends.n * sizeof(struct plan_backend)) == 0;
}

void plan_table_make(struct plan_pool *pool, const struct plan_pool *programmed)
{
	vec_clear(&pool->table);
	if (pool->hashing == PLAN_HASHING_NONE || pool->backends.n == 0)
		return;
	vec_reserve(&pool->table, RENDEZVOUS_SLOTS);
	pool->table.n = RENDEZVOUS_SLOTS;
	if (has_backends(pool, programmed))
		memcpy(pool->table.v, programmed->table.v, RENDEZVOUS_SLOTS * sizeof(uint16_t));
	else
		assign(pool->table.v, pool);
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
	struct plan_pool assigned = { .hashing = pool->hashing };
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
