/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/value - members, numbers and durations. */
#include "ctl/value.h"

#include <assert.h>
#include <string.h>

const char *value_string(const json_t *v)
{
	return json_is_string(v) ? json_string_value(v) : "";
}

const char *value_text(const json_t *object, const char *key)
{
	return value_string(json_object_get(object, key));
}

json_int_t value_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

bool value_bool(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

bool value_has(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return v != NULL && !json_is_null(v);
}

bool value_any(const json_t *list, const char *key)
{
	value_for_each (item, list)
		if (value_has(item, key) && !json_is_false(json_object_get(item, key)))
			return true;
	return false;
}

const json_t *value_get(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

const json_t *value_endpoint(const json_t *object, const json_t *ep, const char *proto)
{
	value_for_each (e, value_get(object, "endpoints"))
		if (value_int(e, "port") == value_int(ep, "port") &&
		    strcmp(value_text(e, "address"), value_text(ep, "address")) == 0 &&
		    strcmp(value_text(e, "protocol"), proto) == 0)
			return e;
	return NULL;
}

void value_clean(json_t *json)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_string(json)) {
		AUTO(free) char *clean = str_clean(xstrdup(json_string_value(json)));

		(void)json_string_set(json, clean);
	} else if (json_is_array(json)) {
		json_array_foreach (json, i, v)
			value_clean(v);
	} else if (json_is_object(json)) {
		json_object_foreach (json, key, v)
			value_clean(v);
	}
}

void say_ms(struct str *out, json_int_t ms)
{
	json_int_t s = ms / 1000;

	if (ms < 1000)
		str_printf(out, "%" JSON_INTEGER_FORMAT " ms", ms);
	else if (s < 60)
		str_printf(out, "%" JSON_INTEGER_FORMAT " s", s);
	else if (s < 3600)
		str_printf(out, "%" JSON_INTEGER_FORMAT " m %" JSON_INTEGER_FORMAT " s", s / 60,
			   s % 60);
	else if (s < 86400)
		str_printf(out, "%" JSON_INTEGER_FORMAT " h %" JSON_INTEGER_FORMAT " m", s / 3600,
			   s % 3600 / 60);
	else
		str_printf(out, "%" JSON_INTEGER_FORMAT " d %" JSON_INTEGER_FORMAT " h", s / 86400,
			   s % 86400 / 3600);
}

void say_us(struct str *out, json_int_t us)
{
	if (us < 1000)
		str_printf(out, "%" JSON_INTEGER_FORMAT " us", us);
	else if (us < 1000000)
		str_printf(out, "%.1f ms", (double)us / 1e3);
	else
		str_printf(out, "%.1f s", (double)us / 1e6);
}

void say_endpoint(struct str *out, const json_t *object)
{
	say(out, object,
	    value_int(object, "port") == 0               ? "{address}"
	    : strchr(value_text(object, "address"), ':') ? "[{address}]:{port:d}"
							 : "{address}:{port:d}");
}

static void say_array(struct str *out, const json_t *array)
{
	const char *separator = "";

	value_for_each (v, array) {
		str_printf(out, "%s%s", separator, value_string(v));
		separator = " ";
	}
}

static void say_member(struct str *out, const json_t *v, const char *format)
{
	json_int_t n = json_integer_value(v);

	if (*format == '\0' && json_is_array(v)) {
		say_array(out, v);
	} else if (*format == '\0') {
		str_puts(out, value_string(v));
	} else if (strcmp(format, "ms") == 0) {
		say_ms(out, n);
	} else if (strcmp(format, "us") == 0) {
		say_us(out, n);
	} else if (strcmp(format, "ago") == 0) {
		say_ms(out, n);
		str_puts(out, " ago");
	} else {
		str_printf(out, "%" JSON_INTEGER_FORMAT, n);
		if (strcmp(format, "d") != 0)
			str_printf(out, " %s%s", format, n == 1 ? "" : "s");
	}
}

void say(struct str *out, const json_t *object, const char *text)
{
	char member[64];

	for (;;) {
		size_t len = strcspn(text, "{");
		char *format;

		str_add(out, text, len);
		if (text[len] == '\0')
			return;
		text += len + 1;
		len = strcspn(text, "}");
		assert(text[len] == '}' && len < sizeof(member));
		memcpy(member, text, len);
		member[len] = '\0';
		text += len + 1;
		format = member + strcspn(member, ":");
		if (*format == ':')
			*format++ = '\0';
		say_member(out, json_object_get(object, member), format);
	}
}

void mark_say(struct str *out, const struct style *style, enum mark mark, const json_t *object,
	      const char *text)
{
	FINI(str_fini) struct str said = { 0 };

	say(&said, object, text);
	mark_puts(out, style, mark, str_text(&said));
}

enum mark state_mark(const char *state)
{
	static const char *const states[] = {
		[MARK_GOOD] = "ok",
		[MARK_ATTENTION] = "dropping conflict pending warning",
		[MARK_BAD] = "no-endpoints rejected error",
		[MARK_FAINT] = "not-proxied no-service",
	};

	for (size_t i = MARK_GOOD; i < ARRAY_SIZE(states); i++)
		if (str_words_find(states[i], state, strlen(state)) >= 0)
			return (enum mark)i;
	return MARK_NONE;
}

static const char *condition_text(const json_t *endpoint)
{
	if (value_bool(endpoint, "terminating"))
		return value_bool(endpoint, "serving") ? "terminating" : "terminated";
	return value_bool(endpoint, "ready") ? "yes" : "no";
}

const char *dash(const char *text)
{
	return *text != '\0' ? text : "-";
}

/* --- cells --- */

void cell_say(struct table *t, const char *title, unsigned int look, const json_t *object,
	      const char *text)
{
	FINI(str_fini) struct str said = { 0 };

	say(&said, object, text);
	table_cell(t, title, look, "%s", dash(str_text(&said)));
}

void cell_share(struct table *t, const char *title, unsigned int look, const json_t *object,
		const char *key)
{
	if (value_has(object, key))
		table_cell(t, title, look, "%.1f%%",
			   100 * json_number_value(value_get(object, key)));
	else
		table_cell(t, title, look, "?");
}

void cell_endpoint(struct table *t, const char *title, unsigned int look, const json_t *object)
{
	FINI(str_fini) struct str text = { 0 };

	say_endpoint(&text, object);
	if (value_has(object, "protocol"))
		say(&text, object, "/{protocol}");
	table_cell(t, title, look, "%s", text.text);
}

void cells_of_endpoint(struct table *t, const json_t *endpoint)
{
	cell_endpoint(t, "ENDPOINT", MARK_NONE, endpoint);
	cell_say(t, "POD", TABLE_NAMES, endpoint, "{pod}");
	table_cell(t, "NODE", TABLE_ELASTIC, "%s%s", dash(value_text(endpoint, "node")),
		   value_bool(endpoint, "on_this_node") ? "*" : "");
	table_cell(t, "READY", MARK_NONE, "%s", condition_text(endpoint));
}

void cell_silent(struct table *t, const char *title, const char *before, const json_t *endpoint)
{
	FINI(str_fini) struct str text = { 0 };

	if (value_has(endpoint, "silent")) {
		str_puts(&text, before);
		say(&text, value_get(endpoint, "silent"),
		    "{unanswered:handshake} unanswered, the last {last_ms:ago}");
	}
	table_cell(t, title, text.len > 0 ? MARK_ATTENTION : MARK_NONE, "%s",
		   dash(str_text(&text)));
}
