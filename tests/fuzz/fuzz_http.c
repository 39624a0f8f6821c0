/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as the head of a request: refused with a status and a reason, or made
 * into text that is safe to use; whether a head is complete never changes with what
 * follows it.
 */
#include <assert.h>
#include <string.h>

#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void text_check(const char *text)
{
	assert(str_is_utf8(text, strlen(text)));
	for (; *text != '\0'; text++)
		assert((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void parse_check(const char *head, size_t len)
{
	struct http_request q;
	struct err err = { 0 };
	int status = http_request_parse(&q, head, len, HTTP_TAKES_READS, &err);

	if (status == 0) {
		assert(q.path[0] == '/');
		text_check(q.path);
		assert(q.params.n <= HTTP_PARAMS_MAX);
		vec_for_each (p, &q.params) {
			text_check(p->name);
			text_check(p->value);
			assert(http_request_param(&q, p->name) != NULL);
		}
	} else {
		assert(status >= 400 && status <= 505 && err.text[0] != '\0');
	}
	http_request_fini(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	size_t len = http_head_len(text, size);

	parse_check(text, size);
	if (len == 0)
		return 0;
	assert(len <= size && text[len - 1] == '\n');
	assert(http_head_len(text, len) == len);
	for (size_t cut = len > 64 ? len - 64 : 0; cut < len; cut++)
		assert(http_head_len(text, cut) == 0);
	parse_check(text, len);
	return 0;
}
