/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/protosplit - split an API server's protobuf answer into objects.
 *
 *     protosplit_init -> protosplit_feed, ... -> protosplit_end -> protosplit_fini
 *
 * A list is an envelope around one message with the items; a watch is a sequence of frames, each
 * after its length. Each piece is complete when it is passed on, so the memory needed is that of
 * the largest object.
 *
 * Source: appendix A of doc/behaviour.md.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define PROTO_PIECE_MAX \
	(4U << 20) /* bytes of one object; of a larger one only the head is passed on */
#define PROTO_LENGTH_MAX (64U << 20) /* a larger length is malformed */
#define PROTO_HEAD_MAX (64U << 10)   /* bytes of that head; limit of the metadata of a list */

enum stream_mode {
	STREAM_LIST = 0,
	STREAM_WATCH,
};

enum proto_piece {
	PROTO_PIECE_NONE = 0,
	PROTO_PIECE_TYPE,  /* list: its TypeMeta message, the first piece */
	PROTO_PIECE_META,  /* list: its ListMeta message */
	PROTO_PIECE_ITEM,  /* list: one object, without envelope */
	PROTO_PIECE_FRAME, /* watch: one WatchEvent message */
};

struct proto_bytes {
	const void *data;
	size_t len;
	size_t whole_len; /* greater than `len`: `data` is only the head */
};

/* `bytes` is borrowed. A result other than 0 ends protosplit_feed() and is its result. */
typedef int (*protosplit_fn)(void *arg, enum proto_piece what, const struct proto_bytes *bytes,
			     struct err *err);

struct protosplit {
	protosplit_fn fn;
	void *arg;
	enum stream_mode mode;
	bool is_failed;
	bool has_magic;
	bool has_type;
	bool has_list;      /* list: the raw bytes of the envelope have begun */
	uint64_t list_left; /* list: bytes of them that follow */
	uint64_t skip;      /* bytes of no piece that follow */
	struct str rest;    /* the beginning of a piece */
};

void protosplit_init(struct protosplit *s, enum stream_mode mode, protosplit_fn fn, void *arg);
void protosplit_fini(struct protosplit *s);
/* 0, the result of `fn`, or -EBADMSG; after an error every call fails. */
MUST_USE int protosplit_feed(struct protosplit *s, const void *data, size_t len, struct err *err);
/* -EBADMSG: the list or the last frame is incomplete. */
MUST_USE int protosplit_end(struct protosplit *s, struct err *err);
