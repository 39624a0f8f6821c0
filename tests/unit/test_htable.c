/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <stdbool.h>
#include <string.h>

#include "base/htable.h"

#define ITEMS 1000
#define ROUNDS 30000

struct item {
	uint32_t key;
	bool is_in;
	unsigned int seen;
	struct hnode node;
};

static struct item *find(const struct htable *t, uint32_t key, uint32_t hash)
{
	return htable_find(t, hash, struct item, e, e->key == key);
}

static void test_empty(void **state)
{
	struct htable t = { 0 };

	(void)state;
	assert_null(find(&t, 1, 1));
	assert_null(htable_next(&t, NULL));
	htable_for_each_entry_safe (item, next, &t, struct item)
		fail();
	htable_fini(&t);
	htable_fini(&t);
}

/* Every element is found by its hash only, also in shared buckets. */
static void test_collisions(void **state)
{
	struct item items[40];
	struct htable t = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 40; i++) {
		items[i] = (struct item){ .key = i };
		htable_insert(&t, &items[i].node, i % 2 == 0 ? 7 : 7 + (UINT32_C(1) << 20));
	}
	for (uint32_t i = 0; i < 40; i++) {
		assert_ptr_equal(find(&t, i, i % 2 == 0 ? 7 : 7 + (UINT32_C(1) << 20)), &items[i]);
		assert_null(find(&t, i, 8));
	}
	assert_int_equal(t.count, 40);
	htable_fini(&t);
}

/* The one inserted last is found first, also after buckets were added. */
static void test_equal_hashes(void **state)
{
	struct item items[100];
	struct htable t = { 0 };
	uint32_t want = 100;

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		items[i] = (struct item){ .key = i };
		htable_insert(&t, &items[i].node, i % 5 == 0 ? 7 : i);
	}
	htable_for_each_hash (n, &t, 7) {
		uint32_t key = container_of(n, struct item, node)->key;

		assert_true(key < want && (key % 5 == 0 || key == 7));
		want = key;
	}
	assert_int_equal(want, 0);
	htable_fini(&t);
}

static void check_walk(const struct htable *t, struct item *items)
{
	size_t n = 0;

	for (size_t i = 0; i < ITEMS; i++)
		items[i].seen = 0;
	htable_for_each (node, t)
		container_of(node, struct item, node)->seen++;
	for (size_t i = 0; i < ITEMS; i++) {
		assert_int_equal(items[i].seen, items[i].is_in ? 1 : 0);
		n += items[i].is_in;
	}
	assert_int_equal(t->count, n);
}

/* Random operations compared with flags. `spread`: number of different hashes; 1: one chain. */
static void property(uint32_t spread)
{
	static struct item items[ITEMS];
	struct htable t = { 0 };
	struct rng rng = { spread };

	for (uint32_t i = 0; i < ITEMS; i++)
		items[i] = (struct item){ .key = i };
	for (int round = 0; round < ROUNDS; round++) {
		struct item *item = &items[rng_below(&rng, ITEMS)];
		uint32_t hash = item->key % spread * UINT32_C(0x9e3779b1);

		assert_ptr_equal(find(&t, item->key, hash), item->is_in ? item : NULL);
		if (item->is_in)
			htable_remove(&t, &item->node);
		else
			htable_insert(&t, &item->node, hash);
		item->is_in = !item->is_in;
		if (round % 1000 == 0)
			check_walk(&t, items);
	}
	check_walk(&t, items);
	assert_true(t.n_buckets + t.n_buckets / 2 >= t.count);
	assert_true(t.n_buckets <= 2 * t.count);
	htable_fini(&t);
}

/* An insertion moves few nodes, however many there are; walks are in order of reversed hashes. */
static void test_growth(void **state)
{
	static struct item items[10 * ITEMS];
	struct htable t = { 0 };

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(items); i++) {
		size_t n_buckets = t.n_buckets;

		items[i] = (struct item){ .key = i };
		htable_insert(&t, &items[i].node, i * UINT32_C(0x9e3779b1));
		assert_true(i == 0 || t.n_buckets <= n_buckets + 1);
		assert_true(t.count <= t.n_buckets + t.n_buckets / 2 + 1);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(items); i++) {
		uint32_t hash = items[i].node.hash;
		unsigned int bits = htable_bits(&t, hash);

		assert_ptr_equal(find(&t, i, hash), &items[i]);
		/* The lower bits choose the bucket, all of them are needed. */
		assert_int_equal(htable_index(&t, hash), hash & ((1U << bits) - 1));
		assert_int_equal(htable_index(&t, hash ^ 1U << bits), htable_index(&t, hash));
		assert_int_not_equal(htable_index(&t, hash ^ 1U << (bits - 1)),
				     htable_index(&t, hash));
	}
	htable_fini(&t);
}

static void test_property(void **state)
{
	(void)state;
	property(ITEMS);
	property(37);
	property(1);
}

static void test_remove_while_walking(void **state)
{
	static struct item items[ITEMS];
	struct htable t = { 0 };
	size_t left = 0;

	(void)state;
	for (uint32_t i = 0; i < ITEMS; i++) {
		items[i] = (struct item){ .key = i };
		htable_insert(&t, &items[i].node, i * UINT32_C(0x9e3779b1));
	}
	htable_for_each_entry_safe (item, next, &t, struct item) {
		if (item->key % 3 == 0)
			continue;
		htable_remove(&t, &item->node);
		memset(item, 0xff, sizeof(*item)); /* as free() would leave it */
	}
	htable_for_each (n, &t) {
		assert_int_equal(container_of(n, struct item, node)->key % 3, 0);
		left++;
	}
	assert_int_equal(left, (ITEMS + 2) / 3);
	assert_int_equal(t.count, left);
	htable_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),        cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_equal_hashes), cmocka_unit_test(test_property),
		cmocka_unit_test(test_growth),       cmocka_unit_test(test_remove_while_walking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
