/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode/jsonsplit - see jsonsplit.h. A bracket counter with two buffers. */
#include "source/decode/jsonsplit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/decode/decode.h"
#include "source/decode/yamlread.h"

void jsonsplit_init(struct jsonsplit *s, const struct jsonsplit_ops *ops, void *arg)
{
	*s = (struct jsonsplit){ .ops = ops, .arg = arg, .line = 1 };
}

void jsonsplit_fini(struct jsonsplit *s)
{
	str_fini(&s->root.text);
	str_fini(&s->item.text);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* --- pieces --------------------------------------------------------------- */

static struct jsonsplit_part *part_of(struct jsonsplit *s)
{
	return s->state == JSONSPLIT_ITEM ? &s->item : &s->root;
}

/* The current piece exceeds a limit: -E2BIG, or 0 if the caller skips such pieces. */
static int too_big(struct jsonsplit *s, struct err *err)
{
	if (s->ops->too_big == NULL)
		return err_set(err, -E2BIG, "%s", s->why.text);
	s->is_too_big = true;
	return 0;
}

/* Append bytes to the current piece. */
static int keep(struct jsonsplit *s, const char *data, size_t len, struct err *err)
{
	struct str *to = &part_of(s)->text;

	if (s->is_too_big)
		return 0;
	if (len > JSON_PIECE_MAX - to->len) {
		(void)err_set(&s->why, -E2BIG, "larger than %u MiB, the limit of an object",
			      JSON_PIECE_MAX >> 20);
		return too_big(s, err);
	}
	str_add(to, data, len);
	return 0;
}

static int cost_add(struct jsonsplit *s, size_t cost, struct err *err)
{
	struct jsonsplit_part *part = part_of(s);

	part->cost += cost;
	if (part->cost <= JSON_COST_MAX || s->is_too_big)
		return 0;
	(void)err_set(&s->why, -E2BIG, "more than %d values, the limit of an object",
		      JSON_COST_MAX);
	return too_big(s, err);
}

/* The current piece is complete. */
static int part_done(struct jsonsplit *s, struct err *err)
{
	struct jsonsplit_part *part = part_of(s);
	struct json_piece p = { str_text(&part->text), part->text.len, part->line };
	bool is_item = part == &s->item;
	int r;

	while (p.len > 0 && is_space(p.text[p.len - 1]))
		p.len--;
	s->state = is_item ? JSONSPLIT_ITEMS : JSONSPLIT_BETWEEN;
	if (s->is_too_big)
		r = s->ops->too_big(s->arg, &p, s->why.text, err);
	else
		r = (is_item ? s->ops->item : s->ops->object)(s->arg, &p, err);
	s->is_too_big = false;
	str_clear(&part->text);
	part->cost = 0;
	return r;
}

static void part_begin(struct jsonsplit *s, enum jsonsplit_state state)
{
	s->state = state;
	part_of(s)->line = s->line;
}

/* --- brackets ------------------------------------------------------------- */

/* Is the last byte of the root the bracket of the list "items"? */
static bool is_items(const struct jsonsplit *s)
{
	static const char key[] = "\"items\"";
	const size_t len = sizeof(key) - 1;
	const char *text = s->root.text.text;
	size_t n = s->root.text.len - 1;

	while (n > 0 && is_space(text[n - 1]))
		n--;
	if (n == 0 || text[--n] != ':')
		return false;
	while (n > 0 && is_space(text[n - 1]))
		n--;
	return n > len && memcmp(text + n - len, key, len) == 0 && text[n - len - 1] != '\\';
}

static int open_bracket(struct jsonsplit *s, char c, struct err *err)
{
	uint64_t bit;
	int r;

	if (s->depth == JSON_DEPTH_MAX)
		return err_set(err, -EBADMSG, "nested deeper than %d levels", JSON_DEPTH_MAX);
	r = cost_add(s, c == '[' ? 2 : 4, err);
	if (r < 0)
		return r;
	bit = UINT64_C(1) << s->depth;
	s->is_list = c == '[' ? s->is_list | bit : s->is_list & ~bit;
	s->depth++;
	if (s->state == JSONSPLIT_ROOT && s->depth == 2 && c == '[' && !s->is_too_big &&
	    is_items(s))
		s->state = JSONSPLIT_ITEMS;
	return 0;
}

static int close_bracket(struct jsonsplit *s, char c, struct err *err)
{
	bool is_list;

	if (s->depth == 0)
		return err_set(err, -EBADMSG, "'%c' without an opening bracket", c);
	is_list = s->is_list >> (s->depth - 1) & 1;
	if (is_list != (c == ']'))
		return err_set(err, -EBADMSG, "'%c' instead of '%c'", c, is_list ? ']' : '}');
	s->depth--;
	return 0;
}

/* --- the stream ----------------------------------------------------------- */

/*
 * Bytes that JSON never contains. Without this check quotes or brackets in garbage would make the
 * rest of the stream part of one object.
 */
static bool is_forbidden(char c)
{
	return (unsigned char)c < ' ' && !is_space(c);
}

static int forbidden(char c, struct err *err)
{
	return err_set(err, -EBADMSG, "not JSON: byte 0x%02x", (unsigned char)c);
}

/* Inside quotes: consume up to and including the closing quote. */
static int feed_text(struct jsonsplit *s, const char *data, size_t len, size_t *used,
		     struct err *err)
{
	size_t i = 0;

	*used = 0;
	for (; i < len && s->is_text; i++) {
		if ((unsigned char)data[i] < ' ') /* including line ends */
			return forbidden(data[i], err);
		if (s->is_escaped)
			s->is_escaped = false;
		else if (data[i] == '\\')
			s->is_escaped = true;
		else if (data[i] == '"')
			s->is_text = false;
	}
	*used = i;
	return keep(s, data, i, err);
}

/* Between objects: `*used` is 0 if an object begins. */
static int feed_between(struct jsonsplit *s, char c, size_t *used, struct err *err)
{
	*used = is_space(c);
	if (is_space(c))
		return 0;
	if (c != '{')
		return err_set(err, -EBADMSG, "'%c' instead of an object",
			       c > ' ' && c < 0x7f ? c : '?');
	part_begin(s, JSONSPLIT_ROOT);
	return 0;
}

/* In the list, between entries: `*used` is 0 if an entry begins or the list ends. */
static void feed_items(struct jsonsplit *s, char c, size_t *used)
{
	*used = is_space(c) || c == ',';
	if (c == ']')
		s->state = JSONSPLIT_ROOT;
	else if (*used == 0)
		part_begin(s, JSONSPLIT_ITEM);
}

/* One byte outside quotes, in an object or an entry. */
static int feed_value(struct jsonsplit *s, char c, size_t *used, struct err *err)
{
	int r = 0;

	*used = 0;
	if (is_forbidden(c))
		return forbidden(c, err);
	if (s->state == JSONSPLIT_ITEM && s->depth == 2 && (c == ',' || c == ']'))
		return part_done(s, err); /* the byte is no part of the entry */
	*used = 1;
	if (c == '"' || c == ',') {
		s->is_text = c == '"';
		r = cost_add(s, 1, err);
	} else if (c == '{' || c == '[') {
		r = keep(s, &c, 1, err);
		return r < 0 ? r : open_bracket(s, c, err);
	} else if (c == '}' || c == ']') {
		r = close_bracket(s, c, err);
	}
	if (r == 0)
		r = keep(s, &c, 1, err);
	if (r == 0 && s->depth == 0)
		r = part_done(s, err);
	return r;
}

/* Number of leading bytes that feed_value() need not read one by one. */
static size_t dull(const char *data, size_t len)
{
	size_t i = 0;

	while (i < len && !is_forbidden(data[i]) && memchr("\"{}[],\n", data[i], 7) == NULL)
		i++;
	return i;
}

static int feed_some(struct jsonsplit *s, const char *data, size_t len, size_t *used,
		     struct err *err)
{
	if (s->is_text)
		return feed_text(s, data, len, used, err);
	if (s->state == JSONSPLIT_ROOT || s->state == JSONSPLIT_ITEM) {
		*used = dull(data, len);
		if (*used > 0)
			return keep(s, data, *used, err);
		return feed_value(s, *data, used, err);
	}
	if (s->state == JSONSPLIT_BETWEEN)
		return feed_between(s, *data, used, err);
	feed_items(s, *data, used);
	return 0;
}

int jsonsplit_feed(struct jsonsplit *s, const char *data, size_t len, struct err *err)
{
	size_t used;
	int r;

	if (s->state == JSONSPLIT_FAILED)
		return err_set(err, -EBADMSG, "malformed stream");
	for (; len > 0; data += used, len -= used) {
		bool was_text = s->is_text;

		r = feed_some(s, data, len, &used, err);
		if (r != 0) {
			s->state = JSONSPLIT_FAILED;
			return r;
		}
		if (!was_text && used == 1 && *data == '\n')
			s->line++;
	}
	return 0;
}

int jsonsplit_end(struct jsonsplit *s, struct err *err)
{
	if (s->state == JSONSPLIT_FAILED)
		return err_set(err, -EBADMSG, "malformed stream");
	if (s->state == JSONSPLIT_BETWEEN)
		return 0;
	s->state = JSONSPLIT_FAILED;
	return err_set(err, -EBADMSG, "ends inside the object of line %u", s->root.line);
}

json_t *jsonsplit_root(const struct jsonsplit *s, json_error_t *why)
{
	FINI(str_fini) struct str text = { 0 };

	str_printf(&text, "%s]}", str_text(&s->root.text));
	return json_loadb(text.text, text.len, JSON_ALLOW_NUL, why);
}

/* --- lines of values ------------------------------------------------------ */

static void on_twice(void *arg, const char *key, uint32_t line)
{
}

/* JSON without escapes is YAML: libyaml's marks have the lines that jansson lacks. */
static void lines_read(struct json_lines *l, const struct json_piece *p)
{
	struct err err;

	l->text = xstrndup(p->text, p->len);
	for (char *c = l->text; (c = strchr(c, '\\')) != NULL;)
		*c = c[1] = '_';
	yaml_open_text(&l->yaml, l->text, p->len, p->line);
	yaml_allow_twice(l->yaml, on_twice, NULL);
	if (yaml_next(l->yaml, &l->root, &err) != YAML_DOCUMENT) {
		json_decref(l->root);
		l->root = NULL;
	}
}

uint32_t json_lines_of(struct json_lines *l, const struct json_piece *p, const struct decode *d)
{
	struct decode at = *d;
	const json_t *v;

	if (l->yaml == NULL)
		lines_read(l, p);
	if (l->root == NULL)
		return p->line;
	v = l->root;
	for (size_t i = 0; i <= d->depth && d->steps[i].in != NULL; i++) {
		at.steps[i].in = v;
		v = d->steps[i].key ? json_object_get(v, d->steps[i].key)
				    : json_array_get(v, d->steps[i].index);
	}
	return yaml_line_of(l->yaml, &at);
}

void json_lines_fini(struct json_lines *l)
{
	yaml_close(l->yaml);
	json_decref(l->root);
	free(l->text);
	*l = (struct json_lines){ 0 };
}
