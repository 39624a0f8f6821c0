/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/adopt - set pool ids and slots of rows to those in the kernel.
 *
 * A pool is identified by the frontends that lead to it. Frontends with unchanged structure are
 * matched first, because their match is certain.
 */
#include <string.h>

#include "model/select.h"
#include "nft/decode.h"
#include "plan/table.h"
#include "plane/nft/state.h"

static void ids_reserve(struct nft_loaded *h, struct plan *plan)
{
	plan_ids_release(plan); /* of an earlier load that did not complete */
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_keymap_for_each (e, &h->pools[fam])
			plan_id_reserve(plan, fam, nft_get_word(e.key));
	h->elems.plan = plan;
}

/* The local id of a slot in the kernel; 0 if its elements contradict each other. */
static uint16_t adopt_aff_id(const struct nft_loaded *h, enum ipfam fam, uint32_t id,
			     const uint8_t *slot_key, const uint8_t *endpoint)
{
	uint32_t word = nft_loaded_word(h, fam, NFTSET_AFF_SLOTS, slot_key);
	const uint8_t *data;
	uint8_t key[NFT_KEY_MAX];

	if (nft_word_pool(word) != id || nft_word_kind(word) == 0)
		return 0;
	nft_put_word(key, word);
	data = plane_loaded_find(&h->elems, fam, NFTSET_AFF_ENDPOINTS, key);
	if (data == NULL || memcmp(data, endpoint, nft_data_len(NFTSET_AFF_ENDPOINTS, fam)) != 0)
		return 0;
	return nft_word_kind(word);
}

/* The backend of each local id, to find one that two backends have. */
struct local_ids {
	const struct plan_backend *of[PLAN_AFFINITY_BACKENDS_MAX + 1];
	uint16_t max;
};

static void local_id_adopt(struct local_ids *ids, struct plan_backend *b, uint16_t id)
{
	if (id == 0 || (ids->of[id] != NULL && ip_endpoint_cmp(ids->of[id], b) != 0))
		return;
	ids->of[id] = b;
	plan_backend_set_aff_id(b, id);
	if (id > ids->max)
		ids->max = id;
}

struct finding {
	const struct nft_loaded *h;
	struct plan_pool *pool;
	struct local_ids *ids;
	struct plan_places places;
};

/* Give the backend of an `aff_endpoints` element that element's local id, unless its slot has one.
 */
static void local_id_found(void *arg, enum nft_set_id set, const uint8_t *key)
{
	struct finding *f = arg;
	struct plan_pool *pool = f->pool;
	const uint8_t *data = plane_loaded_find(&f->h->elems, pool->fam, set, key);
	const struct plan_place *at;
	struct ip_endpoint to;

	if (data == NULL)
		return;
	nft_get_endpoint(&to, pool->fam, data);
	at = vec_search(&f->places.v, &to, ip_endpoint_cmp);
	if (at != NULL && pool->backends.v[at->slot].aff_id == 0)
		local_id_adopt(f->ids, &pool->backends.v[at->slot],
			       nft_word_kind(nft_get_word(key)));
}

/* Clients keep a backend whose slot, or whose slot's id, another process deleted. */
static void local_ids_find(const struct nft_loaded *h, struct plan_pool *pool,
			   struct local_ids *ids)
{
	struct finding f = { .h = h, .pool = pool, .ids = ids };

	if (!vec_has(&pool->backends, b, b->aff_id == 0))
		return;
	plan_places_of(&f.places, pool);
	nft_loaded_each_id(h, pool->fam, pool->id, local_id_found, &f);
	vec_fini(&f.places.v);
}

/*
 * By weight, a backend has several slots: its local id is that of the first slot with one.
 * The backends are sorted, as those of a selection.
 */
static void weighed_adopt(struct plan_pool *pool, const struct service *s,
			  struct plan_backend *programmed, uint32_t n)
{
	const struct plan_pool slots = { .backends = { .v = programmed, .n = n } };

	for (uint32_t i = 0; i < n; i++) {
		struct plan_backend *b =
			programmed[i].aff_id != 0
				? vec_search(&pool->backends, &programmed[i], ip_endpoint_cmp)
				: NULL;

		if (b != NULL && b->aff_id == 0)
			plan_backend_set_aff_id(b, programmed[i].aff_id);
	}
	plan_table_weigh(pool, s, &slots);
}

static void adopt_slots(const struct nft_loaded *h, const struct plan_rows *rows,
			struct plan_pool *pool, uint32_t n_slots)
{
	AUTO(free) struct plan_backend *programmed = xcalloc(MAX(n_slots, 1U), sizeof(*programmed));
	AUTO(free) struct local_ids *ids = pool->affinity_s != 0 ? xcalloc(1, sizeof(*ids)) : NULL;

	for (uint32_t slot = 0; slot < n_slots; slot++) {
		uint8_t key[NFT_KEY_MAX];
		struct ip_endpoint at;
		const uint8_t *data;

		nft_key_slot(key, pool->id, slot);
		data = plane_loaded_find(&h->elems, pool->fam, NFTSET_ENDPOINTS, key);
		if (data == NULL)
			continue;
		nft_get_endpoint(&at, pool->fam, data);
		programmed[slot] = (struct plan_backend){ .addr = at.addr, .port = at.port };
		if (ids != NULL)
			local_id_adopt(ids, &programmed[slot],
				       adopt_aff_id(h, pool->fam, pool->id, key, data));
	}
	if (pool->table.n > 0)
		weighed_adopt(pool, rows->svc->service, programmed, n_slots);
	else if (pool->hashing == PLAN_HASHING_NONE) /* else the slots are those of its table */
		plan_slots_arrange(pool->backends.v, pool->backends.n, programmed, n_slots);
	if (ids == NULL)
		return;
	local_ids_find(h, pool, ids);
	pool->next_aff_id = ids->max == PLAN_AFFINITY_BACKENDS_MAX ? 1 : (uint16_t)(ids->max + 1);
}

/*
 * Does the cluster IP of another service lead to the pool? A frontend that moves between services
 * must not take this service's pool along.
 */
static bool is_of_other(const struct nft_loaded *h, const struct service *s,
			const struct plan_frontend *f, uint32_t id)
{
	enum ipfam fam = ip_fam(&f->addr);
	const struct ip_addr *ip = &s->cluster_ip[fam];
	struct nft_led led = { 0 };
	uint8_t key[NFT_KEY_MAX];

	nft_key_tuple(key, ip, f->proto, s->ports.v[f->port_index].port);
	return !plane_loaded_is_cluster_ip(&h->elems, &nft_plane_sets, fam, key) ||
	       !nft_loaded_led(h, fam, key, &led) || nft_word_pool(led.target) != id;
}

/*
 * Give the pool the id in `word` of frontend `f`, unless either is matched already, and note the
 * slots that the frontend picks.
 */
static void adopt_pool(struct nft_loaded *h, const struct plan_rows *rows,
		       const struct plan_frontend *f, struct plan_pool *pool, uint32_t word)
{
	uint32_t id = nft_word_pool(word);
	struct nft_loaded_pool programmed;

	if (pool == NULL || !nft_loaded_pool_get(h, pool->fam, id, &programmed))
		return;
	if (pool->id == 0 &&
	    !(programmed.is_of_cluster_ip && is_of_other(h, rows->svc->service, f, id)) &&
	    (!programmed.has_affinity ||
	     pool->affinity_s != 0) && /* local ids go with their pool */
	    plan_id_adopt(h->elems.plan, rows, pool, id)) {
		pool->id = id;
		adopt_slots(h, rows, pool, programmed.n_slots);
	}
	if (pool->id == id)
		pool->n_found = programmed.n_slots;
}

/*
 * A frontend that becomes split, or no longer is, had the cluster pool for all clients: that of the
 * clients inside comes first.
 */
static void adopt_frontend(struct nft_loaded *h, const struct plan_rows *rows,
			   const struct plan_frontend *f, const struct nft_led *led)
{
	bool is_alike = f->is_split == led->is_split;
	bool is_joined = led->is_split && !f->is_split && f->target.scope != PLAN_SCOPE_LOCAL;

	if (f->is_split)
		adopt_pool(h, rows, f, plan_rows_pool_of(rows, f, f->inside.scope),
			   is_alike ? led->inside : led->target);
	adopt_pool(h, rows, f, plan_rows_pool_of(rows, f, f->target.scope),
		   is_joined ? led->inside : led->target);
}

void nft_adopt(struct plane *plane, struct plan *plan, struct plan_rows *rows)
{
	struct nft_loaded *h = nft_plane_loaded(nft_plane_of(plane));

	if (h->elems.plan == NULL)
		ids_reserve(h, plan);
	for (int pass = 0; pass < 2; pass++) {
		vec_for_each (f, &rows->frontends) {
			uint8_t key[NFT_KEY_MAX];
			struct nft_led led;

			nft_key_tuple(key, &f->addr, f->proto, f->port);
			if (nft_loaded_led(h, ip_fam(&f->addr), key, &led) &&
			    (f->is_split != led.is_split) == pass)
				adopt_frontend(h, rows, f, &led);
		}
	}
}
