/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup/parts.h"

#include <errno.h>
#include <stdarg.h>

#include "nft/sets.h"

void report_line(struct cleanup *c, size_t *counter, size_t n, const char *fmt, ...)
{
	va_list ap;

	*counter += n;
	va_start(ap, fmt);
	(void)vfprintf(c->out, fmt, ap);
	va_end(ap);
	(void)fputc('\n', c->out);
	(void)fflush(c->out);
}

void report_kept(struct cleanup *c, const char *how, const struct xt_table *t)
{
	vec_for_each (k, &t->kept)
		report_left(c, "iptables (%s): left: %s %s %s: %s", how, nft_fam_text(t->fam),
			    t->name, k->chain, k->why);
}

void report_counts(struct cleanup *c, const char *how, const struct xt_counts *counts)
{
	size_t n = counts->n_chains + counts->n_jumps + counts->n_strays;

	if (n > 0)
		report_removed(c, n,
			       "iptables (%s): removed %zu chains, %zu rules in them, %zu jumps to "
			       "them%s",
			       how, counts->n_chains, counts->n_rules, counts->n_jumps,
			       counts->n_strays > 0
				       ? str_local(48, ", %zu other rules", counts->n_strays)
				       : "");
}

int report_end(const struct cleanup *c, struct err *err)
{
	if (c->n_left > 0)
		return err_set(err, -EBUSY, "%zu object%s of %s could not be removed", c->n_left,
			       c->n_left == 1 ? "" : "s", proxy_name(c->proxy));
	if (c->n_removed == 0)
		(void)fprintf(c->out, "no state of %s found\n", proxy_name(c->proxy));
	return 0;
}
