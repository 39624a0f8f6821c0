/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/loaded - elements of the kernel, read for adoption, and the pools in their marks.
 *
 *  A pool is found by a frontend that leads to it. A frontend whose mark has no pool, because it
 *  rejects or is served by address and port, has a second element with the mark of its pool, in
 * `idle`.
 */
#include <stdlib.h>

#include "nft/decode.h"
#include "plane/ipvs/state.h"

#define READ_DATAGRAMS 10 /* a step of load(), about 4000 elements */

void ipvs_loaded_open(struct plane_loaded **ret)
{
	struct plane_loaded *l = xcalloc(1, sizeof(*l));

	for (enum nft_set_id set = IPVSSET_BEGIN; set < IPVSSET_REMEMBERED; set++)
		plane_loaded_cover(l, set);
	*ret = l;
}

void ipvs_loaded_close(struct plane_loaded *l)
{
	for (int fam = 0; l != NULL && fam < IPFAM_N; fam++)
		plane_loaded_forget(l, fam);
	free(l);
}

/* --- reading --- */

static void element_found(void *arg, const uint8_t *key, const uint8_t *data)
{
	const struct ipvs_plane *p = arg;

	plane_loaded_put(p->load.loaded, p->load.fam, p->load.set, key, data, false);
}

/* Read one datagram, or begin the next set. */
static int read_some(struct ipvs_plane *p, struct err *err)
{
	struct nft_table_ref table = ipvs_table(p->load.fam);
	int r = 0;

	/* Obsolete sets of counters are removed as a whole with the layout. */
	if (nft_set_exists(p->load.set, p->common.counting) &&
	    p->layout.fixed[p->load.fam].has_set[p->load.set])
		r = plane_loaded_dump_step(p->load.loaded, &p->load.walk, p->common.query, &table,
					   p->load.set, element_found, p, err);
	if (r != 0)
		return r;
	p->load.walk = (struct nft_walk){ 0 };
	if (++p->load.set < IPVSSET_REMEMBERED)
		return 1;
	plane_loaded_ranges_list(p->load.loaded, p->load.fam, IPVSSET_RANGES);
	p->load.set = IPVSSET_BEGIN;
	return ++p->load.fam < IPFAM_N;
}

int ipvs_loaded_read(struct ipvs_plane *p, struct err *err)
{
	int r = 1;

	for (int i = 0; i < READ_DATAGRAMS && r > 0; i++)
		r = read_some(p, err);
	return r;
}

/* --- adoption --- */

/* Maps whose data are marks of pools. */
static const enum nft_set_id pool_maps[] = { IPVSSET_FE, IPVSSET_FE_OUT, IPVSSET_FE_IN,
					     IPVSSET_IDLE };

/* An element with a mark, in a walk; zeroed memory is before the first one. */
struct marked {
	enum ipfam fam;
	size_t map; /* of pool_maps */
	struct nft_keymap_pos pos;
	struct ip_tuple frontend;
	uint32_t mark;
};

static bool marked_next(const struct plane_loaded *c, struct marked *m)
{
	for (; m->fam < IPFAM_N; m->fam++, m->map = 0)
		for (; m->map < ARRAY_SIZE(pool_maps); m->map++) {
			if (nft_keymap_next(&c->sets[m->fam][pool_maps[m->map]], &m->pos)) {
				nft_get_tuple(&m->frontend, m->fam, m->pos.key);
				m->mark = nft_get_word(m->pos.val);
				return true;
			}
			m->pos = (struct nft_keymap_pos){ 0 };
		}
	return false;
}

void ipvs_loaded_set_frontends(const struct plane_loaded *c, struct ipvs_plane *p)
{
	for (struct marked m = { 0 }; marked_next(c, &m);) {
		const struct ip_tuple *f = &m.frontend;
		struct ipvs_vs *vip = ipvs_vs_find(p, ipvs_key_vip(&f->addr, f->proto, f->port));
		bool is_by_vip = (m.mark & IPVS_MARK_ID) == 0;
		struct ipvs_vs *vs = is_by_vip ? vip : ipvs_vs_by_mark(p, m.fam, m.mark);

		if (vs == NULL)
			continue;
		vs->is_kept = false; /* vipd has added or adopted it */
		vs->proto = m.frontend.proto;
		/* Frontends that forward otherwise are external. */
		vs->is_of_cluster_ip |=
			ipvs_vs_forwarding(vip) == FORWARDING_MASQUERADE &&
			plane_loaded_is_cluster_ip(c, &ipvs_plane_sets, m.fam, m.pos.key);
	}
}

uint32_t ipvs_loaded_tag(const struct plane_loaded *c)
{
	struct marked first = { 0 };

	return marked_next(c, &first) ? first.mark & IPVS_MARK_MASK : 0;
}

bool ipvs_loaded_has_protocol(const struct plane_loaded *c, uint8_t proto)
{
	for (struct marked m = { 0 }; marked_next(c, &m);)
		if (m.frontend.proto == proto)
			return true;
	return false;
}

static void id_reserve(struct ipvs_plane *p, enum ipfam fam, uint32_t mark)
{
	uint32_t id = ipvs_mark_id(&p->routing.marks, mark);

	if (id != 0)
		plan_id_reserve(p->common.loaded->plan, fam, id);
}

static void ids_reserve(struct ipvs_plane *p, struct plan *plan)
{
	plan_ids_release(plan); /* of an interrupted load */
	p->common.loaded->plan = plan;
	for (struct marked m = { 0 }; marked_next(p->common.loaded, &m);)
		id_reserve(p, m.fam, m.mark);
	htable_for_each_entry (vs, &p->vss, const struct ipvs_vs)
		id_reserve(p, vs->key.fam, vs->key.mark);
}

/*
 * Does the cluster IP of another service lead to the pool? A frontend that moves between services
 * must not take this service's pool along.
 */
static bool is_of_other(const struct ipvs_plane *p, const struct service *s,
			const struct plan_frontend *f, uint32_t mark)
{
	const struct plane_loaded *c = p->common.loaded;
	enum ipfam fam = ip_fam(&f->addr);
	const struct ipvs_vs *vs = ipvs_vs_by_mark(p, fam, mark);
	uint8_t key[NFT_KEY_MAX];

	if (vs == NULL || !vs->is_of_cluster_ip)
		return false;
	nft_key_tuple(key, &s->cluster_ip[fam], f->proto, s->ports.v[f->port_index].port);
	if (!plane_loaded_is_cluster_ip(c, &ipvs_plane_sets, fam, key))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(pool_maps); i++) {
		const uint8_t *data = plane_loaded_find(c, fam, pool_maps[i], key);

		if (data != NULL && nft_get_word(data) == mark)
			return false;
	}
	return true;
}

/* Give a pool the id in the mark of this frontend's element, if the scope matches. */
static void adopt_from(const struct ipvs_plane *p, const struct plan_rows *rows,
		       const struct plan_frontend *f, enum nft_set_id set)
{
	enum ipfam fam = ip_fam(&f->addr);
	struct plan_pool *pool;
	const uint8_t *data;
	uint8_t key[NFT_KEY_MAX];
	uint32_t mark;
	uint32_t id;

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	data = plane_loaded_find(p->common.loaded, fam, set, key);
	mark = data != NULL ? nft_get_word(data) : 0;
	id = ipvs_mark_id(&p->routing.marks, mark);
	pool = plan_rows_pool_of(rows, f,
				 mark & IPVS_MARK_LOCAL ? PLAN_SCOPE_LOCAL : PLAN_SCOPE_CLUSTER);
	if (pool != NULL && pool->id == 0 && !is_of_other(p, rows->svc->service, f, mark) &&
	    plan_id_adopt(p->common.loaded->plan, rows, pool, id))
		pool->id = id;
	if (pool != NULL && id != 0 && pool->id == id)
		pool->n_found = UINT32_MAX; /* destinations have no order */
}

/* A pool in the kernel got its id: count the backends that the kernel lacks. */
static void lacking_count(struct ipvs_plane *p, const struct plan_pool *pool)
{
	struct ipvs_vs *vs = ipvs_vs_of_pool(p, pool);
	size_t next = 0;

	if (vs == NULL)
		return;
	vs->n_lacking = 0;
	vec_for_each (b, &pool->backends) { /* most follow each other in both */
		if (next >= vs->dests.n || ip_endpoint_cmp(&vs->dests.v[next], b) != 0)
			next = ipvs_dst_place(vs, b);
		if (next < vs->dests.n && ip_endpoint_cmp(&vs->dests.v[next], b) == 0)
			next++;
		else
			vs->n_lacking++;
	}
}

void ipvs_adopt(struct plane *plane, struct plan *plan, struct plan_rows *rows)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);

	if (p->common.loaded->plan == NULL)
		ids_reserve(p, plan);
	for (size_t i = 0; i < ARRAY_SIZE(pool_maps); i++)
		vec_for_each (f, &rows->frontends)
			adopt_from(p, rows, f, pool_maps[i]);
	vec_for_each (pool, &rows->pools)
		if (pool->id != 0)
			lacking_count(p, pool);
}
