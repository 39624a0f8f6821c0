/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/htable - an intrusive chained hash table with stored hash values.
 *
 *     struct x *x = htable_find(&t, hash, struct x, e, key_matches(e));
 *
 * The caller embeds a struct hnode as `node`, computes the hash (base/hash.h) and compares
 * keys itself. Linking cannot fail. An insertion into a table with 1.5 nodes a bucket adds one
 * bucket (linear hashing), so that none moves many nodes. It never shrinks.
 * Of nodes with equal hashes the one inserted last is found first. The order of other nodes in a
 * walk is random from run to run: sort before anything is printed, planned or sent.
 */
#pragma once

#include "base/util.h"

struct hnode {
	struct hnode *next;
	uint32_t hash;
};

struct htable {
	struct hnode **buckets;
	size_t n_buckets; /* 0 before the first insertion; more than half of n_max */
	size_t n_max;     /* a power of two: buckets for which there is memory */
	size_t count;
};

/* Zeroed memory is a valid empty table. htable_fini() frees the buckets, not the nodes. */
void htable_fini(struct htable *t);
void htable_insert(struct htable *t, struct hnode *node, uint32_t hash);
/* `node` must be in `t`. */
void htable_remove(struct htable *t, struct hnode *node);

static inline struct hnode *htable_match(struct hnode *n, uint32_t hash)
{
	while (n != NULL && n->hash != hash)
		n = n->next;
	return n;
}

/* The bucket of a hash, in a table with buckets. One that does not exist yet is part of another. */
static inline size_t htable_index(const struct htable *t, uint32_t hash)
{
	size_t i = hash & (t->n_max - 1);

	return i < t->n_buckets ? i : i & (t->n_max / 2 - 1);
}

/* How many low bits of a hash choose its bucket; 0: there are no buckets. */
static inline unsigned int htable_bits(const struct htable *t, uint32_t hash)
{
	if (t->n_buckets == 0)
		return 0;
	return (unsigned int)__builtin_ctzl(t->n_max) -
	       ((hash & (t->n_max / 2 - 1)) + t->n_max / 2 >= t->n_buckets);
}

static inline struct hnode *htable_bucket(const struct htable *t, uint32_t hash)
{
	return t->n_buckets == 0 ? NULL : t->buckets[htable_index(t, hash)];
}

struct hnode *htable_next(const struct htable *t, const struct hnode *n);

#define htable_for_each_hash(pos, t, h)                                                        \
	for (struct hnode * (pos) = htable_match(htable_bucket((t), (h)), (h)); (pos) != NULL; \
	     (pos) = htable_match((pos)->next, (h)))
#define htable_for_each(pos, t)                                            \
	for (struct hnode * (pos) = htable_next((t), NULL); (pos) != NULL; \
	     (pos) = htable_next((t), (pos)))

static inline void *htable_next_element(const struct htable *t, const struct hnode *n,
					size_t offset)
{
	struct hnode *next = htable_next(t, n);

	return next != NULL ? (char *)next - offset : NULL;
}

/* Iterate over the elements that contain the nodes. */
#define htable_for_each_entry(pos, t, type)                                                      \
	for (type * (pos) = htable_next_element((t), NULL, offsetof(type, node)); (pos) != NULL; \
	     (pos) = htable_next_element((t), &(pos)->node, offsetof(type, node)))
/* `pos` itself may be removed and freed in the body. */
#define htable_for_each_entry_safe(pos, tmp, t, type)                                            \
	for (type * (pos) = htable_next_element((t), NULL, offsetof(type, node)), *(tmp) = NULL; \
	     (pos) != NULL &&                                                                    \
	     ((tmp) = htable_next_element((t), &(pos)->node, offsetof(type, node)), true);       \
	     (pos) = (tmp))

/* The first element `e` with this hash for which `is_match` is true, or NULL. */
#define htable_find(t, h, type, e, is_match)                             \
	({                                                               \
		uint32_t find_hash = (h);                                \
		type *found = NULL;                                      \
                                                                         \
		htable_for_each_hash (find_node, (t), find_hash) {       \
			type *(e) = container_of(find_node, type, node); \
			if (is_match) {                                  \
				found = (e);                             \
				break;                                   \
			}                                                \
		}                                                        \
		found;                                                   \
	})
