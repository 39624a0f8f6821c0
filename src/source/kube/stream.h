/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/stream - split the body of a list or watch into objects.
 *
 *     stream_open -> stream_feed, ... -> stream_end -> stream_close
 *
 * The input is JSON or protobuf in pieces of any size. Each object is passed on as a JSON value as
 * soon as it is complete, so a list needs the memory of its largest object. No I/O, no clock.
 *
 * A body must match its request: a list has the kind before its first item and has a resource
 * version; the object of an event has the kind. Otherwise the page of a proxy or of a login could
 * be read as an empty cluster.
 */
#pragma once

#include "source/decode/decode.h"
#include "source/kube/protosplit.h"

enum stream_encoding {
	STREAM_ENCODING_UNSET = 0,
	STREAM_JSON,
	STREAM_PROTOBUF,
};

enum stream_event {
	STREAM_UNKNOWN = 0, /* unknown or unreadable type */
	STREAM_ITEM,        /* item of a list */
	STREAM_ADDED,
	STREAM_MODIFIED,
	STREAM_DELETED,
	STREAM_BOOKMARK,
	STREAM_ERROR, /* the object is a Status */
};

struct stream_config {
	enum stream_mode mode;
	enum stream_encoding encoding;
	enum object_kind kind;
	/*
	 * `obj` is borrowed; its values are read with decode/tree.h. `why` is NULL, or the reason
	 * why the object is unreadable: then `obj` has its name and version ({"metadata": ...}), or
	 * is NULL if they are unreadable. A result other than 0 ends stream_feed() and is its
	 * result.
	 */
	int (*object)(void *arg, enum stream_event event, const json_t *obj, const char *why,
		      struct err *err);
	void *arg;
};

#define STREAM_VERSION_MAX 64

/* Metadata of a list. */
struct stream_list {
	char version[STREAM_VERSION_MAX]; /* resourceVersion; never empty */
	char *next;                       /* the continue token, or NULL; malloc'ed */
};

struct stream;
void stream_open(struct stream **ret, const struct stream_config *config);
void stream_close(struct stream *s);

/* 0, the result of `object`, or -EBADMSG: the stream is malformed and ends. */
MUST_USE int stream_feed(struct stream *s, const void *data, size_t len, struct err *err);
/* End of the body. -EBADMSG: incomplete. `ret` is set for lists; the caller frees ret->next. */
MUST_USE int stream_end(struct stream *s, struct stream_list *ret, struct err *err);

/* Encoding of a Content-Type header; UNSET: none of an API server. */
enum stream_encoding stream_encoding_of(const char *content_type);

/* The API's Status object (metav1.Status): the error of a request. */
struct api_status {
	int code;
	struct err text;   /* code, reason and message, one line */
	bool is_too_large; /* the requested version is newer than the server's */
};
void api_status_read(struct api_status *ret, const json_t *status);
/* Read a whole body that is a Status, as in error answers; false: not a Status. */
bool stream_status(struct api_status *ret, enum stream_encoding encoding, const void *data,
		   size_t len);
/* metadata.resourceVersion, borrowed; NULL: absent, or longer than STREAM_VERSION_MAX. */
const char *stream_version_of(const json_t *obj);
/* Of a bookmark: the end of the initial events of a watch-list. */
bool stream_is_initial_end(const json_t *obj);
