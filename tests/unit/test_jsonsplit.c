/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Splitting JSON streams: every case as a whole, byte by byte, and in every two parts. */
#include "source/decode/jsonsplit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/decode/decode.h"
#include "test.h"

struct seen {
	struct jsonsplit split;
	struct str out;
	struct str root;
	size_t n_items; /* of the object */
};

static int on_item(void *arg, const struct json_piece *p, struct err *err)
{
	struct seen *s = arg;
	json_auto_t *root = jsonsplit_root(&s->split, NULL);
	char *text = json_dumps(root, JSON_COMPACT);

	(void)err;
	assert_int_equal(strlen(p->text) >= p->len, 1);
	str_printf(&s->out, "I%u#%zu:%.*s|", p->line, s->n_items++, (int)p->len, p->text);
	str_clear(&s->root);
	str_puts(&s->root, text ? text : "");
	free(text);
	return 0;
}

static int on_object(void *arg, const struct json_piece *p, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	str_printf(&s->out, "O%u:%s|", p->line, p->text);
	s->n_items = 0;
	return 0;
}

static const struct jsonsplit_ops ops = { on_item, on_object };

static void run(struct seen *s, const char *text, size_t first, size_t rest)
{
	size_t len = strlen(text);
	struct err err;
	int r = 0;

	jsonsplit_init(&s->split, &ops, s);
	for (size_t at = 0; at < len && r == 0;) {
		size_t n = MIN(at == 0 ? first : rest, len - at);

		r = jsonsplit_feed(&s->split, text + at, n, &err);
		at += n;
	}
	if (r == 0)
		r = jsonsplit_end(&s->split, &err);
	if (r < 0)
		str_printf(&s->out, "E%u:%s", s->split.line, err.text);
	jsonsplit_fini(&s->split);
}

static void expect(const char *text, const char *want, size_t first, size_t rest)
{
	struct seen s = { 0 };

	run(&s, text, first, rest);
	assert_string_equal(str_text(&s.out), want);
	str_fini(&s.out);
	str_fini(&s.root);
}

static const struct {
	const char *name;
	const char *text;
	const char *want;
} cases[] = {
	{ "nothing", " \n\t\r\n", "" },
	{ "one", "{}", "O1:{}|" },
	{ "two", "{\"a\":1}\n {\"b\":[2,{}]}\n", "O1:{\"a\":1}|O2:{\"b\":[2,{}]}|" },
	{ "quotes and brackets in text", "{\"a\":\"}\\\"]{\\\\\"}", "O1:{\"a\":\"}\\\"]{\\\\\"}|" },
	{ "items", "{\"kind\":\"List\",\n\"items\":[\n{\"a\":1} ,{\"b\":[2]}\n],\"x\":[1]}",
	  "I3#0:{\"a\":1}|I3#1:{\"b\":[2]}|O1:{\"kind\":\"List\",\n\"items\":[],\"x\":[1]}|" },
	{ "no items", "{\"items\": []}", "O1:{\"items\": []}|" },
	{ "items null", "{\"items\":null}", "O1:{\"items\":null}|" },
	{ "items as text value", "{\"a\":\"items\",\"b\":[1]}", "O1:{\"a\":\"items\",\"b\":[1]}|" },
	{ "items as object", "{\"items\":{\"a\":[1]}}", "O1:{\"items\":{\"a\":[1]}}|" },
	{ "items further down", "{\"a\":{\"items\":[1]}}", "O1:{\"a\":{\"items\":[1]}}|" },
	{ "items of items", "{\"items\":[{\"items\":[1]}]}",
	  "I1#0:{\"items\":[1]}|O1:{\"items\":[]}|" },
	{ "scalars as items", "{\"items\":[1, \"a,]\" ,null]}",
	  "I1#0:1|I1#1:\"a,]\"|I1#2:null|O1:{\"items\":[]}|" },
	{ "text between", "{} x", "O1:{}|E1:'x' instead of an object" },
	{ "list", "[]", "E1:'[' instead of an object" },
	{ "wrong bracket", "{\"a\":\n[1}", "E2:'}' instead of ']'" },
	{ "wrong bracket in an item", "{\"items\":[{\"a\":1]]}", "E1:']' instead of '}'" },
	{ "line end in text", "{\n\"a\n", "E2:not JSON: byte 0x0a" },
	{ "control byte in text", "{\"a\":\"\001", "E1:not JSON: byte 0x01" },
	{ "control byte in an object", "{\"a\":\x1f", "E1:not JSON: byte 0x1f" },
	{ "cut", "{\"a\":\n", "E2:ends inside the object of line 1" },
	{ "cut in text", "\n{\"a", "E2:ends inside the object of line 2" },
	{ "cut in items", "{\"items\":[{}, ", "I1#0:{}|E1:ends inside the object of line 1" },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *want = cases[i].want;

		print_message("    %s\n", cases[i].name);
		expect(cases[i].text, want, SIZE_MAX, SIZE_MAX);
		expect(cases[i].text, want, 1, 1);
		for (size_t k = 1; k < strlen(cases[i].text); k++)
			expect(cases[i].text, want, k, SIZE_MAX);
	}
}

/* During the items, fields of the list are known if they came before. */
static void test_root(void **state)
{
	struct seen s = { 0 };

	(void)state;
	run(&s, "{\"kind\":\"ServiceList\",\"items\":[{}],\"late\":1}", SIZE_MAX, SIZE_MAX);
	assert_string_equal(str_text(&s.root), "{\"kind\":\"ServiceList\",\"items\":[]}");
	str_fini(&s.out);
	str_fini(&s.root);
}

/* --- bounds --------------------------------------------------------------- */

static void expect_error(const struct str *text, int code, const char *want)
{
	struct seen s = { 0 };
	struct err err;

	jsonsplit_init(&s.split, &ops, &s);
	assert_int_equal(jsonsplit_feed(&s.split, text->text, text->len, &err), code);
	assert_string_equal(err.text, want);
	assert_int_equal(jsonsplit_feed(&s.split, "{}", 2, &err), -EBADMSG);
	assert_int_equal(jsonsplit_end(&s.split, &err), -EBADMSG);
	jsonsplit_fini(&s.split);
	str_fini(&s.out);
	str_fini(&s.root);
}

static void test_bounds(void **state)
{
	struct str s = { 0 };

	(void)state;
	str_puts(&s, "{\"a\":");
	for (int i = 0; i < 100; i++)
		str_puts(&s, "[");
	expect_error(&s, -EBADMSG, "nested deeper than 64 levels");
	str_clear(&s);
	str_puts(&s, "{\"a\":[");
	for (int i = 0; i < JSON_COST_MAX; i++)
		str_puts(&s, "1,");
	expect_error(&s, -E2BIG, "more than 500000 values, the limit of an object");
	str_clear(&s);
	str_puts(&s, "{\"items\":[{\"a\":\"");
	for (size_t i = 0; i < JSON_PIECE_MAX; i++)
		str_add(&s, "x", 1);
	expect_error(&s, -E2BIG, "larger than 8 MiB, the limit of an object");
	str_fini(&s);
}

static int count_item(void *arg, const struct json_piece *p, struct err *err)
{
	(void)p;
	(void)err;
	(*(size_t *)arg)++;
	return 0;
}

/* A list larger than the limit of an entry. */
static void test_long_list(void **state)
{
	static const struct jsonsplit_ops counting = { count_item, count_item };
	static const char item[] = "{\"a\":[1,2,3],\"b\":\"0123456789012345678901234567890\"},";
	struct jsonsplit split;
	struct err err;
	size_t n = 0;

	(void)state;
	jsonsplit_init(&split, &counting, &n);
	assert_int_equal(jsonsplit_feed(&split, "{\"items\":[", 10, &err), 0);
	for (int i = 0; i < 200000; i++)
		assert_int_equal(jsonsplit_feed(&split, item, sizeof(item) - 1, &err), 0);
	assert_int_equal(jsonsplit_feed(&split, "1]}", 3, &err), 0);
	assert_int_equal(n, 200002);
	assert_true(split.item.text.cap < 4096);
	jsonsplit_fini(&split);
}

static int stop(void *arg, const struct json_piece *p, struct err *err)
{
	(void)arg;
	(void)p;
	return err_set(err, -EIO, "enough");
}

static void test_stop(void **state)
{
	static const struct jsonsplit_ops stopping = { stop, stop };
	struct jsonsplit split;
	struct err err;

	(void)state;
	jsonsplit_init(&split, &stopping, NULL);
	assert_int_equal(jsonsplit_feed(&split, "{}{}", 4, &err), -EIO);
	assert_string_equal(err.text, "enough");
	jsonsplit_fini(&split);
}

/* --- lines ---------------------------------------------------------------- */

static const struct {
	const char *key[3]; /* "0".."9" are indexes */
	uint32_t line;
} line_cases[] = {
	{ { NULL }, 7 },
	{ { "a" }, 8 },
	{ { "b" }, 9 },
	{ { "b", "1" }, 12 },
	{ { "b", "1", "c" }, 13 },
	{ { "b", "1", "none" }, 12 },
	{ { "b", "5" }, 9 },
	{ { "d" }, 15 },
	{ { "d\"e" }, 7 }, /* a key with an escape is not found: the line of its object */
	{ { "none" }, 7 },
};

static void test_lines(void **state)
{
	static const char text[] = "{\n"                    /* 7 */
				   " \"a\": \"x]}\\\"\",\n" /* 8 */
				   " \"b\": [\n"            /* 9 */
				   "  {\"q\": [1, 2],\n"    /* 10 */
				   "   \"r\": {}},\n"       /* 11 */
				   "  {\n"                  /* 12 */
				   "   \"c\": 1 }\n"        /* 13 */
				   " ],\n"                  /* 14 */
				   " \"d\": \"\\ud83d\",\n" /* 15 */
				   " \"d\\\"e\": 1}";       /* 16 */
	struct json_piece p = { .text = text, .len = sizeof(text) - 1, .line = 7 };
	struct json_lines lines = { 0 };
	const struct yaml *first = NULL;
	json_t *some = json_object();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(line_cases); i++) {
		struct decode d = { 0 };

		for (size_t k = 0; k < 3 && line_cases[i].key[k] != NULL; k++) {
			const char *key = line_cases[i].key[k];
			bool is_index = key[0] >= '0' && key[0] <= '9';

			d.steps[k].in = some;
			d.steps[k].key = is_index ? NULL : key;
			d.steps[k].index = is_index ? strtoul(key, NULL, 10) : 0;
			d.depth = k;
		}
		assert_int_equal(json_lines_of(&lines, &p, &d), line_cases[i].line);
		first = i == 0 ? lines.yaml : first;
	}
	assert_ptr_equal(lines.yaml, first); /* parsed once */
	json_lines_fini(&lines);
	json_decref(some);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),  cmocka_unit_test(test_root),
		cmocka_unit_test(test_bounds), cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_stop),   cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
