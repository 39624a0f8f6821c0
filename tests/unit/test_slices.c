/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Services with many slices: the order of these, and the work of one event. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "objects.h"

#define SLICES 5000
/* Of one event. The way to a mark has 16 slices on average, and 600 with a chance of e^-37. */
#define COMPARISONS_MAX 600

static size_t n_compared;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b)
{
	n_compared++;
	return __real_strcmp(a, b);
}

static void put(struct model *m, size_t i, const char *service)
{
	char name[16];
	struct slice *s;

	(void)snprintf(name, sizeof(name), "s%04zu", i);
	s = test_slice(name, service, "| http:80 | 1 rs");
	n_compared = 0;
	assert_int_equal(model_put_slice(m, s, 1), 0);
	assert_in_range(n_compared, 0, COMPARISONS_MAX);
}

static void del(struct model *m, size_t i)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "s%04zu", i);
	n_compared = 0;
	(void)model_del_slice(m, name_find("default", 7), name_find(name, strlen(name)), 1);
	assert_in_range(n_compared, 0, COMPARISONS_MAX);
}

static void check(const struct model *m, const char *service, size_t n)
{
	const struct svc *svc = model_find_text(m, "default", service);
	const char *last = "";

	assert_int_equal(svc != NULL ? svc->n_slices : 0, n);
	if (svc == NULL)
		return;
	list_for_each_entry (e, &svc->slices, struct slice_entry, link) {
		assert_true(strcmp(last, e->slice->name->text) < 0);
		last = e->slice->name->text;
		n--;
	}
	assert_int_equal(n, 0);
}

static void shuffle(size_t *order, uint64_t seed)
{
	struct rng rng = { seed };

	for (size_t i = SLICES - 1; i > 0; i--) {
		size_t k = rng_below(&rng, i + 1);
		size_t swap = order[i];

		order[i] = order[k];
		order[k] = swap;
	}
}

enum arrival {
	ASCENDING = 0,
	DESCENDING,
	RANDOM,
	ARRIVALS
};

static void order_make(size_t *order, enum arrival arrival)
{
	for (size_t i = 0; i < SLICES; i++)
		order[i] = arrival == DESCENDING ? SLICES - 1 - i : i;
	if (arrival == RANDOM)
		shuffle(order, 1);
}

static void model_open(struct model *m)
{
	model_init(m);
	model_configured(m);
}

/* They arrive, and go, in one of the orders each. */
static void test_order(void **state)
{
	static size_t order[SLICES];

	(void)state;
	for (unsigned int i = 0; i < ARRIVALS * ARRIVALS; i++) {
		struct model m;

		model_open(&m);
		order_make(order, i / ARRIVALS);
		for (size_t k = 0; k < SLICES; k++)
			put(&m, order[k], "web");
		check(&m, "web", SLICES);
		order_make(order, i % ARRIVALS);
		for (size_t k = 0; k < SLICES; k++) {
			if (k % 1000 == 0)
				check(&m, "web", SLICES - k);
			del(&m, order[k]);
		}
		check(&m, "web", 0);
		model_fini(&m);
		assert_int_equal(name_count(), 0);
	}
}

/* The label of each slice changes there and back (IN-36). */
static void test_moves(void **state)
{
	static size_t order[SLICES];
	struct model m;

	(void)state;
	model_open(&m);
	order_make(order, RANDOM);
	for (size_t i = 0; i < SLICES; i++)
		put(&m, i, i % 2 == 0 ? "web" : "api");
	for (size_t k = 0; k < SLICES; k++) {
		size_t i = order[k];

		put(&m, i, i % 2 == 0 ? "api" : "web");
		if (k % 2 == 0)
			put(&m, i, i % 2 == 0 ? "web" : "api");
		if (k % 1000 == 0)
			check(&m, "web", model_find_text(&m, "default", "web")->n_slices);
	}
	check(&m, "web", model_find_text(&m, "default", "web")->n_slices);
	check(&m, "api", model_find_text(&m, "default", "api")->n_slices);
	model_fini(&m);
	assert_int_equal(name_count(), 0);
}

/* `n` addresses, every second one, from `from` on. */
static int put_version(struct model *m, size_t i, size_t from, size_t n, int version)
{
	struct str text = { 0 };
	char name[16];
	int r;

	(void)snprintf(name, sizeof(name), "s%04zu", i);
	str_printf(&text, "version=%d | http:80 |", version);
	for (size_t k = 0; k < n; k++)
		str_printf(&text, "%s %zu rs", k > 0 ? ";" : "", from + 2 * k);
	r = model_put_slice(m, test_slice(name, "web", str_text(&text)), 1);
	str_fini(&text);
	return r;
}

/* EPS-15: if much must be compared to know whether a version matters, it counts as one that does.
 */
static void test_versions(void **state)
{
	enum {
		FEW = 99,
		MANY = 150,
		WIDE = 120
	};
	struct model m;
	uint64_t was;

	(void)state;
	model_open(&m);
	model_put_service(&m, test_service("web", "ip=10.96.0.1 port=http:80"), 1);
	for (size_t i = 0; i < FEW; i++)
		put_version(&m, i, 1, WIDE, 1);
	put_version(&m, FEW, 2, WIDE, 1);
	was = m.stats.addrs_compared;
	assert_int_equal(put_version(&m, FEW, 2, WIDE, 2), 1);
	assert_in_range(m.stats.addrs_compared - was, 5000, 5000 + 2 * WIDE);
	for (size_t i = 0; i < MANY; i++)
		put_version(&m, i, 1 + i, 1, 1);
	was = m.stats.addrs_compared;
	assert_int_equal(put_version(&m, 0, 1, 1, 2), 1);
	assert_int_equal(m.stats.addrs_compared, was);
	model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
