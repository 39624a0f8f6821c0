/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source/decode/jsonsplit.h"
#include "source/kube/proto_objects.h"

/* Names are in the beginning of an object that is too large. */
#define JSON_HEAD_MAX (512U << 10)

struct stream {
	struct stream_config c;
	struct jsonsplit json;
	struct protosplit proto;
	bool is_list_checked; /* the kind of the list is right */
	bool is_list_over;
	struct stream_list list; /* `version` is "" until it has been read */
	struct tree_pool pool;   /* of one protobuf object */
};

/* --- both encodings ------------------------------------------------------- */

const char *stream_version_of(const json_t *obj)
{
	const json_t *v = tree_get(tree_get(obj, "metadata"), "resourceVersion");
	size_t len = tree_text_len(v);

	return len > 0 && len < STREAM_VERSION_MAX ? tree_text(v) : NULL;
}

bool stream_is_initial_end(const json_t *obj)
{
	const json_t *a = tree_get(tree_get(obj, "metadata"), "annotations");
	const char *v = tree_text(tree_get(a, "k8s.io/initial-events-end"));

	return v != NULL && strcmp(v, "true") == 0;
}

static enum stream_event event_parse(const char *type, size_t len)
{
	int i = str_words_find("ADDED MODIFIED DELETED BOOKMARK ERROR", type, len);

	return i >= 0 ? STREAM_ADDED + (enum stream_event)i : STREAM_UNKNOWN;
}

static int event_kind_check(const struct stream *s, enum stream_event e, const char *kind,
			    struct err *err)
{
	const char *expected = e == STREAM_ERROR ? "Status" : object_kind_text(s->c.kind);

	if (kind == NULL || strcmp(kind, expected) != 0)
		return err_set(err, -EBADMSG, "event has kind '%.64s' instead of %s",
			       kind ? kind : "", expected);
	return 0;
}

static int list_kind_check(struct stream *s, const char *kind, struct err *err)
{
	const char *expected = object_kind_text(s->c.kind);
	size_t len = strlen(expected);

	if (kind == NULL || strncmp(kind, expected, len) != 0 || strcmp(kind + len, "List") != 0)
		return err_set(err, -EBADMSG, "kind is '%.64s' instead of %sList", kind ? kind : "",
			       expected);
	s->is_list_checked = true;
	return 0;
}

static void list_meta_read(struct stream *s, const json_t *meta)
{
	const json_t *version = tree_get(meta, "resourceVersion");
	const json_t *next = tree_get(meta, "continue");
	size_t len = tree_text_len(version);

	free(s->list.next);
	s->list = (struct stream_list){ .next = NULL };
	if (len < STREAM_VERSION_MAX && len > 0)
		memcpy(s->list.version, tree_text(version), len);
	if (tree_text_len(next) > 0)
		s->list.next = xstrdup(tree_text(next));
}

/* --- JSON ----------------------------------------------------------------- */

/* A NUL in a text concerns one object (text_value() in trail.c), not the list. */
static int json_read(json_t **ret, const char *text, size_t len, struct err *err)
{
	json_error_t why;

	*ret = json_loadb(text, len, JSON_ALLOW_NUL, &why);
	if (*ret == NULL)
		return err_set(err, -EBADMSG, "not JSON: %s", json_error_words(&why));
	return 0;
}

/* Check the kind before the first item. */
static int json_list_begin(struct stream *s, struct err *err)
{
	json_error_t why;
	json_auto_t *root = jsonsplit_root(&s->json, &why);

	if (root == NULL)
		return err_set(err, -EBADMSG, "not JSON: %s", json_error_words(&why));
	return list_kind_check(s, json_string_value(json_object_get(root, "kind")), err);
}

static int json_item(void *arg, const struct json_piece *p, struct err *err)
{
	struct stream *s = arg;
	json_auto_t *obj = NULL;
	int r = 0;

	if (s->c.mode != STREAM_LIST || s->is_list_over)
		return err_set(err, -EBADMSG, "unexpected list");
	if (!s->is_list_checked)
		r = json_list_begin(s, err);
	if (r == 0)
		r = json_read(&obj, p->text, p->len, err);
	if (r < 0)
		return r;
	return s->c.object(s->c.arg, STREAM_ITEM, obj, NULL, err);
}

static int json_list_done(struct stream *s, const json_t *root, struct err *err)
{
	int r = list_kind_check(s, json_string_value(json_object_get(root, "kind")), err);

	if (r < 0)
		return r;
	if (s->is_list_over)
		return err_set(err, -EBADMSG, "more than one list");
	s->is_list_over = true;
	list_meta_read(s, json_object_get(root, "metadata"));
	return 0;
}

static int json_event(struct stream *s, const json_t *root, struct err *err)
{
	const json_t *type = json_object_get(root, "type");
	const json_t *obj = json_object_get(root, "object");
	enum stream_event e;
	int r;

	if (!json_is_string(type) || !json_is_object(obj))
		return err_set(err, -EBADMSG, "not a watch event");
	e = event_parse(json_string_value(type), json_string_length(type));
	if (e == STREAM_UNKNOWN)
		return s->c.object(s->c.arg, e, NULL, "unknown event type", err);
	r = event_kind_check(s, e, json_string_value(json_object_get(obj, "kind")), err);
	return r < 0 ? r : s->c.object(s->c.arg, e, obj, NULL, err);
}

static int json_root(void *arg, const struct json_piece *p, struct err *err)
{
	struct stream *s = arg;
	json_auto_t *root = NULL;
	int r = json_read(&root, p->text, p->len, err);

	if (r < 0)
		return r;
	return s->c.mode == STREAM_LIST ? json_list_done(s, root, err) : json_event(s, root, err);
}

/*
 * The beginning of an object, cut anywhere: its complete values. A new reference, or NULL. The
 * splitter has compared the brackets.
 */
static json_t *json_beginning(const char *text, size_t len)
{
	char closing[JSON_DEPTH_MAX];
	FINI(str_fini) struct str whole = { 0 };
	bool is_text = false;
	size_t depth = 0;
	size_t end = 0; /* of what is complete if all containers are closed there */

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '"')
			is_text = !is_text;
		else if (is_text)
			i += c == '\\';
		else if (c == '{' || c == '[')
			closing[depth++] = c == '{' ? '}' : ']';
		else if (c == '}' || c == ']')
			depth--;
		if (!is_text && memchr(",{[}]", c, 5) != NULL)
			end = i + (c != ',');
	}
	str_add(&whole, text, end);
	while (depth > 0)
		str_add(&whole, &closing[--depth], 1);
	return json_loadb(str_text(&whole), whole.len, JSON_ALLOW_NUL, NULL);
}

static int json_too_big(void *arg, const struct json_piece *p, const char *why, struct err *err)
{
	struct stream *s = arg;
	json_auto_t *root = json_beginning(p->text, MIN(p->len, (size_t)JSON_HEAD_MAX));
	const json_t *type = json_object_get(root, "type");
	enum stream_event e = STREAM_ITEM;
	const json_t *obj = root;

	if (s->c.mode != STREAM_LIST) {
		obj = json_object_get(root, "object");
		e = event_parse(json_string_value(type), json_string_length(type));
	}
	if (!json_is_string(json_object_get(json_object_get(obj, "metadata"), "name")))
		obj = NULL;
	return s->c.object(s->c.arg, e, obj, why, err);
}

static const struct jsonsplit_ops json_ops = {
	.item = json_item,
	.object = json_root,
	.too_big = json_too_big,
};

/* --- protobuf ------------------------------------------------------------- */

/* Report an object that is no valid message of its kind. */
static int proto_unreadable(struct stream *s, enum stream_event e, struct proto object,
			    const char *why, struct err *err)
{
	const json_t *identity;

	if (proto_identity(&identity, &s->pool, object, NULL) < 0)
		identity = NULL;
	return s->c.object(s->c.arg, e, identity, why, err);
}

static int proto_put(struct stream *s, enum stream_event e, const void *data, size_t len,
		     struct err *err)
{
	enum object_kind kind = e == STREAM_ERROR ? OBJECT_KIND_OTHER : s->c.kind;
	struct err why = { .text = "" };
	const json_t *obj;

	tree_pool_clear(&s->pool);
	if (proto_object(&obj, &s->pool, kind, data, len, &why) < 0)
		return proto_unreadable(s, e, proto_over(data, len), why.text, err);
	return s->c.object(s->c.arg, e, obj, NULL, err);
}

/* Fields of WatchEvent: 1 type, 2 object (RawExtension: 1 raw, an envelope). */
static int proto_frame(struct stream *s, const void *data, size_t len, struct err *err)
{
	struct proto_field f[2];
	struct proto_field raw = { 0 };
	struct proto_envelope env;
	enum stream_event e;
	int r = proto_fields(f, ARRAY_SIZE(f), data, len, err);

	if (r == 0)
		r = proto_fields(&raw, 1, f[1].data, f[1].len, err);
	if (r == 0 && (f[0].number == 0 || raw.number == 0))
		r = err_set(err, -EBADMSG, "not a watch event");
	if (r < 0)
		return r;
	e = event_parse((const char *)f[0].data, f[0].len);
	if (e == STREAM_UNKNOWN)
		return s->c.object(s->c.arg, e, NULL, "unknown event type", err);
	r = proto_envelope_read(&env, raw.data, raw.len, err);
	if (r == 0)
		r = event_kind_check(s, e, env.kind, err);
	return r < 0 ? r : proto_put(s, e, env.raw, env.raw_len, err);
}

static enum stream_event frame_event(struct proto p)
{
	if (!proto_enter(&p, 1))
		return STREAM_UNKNOWN;
	return event_parse((const char *)p.p, (size_t)(p.end - p.p));
}

/* The object in the beginning of a frame. */
static struct proto frame_object(struct proto p)
{
	struct proto nothing = { .is_cut = true };

	if (!proto_enter(&p, 2) || !proto_enter(&p, 1) || p.end - p.p < PROTO_MAGIC_LEN)
		return nothing;
	p.p += PROTO_MAGIC_LEN;
	return proto_enter(&p, 2) ? p : nothing;
}

static int proto_too_big(struct stream *s, enum proto_piece what, const struct proto_bytes *b,
			 struct err *err)
{
	struct proto p = proto_over(b->data, b->len);
	const char *why =
		str_local(64, "larger than %u MiB, the limit of an object", PROTO_PIECE_MAX >> 20);

	p.is_cut = true;
	if (what == PROTO_PIECE_ITEM)
		return proto_unreadable(s, STREAM_ITEM, p, why, err);
	return proto_unreadable(s, frame_event(p), frame_object(p), why, err);
}

static int proto_piece(void *arg, enum proto_piece what, const struct proto_bytes *b,
		       struct err *err)
{
	struct stream *s = arg;
	char kind[PROTO_KIND_MAX];
	const json_t *meta;
	int r;

	if (b->whole_len > b->len)
		return proto_too_big(s, what, b, err);
	switch (what) {
	case PROTO_PIECE_NONE:
		break;
	case PROTO_PIECE_TYPE:
		r = proto_kind_read(kind, b->data, b->len, err);
		return r < 0 ? r : list_kind_check(s, kind, err);
	case PROTO_PIECE_META:
		tree_pool_clear(&s->pool);
		r = proto_object(&meta, &s->pool, OBJECT_KIND_LIST, b->data, b->len, err);
		if (r == 0)
			list_meta_read(s, meta);
		return r;
	case PROTO_PIECE_ITEM:
		return proto_put(s, STREAM_ITEM, b->data, b->len, err);
	case PROTO_PIECE_FRAME:
		return proto_frame(s, b->data, b->len, err);
	}
	return 0;
}

/* --- the stream ----------------------------------------------------------- */

void stream_open(struct stream **ret, const struct stream_config *config)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->c = *config;
	if (s->c.encoding == STREAM_PROTOBUF)
		protosplit_init(&s->proto, s->c.mode, proto_piece, s);
	else
		jsonsplit_init(&s->json, &json_ops, s);
	*ret = s;
}

void stream_close(struct stream *s)
{
	if (s == NULL)
		return;
	protosplit_fini(&s->proto);
	jsonsplit_fini(&s->json);
	free(s->list.next);
	tree_pool_fini(&s->pool);
	free(s);
}

int stream_feed(struct stream *s, const void *data, size_t len, struct err *err)
{
	if (s->c.encoding == STREAM_PROTOBUF)
		return protosplit_feed(&s->proto, data, len, err);
	return jsonsplit_feed(&s->json, data, len, err);
}

int stream_end(struct stream *s, struct stream_list *ret, struct err *err)
{
	int r = s->c.encoding == STREAM_PROTOBUF ? protosplit_end(&s->proto, err)
						 : jsonsplit_end(&s->json, err);

	if (r == 0 && s->c.mode == STREAM_LIST && s->c.encoding == STREAM_JSON && !s->is_list_over)
		r = err_set(err, -EBADMSG, "empty answer");
	if (r < 0 || s->c.mode != STREAM_LIST)
		return r;
	if (!s->is_list_checked || s->list.version[0] == '\0')
		return err_set(err, -EBADMSG, "list without a resource version");
	*ret = s->list;
	s->list.next = NULL;
	return 0;
}

/* --- encodings ------------------------------------------------------------ */

enum stream_encoding stream_encoding_of(const char *content_type)
{
	static const struct {
		const char *type;
		enum stream_encoding encoding;
	} types[] = {
		{ "application/json", STREAM_JSON },
		{ "application/vnd.kubernetes.protobuf", STREAM_PROTOBUF },
	};
	size_t len = content_type ? strcspn(content_type, "; \t\r\n") : 0;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i].type) == len &&
		    strncasecmp(types[i].type, content_type, len) == 0)
			return types[i].encoding;
	return STREAM_ENCODING_UNSET;
}

/* --- Status ---------------------------------------------------------------- */

/* Servers give the reason as a cause; old ones in the message. */
static bool is_too_large(const json_t *status, const char *message)
{
	const json_t *causes = tree_get(tree_get(status, "details"), "causes");

	for (size_t i = 0; i < tree_count(causes); i++) {
		const char *reason = tree_text(tree_get(tree_at(causes, i), "reason"));

		if (reason != NULL && strcmp(reason, "ResourceVersionTooLarge") == 0)
			return true;
	}
	return message != NULL && strstr(message, "Too large resource version") != NULL;
}

void api_status_read(struct api_status *ret, const json_t *status)
{
	const char *message = tree_text(tree_get(status, "message"));
	const char *reason = tree_text(tree_get(status, "reason"));

	ret->code = (int)tree_number(tree_get(status, "code"));
	ret->is_too_large = is_too_large(status, message);
	(void)err_set(&ret->text, 0, "%d %.64s: %.300s", ret->code, reason ? reason : "",
		      message ? message : "no message");
	for (char *p = ret->text.text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
}

bool stream_status(struct api_status *ret, enum stream_encoding encoding, const void *data,
		   size_t len)
{
	FINI(tree_pool_fini) struct tree_pool pool = { 0 };
	struct proto_envelope e = { .kind = "" };
	const char *kind = e.kind;
	const json_t *obj = NULL;
	json_auto_t *root = NULL;

	if (encoding == STREAM_PROTOBUF && proto_envelope_read(&e, data, len, NULL) == 0 &&
	    proto_object(&obj, &pool, OBJECT_KIND_OTHER, e.raw, e.raw_len, NULL) < 0)
		obj = NULL;
	if (encoding == STREAM_JSON && json_read(&root, data, len, NULL) == 0) {
		kind = json_string_value(json_object_get(root, "kind")) ?: "";
		obj = root;
	}
	if (obj == NULL || strcmp(kind, "Status") != 0)
		return false;
	api_status_read(ret, obj);
	return true;
}
