/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From prefixes to the elements of an interval set. */
#include "test.h"

#include <string.h>

#include "base/str.h"
#include "nft/bounds.h"

static const struct {
	const char *what;
	enum ipfam fam;
	const char *prefixes[4];
	const char *bounds; /* beginnings, and ends in brackets */
} cases[] = {
	{ "one", IPFAM_V4, { "10.0.0.0/8" }, "10.0.0.0 [11.0.0.0] " },
	{ "none", IPFAM_V4, { NULL }, "" },
	{ "other family only", IPFAM_V4, { "fd00::/8" }, "" },
	{ "twice", IPFAM_V4, { "10.0.0.0/8", "10.0.0.0/8" }, "10.0.0.0 [11.0.0.0] " },
	{ "one inside", IPFAM_V4, { "10.3.0.0/16", "10.0.0.0/8" }, "10.0.0.0 [11.0.0.0] " },
	{ "inside, same beginning",
	  IPFAM_V4,
	  { "10.0.0.0/16", "10.0.0.0/8" },
	  "10.0.0.0 [11.0.0.0] " },
	{ "touching", IPFAM_V4, { "10.128.0.0/9", "10.0.0.0/9" }, "10.0.0.0 [11.0.0.0] " },
	{ "three in a row",
	  IPFAM_V4,
	  { "10.0.2.0/24", "10.0.1.0/24", "10.0.3.0/24" },
	  "10.0.1.0 [10.0.4.0] " },
	{ "apart",
	  IPFAM_V4,
	  { "192.168.0.0/16", "10.0.0.0/8" },
	  "10.0.0.0 [11.0.0.0] 192.168.0.0 [192.169.0.0] " },
	{ "carry over all bytes", IPFAM_V4, { "9.255.255.255/32" }, "9.255.255.255 [10.0.0.0] " },
	{ "everything", IPFAM_V4, { "0.0.0.0/0" }, "0.0.0.0 " },
	{ "everything and more", IPFAM_V4, { "0.0.0.0/0", "10.0.0.0/8" }, "0.0.0.0 " },
	{ "two halves", IPFAM_V4, { "128.0.0.0/1", "0.0.0.0/1" }, "0.0.0.0 " },
	{ "last address", IPFAM_V4, { "255.255.255.255/32" }, "255.255.255.255 " },
	{ "up to the last, one inside",
	  IPFAM_V4,
	  { "224.0.0.0/3", "255.255.255.255/32" },
	  "224.0.0.0 " },
	{ "IPv6", IPFAM_V6, { "fd00:10::/32", "10.0.0.0/8" }, "fd00:10:: [fd00:11::] " },
	{ "IPv6, last", IPFAM_V6, { "ff00::/8" }, "ff00:: " },
	{ "IPv6, everything", IPFAM_V6, { "::/0" }, ":: " },
	{ "IPv6, one address",
	  IPFAM_V6,
	  { "2001:db8::ffff/128" },
	  "2001:db8::ffff [2001:db8::1:0] " },
};

static void test_bounds(void **state)
{
	struct nft_bounds b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ip_prefix list[4];
		struct str text = { 0 };
		size_t n = 0;

		print_message("    %s\n", cases[i].what);
		for (; n < ARRAY_SIZE(list) && cases[i].prefixes[n] != NULL; n++)
			assert_int_equal(ip_prefix_parse(&list[n], cases[i].prefixes[n], NULL), 0);
		nft_bounds_from(&b, cases[i].fam, list, n);
		vec_for_each (v, &b.v) {
			uint8_t family = cases[i].fam == IPFAM_V6 ? AF_INET6 : AF_INET;
			struct ip_addr a = ip_addr_from_bytes(family, v->key);
			char buf[IP_TEXT_MAX];

			str_printf(&text, v->is_end ? "[%s] " : "%s ", ip_addr_text(&a, buf));
		}
		assert_string_equal(str_text(&text), cases[i].bounds);
		str_fini(&text);
	}
	vec_fini(&b.v);
}

/* The kernel lists elements in an order of its own. */
static void test_sort(void **state)
{
	struct nft_bounds a = { 0 }, b = { 0 };
	struct ip_prefix list[2];

	assert_int_equal(ip_prefix_parse(&list[0], "10.0.0.0/8", NULL), 0);
	assert_int_equal(ip_prefix_parse(&list[1], "192.168.0.0/16", NULL), 0);
	nft_bounds_from(&a, IPFAM_V4, list, 2);
	for (size_t i = a.v.n; i-- > 0;)
		*vec_push(&b.v) = a.v.v[i];
	assert_false(vec_is_equal(&a.v, &b.v));
	nft_bounds_sort(&b);
	assert_true(vec_is_equal(&a.v, &b.v));
	b.v.v[1].is_end = false;
	assert_false(vec_is_equal(&a.v, &b.v));
	b.v.n--;
	assert_false(vec_is_equal(&a.v, &b.v));
	vec_fini(&a.v);
	vec_fini(&b.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_sort),
	};

	return cmocka_run_group_tests_name("nft bounds", tests, NULL, NULL);
}
