/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/diff - two sorted lists of lines, compared in one pass. */
#include "ctl/diff.h"

#include <string.h>

#include "base/control.h"
#include "ctl/value.h"

#define CLUSTER_IP " cluster-ip"

/* The line in two parts: the key, and the rest with its leading blank. `owner` as diff_lines(). */
static void line_add(struct diff *d, const char *line, const char *owner)
{
	struct diff_line *to = owner != NULL ? vec_push(&d->desired) : vec_push(&d->programmed);
	size_t key_len = strcspn(line, " ");
	char *mark;

	to->key = xstrndup(line, key_len);
	to->text = xstrdup(line + key_len);
	to->service = owner != NULL ? xstrdup(owner) : NULL;
	mark = strstr(to->text, CLUSTER_IP);
	if (mark != NULL)
		memmove(mark, mark + strlen(CLUSTER_IP), strlen(mark + strlen(CLUSTER_IP)) + 1);
}

static void item_pending(struct diff *d, const json_t *item)
{
	struct str text = { 0 };

	if (!value_bool(item, "pending") && !value_has(item, "rejected"))
		return;
	say(&text, item,
	    value_has(item, "rejected") ? "{namespace}/{name} rejected: {rejected}"
					: "{namespace}/{name} pending");
	*vec_push(&d->pending) = text.text;
}

void diff_desired(struct diff *d, const json_t *items)
{
	value_for_each (item, items) {
		FINI(str_fini) struct str service = { 0 };

		say(&service, item, "{namespace}/{name}");
		item_pending(d, item);
		d->n_incomplete += !value_bool(item, "complete");
		value_for_each (text, value_get(item, "frontends"))
			line_add(d, value_string(text), service.text);
	}
}

void diff_lines(struct diff *d, char *text, const char *owner)
{
	str_for_each_line (line, text)
		line_add(d, line, owner);
}

static int line_cmp(const void *a, const void *b)
{
	const struct diff_line *la = a;
	const struct diff_line *lb = b;

	return strcmp(la->key, lb->key);
}

/* --- draining backends --- */

/* Does `text` contain this backend, with or without a weight? */
static bool has_backend(const char *text, const char *name, size_t len)
{
	for (const char *at = text; (at = strchr(at, ' ')) != NULL; at++)
		if (strncmp(at + 1, name, len) == 0 &&
		    (at[1 + len] == '\0' || strchr(" =;", at[1 + len]) != NULL))
			return true;
	return false;
}

static bool is_leaving(const char *word, size_t len, const char *desired)
{
	if (str_begins(word, "draining="))
		return true;
	return len > 2 && strncmp(word + len - 2, "=0", 2) == 0 &&
	       !has_backend(desired, word, len - 2);
}

/* Copy of `programmed` without draining backends. Each word has a leading blank. */
static char *settled(const char *programmed, const char *desired)
{
	struct str out = { 0 };

	while (*programmed == ' ') {
		const char *word = programmed + 1;
		size_t len = strcspn(word, " ");
		bool is_last = len > 0 && word[len - 1] == ';';

		if (!is_leaving(word, len - is_last, desired))
			str_add(&out, programmed, 1 + len);
		else if (is_last)
			str_puts(&out, ";");
		programmed = word + len;
	}
	str_puts(&out, programmed);
	return out.text;
}

/*
 * One of the lines may be NULL. A virtual service without a frontend, with draining backends only,
 * is no difference.
 */
static bool is_difference(const struct diff_line *desired, const struct diff_line *programmed)
{
	AUTO(free) char *rest = NULL;

	if (programmed == NULL)
		return true;
	if (desired != NULL && strcmp(desired->text, programmed->text) == 0)
		return false;
	rest = settled(programmed->text, desired != NULL ? desired->text : "");
	if (desired != NULL)
		return strcmp(desired->text, rest) != 0;
	return (!str_begins(programmed->key, "mark/") &&
		!str_begins(programmed->key, "virtual/")) ||
	       strcmp(rest, " ->") != 0;
}

void diff_compare(struct diff *d)
{
	size_t i = 0;
	size_t k = 0;

	vec_sort(&d->desired, line_cmp);
	vec_sort(&d->programmed, line_cmp);
	while (i < d->desired.n || k < d->programmed.n) {
		int c = i == d->desired.n      ? 1
			: k == d->programmed.n ? -1
					       : line_cmp(&d->desired.v[i], &d->programmed.v[k]);
		const struct diff_line *desired = c <= 0 ? &d->desired.v[i++] : NULL;
		const struct diff_line *programmed = c >= 0 ? &d->programmed.v[k++] : NULL;

		if (is_difference(desired, programmed))
			*vec_push(&d->found) = (struct diff_find){ desired ? desired : programmed,
								   desired, programmed };
	}
}

bool diff_is_empty(const struct diff *d)
{
	return d->found.n == 0 && d->pending.n == 0 && d->n_incomplete == 0;
}

static void side_print(struct str *out, const struct style *style, const char *sign, enum mark mark,
		       const struct diff_line *line)
{
	FINI(str_fini) struct str text = { 0 };

	if (line == NULL)
		return;
	str_printf(&text, "  %s%s", sign, *line->text != '\0' ? line->text : " (nothing)");
	mark_puts(out, style, mark, text.text);
	str_puts(out, "\n");
}

void diff_print(struct str *out, const struct diff *d, const struct style *style)
{
	if (d->found.n > 0)
		str_puts(out, "- expected, + in the kernel\n");
	vec_for_each (f, &d->found) {
		str_printf(out, "%s  %s\n", f->line->key,
			   f->line->service ? f->line->service : "(no service)");
		side_print(out, style, "-", MARK_BAD, f->desired);
		side_print(out, style, "+", MARK_ATTENTION, f->programmed);
	}
	vec_for_each (text, &d->pending)
		str_printf(out, "%s\n", *text);
	if (d->n_incomplete > 0)
		str_printf(out, "%zu %s changed while they were read: run the command again\n",
			   d->n_incomplete, d->n_incomplete == 1 ? "service" : "services");
}

json_t *diff_json(const struct diff *d)
{
	json_t *found = json_array();
	json_t *pending = json_array();

	vec_for_each (f, &d->found)
		(void)json_array_append_new(
			found,
			json_pack("{s:s, s:s?, s:s?, s:s?}", "frontend", f->line->key, "service",
				  f->line->service, "desired", f->desired ? f->desired->text : NULL,
				  "programmed", f->programmed ? f->programmed->text : NULL));
	vec_for_each (text, &d->pending)
		(void)json_array_append_new(pending, json_string(*text));
	return json_pack("{s:i, s:o, s:o, s:I}", "api", CONTROL_API_VERSION, "differences", found,
			 "pending", pending, "incomplete", (json_int_t)d->n_incomplete);
}

static void line_fini(struct diff_line *line)
{
	free(line->key);
	free(line->text);
	free(line->service);
}

void diff_fini(struct diff *d)
{
	vec_for_each (line, &d->desired)
		line_fini(line);
	vec_for_each (line, &d->programmed)
		line_fini(line);
	vec_free_all(&d->pending);
	vec_fini(&d->desired);
	vec_fini(&d->programmed);
	vec_fini(&d->found);
	d->n_incomplete = 0;
}
