/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/count - what the kernel has counted, asked for by key.
 *
 * Elements of frontends that stay are never written again, so their counters go on for
 * as long as the frontend is there. A slot is written again when another backend comes to
 * stand in it, and then counts from 0. Where a look-up answers with another backend than
 * was asked for, nothing is known of the one that was.
 */
#include "plane/nft/state.h"

#include <errno.h>
#include <string.h>

#include "plane/nft/decode.h"

static bool is_in_force(const struct nft_plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (nft_layout_state(p->layout[fam]) != NFT_LAYOUT_HELD)
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
		int r = nft_layout_drops(p->layout[fam], &drops, err);

		if (r < 0)
			return r;
	}
	*ret = drops;
	return 0;
}

/* Keys of one set, and what the kernel answers. */
struct asking {
	enum ipfam fam;
	enum nft_set_id set;
	uint8_t *keys;
	size_t *of; /* key i is of object of[i] */
	size_t n;
	uint8_t *data;
	uint8_t *found;
	uint64_t *packets;
};

static void asking_init(struct asking *a, size_t max)
{
	*a = (struct asking){ .keys = xreallocarray(NULL, max, NFT_KEY_MAX),
			      .of = xreallocarray(NULL, max, sizeof(size_t)),
			      .data = xreallocarray(NULL, max, NFT_DATA_MAX),
			      .found = xreallocarray(NULL, max, 1),
			      .packets = xreallocarray(NULL, max, sizeof(uint64_t)) };
}

static void asking_begin(struct asking *a, enum ipfam fam, enum nft_set_id set)
{
	a->fam = fam;
	a->set = set;
	a->n = 0;
}

static void asking_fini(struct asking *a)
{
	free(a->keys);
	free(a->of);
	free(a->data);
	free(a->found);
	free(a->packets);
}

static void ask(struct asking *a, const uint8_t *key, size_t of)
{
	size_t len = nft_key_len(a->set, a->fam);

	memcpy(a->keys + a->n * len, key, len);
	a->of[a->n++] = of;
}

static int answer(const struct nft_plane *p, struct asking *a, struct err *err)
{
	struct nft_table_ref table = nft_plane_table(p, a->fam);

	return a->n == 0 ? 0
			 : nft_elems_count(p->query, &table, a->set, a->keys, a->n, a->data,
					   a->found, a->packets, err);
}

static void counted(struct plane_count *ret, const struct asking *a, size_t i)
{
	ret->is_known = a->found[i] != 0;
	ret->packets = ret->is_known ? a->packets[i] : 0;
}

static int frontends_ask(const struct nft_plane *p, struct asking *a, const struct plan_frontend *v,
			 size_t n, struct plane_count *ret, struct err *err)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		uint8_t key[NFT_KEY_MAX];

		nft_key_tuple(key, &v[i].addr, v[i].proto, v[i].port);
		if (ip_fam(&v[i].addr) == a->fam)
			ask(a, key, i);
	}
	r = answer(p, a, err);
	for (size_t i = 0; i < a->n && r == 0; i++)
		counted(&ret[a->of[i]], a, i);
	return r;
}

int nft_count_frontends(const struct plane *plane, enum plane_frontend_counter which,
			const struct plan_frontend *v, size_t n, struct plane_count *ret,
			struct err *err)
{
	enum nft_set_id set = which == PLANE_FRONTEND_ASKED ? NFTSET_COUNTED : NFTSET_REFUSED;
	const struct nft_plane *p = (const struct nft_plane *)plane;
	struct asking a;
	int r = 0;

	memset(ret, 0, n * sizeof(*ret));
	if (p->counting < PLANE_COUNT_SERVICES || n == 0)
		return 0;
	if (!is_in_force(p))
		return err_set(err, -EAGAIN, "no layout in force");
	asking_init(&a, n);
	for (int fam = 0; fam < IPFAM_N && r == 0; fam++) {
		asking_begin(&a, fam, set);
		r = frontends_ask(p, &a, v, n, ret, err);
	}
	asking_fini(&a);
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

static int slots_ask(const struct nft_plane *p, struct asking *a, const struct plane_slot *v,
		     size_t n, struct plane_count *ret, struct err *err)
{
	size_t len = nft_data_len(a->set, a->fam);
	uint8_t buf[NFT_DATA_MAX];
	int r;

	for (size_t i = 0; i < n; i++) {
		uint8_t key[NFT_KEY_MAX];

		if (ip_fam(&v[i].addr) == a->fam && slot_key(key, &v[i]) == a->set)
			ask(a, key, i);
	}
	r = answer(p, a, err);
	for (size_t i = 0; i < a->n && r == 0; i++) {
		nft_data_endpoint(buf, &v[a->of[i]].addr, v[a->of[i]].port);
		if (a->found[i] && memcmp(a->data + i * len, buf, len) == 0)
			counted(&ret[a->of[i]], a, i);
	}
	return r;
}

int nft_count_slots(const struct plane *plane, const struct plane_slot *v, size_t n,
		    struct plane_count *ret, struct err *err)
{
	static const enum nft_set_id sets[] = { NFTSET_ENDPOINTS, NFTSET_AFF_ENDPOINTS };
	const struct nft_plane *p = (const struct nft_plane *)plane;
	struct asking a;
	int r = 0;

	memset(ret, 0, n * sizeof(*ret));
	if (p->counting < PLANE_COUNT_ENDPOINTS || n == 0)
		return 0;
	if (!is_in_force(p))
		return err_set(err, -EAGAIN, "no layout in force");
	asking_init(&a, n);
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < ARRAY_SIZE(sets) && r == 0; i++) {
			asking_begin(&a, fam, sets[i]);
			r = slots_ask(p, &a, v, n, ret, err);
		}
	asking_fini(&a);
	return r;
}
