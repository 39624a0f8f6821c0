/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/link - find a link by name, read its addresses, delete it. */
#include "cleanup/link.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "nl/attr.h"
#include "nl/dump.h"

static int link_message(void *arg, const struct nlmsghdr *h, struct err *err)
{
	const struct nlattr *tb[IFLA_MAX + 1];
	const struct nlattr *info[IFLA_INFO_MAX + 1];
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(h);
	struct ipvs_link *l = arg;

	if (h->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(h) < sizeof(*ifi))
		return 0;
	nl_attr_table(tb, IFLA_MAX, h, sizeof(*ifi));
	nl_attr_nest(info, IFLA_INFO_MAX, tb[IFLA_LINKINFO]);
	l->index = ifi->ifi_index;
	l->is_dummy = strcmp(nl_attr_str(info[IFLA_INFO_KIND]), "dummy") == 0;
	return 0;
}

static void addrs_begin(void *arg)
{
	struct ipvs_link *l = arg;

	vec_clear(&l->addrs);
}

static int addr_message(void *arg, const struct nlmsghdr *h, struct err *err)
{
	const struct nlattr *tb[IFA_MAX + 1];
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(h);
	struct ipvs_link *l = arg;
	const void *bytes;

	if (h->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(h) < sizeof(*ifa) ||
	    ifa->ifa_index != (unsigned int)l->index ||
	    (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6))
		return 0;
	nl_attr_table(tb, IFA_MAX, h, sizeof(*ifa));
	bytes = nl_attr_bytes(tb[tb[IFA_LOCAL] ? IFA_LOCAL : IFA_ADDRESS],
			      ifa->ifa_family == AF_INET6 ? 16 : 4);
	if (bytes != NULL)
		*vec_push(&l->addrs) = ip_addr_from_bytes(ifa->ifa_family, bytes);
	return 0;
}

int ipvs_link_read(struct ipvs_link *ret, enum proxy p, struct nl_sock *nl, struct err *err)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nl_reader link = { .message = link_message, .arg = ret };
	struct nl_reader addrs = { .begin = addrs_begin, .message = addr_message, .arg = ret };
	struct nlmsghdr *h = nl_request(buf, sizeof(buf), RTM_GETLINK);
	int r;

	mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
	ret->name = p == PROXY_KUBE_ROUTER ? "kube-dummy-if" : "kube-ipvs0";
	mnl_attr_put_strz(h, IFLA_IFNAME, ret->name);
	r = nl_query(nl, h, &link, NULL, err);
	if (r == -ENODEV)
		return 0;
	if (r < 0)
		return r;
	h = nl_request(buf, sizeof(buf), RTM_GETADDR);
	mnl_nlmsg_put_extra_header(h, sizeof(struct ifaddrmsg));
	r = nl_dump(nl, h, &addrs, err);
	if (r == 0)
		vec_sort(&ret->addrs, ip_addr_cmp);
	return r;
}

bool ipvs_link_has(const struct ipvs_link *l, const struct ip_addr *addr)
{
	return vec_search(&l->addrs, addr, ip_addr_cmp) != NULL;
}

void ipvs_link_fini(struct ipvs_link *l)
{
	vec_fini(&l->addrs);
}

int cleanup_link(const struct ipvs_link *l, struct nl_sock *nl, struct report *report,
		 struct err *err)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nl_reader rd = { 0 };
	struct nlmsghdr *h = nl_request(buf, sizeof(buf), RTM_DELLINK);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	struct err why = { 0 };

	if (l->index == 0)
		return 0;
	if (!l->is_dummy) {
		report_left(report, "link: left: %s is no dummy device", l->name);
		return 0;
	}
	ifi->ifi_index = l->index;
	if (nl_query(nl, h, &rd, NULL, &why) < 0)
		report_left(report, "link: left: %s: %s", l->name, why.text);
	else
		report_removed(report, 1, "link: removed %s and its %u addresses", l->name,
			       l->addrs.n);
	return 0;
}
