/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode/trail - see trail.h. */
#include "source/decode/trail.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void trail_start(struct decode *d)
{
	d->depth = 0;
	d->steps[0] = (struct decode_step){ 0 };
}

void trail_into(struct decode *d)
{
	d->depth++;
	assert(d->depth < DECODE_STEPS_MAX);
	d->steps[d->depth] = (struct decode_step){ 0 };
}

void trail_out(struct decode *d)
{
	assert(d->depth > 0);
	d->depth--;
}

static const json_t *present(const json_t *v)
{
	return json_is_null(v) ? NULL : v;
}

const json_t *trail_field(struct decode *d, const json_t *obj, const char *key)
{
	d->steps[d->depth] = (struct decode_step){ .in = obj, .key = key };
	return present(json_object_get(obj, key));
}

const json_t *trail_element(struct decode *d, const json_t *list, size_t i)
{
	d->steps[d->depth] = (struct decode_step){ .in = list, .index = i };
	return present(json_array_get(list, i));
}

/* --- saying what is wrong ------------------------------------------------- */

static void path_text(const struct decode *d, struct str *ret)
{
	for (size_t i = 0; i <= d->depth; i++) {
		const struct decode_step *s = &d->steps[i];

		if (s->in == NULL && s->key == NULL)
			break;
		if (s->key == NULL)
			str_printf(ret, "[%zu]", s->index);
		else if (strpbrk(s->key, "./") != NULL)
			str_printf(ret, "[%s]", s->key);
		else
			str_printf(ret, "%s%s", ret->len > 0 ? "." : "", s->key);
	}
}

__attribute__((format(printf, 3, 0))) static void say(struct str *ret, const struct decode *d,
						      const char *fmt, va_list ap)
{
	char text[ERR_TEXT_MAX];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	path_text(d, ret);
	if (ret->len > 0)
		str_puts(ret, ": ");
	str_puts(ret, text);
}

int trail_refuse(struct decode *d, struct err *err, const char *fmt, ...)
{
	struct str text = { 0 };
	va_list ap;

	if (err == NULL)
		return -EINVAL;
	va_start(ap, fmt);
	say(&text, d, fmt, ap);
	va_end(ap);
	(void)err_set(err, -EINVAL, "%s", str_text(&text));
	str_fini(&text);
	return -EINVAL;
}

void trail_note(struct decode *d, const char *fmt, ...)
{
	struct str text = { 0 };
	va_list ap;

	if (d->note == NULL)
		return;
	va_start(ap, fmt);
	say(&text, d, fmt, ap);
	va_end(ap);
	d->note(d->arg, d, str_text(&text));
	str_fini(&text);
}

/* A value of the wrong type, short enough to quote. */
static const char *value_text(const json_t *v, char *buf, size_t size)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		(void)snprintf(buf, size, "'%.64s'", json_string_value(v));
		return buf;
	case JSON_INTEGER:
		(void)snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		return buf;
	case JSON_REAL:
		(void)snprintf(buf, size, "%g", json_real_value(v));
		return buf;
	case JSON_TRUE:
		return "true";
	case JSON_FALSE:
		return "false";
	case JSON_NULL:
		return "null";
	}
	return "?";
}

static int refuse_type(struct decode *d, const json_t *v, const char *want, struct err *err)
{
	char buf[80];

	return trail_refuse(d, err, "%s is not %s", value_text(v, buf, sizeof(buf)), want);
}

/* --- typed values --------------------------------------------------------- */

static int text_value(const char **ret, struct decode *d, const json_t *v, struct err *err)
{
	if (v == NULL) {
		*ret = NULL;
		return 0;
	}
	if (!json_is_string(v))
		return refuse_type(d, v, "text (write it in quotes)", err);
	if (strlen(json_string_value(v)) != json_string_length(v))
		return trail_refuse(d, err, "holds a NUL character");
	*ret = json_string_value(v);
	return 0;
}

int trail_text(const char **ret, struct decode *d, const json_t *obj, const char *key,
	       struct err *err)
{
	return text_value(ret, d, trail_field(d, obj, key), err);
}

int trail_element_text(const char **ret, struct decode *d, const json_t *list, size_t i,
		       struct err *err)
{
	return text_value(ret, d, trail_element(d, list, i), err);
}

int trail_int(int64_t *ret, struct decode *d, const json_t *obj, const char *key, int64_t min,
	      int64_t max, struct err *err)
{
	const json_t *v = trail_field(d, obj, key);
	char range[64];
	json_int_t n;

	if (v == NULL)
		return 0;
	(void)snprintf(range, sizeof(range), "in %" PRId64 "..%" PRId64, min, max);
	if (json_is_real(v))
		return refuse_type(d, v, range, err);
	if (!json_is_integer(v))
		return refuse_type(d, v, "a number", err);
	n = json_integer_value(v);
	if (n < min || n > max)
		return refuse_type(d, v, range, err);
	*ret = n;
	return 0;
}

int trail_bool(bool *ret, struct decode *d, const json_t *obj, const char *key, struct err *err)
{
	const json_t *v = trail_field(d, obj, key);

	if (v == NULL)
		return 0;
	if (!json_is_boolean(v))
		return refuse_type(d, v, "true or false", err);
	*ret = json_is_true(v);
	return 0;
}

int trail_object(const json_t **ret, struct decode *d, const json_t *obj, const char *key,
		 struct err *err)
{
	const json_t *v = trail_field(d, obj, key);

	if (v != NULL && !json_is_object(v))
		return refuse_type(d, v, "an object", err);
	*ret = v;
	return 0;
}

int trail_list(const json_t **ret, struct decode *d, const json_t *obj, const char *key, size_t max,
	       struct err *err)
{
	const json_t *v = trail_field(d, obj, key);

	if (v != NULL && !json_is_array(v))
		return refuse_type(d, v, "a list", err);
	if (json_array_size(v) > max) {
		(void)trail_refuse(d, err, "%zu entries, at most %zu", json_array_size(v), max);
		return -E2BIG;
	}
	*ret = v;
	return 0;
}

int trail_element_object(const json_t **ret, struct decode *d, const json_t *list, size_t i,
			 struct err *err)
{
	const json_t *v = trail_element(d, list, i);

	if (!json_is_object(v))
		return v == NULL ? trail_refuse(d, err, "null is not an object")
				 : refuse_type(d, v, "an object", err);
	*ret = v;
	return 0;
}
