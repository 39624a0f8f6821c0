/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/dump.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include "nl/answer.h"

struct nlmsghdr *nl_request(void *buf, size_t size, uint16_t type)
{
	struct nlmsghdr *h = buf;

	assert(size >= MNL_NLMSG_HDRLEN);
	h = mnl_nlmsg_put_header(buf);
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST;
	return h;
}

struct nlmsghdr *nl_request_nfnl(void *buf, size_t size, uint16_t type, uint8_t family)
{
	struct nlmsghdr *h = nl_request(buf, size, type);
	struct nfgenmsg *g;

	assert(size >= MNL_NLMSG_HDRLEN + sizeof(*g));
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return h;
}

/* Reading one answer. */
struct answer {
	const struct nl_reader *rd;
	uint32_t seq;
	bool has_generation;
	uint16_t generation; /* of the first message */
	bool is_done;
	bool is_interrupted;
	bool is_lost;
	int result; /* of the kernel */
	struct nl_extack extack;
	struct err *err;
};

/*
 * nf_tables does not mark interrupted dumps of set elements, but each message has the
 * low bits of the ruleset's generation. Other nfnetlink subsystems send 0; other
 * families have no subsystem.
 */
static void generation_check(struct answer *a, const struct nlmsghdr *h)
{
	const struct nfgenmsg *g = mnl_nlmsg_get_payload(h);

	if (NFNL_SUBSYS_ID(h->nlmsg_type) == NFNL_SUBSYS_NONE ||
	    h->nlmsg_len < MNL_NLMSG_HDRLEN + sizeof(*g))
		return;
	if (a->has_generation && a->generation != g->res_id)
		a->is_interrupted = true;
	a->has_generation = true;
	a->generation = g->res_id;
}

static void answer_message(struct answer *a, const struct nlmsghdr *h)
{
	const int *code;

	if (h->nlmsg_seq != a->seq || a->is_done)
		return; /* a late answer to an earlier request */
	if (h->nlmsg_flags & NLM_F_DUMP_INTR)
		a->is_interrupted = true;
	switch (h->nlmsg_type) {
	case NLMSG_NOOP:
		return;
	case NLMSG_ERROR:
		a->is_done = true;
		a->result = nl_extack_read(&a->extack, h);
		return;
	case NLMSG_DONE:
		a->is_done = true;
		/* The result of a dump that failed midway. */
		code = h->nlmsg_len >= MNL_NLMSG_HDRLEN + sizeof(int) ? mnl_nlmsg_get_payload(h)
								      : NULL;
		a->result = code != NULL ? MIN(*code, 0) : 0;
		return;
	default:
		generation_check(a, h);
		if (a->rd->message != NULL)
			a->rd->message(a->rd->arg, h);
	}
}

/* Read one datagram. 1: more left. */
static int answer_some(struct answer *a, struct nl_sock *nl)
{
	uint8_t *buf = nl_sock_buffer(nl);
	ssize_t n = nl_sock_recv(nl, buf, NL_RECV_MAX);

	if (n == -ENOBUFS) {
		a->is_lost = true;
		return 1;
	}
	/* The kernel answers inside send() and recv(): none will follow. */
	if (n < 0)
		return a->is_lost ? -ENOBUFS : n == -EAGAIN ? -EIO : (int)n;
	nl_for_each_message (h, buf, (size_t)n)
		answer_message(a, h);
	return !a->is_done ? 1 : a->is_lost ? -ENOBUFS : 0;
}

/* One attempt. `a->result` is the result of the kernel. */
static int attempt(struct answer *a, struct nl_sock *nl, struct nlmsghdr *req)
{
	int r;

	nl_sock_drain(nl);
	if (a->rd->begin != NULL)
		a->rd->begin(a->rd->arg);
	if (a->rd->n_results != NULL)
		*a->rd->n_results = 0;
	a->seq = nl_sock_seq(nl, 1);
	req->nlmsg_seq = a->seq;
	r = nl_sock_send(nl, req, req->nlmsg_len);
	if (r < 0)
		return err_set(a->err, r, "netlink request %u: %s", req->nlmsg_type, strerror(-r));
	do
		r = answer_some(a, nl);
	while (r > 0);
	if (r < 0)
		return err_set(a->err, r, "answer to netlink request %u: %s", req->nlmsg_type,
			       strerror(-r));
	return 0;
}

static int kernel_verdict(const struct answer *a, const struct nlmsghdr *req)
{
	if (a->result == 0)
		return 0;
	return err_set(a->err, a->result, "netlink request %u: %s%s%s", req->nlmsg_type,
		       strerror(-a->result), a->extack.detail[0] != '\0' ? ": " : "",
		       a->extack.detail);
}

int nl_dump(struct nl_sock *nl, struct nlmsghdr *req, const struct nl_reader *rd, struct err *err)
{
	unsigned int tries = rd->is_scoped ? NL_DUMP_STARTS : NL_DUMP_TRIES;

	req->nlmsg_flags |= NLM_F_REQUEST | NLM_F_DUMP;
	for (unsigned int i = 0; i < tries; i++) {
		struct answer a = { .rd = rd, .err = err };
		int r = attempt(&a, nl, req);

		if (r < 0)
			return r;
		/* nf_tables returns EINTR when the ruleset changed before the first piece. */
		if ((a.is_interrupted && !rd->is_scoped) || a.result == -EINTR)
			continue;
		return kernel_verdict(&a, req);
	}
	return err_set(err, -EAGAIN, "dump %u: interrupted by changes %u times", req->nlmsg_type,
		       tries);
}

int nl_dump_begin(struct nl_sock *nl, struct nlmsghdr *req, uint32_t *seq, struct err *err)
{
	int r;

	nl_sock_drain(nl);
	req->nlmsg_flags |= NLM_F_REQUEST | NLM_F_DUMP;
	req->nlmsg_seq = *seq = nl_sock_seq(nl, 1);
	r = nl_sock_send(nl, req, req->nlmsg_len);
	return r < 0 ? err_set(err, r, "%s", strerror(-r)) : 0;
}

int nl_dump_next(struct nl_sock *nl, uint32_t seq, const struct nl_reader *rd, struct err *err)
{
	struct answer a = { .rd = rd, .seq = seq, .err = err };
	int r = answer_some(&a, nl);

	if (r >= 0)
		r = a.is_lost ? -ENOBUFS : a.result;
	return r < 0 ? err_set(err, r, "%s", strerror(-r)) : !a.is_done;
}

int nl_query(struct nl_sock *nl, struct nlmsghdr *req, const struct nl_reader *rd,
	     struct nl_bad *bad, struct err *err)
{
	struct answer a = { .rd = rd, .err = err };
	int r;

	req->nlmsg_flags = (uint16_t)((req->nlmsg_flags & ~NLM_F_DUMP) | NLM_F_REQUEST | NLM_F_ACK);
	r = attempt(&a, nl, req);
	if (bad != NULL)
		*bad = a.extack.bad;
	return r < 0 ? r : kernel_verdict(&a, req);
}

/* Reading the answers to many requests. */
struct each {
	uint32_t seq; /* of the first request */
	size_t n;
	size_t answered; /* requests; each gets one answer: an object or an error */
	nl_each_fn *fn;
	void *arg;
	int result;
};

static void each_message(struct each *e, const struct nlmsghdr *h)
{
	size_t i = h->nlmsg_seq - e->seq;
	struct nl_extack extack = { 0 };
	int error = 0;
	int r;

	if (i >= e->n) /* a late answer to an earlier request */
		return;
	if (h->nlmsg_type == NLMSG_ERROR)
		error = nl_extack_read(&extack, h);
	if (h->nlmsg_type == NLMSG_ERROR && error == 0)
		return; /* the acknowledgement that follows an answer */
	r = e->fn(e->arg, i, error == 0 ? h : NULL, error, &extack.bad);
	if (e->result == 0)
		e->result = r;
	e->answered++;
}

static int each_read(struct each *e, struct nl_sock *nl)
{
	uint8_t *buf = nl_sock_buffer(nl);
	ssize_t n = 0;

	while (e->answered < e->n) {
		n = nl_sock_recv(nl, buf, NL_RECV_MAX);
		if (n < 0)
			break;
		nl_for_each_message (h, buf, (size_t)n)
			each_message(e, h);
	}
	/* The kernel answers inside send(): none will follow. */
	return n >= 0 ? 0 : n == -EAGAIN ? -EIO : (int)n;
}

int nl_query_each(struct nl_sock *nl, void *requests, size_t len, size_t n, nl_each_fn *fn,
		  void *arg, struct err *err)
{
	struct each e = { .seq = nl_sock_seq(nl, (uint32_t)n), .n = n, .fn = fn, .arg = arg };
	struct nlmsghdr *h = requests;
	int left = (int)len;
	int r;

	nl_sock_drain(nl);
	for (uint32_t i = 0; i < n && mnl_nlmsg_ok(h, left); i++) {
		h->nlmsg_seq = e.seq + i;
		h = mnl_nlmsg_next(h, &left);
	}
	r = nl_sock_send(nl, requests, len);
	if (r < 0)
		return err_set(err, r, "%zu netlink requests: %s", n, strerror(-r));
	r = each_read(&e, nl);
	r = r < 0 ? r : e.result;
	if (r < 0)
		return err_set(err, r, "answers to %zu netlink requests: %s", n, strerror(-r));
	return r;
}
