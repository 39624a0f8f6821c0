/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/link - find the device of a proxy, delete it. */
#include "cleanup/link.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/links.h"
#include "nl/dump.h"

int ipvs_link_read(struct ipvs_link *ret, enum proxy p, struct nl_sock *nl, struct err *err)
{
	FINI(links_fini) struct links all = { 0 };
	const struct fact_link *found;
	int r = links_read(&all, nl, err);

	if (r < 0)
		return r;
	ret->name = p == PROXY_KUBE_ROUTER ? "kube-dummy-if" : "kube-ipvs0";
	found = vec_find(&all.links, l, strcmp(l->name, ret->name) == 0);
	if (found == NULL)
		return 0;
	ret->index = (int)found->index;
	ret->is_dummy = strcmp(found->kind, "dummy") == 0;
	vec_for_each (a, &all.addrs)
		if (a->link == found->index)
			*vec_push(&ret->addrs) = a->addr;
	vec_sort(&ret->addrs, ip_addr_cmp);
	return 0;
}

bool ipvs_link_has(const struct ipvs_link *l, const struct ip_addr *addr)
{
	return vec_search(&l->addrs, addr, ip_addr_cmp) != NULL;
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
