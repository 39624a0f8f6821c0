/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Services with many slices: the order of these, and the work of one event. */
#include "test.h"

#include <stdio.h>
#include <string.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_moves),
	};

	return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
