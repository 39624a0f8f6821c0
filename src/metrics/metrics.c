/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/metrics - sums updated with each change, and the metrics server. */
#include "metrics/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/page.h"
#include "metrics/counts.h"
#include "metrics/metrics_state.h"
#include "model/select.h"

#define TIME_MAX 64
#define WARNING                                                                           \
	"Warning: This endpoint is not meant to be machine parseable, has no formatting " \
	"compatibility guarantees and is for debugging purposes only.\n\n"

/* --- programmed state --- */

static int port_cmp(const void *a, const void *b)
{
	return CMP(*(const uint32_t *)a, *(const uint32_t *)b);
}

/*
 * Count service ports with a drop verdict, by the traffic policy that causes it (MET-07): a port
 * with three external addresses is one. `sign` is 1 for added rows and -1 for removed rows.
 */
static void no_local_add(struct metrics *m, const struct plan_rows *rows, int sign)
{
	AUTO(vec_fini) VEC(uint32_t) seen = { 0 };

	vec_for_each (f, &rows->frontends) {
		uint32_t is_external = f->kind != PLAN_FRONTEND_CLUSTERIP;

		if (f->target.verdict == PLAN_VERDICT_DROP)
			*vec_push(&seen) = (uint32_t)f->port_index << 2 | is_external << 1 |
					   (uint32_t)ip_fam(&f->addr);
	}
	vec_sort(&seen, port_cmp);
	for (size_t i = 0; i < seen.n; i++)
		if (i == 0 || seen.v[i] != seen.v[i - 1])
			m->n_no_local[seen.v[i] >> 1 & 1][seen.v[i] & 1] += (size_t)sign;
}

static void rows_add(struct metrics *m, const struct plan_rows *rows, int sign)
{
	if (rows == NULL)
		return;
	m->n_programmed += (size_t)sign;
	m->n_frontends += (size_t)sign * rows->frontends.n;
	m->n_pools += (size_t)sign * rows->pools.n;
	vec_for_each (pool, &rows->pools)
		m->n_backends += (size_t)sign * pool->backends.n;
	no_local_add(m, rows, sign);
}

/*
 * MET-06: a sample for each family of the service, if the trigger is younger than the process
 * (IN-40). The age of the process comes from the monotonic clock, so no sample exceeds it: after
 * the wall clock was set forward, earlier triggers look older than the process and are skipped.
 * After it was set back, earlier triggers lie in the future and count as 0.
 */
static void programming_add(struct metrics *m, const struct svc *svc, uint64_t now, int64_t wall_ns)
{
	uint64_t age = now - MIN(now, m->config.ctx->started_ns);
	int64_t took = wall_ns - svc->trigger_ns;

	if (svc->trigger_ns == 0 || svc->service == NULL || took > (int64_t)age)
		return;
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		if (service_has_family(svc->service, fam))
			expo_hist_add(&m->programming[fam], took > 0 ? (uint64_t)took : 0);
}

void metrics_accepted(struct metrics *m, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, uint64_t now_ns, int64_t wall_ns)
{
	rows_add(m, old, -1);
	rows_add(m, new, 1);
	if (svc != NULL)
		programming_add(m, svc, now_ns, wall_ns);
}

/* --- the sync --- */

void metrics_stepped(struct metrics *m)
{
	const struct serve_context *ctx = m->config.ctx;
	const struct sync_stats *st = sync_stats_get(ctx->sync);
	bool is_running = sync_state_get(ctx->sync) == SYNC_RUNNING;

	/* All transactions of an adoption count as one full sync. */
	if (st->last_step_ns != m->seen_step_ns && is_running && m->seen_loads == st->loads) {
		expo_hist_add(&m->sync_time, st->last_step_took_ns);
		expo_hist_add(&m->partial_time, st->last_step_took_ns);
	}
	m->seen_step_ns = st->last_step_ns;
	if (is_running && m->seen_loads != st->loads) {
		expo_hist_add(&m->sync_time, st->last_load_took_ns);
		expo_hist_add(&m->full_time, st->last_load_took_ns);
		m->seen_loads = st->loads;
	}
	if (list_is_empty(&ctx->model->dirty))
		m->consumed_slices = ctx->model->stats.slice_events;
}

void metrics_queued(struct metrics *m, int64_t wall_ns)
{
	const struct model *model = m->config.ctx->model;

	if (list_is_empty(&model->dirty) && m->queued_env == model->env_generation)
		return;
	m->queued_env = model->env_generation;
	m->queued_wall_ns = wall_ns;
}

void metrics_conntrack(struct metrics *m, uint64_t took_ns, const struct pass_result *total)
{
	expo_hist_add(&m->conntrack_time, took_ns);
	m->scans = *total;
}

/* --- debugging pages of Kubernetes components, in the format of kube-proxy --- */

static void configz(const struct metrics_config *c, struct http_reply *reply)
{
	reply->type = "application/json";
	str_printf(&reply->body, "%s\n", c->ctx->configz);
}

static void flagz(const struct metrics_config *c, struct http_reply *reply)
{
	const char *name;
	json_t *value;

	str_puts(&reply->body, "\nvipd flagz\n" WARNING);
	json_object_foreach (c->ctx->options, name, value)
		str_printf(&reply->body, "%s=%s\n", name, json_string_value(value));
}

static void statusz(const struct metrics_config *c, struct http_reply *reply)
{
	time_t started = (time_t)(c->started_wall_ns / (int64_t)NSEC_PER_SEC);
	uint64_t up = (now_ns() - c->ctx->started_ns) / NSEC_PER_SEC;
	char text[TIME_MAX];
	struct tm tm;

	(void)gmtime_r(&started, &tm);
	(void)strftime(text, sizeof(text), "%a %b %e %H:%M:%S UTC %Y", &tm);
	str_printf(&reply->body,
		   "\nvipd statusz\n" WARNING "Started: %s\nUp: %" PRIu64 " hr %02" PRIu64
		   " min %02" PRIu64 " sec\nBinary version: %s\nPaths: /configz /flagz /healthz "
		   "/metrics /metrics/slis /proxyMode /statusz\n",
		   text, up / 3600, up / 60 % 60, up % 60, VIPD_VERSION);
}

static void slis(const struct metrics_config *c, struct http_reply *reply)
{
	static const char *const types[HEALTH_PROBES] = { "healthz", "livez" };
	static const char *const statuses[] = { "error", "success" };
	struct str *out = &reply->body;
	struct health_facts facts;

	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	if (c->ctx->health == NULL)
		return;
	health_facts_get(&facts, c->ctx->health, now_ns(), 0);
	expo_head(out, "kubernetes_healthcheck", "gauge",
		  "[STABLE] This metric records the result of a single healthcheck.");
	for (int q = 0; q < HEALTH_PROBES; q++) {
		FINI(str_fini) struct str body = { 0 };

		expo_uint(out, "kubernetes_healthcheck",
			  str_local(96, "name=\"proxy\",type=\"%s\"", types[q]),
			  health_answer(&body, &facts, (enum health_probe)q) == 200);
	}
	expo_head(out, "kubernetes_healthchecks_total", "counter",
		  "[STABLE] This metric records the results of all healthcheck.");
	for (int q = 0; q < HEALTH_PROBES; q++)
		for (int good = 0; good < 2; good++)
			expo_uint(out, "kubernetes_healthchecks_total",
				  str_local(96, "name=\"proxy\",status=\"%s\",type=\"%s\"",
					    statuses[good], types[q]),
				  health_answers(c->ctx->health, (enum health_probe)q, good));
}

/*
 * /configz and /flagz: the configuration in force, as JSON and as flags (CFG-47, CFG-48). /statusz:
 * version, start time, paths. /metrics/slis: results of the health checks as metrics (MET-28). No
 * page contains secrets: files appear by name, and URLs without user information. False when the
 * path is none of these; `reply` is unchanged.
 */
static bool zpages_answer(const struct metrics_config *config, const struct http_request *q,
			  struct http_reply *reply)
{
	static const struct {
		const char *path;
		void (*answer)(const struct metrics_config *c, struct http_reply *reply);
	} pages[] = {
		{ "/configz", configz },
		{ "/flagz", flagz },
		{ "/statusz", statusz },
		{ "/metrics/slis", slis },
	};

	for (size_t i = 0; config->ctx->configz != NULL && i < ARRAY_SIZE(pages); i++) {
		if (strcmp(q->path, pages[i].path) != 0)
			continue;
		reply->status = 200;
		pages[i].answer(config, reply);
		return true;
	}
	return false;
}

/* --- the server --- */

static void answer(void *arg, const struct http_request *q, struct http_reply *reply)
{
	struct metrics *m = arg;
	const struct serve_context *ctx = m->config.ctx;

	reply->status = 200;
	reply->type = "text/plain; charset=utf-8";
	str_puts(&reply->headers, "X-Content-Type-Options: nosniff\r\n");
	if (!page_host_is_good(ctx, q->host)) {
		http_reply_error(reply, 403,
				 "Host '%.64s': not an address, localhost or the name of the node",
				 q->host ? q->host : "");
		return;
	}
	if (m->config.has_page && page_answer(ctx, q, reply))
		return;
	if (strcmp(q->path, "/metrics") == 0) {
		reply->type = "text/plain; version=0.0.4; charset=utf-8";
		metrics_text(m, &reply->body, now_ns(), wall_now_ns());
		if (ctx->counting != PLANE_COUNT_NONE)
			counts_reply(reply, ctx, COUNTS_SERIES_MAX);
	} else if (strcmp(q->path, "/proxyMode") == 0) {
		str_puts(&reply->body, ctx->plane->ops->name);
	} else if (strcmp(q->path, "/healthz") == 0) {
		str_puts(&reply->body, "ok");
	} else if (!zpages_answer(&m->config, q, reply)) {
		http_reply_error(reply, 404,
				 "path not found; available: /metrics, /metrics/slis, /proxyMode, "
				 "/healthz, /configz, /flagz, /statusz");
	}
}

int metrics_open(struct metrics **ret, struct event_base *base, const struct metrics_config *config,
		 struct err *err)
{
	AUTO(metrics_close) struct metrics *m = xcalloc(1, sizeof(*m));
	const struct http_port_config port = {
		.at = config->at,
		.is_hard_fail = config->is_hard_fail,
		.http = { HTTP_CONFIG_DEFAULT, .class = HTTP_METRICS, .handler = answer, .arg = m },
	};
	int r = 0;

	m->config = *config;
	m->queued_wall_ns = config->started_wall_ns; /* MET-05 */
	m->sync_time.bounds = m->full_time.bounds = m->partial_time.bounds = expo_e15;
	m->conntrack_time.bounds = expo_e15;
	m->programming[IPFAM_V4].bounds = m->programming[IPFAM_V6].bounds = expo_npl;
	if (config->at.port != 0)
		r = http_port_open(&m->port, base, &port, err);
	if (r == 0)
		*ret = TAKE(m);
	return r;
}

void metrics_close(struct metrics *m)
{
	if (m == NULL)
		return;
	http_port_close(m->port);
	free(m);
}
