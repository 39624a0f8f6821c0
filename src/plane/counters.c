/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/counters.h"

#include <string.h>

#include "nft/decode.h"

void plane_counters_init(struct plane_counters_query *a, size_t max)
{
	*a = (struct plane_counters_query){ .keys = xreallocarray(NULL, max, NFT_KEY_MAX),
					    .of = xreallocarray(NULL, max, sizeof(size_t)),
					    .data = xreallocarray(NULL, max, NFT_DATA_MAX),
					    .found = xreallocarray(NULL, max, 1),
					    .packets = xreallocarray(NULL, max, sizeof(uint64_t)) };
}

void plane_counters_fini(struct plane_counters_query *a)
{
	free(a->keys);
	free(a->of);
	free(a->data);
	free(a->found);
	free(a->packets);
}

void plane_counters_begin(struct plane_counters_query *a, const struct nft_table_ref *table,
			  enum nft_set_id set)
{
	a->table = *table;
	a->set = set;
	a->n = 0;
}

void plane_counters_add(struct plane_counters_query *a, const uint8_t *key, size_t of)
{
	size_t len = nft_key_len(a->set, a->table.fam);

	memcpy(a->keys + a->n * len, key, len);
	a->of[a->n++] = of;
}

int plane_counters_read(struct plane_counters_query *a, struct nl_sock *nl, struct err *err)
{
	return a->n == 0 ? 0
			 : nft_elems_count(nl, &a->table, a->set, a->keys, a->n, a->data, a->found,
					   a->packets, err);
}

struct plane_count plane_counters_result(const struct plane_counters_query *a, size_t i)
{
	return (struct plane_count){ .is_known = a->found[i] != 0,
				     .packets = a->found[i] != 0 ? a->packets[i] : 0 };
}

int plane_counters_frontends(struct plane_counters_query *a, struct nl_sock *nl,
			     const struct plan_frontend *v, size_t n, struct plane_count *ret,
			     struct err *err)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		uint8_t key[NFT_KEY_MAX];

		nft_key_tuple(key, &v[i].addr, v[i].proto, v[i].port);
		if (ip_fam(&v[i].addr) == a->table.fam)
			plane_counters_add(a, key, i);
	}
	r = plane_counters_read(a, nl, err);
	for (size_t i = 0; i < a->n && r == 0; i++)
		ret[a->of[i]] = plane_counters_result(a, i);
	return r;
}
