/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assumptions of conntrack/: filters of dumps and deletions, entries named by tuple, zone and id.
 * And a pass deletes exactly the flows of its job, filtered by the kernel or checked here.
 */
#include "kernel.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "conntrack/pass.h"
#include "nl/dump.h"

#define TYPE(msg) (NFNL_SUBSYS_CTNETLINK << 8 | (msg))
#define CLIENT4 "203.0.113.9"
#define CLIENT6 "2001:db8::9"

/* --- flows by hand ------------------------------------------------------------- */

/* "10.96.0.1", "10.96.0.1/5353", "fd00::1"; port 53 if none is given. */
static struct ip_endpoint at(const char *text)
{
	struct ip_endpoint e = { .port = 53 };
	char *copy = xstrdup(text);
	char *slash = strchr(copy, '/');

	if (slash != NULL) {
		*slash = '\0';
		e.port = (uint16_t)atoi(slash + 1);
	}
	assert_int_equal(ip_addr_parse(&e.addr, copy, NULL), 0);
	free(copy);
	return e;
}

struct flow {
	const char *to;
	const char *by; /* NULL: not translated */
	uint8_t proto;
	uint16_t zone;
	uint16_t sport;   /* of the client; makes flows distinct */
	const char *from; /* NULL: the client */
	bool is_ipvs;     /* IPVS translates: the reply tuple alone */
};

static void put_ip(struct nlmsghdr *h, const struct ip_endpoint *src, const struct ip_endpoint *dst)
{
	bool is_v4 = src->addr.family == AF_INET;
	struct nlattr *nest = mnl_attr_nest_start(h, CTA_TUPLE_IP);

	mnl_attr_put(h, is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, is_v4 ? 4 : 16, src->addr.bytes);
	mnl_attr_put(h, is_v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, is_v4 ? 4 : 16, dst->addr.bytes);
	mnl_attr_nest_end(h, nest);
}

static void put_tuple(struct nlmsghdr *h, uint16_t type, const struct ip_endpoint *src,
		      const struct ip_endpoint *dst, uint8_t proto)
{
	struct nlattr *tuple = mnl_attr_nest_start(h, type);
	struct nlattr *nest;

	put_ip(h, src, dst);
	nest = mnl_attr_nest_start(h, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(h, CTA_PROTO_NUM, proto);
	mnl_attr_put_u16(h, CTA_PROTO_SRC_PORT, htons(src->port));
	mnl_attr_put_u16(h, CTA_PROTO_DST_PORT, htons(dst->port));
	mnl_attr_nest_end(h, nest);
	mnl_attr_nest_end(h, tuple);
}

/* The kernel translates the entry as for a packet: status and reply tuple are its own. */
static void put_nat(struct nlmsghdr *h, const struct ip_endpoint *by)
{
	bool is_v4 = by->addr.family == AF_INET;
	struct nlattr *nat = mnl_attr_nest_start(h, CTA_NAT_DST);
	struct nlattr *nest;

	mnl_attr_put(h, is_v4 ? CTA_NAT_V4_MINIP : CTA_NAT_V6_MINIP, is_v4 ? 4 : 16,
		     by->addr.bytes);
	nest = mnl_attr_nest_start(h, CTA_NAT_PROTO);
	mnl_attr_put_u16(h, CTA_PROTONAT_PORT_MIN, htons(by->port));
	mnl_attr_put_u16(h, CTA_PROTONAT_PORT_MAX, htons(by->port));
	mnl_attr_nest_end(h, nest);
	mnl_attr_nest_end(h, nat);
}

static void put_tcp_established(struct nlmsghdr *h)
{
	struct nlattr *info = mnl_attr_nest_start(h, CTA_PROTOINFO);
	struct nlattr *tcp = mnl_attr_nest_start(h, CTA_PROTOINFO_TCP);

	mnl_attr_put_u8(h, CTA_PROTOINFO_TCP_STATE, 3);
	mnl_attr_nest_end(h, tcp);
	mnl_attr_nest_end(h, info);
}

static void no_message(void *arg, const struct nlmsghdr *h)
{
}

static int flow_try(struct nl_sock *nl, const struct flow *f)
{
	static const struct nl_reader rd = { .message = no_message };
	uint8_t buf[1024];
	struct ip_endpoint to = at(f->to);
	struct ip_endpoint by;
	struct ip_endpoint client = at(f->from                     ? f->from
				       : to.addr.family == AF_INET ? CLIENT4
								   : CLIENT6);
	struct nlmsghdr *h =
		nl_request_nfnl(buf, sizeof(buf), TYPE(IPCTNL_MSG_CT_NEW), to.addr.family);

	client.port = f->sport;
	h->nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
	put_tuple(h, CTA_TUPLE_ORIG, &client, &to, f->proto);
	by = f->by != NULL ? at(f->by) : to;
	put_tuple(h, CTA_TUPLE_REPLY, f->is_ipvs ? &by : &to, &client, f->proto);
	if (f->by != NULL && !f->is_ipvs)
		put_nat(h, &by);
	mnl_attr_put_u32(h, CTA_STATUS, htonl(IPS_CONFIRMED | IPS_SEEN_REPLY | IPS_ASSURED));
	mnl_attr_put_u32(h, CTA_TIMEOUT, htonl(600));
	if (f->proto == IPPROTO_TCP)
		put_tcp_established(h);
	if (f->zone != 0)
		mnl_attr_put_u16(h, CTA_ZONE, htons(f->zone));
	return nl_query(nl, h, &rd, NULL, NULL);
}

static void flow_put(struct nl_sock *nl, const struct flow *f)
{
	int r = flow_try(nl, f);

	if (r < 0)
		fail_msg("cannot make a flow to %s: %s", f->to, strerror(-r));
}

/* --- what is there -------------------------------------------------------------- */

static struct ctnl *ctnl_new(void)
{
	struct ctnl *c;

	ctnl_open(&c, kernel_sock(), kernel_sock());
	return c;
}

struct seen {
	VEC(struct job_flow) flows;
	struct ctnl *del; /* delete what is seen */
};

static void on_entry(void *arg, const struct ctnl_entry *e)
{
	struct seen *s = arg;

	*vec_push(&s->flows) = e->flow;
	if (s->del != NULL)
		ctnl_delete(s->del, e);
}

static size_t count(struct ctnl *c, uint8_t family, uint8_t proto)
{
	struct seen s = { 0 };
	struct err err;
	size_t n;

	if (ctnl_dump(c, family, proto, on_entry, &s, &err) < 0)
		fail_msg("%s", err.text);
	n = s.flows.n;
	vec_fini(&s.flows);
	return n;
}

static bool is_there(struct ctnl *c, const struct flow *f)
{
	struct ip_endpoint to = at(f->to);
	struct ip_endpoint by = at(f->by ? f->by : f->to);
	struct seen s = { 0 };
	struct err err;
	bool is_found = false;

	if (ctnl_dump(c, 0, 0, on_entry, &s, &err) < 0)
		fail_msg("%s", err.text);
	vec_for_each (i, &s.flows)
		is_found |= i->proto == f->proto && ip_endpoint_cmp(&i->to, &to) == 0 &&
			    ip_endpoint_cmp(&i->by, &by) == 0 &&
			    i->is_default_zone == (f->zone == 0);
	vec_fini(&s.flows);
	return is_found;
}

/* --- facts ------------------------------------------------------------------------ */

#define UDP IPPROTO_UDP
#define TCP IPPROTO_TCP

static const struct flow some[] = {
	{ "10.96.0.1", "10.1.0.1", UDP, 0, 1001 },  { "10.96.0.1", "10.1.0.2", UDP, 0, 1002 },
	{ "10.96.0.1", "10.1.0.2", TCP, 0, 1003 },  { "10.96.0.1", NULL, UDP, 0, 1004 },
	{ "10.96.0.1", "10.1.0.2", UDP, 77, 1005 }, { "10.96.0.1", NULL, UDP, 77, 1006 },
	{ "10.96.0.2", "10.1.0.2", UDP, 0, 1007 },  { "fd00::1", "fd00:1::1", UDP, 0, 1008 },
	{ "fd00::2", "fd00:1::1", TCP, 0, 1009 },   { "10.1.0.2", NULL, UDP, 0, 1010 },
};

/* From a frontend to the client: the flow of an answer whose original flow was deleted. */
static const struct flow mirror = { CLIENT4 "/4000", NULL, UDP, 0, 53, "10.96.0.1" };

static void put_some(void)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();

	for (size_t i = 0; i < ARRAY_SIZE(some); i++)
		flow_put(nl, &some[i]);
}

static void test_dump(void **state)
{
	AUTO(ctnl_close) struct ctnl *c = ctnl_new();

	put_some();
	assert_int_equal(count(c, 0, 0), 10);
	assert_int_equal(count(c, AF_INET, 0), 8);
	assert_int_equal(count(c, AF_INET6, 0), 2);
	FACT(count(c, AF_INET, UDP) == 7, "CTA_FILTER with a protocol");
	FACT(count(c, AF_INET6, UDP) == 1, "CTA_FILTER with a protocol");
	FACT(count(c, AF_INET, TCP) == 1, "CTA_FILTER with a protocol");
	for (size_t i = 0; i < ARRAY_SIZE(some); i++)
		assert_true(is_there(c, &some[i]));
}

static const struct {
	const char *name;
	const char *to;
	const char *by;
	bool is_translated;
	bool is_default_zone;
	const char *kept; /* entries of `some`, IPv4, that remain */
} matches[] = {
	{ "exact, in every zone", "10.96.0.1", "10.1.0.2", false, false, "1.34.6789" },
	{ "untranslated, in the default zone", "10.96.0.1", "10.96.0.1", false, true, "123.56789" },
	{ "translated, wherever to", "10.96.0.1", NULL, true, false, "..34.6789" },
	{ "nothing like it", "10.96.0.9", NULL, false, false, "123456789" },
};

/*
 * The kernel finds and deletes. Older kernels reject; the pass then dumps. Indexes of `some`, from
 * 1 to 9.
 */
static void test_delete_matching(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(matches); i++) {
		AUTO(ctnl_close) struct ctnl *c = NULL;
		struct ip_endpoint to = at(matches[i].to);
		struct ip_endpoint by = { 0 };
		struct ctnl_match m = { .proto = UDP, .to = &to };
		struct err err = { 0 };
		int r;

		print_message("    %s\n", matches[i].name);
		kernel_fresh(state);
		put_some();
		c = ctnl_new();
		if (matches[i].by != NULL) {
			by = at(matches[i].by);
			m.by = &by;
		}
		m.is_translated = matches[i].is_translated;
		m.is_default_zone = matches[i].is_default_zone;
		r = ctnl_delete_matching(c, &m, &err);
		if (r == -EOPNOTSUPP) {
			assert_int_equal(count(c, 0, 0), ARRAY_SIZE(some));
			print_message("      (this kernel cannot)\n");
			continue;
		}
		assert_int_equal(r, 0);
		for (size_t k = 0; k < 9; k++)
			FACT(is_there(c, &some[k]) == (matches[i].kept[k] != '.'),
			     "flow %zu, deleting %s", k + 1, matches[i].name);
	}
}

/* Not requested: the kernel compares IPv6 addresses the wrong way round. */
static void test_no_filter_of_ipv6(void **state)
{
	AUTO(ctnl_close) struct ctnl *c = ctnl_new();
	struct ip_endpoint to = at("fd00::1");
	struct ctnl_match m = { .proto = UDP, .to = &to };
	struct err err;

	put_some();
	assert_int_equal(ctnl_delete_matching(c, &m, &err), -EOPNOTSUPP);
	assert_int_equal(count(c, 0, 0), ARRAY_SIZE(some));
}

/* Named by tuple, zone and id: all zones, both families. */
static void test_delete_one_by_one(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(ctnl_close) struct ctnl *c = ctnl_new();
	struct seen s = { .del = c };
	struct err err;
	uint64_t n;

	put_some();
	assert_int_equal(ctnl_dump(c, 0, 0, on_entry, &s, &err), 0);
	assert_int_equal(ctnl_delete_flush(c, &n, &err), 0);
	assert_int_equal(n, ARRAY_SIZE(some));
	assert_int_equal(count(c, 0, 0), 0);
	vec_clear(&s.flows);

	flow_put(nl, &some[0]);
	assert_int_equal(ctnl_dump(c, 0, 0, on_entry, &s, &err), 0); /* queued, not sent */
	vec_fini(&s.flows);
	{
		AUTO(ctnl_close) struct ctnl *other = ctnl_new();
		struct seen again = { .del = other };

		assert_int_equal(ctnl_dump(other, 0, 0, on_entry, &again, &err), 0);
		assert_int_equal(ctnl_delete_flush(other, &n, &err), 0);
		vec_fini(&again.flows);
	}
	assert_int_equal(ctnl_delete_flush(c, &n, &err), 0); /* vanished: no error (CT-10) */
	assert_int_equal(n, 0);
}

/* --- passes --------------------------------------------------------------------------- */

struct target {
	const char *frontend;
	enum job_kind kind;
	const char *to;
	const char *live; /* the only live endpoint, or NULL */
	uint8_t proto;
};

static void job_add(struct job *j, const struct target *t)
{
	struct ip_endpoint f = at(t->frontend);
	struct job_target *target;

	if (t->proto == TCP) {
		*vec_push(&j->tcp) = f;
		*vec_push(&j->dead) = at(t->to).addr;
		return;
	}
	target = vec_push(&j->targets);
	*vec_push(&j->frontends) = (struct job_frontend){
		.key = { f.addr, f.port, t->proto ? t->proto : UDP, 0 },
		.target = (uint32_t)j->targets.n - 1,
		.n_targets = 1,
		.live = (uint32_t)j->live.n,
		.n_live = t->live != NULL,
	};
	*target = (struct job_target){ .kind = (uint8_t)t->kind };
	if (t->to != NULL)
		target->to = at(t->to);
	if (t->live != NULL)
		*vec_push(&j->live) = at(t->live);
}

struct pass_case {
	const char *name;
	struct target targets[4];
	const char *kept; /* of `some`, from 1; 10 is '0' */
};

static const struct pass_case passes[] = {
	{ "T-139: an endpoint is gone",
	  { { "10.96.0.1", JOB_TARGET_EXACT, "10.1.0.2", "10.1.0.1" } },
	  "1.34.67890" },
	{ "T-142: untranslated",
	  { { "10.96.0.1", JOB_TARGET_UNTRANSLATED, NULL, "10.1.0.1" } },
	  "123.567890" },
	{ "CT-12b: the frontend is gone",
	  { { "10.96.0.1", JOB_TARGET_TRANSLATED, NULL, NULL } },
	  "..34.67890" },
	{ "everything that does not live",
	  { { "10.96.0.1", JOB_TARGET_NOT_LIVE, NULL, "10.1.0.1" } },
	  "1.3..67890" },
	{ "nothing lives", { { "10.96.0.1", JOB_TARGET_NOT_LIVE, NULL, NULL } }, "..3..67890" },
	{ "IPv6", { { "fd00::1", JOB_TARGET_EXACT, "fd00:1::1", NULL } }, "1234567.90" },
	{ "IPv6 and IPv4 at once",
	  { { "10.96.0.1", JOB_TARGET_EXACT, "10.1.0.2", "10.1.0.1" },
	    { "fd00::1", JOB_TARGET_NOT_LIVE, NULL, "fd00:1::7" } },
	  "1.34.67.90" },
	{ "two frontends of one endpoint",
	  { { "10.96.0.1", JOB_TARGET_EXACT, "10.1.0.2", NULL },
	    { "10.96.0.2", JOB_TARGET_EXACT, "10.1.0.2", NULL } },
	  "1.34.6.890" },
	{ "dead TCP", { { "10.96.0.1", JOB_TARGET_EXACT, "10.1.0.2", NULL, TCP } }, "12.4567890" },
	{ "dead TCP of IPv6",
	  { { "fd00::2", JOB_TARGET_EXACT, "fd00:1::1", NULL, TCP } },
	  "12345678.0" },
	{ "the endpoint is the address itself",
	  { { "10.96.0.1", JOB_TARGET_UNTRANSLATED, NULL, "10.96.0.1" } },
	  "1234567890" },
};

/* Many targets: the flows are dumped instead of filtered by the kernel. */
static void job_pad(struct job *j)
{
	for (int i = 0; i < 100; i++) {
		char addr[32];
		struct target t = { addr, JOB_TARGET_EXACT, "10.1.0.2", NULL, UDP };

		(void)snprintf(addr, sizeof(addr), "10.97.0.%d", i);
		job_add(j, &t);
	}
}

static void pass_check(const struct pass_case *pc, bool is_padded)
{
	AUTO(ctnl_close) struct ctnl *look = ctnl_new();
	struct pass p = { .ctnl = look };
	struct pass_result result;
	struct job j = { .id = 1 };
	struct err err = { 0 };
	int r;

	put_some();
	for (size_t i = 0; i < ARRAY_SIZE(pc->targets) && pc->targets[i].frontend != NULL; i++)
		job_add(&j, &pc->targets[i]);
	if (is_padded)
		job_pad(&j);
	vec_sort(&j.frontends, ip_tuple_cmp);
	/* A second pass finds nothing and may choose another way. */
	for (int round = 0; round < 2; round++) {
		r = pass_run(&p, &j, &result, &err);
		if (r < 0)
			fail_msg("%s", err.text);
		for (size_t k = 0; k < ARRAY_SIZE(some); k++)
			if (is_there(look, &some[k]) != (pc->kept[k] != '.'))
				fail_msg("flow %zu is %s", k + 1,
					 pc->kept[k] != '.' ? "gone" : "still there");
	}
	job_fini(&j);
}

static void test_pass(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(passes); i++)
		for (int is_padded = 0; is_padded < 2; is_padded++) {
			print_message("    %s%s\n", passes[i].name, is_padded ? ", checked" : "");
			kernel_fresh(state);
			pass_check(&passes[i], is_padded);
		}
}

/* With an untranslated flow its mirror image is deleted, in both ways. */
static void test_mirror(void **state)
{
	static const struct target asked[] = {
		{ "10.96.0.1", JOB_TARGET_UNTRANSLATED, NULL, "10.1.0.1", UDP },
		{ "10.96.0.1", JOB_TARGET_NOT_LIVE, NULL, "10.1.0.1", UDP },
		{ "10.96.0.1", JOB_TARGET_EXACT, "10.1.0.2", "10.1.0.1", UDP },
		{ "10.96.0.2", JOB_TARGET_UNTRANSLATED, NULL, "10.1.0.1", UDP },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(asked); i++) {
		AUTO(nl_sock_close) struct nl_sock *nl = NULL;
		AUTO(ctnl_close) struct ctnl *look = NULL;
		struct pass p = { 0 };
		struct pass_result result;
		struct job j = { .id = 1 };
		struct err err;

		kernel_fresh(state);
		nl = kernel_sock();
		look = p.ctnl = ctnl_new();
		flow_put(nl, &mirror);
		flow_put(nl, &some[1]);
		job_add(&j, &asked[i / 2]);
		if (i % 2 == 1)
			job_pad(&j);
		vec_sort(&j.frontends, ip_tuple_cmp);
		assert_int_equal(pass_run(&p, &j, &result, &err), 0);
		assert_int_equal(is_there(look, &mirror), i / 2 >= 2);
		job_fini(&j);
	}
}

/* IPVS translates without IPS_DST_NAT: only the second pass finds flows of a removed frontend. */
static void test_ipvs(void **state)
{
	static const struct flow flow = { "10.96.0.1", "10.1.0.2", UDP, 0, 1011, NULL, true };
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(ctnl_close) struct ctnl *look = ctnl_new();
	struct pass p = { .ctnl = look };
	struct target t = { "10.96.0.1", JOB_TARGET_TRANSLATED, NULL, NULL, UDP };
	struct pass_result result;
	struct job j = { .id = 1 };
	struct err err;

	flow_put(nl, &flow);
	job_add(&j, &t);
	assert_int_equal(pass_run(&p, &j, &result, &err), 0);
	FACT(is_there(look, &flow) == (result.n_matches > 0),
	     "entries of IPVS have no IPS_DST_NAT");
	p.is_ipvs = true;
	assert_int_equal(pass_run(&p, &j, &result, &err), 0);
	assert_false(is_there(look, &flow));
	job_fini(&j);
}

/* A namespace without a flow costs no walk. */
static void test_empty(void **state)
{
	AUTO(ctnl_close) struct ctnl *ctnl = ctnl_new();
	struct pass p = { .ctnl = ctnl };
	struct target t = { "10.96.0.1", JOB_TARGET_NOT_LIVE, NULL, NULL, UDP };
	struct pass_result result;
	struct job j = { .id = 1 };
	struct err err;

	job_add(&j, &t);
	assert_int_equal(pass_run(&p, &j, &result, &err), 0);
	assert_int_equal(result.n_seen + result.n_matches + result.n_deleted, 0);
	job_fini(&j);
}

/* More than fit one datagram of deletions, and many datagrams of a dump. */
static void test_many(void **state)
{
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(ctnl_close) struct ctnl *look = ctnl_new();
	struct pass p = { .ctnl = look };
	struct target t = { "10.96.0.1", JOB_TARGET_NOT_LIVE, NULL, "10.1.0.1", UDP };
	struct pass_result result;
	struct job j = { .id = 1 };
	struct err err;

	for (uint16_t i = 0; i < 6000; i++)
		flow_put(nl, &(struct flow){ "10.96.0.1", i % 3 ? "10.1.0.2" : "10.1.0.1", UDP, 0,
					     (uint16_t)(1024 + i) });
	job_add(&j, &t);
	assert_int_equal(pass_run(&p, &j, &result, &err), 0);
	assert_int_equal(result.n_seen, 6000);
	assert_int_equal(result.n_deleted, 4000);
	assert_int_equal(count(look, 0, 0), 2000);
	assert_int_equal(pass_run(&p, &j, &result, &err), 0);
	assert_int_equal(result.n_deleted, 0);
	job_fini(&j);
}

/* A job that is outdated deletes nothing, in both ways; the next one does. */
static void test_outdated(void **state)
{
	static const struct target asked[] = {
		{ "10.96.0.1", JOB_TARGET_NOT_LIVE, NULL, "10.1.0.1", UDP },
		{ "10.96.0.1", JOB_TARGET_EXACT, "10.1.0.2", "10.1.0.1", UDP },
	};
	AUTO(nl_sock_close) struct nl_sock *nl = kernel_sock();
	AUTO(ctnl_close) struct ctnl *look = ctnl_new();

	for (uint16_t i = 0; i < 300; i++)
		flow_put(nl,
			 &(struct flow){ "10.96.0.1", "10.1.0.2", UDP, 0, (uint16_t)(1024 + i) });
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		_Atomic uint32_t outdated = 1;
		struct pass p = { .ctnl = look, .outdated = &outdated };
		struct pass_result result;
		struct job j = { .id = 1 };
		struct err err;

		job_add(&j, &asked[i]);
		assert_int_equal(pass_run(&p, &j, &result, &err), -ECANCELED);
		assert_int_equal(count(look, 0, 0), 300);
		j.id = 2;
		if (i > 0)
			assert_int_equal(pass_run(&p, &j, &result, &err), 0);
		job_fini(&j);
	}
	assert_int_equal(count(look, 0, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_dump, kernel_fresh),
		cmocka_unit_test_setup(test_delete_matching, kernel_fresh),
		cmocka_unit_test_setup(test_no_filter_of_ipv6, kernel_fresh),
		cmocka_unit_test_setup(test_delete_one_by_one, kernel_fresh),
		cmocka_unit_test_setup(test_pass, kernel_fresh),
		cmocka_unit_test_setup(test_mirror, kernel_fresh),
		cmocka_unit_test_setup(test_ipvs, kernel_fresh),
		cmocka_unit_test_setup(test_empty, kernel_fresh),
		cmocka_unit_test_setup(test_many, kernel_fresh),
		cmocka_unit_test_setup(test_outdated, kernel_fresh),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests(tests, NULL, NULL);
}
