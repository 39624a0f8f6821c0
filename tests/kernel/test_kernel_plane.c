/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The nftables plane over the real kernel: the cases of the fake one, and cases that only a kernel
 * shows.
 */
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "nft/decode.h"
#include "nft_cases.h"
#include "objects.h"

static struct nl_sock *connect_kernel(void *ctx)
{
	(void)ctx;
	return kernel_sock();
}

static const struct world_kernel kernel = { .connect = connect_kernel, .resizes = true };

static void test_shared_cases(void **state)
{
	size_t n;
	const struct nft_case *cases = nft_cases(&n);

	for (size_t i = 0; i < n; i++) {
		/* In a machine: tests/vm/README.md. */
		if (cases[i].is_long && getenv("VIPD_PAIRS") != NULL)
			continue;
		print_message("  %s\n", cases[i].name);
		assert_int_equal(kernel_fresh(state), 0);
		cases[i].run(&kernel);
	}
}

/* check() after own writes is clean; after foreign changes it returns their severity. */
static void test_check(void **state)
{
	struct err err = { 0 };
	struct world w;

	(void)state;
	world_open(&w, &kernel);
	world_settle(&w);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_QUIET);
	world_service(&w, "shop/web", "ip=10.96.0.1 port=http:80 affinity=600");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs"); /* and chains */
	world_settle(&w);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_QUIET);
	world_no_service(&w, "shop/web");
	world_settle(&w);
	world_walk(&w);
	world_wait(&w, 2 * NFT_GRACE_S * NSEC_PER_SEC);
	world_check(&w);
	assert_int_equal(nft_plane_stats(w.plane).n_in_grace, 0);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_QUIET);

	assert_int_equal(sh("nft add table ip other"), 0);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_CHANGED);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_QUIET);
	assert_int_equal(sh("nft flush ruleset"), 0);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_LOST);
	sync_reload(w.s);
	world_settle(&w);
	world_check(&w);
	assert_int_equal(w.plane->ops->check(w.plane, &err), PLANE_CHECK_QUIET);
	assert_int_equal(w.plane->ops->cleanup(w.plane, &err), 0);
	assert_int_equal(sh("test -z \"$(nft list tables)\""), 0);
	world_close(&w);
}

/* Foreign changes of elements with the nft command. */
static const struct {
	const char *what;
	const char *command;
	size_t writes;
} stranger_cases[] = {
	{ "nothing", "true", 0 },
	{ "a frontend deleted", "nft delete element ip vipd frontends '{ 10.96.0.1 . tcp . 80 }'",
	  1 },
	{ "a slot deleted", "nft delete element ip vipd endpoints '{ 0:1000 . 0x0 }'", 1 },
	{ "all addresses deleted", "nft flush set ip vipd vips", 4 },
	{ "a range deleted",
	  "nft delete element ip vipd fw_ranges \"{ $(nft list set ip vipd fw_ranges | "
	  "grep -o '[0-9a-f]*:[0-9a-f]* \\. 10.0.0.0') }\"",
	  1 },
};

static void test_strangers(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &kernel);
	world_service(&w, "shop/web", "ip=10.96.0.1 port=http:80 ext=192.0.2.1");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_service(&w, "shop/lb",
		      "type=LoadBalancer ip=10.96.0.2 port=http:80 vip=192.0.2.2 range=10.0.0.0/8");
	world_slice(&w, "shop/lb-1", "lb", "| http:8080 | 4 rs");
	world_settle(&w);
	for (size_t i = 0; i < ARRAY_SIZE(stranger_cases); i++) {
		print_message("    %s\n", stranger_cases[i].what);
		assert_int_equal(sh("%s", stranger_cases[i].command), 0);
		assert_int_equal(world_audit(&w), stranger_cases[i].writes);
		world_check(&w);
		assert_int_equal(sh("%s", stranger_cases[i].command), 0);
		assert_int_equal(world_reload(&w), stranger_cases[i].writes);
		world_check(&w);
	}
	/* Our own change meets the foreign one first. */
	assert_int_equal(sh("%s", stranger_cases[2].command), 0);
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 2 rs; 3 rs");
	world_settle(&w);
	world_check(&w);
	world_close(&w);
}

/* The listing is complete, and its elements can be looked up. */
static void test_listing(void **state)
{
	struct world w;
	char *text;

	(void)state;
	world_open(&w, &kernel);
	world_service(&w, "shop/web", "ip=10.96.0.1 ip=fd02::1 port=http:80");
	world_slice(&w, "shop/web-1", "web", "| http:8080 | 1 rs; 2 rs; 3 rs");
	world_slice(&w, "shop/web-2", "web", "v6 | http:8080 | 1 rs");
	world_settle(&w);
	text = sh_text("nft list map ip vipd frontends");
	assert_non_null(strstr(text, "10.96.0.1 . tcp . 80 : 0:1003"));
	free(text);
	text = sh_text("nft list map ip6 vipd frontends");
	assert_non_null(strstr(text, "fd02::1 . tcp . 80 : 0:1001"));
	free(text);
	text = sh_text("nft list map ip vipd endpoints");
	assert_non_null(strstr(text, "0:1000 . 2 : 10.0.1.3 . 8080"));
	free(text);
	text = sh_text("nft list set ip6 vipd endpoint_addrs");
	assert_non_null(strstr(text, "fd00::1 . 8080 . fd00::1"));
	free(text);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_cases),
		cmocka_unit_test_setup(test_check, kernel_fresh),
		cmocka_unit_test_setup(test_strangers, kernel_fresh),
		cmocka_unit_test_setup(test_listing, kernel_fresh),
	};
	int r = kernel_enter();

	if (r != 0)
		return r;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
