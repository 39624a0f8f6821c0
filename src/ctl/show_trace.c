/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/show_trace - `vipctl trace`: the path of a connection, step by step.
 *
 * Shows the first endpoints of a large pool; an argument selects one endpoint.
 */
#include "ctl/show.h"

#include <string.h>

#include "ctl/value.h"

#define LABEL_WIDTH 15
#define ROWS_SHOWN 12

static void head(struct str *out, const json_t *trace, const struct style *style)
{
	const json_t *source = value_get(trace, "source");
	const json_t *to = value_get(trace, "destination");
	bool has_orphan = value_bool(trace, "orphaned");
	const char *verdict = has_orphan ? "orphaned frontend" : value_text(trace, "verdict");

	say(out, source, value_has(source, "address") ? "{address} -> " : "this host -> ");
	say_endpoint(out, to);
	say(out, to, "/{protocol}  ");
	mark_puts(out, style,
		  trace_is_balanced(trace) && !has_orphan           ? MARK_GOOD
		  : has_orphan || strcmp(verdict, "untouched") == 0 ? MARK_ATTENTION
								    : MARK_BAD,
		  verdict);
	if (value_has(trace, "service"))
		say(out, value_get(trace, "service"), "  {namespace}/{name}");
	str_puts(out, "\n");
}

static void row(struct table *t, const json_t *ep)
{
	bool is_used = value_bool(ep, "used");

	cells_of_endpoint(t, ep);
	if (is_used)
		cell_share(t, "SHARE", TABLE_RIGHT | MARK_GOOD, ep, "probability");
	else
		table_cell(t, "SHARE", TABLE_RIGHT | MARK_FAINT, "-");
	if (is_used && value_has(ep, "silent"))
		cell_silent(t, "REASON", "silent: ", ep);
	else
		table_cell(t, "REASON", MARK_NONE, "%s", value_text(ep, "reason"));
}

/* Is the endpoint selected by `text`: a pod, an address, or an address and port? */
static bool is_selected(const json_t *ep, const char *text)
{
	FINI(str_fini) struct str where = { 0 };

	say_endpoint(&where, ep);
	return strcmp(value_text(ep, "pod"), text) == 0 ||
	       strcmp(value_text(ep, "address"), text) == 0 || strcmp(where.text, text) == 0;
}

/* Up to half of the rows show excluded endpoints. */
static size_t used_shown(const json_t *list)
{
	size_t n_used = 0;
	size_t n_others;

	value_for_each (ep, list)
		n_used += value_bool(ep, "used");
	n_others = MIN(json_array_size(list) - n_used, (size_t)ROWS_SHOWN / 2);
	return MIN(n_used, ROWS_SHOWN - n_others);
}

static void endpoints(struct str *out, const json_t *trace, const struct style *style,
		      const char *about)
{
	const json_t *list = value_get(trace, "endpoints");
	bool is_cut = !style->is_wide && about == NULL;
	size_t n_used = is_cut ? used_shown(list) : SIZE_MAX;
	size_t n_others = is_cut ? ROWS_SHOWN - n_used : SIZE_MAX;
	FINI(table_fini) struct table t = { 0 };

	value_for_each (ep, list) {
		size_t *left = value_bool(ep, "used") ? &n_used : &n_others;

		if (*left == 0 || (about != NULL && !is_selected(ep, about)))
			continue;
		*left -= 1;
		row(&t, ep);
	}
	table_section(out, &t, style, 2);
	if (is_cut && table_rows(&t) < json_array_size(list))
		str_printf(out,
			   "  and %zu more (-o wide shows all, a third argument one of them)\n",
			   json_array_size(list) - table_rows(&t));
	if (about != NULL && table_rows(&t) == 0)
		str_printf(out, "\n  %s is in no slice of the service for this address family\n",
			   about);
}

void show_trace(struct str *out, const json_t *trace, const struct style *style, const char *about)
{
	head(out, trace, style);
	value_for_each (s, value_get(trace, "steps"))
		str_printf(out, "  %-*s%s\n", LABEL_WIDTH, value_text(s, "step"),
			   value_text(s, "text"));
	if (value_has(trace, "service"))
		endpoints(out, trace, style, about);
}

bool trace_is_balanced(const json_t *trace)
{
	return strcmp(value_text(trace, "verdict"), "balance") == 0;
}
