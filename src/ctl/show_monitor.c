/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/show_monitor - one line per event, followed by its kernel operations. */
#include "ctl/show.h"

#include <string.h>
#include <time.h>

#include "ctl/value.h"

static void say_time(struct str *out, json_int_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[16];

	if (localtime_r(&s, &tm) == NULL || strftime(text, sizeof(text), "%H:%M:%S", &tm) == 0)
		return;
	str_printf(out, "%s.%03d  ", text, (int)(ms % 1000));
}

static void say_who(struct str *out, const json_t *event)
{
	FINI(str_fini) struct str name = { 0 };

	if (*value_text(event, "namespace") != '\0')
		str_printf(&name, "%s/", value_text(event, "namespace"));
	str_puts(&name, value_text(event, "name"));
	str_printf(out, "%-28s  ", str_text(&name));
}

static void say_object(struct str *out, const json_t *event)
{
	json_int_t before = value_int(event, "endpoints_before");
	json_int_t after = value_int(event, "endpoints_after");

	str_puts(out, value_text(event, "change"));
	if (value_has(event, "endpoints_after"))
		str_printf(out,
			   ", of %s: %" JSON_INTEGER_FORMAT " -> %" JSON_INTEGER_FORMAT
			   " endpoints",
			   value_text(event, "service"), before, after);
	if (!value_bool(event, "relevant"))
		str_puts(out, "; no change");
}

static void say_sync(struct str *out, const json_t *event)
{
	say_count(out, value_int(event, "operations"), "operation", "operations");
	if (value_has(event, "took_us")) {
		str_puts(out, ", acknowledged ");
		say_us(out, value_int(event, "took_us"));
		str_puts(out, " after the event");
	}
}

static void operations(struct str *out, const json_t *event)
{
	const json_t *texts = value_get(event, "texts");
	json_int_t n = value_int(event, "operations");

	for (size_t i = 0; i < json_array_size(texts); i++) {
		const char *text = json_string_value(json_array_get(texts, i));

		str_printf(out, "%16s%s\n", "", text ? text : "");
	}
	if (n > (json_int_t)json_array_size(texts))
		str_printf(out, "%16sand %" JSON_INTEGER_FORMAT " more\n", "",
			   n - (json_int_t)json_array_size(texts));
}

static void say_silent(struct str *out, const json_t *event)
{
	bool is_over = value_bool(event, "over");

	str_puts(out, "endpoint ");
	say_endpoint(out, value_text(event, "address"), value_int(event, "port"));
	str_puts(out, is_over ? ": no longer silent; unanswered TCP handshakes: "
			      : ": silent; unanswered TCP handshakes: ");
	str_printf(out, "%" JSON_INTEGER_FORMAT, value_int(event, "unanswered"));
}

static void say_ejected(struct str *out, const json_t *event)
{
	json_int_t port = value_int(event, "port");

	str_puts(out, "endpoint ");
	if (port != 0)
		say_endpoint(out, value_text(event, "address"), port);
	else
		str_puts(out, value_text(event, "address"));
	str_printf(out, ": %s", value_text(event, "text"));
}

void show_event(struct str *out, const json_t *event, const struct style *style)
{
	const char *kind = value_text(event, "event");

	if (strcmp(kind, "hello") == 0)
		return;
	if (strcmp(kind, "lost") == 0) {
		mark_puts(out, style, MARK_ATTENTION, "lost");
		str_printf(out,
			   ": %" JSON_INTEGER_FORMAT " events, because this reader is too slow\n",
			   value_int(event, "count"));
		return;
	}
	say_time(out, value_int(event, "time_ms"));
	if (strcmp(kind, "rejected") == 0)
		mark_puts(out, style, MARK_BAD, "rejected       ");
	else
		str_printf(out, "%-13s  ", kind);
	if (strcmp(kind, "kernel") != 0)
		say_who(out, event);
	if (strcmp(kind, "sync") == 0)
		say_sync(out, event);
	else if (strcmp(kind, "rejected") == 0)
		str_puts(out, value_text(event, "text"));
	else if (strcmp(kind, "silent") == 0)
		say_silent(out, event);
	else if (strcmp(kind, "ejected") == 0)
		say_ejected(out, event);
	else if (strcmp(kind, "kernel") == 0)
		str_printf(out, "%s (%" JSON_INTEGER_FORMAT ")", value_text(event, "text"),
			   value_int(event, "count"));
	else
		say_object(out, event);
	while (out->len > 0 && out->text[out->len - 1] == ' ')
		out->text[--out->len] = '\0';
	str_puts(out, "\n");
	operations(out, event);
}
