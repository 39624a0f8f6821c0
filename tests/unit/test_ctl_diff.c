/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/diff: the differences between desired and programmed state. */
#include <string.h>

#include "ctl/diff.h"
#include "quoted.h"

#define WEB "10.96.0.1:80/TCP cluster-ip -> 10.0.0.1:8080 10.0.0.2:8080"
#define WEB6 "[fd96::1]:80/TCP cluster-ip -> [fd00::1]:8080"

static const struct {
	const char *what;
	const char *want; /* items of /v1/rows */
	const char *programmed;
	const char *print;
} cases[] = {
	{ "nothing", "[]", "", "" },
	{ "the same, in another order",
	  "[{'namespace':'a','name':'b','complete':true,'frontends':['" WEB6 "','" WEB "']}]",
	  WEB "\n" WEB6 "\n", "" },
	{ "a cluster IP that is another's external IP, too",
	  "[{'namespace':'a','name':'b','complete':true,'frontends':['1.2.3.4:80/TCP masq -> "
	  "reject']}]",
	  "1.2.3.4:80/TCP cluster-ip masq -> reject\n", "" },
	{ "another backend",
	  "[{'namespace':'a','name':'b','complete':true,'frontends':['" WEB "']}]",
	  "10.96.0.1:80/TCP cluster-ip -> 10.0.0.1:8080 10.0.0.3:8080\n",
	  "- expected, + in the kernel\n"
	  "10.96.0.1:80/TCP  a/b\n"
	  "  - -> 10.0.0.1:8080 10.0.0.2:8080\n"
	  "  + -> 10.0.0.1:8080 10.0.0.3:8080\n" },
	{ "missing", "[{'namespace':'a','name':'b','complete':true,'frontends':['" WEB "']}]", "",
	  "- expected, + in the kernel\n"
	  "10.96.0.1:80/TCP  a/b\n"
	  "  - -> 10.0.0.1:8080 10.0.0.2:8080\n" },
	{ "nobody's", "[]", WEB "\n",
	  "- expected, + in the kernel\n"
	  "10.96.0.1:80/TCP  (no service)\n"
	  "  + -> 10.0.0.1:8080 10.0.0.2:8080\n" },
	{ "pending and rejected",
	  "[{'namespace':'a','name':'b','complete':true,'pending':true,'frontends':[]},"
	  "{'namespace':'a','name':'c','complete':true,'pending':true,'rejected':'no room',"
	  "'frontends':[]}]",
	  "", "a/b pending\na/c rejected: no room\n" },
	{ "changed meanwhile", "[{'namespace':'a','name':'b','complete':false,'frontends':[]}]", "",
	  "1 service changed while they were read: run the command again\n" },
};

static void test_cases(void **state)
{
	static const struct style plain = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *want = json_of("%s", cases[i].want);
		char *programmed = strdup(cases[i].programmed);
		struct diff d = { 0 };
		struct str out = { 0 };
		json_t *json;

		print_message("    %s\n", cases[i].what);
		diff_desired(&d, want);
		diff_lines(&d, programmed, NULL);
		diff_compare(&d);
		diff_print(&out, &d, &plain);
		assert_string_equal(str_text(&out), cases[i].print);
		assert_int_equal(diff_is_empty(&d), *cases[i].print == '\0');
		json = diff_json(&d);
		assert_int_equal(json_array_size(json_object_get(json, "differences")), d.found.n);
		json_decref(json);
		json_decref(want);
		d.n_incomplete++;
		diff_fini(&d);
		assert_int_equal(d.n_incomplete, 0); /* `vipctl diff` reads again */
		str_fini(&out);
		free(programmed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
