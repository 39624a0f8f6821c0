/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/name.h"

#define NAMES 200
#define ROUNDS 50000

static void test_identity(void **state)
{
	const struct name *a = name_get_str("shop");
	const struct name *b = name_get("shopping", 4);
	const struct name *empty = name_get_str("");

	(void)state;
	assert_ptr_equal(a, b);
	assert_string_equal(name_text(a), "shop");
	assert_int_equal(a->len, 4);
	assert_ptr_not_equal(a, empty);
	assert_non_null(empty); /* the empty name is a name */
	assert_string_equal(name_text(empty), "");
	assert_string_equal(name_text(NULL), "");
	name_unref(a);
	name_unref(b);
	name_unref(empty);
	assert_int_equal(name_count(), 0);
}

static void test_find_creates_nothing(void **state)
{
	const struct name *a;

	(void)state;
	assert_null(name_find("shop", 4));
	assert_int_equal(name_count(), 0);
	a = name_get_str("shop");
	assert_ptr_equal(name_find("shop", 4), a);
	assert_null(name_find("sho", 3));
	assert_int_equal(a->refs, 1);
	name_unref(a);
	assert_null(name_find("shop", 4));
}

static void test_null(void **state)
{
	(void)state;
	name_unref(NULL);
	assert_null(name_ref(NULL));
}

/* A NUL is part of the name: different texts are different names. */
static void test_embedded_nul(void **state)
{
	const struct name *a = name_get("a\0b", 3);
	const struct name *b = name_get("a\0c", 3);
	const struct name *c = name_get("a", 1);

	(void)state;
	assert_ptr_not_equal(a, b);
	assert_ptr_not_equal(a, c);
	name_unref(a);
	name_unref(b);
	name_unref(c);
}

/* Random references against counters. */
static void test_property(void **state)
{
	const struct name *programmed[NAMES] = { 0 };
	size_t refs[NAMES] = { 0 };
	struct rng rng = { 7 };
	size_t alive = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		size_t i = rng_below(&rng, NAMES);
		char text[16];
		int len = snprintf(text, sizeof(text), "name-%zu", i);

		assert_ptr_equal(name_find(text, (size_t)len), programmed[i]);
		if (refs[i] > 0 && rng_below(&rng, 2) == 0) {
			name_unref(programmed[i]);
			if (--refs[i] == 0) {
				programmed[i] = NULL;
				alive--;
			}
		} else {
			const struct name *n = refs[i] > 0 && rng_below(&rng, 2) == 0
						       ? name_ref(programmed[i])
						       : name_get_str(text);

			if (refs[i]++ == 0)
				alive++;
			else
				assert_ptr_equal(n, programmed[i]);
			programmed[i] = n;
			assert_string_equal(n->text, text);
		}
		assert_int_equal(name_count(), alive);
	}
	for (size_t i = 0; i < NAMES; i++)
		for (; refs[i] > 0; refs[i]--)
			name_unref(programmed[i]);
	assert_int_equal(name_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity), cmocka_unit_test(test_find_creates_nothing),
		cmocka_unit_test(test_null),     cmocka_unit_test(test_embedded_nul),
		cmocka_unit_test(test_property),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
