/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/write.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */
#include <stdio.h>     /* libnftnl/expr.h needs FILE */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>

#include "nl/attr.h"

/* An element takes at most 80 bytes, and the list's length has 16 bits. */
#define ELEMENTS_MAX 500

static const uint8_t l4protos[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP };

void nft_writer_init(struct nft_writer *w, struct nl_sock *nl, const struct nft_schema *schema,
		     enum ipfam fam, const char *table)
{
	*w = (struct nft_writer){ .fam = fam, .table = table, .schema = schema };
	w->family = nft_schema_family(schema, fam);
	nl_batch_open(&w->batch, nl);
}

void nft_writer_fini(struct nft_writer *w)
{
	nl_batch_close(w->batch);
	vec_free_all(&w->tags);
}

/* Append a message with a formatted tag. */
PRINTF_LIKE(4, 5)
static struct nlmsghdr *message(struct nft_writer *w, uint16_t msg, uint16_t flags, const char *fmt,
				...)
{
	va_list ap;
	char *tag;

	va_start(ap, fmt);
	tag = xvasprintf(fmt, ap);
	va_end(ap);
	*vec_push(&w->tags) = tag;
	w->n_writes++;
	return nl_batch_msg(w->batch, NFT_TYPE(msg), flags, w->family, tag);
}

static void put_be32(struct nlmsghdr *h, uint16_t type, uint32_t value)
{
	mnl_attr_put_u32(h, type, htonl(value));
}

void nft_write_table(struct nft_writer *w, uint32_t flags)
{
	struct nlmsghdr *h =
		message(w, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, "table %s", w->table);
	uint8_t udata[2 + NFT_TABLE_COMMENT_MAX];
	int n;

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, w->table);
	put_be32(h, NFTA_TABLE_FLAGS, flags);
	n = snprintf((char *)udata + 2, sizeof(udata) - 2, "%s%d", w->schema->comment,
		     w->schema->version);
	udata[0] = 0; /* a comment */
	udata[1] = (uint8_t)(n + 1);
	mnl_attr_put(h, NFTA_TABLE_USERDATA, (size_t)n + 3, udata);
}

void nft_write_table_flags(struct nft_writer *w, uint32_t flags)
{
	struct nlmsghdr *h = message(w, NFT_MSG_NEWTABLE, 0, "table %s", w->table);

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, w->table);
	put_be32(h, NFTA_TABLE_FLAGS, flags);
}

void nft_write_table_del(struct nft_writer *w, uint64_t handle)
{
	struct nlmsghdr *h = message(w, NFT_MSG_DELTABLE, 0, "deletion of a table");

	mnl_attr_put_u64(h, NFTA_TABLE_HANDLE, htobe64(handle));
}

static void set_put(struct nft_writer *w, struct nlmsghdr *h, const struct nft_set_desc *d)
{
	struct nlattr *desc;

	mnl_attr_put_strz(h, NFTA_SET_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_SET_NAME, d->name);
	put_be32(h, NFTA_SET_FLAGS, d->flags);
	put_be32(h, NFTA_SET_KEY_TYPE, d->key_type);
	put_be32(h, NFTA_SET_KEY_LEN, d->key_len);
	if (d->data_type != 0)
		put_be32(h, NFTA_SET_DATA_TYPE, d->data_type);
	if (d->data_len != 0)
		put_be32(h, NFTA_SET_DATA_LEN, d->data_len);
	put_be32(h, NFTA_SET_ID, ++w->last_set_id);
	if (d->timeout_ms != 0)
		mnl_attr_put_u64(h, NFTA_SET_TIMEOUT, htobe64(d->timeout_ms));
	if (d->gc_ms != 0)
		put_be32(h, NFTA_SET_GC_INTERVAL, d->gc_ms);
	if (d->size != 0) {
		desc = mnl_attr_nest_start(h, NFTA_SET_DESC);
		put_be32(h, NFTA_SET_DESC_SIZE, d->size);
		mnl_attr_nest_end(h, desc);
	}
	mnl_attr_put(h, NFTA_SET_USERDATA, d->userdata_len, d->userdata);
}

void nft_write_set(struct nft_writer *w, enum nft_set_id id)
{
	const struct nft_set_desc *d = nft_set_desc(id, w->fam);
	struct nlmsghdr *h =
		message(w, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_EXCL, "set %s", d->name);
	struct nlattr *expr;

	set_put(w, h, d);
	if (!nft_set_counts(id, w->counting))
		return;
	/* Expression that the kernel copies to every element. */
	expr = mnl_attr_nest_start(h, NFTA_SET_EXPR);
	mnl_attr_put_strz(h, NFTA_EXPR_NAME, "counter");
	mnl_attr_nest_end(h, mnl_attr_nest_start(h, NFTA_EXPR_DATA));
	mnl_attr_nest_end(h, expr);
}

void nft_write_set_del(struct nft_writer *w, enum nft_set_id id)
{
	const char *name = nft_set_desc(id, w->fam)->name;
	struct nlmsghdr *h = message(w, NFT_MSG_DELSET, 0, "deletion of set %s", name);

	mnl_attr_put_strz(h, NFTA_SET_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_SET_NAME, name);
}

void nft_write_chain(struct nft_writer *w, const char *name, const struct nft_chain *base)
{
	struct nlmsghdr *h =
		message(w, NFT_MSG_NEWCHAIN, NLM_F_CREATE | (base != NULL ? NLM_F_EXCL : 0),
			"chain %s", name);
	struct nlattr *hook;

	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, name);
	if (base == NULL)
		return;
	hook = mnl_attr_nest_start(h, NFTA_CHAIN_HOOK);
	put_be32(h, NFTA_HOOK_HOOKNUM, base->hook);
	put_be32(h, NFTA_HOOK_PRIORITY, (uint32_t)base->priority);
	mnl_attr_nest_end(h, hook);
	put_be32(h, NFTA_CHAIN_POLICY, NF_ACCEPT);
	mnl_attr_put_strz(h, NFTA_CHAIN_TYPE, base->type);
}

/* Set policy accept of an existing base chain. */
static void write_chain_policy(struct nft_writer *w, const char *name)
{
	struct nlmsghdr *h = message(w, NFT_MSG_NEWCHAIN, 0, "policy of chain %s", name);

	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, name);
	put_be32(h, NFTA_CHAIN_POLICY, NF_ACCEPT);
}

static void write_rules_del(struct nft_writer *w, const char *chain)
{
	struct nlmsghdr *h = message(w, NFT_MSG_DELRULE, 0, "old rules of chain %s", chain);

	mnl_attr_put_strz(h, NFTA_RULE_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_RULE_CHAIN, chain);
}

static struct nlattr *elements_begin(struct nft_writer *w, struct nlmsghdr *h, const char *set,
				     uint32_t set_id)
{
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	if (set_id != 0)
		put_be32(h, NFTA_SET_ELEM_LIST_SET_ID, set_id);
	return mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
}

static void key_put(struct nlmsghdr *h, const void *key, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);

	mnl_attr_put(h, NFTA_DATA_VALUE, len, key);
	mnl_attr_nest_end(h, nest);
}

/* Write the inline set of a rule; returns the set's id. */
static uint32_t l4protos_put(struct nft_writer *w, const char *chain)
{
	const struct nft_set_desc *d = nft_set_desc_l4protos();
	struct nlmsghdr *h =
		message(w, NFT_MSG_NEWSET, NLM_F_CREATE, "inline set of chain %s", chain);
	struct nlattr *list;

	set_put(w, h, d);
	h = message(w, NFT_MSG_NEWSETELEM, NLM_F_CREATE, "inline set of chain %s", chain);
	list = elements_begin(w, h, d->name, w->last_set_id);
	for (size_t i = 0; i < ARRAY_SIZE(l4protos); i++) {
		struct nlattr *e = mnl_attr_nest_start(h, NFTA_LIST_ELEM);

		key_put(h, &l4protos[i], sizeof(l4protos[i]));
		mnl_attr_nest_end(h, e);
	}
	mnl_attr_nest_end(h, list);
	return w->last_set_id;
}

static void rule_put(struct nft_writer *w, const char *chain, size_t number, struct nft_rule *r)
{
	uint8_t udata[2 + sizeof(r->hash)] = { NFT_RULE_UDATA_HASH, sizeof(r->hash) };
	struct nlmsghdr *h;

	assert(r->hash != 0);
	memcpy(udata + 2, &r->hash, sizeof(r->hash));
	if (r->l4protos != NULL)
		nftnl_expr_set_u32(r->l4protos, NFTNL_EXPR_LOOKUP_SET_ID, l4protos_put(w, chain));
	nftnl_rule_set_str(r->r, NFTNL_RULE_TABLE, w->table);
	nftnl_rule_set_str(r->r, NFTNL_RULE_CHAIN, chain);
	nftnl_rule_set_data(r->r, NFTNL_RULE_USERDATA, udata, sizeof(udata));
	h = message(w, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, "chain %s, rule %zu", chain,
		    number);
	nftnl_rule_nlmsg_build_payload(h, r->r);
}

void nft_write_rules(struct nft_writer *w, const char *chain, struct nft_rules *rs)
{
	nft_rules_hash(rs);
	for (size_t i = 0; i < rs->v.n; i++)
		rule_put(w, chain, i + 1, &rs->v.v[i]);
}

/* Begin an element; in the last message, if that is a list of such elements. */
static struct nlmsghdr *element_begin(struct nft_writer *w, uint16_t msg, enum nft_set_id set)
{
	const char *name = nft_set_desc(set, w->fam)->name;
	struct nft_writer_list *l = &w->list;

	if (l->end != nl_batch_count(w->batch) || l->msg != msg || l->set != name ||
	    l->n == ELEMENTS_MAX) {
		*l = (struct nft_writer_list){ .msg = msg, .set = name };
		l->h = message(w, msg, msg == NFT_MSG_NEWSETELEM ? NLM_F_CREATE | NLM_F_EXCL : 0,
			       "elements of %s", name);
		w->n_writes--; /* elements are counted one by one */
		l->list = elements_begin(w, l->h, name, 0);
		l->end = nl_batch_count(w->batch);
	}
	l->n++;
	w->n_writes++;
	l->elem = mnl_attr_nest_start(l->h, NFTA_LIST_ELEM);
	return l->h;
}

static void element_end(struct nft_writer *w)
{
	mnl_attr_nest_end(w->list.h, w->list.elem);
	mnl_attr_nest_end(w->list.h, w->list.list); /* so far */
}

void nft_write_verdict_del(struct nft_writer *w, enum nft_set_id map, uint32_t kind)
{
	key_put(element_begin(w, NFT_MSG_DELSETELEM, map), &kind, sizeof(kind));
	element_end(w);
}

void nft_write_verdict(struct nft_writer *w, enum nft_set_id map, const struct nft_verdict *v)
{
	struct nlmsghdr *h = element_begin(w, NFT_MSG_NEWSETELEM, map);
	struct nlattr *data, *verdict;

	key_put(h, &v->kind, sizeof(v->kind));
	data = mnl_attr_nest_start(h, NFTA_SET_ELEM_DATA);
	verdict = mnl_attr_nest_start(h, NFTA_DATA_VERDICT);
	put_be32(h, NFTA_VERDICT_CODE, (uint32_t)v->code);
	mnl_attr_put_strz(h, NFTA_VERDICT_CHAIN, v->chain);
	mnl_attr_nest_end(h, verdict);
	mnl_attr_nest_end(h, data);
	element_end(w);
}

static void ranges_put(struct nft_writer *w, enum nft_set_id set, const struct nft_bounds *bounds,
		       uint16_t msg)
{
	vec_for_each (b, &bounds->v) {
		struct nlmsghdr *h = element_begin(w, msg, set);

		if (b->is_end)
			put_be32(h, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
		key_put(h, b->key, ip_len(w->fam));
		element_end(w);
	}
}

/*
 * The expression that the kernel does not support, if its error points to one: at the list
 * element or at the name inside.
 */
static const char *expr_rejected(const struct nl_rejection *f)
{
	const struct nlattr *at;

	if (f->error != -ENOENT || f->msg == NULL || !f->has_offset ||
	    f->msg->nlmsg_type != NFT_TYPE(NFT_MSG_NEWRULE) ||
	    f->offset + sizeof(*at) > f->msg->nlmsg_len)
		return "";
	at = (const void *)((const char *)f->msg + f->offset);
	if (at->nla_len < sizeof(*at) || f->offset + at->nla_len > f->msg->nlmsg_len)
		return "";
	if (mnl_attr_get_type(at) == NFTA_EXPR_NAME && !(at->nla_type & NLA_F_NESTED))
		return nl_attr_str(at);
	return nl_attr_str(nl_attr_find(at, NFTA_EXPR_NAME));
}

int nft_writer_commit(struct nft_writer *w, struct nft_result *res, struct err *err)
{
	const char *family = nft_family_text(w->family);
	const struct nl_rejection *f;
	uint64_t took;
	int r;

	if (nl_batch_count(w->batch) == 0)
		return 0;
	took = now_ns();
	r = nl_batch_commit(w->batch, err);
	took = now_ns() - took;
	if (res != NULL) {
		res->kernel_ns += took;
		res->n_batches += r == 0;
		res->n_writes += r == 0 ? w->n_writes : 0;
	}
	if (r == 0)
		return 0;
	f = nl_batch_rejection(w->batch);
	if (expr_rejected(f)[0] != '\0')
		return err_set(err, -EOPNOTSUPP, "%s %s: %s: the kernel lacks '%s' (module nft_%s)",
			       family, w->table, (const char *)f->tag, expr_rejected(f),
			       expr_rejected(f));
	if (f->tag != NULL)
		return err_wrap(err, r, "%s %s: %s", family, w->table, (const char *)f->tag);
	return err_wrap(err, r, "%s %s", family, w->table);
}

bool nft_writer_is_table_rejected(const struct nft_writer *w)
{
	const struct nl_rejection *f = nl_batch_rejection(w->batch);

	return f->msg != NULL && NFNL_MSG_TYPE(f->msg->nlmsg_type) == NFT_MSG_NEWTABLE &&
	       (f->error == -EOPNOTSUPP || f->error == -EINVAL);
}

/* --- differences between kernel and desired state --- */

struct nft_fixed_chain *nft_ensure_chain(struct nft_writer *w, struct nft_fixed *h,
					 const char *name, const struct nft_chain *base)
{
	struct nft_fixed_chain *c = nft_fixed_chain(h, name);

	if (c == NULL) {
		nft_write_chain(w, name, base);
		c = nft_fixed_chain_get(h, name);
		c->is_fresh = true;
	} else if (base != NULL && c->policy != NF_ACCEPT) {
		write_chain_policy(w, name);
		c->policy = NF_ACCEPT;
	}
	return c;
}

void nft_remove_chain(struct nft_writer *w, struct nft_fixed *fixed, const char *name)
{
	struct nlmsghdr *h;

	if (nft_fixed_chain(fixed, name) == NULL)
		return;
	h = message(w, NFT_MSG_DELCHAIN, 0, "deletion of chain %s", name);
	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, w->table);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, name);
	nft_fixed_chain_del(fixed, name);
}

static bool chain_has_rules(const struct nft_fixed_chain *c, struct nft_rules *rs)
{
	nft_rules_hash(rs);
	if (c->hashes.n != rs->v.n)
		return false;
	for (size_t i = 0; i < rs->v.n; i++)
		if (c->hashes.v[i] != (rs->v.v[i].hash ^ rs->v.v[i].target))
			return false;
	return true;
}

void nft_ensure_rules(struct nft_writer *w, struct nft_fixed_chain *c, struct nft_rules *rs)
{
	if (chain_has_rules(c, rs))
		return;
	if (c->hashes.n > 0)
		write_rules_del(w, c->name);
	nft_write_rules(w, c->name, rs);
	vec_clear(&c->hashes);
	vec_for_each (r, &rs->v)
		*vec_push(&c->hashes) = r->hash ^ r->target;
}

void nft_ensure_chains(struct nft_writer *w, struct nft_fixed *h, const void *ctx)
{
	const struct nft_chain *c;

	htable_for_each_entry_safe (chain, tmp, &h->chains, struct nft_fixed_chain)
		if (chain->is_stray)
			nft_remove_chain(w, h, chain->name);
	/* A rule may only name chains that exist. */
	for (size_t i = 0; (c = w->schema->chain(i)) != NULL; i++) {
		if (w->schema->build(ctx, NULL, w->fam, i))
			(void)nft_ensure_chain(w, h, c->name, c->type != NULL ? c : NULL);
		else
			nft_remove_chain(w, h, c->name);
	}
	for (size_t i = 0; (c = w->schema->chain(i)) != NULL; i++) {
		FINI(nft_rules_fini) struct nft_rules rs = { 0 };

		if (w->schema->build(ctx, &rs, w->fam, i))
			nft_ensure_rules(w, nft_fixed_chain(h, c->name), &rs);
	}
}

void nft_ensure_sets(struct nft_writer *w, struct nft_fixed *h)
{
	for (enum nft_set_id id = w->schema->begin; id < w->schema->end; id++) {
		if (h->has_set[id] || !nft_set_exists(id, w->counting))
			continue;
		nft_write_set(w, id);
		h->has_set[id] = true;
	}
}

void nft_ensure_ranges(struct nft_writer *w, struct nft_fixed *h, unsigned int index,
		       const struct ip_prefix *prefixes, size_t n)
{
	enum nft_set_id set = w->schema->ranges + index;
	struct nft_bounds *programmed = &h->ranges[index];
	AUTO(vec_fini) struct nft_bounds desired = { 0 };

	nft_bounds_from(&desired, w->fam, prefixes, n);
	if (vec_is_equal(&programmed->v, &desired.v))
		return;
	/* Few and rarely changed: replace all in one message, so that ranges never overlap. */
	ranges_put(w, set, programmed, NFT_MSG_DELSETELEM);
	ranges_put(w, set, &desired, NFT_MSG_NEWSETELEM);
	vec_fini(&programmed->v);
	vec_move(&programmed->v, &desired.v);
}

/* --- tables as a whole --- */

int nft_table_delete(struct nl_sock *nl, const struct nft_schema *schema,
		     const struct nft_fixed_table *t, struct nft_result *res, struct err *err)
{
	FINI(nft_writer_fini) struct nft_writer w;
	int r;

	nft_writer_init(&w, nl, schema, IPFAM_V4, t->name);
	w.family = t->family;
	nft_write_table_del(&w, t->handle);
	r = nft_writer_commit(&w, res, err);
	return r == -ENOENT ? 0 : r;
}

int nft_tables_delete(struct nl_sock *nl, const struct nft_schema *schema, enum ipfam fam,
		      struct nft_result *res, struct err *err)
{
	AUTO(vec_fini) struct nft_fixed_tables tables = { 0 };
	int r = nft_fixed_tables_read(&tables, nl, fam, schema, err);

	vec_for_each (t, &tables.v) {
		if (r == 0 && t->is_ours)
			r = nft_fixed_owner_check(t, nl, err);
		if (r == 0 && t->is_ours)
			r = nft_table_delete(nl, schema, t, res, err);
	}
	return r;
}
