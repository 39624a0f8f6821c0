/* SPDX-License-Identifier: GPL-2.0-or-later */
/* files/cut - one buffer that slides over the stream. */
#include "source/files/cut.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 16384    /* most files are smaller */
#define PEEK_MAX 65536 /* of white space at the start */

void cut_init(struct cut *c, cut_read_fn read, void *arg)
{
	*c = (struct cut){ .read = read, .arg = arg, .line = 1 };
}

void cut_fini(struct cut *c)
{
	free(c->buf);
	c->buf = NULL;
}

/* Read more into the buffer, after discarding the bytes that were passed on. */
static int fill(struct cut *c, struct err *err)
{
	ssize_t n;

	if (c->pos > 0 && c->cap - c->len < BLOCK) {
		memmove(c->buf, c->buf + c->pos, c->len - c->pos);
		c->len -= c->pos;
		c->scanned -= c->pos;
		c->pos = 0;
	}
	if (c->cap - c->len < BLOCK) {
		c->cap = c->cap == 0 ? 2 * BLOCK : 2 * c->cap;
		c->buf = xreallocarray(c->buf, c->cap, 1);
	}
	n = c->read(c->arg, c->buf + c->len, BLOCK);
	if (n < 0)
		return err_set(err, (int)n, "%s", strerror((int)-n));
	c->is_eof = n == 0;
	c->len += (size_t)n;
	return 0;
}

/* `n` bytes were passed on. */
static void take(struct cut *c, size_t n)
{
	const char *p = c->buf + c->pos;
	const char *end = p + n;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		c->line++;
		p++;
	}
	c->pos += n;
	c->scanned = MAX(c->scanned, c->pos);
}

#define MARK "\n---"
#define MARK_LEN 4

/*
 * Find the end of the document at `pos`: true with the index after its last byte, false if the
 * buffer does not contain the end. A mark must be followed by a space or a line end.
 */
static bool find_end(struct cut *c, size_t *ret)
{
	for (; c->len - c->scanned >= MARK_LEN; c->scanned++) {
		const char *at = memmem(c->buf + c->scanned, c->len - c->scanned, MARK, MARK_LEN);
		size_t after;

		if (at == NULL) { /* the last bytes may be the beginning of a mark */
			c->scanned = c->len - MARK_LEN;
			break;
		}
		c->scanned = (size_t)(at - c->buf);
		after = c->scanned + MARK_LEN;
		if (after == c->len && !c->is_eof)
			return false;
		if (after == c->len || memchr(" \t\r\n", c->buf[after], 4) != NULL) {
			*ret = c->scanned + 1;
			return true;
		}
	}
	*ret = c->len;
	return c->is_eof;
}

int cut_peek(struct cut *c, char *ret, struct err *err)
{
	int r = 0;

	*ret = '\0';
	while (r == 0 && c->len < 3 && !c->is_eof)
		r = fill(c, err);
	/* A byte order mark: neither parser skips it. */
	if (c->len >= 3 && memcmp(c->buf, "\xef\xbb\xbf", 3) == 0)
		c->pos = c->scanned = 3;
	for (size_t i = 0; r == 0 && i < PEEK_MAX; i++) {
		if (c->pos + i == c->len)
			r = fill(c, err);
		if (r < 0 || c->pos + i == c->len)
			break;
		if (memchr(" \t\r\n", c->buf[c->pos + i], 4) == NULL) {
			*ret = c->buf[c->pos + i];
			break;
		}
	}
	return r;
}

int cut_next(struct cut *c, struct cut_piece *ret, struct err *err)
{
	size_t end;
	int r;

	while (!find_end(c, &end)) {
		if (c->len - c->pos >= CUT_DOCUMENT_MAX) {
			*ret = (struct cut_piece){ .line = c->line };
			c->is_streamed = false;
			return CUT_STREAM;
		}
		r = fill(c, err);
		if (r < 0)
			return r;
	}
	*ret = (struct cut_piece){ c->buf + c->pos, end - c->pos, c->line };
	if (ret->len == 0)
		return CUT_END;
	take(c, ret->len);
	return CUT_DOCUMENT;
}

ssize_t cut_read(void *cut, void *buf, size_t size)
{
	struct cut *c = cut;
	bool is_end = false;
	size_t end;
	size_t n;
	int r;

	while (!c->is_streamed) {
		is_end = find_end(c, &end);
		if (!is_end)
			end = c->len > c->pos + MARK_LEN ? c->len - MARK_LEN : c->pos;
		if (is_end || end > c->pos)
			break;
		r = fill(c, NULL);
		if (r < 0)
			return r;
	}
	if (c->is_streamed)
		return 0;
	n = MIN(end - c->pos, size);
	memcpy(buf, c->buf + c->pos, n);
	take(c, n);
	/* The mark is passed, and would not be found again. */
	c->is_streamed = is_end && c->pos == end;
	return (ssize_t)n;
}

int cut_block(struct cut *c, struct cut_piece *ret, struct err *err)
{
	int r;

	while (c->pos == c->len && !c->is_eof) {
		r = fill(c, err);
		if (r < 0)
			return r;
	}
	*ret = (struct cut_piece){ c->buf + c->pos, c->len - c->pos, c->line };
	take(c, ret->len);
	return ret->len > 0 ? CUT_DOCUMENT : CUT_END;
}
