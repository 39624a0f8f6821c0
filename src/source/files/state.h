/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/state - the objects in a folder of manifests, and which of them the model has.
 *
 *     state_file_read(), state_file_failed(), state_file_gone() ... -> state_apply()
 *
 * For each file: its units in order, and an entry for every object that was ever readable in it.
 * Which version of an object counts: doc/design/0004-manifests.md, section of that name.
 *
 * The model changes only in state_apply(), so an object that moves from one file to another never
 * disappears from the model.
 */
#pragma once

#include <stdint.h>

#include "model/model.h"
#include "source/files/files.h"
#include "source/files/manifest.h"

struct entry;
struct state;

/* Identity of a file's content, from fstat(2), without reading it. */
struct file_stamp {
	uint64_t dev;
	uint64_t ino;
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns;
};
_Static_assert(sizeof(struct file_stamp) == 40, "compared as raw bytes");

struct file {
	struct hnode node;
	struct list dirty;   /* the owner's queue of files to be read */
	struct list missing; /* the owner's list; while linked, other files have precedence */
	struct list listed;  /* while incomplete, or with problems or notes */
	uint64_t missing_ns; /* since then, now_ns() */
	char *name;
	char *shown;             /* the name with control characters replaced, for logs */
	struct file_stamp stamp; /* of the version read last; zeroed: none */
	uint64_t put_off_ns;     /* since then not read: a process has it open; 0 = read */
	bool is_known;           /* a version without unreadable units was read */
	bool is_racy; /* written so shortly before the read that the stamp is not sufficient */
	bool is_seen; /* set by the scan of the folder */
	bool is_link;
	char *failure; /* why the file cannot be read, or NULL */
	VEC(struct unit) units;
	/* By unit, in order of the text; then those not in the text while a unit is unreadable. */
	VEC(struct entry *) entries;
	VEC(struct manifest_problem) problems;
	size_t n_problems_lost;
	uint32_t n_shadowed; /* of the entries */
	uint32_t n_unknown;  /* of the entries */
	size_t n_others;     /* objects of kinds that are not read */
	char other[64];      /* a kind that is not read, for display */
};

void state_open(struct state **ret, struct model *m);
/* Accepts NULL. The model keeps its objects. */
void state_close(struct state *s);

struct file *state_file_find(const struct state *s, const char *name);
/* The file, created if it is new. */
struct file *state_file_get(struct state *s, const char *name);
/* All files sorted by name; the caller frees the array. */
struct file **state_files(const struct state *s, size_t *n);

/* `f` was read to its end: takes the pieces out of `m`. New problems are logged. */
void state_file_read(struct state *s, struct file *f, struct manifest *m);
/* `f` cannot be read, for the reason `why`; its objects stay. `why` NULL: it can be read again. */
void state_file_failed(struct state *s, struct file *f, const char *why);
/* `f` was linked to or unlinked from the list of missing files. */
void state_file_recheck(struct state *s, const struct file *f);
/* `f` was removed; frees it. */
void state_file_gone(struct state *s, struct file *f);

/* A reading of `f` begins; an earlier one that did not end is given up. */
void state_reading_begin(struct state *s, const struct file *f);
/* manifest_ops.known for this file. */
uint32_t state_unit_known(struct state *s, const struct file *f, uint64_t hash);

/*
 * Is there a file, and is every object of the folder known in some version? If not, `why` gets the
 * first reason: "web.yaml:14: ...".
 */
bool state_is_complete(const struct state *s, struct str *why);
bool state_is_empty(const struct state *s); /* no files */

/* True: the model has changed. */
bool state_apply(struct state *s, uint64_t at_ns);

void state_problems(const struct state *s, void (*each)(void *arg, const struct files_problem *p),
		    void *arg);
/* Fill the numbers of the objects in a zeroed `ret`. */
void state_stats(const struct state *s, struct files_stats *ret);
