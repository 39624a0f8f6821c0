/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/judge_owners - who else serves, binds or listens on what is ours. */
#include <arpa/inet.h> /* before linux/in.h: that one then steps back */

#include <inttypes.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "doctor/judge.h"
#include "plane/ipvs/rules.h"

#define LISTED_MAX 3
#define TABLE_OURS "vipd"

static const char *proto_text(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "TCP" : proto == IPPROTO_UDP ? "UDP" : "SCTP";
}

static const char *family_text(uint8_t family)
{
	switch (family) {
	case NFPROTO_IPV4:
		return "ip";
	case NFPROTO_IPV6:
		return "ip6";
	case NFPROTO_INET:
		return "inet";
	case NFPROTO_BRIDGE:
		return "bridge";
	case NFPROTO_NETDEV:
		return "netdev";
	case NFPROTO_ARP:
		return "arp";
	default:
		return "?";
	}
}

/* --- other proxies ------------------------------------------------------------------- */

static void judge_processes(struct check_report *r, const struct facts *f)
{
	vec_for_each (p, &f->proxies) {
		if (strcmp(p->name, "cilium-agent") == 0)
			check_add(r, "proxies", CHECK_NOTE,
				  "make sure that Cilium's kubeProxyReplacement is false",
				  "cilium-agent runs (process %" PRId64
				  "): its programs may translate services before our rules",
				  p->pid);
		else
			check_add(r, "proxies", CHECK_ERROR,
				  "let one of the two serve: delete its DaemonSet or stop its unit",
				  "%s runs (process %" PRId64
				  "): two proxies for the same services",
				  p->name, p->pid);
	}
}

static void judge_links(struct check_report *r, const struct facts *f)
{
	vec_for_each (l, &f->links) {
		if (strcmp(l->name, "kube-ipvs0") == 0 || strcmp(l->name, "kube-dummy-if") == 0)
			check_add(r, "proxies", CHECK_WARNING,
				  "ip link del it, once its proxy is gone: its addresses make this "
				  "host answer for every cluster IP",
				  "link %s is there, which %s made", l->name,
				  l->name[5] == 'i' ? "kube-proxy's ipvs mode" : "kube-router");
		else if (strcmp(l->name, "cilium_host") == 0)
			check_add(
				r, "proxies", CHECK_NOTE,
				"make sure that Cilium's kubeProxyReplacement is false",
				"link cilium_host is there: Cilium's programs may translate services "
				"before our rules");
	}
}

static void judge_leftovers(struct check_report *r, const struct facts *f)
{
	static const char advice[] = "kube-proxy --cleanup, once it is gone: its rules still "
				     "translate whatever they know";

	vec_for_each (t, &f->tables) {
		if (strcmp(t->name, "kube-proxy") == 0)
			check_add(
				r, "proxies", CHECK_WARNING, advice,
				"table %s kube-proxy is there: rules of kube-proxy's nftables mode",
				family_text(t->family));
		else if (t->has_kube_services)
			check_add(
				r, "proxies", CHECK_WARNING, advice,
				"chain KUBE-SERVICES in table %s %s: rules of kube-proxy's iptables "
				"mode",
				family_text(t->family), t->name);
	}
	if (f->has_legacy_kube)
		check_add(
			r, "proxies", CHECK_WARNING, advice,
			"chain KUBE-SERVICES in iptables-legacy: rules of kube-proxy's iptables mode");
}

void judge_proxies(struct check_report *r, const struct facts *f)
{
	size_t before = r->v.n;

	judge_processes(r, f);
	judge_links(r, f);
	judge_leftovers(r, f);
	if (r->v.n == before)
		check_add(r, "proxies", CHECK_OK, NULL, "no sign of another service proxy");
}

/* --- the same addresses ----------------------------------------------------------------- */

/* "10.96.0.1:443/TCP, 10.96.0.10:53/UDP and 17 more" */
static void tuple_list(struct str *list, size_t *n, const struct ip_addr *a, uint8_t proto,
		       uint16_t port)
{
	char ip[IP_ENDPOINT_TEXT_MAX];
	char text[IP_ENDPOINT_TEXT_MAX + 16];

	(void)snprintf(text, sizeof(text), "%s/%s", ip_endpoint_text(a, port, ip),
		       proto_text(proto));
	judge_list_add(list, n, LISTED_MAX, text);
}

void judge_ipvs(struct check_report *r, const struct facts *f)
{
	struct str list = { 0 };
	size_t n = 0;

	vec_for_each (v, &f->ipvs)
		if (ours_has_frontend(&f->ours, &v->addr, v->proto, v->port))
			tuple_list(&list, &n, &v->addr, v->proto, v->port);
	judge_list_end(&list, n, LISTED_MAX);
	if (n > 0)
		check_add(r, "ipvs", CHECK_WARNING,
			  "ipvsadm -L -n; ipvsadm -D those that no other program needs",
			  "IPVS serves what is ours as well: %s", list.text);
	else if (f->ipvs.n > 0)
		check_add(r, "ipvs", CHECK_NOTE, NULL,
			  "IPVS serves %zu addresses and ports, none of ours", f->ipvs.n);
	else
		check_add(r, "ipvs", CHECK_OK, NULL,
			  !f->has_ipvs             ? "no IPVS in this kernel"
			  : f->ipvs_plane.is_asked ? "IPVS serves nothing but vipd's services"
						   : "IPVS serves nothing");
	str_fini(&list);
}

static const struct fact_link *link_find(const struct facts *f, uint32_t index)
{
	vec_for_each (l, &f->links)
		if (l->index == index)
			return l;
	return NULL;
}

/*
 * On the ipvs plane: a service's address on a device that only holds addresses makes it the
 * source of this host's own connections to it, and their answers never come back.
 */
static size_t judge_held_addresses(struct check_report *r, const struct facts *f)
{
	char text[IP_TEXT_MAX];
	size_t n = 0;

	vec_for_each (a, &f->addrs) {
		const struct fact_link *l = link_find(f, a->link);

		if (l == NULL || strcmp(l->kind, "dummy") != 0 ||
		    strcmp(l->name, "nodelocaldns") == 0 || !ours_has_vip(&f->ours, &a->addr) ||
		    ours_has_cluster_ip(&f->ours, &a->addr) || n++ >= LISTED_MAX)
			continue;
		check_add(
			r, "addresses", CHECK_WARNING,
			"ip addr del it, or ip link del the device: the ipvs plane needs no address "
			"on any, and this host's own connections to it time out",
			"service address %s is an address of this host, on %s",
			ip_addr_text(&a->addr, text), l->name);
	}
	return n;
}

void judge_addresses(struct check_report *r, const struct facts *f)
{
	size_t n = f->ipvs_plane.is_asked ? judge_held_addresses(r, f) : 0;
	char text[IP_TEXT_MAX];

	vec_for_each (a, &f->addrs) {
		const struct fact_link *l = link_find(f, a->link);
		bool is_cache = l != NULL && strcmp(l->name, "nodelocaldns") == 0;

		if (!ours_has_cluster_ip(&f->ours, &a->addr) || n++ >= LISTED_MAX)
			continue;
		check_add(
			r, "addresses", is_cache ? CHECK_NOTE : CHECK_WARNING,
			is_cache
				? "nothing, where a DNS cache of this node is meant to answer there"
			: f->ipvs_plane.is_asked
				? "ip addr del it: this host sends its own connections to it from "
				  "there, and those that are not masqueraded time out"
				: "ip addr del it: this host answers for the ports that no service "
				  "has, instead of a refusal",
			"cluster IP %s is an address of this host, on %s",
			ip_addr_text(&a->addr, text), l != NULL ? l->name : "?");
	}
	if (n > LISTED_MAX)
		check_add(r, "addresses", CHECK_WARNING, "ip addr", "and %zu more", n - LISTED_MAX);
	if (n == 0)
		check_add(r, "addresses", CHECK_OK, NULL,
			  "no cluster IP is an address of this host, of %zu",
			  f->ours.cluster_ips.n);
}

static bool listener_covers(const struct fact_tuple *l, const struct fact_tuple *frontend)
{
	if (l->proto != frontend->proto || l->port != frontend->port)
		return false;
	/* One that listens on :: nearly always takes IPv4 too. */
	if (l->is_any)
		return l->addr.family == AF_INET6 || frontend->addr.family == AF_INET;
	return ip_addr_is_equal(&l->addr, &frontend->addr);
}

static bool is_local(const struct facts *f, const struct ip_addr *addr)
{
	vec_for_each (a, &f->addrs)
		if (ip_addr_is_equal(&a->addr, addr))
			return true;
	return false;
}

static bool is_listened_on(const struct facts *f, const struct fact_tuple *frontend)
{
	vec_for_each (l, &f->listeners)
		if (listener_covers(l, frontend))
			return true;
	return false;
}

void judge_listeners(struct check_report *r, const struct facts *f)
{
	struct str list = { 0 };
	size_t n_local = 0;
	size_t n = 0;

	vec_for_each (t, &f->ours.frontends) {
		if (!is_local(f, &t->addr))
			continue;
		n_local++;
		if (is_listened_on(f, t))
			tuple_list(&list, &n, &t->addr, t->proto, t->port);
	}
	judge_list_end(&list, n, LISTED_MAX);
	if (n > 0)
		check_add(r, "listeners", CHECK_WARNING,
			  "ss -lntup tells which daemon; move it, or the service's node port",
			  "a daemon listens where a service is served, and is not reached: %s",
			  list.text);
	else
		check_add(r, "listeners", CHECK_OK, NULL,
			  "no daemon has one of the ports of this host that services have: %zu",
			  n_local);
	str_fini(&list);
}

/* --- tables ---------------------------------------------------------------------------------- */

/* The earliest of its hooks; they all are where destinations are changed. */
static const struct fact_hook *first_hook(const struct fact_table *t)
{
	const struct fact_hook *first = NULL;

	vec_for_each (h, &t->hooks)
		if (first == NULL || h->priority < first->priority)
			first = h;
	return first;
}

static void judge_foreign(struct check_report *r, const struct fact_table *t, bool is_ipvs)
{
	const struct fact_hook *h = first_hook(t);
	const char *family = family_text(t->family);
	char text[IP_TEXT_MAX];

	if (h == NULL)
		return;
	if (t->n_mentions > 0)
		check_add(
			r, "tables", CHECK_WARNING,
			is_ipvs ? "nft list ruleset; where it changes the destination, IPVS is not asked"
				: "nft list ruleset; whoever has the earlier hook decides",
			"table %s %s has %zu rules about addresses of ours, such as %s in chain %s",
			family, t->name, t->n_mentions, ip_addr_text(&t->mention, text),
			t->mention_chain);
	else if (h->priority < NF_IP_PRI_NAT_DST && t->has_dnat)
		check_add(
			r, "tables", CHECK_WARNING,
			"nft list ruleset; make sure that its rules leave addresses of services alone",
			"table %s %s changes destinations before ours: chain %s, %s, priority %d",
			family, t->name, h->chain, h->is_output ? "output" : "prerouting",
			h->priority);
	else if (is_ipvs)
		check_add(
			r, "tables", CHECK_NOTE, NULL,
			"table %s %s has NAT chains, and no rule about addresses of ours: where it "
			"changes a destination, IPVS is not asked",
			family, t->name);
	else
		check_add(r, "tables", CHECK_NOTE, NULL,
			  "table %s %s has NAT chains %s ours, and no rule about addresses of ours",
			  family, t->name,
			  h->priority < NF_IP_PRI_NAT_DST    ? "before"
			  : h->priority == NF_IP_PRI_NAT_DST ? "beside"
							     : "behind");
}

void judge_tables(struct check_report *r, const struct facts *f)
{
	size_t before = r->v.n;

	if (!f->has_tables) {
		check_add(r, "tables", CHECK_ERROR, "CAP_NET_ADMIN, and a kernel with nf_tables",
			  "what nf_tables holds cannot be read: %s", f->tables_error);
		return;
	}
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (f->ours.n_tables[fam] > 1)
			check_add(
				r, "tables", CHECK_NOTE,
				"nothing: vipd removes the older one when all services are in the "
				"newer, and no connection needs it",
				"%zu tables of vipd's for IPv%c: one replaces the other",
				f->ours.n_tables[fam], fam == IPFAM_V6 ? '6' : '4');
	vec_for_each (t, &f->tables) {
		if (f->ipvs_plane.is_asked && strcmp(t->name, IPVS_TABLE) == 0 &&
		    t->family == NFPROTO_INET)
			check_add(r, "tables", CHECK_ERROR,
				  "rename it: vipd does not serve by ipvs while it is there",
				  "table inet %s is not vipd's: it has no comment of vipd's",
				  t->name);
		else if (strncmp(t->name, TABLE_OURS, strlen(TABLE_OURS)) == 0)
			check_add(r, "tables", CHECK_NOTE,
				  "rename it: vipd takes another name while it is there",
				  "table %s %s is not vipd's: it has no comment of vipd's",
				  family_text(t->family), t->name);
		judge_foreign(r, t, f->ipvs_plane.is_asked);
	}
	if (r->v.n == before)
		check_add(r, "tables", CHECK_OK, NULL, "nobody else changes destinations");
}
