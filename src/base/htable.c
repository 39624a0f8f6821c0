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

/* Add a bucket, and move its nodes there from the bucket that has them so far. */
static void grow(struct htable *t)
{
	struct hnode **from;
	struct hnode **to;

	if (t->n_buckets == t->n_max) {
		t->n_max *= 2;
		t->buckets = xreallocarray(t->buckets, t->n_max, sizeof(*t->buckets));
	}
	from = &t->buckets[t->n_buckets - t->n_max / 2];
	to = &t->buckets[t->n_buckets++];
	while (*from != NULL) {
		struct hnode *node = *from;

		if ((node->hash & (t->n_max / 2)) == 0) {
			from = &node->next;
			continue;
		}
		*from = node->next;
		*to = node;
		to = &node->next;
	}
	*to = NULL;
}

void htable_insert(struct htable *t, struct hnode *node, uint32_t hash)
{
	struct hnode **b;

	if (t->n_buckets == 0) {
		t->n_buckets = t->n_max = BUCKETS_MIN;
		t->buckets = xcalloc(BUCKETS_MIN, sizeof(struct hnode *));
	} else if (t->count >= t->n_buckets + t->n_buckets / 2) {
		grow(t);
	}
	b = &t->buckets[htable_index(t, hash)];
	node->hash = hash;
	node->next = *b;
	*b = node;
	t->count++;
}

void htable_remove(struct htable *t, struct hnode *node)
{
	struct hnode **p = &t->buckets[htable_index(t, node->hash)];

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
		i = htable_index(t, n->hash) + 1;
	}
	for (; i < t->n_buckets; i++)
		if (t->buckets[i] != NULL)
			return t->buckets[i];
	return NULL;
}
