/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/protosplit - cut an API server's protobuf answer into objects as it arrives.
 *
 *     protosplit_init -> protosplit_feed, ... -> protosplit_end -> protosplit_fini
 *
 * A list is one envelope around one message whose items follow each other; a
 * watch is a row of frames, each with its length in front. In both, every piece
 * is told in full before it is handed out, so the memory needed is that of the
 * largest object, and none at all when the object lies within one feed.
 *
 * Source: appendix A of doc/behaviour.md.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define PROTO_PIECE_MAX (4U << 20)   /* bytes of one object: only the head of longer ones is told */
#define PROTO_LENGTH_MAX (64U << 20) /* no object is that long: these are not lengths */
#define PROTO_HEAD_MAX (64U << 10)   /* bytes of that head, and of the metadata of a list */

enum protosplit_mode {
	PROTOSPLIT_LIST = 0,
	PROTOSPLIT_WATCH,
};

enum proto_piece {
	PROTO_PIECE_NONE = 0,
	PROTO_PIECE_TYPE,  /* list: its TypeMeta message, before all others */
	PROTO_PIECE_META,  /* list: its ListMeta message */
	PROTO_PIECE_ITEM,  /* list: one object, without envelope */
	PROTO_PIECE_FRAME, /* watch: one WatchEvent message */
};

struct proto_bytes {
	const void *data;
	size_t len;
	size_t whole_len; /* `len`, or more when only the head of the piece is here */
};

/* `bytes` is borrowed for the call. Anything but 0 ends protosplit_feed() and is its result. */
typedef int (*protosplit_fn)(void *arg, enum proto_piece what, const struct proto_bytes *bytes,
			     struct err *err);

enum protosplit_state {
	PROTOSPLIT_MAGIC = 0,
	PROTOSPLIT_HEAD, /* key and length of a field, or the length of a frame */
	PROTOSPLIT_COLLECT,
	PROTOSPLIT_SKIP,
	PROTOSPLIT_FAILED,
};

struct protosplit {
	protosplit_fn fn;
	void *arg;
	enum protosplit_mode mode;
	enum protosplit_state state;
	enum proto_piece piece; /* being collected; NONE: nobody wants it */
	uint8_t head[24];
	uint8_t n_head;
	bool has_type;
	bool is_inside; /* list: in the raw bytes of the envelope ... */
	bool has_list;  /* ... which have begun */
	uint64_t inside_left;
	uint64_t left;      /* of the field at hand */
	uint64_t piece_len; /* whole */
	struct str buf;
};

void protosplit_init(struct protosplit *s, enum protosplit_mode mode, protosplit_fn fn, void *arg);
void protosplit_fini(struct protosplit *s);
/* 0, what `fn` returned, or -EBADMSG; after an error every further call fails. */
MUST_USE int protosplit_feed(struct protosplit *s, const void *data, size_t len, struct err *err);
/* -EBADMSG when the list or the last frame is not complete. */
MUST_USE int protosplit_end(struct protosplit *s, struct err *err);
