/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/nftables - dumps of tables, chains and rules; batches that delete. */
#include "cleanup/parts.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ip_vs.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/xt_TCPMSS.h>
#include <linux/netfilter/xt_ipvs.h>
#include <linux/netfilter/xt_mark.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stddef.h>
#include <string.h>

#include "nft/expr.h"
#include "nft/fixed.h"
#include "nl/attr.h"
#include "nl/batch.h"
#include "nl/dump.h"
#include "plane/ipvs/rules.h"
#include "plane/nft/layout.h"

#define NFT(msg) (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_##msg)
#define TRIES 5
#define KUBE_PROXY_TABLE "kube-proxy"

/* --- tables --- */

int cleanup_has_vipd(struct nl_sock *nl, struct err *err)
{
	AUTO(vec_fini) struct nft_fixed_tables found = { 0 };
	struct nft_fixed_table t;
	int r = nft_fixed_table_read(&t, nl, IPFAM_V4, &ipvs_schema, IPVS_TABLE, err);

	for (int fam = 0; r == 0 && fam < IPFAM_N; fam++) {
		r = nft_fixed_tables_read(&found, nl, fam, &nft_schema, err);
		r = r < 0 ? r : found.v.n > 0;
	}
	return r;
}

int cleanup_nftables(struct nl_sock *nl, struct cleanup *c, struct err *err)
{
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	struct err why = { 0 };
	size_t n = 0;
	int r;

	nl_batch_open(&b, nl);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct nft_fixed_table t;
		struct nlmsghdr *h;

		r = nft_fixed_table_read(&t, nl, fam, &nft_schema, KUBE_PROXY_TABLE, err);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		h = nl_batch_msg(b, NFT(DELTABLE), 0, t.family, NULL);
		mnl_attr_put_strz(h, NFTA_TABLE_NAME, KUBE_PROXY_TABLE);
		n++;
	}
	r = nl_batch_commit(b, &why);
	if (r < 0 && r != -ENOENT)
		report_left(c, "nftables: left: the tables " KUBE_PROXY_TABLE ": %s", why.text);
	else if (n > 0)
		report_removed(c, n, "nftables: removed %zu table%s", n, n == 1 ? "" : "s");
	return 0;
}

/* --- chains and rules --- */

#define TABLES (IPFAM_N * XT_TABLES) /* of both families */

static void chains_begin(void *arg)
{
	struct xt_table *tables = arg;

	for (size_t i = 0; i < TABLES; i++)
		xt_fini(&tables[i]);
}

static void chain_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_CHAIN_MAX + 1];
	const struct nfgenmsg *nfg = mnl_nlmsg_get_payload(h);
	struct xt_table *tables = arg;
	const char *name;

	nl_attr_table(tb, NFTA_CHAIN_MAX, h, sizeof(struct nfgenmsg));
	name = nl_attr_str(tb[NFTA_CHAIN_TABLE]);
	for (struct xt_table *t = tables; t < tables + TABLES; t++)
		if (nft_family(t->fam) == nfg->nfgen_family && strcmp(t->name, name) == 0)
			*vec_push(&t->chains) = (struct xt_chain){
				.name = xstrdup(nl_attr_str(tb[NFTA_CHAIN_NAME])),
				.is_base = tb[NFTA_CHAIN_HOOK] != NULL,
				.is_closed =
					nl_attr_be32(tb[NFTA_CHAIN_POLICY], NF_ACCEPT) == NF_DROP,
			};
}

/* What the expressions of a rule say. */
struct rule_effect {
	struct xt_rule r; /* mark, is_mss, addr */
	bool has_ipvs;    /* is_ipvs_match() */
	bool is_snat;
	bool is_addr_loaded; /* the previous expression */
};

static void effect_xtables(struct rule_effect *d, const struct nlattr *data)
{
	const char *name = nl_attr_str(nl_attr_find(data, NFTA_TARGET_NAME));
	const struct nlattr *info = nl_attr_find(data, NFTA_TARGET_INFO);
	const struct xt_tcpmss_info *mss = nl_attr_bytes(info, sizeof(*mss));
	const struct xt_mark_tginfo2 *mark = nl_attr_bytes(info, sizeof(*mark));

	d->is_snat = strcmp(name, "SNAT") == 0;
	/* "--set-mss", not "--clamp-mss-to-pmtu" */
	d->r.is_mss =
		strcmp(name, "TCPMSS") == 0 && mss != NULL && mss->mss != XT_TCPMSS_CLAMP_PMTU;
	/* "--set-xmark MARK/0xffffffff" */
	if (strcmp(name, "MARK") == 0 && mark != NULL && mark->mask == UINT32_MAX)
		d->r.mark = mark->mark;
}

/* Without a bitwise expression between the two, which a prefix has. */
static bool is_addr_load(const struct nlattr *data)
{
	uint32_t offset = nl_attr_be32(nl_attr_find(data, NFTA_PAYLOAD_OFFSET), 0);
	uint32_t len = nl_attr_be32(nl_attr_find(data, NFTA_PAYLOAD_LEN), 0);

	return nl_attr_be32(nl_attr_find(data, NFTA_PAYLOAD_BASE), 0) ==
		       NFT_PAYLOAD_NETWORK_HEADER &&
	       ((len == 4 && (offset == offsetof(struct iphdr, saddr) ||
			      offset == offsetof(struct iphdr, daddr))) ||
		(len == 16 && (offset == offsetof(struct ip6_hdr, ip6_src) ||
			       offset == offsetof(struct ip6_hdr, ip6_dst))));
}

static void effect_cmp(struct rule_effect *d, const struct nlattr *data)
{
	const struct nlattr *value = nft_cmp_value(data);
	const void *v4 = nl_attr_bytes(value, 4);
	const void *v6 = nl_attr_bytes(value, 16);

	if (d->is_addr_loaded && v4 != NULL &&
	    nl_attr_be32(nl_attr_find(data, NFTA_CMP_OP), NFT_CMP_NEQ) == NFT_CMP_EQ)
		d->r.addr = ip_addr_from_bytes(v6 ? AF_INET6 : AF_INET, v4);
}

/* "-m ipvs --ipvs --vdir ORIGINAL --vmethod MASQ", for all addresses. */
static bool is_ipvs_match(const struct nlattr *data)
{
	const struct xt_ipvs_mtinfo *info =
		nl_attr_bytes(nl_attr_find(data, NFTA_MATCH_INFO), sizeof(*info));

	return strcmp(nl_attr_str(nl_attr_find(data, NFTA_MATCH_NAME)), "ipvs") == 0 &&
	       info != NULL && info->invert == 0 && info->fwd_method == IP_VS_CONN_F_MASQ &&
	       info->bitmask == (XT_IPVS_IPVS_PROPERTY | XT_IPVS_DIR | XT_IPVS_METHOD);
}

static struct rule_effect effect_read(const struct nlattr *expressions)
{
	struct rule_effect d = { 0 };

	nl_attr_for_each (e, expressions) {
		const char *name = nl_attr_str(nl_attr_find(e, NFTA_EXPR_NAME));
		const struct nlattr *data = nl_attr_find(e, NFTA_EXPR_DATA);

		if (strcmp(name, "target") == 0)
			effect_xtables(&d, data);
		if (strcmp(name, "match") == 0)
			d.has_ipvs |= is_ipvs_match(data);
		if (strcmp(name, "cmp") == 0)
			effect_cmp(&d, data);
		d.is_addr_loaded = strcmp(name, "payload") == 0 && is_addr_load(data);
		d.is_snat |= strcmp(name, "nat") == 0; /* of nft, in place of the target */
	}
	return d;
}

static void rules_begin(void *arg)
{
	struct xt_table *t = arg;

	xt_rules_clear(t);
	vec_for_each (c, &t->chains)
		c->n_rules = 0;
}

static void rule_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_RULE_MAX + 1];
	struct xt_table *t = arg;
	const char *chain, *target;
	struct xt_chain *c;
	struct rule_effect d;

	nl_attr_table(tb, NFTA_RULE_MAX, h, sizeof(struct nfgenmsg));
	if (strcmp(nl_attr_str(tb[NFTA_RULE_TABLE]), t->name) != 0)
		return;
	chain = nl_attr_str(tb[NFTA_RULE_CHAIN]);
	c = xt_chain(t, chain, strlen(chain));
	if (c == NULL) /* created after the chains were read */
		return;
	c->n_rules++;
	d = effect_read(tb[NFTA_RULE_EXPRESSIONS]);
	target = nft_target(tb[NFTA_RULE_EXPRESSIONS]);
	if (c->is_base && nft_rejects_all(tb[NFTA_RULE_EXPRESSIONS]))
		c->is_closed = true;
	d.r.is_stray = t->proxy == PROXY_KUBE_ROUTER && c->is_base && d.has_ipvs && d.is_snat;
	if (target == NULL && !d.r.is_stray && d.r.mark == 0 && !d.r.is_mss)
		return;
	d.r.chain = c->name;
	d.r.is_in_base = c->is_base;
	d.r.target = xstrdup(target ? target : "");
	d.r.handle = nl_attr_be64(tb[NFTA_RULE_HANDLE], 0);
	*vec_push(&t->rules) = d.r;
}

static int tables_read(struct xt_table tables[static TABLES], struct nl_sock *nl, struct err *err)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = nl_request_nfnl(buf, sizeof(buf), NFT(GETCHAIN), NFPROTO_UNSPEC);
	struct nl_reader chains = { chains_begin, chain_message, tables };
	int r = nl_dump(nl, h, &chains, err);

	for (struct xt_table *t = tables; r == 0 && t < tables + TABLES; t++) {
		struct nl_reader rules = { rules_begin, rule_message, t };

		if (!xt_has_owned(t))
			continue;
		h = nl_request_nfnl(buf, sizeof(buf), NFT(GETRULE), nft_family(t->fam));
		mnl_attr_put_strz(h, NFTA_RULE_TABLE, t->name);
		r = nl_dump(nl, h, &rules, err);
	}
	return r;
}

/* --- deletion --- */

/* A message about the table. */
static struct nlmsghdr *put(struct nl_batch *b, uint16_t type, const struct xt_table *t)
{
	struct nlmsghdr *h = nl_batch_msg(b, type, 0, nft_family(t->fam), NULL);

	_Static_assert((int)NFTA_CHAIN_TABLE == (int)NFTA_RULE_TABLE, "for both");
	mnl_attr_put_strz(h, NFTA_RULE_TABLE, t->name);
	return h;
}

/* Flush all chains before deleting the first: they refer to each other. */
static void put_doomed(struct nl_batch *b, const struct xt_table *t)
{
	vec_for_each (r, &t->rules)
		if (r->is_doomed) {
			struct nlmsghdr *h = put(b, NFT(DELRULE), t);

			mnl_attr_put_strz(h, NFTA_RULE_CHAIN, r->chain);
			mnl_attr_put_u64(h, NFTA_RULE_HANDLE, htobe64(r->handle));
		}
	vec_for_each (c, &t->chains)
		if (c->is_doomed && c->n_rules > 0)
			mnl_attr_put_strz(put(b, NFT(DELRULE), t), NFTA_RULE_CHAIN, c->name);
	vec_for_each (c, &t->chains)
		if (c->is_doomed)
			mnl_attr_put_strz(put(b, NFT(DELCHAIN), t), NFTA_CHAIN_NAME, c->name);
}

static int attempt(struct xt_table tables[static TABLES], struct xt_counts *counts,
		   struct nl_sock *nl, const struct cleanup *c, struct err *err)
{
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	int r = tables_read(tables, nl, err);

	if (r < 0)
		return r;
	*counts = (struct xt_counts){ 0 };
	nl_batch_open(&b, nl);
	for (struct xt_table *t = tables; t < tables + TABLES; t++) {
		xt_decide(t, c->is_forced);
		xt_count(t, counts);
		put_doomed(b, t);
	}
	return nl_batch_commit(b, err);
}

/* Read again if another process changes a table between reading and deletion. */
int cleanup_iptables_nft(struct nl_sock *nl, struct cleanup *c, struct err *err)
{
	struct xt_table tables[TABLES];
	struct xt_counts counts;
	int r = -EBUSY;

	for (size_t i = 0; i < TABLES; i++)
		tables[i] = (struct xt_table){ .proxy = c->proxy,
					       .marks = &c->marks,
					       .fam = (enum ipfam)(i / XT_TABLES),
					       .name = xt_table_names[i % XT_TABLES] };
	for (int i = 0; i < TRIES && (r == -EBUSY || r == -ENOENT); i++)
		r = attempt(tables, &counts, nl, c, err);
	if (r == 0)
		report_counts(c, "nf_tables", &counts);
	for (size_t i = 0; i < TABLES; i++) {
		if (r == 0)
			report_kept(c, "nf_tables", &tables[i]);
		xt_fini(&tables[i]);
	}
	return r;
}
