/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Batches, dumps and attributes with a scripted kernel: answers, their order, and missing answers.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>

#include "base/vec.h"
#include "nl/attr.h"
#include "nl/batch.h"
#include "nl/dump.h"

#define SUBSYS 10 /* nf_tables */
#define TYPE(x) (SUBSYS << 8 | (x))

/* One answer: a datagram, or an error that recv gives. */
struct reply {
	int error;
	size_t len;
	_Alignas(8) uint8_t bytes[512];
};

struct script {
	uint8_t *sent; /* the last datagram */
	size_t sent_len;
	size_t n_sends;
	int send_error;
	VEC(struct reply) replies;
	size_t next;
	/* Called on each send to queue the answers; may be NULL. */
	void (*answer)(struct script *s);
	uint32_t seq0; /* of the first message sent */
	int round;
};

static ssize_t script_send(void *ctx, const void *data, size_t len)
{
	struct script *s = ctx;

	s->n_sends++;
	if (s->send_error != 0)
		return s->send_error;
	s->sent = xreallocarray(s->sent, len, 1);
	memcpy(s->sent, data, len);
	s->sent_len = len;
	s->seq0 = ((const struct nlmsghdr *)(const void *)s->sent)->nlmsg_seq;
	if (s->answer != NULL)
		s->answer(s);
	s->round++;
	return (ssize_t)len;
}

static ssize_t script_recv(void *ctx, void *data, size_t size)
{
	struct script *s = ctx;
	const struct reply *r;

	if (s->next == s->replies.n)
		return -EAGAIN;
	r = &s->replies.v[s->next++];
	if (r->error != 0)
		return r->error;
	if (r->len > size)
		return -EMSGSIZE;
	memcpy(data, r->bytes, r->len);
	return (ssize_t)r->len;
}

static struct reply *reply_new(struct script *s)
{
	struct reply *r = vec_push(&s->replies);

	memset(r, 0, sizeof(*r));
	return r;
}

static void say_error(struct script *s, int error)
{
	reply_new(s)->error = error;
}

static struct nlmsghdr *say(struct script *s, uint16_t type, uint16_t flags, uint32_t seq)
{
	struct reply *r = reply_new(s);
	struct nlmsghdr *h = mnl_nlmsg_put_header(r->bytes);

	h->nlmsg_type = type;
	h->nlmsg_flags = flags;
	h->nlmsg_seq = seq;
	r->len = h->nlmsg_len;
	return h;
}

static void said(struct script *s)
{
	struct reply *r = &s->replies.v[s->replies.n - 1];

	r->len = ((const struct nlmsghdr *)(const void *)r->bytes)->nlmsg_len;
}

/* A verdict on message `seq` with the attributes of NETLINK_EXT_ACK. */
static void say_verdict(struct script *s, uint32_t seq, int error, const char *text,
			const uint32_t *offset)
{
	uint16_t tlvs = text != NULL || offset != NULL ? NLM_F_ACK_TLVS : 0;
	struct nlmsghdr *h = say(s, NLMSG_ERROR, NLM_F_CAPPED | tlvs, seq);
	struct nlmsgerr *e = mnl_nlmsg_put_extra_header(h, sizeof(*e));

	e->error = error;
	if (text != NULL)
		mnl_attr_put_strz(h, NLMSGERR_ATTR_MSG, text);
	if (offset != NULL)
		mnl_attr_put_u32(h, NLMSGERR_ATTR_OFFS, *offset);
	said(s);
}

struct world {
	struct script s;
	struct nl_sock *nl;
	struct nl_batch *b;
	struct err err;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	nl_sock_open_io(&w->nl, &(struct nl_io){ script_send, script_recv, NULL, &w->s });
	nl_batch_open(&w->b, w->nl);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	nl_batch_close(w->b);
	nl_sock_close(w->nl);
	vec_fini(&w->s.replies);
	free(w->s.sent);
	free(w);
	return 0;
}

/* Three messages with the tags "a", "b", "c". */
static void three(struct world *w)
{
	static const char *const tags[] = { "a", "b", "c" };

	for (size_t i = 0; i < 3; i++)
		mnl_attr_put_strz(nl_batch_msg(w->b, (uint16_t)TYPE(i), 0, 2, tags[i]), 1, tags[i]);
}

static void ack_last(struct script *s)
{
	say_verdict(s, s->seq0 + 3, 0, NULL, NULL);
}

static void test_frame(void **state)
{
	struct world *w = *state;
	const struct nlmsghdr *h;
	const struct nfgenmsg *g;
	size_t left;

	nl_batch_reset(w->b);
	three(w);
	assert_int_equal(nl_batch_count(w->b), 3);
	w->s.answer = ack_last;
	assert_int_equal(nl_batch_commit(w->b, &w->err), 0);
	h = (const void *)w->s.sent;
	assert_int_equal(h->nlmsg_type, NFNL_MSG_BATCH_BEGIN);
	g = mnl_nlmsg_get_payload(h);
	assert_int_equal(ntohs(g->res_id), SUBSYS);
	left = w->s.sent_len;
	for (uint32_t i = 1; i <= 3; i++) {
		left -= MNL_ALIGN(h->nlmsg_len);
		h = (const void *)((const char *)h + MNL_ALIGN(h->nlmsg_len));
		assert_int_equal(h->nlmsg_type, TYPE(i - 1));
		assert_int_equal(h->nlmsg_seq, w->s.seq0 + i);
		/* One acknowledgement, for the last. */
		assert_int_equal(h->nlmsg_flags & NLM_F_ACK, i == 3 ? NLM_F_ACK : 0);
	}
	left -= MNL_ALIGN(h->nlmsg_len);
	h = (const void *)((const char *)h + MNL_ALIGN(h->nlmsg_len));
	assert_int_equal(h->nlmsg_type, NFNL_MSG_BATCH_END);
	assert_int_equal(left, h->nlmsg_len);
	assert_int_equal(nl_sock_stats(w->nl)->n_sends, 1);
	assert_int_equal(nl_batch_rejection(w->b)->error, 0);
}

static void test_empty(void **state)
{
	struct world *w = *state;

	assert_int_equal(nl_batch_commit(w->b, &w->err), 0);
	assert_int_equal(w->s.n_sends, 0);
}

static void refuse_second(struct script *s)
{
	uint32_t offset = 20;

	say_verdict(s, s->seq0 + 2, -EEXIST, "so there", &offset);
	say_verdict(s, s->seq0 + 3, -ENOENT, NULL, NULL); /* because of the former */
	say_verdict(s, s->seq0 + 3, 0, NULL, NULL);
}

static void refuse_all(struct script *s)
{
	say_verdict(s, s->seq0, -ERESTART, NULL, NULL);
}

/* As the kernel's commit phase. */
static void lack_memory(struct script *s)
{
	say_verdict(s, s->seq0 + 1, -ENOMEM, NULL, NULL);
}

static void say_nothing(struct script *s)
{
}

static void overflow_then_ack(struct script *s)
{
	say_error(s, -ENOBUFS);
	ack_last(s);
}

static void overflow_then_refusal(struct script *s)
{
	say_error(s, -ENOBUFS);
	say_verdict(s, s->seq0 + 1, -EINVAL, NULL, NULL);
}

static void strangers_then_ack(struct script *s)
{
	say_verdict(s, s->seq0 - 1, -EPERM, NULL, NULL); /* of an earlier batch */
	say_verdict(s, s->seq0 + 5, -EPERM, NULL, NULL);
	(void)say(s, NLMSG_NOOP, 0, s->seq0 + 1);
	ack_last(s);
}

static void positive_error(struct script *s)
{
	say_verdict(s, s->seq0 + 1, 5, NULL, NULL);
}

static void truncated(struct script *s)
{
	(void)say(s, NLMSG_ERROR, 0, s->seq0 + 1);
	ack_last(s);
}

static void cut_datagram(struct script *s)
{
	say_verdict(s, s->seq0 + 1, -EPERM, NULL, NULL);
	s->replies.v[s->replies.n - 1].len -= 4; /* length exceeds the data */
	ack_last(s);
}

static void recv_fails(struct script *s)
{
	say_error(s, -ENOMEM);
}

static const struct {
	const char *what;
	void (*answer)(struct script *s);
	int ret;
	const char *tag;
	const char *text;
} verdict_cases[] = {
	{ "acknowledged", ack_last, 0, NULL, "" },
	{ "first refusal voids the rest", refuse_second, -EEXIST, "b", "File exists: so there" },
	{ "the batch as a whole", refuse_all, -ERESTART, NULL,
	  "Interrupted system call should be restarted" },
	{ "no memory", lack_memory, -ENOMEM, NULL, "Cannot allocate memory" },
	{ "silence", say_nothing, -ENOBUFS, NULL, "answer lost; outcome unknown" },
	{ "overflow, then the ACK", overflow_then_ack, -ENOBUFS, NULL,
	  "answer lost; outcome unknown" },
	{ "overflow, then a refusal", overflow_then_refusal, -EINVAL, "a", "Invalid argument" },
	{ "others' answers", strangers_then_ack, 0, NULL, "" },
	{ "no errno", positive_error, -EBADMSG, "a", "Bad message" },
	{ "too short", truncated, -EBADMSG, "a", "Bad message" },
	{ "cut off", cut_datagram, 0, NULL, "" },
	{ "cannot read", recv_fails, -ENOBUFS, NULL,
	  "receive answer: Cannot allocate memory; outcome unknown" },
};

static void test_verdicts(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(verdict_cases); i++) {
		const struct nl_rejection *f;

		print_message("    %s\n", verdict_cases[i].what);
		vec_clear(&w->s.replies);
		w->s.next = 0;
		w->err.text[0] = '\0';
		nl_batch_reset(w->b);
		three(w);
		w->s.answer = verdict_cases[i].answer;
		assert_int_equal(nl_batch_commit(w->b, &w->err), verdict_cases[i].ret);
		assert_string_equal(w->err.text, verdict_cases[i].text);
		f = nl_batch_rejection(w->b);
		if (verdict_cases[i].tag != NULL)
			assert_string_equal(f->tag, verdict_cases[i].tag);
		else
			assert_null(f->tag);
		assert_int_equal(f->msg != NULL, verdict_cases[i].tag != NULL);
	}
}

static void test_send_fails(void **state)
{
	struct world *w = *state;

	three(w);
	w->s.send_error = -EMSGSIZE;
	assert_int_equal(nl_batch_commit(w->b, &w->err), -EMSGSIZE);
	assert_string_equal(w->err.text, "batch of 124 bytes: larger than the socket allows");
	nl_batch_reset(w->b);
	three(w);
	w->s.send_error = -EPERM;
	assert_int_equal(nl_batch_commit(w->b, &w->err), -EPERM);
	assert_int_equal(nl_sock_stats(w->nl)->n_sends, 0);
}

/* The offset of the kernel and its tag: shared bytes, then "a", "b", "b", "c". */
static const struct {
	const char *what;
	bool has_offset;
	int32_t offset; /* from the begin of the first tagged byte; each tag has 8 bytes */
	const char *tag;
} tag_cases[] = {
	{ "first", true, 0, "a" },          { "inside the first", true, 7, "a" },
	{ "second", true, 8, "b" },         { "third, same as second", true, 16, "b" },
	{ "last", true, 24, "c" },          { "last byte", true, 31, "c" },
	{ "shared bytes", true, -4, NULL }, { "behind the message", true, 32, NULL },
	{ "nowhere", false, 0, NULL },
};

static uint32_t tag_offset;
static bool tag_has_offset;

static void refuse_at(struct script *s)
{
	say_verdict(s, s->seq0 + 2, -EEXIST, NULL, tag_has_offset ? &tag_offset : NULL);
}

static void test_tags(void **state)
{
	static const char *const tags[] = { "a", "b", "b", "c" };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(tag_cases); i++) {
		struct nlmsghdr *h;
		uint32_t begin;

		print_message("    %s\n", tag_cases[i].what);
		nl_batch_reset(w->b);
		(void)nl_batch_msg(w->b, TYPE(1), 0, 2, "before");
		h = nl_batch_msg(w->b, TYPE(1), 0, 2, NULL);
		mnl_attr_put_u32(h, 1, 1);
		begin = h->nlmsg_len;
		for (size_t k = 0; k < ARRAY_SIZE(tags); k++) {
			nl_batch_tag(w->b, tags[k]);
			mnl_attr_put_u32(h, 2, (uint32_t)k);
		}
		(void)nl_batch_msg(w->b, TYPE(1), 0, 2, "after");
		tag_has_offset = tag_cases[i].has_offset;
		tag_offset = begin + (uint32_t)tag_cases[i].offset;
		w->s.answer = refuse_at;
		assert_int_equal(nl_batch_commit(w->b, NULL), -EEXIST);
		assert_int_equal(nl_batch_rejection(w->b)->index, 1);
		if (tag_cases[i].tag != NULL)
			assert_string_equal(nl_batch_rejection(w->b)->tag, tag_cases[i].tag);
		else
			assert_null(nl_batch_rejection(w->b)->tag);
	}
}

/* Without an offset a message yields its only tag. */
static void test_only_tag(void **state)
{
	struct world *w = *state;

	(void)nl_batch_msg(w->b, TYPE(1), 0, 2, "before");
	mnl_attr_put_u32(nl_batch_msg(w->b, TYPE(1), 0, 2, NULL), 1, 1);
	nl_batch_tag(w->b, "a");
	tag_has_offset = false;
	w->s.answer = refuse_at;
	assert_int_equal(nl_batch_commit(w->b, NULL), -EEXIST);
	assert_string_equal(nl_batch_rejection(w->b)->tag, "a");
}

/* Messages stay intact when the batch grows. */
static void test_growth(void **state)
{
	static uint8_t block[60000];
	struct world *w = *state;
	const struct nlmsghdr *h;

	for (unsigned int i = 0; i < 100; i++) {
		memset(block, (int)i, sizeof(block));
		mnl_attr_put(nl_batch_msg(w->b, TYPE(1), 0, 2, NULL), 1, sizeof(block), block);
	}
	assert_true(nl_batch_bytes(w->b) > 6000000);
	w->s.answer = NULL;
	assert_int_equal(nl_batch_commit(w->b, NULL), -ENOBUFS);
	assert_int_equal(w->s.sent_len, nl_batch_bytes(w->b));
	h = (const void *)w->s.sent;
	for (unsigned int i = 0; i < 100; i++) {
		const uint8_t *p;

		h = (const void *)((const char *)h + MNL_ALIGN(h->nlmsg_len));
		p = (const uint8_t *)h + MNL_NLMSG_HDRLEN + sizeof(struct nfgenmsg) +
		    MNL_ATTR_HDRLEN;
		assert_int_equal(p[0], i);
		assert_int_equal(p[sizeof(block) - 1], i);
	}
}

static void test_sequence(void **state)
{
	struct world *w = *state;

	assert_int_equal(nl_sock_seq(w->nl, 1), 1);
	assert_int_equal(nl_sock_seq(w->nl, 3), 2);
	assert_int_equal(nl_sock_seq(w->nl, UINT32_MAX - 10), 5);
	/* A run does not wrap: 0 is the mark of notifications. */
	assert_int_equal(nl_sock_seq(w->nl, 10), 1);
}

/* Dumps. */
struct reading {
	size_t begun;
	size_t messages;
};

static void reading_begin(void *arg)
{
	struct reading *rd = arg;

	rd->begun++;
	rd->messages = 0;
}

static void reading_message(void *arg, const struct nlmsghdr *h)
{
	struct reading *rd = arg;

	rd->messages++;
}

static void say_piece(struct script *s, uint16_t flags, uint16_t generation)
{
	struct nlmsghdr *h = say(s, TYPE(1), NLM_F_MULTI | flags, s->seq0);
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->res_id = htons(generation);
	said(s);
}

static void say_done(struct script *s, int error, uint16_t flags)
{
	struct nlmsghdr *h = say(s, NLMSG_DONE, NLM_F_MULTI | flags, s->seq0);
	int *code = mnl_nlmsg_put_extra_header(h, sizeof(*code));

	*code = error;
	said(s);
}

static void dump_two(struct script *s)
{
	say_piece(s, 0, 9);
	say_piece(s, 0, 9);
	say_done(s, 0, 0);
}

static void dump_interrupted_twice(struct script *s)
{
	say_piece(s, 0, 9);
	say_piece(s, s->round == 0 ? NLM_F_DUMP_INTR : 0, 9);
	say_done(s, 0, s->round == 1 ? NLM_F_DUMP_INTR : 0);
}

static void dump_generations(struct script *s)
{
	say_piece(s, 0, 9);
	say_piece(s, 0, s->round == 0 ? 10 : 9);
	say_done(s, 0, 0);
}

static void dump_never_quiet(struct script *s)
{
	say_piece(s, 0, 9);
	say_done(s, 0, NLM_F_DUMP_INTR);
}

static void dump_starts_late(struct script *s)
{
	if (s->round < 2)
		say_verdict(s, s->seq0, -EINTR, NULL, NULL);
	else
		dump_two(s);
}

static void dump_refused(struct script *s)
{
	say_verdict(s, s->seq0, -ENOENT, "no such table", NULL);
}

static void dump_fails_late(struct script *s)
{
	say_piece(s, 0, 9);
	say_done(s, -ENOMEM, 0);
}

static void dump_stops_short(struct script *s)
{
	say_piece(s, 0, 9);
}

static void dump_overflows(struct script *s)
{
	say_piece(s, 0, 9);
	say_error(s, -ENOBUFS);
	say_done(s, 0, 0);
}

static void dump_stale(struct script *s)
{
	struct nlmsghdr *h = say(s, TYPE(1), NLM_F_MULTI, s->seq0 - 1);

	(void)h;
	dump_two(s);
}

static const struct {
	const char *what;
	void (*answer)(struct script *s);
	int ret;
	size_t begun, messages;
	bool is_scoped;
} dump_cases[] = {
	{ "two pieces", dump_two, 0, 1, 2 },
	{ "interrupted twice", dump_interrupted_twice, 0, 3, 2 },
	{ "another generation", dump_generations, 0, 2, 2 },
	{ "interrupted always", dump_never_quiet, -EAGAIN, NL_DUMP_TRIES, 1 },
	{ "scoped: interrupted", dump_interrupted_twice, 0, 1, 2, .is_scoped = true },
	{ "scoped: another generation", dump_generations, 0, 1, 2, .is_scoped = true },
	{ "scoped: rejected twice", dump_starts_late, 0, 3, 2, .is_scoped = true },
	{ "refused", dump_refused, -ENOENT, 1, 0 },
	{ "fails underway", dump_fails_late, -ENOMEM, 1, 1 },
	{ "ends without a word", dump_stops_short, -EIO, 1, 1 },
	{ "overflow", dump_overflows, -ENOBUFS, 1, 1 },
	{ "pieces of another question", dump_stale, 0, 1, 2 },
};

static int dump(struct world *w, struct reading *rd, bool is_scoped)
{
	char buf[64];

	return nl_dump(w->nl, nl_request_nfnl(buf, sizeof(buf), TYPE(1), 2),
		       &(struct nl_reader){ reading_begin, reading_message, rd, is_scoped },
		       &w->err);
}

static void test_dumps(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(dump_cases); i++) {
		struct reading rd = { 0 };
		struct world *w;

		print_message("    %s\n", dump_cases[i].what);
		setup((void **)&w);
		w->s.answer = dump_cases[i].answer;
		assert_int_equal(dump(w, &rd, dump_cases[i].is_scoped), dump_cases[i].ret);
		assert_int_equal(rd.begun, dump_cases[i].begun);
		assert_int_equal(rd.messages, dump_cases[i].messages);
		/* Nothing is left for the next request. */
		if (dump_cases[i].ret != -EIO)
			assert_int_equal(w->s.next, w->s.replies.n);
		teardown((void **)&w);
	}
}

static void query_half(struct script *s)
{
	uint32_t offset = 40;

	say_piece(s, 0, 9);
	say_verdict(s, s->seq0, -ENOENT, NULL, &offset);
}

static void test_query(void **state)
{
	struct world *w = *state;
	struct reading rd = { 0 };
	struct nl_reader reader = { .message = reading_message, .arg = &rd };
	struct nl_bad bad;
	char buf[64];

	w->s.answer = query_half;
	assert_int_equal(nl_query(w->nl, nl_request_nfnl(buf, sizeof(buf), TYPE(1), 2), &reader,
				  &bad, &w->err),
			 -ENOENT);
	assert_int_equal(rd.messages, 1);
	assert_true(bad.has_offset);
	assert_int_equal(bad.offset, 40);
	assert_string_equal(w->err.text, "netlink request 2561: No such file or directory");
}

/* Attributes with a wrong length. */
static void test_attrs(void **state)
{
	_Alignas(8) uint8_t buf[64] = { 0 };
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	const struct nlattr *tb[4];
	struct nlattr *a;

	(void)mnl_nlmsg_put_extra_header(h, sizeof(struct nfgenmsg));
	mnl_attr_put_u32(h, 1, htonl(7));
	mnl_attr_put(h, 2, 3, "abc"); /* no terminator */
	mnl_attr_put_u32(h, 9, 1);    /* unknown */
	mnl_attr_put_strz(h, 3, "x");
	nl_attr_table(tb, 3, h, sizeof(struct nfgenmsg));
	assert_int_equal(nl_attr_be32(tb[1], 0), 7);
	assert_int_equal(nl_attr_be64(tb[1], 99), 99);
	assert_string_equal(nl_attr_str(tb[2]), "");
	assert_string_equal(nl_attr_str(tb[3]), "x");
	assert_null(tb[0]);

	a = (void *)(buf + MNL_NLMSG_HDRLEN + sizeof(struct nfgenmsg));
	a->nla_len = 3; /* shorter than a header */
	nl_attr_table(tb, 3, h, sizeof(struct nfgenmsg));
	assert_null(tb[1]);
	a->nla_len = 200; /* longer than the message */
	nl_attr_table(tb, 3, h, sizeof(struct nfgenmsg));
	assert_null(tb[1]);
	h->nlmsg_len = MNL_NLMSG_HDRLEN; /* shorter than the family header */
	nl_attr_table(tb, 3, h, sizeof(struct nfgenmsg));
	assert_null(tb[1]);
	nl_attr_nest(tb, 3, NULL);
	assert_null(tb[1]);
	assert_null(nl_attr_next(NULL, NULL));
	assert_int_equal(nl_attr_be32(NULL, 5), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_frame, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(test_verdicts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_send_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tags, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_tag, setup, teardown),
		cmocka_unit_test_setup_teardown(test_growth, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sequence, setup, teardown),
		cmocka_unit_test(test_dumps),
		cmocka_unit_test_setup_teardown(test_query, setup, teardown),
		cmocka_unit_test(test_attrs),
	};

	return cmocka_run_group_tests_name("nl", tests, NULL, NULL);
}
