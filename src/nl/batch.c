/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nl/batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "nl/answer.h"
#include "nl/dump.h"

/* Room for BATCH_BEGIN, or BATCH_END. */
#define FRAME_MAX 64
/* Most batches have fewer bytes, and their buffers never grow. */
#define USUAL_BYTES 24576

/* Bytes of the buffer from `offset` on belong to `tag`. */
struct mark {
	size_t offset;
	const void *tag;
};

struct msg {
	size_t offset;
	size_t first_mark;
};

struct nl_batch {
	struct nl_sock *nl;
	uint8_t *buf; /* begin, messages, end: as sent */
	size_t cap;
	size_t used; /* up to the current message; its length is read when it is done */
	VEC(struct msg) msgs;
	VEC(struct mark) marks;
	uint32_t seq0; /* of the begin; message i has seq0 + 1 + i */
	bool is_acked; /* the last commit */
	struct nl_rejection rejection;
};

static struct nlmsghdr *header_at(const struct nl_batch *b, size_t offset)
{
	return (struct nlmsghdr *)(void *)(b->buf + offset);
}

/* Clear new memory: libmnl does not write padding. */
static void buffer_grow(struct nl_batch *b, size_t cap)
{
	b->buf = xreallocarray(b->buf, cap, 1);
	memset(b->buf + b->cap, 0, cap - b->cap);
	b->cap = cap;
}

/* Finish the current message and make room for `size` more bytes. */
static size_t append_at(struct nl_batch *b, size_t size)
{
	b->used = nl_batch_bytes(b);
	if (b->cap - b->used < size)
		buffer_grow(b, MAX(b->cap * 2, b->used + size));
	return b->used;
}

void nl_batch_open(struct nl_batch **ret, struct nl_sock *nl)
{
	struct nl_batch *b = xcalloc(1, sizeof(*b));

	b->nl = nl;
	nl_batch_reset(b);
	*ret = b;
}

void nl_batch_close(struct nl_batch *b)
{
	if (b == NULL)
		return;
	vec_fini(&b->msgs);
	vec_fini(&b->marks);
	free(b->buf);
	free(b);
}

void nl_batch_reset(struct nl_batch *b)
{
	vec_clear(&b->msgs);
	vec_clear(&b->marks);
	b->rejection = (struct nl_rejection){ 0 };
	b->used = 0;
	if (b->cap == 0)
		buffer_grow(b, USUAL_BYTES + NL_BATCH_MSG_MAX + FRAME_MAX);
	(void)nl_request_nfnl(b->buf, FRAME_MAX, NFNL_MSG_BATCH_BEGIN, AF_UNSPEC);
}

struct nlmsghdr *nl_batch_msg(struct nl_batch *b, uint16_t type, uint16_t flags, uint8_t family,
			      const void *tag)
{
	size_t at = append_at(b, NL_BATCH_MSG_MAX + FRAME_MAX);
	struct nlmsghdr *h = nl_request_nfnl(b->buf + at, NL_BATCH_MSG_MAX, type, family);
	struct nfgenmsg *begin = mnl_nlmsg_get_payload(header_at(b, 0));

	h->nlmsg_flags |= flags;
	begin->res_id = htons((uint16_t)NFNL_SUBSYS_ID(type)); /* that of all messages */
	*vec_push(&b->msgs) = (struct msg){ .offset = at, .first_mark = b->marks.n };
	*vec_push(&b->marks) = (struct mark){ .offset = at, .tag = tag };
	return h;
}

void nl_batch_tag(struct nl_batch *b, const void *tag)
{
	struct mark *last;

	assert(b->msgs.n > 0);
	last = &b->marks.v[b->marks.n - 1];
	if (last->tag != tag)
		*vec_push(&b->marks) = (struct mark){ .offset = nl_batch_bytes(b), .tag = tag };
}

size_t nl_batch_count(const struct nl_batch *b)
{
	return b->msgs.n;
}

size_t nl_batch_bytes(const struct nl_batch *b)
{
	const struct nlmsghdr *h = header_at(b, b->used);

	/* A longer message has overrun the buffer already. */
	assert(h->nlmsg_len <= NL_BATCH_MSG_MAX);
	return b->used + MNL_ALIGN(h->nlmsg_len);
}

/* The tag of marks [first, end) if there is only one, else NULL. */
static const void *tag_only(const struct nl_batch *b, size_t first, size_t end)
{
	const void *tag = NULL;

	for (size_t m = first; m < end; m++) {
		const void *t = b->marks.v[m].tag;

		if (t != NULL && tag != NULL && t != tag)
			return NULL;
		if (t != NULL)
			tag = t;
	}
	return tag;
}

/* The tag of the byte of message `i` at `offset`, or the message's only tag. */
static const void *tag_find(const struct nl_batch *b, size_t i, bool has_offset, uint32_t offset)
{
	size_t first = b->msgs.v[i].first_mark;
	size_t end = i + 1 < b->msgs.n ? b->msgs.v[i + 1].first_mark : b->marks.n;
	size_t at = b->msgs.v[i].offset + offset;
	const void *tag = NULL;

	if (!has_offset)
		return tag_only(b, first, end);
	for (size_t m = first; m < end && b->marks.v[m].offset <= at; m++)
		tag = b->marks.v[m].tag;
	return tag != NULL ? tag : tag_only(b, first, end);
}

/* Keep the first error: later messages of the batch often fail because of it. */
static void rejection_keep(struct nl_batch *b, size_t i, int error, const struct nl_extack *x)
{
	struct nl_rejection *f = &b->rejection;

	if (f->error != 0)
		return;
	f->error = error;
	snprintf(f->detail, sizeof(f->detail), "%s", x->detail);
	/*
	 * Begin or end: the batch as a whole. The kernel reports lack of memory in its commit phase
	 * for the first message, too.
	 */
	if (i == 0 || i > b->msgs.n || (i == 1 && error == -ENOMEM && !x->bad.has_offset))
		return;
	f->index = i - 1;
	f->msg = header_at(b, b->msgs.v[i - 1].offset);
	/* Ignore an offset outside the message. */
	f->has_offset = x->bad.has_offset && x->bad.offset < f->msg->nlmsg_len;
	f->offset = f->has_offset ? x->bad.offset : 0;
	f->tag = tag_find(b, i - 1, f->has_offset, f->offset);
}

static void verdict(void *arg, size_t i, int r, const struct nl_extack *x)
{
	struct nl_batch *b = arg;

	if (r == 0)
		b->is_acked = true;
	else
		rejection_keep(b, i, r, x);
}

static int verdicts_read(struct nl_batch *b, struct err *err)
{
	int r;

	b->is_acked = false;
	r = nl_verdicts_read(b->nl, b->seq0, b->msgs.n + 2, verdict, b);
	if (r < 0 && r != -ENOBUFS)
		return err_set(err, -ENOBUFS, "receive answer: %s; outcome unknown", strerror(-r));
	if (b->rejection.error != 0)
		return b->rejection.error;
	if (b->is_acked && r == 0)
		return 0;
	return err_set(err, -ENOBUFS, "answer lost; outcome unknown");
}

static void seal(struct nl_batch *b)
{
	size_t end = append_at(b, FRAME_MAX);
	struct nlmsghdr *h;

	b->seq0 = nl_sock_seq(b->nl, (uint32_t)b->msgs.n + 2);
	header_at(b, 0)->nlmsg_seq = b->seq0;
	for (size_t i = 0; i < b->msgs.n; i++)
		header_at(b, b->msgs.v[i].offset)->nlmsg_seq = b->seq0 + 1 + (uint32_t)i;
	header_at(b, b->msgs.v[b->msgs.n - 1].offset)->nlmsg_flags |= NLM_F_ACK;
	h = nl_request_nfnl(b->buf + end, FRAME_MAX, NFNL_MSG_BATCH_END, AF_UNSPEC);
	h->nlmsg_seq = b->seq0 + 1 + (uint32_t)b->msgs.n;
}

static int commit(struct nl_batch *b, struct err *err)
{
	size_t bytes = nl_batch_bytes(b);
	int r;

	nl_sock_muted_set(b->nl, NETLINK_DROP_MEMBERSHIP);
	r = nl_sock_send(b->nl, b->buf, bytes);
	nl_sock_muted_set(b->nl, NETLINK_ADD_MEMBERSHIP);
	if (r == -EMSGSIZE)
		return err_set(err, r, "batch of %zu bytes: larger than the socket allows", bytes);
	if (r < 0)
		return err_set(err, r, "send batch of %zu bytes: %s", bytes, strerror(-r));
	r = verdicts_read(b, err);
	if (b->rejection.error == 0)
		return r;
	return err_set(err, r, "%s%s%s", strerror(-r), b->rejection.detail[0] != '\0' ? ": " : "",
		       b->rejection.detail);
}

int nl_batch_commit(struct nl_batch *b, struct err *err)
{
	struct nl_account *account = nl_sock_stats(b->nl)->account;
	uint64_t began = account != NULL ? now_ns() : 0;
	int r;

	if (b->msgs.n == 0)
		return 0;
	seal(b);
	r = commit(b, err);
	if (account != NULL) {
		account->n_commits += r == 0;
		hist_add(&account->times, now_ns() - began);
	}
	return r;
}

const struct nl_rejection *nl_batch_rejection(const struct nl_batch *b)
{
	return &b->rejection;
}
