/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Behaviour of tables with an owner, and the process in notifications of changes: assumptions of
 * plane/nft/layout, plane/nft/guard and nft/watch.
 */
#include "kernel.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "nft/fixed.h"
#include "nft/watch.h"
#include "plane/nft/layout.h"

#define OWNED (NFT_TABLE_F_OWNER | NFT_FIXED_TABLE_F_PERSIST)

static int table_write(struct nl_sock *nl, const char *name, uint16_t how, uint32_t flags)
{
	AUTO(nl_batch_close) struct nl_batch *b = NULL;
	struct nlmsghdr *h;

	nl_batch_open(&b, nl);
	h = kernel_msg(b, NFT_MSG_NEWTABLE, how, NULL);
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, name);
	mnl_attr_put_u32(h, NFTA_TABLE_FLAGS, htonl(flags));
	return kernel_commit(b);
}

static int table_new(struct nl_sock *nl, const char *name, uint32_t flags)
{
	return table_write(nl, name, NLM_F_CREATE | NLM_F_EXCL, flags);
}

/* 77 in the sense of meson: older kernels have no such tables. */
static bool is_lacking(uint32_t flags)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	int r = table_new(nl, "probe", flags);

	if (r == 0)
		return false;
	FACT(r == -EOPNOTSUPP || r == -EINVAL, "an unknown flag of a table: %d\n", r);
	print_message("    no tables with flags %x: skipped\n", flags);
	return true;
}

static void test_owner_in_the_kernel(void **state)
{
	struct nl_sock *a = kernel_sock();
	struct nl_sock *b = kernel_sock();

	if (is_lacking(OWNED))
		goto end;
	assert_int_equal(kernel_fresh(NULL), 0);
	nl_sock_close(a);
	nl_sock_close(b);
	a = kernel_sock();
	b = kernel_sock();
	FACT(table_new(a, "t", OWNED) == 0, "an owned table cannot be made\n");
	/* Foreign changes of any kind. */
	FACT(sh("nft flush ruleset") == 0, "a flush fails on owned tables\n");
	FACT(sh("nft list tables | grep -q 'ip t$'") == 0, "a flush takes owned tables\n");
	FACT(sh("nft delete table ip t 2>/dev/null") != 0, "others delete owned tables\n");
	FACT(sh("nft add chain ip t c 2>/dev/null") != 0, "others write to owned tables\n");
	FACT(table_write(b, "t", 0, OWNED) == -EPERM, "others claim owned tables\n");
	FACT(table_write(a, "t", 0, NFT_FIXED_TABLE_F_PERSIST) == -EOPNOTSUPP,
	     "an owner can let go\n");
	/* The owner ends. */
	nl_sock_close(a);
	a = kernel_sock();
	FACT(sh("nft list tables | grep -q 'ip t$'") == 0, "a persistent table goes\n");
	FACT(table_write(b, "t", 0, 0) == -EOPNOTSUPP, "persistence can be taken away\n");
	FACT(table_write(b, "t", 0, OWNED) == 0, "nobody can claim it\n");
	FACT(table_write(a, "t", 0, OWNED) == -EPERM, "somebody else claims it, too\n");
	/* A table created without an owner stays without. */
	FACT(table_new(a, "plain", 0) == 0, "no table at all\n");
	FACT(table_write(a, "plain", 0, OWNED) == -EOPNOTSUPP, "a plain table can be claimed\n");
end:
	nl_sock_close(a);
	nl_sock_close(b);
}

/* Without persistence: Linux 5.12. */
static void test_owner_takes_it_along(void **state)
{
	struct nl_sock *a, *b;
	uint32_t genid;

	if (is_lacking(NFT_TABLE_F_OWNER))
		return;
	assert_int_equal(kernel_fresh(NULL), 0);
	a = kernel_sock();
	b = kernel_sock();
	FACT(table_new(a, "t", NFT_TABLE_F_OWNER) == 0, "an owned table cannot be made\n");
	FACT(table_new(b, "left", 0) == 0, "no table at all\n");
	FACT(sh("nft flush ruleset && test \"$(nft list tables)\" = 'table ip t'") == 0,
	     "a flush takes owned tables, or leaves others\n");
	FACT(table_write(b, "t", 0, NFT_TABLE_F_OWNER) == -EPERM, "others write to owned tables\n");
	genid = kernel_genid(b);
	nl_sock_close(a);
	FACT(sh("test -z \"$(nft list tables)\"") == 0, "the table outlives its owner\n");
	FACT(kernel_genid(b) == genid, "its end is a new generation\n");
	FACT(table_new(b, "t", 0) == 0 && table_write(b, "t", 0, NFT_TABLE_F_OWNER) == -EOPNOTSUPP,
	     "a plain table can be claimed\n");
	nl_sock_close(b);
}

/* One process: load, apply, retire. */
struct life {
	struct nl_sock *nl;
	struct nft_layout *l;
	struct nft_result res;
	enum nft_layout_state found;
};

static int life_run(struct life *w, bool is_owned, struct err *err)
{
	static const struct plane_rules_params params;
	int r;

	*w = (struct life){ .nl = kernel_sock() };
	nft_kind_reset();
	nft_layout_open(&w->l, w->nl, IPFAM_V4);
	nft_layout_own(w->l, is_owned);
	assert_int_equal(nft_layout_load(w->l, err), 0);
	w->found = w->l->state;
	r = nft_layout_apply(w->l, &params, &w->res, err);
	return r < 0 ? r : nft_layout_retire(w->l, &w->res, err);
}

static void life_end(struct life *w)
{
	nft_layout_close(w->l);
	nl_sock_close(w->nl);
}

static void life(bool is_owned, enum nft_layout_state found, size_t n_writes)
{
	struct err err = { 0 };
	struct life w;

	if (life_run(&w, is_owned, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(w.found, found);
	assert_true(n_writes == SIZE_MAX ? w.res.n_writes > 100 : w.res.n_writes == n_writes);
	assert_int_equal(nft_layout_is_owner(w.l), is_owned);
	assert_int_equal(sh("test $(nft list tables | wc -l) = 1"), 0);
	life_end(&w);
}

static void test_layout_with_an_owner(void **state)
{
	struct err err = { 0 };
	struct life w, other;

	if (is_lacking(OWNED))
		return;
	assert_int_equal(kernel_fresh(NULL), 0);
	life(true, NFT_LAYOUT_ABSENT, SIZE_MAX);
	life(true, NFT_LAYOUT_PRESENT, 1);
	life(false, NFT_LAYOUT_OBSOLETE, SIZE_MAX);
	life(false, NFT_LAYOUT_PRESENT, 0);
	life(true, NFT_LAYOUT_OBSOLETE, SIZE_MAX);

	/* Another process makes it dormant while it has no owner: claimed and active in one
	 * write. */
	assert_int_equal(sh("nft list tables | grep -q 'vipd$'"), 0);
	w.nl = kernel_sock();
	assert_int_equal(
		table_write(w.nl, "vipd", 0, NFT_FIXED_TABLE_F_PERSIST | NFT_TABLE_F_DORMANT), 0);
	nl_sock_close(w.nl);
	life(true, NFT_LAYOUT_PRESENT, 1);
	assert_int_equal(sh("! nft list tables dormant 2>/dev/null | grep -q vipd"), 0);

	/* Two at once: the second gets an error. */
	assert_int_equal(life_run(&w, true, &err), 0);
	assert_int_equal(life_run(&other, true, &err), -EPERM);
	assert_non_null(strstr(err.text, "is owned by another running process"));
	assert_int_equal(nft_layout_cleanup(other.l, NULL, &err), -EPERM);
	life_end(&other);
	assert_int_equal(sh("nft flush ruleset; nft list table ip vipd | grep -q services"), 0);
	life_end(&w);

	/* Without an owner, it can be removed. */
	assert_int_equal(life_run(&w, true, &err), 0);
	life_end(&w);
	w.nl = kernel_sock();
	nft_layout_open(&w.l, w.nl, IPFAM_V4);
	assert_int_equal(nft_layout_cleanup(w.l, NULL, &err), 0);
	life_end(&w);
	assert_int_equal(sh("test -z \"$(nft list tables)\""), 0);
}

static bool has_news(struct nl_sock *nl, int timeout_ms)
{
	struct pollfd p = { .fd = nl_sock_fd(nl), .events = POLLIN };

	return poll(&p, 1, timeout_ms) > 0;
}

static void test_process_names(void **state)
{
	char text[NFT_WATCH_TEXT_MAX];
	struct nl_sock *nl = kernel_sock();
	struct nl_sock *cmd = kernel_sock();
	struct nl_sock *other = kernel_sock();
	const int small = 16384;
	struct nft_watch w;
	uint64_t n_recvs;
	struct err err = { 0 };

	nft_watch_init(&w);
	assert_int_equal(nft_watch_join(&w, nl, cmd, &err), 0);
	nft_watch_read(&w);
	nft_watch_text(&w, text);
	assert_string_equal(text, "another process");

	/* Own commits cause no notification, foreign ones cause one message. */
	assert_int_equal(table_new(cmd, "ours", 0), 0);
	assert_false(has_news(nl, 0));
	assert_int_equal(sh("nft add table ip x"), 0);
	FACT(has_news(nl, 1000), "a commit causes no notification\n");
	nft_watch_read(&w);
	FACT(nl_sock_stats(nl)->n_recvs == 1, "more than one message a commit passes\n");
	nft_watch_text(&w, text);
	FACT(strncmp(text, "nft (pid ", 9) == 0, "the process is not named: %s\n", text);
	assert_null(strstr(text, "others"));
	nft_watch_reset(&w);

	/* An element of vipd's behind another message of the transaction. */
	assert_int_equal(sh("nft 'table ip vipd { set vips { type ipv4_addr; elements = "
			    "{ 10.0.0.9 }; }; }'"),
			 0);
	nft_watch_read(&w);
	nft_watch_reset(&w);
	assert_int_equal(sh("nft 'add table ip y; delete element ip vipd vips { 10.0.0.9 }'"), 0);
	nft_watch_read(&w);
	assert_true(nft_watch_touches_addr(&w, IPFAM_V4, (const uint8_t[]){ 10, 0, 0, 9 }));
	nft_watch_reset(&w);

	/* Of a single element of another table only the message about the process. */
	assert_int_equal(sh("nft 'add set ip y s { type ipv4_addr; }'"), 0);
	nft_watch_read(&w);
	n_recvs = nl_sock_stats(nl)->n_recvs;
	assert_int_equal(sh("nft 'add element ip y s { 10.0.0.9 }'"), 0);
	nft_watch_read(&w);
	FACT(nl_sock_stats(nl)->n_recvs == n_recvs + 1, "an element of another table passes\n");
	nft_watch_reset(&w);

	/* More notifications than the socket's buffer: reading continues. */
	assert_int_equal(
		setsockopt(nl_sock_fd(nl), SOL_SOCKET, SO_RCVBUFFORCE, &small, sizeof(small)), 0);
	for (int i = 0; i < 200; i++) {
		(void)snprintf(text, sizeof(text), "t%d", i);
		assert_int_equal(table_new(other, text, 0), 0);
	}
	nft_watch_read(&w);
	FACT(nl_sock_stats(nl)->n_recvs < 100, "the socket holds more than it should\n");
	assert_false(has_news(nl, 0));
	assert_int_equal(sh("nft add table ip last"), 0);
	assert_true(has_news(nl, 1000));
	nft_watch_read(&w);
	nft_watch_text(&w, text);
	assert_non_null(strstr(text, "and others"));
	nft_watch_fini(&w);
	nl_sock_close(other);
	nl_sock_close(cmd);
	nl_sock_close(nl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_owner_in_the_kernel, kernel_fresh),
		cmocka_unit_test_setup(test_owner_takes_it_along, kernel_fresh),
		cmocka_unit_test_setup(test_layout_with_an_owner, kernel_fresh),
		cmocka_unit_test_setup(test_process_names, kernel_fresh),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests(tests, NULL, NULL);
}
