/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/protosplit - see protosplit.h. Headers are read byte by byte, values in blocks. */
#include "source/kube/protosplit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "source/kube/proto.h"
#include "source/kube/proto_objects.h"

#define FRAME_HEAD 4

void protosplit_init(struct protosplit *s, enum protosplit_mode mode, protosplit_fn fn, void *arg)
{
	*s = (struct protosplit){ .fn = fn, .arg = arg, .mode = mode };
	if (mode == PROTOSPLIT_WATCH)
		s->state = PROTOSPLIT_HEAD;
}

void protosplit_fini(struct protosplit *s)
{
	str_fini(&s->buf);
}

/* End of a field. */
static void next(struct protosplit *s)
{
	s->state = PROTOSPLIT_HEAD;
	s->n_head = 0;
	s->piece = PROTO_PIECE_NONE;
	if (s->is_inside && s->inside_left == 0)
		s->is_inside = false;
}

/* Count `n` bytes of the list. */
static int list_count(struct protosplit *s, uint64_t n, struct err *err)
{
	if (!s->is_inside)
		return 0;
	if (n > s->inside_left)
		return err_set(err, -EBADMSG, "field exceeds the list");
	s->inside_left -= n;
	return 0;
}

/* --- values --------------------------------------------------------------- */

static int piece_put(struct protosplit *s, const void *data, size_t len, struct err *err)
{
	struct proto_bytes b = { .data = data, .len = len, .whole_len = (size_t)s->piece_len };
	enum proto_piece what = s->piece;

	next(s);
	if (what == PROTO_PIECE_NONE)
		return 0;
	s->has_type |= what == PROTO_PIECE_TYPE;
	return s->fn(s->arg, what, &b, err);
}

/* `len` bytes of a value follow. */
static int value_begin(struct protosplit *s, enum proto_piece what, uint64_t len, struct err *err)
{
	bool is_object = what == PROTO_PIECE_ITEM || what == PROTO_PIECE_FRAME;
	int r = list_count(s, len, err);

	if (r < 0)
		return r;
	s->piece = what;
	s->left = len;
	s->piece_len = len;
	s->state = what == PROTO_PIECE_NONE ? PROTOSPLIT_SKIP : PROTOSPLIT_COLLECT;
	if (what != PROTO_PIECE_NONE && !is_object && len > PROTO_HEAD_MAX)
		return err_set(err, -EBADMSG, "metadata of %" PRIu64 " bytes", len);
	if (is_object && len > PROTO_LENGTH_MAX)
		return err_set(err, -EBADMSG, "object of %" PRIu64 " bytes", len);
	return len == 0 ? piece_put(s, "", 0, err) : 0;
}

static int buffer_put(struct protosplit *s, struct err *err)
{
	int r = piece_put(s, str_text(&s->buf), s->buf.len, err);

	str_clear(&s->buf);
	return r;
}

static int feed_skip(struct protosplit *s, size_t len, size_t *used, struct err *err)
{
	*used = s->left < len ? (size_t)s->left : len;
	s->left -= *used;
	return s->left > 0 ? 0 : buffer_put(s, err);
}

static int feed_collect(struct protosplit *s, const uint8_t *data, size_t len, size_t *used,
			struct err *err)
{
	bool is_too_big = s->piece_len > PROTO_PIECE_MAX;

	if (is_too_big)
		len = MIN(len, PROTO_HEAD_MAX - s->buf.len);
	*used = s->left < len ? (size_t)s->left : len;
	s->left -= *used;
	if (s->buf.len == 0 && s->left == 0)
		return piece_put(s, data, *used, err);
	str_add(&s->buf, (const char *)data, *used);
	if (is_too_big && s->buf.len == PROTO_HEAD_MAX)
		s->state = PROTOSPLIT_SKIP;
	return s->left > 0 ? 0 : buffer_put(s, err);
}

/* --- headers -------------------------------------------------------------- */

/* The following fields are those of the list. */
static int list_begin(struct protosplit *s, uint64_t len, struct err *err)
{
	if (s->has_list)
		return err_set(err, -EBADMSG, "more than one list");
	if (!s->has_type)
		return err_set(err, -EBADMSG, "list without a kind");
	s->has_list = true;
	s->is_inside = true;
	s->inside_left = len;
	next(s);
	return 0;
}

static int bytes_begin(struct protosplit *s, uint32_t number, uint64_t len, struct err *err)
{
	if (s->is_inside)
		return value_begin(s,
				   number == 1   ? PROTO_PIECE_META
				   : number == 2 ? PROTO_PIECE_ITEM
						 : PROTO_PIECE_NONE,
				   len, err);
	if (number == 2)
		return list_begin(s, len, err);
	return value_begin(s, number == 1 ? PROTO_PIECE_TYPE : PROTO_PIECE_NONE, len, err);
}

/* Parse the header; 0: the field has begun, or more bytes are needed. */
static int field_head(struct protosplit *s, struct err *err)
{
	struct proto_field f;
	uint64_t key;
	uint64_t value;
	int used = proto_varint(&key, s->head, s->n_head, err);
	int r;

	if (used <= 0)
		return used;
	r = proto_key(&f, key, err);
	if (r < 0)
		return r;
	if (f.type == PROTO_FIXED32 || f.type == PROTO_FIXED64)
		return value_begin(s, PROTO_PIECE_NONE, f.type == PROTO_FIXED32 ? 4 : 8, err);
	r = proto_varint(&value, s->head + used, (size_t)(s->n_head - used), err);
	if (r <= 0)
		return r;
	if (f.type == PROTO_VARINT) {
		next(s);
		return 0;
	}
	return bytes_begin(s, f.number, value, err);
}

static int frame_head(struct protosplit *s, struct err *err)
{
	uint32_t len = 0;

	if (s->n_head < FRAME_HEAD)
		return 0;
	for (size_t i = 0; i < FRAME_HEAD; i++)
		len = len << 8 | s->head[i];
	return value_begin(s, PROTO_PIECE_FRAME, len, err);
}

static int feed_head(struct protosplit *s, uint8_t byte, struct err *err)
{
	int r = list_count(s, 1, err);

	if (r < 0)
		return r;
	s->head[s->n_head++] = byte; /* two varints have at most 20 bytes */
	return s->mode == PROTOSPLIT_WATCH ? frame_head(s, err) : field_head(s, err);
}

static int feed_magic(struct protosplit *s, uint8_t byte, struct err *err)
{
	if (byte != (uint8_t)PROTO_MAGIC[s->n_head])
		return err_set(err, -EBADMSG, "no magic bytes of Kubernetes' protobuf");
	if (++s->n_head == PROTO_MAGIC_LEN)
		next(s);
	return 0;
}

int protosplit_feed(struct protosplit *s, const void *data, size_t len, struct err *err)
{
	const uint8_t *p = data;
	size_t used;
	int r = 0;

	for (; len > 0 && r == 0; p += used, len -= used) {
		used = 1;
		switch (s->state) {
		case PROTOSPLIT_MAGIC:
			r = feed_magic(s, *p, err);
			break;
		case PROTOSPLIT_HEAD:
			r = feed_head(s, *p, err);
			break;
		case PROTOSPLIT_COLLECT:
			r = feed_collect(s, p, len, &used, err);
			break;
		case PROTOSPLIT_SKIP:
			r = feed_skip(s, len, &used, err);
			break;
		case PROTOSPLIT_FAILED:
			r = err_set(err, -EBADMSG, "malformed stream");
			break;
		}
	}
	if (r != 0)
		s->state = PROTOSPLIT_FAILED;
	return r;
}

int protosplit_end(struct protosplit *s, struct err *err)
{
	bool is_between = s->state == PROTOSPLIT_HEAD && s->n_head == 0;

	if (s->state == PROTOSPLIT_FAILED)
		return err_set(err, -EBADMSG, "malformed stream");
	s->state = PROTOSPLIT_FAILED;
	if (s->mode == PROTOSPLIT_LIST && (!is_between || s->is_inside || !s->has_list))
		return err_set(err, -EBADMSG, "ends inside the list");
	return is_between ? 0 : err_set(err, -EBADMSG, "ends inside an event");
}
