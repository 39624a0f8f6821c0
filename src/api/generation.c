/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/generation - hash of counters, and the ETag header. */
#include "api/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "conntrack/failover.h"
#include "doctor/helper.h"
#include "health/health.h"

#define TAG_MAX 24

static void mix(uint64_t *h, const void *data, size_t len)
{
	*h = hash_bytes_fixed(data, len, *h, len);
}

static void mix_uint(uint64_t *h, uint64_t n)
{
	mix(h, &n, sizeof(n));
}

static void mix_text(uint64_t *h, const char *text)
{
	mix(h, text ? text : "", text ? strlen(text) : 0);
}

/* Selected counters: others change without a change of the answers. */
static void mix_sync(uint64_t *h, const struct sync *sync)
{
	const struct sync_stats *st = sync_stats_get(sync);
	const uint64_t counters[] = {
		st->steps,
		st->services,
		st->writes,
		st->rejected,
		st->loads,
		st->audits,
		st->foreign_changes,
		st->repairs,
		st->failures,
		st->first_sync_ns,
		st->last_step_ns,
		st->last_error_ns,
		st->event_to_ack.count,
		st->step_time.count,
		(uint64_t)sync_state_get(sync),
		sync_failure_count(sync),
	};

	mix(h, counters, sizeof(counters));
}

static void mix_health(uint64_t *h, const struct health *health)
{
	struct health_facts f;

	health_facts_get(&f, health, now_ns(), 0);
	mix_uint(h, (uint64_t)health_is_good(&f) << 2 | (uint64_t)f.has_synced << 1 |
			    (uint64_t)f.is_eligible);
	mix_text(h, f.reason);
}

static void mix_errors(uint64_t *h, size_t n, const struct serve_source_errors *list)
{
	mix_uint(h, n);
	for (size_t i = 0; i < list->n; i++) {
		mix_text(h, list->v[i].where);
		mix_text(h, list->v[i].text);
	}
}

/* The first errors and notes by place and text, further ones by number. */
static void mix_source(uint64_t *h, const struct serve_source *source)
{
	FINI(serve_source_info_fini) struct serve_source_info info = { 0 };

	if (source->describe == NULL)
		return;
	source->describe(source->arg, &info);
	mix_text(h, info.text);
	mix_text(h, info.waiting_for);
	mix_text(h, info.unknown);
	mix_uint(h, info.is_complete);
	mix_errors(h, info.n_errors, &info.errors);
	mix_errors(h, info.n_notes, &info.notes);
}

/* By operators and, with the ipvs plane, of removed endpoints. */
static void mix_drains(uint64_t *h, const struct serve_context *ctx)
{
	const struct plane *p = ctx->plane;
	struct plane_drains d = { 0 };

	if (p->ops->drains != NULL)
		p->ops->drains(p, &d);
	mix_uint(h, d.n_draining);
	mix_uint(h, d.n_drained);
	mix_uint(h, d.n_timed_out);
	mix_uint(h, ctx->model->drains.n);
	mix_uint(h, ctx->model->ejections.n);
}

/* Those of the log change while vipd runs. */
static void mix_options(uint64_t *h, const struct serve_context *ctx)
{
	for (size_t i = 0; i < ctx->n_options; i++) {
		mix_text(h, ctx->options[i].name);
		mix_text(h, ctx->options[i].value);
	}
}

static uint64_t generation(const struct serve_context *ctx)
{
	uint64_t h = ctx->started_ns ^ (uint64_t)getpid();

	mix(&h, &ctx->model->stats, sizeof(ctx->model->stats));
	mix_uint(&h, ctx->model->env_generation);
	mix_uint(&h, ctx->plan->n_conflicts);
	mix_uint(&h, ctx->plan->n_unsticky);
	mix_uint(&h, ctx->plan->n_host_cluster_ips);
	for (int i = 0; i < PLANE_FAULT_N; i++)
		mix_text(&h, ctx->plane->faults[i].text);
	mix_source(&h, &ctx->source);
	mix_drains(&h, ctx);
	mix_options(&h, ctx);
	if (ctx->failover != NULL) {
		mix_uint(&h, failover_unanswered(ctx->failover));
		mix_uint(&h, failover_n_silent(ctx->failover));
	}
	if (ctx->checks != NULL)
		mix_uint(&h, check_helper_state(ctx->checks).runs);
	mix_sync(&h, ctx->sync);
	if (ctx->health != NULL)
		mix_health(&h, ctx->health);
	return h;
}

bool serve_unchanged(struct http_reply *reply, const struct serve_context *ctx,
		     const struct http_request *q)
{
	char tag[TAG_MAX];

	(void)snprintf(tag, sizeof(tag), "\"%016" PRIx64 "\"", generation(ctx));
	str_printf(&reply->headers, "ETag: %s\r\n", tag);
	if (q->if_none_match == NULL || strstr(q->if_none_match, tag) == NULL)
		return false;
	reply->status = 304;
	reply->type = "application/json";
	return true;
}
