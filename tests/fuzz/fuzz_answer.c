/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as what vipd answers vipctl: taken in one piece or byte by byte, the
 * status, the body and the outcome are the same.
 */
#include <assert.h>
#include <string.h>

#include "ctl/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	struct str body;
	int status;
	int r;
};

static int collect(void *arg, const char *data, size_t len)
{
	str_add(arg, data, len);
	return 0;
}

static void take(struct outcome *ret, const char *data, size_t size, size_t step)
{
	struct answer a = { .sink = collect, .arg = &ret->body };
	struct err err = { 0 };

	for (size_t at = 0; ret->r == 0 && at < size; at += step)
		ret->r = answer_feed(&a, data + at, MIN(step, size - at), &err);
	if (ret->r == 0)
		ret->r = answer_end(&a, &err);
	assert(ret->r == 0 || (ret->r < 0 && err.text[0] != '\0'));
	ret->status = a.status;
	answer_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole = { 0 };
	struct outcome parts = { 0 };

	take(&whole, (const char *)data, size, SIZE_MAX);
	take(&parts, (const char *)data, size, 1);
	assert(whole.r == parts.r && whole.status == parts.status);
	assert(whole.body.len == parts.body.len && whole.body.len <= size);
	assert(memcmp(str_text(&whole.body), str_text(&parts.body), whole.body.len) == 0);
	str_fini(&whole.body);
	str_fini(&parts.body);
	return 0;
}
