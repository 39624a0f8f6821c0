/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/ipvs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nl/answer.h"
#include "nl/attr.h"
#include "nl/dump.h"

/* The largest message is a new service: about 140 bytes. */
#define MESSAGE_MAX 256
#define FWD_MASK UINT32_C(0x7) /* IP_VS_CONN_F_FWD_MASK */
/*
 * IPVS continues a dump of virtual services after as many as it has listed, counting those of all
 * network namespaces (ip_vs_genl_dump_services()). When another namespace ends meanwhile, as that
 * of vipd's doctor does, the dump lacks as many as that had. So it is repeated until the number is
 * the same twice.
 */
#define DUMPS_MAX 10

struct ipvs_wire {
	struct nl_sock *nl;
	uint16_t family;
	uint8_t *tx; /* a request, or IPVS_BATCH_MAX operations */
};

void ipvs_wire_open(struct ipvs_wire **ret, struct nl_sock *nl)
{
	struct ipvs_wire *w = xcalloc(1, sizeof(*w));

	w->nl = nl;
	w->tx = xcalloc(IPVS_BATCH_MAX, MESSAGE_MAX);
	*ret = w;
}

void ipvs_wire_close(struct ipvs_wire *w)
{
	if (w == NULL)
		return;
	nl_sock_close(w->nl);
	free(w->tx);
	free(w);
}

/* --- the family --- */

static struct nlmsghdr *request(const struct ipvs_wire *w, uint8_t *at, uint8_t cmd)
{
	struct nlmsghdr *h = nl_request(at, MESSAGE_MAX, w->family);
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->cmd = cmd;
	g->version = IPVS_GENL_VERSION;
	return h;
}

static void family_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[CTRL_ATTR_MAX + 1];
	uint16_t *id = arg;

	nl_attr_table(tb, CTRL_ATTR_MAX, h, sizeof(struct genlmsghdr));
	*id = nl_attr_u16(tb[CTRL_ATTR_FAMILY_ID], *id);
}

int ipvs_wire_resolve(struct ipvs_wire *w, struct err *err)
{
	struct nlmsghdr *h = nl_request(w->tx, MESSAGE_MAX, GENL_ID_CTRL);
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	uint16_t id = 0;
	int r;

	if (w->family != 0)
		return 0;
	g->cmd = CTRL_CMD_GETFAMILY;
	g->version = 1;
	mnl_attr_put_strz(h, CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
	r = nl_query(w->nl, h, &(struct nl_reader){ .message = family_message, .arg = &id }, NULL,
		     err);
	if (r == -ENOENT || (r == 0 && id == 0))
		return err_set(err, -EOPNOTSUPP,
			       "IPVS is not loaded: modprobe ip_vs, also at boot (modules-load.d)");
	if (r < 0)
		return err_wrap(err, r, "find IPVS");
	w->family = id;
	return 0;
}

int ipvs_wire_load(struct ipvs_wire *w, struct nl_sock *nfnl, struct err *err)
{
	int r = ipvs_wire_resolve(w, err);

	if (r == -EOPNOTSUPP) {
		struct nlmsghdr *h = nl_request_nfnl(
			w->tx, MESSAGE_MAX, NFNL_SUBSYS_NFT_COMPAT << 8 | NFNL_MSG_COMPAT_GET,
			NFPROTO_IPV4);

		mnl_attr_put_strz(h, NFTA_COMPAT_NAME, "ipvs");
		mnl_attr_put_u32(h, NFTA_COMPAT_REV, 0);
		mnl_attr_put_u32(h, NFTA_COMPAT_TYPE, 0); /* a match */
		(void)!nl_query(nfnl, h, &(struct nl_reader){ 0 }, NULL, NULL);
		r = ipvs_wire_resolve(w, err);
	}
	return r;
}

void ipvs_wire_forget(struct ipvs_wire *w)
{
	w->family = 0;
}

static int unloaded_err(struct err *err)
{
	return err_set(err, -EBUSY, "the module ip_vs was unloaded");
}

/* Has the family another number than the one of the messages? */
static bool is_unloaded(struct ipvs_wire *w)
{
	uint16_t family = w->family;
	struct err err;

	w->family = 0;
	if (ipvs_wire_resolve(w, &err) == 0)
		return w->family != family;
	w->family = family;
	return true;
}

/* --- reading --- */

static void service_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *top[IPVS_CMD_ATTR_MAX + 1], *tb[IPVS_SVC_ATTR_MAX + 1];
	struct ipvs_services *ret = arg;
	struct ipvs_service s = { 0 };
	uint8_t af;

	nl_attr_table(top, IPVS_CMD_ATTR_MAX, h, sizeof(struct genlmsghdr));
	nl_attr_nest(tb, IPVS_SVC_ATTR_MAX, top[IPVS_CMD_ATTR_SERVICE]);
	if (tb[IPVS_SVC_ATTR_AF] == NULL)
		return;
	af = (uint8_t)nl_attr_u16(tb[IPVS_SVC_ATTR_AF], 0);
	s.key.fam = af == AF_INET6 ? IPFAM_V6 : IPFAM_V4;
	s.key.mark = nl_attr_u32(tb[IPVS_SVC_ATTR_FWMARK], 0);
	if (s.key.mark == 0) {
		s.key.proto = (uint8_t)nl_attr_u16(tb[IPVS_SVC_ATTR_PROTOCOL], 0);
		s.key.port = ntohs(nl_attr_u16(tb[IPVS_SVC_ATTR_PORT], 0));
		(void)nl_attr_addr(&s.key.addr, tb[IPVS_SVC_ATTR_ADDR], af);
	}
	(void)snprintf(s.sched, sizeof(s.sched), "%s", nl_attr_str(tb[IPVS_SVC_ATTR_SCHED_NAME]));
	s.flags = nl_attr_u32(tb[IPVS_SVC_ATTR_FLAGS], 0); /* first member of struct ip_vs_flags */
	s.timeout_s = nl_attr_u32(tb[IPVS_SVC_ATTR_TIMEOUT], 0);
	*vec_push(&ret->v) = s;
}

int ipvs_wire_services(struct ipvs_wire *w, struct ipvs_services *ret, struct err *err)
{
	struct nl_reader reader = { .message = service_message,
				    .arg = ret,
				    .n_results = &ret->v.n };
	size_t n_before;
	int n = 0;
	int r;

	vec_clear(&ret->v);
	do {
		n_before = ret->v.n;
		r = nl_dump(w->nl, request(w, w->tx, IPVS_CMD_GET_SERVICE), &reader, err);
	} while (r == 0 && ret->v.n != n_before && ++n < DUMPS_MAX);
	if (r == -ENOENT)
		return unloaded_err(err);
	return r < 0 ? err_wrap(err, r, "list virtual services") : 0;
}

/* Destinations of one virtual service. */
struct reading {
	struct ipvs_dests *ret;
	uint8_t af; /* of the service */
};

static uint32_t fwd_read(const struct nlattr *const *tb)
{
	uint32_t fwd = nl_attr_u32(tb[IPVS_DEST_ATTR_FWD_METHOD], 0) & FWD_MASK;
	const uint8_t *type = nl_attr_bytes(tb[IPVS_DEST_ATTR_TUN_TYPE], sizeof(*type));

	if (fwd != IP_VS_CONN_F_TUNNEL || type == NULL || *type == IP_VS_CONN_F_TUNNEL_TYPE_IPIP)
		return fwd;
	if (*type != IP_VS_CONN_F_TUNNEL_TYPE_GUE ||
	    nl_attr_u16(tb[IPVS_DEST_ATTR_TUN_FLAGS], 0) != IP_VS_TUNNEL_ENCAP_FLAG_NOCSUM)
		return fwd | IPVS_FWD_OTHER;
	return fwd | (uint32_t)ntohs(nl_attr_u16(tb[IPVS_DEST_ATTR_TUN_PORT], 0)) << 16;
}

static void dest_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *top[IPVS_CMD_ATTR_MAX + 1], *tb[IPVS_DEST_ATTR_MAX + 1];
	const struct reading *rd = arg;
	struct ipvs_dest d = { 0 };
	uint8_t af;

	nl_attr_table(top, IPVS_CMD_ATTR_MAX, h, sizeof(struct genlmsghdr));
	nl_attr_nest(tb, IPVS_DEST_ATTR_MAX, top[IPVS_CMD_ATTR_DEST]);
	if (tb[IPVS_DEST_ATTR_ADDR] == NULL)
		return;
	af = tb[IPVS_DEST_ATTR_ADDR_FAMILY] != NULL
		     ? (uint8_t)nl_attr_u16(tb[IPVS_DEST_ATTR_ADDR_FAMILY], 0)
		     : rd->af;
	(void)nl_attr_addr(&d.addr, tb[IPVS_DEST_ATTR_ADDR], af); /* of 16 bytes */
	d.port = ntohs(nl_attr_u16(tb[IPVS_DEST_ATTR_PORT], 0));
	d.fwd = fwd_read(tb);
	d.weight = nl_attr_u32(tb[IPVS_DEST_ATTR_WEIGHT], 0);
	d.u_thresh = nl_attr_u32(tb[IPVS_DEST_ATTR_U_THRESH], 0);
	d.l_thresh = nl_attr_u32(tb[IPVS_DEST_ATTR_L_THRESH], 0);
	d.active = nl_attr_u32(tb[IPVS_DEST_ATTR_ACTIVE_CONNS], 0);
	d.inactive = nl_attr_u32(tb[IPVS_DEST_ATTR_INACT_CONNS], 0);
	*vec_push(&rd->ret->v) = d;
}

static void put_addr(struct nlmsghdr *h, uint16_t type, const struct ip_addr *a)
{
	mnl_attr_put(h, type, sizeof(a->bytes), a->bytes);
}

static void put_key(struct nlmsghdr *h, const struct ipvs_key *k)
{
	mnl_attr_put_u16(h, IPVS_SVC_ATTR_AF, ip_family(k->fam));
	if (k->mark != 0) {
		mnl_attr_put_u32(h, IPVS_SVC_ATTR_FWMARK, k->mark);
		return;
	}
	mnl_attr_put_u16(h, IPVS_SVC_ATTR_PROTOCOL, k->proto);
	put_addr(h, IPVS_SVC_ATTR_ADDR, &k->addr);
	mnl_attr_put_u16(h, IPVS_SVC_ATTR_PORT, htons(k->port));
}

static struct nlmsghdr *key_request(const struct ipvs_wire *w, uint8_t cmd,
				    const struct ipvs_key *key)
{
	struct nlmsghdr *h = request(w, w->tx, cmd);
	struct nlattr *nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_SERVICE);

	put_key(h, key);
	mnl_attr_nest_end(h, nest);
	return h;
}

int ipvs_wire_service(struct ipvs_wire *w, const struct ipvs_key *key, struct ipvs_service *ret,
		      struct err *err)
{
	AUTO(vec_fini) struct ipvs_services found = { 0 };
	const struct nl_reader reader = { .message = service_message,
					  .arg = &found,
					  .n_results = &found.v.n };
	int r = nl_query(w->nl, key_request(w, IPVS_CMD_GET_SERVICE, key), &reader, NULL, err);

	if (r == -ENOENT)
		return unloaded_err(err);
	if (r < 0 || found.v.n == 0)
		return r < 0 ? r : -ESRCH;
	*ret = found.v.v[0];
	return 0;
}

static int dests_result(int r, const struct ipvs_key *key, struct err *err)
{
	if (r == -ENOENT)
		return unloaded_err(err);
	return r < 0 ? err_wrap(err, r, "list destinations of %s", ipvs_key_str(key)) : r;
}

int ipvs_wire_dests_begin(struct ipvs_wire *w, const struct ipvs_key *key, uint32_t *seq,
			  struct err *err)
{
	return dests_result(nl_dump_begin(w->nl, key_request(w, IPVS_CMD_GET_DEST, key), seq, err),
			    key, err);
}

int ipvs_wire_dests_next(struct ipvs_wire *w, const struct ipvs_key *key, uint32_t seq,
			 struct ipvs_dests *ret, struct err *err)
{
	struct reading rd = { ret, ip_family(key->fam) };

	return dests_result(
		nl_dump_next(w->nl, seq, &(struct nl_reader){ NULL, dest_message, &rd }, err), key,
		err);
}

/* IPVS does not mark a dump that a change interrupts: there is none to repeat. */
int ipvs_wire_dests(struct ipvs_wire *w, const struct ipvs_key *key, struct ipvs_dests *ret,
		    struct err *err)
{
	uint32_t seq;
	int r = ipvs_wire_dests_begin(w, key, &seq, err);

	vec_clear(&ret->v);
	for (r = r < 0 ? r : 1; r > 0;)
		r = ipvs_wire_dests_next(w, key, seq, ret, err);
	return r;
}

/* --- writing --- */

static void put_service(struct nlmsghdr *h, const struct ipvs_service *s)
{
	struct ip_vs_flags flags = { .flags = s->flags, .mask = ~UINT32_C(0) };
	bool is_v6 = s->key.fam == IPFAM_V6;

	mnl_attr_put_strz(h, IPVS_SVC_ATTR_SCHED_NAME, s->sched);
	mnl_attr_put(h, IPVS_SVC_ATTR_FLAGS, sizeof(flags), &flags);
	mnl_attr_put_u32(h, IPVS_SVC_ATTR_TIMEOUT, s->timeout_s);
	mnl_attr_put_u32(h, IPVS_SVC_ATTR_NETMASK, is_v6 ? 128 : UINT32_MAX);
}

static void put_dest(struct nlmsghdr *h, const struct ipvs_key *k, const struct ipvs_dest *d,
		     bool is_whole)
{
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_ADDR_FAMILY, ip_family(k->fam));
	put_addr(h, IPVS_DEST_ATTR_ADDR, &d->addr);
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_PORT, htons(d->port));
	if (!is_whole)
		return;
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_FWD_METHOD, d->fwd & FWD_MASK);
	if (d->fwd > UINT16_MAX) {
		mnl_attr_put_u8(h, IPVS_DEST_ATTR_TUN_TYPE, IP_VS_CONN_F_TUNNEL_TYPE_GUE);
		mnl_attr_put_u16(h, IPVS_DEST_ATTR_TUN_PORT, htons((uint16_t)(d->fwd >> 16)));
	}
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_WEIGHT, d->weight);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_U_THRESH, d->u_thresh);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_L_THRESH, d->l_thresh);
}

static struct nlmsghdr *put_op(const struct ipvs_wire *w, uint8_t *at, const struct ipvs_op *op,
			       uint32_t seq)
{
	struct nlmsghdr *h = request(w, at, op->cmd);
	struct nlattr *nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_SERVICE);

	h->nlmsg_seq = seq;
	put_key(h, &op->service.key);
	if (op->cmd == IPVS_CMD_NEW_SERVICE || op->cmd == IPVS_CMD_SET_SERVICE)
		put_service(h, &op->service);
	mnl_attr_nest_end(h, nest);
	if (op->cmd >= IPVS_CMD_NEW_DEST) {
		nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_DEST);
		put_dest(h, &op->service.key, &op->dest, op->cmd != IPVS_CMD_DEL_DEST);
		mnl_attr_nest_end(h, nest);
	}
	return h;
}

static void verdict(void *arg, size_t i, int r, const struct nl_extack *x)
{
	struct ipvs_op *ops = arg;

	ops[i].result = r;
	ops[i].is_done = true;
}

static int batch_send(struct ipvs_wire *w, struct ipvs_op *ops, size_t n, struct err *err)
{
	uint32_t seq0 = nl_sock_seq(w->nl, (uint32_t)n);
	size_t used = 0;
	int r;

	nl_sock_drain(w->nl);
	/*
	 * The kernel answers rejected messages without NLM_F_ACK. No answer is read before all are
	 * queued, so the last one does not fit if another one does not.
	 */
	for (size_t i = 0; i < n; i++) {
		struct nlmsghdr *h = put_op(w, w->tx + used, &ops[i], seq0 + (uint32_t)i);

		h->nlmsg_flags |= i + 1 == n ? NLM_F_ACK : 0;
		used += MNL_ALIGN(h->nlmsg_len);
	}
	r = nl_sock_send(w->nl, w->tx, used);
	if (r < 0)
		return err_set(err, r, "IPVS request: %s", strerror(-r));
	r = nl_verdicts_read(w->nl, seq0, n, verdict, ops);
	if (r < 0 && r != -ENOBUFS)
		return err_set(err, r, "IPVS answer: %s", strerror(-r));
	if (r < 0 || !ops[n - 1].is_done)
		return err_set(err, -ENOBUFS, "IPVS: answer lost; outcome unknown");
	for (size_t i = 0; i < n; i++)
		ops[i].is_done = true;
	return 0;
}

int ipvs_wire_send(struct ipvs_wire *w, struct ipvs_op *ops, size_t n, size_t *n_ok,
		   struct err *err)
{
	bool is_rejected = false;
	bool is_missing = false;

	for (size_t at = 0; at < n && !is_rejected; at += IPVS_BATCH_MAX) {
		size_t some = MIN(n - at, (size_t)IPVS_BATCH_MAX);
		int r = batch_send(w, ops + at, some, err);

		if (r < 0)
			return r;
		for (size_t i = at; i < at + some; i++) {
			is_rejected |= ops[i].result < 0;
			is_missing |= ops[i].result == -ENOENT;
			*n_ok += ops[i].result == 0;
		}
	}
	if (is_missing && is_unloaded(w))
		return unloaded_err(err);
	return is_rejected ? -ECANCELED : 0;
}

/* --- timeouts --- */

static void timeouts_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[IPVS_CMD_ATTR_MAX + 1];
	struct ipvs_timeouts *t = arg;

	nl_attr_table(tb, IPVS_CMD_ATTR_MAX, h, sizeof(struct genlmsghdr));
	t->tcp = nl_attr_u32(tb[IPVS_CMD_ATTR_TIMEOUT_TCP], 0);
	t->tcp_fin = nl_attr_u32(tb[IPVS_CMD_ATTR_TIMEOUT_TCP_FIN], 0);
	t->udp = nl_attr_u32(tb[IPVS_CMD_ATTR_TIMEOUT_UDP], 0);
}

int ipvs_wire_timeouts_get(struct ipvs_wire *w, struct ipvs_timeouts *ret, struct err *err)
{
	int r = nl_query(w->nl, request(w, w->tx, IPVS_CMD_GET_CONFIG),
			 &(struct nl_reader){ .message = timeouts_message, .arg = ret }, NULL, err);

	return r < 0 ? err_wrap(err, r, "read timeouts of IPVS") : 0;
}

int ipvs_wire_timeouts_set(struct ipvs_wire *w, const struct ipvs_timeouts *t, struct err *err)
{
	struct nlmsghdr *h = request(w, w->tx, IPVS_CMD_SET_CONFIG);
	int r;

	if (t->tcp != 0)
		mnl_attr_put_u32(h, IPVS_CMD_ATTR_TIMEOUT_TCP, t->tcp);
	if (t->tcp_fin != 0)
		mnl_attr_put_u32(h, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, t->tcp_fin);
	if (t->udp != 0)
		mnl_attr_put_u32(h, IPVS_CMD_ATTR_TIMEOUT_UDP, t->udp);
	r = nl_query(w->nl, h, &(struct nl_reader){ 0 }, NULL, err);
	return r < 0 ? err_wrap(err, r, "set timeouts of IPVS") : 0;
}

const char *ipvs_key_text(const struct ipvs_key *k, char buf[static IPVS_KEY_TEXT_MAX])
{
	if (k->mark != 0)
		(void)snprintf(buf, IPVS_KEY_TEXT_MAX, "mark 0x%x%s", k->mark,
			       k->fam == IPFAM_V6 ? " (IPv6)" : "");
	else
		(void)snprintf(buf, IPVS_KEY_TEXT_MAX, "%s/%s", ip_endpoint_str(&k->addr, k->port),
			       l4proto_text(k->proto));
	return buf;
}
