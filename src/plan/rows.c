/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/rows - lifetime, order and names of the rows. */
#include "plan/rows.h"

#include <stdlib.h>

void plan_pool_fini(struct plan_pool *pool)
{
	name_unref(pool->port_name);
	vec_fini(&pool->backends);
	vec_fini(&pool->table);
	free(pool->weights);
	vec_fini(&pool->ranges);
}

uint64_t plan_pool_weights(const struct plan_pool *pool)
{
	uint64_t sum = pool->weights != NULL ? 0 : pool->backends.n;

	for (size_t i = 0; pool->weights != NULL && i < pool->backends.n; i++)
		sum += pool->weights[i];
	return sum;
}

struct ip_prefix *plan_pool_ranges(const struct plan_pool *pool, size_t *n)
{
	VEC(struct ip_prefix) joined = { 0 };

	vec_append(&joined, &pool->ranges);
	*n = ip_prefixes_join(joined.v, joined.n);
	return joined.v;
}

void plan_places_of(struct plan_places *ret, const struct plan_pool *pool)
{
	vec_reserve(&ret->v, pool->backends.n);
	for (uint32_t i = 0; i < pool->backends.n; i++)
		*vec_push(&ret->v) = (struct plan_place){ pool->backends.v[i], i };
	vec_sort(&ret->v, ip_endpoint_cmp);
}

void plan_rows_close(struct plan_rows *r)
{
	if (r == NULL)
		return;
	vec_for_each (pool, &r->pools)
		plan_pool_fini(pool);
	vec_fini(&r->pools);
	vec_fini(&r->frontends);
	vec_fini(&r->conflicts);
	free(r->by_id);
	free(r);
}

const struct plan_rows *plan_rows_or_none(const struct plan_rows *r)
{
	static const struct plan_rows none;

	return r != NULL ? r : &none;
}

const struct plan_frontend *plan_rows_frontend(const struct plan_rows *r,
					       const struct plan_frontend *key)
{
	return vec_search(&r->frontends, key, ip_tuple_cmp);
}

struct plan_pool *plan_rows_pool_of(const struct plan_rows *rows, const struct plan_frontend *f,
				    enum plan_scope scope)
{
	return plan_rows_pool_at(rows, ip_fam(&f->addr), scope, f->proto,
				 rows->svc->service->ports.v[f->port_index].name);
}

int plan_pool_key_cmp(const void *a, const void *b)
{
	const struct plan_pool *pa = a;
	const struct plan_pool *pb = b;

	return CMP(pa->fam, pb->fam) ?: name_cmp(pa->port_name, pb->port_name) ?:
	       CMP(pa->proto, pb->proto) ?: CMP(pa->scope, pb->scope);
}

struct plan_pool *plan_rows_pool_like(const struct plan_rows *r, const struct plan_pool *like)
{
	return vec_search(&r->pools, like, plan_pool_key_cmp);
}

struct plan_pool *plan_rows_pool_at(const struct plan_rows *r, enum ipfam fam,
				    enum plan_scope scope, uint8_t proto,
				    const struct name *port_name)
{
	const struct plan_pool like = {
		.fam = (uint8_t)fam, .scope = (uint8_t)scope, .proto = proto, .port_name = port_name
	};

	return plan_rows_pool_like(r, &like);
}

static uint32_t id_key(enum ipfam fam, uint32_t id)
{
	return (uint32_t)fam << 31 | id;
}

static int pool_key_cmp(const void *a, const void *b)
{
	const struct plan_pool_key *x = a;
	const struct plan_pool_key *y = b;

	return CMP(x->key, y->key);
}

void plan_rows_index(struct plan_rows *r)
{
	free(r->by_id);
	r->by_id = NULL;
	if (r->pools.n < PLAN_INDEX_MIN)
		return;
	r->by_id = xreallocarray(NULL, r->pools.n, sizeof(r->by_id[0]));
	for (uint32_t i = 0; i < r->pools.n; i++)
		r->by_id[i] =
			(struct plan_pool_key){ id_key(r->pools.v[i].fam, r->pools.v[i].id), i };
	vec_qsort(r->by_id, r->pools.n, sizeof(r->by_id[0]), pool_key_cmp);
}

static void led_note(const struct plan_rows *rows, const struct plan_frontend *f,
		     const struct plan_target *t, uint8_t *is_led)
{
	const struct plan_pool *pool =
		t->verdict == PLAN_VERDICT_UNSET ? NULL : plan_rows_pool_of(rows, f, t->scope);

	if (pool != NULL)
		is_led[pool - rows->pools.v] = 1;
}

void plan_rows_drop_unled(struct plan_rows *rows)
{
	AUTO(free) uint8_t *is_led = xcalloc(rows->pools.n + 1, 1);
	size_t kept = 0;

	vec_for_each (f, &rows->frontends) {
		led_note(rows, f, &f->target, is_led);
		led_note(rows, f, &f->inside, is_led);
	}
	for (size_t i = 0; i < rows->pools.n; i++) {
		if (is_led[i])
			rows->pools.v[kept++] = rows->pools.v[i];
		else
			plan_pool_fini(&rows->pools.v[i]);
	}
	vec_cut(&rows->pools, kept);
}

struct plan_pool *plan_rows_pool(const struct plan_rows *r, enum ipfam fam, uint32_t id)
{
	const struct plan_pool_key like = { .key = id_key(fam, id) };
	const struct plan_pool_key *at;
	uint32_t guess;

	if (r->by_id == NULL)
		return vec_find(&r->pools, pool, pool->fam == fam && pool->id == id);
	guess = like.key - r->by_id[0].key; /* most ids of a service follow each other */
	if (guess < r->pools.n && r->by_id[guess].key == like.key)
		return &r->pools.v[r->by_id[guess].index];
	at = bsearch(&like, r->by_id, r->pools.n, sizeof(r->by_id[0]), pool_key_cmp);
	return at != NULL ? &r->pools.v[at->index] : NULL;
}

const char *plan_conflict_reason(const struct plan_conflict *c, const struct plan_owner *owner)
{
	bool is_lb = c->kind == PLAN_FRONTEND_LB;

	if (owner->kind == c->kind)
		return "older service";
	switch (owner->kind) {
	case PLAN_FRONTEND_CLUSTERIP:
		if (c->kind == PLAN_FRONTEND_NODEPORT)
			return "cluster IP before node port";
		return is_lb ? "cluster IP before load balancer address"
			     : "cluster IP before external IP";
	case PLAN_FRONTEND_NODEPORT:
		return is_lb ? "node port before load balancer address"
			     : "node port before external IP";
	default:
		return "load balancer address before external IP";
	}
}

const char *plan_frontend_kind_text(enum plan_frontend_kind k)
{
	static const char *const texts[] = {
		[PLAN_FRONTEND_UNSET] = "-",           [PLAN_FRONTEND_CLUSTERIP] = "ClusterIP",
		[PLAN_FRONTEND_NODEPORT] = "NodePort", [PLAN_FRONTEND_EXTERNALIP] = "ExternalIP",
		[PLAN_FRONTEND_LB] = "LoadBalancer",
	};

	return texts[k];
}

const char *plan_verdict_text(enum plan_verdict v)
{
	static const char *const texts[] = {
		[PLAN_VERDICT_UNSET] = "-",
		[PLAN_VERDICT_POOL] = "balance",
		[PLAN_VERDICT_REJECT] = "reject",
		[PLAN_VERDICT_DROP] = "drop",
	};

	return texts[v];
}

const char *plan_scope_text(enum plan_scope s)
{
	return s == PLAN_SCOPE_LOCAL ? "local" : "cluster";
}
