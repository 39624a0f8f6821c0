/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/legacy - what of kube-proxy's is in the tables of iptables-legacy.
 *
 * The kernel says itself which of these tables it has (/proc/net/ip_tables_names). They can
 * be changed only as a whole, so iptables-legacy-save and -restore do that: as children, one
 * restore a family, all or nothing a table.
 */
#pragma once

#include "cleanup/owned.h"
#include "cleanup/report.h"

MUST_USE int cleanup_iptables_legacy(struct report *report, struct err *err);

/* --- for tests ---------------------------------------------------------------------- */

/* Fill the table whose name is set from the output of iptables-save. */
void legacy_parse(struct xt_table *t, const char *saved);
/* What iptables-restore --noflush is to read; nothing when nothing is marked. */
void legacy_print(struct str *out, const struct xt_table *t);
