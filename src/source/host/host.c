/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/host - dump the addresses, listen for changes, dump again.
 *
 * The content of a notification is not used; a filter in the kernel drops notifications that cannot
 * change the list.
 */
#include "source/host/host.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "nl/attr.h"
#include "nl/dump.h"

#define RETRY_NS NSEC_PER_SEC /* after a failed read */

/* In the order of the list */
enum device {
	DEVICE_OTHER = 0,
	DEVICE_SERVICES, /* all service addresses, of kube-proxy's mode ipvs or kube-router */
	DEVICE_DNS_CACHE,
};

struct host_addr {
	struct ip_addr addr;
	unsigned int ifindex;
	enum device device;
	uint8_t scope;  /* RT_SCOPE_* */
	bool is_source; /* source address of the default route */
};

struct host {
	struct model *model;
	void (*changed)(void *arg);
	void *arg;
	struct nl_sock *query;
	struct nl_sock *notify;
	struct event *readable;
	struct event *retry;
	VEC(struct host_addr) addrs; /* of the dump in progress */
};

static enum device device_of(unsigned int ifindex)
{
	char name[IF_NAMESIZE];

	if (if_indextoname(ifindex, name) == NULL)
		return DEVICE_OTHER;
	if (strcmp(name, "kube-ipvs0") == 0 || strcmp(name, "kube-dummy-if") == 0)
		return DEVICE_SERVICES;
	return strcmp(name, IP_DNS_CACHE_DEVICE) == 0 ? DEVICE_DNS_CACHE : DEVICE_OTHER;
}

static void dump_message(void *arg, const struct nlmsghdr *msg)
{
	const struct nlattr *tb[IFA_MAX + 1];
	struct host *h = arg;
	const struct ifaddrmsg *ifa;
	uint32_t flags;
	struct ip_addr a;

	if (msg->nlmsg_type != RTM_NEWADDR || msg->nlmsg_len < NLMSG_LENGTH(sizeof(*ifa)))
		return;
	ifa = mnl_nlmsg_get_payload(msg);
	if (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6)
		return;
	nl_attr_table(tb, IFA_MAX, msg, sizeof(*ifa));
	flags = nl_attr_u32(tb[IFA_FLAGS], ifa->ifa_flags);
	if (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) && !(flags & IFA_F_OPTIMISTIC))
		return;
	/* On point-to-point links IFA_ADDRESS is the peer; IFA_LOCAL is ours. */
	if (nl_attr_addr(&a, tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS], ifa->ifa_family) &&
	    !ip_addr_is_loopback(&a) &&
	    !(ifa->ifa_scope == RT_SCOPE_LINK && ip_addr_is_link_local(&a)))
		*vec_push(&h->addrs) = (struct host_addr){ .addr = a,
							   .ifindex = ifa->ifa_index,
							   .scope = ifa->ifa_scope };
}

/*
 * The source address that the kernel chooses for a distant destination: connect() on a datagram
 * socket looks up the route and sends nothing. The destination is a documentation prefix (RFC 5737,
 * RFC 3849). Unset without a route.
 */
static struct ip_addr source_towards_world(enum ipfam fam)
{
	static const struct ip_addr far[IPFAM_N] = {
		[IPFAM_V4] = { AF_INET, .bytes = { 192, 0, 2, 1 } },
		[IPFAM_V6] = { AF_INET6, .bytes = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } },
	};
	struct sockaddr_storage name;
	struct sockaddr *any = (struct sockaddr *)&name;
	socklen_t len = ip_sockaddr(&name, &far[fam], 9);
	AUTO(close) int fd = socket(ip_family(fam), SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, any, len) == -1 || getsockname(fd, any, &len) == -1)
		return (struct ip_addr){ 0 };
	return fam == IPFAM_V6
		       ? ip_addr_from_bytes(AF_INET6, &((struct sockaddr_in6 *)&name)->sin6_addr)
		       : ip_addr_from_bytes(AF_INET, &((struct sockaddr_in *)&name)->sin_addr);
}

static int addr_cmp(const void *a, const void *b)
{
	const struct host_addr *ha = a;
	const struct host_addr *hb = b;

	/* Scope universe is 0. */
	return CMP(ha->device, hb->device) ?: CMP(hb->is_source, ha->is_source) ?:
	       CMP(ha->scope, hb->scope) ?: CMP(ha->ifindex, hb->ifindex) ?:
	       ip_addr_cmp(&ha->addr, &hb->addr);
}

static int read_addrs(struct host *h, struct err *err)
{
	const struct nl_reader reader = { .message = dump_message,
					  .arg = h,
					  .n_results = &h->addrs.n };
	struct ip_addr source[IPFAM_N] = { source_towards_world(IPFAM_V4),
					   source_towards_world(IPFAM_V6) };
	AUTO(vec_fini) VEC(struct ip_addr) list = { 0 };
	size_t n_service = 0;
	size_t n_cache = 0;
	char buf[256];
	struct nlmsghdr *req = nl_request(buf, sizeof(buf), RTM_GETADDR);
	struct ifaddrmsg *ifa = mnl_nlmsg_put_extra_header(req, sizeof(*ifa));
	int r;

	ifa->ifa_family = AF_UNSPEC;
	r = nl_dump(h->query, req, &reader, err);
	if (r < 0)
		return err_wrap(err, r, "addresses of this host");
	vec_for_each (a, &h->addrs) {
		a->is_source = ip_addr_is_equal(&a->addr, &source[ip_fam(&a->addr)]);
		a->device = a > h->addrs.v && a->ifindex == a[-1].ifindex ? a[-1].device
									  : device_of(a->ifindex);
	}
	vec_sort(&h->addrs, addr_cmp);
	vec_for_each (a, &h->addrs) {
		*vec_push(&list) = a->addr;
		n_service += a->device != DEVICE_OTHER;
		n_cache += a->device == DEVICE_DNS_CACHE;
	}
	model_expect_host_addrs(h->model, list.v + list.n - n_cache, n_cache);
	return model_put_host_addrs(h->model, list.v, list.n, n_service, now_ns());
}

static void read_again(struct host *h)
{
	struct err err;
	int r = read_addrs(h, &err);

	if (r < 0) {
		log_err(LOG_AREA_SOURCE, "%s; previous addresses stay; next attempt in %d s",
			err.text, (int)(RETRY_NS / NSEC_PER_SEC));
		event_after(h->retry, RETRY_NS);
		return;
	}
	(void)event_del(h->retry);
	if (r > 0)
		h->changed(h->arg);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	read_again(arg);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct host *h = arg;
	char buf[4096]; /* a longer message returns -EMSGSIZE */
	ssize_t n;

	do
		n = nl_sock_recv(h->notify, buf, sizeof(buf));
	while (n >= 0 || n == -ENOBUFS || n == -EMSGSIZE);
	read_again(h);
}

/*
 * Accept notifications of routes only with prefix length 0. A notification is one message; classic
 * BPF loads are big-endian, hence htons(). The program reads nlmsghdr.nlmsg_type and
 * rtmsg.rtm_dst_len.
 */
static int filter_routes(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_type)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWROUTE), 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELROUTE), 0, 2),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS,
			 NLMSG_HDRLEN + offsetof(struct rtmsg, rtm_dst_len)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int open_sockets(struct host *h, struct event_base *base, struct err *err)
{
	static const unsigned int groups[] = { RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
					       RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE };
	int r = nl_sock_open(&h->query, NETLINK_ROUTE, err);

	if (r == 0)
		r = nl_sock_open(&h->notify, NETLINK_ROUTE, err);
	if (r == 0 && filter_routes(nl_sock_fd(h->notify)) == -1)
		r = err_errno(err, "filter of routes");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(groups); i++)
		r = nl_sock_join(h->notify, groups[i], err);
	if (r < 0)
		return err_wrap(err, r, "addresses of this host");
	h->readable = xevent_new(base, nl_sock_fd(h->notify), EV_READ | EV_PERSIST, on_readable, h);
	h->retry = xtimer_new(base, on_retry, h);
	if (event_add(h->readable, NULL) < 0)
		return err_set(err, -ENOMEM, "addresses of this host: event");
	return 0;
}

/* --- ports of clients --- */

/* Mark the ports of a file, as "32768 60999" or "8080,30000-32767"; returns whether it was read. */
static bool ports_read(struct model *m, const char *path, bool is_client)
{
	AUTO(fclose) FILE *f = fopen(path, "re");
	unsigned int first;
	unsigned int last;

	while (f != NULL && fscanf(f, " %5u", &first) == 1) {
		if (fscanf(f, is_client ? "%5u" : "-%5u", &last) != 1)
			last = first;
		for (unsigned int p = first; p <= last && p <= UINT16_MAX; p++)
			model_client_port_put(m, (uint16_t)p, is_client);
		if (fscanf(f, ",") == EOF)
			break;
	}
	return f != NULL;
}

int host_open(struct host **ret, struct event_base *base, struct model *m,
	      void (*changed)(void *arg), void *arg, struct err *err)
{
	AUTO(host_close) struct host *h = xcalloc(1, sizeof(*h));
	int r;

	h->model = m;
	h->changed = changed;
	h->arg = arg;
	/* Both sysctls are read once. */
	if (m->config.serves_localhost &&
	    ports_read(m, "/proc/sys/net/ipv4/ip_local_port_range", true))
		(void)ports_read(m, "/proc/sys/net/ipv4/ip_local_reserved_ports", false);
	r = open_sockets(h, base, err); /* subscribe before reading: no change is missed */
	if (r == 0)
		r = read_addrs(h, err);
	if (r < 0)
		return r;
	*ret = TAKE(h);
	return 0;
}

void host_close(struct host *h)
{
	if (h == NULL)
		return;
	event_drop(h->readable);
	event_drop(h->retry);
	nl_sock_close(h->notify);
	nl_sock_close(h->query);
	vec_fini(&h->addrs);
	free(h);
}
