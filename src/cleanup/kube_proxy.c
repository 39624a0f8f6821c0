/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/kube_proxy - the order of cleanup. */
#include "cleanup/kube_proxy.h"

#include <errno.h>
#include <linux/netlink.h>

struct sockets {
	struct nl_sock *netfilter;
	struct nl_sock *route;
	struct ipvs_wire *ipvs;
};

static int sockets_open(struct sockets *s, struct err *err)
{
	struct nl_sock *generic = NULL;
	int r = nl_sock_open(&s->netfilter, NETLINK_NETFILTER, err);

	if (r == 0)
		r = nl_sock_open(&s->route, NETLINK_ROUTE, err);
	if (r == 0)
		r = nl_sock_open(&generic, NETLINK_GENERIC, err);
	if (r == 0)
		ipvs_wire_open(&s->ipvs, generic);
	return r;
}

static int is_allowed(struct cleanup *c, struct nl_sock *nl, struct err *err)
{
	int r;

	if (!c->is_running)
		return err_set(err, -EAGAIN, "no vipd runs in this network namespace");
	r = cleanup_has_vipd(nl, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -EAGAIN, "no table of vipd is in the kernel");
	return serving_wait(c, true, err);
}

static int gate(struct cleanup *c, struct nl_sock *nl, struct err *err)
{
	int r;

	if (c->is_forced)
		return 0;
	r = is_allowed(c, nl, err);
	if (r < 0)
		(void)err_wrap(err, r, "vipd does not serve instead");
	else
		r = serving_no_other(proxy_name(c->proxy), err);
	return r < 0 ? err_wrap(err, r,
				"no state of %s is removed (--cleanup=%s,force skips this check)",
				proxy_name(c->proxy), proxy_name(c->proxy))
		     : 0;
}

/*
 * Delete virtual services, then the device with their addresses, unless virtual services with
 * connections are left (c->is_busy). The device stays until vipd serves the services that it takes
 * over.
 */
static int clean_ipvs(struct cleanup *c, struct sockets *s, struct err *err)
{
	struct err why = { 0 };
	AUTO(vec_fini) struct node_ports ports = { 0 };
	AUTO(vec_fini) struct ipvs_link link = { 0 };
	int r = ipvs_link_read(&link, c->proxy, s->route, err);

	if (r == 0)
		r = ipset_node_ports(&ports, c->proxy, s->netfilter, err);
	if (r == 0)
		r = cleanup_ipvs(s->ipvs, &link, &ports, c, err);
	if (r < 0)
		return r;
	if (!c->is_busy && c->n_handed_over > 0 && serving_wait(c, false, &why) < 0) {
		c->is_busy = true;
		report_left(c, "ipvs: left: services that vipd does not serve yet: %s", why.text);
	}
	if (!c->is_busy)
		return cleanup_link(&link, s->route, c, err);
	report_left(c, "link, iptables, ipset: left: all, until the virtual services are removed");
	return 0;
}

static int clean(struct cleanup *c, struct sockets *s, struct err *err)
{
	int r = 0;

	if (c->proxy == PROXY_KUBE_PROXY)
		r = cleanup_nftables(s->netfilter, c, err);
	if (r == 0 && c->proxy == PROXY_KUBE_ROUTER)
		r = dsr_marks_read(&c->marks, s->route, err);
	if (r == 0)
		r = clean_ipvs(c, s, err);
	if (r < 0 || c->is_busy)
		return r;
	r = cleanup_iptables_nft(s->netfilter, c, err);
	if (r < 0)
		return r;
	cleanup_iptables_legacy(c);
	r = cleanup_ipsets(s->netfilter, c, err);
	if (r == 0 && c->proxy == PROXY_KUBE_ROUTER)
		r = cleanup_routing(s->route, c, err);
	return r;
}

int cleanup_kube_proxy(struct cleanup *c, struct err *err)
{
	struct sockets s = { 0 };
	int r = sockets_open(&s, err);

	if (r == 0)
		r = gate(c, s.netfilter, err);
	if (r == 0)
		r = clean(c, &s, err);
	if (r == 0)
		r = report_end(c, err);
	vec_fini(&c->marks.v);
	nl_sock_close(s.netfilter);
	nl_sock_close(s.route);
	ipvs_wire_close(s.ipvs);
	return r;
}
