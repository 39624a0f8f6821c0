/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/table - widths, cuts and colours. */
#include "ctl/table.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#define GAP 2

static const char *const colours[] = {
	[MARK_NONE] = "",         [MARK_TITLE] = "\033[1m",
	[MARK_GOOD] = "\033[32m", [MARK_ATTENTION] = "\033[33m",
	[MARK_BAD] = "\033[31m",  [MARK_FAINT] = "\033[2m",
};

void mark_puts(struct str *out, const struct style *style, enum mark mark, const char *text)
{
	bool is_coloured = style->has_colour && mark != MARK_NONE && *text != '\0';

	if (is_coloured)
		str_puts(out, colours[mark]);
	str_puts(out, text);
	if (is_coloured)
		str_puts(out, "\033[0m");
}

size_t text_width(const char *text)
{
	size_t n = 0;

	for (; *text != '\0'; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

size_t text_prefix(const char *text, size_t max)
{
	const char *p = text;

	for (size_t n = 0; *p != '\0'; p++)
		if (((unsigned char)*p & 0xc0) != 0x80 && n++ == max)
			break;
	return (size_t)(p - text);
}

void table_cell(struct table *t, const char *title, unsigned int look, const char *fmt, ...)
{
	struct table_column *col = vec_find(&t->columns, c, strcmp(c->title, title) == 0);
	char *text;
	va_list ap;

	if (col == NULL) {
		col = vec_push(&t->columns);
		*col = (struct table_column){ title, look & ~TABLE_MARKS, text_width(title) };
	}
	assert(t->cells.n % t->columns.n == (size_t)(col - t->columns.v));
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	col->width = MAX(col->width, text_width(text));
	*vec_push(&t->cells) = (struct table_cell){ text, (enum mark)(look & TABLE_MARKS) };
}

size_t table_rows(const struct table *t)
{
	return t->columns.n ? t->cells.n / t->columns.n : 0;
}

static size_t width_min(const struct table_column *col)
{
	if (col->flags & TABLE_ELASTIC)
		return TABLE_CUT_MIN;
	return col->flags & TABLE_NAMES ? TABLE_NAMES_MIN : SIZE_MAX;
}

/* The widest column that may be cut, or NULL. */
static struct table_column *widest_elastic(struct table *t)
{
	struct table_column *widest = NULL;

	vec_for_each (col, &t->columns)
		if (col->width > width_min(col) && (widest == NULL || col->width > widest->width))
			widest = col;
	return widest;
}

/* Reduce the widths of columns to `max` in total. Returns the number of columns shown. */
static size_t widths_fit(struct table *t, size_t max, size_t indent)
{
	size_t n = t->columns.n;
	size_t sum = indent + GAP * (n - 1);
	struct table_column *last = &t->columns.v[n - 1];
	struct table_column *col;

	vec_for_each (c, &t->columns)
		sum += c->width;
	if (max == 0 || sum <= max)
		return n;
	if (last->flags & TABLE_COMMENT) {
		size_t others = sum - last->width;

		if (others + TABLE_COMMENT_MIN <= max) {
			last->width = max - others;
			return n;
		}
		n--;
		sum = others - GAP;
	}
	for (; sum > max && (col = widest_elastic(t)) != NULL; sum--)
		col->width--;
	return n;
}

static void cell_print(struct str *out, const struct style *style, const struct table_column *col,
		       const char *text, enum mark mark)
{
	FINI(str_fini) struct str shown = { 0 };
	bool is_right = col->flags & TABLE_RIGHT;
	size_t n = text_width(text);

	if (n > col->width) {
		str_add(&shown, text, text_prefix(text, col->width - 1));
		str_puts(&shown, style->is_utf8 ? "\xe2\x80\xa6" : "~");
		n = col->width;
	} else {
		str_puts(&shown, text);
	}
	str_printf(out, "%*s", is_right ? (int)(col->width - n) : 0, "");
	mark_puts(out, style, mark, str_text(&shown));
	str_printf(out, "%*s", is_right ? GAP : (int)(col->width - n + GAP), "");
}

void line_end(struct str *out)
{
	while (out->len > 0 && out->text[out->len - 1] == ' ')
		out->text[--out->len] = '\0';
	str_add(out, "\n", 1);
}

void table_print(struct str *out, struct table *t, const struct style *style, size_t indent)
{
	size_t n;

	if (t->columns.n == 0)
		return;
	assert(t->cells.n % t->columns.n == 0);
	n = widths_fit(t, style->width, indent);
	str_printf(out, "%*s", (int)indent, "");
	for (size_t i = 0; i < n; i++)
		cell_print(out, style, &t->columns.v[i], t->columns.v[i].title, MARK_TITLE);
	line_end(out);
	for (size_t row = 0; row < table_rows(t); row++) {
		str_printf(out, "%*s", (int)indent, "");
		for (size_t i = 0; i < n; i++) {
			const struct table_cell *cell = &t->cells.v[row * t->columns.n + i];

			cell_print(out, style, &t->columns.v[i], cell->text, cell->mark);
		}
		line_end(out);
	}
}

void table_section(struct str *out, struct table *t, const struct style *style, size_t indent)
{
	str_puts(out, t->columns.n > 0 ? "\n" : "");
	table_print(out, t, style, indent);
}

void table_fini(struct table *t)
{
	vec_for_each (cell, &t->cells)
		free(cell->text);
	vec_fini(&t->cells);
	vec_fini(&t->columns);
}
