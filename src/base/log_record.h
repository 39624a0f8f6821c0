/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/log_record - one line of the log, as text or as JSON.
 *
 * Names and answers of servers may contain control and bidirectional characters and invalid UTF-8:
 * text has '?' instead, JSON an escape sequence. A record has at most PIPE_BUF bytes, so that one
 * write() to a pipe is atomic.
 */
#pragma once

#include <stdbool.h>

#include "base/log.h"

#define LOG_RECORD_MAX 4096

struct log_record {
	enum log_area area;
	enum log_level level;
	const char *text;
	const char *tail; /* appended to `text` */
	const char *file; /* NULL: unknown */
	int line;
};

/* "<4>area: text" for the journal, else with time and level. Returns the length with newline. */
size_t log_record_text(char ret[LOG_RECORD_MAX], const struct log_record *rec, bool is_journal);
/*
 * The fields of Kubernetes' JSON log format: ts (Unix time in ms), logger (the area), caller,
 * msg, v (not of an error), err (of an error); and level, which that format lacks.
 */
size_t log_record_json(char ret[LOG_RECORD_MAX], const struct log_record *rec);
