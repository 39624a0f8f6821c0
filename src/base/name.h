/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/name - interned, counted strings.
 *
 * Node, zone, namespace and port names repeat in every object: each is stored
 * once, so equal names have equal pointers. NULL means absent and differs from
 * the empty name.
 */
#pragma once

#include <string.h>

#include "base/htable.h"

struct name {
	struct hnode node;
	uint32_t refs;
	uint32_t len;
	char text[]; /* terminated */
};

/* A reference to the one name with this text; the caller releases it. */
const struct name *name_get(const char *text, size_t len);
const struct name *name_get_str(const char *text);
/* One more reference to `n`. NULL yields NULL. */
const struct name *name_ref(const struct name *n);
/* Accepts NULL. */
void name_unref(const struct name *n);
/* The existing name, borrowed, or NULL: a look-up without creation. */
const struct name *name_find(const char *text, size_t len);
/* Number of names; tests check for leaks. */
size_t name_count(void);

static inline const char *name_text(const struct name *n)
{
	return n ? n->text : "";
}

/* Order by text; NULL comes first. */
static inline int name_cmp(const struct name *a, const struct name *b)
{
	if (a == b)
		return 0;
	if (a == NULL || b == NULL)
		return a == NULL ? -1 : 1;
	return strcmp(a->text, b->text);
}

/* Order of pairs such as a namespace and a name in it. */
static inline int name_pair_cmp(const struct name *a_ns, const struct name *a,
				const struct name *b_ns, const struct name *b)
{
	return name_cmp(a_ns, b_ns) ?: name_cmp(a, b);
}

/* Of the pair, in this order. Each may be NULL. */
static inline uint32_t name_pair_hash(const struct name *a, const struct name *b)
{
	/* Both are keyed hashes already; the factor keeps (a, b) and (b, a) apart. */
	return (a ? a->node.hash : 0) * UINT32_C(0x9e3779b1) + (b ? b->node.hash : 0);
}

/* Each may be NULL. */
static inline void name_pair_unref(const struct name *ns, const struct name *name)
{
	name_unref(ns);
	name_unref(name);
}
