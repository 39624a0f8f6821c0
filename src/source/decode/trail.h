/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/trail - reading fields of a JSON object, and naming the one at fault.
 *
 *     trail_start(d);
 *     trail_list(&ports, d, spec, "ports", MAX, err);
 *     trail_into(d);
 *     ... trail_element(d, ports, i) ... trail_refuse(d, err, "is not an object");
 *     trail_out(d);
 *
 * Each getter makes its field the current one; trail_into() descends into it.
 * Nothing is formatted until something is refused or noted, so a good object
 * pays one store per field. After a refusal nobody goes out: the steps still
 * lead to the value (see struct decode).
 *
 * Internal to decode/.
 */
#pragma once

#include "source/decode/decode.h"

void trail_start(struct decode *d);
void trail_into(struct decode *d);
void trail_out(struct decode *d);

/* The field or element, which becomes current; NULL when absent or null. */
const json_t *trail_field(struct decode *d, const json_t *obj, const char *key);
const json_t *trail_element(struct decode *d, const json_t *list, size_t i);

/* "path: text" into `err`; returns -EINVAL. */
int trail_refuse(struct decode *d, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Tell the note "path: text" if anybody listens. */
void trail_note(struct decode *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

/*
 * Typed fields. Absent is 0: numbers and booleans keep what `ret` held, all else
 * becomes NULL (an empty list). Another type is refused. Text holds no NUL and,
 * like everything here, is borrowed from the object.
 */
MUST_USE int trail_text(const char **ret, struct decode *d, const json_t *obj, const char *key,
			struct err *err);
MUST_USE int trail_int(int64_t *ret, struct decode *d, const json_t *obj, const char *key,
		       int64_t min, int64_t max, struct err *err);
MUST_USE int trail_bool(bool *ret, struct decode *d, const json_t *obj, const char *key,
			struct err *err);
MUST_USE int trail_object(const json_t **ret, struct decode *d, const json_t *obj, const char *key,
			  struct err *err);
/* -E2BIG when the list has more than `max` elements. */
MUST_USE int trail_list(const json_t **ret, struct decode *d, const json_t *obj, const char *key,
			size_t max, struct err *err);
/* Element `i`, which must be an object or text. */
MUST_USE int trail_element_object(const json_t **ret, struct decode *d, const json_t *list,
				  size_t i, struct err *err);
MUST_USE int trail_element_text(const char **ret, struct decode *d, const json_t *list, size_t i,
				struct err *err);
