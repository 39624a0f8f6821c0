/* SPDX-License-Identifier: GPL-2.0-or-later */
/* files/state - files, their entries, and the choice between versions of an object. */
#include "source/files/state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "source/files/entry.h"

/* --- files ------------------------------------------------------------------ */

void state_open(struct state **ret, struct model *m)
{
	struct state *s = xcalloc(1, sizeof(*s));

	s->model = m;
	list_init(&s->listed);
	*ret = s;
}

void state_file_gone(struct state *s, struct file *f)
{
	vec_for_each (e, &f->entries)
		entry_free(s, *e);
	vec_for_each (p, &f->problems)
		free(p->text);
	vec_fini(&f->problems);
	vec_fini(&f->entries);
	vec_fini(&f->units);
	list_del(&f->dirty);
	list_del(&f->missing);
	list_del(&f->listed);
	htable_remove(&s->files, &f->node);
	free(f->failure);
	free(f->shown);
	free(f->name);
	free(f);
}

void state_close(struct state *s)
{
	if (s == NULL)
		return;
	s->is_closing = true;
	htable_for_each_entry_safe (f, tmp, &s->files, struct file)
		state_file_gone(s, f);
	htable_fini(&s->files);
	htable_fini(&s->entries);
	htable_fini(&s->last_units);
	vec_fini(&s->unit_refs);
	vec_for_each (k, &s->changed)
		name_pair_unref(k->ns, k->name);
	vec_fini(&s->changed);
	free(s);
}

struct file *state_file_find(const struct state *s, const char *name)
{
	return htable_find(&s->files, hash_bytes(name, strlen(name)), struct file, f,
			   strcmp(f->name, name) == 0);
}

struct file *state_file_get(struct state *s, const char *name)
{
	struct file *f = state_file_find(s, name);

	if (f != NULL)
		return f;
	f = xcalloc(1, sizeof(*f));
	f->name = xstrdup(name);
	f->shown = str_clean(xstrdup(name));
	htable_insert(&s->files, &f->node, hash_bytes(name, strlen(name)));
	file_listed_update(s, f);
	return f;
}

static bool is_incomplete(const struct file *f)
{
	return !f->is_known || f->n_unknown > 0;
}

void file_listed_update(struct state *s, struct file *f)
{
	list_del(&f->listed);
	if (is_incomplete(f) || f->failure != NULL || f->problems.n > 0 || f->n_problems_lost > 0 ||
	    f->n_shadowed > 0 || f->n_others > 0)
		list_add_tail(&s->listed, &f->listed);
}

static int file_cmp(const void *a, const void *b)
{
	struct file *const *x = a;
	struct file *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

struct file **state_files(const struct state *s, size_t *n)
{
	struct file **v = xcalloc(s->files.count + 1, sizeof(struct file *));

	*n = 0;
	htable_for_each_entry (f, &s->files, struct file)
		v[(*n)++] = f;
	qsort(v, *n, sizeof(struct file *), file_cmp);
	return v;
}

void state_file_failed(struct state *s, struct file *f, const char *why)
{
	if (why != NULL && (f->failure == NULL || strcmp(f->failure, why) != 0))
		log_warn(LOG_AREA_SOURCE, "%s: %s", f->shown, why);
	if (why == NULL && f->failure != NULL)
		log_notice(LOG_AREA_SOURCE, "%s: recovered", f->shown);
	free(f->failure);
	f->failure = why != NULL ? str_clean(xstrdup(why)) : NULL;
	file_listed_update(s, f);
}

/* --- entries ------------------------------------------------------------------ */

static uint32_t entry_line(const struct entry *e)
{
	const struct file *f = e->file;

	return e->unit < f->units.n ? f->units.v[e->unit].line + e->line : 0;
}

static uint32_t key_hash(const struct key *k)
{
	return name_pair_hash(k->ns, k->name) + (uint32_t)k->kind;
}

/* The entry at `n`; NULL: of another key. */
static struct entry *entry_at(struct hnode *n, const struct key *k)
{
	struct entry *e = container_of(n, struct entry, node);

	return e->key.kind == k->kind && e->key.ns == k->ns && e->key.name == k->name ? e : NULL;
}

/* All entries of a key. */
#define entries_for_each(e, s, k)                                   \
	htable_for_each_hash (e##_node, &(s)->entries, key_hash(k)) \
		for (struct entry *e = entry_at(e##_node, (k)); e != NULL; e = NULL)

static void node_count(struct state *s, const struct key *k, size_t n)
{
	if (k->kind == OBJECT_KIND_NODE && k->name != s->model->config.node_name)
		s->model->stats.other_nodes += n;
}

struct entry *entry_new(struct state *s, struct file *f, const struct piece *p)
{
	struct entry *e = xcalloc(1, sizeof(*e));

	e->file = f;
	e->key = (struct key){ p->kind, name_ref(p->ns), name_ref(p->name) };
	htable_insert(&s->entries, &e->node, key_hash(&e->key));
	node_count(s, &e->key, 1);
	return e;
}

void entry_key_changed(struct state *s, const struct key *k)
{
	*vec_push(&s->changed) = (struct key){ k->kind, name_ref(k->ns), name_ref(k->name) };
}

/* ENTRY_SHADOWED or ENTRY_UNKNOWN, which are counted. */
static void entry_mark(struct state *s, struct entry *e, enum entry_flags flag, bool is_set)
{
	struct file *f = e->file;

	if (is_set == ((e->flags & flag) != 0))
		return;
	e->flags ^= (uint8_t)flag;
	*(flag == ENTRY_SHADOWED ? &f->n_shadowed : &f->n_unknown) += is_set ? 1U : -1U;
	file_listed_update(s, f);
}

void entry_free(struct state *s, struct entry *e)
{
	if (!s->is_closing)
		entry_key_changed(s, &e->key);
	entry_mark(s, e, ENTRY_SHADOWED, false);
	entry_mark(s, e, ENTRY_UNKNOWN, false);
	htable_remove(&s->entries, &e->node);
	node_count(s, &e->key, (size_t)-1);
	object_fini(&e->obj);
	name_pair_unref(e->key.ns, e->key.name);
	free(e);
}

void state_file_recheck(struct state *s, const struct file *f)
{
	vec_for_each (e, &f->entries)
		entry_key_changed(s, &(*e)->key);
}

struct entry *entry_find_old(const struct state *s, const struct file *f, const struct piece *p,
			     size_t *n_same)
{
	const struct key k = { p->kind, p->ns, p->name };
	struct entry *found = NULL;

	*n_same = 0;
	entries_for_each (e, s, &k) {
		if (e->file != f)
			continue;
		++*n_same;
		if (!(e->flags & ENTRY_MOVED) && (found == NULL || e->pos < found->pos))
			found = e;
	}
	return found;
}

/* --- the model ----------------------------------------------------------------- */

static int key_cmp(const void *a, const void *b)
{
	const struct key *x = a;
	const struct key *y = b;

	return CMP(x->kind, y->kind) ?: name_pair_cmp(x->ns, x->name, y->ns, y->name);
}

/* IN-24: the last state of a Node stays. */
static int key_del(struct state *s, const struct key *k, uint64_t at_ns)
{
	return k->kind == OBJECT_KIND_NODE ? 0
					   : model_del(s->model, k->kind, k->ns, k->name, at_ns);
}

static bool is_missing(const struct entry *e)
{
	return list_is_linked(&e->file->missing);
}

static bool entry_wins(const struct entry *a, const struct entry *b)
{
	return (CMP(is_missing(a), is_missing(b)) ?: strcmp(a->file->name, b->file->name) ?:
		CMP(a->pos, b->pos)) < 0;
}

static struct entry *winner_find(const struct state *s, const struct key *k)
{
	struct entry *winner = NULL;

	entries_for_each (e, s, k)
		if ((e->flags & ENTRY_HAS_GOOD) && (winner == NULL || entry_wins(e, winner)))
			winner = e;
	return winner;
}

static void shadow_text(struct str *ret, const struct entry *e, const struct entry *winner)
{
	assert(winner != NULL);
	object_title(ret, e->key.kind, e->key.ns, e->key.name);
	str_printf(ret, ": is also in %s:%" PRIu32 ", which comes first and counts",
		   winner->file->shown, entry_line(winner));
}

static void shadows_update(struct state *s, const struct key *k, struct entry *winner)
{
	FINI(str_fini) struct str text = { 0 };

	entry_mark(s, winner, ENTRY_SHADOWED, false);
	entries_for_each (e, s, k) {
		if (e == winner || !(e->flags & ENTRY_HAS_GOOD) || (e->flags & ENTRY_SHADOWED) ||
		    is_missing(e))
			continue;
		entry_mark(s, e, ENTRY_SHADOWED, true);
		str_clear(&text);
		shadow_text(&text, e, winner);
		log_warn(LOG_AREA_SOURCE, "%s:%" PRIu32 ": %s", e->file->shown, entry_line(e),
			 str_text(&text));
	}
}

/* Is an invalid version in a file? Then the model keeps the last good one, also of another file. */
static bool has_bad(const struct state *s, const struct key *k)
{
	entries_for_each (e, s, k)
		if (e->flags & ENTRY_BAD)
			return true;
	return false;
}

/* 1: the model has changed. */
static int key_apply(struct state *s, const struct key *k, uint64_t at_ns)
{
	struct entry *winner = winner_find(s, k);

	entries_for_each (e, s, k)
		entry_mark(s, e, ENTRY_UNKNOWN, winner == NULL);
	if (winner == NULL)
		return has_bad(s, k) ? 0 : key_del(s, k, at_ns);
	shadows_update(s, k, winner);
	if (winner->flags & ENTRY_APPLIED)
		return 0;
	entries_for_each (e, s, k)
		e->flags &= (uint8_t)~ENTRY_APPLIED;
	winner->flags |= ENTRY_APPLIED;
	return winner->flags & ENTRY_IGNORED ? key_del(s, k, at_ns)
					     : model_put(s->model, &winner->obj, at_ns);
}

bool state_apply(struct state *s, uint64_t at_ns)
{
	AUTO(vec_fini) VEC(struct key) now = { 0 };
	bool is_changed = false;

	vec_move(&now, &s->changed);
	vec_sort(&now, key_cmp);
	vec_for_each (k, &now)
		if (k == now.v || key_cmp(k - 1, k) != 0)
			is_changed |= key_apply(s, k, at_ns) > 0;
	vec_for_each (k, &now)
		name_pair_unref(k->ns, k->name);
	return is_changed;
}

/* --- problems ------------------------------------------------------------------- */

/* Problems of one file: `line` counts from its first line, `unit` is the order of equal lines. */
struct listing {
	VEC(struct manifest_problem) v;
};

static int listed_cmp(const void *a, const void *b)
{
	const struct manifest_problem *x = a;
	const struct manifest_problem *y = b;

	return CMP(x->line, y->line) ?: CMP(x->unit, y->unit);
}

static void list_add(struct listing *l, uint32_t line, bool is_error, char *text)
{
	*vec_push(&l->v) = (struct manifest_problem){ (uint32_t)l->v.n, line, is_error, text };
}

static void file_list(const struct state *s, const struct file *f, struct listing *l)
{
	if (f->failure != NULL)
		list_add(l, 0, true, xstrdup(f->failure));
	vec_for_each (p, &f->problems)
		list_add(l, f->units.v[p->unit].line + p->line, p->is_error, xstrdup(p->text));
	for (size_t i = 0; f->n_shadowed > 0 && i < f->entries.n; i++) {
		const struct entry *e = f->entries.v[i];
		struct str text = { 0 };

		if (!(e->flags & ENTRY_SHADOWED) || e->unit == UINT32_MAX)
			continue;
		shadow_text(&text, e, winner_find(s, &e->key));
		list_add(l, entry_line(e), true, text.text);
	}
	vec_sort(&l->v, listed_cmp);
	if (f->n_problems_lost > 0)
		list_add(l, 0, true, xasprintf("and %zu more", f->n_problems_lost));
	if (f->n_others > 0) {
		char *text = xasprintf(
			f->n_others == 1 ? "%zu object of a kind that is not read: %s"
					 : "%zu objects of kinds that are not read, such as %s",
			f->n_others, f->other);

		list_add(l, 0, false, str_clean(text));
	}
}

void state_problems(const struct state *s, void (*each)(void *arg, const struct files_problem *p),
		    void *arg)
{
	AUTO(vec_fini) VEC(struct file *) files = { 0 };

	list_for_each_entry (f, &s->listed, struct file, listed)
		*vec_push(&files) = f;
	vec_sort(&files, file_cmp);
	vec_for_each (f, &files) {
		AUTO(vec_fini) struct listing l = { 0 };

		file_list(s, *f, &l);
		vec_for_each (p, &l.v) {
			each(arg,
			     &(struct files_problem){ (*f)->shown, p->line, p->is_error, p->text });
			free(p->text);
		}
	}
}

/* Does the unit have an object without a valid version in any file? */
static bool unit_is_unknown(const struct file *f, const struct unit *u)
{
	if (u->is_unreadable)
		return !f->is_known;
	return array_has(f->entries.v + u->first_entry, u->n_entries, e,
			 (*e)->flags & ENTRY_UNKNOWN);
}

static void incomplete_text(struct str *why, const struct file *f)
{
	uint32_t known = UINT32_MAX; /* problems are sorted by unit */

	vec_for_each (p, &f->problems) {
		const struct unit *u = &f->units.v[p->unit];

		if (f->failure != NULL || !p->is_error || p->unit == known)
			continue;
		if (unit_is_unknown(f, u)) {
			str_printf(why, "%s:%" PRIu32 ": %s", f->shown, u->line + p->line, p->text);
			return;
		}
		known = p->unit;
	}
	str_printf(why, "%s: %s", f->shown,
		   f->failure != NULL ? f->failure
		   : f->units.n > 0   ? "contains objects of which no good version is known"
				      : "is not completely written");
}

bool state_is_empty(const struct state *s)
{
	return s->files.count == 0;
}

bool state_is_complete(const struct state *s, struct str *why)
{
	const struct file *first = NULL;

	list_for_each_entry (f, &s->listed, struct file, listed)
		if (is_incomplete(f) && (first == NULL || strcmp(f->name, first->name) < 0))
			first = f;
	if (state_is_empty(s)) /* perhaps a mount is missing, or the folder is not filled yet */
		str_puts(why, "the folder has no manifests");
	else if (first != NULL)
		incomplete_text(why, first);
	return first == NULL && !state_is_empty(s);
}

void state_stats(const struct state *s, struct files_stats *ret)
{
	ret->files = s->files.count;
	list_for_each_entry (f, &s->listed, struct file, listed) {
		ret->errors += f->n_shadowed + (f->failure != NULL);
		vec_for_each (p, &f->problems)
			*(p->is_error ? &ret->errors : &ret->notes) += 1;
	}
	htable_for_each_entry (e, &s->entries, const struct entry)
		ret->objects += (e->flags & ENTRY_HAS_GOOD) && !(e->flags & ENTRY_IGNORED);
}
