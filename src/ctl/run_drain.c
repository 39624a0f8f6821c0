/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_drain - an endpoint out of a service and back, by hand. */
#include <stdio.h>
#include <string.h>

#include "ctl/run.h"
#include "ctl/value.h"

static void list_print(struct str *out, const json_t *items, const struct style *style)
{
	struct table t = { 0 };

	table_column(&t, "SERVICE", 0);
	table_column(&t, "ENDPOINT", 0);
	table_column(&t, "POD", 0);
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);

		table_cell(&t, MARK_NONE, "%s/%s", value_text(item, "namespace"),
			   value_text(item, "name"));
		table_cell(&t, MARK_NONE, "%s", value_text(item, "address"));
		table_cell(&t, MARK_NONE, "%s",
			   value_has(item, "pod") ? value_text(item, "pod") : "-");
	}
	table_print(out, &t, style, 0);
	table_fini(&t);
}

static int answer_show(const struct run *run, json_t *answer)
{
	const json_t *items = value_get(answer, "items");
	int code = value_has(answer, "problem") ? EXIT_PROBLEM : EXIT_FINE;
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON)
		return out_json(answer, code);
	value_clean(answer);
	if (json_array_size(items) > 0)
		list_print(&out, items, &run->style);
	else
		(void)fputs("no endpoint is drained\n", stderr);
	(void)out_write(str_text(&out), out.len);
	if (value_has(answer, "problem"))
		(void)fprintf(stderr, "vipctl: %s\n", value_text(answer, "problem"));
	str_fini(&out);
	return code;
}

static int change(const struct run *run, const char *state)
{
	struct str target = { 0 };
	struct err err;
	json_t *answer;
	int code;
	int r;

	str_puts(&target, "/v1/drains");
	query_add(&target, "service", run->args[0]);
	query_add(&target, "endpoint", run->args[1]);
	query_add(&target, "state", state);
	r = client_put_json(&answer, &run->client, target.text, &err);
	str_fini(&target);
	if (r < 0)
		return failed(r, &err);
	code = answer_show(run, answer);
	json_decref(answer);
	return code;
}

int run_drain(const struct run *run)
{
	struct err err;
	json_t *answer;
	int code;
	int r;

	if (run->n_args == 2)
		return change(run, "drained");
	if (run->n_args != 0)
		return usage("drain takes NAMESPACE/NAME and ENDPOINT, or nothing");
	r = client_get_json(&answer, &run->client, "/v1/drains", &err);
	if (r < 0)
		return failed(r, &err);
	code = answer_show(run, answer);
	json_decref(answer);
	return code;
}

int run_undrain(const struct run *run)
{
	if (run->n_args != 2)
		return usage("undrain takes NAMESPACE/NAME and ENDPOINT");
	return change(run, "serving");
}
