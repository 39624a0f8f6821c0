/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/kube/proto.h"

#include <errno.h>
#include <inttypes.h>

#define VARINT_MAX 10
#define NUMBER_MAX 536870911 /* 2^29 - 1 */

static int cut(struct proto *p, struct err *err)
{
	p->p = p->end;
	return p->is_cut ? 0 : err_set(err, -EBADMSG, "ends inside a field");
}

static int long_number(uint64_t *ret, struct proto *p, struct err *err)
{
	uint64_t v = 0;

	for (size_t i = 0; i < VARINT_MAX; i++) {
		uint8_t byte;

		if (p->p + i == p->end)
			return cut(p, err);
		byte = p->p[i];
		v |= (uint64_t)(byte & 0x7f) << (7 * i);
		if ((byte & 0x80) != 0)
			continue;
		if (i == VARINT_MAX - 1 && byte > 1)
			break;
		*ret = v;
		p->p += i + 1;
		return 1;
	}
	return err_set(err, -EBADMSG, "varint of more than 64 bits");
}

/* 1: read; 0: a cut message ends inside the number. */
static inline int number(uint64_t *ret, struct proto *p, struct err *err)
{
	if (p->p == p->end || *p->p >= 0x80)
		return long_number(ret, p, err);
	*ret = *p->p++; /* most of them */
	return 1;
}

int proto_head(struct proto_field *ret, struct proto *p, struct err *err)
{
	uint64_t key;
	int r = number(&key, p, err);

	if (r <= 0)
		return r;
	if (key >> 3 == 0 || key >> 3 > NUMBER_MAX)
		return err_set(err, -EBADMSG, "%" PRIu64 " is not a field number", key >> 3);
	*ret = (struct proto_field){ .number = (uint32_t)(key >> 3),
				     .type = (enum proto_type)(key & 7) };
	switch (key & 7) {
	case PROTO_VARINT:
	case PROTO_BYTES:
		return number(&ret->value, p, err);
	case PROTO_FIXED64:
	case PROTO_FIXED32:
		ret->value = ret->type == PROTO_FIXED64 ? 8 : 4;
		return 1;
	default:
		return err_set(err, -EBADMSG, "field %" PRIu32 ": unknown wire type %d",
			       ret->number, (int)(key & 7));
	}
}

int proto_next(struct proto_field *ret, struct proto *p, struct err *err)
{
	size_t left;
	int r;

	if (p->p == p->end)
		return 0;
	r = proto_head(ret, p, err);
	if (r <= 0 || ret->type == PROTO_VARINT)
		return r;
	left = (size_t)(p->end - p->p);
	if (ret->value > left && !p->is_cut)
		return cut(p, err);
	ret->data = p->p;
	ret->len = (size_t)MIN(ret->value, (uint64_t)left);
	p->p += ret->len;
	return 1;
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
