/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/walk - the position in the table, and a heap of keys, sorted in place. */
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

#define WALK_END (UINT64_C(1) << 32)
#define SORT_STEP 64 /* keys between two reads of the clock */

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

	while (w->at < WALK_END) {
		uint32_t hash = reverse((uint32_t)w->at);

		for (struct hnode *n = htable_bucket(t, hash); n != NULL; n = n->next)
			visit(arg, container_of(n, struct svc, node));
		w->at += WALK_END >> htable_bits(t, hash);
		if (now_ns() >= deadline_ns)
			break;
	}
	return w->at < WALK_END;
}

/* --- pages --- */

static int walk_key_cmp(const void *a, const void *b)
{
	const struct walk_key *ka = a;
	const struct walk_key *kb = b;

	return CMP(ka->rank, kb->rank) ?: name_pair_cmp(ka->ns, ka->name, kb->ns, kb->name);
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

static struct walk_key key_ref(const struct walk_key *key)
{
	return (struct walk_key){ key->rank, name_ref(key->ns), name_ref(key->name) };
}

/* --- the heap: the largest key first, so that a smaller one can take its place --- */

static void key_swap(struct walk_key *a, struct walk_key *b)
{
	struct walk_key tmp = *a;

	*a = *b;
	*b = tmp;
}

static void heap_sink(struct page *p)
{
	struct walk_key *v = p->keys.v;
	size_t i = 0;

	for (size_t child = 1; child < p->n_heap; child = 2 * i + 1) {
		if (child + 1 < p->n_heap && walk_key_cmp(&v[child + 1], &v[child]) > 0)
			child++;
		if (walk_key_cmp(&v[child], &v[i]) <= 0)
			return;
		key_swap(&v[i], &v[child]);
		i = child;
	}
}

static void heap_add(struct page *p, const struct walk_key *key)
{
	size_t i = p->n_heap++;
	struct walk_key *v;

	*vec_push(&p->keys) = key_ref(key);
	v = p->keys.v;
	for (; i > 0 && walk_key_cmp(&v[i], &v[(i - 1) / 2]) > 0; i = (i - 1) / 2)
		key_swap(&v[i], &v[(i - 1) / 2]);
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
	if (p->query.limit == 0 || p->keys.n < p->query.limit) {
		heap_add(p, &key);
		return;
	}
	p->has_more = true;
	if (walk_key_cmp(&key, &p->keys.v[0]) > 0)
		return;
	name_pair_unref(p->keys.v[0].ns, p->keys.v[0].name);
	p->keys.v[0] = key_ref(&key);
	heap_sink(p);
}

void page_init(struct page *ret, const struct model *m, const struct page_query *query)
{
	*ret = (struct page){ .query = *query, .model = m };
}

int page_more(struct page *p, uint64_t deadline_ns)
{
	if (walk_services(&p->walk, p->model, page_visit, p, deadline_ns))
		return 1;
	while (p->n_heap > 1) {
		key_swap(&p->keys.v[0], &p->keys.v[--p->n_heap]);
		heap_sink(p);
		if (p->n_heap % SORT_STEP == 0 && now_ns() >= deadline_ns)
			return 1;
	}
	return 0;
}

const struct walk_key *page_next(struct page *p)
{
	return p->n_read < p->keys.n ? &p->keys.v[p->n_read++] : NULL;
}

void page_fini(struct page *p)
{
	vec_for_each (key, &p->keys)
		name_pair_unref(key->ns, key->name);
	vec_fini(&p->keys);
	free(p->query.after_ns);
	free(p->query.after_name);
	*p = (struct page){ 0 };
}
