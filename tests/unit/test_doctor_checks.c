/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/checks: each check with good facts, then with one bad fact. */
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <linux/netfilter.h>

#include "doctor/checks.h"
#include "plane/ipvs/plane_ipvs.h"

static struct ip_addr addr(const char *text)
{
	struct ip_addr a = { 0 };

	assert_int_equal(ip_addr_parse(&a, text, NULL), 0);
	return a;
}

static void link_put(struct facts *f, uint32_t index, const char *name, const char *kind,
		     uint32_t master)
{
	struct fact_link *l = vec_push(&f->net.links);

	*l = (struct fact_link){ .index = index, .master = master, .is_up = true };
	strcpy(l->name, name);
	strcpy(l->kind, kind);
}

static void addr_put(struct facts *f, uint32_t link, const char *text, uint8_t len)
{
	*vec_push(&f->net.addrs) = (struct fact_addr){ addr(text), len, link };
}

static void tries_put(struct facts *f)
{
	static const char *const what[] = { "tables", "random numbers" };

	f->trial.is_done = f->trial.is_private = true;
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < ARRAY_SIZE(what); i++)
			f->trial.tries[fam][f->trial.n[fam]++] =
				(struct nft_try){ .what = what[i], .needs = "CONFIG_X" };
}

/* Facts of a node without problems, with one service of each family. */
static void well(struct facts *f)
{
	facts_init(f);
	strcpy(f->release, "6.1.0-13-amd64");
	tries_put(f);
	f->ip_forward = f->ip6_forward = 1;
	f->rp_filter_all = f->route_localnet_all = 0;
	f->bridge_call_iptables = f->bridge_call_ip6tables = FACT_UNKNOWN;
	f->n_default_routes = 1;
	f->ct_max = 262144;
	f->ct_count = 1000;
	f->ct_buckets = 65536;
	f->ct_liberal = 0;
	f->has_links = f->has_tables = f->has_memory = true;
	f->ours.n_tables[IPFAM_V4] = f->ours.n_tables[IPFAM_V6] = 1;
	link_put(f, 1, "lo", "", 0);
	link_put(f, 2, "eth0", "", 0);
	link_put(f, 3, "br0", "bridge", 0);
	addr_put(f, 1, "127.0.0.1", 8);
	addr_put(f, 2, "192.168.0.2", 24);
	addr_put(f, 3, "10.244.1.1", 24);
	*vec_push(&f->ours.cluster_ips) = addr("10.96.0.1");
	*vec_push(&f->ours.cluster_ips) = addr("fd00:10:96::1");
	*vec_push(&f->ours.endpoints) = addr("10.244.1.11");
	*vec_push(&f->ours.frontends) =
		(struct ip_tuple){ .addr = addr("10.96.0.1"), .proto = IPPROTO_TCP, .port = 443 };
	*vec_push(&f->ours.frontends) = (struct ip_tuple){ .addr = addr("192.168.0.2"),
							   .proto = IPPROTO_TCP,
							   .port = 30080 };
	*vec_push(&f->ours.frontends) = (struct ip_tuple){ .addr = addr("fd00:10:96::1"),
							   .proto = IPPROTO_TCP,
							   .port = 443 };
	ours_sort(&f->ours);
	f->is_clock_known = f->is_clock_synced = true;
	f->wall_s = INT64_C(1800000000);
	f->nofile_hard = 65536;
	f->has_capabilities = true;
	f->capabilities = UINT64_MAX;
}

static struct fact_table *table_put(struct facts *f, const char *name, int32_t priority)
{
	struct fact_table *t = vec_push(&f->tables);

	*t = (struct fact_table){ .family = NFPROTO_IPV4, .name = xstrdup(name) };
	t->hook = (struct fact_hook){ .chain = xstrdup("PREROUTING"), .priority = priority };
	return t;
}

/* --- what may be wrong, one a function --- */

static void old_kernel(struct facts *f)
{
	strcpy(f->release, "5.4.0");
}
static void strange_kernel(struct facts *f)
{
	strcpy(f->release, "mine");
}
static void not_tried(struct facts *f)
{
	f->trial.is_done = false;
	strcpy(f->trial.error.text, "fork: no");
}
static void not_allowed(struct facts *f)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < f->trial.n[fam]; i++)
			f->trial.tries[fam][i].result = -EPERM;
}
static void no_numgen(struct facts *f)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		f->trial.tries[fam][1].result = -ENOENT;
}
static void no_numgen_six(struct facts *f)
{
	f->trial.tries[IPFAM_V6][1].result = -ENOENT;
}
static void not_private(struct facts *f)
{
	f->trial.is_private = false;
}
static void no_layout(struct facts *f)
{
	f->trial.layout_result = -EINVAL;
}
static void no_forward(struct facts *f)
{
	f->ip_forward = 0;
}
static void no_forward_six(struct facts *f)
{
	f->ip6_forward = 0;
}
static void no_forward_six_unused(struct facts *f)
{
	f->ip6_forward = 0;
	f->ours.frontends.n = 2; /* sorted: IPv4 first */
}
static void no_six(struct facts *f)
{
	f->ip6_forward = FACT_UNKNOWN;
}
static void strict_one(struct facts *f)
{
	f->net.links.v[1].rp_filter = 1;
}
static void strict_all(struct facts *f)
{
	f->rp_filter_all = 1;
	f->n_default_routes = 2;
}
static void loose_wins(struct facts *f)
{
	f->rp_filter_all = 2;
	f->net.links.v[1].rp_filter = 1;
}
static void strict_lo(struct facts *f)
{
	f->net.links.v[0].rp_filter = 1;
}
static void localnet(struct facts *f)
{
	f->route_localnet_all = 1;
}
static void localnet_one(struct facts *f)
{
	f->net.links.v[1].route_localnet = 1;
}
static void bridged(struct facts *f)
{
	link_put(f, 4, "veth1", "veth", 3);
}
static void bridged_off(struct facts *f)
{
	bridged(f);
	f->bridge_call_iptables = 0;
}
static void bridged_on(struct facts *f)
{
	bridged(f);
	f->bridge_call_iptables = 1;
}
static void bridged_strangers(struct facts *f)
{
	bridged(f);
	f->ours.endpoints.n = 0;
}
static void in_container(struct facts *f)
{
	f->proxies.is_partial = true;
}
static void no_links(struct facts *f)
{
	f->has_links = false;
}
static void packets_dropped(struct facts *f)
{
	f->has_ct_drops = true;
	f->ct_drops = 7;
}
static void flows_many(struct facts *f)
{
	f->ct_count = f->ct_max * 80 / 100;
}
static void flows_full(struct facts *f)
{
	f->ct_count = f->ct_max;
}
static void few_buckets(struct facts *f)
{
	f->ct_buckets = 1024;
}
static void no_conntrack(struct facts *f)
{
	f->ct_max = FACT_UNKNOWN;
}
static void other_proxy(struct facts *f)
{
	*vec_push(&f->proxies.v) =
		(struct proxy_process){ "kube-proxy", "kube-proxy", "delete its DaemonSet", 17 };
}
static void inside_k3s(struct facts *f)
{
	*vec_push(&f->proxies.v) =
		(struct proxy_process){ "k3s-server", "kube-proxy", "disable-kube-proxy", 17 };
}
static void cilium(struct facts *f)
{
	*vec_push(&f->proxies.v) =
		(struct proxy_process){ "cilium-agent", "cilium", "kubeProxyReplacement", 17 };
}
static void cilium_link(struct facts *f)
{
	link_put(f, 9, "cilium_host", "veth", 0);
}
static void ipvs_link(struct facts *f)
{
	link_put(f, 9, "kube-ipvs0", "dummy", 0);
}
static void calico_link(struct facts *f)
{
	link_put(f, 9, "cali0123456789a", "veth", 0);
}
static void router_link(struct facts *f)
{
	link_put(f, 9, "kube-dummy-if", "dummy", 0);
}
static void router_chain(struct facts *f)
{
	table_put(f, "filter", 0)->has_router_services = true;
}
static void kube_table(struct facts *f)
{
	(void)table_put(f, "kube-proxy", -100);
}
static void kube_chains(struct facts *f)
{
	table_put(f, "nat", -100)->has_kube_services = true;
}
static void kube_legacy(struct facts *f)
{
	f->has_legacy_kube = true;
}
static void docker(struct facts *f)
{
	table_put(f, "nat", -100)->has_dnat = true;
}
static void early(struct facts *f)
{
	table_put(f, "lb", -150)->has_dnat = true;
}
static void early_harmless(struct facts *f)
{
	(void)table_put(f, "lb", -150);
}
static void mentions(struct facts *f)
{
	struct fact_table *t = table_put(f, "nat", -90);

	t->n_mentions = 3;
	t->mention = addr("10.96.0.1");
	t->mention_chain = xstrdup("OTHERS");
}
static void tables_two(struct facts *f)
{
	f->ours.n_tables[IPFAM_V4] = 2;
}
static void table_squatter(struct facts *f)
{
	struct fact_table *t = table_put(f, "vipd", 0);

	fact_table_clear(t);
}
static void no_tables(struct facts *f)
{
	f->has_tables = false;
	strcpy(f->tables_error.text, "Operation not permitted");
}
static void ipvs_ours(struct facts *f)
{
	f->has_ipvs = true;
	*vec_push(&f->ipvs) =
		(struct ip_tuple){ .addr = addr("10.96.0.1"), .proto = IPPROTO_TCP, .port = 443 };
}
static void ipvs_others(struct facts *f)
{
	ipvs_ours(f);
	f->ipvs.v[0].port = 444;
}
static void vip_bound(struct facts *f)
{
	addr_put(f, 2, "10.96.0.1", 32);
}
static void listener_put(struct facts *f, const char *a, uint16_t port, uint8_t proto)
{
	*vec_push(&f->listeners) =
		(struct ip_tuple){ .addr = addr(a), .proto = proto, .port = port };
}
/* Its listener is reachable: "listeners" finds nothing. */
static void vip_cached(struct facts *f)
{
	link_put(f, 7, "nodelocaldns", "dummy", 0);
	addr_put(f, 7, "10.96.0.1", 32);
	listener_put(f, "10.96.0.1", 443, IPPROTO_TCP);
}
static void listen_exact(struct facts *f)
{
	listener_put(f, "192.168.0.2", 30080, IPPROTO_TCP);
}
static void listen_any(struct facts *f)
{
	listener_put(f, "0.0.0.0", 30080, IPPROTO_TCP);
}
static void listen_any_six(struct facts *f)
{
	listener_put(f, "::", 30080, IPPROTO_TCP);
}
static void listen_elsewhere(struct facts *f)
{
	listener_put(f, "127.0.0.1", 30080, IPPROTO_TCP);
	listener_put(f, "0.0.0.0", 30081, IPPROTO_TCP);
	listener_put(f, "0.0.0.0", 30080, IPPROTO_UDP);
	listener_put(f, "0.0.0.0", 443, IPPROTO_TCP); /* the cluster IP is not of this host */
}
static void unsynced(struct facts *f)
{
	f->is_clock_synced = false;
}
static void clock_unknown(struct facts *f)
{
	f->is_clock_known = false;
}
static void clock_jumped(struct facts *f)
{
	f->clock_jump_ns = -INT64_C(5000000000);
}
static void clock_old(struct facts *f)
{
	f->wall_s = 86400;
}
static void few_files(struct facts *f)
{
	f->nofile_hard = 1024;
}
static void no_rcvbuf(struct facts *f)
{
	f->rcvbuf_result = -EPERM;
}
static void little_memory(struct facts *f)
{
	f->memory_max = 64 << 20;
	f->memory_used = 40 << 20;
}
static void no_memory(struct facts *f)
{
	f->has_memory = false;
}
static void enough_memory(struct facts *f)
{
	f->memory_max = 512 << 20;
	f->memory_used = 40 << 20;
}
static void no_admin(struct facts *f)
{
	f->capabilities = 0;
}
static void caps_unknown(struct facts *f)
{
	f->has_capabilities = false;
}

/* --- the ipvs plane --- */

static void as_ipvs(struct facts *f)
{
	struct fact_ipvs *p = &f->ipvs_plane;

	p->is_selected = p->is_in_force = p->has_routing = true;
	p->mark = 0x5a000000;
	p->table_size = 4096;
	p->n_conns = 1000;
	for (size_t i = 0; i < IPVS_SYSCTLS_FIXED; i++)
		p->sysctls[i] = ipvs_sysctls[i].value;
	f->trial.n_scheds = 2;
	f->trial.scheds[0].sched = "rr";
	f->trial.scheds[1].sched = "mh";
}
static void no_ipvs(struct facts *f)
{
	as_ipvs(f);
	f->trial.ipvs_result = -EOPNOTSUPP;
}
static void scheds_untried(struct facts *f)
{
	as_ipvs(f);
	f->trial.n_scheds = 0;
	f->trial.is_private = false;
}
static void no_rr(struct facts *f)
{
	as_ipvs(f);
	f->trial.scheds[0].result = -ENOENT;
}
static void no_mh(struct facts *f)
{
	as_ipvs(f);
	f->trial.scheds[1].result = -ENOENT;
}
static void no_rule(struct facts *f)
{
	as_ipvs(f);
	*vec_push(&f->ipvs_plane.missing) = xstrdup("IPv4/rule/102 fwmark ...");
}
static void no_rule_yet(struct facts *f)
{
	no_rule(f);
	f->ipvs_plane.is_in_force = false;
}
static void rule_in_the_way(struct facts *f)
{
	as_ipvs(f);
	*vec_push(&f->ipvs_plane.hard) = xstrdup("rule 101 of IPv4 is foreign");
}
static void rule_in_front(struct facts *f)
{
	as_ipvs(f);
	*vec_push(&f->ipvs_plane.soft) = xstrdup("rule 9 of IPv6 precedes vipd's");
}
static void routing_unread(struct facts *f)
{
	as_ipvs(f);
	f->ipvs_plane.has_routing = false;
	strcpy(f->ipvs_plane.routing_error.text, "not permitted");
}
static void other_sysctl(struct facts *f)
{
	as_ipvs(f);
	f->ipvs_plane.sysctls[0] = 0;
}
static void other_sysctl_yet(struct facts *f)
{
	other_sysctl(f);
	f->ipvs_plane.is_in_force = false;
}
static void no_ipvs_conntrack(struct facts *f)
{
	other_sysctl_yet(f);
	f->ipvs_plane.sysctls[0] = FACT_UNKNOWN;
}
static void no_sysctls(struct facts *f)
{
	as_ipvs(f);
	f->ipvs_plane.is_in_force = false;
	for (size_t i = 0; i < IPVS_SYSCTLS_FIXED; i++)
		f->ipvs_plane.sysctls[i] = FACT_UNKNOWN;
}
static void calico_with_ipvs(struct facts *f)
{
	calico_link(f);
	as_ipvs(f);
}
static struct fact_table *filter_put(struct facts *f, const char *chain, uint32_t hook)
{
	struct fact_table *t = vec_push(&f->tables);

	*t = (struct fact_table){ .family = NFPROTO_IPV4, .name = xstrdup("filter") };
	*vec_push(&t->filters) = (struct fact_filter){ xstrdup(chain), hook, true };
	return t;
}
static void input_put(struct facts *f, bool is_closed, bool accepts_mark)
{
	struct fact_table *t = filter_put(f, "INPUT", NF_INET_LOCAL_IN);

	t->filters.v[0].is_closed = is_closed;
	t->accepts_mark = accepts_mark;
}
static void forward_drops(struct facts *f)
{
	filter_put(f, "FORWARD", NF_INET_FORWARD)->accepts = NFT_ACCEPTS_ESTABLISHED;
}
static void forward_accepts(struct facts *f)
{
	filter_put(f, "FORWARD", NF_INET_FORWARD)->accepts = NFT_ACCEPTS_DNAT;
}
static void forward_drops_six(struct facts *f)
{
	struct fact_table *t = filter_put(f, "FORWARD", NF_INET_FORWARD);

	t->family = NFPROTO_IPV6;
	f->ours.frontends.n = 0;
}
static void forward_drops_replies(struct facts *f)
{
	as_ipvs(f);
	forward_accepts(f);
}
static void forward_accepts_replies(struct facts *f)
{
	as_ipvs(f);
	forward_drops(f);
}
static void input_drops(struct facts *f)
{
	input_put(f, true, false);
}
static void input_drops_marked(struct facts *f)
{
	as_ipvs(f);
	input_drops(f);
}
static void input_accepts_marked(struct facts *f)
{
	as_ipvs(f);
	input_put(f, true, true);
}
static void input_open(struct facts *f)
{
	input_put(f, false, false);
}
static void few_ipvs_buckets(struct facts *f)
{
	as_ipvs(f);
	f->ipvs_plane.n_conns = 100000;
}
static void no_ipvs_buckets(struct facts *f)
{
	as_ipvs(f);
	f->ipvs_plane.table_size = f->ipvs_plane.n_conns = FACT_UNKNOWN;
}
static void dummy_put(struct facts *f, const char *text)
{
	as_ipvs(f);
	link_put(f, 9, "vips0", "dummy", 0);
	addr_put(f, 9, text, 32);
	*vec_push(&f->ours.frontends) =
		(struct ip_tuple){ .addr = addr("203.0.113.7"), .proto = IPPROTO_TCP, .port = 443 };
	ours_sort(&f->ours);
}
static void dummy_with_vip(struct facts *f)
{
	dummy_put(f, "203.0.113.7");
}
static void dummy_without(struct facts *f)
{
	dummy_put(f, "203.0.113.8");
}
static void dummy_on_nft(struct facts *f)
{
	dummy_put(f, "203.0.113.7");
	f->ipvs_plane.is_selected = false;
}
static void nat_beside_ipvs(struct facts *f)
{
	as_ipvs(f);
	table_put(f, "nat", -100);
}
static void not_our_ipvs_table(struct facts *f)
{
	as_ipvs(f);
	*vec_push(&f->tables) =
		(struct fact_table){ .family = NFPROTO_INET, .name = xstrdup("vipd-ipvs") };
}

static const struct {
	void (*change)(struct facts *f);
	const char *check;
	enum check_level level; /* worst level of that check; all others stay ok */
	const char *found;      /* a part of it */
	const char *advice;     /* expected text; NULL: not checked */
} cases[] = {
	{ old_kernel, "kernel", CHECK_ERROR, "Linux 5.4.0, older than 5.10", "upgrade" },
	{ strange_kernel, "kernel", CHECK_NOTE, "'mine'", NULL },
	{ not_tried, "nftables", CHECK_ERROR, "cannot be tested: fork: no", NULL },
	{ not_allowed, "nftables", CHECK_ERROR, "no permission", "CAP_NET_ADMIN" },
	{ no_numgen, "nftables", CHECK_ERROR, "no random numbers (IPv4 and IPv6)", "CONFIG_X" },
	{ no_numgen_six, "nftables", CHECK_ERROR, "no random numbers (IPv6)", "CONFIG_X" },
	{ not_private, "nftables", CHECK_NOTE, "whole ruleset was not tested", "CAP_SYS_ADMIN" },
	{ no_layout, "nftables", CHECK_ERROR, "rejects the whole ruleset", NULL },
	{ no_forward, "forwarding", CHECK_ERROR, "off for IPv4", "net.ipv4.ip_forward=1" },
	{ no_forward_six, "forwarding", CHECK_ERROR, "off for IPv6", "conf.all.forwarding=1" },
	{ no_forward_six_unused, "forwarding", CHECK_NOTE, "there are no IPv6 services", NULL },
	{ no_six, "forwarding", CHECK_NOTE, "no IPv6", NULL },
	{ strict_one, "rp-filter", CHECK_NOTE, "strict on eth0", NULL },
	{ strict_all, "rp-filter", CHECK_WARNING, "strict on eth0, br0, and 2 interfaces",
	  "rp_filter=2" },
	{ loose_wins, "rp-filter", CHECK_OK, "off or loose", NULL },
	{ strict_lo, "rp-filter", CHECK_OK, "off or loose", NULL },
	{ localnet, "localnet", CHECK_WARNING, "routed on all", "route_localnet=0" },
	{ localnet_one, "localnet", CHECK_WARNING, "routed on eth0", "route_localnet=0" },
	{ bridged, "bridge", CHECK_WARNING,
	  "bridge br0 connects endpoints, and br_netfilter is not loaded",
	  "modprobe br_netfilter" },
	{ bridged_off, "bridge", CHECK_WARNING, "bridge-nf-call-iptables is 0",
	  "bridge-nf-call-iptables=1" },
	{ bridged_on, "bridge", CHECK_OK, "netfilter sees its packets", NULL },
	{ bridged_strangers, "bridge", CHECK_OK, "bridge br0 connects no endpoints", NULL },
	{ no_links, "bridge", CHECK_WARNING, "links cannot be read", NULL },
	{ no_links, "rp-filter", CHECK_WARNING, "links cannot be read", NULL },
	{ no_links, "localnet", CHECK_WARNING, "links cannot be read", NULL },
	{ packets_dropped, "conntrack", CHECK_OK, "in use (0 %), 7 packets dropped so far", NULL },
	{ flows_many, "conntrack", CHECK_WARNING, "(79 %)", "nf_conntrack_max" },
	{ flows_full, "conntrack", CHECK_ERROR, "262144 of 262144 tracked flows in use (100 %)",
	  "nf_conntrack_max" },
	{ few_buckets, "conntrack", CHECK_WARNING, "262144 flows share 1024 hash buckets",
	  "hashsize" },
	{ no_conntrack, "conntrack", CHECK_NOTE, "is not loaded yet", NULL },
	{ in_container, "proxies", CHECK_NOTE, "not visible", "hostPID" },
	{ other_proxy, "proxies", CHECK_ERROR, "kube-proxy runs (process 17)",
	  "delete its DaemonSet" },
	{ inside_k3s, "proxies", CHECK_ERROR, "kube-proxy runs inside k3s-server (process 17)",
	  "disable-kube-proxy" },
	{ cilium, "proxies", CHECK_NOTE, "cilium-agent runs", "kubeProxyReplacement" },
	{ cilium_link, "proxies", CHECK_NOTE, "link cilium_host exists",
	  "then still translates connections of pods" },
	{ ipvs_link, "proxies", CHECK_WARNING, "link kube-ipvs0", "ip link del" },
	{ router_chain, "proxies", CHECK_WARNING, "chain KUBE-ROUTER-SERVICES in table ip filter",
	  "--cleanup=kube-router" },
	{ router_link, "proxies", CHECK_WARNING, "link kube-dummy-if", "--cleanup=kube-router" },
	{ calico_link, "proxies", CHECK_OK, "", NULL },
	{ calico_with_ipvs, "proxies", CHECK_WARNING, "links of Calico exist", "mode nftables" },
	{ kube_chains, "proxies", CHECK_WARNING, "chain KUBE-SERVICES in table ip nat",
	  "--cleanup" },
	{ kube_table, "proxies", CHECK_WARNING, "table ip kube-proxy", "--cleanup" },
	{ kube_legacy, "proxies", CHECK_WARNING, "iptables-legacy", "--cleanup" },
	{ docker, "tables", CHECK_NOTE, "table ip nat has NAT chains at the priority of vipd's",
	  NULL },
	{ early, "tables", CHECK_WARNING, "table ip lb translates destinations before vipd",
	  "nft list ruleset" },
	{ early_harmless, "tables", CHECK_NOTE, "before vipd's", NULL },
	{ mentions, "tables", CHECK_WARNING,
	  "table ip nat has 3 rules for addresses of services, such as 10.96.0.1 in chain OTHERS",
	  NULL },
	{ tables_two, "tables", CHECK_NOTE, "2 tables of vipd for IPv4", NULL },
	{ table_squatter, "tables", CHECK_NOTE, "table ip vipd is not vipd's", "rename" },
	{ no_tables, "tables", CHECK_ERROR, "Operation not permitted", NULL },
	{ no_tables, "addresses", CHECK_NOTE, "not checked", NULL },
	{ no_tables, "listeners", CHECK_NOTE, "not checked", NULL },
	{ ipvs_ours, "ipvs", CHECK_WARNING, "10.96.0.1:443/TCP", "ipvsadm" },
	{ ipvs_others, "ipvs", CHECK_NOTE, "none of vipd's services", NULL },
	{ vip_bound, "addresses", CHECK_WARNING,
	  "cluster IP 10.96.0.1 is an address of this host, "
	  "on eth0",
	  "ip addr del" },
	{ vip_cached, "addresses", CHECK_NOTE, "on nodelocaldns", NULL },
	{ listen_exact, "listeners", CHECK_WARNING, "192.168.0.2:30080/TCP", "ss -lntup" },
	{ listen_any, "listeners", CHECK_WARNING, "192.168.0.2:30080/TCP", NULL },
	{ listen_any_six, "listeners", CHECK_WARNING, "192.168.0.2:30080/TCP", NULL },
	{ listen_elsewhere, "listeners", CHECK_OK, "ports of services on this host: 1", NULL },
	{ unsynced, "clock", CHECK_WARNING, "not synchronised", "chrony" },
	{ clock_unknown, "clock", CHECK_NOTE, "unknown", NULL },
	{ clock_jumped, "clock", CHECK_NOTE, "-5000 ms", NULL },
	{ clock_old, "clock", CHECK_ERROR, "before 2025", NULL },
	{ few_files, "files", CHECK_WARNING, "1024", "LimitNOFILE" },
	{ no_rcvbuf, "netlink", CHECK_WARNING, "cannot be enlarged", "rmem_max" },
	{ little_memory, "memory", CHECK_WARNING, "24 MiB of the control group's 64 MiB",
	  "MemoryMax" },
	{ enough_memory, "memory", CHECK_OK, "472 MiB", NULL },
	{ no_memory, "memory", CHECK_NOTE, "not read", NULL },
	{ no_admin, "capabilities", CHECK_ERROR, "no CAP_NET_ADMIN", "as root" },
	{ caps_unknown, "capabilities", CHECK_NOTE, "cannot be read", NULL },
	{ as_ipvs, "ipvs-kernel", CHECK_OK, "2 schedulers", NULL },
	{ no_ipvs, "ipvs-kernel", CHECK_ERROR, "no IPVS", "modprobe ip_vs" },
	{ scheds_untried, "ipvs-kernel", CHECK_NOTE, "not tested", NULL },
	{ no_rr, "ipvs-kernel", CHECK_ERROR, "no scheduler rr", "modprobe ip_vs_rr" },
	{ no_mh, "ipvs-kernel", CHECK_WARNING, "no scheduler mh", "modprobe ip_vs_mh" },
	{ as_ipvs, "policy-routing", CHECK_OK, "rules and routes exist", NULL },
	{ no_rule, "policy-routing", CHECK_ERROR, "missing: IPv4/rule/102", "within 10 s" },
	{ no_rule_yet, "policy-routing", CHECK_OK, "are free", NULL },
	{ rule_in_the_way, "policy-routing", CHECK_ERROR, "is foreign", "does not serve" },
	{ rule_in_front, "policy-routing", CHECK_WARNING, "precedes", "priority" },
	{ routing_unread, "policy-routing", CHECK_WARNING, "not permitted", "see the error" },
	{ other_sysctl, "ipvs-sysctls", CHECK_ERROR, "net.ipv4.vs.conntrack=1", "sysctl -w" },
	{ other_sysctl_yet, "ipvs-sysctls", CHECK_OK, "sets them", NULL },
	{ no_ipvs_conntrack, "ipvs-sysctls", CHECK_ERROR, "conntrack is missing",
	  "CONFIG_IP_VS_NFCT" },
	{ no_sysctls, "ipvs-sysctls", CHECK_NOTE, "is not loaded yet", NULL },
	{ input_drops_marked, "input-policy", CHECK_WARNING, "chain INPUT of table filter",
	  "0x5a000000/0xff000f00" },
	{ input_accepts_marked, "input-policy", CHECK_NOTE, "probes of health check node ports",
	  "healthCheckNodePort" },
	{ input_drops, "input-policy", CHECK_NOTE, "chain INPUT of table filter",
	  "healthCheckNodePort" },
	{ input_open, "input-policy", CHECK_OK, "no nf_tables chain", NULL },
	{ forward_drops, "forward-policy", CHECK_WARNING, "none accepts all translated connections",
	  "iptables -I FORWARD -m conntrack --ctstate DNAT" },
	{ forward_accepts, "forward-policy", CHECK_OK, "no nf_tables chain", NULL },
	{ forward_drops_six, "forward-policy", CHECK_NOTE, "none accepts all translated",
	  "ip6tables -I FORWARD" },
	{ forward_drops_replies, "forward-policy", CHECK_WARNING, "none accepts all replies",
	  "`ct state established,related accept`" },
	{ forward_accepts_replies, "forward-policy", CHECK_OK, "no nf_tables chain", NULL },
	{ as_ipvs, "ipvs-connections", CHECK_OK, "1000 connections; the table has 4096", NULL },
	{ few_ipvs_buckets, "ipvs-connections", CHECK_WARNING, "100000 connections share 4096 hash",
	  "conn_tab_bits" },
	{ no_ipvs_buckets, "ipvs-connections", CHECK_NOTE, "is not loaded yet", NULL },
	{ dummy_with_vip, "addresses", CHECK_WARNING, "203.0.113.7 is an address", "time out" },
	{ dummy_without, "addresses", CHECK_OK, "none is an address", NULL },
	{ dummy_on_nft, "addresses", CHECK_OK, "none is an address", NULL },
	{ nat_beside_ipvs, "tables", CHECK_NOTE, "no rule for addresses of services", NULL },
	{ not_our_ipvs_table, "tables", CHECK_ERROR, "is not vipd's", "rename" },
};

static void test_well(void **state)
{
	json_t *r = json_array();
	struct facts f;
	json_t *c;
	size_t i;

	(void)state;
	well(&f);
	check_all(r, &f);
	json_array_foreach (r, i, c) {
		if (check_level(c) != CHECK_OK)
			print_message("    %s: %s\n", check_text(c, "check"),
				      check_text(c, "found"));
		assert_int_equal(check_level(c), CHECK_OK);
		assert_null(check_text(c, "advice"));
	}
	assert_int_equal(check_report_worst(r), CHECK_OK);
	assert_in_range(json_array_size(r), 17, 20);
	json_decref(r);
	facts_fini(&f);
}

static bool is_exempt(const char *check, size_t i)
{
	/* A foreign table of a proxy is a foreign table, too. */
	if (strcmp(check, "tables") == 0 && strcmp(cases[i].check, "proxies") == 0)
		return true;
	/* Three checks need the addresses in vipd's tables, a fourth the host's tables. */
	if (cases[i].change == no_tables)
		return strcmp(check, "tables") == 0 || strcmp(check, "input-policy") == 0 ||
		       strcmp(check, "forward-policy") == 0 || strcmp(check, "addresses") == 0 ||
		       strcmp(check, "listeners") == 0;
	if (cases[i].change == no_links)
		return strcmp(check, "rp-filter") == 0 || strcmp(check, "localnet") == 0 ||
		       strcmp(check, "bridge") == 0;
	/* Features and schedulers are tried in a network namespace of its own. */
	return strcmp(check, "nftables") == 0 && cases[i].change == scheds_untried;
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *r = json_array();
		enum check_level worst = CHECK_UNSET;
		bool is_found = false;
		struct facts f;
		json_t *c;
		size_t k;

		print_message("    %s: %s\n", cases[i].check, cases[i].found);
		well(&f);
		cases[i].change(&f);
		check_all(r, &f);
		json_array_foreach (r, k, c) {
			const char *check = check_text(c, "check");
			const char *advice = check_text(c, "advice");
			enum check_level level = check_level(c);

			if (strcmp(check, cases[i].check) != 0) {
				if (!is_exempt(check, i))
					assert_int_equal(level, CHECK_OK);
				continue;
			}
			worst = MAX(worst, level);
			if (strstr(check_text(c, "found"), cases[i].found) == NULL)
				continue;
			is_found = true;
			assert_int_equal(level, cases[i].level);
			if (cases[i].advice != NULL) {
				assert_non_null(advice);
				assert_non_null(strstr(advice, cases[i].advice));
			}
			if (level >= CHECK_WARNING)
				assert_non_null(advice);
		}
		assert_true(is_found);
		assert_int_equal(worst, cases[i].level);
		json_decref(r);
		facts_fini(&f);
	}
}

/* Every check has a result even if facts are unknown. */
static void test_nothing_known(void **state)
{
	static const char *const checks[] = {
		"kernel",         "nftables",  "capabilities", "forwarding", "input-policy",
		"forward-policy", "rp-filter", "localnet",     "bridge",     "conntrack",
		"proxies",        "tables",    "ipvs",         "addresses",  "listeners",
		"clock",          "files",     "netlink",      "memory",
	};
	json_t *r = json_array();
	struct facts f;
	size_t at = 0;

	(void)state;
	facts_init(&f);
	read_files(&f, "/nonexistent");
	check_all(r, &f);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		assert_true(at < json_array_size(r));
		assert_string_equal(check_text(json_array_get(r, at), "check"), checks[i]);
		while (at < json_array_size(r) &&
		       strcmp(check_text(json_array_get(r, at), "check"), checks[i]) == 0)
			at++;
	}
	assert_int_equal(at, json_array_size(r));
	assert_int_equal(check_report_worst(r), CHECK_ERROR);
	json_decref(r);
	facts_fini(&f);
}

static void test_json(void **state)
{
	json_t *r = json_array();

	(void)state;
	check_add(r, "a", CHECK_OK, NULL, "fine");
	check_add(r, "b", CHECK_ERROR, "mend it", "broken \"%s\"", "here");
	check_add(r, "c", CHECK_NOTE, NULL, "link \xff\xfe");
	assert_int_equal(json_array_size(r), 3);
	assert_int_equal(check_level(json_array_get(r, 0)), CHECK_OK);
	assert_null(check_text(json_array_get(r, 0), "advice"));
	assert_string_equal(check_text(json_array_get(r, 1), "found"), "broken \"here\"");
	assert_string_equal(check_text(json_array_get(r, 1), "advice"), "mend it");
	assert_string_equal(check_text(json_array_get(r, 2), "found"),
			    "(a name that is not UTF-8)");
	(void)json_object_set_new(json_array_get(r, 1), "level", json_string("bad"));
	assert_int_equal(check_level(json_array_get(r, 1)), CHECK_UNSET);
	assert_int_equal(check_report_worst(r), CHECK_NOTE);
	json_decref(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well),
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
