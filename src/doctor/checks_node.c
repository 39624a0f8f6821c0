/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/checks_node - forwarding, filters, bridges, connection tracking and the clock. */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "doctor/checks.h"

#define LISTED_MAX 5
#define PER_BUCKET_MAX 8
#define WALL_MIN_S INT64_C(1735689600) /* 2025-01-01: before this program existed */

static bool has_family(const struct fact_ours *o, uint8_t family)
{
	return vec_has(&o->vips, a, a->family == family);
}

void check_forwarding(json_t *r, const struct facts *f)
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

void check_rp_filter(json_t *r, const struct facts *f)
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

void check_localnet(json_t *r, const struct facts *f)
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

/* --- bridges ------------------------------------------------------------------------ */

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

void check_bridge(json_t *r, const struct facts *f)
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

/* --- connection tracking -------------------------------------------------------------- */

static void check_liberal(json_t *r, const struct facts *f)
{
	check_add(
		r, "invalid", CHECK_OK, NULL,
		f->ct_liberal > 0
			? "nf_conntrack_tcp_be_liberal is on: packets outside of the TCP window are forwarded"
			: "INVALID packets of backends are dropped and counted");
}

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

void check_conntrack(json_t *r, const struct facts *f)
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
	check_liberal(r, f);
}

/* --- clock -------------------------------------------------------------------------------- */

void check_clock(json_t *r, const struct facts *f)
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
