/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/log - levels per area, a token bucket per call site. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKET_LINES 10

static enum log_level levels[LOG_AREA_N] = {
	LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE,
	LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE, LOG_LEVEL_NOTICE,
};
static uint64_t counts[LOG_LEVEL_DEBUG + 1];

static const char *const area_names[LOG_AREA_N] = {
	"main", "source", "model", "plan", "sync", "nl", "plane", "conntrack", "serve",
};

static const char *const level_names[LOG_LEVEL_DEBUG + 1] = {
	"emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
};

void log_level_set(enum log_area area, enum log_level level)
{
	levels[area] = level;
}

void log_level_set_all(enum log_level level)
{
	for (int i = 0; i < LOG_AREA_N; i++)
		levels[i] = level;
}

enum log_level log_level_get(enum log_area area)
{
	return levels[area];
}

const char *log_area_text(enum log_area area)
{
	return area_names[area];
}

int log_area_parse(const char *text)
{
	for (int i = 0; i < LOG_AREA_N; i++)
		if (strcmp(text, area_names[i]) == 0)
			return i;
	return -1;
}

int log_level_parse(const char *text)
{
	for (int i = LOG_LEVEL_ERR; i <= LOG_LEVEL_DEBUG; i++)
		if (strcmp(text, level_names[i]) == 0)
			return i;
	return -1;
}

uint64_t log_count(enum log_level level)
{
	return counts[level];
}

static bool bucket_take(struct log_site *site)
{
	uint64_t now = now_ns();

	if (site->refill_ns == 0) {
		site->refill_ns = now;
		site->tokens = BUCKET_LINES;
	}
	while (site->tokens < BUCKET_LINES && now - site->refill_ns >= NSEC_PER_SEC) {
		site->refill_ns += NSEC_PER_SEC;
		site->tokens++;
	}
	if (site->tokens == BUCKET_LINES)
		site->refill_ns = now;
	if (site->tokens == 0) {
		site->suppressed++;
		return false;
	}
	site->tokens--;
	return true;
}

/* "<4>" for the journal, time and level for people. */
static int prefix(char *buf, size_t size, enum log_level level)
{
	static int is_journal = -1;
	struct timespec ts;
	struct tm tm;

	if (is_journal == -1)
		is_journal = getenv("JOURNAL_STREAM") != NULL && !isatty(STDERR_FILENO);
	if (is_journal)
		return snprintf(buf, size, "<%d>", (int)level);
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	return snprintf(buf, size, "%02d:%02d:%02d.%03ld %-6s ", tm.tm_hour, tm.tm_min, tm.tm_sec,
			ts.tv_nsec / 1000000, level_names[level]);
}

void log_line(struct log_site *site, enum log_area area, enum log_level level, const char *fmt, ...)
{
	char line[2048];
	size_t len;
	va_list ap;
	int n;

	if (level > levels[area])
		return;
	counts[level]++;
	if (!bucket_take(site))
		return;
	len = (size_t)prefix(line, sizeof(line), level);
	len += (size_t)snprintf(line + len, sizeof(line) - len, "%s: ", area_names[area]);
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	va_end(ap);
	len = MIN(len + (size_t)(n > 0 ? n : 0), sizeof(line) - 64);
	for (size_t i = 0; i < len; i++) /* one event, one line, whatever a name contains */
		if ((unsigned char)line[i] < 0x20)
			line[i] = '?';
	if (site->suppressed > 0) {
		len += (size_t)snprintf(line + len, sizeof(line) - len, " (%u like it not shown)",
					site->suppressed);
		site->suppressed = 0;
	}
	line[len++] = '\n';
	(void)!write(STDERR_FILENO, line, len);
}
