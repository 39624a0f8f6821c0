/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/count - counters of rules and elements of vipd's table, read by key.
 *
 *  IPVS's own counters change only while its estimator runs, and that is off (sysctl.c). vipd's are
 *  elements: of `counted` and `refused` while the frontend exists, of `reached` while the backend
 * is in its pool.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nft/decode.h"
#include "plane/counters.h"
#include "plane/ipvs/state.h"

static int is_in_force(const struct ipvs_plane *p, struct err *err)
{
	return p->load.loaded == NULL && ipvs_layout_state(p->layout) == IPVS_LAYOUT_PRESENT
		       ? 0
		       : err_set(err, -EAGAIN, "no layout in force");
}

int ipvs_drops(const struct plane *plane, struct plane_drops *ret, struct err *err)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	struct plane_drops drops = { 0 };
	int r = is_in_force(p, err);

	if (r == 0)
		r = ipvs_layout_drops(p->layout, &drops, err);
	if (r == 0)
		*ret = drops;
	return r;
}

/* A query for counters of frontends or of slots. */
struct count_query {
	const struct plan_frontend *frontends; /* NULL: slots */
	const struct plane_slot *slots;
	size_t n;
	struct plane_count *ret;
};

/* Mark of a pool by its id. */
static uint32_t pool_mark(const struct ipvs_plane *p, enum ipfam fam, uint32_t id)
{
	uint32_t local = ipvs_mark_pool(&p->marks, id, PLAN_SCOPE_LOCAL);
	struct ipvs_key key = ipvs_key_mark(fam, local);
	const struct ipvs_vs *vs = ipvs_vs_find(p, &key);

	return vs != NULL && vs->is_desired ? local
					    : ipvs_mark_pool(&p->marks, id, PLAN_SCOPE_CLUSTER);
}

static int slots_read(const struct ipvs_plane *p, struct plane_counters_query *a,
		      const struct count_query *q, struct err *err)
{
	const struct plane_slot *v = q->slots;
	enum ipfam fam = a->table.fam;
	int r;

	assert(q->n == 0 || v != NULL);
	for (size_t i = 0; i < q->n; i++) {
		uint8_t key[NFT_KEY_MAX];

		if (ip_fam(&v[i].addr) != fam)
			continue;
		nft_key_reached(key, pool_mark(p, fam, v[i].pool_id), &v[i].addr, v[i].port);
		plane_counters_add(a, key, i);
	}
	r = plane_counters_read(a, p->common.query, err);
	for (size_t i = 0; i < a->n && r == 0; i++)
		q->ret[a->of[i]] = plane_counters_result(a, i);
	return r;
}

static int counters_read(const struct ipvs_plane *p, enum nft_set_id set,
			 const struct count_query *q, struct err *err)
{
	struct plane_counters_query a;
	int r;

	memset(q->ret, 0, q->n * sizeof(*q->ret));
	if (!nft_set_exists(set, p->config.counting) || q->n == 0)
		return 0;
	r = is_in_force(p, err);
	if (r < 0)
		return r;
	plane_counters_init(&a, q->n);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		struct nft_table_ref table = ipvs_table(fam);

		plane_counters_begin(&a, &table, set);
		r = q->frontends != NULL ? plane_counters_frontends(&a, p->common.query,
								    q->frontends, q->n, q->ret, err)
					 : slots_read(p, &a, q, err);
	}
	plane_counters_fini(&a);
	return r;
}

int ipvs_count_frontends(const struct plane *plane, enum plane_frontend_counter which,
			 const struct plan_frontend *v, size_t n, struct plane_count *ret,
			 struct err *err)
{
	return counters_read((const struct ipvs_plane *)plane,
			     which == PLANE_FRONTEND_CONNECTIONS ? IPVSSET_COUNTED
								 : IPVSSET_REFUSED,
			     &(struct count_query){ .frontends = v, .n = n, .ret = ret }, err);
}

int ipvs_count_slots(const struct plane *plane, const struct plane_slot *v, size_t n,
		     struct plane_count *ret, struct err *err)
{
	return counters_read((const struct ipvs_plane *)plane, IPVSSET_REACHED,
			     &(struct count_query){ .slots = v, .n = n, .ret = ret }, err);
}
