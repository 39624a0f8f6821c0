/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/counters - query counters of many elements by key.
 *
 *      init -> (begin, add ..., read, result ...)* -> fini
 *
 *  One set at a time. A key's object is an index of the caller.
 */
#pragma once

#include "nft/elem.h"
#include "plane/plane.h"

struct plane_counters_query {
	struct nft_table_ref table;
	enum nft_set_id set;
	uint8_t *keys;
	size_t *of; /* object of key i */
	size_t n;
	uint8_t *data; /* nft_data_len() bytes each */
	uint8_t *found;
	uint64_t *packets;
};

/* At most `max` keys a set. */
void plane_counters_init(struct plane_counters_query *a, size_t max);
void plane_counters_fini(struct plane_counters_query *a);
void plane_counters_begin(struct plane_counters_query *a, const struct nft_table_ref *table,
			  enum nft_set_id set);
void plane_counters_add(struct plane_counters_query *a, const uint8_t *key, size_t of);
/* Read the counters of all keys. Errors as nft_elems_count(). */
MUST_USE int plane_counters_read(struct plane_counters_query *a, struct nl_sock *nl,
				 struct err *err);
/* Counter of key i. */
struct plane_count plane_counters_result(const struct plane_counters_query *a, size_t i);

/* Read the counters of frontends in `v` that have the table's family into `ret`. */
MUST_USE int plane_counters_frontends(struct plane_counters_query *a, struct nl_sock *nl,
				      const struct plan_frontend *v, size_t n,
				      struct plane_count *ret, struct err *err);
