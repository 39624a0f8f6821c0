/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <stdbool.h>
#include <string.h>

#include "base/vec.h"

#define MOST 5000

static void test_empty(void **state)
{
	VEC(int) v = { 0 };
	size_t n = 0;

	(void)state;
	vec_for_each (i, &v)
		n += (size_t)*i;
	assert_int_equal(n, 0);
	vec_fit(&v);
	assert_null(v.v);
	vec_fini(&v);
	vec_fini(&v);
}

/* Expressions with side effects are evaluated once. */
static void test_evaluated_once(void **state)
{
	VEC(int) v = { 0 };
	size_t want = 10;

	(void)state;
	vec_reserve(&v, want++);
	assert_int_equal(want, 11);
	assert_int_equal(v.cap, 10);
	vec_reserve(&v, 3);
	assert_int_equal(v.cap, 10);
	vec_fini(&v);
}

static void test_keep(void **state)
{
	const int numbers[] = { 1, 1, 2, 3, 3, 3 };
	VEC(int) v = { 0 };

	(void)state;
	vec_keep(&v, i, *i > 0);
	assert_int_equal(v.n, 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		*vec_push(&v) = numbers[i];
	vec_keep(&v, i, true);
	assert_int_equal(v.n, ARRAY_SIZE(numbers));
	vec_keep(&v, i, i == v.v || i[-1] != *i);
	assert_int_equal(v.n, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(v.v[i], i + 1);
	vec_keep(&v, i, *i != 2);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.v[1], 3);
	vec_keep(&v, i, false);
	assert_int_equal(v.n, 0);
	vec_fini(&v);
}

static void test_insert_remove(void **state)
{
	VEC(int) v = { 0 };

	(void)state;
	for (int i = 0; i < 20; i++) /* 19 17 ... 1 0 2 ... 18 */
		*vec_insert(&v, i % 2 != 0 ? 0 : v.n) = i;
	assert_int_equal(v.n, 20);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(v.v[i], 19 - 2 * i);
		assert_int_equal(v.v[10 + i], 2 * i);
	}
	vec_remove(&v, 19);
	vec_remove(&v, 0);
	vec_remove(&v, 9);
	assert_int_equal(v.n, 17);
	assert_int_equal(v.v[0], 17);
	assert_int_equal(v.v[8], 1);
	assert_int_equal(v.v[9], 2);
	assert_int_equal(v.v[16], 16);
	vec_fini(&v);
}

static void test_fit(void **state)
{
	VEC(int) v = { 0 };

	(void)state;
	for (int i = 0; i < 9; i++)
		*vec_push(&v) = i;
	assert_true(v.cap > 9);
	vec_fit(&v);
	assert_int_equal(v.cap, 9);
	for (int i = 0; i < 9; i++)
		assert_int_equal(v.v[i], i);
	*vec_push(&v) = 9; /* and it grows again */
	assert_int_equal(v.n, 10);
	assert_int_equal(v.v[9], 9);
	vec_clear(&v);
	vec_fit(&v);
	assert_null(v.v);
	assert_int_equal(v.cap, 0);
	*vec_push(&v) = 1;
	assert_int_equal(v.v[0], 1);
	vec_fini(&v);
}

/* Random operations compared with a plain array. */
static void test_property(void **state)
{
	static uint64_t twin[MOST];
	VEC(uint64_t) v = { 0 };
	struct rng rng = { 3 };
	size_t n = 0;

	(void)state;
	for (int round = 0; round < 50000; round++) {
		size_t what = rng_below(&rng, 1000);

		if (what == 0 || n == MOST) {
			vec_clear(&v);
			n = 0;
		} else if (what == 1) {
			vec_fit(&v);
			assert_int_equal(v.cap, n);
		} else if (what < 10) {
			vec_reserve(&v, n + rng_below(&rng, 100));
		} else {
			*vec_push(&v) = twin[n] = rng_next(&rng);
			n++;
		}
		assert_int_equal(v.n, n);
		assert_true(v.cap >= n);
		if (round % 100 == 0 && n > 0)
			assert_memory_equal(v.v, twin, n * sizeof(*twin));
	}
	n = 0;
	vec_for_each (i, &v)
		assert_true(*i == twin[n++]);
	assert_int_equal(n, v.n);
	vec_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),    cmocka_unit_test(test_evaluated_once),
		cmocka_unit_test(test_fit),      cmocka_unit_test(test_keep),
		cmocka_unit_test(test_property), cmocka_unit_test(test_insert_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
