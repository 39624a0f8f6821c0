/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chains of kube-proxy and reasons to keep them; iptables-save input and iptables-restore output;
 * virtual services of IPVS on a scripted kernel.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>

#include "cleanup/parts.h"

static bool is_owned(enum proxy p, const char *table, const char *chain)
{
	return xt_is_owned(&(struct xt_table){ .proxy = p, .name = table }, chain);
}

static void test_owned(void **state)
{
	static const struct {
		const char *table;
		const char *chain;
		bool is_owned;
	} cases[] = {
		{ "nat", "KUBE-SERVICES", true },
		{ "filter", "KUBE-SERVICES", true },
		{ "mangle", "KUBE-SERVICES", false },
		{ "raw", "KUBE-SERVICES", false },
		{ "mangle", "KUBE-PROXY-CANARY", true },
		{ "nat", "KUBE-MARK-MASQ", true },
		{ "filter", "KUBE-IPVS-OUT-FILTER", true },
		{ "nat", "KUBE-LOAD-BALANCER", true },
		/* the kubelet's */
		{ "nat", "KUBE-MARK-DROP", false },
		{ "filter", "KUBE-FIREWALL", false },
		{ "nat", "KUBE-FIREWALL", true }, /* of the ipvs mode */
		{ "mangle", "KUBE-KUBELET-CANARY", false },
		{ "mangle", "KUBE-IPTABLES-HINT", false },
		/* whole names */
		{ "nat", "KUBE-SVC-ABCDEFGHIJKLMNOP", true },
		{ "nat", "KUBE-SEP-ABCDEFGHIJ234567", true },
		{ "nat", "KUBE-XLB-ABCDEFGHIJKLMNOP", true },
		{ "filter", "KUBE-SVC-ABCDEFGHIJKLMNOP", false },
		{ "nat", "KUBE-SVC-ABCDEFGHIJKLMNO", false },
		{ "nat", "KUBE-SVC-ABCDEFGHIJKLMNOPQ", false },
		{ "nat", "KUBE-SVC-ABCDEFGHIJKLMNO1", false },
		{ "nat", "KUBE-SVC-abcdefghijklmnop", false },
		{ "nat", "KUBE-POD-ABCDEFGHIJKLMNOP", false },
		{ "nat", "KUBE-SERVICES-2", false },
		{ "nat", "kube-services", false },
		{ "nat", "", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (is_owned(PROXY_KUBE_PROXY, cases[i].table, cases[i].chain) != cases[i].is_owned)
			fail_msg("%s %s", cases[i].table, cases[i].chain);
}

static void test_owned_by_router(void **state)
{
	assert_true(is_owned(PROXY_KUBE_ROUTER, "filter", "KUBE-ROUTER-SERVICES"));
	assert_true(is_owned(PROXY_KUBE_ROUTER, "nat", "KUBE-ROUTER-HAIRPIN"));
	assert_false(is_owned(PROXY_KUBE_ROUTER, "nat", "KUBE-ROUTER-SERVICES"));
	/* its firewall, and kube-proxy */
	assert_false(is_owned(PROXY_KUBE_ROUTER, "filter", "KUBE-ROUTER-INPUT"));
	assert_false(is_owned(PROXY_KUBE_ROUTER, "filter", "KUBE-SERVICES"));
	assert_false(is_owned(PROXY_KUBE_ROUTER, "nat", "KUBE-SVC-ABCDEFGHIJKLMNOP"));
	assert_false(is_owned(PROXY_KUBE_PROXY, "filter", "KUBE-ROUTER-SERVICES"));
	assert_true(ipset_is_owned(PROXY_KUBE_ROUTER, "inet6:kube-router-svip-prt"));
	assert_true(ipset_is_owned(PROXY_KUBE_ROUTER, "kube-router-ipvs-services")); /* version 1 */
	assert_true(ipset_is_owned(PROXY_KUBE_ROUTER, "kube-router-service-ips"));
	assert_false(ipset_is_owned(PROXY_KUBE_ROUTER, "kube-router-pod-subnets"));
	assert_false(ipset_is_owned(PROXY_KUBE_ROUTER, "KUBE-CLUSTER-IP"));
	assert_false(ipset_is_owned(PROXY_KUBE_PROXY, "kube-router-svip"));
}

/* Its rules in POSTROUTING have no chain of their own. */
static void test_rules_of_router(void **state)
{
	static const char saved[] =
		"*nat\n:POSTROUTING ACCEPT [0:0]\n:KUBE-ROUTER-HAIRPIN - [0:0]\n"
		"-A POSTROUTING -m ipvs --vdir ORIGINAL --vmethod MASQ -m comment --comment "
		"\"\" -j SNAT --to-source 192.0.2.1 --random-fully\n"
		"-A POSTROUTING -m ipvs --vdir ORIGINAL -j KUBE-ROUTER-HAIRPIN\n"
		"-A POSTROUTING -m ipvs --vmethod GATE -j SNAT --to-source 192.0.2.2\n"
		"-A KUBE-ROUTER-HAIRPIN -s 10.1.0.1/32 -d 10.1.0.1/32 -j SNAT --to-source 10.2.0.1\n"
		"COMMIT\n";
	static const char undo[] =
		"*nat\n:KUBE-ROUTER-HAIRPIN - [0:0]\n"
		"-D POSTROUTING -m ipvs --vdir ORIGINAL --vmethod MASQ -m comment --comment "
		"\"\" -j SNAT --to-source 192.0.2.1 --random-fully\n"
		"-D POSTROUTING -m ipvs --vdir ORIGINAL -j KUBE-ROUTER-HAIRPIN\n"
		"-X KUBE-ROUTER-HAIRPIN\nCOMMIT\n";

	for (int p = PROXY_KUBE_PROXY; p <= PROXY_KUBE_ROUTER; p++) {
		struct xt_table t = { .proxy = (enum proxy)p, .name = "nat" };
		struct str out = { 0 };

		legacy_parse(&t, saved);
		xt_decide(&t, false);
		legacy_print(&out, &t);
		assert_string_equal(str_text(&out), p == PROXY_KUBE_ROUTER ? undo : "");
		str_fini(&out);
		xt_fini(&t);
	}
}

/* Direct server return: rules of one address with a mark of a routing rule, and TCPMSS for it. */
static void test_dsr_of_router(void **state)
{
#define OWN                                                                            \
	"PREROUTING -d 198.51.100.20/32 -p tcp -m tcp --dport 80 -j MARK --set-xmark " \
	"0x1f0a/0xffffffff\n"
#define MSS                                                                                   \
	"PREROUTING -s 198.51.100.20/32 -i kube-bridge -p tcp -m tcp --sport 80 --tcp-flags " \
	"SYN,RST SYN -j TCPMSS --set-mss 1440\n"
#define OLD_MSS                                                                            \
	"POSTROUTING -s 198.51.100.20/32 -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS " \
	"--set-mss 1440\n"
	static const char saved[] =
		"*mangle\n:PREROUTING ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n"
		":POSTROUTING ACCEPT [0:0]\n:MINE - [0:0]\n"
		"-A " MSS "-A " OWN
		/* another mark, mask, no or more than one address, another chain */
		"-A PREROUTING -d 198.51.100.20/32 -j MARK --set-xmark 0x1f0b/0xffffffff\n"
		"-A PREROUTING -d 198.51.100.20/32 -j MARK --set-xmark 0x1f0a/0xffff\n"
		"-A PREROUTING -p tcp -j MARK --set-xmark 0x1f0a/0xffffffff\n"
		"-A PREROUTING -d 198.51.100.0/24 -j MARK --set-xmark 0x1f0a/0xffffffff\n"
		"-A PREROUTING ! -d 198.51.100.9/32 -j MARK --set-xmark 0x1f0a/0xffffffff\n"
		"-A PREROUTING -s 198.51.100.21/32 -p tcp -j TCPMSS --set-mss 1440\n"
		"-A PREROUTING -p tcp -j TCPMSS --clamp-mss-to-pmtu\n"
		"-A PREROUTING -d 198.51.100.20/32 -p tcp -j TCPMSS --clamp-mss-to-pmtu\n"
		"-A FORWARD -d 198.51.100.20/32 -p tcp -j TCPMSS --set-mss 1440\n"
		"-A FORWARD -d 198.51.100.20/32 -j MARK --set-xmark 0x1f0a/0xffffffff\n"
		"-A " OLD_MSS "-A MINE -d 198.51.100.20/32 -j MARK --set-xmark 0x1f0a/0xffffffff\n"
		"COMMIT\n";
	static const char undo[] = "*mangle\n-D " MSS "-D " OWN "-D " OLD_MSS "COMMIT\n";
	struct dsr_marks marks = { 0 };

	*vec_push(&marks.v) = (struct dsr_mark){ .family = AF_INET, .mark = 0x1f0a };
	*vec_push(&marks.v) = (struct dsr_mark){ .family = AF_INET6, .mark = 0x1f0b };
	for (int has = 0; has <= 1; has++) {
		struct xt_table t = { .proxy = PROXY_KUBE_ROUTER,
				      .marks = has ? &marks : NULL,
				      .name = "mangle" };
		struct str out = { 0 };

		assert_int_equal(xt_has_owned(&t), has);
		legacy_parse(&t, saved);
		xt_decide(&t, false);
		legacy_print(&out, &t);
		assert_string_equal(str_text(&out), has ? undo : "");
		str_fini(&out);
		xt_fini(&t);
	}
	vec_fini(&marks.v);
#undef OWN
#undef MSS
#undef OLD_MSS
}

static void test_ipset_names(void **state)
{
	static const char *const owned[] = {
		"KUBE-LOOP-BACK",           "KUBE-6-LOOP-BACK",
		"KUBE-CLUSTER-IP",          "KUBE-6-LOAD-BALANCER-SOURCE-CID",
		"KUBE-NODE-PORT-TCP",       "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
		"KUBE-NODE-PORT-SCTP-HASH",
	};
	static const char *const others[] = {
		"",
		"KUBE-",
		"KUBE-6-",
		"KUBE-MINE",
		"LOOP-BACK",
		"KUBE-LOOP-BACK-2",
		"kube-loop-back",
		"KUBE-6-LOAD-BALANCER-SOURCE-CI",
		"KUBE-SRC-ABC",
		"cali40all-hosts-net",
	};

	for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
		assert_true(ipset_is_owned(PROXY_KUBE_PROXY, owned[i]));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_false(ipset_is_owned(PROXY_KUBE_PROXY, others[i]));
}

/* --- iptables-save --- */

struct legacy_case {
	const char *what;
	const char *table;
	bool is_forced;
	const char *saved;
	const char *undone;
	const char *kept; /* names, each followed by a blank */
};

static const struct legacy_case legacy_cases[] = {
	{ "nothing of kube-proxy's", "nat", false,
	  "*nat\n:PREROUTING ACCEPT [0:0]\n:MINE - [0:0]\n-A PREROUTING -j MINE\nCOMMIT\n", "",
	  "" },
	{ "jumps go from base chains, with all their words", "nat", false,
	  "# Generated\n*nat\n:PREROUTING ACCEPT [1:2]\n:KUBE-SERVICES - [0:0]\n"
	  "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n"
	  "-A KUBE-SERVICES -d 10.96.0.1/32 -j RETURN\nCOMMIT\n",
	  "*nat\n:KUBE-SERVICES - [0:0]\n"
	  "-D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n"
	  "-X KUBE-SERVICES\nCOMMIT\n",
	  "" },
	{ "a comment is no jump", "nat", false,
	  "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n"
	  "-A PREROUTING -m comment --comment \"a \\\" -j KUBE-SERVICES\" -j ACCEPT\nCOMMIT\n",
	  "*nat\n:KUBE-SERVICES - [0:0]\n-X KUBE-SERVICES\nCOMMIT\n", "" },
	{ "another table's chains are not read", "nat", false,
	  "*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n", "", "" },
	{ "a base chain that marks is somebody's", "nat", false,
	  "*nat\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:KUBE-MARK-MASQ - [0:0]\n"
	  ":KUBE-POSTROUTING - [0:0]\n:KUBE-SERVICES - [0:0]\n-A OUTPUT -j KUBE-MARK-MASQ\n"
	  "-A POSTROUTING -j KUBE-POSTROUTING\n-A KUBE-SERVICES -g KUBE-MARK-MASQ\nCOMMIT\n",
	  "*nat\n:KUBE-SERVICES - [0:0]\n-X KUBE-SERVICES\nCOMMIT\n",
	  "KUBE-MARK-MASQ KUBE-POSTROUTING " },
	{ "what is kept keeps what it goes to, but no jump to it", "nat", false,
	  "*nat\n:PREROUTING ACCEPT [0:0]\n:MINE - [0:0]\n:KUBE-SERVICES - [0:0]\n"
	  ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n"
	  ":KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n"
	  "-A MINE -j KUBE-SVC-AAAAAAAAAAAAAAAA\n"
	  "-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA\n"
	  "-A KUBE-SERVICES -j KUBE-SEP-BBBBBBBBBBBBBBBB\nCOMMIT\n",
	  "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]\n"
	  "-D PREROUTING -j KUBE-SERVICES\n-X KUBE-SERVICES\n-X KUBE-SEP-BBBBBBBBBBBBBBBB\nCOMMIT\n",
	  "KUBE-SVC-AAAAAAAAAAAAAAAA KUBE-SEP-AAAAAAAAAAAAAAAA " },
	{ "a policy of drop keeps what accepts", "filter", false,
	  "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\n"
	  ":KUBE-NODEPORTS - [0:0]\n:KUBE-SERVICES - [0:0]\n-A INPUT -j KUBE-NODEPORTS\n"
	  "-A FORWARD -j KUBE-FORWARD\n-A FORWARD -j KUBE-SERVICES\nCOMMIT\n",
	  "*filter\n:KUBE-NODEPORTS - [0:0]\n:KUBE-SERVICES - [0:0]\n-D INPUT -j KUBE-NODEPORTS\n"
	  "-D FORWARD -j KUBE-SERVICES\n-X KUBE-NODEPORTS\n-X KUBE-SERVICES\nCOMMIT\n",
	  "KUBE-FORWARD " },
	{ "so does a last rule that rejects all", "filter", false,
	  "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-NODEPORTS - [0:0]\n-A INPUT -j KUBE-NODEPORTS\n"
	  "-A INPUT -j REJECT --reject-with icmp-host-prohibited\nCOMMIT\n",
	  "", "KUBE-NODEPORTS " },
	{ "so does one with a comment", "filter", false,
	  "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-NODEPORTS - [0:0]\n-A INPUT -j KUBE-NODEPORTS\n"
	  "-A INPUT -m comment --comment \"all -p others\" -j DROP\nCOMMIT\n",
	  "", "KUBE-NODEPORTS " },
	{ "one that rejects something does not", "filter", false,
	  "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-NODEPORTS - [0:0]\n-A INPUT -j KUBE-NODEPORTS\n"
	  "-A INPUT -m comment --comment tcp -p tcp -j REJECT\nCOMMIT\n",
	  "*filter\n:KUBE-NODEPORTS - [0:0]\n-D INPUT -j KUBE-NODEPORTS\n-X KUBE-NODEPORTS\nCOMMIT\n",
	  "" },
	{ "force removes it in any case", "filter", true,
	  "*filter\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\n-A FORWARD -j KUBE-FORWARD\nCOMMIT\n",
	  "*filter\n:KUBE-FORWARD - [0:0]\n-D FORWARD -j KUBE-FORWARD\n-X KUBE-FORWARD\nCOMMIT\n",
	  "" },
	{ "cut short", "nat", false,
	  "*nat\n:KUBE-NODEPORTS - [0:0]\n-A \n-A KUBE-NODEPORTS -j\n:KUBE-SERVICES",
	  "*nat\n:KUBE-NODEPORTS - [0:0]\n-X KUBE-NODEPORTS\nCOMMIT\n", "" },
};

static void test_legacy(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(legacy_cases); i++) {
		const struct legacy_case *c = &legacy_cases[i];
		struct xt_table t = { .name = c->table };
		struct str undone = { 0 };
		struct str kept = { 0 };

		legacy_parse(&t, c->saved);
		xt_decide(&t, c->is_forced);
		legacy_print(&undone, &t);
		vec_for_each (k, &t.kept)
			str_printf(&kept, "%s ", k->chain);
		if (strcmp(str_text(&undone), c->undone) != 0 ||
		    strcmp(str_text(&kept), c->kept) != 0)
			fail_msg("%s: %s, kept %s", c->what, str_text(&undone), str_text(&kept));
		xt_fini(&t);
		str_fini(&undone);
		str_fini(&kept);
	}
}

static void test_child(void **state)
{
	const char *const cat[] = { "cat", NULL };
	const char *const none[] = { "vipd-no-such-program", NULL };
	const char *const bad[] = { "sh", "-c", "echo failed >&2; exit 3", NULL };
	struct str big = { 0 };
	struct str out = { 0 };
	struct err err = { 0 };

	for (int i = 0; i < 20000; i++)
		str_puts(&big, "0123456789");
	assert_int_equal(child_run(&out, cat, big.text, &err), 0);
	assert_string_equal(out.text, big.text);
	assert_int_equal(child_run(&out, none, "", &err), -ENOENT);
	assert_int_equal(child_run(&out, bad, "", &err), -EIO);
	assert_string_equal(err.text, "sh: failed");
	str_fini(&big);
	str_fini(&out);
}

/* --- IPVS --- */

#define FAMILY_ID 37

struct virtual_service {
	uint16_t proto;
	const char *addr;
	uint16_t port;
	uint32_t fwmark;
	uint32_t n_active;
	uint32_t n_inactive;
	bool is_deleted;
	bool is_vipds;
	bool is_persistent;
};

/* A kernel that knows generic netlink and IPVS. */
struct kernel {
	bool has_ipvs;
	struct virtual_service services[8];
	size_t n;
	struct str out;            /* next datagram to be read */
	bool hands_over;           /* vipd's pending services take over persistent ones */
	struct dsr_mark dsr;       /* of a routing rule of kube-router; mark 0: none */
	struct ip_tuple node_port; /* of kube-router; protocol 0: none */
	struct ip_prefix exclude;  /* length 0: none */
};

static struct nlmsghdr *answer_begin(void *buf, const struct nlmsghdr *q, uint16_t type)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);

	h->nlmsg_type = type;
	h->nlmsg_seq = q->nlmsg_seq;
	h->nlmsg_flags = NLM_F_MULTI;
	return h;
}

static void answer_error(struct kernel *k, const struct nlmsghdr *q, uint16_t type, int error)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = answer_begin(buf, q, type);
	struct nlmsgerr *e = mnl_nlmsg_put_extra_header(h, sizeof(*e));

	e->error = error;
	e->msg = *q;
	str_add(&k->out, buf, h->nlmsg_len);
}

/* Put the key and the other attributes of a service. */
static void put_service(struct nlmsghdr *h, const struct virtual_service *s, bool is_whole)
{
	struct ip_vs_flags flags = { .flags = (s->is_vipds ? 0x20U : 0) | s->is_persistent,
				     .mask = ~0U };
	struct nlattr *nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_SERVICE);
	uint8_t addr[16] = { 0 };
	bool is_v6 = strchr(s->addr, ':') != NULL;

	assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, s->addr, addr), 1);
	mnl_attr_put_u16(h, IPVS_SVC_ATTR_AF, is_v6 ? AF_INET6 : AF_INET);
	if (s->fwmark != 0) {
		mnl_attr_put_u32(h, IPVS_SVC_ATTR_FWMARK, s->fwmark);
	} else {
		mnl_attr_put_u16(h, IPVS_SVC_ATTR_PROTOCOL, s->proto);
		mnl_attr_put(h, IPVS_SVC_ATTR_ADDR, sizeof(addr), addr);
		mnl_attr_put_u16(h, IPVS_SVC_ATTR_PORT, htons(s->port));
	}
	if (is_whole)
		mnl_attr_put(h, IPVS_SVC_ATTR_FLAGS, sizeof(flags), &flags);
	mnl_attr_nest_end(h, nest);
}

static void genl_put(struct nlmsghdr *h, uint8_t cmd)
{
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->cmd = cmd;
}

#define KEY_AT (MNL_NLMSG_HDRLEN + GENL_HDRLEN + MNL_ATTR_HDRLEN)

/* The service of a request: its attributes begin like those of put_service(). */
static struct virtual_service *asked(struct kernel *k, const struct nlmsghdr *q)
{
	for (size_t i = 0; i < k->n; i++) {
		_Alignas(8) char buf[256] = { 0 };
		struct nlmsghdr *h = mnl_nlmsg_put_header(buf);

		genl_put(h, 0);
		put_service(h, &k->services[i], false);
		if (h->nlmsg_len <= q->nlmsg_len && !k->services[i].is_deleted &&
		    memcmp(buf + KEY_AT, (const char *)q + KEY_AT, h->nlmsg_len - KEY_AT) == 0)
			return &k->services[i];
	}
	return NULL;
}

static void answer_family(struct kernel *k, const struct nlmsghdr *q)
{
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = answer_begin(buf, q, GENL_ID_CTRL);

	if (k->has_ipvs) {
		genl_put(h, CTRL_CMD_NEWFAMILY);
		mnl_attr_put_u16(h, CTRL_ATTR_FAMILY_ID, FAMILY_ID);
		str_add(&k->out, buf, h->nlmsg_len);
	}
	answer_error(k, q, NLMSG_ERROR, k->has_ipvs ? 0 : -ENOENT);
}

static void answer_services(struct kernel *k, const struct nlmsghdr *q)
{
	for (size_t i = 0; i < k->n; i++) {
		_Alignas(8) char buf[256] = { 0 };
		struct nlmsghdr *h = answer_begin(buf, q, FAMILY_ID);

		genl_put(h, IPVS_CMD_NEW_SERVICE);
		put_service(h, &k->services[i], true);
		if (!k->services[i].is_deleted)
			str_add(&k->out, buf, h->nlmsg_len);
	}
	answer_error(k, q, NLMSG_DONE, 0);
}

static void answer_destinations(struct kernel *k, const struct nlmsghdr *q)
{
	const struct virtual_service *s = asked(k, q);
	static const uint8_t addr[16] = { 10, 244, 0, 1 };
	_Alignas(8) char buf[256] = { 0 };
	struct nlmsghdr *h = answer_begin(buf, q, FAMILY_ID);
	struct nlattr *nest;

	assert_non_null(s);
	genl_put(h, IPVS_CMD_NEW_DEST);
	nest = mnl_attr_nest_start(h, IPVS_CMD_ATTR_DEST);
	mnl_attr_put_u16(h, IPVS_DEST_ATTR_ADDR_FAMILY, AF_INET);
	mnl_attr_put(h, IPVS_DEST_ATTR_ADDR, sizeof(addr), addr);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_ACTIVE_CONNS, s->n_active);
	mnl_attr_put_u32(h, IPVS_DEST_ATTR_INACT_CONNS, s->n_inactive);
	mnl_attr_nest_end(h, nest);
	str_add(&k->out, buf, h->nlmsg_len);
	answer_error(k, q, NLMSG_DONE, 0);
}

static ssize_t kernel_send(void *ctx, const void *data, size_t len)
{
	struct kernel *k = ctx;
	const struct nlmsghdr *q = data;
	const struct genlmsghdr *g = mnl_nlmsg_get_payload(q);

	if (q->nlmsg_type == GENL_ID_CTRL) {
		answer_family(k, q);
	} else if (g->cmd == IPVS_CMD_GET_SERVICE) {
		answer_services(k, q);
	} else if (g->cmd == IPVS_CMD_GET_DEST) {
		answer_destinations(k, q);
	} else {
		struct virtual_service *s = asked(k, q);

		if (g->cmd == IPVS_CMD_SET_SERVICE) {
			assert_non_null(s);
			s->is_vipds = true;
		} else {
			assert_int_equal(g->cmd, IPVS_CMD_DEL_SERVICE);
			if (s != NULL)
				s->is_deleted = true;
		}
		answer_error(k, q, NLMSG_ERROR, s ? 0 : -ESRCH);
	}
	return (ssize_t)len;
}

static ssize_t kernel_recv(void *ctx, void *data, size_t size)
{
	struct kernel *k = ctx;
	size_t len = k->out.len;

	if (len == 0)
		return -EAGAIN;
	if (len > size)
		return -EMSGSIZE;
	memcpy(data, k->out.text, len);
	str_clear(&k->out);
	return (ssize_t)len;
}

static struct ip_addr addr_of(const char *text)
{
	struct ip_addr a;
	struct err err;

	assert_int_equal(ip_addr_parse(&a, text, &err), 0);
	return a;
}

/* Run the cleanup; `deleted` gets the deleted services as digits. */
static bool run_ipvs(struct kernel *k, bool is_forced, struct cleanup *c, char deleted[9])
{
	struct ipvs_link link = { .index = 3, .is_dummy = true };
	AUTO(vec_fini) struct node_ports ports = { 0 };
	struct nl_io io = { .send = kernel_send, .recv = kernel_recv, .ctx = k };
	AUTO(ipvs_wire_close) struct ipvs_wire *wire = NULL;
	struct nl_sock *nl;
	struct err err;

	*vec_push(&link.addrs) = addr_of("10.96.0.1");
	*vec_push(&link.addrs) = addr_of("fd00::1");
	*vec_push(&ports.at) = (struct ip_tuple){ addr_of("0.0.0.0"), 30080, IPPROTO_TCP, 0 };
	*c = (struct cleanup){ .out = tmpfile(),
			       .is_forced = is_forced,
			       .exclude = &k->exclude,
			       .n_exclude = k->exclude.len != 0,
			       .n_occupied = k->hands_over };
	assert_non_null(c->out);
	if (k->dsr.mark != 0)
		*vec_push(&c->marks.v) = k->dsr;
	if (k->node_port.proto != 0)
		*vec_push(&ports.at) = k->node_port;
	nl_sock_open_io(&nl, &io);
	ipvs_wire_open(&wire, nl);
	assert_int_equal(cleanup_ipvs(wire, &link, &ports, c, &err), 0);
	for (size_t i = 0; i < k->n; i++)
		if (k->services[i].is_deleted)
			*deleted++ = (char)('0' + i);
	*deleted = '\0';
	(void)fclose(c->out);
	vec_fini(&c->marks.v);
	vec_fini(&link.addrs);
	str_fini(&k->out);
	return !c->is_busy;
}

static const struct virtual_service services[] = {
	{ IPPROTO_TCP, "10.96.0.1", 80, 0, 0, 0, false },
	{ IPPROTO_UDP, "10.96.0.1", 53, 0, 0, 7, false },
	{ IPPROTO_TCP, "fd00::1", 80, 0, 2, 0, false },
	{ IPPROTO_TCP, "192.0.2.9", 30080, 0, 0, 0, false },
	{ IPPROTO_UDP, "192.0.2.9", 30080, 0, 0, 0, false }, /* a port of another protocol */
	{ IPPROTO_TCP, "192.0.2.9", 443, 0, 0, 0, false },
	{ IPPROTO_TCP, "10.96.0.1", 0, 77, 0, 0, false }, /* by firewall mark */
	{ IPPROTO_TCP, "10.96.0.1", 443, 0, 0, 0, false, true },
};

static void test_ipvs(void **state)
{
	struct kernel k = { .has_ipvs = true, .n = ARRAY_SIZE(services) };
	struct cleanup c;
	char deleted[9];

	memcpy(k.services, services, sizeof(services));
	k.exclude = (struct ip_prefix){ addr_of("10.96.0.0"), 12 }; /* kube-ipvs0 has some */
	assert_false(run_ipvs(&k, false, &c, deleted));
	assert_string_equal(deleted, "3");
	k.services[3].is_deleted = false;
	k.exclude.len = 0;
	assert_false(run_ipvs(&k, false, &c, deleted));
	assert_string_equal(deleted, "03");
	assert_int_equal(c.n_removed, 2);
	assert_int_equal(c.n_left, 1);
	/* Repeated: no service with connections is deleted; then one becomes idle. */
	k.services[1].n_inactive = 0;
	assert_false(run_ipvs(&k, false, &c, deleted));
	assert_string_equal(deleted, "013");
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_string_equal(deleted, "0123");
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_int_equal(c.n_removed + c.n_left, 0);
	/* A mark of kube-router's; it is never handed over. */
	k.dsr = (struct dsr_mark){ .family = AF_INET6, .mark = 77 };
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_string_equal(deleted, "0123");
	k.dsr.family = AF_INET;
	k.hands_over = k.services[6].is_persistent = true;
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_string_equal(deleted, "01236");
	/* A node port of kube-router's is of one address and protocol. */
	k.hands_over = false;
	k.node_port = (struct ip_tuple){ addr_of("192.0.2.10"), 443, IPPROTO_TCP, 0 };
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_string_equal(deleted, "01236");
	k.node_port = (struct ip_tuple){ addr_of("192.0.2.9"), 443, IPPROTO_UDP, 0 };
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_string_equal(deleted, "01236");
	k.node_port.proto = IPPROTO_TCP;
	assert_true(run_ipvs(&k, true, &c, deleted));
	assert_string_equal(deleted, "012356");
}

/* vipd takes over persistent services with their connections; the others as before. */
static void test_ipvs_handed_over(void **state)
{
	struct kernel k = { .has_ipvs = true, .n = ARRAY_SIZE(services), .hands_over = true };
	struct cleanup c;
	char deleted[9];

	memcpy(k.services, services, sizeof(services));
	k.services[1].is_persistent = k.services[3].is_persistent = true;
	k.services[5].is_persistent = true; /* not kube-proxy's */
	k.services[2].n_active = 0;
	/* Another program's, with a port of the sets of node ports. */
	k.exclude = (struct ip_prefix){ addr_of("192.0.2.0"), 24 };
	assert_true(run_ipvs(&k, false, &c, deleted));
	assert_string_equal(deleted, "02");
	assert_true(k.services[1].is_vipds && !k.services[3].is_vipds);
	k.exclude.len = 0;
	assert_true(run_ipvs(&k, false, &c, deleted));
	assert_string_equal(deleted, "02");
	assert_true(k.services[1].is_vipds && k.services[3].is_vipds && !k.services[5].is_vipds);
	assert_int_equal(c.n_removed, 1);
	assert_int_equal(c.n_left, 0);
}

static void test_ipvs_none(void **state)
{
	struct kernel k = { .has_ipvs = false };
	struct cleanup c;
	char deleted[9];

	assert_true(run_ipvs(&k, false, &c, deleted));
	assert_int_equal(c.n_removed + c.n_left, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_owned),           cmocka_unit_test(test_owned_by_router),
		cmocka_unit_test(test_rules_of_router), cmocka_unit_test(test_dsr_of_router),
		cmocka_unit_test(test_ipset_names),     cmocka_unit_test(test_legacy),
		cmocka_unit_test(test_child),           cmocka_unit_test(test_ipvs),
		cmocka_unit_test(test_ipvs_none),       cmocka_unit_test(test_ipvs_handed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
