/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/decode/trail.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void trail_start(struct decode *d, struct err *err)
{
	d->depth = 0;
	d->steps[0] = (struct decode_step){ 0 };
	d->err = err;
	d->r = 0;
}

void trail_into(struct decode *d)
{
	if (d->r < 0)
		return;
	d->depth++;
	assert(d->depth < DECODE_STEPS_MAX);
	d->steps[d->depth] = (struct decode_step){ 0 };
}

void trail_out(struct decode *d)
{
	if (d->r < 0)
		return;
	assert(d->depth > 0);
	d->depth--;
}

static const json_t *present(const json_t *v)
{
	return json_is_null(v) ? NULL : v;
}

const json_t *trail_field(struct decode *d, const json_t *obj, const char *key)
{
	if (d->r < 0)
		return NULL;
	d->steps[d->depth] = (struct decode_step){ .in = obj, .key = key };
	return present(tree_get(obj, key));
}

const json_t *trail_element(struct decode *d, const json_t *list, size_t i)
{
	if (d->r < 0)
		return NULL;
	d->steps[d->depth] = (struct decode_step){ .in = list, .index = i };
	return present(tree_at(list, i));
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

int trail_reject(struct decode *d, const char *fmt, ...)
{
	FINI(str_fini) struct str text = { 0 };
	va_list ap;

	if (d->r < 0)
		return d->r;
	d->r = -EINVAL;
	if (d->err == NULL)
		return -EINVAL;
	va_start(ap, fmt);
	say(&text, d, fmt, ap);
	va_end(ap);
	return err_set(d->err, -EINVAL, "%s", str_text(&text));
}

void trail_note(struct decode *d, const char *fmt, ...)
{
	FINI(str_fini) struct str text = { 0 };
	va_list ap;

	if (d->note == NULL || d->r < 0)
		return;
	va_start(ap, fmt);
	say(&text, d, fmt, ap);
	va_end(ap);
	d->note(d->arg, d, str_text(&text));
}

/* A value of the wrong type, short enough to quote. */
static const char *quote(const json_t *v, char *buf, size_t size)
{
	static const char *const words[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",      [JSON_NULL] = "null",
	};
	json_type type = tree_type(v);

	if (type == JSON_STRING)
		(void)snprintf(buf, size, "'%.64s'", tree_text(v));
	else if (type == JSON_INTEGER)
		(void)snprintf(buf, size, "%" PRId64, tree_number(v));
	else if (type == JSON_REAL)
		(void)snprintf(buf, size, "%g", json_real_value(v));
	else
		return words[type];
	return buf;
}

static void reject_type(struct decode *d, const json_t *v, const char *expected)
{
	char buf[80];

	(void)trail_reject(d, "%s is not %s", quote(v, buf, sizeof(buf)), expected);
}

/* --- typed values --------------------------------------------------------- */

static const char *text_value(struct decode *d, const json_t *v)
{
	const char *text;

	if (v == NULL)
		return NULL;
	text = tree_text(v);
	if (text == NULL)
		reject_type(d, v, "text (write it in quotes)");
	else if (strlen(text) != tree_text_len(v))
		(void)trail_reject(d, "contains a NUL character");
	else
		return text;
	return NULL;
}

const char *trail_text(struct decode *d, const json_t *obj, const char *key)
{
	return text_value(d, trail_field(d, obj, key));
}

const char *trail_required(struct decode *d, const json_t *obj, const char *key)
{
	const char *text = trail_text(d, obj, key);

	if (text == NULL || text[0] == '\0')
		(void)trail_reject(d, "missing");
	return text;
}

const char *trail_element_text(struct decode *d, const json_t *list, size_t i)
{
	return text_value(d, trail_element(d, list, i));
}

int64_t trail_int(struct decode *d, const json_t *obj, const char *key, int64_t min, int64_t max,
		  int64_t preset)
{
	const json_t *v = trail_field(d, obj, key);

	if (v == NULL)
		return preset;
	if (tree_type(v) == JSON_INTEGER && tree_number(v) >= min && tree_number(v) <= max)
		return tree_number(v);
	reject_type(d, v, str_local(80, "a number from %" PRId64 " to %" PRId64, min, max));
	return preset;
}

bool trail_bool(struct decode *d, const json_t *obj, const char *key, bool preset)
{
	const json_t *v = trail_field(d, obj, key);

	if (v != NULL && !json_is_boolean(v))
		reject_type(d, v, "true or false");
	return v != NULL ? json_is_true(v) : preset;
}

const json_t *trail_enter(struct decode *d, const json_t *obj, const char *key)
{
	const json_t *v = trail_field(d, obj, key);

	if (v != NULL && !tree_is(v, JSON_OBJECT)) {
		reject_type(d, v, "an object");
		return NULL;
	}
	trail_into(d);
	return v;
}

const json_t *trail_list(struct decode *d, const json_t *obj, const char *key, size_t max)
{
	const json_t *v = trail_field(d, obj, key);

	if (v != NULL && !tree_is(v, JSON_ARRAY)) {
		reject_type(d, v, "a list");
		return NULL;
	}
	if (tree_count(v) <= max)
		return v;
	(void)trail_reject(d, "%zu entries, at most %zu", tree_count(v), max);
	d->r = -E2BIG;
	return NULL;
}

bool trail_more(struct decode *d, const json_t *list, size_t i)
{
	if (i == 0)
		trail_into(d);
	if (d->r == 0 && i < tree_count(list))
		return true;
	trail_out(d);
	return false;
}

const json_t *trail_object_next(struct decode *d, const json_t *list, const json_t *prev)
{
	size_t i = 0;

	if (prev != NULL) {
		trail_out(d);
		i = d->steps[d->depth].index + 1;
	}
	if (!trail_more(d, list, i))
		return NULL;
	prev = trail_element(d, list, i);
	if (prev == NULL)
		(void)trail_reject(d, "null is not an object");
	else if (!tree_is(prev, JSON_OBJECT))
		reject_type(d, prev, "an object");
	trail_into(d);
	return d->r == 0 ? prev : NULL;
}
