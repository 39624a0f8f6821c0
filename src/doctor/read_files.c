/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/read_files - sysctls, counters and sockets, from files below a root; limits, capabilities
 * and clocks of this process.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "doctor/check.h"
#include "doctor/proc.h"

#define SYSCTL "/proc/sys/net/"
#define RCVBUF_TRIED (4 << 20)

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
		struct ip_tuple t;

		(void)!proc_read(&text, root, files[i].path);
		str_for_each_line (line, text.text)
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

/* --- this process --- */

int64_t check_clock_offset_ns(void)
{
	return wall_now_ns() - (int64_t)now_ns();
}

static void read_clock(struct facts *f, int64_t offset_ns)
{
	struct timex tx = { 0 };
	int state = adjtimex(&tx);

	f->is_clock_known = state != -1;
	f->is_clock_synced = state != -1 && state != TIME_ERROR && !(tx.status & STA_UNSYNC);
	f->wall_s = time(NULL);
	f->clock_jump_ns = offset_ns == 0 ? 0 : check_clock_offset_ns() - offset_ns;
}

static void read_limits(struct facts *f)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	f->nofile_hard = rl.rlim_max == RLIM_INFINITY ? INT64_MAX : (int64_t)rl.rlim_max;
}

/* May the receive buffer of a netlink socket be raised above net.core.rmem_max? */
static void read_rcvbuf(struct facts *f)
{
	int size = RCVBUF_TRIED;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) == -1)
		f->rcvbuf_result = -errno;
	if (fd != -1)
		close(fd);
}

static void read_capabilities(struct facts *f, const char *root)
{
	FINI(str_fini) struct str text = { 0 };
	const char *at;
	unsigned long long caps;

	(void)!proc_read(&text, root, "/proc/self/status");
	at = strstr(str_text(&text), "\nCapEff:");
	f->has_capabilities = at != NULL && sscanf(at, "\nCapEff: %llx", &caps) == 1;
	f->capabilities = f->has_capabilities ? caps : 0;
}

/* The lowest memory limit of our control group (version 2) and its ancestors. */
static void read_group(struct facts *f, const char *root, char *group)
{
	for (;;) {
		int64_t max = proc_number(root, "/sys/fs/cgroup%s/memory.max", group);
		int64_t used = proc_number(root, "/sys/fs/cgroup%s/memory.current", group);
		char *slash = strrchr(group, '/');

		if (max >= 0 &&
		    (f->memory_max < 0 || max - used < f->memory_max - f->memory_used)) {
			f->memory_max = max;
			f->memory_used = MAX(used, (int64_t)0);
		}
		if (slash == NULL)
			return;
		*slash = '\0';
	}
}

/* Control groups of version 1, alone or beside version 2, have their limits in other files. */
static void read_memory(struct facts *f, const char *root)
{
	const char *of_v2 = str_local(PROC_PATH_MAX, "%s/sys/fs/cgroup/cgroup.controllers", root);
	FINI(str_fini) struct str text = { 0 };

	if (access(of_v2, R_OK) == 0 && proc_read(&text, root, "/proc/self/cgroup") == 0 &&
	    text.text != NULL) {
		char *group = strstr(text.text, "0::/");

		if (group != NULL) {
			f->has_memory = true;
			group += strlen("0::");
			group[strcspn(group, "\n")] = '\0';
			if (strcmp(group, "/") == 0)
				*group = '\0';
			read_group(f, root, group);
		}
	}
}

void read_self(struct facts *f, const char *root, int64_t clock_offset_ns)
{
	read_clock(f, clock_offset_ns);
	read_limits(f);
	read_rcvbuf(f);
	read_capabilities(f, root);
	read_memory(f, root);
}
