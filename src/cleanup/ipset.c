/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/ipset - list names, read ports, destroy. Protocol 6, which all supported kernels have. */
#include "cleanup/parts.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "nl/attr.h"
#include "nl/dump.h"

#define CMD(name) (NFNL_SUBSYS_IPSET << 8 | IPSET_CMD_##name)
#define REQUEST_MAX 256
#define BUSY_WAIT_NS (10 * 1000 * 1000)
#define BUSY_TRIES 2000 /* of all sets: 20 s */

/* Names without "KUBE-" or "KUBE-6-"; the kernel's length limit cuts the longest ones. */
static const char *const endings[] = {
	"LOOP-BACK",
	"CLUSTER-IP",
	"EXTERNAL-IP",
	"EXTERNAL-IP-LOCAL",
	"LOAD-BALANCER",
	"LOAD-BALANCER-LOCAL",
	"LOAD-BALANCER-FW",
	"LOAD-BALANCER-SOURCE-IP",
	"LOAD-BALANCER-SOURCE-CIDR",
	"NODE-PORT-TCP",
	"NODE-PORT-LOCAL-TCP",
	"NODE-PORT-UDP",
	"NODE-PORT-LOCAL-UDP",
	"NODE-PORT-SCTP",
	"NODE-PORT-LOCAL-SCTP",
	"NODE-PORT-SCTP-HASH",
	"NODE-PORT-LOCAL-SCTP-HASH",
	"HEALTH-CHECK-NODE-PORT",
	"IPVS-IPS",
};

/* kube-router's. Version 2 has them also with "inet6:" in front; the last two are of version 1. */
static const char *const router_sets[] = { "kube-router-local-ips", "kube-router-svip",
					   "kube-router-svip-prt", "kube-router-service-ips",
					   "kube-router-ipvs-services" };

bool ipset_is_owned(enum proxy p, const char *name)
{
	if (p == PROXY_KUBE_ROUTER) {
		name += str_begins(name, "inet6:") ? strlen("inet6:") : 0;
		return array_has(router_sets, ARRAY_SIZE(router_sets), set,
				 strcmp(*set, name) == 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		for (int is_v6 = 0; is_v6 <= 1; is_v6++)
			if (strcmp(str_local(IPSET_MAXNAMELEN, "KUBE-%s%s", is_v6 ? "6-" : "",
					     endings[i]),
				   name) == 0)
				return true;
	return false;
}

static struct nlmsghdr *request(void *buf, uint16_t type, const char *name)
{
	struct nlmsghdr *h = nl_request_nfnl(buf, REQUEST_MAX, type, AF_INET);

	mnl_attr_put_u8(h, IPSET_ATTR_PROTOCOL, IPSET_PROTOCOL_MIN);
	if (name != NULL)
		mnl_attr_put_strz(h, IPSET_ATTR_SETNAME, name);
	return h;
}

/* --- node ports --- */

/* What becomes of the entries of a set. */
struct entries {
	struct ip_tuple any;       /* protocol not 0: add each port, of this address */
	VEC(struct ip_addr) addrs; /* hash:ip: add each address */
	struct node_ports *ports;  /* hash:ip,port: add the ports of `addrs` ... */
	uint16_t first, last;      /* ... in this range */
};

static bool entry_addr(struct ip_addr *ret, const struct nlattr *nest)
{
	return nl_attr_addr(ret, nl_attr_find(nest, IPSET_ATTR_IPADDR_IPV4), AF_INET) ||
	       nl_attr_addr(ret, nl_attr_find(nest, IPSET_ATTR_IPADDR_IPV6), AF_INET6);
}

static void entry_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[IPSET_ATTR_CMD_MAX + 1];
	struct entries *e = arg;

	nl_attr_table(tb, IPSET_ATTR_CMD_MAX, h, sizeof(struct nfgenmsg));
	nl_attr_for_each (data, tb[IPSET_ATTR_ADT]) {
		struct ip_tuple at = { 0 };
		const uint8_t *port = nl_attr_bytes(nl_attr_find(data, IPSET_ATTR_PORT), 2);
		const uint8_t *proto = nl_attr_bytes(nl_attr_find(data, IPSET_ATTR_PROTO), 1);

		if (port != NULL)
			at.port = (uint16_t)(port[0] << 8 | port[1]);
		if (e->any.proto != 0 && port != NULL) {
			e->any.port = at.port;
			*vec_push(&e->ports->at) = e->any;
		}
		if (e->any.proto != 0 || !entry_addr(&at.addr, nl_attr_find(data, IPSET_ATTR_IP)))
			continue;
		if (e->ports == NULL)
			*vec_push(&e->addrs) = at.addr;
		else if (proto != NULL && at.port >= e->first && at.port <= e->last &&
			 vec_has(&e->addrs, own, ip_addr_is_equal(own, &at.addr)))
			*vec_push(&e->ports->at) = (struct ip_tuple){ at.addr, at.port, *proto, 0 };
	}
}

/* 0 also if the set does not exist, or the kernel has no ipset. */
static int entries_read(struct entries *e, const char *prefix, const char *set, struct nl_sock *nl,
			struct err *err)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };
	struct nl_reader rd = { .message = entry_message, .arg = e };
	const char *name = str_local(IPSET_MAXNAMELEN, "%s%s", prefix, set);
	int r = nl_dump(nl, request(buf, CMD(LIST), name), &rd, err);

	return r == -EINVAL || r == -ENOENT ? 0 : r;
}

static int router_node_ports(struct node_ports *ret, struct nl_sock *nl, struct err *err)
{
	static const char *const prefixes[] = { "", "inet6:" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(prefixes); i++) {
		struct entries e = { 0 };

		r = entries_read(&e, prefixes[i], "kube-router-local-ips", nl, err);
		e.ports = ret;
		e.first = 1;
		e.last = UINT16_MAX;
		if (r == 0)
			r = entries_read(&e, prefixes[i], "kube-router-svip-prt", nl, err);
		e.first = 30000;
		e.last = 32767;
		if (r == 0) /* of version 1 */
			r = entries_read(&e, prefixes[i], "kube-router-ipvs-services", nl, err);
		vec_fini(&e.addrs);
	}
	return r;
}

static int kube_proxy_node_ports(struct node_ports *ret, struct nl_sock *nl, struct err *err)
{
	static const struct {
		const char *ending;
		uint8_t proto;
	} sets[] = {
		{ "TCP", IPPROTO_TCP },
		{ "UDP", IPPROTO_UDP },
		{ "SCTP-HASH", IPPROTO_SCTP },
	};
	int r = 0;

	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sets); i++) {
			struct entries e = { .any = { .addr.family = ip_family(fam),
						      .proto = sets[i].proto },
					     .ports = ret };

			r = entries_read(&e,
					 fam == IPFAM_V6 ? "KUBE-6-NODE-PORT-" : "KUBE-NODE-PORT-",
					 sets[i].ending, nl, err);
		}
	return r;
}

int ipset_node_ports(struct node_ports *ret, enum proxy p, struct nl_sock *nl, struct err *err)
{
	int r = p == PROXY_KUBE_ROUTER ? router_node_ports(ret, nl, err)
				       : kube_proxy_node_ports(ret, nl, err);

	vec_sort(&ret->at, ip_tuple_cmp);
	return r;
}

bool node_ports_has(const struct node_ports *p, const struct ip_tuple *at)
{
	const struct ip_tuple any = { { .family = at->addr.family }, at->port, at->proto, 0 };

	return vec_search(&p->at, at, ip_tuple_cmp) != NULL ||
	       vec_search(&p->at, &any, ip_tuple_cmp) != NULL;
}

/* --- destruction --- */

struct names {
	enum proxy proxy;
	VEC(char *) v;
};

static void names_begin(void *arg)
{
	struct names *n = arg;

	vec_free_all(&n->v);
}

static void name_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[IPSET_ATTR_CMD_MAX + 1];
	struct names *n = arg;
	const char *name;

	nl_attr_table(tb, IPSET_ATTR_CMD_MAX, h, sizeof(struct nfgenmsg));
	name = nl_attr_str(tb[IPSET_ATTR_SETNAME]);
	if (ipset_is_owned(n->proxy, name))
		*vec_push(&n->v) = xstrdup(name);
}

static int names_read(struct names *ret, struct nl_sock *nl, struct err *err)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };
	struct nlmsghdr *h = request(buf, CMD(LIST), NULL);
	struct nl_reader rd = { .begin = names_begin, .message = name_message, .arg = ret };
	int r;

	mnl_attr_put_u32(h, IPSET_ATTR_FLAGS, htonl(IPSET_FLAG_LIST_SETNAME));
	r = nl_dump(nl, h, &rd, err);
	return r == -EINVAL ? 0 : r; /* the kernel has no ipset */
}

static int destroy_once(struct nl_sock *nl, const char *name, struct err *err)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };

	return nl_query(nl, request(buf, CMD(DESTROY), name), &(struct nl_reader){ 0 }, NULL, err);
}

/*
 * The kernel releases sets a moment after it has deleted the rules that use them, seconds on a busy
 * node: retry. `tries` are left for this set and the next ones.
 */
static int destroy(struct nl_sock *nl, const char *name, int *tries, struct err *err)
{
	const struct timespec wait = { .tv_nsec = BUSY_WAIT_NS };
	int r = destroy_once(nl, name, err);

	for (; r == -IPSET_ERR_BUSY && *tries > 0; --*tries) {
		(void)nanosleep(&wait, NULL);
		r = destroy_once(nl, name, err);
	}
	if (r == -IPSET_ERR_BUSY)
		return err_set(err, -EBUSY, "in use");
	return r == -ENOENT ? 0 : r;
}

int cleanup_ipsets(struct nl_sock *nl, struct cleanup *c, struct err *err)
{
	struct names names = { .proxy = c->proxy };
	int tries = BUSY_TRIES;
	size_t n = 0;
	int r = names_read(&names, nl, err);

	vec_for_each (name, &names.v) {
		struct err why = { 0 };

		if (r == 0 && destroy(nl, *name, &tries, &why) < 0)
			report_left(c, "ipset: left: %s: %s", *name, why.text);
		else if (r == 0)
			n++;
	}
	if (n > 0)
		report_removed(c, n, "ipset: removed %zu set%s", n, n == 1 ? "" : "s");
	vec_free_all(&names.v);
	return r;
}
