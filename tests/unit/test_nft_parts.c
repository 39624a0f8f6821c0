/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parts of the nftables plane without kernel access: tables, counts, changes, bytes of elements. */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "nft/change.h"
#include "nft/decode.h"
#include "nft/expr.h"
#include "nft/keymap.h"
#include "nft/refs.h"
#include "nft/watch.h"
#include "nl/dump.h"
#include "objects.h"
#include "plane/common.h"
#include "test.h"

/* --- rules of other programs --- */

static struct nlattr *expr_begin(struct nlmsghdr *h, const char *name, struct nlattr **data)
{
	struct nlattr *e = mnl_attr_nest_start(h, NFTA_LIST_ELEM);

	mnl_attr_put_strz(h, NFTA_EXPR_NAME, name);
	*data = mnl_attr_nest_start(h, NFTA_EXPR_DATA);
	return e;
}

/* "immediate:0" is a drop, "immediate:1" accepts; "match:NAME" and "target:NAME" are iptables'. */
static void expr_put(struct nlmsghdr *h, const char *text)
{
	size_t len = strcspn(text, ":");
	AUTO(free) char *name = xstrndup(text, len);
	struct nlattr *data;
	struct nlattr *e = expr_begin(h, name, &data);

	if (strcmp(name, "immediate") == 0) {
		struct nlattr *value = mnl_attr_nest_start(h, NFTA_IMMEDIATE_DATA);
		struct nlattr *verdict = mnl_attr_nest_start(h, NFTA_DATA_VERDICT);

		mnl_attr_put_u32(h, NFTA_VERDICT_CODE, htonl((uint32_t)(text[len + 1] - '0')));
		mnl_attr_nest_end(h, verdict);
		mnl_attr_nest_end(h, value);
	} else if (text[len] != '\0') {
		_Static_assert((int)NFTA_MATCH_NAME == (int)NFTA_TARGET_NAME, "for both");
		mnl_attr_put_strz(h, NFTA_MATCH_NAME, text + len + 1);
	}
	mnl_attr_nest_end(h, data);
	mnl_attr_nest_end(h, e);
}

static void test_rejects_all(void **state)
{
	static const struct {
		const char *exprs[3];
		bool is_rejection;
	} cases[] = {
		{ { "immediate:0" }, true },
		{ { "immediate:1" }, false },
		{ { "reject" }, true },
		{ { "counter", "log", "reject" }, true },
		{ { "match:comment", "counter", "target:REJECT" }, true },
		{ { "match:comment", "counter", "immediate:0" }, true },
		{ { "match:mark", "counter", "immediate:0" }, false },
		{ { "counter", "target:LOG" }, false },
		{ { "meta", "cmp", "reject" }, false },
		{ { "limit", "immediate:0" }, false },
		{ { "counter" }, false },
		{ { NULL }, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_Alignas(8) char buf[1024] = { 0 };
		struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
		struct nlattr *list = mnl_attr_nest_start(h, NFTA_RULE_EXPRESSIONS);

		for (size_t k = 0; k < ARRAY_SIZE(cases[i].exprs); k++)
			if (cases[i].exprs[k] != NULL)
				expr_put(h, cases[i].exprs[k]);
		mnl_attr_nest_end(h, list);
		if (nft_rejects_all(list) != cases[i].is_rejection)
			fail_msg("case %zu", i);
	}
}

/* --- tab --- */

#define KEYS 5000

/* Compared with an array: entries are found, deleted ones are not, a walk visits each once. */
static void test_tab_random(void **state)
{
	uint32_t *model = xcalloc(KEYS, sizeof(*model)); /* 0 = absent */
	struct rng r = { .state = 7 };
	struct nft_keymap t;

	(void)state;
	nft_keymap_init(&t, sizeof(uint32_t), sizeof(uint32_t));
	for (int i = 0; i < 100000; i++) {
		uint32_t k = (uint32_t)rng_below(&r, KEYS);
		const void *p = nft_keymap_find(&t, &k);
		uint32_t v = 0;
		bool is_new;

		if (p != NULL)
			memcpy(&v, p, sizeof(v));
		assert_int_equal(v, model[k]);
		/* more is put in the first half, more deleted in the second */
		if (rng_below(&r, 10) < (i < 50000 ? 7U : 3U)) {
			void *val = nft_keymap_put(&t, &k, &is_new);

			assert_int_equal(is_new, model[k] == 0);
			model[k] = (uint32_t)i + 1;
			memcpy(val, &model[k], sizeof(uint32_t));
		} else {
			assert_int_equal(nft_keymap_del(&t, &k), model[k] != 0);
			model[k] = 0;
		}
	}
	{
		size_t n = 0;

		nft_keymap_for_each (e, &t) {
			uint32_t k;

			memcpy(&k, e.key, sizeof(k));
			assert_memory_equal(e.val, &model[k], sizeof(uint32_t));
			model[k] = 0;
			n++;
		}
		assert_int_equal(n, t.n);
		for (uint32_t k = 0; k < KEYS; k++)
			assert_int_equal(model[k], 0);
	}
	nft_keymap_clear(&t);
	assert_int_equal(t.n, 0);
	free(model);
}

/* Memory of 50,000 addresses: at most 1.6 places for each. */
static void test_tab_density(void **state)
{
	struct nft_keymap t;
	size_t places = 0;

	(void)state;
	nft_keymap_init(&t, sizeof(uint32_t), sizeof(uint32_t));
	for (uint32_t k = 0; k < 50000; k++)
		(void)nft_keymap_put(&t, &k, NULL);
	for (size_t i = 0; i < NFT_KEYMAP_SHARDS; i++)
		places += t.shards[i].cap;
	assert_in_range(places, 50000 * 6 / 5, 50000 * 8 / 5);
	nft_keymap_clear(&t);
}

/* --- refs --- */

/* Assert the addresses in their grace period: last bytes of 10.0.0.x and seconds, oldest first. */
static void refs_expect(const struct nft_refs *r, size_t n, const uint32_t (*v)[2])
{
	size_t i = 0;

	assert_int_equal(r->retained.count, n);
	list_for_each_entry (e, &r->in_order, struct nft_retained, order) {
		assert_true(i < n);
		assert_int_equal(e->addr[3], v[i][0]);
		assert_int_equal(e->since_s, v[i++][1]);
		assert_true(nft_refs_in_grace(r, e->addr));
	}
	assert_int_equal(i, n);
}

static void test_refs(void **state)
{
	const uint8_t a[4] = { 10, 0, 0, 1 };
	const uint8_t b[4] = { 10, 0, 0, 2 };
	const uint8_t c[4] = { 10, 0, 0, 3 };
	struct nft_refs r;

	(void)state;
	nft_refs_init(&r, 4);
	assert_int_equal(nft_refs_count(&r, a), 0);
	assert_false(nft_refs_is_known(&r, a));
	nft_refs_set(&r, a, 2);
	nft_refs_set(&r, b, 1);
	assert_int_equal(nft_refs_count(&r, a), 2);
	assert_null(nft_refs_oldest(&r));

	/* a is in its grace period from 100, b from 150 */
	nft_refs_grace(&r, a);
	assert_int_equal(nft_refs_count(&r, a), 0);
	assert_true(nft_refs_is_known(&r, a));
	nft_refs_stamp(&r, 100);
	nft_refs_grace(&r, b);
	nft_refs_grace(&r, b);
	nft_refs_grace(&r, a);
	refs_expect(&r, 2, (const uint32_t[][2]){ { 1, 100 }, { 2, 0 } });
	nft_refs_stamp(&r, 150);
	refs_expect(&r, 2, (const uint32_t[][2]){ { 1, 100 }, { 2, 150 } });

	/* a is used again and released: its grace period begins again */
	nft_refs_set(&r, a, 1);
	assert_int_equal(nft_refs_count(&r, a), 1);
	refs_expect(&r, 1, (const uint32_t[][2]){ { 2, 150 } });
	nft_refs_grace(&r, a);
	nft_refs_stamp(&r, 170);
	refs_expect(&r, 2, (const uint32_t[][2]){ { 2, 150 }, { 1, 170 } });

	/* the oldest goes; its address may be that of the entry */
	nft_refs_set(&r, nft_refs_oldest(&r)->addr, 0);
	assert_false(nft_refs_is_known(&r, b));
	refs_expect(&r, 1, (const uint32_t[][2]){ { 1, 170 } });

	nft_refs_keep(&r, c);
	nft_refs_keep(&r, c);
	nft_refs_keep(&r, a);
	assert_int_equal(nft_refs_count(&r, c), 2);
	assert_int_equal(nft_refs_count(&r, a), 1);
	refs_expect(&r, 0, NULL);
	nft_refs_clear(&r);
}

/* After a load, counts begin at 0, and grace periods continue. */
static void test_refs_restart(void **state)
{
	const uint8_t a[4] = { 10, 0, 0, 1 };
	const uint8_t b[4] = { 10, 0, 0, 2 };
	struct nft_refs r;

	(void)state;
	nft_refs_init(&r, 4);
	nft_refs_grace(&r, a);
	nft_refs_stamp(&r, 100);
	nft_refs_set(&r, b, 3);
	nft_refs_restart(&r);
	assert_false(nft_refs_is_known(&r, b));
	refs_expect(&r, 1, (const uint32_t[][2]){ { 1, 100 } });
	nft_refs_clear(&r);
	assert_false(nft_refs_is_known(&r, a));
	assert_null(nft_refs_oldest(&r));
}

/* A call is bounded work; addresses that are used again meanwhile are not stamped. */
static void test_refs_many(void **state)
{
	const uint32_t n = 2 * NFT_REFS_STAMP_MAX + 1;
	const struct nft_retained *last;
	struct nft_refs r;

	(void)state;
	nft_refs_init(&r, 4);
	for (uint32_t i = 1; i <= n; i++)
		nft_refs_grace(&r, &i);
	last = list_entry(r.in_order.prev, struct nft_retained, order);
	nft_refs_stamp(&r, 100);
	for (uint32_t i = NFT_REFS_STAMP_MAX + 1; i <= NFT_REFS_STAMP_MAX + 2; i++)
		nft_refs_set(&r, &i, 1);
	assert_int_equal(list_entry(r.unstamped->prev, struct nft_retained, order)->since_s, 100);
	assert_int_equal(list_entry(r.unstamped, struct nft_retained, order)->since_s, 0);
	nft_refs_stamp(&r, 200);
	assert_int_equal(list_entry(r.in_order.next, struct nft_retained, order)->since_s, 100);
	assert_int_equal(last->since_s, 200);
	assert_null(r.unstamped);
	nft_refs_set(&r, last->addr, 0);
	nft_refs_grace(&r, &n);
	nft_refs_set(&r, &n, 1); /* the only one without a second */
	assert_null(r.unstamped);
	nft_refs_clear(&r);
}

/* --- changes --- */

static void slot_key(uint8_t key[static NFT_KEY_MAX], uint32_t slot)
{
	memset(key, 0, NFT_KEY_MAX);
	nft_key_slot(key, 1, slot);
}

static const struct nft_change *only(const struct nft_changes *c, uint32_t slot)
{
	uint8_t key[NFT_KEY_MAX];

	slot_key(key, slot);
	nft_changes_for_each (ch, c, IPFAM_V4, NFTSET_ENDPOINTS)
		if (memcmp(ch->key, key, 8) == 0)
			return ch;
	return NULL;
}

/* Old and new value of a key may come in any order and from any service. */
static void test_changes(void **state)
{
	uint8_t key[NFT_KEY_MAX];
	uint8_t x[NFT_DATA_MAX] = { 1 };
	uint8_t y[NFT_DATA_MAX] = { 2 };
	struct nft_changes c = { 0 };

	(void)state;
	for (int round = 0; round < 2; round++) { /* the memory is reused */
		const struct nft_change *ch;

		slot_key(key, 0); /* y is added before x is removed */
		nft_changes_will(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, y, NULL);
		nft_changes_was(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, x, NULL);
		slot_key(key, 1); /* removed and added again: nothing to write */
		nft_changes_was(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, x, NULL);
		nft_changes_will(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, x, NULL);
		slot_key(key, 2);
		nft_changes_was(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, x, NULL);
		slot_key(key, 3);
		nft_changes_will(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, y, NULL);
		assert_int_equal(c.sets[IPFAM_V4][NFTSET_ENDPOINTS].n, 4);
		assert_int_equal(c.conflict, 0);
		ch = only(&c, 0);
		assert_true(nft_change_is_del(ch, 8) && nft_change_is_add(ch, 8));
		ch = only(&c, 1);
		assert_false(nft_change_is_del(ch, 8) || nft_change_is_add(ch, 8));
		ch = only(&c, 2);
		assert_true(nft_change_is_del(ch, 8) && !nft_change_is_add(ch, 8));
		ch = only(&c, 3);
		assert_true(!nft_change_is_del(ch, 8) && nft_change_is_add(ch, 8));
		nft_changes_will(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, x, NULL);
		assert_int_not_equal(c.conflict, 0); /* contradicting operations */
		nft_changes_reset(&c);
		assert_int_equal(c.v.n, 0);
	}
	nft_changes_fini(&c);
}

static void test_changes_many(void **state)
{
	struct nft_changes c = { 0 };
	uint8_t key[NFT_KEY_MAX];
	uint32_t n = 0;

	(void)state;
	for (int round = 0; round < 3; round++) {
		uint32_t want = round == 1 ? 20000 : 10; /* a large index with few entries */

		for (uint32_t i = 0; i < want; i++) {
			slot_key(key, i);
			nft_changes_count(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, 1, NULL);
			nft_changes_count(&c, IPFAM_V4, NFTSET_ENDPOINTS, key, 2, NULL);
		}
		assert_int_equal(c.v.n, want);
		n = 0;
		nft_changes_for_each (ch, &c, IPFAM_V4, NFTSET_ENDPOINTS) {
			slot_key(key, n++);
			assert_memory_equal(ch->key, key, 8); /* in order of first touch */
			assert_int_equal(ch->delta, 3);
		}
		assert_int_equal(n, want);
		nft_changes_reset(&c);
	}
	nft_changes_fini(&c);
}

/* --- bytes --- */

static const struct {
	const char *what;
	enum nft_set_id set;
	const char *addr;
	const char *range;
	const char *text;
	uint8_t first[12]; /* of the key */
} bytes_cases[] = {
	{ "tuple, IPv4",
	  NFTSET_FRONTENDS,
	  "10.96.0.10",
	  NULL,
	  "10.96.0.10:53/UDP -> pool 7 p3",
	  { 10, 96, 0, 10, 17, 0, 0, 0, 0, 53, 0, 0 } },
	{ "tuple, IPv6",
	  NFTSET_FRONTENDS,
	  "fd02::a",
	  NULL,
	  "[fd02::a]:53/UDP -> pool 7 p3",
	  { 0xfd, 2 } },
	{ "range, IPv4",
	  NFTSET_FW_RANGES,
	  "0.0.0.0",
	  "10.0.0.0/8",
	  "pool 7 from 10.0.0.0/8",
	  { 0x08, 0x70, 0, 0, 10, 0, 0, 0 } },
	{ "range of one address",
	  NFTSET_FW_RANGES,
	  "0.0.0.0",
	  "192.0.2.1/32",
	  "pool 7 from 192.0.2.1/32",
	  { 0x20, 0x70, 0, 0, 192, 0, 2, 1 } },
	{ "range, IPv6",
	  NFTSET_FW_RANGES,
	  "::",
	  "2001:db8::/36",
	  "pool 7 from 2001:db8::/36",
	  { 0x24, 0x70, 0, 0, 0x20, 1, 0x0d, 0xb8 } },
	{ "endpoint",
	  NFTSET_ENDPOINT_ADDRS,
	  "10.1.0.4",
	  NULL,
	  "10.1.0.4:53",
	  { 10, 1, 0, 4, 0, 53, 0, 0 } },
};

static void test_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bytes_cases); i++) {
		struct ip_addr a = test_addr(bytes_cases[i].addr);
		enum ipfam fam = ip_fam(&a);
		uint8_t key[NFT_KEY_MAX] = { 0 };
		uint8_t data[NFT_DATA_MAX] = { 0 };
		struct str text = { 0 };
		struct ip_tuple tuple;

		print_message("    %s\n", bytes_cases[i].what);
		if (bytes_cases[i].set == NFTSET_FRONTENDS) {
			nft_key_tuple(key, &a, L4PROTO_UDP, 53);
			nft_get_tuple(&tuple, fam, key);
			assert_true(ip_addr_is_equal(&tuple.addr, &a));
			assert_int_equal(tuple.port, 53);
		} else if (bytes_cases[i].range != NULL) {
			struct ip_prefix p = test_prefix(bytes_cases[i].range);

			nft_key_range(key, NFTSET_FW_RANGES, nft_word(7, 0), &p);
		} else {
			nft_key_endpoint(key, &a, 53);
			assert_memory_equal(key + 8, key, 4);
		}
		assert_memory_equal(key, bytes_cases[i].first, fam == IPFAM_V4 ? 8 : 2);
		nft_put_word(data, nft_word(7, 3));
		nft_elem_text(&text, fam, bytes_cases[i].set, key,
			      nft_data_len(bytes_cases[i].set, fam) > 0 ? data : NULL);
		assert_string_equal(str_text(&text), bytes_cases[i].text);
		str_fini(&text);
	}
}

/* --- foreign changes of the ruleset --- */

static void heard(struct nft_watch *w, uint32_t pid, const char *name)
{
	_Alignas(struct nlmsghdr) char buf[256];
	struct nlmsghdr *h =
		nl_request_nfnl(buf, sizeof(buf), NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN, 0);

	mnl_attr_put_u32(h, NFTA_GEN_ID, htonl(7));
	if (pid != 0)
		mnl_attr_put_u32(h, NFTA_GEN_PROC_PID, htonl(pid));
	if (name != NULL)
		mnl_attr_put_strz(h, NFTA_GEN_PROC_NAME, name);
	nft_watch_message(w, h);
}

static void test_watch_text(void **state)
{
	static const struct {
		uint32_t pid[2];
		const char *name[2];
		const char *text;
	} cases[] = {
		{ { 0 }, { NULL }, "another process" },
		{ { 4711 }, { "nft" }, "nft (pid 4711)" },
		{ { 4711, 4711 }, { "nft", "nft" }, "nft (pid 4711)" },
		{ { 4711, 12 }, { "nft", "agent" }, "agent (pid 12) and others" },
		{ { 1 }, { "a b\n<3>x\x7f" }, "a?b?<3>x? (pid 1)" },
		{ { 1 }, { "" }, "? (pid 1)" },
		{ { 1 }, { NULL }, "? (pid 1)" },
		{ { 4294967295U },
		  { "much longer than a kernel would have it" },
		  "much?longer?than (pid 4294967295)" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[NFT_WATCH_TEXT_MAX];
		struct nft_watch w;

		nft_watch_init(&w);
		for (int k = 0; k < 2; k++)
			heard(&w, cases[i].pid[k], cases[i].name[k]);
		nft_watch_text(&w, text);
		assert_string_equal(text, cases[i].text);
		nft_watch_reset(&w);
		nft_watch_text(&w, text);
		assert_string_equal(text, "another process");
		nft_watch_fini(&w);
	}
}

static void reported(struct nft_watch *w, uint8_t family, const char *table, const char *set,
		     const uint8_t *key, size_t len)
{
	_Alignas(struct nlmsghdr) char buf[512];
	struct nlmsghdr *h = nl_request_nfnl(
		buf, sizeof(buf), NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELSETELEM, family);
	struct nlattr *list;
	struct nlattr *elem;
	struct nlattr *data;

	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, table);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	list = mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
	elem = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	data = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);
	mnl_attr_put(h, NFTA_DATA_VALUE, len, key);
	mnl_attr_nest_end(h, data);
	mnl_attr_nest_end(h, elem);
	mnl_attr_nest_end(h, list);
	nft_watch_message(w, h);
}

static void test_watch_touched(void **state)
{
	static const struct {
		uint8_t family;
		const char *table;
		const char *set;
		size_t len;
		bool is_ours;
	} cases[] = {
		{ NFPROTO_IPV4, "vipd", "vips", 4, true },
		{ NFPROTO_IPV6, "vipd-2", "frontends", 24, true },
		{ NFPROTO_INET, "vipd-ipvs", "fe4", 12, true },
		{ NFPROTO_INET, "vipd-ipvs", "masq_hosts6", 24, true },
		{ NFPROTO_INET, "vipd-ipvs", "vips6", 16, true },
		{ NFPROTO_INET, "vipd-ipvs", "ranges4", 8, true },
		{ NFPROTO_INET, "vipd-ipvs", "remembered4", 4, false },
		{ NFPROTO_INET, "vipd-ipvs", "vips", 4, false },
		{ NFPROTO_INET, "theirs", "vips4", 4, false },
		{ NFPROTO_IPV4, "vipd-ipvs", "vips4", 4, false },
		{ NFPROTO_INET, "vipd-ipvs", "vips6", 4, false }, /* too short a key */
	};
	static const uint8_t key[24] = { 10, 96, 0, 10 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nft_watch w;

		nft_watch_init(&w);
		reported(&w, cases[i].family, cases[i].table, cases[i].set, key, cases[i].len);
		assert_int_equal(w.touched.n, cases[i].is_ours);
		nft_watch_fini(&w);
	}
}

/* Any row may be touched unless a notification came and none was lost. */
static void test_watch_touched_any(void **state)
{
	static const uint8_t key[4] = { 10, 96, 0, 10 };
	static struct plane_common c;

	(void)state;
	nft_watch_init(&c.watch);
	assert_true(plane_touched(&c.plane, NULL));
	heard(&c.watch, 4711, "nft");
	assert_false(plane_touched(&c.plane, NULL));
	c.watch.is_lost = true;
	assert_true(plane_touched(&c.plane, NULL));
	c.watch.is_lost = false;
	reported(&c.watch, NFPROTO_IPV4, "vipd", "vips", key, sizeof(key));
	assert_true(plane_touched(&c.plane, NULL));
	nft_watch_fini(&c.watch);
}

static ssize_t lost(void *ctx, void *data, size_t size)
{
	bool *is_lost = ctx;
	ssize_t r = *is_lost ? -ENOBUFS : -EAGAIN;

	(void)data;
	(void)size;
	*is_lost = false;
	return r;
}

/* Notifications that were lost during a load may have been about our elements: load again. */
static void test_watch_lost(void **state)
{
	struct err err = { 0 };
	bool is_lost = true;
	struct nft_watch w;

	(void)state;
	nft_watch_init(&w);
	nl_sock_open_io(&w.nl, &(struct nl_io){ .recv = lost, .ctx = &is_lost });
	nft_watch_load_begin(&w);
	assert_int_equal(nft_watch_load_end(&w, &err), 0);
	for (int i = 0; i < 8; i++) {
		is_lost = true;
		if (i % 2 == 0)
			nft_watch_read(&w);
		assert_int_equal(nft_watch_load_end(&w, &err), i < 7 ? 1 : -EAGAIN);
		nft_watch_load_begin(&w);
	}
	assert_int_equal(nft_watch_load_end(&w, &err), 0);
	nl_sock_close(w.nl);
	nft_watch_fini(&w);
}

/* Few bits, so that many prefixes contain or touch others; not all addresses. */
static struct ip_prefix random_prefix(struct rng *rng, enum ipfam fam)
{
	struct ip_prefix p = { .addr = { .family = ip_family(fam) },
			       .len = (uint8_t)(1 + rng_below(rng, 8 * ip_len(fam))) };
	size_t at = (p.len - 1U) / 8;

	if (at > 0)
		p.addr.bytes[at - 1] = (uint8_t)rng_below(rng, 2);
	p.addr.bytes[at] = (uint8_t)(rng_below(rng, 256) & 0xff00U >> (p.len - 8 * at));
	return p;
}

/* Is the address in an element, as the rules look it up? */
static bool is_looked_up(const struct nft_keymap *elems, enum nft_set_id set,
			 const struct ip_addr *a)
{
	enum ipfam fam = ip_fam(a);
	uint8_t key[NFT_KEY_MAX];

	for (unsigned int len = 4; len <= 8 * ip_len(fam); len += 4) {
		struct ip_prefix p = { .addr = *a, .len = (uint8_t)len };

		for (unsigned int bit = len; bit < 8 * ip_len(fam); bit++)
			p.addr.bytes[bit / 8] &= (uint8_t) ~(0x80 >> (bit % 8));
		nft_put_word(key, (0x5a123456 & nft_range_mask(set)) | nft_range_bits(set, len));
		memcpy(key + 4, p.addr.bytes, ip_len(fam));
		if (nft_keymap_find(elems, key) != NULL)
			return true;
	}
	return false;
}

/*
 * Random ranges: lookups find the addresses of the ranges and no others, and the elements join to
 * the ranges again.
 */
static void test_ranges_random(void **state)
{
	static const enum nft_set_id sets[] = { NFTSET_FW_RANGES, IPVSSET_RANGES };
	struct rng rng = { 5 };

	(void)state;
	for (int run = 0; run < 400; run++) {
		enum nft_set_id set = sets[run % 2];
		enum ipfam fam = (enum ipfam)(run / 2 % IPFAM_N);
		VEC(struct ip_prefix) given = { 0 }, joined = { 0 }, read = { 0 };
		struct nft_keymap elems;

		nft_keymap_init(&elems, nft_key_len(set, fam), 0);
		for (size_t i = 0, n = 1 + rng_below(&rng, 20); i < n; i++)
			*vec_push(&given) = random_prefix(&rng, fam);
		vec_append(&joined, &given);
		vec_cut(&joined, ip_prefixes_join(joined.v, joined.n));
		vec_for_each (p, &joined) {
			unsigned int len = (p->len + 3U) / 4 * 4;

			for (unsigned int i = 0; i < 1U << (len - p->len); i++) {
				struct ip_prefix part = ip_prefix_part(p, len, i);
				uint8_t key[NFT_KEY_MAX];

				nft_key_range(key, set, 0x5a123456, &part);
				assert_null(nft_keymap_find(&elems, key));
				(void)nft_keymap_put(&elems, key, NULL);
				nft_get_range(vec_push(&read), fam, set, key);
			}
		}
		for (int i = 0; i < 100; i++) {
			struct ip_prefix p = random_prefix(&rng, fam);
			bool is_inside = false;

			vec_for_each (q, &given)
				is_inside |= ip_prefix_contains(q, &p.addr);
			assert_int_equal(is_looked_up(&elems, set, &p.addr), is_inside);
		}
		vec_cut(&read, ip_prefixes_join(read.v, read.n));
		assert_int_equal(read.n, joined.n);
		for (size_t i = 0; i < read.n; i++)
			assert_int_equal(ip_prefix_cmp(&read.v[i], &joined.v[i]), 0);
		nft_keymap_clear(&elems);
		vec_fini(&given);
		vec_fini(&joined);
		vec_fini(&read);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_random), cmocka_unit_test(test_rejects_all),
		cmocka_unit_test(test_watch_text),    cmocka_unit_test(test_watch_touched),
		cmocka_unit_test(test_watch_lost),    cmocka_unit_test(test_watch_touched_any),
		cmocka_unit_test(test_tab_random),    cmocka_unit_test(test_tab_density),
		cmocka_unit_test(test_refs),          cmocka_unit_test(test_refs_restart),
		cmocka_unit_test(test_refs_many),     cmocka_unit_test(test_changes),
		cmocka_unit_test(test_changes_many),  cmocka_unit_test(test_bytes),
	};

	hash_seed(1, 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
