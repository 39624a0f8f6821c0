/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/entry - an object in a file, and the state of its last good version.
 *
 * Private to source/files/. state.c chooses among versions, merge.c reads new text.
 */
#pragma once

#include "source/files/state.h"

enum entry_flags {
	ENTRY_HAS_GOOD = 1 << 0, /* there is a valid version: `obj`, unless it is ignored */
	ENTRY_IGNORED = 1 << 1,  /* vipd does not use that version */
	ENTRY_BAD = 1 << 2,      /* the current text is invalid */
	ENTRY_APPLIED = 1 << 3,  /* the model has the good version */
	ENTRY_SHADOWED = 1 << 4, /* another version is used; logged */
	ENTRY_MOVED = 1 << 5,    /* during a reading: found in the new version */
	ENTRY_UNKNOWN = 1 << 6,  /* no valid version is known, of any file */
};

/* Of one object in a file, so that work does not grow with the square of their number. */
#define ENTRIES_SAME_MAX 100

struct key {
	enum object_kind kind;
	const struct name *ns; /* references; NULL for kinds without a namespace */
	const struct name *name;
};

struct entry {
	struct hnode node; /* in state.entries, by key */
	struct file *file;
	struct key key;
	struct object obj; /* shared with the model while it is applied */
	uint8_t flags;
	uint32_t unit; /* UINT32_MAX: not in the text */
	uint32_t line; /* counted from the unit's first */
	uint32_t pos;  /* position in the file: the first entry of a key is used */
};

/* A unit of the last version of the file that is being read. */
struct unit_ref {
	struct hnode node; /* in state.last_units, by hash */
	uint32_t unit;
};

struct state {
	struct model *model;
	struct htable files;
	struct list listed; /* of struct file: incomplete, or with problems or notes */
	struct htable entries;
	VEC(struct key) changed;        /* for state_apply() */
	struct htable last_units;       /* not found in the version being read */
	VEC(struct unit_ref) unit_refs; /* its elements */
	bool is_closing;
};

struct entry *entry_new(struct state *s, struct file *f, const struct piece *p);
void entry_free(struct state *s, struct entry *e);
/*
 * The first entry of `f` with this key that the new version has not taken over yet. `n` gets the
 * number of entries of `f` with this key.
 */
struct entry *entry_find_old(const struct state *s, const struct file *f, const struct piece *p,
			     size_t *n);

/* Link `f` to state.listed, or unlink it. */
void file_listed_update(struct state *s, struct file *f);
/* state_apply() must check the entries of this key. */
void entry_key_changed(struct state *s, const struct key *k);
