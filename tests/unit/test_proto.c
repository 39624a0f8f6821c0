/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A table of the wire format; objects recorded in both encodings must decode equally. */
#include "source/kube/proto_objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "source/kube/stream.h"
#include "test.h"
#include "tree_dump.h"

/* --- the wire ------------------------------------------------------------- */

static const struct {
	const char *name;
	const char *bytes;
	size_t len;
	int n; /* fields read, or -EBADMSG */
	uint32_t number;
	enum proto_type type;
	uint64_t value; /* of the last field; of other types: bytes */
} wire_cases[] = {
	{ "nothing", "", 0, 0, 0, 0, 0 },
	{ "varint", "\x08\x96\x01", 3, 1, 1, PROTO_VARINT, 150 },
	{ "largest varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 1, 1, PROTO_VARINT,
	  UINT64_MAX },
	{ "65 bits", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, -EBADMSG, 0, 0, 0 },
	{ "endless varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, -EBADMSG, 0, 0,
	  0 },
	{ "varint in more bytes than needed", "\x08\x81\x80\x00", 4, 1, 1, PROTO_VARINT, 1 },
	{ "bytes", "\x12\x03xyz", 5, 1, 2, PROTO_BYTES, 3 },
	{ "no bytes", "\x12\x00", 2, 1, 2, PROTO_BYTES, 0 },
	{ "too many bytes", "\x12\x04xyz", 5, -EBADMSG, 0, 0, 0 },
	{ "absurdly many", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, -EBADMSG, 0, 0, 0 },
	{ "fixed64", "\x19\x01\x00\x00\x00\x00\x00\x00\x80", 9, 1, 3, PROTO_FIXED64, 8 },
	{ "fixed32", "\x1d\x01\x00\x00\x80", 5, 1, 3, PROTO_FIXED32, 4 },
	{ "cut fixed", "\x1d\x01\x00", 3, -EBADMSG, 0, 0, 0 },
	{ "largest number", "\xf8\xff\xff\xff\x0f\x01", 6, 1, 536870911, PROTO_VARINT, 1 },
	{ "a larger number", "\x80\x80\x80\x80\x10\x01", 6, -EBADMSG, 0, 0, 0 },
	{ "number 0", "\x00\x01", 2, -EBADMSG, 0, 0, 0 },
	{ "group", "\x0b\x0c", 2, -EBADMSG, 0, 0, 0 },
	{ "type 7", "\x0f", 1, -EBADMSG, 0, 0, 0 },
	{ "half a key", "\xf8", 1, -EBADMSG, 0, 0, 0 },
	{ "key alone", "\x08", 1, -EBADMSG, 0, 0, 0 },
	{ "two fields", "\x08\x01\x12\x01z", 5, 2, 2, PROTO_BYTES, 1 },
};

static int read_fields(struct proto_field *f, const void *data, size_t len, bool is_cut)
{
	struct proto p = proto_over(data, len);
	struct err err;
	int n = 0;
	int r;

	p.is_cut = is_cut;
	while ((r = proto_next(f, &p, &err)) > 0)
		n++;
	return r < 0 ? r : n;
}

static void test_wire(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wire_cases); i++) {
		char *copy = malloc(wire_cases[i].len + 1);
		struct proto_field f = { 0 };
		int n;

		memcpy(copy, wire_cases[i].bytes, wire_cases[i].len);
		n = read_fields(&f, copy, wire_cases[i].len, false);
		if (n != wire_cases[i].n)
			fail_msg("%s: %d", wire_cases[i].name, n);
		if (n > 0) {
			assert_int_equal(f.number, wire_cases[i].number);
			assert_int_equal(f.type, wire_cases[i].type);
			assert_int_equal(f.type == PROTO_VARINT ? f.value : f.len,
					 wire_cases[i].value);
		}
		/* Cut at any place: complete fields are read; a missing rest is not an error. */
		for (size_t len = 0; n >= 0 && len <= wire_cases[i].len; len++)
			assert_in_range(read_fields(&f, copy, len, true), 0, n);
		free(copy);
	}
}

/* --- both encodings ------------------------------------------------------- */

#define OBJECTS_MAX 64

/* The decoded objects of a recording. */
struct decoded {
	struct object objects[OBJECTS_MAX];
	enum stream_event events[OBJECTS_MAX];
	char *versions[OBJECTS_MAX];
	size_t n;
	enum object_kind kind;
	struct str notes;
};

static void on_note(void *arg, const struct decode *d, const char *text)
{
	struct decoded *dec = arg;

	str_printf(&dec->notes, "%s\n", text);
}

static int on_object(void *arg, enum stream_event e, const json_t *obj, const char *why,
		     struct err *err)
{
	struct decoded *dec = arg;
	struct decode d = { .note = on_note, .arg = dec };
	int r;

	if (why != NULL)
		fail_msg("unreadable: %s", why);
	assert_true(dec->n < OBJECTS_MAX);
	if (e == STREAM_BOOKMARK)
		return 0; /* only one of the recordings has one */
	r = decode_object(&dec->objects[dec->n], dec->kind, obj, &d, err);
	if (r < 0)
		fail_msg("object %zu: %s", dec->n, err->text);
	dec->events[dec->n] = e;
	dec->versions[dec->n] = xstrdup(stream_version_of(obj) ?: "");
	dec->n++;
	return 0;
}

static void decode_recording(struct decoded *ret, const char *file, enum stream_mode mode,
			     enum object_kind kind)
{
	struct recording rec;
	struct stream *s;
	struct err err;

	*ret = (struct decoded){ .kind = kind };
	recording_open(&rec, file);
	stream_open(&s, &(struct stream_config){ .mode = mode,
						 .encoding = stream_encoding_of(rec.content_type),
						 .kind = kind,
						 .object = on_object,
						 .arg = ret });
	assert_int_equal(stream_feed(s, rec.body.text, rec.body.len, &err), 0);
	stream_close(s);
	recording_close(&rec);
}

static void decoded_free(struct decoded *dec)
{
	for (size_t i = 0; i < dec->n; i++) {
		object_fini(&dec->objects[i]);
		free(dec->versions[i]);
	}
	str_fini(&dec->notes);
}

/* Fields that the model's comparison ignores. */
static void check_more(const struct object *a, const struct object *b)
{
	if (a->kind == OBJECT_KIND_SERVICE) {
		assert_int_equal(a->service->created_s, b->service->created_s);
		assert_true(a->service->created_s > 0);
	}
	if (a->kind == OBJECT_KIND_SLICE) {
		assert_int_equal(a->slice->version, b->slice->version);
		assert_true(a->slice->version > 0);
		assert_int_equal(a->slice->trigger_ns, b->slice->trigger_ns);
	}
}

static bool is_equal(const struct object *a, const struct object *b)
{
	switch (a->kind) {
	case OBJECT_KIND_SERVICE:
		return service_is_equal(a->service, b->service);
	case OBJECT_KIND_SLICE:
		return slice_is_equal(a->slice, b->slice);
	case OBJECT_KIND_NODE:
		return node_is_equal(a->node, b->node);
	case OBJECT_KIND_SERVICE_CIDR:
		return a->cidr->name == b->cidr->name && a->cidr->cidrs.n == b->cidr->cidrs.n &&
		       memcmp(a->cidr->cidrs.v, b->cidr->cidrs.v,
			      a->cidr->cidrs.n * sizeof(*a->cidr->cidrs.v)) == 0;
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	return false;
}

static void test_both(void **state)
{
	static const struct {
		const char *json;
		const char *protobuf;
		enum stream_mode mode;
		enum object_kind kind;
		size_t n; /* in both */
	} pairs[] = {
		{ "services-list.http", "services-list.pb", STREAM_LIST, OBJECT_KIND_SERVICE, 11 },
		{ "endpointslices-watch.http", "endpointslices-watch.pb", STREAM_WATCH,
		  OBJECT_KIND_SLICE, 21 },
	};

	for (size_t k = 0; k < ARRAY_SIZE(pairs); k++) {
		static struct decoded a;
		static struct decoded b;

		print_message("    %s\n", pairs[k].protobuf);
		decode_recording(&a, pairs[k].json, pairs[k].mode, pairs[k].kind);
		decode_recording(&b, pairs[k].protobuf, pairs[k].mode, pairs[k].kind);
		assert_int_equal(a.n, pairs[k].n);
		assert_int_equal(b.n, pairs[k].n);
		for (size_t i = 0; i < a.n; i++) {
			assert_int_equal(a.events[i], b.events[i]);
			assert_string_equal(a.versions[i], b.versions[i]);
			assert_int_equal(a.objects[i].kind, b.objects[i].kind);
			if (!is_equal(&a.objects[i], &b.objects[i]))
				fail_msg("object %zu", i);
			check_more(&a.objects[i], &b.objects[i]);
		}
		assert_string_equal(str_text(&a.notes), str_text(&b.notes));
		decoded_free(&a);
		decoded_free(&b);
	}
	assert_int_equal(name_count(), 0);
}

/* --- values --------------------------------------------------------------- */

/* As JSON with sorted keys; absent and zero differ. */
static const struct {
	const char *name;
	enum object_kind kind;
	const char *bytes;
	size_t len;
	const char *json; /* or the error */
	bool is_error;
} value_cases[] = {
	{ "empty", OBJECT_KIND_SERVICE, "", 0, "{}", false },
	{ "unknown fields", OBJECT_KIND_SERVICE,
	  "\xc0\x3e\x01\xca\x3e\x02hi\xcd\x3e\x01\x02\x03\x04", 14, "{}", false },
	{ "empty text is absent", OBJECT_KIND_SERVICE, "\x0a\x04\x0a\x00\x1a\x00", 6,
	  "{\"metadata\":{}}", false },
	{ "an empty time is absent", OBJECT_KIND_SERVICE, "\x0a\x02\x42\x00", 4,
	  "{\"metadata\":{}}", false },
	{ "time", OBJECT_KIND_SERVICE, "\x0a\x0a\x42\x08\x08\xb1\xad\x80\xd8\x06\x10\x00", 12,
	  "{\"metadata\":{\"creationTimestamp\":\"2026-11-20T09:45:21Z\"}}", false },
	{ "a label", OBJECT_KIND_NODE,
	  "\x0a\x22\x5a\x20\x0a\x1b"
	  "topology.kubernetes.io/zone\x12\x01"
	  "a",
	  36, "{\"metadata\":{\"labels\":{\"topology.kubernetes.io/zone\":\"a\"}}}", false },
	{ "a label without a value", OBJECT_KIND_NODE,
	  "\x0a\x1f\x5a\x1d\x0a\x1b"
	  "topology.kubernetes.io/zone",
	  33, "{\"metadata\":{\"labels\":{\"topology.kubernetes.io/zone\":\"\"}}}", false },
	{ "a label with a value that is not UTF-8", OBJECT_KIND_NODE,
	  "\x0a\x22\x5a\x20\x12\x01\xc3\x0a\x1b"
	  "topology.kubernetes.io/zone",
	  36, "{\"metadata\":{\"labels\":{\"topology.kubernetes.io/zone\":\"\xef\xbf\xbd\"}}}",
	  false },
	{ "labels and annotations that are not read", OBJECT_KIND_SERVICE,
	  "\x0a\x19\x5a\x05\x0a\x01"
	  "a\x12\x00\x5a\x06\x12\x01"
	  "b\x0a\x01\xc3\x62\x08\x0a\x03"
	  "a\0b\x12\x01z",
	  27, "{\"metadata\":{}}", false },
	{ "port 0 and no node port", OBJECT_KIND_SERVICE, "\x12\x06\x0a\x04\x18\x00\x28\x00", 8,
	  "{\"spec\":{\"ports\":[{}]}}", false },
	{ "negative number", OBJECT_KIND_SERVICE,
	  "\x12\x0d\x0a\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15,
	  "{\"spec\":{\"ports\":[{\"port\":-1}]}}", false },
	{ "timeout 0 is not absent", OBJECT_KIND_SERVICE, "\x12\x06\x72\x04\x0a\x02\x08\x00", 8,
	  "{\"spec\":{\"sessionAffinityConfig\":{\"clientIP\":{\"timeoutSeconds\":0}}}}", false },
	{ "slice port 0 and name \"\"", OBJECT_KIND_SLICE, "\x1a\x04\x0a\x00\x18\x00", 6,
	  "{\"ports\":[{\"name\":\"\",\"port\":0}]}", false },
	{ "slice port nil", OBJECT_KIND_SLICE, "\x1a\x00", 2, "{\"ports\":[{}]}", false },
	{ "conditions", OBJECT_KIND_SLICE, "\x12\x06\x12\x04\x08\x00\x18\x01", 8,
	  "{\"endpoints\":[{\"conditions\":{\"ready\":false,\"terminating\":true}}]}", false },
	{ "an empty address is an entry", OBJECT_KIND_SLICE, "\x12\x02\x0a\x00", 4,
	  "{\"endpoints\":[{\"addresses\":[\"\"]}]}", false },
	{ "zone", OBJECT_KIND_SLICE, "\x12\x05\x3a\x03z-1", 7,
	  "{\"endpoints\":[{\"zone\":\"z-1\"}]}", false },
	{ "hints", OBJECT_KIND_SLICE,
	  "\x12\x0e\x42\x0c\x0a\x03\x0a\x01"
	  "a\x12\x05\x0a\x03"
	  "n-1",
	  16,
	  "{\"endpoints\":[{\"hints\":{\"forNodes\":[{\"name\":\"n-1\"}],\"forZones\":"
	  "[{\"name\":\"a\"}]}}]}",
	  false },
	{ "not UTF-8", OBJECT_KIND_SLICE, "\x12\x04\x0a\x02\xc3\x28", 6,
	  "{\"endpoints\":[{\"addresses\":[\"\xef\xbf\xbd(\"]}]}", false },
	{ "a number for a message", OBJECT_KIND_SLICE, "\x0a\x02\x0a\x00\x10\x01", 6,
	  "endpoints[0]: wire type 0", true },
	{ "text for a number", OBJECT_KIND_SERVICE, "\x12\x05\x0a\x03\x1a\x01x", 7,
	  "spec: ports[0]: port: wire type 2", true },
	{ "a message that is cut", OBJECT_KIND_NODE, "\x12\x03\x0a\x05x", 5,
	  "spec: ends inside a field", true },
};

static void check_value(const json_t *obj, const char *want)
{
	char *text = tree_dump(obj);

	assert_string_equal(text, want);
	free(text);
}

static void test_values(void **state)
{
	const json_t *objects[ARRAY_SIZE(value_cases)] = { NULL };
	struct tree_pool pool = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(value_cases); i++) {
		struct err err = { .text = "" };
		int r = proto_object(&objects[i], &pool, value_cases[i].kind, value_cases[i].bytes,
				     value_cases[i].len, &err);

		print_message("    %s\n", value_cases[i].name);
		assert_int_equal(r < 0, value_cases[i].is_error);
		if (r == 0) {
			check_value(objects[i], value_cases[i].json);
			continue;
		}
		assert_null(objects[i]);
		assert_int_equal(r, -EBADMSG);
		if (strcmp(value_cases[i].json, "error") != 0)
			assert_string_equal(err.text, value_cases[i].json);
	}
	/* Objects of one pool are independent of each other. */
	for (size_t i = 0; i < ARRAY_SIZE(value_cases); i++)
		if (objects[i] != NULL)
			check_value(objects[i], value_cases[i].json);
	tree_pool_fini(&pool);
}

/* Each annotation that decode/service.c reads is kept. */
static void test_annotations(void **state)
{
	static const char *const keys[] = {
		"vipd.io/scheduler",
		"vipd.io/weights",
		"vipd.io/drain-timeout",
		"vipd.io/forwarding",
		"kube-router.io/service.scheduler",
		"kube-router.io/service.dsr",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		uint8_t len = (uint8_t)strlen(keys[i]);
		struct tree_pool pool = { 0 };
		const json_t *obj = NULL;
		char bytes[100];
		const json_t *v;
		int n;

		print_message("    %s\n", keys[i]);
		n = snprintf(bytes, sizeof(bytes), "\x0a%c\x62%c\x0a%c%s\x12\x01x", len + 7,
			     len + 5, len, keys[i]);
		assert_int_equal(
			proto_object(&obj, &pool, OBJECT_KIND_SERVICE, bytes, (size_t)n, NULL), 0);
		v = tree_get(tree_get(tree_get(obj, "metadata"), "annotations"), keys[i]);
		assert_non_null(v);
		assert_string_equal(tree_text(v), "x");
		tree_pool_fini(&pool);
	}
}

/* Jansson finds nothing in a value of a message. */
static void test_jansson(void **state)
{
	struct tree_pool pool = { 0 };
	const json_t *obj;
	json_t *v;

	assert_int_equal(proto_object(&obj, &pool, OBJECT_KIND_SERVICE,
				      "\x0a\x03\x0a\x01x\x12\x06\x0a\x04\x18\x07\x28\x08", 13,
				      NULL),
			 0);
	v = (json_t *)(uintptr_t)obj;
	assert_string_equal(tree_text(tree_get(tree_get(obj, "metadata"), "name")), "x");
	json_decref(json_incref(v));
	assert_null(json_object_get(v, "metadata"));
	v = (json_t *)(uintptr_t)tree_get(tree_get(obj, "spec"), "ports");
	assert_int_equal(tree_count(v), 1);
	assert_int_equal(json_array_size(v), 0);
	assert_null(json_array_get(v, 0));
	v = (json_t *)(uintptr_t)tree_get(tree_at(v, 0), "port");
	assert_int_equal(tree_number(v), 7);
	assert_int_equal(json_integer_value(v), 0);
	assert_null(json_string_value(v));
	/* And a list is read in any order. */
	v = tree_new(&pool, JSON_ARRAY);
	for (int i = 0; i < 9; i++)
		tree_append(v, tree_new_number(&pool, i));
	for (int i = 0; i < 20; i++)
		assert_int_equal(tree_number(tree_at(v, i * 5 % 9)), i * 5 % 9);
	assert_null(tree_at(v, 9));
	tree_pool_fini(&pool);
}

/* More values than the buffer of one object holds. */
static void test_large(void **state)
{
	enum {
		ENDPOINTS = 5000
	};
	char *bytes = malloc(ENDPOINTS * 4);
	struct tree_pool pool = { 0 };
	struct err err;

	for (size_t i = 0; i < ENDPOINTS; i++)
		memcpy(bytes + i * 4, "\x12\x02\x0a\x00", 4);
	for (int run = 0; run < 3; run++) {
		const json_t *obj = NULL;
		const json_t *list;

		tree_pool_clear(&pool);
		assert_int_equal(
			proto_object(&obj, &pool, OBJECT_KIND_SLICE, bytes, ENDPOINTS * 4, &err),
			0);
		list = tree_get(obj, "endpoints");
		assert_int_equal(tree_count(list), ENDPOINTS);
		for (size_t i = 0; i < ENDPOINTS; i += ENDPOINTS - 1)
			check_value(tree_at(list, i), "{\"addresses\":[\"\"]}");
	}
	tree_pool_fini(&pool);
	free(bytes);
}

/* Two bytes per value: without a limit 4 MB would become hundreds. */
static void test_bomb(void **state)
{
	size_t n = 2000000;
	struct tree_pool pool = { 0 };
	struct str bytes = { 0 };
	struct err err;
	const json_t *obj;

	for (size_t i = 0; i < n; i++)
		str_add(&bytes, "\x12\x00", 2);
	assert_int_equal(proto_object(&obj, &pool, OBJECT_KIND_SLICE, bytes.text, bytes.len, &err),
			 -E2BIG);
	tree_pool_fini(&pool);
	str_fini(&bytes);
}

static void test_envelope(void **state)
{
	struct proto_envelope e;
	struct err err;
	static const char good[] = "k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12\x02\x0a\x00\x1a\x00";

	assert_int_equal(proto_envelope_read(&e, good, sizeof(good) - 1, &err), 0);
	assert_string_equal(e.kind, "Service");
	assert_int_equal(e.raw_len, 2);
	for (size_t len = 0; len < 4; len++)
		assert_int_equal(proto_envelope_read(&e, good, len, &err), -EBADMSG);
	assert_int_equal(proto_envelope_read(&e, "k8s\0\x0a\x20", 6, &err), -EBADMSG);
	assert_int_equal(proto_envelope_read(&e, "k8s\0\x08\x01", 6, &err), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire),     cmocka_unit_test(test_both),
		cmocka_unit_test(test_values),   cmocka_unit_test(test_jansson),
		cmocka_unit_test(test_large),    cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_envelope), cmocka_unit_test(test_annotations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
