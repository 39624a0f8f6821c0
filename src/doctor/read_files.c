/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/read_files - sysctls, counters and sockets, from files below a root. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "doctor/proc.h"

#define SYSCTL "/proc/sys/net/"

static void read_release(struct facts *f, const char *root)
{
	FINI(str_fini) struct str text = { 0 };

	if (proc_read(&text, root, "/proc/sys/kernel/osrelease") == 0)
		(void)snprintf(f->release, sizeof(f->release), "%.*s",
			       (int)strcspn(str_text(&text), "\n"), str_text(&text));
}

static void read_links_sysctl(struct facts *f, const char *root)
{
	f->ip_forward = proc_number(root, SYSCTL "ipv4/ip_forward");
	f->ip6_forward = proc_number(root, SYSCTL "ipv6/conf/all/forwarding");
	f->rp_filter_all = proc_number(root, SYSCTL "ipv4/conf/all/rp_filter");
	f->route_localnet_all = proc_number(root, SYSCTL "ipv4/conf/all/route_localnet");
	f->bridge_call_iptables = proc_number(root, SYSCTL "bridge/bridge-nf-call-iptables");
	f->bridge_call_ip6tables = proc_number(root, SYSCTL "bridge/bridge-nf-call-ip6tables");
	vec_for_each (l, &f->net.links) {
		l->rp_filter = proc_number(root, SYSCTL "ipv4/conf/%s/rp_filter", l->name);
		l->route_localnet =
			proc_number(root, SYSCTL "ipv4/conf/%s/route_localnet", l->name);
	}
}

static void read_routes(struct facts *f, const char *root)
{
	FINI(str_fini) struct str text = { 0 };

	if (proc_read(&text, root, "/proc/self/net/route") == 0)
		f->n_default_routes = (int64_t)proc_default_routes(text.text);
}

static void read_conntrack(struct facts *f, const char *root)
{
	FINI(str_fini) struct str text = { 0 };

	f->ct_max = proc_number(root, SYSCTL "netfilter/nf_conntrack_max");
	f->ct_count = proc_number(root, SYSCTL "netfilter/nf_conntrack_count");
	f->ct_buckets = proc_number(root, SYSCTL "netfilter/nf_conntrack_buckets");
	f->ct_liberal = proc_number(root, SYSCTL "netfilter/nf_conntrack_tcp_be_liberal");
	f->has_ct_drops = proc_read(&text, root, "/proc/self/net/stat/nf_conntrack") == 0;
	if (f->has_ct_drops)
		f->ct_drops = proc_stat_sum(text.text, "drop");
}

/* --- sockets -------------------------------------------------------------------------- */

static void read_listeners(struct facts *f, const char *root)
{
	static const struct {
		const char *path;
		uint8_t proto;
	} files[] = {
		{ "/proc/self/net/tcp", IPPROTO_TCP },
		{ "/proc/self/net/tcp6", IPPROTO_TCP },
		{ "/proc/self/net/udp", IPPROTO_UDP },
		{ "/proc/self/net/udp6", IPPROTO_UDP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		FINI(str_fini) struct str text = { 0 };
		struct fact_tuple t;
		char *rest;
		char *line;

		(void)!proc_read(&text, root, files[i].path);
		rest = text.text;
		while ((line = str_line(&rest)) != NULL)
			if (proc_listener(&t, line, files[i].proto))
				*vec_push(&f->listeners) = t;
	}
}

void read_files(struct facts *f, const char *root)
{
	read_release(f, root);
	read_links_sysctl(f, root);
	read_routes(f, root);
	read_conntrack(f, root);
	read_listeners(f, root);
	proxies_read(&f->proxies, root);
}
