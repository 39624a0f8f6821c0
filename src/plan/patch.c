/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/patch - the desired rows of a large service of which few endpoints changed.
 *
 * The programmed rows, with the backends of the changed endpoints (model/track.h) exchanged:
 * no other endpoint is selected. Equal to the rows of plan_rows_build().
 */
#include "plan/private.h"

#include <assert.h>

#include "model/track.h"
#include "plan/between.h"

#define PORTS_MAX 8 /* a service with more is built port by port */

struct patch {
	struct plan *p;
	struct plan_rows *rows;
	size_t cost;
};

struct backends {
	VEC(struct plan_backend) v;
};

bool plan_is_patchable(const struct plan *p, const struct service *s)
{
	return service_is_proxied(s) && s->ports.n <= PORTS_MAX && s->affinity_s == 0 &&
	       s->tuning == NULL && p->left_out == 0 &&
	       (p->traits->hashing == NULL || p->traits->hashing(s) == PLAN_HASHING_NONE);
}

static void backends_of(struct backends *ret, const struct selection *sel, enum plan_scope scope,
			bool preserves)
{
	vec_for_each (ep, &sel->endpoints)
		if ((scope == PLAN_SCOPE_LOCAL ? ep->local : ep->cluster) == EXCLUSION_NONE)
			*vec_push(&ret->v) = plan_backend_of(ep, preserves);
	vec_sort(&ret->v, ip_endpoint_cmp);
}

/* A number of 8 bits, to find few backends among many with few comparisons. */
static uint8_t digest(const struct plan_backend *b)
{
	return (uint8_t)(b->addr.bytes[3] ^ b->addr.bytes[15] ^ b->port);
}

/*
 * Give up the slots of `gone`, except for those of backends that come back, which keep theirs.
 * Returns false if the pool has not all of them.
 */
static bool slots_free(struct plan_pool *pool, const struct backends *gone, struct backends *come,
		       uint32_t *holes, size_t *n_holes)
{
	bool is_listed[256] = { false };
	size_t n_found = 0;

	vec_for_each (b, &gone->v)
		is_listed[digest(b)] = true;
	for (uint32_t i = 0; i < pool->backends.n && n_found < gone->v.n; i++) {
		struct plan_backend *b = &pool->backends.v[i];
		const struct plan_backend *back;

		if (!is_listed[digest(b)] || vec_search(&gone->v, b, ip_endpoint_cmp) == NULL)
			continue;
		n_found++;
		back = vec_search(&come->v, b, ip_endpoint_cmp);
		if (back != NULL)
			*b = *back;
		else
			holes[(*n_holes)++] = i;
	}
	return n_found == gone->v.n;
}

/* As plan_slots_arrange(): free slots get the backends of the last slots and those that come. */
static void slots_fill(struct plan_pool *pool, struct backends *come, const uint32_t *holes,
		       size_t n_holes)
{
	size_t n_was = pool->backends.n;
	size_t n = n_was - n_holes + come->v.n;
	size_t hole = 0;
	size_t i = 0;

	for (size_t slot = n; slot < n_was; slot++) {
		while (hole < n_holes && holes[hole] < slot)
			hole++;
		if (hole == n_holes || holes[hole] != slot)
			*vec_push(&come->v) = pool->backends.v[slot];
	}
	vec_sort(&come->v, ip_endpoint_cmp);
	for (hole = 0; hole < n_holes && holes[hole] < n; hole++)
		pool->backends.v[holes[hole]] = come->v.v[i++];
	vec_cut(&pool->backends, n);
	for (size_t slot = n_was; slot < n; slot++)
		pool->backends.v[slot] = come->v.v[i++];
	assert(i == come->v.n);
}

/* `pool` is a copy with room. Returns false if it lacks backends of `gone`. */
static bool pool_patch(struct plan_pool *pool, const struct backends *gone, struct backends *come)
{
	AUTO(free) uint32_t *holes = xreallocarray(NULL, gone->v.n + 1, sizeof(*holes));
	size_t n_holes = 0;

	if (!slots_free(pool, gone, come, holes, &n_holes))
		return false;
	vec_keep(&come->v, b, vec_search(&gone->v, b, ip_endpoint_cmp) == NULL);
	slots_fill(pool, come, holes, n_holes);
	return true;
}

static size_t port_of(const struct service *s, const struct plan_pool *pool)
{
	const struct service_port *found =
		vec_find(&s->ports, p, p->name == pool->port_name && p->proto == pool->proto);

	assert(found != NULL);
	return (size_t)(found - s->ports.v);
}

/* Append `was` to the rows, with the changes. */
static bool pool_follow(struct patch *patch, const struct plan_pool *was)
{
	const struct svc *svc = patch->rows->svc;
	struct plan *p = patch->p;
	size_t work = plan_work(p, svc, was, NULL, 0);
	size_t port = port_of(svc->service, was);
	size_t at = plan_sums_at(svc->service, port, was->fam);
	struct selection_sums sums = svc->track->sums[at];
	bool preserves = p->model->config.preserves_local_source;
	struct plan_pool *to = vec_push(&patch->rows->pools);
	FINI(selection_fini) struct selection gone;
	FINI(selection_fini) struct selection come;
	AUTO(vec_fini) struct backends leave = { 0 };
	AUTO(vec_fini) struct backends enter = { 0 };

	*to = (struct plan_pool){ 0 };
	if (!select_changes(&gone, &come, &sums, p->model, svc, port, was->fam))
		return false;
	p->n_selected += gone.endpoints.n + come.endpoints.n;
	patch->cost += (gone.endpoints.n + come.endpoints.n) * work;
	if (patch->cost > p->piece_work)
		return false;
	svc->track->next[at] = sums;
	backends_of(&leave, &gone, was->scope, preserves);
	backends_of(&enter, &come, was->scope, preserves);
	plan_pool_copy(to, was, was->backends.n + enter.v.n);
	return pool_patch(to, &leave, &enter);
}

/* Are the programmed rows those of `svc` but for tracked changes? */
static bool is_followed(const struct plan *p, const struct svc *svc)
{
	return svc->track != NULL && svc->track->is_on && svc->is_claimed && svc->rows != NULL &&
	       plan_is_patchable(p, svc->service);
}

struct plan_rows *plan_rows_patch(struct plan *p, struct svc *svc)
{
	struct patch patch = { .p = p };
	const struct plan_rows *was = svc->rows;
	bool is_patched = true;
	struct plan_rows *rows;

	/* All frontends that the service claims: settling the rows may drop some. */
	if (!is_followed(p, svc) || was->frontends.n != plan_claims_count(svc))
		return NULL;
	rows = patch.rows = xcalloc(1, sizeof(*rows));
	rows->svc = svc;
	rows->is_of_host = was->is_of_host;
	for (size_t i = 0; i < was->pools.n && is_patched; i++)
		is_patched = pool_follow(&patch, &was->pools.v[i]);
	if (!is_patched) {
		plan_rows_close(rows);
		svc_track_end(svc);
		return NULL;
	}
	vec_append(&rows->frontends, &was->frontends);
	plan_claims_follow(p, svc, rows);
	return rows;
}
