/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/jsonw: the output is JSON for any names. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "http/jsonw.h"

static void test_nesting(void **state)
{
	struct str out = { 0 };
	struct jsonw w = { .out = &out };
	struct ip_addr a = { 0 };

	(void)state;
	jsonw_object(&w, NULL);
	jsonw_array(&w, "empty");
	jsonw_end(&w);
	jsonw_object(&w, "o");
	jsonw_uint(&w, "max", UINT64_MAX);
	jsonw_int(&w, "min", INT64_MIN);
	jsonw_end(&w);
	jsonw_array(&w, "a");
	jsonw_bool(&w, NULL, true);
	jsonw_text(&w, NULL, NULL);
	jsonw_text(&w, NULL, NULL);
	jsonw_array(&w, NULL);
	jsonw_object(&w, NULL);
	jsonw_end(&w);
	jsonw_object(&w, NULL);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_addr(&w, NULL, &a);
	jsonw_end(&w);
	jsonw_text(&w, "last", "x");
	jsonw_end(&w);
	assert_string_equal(out.text, "{\"empty\":[],\"o\":{\"max\":18446744073709551615,"
				      "\"min\":-9223372036854775808},"
				      "\"a\":[true,null,null,[{},{}],null],\"last\":\"x\"}");
	assert_int_equal(w.depth, 0);
	str_fini(&out);
}

static const struct {
	const char *name;
	const char *text;
	const char *read_back;
} text_cases[] = {
	{ "plain", "shop/cart", "shop/cart" },
	{ "empty", "", "" },
	{ "quotes", "say \"hi\" \\ there", "say \"hi\" \\ there" },
	{ "controls", "a\nb\tc\x01\x1f\x7f", "a\nb\tc\x01\x1f\x7f" },
	{ "UTF-8", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xb1",
	  "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xb1" },
	{ "lone continuation", "a\x80z", "a\xef\xbf\xbdz" },
	{ "overlong", "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
	{ "surrogate", "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	{ "cut at the end", "a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd" },
};

static void test_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(text_cases); i++) {
		struct str out = { 0 };
		struct jsonw w = { .out = &out };
		json_t *json;

		print_message("    %s\n", text_cases[i].name);
		jsonw_array(&w, NULL);
		jsonw_text(&w, NULL, text_cases[i].text);
		jsonw_end(&w);
		json = json_loadb(out.text, out.len, 0, NULL);
		assert_non_null(json);
		assert_string_equal(json_string_value(json_array_get(json, 0)),
				    text_cases[i].read_back);
		json_decref(json);
		str_fini(&out);
	}
}

/* The buffer is emptied between any two calls. */
static void test_pieces(void **state)
{
	struct str piece = { 0 };
	struct str all = { 0 };
	struct jsonw w = { .out = &piece };

	(void)state;
	for (int i = 0; i < 5; i++) {
		if (i == 0)
			jsonw_array(&w, NULL);
		else if (i < 4)
			jsonw_uint(&w, NULL, (uint64_t)i);
		else
			jsonw_end(&w);
		str_puts(&all, piece.text);
		str_clear(&piece);
	}
	assert_string_equal(all.text, "[1,2,3]");
	str_fini(&piece);
	str_fini(&all);
}

static void test_printf(void **state)
{
	struct str out = { 0 };
	struct jsonw w = { .out = &out };
	char long_text[3000];

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	jsonw_printf(&w, NULL, "%s/%d", long_text, 7);
	assert_int_equal(out.len, sizeof(long_text) - 1 + 4);
	assert_string_equal(out.text + out.len - 4, "x/7\"");
	str_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_printf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
