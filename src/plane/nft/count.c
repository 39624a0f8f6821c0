/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/count - read counters of elements by key.
 *
 * The element of a frontend is not rewritten while the frontend exists, so its counter continues. A
 * slot is rewritten when another backend takes it; its counter then restarts at 0. If the kernel
 * has another backend at the key, the counter is unknown.
 */
#include "plane/nft/state.h"

#include <errno.h>
#include <string.h>

#include "nft/decode.h"
#include "plane/counters.h"

/* Counters of a failed address family are not read. */
static bool is_read(const struct nft_plane *p, enum ipfam fam)
{
	return !p->common.plane.family[fam].is_failed;
}

static bool is_in_force(const struct nft_plane *p)
{
	if (p->load.loaded != NULL) /* the socket is in use */
		return false;
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (is_read(p, fam) && nft_layout_state(p->layout[fam]) != NFT_LAYOUT_PRESENT)
			return false;
	return true;
}

int nft_drops(const struct plane *plane, struct plane_drops *ret, struct err *err)
{
	const struct nft_plane *p = (const struct nft_plane *)plane;
	struct plane_drops drops = { 0 };

	if (!is_in_force(p))
		return err_set(err, -EAGAIN, "no layout in force");
	for (int fam = 0; fam < IPFAM_N; fam++) {
		int r = is_read(p, fam) ? nft_layout_drops(p->layout[fam], &drops, err) : 0;

		if (r < 0)
			return r;
	}
	*ret = drops;
	return 0;
}

int nft_count_frontends(const struct plane *plane, enum plane_frontend_counter which,
			const struct plan_frontend *v, size_t n, struct plane_count *ret,
			struct err *err)
{
	enum nft_set_id set = which == PLANE_FRONTEND_CONNECTIONS ? NFTSET_COUNTED : NFTSET_REFUSED;
	const struct nft_plane *p = (const struct nft_plane *)plane;
	struct plane_counters_query a;
	int r = 0;

	memset(ret, 0, n * sizeof(*ret));
	if (p->counting < PLANE_COUNT_SERVICES || n == 0)
		return 0;
	if (!is_in_force(p))
		return err_set(err, -EAGAIN, "no layout in force");
	plane_counters_init(&a, n);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		struct nft_table_ref table = nft_plane_table(p, fam);

		if (!is_read(p, fam))
			continue;
		plane_counters_begin(&a, &table, set);
		r = plane_counters_frontends(&a, p->common.query, v, n, ret, err);
	}
	plane_counters_fini(&a);
	return r;
}

/* With affinity every connection goes through the backend's local id, else through its slot. */
static enum nft_set_id slot_key(uint8_t key[static NFT_KEY_MAX], const struct plane_slot *s)
{
	if (s->aff_id == 0) {
		nft_key_slot(key, s->pool_id, s->slot);
		return NFTSET_ENDPOINTS;
	}
	nft_put_word(key, nft_word(s->pool_id, s->aff_id));
	return NFTSET_AFF_ENDPOINTS;
}

static int slots_ask(const struct nft_plane *p, struct plane_counters_query *a,
		     const struct plane_slot *v, size_t n, struct plane_count *ret, struct err *err)
{
	size_t len = nft_data_len(a->set, a->table.fam);
	uint8_t buf[NFT_DATA_MAX];
	int r;

	for (size_t i = 0; i < n; i++) {
		uint8_t key[NFT_KEY_MAX];

		if (ip_fam(&v[i].addr) == a->table.fam && slot_key(key, &v[i]) == a->set)
			plane_counters_add(a, key, i);
	}
	r = plane_counters_read(a, p->common.query, err);
	for (size_t i = 0; i < a->n && r == 0; i++) {
		nft_data_endpoint(buf, &v[a->of[i]].addr, v[a->of[i]].port);
		if (a->found[i] && memcmp(a->data + i * len, buf, len) == 0)
			ret[a->of[i]] = plane_counters_result(a, i);
	}
	return r;
}

int nft_count_slots(const struct plane *plane, const struct plane_slot *v, size_t n,
		    struct plane_count *ret, struct err *err)
{
	static const enum nft_set_id sets[] = { NFTSET_ENDPOINTS, NFTSET_AFF_ENDPOINTS };
	const struct nft_plane *p = (const struct nft_plane *)plane;
	struct plane_counters_query a;
	int r = 0;

	memset(ret, 0, n * sizeof(*ret));
	if (p->counting < PLANE_COUNT_ENDPOINTS || n == 0)
		return 0;
	if (!is_in_force(p))
		return err_set(err, -EAGAIN, "no layout in force");
	plane_counters_init(&a, n);
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < ARRAY_SIZE(sets) && is_read(p, fam) && r == 0; i++) {
			struct nft_table_ref table = nft_plane_table(p, fam);

			plane_counters_begin(&a, &table, sets[i]);
			r = slots_ask(p, &a, v, n, ret, err);
		}
	plane_counters_fini(&a);
	return r;
}
