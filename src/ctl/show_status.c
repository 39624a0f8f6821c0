/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/show_status - the state of vipd on one screen, problems last. */
#include "ctl/show.h"

#include <string.h>

#include "ctl/value.h"

#define LABEL_WIDTH 14
#define ITEMS_SHOWN 10 /* of a list of problems; -o json has all */

static void label(struct str *out, const struct style *style, const char *text)
{
	mark_puts(out, style, MARK_TITLE, text);
	str_printf(out, "%*s", LABEL_WIDTH - (int)strlen(text), "");
}

/* The label, and `text` with members of `object` (value.h). */
static void line(struct str *out, const struct style *style, const char *name, const json_t *object,
		 const char *text)
{
	label(out, style, name);
	say(out, object, text);
	str_puts(out, "\n");
}

bool status_is_well(const json_t *status)
{
	return json_array_size(value_get(status, "problems")) == 0 &&
	       value_has(value_get(status, "sync"), "first_sync_us");
}

static void head(struct str *out, const json_t *status, const struct style *style)
{
	bool is_running = strcmp(value_text(status, "state"), "running") == 0;

	say(out, status, "vipd {version}  ");
	mark_say(out, style, is_running ? MARK_GOOD : MARK_ATTENTION, status, "{state}");
	say(out, status, "  pid {pid:d}  up {uptime_ms:ms}\n");
	say(out, status, is_running ? "\n" : "{state_text}\n\n");
}

static void node(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *n = value_get(status, "node");
	const json_t *detector = value_get(n, "detect_local");

	label(out, style, "node");
	say(out, n, value_has(n, "name") ? "{name}" : "name unknown");
	say(out, n, value_has(n, "zone") ? ", zone {zone}" : "");
	say(out, n, json_array_size(value_get(n, "addresses")) ? ", {addresses}\n" : "\n");
	line(out, style, "detect-local", detector,
	     value_bool(detector, "ipv4") || value_bool(detector, "ipv6")
		     ? "{interface}{prefixes} ({mode})"
	     : value_has(detector, "mode")
		     ? "none: no prefix or interface of pods is known ({mode})"
	     : detector != NULL ? "none"
				: "unknown"); /* an older vipd */
	line(out, style, "node ports", n,
	     json_array_size(value_get(n, "nodeport_addresses")) > 0 ? "on {nodeport_addresses}"
								     : "on no address");
}

static void source(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *s = value_get(status, "source");

	label(out, style, "source");
	say(out, s, value_has(s, "text") ? "{text}" : "none");
	say(out, s, value_bool(s, "synced") ? "" : ", not synced");
	say(out, s, value_has(s, "last_event_ms") ? ", last change {last_event_ms:ago}\n" : "\n");
	line(out, style, "plane", status, value_has(status, "plane") ? "{plane}" : "not open yet");
}

static void states(struct str *out, const json_t *status, const struct style *style)
{
	static const char *const names[] = {
		"ok",      "no-endpoints", "dropping",    "conflict",
		"pending", "rejected",     "not-proxied", "no-service"
	};
	const json_t *by_state = value_get(status, "states");
	const char *separator = "";

	label(out, style, "services");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		FINI(str_fini) struct str text = { 0 };

		if (value_int(by_state, names[i]) == 0)
			continue;
		str_printf(&text, "%" JSON_INTEGER_FORMAT " %s", value_int(by_state, names[i]),
			   names[i]);
		str_puts(out, separator);
		mark_puts(out, style, state_mark(names[i]), text.text);
		separator = ", ";
	}
	str_puts(out, *separator ? "\n" : "none\n");
}

static void counts(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *c = value_get(status, "counts");

	line(out, style, "objects", c, "{services:service}, {slices:slice}, {endpoints:endpoint}");
	states(out, status, style);
	line(out, style, "kernel", c, "{frontends:frontend}, {pools:pool}, {backends:backend}");
	if (value_int(c, "drained") > 0)
		line(out, style, "drained", c, "{drained:endpoint}, by an operator (vipctl drain)");
	if (value_int(c, "ejected") > 0) {
		label(out, style, "ejected");
		mark_say(out, style, MARK_ATTENTION, c, "{ejected:endpoint}");
		str_puts(out, ", no new connections from this node\n");
	}
	if (value_has(status, "draining"))
		line(out, style, "draining", value_get(status, "draining"),
		     "{backends:backend}; drained: {drained:d} without connections left, "
		     "{timed_out:d} after the drain timeout");
}

static void failover(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *f = value_get(status, "failover");

	if (!value_has(status, "failover"))
		return;
	label(out, style, "failover");
	mark_say(out, style, value_int(f, "silent") > 0 ? MARK_ATTENTION : MARK_NONE, f,
		 "{silent:endpoint} silent");
	say(out, f, ", {unanswered:unanswered TCP handshake}\n");
}

static void health(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *h = value_get(status, "health");
	bool is_ready = value_bool(h, "ready");

	if (!value_has(status, "health"))
		return;
	label(out, style, "health");
	mark_puts(out, style, is_ready ? MARK_GOOD : MARK_BAD,
		  !value_bool(h, "live") ? "not live"
		  : is_ready             ? "ready"
					 : "not ready");
	say(out, h, value_has(h, "reason") ? ": {reason}\n" : "\n");
}

static void sync_lines(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *pending = value_get(status, "pending");
	const json_t *s = value_get(status, "sync");
	const json_t *latency = value_get(s, "event_to_ack");

	line(out, style, "pending", pending,
	     value_int(pending, "services") == 0 ? "none"
	     : value_has(pending, "oldest_ms")   ? "{services:service}, oldest for {oldest_ms:ms}"
						 : "{services:service}");
	line(out, style, "last sync", value_get(s, "last"),
	     value_has(s, "last")
		     ? "{age_ms:ago}: {services:service}, {writes:operation}, {took_us:us}"
		     : "none yet");
	line(out, style, "latency", latency,
	     value_int(latency, "count") == 0
		     ? "no change yet"
		     : "p50 {p50_us:us}, p99 {p99_us:us}, max {max_us:us} ({count:change})");
	if (style->is_wide) {
		line(out, style, "first sync", s, "after {first_sync_us:us}");
		line(out, style, "totals", s,
		     "{transactions:transaction}, {writes:operation}, {audits:audit}, {repairs:repair}, "
		     "{foreign_changes:foreign change}");
	}
	if (value_has(s, "last_error"))
		line(out, style, "last error", value_get(s, "last_error"), "{age_ms:ago}: {text}");
}

static void options(struct str *out, const json_t *status, const struct style *style)
{
	json_t *o = json_object_get(status, "options");
	const char *key;
	json_t *v;

	json_object_foreach (o, key, v) {
		label(out, style, "option");
		str_printf(out, "%s=%s\n", key, value_string(v));
	}
}

/* The first items of a list, `text` for each. */
static void items(struct str *out, const json_t *list, const char *text)
{
	json_int_t n = 0;

	value_for_each (item, value_get(list, "items")) {
		if (n == ITEMS_SHOWN)
			break;
		say(out, item, text);
		n++;
	}
	if (value_int(list, "count") > n)
		str_printf(out, "    and %" JSON_INTEGER_FORMAT " more\n",
			   value_int(list, "count") - n);
}

static void title(struct str *out, const struct style *style, enum mark mark, const char *text)
{
	str_puts(out, "\n");
	mark_puts(out, style, mark, text);
	str_puts(out, "\n");
}

#define ERROR_ITEM "    {where}: {text}\n"

/* Objects that are served in part, or ignored. Not problems. */
static void notes(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *list = value_get(value_get(status, "source"), "notes");

	if (value_int(list, "count") == 0)
		return;
	title(out, style, MARK_ATTENTION, "NOTES");
	str_puts(out, "  objects that are served in part, or ignored\n");
	items(out, list, ERROR_ITEM);
}

static void problems(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *list = value_get(status, "problems");

	if (json_array_size(list) == 0)
		return;
	title(out, style, MARK_BAD, "PROBLEMS");
	value_for_each (problem, list) {
		const char *kind = value_text(problem, "kind");

		say(out, problem, "  {text}\n");
		if (strcmp(kind, "rejected") == 0)
			items(out, value_get(status, "rejected"),
			      "    {namespace}/{name}: {text} ({attempts:attempt}, next in "
			      "{retry_ms:ms})\n");
		else if (strcmp(kind, "source") == 0)
			items(out, value_get(value_get(status, "source"), "errors"), ERROR_ITEM);
		else if (strcmp(kind, "conflicts") == 0)
			str_puts(out, "    see: vipctl svc --state conflict\n");
	}
}

void show_status(struct str *out, const json_t *status, const struct style *style)
{
	head(out, status, style);
	node(out, status, style);
	source(out, status, style);
	counts(out, status, style);
	failover(out, status, style);
	health(out, status, style);
	sync_lines(out, status, style);
	if (style->is_wide)
		options(out, status, style);
	problems(out, status, style);
	notes(out, status, style);
}
