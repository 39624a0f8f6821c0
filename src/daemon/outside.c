/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/outside - who is told what. */
#include "daemon/outside.h"

#include <stdlib.h>
#include <time.h>

#include "api/history.h"
#include "api/page.h"
#include "base/log.h"
#include "daemon/notify.h"

#define STATUS_PERIOD_NS NSEC_PER_SEC /* what people read need not be told more often */

struct outside {
	const struct serve_context *ctx;
	struct health *health;
	struct health_services *services;
	struct history *history;
	struct page_server *page; /* NULL: not wanted */
	struct metrics *metrics;
	struct notify *notify;
	uint64_t status_ns;  /* when the status was last told */
	bool is_node_missed; /* and logged */
};

static int64_t wall_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * (int64_t)NSEC_PER_SEC + ts.tv_nsec;
}

static bool is_healthy(void *arg)
{
	const struct outside *o = arg;
	struct health_facts facts;

	health_facts_get(&facts, o->health, now_ns(), wall_now());
	return health_is_good(&facts) && facts.unready == NULL;
}

static int open_parts(struct outside *o, struct event_base *base, const struct outside_config *c,
		      struct err *err)
{
	struct health_config health = {
		.ctx = c->ctx,
		.sync_period_ns = c->sync_period_ns,
		.is_node_optional = c->is_node_optional,
		.at = c->healthz,
		.is_hard_fail = c->is_hard_fail,
	};
	struct health_services_config services = { c->ctx->model, is_healthy, o };
	struct metrics_config metrics = {
		.ctx = c->ctx,
		.at = c->metrics,
		.is_hard_fail = c->is_hard_fail,
		.started_wall_ns = wall_now(),
		.mode = c->mode,
		.counting = c->counting,
		.sources = c->sources,
		.refresh = c->refresh,
		.config = c->config,
		.flags = c->flags,
		.arg = c->arg,
	};
	int r = health_open(&o->health, base, &health, err);

	if (r < 0)
		return r;
	health_services_open(&o->services, base, &services);
	history_open(&o->history, c->ctx);
	if (c->has_page)
		page_server_open(&o->page, c->ctx);
	metrics.page = o->page;
	metrics.health = o->health;
	metrics.health_services = o->services;
	return metrics_open(&o->metrics, base, &metrics, err);
}

int outside_open(struct outside **ret, struct event_base *base, const struct outside_config *config,
		 struct err *err)
{
	struct outside *o = xcalloc(1, sizeof(*o));
	int r;

	o->ctx = config->ctx;
	r = open_parts(o, base, config, err);
	if (r < 0) {
		outside_close(o);
		return r;
	}
	notify_open(&o->notify, base);
	notify_status(o->notify, "waiting for the first complete lists");
	*ret = o;
	return 0;
}

void outside_close(struct outside *o)
{
	if (o == NULL)
		return;
	notify_close(o->notify);
	metrics_close(o->metrics);
	page_server_close(o->page);
	history_close(o->history);
	health_services_close(o->services);
	health_close(o->health);
	free(o);
}

const struct health *outside_health(const struct outside *o)
{
	return o->health;
}

const struct history *outside_history(const struct outside *o)
{
	return o->history;
}

void outside_accepted(struct outside *o, const struct svc *svc, const struct plan_rows *old,
		      const struct plan_rows *new, bool is_whole)
{
	if (!is_whole) {
		metrics_piece_accepted(o->metrics, old, new);
		return;
	}
	metrics_accepted(o->metrics, svc, old, new, now_ns(), wall_now());
	health_services_accepted(o->services, svc);
}

static void status_tell(struct outside *o)
{
	struct str text = { 0 };
	uint64_t now = now_ns();
	size_t refused = sync_failure_count(o->ctx->sync);

	if (o->status_ns != 0 && now - o->status_ns < STATUS_PERIOD_NS)
		return;
	o->status_ns = now;
	switch (sync_state_get(o->ctx->sync)) {
	case SYNC_WAITING:
		str_puts(&text, "waiting for the first complete lists");
		break;
	case SYNC_LOADING:
		str_puts(&text, "reading what the kernel holds");
		break;
	case SYNC_ADOPTING:
		str_puts(&text, "comparing every service with what the kernel holds");
		break;
	case SYNC_RUNNING:
		str_printf(&text, "services in the kernel: %zu", o->ctx->model->stats.services);
		if (refused > 0)
			str_printf(&text, ", %zu refused", refused);
		break;
	}
	notify_status(o->notify, text.text);
	str_fini(&text);
}

/* Once when it is missed, and once when it is there. */
static void node_tell(struct outside *o)
{
	bool is_missed = health_lacks_node(o->health);
	const struct name *name = o->ctx->model->config.node_name;

	if (is_missed && !o->is_node_missed)
		log_warn(LOG_AREA_HTTP, "no Node object named \"%s\": " SERVE_NO_NODE,
			 name_text(name));
	else if (!is_missed && o->is_node_missed)
		log_notice(LOG_AREA_HTTP, "Node object \"%s\": known now", name_text(name));
	o->is_node_missed = is_missed;
}

void outside_stepped(struct outside *o)
{
	node_tell(o);
	metrics_stepped(o->metrics);
	history_note(o->history, now_ns());
	health_services_env(o->services);
	if (sync_stats_get(o->ctx->sync)->first_sync_ns != 0)
		notify_ready(o->notify);
	status_tell(o);
}

void outside_changed(struct outside *o)
{
	metrics_queued(o->metrics, wall_now());
	history_note(o->history, now_ns());
}

void outside_conntrack(struct outside *o, uint64_t took_ns, uint64_t deleted)
{
	metrics_conntrack(o->metrics, took_ns, deleted);
}
