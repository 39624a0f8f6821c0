/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/diff - what the kernel shall hold against what it does hold.
 *
 *     diff_want(&d, rows)        the items of /v1/rows
 *     diff_hold(&d, text)        lines of the kernel (plane/nft/held.h)
 *     diff_compare(&d)
 *     diff_print(&out, &d, ...)
 *
 * Pure. A line is "ADDRESS:PORT/PROTOCOL how it leads"; what stands for the same key on
 * both sides is compared word by word, but for "cluster-ip", which belongs to the address.
 * On the ipvs plane a backend that leaves is no difference: "leaving=ADDRESS:PORT/TIME", and
 * "ADDRESS:PORT=0" where nobody wants it; nor is a service that such backends alone keep.
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
	const char *key;
	const char *service; /* NULL: nobody's */
	const char *want;    /* NULL: the kernel should not have it */
	const char *held;    /* NULL: the kernel lacks it */
};

struct diff {
	VEC(struct diff_line) want;
	VEC(struct diff_line) held;
	VEC(struct diff_find) found; /* borrows from the lines */
	VEC(char *) owed;            /* services that wait for the kernel, and why */
	size_t n_incomplete;         /* services that changed while they were told */
};

/* Zeroed memory is empty. */
void diff_want(struct diff *d, const json_t *items);
void diff_hold(struct diff *d, char *text);
/* Lines that are wanted of no service: `whose` is told in its place. */
void diff_want_lines(struct diff *d, char *text, const char *whose);
void diff_compare(struct diff *d);
bool diff_is_empty(const struct diff *d);
void diff_print(struct str *out, const struct diff *d, const struct style *style);
json_t *diff_json(const struct diff *d);
void diff_fini(struct diff *d);
