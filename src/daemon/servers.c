/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/servers - open, close and update health, metrics, history, page and notifications. */
#include "daemon/servers.h"

#include <stdlib.h>

#include "api/history.h"
#include "base/log.h"
#include "daemon/notify.h"

#define READY_LATEST_NS (10 * NSEC_PER_SEC) /* of a start without a first sync */
#define STATUS_PERIOD_NS NSEC_PER_SEC       /* minimum interval of STATUS= messages */
#define WAITING "waiting for the first complete lists"

struct servers {
	const struct serve_context *ctx;
	struct health *health;
	struct health_services *services;
	struct history *history;
	struct metrics *metrics;
	struct notify *notify;
	uint64_t status_ns; /* last STATUS= message */
	bool lacks_node;    /* logged */
};

static int open_parts(struct servers *s, struct event_base *base, const struct options *o,
		      struct err *err)
{
	const struct health_config health = {
		.ctx = s->ctx,
		.sync_period_ns = o->sync.period_ns,
		.is_node_optional = o->manifests != NULL,
		.at = o->servers.healthz,
		.is_hard_fail = o->servers.is_hard_fail,
	};
	const struct metrics_config metrics = {
		.ctx = s->ctx,
		.at = o->servers.metrics,
		.has_page = options_has_page(o),
		.is_hard_fail = o->servers.is_hard_fail,
		.started_wall_ns = wall_now_ns(),
	};
	int r = health_open(&s->health, base, &health, err);

	if (r < 0)
		return r;
	health_services_open(&s->services, base, s->ctx->model, s->health);
	history_open(&s->history, s->ctx);
	return metrics_open(&s->metrics, base, &metrics, err);
}

int servers_open(struct servers **ret, struct event_base *base, struct serve_context *ctx,
		 const struct options *options, struct err *err)
{
	AUTO(servers_close) struct servers *s = xcalloc(1, sizeof(*s));
	int r;

	s->ctx = ctx;
	r = open_parts(s, base, options, err);
	if (r < 0)
		return r;
	notify_open(&s->notify, base, READY_LATEST_NS);
	notify_status(s->notify, WAITING);
	ctx->health = s->health;
	ctx->history = s->history;
	ctx->health_services = s->services;
	*ret = TAKE(s);
	return 0;
}

void servers_close(struct servers *s)
{
	if (s == NULL)
		return;
	notify_close(s->notify);
	metrics_close(s->metrics);
	history_close(s->history);
	health_services_close(s->services);
	health_close(s->health);
	free(s);
}

void servers_accepted(struct servers *s, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, bool is_whole)
{
	metrics_accepted(s->metrics, is_whole ? svc : NULL, old, new, now_ns(), wall_now_ns());
	if (is_whole)
		health_services_accepted(s->services, svc);
}

static void status_notify(struct servers *s)
{
	static const char *const states[] = {
		[SYNC_WAITING] = WAITING,
		[SYNC_LOADING] = "loading kernel state",
		[SYNC_ADOPTING] = "adopting kernel state",
		[SYNC_RUNNING] = "services received: ",
	};
	enum sync_state state = sync_state_get(s->ctx->sync);
	FINI(str_fini) struct str text = { 0 };
	uint64_t now = now_ns();
	size_t rejected = sync_failure_count(s->ctx->sync);

	if (s->status_ns != 0 && now - s->status_ns < STATUS_PERIOD_NS)
		return;
	s->status_ns = now;
	str_puts(&text, states[state]);
	if (state == SYNC_RUNNING)
		str_printf(&text, "%zu", s->ctx->model->stats.services);
	if (state == SYNC_RUNNING && rejected > 0)
		str_printf(&text, ", rejected: %zu", rejected);
	notify_status(s->notify, text.text);
}

/* Log the absence of the Node object once, and its creation. */
static void node_log(struct servers *s)
{
	const char *effect = health_lacks_node(s->health);
	const struct name *name = s->ctx->model->config.node_name;

	if (effect != NULL && !s->lacks_node)
		log_warn(LOG_AREA_HTTP, "no Node object named \"%s\": %s; " SERVE_NODE_NAME,
			 name_text(name), effect);
	else if (effect == NULL && s->lacks_node)
		log_notice(LOG_AREA_HTTP, "Node object \"%s\": recovered; received from the source",
			   name_text(name));
	s->lacks_node = effect != NULL;
}

void servers_stepped(struct servers *s)
{
	node_log(s);
	metrics_stepped(s->metrics);
	history_note(s->history, now_ns());
	health_services_env(s->services);
	if (sync_stats_get(s->ctx->sync)->first_sync_ns != 0)
		notify_ready(s->notify);
	status_notify(s);
}

void servers_changed(struct servers *s)
{
	metrics_queued(s->metrics, wall_now_ns());
	history_note(s->history, now_ns());
}

struct metrics *servers_metrics(const struct servers *s)
{
	return s->metrics;
}
