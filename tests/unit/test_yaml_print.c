/* SPDX-License-Identifier: GPL-2.0-or-later */
/* settings/yaml: blocks, and texts that YAML could read as another type. */
#include "test.h"

#include "settings/yaml.h"

static const struct {
	const char *json;
	const char *yaml;
} cases[] = {
	{ "{}", "{}\n" },
	{ "[]", "[]\n" },
	{ "{\"a\":1,\"b\":null,\"c\":true,\"d\":\"x\",\"e\":\"true\",\"f\":\"\",\"g\":\"1\"}",
	  "a: 1\nb: null\nc: true\nd: x\ne: \"true\"\nf: \"\"\ng: \"1\"\n" },
	{ "{\"a\":[1,\"x y\",[],{}]}", "a:\n  - 1\n  - \"x y\"\n  - []\n  - {}\n" },
	{ "[{\"a\":1,\"b\":{\"c\":[2]}},{\"a\":3}]", "- a: 1\n  b:\n    c:\n      - 2\n- a: 3\n" },
	{ "[[1,2],[3]]", "- - 1\n  - 2\n- - 3\n" },
	{ "{\"a b\":\"x: y\",\"c\":\"- z\",\"d\":\"#\",\"e\":\"a\\nb\",\"f\":\"10.0.0.1\"}",
	  "\"a b\": \"x: y\"\nc: \"- z\"\nd: \"#\"\ne: \"a\\nb\"\nf: \"10.0.0.1\"\n" },
	{ "{\"a\\\"b\":true,\"c\\\\\":1,\"d\\n\":2}",
	  "\"a\\\"b\": true\n\"c\\\\\": 1\n\"d\\n\": 2\n" },
	{ "{\"n\":\"No\",\"y\":\"a/b-c.d\"}", "\"n\": \"No\"\n\"y\": a/b-c.d\n" },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *json = json_loads(cases[i].json, 0, NULL);
		struct str out = { 0 };

		assert_non_null(json);
		yaml_print(&out, json);
		assert_string_equal(out.text, cases[i].yaml);
		str_fini(&out);
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
