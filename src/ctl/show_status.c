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
	for (size_t i = strlen(text); i < LABEL_WIDTH; i++)
		str_add(out, " ", 1);
}

bool status_is_well(const json_t *status)
{
	return json_array_size(value_get(status, "problems")) == 0 &&
	       value_has(value_get(status, "sync"), "first_sync_us");
}

static void head(struct str *out, const json_t *status, const struct style *style)
{
	const char *state = value_text(status, "state");

	str_printf(out, "vipd %s  ", value_text(status, "version"));
	mark_puts(out, style, strcmp(state, "running") == 0 ? MARK_GOOD : MARK_ATTENTION, state);
	str_printf(out, "  pid %" JSON_INTEGER_FORMAT "  up ", value_int(status, "pid"));
	say_ms(out, value_int(status, "uptime_ms"));
	str_puts(out, "\n");
	if (strcmp(state, "running") != 0)
		str_printf(out, "%s\n", value_text(status, "state_text"));
	str_puts(out, "\n");
}

static void node(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *n = value_get(status, "node");
	const json_t *detector = value_get(n, "pod_detector");

	label(out, style, "node");
	str_puts(out, value_has(n, "name") ? value_text(n, "name") : "name unknown");
	if (value_has(n, "zone"))
		str_printf(out, ", zone %s", value_text(n, "zone"));
	str_puts(out, json_array_size(value_get(n, "addresses")) ? ", " : "");
	value_join(out, value_get(n, "addresses"), " ");
	str_puts(out, "\n");

	label(out, style, "detect-local");
	if (!value_bool(detector, "ipv4") && !value_bool(detector, "ipv6")) {
		str_puts(out, "none");
		if (value_has(detector, "mode"))
			str_printf(out, ": no prefix or interface of pods is known (%s)",
				   value_text(detector, "mode"));
	} else {
		str_puts(out, value_text(detector, "interface"));
		value_join(out, value_get(detector, "prefixes"), " ");
		str_printf(out, " (%s)", value_text(detector, "mode"));
	}
	str_puts(out, "\n");

	label(out, style, "node ports");
	if (json_array_size(value_get(n, "nodeport_addresses")) > 0)
		str_puts(out, "on ");
	else
		str_puts(out, "on no address");
	value_join(out, value_get(n, "nodeport_addresses"), " ");
	str_puts(out, "\n");
}

static void source(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *s = value_get(status, "source");

	label(out, style, "source");
	str_puts(out, value_has(s, "text") ? value_text(s, "text") : "none");
	if (!value_bool(s, "synced"))
		str_puts(out, ", not synced");
	if (value_has(s, "last_event_ms")) {
		str_puts(out, ", last change ");
		say_ago(out, s, "last_event_ms");
	}
	str_puts(out, "\n");
	label(out, style, "plane");
	str_puts(out, value_has(status, "plane") ? value_text(status, "plane") : "not open yet");
	str_puts(out, "\n");
}

static void counts(struct str *out, const json_t *status, const struct style *style)
{
	static const char *const states[] = {
		"ok",      "no-endpoints", "dropping",    "conflict",
		"pending", "rejected",     "not-proxied", "no-service"
	};
	const json_t *c = value_get(status, "counts");
	const json_t *by_state = value_get(status, "states");
	const char *separator = "";

	label(out, style, "objects");
	say_count(out, value_int(c, "services"), "service, ", "services, ");
	say_count(out, value_int(c, "slices"), "slice, ", "slices, ");
	say_count(out, value_int(c, "endpoints"), "endpoint\n", "endpoints\n");
	label(out, style, "services");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct str text = { 0 };

		if (value_int(by_state, states[i]) == 0)
			continue;
		say_count(&text, value_int(by_state, states[i]), states[i], states[i]);
		str_puts(out, separator);
		mark_puts(out, style, state_mark(states[i]), str_text(&text));
		separator = ", ";
		str_fini(&text);
	}
	str_puts(out, *separator ? "\n" : "none\n");
	label(out, style, "kernel");
	say_count(out, value_int(c, "frontends"), "frontend, ", "frontends, ");
	say_count(out, value_int(c, "pools"), "pool, ", "pools, ");
	say_count(out, value_int(c, "backends"), "backend\n", "backends\n");
	if (value_int(c, "drained") > 0) {
		label(out, style, "drained");
		say_count(out, value_int(c, "drained"), "endpoint", "endpoints");
		str_puts(out, ", by an operator (vipctl drain)\n");
	}
	if (value_int(c, "ejected") > 0) {
		struct str text = { 0 };

		label(out, style, "ejected");
		say_count(&text, value_int(c, "ejected"), "endpoint", "endpoints");
		mark_puts(out, style, MARK_ATTENTION, str_text(&text));
		str_puts(out, ", no new connections from this node\n");
		str_fini(&text);
	}
	if (value_has(status, "draining")) {
		const json_t *l = value_get(status, "draining");

		label(out, style, "draining");
		say_count(out, value_int(l, "backends"), "backend; ", "backends; ");
		str_printf(out,
			   "drained: %" JSON_INTEGER_FORMAT
			   " without connections left, %" JSON_INTEGER_FORMAT
			   " after the drain timeout\n",
			   value_int(l, "drained"), value_int(l, "timed_out"));
	}
}

static void failover(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *f = value_get(status, "failover");
	json_int_t silent = value_int(f, "silent");
	FINI(str_fini) struct str text = { 0 };

	if (!value_has(status, "failover"))
		return;
	label(out, style, "failover");
	say_count(&text, silent, "endpoint silent", "endpoints silent");
	mark_puts(out, style, silent > 0 ? MARK_ATTENTION : MARK_NONE, str_text(&text));
	str_puts(out, ", ");
	say_count(out, value_int(f, "unanswered"), "unanswered TCP handshake",
		  "unanswered TCP handshakes");
	str_puts(out, "\n");
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
	if (value_has(h, "reason"))
		str_printf(out, ": %s", value_text(h, "reason"));
	str_puts(out, "\n");
}

static void pending(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *o = value_get(status, "pending");

	label(out, style, "pending");
	if (value_int(o, "services") == 0) {
		str_puts(out, "none\n");
		return;
	}
	say_count(out, value_int(o, "services"), "service", "services");
	if (value_has(o, "oldest_ms")) {
		str_puts(out, ", oldest for ");
		say_ms(out, value_int(o, "oldest_ms"));
	}
	str_puts(out, "\n");
}

static void hist(struct str *out, const json_t *h)
{
	if (value_int(h, "count") == 0) {
		str_puts(out, "no change yet\n");
		return;
	}
	str_puts(out, "p50 ");
	say_us(out, value_int(h, "p50_us"));
	str_puts(out, ", p99 ");
	say_us(out, value_int(h, "p99_us"));
	str_puts(out, ", max ");
	say_us(out, value_int(h, "max_us"));
	str_puts(out, " (");
	say_count(out, value_int(h, "count"), "change", "changes");
	str_puts(out, ")\n");
}

static void sync_lines(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *s = value_get(status, "sync");
	const json_t *last = value_get(s, "last");

	label(out, style, "last sync");
	if (value_has(s, "last")) {
		say_ago(out, last, "age_ms");
		str_puts(out, ": ");
		say_count(out, value_int(last, "services"), "service, ", "services, ");
		say_count(out, value_int(last, "writes"), "write, ", "writes, ");
		say_us(out, value_int(last, "took_us"));
		str_puts(out, "\n");
	} else {
		str_puts(out, "none yet\n");
	}
	label(out, style, "latency");
	hist(out, value_get(s, "event_to_ack"));
	if (style->is_wide) {
		label(out, style, "first sync");
		str_puts(out, "after ");
		say_us(out, value_int(s, "first_sync_us"));
		str_puts(out, "\n");
		label(out, style, "totals");
		say_count(out, value_int(s, "transactions"), "transaction, ", "transactions, ");
		say_count(out, value_int(s, "writes"), "write, ", "writes, ");
		say_count(out, value_int(s, "audits"), "audit, ", "audits, ");
		say_count(out, value_int(s, "repairs"), "repair, ", "repairs, ");
		say_count(out, value_int(s, "foreign_changes"), "foreign change\n",
			  "foreign changes\n");
	}
	if (value_has(s, "last_error")) {
		const json_t *e = value_get(s, "last_error");

		label(out, style, "last error");
		say_ago(out, e, "age_ms");
		str_printf(out, ": %s\n", value_text(e, "text"));
	}
}

static void options(struct str *out, const json_t *status, const struct style *style)
{
	json_t *o = json_object_get(status, "options");
	const char *key;
	json_t *v;

	json_object_foreach (o, key, v) {
		label(out, style, "option");
		str_printf(out, "%s=%s\n", key, json_is_string(v) ? json_string_value(v) : "");
	}
}

static void more(struct str *out, const json_t *list)
{
	size_t shown = MIN(json_array_size(value_get(list, "items")), (size_t)ITEMS_SHOWN);
	json_int_t count = value_int(list, "count");

	if (count > (json_int_t)shown)
		str_printf(out, "    and %" JSON_INTEGER_FORMAT " more\n",
			   count - (json_int_t)shown);
}

static void rejected_items(struct str *out, const json_t *rejected)
{
	size_t n = 0;

	value_for_each (f, value_get(rejected, "items")) {
		if (n++ == ITEMS_SHOWN)
			break;
		str_printf(out, "    %s/%s: %s (", value_text(f, "namespace"),
			   value_text(f, "name"), value_text(f, "text"));
		say_count(out, value_int(f, "attempts"), "attempt, next in ", "attempts, next in ");
		say_ms(out, value_int(f, "retry_ms"));
		str_puts(out, ")\n");
	}
	more(out, rejected);
}

static void error_items(struct str *out, const json_t *errors)
{
	size_t n = 0;

	value_for_each (e, value_get(errors, "items")) {
		if (n++ == ITEMS_SHOWN)
			break;
		str_printf(out, "    %s: %s\n", value_text(e, "where"), value_text(e, "text"));
	}
	more(out, errors);
}

/* Objects that are served in part, or ignored. Not problems. */
static void notes(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *list = value_get(value_get(status, "source"), "notes");

	if (value_int(list, "count") == 0)
		return;
	str_puts(out, "\n");
	mark_puts(out, style, MARK_ATTENTION, "NOTES");
	str_puts(out, "\n  objects that are served in part, or ignored\n");
	error_items(out, list);
}

static void problems(struct str *out, const json_t *status, const struct style *style)
{
	const json_t *list = value_get(status, "problems");

	if (json_array_size(list) == 0)
		return;
	str_puts(out, "\n");
	mark_puts(out, style, MARK_BAD, "PROBLEMS");
	str_puts(out, "\n");
	value_for_each (problem, list) {
		const char *kind = value_text(problem, "kind");

		str_printf(out, "  %s\n", value_text(problem, "text"));
		if (strcmp(kind, "rejected") == 0)
			rejected_items(out, value_get(status, "rejected"));
		else if (strcmp(kind, "source") == 0)
			error_items(out, value_get(value_get(status, "source"), "errors"));
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
	pending(out, status, style);
	sync_lines(out, status, style);
	if (style->is_wide)
		options(out, status, style);
	problems(out, status, style);
	notes(out, status, style);
}
