/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/proto_objects - Kubernetes' protobuf messages as the JSON values they stand for.
 *
 * Only the fields that vipd reads are turned over, all others are skipped by
 * their length. The result is what the server would have sent as JSON, without
 * the rest: so decode/ judges both encodings by the same rules, and names what
 * is wrong by the same paths.
 *
 * Source: the generated.proto files of k8s.io/api and k8s.io/apimachinery, in
 * part repeated in appendix A of doc/behaviour.md. A field that is absent and
 * one that is zero are the same, but where the table in proto_objects.c says
 * that the difference is kept.
 */
#pragma once

#include <jansson.h>

#include "source/decode/decode.h"
#include "source/kube/proto.h"

/* What one message may hold: messages, list entries and texts in all. */
#define PROTO_COST_MAX 500000

/* How every body and every watched object begins. */
#define PROTO_MAGIC "k8s"
#define PROTO_MAGIC_LEN 4

/* The envelope around an object (runtime.Unknown), and what is in it. */
struct proto_envelope {
	char kind[64];
	char api_version[64];
	const uint8_t *raw; /* borrowed */
	size_t raw_len;
};

/* -EBADMSG without the magic bytes, or when the envelope is none. */
MUST_USE int proto_envelope_read(struct proto_envelope *ret, const void *data, size_t len,
				 struct err *err);
/* The kind and version in a TypeMeta message. */
MUST_USE int proto_type_read(struct proto_envelope *ret, const void *data, size_t len,
			     struct err *err);

/*
 * A new reference to an object of `kind`, one of the four. -EBADMSG for what is
 * no protobuf or has another type where a field is known, -E2BIG for more than
 * PROTO_COST_MAX values; `err` names the field.
 */
MUST_USE int proto_object(json_t **ret, enum object_kind kind, const void *data, size_t len,
			  struct err *err);
/*
 * Only {"metadata": {name, namespace, resourceVersion}}, of an object that
 * proto_object() refuses, or of which only the beginning is there.
 */
MUST_USE int proto_identity(json_t **ret, struct proto object, struct err *err);
/* The same for a Status, and for the metadata of a list. */
MUST_USE int proto_status(json_t **ret, const void *data, size_t len, struct err *err);
MUST_USE int proto_list_meta(json_t **ret, const void *data, size_t len, struct err *err);
