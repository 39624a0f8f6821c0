/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/stream - the body of a list or watch, as objects one after the other.
 *
 *     stream_open -> stream_feed, ... -> stream_end -> stream_close
 *
 * Takes bytes as they arrive, in JSON or in protobuf, and hands out every object
 * as a JSON value as soon as it is complete: a list of any length needs the
 * memory of its largest object. Pure: no I/O, no clock.
 *
 * A body is held to what was asked for: a list must say that it is one of the
 * kind, before its first item and with a resource version; an event's object
 * must be of the kind. Otherwise somebody else's answer (a proxy's, a login
 * page's) could be taken for an empty cluster.
 */
#pragma once

#include <jansson.h>

#include "source/decode/decode.h"

enum stream_mode {
	STREAM_LIST = 0,
	STREAM_WATCH,
};

enum stream_encoding {
	STREAM_ENCODING_UNSET = 0,
	STREAM_JSON,
	STREAM_PROTOBUF,
};

enum stream_event {
	STREAM_UNKNOWN = 0, /* a type that is not known, or cannot be read */
	STREAM_ITEM,        /* of a list */
	STREAM_ADDED,
	STREAM_MODIFIED,
	STREAM_DELETED,
	STREAM_BOOKMARK,
	STREAM_ERROR, /* the object is a Status */
};

/* Anything but 0 ends stream_feed() and is its result. */
struct stream_ops {
	int (*object)(void *arg, enum stream_event event, const json_t *obj, struct err *err);
	/*
	 * One object cannot be read, the stream goes on. `identity` has its name and
	 * version ({"metadata": ...}), or is NULL when not even they are known.
	 */
	int (*unreadable)(void *arg, enum stream_event event, const json_t *identity,
			  const char *why, struct err *err);
};

struct stream_config {
	enum stream_mode mode;
	enum stream_encoding encoding;
	enum object_kind kind;
	const struct stream_ops *ops;
	void *arg;
};

#define STREAM_VERSION_MAX 64

/* What a list says of itself. */
struct stream_list {
	char version[STREAM_VERSION_MAX]; /* resourceVersion; never empty */
	char *next;                       /* the continue token, or NULL; malloc'ed */
};

struct stream;
void stream_open(struct stream **ret, const struct stream_config *config);
void stream_close(struct stream *s);
DEFINE_AUTO(struct stream *, stream_close);

/* 0, what an operation returned, or -EBADMSG: the stream is broken and yields no more. */
MUST_USE int stream_feed(struct stream *s, const void *data, size_t len, struct err *err);
/*
 * The body is over. -EBADMSG when it stopped in the middle. `ret` is filled for
 * lists; the caller frees ret->next.
 */
MUST_USE int stream_end(struct stream *s, struct stream_list *ret, struct err *err);

/* From a Content-Type header; UNSET for what no API server sends. */
enum stream_encoding stream_encoding_of(const char *content_type);
const char *stream_encoding_text(enum stream_encoding e);
/* A whole body that is one Status, as error answers have it; NULL when it is none. */
json_t *stream_status(enum stream_encoding encoding, const void *data, size_t len);
/* metadata.resourceVersion, borrowed; NULL when there is none or it is too long to be one. */
const char *stream_version_of(const json_t *obj);
