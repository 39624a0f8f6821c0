/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/report - results as a list and as JSON. */
#include "doctor/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = { "", "ok", "note", "warning", "error" };

const char *check_level_text(enum check_level level)
{
	return level_names[level];
}

void check_report_fini(struct check_report *r)
{
	vec_for_each (c, &r->v) {
		free(c->check);
		free(c->found);
		free(c->advice);
	}
	vec_fini(&r->v);
}

enum check_level check_report_worst(const struct check_report *r)
{
	enum check_level worst = CHECK_UNSET;

	vec_for_each (c, &r->v)
		worst = MAX(worst, c->level);
	return worst;
}

void check_add(struct check_report *r, const char *check, enum check_level level,
	       const char *advice, const char *fmt, ...)
{
	char found[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(found, sizeof(found), fmt, ap);
	va_end(ap);
	*vec_push(&r->v) = (struct check_result){ xstrdup(check), level, xstrdup(found),
						  advice ? xstrdup(advice) : NULL };
}

json_t *check_report_json(const struct check_report *r)
{
	json_t *out = json_array();

	vec_for_each (c, &r->v) {
		json_t *o = json_object();
		json_t *found = json_string(c->found);

		/* Names from other programs can be any bytes: only UTF-8 is shown. */
		if (found == NULL)
			found = json_string("(a name that is not UTF-8)");
		(void)json_object_set_new(o, "check", json_string(c->check));
		(void)json_object_set_new(o, "level", json_string(level_names[c->level]));
		(void)json_object_set_new(o, "found", found);
		(void)json_object_set_new(o, "advice",
					  c->advice ? json_string(c->advice) : json_null());
		(void)json_array_append_new(out, o);
	}
	return out;
}

static enum check_level level_parse(const char *text)
{
	for (int i = CHECK_OK; text != NULL && i <= CHECK_ERROR; i++)
		if (strcmp(text, level_names[i]) == 0)
			return (enum check_level)i;
	return CHECK_UNSET;
}

int check_report_from_json(struct check_report *ret, const json_t *results, struct err *err)
{
	*ret = (struct check_report){ 0 };
	for (size_t i = 0; i < json_array_size(results); i++) {
		const json_t *o = json_array_get(results, i);
		const char *check = json_string_value(json_object_get(o, "check"));
		const char *found = json_string_value(json_object_get(o, "found"));
		const char *advice = json_string_value(json_object_get(o, "advice"));
		enum check_level level =
			level_parse(json_string_value(json_object_get(o, "level")));

		if (check == NULL || found == NULL || level == CHECK_UNSET) {
			check_report_fini(ret);
			return err_set(err, -EPROTO, "result %zu is invalid", i);
		}
		check_add(ret, check, level, advice, "%s", found);
	}
	if (ret->v.n == 0)
		return err_set(err, -EPROTO, "no results");
	return 0;
}
