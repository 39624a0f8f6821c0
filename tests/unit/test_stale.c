/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/stale: the flows that each change makes stale, with the real plan and sync. */
#include "test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../sync_steps.h"
#include "base/log.h"
#include "base/str.h"
#include "conntrack/stale.h"
#include "mock_plane.h"
#include "model/tuning.h"
#include "objects.h"
#include "sync/sync.h"

#define T0 (1000 * NSEC_PER_SEC)
#define MS NSEC_PER_MSEC

struct world {
	struct model m;
	struct plan p;
	struct mock_plane k;
	struct sync *s;
	struct stale *stale;
	uint64_t now;
	uint64_t accepted_ns; /* CPU time of stale_accepted() */
	size_t n_compared;    /* endpoints that it compared */
	size_t n_weighed;     /* and of which it computed the weight */
};

static size_t n_compared;

int __real_ip_endpoint_cmp(const void *a, const void *b);
int __wrap_ip_endpoint_cmp(const void *a, const void *b);

int __wrap_ip_endpoint_cmp(const void *a, const void *b)
{
	n_compared++;
	return __real_ip_endpoint_cmp(a, b);
}

static size_t n_weighed;

uint8_t __real_weights_of(const struct weights *w, const struct ip_addr *addr, const char *pod,
			  const struct name *slice);
uint8_t __wrap_weights_of(const struct weights *w, const struct ip_addr *addr, const char *pod,
			  const struct name *slice);
uint8_t __wrap_weights_of(const struct weights *w, const struct ip_addr *addr, const char *pod,
			  const struct name *slice)
{
	n_weighed++;
	return __real_weights_of(w, addr, pod, slice);
}

static void on_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole)
{
	struct world *w = arg;
	size_t before = n_compared;
	size_t weighed = n_weighed;
	uint64_t begin = thread_cpu_ns();

	stale_replaced(w->stale, old, new);
	if (is_whole)
		stale_accepted(w->stale, svc, new, w->p.left_out, w->now);
	w->accepted_ns += thread_cpu_ns() - begin;
	w->n_compared += n_compared - before;
	w->n_weighed += n_weighed - weighed;
}

static void on_addr(void *arg, const struct ip_addr *addr, bool is_listed)
{
	struct world *w = arg;

	stale_addr_event(w->stale, addr, is_listed, w->now);
}

static void world_init(struct world *w, bool is_reset)
{
	struct ip_addr addrs[] = { test_addr("192.0.2.1"), test_addr("2001:db8::1") };
	struct sync_config config = { .accepted = on_accepted, .accepted_arg = w };

	*w = (struct world){ .now = T0 };
	log_level_set_all(LOG_LEVEL_ERR - 1);
	mock_init(&w->k);
	model_init(&w->m);
	w->m.config.node_name = name_get_str("n1");
	w->m.config.tracks_addrs = is_reset;
	model_configured(&w->m);
	model_put_host_addrs(&w->m, addrs, ARRAY_SIZE(addrs), 0, 1);
	plan_init(&w->p, &w->m, &mock_plane_ops.traits);
	sync_open(&w->s, &w->m, &w->p, &w->k.plane, &config);
	stale_open(&w->stale, &w->m, is_reset);
	w->m.addr_event = on_addr;
	w->m.addr_event_arg = w;
	sync_sources_ready(w->s);
	sync_settle(w->s, w->now);
}

static void world_fini(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	stale_close(w->stale);
	model_fini(&w->m);
	mock_fini(&w->k);
	log_level_set_all(LOG_LEVEL_NOTICE);
	assert_int_equal(name_count(), 0);
}

/* --- objects by verb --- */

struct step {
	const char *verb; /* svc, slice, del-svc, del-slice */
	const char *name; /* of a slice: its name and, after a '@', its service */
	const char *text;
};

static void step_slice(struct world *w, const struct step *st)
{
	char *name = xstrdup(st->name);
	char *service = strchr(name, '@');

	assert_non_null(service);
	*service++ = '\0';
	(void)model_put_slice(&w->m, test_slice(name, service, st->text), 1);
	free(name);
}

static void step_do(struct world *w, const struct step *st)
{
	const struct name *ns = name_get_str("default");
	const struct name *name = name_get_str(st->name);

	if (strcmp(st->verb, "svc") == 0)
		(void)model_put_service(&w->m, test_service(st->name, st->text), 1);
	else if (strcmp(st->verb, "slice") == 0)
		step_slice(w, st);
	else if (strcmp(st->verb, "del-svc") == 0)
		(void)model_del_service(&w->m, ns, name, 1);
	else if (strcmp(st->verb, "del-slice") == 0)
		(void)model_del_slice(&w->m, ns, name, 1);
	else
		fail_msg("unknown verb %s", st->verb);
	name_unref(ns);
	name_unref(name);
}

static void steps_do(struct world *w, const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n && steps[i].verb != NULL; i++)
		step_do(w, &steps[i]);
	sync_settle(w->s, w->now);
}

static void one(struct world *w, const char *verb, const char *name, const char *text)
{
	struct step st = { verb, name, text };

	steps_do(w, &st, 1);
}

/* --- jobs as text --- */

static const char *const kinds[] = { "?", "", "untranslated", "translated", "not-live" };

static void target_print(struct str *out, const struct job_target *t)
{
	char buf[IP_ENDPOINT_TEXT_MAX];

	if (t->kind == JOB_TARGET_EXACT)
		str_printf(out, " %s", ip_endpoint_text(&t->to.addr, t->to.port, buf));
	else
		str_printf(out, " %s", kinds[t->kind]);
}

static void job_print(struct str *out, const struct job *j)
{
	char buf[IP_ENDPOINT_TEXT_MAX];

	vec_for_each (f, &j->frontends) {
		if (f != j->frontends.v)
			str_puts(out, "; ");
		str_printf(out, "%s:", ip_endpoint_text(&f->key.addr, f->key.port, buf));
		for (uint32_t i = 0; i < f->n_targets; i++)
			target_print(out, &j->targets.v[f->target + i]);
	}
	if (j->dead.n > 0)
		str_printf(out, "%sdead via %u:", str_text(out)[0] != '\0' ? "; " : "", j->tcp.n);
	vec_for_each (a, &j->dead)
		str_printf(out, " %s", ip_addr_text(a, buf));
}

/* Take the due job and report `result`; returns its text, or "nothing". */
static char *job_text(struct world *w, int result)
{
	struct job j = { 0 };
	struct str out = { 0 };
	char *text;

	if (stale_job_take(w->stale, &j, w->now)) {
		job_print(&out, &j);
		assert_true(stale_next(w->stale) == STALE_NEVER);
		stale_job_done(w->stale, j.id, result, MS, w->now);
	} else {
		str_puts(&out, "nothing");
	}
	text = xstrdup(str_text(&out));
	str_fini(&out);
	job_fini(&j);
	return text;
}

static void expect(struct world *w, const char *want)
{
	char *text = job_text(w, 0);

	assert_string_equal(text, want);
	free(text);
}

/* All pending targets are scanned; time passes. */
static void drain(struct world *w)
{
	struct job j = { 0 };

	for (int i = 0; i < 100 && stale_stats_get(w->stale).pending > 0; i++) {
		w->now += STALE_LATE_NS;
		if (stale_job_take(w->stale, &j, w->now))
			stale_job_done(w->stale, j.id, 0, MS, w->now);
		job_fini(&j);
		j = (struct job){ 0 };
	}
	assert_int_equal(stale_stats_get(w->stale).pending, 0);
	w->now += 10 * NSEC_PER_SEC;
}

/* --- the table --- */

#define DNS "ip=10.96.0.10 port=dns/UDP:53"
#define FULL \
	"type=LoadBalancer ip=10.96.0.10 port=dns/UDP:53:30053 ext=198.51.100.1 vip=203.0.113.1"
#define P "| dns/UDP:5353 |"

struct change {
	const char *name;
	struct step before[6];
	struct step after[6];
	const char *want;
};

static const struct change changes[] = {
	{ "T-139: an endpoint is gone, every frontend",
	  { { "svc", "a", FULL }, { "slice", "a1@a", P "1 rs; 2 rs" } },
	  { { "slice", "a1@a", P "2 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353; 192.0.2.1:30053: 10.0.1.1:5353; "
	  "198.51.100.1:53: 10.0.1.1:5353; 203.0.113.1:53: 10.0.1.1:5353" },
	{ "T-140: an endpoint's port changed",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "slice", "a1@a", "| dns/UDP:5354 | 1 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353" },
	{ "T-140: an endpoint is swapped for another",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "slice", "a1@a", P "2 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353" },
	{ "T-141: no longer serving",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs; 2 rs" } },
	  { { "slice", "a1@a", P "1 t; 2 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353" },
	{ "CT-04: terminating, but serving",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs; 2 rs" } },
	  { { "slice", "a1@a", P "1 st; 2 rs" } },
	  "nothing" },
	{ "CT-04: served while terminating, then gone; the rows of the kernel do not change",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 st; 2 rs" } },
	  { { "slice", "a1@a", P "2 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353" },
	{ "CT-04: policies and topology do not count",
	  { { "svc", "a", FULL }, { "slice", "a1@a", P "1 rs; 2 rs @n1" } },
	  { { "svc", "a", FULL " etp itp" } },
	  "nothing" },
	{ "T-142: the first endpoint after none",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "" } },
	  { { "slice", "a1@a", P "1 rs" } },
	  "10.96.0.10:53: untranslated" },
	{ "not for the second endpoint: scaling up owes nothing",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "slice", "a1@a", P "1 rs; 2 rs" } },
	  "nothing" },
	{ "CT-05, CT-12b: the last endpoints are gone",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs; 2 rs" } },
	  { { "slice", "a1@a", P "" } },
	  "10.96.0.10:53: 10.0.1.1:5353 10.0.1.2:5353" },
	{ "the slice goes as a whole",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "del-slice", "a1", NULL } },
	  "10.96.0.10:53: 10.0.1.1:5353" },
	{ "an endpoint moves to another slice",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" }, { "slice", "a2@a", P "2 rs" } },
	  { { "del-slice", "a2", NULL }, { "slice", "a1@a", P "1 rs; 2 rs" } },
	  "nothing" },
	{ "CT-12b: the service is deleted",
	  { { "svc", "a", FULL }, { "slice", "a1@a", P "1 rs" } },
	  { { "del-svc", "a", NULL } },
	  "10.96.0.10:53: translated; 192.0.2.1:30053: translated; "
	  "198.51.100.1:53: translated; 203.0.113.1:53: translated" },
	{ "CT-12b: an external IP and the node port are given up",
	  { { "svc", "a", FULL }, { "slice", "a1@a", P "1 rs" } },
	  { { "svc", "a", "type=LoadBalancer ip=10.96.0.10 port=dns/UDP:53 vip=203.0.113.1" } },
	  "192.0.2.1:30053: translated; 198.51.100.1:53: translated" },
	{ "CT-12c: a frontend is added",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "svc", "a", DNS " ext=198.51.100.1" } },
	  "198.51.100.1:53: untranslated" },
	{ "the service's port changes",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "svc", "a", "ip=10.96.0.10 port=dns/UDP:54" } },
	  "10.96.0.10:53: translated; 10.96.0.10:54: untranslated" },
	{ "the service becomes headless",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" } },
	  { { "svc", "a", DNS " headless" } },
	  "10.96.0.10:53: translated" },
	{ "IPv6",
	  { { "svc", "a", "ip=10.96.0.10 ip=fd00:96::a port=dns/UDP:53:30053" },
	    { "slice", "a1@a", P "1 rs" },
	    { "slice", "a2@a", "v6 " P "1 rs; 2 rs" } },
	  { { "slice", "a2@a", "v6 " P "2 rs" } },
	  "[2001:db8::1]:30053: [fd00::1]:5353; [fd00:96::a]:53: [fd00::1]:5353" },
	{ "T-144: only the port that changed",
	  { { "svc", "a", DNS " port=log/UDP:514" },
	    { "slice", "a1@a", P "1 rs" },
	    { "slice", "a2@a", "| log/UDP:514 | 1 rs" } },
	  { { "slice", "a2@a", "| log/UDP:514 | 2 rs" } },
	  "10.96.0.10:514: 10.0.1.1:514" },
	{ "T-144: TCP and SCTP beside it",
	  { { "svc", "a", DNS " port=t/TCP:53 port=s/SCTP:53" },
	    { "slice", "a1@a", "| dns/UDP:5353 t/TCP:5353 s/SCTP:5353 | 1 rs; 2 rs" } },
	  { { "slice", "a1@a", "| dns/UDP:5353 t/TCP:5353 s/SCTP:5353 | 2 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353" },
	{ "T-144, CT-01: no UDP",
	  { { "svc", "a", "ip=10.96.0.10 port=t/TCP:80" },
	    { "slice", "a1@a", "| t/TCP:8080 | 1 rs; 2 rs" } },
	  { { "slice", "a1@a", "| t/TCP:8080 | 2 rs" } },
	  "nothing" },
	{ "a port turns from TCP into UDP",
	  { { "svc", "a", "ip=10.96.0.10 port=x/TCP:53" },
	    { "slice", "a1@a", "| x/TCP:53 x/UDP:53 | 1 rs" } },
	  { { "svc", "a", "ip=10.96.0.10 port=x/UDP:53" } },
	  "10.96.0.10:53: untranslated" },
	{ "T-127: an older service takes the address over, with one endpoint in common",
	  { { "svc", "b", DNS " created=2000 ext=198.51.100.1" },
	    { "slice", "b1@b", P "1 rs; 2 rs" } },
	  { { "svc", "c", "created=1000 ip=10.96.0.11 port=dns/UDP:53 ext=198.51.100.1" },
	    { "slice", "c1@c", P "2 rs; 3 rs" } },
	  "10.96.0.11:53: untranslated; 198.51.100.1:53: 10.0.1.1:5353" },
	{ "the younger one has it back, the endpoints are the same",
	  { { "svc", "b", DNS " created=2000 ext=198.51.100.1" },
	    { "slice", "b1@b", P "1 rs" },
	    { "svc", "c", "created=1000 ip=10.96.0.11 port=dns/UDP:53 ext=198.51.100.1" },
	    { "slice", "c1@c", P "1 rs" } },
	  { { "del-svc", "c", NULL } },
	  "10.96.0.11:53: translated" },
	{ "many services, one job",
	  { { "svc", "a", DNS },
	    { "slice", "a1@a", P "1 rs" },
	    { "svc", "b", "ip=10.96.0.11 port=dns/UDP:53" },
	    { "slice", "b1@b", P "2 rs" } },
	  { { "slice", "a1@a", P "3 rs" }, { "slice", "b1@b", P "3 rs" } },
	  "10.96.0.10:53: 10.0.1.1:5353; 10.96.0.11:53: 10.0.1.2:5353" },
	{ "EPS-14: a running appearance in another slice keeps it",
	  { { "svc", "a", DNS }, { "slice", "a1@a", P "1 rs" }, { "slice", "a2@a", P "1 rs" } },
	  { { "slice", "a1@a", P "1 t" } },
	  "nothing" },
};

static void test_changes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct world w;

		print_message("    %s\n", changes[i].name);
		world_init(&w, false);
		steps_do(&w, changes[i].before, ARRAY_SIZE(changes[i].before));
		stale_start(w.stale, w.now);
		drain(&w);
		steps_do(&w, changes[i].after, ARRAY_SIZE(changes[i].after));
		expect(&w, changes[i].want);
		world_fini(&w);
	}
}

/* --- time --- */

/*
 * After a restart every frontend is compared with its live endpoints when all services are known.
 */
static void test_start(void **state)
{
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	one(&w, "slice", "a1@a", P "2 rs"); /* between two steps of the adoption */
	assert_true(stale_next(w.stale) == STALE_NEVER);
	stale_start(w.stale, w.now);
	stale_gone(w.stale, &(struct ip_addr){ AF_INET, { 0 }, { 10, 96, 0, 77 } }, 53, L4PROTO_UDP,
		   w.now);
	expect(&w, "10.96.0.10:53: not-live; 10.96.0.77:53: translated");
	world_fini(&w);
}

/* TCP frontends of the next job. */
static size_t tcp_taken(struct world *w, size_t n_pending, int result)
{
	struct job j = { 0 };
	size_t n = 0;

	if (stale_job_take(w->stale, &j, w->now)) {
		assert_int_equal(stale_stats_get(w->stale).pending, n_pending);
		n = j.tcp.n;
		stale_job_done(w->stale, j.id, result, MS, w->now);
	}
	job_fini(&j);
	return n;
}

/*
 * CT-12: after the start and after a repair one job has all TCP frontends, which are collected in
 * several turns. It is repeated until it succeeds.
 */
static void test_untranslated_tcp(void **state)
{
	char name[16], text[64];
	struct world w;
	unsigned int turns = 0;
	size_t n;

	world_init(&w, false);
	for (unsigned int i = 0; i < 12000; i++) {
		(void)snprintf(name, sizeof(name), "s%u", i);
		(void)snprintf(text, sizeof(text), "ip=10.%u.%u.%u port=a:80 port=b/SCTP:80",
			       100 + i / 65536, i / 256 % 256, i % 256);
		step_do(&w, &(struct step){ "svc", name, text });
	}
	sync_settle(w.s, w.now);
	expect(&w, "nothing");
	stale_start(w.stale, w.now);
	assert_int_equal(stale_next(w.stale), w.now);
	for (n = 0; n == 0 && turns < 10; turns++)
		n = tcp_taken(&w, 1, -EAGAIN);
	assert_int_equal(n, 12000);
	assert_int_equal(turns, 2);
	w.now = stale_next(w.stale);
	assert_int_equal(tcp_taken(&w, 1, 0), 0);
	assert_int_equal(tcp_taken(&w, 1, 0), 12000);
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	expect(&w, "nothing");
	w.now += NSEC_PER_SEC;
	stale_recheck(w.stale, w.now);
	assert_int_equal(tcp_taken(&w, 1, 0), 0);
	one(&w, "del-svc", "s1", NULL);
	assert_in_range(tcp_taken(&w, 1, 0), 11999, 12000);
	expect(&w, "nothing");
	world_fini(&w);
}

/*
 * BAL-22: flows to frontends whose backends answer directly are untranslated, and valid: no scan
 * looks for such flows, neither after the start nor after a change. Those to the cluster IP are
 * scanned.
 */
static void test_direct(void **state)
{
#define DIRECT_TCP "ip=10.96.0.20 port=a:80 ext=198.51.100.20"
#define DIRECT_UDP "ip=10.96.0.10 port=dns/UDP:53 ext=198.51.100.1"
	struct plan_traits traits = mock_plane_ops.traits;
	struct world w;

	world_init(&w, false);
	traits.has_forwarding = true;
	w.p.traits = &traits;
	one(&w, "svc", "t", DIRECT_TCP " fwd=tunnel");
	stale_start(w.stale, w.now);
	assert_int_equal(tcp_taken(&w, 1, 0), 1);
	one(&w, "svc", "u", DIRECT_UDP " fwd=route");
	one(&w, "slice", "u1@u", "| dns/UDP:53 | 1 rs");
	expect(&w, "10.96.0.10:53: untranslated");
	one(&w, "slice", "u1@u", "| dns/UDP:53 |");
	one(&w, "slice", "u1@u", "| dns/UDP:53 | 2 rs");
	expect(&w, "10.96.0.10:53: untranslated 10.0.1.1:53; 198.51.100.1:53: 10.0.1.1:53");
	drain(&w);
	stale_recheck(w.stale, w.now);
	expect(&w, "10.96.0.10:53: not-live");
	one(&w, "svc", "u", DIRECT_UDP);
	one(&w, "svc", "t", DIRECT_TCP);
	drain(&w);
	stale_recheck(w.stale, w.now);
	expect(&w, "10.96.0.10:53: not-live; 198.51.100.1:53: not-live");
	drain(&w);
	world_fini(&w);
}

/*
 * Frontends of an earlier process that the sweep removed. An address of another service is not
 * removed.
 */
static void test_gone(void **state)
{
	struct ip_addr has = test_addr("10.96.0.10");
	struct ip_addr had = test_addr("10.96.0.11");
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	stale_start(w.stale, w.now);
	drain(&w);
	stale_gone(w.stale, &has, 53, L4PROTO_UDP, w.now);
	stale_gone(w.stale, &had, 53, L4PROTO_TCP, w.now);
	expect(&w, "nothing");
	stale_gone(w.stale, &had, 53, L4PROTO_UDP, w.now);
	expect(&w, "10.96.0.11:53: translated");
	drain(&w);
	assert_int_equal(stale_stats_get(w.stale).frontends, 1);
	world_fini(&w);
}

/* At the end vipd waits for the first scan of removed frontends, and for nothing else. */
static void test_removed_at_end(void **state)
{
	static const char translated[] = "10.96.0.10:53: translated";
	struct world w;
	char *text;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	stale_start(w.stale, w.now);
	assert_false(stale_has_removed(w.stale)); /* a start scans all that are served */
	drain(&w);
	one(&w, "slice", "a1@a", P "2 rs");
	assert_false(stale_has_removed(w.stale));
	drain(&w);
	one(&w, "del-svc", "a", NULL);
	assert_true(stale_has_removed(w.stale));
	one(&w, "svc", "a", DNS);
	assert_false(stale_has_removed(w.stale)); /* is served again */
	one(&w, "del-svc", "a", NULL);
	text = job_text(&w, -ENOBUFS);
	assert_string_equal(text, translated);
	free(text);
	assert_true(stale_has_removed(w.stale));
	w.now += STALE_RETRY_MIN_NS;
	expect(&w, translated);
	assert_false(stale_has_removed(w.stale));
	assert_int_equal(stale_stats_get(w.stale).pending, 1); /* for late packets */
	drain(&w);
	world_fini(&w);
}

/* The second scan finds a flow that was translated before the change and confirmed later. */
static void test_again(void **state)
{
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", P "2 rs");
	expect(&w, "10.96.0.10:53: 10.0.1.1:5353");
	expect(&w, "nothing");
	assert_true(stale_next(w.stale) == w.now + STALE_AGAIN_NS);
	w.now += STALE_AGAIN_NS;
	expect(&w, "10.96.0.10:53: 10.0.1.1:5353");
	assert_true(stale_next(w.stale) == STALE_NEVER);
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	world_fini(&w);
}

/* CT-12a: failed targets stay pending, with growing delays; new ones join them. */
static void test_failures(void **state)
{
	struct world w;
	char *text;
	uint64_t last = 0;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs; 3 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", P "2 rs; 3 rs");
	for (int i = 0; i < 12; i++) {
		uint64_t wait;

		text = job_text(&w, -ENOBUFS);
		assert_string_equal(text, "10.96.0.10:53: 10.0.1.1:5353");
		free(text);
		wait = stale_next(w.stale) - w.now;
		assert_true(wait >= last && wait <= STALE_RETRY_MAX_NS);
		last = wait;
		expect(&w, "nothing");
		w.now += wait;
	}
	assert_true(last == STALE_RETRY_MAX_NS);
	one(&w, "slice", "a1@a", P "3 rs");
	expect(&w, "10.96.0.10:53: 10.0.1.1:5353 10.0.1.2:5353");
	drain(&w);
	world_fini(&w);
}

/* The kernel does not delete an offloaded flow: other targets neither wait nor join. */
static void test_busy(void **state)
{
	static const char one_gone[] = "10.96.0.10:53: 10.0.1.1:5353";
	static const char two_gone[] = "10.96.0.10:53: 10.0.1.2:5353";
	struct world w;
	char *text;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs; 3 rs; 4 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", P "2 rs; 3 rs; 4 rs");
	for (int i = 0; i < 10; i++) {
		text = job_text(&w, -EBUSY);
		assert_string_equal(text, one_gone);
		free(text);
		assert_int_equal(stale_next(w.stale), w.now + (i < 9 ? STALE_BUSY_NS : 0));
		if (i == 8) { /* new: at once */
			one(&w, "slice", "a1@a", P "3 rs; 4 rs");
			expect(&w, two_gone);
			w.now += STALE_AGAIN_NS;
			expect(&w, two_gone);
			w.now += STALE_BUSY_NS - STALE_AGAIN_NS;
			one(&w, "slice", "a1@a", P "4 rs"); /* due together with the busy one */
		} else if (i < 9) {
			w.now += STALE_BUSY_NS;
		}
	}
	expect(&w, "10.96.0.10:53: 10.0.1.3:5353");
	w.now += STALE_BUSY_NS;
	expect(&w, one_gone); /* deleted */
	expect(&w, "10.96.0.10:53: 10.0.1.3:5353");
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	world_fini(&w);
}

/* A change during a job is pending after it, also for an equal target. */
static void test_under_way(void **state)
{
	struct job j = { 0 };
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", P "2 rs");
	assert_true(stale_job_take(w.stale, &j, w.now));
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	one(&w, "slice", "a1@a", P "2 rs");
	assert_true(stale_next(w.stale) == STALE_NEVER);
	stale_job_done(w.stale, j.id + 1, 0, MS, w.now); /* of an earlier job: ignored */
	assert_true(stale_next(w.stale) == STALE_NEVER);
	stale_job_done(w.stale, j.id, 0, MS, w.now);
	assert_true(stale_next(w.stale) <= w.now);
	expect(&w, "10.96.0.10:53: 10.0.1.1:5353");
	job_fini(&j);
	world_fini(&w);
}

/* A few jobs in a row are free; then the helper works a fifth of the time. */
static void test_rest(void **state)
{
	struct world w;
	uint64_t begin;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	stale_start(w.stale, w.now);
	drain(&w);
	w.now += 60 * NSEC_PER_SEC;
	begin = w.now;
	for (int i = 0; i < 100; i++) {
		struct job j = { 0 };
		uint64_t wait;

		one(&w, "slice", "a1@a", i % 2 ? P "1 rs" : P "2 rs");
		wait = MAX(stale_next(w.stale), w.now) - w.now;
		assert_true(i > 3 || wait == 0);
		assert_true(wait <= 500 * MS);
		w.now += wait;
		assert_true(stale_job_take(w.stale, &j, w.now));
		w.now += 100 * MS;
		stale_job_done(w.stale, j.id, 0, 100 * MS, w.now);
		job_fini(&j);
	}
	assert_true(w.now - begin > 4 * 100 * 100 * MS);
	assert_true(w.now - begin < 6 * 100 * 100 * MS);
	world_fini(&w);
}

/*
 * A family fails: its rules stay, and so do their flows. After it has recovered, those of endpoints
 * that were removed meanwhile are stale, and of services that were deleted.
 */
static void test_family_left_out(void **state)
{
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS " ip=fd00:96::a");
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	one(&w, "slice", "a2@a", "v6 " P "1 rs; 2 rs");
	one(&w, "svc", "b", "ip=10.96.0.11 ip=fd00:96::b port=dns/UDP:53");
	stale_start(w.stale, w.now);
	drain(&w);
	w.k.plane.family[IPFAM_V6] =
		(struct plane_family){ .is_failed = true, .retry_ns = UINT64_MAX };
	sync_settle(w.s, w.now);
	one(&w, "slice", "a1@a", P "2 rs");
	one(&w, "slice", "a2@a", "v6 " P "2 rs");
	expect(&w, "10.96.0.10:53: 10.0.1.1:5353");
	drain(&w);
	one(&w, "del-svc", "b", NULL);
	expect(&w, "10.96.0.11:53: translated; [fd00:96::b]:53: translated");
	drain(&w);
	w.k.plane.family[IPFAM_V6].is_failed = false;
	sync_settle(w.s, w.now);
	expect(&w, "[fd00:96::a]:53: [fd00::1]:5353");
	world_fini(&w);
}

/* An endpoint that returns before the scan is no target any more. */
static void test_came_back(void **state)
{
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", P "2 rs");
	one(&w, "slice", "a1@a", P "1 rs; 2 rs");
	expect(&w, "nothing");
	one(&w, "del-svc", "a", NULL);
	one(&w, "svc", "a", DNS); /* flows to live endpoints are valid again */
	expect(&w, "10.96.0.10:53: not-live");
	drain(&w);
	assert_int_equal(stale_stats_get(w.stale).frontends, 1);
	world_fini(&w);
}

/* A large service loses half of its endpoints: one target with the live set. */
static void test_many(void **state)
{
	struct str all = { 0 };
	struct str half = { 0 };
	struct job j = { 0 };
	struct world w;

	str_puts(&all, P);
	str_puts(&half, P);
	for (int i = 1; i <= 200; i++) {
		str_printf(&all, "%s %d rs", i > 1 ? ";" : "", i);
		if (i > 100)
			str_printf(&half, "%s %d rs", i > 101 ? ";" : "", i);
	}
	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", str_text(&all));
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", str_text(&half));
	assert_true(stale_job_take(w.stale, &j, w.now));
	assert_int_equal(j.targets.n, 1);
	assert_int_equal(j.targets.v[0].kind, JOB_TARGET_NOT_LIVE);
	assert_int_equal(j.live.n, 100);
	job_fini(&j);
	str_fini(&all);
	str_fini(&half);
	world_fini(&w);
}

#define GRACE (200 * MS) /* a job has targets that are older */

/*
 * A job is due within a second while `change` happens every 100 ms. Returns its number of TCP
 * frontends.
 */
static size_t expect_soon(struct world *w, void (*change)(struct world *w, int i), const char *want)
{
	struct str out = { 0 };
	struct job j = { 0 };
	bool is_due = false;
	size_t n;

	for (int i = 0; i < 10 && !is_due; i++) {
		change(w, i);
		is_due = stale_job_take(w->stale, &j, w->now - GRACE);
		w->now += 100 * MS;
	}
	assert_true(is_due);
	job_print(&out, &j);
	assert_string_equal(str_text(&out), want);
	n = j.tcp.n;
	str_fini(&out);
	job_fini(&j);
	return n;
}

static void endpoints_from(struct world *w, int first)
{
	struct str text = { 0 };

	str_puts(&text, P);
	for (int i = first; i <= 200; i++)
		str_printf(&text, "%s %d rs", i > first ? ";" : "", i);
	one(w, "slice", "a1@a", str_text(&text));
	str_fini(&text);
}

static void one_less(struct world *w, int i)
{
	endpoints_from(w, 42 + i);
}

static void recheck(struct world *w, int i)
{
	(void)i;
	stale_recheck(w->stale, w->now);
}

/* A scale-down that does not end, and foreign changes: no target waits for the last of them. */
static void test_one_by_one(void **state)
{
	struct world w;

	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	endpoints_from(&w, 1);
	stale_start(w.stale, w.now);
	drain(&w);
	endpoints_from(&w, 41);
	assert_int_equal(expect_soon(&w, one_less, "10.96.0.10:53: not-live"), 0);
	world_fini(&w);

	world_init(&w, false);
	one(&w, "svc", "a", DNS " port=t/TCP:53");
	endpoints_from(&w, 1);
	stale_start(w.stale, w.now);
	drain(&w);
	assert_int_equal(expect_soon(&w, recheck, "10.96.0.10:53: not-live"), 1);
	world_fini(&w);
}

/*
 * An endpoint that is added while a job is under way: the job would delete flows to it, is ended,
 * and its targets stay pending. An addition that no target concerns does not end it.
 */
static void test_outdated(void **state)
{
	struct job_flow flow = { .proto = L4PROTO_UDP,
				 .is_default_zone = true,
				 .to = { test_addr("10.96.0.10"), 53, 0 },
				 .by = { test_addr("10.0.1.3"), 5353, 0 } };
	struct job j = { 0 };
	struct world w;

	(void)state;
	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P " 1 rs; 2 rs");
	stale_start(w.stale, w.now);
	assert_true(stale_job_take(w.stale, &j, w.now)); /* not-live */
	assert_int_equal(stale_job_outdated(w.stale), 0);
	one(&w, "slice", "a1@a", P " 1 rs; 2 rs; 3 rs");
	assert_true(job_is_stale(&j, &flow)); /* the job is older than the endpoint */
	assert_int_equal(stale_job_outdated(w.stale), j.id);
	stale_job_done(w.stale, j.id, -ECANCELED, MS, w.now);
	job_fini(&j);
	assert_int_equal(stale_job_outdated(w.stale), 0);
	expect(&w, "10.96.0.10:53: not-live");
	drain(&w);

	/* A removed endpoint returns; before that another one is added. */
	one(&w, "slice", "a1@a", P " 2 rs; 3 rs");
	j = (struct job){ 0 };
	assert_true(stale_job_take(w.stale, &j, w.now));
	one(&w, "slice", "a1@a", P " 2 rs; 3 rs; 4 rs");
	assert_int_equal(stale_job_outdated(w.stale), 0);
	one(&w, "slice", "a1@a", P " 1 rs; 2 rs; 3 rs; 4 rs");
	assert_int_equal(stale_job_outdated(w.stale), j.id);
	stale_job_done(w.stale, j.id, -ECANCELED, MS, w.now);
	job_fini(&j);
	expect(&w, "nothing");
	drain(&w);

	/* The Service is deleted and created again; changes that never end do not end every job. */
	one(&w, "del-svc", "a", NULL);
	for (int i = 1; i < 4; i++) { /* one was ended before */
		j = (struct job){ 0 };
		assert_true(stale_job_take(w.stale, &j, w.now));
		if (i == 1)
			one(&w, "svc", "a", DNS);
		else
			one(&w, "slice", "a1@a", i % 2 ? P " 1 rs; 5 rs" : P " 1 rs; 6 rs");
		assert_int_equal(stale_job_outdated(w.stale), i < 3 ? j.id : 0);
		stale_job_done(w.stale, j.id, i < 3 ? -ECANCELED : 0, MS, w.now);
		job_fini(&j);
	}
	drain(&w);
	world_fini(&w);
}

/* A frontend is removed while its flows are checked: those not translated are not vipd's then. */
static void test_removed_meanwhile(void **state)
{
	struct job j = { 0 };
	struct world w;

	(void)state;
	world_init(&w, false);
	one(&w, "svc", "a", DNS);
	one(&w, "slice", "a1@a", P " 1 rs");
	stale_start(w.stale, w.now);
	assert_true(stale_job_take(w.stale, &j, w.now));
	one(&w, "del-svc", "a", NULL);
	assert_int_equal(stale_job_outdated(w.stale), j.id);
	stale_job_done(w.stale, j.id, -ECANCELED, MS, w.now);
	job_fini(&j);
	expect(&w, "10.96.0.10:53: translated");
	drain(&w);
	world_fini(&w);
}

/* The endpoints of a port are compared once, not for each of its frontends. */
static void test_many_frontends(void **state)
{
	struct str text = { 0 };
	struct world w;

	(void)state;
	str_puts(&text, DNS);
	for (int i = 1; i < 50; i++)
		str_printf(&text, " ext=198.51.100.%d", i);
	world_init(&w, false);
	one(&w, "svc", "a", str_text(&text));
	endpoints_from(&w, 1);
	stale_start(w.stale, w.now);
	drain(&w);
	w.n_compared = 0;
	endpoints_from(&w, 2);
	assert_int_equal(stale_stats_get(w.stale).frontends, 50);
	assert_int_equal(stale_stats_get(w.stale).pending, 50);
	assert_in_range(w.n_compared, 200, 1000);
	str_fini(&text);
	world_fini(&w);
}

/* --- dead flows --- */

#define WEB "ip=10.96.0.20 port=web/TCP:80"
#define W "| web/TCP:8080 |"

/* TCP flows are deleted only with the option, and only if no slice has the endpoint. */
static void test_dead(void **state)
{
	for (int is_reset = 0; is_reset < 2; is_reset++) {
		struct world w;

		world_init(&w, is_reset);
		one(&w, "svc", "a", WEB);
		one(&w, "slice", "a1@a", W "1 rs; 2 rs");
		stale_start(w.stale, w.now);
		drain(&w);
		one(&w, "slice", "a1@a", W "1 t; 2 rs");
		assert_int_equal(stale_stats_get(w.stale).pending, 0); /* still in a slice */
		one(&w, "slice", "a1@a", W "2 rs");
		expect(&w, "nothing"); /* it may come back */
		w.now += STALE_DEAD_NS - 1;
		expect(&w, "nothing");
		w.now += 1;
		expect(&w, is_reset ? "dead via 1: 10.0.1.1" : "nothing");
		expect(&w, "nothing");
		w.now += STALE_LATE_NS; /* its removal may have been programmed late */
		expect(&w, is_reset ? "dead via 1: 10.0.1.1" : "nothing");
		assert_int_equal(stale_stats_get(w.stale).pending, 0);
		world_fini(&w);
	}
}

/*
 * CPU time of the ledger: the least of some runs, because pages of fresh memory cost a virtual
 * machine more than the rest.
 */
static void assert_no_square(uint64_t (*once)(size_t n), size_t n)
{
	uint64_t few = UINT64_MAX;
	uint64_t many = UINT64_MAX;

	for (int i = 0; i < 3; i++)
		few = MIN(few, once(n));
	for (int i = 0; i < 3 && many >= few * 16 * 6; i++)
		many = MIN(many, once(16 * n));
	print_message("    %zu: %lu us, %zu: %lu us\n", n, (unsigned long)few / 1000, 16 * n,
		      (unsigned long)many / 1000);
	assert_true(many < few * 16 * 6);
}

static struct service *many_ports(const char *text, size_t n)
{
	struct service *s = test_service("a", text);

	for (size_t i = 1; i < n; i++) {
		struct service_port p = s->ports.v[0];

		(void)name_ref(p.name);
		p.port = (uint16_t)(p.port + i);
		*vec_push(&s->ports) = p;
	}
	return s;
}

static uint64_t ports_once(size_t n)
{
	struct world w;

	world_init(&w, false);
	(void)model_put_service(&w.m, many_ports(DNS, n), 1);
	sync_settle(w.s, w.now);
	(void)model_put_slice(&w.m, test_slice("a1", "a", "| dns/UDP:8053 | 1 rs"), 1);
	w.accepted_ns = 0;
	sync_settle(w.s, w.now);
	assert_int_equal(stale_stats_get(w.stale).frontends, n);
	world_fini(&w);
	return w.accepted_ns;
}

/* Targets of a service that loses endpoints: a limited number of exact ones. */
static void test_lost_by_many_ports(void **state)
{
	static const struct {
		size_t n_ports;
		size_t n_targets;
	} cases[] = { { 100, 300 }, { 1000, 3000 }, { 4000, 4000 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world w;

		world_init(&w, false);
		(void)model_put_service(&w.m, many_ports(DNS, cases[i].n_ports), 1);
		(void)model_put_slice(
			&w.m, test_slice("a1", "a", "| dns/UDP:8053 | 1 rs; 2 rs; 3 rs; 4 rs"), 1);
		sync_settle(w.s, w.now);
		stale_start(w.stale, w.now);
		drain(&w);
		(void)model_put_slice(&w.m, test_slice("a1", "a", "| dns/UDP:8053 | 1 rs"), 1);
		sync_settle(w.s, w.now);
		assert_int_equal(stale_stats_get(w.stale).pending, cases[i].n_targets);
		world_fini(&w);
	}
}

/* Endpoints come back before their flows are scanned: a step visits a limited number of targets. */
static void test_many_come_back(void **state)
{
	static const char slice[] = "| dns/UDP:8053 | 1 rs; 2 rs; 3 rs; 4 rs";
	struct job j = { 0 };
	struct world w;

	(void)state;
	world_init(&w, false);
	(void)model_put_service(&w.m, many_ports(DNS, 2700), 1);
	(void)model_put_slice(&w.m, test_slice("a1", "a", slice), 1);
	sync_settle(w.s, w.now);
	stale_start(w.stale, w.now);
	drain(&w);
	(void)model_put_slice(&w.m, test_slice("a1", "a", "| dns/UDP:8053 | 1 rs"), 1);
	sync_settle(w.s, w.now);
	assert_int_equal(stale_stats_get(w.stale).pending, 8100);
	(void)model_put_slice(&w.m, test_slice("a1", "a", slice), 1);
	sync_settle(w.s, w.now);
	assert_false(stale_job_take(w.stale, &j, w.now));
	assert_int_equal(stale_stats_get(w.stale).pending, 3100);
	assert_true(stale_next(w.stale) <= w.now);
	assert_false(stale_job_take(w.stale, &j, w.now));
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	job_fini(&j);
	world_fini(&w);
}

/* A service of many TCP ports loses endpoints: one target for each address, not for each port. */
static void test_dead_many(void **state)
{
	struct slice *slice = test_slice("a1", "a", W "1 rs");
	struct world w;

	world_init(&w, true);
	for (size_t i = 1; i < 1000; i++) {
		struct slice_endpoint e = slice->endpoints.v[0];

		(void)slice_place_ref(e.place);
		e.addr.bytes[2] = (uint8_t)(2 + i / 256);
		e.addr.bytes[3] = (uint8_t)i;
		*vec_push(&slice->endpoints) = e;
	}
	(void)model_put_service(&w.m, many_ports(WEB, 2000), 1);
	(void)model_put_slice(&w.m, slice, 1);
	sync_settle(w.s, w.now);
	stale_start(w.stale, w.now);
	drain(&w);
	(void)model_put_slice(&w.m, test_slice("a1", "a", W "1 rs"), 1);
	sync_settle(w.s, w.now);
	assert_int_equal(stale_stats_get(w.stale).pending, 999);
	assert_int_equal(stale_stats_get(w.stale).frontends, 0); /* the ledger has those of UDP */
	one(&w, "del-slice", "a1", NULL);
	one(&w, "del-svc", "a", NULL);
	w.now += STALE_DEAD_NS;
	assert_int_equal(tcp_taken(&w, 1000, 0), 2000);
	w.now += STALE_LATE_NS;
	assert_int_equal(tcp_taken(&w, 1000, 0), 2000);
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	world_fini(&w);
}

/* The address is back before all frontends are collected: the next dead one has all of them. */
static void test_dead_collected_again(void **state)
{
	struct world w;

	world_init(&w, true);
	for (unsigned int i = 0; i < 15; i++) {
		char name[16], text[64];

		(void)snprintf(name, sizeof(name), "s%u", i);
		(void)snprintf(text, sizeof(text), "ip=10.96.1.%u port=web/TCP:80", i);
		struct service *s = many_ports(text, 1000);

		name_unref(s->name);
		s->name = name_get_str(name);
		(void)model_put_service(&w.m, s, 1);
	}
	one(&w, "slice", "b1@b", W "1 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "del-slice", "b1", NULL);
	w.now += STALE_DEAD_NS;
	expect(&w, "nothing"); /* the first turn */
	one(&w, "slice", "b1@b", W "1 rs");
	one(&w, "svc", "t", WEB);
	one(&w, "del-slice", "b1", NULL);
	w.now += STALE_DEAD_NS;
	expect(&w, "nothing");
	expect(&w, "dead via 15001: 10.0.1.1");
	world_fini(&w);
}

/* The last frontends that were removed are remembered, each once. */
static void test_former_frontends(void **state)
{
	struct world w;

	world_init(&w, true);
	one(&w, "slice", "b1@b", W "1 rs");
	one(&w, "slice", "c1@c", W "2 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	for (int i = 0; i < 5; i++) {
		(void)model_put_service(&w.m, many_ports(WEB, 40000), 1);
		sync_settle(w.s, w.now);
		one(&w, "del-svc", "a", NULL);
	}
	one(&w, "del-slice", "b1", NULL);
	w.now += STALE_DEAD_NS;
	expect(&w, "dead via 40000: 10.0.1.1");
	drain(&w);
	(void)model_put_service(&w.m, many_ports("ip=10.96.0.21 port=web/TCP:80", 40000), 1);
	sync_settle(w.s, w.now);
	one(&w, "del-svc", "a", NULL);
	one(&w, "del-slice", "c1", NULL);
	w.now += STALE_DEAD_NS;
	expect(&w, "dead via 65536: 10.0.1.2");
	world_fini(&w);
}

/* After a foreign change all UDP frontends are scanned; a turn visits a part of them. */
static void test_recheck_in_turns(void **state)
{
	struct job j = { 0 };
	struct world w;
	int turns = 1;

	world_init(&w, false);
	(void)model_put_service(&w.m, many_ports(DNS, 12000), 1);
	sync_settle(w.s, w.now);
	stale_start(w.stale, w.now);
	drain(&w);
	stale_recheck(w.stale, w.now);
	while (!stale_job_take(w.stale, &j, w.now) && turns < 10)
		turns++;
	assert_int_equal(turns, 3);
	assert_int_equal(j.frontends.n, 12000);
	job_fini(&j);
	world_fini(&w);
}

/* All ports of a service of UDP get an endpoint. */
static void test_many_ports(void **state)
{
	assert_no_square(ports_once, 1250);
}

static void test_dead_came_back(void **state)
{
	struct world w;

	world_init(&w, true);
	one(&w, "svc", "a", WEB);
	one(&w, "slice", "a1@a", W "1 rs; 2 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", W "2 rs");
	w.now += NSEC_PER_SEC;
	one(&w, "slice", "a2@a", W "1 rs"); /* moved between slices */
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	w.now += STALE_DEAD_NS;
	expect(&w, "nothing");
	one(&w, "del-svc", "a",
	    NULL); /* the pods run and are endpoints of services that vipd does not serve */
	w.now += STALE_DEAD_NS;
	expect(&w, "nothing");
	one(&w, "del-slice", "a2", NULL);
	one(&w, "del-slice", "a1", NULL);
	w.now += STALE_DEAD_NS;
	expect(&w, "dead via 1: 10.0.1.1 10.0.1.2");
	world_fini(&w);
}

/*
 * Removed from one service and still in a headless one: connections continue until it is removed
 * there. The time begins then, and again after each return.
 */
static void test_dead_elsewhere(void **state)
{
	struct world w;

	world_init(&w, true);
	one(&w, "svc", "a", WEB);
	one(&w, "slice", "a1@a", W "1 rs; 2 rs");
	one(&w, "slice", "b1@b", "| x/UDP:9 | 1 t");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "slice", "a1@a", W "2 rs");
	assert_int_equal(stale_stats_get(w.stale).pending, 0);
	for (int is_back = 1; is_back >= 0; is_back--) {
		one(&w, "del-slice", "b1", NULL);
		w.now += STALE_DEAD_NS - 1;
		if (is_back)
			one(&w, "slice", "b1@b", "| x/UDP:9 | 1 t");
		expect(&w, "nothing");
		w.now += 1;
		expect(&w, is_back ? "nothing" : "dead via 1: 10.0.1.1");
	}
	world_fini(&w);
}

/* The address is an endpoint again while its flows are scanned: the scan ends. */
static void test_dead_under_way(void **state)
{
	struct job j = { 0 };
	struct world w;

	world_init(&w, true);
	one(&w, "svc", "a", WEB);
	one(&w, "slice", "a1@a", W "1 rs; 2 rs");
	stale_start(w.stale, w.now);
	drain(&w);
	one(&w, "del-slice", "a1", NULL);
	w.now += STALE_DEAD_NS;
	assert_true(stale_job_take(w.stale, &j, w.now));
	assert_int_equal(stale_job_outdated(w.stale), 0);
	one(&w, "slice", "a1@a", W "2 rs");
	assert_int_equal(stale_job_outdated(w.stale), j.id);
	stale_job_done(w.stale, j.id, -ECANCELED, MS, w.now);
	assert_int_equal(stale_stats_get(w.stale).pending, 1);
	w.now += STALE_DEAD_NS;
	expect(&w, "dead via 1: 10.0.1.1");
	job_fini(&j);
	world_fini(&w);
}

/* --- random --- */

/* A table of flows, created as the data plane does. */
struct table {
	VEC(struct job_flow) flows;
	size_t n_removed;
};

static const struct svc *owner_of(struct world *w, const struct job_flow *f,
				  const struct plan_frontend **frontend)
{
	htable_for_each (n, &w->m.services) {
		const struct svc *svc = container_of(n, struct svc, node);
		const struct plan_rows *rows = svc->rows;

		for (size_t i = 0; rows != NULL && i < rows->frontends.n; i++) {
			*frontend = &rows->frontends.v[i];
			if ((*frontend)->proto == f->proto && (*frontend)->port == f->to.port &&
			    ip_addr_is_equal(&(*frontend)->addr, &f->to.addr))
				return svc;
		}
	}
	return NULL;
}

/* Is the flow valid? Computed from the slices, without the ledger. All ports are 53. */
static bool is_good(struct world *w, const struct job_flow *f)
{
	const struct plan_frontend *frontend;
	const struct svc *svc = owner_of(w, f, &frontend);
	bool is_translated = ip_endpoint_cmp(&f->to, &f->by) != 0;

	if (f->proto == L4PROTO_TCP)
		return !is_translated || model_has_addr(&w->m, &f->by.addr);
	if (svc == NULL)
		return !is_translated;
	list_for_each (l, &svc->slices)
		vec_for_each (e, &list_entry(l, struct slice_entry, link)->slice->endpoints)
			if (ip_addr_is_equal(&e->addr, &f->by.addr) &&
			    (e->flags & (ENDPOINT_READY | ENDPOINT_SERVING)) != 0)
				return true;
	return false;
}

/* A packet to a random address, translated by the present kernel state. */
static void flow_new(struct world *w, struct table *t, struct rng *rng)
{
	struct job_flow f = { .proto = rng_below(rng, 2) ? L4PROTO_UDP : L4PROTO_TCP,
			      .is_default_zone = true };
	const struct plan_frontend *frontend;
	const struct svc *svc;
	char ip[32];

	(void)snprintf(ip, sizeof(ip), rng_below(rng, 2) ? "10.96.0.%zu" : "198.51.100.%zu",
		       rng_below(rng, 7));
	f.to = (struct ip_endpoint){ test_addr(ip), 53, 0 };
	f.by = f.to;
	svc = owner_of(w, &f, &frontend);
	if (svc != NULL) {
		const struct plan_pool *pool =
			plan_rows_pool(svc->rows, IPFAM_V4, frontend->target.pool_id);
		const struct plan_backend *b;

		if (frontend->target.verdict != PLAN_VERDICT_POOL)
			return; /* refused: no flow */
		b = &pool->backends.v[rng_below(rng, pool->backends.n)];
		f.by = (struct ip_endpoint){ b->addr, b->port, 0 };
	}
	*vec_push(&t->flows) = f;
}

/* Do the helper's work. A valid flow may be deleted only if the job is older than its endpoint. */
static void table_pass(struct world *w, struct table *t, const struct job *j)
{
	size_t kept = 0;

	vec_for_each (f, &t->flows) {
		if (!job_is_stale(j, f)) {
			t->flows.v[kept++] = *f;
			continue;
		}
		assert_false(is_good(w, f));
		t->n_removed++;
	}
	vec_cut(&t->flows, kept);
}

static void random_step(struct world *w, struct rng *rng)
{
	static const char *const endpoints[] = { "",           "1 rs",       "2 rs",
						 "1 rs; 2 rs", "1 st; 3 rs", "3 rs; 2 t" };
	size_t i = rng_below(rng, 6);
	char name[16];
	char slice[32];
	char text[128];

	(void)snprintf(name, sizeof(name), "s%zu", i);
	(void)snprintf(slice, sizeof(slice), "x%zu@s%zu", i, i);
	switch (rng_below(rng, 6)) {
	case 0:
		one(w, "del-svc", name, NULL);
		break;
	case 1:
	case 2:
		(void)snprintf(text, sizeof(text),
			       "created=%zu ip=10.96.0.%zu port=u/UDP:53 port=t/TCP:53 "
			       "ext=198.51.100.%zu",
			       1 + rng_below(rng, 9), i + 1, rng_below(rng, 3));
		one(w, "svc", name, text);
		break;
	default:
		(void)snprintf(text, sizeof(text), "| u/UDP:53 t/TCP:53 | %s",
			       endpoints[rng_below(rng, ARRAY_SIZE(endpoints))]);
		one(w, "slice", slice, text);
	}
}

static void random_pass(struct world *w, struct table *t, struct rng *rng)
{
	struct job j = { 0 };
	bool is_lucky = rng_below(rng, 3) > 0;

	if (!stale_job_take(w->stale, &j, w->now))
		return;
	job_sort(&j);
	if (is_lucky)
		table_pass(w, t, &j);
	stale_job_done(w->stale, j.id, is_lucky ? 0 : -EIO, MS, w->now);
	job_fini(&j);
}

/*
 * Random changes, flows and failures. A job never deletes a valid flow; when nothing is pending
 * any more, only valid flows are left.
 */
static void test_random(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct rng rng = { seed };
		struct table t = { 0 };
		struct world w;

		print_message("    seed %" PRIu64 "\n", seed);
		world_init(&w, true);
		stale_start(w.stale, w.now);
		for (int round = 0; round < 400; round++) {
			random_step(&w, &rng);
			for (int i = 0; i < 3; i++)
				flow_new(&w, &t, &rng);
			w.now += rng_below(&rng, 2000) * MS;
			random_pass(&w, &t, &rng);
		}
		for (int i = 0; i < 40; i++) {
			w.now += STALE_RETRY_MAX_NS;
			random_pass(&w, &t, &rng);
		}
		vec_for_each (f, &t.flows)
			assert_true(is_good(&w, f));
		assert_true(t.n_removed > 100);
		vec_fini(&t.flows);
		world_fini(&w);
	}
}

/* Flows stay with an endpoint of any weight: none is computed. */
static void test_weights(void **state)
{
	static const struct step steps[] = {
		{ "svc", "dns", "ip=10.96.0.10 port=dns/UDP:53 weights=a-*=0,*=5" },
		{ "slice", "dns-1@dns", "| dns/UDP:5353 | 1 rs; 2 rs" },
	};
	struct world w;

	world_init(&w, false);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		step_do(&w, &steps[i]);
	sync_settle(w.s, w.now);
	assert_true(n_weighed > 0); /* by the plan */
	assert_int_equal(w.n_weighed, 0);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_under_way),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_family_left_out),
		cmocka_unit_test(test_came_back),
		cmocka_unit_test(test_untranslated_tcp),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_dead_many),
		cmocka_unit_test(test_lost_by_many_ports),
		cmocka_unit_test(test_many_come_back),
		cmocka_unit_test(test_many_ports),
		cmocka_unit_test(test_dead_came_back),
		cmocka_unit_test(test_dead_under_way),
		cmocka_unit_test(test_former_frontends),
		cmocka_unit_test(test_dead_collected_again),
		cmocka_unit_test(test_recheck_in_turns),
		cmocka_unit_test(test_dead_elsewhere),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_many_frontends),
		cmocka_unit_test(test_outdated),
		cmocka_unit_test(test_removed_meanwhile),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_removed_at_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
