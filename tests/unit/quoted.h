/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/quoted - JSON in C strings, with ' in place of ". */
#pragma once

#include <jansson.h>
#include <stdlib.h>

#include "base/util.h"
#include "test.h"

PRINTF_LIKE(1, 2)
static inline json_t *json_of(const char *fmt, ...)
{
	json_t *json;
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	for (char *p = text; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	free(text);
	return json;
}
