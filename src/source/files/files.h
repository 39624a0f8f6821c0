/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/files - a folder of Kubernetes manifests, watched.
 *
 *     files_open -> ready() once -> changed(), changed(), ... -> files_close
 *
 * Files named *.yaml, *.yml or *.json contain documents or lists of Service, EndpointSlice, Node
 * and ServiceCIDR; other kinds are counted and skipped, and so are hidden files, editors' copies
 * and subfolders. Each document counts alone: an invalid one is reported with its file and line,
 * and its last good version stays.
 *
 * A file is read when its writer closes it or renames it into place; the change reaches the model
 * in the same turn of the loop. The path may lead to another folder later: a symbolic link on the
 * way changes, as in ConfigMap volumes, or the folder is removed and created again. While there is
 * no folder, the model keeps its objects.
 *
 * Limits: FILES_FILE_MAX a file; CUT_DOCUMENT_MAX, YAML_DEPTH_MAX, YAML_COST_MAX
 * a document or list entry; object.h's what one object may hold.
 */
#pragma once

#include <stdbool.h>

#include "model/model.h"

struct event_base;
struct files;
struct str;

#define FILES_FILE_MAX (256U << 20)

struct files_ops {
	/* Once: the whole folder was read, and the model has every valid object. */
	void (*ready)(void *arg);
	/* The model was changed, or files_are_complete() became true, after ready(). */
	void (*changed)(void *arg);
	void *arg;
	bool is_strict; /* reject objects with unknown fields, instead of a note */
};

/* An error or a note, as long as it lasts. */
struct files_problem {
	const char *file; /* name in the folder; the folder itself: its path */
	uint32_t line;    /* 0: the file as a whole */
	bool is_error;    /* an object is not served as written; else a part was skipped */
	const char *text; /* "Service shop/cart: spec.ports[2].port: ..." */
};

struct files_stats {
	size_t files;
	size_t objects; /* good ones, shadowed ones included */
	size_t errors;
	size_t notes;
	uint64_t reads;  /* files read since the start ... */
	uint64_t parsed; /* ... and pieces of text that had to be parsed for it */
};

/*
 * The first reading happens in turns of the loop. -errno when `dir` cannot be
 * opened as a folder; anything wrong inside is a problem, not a failure.
 * `base`, `m` and the ops' arg are borrowed until files_close().
 */
MUST_USE int files_open(struct files **ret, struct event_base *base, struct model *m,
			const char *dir, const struct files_ops *ops, struct err *err);
/* Accepts NULL. The model keeps what it has. */
void files_close(struct files *f);
DEFINE_AUTO(struct files *, files_close);

/* Read every file of the folder again in the next turns of the loop, changed or not. */
void files_read_again(struct files *f);
bool files_are_ready(const struct files *f);
/*
 * Is some version of every object of the folder known? Once true it stays true: from then on
 * last good versions replace what cannot be read. `why` gets the first reason, if not; NULL:
 * the answer alone, at no cost.
 */
bool files_are_complete(const struct files *f, struct str *why);
/* What is wrong now, sorted by file and line; returns how many. `each` may be NULL. */
size_t files_problems(const struct files *f, void (*each)(void *arg, const struct files_problem *p),
		      void *arg);
void files_stats(const struct files *f, struct files_stats *ret);
