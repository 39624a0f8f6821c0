/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as what vipd answers vipctl: read in blocks or byte by byte, the
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

static void take(struct outcome *ret, const uint8_t *data, size_t size, int buffering)
{
	struct answer a = { .sink = collect, .arg = &ret->body };
	FILE *in = fmemopen((void *)(uintptr_t)data, size, "r");
	struct err err = { 0 };

	assert(in != NULL && setvbuf(in, NULL, buffering, buffering == _IONBF ? 0 : BUFSIZ) == 0);
	ret->r = answer_read(&a, in, &err);
	assert(ret->r == 0 || (ret->r < 0 && err.text[0] != '\0'));
	ret->status = a.status;
	(void)fclose(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole = { 0 };
	struct outcome parts = { 0 };

	take(&whole, data, size, _IOFBF);
	take(&parts, data, size, _IONBF);
	assert(whole.r == parts.r && whole.status == parts.status);
	assert(whole.body.len == parts.body.len && whole.body.len <= size);
	assert(memcmp(str_text(&whole.body), str_text(&parts.body), whole.body.len) == 0);
	str_fini(&whole.body);
	str_fini(&parts.body);
	return 0;
}
