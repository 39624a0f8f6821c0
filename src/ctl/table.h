/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/table - aligned columns that fit a terminal.
 *
 *     struct table t = { 0 };
 *     table_column(&t, "SERVICE", TABLE_ELASTIC);
 *     table_column(&t, "STATE", 0);
 *     table_cell(&t, MARK_NONE, "%s/%s", ns, name);
 *     table_cell(&t, MARK_GOOD, "ok");
 *     table_print(&out, &t, &style, 0);
 *     table_fini(&t);
 *
 * Cells are filled row by row. Columns are as wide as their widest cell, two blanks
 * apart; a script finds the n-th word of a line in the n-th column, as cells but the
 * last have no blanks where that can be helped. On a terminal that is too narrow a
 * comment column gives way first, then elastic columns are cut, widest first; in a
 * pipe nothing is ever cut. The last column is not padded.
 */
#pragma once

#include "base/str.h"
#include "base/vec.h"

/* How an output device wants it; decided once, by the command. */
struct style {
	bool has_colour;
	bool is_utf8;
	bool is_wide; /* more columns */
	size_t width; /* of the terminal in columns; 0 = nothing is cut */
};

enum mark {
	MARK_NONE = 0,
	MARK_TITLE,
	MARK_GOOD,
	MARK_ATTENTION,
	MARK_BAD,
	MARK_FAINT,
};

enum table_flags {
	TABLE_ELASTIC = 1 << 0, /* may be cut, but not below TABLE_CUT_MIN */
	TABLE_NAMES = 1 << 1,   /* not below TABLE_NAMES_MIN: the ends of names differ */
	TABLE_RIGHT = 1 << 2,   /* numbers */
	TABLE_COMMENT = 1 << 3, /* the last one: cut to TABLE_COMMENT_MIN, else left out */
};
#define TABLE_CUT_MIN 8
#define TABLE_NAMES_MIN 24
#define TABLE_COMMENT_MIN 16

struct table_column {
	const char *title; /* static text */
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

void table_column(struct table *t, const char *title, unsigned int flags);
void table_cell(struct table *t, enum mark mark, const char *fmt, ...) PRINTF_LIKE(3, 4);
size_t table_rows(const struct table *t);
/* All rows must be complete. Each line is led by `indent` blanks. */
void table_print(struct str *out, const struct table *t, const struct style *style, size_t indent);
void table_fini(struct table *t);

/* Text on its own, in the colour of its mark. */
void mark_puts(struct str *out, const struct style *style, enum mark mark, const char *text);
/* Columns that `text` takes: its characters, as nearly all of them take one. */
size_t text_width(const char *text);
