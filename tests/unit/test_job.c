/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/job: which flow is stale, as a table. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "conntrack/job.h"
#include "objects.h"

#define UDP 17
#define TCP 6

static struct ip_endpoint at(const char *text)
{
	struct ip_endpoint e = { .port = 53 };
	char *copy = xstrdup(text);
	char *slash = strchr(copy, '/');

	if (slash != NULL) {
		*slash = '\0';
		e.port = (uint16_t)atoi(slash + 1);
	}
	e.addr = test_addr(copy);
	free(copy);
	return e;
}

/* A frontend with one target, and the two live endpoints 10.1.0.1 and 10.1.0.3, or none. */
static void frontend_add(struct job *j, const char *addr, uint8_t proto, enum job_kind kind,
			 const char *to, bool is_served)
{
	struct ip_endpoint e = at(addr);

	*vec_push(&j->frontends) = (struct job_frontend){
		.key = { e.addr, e.port, proto, 0 },
		.target = (uint32_t)j->targets.n,
		.n_targets = 1,
		.n_live = is_served ? 2 : 0,
	};
	*vec_push(&j->targets) = (struct job_target){ .kind = (uint8_t)kind };
	if (to != NULL)
		j->targets.v[j->targets.n - 1].to = at(to);
}

static void job_init(struct job *j)
{
	*j = (struct job){ .id = 1 };
	*vec_push(&j->live) = at("10.1.0.1");
	*vec_push(&j->live) = at("10.1.0.3");
	frontend_add(j, "10.96.0.1", UDP, JOB_TARGET_EXACT, "10.1.0.2", true);
	frontend_add(j, "10.96.0.2", UDP, JOB_TARGET_UNTRANSLATED, NULL, true);
	frontend_add(j, "10.96.0.3", UDP, JOB_TARGET_TRANSLATED, NULL, false);
	frontend_add(j, "10.96.0.4", UDP, JOB_TARGET_NOT_LIVE, NULL, true);
	frontend_add(j, "10.96.0.5", UDP, JOB_TARGET_NOT_LIVE, NULL, false);
	frontend_add(j, "10.1.0.1", UDP, JOB_TARGET_UNTRANSLATED, NULL, true);
	frontend_add(j, "fd00::1", UDP, JOB_TARGET_EXACT, "fd00:1::2", false);
	qsort(j->frontends.v, j->frontends.n, sizeof(*j->frontends.v), ip_tuple_cmp);
}

static const struct {
	const char *name;
	const char *to;
	const char *by;
	uint8_t proto;
	bool is_other_zone;
	bool is_stale;
	const char *from; /* default 203.0.113.9/4000 */
	const char *back; /* the same */
} cases[] = {
	{ "T-139: led to the endpoint that is gone", "10.96.0.1", "10.1.0.2", UDP, false, true },
	{ "CT-12d: in whatever zone", "10.96.0.1", "10.1.0.2", UDP, true, true },
	{ "led to another", "10.96.0.1", "10.1.0.1", UDP, false, false },
	{ "T-140: another port of it", "10.96.0.1", "10.1.0.2/54", UDP, false, false },
	{ "untranslated is not meant", "10.96.0.1", "10.96.0.1", UDP, false, false },
	{ "T-144: TCP", "10.96.0.1", "10.1.0.2", TCP, false, false },
	{ "T-144: SCTP", "10.96.0.1", "10.1.0.2", 132, false, false },
	{ "T-144: another port", "10.96.0.1/54", "10.1.0.2", UDP, false, false },
	{ "a direct flow to the endpoint", "10.1.0.2", "10.1.0.2", UDP, false, false },
	{ "T-142: untranslated", "10.96.0.2", "10.96.0.2", UDP, false, true },
	{ "CT-12d: untranslated in another zone", "10.96.0.2", "10.96.0.2", UDP, true, false },
	{ "translated is not meant", "10.96.0.2", "10.1.0.9", UDP, false, false },
	{ "an endpoint that is the frontend's own address", "10.1.0.1", "10.1.0.1", UDP, false,
	  false },
	{ "CT-12b: the frontend is gone", "10.96.0.3", "10.1.0.1", UDP, false, true },
	{ "it was never translated: none of our business", "10.96.0.3", "10.96.0.3", UDP, false,
	  false },
	{ "not live", "10.96.0.4", "10.1.0.2", UDP, false, true },
	{ "live, the first", "10.96.0.4", "10.1.0.1", UDP, false, false },
	{ "live, the last", "10.96.0.4", "10.1.0.3", UDP, false, false },
	{ "a live address, another port", "10.96.0.4", "10.1.0.3/54", UDP, false, true },
	{ "not live: untranslated", "10.96.0.4", "10.96.0.4", UDP, false, true },
	{ "the same in another zone", "10.96.0.4", "10.96.0.4", UDP, true, false },
	{ "nothing lives", "10.96.0.5", "10.1.0.1", UDP, false, true },
	{ "IPv6", "fd00::1", "fd00:1::2", UDP, false, true },
	{ "IPv6, another", "fd00::1", "fd00:1::1", UDP, false, false },
	{ "no frontend", "10.96.0.99", "10.1.0.2", UDP, false, false },
	{ "the mirror image of an untranslated flow", "203.0.113.9", "203.0.113.9", UDP, false,
	  true, "10.96.0.2", "10.96.0.2" },
	{ "the same in another zone", "203.0.113.9", "203.0.113.9", UDP, true, false, "10.96.0.2",
	  "10.96.0.2" },
	{ "the same of another port", "203.0.113.9", "203.0.113.9", UDP, false, false,
	  "10.96.0.2/54", "10.96.0.2/54" },
	{ "from a frontend's address, translated", "203.0.113.9", "203.0.113.9", UDP, false, false,
	  "10.96.0.2", "192.0.2.1" },
	{ "mirror: what does not live", "203.0.113.9", "203.0.113.9", UDP, false, true, "10.96.0.4",
	  "10.96.0.4" },
	{ "mirror: not requested", "203.0.113.9", "203.0.113.9", UDP, false, false, "10.96.0.1",
	  "10.96.0.1" },
	{ "mirror: from an endpoint at the frontend's address", "203.0.113.9", "203.0.113.9", UDP,
	  false, false, "10.1.0.1", "10.1.0.1" },
};

static void test_stale(void **state)
{
	struct job j;

	job_init(&j);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job_flow f = {
			.from = at(cases[i].from ? cases[i].from : "203.0.113.9/4000"),
			.to = at(cases[i].to),
			.by = at(cases[i].by),
			.back = at(cases[i].back ? cases[i].back : "203.0.113.9/4000"),
			.proto = cases[i].proto,
			.is_default_zone = !cases[i].is_other_zone,
		};

		print_message("    %s\n", cases[i].name);
		assert_int_equal(job_is_stale(&j, &f), cases[i].is_stale);
	}
	assert_true(job_has_family(&j, IPFAM_V4));
	assert_true(job_has_family(&j, IPFAM_V6));
	job_fini(&j);
}

/*
 * CT-12: handshakes to a frontend that were not translated; CT-03: flows to dead addresses. Nothing
 * else of TCP.
 */
static void test_tcp(void **state)
{
	static const struct {
		const char *to;
		const char *by;
		uint8_t proto;
		bool is_answered;
		bool is_other_zone;
		bool is_stale; /* in a job for handshakes */
		bool is_dead;  /* in a job for dead addresses */
	} tcp[] = {
		{ "10.96.0.7/80", "10.96.0.7/80", TCP, false, false, true, false },
		{ "fd00::7/443", "fd00::7/443", TCP, false, false, true, false },
		{ "10.96.0.7/80", "10.1.0.2/80", TCP, false, false, false, true },
		{ "10.96.0.7/80", "10.1.0.2/8080", TCP, true, true, false, true },
		{ "fd00::7/443", "fd00:1::2/8443", TCP, true, false, false, true },
		{ "10.96.0.7/80", "10.1.0.3/8080", TCP, true, false, false, false },
		{ "10.96.0.8/80", "10.1.0.2/8080", TCP, true, false, false, false },
		{ "10.1.0.2/8080", "10.1.0.2/8080", TCP, true, false, false, false },
		{ "10.96.0.7/80", "10.1.0.2/8080", UDP, true, false, false, false },
		{ "10.96.0.7/80", "10.96.0.7/80", TCP, true, false, false, false },
		{ "10.96.0.7/80", "10.96.0.7/80", TCP, false, true, false, false },
		{ "10.96.0.7/80", "10.96.0.7/80", UDP, false, false, false, false },
		{ "10.96.0.7/81", "10.96.0.7/81", TCP, false, false, false, false },
		{ "10.96.0.8/80", "10.96.0.8/80", TCP, false, false, false, false },
	};
	struct job handshakes = { .has_handshakes = true };
	struct job dead = { 0 };

	*vec_push(&handshakes.tcp) = at("fd00::7/443");
	*vec_push(&handshakes.tcp) = at("10.96.0.9/80");
	*vec_push(&handshakes.tcp) = at("10.96.0.7/80");
	vec_append(&dead.tcp, &handshakes.tcp);
	*vec_push(&dead.dead) = at("fd00:1::2").addr;
	*vec_push(&dead.dead) = at("10.1.0.2").addr;
	*vec_push(&dead.dead) = at("10.1.0.1").addr;
	job_sort(&handshakes);
	job_sort(&dead);
	for (size_t i = 0; i < ARRAY_SIZE(tcp); i++) {
		struct job_flow f = {
			.from = at("203.0.113.9/4000"),
			.to = at(tcp[i].to),
			.by = at(tcp[i].by),
			.back = at("203.0.113.9/4000"),
			.proto = tcp[i].proto,
			.is_default_zone = !tcp[i].is_other_zone,
			.is_unanswered = !tcp[i].is_answered,
		};

		print_message("    %zu\n", i);
		assert_int_equal(job_is_stale(&handshakes, &f), tcp[i].is_stale);
		assert_int_equal(job_is_stale(&dead, &f), tcp[i].is_dead);
	}
	job_fini(&handshakes);
	job_fini(&dead);
}

static void test_empty(void **state)
{
	struct job j = { 0 };
	struct job_flow f = { .to = at("10.96.0.1"), .by = at("10.1.0.1"), .proto = UDP };

	assert_false(job_is_stale(&j, &f));
	assert_false(job_has_family(&j, IPFAM_V4));
	job_fini(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
