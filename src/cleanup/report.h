/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/report - what was removed, one line per subsystem, and what is left. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/ip.h"
#include "cleanup/owned.h"

struct report {
	FILE *out;
	bool is_forced;
	enum proxy proxy;
	struct dsr_marks marks; /* of kube-router; owned */
	/* Virtual services at these addresses are not the proxy's. Borrowed. */
	const struct ip_prefix *exclude;
	size_t n_exclude;
	size_t n_removed;
	size_t n_left;
};

/* "iptables: removed 3 chains"; `n` is added to the total. */
#define report_removed(r, n, ...) report_line((r), &(r)->n_removed, (n), __VA_ARGS__)
/* "iptables: left: ip nat KUBE-MARK-MASQ: chain X uses it". */
#define report_left(r, ...) report_line((r), &(r)->n_left, 1, __VA_ARGS__)
void report_line(struct report *r, size_t *counter, size_t n, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Print the chains that stay in a table, and the number of deleted ones; `how`: "legacy",
 * "nf_tables". */
void report_kept(struct report *r, const char *how, const struct xt_table *t);
void report_counts(struct report *r, const char *how, const struct xt_counts *counts);
/* 0: nothing is left of the proxy. */
MUST_USE int report_end(const struct report *r, struct err *err);
