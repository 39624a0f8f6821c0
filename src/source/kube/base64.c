/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/base64.h"

#include <errno.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int bad(struct str *ret, size_t len, struct err *err)
{
	ret->len = len;
	if (ret->text != NULL)
		ret->text[len] = '\0';
	return err_set(err, -EINVAL, "not base64");
}

int base64_decode(struct str *ret, const char *text, size_t len, struct err *err)
{
	size_t before = ret->len;
	uint32_t bits = 0;
	size_t n = 0; /* characters without white space, with padding */
	size_t pad = 0;

	for (size_t i = 0; i < len; i++) {
		const char *at = text[i] == '\0' ? NULL : strchr(alphabet, text[i]);
		char byte;

		if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n')
			continue;
		n++;
		if (text[i] == '=' && pad < 2) {
			pad++;
			continue;
		}
		if (at == NULL || pad > 0)
			return bad(ret, before, err);
		bits = (bits << 6 | (uint32_t)(at - alphabet)) & 0xffffff;
		if (n % 4 == 1)
			continue;
		byte = (char)(bits >> (n % 4 == 2 ? 4 : n % 4 == 3 ? 2 : 0));
		str_add(ret, &byte, 1);
	}
	return n % 4 == 0 ? 0 : bad(ret, before, err);
}

void base64_encode(struct str *ret, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t step; len > 0; p += step, len -= step) {
		uint32_t bits = (uint32_t)p[0] << 16 | (len > 1 ? (uint32_t)p[1] << 8 : 0) |
				(len > 2 ? p[2] : 0);
		char out[4] = {
			alphabet[bits >> 18],
			alphabet[bits >> 12 & 63],
			len > 1 ? alphabet[bits >> 6 & 63] : '=',
			len > 2 ? alphabet[bits & 63] : '=',
		};

		step = MIN(len, (size_t)3);
		str_add(ret, out, sizeof(out));
	}
}
