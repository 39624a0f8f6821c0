/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/count - what the rules of our table have counted, asked for by key.
 *
 * IPVS has counters of its own, which move only while its estimator runs, and that is off
 * (sysctl.c). Ours are elements: of `counted` and `refused` for as long as the frontend is
 * there, of `reached` for as long as the backend is in its pool.
 */
#include <errno.h>
#include <string.h>

#include "plane/ipvs/state.h"
#include "plane/nft/asking.h"
#include "plane/nft/decode.h"

static int is_in_force(const struct ipvs_plane *p, struct err *err)
{
	return ipvs_layout_state(p->layout) == IPVS_LAYOUT_HELD
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

int ipvs_count_frontends(const struct plane *plane, enum plane_frontend_counter which,
			 const struct plan_frontend *v, size_t n, struct plane_count *ret,
			 struct err *err)
{
	enum nft_set_id set = which == PLANE_FRONTEND_ASKED ? IPVSSET_COUNTED : IPVSSET_REFUSED;
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	struct nft_asking a;
	int r;

	memset(ret, 0, n * sizeof(*ret));
	if (p->config.counting < PLANE_COUNT_SERVICES || n == 0)
		return 0;
	r = is_in_force(p, err);
	if (r < 0)
		return r;
	nft_asking_init(&a, n);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		struct nft_table_ref table = ipvs_table(fam);

		nft_asking_begin(&a, &table, set);
		r = nft_asking_frontends(&a, p->query, v, n, ret, err);
	}
	nft_asking_fini(&a);
	return r;
}

/* The mark of a pool: who asks knows its number alone. */
static uint32_t pool_mark(const struct ipvs_plane *p, enum ipfam fam, uint32_t id)
{
	uint32_t local = ipvs_mark_pool(&p->marks, id, PLAN_SCOPE_LOCAL);
	struct ipvs_key key = ipvs_key_mark(fam, local);
	const struct ipvs_vs *vs = ipvs_vs_find(p, &key);

	return vs != NULL && vs->is_wanted ? local
					   : ipvs_mark_pool(&p->marks, id, PLAN_SCOPE_CLUSTER);
}

static int slots_ask(const struct ipvs_plane *p, struct nft_asking *a, const struct plane_slot *v,
		     size_t n, struct plane_count *ret, struct err *err)
{
	enum ipfam fam = a->table.fam;
	int r;

	for (size_t i = 0; i < n; i++) {
		uint8_t key[NFT_KEY_MAX];

		if (ip_fam(&v[i].addr) != fam)
			continue;
		nft_key_reached(key, pool_mark(p, fam, v[i].pool_id), &v[i].addr, v[i].port);
		nft_asking_put(a, key, i);
	}
	r = nft_asking_answer(a, p->query, err);
	for (size_t i = 0; i < a->n && r == 0; i++)
		ret[a->of[i]] = nft_asking_result(a, i);
	return r;
}

int ipvs_count_slots(const struct plane *plane, const struct plane_slot *v, size_t n,
		     struct plane_count *ret, struct err *err)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	struct nft_asking a;
	int r;

	memset(ret, 0, n * sizeof(*ret));
	if (p->config.counting < PLANE_COUNT_ENDPOINTS || n == 0)
		return 0;
	r = is_in_force(p, err);
	if (r < 0)
		return r;
	nft_asking_init(&a, n);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		struct nft_table_ref table = ipvs_table(fam);

		nft_asking_begin(&a, &table, IPVSSET_REACHED);
		r = slots_ask(p, &a, v, n, ret, err);
	}
	nft_asking_fini(&a);
	return r;
}
