/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/route.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/vec.h"
#include "nl/attr.h"
#include "nl/dump.h"

#define RULES 4
#define LO_INDEX 1 /* in every network namespace */
#define REQUEST_MAX 512

struct rule {
	uint32_t priority;
	uint32_t mark;
	uint32_t mask;
	uint32_t table;
	uint32_t target; /* of goto */
	uint8_t action;  /* FR_ACT_* */
	bool is_iif_lo;
	bool has_more; /* conditions that vipd never sets */
	bool is_ours;
	uint8_t from_len; /* prefix length of `from`; 0: any source */
	struct ip_addr from;
};

/* Rules and routes of a family. */
struct reading {
	VEC(struct rule) rules;
	const struct ipvs_route_config *c; /* NULL: no routes */
	bool has_route;
	bool has_foreign_route;
};

/* Desired rules in the order of their creation: the exception comes first. */
static void rules_desired(struct rule desired[static RULES], const struct ipvs_route_config *c)
{
	uint32_t p = c->priority;

	desired[0] = (struct rule){ .priority = p + 3, .action = FR_ACT_NOP };
	desired[1] = (struct rule){ .priority = p + 1,
				    .mark = c->marks.tag,
				    .mask = IPVS_MARK_MASK,
				    .is_iif_lo = true,
				    .action = FR_ACT_GOTO,
				    .target = p + 3 };
	desired[2] = (struct rule){ .priority = p + 2,
				    .mark = c->marks.tag,
				    .mask = IPVS_MARK_MASK,
				    .action = FR_ACT_TO_TBL,
				    .table = c->table };
	desired[3] = (struct rule){ .priority = p,
				    .mark = c->marks.birth,
				    .mask = IPVS_MARK_MASK,
				    .action = FR_ACT_TO_TBL,
				    .table = c->table };
}

static bool rule_is_equal(const struct rule *a, const struct rule *b)
{
	return a->priority == b->priority && a->mark == b->mark && a->mask == b->mask &&
	       a->table == b->table && a->target == b->target && a->action == b->action &&
	       a->is_iif_lo == b->is_iif_lo && a->has_more == b->has_more;
}

/* --- reading --- */

static void rule_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[FRA_MAX + 1];
	const struct fib_rule_hdr *f;
	struct reading *rd = arg;
	const uint8_t *protocol;
	struct rule r = { 0 };

	if (h->nlmsg_type != RTM_NEWRULE || h->nlmsg_len < NLMSG_LENGTH(sizeof(*f)))
		return;
	f = mnl_nlmsg_get_payload(h);
	nl_attr_table(tb, FRA_MAX, h, sizeof(*f));
	protocol = nl_attr_bytes(tb[FRA_PROTOCOL], 1);
	r.priority = nl_attr_u32(tb[FRA_PRIORITY], 0);
	r.mark = nl_attr_u32(tb[FRA_FWMARK], 0);
	r.mask = nl_attr_u32(tb[FRA_FWMASK], 0);
	r.action = f->action;
	r.target = f->action == FR_ACT_GOTO ? nl_attr_u32(tb[FRA_GOTO], 0) : 0;
	if (f->action == FR_ACT_TO_TBL)
		r.table = nl_attr_u32(tb[FRA_TABLE], f->table);
	r.is_iif_lo = strcmp(nl_attr_str(tb[FRA_IIFNAME]), "lo") == 0;
	if (nl_attr_addr(&r.from, tb[FRA_SRC], f->family))
		r.from_len = f->src_len;
	r.has_more = tb[FRA_SRC] != NULL || tb[FRA_DST] != NULL || tb[FRA_OIFNAME] != NULL ||
		     (tb[FRA_IIFNAME] != NULL && !r.is_iif_lo) || f->flags & FIB_RULE_INVERT;
	r.is_ours = protocol != NULL && *protocol == IPVS_ROUTE_PROTOCOL;
	*vec_push(&rd->rules) = r;
}

static void routes_begin(void *arg)
{
	struct reading *rd = arg;

	rd->has_route = rd->has_foreign_route = false;
}

static void route_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[RTA_MAX + 1];
	struct reading *rd = arg;
	const struct rtmsg *m;

	if (h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return;
	m = mnl_nlmsg_get_payload(h);
	nl_attr_table(tb, RTA_MAX, h, sizeof(*m));
	if (nl_attr_u32(tb[RTA_TABLE], m->rtm_table) != rd->c->table)
		return;
	if (m->rtm_protocol != IPVS_ROUTE_PROTOCOL)
		rd->has_foreign_route = true;
	else if (m->rtm_type == RTN_LOCAL && m->rtm_dst_len == 0)
		rd->has_route = true;
}

static struct nlmsghdr *route_request(void *buf, size_t size, uint16_t type, enum ipfam fam,
				      uint32_t table)
{
	struct nlmsghdr *h = nl_request(buf, size, type);
	struct rtmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->rtm_family = ip_family(fam);
	m->rtm_table = table < 256 ? (unsigned char)table : RT_TABLE_COMPAT;
	mnl_attr_put_u32(h, RTA_TABLE, table);
	return h;
}

static struct nlmsghdr *rule_request(void *buf, size_t size, uint16_t type, enum ipfam fam)
{
	struct nlmsghdr *h = nl_request(buf, size, type);
	struct fib_rule_hdr *f = mnl_nlmsg_put_extra_header(h, sizeof(*f));

	f->family = ip_family(fam);
	return h;
}

/* Make the kernel filter the dump by table, if it can: a node may have many routes. */
static void set_strict_check(struct nl_sock *nl)
{
	int on = 1;

	if (nl_sock_fd(nl) >= 0)
		(void)setsockopt(nl_sock_fd(nl), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on,
				 sizeof(on));
}

/* 1; 0: the kernel has no IPv6, and neither rules nor packets of it. */
static int read_family(struct reading *rd, struct nl_sock *nl, enum ipfam fam, struct err *err)
{
	char buf[REQUEST_MAX];
	int r;

	set_strict_check(nl);
	r = nl_dump(nl, rule_request(buf, sizeof(buf), RTM_GETRULE, fam),
		    &(struct nl_reader){
			    .message = rule_message, .arg = rd, .n_results = &rd->rules.n },
		    err);
	if (r == -EAFNOSUPPORT && fam == IPFAM_V6)
		return 0;
	if (r < 0)
		return err_wrap(err, r, "list policy routing rules of %s", ipfam_text(fam));
	if (rd->c == NULL)
		return 1;
	r = nl_dump(nl, route_request(buf, sizeof(buf), RTM_GETROUTE, fam, rd->c->table),
		    &(struct nl_reader){ routes_begin, route_message, rd }, err);
	if (r < 0 && r != -ENOENT) /* -ENOENT of a strict check: no such table yet */
		return err_wrap(err, r, "list routes of %s", ipfam_text(fam));
	return 1;
}

/* LIFE-17: IPv6 is switched off: no interface has an address, and lo accepts no route. */
static bool is_switched_off(enum ipfam fam)
{
	FINI(str_fini) struct str text = { 0 };

	return fam == IPFAM_V6 && file_read(&text, "/proc/net/if_inet6", 0, NULL) == 0;
}

/* --- writing --- */

static int act(struct nl_sock *nl, struct nlmsghdr *h, uint16_t flags, struct err *err)
{
	h->nlmsg_flags |= flags;
	return nl_query(nl, h, &(struct nl_reader){ 0 }, NULL, err);
}

static int rule_act(struct nl_sock *nl, uint16_t type, enum ipfam fam, const struct rule *r,
		    struct err *err)
{
	char buf[REQUEST_MAX];
	struct nlmsghdr *h = rule_request(buf, sizeof(buf), type, fam);
	struct fib_rule_hdr *f = mnl_nlmsg_get_payload(h);
	int ret;

	f->action = r->action;
	mnl_attr_put_u32(h, FRA_PRIORITY, r->priority);
	mnl_attr_put_u8(h, FRA_PROTOCOL, IPVS_ROUTE_PROTOCOL);
	if (r->mask != 0) {
		mnl_attr_put_u32(h, FRA_FWMARK, r->mark);
		mnl_attr_put_u32(h, FRA_FWMASK, r->mask);
	}
	if (r->is_iif_lo)
		mnl_attr_put_strz(h, FRA_IIFNAME, "lo");
	if (r->action == FR_ACT_GOTO)
		mnl_attr_put_u32(h, FRA_GOTO, r->target);
	if (r->action == FR_ACT_TO_TBL) {
		f->table = r->table < 256 ? (uint8_t)r->table : RT_TABLE_COMPAT;
		mnl_attr_put_u32(h, FRA_TABLE, r->table);
	}
	ret = act(nl, h, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0, err);
	return ret < 0 ? err_wrap(err, ret, "policy routing rule %u of %s", r->priority,
				  ipfam_text(fam))
		       : 0;
}

static int route_act(struct nl_sock *nl, uint16_t type, enum ipfam fam, uint32_t table,
		     struct err *err)
{
	char buf[REQUEST_MAX];
	struct nlmsghdr *h = route_request(buf, sizeof(buf), type, fam, table);
	struct rtmsg *m = mnl_nlmsg_get_payload(h);
	int r;

	m->rtm_protocol = IPVS_ROUTE_PROTOCOL;
	m->rtm_scope = fam == IPFAM_V4 ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
	m->rtm_type = RTN_LOCAL;
	mnl_attr_put_u32(h, RTA_OIF, LO_INDEX);
	r = act(nl, h, type == RTM_NEWROUTE ? NLM_F_CREATE | NLM_F_EXCL : 0, err);
	return r < 0 ? err_wrap(err, r, "local route in table %u of %s", table, ipfam_text(fam))
		     : 0;
}

/* Conditions and action in the format of `ip rule`. */
static void rule_conditions_print(struct str *out, const struct rule *r)
{
	if (r->from_len > 0)
		str_printf(out, " from %s/%u", ip_addr_str(&r->from), r->from_len);
	if (r->mask != 0)
		str_printf(out, " fwmark 0x%x/0x%x", r->mark, r->mask);
	if (r->is_iif_lo)
		str_puts(out, " iif lo");
	if (r->action == FR_ACT_GOTO)
		str_printf(out, " goto %u", r->target);
	else if (r->action == FR_ACT_TO_TBL)
		str_printf(out, " lookup %u", r->table);
	else
		str_puts(out, r->action == FR_ACT_NOP ? " nop" : " OTHER-ACTION");
	if (r->has_more && r->from_len == 0)
		str_puts(out, " OTHER-CONDITIONS");
}

/* Delete vipd's route. A missing route is no error. */
static int route_del(struct nl_sock *nl, enum ipfam fam, uint32_t table, struct err *err)
{
	int r = route_act(nl, RTM_DELROUTE, fam, table, err);

	return r == -ESRCH || r == -ENOENT ? 0 : r;
}

static const struct rule *rule_find(const struct reading *rd, const struct rule *desired)
{
	return vec_find(&rd->rules, r, r->is_ours && rule_is_equal(r, desired));
}

/* -EBUSY: `err` names the foreign rule. */
static int conflict_err(struct err *err, enum ipfam fam, const struct rule *r, const char *why)
{
	FINI(str_fini) struct str text = { 0 };

	rule_conditions_print(&text, r);
	return err_set(err, -EBUSY, "foreign policy routing rule of %s: '%u:%s' %s",
		       ipfam_text(fam), r->priority, str_text(&text), why);
}

/* Can the mark of a captured packet match the rule? */
static bool may_match(const struct rule *r, const struct ipvs_marks *m)
{
	uint32_t tag_mask = r->mask & IPVS_MARK_MASK; /* other software may set other bits */

	return ((r->mark ^ m->tag) & tag_mask) == 0 || ((r->mark ^ m->birth) & tag_mask) == 0;
}

/*
 * Find foreign rules and routes that conflict with vipd's table or marks: a foreign rule that leads
 * into vipd's table would deliver its packets, for example of all pods, to this host.
 */
static int conflict_find(const struct reading *rd, enum ipfam fam, struct err *err)
{
	const struct ipvs_route_config *c = rd->c;

	if (rd->has_foreign_route)
		return err_set(err, -EBUSY,
			       "routing table %u of %s has foreign routes: choose another table "
			       "with --ipvs-route-table",
			       c->table, ipfam_text(fam));
	vec_for_each (r, &rd->rules) {
		if (r->is_ours)
			continue;
		if (r->action == FR_ACT_TO_TBL && r->table == c->table)
			return conflict_err(err, fam, r,
					    "leads into vipd's routing table: choose another "
					    "table with --ipvs-route-table");
		/* The mask covers the tag: the rule matches marks of a tag. */
		if ((r->mask & IPVS_MARK_TAG) == IPVS_MARK_TAG && may_match(r, &c->marks))
			return conflict_err(err, fam, r,
					    "matches vipd's marks: choose another tag with "
					    "--ipvs-mark");
	}
	return 0;
}

/* Delete vipd's rules that are not desired, and the route in another table that they led to. */
static int old_rules_del(struct nl_sock *nl, const struct reading *rd, enum ipfam fam,
			 const struct rule *desired, size_t n, size_t *n_writes, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < rd->rules.n && r == 0; i++) {
		const struct rule *old = &rd->rules.v[i];

		if (!old->is_ours || array_has(desired, n, d, rule_is_equal(old, d)))
			continue;
		r = rule_act(nl, RTM_DELRULE, fam, old, err);
		if (r == 0 && old->action == FR_ACT_TO_TBL && old->table != rd->c->table)
			r = route_del(nl, fam, old->table, err);
		*n_writes += r == 0;
	}
	return r;
}

/* 1: IPv6 is switched off, and left out. */
static int family_write(struct nl_sock *nl, const struct reading *rd, enum ipfam fam,
			const struct rule desired[static RULES], size_t *n_writes, struct err *err)
{
	int r = 0;

	if (!rd->has_route) {
		r = route_act(nl, RTM_NEWROUTE, fam, rd->c->table, err);
		if (r == -EACCES && is_switched_off(fam))
			return 1;
		*n_writes += r == 0;
	}
	for (size_t i = 0; i < RULES && r == 0; i++) {
		if (rule_find(rd, &desired[i]) != NULL)
			continue;
		r = rule_act(nl, RTM_NEWRULE, fam, &desired[i], err);
		*n_writes += r == 0;
	}
	return r < 0 ? r : old_rules_del(nl, rd, fam, desired, RULES, n_writes, err);
}

int ipvs_route_apply(struct nl_sock *nl, struct ipvs_route_config *c, enum ipfam fam,
		     size_t *n_writes, struct err *conflict, struct err *err)
{
	AUTO(vec_fini) struct reading rd = { .c = c };
	struct rule desired[RULES];
	struct err found = { 0 };
	int r = read_family(&rd, nl, fam, err);

	if (r <= 0)
		return r;
	rules_desired(desired, c);
	if (conflict_find(&rd, fam, &found) < 0) {
		/* Unless vipd's rules with this table and these marks exist. */
		if (!c->is_in_force[fam] && (!rd.has_route || rule_find(&rd, &desired[2]) == NULL))
			return err_set(err, -EBUSY, "%s", found.text);
		*conflict = found;
	}
	r = family_write(nl, &rd, fam, desired, n_writes, err);
	c->is_in_force[fam] |= r == 0;
	return MIN(r, 0);
}

/* vipd's rules, and the route in each table that they lead to, whatever the configuration. */
int ipvs_route_cleanup(struct nl_sock *nl, struct err *err)
{
	const struct ipvs_route_config c = { .table = IPVS_ROUTE_TABLE_DEFAULT };
	size_t n_writes = 0;

	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		AUTO(vec_fini) struct reading rd = { .c = &c };
		int r = read_family(&rd, nl, fam, err);

		if (r <= 0)
			return r;
		r = old_rules_del(nl, &rd, fam, NULL, 0, &n_writes, err);
		if (r == 0 && rd.has_route)
			r = route_del(nl, fam, c.table, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- for people --- */

/* Read the configuration from one rule of vipd; false if the rule has none. */
static bool rule_config(const struct rule *r, struct ipvs_route_config *c)
{
	uint32_t birth = r->mark & (UINT32_C(1) << 24); /* tags are even */
	uint32_t offset = r->action == FR_ACT_GOTO ? 1 : birth != 0 ? 0 : 2;

	if (!r->is_ours || (r->mask & IPVS_MARK_TAG) != IPVS_MARK_TAG || r->priority < offset ||
	    (r->action != FR_ACT_GOTO && r->action != FR_ACT_TO_TBL))
		return false;
	c->marks = ipvs_marks_from((uint8_t)((r->mark ^ birth) >> 24));
	c->priority = r->priority - offset;
	if (r->action == FR_ACT_TO_TBL)
		c->table = r->table;
	return true;
}

int ipvs_route_config_read(struct nl_sock *nl, struct ipvs_route_config *c, struct err *err)
{
	int n = 0;

	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		AUTO(vec_fini) struct reading rd = { 0 };
		int r = read_family(&rd, nl, fam, err);

		if (r < 0)
			return r;
		vec_for_each (rule, &rd.rules)
			n += rule_config(rule, c);
	}
	return n;
}

static void rule_print(struct str *out, enum ipfam fam, const struct rule *r)
{
	str_printf(out, "%s/rule/%u", ipfam_text(fam), r->priority);
	rule_conditions_print(out, r);
	str_puts(out, "\n");
}

static void route_print(struct str *out, enum ipfam fam, uint32_t table)
{
	str_printf(out, "%s/table/%u local default dev lo\n", ipfam_text(fam), table);
}

static int rule_cmp(const void *a, const void *b)
{
	const struct rule *x = a;
	const struct rule *y = b;

	return CMP(x->priority, y->priority);
}

static void family_print(const struct reading *rd, enum ipfam fam, struct str *desired,
			 struct str *programmed)
{
	struct rule desired_rules[RULES];

	if (!rd->has_route && is_switched_off(fam))
		return;
	rules_desired(desired_rules, rd->c);
	qsort(desired_rules, RULES, sizeof(desired_rules[0]), rule_cmp);
	for (size_t i = 0; i < RULES; i++)
		rule_print(desired, fam, &desired_rules[i]);
	vec_sort(&rd->rules, rule_cmp);
	vec_for_each (r, &rd->rules)
		if (r->is_ours)
			rule_print(programmed, fam, r);
	route_print(desired, fam, rd->c->table);
	if (rd->has_route)
		route_print(programmed, fam, rd->c->table);
}

/* Can a foreign rule with a better priority take captured packets elsewhere? */
static bool has_precedence(const struct ipvs_route_config *c, const struct rule *r)
{
	bool is_local = r->action == FR_ACT_TO_TBL && r->table == RT_TABLE_LOCAL;

	if (r->is_ours || r->priority >= c->priority + RULES - 1 || r->action == FR_ACT_NOP ||
	    (is_local && r->mask == 0 && !r->has_more && !r->is_iif_lo))
		return false;
	return may_match(r, &c->marks);
}

static void family_conflicts(const struct reading *rd, enum ipfam fam, ipvs_conflict_fn *fn,
			     void *arg)
{
	struct err err = { 0 };

	if (conflict_find(rd, fam, &err) < 0)
		fn(arg, true, err.text);
	vec_for_each (r, &rd->rules) {
		FINI(str_fini) struct str text = { 0 };

		if (!has_precedence(rd->c, r))
			continue;
		str_printf(&text, "policy routing rule %u of %s has precedence over vipd's",
			   r->priority, ipfam_text(fam));
		if (r->mask != 0)
			str_printf(&text, ", and marks 0x%x/0x%x can be a captured packet's",
				   r->mark, r->mask);
		fn(arg, false, str_text(&text));
	}
}

int ipvs_route_text(struct nl_sock *nl, const struct ipvs_route_config *c, struct str *desired,
		    struct str *programmed, ipvs_conflict_fn *fn, void *arg, struct err *err)
{
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		AUTO(vec_fini) struct reading rd = { .c = c };
		int r = read_family(&rd, nl, fam, err);

		if (r <= 0)
			return r;
		if (fn != NULL)
			family_conflicts(&rd, fam, fn, arg);
		family_print(&rd, fam, desired, programmed); /* sorts the rules */
	}
	return 0;
}
