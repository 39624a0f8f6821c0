/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/checks - checks of the kernel, of the node, of this process, and of what the ipvs plane
 * needs.
 */
#include "doctor/checks.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/netfilter.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "nft/expr.h"
#include "plane/ipvs/plane_ipvs.h"

#define MAJOR_MIN 5U
#define MINOR_MIN 10U
#define LISTED_MAX 5
#define MISSING_MAX 3 /* rules and routes of policy routing that are listed */
#define PER_BUCKET_MAX 8
#define WALL_MIN_S INT64_C(1735689600) /* 2025-01-01: before this program existed */
#define NOFILE_MIN 4096
#define MEMORY_LEFT_MIN (INT64_C(48) << 20)

void list_add(struct results *r, size_t max, const char *name)
{
	if (r->n_listed++ < max)
		str_printf(&r->list, "%s%s", r->list.len > 0 ? ", " : "", name);
}

const char *list_text(struct results *r, size_t max)
{
	if (r->n_listed > max)
		str_printf(&r->list, " and %zu more", r->n_listed - max);
	return r->list.text;
}

/* --- the kernel --- */

static void check_kernel(struct results *r, const struct facts *f)
{
	unsigned int major;
	unsigned int minor;

	if (sscanf(f->release, "%u.%u", &major, &minor) != 2)
		found(r, CHECK_NOTE, NULL, "unknown version: '%s'", f->release);
	else if (major < MAJOR_MIN || (major == MAJOR_MIN && minor < MINOR_MIN))
		found(r, CHECK_ERROR,
		      "upgrade the kernel: older versions lack features that the rules use",
		      "Linux %s, older than %u.%u", f->release, MAJOR_MIN, MINOR_MIN);
	else
		found_ok(r, "Linux %s", f->release);
}

static bool all_are(const struct fact_try *t, int result)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < t->n[fam]; i++)
			if (t->tries[fam][i].result != result)
				return false;
	return t->n[IPFAM_V4] > 0;
}

static void missing(struct results *r, const struct fact_try *t, size_t i)
{
	const struct nft_try *four = &t->tries[IPFAM_V4][i];
	const struct nft_try *six = &t->tries[IPFAM_V6][i];
	const struct nft_try *bad = four->result < 0 ? four : six;

	if (four->result == 0 && six->result == 0)
		return;
	found(r, CHECK_ERROR,
	      str_local(256, "use a kernel with %s, or load the module", bad->needs),
	      "the kernel has no %s (%s): %s", bad->what,
	      four->result < 0 && six->result < 0 ? "IPv4 and IPv6"
						  : ipfam_text(bad == six ? IPFAM_V6 : IPFAM_V4),
	      bad->detail);
}

static void check_nftables(struct results *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (all_are(t, -EPERM))
		found(r, CHECK_ERROR, "run with CAP_NET_ADMIN",
		      "this process has no permission to use nf_tables");
	else if (!all_are(t, 0))
		for (size_t i = 0; i < t->n[IPFAM_V4]; i++)
			missing(r, t, i);
	else if (!t->is_private)
		found(r, CHECK_NOTE, "optional: run with CAP_SYS_ADMIN to test the whole ruleset",
		      "all %zu features are available; the whole ruleset was not tested",
		      t->n[IPFAM_V4]);
	else if (t->layout_result < 0)
		found(r, CHECK_ERROR,
		      "report this with the kernel's version: each feature alone is accepted",
		      "all features are available, but the kernel rejects the whole ruleset: %s",
		      t->error.text);
	else
		found_ok(r,
			 "all %zu features are available, and the kernel accepts the whole ruleset",
			 t->n[IPFAM_V4]);
}

/* --- forwarding and filters --- */

static bool has_family(const struct fact_ours *o, uint8_t family)
{
	return vec_has(&o->frontends, t, t->addr.family == family);
}

static void check_forwarding(struct results *r, const struct facts *f)
{
	if (f->ip_forward == 0)
		found(r, CHECK_ERROR, "sysctl -w net.ipv4.ip_forward=1",
		      "off for IPv4: connections from other hosts and pods to services fail");
	else if (f->ip_forward < 0)
		found(r, CHECK_WARNING, "allow vipd to read /proc/sys/net",
		      "state for IPv4 cannot be read");
	if (f->ip6_forward == 0)
		found(r, has_family(&f->ours, AF_INET6) ? CHECK_ERROR : CHECK_NOTE,
		      "sysctl -w net.ipv6.conf.all.forwarding=1, if there are IPv6 services",
		      "off for IPv6%s",
		      has_family(&f->ours, AF_INET6)
			      ? ": connections from other hosts and pods to services fail"
			      : "; there are no IPv6 services");
	else if (f->ip6_forward < 0)
		found(r, CHECK_NOTE, NULL, "this kernel has no IPv6");
	if (f->ip_forward > 0 && f->ip6_forward > 0)
		found_ok(r, "on for IPv4 and IPv6");
	else if (f->ip_forward > 0)
		found_ok(r, "on for IPv4");
}

/* The larger value, of the interface or "all", is in force (Documentation/networking/ip-sysctl) */
static void check_rp_filter(struct results *r, const struct facts *f)
{
	vec_for_each (l, &f->net.links)
		if (MAX(f->rp_filter_all, l->rp_filter) == 1 && l->is_up &&
		    strcmp(l->name, "lo") != 0)
			list_add(r, LISTED_MAX, l->name);
	if (r->n_listed == 0)
		found_ok(r, "off or loose on every interface");
	else if (f->n_default_routes > 1)
		found(r, CHECK_WARNING,
		      "sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2 (loose) if replies take another interface; also net.ipv4.conf.all.rp_filter: the larger value is in force",
		      "strict on %s, and %" PRId64
		      " interfaces have a default route: packets that arrive on the other one are dropped",
		      list_text(r, LISTED_MAX), f->n_default_routes);
	else
		found(r, CHECK_NOTE,
		      "set 2 (loose) if packets to and from pods take different interfaces",
		      "strict on %s", list_text(r, LISTED_MAX));
}

static void check_localnet(struct results *r, const struct facts *f)
{
	if (f->route_localnet_all > 0)
		list_add(r, LISTED_MAX, "all");
	vec_for_each (l, &f->net.links)
		if (l->route_localnet > 0)
			list_add(r, LISTED_MAX, l->name);
	if (r->n_listed == 0)
		found_ok(r, "127.0.0.0/8 is not routed");
	else
		found(r, CHECK_WARNING,
		      "sysctl -w net.ipv4.conf.all.route_localnet=0, unless another program needs it; vipd does not",
		      "127.0.0.0/8 is routed on %s: neighbours can reach daemons that listen on loopback (CVE-2020-8558)",
		      list_text(r, LISTED_MAX));
}

/* --- bridges --- */

static bool shares_bits(const struct ip_addr *a, const struct ip_addr *b, size_t n)
{
	size_t rest = n % 8;

	return a->family == b->family && memcmp(a->bytes, b->bytes, n / 8) == 0 &&
	       (rest == 0 || a->bytes[n / 8] >> (8 - rest) == b->bytes[n / 8] >> (8 - rest));
}

/* Is an endpoint of that family in a prefix of the bridge? Then pods are connected to it. */
static bool has_endpoints(const struct facts *f, const struct fact_link *bridge, uint8_t family)
{
	vec_for_each (a, &f->net.addrs)
		if (a->link == bridge->index && a->addr.family == family &&
		    a->prefix_len != ip_len(ip_fam(&a->addr)) * 8 &&
		    vec_has(&f->ours.endpoints, e, shares_bits(&a->addr, e, a->prefix_len)))
			return true;
	return false;
}

static void bridge_check(struct results *r, const struct facts *f, const struct fact_link *bridge)
{
	bool has_four = has_endpoints(f, bridge, AF_INET);
	bool has_six = has_endpoints(f, bridge, AF_INET6);
	bool is_bad = (has_four && f->bridge_call_iptables != 1) ||
		      (has_six && f->bridge_call_ip6tables != 1);
	const char *state = f->bridge_call_iptables < 0 ? "br_netfilter is not loaded"
			    : f->bridge_call_iptables != 1
				    ? "net.bridge.bridge-nf-call-iptables is 0"
				    : "net.bridge.bridge-nf-call-ip6tables is 0";

	if (is_bad)
		found(r, CHECK_WARNING,
		      "modprobe br_netfilter; sysctl -w net.bridge.bridge-nf-call-iptables=1 "
		      "net.bridge.bridge-nf-call-ip6tables=1; not needed if the pods of the bridge reach each other only through this host",
		      "bridge %s connects endpoints, and %s: a pod that connects to another one through a service gets replies from the wrong address",
		      bridge->name, state);
	else if (has_four || has_six)
		found_ok(r, "bridge %s connects endpoints, and netfilter sees its packets",
			 bridge->name);
	else
		found_ok(r, "bridge %s connects no endpoints", bridge->name);
}

static void check_bridge(struct results *r, const struct facts *f)
{
	size_t n = 0;

	vec_for_each (l, &f->net.links) {
		if (strcmp(l->kind, "bridge") != 0 ||
		    !vec_has(&f->net.links, port, port->master == l->index) || n++ >= LISTED_MAX)
			continue;
		bridge_check(r, f, l);
	}
	if (n == 0)
		found_ok(r, "no bridge has a port");
}

/* --- connection tracking --- */

static void check_fill(struct results *r, const struct facts *f)
{
	FINI(str_fini) struct str drops = { 0 };
	int64_t percent = f->ct_max > 0 ? f->ct_count * 100 / f->ct_max : 0;
	enum check_level level = percent >= 95   ? CHECK_ERROR
				 : percent >= 75 ? CHECK_WARNING
						 : CHECK_OK;

	if (f->has_ct_drops)
		str_printf(&drops, ", %" PRIu64 " packets dropped so far", f->ct_drops);
	found(r, level,
	      level == CHECK_OK
		      ? NULL
		      : "raise net.netfilter.nf_conntrack_max and its buckets "
			"(--conntrack-max-per-core, --conntrack-min); find the source of the connections (conntrack -L)",
	      "%" PRId64 " of %" PRId64 " tracked flows in use (%" PRId64 " %%)%s", f->ct_count,
	      f->ct_max, percent, str_text(&drops));
}

static void check_conntrack(struct results *r, const struct facts *f)
{
	if (f->ct_max < 0 || f->ct_count < 0) {
		found(r, CHECK_NOTE, NULL, "conntrack is not loaded yet");
		return;
	}
	check_fill(r, f);
	if (f->ct_buckets > 0 && f->ct_max / f->ct_buckets > PER_BUCKET_MAX)
		found(r, CHECK_WARNING,
		      "write a quarter of nf_conntrack_max to "
		      "/sys/module/nf_conntrack/parameters/hashsize",
		      "%" PRId64 " flows share %" PRId64
		      " hash buckets: lookups are slow when the table is full",
		      f->ct_max, f->ct_buckets);
	check_add(
		r->report, "invalid", CHECK_OK, NULL,
		f->ct_liberal > 0
			? "nf_conntrack_tcp_be_liberal is on: packets outside of the TCP window are valid"
			: "packets outside of the TCP window are INVALID");
}

/* --- clock --- */

static void check_clock(struct results *r, const struct facts *f)
{
	int64_t jump_ms = f->clock_jump_ns / (int64_t)NSEC_PER_MSEC;

	if (f->wall_s < WALL_MIN_S)
		found(r, CHECK_ERROR, "set the clock; certificates are invalid otherwise",
		      "the wall clock is before 2025");
	else if (!f->is_clock_known)
		found(r, CHECK_NOTE, NULL, "synchronisation state unknown");
	else if (!f->is_clock_synced)
		found(r, CHECK_WARNING,
		      "run chrony, systemd-timesyncd or another NTP client: latencies measured from timestamps of objects are wrong",
		      "not synchronised");
	else
		found_ok(r, "synchronised");
	if (jump_ms > 1000 || jump_ms < -1000)
		found(r, CHECK_NOTE,
		      "find out why the clock was wrong; vipd itself uses a monotonic clock",
		      "the wall clock was set by %+" PRId64 " ms since vipd started", jump_ms);
}

/* --- this process --- */

static bool has_cap(const struct facts *f, unsigned int cap)
{
	return f->capabilities >> cap & 1;
}

static void check_capabilities(struct results *r, const struct facts *f)
{
	if (!f->has_capabilities)
		found(r, CHECK_NOTE, NULL, "cannot be read");
	else if (!has_cap(f, CAP_NET_ADMIN))
		found(r, CHECK_ERROR, "run as root or with CAP_NET_ADMIN",
		      "no CAP_NET_ADMIN: tables of the kernel can be neither read nor written");
	else if (!has_cap(f, CAP_SYS_ADMIN))
		found_ok(r, "CAP_NET_ADMIN");
	else
		found_ok(r, "CAP_NET_ADMIN and CAP_SYS_ADMIN");
}

static void check_files(struct results *r, const struct facts *f)
{
	if (f->nofile_hard < 0)
		found(r, CHECK_NOTE, NULL, "the limit of open files cannot be read");
	else if (f->nofile_hard < NOFILE_MIN)
		found(r, CHECK_WARNING,
		      "LimitNOFILE=65536 in the unit, ulimit -n elsewhere: each health check node port takes up to two sockets",
		      "at most %" PRId64 " open files", f->nofile_hard);
	else if (f->nofile_hard == INT64_MAX)
		found_ok(r, "no limit of open files");
	else
		found_ok(r, "up to %" PRId64 " open files", f->nofile_hard);
}

static void check_netlink(struct results *r, const struct facts *f)
{
	if (f->rcvbuf_result < 0)
		found(r, CHECK_WARNING,
		      "run with CAP_NET_ADMIN in the initial user namespace, or raise net.core.rmem_max",
		      "receive buffers cannot be enlarged (%s): long answers are lost and requested again",
		      strerror(-f->rcvbuf_result));
	else
		found_ok(r, "receive buffers can be enlarged");
}

static void check_memory(struct results *r, const struct facts *f)
{
	int64_t left = f->memory_max - f->memory_used;

	if (!f->has_memory)
		found(r, CHECK_NOTE, NULL, "limit not read: the control group is not of version 2");
	else if (f->memory_max < 0)
		found_ok(r, "the control group has no limit");
	else if (left < MEMORY_LEFT_MIN)
		found(r, CHECK_WARNING,
		      "raise the limit (MemoryMax=, resources.limits.memory): 10,000 services "
		      "take about 40 MB, 50,000 about 160 MB",
		      "%" PRId64 " MiB of the control group's %" PRId64 " MiB are left", left >> 20,
		      f->memory_max >> 20);
	else
		found_ok(r, "%" PRId64 " MiB of the control group's %" PRId64 " MiB are left",
			 left >> 20, f->memory_max >> 20);
}

/* --- the ipvs plane: IPVS itself --- */

static void check_scheds(struct results *r, const struct fact_try *t)
{
	for (size_t i = 0; i < t->n_scheds; i++) {
		const struct ipvs_try *s = &t->scheds[i];

		if (s->result == 0)
			continue;
		found(r,
		      i == 0                        ? CHECK_ERROR
		      : strcmp(s->sched, "mh") == 0 ? CHECK_WARNING
						    : CHECK_NOTE,
		      str_local(128,
				"modprobe ip_vs_%s; services with that scheduler get the default",
				s->sched),
		      "the kernel has no scheduler %s: %s", s->sched, strerror(-s->result));
	}
	if (!has_result(r))
		found_ok(r, "IPVS and %zu schedulers are available", t->n_scheds);
}

static void check_ipvs_kernel(struct results *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (t->ipvs_result < 0)
		found(r, CHECK_ERROR,
		      "modprobe ip_vs; or use a kernel with CONFIG_IP_VS; or use --proxy-mode=nftables",
		      "the kernel has no IPVS: %s", strerror(-t->ipvs_result));
	else if (!t->is_private)
		found(r, CHECK_NOTE, "optional: run with CAP_SYS_ADMIN to test the schedulers",
		      "IPVS is available; schedulers not tested");
	else
		check_scheds(r, t);
}

/* --- the ipvs plane: policy routing --- */

static void check_ipvs_routing(struct results *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;

	if (!p->has_routing) {
		found(r, CHECK_WARNING, "see the error", "policy routing cannot be read: %s",
		      p->routing_error.text);
		return;
	}
	vec_for_each (text, &p->hard)
		found(r, CHECK_ERROR, "remove the rule; vipd does not serve while it exists", "%s",
		      *text);
	vec_for_each (text, &p->soft)
		found(r, CHECK_WARNING,
		      "see `ip rule`; if the rule can route packets of services, give it a lower priority than vipd's rules, or change --ipvs-rule-priority",
		      "%s", *text);
	vec_for_each (text, &p->missing)
		list_add(r, MISSING_MAX, *text);
	if (r->n_listed > 0 && p->is_in_force)
		found(r, CHECK_ERROR,
		      "vipd restores them within 10 s; find the process that removes them (ip monitor rule); until then connections from other hosts and pods fail",
		      "missing: %s", list_text(r, MISSING_MAX));
	if (!has_result(r))
		found_ok(r, p->is_in_force
				    ? "rules and routes exist, and no foreign rule precedes them"
				    : "the priorities and the table of vipd's rules are free");
}

/* --- the ipvs plane: sysctls --- */

static void check_ipvs_sysctls(struct results *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;
	FINI(str_fini) struct str list = { 0 };
	bool is_required = false;
	bool is_missing = false;
	size_t n_known = 0;

	for (size_t i = 0; i < IPVS_SYSCTLS_FIXED; i++) {
		const struct ipvs_sysctl *s = &ipvs_sysctls[i];
		bool is_conntrack = strcmp(s->name, "conntrack") == 0; /* for masquerading */

		n_known += p->sysctls[i] >= 0;
		is_missing |= is_conntrack && p->sysctls[i] < 0;
		if (p->sysctls[i] < 0 || p->sysctls[i] == s->value)
			continue;
		is_required |= is_conntrack;
		str_printf(&list, "%snet.ipv4.vs.%s=%" PRIu32, list.len > 0 ? " " : "", s->name,
			   s->value);
	}
	if (n_known == 0)
		found(r, p->is_in_force ? CHECK_WARNING : CHECK_NOTE,
		      p->is_in_force ? "allow vipd to read /proc/sys/net/ipv4/vs" : NULL,
		      p->is_in_force ? "sysctls of IPVS cannot be read" : "IPVS is not loaded yet");
	else if (is_missing)
		found(r, CHECK_ERROR,
		      "use a kernel with CONFIG_IP_VS_NFCT, or --proxy-mode=nftables",
		      "net.ipv4.vs.conntrack is missing: the kernel needs CONFIG_IP_VS_NFCT");
	else if (list.len > 0 && p->is_in_force)
		found(r, is_required ? CHECK_ERROR : CHECK_WARNING,
		      "set them with sysctl -w; vipd sets them every 10 s if /proc/sys is writable",
		      "wrong values; required: %s", list.text);
	else
		found_ok(r, list.len > 0 ? "vipd sets them at its start" : "correct");
}

/* --- filters of the host --- */

/* The input hook: captured packets of the ipvs plane; probes of health check node ports. */
static void input_closed(struct results *r, const struct facts *f, const struct fact_table *t,
			 const char *chain)
{
	if (!f->ipvs_plane.is_selected || t->accepts_mark) {
		found(r, CHECK_NOTE,
		      "accept TCP to the healthCheckNodePort of Services, or to 30000-32767",
		      "chain %s of table %s drops or rejects what no rule accepts: probes of health check node ports need a rule",
		      chain, t->name);
		return;
	}
	found(r, CHECK_WARNING,
	      str_local(192,
			"accept vipd's mark in that chain: iptables -I INPUT -m mark "
			"--mark 0x%x/0xff000f00 -j ACCEPT, or `meta mark & 0xff000f00 == "
			"0x%x accept`",
			f->ipvs_plane.mark, f->ipvs_plane.mark),
	      "chain %s of table %s drops or rejects what no rule accepts, and none accepts vipd's mark: connections from other hosts and pods to services can be dropped",
	      chain, t->name);
}

static bool is_forwarded(const struct facts *f, const struct fact_table *t)
{
	const unsigned int all = NFT_ACCEPTS_ESTABLISHED | NFT_ACCEPTS_NEW;

	if (f->ipvs_plane.is_selected)
		return (t->accepts & NFT_ACCEPTS_ESTABLISHED) != 0;
	return (t->accepts & NFT_ACCEPTS_DNAT) != 0 || (t->accepts & all) == all;
}

/*
 * The forward hook: translated packets of the nftables plane in both directions, and replies of the
 * ipvs plane, whose requests IPVS sends through the output hook.
 */
static void forward_closed(struct results *r, const struct facts *f, const struct fact_table *t,
			   const char *chain)
{
	bool is_ipvs = f->ipvs_plane.is_selected;
	bool is_unused = t->family == NFPROTO_IPV6 && !has_family(&f->ours, AF_INET6);

	if (is_forwarded(f, t))
		return;
	found(r, is_unused ? CHECK_NOTE : CHECK_WARNING,
	      str_local(
		      192,
		      "accept them first in that chain: %s -I FORWARD -m conntrack --ctstate %s -j "
		      "ACCEPT, or `ct %s accept`",
		      t->family == NFPROTO_IPV6 ? "ip6tables" : "iptables",
		      is_ipvs ? "ESTABLISHED,RELATED" : "DNAT",
		      is_ipvs ? "state established,related" : "status dnat"),
	      "chain %s of table %s drops or rejects what no rule accepts, and none accepts all %s: connections from other hosts and pods to services can be dropped",
	      chain, t->name, is_ipvs ? "replies" : "translated connections");
}

static void check_filters(struct results *r, const struct facts *f, uint32_t hook, const char *open)
{
	vec_for_each (t, &f->tables)
		vec_for_each (filter, &t->filters) {
			if (!filter->is_closed || filter->hook != hook)
				continue;
			if (hook == NF_INET_FORWARD)
				forward_closed(r, f, t, filter->chain);
			else
				input_closed(r, f, t, filter->chain);
		}
	if (!f->has_tables)
		found(r, CHECK_WARNING, "run with CAP_NET_ADMIN",
		      "tables of nf_tables cannot be read");
	else if (!has_result(r))
		found_ok(r, "%s", open);
}

static void check_input(struct results *r, const struct facts *f)
{
	check_filters(r, f, NF_INET_LOCAL_IN,
		      "no nf_tables chain drops all packets to this host that no rule accepts");
}

static void check_forward(struct results *r, const struct facts *f)
{
	check_filters(r, f, NF_INET_FORWARD,
		      "no nf_tables chain drops forwarded packets of services");
}

/* --- the ipvs plane: connections --- */

static void check_ipvs_conns(struct results *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;

	if (p->table_size <= 0 || p->n_conns < 0)
		found(r, CHECK_NOTE, NULL, "IPVS is not loaded yet");
	else if (p->n_conns / p->table_size > PER_BUCKET_MAX)
		found(r, CHECK_WARNING,
		      "set `options ip_vs conn_tab_bits=18` in /etc/modprobe.d and restart the node",
		      "%" PRId64 " connections share %" PRId64 " hash buckets: lookups are slow",
		      p->n_conns, p->table_size);
	else
		found_ok(r, "%" PRId64 " connections; the table has %" PRId64 " buckets",
			 p->n_conns, p->table_size);
}

/* --- all --- */

enum needs {
	NEEDS_IPVS = 1, /* the ipvs plane; no result without it */
	NEEDS_TRIAL = 2,
	NEEDS_LINKS = 4,
};

static const struct {
	const char *name;
	void (*check)(struct results *r, const struct facts *f);
	unsigned int needs;
} checks[] = {
	{ "kernel", check_kernel },
	{ "nftables", check_nftables, NEEDS_TRIAL },
	{ "ipvs-kernel", check_ipvs_kernel, NEEDS_IPVS | NEEDS_TRIAL },
	{ "policy-routing", check_ipvs_routing, NEEDS_IPVS },
	{ "ipvs-sysctls", check_ipvs_sysctls, NEEDS_IPVS },
	{ "ipvs-connections", check_ipvs_conns, NEEDS_IPVS },
	{ "capabilities", check_capabilities },
	{ "forwarding", check_forwarding },
	{ "input-policy", check_input },
	{ "forward-policy", check_forward },
	{ "rp-filter", check_rp_filter, NEEDS_LINKS },
	{ "localnet", check_localnet, NEEDS_LINKS },
	{ "bridge", check_bridge, NEEDS_LINKS },
	{ "conntrack", check_conntrack },
	{ "proxies", check_proxies },
	{ "tables", check_tables },
	{ "ipvs", check_ipvs },
	{ "addresses", check_addresses },
	{ "listeners", check_listeners },
	{ "clock", check_clock },
	{ "files", check_files },
	{ "netlink", check_netlink },
	{ "memory", check_memory },
};

void check_all(json_t *report, const struct facts *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct results r = { report, checks[i].name, json_array_size(report) };
		unsigned int needs = checks[i].needs;

		if (needs & NEEDS_IPVS && !f->ipvs_plane.is_selected)
			continue;
		if (needs & NEEDS_TRIAL && !f->trial.is_done)
			found(&r, CHECK_ERROR, "see the error", "features cannot be tested: %s",
			      f->trial.error.text);
		else if (needs & NEEDS_LINKS && !f->has_links)
			found(&r, CHECK_WARNING, "see the error", "links cannot be read: %s",
			      f->links_error.text);
		else
			checks[i].check(&r, f);
		str_fini(&r.list);
	}
}
