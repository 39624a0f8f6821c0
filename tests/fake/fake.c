/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/fake - effects of batches and requests. */
#include "fake/state.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nl/answer.h"
#include "nl/attr.h"

/* One batch under work. */
struct batch {
	struct fake *f;
	struct connection *c;
	struct journal journal;
	size_t n_messages;
	size_t n_adds;
	size_t n_dels;
	bool is_refused;
};

/* Result of one message: errno and the attribute. */
struct op {
	struct batch *b;
	const struct nlmsghdr *h;
	uint8_t family;
	const struct nlattr *at;
};

static void name_copy(char to[static OBJ_NAME_MAX], const struct nlattr *a)
{
	snprintf(to, OBJ_NAME_MAX, "%s", nl_attr_str(a));
}

static int bad(struct op *o, const struct nlattr *at, int error)
{
	o->at = at;
	return error;
}

/* --- tables --- */

/* Linux 6.9; headers of Linux 6.1 do not have it. */
#define TABLE_F_PERSIST 0x4
#define TABLE_F_ALL (NFT_TABLE_F_DORMANT | NFT_TABLE_F_OWNER | TABLE_F_PERSIST)

/* Updates of an existing table as in nf_tables_updtable(). */
static int table_update(struct op *o, struct table *t, uint32_t flags)
{
	uint32_t changed = t->flags ^ flags;

	if (flags == t->flags)
		return 0;
	if ((changed & TABLE_F_PERSIST) ||
	    ((changed & NFT_TABLE_F_OWNER) &&
	     (!(flags & NFT_TABLE_F_OWNER) || !(t->flags & TABLE_F_PERSIST))))
		return EOPNOTSUPP;
	journal_flags(&o->b->journal, t, flags);
	if (changed & NFT_TABLE_F_OWNER)
		t->owner = o->b->c;
	return 0;
}

static bool is_held_by_other(const struct op *o, const struct table *t)
{
	return (t->flags & NFT_TABLE_F_OWNER) && t->owner != o->b->c;
}

static int table_new(struct op *o)
{
	const struct nlattr *tb[NFTA_TABLE_MAX + 1];
	struct fake *f = o->b->f;
	uint32_t flags;
	struct table *t;

	nl_attr_table(tb, NFTA_TABLE_MAX, o->h, sizeof(struct nfgenmsg));
	flags = nl_attr_be32(tb[NFTA_TABLE_FLAGS], 0);
	if (flags & (f->no_table_flags | ~(uint32_t)TABLE_F_ALL))
		return EOPNOTSUPP;
	t = table_find(&f->tables, o->family, nl_attr_str(tb[NFTA_TABLE_NAME]));
	if (t != NULL && is_held_by_other(o, t))
		return bad(o, tb[NFTA_TABLE_NAME], EPERM);
	if (t != NULL)
		return o->h->nlmsg_flags & NLM_F_EXCL ? bad(o, tb[NFTA_TABLE_NAME], EEXIST)
						      : table_update(o, t, flags);
	t = xcalloc(1, sizeof(*t));
	t->family = o->family;
	t->flags = flags;
	t->owner = flags & NFT_TABLE_F_OWNER ? o->b->c : NULL;
	t->handle = ++f->next_handle;
	name_copy(t->name, tb[NFTA_TABLE_NAME]);
	obj_attrs_set(&t->attrs, o->h, sizeof(struct nfgenmsg));
	list_init(&t->chains);
	list_init(&t->sets);
	list_add_tail(&f->tables, &t->link);
	journal_added(&o->b->journal, OBJECT_TABLE, &t->link, NULL);
	return 0;
}

static int table_del(struct op *o)
{
	const struct nlattr *tb[NFTA_TABLE_MAX + 1];
	struct list *tables = &o->b->f->tables;
	struct table *t;

	nl_attr_table(tb, NFTA_TABLE_MAX, o->h, sizeof(struct nfgenmsg));
	t = tb[NFTA_TABLE_HANDLE] != NULL
		    ? table_find_handle(tables, o->family, nl_attr_be64(tb[NFTA_TABLE_HANDLE], 0))
		    : table_find(tables, o->family, nl_attr_str(tb[NFTA_TABLE_NAME]));
	if (t == NULL)
		return bad(o, tb[NFTA_TABLE_HANDLE] ? tb[NFTA_TABLE_HANDLE] : tb[NFTA_TABLE_NAME],
			   ENOENT);
	if (is_held_by_other(o, t))
		return bad(o, tb[NFTA_TABLE_HANDLE] ? tb[NFTA_TABLE_HANDLE] : tb[NFTA_TABLE_NAME],
			   EPERM);
	journal_del(&o->b->journal, OBJECT_TABLE, &t->link, NULL);
	return 0;
}

static struct table *table_named(struct op *o, const struct nlattr *name)
{
	struct table *t = table_find(&o->b->f->tables, o->family, nl_attr_str(name));

	if (t == NULL)
		o->at = name;
	/* The kernel returns EPERM; no test needs that, so it must not happen. */
	assert(t == NULL || !is_held_by_other(o, t));
	return t;
}

/* --- chains and rules --- */

static int chain_new(struct op *o)
{
	const struct nlattr *tb[NFTA_CHAIN_MAX + 1];
	struct table *t;
	struct chain *c;

	nl_attr_table(tb, NFTA_CHAIN_MAX, o->h, sizeof(struct nfgenmsg));
	t = table_named(o, tb[NFTA_CHAIN_TABLE]);
	if (t == NULL)
		return ENOENT;
	c = chain_find(t, nl_attr_str(tb[NFTA_CHAIN_NAME]));
	if (c != NULL) /* an update: only of the policy, and that is always accept here */
		return o->h->nlmsg_flags & NLM_F_EXCL ? bad(o, tb[NFTA_CHAIN_NAME], EEXIST) : 0;
	c = xcalloc(1, sizeof(*c));
	name_copy(c->name, tb[NFTA_CHAIN_NAME]);
	c->handle = ++o->b->f->next_handle;
	obj_attrs_set(&c->attrs, o->h, sizeof(struct nfgenmsg));
	list_init(&c->rules);
	list_add_tail(&t->chains, &c->link);
	journal_added(&o->b->journal, OBJECT_CHAIN, &c->link, NULL);
	return 0;
}

static bool rule_names(const struct rule *r, const char *name)
{
	char text[OBJ_NAME_MAX + 2] = ""; /* as an attribute: after its type, with its end */
	size_t len = strlen(name) + 2;

	memcpy(text + 1, name, len - 1);
	return memmem(r->attrs.bytes, r->attrs.len, text, len) != NULL;
}

/* Does a rule of another chain than `own` use this set or this chain? */
static bool is_in_use(const struct table *t, const char *name, const struct chain *own)
{
	list_for_each_entry (c, &t->chains, struct chain, link) {
		list_for_each (k, &c->rules)
			if (c != own && rule_names(list_entry(k, struct rule, link), name))
				return true;
	}
	return false;
}

/* With its rules. */
static int chain_del(struct op *o)
{
	const struct nlattr *tb[NFTA_CHAIN_MAX + 1];
	struct table *t;
	struct chain *c;

	nl_attr_table(tb, NFTA_CHAIN_MAX, o->h, sizeof(struct nfgenmsg));
	t = table_named(o, tb[NFTA_CHAIN_TABLE]);
	c = t != NULL ? chain_find(t, nl_attr_str(tb[NFTA_CHAIN_NAME])) : NULL;
	if (c == NULL)
		return bad(o, tb[NFTA_CHAIN_NAME], ENOENT);
	if (is_in_use(t, c->name, c))
		return bad(o, tb[NFTA_CHAIN_NAME], EBUSY);
	journal_del(&o->b->journal, OBJECT_CHAIN, &c->link, NULL);
	return 0;
}

static struct chain *rule_chain(struct op *o, const struct nlattr **tb)
{
	struct table *t;
	struct chain *c;

	nl_attr_table(tb, NFTA_RULE_MAX, o->h, sizeof(struct nfgenmsg));
	t = table_named(o, tb[NFTA_RULE_TABLE]);
	if (t == NULL)
		return NULL;
	c = chain_find(t, nl_attr_str(tb[NFTA_RULE_CHAIN]));
	if (c == NULL)
		o->at = tb[NFTA_RULE_CHAIN];
	return c;
}

static int rule_new(struct op *o)
{
	const struct nlattr *tb[NFTA_RULE_MAX + 1];
	struct chain *c = rule_chain(o, tb);
	struct rule *r;

	if (c == NULL)
		return ENOENT;
	r = xcalloc(1, sizeof(*r));
	r->handle = ++o->b->f->next_handle;
	obj_attrs_set(&r->attrs, o->h, sizeof(struct nfgenmsg));
	list_add_tail(&c->rules, &r->link);
	journal_added(&o->b->journal, OBJECT_RULE, &r->link, NULL);
	return o->b->f->no_hash && rule_names(r, "hash") ? EOPNOTSUPP : 0;
}

/* All rules of a chain, or the rule with this handle. */
static int rule_del(struct op *o)
{
	const struct nlattr *tb[NFTA_RULE_MAX + 1];
	struct chain *c = rule_chain(o, tb);
	uint64_t handle;

	if (c == NULL)
		return ENOENT;
	handle = nl_attr_be64(tb[NFTA_RULE_HANDLE], 0);
	list_for_each_safe (l, tmp, &c->rules)
		if (handle == 0 || list_entry(l, struct rule, link)->handle == handle)
			journal_del(&o->b->journal, OBJECT_RULE, l, NULL);
	return 0;
}

/* --- sets --- */

static int set_new(struct op *o)
{
	const struct nlattr *tb[NFTA_SET_MAX + 1];
	struct fake *f = o->b->f;
	struct table *t;
	struct set *s;

	nl_attr_table(tb, NFTA_SET_MAX, o->h, sizeof(struct nfgenmsg));
	t = table_named(o, tb[NFTA_SET_TABLE]);
	if (t == NULL)
		return ENOENT;
	s = set_find(t, nl_attr_str(tb[NFTA_SET_NAME]));
	if (s != NULL)
		return o->h->nlmsg_flags & NLM_F_EXCL ? bad(o, tb[NFTA_SET_NAME], EEXIST) : 0;
	s = xcalloc(1, sizeof(*s));
	name_copy(s->name, tb[NFTA_SET_NAME]);
	s->handle = ++f->next_handle;
	s->id = nl_attr_be32(tb[NFTA_SET_ID], 0);
	s->flags = nl_attr_be32(tb[NFTA_SET_FLAGS], 0);
	s->key_len = nl_attr_be32(tb[NFTA_SET_KEY_LEN], 0);
	s->data_type = nl_attr_be32(tb[NFTA_SET_DATA_TYPE], 0);
	s->data_len = s->data_type == NFT_DATA_VERDICT ? 0 : nl_attr_be32(tb[NFTA_SET_DATA_LEN], 0);
	if (strstr(s->name, "%d") != NULL) /* anonymous: the kernel chooses a number */
		snprintf(s->name, sizeof(s->name), "__set%u", (unsigned int)(s->handle & 0xffff));
	s->is_counting = tb[NFTA_SET_EXPR] != NULL;
	obj_attrs_set(&s->attrs, o->h, sizeof(struct nfgenmsg));
	list_init(&s->elems);
	list_add_tail(&t->sets, &s->link);
	journal_added(&o->b->journal, OBJECT_SET, &s->link, NULL);
	return 0;
}

/* With its elements. */
static int set_del(struct op *o)
{
	const struct nlattr *tb[NFTA_SET_MAX + 1];
	struct table *t;
	struct set *s;

	nl_attr_table(tb, NFTA_SET_MAX, o->h, sizeof(struct nfgenmsg));
	t = table_named(o, tb[NFTA_SET_TABLE]);
	s = t != NULL ? set_find(t, nl_attr_str(tb[NFTA_SET_NAME])) : NULL;
	if (s == NULL)
		return bad(o, tb[NFTA_SET_NAME], ENOENT);
	if (is_in_use(t, s->name, NULL))
		return bad(o, tb[NFTA_SET_NAME], EBUSY);
	journal_del(&o->b->journal, OBJECT_SET, &s->link, NULL);
	return 0;
}

/* The table and set of an element message or keyed read. */
static struct set *elems_set(struct fake *f, uint8_t family, const struct nlattr *const *tb,
			     struct table **ret_t, const struct nlattr **at)
{
	struct table *t = table_find(&f->tables, family, nl_attr_str(tb[NFTA_SET_ELEM_LIST_TABLE]));
	struct set *s;

	*ret_t = t;
	if (t == NULL) {
		*at = tb[NFTA_SET_ELEM_LIST_TABLE];
		return NULL;
	}
	s = set_find(t, nl_attr_str(tb[NFTA_SET_ELEM_LIST_SET]));
	if (s == NULL)
		s = set_find_id(t, nl_attr_be32(tb[NFTA_SET_ELEM_LIST_SET_ID], 0));
	if (s == NULL)
		*at = tb[NFTA_SET_ELEM_LIST_SET];
	return s;
}

/* --- elements --- */

static bool value_read(uint8_t *to, size_t len, const struct nlattr *a)
{
	const struct nlattr *tb[NFTA_DATA_MAX + 1];
	const struct nlattr *v;

	nl_attr_nest(tb, NFTA_DATA_MAX, a);
	v = tb[NFTA_DATA_VALUE];
	if (v == NULL || mnl_attr_get_payload_len(v) != len)
		return false;
	memcpy(to, mnl_attr_get_payload(v), len);
	return true;
}

/* Fill `e` from an element attribute. 0 or EINVAL. */
static int elem_read(struct elem *e, const struct set *s, const struct nlattr *attr, bool is_add)
{
	const struct nlattr *tb[NFTA_SET_ELEM_MAX + 1];
	const struct nlattr *data[NFTA_DATA_MAX + 1];
	const struct nlattr *v[NFTA_VERDICT_MAX + 1];

	nl_attr_nest(tb, NFTA_SET_ELEM_MAX, attr);
	if (s->key_len > ELEM_KEY_MAX - sizeof(uint32_t) ||
	    !value_read(e->key, s->key_len, tb[NFTA_SET_ELEM_KEY]))
		return EINVAL;
	e->key_len = (uint8_t)s->key_len;
	e->flags = nl_attr_be32(tb[NFTA_SET_ELEM_FLAGS], 0);
	if (tb[NFTA_SET_ELEM_KEY_END] != NULL)
		return EINVAL;
	if (!is_add)
		return 0;
	if ((s->data_type != 0) != (tb[NFTA_SET_ELEM_DATA] != NULL))
		return EINVAL;
	if (s->data_type == NFT_DATA_VERDICT) {
		nl_attr_nest(data, NFTA_DATA_MAX, tb[NFTA_SET_ELEM_DATA]);
		nl_attr_nest(v, NFTA_VERDICT_MAX, data[NFTA_DATA_VERDICT]);
		e->has_verdict = true;
		e->verdict = nl_attr_be32(v[NFTA_VERDICT_CODE], 0);
		name_copy(e->chain, v[NFTA_VERDICT_CHAIN]);
	} else if (s->data_type != 0) {
		if (s->data_len > sizeof(e->data) ||
		    !value_read(e->data, s->data_len, tb[NFTA_SET_ELEM_DATA]))
			return EINVAL;
		e->data_len = (uint8_t)s->data_len;
	}
	return 0;
}

static bool data_is_equal(const struct elem *a, const struct elem *b)
{
	return a->has_verdict == b->has_verdict && a->verdict == b->verdict &&
	       strcmp(a->chain, b->chain) == 0 && a->data_len == b->data_len &&
	       memcmp(a->data, b->data, a->data_len) == 0;
}

/* A failure that a test has set. */
static int ordered(struct fake *f, const char *set, const struct elem *e, bool is_add)
{
	int error = f->refuse.error;

	f->n_operations++;
	if (trap_springs(f, &f->refuse))
		return error;
	if (is_add && e != NULL && !f->is_truce && f->refuse_key.set != NFTSET_N &&
	    strcmp(set, nft_set_desc(f->refuse_key.set, IPFAM_V4)->name) == 0 &&
	    memcmp(e->key, f->refuse_key.key, f->refuse_key.len) == 0)
		return f->refuse_key.error;
	return 0;
}

static int elem_add(struct op *o, struct table *t, struct set *s, struct elem *want)
{
	struct elem *e = elem_find(s, want->key, want->key_len, want->flags);

	if (want->has_verdict && want->chain[0] != '\0' && chain_find(t, want->chain) == NULL)
		return ENOENT;
	if (e != NULL)
		return !data_is_equal(e, want) || (o->h->nlmsg_flags & NLM_F_EXCL) ? EEXIST : 0;
	e = xmalloc(sizeof(*e));
	*e = *want;
	elem_link(s, e);
	journal_added(&o->b->journal, OBJECT_ELEM, &e->link, s);
	o->b->n_adds++;
	return 0;
}

static int elem_del(struct op *o, struct set *s, const struct elem *want)
{
	struct elem *e = elem_find(s, want->key, want->key_len, want->flags);

	if (e == NULL)
		return ENOENT;
	journal_del(&o->b->journal, OBJECT_ELEM, &e->link, s);
	o->b->n_dels++;
	return 0;
}

/* The kernel processes elements in order and stops at the first invalid one. */
static int elems(struct op *o, bool is_add)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];
	struct table *t;
	struct set *s;

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, o->h, sizeof(struct nfgenmsg));
	s = elems_set(o->b->f, o->family, tb, &t, &o->at);
	if (s == NULL)
		return ENOENT;
	nl_attr_for_each (attr, tb[NFTA_SET_ELEM_LIST_ELEMENTS]) {
		struct elem e = { 0 };
		int error = elem_read(&e, s, attr, is_add);

		if (error == 0)
			error = ordered(o->b->f, s->name, &e, is_add);
		if (error == 0)
			error = is_add ? elem_add(o, t, s, &e) : elem_del(o, s, &e);
		if (error != 0)
			return bad(o, attr, error);
	}
	return 0;
}

/* --- batches --- */

static int operation(struct op *o)
{
	uint16_t msg = NFNL_MSG_TYPE(o->h->nlmsg_type);
	int error = 0;

	if (msg != NFT_MSG_NEWSETELEM && msg != NFT_MSG_DELSETELEM)
		error = ordered(o->b->f, "", NULL, false);
	if (error != 0)
		return error;
	switch (msg) {
	case NFT_MSG_NEWTABLE:
		return table_new(o);
	case NFT_MSG_DELTABLE:
		return table_del(o);
	case NFT_MSG_NEWCHAIN:
		return chain_new(o);
	case NFT_MSG_DELCHAIN:
		return chain_del(o);
	case NFT_MSG_NEWRULE:
		return rule_new(o);
	case NFT_MSG_DELRULE:
		return rule_del(o);
	case NFT_MSG_NEWSET:
		return set_new(o);
	case NFT_MSG_DELSET:
		return set_del(o);
	case NFT_MSG_NEWSETELEM:
		return elems(o, true);
	case NFT_MSG_DELSETELEM:
		return elems(o, false);
	default:
		return EOPNOTSUPP;
	}
}

static int failing(const struct fake *f, uint8_t family, enum fake_failing what)
{
	return f->failing.what == what && f->failing.family == family ? f->failing.error : 0;
}

static void message(struct batch *b, const struct nlmsghdr *h)
{
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(h);
	struct op o = { .b = b, .h = h, .family = g->nfgen_family };
	uint16_t msg = NFNL_MSG_TYPE(h->nlmsg_type);
	bool is_elem = msg == NFT_MSG_NEWSETELEM || msg == NFT_MSG_DELSETELEM;
	int error = failing(b->f, g->nfgen_family, FAKE_FAILING_WRITES);

	if (error == 0 && is_elem)
		error = failing(b->f, g->nfgen_family, FAKE_FAILING_ELEMENTS);
	if (error == 0)
		error = operation(&o);

	b->n_messages++;
	if (error != 0)
		b->is_refused = true;
	if (error != 0 || h->nlmsg_flags & NLM_F_ACK)
		answer_verdict(b->c, h, error, o.at);
}

/* Set ids name sets only within their batch. */
static void ids_forget(struct fake *f)
{
	list_for_each_entry (t, &f->tables, struct table, link) {
		list_for_each (k, &t->sets)
			list_entry(k, struct set, link)->id = 0;
	}
}

static void genid_raise(struct fake *f)
{
	if (++f->genid == 0)
		f->genid = 1;
}

static void batch_end(struct batch *b, bool has_end)
{
	struct fake *f = b->f;

	if (b->is_refused || !has_end) {
		journal_rollback(&b->journal);
		f->count.n_refused++;
		return;
	}
	ids_forget(f);
	if (b->journal.v.n >
	    0) { /* nothing to commit: the kernel does not raise the generation either */
		genid_raise(f);
		f->count.n_batches++;
	}
	journal_commit(&b->journal);
	f->count.n_messages += b->n_messages;
	f->count.n_adds += b->n_adds;
	f->count.n_dels += b->n_dels;
}

static void batch(struct connection *c, const uint8_t *data, size_t len)
{
	struct batch b = { .f = c->fake, .c = c };
	const struct nlmsghdr *h = (const void *)data;
	size_t mark = c->n_queued;
	bool has_end = false;

	for (size_t at = MNL_ALIGN(h->nlmsg_len); at + sizeof(*h) <= len;) {
		h = (const void *)(data + at);
		assert(h->nlmsg_len >= sizeof(*h) && at + h->nlmsg_len <= len);
		if (h->nlmsg_type == NFNL_MSG_BATCH_END) {
			has_end = true;
			break;
		}
		assert(NFNL_SUBSYS_ID(h->nlmsg_type) == NFNL_SUBSYS_NFTABLES);
		message(&b, h);
		at += MNL_ALIGN(h->nlmsg_len);
	}
	batch_end(&b, has_end);
	if (trap_springs(c->fake, &c->fake->lose))
		answer_lose(c, mark);
}

/* --- requests --- */

static void get_elems(struct connection *c, const struct nlmsghdr *h, uint8_t family, uint16_t intr)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];
	const struct nlattr *at = NULL;
	struct table *t;
	struct set *s;

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, h, sizeof(struct nfgenmsg));
	s = elems_set(c->fake, family, tb, &t, &at);
	if (s == NULL) {
		answer_verdict(c, h, ENOENT, at);
		return;
	}
	if (h->nlmsg_flags & NLM_F_DUMP) {
		answer_dump_elems(c, h, t, s, intr);
		return;
	}
	nl_attr_for_each (attr, tb[NFTA_SET_ELEM_LIST_ELEMENTS]) {
		struct elem want = { 0 };
		const struct elem *e = NULL;

		c->fake->count.n_gets++;
		if (elem_read(&want, s, attr, false) == 0)
			e = elem_find(s, want.key, want.key_len, want.flags);
		if (e == NULL) {
			answer_verdict(c, h, ENOENT, attr);
			return;
		}
		answer_elem(c, h, t, s, e);
	}
	answer_verdict(c, h, 0, NULL);
}

static void get_table(struct connection *c, const struct nlmsghdr *h, uint8_t family)
{
	const struct nlattr *tb[NFTA_TABLE_MAX + 1];
	const struct table *t;

	nl_attr_table(tb, NFTA_TABLE_MAX, h, sizeof(struct nfgenmsg));
	t = table_find(&c->fake->tables, family, nl_attr_str(tb[NFTA_TABLE_NAME]));
	if (t == NULL) {
		answer_verdict(c, h, ENOENT, tb[NFTA_TABLE_NAME]);
		return;
	}
	answer_table(c, h, t);
	answer_verdict(c, h, 0, NULL);
}

static void get_chain(struct connection *c, const struct nlmsghdr *h, uint8_t family)
{
	const struct nlattr *tb[NFTA_CHAIN_MAX + 1];
	const struct chain *ch;
	struct table *t;

	nl_attr_table(tb, NFTA_CHAIN_MAX, h, sizeof(struct nfgenmsg));
	t = table_find(&c->fake->tables, family, nl_attr_str(tb[NFTA_CHAIN_TABLE]));
	if (t == NULL) {
		answer_verdict(c, h, ENOENT, tb[NFTA_CHAIN_TABLE]);
		return;
	}
	ch = chain_find(t, nl_attr_str(tb[NFTA_CHAIN_NAME]));
	if (ch == NULL) {
		answer_verdict(c, h, ENOENT, tb[NFTA_CHAIN_NAME]);
		return;
	}
	answer_chain(c, h, t, ch);
	answer_verdict(c, h, 0, NULL);
}

/* NFTA_x_TABLE is attribute 1 of chains, rules and sets alike. */
static const char *dump_filter(const struct nlmsghdr *h, uint16_t type)
{
	const struct nlattr *tb[NFTA_RULE_CHAIN + 1];

	nl_attr_table(tb, NFTA_RULE_CHAIN, h, sizeof(struct nfgenmsg));
	return tb[type] ? nl_attr_str(tb[type]) : NULL;
}

static void request(struct connection *c, const struct nlmsghdr *h)
{
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(h);
	bool is_dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	uint16_t intr = 0;

	int error = c->fake->denied != 0 ? c->fake->denied
					 : failing(c->fake, g->nfgen_family, FAKE_FAILING_READS);

	if (error != 0) {
		answer_verdict(c, h, error, NULL);
		return;
	}
	if (NFNL_SUBSYS_ID(h->nlmsg_type) == NFNL_SUBSYS_NFT_COMPAT) {
		if (c->fake->loading != NULL)
			c->fake->loading(c->fake->loading_arg);
		answer_verdict(c, h, c->fake->loading != NULL ? 0 : ENOENT, NULL);
		return;
	}
	if (is_dump && (trap_springs(c->fake, &c->fake->interrupt) ||
			(c->fake->is_interrupting && !c->fake->is_truce))) {
		intr = NLM_F_DUMP_INTR;
		c->fake->is_interrupting |= c->fake->interrupt.error != 0;
	}
	c->is_dump = is_dump;
	switch (NFNL_MSG_TYPE(h->nlmsg_type)) {
	case NFT_MSG_GETGEN:
		answer_genid(c, h);
		answer_verdict(c, h, 0, NULL);
		break;
	case NFT_MSG_GETTABLE:
		if (is_dump)
			answer_dump_tables(c, h, intr);
		else
			get_table(c, h, g->nfgen_family);
		break;
	case NFT_MSG_GETCHAIN:
		if (is_dump)
			answer_dump_chains(c, h, dump_filter(h, NFTA_CHAIN_TABLE), intr);
		else
			get_chain(c, h, g->nfgen_family);
		break;
	case NFT_MSG_GETRULE:
		assert(is_dump);
		answer_dump_rules(c, h, dump_filter(h, NFTA_RULE_TABLE),
				  dump_filter(h, NFTA_RULE_CHAIN), intr);
		break;
	case NFT_MSG_GETSET:
		assert(is_dump);
		answer_dump_sets(c, h, dump_filter(h, NFTA_SET_TABLE), intr);
		break;
	case NFT_MSG_GETSETELEM:
		get_elems(c, h, g->nfgen_family, intr);
		break;
	default:
		answer_verdict(c, h, EOPNOTSUPP, NULL);
	}
	c->is_dump = false;
}

/* --- the seam --- */

static ssize_t io_send(void *ctx, const void *data, size_t len)
{
	struct connection *c = ctx;
	const struct nlmsghdr *h = data;
	int error = c->fake->send.error;

	assert(len >= sizeof(*h) && h->nlmsg_len <= len);
	if (trap_springs(c->fake, &c->fake->send))
		return -error;
	if (h->nlmsg_type == NFNL_MSG_BATCH_BEGIN)
		batch(c, data, len);
	else
		nl_for_each_message (m, data, len)
			request(c, m);
	return (ssize_t)len;
}

static ssize_t io_recv(void *ctx, void *data, size_t size)
{
	return answer_take(ctx, data, size);
}

/* nft_rcv_nl_event(): persistent tables lose their owner, others end, without a new generation. */
static void tables_orphan(const struct connection *c)
{
	list_for_each_entry_safe (t, tmp, &c->fake->tables, struct table, link) {
		if (!(t->flags & NFT_TABLE_F_OWNER) || t->owner != c)
			continue;
		t->flags &= ~(uint32_t)NFT_TABLE_F_OWNER;
		t->owner = NULL;
		if (t->flags & TABLE_F_PERSIST)
			continue;
		list_del(&t->link);
		table_free(t);
	}
}

static void io_close(void *ctx)
{
	struct connection *c = ctx;

	answer_clear(c);
	tables_orphan(c);
	c->fake->n_connections--;
	free(c);
}

struct nl_io fake_io(struct fake *f)
{
	struct connection *c = xcalloc(1, sizeof(*c));

	c->fake = f;
	list_init(&c->queue);
	f->n_connections++;
	return (struct nl_io){ .send = io_send, .recv = io_recv, .close = io_close, .ctx = c };
}

struct nl_sock *fake_connect(struct fake *f)
{
	struct nl_io io = fake_io(f);
	struct nl_sock *nl;

	nl_sock_open_io(&nl, &io);
	return nl;
}

void fake_open(struct fake **ret)
{
	struct fake *f = xcalloc(1, sizeof(*f));

	list_init(&f->tables);
	f->genid = 1;
	f->refuse_key.set = NFTSET_N;
	*ret = f;
}

void fake_close(struct fake *f)
{
	if (f == NULL)
		return;
	assert(f->n_connections == 0);
	list_for_each_safe (l, tmp, &f->tables)
		table_free(list_entry(l, struct table, link));
	free(f);
}

/* --- trouble, others, and what it holds --- */

struct fake_count fake_count(const struct fake *f)
{
	return f->count;
}

void fake_count_reset(struct fake *f)
{
	f->count = (struct fake_count){ 0 };
}

uint32_t fake_genid(const struct fake *f)
{
	return f->genid;
}

size_t fake_operations(const struct fake *f)
{
	return f->n_operations;
}

void fake_fail_send(struct fake *f, size_t k, int error)
{
	f->send = (struct trap){ k, error };
}

void fake_refuse(struct fake *f, size_t k, int error)
{
	f->refuse = (struct trap){ k, error };
}

void fake_refuse_key(struct fake *f, enum nft_set_id set, const void *key, size_t len, int error)
{
	f->refuse_key.set = set;
	f->refuse_key.len = len;
	f->refuse_key.error = error;
	assert(len <= sizeof(f->refuse_key.key));
	if (len > 0)
		memcpy(f->refuse_key.key, key, len);
}

void fake_lose_answer(struct fake *f, size_t k)
{
	f->lose = (struct trap){ k, 0 };
}

void fake_interrupt_dump(struct fake *f, size_t k, bool forever)
{
	f->interrupt = (struct trap){ k, forever };
	f->is_interrupting = false;
}

void fake_tear_dumps(struct fake *f, size_t n)
{
	f->n_torn = n;
}

void fake_loading(struct fake *f, void (*fn)(void *arg), void *arg)
{
	f->loading = fn;
	f->loading_arg = arg;
}

void fake_no_hash(struct fake *f, bool on)
{
	f->no_hash = on;
}

void fake_no_table_flags(struct fake *f, uint32_t flags)
{
	f->no_table_flags = flags;
}

void fake_expire(struct fake *f, uint64_t ms)
{
	f->expires_ms = ms;
}

void fake_no_offsets(struct fake *f, bool on)
{
	f->no_offsets = on;
}

void fake_deny(struct fake *f, int error)
{
	f->denied = error;
}

static uint8_t nfproto(enum ipfam fam)
{
	return fam == IPFAM_V6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
}

void fake_fail_family(struct fake *f, enum ipfam fam, enum fake_failing what, int error)
{
	f->failing.what = what;
	f->failing.family = nfproto(fam);
	f->failing.error = error;
}

void fake_recv_limit(struct fake *f, size_t n)
{
	f->recv_limit = n;
}

void fake_truce(struct fake *f, bool on)
{
	f->is_truce = on;
}

void fake_calm(struct fake *f)
{
	f->send = f->refuse = f->lose = f->interrupt = (struct trap){ 0 };
	f->is_interrupting = false;
	f->n_torn = 0;
	f->no_offsets = false;
	f->denied = 0;
	f->failing.what = FAKE_FAILING_NONE;
	f->recv_limit = 0;
	f->refuse_key.set = NFTSET_N;
}

/* The oldest table of the family with a name of vipd's, and its set. */
static struct set *set_ours(const struct fake *f, enum ipfam fam, enum nft_set_id set)
{
	uint8_t family = set >= IPVSSET_BEGIN ? NFPROTO_INET : nfproto(fam);

	list_for_each_entry (t, &f->tables, struct table, link) {
		struct set *s = t->family == family && strncmp(t->name, "vipd", 4) == 0
					? set_find(t, nft_set_desc(set, fam)->name)
					: NULL;

		if (s != NULL)
			return s;
	}
	return NULL;
}

void fake_foreign_commit(struct fake *f)
{
	genid_raise(f);
}

bool fake_foreign_del(struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key)
{
	struct set *s = set_ours(f, fam, set);
	struct elem *e = s ? elem_find(s, key, s->key_len, 0) : NULL;
	struct journal j = { 0 };

	if (e == NULL)
		return false;
	journal_del(&j, OBJECT_ELEM, &e->link, s);
	journal_commit(&j);
	genid_raise(f);
	return true;
}

void fake_foreign_add(struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key,
		      const void *data)
{
	struct set *s = set_ours(f, fam, set);
	struct elem *e = xcalloc(1, sizeof(*e));

	assert(s != NULL && elem_find(s, key, s->key_len, 0) == NULL);
	e->key_len = (uint8_t)s->key_len;
	memcpy(e->key, key, e->key_len);
	e->data_len = (uint8_t)s->data_len;
	if (e->data_len > 0)
		memcpy(e->data, data, e->data_len);
	elem_link(s, e);
	genid_raise(f);
}

void fake_foreign_flush(struct fake *f, enum ipfam fam)
{
	list_for_each_entry_safe (t, tmp, &f->tables, struct table, link) {
		if (t->family != nfproto(fam) || (t->flags & NFT_TABLE_F_OWNER))
			continue;
		list_del(&t->link);
		table_free(t);
	}
	genid_raise(f);
}

void fake_foreign_version(struct fake *f)
{
	list_for_each (l, &f->tables) {
		const struct obj_attrs *a = &list_entry(l, struct table, link)->attrs;
		char *at = memmem(a->bytes, a->len, " layout ", 8);

		if (at != NULL)
			at[8] = '0';
	}
	genid_raise(f);
}

const uint8_t *fake_find(const struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key)
{
	struct set *s = set_ours(f, fam, set);
	struct elem *e = s ? elem_find(s, key, s->key_len, 0) : NULL;

	return e ? e->data : NULL;
}

void fake_packets(struct fake *f, enum ipfam fam, enum nft_set_id set, const void *key,
		  uint64_t packets)
{
	struct set *s = set_ours(f, fam, set);
	struct elem *e = s ? elem_find(s, key, s->key_len, 0) : NULL;

	assert(e != NULL && s->is_counting);
	e->packets = packets;
}

size_t fake_set_size(const struct fake *f, enum ipfam fam, enum nft_set_id set)
{
	const struct set *s = set_ours(f, fam, set);

	return s ? s->index.count : 0;
}

size_t fake_chain_count(const struct fake *f, enum ipfam fam)
{
	size_t n = 0;

	list_for_each_entry (t, &f->tables, struct table, link) {
		if (t->family != nfproto(fam))
			continue;
		list_for_each (k, &t->chains)
			n++;
	}
	return n;
}

uint64_t fake_table_with(const struct fake *f, const char *name)
{
	list_for_each_entry (t, &f->tables, struct table, link) {
		if (set_find(t, name) != NULL || chain_find(t, name) != NULL)
			return t->handle;
	}
	return 0;
}
