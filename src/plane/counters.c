/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/counters - counters of rules and of elements, for both planes. */
#include <linux/netfilter.h>
#include <string.h>

#include "nft/decode.h"
#include "plane/common.h"

static int in_force(const struct plane_common *c, enum ipfam fam, struct err *err)
{
	int r = c->ops->is_in_force(c, fam);

	return r < 0 ? err_set(err, r, "no layout in force") : r;
}

/* --- rules --- */

int plane_rule_counts_read(struct nl_sock *nl, const struct nft_table_ref *table,
			   const struct plane_counting_chain *chains, struct plane_rule_counts *ret,
			   struct err *err)
{
	uint64_t bytes[PLANE_RULE_COUNTERS_N] = { 0 };
	struct plane_rule_counts is = { 0 };

	for (const struct plane_counting_chain *c = chains; c->name != NULL; c++) {
		uint64_t before = is.packets[c->counter];
		int r = nft_fixed_counters(nl, nft_table_family(table), table->name, c->name,
					   &is.packets[c->counter], &bytes[c->counter], err);

		if (r < 0)
			return r;
		if (c->leads_on)
			is.twice += is.packets[c->counter] - before;
	}
	is.invalid_bytes = bytes[PLANE_INVALID_DROPPED];
	*ret = is;
	return 0;
}

int plane_rule_counts(const struct plane *plane, enum ipfam fam, struct plane_rule_counts *ret,
		      struct err *err)
{
	const struct plane_common *c = (const struct plane_common *)plane;
	struct nft_table_ref table = c->ops->table(c, fam);
	int r = in_force(c, fam, err);

	if (r <= 0)
		return r < 0 ? r : err_set(err, -EAGAIN, "address family failed");
	if (fam == IPFAM_V6 && table.family == NFPROTO_INET) { /* counted as IPv4 */
		*ret = (struct plane_rule_counts){ 0 };
		return 0;
	}
	return plane_rule_counts_read(c->query, &table, c->ops->counting_chains, ret, err);
}

/* --- elements --- */

/* Elements of one set. */
struct query {
	const struct plane_common *c;
	enum plane_counter which;
	struct nft_table_ref table;
	enum nft_set_id set;
};

/*
 * Key of the object in the query's set, and data that the element has while it counts for the
 * object. False: it has no element there.
 */
static bool element(const struct query *q, const struct plane_counted *of, uint8_t *key,
		    uint8_t *data)
{
	if (ip_fam(&of->at.addr) != q->table.fam)
		return false;
	if (q->which == PLANE_COUNTER_BACKEND)
		return q->c->ops->slot_counter(q->c, q->set, of, key, data);
	nft_key_tuple(key, &of->at.addr, of->at.proto, of->at.port);
	return true;
}

static int set_read(const struct query *q, const struct plane_counted *v, size_t n,
		    struct plane_count *ret, struct err *err)
{
	AUTO(vec_fini) VEC(struct nft_lookup) keys = { 0 };
	size_t len = nft_data_len(q->set, q->table.fam);
	uint8_t data[NFT_DATA_MAX] = { 0 };
	const struct nft_lookup *k;
	uint8_t key[NFT_KEY_MAX];
	int r;

	for (size_t i = 0; i < n; i++)
		if (element(q, &v[i], key, data))
			memcpy(vec_push(&keys)->key, key, sizeof(key));
	r = nft_elems_get(q->c->query, &q->table, q->set, keys.v, keys.n, err);
	k = keys.v;
	for (size_t i = 0; i < n && r == 0; i++) {
		if (!element(q, &v[i], key, data))
			continue;
		if (k->is_found && memcmp(k->data, data, len) == 0)
			ret[i] = (struct plane_count){ .is_known = true, .packets = k->packets };
		k++;
	}
	return r;
}

int plane_count(const struct plane *plane, enum plane_counter which, const struct plane_counted *v,
		size_t n, struct plane_count *ret, struct err *err)
{
	const struct plane_common *c = (const struct plane_common *)plane;
	enum plane_counting since = PLANE_COUNT_SERVICES;
	const enum nft_set_id *sets = &c->ops->sets->counted;
	struct query q = { .c = c, .which = which };
	size_t n_sets = 1;
	int r = 0;

	if (which == PLANE_COUNTER_REJECTED) {
		sets = &c->ops->sets->rejected;
	} else if (which == PLANE_COUNTER_BACKEND) {
		since = PLANE_COUNT_ENDPOINTS;
		sets = c->ops->slot_counters;
		n_sets = c->ops->n_slot_counters;
	}
	memset(ret, 0, n * sizeof(*ret));
	if (c->counting < since || n == 0)
		return 0;
	for (int fam = 0; fam < IPFAM_N && r >= 0; fam++) {
		r = in_force(c, fam, err);
		if (r <= 0)
			continue;
		q.table = c->ops->table(c, fam);
		for (size_t i = 0; i < n_sets && r >= 0; i++) {
			q.set = sets[i];
			r = set_read(&q, v, n, ret, err);
		}
	}
	return MIN(r, 0);
}
