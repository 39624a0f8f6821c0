/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/run_diff - `vipctl diff` and `vipctl svc --kernel`, which read the kernel. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/control.h"
#include "ctl/diff.h"
#include "ctl/manifests.h"
#include "ctl/programmed.h"
#include "ctl/run.h"
#include "ctl/value.h"

/* A difference counts when all attempts find it: a change during an attempt causes one too. */
#define TRIES 3
#define PAUSE_NS (200 * NSEC_PER_MSEC)

static int desired_get(struct diff *d, const struct run *run, struct err *err)
{
	json_auto_t *rows = NULL;
	int r = client_json(&rows, &run->client, "GET", "/v1/rows", err);

	if (r < 0)
		return r;
	diff_desired(d, value_get(rows, "items"));
	return 0;
}

static void problem_report(const char *where, const char *text)
{
	(void)fprintf(stderr, "vipctl: %s: %s\n", where, text);
}

/* Desired state, computed from the folder without vipd. */
static int desired_read(struct diff *d, const struct run *run, bool is_ipvs, struct err *err)
{
	const struct manifests_config config = {
		.dir = run->manifests,
		.node = run->node,
		.nodeport_addresses = run->nodeport_addresses,
		.is_ipvs = is_ipvs,
		.ipvs_scheduler = run->ipvs_scheduler,
	};
	json_auto_t *items = NULL;
	int r = manifests_rows(&items, &config, problem_report, err);

	if (r < 0)
		return r;
	diff_desired(d, items);
	return 0;
}

/* The desired state first: vipd programs changes soon after they become desired. */
static int diff_try(struct diff *d, const struct run *run, const char *plane, struct err *err)
{
	FINI(programmed_fini) struct programmed programmed = { 0 };
	int r = run->manifests != NULL ? 0 : desired_get(d, run, err);

	if (r == 0)
		r = programmed_read(&programmed, plane, err);
	if (r == 0 && run->manifests != NULL)
		r = desired_read(d, run, programmed.is_ipvs, err);
	if (r == 0) {
		diff_desired_lines(d, programmed.routing_desired.text, "(policy routing)");
		diff_programmed(d, programmed.text.text);
		diff_programmed(d, programmed.routing.text);
		diff_compare(d);
	}
	return r;
}

/* The plane of vipd; NULL: one that vipctl cannot read. */
static int plane_ask(const char **ret, const struct run *run, struct err *err)
{
	static const char *const planes[] = { "nftables", "ipvs" };
	json_auto_t *status = NULL;
	int r = client_json(&status, &run->client, "GET", "/v1/status", err);

	*ret = NULL;
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(planes); i++)
		if (strcmp(value_text(status, "plane"), planes[i]) == 0)
			*ret = planes[i];
	if (*ret == NULL)
		r = err_set(err, -EPROTO, "the plane is '%s': diff reads nftables and ipvs",
			    value_text(status, "plane"));
	else if (run->plane != NULL && strcmp(run->plane, *ret) != 0)
		r = err_set(err, -EINVAL, "--plane=%s: vipd runs the %s plane", run->plane, *ret);
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
	const struct timespec pause = { 0, PAUSE_NS };
	const char *plane = run->plane;
	struct diff d = { 0 };
	struct err err;
	int code;
	int r;

	r = run->manifests != NULL ? 0 : plane_ask(&plane, run, &err);
	for (int i = 0; r == 0; i++) {
		r = diff_try(&d, run, plane, &err);
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

struct lines {
	const struct run *run;
	json_t *frontends;
	json_t *routing;
	bool is_over; /* the reader of stdout has exited */
};

static bool is_wanted(const struct run *run, const char *line)
{
	return run->n_args == 0 || strstr(line, run->args[0]) != NULL;
}

static void line_json(void *arg, const char *line, bool is_frontend)
{
	struct lines *l = arg;

	if (is_wanted(l->run, line))
		(void)json_array_append_new(is_frontend ? l->frontends : l->routing,
					    json_string(line));
}

static int kernel_json(const struct run *run, struct programmed *programmed)
{
	struct lines l = { .run = run, .frontends = json_array(), .routing = json_array() };
	json_auto_t *json = NULL;

	programmed_lines(programmed, line_json, &l);
	json = json_pack("{s:i, s:s, s:o, s:o}", "api", CONTROL_API_VERSION, "plane",
			 programmed->is_ipvs ? "ipvs" : "nftables", "frontends", l.frontends,
			 "routing", l.routing);
	return out_json(json, EXIT_FINE);
}

static void line_print(void *arg, const char *line, bool is_frontend)
{
	struct lines *l = arg;

	if (!l->is_over && is_wanted(l->run, line))
		l->is_over = out_write(line, strlen(line)) < 0 || out_write("\n", 1) < 0;
}

int run_svc_kernel(const struct run *run)
{
	struct lines l = { .run = run };
	FINI(programmed_fini) struct programmed programmed;
	struct err err;
	int code = EXIT_FINE;
	int r = programmed_read(&programmed, run->plane, &err);

	if (r < 0)
		return failed(r == -EPERM ? r : -ENODATA, &err);
	if (run->output == OUTPUT_JSON)
		code = kernel_json(run, &programmed);
	else if (programmed.text.len == 0 && programmed.routing.len == 0)
		(void)fputs("no table of vipd, or an empty one\n", stderr);
	else
		programmed_lines(&programmed, line_print, &l);
	return code;
}
