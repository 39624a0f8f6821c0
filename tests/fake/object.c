/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/fake/object - lookup, lifetime, journal. */
#include "fake/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void obj_attrs_set(struct obj_attrs *a, const struct nlmsghdr *h, size_t offset)
{
	free(a->bytes);
	a->len = h->nlmsg_len - MNL_NLMSG_HDRLEN - MNL_ALIGN(offset);
	a->bytes = xmalloc(a->len + 1);
	memcpy(a->bytes, mnl_nlmsg_get_payload_offset(h, offset), a->len);
}

static void rule_free(struct rule *r)
{
	free(r->attrs.bytes);
	free(r);
}

static void chain_free(struct chain *c)
{
	list_for_each_safe (l, tmp, &c->rules)
		rule_free(list_entry(l, struct rule, link));
	free(c->attrs.bytes);
	free(c);
}

static void set_free(struct set *s)
{
	list_for_each_safe (l, tmp, &s->elems)
		free(list_entry(l, struct elem, link));
	htable_fini(&s->index);
	free(s->attrs.bytes);
	free(s);
}

void table_free(struct table *t)
{
	list_for_each_safe (l, tmp, &t->chains)
		chain_free(list_entry(l, struct chain, link));
	list_for_each_safe (l, tmp, &t->sets)
		set_free(list_entry(l, struct set, link));
	free(t->attrs.bytes);
	free(t);
}

struct table *table_find(struct list *tables, uint8_t family, const char *name)
{
	list_for_each_entry (t, tables, struct table, link) {
		if (t->family == family && strcmp(t->name, name) == 0)
			return t;
	}
	return NULL;
}

struct table *table_find_handle(struct list *tables, uint8_t family, uint64_t handle)
{
	list_for_each_entry (t, tables, struct table, link) {
		if (t->family == family && t->handle == handle)
			return t;
	}
	return NULL;
}

struct chain *chain_find(struct table *t, const char *name)
{
	list_for_each (l, &t->chains)
		if (strcmp(list_entry(l, struct chain, link)->name, name) == 0)
			return list_entry(l, struct chain, link);
	return NULL;
}

struct set *set_find(struct table *t, const char *name)
{
	list_for_each (l, &t->sets)
		if (strcmp(list_entry(l, struct set, link)->name, name) == 0)
			return list_entry(l, struct set, link);
	return NULL;
}

struct set *set_find_id(struct table *t, uint32_t id)
{
	list_for_each (l, &t->sets)
		if (id != 0 && list_entry(l, struct set, link)->id == id)
			return list_entry(l, struct set, link);
	return NULL;
}

static uint32_t elem_hash(const uint8_t *key, size_t key_len, uint32_t flags)
{
	return hash_bytes(key, key_len) ^ flags;
}

struct elem *elem_find(const struct set *s, const uint8_t *key, size_t key_len, uint32_t flags)
{
	htable_for_each_hash (n, &s->index, elem_hash(key, key_len, flags)) {
		struct elem *e = container_of(n, struct elem, node);

		if (e->flags == flags && e->key_len == key_len && memcmp(e->key, key, key_len) == 0)
			return e;
	}
	return NULL;
}

void elem_link(struct set *s, struct elem *e)
{
	htable_insert(&s->index, &e->node, elem_hash(e->key, e->key_len, e->flags));
	list_add_tail(&s->elems, &e->link);
}

static void object_free(enum object_kind kind, struct list *link)
{
	switch (kind) {
	case OBJECT_TABLE:
		table_free(list_entry(link, struct table, link));
		return;
	case OBJECT_CHAIN:
		chain_free(list_entry(link, struct chain, link));
		return;
	case OBJECT_RULE:
		rule_free(list_entry(link, struct rule, link));
		return;
	case OBJECT_SET:
		set_free(list_entry(link, struct set, link));
		return;
	case OBJECT_ELEM:
		free(list_entry(link, struct elem, link));
		return;
	}
}

static void unlink_object(enum object_kind kind, struct list *link, struct set *set)
{
	if (kind == OBJECT_ELEM)
		htable_remove(&set->index, &list_entry(link, struct elem, link)->node);
	list_del(link);
}

void journal_added(struct journal *j, enum object_kind kind, struct list *link, struct set *set)
{
	*vec_push(&j->v) = (struct journal_entry){
		.what = JOURNAL_ADDED, .object = kind, .link = link, .set = set
	};
}

void journal_del(struct journal *j, enum object_kind kind, struct list *link, struct set *set)
{
	*vec_push(&j->v) = (struct journal_entry){ .what = JOURNAL_DELETED,
						   .object = kind,
						   .link = link,
						   .after = link->prev,
						   .set = set };
	unlink_object(kind, link, set);
}

void journal_flags(struct journal *j, struct table *t, uint32_t flags)
{
	*vec_push(&j->v) = (struct journal_entry){ .what = JOURNAL_FLAGS,
						   .link = &t->link,
						   .old_flags = t->flags };
	t->flags = flags;
}

void journal_commit(struct journal *j)
{
	vec_for_each (e, &j->v)
		if (e->what == JOURNAL_DELETED)
			object_free(e->object, e->link);
	vec_fini(&j->v);
}

void journal_rollback(struct journal *j)
{
	for (size_t i = j->v.n; i-- > 0;) {
		const struct journal_entry *e = &j->v.v[i];

		if (e->what == JOURNAL_FLAGS) {
			list_entry(e->link, struct table, link)->flags = e->old_flags;
		} else if (e->what == JOURNAL_ADDED) {
			unlink_object(e->object, e->link, e->set);
			object_free(e->object, e->link);
		} else {
			/* Its predecessor is back at its place: the journal runs in reverse.
			 */
			list_add_after(e->after, e->link);
			if (e->object == OBJECT_ELEM) {
				struct elem *el = list_entry(e->link, struct elem, link);

				htable_insert(&e->set->index, &el->node,
					      elem_hash(el->key, el->key_len, el->flags));
			}
		}
	}
	vec_fini(&j->v);
}
