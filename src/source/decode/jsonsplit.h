/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/jsonsplit - cut a stream of JSON into objects, without a tree of all.
 *
 *     jsonsplit_init -> jsonsplit_feed, ... -> jsonsplit_end -> jsonsplit_fini
 *
 * The stream is any number of objects, one after the other. Each is handed out
 * as text; of an object with a list "items" first every entry of that list, then
 * the object itself with the list empty. So the memory needed is that of the
 * largest entry, in a folder of manifests as in an API server's answer.
 *
 * Only brackets and quotes are looked at: what is handed out balances, but is
 * not yet known to be JSON (json_loadb() tells). A stream whose brackets do not
 * match is refused from there on, because nobody can say where it goes on.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct decode;

#define JSON_PIECE_MAX (8U << 20) /* bytes of one piece */
#define JSON_DEPTH_MAX 64
#define JSON_COST_MAX 500000 /* as YAML_COST_MAX */

struct json_piece {
	const char *text; /* terminated; borrowed for the call */
	size_t len;
	uint32_t line; /* of its first byte; the stream begins with line 1 */
	size_t index;  /* of an item in its list */
};

struct jsonsplit_ops {
	/* Anything but 0 ends jsonsplit_feed() and is its result. */
	int (*item)(void *arg, const struct json_piece *p, struct err *err);
	int (*object)(void *arg, const struct json_piece *p, struct err *err);
	/*
	 * A piece over the bounds, of which `p` has the beginning, is left out and the
	 * stream goes on. NULL: it ends there with -E2BIG.
	 */
	int (*too_big)(void *arg, const struct json_piece *p, const char *why, struct err *err);
};

enum jsonsplit_state {
	JSONSPLIT_BETWEEN = 0, /* between objects */
	JSONSPLIT_ROOT,        /* in an object, not in its items */
	JSONSPLIT_ITEMS,       /* in the list, between entries */
	JSONSPLIT_ITEM,
	JSONSPLIT_FAILED,
};

struct jsonsplit {
	const struct jsonsplit_ops *ops;
	void *arg;
	enum jsonsplit_state state;
	struct str root; /* text of the object so far, without items */
	struct str item;
	uint64_t is_list; /* bit d: the bracket at depth d is '[' */
	unsigned int depth;
	bool is_text;    /* inside quotes ... */
	bool is_escaped; /* ... after a backslash */
	bool wants_key;  /* depth 1: the next text is a key */
	bool is_items;   /* depth 1: the last key was "items" */
	size_t text_at;  /* where the last text of depth 1 began, in `root` */
	size_t root_cost;
	size_t item_cost;
	bool is_too_big; /* the rest of this piece is left out ... */
	struct err why;  /* ... for this reason */
	size_t index;
	uint32_t line;
	uint32_t root_line;
	uint32_t item_line;
};

void jsonsplit_init(struct jsonsplit *s, const struct jsonsplit_ops *ops, void *arg);
void jsonsplit_fini(struct jsonsplit *s);
/*
 * 0, or what an operation returned; -EINVAL for a stream that does not balance,
 * -E2BIG for a piece over the bounds. After an error s->line is its line, and
 * every further call fails.
 */
MUST_USE int jsonsplit_feed(struct jsonsplit *s, const char *data, size_t len, struct err *err);
/* -EINVAL when an object is not complete. */
MUST_USE int jsonsplit_end(struct jsonsplit *s, struct err *err);
/* While an item is handed out: the fields of its object so far, as text that balances. */
void jsonsplit_root(const struct jsonsplit *s, struct str *ret);

/* The line of the value that `d`'s steps lead to in `p`, which json_loadb() has read. */
uint32_t json_piece_line_of(const struct json_piece *p, const struct decode *d);
