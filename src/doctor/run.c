/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/run - the report, and runs: a process of the same program reads facts, tries the kernel,
 * checks, and prints the report as JSON.
 *
 * /proc/self/exe is the running program also after an upgrade has replaced its file.
 */
#include "doctor/check.h"

#include <inttypes.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"
#include "base/process.h"
#include "doctor/checks.h"
#include "doctor/facts.h"

#define FIRST_ARG "__check" /* then the plane or "", and the offset of the clock */
#define NICENESS 10         /* traffic and syncs come first */
#define TIMEOUT_S 120       /* a run takes a second on an idle machine */
#define OUTPUT_MAX (16U << 20)

/* --- the report --- */

static const char *const level_names[] = { "", "ok", "note", "warning", "error" };

const char *check_level_text(enum check_level level)
{
	return level_names[level];
}

const char *check_text(const json_t *result, const char *key)
{
	return json_string_value(json_object_get(result, key));
}

enum check_level check_level(const json_t *result)
{
	const char *text = check_text(result, "level");

	for (int i = CHECK_OK; text != NULL && i <= CHECK_ERROR; i++)
		if (strcmp(text, level_names[i]) == 0)
			return (enum check_level)i;
	return CHECK_UNSET;
}

enum check_level check_report_worst(const json_t *report)
{
	enum check_level worst = CHECK_UNSET;
	const json_t *result;
	size_t i;

	json_array_foreach (report, i, result)
		worst = MAX(worst, check_level(result));
	return worst;
}

void check_add(json_t *report, const char *check, enum check_level level, const char *advice,
	       const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	json_t *found;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	found = json_string(text);
	/* Names from other programs can be any bytes: only UTF-8 is shown. */
	if (found == NULL)
		found = json_string("(a name that is not UTF-8)");
	(void)json_array_append_new(report, json_pack("{s:s, s:s, s:o, s:s?}", "check", check,
						      "level", level_names[level], "found", found,
						      "advice", advice));
}

/* --- the kernel (plane/tryout.h) --- */

/* A request loads the module of IPVS; a virtual service loads that of its scheduler. */
static void try_ipvs(struct fact_try *t, struct nl_sock *nfnl)
{
	AUTO(ipvs_wire_close) struct ipvs_wire *w = NULL;
	struct nl_sock *nl = NULL;

	t->ipvs_result = nl_sock_open(&nl, NETLINK_GENERIC, NULL);
	if (t->ipvs_result < 0)
		return;
	ipvs_wire_open(&w, nl);
	t->ipvs_result = ipvs_wire_load(w, nfnl, NULL);
	if (t->ipvs_result == 0 && t->is_private)
		t->n_scheds = ipvs_try_scheds(t->scheds, w);
}

/*
 * With CAP_SYS_ADMIN in a network namespace of its own, where the whole layout is programmed too.
 * Otherwise in the current namespace, with transactions that the kernel never applies.
 */
static void try_kernel(struct fact_try *t, bool is_ipvs)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;

	t->is_private = unshare(CLONE_NEWNET) == 0;
	t->is_done = nl_sock_open(&nl, NETLINK_NETFILTER, &t->error) == 0;
	if (!t->is_done)
		return;
	for (int fam = 0; fam < IPFAM_N; fam++)
		t->n[fam] = is_ipvs ? ipvs_try_features(t->tries[fam], nl, (enum ipfam)fam)
				    : nft_try_features(t->tries[fam], nl, (enum ipfam)fam);
	if (t->is_private)
		t->layout_result =
			is_ipvs ? ipvs_try_layout(nl, &t->error) : nft_try_layout(nl, &t->error);
	if (is_ipvs)
		try_ipvs(t, nl);
}

/* --- the process of a run --- */

static void facts_check(json_t *ret, const char *plane, int64_t clock_offset_ns)
{
	AUTO(free) struct facts *f = xmalloc(sizeof(*f)); /* too large for the stack */

	facts_init(f);
	f->ipvs_plane.is_selected = strcmp(plane, "ipvs") == 0;
	read_links(f);
	read_tables(f);
	if (plane[0] == '\0')
		f->ipvs_plane.is_selected = f->ipvs_plane.is_in_force && !f->ipvs_plane.has_other;
	read_files(f, "");
	read_ipvs(f, "");
	read_self(f, "", clock_offset_ns);
	log_level_set_all(LOG_LEVEL_ERR - 1); /* without the log lines of the layout */
	try_kernel(&f->trial, f->ipvs_plane.is_selected);
	check_all(ret, f);
	facts_fini(f);
}

bool check_process(int argc, char **argv)
{
	json_auto_t *report = NULL;
	AUTO(free) char *text = NULL;

	if (argc != 4 || strcmp(argv[1], FIRST_ARG) != 0)
		return false;
	child_become("vipd-check");
	(void)alarm(TIMEOUT_S); /* if the parent ended before */
	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	report = json_array();
	facts_check(report, argv[2], strtoll(argv[3], NULL, 10));
	text = json_dumps(report, JSON_COMPACT);
	if (text != NULL)
		(void)!child_write(STDOUT_FILENO, text, strlen(text));
	return true;
}

/* --- runs --- */

static json_t *failure(const char *why)
{
	json_t *report = json_array();

	check_add(report, "doctor", CHECK_ERROR, CHECK_ADVICE_FAILED, "check process: %s", why);
	return report;
}

/* Takes `report`. */
static void run_ended(struct check_runs *c, json_t *report)
{
	json_t *last = c->report;

	c->report = report;
	c->ended_ns = now_ns();
	c->took_ns = c->ended_ns - c->begun_ns;
	c->n++;
	if (c->done != NULL)
		c->done(c->arg, last);
	json_decref(last);
	if (c->is_wanted_again && c->process == NULL)
		check_start(c);
}

static void on_output(void *arg, int r, const struct str *output, const char *why)
{
	struct check_runs *c = arg;
	json_t *report = json_loadb(str_text(output), r == 0 ? output->len : 0, 0, NULL);

	c->process = NULL;
	if (report == NULL)
		report = failure(r == 0 ? "its output is not JSON" : why);
	run_ended(c, report);
}

void check_start(struct check_runs *c)
{
	const char *const argv[] = { "/proc/self/exe", FIRST_ARG, c->plane != NULL ? c->plane : "",
				     str_local(24, "%" PRId64, c->clock_offset_ns), NULL };
	const struct process_config config = {
		.argv = (char *const *)(uintptr_t)argv, /* execve() does not write */
		.envp = environ,
		.timeout_ns = TIMEOUT_S * NSEC_PER_SEC,
		.output_max = OUTPUT_MAX,
		.done = on_output,
		.arg = c,
	};
	struct err err;

	c->is_wanted_again = c->process != NULL;
	if (c->process != NULL)
		return;
	c->begun_ns = now_ns();
	if (process_open(&c->process, c->base, &config, &err) < 0)
		run_ended(c, failure(err.text));
}

void check_runs_fini(struct check_runs *c)
{
	process_close(c->process);
	json_decref(c->report);
}

json_t *check_run(const char *plane)
{
	struct check_runs c = { .base = event_base_new(), .plane = plane };

	if (c.base == NULL)
		return failure("no event loop");
	check_start(&c);
	(void)event_base_dispatch(c.base);
	process_close(c.process);
	event_base_free(c.base);
	return c.report != NULL ? c.report : failure("no event loop");
}
