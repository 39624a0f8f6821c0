/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source/files - a folder of Kubernetes manifests, watched.
 *
 *     files_open -> ready() once -> changed(), changed(), ... -> files_close
 *
 * Files named *.yaml, *.yml or *.json contain documents or lists of Service, EndpointSlice, Node
 * and ServiceCIDR. Other kinds are counted and skipped; hidden files, backup copies of editors and
 * subfolders are ignored. Documents are independent: an invalid one is reported with file and line,
 * and its last good version stays.
 *
 * A file is read when its writer closes it or renames it into place; the change reaches the model
 * in the same turn of the loop. The objects of a deleted file are removed 300 ms later, unless the
 * file exists again. The path may later lead to another folder, because a symbolic link
 * in it changes (ConfigMap volumes) or the folder is removed and created again. While the folder
 * does not exist, the model keeps its objects.
 *
 * Limits: FILES_FILE_MAX per file; CUT_DOCUMENT_MAX, YAML_DEPTH_MAX and YAML_COST_MAX per document
 * or list entry; limits of one object in model/object.h.
 */
#pragma once

#include <stdbool.h>

#include "model/model.h"

struct event_base;
struct files;
struct str;

#define FILES_FILE_MAX (256U << 20)

struct files_ops {
	/* Called once: the whole folder was read, and the model has every valid object. */
	void (*ready)(void *arg);
	/* The model was changed, or files_are_complete() became true, after ready(). */
	void (*changed)(void *arg);
	void *arg;
	bool is_strict; /* reject objects with unknown fields, instead of a note */
};

/* A present error or note. */
struct files_problem {
	const char *file; /* name in the folder; the folder itself: its path */
	uint32_t line;    /* 0: the file as a whole */
	bool is_error;    /* an object is not served as written; false: a part was skipped */
	const char *text; /* "Service shop/cart: spec.ports[2].port: ..." */
};

struct files_stats {
	size_t files;
	size_t objects; /* valid objects, shadowed ones included */
	size_t errors;  /* of files and of the folder */
	size_t notes;
	bool is_failing; /* the folder cannot be read */
	uint64_t reads;  /* files read since the start ... */
	uint64_t parsed; /* ... and pieces of text parsed for them */
};

/*
 * The first reading happens in turns of the loop. -errno when `dir` cannot be opened as a folder;
 * errors in its files are problems, not failures.
 * `base`, `m` and the ops' arg are borrowed until files_close().
 */
MUST_USE int files_open(struct files **ret, struct event_base *base, struct model *m,
			const char *dir, const struct files_ops *ops, struct err *err);
/* Accepts NULL. The model keeps what it has. */
void files_close(struct files *f);
DEFINE_AUTO(struct files *, files_close);

/* Read every file of the folder again in the next turns of the loop, changed or not. */
void files_read_again(struct files *f);
/*
 * Has the folder a manifest, and is some version of each of its objects known? Once true it stays
 * true: from then on last good versions replace unreadable ones, and an empty folder removes all
 * services. If false, `why` gets the first reason; `why` may be NULL.
 */
bool files_are_complete(const struct files *f, struct str *why);
/* Has the folder no manifest? */
bool files_are_none(const struct files *f);
/* Call `each` for the present problems, sorted by file and line. */
void files_problems(const struct files *f, void (*each)(void *arg, const struct files_problem *p),
		    void *arg);
void files_stats(const struct files *f, struct files_stats *ret);
