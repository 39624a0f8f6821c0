/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/list - an intrusive, circular, doubly linked list.
 *
 * A head and a node are the same struct; linking cannot fail. A node that is in
 * no list points at itself (list_init) or holds NULL (zeroed memory); both are
 * "not linked" for list_is_linked() and list_del().
 */
#pragma once

#include <stdbool.h>

#include "base/util.h"

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_is_linked(const struct list *node)
{
	return node->next != NULL && node->next != node;
}

/* Link `node` directly after `at`; `at` may be the head: then it comes first. */
static inline void list_add_after(struct list *at, struct list *node)
{
	node->prev = at;
	node->next = at->next;
	at->next->prev = node;
	at->next = node;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	list_add_after(head->prev, node);
}

static inline void list_del(struct list *node)
{
	if (node->next == NULL)
		return;
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Link `node`, which may be in a list, at the end of another or the same list. */
static inline void list_move_tail(struct list *head, struct list *node)
{
	list_del(node);
	list_add_tail(head, node);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_for_each(pos, head) \
	for (struct list * (pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
/* `pos` itself may be unlinked and freed in the body. */
#define list_for_each_safe(pos, tmp, head)                                              \
	for (struct list * (pos) = (head)->next, *(tmp) = (pos)->next; (pos) != (head); \
	     (pos) = (tmp), (tmp) = (pos)->next)
/* Iterate over the elements that contain the nodes. */
#define list_for_each_entry(pos, head, type, member)                                          \
	for (type * (pos) = list_entry((head)->next, type, member); &(pos)->member != (head); \
	     (pos) = list_entry((pos)->member.next, type, member))
#define list_for_each_entry_safe(pos, tmp, head, type, member)             \
	for (type * (pos) = list_entry((head)->next, type, member),        \
		    *(tmp) = list_entry((pos)->member.next, type, member); \
	     &(pos)->member != (head);                                     \
	     (pos) = (tmp), (tmp) = list_entry((tmp)->member.next, type, member))
