/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/top - rates from differences, and a screen of text. */
#include "ctl/top.h"

#include <string.h>

#include "ctl/value.h"

#define HEAD_LINES 4 /* two of text, an empty one, the titles */
#define FOOT_LINES 1

/* --- samples --- */

static void rows_clear(struct top *t)
{
	vec_for_each (row, &t->rows) {
		free(row->name);
		free(row->endpoint);
	}
	vec_clear(&t->rows);
}

/* Items by NAMESPACE/NAME: borrowed values. */
static json_t *items_index(const json_t *counts)
{
	json_t *index = json_object();

	value_for_each (item, value_get(counts, "items")) {
		FINI(str_fini) struct str key = { 0 };

		say(&key, item, "{namespace}/{name}");
		(void)json_object_set(index, key.text, (json_t *)(uintptr_t)item);
	}
	return index;
}

/*
 * Growth of a counter a second; negative: unknown. A smaller value may be a restart at 0, or the
 * sum of fewer frontends; without a previous one the counter may be old.
 */
static double rate_of(const json_t *item, const json_t *old, const char *key, double seconds)
{
	json_int_t grown = value_int(item, key) - value_int(old, key);

	if (seconds <= 0 || grown < 0 || !value_has(item, key) || !value_has(old, key))
		return -1;
	return (double)grown / seconds;
}

static json_int_t total_of(const json_t *item, const char *key)
{
	return value_has(item, key) ? value_int(item, key) : -1;
}

static double seconds_between(const struct top *t)
{
	if (t->before == NULL)
		return 0;
	return (double)(value_int(t->counts, "clock_ms") - value_int(t->before, "clock_ms")) / 1e3;
}

/* The counters `now` of a service or of its endpoint, which it takes, and those of `old`. */
static void row_add(struct top *t, const char *name, char *endpoint, const json_t *now,
		    const json_t *old)
{
	double seconds = seconds_between(t);

	*vec_push(&t->rows) = (struct top_row){
		.name = xstrdup(name),
		.endpoint = endpoint,
		.total = total_of(now, "connections"),
		.rejected = total_of(now, "rejected"),
		.rate = rate_of(now, old, "connections", seconds),
		.rejected_rate = rate_of(now, old, "rejected", seconds),
	};
}

static void rows_endpoints(struct top *t, const char *name, const json_t *item, const json_t *old)
{
	value_for_each (ep, value_get(item, "endpoints")) {
		struct str where = { 0 };

		say_endpoint(&where, ep);
		say(&where, ep, "/{protocol}");
		row_add(t, name, where.text, ep,
			value_endpoint(old, ep, value_text(ep, "protocol")));
	}
}

static void rows_make(struct top *t)
{
	json_auto_t *index = items_index(t->before);

	rows_clear(t);
	value_for_each (item, value_get(t->counts, "items")) {
		FINI(str_fini) struct str name = { 0 };
		const json_t *old;

		say(&name, item, "{namespace}/{name}");
		old = json_object_get(index, name.text);
		if (t->shows_endpoints)
			rows_endpoints(t, name.text, item, old);
		else
			row_add(t, name.text, NULL, item, old);
	}
}

void top_feed(struct top *t, json_t *counts, json_t *status)
{
	json_decref(t->before);
	json_decref(t->status_before);
	t->before = t->counts;
	t->status_before = t->status;
	t->counts = counts;
	t->status = status;
	value_clean(t->counts);
	value_clean(t->status);
}

void top_fini(struct top *t)
{
	rows_clear(t);
	vec_fini(&t->rows);
	json_decref(t->before);
	json_decref(t->counts);
	json_decref(t->status_before);
	json_decref(t->status);
}

/* --- order --- */

static int cmp_number(double a, double b)
{
	return (a < b) - (a > b); /* the larger first */
}

static int row_cmp(const void *a, const void *b, void *arg)
{
	const struct top_row *x = a;
	const struct top_row *y = b;
	const struct top *t = arg;
	int c = 0;

	if (t->sort == TOP_BY_RATE)
		c = cmp_number(x->rate, y->rate);
	if (t->sort == TOP_BY_REJECTED)
		c = cmp_number(x->rejected_rate, y->rejected_rate);
	if (c == 0 && t->sort == TOP_BY_REJECTED)
		c = cmp_number((double)x->rejected, (double)y->rejected);
	if (c == 0 && t->sort != TOP_BY_NAME)
		c = cmp_number((double)x->total, (double)y->total);
	if (c == 0)
		c = strcmp(x->name, y->name);
	return c != 0 || x->endpoint == NULL ? c : strcmp(x->endpoint, y->endpoint);
}

/* --- the screen --- */

/* One line: cut at `width` characters. */
static void line_put(struct str *out, struct str *line, size_t width)
{
	str_add(out, str_text(line), text_prefix(str_text(line), width));
	str_puts(out, "\n");
	str_clear(line);
}

/* Growth of a member of "sync" a second; 0 if it is unknown. */
static double sync_rate(const struct top *t, const char *member)
{
	double rate = rate_of(value_get(t->status, "sync"), value_get(t->status_before, "sync"),
			      member, seconds_between(t));

	return MAX(rate, 0.0);
}

static void head_put(struct str *out, const struct top *t, size_t width)
{
	const json_t *sync = value_get(t->status, "sync");
	const json_t *ack = value_get(sync, "event_to_ack");
	FINI(str_fini) struct str line = { 0 };

	say(&line, value_get(t->status, "node"), "vipd on {name}");
	say(&line, t->status, "  {state}  up {uptime_ms:ms}");
	say(&line, value_get(t->status, "counts"), "  {services:service}");
	say(&line, value_get(t->status, "pending"), "  pending {services:d}");
	say(&line, value_get(t->status, "rejected"), "  rejected {count:d}");
	line_put(out, &line, width);
	say(&line, ack,
	    value_int(ack, "count") == 0 ? "event to kernel: no change yet"
					 : "event to kernel: p50 {p50_us:us}, p99 {p99_us:us}");
	str_printf(&line, "; %.1f transactions/s, %.1f operations/s", sync_rate(t, "transactions"),
		   sync_rate(t, "writes"));
	line_put(out, &line, width);
	line_put(out, &line, width);
}

/* Negative: unknown. */
static void number_put(struct str *line, int width, int digits, double n)
{
	if (n < 0)
		str_printf(line, " %*s", width, "-");
	else
		str_printf(line, " %*.*f", width, digits, n);
}

static void row_put(struct str *out, struct str *line, const struct top *t,
		    const struct top_row *row, size_t width)
{
	number_put(line, 10, 1, row->rate);
	if (!t->shows_endpoints)
		number_put(line, 10, 1, row->rejected_rate);
	number_put(line, 12, 0, (double)row->total);
	if (t->shows_endpoints) {
		str_printf(line, "  %-28s  %s", row->endpoint, row->name);
	} else {
		number_put(line, 10, 0, (double)row->rejected);
		str_printf(line, "  %s", row->name);
	}
	line_put(out, line, width);
}

static void titles_put(struct str *out, struct str *line, const struct top *t, size_t width)
{
	if (t->shows_endpoints)
		str_printf(line, " %10s %12s  %-28s  %s", "CONN/S", "CONNECTIONS", "ENDPOINT",
			   "SERVICE");
	else
		str_printf(line, " %10s %10s %12s %10s  %s", "CONN/S", "REJECTED/S", "CONNECTIONS",
			   "REJECTED", "SERVICE");
	line_put(out, line, width);
}

static void foot_put(struct str *out, struct str *line, const struct top *t, size_t width)
{
	static const char *const sorts[] = { "rate", "total", "rejected", "name" };

	str_printf(line, "by %s: r t x n to change; e: %s; arrows; q: quit", sorts[t->sort],
		   t->shows_endpoints ? "services" : "endpoints");
	line_put(out, line, width);
}

static size_t room(size_t height)
{
	return height > HEAD_LINES + FOOT_LINES ? height - HEAD_LINES - FOOT_LINES : 0;
}

/* Nothing to list, and why. */
static const char *empty_text(const struct top *t)
{
	if (!value_bool(t->counts, "counted"))
		return "no counters: start vipd with --metrics-per-service=service or =endpoint";
	if (value_has(t->status, "state") && strcmp(value_text(t->status, "state"), "running") != 0)
		return "vipd is not running yet: see vipctl status";
	return t->shows_endpoints ? "no connection yet; endpoints: --metrics-per-service=endpoint"
				  : "no connection yet";
}

void top_lines(struct str *out, struct top *t, size_t width, size_t height)
{
	size_t n_lines = room(height);
	FINI(str_fini) struct str line = { 0 };

	rows_make(t);
	if (t->rows.n > 1)
		qsort_r(t->rows.v, t->rows.n, sizeof(*t->rows.v), row_cmp, t);
	t->first = MIN(t->first, t->rows.n > n_lines ? t->rows.n - n_lines : 0);
	if (t->is_batch)
		n_lines = MIN(n_lines, MAX(t->rows.n, (size_t)1));
	head_put(out, t, width);
	titles_put(out, &line, t, width);
	for (size_t i = 0; i < n_lines; i++) {
		if (i + t->first < t->rows.n) {
			row_put(out, &line, t, &t->rows.v[i + t->first], width);
		} else {
			if (i == 0)
				str_printf(&line, "  %s", empty_text(t));
			line_put(out, &line, width);
		}
	}
	if (!t->is_batch)
		foot_put(out, &line, t, width);
}

bool top_key(struct top *t, int key, size_t height)
{
	static const char sorts[] = "rtxn"; /* in the order of enum top_sort */
	const char *sort = memchr(sorts, key, sizeof(sorts) - 1);
	size_t step = key == 'd' || key == 'u' ? room(height) : 1;

	if (sort != NULL)
		t->sort = (enum top_sort)(sort - sorts);
	if (key == 'e') {
		t->shows_endpoints = !t->shows_endpoints;
		t->first = 0;
	}
	if (key == 'j' || key == 'd')
		t->first += step;
	if (key == 'k' || key == 'u')
		t->first -= MIN(t->first, step);
	return key == 'q';
}
