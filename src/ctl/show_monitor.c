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

	if (localtime_r(&s, &tm) != NULL)
		str_printf(out, "%02d:%02d:%02d.%03d  ", tm.tm_hour, tm.tm_min, tm.tm_sec,
			   (int)(ms % 1000));
}

static void say_who(struct str *out, const json_t *event)
{
	FINI(str_fini) struct str name = { 0 };

	say(&name, event,
	    *value_text(event, "namespace") != '\0' ? "{namespace}/{name}" : "{name}");
	str_printf(out, "%-28s  ", str_text(&name));
}

static void say_object(struct str *out, const json_t *event)
{
	say(out, event, "{change}");
	if (value_has(event, "endpoints_after"))
		say(out, event,
		    ", of {service}: {endpoints_before:d} -> {endpoints_after:d} endpoints");
	if (!value_bool(event, "relevant"))
		str_puts(out, "; no change");
}

static void operations(struct str *out, const json_t *event)
{
	const json_t *texts = value_get(event, "texts");
	json_int_t n = value_int(event, "operations");

	value_for_each (text, texts)
		str_printf(out, "%16s%s\n", "", value_string(text));
	n -= (json_int_t)json_array_size(texts);
	if (n > 0)
		str_printf(out, "%16sand %" JSON_INTEGER_FORMAT " more\n", "", n);
}

void show_event(struct str *out, const json_t *event, const struct style *style)
{
	const char *kind = value_text(event, "event");

	if (strcmp(kind, "hello") == 0)
		return;
	if (strcmp(kind, "lost") == 0) {
		mark_puts(out, style, MARK_ATTENTION, "lost");
		say(out, event, ": {count:d} events, because this reader is too slow\n");
		return;
	}
	say_time(out, value_int(event, "time_ms"));
	if (strcmp(kind, "rejected") == 0)
		mark_puts(out, style, MARK_BAD, "rejected       ");
	else
		str_printf(out, "%-13s  ", kind);
	if (strcmp(kind, "kernel") != 0)
		say_who(out, event);
	if (value_has(event, "address")) {
		str_puts(out, "endpoint ");
		say_endpoint(out, event);
		str_puts(out, ": ");
	}
	if (strcmp(kind, "sync") == 0)
		say(out, event,
		    value_has(event, "took_us")
			    ? "{operations:operation}, acknowledged {took_us:us} after the event"
			    : "{operations:operation}");
	else if (strcmp(kind, "silent") == 0)
		say(out, event,
		    value_bool(event, "over")
			    ? "no longer silent; unanswered TCP handshakes: {unanswered:d}"
			    : "silent; unanswered TCP handshakes: {unanswered:d}");
	else if (strcmp(kind, "kernel") == 0)
		say(out, event, "{text} ({count:d})");
	else if (strcmp(kind, "rejected") == 0 || strcmp(kind, "ejected") == 0)
		say(out, event, "{text}");
	else
		say_object(out, event);
	line_end(out);
	operations(out, event);
}
