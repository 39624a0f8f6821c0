/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/checks_owners - proxies, addresses, listeners and tables that conflict with vipd's. */
#include <arpa/inet.h> /* before linux/in.h, which then omits its own definitions */

#include <inttypes.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "doctor/checks.h"
#include "plane/ipvs/rules.h"

#define LISTED_MAX 3
#define ADVICE_LINK \
	"with its addresses this host answers for every cluster IP: stop the proxy, then ip link del, or vipd --cleanup="
#define TABLE_OURS "vipd"
/* The addresses of services are in vipd's tables. */
#define NOT_CHECKED "not checked: tables of nf_tables cannot be read"

/* --- other proxies ------------------------------------------------------------------- */

static void check_processes(struct results *r, const struct facts *f)
{
	vec_for_each (p, &f->proxies.v) {
		if (strcmp(p->proxy, "vipd") == 0)
			continue;
		if (strcmp(p->proxy, "cilium") == 0)
			found(r, CHECK_NOTE, p->remedy,
			      "cilium-agent runs (process %" PRId64
			      "): its programs can translate services before vipd's rules",
			      p->pid);
		else if (strcmp(p->proxy, p->name) == 0)
			found(r, CHECK_ERROR, p->remedy,
			      "%s runs (process %" PRId64 "): two proxies serve the same services",
			      p->name, p->pid);
		else
			found(r, CHECK_ERROR, p->remedy,
			      "%s runs inside %s (process %" PRId64
			      "): two proxies serve the same services",
			      p->proxy, p->name, p->pid);
	}
}

static void check_links(struct results *r, const struct facts *f)
{
	bool has_calico = false;

	vec_for_each (l, &f->net.links) {
		if (strcmp(l->name, "kube-ipvs0") == 0 || strcmp(l->name, "kube-dummy-if") == 0)
			found(r, CHECK_WARNING,
			      l->name[5] == 'i' ? ADVICE_LINK "kube-proxy"
						: ADVICE_LINK "kube-router",
			      "link %s exists, a leftover of %s", l->name,
			      l->name[5] == 'i' ? "kube-proxy's ipvs mode" : "kube-router");
		else if (strcmp(l->name, "cilium_host") == 0)
			found(r, CHECK_NOTE, PROXY_REMEDY_CILIUM,
			      "link cilium_host exists: Cilium's programs can translate services before vipd's rules");
		has_calico |= strncmp(l->name, "cali", 4) == 0;
	}
	/* Felix applies policies to packets that IPVS forwards only if kube-ipvs0 exists. */
	if (has_calico && f->ipvs_plane.is_selected)
		found(r, CHECK_WARNING, "use mode nftables beside Calico's network policies",
		      "links of Calico exist: beside another IPVS proxy than kube-proxy its ingress policies do not apply to connections through services to endpoints of this node");
}

static void check_leftovers(struct results *r, const struct facts *f)
{
	static const char advice[] =
		"vipd --cleanup=kube-proxy, after kube-proxy is stopped: its rules still translate packets";

	vec_for_each (t, &f->tables) {
		if (strcmp(t->name, "kube-proxy") == 0)
			found(r, CHECK_WARNING, advice,
			      "table %s kube-proxy exists: rules of kube-proxy's nftables mode",
			      nft_family_text(t->family));
		else if (t->has_kube_services)
			found(r, CHECK_WARNING, advice,
			      "chain KUBE-SERVICES in table %s %s: rules of kube-proxy's iptables "
			      "mode",
			      nft_family_text(t->family), t->name);
		if (t->has_router_services)
			found(r, CHECK_WARNING,
			      "vipd --cleanup=kube-router, after its service proxy is stopped",
			      "chain KUBE-ROUTER-SERVICES in table %s %s: rules of kube-router's "
			      "service proxy",
			      nft_family_text(t->family), t->name);
	}
	if (f->has_legacy_kube)
		found(r, CHECK_WARNING, advice,
		      "chain KUBE-SERVICES in iptables-legacy: rules of kube-proxy's iptables mode");
}

void check_proxies(struct results *r, const struct facts *f)
{
	check_processes(r, f);
	check_links(r, f);
	check_leftovers(r, f);
	if (has_result(r))
		return;
	if (f->proxies.is_partial)
		found(r, CHECK_NOTE, "hostPID: true, or run vipctl doctor on the node",
		      "no other service proxy found: processes outside of this container are not visible");
	else
		found_ok(r, "no other service proxy found");
}

/* --- conflicting addresses ----------------------------------------------------------------- */

/* "10.96.0.1:443/TCP, 10.96.0.10:53/UDP and 17 more" */
static void tuple_list(struct results *r, const struct ip_tuple *t)
{
	list_add(r, LISTED_MAX,
		 str_local(IP_ENDPOINT_TEXT_MAX + 16, "%s/%s", ip_endpoint_str(&t->addr, t->port),
			   l4proto_text(t->proto)));
}

void check_ipvs(struct results *r, const struct facts *f)
{
	vec_for_each (v, &f->ipvs)
		if (vec_search(&f->ours.frontends, v, ip_tuple_cmp) != NULL)
			tuple_list(r, v);
	if (r->n_listed > 0)
		found(r, CHECK_WARNING,
		      "see `ipvsadm -L -n`; delete virtual services that no other program needs",
		      "IPVS serves addresses of vipd's services: %s", list_text(r, LISTED_MAX));
	else if (f->ipvs.n > 0)
		found(r, CHECK_NOTE, NULL,
		      "IPVS serves %u addresses and ports, none of vipd's services", f->ipvs.n);
	else
		found_ok(r, !f->has_ipvs                ? "the kernel has no IPVS"
			    : f->ipvs_plane.is_selected ? "IPVS serves only vipd's services"
							: "IPVS serves no addresses");
}

static const struct fact_link *link_find(const struct facts *f, uint32_t index)
{
	return vec_find(&f->net.links, l, l->index == index);
}

static bool is_dns_cache(const struct fact_link *l)
{
	return l != NULL && strcmp(l->name, IP_DNS_CACHE_DEVICE) == 0;
}

/*
 * On the ipvs plane: if a dummy device has the address of a service, connections of this host to
 * the service have that address as their source, and replies do not arrive.
 */
static bool is_service_address(const struct facts *f, const struct ip_addr *addr,
			       const struct fact_link *l)
{
	return f->ipvs_plane.is_selected && l != NULL && strcmp(l->kind, "dummy") == 0 &&
	       !is_dns_cache(l) && ours_has(&f->ours.frontends, addr);
}

void check_addresses(struct results *r, const struct facts *f)
{
	size_t n = 0;

	vec_for_each (a, &f->net.addrs) {
		const struct fact_link *l = link_find(f, a->link);
		bool is_cluster_ip = ours_has(&f->ours.cluster_ips, &a->addr);
		bool is_cache = is_cluster_ip && is_dns_cache(l);

		if (!(is_cluster_ip || is_service_address(f, &a->addr, l)) || n++ >= LISTED_MAX)
			continue;
		found(r, is_cache ? CHECK_NOTE : CHECK_WARNING,
		      is_cache ? "expected, if a DNS cache of this node answers there"
		      : !is_cluster_ip
			      ? "ip addr del, or ip link del the device: this host's own connections to the address time out; the ipvs plane needs no address on a device"
		      : f->ipvs_plane.is_selected
			      ? "ip addr del: this host's own connections to the address time out unless they are masqueraded"
			      : "ip addr del: this host answers on ports that no service has, instead of a rejection",
		      "%s %s is an address of this host, on %s",
		      is_cluster_ip ? "cluster IP" : "service address", ip_addr_str(&a->addr),
		      l != NULL ? l->name : "?");
	}
	if (n > LISTED_MAX)
		found(r, CHECK_WARNING, "ip addr", "and %zu more", n - LISTED_MAX);
	if (n == 0 && !f->has_tables)
		found(r, CHECK_NOTE, NULL, NOT_CHECKED);
	else if (n == 0)
		found_ok(r, "%u cluster IPs, none is an address of this host",
			 f->ours.cluster_ips.n);
}

static bool listener_covers(const struct ip_tuple *l, const struct ip_tuple *frontend)
{
	if (l->proto != frontend->proto || l->port != frontend->port)
		return false;
	/* A listener on :: nearly always accepts IPv4 as well. */
	if (ip_addr_is_any(&l->addr))
		return l->addr.family == AF_INET6 || frontend->addr.family == AF_INET;
	return ip_addr_is_equal(&l->addr, &frontend->addr);
}

static bool is_local(const struct facts *f, const struct ip_addr *addr)
{
	return vec_has(&f->net.addrs, a,
		       ip_addr_is_equal(&a->addr, addr) && !is_dns_cache(link_find(f, a->link)));
}

void check_listeners(struct results *r, const struct facts *f)
{
	size_t n_local = 0;

	vec_for_each (t, &f->ours.frontends) {
		if (!is_local(f, &t->addr))
			continue;
		n_local++;
		if (vec_has(&f->listeners, l, listener_covers(l, t)))
			tuple_list(r, t);
	}
	if (r->n_listed > 0)
		found(r, CHECK_WARNING,
		      "find the daemon with `ss -lntup`; change its port, or the service's node port",
		      "a daemon listens on a port of a service and is not reachable: %s",
		      list_text(r, LISTED_MAX));
	else if (!f->has_tables)
		found(r, CHECK_NOTE, NULL, NOT_CHECKED);
	else
		found_ok(r, "ports of services on this host: %zu; no daemon listens on them",
			 n_local);
}

/* --- tables ---------------------------------------------------------------------------------- */

static void check_foreign(struct results *r, const struct fact_table *t, bool is_ipvs)
{
	const struct fact_hook *h = &t->hook;
	const char *family = nft_family_text(t->family);

	if (h->chain == NULL)
		return;
	if (t->n_mentions > 0)
		found(r, CHECK_WARNING,
		      is_ipvs ? "see `nft list ruleset`; IPVS does not get packets whose destination the table translates"
			      : "see `nft list ruleset`; the hook that runs first translates",
		      "table %s %s has %zu rules for addresses of services, such as %s in chain %s",
		      family, t->name, t->n_mentions, ip_addr_str(&t->mention), t->mention_chain);
	else if (h->priority < NF_IP_PRI_NAT_DST && t->has_dnat)
		found(r, CHECK_WARNING,
		      "see `nft list ruleset`; its rules must not translate addresses of services",
		      "table %s %s translates destinations before vipd: chain %s, %s, priority %d",
		      family, t->name, h->chain, h->is_output ? "output" : "prerouting",
		      h->priority);
	else if (is_ipvs)
		found(r, CHECK_NOTE, NULL,
		      "table %s %s has NAT chains, but no rule for addresses of services", family,
		      t->name);
	else
		found(r, CHECK_NOTE, NULL,
		      "table %s %s has NAT chains %s vipd's, but no rule for addresses of services",
		      family, t->name,
		      h->priority < NF_IP_PRI_NAT_DST    ? "before"
		      : h->priority == NF_IP_PRI_NAT_DST ? "at the priority of"
							 : "after");
}

void check_tables(struct results *r, const struct facts *f)
{
	if (!f->has_tables) {
		found(r, CHECK_ERROR, "run with CAP_NET_ADMIN, on a kernel with nf_tables",
		      "tables of nf_tables cannot be read: %s", f->tables_error.text);
		return;
	}
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (f->ours.n_tables[fam] > 1)
			found(r, CHECK_NOTE,
			      "expected: vipd removes the older table when the newer one has all services and no connection needs the older one",
			      "%zu tables of vipd for IPv%c: a newer layout replaces an older one",
			      f->ours.n_tables[fam], fam == IPFAM_V6 ? '6' : '4');
	vec_for_each (t, &f->tables) {
		if (f->ipvs_plane.is_selected && strcmp(t->name, IPVS_TABLE) == 0 &&
		    t->family == NFPROTO_INET)
			found(r, CHECK_ERROR,
			      "rename the table: vipd does not serve while it exists",
			      "table inet %s is not vipd's: its comment differs", t->name);
		else if (strncmp(t->name, TABLE_OURS, strlen(TABLE_OURS)) == 0)
			found(r, CHECK_NOTE,
			      "rename the table: vipd uses another name while it exists",
			      "table %s %s is not vipd's: its comment differs",
			      nft_family_text(t->family), t->name);
		check_foreign(r, t, f->ipvs_plane.is_selected);
	}
	if (!has_result(r))
		found_ok(r, "no other table translates destinations");
}
