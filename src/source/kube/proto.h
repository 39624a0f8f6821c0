/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/proto - protobuf's wire format, field by field, from bytes nobody vouches for.
 *
 *     struct proto p = proto_over(data, len);
 *     while ((r = proto_next(&f, &p, err)) > 0)
 *             switch (f.number) ...
 *
 * A field is a number, a wire type and either a value or bytes that are borrowed
 * from the message. Nothing is allocated and nothing recurses: who wants to look
 * into a message that is a field opens another struct proto over its bytes.
 * Groups, which no Kubernetes message has, are refused.
 *
 * Source: the "Encoding" chapter of the Protocol Buffers documentation.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

enum proto_type {
	PROTO_VARINT = 0,
	PROTO_FIXED64 = 1,
	PROTO_BYTES = 2, /* text, messages, maps */
	PROTO_FIXED32 = 5,
};

struct proto {
	const uint8_t *p;
	const uint8_t *end;
	bool is_cut; /* the end of the message is missing: that is no error, what is there counts */
};

struct proto_field {
	uint32_t number;
	enum proto_type type;
	uint64_t value;      /* PROTO_VARINT and the fixed types */
	const uint8_t *data; /* PROTO_BYTES */
	size_t len;
};

static inline struct proto proto_over(const void *data, size_t len)
{
	const uint8_t *p = data;

	return (struct proto){ .p = p, .end = p + len };
}

/* 1 and a field; 0 at the end; -EBADMSG when the bytes are no protobuf. */
MUST_USE int proto_next(struct proto_field *ret, struct proto *p, struct err *err);
/*
 * Go into the first field `number`, a message or text. False when there is none;
 * `p` is of no use then.
 */
bool proto_enter(struct proto *p, uint32_t number);
/*
 * The varint at `data`: how many bytes it takes, 0 when it does not end within
 * `len`, -EBADMSG when it cannot be one.
 */
MUST_USE int proto_varint(uint64_t *ret, const uint8_t *data, size_t len, struct err *err);
/* A field's number and wire type from its key; -EBADMSG when there is no such field. */
MUST_USE int proto_key(struct proto_field *ret, uint64_t key, struct err *err);
