/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/moves - the next SYN of a handshake goes to another backend.
 *
 * A move claims a flow, reads it, deletes it, and ends the claim. While a flow is claimed, answers
 * of its backend are dropped: the client has received no answer when the caller deletes the flow,
 * and a backend repeats an answer that was dropped. Tables: plane/failover.h.
 */
#include "plane/nft/state.h"

#include <errno.h>
#include <string.h>

#include "nft/decode.h"
#include "nft/elem.h"
#include "plane/failover.h"

#define END_ATTEMPTS 3

bool nft_is_backend(struct plane *plane, const struct ip_addr *addr, uint16_t port)
{
	struct nft_plane *p = nft_plane_of(plane);
	uint8_t key[NFT_DATA_MAX];

	nft_data_endpoint(key, addr, port);
	return nft_refs_is_known(nft_endpoint_addrs(p, ip_fam(addr)), key);
}

static void flow_key(uint8_t key[static NFT_KEY_MAX], const struct ip_flow *f)
{
	nft_data_endpoint(key, &f->from.addr, f->from.port);
	key += nft_data_len(FAILSET_MOVES, ip_fam(&f->to.addr));
	nft_data_endpoint(key, &f->to.addr, f->to.port);
}

static enum nft_set_id moves_of(enum l4proto proto)
{
	return proto == L4PROTO_UDP ? FAILSET_UDP_MOVES : FAILSET_MOVES;
}

static enum nft_set_id claimed_of(enum l4proto proto)
{
	return proto == L4PROTO_UDP ? FAILSET_UDP_CLAIMED : FAILSET_CLAIMED;
}

/*
 * Delete the elements of flows in the sets `set_of`, if they exist: deleting one that has expired
 * would abort the transaction, which takes milliseconds. `is_void`: of void moves only.
 */
static int found_delete(struct nft_plane *p, struct nft_elem_writer *w,
			enum nft_set_id (*set_of)(enum l4proto proto), bool is_void, enum ipfam fam,
			enum l4proto proto, const struct plane_move *v, size_t n, struct err *err)
{
	struct nft_table_ref table = plane_failover_table(&p->common, fam);
	AUTO(vec_fini) VEC(struct nft_lookup) keys = { 0 };
	int r;

	for (size_t i = 0; i < n; i++)
		if (ip_fam(&v[i].of.to.addr) == fam && v[i].of.proto == proto &&
		    (v[i].is_void || !is_void))
			flow_key(vec_push(&keys)->key, &v[i].of);
	r = nft_elems_get(p->common.query, &table, set_of(proto), keys.v, keys.n, err);
	vec_for_each (k, &keys)
		if (r == 0 && k->is_found)
			nft_elem_put(w, NFT_WRITE_DEL, fam, set_of(proto), k->key, NULL, NULL);
	return r;
}

/* found_delete() of both families and protocols. */
static int all_delete(struct nft_plane *p, struct nft_elem_writer *w,
		      enum nft_set_id (*set_of)(enum l4proto proto), bool is_void,
		      const struct plane_move *v, size_t n, struct err *err)
{
	int r = 0;

	for (enum ipfam fam = 0; fam < IPFAM_N && r == 0; fam++) {
		r = found_delete(p, w, set_of, is_void, fam, L4PROTO_TCP, v, n, err);
		if (r == 0)
			r = found_delete(p, w, set_of, is_void, fam, L4PROTO_UDP, v, n, err);
	}
	return r;
}

/* The client's affinity entry for pool `id` leads to the new backend instead of the silent one. */
static int affinity_move(struct nft_plane *p, const struct plane_move *m, uint32_t id,
			 struct err *err)
{
	const uint64_t ms = UINT64_C(1000) * nft_class_affinity(m->pool->class);
	struct nft_affinity_entry e = { .left_ms = ms, .timeout_ms = ms };
	enum ipfam fam = ip_fam(&m->of.from.addr);
	struct nft_table_ref table = nft_plane_table(p, fam);
	struct nft_lookup k;
	int r;

	nft_put_word(k.key, nft_word(id, 0));
	memcpy(k.key + 4, m->of.from.addr.bytes, ip_len(fam));
	r = nft_elems_get(p->common.query, &table, NFTSET_AFFINITY, &k, 1, err);
	if (r < 0 || !k.is_found || nft_word_kind(nft_get_word(k.data)) != m->from.aff_id)
		return r;
	memcpy(e.key, k.key, sizeof(e.key));
	nft_put_word(e.data, nft_word(id, m->to.aff_id));
	r = nft_affinity_replace(p, fam, &e, 1, err);
	return r == -ENOENT ? 0 : r; /* the packet path has deleted it */
}

/* Entries of the pool's peer also lead to this pool's backends (SVC-32). */
static int affinity_follow(struct nft_plane *p, const struct plane_move *v, size_t n,
			   struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (v[i].is_void || v[i].pool->affinity_s == 0 || v[i].from.aff_id == 0)
			continue;
		r = affinity_move(p, &v[i], v[i].pool->id, err);
		if (r == 0)
			r = affinity_move(p, &v[i], v[i].pool->id ^ PLAN_POOL_LOCAL, err);
	}
	return r;
}

int nft_move_begin(struct plane *plane, const struct plane_move *v, size_t n, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	struct nft_elem_writer w;
	int r;

	plane_failover_begin(&p->common, &w);
	/* Those of an earlier move: an element cannot be overwritten. */
	r = all_delete(p, &w, moves_of, false, v, n, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		enum ipfam fam = ip_fam(&v[i].of.to.addr);
		uint8_t key[NFT_KEY_MAX], data[NFT_DATA_MAX];

		flow_key(key, &v[i].of);
		nft_data_endpoint(data, &v[i].to.addr, v[i].to.port);
		w.timeout_ms = w.left_ms = UINT64_C(1000) * v[i].life_s;
		nft_elem_put(&w, NFT_WRITE_ADD, fam, moves_of(v[i].of.proto), key, data, NULL);
		w.timeout_ms = 0; /* that of the set */
		nft_elem_put(&w, NFT_WRITE_ADD, fam, claimed_of(v[i].of.proto), key, NULL, NULL);
	}
	if (r == 0)
		r = plane_batch_commit(&p->common, err);
	return r == -ENOENT ? -EAGAIN : r; /* an element of an earlier move expired meanwhile */
}

/* -ENOENT: an element has expired since it was found. */
static int claims_end(struct nft_plane *p, const struct plane_move *v, size_t n, struct err *err)
{
	struct nft_elem_writer w;
	int r;

	plane_failover_begin(&p->common, &w);
	r = all_delete(p, &w, claimed_of, false, v, n, err);
	if (r == 0)
		r = all_delete(p, &w, moves_of, true, v, n, err);
	return r == 0 ? plane_batch_commit(&p->common, err) : r;
}

int nft_move_end(struct plane *plane, const struct plane_move *v, size_t n, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	int r = claims_end(p, v, n, err);

	for (int i = 1; i < END_ATTEMPTS && r == -ENOENT; i++)
		r = claims_end(p, v, n, err);
	if (r == -ENOTRECOVERABLE) /* without the table there are no claims; it is made again */
		return 0;
	if (r == -ENOENT)
		return -EAGAIN;
	return r == 0 ? affinity_follow(p, v, n, err) : r;
}
