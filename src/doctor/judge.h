/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/judge - from facts to results, each with what to do. Pure.
 *
 * Every function adds at least one result; those of the ipvs plane are for it alone. Private to
 * doctor/.
 */
#pragma once

#include "base/str.h"
#include "doctor/check.h"
#include "doctor/facts.h"

/* judge_kernel.c */
void judge_kernel(struct check_report *r, const struct facts *f);
void judge_nftables(struct check_report *r, const struct facts *f);
/* judge_node.c */
void judge_forwarding(struct check_report *r, const struct facts *f);
void judge_rp_filter(struct check_report *r, const struct facts *f);
void judge_localnet(struct check_report *r, const struct facts *f);
void judge_bridge(struct check_report *r, const struct facts *f);
void judge_conntrack(struct check_report *r, const struct facts *f);
void judge_clock(struct check_report *r, const struct facts *f);
/* judge_self.c */
void judge_capabilities(struct check_report *r, const struct facts *f);
void judge_files(struct check_report *r, const struct facts *f);
void judge_netlink(struct check_report *r, const struct facts *f);
void judge_memory(struct check_report *r, const struct facts *f);
/* judge_owners.c */
void judge_proxies(struct check_report *r, const struct facts *f);
void judge_ipvs(struct check_report *r, const struct facts *f);
void judge_addresses(struct check_report *r, const struct facts *f);
void judge_tables(struct check_report *r, const struct facts *f);
void judge_listeners(struct check_report *r, const struct facts *f);

/* judge_ipvs.c: for the ipvs plane only */
void judge_ipvs_kernel(struct check_report *r, const struct facts *f);
void judge_ipvs_routing(struct check_report *r, const struct facts *f);
void judge_ipvs_sysctls(struct check_report *r, const struct facts *f);
void judge_ipvs_input(struct check_report *r, const struct facts *f);
void judge_ipvs_conns(struct check_report *r, const struct facts *f);

/*
 * "a, b, c and 4 more": names are added one by one, of which `max` are written, and counted
 * in `n`; the end tells of the rest.
 */
void judge_list_add(struct str *list, size_t *n, size_t max, const char *name);
void judge_list_end(struct str *list, size_t n, size_t max);

/* All of them that are about the plane in question, in the order they are shown. */
void judge_all(struct check_report *r, const struct facts *f);
