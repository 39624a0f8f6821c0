/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl/value - members of untrusted answers, and numbers as text.
 *
 * A member that is missing or has another type reads as "", 0, false or an empty array, so that
 * vipctl also shows answers of an older or newer vipd with this API version.
 */
#pragma once

#include <jansson.h>

#include "base/str.h"
#include "ctl/table.h"

/* The text of a string; "" for NULL and other types. */
const char *value_string(const json_t *v);
const char *value_text(const json_t *object, const char *key);
json_int_t value_int(const json_t *object, const char *key);
bool value_bool(const json_t *object, const char *key);
/* Does the member exist, with a value other than null? */
bool value_has(const json_t *object, const char *key);
/* Does an element of the list have the member, with a value other than null and false? */
bool value_any(const json_t *list, const char *key);
/* NULL when the member is missing; NULL reads as an empty object and as an empty array. */
const json_t *value_get(const json_t *object, const char *key);

/*
 * The element of the member "endpoints" with the address and port of `ep` and this protocol; NULL:
 * none.
 */
const json_t *value_endpoint(const json_t *object, const json_t *ep, const char *proto);

/* Iterate over an array; NULL and other types have no elements. */
#define value_for_each(pos, array)                                                \
	for (const json_t *pos##_i = NULL, *pos;                                  \
	     (pos = json_array_get((array), (size_t)(uintptr_t)pos##_i)) != NULL; \
	     pos##_i = (const json_t *)((uintptr_t)pos##_i + 1))

/*
 * Replace control characters (str_is_control()) in every text of `json`: users choose names, and a
 * terminal executes control sequences.
 */
void value_clean(json_t *json);

/*
 * Append `text`, in which members of `object` stand in braces:
 *
 *     {name}               a text, or an array of texts with blanks between them
 *     {port:d}             a number
 *     {services:service}   "1 service", "2 services": a number and what it counts
 *     {took_us:us}         "85 us", "1.2 ms", "3.4 s"
 *     {uptime_ms:ms}       "350 ms", "12 s", "3 m 20 s", "5 h 12 m", "2 d 3 h"
 *     {last_ms:ago}        the same, with " ago"
 */
void say(struct str *out, const json_t *object, const char *text);
/* In the colour of `mark`. */
void mark_say(struct str *out, const struct style *style, enum mark mark, const json_t *object,
	      const char *text);
void say_ms(struct str *out, json_int_t ms);
void say_us(struct str *out, json_int_t us);
/* Members "address" and "port": "10.0.0.1:80", "[fd00::1]:80"; without a port, the address. */
void say_endpoint(struct str *out, const json_t *object);

/* Of the state of a service, or the level of a check. */
enum mark state_mark(const char *state);
/* `text`, or "-" when it is empty. */
const char *dash(const char *text);

/* Cells as table_cell(). With say(); "-" if nothing is said. */
void cell_say(struct table *t, const char *title, unsigned int look, const json_t *object,
	      const char *text);
/* A share of connections; "?" if it is null: not predictable. */
void cell_share(struct table *t, const char *title, unsigned int look, const json_t *object,
		const char *key);
/* With say_endpoint(), and "/PROTOCOL" if the object has one. */
void cell_endpoint(struct table *t, const char *title, unsigned int look, const json_t *object);
/* Member "silent" of the endpoint, after `before`; "-" without one. */
void cell_silent(struct table *t, const char *title, const char *before, const json_t *endpoint);
/*
 * Columns ENDPOINT, POD, NODE, with a star for this one, and READY: yes, no, terminating,
 * terminated.
 */
void cells_of_endpoint(struct table *t, const json_t *endpoint);
