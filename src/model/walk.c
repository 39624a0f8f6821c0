/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/walk - the position in the table, and the heap of the smallest keys. */
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

#define WALK_END (UINT64_C(1) << 32)
#define RUN 1024 /* keys sorted at a time: a quarter of a millisecond */

static uint32_t reverse(uint32_t x)
{
	x = (x >> 1 & 0x55555555U) | (x & 0x55555555U) << 1;
	x = (x >> 2 & 0x33333333U) | (x & 0x33333333U) << 2;
	x = (x >> 4 & 0x0f0f0f0fU) | (x & 0x0f0f0f0fU) << 4;
	return __builtin_bswap32(x);
}

int walk_services(struct walk *w, const struct model *m, void (*visit)(void *arg, struct svc *svc),
		  void *arg, uint64_t deadline_ns)
{
	const struct htable *t = &m->services;
	uint64_t step = t->n_buckets > 0 ? WALK_END / t->n_buckets : WALK_END;

	while (w->at < WALK_END) {
		uint32_t bucket = reverse((uint32_t)w->at);
		struct hnode *node = t->n_buckets > 0 ? t->buckets[bucket] : NULL;

		for (; node != NULL; node = node->next)
			visit(arg, container_of(node, struct svc, node));
		w->at += step;
		if (now_ns() >= deadline_ns)
			break;
	}
	return w->at < WALK_END;
}

/* --- pages --- */

static int name_cmp(const struct name *a, const struct name *b)
{
	return a == b ? 0 : strcmp(a->text, b->text);
}

static int walk_key_cmp(const void *a, const void *b)
{
	const struct walk_key *ka = a;
	const struct walk_key *kb = b;
	int c = ka->rank - kb->rank;

	if (c == 0)
		c = name_cmp(ka->ns, kb->ns);
	return c != 0 ? c : name_cmp(ka->name, kb->name);
}

static bool is_after(const struct page_query *q, const struct walk_key *key)
{
	int c = key->rank - q->after_rank;

	if (q->after_ns == NULL)
		return true;
	if (c == 0)
		c = strcmp(key->ns->text, q->after_ns);
	return c > 0 || (c == 0 && strcmp(key->name->text, q->after_name) > 0);
}

/* The largest key is the first of the heap, so that a smaller one can take its place. */
static void heap_sink(struct walk_key *v, size_t n)
{
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;
		struct walk_key tmp = v[i];

		if (child >= n)
			return;
		if (child + 1 < n && walk_key_cmp(&v[child], &v[child + 1]) < 0)
			child++;
		if (walk_key_cmp(&v[i], &v[child]) >= 0)
			return;
		v[i] = v[child];
		v[child] = tmp;
		i = child;
	}
}

static void heap_rise(struct walk_key *v, size_t i)
{
	while (i > 0 && walk_key_cmp(&v[(i - 1) / 2], &v[i]) < 0) {
		struct walk_key tmp = v[i];

		v[i] = v[(i - 1) / 2];
		v[(i - 1) / 2] = tmp;
		i = (i - 1) / 2;
	}
}

static struct walk_key key_ref(const struct walk_key *key)
{
	return (struct walk_key){ key->rank, name_ref(key->ns), name_ref(key->name) };
}

/* --- runs, when all keys are kept --- */

static void run_sort(struct page *p, size_t start)
{
	if (p->keys.n - start > 1)
		qsort(p->keys.v + start, p->keys.n - start, sizeof(struct walk_key), walk_key_cmp);
	*vec_push(&p->heads) = start;
}

static void run_add(struct page *p, const struct walk_key *key)
{
	*vec_push(&p->keys) = key_ref(key);
	if (p->keys.n % RUN == 0)
		run_sort(p, p->keys.n - RUN);
}

/* The run whose next key is the smallest comes first. */
static void heads_sink(struct page *p, size_t i)
{
	size_t *v = p->heads.v;

	for (;;) {
		size_t child = 2 * i + 1;
		size_t tmp = v[i];

		if (child >= p->heads.n)
			return;
		if (child + 1 < p->heads.n &&
		    walk_key_cmp(&p->keys.v[v[child + 1]], &p->keys.v[v[child]]) < 0)
			child++;
		if (walk_key_cmp(&p->keys.v[v[i]], &p->keys.v[v[child]]) <= 0)
			return;
		v[i] = v[child];
		v[child] = tmp;
		i = child;
	}
}

static void runs_done(struct page *p)
{
	if (p->keys.n % RUN != 0)
		run_sort(p, p->keys.n - p->keys.n % RUN);
	for (size_t i = p->heads.n / 2; i-- > 0;)
		heads_sink(p, i);
}

static const struct walk_key *runs_next(struct page *p)
{
	size_t at;

	if (p->heads.n == 0)
		return NULL;
	at = p->heads.v[0];
	if ((at + 1) % RUN != 0 && at + 1 < p->keys.n)
		p->heads.v[0] = at + 1;
	else
		p->heads.v[0] = p->heads.v[--p->heads.n];
	heads_sink(p, 0);
	return &p->keys.v[at];
}

static void page_visit(void *arg, struct svc *svc)
{
	struct page *p = arg;
	struct walk_key key = { 0, svc->ns, svc->name };

	if (p->query.is_wanted != NULL && !p->query.is_wanted(p->query.arg, svc))
		return;
	p->n_matching++;
	if (p->query.rank != NULL)
		key.rank = p->query.rank(p->query.arg, svc);
	if (!is_after(&p->query, &key))
		return;
	if (p->query.limit == 0) {
		run_add(p, &key);
		return;
	}
	if (p->keys.n < p->query.limit) {
		*vec_push(&p->keys) = key_ref(&key);
		heap_rise(p->keys.v, p->keys.n - 1);
		return;
	}
	p->has_more = true;
	if (p->keys.n == 0 || walk_key_cmp(&key, &p->keys.v[0]) > 0)
		return;
	name_unref(p->keys.v[0].ns);
	name_unref(p->keys.v[0].name);
	p->keys.v[0] = key_ref(&key);
	heap_sink(p->keys.v, p->keys.n);
}

void page_init(struct page *ret, const struct model *m, const struct page_query *query)
{
	*ret = (struct page){ .query = *query, .model = m };
}

int page_more(struct page *p, uint64_t deadline_ns)
{
	if (walk_services(&p->walk, p->model, page_visit, p, deadline_ns))
		return 1;
	if (p->query.limit == 0)
		runs_done(p);
	else
		vec_sort(&p->keys, walk_key_cmp);
	return 0;
}

const struct walk_key *page_next(struct page *p)
{
	if (p->query.limit == 0)
		return runs_next(p);
	return p->n_read < p->keys.n ? &p->keys.v[p->n_read++] : NULL;
}

void page_fini(struct page *p)
{
	vec_for_each (key, &p->keys) {
		name_unref(key->ns);
		name_unref(key->name);
	}
	vec_fini(&p->keys);
	vec_fini(&p->heads);
	free(p->query.after_ns);
	free(p->query.after_name);
	*p = (struct page){ 0 };
}
