/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <string.h>

#include "base/list.h"

#define ITEMS 32
#define ROUNDS 20000

struct item {
	int id;
	struct list link;
};

static void check(const struct list *head, const int *want, size_t n)
{
	size_t i = 0;

	list_for_each (l, head) {
		assert_true(i < n);
		assert_int_equal(list_entry(l, struct item, link)->id, want[i]);
		assert_ptr_equal(l->next->prev, l);
		assert_ptr_equal(l->prev->next, l);
		i++;
	}
	assert_int_equal(i, n);
	assert_int_equal(list_is_empty(head), n == 0);
}

static void test_order(void **state)
{
	struct item a = { .id = 1 };
	struct item b = { .id = 2 };
	struct item c = { .id = 3 };
	struct list head;

	(void)state;
	list_init(&head);
	check(&head, NULL, 0);
	list_add_tail(&head, &a.link);
	list_add_tail(&head, &b.link);
	list_add_after(&head, &c.link);
	check(&head, (int[]){ 3, 1, 2 }, 3);
	list_del(&a.link);
	check(&head, (int[]){ 3, 2 }, 2);
	list_add_after(&c.link, &a.link);
	check(&head, (int[]){ 3, 1, 2 }, 3);
}

/* Zeroed and initialised nodes are both "not linked", and may be deleted. */
static void test_unlinked(void **state)
{
	struct list zeroed = { 0 };
	struct list initialised;

	(void)state;
	list_init(&initialised);
	assert_false(list_is_linked(&zeroed));
	assert_false(list_is_linked(&initialised));
	list_del(&zeroed);
	list_del(&initialised);
	assert_false(list_is_linked(&zeroed));
	assert_false(list_is_linked(&initialised));
}

static void test_safe_walk(void **state)
{
	struct item items[6];
	struct list head;

	(void)state;
	list_init(&head);
	for (int i = 0; i < 6; i++) {
		items[i].id = i;
		list_add_tail(&head, &items[i].link);
	}
	list_for_each_safe (l, next, &head) {
		struct item *item = list_entry(l, struct item, link);

		if (item->id % 2 == 0) {
			list_del(l);
			memset(item, 0xff, sizeof(*item)); /* as free() would leave it */
		}
	}
	check(&head, (int[]){ 1, 3, 5 }, 3);
}

static void twin_insert(int *twin, size_t *n, size_t at, int id)
{
	memmove(twin + at + 1, twin + at, (*n - at) * sizeof(*twin));
	twin[at] = id;
	(*n)++;
}

static size_t twin_find(const int *twin, size_t n, int id)
{
	size_t i = 0;

	while (i < n && twin[i] != id)
		i++;
	return i;
}

/* Random operations on the list and on an array. */
static void test_property(void **state)
{
	struct item items[ITEMS];
	struct list head;
	struct rng rng = { 1 };
	int twin[ITEMS];
	size_t n = 0;

	(void)state;
	list_init(&head);
	for (int i = 0; i < ITEMS; i++)
		items[i] = (struct item){ .id = i };
	for (int round = 0; round < ROUNDS; round++) {
		int id = (int)rng_below(&rng, ITEMS);
		struct item *item = &items[id];
		size_t at = twin_find(twin, n, id);

		assert_int_equal(list_is_linked(&item->link), at < n);
		if (at < n) {
			list_del(&item->link);
			memmove(twin + at, twin + at + 1, (n - at - 1) * sizeof(*twin));
			n--;
		} else if (n == 0 || rng_below(&rng, 3) == 0) {
			list_add_tail(&head, &item->link);
			twin_insert(twin, &n, n, id);
		} else {
			size_t after = rng_below(&rng, n);

			list_add_after(&items[twin[after]].link, &item->link);
			twin_insert(twin, &n, after + 1, id);
		}
		check(&head, twin, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_unlinked),
		cmocka_unit_test(test_safe_walk),
		cmocka_unit_test(test_property),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
