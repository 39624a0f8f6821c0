/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/nft/live - the rule that sets meta nftrace, and its events. */
#include "plane/nft/live.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <endian.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nft/rule.h"
#include "nft/write.h"
#include "nl/answer.h"
#include "nl/attr.h"
#include "plane/nft/layout.h"

#define TABLE_NAME "vipd-trace"
/* After connection tracking (-200), which sets the state; before vipd's chains (-150). */
#define PRIORITY (-160)

struct nft_live {
	struct nl_sock *owner; /* of the table */
	struct nl_sock *events;
	size_t len;               /* of the current datagram */
	const struct nlmsghdr *h; /* its last message that was read, or NULL */
	_Alignas(struct nlmsghdr) uint8_t buf[NL_RECV_MAX];
};

/* --- the mark --- */

static void mark_rule(struct nft_rules *rs, const struct nft_live_query *q)
{
	enum ipfam fam = ip_fam(&q->dst);
	uint8_t port[2] = { (uint8_t)(q->port >> 8), (uint8_t)q->port };

	RULE(rs, fam, CT_STATE(NEW), DADDR, IS_ADDRESS(&q->dst),
	     WHEN(ip_is_set(&q->src), SADDR, IS_ADDRESS(&q->src)), L4PROTO(q->proto), DPORT,
	     IS_DATA(EQ, sizeof(port), port),
	     META_SET_TO(NFTRACE, htole32(1))); /* the first byte is read */
}

static int table_make(struct nft_live *l, const struct nft_live_query *q, struct err *err)
{
	static const struct nft_chain chains[] = {
		{ "prerouting", "filter", NF_INET_PRE_ROUTING, PRIORITY },
		{ "output", "filter", NF_INET_LOCAL_OUT, PRIORITY },
	};
	struct nft_schema schema = { .comment = "vipctl trace ",
				     .family = nft_family(ip_fam(&q->dst)) };
	FINI(nft_writer_fini) struct nft_writer w;
	int r;

	nft_writer_init(&w, l->owner, &schema, IPFAM_V4, TABLE_NAME);
	nft_write_table(&w, NFT_TABLE_F_OWNER);
	for (size_t i = 0; i < ARRAY_SIZE(chains); i++) {
		FINI(nft_rules_fini) struct nft_rules rs = { 0 };

		mark_rule(&rs, q);
		nft_write_chain(&w, chains[i].name, &chains[i]);
		nft_write_rules(&w, chains[i].name, &rs);
	}
	r = nft_writer_commit(&w, NULL, err);
	if (r == -EEXIST)
		(void)err_set(err, r, "another trace is running: table %s exists", TABLE_NAME);
	return r < 0 ? err_wrap(err, r, "marking packets") : 0;
}

int nft_live_open(struct nft_live **ret, const struct nft_live_query *q, struct err *err)
{
	AUTO(nft_live_close) struct nft_live *l = xcalloc(1, sizeof(*l));
	int r = nl_sock_open(&l->owner, NETLINK_NETFILTER, err);

	if (r == 0)
		r = nl_sock_open(&l->events, NETLINK_NETFILTER, err);
	if (r == 0)
		r = nl_sock_join(l->events, NFNLGRP_NFTRACE, err);
	if (r == 0)
		r = table_make(l, q, err);
	if (r == 0)
		*ret = TAKE(l);
	return r;
}

void nft_live_close(struct nft_live *l)
{
	if (l == NULL)
		return;
	nl_sock_close(l->owner); /* the kernel then deletes the table */
	nl_sock_close(l->events);
	free(l);
}

/* --- events --- */

static uint16_t port_at(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void addrs_read(struct nft_live_event *ret, const struct nlattr *network,
		       const struct nlattr *transport)
{
	const uint8_t *ip = nl_attr_bytes(network, 20);
	const uint8_t *th = nl_attr_bytes(transport, 4);

	if (ip == NULL || th == NULL)
		return;
	if (ip[0] >> 4 == 6) {
		ip = nl_attr_bytes(network, 40);
		if (ip == NULL)
			return;
		ret->src = ip_addr_from_bytes(AF_INET6, ip + 8);
		ret->dst = ip_addr_from_bytes(AF_INET6, ip + 24);
	} else {
		ret->src = ip_addr_from_bytes(AF_INET, ip + 12);
		ret->dst = ip_addr_from_bytes(AF_INET, ip + 16);
	}
	ret->sport = port_at(th);
	ret->dport = port_at(th + 2);
	ret->has_addrs = true;
}

static const char *code_text(uint32_t code)
{
	static const struct {
		int32_t code;
		const char *text;
	} verdicts[] = {
		{ NFT_CONTINUE, "continue" }, { NFT_BREAK, "break" },   { NFT_JUMP, "jump" },
		{ NFT_GOTO, "goto" },         { NFT_RETURN, "return" }, { NF_DROP, "drop" },
		{ NF_ACCEPT, "accept" },      { NF_STOLEN, "stolen" },  { NF_QUEUE, "queue" },
	};

	/* Those of nf_tables are negative; others have data in their upper half. */
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		if (verdicts[i].code == (int32_t)code ||
		    verdicts[i].code == (int32_t)(code & NF_VERDICT_MASK))
			return verdicts[i].text;
	return "?";
}

static void verdict_read(struct nft_live_event *ret, const struct nlattr **tb)
{
	const struct nlattr *v = tb[NFTA_TRACE_VERDICT];
	const char *chain = nl_attr_str(nl_attr_find(v, NFTA_VERDICT_CHAIN));

	if (tb[NFTA_TRACE_POLICY] != NULL &&
	    nl_attr_be32(tb[NFTA_TRACE_TYPE], 0) == NFT_TRACETYPE_POLICY) {
		(void)snprintf(ret->verdict, sizeof(ret->verdict), "policy %s",
			       code_text(nl_attr_be32(tb[NFTA_TRACE_POLICY], NF_ACCEPT)));
		return;
	}
	(void)snprintf(ret->verdict, sizeof(ret->verdict), "%s%s%.40s",
		       code_text(nl_attr_be32(nl_attr_find(v, NFTA_VERDICT_CODE), 0)),
		       *chain ? " " : "", chain);
}

static bool event_read(struct nft_live_event *ret, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_TRACE_MAX + 1];

	if (h->nlmsg_type != NFT_TYPE(NFT_MSG_TRACE))
		return false;
	nl_attr_table(tb, NFTA_TRACE_MAX, h, sizeof(struct nfgenmsg));
	*ret = (struct nft_live_event){ .id = nl_attr_be32(tb[NFTA_TRACE_ID], 0) };
	(void)snprintf(ret->table, sizeof(ret->table), "%.63s", nl_attr_str(tb[NFTA_TRACE_TABLE]));
	(void)snprintf(ret->chain, sizeof(ret->chain), "%.63s", nl_attr_str(tb[NFTA_TRACE_CHAIN]));
	verdict_read(ret, tb);
	addrs_read(ret, tb[NFTA_TRACE_NETWORK_HEADER], tb[NFTA_TRACE_TRANSPORT_HEADER]);
	return true;
}

/* The next event of the current datagram. */
static bool event_next(struct nft_live *l, struct nft_live_event *ret)
{
	while ((l->h = nl_message_next(l->buf, l->len, l->h)) != NULL)
		if (event_read(ret, l->h))
			return true;
	l->len = 0;
	return false;
}

int nft_live_next(struct nft_live *l, struct nft_live_event *ret, uint64_t deadline_ns,
		  struct err *err)
{
	while (!event_next(l, ret)) {
		struct pollfd p = { .fd = nl_sock_fd(l->events), .events = POLLIN };
		uint64_t now = now_ns();
		ssize_t n = nl_sock_recv(l->events, l->buf, sizeof(l->buf));

		if (n > 0) {
			l->len = (size_t)n;
			continue;
		}
		if (n < 0 && n != -EAGAIN && n != -ENOBUFS && n != -EINTR)
			return err_set(err, (int)n, "trace events: %s", strerror((int)-n));
		if (now >= deadline_ns)
			return 0;
		if (poll(&p, 1, (int)((deadline_ns - now) / NSEC_PER_MSEC) + 1) < 0)
			return errno == EINTR ? 0 : err_errno(err, "poll");
	}
	return 1;
}
