/* SPDX-License-Identifier: GPL-2.0-or-later */
/* nft/elem - NEWSETELEM, DELSETELEM, GETSETELEM. */
#include "nft/elem.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "nft/expr.h"
#include "nl/attr.h"

/* Maximum length of a list attribute, its header included. */
#define LIST_MAX 65528
/* Keys looked up at once. Each answer is a datagram, all queued before the first is read. */
#define GET_KEYS_MAX ((size_t)256)
/* A request of one key: the headers, names of table and set, and the key. */
#define GET_ONE_MAX 256

#define ATTR_HDR 4
#define TIME_SIZE (ATTR_HDR + sizeof(uint64_t))
#define REQUEST_MAX 512 /* a request without keys */

uint8_t nft_table_family(const struct nft_table_ref *table)
{
	return table->family != 0 ? table->family : nft_family(table->fam);
}

/* Begin a message: table, set, an empty list of elements. */
static struct nlattr *list_begin(struct nlmsghdr *h, const struct nft_table_ref *table,
				 enum nft_set_id set)
{
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, table->name);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, nft_set_desc(set, table->fam)->name);
	return mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
}

static uint8_t *put_attr(uint8_t *p, uint16_t type, size_t payload)
{
	struct nlattr a = { .nla_len = (uint16_t)(ATTR_HDR + payload), .nla_type = type };

	memcpy(p, &a, sizeof(a));
	return p + ATTR_HDR;
}

/* NFTA_SET_ELEM_x { NFTA_DATA_VALUE { bytes } }; lengths are multiples of 4. */
static uint8_t *put_value(uint8_t *p, uint16_t type, const void *bytes, size_t len)
{
	p = put_attr(p, type | NLA_F_NESTED, ATTR_HDR + len);
	p = put_attr(p, NFTA_DATA_VALUE, len);
	memcpy(p, bytes, len);
	return p + len;
}

static uint8_t *put_time(uint8_t *p, uint16_t type, uint64_t ms)
{
	uint64_t be = htobe64(ms);

	memcpy(put_attr(p, type, sizeof(be)), &be, sizeof(be));
	return p + TIME_SIZE;
}

static size_t elem_size(size_t key_len, size_t data_len)
{
	size_t value = (size_t)2 * ATTR_HDR; /* both headers of a value */

	return ATTR_HDR + value + key_len + (data_len > 0 ? value + data_len : 0);
}

/* Append one element to the list; the caller ensures that there is room. */
static void put_elem(struct nlmsghdr *h, struct nlattr *list, enum nft_set_id set, enum ipfam fam,
		     const void *key, const void *data, const struct nft_elem_writer *times)
{
	size_t key_len = nft_key_len(set, fam);
	size_t data_len = data ? nft_data_len(set, fam) : 0;
	size_t size = elem_size(key_len, data_len) + (times ? 2 * TIME_SIZE : 0);
	uint8_t *p = (uint8_t *)h + h->nlmsg_len;

	p = put_attr(p, NFTA_LIST_ELEM | NLA_F_NESTED, size - ATTR_HDR);
	p = put_value(p, NFTA_SET_ELEM_KEY, key, key_len);
	if (data_len > 0)
		p = put_value(p, NFTA_SET_ELEM_DATA, data, data_len);
	if (times != NULL)
		(void)put_time(put_time(p, NFTA_SET_ELEM_TIMEOUT, times->timeout_ms),
			       NFTA_SET_ELEM_EXPIRATION, times->left_ms);
	h->nlmsg_len += (uint32_t)size;
	list->nla_len = (uint16_t)(list->nla_len + size);
}

void nft_elem_put(struct nft_elem_writer *w, enum nft_write write, enum ipfam fam,
		  enum nft_set_id set, const void *key, const void *data, const void *tag)
{
	bool is_del = write == NFT_WRITE_DEL;
	bool has_times = !is_del && w->timeout_ms != 0;
	size_t size = elem_size(nft_key_len(set, fam), data ? nft_data_len(set, fam) : 0) +
		      (has_times ? 2 * TIME_SIZE : 0);

	if (w->msg == NULL || w->write != write || w->fam != fam || w->set != set ||
	    w->list->nla_len + size > LIST_MAX) {
		w->msg = nl_batch_msg(
			w->batch, NFT_TYPE(is_del ? NFT_MSG_DELSETELEM : NFT_MSG_NEWSETELEM),
			is_del ? 0 : NLM_F_CREATE, nft_table_family(&w->tables[fam]), NULL);
		w->list = list_begin(w->msg, &w->tables[fam], set);
		w->list->nla_len = ATTR_HDR;
		w->write = write;
		w->fam = fam;
		w->set = set;
	}
	nl_batch_tag(w->batch, tag);
	put_elem(w->msg, w->list, set, fam, key, data, has_times ? w : NULL);
	w->n++;
}

bool nft_offset_is_elem(const struct nlmsghdr *msg, uint32_t offset)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];
	const uint8_t *list;

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, msg, sizeof(struct nfgenmsg));
	list = (const uint8_t *)tb[NFTA_SET_ELEM_LIST_ELEMENTS];
	return list != NULL && offset > (size_t)(list - (const uint8_t *)msg);
}

/* --- reading --- */

/* One element of an answer; NULL parts are absent. */
struct parsed {
	const uint8_t *key; /* NULL: the element cannot be ours */
	const uint8_t *data;
	const struct nlattr *expr;
	uint64_t expires_ms;
};

/* The `len` bytes inside NFTA_SET_ELEM_x, or NULL if it has another length. */
static const uint8_t *value_bytes(const struct nlattr *a, size_t len)
{
	a = nl_attr_find(a, NFTA_DATA_VALUE);
	return a != NULL && mnl_attr_get_payload_len(a) == len ? mnl_attr_get_payload(a) : NULL;
}

static struct parsed elem_parse(const struct nlattr *elem, enum nft_set_id set, enum ipfam fam)
{
	const struct nlattr *tb[NFTA_SET_ELEM_MAX + 1];
	const struct nft_set_desc *d = nft_set_desc(set, fam);
	struct parsed e = { 0 };

	nl_attr_nest(tb, NFTA_SET_ELEM_MAX, elem);
	e.key = value_bytes(tb[NFTA_SET_ELEM_KEY], d->key_len);
	e.data = value_bytes(tb[NFTA_SET_ELEM_DATA], d->data_len);
	if (d->data_len > 0 && e.data == NULL)
		e.key = NULL;
	e.expr = tb[NFTA_SET_ELEM_EXPR];
	e.expires_ms = nl_attr_be64(tb[NFTA_SET_ELEM_EXPIRATION], 0);
	return e;
}

static const struct nlattr *answer_list(const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];

	if (h->nlmsg_type != NFT_TYPE(NFT_MSG_NEWSETELEM))
		return NULL;
	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, h, sizeof(struct nfgenmsg));
	return tb[NFTA_SET_ELEM_LIST_ELEMENTS];
}

static void walk_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *list = answer_list(h);
	struct nft_walk *w = arg;

	nl_attr_for_each (elem, list) {
		struct parsed e = elem_parse(elem, w->set, w->fam);

		if (e.key == NULL)
			continue;
		w->elem = elem;
		w->expires_ms = e.expires_ms;
		w->n++;
		w->fn(w->arg, e.key, e.data);
	}
}

/* The kernel writes the first datagram now. */
static int dump_begin(struct nft_walk *w, struct nl_sock *nl, const struct nft_table_ref *table,
		      enum nft_set_id set, struct err *err)
{
	char buf[REQUEST_MAX];
	struct nlmsghdr *h = nl_request_nfnl(buf, sizeof(buf), NFT_TYPE(NFT_MSG_GETSETELEM),
					     nft_table_family(table));
	int r;

	*w = (struct nft_walk){ .starts = w->starts + 1, .set = set, .fam = table->fam };
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, table->name);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, nft_set_desc(set, table->fam)->name);
	w->is_begun = true;
	r = nl_dump_begin(nl, h, &w->seq, err);
	return r < 0 ? r : 1;
}

int nft_elems_dump_step(struct nft_walk *w, struct nl_sock *nl, const struct nft_table_ref *table,
			enum nft_set_id set, nft_elem_fn *fn, void *arg, struct err *err)
{
	const struct nl_reader reader = { .message = walk_message, .arg = w };
	int r;

	w->fn = fn;
	w->arg = arg;
	r = w->is_begun ? nl_dump_next(nl, w->seq, &reader, err)
			: dump_begin(w, nl, table, set, err);
	if (r == -EINTR)
		return nft_elems_dump_again(w, err);
	return r < 0 ? err_wrap(err, r, "walk over %s", nft_set_desc(set, table->fam)->name) : r;
}

int nft_elems_dump_again(struct nft_walk *w, struct err *err)
{
	w->is_begun = false;
	return w->starts < NL_DUMP_STARTS
		       ? 1
		       : err_set(err, -EAGAIN, "elements of %s: interrupted by changes %u times",
				 nft_set_desc(w->set, w->fam)->name, w->starts);
}

int nft_elems_dump(struct nl_sock *nl, const struct nft_table_ref *table, enum nft_set_id set,
		   nft_elem_fn *fn, void *arg, struct err *err)
{
	struct nft_walk w = { 0 };
	int r;

	do
		r = nft_elems_dump_step(&w, nl, table, set, fn, arg, err);
	while (r > 0);
	return r;
}

/* Keys that are looked up at once. */
struct get {
	enum nft_set_id set;
	enum ipfam fam;
	char *requests; /* at most GET_ONE_MAX bytes for each key */
	struct nft_lookup *v;
	size_t n;
};

/* Store the element `elem` as the answer for key `i`. */
static void get_elem(struct get *g, size_t i, const struct nlattr *elem)
{
	struct parsed e = elem_parse(elem, g->set, g->fam);

	if (e.key == NULL || memcmp(e.key, g->v[i].key, nft_key_len(g->set, g->fam)) != 0)
		return;
	g->v[i].is_found = true;
	if (e.data != NULL)
		memcpy(g->v[i].data, e.data, nft_data_len(g->set, g->fam));
	g->v[i].packets = nft_counter(e.expr, NFTA_COUNTER_PACKETS);
	g->v[i].expires_ms = e.expires_ms;
}

static int get_answer(void *arg, size_t i, const struct nlmsghdr *answer, int error,
		      const struct nl_bad *bad)
{
	struct get *g = arg;
	const struct nlattr *list = answer != NULL ? answer_list(answer) : NULL;

	/* All requests differ only in their key: offsets are equal. */
	if (error == -ENOENT && bad->has_offset &&
	    !nft_offset_is_elem((const void *)g->requests, bad->offset))
		return -ENOTRECOVERABLE;
	if (list == NULL)
		return error == -ENOENT ? 0 : error;
	nl_attr_for_each (elem, list)
		get_elem(g, i, elem);
	return 0;
}

/* A request for each key, all in one datagram: the kernel ends a request at a missing key. */
static int get_some(struct nl_sock *nl, const struct nft_table_ref *table, struct get *g,
		    struct err *err)
{
	size_t len = 0;
	int r;

	for (size_t i = 0; i < g->n; i++) {
		struct nlmsghdr *h =
			nl_request_nfnl(g->requests + len, GET_ONE_MAX,
					NFT_TYPE(NFT_MSG_GETSETELEM), nft_table_family(table));
		struct nlattr *list = list_begin(h, table, g->set);

		list->nla_len = ATTR_HDR;
		put_elem(h, list, g->set, g->fam, g->v[i].key, NULL, NULL);
		assert(h->nlmsg_len <= GET_ONE_MAX);
		len += h->nlmsg_len;
		g->v[i].is_found = false;
	}
	r = nl_query_each(nl, g->requests, len, g->n, get_answer, g, err);
	if (r == -ENOTRECOVERABLE)
		return err_set(err, r, "table %s or its set %s is gone", table->name,
			       nft_set_desc(g->set, table->fam)->name);
	return r;
}

int nft_elems_get(struct nl_sock *nl, const struct nft_table_ref *table, enum nft_set_id set,
		  struct nft_lookup *v, size_t n, struct err *err)
{
	AUTO(free) char *requests = xmalloc((MIN(n, GET_KEYS_MAX) + 1) * GET_ONE_MAX);
	struct get g = { .set = set, .fam = table->fam, .requests = requests };
	size_t max = GET_KEYS_MAX;

	for (size_t i = 0; i < n;) {
		int r;

		g.v = v + i;
		g.n = MIN(n - i, max);
		r = get_some(nl, table, &g, err);
		if (r == -ENOBUFS && max > 1) { /* a small receive buffer: request less */
			max /= 2;
			continue;
		}
		if (r < 0)
			return err_wrap(err, r, "elements of %s",
					nft_set_desc(set, table->fam)->name);
		i += g.n;
	}
	return 0;
}
