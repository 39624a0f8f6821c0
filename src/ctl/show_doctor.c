/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/show_doctor - one line per result, then the advice for failed checks. */
#include "ctl/show.h"

#include <string.h>

#include "ctl/value.h"

static void advice(struct str *out, const json_t *results, const struct style *style)
{
	bool has_any = false;

	value_for_each (result, results) {
		if (strcmp(value_text(result, "level"), "ok") == 0 || !value_has(result, "advice"))
			continue;
		if (!has_any) {
			str_puts(out, "\n");
			mark_puts(out, style, MARK_TITLE, "WHAT TO DO");
			str_puts(out, "\n");
		}
		has_any = true;
		say(out, result, "  {check}: {advice}\n");
	}
}

void show_doctor(struct str *out, const json_t *answer, const struct style *style)
{
	const json_t *results = value_get(answer, "results");
	FINI(table_fini) struct table t = { 0 };

	value_for_each (result, results) {
		const char *level = value_text(result, "level");

		table_cell(&t, "LEVEL", state_mark(level), "%s", level);
		cell_say(&t, "CHECK", MARK_NONE, result, "{check}");
		cell_say(&t, "FOUND", MARK_NONE, result, "{found}");
	}
	table_print(out, &t, style, 0);
	advice(out, results, style);
	if (strcmp(value_text(answer, "by"), "vipctl") == 0)
		say(out, answer, "\nChecked by vipctl: {vipd}\n");
}

/* The log level of each area. */
void show_log(struct str *out, const json_t *answer, const struct style *style)
{
	FINI(table_fini) struct table t = { 0 };

	value_for_each (area, value_get(answer, "areas")) {
		cell_say(&t, "AREA", MARK_NONE, area, "{area}");
		cell_say(&t, "LEVEL", MARK_NONE, area, "{level}");
		cell_say(&t, "SUPPRESSED", TABLE_RIGHT, area, "{suppressed:d}");
	}
	table_print(out, &t, style, 0);
}

/* Drained or ejected endpoints. */
void show_taken_out(struct str *out, const json_t *answer, const struct style *style)
{
	bool has_text = value_any(value_get(answer, "items"), "text");
	FINI(table_fini) struct table t = { 0 };

	value_for_each (item, value_get(answer, "items")) {
		cell_say(&t, "SERVICE", MARK_NONE, item, "{namespace}/{name}");
		cell_endpoint(&t, "ENDPOINT", MARK_NONE, item);
		cell_say(&t, "POD", MARK_NONE, item, "{pod}");
		if (has_text)
			cell_say(&t, "REASON", MARK_NONE, item, "{text}");
	}
	table_print(out, &t, style, 0);
}
