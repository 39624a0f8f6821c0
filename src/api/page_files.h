/* SPDX-License-Identifier: GPL-2.0-or-later */
/* api/page_files - the files of src/api/page/, converted by tools/embed. */
#pragma once

#include <stddef.h>

struct page_file {
	const char *name; /* "page.js" */
	const char *type; /* "text/javascript; charset=utf-8" */
	const char *data;
	size_t len;
};

extern const struct page_file page_files[];
extern const size_t page_n_files;
