/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/routing - dump rules and routes; send those of kube-router back for deletion. */
#include "cleanup/parts.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "nl/attr.h"
#include "nl/dump.h"

#define DSR_TABLE 78
#define DSR_PRIORITY 32764
#define EXTERNAL_TABLE 79
#define EXTERNAL_PRIORITY 32765

#define BRIDGE "kube-bridge"

/* Messages of the kernel, to be sent as deletions. */
struct doomed {
	VEC(struct nlmsghdr *) v;
	uint32_t bridge; /* index of the device; 0: none */
};

static void doomed_begin(void *arg)
{
	struct doomed *d = arg;

	vec_free_all(&d->v);
}

static void doomed_add(struct doomed *d, const struct nlmsghdr *h, uint16_t type)
{
	struct nlmsghdr *copy = xmalloc(h->nlmsg_len);

	memcpy(copy, h, h->nlmsg_len);
	copy->nlmsg_type = type;
	copy->nlmsg_flags = NLM_F_REQUEST;
	*vec_push(&d->v) = copy;
}

/* The table of a rule of kube-router; 0: not kube-router's. `mark`: of table 78. */
static uint32_t rule_table(uint32_t *mark, const struct nlmsghdr *h)
{
	const struct nlattr *tb[FRA_MAX + 1];
	uint32_t priority;
	uint32_t table;

	if (h->nlmsg_type != RTM_NEWRULE ||
	    mnl_nlmsg_get_payload_len(h) < sizeof(struct fib_rule_hdr))
		return 0;
	nl_attr_table(tb, FRA_MAX, h, sizeof(struct fib_rule_hdr));
	priority = nl_attr_u32(tb[FRA_PRIORITY], 0);
	table = nl_attr_u32(tb[FRA_TABLE], 0);
	*mark = nl_attr_u32(tb[FRA_FWMARK], 0);
	if (table == DSR_TABLE && priority == DSR_PRIORITY && *mark != 0 &&
	    nl_attr_u32(tb[FRA_FWMASK], UINT32_MAX) == UINT32_MAX)
		return table;
	return table == EXTERNAL_TABLE && priority == EXTERNAL_PRIORITY ? table : 0;
}

static void rule_message(void *arg, const struct nlmsghdr *h)
{
	uint32_t mark;

	if (rule_table(&mark, h) != 0)
		doomed_add(arg, h, RTM_DELRULE);
}

static void mark_message(void *arg, const struct nlmsghdr *h)
{
	const uint8_t *family = mnl_nlmsg_get_payload(h);
	struct dsr_marks *marks = arg;
	uint32_t mark;

	if (rule_table(&mark, h) == DSR_TABLE)
		*vec_push(&marks->v) = (struct dsr_mark){ .family = *family, .mark = mark };
}

int dsr_marks_read(struct dsr_marks *ret, struct nl_sock *nl, struct err *err)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = nl_request(buf, sizeof(buf), RTM_GETRULE);
	struct nl_reader rd = { .message = mark_message, .arg = ret, .n_results = &ret->v.n };

	mnl_nlmsg_put_extra_header(h, sizeof(struct fib_rule_hdr));
	return nl_dump(nl, h, &rd, err);
}

static void route_message(void *arg, const struct nlmsghdr *h)
{
	const struct rtmsg *rt = mnl_nlmsg_get_payload(h);
	const struct nlattr *tb[RTA_MAX + 1];
	const struct doomed *d = arg;
	uint32_t table;

	if (h->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(h) < sizeof(*rt))
		return;
	nl_attr_table(tb, RTA_MAX, h, sizeof(*rt));
	table = nl_attr_u32(tb[RTA_TABLE], 0);
	if ((table == DSR_TABLE && rt->rtm_type == RTN_LOCAL && rt->rtm_dst_len == 0) ||
	    (table == EXTERNAL_TABLE && rt->rtm_type == RTN_UNICAST &&
	     rt->rtm_dst_len == (rt->rtm_family == AF_INET ? 32 : 128) && d->bridge != 0 &&
	     nl_attr_u32(tb[RTA_OIF], 0) == d->bridge && tb[RTA_GATEWAY] == NULL))
		doomed_add(arg, h, RTM_DELROUTE);
}

/* Dump objects of one type and of all families, and delete kube-router's. Returns their number or
 * -errno. */
static int delete_all(struct nl_sock *nl, uint16_t type, size_t head,
		      void (*message)(void *, const struct nlmsghdr *), struct err *err)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = nl_request(buf, sizeof(buf), type);
	struct doomed doomed = { .bridge = if_nametoindex(BRIDGE) };
	struct nl_reader rd = { .begin = doomed_begin, .message = message, .arg = &doomed };
	int n;
	int r;

	mnl_nlmsg_put_extra_header(h, head);
	r = nl_dump(nl, h, &rd, err);
	n = (int)doomed.v.n;
	vec_for_each (old, &doomed.v) {
		if (r < 0)
			break;
		r = nl_query(nl, *old, &(struct nl_reader){ 0 }, NULL, err);
		if (r == -ENOENT || r == -ESRCH) /* already deleted */
			r = 0;
	}
	vec_free_all(&doomed.v);
	return r < 0 ? r : n;
}

/* Rules of both families go first: after an error routes may be left, which the next run deletes.
 */
int cleanup_routing(struct nl_sock *nl, struct cleanup *c, struct err *err)
{
	int n_routes;
	int n_rules = delete_all(nl, RTM_GETRULE, sizeof(struct fib_rule_hdr), rule_message, err);

	if (n_rules < 0)
		return n_rules;
	n_routes = delete_all(nl, RTM_GETROUTE, sizeof(struct rtmsg), route_message, err);
	if (n_routes < 0)
		return n_routes;
	if (n_rules + n_routes > 0)
		report_removed(c, (size_t)n_rules + (size_t)n_routes,
			       "routing: removed %d rules and %d routes", n_rules, n_routes);
	return 0;
}
