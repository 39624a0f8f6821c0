/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/htable.h"

#include <assert.h>
#include <stdlib.h>

#define BUCKETS_MIN 16

void htable_fini(struct htable *t)
{
	free(t->buckets);
	*t = (struct htable){ 0 };
}

static void grow(struct htable *t)
{
	size_t n = t->n_buckets ? t->n_buckets * 2 : BUCKETS_MIN;
	struct hnode **buckets = xcalloc(n, sizeof(*buckets));

	for (size_t i = 0; i < t->n_buckets; i++) {
		struct hnode *next;

		for (struct hnode *node = t->buckets[i]; node != NULL; node = next) {
			struct hnode **b = &buckets[node->hash & (n - 1)];

			next = node->next;
			node->next = *b;
			*b = node;
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->n_buckets = n;
}

void htable_insert(struct htable *t, struct hnode *node, uint32_t hash)
{
	struct hnode **b;

	if (t->count >= t->n_buckets + t->n_buckets / 2)
		grow(t);
	b = &t->buckets[hash & (t->n_buckets - 1)];
	node->hash = hash;
	node->next = *b;
	*b = node;
	t->count++;
}

void htable_remove(struct htable *t, struct hnode *node)
{
	struct hnode **p = &t->buckets[node->hash & (t->n_buckets - 1)];

	while (*p != node) {
		assert(*p != NULL);
		p = &(*p)->next;
	}
	*p = node->next;
	node->next = NULL;
	t->count--;
}

struct hnode *htable_next(const struct htable *t, const struct hnode *n)
{
	size_t i = 0;

	if (n != NULL) {
		if (n->next != NULL)
			return n->next;
		i = (n->hash & (t->n_buckets - 1)) + 1;
	}
	for (; i < t->n_buckets; i++)
		if (t->buckets[i] != NULL)
			return t->buckets[i];
	return NULL;
}
