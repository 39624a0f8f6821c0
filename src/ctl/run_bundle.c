/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/run_bundle - `vipctl dump --bundle`: a support bundle, one JSON object.
 *
 * Contains the answers of vipd and the state of the kernel. No secrets: vipd never returns
 * passwords or tokens, and no files are read.
 */
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/control.h"
#include "ctl/programmed.h"
#include "ctl/run.h"

static const struct {
	const char *member;
	const char *target;
} parts[] = {
	{ "status", "/v1/status" }, { "doctor", "/v1/doctor" }, { "history", "/v1/history" },
	{ "log", "/v1/log" },       { "drains", "/v1/drains" }, { "ejections", "/v1/ejections" },
	{ "counts", "/v1/counts" }, { "rows", "/v1/rows" },     { "dump", "/v1/dump" },
};

static int sink_str(void *arg, const char *data, size_t len)
{
	str_add(arg, data, len);
	return 0;
}

static int member(const char *name, json_t *value, const char *behind)
{
	(void)out_printf("\"%s\": ", name);
	(void)out_dump(value, JSON_INDENT(1) | JSON_ENCODE_ANY);
	json_decref(value);
	return out_write(behind, strlen(behind));
}

/* Null for a text that is not UTF-8. */
static int text_member(const char *name, const char *text)
{
	json_t *value = json_string(text);

	return member(name, value ? value : json_null(), ",\n");
}

static int head_write(void)
{
	struct utsname uts = { 0 };
	char now[32] = "";
	time_t t = time(NULL);
	struct tm tm;

	(void)uname(&uts);
	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	(void)out_printf("{\"api\": %d,\n", CONTROL_API_VERSION);
	(void)text_member("made_at", now);
	(void)text_member("made_by", "vipctl " VIPD_VERSION);
	(void)text_member("kernel", uts.release);
	(void)text_member("machine", uts.machine);
	return text_member("host", uts.nodename);
}

/* A missing part is replaced by its error. */
static int part_write(const struct run *run, const char *member, const char *target)
{
	FINI(str_fini) struct str body = { 0 };
	struct err err;
	int r = client_request(&run->client, "GET", target, sink_str, &body, &err);

	(void)out_printf("\"%s\": ", member);
	if (r == 0) {
		(void)out_write(str_text(&body), body.len);
	} else {
		(void)out_printf("{");
		(void)text_member("error", err.text);
		(void)out_printf("\"code\": %d}", -r);
	}
	(void)out_write(",\n", 2);
	return r;
}

/* Lines of the kernel's tables as arrays. */
static void kernel_write(const struct run *run)
{
	FINI(programmed_fini) struct programmed programmed;
	struct err err = { "" };
	int r = programmed_read(&programmed, run->plane, &err);

	if (r < 0)
		programmed_fini(&programmed); /* the part that was read */
	(void)member("kernel_plane", json_string(programmed.is_ipvs ? "ipvs" : "nftables"), ",\n");
	(void)member("kernel_frontends", programmed_lines(&programmed.lines.frontends, NULL),
		     ",\n");
	(void)member("kernel_routing", programmed_lines(&programmed.lines.routing, NULL), ",\n");
	(void)member("kernel_error", r < 0 ? json_string(err.text) : json_null(), "}\n");
}

int run_bundle(const struct run *run)
{
	int code = EXIT_FINE;

	if (run->n_args > 0)
		return usage("'%s': dump --bundle takes no argument", run->args[0]);
	if (head_write() < 0)
		return EXIT_FINE; /* the failure is reported at the end */
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (part_write(run, parts[i].member, parts[i].target) < 0)
			code = EXIT_PROBLEM;
	kernel_write(run);
	return code;
}
