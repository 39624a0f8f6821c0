/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_diff - the commands that read the kernel themselves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/control.h"
#include "ctl/diff.h"
#include "ctl/manifests.h"
#include "ctl/run.h"
#include "ctl/value.h"
#include "plane/nft/held.h"

/* What differs because somebody changed it between two readings differs once. */
#define TRIES 3
#define PAUSE_NS (200 * NSEC_PER_MSEC)

static int want_get(struct diff *d, const struct run *run, struct err *err)
{
	json_t *rows;
	int r = client_get_json(&rows, &run->client, "/v1/rows", err);

	if (r < 0)
		return r;
	diff_want(d, value_get(rows, "items"));
	json_decref(rows);
	return 0;
}

static void problem_tell(const char *where, const char *text)
{
	(void)fprintf(stderr, "vipctl: %s: %s\n", where, text);
}

/* What vipd would make of the folder, without one. */
static int want_read(struct diff *d, const struct run *run, struct err *err)
{
	const struct manifests_config config = {
		.dir = run->manifests,
		.node = run->node,
		.nodeport_addresses = run->nodeport_addresses,
	};
	json_t *items;
	int r = manifests_rows(&items, &config, problem_tell, err);

	if (r < 0)
		return r;
	diff_want(d, items);
	json_decref(items);
	return 0;
}

/* What is wanted is asked for first: vipd is what changes the kernel. */
static int diff_try(struct diff *d, const struct run *run, struct err *err)
{
	struct str text = { 0 };
	int r = run->manifests != NULL ? want_read(d, run, err) : want_get(d, run, err);

	if (r == 0)
		r = nft_held_text(&text, err);
	if (r == 0 && text.len > 0)
		diff_hold(d, text.text);
	if (r == 0)
		diff_compare(d);
	str_fini(&text);
	return r;
}

/* Is it the nftables plane that vipd drives? Another one is not read here. */
static int plane_check(const struct run *run, struct err *err)
{
	json_t *status;
	int r = client_get_json(&status, &run->client, "/v1/status", err);
	const char *plane;

	if (r < 0)
		return r;
	plane = value_text(status, "plane");
	if (strcmp(plane, "nftables") != 0)
		r = err_set(err, -EPROTO, "the plane is '%s': diff reads nftables only", plane);
	json_decref(status);
	return r;
}

static int diff_show(const struct run *run, const struct diff *d)
{
	int code = diff_is_empty(d) ? EXIT_FINE : EXIT_PROBLEM;
	struct str out = { 0 };

	if (run->output == OUTPUT_JSON) {
		json_t *json = diff_json(d);

		code = out_json(json, code);
		json_decref(json);
		return code;
	}
	diff_print(&out, d, &run->style);
	(void)out_write(str_text(&out), out.len);
	str_fini(&out);
	return code;
}

int run_diff(const struct run *run)
{
	const struct timespec pause = { 0, PAUSE_NS };
	struct diff d = { 0 };
	struct err err;
	int code;
	int r;

	if (run->n_args > 0)
		return usage("'%s': diff takes no argument", run->args[0]);
	r = run->manifests != NULL ? 0 : plane_check(run, &err);
	for (int i = 0; r == 0; i++) {
		r = diff_try(&d, run, &err);
		if (r < 0 || diff_is_empty(&d) || i == TRIES - 1 || run->manifests != NULL)
			break;
		diff_fini(&d);
		(void)nanosleep(&pause, NULL);
	}
	code = r < 0 ? failed(r, &err) : diff_show(run, &d);
	diff_fini(&d);
	return code;
}

/* --- svc --kernel --- */

static bool is_wanted(const struct run *run, const char *line)
{
	return run->n_args == 0 || strstr(line, run->args[0]) != NULL;
}

static int kernel_json(const struct run *run, char *text)
{
	json_t *items = json_array();
	json_t *json;
	char *line;
	int code;

	while ((line = strsep(&text, "\n")) != NULL)
		if (*line != '\0' && is_wanted(run, line))
			(void)json_array_append_new(items, json_string(line));
	json = json_pack("{s:i, s:o}", "api", CONTROL_API_VERSION, "frontends", items);
	code = out_json(json, EXIT_FINE);
	json_decref(json);
	return code;
}

int run_svc_kernel(const struct run *run)
{
	struct str text = { 0 };
	char *rest;
	char *line;
	struct err err;
	int code = EXIT_FINE;
	int r = nft_held_text(&text, &err);

	if (r < 0) {
		(void)fprintf(stderr, "vipctl: %s\n", err.text);
		return EXIT_NO_VIPD;
	}
	rest = text.text;
	if (run->output == OUTPUT_JSON) {
		code = kernel_json(run, rest);
	} else if (rest == NULL) {
		(void)fputs("no table of vipd's, or nothing in it\n", stderr);
	} else {
		while ((line = strsep(&rest, "\n")) != NULL)
			if (*line != '\0' && is_wanted(run, line) &&
			    (out_write(line, strlen(line)) < 0 || out_write("\n", 1) < 0))
				break;
	}
	str_fini(&text);
	return code;
}
