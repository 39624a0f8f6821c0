/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decode/tree - the values that decoders read: jansson's, or those of a protobuf message.
 *
 * A value of a message begins with the header of a json_t and has a type that jansson does not
 * have: jansson's functions find nothing in it and do not count references to it. Its memory
 * belongs to a pool, which releases all its values at once: some hundred for one object.
 *
 * Both kinds are read with the functions here. Booleans are those of jansson: json_is_true().
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct tree_block;

/* Zeroed memory is an empty pool. */
struct tree_pool {
	struct tree_block *blocks; /* the newest first */
	size_t used;               /* of the newest */
};

/* Release all values, and keep one block for the next ones. */
void tree_pool_clear(struct tree_pool *pool);
void tree_pool_fini(struct tree_pool *pool);

/* Values in `pool`. tree_new(): an empty object or list, or a boolean. A text is copied. */
json_t *tree_new(struct tree_pool *pool, json_type type);
json_t *tree_new_text(struct tree_pool *pool, const void *text, size_t len);
json_t *tree_new_number(struct tree_pool *pool, int64_t number);
/*
 * Put `v` into an object, instead of an earlier value of `key`, which is borrowed; or at the end of
 * a list. All are values of one pool, and `v` is put once.
 */
void tree_set(json_t *obj, const char *key, json_t *v);
void tree_append(json_t *list, json_t *v);

/* As json_typeof(). */
json_type tree_type(const json_t *v);
/* False for NULL. */
bool tree_is(const json_t *v, json_type type);
/* As json_object_get() and json_array_get(). An element is found fastest after the one before it */
const json_t *tree_get(const json_t *obj, const char *key);
const json_t *tree_at(const json_t *list, size_t i);
/* As json_array_size(), json_string_value(), json_string_length() and json_integer_value(). */
size_t tree_count(const json_t *list);
const char *tree_text(const json_t *v);
size_t tree_text_len(const json_t *v);
/* tree_text(), but NULL for a text that contains a NUL. */
const char *tree_word(const json_t *v);
int64_t tree_number(const json_t *v);
