/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/err - format, wrap, and cut long texts visibly. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (err == NULL)
		return code;
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n >= ERR_TEXT_MAX)
		memcpy(err->text + ERR_TEXT_MAX - 4, "...", 4);
	return code;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int code = -errno;
	char what[ERR_TEXT_MAX];
	va_list ap;

	if (err == NULL)
		return code;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(err, code, "%s: %s", what, strerror(-code));
}

int err_wrap(struct err *err, int code, const char *fmt, ...)
{
	char inner[ERR_TEXT_MAX];
	char context[ERR_TEXT_MAX];
	va_list ap;

	if (err == NULL)
		return code;
	memcpy(inner, err->text, sizeof(inner));
	va_start(ap, fmt);
	(void)vsnprintf(context, sizeof(context), fmt, ap);
	va_end(ap);
	return err_set(err, code, "%s: %s", context, inner);
}
