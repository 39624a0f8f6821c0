/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every recording of a real server, cut at every byte; truncated, damaged and foreign answers. */
#include "source/kube/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "source/decode/jsonsplit.h"
#include "test.h"

/* --- a stream as text ----------------------------------------------------- */

struct seen {
	struct str text;
	size_t n;
	size_t unreadable;
	int stop_at; /* return -ESTALE for object number ... */
};

static const char *event_text(enum stream_event e)
{
	static const char *const names[] = { "unknown", "item",     "added", "modified",
					     "deleted", "bookmark", "error" };

	return names[e];
}

static const char *meta(const json_t *obj, const char *key)
{
	const char *v = tree_text(tree_get(tree_get(obj, "metadata"), key));

	return v ? v : "";
}

static int on_object(void *arg, enum stream_event e, const json_t *obj, const char *why,
		     struct err *err)
{
	struct seen *s = arg;

	if (why != NULL) {
		str_printf(&s->text, "unreadable %s %s/%s\n", event_text(e), meta(obj, "namespace"),
			   meta(obj, "name"));
		s->unreadable++;
		return 0;
	}
	str_printf(&s->text, "%s %s/%s@%s\n", event_text(e), meta(obj, "namespace"),
		   meta(obj, "name"), meta(obj, "resourceVersion"));
	s->n++;
	return s->stop_at != 0 && (int)s->n == s->stop_at ? err_set(err, -ESTALE, "stop") : 0;
}

static struct stream *stream_over(struct seen *s, enum stream_mode mode, enum stream_encoding e,
				  enum object_kind kind)
{
	struct stream *st;

	stream_open(
		&st,
		&(struct stream_config){
			.mode = mode, .encoding = e, .kind = kind, .object = on_object, .arg = s });
	return st;
}

/* Feed in pieces of `step` bytes, the first of `first`. */
static int feed(struct stream *st, const char *data, size_t len, size_t first, size_t step,
		struct err *err)
{
	size_t n = MIN(first, len);
	int r = 0;

	for (; r == 0 && len > 0; data += n, len -= n, n = MIN(step, len)) {
		/* A copy, so that the sanitizers detect reads beyond it. */
		char *copy = malloc(n ? n : 1);

		memcpy(copy, data, n);
		r = n == 0 ? 0 : stream_feed(st, copy, n, err);
		free(copy);
	}
	return r;
}

/* --- recordings ----------------------------------------------------------- */

static const struct {
	const char *file;
	enum stream_mode mode;
	enum object_kind kind;
	size_t objects;
	const char *version; /* lists */
	bool has_next;
	const char *first; /* line of `seen` */
	const char *last;
} recordings[] = {
	{ "services-list.http", STREAM_LIST, OBJECT_KIND_SERVICE, 11, "241", false,
	  "item default/kubernetes@206\n", NULL },
	{ "services-list.pb", STREAM_LIST, OBJECT_KIND_SERVICE, 11, "241", false,
	  "item default/kubernetes@206\n", NULL },
	{ "services-list-page1.http", STREAM_LIST, OBJECT_KIND_SERVICE, 3, "241", true,
	  "item default/kubernetes@206\n", "item shop/base1@216\n" },
	{ "services-list-page2.http", STREAM_LIST, OBJECT_KIND_SERVICE, 3, "241", true,
	  "item shop/base2@219\n", "item shop/base4@225\n" },
	{ "endpointslices-list.http", STREAM_LIST, OBJECT_KIND_SLICE, 0, "232", false, NULL, NULL },
	{ "node-list.http", STREAM_LIST, OBJECT_KIND_NODE, 1, "241", false, "item /n1@208\n",
	  "item /n1@208\n" },
	{ "servicecidrs-list.http", STREAM_LIST, OBJECT_KIND_SERVICE_CIDR, 1, "241", false,
	  "item /kubernetes@22\n", "item /kubernetes@22\n" },
	{ "services-watch.http", STREAM_WATCH, OBJECT_KIND_SERVICE, 3, NULL, false,
	  "added shop/web@245\n", "deleted shop/base2@298\n" },
	{ "services-watchlist.http", STREAM_WATCH, OBJECT_KIND_SERVICE, 0, NULL, false, NULL,
	  NULL },
	{ "services-watch-timeout.http", STREAM_WATCH, OBJECT_KIND_SERVICE, 2, NULL, false,
	  "added shop/web@245\n", "bookmark /@245\n" },
	{ "endpointslices-watch.http", STREAM_WATCH, OBJECT_KIND_SLICE, 0, NULL, false,
	  "added shop/web-z26m9@246\n", NULL },
	{ "endpointslices-watch.pb", STREAM_WATCH, OBJECT_KIND_SLICE, 0, NULL, false,
	  "added shop/web-z26m9@246\n", NULL },
	{ "endpointslices-watchlist.http", STREAM_WATCH, OBJECT_KIND_SLICE, 0, NULL, false,
	  "added shop/base0-a@214\n", NULL },
	{ "endpointslices-watch-gone.http", STREAM_WATCH, OBJECT_KIND_SLICE, 1, NULL, false,
	  "error /@\n", "error /@\n" },
	{ "node-watch.http", STREAM_WATCH, OBJECT_KIND_NODE, 1, NULL, false, "modified /n1@301\n",
	  "modified /n1@301\n" },
};

/* A recorded watch may end in the middle of an event; its end is then not checked. */
static void check_end(struct stream *st, size_t i)
{
	struct stream_list list = { .next = NULL };
	struct err err;

	if (recordings[i].mode != STREAM_LIST)
		return;
	assert_int_equal(stream_end(st, &list, &err), 0);
	assert_string_equal(list.version, recordings[i].version);
	assert_int_equal(list.next != NULL, recordings[i].has_next);
	free(list.next);
}

static void run_recording(struct seen *seen, const struct recording *rec, size_t i, size_t first,
			  size_t step)
{
	struct err err = { .text = "" };
	struct stream *st = stream_over(seen, recordings[i].mode,
					stream_encoding_of(rec->content_type), recordings[i].kind);
	int r = feed(st, rec->body.text, rec->body.len, first, step, &err);

	if (r != 0)
		fail_msg("%s: %d %s", recordings[i].file, r, err.text);
	check_end(st, i);
	stream_close(st);
}

static void check_whole(const struct seen *s, size_t i)
{
	const char *first = recordings[i].first;
	const char *last = recordings[i].last;

	assert_int_equal(s->unreadable, 0);
	assert_true(s->n > 0);
	if (recordings[i].objects != 0)
		assert_int_equal(s->n, recordings[i].objects);
	if (first != NULL)
		assert_int_equal(strncmp(s->text.text, first, strlen(first)), 0);
	if (last != NULL)
		assert_string_equal(s->text.text + s->text.len - strlen(last), last);
}

#define PIECE 41

static void test_recordings(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(recordings); i++) {
		struct recording rec;
		struct seen whole = { 0 };

		print_message("    %s\n", recordings[i].file);
		recording_open(&rec, recordings[i].file);
		run_recording(&whole, &rec, i, rec.body.len, rec.body.len);
		check_whole(&whole, i);
		/* Small pieces, shifted so that a piece ends at every byte; and tiny ones. */
		for (size_t first = 0; first < PIECE; first++) {
			struct seen s = { 0 };

			run_recording(&s, &rec, i, first, PIECE);
			assert_string_equal(s.text.text, whole.text.text);
			str_fini(&s.text);
		}
		for (size_t step = 1; step < 4; step++) {
			struct seen s = { 0 };

			run_recording(&s, &rec, i, step, step);
			assert_string_equal(s.text.text, whole.text.text);
			str_fini(&s.text);
		}
		str_fini(&whole.text);
		recording_close(&rec);
	}
}

/* A truncated list is never read as a complete one. */
static void test_truncated(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(recordings); i++) {
		struct recording rec;

		if (recordings[i].mode != STREAM_LIST)
			continue;
		recording_open(&rec, recordings[i].file);
		if (rec.body.text[rec.body.len - 1] == '\n')
			rec.body.len--;
		else if (stream_encoding_of(rec.content_type) == STREAM_PROTOBUF)
			rec.body.len -= 4; /* two empty fields after the list */
		for (size_t len = 0; len < rec.body.len; len += len < 1500 ? 1 : 13) {
			struct stream_list list = { .next = NULL };
			struct seen s = { 0 };
			struct err err;
			struct stream *st =
				stream_over(&s, STREAM_LIST, stream_encoding_of(rec.content_type),
					    recordings[i].kind);

			if (stream_feed(st, rec.body.text, len, &err) == 0)
				assert_int_equal(stream_end(st, &list, &err), -EBADMSG);
			assert_null(list.next);
			stream_close(st);
			str_fini(&s.text);
		}
		recording_close(&rec);
	}
}

/* --- what is not an answer ------------------------------------------------ */

static const struct {
	const char *name;
	enum stream_mode mode;
	enum stream_encoding encoding;
	const char *body;
	size_t len; /* 0: of the text */
	const char *why;
} bad[] = {
	{ "empty list", STREAM_LIST, STREAM_JSON, "", 0, "empty answer" },
	{ "a login page", STREAM_LIST, STREAM_JSON, "<html><body>log in</body></html>", 0,
	  "'<' instead of an object" },
	{ "somebody's JSON", STREAM_LIST, STREAM_JSON, "{\"ok\":true}", 0,
	  "kind is '' instead of ServiceList" },
	{ "a Status", STREAM_LIST, STREAM_JSON, "{\"kind\":\"Status\",\"code\":200}", 0,
	  "kind is 'Status' instead of ServiceList" },
	{ "another list, empty", STREAM_LIST, STREAM_JSON,
	  "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}", 0,
	  "kind is 'PodList' instead of ServiceList" },
	{ "another list, seen at its first item", STREAM_LIST, STREAM_JSON,
	  "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{},", 0,
	  "kind is 'PodList' instead of ServiceList" },
	{ "items before the kind", STREAM_LIST, STREAM_JSON, "{\"items\":[{},", 0,
	  "kind is '' instead of ServiceList" },
	{ "no version", STREAM_LIST, STREAM_JSON,
	  "{\"kind\":\"ServiceList\",\"metadata\":{},\"items\":[]}", 0,
	  "list without a resource version" },
	{ "no metadata", STREAM_LIST, STREAM_JSON, "{\"kind\":\"ServiceList\",\"items\":[]}", 0,
	  "list without a resource version" },
	{ "a version that is none", STREAM_LIST, STREAM_JSON,
	  "{\"kind\":\"ServiceList\",\"metadata\":{\"resourceVersion\":"
	  "\"00000000000000000000000000000000000000000000000000000000000000001\"},\"items\":[]}",
	  0, "list without a resource version" },
	{ "two lists", STREAM_LIST, STREAM_JSON,
	  "{\"kind\":\"ServiceList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}"
	  "{\"kind\":\"ServiceList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}",
	  0, "more than one list" },
	{ "an item that is no JSON", STREAM_LIST, STREAM_JSON,
	  "{\"kind\":\"ServiceList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{x}]}", 0,
	  "not JSON" },
	{ "no event", STREAM_WATCH, STREAM_JSON, "{}\n", 0, "not a watch event" },
	{ "an event without object", STREAM_WATCH, STREAM_JSON, "{\"type\":\"ADDED\"}\n", 0,
	  "not a watch event" },
	{ "an event of another kind", STREAM_WATCH, STREAM_JSON,
	  "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n", 0,
	  "event has kind 'Pod' instead of Service" },
	{ "an error that is none", STREAM_WATCH, STREAM_JSON,
	  "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Service\"}}\n", 0,
	  "event has kind 'Service' instead of Status" },
	{ "a list in a watch", STREAM_WATCH, STREAM_JSON, "{\"items\":[{},", 0, "unexpected list" },
	{ "half an event", STREAM_WATCH, STREAM_JSON, "{\"type\":\"ADDED\",\"object\":{", 0,
	  "ends inside the object" },
	{ "JSON for protobuf", STREAM_LIST, STREAM_PROTOBUF, "{\"kind\":\"ServiceList\"}", 0,
	  "no magic bytes" },
	{ "empty", STREAM_LIST, STREAM_PROTOBUF, "", 0, "ends inside the list" },
	{ "only the magic", STREAM_LIST, STREAM_PROTOBUF, "k8s\0", 4, "ends inside the list" },
	{ "no type", STREAM_LIST, STREAM_PROTOBUF, "k8s\0\x12\x02\x0a\x00", 8,
	  "list without a kind" },
	{ "of pods", STREAM_LIST, STREAM_PROTOBUF, "k8s\0\x0a\x09\x12\x07PodList\x12\x00", 17,
	  "kind is 'PodList' instead of ServiceList" },
	{ "no version", STREAM_LIST, STREAM_PROTOBUF, "k8s\0\x0a\x0d\x12\x0bServiceList\x12\x00",
	  21, "list without a resource version" },
	{ "an item beyond the list", STREAM_LIST, STREAM_PROTOBUF,
	  "k8s\0\x0a\x0d\x12\x0bServiceList\x12\x02\x12\x05", 23, "exceeds the list" },
	{ "field 0", STREAM_LIST, STREAM_PROTOBUF, "k8s\0\x02\x01", 6, "0 is not a field number" },
	{ "a group", STREAM_LIST, STREAM_PROTOBUF, "k8s\0\x0b\x01", 6, "unknown wire type 3" },
	{ "an endless number", STREAM_LIST, STREAM_PROTOBUF,
	  "k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 15, "more than 64 bits" },
	{ "JSON for frames", STREAM_WATCH, STREAM_PROTOBUF, "{\"type\":\"ADDED\"}", 0,
	  "object of " },
	{ "an empty frame", STREAM_WATCH, STREAM_PROTOBUF, "\0\0\0\0", 4, "not a watch event" },
	{ "half a length", STREAM_WATCH, STREAM_PROTOBUF, "\0\0", 2, "ends inside an event" },
	{ "half a frame", STREAM_WATCH, STREAM_PROTOBUF, "\0\0\0\x08\x0a", 5,
	  "ends inside an event" },
	{ "a frame that is no event", STREAM_WATCH, STREAM_PROTOBUF, "\0\0\0\x02\x0a\x05", 6,
	  "ends inside a field" },
	{ "an event without envelope", STREAM_WATCH, STREAM_PROTOBUF,
	  "\0\0\0\x0f\x0a\x05"
	  "ADDED\x12\x06\x0a\x04"
	  "abcd",
	  19, "no magic bytes" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		for (size_t step = 1; step < 64; step += 31) {
			size_t len = bad[i].len ? bad[i].len : strlen(bad[i].body);
			struct stream_list list = { .next = NULL };
			struct err err = { .text = "" };
			struct seen s = { 0 };
			struct stream *st =
				stream_over(&s, bad[i].mode, bad[i].encoding, OBJECT_KIND_SERVICE);
			int r = feed(st, bad[i].body, len, step, step, &err);

			if (r == 0)
				r = stream_end(st, &list, &err);
			if (r != -EBADMSG || strstr(err.text, bad[i].why) == NULL)
				fail_msg("%s: %d '%s'", bad[i].name, r, err.text);
			assert_int_equal(s.n, 0);
			/* Broken for good. */
			assert_int_not_equal(stream_end(st, &list, &err), 0);
			stream_close(st);
			str_fini(&s.text);
		}
}

/* An error of a callback ends the stream and is returned. */
static void test_stop(void **state)
{
	static const char *const files[] = { "endpointslices-watch.http",
					     "endpointslices-watch.pb" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct seen s = { .stop_at = 2 };
		struct recording rec;
		struct stream *st;
		struct err err;

		recording_open(&rec, files[i]);
		st = stream_over(&s, STREAM_WATCH, stream_encoding_of(rec.content_type),
				 OBJECT_KIND_SLICE);
		assert_int_equal(stream_feed(st, rec.body.text, rec.body.len, &err), -ESTALE);
		assert_string_equal(err.text, "stop");
		assert_int_equal(s.n, 2);
		assert_int_not_equal(stream_feed(st, "{}", 2, &err), 0);
		assert_int_equal(s.n, 2);
		stream_close(st);
		str_fini(&s.text);
		recording_close(&rec);
	}
}

/* --- objects that are too large ------------------------------------------- */

static void varint_put(struct str *s, uint64_t v)
{
	do {
		char byte = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

		str_add(s, &byte, 1);
		v >>= 7;
	} while (v != 0);
}

static void field_put(struct str *s, uint32_t number, const void *data, size_t len)
{
	varint_put(s, number << 3 | 2);
	varint_put(s, len);
	str_add(s, data, len);
}

static void text_put(struct str *s, uint32_t number, const char *text)
{
	field_put(s, number, text, strlen(text));
}

/* A Service with an annotation of `size` bytes, as a message. */
static void service_put(struct str *ret, const char *name, size_t size)
{
	struct str entry = { 0 };
	struct str md = { 0 };
	char *x = malloc(size + 1);

	memset(x, 'x', size);
	text_put(&md, 1, name);
	text_put(&md, 3, "shop");
	text_put(&md, 6, "77");
	text_put(&entry, 1, "a");
	field_put(&entry, 2, x, size);
	field_put(&md, 12, entry.text, entry.len);
	field_put(ret, 1, md.text, md.len);
	free(x);
	str_fini(&entry);
	str_fini(&md);
}

static void list_put(struct str *ret, const struct str *items, size_t n)
{
	struct str list = { 0 };
	struct str type = { 0 };
	struct str md = { 0 };

	text_put(&md, 2, "99");
	field_put(&list, 1, md.text, md.len);
	for (size_t i = 0; i < n; i++)
		field_put(&list, 2, items[i].text, items[i].len);
	text_put(&type, 1, "v1");
	text_put(&type, 2, "ServiceList");
	str_add(ret, "k8s", 4);
	field_put(ret, 1, type.text, type.len);
	field_put(ret, 2, list.text, list.len);
	str_fini(&list);
	str_fini(&type);
	str_fini(&md);
}

static void frame_put(struct str *ret, const char *event, const struct str *obj)
{
	struct str type = { 0 };
	struct str raw = { 0 };
	struct str inner = { 0 };
	struct str body = { 0 };
	char head[4];

	text_put(&type, 2, "Service");
	str_add(&raw, "k8s", 4);
	field_put(&raw, 1, type.text, type.len);
	field_put(&raw, 2, obj->text, obj->len);
	field_put(&inner, 1, raw.text, raw.len);
	text_put(&body, 1, event);
	field_put(&body, 2, inner.text, inner.len);
	for (int i = 0; i < 4; i++)
		head[i] = (char)(body.len >> (8 * (3 - i)));
	str_add(ret, head, 4);
	str_add(ret, body.text, body.len);
	str_fini(&type);
	str_fini(&raw);
	str_fini(&inner);
	str_fini(&body);
}

static void check_too_big(enum stream_mode mode, enum stream_encoding e, const struct str *body,
			  const char *want)
{
	static const size_t steps[] = { 16384, 65536 + 7, SIZE_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct stream_list list = { .next = NULL };
		struct err err = { .text = "" };
		struct seen s = { 0 };
		struct stream *st = stream_over(&s, mode, e, OBJECT_KIND_SERVICE);

		assert_int_equal(feed(st, body->text, body->len, steps[i], steps[i], &err), 0);
		assert_int_equal(stream_end(st, &list, &err), 0);
		assert_string_equal(s.text.text, want);
		stream_close(st);
		str_fini(&s.text);
	}
}

static void test_too_big_protobuf(void **state)
{
	struct str items[3] = { 0 };
	struct str body = { 0 };

	service_put(&items[0], "small", 10);
	service_put(&items[1], "huge", PROTO_PIECE_MAX);
	service_put(&items[2], "large", 1 << 20);
	list_put(&body, items, 3);
	check_too_big(STREAM_LIST, STREAM_PROTOBUF, &body,
		      "item shop/small@77\nunreadable item shop/huge\nitem shop/large@77\n");
	str_clear(&body);
	frame_put(&body, "ADDED", &items[0]);
	frame_put(&body, "DELETED", &items[1]);
	frame_put(&body, "MODIFIED", &items[2]);
	check_too_big(
		STREAM_WATCH, STREAM_PROTOBUF, &body,
		"added shop/small@77\nunreadable deleted shop/huge\nmodified shop/large@77\n");
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		str_fini(&items[i]);
	str_fini(&body);
}

static void json_service_put(struct str *ret, const char *name, size_t size)
{
	char *x = malloc(size + 1);

	memset(x, 'x', size);
	x[size] = '\0';
	str_printf(ret,
		   "{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\","
		   "\"labels\":{\"a\":[{\"b\":\"}\"}]},\"namespace\":\"shop\",\"resourceVersion\":"
		   "\"77\",\"annotations\":{\"a\":\"%s\"}}}",
		   name, x);
	free(x);
}

static void test_too_big_json(void **state)
{
	struct str body = { 0 };

	str_puts(&body, "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":"
			"{\"resourceVersion\":\"99\"},\"items\":[");
	json_service_put(&body, "small", 10);
	str_puts(&body, ",");
	json_service_put(&body, "huge", JSON_PIECE_MAX);
	str_puts(&body, ",");
	json_service_put(&body, "large", 1 << 20);
	str_puts(&body, "]}");
	check_too_big(STREAM_LIST, STREAM_JSON, &body,
		      "item shop/small@77\nunreadable item shop/huge\nitem shop/large@77\n");
	str_clear(&body);
	str_puts(&body, "{\"type\":\"ADDED\",\"object\":");
	json_service_put(&body, "small", 10);
	str_puts(&body, "}\n{\"type\":\"DELETED\",\"object\":");
	json_service_put(&body, "huge", JSON_PIECE_MAX);
	str_puts(&body, "}\n{\"type\":\"MODIFIED\",\"object\":");
	json_service_put(&body, "large", 1 << 20);
	str_puts(&body, "}\n");
	check_too_big(
		STREAM_WATCH, STREAM_JSON, &body,
		"added shop/small@77\nunreadable deleted shop/huge\nmodified shop/large@77\n");
	str_fini(&body);
}

/* A text of one object contains a NUL: the object arrives, and the rest of the stream. */
static void test_json_nul(void **state)
{
#define NUL_SERVICE                                                     \
	"{\"kind\":\"Service\",\"metadata\":{\"namespace\":\"shop\","   \
	"\"name\":\"one\",\"resourceVersion\":\"77\",\"annotations\":{" \
	"\"x\":\"a\\u0000b\"}}}"
	struct str body = { 0 };

	str_puts(&body, "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{"
			"\"resourceVersion\":\"80\"},\"items\":[" NUL_SERVICE ",");
	json_service_put(&body, "two", 10);
	str_puts(&body, "]}");
	check_too_big(STREAM_LIST, STREAM_JSON, &body, "item shop/one@77\nitem shop/two@77\n");
	str_clear(&body);
	str_puts(&body, "{\"type\":\"ADDED\",\"object\":" NUL_SERVICE "}\n");
	check_too_big(STREAM_WATCH, STREAM_JSON, &body, "added shop/one@77\n");
	str_fini(&body);
}

/* A message that does not match its kind: the rest of the stream is read. */
static void test_bad_message(void **state)
{
	struct str items[3] = { 0 };
	struct str body = { 0 };

	service_put(&items[0], "one", 10);
	service_put(&items[1], "two", 10);
	str_add(&items[1], "\x10\x01", 2); /* spec is a number */
	str_add(&items[2], "\xff", 1);     /* half a key */
	list_put(&body, items, 3);
	check_too_big(STREAM_LIST, STREAM_PROTOBUF, &body,
		      "item shop/one@77\nunreadable item shop/two\nunreadable item /\n");
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		str_fini(&items[i]);
	str_fini(&body);
}

/* --- the rest ------------------------------------------------------------- */

static void test_encodings(void **state)
{
	static const struct {
		const char *type;
		enum stream_encoding encoding;
	} cases[] = {
		{ "application/json", STREAM_JSON },
		{ "application/json;stream=watch", STREAM_JSON },
		{ "Application/JSON; charset=utf-8", STREAM_JSON },
		{ "application/vnd.kubernetes.protobuf", STREAM_PROTOBUF },
		{ "application/vnd.kubernetes.protobuf;stream=watch", STREAM_PROTOBUF },
		{ "application/jsonl", STREAM_ENCODING_UNSET },
		{ "text/html", STREAM_ENCODING_UNSET },
		{ "", STREAM_ENCODING_UNSET },
		{ NULL, STREAM_ENCODING_UNSET },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(stream_encoding_of(cases[i].type), cases[i].encoding);
}

static void test_status(void **state)
{
	static const struct {
		const char *file;
		int code;
	} cases[] = {
		{ "services-list-unauthorized.http", 401 },
		{ "secrets-list-forbidden.http", 403 },
		{ "services-list-continue-expired.http", 410 },
	};
	struct api_status status;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct recording rec;

		recording_open(&rec, cases[i].file);
		assert_int_equal(rec.status, cases[i].code);
		assert_true(stream_status(&status, stream_encoding_of(rec.content_type),
					  rec.body.text, rec.body.len));
		assert_int_equal(status.code, cases[i].code);
		recording_close(&rec);
	}
	assert_false(stream_status(&status, STREAM_JSON, "{\"kind\":\"Pod\"}", 14));
	assert_false(stream_status(&status, STREAM_JSON, "<html>", 6));
	assert_false(stream_status(&status, STREAM_PROTOBUF, "k8s", 3));
	assert_false(stream_status(&status, STREAM_ENCODING_UNSET, "{\"kind\":\"Status\"}", 17));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_too_big_protobuf),
		cmocka_unit_test(test_too_big_json),
		cmocka_unit_test(test_json_nul),
		cmocka_unit_test(test_bad_message),
		cmocka_unit_test(test_encodings),
		cmocka_unit_test(test_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
