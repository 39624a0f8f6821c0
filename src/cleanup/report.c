/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup/report.h"

#include <errno.h>
#include <stdarg.h>

static void line(struct report *r, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void line(struct report *r, const char *fmt, va_list ap)
{
	(void)vfprintf(r->out, fmt, ap);
	(void)fputc('\n', r->out);
	(void)fflush(r->out);
}

void report_removed(struct report *r, size_t n, const char *fmt, ...)
{
	va_list ap;

	r->n_removed += n;
	va_start(ap, fmt);
	line(r, fmt, ap);
	va_end(ap);
}

void report_left(struct report *r, const char *fmt, ...)
{
	va_list ap;

	r->n_left++;
	va_start(ap, fmt);
	line(r, fmt, ap);
	va_end(ap);
}

int report_end(const struct report *r, struct err *err)
{
	if (r->n_left > 0)
		return err_set(err, -EBUSY, "%zu thing%s of kube-proxy's could not be removed",
			       r->n_left, r->n_left == 1 ? "" : "s");
	if (r->n_removed == 0)
		(void)fprintf(r->out, "nothing of kube-proxy's is here\n");
	return 0;
}
