/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/yamlread - YAML to JSON values, compatible with kubectl.
 *
 *     yaml_open -> yaml_next, yaml_next, ... -> yaml_close
 *
 * Untagged plain scalars resolve as in the YAML library of Kubernetes (yes, no, on and off are
 * booleans; 010 is eight and 080 is eighty; timestamps are text). Aliases and merge keys are
 * supported; keys become text. Errors: duplicate keys (see yaml_allow_twice()), keys that are lists
 * or objects, unknown tags, and the limits below, counted after expansion of aliases. Values of an
 * alias are shared, not copied.
 *
 * Entries of a root object's "items" are returned one by one, so a list needs the memory of its
 * largest entry. The root follows with empty "items".
 *
 * yaml_line_of() returns the line of any value until the next call.
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"

struct decode;
struct yaml;

#define YAML_DEPTH_MAX 64
/*
 * Limit of one document or list entry: a scalar counts 1, a list 2, an object 4; about 50 bytes of
 * memory each.
 */
#define YAML_COST_MAX 500000
#define YAML_TEXT_MAX (8U << 20) /* bytes of text of one document or list entry */

enum yaml_what {
	YAML_END = 0,
	YAML_DOCUMENT,
	YAML_ITEM,
	YAML_PART, /* of yaml_next_part() only */
};
#define YAML_PART_EVENTS 4096 /* scalars, begins and ends: about 3 ms */

/* Read up to `size` bytes into `buf`; 0: end; -errno. */
typedef ssize_t (*yaml_read_fn)(void *arg, void *buf, size_t size);

/* `line`: number of the text's first line. `arg` is borrowed until yaml_close(). */
void yaml_open(struct yaml **ret, yaml_read_fn read, void *arg, uint32_t line);
/* Like yaml_open(), from borrowed memory. */
void yaml_open_text(struct yaml **ret, const char *text, size_t len, uint32_t line);
/* Accept duplicate keys: the last value counts, and `twice` is called for each duplicate. */
void yaml_allow_twice(struct yaml *y, void (*twice)(void *arg, const char *key, uint32_t line),
		      void *arg);
void yaml_close(struct yaml *y);
DEFINE_AUTO(struct yaml *, yaml_close);

/*
 * enum yaml_what, with a new reference in `ret` unless YAML_END. An error ends the text: -EINVAL
 * (syntax), -E2BIG (a limit), or the error of `read`; yaml_line() is its line.
 */
MUST_USE int yaml_next(struct yaml *y, json_t **ret, struct err *err);
/* Like yaml_next(). YAML_PART: a large value is not complete, repeat; `ret` is not set. */
MUST_USE int yaml_next_part(struct yaml *y, json_t **ret, struct err *err);
/* The incomplete root of the current document, borrowed; NULL: none. */
json_t *yaml_root(const struct yaml *y);
/* First line of the last returned value, or the line of the error. */
uint32_t yaml_line(const struct yaml *y);
/* Cost of the last returned value, see YAML_COST_MAX. */
size_t yaml_cost(const struct yaml *y);
/* Line of the value at the steps of `d` in the last returned value. */
uint32_t yaml_line_of(const struct yaml *y, const struct decode *d);
