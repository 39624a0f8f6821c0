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

void check_list_add(struct str *list, size_t *n, size_t max, const char *name)
{
	if ((*n)++ < max)
		str_printf(list, "%s%s", list->len > 0 ? ", " : "", name);
}

void check_list_end(struct str *list, size_t n, size_t max)
{
	if (n > max)
		str_printf(list, " and %zu more", n - max);
}

/* --- the kernel --- */

static void check_kernel(json_t *r, const struct facts *f)
{
	unsigned int major;
	unsigned int minor;

	if (sscanf(f->release, "%u.%u", &major, &minor) != 2)
		check_add(r, "kernel", CHECK_NOTE, NULL, "unknown version: '%s'", f->release);
	else if (major < MAJOR_MIN || (major == MAJOR_MIN && minor < MINOR_MIN))
		check_add(r, "kernel", CHECK_ERROR,
			  "upgrade the kernel: older versions lack features that the rules use",
			  "Linux %s, older than %u.%u", f->release, MAJOR_MIN, MINOR_MIN);
	else
		check_add(r, "kernel", CHECK_OK, NULL, "Linux %s", f->release);
}

static bool all_are(const struct fact_try *t, int result)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < t->n[fam]; i++)
			if (t->tries[fam][i].result != result)
				return false;
	return t->n[IPFAM_V4] > 0;
}

static void missing(json_t *r, const struct fact_try *t, size_t i)
{
	const struct nft_try *four = &t->tries[IPFAM_V4][i];
	const struct nft_try *six = &t->tries[IPFAM_V6][i];
	const struct nft_try *bad = four->result < 0 ? four : six;
	char advice[256];

	if (four->result == 0 && six->result == 0)
		return;
	(void)snprintf(advice, sizeof(advice), "use a kernel with %s, or load the module",
		       bad->needs);
	check_add(r, "nftables", CHECK_ERROR, advice, "the kernel has no %s (%s): %s", bad->what,
		  four->result < 0 && six->result < 0
			  ? "IPv4 and IPv6"
			  : ipfam_text(bad == six ? IPFAM_V6 : IPFAM_V4),
		  bad->detail);
}

static void check_nftables(json_t *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (!t->is_done)
		check_add(r, "nftables", CHECK_ERROR, "see the error",
			  "features cannot be tested: %s", t->error.text);
	else if (all_are(t, -EPERM))
		check_add(r, "nftables", CHECK_ERROR, "run with CAP_NET_ADMIN",
			  "this process has no permission to use nf_tables");
	else if (!all_are(t, 0))
		for (size_t i = 0; i < t->n[IPFAM_V4]; i++)
			missing(r, t, i);
	else if (!t->is_private)
		check_add(r, "nftables", CHECK_NOTE,
			  "optional: run with CAP_SYS_ADMIN to test the whole ruleset",
			  "all %zu features are available; the whole ruleset was not tested",
			  t->n[IPFAM_V4]);
	else if (t->layout_result < 0)
		check_add(
			r, "nftables", CHECK_ERROR,
			"report this with the kernel's version: each feature alone is accepted",
			"all features are available, but the kernel rejects the whole ruleset: %s",
			t->error.text);
	else
		check_add(
			r, "nftables", CHECK_OK, NULL,
			"all %zu features are available, and the kernel accepts the whole ruleset",
			t->n[IPFAM_V4]);
}

/* --- forwarding and filters --- */

static bool has_family(const struct fact_ours *o, uint8_t family)
{
	return vec_has(&o->frontends, t, t->addr.family == family);
}

static void check_forwarding(json_t *r, const struct facts *f)
{
	if (f->ip_forward == 0)
		check_add(r, "forwarding", CHECK_ERROR, "sysctl -w net.ipv4.ip_forward=1",
			  "off for IPv4: connections from other hosts and pods to services fail");
	else if (f->ip_forward < 0)
		check_add(r, "forwarding", CHECK_WARNING, "allow vipd to read /proc/sys/net",
			  "state for IPv4 cannot be read");
	if (f->ip6_forward == 0)
		check_add(r, "forwarding",
			  has_family(&f->ours, AF_INET6) ? CHECK_ERROR : CHECK_NOTE,
			  "sysctl -w net.ipv6.conf.all.forwarding=1, if there are IPv6 services",
			  "off for IPv6%s",
			  has_family(&f->ours, AF_INET6)
				  ? ": connections from other hosts and pods to services fail"
				  : "; there are no IPv6 services");
	else if (f->ip6_forward < 0)
		check_add(r, "forwarding", CHECK_NOTE, NULL, "this kernel has no IPv6");
	if (f->ip_forward > 0 && f->ip6_forward > 0)
		check_add(r, "forwarding", CHECK_OK, NULL, "on for IPv4 and IPv6");
	else if (f->ip_forward > 0)
		check_add(r, "forwarding", CHECK_OK, NULL, "on for IPv4");
}

/* The larger value of the interface and of "all" is in force (Documentation/networking/ip-sysctl)
 */
static bool is_strict(const struct facts *f, const struct fact_link *l)
{
	return MAX(f->rp_filter_all, l->rp_filter) == 1 && l->is_up && strcmp(l->name, "lo") != 0;
}

/* Reports a failure to read links. */
static bool has_links(json_t *r, const char *check, const struct facts *f)
{
	if (!f->has_links)
		check_add(r, check, CHECK_WARNING, "see the error", "links cannot be read: %s",
			  f->links_error.text);
	return f->has_links;
}

static void check_rp_filter(json_t *r, const struct facts *f)
{
	FINI(str_fini) struct str names = { 0 };
	size_t n = 0;

	if (!has_links(r, "rp-filter", f))
		return;
	vec_for_each (l, &f->net.links)
		if (is_strict(f, l))
			check_list_add(&names, &n, LISTED_MAX, l->name);
	check_list_end(&names, n, LISTED_MAX);
	if (n == 0)
		check_add(r, "rp-filter", CHECK_OK, NULL, "off or loose on every interface");
	else if (f->n_default_routes > 1)
		check_add(
			r, "rp-filter", CHECK_WARNING,
			"sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2 (loose) if replies take another interface; also net.ipv4.conf.all.rp_filter: the larger value is in force",
			"strict on %s, and %" PRId64
			" interfaces have a default route: packets that arrive on the other one are dropped",
			names.text, f->n_default_routes);
	else
		check_add(r, "rp-filter", CHECK_NOTE,
			  "set 2 (loose) if packets to and from pods take different interfaces",
			  "strict on %s", names.text);
}

static void check_localnet(json_t *r, const struct facts *f)
{
	FINI(str_fini) struct str names = { 0 };
	size_t n = 0;

	if (!has_links(r, "localnet", f))
		return;
	if (f->route_localnet_all > 0)
		check_list_add(&names, &n, LISTED_MAX, "all");
	vec_for_each (l, &f->net.links)
		if (l->route_localnet > 0)
			check_list_add(&names, &n, LISTED_MAX, l->name);
	check_list_end(&names, n, LISTED_MAX);
	if (n == 0)
		check_add(r, "localnet", CHECK_OK, NULL, "127.0.0.0/8 is not routed");
	else
		check_add(
			r, "localnet", CHECK_WARNING,
			"sysctl -w net.ipv4.conf.all.route_localnet=0, unless another program needs it; vipd does not",
			"127.0.0.0/8 is routed on %s: neighbours can reach daemons that listen on loopback (CVE-2020-8558)",
			names.text);
}

/* --- bridges --- */

static bool has_ports(const struct facts *f, const struct fact_link *bridge)
{
	return vec_has(&f->net.links, l, l->master == bridge->index);
}

static bool shares_bits(const struct ip_addr *a, const struct ip_addr *b, size_t n)
{
	size_t rest = n % 8;

	return a->family == b->family && memcmp(a->bytes, b->bytes, n / 8) == 0 &&
	       (rest == 0 || a->bytes[n / 8] >> (8 - rest) == b->bytes[n / 8] >> (8 - rest));
}

/* Is an endpoint of that family in a prefix of the bridge? Then pods are connected to it. */
static bool has_endpoints(const struct facts *f, const struct fact_link *bridge, uint8_t family)
{
	vec_for_each (a, &f->net.addrs) {
		if (a->link != bridge->index || a->addr.family != family ||
		    a->prefix_len == ip_len(ip_fam(&a->addr)) * 8)
			continue;
		vec_for_each (e, &f->ours.endpoints)
			if (shares_bits(&a->addr, e, a->prefix_len))
				return true;
	}
	return false;
}

static void bridge_check(json_t *r, const struct facts *f, const struct fact_link *bridge)
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
		check_add(
			r, "bridge", CHECK_WARNING,
			"modprobe br_netfilter; sysctl -w net.bridge.bridge-nf-call-iptables=1 "
			"net.bridge.bridge-nf-call-ip6tables=1; not needed if the pods of the bridge reach each other only through this host",
			"bridge %s connects endpoints, and %s: a pod that connects to another one through a service gets replies from the wrong address",
			bridge->name, state);
	else if (has_four || has_six)
		check_add(r, "bridge", CHECK_OK, NULL,
			  "bridge %s connects endpoints, and netfilter sees its packets",
			  bridge->name);
	else
		check_add(r, "bridge", CHECK_OK, NULL, "bridge %s connects no endpoints",
			  bridge->name);
}

static void check_bridge(json_t *r, const struct facts *f)
{
	size_t n = 0;

	if (!has_links(r, "bridge", f))
		return;
	vec_for_each (l, &f->net.links) {
		if (strcmp(l->kind, "bridge") != 0 || !has_ports(f, l) || n++ >= LISTED_MAX)
			continue;
		bridge_check(r, f, l);
	}
	if (n == 0)
		check_add(r, "bridge", CHECK_OK, NULL, "no bridge has a port");
}

/* --- connection tracking --- */

static void check_fill(json_t *r, const struct facts *f)
{
	FINI(str_fini) struct str drops = { 0 };
	int64_t percent = f->ct_max > 0 ? f->ct_count * 100 / f->ct_max : 0;
	enum check_level level = percent >= 95   ? CHECK_ERROR
				 : percent >= 75 ? CHECK_WARNING
						 : CHECK_OK;

	if (f->has_ct_drops)
		str_printf(&drops, ", %" PRIu64 " packets dropped so far", f->ct_drops);
	check_add(
		r, "conntrack", level,
		level == CHECK_OK
			? NULL
			: "raise net.netfilter.nf_conntrack_max and its buckets "
			  "(--conntrack-max-per-core, --conntrack-min); find the source of the connections (conntrack -L)",
		"%" PRId64 " of %" PRId64 " tracked flows in use (%" PRId64 " %%)%s", f->ct_count,
		f->ct_max, percent, str_text(&drops));
}

static void check_conntrack(json_t *r, const struct facts *f)
{
	if (f->ct_max < 0 || f->ct_count < 0) {
		check_add(r, "conntrack", CHECK_NOTE, NULL, "conntrack is not loaded yet");
		return;
	}
	check_fill(r, f);
	if (f->ct_buckets > 0 && f->ct_max / f->ct_buckets > PER_BUCKET_MAX)
		check_add(r, "conntrack", CHECK_WARNING,
			  "write a quarter of nf_conntrack_max to "
			  "/sys/module/nf_conntrack/parameters/hashsize",
			  "%" PRId64 " flows share %" PRId64
			  " hash buckets: lookups are slow when the table is full",
			  f->ct_max, f->ct_buckets);
	check_add(
		r, "invalid", CHECK_OK, NULL,
		f->ct_liberal > 0
			? "nf_conntrack_tcp_be_liberal is on: packets outside of the TCP window are valid"
			: "packets outside of the TCP window are INVALID");
}

/* --- clock --- */

static void check_clock(json_t *r, const struct facts *f)
{
	int64_t jump_ms = f->clock_jump_ns / (int64_t)NSEC_PER_MSEC;

	if (f->wall_s < WALL_MIN_S)
		check_add(r, "clock", CHECK_ERROR,
			  "set the clock; certificates are invalid otherwise",
			  "the wall clock is before 2025");
	else if (!f->is_clock_known)
		check_add(r, "clock", CHECK_NOTE, NULL, "synchronisation state unknown");
	else if (!f->is_clock_synced)
		check_add(
			r, "clock", CHECK_WARNING,
			"run chrony, systemd-timesyncd or another NTP client: latencies measured from timestamps of objects are wrong",
			"not synchronised");
	else
		check_add(r, "clock", CHECK_OK, NULL, "synchronised");
	if (jump_ms > 1000 || jump_ms < -1000)
		check_add(r, "clock", CHECK_NOTE,
			  "find out why the clock was wrong; vipd itself uses a monotonic clock",
			  "the wall clock was set by %+" PRId64 " ms since vipd started", jump_ms);
}

/* --- this process --- */

static bool has_cap(const struct facts *f, unsigned int cap)
{
	return f->capabilities >> cap & 1;
}

static void check_capabilities(json_t *r, const struct facts *f)
{
	if (!f->has_capabilities)
		check_add(r, "capabilities", CHECK_NOTE, NULL, "cannot be read");
	else if (!has_cap(f, CAP_NET_ADMIN))
		check_add(r, "capabilities", CHECK_ERROR, "run as root or with CAP_NET_ADMIN",
			  "no CAP_NET_ADMIN: tables of the kernel can be neither read nor written");
	else if (!has_cap(f, CAP_SYS_ADMIN))
		check_add(r, "capabilities", CHECK_OK, NULL, "CAP_NET_ADMIN");
	else
		check_add(r, "capabilities", CHECK_OK, NULL, "CAP_NET_ADMIN and CAP_SYS_ADMIN");
}

static void check_files(json_t *r, const struct facts *f)
{
	if (f->nofile_hard < 0)
		check_add(r, "files", CHECK_NOTE, NULL, "the limit of open files cannot be read");
	else if (f->nofile_hard < NOFILE_MIN)
		check_add(
			r, "files", CHECK_WARNING,
			"LimitNOFILE=65536 in the unit, ulimit -n elsewhere: each health check node port takes up to two sockets",
			"at most %" PRId64 " open files", f->nofile_hard);
	else if (f->nofile_hard == INT64_MAX)
		check_add(r, "files", CHECK_OK, NULL, "no limit of open files");
	else
		check_add(r, "files", CHECK_OK, NULL, "up to %" PRId64 " open files",
			  f->nofile_hard);
}

static void check_netlink(json_t *r, const struct facts *f)
{
	if (f->rcvbuf_result < 0)
		check_add(
			r, "netlink", CHECK_WARNING,
			"run with CAP_NET_ADMIN in the initial user namespace, or raise net.core.rmem_max",
			"receive buffers cannot be enlarged (%s): long answers are lost and requested again",
			strerror(-f->rcvbuf_result));
	else
		check_add(r, "netlink", CHECK_OK, NULL, "receive buffers can be enlarged");
}

static void check_memory(json_t *r, const struct facts *f)
{
	int64_t left = f->memory_max - f->memory_used;

	if (!f->has_memory)
		check_add(r, "memory", CHECK_NOTE, NULL,
			  "limit not read: the control group is not of version 2");
	else if (f->memory_max < 0)
		check_add(r, "memory", CHECK_OK, NULL, "the control group has no limit");
	else if (left < MEMORY_LEFT_MIN)
		check_add(r, "memory", CHECK_WARNING,
			  "raise the limit (MemoryMax=, resources.limits.memory): 10,000 services "
			  "take about 40 MB, 50,000 about 160 MB",
			  "%" PRId64 " MiB of the control group's %" PRId64 " MiB are left",
			  left >> 20, f->memory_max >> 20);
	else
		check_add(r, "memory", CHECK_OK, NULL,
			  "%" PRId64 " MiB of the control group's %" PRId64 " MiB are left",
			  left >> 20, f->memory_max >> 20);
}

/* --- the ipvs plane: IPVS itself --- */

static void check_scheds(json_t *r, const struct fact_try *t)
{
	size_t n_bad = 0;

	for (size_t i = 0; i < t->n_scheds; i++) {
		const struct ipvs_try *s = &t->scheds[i];
		char advice[128];

		if (s->result == 0)
			continue;
		n_bad++;
		(void)snprintf(advice, sizeof(advice),
			       "modprobe ip_vs_%s; services with that scheduler get the default",
			       s->sched);
		check_add(r, "ipvs-kernel",
			  i == 0                        ? CHECK_ERROR
			  : strcmp(s->sched, "mh") == 0 ? CHECK_WARNING
							: CHECK_NOTE,
			  advice, "the kernel has no scheduler %s: %s", s->sched,
			  strerror(-s->result));
	}
	if (n_bad == 0)
		check_add(r, "ipvs-kernel", CHECK_OK, NULL, "IPVS and %zu schedulers are available",
			  t->n_scheds);
}

static void check_ipvs_kernel(json_t *r, const struct facts *f)
{
	const struct fact_try *t = &f->trial;

	if (!t->is_done)
		check_add(r, "ipvs-kernel", CHECK_ERROR, "see the error",
			  "features cannot be tested: %s", t->error.text);
	else if (t->ipvs_result < 0)
		check_add(
			r, "ipvs-kernel", CHECK_ERROR,
			"modprobe ip_vs; or use a kernel with CONFIG_IP_VS; or use --proxy-mode=nftables",
			"the kernel has no IPVS: %s", strerror(-t->ipvs_result));
	else if (!t->is_private)
		check_add(r, "ipvs-kernel", CHECK_NOTE,
			  "optional: run with CAP_SYS_ADMIN to test the schedulers",
			  "IPVS is available; schedulers not tested");
	else
		check_scheds(r, t);
}

/* --- the ipvs plane: policy routing --- */

static void check_ipvs_routing(json_t *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;
	FINI(str_fini) struct str list = { 0 };
	size_t before = json_array_size(r);
	size_t n = 0;

	if (!p->has_routing) {
		check_add(r, "policy-routing", CHECK_WARNING, "see the error",
			  "policy routing cannot be read: %s", p->routing_error.text);
		return;
	}
	vec_for_each (text, &p->hard)
		check_add(r, "policy-routing", CHECK_ERROR,
			  "remove the rule; vipd does not serve while it exists", "%s", *text);
	vec_for_each (text, &p->soft)
		check_add(
			r, "policy-routing", CHECK_WARNING,
			"see `ip rule`; if the rule can route packets of services, give it a lower priority than vipd's rules, or change --ipvs-rule-priority",
			"%s", *text);
	vec_for_each (text, &p->missing)
		check_list_add(&list, &n, MISSING_MAX, *text);
	check_list_end(&list, n, MISSING_MAX);
	if (n > 0 && p->is_in_force)
		check_add(
			r, "policy-routing", CHECK_ERROR,
			"vipd restores them within 10 s; find the process that removes them (ip monitor rule); until then connections from other hosts and pods fail",
			"missing: %s", list.text);
	if (json_array_size(r) == before)
		check_add(r, "policy-routing", CHECK_OK, NULL,
			  p->is_in_force
				  ? "rules and routes exist, and no foreign rule precedes them"
				  : "the priorities and the table of vipd's rules are free");
}

/* --- the ipvs plane: sysctls --- */

static void check_ipvs_sysctls(json_t *r, const struct facts *f)
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
		check_add(r, "ipvs-sysctls", p->is_in_force ? CHECK_WARNING : CHECK_NOTE,
			  p->is_in_force ? "allow vipd to read /proc/sys/net/ipv4/vs" : NULL,
			  p->is_in_force ? "sysctls of IPVS cannot be read"
					 : "IPVS is not loaded yet");
	else if (is_missing)
		check_add(r, "ipvs-sysctls", CHECK_ERROR,
			  "use a kernel with CONFIG_IP_VS_NFCT, or --proxy-mode=nftables",
			  "net.ipv4.vs.conntrack is missing: the kernel needs CONFIG_IP_VS_NFCT");
	else if (list.len > 0 && p->is_in_force)
		check_add(
			r, "ipvs-sysctls", is_required ? CHECK_ERROR : CHECK_WARNING,
			"set them with sysctl -w; vipd sets them every 10 s if /proc/sys is writable",
			"wrong values; required: %s", list.text);
	else
		check_add(r, "ipvs-sysctls", CHECK_OK, NULL,
			  list.len > 0 ? "vipd sets them at its start" : "correct");
}

/* --- filters of the host --- */

/* The input hook: captured packets of the ipvs plane; probes of health check node ports. */
static void input_closed(json_t *r, const struct facts *f, const struct fact_table *t,
			 const char *chain)
{
	char advice[192];

	if (!f->ipvs_plane.is_selected || t->accepts_mark) {
		check_add(
			r, "input-policy", CHECK_NOTE,
			"accept TCP to the healthCheckNodePort of Services, or to 30000-32767",
			"chain %s of table %s drops or rejects what no rule accepts: probes of health check node ports need a rule",
			chain, t->name);
		return;
	}
	(void)snprintf(advice, sizeof(advice),
		       "accept vipd's mark in that chain: iptables -I INPUT -m mark "
		       "--mark 0x%x/0xff000f00 -j ACCEPT, or `meta mark & 0xff000f00 == "
		       "0x%x accept`",
		       f->ipvs_plane.mark, f->ipvs_plane.mark);
	check_add(
		r, "input-policy", CHECK_WARNING, advice,
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
static void forward_closed(json_t *r, const struct facts *f, const struct fact_table *t,
			   const char *chain)
{
	bool is_ipvs = f->ipvs_plane.is_selected;
	bool is_unused = t->family == NFPROTO_IPV6 && !has_family(&f->ours, AF_INET6);
	char advice[192];

	if (is_forwarded(f, t))
		return;
	(void)snprintf(
		advice, sizeof(advice),
		"accept them first in that chain: %s -I FORWARD -m conntrack --ctstate %s -j "
		"ACCEPT, or `ct %s accept`",
		t->family == NFPROTO_IPV6 ? "ip6tables" : "iptables",
		is_ipvs ? "ESTABLISHED,RELATED" : "DNAT",
		is_ipvs ? "state established,related" : "status dnat");
	check_add(
		r, "forward-policy", is_unused ? CHECK_NOTE : CHECK_WARNING, advice,
		"chain %s of table %s drops or rejects what no rule accepts, and none accepts all %s: connections from other hosts and pods to services can be dropped",
		chain, t->name, is_ipvs ? "replies" : "translated connections");
}

static void check_filters(json_t *r, const struct facts *f, const char *check, uint32_t hook,
			  void (*closed)(json_t *r, const struct facts *f,
					 const struct fact_table *t, const char *chain),
			  const char *open)
{
	size_t before = json_array_size(r);

	vec_for_each (t, &f->tables)
		vec_for_each (filter, &t->filters)
			if (filter->is_closed && filter->hook == hook)
				closed(r, f, t, filter->chain);
	if (!f->has_tables)
		check_add(r, check, CHECK_WARNING, "run with CAP_NET_ADMIN",
			  "tables of nf_tables cannot be read");
	else if (json_array_size(r) == before)
		check_add(r, check, CHECK_OK, NULL, "%s", open);
}

/* --- the ipvs plane: connections --- */

static void check_ipvs_conns(json_t *r, const struct facts *f)
{
	const struct fact_ipvs *p = &f->ipvs_plane;

	if (p->table_size <= 0 || p->n_conns < 0)
		check_add(r, "ipvs-connections", CHECK_NOTE, NULL, "IPVS is not loaded yet");
	else if (p->n_conns / p->table_size > PER_BUCKET_MAX)
		check_add(
			r, "ipvs-connections", CHECK_WARNING,
			"set `options ip_vs conn_tab_bits=18` in /etc/modprobe.d and restart the node",
			"%" PRId64 " connections share %" PRId64 " hash buckets: lookups are slow",
			p->n_conns, p->table_size);
	else
		check_add(r, "ipvs-connections", CHECK_OK, NULL,
			  "%" PRId64 " connections; the table has %" PRId64 " buckets", p->n_conns,
			  p->table_size);
}

/* --- all --- */

void check_all(json_t *r, const struct facts *f)
{
	check_kernel(r, f);
	check_nftables(r, f);
	if (f->ipvs_plane.is_selected) {
		check_ipvs_kernel(r, f);
		check_ipvs_routing(r, f);
		check_ipvs_sysctls(r, f);
		check_ipvs_conns(r, f);
	}
	check_capabilities(r, f);
	check_forwarding(r, f);
	check_filters(r, f, "input-policy", NF_INET_LOCAL_IN, input_closed,
		      "no nf_tables chain drops all packets to this host that no rule accepts");
	check_filters(r, f, "forward-policy", NF_INET_FORWARD, forward_closed,
		      "no nf_tables chain drops forwarded packets of services");
	check_rp_filter(r, f);
	check_localnet(r, f);
	check_bridge(r, f);
	check_conntrack(r, f);
	check_proxies(r, f);
	check_tables(r, f);
	check_ipvs(r, f);
	check_addresses(r, f);
	check_listeners(r, f);
	check_clock(r, f);
	check_files(r, f);
	check_netlink(r, f);
	check_memory(r, f);
}
