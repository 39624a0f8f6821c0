/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/textfile - small files that somebody else replaces while we run.
 *
 * Tokens and certificates are rotated by writing a new file, or by turning a
 * symbolic link to it. A look costs one stat(); the file is read when that shows
 * another file, size or time than before.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"

struct textfile {
	char *path; /* owned */
	struct str text;
	bool is_read;     /* `text` is what the file held ... */
	struct stat seen; /* ... when it looked like this */
};

/* Whole contents; -EFBIG over `max` bytes, -errno. */
MUST_USE int textfile_read(struct str *ret, const char *path, size_t max, struct err *err);
/*
 * 1 when the contents are new, 0 when they are as before. On failure, and for an
 * empty file, which is one being written, the old contents stay.
 */
MUST_USE int textfile_look(struct textfile *f, size_t max, struct err *err);
void textfile_fini(struct textfile *f);
