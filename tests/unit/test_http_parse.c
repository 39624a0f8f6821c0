/* SPDX-License-Identifier: GPL-2.0-or-later */
/* http/http: heads of requests, well-formed and not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/http.h"

#define END " HTTP/1.1\r\n\r\n"

static const struct {
	const char *name;
	const char *head;
	int status; /* 0 = fine */
	const char *path;
	const char *params; /* "name=value;" each */
} cases[] = {
	{ "plain", "GET /v1/status" END, 0, "/v1/status", "" },
	{ "bare LF", "GET / HTTP/1.1\nHost: x\n\n", 0, "/", "" },
	{ "1.0", "GET / HTTP/1.0\r\n\r\n", 0, "/", "" },
	{ "headers", "GET / HTTP/1.1\r\nHost: a\r\nX:  y \r\n\r\n", 0, "/", "" },
	{ "HEAD", "HEAD /x" END, 0, "/x", "" },
	{ "query", "GET /v1/services?namespace=shop&q=10.0.0.1%3A80&limit=5" END, 0, "/v1/services",
	  "namespace=shop;q=10.0.0.1:80;limit=5;" },
	{ "plus is a space in a query only", "GET /a+b?c+d=e+f" END, 0, "/a+b", "c d=e f;" },
	{ "empty value, no value", "GET /?a=&b&&c" END, 0, "/", "a=;b=;=;c=;" },
	{ "equals in a value", "GET /?a=b=c" END, 0, "/", "a=b=c;" },
	{ "fragment is not ours", "GET /a?b=c#d" END, 0, "/a", "b=c;" },
	{ "absolute form", "GET http://localhost/v1/x?y=z" END, 0, "/v1/x", "y=z;" },
	{ "UTF-8", "GET /caf%C3%A9" END, 0, "/caf\xc3\xa9", "" },
	{ "no body is no body", "GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 0, "/", "" },

	{ "two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, NULL, NULL },
	{ "a body", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413, NULL, NULL },
	{ "a huge body", "GET / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n", 413,
	  NULL, NULL },
	{ "a negative body", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 413, NULL, NULL },
	{ "chunks", "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413, NULL, NULL },
	{ "POST", "POST /v1/status" END, 405, NULL, NULL },
	{ "DELETE", "DELETE /v1/services/a/b" END, 405, NULL, NULL },
	{ "a method of nobody", "BREW /" END, 501, NULL, NULL },
	{ "lower case is another method", "get /" END, 501, NULL, NULL },
	{ "HTTP/2", "GET / HTTP/2.0\r\n\r\n", 505, NULL, NULL },
	{ "no version", "GET /\r\n\r\n", 400, NULL, NULL },
	{ "no target", "GET  HTTP/1.1\r\n\r\n", 400, NULL, NULL },
	{ "nothing", "\r\n\r\n", 400, NULL, NULL },
	{ "TLS hello", "\x16\x03\x01\x02\r\n\r\n", 400, NULL, NULL },
	{ "target without slash", "GET v1/status" END, 400, NULL, NULL },
	{ "absolute form without path", "GET http://localhost" END, 400, NULL, NULL },
	{ "cut escape", "GET /%4" END, 400, NULL, NULL },
	{ "not hex", "GET /%zz" END, 400, NULL, NULL },
	{ "NUL in the path", "GET /a%00b" END, 400, NULL, NULL },
	{ "newline in a value", "GET /?a=%0d%0aX" END, 400, NULL, NULL },
	{ "not UTF-8", "GET /%ff" END, 400, NULL, NULL },
	{ "header without colon", "GET / HTTP/1.1\r\nnonsense\r\n\r\n", 400, NULL, NULL },
	{ "header with no name", "GET / HTTP/1.1\r\n: x\r\n\r\n", 400, NULL, NULL },
	{ "space before the colon", "GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\n", 400, NULL,
	  NULL },
	{ "folded header", "GET / HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n", 400, NULL, NULL },
};

static void test_parse(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_request q;
		struct str params = { 0 };
		struct err err = { 0 };
		size_t len = strlen(cases[i].head);

		print_message("    %s\n", cases[i].name);
		assert_int_equal(http_request_parse(&q, cases[i].head, len, HTTP_TAKES_READS, &err),
				 cases[i].status);
		if (cases[i].status == 0) {
			assert_int_equal(http_head_len(cases[i].head, len), len);
			assert_string_equal(q.path, cases[i].path);
			vec_for_each (p, &q.params)
				str_printf(&params, "%s=%s;", p->name, p->value);
			assert_string_equal(str_text(&params), cases[i].params);
		} else {
			assert_true(err.text[0] != '\0');
		}
		str_fini(&params);
		http_request_fini(&q);
	}
}

/* With PUT and POST allowed: only without a body, and no other method. */
static void test_writes(void **state)
{
	static const struct {
		const char *head;
		int status;
		bool is_write;
		bool is_other;
	} heads[] = {
		{ "PUT /v1/log?area=a" END, 0, true },
		{ "POST /v1/log" END, 0, true },
		{ "GET /v1/log" END, 0, false },
		{ "HEAD /v1/log" END, 0, false },
		{ "PUT /v1/log HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 0, true },
		{ "PUT /v1/log HTTP/1.1\r\nContent-Length: 2\r\n\r\n", 413, true },
		{ "DELETE /v1/log" END, 0, false, true },
		{ "put /v1/log" END, 501, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		struct http_request q;
		struct err err;

		print_message("    %s\n", heads[i].head);
		assert_int_equal(http_request_parse(&q, heads[i].head, strlen(heads[i].head),
						    HTTP_TAKES_WRITES, &err),
				 heads[i].status);
		assert_int_equal(q.is_write, heads[i].is_write);
		assert_int_equal(q.is_other, heads[i].is_other);
		http_request_fini(&q);
	}
}

static void test_too_many_params(void **state)
{
	struct str head = { 0 };
	struct http_request q;
	struct err err;

	(void)state;
	str_puts(&head, "GET /?");
	for (int i = 0; i < HTTP_PARAMS_MAX + 1; i++)
		str_printf(&head, "p%d=%d&", i, i);
	str_puts(&head, END);
	assert_int_equal(http_request_parse(&q, head.text, head.len, HTTP_TAKES_READS, &err), 400);
	http_request_fini(&q);
	str_fini(&head);
}

/* In any pieces, a head is complete when its empty line has arrived. */
static void test_head_len(void **state)
{
	static const char *const heads[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\n\n",
		"GET / HTTP/1.1\r\n\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		size_t len = strlen(heads[i]);

		for (size_t cut = 0; cut < len; cut++)
			assert_int_equal(http_head_len(heads[i], cut), 0);
		assert_int_equal(http_head_len(heads[i], len), len);
	}
	assert_int_equal(http_head_len("\r\n\r\nGET", 7), 4);
	assert_int_equal(http_head_len("GET /\r\n\r\nmore\r\n\r\n", 17), 9);
}

/* A damaged head is rejected at most. */
static void test_mutations(void **state)
{
	static const char good[] =
		"GET /v1/services?namespace=a%20b&q=c HTTP/1.1\r\nHost: x\r\n\r\n";
	char head[sizeof(good)];
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct http_request q;
		struct err err;
		size_t len = sizeof(good) - 1;
		int status;

		memcpy(head, good, sizeof(good));
		for (int k = 0; k < 3; k++)
			head[(size_t)rand_r(&seed) % len] = (char)rand_r(&seed);
		len -= (size_t)rand_r(&seed) % 8;
		status = http_request_parse(&q, head, len, HTTP_TAKES_READS, &err);
		assert_true(status == 0 || (status >= 400 && status <= 505));
		if (status == 0) {
			assert_true(q.path[0] == '/');
			assert_true(str_is_utf8(q.path, strlen(q.path)));
		}
		http_request_fini(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),           cmocka_unit_test(test_writes),
		cmocka_unit_test(test_too_many_params), cmocka_unit_test(test_head_len),
		cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
