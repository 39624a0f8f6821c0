/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/manifest - split YAML into documents and JSON into objects, and decode both into pieces.
 *
 * The format depends on the text, as with kubectl: a .json file that begins with '{' is a stream of
 * JSON objects, any other file is YAML. A document of a YAML file that begins with '{' and is not
 * valid YAML is read as JSON, which allows tabs, objects without a separator and UTF-16 escapes.
 */
#include "source/files/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "source/decode/jsonsplit.h"
#include "source/decode/yamlread.h"

enum format {
	FORMAT_UNSET = 0,
	FORMAT_YAML,
	FORMAT_JSON,
};

/* An entry of a list whose kind follows later. */
struct pending {
	json_t *obj;
	uint32_t line; /* of the file */
};

struct manifest_work {
	struct manifest m; /* what the owner sees */
	struct manifest_ops ops;
	struct cut cut;
	enum format format;
	/* The current document. */
	struct cut_piece doc;
	bool is_stream;
	struct yaml *yaml;
	struct jsonsplit json;
	bool is_failed; /* the rest of a JSON file is lost */
	bool is_sub;    /* the JSON is a document of a YAML file */
	/* The current list. */
	bool is_list_known;
	enum object_kind list_kind; /* of its entries */
	size_t root_len;            /* of JSON: that much of the root has no kind */
	VEC(struct pending) pending;
	size_t pending_cost;
	/* The current value: source of line numbers. */
	const struct json_piece *json_piece;
	struct json_lines json_lines; /* of json_piece */
	bool is_detached;             /* its text is freed: only its first line is known */
};

static const struct jsonsplit_ops split_ops;

/* --- life ----------------------------------------------------------------- */

void manifest_open(struct manifest **ret, const struct manifest_ops *ops)
{
	struct manifest_work *w = xcalloc(1, sizeof(*w));

	w->ops = *ops;
	cut_init(&w->cut, ops->read, ops->arg);
	jsonsplit_init(&w->json, &split_ops, w);
	*ret = &w->m;
}

static void pending_clear(struct manifest_work *w)
{
	vec_for_each (p, &w->pending)
		json_decref(p->obj);
	vec_clear(&w->pending);
	w->pending_cost = 0;
}

static void piece_fini(struct piece *p)
{
	name_pair_unref(p->ns, p->name);
	object_fini(&p->obj);
	free(p->why);
}

void manifest_close(struct manifest *m)
{
	struct manifest_work *w = container_of(m, struct manifest_work, m);

	if (m == NULL)
		return;
	pending_clear(w);
	vec_fini(&w->pending);
	yaml_close(w->yaml);
	jsonsplit_fini(&w->json);
	cut_fini(&w->cut);
	vec_for_each (p, &m->pieces)
		piece_fini(p);
	vec_for_each (n, &m->notes)
		free(n->text);
	vec_fini(&m->units);
	vec_fini(&m->pieces);
	vec_fini(&m->notes);
	free(w);
}

/* --- units and pieces ----------------------------------------------------- */

static struct unit *unit_last(struct manifest_work *w)
{
	return &w->m.units.v[w->m.units.n - 1];
}

/* True: the caller knows this text. A hash of 0 never matches. */
static bool unit_begin(struct manifest_work *w, const char *text, size_t len, uint64_t salt,
		       uint32_t line)
{
	const struct manifest_ops *ops = &w->ops;
	struct unit *u = vec_push(&w->m.units);

	*u = (struct unit){ .line = line };
	if (text != NULL) {
		u->hash = hash_bytes_fixed(text, len, ops->key[0], ops->key[1] ^ salt) | 1;
		u->known = ops->known(ops->arg, u->hash);
	}
	if (u->known == 0)
		w->m.parsed_bytes += len;
	return u->known != 0;
}

/* A piece of the last unit; `line` is the file's. */
static struct piece *piece_add(struct manifest_work *w, enum piece_state state, uint32_t line)
{
	struct unit *u = unit_last(w);
	struct piece *p = vec_push(&w->m.pieces);

	u->n_pieces++;
	*p = (struct piece){ .state = state, .line = line - MIN(line, u->line) };
	return p;
}

static struct piece *unreadable_add(struct manifest_work *w, uint32_t line, const char *why)
{
	struct piece *p = piece_add(w, PIECE_UNREADABLE, line);

	p->why_line = p->line;
	p->why = xstrdup(why);
	return p;
}

static struct piece *piece_last(const struct manifest_work *w)
{
	return &w->m.pieces.v[w->m.pieces.n - 1];
}

static void json_piece_set(struct manifest_work *w, const struct json_piece *p)
{
	w->json_piece = p;
	json_lines_fini(&w->json_lines);
}

/* The line of the decoder's current value, counted from the first line of the last unit. */
static uint32_t value_line(struct manifest_work *w, const struct decode *d)
{
	uint32_t line;

	if (w->is_detached || (w->yaml == NULL && w->json_piece == NULL))
		return piece_last(w)->line;
	line = w->yaml != NULL ? yaml_line_of(w->yaml, d)
			       : json_lines_of(&w->json_lines, w->json_piece, d);
	return line - MIN(line, unit_last(w)->line);
}

/* --- one object ----------------------------------------------------------- */

/* About the last piece. */
static void on_note(void *arg, const struct decode *d, const char *text)
{
	struct manifest_work *w = arg;
	const struct piece *p = piece_last(w);
	struct str title = { 0 };

	if (w->m.notes.n >= MANIFEST_NOTES_MAX) {
		unit_last(w)->n_lost++;
		return;
	}
	object_title(&title, p->kind, p->ns, p->name);
	str_printf(&title, ": %s", text);
	*vec_push(&w->m.notes) = (struct manifest_problem){ .unit = (uint32_t)w->m.units.n - 1,
							    .line = value_line(w, d),
							    .text = title.text };
}

static void other_count(struct manifest_work *w, const json_t *obj)
{
	const char *kind = json_string_value(json_object_get(obj, "kind"));

	unit_last(w)->n_others++;
	if (w->m.other[0] == '\0')
		(void)snprintf(w->m.other, sizeof(w->m.other), "%s", kind ? kind : "?");
}

/* Guess the kind of an object that decode_kind() rejected. */
static enum object_kind kind_guess(const json_t *obj)
{
	const char *text = json_string_value(json_object_get(obj, "kind"));

	for (enum object_kind k = OBJECT_KIND_SERVICE; text && k <= OBJECT_KIND_SERVICE_CIDR; k++)
		if (strcmp(text, object_kind_text(k)) == 0)
			return k;
	return OBJECT_KIND_OTHER;
}

/* Guess kind and name of an object that cannot be decoded. False: no name. */
static bool name_guess(struct piece *p, const json_t *obj)
{
	struct decode d = { .default_ns = "default" };

	p->kind = kind_guess(obj);
	return p->kind != OBJECT_KIND_OTHER &&
	       decode_key(&p->ns, &p->name, p->kind, obj, &d, NULL) == 0;
}

/* The last piece is invalid. */
static void piece_reject(struct manifest_work *w, const struct decode *d, enum piece_state state,
			 const char *why)
{
	struct piece *p = piece_last(w);

	p->state = state;
	p->why_line = value_line(w, d);
	p->why = xstrdup(why);
}

/* An object with an unsupported kind or version: its name may be readable. */
static void bad_kind_add(struct manifest_work *w, const json_t *obj, uint32_t line,
			 const struct decode *d, const char *why)
{
	struct piece *p = piece_add(w, PIECE_BAD, line);

	if (!name_guess(p, obj))
		p->kind = OBJECT_KIND_OTHER;
	piece_reject(w, d, p->kind != OBJECT_KIND_OTHER ? PIECE_BAD : PIECE_UNREADABLE, why);
}

/* Decode an object of a supported kind. */
static void object_add(struct manifest_work *w, const json_t *obj, enum object_kind kind,
		       uint32_t line)
{
	struct piece *p = piece_add(w, PIECE_GOOD, line);
	struct decode d = {
		.note = on_note, .arg = w, .default_ns = "default", .is_strict = w->ops.is_strict
	};
	struct err err = { .text = "" };
	int r;

	p->kind = kind;
	r = decode_key(&p->ns, &p->name, kind, obj, &d, &err);
	if (r < 0) {
		piece_reject(w, &d, PIECE_UNREADABLE, err.text);
		return;
	}
	r = decode_fields(kind, obj, &d, &err);
	if (r == 0)
		r = decode_object(&p->obj, kind, obj, &d, &err);
	if (r < 0)
		piece_reject(w, &d, PIECE_BAD, err.text);
	else if (r == DECODE_IGNORED)
		p->state = PIECE_IGNORED;
}

/* Decode a document, or an entry of a list whose entries have the kind `list_kind`. */
static void value_add(struct manifest_work *w, const json_t *obj, enum object_kind list_kind,
		      uint32_t line)
{
	bool is_typed = json_object_get(obj, "kind") == NULL &&
			json_object_get(obj, "apiVersion") == NULL && list_kind != OBJECT_KIND_LIST;
	struct decode d = { .default_ns = "default" };
	enum object_kind kind = list_kind;
	enum object_kind items;
	struct err err = { .text = "" };

	if (!is_typed && decode_kind(&kind, &items, obj, &d, &err) < 0)
		bad_kind_add(w, obj, line, &d, err.text);
	else if (kind == OBJECT_KIND_OTHER)
		other_count(w, obj);
	else if (kind == OBJECT_KIND_LIST)
		unreadable_add(w, line, "a list inside a list");
	else
		object_add(w, obj, kind, line);
}

/* --- lists ---------------------------------------------------------------- */

/* Read the list's kind from the known part of the root: entries may precede the kind. */
static void list_learn(struct manifest_work *w, const json_t *root)
{
	struct decode d = { 0 };
	enum object_kind kind;

	if (w->is_list_known || json_object_get(root, "kind") == NULL ||
	    json_object_get(root, "apiVersion") == NULL)
		return;
	w->is_list_known = true;
	if (decode_kind(&kind, &w->list_kind, root, &d, NULL) < 0 || kind != OBJECT_KIND_LIST)
		w->list_kind = OBJECT_KIND_LIST;
}

/* Takes `obj`. */
static void item_add(struct manifest_work *w, json_t *obj, size_t cost, uint32_t line)
{
	if (w->is_list_known || json_object_get(obj, "kind") != NULL) {
		value_add(w, obj, w->is_list_known ? w->list_kind : OBJECT_KIND_LIST, line);
		json_decref(obj);
		return;
	}
	w->pending_cost += cost;
	if (w->pending_cost > MANIFEST_PENDING_COST_MAX) {
		unreadable_add(w, line, "too many entries without a kind before the list's kind");
		json_decref(obj);
		return;
	}
	*vec_push(&w->pending) = (struct pending){ obj, line };
}

/* The root of a document, after its items. */
static void root_add(struct manifest_work *w, const json_t *root, uint32_t line)
{
	struct decode d = { 0 };
	enum object_kind items = OBJECT_KIND_LIST;
	enum object_kind kind = OBJECT_KIND_OTHER;
	const json_t *list = json_object_get(root, "items");
	json_t *item;
	size_t i;

	if (json_is_null(root))
		return; /* empty document */
	if (decode_kind(&kind, &items, root, &d, NULL) < 0 || kind != OBJECT_KIND_LIST) {
		value_add(w, root, OBJECT_KIND_LIST, line);
		items = OBJECT_KIND_LIST;
	}
	w->is_detached = true;
	vec_for_each (p, &w->pending)
		value_add(w, p->obj, items, p->line);
	w->is_detached = false;
	pending_clear(w);
	if (kind != OBJECT_KIND_LIST)
		return;
	json_array_foreach (list, i, item)
		value_add(w, item, items, line);
}

static void list_forget(struct manifest_work *w)
{
	pending_clear(w);
	w->is_list_known = false;
	w->root_len = 0;
}

/* --- JSON ----------------------------------------------------------------- */

/* 1: not JSON, and reported, unless it may be YAML. */
static int piece_load(json_t **ret, const struct json_piece *p, struct manifest_work *w,
		      struct err *err)
{
	json_error_t error;

	*ret = json_loadb(p->text, p->len,
			  JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (*ret != NULL)
		return 0;
	if (w->is_sub)
		return err_set(err, -EINVAL, "%s", json_error_words(&error));
	unreadable_add(w, p->line + (uint32_t)MAX(error.line, 1) - 1, json_error_words(&error));
	return 1;
}

static int on_json_item(void *arg, const struct json_piece *p, struct err *err)
{
	struct manifest_work *w = arg;
	json_t *v;
	int r;

	if (!w->is_sub) {
		if (!w->is_list_known && w->json.root.text.len != w->root_len) {
			json_auto_t *root = jsonsplit_root(&w->json, NULL);

			list_learn(w, root);
			w->root_len = w->json.root.text.len;
		}
		/* The same text is another object in a list of another kind. */
		if (unit_begin(w, w->is_list_known ? p->text : NULL, p->len, 1 + w->list_kind,
			       p->line))
			return 0;
	}
	r = piece_load(&v, p, w, err);
	if (r != 0)
		return MIN(r, 0);
	json_piece_set(w, p);
	item_add(w, v, p->len / 8, p->line);
	json_piece_set(w, NULL);
	return 0;
}

static int on_json_object(void *arg, const struct json_piece *p, struct err *err)
{
	struct manifest_work *w = arg;
	json_auto_t *v = NULL;
	int r = 1;

	if (w->is_sub || !unit_begin(w, w->pending.n == 0 ? p->text : NULL, p->len, 0, p->line))
		r = piece_load(&v, p, w, err);
	if (r == 0) {
		json_piece_set(w, p);
		root_add(w, v, p->line);
		json_piece_set(w, NULL);
	}
	if (r >= 0)
		list_forget(w);
	return MIN(r, 0);
}

static const struct jsonsplit_ops split_ops = { on_json_item, on_json_object };

/* Unbalanced brackets, or a limit: the rest cannot be divided into units. */
static void json_fail(struct manifest_work *w, const char *why)
{
	(void)unit_begin(w, NULL, 0, 0, w->json.line);
	unreadable_add(w, w->json.line, why);
	w->is_failed = true;
}

static int json_step(struct manifest_work *w, struct err *err)
{
	struct cut_piece block;
	struct err why;
	int r;

	r = cut_block(&w->cut, &block, err);
	if (r < 0)
		return r;
	if (w->is_failed)
		return r == CUT_END ? 0 : 1;
	if (r == CUT_END) {
		if (jsonsplit_end(&w->json, &why) < 0)
			json_fail(w, why.text);
		return 0;
	}
	if (jsonsplit_feed(&w->json, block.text, block.len, &why) < 0)
		json_fail(w, why.text);
	return 1;
}

/* --- YAML ----------------------------------------------------------------- */

/* Only comments, directives and separators? Directives precede the cut of their document. */
static bool is_hollow(const struct cut_piece *doc)
{
	const char *p = doc->text;
	const char *end = p + doc->len;

	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((eol ? eol : end) - p);
		size_t blank;

		if (len >= 3 && (memcmp(p, "---", 3) == 0 || memcmp(p, "...", 3) == 0)) {
			p += 3;
			len -= 3;
		} else if (len > 0 && p[0] == '%') {
			len = 0;
		}
		for (blank = 0; blank < len && memchr(" \t\r", p[blank], 3) != NULL; blank++)
			;
		if (blank < len && p[blank] != '#')
			return false;
		if (eol == NULL)
			break;
		p = eol + 1;
	}
	return true;
}

static void yaml_begin(struct manifest_work *w)
{
	if (!w->is_stream && is_hollow(&w->doc))
		return;
	if (unit_begin(w, w->is_stream ? NULL : w->doc.text, w->doc.len, 0, w->doc.line))
		return;
	if (w->is_stream)
		yaml_open(&w->yaml, cut_read, &w->cut, w->doc.line);
	else
		yaml_open_text(&w->yaml, w->doc.text, w->doc.len, w->doc.line);
}

/* Discard pieces and notes of the last unit. */
static void unit_rollback(struct manifest_work *w)
{
	struct unit *u = unit_last(w);
	uint32_t unit = (uint32_t)w->m.units.n - 1;

	for (; u->n_pieces > 0; u->n_pieces--)
		piece_fini(&w->m.pieces.v[--w->m.pieces.n]);
	u->n_others = 0;
	u->n_lost = 0;
	while (w->m.notes.n > 0 && w->m.notes.v[w->m.notes.n - 1].unit == unit)
		free(w->m.notes.v[--w->m.notes.n].text);
}

/* Try to decode an invalid YAML document as JSON. True: done. */
static bool json_instead(struct manifest_work *w)
{
	const char *text = w->doc.text;
	size_t len = w->doc.len;
	struct jsonsplit split;
	size_t blank = 0;
	bool is_json;

	if (w->is_stream)
		return false;
	if (len >= 3 && memcmp(text, "---", 3) == 0)
		blank = 3;
	while (blank < len && memchr(" \t\r\n", text[blank], 4) != NULL)
		blank++;
	if (blank == len || text[blank] != '{')
		return false;
	unit_rollback(w);
	list_forget(w);
	jsonsplit_init(&split, &split_ops, w);
	split.line = w->doc.line; /* lines are those of the file */
	for (size_t i = 0; i < blank; i++)
		split.line += text[i] == '\n';
	w->is_sub = true;
	is_json = jsonsplit_feed(&split, text + blank, len - blank, NULL) == 0 &&
		  jsonsplit_end(&split, NULL) == 0;
	w->is_sub = false;
	jsonsplit_fini(&split);
	list_forget(w);
	if (!is_json)
		unit_rollback(w);
	return is_json;
}

/* Report a syntax error; read a streamed document to its end to find the next one. */
static int yaml_fail(struct manifest_work *w, const char *why, struct err *err)
{
	uint32_t line = yaml_line(w->yaml);
	json_auto_t *root = json_incref(yaml_root(w->yaml));
	char skipped[4096];
	ssize_t n = 1;

	yaml_close(TAKE(w->yaml));
	if (!json_instead(w))
		(void)name_guess(unreadable_add(w, line, why), root); /* for messages */
	list_forget(w);
	while (w->is_stream && n > 0)
		n = cut_read(&w->cut, skipped, sizeof(skipped));
	if (n < 0)
		return err_set(err, (int)n, "%s", strerror((int)-n));
	return 1;
}

static int yaml_step(struct manifest_work *w, struct err *err)
{
	json_auto_t *v = NULL;
	struct err why;
	int r = yaml_next_part(w->yaml, &v, &why);

	if (r < 0)
		return yaml_fail(w, why.text, err);
	if (r == YAML_ITEM) {
		list_learn(w, yaml_root(w->yaml));
		item_add(w, TAKE(v), yaml_cost(w->yaml), yaml_line(w->yaml));
	} else if (r == YAML_DOCUMENT) {
		root_add(w, v, yaml_line(w->yaml));
		list_forget(w);
	} else if (r == YAML_END) {
		yaml_close(TAKE(w->yaml));
	}
	return 1;
}

/* Stop reading: a last, unreadable unit reports it and keeps earlier objects of the file. */
static int too_many(struct manifest_work *w)
{
	(void)unit_begin(w, NULL, 0, 0, w->cut.line);
	unreadable_add(w, w->cut.line,
		       str_local(80, "more than %d objects in one file, the rest is not read",
				 MANIFEST_PIECES_MAX));
	return 0;
}

int manifest_step(struct manifest *m, struct err *err)
{
	struct manifest_work *w = container_of(m, struct manifest_work, m);
	char first;
	int r;

	if (MAX(w->m.pieces.n, w->m.units.n) > MANIFEST_PIECES_MAX)
		return too_many(w);
	if (w->format == FORMAT_UNSET) {
		r = cut_peek(&w->cut, &first, err);
		if (r < 0)
			return r;
		w->format = w->ops.is_json && first == '{' ? FORMAT_JSON : FORMAT_YAML;
	}
	if (w->format == FORMAT_JSON)
		return json_step(w, err);
	if (w->yaml != NULL)
		return yaml_step(w, err);
	r = cut_next(&w->cut, &w->doc, err);
	if (r <= 0)
		return r;
	w->is_stream = r == CUT_STREAM;
	if (w->is_stream)
		w->m.parsed_bytes += CUT_DOCUMENT_MAX;
	yaml_begin(w);
	return 1;
}
