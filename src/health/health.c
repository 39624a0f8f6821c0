/* SPDX-License-Identifier: GPL-2.0-or-later */
/* health/health - health facts, the answers computed from them, and the health server. */
#include "health/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/jsonw.h"

#define TIME_MAX 64

struct health {
	struct health_config config;
	struct http_port *port;
	uint64_t answers[HEALTH_PROBES][2]; /* [probe][is 200] */
};

/* --- the answer --- */

bool health_is_good(const struct health_facts *f)
{
	return f->pending_since_ns == 0 || f->now_ns < f->pending_since_ns ||
	       f->now_ns - f->pending_since_ns < f->limit_ns;
}

/* RFC 3339 with nanoseconds. */
static void time_put(struct jsonw *w, const char *key, int64_t unix_ns)
{
	time_t s = (time_t)(unix_ns / (int64_t)NSEC_PER_SEC);
	char text[TIME_MAX];
	struct tm tm;

	(void)gmtime_r(&s, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	jsonw_printf(w, key, "%s.%09lldZ", text, (long long)(unix_ns % (int64_t)NSEC_PER_SEC));
}

int health_answer(struct str *body, const struct health_facts *f, enum health_probe q)
{
	struct jsonw w = { .out = body };
	bool is_good = health_is_good(f);
	bool is_healthy = is_good && (q == HEALTH_LIVE || (f->has_synced && f->unready == NULL));
	bool is_ok = is_healthy && (q == HEALTH_LIVE || f->is_eligible);
	uint64_t updated_ns = f->updated_ns ? f->updated_ns : f->started_ns;
	/* By its age: independent of changes of the wall clock since. */
	int64_t updated = f->wall_ns - (int64_t)(f->now_ns - MIN(f->now_ns, updated_ns));

	jsonw_object(&w, NULL);
	time_put(&w, "lastUpdated", is_ok ? f->wall_ns : updated); /* HC-11 */
	time_put(&w, "currentTime", f->wall_ns);
	jsonw_bool(&w, "healthy", is_healthy);
	if (q == HEALTH_READY)
		jsonw_bool(&w, "nodeEligible", f->is_eligible);
	if (q == HEALTH_READY && !is_ok && f->reason[0] != '\0')
		jsonw_text(&w, "reason", f->reason);
	if (f->has_synced) {
		jsonw_object(&w, "status");
		for (enum ipfam fam = 0; fam < IPFAM_N; fam++) {
			jsonw_object(&w, ipfam_text(fam));
			time_put(&w, "lastUpdated", updated);
			jsonw_bool(&w, "healthy", is_good && !f->has_failed[fam]);
			jsonw_end(&w);
		}
		jsonw_end(&w);
	}
	jsonw_end(&w);
	return is_ok ? 200 : 503;
}

/* --- facts --- */

/* HC-08; false: `reason`, of HEALTH_REASON_MAX bytes, says why. */
static bool node_is_eligible(const struct health *h, char *reason)
{
	const struct model *m = h->config.ctx->model;

	if (m->self == NULL && h->config.is_node_optional)
		return true;
	if (m->self == NULL)
		(void)snprintf(reason, HEALTH_REASON_MAX, "no Node object named \"%s\"",
			       name_text(m->config.node_name));
	else if (m->self->is_deleting)
		strcpy(reason, "the Node is being deleted");
	else if (m->self->has_autoscaler_taint)
		strcpy(reason, "the Node has the taint ToBeDeletedByClusterAutoscaler");
	else
		return true;
	return false;
}

const char *health_lacks_node(const struct health *h)
{
	const struct serve_context *ctx = h->config.ctx;

	if (ctx->model->self != NULL || sync_state_get(ctx->sync) == SYNC_WAITING)
		return NULL;
	if (!h->config.is_node_optional)
		return "/healthz answers 503, and no endpoint counts as local";
	return ctx->model->stats.other_nodes > 0
		       ? "endpoints of other node names do not count as local"
		       : NULL;
}

/* The reason for status 503 of /healthz; empty with status 200. */
static void reason_set(struct health_facts *f, const struct health *h)
{
	f->is_eligible = node_is_eligible(h, f->reason);
	if (f->unready != NULL)
		(void)snprintf(f->reason, sizeof(f->reason), "%s", f->unready);
	else if (!health_is_good(f))
		(void)snprintf(
			f->reason, sizeof(f->reason),
			"changes have been pending for %llu s; the limit is %llu s",
			(unsigned long long)((f->now_ns - f->pending_since_ns) / NSEC_PER_SEC),
			(unsigned long long)(f->limit_ns / NSEC_PER_SEC));
	else if (!f->has_synced)
		strcpy(f->reason, "the first sync is not complete");
}

void health_facts_get(struct health_facts *ret, const struct health *h, uint64_t now_ns,
		      int64_t wall_ns)
{
	const struct sync *sync = h->config.ctx->sync;
	const struct sync_stats *stats = sync_stats_get(sync);

	*ret = (struct health_facts){
		.wall_ns = wall_ns,
		.now_ns = now_ns,
		.started_ns = h->config.ctx->started_ns,
		.updated_ns = stats->last_success_ns,
		.pending_since_ns = sync_pending_since(sync),
		.limit_ns = 2 * h->config.sync_period_ns,
		.has_synced = stats->first_sync_ns != 0,
		.unready = plane_unready(h->config.ctx->plane),
	};
	for (int fam = 0; fam < IPFAM_N; fam++)
		ret->has_failed[fam] = plane_family_has_failed(h->config.ctx->plane, fam);
	reason_set(ret, h);
}

bool health_is_serving(const struct health *h)
{
	struct health_facts facts;

	health_facts_get(&facts, h, now_ns(), 0);
	return health_is_good(&facts) && facts.unready == NULL;
}

/* --- the server --- */

static void answer(void *arg, const struct http_request *q, struct http_reply *reply)
{
	struct health *h = arg;
	struct health_facts facts;
	enum health_probe probe = HEALTH_READY;

	if (strcmp(q->path, "/livez") == 0) {
		probe = HEALTH_LIVE;
	} else if (strcmp(q->path, "/healthz") != 0) {
		http_reply_error(reply, 404, "path not found; available: /healthz, /livez");
		return;
	}
	health_facts_get(&facts, h, now_ns(), wall_now_ns());
	reply->type = "application/json";
	str_puts(&reply->headers, "X-Content-Type-Options: nosniff\r\n");
	reply->status = health_answer(&reply->body, &facts, probe);
	h->answers[probe][reply->status == 200]++;
}

int health_open(struct health **ret, struct event_base *base, const struct health_config *config,
		struct err *err)
{
	AUTO(health_close) struct health *h = xcalloc(1, sizeof(*h));
	struct http_port_config port = {
		.at = config->at,
		.is_hard_fail = config->is_hard_fail,
		.http = { HTTP_CONFIG_DEFAULT, .class = HTTP_HEALTH, .takes = HTTP_TAKES_ANY,
			  .handler = answer, .arg = h },
	};
	int r = 0;

	h->config = *config;
	port.http.connections_max = 256; /* probes of many load balancers */
	port.http.head_ms = HTTP_PROBE_HEAD_MS;
	if (config->at.port != 0)
		r = http_port_open(&h->port, base, &port, err);
	if (r == 0)
		*ret = TAKE(h);
	return r;
}

void health_close(struct health *h)
{
	if (h == NULL)
		return;
	http_port_close(h->port);
	free(h);
}

uint64_t health_answers(const struct health *h, enum health_probe q, bool is_good)
{
	return h->answers[q][is_good];
}
