/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Assumptions of nl/: answers of nfnetlink to batches and dumps. */
#include "kernel.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <unistd.h>

#include "nl/attr.h"
#include "nl/dump.h"

#define TYPE(msg) (NFNL_SUBSYS_NFTABLES << 8 | (msg))

/* A socket without nl/sock's options, and raw datagrams. */
struct raw {
	struct mnl_socket *nl;
	char buf[1 << 20];
	size_t used; /* before `last` */
	struct nlmsghdr *last;
	uint32_t seq;
};

static struct raw *raw_open(void)
{
	struct raw *r = xcalloc(1, sizeof(*r));

	r->nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_non_null(r->nl);
	assert_int_equal(mnl_socket_bind(r->nl, 0, MNL_SOCKET_AUTOPID), 0);
	return r;
}

static void raw_close(struct raw *r)
{
	mnl_socket_close(r->nl);
	free(r);
}

static struct nlmsghdr *raw_msg(struct raw *r, uint16_t type, uint16_t flags, uint8_t family)
{
	struct nfgenmsg *g;

	if (r->last != NULL)
		r->used += MNL_ALIGN(r->last->nlmsg_len);
	r->last = mnl_nlmsg_put_header(r->buf + r->used);
	r->last->nlmsg_type = type;
	r->last->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	r->last->nlmsg_seq = ++r->seq;
	g = mnl_nlmsg_put_extra_header(r->last, sizeof(*g));
	g->nfgen_family = family;
	if (type == NFNL_MSG_BATCH_BEGIN || type == NFNL_MSG_BATCH_END)
		g->res_id = htons(NFNL_SUBSYS_NFTABLES);
	return r->last;
}

static void raw_begin(struct raw *r)
{
	r->used = 0;
	r->last = NULL;
	(void)raw_msg(r, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC);
}

/* A table, with a requested ACK. */
static uint32_t raw_table(struct raw *r, const char *name, uint16_t flags)
{
	struct nlmsghdr *h =
		raw_msg(r, TYPE(NFT_MSG_NEWTABLE), NLM_F_ACK | NLM_F_CREATE | flags, NFPROTO_IPV4);

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, name);
	return h->nlmsg_seq;
}

static ssize_t raw_send(struct raw *r)
{
	return mnl_socket_sendto(r->nl, r->buf, r->used + r->last->nlmsg_len);
}

/* Read queued answers without waiting. Counts ACKs; keeps seq and code of the first error. */
struct replies {
	size_t acks;
	size_t errors;
	size_t overflows;
	int error;
	uint32_t error_seq;
	size_t error_len;
};

static struct replies raw_replies(struct raw *r)
{
	struct replies got = { 0 };

	for (;;) {
		static char buf[16384];
		ssize_t n = recv(mnl_socket_get_fd(r->nl), buf, sizeof(buf), MSG_DONTWAIT);
		const struct nlmsghdr *h = (const void *)buf;
		const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);

		if (n == -1 && errno == ENOBUFS) {
			got.overflows++;
			continue;
		}
		if (n == -1)
			return got;
		assert_int_equal(h->nlmsg_type, NLMSG_ERROR);
		if (e->error == 0) {
			got.acks++;
		} else if (got.errors++ == 0) {
			got.error = e->error;
			got.error_seq = h->nlmsg_seq;
			got.error_len = h->nlmsg_len;
		}
	}
}

static void test_ack_is_not_applied(void **state)
{
	struct raw *r = raw_open();
	struct replies got;
	uint32_t bad;

	raw_begin(r);
	(void)raw_table(r, "good", 0);
	(void)raw_table(r, "twice", NLM_F_EXCL);
	bad = raw_table(r, "twice", NLM_F_EXCL);
	(void)raw_msg(r, NFNL_MSG_BATCH_END, 0, AF_UNSPEC);
	assert_true(raw_send(r) > 0);
	got = raw_replies(r);
	FACT(got.acks == 2, "%zu of 2 good messages in a refused batch are acknowledged\n",
	     got.acks);
	FACT(got.errors == 1 && got.error == -EEXIST && got.error_seq == bad,
	     "error %d for message %u, wanted EEXIST for %u\n", got.error, got.error_seq, bad);
	assert_int_not_equal(sh("nft list table ip good 2>/dev/null"), 0);
	raw_close(r);
}

static void test_no_end_no_effect(void **state)
{
	struct raw *r = raw_open();
	struct replies got;

	raw_begin(r);
	(void)raw_table(r, "endless", 0);
	assert_true(raw_send(r) > 0);
	got = raw_replies(r);
	FACT(got.acks == 1 && got.errors == 0,
	     "a batch without an end: %zu acknowledgements, %zu errors\n", got.acks, got.errors);
	FACT(sh("nft list table ip endless 2>/dev/null") != 0,
	     "a batch without an end is applied\n");
	raw_close(r);
}

/* Also: replies are queued when send() returns, because raw_replies() does not wait. */
static void test_replies_overflow(void **state)
{
	struct raw *r = raw_open();
	struct replies got;
	const size_t n = 2000;

	raw_begin(r);
	for (size_t i = 0; i < n; i++)
		(void)raw_table(r, "many", 0);
	(void)raw_msg(r, NFNL_MSG_BATCH_END, 0, AF_UNSPEC);
	assert_true(raw_send(r) > 0);
	got = raw_replies(r);
	print_message("    %zu of %zu replies fit, %zu overflows reported\n", got.acks, n,
		      got.overflows);
	FACT(got.overflows == 1 && got.acks > 50 && got.acks < n,
	     "%zu of %zu acknowledgements in the default buffer, ENOBUFS %zu times\n", got.acks, n,
	     got.overflows);
	assert_int_equal(sh("nft list table ip many >/dev/null"), 0); /* applied all the same */
	raw_close(r);
}

static void test_error_quotes_request(void **state)
{
	struct raw *r = raw_open();
	struct nlmsghdr *h;
	char filler[3000];
	int on = 1;
	struct replies got;

	memset(filler, 'x', sizeof(filler));
	for (int capped = 0; capped <= 1; capped++) {
		if (capped)
			assert_int_equal(
				mnl_socket_setsockopt(r->nl, NETLINK_CAP_ACK, &on, sizeof(on)), 0);
		raw_begin(r);
		h = raw_msg(r, TYPE(NFT_MSG_DELTABLE), 0, NFPROTO_IPV4);
		mnl_attr_put_strz(h, NFTA_TABLE_NAME, "none");
		mnl_attr_put(h, NFTA_TABLE_USERDATA, sizeof(filler), filler);
		(void)raw_msg(r, NFNL_MSG_BATCH_END, 0, AF_UNSPEC);
		assert_true(raw_send(r) > 0);
		got = raw_replies(r);
		assert_int_equal(got.errors, 1);
		FACT((got.error_len > sizeof(filler)) == !capped,
		     "an error is %zu bytes long with NETLINK_CAP_ACK %d\n", got.error_len, capped);
	}
	raw_close(r);
}

static void table_put(struct nl_batch *b, const char *name, const void *tag)
{
	mnl_attr_put_strz(kernel_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, tag), NFTA_TABLE_NAME,
			  name);
}

static void test_genid(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	uint32_t before = kernel_genid(nl);

	nl_batch_open(&b, nl);
	table_put(b, "first", NULL);
	assert_int_equal(kernel_commit(b), 0);
	FACT(kernel_genid(nl) == before + 1, "a commit raises the generation from %u to %u\n",
	     before, kernel_genid(nl));

	assert_int_equal(sh("nft add table ip foreign"), 0);
	FACT(kernel_genid(nl) == before + 2, "others' commits do not raise the generation\n");
}

static void chain_put(struct nl_batch *b, const char *table, const char *chain, const void *tag)
{
	struct nlmsghdr *h = kernel_msg(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL, tag);

	mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, table);
	mnl_attr_put_strz(h, NFTA_CHAIN_NAME, chain);
}

/* Which message, by its tag, and the kernel's error. */
static void test_refusal_names_message(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	const struct nl_rejection *f;
	struct err err = { 0 };
	int tags[3];

	nl_batch_open(&b, nl);
	table_put(b, "t", &tags[0]);
	chain_put(b, "nowhere", "c", &tags[1]);
	chain_put(b, "t", "d", &tags[2]);
	assert_int_equal(nl_batch_commit(b, &err), -ENOENT);
	f = nl_batch_rejection(b);
	assert_int_equal(f->error, -ENOENT);
	assert_int_equal(f->index, 1);
	assert_ptr_equal(f->tag, &tags[1]);
	FACT(f->has_offset, "no offset for a missing table\n");
	assert_int_equal(mnl_attr_get_type((const void *)((const char *)f->msg + f->offset)),
			 NFTA_CHAIN_TABLE);
	assert_string_equal(err.text, "No such file or directory");
	nl_batch_reset(b);
	assert_int_equal(nl_batch_rejection(b)->error, 0);
}

static void map_make(void)
{
	/* as nft declares it, so that nft can look at it too */
	assert_int_equal(sh("nft 'table ip t { map m { type inet_service : ipv4_addr; }; }'"), 0);
}

/* Many elements share a message: the offset identifies the invalid one. */
static void test_refusal_points_at_element(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	const struct nl_rejection *f;
	struct nlmsghdr *h;
	struct nlattr *list;
	uint32_t data = 1;
	char tags[400];

	nl_batch_open(&b, nl);
	map_make();
	h = kernel_msg(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, NULL);
	list = kernel_elems(h, "t", "m");
	for (uint16_t i = 0; i < ARRAY_SIZE(tags); i++) {
		uint16_t key = htons(i == 300 ? 7 : i); /* number 300 is the second with key 7 */

		nl_batch_tag(b, &tags[i]);
		kernel_elem(h, &key, sizeof(key), &data, sizeof(data));
	}
	mnl_attr_nest_end(h, list);
	assert_int_equal(nl_batch_commit(b, NULL), -EEXIST);
	f = nl_batch_rejection(b);
	assert_int_equal(f->index, 0);
	FACT(f->has_offset, "an element that exists is refused without an offset\n");
	FACT(f->tag == &tags[300], "the offset points at element %td, not 300\n",
	     (const char *)f->tag - tags);

	/* As above for a deletion of a missing element. */
	nl_batch_reset(b);
	h = kernel_msg(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, NULL);
	list = kernel_elems(h, "t", "m");
	for (uint16_t i = 0; i < 10; i++) {
		uint16_t key = htons(i);

		kernel_elem(h, &key, sizeof(key), &data, sizeof(data));
	}
	mnl_attr_nest_end(h, list);
	h = kernel_msg(b, NFT_MSG_DELSETELEM, 0, NULL);
	list = kernel_elems(h, "t", "m");
	for (uint16_t i = 0; i < 10; i++) {
		uint16_t key = htons(i == 6 ? 600 : i);

		nl_batch_tag(b, &tags[i]);
		kernel_elem(h, &key, sizeof(key), NULL, 0);
	}
	mnl_attr_nest_end(h, list);
	assert_int_equal(nl_batch_commit(b, NULL), -ENOENT);
	f = nl_batch_rejection(b);
	assert_int_equal(f->index, 1);
	FACT(f->has_offset && f->tag == &tags[6],
	     "the rejected deletion is reported as %td, not 6\n", (const char *)f->tag - tags);
}

/* One batch of several megabytes: SO_SNDBUF is raised to it, one ACK comes back. */
static void test_big_batch(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	struct raw *r = raw_open();
	uint32_t n = 0;

	nl_batch_open(&b, nl);
	assert_int_equal(sh("nft 'table ip t { map m { type ipv4_addr : ipv4_addr; }; }'"), 0);
	while (nl_batch_bytes(b) < 6 * 1024 * 1024) {
		struct nlmsghdr *h =
			kernel_msg(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, NULL);
		struct nlattr *list = kernel_elems(h, "t", "m");

		for (int i = 0; i < 1500; i++, n++)
			kernel_elem(h, &n, sizeof(n), &n, sizeof(n));
		mnl_attr_nest_end(h, list);
	}
	print_message("    %zu bytes, %zu messages, %u elements\n", nl_batch_bytes(b),
		      nl_batch_count(b), n);
	assert_int_equal(nl_batch_commit(b, NULL), 0);
	assert_int_equal(nl_sock_stats(nl)->n_sends, 1);
	assert_int_equal(nl_sock_stats(nl)->n_recvs, 1);

	/* Without the raised buffer the whole batch is rejected. */
	raw_begin(r);
	while (r->used < 600000)
		(void)raw_table(r, "big", 0);
	(void)raw_msg(r, NFNL_MSG_BATCH_END, 0, AF_UNSPEC);
	FACT(raw_send(r) == -1 && errno == EMSGSIZE,
	     "600 kB pass through the default send buffer\n");
	assert_int_not_equal(sh("nft list table ip big 2>/dev/null"), 0);
	raw_close(r);
}

/*
 * A dump during which the map changes: an nl_io changes the map after the first piece, in a given
 * number of dumps.
 */
struct meddler {
	struct nl_sock *kernel; /* what is asked */
	struct nl_batch *hand;  /* what changes */
	unsigned int changes;   /* still to make */
	bool is_requested;      /* a dump was requested, its first piece is not read yet */
	uint16_t next;
};

static ssize_t meddler_send(void *ctx, const void *data, size_t len)
{
	struct meddler *m = ctx;
	int r = nl_sock_send(m->kernel, data, len);

	m->is_requested = true;
	return r < 0 ? r : (ssize_t)len;
}

static ssize_t meddler_recv(void *ctx, void *data, size_t size)
{
	struct meddler *m = ctx;
	ssize_t n = nl_sock_recv(m->kernel, data, size);

	if (n > 0 && m->is_requested && m->changes > 0) {
		struct nlmsghdr *h =
			kernel_msg(m->hand, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, NULL);
		struct nlattr *list = kernel_elems(h, "t", "m");
		uint32_t key = htonl(0xe0000000u + m->next++);

		kernel_elem(h, &key, sizeof(key), &key, sizeof(key));
		mnl_attr_nest_end(h, list);
		assert_int_equal(kernel_commit(m->hand), 0);
		m->changes--;
		m->is_requested = false;
	}
	return n;
}

/* Many pieces: the kernel is two ahead of the reader. */
#define MAP_ELEMENTS 10000

struct counting {
	size_t begun;
	size_t elements;
};

static void counting_begin(void *arg)
{
	struct counting *c = arg;

	c->begun++;
	c->elements = 0;
}

static void counting_message(void *arg, const struct nlmsghdr *h)
{
	struct counting *c = arg;
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, h, sizeof(struct nfgenmsg));
	nl_attr_for_each (e, tb[NFTA_SET_ELEM_LIST_ELEMENTS])
		c->elements++;
}

static int dump_map(struct nl_sock *nl, struct counting *c)
{
	char buf[256];
	struct nlmsghdr *h =
		nl_request_nfnl(buf, sizeof(buf), TYPE(NFT_MSG_GETSETELEM), NFPROTO_IPV4);

	*c = (struct counting){ 0 };
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, "t");
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, "m");
	return nl_dump(nl, h, &(struct nl_reader){ counting_begin, counting_message, c }, NULL);
}

static void test_interrupted_dump(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *kernel = kernel_sock();
	AUTO(nl_sock_close) struct nl_sock *changes = kernel_sock();
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	AUTO(nl_batch_close) struct nl_batch *hand = NULL;
	struct meddler m = { .kernel = kernel };
	struct counting c;
	struct nlmsghdr *h;
	struct nlattr *list;

	nl_sock_open_io(&nl, &(struct nl_io){ meddler_send, meddler_recv, NULL, &m });
	nl_batch_open(&hand, changes);
	m.hand = hand;
	assert_int_equal(sh("nft 'table ip t { map m { type ipv4_addr : ipv4_addr; }; }'"), 0);
	for (uint32_t i = 0; i < MAP_ELEMENTS;) {
		h = kernel_msg(hand, NFT_MSG_NEWSETELEM, NLM_F_CREATE, NULL);
		list = kernel_elems(h, "t", "m");
		for (int k = 0; k < 1000; k++, i++) {
			uint32_t key = htonl(i);

			kernel_elem(h, &key, sizeof(key), &key, sizeof(key));
		}
		mnl_attr_nest_end(h, list);
	}
	assert_int_equal(kernel_commit(hand), 0);

	assert_int_equal(dump_map(nl, &c), 0);
	assert_int_equal(c.begun, 1);
	assert_int_equal(c.elements, MAP_ELEMENTS);

	m.changes = 1;
	assert_int_equal(dump_map(nl, &c), 0);
	FACT(c.begun == 2, "the generation is not stamped on the pieces of a dump\n");
	assert_int_equal(c.elements, MAP_ELEMENTS + 1);

	m.changes = 1000;
	assert_int_equal(dump_map(nl, &c), -EAGAIN);
	assert_int_equal(c.begun, NL_DUMP_TRIES);

	/* Everything was read to its end: the socket can be used for the next request. */
	m.changes = 0;
	assert_int_equal(dump_map(nl, &c), 0);
	assert_int_equal(c.elements, MAP_ELEMENTS + m.next);
}

/* Another process of root can send to our port id. */
static void forge(const struct nl_sock *nl)
{
	struct mnl_socket *other = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	struct sockaddr_nl to = { .nl_family = AF_NETLINK };
	socklen_t len = sizeof(to);
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
	} forged = { .h = { .nlmsg_len = sizeof(forged), .nlmsg_type = NLMSG_ERROR } };

	assert_non_null(other);
	assert_int_equal(getsockname(nl_sock_fd(nl), (struct sockaddr *)&to, &len), 0);
	assert_int_equal(sendto(mnl_socket_get_fd(other), &forged, sizeof(forged), 0,
				(const struct sockaddr *)&to, sizeof(to)),
			 sizeof(forged));
	mnl_socket_close(other);
}

static void test_forged_reply(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	char buf[256];

	forge(nl);
	assert_int_equal(nl_sock_recv(nl, buf, sizeof(buf)), -EAGAIN);
}

/* `n` requests for the generation, in one datagram. */
static void ask_often(struct nl_sock *nl, uint32_t seq, size_t n)
{
	char buf[64 * 32];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		struct nlmsghdr *h = nl_request_nfnl(buf + len, sizeof(buf) - len,
						     TYPE(NFT_MSG_GETGEN), AF_UNSPEC);

		h->nlmsg_seq = seq + (uint32_t)i;
		len += h->nlmsg_len;
	}
	assert_int_equal(nl_sock_send(nl, buf, len), 0);
}

/* Answers are read together: each is returned once, in order, also beside forged ones. */
static void test_many_answers(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	char buf[256];
	uint32_t seq = 1;

	for (size_t n = 1; n <= 34; n++) {
		if (n % 3 == 0)
			forge(nl);
		ask_often(nl, seq, n);
		if (n % 5 == 0)
			forge(nl);
		for (size_t i = 0; i < n; i++) {
			const struct nlmsghdr *h = (const void *)buf;
			bool is_short = i == n / 2;
			ssize_t len = nl_sock_recv(nl, buf, is_short ? NLMSG_HDRLEN : sizeof(buf));

			if (is_short) {
				assert_int_equal(len, -EMSGSIZE);
				continue;
			}
			assert_true(len > NLMSG_HDRLEN);
			assert_int_equal(h->nlmsg_seq, seq + i);
		}
		if (n % 2 == 0)
			assert_int_equal(nl_sock_recv(nl, buf, sizeof(buf)), -EAGAIN);
		seq += (uint32_t)n;
	}
}

/* A socket that has asked, and then joins a group, gets notifications. */
static void test_join_after_answers(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	char buf[4096];

	(void)kernel_genid(nl);
	nl_sock_drain(nl);
	assert_int_equal(nl_sock_join(nl, NFNLGRP_NFTABLES, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sh("nft %s table ip joined", i == 0 ? "add" : "delete"), 0);
		assert_true(nl_sock_recv(nl, buf, sizeof(buf)) > 0);
		nl_sock_drain(nl);
		(void)kernel_genid(nl);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_ack_is_not_applied, kernel_fresh),
		cmocka_unit_test_setup(test_no_end_no_effect, kernel_fresh),
		cmocka_unit_test_setup(test_replies_overflow, kernel_fresh),
		cmocka_unit_test_setup(test_error_quotes_request, kernel_fresh),
		cmocka_unit_test_setup(test_genid, kernel_fresh),
		cmocka_unit_test_setup(test_refusal_names_message, kernel_fresh),
		cmocka_unit_test_setup(test_refusal_points_at_element, kernel_fresh),
		cmocka_unit_test_setup(test_big_batch, kernel_fresh),
		cmocka_unit_test_setup(test_interrupted_dump, kernel_fresh),
		cmocka_unit_test_setup(test_forged_reply, kernel_fresh),
		cmocka_unit_test_setup(test_many_answers, kernel_fresh),
		cmocka_unit_test_setup(test_join_after_answers, kernel_fresh),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests_name("kernel netlink", tests, NULL, NULL);
}
