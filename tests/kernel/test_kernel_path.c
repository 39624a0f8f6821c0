/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the rules do to packets: a node with two pods on a bridge and a client
 * outside, each in a namespace of its own, both address families.
 *
 *     outside ── eth0 [node] br0 ─┬─ pod1
 *                                 └─ pod2
 *
 * Elements are written by hand, so this is about the layout alone.
 */
#include "kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plane/nft/state.h"

/* The place of a client or server. */
enum place {
	NODE,
	POD1,
	POD2,
	OUTSIDE,
	PLACES,
};

#define BACKEND_PORT 8080
#define SERVICE_PORT 80
/* Long enough for a namespace, short enough for expected drops. */
#define CONNECT_MS 700
/* The answer of a server that has the connection always arrives. */
#define ANSWER_MS 60000 /* ends a hanging test; emulated machines are slow */

static const struct {
	const char *pods;          /* the detector's CIDR */
	const char *services;      /* the service CIDR */
	const char *addrs[PLACES]; /* NODE: the address of br0 */
	const char *node_outside;  /* the node's address on eth0 */
	const char *vip;           /* of the service under test */
	const char *other_vip;     /* inside the service CIDR, unallocated */
	const char *external;      /* a frontend that is no cluster IP */
	int prefix_len;
} nets[IPFAM_N] = {
	{ "10.244.0.0/24",
	  "10.96.0.0/16",
	  { "10.244.0.1", "10.244.0.11", "10.244.0.12", "192.0.2.2" },
	  "192.0.2.1",
	  "10.96.0.10",
	  "10.96.0.99",
	  "198.51.100.1",
	  24 },
	{ "fd00:244::/64",
	  "fd00:96::/112",
	  { "fd00:244::1", "fd00:244::11", "fd00:244::12", "2001:db8:2::2" },
	  "2001:db8:2::1",
	  "fd00:96::10",
	  "fd00:96::99",
	  "2001:db8:100::1",
	  64 },
};

struct world {
	enum ipfam fam;
	struct nl_sock *nl;
	struct nft_layout *layout;
	struct nl_batch *b;
	pid_t keepers[PLACES]; /* keep the namespaces; 0 for the node, which is this process */
	pid_t servers[2];
};

static struct ip_addr addr(const char *text)
{
	struct ip_addr a = { 0 };

	if (ip_addr_parse(&a, text, NULL) < 0)
		fail_msg("no address: %s", text);
	return a;
}

static socklen_t sockaddr_of(struct sockaddr_storage *ss, const char *text, uint16_t port)
{
	struct ip_addr a = addr(text);
	struct sockaddr_in *v4 = (void *)ss;
	struct sockaddr_in6 *v6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = a.family;
	if (a.family == AF_INET) {
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, a.bytes, 4);
		return sizeof(*v4);
	}
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, a.bytes, 16);
	return sizeof(*v6);
}

/* Children end with this process. */
static pid_t child(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void enter(const struct world *w, enum place p)
{
	char path[64];
	int fd;

	if (p == NODE)
		return;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", w->keepers[p]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1 || setns(fd, CLONE_NEWNET) == -1)
		_exit(99);
	close(fd);
}

/* A process that only keeps its namespace. */
static pid_t keeper(void)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = child();
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) == -1)
			_exit(99);
		close(ready[0]);
		if (write(ready[1], "x", 1) != 1)
			_exit(99);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

/* Sends every client "<place> <client's address>" and closes. */
static void serve(enum place self, enum ipfam fam)
{
	struct sockaddr_storage ss;
	socklen_t len = sockaddr_of(&ss, fam == IPFAM_V6 ? "::" : "0.0.0.0", BACKEND_PORT);
	int on = 1, fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
	    bind(fd, (const struct sockaddr *)&ss, len) == -1 || listen(fd, 64) == -1)
		_exit(99);
	for (;;) {
		char host[64], text[96];
		int c, n;

		len = sizeof(ss);
		c = accept(fd, (struct sockaddr *)&ss, &len);
		if (c == -1)
			continue;
		inet_ntop(ss.ss_family,
			  fam == IPFAM_V6 ? (const void *)&((struct sockaddr_in6 *)&ss)->sin6_addr
					  : (const void *)&((struct sockaddr_in *)&ss)->sin_addr,
			  host, sizeof(host));
		n = snprintf(text, sizeof(text), "pod%d %s", self == POD1 ? 1 : 2, host);
		if (write(c, text, (size_t)n) != n)
			_exit(99);
		close(c);
	}
}

/* Link-local addresses without duplicate detection. */
#define NO_DAD                      \
	"for i in all default; do " \
	"echo 0 >/proc/sys/net/ipv6/conf/$i/accept_dad; done; "

/*
 * A pod that accepts a redirect sends its replies past the node, untranslated. Whether it accepts
 * one depends on the load: the kernel ignores redirects of a TCP socket that a process has locked.
 */
#define NO_REDIRECTS "for i in /proc/sys/net/ipv[46]/conf/*/accept_redirects; do echo 0 >$i; done; "

static void cable(struct world *w, enum place p, const char *peer)
{
	enum ipfam fam = w->fam;
	const char *v6 = fam == IPFAM_V6 ? "-6" : "-4";
	const char *nodad = fam == IPFAM_V6 ? "nodad" : "";
	const char *gateway = p == OUTSIDE ? nets[fam].node_outside : nets[fam].addrs[NODE];

	w->keepers[p] = keeper();
	assert_int_equal(
		sh("ip link add %s type veth peer name eth0 netns %d", peer, w->keepers[p]), 0);
	assert_int_equal(sh("nsenter -t %d -n sh -ec '" NO_DAD NO_REDIRECTS
			    "ip link set lo up; ip link set eth0 up; "
			    "ip addr add %s dev eth0 %s; ip %s route add %s dev eth0; "
			    "ip %s route add default via %s'",
			    w->keepers[p], nets[fam].addrs[p], nodad, v6, gateway, v6, gateway),
			 0);
}

static void world_open(struct world *w, enum ipfam fam)
{
	const char *nodad = fam == IPFAM_V6 ? "nodad" : "";

	w->fam = fam;
	assert_int_equal(sh(NO_DAD "echo 1 >/proc/sys/net/ipv4/ip_forward; "
				   "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; "
				   "ip link add br0 type bridge && ip link set br0 up"),
			 0);
	/* IPv6 waits for a carrier: the gateway's address comes with the first port. */
	assert_int_equal(sh("ip addr add %s/%d dev br0 %s", nets[fam].addrs[NODE],
			    nets[fam].prefix_len, nodad),
			 0);
	cable(w, POD1, "pod1");
	cable(w, POD2, "pod2");
	cable(w, OUTSIDE, "out");
	assert_int_equal(sh("for i in pod1 pod2; do ip link set $i master br0 up && "
			    "ip link set $i type bridge_slave hairpin on; done; "
			    "ip link set out name eth0 && ip link set eth0 up && "
			    "ip addr add %s/%d dev eth0 %s && ip %s route add default via %s",
			    nets[fam].node_outside, nets[fam].prefix_len, nodad,
			    fam == IPFAM_V6 ? "-6" : "-4", nets[fam].addrs[OUTSIDE]),
			 0);
	for (enum place p = POD1; p <= POD2; p++) {
		pid_t pid = child();

		if (pid == 0) {
			enter(w, p);
			serve(p, fam);
		}
		w->servers[p - POD1] = pid;
	}
}

static void params_apply(struct world *w, const struct plane_rules_params *params)
{
	struct err err = { 0 };

	if (nft_layout_apply(w->layout, params, NULL, &err) < 0)
		fail_msg("%s", err.text);
}

static struct ip_prefix pods, services;

/* The detector by CIDR, and a service CIDR. */
static struct plane_rules_params by_cidr(const struct world *w)
{
	if (ip_prefix_parse(&pods, nets[w->fam].pods, NULL) < 0 ||
	    ip_prefix_parse(&services, nets[w->fam].services, NULL) < 0)
		fail_msg("no prefix");
	return (struct plane_rules_params){ .detect = DETECT_LOCAL_CLUSTER_CIDR,
					    .has_detector = { true, true },
					    .pod_cidrs = &pods,
					    .n_pod_cidrs = 1,
					    .service_cidrs = &services,
					    .n_service_cidrs = 1 };
}

static int setup(void **state, enum ipfam fam)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct plane_rules_params params;
	struct err err = { 0 };

	*state = w;
	if (kernel_fresh(NULL) != 0)
		return -1;
	world_open(w, fam);
	w->nl = kernel_sock();
	nl_batch_open(&w->b, w->nl);
	nft_layout_open(&w->layout, w->nl, fam);
	if (nft_layout_load(w->layout, &err) < 0) {
		print_error("%s\n", err.text);
		return -1;
	}
	params = by_cidr(w);
	params_apply(w, &params);
	return 0;
}

static int setup_v4(void **state)
{
	return setup(state, IPFAM_V4);
}

static int setup_v6(void **state)
{
	return setup(state, IPFAM_V6);
}

static int teardown(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(w->servers); i++) {
		kill(w->servers[i], SIGKILL);
		waitpid(w->servers[i], NULL, 0);
	}
	for (enum place p = POD1; p < PLACES; p++) {
		kill(w->keepers[p], SIGKILL);
		waitpid(w->keepers[p], NULL, 0);
	}
	nft_layout_close(w->layout);
	nl_batch_close(w->b);
	nl_sock_close(w->nl);
	free(w);
	return 0;
}

/* Keys and data, part by part, each padded to 4 bytes. */
struct parts {
	uint8_t bytes[64];
	size_t len;
};

static void part(struct parts *p, const void *bytes, size_t len)
{
	memcpy(p->bytes + p->len, bytes, len);
	p->len += (len + 3) & ~(size_t)3;
}

static void part_addr(struct parts *p, const char *text)
{
	struct ip_addr a = addr(text);

	part(p, a.bytes, ip_len(ip_fam(&a)));
}

static void part_word(struct parts *p, uint32_t word)
{
	part(p, &word, sizeof(word));
}

static void part_port(struct parts *p, uint16_t port)
{
	uint16_t wire = htons(port);

	part(p, &wire, sizeof(wire));
}

static struct parts tuple(const char *vip)
{
	struct parts p = { 0 };
	uint8_t tcp = IPPROTO_TCP;

	part_addr(&p, vip);
	part(&p, &tcp, sizeof(tcp));
	part_port(&p, SERVICE_PORT);
	return p;
}

/* One more element in the batch; `data` NULL for sets. */
static void put(struct world *w, enum nft_set_id set, const struct parts *key,
		const struct parts *data)
{
	struct nlmsghdr *h = nl_batch_msg(w->b, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM,
					  NLM_F_CREATE, nft_family(w->fam), NULL);
	const struct nft_set_desc *d = nft_set_desc(set, w->fam);
	struct nlattr *list = kernel_elems(h, w->layout->table, d->name);

	assert_int_equal(key->len, (d->key_len + 3) & ~3u);
	kernel_elem(h, key->bytes, d->key_len, data != NULL ? data->bytes : NULL, d->data_len);
	mnl_attr_nest_end(h, list);
}

static void put_addr(struct world *w, enum nft_set_id set, const char *a)
{
	struct parts p = { 0 };

	part_addr(&p, a);
	put(w, set, &p, NULL);
}

static void put_tuple(struct world *w, enum nft_set_id set, const char *vip)
{
	struct parts p = tuple(vip);

	put(w, set, &p, NULL);
}

static void put_word(struct world *w, enum nft_set_id set, const char *vip, uint32_t word)
{
	struct parts key = tuple(vip), data = { 0 };

	part_word(&data, word);
	put(w, set, &key, &data);
}

/* A source range of pool 1: the address without its last `n_rest` bits, of its last byte. */
static void range_put(struct world *w, const char *a, unsigned int n_rest)
{
	size_t len = ip_len(w->fam);
	struct parts key = { 0 };

	part_word(&key, nft_word(1, (uint16_t)(8 * len - n_rest)));
	part_addr(&key, a);
	key.bytes[key.len - 1] &= (uint8_t)(0xff << n_rest);
	put(w, NFTSET_FW_RANGES, &key, NULL);
}

static void put_backend(struct world *w, uint32_t pool, uint32_t slot, enum place pod)
{
	const char *a = nets[w->fam].addrs[pod];
	struct parts key = { 0 }, data = { 0 }, pair = { 0 };

	part_word(&key, nft_word(pool, 0));
	part_word(&key, slot);
	part_addr(&data, a);
	part_port(&data, BACKEND_PORT);
	put(w, NFTSET_ENDPOINTS, &key, &data);
	part_addr(&pair, a);
	part_port(&pair, BACKEND_PORT);
	part_addr(&pair, a);
	put(w, NFTSET_ENDPOINT_ADDRS, &pair, NULL);
}

static void written(struct world *w)
{
	assert_int_equal(kernel_commit(w->b), 0);
}

/* A cluster IP with the target of its word. */
static void cluster_ip(struct world *w, uint32_t word)
{
	put_word(w, NFTSET_FRONTENDS, nets[w->fam].vip, word);
	put_addr(w, NFTSET_VIPS, nets[w->fam].vip);
	put_addr(w, NFTSET_CLUSTER_IPS, nets[w->fam].vip);
}

/*
 * Longer on busy and emulated machines (VIPD_SLOW of tests/vm); each expected drop takes this time.
 */
static int connect_ms(void)
{
	const char *slow = getenv("VIPD_SLOW");
	int factor = slow != NULL ? atoi(slow) / 3 : 1; /* NOLINT: nonsense is 0, and 0 is 1 */

	return CONNECT_MS * (factor < 1 ? 1 : factor);
}

static int connected(int fd, char *buf, size_t size, int limit_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int error = 0;
	socklen_t len = sizeof(error);
	ssize_t n;

	if (poll(&p, 1, limit_ms) != 1)
		return ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == -1 || error != 0)
		return error;
	p.events = POLLIN;
	if (poll(&p, 1, ANSWER_MS) != 1)
		return ETIMEDOUT;
	n = read(fd, buf, size - 1);
	if (n <= 0)
		return ECONNRESET;
	buf[n] = '\0';
	return 0;
}

/*
 * Connect and return the result: the server's text, "refused", "timeout" (no answer for
 * `limit_ms`), or "denied" (by the host's own rules).
 */
static const char *talk(struct world *w, enum place from, const char *to, uint16_t port,
			int limit_ms)
{
	static char answer[128];
	int out[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = child();
	if (pid == 0) {
		struct sockaddr_storage ss;
		socklen_t len = sockaddr_of(&ss, to, port);
		char buf[128] = "";
		int fd, error = 0;

		enter(w, from);
		fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(fd, (const struct sockaddr *)&ss, len) == -1)
			error = errno;
		if (error == 0 || error == EINPROGRESS)
			error = connected(fd, buf, sizeof(buf), limit_ms);
		if (error == ETIMEDOUT)
			strcpy(buf, "timeout");
		else if (error == EPERM)
			strcpy(buf, "denied");
		else if (error == ECONNREFUSED)
			strcpy(buf, "refused");
		else if (error != 0)
			snprintf(buf, sizeof(buf), "%s", strerror(error));
		_exit(write(out[1], buf, strlen(buf)) > 0 ? 0 : 99);
	}
	close(out[1]);
	n = read(out[0], answer, sizeof(answer) - 1);
	close(out[0]);
	waitpid(pid, NULL, 0);
	assert_true(n > 0);
	answer[n] = '\0';
	return answer;
}

/* `pod` answers, and sees `source`. */
static void expect(struct world *w, enum place from, const char *to, enum place pod,
		   const char *source)
{
	const char *answer = talk(w, from, to, SERVICE_PORT, ANSWER_MS);
	char want[96];

	snprintf(want, sizeof(want), "pod%d %s", pod == POD1 ? 1 : 2, source);
	assert_string_equal(answer, want);
}

static void expect_word(struct world *w, enum place from, const char *to, uint16_t port,
			const char *word)
{
	int limit_ms = strcmp(word, "timeout") == 0 ? connect_ms() : ANSWER_MS;

	assert_string_equal(talk(w, from, to, port, limit_ms), word);
}

static void wait_answer(struct world *w, enum place from, enum place pod)
{
	const char *answer = "";

	for (int i = 0; i < 50 && strncmp(answer, "pod", 3) != 0; i++) {
		answer = talk(w, from, nets[w->fam].addrs[pod], BACKEND_PORT, connect_ms());
		if (strncmp(answer, "pod", 3) != 0)
			nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	assert_int_equal(strncmp(answer, "pod", 3), 0);
}

/*
 * Wait until the servers answer without a service: the kernel takes up to a second to detect a
 * link, and IPv6 uses the link only then.
 */
static void wait_ready(struct world *w)
{
	for (enum place pod = POD1; pod <= POD2; pod++) {
		wait_answer(w, NODE, pod);
		wait_answer(w, OUTSIDE, pod);
	}
}

/*
 * Let br_netfilter pass bridged packets to nf_tables, or not; false if the kernel lacks it. Packets
 * between pods of a bridge then differ.
 */
static bool bridge_netfilter(bool is_on)
{
	return sh("for i in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do "
		  "echo %d >$i || exit 1; done 2>/dev/null",
		  is_on) == 0;
}

static void check_cluster_ip(struct world *w)
{
	const char *vip = nets[w->fam].vip;
	const char *const *a = nets[w->fam].addrs;

	expect(w, POD2, vip, POD1, a[POD2]);    /* a pod keeps its address (MASQ-13) */
	expect(w, NODE, vip, POD1, a[NODE]);    /* this host is masqueraded */
	expect(w, OUTSIDE, vip, POD1, a[NODE]); /* and so are all others */
	expect(w, POD1, vip, POD1, a[NODE]);    /* hairpin (MASQ-09) */
	/* REJ-05, REJ-06 */
	expect_word(w, POD2, vip, 81, "refused");
	expect_word(w, NODE, vip, 81, "refused");
	expect_word(w, POD2, nets[w->fam].other_vip, SERVICE_PORT, "timeout");
	expect_word(w, NODE, nets[w->fam].other_vip, SERVICE_PORT, "timeout");
}

static void test_cluster_ip(void **state)
{
	struct world *w = *state;

	wait_ready(w);
	put_backend(w, 1, 0, POD1);
	cluster_ip(w, nft_word(1, 1));
	written(w);
	check_cluster_ip(w);
	if (bridge_netfilter(false))
		check_cluster_ip(w);
}

/* REJ-06 does not cut off a host that has such an address itself. */
static void test_service_cidr_is_not_for_us(void **state)
{
	struct world *w = *state;

	wait_ready(w);
	assert_int_equal(sh("ip addr add %s/%d dev lo", nets[w->fam].other_vip,
			    w->fam == IPFAM_V6 ? 128 : 32),
			 0);
	expect_word(w, OUTSIDE, nets[w->fam].other_vip, SERVICE_PORT, "refused");
	expect_word(w, NODE, nets[w->fam].other_vip, SERVICE_PORT, "refused");
}

static void test_no_backends(void **state)
{
	struct world *w = *state;
	const char *vip = nets[w->fam].vip;

	wait_ready(w);
	cluster_ip(w, nft_word(1, NFT_KIND_REJECT));
	put_word(w, NFTSET_FRONTENDS, nets[w->fam].external, nft_word(1, NFT_KIND_DROP));
	put_addr(w, NFTSET_VIPS, nets[w->fam].external);
	written(w);
	expect_word(w, POD2, vip, SERVICE_PORT, "refused");
	expect_word(w, OUTSIDE, vip, SERVICE_PORT, "refused");
	expect_word(w, NODE, vip, SERVICE_PORT, "refused");
	expect_word(w, OUTSIDE, nets[w->fam].external, SERVICE_PORT, "timeout");
}

/* Detection by interface (MASQ-02), none (MASQ-01), all sources (MASQ-05). */
static void check_detectors(struct world *w)
{
	const char *vip = nets[w->fam].vip;
	const char *const *a = nets[w->fam].addrs;
	const struct {
		const char *what;
		struct plane_rules_params params;
		const char *pod, *host, *outside; /* what the backend sees */
	} cases[] = {
		{ "bridge",
		  { .detect = DETECT_LOCAL_BRIDGE,
		    .has_detector = { true, true },
		    .ifname = "br0" },
		  a[POD2],
		  a[NODE],
		  a[NODE] },
		{ "prefix",
		  { .detect = DETECT_LOCAL_PREFIX, .has_detector = { true, true }, .ifname = "b" },
		  a[POD2],
		  a[NODE],
		  a[NODE] },
		{ "a bridge that is none of ours",
		  { .detect = DETECT_LOCAL_BRIDGE, .has_detector = { true, true }, .ifname = "br" },
		  a[NODE],
		  a[NODE],
		  a[NODE] },
		{ "none", { 0 }, a[POD2], nets[w->fam].node_outside, a[OUTSIDE] },
		{ "everybody", { .is_masquerade_all = true }, a[NODE], a[NODE], a[NODE] },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("    %s\n", cases[i].what);
		params_apply(w, &cases[i].params);
		expect(w, POD2, vip, POD1, cases[i].pod);
		expect(w, NODE, vip, POD1, cases[i].host);
		expect(w, OUTSIDE, vip, POD1, cases[i].outside);
		expect(w, POD1, vip, POD1, a[NODE]);
	}
}

static void test_detectors(void **state)
{
	struct world *w = *state;

	wait_ready(w);
	put_backend(w, 1, 0, POD1);
	cluster_ip(w, nft_word(1, 1));
	written(w);
	check_detectors(w);
	if (bridge_netfilter(false))
		check_detectors(w);
}

/* External frontends: policy Cluster masquerades all, policy Local this host only. */
static void test_external(void **state)
{
	struct world *w = *state;
	const char *ext = nets[w->fam].external;
	const char *const *a = nets[w->fam].addrs;

	wait_ready(w);
	put_backend(w, 1, 0, POD1);
	put_word(w, NFTSET_FRONTENDS, ext, nft_word(1, 1));
	put_addr(w, NFTSET_VIPS, ext);
	put_tuple(w, NFTSET_MASQ_FRONTENDS, ext);
	written(w);
	expect(w, OUTSIDE, ext, POD1, a[NODE]);
	expect(w, POD2, ext, POD1, a[NODE]); /* MASQ-07 */
	expect(w, NODE, ext, POD1, a[NODE]);
	/* Not a cluster IP: an unknown port is not rejected. */
	expect_word(w, OUTSIDE, ext, 81, "timeout");
}

static void test_external_local(void **state)
{
	struct world *w = *state;
	const char *ext = nets[w->fam].external;
	const char *const *a = nets[w->fam].addrs;

	wait_ready(w);
	/* pool 1: everywhere (pod2), pool 2: this node (pod1); the answer shows the pool */
	put_backend(w, 1, 0, POD2);
	put_backend(w, 2, 0, POD1);
	put_word(w, NFTSET_FRONTENDS, ext, nft_word(2, NFT_KIND_XL));
	put_word(w, NFTSET_XL_CLUSTER, ext, nft_word(1, 1));
	put_word(w, NFTSET_XL_LOCAL, ext, nft_word(2, 1));
	put_addr(w, NFTSET_VIPS, ext);
	put_tuple(w, NFTSET_MASQ_HOSTS, ext);
	written(w);
	expect(w, OUTSIDE, ext, POD1, a[OUTSIDE]);
	expect(w, POD1, ext, POD2, a[POD1]); /* POL-25 */
	expect(w, NODE, ext, POD2, a[NODE]); /* MASQ-08 */
}

static void test_source_ranges(void **state)
{
	struct world *w = *state;
	const char *ext = nets[w->fam].external;
	const char *const *a = nets[w->fam].addrs;

	wait_ready(w);
	put_backend(w, 1, 0, POD1);
	put_word(w, NFTSET_FRONTENDS, ext, nft_word(1, NFT_KIND_FW));
	put_word(w, NFTSET_FW_FRONTENDS, ext, nft_word(1, 1));
	put_addr(w, NFTSET_VIPS, ext);
	/* One contains pod1 and pod2, one pod2 alone. */
	range_put(w, a[POD1], 4);
	range_put(w, a[POD2], 0);
	written(w);
	expect(w, POD2, ext, POD1, a[POD2]);
	expect(w, POD1, ext, POD1, a[NODE]);
	expect_word(w, OUTSIDE, ext, SERVICE_PORT, "timeout"); /* REJ-10 */
}

/* ClientIP: one client, one backend, until that is removed. */
static void test_affinity(void **state)
{
	struct world *w = *state;
	const char *vip = nets[w->fam].vip;
	uint16_t kind = nft_pool_class(2, 3600);
	struct err err = { 0 };
	enum place first = PLACES;

	wait_ready(w);
	if (nft_layout_chains_need(w->layout, &kind, 1, NULL, &err) < 0)
		fail_msg("%s", err.text);
	for (uint32_t i = 0; i < 2; i++) {
		struct parts slot = { 0 }, id = { 0 }, target = { 0 };

		part_word(&slot, nft_word(1, 0));
		part_word(&slot, i);
		part_word(&id, nft_word(1, (uint16_t)(i + 1)));
		put(w, NFTSET_AFF_SLOTS, &slot, &id);
		part_addr(&target, nets[w->fam].addrs[i == 0 ? POD1 : POD2]);
		part_port(&target, BACKEND_PORT);
		put(w, NFTSET_AFF_ENDPOINTS, &id, &target);
	}
	cluster_ip(w, nft_word(1, kind));
	written(w);
	for (int i = 0; i < 12; i++) {
		const char *answer = talk(w, OUTSIDE, vip, SERVICE_PORT, ANSWER_MS);
		enum place pod = answer[3] == '1' ? POD1 : POD2;

		assert_int_equal(strncmp(answer, "pod", 3), 0);
		if (i == 0)
			first = pod;
		assert_int_equal(pod, first);
	}
	/* Its backend is removed: the client is served by the other at once. */
	assert_int_equal(sh("nft delete element %s vipd aff_endpoints '{ 0:100%d }'",
			    w->fam == IPFAM_V6 ? "ip6" : "ip", first == POD1 ? 1 : 2),
			 0);
	assert_int_equal(sh("nft delete element %s vipd aff_slots '{ 0:1000 . %d }'",
			    w->fam == IPFAM_V6 ? "ip6" : "ip", first == POD1 ? 0 : 1),
			 0);
	{
		struct parts slot = { 0 }, id = { 0 };

		part_word(&slot, nft_word(1, 0));
		part_word(&slot, first == POD1 ? 0 : 1);
		part_word(&id, nft_word(1, first == POD1 ? 2 : 1));
		put(w, NFTSET_AFF_SLOTS, &slot, &id);
		written(w);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(talk(w, OUTSIDE, vip, SERVICE_PORT, ANSWER_MS)[3],
				 first == POD1 ? '2' : '1');
}

/* A size class with empty slots: no connection fails, both backends are used. */
static void test_size_class(void **state)
{
	struct world *w = *state;
	uint16_t kind = nft_pool_class(66, 0);
	struct err err = { 0 };
	size_t seen[2] = { 0 };

	wait_ready(w);
	if (nft_layout_chains_need(w->layout, &kind, 1, NULL, &err) < 0)
		fail_msg("%s", err.text);
	for (uint32_t i = 0; i < 66; i++)
		put_backend(w, 1, i, i % 2 ? POD2 : POD1);
	cluster_ip(w, nft_word(1, kind));
	written(w);
	for (int i = 0; i < 60; i++) {
		const char *answer = talk(w, OUTSIDE, nets[w->fam].vip, SERVICE_PORT, ANSWER_MS);

		assert_int_equal(strncmp(answer, "pod", 3), 0);
		seen[answer[3] == '2']++;
	}
	/* 60 picks: fewer than 8 of one backend happen once in 10^9 */
	assert_true(seen[0] >= 8 && seen[1] >= 8);
}

#define STRAY_PORT 40000 /* of no connection */

/* A reset that belongs to no connection: INVALID to conntrack. */
static void send_stray_reset(struct world *w, enum place from, const char *to)
{
	pid_t pid = child();
	int status = 0;

	if (pid == 0) {
		struct sockaddr_storage self, peer;
		socklen_t len = sockaddr_of(&self, nets[w->fam].addrs[from], 0);
		struct tcphdr t = { .source = htons(BACKEND_PORT),
				    .dest = htons(STRAY_PORT),
				    .seq = 1,
				    .doff = 5,
				    .rst = 1 };
		/* Checksum of the header, over the pseudo header. */
		int offset = offsetof(struct tcphdr, check), fd;
		uint32_t sum = 0;

		enter(w, from);
		fd = socket(self.ss_family, SOCK_RAW, IPPROTO_TCP);
		if (fd == -1 || bind(fd, (const struct sockaddr *)&self, len) == -1)
			_exit(99);
		len = sockaddr_of(&peer, to, 0);
		if (w->fam == IPFAM_V6) {
			if (setsockopt(fd, IPPROTO_IPV6, IPV6_CHECKSUM, &offset, sizeof(offset)) ==
			    -1)
				_exit(99);
		} else {
			struct ip_addr ends[2] = { addr(nets[w->fam].addrs[from]), addr(to) };
			uint16_t words[2];

			for (int i = 0; i < 2; i++) {
				memcpy(words, ends[i].bytes, 4);
				sum += ntohs(words[0]) + (uint32_t)ntohs(words[1]);
			}
			sum += IPPROTO_TCP + (uint32_t)sizeof(t);
			for (size_t i = 0; i < sizeof(t); i += 2) {
				memcpy(words, (const char *)&t + i, 2);
				sum += ntohs(words[0]);
			}
			while (sum >> 16)
				sum = (sum & 0xffff) + (sum >> 16);
			t.check = htons((uint16_t)~sum);
		}
		_exit(sendto(fd, &t, sizeof(t), 0, (const struct sockaddr *)&peer, len) == sizeof(t)
			      ? 0
			      : 98);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint64_t drops(struct world *w)
{
	const struct nft_table_ref table = { w->layout->table, w->fam };
	struct plane_rule_counts is = { 0 };
	struct err err = { 0 };

	if (plane_rule_counts_read(w->nl, &table, nft_counting_chains, &is, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(is.invalid_bytes,
			 is.packets[PLANE_INVALID_DROPPED] * (w->fam == IPFAM_V6 ? 60 : 40));
	return is.packets[PLANE_INVALID_DROPPED];
}

/* A stray reset. Connections of wait_ready() may still be closing on a busy machine. */
static bool is_stray(enum ipfam fam, const char *packet, ssize_t len)
{
	size_t head = fam == IPFAM_V6 ? 0 : (size_t)(packet[0] & 15) * 4;
	struct tcphdr t;

	if (len < (ssize_t)(head + sizeof(t)))
		return false;
	memcpy(&t, packet + head, sizeof(t));
	return t.rst && t.dest == htons(STRAY_PORT);
}

/* Write a byte for each stray reset that reaches the outside. */
static int listener(struct world *w, pid_t *pid)
{
	int out[2];
	char c;

	assert_int_equal(pipe(out), 0);
	*pid = child();
	if (*pid == 0) {
		char buf[2048];
		ssize_t n;
		int fd;

		enter(w, OUTSIDE);
		fd = socket(w->fam == IPFAM_V6 ? AF_INET6 : AF_INET, SOCK_RAW, IPPROTO_TCP);
		if (fd == -1 || write(out[1], "r", 1) != 1)
			_exit(99);
		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
			if (is_stray(w->fam, buf, n) && write(out[1], "p", 1) != 1)
				_exit(99);
		}
		_exit(0);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &c, 1), 1);
	return out[0];
}

/* Wait as long as a busy machine needs for an expected packet. */
#define ARRIVES_MS 10000
#define DOES_NOT_ARRIVE_MS 300

static bool is_heard(int fd, int limit_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	return poll(&p, 1, limit_ms) == 1 && read(fd, &c, 1) == 1;
}

static void expect_drops(struct world *w, uint64_t n)
{
	for (int i = 0; i < ARRIVES_MS / 10 && drops(w) < n; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	assert_int_equal(drops(w), n);
}

/* Only backends are checked, at the forward hook and at the input hook. */
static void test_invalid(void **state)
{
	struct world *w = *state;
	const char *const *a = nets[w->fam].addrs;
	pid_t pid;
	int ear;

	wait_ready(w);
	put_backend(w, 1, 0, POD1);
	cluster_ip(w, nft_word(1, 1));
	written(w);
	ear = listener(w, &pid);
	assert_int_equal(drops(w), 0);
	send_stray_reset(w, POD2, a[OUTSIDE]); /* no backend: not ours */
	assert_true(is_heard(ear, ARRIVES_MS));
	assert_int_equal(drops(w), 0);
	send_stray_reset(w, POD1, a[OUTSIDE]);
	expect_drops(w, 1);
	assert_false(is_heard(ear, DOES_NOT_ARRIVE_MS));
	send_stray_reset(w, POD1, a[NODE]);
	expect_drops(w, 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ear);
}

#define BOTH(test)                                            \
	{ #test " IPv4", test, setup_v4, teardown, NULL },    \
	{                                                     \
#test " IPv6", test, setup_v6, teardown, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_cluster_ip),    BOTH(test_service_cidr_is_not_for_us),
		BOTH(test_no_backends),   BOTH(test_detectors),
		BOTH(test_external),      BOTH(test_external_local),
		BOTH(test_source_ranges), BOTH(test_affinity),
		BOTH(test_size_class),    BOTH(test_invalid),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests_name("kernel path", tests, NULL, NULL);
}
