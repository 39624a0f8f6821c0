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
	struct str list;   /* of names: list_add() */
	size_t n_listed;
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

/* The list of a check, "a, b, c and 4 more": at most `max` names, all are counted in n_listed. */
void list_add(struct results *r, size_t max, const char *name);
const char *list_text(struct results *r, size_t max); /* after the last name, once */

/* Run the checks that apply to the plane, in the order of the report. */
void check_all(json_t *report, const struct facts *f);
