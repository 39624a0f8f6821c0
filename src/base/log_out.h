/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/log_out - whole lines to standard error, without ever waiting for its reader.
 *
 * Standard error is shared with other processes, so O_NONBLOCK is never set on it. A
 * socket (the journal's) is sent to with MSG_DONTWAIT. A pipe or a terminal is opened a
 * second time, which yields a file description of our own; where that is not permitted,
 * poll() comes before each write. A file is written to as it is: its offset is shared.
 *
 * What standard error does not take waits in a queue of LOG_OUT_QUEUE bytes, so that a
 * reader that is only slow loses nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

#define LOG_OUT_QUEUE (64 * 1024)

/* Write one line, its newline included, or queue it. False: the queue is full, the line is lost. */
bool log_out_put(const char *line, size_t len);
/* Write what is queued. True when nothing is left. */
bool log_out_flush(void);
/* Flush, and wait for the reader, `ms` at most: for the end of the process. */
void log_out_drain(int ms);
/* Is standard error the stream that JOURNAL_STREAM names (systemd.exec(5))? */
bool log_out_is_journal(void);
