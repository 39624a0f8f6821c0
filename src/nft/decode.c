/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/decode - bytes of elements. Parts of a concatenation are padded to 4 bytes. */
#include "nft/decode.h"

#include <string.h>

static uint8_t *put_addr(uint8_t *p, const struct ip_addr *addr)
{
	size_t len = ip_len(ip_fam(addr));

	memcpy(p, addr->bytes, len);
	return p + len;
}

static uint8_t *put_port(uint8_t *p, uint16_t port)
{
	p[0] = (uint8_t)(port >> 8);
	p[1] = (uint8_t)port;
	p[2] = p[3] = 0;
	return p + 4;
}

void nft_put_word(uint8_t *bytes, uint32_t word)
{
	memcpy(bytes, &word, sizeof(word));
}

uint32_t nft_get_word(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

void nft_key_tuple(uint8_t key[static NFT_KEY_MAX], const struct ip_addr *addr, uint8_t proto,
		   uint16_t port)
{
	uint8_t *p = put_addr(key, addr);

	p[0] = proto;
	p[1] = p[2] = p[3] = 0;
	put_port(p + 4, port);
}

void nft_key_slot(uint8_t key[static NFT_KEY_MAX], uint32_t pool_id, uint32_t slot)
{
	nft_put_word(key, nft_word(pool_id, 0));
	nft_put_word(key + 4, slot);
}

void nft_key_endpoint(uint8_t key[static NFT_KEY_MAX], const struct ip_addr *addr, uint16_t port)
{
	nft_data_endpoint(key, addr, port);
	nft_key_endpoint_from(key, ip_fam(addr), key);
}

void nft_key_endpoint_from(uint8_t key[static NFT_KEY_MAX], enum ipfam fam, const uint8_t *data)
{
	size_t len = ip_len(fam);

	memmove(key, data, len + 4);
	memcpy(key + len + 4, key, len);
}

void nft_key_addr_pair(uint8_t key[static NFT_KEY_MAX], const struct ip_addr *addr)
{
	put_addr(put_addr(key, addr), addr);
}

/*
 * In a word the length has the place of the kind; in a mark that of the tag, which is the same in
 * all marks: bits 25 to 30.
 */
#define MARK_LEN_SHIFT 23
#define MARK_MASK UINT32_C(0x01ffffff)

uint32_t nft_range_mask(enum nft_set_id set)
{
	return set == IPVSSET_RANGES ? MARK_MASK : NFT_POOL_MASK;
}

uint32_t nft_range_bits(enum nft_set_id set, unsigned int len)
{
	return set == IPVSSET_RANGES ? (uint32_t)len << MARK_LEN_SHIFT : len;
}

void nft_key_range(uint8_t key[static NFT_KEY_MAX], enum nft_set_id set, uint32_t word,
		   const struct ip_prefix *range)
{
	nft_put_word(key, (word & nft_range_mask(set)) | nft_range_bits(set, range->len));
	put_addr(key + 4, &range->addr);
}

void nft_data_endpoint(uint8_t data[static NFT_DATA_MAX], const struct ip_addr *addr, uint16_t port)
{
	put_port(put_addr(data, addr), port);
}

void nft_key_reached(uint8_t key[static NFT_KEY_MAX], uint32_t mark, const struct ip_addr *addr,
		     uint16_t port)
{
	nft_put_word(key, mark);
	put_port(put_addr(key + 4, addr), port);
}

static struct ip_addr get_addr(enum ipfam fam, const uint8_t *p)
{
	return ip_addr_from_bytes(ip_family(fam), p);
}

static uint16_t get_port(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

void nft_get_tuple(struct ip_tuple *ret, enum ipfam fam, const uint8_t *key)
{
	size_t len = ip_len(fam);

	*ret = (struct ip_tuple){ get_addr(fam, key), get_port(key + len + 4), key[len], 0 };
}

void nft_get_endpoint(struct ip_endpoint *ret, enum ipfam fam, const uint8_t *data)
{
	*ret = (struct ip_endpoint){ get_addr(fam, data), get_port(data + ip_len(fam)), 0 };
}

void nft_get_range(struct ip_prefix *ret, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	uint32_t bits = nft_get_word(key) & ~nft_range_mask(set);

	*ret = (struct ip_prefix){ .addr = get_addr(fam, key + 4),
				   .len = (uint8_t)(set == IPVSSET_RANGES ? bits >> MARK_LEN_SHIFT
									  : bits) };
}

/* --- text --- */

static void text_word(struct str *out, const uint8_t *data)
{
	uint32_t word = nft_get_word(data);
	char buf[NFT_CHAIN_NAME_MAX];
	const char *chain = nft_kind_chain(nft_word_kind(word), buf);

	str_printf(out, "pool %u ", nft_word_pool(word));
	if (chain != NULL)
		str_puts(out, chain);
	else
		str_printf(out, "kind 0x%x", nft_word_kind(word));
}

static void text_endpoint(struct str *out, enum ipfam fam, const uint8_t *data)
{
	struct ip_endpoint b;

	nft_get_endpoint(&b, fam, data);
	str_puts(out, ip_endpoint_str(&b.addr, b.port));
}

void nft_tuple_text(struct str *out, enum ipfam fam, const uint8_t *key)
{
	struct ip_tuple t;

	nft_get_tuple(&t, fam, key);
	str_printf(out, "%s/%s", ip_endpoint_str(&t.addr, t.port), l4proto_text(t.proto));
}

static void text_range(struct str *out, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	struct ip_prefix p;

	nft_get_range(&p, fam, set, key);
	str_printf(out, " from %s", ip_prefix_str(&p));
}

static void text_key(struct str *out, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	uint32_t word = nft_get_word(key);
	struct ip_addr addr;

	if (nft_set_is_by_tuple(set)) {
		nft_tuple_text(out, fam, key);
		return;
	}
	switch ((int)set) {
	case NFTSET_ENDPOINTS:
	case NFTSET_AFF_SLOTS:
		str_printf(out, "pool %u slot %u", nft_word_pool(word), nft_get_word(key + 4));
		break;
	case NFTSET_AFF_ENDPOINTS:
		str_printf(out, "pool %u id %u", nft_word_pool(word), nft_word_kind(word));
		break;
	case NFTSET_ENDPOINT_ADDRS:
		text_endpoint(out, fam, key);
		break;
	case NFTSET_FW_RANGES:
		str_printf(out, "pool %u", nft_word_pool(word));
		text_range(out, fam, set, key);
		break;
	case IPVSSET_RANGES:
		str_printf(out, "mark 0x%x", word & nft_range_mask(set));
		text_range(out, fam, set, key);
		break;
	case IPVSSET_REACHED:
		str_printf(out, "mark 0x%x ", word);
		text_endpoint(out, fam, key + 4);
		break;
	default:
		if (!nft_set_begins_with_addr(set)) {
			str_printf(out, "0x%x", word);
			break;
		}
		addr = get_addr(fam, key);
		str_puts(out, ip_addr_str(&addr));
	}
}

void nft_elem_text(struct str *out, enum ipfam fam, enum nft_set_id set, const uint8_t *key,
		   const uint8_t *data)
{
	text_key(out, fam, set, key);
	if (data == NULL || set == IPVSSET_REMEMBERED) /* the values of that set are no marks */
		return;
	str_puts(out, " -> ");
	if (set >= IPVSSET_BEGIN)
		str_printf(out, "mark 0x%x", nft_get_word(data));
	else if (set == NFTSET_ENDPOINTS || set == NFTSET_AFF_ENDPOINTS)
		text_endpoint(out, fam, data);
	else if (set == NFTSET_AFF_SLOTS)
		str_printf(out, "id %u", nft_word_kind(nft_get_word(data)));
	else
		text_word(out, data);
}

/* --- frontends --- */

struct text {
	struct str *out;
	const struct nft_source *src;
	enum ipfam fam;
};

static const uint8_t *find(const struct text *t, enum nft_set_id set, const uint8_t *key)
{
	return t->src->find(t->src->ctx, t->fam, set, key);
}

static void text_pool(const struct text *t, uint32_t pool_id, const struct nft_kind_info *info)
{
	AUTO(vec_fini) VEC(struct ip_endpoint) found = { 0 };
	uint8_t key[NFT_KEY_MAX];

	for (uint32_t slot = 0; slot < info->slots; slot++) {
		const uint8_t *data;

		nft_key_slot(key, pool_id, slot);
		data = find(t, NFTSET_ENDPOINTS, key);
		if (data != NULL)
			nft_get_endpoint(vec_push(&found), t->fam, data);
		else if (slot < info->safe_slots)
			str_puts(t->out, " EMPTY-SLOT");
		else
			break;
	}
	vec_sort(&found, ip_endpoint_cmp);
	for (size_t i = 0, n; i < found.n; i += n) {
		const struct ip_endpoint *b = &found.v[i];

		for (n = 1; i + n < found.n && ip_endpoint_cmp(b, &found.v[i + n]) == 0;)
			n++;
		str_printf(t->out, " %s", ip_endpoint_str(&b->addr, b->port));
		if (n > 1 && !info->is_hashed) /* as explain/text.h prints a weight */
			str_printf(t->out, "=%zu", n);
		nft_key_endpoint(key, &b->addr, b->port);
		if (find(t, NFTSET_ENDPOINT_ADDRS, key) == NULL)
			str_puts(t->out, "(NOT-IN-ENDPOINT_ADDRS)");
	}
	if (info->affinity_s != 0)
		str_printf(t->out, " affinity=%us", info->affinity_s);
	if (info->is_hashed)
		str_printf(t->out, " scheduler=mh%s", info->has_port ? ",mh-port" : "");
}

/* The target of a word; `data` may be NULL. */
static void text_target(const struct text *t, const uint8_t *data)
{
	struct nft_kind_info info;
	uint32_t word;

	str_puts(t->out, " ->");
	if (data == NULL) {
		str_puts(t->out, " NOWHERE");
		return;
	}
	word = nft_get_word(data);
	info = nft_kind_info(nft_word_kind(word));
	if (nft_word_kind(word) == NFT_KIND_REJECT)
		str_puts(t->out, " reject");
	else if (nft_word_kind(word) == NFT_KIND_DROP)
		str_puts(t->out, " drop");
	else if (info.slots != 0)
		text_pool(t, nft_word_pool(word), &info);
	else
		str_printf(t->out, " KIND-0x%x", nft_word_kind(word));
}

struct guard {
	enum ipfam fam;
	enum nft_set_id set;
	uint32_t word;
	VEC(struct ip_prefix) ranges;
};

static void guard_collect(void *arg, const uint8_t *key)
{
	struct guard *g = arg;

	if (((nft_get_word(key) ^ g->word) & nft_range_mask(g->set)) == 0)
		nft_get_range(vec_push(&g->ranges), g->fam, g->set, key);
}

void nft_guard_text(struct str *out, const struct nft_source *src, enum ipfam fam,
		    enum nft_set_id set, uint32_t word)
{
	struct guard g = { .fam = fam, .set = set, .word = word };

	src->each(src->ctx, fam, set, guard_collect, &g);
	vec_cut(&g.ranges, ip_prefixes_join(g.ranges.v, g.ranges.n));
	str_puts(out, g.ranges.n == 0 ? " guard=none" : " guard=");
	for (size_t i = 0; i < g.ranges.n; i++)
		str_printf(out, "%s%s", i == 0 ? "" : ",", ip_prefix_str(&g.ranges.v[i]));
	vec_fini(&g.ranges);
}

static void frontend_text(struct str *out, const struct nft_source *src, enum ipfam fam,
			  const uint8_t *key)
{
	struct text t = { out, src, fam };
	const uint8_t *data = find(&t, NFTSET_FRONTENDS, key);

	nft_tuple_text(out, fam, key);
	if (find(&t, NFTSET_CLUSTER_IPS, key) != NULL)
		str_puts(out, " cluster-ip");
	if (find(&t, NFTSET_VIPS, key) == NULL)
		str_puts(out, " NOT-IN-VIPS");
	if (find(&t, NFTSET_MASQ_FRONTENDS, key) != NULL)
		str_puts(out, " masq");
	if (find(&t, NFTSET_MASQ_HOSTS, key) != NULL)
		str_puts(out, " masq=host");
	if (data != NULL && nft_word_kind(nft_get_word(data)) == NFT_KIND_FW) {
		nft_guard_text(out, src, fam, NFTSET_FW_RANGES,
			       nft_word(nft_word_pool(nft_get_word(data)), 0));
		data = find(&t, NFTSET_FW_FRONTENDS, key);
	}
	if (data != NULL && nft_word_kind(nft_get_word(data)) == NFT_KIND_XL) {
		text_target(&t, find(&t, NFTSET_XL_LOCAL, key));
		str_puts(out, "; inside");
		data = find(&t, NFTSET_XL_CLUSTER, key);
	}
	text_target(&t, data);
}

struct tuples {
	enum ipfam fam;
	VEC(struct ip_tuple) v;
};

static void tuple_collect(void *arg, const uint8_t *key)
{
	struct tuples *all = arg;

	nft_get_tuple(vec_push(&all->v), all->fam, key);
}

void nft_frontends_each(struct str *out, const struct nft_source *src, const enum nft_set_id *sets,
			size_t n_sets,
			void (*text)(struct str *out, const struct nft_source *src, enum ipfam fam,
				     const uint8_t *key))
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct tuples all = { .fam = fam };

		for (size_t i = 0; i < n_sets; i++)
			src->each(src->ctx, fam, sets[i], tuple_collect, &all);
		vec_sort(&all.v, ip_tuple_cmp);
		vec_for_each (t, &all.v) {
			uint8_t key[NFT_KEY_MAX];

			if (t > all.v.v && ip_tuple_cmp(t - 1, t) == 0)
				continue; /* in two of the sets */
			nft_key_tuple(key, &t->addr, t->proto, t->port);
			text(out, src, fam, key);
			str_puts(out, "\n");
		}
		vec_fini(&all.v);
	}
}

void nft_frontends_text(struct str *out, const struct nft_source *src)
{
	static const enum nft_set_id sets[] = { NFTSET_FRONTENDS };

	nft_frontends_each(out, src, sets, ARRAY_SIZE(sets), frontend_text);
}
