/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/textfile - small files that other programs replace at run time.
 *
 * Tokens and certificates are rotated by a new file or by a changed symbolic link. A check costs
 * one stat(); the file is read when device, inode, size or modification time have changed.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"

struct textfile {
	char *path; /* owned */
	struct str text;
	bool is_read;     /* `text` is the content of the file ... */
	struct stat seen; /* ... with this status */
};

/*
 * 1: content changed; 0: unchanged. On failure, and for an empty file (another program is writing
 * it), the previous content stays.
 */
MUST_USE int textfile_check(struct textfile *f, size_t max, struct err *err);
void textfile_fini(struct textfile *f);
