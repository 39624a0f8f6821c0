/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/fixed.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "nft/elem.h"
#include "nft/expr.h"
#include "nl/attr.h"
#include "nl/dump.h"

#define REQUEST_MAX 512

void nft_table_name(char buf[static NFT_TABLE_NAME_MAX], const char *base, int i)
{
	if (i == 1)
		(void)snprintf(buf, NFT_TABLE_NAME_MAX, "%s", base);
	else
		(void)snprintf(buf, NFT_TABLE_NAME_MAX, "%s-%d", base, i);
}

static void chain_free(struct nft_fixed *h, struct nft_fixed_chain *c)
{
	htable_remove(&h->chains, &c->node);
	vec_fini(&c->hashes);
	free(c->name);
	free(c);
}

static void chains_clear(struct nft_fixed *h)
{
	htable_for_each_entry_safe (c, tmp, &h->chains, struct nft_fixed_chain)
		chain_free(h, c);
	htable_fini(&h->chains);
}

static void verdicts_clear(struct nft_fixed *h, unsigned int map)
{
	if (h->verdicts[map] != NULL)
		vec_fini(&h->verdicts[map]->v);
	free(TAKE(h->verdicts[map]));
}

void nft_fixed_fini(struct nft_fixed *h)
{
	chains_clear(h);
	for (unsigned int i = 0; i < NFT_VERDICT_MAPS; i++)
		verdicts_clear(h, i);
	for (unsigned int i = 0; i < NFT_RANGE_SETS; i++)
		vec_fini(&h->ranges[i].v);
	*h = (struct nft_fixed){ 0 };
}

struct nft_fixed_chain *nft_fixed_chain(const struct nft_fixed *h, const char *name)
{
	return htable_find(&h->chains, hash_bytes(name, strlen(name)), struct nft_fixed_chain, c,
			   strcmp(c->name, name) == 0);
}

struct nft_fixed_chain *nft_fixed_chain_get(struct nft_fixed *h, const char *name)
{
	struct nft_fixed_chain *c = nft_fixed_chain(h, name);

	if (c != NULL)
		return c;
	c = xcalloc(1, sizeof(*c));
	c->name = xstrdup(name);
	c->policy = NF_ACCEPT;
	htable_insert(&h->chains, &c->node, hash_bytes(name, strlen(name)));
	return c;
}

void nft_fixed_chain_del(struct nft_fixed *h, const char *name)
{
	struct nft_fixed_chain *c = nft_fixed_chain(h, name);

	if (c != NULL)
		chain_free(h, c);
}

struct nft_verdict *nft_fixed_verdict(const struct nft_fixed *h, unsigned int map, uint32_t kind)
{
	const struct nft_fixed_verdicts *all = h->verdicts[map];
	size_t at = all != NULL && kind < NFT_FIXED_KINDS ? all->at[kind] : 0;

	return at > 0 && all->v.v[at - 1].exists ? &all->v.v[at - 1] : NULL;
}

void nft_fixed_verdict_put(struct nft_fixed *h, unsigned int map, const struct nft_verdict *v)
{
	struct nft_fixed_verdicts *all = h->verdicts[map];
	struct nft_verdict *to;

	assert(v->kind < NFT_FIXED_KINDS);
	if (all == NULL)
		h->verdicts[map] = all = xcalloc(1, sizeof(*all));
	if (all->at[v->kind] == 0) {
		(void)vec_push(&all->v);
		all->at[v->kind] = (uint16_t)all->v.n;
	}
	to = &all->v.v[all->at[v->kind] - 1];
	*to = *v;
	to->exists = true;
}

/* Argument of the readers below. */
struct reading {
	struct nft_fixed *programmed;
	const struct nft_schema *schema;
	enum ipfam fam;
	const char *table;
	unsigned int counting;
	const struct nft_chain *chain;
	unsigned int index; /* of the map or set */
	struct nft_walk walk;
	uint64_t packets, bytes;
};

static uint8_t family_of(const struct reading *rd)
{
	return nft_schema_family(rd->schema, rd->fam);
}

/* The value of TLV `type` in userdata; NULL when there is none. */
static const uint8_t *udata_find(const struct nlattr *a, uint8_t type, size_t *len)
{
	const uint8_t *p = nl_attr_bytes(a, 0);
	size_t n = p != NULL ? mnl_attr_get_payload_len(a) : 0;

	while (n >= 2 && (size_t)p[1] + 2 <= n) {
		if (p[0] == type) {
			*len = p[1];
			return p + 2;
		}
		n -= (size_t)p[1] + 2;
		p += (size_t)p[1] + 2;
	}
	return NULL;
}

const char *nft_table_comment(const struct nlattr *udata)
{
	/* TLV 0 is the comment (libnftnl, NFTNL_UDATA_TABLE_COMMENT). */
	size_t len;
	const uint8_t *comment = udata_find(udata, 0, &len);

	return comment != NULL && memchr(comment, '\0', len) != NULL ? (const char *)comment : "";
}

/* Argument of table_message(). */
struct table {
	struct nft_fixed_table *ret;
	const struct nft_schema *schema;
};

static void table_message(void *arg, const struct nlmsghdr *h)
{
	const struct table *q = arg;
	const struct nlattr *tb[NFTA_TABLE_MAX + 1];
	struct nft_fixed_table *t = q->ret;
	size_t len = strlen(q->schema->comment);
	const char *comment;

	nl_attr_table(tb, NFTA_TABLE_MAX, h, sizeof(struct nfgenmsg));
	t->owner = nl_attr_be32(tb[NFTA_TABLE_OWNER], 0);
	t->handle = nl_attr_be64(tb[NFTA_TABLE_HANDLE], 0);
	t->flags = nl_attr_be32(tb[NFTA_TABLE_FLAGS], 0);
	comment = nft_table_comment(tb[NFTA_TABLE_USERDATA]);
	t->is_ours = strncmp(comment, q->schema->comment, len) == 0;
	t->version = t->is_ours ? (int)strtol(comment + len, NULL, 10) : 0;
}

int nft_fixed_table_read(struct nft_fixed_table *ret, struct nl_sock *nl, enum ipfam fam,
			 const struct nft_schema *schema, const char *name, struct err *err)
{
	struct table q = { ret, schema };
	char buf[REQUEST_MAX];
	struct nlmsghdr *h;
	int r;

	*ret = (struct nft_fixed_table){ .family = nft_schema_family(schema, fam) };
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	h = nl_request_nfnl(buf, sizeof(buf), NFT_TYPE(NFT_MSG_GETTABLE), ret->family);
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, name);
	r = nl_query(nl, h, &(struct nl_reader){ .message = table_message, .arg = &q }, NULL, err);
	/* nfnetlink has no such subsystem, and its module cannot be loaded. */
	if (r == -EINVAL)
		return err_set(err, -EOPNOTSUPP, "no nf_tables in this kernel (module nf_tables)");
	if (r == -ENOENT)
		return 0;
	return r < 0 ? err_wrap(err, r, "read table %s", name) : 1;
}

static int table_cmp(const void *a, const void *b)
{
	const struct nft_fixed_table *x = a, *y = b;

	return CMP(x->handle, y->handle);
}

/*
 * By name: a dump lists the tables of all processes, and when another process deletes one
 * meanwhile, those after it move forward, so that one of ours may be missing.
 */
int nft_fixed_tables_read(struct nft_fixed_tables *ret, struct nl_sock *nl, enum ipfam fam,
			  const struct nft_schema *schema, struct err *err)
{
	vec_clear(&ret->v);
	for (int i = 1; i <= NFT_TABLE_NAMES_MAX; i++) {
		char name[NFT_TABLE_NAME_MAX];
		struct nft_fixed_table t;
		int r;

		nft_table_name(name, schema->table, i);
		r = nft_fixed_table_read(&t, nl, fam, schema, name, err);
		if (r < 0)
			return r;
		if (r > 0)
			*vec_push(&ret->v) = t;
	}
	vec_sort(&ret->v, table_cmp);
	return 0;
}

int nft_fixed_table_find(struct nft_fixed_table *ret, struct nl_sock *nl, enum ipfam fam,
			 const struct nft_schema *schema, struct err *err)
{
	int r = nft_fixed_table_read(ret, nl, fam, schema, schema->table, err);

	if (r > 0 && !ret->is_ours)
		return err_set(err, -EEXIST, "table %s %s exists and is not vipd's",
			       nft_family_text(ret->family), ret->name);
	return r;
}

int nft_fixed_owner_check(const struct nft_fixed_table *t, const struct nl_sock *nl,
			  struct err *err)
{
	if (!(t->flags & NFT_TABLE_F_OWNER) || t->owner == nl_sock_port(nl))
		return 0;
	return err_set(err, -EPERM,
		       "table %s %s is owned by another running process (netlink port %" PRIu32
		       ", which is usually its process id): end that one first",
		       nft_family_text(t->family), t->name, t->owner);
}

static void sets_begin(void *arg)
{
	struct reading *rd = arg;

	memset(rd->programmed->has_set, 0, sizeof(rd->programmed->has_set));
	rd->programmed->misfit[0] = '\0';
}

/* A set of ours with a name of ours: does it have our types? */
static bool set_fits(const struct nft_set_desc *d, const struct nlattr *const *tb)
{
	/* Newer nft marks every concatenation; for the kernel only those of intervals differ. */
	uint32_t flags = nl_attr_be32(tb[NFTA_SET_FLAGS], 0) & ~(uint32_t)NFT_SET_CONCAT;

	return flags == d->flags && nl_attr_be32(tb[NFTA_SET_KEY_TYPE], 0) == d->key_type &&
	       nl_attr_be32(tb[NFTA_SET_KEY_LEN], 0) == d->key_len &&
	       nl_attr_be32(tb[NFTA_SET_DATA_TYPE], 0) == d->data_type &&
	       (d->data_type == NFT_DATA_VERDICT ||
		nl_attr_be32(tb[NFTA_SET_DATA_LEN], 0) == d->data_len);
}

/* Does each element count? Other expressions are foreign. */
static bool counts(const struct nlattr *const *tb)
{
	return tb[NFTA_SET_EXPR] != NULL || tb[NFTA_SET_EXPRESSIONS] != NULL;
}

static void sets_message(void *arg, const struct nlmsghdr *h)
{
	struct reading *rd = arg;
	const struct nlattr *tb[NFTA_SET_MAX + 1];
	enum nft_set_id id;

	nl_attr_table(tb, NFTA_SET_MAX, h, sizeof(struct nfgenmsg));
	if (strcmp(nl_attr_str(tb[NFTA_SET_TABLE]), rd->table) != 0)
		return;
	id = nft_set_by_name(nl_attr_str(tb[NFTA_SET_NAME]), rd->fam, rd->schema->begin,
			     rd->schema->end);
	if (id == rd->schema->end)
		return;
	if (rd->counting != NFT_COUNT_ANY &&
	    (counts(tb) != nft_set_counts(id, rd->counting) || !nft_set_exists(id, rd->counting)))
		snprintf(rd->programmed->misfit, sizeof(rd->programmed->misfit),
			 "set %s has another level of counting", nft_set_desc(id, rd->fam)->name);
	else if (set_fits(nft_set_desc(id, rd->fam), tb))
		rd->programmed->has_set[id] = true;
	else
		snprintf(rd->programmed->misfit, sizeof(rd->programmed->misfit),
			 "set %s has other types", nft_set_desc(id, rd->fam)->name);
}

static void rules_begin(void *arg)
{
	struct reading *rd = arg;

	chains_clear(rd->programmed);
}

static void rules_message(void *arg, const struct nlmsghdr *h)
{
	struct reading *rd = arg;
	const struct nlattr *tb[NFTA_RULE_MAX + 1];
	uint64_t hash = 0;
	const uint8_t *p;
	size_t len;

	nl_attr_table(tb, NFTA_RULE_MAX, h, sizeof(struct nfgenmsg));
	if (strcmp(nl_attr_str(tb[NFTA_RULE_TABLE]), rd->table) != 0)
		return;
	p = udata_find(tb[NFTA_RULE_USERDATA], NFT_RULE_UDATA_HASH, &len);
	if (p != NULL && len == sizeof(hash)) {
		memcpy(&hash, p, sizeof(hash));
		hash ^= nft_target_hash(tb[NFTA_RULE_EXPRESSIONS]);
	}
	*vec_push(&nft_fixed_chain_get(rd->programmed, nl_attr_str(tb[NFTA_RULE_CHAIN]))->hashes) =
		hash;
}

/* Base chains cannot move to another hook, nor become ordinary ones. */
static bool chain_fits(const struct nft_chain *desired, const struct nlattr *const *tb)
{
	const struct nlattr *hook = tb[NFTA_CHAIN_HOOK];

	if (desired->type == NULL || hook == NULL)
		return desired->type == NULL && hook == NULL;
	return strcmp(nl_attr_str(tb[NFTA_CHAIN_TYPE]), desired->type) == 0 &&
	       nl_attr_be32(nl_attr_find(hook, NFTA_HOOK_HOOKNUM), 0) == desired->hook &&
	       (int32_t)nl_attr_be32(nl_attr_find(hook, NFTA_HOOK_PRIORITY), 0) ==
		       desired->priority;
}

static void chain_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_CHAIN_MAX + 1];
	struct reading *rd = arg;
	struct nft_fixed_chain *c;

	nl_attr_table(tb, NFTA_CHAIN_MAX, h, sizeof(struct nfgenmsg));
	c = nft_fixed_chain_get(rd->programmed, nl_attr_str(tb[NFTA_CHAIN_NAME]));
	c->policy = nl_attr_be32(tb[NFTA_CHAIN_POLICY], NF_ACCEPT);
	if (rd->chain == NULL)
		c->is_stray = tb[NFTA_CHAIN_HOOK] != NULL;
	else if (!chain_fits(rd->chain, tb))
		snprintf(rd->programmed->misfit, sizeof(rd->programmed->misfit),
			 "chain %s is of another kind", rd->chain->name);
}

/*
 * Chains are requested one by one. A dump has no filter and lists every chain of the
 * family: 0.1 s with 30,000 foreign chains, and any commit meanwhile interrupts it. Only
 * fixed chains need a request, and those that may be renamed ones: pick chains appear in their
 * rules, or in verdict maps.
 */
static int chain_read(struct reading *rd, struct nl_sock *nl, const char *name, struct err *err)
{
	char buf[REQUEST_MAX];
	struct nlmsghdr *h =
		nl_request_nfnl(buf, sizeof(buf), NFT_TYPE(NFT_MSG_GETCHAIN), family_of(rd));
	int r;

	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, rd->table);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, name);
	r = nl_query(nl, h, &(struct nl_reader){ .message = chain_message, .arg = rd }, NULL, err);
	/* A missing chain is no error, unless it had rules in this read. */
	return r == -ENOENT && nft_fixed_chain(rd->programmed, name) == NULL ? 0 : r;
}

static bool has_own_rules(const struct nft_fixed_chain *c)
{
	return vec_has(&c->hashes, hash, *hash != 0);
}

/* Read the chains of the schema, and others with rules of ours that no verdict map leads to. */
static int chains_read(struct reading *rd, struct nl_sock *nl, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && (rd->chain = rd->schema->chain(i)) != NULL; i++)
		r = chain_read(rd, nl, rd->chain->name, err);
	htable_for_each_entry (c, &rd->programmed->chains, struct nft_fixed_chain)
		if (r == 0 && !c->is_led && has_own_rules(c) &&
		    nft_schema_chain(rd->schema, c->name) == NULL)
			r = chain_read(rd, nl, c->name, err);
	return r;
}

static void verdict_found(void *arg, const uint8_t *key, const uint8_t *none)
{
	struct reading *rd = arg;
	const struct nlattr *data = nl_attr_find(rd->walk.elem, NFTA_SET_ELEM_DATA);
	const struct nlattr *verdict = nl_attr_find(data, NFTA_DATA_VERDICT);
	const char *chain = nl_attr_str(nl_attr_find(verdict, NFTA_VERDICT_CHAIN));
	struct nft_verdict v;

	if (rd->walk.n == 1) /* a dump may begin again */
		verdicts_clear(rd->programmed, rd->index);
	memcpy(&v.kind, key, sizeof(v.kind));
	if (v.kind >= NFT_FIXED_KINDS) /* no frontend can have this kind */
		return;
	if (chain[0] != '\0')
		nft_fixed_chain_get(rd->programmed, chain)->is_led = true;
	v.code = (int32_t)nl_attr_be32(nl_attr_find(verdict, NFTA_VERDICT_CODE), 0);
	(void)snprintf(v.chain, sizeof(v.chain), "%.*s", (int)sizeof(v.chain) - 1, chain);
	nft_fixed_verdict_put(rd->programmed, rd->index, &v);
}

static void range_found(void *arg, const uint8_t *key, const uint8_t *none)
{
	struct reading *rd = arg;
	struct nft_bounds *bounds = &rd->programmed->ranges[rd->index];
	const struct nlattr *flags = nl_attr_find(rd->walk.elem, NFTA_SET_ELEM_FLAGS);
	struct nft_bound *b;

	if (rd->walk.n == 1)
		vec_clear(&bounds->v);
	b = vec_push(&bounds->v);
	*b = (struct nft_bound){ .is_end = nl_attr_be32(flags, 0) & NFT_SET_ELEM_INTERVAL_END };
	memcpy(b->key, key, ip_len(rd->fam));
}

/* Dump the objects of rd->table; `table_attr` is the table's attribute in that message. */
static int read_dump(struct reading *rd, struct nl_sock *nl, uint16_t msg, uint16_t table_attr,
		     void (*begin)(void *), void (*message)(void *, const struct nlmsghdr *),
		     struct err *err)
{
	char buf[REQUEST_MAX];
	struct nlmsghdr *h = nl_request_nfnl(buf, sizeof(buf), NFT_TYPE(msg), family_of(rd));

	mnl_attr_put_strz(h, table_attr, rd->table);
	return nl_dump(nl, h, &(struct nl_reader){ begin, message, rd, true }, err);
}

static int read_elements(struct reading *rd, struct nl_sock *nl, enum nft_set_id set,
			 nft_elem_fn *fn, struct err *err)
{
	const struct nft_table_ref table = { rd->table, rd->fam, family_of(rd) };
	int r = rd->programmed->has_set[set];

	rd->walk = (struct nft_walk){ 0 };
	while (r > 0)
		r = nft_elems_dump_step(&rd->walk, nl, &table, set, fn, rd, err);
	/* The table existed before: it was deleted meanwhile. */
	return r == -ENOENT ? -EAGAIN : r;
}

const struct nft_chain *nft_schema_chain(const struct nft_schema *schema, const char *name)
{
	const struct nft_chain *c;

	for (size_t i = 0; (c = schema->chain(i)) != NULL; i++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static int objects_read(struct reading *rd, struct nl_sock *nl, struct err *err)
{
	int r;

	r = read_dump(rd, nl, NFT_MSG_GETSET, NFTA_SET_TABLE, sets_begin, sets_message, err);
	if (r < 0)
		return r;
	r = read_dump(rd, nl, NFT_MSG_GETRULE, NFTA_RULE_TABLE, rules_begin, rules_message, err);
	if (r < 0)
		return r;
	for (rd->index = 0; r == 0 && rd->schema->has_verdict_maps && rd->index < NFT_VERDICT_MAPS;
	     rd->index++)
		r = read_elements(rd, nl, NFTSET_LEAVES + rd->index, verdict_found, err);
	if (r == 0)
		r = chains_read(rd, nl, err);
	for (rd->index = 0; r == 0 && rd->index < NFT_RANGE_SETS; rd->index++) {
		r = read_elements(rd, nl, rd->schema->ranges + rd->index, range_found, err);
		nft_bounds_sort(&rd->programmed->ranges[rd->index]);
	}
	return r;
}

int nft_fixed_read(struct nft_fixed *ret, struct nl_sock *nl, enum ipfam fam,
		   const struct nft_fixed_table *table, const struct nft_schema *schema,
		   unsigned int counting, struct err *err)
{
	struct reading rd = { .programmed = ret,
			      .fam = fam,
			      .schema = schema,
			      .table = table->name,
			      .counting = counting };
	int r;

	nft_fixed_fini(ret);
	r = objects_read(&rd, nl, err);
	if (r < 0)
		return err_wrap(err, r == -ENOENT ? -EAGAIN : r, "read table %s", table->name);
	ret->exists = true;
	ret->flags = table->flags;
	if (table->version != schema->version)
		snprintf(ret->misfit, sizeof(ret->misfit),
			 "it is of another layout version: %d, not %d", table->version,
			 schema->version);
	return 0;
}

static void counters_begin(void *arg)
{
	struct reading *rd = arg;

	rd->packets = rd->bytes = 0;
}

static void counters_message(void *arg, const struct nlmsghdr *h)
{
	struct reading *rd = arg;
	const struct nlattr *tb[NFTA_RULE_MAX + 1];

	nl_attr_table(tb, NFTA_RULE_MAX, h, sizeof(struct nfgenmsg));
	nl_attr_for_each (e, tb[NFTA_RULE_EXPRESSIONS]) {
		rd->packets += nft_counter(e, NFTA_COUNTER_PACKETS);
		rd->bytes += nft_counter(e, NFTA_COUNTER_BYTES);
	}
}

int nft_fixed_counters(struct nl_sock *nl, uint8_t family, const char *table, const char *chain,
		       uint64_t *packets, uint64_t *bytes, struct err *err)
{
	struct reading rd = { 0 };
	char buf[REQUEST_MAX];
	struct nlmsghdr *h = nl_request_nfnl(buf, sizeof(buf), NFT_TYPE(NFT_MSG_GETRULE), family);
	int r;

	mnl_attr_put_strz(h, NFTA_RULE_TABLE, table);
	mnl_attr_put_strz(h, NFTA_RULE_CHAIN, chain);
	r = nl_dump(nl, h, &(struct nl_reader){ counters_begin, counters_message, &rd, true }, err);
	if (r < 0)
		return err_wrap(err, r, "read counters of chain %s", chain);
	*packets += rd.packets;
	*bytes += rd.bytes;
	return 0;
}
