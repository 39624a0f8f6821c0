/* SPDX-License-Identifier: GPL-2.0-or-later */
/* files/entry - entries, their keys and their text in messages. */
#include "source/files/entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"

uint32_t entry_line(const struct entry *e)
{
	const struct file *f = e->file;

	return e->unit < f->units.n ? f->units.v[e->unit].line + e->line : 0;
}

void entry_title(struct str *ret, const struct entry *e)
{
	object_title(ret, e->key.kind, e->key.ns, e->key.name);
}

uint32_t entry_key_hash(const struct key *k)
{
	const void *parts[] = { k->ns, k->name, (const void *)(uintptr_t)k->kind };

	return hash_bytes(parts, sizeof(parts)); /* names are interned: hash the pointers */
}

bool entry_is(const struct entry *e, const struct key *k)
{
	return e->key.kind == k->kind && e->key.ns == k->ns && e->key.name == k->name;
}

struct entry *entry_new(struct state *s, struct file *f, const struct piece *p)
{
	struct entry *e = xcalloc(1, sizeof(*e));

	e->file = f;
	e->key = (struct key){ p->kind, name_ref(p->ns), name_ref(p->name) };
	htable_insert(&s->entries, &e->node, entry_key_hash(&e->key));
	return e;
}

void entry_key_changed(struct state *s, const struct key *k)
{
	*vec_push(&s->changed) = (struct key){ k->kind, name_ref(k->ns), name_ref(k->name) };
}

void entry_shadow_set(struct state *s, struct entry *e, bool is_shadowed)
{
	if (is_shadowed == ((e->flags & ENTRY_SHADOWED) != 0))
		return;
	e->flags ^= ENTRY_SHADOWED;
	if (is_shadowed)
		s->n_shadowed++;
	else
		s->n_shadowed--;
}

void entry_free(struct state *s, struct entry *e)
{
	if (!s->is_closing)
		entry_key_changed(s, &e->key);
	entry_shadow_set(s, e, false);
	htable_remove(&s->entries, &e->node);
	object_fini(&e->obj);
	name_unref(e->key.ns);
	name_unref(e->key.name);
	free(e);
}

struct entry *entry_find_old(const struct state *s, const struct file *f, const struct piece *p)
{
	const struct key k = { p->kind, p->ns, p->name };
	struct entry *found = NULL;

	htable_for_each_hash (n, &s->entries, entry_key_hash(&k)) {
		struct entry *e = container_of(n, struct entry, node);

		if (e->file == f && !(e->flags & ENTRY_MOVED) && entry_is(e, &k) &&
		    (found == NULL || e->pos < found->pos))
			found = e;
	}
	return found;
}
