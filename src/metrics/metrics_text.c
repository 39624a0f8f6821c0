/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/metrics_text - the page itself. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "metrics/metrics_state.h"

#define KP "kubeproxy_"
#define DROPS_ASK_NS NSEC_PER_SEC

static const char *const family_labels[IPFAM_N] = { "ip_family=\"IPv4\"", "ip_family=\"IPv6\"" };

/* A metric of one line. */
static void one(struct str *out, const char *name, const char *type, const char *help, uint64_t n)
{
	expo_head(out, name, type, help);
	expo_uint(out, name, NULL, n);
}

static void one_seconds(struct str *out, const char *name, const char *type, const char *help,
			uint64_t ns)
{
	expo_head(out, name, type, help);
	expo_seconds(out, name, NULL, ns);
}

static void both_hist(struct str *out, const char *name, const char *help,
		      const struct expo_hist *v4, const struct expo_hist *v6)
{
	expo_head(out, name, "histogram", help);
	expo_hist(out, name, family_labels[IPFAM_V4], v4);
	expo_hist(out, name, family_labels[IPFAM_V6], v6);
}

static void both(struct str *out, const char *name, const char *type, const char *help, uint64_t v4,
		 uint64_t v6)
{
	expo_head(out, name, type, help);
	expo_uint(out, name, family_labels[IPFAM_V4], v4);
	expo_uint(out, name, family_labels[IPFAM_V6], v6);
}

static void both_time(struct str *out, const char *name, const char *help, int64_t wall_ns)
{
	expo_head(out, name, "gauge", help);
	for (int fam = 0; fam < IPFAM_N; fam++)
		expo_seconds(out, name, family_labels[fam], (uint64_t)MAX(wall_ns, INT64_C(0)));
}

/* --- kube-proxy's names --- */

static int64_t success_wall(const struct sync_stats *st, uint64_t now, int64_t wall_ns)
{
	if (st->last_success_ns == 0)
		return 0;
	return wall_ns - (int64_t)(now - MIN(now, st->last_success_ns));
}

static void sync_lines(struct metrics *m, struct str *out, uint64_t now, int64_t wall_ns)
{
	const struct sync_stats *st = sync_stats_get(m->config.ctx->sync);

	both_hist(out, KP "sync_proxy_rules_duration_seconds",
		  "[ALPHA] How long syncs took, full or partial", &m->sync_time, &m->sync_time);
	both_hist(out, KP "sync_full_proxy_rules_duration_seconds",
		  "[ALPHA] How long full syncs took: adoptions of what the kernel holds",
		  &m->full_time, &m->full_time);
	both_hist(out, KP "sync_partial_proxy_rules_duration_seconds",
		  "[ALPHA] How long partial syncs took: transactions of what changed",
		  &m->partial_time, &m->partial_time);
	both_time(out, KP "sync_proxy_rules_last_timestamp_seconds",
		  "[ALPHA] When the kernel last took a sync", success_wall(st, now, wall_ns));
	both_time(out, KP "sync_proxy_rules_last_queued_timestamp_seconds",
		  "[ALPHA] When a sync was last asked for", m->queued_wall_ns);
	both_hist(out, KP "network_programming_duration_seconds",
		  "[ALPHA] From the change of endpoints, by their trigger time, to the kernel",
		  &m->programming[IPFAM_V4], &m->programming[IPFAM_V6]);
	both(out, KP "sync_proxy_rules_nftables_sync_failures_total", "counter",
	     "[ALPHA] Transactions the kernel refused, and readings that failed", st->failures,
	     st->failures);
	both(out, KP "sync_proxy_rules_nftables_cleanup_failures_total", "counter",
	     "[ALPHA] Removals of what nobody asked for that failed", st->sweep_failures,
	     st->sweep_failures);
	both_hist(out, KP "conntrack_reconciler_sync_duration_seconds",
		  "[ALPHA] How long it took to remove stale flows", &m->conntrack_time,
		  &m->conntrack_time);
	/* Of both families: a pass does not tell them apart. */
	one(out, KP "conntrack_reconciler_deleted_entries_total", "counter",
	    "[ALPHA] Stale flows removed", m->conntrack_deleted);
}

static void no_local_lines(const struct metrics *m, struct str *out)
{
	static const char name[] = KP "sync_proxy_rules_no_local_endpoints_total";
	static const char *const policies[METRICS_POLICIES] = { "internal", "external" };

	expo_head(out, name, "gauge",
		  "[ALPHA] Service ports of a Local policy with endpoints, but none on this node");
	for (int policy = 0; policy < METRICS_POLICIES; policy++)
		for (int fam = 0; fam < IPFAM_N; fam++) {
			char labels[64];

			(void)snprintf(labels, sizeof(labels), "%s,traffic_policy=\"%s\"",
				       family_labels[fam], policies[policy]);
			expo_uint(out, name, labels, m->n_no_local[policy][fam]);
		}
}

static size_t dirty_count(const struct model *model)
{
	size_t n = 0;

	list_for_each (l, &model->dirty)
		n++;
	return n;
}

static void change_lines(const struct metrics *m, struct str *out, size_t n_dirty)
{
	const struct model_stats *st = &m->config.ctx->model->stats;

	one(out, KP "sync_proxy_rules_endpoint_changes_pending", "gauge",
	    "[ALPHA] Changes of slices since nothing was owed",
	    n_dirty > 0 ? st->slice_events - m->consumed_slices : 0);
	one(out, KP "sync_proxy_rules_endpoint_changes_total", "counter",
	    "[ALPHA] Changes of slices seen", st->slice_events);
	one(out, KP "sync_proxy_rules_service_changes_pending", "gauge",
	    "[ALPHA] Services with a pending change", n_dirty);
	one(out, KP "sync_proxy_rules_service_changes_total", "counter",
	    "[ALPHA] Changes of services seen", st->service_events);
}

static void health_lines(const struct metrics *m, struct str *out)
{
	static const char *const names[HEALTH_QUESTIONS] = { KP "proxy_healthz_total",
							     KP "proxy_livez_total" };
	static const char *const helps[HEALTH_QUESTIONS] = { "[ALPHA] Answers of /healthz",
							     "[ALPHA] Answers of /livez" };

	for (enum health_question q = 0; m->config.health != NULL && q < HEALTH_QUESTIONS; q++) {
		expo_head(out, names[q], "counter", helps[q]);
		expo_uint(out, names[q], "code=\"200\"", health_answers(m->config.health, q, true));
		expo_uint(out, names[q], "code=\"503\"",
			  health_answers(m->config.health, q, false));
	}
}

/* --- our own --- */

static void state_lines(const struct metrics *m, struct str *out, size_t n_dirty, uint64_t now)
{
	const struct serve_context *ctx = m->config.ctx;
	const struct model_stats *st = &ctx->model->stats;
	uint64_t owed_since = sync_owed_since(ctx->sync);
	size_t kept;

	one(out, "vipd_services", "gauge", "Service objects known", st->services);
	one(out, "vipd_endpoint_slices", "gauge", "EndpointSlice objects known", st->slices);
	one(out, "vipd_endpoints", "gauge", "Endpoints of all slices", st->endpoints);
	one(out, "vipd_proxied_services", "gauge", "Services the kernel holds something for",
	    m->n_proxied);
	one(out, "vipd_frontends", "gauge", "Addresses and ports the kernel serves",
	    m->n_frontends);
	one(out, "vipd_pools", "gauge", "Sets of backends the kernel holds", m->n_pools);
	one(out, "vipd_backends", "gauge", "Backends in all pools", m->n_backends);
	one(out, "vipd_conflicts", "gauge",
	    "Addresses and ports that more than one service asks for", ctx->plan->n_conflicts);
	one(out, "vipd_services_without_affinity", "gauge",
	    "Services whose session affinity is not in force", ctx->plan->n_unsticky);
	one(out, "vipd_refused_services", "gauge", "Services the kernel refuses",
	    sync_failure_count(ctx->sync));
	one(out, "vipd_owed_services", "gauge",
	    "Services of which the kernel does not hold what it should",
	    n_dirty + sync_failure_count(ctx->sync));
	one_seconds(out, "vipd_owed_seconds", "gauge",
		    "How long the kernel has been behind, refused services aside",
		    owed_since != 0 && now > owed_since ? now - owed_since : 0);
	(void)sync_is_sweep_pending(ctx->sync, &kept);
	one(out, "vipd_kept_frontends", "gauge",
	    "Frontends of no known object, kept in the kernel until the source is complete", kept);
	both(out, "vipd_family_up", "gauge", "0: the address family failed, and is left out",
	     !plane_family_has_failed(ctx->plane, IPFAM_V4),
	     !plane_family_has_failed(ctx->plane, IPFAM_V6));
	one(out, "vipd_in_service", "gauge", "The first sync was completed",
	    sync_stats_get(ctx->sync)->first_sync_ns != 0);
}

static void work_lines(const struct metrics *m, struct str *out)
{
	const struct sync_stats *st = sync_stats_get(m->config.ctx->sync);

	one(out, "vipd_sync_services_total", "counter", "Services brought up to date",
	    st->services);
	one(out, "vipd_sync_transactions_total", "counter", "Transactions tried", st->steps);
	one(out, "vipd_sync_operations_total", "counter", "Kernel operations acknowledged",
	    st->writes);
	one(out, "vipd_sync_batches_total", "counter", "Kernel transactions", st->batches);
	one_seconds(out, "vipd_sync_kernel_seconds_total", "counter",
		    "Time spent in kernel transactions", st->kernel_ns);
	one(out, "vipd_sync_refusals_total", "counter", "Refusals of single services", st->refused);
	one(out, "vipd_loads_total", "counter", "Times the kernel's state was read as a whole",
	    st->loads);
	one(out, "vipd_audits_total", "counter", "Comparisons of all services with the kernel",
	    st->audits);
	one(out, "vipd_doubts_total", "counter", "Times somebody else changed the ruleset",
	    st->doubts);
	one(out, "vipd_repairs_total", "counter",
	    "Kernel operations that put right what somebody else changed", st->repairs);
}

/* Values below 2^i microseconds (sync.h). */
static void latency_lines(const struct metrics *m, struct str *out)
{
	static const char name[] = "vipd_event_to_ack_duration_seconds";
	const struct sync_hist *h = &sync_stats_get(m->config.ctx->sync)->event_to_ack;
	uint64_t n = 0;

	expo_head(out, name, "histogram",
		  "From the oldest event of a service to the kernel's acknowledgement");
	for (unsigned int i = 0; i < SYNC_HIST_BUCKETS - 1; i++) {
		n += h->bucket[i];
		expo_bucket(out, name, NULL, (UINT64_C(1) << i) * NSEC_PER_USEC, n);
	}
	expo_bucket(out, name, NULL, 0, h->count);
	expo_seconds(out, "vipd_event_to_ack_duration_seconds_sum", NULL, h->sum_ns);
	expo_uint(out, "vipd_event_to_ack_duration_seconds_count", NULL, h->count);
}

/* A counter starts again when its rule is made anew: what was before goes into the sum. */
static void counter_follow(uint64_t *sum, uint64_t *last, uint64_t is)
{
	if (is < *last)
		*sum += *last;
	*last = is;
}

static void drops_ask(struct metrics *m, const struct plane *plane, uint64_t now)
{
	struct plane_drops *sum = &m->drops.sum;
	struct plane_drops *last = &m->drops.last;
	struct plane_drops is;
	struct err err;

	if (m->drops.asked_ns != 0 && now - m->drops.asked_ns < DROPS_ASK_NS)
		return;
	m->drops.asked_ns = now;
	if (plane->ops->drops(plane, &is, &err) < 0)
		return; /* no rules yet, or they are being replaced: the last numbers stay */
	for (int i = 0; i < PLANE_REFUSAL_N; i++)
		counter_follow(&sum->refused[i], &last->refused[i], is.refused[i]);
	counter_follow(&sum->invalid_packets, &last->invalid_packets, is.invalid_packets);
	counter_follow(&sum->invalid_bytes, &last->invalid_bytes, is.invalid_bytes);
}

static void drop_lines(struct metrics *m, struct str *out, uint64_t now)
{
	static const char *const reasons[PLANE_REFUSAL_N] = {
		[PLANE_REFUSAL_NO_ENDPOINTS] = "reason=\"no_endpoints\"",
		[PLANE_REFUSAL_NO_LOCAL_ENDPOINTS] = "reason=\"no_local_endpoints\"",
		[PLANE_REFUSAL_SOURCE_RANGES] = "reason=\"source_ranges\"",
		[PLANE_REFUSAL_UNKNOWN_PORT] = "reason=\"unknown_port\"",
		[PLANE_REFUSAL_UNKNOWN_ADDRESS] = "reason=\"unknown_address\"",
	};
	const struct plane *plane = m->config.ctx->plane;

	if (plane == NULL || plane->ops->drops == NULL)
		return;
	drops_ask(m, plane, now);
	expo_head(out, "vipd_refused_packets_total", "counter",
		  "Packets that asked for a connection and were rejected or dropped, by reason; "
		  "retransmissions count");
	for (int i = 0; i < PLANE_REFUSAL_N; i++)
		expo_uint(out, "vipd_refused_packets_total", reasons[i],
			  m->drops.sum.refused[i] + m->drops.last.refused[i]);
	one(out, "vipd_invalid_dropped_packets_total", "counter",
	    "Packets of services that conntrack called INVALID, dropped",
	    m->drops.sum.invalid_packets + m->drops.last.invalid_packets);
	one(out, "vipd_invalid_dropped_bytes_total", "counter", "The same in bytes",
	    m->drops.sum.invalid_bytes + m->drops.last.invalid_bytes);
}

/* On a plane where backends leave at once there are none to tell of. */
static void drain_lines(const struct metrics *m, struct str *out)
{
	static const char ended[] = "vipd_drained_backends_total";
	const struct plane *plane = m->config.ctx->plane;
	struct plane_drains d = { 0 };

	if (plane == NULL || plane->ops->drains == NULL)
		return;
	plane->ops->drains(plane, &d);
	one(out, "vipd_draining_backends", "gauge",
	    "Backends that get no new connections and keep those they have", d.n_leaving);
	expo_head(out, ended, "counter", "Backends whose draining ended, by what ended it");
	expo_uint(out, ended, "end=\"no_connections\"", d.n_drained);
	expo_uint(out, ended, "end=\"deadline\"", d.n_expired);
}

/* Of all kernel transactions, whoever made them. */
static void times_lines(const struct metrics *m, struct str *out)
{
	static const char name[] = "vipd_kernel_batch_duration_seconds";
	const struct plane *plane = m->config.ctx->plane;
	const struct plane_times *t;
	uint64_t n = 0;

	if (plane == NULL)
		return;
	t = &plane->times;
	expo_head(out, name, "histogram", "Time of single kernel transactions");
	for (unsigned int i = 0; i < PLANE_TIMES_BUCKETS - 1; i++) {
		n += t->bucket[i];
		expo_bucket(out, name, NULL, (UINT64_C(1) << i) * NSEC_PER_USEC, n);
	}
	expo_bucket(out, name, NULL, 0, t->count);
	expo_seconds(out, "vipd_kernel_batch_duration_seconds_sum", NULL, t->sum_ns);
	expo_uint(out, "vipd_kernel_batch_duration_seconds_count", NULL, t->count);
	one_seconds(out, "vipd_kernel_batch_longest_seconds", "gauge",
		    "The longest of them since the start", t->longest_ns);
}

static void health_service_lines(const struct metrics *m, struct str *out)
{
	struct health_services_stats st;

	if (m->config.health_services == NULL)
		return;
	st = health_services_stats(m->config.health_services);
	one(out, "vipd_health_check_services", "gauge", "Services with a health check node port",
	    st.services);
	one(out, "vipd_health_check_listeners", "gauge", "Sockets open for them", st.listeners);
	one(out, "vipd_health_check_waiting", "gauge",
	    "Services of which an address or port cannot be had", st.waiting);
}

/* Prometheus wants all lines of a metric together: each is a buffer until the end. */
struct source_lines {
	uint64_t now;
	struct str complete, failing, age, objects, refused, lists, watches, events, bytes;
};

static void source_add(void *arg, const struct metrics_source *s)
{
	struct source_lines *l = arg;
	struct str label = { 0 };

	str_puts(&label, "source=");
	expo_quote(&label, s->name);
	expo_uint(&l->complete, "vipd_source_complete", label.text, s->is_complete);
	expo_uint(&l->failing, "vipd_source_failing", label.text, s->is_failing);
	if (s->last_event_ns != 0)
		expo_seconds(&l->age, "vipd_source_last_event_age_seconds", label.text,
			     l->now - MIN(l->now, s->last_event_ns));
	expo_uint(&l->objects, "vipd_source_objects", label.text, s->objects);
	expo_uint(&l->refused, "vipd_source_refused_objects", label.text, s->refused);
	expo_uint(&l->lists, "vipd_source_lists_total", label.text, s->lists);
	expo_uint(&l->watches, "vipd_source_watches_total", label.text, s->watches);
	expo_uint(&l->events, "vipd_source_events_total", label.text, s->events);
	expo_uint(&l->bytes, "vipd_source_received_bytes_total", label.text, s->bytes);
	str_fini(&label);
}

static void source_put(struct str *out, struct str *lines, const char *name, const char *type,
		       const char *help)
{
	if (lines->len > 0) {
		expo_head(out, name, type, help);
		str_add(out, lines->text, lines->len);
	}
	str_fini(lines);
}

static void source_lines(const struct metrics *m, struct str *out, uint64_t now)
{
	struct source_lines l = { .now = now };

	if (m->config.sources == NULL)
		return;
	m->config.sources(m->config.arg, source_add, &l);
	source_put(out, &l.complete, "vipd_source_complete", "gauge",
		   "The first complete list was delivered");
	source_put(out, &l.failing, "vipd_source_failing", "gauge", "The source is in trouble now");
	source_put(out, &l.age, "vipd_source_last_event_age_seconds", "gauge",
		   "Since the source last gave a sign of life");
	source_put(out, &l.objects, "vipd_source_objects", "gauge", "Objects the source has");
	source_put(out, &l.refused, "vipd_source_refused_objects", "gauge",
		   "Objects of which the last good version stays");
	source_put(out, &l.lists, "vipd_source_lists_total", "counter", "Lists begun");
	source_put(out, &l.watches, "vipd_source_watches_total", "counter", "Watches begun");
	source_put(out, &l.events, "vipd_source_events_total", "counter", "Events received");
	source_put(out, &l.bytes, "vipd_source_received_bytes_total", "counter",
		   "Bytes received in lists and watches");
}

static void log_lines(struct str *out)
{
	static const struct {
		enum log_level level;
		const char *labels;
	} levels[] = {
		{ LOG_LEVEL_ERR, "level=\"error\"" },     { LOG_LEVEL_WARN, "level=\"warning\"" },
		{ LOG_LEVEL_NOTICE, "level=\"notice\"" }, { LOG_LEVEL_INFO, "level=\"info\"" },
		{ LOG_LEVEL_DEBUG, "level=\"debug\"" },
	};

	expo_head(out, "vipd_log_lines_total", "counter",
		  "Lines logged, those included that were not shown for being too many");
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		expo_uint(out, "vipd_log_lines_total", levels[i].labels,
			  log_count(levels[i].level));
	expo_head(out, "vipd_log_lines_dropped_total", "counter",
		  "Lines that standard error did not take: its reader is slow, blocked or gone");
	expo_uint(out, "vipd_log_lines_dropped_total", NULL, log_dropped());
}

static void connection_lines(struct str *out)
{
	static const char *const servers[HTTP_CLASSES] = {
		[HTTP_CONTROL] = "control",
		[HTTP_HEALTH] = "healthz",
		[HTTP_METRICS] = "metrics",
		[HTTP_SERVICE_HEALTH] = "service_health",
	};
	static const char *const limits[HTTP_LIMITS] = {
		[HTTP_LIMIT_ALL] = "all",
		[HTTP_LIMIT_CLIENT] = "client",
	};
	char labels[64];

	expo_head(out, "vipd_http_connections_closed_total", "counter",
		  "Connections closed because a server, or one client of it, had too many");
	for (int class = 0; class < HTTP_CLASSES; class ++)
		for (int limit = 0; limit < HTTP_LIMITS; limit++) {
			(void)snprintf(labels, sizeof(labels), "server=\"%s\",limit=\"%s\"",
				       servers[class], limits[limit]);
			expo_uint(out, "vipd_http_connections_closed_total", labels,
				  http_closed((enum http_class) class, (enum http_limit)limit));
		}
}

/* --- the process --- */

static uint64_t time_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * NSEC_PER_SEC + (uint64_t)tv.tv_usec * NSEC_PER_USEC;
}

static size_t fds_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		n++;
	(void)closedir(dir);
	return n > 3 ? n - 3 : 0; /* "." and "..", and the one that reads */
}

static void memory_lines(struct str *out)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long size = 0;
	unsigned long long resident = 0;
	long page = sysconf(_SC_PAGESIZE);

	if (f == NULL)
		return;
	if (fscanf(f, "%llu %llu", &size, &resident) == 2) {
		one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
		    size * (unsigned long long)page);
		one(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
		    resident * (unsigned long long)page);
	}
	(void)fclose(f);
}

static void process_lines(const struct metrics *m, struct str *out)
{
	struct rusage ru = { 0 };
	struct rlimit rl = { 0 };

	(void)getrusage(RUSAGE_SELF, &ru);
	(void)getrlimit(RLIMIT_NOFILE, &rl);
	one_seconds(out, "process_cpu_seconds_total", "counter",
		    "Total user and system CPU time spent in seconds.",
		    time_ns(ru.ru_utime) + time_ns(ru.ru_stime));
	one(out, "process_open_fds", "gauge", "Number of open file descriptors.", fds_count());
	one(out, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
	    rl.rlim_cur);
	memory_lines(out);
	one_seconds(out, "process_start_time_seconds", "gauge",
		    "Start time of the process since unix epoch in seconds.",
		    (uint64_t)m->config.started_wall_ns);
}

static void build_lines(const struct metrics *m, struct str *out)
{
	struct str labels = { 0 };

	str_puts(&labels, "mode=");
	expo_quote(&labels, m->config.mode);
	str_puts(&labels, ",version=");
	expo_quote(&labels, VIPD_VERSION);
	expo_head(out, "vipd_build_info", "gauge", "This vipd, always 1");
	expo_uint(out, "vipd_build_info", labels.text, 1);
	str_fini(&labels);
}

void metrics_text(struct metrics *m, struct str *out, uint64_t now_ns, int64_t wall_ns)
{
	size_t n_dirty = dirty_count(m->config.ctx->model);

	sync_lines(m, out, now_ns, wall_ns);
	no_local_lines(m, out);
	change_lines(m, out, n_dirty);
	health_lines(m, out);
	build_lines(m, out);
	state_lines(m, out, n_dirty, now_ns);
	work_lines(m, out);
	latency_lines(m, out);
	times_lines(m, out);
	drop_lines(m, out, now_ns);
	drain_lines(m, out);
	health_service_lines(m, out);
	source_lines(m, out, now_ns);
	log_lines(out);
	connection_lines(out);
	process_lines(m, out);
}
