/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/proto.h"

#include <errno.h>
#include <inttypes.h>

#define VARINT_MAX 10
#define NUMBER_MAX 536870911 /* 2^29 - 1 */

int proto_varint(uint64_t *ret, const uint8_t *data, size_t len, struct err *err)
{
	uint64_t v = 0;

	for (size_t i = 0; i < len && i < VARINT_MAX; i++) {
		v |= (uint64_t)(data[i] & 0x7f) << (7 * i);
		if ((data[i] & 0x80) != 0)
			continue;
		if (i == VARINT_MAX - 1 && data[i] > 1)
			break;
		*ret = v;
		return (int)i + 1;
	}
	if (len < VARINT_MAX)
		return 0;
	return err_set(err, -EBADMSG, "varint of more than 64 bits");
}

int proto_key(struct proto_field *ret, uint64_t key, struct err *err)
{
	uint64_t number = key >> 3;

	if (number == 0 || number > NUMBER_MAX)
		return err_set(err, -EBADMSG, "%" PRIu64 " is not a field number", number);
	*ret = (struct proto_field){ .number = (uint32_t)number };
	switch (key & 7) {
	case PROTO_VARINT:
	case PROTO_FIXED64:
	case PROTO_BYTES:
	case PROTO_FIXED32:
		ret->type = (enum proto_type)(key & 7);
		return 0;
	default:
		return err_set(err, -EBADMSG, "field %" PRIu64 ": unknown wire type %d", number,
			       (int)(key & 7));
	}
}

static int cut(struct proto *p, struct err *err)
{
	p->p = p->end;
	return p->is_cut ? 0 : err_set(err, -EBADMSG, "ends inside a field");
}

/* Little endian, `size` bytes. */
static int fixed(struct proto_field *f, struct proto *p, size_t size, struct err *err)
{
	if ((size_t)(p->end - p->p) < size)
		return cut(p, err);
	for (size_t i = 0; i < size; i++)
		f->value |= (uint64_t)p->p[i] << (8 * i);
	p->p += size;
	return 1;
}

static int long_number(uint64_t *ret, struct proto *p, struct err *err)
{
	int n = proto_varint(ret, p->p, (size_t)(p->end - p->p), err);

	if (n <= 0)
		return n < 0 ? n : cut(p, err);
	p->p += n;
	return 1;
}

/* 1: read; 0: a cut message ends inside the number. */
static inline int number(uint64_t *ret, struct proto *p, struct err *err)
{
	if (p->p == p->end || *p->p >= 0x80)
		return long_number(ret, p, err);
	*ret = *p->p++; /* most of them */
	return 1;
}

static inline int bytes(struct proto_field *f, struct proto *p, struct err *err)
{
	uint64_t len;
	int r = number(&len, p, err);

	if (r <= 0)
		return r;
	if (len > (size_t)(p->end - p->p)) {
		if (!p->is_cut)
			return cut(p, err);
		len = (size_t)(p->end - p->p);
	}
	f->data = p->p;
	f->len = (size_t)len;
	p->p += len;
	return 1;
}

int proto_next(struct proto_field *ret, struct proto *p, struct err *err)
{
	uint64_t key;
	int r;

	if (p->p == p->end)
		return 0;
	r = number(&key, p, err);
	if (r <= 0)
		return r;
	r = proto_key(ret, key, err);
	if (r < 0)
		return r;
	switch (ret->type) {
	case PROTO_VARINT:
		return number(&ret->value, p, err);
	case PROTO_FIXED64:
		return fixed(ret, p, 8, err);
	case PROTO_FIXED32:
		return fixed(ret, p, 4, err);
	case PROTO_BYTES:
		return bytes(ret, p, err);
	}
	return cut(p, err);
}

int proto_fields(struct proto_field *ret, size_t n, const void *data, size_t len, struct err *err)
{
	struct proto p = proto_over(data, len);
	struct proto_field f;
	int r;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct proto_field){ .data = (const uint8_t *)"" };
	while ((r = proto_next(&f, &p, err)) > 0) {
		if (f.number > n)
			continue;
		if (f.type != PROTO_BYTES)
			return err_set(err, -EBADMSG, "field %" PRIu32 ": wire type %d", f.number,
				       (int)f.type);
		ret[f.number - 1] = f;
	}
	return r;
}

bool proto_enter(struct proto *p, uint32_t number)
{
	struct proto_field f;

	while (proto_next(&f, p, NULL) > 0) {
		if (f.number != number || f.type != PROTO_BYTES)
			continue;
		p->p = f.data;
		p->end = f.data + f.len;
		return true;
	}
	return false;
}
