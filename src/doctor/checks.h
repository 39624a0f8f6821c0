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

/* checks_owners.c */
void check_proxies(json_t *r, const struct facts *f);
void check_ipvs(json_t *r, const struct facts *f);
void check_addresses(json_t *r, const struct facts *f);
void check_tables(json_t *r, const struct facts *f);
void check_listeners(json_t *r, const struct facts *f);

/* "a, b, c and 4 more": write at most `max` names, count all in `n`; the end adds the rest. */
void check_list_add(struct str *list, size_t *n, size_t max, const char *name);
void check_list_end(struct str *list, size_t n, size_t max);

/* Run the checks that apply to the plane, in the order of the report. */
void check_all(json_t *r, const struct facts *f);
