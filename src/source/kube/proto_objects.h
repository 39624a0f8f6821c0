/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/proto_objects - convert Kubernetes' protobuf messages to values (decode/tree.h).
 *
 * Only the fields that vipd reads are converted; all others are skipped. The result equals the
 * server's JSON, reduced to these fields, so decode/ applies one set of rules and error paths to
 * both encodings.
 *
 * Source: the generated.proto files of k8s.io/api and k8s.io/apimachinery; extracts in appendix A
 * of doc/behaviour.md. A zero field equals an absent one, except for the types in proto_objects.c
 * that keep the difference.
 */
#pragma once

#include "source/decode/decode.h"
#include "source/kube/proto.h"

/* Largest number of messages, list entries and texts in one message. */
#define PROTO_COST_MAX 500000

/* First bytes of every body and of every watched object. */
#define PROTO_MAGIC "k8s"
#define PROTO_MAGIC_LEN 4

#define PROTO_KIND_MAX 64 /* with the terminator */

/* The envelope of an object (runtime.Unknown) and its content. */
struct proto_envelope {
	char kind[PROTO_KIND_MAX];
	const uint8_t *raw; /* borrowed */
	size_t raw_len;
};

/* -EBADMSG: no magic bytes, or malformed. */
MUST_USE int proto_envelope_read(struct proto_envelope *ret, const void *data, size_t len,
				 struct err *err);
/* The kind in a TypeMeta message; "" if absent. */
MUST_USE int proto_kind_read(char ret[static PROTO_KIND_MAX], const void *data, size_t len,
			     struct err *err);

/*
 * An object of `kind`, a Status (OBJECT_KIND_OTHER), or the metadata of a list (OBJECT_KIND_LIST);
 * its memory belongs to `pool`. -EBADMSG: malformed, or a known field has another type; -E2BIG:
 * more than PROTO_COST_MAX values; `err` names the field.
 */
MUST_USE int proto_object(const json_t **ret, struct tree_pool *pool, enum object_kind kind,
			  const void *data, size_t len, struct err *err);
/* {"metadata": {name, namespace, resourceVersion}} of an object that is malformed or cut. */
MUST_USE int proto_identity(const json_t **ret, struct tree_pool *pool, struct proto object,
			    struct err *err);
