/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/protosplit - see protosplit.h. */
#include "source/kube/protosplit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "source/kube/proto.h"
#include "source/kube/proto_objects.h"

#define FRAME_HEAD 4

void protosplit_init(struct protosplit *s, enum stream_mode mode, protosplit_fn fn, void *arg)
{
	*s = (struct protosplit){ .fn = fn, .arg = arg, .mode = mode };
}

void protosplit_fini(struct protosplit *s)
{
	str_fini(&s->rest);
}

/* Bytes at the position. `used` of them are done; 0: more are needed. */
struct input {
	const uint8_t *data;
	size_t len;
	size_t used;
};

/* A piece of `size` bytes follows after `head` bytes. */
static int piece(struct protosplit *s, struct input *in, enum proto_piece what, size_t head,
		 uint64_t size, struct err *err)
{
	bool is_object = what == PROTO_PIECE_ITEM || what == PROTO_PIECE_FRAME;
	uint64_t shown = size > PROTO_PIECE_MAX ? PROTO_HEAD_MAX : size;
	struct proto_bytes b = { in->data + head, (size_t)shown, (size_t)size };

	if (s->list_left > 0 && (head > s->list_left || size > s->list_left - head))
		return err_set(err, -EBADMSG, "field exceeds the list");
	if (is_object && size > PROTO_LENGTH_MAX)
		return err_set(err, -EBADMSG, "object of %" PRIu64 " bytes", size);
	if (what == PROTO_PIECE_NONE)
		shown = 0;
	else if (!is_object && size > PROTO_HEAD_MAX)
		return err_set(err, -EBADMSG, "metadata of %" PRIu64 " bytes", size);
	if (in->len - head < shown)
		return 0;
	if (s->list_left > 0)
		s->list_left -= head + size;
	in->used = head + (size_t)shown;
	s->skip = size - shown;
	s->has_type |= what == PROTO_PIECE_TYPE;
	return what == PROTO_PIECE_NONE ? 0 : s->fn(s->arg, what, &b, err);
}

/* The following fields are those of the list. */
static int list_begin(struct protosplit *s, struct input *in, size_t head, uint64_t len,
		      struct err *err)
{
	if (s->has_list)
		return err_set(err, -EBADMSG, "more than one list");
	if (!s->has_type)
		return err_set(err, -EBADMSG, "list without a kind");
	s->has_list = true;
	s->list_left = len;
	in->used = head;
	return 0;
}

/* A field of the envelope or of the list. */
static int field(struct protosplit *s, struct input *in, struct err *err)
{
	struct proto p = { in->data, in->data + in->len, .is_cut = true };
	bool is_inside = s->list_left > 0;
	enum proto_piece what = PROTO_PIECE_NONE;
	struct proto_field f;
	size_t head;
	int r = proto_head(&f, &p, err);

	if (r <= 0)
		return r;
	head = (size_t)(p.p - in->data);
	if (f.type == PROTO_VARINT)
		return piece(s, in, what, head, 0, err);
	if (f.type == PROTO_BYTES && f.number == 1)
		what = is_inside ? PROTO_PIECE_META : PROTO_PIECE_TYPE;
	else if (f.type == PROTO_BYTES && f.number == 2 && is_inside)
		what = PROTO_PIECE_ITEM;
	else if (f.type == PROTO_BYTES && f.number == 2)
		return list_begin(s, in, head, f.value, err);
	return piece(s, in, what, head, f.value, err);
}

static int frame(struct protosplit *s, struct input *in, struct err *err)
{
	uint32_t len = 0;

	if (in->len < FRAME_HEAD)
		return 0;
	for (size_t i = 0; i < FRAME_HEAD; i++)
		len = len << 8 | in->data[i];
	return piece(s, in, PROTO_PIECE_FRAME, FRAME_HEAD, len, err);
}

static int magic(struct protosplit *s, struct input *in, struct err *err)
{
	if (memcmp(in->data, PROTO_MAGIC, MIN(in->len, (size_t)PROTO_MAGIC_LEN)) != 0)
		return err_set(err, -EBADMSG, "no magic bytes of Kubernetes' protobuf");
	s->has_magic = in->len >= PROTO_MAGIC_LEN;
	in->used = s->has_magic ? PROTO_MAGIC_LEN : 0;
	return 0;
}

static int step(struct protosplit *s, struct input *in, struct err *err)
{
	in->used = (size_t)MIN(s->skip, (uint64_t)in->len);
	s->skip -= in->used;
	if (in->used > 0 || in->len == 0)
		return 0;
	if (s->mode == STREAM_WATCH)
		return frame(s, in, err);
	return s->has_magic ? field(s, in, err) : magic(s, in, err);
}

int protosplit_feed(struct protosplit *s, const void *data, size_t len, struct err *err)
{
	struct input in = { .data = data, .len = len };
	bool is_rest = s->rest.len > 0;
	int r;

	if (s->is_failed)
		return err_set(err, -EBADMSG, "malformed stream");
	if (is_rest) {
		str_add(&s->rest, data, len);
		in = (struct input){ (const uint8_t *)s->rest.text, s->rest.len, 0 };
	}
	while ((r = step(s, &in, err)) == 0 && in.used > 0) {
		in.data += in.used;
		in.len -= in.used;
	}
	s->is_failed = r != 0;
	if (!is_rest && in.len > 0) {
		str_add(&s->rest, (const char *)in.data, in.len);
	} else if (in.len < s->rest.len) {
		memmove(s->rest.text, in.data, in.len);
		s->rest.len = in.len;
	}
	return r;
}

int protosplit_end(struct protosplit *s, struct err *err)
{
	bool is_between = s->rest.len == 0 && s->skip == 0;

	if (s->is_failed)
		return err_set(err, -EBADMSG, "malformed stream");
	s->is_failed = true;
	if (s->mode == STREAM_LIST && (!is_between || s->list_left > 0 || !s->has_list))
		return err_set(err, -EBADMSG, "ends inside the list");
	return is_between ? 0 : err_set(err, -EBADMSG, "ends inside an event");
}
