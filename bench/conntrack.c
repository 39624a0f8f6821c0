/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/conntrack - cost of finding and deleting stale flows in a large table.
 *
 * Two network namespaces track as many flows each: the kernel has one table, and a walk passes all
 * of them. Measures passes as after changes, each with one stale flow. Wall time is the delay for a
 * client; CPU time of the helper is more reliable on a busy machine.
 *
 * Needs root, and nf_conntrack_max above the number of flows (first argument,
 * default 250000). Second argument N: one flow in N is UDP (default 20;
 * above 64 dumps are not filtered).
 */
#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conntrack/pass.h"
#include "nl/dump.h"

#define FLOWS_DEFAULT 250000
#define ROUNDS 7
#define UDP_SHARE_DEFAULT 20
#define FILL_BUF 262144

static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench/conntrack: %s: %s\n", what, why);
	exit(1);
}

static struct ip_endpoint at(const char *addr, uint16_t port)
{
	struct ip_endpoint e = { .port = port };

	if (ip_addr_parse(&e.addr, addr, NULL) < 0)
		die(addr, "no address");
	return e;
}

/* --- filling the table ----------------------------------------------------------- */

struct flow {
	struct ip_endpoint from;
	struct ip_endpoint to;
	struct ip_endpoint by;
	uint8_t proto;
};

static void put_tuple(struct nlmsghdr *h, uint16_t type, const struct ip_endpoint *src,
		      const struct ip_endpoint *dst, uint8_t proto)
{
	bool is_v4 = src->addr.family == AF_INET;
	struct nlattr *tuple = mnl_attr_nest_start(h, type);
	struct nlattr *nest = mnl_attr_nest_start(h, CTA_TUPLE_IP);

	mnl_attr_put(h, is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, is_v4 ? 4 : 16, src->addr.bytes);
	mnl_attr_put(h, is_v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, is_v4 ? 4 : 16, dst->addr.bytes);
	mnl_attr_nest_end(h, nest);
	nest = mnl_attr_nest_start(h, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(h, CTA_PROTO_NUM, proto);
	mnl_attr_put_u16(h, CTA_PROTO_SRC_PORT, htons(src->port));
	mnl_attr_put_u16(h, CTA_PROTO_DST_PORT, htons(dst->port));
	mnl_attr_nest_end(h, nest);
	mnl_attr_nest_end(h, tuple);
}

static size_t put_flow(void *buf, const struct flow *f)
{
	struct nlmsghdr *h = nl_request_nfnl(
		buf, 512, (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW),
		f->from.addr.family);
	struct nlattr *info, *tcp;

	h->nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
	put_tuple(h, CTA_TUPLE_ORIG, &f->from, &f->to, f->proto);
	put_tuple(h, CTA_TUPLE_REPLY, &f->by, &f->from, f->proto);
	mnl_attr_put_u32(h, CTA_STATUS, htonl(IPS_CONFIRMED | IPS_SEEN_REPLY | IPS_ASSURED));
	mnl_attr_put_u32(h, CTA_TIMEOUT, htonl(3600));
	if (f->proto == IPPROTO_TCP) {
		info = mnl_attr_nest_start(h, CTA_PROTOINFO);
		tcp = mnl_attr_nest_start(h, CTA_PROTOINFO_TCP);
		mnl_attr_put_u8(h, CTA_PROTOINFO_TCP_STATE, 3);
		mnl_attr_nest_end(h, tcp);
		mnl_attr_nest_end(h, info);
	}
	return MNL_ALIGN(h->nlmsg_len);
}

static struct nl_sock *sock(void)
{
	struct nl_sock *nl;
	struct err err;

	if (nl_sock_open(&nl, NETLINK_NETFILTER, &err) < 0)
		die("netlink", err.text);
	return nl;
}

/* The first error that is queued, or 0. */
static int errors(struct nl_sock *nl)
{
	uint8_t buf[4096];
	int error = 0;
	ssize_t n;

	while ((n = nl_sock_recv(nl, buf, sizeof(buf))) != -EAGAIN) {
		const struct nlmsgerr *e = mnl_nlmsg_get_payload((const void *)buf);

		if (error == 0)
			error = n < 0 ? (int)n : e->error;
	}
	return error;
}

/* Flow number `i`: half of each family, some UDP. */
static struct flow flow_make(uint32_t i, uint32_t udp_share)
{
	struct flow f = {
		.from = i % 2 ? at("20.0.0.0", 0) : at("2001:db8::", 0),
		.to = i % 2 ? at("198.18.0.1", 80) : at("2001:db8:1::1", 80),
		.by = i % 2 ? at("198.18.0.2", 8080) : at("2001:db8:1::2", 8080),
		.proto = i / 2 % udp_share ? IPPROTO_TCP : IPPROTO_UDP,
	};
	uint32_t client = htonl(i / 2 / 50000 + 1);

	memcpy(f.from.addr.bytes + (i % 2 ? 1 : 13), (const uint8_t *)&client + 1, 3);
	f.from.port = (uint16_t)(1024 + i / 2 % 50000);
	return f;
}

static void fill(uint32_t n, uint32_t udp_share)
{
	struct nl_sock *nl = sock();
	uint8_t *buf = xmalloc(FILL_BUF);
	size_t len = 0;
	int r = 0;

	for (uint32_t i = 0; i <= n && r == 0; i++) {
		if (i == n || FILL_BUF - len < 512) {
			r = nl_sock_send(nl, buf, len);
			r = r < 0 ? r : errors(nl);
			len = 0;
		}
		if (i < n) {
			struct flow f = flow_make(i, udp_share);

			len += put_flow(buf + len, &f);
		}
	}
	if (r < 0)
		die("filling the table (nf_conntrack_max?)", strerror(-r));
	nl_sock_close(nl);
	free(buf);
}

/* --- passes ------------------------------------------------------------------------ */

struct bench {
	const char *name;
	const char *frontends[4];
	enum job_kind kind;
};

static const struct bench benches[] = {
	/* The first pass of a process dumps all entries, and determines the share of UDP. */
	{ "after a restart, both families", { "10.96.0.1", "fd00::1" }, JOB_TARGET_NOT_LIVE },
	{ "endpoint removed, IPv4, 1 frontend", { "10.96.0.1" }, JOB_TARGET_EXACT },
	{ "endpoint removed, IPv4, 4 frontends",
	  { "10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4" },
	  JOB_TARGET_EXACT },
	{ "endpoint removed, IPv6, 1 frontend", { "fd00::1" }, JOB_TARGET_EXACT },
	{ "endpoint removed, both, 1 frontend each", { "10.96.0.1", "fd00::1" }, JOB_TARGET_EXACT },
	{ "first endpoint after none, IPv4", { "10.96.0.1" }, JOB_TARGET_UNTRANSLATED },
};

static struct ip_endpoint endpoint_of(const struct ip_endpoint *f)
{
	return f->addr.family == AF_INET ? at("10.1.0.1", 53) : at("fd00:1::1", 53);
}

static void job_make(struct job *j, const struct bench *b)
{
	*j = (struct job){ .id = 1 };
	for (size_t i = 0; i < ARRAY_SIZE(b->frontends) && b->frontends[i] != NULL; i++) {
		struct ip_endpoint f = at(b->frontends[i], 53);

		*vec_push(&j->frontends) =
			(struct job_frontend){ .key = { f.addr, f.port, IPPROTO_UDP, 0 },
					       .target = (uint32_t)i,
					       .n_targets = 1 };
		*vec_push(&j->targets) =
			(struct job_target){ .to = endpoint_of(&f), .kind = (uint8_t)b->kind };
	}
	qsort(j->frontends.v, j->frontends.n, sizeof(*j->frontends.v), ip_tuple_cmp);
}

/* One flow to each frontend of the pass. */
static void put_stale(const struct job *j, enum job_kind kind)
{
	struct nl_sock *nl = sock();

	vec_for_each (f, &j->frontends) {
		uint8_t buf[512] __attribute__((aligned(8)));
		struct flow flow = { .to = { f->key.addr, f->key.port, 0 }, .proto = IPPROTO_UDP };

		flow.from = at(flow.to.addr.family == AF_INET ? "203.0.113.1" : "2001:db8:9::1",
			       (uint16_t)(1000 + (f - j->frontends.v)));
		flow.by = kind == JOB_TARGET_UNTRANSLATED ? flow.to : endpoint_of(&flow.to);
		if (nl_sock_send(nl, buf, put_flow(buf, &flow)) < 0 || errors(nl) < 0)
			die("making a stale flow",
			    "it exists: the previous pass did not remove it");
	}
	nl_sock_close(nl);
}

static double cpu_ms(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static int double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run(struct pass *p, const struct bench *b)
{
	double wall[ROUNDS];
	double cpu[ROUNDS];
	struct pass_result result = { 0 };
	struct job j;
	struct err err = { 0 };

	job_make(&j, b);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin;
		double begin_cpu;

		put_stale(&j, b->kind);
		begin = now_ns();
		begin_cpu = cpu_ms();
		if (pass_run(p, &j, &result, &err) < 0)
			die(b->name, err.text);
		cpu[i] = cpu_ms() - begin_cpu;
		wall[i] = (double)(now_ns() - begin) / 1e6;
	}
	qsort(wall, ROUNDS, sizeof(*wall), double_cmp);
	qsort(cpu, ROUNDS, sizeof(*cpu), double_cmp);
	printf("%-38s %8.1f %8.1f %8.1f %10llu %8llu\n", b->name, wall[ROUNDS / 2],
	       wall[ROUNDS - 1], cpu[ROUNDS / 2], (unsigned long long)result.n_seen,
	       (unsigned long long)result.n_matches);
	job_fini(&j);
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : FLOWS_DEFAULT;
	uint32_t udp_share = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : UDP_SHARE_DEFAULT;
	struct pass p = { 0 };
	int beside;

	if (geteuid() != 0) {
		printf("needs root\n");
		return 77;
	}
	if (unshare(CLONE_NEWNET) == -1)
		die("network namespace", strerror(errno));
	fill(n, udp_share);
	beside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (beside == -1 || unshare(CLONE_NEWNET) == -1)
		die("network namespace", strerror(errno));
	fill(n, udp_share);
	ctnl_open(&p.ctnl, sock(), sock());
	printf("%u flows in this namespace, one in %u UDP, and as many beside it\n\n", n,
	       udp_share);
	printf("%-38s %8s %8s %8s %10s %8s\n", "", "ms", "max", "cpu ms", "checked", "targets");
	for (size_t i = 0; i < ARRAY_SIZE(benches); i++)
		run(&p, &benches[i]);
	ctnl_close(p.ctnl);
	close(beside);
	return 0;
}
