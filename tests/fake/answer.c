/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/fake/answer - answers of the kernel: verdicts, objects, dumps. */
#include "fake/state.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "nl/attr.h"

#define TYPE(msg) ((uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | (msg)))
/* Elements in one message of a dump. */
#define DUMP_ELEMS 64
#define MSG_MAX 32768

/* --- the queue --- */

static void queue_put(struct connection *c, const void *bytes, size_t len)
{
	struct datagram *d;

	/* Pieces of a dump are made one by one, as they are read. */
	if (!c->is_dump && c->fake->recv_limit != 0 && c->n_queued >= c->fake->recv_limit) {
		c->is_lost = true;
		return;
	}
	d = xmalloc(sizeof(*d) + len);
	d->len = len;
	memcpy(d->bytes, bytes, len);
	list_add_tail(&c->queue, &d->link);
	c->n_queued++;
}

static void queue_drop(struct connection *c, struct datagram *d)
{
	list_del(&d->link);
	free(d);
	c->n_queued--;
}

void answer_clear(struct connection *c)
{
	list_for_each_safe (l, tmp, &c->queue)
		queue_drop(c, list_entry(l, struct datagram, link));
	c->is_lost = false;
}

void answer_lose(struct connection *c, size_t mark)
{
	while (c->n_queued > mark)
		queue_drop(c, list_entry(c->queue.prev, struct datagram, link));
	c->is_lost = true;
}

ssize_t answer_take(struct connection *c, void *data, size_t size)
{
	struct datagram *d;
	ssize_t n;

	if (c->is_lost) {
		c->is_lost = false;
		return -ENOBUFS;
	}
	if (list_is_empty(&c->queue))
		return -EAGAIN;
	d = list_entry(c->queue.next, struct datagram, link);
	n = d->len > size ? -EMSGSIZE : (ssize_t)d->len;
	if (n > 0)
		memcpy(data, d->bytes, d->len);
	queue_drop(c, d);
	return n;
}

/* --- single messages --- */

void answer_verdict(struct connection *c, const struct nlmsghdr *h, int error,
		    const struct nlattr *at)
{
	_Alignas(struct nlmsghdr) char buf[256];
	struct nlmsghdr *out = mnl_nlmsg_put_header(buf);
	struct nlmsgerr *e = mnl_nlmsg_put_extra_header(out, sizeof(*e));

	out->nlmsg_type = NLMSG_ERROR;
	out->nlmsg_flags = NLM_F_CAPPED;
	out->nlmsg_seq = h->nlmsg_seq;
	e->error = -error;
	e->msg = *h;
	if (error != 0 && at != NULL && !c->fake->no_offsets) {
		out->nlmsg_flags |= NLM_F_ACK_TLVS;
		mnl_attr_put_u32(out, NLMSGERR_ATTR_OFFS,
				 (uint32_t)((const char *)at - (const char *)h));
	}
	queue_put(c, out, out->nlmsg_len);
}

/* A message that answers `h`. */
static struct nlmsghdr *begin(char *buf, const struct nlmsghdr *h, uint16_t type, uint8_t family,
			      uint16_t flags)
{
	struct nlmsghdr *out = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(out, sizeof(*g));

	out->nlmsg_type = type;
	out->nlmsg_flags = flags;
	out->nlmsg_seq = h->nlmsg_seq;
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return out;
}

static void put_be64(struct nlmsghdr *out, uint16_t type, uint64_t value)
{
	mnl_attr_put_u64(out, type, htobe64(value));
}

void answer_genid(struct connection *c, const struct nlmsghdr *h)
{
	_Alignas(struct nlmsghdr) char buf[256];
	struct nlmsghdr *out = begin(buf, h, TYPE(NFT_MSG_NEWGEN), AF_UNSPEC, 0);

	mnl_attr_put_u32(out, NFTA_GEN_ID, htonl(c->fake->genid));
	queue_put(c, out, out->nlmsg_len);
}

/* All attributes of `a` but those of the types in `skip` (ended by 0). */
static void put_attrs(struct nlmsghdr *out, const struct obj_attrs *a, const uint16_t *skip)
{
	for (size_t at = 0; at + sizeof(struct nlattr) <= a->len;) {
		const struct nlattr *attr = (const void *)(a->bytes + at);
		bool is_skipped = false;

		if (attr->nla_len < sizeof(*attr) || at + attr->nla_len > a->len)
			return;
		for (const uint16_t *s = skip; *s != 0; s++)
			is_skipped |= mnl_attr_get_type(attr) == *s;
		if (!is_skipped) {
			memcpy(mnl_nlmsg_get_payload_tail(out), attr, attr->nla_len);
			out->nlmsg_len += MNL_ALIGN(attr->nla_len);
		}
		at += MNL_ALIGN(attr->nla_len);
	}
}

static const uint16_t table_skip[] = { NFTA_TABLE_FLAGS, NFTA_TABLE_HANDLE, 0 };
#define FOREIGN_PORT 4711
static const uint16_t chain_skip[] = { NFTA_CHAIN_HANDLE, 0 };
static const uint16_t rule_skip[] = { NFTA_RULE_HANDLE, NFTA_RULE_POSITION, 0 };
static const uint16_t set_skip[] = { NFTA_SET_HANDLE, NFTA_SET_ID, NFTA_SET_NAME, 0 };

/* A scripted socket has port 0, the owner of its tables. */
static struct nlmsghdr *table_msg(const struct connection *c, char *buf, const struct nlmsghdr *h,
				  const struct table *t, uint16_t flags)
{
	struct nlmsghdr *out = begin(buf, h, TYPE(NFT_MSG_NEWTABLE), t->family, flags);

	put_attrs(out, &t->attrs, table_skip);
	mnl_attr_put_u32(out, NFTA_TABLE_FLAGS, htonl(t->flags));
	put_be64(out, NFTA_TABLE_HANDLE, t->handle);
	if (t->flags & NFT_TABLE_F_OWNER)
		mnl_attr_put_u32(out, NFTA_TABLE_OWNER, htonl(t->owner == c ? 0 : FOREIGN_PORT));
	return out;
}

void answer_table(struct connection *c, const struct nlmsghdr *h, const struct table *t)
{
	char *buf = xmalloc(MSG_MAX);
	struct nlmsghdr *out = table_msg(c, buf, h, t, 0);

	queue_put(c, out, out->nlmsg_len);
	free(buf);
}

static void put_bytes(struct nlmsghdr *out, uint16_t type, const void *bytes, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(out, type);

	mnl_attr_put(out, NFTA_DATA_VALUE, len, bytes);
	mnl_attr_nest_end(out, nest);
}

static void put_counter(struct nlmsghdr *out, uint64_t packets)
{
	struct nlattr *expr = mnl_attr_nest_start(out, NFTA_SET_ELEM_EXPR);
	struct nlattr *data;

	mnl_attr_put_strz(out, NFTA_EXPR_NAME, "counter");
	data = mnl_attr_nest_start(out, NFTA_EXPR_DATA);
	put_be64(out, NFTA_COUNTER_BYTES, 60 * packets);
	put_be64(out, NFTA_COUNTER_PACKETS, packets);
	mnl_attr_nest_end(out, data);
	mnl_attr_nest_end(out, expr);
}

static void put_elem(const struct connection *c, struct nlmsghdr *out, const struct set *s,
		     const struct elem *e)
{
	struct nlattr *nest = mnl_attr_nest_start(out, NFTA_LIST_ELEM);

	put_bytes(out, NFTA_SET_ELEM_KEY, e->key, s->key_len);
	if (e->has_verdict) {
		struct nlattr *data = mnl_attr_nest_start(out, NFTA_SET_ELEM_DATA);
		struct nlattr *v = mnl_attr_nest_start(out, NFTA_DATA_VERDICT);

		mnl_attr_put_u32(out, NFTA_VERDICT_CODE, htonl(e->verdict));
		if (e->chain[0] != '\0')
			mnl_attr_put_strz(out, NFTA_VERDICT_CHAIN, e->chain);
		mnl_attr_nest_end(out, v);
		mnl_attr_nest_end(out, data);
	} else if (e->data_len > 0) {
		put_bytes(out, NFTA_SET_ELEM_DATA, e->data, e->data_len);
	}
	if (e->flags != 0)
		mnl_attr_put_u32(out, NFTA_SET_ELEM_FLAGS, htonl(e->flags));
	if (s->is_counting)
		put_counter(out, e->packets);
	if (c->fake->expires_ms != 0 && (s->flags & NFT_SET_TIMEOUT))
		mnl_attr_put_u64(out, NFTA_SET_ELEM_EXPIRATION, htobe64(c->fake->expires_ms));
	mnl_attr_nest_end(out, nest);
}

static struct nlmsghdr *elems_begin(char *buf, const struct nlmsghdr *h, const struct table *t,
				    const struct set *s, uint16_t flags, struct nlattr **list)
{
	struct nlmsghdr *out = begin(buf, h, TYPE(NFT_MSG_NEWSETELEM), t->family, flags);

	mnl_attr_put_strz(out, NFTA_SET_ELEM_LIST_TABLE, t->name);
	mnl_attr_put_strz(out, NFTA_SET_ELEM_LIST_SET, s->name);
	*list = mnl_attr_nest_start(out, NFTA_SET_ELEM_LIST_ELEMENTS);
	return out;
}

void answer_elem(struct connection *c, const struct nlmsghdr *h, const struct table *t,
		 const struct set *s, const struct elem *e)
{
	_Alignas(struct nlmsghdr) char buf[1024];
	struct nlattr *list;
	struct nlmsghdr *out = elems_begin(buf, h, t, s, 0, &list);

	put_elem(c, out, s, e);
	mnl_attr_nest_end(out, list);
	queue_put(c, out, out->nlmsg_len);
}

/* --- dumps --- */

static void done(struct connection *c, const struct nlmsghdr *h, uint16_t intr)
{
	_Alignas(struct nlmsghdr) char buf[64];
	struct nlmsghdr *out = mnl_nlmsg_put_header(buf);
	int *code = mnl_nlmsg_put_extra_header(out, sizeof(*code));

	out->nlmsg_type = NLMSG_DONE;
	out->nlmsg_flags = NLM_F_MULTI | intr;
	out->nlmsg_seq = h->nlmsg_seq;
	*code = 0;
	queue_put(c, out, out->nlmsg_len);
	c->fake->count.n_dumps++;
}

static bool is_family(const struct nlmsghdr *h, const struct table *t)
{
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(h);

	return g->nfgen_family == AF_UNSPEC || g->nfgen_family == t->family;
}

#define for_each_table(t, c, h)                                                        \
	for (struct list *l_##t = (c)->fake->tables.next; l_##t != &(c)->fake->tables; \
	     l_##t = l_##t->next)                                                      \
		for (struct table * (t) = list_entry(l_##t, struct table, link);       \
		     (t) != NULL && is_family((h), (t)); (t) = NULL)

void answer_dump_tables(struct connection *c, const struct nlmsghdr *h, uint16_t intr)
{
	char *buf = xmalloc(MSG_MAX);

	for_each_table(t, c, h)
	{
		struct nlmsghdr *out = table_msg(c, buf, h, t, NLM_F_MULTI | intr);

		queue_put(c, out, out->nlmsg_len);
	}
	done(c, h, intr);
	free(buf);
}

static struct nlmsghdr *chain_msg(char *buf, const struct nlmsghdr *h, const struct table *t,
				  const struct chain *ch, uint16_t flags)
{
	struct nlmsghdr *out = begin(buf, h, TYPE(NFT_MSG_NEWCHAIN), t->family, flags);

	put_attrs(out, &ch->attrs, chain_skip);
	put_be64(out, NFTA_CHAIN_HANDLE, ch->handle);
	return out;
}

void answer_chain(struct connection *c, const struct nlmsghdr *h, const struct table *t,
		  const struct chain *ch)
{
	char *buf = xmalloc(MSG_MAX);
	struct nlmsghdr *out = chain_msg(buf, h, t, ch, 0);

	queue_put(c, out, out->nlmsg_len);
	free(buf);
}

void answer_dump_chains(struct connection *c, const struct nlmsghdr *h, const char *table,
			uint16_t intr)
{
	char *buf = xmalloc(MSG_MAX);

	for_each_table(t, c, h)
	{
		if (table != NULL && strcmp(t->name, table) != 0)
			continue;
		list_for_each_entry (ch, &t->chains, struct chain, link) {
			struct nlmsghdr *out = chain_msg(buf, h, t, ch, NLM_F_MULTI | intr);

			queue_put(c, out, out->nlmsg_len);
		}
	}
	done(c, h, intr);
	free(buf);
}

void answer_dump_rules(struct connection *c, const struct nlmsghdr *h, const char *table,
		       const char *chain, uint16_t intr)
{
	char *buf = xmalloc(MSG_MAX);

	for_each_table(t, c, h)
	{
		if (table != NULL && strcmp(t->name, table) != 0)
			continue;
		list_for_each_entry (ch, &t->chains, struct chain, link) {
			if (chain != NULL && strcmp(ch->name, chain) != 0)
				continue;
			list_for_each_entry (r, &ch->rules, struct rule, link) {
				struct nlmsghdr *out = begin(buf, h, TYPE(NFT_MSG_NEWRULE),
							     t->family, NLM_F_MULTI | intr);

				put_attrs(out, &r->attrs, rule_skip);
				put_be64(out, NFTA_RULE_HANDLE, r->handle);
				queue_put(c, out, out->nlmsg_len);
			}
		}
	}
	done(c, h, intr);
	free(buf);
}

void answer_dump_sets(struct connection *c, const struct nlmsghdr *h, const char *table,
		      uint16_t intr)
{
	char *buf = xmalloc(MSG_MAX);

	for_each_table(t, c, h)
	{
		if (table != NULL && strcmp(t->name, table) != 0)
			continue;
		list_for_each_entry (s, &t->sets, struct set, link) {
			struct nlmsghdr *out =
				begin(buf, h, TYPE(NFT_MSG_NEWSET), t->family, NLM_F_MULTI | intr);

			put_attrs(out, &s->attrs, set_skip);
			mnl_attr_put_strz(out, NFTA_SET_NAME, s->name);
			put_be64(out, NFTA_SET_HANDLE, s->handle);
			queue_put(c, out, out->nlmsg_len);
		}
	}
	done(c, h, intr);
	free(buf);
}

void answer_dump_elems(struct connection *c, const struct nlmsghdr *h, const struct table *t,
		       const struct set *s, uint16_t intr)
{
	char *buf = xmalloc(MSG_MAX);
	struct nlmsghdr *out = NULL;
	struct nlattr *list = NULL;
	size_t n = 0;
	bool is_torn;

	list_for_each (l, &s->elems)
		n++;
	is_torn = n > DUMP_ELEMS && c->fake->n_torn > 0;
	c->fake->n_torn -= is_torn;
	n = 0;
	list_for_each (l, &s->elems) {
		if (n++ % DUMP_ELEMS == 0) {
			if (out != NULL) {
				mnl_attr_nest_end(out, list);
				queue_put(c, out, out->nlmsg_len);
			}
			out = elems_begin(buf, h, t, s, NLM_F_MULTI | intr, &list);
		}
		put_elem(c, out, s,
			 list_entry(is_torn && l->next == &s->elems ? s->elems.next : l,
				    struct elem, link));
	}
	if (out != NULL) {
		mnl_attr_nest_end(out, list);
		queue_put(c, out, out->nlmsg_len);
	}
	done(c, h, intr);
	free(buf);
}
