/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "source/decode/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define BLOCK_SIZE (16U << 10)

/* Added to jansson's types: types that jansson does not have. */
#define NODE 64U

struct node {
	json_t head; /* jansson does not count the references to a value with refcount -1 */
	const char *key;
	struct node *next; /* in the object or list */
	uint32_t n;        /* bytes of the text, elements of the list */
	uint32_t at_index;
	struct node *at; /* element that was read last; NULL: none */
	union {
		struct {
			struct node *first; /* of an object: the field put last */
			struct node *last;
		};
		const char *text;
		int64_t number;
	};
};

struct tree_block {
	struct tree_block *next;
	size_t size;
	_Alignas(16) uint8_t bytes[];
};

/* --- memory --------------------------------------------------------------- */

void tree_pool_clear(struct tree_pool *pool)
{
	struct tree_block *b;

	while ((b = pool->blocks) != NULL && (b->next != NULL || b->size != BLOCK_SIZE)) {
		pool->blocks = b->next;
		free(b);
	}
	pool->used = 0;
}

void tree_pool_fini(struct tree_pool *pool)
{
	tree_pool_clear(pool);
	free(pool->blocks);
	pool->blocks = NULL;
}

static void *pool_alloc(struct tree_pool *pool, size_t size)
{
	size_t len = (size + 7) & ~(size_t)7;
	struct tree_block *b = pool->blocks;

	if (b == NULL || len > b->size - pool->used) {
		size_t block_size = MAX(len, (size_t)BLOCK_SIZE);

		b = xmalloc(sizeof(*b) + block_size);
		b->size = block_size;
		b->next = pool->blocks;
		*pool = (struct tree_pool){ .blocks = b };
	}
	pool->used += len;
	return b->bytes + pool->used - len;
}

/* --- writing -------------------------------------------------------------- */

static struct node *node_of(const json_t *v)
{
	return (struct node *)(uintptr_t)v;
}

json_t *tree_new(struct tree_pool *pool, json_type type)
{
	bool is_bool = type == JSON_TRUE || type == JSON_FALSE;
	struct node *n = pool_alloc(pool, sizeof(*n));

	*n = (struct node){ .head = { .type = is_bool ? type : (json_type)(NODE + type),
				      .refcount = (size_t)-1 } };
	return &n->head;
}

json_t *tree_new_text(struct tree_pool *pool, const void *text, size_t len)
{
	json_t *v = tree_new(pool, JSON_STRING);
	char *copy = pool_alloc(pool, len + 1);

	memcpy(copy, text, len);
	copy[len] = '\0';
	node_of(v)->text = copy;
	node_of(v)->n = (uint32_t)len;
	return v;
}

json_t *tree_new_number(struct tree_pool *pool, int64_t number)
{
	json_t *v = tree_new(pool, JSON_INTEGER);

	node_of(v)->number = number;
	return v;
}

/* In front of an earlier value: tree_get() finds the later one. */
void tree_set(json_t *obj, const char *key, json_t *v)
{
	node_of(v)->key = key;
	node_of(v)->next = node_of(obj)->first;
	node_of(obj)->first = node_of(v);
}

void tree_append(json_t *list, json_t *v)
{
	struct node *l = node_of(list);

	*(l->n == 0 ? &l->first : &l->last->next) = node_of(v);
	l->last = node_of(v);
	l->n++;
}

/* --- reading -------------------------------------------------------------- */

static bool is_node(const json_t *v, json_type type)
{
	return v != NULL && (unsigned int)v->type == NODE + type;
}

json_type tree_type(const json_t *v)
{
	unsigned int type = (unsigned int)v->type;

	return (json_type)(type >= NODE ? type - NODE : type);
}

bool tree_is(const json_t *v, json_type type)
{
	return v != NULL && tree_type(v) == type;
}

const json_t *tree_get(const json_t *obj, const char *key)
{
	if (!is_node(obj, JSON_OBJECT))
		return json_object_get(obj, key);
	for (const struct node *n = node_of(obj)->first; n != NULL; n = n->next)
		if (n->key[0] == key[0] && strcmp(n->key, key) == 0)
			return &n->head;
	return NULL;
}

const json_t *tree_at(const json_t *list, size_t i)
{
	struct node *l = node_of(list);

	if (!is_node(list, JSON_ARRAY))
		return json_array_get(list, i);
	if (i >= l->n)
		return NULL;
	if (l->at == NULL || l->at_index > i) {
		l->at = l->first;
		l->at_index = 0;
	}
	for (; l->at_index < i; l->at_index++)
		l->at = l->at->next;
	return &l->at->head;
}

size_t tree_count(const json_t *list)
{
	return is_node(list, JSON_ARRAY) ? node_of(list)->n : json_array_size(list);
}

const char *tree_text(const json_t *v)
{
	return is_node(v, JSON_STRING) ? node_of(v)->text : json_string_value(v);
}

size_t tree_text_len(const json_t *v)
{
	return is_node(v, JSON_STRING) ? node_of(v)->n : json_string_length(v);
}

const char *tree_word(const json_t *v)
{
	const char *text = tree_text(v);

	return text != NULL && strlen(text) == tree_text_len(v) ? text : NULL;
}

int64_t tree_number(const json_t *v)
{
	return is_node(v, JSON_INTEGER) ? node_of(v)->number : json_integer_value(v);
}
