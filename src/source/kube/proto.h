/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/proto - protobuf's wire format, field by field, from untrusted bytes.
 *
 *     struct proto p = proto_over(data, len);
 *     while ((r = proto_next(&f, &p, err)) > 0)
 *             switch (f.number) ...
 *
 * A field has a number, a wire type and a value or bytes, borrowed from the message. No allocation,
 * no recursion: a caller reads a nested message with another struct proto over its bytes. Groups
 * are an error; no Kubernetes message has them.
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
	bool is_cut; /* only the beginning of the message: its end inside a field is no error */
};

struct proto_field {
	uint32_t number;
	enum proto_type type;
	uint64_t value;      /* PROTO_VARINT: the number; else the length in bytes */
	const uint8_t *data; /* of the other types */
	size_t len;          /* less than `value` at the end of a cut message */
};

static inline struct proto proto_over(const void *data, size_t len)
{
	const uint8_t *p = data;

	return (struct proto){ .p = p, .end = p + len };
}

/* 1: a field; 0: end; -EBADMSG: malformed. */
MUST_USE int proto_next(struct proto_field *ret, struct proto *p, struct err *err);
/*
 * The bytes of the fields 1 to `n`, of each number the last one; absent: number 0, no bytes.
 * -EBADMSG: malformed, or one of them has another type.
 */
MUST_USE int proto_fields(struct proto_field *ret, size_t n, const void *data, size_t len,
			  struct err *err);
/*
 * Enter the first field `number`, a message or text. False: no such field; `p` is then at its end.
 */
bool proto_enter(struct proto *p, uint32_t number);
/* As proto_next(), but `data` is not set: the bytes of the other types follow at `p`. */
MUST_USE int proto_head(struct proto_field *ret, struct proto *p, struct err *err);
