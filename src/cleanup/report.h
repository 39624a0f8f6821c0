/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/report - what was removed, one line per subsystem, and what is left. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "cleanup/owned.h"

struct report {
	FILE *out;
	bool is_forced;
	enum proxy proxy;
	struct dsr_marks marks; /* of kube-router; owned */
	size_t n_removed;
	size_t n_left;
};

/* "iptables: removed 3 chains"; `n` is added to the total. */
void report_removed(struct report *r, size_t n, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* "iptables: left: ip nat KUBE-MARK-MASQ: chain X uses it". */
void report_left(struct report *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Print the chains that stay in a table, and the number of deleted ones; `how`: "legacy",
 * "nf_tables". */
void report_kept(struct report *r, const char *how, const struct xt_table *t);
void report_counts(struct report *r, const char *how, const struct xt_counts *counts);
/* 0: nothing is left of the proxy. */
MUST_USE int report_end(const struct report *r, struct err *err);
