/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/log_out - write whole lines to standard error without waiting for its reader.
 *
 * Other processes share standard error, so O_NONBLOCK is not set on it. A socket (the journal's)
 * gets MSG_DONTWAIT. A pipe or a terminal is opened again, for a file description of our own, or
 * polled before each write if that is not permitted. A file is written directly: its offset is
 * shared.
 *
 * Lines that standard error does not accept are queued, up to LOG_OUT_QUEUE bytes.
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

#define LOG_OUT_QUEUE (64 * 1024)

/* Write one line, its newline included, or queue it. False: the queue is full, the line is lost. */
bool log_out_put(const char *line, size_t len);
/* Write the queue. True: it is empty. */
bool log_out_flush(void);
/* Flush, waiting at most `ms` for the reader. Called at exit. */
void log_out_drain(int ms);
/* Is standard error the stream that JOURNAL_STREAM names (systemd.exec(5))? */
bool log_out_is_journal(void);
