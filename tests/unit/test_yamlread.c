/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML to JSON values: scalars, aliases and their limits, lists entry by entry, lines. */
#include "source/decode/yamlread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "source/decode/decode.h"
#include "test.h"

/*
 * The content of `text`: "D<line>:<json>" a document, "I<line>:<json>" an item, "E<line>:<why>" an
 * error.
 */
static char *read_all(struct yaml *y)
{
	struct str out = { 0 };
	struct err err;
	json_t *v;
	int r;

	while ((r = yaml_next(y, &v, &err)) > 0) {
		char *json = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

		str_printf(&out, "%s%c%u:%s", out.len > 0 ? " " : "", r == YAML_ITEM ? 'I' : 'D',
			   yaml_line(y), json);
		free(json);
		json_decref(v);
	}
	if (r < 0)
		str_printf(&out, "%sE%u:%s", out.len > 0 ? " " : "", yaml_line(y), err.text);
	return out.text ? out.text : xstrdup("");
}

static const struct {
	const char *name;
	const char *text;
	const char *want;
} cases[] = {
	{ "nothing", "", "" },
	{ "comments only", "# a\n\n  # b\n", "" },
	{ "an empty document", "---\n", "D2:null" },
	{ "two documents", "a: 1\n---\nb: 2\n", "D1:{\"a\":1} D3:{\"b\":2}" },
	{ "end marker", "a: 1\n...\n# done\n", "D1:{\"a\":1}" },
	{ "end marker, then another without a start", "a: 1\n...\nb: 2\n",
	  "D1:{\"a\":1} E3:did not find expected <document start>" },
	{ "byte order mark",
	  "\xef\xbb\xbf"
	  "a: 1\n",
	  "D1:{\"a\":1}" },
	{ "DOS line ends", "a: 1\r\nb:\r\n- x\r\n", "D1:{\"a\":1,\"b\":[\"x\"]}" },

	/* scalars as in the YAML library of Kubernetes */
	{ "decimal", "[0, 80, -1, +7, 1_000, 9223372036854775807]",
	  "D1:[0,80,-1,7,1000,9223372036854775807]" },
	{ "octal, and what only looks like it", "[010, 0o17, 080, 0, 00, 08.0]",
	  "D1:[8,15,80,0,0,8]" },
	{ "other bases", "[0x1F, 0b101, -0x10]", "D1:[31,5,-16]" },
	{ "fractions that are none", "[80.0, 1e3, 8e+1, .5e1]", "D1:[80,1000,80,5]" },
	{ "fractions", "[1.5, .5, -0.25]", "D1:[1.5,0.5,-0.25]" },
	{ "not numbers", "[10.96.0.1, 1.2.3, 0x, 0xfg, '-', +, 1e, 12:30, 2026-11-20, e3, fd00::1]",
	  "D1:[\"10.96.0.1\",\"1.2.3\",\"0x\",\"0xfg\",\"-\",\"+\",\"1e\",\"12:30\","
	  "\"2026-11-20\",\"e3\",\"fd00::1\"]" },
	{ "not numbers to JSON", "[.inf, .nan, 1e999]", "D1:[\".inf\",\".nan\",\"1e999\"]" },
	{ "booleans", "[true, True, yes, on, y, false, No, OFF, n]",
	  "D1:[true,true,true,true,true,false,false,false,false]" },
	{ "no booleans", "[tRue, 'yes', \"on\", yess]", "D1:[\"tRue\",\"yes\",\"on\",\"yess\"]" },
	{ "null", "[~, null, Null, NULL, 'null']", "D1:[null,null,null,null,\"null\"]" },
	{ "empty value", "a:\nb: ''\n", "D1:{\"a\":null,\"b\":\"\"}" },
	{ "times stay text", "[2026-11-20T09:45:21Z]", "D1:[\"2026-11-20T09:45:21Z\"]" },
	{ "block text", "a: |\n  x\n  y\nb: >-\n  x\n  y\n",
	  "D1:{\"a\":\"x\\ny\\n\",\"b\":\"x y\"}" },

	/* tags */
	{ "tags", "[!!str 80, !!int '80', !!float 1, !!bool yes, !!null '', ! x, ! 80]",
	  "D1:[\"80\",80,1,true,null,\"x\",\"80\"]" },
	{ "tags of containers", "!!map {a: !!seq []}", "D1:{\"a\":[]}" },
	{ "tag that lies", "a: 1\nb: !!int x\n", "E2:value does not match its tag" },
	{ "foreign tag", "a: !secret x", "E1:value does not match its tag" },
	{ "foreign tag of an object", "a: !foo {b: c}", "E1:unknown tag" },

	/* keys */
	{ "keys become text", "80: a\ntrue: b\n~: c\n",
	  "D1:{\"80\":\"a\",\"true\":\"b\",\"~\":\"c\"}" },
	{ "key twice", "a: 1\nb: 2\na: 3\n", "E3:duplicate key 'a'" },
	{ "key twice, far down", "a:\n  b:\n  - c: 1\n    d: 1\n    c: 2\n",
	  "E5:duplicate key 'c'" },
	{ "list as key", "? [a, b]\n: 1\n", "E1:key is a list or an object" },
	{ "object as key", "{a: 1}: 2", "E1:key is a list or an object" },
	{ "alias as key", "x: &a b\n*a : 1\n", "D1:{\"x\":\"b\",\"b\":1}" },
	{ "alias of a list as key", "x: &a [b]\n*a : 1\n",
	  "E2:key is an alias of a value that is not text" },
	{ "anchor on a key", "&k a: 1\nb: *k\n", "D1:{\"a\":1,\"b\":\"a\"}" },

	/* aliases and merges */
	{ "alias", "a: &x {b: [1, 2]}\nc: *x\n", "D1:{\"a\":{\"b\":[1,2]},\"c\":{\"b\":[1,2]}}" },
	{ "anchor given again", "a: &x 1\nb: &x 2\nc: *x\n", "D1:{\"a\":1,\"b\":2,\"c\":2}" },
	{ "unknown alias", "a: 1\nb: *x\n",
	  "E2:alias without an anchor (text that begins with '*' needs quotes)" },
	{ "alias of itself", "a: &x [1, *x]\n",
	  "E1:alias without an anchor (text that begins with '*' needs quotes)" },
	{ "anchors end with their document", "a: &x 1\n---\nb: *x\n",
	  "D1:{\"a\":1} E3:alias without an anchor (text that begins with '*' needs quotes)" },
	{ "merge", "a: &x {b: 1, c: 2}\nd: {c: 3, <<: *x, e: 4}\n",
	  "D1:{\"a\":{\"b\":1,\"c\":2},\"d\":{\"c\":3,\"e\":4,\"b\":1}}" },
	{ "merge, key of its own after it", "a: &x {b: 1}\nd: {<<: *x, b: 2}\n",
	  "D1:{\"a\":{\"b\":1},\"d\":{\"b\":2}}" },
	{ "merge of two", "a: &x {b: 1}\nc: &y {b: 2, d: 3}\ne: {<<: [*x, *y]}\n",
	  "D1:{\"a\":{\"b\":1},\"c\":{\"b\":2,\"d\":3},\"e\":{\"b\":1,\"d\":3}}" },
	{ "merge of text", "a: {<<: x}",
	  "E1:the value of a merge key '<<' is not an object or a list of them" },
	{ "merge of a list of text", "a: {<<: [x]}",
	  "E1:the value of a merge key '<<' is not an object or a list of them" },

	/* lists */
	{ "items one by one", "kind: List\nitems:\n- a: 1\n- b:\n    items: [2]\n- 3\n",
	  "I3:{\"a\":1} I4:{\"b\":{\"items\":[2]}} I6:3 D1:{\"kind\":\"List\",\"items\":[]}" },
	{ "items before the kind", "items:\n- a: 1\nkind: List\n",
	  "I2:{\"a\":1} D1:{\"items\":[],\"kind\":\"List\"}" },
	{ "items of a root list are none", "- items: [1]\n", "D1:[{\"items\":[1]}]" },
	{ "items as object", "items: {a: 1}", "D1:{\"items\":{\"a\":1}}" },
	{ "items by alias are not taken apart", "a: &x [1]\nitems: *x\n",
	  "D1:{\"a\":[1],\"items\":[1]}" },
	{ "entries refer to each other", "items:\n- &x {a: 1}\n- *x\n",
	  "I2:{\"a\":1} I3:{\"a\":1} D1:{\"items\":[]}" },
	{ "good entries before bad syntax", "items:\n- a: 1\n- b: 'x\n- c: 3\n",
	  "I2:{\"a\":1} E5:while scanning a quoted scalar: found unexpected end of stream" },

	{ "byte order mark",
	  "\xef\xbb\xbf"
	  "a: 1\n",
	  "D1:{\"a\":1}" },

	/* what is no YAML */
	{ "tab", "a:\n\tb: 1\n", "E2:indented with a tab, YAML allows only spaces" },
	{ "indentation", "a: 1\n  b: 2\n", "E2:mapping values are not allowed in this context" },
	{ "not closed", "a: [1, 2\nb: 3\n",
	  "E2:while parsing a flow sequence: did not find expected ',' or ']'" },
	{ "bad UTF-8", "a: 1\nb: \xff\n", "E2:invalid leading UTF-8 octet" },
	{ "overlong UTF-8", "a: \xc0\xaf\n", "E1:invalid length of a UTF-8 sequence" },
	{ "control character", "a: \x01\n", "E1:control characters are not allowed" },
	{ "NUL by escape", "a: \"x\\0y\"\n", "E1:text contains a NUL character" },
	{ "NUL by escape in a key", "\"x\\0y\": 1\n", "E1:key contains a NUL character" },
	{ "document after bad syntax is not reached", "a: [\n---\nb: 1\n",
	  "E2:while parsing a flow node: did not find expected node content" },
};

static void test_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(yaml_close) struct yaml *y = NULL;
		char *got;

		print_message("    %s\n", cases[i].name);
		yaml_open_text(&y, cases[i].text, strlen(cases[i].text), 1);
		got = read_all(y);
		assert_string_equal(got, cases[i].want);
		free(got);
	}
}

static void test_utf16(void **state)
{
	static const char text[] = "\xff\xfe"
				   "a\0:\0 \0"
				   "1\0\n";
	AUTO(yaml_close) struct yaml *y = NULL;
	char *got;

	(void)state;
	yaml_open_text(&y, text, sizeof(text), 1);
	got = read_all(y);
	assert_string_equal(got, "E1:invalid leading UTF-8 octet");
	free(got);
}

/* --- bounds --------------------------------------------------------------- */

static void expect(const struct str *text, const char *want)
{
	AUTO(yaml_close) struct yaml *y = NULL;
	char *got;

	yaml_open_text(&y, text->text, text->len, 1);
	got = read_all(y);
	if (strncmp(got, want, strlen(want)) != 0)
		fail_msg("%.200s", got);
	free(got);
}

static void test_depth(void **state)
{
	struct str s = { 0 };

	(void)state;
	for (int i = 0; i < YAML_DEPTH_MAX; i++)
		str_puts(&s, "[");
	for (int i = 0; i < YAML_DEPTH_MAX; i++)
		str_puts(&s, "]");
	expect(&s, "D1:[[[");
	str_clear(&s);
	for (int i = 0; i < 100000; i++)
		str_puts(&s, "[");
	expect(&s, "E1:nested deeper than 64 levels");
	str_clear(&s);
	for (int i = 0; i < 100; i++)
		str_printf(&s, "%*sa:\n", i, "");
	expect(&s, "E65:nested deeper than 64 levels");
	str_fini(&s);
}

/* Nine aliases per level: 9^9 values if expanded. */
static void test_aliases_explode(void **state)
{
	struct str s = { 0 };

	(void)state;
	str_puts(&s, "a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 10; i++) {
		str_printf(&s, "a%d: &a%d [", i, i);
		for (int k = 0; k < 9; k++)
			str_printf(&s, "*a%d,", i - 1);
		str_puts(&s, "]\n");
	}
	expect(&s, "E6:more than 500000 values, the limit of an object");
	str_fini(&s);
}

static void test_too_many_values(void **state)
{
	struct str s = { 0 };

	(void)state;
	str_puts(&s, "a: [");
	for (int i = 0; i < YAML_COST_MAX; i++)
		str_puts(&s, "1,");
	str_puts(&s, "]");
	expect(&s, "E1:more than 500000 values, the limit of an object");
	str_clear(&s);
	str_puts(&s, "[");
	for (int i = 0; i < YAML_COST_MAX / 4; i++)
		str_puts(&s, "{},");
	str_puts(&s, "]");
	expect(&s, "E1:more than 500000 values, the limit of an object");
	str_fini(&s);
}

/*
 * A list may be longer than the limit of one object; its anchors are kept in memory, so they are
 * limited.
 */
static void test_long_list(void **state)
{
	AUTO(yaml_close) struct yaml *y = NULL;
	struct str s = { 0 };
	struct err err;
	size_t n = 0;
	json_t *v;
	int r;

	(void)state;
	str_puts(&s, "items:\n");
	for (int i = 0; i < YAML_COST_MAX / 4; i++)
		str_puts(&s, "- {a: 1}\n");
	yaml_open_text(&y, s.text, s.len, 1);
	for (; (r = yaml_next(y, &v, &err)) == YAML_ITEM; n++)
		json_decref(v);
	assert_int_equal(r, YAML_DOCUMENT);
	json_decref(v);
	assert_int_equal(n, YAML_COST_MAX / 4);

	str_clear(&s);
	str_puts(&s, "items:\n");
	for (int i = 0; i < YAML_COST_MAX / 4; i++)
		str_puts(&s, "- &x {a: 1}\n");
	yaml_close(TAKE(y));
	yaml_open_text(&y, s.text, s.len, 1);
	for (n = 0; (r = yaml_next(y, &v, &err)) == YAML_ITEM; n++)
		json_decref(v);
	assert_int_equal(r, -E2BIG);
	assert_string_equal(err.text, "anchors with more values than allowed (500000)");
	str_fini(&s);
}

/* --- lines ---------------------------------------------------------------- */

static const char lines_text[] = "apiVersion: v1\n"      /* 11 */
				 "metadata: {name: a,\n" /* 12 */
				 "  labels: {x: 1}}\n"   /* 13 */
				 "spec:\n"               /* 14 */
				 "  ports:\n"            /* 15 */
				 "  - port: 80\n"        /* 16 */
				 "\n"                    /* 17 */
				 "  -\n"                 /* 18 */
				 "    name: x\n"         /* 19 */
				 "    port:\n"           /* 20 */
				 "      81\n"            /* 21 */
				 "    on: true\n";       /* 22 */

static const struct {
	const char *path; /* blank-separated; digits are indexes */
	uint32_t line;
} line_cases[] = {
	{ "", 11 },
	{ "apiVersion", 11 },
	{ "metadata", 12 },
	{ "metadata name", 12 },
	{ "metadata labels", 13 },
	{ "metadata labels x", 13 },
	{ "metadata missing", 12 },
	{ "missing", 11 },
	{ "spec", 15 },
	{ "spec ports", 16 },
	{ "spec ports 0 port", 16 },
	{ "spec ports 0 name", 16 },
	{ "spec ports 1", 19 },
	{ "spec ports 1 name", 19 },
	{ "spec ports 1 port", 21 },
	{ "spec ports 1 on", 22 },
	{ "spec ports 7 name", 16 },
};

static void steps_make(struct decode *d, const json_t *root, char *path)
{
	const json_t *at = root;
	char *save = NULL;

	*d = (struct decode){ 0 };
	for (char *p = strtok_r(path, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save)) {
		struct decode_step *s = &d->steps[d->depth++];

		s->in = at;
		if (p[0] >= '0' && p[0] <= '9')
			s->index = strtoul(p, NULL, 10);
		else
			s->key = p;
		at = s->key ? json_object_get(at, s->key) : json_array_get(at, s->index);
	}
	d->depth -= d->depth > 0;
}

static void test_lines(void **state)
{
	AUTO(yaml_close) struct yaml *y = NULL;
	struct err err;
	json_t *v;

	(void)state;
	yaml_open_text(&y, lines_text, strlen(lines_text), 11);
	assert_int_equal(yaml_next(y, &v, &err), YAML_DOCUMENT);
	for (size_t i = 0; i < ARRAY_SIZE(line_cases); i++) {
		struct decode d;
		char path[64];

		print_message("    %s\n", line_cases[i].path);
		(void)snprintf(path, sizeof(path), "%s", line_cases[i].path);
		steps_make(&d, v, path);
		assert_int_equal(yaml_line_of(y, &d), line_cases[i].line);
	}
	json_decref(v);
}

static void test_lines_of_items(void **state)
{
	static const char text[] = "items:\n- a: 1\n- b: 2\n  c:\n    d: true\n- e: 3\n";
	AUTO(yaml_close) struct yaml *y = NULL;
	static const uint32_t want[] = { 2, 5, 6 };
	struct err err;
	json_t *v;

	(void)state;
	yaml_open_text(&y, text, strlen(text), 1);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct decode d;
		char path[] = "c d";

		assert_int_equal(yaml_next(y, &v, &err), YAML_ITEM);
		steps_make(&d, v, path);
		assert_int_equal(yaml_line_of(y, &d), want[i]);
		json_decref(v);
	}
	assert_int_equal(yaml_next(y, &v, &err), YAML_DOCUMENT);
	json_decref(v);
}

/* --- reading -------------------------------------------------------------- */

struct dribble {
	const char *text;
	int error;
};

static ssize_t dribble(void *arg, void *buf, size_t size)
{
	struct dribble *d = arg;

	if (d->text[0] == '\0')
		return d->error;
	(void)size;
	*(char *)buf = *d->text++;
	return 1;
}

static void test_stream(void **state)
{
	struct dribble d = { "a: [1, 2]\n---\nitems:\n- 1\n- 2\n", 0 };
	AUTO(yaml_close) struct yaml *y = NULL;
	char *got;

	(void)state;
	yaml_open(&y, dribble, &d, 5);
	got = read_all(y);
	assert_string_equal(got, "D5:{\"a\":[1,2]} I8:1 I9:2 D7:{\"items\":[]}");
	free(got);
}

static void test_stream_fails(void **state)
{
	struct dribble d = { "a: [1, 2]\nb:", -EIO };
	AUTO(yaml_close) struct yaml *y = NULL;
	struct err err;
	json_t *v;

	(void)state;
	yaml_open(&y, dribble, &d, 1);
	assert_int_equal(yaml_next(y, &v, &err), -EIO);
	assert_string_equal(err.text, "Input/output error");
}

static void on_twice(void *arg, const char *key, uint32_t line)
{
	str_printf(arg, "%s:%u ", key, line);
}

/* If allowed, the last value of a duplicate key is used, at the position of the first. */
static void test_twice(void **state)
{
	static const char text[] = "a: 1\nb: {c: 1,\n c: 2}\na:\n- 3\n";
	struct decode d = { 0 };
	struct str reported = { 0 };
	struct yaml *y;
	char *all;
	json_t *v;

	yaml_open_text(&y, text, sizeof(text) - 1, 1);
	yaml_allow_twice(y, on_twice, &reported);
	all = read_all(y);
	assert_string_equal(all, "D1:{\"a\":[3],\"b\":{\"c\":2}}");
	assert_string_equal(reported.text, "c:3 a:4 ");
	free(all);
	yaml_close(y);

	yaml_open_text(&y, text, sizeof(text) - 1, 1);
	yaml_allow_twice(y, on_twice, &reported);
	assert_int_equal(yaml_next(y, &v, NULL), YAML_DOCUMENT);
	d.steps[0] = (struct decode_step){ .in = v, .key = "b" };
	assert_int_equal(yaml_line_of(y, &d), 2);
	d.steps[0].key = "a";
	assert_int_equal(yaml_line_of(y, &d), 5);
	json_decref(v);
	yaml_close(y);
	str_fini(&reported);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),          cmocka_unit_test(test_utf16),
		cmocka_unit_test(test_depth),           cmocka_unit_test(test_aliases_explode),
		cmocka_unit_test(test_too_many_values), cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_lines),           cmocka_unit_test(test_lines_of_items),
		cmocka_unit_test(test_stream),          cmocka_unit_test(test_stream_fails),
		cmocka_unit_test(test_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
