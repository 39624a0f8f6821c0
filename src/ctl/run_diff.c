/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_diff - `vipctl diff` and `vipctl svc --kernel`, which read the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/control.h"
#include "ctl/diff.h"
#include "ctl/programmed.h"
#include "ctl/run.h"
#include "ctl/value.h"

/* A difference counts when all attempts find it: a change during an attempt causes one too. */
#define TRIES 3
#define PAUSE_US 200000

/* The desired state first: vipd programs changes soon after they become desired. */
static int diff_try(struct diff *d, const struct run *run, const char *plane, struct err *err)
{
	FINI(programmed_fini) struct programmed programmed = { 0 };
	json_auto_t *rows = NULL;
	int r = 0;

	if (run->manifests == NULL)
		r = client_json(&rows, &run->client, "GET", "/v1/rows", err);
	diff_desired(d, value_get(rows, "items"));
	json_decref(TAKE(rows)); /* may be large */
	if (r == 0)
		r = not_vipd(programmed_read(&programmed, plane, err));
	if (r == 0 && run->manifests != NULL) {
		r = manifests_rows(d, run, programmed.is_ipvs, err);
		r = r == -EINVAL ? r : not_vipd(r); /* -EINVAL: an option */
	}
	if (r == 0) {
		diff_lines(d, programmed.lines.routing_desired.text, "(policy routing)");
		diff_lines(d, programmed.lines.frontends.text, NULL);
		diff_lines(d, programmed.lines.routing.text, NULL);
		diff_compare(d);
	}
	return r;
}

static int diff_show(const struct run *run, const struct diff *d)
{
	int code = diff_is_empty(d) ? EXIT_FINE : EXIT_PROBLEM;
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON) {
		json_auto_t *json = diff_json(d);

		return out_json(json, code);
	}
	diff_print(&out, d, &run->style);
	return out_text(&out, code);
}

int run_diff(const struct run *run)
{
	const char *plane = run->plane;
	FINI(diff_fini) struct diff d = { 0 };
	struct err err;
	int code = run->manifests != NULL ? 0 : source_check(run);
	int r;

	if (code != 0)
		return code;
	r = run->manifests != NULL ? 0 : programmed_plane(&plane, &run->client, run->plane, &err);
	for (int i = 0; r == 0; i++) {
		r = diff_try(&d, run, plane, &err);
		if (r < 0 || diff_is_empty(&d) || i == TRIES - 1 || run->manifests != NULL)
			break;
		diff_fini(&d);
		(void)usleep(PAUSE_US);
	}
	return r < 0 ? failed(r, &err) : diff_show(run, &d);
}

/* --- svc --kernel --- */

static int kernel_json(struct programmed *programmed, const char *part)
{
	json_auto_t *json =
		json_pack("{s:i, s:s, s:o, s:o}", "api", CONTROL_API_VERSION, "plane",
			  programmed->is_ipvs ? "ipvs" : "nftables", "frontends",
			  programmed_lines(&programmed->lines.frontends, part), "routing",
			  programmed_lines(&programmed->lines.routing, part));

	return out_json(json, EXIT_FINE);
}

/* False: standard output cannot be written. */
static bool lines_print(char *text, const char *part)
{
	str_for_each_line (line, text)
		if ((part == NULL || strstr(line, part) != NULL) && out_printf("%s\n", line) < 0)
			return false;
	return true;
}

int run_svc_kernel(const struct run *run)
{
	const char *part = run->n_args > 0 ? run->args[0] : NULL;
	FINI(programmed_fini) struct programmed programmed;
	struct err err;
	int code = EXIT_FINE;
	int r = programmed_read(&programmed, run->plane, &err);

	if (r < 0)
		return failed(not_vipd(r), &err);
	if (run->output == OUTPUT_JSON)
		code = kernel_json(&programmed, part);
	else if (programmed.lines.frontends.len == 0 && programmed.lines.routing.len == 0)
		(void)fputs("no table of vipd, or an empty one\n", stderr);
	else if (lines_print(programmed.lines.frontends.text, part))
		(void)lines_print(programmed.lines.routing.text, part);
	return code;
}
