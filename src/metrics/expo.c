/* SPDX-License-Identifier: GPL-2.0-or-later */
/* metrics/expo - sample lines and histograms. */
#include "metrics/expo.h"

#include <inttypes.h>
#include <stdio.h>

#define US NSEC_PER_USEC
#define MS NSEC_PER_MSEC
#define S NSEC_PER_SEC
#define FIVE(n) (n), (n) << 1, (n) << 2, (n) << 3, (n) << 4
#define TEN(n, step)                                                                               \
	(n), (n) + (step), (n) + 2 * (step), (n) + 3 * (step), (n) + 4 * (step), (n) + 5 * (step), \
		(n) + 6 * (step), (n) + 7 * (step), (n) + 8 * (step), (n) + 9 * (step)

const uint64_t expo_log2[] = { FIVE(US), FIVE(US << 5), FIVE(US << 10), FIVE(US << 15),
			       US << 20, US << 21,      US << 22,       0 };
const uint64_t expo_e15[] = { FIVE(MS), FIVE(MS << 5), FIVE(MS << 10), 0 };
const uint64_t expo_npl[] = {
	250 * MS,       500 * MS,       TEN(1 * S, S),
	TEN(11 * S, S), TEN(21 * S, S), TEN(31 * S, S),
	TEN(41 * S, S), TEN(51 * S, S), TEN(65 * S, 5 * S),
	115 * S,        120 * S,        150 * S,
	180 * S,        210 * S,        240 * S,
	270 * S,        300 * S,        0,
};
_Static_assert(ARRAY_SIZE(expo_log2) == HIST_BUCKETS, "struct hist");
_Static_assert(ARRAY_SIZE(expo_e15) == 15 + 1, "E15");
_Static_assert(ARRAY_SIZE(expo_npl) == EXPO_BOUNDS_MAX + 1, "NPL");

void expo_hist_add(struct expo_hist *h, uint64_t ns)
{
	size_t i = 0;

	while (h->bounds[i] != 0 && ns > h->bounds[i])
		i++;
	h->buckets[i]++;
	h->count++;
	h->sum_ns += ns;
}

void expo_head(struct str *out, const char *name, const char *type, const char *help)
{
	str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void line_begin(struct str *out, const char *name, const char *labels)
{
	str_puts(out, name);
	if (labels != NULL)
		str_printf(out, "{%s}", labels);
	str_puts(out, " ");
}

void expo_uint(struct str *out, const char *name, const char *labels, uint64_t n)
{
	line_begin(out, name, labels);
	str_printf(out, "%" PRIu64 "\n", n);
}

/* Write the exact value, without trailing zeros: 0.001, 1.024, 60. */
static void seconds(struct str *out, uint64_t ns)
{
	char fraction[16];
	int n;

	str_printf(out, "%" PRIu64, ns / S);
	if (ns % S == 0)
		return;
	n = snprintf(fraction, sizeof(fraction), ".%09" PRIu64, ns % S);
	while (n > 0 && fraction[n - 1] == '0')
		n--;
	str_add(out, fraction, (size_t)n);
}

void expo_seconds(struct str *out, const char *name, const char *labels, uint64_t ns)
{
	line_begin(out, name, labels);
	seconds(out, ns);
	str_puts(out, "\n");
}

/* `n` values up to `ns`; 0: +Inf. */
static void bucket(struct str *out, const char *name, const char *labels, uint64_t ns, uint64_t n)
{
	str_printf(out, "%s_bucket{%s%sle=\"", name, labels ? labels : "", labels ? "," : "");
	if (ns == 0)
		str_puts(out, "+Inf");
	else
		seconds(out, ns);
	str_printf(out, "\"} %" PRIu64 "\n", n);
}

void expo_hist(struct str *out, const char *name, const char *labels, const struct expo_hist *h)
{
	uint64_t n = 0;
	size_t i = 0;

	do {
		n += h->buckets[i];
		bucket(out, name, labels, h->bounds[i], n);
	} while (h->bounds[i++] != 0);
	expo_seconds(out, str_local(128, "%s_sum", name), labels, h->sum_ns);
	expo_uint(out, str_local(128, "%s_count", name), labels, h->count);
}

void expo_label(struct str *labels, const char *name, const char *value)
{
	str_printf(labels, "%s%s=\"", labels->len > 0 ? "," : "", name);
	for (; *value != '\0'; value++) {
		if (*value == '\n')
			str_puts(labels, "\\n");
		else if (*value == '"' || *value == '\\')
			str_printf(labels, "\\%c", *value);
		else
			str_add(labels, value, 1);
	}
	str_puts(labels, "\"");
}
