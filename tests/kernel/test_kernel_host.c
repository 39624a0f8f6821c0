/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses of this host in a private namespace: order, scope, changes. */
#include "source/host/host.h"

#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "kernel.h"

#include "../unit/expect.h"

struct world {
	struct event_base *base;
	struct model model;
	struct host *host;
	unsigned int n_changed;
};

static void on_changed(void *arg)
{
	((struct world *)arg)->n_changed++;
}

static void addrs_text(struct str *ret, void *arg)
{
	const struct model *m = arg;
	char buf[IP_TEXT_MAX];

	vec_for_each (a, &m->host_addrs)
		str_printf(ret, "%s%s", ret->len > 0 ? " " : "", ip_addr_text(a, buf));
}

static void expect(struct world *w, const char *want)
{
	expect_text(w->base, want, addrs_text, &w->model);
}

static void world_open(struct world *w)
{
	struct err err;

	w->base = event_base_new();
	model_init(&w->model);
	model_configured(&w->model);
	if (host_open(&w->host, w->base, &w->model, on_changed, w, &err) < 0)
		fail_msg("%s", err.text);
}

static void world_close(struct world *w)
{
	host_close(w->host);
	event_base_free(w->base);
	model_fini(&w->model);
}

/*
 * Two interfaces; "nodad" because duplicate detection takes a second; no automatic link-local
 * addresses, whose detection would end with a notification at any time.
 */
static int setup(void **state)
{
	int r = kernel_fresh(state);

	return r != 0 ? r
		      : sh("ip link set lo up; ip link add dev a type veth peer name b; "
			   "ip link set dev a addrgenmode none; ip link set dev b addrgenmode none; "
			   "ip link set dev a up; ip link set dev b up");
}

static void test_empty(void **state)
{
	struct world w = { 0 };

	(void)state;
	world_open(&w);
	expect(&w, "");
	world_close(&w);
}

/* By scope, interface, address; without loopback and link-local addresses, with others on lo; an
 * address of scope link or site may be of the network. */
static void test_which(void **state)
{
	struct world w = { 0 };

	(void)state;
	assert_int_equal(sh("ip addr add 198.18.0.9/24 dev b; ip addr add 198.18.0.7/24 dev a; "
			    "ip addr add 198.18.0.8/24 dev a; ip addr add 203.0.113.1/32 dev lo; "
			    "ip addr add 169.254.1.1/16 dev a scope link; "
			    "ip addr add 198.18.0.3/32 dev a scope link; "
			    "ip addr add 198.18.0.4/32 dev a scope site; "
			    "ip addr add fe80::7/64 dev a nodad; "
			    "ip addr add 203.0.113.0/32 dev lo scope host; "
			    "ip addr add fd00::7/64 dev a nodad"),
			 0);
	world_open(&w);
	expect(&w,
	       "203.0.113.1 198.18.0.9 198.18.0.7 198.18.0.8 fd00::7 198.18.0.4 198.18.0.3 203.0.113.0");
	world_close(&w);
}

/* Service addresses are those of another proxy's device and of NodeLocal DNSCache. */
static void test_devices(void **state)
{
	const struct ip_addr *all;
	struct world w = { 0 };
	char buf[IP_TEXT_MAX];

	(void)state;
	assert_int_equal(sh("ip link add nodelocaldns type veth peer name kube-ipvs0; "
			    "ip addr add 10.96.0.10/32 dev nodelocaldns; "
			    "ip addr add 169.254.20.10/32 dev nodelocaldns; "
			    "ip addr add 10.96.0.1/32 dev kube-ipvs0; "
			    "ip addr add 198.18.0.7/24 dev a"),
			 0);
	world_open(&w);
	expect(&w, "198.18.0.7");
	all = w.model.host_sorted.v;
	assert_int_equal(w.model.host_sorted.n, 4);
	assert_string_equal(ip_addr_text(&all[0], buf), "10.96.0.1");
	assert_string_equal(ip_addr_text(&all[1], buf), "10.96.0.10");
	assert_int_equal(w.model.host_expected.n, 2);
	assert_string_equal(ip_addr_text(&w.model.host_expected.v[0], buf), "10.96.0.10");
	world_close(&w);
}

static void test_changes(void **state)
{
	struct world w = { 0 };

	(void)state;
	world_open(&w);
	assert_int_equal(sh("ip addr add 198.18.0.7/24 dev a"), 0);
	expect(&w, "198.18.0.7");
	assert_int_equal(w.n_changed, 1);
	assert_int_equal(sh("ip addr add fd00::7/64 dev a nodad"), 0);
	expect(&w, "198.18.0.7 fd00::7");
	assert_int_equal(sh("ip addr del 198.18.0.7/24 dev a"), 0);
	expect(&w, "fd00::7");
	assert_int_equal(sh("ip link del dev a"), 0);
	expect(&w, "");
	world_close(&w);
}

/* The source address of the default route comes first when that route is added or changed. */
static void test_default_route(void **state)
{
	struct world w = { 0 };

	(void)state;
	assert_int_equal(sh("ip addr add 198.18.1.1/24 dev b; ip addr add 198.18.2.1/24 dev a; "
			    "ip addr add fd00:1::1/64 dev b nodad; "
			    "ip addr add fd00:2::1/64 dev a nodad"),
			 0);
	world_open(&w);
	expect(&w, "198.18.1.1 fd00:1::1 198.18.2.1 fd00:2::1");
	assert_int_equal(sh("ip route add default via 198.18.2.2"), 0);
	expect(&w, "198.18.2.1 198.18.1.1 fd00:1::1 fd00:2::1");
	assert_int_equal(sh("ip -6 route add default via fd00:2::2 dev a"), 0);
	expect(&w, "198.18.2.1 fd00:2::1 198.18.1.1 fd00:1::1");
	assert_int_equal(sh("ip route replace default via 198.18.1.2"), 0);
	expect(&w, "198.18.1.1 fd00:2::1 fd00:1::1 198.18.2.1");
	assert_int_equal(sh("ip route del default"), 0);
	expect(&w, "fd00:2::1 198.18.1.1 fd00:1::1 198.18.2.1");
	world_close(&w);
}

static int find_fd(const struct event_base *base, const struct event *ev, void *arg)
{
	(void)base;
	if (event_get_fd(ev) >= 0 && event_get_events(ev) & EV_READ)
		*(int *)arg = event_get_fd(ev);
	return 0;
}

static bool is_woken(struct world *w)
{
	struct pollfd p = { .fd = -1, .events = POLLIN };

	(void)event_base_foreach_event(w->base, find_fd, &p.fd);
	assert_true(p.fd >= 0);
	return poll(&p, 1, 0) == 1;
}

/* Other routes cause no wakeup: a host may have a million. */
static void test_other_routes(void **state)
{
	struct world w = { 0 };

	(void)state;
	/*
	 * A tentative address is announced again when duplicate detection ends; an address without
	 * detection is announced, and gets its route, by a work queue.
	 */
	assert_int_equal(sh("ip addr add 198.18.0.7/24 dev a; ip addr add fd00::7/64 dev a nodad; "
			    "timeout 60 sh -c '"
			    "while ip -6 addr show tentative | grep -q inet6; do sleep 0.05; done; "
			    "until ip -6 route show table local | grep -q ^local.fd00::7; do "
			    "sleep 0.05; done'"),
			 0);
	world_open(&w);
	for (uint64_t end = now_ns() + EXPECT_NS; is_woken(&w) && now_ns() < end;)
		(void)event_base_loop(w.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_equal(sh("for i in $(seq 1 50); do ip route add 10.$i.0.0/16 via 198.18.0.1; "
			    "done; ip -6 route add fd00:5::/64 dev a; ip route del 10.7.0.0/16"),
			 0);
	assert_false(is_woken(&w));
	assert_int_equal(sh("ip route add default via 198.18.0.1"), 0);
	assert_true(is_woken(&w));
	world_close(&w);
}

/* More changes than the socket's buffer: the final list is correct. */
static void test_overflow(void **state)
{
	struct world w = { 0 };
	struct str want = { 0 };
	FILE *batch;

	(void)state;
	world_open(&w);
	batch = popen("ip -batch -", "we"); /* NOLINT: no external input */
	assert_non_null(batch);
	for (int round = 0; round < 20; round++)
		for (int i = 1; i <= 200; i++)
			(void)fprintf(batch, "addr %s 198.18.0.%d/32 dev a\n",
				      round % 2 == 0 ? "add" : "del", i);
	for (int i = 1; i <= 3; i++)
		(void)fprintf(batch, "addr add 198.18.1.%d/32 dev a\n", i);
	assert_int_equal(pclose(batch), 0);
	str_puts(&want, "198.18.1.1 198.18.1.2 198.18.1.3");
	expect(&w, want.text);
	str_fini(&want);
	world_close(&w);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_empty),    TEST(test_which),         TEST(test_devices),
		TEST(test_changes),  TEST(test_default_route), TEST(test_other_routes),
		TEST(test_overflow),
	};
	int r = kernel_enter();

	return r != 0 ? r : cmocka_run_group_tests(tests, NULL, NULL);
}
