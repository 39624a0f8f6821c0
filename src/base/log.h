/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/log - what an operator reads: `area: object: what happened: why`.
 *
 * One line to standard error, lower case, no full stop, with the journal's
 * priority prefix when standard error is the journal (JOURNAL_STREAM, systemd.exec(5)).
 * A blocked reader does not block vipd: lines are queued, then dropped and counted, and their
 * number is logged before the next line that is taken.
 *
 * Names and answers of servers may contain control and bidirectional characters and invalid UTF-8:
 * text has '?' instead, JSON an escape sequence.
 *
 * Repeated lines are limited in two ways:
 * - a call site has a bucket: LOG_BURST lines at once, then one per second;
 * - an unchanged text, from any call site, is logged
 *   LOG_SAME times, then after 1 minute, 2, 4 ... at most every hour, and counts as new if it
 *   did not occur for two hours. Not for INFO and DEBUG, which an operator has enabled.
 * The number of suppressed lines is logged: by the next line of its site that gets through, or by
 * log_tick(), in a separate line that names the site.
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

/* Values are those of syslog(3). */
enum log_level {
	LOG_LEVEL_ERR = 3,    /* vipd cannot serve */
	LOG_LEVEL_WARN = 4,   /* one object is not served as configured */
	LOG_LEVEL_NOTICE = 5, /* a state transition, once */
	LOG_LEVEL_INFO = 6,   /* one line per sync */
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
	LOG_AREA_HTTP,
	LOG_AREA_N,
};

#define LOG_BURST 10
#define LOG_SAME 5

/*
 * State of one call site's bucket. Static storage: a site with suppressed lines is in a list
 * until log_tick() has logged their number.
 */
struct log_site {
	struct log_site *next;
	const char *file;
	int line;
	uint64_t bucket_ns;
	uint64_t last_ns;     /* last suppressed line */
	uint64_t logged_ns;   /* last line of log_tick() about it */
	uint64_t log_wait_ns; /* pause before the next such line; increases */
	uint32_t suppressed;
	enum log_area area;
	enum log_level level;
	bool is_pending;
	char sample[80]; /* beginning of the last suppressed line */
};

enum log_format {
	LOG_FORMAT_TEXT = 0,
	LOG_FORMAT_JSON, /* one object a line, with klog's field names */
};

void log_format_set(enum log_format format);
/* Lines above `level` are not written. Default for all areas: NOTICE. */
void log_level_set(enum log_area area, enum log_level level);
void log_level_set_all(enum log_level level);
enum log_level log_level_get(enum log_area area);
const char *log_area_text(enum log_area area);
const char *log_level_text(enum log_level level);
/* -1 when unknown. */
int log_area_parse(const char *text);
int log_level_parse(const char *text);
/* Lines of this level since the start, logged or suppressed. */
uint64_t log_count(enum log_level level);
/* Suppressed lines of this area since the start. */
uint64_t log_suppressed(enum log_area area);
/* Lines dropped because of a full queue since the start. */
uint64_t log_dropped(void);
/* Before exit: log the suppressed lines, write the queue, wait shortly for a slow reader. */
void log_end(void);

/*
 * Log the number of suppressed lines of each site that was silent for LOG_QUIET_NS, and of one
 * that continues at growing intervals. Returns the time of the next call, as now_ns(), or 0: none
 * is needed.
 */
#define LOG_QUIET_NS (2 * NSEC_PER_SEC)
uint64_t log_tick(uint64_t now);
/* `call` arms a timer for log_tick(): a line was suppressed, or is queued. */
void log_on_pending(void (*call)(void *arg, uint64_t wait_ns), void *arg);

void log_line(struct log_site *site, enum log_area area, enum log_level level, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

#define log_at(area, level, ...)                                                          \
	do {                                                                              \
		static struct log_site log_here = { .file = __FILE__, .line = __LINE__ }; \
		log_line(&log_here, (area), (level), __VA_ARGS__);                        \
	} while (0)
#define log_err(area, ...) log_at((area), LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(area, ...) log_at((area), LOG_LEVEL_WARN, __VA_ARGS__)
#define log_notice(area, ...) log_at((area), LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(area, ...) log_at((area), LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(area, ...) log_at((area), LOG_LEVEL_DEBUG, __VA_ARGS__)
