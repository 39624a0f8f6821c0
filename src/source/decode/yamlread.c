/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/yamlread - convert libyaml's events to jansson values.
 *
 * A stack of open containers, each with the key of its next value. A table has the line of each
 * value: (container, index or hash of the key), with LINE_SELF for the container. The table is
 * searched only for errors and notes.
 */
#include "source/decode/yamlread.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/hash.h"
#include "base/htable.h"
#include "base/vec.h"
#include "source/decode/decode.h"

#define COST_SCALAR 1
#define COST_LIST 2
#define COST_OBJECT 4

#define LINE_SELF UINT32_MAX

struct line {
	const json_t *in;
	uint32_t child; /* index of the value in a list, or hash of its key; or LINE_SELF */
	uint32_t line;
};

struct anchor {
	struct hnode node;
	json_t *value;
	size_t cost;
	char name[];
};

/* An open container. */
struct frame {
	json_t *value;
	char *key;      /* key of the next value of an object; or NULL */
	char *anchor;   /* or NULL */
	json_t *merges; /* values of "<<" keys, or NULL */
	size_t cost_before;
	uint32_t line;
	bool is_items; /* the root's "items": entries are returned one by one */
};

struct yaml {
	yaml_parser_t parser;
	yaml_read_fn read;
	void *read_arg;
	/* NULL: duplicate keys are errors */
	void (*twice)(void *arg, const char *key, uint32_t line);
	void *twice_arg;
	int read_error;
	size_t text_bytes; /* read since the last returned value */
	const char *text;  /* the whole text, if it is in memory; or NULL */
	size_t text_len;
	uint32_t line0;
	uint32_t line; /* see yaml_line() */
	struct frame stack[YAML_DEPTH_MAX];
	size_t depth;
	bool is_begun; /* a part of the next value is read */
	json_t *done;  /* complete, to be returned */
	size_t cost;
	size_t anchors_cost;
	struct htable anchors;
	VEC(struct line) lines;
	size_t lines_root; /* length of `lines` when the current item began */
};

/* --- life ----------------------------------------------------------------- */

static int read_some(void *arg, unsigned char *buf, size_t size, size_t *ret)
{
	struct yaml *y = arg;
	ssize_t n = y->read(y->read_arg, buf, size);

	y->text_bytes += n > 0 ? (size_t)n : 0;
	if (y->text_bytes > YAML_TEXT_MAX)
		n = -E2BIG; /* libyaml has no limit for one scalar */
	if (n < 0)
		y->read_error = (int)n;
	*ret = n > 0 ? (size_t)n : 0;
	return n >= 0;
}

static struct yaml *yaml_new(uint32_t line)
{
	struct yaml *y = xcalloc(1, sizeof(*y));

	if (!yaml_parser_initialize(&y->parser))
		abort();
	/* Other encodings are errors, not guesses. */
	yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
	y->line0 = y->line = line;
	return y;
}

void yaml_open(struct yaml **ret, yaml_read_fn read, void *arg, uint32_t line)
{
	struct yaml *y = yaml_new(line);

	y->read = read;
	y->read_arg = arg;
	yaml_parser_set_input(&y->parser, read_some, y);
	*ret = y;
}

void yaml_open_text(struct yaml **ret, const char *text, size_t len, uint32_t line)
{
	struct yaml *y = yaml_new(line);

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
		text += 3;
		len -= 3;
	}
	y->text = text;
	y->text_len = len;
	yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, len);
	*ret = y;
}

static void anchors_clear(struct yaml *y)
{
	htable_for_each_entry_safe (a, tmp, &y->anchors, struct anchor) {
		json_decref(a->value);
		free(a);
	}
	htable_fini(&y->anchors);
	y->anchors_cost = 0;
}

static void frame_clear(struct frame *f)
{
	json_decref(f->value);
	json_decref(f->merges);
	free(f->key);
	free(f->anchor);
	*f = (struct frame){ 0 };
}

/* Drop the current document. */
static void document_clear(struct yaml *y)
{
	while (y->depth > 0)
		frame_clear(&y->stack[--y->depth]);
	json_decref(TAKE(y->done));
	anchors_clear(y);
	y->cost = 0;
}

void yaml_allow_twice(struct yaml *y, void (*twice)(void *arg, const char *key, uint32_t line),
		      void *arg)
{
	y->twice = twice;
	y->twice_arg = arg;
}

void yaml_close(struct yaml *y)
{
	if (y == NULL)
		return;
	document_clear(y);
	vec_fini(&y->lines);
	yaml_parser_delete(&y->parser);
	free(y);
}

/* --- lines ---------------------------------------------------------------- */

static uint32_t event_line(const struct yaml *y, const yaml_event_t *ev)
{
	return y->line0 + (uint32_t)ev->start_mark.line;
}

static uint32_t text_hash(const char *text)
{
	return hash_bytes(text, strlen(text));
}

/*
 * The line of `child`, else that of its container. Search from the end to the beginning of the
 * container: earlier lines may be those of a freed one with the same address.
 */
static bool line_find(const struct yaml *y, const json_t *in, uint32_t child, uint32_t *ret)
{
	for (size_t i = y->lines.n; i-- > 0;) {
		const struct line *l = &y->lines.v[i];

		if (l->in == in && (l->child == child || l->child == LINE_SELF)) {
			*ret = l->line;
			return true;
		}
	}
	return false;
}

uint32_t yaml_line_of(const struct yaml *y, const struct decode *d)
{
	uint32_t line = y->line;

	for (size_t i = d->depth + 1; i-- > 0;) {
		const struct decode_step *s = &d->steps[i];
		uint32_t child = s->key != NULL ? text_hash(s->key) : (uint32_t)s->index;

		if (s->in != NULL && line_find(y, s->in, child, &line))
			break;
	}
	return line;
}

/* --- scalars --------------------------------------------------------------
 *
 * json_stringn_nocheck(): libyaml accepts UTF-8 only.
 */

static const char nulls[] = "~ null Null NULL";
static const char trues[] = "true True TRUE y Y yes Yes YES on On ON";
static const char falses[] = "false False FALSE n N no No NO off Off OFF";

static json_t *word_value(const char *text, size_t len)
{
	if (len > 5 || (len > 0 && strchr("~nNtTfFyYoO", text[0]) == NULL))
		return NULL;
	if (len == 0 || str_words_find(nulls, text, len) >= 0)
		return json_null();
	if (str_words_find(trues, text, len) >= 0)
		return json_true();
	return str_words_find(falses, text, len) >= 0 ? json_false() : NULL;
}

/* Digits in the base of the prefix (0x, 0o, 0b, 0); false: not an integer. */
static bool integer_value(int64_t *ret, const char *text)
{
	bool is_negative = *text == '-';
	const char *p = text + (*text == '-' || *text == '+');
	int base = 10;
	char *end;
	long long n;

	if (p[0] == '0' && p[1] != '\0') {
		char c = p[1];

		base = c == 'x' || c == 'X' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
		p += c == 'x' || c == 'X' || c == 'b' || c == 'B' || c == 'o' || c == 'O' ? 2 : 1;
	}
	if (*p == '\0' || strspn(p, "0123456789abcdefABCDEF") != strlen(p))
		return false;
	errno = 0;
	n = strtoll(p, &end, base);
	if (errno != 0 || *end != '\0')
		return false;
	*ret = is_negative ? -n : n;
	return true;
}

/* Decimal, without the other forms that strtod() takes: "0x1p4", "inf". */
static bool float_value(double *ret, const char *text)
{
	char *end;

	*ret = strtod(text, &end);
	return end > text && *end == '\0' && text[strspn(text, "0123456789+-.eE")] == '\0';
}

/* A number, which may contain underscores; NULL: not a number. */
static json_t *number_value(const char *text, size_t len)
{
	char plain[64];
	size_t n = 0;
	int64_t i;
	double f;

	if (len >= sizeof(plain) || strchr("0123456789+-.", text[0]) == NULL)
		return NULL;
	for (size_t k = 0; k < len; k++)
		if (text[k] != '_')
			plain[n++] = text[k];
	plain[n] = '\0';
	if (integer_value(&i, plain))
		return json_integer(i);
	if (!float_value(&f, plain))
		return NULL;
	/* JSON has one kind of number: "80.0" and "080" are 80. */
	if (fabs(f) < 9007199254740992.0 && f == (double)(int64_t)f)
		return json_integer((json_int_t)f);
	return isfinite(f) ? json_real(f) : NULL;
}

static json_t *plain_value(const char *text, size_t len)
{
	json_t *v = word_value(text, len);

	if (v == NULL)
		v = number_value(text, len);
	return v != NULL ? v : json_stringn_nocheck(text, len);
}

static const char *tag_short(const char *tag)
{
	static const char prefix[] = "tag:yaml.org,2002:";

	if (strncmp(tag, prefix, sizeof(prefix) - 1) == 0)
		return tag + sizeof(prefix) - 1;
	return tag;
}

/* A scalar with a tag; NULL: the value does not match the tag. */
static json_t *tagged_value(const char *tag, const char *text, size_t len)
{
	json_t *v;
	bool is_right;

	if (strcmp(tag, "str") == 0 || strcmp(tag, "!") == 0)
		return json_stringn_nocheck(text, len);
	v = plain_value(text, len);
	is_right = (strcmp(tag, "int") == 0 && json_is_integer(v)) ||
		   (strcmp(tag, "float") == 0 && json_is_number(v)) ||
		   (strcmp(tag, "bool") == 0 && json_is_boolean(v)) ||
		   (strcmp(tag, "null") == 0 && json_is_null(v));
	if (is_right)
		return v;
	json_decref(v);
	return NULL;
}

static int scalar_value(json_t **ret, const yaml_event_t *ev, struct err *err)
{
	const char *text = (const char *)ev->data.scalar.value;
	const char *tag = (const char *)ev->data.scalar.tag;
	size_t len = ev->data.scalar.length;

	if (memchr(text, '\0', len) != NULL)
		return err_set(err, -EINVAL, "text contains a NUL character");
	*ret = tag != NULL ? tagged_value(tag_short(tag), text, len)
	       : ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_value(text, len)
								  : json_stringn_nocheck(text, len);
	if (*ret == NULL)
		return err_set(err, -EINVAL, "value does not match its tag");
	return 0;
}

/* --- containers ----------------------------------------------------------- */

static int cost_add(struct yaml *y, size_t cost, struct err *err)
{
	y->cost += cost;
	if (y->cost > YAML_COST_MAX)
		return err_set(err, -E2BIG, "more than %d values, the limit of an object",
			       YAML_COST_MAX);
	return 0;
}

static struct anchor *anchor_find(const struct yaml *y, const char *name)
{
	return htable_find(&y->anchors, text_hash(name), struct anchor, a,
			   strcmp(a->name, name) == 0);
}

/* Anchors outlive the list entry that contains them, so their values have their own limit. */
static int anchor_put(struct yaml *y, const yaml_char_t *anchor, json_t *value, size_t cost,
		      struct err *err)
{
	const char *name = (const char *)anchor;
	struct anchor *a;

	if (name == NULL)
		return 0;
	y->anchors_cost += cost;
	if (y->anchors_cost > YAML_COST_MAX)
		return err_set(err, -E2BIG, "anchors with more values than allowed (%d)",
			       YAML_COST_MAX);
	a = anchor_find(y, name);
	if (a == NULL) {
		size_t len = strlen(name);

		a = xcalloc(1, sizeof(*a) + len + 1);
		memcpy(a->name, name, len);
		htable_insert(&y->anchors, &a->node, text_hash(name));
	}
	json_decref(a->value);
	a->value = json_incref(value);
	a->cost = cost;
	return 0;
}

/* "<<": an object, or a list of objects; merged when the object is complete. */
static int merge_put(struct frame *f, json_t *value, struct err *err)
{
	bool is_right = json_is_array(value);
	json_t *m;
	size_t i;

	if (f->merges == NULL)
		f->merges = json_array();
	if (json_is_object(value))
		return json_array_append(f->merges, value);
	json_array_foreach (value, i, m)
		is_right = is_right && json_is_object(m) && json_array_append(f->merges, m) == 0;
	if (!is_right)
		return err_set(err, -EINVAL,
			       "the value of a merge key '<<' is not an object or a list of them");
	return 0;
}

/* Keys of the object have precedence, then those of earlier merges. */
static int merges_apply(struct yaml *y, struct frame *f, struct err *err)
{
	json_t *m;
	size_t i;
	int r;

	json_array_foreach (f->merges, i, m) {
		r = cost_add(y, json_object_size(m), err);
		if (r < 0)
			return r;
		(void)json_object_update_missing(f->value, m);
	}
	return 0;
}

static bool is_in_items(const struct yaml *y)
{
	return y->depth == 2 && y->stack[1].is_items;
}

/* Takes `value`, the next child of the innermost container (or the root). */
static int value_put(struct yaml *y, json_t *value, uint32_t line, struct err *err)
{
	struct frame *f;
	int r = 0;

	if (y->depth == 0 || is_in_items(y)) {
		y->done = value;
		y->line = line;
		return 0;
	}
	f = &y->stack[y->depth - 1];
	if (json_is_array(f->value)) {
		uint32_t i = (uint32_t)json_array_size(f->value);

		*vec_push(&y->lines) = (struct line){ f->value, i, line };
		(void)json_array_append_new(f->value, value);
		return 0;
	}
	if (strcmp(f->key, "<<") == 0) {
		r = merge_put(f, value, err);
		json_decref(value);
	} else {
		*vec_push(&y->lines) = (struct line){ f->value, text_hash(f->key), line };
		(void)json_object_set_new_nocheck(f->value, f->key, value);
	}
	free(TAKE(f->key));
	return r;
}

static bool needs_key(const struct yaml *y)
{
	const struct frame *f = y->depth > 0 ? &y->stack[y->depth - 1] : NULL;

	return f != NULL && json_is_object(f->value) && f->key == NULL;
}

static int key_put(struct yaml *y, const char *text, size_t len, uint32_t line, struct err *err)
{
	struct frame *f = &y->stack[y->depth - 1];

	if (memchr(text, '\0', len) != NULL)
		return err_set(err, -EINVAL, "key contains a NUL character");
	if (json_object_get(f->value, text) != NULL) {
		if (y->twice == NULL)
			return err_set(err, -EINVAL, "duplicate key '%.64s'", text);
		y->twice(y->twice_arg, text, line);
	}
	f->key = xstrndup(text, len);
	return 0;
}

static int container_close(struct yaml *y, struct err *err)
{
	struct frame *f = &y->stack[y->depth - 1];
	uint32_t line = f->line;
	json_t *value;
	int r = merges_apply(y, f, err);

	if (r == 0)
		r = anchor_put(y, (const yaml_char_t *)f->anchor, f->value,
			       y->cost - f->cost_before, err);
	if (r < 0)
		return r;
	value = json_incref(f->value);
	frame_clear(f);
	y->depth--;
	return value_put(y, value, line, err);
}

/* --- events --------------------------------------------------------------- */

static int on_key(struct yaml *y, const yaml_event_t *ev, struct err *err)
{
	const char *text = (const char *)ev->data.scalar.value;
	size_t len = ev->data.scalar.length;
	json_auto_t *v = NULL;
	int r = key_put(y, text, len, event_line(y, ev), err);

	if (r < 0)
		return r;
	v = json_stringn_nocheck(text, len);
	return anchor_put(y, ev->data.scalar.anchor, v, COST_SCALAR, err);
}

static int on_scalar(struct yaml *y, const yaml_event_t *ev, struct err *err)
{
	json_auto_t *v = NULL;
	int r = cost_add(y, COST_SCALAR, err);

	if (r == 0 && needs_key(y))
		return on_key(y, ev, err);
	if (r == 0)
		r = scalar_value(&v, ev, err);
	if (r == 0)
		r = anchor_put(y, ev->data.scalar.anchor, v, COST_SCALAR, err);
	return r < 0 ? r : value_put(y, TAKE(v), event_line(y, ev), err);
}

static int on_alias(struct yaml *y, const yaml_event_t *ev, struct err *err)
{
	const char *name = (const char *)ev->data.alias.anchor;
	const struct anchor *a = anchor_find(y, name);
	int r = a != NULL
			? cost_add(y, a->cost, err)
			: err_set(err, -EINVAL,
				  "alias without an anchor (text that begins with '*' needs quotes)");

	if (r < 0)
		return r;
	if (!needs_key(y))
		return value_put(y, json_incref(a->value), event_line(y, ev), err);
	if (!json_is_string(a->value))
		return err_set(err, -EINVAL, "key is an alias of a value that is not text");
	return key_put(y, json_string_value(a->value), json_string_length(a->value),
		       event_line(y, ev), err);
}

static int on_container(struct yaml *y, const yaml_event_t *ev, struct err *err)
{
	bool is_object = ev->type == YAML_MAPPING_START_EVENT;
	const yaml_char_t *tag =
		is_object ? ev->data.mapping_start.tag : ev->data.sequence_start.tag;
	const yaml_char_t *anchor =
		is_object ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor;
	const struct frame *root = y->stack;
	struct frame *f;

	if (tag != NULL && strcmp((const char *)tag, "!") != 0 &&
	    strcmp(tag_short((const char *)tag), is_object ? "map" : "seq") != 0)
		return err_set(err, -EINVAL, "unknown tag");
	if (needs_key(y))
		return err_set(err, -EINVAL, "key is a list or an object");
	if (y->depth == YAML_DEPTH_MAX)
		return err_set(err, -E2BIG, "nested deeper than %d levels", YAML_DEPTH_MAX);
	f = &y->stack[y->depth++];
	*f = (struct frame){ .value = is_object ? json_object() : json_array(),
			     .cost_before = y->cost,
			     .line = event_line(y, ev) };
	f->is_items =
		y->depth == 2 && !is_object && root->key != NULL && strcmp(root->key, "items") == 0;
	if (f->is_items)
		y->lines_root = y->lines.n;
	if (anchor != NULL)
		f->anchor = xstrdup((const char *)anchor);
	*vec_push(&y->lines) = (struct line){ f->value, LINE_SELF, f->line };
	return cost_add(y, is_object ? COST_OBJECT : COST_LIST, err);
}

/* 1: end of the text. */
static int on_event(struct yaml *y, const yaml_event_t *ev, struct err *err)
{
	switch (ev->type) {
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	case YAML_DOCUMENT_START_EVENT:
		document_clear(y);
		vec_clear(&y->lines);
		return 0;
	case YAML_STREAM_END_EVENT:
		return 1;
	case YAML_ALIAS_EVENT:
		return on_alias(y, ev, err);
	case YAML_SCALAR_EVENT:
		return on_scalar(y, ev, err);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return on_container(y, ev, err);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return container_close(y, err);
	}
	return 0;
}

static uint32_t newlines(const char *text, size_t len)
{
	uint32_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

/* The most frequent mistake: line `line` of the text (from 0) is indented with a tab. */
static bool is_tab_line(const struct yaml *y, size_t line)
{
	const char *end = y->text + y->text_len;
	const char *p = y->text;

	for (; line > 0 && p < end; p++)
		line -= *p == '\n';
	while (p < end && *p == ' ')
		p++;
	return p < end && *p == '\t';
}

/* libyaml has a mark for syntax errors and an offset for invalid bytes. */
static int parser_error(struct yaml *y, struct err *err)
{
	const yaml_parser_t *p = &y->parser;
	const char *problem = p->problem ? p->problem : "cannot be read";

	y->line = y->line0 + (uint32_t)p->problem_mark.line;
	if (p->error == YAML_MEMORY_ERROR)
		return err_set(err, -ENOMEM, "out of memory");
	if (y->read_error == -E2BIG)
		return err_set(err, -E2BIG, "larger than %u MiB, the limit of an object",
			       YAML_TEXT_MAX >> 20);
	if (y->read_error != 0)
		return err_set(err, y->read_error, "%s", strerror(-y->read_error));
	if (p->error == YAML_READER_ERROR) {
		y->line = y->line0 + (uint32_t)p->mark.line;
		if (y->text != NULL)
			y->line = y->line0 + newlines(y->text, MIN(p->problem_offset, y->text_len));
		return err_set(err, -EINVAL, "%s", problem);
	}
	if (y->text != NULL && is_tab_line(y, p->problem_mark.line))
		return err_set(err, -EINVAL, "indented with a tab, YAML allows only spaces");
	if (p->context == NULL)
		return err_set(err, -EINVAL, "%s", problem);
	return err_set(err, -EINVAL, "%s: %s", p->context, problem);
}

static void value_begin(struct yaml *y)
{
	y->is_begun = true;
	y->text_bytes = 0;
	/* The limits apply to each entry, and to the root without entries. */
	if (is_in_items(y)) {
		vec_cut(&y->lines, MIN(y->lines.n, y->lines_root));
		y->cost = 0;
	}
}

int yaml_next_part(struct yaml *y, json_t **ret, struct err *err)
{
	yaml_event_t ev;
	int r = 0;

	if (!y->is_begun)
		value_begin(y);
	for (size_t n = 0; y->done == NULL; n++) {
		if (n == YAML_PART_EVENTS)
			return YAML_PART;
		if (!yaml_parser_parse(&y->parser, &ev))
			return parser_error(y, err);
		r = on_event(y, &ev, err);
		if (r < 0)
			y->line = event_line(y, &ev);
		yaml_event_delete(&ev);
		if (r != 0)
			return r < 0 ? r : YAML_END;
	}
	*ret = TAKE(y->done);
	y->is_begun = false;
	return y->depth > 0 ? YAML_ITEM : YAML_DOCUMENT;
}

int yaml_next(struct yaml *y, json_t **ret, struct err *err)
{
	int r;

	do
		r = yaml_next_part(y, ret, err);
	while (r == YAML_PART);
	return r;
}

json_t *yaml_root(const struct yaml *y)
{
	return y->depth > 0 ? y->stack[0].value : NULL;
}

uint32_t yaml_line(const struct yaml *y)
{
	return y->line;
}

size_t yaml_cost(const struct yaml *y)
{
	return y->cost;
}
