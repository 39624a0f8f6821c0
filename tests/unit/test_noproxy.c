/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NO_PROXY: hosts and ports that an entry is for. */
#include "source/kube/handle.h"

#include "base/util.h"
#include "test.h"

static const struct {
	const char *list;
	const char *host;
	bool is_direct;
} cases[] = {
	{ NULL, "api.example.net", false },
	{ "", "api.example.net", false },
	{ NULL, "localhost", true },
	{ NULL, "127.1.2.3", true },
	{ NULL, "::1", true },
	{ "a,*", "api.example.net", true },
	{ "a, *", "192.0.2.1", true },

	{ "api.example.net", "api.example.net", true },
	{ "API.example.net", "api.Example.net", true },
	{ "example.net", "api.example.net", true },
	{ ".example.net", "api.example.net", true },
	{ "*.example.net", "api.example.net", true },
	{ ".example.net", "example.net", false },
	{ "*.example.net", "example.net", false },
	{ "ample.net", "api.example.net", false },
	{ "example.net.org", "example.net", false },
	{ ".,:,[,,  ,/", "example.net", false },
	{ " x , .svc, example.net ", "example.net", true },

	{ "example.net:6443", "example.net", true },
	{ "example.net:443", "example.net", false },
	{ ".net:6443", "example.net", true },
	{ "192.0.2.1:6443", "192.0.2.1", true },
	{ "192.0.2.1:443", "192.0.2.1", false },
	{ "[2001:db8::1]:6443", "2001:db8::1", true },
	{ "[2001:db8::1]:443", "2001:db8::1", false },

	{ "192.0.2.1", "192.0.2.1", true },
	{ "192.0.2.1", "192.0.2.11", false },
	{ "2.1", "192.0.2.1", false },
	{ "192.0.", "192.0.2.1", false },
	{ "[2001:db8::1]", "2001:db8::1", true },
	{ "2001:DB8:0::1", "2001:db8::1", true },
	{ "10.0.0.0/8,192.0.2.0/24", "192.0.2.77", true },
	{ "10.0.0.0/8", "192.0.2.77", false },
	{ "2001:db8::/32", "2001:db8:1::1", true },
	{ "2001:db8::/32", "2001:db9::1", false },
	{ "0.0.0.0/0", "2001:db8::1", false },
	{ "0.0.0.0/0", "example.net", false },
};

static void test_entries(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("    '%s' %s\n", cases[i].list ? cases[i].list : "-", cases[i].host);
		assert_int_equal(noproxy_matches(cases[i].list, cases[i].host, "6443"),
				 cases[i].is_direct);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_entries) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
