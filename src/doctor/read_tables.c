/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/read_tables - nf_tables tables of vipd, and foreign ones that may conflict.
 *
 * vipd's tables are recognised by their comment, whatever their name. Of foreign tables, base
 * chains that can translate destinations are kept; in a table with such a chain every rule is
 * searched for translation and for comparison with a service address.
 */
#include <arpa/inet.h> /* before linux/in.h, which then omits its own definitions */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor/proc.h"
#include "nft/decode.h"
#include "nft/elem.h"
#include "nft/expr.h"
#include "nft/fixed.h"
#include "nl/attr.h"
#include "nl/dump.h"
#include "plane/ipvs/route.h"

#define COMMENT_NFT "vipd layout "
#define COMMENT_IPVS "vipd ipvs layout "
/* Tables without service addresses: of the guard, of failover; of `vipctl trace --live`. */
#define COMMENT_OURS "vipd "
#define COMMENT_TRACE "vipctl trace "
#define KUBE_CHAIN "KUBE-SERVICES"
#define KUBE_FORWARD "KUBE-FORWARD"
#define ROUTER_CHAIN "KUBE-ROUTER-SERVICES"
#define JUMPS_MAX 4             /* from a chain at a hook */
#define ENTRIES_MAX (64U << 20) /* entries of an iptables-legacy table */
#define TYPE(msg) (NFNL_SUBSYS_NFTABLES << 8 | (msg))

/* A table of vipd, of family ip, ip6 or inet. */
struct our_table {
	uint8_t family; /* NFPROTO_* */
	char name[NFT_TABLE_NAME_MAX];
};

/* A rule that jumps to `to` (not NULL), accepts packets, or applies to all. */
struct chain_rule {
	const struct name *chain;
	const struct name *to;
	unsigned int accepts; /* NFT_ACCEPTS_* */
	bool rejects;         /* all packets */
	bool is_unconditional;
};

struct tables {
	struct facts *f;
	struct nl_sock *nl;
	struct fact_table *table; /* the table being read */
	VEC(struct our_table) ours;
	VEC(struct chain_rule) rules; /* of `table`; those of a chain in order */
	enum ipfam fam;               /* of the elements being read, and of their set */
	const struct our_set *set;
};

enum our_kind {
	OUR_FRONTENDS = 1,
	OUR_CLUSTER_IPS,
	OUR_ENDPOINTS,
};

/* Sets with service addresses of both planes; a table has the sets of one plane. */
static const struct our_set {
	enum nft_set_id id;
	enum our_kind kind;
} our_sets[] = {
	/* nftables mode */
	{ NFTSET_FRONTENDS, OUR_FRONTENDS },
	{ NFTSET_CLUSTER_IPS, OUR_CLUSTER_IPS },
	{ NFTSET_ENDPOINT_ADDRS, OUR_ENDPOINTS },
	/* IPVS mode */
	{ IPVSSET_FE, OUR_FRONTENDS },
	{ IPVSSET_FE_IN, OUR_FRONTENDS },
	{ IPVSSET_CLUSTER_IPS, OUR_CLUSTER_IPS },
	{ IPVSSET_HAIRPINS, OUR_ENDPOINTS },
};

/* --- tables ------------------------------------------------------------------------ */

static void tables_begin(void *arg)
{
	struct tables *t = arg;

	vec_clear(&t->f->tables);
	vec_clear(&t->ours);
	t->f->ipvs_plane.is_in_force = t->f->ipvs_plane.has_other = false;
	memset(t->f->ours.n_tables, 0, sizeof(t->f->ours.n_tables));
}

static void table_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_TABLE_MAX + 1];
	const struct nfgenmsg *nfg = mnl_nlmsg_get_payload(h);
	struct tables *t = arg;
	const char *comment;
	bool is_ipvs;

	nl_attr_table(tb, NFTA_TABLE_MAX, h, sizeof(*nfg));
	comment = nft_table_comment(tb[NFTA_TABLE_USERDATA]);
	is_ipvs = str_begins(comment, COMMENT_IPVS);
	if (is_ipvs || str_begins(comment, COMMENT_NFT)) {
		struct our_table *ours = vec_push(&t->ours);

		t->f->ipvs_plane.is_in_force |= is_ipvs;
		t->f->ipvs_plane.has_other |= !is_ipvs;
		ours->family = nfg->nfgen_family;
		(void)snprintf(ours->name, sizeof(ours->name), "%s",
			       nl_attr_str(tb[NFTA_TABLE_NAME]));
		if (nfg->nfgen_family != NFPROTO_IPV6)
			t->f->ours.n_tables[IPFAM_V4]++;
		if (nfg->nfgen_family != NFPROTO_IPV4)
			t->f->ours.n_tables[IPFAM_V6]++;
		return;
	}
	if (str_begins(comment, COMMENT_OURS) || str_begins(comment, COMMENT_TRACE))
		return;
	*vec_push(&t->f->tables) =
		(struct fact_table){ .family = nfg->nfgen_family,
				     .name = xstrdup(nl_attr_str(tb[NFTA_TABLE_NAME])) };
}

/* --- chains --------------------------------------------------------------------------- */

/* Families whose hooks are numbered as NF_INET_*. */
static bool is_of_ip(uint8_t family)
{
	return family == NFPROTO_IPV4 || family == NFPROTO_IPV6 || family == NFPROTO_INET;
}

static void hook_take(struct fact_table *table, const char *chain, bool is_output, int32_t priority)
{
	if (table->hook.chain != NULL && table->hook.priority <= priority)
		return;
	free(table->hook.chain);
	table->hook = (struct fact_hook){ xstrdup(chain), is_output, priority };
}

static void chain_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_CHAIN_MAX + 1];
	const struct nlattr *hook[NFTA_HOOK_MAX + 1];
	const struct nfgenmsg *nfg = mnl_nlmsg_get_payload(h);
	struct tables *t = arg;
	const char *name;
	struct fact_table *table;
	uint32_t num;

	nl_attr_table(tb, NFTA_CHAIN_MAX, h, sizeof(*nfg));
	name = nl_attr_str(tb[NFTA_CHAIN_TABLE]);
	table = vec_find(&t->f->tables, of,
			 of->family == nfg->nfgen_family && strcmp(of->name, name) == 0);
	if (table == NULL)
		return;
	name = nl_attr_str(tb[NFTA_CHAIN_NAME]);
	table->has_kube_services |= strcmp(name, KUBE_CHAIN) == 0;
	table->has_router_services |= strcmp(name, ROUTER_CHAIN) == 0;
	if (tb[NFTA_CHAIN_HOOK] == NULL)
		return;
	nl_attr_nest(hook, NFTA_HOOK_MAX, tb[NFTA_CHAIN_HOOK]);
	num = nl_attr_be32(hook[NFTA_HOOK_HOOKNUM], UINT32_MAX);
	if ((num == NF_INET_LOCAL_IN || num == NF_INET_FORWARD) && is_of_ip(table->family))
		*vec_push(&table->filters) = (struct fact_filter){
			.chain = xstrdup(name),
			.hook = num,
			.is_closed = nl_attr_be32(tb[NFTA_CHAIN_POLICY], NF_ACCEPT) == NF_DROP,
		};
	if (strcmp(nl_attr_str(tb[NFTA_CHAIN_TYPE]), "nat") != 0)
		return;
	if (num == NF_INET_PRE_ROUTING || num == NF_INET_LOCAL_OUT)
		hook_take(table, name, num == NF_INET_LOCAL_OUT,
			  (int32_t)nl_attr_be32(hook[NFTA_HOOK_PRIORITY], 0));
}

/* A repeated dump starts with an empty list. */
static void chains_begin(void *arg)
{
	struct tables *t = arg;

	vec_for_each (table, &t->f->tables)
		fact_table_clear(table);
}

/* --- rules ------------------------------------------------------------------------------ */

/* The address that an expression compares with, if it is a service address. */
static bool cmp_mentions(struct ip_addr *ret, const struct facts *f, const struct nlattr *data)
{
	const struct nlattr *value = nft_cmp_value(data);
	size_t len = value != NULL ? mnl_attr_get_payload_len(value) : 0;

	if (len != 4 && len != 16)
		return false;
	*ret = ip_addr_from_bytes(len == 4 ? AF_INET : AF_INET6, mnl_attr_get_payload(value));
	return ours_has(&f->ours.frontends, ret);
}

static bool is_dnat(const char *name, const struct nlattr *data)
{
	const char *target;

	if (strcmp(name, "nat") == 0)
		return nl_attr_be32(nl_attr_find(data, NFTA_NAT_TYPE), NFT_NAT_SNAT) ==
		       NFT_NAT_DNAT;
	if (strcmp(name, "target") != 0)
		return strcmp(name, "redir") == 0;
	target = nl_attr_str(nl_attr_find(data, NFTA_TARGET_NAME)); /* of iptables */
	return strcmp(target, "DNAT") == 0 || strcmp(target, "REDIRECT") == 0;
}

/*
 * Does the expression compare with the mark of captured packets: `meta mark and 0xff000f00 ==
 * 0x5a000000`, also with a mask of 0xff000000 or less, or iptables' `-m mark --mark
 * 0x5a000000/0xff000f00`?
 */
static bool expr_has_mark(const char *name, const struct nlattr *data, uint32_t mark)
{
	const struct nlattr *word = NULL;

	if (strcmp(name, "cmp") == 0)
		word = nft_cmp_value(data);
	else if (strcmp(name, "match") == 0 && /* of iptables: struct xt_mark_mtinfo1 */
		 strcmp(nl_attr_str(nl_attr_find(data, NFTA_MATCH_NAME)), "mark") == 0)
		word = nl_attr_find(data, NFTA_MATCH_INFO);
	return (nl_attr_u32(word, ~mark) & IPVS_MARK_MASK) == mark;
}

static void chain_rules_fini(struct tables *t)
{
	vec_for_each (i, &t->rules) {
		name_unref(i->chain);
		name_unref(i->to);
	}
	vec_clear(&t->rules);
}

/*
 * Of chains without a hook only the rules that name what they accept count: conditions of jumps are
 * not read. KUBE-FORWARD ends with kube-proxy.
 */
static void filter_read(struct tables *t, const char *chain, const struct nlattr *expressions)
{
	bool is_base = vec_has(&t->table->filters, i, strcmp(i->chain, chain) == 0);
	const char *to = nft_target(expressions);
	struct chain_rule r = { .accepts = nft_accepts(expressions),
				.rejects = nft_rejects_all(expressions),
				.is_unconditional = nft_is_unconditional(expressions) };

	if (!is_base && (r.accepts == NFT_ACCEPTS_ALL || strcmp(chain, KUBE_FORWARD) == 0))
		r.accepts = 0;
	if (r.accepts == 0 && to == NULL && !r.rejects && !r.is_unconditional)
		return;
	r.chain = name_get_str(chain);
	r.to = to != NULL ? name_get_str(to) : NULL;
	*vec_push(&t->rules) = r;
}

/*
 * Are packets dropped or rejected that no rule accepts or returns before? Jumps and gotos count
 * that apply to all packets.
 */
static bool is_closed(const struct tables *t, const char *chain, int depth)
{
	vec_for_each (i, &t->rules) {
		if (strcmp(i->chain->text, chain) != 0)
			continue;
		if (i->rejects)
			return true;
		if (i->is_unconditional && i->to == NULL)
			return false;
		if (i->is_unconditional && depth > 0 && is_closed(t, i->to->text, depth - 1))
			return true;
	}
	return false;
}

/* Does a path of jumps lead from a chain at `hook` to `chain`? */
static bool is_reached(const struct tables *t, const struct name *chain, uint32_t hook, int depth)
{
	if (vec_has(&t->table->filters, i, i->hook == hook && strcmp(i->chain, chain->text) == 0))
		return true;
	return depth > 0 &&
	       vec_has(&t->rules, i, i->to == chain && is_reached(t, i->chain, hook, depth - 1));
}

/* Rules that packets to this host pass, but no forwarded ones, accept nothing. */
static void accepts_sum(struct tables *t)
{
	vec_for_each (i, &t->rules)
		if ((i->accepts & ~t->table->accepts) != 0 &&
		    (is_reached(t, i->chain, NF_INET_FORWARD, JUMPS_MAX) ||
		     !is_reached(t, i->chain, NF_INET_LOCAL_IN, JUMPS_MAX)))
			t->table->accepts |= i->accepts;
}

static void rule_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_RULE_MAX + 1];
	struct tables *t = arg;
	bool has_mention = false;
	const char *chain;

	nl_attr_table(tb, NFTA_RULE_MAX, h, sizeof(struct nfgenmsg));
	chain = nl_attr_str(tb[NFTA_RULE_CHAIN]);
	filter_read(t, chain, tb[NFTA_RULE_EXPRESSIONS]);
	nl_attr_for_each (e, tb[NFTA_RULE_EXPRESSIONS]) {
		const char *name = nl_attr_str(nl_attr_find(e, NFTA_EXPR_NAME));
		const struct nlattr *data = nl_attr_find(e, NFTA_EXPR_DATA);
		struct ip_addr addr;

		t->table->has_dnat |= is_dnat(name, data);
		/* The position of the rule is not checked. */
		t->table->accepts_mark |= expr_has_mark(name, data, t->f->ipvs_plane.mark);
		if (has_mention || strcmp(name, "cmp") != 0 || !cmp_mentions(&addr, t->f, data))
			continue;
		has_mention = true;
		if (t->table->n_mentions++ > 0)
			continue;
		t->table->mention = addr;
		t->table->mention_chain = xstrdup(chain);
	}
}

static void rules_begin(void *arg)
{
	struct tables *t = arg;

	free(t->table->mention_chain);
	t->table->mention_chain = NULL;
	t->table->has_dnat = false;
	t->table->n_mentions = 0;
	t->table->accepts = 0;
	chain_rules_fini(t);
}

/*
 * `is_scoped`, also for lists of all tables and chains: beside a process that commits permanently,
 * each attempt is interrupted. An object that is deleted meanwhile may hide another one.
 */
static int dump(struct tables *t, uint8_t msg, uint8_t family, const char *table,
		void (*begin)(void *arg), void (*message)(void *arg, const struct nlmsghdr *h),
		struct err *err)
{
	const struct nl_reader reader = { begin, message, t, true };
	char buf[512];
	struct nlmsghdr *req = nl_request_nfnl(buf, sizeof(buf), TYPE(msg), family);

	if (table != NULL)
		mnl_attr_put_strz(req, NFTA_RULE_TABLE, table);
	return nl_dump(t->nl, req, &reader, err);
}

static int others_read(struct tables *t, struct err *err)
{
	int r = dump(t, NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, NULL, chains_begin, chain_message, err);

	if (r < 0)
		return err_wrap(err, r, "chains");
	vec_for_each (table, &t->f->tables) {
		if (table->hook.chain == NULL && table->filters.n == 0)
			continue;
		t->table = table;
		r = dump(t, NFT_MSG_GETRULE, table->family, table->name, rules_begin, rule_message,
			 err);
		if (r < 0 && r != -ENOENT) /* the table may be deleted meanwhile */
			return err_wrap(err, r, "rules of table %s", table->name);
		accepts_sum(t);
		vec_for_each (filter, &table->filters)
			filter->is_closed |= is_closed(t, filter->chain, JUMPS_MAX);
	}
	return 0;
}

/* --- vipd's tables ----------------------------------------------------------------------- */

static void element_add(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct tables *t = arg;
	struct fact_ours *o = &t->f->ours;
	struct ip_addr addr = ip_addr_from_bytes(t->fam == IPFAM_V6 ? AF_INET6 : AF_INET, key);

	switch (t->set->kind) {
	case OUR_FRONTENDS:
		nft_get_tuple(vec_push(&o->frontends), t->fam, key);
		break;
	case OUR_CLUSTER_IPS:
		*vec_push(&o->cluster_ips) = addr;
		break;
	case OUR_ENDPOINTS:
		*vec_push(&o->endpoints) = addr;
		break;
	}
}

/* Duplicates of an interrupted dump are harmless: the lists are only searched. */
static int ours_read(struct tables *t, struct err *err)
{
	vec_for_each (table, &t->ours) {
		for (size_t i = 0; i < ARRAY_SIZE(our_sets) * IPFAM_N; i++) {
			struct nft_table_ref ref = { table->name, (enum ipfam)(i % IPFAM_N),
						     table->family };
			int r;

			t->fam = ref.fam;
			t->set = &our_sets[i / IPFAM_N];
			if (table->family == (t->fam == IPFAM_V6 ? NFPROTO_IPV4 : NFPROTO_IPV6))
				continue;
			r = nft_elems_dump(t->nl, &ref, t->set->id, element_add, t, err);
			if (r < 0 && r != -ENOENT) /* no such set, or no table any more */
				return err_wrap(err, r, "table %s", table->name);
		}
	}
	return 0;
}

/* --- iptables-legacy ---------------------------------------------------------------------- */

/* All entries of the nat table in one block, with the names of chains. */
static bool legacy_has_chain(int fd)
{
	struct ipt_getinfo info = { .name = "nat" };
	AUTO(free) struct ipt_get_entries *entries = NULL;
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_IP, IPT_SO_GET_INFO, &info, &len) == -1 || info.size == 0 ||
	    info.size > ENTRIES_MAX)
		return false;
	len = (socklen_t)(sizeof(*entries) + info.size);
	entries = xcalloc(1, len);
	*entries = (struct ipt_get_entries){ .name = "nat", .size = info.size };
	return getsockopt(fd, IPPROTO_IP, IPT_SO_GET_ENTRIES, entries, &len) == 0 &&
	       memmem(entries->entrytable, info.size, KUBE_CHAIN, sizeof(KUBE_CHAIN)) != NULL;
}

/* A request for a table makes the kernel load and hook it: read only existing ones. */
static void legacy_read(struct facts *f)
{
	FINI(str_fini) struct str names = { 0 };
	AUTO(close) int fd = -1;

	(void)!proc_read(&names, "", "/proc/self/net/ip_tables_names");
	if (!str_has_line(str_text(&names), "nat"))
		return;
	fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	f->has_legacy_kube = fd != -1 && legacy_has_chain(fd);
}

static int all_read(struct tables *t, struct err *err)
{
	int r = dump(t, NFT_MSG_GETTABLE, NFPROTO_UNSPEC, NULL, tables_begin, table_message, err);

	if (r < 0)
		return err_wrap(err, r, "tables");
	r = ours_read(t, err);
	ours_sort(&t->f->ours);
	return r < 0 ? r : others_read(t, err);
}

/* The mark of captured packets, which foreign rules may compare with. */
static void mark_read(struct facts *f)
{
	struct ipvs_route_config c = { .marks = ipvs_marks_from(IPVS_MARK_TAG_DEFAULT) };
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;

	if (nl_sock_open(&nl, NETLINK_ROUTE, NULL) == 0)
		(void)!ipvs_route_config_read(nl, &c, NULL);
	f->ipvs_plane.mark = c.marks.tag;
}

void read_tables(struct facts *f)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	struct tables t = { .f = f };
	int r = nl_sock_open(&nl, NETLINK_NETFILTER, &f->tables_error);

	t.nl = nl;
	mark_read(f);
	f->has_tables = r == 0 && all_read(&t, &f->tables_error) == 0;
	chain_rules_fini(&t);
	vec_fini(&t.rules);
	vec_fini(&t.ours);
	legacy_read(f);
}
