/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/ctnl: answers of a scripted kernel to deletions. */
#include "test.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>

#include "conntrack/ctnl.h"

/* The kernel's answers to the messages of one datagram: 0 or -errno. */
struct kernel {
	int answers[4];
	uint32_t seqs[4];
	size_t n;
	size_t next;
};

static ssize_t requests(void *ctx, const void *data, size_t len)
{
	struct kernel *k = ctx;
	const struct nlmsghdr *h = data;

	k->n = k->next = 0;
	for (int left = (int)len; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
		k->seqs[k->n++] = h->nlmsg_seq;
	return (ssize_t)len;
}

/* Only requests that are rejected have an answer. */
static ssize_t answer(void *ctx, void *data, size_t size)
{
	struct kernel *k = ctx;
	struct nlmsghdr *h;
	struct nlmsgerr *e;

	(void)size;
	while (k->next < k->n && k->answers[k->next] == 0)
		k->next++;
	if (k->next == k->n)
		return -EAGAIN;
	h = mnl_nlmsg_put_header(data);
	h->nlmsg_type = NLMSG_ERROR;
	h->nlmsg_seq = k->seqs[k->next];
	e = mnl_nlmsg_put_extra_header(h, sizeof(*e));
	e->error = k->answers[k->next++];
	return (ssize_t)h->nlmsg_len;
}

/* CT-10: an entry that is gone is deleted. One that is busy is reported, but hides no other error.
 */
static void test_delete(void **state)
{
	static const struct {
		int answers[4];
		int ret;
		uint64_t n_deleted;
	} cases[] = {
		{ { 0, 0, 0, 0 }, 0, 4 },
		{ { 0, -ENOENT, 0, 0 }, 0, 3 },
		{ { -EBUSY, 0, -ENOENT, 0 }, -EBUSY, 2 },
		{ { -EBUSY, -EPERM, -EBUSY, 0 }, -EPERM, 1 },
		{ { -EPERM, -EINVAL, 0, 0 }, -EPERM, 2 },
		{ { 0, 0, 0, 0 }, 0, 4 },
	};
	struct kernel k = { 0 };
	const struct nl_io io = { .send = requests, .recv = answer, .ctx = &k };
	struct nl_sock *query, *del;
	struct ctnl *c;
	_Alignas(8) uint8_t buf[64];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct ctnl_entry e = { .family = AF_INET };

	(void)state;
	e.tuple = mnl_attr_nest_start(h, CTA_TUPLE_ORIG);
	mnl_attr_put_u32(h, CTA_TUPLE_IP, 1);
	mnl_attr_nest_end(h, mnl_nlmsg_get_payload(h));
	nl_sock_open_io(&query, &io);
	nl_sock_open_io(&del, &io);
	ctnl_open(&c, query, del);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { 0 };
		uint64_t n = 0;

		memcpy(k.answers, cases[i].answers, sizeof(k.answers));
		for (int j = 0; j < 4; j++)
			ctnl_delete(c, &e);
		assert_int_equal(ctnl_delete_flush(c, &n, &err), cases[i].ret);
		assert_int_equal(n, cases[i].n_deleted);
	}
	ctnl_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
