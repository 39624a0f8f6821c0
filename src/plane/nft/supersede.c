/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/supersede - old tables while the sweep is pending.
 *
 * A replaced table stays for orphaned frontends. Its elements of all other frontends are deleted.
 * Otherwise it would translate packets to frontends that the table in force has lost, and
 * masquerade connections that the table in force does not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plane/nft/state.h"

/* Sets of an old table by which it translates, masquerades and rejects; frontends first. */
static const enum nft_set_id superseded[] = { NFTSET_FRONTENDS, NFTSET_MASQ_FRONTENDS,
					      NFTSET_MASQ_HOSTS, NFTSET_VIPS, NFTSET_CLUSTER_IPS };
/* Elements of one transaction. */
#define SUPERSEDE_MAX ((size_t)2048)

struct old_table {
	const struct nft_layout *l;
	struct nft_table_ref ref;
	struct nft_loaded *elems; /* of the set that was read last */
	enum nft_set_id set;
	VEC(struct nft_lookup) orphans; /* frontends that the table in force lacks, sorted */
};

static void old_elem(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct old_table *t = arg;

	plane_loaded_put(&t->elems->elems, t->ref.fam, t->set, key, data, false);
}

/* Is it the address of an orphan? */
static bool is_orphaned(const struct old_table *t, const uint8_t *addr, size_t len)
{
	size_t i = bisect(t->orphans.n, k, memcmp(t->orphans.v[k].key, addr, len) < 0);

	return i < t->orphans.n && memcmp(t->orphans.v[i].key, addr, len) == 0;
}

/* The keys of a set, and whether the table in force has their frontends; of addresses, all. */
static int keys_read(struct old_table *t, struct nft_lookup **ret, size_t *n, struct err *err)
{
	const struct nft_table_ref in_force = { t->l->table, t->l->fam };
	AUTO(free) uint8_t *keys = NULL;
	size_t len = nft_key_len(t->set, t->ref.fam);
	struct nft_walk walk = { 0 };
	int r;

	do
		r = plane_loaded_dump_step(&t->elems->elems, &walk, t->l->nl, &t->ref, t->set,
					   old_elem, t, err);
	while (r > 0);
	if (r < 0 && r != -ENOENT) /* another layout may lack the set */
		return r;
	t->elems->elems.is_fresh[t->ref.fam] = false;
	keys = plane_loaded_undesired(&t->elems->elems, t->ref.fam, t->set, SIZE_MAX, n);
	*ret = xcalloc(*n + 1, sizeof(**ret));
	for (size_t i = 0; i < *n; i++)
		memcpy((*ret)[i].key, keys + i * len, len);
	if (t->set == NFTSET_VIPS || t->set == NFTSET_CLUSTER_IPS) {
		for (size_t i = 0; i < *n; i++)
			(*ret)[i].is_found = !is_orphaned(t, (*ret)[i].key, len);
		return 0;
	}
	return nft_elems_get(t->l->nl, &in_force, NFTSET_FRONTENDS, *ret, *n, err);
}

static int keys_delete(struct old_table *t, const struct nft_lookup *keys, size_t n,
		       struct plane_result *res, struct err *err)
{
	AUTO(nl_batch_close) struct nl_batch *batch = NULL;
	int r = 0;

	nl_batch_open(&batch, t->l->nl);
	for (size_t i = 0; i < n && r == 0;) {
		struct nft_elem_writer w = { .batch = batch };

		w.tables[t->ref.fam] = t->ref;
		for (; i < n && w.n < SUPERSEDE_MAX; i++)
			if (keys[i].is_found)
				nft_elem_put(&w, NFT_WRITE_DEL, t->ref.fam, t->set, keys[i].key,
					     NULL, NULL);
		r = w.n > 0 ? nl_batch_commit(batch, err) : 0;
		nl_batch_reset(batch);
		res->done.n_batches += w.n > 0;
		res->done.n_writes += w.n;
	}
	return r;
}

static int table_supersede(struct old_table *t, struct plane_result *res, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(superseded) && r == 0; i++) {
		AUTO(free) struct nft_lookup *keys = NULL;
		size_t n;

		t->set = superseded[i];
		r = keys_read(t, &keys, &n, err);
		for (size_t k = 0; i == 0 && r == 0 && k < n; k++)
			if (!keys[k].is_found)
				*vec_push(&t->orphans) = keys[k];
		if (t->orphans.n == 0) /* the table is deleted */
			return r;
		if (r == 0)
			r = keys_delete(t, keys, n, res, err);
	}
	return r;
}

static int family_supersede(struct nft_layout *l, struct plane_result *res, struct err *err)
{
	size_t n_orphans = 0;
	size_t n_kept = 0;
	int r = 0;

	vec_for_each (old, &l->old) {
		struct old_table t = { .l = l, .ref = { old->name, l->fam } };

		if (r == 0) {
			nft_loaded_open(&t.elems);
			r = table_supersede(&t, res, err);
			nft_loaded_close(t.elems);
		}
		if (r == 0 && t.orphans.n == 0)
			r = nft_table_delete(l->nl, &nft_schema, old, &res->done, err);
		if (r < 0 || t.orphans.n > 0)
			l->old.v[n_kept++] = *old;
		n_orphans += t.orphans.n;
		vec_fini(&t.orphans);
	}
	l->old.n = (uint32_t)n_kept;
	if (r == 0)
		l->n_orphans = n_orphans;
	return r;
}

int nft_supersede(struct plane *plane, struct plane_result *res, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);

	for (int fam = 0; fam < IPFAM_N; fam++) {
		int r = plane->family[fam].is_failed ? 0
						     : family_supersede(p->layout[fam], res, err);

		/* Another process changed a table, or an answer is lost: the family is not at
		 * fault. */
		if (r == -ENOENT || r == -ENOBUFS || r == -EAGAIN)
			return -EBUSY;
		if (r < 0) {
			res->families = (uint8_t)(1u << fam);
			return r;
		}
	}
	return 0;
}

size_t nft_orphaned(const struct plane *plane)
{
	const struct nft_plane *p = (const struct nft_plane *)plane;
	size_t n = plane_orphaned(plane);

	for (int fam = 0; fam < IPFAM_N; fam++)
		if (!plane->family[fam].is_failed)
			n += p->layout[fam]->n_orphans;
	return n;
}

bool nft_is_orphaned(const struct plane *plane, const struct plan_frontend *f)
{
	const struct nft_plane *p = (const struct nft_plane *)plane;
	enum ipfam fam = ip_fam(&f->addr);
	struct nft_lookup of = { 0 };
	struct err err = { 0 };

	if (plane->family[fam].is_failed)
		return false;
	if (plane_is_orphaned(plane, f))
		return true;
	nft_key_tuple(of.key, &f->addr, f->proto, f->port);
	vec_for_each (old, &p->layout[fam]->old) {
		const struct nft_table_ref table = { old->name, fam };

		if (nft_elems_get(p->common.query, &table, NFTSET_FRONTENDS, &of, 1, &err) == 0 &&
		    of.is_found)
			return true;
	}
	return false;
}
