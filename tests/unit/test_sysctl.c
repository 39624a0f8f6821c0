/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/sysctl: arithmetic, and writes in a folder that imitates /proc and /sys. */
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "conntrack/sysctl.h"

static const struct {
	const char *name;
	uint32_t per_core;
	uint32_t min;
	size_t cpus;
	uint64_t max;
} sums[] = {
	{ "CT-14: the default of 8 CPUs", 32768, 131072, 8, 262144 },
	{ "CT-14: the default of 2", 32768, 131072, 2, 131072 },
	{ "T-149", 32768, 131072, 512, 1048576 },
	{ "T-149: exactly the cap", 32768, 131072, 32, 1048576 },
	{ "T-149: one beyond", 32768, 131072, 33, 1048576 },
	{ "CT-14: a minimum above the cap", 32768, 2000000, 8, 2000000 },
	{ "CT-14: but not once the product is above it", 32768, 2000000, 64, 1048576 },
	{ "T-150: 0 leaves it alone, whatever the minimum", 0, 131072, 8, 0 },
	{ "no overflow", UINT32_MAX, 0, 65536, 1048576 },
};

static void test_max(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		struct sysctl_config c = { .max_per_core = sums[i].per_core,
					   .max_min = sums[i].min };

		print_message("    %s\n", sums[i].name);
		assert_true(sysctl_table_max(&c, sums[i].cpus) == sums[i].max);
	}
}

/* --- a folder like the kernel's ----------------------------------------------------- */

#define NF "/proc/sys/net/netfilter/"

static char root[] = "/tmp/vipd-test-sysctl-XXXXXX";

static void path_make(const char *file)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s%s", root, file);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		(void)mkdir(path, 0700);
		*at = '/';
	}
}

static void put(const char *file, const char *text)
{
	char path[512];
	FILE *f;

	path_make(file);
	(void)snprintf(path, sizeof(path), "%s%s", root, file);
	f = fopen(path, "we");
	assert_non_null(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static uint64_t get(const char *file)
{
	char path[512];
	unsigned long long n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s%s", root, file);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llu", &n), 1);
	(void)fclose(f);
	return n;
}

static void take(const char *file)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s%s", root, file);
	(void)unlink(path);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	memcpy(root + sizeof(root) - 7, "XXXXXX", 6);
	log_level_set_all(LOG_LEVEL_ERR);
	if (mkdtemp(root) == NULL)
		return -1;
	put("/sys/devices/system/cpu/online", "0-5,7,9\n");
	put("/sys/module/nf_conntrack/parameters/hashsize", "16384\n");
	put(NF "nf_conntrack_max", "65536\n");
	put(NF "nf_conntrack_tcp_timeout_established", "432000\n");
	put(NF "nf_conntrack_tcp_timeout_close_wait", "60\n");
	put(NF "nf_conntrack_tcp_be_liberal", "0\n");
	put(NF "nf_conntrack_udp_timeout", "30\n");
	put(NF "nf_conntrack_udp_timeout_stream", "120\n");
	return 0;
}

static int teardown(void **state)
{
	log_level_set_all(LOG_LEVEL_NOTICE);
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const struct sysctl_config presets = {
	.max_per_core = 32768,
	.max_min = 131072,
	.tcp_established_s = 86400,
	.tcp_close_wait_s = 3600,
};

/* Returns the number of failures. */
static uint64_t apply(const struct sysctl_config *c)
{
	uint64_t warnings = log_count(LOG_LEVEL_WARN);

	log_level_set_all(LOG_LEVEL_WARN);
	sysctl_apply(c, root);
	return log_count(LOG_LEVEL_WARN) - warnings;
}

static void test_presets(void **state)
{
	assert_int_equal(sysctl_cpus(root), 8);
	assert_true(sysctl_is_there(root));
	assert_int_equal(apply(&presets), 0);
	assert_int_equal(get(NF "nf_conntrack_max"), 262144);
	assert_int_equal(get("/sys/module/nf_conntrack/parameters/hashsize"), 65536);
	assert_int_equal(get(NF "nf_conntrack_tcp_timeout_established"), 86400);
	assert_int_equal(get(NF "nf_conntrack_tcp_timeout_close_wait"), 3600); /* T-148 */
	assert_int_equal(get(NF "nf_conntrack_tcp_be_liberal"), 0);
	assert_false(sysctl_is_liberal(&presets, root));
	assert_int_equal(get(NF "nf_conntrack_udp_timeout"), 30);
	assert_int_equal(get(NF "nf_conntrack_udp_timeout_stream"), 120);
}

static void test_all(void **state)
{
	struct sysctl_config c = presets;

	c.is_tcp_liberal = true;
	assert_true(sysctl_is_liberal(&c, "/nonexistent")); /* until the kernel has a value */
	assert_false(sysctl_is_liberal(&c, root));          /* as if it could not be written */
	c.udp_s = 40;
	c.udp_stream_s = 50;
	assert_int_equal(apply(&c), 0);
	assert_int_equal(get(NF "nf_conntrack_tcp_be_liberal"), 1);
	assert_int_equal(get(NF "nf_conntrack_udp_timeout"), 40);
	assert_int_equal(get(NF "nf_conntrack_udp_timeout_stream"), 50);
	c.is_tcp_liberal = false; /* CT-13: false never writes 0 */
	assert_int_equal(apply(&c), 0);
	assert_int_equal(get(NF "nf_conntrack_tcp_be_liberal"), 1);
	assert_true(sysctl_is_liberal(&c, root));
}

/* T-150 */
static void test_nothing(void **state)
{
	struct sysctl_config c = { .max_min = 131072 };

	assert_int_equal(apply(&c), 0);
	assert_int_equal(get(NF "nf_conntrack_max"), 65536);
	assert_int_equal(get("/sys/module/nf_conntrack/parameters/hashsize"), 16384);
	assert_int_equal(get(NF "nf_conntrack_tcp_timeout_established"), 432000);
}

/* CT-17: a limit raised by the administrator stays; timeouts are set, longer or shorter. */
static void test_never_lowered(void **state)
{
	put(NF "nf_conntrack_max", "4000000\n");
	put("/sys/module/nf_conntrack/parameters/hashsize", "1000000\n");
	assert_int_equal(apply(&presets), 0);
	assert_int_equal(get(NF "nf_conntrack_max"), 4000000);
	assert_int_equal(get("/sys/module/nf_conntrack/parameters/hashsize"), 1000000);
}

/* CT-16: an equal value is not written, in any notation. */
static void test_equal(void **state)
{
	char text[32] = "";
	char path[512];
	FILE *f;

	put(NF "nf_conntrack_tcp_timeout_established", "0086400 \n");
	assert_int_equal(apply(&presets), 0);
	(void)snprintf(path, sizeof(path), "%s" NF "nf_conntrack_tcp_timeout_established", root);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	(void)fclose(f);
	assert_string_equal(text, "0086400 \n");
}

/* One warning for each file that cannot be written; the others are. */
static void test_refused(void **state)
{
	take(NF "nf_conntrack_max"); /* the buckets are not tried then */
	take(NF "nf_conntrack_tcp_timeout_established");
	assert_false(sysctl_is_there(root));
	assert_int_equal(apply(&presets), 2);
	assert_int_equal(get("/sys/module/nf_conntrack/parameters/hashsize"), 16384);
	assert_int_equal(get(NF "nf_conntrack_tcp_timeout_close_wait"), 3600);
	put(NF "nf_conntrack_tcp_timeout_established", "many\n");
	assert_int_equal(apply(&presets), 2);
}

/* CT-15 */
static void test_cpus(void **state)
{
	static const struct {
		const char *text;
		size_t n; /* 0: not to be used */
	} cases[] = { { "0\n", 1 }, { "0-127\n", 128 }, { "0,2,4-5\n", 4 }, { "", 0 },
		      { "x", 0 },   { "3-1\n", 0 },     { "0-999999", 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put("/sys/devices/system/cpu/online", cases[i].text);
		if (cases[i].n != 0)
			assert_int_equal(sysctl_cpus(root), cases[i].n);
		else
			assert_in_range(sysctl_cpus(root), 1, 65535);
	}
	take("/sys/devices/system/cpu/online");
	assert_in_range(sysctl_cpus(root), 1, 65535);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_max),
		cmocka_unit_test_setup_teardown(test_presets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_lowered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_equal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cpus, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
