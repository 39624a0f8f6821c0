/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fake/object - tables, chains, rules, sets, elements, and their undo. Objects keep the
 * attributes of their creation for dumps. Every change appends to a journal; a rollback walks it in
 * reverse.
 */
#pragma once

#include <libmnl/libmnl.h>

#include "base/htable.h"
#include "base/list.h"
#include "base/vec.h"

#define OBJ_NAME_MAX 64
#define ELEM_KEY_MAX 48

/* Attributes as they came: `len` bytes of a message. */
struct obj_attrs {
	uint8_t *bytes;
	size_t len;
};

struct elem {
	struct hnode node;
	struct list link;          /* in set.elems, in order of creation */
	uint8_t key[ELEM_KEY_MAX]; /* then the flags word if not 0 */
	uint8_t key_len;
	uint8_t data_len;
	uint32_t flags;
	uint8_t data[20];
	bool has_verdict;
	uint32_t verdict;
	char chain[OBJ_NAME_MAX];
	uint64_t packets; /* in a set whose elements count */
};

struct set {
	struct list link;
	char name[OBJ_NAME_MAX];
	uint32_t id; /* within the batch that makes it */
	uint32_t flags;
	uint32_t key_len;
	uint32_t data_type;
	uint32_t data_len;
	uint64_t handle;
	bool is_counting; /* its elements */
	struct obj_attrs attrs;
	struct htable index;
	struct list elems;
};

struct rule {
	struct list link;
	uint64_t handle;
	struct obj_attrs attrs;
};

struct chain {
	struct list link;
	char name[OBJ_NAME_MAX];
	uint64_t handle;
	struct obj_attrs attrs;
	struct list rules;
};

struct table {
	struct list link;
	uint8_t family;
	char name[OBJ_NAME_MAX];
	uint64_t handle;
	uint32_t flags;
	const void *owner; /* the connection; with NFT_TABLE_F_OWNER */
	struct obj_attrs attrs;
	struct list chains;
	struct list sets;
};

enum journal_kind {
	JOURNAL_ADDED = 0, /* undo: unlink and free */
	JOURNAL_DELETED,   /* undo: link again at its place; done: free */
	JOURNAL_FLAGS,     /* undo: the table's old flags */
};

enum object_kind {
	OBJECT_TABLE = 0,
	OBJECT_CHAIN,
	OBJECT_RULE,
	OBJECT_SET,
	OBJECT_ELEM,
};

struct journal_entry {
	enum journal_kind what;
	enum object_kind object;
	struct list *link;
	struct list *after; /* place of a deleted one */
	struct set *set;    /* of an element */
	uint32_t old_flags;
};

struct journal {
	VEC(struct journal_entry) v;
};

void journal_added(struct journal *j, enum object_kind kind, struct list *link, struct set *set);
/* Unlinks; the object stays until the journal ends. */
void journal_del(struct journal *j, enum object_kind kind, struct list *link, struct set *set);
void journal_flags(struct journal *j, struct table *t, uint32_t flags);
void journal_commit(struct journal *j);
void journal_rollback(struct journal *j);

void obj_attrs_set(struct obj_attrs *a, const struct nlmsghdr *h, size_t offset);
void table_free(struct table *t);
struct table *table_find(struct list *tables, uint8_t family, const char *name);
struct table *table_find_handle(struct list *tables, uint8_t family, uint64_t handle);
struct chain *chain_find(struct table *t, const char *name);
struct set *set_find(struct table *t, const char *name);
struct set *set_find_id(struct table *t, uint32_t id);
/* Identity of an element in its set: key, and whether it ends an interval. */
struct elem *elem_find(const struct set *s, const uint8_t *key, size_t key_len, uint32_t flags);
void elem_link(struct set *s, struct elem *e);
