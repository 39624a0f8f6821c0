/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_monitor - prints events until it is interrupted. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "ctl/run.h"
#include "ctl/value.h"

/* vipd's events are shorter. */
#define LINE_MAX_BYTES (1U << 20)

struct lines {
	const struct run *run;
	struct str rest; /* incomplete last line */
};

static int event_print(const struct run *run, const char *line, size_t len)
{
	json_auto_t *event = json_loadb(line, len, 0, NULL);
	FINI(str_fini) struct str out = { 0 };

	if (event == NULL)
		return -EPROTO;
	value_clean(event);
	show_event(&out, event, &run->style);
	return out_write(str_text(&out), out.len);
}

static int sink_lines(void *arg, const char *data, size_t len)
{
	struct lines *l = arg;
	const char *end;
	int r = 0;

	str_add(&l->rest, data, len);
	while (r == 0 && (end = memchr(l->rest.text, '\n', l->rest.len)) != NULL) {
		size_t n = (size_t)(end - l->rest.text);

		r = l->run->output == OUTPUT_JSON ? out_printf("%.*s\n", (int)n, l->rest.text)
						  : event_print(l->run, l->rest.text, n);
		memmove(l->rest.text, l->rest.text + n + 1, l->rest.len - n - 1);
		l->rest.len -= n + 1;
	}
	if (r == 0 && l->rest.len > LINE_MAX_BYTES)
		r = -EPROTO;
	return r == 0 ? out_flush() : r;
}

int run_monitor(const struct run *run)
{
	struct client client = run->client;
	struct lines lines = { .run = run };
	FINI(str_fini) struct str target = { 0 };
	struct err err = { "invalid event: not from vipd" };
	int r;

	client.timeout_ms = UINT_MAX; /* the stream may be silent for any time */
	str_puts(&target, "/v1/monitor");
	query_add(&target, "service", run->service);
	query_add(&target, "kind", run->kinds);
	r = client_request(&client, "GET", target.text, sink_lines, &lines, &err);
	str_fini(&lines.rest);
	return r == 0 ? EXIT_FINE : failed(r, &err);
}
