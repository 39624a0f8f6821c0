/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/log - what an operator reads: `area: object: what happened: why`.
 *
 * One line to standard error, lower case, no full stop, with the journal's
 * priority prefix when the journal listens (JOURNAL_STREAM, systemd.exec(5)).
 * A line that repeats passes a token bucket per call site: the number of
 * suppressed lines is told when it next gets through.
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

/* Values are those of syslog(3). */
enum log_level {
	LOG_LEVEL_ERR = 3,    /* we cannot do our job */
	LOG_LEVEL_WARN = 4,   /* one object is not served as asked */
	LOG_LEVEL_NOTICE = 5, /* a state transition, once */
	LOG_LEVEL_INFO = 6,   /* one line a sync */
	LOG_LEVEL_DEBUG = 7,
};

enum log_area {
	LOG_AREA_MAIN = 0,
	LOG_AREA_SOURCE,
	LOG_AREA_MODEL,
	LOG_AREA_PLAN,
	LOG_AREA_SYNC,
	LOG_AREA_NL,
	LOG_AREA_PLANE,
	LOG_AREA_CONNTRACK,
	LOG_AREA_SERVE,
	LOG_AREA_N,
};

/* State of one call site's bucket: up to 10 lines at once, one more a second. */
struct log_site {
	uint64_t refill_ns;
	uint32_t tokens;
	uint32_t suppressed;
};

/* Lines above `level` are not written. Default for all areas: NOTICE. */
void log_level_set(enum log_area area, enum log_level level);
void log_level_set_all(enum log_level level);
enum log_level log_level_get(enum log_area area);
const char *log_area_text(enum log_area area);
/* -1 when unknown. */
int log_area_parse(const char *text);
int log_level_parse(const char *text);
/* How many lines of this level were logged or suppressed since the start. */
uint64_t log_count(enum log_level level);

void log_line(struct log_site *site, enum log_area area, enum log_level level, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

#define log_at(area, level, ...)                                   \
	do {                                                       \
		static struct log_site log_here;                   \
		log_line(&log_here, (area), (level), __VA_ARGS__); \
	} while (0)
#define log_err(area, ...) log_at((area), LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(area, ...) log_at((area), LOG_LEVEL_WARN, __VA_ARGS__)
#define log_notice(area, ...) log_at((area), LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(area, ...) log_at((area), LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(area, ...) log_at((area), LOG_LEVEL_DEBUG, __VA_ARGS__)
