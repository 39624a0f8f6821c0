/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/legacy - kube-proxy's chains and rules in iptables-legacy tables.
 *
 * /proc/net/ip_tables_names lists the existing tables. The kernel replaces a table as a whole, so
 * iptables-legacy-save and iptables-legacy-restore are used, one restore per family; each table is
 * all or nothing.
 */
#pragma once

#include "cleanup/owned.h"
#include "cleanup/report.h"

MUST_USE int cleanup_iptables_legacy(struct cleanup *c, struct err *err);

/* --- for tests ---------------------------------------------------------------------- */

/*
 * Run a program with a text as input; appends its output to `out`. Returns 0; -ENOENT: no such
 * program in PATH; -EIO: the program failed, its error output is in `err`; another -errno.
 */
MUST_USE int child_run(struct str *out, const char *const argv[], const char *in, struct err *err);
/* Fill the table whose name is set from the output of iptables-save. */
void legacy_parse(struct xt_table *t, const char *saved);
/* Append the input of iptables-restore --noflush; nothing without marked rules and chains. */
void legacy_print(struct str *out, const struct xt_table *t);
