/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/diff - compare desired frontends with programmed ones.
 *
 *     diff_desired(&d, rows)     the items of /v1/rows
 *     diff_lines(&d, text, NULL) lines of the kernel (plane/nft/programmed.h)
 *     diff_compare(&d)
 *     diff_print(&out, &d, ...)
 *
 * Pure. A line is "ADDRESS:PORT/PROTOCOL TARGET"; lines with equal keys are compared word by word,
 * except "cluster-ip", which belongs to the address. On the ipvs plane draining backends are not a
 * difference ("draining=ADDRESS:PORT/TIME", and "ADDRESS:PORT=0" if not desired); neither is a
 * virtual service that has only draining backends.
 */
#pragma once

#include <jansson.h>

#include "ctl/table.h"

struct diff_line {
	char *key;
	char *text;
	char *service; /* NAMESPACE/NAME; NULL on the kernel's side */
};

struct diff_find {
	const struct diff_line *line;       /* one of them */
	const struct diff_line *desired;    /* NULL: the kernel should not have it */
	const struct diff_line *programmed; /* NULL: the kernel lacks it */
};

struct diff {
	VEC(struct diff_line) desired;
	VEC(struct diff_line) programmed;
	VEC(struct diff_find) found; /* borrows from the lines */
	VEC(char *) pending;         /* pending services, with reasons */
	size_t n_incomplete;         /* services that changed while they were read */
};

/* Zeroed memory is empty. */
void diff_desired(struct diff *d, const json_t *items);
/* Desired lines of `owner`: a service, or what is shown in place of one. NULL: programmed lines. */
void diff_lines(struct diff *d, char *text, const char *owner);
void diff_compare(struct diff *d);
bool diff_is_empty(const struct diff *d);
void diff_print(struct str *out, const struct diff *d, const struct style *style);
json_t *diff_json(const struct diff *d);
void diff_fini(struct diff *d);
