/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/top - the busiest services and endpoints, from two samples of /v1/counts.
 *
 *     top_feed(&t, counts, status)     a sample; the one before gives the rates
 *     top_lines(&t, width, height)     the screen, line by line
 *     top_key(&t, key)                 a key: order, view, position
 *
 * Pure: no terminal, no clock; run_top.c has those.
 */
#pragma once

#include <jansson.h>

#include "base/str.h"
#include "base/vec.h"

enum top_sort {
	TOP_BY_RATE = 0,
	TOP_BY_TOTAL,
	TOP_BY_REJECTED,
	TOP_BY_NAME,
};

struct top_row {
	char *name;     /* NAMESPACE/NAME */
	char *endpoint; /* NULL: the service itself */
	/* Negative: unknown. */
	json_int_t total; /* connection attempts, or connections of the endpoint */
	json_int_t rejected;
	double rate; /* a second */
	double rejected_rate;
};

struct top {
	json_t *before; /* counts: the sample before the last one */
	json_t *counts;
	json_t *status_before;
	json_t *status;
	VEC(struct top_row) rows;
	bool shows_endpoints;
	enum top_sort sort;
	bool is_batch; /* not on a terminal: no keys, no empty lines */
	size_t first;  /* row on top of the list */
};

/* Zeroed memory has no sample. Takes both values. */
void top_feed(struct top *t, json_t *counts, json_t *status);
/* True: the key ends the program. */
bool top_key(struct top *t, int key, size_t height);
/* `height` lines, none longer than `width`, each ended by a newline. */
void top_lines(struct str *out, struct top *t, size_t width, size_t height);
void top_fini(struct top *t);
