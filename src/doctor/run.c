/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/run - the report, and a child process that reads facts, tries the kernel, checks, and
 * sends the report as JSON.
 */
#include "doctor/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"
#include "doctor/checks.h"
#include "doctor/facts.h"

#define DEADLINE_S 120 /* a second on an idle machine */

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

/* --- the kernel (plane/nft/tryout.h, plane/ipvs/tryout.h) --- */

/* A request loads the module of IPVS; a virtual service loads that of its scheduler. */
static void try_ipvs(struct fact_try *t)
{
	AUTO(ipvs_wire_close) struct ipvs_wire *w = NULL;
	struct nl_sock *nl = NULL;

	t->ipvs_result = nl_sock_open(&nl, NETLINK_GENERIC, NULL);
	if (t->ipvs_result < 0)
		return;
	ipvs_wire_open(&w, nl);
	t->ipvs_result = ipvs_wire_resolve(w, NULL);
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
	if (t->is_done) {
		for (int fam = 0; fam < IPFAM_N; fam++)
			t->n[fam] = is_ipvs ? ipvs_try_features(t->tries[fam], nl, (enum ipfam)fam)
					    : nft_try_features(t->tries[fam], nl, (enum ipfam)fam);
		if (t->is_private)
			t->layout_result = is_ipvs ? ipvs_try_layout(nl, &t->error)
						   : nft_try_layout(nl, &t->error);
	}
	if (is_ipvs)
		try_ipvs(t);
}

/* --- the child process --- */

static void facts_check(json_t *ret, const struct check_env *env)
{
	AUTO(free) struct facts *f = xmalloc(sizeof(*f)); /* too large for the stack */

	facts_init(f);
	f->ipvs_plane.is_selected = env->plane != NULL && strcmp(env->plane, "ipvs") == 0;
	read_links(f);
	read_tables(f);
	if (env->plane == NULL)
		f->ipvs_plane.is_selected = f->ipvs_plane.is_in_force && !f->ipvs_plane.has_other;
	read_files(f, "");
	read_ipvs(f, "");
	read_self(f, "", env->clock_offset_ns);
	log_level_set_all(LOG_LEVEL_ERR - 1); /* without the log lines of the layout */
	try_kernel(&f->trial, f->ipvs_plane.is_selected);
	check_all(ret, f);
	facts_fini(f);
}

/* The alarm does not interrupt the answer: it is whole, or absent. */
static void run_main(void *arg, int fd)
{
	json_auto_t *report = json_array();
	AUTO(free) char *text = NULL;

	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(DEADLINE_S);
	facts_check(report, arg);
	text = json_dumps(report, JSON_COMPACT);
	(void)alarm(0);
	if (text == NULL || !child_write(fd, text, strlen(text)))
		_exit(1);
}

static json_t *report_read(struct child *c, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	json_t *report;
	char buf[4096];
	int status = -1;
	ssize_t n;

	while ((n = read(c->fd, buf, sizeof(buf))) > 0 || (n == -1 && errno == EINTR))
		str_add(&text, buf, n > 0 ? (size_t)n : 0);
	while (waitpid(c->pid, &status, 0) == -1 && errno == EINTR)
		;
	c->pid = 0;
	report = json_loadb(str_text(&text), text.len, 0, NULL);
	if (report == NULL && WIFSIGNALED(status))
		(void)err_set(err, -EIO, "ended by signal %d", WTERMSIG(status));
	else if (report == NULL)
		(void)err_set(err, -EIO, "failed (%d)", status);
	return report;
}

json_t *check_run(const struct check_env *env)
{
	struct check_env copy = *env;
	struct child c = CHILD_NONE;
	struct err err = { 0 };
	json_t *report = NULL;

	if (child_start(&c, "vipd-check", run_main, &copy, &err) == 0) {
		(void)fcntl(c.fd, F_SETFL, 0); /* blocking */
		report = report_read(&c, &err);
	}
	child_reap(&c);
	if (report == NULL) {
		report = json_array();
		check_add(report, "doctor", CHECK_ERROR, CHECK_ADVICE_FAILED, "check process: %s",
			  err.text);
	}
	return report;
}
