/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static void test_empty(void **state)
{
	struct str s = { 0 };

	(void)state;
	assert_string_equal(str_text(&s), "");
	str_clear(&s);
	assert_string_equal(str_text(&s), "");
	str_puts(&s, "");
	assert_string_equal(str_text(&s), "");
	assert_int_equal(s.len, 0);
	str_fini(&s);
	assert_string_equal(str_text(&s), "");
}

static void test_printf(void **state)
{
	struct str s = { 0 };
	char wide[3000];

	(void)state;
	str_printf(&s, "%d-%s", 7, "x");
	str_printf(&s, "%s", "");
	str_add(&s, "abc", 2);
	assert_string_equal(str_text(&s), "7-xab");
	str_printf(&s, "%3000d", 1);
	assert_int_equal(s.len, 3005);
	(void)snprintf(wide, sizeof(wide), "%2999d", 1);
	assert_string_equal(s.text + 6, wide);
	str_clear(&s);
	assert_int_equal(s.len, 0);
	assert_string_equal(str_text(&s), "");
	str_fini(&s);
}

/* Random pieces compared with one buffer. */
static void test_property(void **state)
{
	static char twin[200000];
	struct str s = { 0 };
	struct rng rng = { 5 };
	size_t n = 0;

	(void)state;
	for (int round = 0; round < 5000; round++) {
		char piece[32];
		size_t len = rng_below(&rng, sizeof(piece));

		for (size_t i = 0; i < len; i++)
			piece[i] = (char)('a' + rng_below(&rng, 26));
		piece[len] = '\0';
		if (rng_below(&rng, 500) == 0) {
			str_clear(&s);
			n = 0;
		}
		switch (rng_below(&rng, 3)) {
		case 0:
			str_add(&s, piece, len);
			break;
		case 1:
			str_puts(&s, piece);
			break;
		case 2:
			str_printf(&s, "%s", piece);
			break;
		}
		memcpy(twin + n, piece, len + 1);
		n += len;
		assert_int_equal(s.len, n);
		assert_string_equal(str_text(&s), n > 0 ? twin : "");
	}
	str_fini(&s);
}

static const struct {
	const char *name;
	const char *text;
	bool is_utf8;
} utf8_cases[] = {
	{ "empty", "", true },
	{ "ascii", "shop/cart", true },
	{ "two bytes, first and last", "\xc2\x80\xdf\xbf", true },
	{ "three bytes, first and last", "\xe0\xa0\x80\xef\xbf\xbf", true },
	{ "around the surrogates", "\xed\x9f\xbf\xee\x80\x80", true },
	{ "four bytes, first and last", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", true },
	{ "lone continuation", "a\x80", false },
	{ "overlong two bytes", "\xc0\x80", false },
	{ "overlong two bytes, c1", "\xc1\xbf", false },
	{ "overlong three bytes", "\xe0\x9f\xbf", false },
	{ "overlong four bytes", "\xf0\x8f\xbf\xbf", false },
	{ "surrogate, first", "\xed\xa0\x80", false },
	{ "surrogate, last", "\xed\xbf\xbf", false },
	{ "beyond U+10FFFF", "\xf4\x90\x80\x80", false },
	{ "f5", "\xf5\x80\x80\x80", false },
	{ "ff", "\xff", false },
	{ "cut after one of two", "\xc3", false },
	{ "cut after two of three", "\xe2\x82", false },
	{ "cut after three of four", "\xf0\x9f\x98", false },
	{ "bad third byte", "\xe2\x82\x28", false },
	{ "bad fourth byte", "\xf0\x9f\x98\xc0", false },
	{ "good after bad", "\x80ok", false },
};

static void test_utf8(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(utf8_cases); i++) {
		print_message("    %s\n", utf8_cases[i].name);
		assert_int_equal(str_is_utf8(utf8_cases[i].text, strlen(utf8_cases[i].text)),
				 utf8_cases[i].is_utf8);
	}
	assert_true(str_is_utf8("a\0b", 3)); /* U+0000 is a valid character here */
}

/* Every code point by definition. */
static void test_utf8_all(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 17) {
		unsigned char b[4];
		size_t n;

		if (c < 0x80) {
			b[0] = (unsigned char)c;
			n = 1;
		} else if (c < 0x800) {
			b[0] = (unsigned char)(0xc0 | c >> 6);
			n = 2;
		} else if (c < 0x10000) {
			b[0] = (unsigned char)(0xe0 | c >> 12);
			n = 3;
		} else {
			b[0] = (unsigned char)(0xf0 | c >> 18);
			n = 4;
		}
		for (size_t i = 1; i < n; i++)
			b[i] = (unsigned char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
		assert_int_equal(str_is_utf8((const char *)b, n), c < 0xd800 || c > 0xdfff);
		if (n > 1)
			assert_false(str_is_utf8((const char *)b, n - 1));
	}
}

static void test_clean(void **state)
{
	static const char *const cases[][2] = {
		{ "plain: é€😀", "plain: é€😀" },
		{ "a\x1b[31mb\nc\td\x7f", "a?[31mb?c?d?" },
		{ "a\xc2\x9b"
		  "31m",
		  "a??31m" },
		{ "\xff"
		  "a\xe2\x82",
		  "?a??" },
		{ "a\u202eb\u2066c\u061cd\u200f", "a???b???c??d???" },
		{ "\xe2\x80\x94\xe2\x81\xa0", "\xe2\x80\x94\xe2\x81\xa0" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "%s", cases[i][0]);
		assert_string_equal(str_clean(text), cases[i][1]);
	}
}

static void test_encode(void **state)
{
	struct str out = { 0 };

	(void)state;
	str_encode(&out, "a-Z_0.~/ ?&=%[::1]:80\xc3\xa9");
	assert_string_equal(out.text, "a-Z_0.~%2F%20%3F%26%3D%25%5B%3A%3A1%5D%3A80%C3%A9");
	str_fini(&out);
}

static void test_but_numbers(void **state)
{
	assert_true(
		str_is_equal_but_numbers("to 192.0.2.1 after 702 ms", "to 10.0.0.9 after 7 ms"));
	assert_true(str_is_equal_but_numbers("for 1.5 s", "for 3 s"));
	assert_true(str_is_equal_but_numbers("", "12"));
	assert_false(str_is_equal_but_numbers("5 a", "5 b"));
	assert_false(str_is_equal_but_numbers("5 a", "5 ab"));
	assert_false(str_is_equal_but_numbers("x", ""));
}

static void test_words(void **state)
{
	static const char words[] = "rr wrr w";
	struct str out = { 0 };

	assert_int_equal(str_words_find(words, "rr", 2), 0);
	assert_int_equal(str_words_find(words, "wrr, lc", 3), 1);
	assert_int_equal(str_words_find(words, "w", 1), 2);
	assert_int_equal(str_words_find(words, "r", 1), -1);
	assert_int_equal(str_words_find(words, "rr wrr", 6), -1);
	assert_int_equal(str_words_find(words, "", 0), -1);
	assert_int_equal(str_words_find("", "", 0), -1);
	str_words_print(&out, words);
	assert_string_equal(out.text, "rr, wrr or w");
	str_clear(&out);
	str_words_print(&out, "rr");
	assert_string_equal(out.text, "rr");
	str_fini(&out);
}

static void test_local(void **state)
{
	const char *a = str_local(8, "%s%d", "port", 80);
	const char *b = str_local(4, "%s", "longer");

	assert_string_equal(a, "port80");
	assert_string_equal(b, "lon");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),    cmocka_unit_test(test_printf),
		cmocka_unit_test(test_property), cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_utf8_all), cmocka_unit_test(test_clean),
		cmocka_unit_test(test_encode),   cmocka_unit_test(test_but_numbers),
		cmocka_unit_test(test_words),    cmocka_unit_test(test_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
