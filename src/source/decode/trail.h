/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/trail - read fields of a JSON object and report the path of an invalid one.
 *
 *     trail_start(d);
 *     trail_list(&ports, d, spec, "ports", MAX, err);
 *     trail_into(d);
 *     ... trail_element(d, ports, i) ... trail_refuse(d, err, "is not an object");
 *     trail_out(d);
 *
 * Each getter makes its field the current one; trail_into() descends into it. A path is formatted
 * only for a rejection or a note, so a valid object costs one store per field. After a rejection
 * callers do not call trail_out(): the steps lead to the invalid value (see struct decode).
 *
 * Internal to decode/.
 */
#pragma once

#include "source/decode/decode.h"

void trail_start(struct decode *d);
void trail_into(struct decode *d);
void trail_out(struct decode *d);

/* Make the field or element the current one. Returns NULL if it is absent or null. */
const json_t *trail_field(struct decode *d, const json_t *obj, const char *key);
const json_t *trail_element(struct decode *d, const json_t *list, size_t i);

/* Store "path: text" in `err`; returns -EINVAL. */
int trail_refuse(struct decode *d, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Pass "path: text" to `note`, if it is set. */
void trail_note(struct decode *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

/*
 * Typed fields. Another type is rejected. If the field is absent, the result is 0: `ret` keeps its
 * number or boolean, other types become NULL (an empty list). Text contains no NUL. All values are
 * borrowed from the object.
 */
MUST_USE int trail_text(const char **ret, struct decode *d, const json_t *obj, const char *key,
			struct err *err);
MUST_USE int trail_int(int64_t *ret, struct decode *d, const json_t *obj, const char *key,
		       int64_t min, int64_t max, struct err *err);
MUST_USE int trail_bool(bool *ret, struct decode *d, const json_t *obj, const char *key,
			struct err *err);
MUST_USE int trail_object(const json_t **ret, struct decode *d, const json_t *obj, const char *key,
			  struct err *err);
/* -E2BIG: more than `max` elements. */
MUST_USE int trail_list(const json_t **ret, struct decode *d, const json_t *obj, const char *key,
			size_t max, struct err *err);
/* Element `i`, which must be an object or text. */
MUST_USE int trail_element_object(const json_t **ret, struct decode *d, const json_t *list,
				  size_t i, struct err *err);
MUST_USE int trail_element_text(const char **ret, struct decode *d, const json_t *list, size_t i,
				struct err *err);
