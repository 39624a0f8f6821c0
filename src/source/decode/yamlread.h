/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/yamlread - YAML text to JSON values, as kubectl reads it.
 *
 *     yaml_open -> yaml_next, yaml_next, ... -> yaml_close
 *
 * Untagged plain scalars resolve as in the YAML library of Kubernetes (yes, no,
 * on and off are booleans; 010 is eight and 080 is eighty; timestamps are text),
 * aliases and merge keys work, keys become text. Refused: a key given twice (see
 * yaml_allow_twice()), keys that are lists or objects, foreign tags, and what exceeds the bounds
 * below, counted after expansion of aliases. Values of an alias are shared, not
 * copied.
 *
 * Entries of a root object's "items" are handed out one by one and never held
 * together, so a list of any length needs the memory of its largest entry. Its
 * root follows with "items" empty.
 *
 * Every value's line is known until the next call: yaml_line_of().
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"

struct decode;
struct yaml;

#define YAML_DEPTH_MAX 64
/*
 * Cost of one document or list entry: a scalar 1, a list 2, an object 4; about 50
 * bytes of memory each.
 */
#define YAML_COST_MAX 500000
#define YAML_TEXT_MAX (8U << 20) /* bytes of text of the same */

enum yaml_what {
	YAML_END = 0,
	YAML_DOCUMENT,
	YAML_ITEM,
};

/* Text: up to `size` bytes into `buf`; 0 at the end, -errno. */
typedef ssize_t (*yaml_read_fn)(void *arg, void *buf, size_t size);

/* `line`: number of the text's first line. `arg` is borrowed until yaml_close(). */
void yaml_open(struct yaml **ret, yaml_read_fn read, void *arg, uint32_t line);
/* The same from memory, borrowed. */
void yaml_open_text(struct yaml **ret, const char *text, size_t len, uint32_t line);
/*
 * From now on a key given twice is no error: the last value counts, and `told`
 * hears of every such key.
 */
void yaml_allow_twice(struct yaml *y, void (*told)(void *arg, const char *key, uint32_t line),
		      void *arg);
void yaml_close(struct yaml *y);
DEFINE_AUTO(struct yaml *, yaml_close);

/*
 * enum yaml_what, with a new reference in `ret` unless YAML_END. An error ends
 * the text: -EINVAL syntax, -E2BIG a bound, or what the reading gave; the line
 * is in yaml_line().
 */
MUST_USE int yaml_next(struct yaml *y, json_t **ret, struct err *err);
/* The root of the document that is not complete, as far as it is known; borrowed, or NULL. */
json_t *yaml_root(const struct yaml *y);
/* First line of what was handed out last, or the line of the error. */
uint32_t yaml_line(const struct yaml *y);
/* What the value handed out last counts for YAML_COST_MAX. */
size_t yaml_cost(const struct yaml *y);
/* The line of the value that `d`'s steps lead to, in what was handed out last. */
uint32_t yaml_line_of(const struct yaml *y, const struct decode *d);
