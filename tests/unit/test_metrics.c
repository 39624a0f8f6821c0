/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/metrics, metrics/expo: the text, sums after changes, counters that never decrease. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "metrics/counts.h"
#include "metrics/expo.h"
#include "metrics/metrics.h"
#include "serve_world.h"

#define S NSEC_PER_SEC
#define WALL ((int64_t)(2000 * S)) /* when the process started */

struct world {
	struct serve_world w;
	struct health *health;
	struct metrics *m;
	int64_t wall_ns;
	uint64_t now_ns; /* 0: the wall clock */
};

static void on_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole)
{
	struct world *w = arg;

	metrics_accepted(w->m, svc, old, new,
			 w->now_ns ? w->now_ns : T0 + (uint64_t)(w->wall_ns - WALL), w->wall_ns);
}

static bool sources(void *arg, size_t i, struct serve_source_stats *ret)
{
	static const struct serve_source_stats all[] = {
		{ .name = "services", .is_synced = true, .last_event_ns = T0, .events = 7 },
		{ .name = "a \"strange\\one\"", .is_failing = true },
	};

	(void)arg;
	if (i == ARRAY_SIZE(all))
		return false;
	*ret = all[i];
	return true;
}

static void world_init(struct world *w)
{
	struct sync_config sync = { .accepted = on_accepted, .accepted_arg = w };
	struct health_config health = { .ctx = &w->w.ctx, .sync_period_ns = 30 * S };
	struct metrics_config config = {
		.ctx = &w->w.ctx,
		.started_wall_ns = WALL,
	};
	struct err err;

	*w = (struct world){ .wall_ns = WALL };
	serve_world_init(&w->w);
	w->w.ctx.source.stats = sources;
	sync_close(w->w.s);
	sync_open(&w->w.s, &w->w.m, &w->w.p, &w->w.k.plane, &sync);
	w->w.ctx.sync = w->w.s;
	assert_int_equal(health_open(&w->health, NULL, &health, &err), 0);
	w->w.ctx.health = w->health;
	assert_int_equal(metrics_open(&w->m, NULL, &config, &err), 0);
}

static void world_fini(struct world *w)
{
	metrics_close(w->m);
	health_close(w->health);
	serve_world_fini(&w->w);
}

static void settle(struct world *w)
{
	sync_sources_ready(w->w.s);
	while (sync_step(w->w.s, T0) == SYNC_NOW)
		metrics_stepped(w->m);
	metrics_stepped(w->m);
}

/* The value of the line with that name and labels; the test fails if it is missing. */
static double value(struct world *w, const char *line)
{
	struct str text = { 0 };
	char want[256];
	const char *at;
	double n;

	metrics_text(w->m, &text, T0 + 10 * S, w->wall_ns);
	(void)snprintf(want, sizeof(want), "\n%s ", line);
	at = strstr(text.text, want);
	if (at == NULL)
		print_error("no line '%s'\n", line);
	assert_non_null(at);
	n = strtod(at + strlen(want), NULL);
	str_fini(&text);
	return n;
}

#define assert_value(w, line, n) assert_float_equal(value((w), (line)), (n), 1e-9)

/* --- histograms --- */

static void test_hist(void **state)
{
	struct expo_hist h = { .bounds = expo_e15 };
	struct str out = { 0 };

	(void)state;
	expo_hist(&out, "x_seconds", "a=\"b\"", &h); /* empty, and complete */
	assert_non_null(strstr(out.text, "x_seconds_bucket{a=\"b\",le=\"0.001\"} 0\n"));
	assert_non_null(strstr(out.text, "x_seconds_bucket{a=\"b\",le=\"16.384\"} 0\n"));
	assert_non_null(strstr(out.text, "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 0\n"));
	assert_non_null(strstr(out.text, "x_seconds_sum{a=\"b\"} 0\nx_seconds_count{a=\"b\"} 0\n"));
	str_clear(&out);
	expo_hist_add(&h, NSEC_PER_MSEC);     /* a bound is inclusive */
	expo_hist_add(&h, NSEC_PER_MSEC + 1); /* the next one */
	expo_hist_add(&h, 3600 * S);          /* above all */
	expo_hist(&out, "x_seconds", NULL, &h);
	assert_non_null(strstr(out.text, "x_seconds_bucket{le=\"0.001\"} 1\n"));
	assert_non_null(strstr(out.text, "x_seconds_bucket{le=\"0.002\"} 2\n"));
	assert_non_null(strstr(out.text, "x_seconds_bucket{le=\"16.384\"} 2\n"));
	assert_non_null(strstr(out.text, "x_seconds_bucket{le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(out.text, "x_seconds_sum 3600.002000001\nx_seconds_count 3\n"));
	str_fini(&out);
}

/* Section 13: NPL is 0.25, 0.5, 1..59, 60..115 by 5, 120..300 by 30. */
static void test_bounds(void **state)
{
	uint64_t want[80];
	size_t n = 0;

	(void)state;
	want[n++] = 250 * NSEC_PER_MSEC;
	want[n++] = 500 * NSEC_PER_MSEC;
	for (uint64_t s = 1; s < 60; s++)
		want[n++] = s * S;
	for (uint64_t s = 60; s <= 115; s += 5)
		want[n++] = s * S;
	for (uint64_t s = 120; s <= 300; s += 30)
		want[n++] = s * S;
	assert_int_equal(expo_npl[n], 0);
	assert_memory_equal(want, expo_npl, sizeof(want));
	for (size_t i = 0; i < 15; i++)
		assert_int_equal(expo_e15[i], NSEC_PER_MSEC << i);
}

/* --- sums --- */

static void test_sums_follow(void **state)
{
	static const char internal4[] = "kubeproxy_sync_proxy_rules_no_local_endpoints_total"
					"{ip_family=\"IPv4\",traffic_policy=\"internal\"}";
	static const char external4[] = "kubeproxy_sync_proxy_rules_no_local_endpoints_total"
					"{ip_family=\"IPv4\",traffic_policy=\"external\"}";
	static const char external6[] = "kubeproxy_sync_proxy_rules_no_local_endpoints_total"
					"{ip_family=\"IPv6\",traffic_policy=\"external\"}";
	struct world w;

	(void)state;
	world_init(&w);
	assert_value(&w, "vipd_in_service", 0);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80");
	put_slice(&w.w, "shop/a-x", "a", "|http:8080|1 rs; 2 rs; 3 rs");
	/* Two external addresses are one port. */
	put_service(
		&w.w, "shop/l",
		"type=LoadBalancer etp ip=10.96.0.2 vip=203.0.113.1 vip=203.0.113.2 port=http:80");
	put_slice(&w.w, "shop/l-x", "l", "|http:8080|7 rs @n2");
	put_service(&w.w, "shop/i", "itp ip=10.96.0.3 port=http:80");
	put_slice(&w.w, "shop/i-x", "i", "|http:8080|8 rs @n2");
	settle(&w);
	assert_value(&w, "vipd_in_service", 1);
	assert_value(&w, "vipd_services", 3);
	assert_value(&w, "vipd_programmed_services", 3);
	assert_value(&w, "vipd_frontends", 5);
	assert_value(&w, internal4, 1);
	assert_value(&w, external4, 1);
	assert_value(&w, external6, 0);
	/* MET-25: none at all is not "none here". */
	put_slice(&w.w, "shop/i-x", "i", "|http:8080|");
	/* An endpoint appears on this node. */
	put_slice(&w.w, "shop/l-x", "l", "|http:8080|7 rs @n1");
	assert_value(&w, "kubeproxy_sync_proxy_rules_service_changes_pending", 2);
	assert_value(&w, "kubeproxy_sync_proxy_rules_endpoint_changes_pending", 2);
	assert_value(&w, "vipd_pending_services", 2);
	settle(&w);
	assert_value(&w, "kubeproxy_sync_proxy_rules_endpoint_changes_pending", 0);
	assert_value(&w, "kubeproxy_sync_proxy_rules_endpoint_changes_total", 5);
	assert_value(&w, "kubeproxy_sync_proxy_rules_service_changes_total", 3);
	assert_value(&w, internal4, 0);
	assert_value(&w, external4, 0);
	/* The kernel is loaded again: values are not counted twice. */
	sync_reload(w.w.s);
	settle(&w);
	assert_value(&w, "vipd_loads_total", 2);
	assert_value(&w, "vipd_frontends", 5);
	del_service(&w.w, "shop", "a");
	del_service(&w.w, "shop", "i");
	del_service(&w.w, "shop", "l");
	settle(&w);
	assert_value(&w, "vipd_programmed_services", 0);
	assert_value(&w, "vipd_frontends", 0);
	assert_value(&w, "vipd_pools", 0);
	assert_value(&w, "vipd_backends", 0);
	world_fini(&w);
}

static void test_sync_times(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80");
	settle(&w);
#define COUNT(what) "kubeproxy_sync_" what "proxy_rules_duration_seconds_count{ip_family=\"IPv6\"}"
	assert_value(&w, COUNT("full_"), 1); /* an adoption counts as one */
	assert_value(&w, COUNT("partial_"), 0);
	assert_value(&w, COUNT(""), 1);
	for (int i = 0; i < 5; i++) {
		put_service(&w.w, "shop/a",
			    i & 1 ? "ip=10.96.0.1 port=http:80" : "ip=10.96.0.1 port=http:81");
		settle(&w);
	}
	assert_value(&w, COUNT("full_"), 1);
	assert_value(&w, COUNT("partial_"), 5);
	assert_value(&w, COUNT(""), 6);
	world_fini(&w);
}

/* --- MET-06 --- */

#define NP "kubeproxy_network_programming_duration_seconds"
#define IP4 "{ip_family=\"IPv4\"}"

static void test_programming(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80");
	put_service(&w.w, "shop/b", "ip=10.96.0.2 ip=fd00::2 port=http:80");
	/* Older than the process: not measured (IN-40). */
	put_slice(&w.w, "shop/a-x", "a", "trigger=1999000000000 |http:8080|1 rs");
	settle(&w);
	assert_value(&w, NP "_count" IP4, 0);

	w.wall_ns = WALL + (int64_t)(10 * S);
	put_slice(&w.w, "shop/a-x", "a", "trigger=2008000000000 |http:8080|1 rs; 2 rs");
	settle(&w);
	assert_value(&w, NP "_count" IP4, 1);
	assert_value(&w, NP "_sum" IP4, 2);
	assert_value(&w, NP "_bucket{ip_family=\"IPv4\",le=\"1\"}", 0);
	assert_value(&w, NP "_bucket{ip_family=\"IPv4\",le=\"2\"}", 1);
	assert_value(&w, NP "_count{ip_family=\"IPv6\"}", 0);

	/* Rejected, changed again, then accepted: measured once, from the first change (MET-27). */
	w.w.k.refuse_name = "b";
	w.w.k.refuse_with = -EINVAL;
	w.w.k.is_culprit_named = true;
	put_slice(&w.w, "shop/b-x", "b", "trigger=2010000000000 |http:8080|1 rs");
	settle(&w);
	assert_value(&w, "vipd_pending_services", 1);
	put_slice(&w.w, "shop/b-x", "b", "trigger=2011000000000 |http:8080|1 rs; 2 rs");
	assert_value(&w, "vipd_pending_services", 1); /* rejected, and its change is not synced */
	settle(&w);
	assert_value(&w, NP "_count" IP4, 1);
	assert_value(&w, "vipd_rejected_services", 1);
	w.w.k.refuse_name = NULL;
	w.wall_ns = WALL + (int64_t)(40 * S);
	model_mark_dirty(&w.w.m, model_find_text(&w.w.m, "shop", "b"), T0);
	settle(&w);
	assert_value(&w, NP "_count" IP4, 2);
	assert_value(&w, NP "_sum" IP4, 2 + 30);
	assert_value(&w, NP "_count{ip_family=\"IPv6\"}", 1);
	world_fini(&w);
}

/* A slice changes `n` seconds after the start by the control plane's clock, and is programmed. */
static void triggered(struct world *w, int n_endpoints, int64_t trigger_s)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "trigger=%lld |http:8080|%s", (long long)trigger_s * S,
		       n_endpoints == 1 ? "1 rs" : "1 rs; 2 rs");
	put_slice(&w->w, "shop/a-x", "a", text);
}

/* The wall clock is set forward and back: no sample exceeds the lifetime of the process. */
static void test_programming_clock(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80");
	settle(&w);
	w.now_ns = T0 + 20 * S; /* 20 seconds old, the clock was set a year forward */
	w.wall_ns = WALL + (int64_t)(31536000 * S);
	triggered(&w, 1, 2010); /* by the earlier clock: not measured */
	settle(&w);
	assert_value(&w, NP "_count" IP4, 0);
	triggered(&w, 2, 2000 + 31536000 - 3); /* by the new one */
	settle(&w);
	assert_value(&w, NP "_count" IP4, 1);
	assert_value(&w, NP "_sum" IP4, 3);

	w.now_ns = T0 + 40 * S; /* back, to before the start */
	w.wall_ns = WALL - (int64_t)(500 * S);
	triggered(&w, 1, 2010); /* in the future */
	settle(&w);
	assert_value(&w, NP "_count" IP4, 2);
	assert_value(&w, NP "_sum" IP4, 3);
	triggered(&w, 2, 1500 - 4); /* "before the start" by the changed clock only */
	settle(&w);
	assert_value(&w, NP "_count" IP4, 3);
	assert_value(&w, NP "_sum" IP4, 7);
	world_fini(&w);
}

/* A sync that fails as a whole and is retried, simultaneous changes, and a start. */
static void test_programming_late(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	w.w.m.config.triggers_since_ns = WALL;
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80");
	/* A change before the start, then one before the first sync, which counts. */
	triggered(&w, 1, 1000);
	triggered(&w, 2, 2001);
	triggered(&w, 1, 1500);
	w.wall_ns = WALL + (int64_t)(2 * S);
	settle(&w);
	assert_value(&w, NP "_count" IP4, 1);
	assert_value(&w, NP "_sum" IP4, 1);
	/* Three changes in one sync: measured from the oldest. */
	w.wall_ns = WALL + (int64_t)(20 * S);
	triggered(&w, 2, 2012);
	triggered(&w, 1, 2010);
	triggered(&w, 2, 2015);
	settle(&w);
	assert_value(&w, NP "_count" IP4, 2);
	assert_value(&w, NP "_sum" IP4, 1 + 10);
	/* The outcome is unknown: the kernel is loaded, and missing elements are sent. */
	triggered(&w, 1, 2020);
	w.w.k.fail_next_commit = -EBUSY;
	w.wall_ns = WALL + (int64_t)(23 * S);
	settle(&w);
	assert_value(&w, NP "_count" IP4, 2); /* no value before the event */
	w.wall_ns = WALL + (int64_t)(25 * S);
	while (sync_step(w.w.s, T0 + 60 * S) == SYNC_NOW)
		metrics_stepped(w.m);
	assert_value(&w, NP "_count" IP4, 3);
	assert_value(&w, NP "_sum" IP4, 1 + 10 + 5);
	/* A load without changes: nothing is measured. */
	sync_reload(w.w.s);
	settle(&w);
	assert_value(&w, NP "_count" IP4, 3);
	world_fini(&w);
}

/* --- last sync --- */

/* The request of a change that needs no sync would never be followed by a sync. */
static void test_queued(void **state)
{
	static const char queued[] = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds" IP4;
	struct world w;
	uint64_t success;

	(void)state;
	world_init(&w);
	metrics_queued(w.m, WALL + (int64_t)S);
	settle(&w);
	success = sync_stats_get(w.w.s)->last_success_ns;
	metrics_queued(w.m, WALL + (int64_t)(2 * S));
	assert_value(&w, queued, 1e-9 * (double)(WALL + (int64_t)S));
	assert_int_equal(model_put_node(&w.w.m, test_node("n1", "zone=b"), T0), 1);
	assert_true(list_is_empty(&w.w.m.dirty));
	metrics_queued(w.m, WALL + (int64_t)(3 * S));
	assert_value(&w, queued, 1e-9 * (double)(WALL + (int64_t)(3 * S)));
	settle(&w);
	assert_true(sync_stats_get(w.w.s)->last_success_ns > success);
	world_fini(&w);
}

/* --- counters of rules --- */

static void test_rule_counts_never_go_back(void **state)
{
	struct world w;
	struct str text = { 0 };

	(void)state;
	world_init(&w);
	w.w.k.fail_rule_counts[IPFAM_V4] = -ENOENT;
	metrics_text(w.m, &text, T0, WALL);
	assert_null(strstr(text.text, "vipd_rejected_packets_total"));
	assert_null(strstr(text.text, "vipd_invalid_dropped"));
	w.w.k.fail_rule_counts[IPFAM_V4] = 0;
	w.w.k.rule_counts[IPFAM_V4].packets[PLANE_INVALID_DROPPED] = 9;
	str_clear(&text);
	metrics_text(w.m, &text, T0 + 1 * S, WALL);
	assert_non_null(strstr(text.text, "\nvipd_invalid_dropped_packets_total 9\n"));
	w.w.k.rule_counts[IPFAM_V4].packets[PLANE_INVALID_DROPPED] = 2; /* rules made anew */
	str_clear(&text);
	metrics_text(w.m, &text, T0 + 2 * S, WALL);
	assert_non_null(strstr(text.text, "\nvipd_invalid_dropped_packets_total 11\n"));
	w.w.k.rule_counts[IPFAM_V4].packets[PLANE_INVALID_DROPPED] =
		500; /* requested again within a second */
	str_clear(&text);
	metrics_text(w.m, &text, T0 + 2 * S + 1, WALL);
	assert_non_null(strstr(text.text, "\nvipd_invalid_dropped_packets_total 11\n"));
	w.w.k.rule_counts[IPFAM_V4].packets[PLANE_REJECT_SOURCE_RANGES] = 7;
	w.w.k.rule_counts[IPFAM_V6].packets[PLANE_AFFINITY_FULL] = 3;
	str_clear(&text);
	metrics_text(w.m, &text, T0 + 4 * S, WALL);
	assert_non_null(
		strstr(text.text, "\nvipd_rejected_packets_total{reason=\"source_ranges\"} 7\n"));
	assert_non_null(
		strstr(text.text, "\nvipd_rejected_packets_total{reason=\"no_endpoints\"} 0\n"));
	assert_non_null(strstr(text.text, "\nvipd_affinity_full_connections_total 3\n"));
	str_fini(&text);
	world_fini(&w);
}

/* Packets that are counted twice are read later: the value neither falls nor jumps. */
static void test_no_endpoints(void **state)
{
	static const struct {
		uint64_t rejected, twice;
		const char *total;
	} scrapes[] = {
		{ 1000, 0, "{reason=\"no_endpoints\"} 1000\n" },
		{ 1000, 1, "{reason=\"no_endpoints\"} 1000\n" },
		{ 1001, 1, "{reason=\"no_endpoints\"} 1000\n" },
		{ 1002, 1, "{reason=\"no_endpoints\"} 1001\n" },
		{ 1, 0, "{reason=\"no_endpoints\"} 1002\n" }, /* rules made anew */
	};
	struct world w;

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(scrapes); i++) {
		FINI(str_fini) struct str text = { 0 };

		w.w.k.rule_counts[IPFAM_V4].packets[PLANE_REJECT_NO_ENDPOINTS] =
			scrapes[i].rejected;
		w.w.k.rule_counts[IPFAM_V4].twice = scrapes[i].twice;
		metrics_text(w.m, &text, T0 + i * S, WALL);
		assert_non_null(strstr(text.text, scrapes[i].total));
	}
	world_fini(&w);
}

/* A family that fails from the start does not keep the counters of the other one out. */
static void test_rule_counts_without_a_family(void **state)
{
	struct world w;
	struct str text = { 0 };

	(void)state;
	world_init(&w);
	w.w.k.fail_rule_counts[IPFAM_V6] = -EAGAIN;
	metrics_text(w.m, &text, T0, WALL);
	assert_null(strstr(text.text, "vipd_invalid_dropped"));
	w.w.k.plane.family[IPFAM_V6].since_ns = 1; /* is_failed or not: an attempt goes on */
	metrics_text(w.m, &text, T0, WALL);
	assert_non_null(strstr(text.text, "\nvipd_invalid_dropped_packets_total 0\n"));
	str_fini(&text);
	world_fini(&w);
}

/* The rules and counters of a failed family stay in the kernel. */
static void test_rule_counts_of_a_failed_family(void **state)
{
	static const struct {
		uint64_t v4, v6;
		int v6_fails;
		const char *total;
	} scrapes[] = {
		{ 5, 100, 0, "\nvipd_invalid_dropped_packets_total 105\n" },
		{ 7, 101, -EAGAIN, "\nvipd_invalid_dropped_packets_total 107\n" },
		{ 8, 102, 0, "\nvipd_invalid_dropped_packets_total 110\n" },
		{ 8, 1, 0, "\nvipd_invalid_dropped_packets_total 111\n" },
	};
	struct world w;

	(void)state;
	world_init(&w);
	for (size_t i = 0; i < ARRAY_SIZE(scrapes); i++) {
		FINI(str_fini) struct str text = { 0 };

		w.w.k.rule_counts[IPFAM_V4].packets[PLANE_INVALID_DROPPED] = scrapes[i].v4;
		w.w.k.rule_counts[IPFAM_V6].packets[PLANE_INVALID_DROPPED] = scrapes[i].v6;
		w.w.k.fail_rule_counts[IPFAM_V6] = scrapes[i].v6_fails;
		metrics_text(w.m, &text, T0 + i * S, WALL);
		assert_non_null(strstr(text.text, scrapes[i].total));
	}
	world_fini(&w);
}

/* --- the page --- */

/* Every line belongs to the metric of the header above it; no metric occurs twice. */
static void test_form(void **state)
{
	struct world w;
	struct str text = { 0 };
	char *rest;
	char *line;
	char name[128] = "";
	size_t n_lines = 0;

	(void)state;
	world_init(&w);
	settle(&w);
	metrics_text(w.m, &text, T0, WALL);
	assert_non_null(
		strstr(text.text, "vipd_source_failing{source=\"a \\\"strange\\\\one\\\"\"} 1\n"));
	assert_int_equal(text.text[text.len - 1], '\n');
	rest = text.text;
	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
		char again[160];

		n_lines++;
		if (strncmp(line, "# HELP ", 7) == 0) {
			assert_int_equal(sscanf(line, "# HELP %127s", name), 1);
			(void)snprintf(again, sizeof(again), "\n# HELP %s ", name);
			assert_null(rest ? strstr(rest, again) : NULL);
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			assert_int_equal(strncmp(line + 7, name, strlen(name)), 0);
		} else {
			assert_int_equal(strncmp(line, name, strlen(name)), 0);
			assert_non_null(strrchr(line, ' '));
		}
	}
	assert_in_range(n_lines, 200, 1000);
	str_fini(&text);
	world_fini(&w);
}

/* A metric of kube-proxy, a gauge despite its suffix. */
#define KUBEPROXY_GAUGE "kubeproxy_sync_proxy_rules_no_local_endpoints_total"

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text);

	return n >= strlen(end) && strcmp(text + n - strlen(end), end) == 0;
}

/* Prometheus' naming rules: _total for counters only, base units, no reserved suffixes. */
static void check_name(const char *name, const char *type)
{
	static const char *const bad[] = { "_count",  "_sum", "_bucket",  "_ms",
					   "_millis", "_us",  "_minutes", "_kilobytes" };

	if (strcmp(name, KUBEPROXY_GAUGE) == 0)
		return;
	if (ends_with(name, "_total") != (strcmp(type, "counter") == 0))
		fail_msg("%s is a %s", name, type);
	if (strcmp(type, "histogram") == 0 && !ends_with(name, "_seconds"))
		fail_msg("histogram %s has no base unit", name);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (ends_with(name, bad[i]))
			fail_msg("%s ends in %s", name, bad[i]);
}

static void test_names(void **state)
{
	struct world w;
	struct str text = { 0 };
	char *rest;
	char *line;
	size_t n = 0;

	(void)state;
	world_init(&w);
	settle(&w);
	metrics_text(w.m, &text, T0, WALL);
	rest = text.text;
	while ((line = strsep(&rest, "\n")) != NULL) {
		char name[128];
		char type[16];

		if (sscanf(line, "# TYPE %127s %15s", name, type) != 2)
			continue;
		check_name(name, type);
		n++;
	}
	assert_in_range(n, 60, 200);
	str_fini(&text);
	world_fini(&w);
}

/* The content of the cluster changes values, not lines. */
static void test_cardinality(void **state)
{
	struct world w;
	size_t n[2] = { 0 };

	(void)state;
	world_init(&w);
	for (int pass = 0; pass < 2; pass++) {
		struct str text = { 0 };

		settle(&w);
		metrics_text(w.m, &text, T0, WALL);
		for (size_t i = 0; i < text.len; i++)
			n[pass] += text.text[i] == '\n';
		str_fini(&text);
		for (int i = 0; pass == 0 && i < 200; i++) {
			char key[32];
			char ip[64];

			(void)snprintf(key, sizeof(key), "shop/s%d", i);
			(void)snprintf(ip, sizeof(ip), "ip=10.96.1.%d port=http:80", i + 1);
			put_service(&w.w, key, ip);
		}
	}
	assert_int_equal(n[0], n[1]);
	world_fini(&w);
}

/* --- lines of single services --- */

/* Read a streamed answer; returns the number of pieces. */
static size_t answer_text(struct world *w, enum plane_counting counting, size_t series_max,
			  struct str *out)
{
	size_t turns = 0;
	struct http_reply reply = { .type = "text/plain" };
	int r;

	str_puts(&reply.body, "# HEAD\n");
	w->w.ctx.counting = counting;
	counts_reply(&reply, &w->w.ctx, series_max);
	str_add(out, reply.body.text, reply.body.len);
	str_fini(&reply.body);
	do {
		r = reply.ops->more(reply.state, out, 0); /* no time: the smallest pieces */
		turns++;
	} while (r == 1);
	assert_int_equal(r, 0);
	reply.ops->close(reply.state);
	return turns;
}

static void test_counts(void **state)
{
	static const char *const wanted[] = {
		"# HEAD\n",
		"vipd_service_connections_total{namespace=\"shop\",service=\"a\",port=\"http\","
		"protocol=\"TCP\",ip_family=\"IPv4\",frontend=\"ClusterIP\"} 83\n",
		/* Two addresses of one kind are one line. */
		"vipd_service_connections_total{namespace=\"shop\",service=\"l\",port=\"http\","
		"protocol=\"TCP\",ip_family=\"IPv4\",frontend=\"ExternalIP\"} 174\n",
		"vipd_service_rejected_connections_total{namespace=\"shop\",service=\"a\",port=\"http\","
		"protocol=\"TCP\",ip_family=\"IPv4\",frontend=\"ClusterIP\"} 3\n",
		"vipd_endpoint_connections_total{namespace=\"shop\",service=\"a\",port=\"http\","
		"protocol=\"TCP\",ip_family=\"IPv4\",endpoint=\"10.0.1.2:8080\"} 8082\n",
		"vipd_omitted_series 0\n",
	};
	struct world w;
	struct str text = { 0 };

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:83");
	put_slice(&w.w, "shop/a-x", "a", "|http:8080|1 rs; 2 rs; 3 rs");
	put_service(&w.w, "shop/l", "ip=10.96.0.2 ext=203.0.113.1 ext=203.0.113.2 port=http:87");
	settle(&w);
	(void)answer_text(&w, PLANE_COUNT_ENDPOINTS, 1000, &text);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (strstr(text.text, wanted[i]) == NULL)
			print_error("no '%s' in\n%.6000s\n", wanted[i], text.text);
		assert_non_null(strstr(text.text, wanted[i]));
	}
	str_clear(&text);
	(void)answer_text(&w, PLANE_COUNT_SERVICES, 1000, &text);
	assert_non_null(strstr(text.text, "vipd_service_connections_total{"));
	assert_null(strstr(text.text, "vipd_endpoint_connections_total"));
	str_fini(&text);
	world_fini(&w);
}

/* A sum without one of its counters would be a fall, which Prometheus takes for a restart. */
static void test_counts_in_part(void **state)
{
	const struct plan_rows *rows;
	struct world w;
	struct str text = { 0 };

	(void)state;
	world_init(&w);
	put_service(&w.w, "shop/a",
		    "type=LoadBalancer etp ip=10.96.0.1 vip=203.0.113.1 port=http:80");
	put_slice(&w.w, "shop/a-x", "a", "|http:8080|1 rs @n1; 2 rs @n2");
	settle(&w);
	(void)answer_text(&w, PLANE_COUNT_ENDPOINTS, 1000, &text);
	assert_non_null(strstr(text.text, "endpoint=\"10.0.1.1:8080\"} 16162\n"));
	assert_non_null(strstr(text.text, "endpoint=\"10.0.1.2:8080\"} 8082\n"));
	rows = model_find_text(&w.w.m, "shop", "a")->rows;
	vec_for_each (slot, &w.w.k.slots) /* endpoint 1 has one in the pool of this node, too */
		if (slot->pool == rows->pools.v[1].id)
			slot->b.addr.bytes[3] = 9;
	str_clear(&text);
	(void)answer_text(&w, PLANE_COUNT_ENDPOINTS, 1000, &text);
	assert_null(strstr(text.text, "endpoint=\"10.0.1.1:8080\""));
	assert_non_null(strstr(text.text, "endpoint=\"10.0.1.2:8080\"} 8082\n"));
	str_fini(&text);
	world_fini(&w);
}

static uint32_t no_affinity(uint16_t class)
{
	return 0;
}

/* A service without the session affinity that it configures is counted while that lasts. */
static void test_unsticky(void **state)
{
	struct plan_traits traits = { .pool_class = mock_pool_class,
				      .class_affinity = no_affinity };
	struct world w;

	world_init(&w);
	w.w.p.traits = &traits;
	assert_value(&w, "vipd_services_without_affinity", 0);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80 affinity=600");
	put_slice(&w.w, "shop/a-x", "a", "|http:8080|1 rs; 2 rs");
	put_service(&w.w, "shop/b", "ip=10.96.0.2 port=http:80");
	put_slice(&w.w, "shop/b-x", "b", "|http:8080|1 rs");
	settle(&w);
	assert_value(&w, "vipd_services_without_affinity", 1);
	put_service(&w.w, "shop/a", "ip=10.96.0.1 port=http:80");
	settle(&w);
	assert_value(&w, "vipd_services_without_affinity", 0);
	world_fini(&w);
}

/* The reader of standard error does not read: lost lines are counted. */
static void test_dropped_lines(void **state)
{
	struct log_site site = { 0 };
	int saved = dup(STDERR_FILENO);
	static char buf[65536];
	struct world w;
	int fds[2];

	world_init(&w);
	assert_value(&w, "vipd_log_lines_dropped_total", 0);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	(void)dup2(fds[1], STDERR_FILENO);
	while (log_dropped() < 3) {
		site.bucket_ns = 0;
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_ERR, "a line %d", (int)now_ns());
	}
	do
		(void)log_tick(now_ns());
	while (read(fds[0], buf, sizeof(buf)) > 0);
	(void)dup2(saved, STDERR_FILENO);
	assert_value(&w, "vipd_log_lines_dropped_total", 3);
	close(saved);
	close(fds[0]);
	close(fds[1]);
	world_fini(&w);
}

/* One address family fails and recovers. */
static void test_family_up(void **state)
{
	struct err err = { 0 };
	struct world w;

	world_init(&w);
	settle(&w);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		assert_int_equal(plane_family_fail(&w.w.k.plane, fam, -EPERM, &err), 0);
		assert_value(&w, "vipd_family_up" IP4, fam != IPFAM_V4);
		assert_value(&w, "vipd_family_up{ip_family=\"IPv6\"}", fam != IPFAM_V6);
		w.w.k.plane.family[fam].is_failed = false; /* an attempt: not recovered yet */
		assert_value(&w, "vipd_family_up" IP4, fam != IPFAM_V4);
		plane_families_settled(&w.w.k.plane);
		assert_value(&w, "vipd_family_up" IP4, 1);
		assert_value(&w, "vipd_family_up{ip_family=\"IPv6\"}", 1);
	}
	world_fini(&w);
}

/* What /healthz would answer, without a probe. */
static void test_ready(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	assert_value(&w, "vipd_ready", 0);
	settle(&w);
	assert_value(&w, "vipd_ready", 1);
	(void)plane_fault_set(&w.w.k.plane, PLANE_FAULT_SYSCTL, true, "a sysctl");
	assert_value(&w, "vipd_ready", 0);
	(void)plane_fault_clear(&w.w.k.plane, PLANE_FAULT_SYSCTL);
	assert_value(&w, "vipd_ready", 1);
	assert_value(&w, "kubeproxy_proxy_healthz_total{code=\"503\"}", 0);
	world_fini(&w);
}

/* Many services: every line once, none above the limit; in small pieces. */
static void test_counts_bound(void **state)
{
	enum {
		SERVICES = 1000,
		MAX = 1700
	}; /* two lines each */
	struct world w;
	struct str text = { 0 };
	char left_out[64];
	size_t n = 0;

	(void)state;
	world_init(&w);
	for (int i = 0; i < SERVICES; i++) {
		char key[32];
		char ip[64];

		(void)snprintf(key, sizeof(key), "shop/s%d", i);
		(void)snprintf(ip, sizeof(ip), "ip=10.96.%d.%d port=http:80", i >> 8, i & 255);
		put_service(&w.w, key, ip);
	}
	settle(&w);
	assert_true(answer_text(&w, PLANE_COUNT_SERVICES, MAX, &text) > MAX / COUNTS_BATCH);
	for (const char *at = text.text; (at = strchr(at, '\n')) != NULL; at++)
		n += strncmp(at, "\nvipd_service_", 14) == 0;
	assert_int_equal(n, MAX);
	assert_int_equal(w.w.k.n_counted, MAX); /* nor is more asked for */
	(void)snprintf(left_out, sizeof(left_out), "\nvipd_omitted_series %d\n",
		       2 * SERVICES - MAX);
	assert_non_null(strstr(text.text, left_out));
	str_fini(&text);
	world_fini(&w);
}

/* A service with many ports: the slots of a port in a piece, not of all. */
static void test_counts_ports(void **state)
{
	enum {
		PORTS = 500,
	};
	struct world w;
	struct str service = { 0 };
	struct str slice = { 0 };
	struct str text = { 0 };
	size_t n = 0;

	(void)state;
	world_init(&w);
	str_puts(&service, "type=LoadBalancer etp ip=10.96.0.1 vip=203.0.113.1");
	str_puts(&slice, "|");
	for (int i = 1; i <= PORTS; i++) {
		str_printf(&service, " port=p%d:%d", i, i);
		str_printf(&slice, " p%d:%d", i, i);
	}
	str_puts(&slice, " |1 rs @n1; 2 rs @n2");
	put_service(&w.w, "shop/a", str_text(&service));
	put_slice(&w.w, "shop/a-x", "a", str_text(&slice));
	settle(&w);
	assert_true(answer_text(&w, PLANE_COUNT_ENDPOINTS, 10000, &text) > PORTS);
	for (const char *at = text.text; (at = strchr(at, '\n')) != NULL; at++)
		n += strncmp(at, "\nvipd_endpoint_connections_total{", 33) == 0;
	assert_int_equal(n, 2 * PORTS);
	str_fini(&service);
	str_fini(&slice);
	str_fini(&text);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hist),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_sums_follow),
		cmocka_unit_test(test_sync_times),
		cmocka_unit_test(test_programming),
		cmocka_unit_test(test_programming_clock),
		cmocka_unit_test(test_programming_late),
		cmocka_unit_test(test_queued),
		cmocka_unit_test(test_rule_counts_never_go_back),
		cmocka_unit_test(test_rule_counts_of_a_failed_family),
		cmocka_unit_test(test_no_endpoints),
		cmocka_unit_test(test_rule_counts_without_a_family),
		cmocka_unit_test(test_form),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_cardinality),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_counts_in_part),
		cmocka_unit_test(test_counts_bound),
		cmocka_unit_test(test_counts_ports),
		cmocka_unit_test(test_unsticky),
		cmocka_unit_test(test_family_up),
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_dropped_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
