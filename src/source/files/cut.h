/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/cut - a stream of text, cut at the lines that begin with "---".
 *
 *     cut_init -> cut_next, cut_next, ... -> cut_fini
 *
 * YAML allows such a line only between documents, not even inside quotes, so no parser is needed.
 * A syntax error affects one document only, an unchanged document is recognised without being
 * parsed, and only one document is in memory.
 *
 * A document above CUT_DOCUMENT_MAX is read as a stream: CUT_STREAM, then cut_read() until it
 * returns 0.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define CUT_DOCUMENT_MAX (8U << 20) /* bytes of a document that is read as a whole */

/* Up to `size` bytes into `buf`; 0 at the end, -errno. */
typedef ssize_t (*cut_read_fn)(void *arg, void *buf, size_t size);

enum cut_what {
	CUT_END = 0,
	CUT_DOCUMENT,
	CUT_STREAM,
};

struct cut_piece {
	const char *text; /* borrowed until the next call */
	size_t len;
	uint32_t line; /* of the first byte; the stream begins with line 1 */
};

struct cut {
	cut_read_fn read;
	void *arg;
	char *buf;
	size_t cap;
	size_t pos;     /* of the first byte not handed out */
	size_t len;     /* bytes in the buffer */
	size_t scanned; /* no document ends before this byte */
	uint32_t line;  /* of the byte at `pos` */
	bool is_eof;
	bool is_streamed; /* cut_read() has returned the whole document */
};

void cut_init(struct cut *c, cut_read_fn read, void *arg);
void cut_fini(struct cut *c);

/*
 * The first byte of the stream that is not a space; 0: none in the first 64 KiB. Call before
 * cut_next(). Skips a byte order mark.
 */
MUST_USE int cut_peek(struct cut *c, char *ret, struct err *err);
/* Returns enum cut_what, or the error of the read. The piece of CUT_STREAM has only a line. */
MUST_USE int cut_next(struct cut *c, struct cut_piece *ret, struct err *err);
/* A cut_read_fn: read the next part of the streamed document; `cut` is a struct cut. */
ssize_t cut_read(void *cut, void *buf, size_t size);
/* The content of the buffer, or the next block, without cutting. Returns CUT_END or CUT_DOCUMENT */
MUST_USE int cut_block(struct cut *c, struct cut_piece *ret, struct err *err);
