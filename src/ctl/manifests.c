/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/manifests - desired state of a folder of manifests, without vipd.
 *
 * Reads the folder once and builds its rows with vipd's own code. Addresses come from this host,
 * the rest of the configuration from the options.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/log.h"
#include "base/str.h"
#include "ctl/diff.h"
#include "ctl/run.h"
#include "explain/text.h"
#include "plane/ipvs/programmed.h"
#include "plane/nft/plane_nft.h"
#include "settings/flags.h"
#include "source/files/files.h"
#include "source/host/host.h"

struct reading {
	struct event_base *base;
	struct model model;
	struct plan plan;
	bool is_ready;
	const struct plan_balancer *balancer; /* or NULL */
};

/* --- configuration --- */

/* Those of vipd's flags that decide about frontends, as vipd reads them. */
static int flags_set(struct options *o, const struct run *run, struct err *err)
{
	const struct {
		const char *flag;
		const char *value; /* NULL: not given */
	} given[] = {
		{ "bind-address", run->bind_address },
		{ "feature-gates", run->feature_gates },
		{ "nodeport-addresses", run->nodeport_addresses },
		{ "iptables-localhost-nodeports", run->serves_localhost ? "true" : NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
		const char *flag = given[i].flag;
		const struct cli_option *f = cli_find(&vipd_cli, flag, strlen(flag));
		int r = given[i].value != NULL ? cli_set(f, o, given[i].value, err) : 0;

		if (r < 0)
			return err_wrap(err, r, "--%s", flag);
	}
	return 0;
}

/* `option`, else the host's name; in lower case, as vipd does (LIFE-11). */
static const struct name *node_name(const char *option)
{
	char text[256] = "";

	if (option != NULL)
		(void)snprintf(text, sizeof(text), "%s", option);
	else
		(void)gethostname(text, sizeof(text) - 1);
	for (char *p = text; *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
	return name_get_str(text);
}

/* --- reading --- */

static void on_ready(void *arg)
{
	struct reading *rd = arg;

	rd->is_ready = true;
	event_base_loopbreak(rd->base);
}

static void on_nothing(void *arg)
{
}

static void on_problem(void *arg, const struct files_problem *p)
{
	if (p->line != 0)
		(void)fprintf(stderr, "vipctl: %s:%u: %s\n", p->file, p->line, p->text);
	else
		(void)fprintf(stderr, "vipctl: %s: %s\n", p->file, p->text);
}

static int folder_read(struct reading *rd, const char *dir, struct err *err)
{
	const struct files_ops files_ops = { on_ready, on_nothing, rd };
	AUTO(host_close) struct host *host = NULL;
	AUTO(files_close) struct files *files = NULL;
	int r = host_open(&host, rd->base, &rd->model, on_nothing, NULL, err);

	if (r == 0)
		r = files_open(&files, rd->base, &rd->model, dir, &files_ops, err);
	if (r < 0)
		return r;
	if (event_base_dispatch(rd->base) < 0 || !rd->is_ready)
		return err_set(err, -EIO, "%s: the folder cannot be read", dir);
	files_problems(files, on_problem, NULL);
	return 0;
}

/* --- rows --- */

static void rows_print(struct str *out, const struct plan_rows *rows,
		       const struct plan_balancer *balancer)
{
	vec_for_each (f, &rows->frontends) {
		plan_frontend_led_print(out, rows, f, balancer);
		str_puts(out, "\n");
	}
}

/* Build all rows before settling the first, so that all claims are known (plan.h). */
static void rows_make(struct reading *rd, struct diff *d)
{
	struct plan_displaced displaced = { 0 };
	size_t n;
	AUTO(free) struct svc **all = model_sorted(&rd->model, &n);
	AUTO(free) struct plan_rows **rows = xcalloc(n + 1, sizeof(struct plan_rows *));

	for (size_t i = 0; i < n; i++)
		rows[i] = plan_rows_build(&rd->plan, all[i]);
	for (size_t i = 0; i < n; i++) {
		if (rows[i] == NULL)
			continue;
		plan_rows_settle(&rd->plan, rows[i], &displaced);
		plan_rows_number(&rd->plan, rows[i]);
	}
	for (size_t i = 0; i < n; i++) {
		FINI(str_fini) struct str lines = { 0 };
		AUTO(free) char *owner = xasprintf("%s/%s", all[i]->ns->text, all[i]->name->text);

		plan_rows_accept(&rd->plan, all[i], rows[i]);
		if (rows[i] != NULL)
			rows_print(&lines, all[i]->rows, rd->balancer);
		diff_lines(d, lines.text, owner);
	}
	vec_fini(&displaced.svcs);
}

int manifests_rows(struct diff *ret, const struct run *run, bool is_ipvs, struct err *err)
{
	const struct plane_ops *ops = is_ipvs ? &ipvs_plane_ops : &nft_plane_ops;
	const char *scheduler = run->ipvs_scheduler ? run->ipvs_scheduler : "rr";
	struct scheduler sched = { 0 };
	const struct plan_balancer balancer = ipvs_objects_balancer(&sched);
	struct reading rd = { .balancer = is_ipvs ? &balancer : NULL };
	FINI(options_fini) struct options options = { 0 };
	int r = scheduler_parse(&sched, scheduler, err);

	if (r < 0)
		return err_wrap(err, r, "--ipvs-scheduler");
	rd.base = event_base_new();
	if (rd.base == NULL)
		return err_set(err, -ENOMEM, "event loop");
	log_level_set(LOG_AREA_SOURCE, LOG_LEVEL_ERR); /* on_problem() has all warnings */
	model_init(&rd.model);
	r = flags_set(&options, run, err);
	rd.model.config = options.model;
	options.model = (struct model_config){ 0 };
	rd.model.config.node_name = node_name(run->node);
	if (r == 0) {
		model_configured(&rd.model);
		r = folder_read(&rd, run->manifests, err);
	}
	plan_init(&rd.plan, &rd.model, &ops->traits);
	if (r == 0)
		rows_make(&rd, ret);
	plan_fini(&rd.plan);
	model_fini(&rd.model);
	event_base_free(rd.base);
	return r;
}
