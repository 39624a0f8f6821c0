/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixed layout in a real kernel, compared with nft: its listing, nft's own bytes for equal
 * declarations, and restarts after foreign changes.
 */
#include "kernel.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"
#include "nl/attr.h"
#include "nl/dump.h"
#include "plane/nft/layout.h"

/* Base configuration: detect-local by CIDR, one service CIDR, both families. */
static struct ip_prefix pods[8], services[8];
static struct plane_rules_params cidrs;

static struct ip_prefix prefix(const char *text)
{
	struct ip_prefix p = { 0 };
	struct err err;

	if (ip_prefix_parse(&p, text, &err) < 0)
		fail_msg("%s", err.text);
	return p;
}

static void cidrs_make(void)
{
	pods[0] = prefix("10.244.0.0/16");
	pods[1] = prefix("fd00:10:244::/56");
	services[0] = prefix("10.96.0.0/12");
	services[1] = prefix("fd00:10:96::/112");
	cidrs = (struct plane_rules_params){ .detect = DETECT_LOCAL_CLUSTER_CIDR,
					     .has_detector = { true, true },
					     .pod_cidrs = pods,
					     .n_pod_cidrs = 2,
					     .service_cidrs = services,
					     .n_service_cidrs = 2 };
}

/* The layout of one family in a new process. */
struct world {
	struct nl_sock *nl;
	struct nft_layout *l;
	struct nft_result res; /* of the last run() */
};

static enum plane_counting counting; /* what start() asks for */

static void start(struct world *w, enum ipfam fam)
{
	nft_kind_reset();
	memset(w, 0, sizeof(*w));
	w->nl = kernel_sock();
	nft_layout_open(&w->l, w->nl, fam);
	w->l->counting = counting;
}

static void stop(struct world *w)
{
	nft_layout_close(w->l);
	nl_sock_close(w->nl);
}

/* Load and apply; returns the state that load found. */
static enum nft_layout_state run(struct world *w, const struct plane_rules_params *params)
{
	enum nft_layout_state found;
	struct err err = { 0 };

	w->res = (struct nft_result){ 0 };
	if (nft_layout_load(w->l, &err) < 0)
		fail_msg("load: %s", err.text);
	found = w->l->state;
	if (nft_layout_apply(w->l, params, &w->res, &err) < 0)
		fail_msg("apply: %s", err.text);
	assert_int_equal(w->l->state, NFT_LAYOUT_PRESENT);
	assert_int_not_equal(w->l->handle, 0);
	return found;
}

/* Start a process, apply, end it. Returns the number of writes. */
static size_t restart(enum ipfam fam, const struct plane_rules_params *params,
		      enum nft_layout_state expected)
{
	struct world w;
	size_t n;

	start(&w, fam);
	assert_int_equal(run(&w, params), expected);
	n = w.res.n_writes;
	assert_true((n == 0) == (w.res.n_batches == 0));
	stop(&w);
	return n;
}

/* Sizes and timeouts beside p1..p16, so that every form of chain exists. */
static void need(struct world *w, struct nft_result *res)
{
	const uint16_t kinds[] = { nft_pool_class(17, 0),    nft_pool_class(70, 0),
				   nft_pool_class(3, 10800), nft_pool_class(70, 60),
				   NFT_KIND_HASH_ADDR,       NFT_KIND_HASH_PORT,
				   NFT_KIND_REJECT,          3 };
	struct err err = { 0 };

	if (nft_layout_chains_need(w->l, kinds, ARRAY_SIZE(kinds), res, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_true(nft_layout_has_kind(w->l, kinds[i]));
}

static void both_families(void)
{
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		struct world w;

		start(&w, fam);
		assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_ABSENT);
		assert_int_equal(w.res.n_batches, 1);
		need(&w, NULL);
		stop(&w);
	}
}

/* As text, in an order independent of creation. */
static char *listing(void)
{
	return sh_text("nft -s list ruleset 2>&1 | sort");
}

/* nft lists, loads the listing into a new namespace, and lists equally again. */
static int reload(void)
{
	return sh("t=$(mktemp) && nft list ruleset >$t && "
		  "unshare -n sh -c 'nft -f '$t' && nft list ruleset' | cmp - $t; "
		  "r=$?; rm -f $t; exit $r");
}

static void test_listing_loads_back(void **state)
{
	char *text;

	both_families();
	text = sh_text("nft list ruleset 2>&1");
	assert_non_null(strstr(text, "table ip vipd"));
	assert_non_null(strstr(text, "table ip6 vipd"));
	assert_null(strstr(text, "Error"));
	assert_null(strstr(text, "Warning"));
	FACT(reload() == 0, "(or nft) a listing that is loaded is listed otherwise\n");
	free(text);
}

/* All sets of a table in the kernel's description. */
struct set {
	char name[32];
	uint32_t flags, key_type, key_len, data_type, data_len;
	uint64_t timeout;
	uint8_t desc[64], userdata[NFT_SET_USERDATA_MAX];
	size_t desc_len, userdata_len;
};

struct sets {
	VEC(struct set) v;
};

static size_t bytes_of(uint8_t *to, size_t size, const struct nlattr *a)
{
	size_t n = a != NULL ? mnl_attr_get_payload_len(a) : 0;

	assert_true(n <= size);
	if (n > 0)
		memcpy(to, mnl_attr_get_payload(a), n);
	return n;
}

static void set_message(void *arg, const struct nlmsghdr *h)
{
	const struct nlattr *tb[NFTA_SET_MAX + 1];
	struct sets *sets = arg;
	struct set *s = vec_push(&sets->v);

	nl_attr_table(tb, NFTA_SET_MAX, h, sizeof(struct nfgenmsg));
	memset(s, 0, sizeof(*s));
	/* Inline sets are numbered: treat all as one. nft 1.1 omits their size. */
	snprintf(s->name, sizeof(s->name), "%s", nl_attr_str(tb[NFTA_SET_NAME]));
	if (strncmp(s->name, "__set", 5) == 0) {
		s->name[5] = '\0';
		tb[NFTA_SET_DESC] = NULL;
	}
	s->flags = nl_attr_be32(tb[NFTA_SET_FLAGS], 0);
	s->key_type = nl_attr_be32(tb[NFTA_SET_KEY_TYPE], 0);
	s->key_len = nl_attr_be32(tb[NFTA_SET_KEY_LEN], 0);
	s->data_type = nl_attr_be32(tb[NFTA_SET_DATA_TYPE], 0);
	s->data_len = nl_attr_be32(tb[NFTA_SET_DATA_LEN], 0);
	s->timeout = nl_attr_be64(tb[NFTA_SET_TIMEOUT], 0);
	s->desc_len = bytes_of(s->desc, sizeof(s->desc), tb[NFTA_SET_DESC]);
	s->userdata_len = bytes_of(s->userdata, sizeof(s->userdata), tb[NFTA_SET_USERDATA]);
}

static int set_cmp(const void *a, const void *b)
{
	const struct set *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Sorted by name, with one inline set. */
static void sets_read(struct sets *sets, enum ipfam fam)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	char buf[256];
	struct err err;
	struct nlmsghdr *h =
		nl_request_nfnl(buf, sizeof(buf), NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSET,
				fam == IPFAM_V6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
	size_t n = 0;

	mnl_attr_put_strz(h, NFTA_SET_TABLE, "vipd");
	if (nl_dump(nl, h, &(struct nl_reader){ NULL, set_message, sets }, &err) < 0)
		fail_msg("%s", err.text);
	qsort(sets->v.v, sets->v.n, sizeof(*sets->v.v), set_cmp);
	for (size_t i = 0; i < sets->v.n; i++) {
		if (n == 0 || set_cmp(&sets->v.v[n - 1], &sets->v.v[i]) != 0)
			sets->v.v[n++] = sets->v.v[i];
	}
	vec_cut(&sets->v, n);
}

/* sed's commands that replace the rules of fw_ranges by those of IPv6. */
static const char *ranges_v6(void)
{
	static const unsigned int lens[] = { 128, 112, 96, 80, 64, 48,  32,  16,  120, 104, 88,
					     72,  56,  40, 24, 8,  124, 116, 108, 100, 92,  84,
					     76,  68,  60, 52, 44, 36,  28,  20,  12,  4 };
	static char text[4096];
	size_t n = (size_t)snprintf(text, sizeof(text), "/@fw_ranges/d; /chain fw_check {/a ");

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		unsigned int len = lens[i];
		struct ip_prefix p = { .addr = { .family = AF_INET6 }, .len = (uint8_t)len };
		char mask[IP_TEXT_MAX + 4] = "";

		memset(p.addr.bytes, 0xff, len / 8);
		if (len % 8 != 0)
			p.addr.bytes[len / 8] = 0xf0;
		if (len < 128)
			memcpy(mask, " & ", 4);
		if (len < 128)
			ip_addr_text(&p.addr, mask + 3);
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "meta priority & 0xfffff000 ^ 0x%x . ip6 saddr%s @fw_ranges "
				      "return\\n",
				      len, mask);
	}
	assert_true(n < sizeof(text));
	return text;
}

/* Load the reference for one family with nft into a new namespace. */
static void reference_load(enum ipfam fam)
{
	static const char *const words[IPFAM_N] = {
		"",
		"s/table ip /table ip6 /; s/ipv4_addr/ipv6_addr/g; s/ip saddr/ip6 saddr/g; "
		"s/ip daddr/ip6 daddr/g; s/dnat ip to/dnat ip6 to/; s/rt ip /rt ip6 /",
	};

	/* What counting adds. */
	static const char count[] =
		"/map endpoints/s/ }$/ counter; }/; /map aff_endpoints/s/ }$/ counter; }/; "
		"/map aff_endpoints/a set counted { typeof ip daddr . meta l4proto . th dport; counter; }\n"
		"/map aff_endpoints/a set refused { typeof ip daddr . meta l4proto . th dport; counter; }\n"
		"/chain services/a ip daddr . meta l4proto . th dport @counted\n"
		"/chain reject_conn/a ip daddr . meta l4proto . th dport @refused\n"
		"/chain drop_conn/a ip daddr . meta l4proto . th dport @refused\n"
		"/chain fw_check {/,/}/s/counter drop/ip daddr . meta l4proto . th dport @refused\\n&/\n";

	assert_int_equal(kernel_fresh(NULL), 0);
	assert_int_equal(sh("sed -e '%s' reference.nft | sed -e '%s' | sed -e '%s' | nft -f -",
			    counting != PLANE_COUNT_NONE ? count : "", words[fam],
			    fam == IPFAM_V6 ? ranges_v6() : ""),
			 0);
}

static void ours_load(enum ipfam fam)
{
	struct world w;

	assert_int_equal(kernel_fresh(NULL), 0);
	start(&w, fam);
	assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_ABSENT);
	need(&w, NULL);
	stop(&w);
}

/* nft 1.1 keeps the expression of a key also where the set was declared with `type`. */
static void key_typeof_drop(struct set *nfts, const struct set *ours)
{
	size_t at = ours->userdata_len;

	if (nfts->userdata_len <= at || nfts->userdata[at] != NFTNL_UDATA_SET_KEY_TYPEOF ||
	    at + 2 + nfts->userdata[at + 1] != nfts->userdata_len)
		return;
	memset(nfts->userdata + at, 0, nfts->userdata_len - at);
	nfts->userdata_len = at;
}

/* nft's listing depends on userdata: bytes equal to nft's own. */
static void test_sets_as_nft_makes_them(void **state)
{
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		struct sets ours = { 0 }, nfts = { 0 };

		ours_load(fam);
		sets_read(&ours, fam);
		reference_load(fam);
		sets_read(&nfts, fam);
		assert_int_equal(ours.v.n,
				 counting != PLANE_COUNT_NONE ? NFTSET_N + 1 : NFTSET_N - 1);
		assert_int_equal(nfts.v.n, ours.v.n);
		for (size_t i = 0; i < ours.v.n; i++) {
			print_message("    IPv%d %s\n", fam == IPFAM_V6 ? 6 : 4, ours.v.v[i].name);
			assert_string_equal(ours.v.v[i].name, nfts.v.v[i].name);
			key_typeof_drop(&nfts.v.v[i], &ours.v.v[i]);
			assert_memory_equal(&ours.v.v[i], &nfts.v.v[i], sizeof(struct set));
		}
		vec_fini(&ours.v);
		vec_fini(&nfts.v);
	}
}

/* The rules equal nft's listing of the reference line by line. */
static void test_rules_as_nft_makes_them(void **state)
{
	/* Beyond the reference: chains of the sizes 17 and 70 with affinity, elements. */
	static const char list[] = "nft -s -t list ruleset | awk '/chain (p17|a72-60) /{skip=1} "
				   "!skip {print} /^\t}/ {skip=0}' | grep -v '^$' | sort";

	for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
		char *ours, *nfts;

		ours_load(fam);
		ours = sh_text("%s", list);
		reference_load(fam);
		nfts = sh_text("%s", list);
		assert_string_equal(ours, nfts);
		free(ours);
		free(nfts);
	}
}

static void test_counting_as_nft_makes_it(void **state)
{
	counting = PLANE_COUNT_ENDPOINTS;
	test_sets_as_nft_makes_them(state);
	test_rules_as_nft_makes_them(state);
	counting = PLANE_COUNT_NONE;
}

/*
 * Sets with counters are added beside the others; a table with another level of counting is
 * replaced. A restart at the same level writes nothing.
 */
static void test_counting_changes(void **state)
{
	static const struct {
		enum plane_counting counting;
		enum nft_layout_state found;
	} order[] = {
		{ PLANE_COUNT_NONE, NFT_LAYOUT_ABSENT },
		{ PLANE_COUNT_SERVICES, NFT_LAYOUT_PRESENT },
		{ PLANE_COUNT_ENDPOINTS, NFT_LAYOUT_OBSOLETE },
		{ PLANE_COUNT_SERVICES, NFT_LAYOUT_OBSOLETE },
		{ PLANE_COUNT_NONE, NFT_LAYOUT_OBSOLETE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (int again = 0; again < 2; again++) {
			struct world w;
			struct err err;

			counting = order[i].counting;
			start(&w, IPFAM_V4);
			assert_int_equal(run(&w, &cidrs),
					 again ? NFT_LAYOUT_PRESENT : order[i].found);
			assert_int_equal(w.res.n_writes == 0, again);
			assert_int_equal(w.l->programmed.has_set[NFTSET_COUNTED],
					 counting != PLANE_COUNT_NONE);
			assert_int_equal(nft_layout_retire(w.l, NULL, &err), 0);
			stop(&w);
		}
	assert_int_equal(sh("test $(nft list tables ip | wc -l) = 1"), 0);
}

static void test_restart_writes_nothing(void **state)
{
	char *before, *after;

	both_families();
	before = listing();
	assert_int_equal(restart(IPFAM_V4, &cidrs, NFT_LAYOUT_PRESENT), 0);
	assert_int_equal(restart(IPFAM_V6, &cidrs, NFT_LAYOUT_PRESENT), 0);
	after = listing();
	assert_string_equal(before, after);
	free(before);
	free(after);
}

/* A new process uses the numbers of the old one. */
static void test_restart_adopts_kinds(void **state)
{
	struct world w;
	uint16_t a, b;

	start(&w, IPFAM_V4);
	(void)nft_pool_class(9, 999); /* never created: its number is free after the restart */
	run(&w, &cidrs);
	need(&w, NULL);
	a = nft_pool_class(3, 10800);
	b = nft_pool_class(70, 60);
	assert_int_equal(a, NFT_KIND_AFFINITY + 1);
	stop(&w);

	start(&w, IPFAM_V4);
	assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_PRESENT);
	assert_int_equal(nft_pool_class(9, 998), NFT_KIND_AFFINITY);
	assert_int_equal(nft_pool_class(3, 10800), a);
	assert_int_equal(nft_pool_class(70, 60), b);
	assert_true(nft_layout_has_kind(w.l, a));
	assert_true(nft_layout_has_kind(w.l, nft_pool_class(17, 0)));
	assert_false(nft_layout_has_kind(w.l, nft_pool_class(18, 0)));
	stop(&w);
}

static void test_chains_need(void **state)
{
	struct nft_result res = { 0 };
	struct err err = { 0 };
	struct world w;

	start(&w, IPFAM_V4);
	run(&w, &cidrs);
	assert_true(nft_layout_has_kind(w.l, NFT_KIND_PRECREATED));
	assert_false(nft_layout_has_kind(w.l, NFT_KIND_PRECREATED + 1));
	/* The chains first, what leads to them after. */
	need(&w, &res);
	assert_int_equal(res.n_batches, 2);
	res = (struct nft_result){ 0 };
	need(&w, &res);
	assert_int_equal(res.n_batches, 0);
	assert_int_equal(nft_layout_chains_need(w.l, (uint16_t[]){ 0x300 }, 1, NULL, &err),
			 -EINVAL);
	assert_string_equal(err.text, "kind 0x300 leads to no chain");
	stop(&w);
	assert_int_equal(restart(IPFAM_V4, &cidrs, NFT_LAYOUT_PRESENT), 0);
}

/* Foreign changes of our table as commands; each is repaired. */
static const struct {
	const char *what;
	const char *command;
} edits[] = {
	{ "rules of a chain gone", "nft flush chain ip vipd services" },
	{ "all rules gone", "nft flush table ip vipd" },
	{ "a rule in front", "nft insert rule ip vipd prerouting counter" },
	{ "a rule behind", "nft add rule ip vipd p3 drop" },
	{ "a rule replaced",
	  "nft replace rule ip vipd forward handle "
	  "$(nft -a list chain ip vipd forward | sed -n 's/.*drop # handle //p') accept" },
	{ "rules of an affinity chain gone", "nft flush chain ip vipd a3-10800" },
	{ "the rule of all affinity chains gone", "nft flush chain ip vipd aff_dnat" },
	{ "a verdict gone", "nft delete element ip vipd kinds '{ 0:1 }'" },
	{ "a verdict changed", "nft 'delete element ip vipd leaves { 0:3 }; "
			       "add element ip vipd leaves { 0:3 : goto p4 }'" },
	{ "all verdicts gone", "nft flush map ip vipd kinds" },
	{ "one CIDR more", "nft add element ip vipd pod_cidrs '{ 192.168.0.0/16 }'" },
	{ "CIDRs gone", "nft flush set ip vipd service_cidrs" },
	{ "policy drop", "nft 'chain ip vipd forward { policy drop; }'" },
	{ "asleep", "nft add table ip vipd '{ flags dormant; }'" },
	{ "a base chain gone", "nft 'flush chain ip vipd input; delete chain ip vipd input'" },
	{ "a pick chain gone",
	  "nft 'delete element ip vipd kinds { 0:9 }; delete element ip vipd kinds_x { 0:9 }; "
	  "delete element ip vipd leaves { 0:9 }; flush chain ip vipd p9; "
	  "delete chain ip vipd p9'" },
	{ "a set gone", "nft 'flush chain ip vipd postrouting; delete set ip vipd masq_hosts'" },
	{ "a map gone", "nft 'flush chain ip vipd xl_outside; delete map ip vipd xl_local'" },
};

static void test_edits_are_put_right(void **state)
{
	char *before;

	both_families();
	before = listing();
	for (size_t i = 0; i < ARRAY_SIZE(edits); i++) {
		char *after;

		print_message("    %s\n", edits[i].what);
		assert_int_equal(sh("%s", edits[i].command), 0);
		assert_int_not_equal(restart(IPFAM_V4, &cidrs, NFT_LAYOUT_PRESENT), 0);
		after = listing();
		assert_string_equal(before, after);
		assert_int_equal(restart(IPFAM_V4, &cidrs, NFT_LAYOUT_PRESENT), 0);
		free(after);
	}
	assert_int_equal(restart(IPFAM_V6, &cidrs, NFT_LAYOUT_PRESENT), 0);
	free(before);
}

/* Objects of other software stay. */
static void test_strangers_stay(void **state)
{
	both_families();
	assert_int_equal(
		sh("nft 'table ip vipd { chain strange { drop; }; set odd { type mark; }; }'"), 0);
	assert_int_equal(restart(IPFAM_V4, &cidrs, NFT_LAYOUT_PRESENT), 0);
	assert_int_equal(sh("nft list chain ip vipd strange >/dev/null"), 0);
	assert_int_equal(sh("nft list set ip vipd odd >/dev/null"), 0);
}

/* Tables of ours that cannot be repaired in place. */
static const struct {
	const char *what;
	const char *ruleset;
} foreign[] = {
	{ "another version", "table ip vipd { comment \"vipd layout 0\"; chain x { }; }" },
	{ "a set of another type",
	  "table ip vipd { comment \"vipd layout 6\"; set vips { type inet_service; }; }" },
	{ "a set that is a map",
	  "table ip vipd { comment \"vipd layout 6\"; map vips { type ipv4_addr : mark; }; }" },
	{ "a chain at another hook",
	  "table ip vipd { comment \"vipd layout 6\"; "
	  "chain output { type nat hook prerouting priority -100; }; }" },
	{ "a chain at another priority", "table ip vipd { comment \"vipd layout 6\"; "
					 "chain output { type nat hook output priority -99; }; }" },
	{ "a base chain that is none",
	  "table ip vipd { comment \"vipd layout 6\"; chain output { }; }" },
	{ "a chain that became a base chain",
	  "table ip vipd { comment \"vipd layout 6\"; "
	  "chain services { type filter hook input priority 0; }; }" },
};

static void test_replacement(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		struct err err;
		struct world w;

		print_message("    %s\n", foreign[i].what);
		assert_int_equal(kernel_fresh(NULL), 0);
		assert_int_equal(sh("nft '%s'", foreign[i].ruleset), 0);
		start(&w, IPFAM_V4);
		assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_OBSOLETE);
		assert_string_equal(w.l->table, "vipd-2");
		/* The old one serves until the new one is filled. */
		assert_int_equal(sh("nft list table ip vipd >/dev/null"), 0);
		stop(&w);

		/* A killed replacement is continued. */
		start(&w, IPFAM_V4);
		assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_PRESENT);
		assert_int_equal(w.res.n_writes, 0);
		assert_string_equal(w.l->table, "vipd-2");
		assert_int_equal(nft_layout_retire(w.l, &w.res, &err), 0);
		assert_int_equal(w.res.n_writes, 1);
		assert_int_not_equal(sh("nft list table ip vipd 2>/dev/null"), 0);
		stop(&w);
		assert_int_equal(restart(IPFAM_V4, &cidrs, NFT_LAYOUT_PRESENT), 0);
	}
}

/* A foreign table with our name is neither changed nor deleted. */
static void test_name_is_taken(void **state)
{
	struct err err;
	struct world w;
	char *before, *after;

	assert_int_equal(sh("nft 'table ip vipd { chain x { drop; }; }; "
			    "table ip other { comment \"vip layout 1\"; }; table ip6 vipd { }'"),
			 0);
	before = listing();
	start(&w, IPFAM_V4);
	assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_ABSENT);
	assert_string_equal(w.l->table, "vipd-2");
	assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_PRESENT);
	assert_int_equal(w.res.n_writes, 0);
	assert_int_equal(nft_layout_retire(w.l, &w.res, &err), 0);
	assert_int_equal(nft_layout_cleanup(w.l, &w.res, &err), 0);
	assert_int_equal(w.res.n_writes, 1);
	assert_int_equal(w.l->state, NFT_LAYOUT_ABSENT);
	after = listing();
	assert_string_equal(before, after);
	free(before);
	free(after);
	stop(&w);
}

/* The rules that depend on configuration (MASQ-01, MASQ-02, MASQ-05). */
static const struct {
	const char *what;
	struct plane_rules_params params;
	const char *xl;         /* a line of chain xl; NULL: no line for detect-local */
	const char *masquerade; /* lines of postrouting */
	size_t n_masquerade;    /* number of lines for cluster IPs */
} variants[] = {
	{ "CIDRs",
	  { .detect = DETECT_LOCAL_NODE_CIDR, .has_detector = { true, true } },
	  "ip saddr != @pod_cidrs fib saddr type != local goto xl_outside",
	  "ip saddr != @pod_cidrs ct original ip daddr @cluster_ips masquerade fully-random",
	  1 },
	{ "bridge",
	  { .detect = DETECT_LOCAL_BRIDGE, .has_detector = { true, true }, .ifname = "br0" },
	  "iifname != \"br0\" fib saddr type != local goto xl_outside",
	  "iif 0 oifname != \"br0\" ct original ip daddr @cluster_ips masquerade fully-random",
	  3 },
	{ "longest name",
	  { .detect = DETECT_LOCAL_BRIDGE,
	    .has_detector = { true, true },
	    .ifname = "fifteencharname" },
	  "iifname != \"fifteencharname\" fib saddr type != local goto xl_outside",
	  "iif 0 oifname != \"fifteencharname\" ct original ip daddr @cluster_ips masquerade "
	  "fully-random",
	  3 },
	{ "prefix",
	  { .detect = DETECT_LOCAL_PREFIX, .has_detector = { true, true }, .ifname = "cali" },
	  "iifname != \"cali*\" fib saddr type != local goto xl_outside",
	  "iif 0 oifname != \"cali*\" ct original ip daddr @cluster_ips masquerade fully-random",
	  3 },
	{ "no CIDR for the family", { .detect = DETECT_LOCAL_CLUSTER_CIDR }, NULL, NULL, 0 },
	{ "no detector",
	  { .detect = DETECT_LOCAL_UNSET, .has_detector = { true, true } },
	  NULL,
	  NULL,
	  0 },
	{ "masquerade all, no detector",
	  { .is_masquerade_all = true },
	  NULL,
	  "ct original ip daddr @cluster_ips masquerade fully-random",
	  1 },
	{ "local source",
	  { .preserves_local_source = true },
	  NULL,
	  "proto-dst @masq_frontends ip daddr != @local_backends masquerade fully-random\n"
	  "\t\tmeta l4proto { tcp, udp, sctp } ct original ip daddr . meta l4proto . "
	  "ct original proto-dst @masq_frontends fib saddr type local masquerade fully-random",
	  0 },
	{ "masquerade all, detector",
	  { .detect = DETECT_LOCAL_PREFIX,
	    .has_detector = { true, true },
	    .is_masquerade_all = true,
	    .ifname = "veth" },
	  "iifname != \"veth*\" fib saddr type != local goto xl_outside",
	  "ct original ip daddr @cluster_ips masquerade fully-random",
	  1 },
};

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what)) != NULL) {
		text++;
		n++;
	}
	return n;
}

static void test_variants(void **state)
{
	struct world w;

	start(&w, IPFAM_V4);
	run(&w, &cidrs);
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		struct nft_result res = { 0 };
		struct err err = { 0 };
		char *xl, *post;

		print_message("    %s\n", variants[i].what);
		/* Changed while running: one transaction ... */
		assert_int_equal(nft_layout_apply(w.l, &variants[i].params, &res, &err), 0);
		assert_int_equal(res.n_batches, 1);
		xl = sh_text("nft list chain ip vipd xl");
		post = sh_text("nft list chain ip vipd postrouting");
		if (variants[i].xl != NULL)
			assert_non_null(strstr(xl, variants[i].xl));
		else
			assert_null(strstr(xl, "pod_cidrs"));
		if (variants[i].masquerade != NULL)
			assert_non_null(strstr(post, variants[i].masquerade));
		assert_int_equal(count(post, "@cluster_ips"), variants[i].n_masquerade);
		assert_int_equal(reload(), 0);
		free(xl);
		free(post);
		/* ... and nothing to do, now or after a restart. */
		res = (struct nft_result){ 0 };
		assert_int_equal(nft_layout_apply(w.l, &variants[i].params, &res, &err), 0);
		assert_int_equal(res.n_batches, 0);
		assert_int_equal(restart(IPFAM_V4, &variants[i].params, NFT_LAYOUT_PRESENT), 0);
		/* Only detect-local is changed back: variants differ from each other. */
		assert_int_equal(nft_layout_apply(w.l, &cidrs, NULL, &err), 0);
	}
	stop(&w);
}

/* NFT-46: no rule drops INVALID packets while conntrack is liberal; the rules are exchanged. */
static void test_liberal(void **state)
{
	struct plane_rules_params params = cidrs;
	struct world w;

	start(&w, IPFAM_V4);
	run(&w, &params);
	for (int i = 0; i < 4; i++) {
		struct nft_result res = { 0 };
		struct err err = { 0 };
		char *text;

		params.is_tcp_liberal = i % 2;
		assert_int_equal(nft_layout_apply(w.l, &params, &res, &err), 0);
		assert_true(i == 0 || res.n_batches == 1);
		text = sh_text("nft list chain ip vipd input; nft list chain ip vipd forward");
		assert_int_equal(count(text, "ct state invalid ip saddr"), i % 2 == 0 ? 2 : 0);
		free(text);
		assert_int_equal(restart(IPFAM_V4, &params, NFT_LAYOUT_PRESENT), 0);
	}
	stop(&w);
}

/* Prefixes and nft's listing of them. */
static const struct {
	const char *prefixes[5];
	const char *elements;
} range_cases[] = {
	{ { "10.0.0.0/8" }, "elements = { 10.0.0.0/8 }" },
	{ { "10.0.0.0/9", "10.128.0.0/9" }, "elements = { 10.0.0.0/8 }" },
	{ { "10.2.0.0/16", "10.0.0.0/8", "10.255.255.255/32" }, "elements = { 10.0.0.0/8 }" },
	{ { "10.1.0.0/16", "10.2.0.0/16", "192.168.0.0/16" },
	  "elements = { 10.1.0.0-10.2.255.255, 192.168.0.0/16 }" },
	{ { "0.0.0.0/0" }, "elements = { 0.0.0.0/0 }" },
	{ { "0.0.0.0/1", "128.0.0.0/1" }, "elements = { 0.0.0.0/0 }" },
	{ { "255.255.255.0/24", "1.0.0.0/8" }, "elements = { 1.0.0.0/8, 255.255.255.0/24 }" },
	{ { "255.255.255.255/32" }, "elements = { 255.255.255.255 }" },
	{ { "0.0.0.0/32" }, "elements = { 0.0.0.0 }" },
	{ { "fd00::/8" }, NULL },
	{ { NULL }, NULL },
};

static void test_ranges(void **state)
{
	struct world w;

	start(&w, IPFAM_V4);
	run(&w, &cidrs);
	for (size_t i = 0; i < ARRAY_SIZE(range_cases); i++) {
		struct plane_rules_params params = cidrs;
		struct ip_prefix list[5];
		struct err err = { 0 };
		char *text;
		size_t n = 0;

		while (range_cases[i].prefixes[n] != NULL) {
			list[n] = prefix(range_cases[i].prefixes[n]);
			n++;
		}
		print_message("    %s\n", range_cases[i].elements != NULL ? range_cases[i].elements
									  : "no elements");
		params.pod_cidrs = params.service_cidrs = list;
		params.n_pod_cidrs = params.n_service_cidrs = n;
		if (nft_layout_apply(w.l, &params, NULL, &err) < 0)
			fail_msg("%s", err.text);
		text = sh_text("for s in pod_cidrs service_cidrs; do nft list set ip vipd $s | "
			       "tr -d '\\n\\t' | sed 's/,/, /g'; done | tr -s ' '");
		if (range_cases[i].elements == NULL) {
			assert_null(strstr(text, "elements"));
		} else {
			const char *first = strstr(text, range_cases[i].elements);

			if (first == NULL || strstr(first + 1, range_cases[i].elements) == NULL)
				fail_msg("nft prints %s", text);
		}
		free(text);
		assert_int_equal(restart(IPFAM_V4, &params, NFT_LAYOUT_PRESENT), 0);
	}
	stop(&w);
}

/* Another process deletes the table: reported as such, and no state is valid any more. */
static void test_table_vanishes(void **state)
{
	uint16_t kind = nft_pool_class(40, 0);
	uint16_t rejected = nft_pool_class(41, 0);
	struct err err = { 0 };
	struct world w;

	start(&w, IPFAM_V4);
	run(&w, &cidrs);
	assert_int_equal(nft_layout_chains_need(w.l, &kind, 1, NULL, &err), 0);
	assert_int_equal(sh("nft flush ruleset"), 0);
	assert_int_equal(nft_layout_chains_need(w.l, &rejected, 1, NULL, &err), -ENOENT);
	assert_string_equal(err.text, "ip vipd: chain p41: No such file or directory");
	assert_int_equal(w.l->state, NFT_LAYOUT_UNKNOWN);
	assert_int_equal(nft_layout_apply(w.l, &cidrs, NULL, &err), -EINVAL);
	assert_int_equal(run(&w, &cidrs), NFT_LAYOUT_ABSENT);
	/* Chains that existed are created again. */
	assert_true(nft_layout_has_kind(w.l, kind));
	assert_false(nft_layout_has_kind(w.l, rejected));
	stop(&w);
}

static int group_setup(void **state)
{
	cidrs_make();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_listing_loads_back, kernel_fresh),
		cmocka_unit_test_setup(test_sets_as_nft_makes_them, kernel_fresh),
		cmocka_unit_test_setup(test_rules_as_nft_makes_them, kernel_fresh),
		cmocka_unit_test_setup(test_counting_as_nft_makes_it, kernel_fresh),
		cmocka_unit_test_setup(test_counting_changes, kernel_fresh),
		cmocka_unit_test_setup(test_restart_writes_nothing, kernel_fresh),
		cmocka_unit_test_setup(test_restart_adopts_kinds, kernel_fresh),
		cmocka_unit_test_setup(test_chains_need, kernel_fresh),
		cmocka_unit_test_setup(test_edits_are_put_right, kernel_fresh),
		cmocka_unit_test_setup(test_strangers_stay, kernel_fresh),
		cmocka_unit_test_setup(test_replacement, kernel_fresh),
		cmocka_unit_test_setup(test_name_is_taken, kernel_fresh),
		cmocka_unit_test_setup(test_variants, kernel_fresh),
		cmocka_unit_test_setup(test_liberal, kernel_fresh),
		cmocka_unit_test_setup(test_ranges, kernel_fresh),
		cmocka_unit_test_setup(test_table_vanishes, kernel_fresh),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests_name("kernel layout", tests, group_setup, NULL);
}
