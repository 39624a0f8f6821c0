/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/ipvs - generic netlink: the family's number, services, their destinations. */
#include "cleanup/ipvs.h"

#include <arpa/inet.h> /* before the kernel's, or both define the same */
#include <endian.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <string.h>

#include "nl/attr.h"
#include "nl/dump.h"

#define REQUEST_MAX 256

struct service {
	uint16_t family;
	uint16_t proto;
	uint8_t addr[16];
	uint16_t port;   /* network order */
	uint32_t fwmark; /* not 0: the rest says nothing */
	uint64_t n_conns;
};

struct services {
	VEC(struct service) v;
};

static struct nlmsghdr *request(void *buf, uint16_t type, uint8_t cmd, uint8_t version)
{
	struct nlmsghdr *h = nl_request(buf, REQUEST_MAX, type);
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->cmd = cmd;
	g->version = version;
	return h;
}

/* Numbers of generic netlink are in host order. */
static uint32_t attr_u32(const struct nlattr *a)
{
	const void *p = nl_attr_bytes(a, sizeof(uint32_t));
	uint32_t v = 0;

	if (p != NULL)
		memcpy(&v, p, sizeof(v));
	return v;
}

static uint16_t attr_u16(const struct nlattr *a)
{
	const void *p = nl_attr_bytes(a, sizeof(uint16_t));
	uint16_t v = 0;

	if (p != NULL)
		memcpy(&v, p, sizeof(v));
	return v;
}

static int family_message(void *arg, const struct nlmsghdr *h, struct err *err)
{
	const struct nlattr *tb[CTRL_ATTR_MAX + 1];
	uint16_t *id = arg;

	nl_attr_table(tb, CTRL_ATTR_MAX, h, sizeof(struct genlmsghdr));
	*id = attr_u16(tb[CTRL_ATTR_FAMILY_ID]);
	return 0;
}

/* 0 in *ret: this kernel has no IPVS, or not now. */
static int family_find(uint16_t *ret, struct nl_sock *nl, struct err *err)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };
	struct nl_reader rd = { .message = family_message, .arg = ret };
	struct nlmsghdr *h = request(buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	int r;

	*ret = 0;
	mnl_attr_put_strz(h, CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
	r = nl_query(nl, h, &rd, NULL, err);
	return r == -ENOENT ? 0 : r;
}

/* --- services --- */

static void services_begin(void *arg)
{
	struct services *s = arg;

	vec_clear(&s->v);
}

static int service_message(void *arg, const struct nlmsghdr *h, struct err *err)
{
	const struct nlattr *tb[IPVS_CMD_ATTR_MAX + 1];
	const struct nlattr *at[IPVS_SVC_ATTR_MAX + 1];
	struct services *all = arg;
	struct service s = { 0 };
	const void *addr;

	nl_attr_table(tb, IPVS_CMD_ATTR_MAX, h, sizeof(struct genlmsghdr));
	nl_attr_nest(at, IPVS_SVC_ATTR_MAX, tb[IPVS_CMD_ATTR_SERVICE]);
	s.family = attr_u16(at[IPVS_SVC_ATTR_AF]);
	s.proto = attr_u16(at[IPVS_SVC_ATTR_PROTOCOL]);
	s.port = attr_u16(at[IPVS_SVC_ATTR_PORT]);
	s.fwmark = attr_u32(at[IPVS_SVC_ATTR_FWMARK]);
	addr = nl_attr_bytes(at[IPVS_SVC_ATTR_ADDR], sizeof(s.addr));
	if (addr != NULL)
		memcpy(s.addr, addr, s.family == AF_INET6 ? 16 : 4);
	if (s.fwmark == 0 && addr != NULL && (s.family == AF_INET || s.family == AF_INET6))
		*vec_push(&all->v) = s;
	return 0;
}

static int services_read(struct services *ret, struct nl_sock *nl, uint16_t id, struct err *err)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };
	struct nl_reader rd = { .begin = services_begin, .message = service_message, .arg = ret };

	return nl_dump(nl, request(buf, id, IPVS_CMD_GET_SERVICE, IPVS_GENL_VERSION), &rd, err);
}

static bool is_owned(const struct service *s, const struct ipvs_link *link,
		     const struct node_ports *ports)
{
	struct ip_addr addr = ip_addr_from_bytes((uint8_t)s->family, s->addr);

	return ipvs_link_has(link, &addr) ||
	       node_ports_has(ports, (uint8_t)s->family, (uint8_t)s->proto, be16toh(s->port));
}

static struct nlmsghdr *service_request(void *buf, uint16_t id, uint8_t cmd,
					const struct service *s)
{
	struct nlmsghdr *h = request(buf, id, cmd, IPVS_GENL_VERSION);
	struct nlattr *nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_SERVICE);

	mnl_attr_put_u16(h, IPVS_SVC_ATTR_AF, s->family);
	mnl_attr_put_u16(h, IPVS_SVC_ATTR_PROTOCOL, s->proto);
	mnl_attr_put(h, IPVS_SVC_ATTR_ADDR, sizeof(s->addr), s->addr);
	mnl_attr_put_u16(h, IPVS_SVC_ATTR_PORT, s->port);
	mnl_attr_nest_end(h, nest);
	return h;
}

/* --- connections --- */

static void destinations_begin(void *arg)
{
	*(uint64_t *)arg = 0;
}

/* Inactive ones are half closed, or UDP, which knows no other state. */
static int destination_message(void *arg, const struct nlmsghdr *h, struct err *err)
{
	const struct nlattr *tb[IPVS_CMD_ATTR_MAX + 1];
	const struct nlattr *at[IPVS_DEST_ATTR_MAX + 1];
	uint64_t *n = arg;

	nl_attr_table(tb, IPVS_CMD_ATTR_MAX, h, sizeof(struct genlmsghdr));
	nl_attr_nest(at, IPVS_DEST_ATTR_MAX, tb[IPVS_CMD_ATTR_DEST]);
	*n += attr_u32(at[IPVS_DEST_ATTR_ACTIVE_CONNS]);
	*n += attr_u32(at[IPVS_DEST_ATTR_INACT_CONNS]);
	return 0;
}

static int connections_count(struct service *s, struct nl_sock *nl, uint16_t id, struct err *err)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };
	struct nl_reader rd = { .begin = destinations_begin,
				.message = destination_message,
				.arg = &s->n_conns };

	return nl_dump(nl, service_request(buf, id, IPVS_CMD_GET_DEST, s), &rd, err);
}

/* --- deletion --- */

struct tally {
	size_t n_removed;
	size_t n_busy;
	size_t n_failed;
	uint64_t n_conns;
	struct err why; /* of the last that failed */
};

static int nothing_message(void *arg, const struct nlmsghdr *h, struct err *err)
{
	return 0;
}

/* One that is gone already (-ESRCH) is as good. */
static void service_end(struct service *s, struct nl_sock *nl, uint16_t id, bool is_forced,
			struct tally *t)
{
	_Alignas(8) char buf[REQUEST_MAX] = { 0 };
	struct nl_reader rd = { .message = nothing_message };
	int r = connections_count(s, nl, id, &t->why);

	if (r == 0 && s->n_conns > 0 && !is_forced) {
		t->n_busy++;
		t->n_conns += s->n_conns;
		return;
	}
	if (r == 0)
		r = nl_query(nl, service_request(buf, id, IPVS_CMD_DEL_SERVICE, s), &rd, NULL,
			     &t->why);
	if (r == 0 || r == -ESRCH)
		t->n_removed++;
	else
		t->n_failed++;
}

static void tell(const struct tally *t, struct report *report)
{
	if (t->n_removed > 0)
		report_removed(report, t->n_removed, "ipvs: removed %zu virtual service%s",
			       t->n_removed, t->n_removed == 1 ? "" : "s");
	if (t->n_busy > 0)
		report_left(report,
			    "ipvs: left: %zu virtual services that carry %llu connections: do this "
			    "again when they are over (--cleanup=kube-proxy,force ends them)",
			    t->n_busy, (unsigned long long)t->n_conns);
	if (t->n_failed > 0)
		report_left(report, "ipvs: left: %zu virtual services: %s", t->n_failed,
			    t->why.text);
}

int cleanup_ipvs(bool *ret, struct nl_sock *nl, const struct ipvs_link *link,
		 const struct node_ports *ports, struct report *report, struct err *err)
{
	struct services all = { 0 };
	struct tally tally = { 0 };
	uint16_t id;
	int r = family_find(&id, nl, err);

	if (r == 0 && id != 0)
		r = services_read(&all, nl, id, err);
	vec_for_each (s, &all.v)
		if (r == 0 && is_owned(s, link, ports))
			service_end(s, nl, id, report->is_forced, &tally);
	vec_fini(&all.v);
	if (r < 0)
		return r;
	tell(&tally, report);
	*ret = tally.n_busy + tally.n_failed == 0;
	return 0;
}
