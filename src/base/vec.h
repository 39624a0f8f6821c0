/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/vec - a typed growable array.
 *
 *     VEC(struct op) ops = { 0 };
 *     *vec_push(&ops) = (struct op){ ... };
 *     vec_for_each(op, &ops) use(op);
 *     struct op *first = vec_find(&ops, op, op->is_new);
 *     vec_fini(&ops);
 *
 * Zeroed memory is an empty vector. Pointers into it are valid until the next push.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define VEC(type)             \
	struct {              \
		type *v;      \
		uint32_t n;   \
		uint32_t cap; \
	}

/* At least `len`, and at least twice `cap`. */
static inline uint32_t vec_cap(size_t len, size_t cap)
{
	size_t ret = MAX(len, cap * 2);

	if (ret > UINT32_MAX)
		abort();
	return (uint32_t)ret;
}

#define vec_reserve(vec, len)                                                              \
	do {                                                                               \
		size_t vec_len = (len);                                                    \
		if (vec_len > (vec)->cap) {                                                \
			(vec)->cap = vec_cap(vec_len, (vec)->cap);                         \
			(vec)->v = xreallocarray((vec)->v, (vec)->cap, sizeof(*(vec)->v)); \
		}                                                                          \
	} while (0)

/* Append one element, uninitialised, and yield its address. */
#define vec_push(vec)                                                           \
	({                                                                      \
		if ((vec)->n == (vec)->cap)                                     \
			vec_reserve((vec), (vec)->cap ? (vec)->cap + 1ULL : 8); \
		&(vec)->v[(vec)->n++];                                          \
	})
/* As vec_push(), before element `at`. */
#define vec_insert(vec, at)                                           \
	({                                                            \
		size_t vec_at = (at);                                 \
		(void)vec_push(vec);                                  \
		memmove((vec)->v + vec_at + 1, (vec)->v + vec_at,     \
			((vec)->n - 1 - vec_at) * sizeof(*(vec)->v)); \
		(vec)->v + vec_at;                                    \
	})
#define vec_remove(vec, at)                                         \
	do {                                                        \
		size_t vec_at = (at);                               \
		memmove((vec)->v + vec_at, (vec)->v + vec_at + 1,   \
			(--(vec)->n - vec_at) * sizeof(*(vec)->v)); \
	} while (0)
#define vec_clear(vec) ((vec)->n = 0)
/* Keep the first `len` elements; they exist, or have been written into reserved room. */
#define vec_cut(vec, len) ((vec)->n = (uint32_t)(len))
/* Free spare memory, of a long-lived vector that does not grow any more. */
#define vec_fit(vec)                                                                     \
	do {                                                                             \
		if ((vec)->n == 0)                                                       \
			vec_fini(vec);                                                   \
		else if ((vec)->n < (vec)->cap)                                          \
			(vec)->v = xreallocarray((vec)->v, (vec)->n, sizeof(*(vec)->v)); \
		(vec)->cap = (vec)->n;                                                   \
	} while (0)
#define vec_fini(vec)                      \
	do {                               \
		free((vec)->v);            \
		(vec)->v = NULL;           \
		(vec)->n = (vec)->cap = 0; \
	} while (0)
/* Destructor of AUTO(vec_fini): a vector begins with its elements. */
static inline void vec_fini_auto(void *vec)
{
	free_auto(vec);
}
/* Move the elements of `from` to the empty vector `to`. */
#define vec_move(to, from)                   \
	do {                                 \
		(to)->v = TAKE((from)->v);   \
		(to)->n = (from)->n;         \
		(to)->cap = (from)->cap;     \
		(from)->n = (from)->cap = 0; \
	} while (0)
#define vec_append(to, from)                                                                \
	do {                                                                                \
		vec_reserve((to), (size_t)(to)->n + (from)->n);                             \
		if ((from)->n > 0)                                                          \
			memcpy((to)->v + (to)->n, (from)->v, (from)->n * sizeof(*(to)->v)); \
		(to)->n += (from)->n;                                                       \
	} while (0)
/* Equal lengths, and elements that are equal as raw bytes? */
#define vec_is_equal(a, b) \
	((a)->n == (b)->n && ((a)->n == 0 || memcmp((a)->v, (b)->v, (a)->n * sizeof(*(a)->v)) == 0))
/* vec_fini() of a vector of pointers, which it frees. */
#define vec_free_all(vec)                                         \
	do {                                                      \
		for (size_t vec_i = 0; vec_i < (vec)->n; vec_i++) \
			free((vec)->v[vec_i]);                    \
		vec_fini(vec);                                    \
	} while (0)
/* Most vectors are sorted already. */
#define vec_sort(vec, cmp) vec_qsort((vec)->v, (vec)->n, sizeof(*(vec)->v), (cmp))
static inline void vec_qsort(void *v, size_t n, size_t size,
			     int (*cmp)(const void *a, const void *b))
{
	const char *at = v;

	for (size_t i = 1; i < n; i++, at += size) {
		if (cmp(at, at + size) <= 0)
			continue;
		qsort(v, n, size, cmp);
		return;
	}
}
/* The element of a sorted vector that equals `key`, or NULL. */
#define vec_search(vec, key, cmp) \
	((__typeof__((vec)->v))vec_bsearch((key), (vec)->v, (vec)->n, sizeof(*(vec)->v), (cmp)))
static inline void *vec_bsearch(const void *key, const void *v, size_t n, size_t size,
				int (*cmp)(const void *a, const void *b))
{
	return n == 0 ? NULL : bsearch(key, v, n, size, cmp);
}
/* The first of `n` indexes for which `is_before`, an expression of `i`, is false; `n`: none. */
#define bisect(n, i, is_before)                                 \
	({                                                      \
		size_t bisect_lo = 0;                           \
		size_t bisect_hi = (n);                         \
                                                                \
		while (bisect_lo < bisect_hi) {                 \
			size_t i = (bisect_lo + bisect_hi) / 2; \
                                                                \
			if (is_before)                          \
				bisect_lo = i + 1;              \
			else                                    \
				bisect_hi = i;                  \
		}                                               \
		bisect_lo;                                      \
	})
/* One past the last element; NULL of an empty vector, because NULL + 0 is undefined. */
#define vec_end(vec) ((vec)->n == 0 ? (vec)->v : (vec)->v + (vec)->n)
#define vec_for_each(pos, vec) \
	for (__typeof__((vec)->v + 0)(pos) = (vec)->v; (pos) != vec_end(vec); (pos)++)
/* The first of the `n` elements `e` of `array` for which `is_match` is true, or NULL. */
#define array_find(array, n, e, is_match)                                                   \
	({                                                                                  \
		__typeof__((array) + 0) array_found = NULL;                                 \
                                                                                            \
		for (size_t array_i = 0; array_found == NULL && array_i < (n); array_i++) { \
			__typeof__(array_found)(e) = &(array)[array_i];                     \
			if (is_match)                                                       \
				array_found = (e);                                          \
		}                                                                           \
		array_found;                                                                \
	})
#define array_has(array, n, e, is_match) (array_find(array, n, e, is_match) != NULL)
#define vec_find(vec, e, is_match) array_find((vec)->v, (vec)->n, e, is_match)
#define vec_has(vec, e, is_match) (vec_find(vec, e, is_match) != NULL)
/* Drop the elements `e` for which `is_kept` is false; it may read the element before `e` too. */
#define vec_keep(vec, e, is_kept)                            \
	do {                                                 \
		uint32_t vec_kept = 0;                       \
                                                             \
		vec_for_each (e, vec)                        \
			if (is_kept)                         \
				(vec)->v[vec_kept++] = *(e); \
		vec_cut(vec, vec_kept);                      \
	} while (0)
