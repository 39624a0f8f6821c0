/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/asking - many objects' counters, asked for by key.
 *
 *     init -> (begin, put ..., answer, result ...)* -> fini
 *
 * One set at a time. The object of a key is its number in what the caller was asked.
 */
#pragma once

#include "nft/elem.h"
#include "plane/plane.h"

struct nft_asking {
	struct nft_table_ref table;
	enum nft_set_id set;
	uint8_t *keys;
	size_t *of; /* key i is of object of[i] */
	size_t n;
	uint8_t *data; /* nft_data_len() bytes each */
	uint8_t *found;
	uint64_t *packets;
};

/* No more than `max` keys a set. */
void nft_asking_init(struct nft_asking *a, size_t max);
void nft_asking_fini(struct nft_asking *a);
void nft_asking_begin(struct nft_asking *a, const struct nft_table_ref *table, enum nft_set_id set);
void nft_asking_put(struct nft_asking *a, const uint8_t *key, size_t of);
/* Read them all. Errors as nft_elems_count(). */
MUST_USE int nft_asking_answer(struct nft_asking *a, struct nl_sock *nl, struct err *err);
/* What key i has counted. */
struct plane_count nft_asking_result(const struct nft_asking *a, size_t i);

/* Ask for the frontends among `v` that are of the table's family, and fill in `ret`. */
MUST_USE int nft_asking_frontends(struct nft_asking *a, struct nl_sock *nl,
				  const struct plan_frontend *v, size_t n, struct plane_count *ret,
				  struct err *err);
