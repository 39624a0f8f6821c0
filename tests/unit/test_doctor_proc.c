/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/proc and the readers of files: lines in the kernel's format below a root of the test. */
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/proc.h"

static const struct {
	const char *name;
	const char *line;
	uint8_t proto;
	const char *endpoint; /* NULL: no listener */
	bool is_any;
} listener_cases[] = {
	{ "head", "  sl  local_address rem_address   st tx_queue rx_queue", IPPROTO_TCP, NULL,
	  false },
	{ "one address", "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000",
	  IPPROTO_TCP, "127.0.0.1:8080", false },
	{ "all of IPv4", "   1: 00000000:0016 00000000:0000 0A 00000000:00000000", IPPROTO_TCP,
	  "0.0.0.0:22", true },
	{ "a connection", "   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000", IPPROTO_TCP,
	  NULL, false },
	{ "all of IPv6",
	  "   0: 00000000000000000000000000000000:7530 00000000000000000000000000000000:0000 0A 0",
	  IPPROTO_TCP, "[::]:30000", true },
	{ "one of IPv6",
	  "   0: B80D0120000000000000000001000000:7530 00000000000000000000000000000000:0000 0A 0",
	  IPPROTO_TCP, "[2001:db8::1]:30000", false },
	{ "UDP", "  37: 0200A8C0:0035 00000000:0000 07 00000000:00000000", IPPROTO_UDP,
	  "192.168.0.2:53", false },
	{ "connected UDP", "  37: 0200A8C0:0035 0300A8C0:1234 01 00000000:00000000", IPPROTO_UDP,
	  NULL, false },
	{ "an address of five digits", "   0: 01007:1F90 00000000:0000 0A 0", IPPROTO_TCP, NULL,
	  false },
	{ "nothing", "", IPPROTO_TCP, NULL, false },
};

static void test_listeners(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(listener_cases); i++) {
		char text[IP_ENDPOINT_TEXT_MAX];
		struct ip_tuple t;
		int r = proc_listener(&t, listener_cases[i].line, listener_cases[i].proto);

		print_message("    %s\n", listener_cases[i].name);
		assert_int_equal(r, listener_cases[i].endpoint != NULL);
		if (r == 0)
			continue;
		assert_string_equal(ip_endpoint_text(&t.addr, t.port, text),
				    listener_cases[i].endpoint);
		assert_int_equal(ip_addr_is_any(&t.addr), listener_cases[i].is_any);
		assert_int_equal(t.proto, listener_cases[i].proto);
	}
}

static const struct {
	const char *line;
	const char *endpoint;
	uint8_t proto;
} ipvs_cases[] = {
	{ "IP Virtual Server version 1.2.1 (size=4096)", NULL, 0 },
	{ "Prot LocalAddress:Port Scheduler Flags", NULL, 0 },
	{ "  -> RemoteAddress:Port Forward Weight ActiveConn InActConn", NULL, 0 },
	{ "TCP  0A600001:01BB rr ", "10.96.0.1:443", IPPROTO_TCP },
	{ "UDP  [fd00:0010:0096:0000:0000:0000:0000:000a]:0035 rr", "[fd00:10:96::a]:53",
	  IPPROTO_UDP },
	{ "SCTP C0A80001:1388 wlc persistent 10800", "192.168.0.1:5000", IPPROTO_SCTP },
	{ "FWM  00000001 rr", NULL, 0 },
	{ "  -> 0AF40105:1F90      Masq    1      0          0         ", NULL, 0 },
};

static void test_ipvs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ipvs_cases); i++) {
		char text[IP_ENDPOINT_TEXT_MAX];
		struct ip_tuple t;
		int r = proc_ipvs(&t, ipvs_cases[i].line);

		print_message("    %s\n", ipvs_cases[i].line);
		assert_int_equal(r, ipvs_cases[i].endpoint != NULL);
		if (r == 0)
			continue;
		assert_string_equal(ip_endpoint_text(&t.addr, t.port, text),
				    ipvs_cases[i].endpoint);
		assert_int_equal(t.proto, ipvs_cases[i].proto);
	}
}

static void test_ipvs_conns(void **state)
{
	(void)state;
	assert_int_equal(proc_ipvs_size("IP Virtual Server version 1.2.1 (size=4096)"), 4096);
	assert_int_equal(proc_ipvs_size("Prot LocalAddress:Port Scheduler Flags"), FACT_UNKNOWN);
	assert_int_equal(proc_ipvs_conns("  -> RemoteAddress:Port Forward Weight ActiveConn "
					 "InActConn"),
			 FACT_UNKNOWN);
	assert_int_equal(proc_ipvs_conns("FWM  5A000001 rr "), FACT_UNKNOWN);
	assert_int_equal(
		proc_ipvs_conns("  -> 0AF40105:1F90      Masq    1      3          12        "),
		15);
	assert_int_equal(proc_ipvs_conns("  -> [fd00:0000:0000:0000:0000:0000:0000:0001]:1F90  "
					 "Masq    1      0          2"),
			 2);
}

static void test_tables(void **state)
{
	char routes[] = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n"
			"eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
			"eth1\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
			"eth1\t00000000\t0201A8C0\t0003\t0\t0\t300\t00000000\t0\t0\t0\n"
			"eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";
	char stat[] = "entries  clashres found new invalid ignore delete chainlength insert "
		      "insert_failed drop early_drop\n"
		      "0000001b  00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
		      "00000000 00000000 00000010 00000000\n"
		      "0000001b  00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
		      "00000000 00000000 00000002 00000007\n";
	char other[] = "entries found\n00000001 00000002\n";
	char empty[] = "";

	(void)state;
	assert_int_equal(proc_default_routes(routes), 2);
	assert_int_equal(proc_default_routes(empty), 0);
	assert_int_equal(proc_stat_sum(stat, "drop"), 18);
	assert_int_equal(proc_stat_sum(other, "drop"), 0);
	assert_int_equal(proc_stat_sum(empty, "drop"), 0);
}

/* --- a root of our own --- */

static char root[64];

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		(void)mkdir(full, 0755);
		*at = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	(void)fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	strcpy(root, "/tmp/vipd-test-XXXXXX");
	return mkdtemp(root) == NULL;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void test_numbers(void **state)
{
	struct str text = { 0 };

	(void)state;
	put("/proc/sys/net/a", "17\n");
	put("/proc/sys/net/b", "max\n");
	put("/proc/sys/net/c", "");
	assert_int_equal(proc_number(root, "/proc/sys/net/%s", "a"), 17);
	assert_int_equal(proc_number(root, "/proc/sys/net/b"), FACT_UNKNOWN);
	assert_int_equal(proc_number(root, "/proc/sys/net/c"), FACT_UNKNOWN);
	assert_int_equal(proc_number(root, "/proc/sys/net/d"), FACT_UNKNOWN);
	assert_int_equal(proc_read(&text, root, "/proc/sys/net/d"), -ENOENT);
	assert_int_equal(proc_read(&text, root, "/proc/sys/net"), -EISDIR);
	assert_int_equal(proc_read(&text, root, "/proc/sys/net/a"), 0);
	assert_string_equal(text.text, "17\n");
	str_fini(&text);
}

static void test_files(void **state)
{
	struct facts f;

	(void)state;
	facts_init(&f);
	*vec_push(&f.net.links) = (struct fact_link){ .index = 2, .name = "eth0" };
	put("/proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
	put("/proc/sys/net/ipv4/ip_forward", "1\n");
	put("/proc/sys/net/ipv4/conf/all/rp_filter", "0\n");
	put("/proc/sys/net/ipv4/conf/eth0/rp_filter", "1\n");
	put("/proc/sys/net/ipv4/conf/eth0/route_localnet", "1\n");
	put("/proc/sys/net/bridge/bridge-nf-call-iptables", "0\n");
	put("/proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
	put("/proc/sys/net/netfilter/nf_conntrack_count", "99\n");
	put("/proc/self/net/tcp", "  sl  local_address\n   0: 0100007F:1F90 00000000:0000 0A 0\n");
	put("/proc/self/net/udp6", "  sl  local_address\n"
				   "   0: 00000000000000000000000000000000:0035 "
				   "00000000000000000000000000000000:0000 07 0\n");
	put("/proc/self/net/ip_vs", "TCP  0A600001:01BB rr \n");
	put("/proc/17/comm", "kube-proxy\n");
	put("/proc/18/comm", "kube-proxyish\n");
	put("/proc/no-process/comm", "kube-router\n");
	read_files(&f, root);
	read_ipvs(&f, root);
	assert_string_equal(f.release, "6.1.0-13-amd64");
	assert_int_equal(f.ip_forward, 1);
	assert_int_equal(f.ip6_forward, FACT_UNKNOWN);
	assert_int_equal(f.net.links.v[0].rp_filter, 1);
	assert_int_equal(f.net.links.v[0].route_localnet, 1);
	assert_int_equal(f.bridge_call_iptables, 0);
	assert_int_equal(f.bridge_call_ip6tables, FACT_UNKNOWN);
	assert_int_equal(f.ct_max, 262144);
	assert_int_equal(f.ct_count, 99);
	assert_false(f.has_ct_drops);
	assert_int_equal(f.listeners.n, 2);
	assert_true(f.has_ipvs);
	assert_int_equal(f.ipvs.n, 1);
	assert_int_equal(f.proxies.v.n, 1);
	assert_string_equal(f.proxies.v.v[0].name, "kube-proxy");
	assert_int_equal(f.proxies.v.v[0].pid, 17);
	facts_fini(&f);
}

/* A socket of a process, as a file of /proc/PID/fd. */
static void put_socket(int pid, unsigned int inode)
{
	char path[PROC_PATH_MAX];
	char link[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/fd/0", pid);
	put(path, "");
	(void)snprintf(path, sizeof(path), "%s/proc/%d/fd/7", root, pid);
	(void)snprintf(link, sizeof(link), "socket:[%u]", inode);
	assert_int_equal(symlink(link, path), 0);
}

static void proxies_expect(const char *want)
{
	struct proxies p = { 0 };
	struct str got = { 0 };

	proxies_read(&p, root);
	for (int pid = 0; pid < 100; pid++) /* readdir() returns files in any order */
		vec_for_each (process, &p.v)
			if (process->pid == pid)
				str_printf(&got, "%d %s in %s\n", pid, process->proxy,
					   process->name);
	str_puts(&got, p.is_partial ? "some are not visible\n" : "");
	assert_string_equal(str_text(&got), want);
	vec_fini(&p.v);
	str_fini(&got);
}

/* kube-proxy inside another program, and kube-router without its service proxy. */
static void test_proxies(void **state)
{
	static const char quiet[] = "kube-router\0--run-service-proxy=false\0--v=1";
	char path[PROC_PATH_MAX];
	FILE *f;

	(void)state;
	put("/proc/21/comm", "k3s-server\n");
	put("/proc/22/comm", "k3s-agent\n");
	put("/proc/23/comm", "kubelite\n");
	put("/proc/24/comm", "kube-router\n");
	put("/proc/24/cmdline", "kube-router");
	put("/proc/25/comm", "kube-router\n");
	put("/proc/25/cmdline", "");
	(void)snprintf(path, sizeof(path), "%s/proc/25/cmdline", root);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(quiet, 1, sizeof(quiet), f), sizeof(quiet));
	assert_int_equal(fclose(f), 0);
	put("/proc/26/comm", "vipd\n");
	put("/proc/27/comm", "vipd-conntrack\n"); /* its helper */
	put_socket(21, 901);
	put_socket(22, 902);
	put_socket(23, 903);
	put("/proc/self/net/tcp", "");
	proxies_expect("24 kube-router in kube-router\n"
		       "26 vipd in vipd\n"
		       "some are not visible\n"); /* disabled in k3s: no listener */
	put("/proc/self/net/tcp",
	    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
	    "   0: 0100007F:2809 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0 "
	    "       0 901 1 0000000000000000 100 0 0 10 0\n"
	    "   1: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0 "
	    "       0 902 1 0000000000000000 100 0 0 10 0\n");
	put("/proc/self/net/tcp6",
	    "   0: 00000000000000000000000000000000:2810 00000000000000000000000000000000:0000 "
	    "0A 00000000:00000000 00:00000000 00000000     0        0 903 1 0 100 0 0 10 0\n");
	put("/proc/self/ns/net", "");
	(void)snprintf(path, sizeof(path), "%s/proc/self/ns/pid", root);
	assert_int_equal(symlink("pid:[4026531836]", path), 0);
	proxies_expect("21 kube-proxy in k3s-server\n" /* 22 listens on 10248 */
		       "23 kube-proxy in kubelite\n"
		       "24 kube-router in kube-router\n"
		       "26 vipd in vipd\n");
}

/* The limit with the least memory left counts. */
static void test_memory(void **state)
{
	struct facts f;

	(void)state;
	facts_init(&f);
	put("/proc/self/cgroup", "1:name=systemd:/x\n0::/pods/vipd\n");
	put("/proc/self/status", "Name:\tvipd\nCapEff:\t0000000000001000\n");
	put("/sys/fs/cgroup/pods/vipd/memory.max", "max\n");
	put("/sys/fs/cgroup/pods/memory.max", "104857600\n");
	put("/sys/fs/cgroup/pods/memory.current", "94371840\n");
	put("/sys/fs/cgroup/memory.max", "1073741824\n");
	put("/sys/fs/cgroup/memory.current", "1048576\n");
	read_self(&f, root, 0);
	assert_false(f.has_memory); /* the controller "memory" may be of version 1 */
	put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
	read_self(&f, root, 0);
	assert_true(f.has_memory);
	assert_int_equal(f.memory_max, 104857600);
	assert_int_equal(f.memory_used, 94371840);
	assert_true(f.has_capabilities);
	assert_int_equal(f.capabilities, 0x1000);
	assert_int_equal(f.clock_jump_ns, 0);
	read_self(&f, root, INT64_C(1)); /* the wall clock was at 0 when it was opened */
	assert_true(f.clock_jump_ns > 0);
	facts_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_listeners),
		cmocka_unit_test(test_ipvs),
		cmocka_unit_test(test_ipvs_conns),
		cmocka_unit_test(test_tables),
		cmocka_unit_test_setup_teardown(test_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_proxies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
