/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/ip.h"

static const struct {
	const char *name;
	const char *text;
	int ret;
	const char *canonical; /* when ret is 0 */
} addr_cases[] = {
	{ "v4", "10.96.0.1", 0, "10.96.0.1" },
	{ "v4 unspecified", "0.0.0.0", 0, "0.0.0.0" },
	{ "v4 last", "255.255.255.255", 0, "255.255.255.255" },
	{ "SVC-02, T-017: leading zeros", "172.30.0.041", 0, "172.30.0.41" },
	{ "SVC-02, T-017: leading zeros 2", "1.2.3.004", 0, "1.2.3.4" },
	{ "SVC-02, T-017: leading zeros 3", "10.180.00.001", 0, "10.180.0.1" },
	{ "SVC-02: many leading zeros", "0000010.0.0.1", 0, "10.0.0.1" },
	{ "v4 octet too big", "10.0.0.256", -EINVAL, NULL },
	{ "v4 octet absurd", "10.0.0.99999999999999999999", -EINVAL, NULL },
	{ "v4 too short", "10.0.0", -EINVAL, NULL },
	{ "v4 too long", "10.0.0.1.2", -EINVAL, NULL },
	{ "v4 empty octet", "10..0.1", -EINVAL, NULL },
	{ "v4 sign", "10.0.0.-1", -EINVAL, NULL },
	{ "v4 hexadecimal", "0x0a.0.0.1", -EINVAL, NULL },
	{ "v4 blank before", " 10.0.0.1", -EINVAL, NULL },
	{ "v4 blank after", "10.0.0.1 ", -EINVAL, NULL },
	{ "v4 one number", "167772161", -EINVAL, NULL },
	{ "v6", "2001:db8::1", 0, "2001:db8::1" },
	{ "v6 is canonicalised", "2001:DB8:0::1", 0, "2001:db8::1" },
	{ "v6 unspecified", "::", 0, "::" },
	{ "v6 in full", "2001:0db8:0000:0000:0000:0000:0000:0001", 0, "2001:db8::1" },
	{ "v4-mapped stays v6", "::ffff:10.0.0.1", 0, "::ffff:10.0.0.1" },
	{ "v4-mapped with leading zeros", "::ffff:010.00.0.001", 0, "::ffff:10.0.0.1" },
	{ "v4-mapped, octet too big", "::ffff:10.0.0.256", -EINVAL, NULL },
	{ "v6 zone", "fe80::1%eth0", -EINVAL, NULL },
	{ "v6 in brackets", "[::1]", -EINVAL, NULL },
	{ "v6 two gaps", "1::2::3", -EINVAL, NULL },
	{ "v6 too long", "1:2:3:4:5:6:7:8:9", -EINVAL, NULL },
	{ "v6 dotted in the middle", "::1.2.3.4:5", -EINVAL, NULL },
	{ "v6 absurdly long dotted", "0000000000000000000000000000000000000000000000000000:1.2.3.4",
	  -EINVAL, NULL },
	{ "T-019: empty", "", -EINVAL, NULL },
	{ "T-019: a word", "abc", -EINVAL, NULL },
	{ "a prefix", "10.0.0.0/8", -EINVAL, NULL },
};

static void test_addr(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addr_cases); i++) {
		struct ip_addr a = { 0 };
		char buf[IP_TEXT_MAX];
		struct err err = { "" };

		print_message("    %s\n", addr_cases[i].name);
		assert_int_equal(ip_addr_parse(&a, addr_cases[i].text, &err), addr_cases[i].ret);
		if (addr_cases[i].ret == 0) {
			assert_string_equal(ip_addr_text(&a, buf), addr_cases[i].canonical);
		} else {
			assert_int_equal(a.family, 0); /* untouched on failure */
			assert_non_null(strstr(err.text, "is not an IP address"));
		}
	}
}

static const struct {
	const char *name;
	const char *text;
	int ret;
	const char *canonical;
} prefix_cases[] = {
	{ "v4", "10.0.0.0/8", 0, "10.0.0.0/8" },
	{ "v4 all", "0.0.0.0/0", 0, "0.0.0.0/0" },
	{ "v4 host", "10.0.0.1/32", 0, "10.0.0.1/32" },
	{ "host bits are cleared", "10.1.2.3/8", 0, "10.0.0.0/8" },
	{ "host bits within an octet", "10.1.2.255/25", 0, "10.1.2.128/25" },
	{ "host bits, length 0", "10.1.2.3/0", 0, "0.0.0.0/0" },
	{ "SVC-02, T-017: leading zeros", "203.0.113.000/025", 0, "203.0.113.0/25" },
	{ "v6", "2001:db8::/32", 0, "2001:db8::/32" },
	{ "v6 host bits", "2001:db8:ffff::1/33", 0, "2001:db8:8000::/33" },
	{ "v6 all", "::/0", 0, "::/0" },
	{ "v6 host", "::1/128", 0, "::1/128" },
	{ "v4 too long", "10.0.0.0/33", -EINVAL, NULL },
	{ "v6 too long", "::/129", -EINVAL, NULL },
	{ "no length", "10.0.0.0/", -EINVAL, NULL },
	{ "no slash", "10.0.0.0", -EINVAL, NULL },
	{ "no address", "/8", -EINVAL, NULL },
	{ "two slashes", "10.0.0.0/8/8", -EINVAL, NULL },
	{ "sign", "10.0.0.0/+8", -EINVAL, NULL },
	{ "blank", "10.0.0.0/ 8", -EINVAL, NULL },
	{ "mask", "10.0.0.0/255.0.0.0", -EINVAL, NULL },
	{ "long address", "00000000000000000000000000000000000000000000000010.0.0.0/8", -EINVAL,
	  NULL },
};

static void test_prefix(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(prefix_cases); i++) {
		struct ip_prefix p = { 0 };
		char buf[IP_PREFIX_TEXT_MAX];
		struct err err = { "" };

		print_message("    %s\n", prefix_cases[i].name);
		assert_int_equal(ip_prefix_parse(&p, prefix_cases[i].text, &err),
				 prefix_cases[i].ret);
		if (prefix_cases[i].ret == 0) {
			assert_string_equal(ip_prefix_text(&p, buf), prefix_cases[i].canonical);
		} else {
			assert_int_equal(p.addr.family, 0);
			assert_string_not_equal(err.text, "");
		}
	}
}

static struct ip_addr addr(const char *text)
{
	struct ip_addr a = { 0 };

	assert_int_equal(ip_addr_parse(&a, text, NULL), 0);
	return a;
}

static struct ip_prefix prefix(const char *text)
{
	struct ip_prefix p = { 0 };

	assert_int_equal(ip_prefix_parse(&p, text, NULL), 0);
	return p;
}

static const struct {
	const char *prefix;
	const char *addr;
	bool contains;
} contains_cases[] = {
	{ "10.0.0.0/8", "10.255.255.255", true },
	{ "10.0.0.0/8", "11.0.0.0", false },
	{ "10.0.0.0/8", "9.255.255.255", false },
	{ "10.0.0.128/25", "10.0.0.128", true },
	{ "10.0.0.128/25", "10.0.0.127", false },
	{ "10.0.0.1/32", "10.0.0.1", true },
	{ "10.0.0.1/32", "10.0.0.0", false },
	{ "0.0.0.0/0", "255.255.255.255", true },
	{ "0.0.0.0/0", "::1", false },
	{ "::/0", "10.0.0.1", false },
	{ "::/0", "2001:db8::1", true },
	{ "::ffff:0:0/96", "10.0.0.1", false },
	{ "2001:db8::/33", "2001:db8:7fff::", true },
	{ "2001:db8::/33", "2001:db8:8000::", false },
	{ "fd00::/8", "fd12::1", true },
};

static void test_contains(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(contains_cases); i++) {
		struct ip_prefix p = prefix(contains_cases[i].prefix);
		struct ip_addr a = addr(contains_cases[i].addr);
		struct ip_prefix host = ip_prefix_host(&a);

		print_message("    %s in %s\n", contains_cases[i].addr, contains_cases[i].prefix);
		assert_int_equal(ip_prefix_contains(&p, &a), contains_cases[i].contains);
		assert_int_equal(ip_prefix_covers(&p, &host), contains_cases[i].contains);
		assert_true(ip_prefix_contains(&host, &a));
		assert_true(ip_prefix_covers(&p, &p));
	}
	assert_false(ip_prefix_covers(&(struct ip_prefix){ 0 },
				      &(struct ip_prefix){ .addr = addr("10.0.0.1") }));
}

static void test_covers(void **state)
{
	struct ip_prefix wide = prefix("10.0.0.0/8");
	struct ip_prefix narrow = prefix("10.1.0.0/16");
	struct ip_prefix same_start = prefix("10.0.0.0/16");

	(void)state;
	assert_true(ip_prefix_covers(&wide, &narrow));
	assert_true(ip_prefix_covers(&wide, &same_start));
	assert_false(ip_prefix_covers(&narrow, &wide));
	assert_false(ip_prefix_covers(&same_start, &wide));
	assert_false(ip_prefix_covers(&narrow, &same_start));
}

/* Random prefixes: membership by arithmetic on numbers. */
static void test_contains_property(void **state)
{
	struct rng rng = { 13 };

	(void)state;
	for (int round = 0; round < 50000; round++) {
		uint32_t net = (uint32_t)rng_next(&rng);
		uint32_t a = net ^ (uint32_t)(rng_next(&rng) >> 32 >> rng_below(&rng, 33));
		uint8_t len = (uint8_t)rng_below(&rng, 33);
		uint32_t mask = len == 0 ? 0 : UINT32_MAX << (32 - len);
		struct ip_prefix p = { .len = len };
		struct ip_addr host;
		uint32_t be;

		be = htonl(net & mask);
		p.addr = ip_addr_from_bytes(AF_INET, &be);
		be = htonl(a);
		host = ip_addr_from_bytes(AF_INET, &be);
		assert_int_equal(ip_prefix_contains(&p, &host), (a & mask) == (net & mask));
	}
}

static void test_loopback(void **state)
{
	struct ip_addr a;

	(void)state;
	a = addr("127.0.0.1");
	assert_true(ip_addr_is_loopback(&a));
	a = addr("127.255.0.9");
	assert_true(ip_addr_is_loopback(&a));
	a = addr("::1");
	assert_true(ip_addr_is_loopback(&a));
	a = addr("128.0.0.1");
	assert_false(ip_addr_is_loopback(&a));
	a = addr("::ffff:127.0.0.1");
	assert_false(ip_addr_is_loopback(&a));
	a = addr("::2");
	assert_false(ip_addr_is_loopback(&a));
	a = (struct ip_addr){ 0 };
	assert_false(ip_addr_is_loopback(&a));
}

static void test_link_local(void **state)
{
	static const char *const yes[] = { "169.254.0.0", "169.254.255.9", "fe80::1", "febf::1" };
	static const char *const no[] = { "169.253.0.1", "169.255.0.1", "fec0::1", "fe7f::1",
					  "::ffff:169.254.0.1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(ip_addr_is_link_local(&(struct ip_addr[]){ addr(yes[i]) }[0]));
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(ip_addr_is_link_local(&(struct ip_addr[]){ addr(no[i]) }[0]));
}

/* IPv4 first, then by value; IPv4 never equals its mapped twin. */
static void test_order(void **state)
{
	static const char *const sorted[] = { "0.0.0.0",  "9.255.255.255",   "10.0.0.1",
					      "10.0.0.2", "255.255.255.255", "::",
					      "::1",      "::ffff:10.0.0.1", "2001:db8::1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++)
		for (size_t j = 0; j < ARRAY_SIZE(sorted); j++) {
			struct ip_addr a = addr(sorted[i]);
			struct ip_addr b = addr(sorted[j]);
			int r = ip_addr_cmp(&a, &b);

			assert_int_equal((r > 0) - (r < 0), (i > j) - (i < j));
			assert_int_equal(ip_addr_is_equal(&a, &b), i == j);
		}
}

static void test_text(void **state)
{
	struct ip_addr v4 = addr("10.0.0.1");
	struct ip_addr v6 = addr("2001:db8::1");
	struct ip_addr longest = addr("2001:db8:1111:1111:1111:1111:255.255.255.255");
	struct ip_addr unset = { 0 };
	char endpoint[IP_ENDPOINT_TEXT_MAX];
	char text[IP_TEXT_MAX];

	(void)state;
	assert_string_equal(ip_endpoint_text(&v4, 80, endpoint), "10.0.0.1:80");
	assert_string_equal(ip_endpoint_text(&v6, 65535, endpoint), "[2001:db8::1]:65535");
	assert_string_equal(ip_endpoint_text(&longest, 65535, endpoint),
			    "[2001:db8:1111:1111:1111:1111:ffff:ffff]:65535");
	assert_string_equal(ip_addr_text(&unset, text), "-");
	assert_int_equal(ip_fam(&v4), IPFAM_V4);
	assert_int_equal(ip_fam(&v6), IPFAM_V6);
	assert_false(ip_is_set(&unset));
}

static const struct {
	const char *text;
	const char *canonical; /* NULL = refused */
} endpoint_cases[] = {
	{ "1.2.3.4:80", "1.2.3.4:80" },
	{ "[2001:db8::1]:65535", "[2001:db8::1]:65535" },
	{ "1.2.3.4", NULL },
	{ "1.2.3.4:", NULL },
	{ "1.2.3.4:0", NULL },
	{ "1.2.3.4:65536", NULL },
	{ "1.2.3.4:8x", NULL },
	{ "1.2.3.4:-8", NULL },
	{ "[1.2.3.4]:80", NULL },
	{ "2001:db8::1", NULL },
	{ "2001:db8:0:0:0:0:0:1:80", NULL },
	{ "[2001:db8::1]", NULL },
	{ "[2001:db8::1]80", NULL },
	{ "web:80", NULL },
	{ ":80", NULL },
	{ "", NULL },
	{ "1.2.3.4:000000000000000000000000000000000000000000000000000000000080", NULL },
};

static void test_endpoint(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(endpoint_cases); i++) {
		char buf[IP_ENDPOINT_TEXT_MAX];
		struct ip_addr a;
		uint16_t port;
		int r = ip_endpoint_parse(&a, &port, endpoint_cases[i].text);

		print_message("    %s\n", endpoint_cases[i].text);
		assert_int_equal(r, endpoint_cases[i].canonical ? 0 : -EINVAL);
		if (r == 0)
			assert_string_equal(ip_endpoint_text(&a, port, buf),
					    endpoint_cases[i].canonical);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_endpoint),   cmocka_unit_test(test_addr),
		cmocka_unit_test(test_prefix),     cmocka_unit_test(test_contains),
		cmocka_unit_test(test_covers),     cmocka_unit_test(test_contains_property),
		cmocka_unit_test(test_loopback),   cmocka_unit_test(test_order),
		cmocka_unit_test(test_link_local), cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
