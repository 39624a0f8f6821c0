/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/walk: each service once, with changes in between; pages in order. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/walk.h"
#include "objects.h"

#define N 3000

static void put(struct model *m, const char *prefix, int i)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "ns%d/%s%05d", i % 3, prefix, i);
	model_put_service(m, test_service(key, "ip=10.96.0.1 port=http:80"), 1);
}

static void del(struct model *m, const char *prefix, int i)
{
	char name[64];
	const struct name *n[2];

	(void)snprintf(name, sizeof(name), "ns%d", i % 3);
	n[0] = name_get_str(name);
	(void)snprintf(name, sizeof(name), "%s%05d", prefix, i);
	n[1] = name_get_str(name);
	model_del_service(m, n[0], n[1], 1);
	name_unref(n[0]);
	name_unref(n[1]);
}

/* A sync frees entries; here this happens at once. */
static void settle(struct model *m)
{
	while (!list_is_empty(&m->dirty))
		model_clean(m, list_entry(m->dirty.next, struct svc, dirty));
}

struct seen {
	int stay[N];
	int others;
};

static void visit(void *arg, struct svc *svc)
{
	struct seen *s = arg;

	if (strncmp(svc->name->text, "stay", 4) == 0)
		s->stay[atoi(svc->name->text + 4)]++;
	else
		s->others++;
}

static void model_begin(struct model *m)
{
	model_init(m);
	model_configured(m);
}

/*
 * One bucket per call (the deadline has passed); between calls the table grows, and services are
 * deleted.
 */
static void test_growth(void **state)
{
	struct seen *s = calloc(1, sizeof(*s));
	struct model m;
	struct walk w = { 0 };
	int slices = 0;
	int added = 0;

	(void)state;
	model_begin(&m);
	for (int i = 0; i < N; i++)
		put(&m, "stay", i);
	while (walk_services(&w, &m, visit, s, 0)) {
		slices++;
		if (added < 4 * N && slices % 3 == 0)
			for (int k = 0; k < 20; k++)
				put(&m, "come", added++);
		if (slices % 7 == 0 && added > 100) {
			del(&m, "come", slices % added);
			settle(&m);
		}
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(s->stay[i], 1);
	assert_true(s->others > 0 && s->others <= added);
	assert_true(slices > 1000);
	model_fini(&m);
	assert_int_equal(name_count(), 0);
	free(s);
}

static void test_empty(void **state)
{
	struct seen *s = calloc(1, sizeof(*s));
	struct walk w = { 0 };
	struct model m;

	(void)state;
	model_begin(&m);
	assert_int_equal(walk_services(&w, &m, visit, s, 0), 0);
	assert_int_equal(walk_services(&w, &m, visit, s, 0), 0);
	model_fini(&m);
	free(s);
}

/* Pages of any size concatenated are the sorted list. */
static void test_pages(void **state)
{
	static const size_t limits[] = { 1, 2, 7, 100, 499, 500, 501, 5000 };
	struct model m;
	size_t n;
	struct svc **all;

	(void)state;
	model_begin(&m);
	for (int i = 0; i < 500; i++)
		put(&m, "s", (i * 7919) % 500);
	all = model_sorted(&m, &n);
	assert_int_equal(n, 500);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct page_query q = { .limit = limits[i] };
		size_t at = 0;
		bool has_more = true;

		while (has_more) {
			struct page p;

			page_init(&p, &m, &q);
			while (page_more(&p, 0))
				;
			assert_int_equal(p.n_matching, n);
			assert_true(p.keys.n > 0 && p.keys.n <= limits[i]);
			for (const struct walk_key *key; (key = page_next(&p)) != NULL; at++) {
				assert_ptr_equal(key->ns, all[at]->ns);
				assert_ptr_equal(key->name, all[at]->name);
			}
			has_more = p.has_more;
			q.after_ns = strdup(all[at - 1]->ns->text);
			q.after_name = strdup(all[at - 1]->name->text);
			page_fini(&p);
		}
		free(q.after_ns);
		free(q.after_name);
		assert_int_equal(at, n);
	}
	free(all);
	model_fini(&m);
	assert_int_equal(name_count(), 0);
}

/* Without a limit: the same list, for any number of steps. */
static void test_page_of_all(void **state)
{
	static const int counts[] = { 0, 1, 2, 1023, 1024, 1025, 5000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct page_query q = { 0 };
		const struct walk_key *key;
		struct model m;
		struct page p;
		size_t at = 0;
		size_t n;
		struct svc **all;

		model_begin(&m);
		for (int k = 0; k < counts[i]; k++)
			put(&m, "s", k);
		all = model_sorted(&m, &n);
		if (n > 10) {
			q.after_ns = strdup(all[3]->ns->text);
			q.after_name = strdup(all[3]->name->text);
			at = 4;
		}
		page_init(&p, &m, &q);
		while (page_more(&p, 0))
			;
		assert_int_equal(p.n_matching, n);
		assert_false(p.has_more);
		for (; (key = page_next(&p)) != NULL; at++) {
			assert_ptr_equal(key->ns, all[at]->ns);
			assert_ptr_equal(key->name, all[at]->name);
		}
		assert_int_equal(at, n);
		page_fini(&p);
		free(all);
		model_fini(&m);
		assert_int_equal(name_count(), 0);
	}
}

static bool is_even(void *arg, const struct svc *svc)
{
	(void)arg;
	return (svc->name->text[svc->name->len - 1] - '0') % 2 == 0;
}

static void test_wanted(void **state)
{
	struct page_query q = { .limit = 3, .is_wanted = is_even };
	struct model m;
	struct page p;

	(void)state;
	model_begin(&m);
	for (int i = 0; i < 30; i++)
		put(&m, "s", i);
	page_init(&p, &m, &q);
	while (page_more(&p, 0))
		;
	assert_int_equal(p.n_matching, 15);
	assert_true(p.has_more);
	assert_int_equal(p.keys.n, 3);
	assert_string_equal(p.keys.v[0].name->text, "s00000");
	assert_string_equal(p.keys.v[1].name->text, "s00006");
	page_fini(&p);
	model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growth), cmocka_unit_test(test_empty),
		cmocka_unit_test(test_pages),  cmocka_unit_test(test_page_of_all),
		cmocka_unit_test(test_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
