/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/view_status - state of the daemon: node, sources, sync, pending services, problems. */
#include "api/view.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/control.h"
#include "conntrack/failover.h"
#include "health/health_service.h"
#include "http/http_port.h"
#include "state/state.h"

#define REJECTED_SHOWN 50
#define REJECTED_SORTED_MAX 5000 /* above this, only the count: sorting takes too long */

/* Has `svc` annotations that are not in force? */
static bool has_remark(const struct plane *p, const struct svc *svc)
{
	FINI(str_fini) struct str text = { 0 };

	if (p->ops->remark == NULL || svc->rows == NULL || svc->service == NULL ||
	    svc->service->tuning == NULL)
		return false;
	p->ops->remark(p, svc, &text);
	return text.len > 0;
}

void view_totals_add(struct view_totals *t, const struct serve_context *ctx, const struct svc *svc)
{
	const struct plan_rows *rows = svc->rows;
	struct serve_facts *f = &t->scratch;

	serve_facts_get(f, ctx, svc);
	t->n_states[f->state]++;
	if (rows != NULL) {
		t->n_frontends += rows->frontends.n;
		t->n_pools += rows->pools.n;
		vec_for_each (pool, &rows->pools)
			t->n_backends += pool->backends.n;
	}
	t->n_remarks += has_remark(ctx->plane, svc);
	if (f->state != SERVE_STATE_PENDING && f->state != SERVE_STATE_REJECTED)
		return;
	t->n_pending++;
	if (svc->dirty_since_ns > 1 &&
	    (t->pending_since_ns == 0 || svc->dirty_since_ns < t->pending_since_ns))
		t->pending_since_ns = svc->dirty_since_ns;
}

void view_age(struct jsonw *w, const char *key, uint64_t then_ns, uint64_t now)
{
	jsonw_uint_if(w, key, then_ns != 0, (now - MIN(now, then_ns)) / NSEC_PER_MSEC);
}

void view_failure(struct jsonw *w, const struct sync_failure *f, uint64_t now)
{
	jsonw_text(w, "text", f->text);
	if (now == 0)
		return;
	jsonw_uint(w, "attempts", f->attempts);
	view_age(w, "since_ms", f->since_ns, now);
	jsonw_uint(w, "retry_ms", (MAX(f->retry_ns, now) - now) / NSEC_PER_MSEC);
}

/* --- this node --- */

static const char *const detect_words[] = {
	[DETECT_LOCAL_UNSET] = NULL,
	[DETECT_LOCAL_CLUSTER_CIDR] = "ClusterCIDR",
	[DETECT_LOCAL_NODE_CIDR] = "NodeCIDR",
	[DETECT_LOCAL_BRIDGE] = "BridgeInterface",
	[DETECT_LOCAL_PREFIX] = "InterfaceNamePrefix",
};

static void view_detect_local(struct jsonw *w, const struct model *m)
{
	const struct model_env *env = &m->env;

	jsonw_object(w, "detect_local");
	jsonw_text(w, "mode", detect_words[m->config.detect_local]);
	jsonw_text(w, "interface",
		   m->config.detect_ifname[0] != '\0' ? m->config.detect_ifname : NULL);
	jsonw_prefixes(w, "prefixes", env->pod_cidrs.v, env->pod_cidrs.n);
	jsonw_bool(w, "ipv4", env->has_detector[IPFAM_V4]);
	jsonw_bool(w, "ipv6", env->has_detector[IPFAM_V6]);
	jsonw_end(w);
}

void view_node(struct jsonw *w, const struct model *m)
{
	const struct model_env *env = &m->env;

	jsonw_object(w, "node");
	jsonw_name(w, "name", m->config.node_name);
	jsonw_name(w, "zone", env->zone);
	jsonw_addrs(w, "addresses", env->node_ip, IPFAM_N);
	jsonw_addrs(w, "nodeport_addresses", env->nodeport_addrs.v, env->nodeport_addrs.n);
	jsonw_prefixes(w, "service_cidrs", env->service_cidrs.v, env->service_cidrs.n);
	jsonw_bool(w, "masquerade_all", m->config.is_masquerade_all);
	jsonw_bool(w, "preserve_local_source", m->config.preserves_local_source);
	view_detect_local(w, m);
	jsonw_end(w);
}

/* --- sync --- */

/* Upper bound of the bucket of the q/1000 quantile, at most the maximum. */
static uint64_t quantile_ns(const struct hist *h, uint64_t q)
{
	uint64_t rank = (h->count * q + 999) / 1000;
	uint64_t seen = 0;

	for (unsigned int i = 0; i < HIST_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return MIN((UINT64_C(1) << i) * NSEC_PER_USEC, h->max_ns);
	}
	return h->max_ns;
}

static void view_hist(struct jsonw *w, const char *key, const struct hist *h)
{
	jsonw_object(w, key);
	jsonw_uint(w, "count", h->count);
	jsonw_uint(w, "mean_us", h->count ? h->sum_ns / h->count / NSEC_PER_USEC : 0);
	jsonw_uint(w, "p50_us", h->count ? quantile_ns(h, 500) / NSEC_PER_USEC : 0);
	jsonw_uint(w, "p99_us", h->count ? quantile_ns(h, 990) / NSEC_PER_USEC : 0);
	jsonw_uint(w, "max_us", h->max_ns / NSEC_PER_USEC);
	jsonw_end(w);
}

static void view_last_sync(struct jsonw *w, const struct sync_stats *st, uint64_t now)
{
	if (!jsonw_object_if(w, "last", st->last_sync_ns != 0))
		return;
	view_age(w, "age_ms", st->last_sync_ns, now);
	jsonw_uint(w, "took_us", st->last_sync_took_ns / NSEC_PER_USEC);
	jsonw_uint(w, "services", st->last_sync_services);
	jsonw_uint(w, "writes", st->last_sync_writes);
	jsonw_end(w);
}

static void view_sync(struct jsonw *w, const struct serve_context *ctx, uint64_t now)
{
	const struct sync_stats *st = sync_stats_get(ctx->sync);

	jsonw_object(w, "sync");
	view_last_sync(w, st, now);
	view_age(w, "synced_age_ms", st->last_ok_ns, now);
	jsonw_uint(w, "transactions", st->steps);
	jsonw_uint(w, "services", st->services);
	jsonw_uint(w, "writes", st->writes);
	jsonw_uint(w, "rejections", st->rejected);
	jsonw_uint(w, "loads", st->loads);
	jsonw_uint(w, "audits", st->audits);
	jsonw_uint(w, "foreign_changes", st->foreign_changes);
	jsonw_uint(w, "repairs", st->repairs);
	jsonw_uint_if(w, "first_sync_us", st->first_sync_ns != 0,
		      st->first_sync_ns / NSEC_PER_USEC);
	view_hist(w, "event_to_ack", &st->event_to_ack);
	view_hist(w, "step", &st->step_time);
	if (jsonw_object_if(w, "last_error", st->last_error_ns != 0)) {
		jsonw_text(w, "text", st->last_error);
		view_age(w, "age_ms", st->last_error_ns, now);
		jsonw_end(w);
	}
	jsonw_end(w);
}

static void view_state(struct jsonw *w, const struct serve_context *ctx,
		       const struct serve_source_info *source)
{
	static const struct {
		const char *word;
		const char *text;
	} states[] = {
		[SYNC_WAITING] = { "waiting", NULL },
		[SYNC_LOADING] = { "loading", "loading kernel state" },
		[SYNC_ADOPTING] = { "adopting", "comparing all services with kernel state" },
		[SYNC_RUNNING] = { "running", "following changes of the objects" },
	};
	enum sync_state state = sync_state_get(ctx->sync);

	jsonw_text(w, "state", states[state].word);
	if (state != SYNC_WAITING)
		jsonw_text(w, "state_text", states[state].text);
	else
		jsonw_printf(w, "state_text", "waiting for %s; nothing is written until then",
			     source->waiting_for ? source->waiting_for
						 : "the first complete lists");
}

static void view_health(struct jsonw *w, const struct serve_context *ctx)
{
	struct health_facts f;

	if (!jsonw_object_if(w, "health", ctx->health != NULL))
		return;
	health_facts_get(&f, ctx->health, now_ns(), 0);
	jsonw_bool(w, "live", health_is_good(&f));
	jsonw_bool(w, "ready", f.reason[0] == '\0');
	jsonw_bool(w, "node_eligible", f.is_eligible);
	jsonw_text(w, "reason", f.reason[0] != '\0' ? f.reason : NULL);
	jsonw_uint(w, "limit_ms", f.limit_ns / NSEC_PER_MSEC);
	jsonw_array(w, "failed_families");
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		if (f.has_failed[fam])
			jsonw_text(w, NULL, ipfam_text(fam));
	jsonw_end(w);
	jsonw_end(w);
}

/* --- problems --- */

static void view_rejected(struct jsonw *w, const struct serve_context *ctx,
			  const struct view_totals *t, uint64_t now)
{
	size_t count = sync_failure_count(ctx->sync);
	size_t n = 0;
	AUTO(free) const struct sync_failure **v = NULL;

	if (count > 0 && count <= REJECTED_SORTED_MAX && !t->is_unknown)
		v = sync_failures(ctx->sync, &n);
	jsonw_object(w, "rejected");
	jsonw_uint(w, "count", count);
	jsonw_uint(w, "occupied", sync_occupied_count(ctx->sync));
	jsonw_array(w, "items");
	for (size_t i = 0; i < MIN(n, (size_t)REJECTED_SHOWN); i++) {
		jsonw_object(w, NULL);
		jsonw_names(w, v[i]->ns, v[i]->name);
		view_failure(w, v[i], now);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_end(w);
}

static void view_source_errors(struct jsonw *w, const char *key,
			       const struct serve_source_errors *list, uint64_t now)
{
	jsonw_object(w, key);
	jsonw_uint(w, "count", list->n_all);
	jsonw_array(w, "items");
	vec_for_each (e, list) {
		jsonw_object(w, NULL);
		jsonw_text(w, "where", e->where);
		jsonw_text(w, "text", e->text);
		view_age(w, "since_ms", e->since_ns, now);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_end(w);
}

static void view_source(struct jsonw *w, const struct serve_source_info *source, uint64_t now)
{
	jsonw_object(w, "source");
	jsonw_text(w, "text", source->text);
	jsonw_bool(w, "synced", source->is_complete);
	jsonw_text(w, "waiting_for", source->is_complete ? NULL : source->waiting_for);
	view_age(w, "last_event_ms", source->last_event_ns, now);
	view_source_errors(w, "errors", &source->errors, now);
	view_source_errors(w, "notes", &source->notes, now);
	jsonw_end(w);
}

/* `kind` is the member of the status with details, or a subject. */
PRINTF_LIKE(3, 4)
static void problem(struct jsonw *w, const char *kind, const char *fmt, ...)
{
	AUTO(free) char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	jsonw_object(w, NULL);
	jsonw_text(w, "kind", kind);
	jsonw_text(w, "text", text);
	jsonw_end(w);
}

static void problem_count(struct jsonw *w, const char *kind, uint64_t n, const char *one,
			  const char *many)
{
	if (n > 0)
		problem(w, kind, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

static void problems_sync(struct jsonw *w, const struct serve_context *ctx,
			  const struct serve_source_info *source, const struct view_totals *t)
{
	const struct sync_stats *st = sync_stats_get(ctx->sync);

	if (plane_unready(ctx->plane) == NULL && sync_state_get(ctx->sync) == SYNC_LOADING &&
	    st->last_error_ns != 0)
		problem(w, "kernel", "kernel state cannot be loaded: %s", st->last_error);
	if (sync_is_sweep_pending(ctx->sync))
		problem(w, "sweep", "sweep pending: %s; orphaned frontends: %zu",
			source->unknown != NULL ? source->unknown : SYNC_UNSTEADY,
			t->is_unknown ? 0 : sync_orphaned_count(ctx->sync));
}

static void problems_daemon(struct jsonw *w, const struct serve_context *ctx)
{
	const struct serve_source *s = &ctx->source;
	const char *rejected = s->rejected != NULL ? s->rejected(s->arg) : NULL;
	struct health_services_stats st = { 0 };

	if (rejected != NULL)
		problem(w, "configuration", "%s", rejected);
	for (enum http_class c = 0; c < HTTP_CLASSES; c++)
		if (http_port_failure(c) != NULL)
			problem(w, "server", "%s", http_port_failure(c));
	if (ctx->health_services != NULL)
		st = health_services_stats(ctx->health_services);
	if (st.failure != NULL)
		problem(w, "health-check", "%s; services with this problem: %zu", st.failure,
			st.unbound);
}

static void view_problems(struct jsonw *w, const struct serve_context *ctx,
			  const struct serve_source_info *source, const struct view_totals *t)
{
	const struct model *m = ctx->model;
	const char *no_node = ctx->health != NULL ? health_lacks_node(ctx->health) : NULL;

	jsonw_array(w, "problems");
	problem_count(w, "rejected", sync_failure_count(ctx->sync),
		      "service is rejected by the kernel", "services are rejected by the kernel");
	problem_count(w, "source", source->errors.n_all, "problem with the source",
		      "problems with the source");
	problem_count(w, "conflicts", ctx->plan->n_conflicts,
		      "frontend that a service claims is served by another service",
		      "frontends that services claim are served by other services");
	problem_count(w, "affinity", ctx->plan->n_unsticky,
		      "service has no session affinity: see vipctl svc NAME",
		      "services have no session affinity: see vipctl svc NAME");
	problem_count(w, "annotations", t->n_remarks,
		      "service has annotations that are not in force: see vipctl svc NAME",
		      "services have annotations that are not in force: see vipctl svc NAME");
	problem_count(w, "node", ctx->plan->n_host_cluster_ips,
		      "service has a cluster IP that is an address of this node",
		      "services have a cluster IP that is an address of this node");
	for (int i = 0; i < PLANE_FAULT_N; i++)
		if (ctx->plane->faults[i].text[0] != '\0')
			problem(w, "plane", "%s", ctx->plane->faults[i].text);
	problems_sync(w, ctx, source, t);
	problems_daemon(w, ctx);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		FINI(str_fini) struct str why = { 0 };

		if (serve_nodeports_failure(&why, ctx, fam))
			problem(w, "node", "%s", why.text);
	}
	if (m->config.node_name == NULL || m->config.node_name->len == 0)
		problem(w, "node", "the node's name is unknown: no endpoint counts as local");
	else if (no_node != NULL)
		problem(w, "node", "no Node object named \"%s\": %s; " SERVE_NODE_NAME,
			name_text(m->config.node_name), no_node);
	jsonw_end(w);
}

/* --- all of it --- */

/* Null without --failover. */
static void view_failover(struct jsonw *w, const struct failover *f)
{
	if (!jsonw_object_if(w, "failover", f != NULL))
		return;
	jsonw_uint(w, "unanswered", failover_unanswered(f));
	jsonw_uint(w, "silent", failover_n_silent(f));
	jsonw_end(w);
}

/* Absent on a plane without draining. */
static void view_draining(struct jsonw *w, const struct plane *p)
{
	struct plane_drains d = { 0 };

	if (p->ops->drains == NULL)
		return;
	p->ops->drains(p, &d);
	jsonw_object(w, "draining");
	jsonw_uint(w, "backends", d.n_draining);
	jsonw_uint(w, "drained", d.n_drained);
	jsonw_uint(w, "timed_out", d.n_timed_out);
	jsonw_end(w);
}

static void view_counts(struct jsonw *w, const struct serve_context *ctx,
			const struct view_totals *t)
{
	jsonw_object(w, "counts");
	jsonw_uint(w, "services", ctx->model->stats.services);
	jsonw_uint(w, "slices", ctx->model->stats.slices);
	jsonw_uint(w, "endpoints", ctx->model->stats.endpoints);
	jsonw_uint(w, "frontends", t->n_frontends);
	jsonw_uint(w, "pools", t->n_pools);
	jsonw_uint(w, "backends", t->n_backends);
	jsonw_uint(w, "conflicts", ctx->plan->n_conflicts);
	jsonw_uint(w, "drained", ctx->model->drains.n);
	jsonw_uint(w, "ejected", ctx->model->ejections.n);
	jsonw_end(w);
	view_draining(w, ctx->plane);
	view_failover(w, ctx->failover);
	jsonw_object(w, "states");
	for (int i = SERVE_STATE_OK; i < SERVE_STATE_N; i++)
		jsonw_uint(w, serve_state_names[i], t->n_states[i]);
	jsonw_end(w);
}

void view_status(struct jsonw *w, const struct serve_context *ctx, const struct view_totals *t,
		 uint64_t now)
{
	FINI(serve_source_info_fini) struct serve_source_info source = { 0 };
	const char *option;
	json_t *value;

	if (ctx->source.describe != NULL)
		ctx->source.describe(ctx->source.arg, &source);
	jsonw_object(w, NULL);
	jsonw_uint(w, "api", CONTROL_API_VERSION);
	jsonw_text(w, "version", VIPD_VERSION);
	jsonw_int(w, "pid", getpid());
	view_age(w, "uptime_ms", ctx->started_ns, now);
	view_state(w, ctx, &source);
	view_health(w, ctx);
	jsonw_text(w, "plane", ctx->plane->ops->name);
	jsonw_bool(w, "flush_safe", ctx->plane->is_flush_safe);
	view_node(w, ctx->model);
	view_source(w, &source, now);
	view_counts(w, ctx, t);
	jsonw_object(w, "pending");
	jsonw_uint(w, "services", t->n_pending);
	view_age(w, "oldest_ms", t->pending_since_ns, now);
	jsonw_end(w);
	view_sync(w, ctx, now);
	view_rejected(w, ctx, t, now);
	jsonw_object(w, "options");
	json_object_foreach (ctx->options, option, value)
		if (json_string_length(value) > 0)
			jsonw_text(w, option, json_string_value(value));
	jsonw_end(w);
	view_problems(w, ctx, &source, t);
	jsonw_end(w);
}
