/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * doctor/checks - the checks: facts in, results with advice out. Pure.
 *
 * Private to doctor/.
 */
#pragma once

#include "base/str.h"
#include "doctor/check.h"
#include "doctor/facts.h"

/* The results of one check. */
struct results {
	json_t *report;
	const char *check; /* its name */
	size_t before;     /* results of earlier checks in the report */
};

/* Add a result: check_add() of this check. */
#define found(r, level, advice, ...) \
	check_add((r)->report, (r)->check, (level), (advice), __VA_ARGS__)
#define found_ok(r, ...) found((r), CHECK_OK, NULL, __VA_ARGS__)

static inline bool has_result(const struct results *r)
{
	return json_array_size(r->report) > r->before;
}

/* checks_owners.c; each adds at least one result. */
void check_proxies(struct results *r, const struct facts *f);
void check_ipvs(struct results *r, const struct facts *f);
void check_addresses(struct results *r, const struct facts *f);
void check_tables(struct results *r, const struct facts *f);
void check_listeners(struct results *r, const struct facts *f);

/* "a, b, c and 4 more": write at most `max` names, count all in `n`; the end adds the rest. */
void check_list_add(struct str *list, size_t *n, size_t max, const char *name);
void check_list_end(struct str *list, size_t n, size_t max);

/* Run the checks that apply to the plane, in the order of the report. */
void check_all(json_t *report, const struct facts *f);
