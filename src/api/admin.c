/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/admin - log levels and node checks; they do not change services. */
#include "api/body.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "doctor/check.h"
#include "health/health.h"

#define AREA_ALL "all"

/* --- log --- */

static void log_print(struct http_reply *reply)
{
	struct jsonw w;

	body_begin(reply, &w);
	jsonw_array(&w, "areas");
	for (int i = 0; i < LOG_AREA_N; i++) {
		jsonw_object(&w, NULL);
		jsonw_text(&w, "area", log_area_text((enum log_area)i));
		jsonw_text(&w, "level", log_level_text(log_level_get((enum log_area)i)));
		jsonw_uint(&w, "suppressed", log_suppressed((enum log_area)i));
		jsonw_end(&w);
	}
	jsonw_end(&w);
	body_end(reply, &w);
}

/* False: `reply` has the error. */
static bool log_change(struct http_reply *reply, const char *area_text, const char *level_text)
{
	bool is_all = area_text != NULL && strcmp(area_text, AREA_ALL) == 0;
	int area = area_text != NULL ? log_area_parse(area_text) : -1;
	int level = level_text != NULL ? log_level_parse(level_text) : -1;

	if (area < 0 && !is_all)
		http_reply_error(reply, 400,
				 "area: '%.64s' is neither all nor an area that vipctl log lists",
				 area_text != NULL ? area_text : "");
	else if (level < 0)
		http_reply_error(reply, 400,
				 "level: '%.64s' is not error, warn, notice, info or debug",
				 level_text != NULL ? level_text : "");
	if (level < 0 || (area < 0 && !is_all))
		return false;
	if (is_all)
		log_level_set_all((enum log_level)level);
	else
		log_level_set((enum log_area)area, (enum log_level)level);
	log_notice(LOG_AREA_MAIN, "log level of %s: %s, over the control socket", area_text,
		   level_text);
	return true;
}

void admin_log(struct http_reply *reply, const struct serve_context *ctx,
	       const struct http_request *q)
{
	const char *area = http_request_param(q, "area");
	const char *level = http_request_param(q, "level");

	if (!q->is_write || log_change(reply, area, level))
		log_print(reply);
}

/* --- doctor --- */

static void results_print(struct jsonw *w, const json_t *report)
{
	static const char *const keys[] = { "check", "level", "found", "advice" };
	const json_t *result;
	size_t i;

	json_array_foreach (report, i, result) {
		jsonw_object(w, NULL);
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			jsonw_text(w, keys[k], check_text(result, keys[k]));
		jsonw_end(w);
	}
}

/* What only this process has: the Node object, options, and the faults of its plane. */
static void own_results(json_t *own, const struct serve_context *ctx)
{
	static const enum plane_fault_kind kinds[] = { PLANE_FAULT_FAILOVER, PLANE_FAULT_MOVES };
	const char *no_node = ctx->health != NULL ? health_lacks_node(ctx->health) : NULL;
	const char *bridge = serve_missing_bridge(ctx->model);

	if (no_node != NULL)
		check_add(own, "node", CHECK_ERROR, SERVE_NODE_NAME " (kubectl get nodes)",
			  "no Node object named \"%s\": %s",
			  name_text(ctx->model->config.node_name), no_node);
	else if (ctx->model->self != NULL)
		check_add(own, "node", CHECK_OK, NULL, "there is a Node object named \"%s\"",
			  name_text(ctx->model->config.node_name));
	if (bridge != NULL)
		check_add(own, "detect-local", CHECK_WARNING,
			  "correct --pod-bridge-interface, unless the first pod creates the bridge",
			  SERVE_NO_BRIDGE, bridge);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (ctx->plane->faults[kinds[i]].text[0] != '\0')
			check_add(own, "failover", CHECK_WARNING,
				  "remove the object that the fault names, or set --failover=off",
				  "%s", ctx->plane->faults[kinds[i]].text);
}

/* `report`: of the last run; NULL: none yet. */
static void doctor_results(struct jsonw *w, const json_t *report, const struct serve_context *ctx)
{
	json_auto_t *own = json_array();

	if (report != NULL)
		own_results(own, ctx);
	jsonw_text(w, "worst",
		   report == NULL ? NULL
				  : check_level_text(MAX(check_report_worst(report),
							 check_report_worst(own))));
	jsonw_array(w, "results");
	results_print(w, own);
	results_print(w, report);
	jsonw_end(w);
}

void admin_doctor(struct http_reply *reply, const struct serve_context *ctx,
		  const struct http_request *q)
{
	struct check_runs *c = ctx->checks;
	uint64_t runs;
	struct jsonw w;

	if (c == NULL) {
		http_reply_error(reply, 404, "node checks are not available");
		return;
	}
	runs = c->n + (q->is_write && c->process != NULL);
	if (q->is_write)
		check_start(c);
	body_begin(reply, &w);
	jsonw_text(&w, "by", "vipd");
	jsonw_int(&w, "pid", getpid());
	/* The run started by a PUT has ended when `runs` exceeds this value. */
	jsonw_uint(&w, "runs", runs);
	jsonw_bool(&w, "running", c->process != NULL || q->is_write);
	jsonw_uint_if(&w, "age_ms", c->ended_ns != 0, (now_ns() - c->ended_ns) / NSEC_PER_MSEC);
	jsonw_uint(&w, "took_us", c->took_ns / NSEC_PER_USEC);
	doctor_results(&w, c->report, ctx);
	body_end(reply, &w);
}
