/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/table - aligned columns that fit a terminal.
 *
 *     struct table t = { 0 };
 *     for each service
 *             table_cell(&t, "SERVICE", TABLE_ELASTIC, "%s/%s", ns, name);
 *             table_cell(&t, "STATE", MARK_GOOD, "ok");
 *     table_print(&out, &t, &style, 0);
 *     table_fini(&t);
 *
 * Cells are filled row by row; those of the first row make the columns, and all rows have the same
 * ones. A column is as wide as its widest cell; two blanks separate columns. Cells before the last
 * column contain no blanks where possible, so that a script can split a line at blanks. On a narrow
 * terminal the comment column is shortened first, then elastic columns are cut, widest first.
 * Output to a pipe is never cut. The last column is not padded.
 */
#pragma once

#include "base/str.h"
#include "base/vec.h"

/* Properties of the output device. */
struct style {
	bool has_colour;
	bool is_utf8;
	bool is_wide; /* more columns */
	size_t width; /* columns of the terminal; 0 = do not cut */
};

enum mark {
	MARK_NONE = 0,
	MARK_TITLE,
	MARK_GOOD,
	MARK_ATTENTION,
	MARK_BAD,
	MARK_FAINT,
};

/* Of a column, with the mark of a cell: bits above those of enum mark. */
enum table_flags {
	TABLE_ELASTIC = 1 << 4, /* may be cut, but not below TABLE_CUT_MIN */
	TABLE_NAMES = 1 << 5,   /* not cut below TABLE_NAMES_MIN: names differ at their ends */
	TABLE_RIGHT = 1 << 6,   /* right-aligned: numbers */
	TABLE_COMMENT = 1 << 7, /* the last column: cut down to TABLE_COMMENT_MIN, then omitted */
};
#define TABLE_MARKS 0xf
#define TABLE_CUT_MIN 8
#define TABLE_NAMES_MIN 24
#define TABLE_COMMENT_MIN 16

struct table_column {
	const char *title;
	unsigned int flags;
	size_t width;
};

struct table_cell {
	char *text;
	enum mark mark;
};

struct table {
	VEC(struct table_column) columns;
	VEC(struct table_cell) cells;
};

/* `title` is static text, other than those of the row's other cells; `look`: mark and flags. */
void table_cell(struct table *t, const char *title, unsigned int look, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
size_t table_rows(const struct table *t);
/*
 * All rows must be complete; nothing without rows. Each line begins with `indent` blanks. Reduces
 * the widths in `t` to those of `style`.
 */
void table_print(struct str *out, struct table *t, const struct style *style, size_t indent);
/* table_print() below an empty line. */
void table_section(struct str *out, struct table *t, const struct style *style, size_t indent);
void table_fini(struct table *t);

/* Append text in the colour of `mark`, outside of a table. */
void mark_puts(struct str *out, const struct style *style, enum mark mark, const char *text);
/* End a line, without its trailing blanks. */
void line_end(struct str *out);
/* Width of `text`: its number of UTF-8 characters. */
size_t text_width(const char *text);
/* Length in bytes of the first `max` characters, or of all. */
size_t text_prefix(const char *text, size_t max);
