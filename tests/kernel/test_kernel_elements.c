/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assumptions of the plane about set elements: operations without effect, rejected operations, and
 * a rejection undoes the whole batch.
 */
#include "kernel.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <unistd.h>

#include "nft/write.h"
#include "nl/attr.h"
#include "nl/dump.h"
#include "plane/nft/layout.h"

#define TYPE(msg) (NFNL_SUBSYS_NFTABLES << 8 | (msg))

/* An element of `endpoints` of family ip. */
struct key {
	uint32_t word;
	uint32_t slot;
};

struct data {
	uint8_t addr[4];
	uint16_t port;
	uint16_t pad;
};

/* 10.0.0.<last>:80 */
static struct data backend(uint8_t last)
{
	return (struct data){ .addr = { 10, 0, 0, last }, .port = htons(80) };
}

static struct key slot(uint32_t slot)
{
	return (struct key){ .word = nft_word(1, 0), .slot = slot };
}

struct world {
	struct nl_sock *nl;
	struct nl_batch *b;
	struct nft_layout *layout;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	const struct plane_rules_params params = { 0 };
	struct err err;

	if (kernel_fresh(NULL) != 0)
		return -1;
	w->nl = kernel_sock();
	nl_batch_open(&w->b, w->nl);
	nft_layout_open(&w->layout, w->nl, IPFAM_V4);
	if (nft_layout_load(w->layout, &err) < 0 ||
	    nft_layout_apply(w->layout, &params, NULL, &err) < 0) {
		print_error("%s\n", err.text);
		return -1;
	}
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	nft_layout_close(w->layout);
	nl_batch_close(w->b);
	nl_sock_close(w->nl);
	free(w);
	return 0;
}

static void add(struct world *w, uint16_t flags, uint32_t at, uint8_t last)
{
	struct nlmsghdr *h = kernel_msg(w->b, NFT_MSG_NEWSETELEM, NLM_F_CREATE | flags, NULL);
	struct nlattr *list = kernel_elems(h, w->layout->table, "endpoints");
	struct data d = backend(last);
	struct key k = slot(at);

	kernel_elem(h, &k, sizeof(k), &d, sizeof(d));
	mnl_attr_nest_end(h, list);
}

static void del(struct world *w, uint32_t at)
{
	struct nlmsghdr *h = kernel_msg(w->b, NFT_MSG_DELSETELEM, 0, NULL);
	struct nlattr *list = kernel_elems(h, w->layout->table, "endpoints");
	struct key k = slot(at);

	kernel_elem(h, &k, sizeof(k), NULL, 0);
	mnl_attr_nest_end(h, list);
}

/* The last byte of the address in each slot from 0 on; 0: empty. */
struct programmed {
	uint8_t last[512];
	size_t n;
};

static void held_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_SET_ELEM_LIST_MAX + 1];
	struct programmed *programmed = arg;

	nl_attr_table(tb, NFTA_SET_ELEM_LIST_MAX, h, sizeof(struct nfgenmsg));
	nl_attr_for_each (e, tb[NFTA_SET_ELEM_LIST_ELEMENTS]) {
		const struct nlattr *el[NFTA_SET_ELEM_MAX + 1], *k[NFTA_DATA_MAX + 1];
		const struct nlattr *d[NFTA_DATA_MAX + 1];
		const struct key *key;
		const struct data *data;

		nl_attr_nest(el, NFTA_SET_ELEM_MAX, e);
		nl_attr_nest(k, NFTA_DATA_MAX, el[NFTA_SET_ELEM_KEY]);
		nl_attr_nest(d, NFTA_DATA_MAX, el[NFTA_SET_ELEM_DATA]);
		key = nl_attr_bytes(k[NFTA_DATA_VALUE], sizeof(*key));
		data = nl_attr_bytes(d[NFTA_DATA_VALUE], sizeof(*data));
		assert_non_null(key);
		assert_non_null(data);
		assert_true(key->slot < ARRAY_SIZE(programmed->last));
		programmed->last[key->slot] = data->addr[3];
		programmed->n++;
	}
}

/* Read slots first..first+n-1 by key, in one message. */
static int read_keys(struct world *w, uint32_t first, uint32_t n, struct programmed *programmed,
		     struct nl_bad *bad, size_t *offset_of_last)
{
	static char buf[65536];
	struct nlmsghdr *h =
		nl_request_nfnl(buf, sizeof(buf), TYPE(NFT_MSG_GETSETELEM), NFPROTO_IPV4);
	struct nlattr *list = kernel_elems(h, w->layout->table, "endpoints");

	*programmed = (struct programmed){ 0 };
	for (uint32_t i = first; i < first + n; i++) {
		struct key k = slot(i);

		if (offset_of_last != NULL)
			*offset_of_last = h->nlmsg_len;
		kernel_elem(h, &k, sizeof(k), NULL, 0);
	}
	mnl_attr_nest_end(h, list);
	return nl_query(w->nl, h, &(struct nl_reader){ .message = held_message, .arg = programmed },
			bad, NULL);
}

/* The last byte of the backend in `at`; 0 = none. */
static uint8_t held_at(struct world *w, uint32_t at)
{
	struct programmed programmed;
	int r = read_keys(w, at, 1, &programmed, NULL, NULL);

	assert_true(r == 0 || r == -ENOENT);
	return programmed.last[at];
}

static void test_add_again(void **state)
{
	struct world *w = *state;

	add(w, NLM_F_EXCL, 0, 1);
	assert_int_equal(kernel_commit(w->b), 0);
	add(w, 0, 0, 1);
	FACT(kernel_commit(w->b) == 0, "adding an element again without EXCL is refused\n");
	add(w, NLM_F_EXCL, 0, 1);
	FACT(kernel_commit(w->b) == -EEXIST, "adding an element again with EXCL is accepted\n");
	assert_int_equal(held_at(w, 0), 1);
}

static void test_no_replace(void **state)
{
	struct world *w = *state;

	add(w, NLM_F_EXCL, 0, 1);
	assert_int_equal(kernel_commit(w->b), 0);
	add(w, 0, 5, 5);
	add(w, 0, 0, 2);
	FACT(kernel_commit(w->b) == -EEXIST, "other data for a key that exists is accepted\n");
	FACT(held_at(w, 0) == 1 && held_at(w, 5) == 0, "a refused batch leaves something behind\n");
}

static void test_replace(void **state)
{
	struct world *w = *state;
	uint32_t genid = kernel_genid(w->nl);

	add(w, NLM_F_EXCL, 0, 1);
	assert_int_equal(kernel_commit(w->b), 0);
	del(w, 0);
	add(w, NLM_F_EXCL, 0, 2);
	FACT(kernel_commit(w->b) == 0, "delete and add of one key in one batch is refused\n");
	assert_int_equal(held_at(w, 0), 2);
	del(w, 0);
	add(w, NLM_F_EXCL, 0, 3);
	del(w, 0);
	add(w, NLM_F_EXCL, 0, 4);
	FACT(kernel_commit(w->b) == 0, "delete, add, delete, add in one batch is refused\n");
	assert_int_equal(held_at(w, 0), 4);
	add(w, NLM_F_EXCL, 1, 1);
	del(w, 1);
	FACT(kernel_commit(w->b) == 0, "add and delete of one key in one batch is refused\n");
	assert_int_equal(held_at(w, 1), 0);
	FACT(kernel_genid(w->nl) == genid + 4, "4 commits raised the generation by %u\n",
	     kernel_genid(w->nl) - genid);
}

static void test_delete_missing(void **state)
{
	struct world *w = *state;

	add(w, NLM_F_EXCL, 0, 1);
	assert_int_equal(kernel_commit(w->b), 0);
	add(w, NLM_F_EXCL, 1, 1);
	del(w, 7);
	FACT(kernel_commit(w->b) == -ENOENT, "deleting what is not there is accepted\n");
	assert_int_equal(held_at(w, 1), 0);
	del(w, 0);
	del(w, 0);
	FACT(kernel_commit(w->b) == -ENOENT, "deleting an element twice is accepted\n");
	FACT(held_at(w, 0) == 1, "a refused batch deleted an element\n");
}

/* Adoption reads slots by key: many in one request, in its order. */
static void test_read_by_key(void **state)
{
	struct world *w = *state;
	struct nl_bad bad;
	struct programmed programmed;
	size_t last;
	const uint32_t n = 500;

	for (uint32_t i = 0; i < n; i++)
		add(w, NLM_F_EXCL, i, (uint8_t)(i % 250 + 1));
	assert_int_equal(kernel_commit(w->b), 0);
	assert_int_equal(read_keys(w, 0, n, &programmed, &bad, NULL), 0);
	FACT(programmed.n == n, "%zu of %u keys were answered\n", programmed.n, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(programmed.last[i], i % 250 + 1);

	/* Keys before a missing one are still answered. */
	assert_int_equal(read_keys(w, n - 10, 11, &programmed, &bad, &last), -ENOENT);
	FACT(programmed.n == 10, "%zu of 10 keys before a missing one were answered\n",
	     programmed.n);
	print_message("    a missing key is %spointed at\n", bad.has_offset ? "" : "not ");
	if (bad.has_offset)
		assert_int_equal(bad.offset, last);
}

static int verdict_add(struct world *w, const char *map, uint32_t kind, int32_t code,
		       const char *chain)
{
	struct nlmsghdr *h = kernel_msg(w->b, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, NULL);
	struct nlattr *list = kernel_elems(h, w->layout->table, map);
	struct nlattr *e = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	struct nlattr *n = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);

	mnl_attr_put(h, NFTA_DATA_VALUE, sizeof(kind), &kind);
	mnl_attr_nest_end(h, n);
	n = mnl_attr_nest_start(h, NFTA_SET_ELEM_DATA);
	struct nlattr *v = mnl_attr_nest_start(h, NFTA_DATA_VERDICT);
	mnl_attr_put_u32(h, NFTA_VERDICT_CODE, htonl((uint32_t)code));
	mnl_attr_put_strz(h, NFTA_VERDICT_CHAIN, chain);
	mnl_attr_nest_end(h, v);
	mnl_attr_nest_end(h, n);
	mnl_attr_nest_end(h, e);
	mnl_attr_nest_end(h, list);
	return kernel_commit(w->b);
}

/* Why there are three verdict maps. */
static void test_loops_are_refused(void **state)
{
	struct world *w = *state;
	int r = verdict_add(w, "leaves", 0x777, NFT_GOTO, "xl");

	FACT(r == -ELOOP || r == -EMLINK, "leaves -> xl -> leaves is answered with %d\n", r);
	r = verdict_add(w, "kinds_x", 0x777, NFT_JUMP, "fw");
	FACT(r == -ELOOP || r == -EMLINK, "kinds_x -> fw -> kinds_x is answered with %d\n", r);
	FACT(verdict_add(w, "kinds", 0x777, NFT_JUMP, "nowhere") == -ENOENT,
	     "a verdict may lead to a chain that does not exist\n");
	assert_int_equal(verdict_add(w, "kinds", 0x777, NFT_JUMP, "p1"), 0);
}

/* A set `s` of 64 ports, to which a rule adds, and from which one deletes, those of datagrams. */
static void ports_make(const char *interval)
{
	assert_int_equal(
		sh("nft 'table ip t { set s { type inet_service; flags dynamic,timeout; size 64; "
		   "timeout 1m; %s }; chain c { type filter hook output priority 0; "
		   "udp dport > 0 update @s { udp dport } counter; "
		   "udp dport > 0 delete @s { udp dport }; }; }'",
		   interval),
		0);
}

/* Send datagrams to 100 ports; how many in all the set accepted. */
static unsigned long ports_accepted(void)
{
	AUTO(free) char *text = NULL;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	AUTO(close) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (uint16_t i = 1; i <= 100; i++) {
		to.sin_port = htons(i);
		assert_int_equal(sendto(fd, "", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	}
	text = sh_text("nft list chain ip t c | grep -o 'packets [0-9]*' | cut -d' ' -f2");
	return strtoul(text, NULL, 10);
}

/* plane/failover: how many flows a second fit into its sets. */
static void test_deleted_by_rules(void **state)
{
	static const struct nft_schema schema = { .comment = "", .begin = NFTSET_END };
	static const enum nft_set_id ids[] = { FAILSET_HANDSHAKES, FAILSET_UDP_FLOWS };
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	FINI(nft_writer_fini) struct nft_writer w;
	unsigned long n;

	assert_int_equal(sh("ip link set lo up"), 0);
	ports_make("gc-interval 1h;");
	n = ports_accepted();
	FACT(n == 64, "a set of 64 accepted %lu elements that were deleted at once\n", n);
	assert_int_equal(sh("nft delete table ip t"), 0);
	ports_make("gc-interval 100ms;");
	for (int i = 0; i < 600 && (n = ports_accepted()) <= 64; i++)
		usleep(100000);
	FACT(n > 64, "deleted elements are not collected\n");

	nft_writer_init(&w, nl, &schema, IPFAM_V4, "flows");
	nft_write_table(&w, 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		nft_write_set(&w, ids[i]);
	assert_int_equal(nft_writer_commit(&w, NULL, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_int_equal(sh("nft list set ip flows %s | grep -q 'gc-interval 100ms'",
				    nft_set_desc(ids[i], IPFAM_V4)->name),
				 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_add_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_replace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_delete_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_read_by_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loops_are_refused, setup, teardown),
		cmocka_unit_test_setup(test_deleted_by_rules, kernel_fresh),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests_name("kernel elements", tests, NULL, NULL);
}
