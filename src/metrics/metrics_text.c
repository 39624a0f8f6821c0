/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/metrics_text - the text of /metrics. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "conntrack/failover.h"
#include "metrics/metrics_state.h"

#define KP "kubeproxy_"
#define RULES_READ_NS NSEC_PER_SEC

static const char *const family_labels[IPFAM_N] = { "ip_family=\"IPv4\"", "ip_family=\"IPv6\"" };

/* A metric with a single sample. */
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

/* Counted by the sync or a plane. */
static void log2_hist(struct str *out, const char *name, const char *help, const struct hist *h)
{
	_Static_assert(HIST_BUCKETS <= EXPO_BOUNDS_MAX + 1, "buckets");
	struct expo_hist e = { .bounds = expo_log2, .count = h->count, .sum_ns = h->sum_ns };

	memcpy(e.buckets, h->bucket, sizeof(h->bucket));
	expo_head(out, name, "histogram", help);
	expo_hist(out, name, NULL, &e);
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

/* --- metrics of kube-proxy, under its names --- */

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
		  "[ALPHA] Duration of syncs, full and partial", &m->sync_time, &m->sync_time);
	both_hist(out, KP "sync_full_proxy_rules_duration_seconds",
		  "[ALPHA] Duration of full syncs: a load of kernel state and its repair",
		  &m->full_time, &m->full_time);
	both_hist(out, KP "sync_partial_proxy_rules_duration_seconds",
		  "[ALPHA] Duration of partial syncs: transactions with pending changes",
		  &m->partial_time, &m->partial_time);
	both_time(out, KP "sync_proxy_rules_last_timestamp_seconds",
		  "[ALPHA] Unix time of the last successful sync", success_wall(st, now, wall_ns));
	both_time(out, KP "sync_proxy_rules_last_queued_timestamp_seconds",
		  "[ALPHA] Unix time of the last sync request", m->queued_wall_ns);
	both_hist(out, KP "network_programming_duration_seconds",
		  "[ALPHA] Time from the trigger time of an EndpointSlice to the kernel's "
		  "acknowledgement",
		  &m->programming[IPFAM_V4], &m->programming[IPFAM_V6]);
	both(out, KP "sync_proxy_rules_nftables_sync_failures_total", "counter",
	     "[ALPHA] Transactions rejected by the kernel, and failed loads", st->failures,
	     st->failures);
	both(out, KP "sync_proxy_rules_nftables_cleanup_failures_total", "counter",
	     "[ALPHA] Failed removals of state without an object", st->sweep_failures,
	     st->sweep_failures);
	both_hist(out, KP "conntrack_reconciler_sync_duration_seconds",
		  "[ALPHA] Duration of stale flow scans", &m->conntrack_time, &m->conntrack_time);
	/* Without ip_family: a scan covers both families. */
	one(out, KP "conntrack_reconciler_deleted_entries_total", "counter",
	    "[ALPHA] Stale flows deleted after a dump", m->scans.n_deleted);
	one(out, "vipd_conntrack_filters_total", "counter",
	    "Filters by which the kernel deleted stale flows; it does not count these flows",
	    m->scans.n_matches);
}

static void no_local_lines(const struct metrics *m, struct str *out)
{
	static const char name[] = KP "sync_proxy_rules_no_local_endpoints_total";
	static const char *const policies[] = { "internal", "external" };

	expo_head(out, name, "gauge",
		  "[ALPHA] Service ports with a Local traffic policy and no endpoint on this node");
	for (size_t policy = 0; policy < ARRAY_SIZE(policies); policy++)
		for (int fam = 0; fam < IPFAM_N; fam++)
			expo_uint(out, name,
				  str_local(64, "%s,traffic_policy=\"%s\"", family_labels[fam],
					    policies[policy]),
				  m->n_no_local[policy][fam]);
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
	    "[ALPHA] EndpointSlice changes since no service was pending",
	    n_dirty > 0 ? st->slice_events - m->consumed_slices : 0);
	one(out, KP "sync_proxy_rules_endpoint_changes_total", "counter",
	    "[ALPHA] EndpointSlice changes received", st->slice_events);
	one(out, KP "sync_proxy_rules_service_changes_pending", "gauge",
	    "[ALPHA] Services with a pending change", n_dirty);
	one(out, KP "sync_proxy_rules_service_changes_total", "counter",
	    "[ALPHA] Service changes received", st->service_events);
}

static void health_lines(const struct metrics *m, struct str *out)
{
	static const char *const names[HEALTH_PROBES] = { KP "proxy_healthz_total",
							  KP "proxy_livez_total" };
	static const char *const helps[HEALTH_PROBES] = { "[ALPHA] Answers of /healthz",
							  "[ALPHA] Answers of /livez" };
	const struct health *health = m->config.ctx->health;

	for (enum health_probe q = 0; health != NULL && q < HEALTH_PROBES; q++) {
		expo_head(out, names[q], "counter", helps[q]);
		expo_uint(out, names[q], "code=\"200\"", health_answers(health, q, true));
		expo_uint(out, names[q], "code=\"503\"", health_answers(health, q, false));
	}
}

/* --- metrics of vipd --- */

static void state_lines(const struct metrics *m, struct str *out, uint64_t now)
{
	const struct serve_context *ctx = m->config.ctx;
	const struct model_stats *st = &ctx->model->stats;
	uint64_t pending_since = sync_pending_since(ctx->sync);
	struct health_facts health;

	one(out, "vipd_services", "gauge", "Service objects received", st->services);
	one(out, "vipd_endpoint_slices", "gauge", "EndpointSlice objects received", st->slices);
	one(out, "vipd_endpoints", "gauge", "Endpoints in all EndpointSlices", st->endpoints);
	one(out, "vipd_programmed_services", "gauge", "Services programmed in the kernel",
	    m->n_programmed);
	one(out, "vipd_frontends", "gauge",
	    "Frontends (address, port, protocol) programmed in the kernel", m->n_frontends);
	one(out, "vipd_pools", "gauge", "Pools of backends programmed in the kernel", m->n_pools);
	one(out, "vipd_backends", "gauge", "Backends in all pools", m->n_backends);
	one(out, "vipd_conflicts", "gauge",
	    "Frontends that a Service claims and another Service serves", ctx->plan->n_conflicts);
	one(out, "vipd_services_without_affinity", "gauge",
	    "Services served without the session affinity they configure", ctx->plan->n_unsticky);
	one(out, "vipd_rejected_services", "gauge", "Services rejected by the kernel",
	    sync_failure_count(ctx->sync));
	one(out, "vipd_pending_services", "gauge",
	    "Services with changes that are not in the kernel yet, rejected ones included",
	    sync_pending_count(ctx->sync));
	one_seconds(out, "vipd_pending_seconds", "gauge",
		    "Age of the oldest pending change; rejected services count only if they are "
		    "half of all and the kernel has accepted no change since",
		    pending_since != 0 && now > pending_since ? now - pending_since : 0);
	one(out, "vipd_orphaned_frontends", "gauge",
	    "Frontends without an object, kept in the kernel until every object of the "
	    "source is known",
	    sync_orphaned_count(ctx->sync));
	both(out, "vipd_family_up", "gauge",
	     "1 if the address family is programmed, 0 after a failure of the family",
	     !plane_family_has_failed(ctx->plane, IPFAM_V4),
	     !plane_family_has_failed(ctx->plane, IPFAM_V6));
	one(out, "vipd_in_service", "gauge", "1 after the first sync, 0 before",
	    sync_stats_get(ctx->sync)->first_sync_ns != 0);
	if (ctx->health == NULL)
		return;
	health_facts_get(&health, ctx->health, now, 0);
	one(out, "vipd_ready", "gauge", "1 if /healthz returns 200, 0 if it returns 503",
	    health.reason[0] == '\0');
}

static void work_lines(const struct metrics *m, struct str *out)
{
	const struct sync_stats *st = sync_stats_get(m->config.ctx->sync);
	const struct hist *times = &m->config.ctx->plane->batches.times;

	one(out, "vipd_sync_services_total", "counter", "Services synced to the kernel",
	    st->services);
	one(out, "vipd_sync_commits_total", "counter",
	    "Transactions of services, rejected ones included", st->steps);
	one(out, "vipd_sync_operations_total", "counter", "Operations acknowledged by the kernel",
	    st->writes);
	one(out, "vipd_sync_kernel_transactions_total", "counter",
	    "Kernel transactions of the sync", st->batches);
	one_seconds(out, "vipd_sync_kernel_seconds_total", "counter",
		    "Time spent in kernel transactions of the sync", st->kernel_ns);
	one(out, "vipd_sync_rejections_total", "counter",
	    "Rejections of single services by the kernel", st->rejected);
	one(out, "vipd_loads_total", "counter", "Loads (full reads) of kernel state", st->loads);
	one(out, "vipd_audits_total", "counter",
	    "Audits: comparisons of kernel state with desired state", st->audits);
	one(out, "vipd_foreign_changes_total", "counter",
	    "Ruleset changes by other processes that leave vipd's tables in place",
	    st->foreign_changes);
	one(out, "vipd_repairs_total", "counter",
	    "Operations that repaired kernel state modified by another process", st->repairs);
	log2_hist(out, "vipd_event_to_ack_duration_seconds",
		  "Time from the oldest pending event of a service to the kernel's acknowledgement",
		  &st->event_to_ack);
	/* All kernel transactions of the plane, not only those of the sync. */
	log2_hist(out, "vipd_kernel_transaction_duration_seconds",
		  "Duration of kernel transactions", times);
	one_seconds(out, "vipd_kernel_transaction_duration_max_seconds", "gauge",
		    "Duration of the longest kernel transaction since the start", times->max_ns);
}

/* Rule counters restart at 0 when vipd recreates the rule. */
static void counter_follow(uint64_t *total, uint64_t *last, uint64_t is)
{
	*total += is < *last ? is : is - *last;
	*last = is;
}

static void rule_counts_follow(struct plane_rule_counts *total, struct plane_rule_counts *last,
			       const struct plane_rule_counts *is)
{
	for (int i = 0; i < PLANE_RULE_COUNTERS_N; i++)
		counter_follow(&total->packets[i], &last->packets[i], is->packets[i]);
	counter_follow(&total->twice, &last->twice, is->twice);
	counter_follow(&total->invalid_bytes, &last->invalid_bytes, is->invalid_bytes);
}

static void rule_counts_read(struct metrics *m, const struct plane *plane, uint64_t now)
{
	struct plane_rule_counts is;
	struct err err;

	if (m->rules.read_ns != 0 && now - m->rules.read_ns < RULES_READ_NS)
		return;
	m->rules.read_ns = now;
	/* On failure rules do not exist yet, or are being replaced: keep the last values. */
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		if (plane->ops->rule_counts(plane, fam, &is, &err) == 0) {
			rule_counts_follow(&m->rules.total, &m->rules.last[fam], &is);
			m->rules.families |= (uint8_t)(1 << fam);
		}
}

/*
 * Packets counted twice are read after the others: a packet between both readings is missing until
 * the next one.
 */
static uint64_t no_endpoints_follow(struct metrics *m)
{
	uint64_t n = m->rules.total.packets[PLANE_REJECT_NO_ENDPOINTS];

	n -= MIN(n, m->rules.total.twice);
	m->rules.no_endpoints = MAX(m->rules.no_endpoints, n);
	return m->rules.no_endpoints;
}

static void rule_lines(struct metrics *m, struct str *out, uint64_t now)
{
	static const char *const reasons[PLANE_REJECT_N] = {
		[PLANE_REJECT_NO_ENDPOINTS] = "reason=\"no_endpoints\"",
		[PLANE_REJECT_NO_LOCAL_ENDPOINTS] = "reason=\"no_local_endpoints\"",
		[PLANE_REJECT_SOURCE_RANGES] = "reason=\"source_ranges\"",
		[PLANE_REJECT_UNKNOWN_PORT] = "reason=\"unknown_port\"",
		[PLANE_REJECT_UNKNOWN_ADDRESS] = "reason=\"unknown_address\"",
	};
	const struct plane *plane = m->config.ctx->plane;

	rule_counts_read(m, plane, now);
	/* After a start: a 0 would make Prometheus count the packets before the start again. */
	for (enum ipfam fam = 0; fam < IPFAM_N; fam++)
		if (!(m->rules.families >> fam & 1) && !plane_family_has_failed(plane, fam))
			return;
	expo_head(out, "vipd_rejected_packets_total", "counter",
		  "First packets of connections that were rejected or dropped, by reason, "
		  "retransmissions included");
	for (int i = 0; i < PLANE_REJECT_N; i++)
		expo_uint(out, "vipd_rejected_packets_total", reasons[i],
			  i == PLANE_REJECT_NO_ENDPOINTS ? no_endpoints_follow(m)
							 : m->rules.total.packets[i]);
	one(out, "vipd_invalid_dropped_packets_total", "counter",
	    "INVALID packets (conntrack) that vipd dropped",
	    m->rules.total.packets[PLANE_INVALID_DROPPED]);
	one(out, "vipd_invalid_dropped_bytes_total", "counter",
	    "Bytes of the packets counted by vipd_invalid_dropped_packets_total",
	    m->rules.total.invalid_bytes);
	one(out, "vipd_affinity_full_connections_total", "counter",
	    "Connections balanced without session affinity, because its map had no room",
	    m->rules.total.packets[PLANE_AFFINITY_FULL]);
}

static void failover_lines(const struct metrics *m, struct str *out)
{
	static const char moved[] = "vipd_failovers_total";
	const struct serve_failovers *f = &m->config.ctx->failovers;
	const struct failover *now = m->config.ctx->failover;

	expo_head(
		out, moved, "counter",
		"Handshakes and UDP flows moved to another endpoint, and endpoints ejected, by reason");
	expo_uint(out, moved, "reason=\"handshake\"", f->moves);
	expo_uint(out, moved, "reason=\"udp\"", f->udp_moves);
	expo_uint(out, moved, "reason=\"ejection\"", f->ejections);
	one(out, "vipd_silent_endpoints", "gauge",
	    "Endpoints that left a TCP handshake unanswered in the last 10 s",
	    now != NULL ? failover_n_silent(now) : 0);
}

/* Absent on a plane without draining. */
static void drain_lines(const struct metrics *m, struct str *out)
{
	static const char drained[] = "vipd_drained_backends_total";
	const struct plane *plane = m->config.ctx->plane;
	struct plane_drains d = { 0 };

	if (plane->ops->drains == NULL)
		return;
	plane->ops->drains(plane, &d);
	one(out, "vipd_draining_backends", "gauge",
	    "Backends that get no new connections and finish their old ones", d.n_draining);
	expo_head(out, drained, "counter",
		  "Backends drained: no connection was left, or the drain timeout passed");
	expo_uint(out, drained, "reason=\"no_connections\"", d.n_drained);
	expo_uint(out, drained, "reason=\"timeout\"", d.n_timed_out);
}

static void health_service_lines(const struct metrics *m, struct str *out)
{
	const struct health_services *hs = m->config.ctx->health_services;
	struct health_services_stats st;
	uint64_t n_unbound = 0;

	for (enum http_class c = 0; c < HTTP_CLASSES; c++)
		n_unbound += http_port_failure(c) != NULL;
	one(out, "vipd_unbound_servers", "gauge",
	    "Servers of vipd (control socket, /healthz) that cannot listen", n_unbound);
	if (hs == NULL)
		return;
	st = health_services_stats(hs);
	one(out, "vipd_health_check_services", "gauge", "Services with a health check node port",
	    st.services);
	one(out, "vipd_health_check_listeners", "gauge", "Sockets open for health check node ports",
	    st.listeners);
	one(out, "vipd_health_check_unbound_services", "gauge",
	    "Services with a health check node port that cannot be bound", st.unbound);
}

#define AT(member) offsetof(struct serve_source_stats, member)

static const struct {
	const char *name;
	const char *type;
	const char *help;
	size_t at; /* of the value, 64 bits */
} source_metrics[] = {
	{ "vipd_source_synced", "gauge", "1 after the first complete list of the source",
	  AT(is_synced) },
	{ "vipd_source_failing", "gauge", "1 while the source fails", AT(is_failing) },
	{ "vipd_source_last_event_age_seconds", "gauge",
	  "Time since the last event or bookmark of the source", AT(last_event_ns) },
	{ "vipd_source_objects", "gauge", "Objects of the source", AT(objects) },
	{ "vipd_source_invalid_objects", "gauge",
	  "Rejected objects; the last good version of each stays, if there is one", AT(invalid) },
	{ "vipd_source_lists_total", "counter", "Lists started", AT(lists) },
	{ "vipd_source_watches_total", "counter", "Watches started", AT(watches) },
	{ "vipd_source_events_total", "counter", "Events received", AT(events) },
	{ "vipd_source_received_bytes_total", "counter", "Bytes received in lists and watches",
	  AT(bytes) },
};
#define SOURCE_METRICS ARRAY_SIZE(source_metrics)

static void source_add(struct str lines[static SOURCE_METRICS], const struct serve_source_stats *s,
		       uint64_t now)
{
	FINI(str_fini) struct str label = { 0 };

	expo_label(&label, "source", s->name);
	for (size_t i = 0; i < SOURCE_METRICS; i++) {
		const void *value = (const char *)s + source_metrics[i].at;

		if (value != &s->last_event_ns)
			expo_uint(&lines[i], source_metrics[i].name, label.text,
				  *(const uint64_t *)value);
		else if (s->last_event_ns != 0)
			expo_seconds(&lines[i], source_metrics[i].name, label.text,
				     now - MIN(now, s->last_event_ns));
	}
}

static void source_lines(const struct metrics *m, struct str *out, uint64_t now)
{
	const struct serve_source *source = &m->config.ctx->source;
	/* A buffer for each metric, because all samples of a metric follow each other. */
	struct str lines[SOURCE_METRICS] = { 0 };
	struct serve_source_stats stats;

	if (source->stats == NULL)
		return;
	one(out, "vipd_configuration_rejected", "gauge",
	    "1 while a file of configuration or credentials is rejected; the previous one stays in force",
	    source->rejected != NULL && source->rejected(source->arg) != NULL);
	for (size_t i = 0; source->stats(source->arg, i, &stats); i++)
		source_add(lines, &stats, now);
	for (size_t i = 0; i < SOURCE_METRICS; i++) {
		if (lines[i].len > 0) {
			expo_head(out, source_metrics[i].name, source_metrics[i].type,
				  source_metrics[i].help);
			str_add(out, lines[i].text, lines[i].len);
		}
		str_fini(&lines[i]);
	}
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
		  "Log lines by level, lines suppressed by the rate limit included");
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		expo_uint(out, "vipd_log_lines_total", levels[i].labels,
			  log_count(levels[i].level));
	one(out, "vipd_log_lines_dropped_total", "counter",
	    "Log lines lost because the reader of standard error is slow, blocked or gone",
	    log_dropped());
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
		[HTTP_LIMIT_READING] = "reading",
	};

	expo_head(out, "vipd_http_connections_closed_total", "counter",
		  "Connections closed at the limit of a server (all) or of a client address "
		  "(client), or whose client did not read the answer in time (reading)");
	for (int class = 0; class < HTTP_CLASSES; class ++)
		for (int limit = 0; limit < HTTP_LIMITS; limit++)
			expo_uint(out, "vipd_http_connections_closed_total",
				  str_local(64, "server=\"%s\",limit=\"%s\"", servers[class],
					    limits[limit]),
				  http_closed((enum http_class) class, (enum http_limit)limit));
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
	return n > 3 ? n - 3 : 0; /* without ".", ".." and the descriptor of `dir` */
}

static void memory_lines(struct str *out)
{
	AUTO(fclose) FILE *f = fopen("/proc/self/statm", "re");
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
	FINI(str_fini) struct str labels = { 0 };

	expo_label(&labels, "mode", m->config.ctx->plane->ops->name);
	expo_label(&labels, "version", VIPD_VERSION);
	expo_head(out, "vipd_build_info", "gauge", "Version and mode of vipd; always 1");
	expo_uint(out, "vipd_build_info", labels.text, 1);
}

void metrics_text(struct metrics *m, struct str *out, uint64_t now_ns, int64_t wall_ns)
{
	size_t n_dirty = dirty_count(m->config.ctx->model);

	sync_lines(m, out, now_ns, wall_ns);
	no_local_lines(m, out);
	change_lines(m, out, n_dirty);
	health_lines(m, out);
	build_lines(m, out);
	state_lines(m, out, now_ns);
	work_lines(m, out);
	rule_lines(m, out, now_ns);
	drain_lines(m, out);
	failover_lines(m, out);
	one(out, "vipd_ejected_endpoints", "gauge",
	    "Endpoints of services without new connections from this node for a time",
	    m->config.ctx->model->ejections.n);
	health_service_lines(m, out);
	source_lines(m, out, now_ns);
	log_lines(out);
	connection_lines(out);
	process_lines(m, out);
}
