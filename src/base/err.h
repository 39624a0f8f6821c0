/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/err - the text a human reads about a failure.
 *
 * The negative errno travels as the return value; the text is written where the
 * failure happens, context is put in front on the way up, and it is logged once,
 * at the boundary that turns it into a decision. A fixed buffer: nothing is
 * allocated on the error path. `err` may be NULL everywhere: then only the code
 * is wanted.
 */
#pragma once

#include "base/util.h"

#define ERR_TEXT_MAX 512

struct err {
	char text[ERR_TEXT_MAX]; /* always terminated; cut with "..." when too long */
};

/* Write the text and return `code` unchanged (a negative errno). */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same with errno: text ": strerror" is appended, -errno returned. */
int err_errno(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Put "context: " in front of what is there and return `code` unchanged. */
int err_wrap(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
