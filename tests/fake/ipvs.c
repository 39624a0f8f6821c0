/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake/ipvs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/vec.h"
#include "nl/attr.h"

#define FAMILY 0x21
#define MSG_MAX 512
#define MH_SLOTS 4093

struct dest {
	struct ip_addr addr;
	uint16_t port;
	uint32_t fwd;
	uint8_t tun_type; /* IP_VS_CONN_F_TUNNEL_TYPE_* */
	uint16_t tun_port;
	uint16_t tun_flags;
	uint32_t weight;
	uint32_t u_thresh;
	uint32_t l_thresh;
	uint32_t active;
	uint32_t inactive;
};

struct virtual
{
	struct ipvs_key key;
	char sched[IPVS_SCHED_MAX];
	uint32_t flags;
	uint32_t timeout_s;
	VEC(struct dest) dests; /* the kernel's list begins with the last */
};

/* A rule or a route, as the bytes it came with. */
struct routing {
	int family;
	uint32_t number; /* priority, or table */
	uint32_t table;  /* of a rule */
	uint8_t protocol;
	size_t len;
	uint8_t bytes[MSG_MAX];
};

struct fake_ipvs {
	VEC(struct virtual *) services;
	VEC(struct routing) rules;
	VEC(struct routing) routes;
	struct ipvs_timeouts timeouts;
	size_t n_writes;
	size_t n_dumps;
	size_t n_received;
	size_t n_searched;
	size_t n_filled;
	size_t n_lacked;
	size_t n_waits;
	void (*deleting)(void *arg);
	void *deleting_arg;
	void (*adding)(void *arg, const struct ip_addr *addr);
	void *adding_arg;
	size_t refuse_k;
	int refuse_error;
	int dump_error;
	size_t n_missed;
	bool has_cut;
	bool is_cut;
	size_t n_left;
	char lacked[IPVS_SCHED_MAX];
	bool lacks_v6;
	size_t mh_slots;
	uint16_t family;
	bool is_unloaded;
};

struct datagram {
	struct list link;
	size_t len;
	uint8_t bytes[];
};

struct connection {
	struct fake_ipvs *f;
	struct list queue;
	void (*handle)(struct connection *c, const struct nlmsghdr *h);
};

/* --- answers --- */

static void queue_put(struct connection *c, const struct nlmsghdr *h)
{
	struct datagram *d = xmalloc(sizeof(*d) + h->nlmsg_len);

	d->len = h->nlmsg_len;
	memcpy(d->bytes, h, h->nlmsg_len);
	list_add_tail(&c->queue, &d->link);
}

static struct nlmsghdr *answer(void *buf, const struct nlmsghdr *to, uint16_t type)
{
	struct nlmsghdr *h;

	memset(buf, 0, MSG_MAX);
	h = mnl_nlmsg_put_header(buf);
	h->nlmsg_type = type;
	h->nlmsg_seq = to->nlmsg_seq;
	return h;
}

static void verdict(struct connection *c, const struct nlmsghdr *to, int error)
{
	_Alignas(8) char buf[MSG_MAX];
	struct nlmsghdr *h = answer(buf, to, NLMSG_ERROR);
	struct nlmsgerr *e = mnl_nlmsg_put_extra_header(h, sizeof(*e));

	e->error = -error;
	e->msg = *to;
	h->nlmsg_flags = NLM_F_CAPPED;
	if (error != 0 || to->nlmsg_flags & NLM_F_ACK)
		queue_put(c, h);
}

static void done(struct connection *c, const struct nlmsghdr *to)
{
	_Alignas(8) char buf[MSG_MAX];
	struct nlmsghdr *h = answer(buf, to, NLMSG_DONE);
	int *code = mnl_nlmsg_put_extra_header(h, sizeof(*code));

	*code = 0;
	queue_put(c, h);
}

static struct nlmsghdr *genl_answer(void *buf, const struct nlmsghdr *to, uint8_t cmd)
{
	struct nlmsghdr *h = answer(buf, to, to->nlmsg_type);
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->cmd = cmd;
	g->version = 1;
	return h;
}

/* --- services --- */

static uint32_t u32(const struct nlattr *a)
{
	const void *p = nl_attr_bytes(a, 4);
	uint32_t v = 0;

	if (p != NULL)
		memcpy(&v, p, 4);
	return v;
}

static uint16_t u16(const struct nlattr *a)
{
	const void *p = nl_attr_bytes(a, 2);
	uint16_t v = 0;

	if (p != NULL)
		memcpy(&v, p, 2);
	return v;
}

static uint16_t af(uint8_t fam)
{
	return fam == IPFAM_V6 ? AF_INET6 : AF_INET;
}

static struct ipvs_key key_read(const struct nlattr *const *tb)
{
	struct ipvs_key k;

	memset(&k, 0, sizeof(k));
	k.fam = u16(tb[IPVS_SVC_ATTR_AF]) == AF_INET6 ? IPFAM_V6 : IPFAM_V4;
	k.mark = u32(tb[IPVS_SVC_ATTR_FWMARK]);
	if (k.mark != 0)
		return k;
	k.proto = (uint8_t)u16(tb[IPVS_SVC_ATTR_PROTOCOL]);
	k.port = ntohs(u16(tb[IPVS_SVC_ATTR_PORT]));
	k.addr = ip_addr_from_bytes((uint8_t)af(k.fam), nl_attr_bytes(tb[IPVS_SVC_ATTR_ADDR], 16));
	return k;
}

static struct virtual *service_find(const struct fake_ipvs *f, const struct ipvs_key *key)
{
	vec_for_each (s, &f->services)
		if (memcmp(&(*s)->key, key, sizeof(*key)) == 0)
			return *s;
	return NULL;
}

static struct dest *dest_find(struct fake_ipvs *f, struct virtual *s, const struct ip_addr *addr,
			      uint16_t port)
{
	/* The last bytes of the addresses differ most; a call of memcmp() is slow with sanitizers.
	 */
	for (size_t i = s->dests.n; i-- > 0;) {
		struct dest *d = &s->dests.v[i];

		f->n_searched++;
		if (d->addr.bytes[3] == addr->bytes[3] && d->addr.bytes[15] == addr->bytes[15] &&
		    d->port == port && ip_addr_is_equal(&d->addr, addr))
			return d;
	}
	return NULL;
}

/* The others keep their order. */
static void dest_del(struct virtual *s, const struct dest *d)
{
	size_t i = (size_t)(d - s->dests.v);

	memmove(&s->dests.v[i], &s->dests.v[i + 1], (--s->dests.n - i) * sizeof(*d));
}

static void service_put(struct connection *c, const struct nlmsghdr *to, const struct virtual *s)
{
	_Alignas(8) char buf[MSG_MAX];
	struct nlmsghdr *h = genl_answer(buf, to, IPVS_CMD_NEW_SERVICE);
	struct nlattr *nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_SERVICE);
	struct ip_vs_flags flags = { s->flags | IP_VS_SVC_F_HASHED, ~UINT32_C(0) };

	mnl_attr_put_u16(h, IPVS_SVC_ATTR_AF, af(s->key.fam));
	if (s->key.mark != 0) {
		mnl_attr_put_u32(h, IPVS_SVC_ATTR_FWMARK, s->key.mark);
	} else {
		mnl_attr_put_u16(h, IPVS_SVC_ATTR_PROTOCOL, s->key.proto);
		mnl_attr_put(h, IPVS_SVC_ATTR_ADDR, 16, s->key.addr.bytes);
		mnl_attr_put_u16(h, IPVS_SVC_ATTR_PORT, htons(s->key.port));
	}
	mnl_attr_put_strz(h, IPVS_SVC_ATTR_SCHED_NAME, s->sched);
	mnl_attr_put(h, IPVS_SVC_ATTR_FLAGS, sizeof(flags), &flags);
	mnl_attr_put_u32(h, IPVS_SVC_ATTR_TIMEOUT, s->timeout_s);
	mnl_attr_nest_end(h, nest);
	queue_put(c, h);
}

static void dest_put(struct connection *c, const struct nlmsghdr *to, const struct virtual *s,
		     const struct dest *d)
{
	_Alignas(8) char buf[MSG_MAX];
	struct nlmsghdr *h = genl_answer(buf, to, IPVS_CMD_NEW_DEST);
	struct nlattr *nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_DEST);

	mnl_attr_put(h, IPVS_DEST_ATTR_ADDR, 16, d->addr.bytes);
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_ADDR_FAMILY, af(s->key.fam));
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_PORT, htons(d->port));
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_FWD_METHOD, d->fwd);
	mnl_attr_put_u8(h, IPVS_DEST_ATTR_TUN_TYPE, d->tun_type);
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_TUN_PORT, htons(d->tun_port));
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_TUN_FLAGS, d->tun_flags);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_WEIGHT, d->weight);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_U_THRESH, d->u_thresh);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_L_THRESH, d->l_thresh);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_ACTIVE_CONNS, d->active);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_INACT_CONNS, d->inactive);
	mnl_attr_nest_end(h, nest);
	queue_put(c, h);
}

static int service_set(struct fake_ipvs *f, struct virtual *s, const struct nlattr *const *tb)
{
	const char *sched = nl_attr_str(tb[IPVS_SVC_ATTR_SCHED_NAME]);
	const void *flags = nl_attr_bytes(tb[IPVS_SVC_ATTR_FLAGS], sizeof(struct ip_vs_flags));

	if (*sched == '\0' || flags == NULL || tb[IPVS_SVC_ATTR_TIMEOUT] == NULL ||
	    tb[IPVS_SVC_ATTR_NETMASK] == NULL)
		return EINVAL;
	if (strcmp(sched, f->lacked) == 0) {
		f->n_lacked++;
		return ENOENT;
	}
	f->n_waits += s->sched[0] != '\0' && strcmp(s->sched, sched) != 0;
	if (strcmp(sched, "mh") == 0 && strcmp(s->sched, sched) != 0 && s->dests.n > f->mh_slots) {
		s->sched[0] = '\0'; /* the kernel unbinds the old one first */
		return EINVAL;
	}
	(void)snprintf(s->sched, sizeof(s->sched), "%s", sched);
	memcpy(&s->flags, flags, sizeof(s->flags));
	s->timeout_s = u32(tb[IPVS_SVC_ATTR_TIMEOUT]);
	return 0;
}

static void service_free(struct virtual *s)
{
	vec_fini(&s->dests);
	free(s);
}

static int service_new(struct fake_ipvs *f, const struct nlattr *const *tb)
{
	struct virtual *s = xcalloc(1, sizeof(*s));
	int r = service_set(f, s, tb);

	s->key = key_read(tb);
	if (r != 0) {
		service_free(s);
		return r;
	}
	*vec_push(&f->services) = s;
	return 0;
}

static void service_del(struct fake_ipvs *f, struct virtual *s)
{
	for (size_t i = 0; i < f->services.n; i++)
		if (f->services.v[i] == s) {
			f->services.v[i] = f->services.v[--f->services.n];
			break;
		}
	service_free(s);
}

static int dest_change(struct fake_ipvs *f, struct virtual *s, uint8_t cmd,
		       const struct nlattr *const *tb)
{
	struct ip_addr addr = ip_addr_from_bytes((uint8_t)af(s->key.fam),
						 nl_attr_bytes(tb[IPVS_DEST_ATTR_ADDR], 16));
	uint16_t port = ntohs(u16(tb[IPVS_DEST_ATTR_PORT]));
	struct dest *d = dest_find(f, s, &addr, port);
	const uint8_t *tun_type;

	f->n_filled += strcmp(s->sched, "mh") == 0;
	if (cmd == IPVS_CMD_NEW_DEST && d != NULL)
		return EEXIST;
	if (cmd != IPVS_CMD_NEW_DEST && d == NULL)
		return ENOENT;
	if (cmd == IPVS_CMD_DEL_DEST) {
		dest_del(s, d);
		return 0;
	}
	if (tb[IPVS_DEST_ATTR_WEIGHT] == NULL || tb[IPVS_DEST_ATTR_U_THRESH] == NULL ||
	    tb[IPVS_DEST_ATTR_L_THRESH] == NULL || tb[IPVS_DEST_ATTR_FWD_METHOD] == NULL)
		return EINVAL;
	if (u32(tb[IPVS_DEST_ATTR_L_THRESH]) > u32(tb[IPVS_DEST_ATTR_U_THRESH]))
		return ERANGE;
	if (u32(tb[IPVS_DEST_ATTR_U_THRESH]) > INT32_MAX)
		return EINVAL;
	tun_type = nl_attr_bytes(tb[IPVS_DEST_ATTR_TUN_TYPE], 1);
	if (tun_type != NULL && *tun_type == IP_VS_CONN_F_TUNNEL_TYPE_GUE &&
	    u16(tb[IPVS_DEST_ATTR_TUN_PORT]) == 0)
		return EINVAL;
	if (d == NULL) {
		if (f->adding != NULL)
			f->adding(f->adding_arg, &addr);
		d = vec_push(&s->dests);
		*d = (struct dest){ .addr = addr, .port = port };
	}
	d->tun_type = tun_type != NULL ? *tun_type : IP_VS_CONN_F_TUNNEL_TYPE_IPIP;
	d->tun_port = ntohs(u16(tb[IPVS_DEST_ATTR_TUN_PORT]));
	d->tun_flags = u16(tb[IPVS_DEST_ATTR_TUN_FLAGS]);
	d->fwd = u32(tb[IPVS_DEST_ATTR_FWD_METHOD]);
	d->weight = u32(tb[IPVS_DEST_ATTR_WEIGHT]);
	d->u_thresh = u32(tb[IPVS_DEST_ATTR_U_THRESH]);
	d->l_thresh = u32(tb[IPVS_DEST_ATTR_L_THRESH]);
	return 0;
}

static int change(struct fake_ipvs *f, uint8_t cmd, const struct nlattr *const *top)
{
	const struct nlattr *svc[IPVS_SVC_ATTR_MAX + 1], *dst[IPVS_DEST_ATTR_MAX + 1];
	struct virtual *s;
	struct ipvs_key key;

	f->n_writes++;
	if (f->has_cut && f->n_left == 0) {
		f->is_cut = true;
		return EPERM;
	}
	f->n_left -= f->has_cut;
	if (f->refuse_k > 0 && --f->refuse_k == 0)
		return f->refuse_error;
	nl_attr_nest(svc, IPVS_SVC_ATTR_MAX, top[IPVS_CMD_ATTR_SERVICE]);
	nl_attr_nest(dst, IPVS_DEST_ATTR_MAX, top[IPVS_CMD_ATTR_DEST]);
	key = key_read(svc);
	s = service_find(f, &key);
	if (cmd == IPVS_CMD_NEW_SERVICE)
		return f->lacks_v6 && key.fam == IPFAM_V6 ? EAFNOSUPPORT
		       : s != NULL                        ? EEXIST
							  : service_new(f, svc);
	if (s == NULL)
		return ESRCH;
	switch (cmd) {
	case IPVS_CMD_SET_SERVICE:
		return service_set(f, s, svc);
	case IPVS_CMD_DEL_SERVICE:
		if (f->deleting != NULL)
			f->deleting(f->deleting_arg);
		service_del(f, s);
		return 0;
	default:
		return dest_change(f, s, cmd, dst);
	}
}

static void services_dump(struct connection *c, const struct nlmsghdr *h)
{
	size_t n = c->f->services.n - MIN(c->f->n_missed, c->f->services.n);

	c->f->n_missed = 0;
	for (size_t i = 0; i < n; i++)
		service_put(c, h, c->f->services.v[i]);
	done(c, h);
}

static void get(struct connection *c, const struct nlmsghdr *h, uint8_t cmd,
		const struct nlattr *const *top)
{
	const struct nlattr *svc[IPVS_SVC_ATTR_MAX + 1];
	bool is_dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	struct virtual *s;
	struct ipvs_key key;

	if (cmd == IPVS_CMD_GET_SERVICE && is_dump) {
		services_dump(c, h);
		return;
	}
	nl_attr_nest(svc, IPVS_SVC_ATTR_MAX, top[IPVS_CMD_ATTR_SERVICE]);
	key = key_read(svc);
	s = service_find(c->f, &key);
	if (cmd == IPVS_CMD_GET_SERVICE) {
		if (s != NULL)
			service_put(c, h, s);
		verdict(c, h, s != NULL ? 0 : ESRCH);
		return;
	}
	c->f->n_dumps++;
	if (c->f->dump_error != 0) {
		verdict(c, h, c->f->dump_error);
		return;
	}
	if (s != NULL)
		for (size_t i = s->dests.n; i-- > 0;)
			dest_put(c, h, s, &s->dests.v[i]);
	done(c, h);
}

static void config_put(struct connection *c, const struct nlmsghdr *to)
{
	_Alignas(8) char buf[MSG_MAX];
	struct nlmsghdr *h = genl_answer(buf, to, IPVS_CMD_SET_CONFIG);

	mnl_attr_put_u32(h, IPVS_CMD_ATTR_TIMEOUT_TCP, c->f->timeouts.tcp);
	mnl_attr_put_u32(h, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, c->f->timeouts.tcp_fin);
	mnl_attr_put_u32(h, IPVS_CMD_ATTR_TIMEOUT_UDP, c->f->timeouts.udp);
	queue_put(c, h);
}

static void config_set(struct fake_ipvs *f, const struct nlattr *const *top)
{
	f->n_writes++;
	if (top[IPVS_CMD_ATTR_TIMEOUT_TCP] != NULL)
		f->timeouts.tcp = u32(top[IPVS_CMD_ATTR_TIMEOUT_TCP]);
	if (top[IPVS_CMD_ATTR_TIMEOUT_TCP_FIN] != NULL)
		f->timeouts.tcp_fin = u32(top[IPVS_CMD_ATTR_TIMEOUT_TCP_FIN]);
	if (top[IPVS_CMD_ATTR_TIMEOUT_UDP] != NULL)
		f->timeouts.udp = u32(top[IPVS_CMD_ATTR_TIMEOUT_UDP]);
}

static void family_put(struct connection *c, const struct nlmsghdr *to)
{
	_Alignas(8) char buf[MSG_MAX];
	struct nlmsghdr *h = answer(buf, to, GENL_ID_CTRL);
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->cmd = CTRL_CMD_NEWFAMILY;
	mnl_attr_put_strz(h, CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
	mnl_attr_put_u16(h, CTRL_ATTR_FAMILY_ID, c->f->family);
	queue_put(c, h);
	verdict(c, to, 0);
}

static void genl_handle(struct connection *c, const struct nlmsghdr *h)
{
	const struct nlattr *top[IPVS_CMD_ATTR_MAX + 1];
	const struct genlmsghdr *g = mnl_nlmsg_get_payload(h);

	if (h->nlmsg_type == GENL_ID_CTRL && !c->f->is_unloaded) {
		family_put(c, h);
		return;
	}
	if (h->nlmsg_type != c->f->family || c->f->is_unloaded) {
		verdict(c, h, ENOENT);
		return;
	}
	nl_attr_table(top, IPVS_CMD_ATTR_MAX, h, sizeof(*g));
	switch (g->cmd) {
	case IPVS_CMD_GET_SERVICE:
	case IPVS_CMD_GET_DEST:
		get(c, h, g->cmd, top);
		return;
	case IPVS_CMD_GET_CONFIG:
		config_put(c, h);
		verdict(c, h, 0);
		return;
	case IPVS_CMD_SET_CONFIG:
		config_set(c->f, top);
		verdict(c, h, 0);
		return;
	default:
		verdict(c, h, change(c->f, g->cmd, top));
	}
}

/* --- policy routing --- */

static struct routing routing_read(const struct nlmsghdr *h)
{
	bool is_rule = h->nlmsg_type == RTM_NEWRULE || h->nlmsg_type == RTM_DELRULE;
	const struct nlattr *tb[64];
	const struct rtmsg *m = mnl_nlmsg_get_payload(h); /* both headers have this size */
	struct routing r = { .family = m->rtm_family };
	const uint8_t *protocol;

	nl_attr_table(tb, 63, h, sizeof(*m));
	protocol = nl_attr_bytes(tb[FRA_PROTOCOL], 1);
	r.number = is_rule ? u32(tb[FRA_PRIORITY]) : u32(tb[RTA_TABLE]);
	r.table = is_rule ? u32(tb[FRA_TABLE]) : 0;
	r.protocol = !is_rule ? m->rtm_protocol : protocol != NULL ? *protocol : 0;
	r.len = h->nlmsg_len - MNL_NLMSG_HDRLEN;
	memcpy(r.bytes, mnl_nlmsg_get_payload(h), MIN(r.len, sizeof(r.bytes)));
	return r;
}

static struct routing *routing_find(struct routing *v, size_t n, const struct routing *like)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].family == like->family && v[i].number == like->number &&
		    v[i].protocol == like->protocol && v[i].table == like->table)
			return &v[i];
	return NULL;
}

static void routing_dump(struct connection *c, const struct nlmsghdr *to, uint16_t type,
			 const struct routing *v, size_t n)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(to);

	for (size_t i = 0; i < n; i++) {
		_Alignas(8) char buf[MSG_MAX];
		struct nlmsghdr *h = answer(buf, to, type);

		if (v[i].family != m->rtm_family)
			continue;
		memcpy(mnl_nlmsg_put_extra_header(h, v[i].len), v[i].bytes, v[i].len);
		queue_put(c, h);
	}
	done(c, to);
}

static void route_handle(struct connection *c, const struct nlmsghdr *h)
{
	struct routing r = routing_read(h);
	struct routing *rule = routing_find(c->f->rules.v, c->f->rules.n, &r);
	struct routing *route = routing_find(c->f->routes.v, c->f->routes.n, &r);

	switch (h->nlmsg_type) {
	case RTM_GETRULE:
		routing_dump(c, h, RTM_NEWRULE, c->f->rules.v, c->f->rules.n);
		return;
	case RTM_GETROUTE:
		routing_dump(c, h, RTM_NEWROUTE, c->f->routes.v, c->f->routes.n);
		return;
	case RTM_NEWRULE:
		c->f->n_writes++;
		if (rule == NULL)
			*vec_push(&c->f->rules) = r;
		verdict(c, h, rule == NULL ? 0 : EEXIST);
		return;
	case RTM_DELRULE:
		c->f->n_writes++;
		if (rule != NULL)
			*rule = c->f->rules.v[--c->f->rules.n];
		verdict(c, h, rule != NULL ? 0 : ENOENT);
		return;
	case RTM_NEWROUTE:
		c->f->n_writes++;
		if (route == NULL)
			*vec_push(&c->f->routes) = r;
		verdict(c, h, route == NULL ? 0 : EEXIST);
		return;
	case RTM_DELROUTE:
		c->f->n_writes++;
		if (route != NULL)
			*route = c->f->routes.v[--c->f->routes.n];
		verdict(c, h, route != NULL ? 0 : ESRCH);
		return;
	default:
		verdict(c, h, EOPNOTSUPP);
	}
}

/* --- sockets --- */

static ssize_t io_send(void *ctx, const void *data, size_t len)
{
	struct connection *c = ctx;

	for (size_t at = 0; at + sizeof(struct nlmsghdr) <= len;) {
		const struct nlmsghdr *h = (const void *)((const char *)data + at);

		if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len - at)
			break;
		c->handle(c, h);
		at += MNL_ALIGN(h->nlmsg_len);
	}
	return (ssize_t)len;
}

static ssize_t io_recv(void *ctx, void *data, size_t size)
{
	struct connection *c = ctx;
	struct datagram *d;
	ssize_t n;

	if (list_is_empty(&c->queue))
		return -EAGAIN;
	d = list_entry(c->queue.next, struct datagram, link);
	n = d->len > size ? -EMSGSIZE : (ssize_t)d->len;
	if (n > 0)
		memcpy(data, d->bytes, d->len);
	list_del(&d->link);
	free(d);
	c->f->n_received++;
	return n;
}

static void io_close(void *ctx)
{
	struct connection *c = ctx;

	list_for_each_safe (l, tmp, &c->queue)
		free(list_entry(l, struct datagram, link));
	free(c);
}

static struct nl_sock *connect_with(struct fake_ipvs *f,
				    void (*handle)(struct connection *c, const struct nlmsghdr *h))
{
	struct connection *c = xcalloc(1, sizeof(*c));
	struct nl_sock *nl;

	c->f = f;
	c->handle = handle;
	list_init(&c->queue);
	nl_sock_open_io(
		&nl,
		&(struct nl_io){ .send = io_send, .recv = io_recv, .close = io_close, .ctx = c });
	return nl;
}

struct nl_sock *fake_ipvs_connect(struct fake_ipvs *f)
{
	return connect_with(f, genl_handle);
}

struct nl_sock *fake_ipvs_connect_route(struct fake_ipvs *f)
{
	return connect_with(f, route_handle);
}

void fake_ipvs_open(struct fake_ipvs **ret)
{
	struct fake_ipvs *f = xcalloc(1, sizeof(*f));

	f->timeouts = (struct ipvs_timeouts){ 900, 120, 300 };
	f->mh_slots = MH_SLOTS;
	f->family = FAMILY;
	*ret = f;
}

void fake_ipvs_reload(struct fake_ipvs *f)
{
	vec_for_each (s, &f->services)
		service_free(*s);
	vec_clear(&f->services);
	f->family++;
	f->is_unloaded = false;
}

void fake_ipvs_unload(struct fake_ipvs *f)
{
	f->is_unloaded = true;
}

void fake_ipvs_close(struct fake_ipvs *f)
{
	fake_ipvs_reload(f);
	vec_fini(&f->services);
	vec_fini(&f->rules);
	vec_fini(&f->routes);
	free(f);
}

size_t fake_ipvs_writes(const struct fake_ipvs *f)
{
	return f->n_writes;
}

void fake_ipvs_writes_reset(struct fake_ipvs *f)
{
	f->n_writes = f->n_dumps = f->n_received = f->n_searched = f->n_filled = 0;
	f->n_lacked = f->n_waits = 0;
}

size_t fake_ipvs_waits(const struct fake_ipvs *f)
{
	return f->n_waits;
}

size_t fake_ipvs_lacked(const struct fake_ipvs *f)
{
	return f->n_lacked;
}

size_t fake_ipvs_filled(const struct fake_ipvs *f)
{
	return f->n_filled;
}

size_t fake_ipvs_searched(const struct fake_ipvs *f)
{
	return f->n_searched;
}

void fake_ipvs_deleting(struct fake_ipvs *f, void (*fn)(void *arg), void *arg)
{
	f->deleting = fn;
	f->deleting_arg = arg;
}

void fake_ipvs_adding(struct fake_ipvs *f, void (*fn)(void *arg, const struct ip_addr *addr),
		      void *arg)
{
	f->adding = fn;
	f->adding_arg = arg;
}

size_t fake_ipvs_received(const struct fake_ipvs *f)
{
	return f->n_received;
}

size_t fake_ipvs_dumps(const struct fake_ipvs *f)
{
	return f->n_dumps;
}

void fake_ipvs_refuse_dumps(struct fake_ipvs *f, int error)
{
	f->dump_error = error;
}

void fake_ipvs_miss(struct fake_ipvs *f, size_t n)
{
	f->n_missed = n;
}

void fake_ipvs_refuse(struct fake_ipvs *f, size_t k, int error)
{
	f->refuse_k = k;
	f->refuse_error = error;
}

void fake_ipvs_lack_v6(struct fake_ipvs *f, bool on)
{
	f->lacks_v6 = on;
}

void fake_ipvs_cut(struct fake_ipvs *f, size_t k)
{
	f->has_cut = k != SIZE_MAX;
	f->is_cut = false;
	f->n_left = k;
}

bool fake_ipvs_is_cut(const struct fake_ipvs *f)
{
	return f->is_cut;
}

void fake_ipvs_lack(struct fake_ipvs *f, const char *sched)
{
	(void)snprintf(f->lacked, sizeof(f->lacked), "%s", sched);
}

void fake_ipvs_mh_slots(struct fake_ipvs *f, size_t n)
{
	f->mh_slots = n;
}

/* --- others --- */

static struct ip_addr addr_of(const char *text)
{
	struct ip_addr a = { 0 };

	if (ip_addr_parse(&a, text, NULL) < 0)
		abort();
	return a;
}

void fake_ipvs_conns(struct fake_ipvs *f, const char *addr, uint32_t active, uint32_t inactive)
{
	struct ip_addr a = addr_of(addr);

	vec_for_each (s, &f->services)
		vec_for_each (d, &(*s)->dests)
			if (ip_addr_is_equal(&d->addr, &a)) {
				d->active = active;
				d->inactive = inactive;
			}
}

void fake_ipvs_foreign(struct fake_ipvs *f, const struct ipvs_key *key, uint32_t flags,
		       const char *dest, uint16_t port)
{
	struct virtual *s = xcalloc(1, sizeof(*s));

	s->key = *key;
	s->flags = flags;
	(void)snprintf(s->sched, sizeof(s->sched), "wlc");
	*vec_push(&s->dests) = (struct dest){ .addr = addr_of(dest), .port = port, .weight = 1 };
	*vec_push(&f->services) = s;
}

void fake_ipvs_foreign_timeout(struct fake_ipvs *f, uint32_t tcp_s)
{
	f->timeouts.tcp = tcp_s;
}

uint32_t fake_ipvs_timeout(const struct fake_ipvs *f)
{
	return f->timeouts.tcp;
}

void fake_ipvs_foreign_flags(struct fake_ipvs *f, const struct ipvs_key *key, uint32_t flags)
{
	for (size_t i = 0; i < f->services.n; i++) {
		struct virtual *s = f->services.v[i];

		if (memcmp(&s->key, key, sizeof(*key)) != 0)
			continue;
		s->flags = flags;
		if (flags != 0)
			return;
		service_free(s);
		f->services.v[i] = f->services.v[--f->services.n];
		return;
	}
}

void fake_ipvs_foreign_del(struct fake_ipvs *f, const char *addr)
{
	struct ip_addr a = addr_of(addr);

	vec_for_each (s, &f->services)
		for (size_t i = 0; i < (*s)->dests.n; i++)
			if (ip_addr_is_equal(&(*s)->dests.v[i].addr, &a))
				dest_del(*s, &(*s)->dests.v[i--]);
}

void fake_ipvs_foreign_weight(struct fake_ipvs *f, const char *addr, uint32_t weight)
{
	struct ip_addr a = addr_of(addr);

	vec_for_each (s, &f->services)
		vec_for_each (d, &(*s)->dests)
			if (ip_addr_is_equal(&d->addr, &a))
				d->weight = weight;
}

void fake_ipvs_foreign_threshold(struct fake_ipvs *f, const char *addr, uint32_t lower)
{
	struct ip_addr a = addr_of(addr);

	vec_for_each (s, &f->services)
		vec_for_each (d, &(*s)->dests)
			if (ip_addr_is_equal(&d->addr, &a))
				d->l_thresh = lower;
}

void fake_ipvs_foreign_tunnel(struct fake_ipvs *f, uint8_t type, uint16_t port, uint16_t flags)
{
	vec_for_each (s, &f->services)
		vec_for_each (d, &(*s)->dests) {
			if (d->fwd != IP_VS_CONN_F_TUNNEL)
				continue;
			d->tun_type = type;
			d->tun_port = port;
			d->tun_flags = flags;
		}
}

static void foreign_rule_add(struct fake_ipvs *f, int family, uint32_t priority, uint32_t table,
			     uint32_t mark, uint32_t mask)
{
	_Alignas(8) char buf[MSG_MAX] = { 0 };
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct fib_rule_hdr *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	h->nlmsg_type = RTM_NEWRULE;
	m->family = (uint8_t)family;
	m->action = FR_ACT_TO_TBL;
	m->table = table < 256 ? (uint8_t)table : RT_TABLE_COMPAT;
	mnl_attr_put_u32(h, FRA_PRIORITY, priority);
	mnl_attr_put_u32(h, FRA_TABLE, table);
	if (mask != 0) {
		mnl_attr_put_u32(h, FRA_FWMARK, mark);
		mnl_attr_put_u32(h, FRA_FWMASK, mask);
	}
	*vec_push(&f->rules) = routing_read(h);
}

void fake_ipvs_foreign_rule(struct fake_ipvs *f, int family, uint32_t priority, uint32_t table)
{
	foreign_rule_add(f, family, priority, table, 0, 0);
}

void fake_ipvs_foreign_mark_rule(struct fake_ipvs *f, int family, uint32_t priority, uint32_t mark,
				 uint32_t mask)
{
	foreign_rule_add(f, family, priority, RT_TABLE_MAIN, mark, mask);
}

void fake_ipvs_rules_del(struct fake_ipvs *f, uint32_t priority)
{
	size_t kept = 0;

	vec_for_each (r, &f->rules)
		if (r->number != priority)
			f->rules.v[kept++] = *r;
	vec_cut(&f->rules, kept);
}

void fake_ipvs_rules_flush(struct fake_ipvs *f)
{
	vec_clear(&f->rules);
}

/* --- what it holds --- */

static int line_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void dests_print(const struct virtual *s, struct str *out)
{
	VEC(char *) words = { 0 };

	vec_for_each (d, &s->dests) {
		char ip[IP_ENDPOINT_TEXT_MAX];
		struct str word = { 0 };

		str_printf(&word, " %s=%u%s", ip_endpoint_text(&d->addr, d->port, ip), d->weight,
			   d->fwd == IP_VS_CONN_F_TUNNEL && d->tun_type == 0 ? "(tunnel)"
			   : d->fwd == IP_VS_CONN_F_DROUTE                   ? "(route)"
									     : "");
		if (d->fwd == IP_VS_CONN_F_TUNNEL && d->tun_type != 0)
			str_printf(&word, "(tunnel,%u:%u,%u)", d->tun_type, d->tun_port,
				   d->tun_flags);
		*vec_push(&words) = word.text;
	}
	if (words.n > 1)
		qsort(words.v, words.n, sizeof(words.v[0]), line_cmp);
	vec_for_each (w, &words) {
		str_puts(out, *w);
		free(*w);
	}
	vec_fini(&words);
}

void fake_ipvs_print(const struct fake_ipvs *f, struct str *out)
{
	VEC(char *) lines = { 0 };

	vec_for_each (s, &f->services) {
		char key[IPVS_KEY_TEXT_MAX];
		struct str line = { 0 };

		str_printf(&line, "%s %s", ipvs_key_text(&(*s)->key, key), (*s)->sched);
		if ((*s)->flags != 0)
			str_printf(&line, " flags 0x%x", (*s)->flags);
		if ((*s)->timeout_s != 0)
			str_printf(&line, " %us", (*s)->timeout_s);
		str_puts(&line, ":");
		dests_print(*s, &line);
		*vec_push(&lines) = line.text;
	}
	if (lines.n > 1)
		qsort(lines.v, lines.n, sizeof(lines.v[0]), line_cmp);
	vec_for_each (l, &lines) {
		str_printf(out, "%s\n", *l);
		free(*l);
	}
	vec_fini(&lines);
}

uint32_t fake_ipvs_threshold(const struct fake_ipvs *f, const char *addr)
{
	struct ip_addr a = addr_of(addr);

	vec_for_each (s, &f->services)
		vec_for_each (d, &(*s)->dests)
			if (ip_addr_is_equal(&d->addr, &a))
				return d->u_thresh;
	return 0;
}

size_t fake_ipvs_n_rules(const struct fake_ipvs *f)
{
	return f->rules.n;
}

size_t fake_ipvs_n_routes(const struct fake_ipvs *f)
{
	return f->routes.n;
}
