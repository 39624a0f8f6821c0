/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/trail - read fields of a JSON object and report the path of an invalid one.
 *
 *     trail_start(d, err);
 *     spec = trail_enter(d, obj, "spec");
 *     list = trail_list(d, spec, "clusterIPs", MAX);
 *     trail_for_each (i, d, list)
 *             ... trail_element(d, list, i) ... trail_reject(d, "is not an IP address");
 *     trail_out(d);
 *     return d->r;
 *
 * The first rejection stays: afterwards values read as absent, lists as empty, and nothing is
 * noted, so that callers check d->r only where an absent value would be misread.
 *
 * Each getter makes its field the current one; trail_into() descends into it. A path is formatted
 * only for a rejection or a note, so a valid object costs one store per field. After a rejection
 * the steps lead to the invalid value (see struct decode).
 *
 * Internal to decode/ and to the readers of kubeconfigs and of configuration files.
 */
#pragma once

#include "source/decode/decode.h"

/* `err` is borrowed until the last call for this object. */
void trail_start(struct decode *d, struct err *err);
void trail_into(struct decode *d);
void trail_out(struct decode *d);

/* Make the field or element the current one. Returns NULL if it is absent or null. */
const json_t *trail_field(struct decode *d, const json_t *obj, const char *key);
const json_t *trail_element(struct decode *d, const json_t *list, size_t i);
/*
 * Iterate over a list, with the trail inside the list; in trail_for_each_object(), whose elements
 * must be objects, inside the current one. If the loop is left early, the trail stays there.
 */
#define trail_for_each(i, d, list) for (size_t i = 0; trail_more((d), (list), i); i++)
#define trail_for_each_object(pos, d, list)                                                      \
	for (const json_t *pos##_list = (list), *pos = trail_object_next((d), pos##_list, NULL); \
	     pos != NULL; pos = trail_object_next((d), pos##_list, pos))
/* Before element `i`. */
bool trail_more(struct decode *d, const json_t *list, size_t i);
const json_t *trail_object_next(struct decode *d, const json_t *list, const json_t *prev);

/* Store "path: text" in the error; returns -EINVAL, or the code of an earlier rejection. */
int trail_reject(struct decode *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Pass "path: text" to `note`, if it is set. */
void trail_note(struct decode *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

/*
 * Typed fields. Another type is rejected. An absent number or boolean is `preset`, other types are
 * NULL (an empty list). Text contains no NUL. All values are borrowed from the object.
 */
const char *trail_text(struct decode *d, const json_t *obj, const char *key);
/* As trail_text(); an absent or empty text is rejected. */
const char *trail_required(struct decode *d, const json_t *obj, const char *key);
int64_t trail_int(struct decode *d, const json_t *obj, const char *key, int64_t min, int64_t max,
		  int64_t preset);
bool trail_bool(struct decode *d, const json_t *obj, const char *key, bool preset);
/* An object; then trail_into(). */
const json_t *trail_enter(struct decode *d, const json_t *obj, const char *key);
/* -E2BIG: more than `max` elements. */
const json_t *trail_list(struct decode *d, const json_t *obj, const char *key, size_t max);
/* Element `i`, which must be text. */
const char *trail_element_text(struct decode *d, const json_t *list, size_t i);
