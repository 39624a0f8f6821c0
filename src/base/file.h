/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/file - small files: configuration, /proc and /sys. */
#pragma once

#include "base/str.h"

struct err;

/* Append the whole file; -EFBIG: more than `max` bytes, of which the first are in `ret`; -errno. */
MUST_USE int file_read(struct str *ret, const char *path, size_t max, struct err *err);
/* Write the text into a new or an existing file. */
MUST_USE int file_write(const char *path, const char *text, struct err *err);
/* The decimal number at the start of the file; -EINVAL: none. */
MUST_USE int file_read_number(uint64_t *ret, const char *path, struct err *err);
/* Write the number and a newline into an existing file. */
MUST_USE int file_write_number(const char *path, int64_t n, struct err *err);
