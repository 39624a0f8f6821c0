/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/err - text of an error.
 *
 * Functions return a negative errno. The function that fails sets the text, its callers prepend
 * context, and the caller that handles the error logs it once. The buffer is fixed: no allocation
 * on the error path. `err` may be NULL everywhere.
 */
#pragma once

#include "base/util.h"

#define ERR_TEXT_MAX 512

struct err {
	char text[ERR_TEXT_MAX]; /* always terminated; cut with "..." when too long */
};

/* Write the text and return `code` unchanged (a negative errno). */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Write the text and ": strerror(errno)"; return -errno. */
int err_errno(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Prepend "context: " to the text and return `code` unchanged. */
int err_wrap(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
