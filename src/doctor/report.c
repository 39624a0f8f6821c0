/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/report - results as JSON. */
#include "doctor/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const level_names[] = { "", "ok", "note", "warning", "error" };

const char *check_level_text(enum check_level level)
{
	return level_names[level];
}

const char *check_text(const json_t *result, const char *key)
{
	return json_string_value(json_object_get(result, key));
}

enum check_level check_level(const json_t *result)
{
	const char *text = check_text(result, "level");

	for (int i = CHECK_OK; text != NULL && i <= CHECK_ERROR; i++)
		if (strcmp(text, level_names[i]) == 0)
			return (enum check_level)i;
	return CHECK_UNSET;
}

enum check_level check_report_worst(const json_t *report)
{
	enum check_level worst = CHECK_UNSET;
	const json_t *result;
	size_t i;

	json_array_foreach (report, i, result)
		worst = MAX(worst, check_level(result));
	return worst;
}

void check_add(json_t *report, const char *check, enum check_level level, const char *advice,
	       const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	json_t *found;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	found = json_string(text);
	/* Names from other programs can be any bytes: only UTF-8 is shown. */
	if (found == NULL)
		found = json_string("(a name that is not UTF-8)");
	(void)json_array_append_new(report, json_pack("{s:s, s:s, s:o, s:s?}", "check", check,
						      "level", level_names[level], "found", found,
						      "advice", advice));
}
