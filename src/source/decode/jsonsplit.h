/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/jsonsplit - split a stream of JSON into objects without a tree of the whole.
 *
 *     jsonsplit_init -> jsonsplit_feed, ... -> jsonsplit_end -> jsonsplit_fini
 *
 * The stream is a sequence of objects. Each is passed on as text; of an object with a list "items",
 * first each entry of the list, then the object with an empty list. The memory needed is that of
 * the largest entry.
 *
 * The splitter reads brackets and quotes only: the brackets of a piece match, but json_loadb() must
 * still check it. A bracket that does not match ends the stream, because the end of its object is
 * unknown.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct decode;
struct yaml;

#define JSON_PIECE_MAX (8U << 20) /* bytes of one piece */
#define JSON_DEPTH_MAX 64
#define JSON_COST_MAX 500000 /* as YAML_COST_MAX */

struct json_piece {
	const char *text; /* terminated; borrowed for the call */
	size_t len;
	uint32_t line; /* of the first byte; the stream begins with line 1 */
};

struct jsonsplit_ops {
	/* A result other than 0 ends jsonsplit_feed() and is its result. */
	int (*item)(void *arg, const struct json_piece *p, struct err *err);
	int (*object)(void *arg, const struct json_piece *p, struct err *err);
	/*
	 * A piece over the limits is skipped; `p` is its beginning. NULL: the stream ends with
	 * -E2BIG.
	 */
	int (*too_big)(void *arg, const struct json_piece *p, const char *why, struct err *err);
};

enum jsonsplit_state {
	JSONSPLIT_BETWEEN = 0, /* between objects */
	JSONSPLIT_ROOT,        /* in an object, outside its items */
	JSONSPLIT_ITEMS,       /* in the list, between entries */
	JSONSPLIT_ITEM,
	JSONSPLIT_FAILED,
};

/* A piece so far. */
struct jsonsplit_part {
	struct str text;
	size_t cost;
	uint32_t line; /* the first one */
};

struct jsonsplit {
	const struct jsonsplit_ops *ops;
	void *arg;
	enum jsonsplit_state state;
	struct jsonsplit_part root; /* the object without items */
	struct jsonsplit_part item;
	uint64_t is_list; /* bit d: the bracket at depth d is '[' */
	unsigned int depth;
	bool is_text;    /* inside quotes */
	bool is_escaped; /* inside quotes, after a backslash */
	bool is_too_big; /* the rest of this piece is skipped */
	struct err why;  /* reason of is_too_big */
	uint32_t line;
};

void jsonsplit_init(struct jsonsplit *s, const struct jsonsplit_ops *ops, void *arg);
void jsonsplit_fini(struct jsonsplit *s);
/*
 * 0, or the result of an operation; -EBADMSG: brackets do not match, or are nested too deep;
 * -E2BIG: a piece over the other limits. After an error s->line is its line, and every call fails.
 */
MUST_USE int jsonsplit_feed(struct jsonsplit *s, const char *data, size_t len, struct err *err);
/* -EBADMSG: the last object is incomplete. */
MUST_USE int jsonsplit_end(struct jsonsplit *s, struct err *err);
/* During item(): the list's object so far. A new reference, or NULL: not JSON. */
json_t *jsonsplit_root(const struct jsonsplit *s, json_error_t *why);

/* Lines of values of one piece, which is parsed for the first one. Zeroed memory is empty. */
struct json_lines {
	struct yaml *yaml; /* NULL: not parsed yet */
	char *text;
	json_t *root; /* NULL: only the line of the piece is known */
};

/* The line of the value at the steps of `d` in `p`, which json_loadb() has accepted. */
uint32_t json_lines_of(struct json_lines *l, const struct json_piece *p, const struct decode *d);
void json_lines_fini(struct json_lines *l);
