/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup/report.h"

#include <errno.h>
#include <stdarg.h>

void report_line(struct report *r, size_t *counter, size_t n, const char *fmt, ...)
{
	va_list ap;

	*counter += n;
	va_start(ap, fmt);
	(void)vfprintf(r->out, fmt, ap);
	va_end(ap);
	(void)fputc('\n', r->out);
	(void)fflush(r->out);
}

void report_kept(struct report *r, const char *how, const struct xt_table *t)
{
	vec_for_each (k, &t->kept)
		report_left(r, "iptables (%s): left: %s %s %s: %s", how, t->family, t->name,
			    k->chain, k->why.text);
}

void report_counts(struct report *r, const char *how, const struct xt_counts *counts)
{
	size_t n = counts->n_chains + counts->n_jumps + counts->n_strays;
	char strays[48] = "";

	if (counts->n_strays > 0)
		(void)snprintf(strays, sizeof(strays), ", %zu other rules", counts->n_strays);
	if (n > 0)
		report_removed(r, n,
			       "iptables (%s): removed %zu chains, %zu rules in them, %zu jumps to "
			       "them%s",
			       how, counts->n_chains, counts->n_rules, counts->n_jumps, strays);
}

int report_end(const struct report *r, struct err *err)
{
	if (r->n_left > 0)
		return err_set(err, -EBUSY, "%zu object%s of %s could not be removed", r->n_left,
			       r->n_left == 1 ? "" : "s", proxy_name(r->proxy));
	if (r->n_removed == 0)
		(void)fprintf(r->out, "no state of %s found\n", proxy_name(r->proxy));
	return 0;
}
