/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/log_record - a bounded writer, and the two forms of a record. */
#include "base/log_record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"

#define VALUE_MAX 1800 /* bytes of one JSON text, escape sequences included: a record has two */

struct out {
	char *at;
	char *end; /* followed by room for the newline */
};

static void out_add(struct out *o, const char *data, size_t len)
{
	len = MIN(len, (size_t)(o->end - o->at));
	memcpy(o->at, data, len);
	o->at += len;
}

static void out_printf(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void out_printf(struct out *o, const char *fmt, ...)
{
	char buf[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n > 0)
		out_add(o, buf, MIN((size_t)n, sizeof(buf) - 1));
}

static void text_put(struct out *o, const char *text)
{
	size_t len;

	for (; *text != '\0'; text += len)
		if (str_is_control(str_char(text, &len)))
			out_add(o, "?", 1);
		else
			out_add(o, text, len);
}

/* Write without quotes; a character that does not fit before `end` ends the text. */
static void json_put(struct out *o, const char *text, const char *end)
{
	char buf[8];
	size_t len;

	for (; *text != '\0'; text += len) {
		int32_t c = str_char(text, &len);
		const char *data = text;
		size_t n = len;

		if (c == '"' || c == '\\') {
			n = (size_t)snprintf(buf, sizeof(buf), "\\%c", c);
			data = buf;
		} else if (str_is_control(c)) {
			n = (size_t)snprintf(buf, sizeof(buf), "\\u%04x",
					     c < 0 ? 0xfffd : (unsigned int)c);
			data = buf;
		}
		if (n > (size_t)(end - o->at))
			return;
		out_add(o, data, n);
	}
}

static void json_member(struct out *o, const char *key, const char *text, const char *tail)
{
	const char *end = o->at + VALUE_MAX;

	out_printf(o, ",\"%s\":\"", key);
	json_put(o, text, end);
	json_put(o, tail, end);
	out_add(o, "\"", 1);
}

/* "http/http.c" of "../src/http/http.c". */
static const char *short_path(const char *path)
{
	const char *at = path + strlen(path);

	for (int slashes = 0; at > path; at--)
		if (at[-1] == '/' && ++slashes == 2)
			break;
	return at;
}

static size_t out_end(char *ret, struct out *o)
{
	*o->at++ = '\n';
	return (size_t)(o->at - ret);
}

size_t log_record_text(char ret[LOG_RECORD_MAX], const struct log_record *rec, bool is_journal)
{
	struct out o = { ret, ret + LOG_RECORD_MAX - 1 };
	struct timespec ts;
	struct tm tm;

	if (is_journal) {
		out_printf(&o, "<%d>", (int)rec->level);
	} else {
		clock_gettime(CLOCK_REALTIME, &ts);
		gmtime_r(&ts.tv_sec, &tm);
		out_printf(&o, "%02d:%02d:%02d.%03ld %-6s ", tm.tm_hour, tm.tm_min, tm.tm_sec,
			   ts.tv_nsec / 1000000, log_level_text(rec->level));
	}
	out_printf(&o, "%s: ", log_area_text(rec->area));
	text_put(&o, rec->text);
	text_put(&o, rec->tail);
	return out_end(ret, &o);
}

/* The -v of a level. */
static int verbosity(enum log_level level)
{
	return level >= LOG_LEVEL_DEBUG ? 4 : level >= LOG_LEVEL_INFO ? 2 : 0;
}

size_t log_record_json(char ret[LOG_RECORD_MAX], const struct log_record *rec)
{
	struct out o = { ret, ret + LOG_RECORD_MAX - 1 };
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	out_printf(&o, "{\"ts\":%lld%03ld.%03ld,\"logger\":\"%s\"", (long long)ts.tv_sec,
		   ts.tv_nsec / 1000000, ts.tv_nsec / 1000 % 1000, log_area_text(rec->area));
	if (rec->file != NULL)
		out_printf(&o, ",\"caller\":\"%s:%d\"", short_path(rec->file), rec->line);
	json_member(&o, "msg", rec->text, rec->tail);
	if (rec->level <= LOG_LEVEL_ERR)
		json_member(&o, "err", rec->text, rec->tail);
	else
		out_printf(&o, ",\"v\":%d", verbosity(rec->level));
	out_printf(&o, ",\"level\":\"%s\"}", log_level_text(rec->level));
	return out_end(ret, &o);
}
