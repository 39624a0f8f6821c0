/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/checks - the checks: facts in, results with advice out. Pure.
 *
 * Each function adds at least one result. Private to doctor/.
 */
#pragma once

#include "base/str.h"
#include "doctor/check.h"
#include "doctor/facts.h"

/* checks_kernel.c */
void check_kernel(struct check_report *r, const struct facts *f);
void check_nftables(struct check_report *r, const struct facts *f);
/* checks_node.c */
void check_forwarding(struct check_report *r, const struct facts *f);
void check_rp_filter(struct check_report *r, const struct facts *f);
void check_localnet(struct check_report *r, const struct facts *f);
void check_bridge(struct check_report *r, const struct facts *f);
void check_conntrack(struct check_report *r, const struct facts *f);
void check_clock(struct check_report *r, const struct facts *f);
/* checks_self.c */
void check_capabilities(struct check_report *r, const struct facts *f);
void check_files(struct check_report *r, const struct facts *f);
void check_netlink(struct check_report *r, const struct facts *f);
void check_memory(struct check_report *r, const struct facts *f);
/* checks_owners.c */
void check_proxies(struct check_report *r, const struct facts *f);
void check_ipvs(struct check_report *r, const struct facts *f);
void check_addresses(struct check_report *r, const struct facts *f);
void check_tables(struct check_report *r, const struct facts *f);
void check_listeners(struct check_report *r, const struct facts *f);

/* checks_ipvs.c: for the ipvs plane only */
void check_ipvs_kernel(struct check_report *r, const struct facts *f);
void check_ipvs_routing(struct check_report *r, const struct facts *f);
void check_ipvs_sysctls(struct check_report *r, const struct facts *f);
void check_ipvs_input(struct check_report *r, const struct facts *f);
void check_ipvs_conns(struct check_report *r, const struct facts *f);

/* "a, b, c and 4 more": write at most `max` names, count all in `n`; the end adds the rest. */
void check_list_add(struct str *list, size_t *n, size_t max, const char *name);
void check_list_end(struct str *list, size_t n, size_t max);

/* Run the checks that apply to the plane, in the order of the report. */
void check_all(struct check_report *r, const struct facts *f);
