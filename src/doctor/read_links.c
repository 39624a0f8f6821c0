/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/read_links - links and addresses, by rtnetlink. */
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>

#include "doctor/facts.h"
#include "nl/attr.h"
#include "nl/dump.h"

static void link_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[IFLA_MAX + 1];
	const struct nlattr *info[IFLA_INFO_MAX + 1];
	struct links *all = arg;
	const struct ifinfomsg *ifi;
	struct fact_link *l;

	if (h->nlmsg_type != RTM_NEWLINK || h->nlmsg_len < NLMSG_LENGTH(sizeof(*ifi)))
		return;
	ifi = mnl_nlmsg_get_payload(h);
	nl_attr_table(tb, IFLA_MAX, h, sizeof(*ifi));
	nl_attr_nest(info, IFLA_INFO_MAX, tb[IFLA_LINKINFO]);
	l = vec_push(&all->links);
	*l = (struct fact_link){ .index = (uint32_t)ifi->ifi_index,
				 .is_up = ifi->ifi_flags & IFF_UP,
				 .master = nl_attr_u32(tb[IFLA_MASTER], 0) };
	(void)snprintf(l->name, sizeof(l->name), "%s", nl_attr_str(tb[IFLA_IFNAME]));
	(void)snprintf(l->kind, sizeof(l->kind), "%s", nl_attr_str(info[IFLA_INFO_KIND]));
}

static void addr_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[IFA_MAX + 1];
	struct links *l = arg;
	const struct ifaddrmsg *ifa;
	struct ip_addr addr;

	if (h->nlmsg_type != RTM_NEWADDR || h->nlmsg_len < NLMSG_LENGTH(sizeof(*ifa)))
		return;
	ifa = mnl_nlmsg_get_payload(h);
	if (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6)
		return;
	nl_attr_table(tb, IFA_MAX, h, sizeof(*ifa));
	/* On point-to-point links IFA_ADDRESS is the peer; IFA_LOCAL is the address of this host */
	if (nl_attr_addr(&addr, tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS], ifa->ifa_family))
		*vec_push(&l->addrs) = (struct fact_addr){ .addr = addr,
							   .prefix_len = ifa->ifa_prefixlen,
							   .link = ifa->ifa_index };
}

int links_read(struct links *ret, struct nl_sock *nl, struct err *err)
{
	const struct nl_reader links = { .message = link_message,
					 .arg = ret,
					 .n_results = &ret->links.n };
	const struct nl_reader addrs = { .message = addr_message,
					 .arg = ret,
					 .n_results = &ret->addrs.n };
	char buf[256];
	struct nlmsghdr *req = nl_request(buf, sizeof(buf), RTM_GETLINK);
	int r;

	/* Zeroed headers: of all families. */
	(void)mnl_nlmsg_put_extra_header(req, sizeof(struct ifinfomsg));
	r = nl_dump(nl, req, &links, err);
	if (r < 0)
		return err_wrap(err, r, "links of this host");
	req = nl_request(buf, sizeof(buf), RTM_GETADDR);
	(void)mnl_nlmsg_put_extra_header(req, sizeof(struct ifaddrmsg));
	r = nl_dump(nl, req, &addrs, err);
	return r < 0 ? err_wrap(err, r, "addresses of this host") : 0;
}

void links_fini(struct links *l)
{
	vec_fini(&l->links);
	vec_fini(&l->addrs);
}

void read_links(struct facts *f)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;

	f->has_links = nl_sock_open(&nl, NETLINK_ROUTE, &f->links_error) == 0 &&
		       links_read(&f->net, nl, &f->links_error) == 0;
}
