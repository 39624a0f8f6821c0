/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cleanup/report - options of a cleanup, what was removed, one line per subsystem, and what is
 * left. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/ip.h"
#include "cleanup/owned.h"

/* The caller fills the first members; the others are 0. */
struct cleanup {
	const char *control_socket;
	bool is_running; /* a vipd holds the lock of this network namespace */
	bool is_forced;
	enum proxy proxy;
	/* Virtual services at these addresses stay: --ipvs-exclude-cidrs. Borrowed. */
	const struct ip_prefix *exclude;
	size_t n_exclude;
	FILE *out; /* one line per subsystem */

	size_t n_occupied; /* services of vipd that wait only for virtual services of the proxy */
	size_t n_handed_over;   /* virtual services that vipd took over */
	bool is_busy;           /* IPVS: connections are left, or vipd does not serve them yet */
	struct dsr_marks marks; /* of kube-router; owned */
	size_t n_removed;
	size_t n_left;
};

/* "iptables: removed 3 chains"; `n` is added to the total. */
#define report_removed(c, n, ...) report_line((c), &(c)->n_removed, (n), __VA_ARGS__)
/* "iptables: left: ip nat KUBE-MARK-MASQ: chain X uses it". */
#define report_left(c, ...) report_line((c), &(c)->n_left, 1, __VA_ARGS__)
void report_line(struct cleanup *c, size_t *counter, size_t n, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Print the chains that stay in a table, and the number of deleted ones; `how`: "legacy",
 * "nf_tables". */
void report_kept(struct cleanup *c, const char *how, const struct xt_table *t);
void report_counts(struct cleanup *c, const char *how, const struct xt_counts *counts);
/* 0: nothing is left of the proxy. */
MUST_USE int report_end(const struct cleanup *c, struct err *err);
