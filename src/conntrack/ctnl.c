/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/ctnl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

#include "nl/answer.h"
#include "nl/attr.h"
#include "nl/dump.h"

#define REQUEST_MAX 1024
/* Deletions sent as one datagram; the tuples that select an entry take 120 to 200 bytes. */
#define DELETE_BUF 65536
#define DELETE_MSG_MAX 512

/* Bits of CTA_FILTER_ORIG_FLAGS and _REPLY_FLAGS: not in the kernel's uapi headers. */
#define FILTER_IP_SRC (1 << 0)
#define FILTER_IP_DST (1 << 1)
#define FILTER_PROTO_NUM (1 << 3)
#define FILTER_SRC_PORT (1 << 4)
#define FILTER_DST_PORT (1 << 5)

#define TYPE(msg) ((uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | (msg)))

struct ctnl {
	struct nl_sock *query;
	struct nl_sock *del;
	/* Deletions not yet sent, and results of the sent ones. */
	uint8_t *buf;
	size_t len;
	uint64_t n_queued; /* in `buf` */
	uint64_t n_deleted;
	int error; /* the first */
};

void ctnl_open(struct ctnl **ret, struct nl_sock *query, struct nl_sock *del)
{
	struct ctnl *c = xcalloc(1, sizeof(*c));

	c->query = query;
	c->del = del;
	c->buf = xmalloc(DELETE_BUF);
	*ret = c;
}

int ctnl_connect(struct ctnl **ret, struct err *err)
{
	AUTO(nl_sock_close) struct nl_sock *query = NULL;
	AUTO(nl_sock_close) struct nl_sock *del = NULL;
	int r = nl_sock_open(&query, NETLINK_NETFILTER, err);

	if (r == 0)
		r = nl_sock_open(&del, NETLINK_NETFILTER, err);
	if (r == 0)
		ctnl_open(ret, TAKE(query), TAKE(del));
	return r;
}

void ctnl_close(struct ctnl *c)
{
	if (c == NULL)
		return;
	nl_sock_close(c->query);
	nl_sock_close(c->del);
	free(c->buf);
	free(c);
}

/* --- filters --- */

/* The side of a tuple: which address and port. */
enum side {
	SIDE_SRC,
	SIDE_DST,
};

static const struct {
	uint16_t v4;
	uint16_t v6;
	uint16_t port;
	uint32_t flags; /* of a filter */
} sides[] = {
	[SIDE_SRC] = { CTA_IP_V4_SRC, CTA_IP_V6_SRC, CTA_PROTO_SRC_PORT,
		       FILTER_IP_SRC | FILTER_SRC_PORT },
	[SIDE_DST] = { CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT,
		       FILTER_IP_DST | FILTER_DST_PORT },
};

/* Put a tuple; a side that is NULL is left out. Returns the filter flags of its fields. */
static uint32_t put_tuple(struct nlmsghdr *h, uint16_t type, const struct ip_endpoint *src,
			  const struct ip_endpoint *dst, uint8_t proto)
{
	const struct ip_endpoint *const at[] = { [SIDE_SRC] = src, [SIDE_DST] = dst };
	struct nlattr *tuple = mnl_attr_nest_start(h, type);
	struct nlattr *nest = mnl_attr_nest_start(h, CTA_TUPLE_IP);
	uint32_t flags = FILTER_PROTO_NUM;

	for (enum side i = SIDE_SRC; i <= SIDE_DST; i++) {
		enum ipfam fam;

		if (at[i] == NULL)
			continue;
		fam = ip_fam(&at[i]->addr);
		mnl_attr_put(h, fam == IPFAM_V6 ? sides[i].v6 : sides[i].v4, ip_len(fam),
			     at[i]->addr.bytes);
		flags |= sides[i].flags;
	}
	mnl_attr_nest_end(h, nest);
	nest = mnl_attr_nest_start(h, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(h, CTA_PROTO_NUM, proto);
	for (enum side i = SIDE_SRC; i <= SIDE_DST; i++)
		if (at[i] != NULL)
			mnl_attr_put_u16(h, sides[i].port, htons(at[i]->port));
	mnl_attr_nest_end(h, nest);
	mnl_attr_nest_end(h, tuple);
	return flags;
}

/*
 * Always with a tuple: a kernel without filters takes a deletion without tuple as
 * "delete everything". With an incomplete tuple it returns an error.
 */
static void put_filter(struct nlmsghdr *h, const struct ctnl_match *m)
{
	uint32_t orig = put_tuple(h, CTA_TUPLE_ORIG, m->from, m->to, m->proto);
	uint32_t reply = 0;
	struct nlattr *filter;

	if (m->by != NULL || m->back != NULL)
		reply = put_tuple(h, CTA_TUPLE_REPLY, m->by, m->back, m->proto);
	filter = mnl_attr_nest_start(h, CTA_FILTER);
	mnl_attr_put_u32(h, CTA_FILTER_ORIG_FLAGS, orig);
	if (reply != 0)
		mnl_attr_put_u32(h, CTA_FILTER_REPLY_FLAGS, reply);
	mnl_attr_nest_end(h, filter);
}

int ctnl_delete_matching(struct ctnl *c, const struct ctnl_match *m, struct err *err)
{
	static const struct nl_reader rd;
	uint8_t buf[REQUEST_MAX];
	struct nlmsghdr *h;
	int r;

	if (ip_fam(m->to != NULL ? &m->to->addr : &m->from->addr) != IPFAM_V4)
		return err_set(err, -EOPNOTSUPP, "the kernel cannot filter by IPv6 addresses");
	h = nl_request_nfnl(buf, sizeof(buf), TYPE(IPCTNL_MSG_CT_DELETE), AF_INET);
	put_filter(h, m);
	if (m->is_translated) {
		mnl_attr_put_u32(h, CTA_STATUS, htonl(IPS_DST_NAT));
		mnl_attr_put_u32(h, CTA_STATUS_MASK, htonl(IPS_DST_NAT));
	}
	if (m->is_default_zone)
		mnl_attr_put_u16(h, CTA_ZONE, 0);
	r = nl_query(c->query, h, &rd, NULL, err);
	return r == -EINVAL ? -EOPNOTSUPP : r;
}

/* --- dumping --- */

struct dump {
	uint8_t proto;
	void (*fn)(void *arg, const struct ctnl_entry *e);
	void *arg;
};

static bool read_side(struct ip_endpoint *ret, const struct nlattr *const *ip,
		      const struct nlattr *const *proto, enum side side)
{
	const uint16_t *port = nl_attr_bytes(proto[sides[side].port], sizeof(*port));

	if (port == NULL)
		return false;
	ret->port = ntohs(*port);
	return nl_attr_addr(&ret->addr, ip[sides[side].v4], AF_INET) ||
	       nl_attr_addr(&ret->addr, ip[sides[side].v6], AF_INET6);
}

static bool read_tuple(struct ip_endpoint *src, struct ip_endpoint *dst, uint8_t *proto,
		       const struct nlattr *const *tuple)
{
	const struct nlattr *ip[CTA_IP_MAX + 1];
	const struct nlattr *tb[CTA_PROTO_MAX + 1];
	const uint8_t *num;

	nl_attr_nest(ip, CTA_IP_MAX, tuple[CTA_TUPLE_IP]);
	nl_attr_nest(tb, CTA_PROTO_MAX, tuple[CTA_TUPLE_PROTO]);
	num = nl_attr_bytes(tb[CTA_PROTO_NUM], sizeof(*num));
	if (num == NULL)
		return false;
	*proto = *num;
	return read_side(src, ip, tb, SIDE_SRC) && read_side(dst, ip, tb, SIDE_DST);
}

/* Returns false for flows without ports (ICMP, unknown protocols). */
static bool read_entry(struct ctnl_entry *ret, const struct nlmsghdr *h)
{
	const struct nlattr *tb[CTA_MAX + 1];
	const struct nlattr *orig[CTA_TUPLE_MAX + 1];
	const struct nlattr *reply[CTA_TUPLE_MAX + 1];
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(h);
	uint8_t proto;

	if (h->nlmsg_len < MNL_NLMSG_HDRLEN + sizeof(*g))
		return false;
	*ret = (struct ctnl_entry){ 0 };
	nl_attr_table(tb, CTA_MAX, h, sizeof(*g));
	nl_attr_nest(orig, CTA_TUPLE_MAX, tb[CTA_TUPLE_ORIG]);
	nl_attr_nest(reply, CTA_TUPLE_MAX, tb[CTA_TUPLE_REPLY]);
	if (!read_tuple(&ret->flow.from, &ret->flow.to, &ret->flow.proto, orig) ||
	    !read_tuple(&ret->flow.by, &ret->flow.back, &proto, reply))
		return false;
	ret->family = g->nfgen_family;
	ret->tuple = tb[CTA_TUPLE_ORIG];
	ret->zone = tb[CTA_ZONE];
	ret->id = tb[CTA_ID];
	ret->status = nl_attr_be32(tb[CTA_STATUS], 0);
	ret->flow.is_unanswered = (ret->status & IPS_SEEN_REPLY) == 0;
	ret->flow.is_default_zone = ret->zone == NULL && orig[CTA_TUPLE_ZONE] == NULL;
	return true;
}

static void on_entry(void *arg, const struct nlmsghdr *h)
{
	const struct dump *d = arg;
	struct ctnl_entry e;

	if (read_entry(&e, h) && (d->proto == 0 || e.flow.proto == d->proto))
		d->fn(d->arg, &e);
}

int ctnl_dump(struct ctnl *c, uint8_t family, uint8_t proto,
	      void (*fn)(void *arg, const struct ctnl_entry *e), void *arg, struct err *err)
{
	struct dump d = { .proto = proto, .fn = fn, .arg = arg };
	struct nl_reader rd = { .message = on_entry, .arg = &d };
	uint8_t buf[REQUEST_MAX];
	struct nlmsghdr *h = nl_request_nfnl(buf, sizeof(buf), TYPE(IPCTNL_MSG_CT_GET), family);

	if (proto != 0)
		put_filter(h, &(struct ctnl_match){ .proto = proto });
	return nl_dump(c->query, h, &rd, err);
}

/* --- looking up --- */

/* Requests of one datagram: the kernel queues all answers, of some KiB each, before one is read. */
#define LOOKUPS_MAX ((size_t)32)

struct lookup {
	size_t first; /* the first of the requests under way */
	void (*fn)(void *arg, size_t i, const struct ctnl_entry *e);
	void *arg;
};

static int on_answer(void *arg, size_t i, const struct nlmsghdr *h, int error,
		     const struct nl_bad *bad)
{
	const struct lookup *l = arg;
	struct ctnl_entry e;

	if (h == NULL)
		return error == -ENOENT ? 0 : error;
	if (read_entry(&e, h))
		l->fn(l->arg, l->first + i, &e);
	return 0;
}

int ctnl_lookup(struct ctnl *c, const struct ip_flow *v, size_t n,
		void (*fn)(void *arg, size_t i, const struct ctnl_entry *e), void *arg,
		struct err *err)
{
	struct lookup l = { .fn = fn, .arg = arg };
	uint8_t buf[LOOKUPS_MAX * REQUEST_MAX / 8];
	int r = 0;

	for (; l.first < n && r == 0; l.first += LOOKUPS_MAX) {
		size_t m = MIN(n - l.first, LOOKUPS_MAX);
		size_t len = 0;

		for (size_t i = 0; i < m; i++) {
			const struct ip_flow *t = &v[l.first + i];
			struct nlmsghdr *h = nl_request_nfnl(buf + len, sizeof(buf) - len,
							     TYPE(IPCTNL_MSG_CT_GET),
							     ip_family(ip_fam(&t->from.addr)));

			(void)put_tuple(h, CTA_TUPLE_ORIG, &t->from, &t->to, (uint8_t)t->proto);
			len += MNL_ALIGN(h->nlmsg_len);
		}
		r = nl_query_each(c->query, buf, len, m, on_answer, &l, err);
	}
	return r;
}

/* --- deleting one by one --- */

/* The first error is returned, -EBUSY only without another one. */
static void note_error(struct ctnl *c, int error)
{
	if (c->error == 0 || c->error == -EBUSY)
		c->error = error;
}

static void verdict(void *arg, size_t i, int r, const struct nl_extack *x)
{
	struct ctnl *c = arg;

	c->n_deleted -= r < 0;
	if (r < 0 && r != -ENOENT)
		note_error(c, r);
}

/* The kernel acts inside send(); it answers only requests that it rejects. */
void ctnl_delete_now(struct ctnl *c)
{
	int r;

	if (c->len == 0)
		return;
	r = nl_sock_send(c->del, c->buf, c->len);
	c->len = 0;
	if (r < 0) {
		note_error(c, r);
		c->n_queued = 0;
		return;
	}
	c->n_deleted += c->n_queued;
	c->n_queued = 0;
	r = nl_verdicts_read(c->del, 0, SIZE_MAX, verdict, c); /* all are of deletions */
	if (r < 0) /* an answer was lost; it may have been an error */
		note_error(c, r);
}

static void put_copy(struct nlmsghdr *h, const struct nlattr *a, uint16_t flags)
{
	if (a != NULL)
		mnl_attr_put(h, (uint16_t)(mnl_attr_get_type(a) | flags),
			     mnl_attr_get_payload_len(a), mnl_attr_get_payload(a));
}

void ctnl_delete(struct ctnl *c, const struct ctnl_entry *e)
{
	struct nlmsghdr *h;

	if (mnl_attr_get_payload_len(e->tuple) > DELETE_MSG_MAX / 2)
		return; /* no tuple is as long */
	if (DELETE_BUF - c->len < DELETE_MSG_MAX)
		ctnl_delete_now(c);
	h = nl_request_nfnl(c->buf + c->len, DELETE_BUF - c->len, TYPE(IPCTNL_MSG_CT_DELETE),
			    e->family);
	h->nlmsg_seq = nl_sock_seq(c->del, 1);
	put_copy(h, e->tuple, NLA_F_NESTED);
	put_copy(h, e->zone, 0);
	put_copy(h, e->id, 0);
	c->len += MNL_ALIGN(h->nlmsg_len);
	c->n_queued++;
}

void ctnl_delete_drop(struct ctnl *c)
{
	c->len = 0;
	c->n_queued = 0;
}

int ctnl_delete_flush(struct ctnl *c, uint64_t *n_deleted, struct err *err)
{
	int r;

	ctnl_delete_now(c);
	*n_deleted = c->n_deleted;
	r = c->error;
	c->n_deleted = 0;
	c->error = 0;
	return r < 0 ? err_set(err, r, "delete tracked flows: %s", strerror(-r)) : 0;
}
