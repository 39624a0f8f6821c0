/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault: for every failure of netlink at call k, and for a kill at any point, the kernel state is
 * finally correct, and a restart writes nothing. A small cluster has two states over a kernel in
 * memory (tests/fake): first without failures, to record the correct state and the number of calls;
 * then once for every call and every kind of failure.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../sync_steps.h"
#include "../unit/make.h"
#include "base/log.h"
#include "base/str.h"
#include "fake/fake.h"
#include "nft/decode.h"
#include "plane/nft/plane_nft.h"
#include "sync/sync.h"

#define T0 (1000 * NSEC_PER_SEC)

struct world {
	struct fake *kernel;
	struct model m;
	struct plan p;
	struct plane *plane;
	struct sync *s;
	uint64_t now;
};

/* --- lives --- */

static void life_begin(struct world *w)
{
	static const struct sync_config config = { .check_period_ns = 100 * NSEC_PER_MSEC,
						   .audit_period_ns = 300 * NSEC_PER_SEC,
						   .batch_ops = 40,
						   .piece_ops = 24 };

	make_model(&w->m);
	nft_plane_open(&w->plane, fake_connect(w->kernel), fake_connect(w->kernel));
	plan_init(&w->p, &w->m, &w->plane->ops->traits);
	sync_open(&w->s, &w->m, &w->p, w->plane, &config);
}

static void life_end(struct world *w)
{
	sync_close(w->s);
	plan_fini(&w->p);
	w->plane->ops->close(w->plane);
	model_fini(&w->m);
}

static void world_begin(struct world *w)
{
	*w = (struct world){ .now = T0 };
	fake_open(&w->kernel);
	life_begin(w);
}

static void world_end(struct world *w)
{
	life_end(w);
	fake_close(w->kernel);
}

/* --- states --- */

static void put_local(struct model *m, const char *endpoints)
{
	struct service *s =
		make_service_object("shop/lb", "10.96.1.1", "fd00:96::1", "http:TCP:80:30080");

	s->type = SERVICE_TYPE_LOADBALANCER;
	s->is_etp_local = true;
	*vec_push(&s->ingress) = (struct service_ingress){ make_ip("203.0.113.10"), false };
	model_put_service(m, s, 1);
	make_slice(m, "shop/lb-4", "lb", "http:TCP:8080", endpoints);
}

static void put_sticky(struct model *m, uint32_t seconds, const char *range)
{
	struct service *s = make_service_object("shop/sticky", "10.96.1.2", NULL, "http:TCP:80");
	struct ip_prefix p;

	s->affinity_s = seconds;
	*vec_push(&s->ingress) = (struct service_ingress){ make_ip("203.0.113.11"), false };
	assert_int_equal(ip_prefix_parse(&p, range, NULL), 0);
	*vec_push(&s->source_ranges) = p;
	model_put_service(m, s, 1);
}

static void put_weighed(struct model *m, const char *weights)
{
	struct service *s = make_service_object("shop/weighed", "10.96.1.3", NULL, "http:TCP:80");

	s->tuning = xcalloc(1, sizeof(*s->tuning));
	s->tuning->weights = name_get_str(weights);
	model_put_service(m, s, 1);
	make_slice(m, "shop/weighed-a", "weighed", "http:TCP:8080", "10.1.0.8 10.1.0.9 10.1.0.10");
}

static void put_many(struct model *m, int n, int shift)
{
	for (int i = 0; i < n; i++) {
		char key[32];
		char text[64];
		char ip[32];

		(void)snprintf(key, sizeof(key), "many/s%d", i);
		(void)snprintf(ip, sizeof(ip), "10.96.2.%d", i + 1);
		make_service(m, key, ip, "http:TCP:80 dns:UDP:53");
		(void)snprintf(text, sizeof(text), "10.1.%d.1 10.1.%d.%d@n1", i, i, 2 + shift);
		make_slice(m, key, key + 5, "http:TCP:8080 dns:UDP:5353", text);
	}
}

/* A service that changes in pieces. */
static void put_large(struct model *m, int from, int n)
{
	struct str text = { 0 };

	make_service(m, "shop/large", "10.96.4.1", "http:TCP:80");
	for (int i = from; i < from + n; i++)
		str_printf(&text, "%s10.1.200.%d", i > from ? " " : "", i);
	make_slice(m, "shop/large-a", "large", "http:TCP:8080", str_text(&text));
	str_fini(&text);
}

static void state_first(struct model *m)
{
	put_local(m, "10.1.0.1@n1 10.1.0.2@n2");
	make_slice(m, "shop/lb-6", "lb", "http:TCP:8080", "fd01::1@n1");
	put_sticky(m, 600, "198.51.100.0/24");
	make_slice(m, "shop/sticky-a", "sticky", "http:TCP:8080", "10.1.0.4 10.1.0.5 10.1.0.6");
	put_weighed(m, "10.1.0.8=5,10.1.0.9=0,*=2");
	put_many(m, 12, 0);
	put_large(m, 0, 40);
}

static void state_second(struct model *m)
{
	put_local(m, "10.1.0.2@n2 10.1.0.3@n2");
	drop_slice(m, "shop/lb-6");
	put_sticky(m, 60, "198.51.0.0/16");
	make_slice(m, "shop/sticky-a", "sticky", "http:TCP:8080", "10.1.0.5 10.1.0.7");
	put_weighed(m, "10.1.0.8=9,*=2");
	put_large(m, 20, 50);
	for (int i = 0; i < 12; i += 3) {
		char key[32];

		(void)snprintf(key, sizeof(key), "many/s%d", i);
		drop_service(m, key);
		drop_slice(m, key);
	}
	make_service(m, "shop/fresh", "10.96.3.1", "http:TCP:80");
	make_slice(m, "shop/fresh-a", "fresh", "http:TCP:8080", "10.1.9.1");
	for (int i = 1; i < 12; i += 3) {
		char key[32];
		char text[64];

		(void)snprintf(key, sizeof(key), "many/s%d", i);
		(void)snprintf(text, sizeof(text), "10.1.%d.2@n1 10.1.%d.9", i, i);
		make_slice(m, key, key + 5, "http:TCP:8080 dns:UDP:5353", text);
	}
}

/* Do everything due within 90 s: retries come at most 30 s apart. */
static void settle_long(struct world *w)
{
	for (int i = 0; i < 90; i++) {
		for (int k = 0; k < 4; k++)
			sync_settle(w->s, w->now += 50 * NSEC_PER_MSEC);
		w->now += 800 * NSEC_PER_MSEC;
	}
}

static char *services(struct world *w)
{
	struct str s = { 0 };

	fake_print_services(w->kernel, &s);
	return s.text ? s.text : xstrdup("");
}

static void assert_services(struct world *w, const char *expected, const char *when, size_t k)
{
	char *got = services(w);

	if (strcmp(got, expected) != 0) {
		print_message("%s, call %zu: %s\n", when, k, sync_stats_get(w->s)->last_error);
		assert_string_equal(got, expected);
	}
	free(got);
	assert_int_equal(sync_failure_count(w->s), 0);
}

static void life_again(struct world *w, void (*first)(struct model *m),
		       void (*second)(struct model *m))
{
	life_end(w);
	life_begin(w);
	first(&w->m);
	if (second != NULL)
		second(&w->m);
	fake_calm(w->kernel);
	fake_count_reset(w->kernel);
	sync_sources_ready(w->s);
	settle_long(w);
}

/*
 * A restart adds nothing: at most it deletes unused affinity chains. The next restart writes
 * nothing.
 */
static void assert_restart_is_quiet(struct world *w, void (*first)(struct model *m),
				    void (*second)(struct model *m))
{
	life_again(w, first, second);
	assert_int_equal(fake_count(w->kernel).n_adds, 0);
	life_again(w, first, second);
	assert_int_equal(fake_count(w->kernel).n_messages, 0);
}

/* Record the correct state and the number of elements of the second state. */
struct reference {
	char *first;
	char *second;
	size_t operations;
};

static void reference_learn(struct reference *ref)
{
	struct world w;
	size_t before;

	world_begin(&w);
	state_first(&w.m);
	sync_sources_ready(w.s);
	sync_settle(w.s, w.now);
	ref->first = services(&w);
	before = fake_operations(w.kernel);
	fake_count_reset(w.kernel);
	state_second(&w.m);
	sync_settle(w.s, w.now += 1);
	ref->second = services(&w);
	ref->operations = fake_operations(w.kernel) - before;
	assert_restart_is_quiet(&w, state_first, state_second);
	world_end(&w);
}

static void reference_fini(struct reference *ref)
{
	free(ref->first);
	free(ref->second);
}

typedef void (*trouble_fn)(struct fake *f, size_t k, int error);

/* Apply the second state with a failure at each k in turn. */
static void for_each_call(const struct reference *ref, const char *what, trouble_fn trouble,
			  int error, size_t max)
{
	size_t n_met = 0;

	print_message("    %s\n", what);
	for (size_t k = 1; k <= max; k++) {
		struct world w;

		world_begin(&w);
		state_first(&w.m);
		sync_sources_ready(w.s);
		sync_settle(w.s, w.now);
		trouble(w.kernel, k, error);
		state_second(&w.m);
		settle_long(&w);
		n_met += sync_stats_get(w.s)->last_error[0] != '\0';
		assert_services(&w, ref->second, what, k);
		assert_restart_is_quiet(&w, state_first, state_second);
		world_end(&w);
	}
	/* The failure happened. Verification and a repeated read leave no error. */
	if (trouble == fake_refuse && error != EEXIST && error != ENOENT)
		assert_int_equal(n_met, max);
	else
		assert_true(n_met > 0);
	print_message("      noticed by the sync in %zu of %zu runs\n", n_met, max);
}

static void lose(struct fake *f, size_t k, int error)
{
	(void)error;
	fake_lose_answer(f, k);
}

static void interrupt(struct fake *f, size_t k, int error)
{
	(void)error;
	fake_lose_answer(f, 1); /* causes a load */
	fake_interrupt_dump(f, k, false);
}

static void test_troubles(void **state)
{
	static const struct {
		const char *name;
		trouble_fn trouble;
		int error;
		size_t max; /* 0: the number of element operations */
	} cases[] = {
		{ "send: EPERM", fake_fail_send, EPERM, 12 },
		{ "send: ENOBUFS", fake_fail_send, ENOBUFS, 12 },
		{ "send: ENOMEM", fake_fail_send, ENOMEM, 12 },
		{ "send: EINTR", fake_fail_send, EINTR, 12 },
		{ "send: EAGAIN", fake_fail_send, EAGAIN, 12 },
		{ "answer lost", lose, 0, 8 },
		{ "dump interrupted", interrupt, 0, 30 },
		{ "refused: ENOMEM", fake_refuse, ENOMEM, 0 },
		{ "refused: EINVAL", fake_refuse, EINVAL, 0 },
		{ "refused: EEXIST", fake_refuse, EEXIST, 0 },
		{ "refused: ENOENT", fake_refuse, ENOENT, 0 },
	};
	struct reference ref;

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	reference_learn(&ref);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for_each_call(&ref, cases[i].name, cases[i].trouble, cases[i].error,
			      cases[i].max ? cases[i].max : ref.operations);
	reference_fini(&ref);
}

/* With a kernel whose errors do not name the element. */
static void test_refusal_without_offset(void **state)
{
	struct reference ref;

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	reference_learn(&ref);
	for (size_t k = 1; k <= ref.operations; k += 3) {
		struct world w;

		world_begin(&w);
		fake_no_offsets(w.kernel, true);
		state_first(&w.m);
		sync_sources_ready(w.s);
		sync_settle(w.s, w.now);
		fake_refuse(w.kernel, k, ENOSPC);
		state_second(&w.m);
		settle_long(&w);
		assert_services(&w, ref.second, "refused, nobody named", k);
		world_end(&w);
	}
	reference_fini(&ref);
}

/*
 * Killed at every datagram of both states: the next process repairs the state. A send that always
 * fails simulates the kill.
 */
static void test_killed(void **state)
{
	struct reference ref;

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	reference_learn(&ref);
	for (size_t k = 1; k <= 60; k++) {
		struct world w;

		world_begin(&w);
		state_first(&w.m);
		sync_sources_ready(w.s);
		for (size_t step = 0; step < k % 12; step++)
			(void)sync_step(w.s, w.now);
		if (k > 12) { /* the second state begins where the first was interrupted */
			state_second(&w.m);
			for (size_t step = 0; step < k / 12; step++)
				(void)sync_step(w.s, w.now);
		}
		life_end(&w);
		life_begin(&w);
		state_first(&w.m);
		state_second(&w.m);
		sync_sources_ready(w.s);
		settle_long(&w);
		assert_services(&w, ref.second, "killed", k);
		assert_restart_is_quiet(&w, state_first, state_second);
		world_end(&w);
	}
	reference_fini(&ref);
}

/* Other processes flush, delete and add vipd's objects: repaired; foreign objects stay. */
static void test_meddling(void **state)
{
	struct reference ref;

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	reference_learn(&ref);
	for (int how = 0; how < 4; how++) {
		struct ip_addr vip = make_ip("10.96.1.2");
		uint8_t key[16] = { 0 };
		struct world w;

		world_begin(&w);
		state_first(&w.m);
		sync_sources_ready(w.s);
		sync_settle(w.s, w.now);
		memcpy(key, vip.bytes, 4);
		if (how == 0)
			fake_foreign_flush(w.kernel, IPFAM_V4);
		else if (how == 1)
			assert_true(fake_foreign_del(w.kernel, IPFAM_V4, NFTSET_VIPS, key));
		else if (how == 2)
			fake_foreign_commit(w.kernel);
		fake_count_reset(w.kernel);
		settle_long(&w);
		assert_services(&w, ref.first, "meddled", (size_t)how);
		if (how >= 2)
			assert_int_equal(fake_count(w.kernel).n_messages, 0);
		assert_restart_is_quiet(&w, state_first, NULL);
		world_end(&w);
	}
	reference_fini(&ref);
}

/*
 * Adoption assumes an address with each slot; the audit after it verifies. A deleted address is
 * repaired by that audit.
 */
static void test_address_lost_while_down(void **state)
{
	struct ip_addr backend = make_ip("10.1.0.5");
	uint8_t key[NFT_KEY_MAX];
	struct world w;

	(void)state;
	log_level_set_all(LOG_LEVEL_ERR - 1);
	nft_key_endpoint(key, &backend, 8080);
	world_begin(&w);
	state_first(&w.m);
	sync_sources_ready(w.s);
	sync_settle(w.s, w.now);
	life_end(&w);
	assert_true(fake_foreign_del(w.kernel, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, key));
	life_begin(&w);
	state_first(&w.m);
	sync_sources_ready(w.s);
	settle_long(&w);
	assert_non_null(fake_find(w.kernel, IPFAM_V4, NFTSET_ENDPOINT_ADDRS, key));
	assert_restart_is_quiet(&w, state_first, NULL);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_troubles),
		cmocka_unit_test(test_refusal_without_offset),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_meddling),
		cmocka_unit_test(test_address_lost_while_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
