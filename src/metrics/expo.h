/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * metrics/expo - Prometheus exposition format 0.0.4, and histograms.
 *
 *     expo_head(out, "vipd_services", "gauge", "Service objects received");
 *     expo_uint(out, "vipd_services", NULL, 17);
 *     expo_hist(out, "vipd_x_seconds", "ip_family=\"IPv4\"", &h);
 *
 * Labels are written as given, or NULL; expo_label() makes them.
 * Bounds are nanoseconds, written as seconds.
 */
#pragma once

#include "base/hist.h"
#include "base/str.h"

/* Bounds: ascending, inclusive; the last one is 0, for +Inf. Section 13 of doc/behaviour.md. */
extern const uint64_t expo_log2[]; /* of struct hist, which counts values below them */
extern const uint64_t expo_e15[];  /* 1 ms doubled fourteen times */
extern const uint64_t expo_npl[];  /* a quarter of a second to five minutes */

#define EXPO_BOUNDS_MAX 80

/* Empty when zeroed except `bounds`. */
struct expo_hist {
	const uint64_t *bounds;
	uint64_t buckets[EXPO_BOUNDS_MAX + 1];
	uint64_t count;
	uint64_t sum_ns;
};

void expo_hist_add(struct expo_hist *h, uint64_t ns);

void expo_head(struct str *out, const char *name, const char *type, const char *help);
void expo_uint(struct str *out, const char *name, const char *labels, uint64_t n);
/* Write nanoseconds as seconds. */
void expo_seconds(struct str *out, const char *name, const char *labels, uint64_t ns);
void expo_hist(struct str *out, const char *name, const char *labels, const struct expo_hist *h);
/* Append name="value", with backslashes, quotes and line ends escaped. */
void expo_label(struct str *labels, const char *name, const char *value);
