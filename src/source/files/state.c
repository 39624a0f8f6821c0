/* SPDX-License-Identifier: GPL-2.0-or-later */
/* files/state - matching the new text of a file with the old, and who wins. */
#include "source/files/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"

enum entry_flags {
	ENTRY_HAS_GOOD = 1 << 0, /* some version was good; where it is: see below */
	ENTRY_IGNORED = 1 << 1,  /* that version says that there is no object for us */
	ENTRY_BAD = 1 << 2,      /* the text of now is refused */
	ENTRY_APPLIED = 1 << 3,  /* the model holds the good version */
	ENTRY_SHADOWED = 1 << 4, /* another one wins; this was told */
	ENTRY_WANTED = 1 << 5,   /* its file is to be read again for the good version */
	ENTRY_MOVED = 1 << 6,    /* during a merge: found in the new version */
};

/*
 * The good version of an entry is in `obj` until it is applied, then in the model
 * (APPLIED); if another entry's version replaces it there it is lost, and read
 * again when needed.
 */
struct entry {
	struct hnode node; /* in state.entries, by key */
	struct file *file;
	const struct name *ns; /* NULL for kinds without */
	const struct name *name;
	struct object obj;
	uint8_t kind;
	uint8_t flags;
	uint32_t unit;
	uint32_t line; /* counted from the unit's first */
	uint32_t pos;  /* in the file: the first one wins */
};

struct key {
	enum object_kind kind;
	const struct name *ns; /* references */
	const struct name *name;
};

struct state {
	struct model *model;
	struct htable files;
	struct htable entries;
	VEC(struct key) changed; /* whom state_apply() has to look at */
	size_t n_shadowed;
	bool is_closing;
};

/* --- text for people ------------------------------------------------------- */

/* What comes out of a file may hold anything; logs and terminals must not. */
static char *text_clean(char *text)
{
	unsigned char *p = (unsigned char *)text;
	size_t len = strlen(text);
	bool is_utf8 = str_is_utf8(text, len);

	for (size_t i = 0; i < len; i++) {
		bool is_c1 = p[i] == 0xc2 && p[i + 1] >= 0x80 && p[i + 1] < 0xa0;

		if (is_c1)
			p[i + 1] = '?';
		if (p[i] < 0x20 || p[i] == 0x7f || is_c1 || (p[i] >= 0x80 && !is_utf8))
			p[i] = '?';
	}
	return text;
}

static uint32_t entry_line(const struct entry *e)
{
	const struct file *f = e->file;

	return e->unit < f->units.n ? f->units.v[e->unit].line + e->line : 0;
}

static void entry_title(struct str *ret, const struct entry *e)
{
	object_title(ret, e->kind, e->ns, e->name);
}

/* --- entries --------------------------------------------------------------- */

static uint32_t key_hash(enum object_kind kind, const struct name *ns, const struct name *name)
{
	const void *parts[] = { ns, name, (const void *)(uintptr_t)kind };

	return hash_bytes(parts, sizeof(parts)); /* names are interned: pointers will do */
}

static bool entry_is(const struct entry *e, enum object_kind kind, const struct name *ns,
		     const struct name *name)
{
	return e->kind == kind && e->ns == ns && e->name == name;
}

static struct entry *entry_new(struct state *s, struct file *f, const struct piece *p)
{
	struct entry *e = xcalloc(1, sizeof(*e));

	e->file = f;
	e->kind = (uint8_t)p->kind;
	e->ns = name_ref(p->ns);
	e->name = name_ref(p->name);
	htable_insert(&s->entries, &e->node, key_hash(p->kind, p->ns, p->name));
	return e;
}

static void key_changed(struct state *s, enum object_kind kind, const struct name *ns,
			const struct name *name)
{
	*vec_push(&s->changed) = (struct key){ kind, name_ref(ns), name_ref(name) };
}

static void entry_changed(struct state *s, const struct entry *e)
{
	key_changed(s, e->kind, e->ns, e->name);
}

static void shadow_set(struct state *s, struct entry *e, bool is_shadowed)
{
	if (is_shadowed == ((e->flags & ENTRY_SHADOWED) != 0))
		return;
	e->flags ^= ENTRY_SHADOWED;
	if (is_shadowed)
		s->n_shadowed++;
	else
		s->n_shadowed--;
}

static void entry_free(struct state *s, struct entry *e)
{
	if (!s->is_closing)
		entry_changed(s, e);
	shadow_set(s, e, false);
	htable_remove(&s->entries, &e->node);
	object_fini(&e->obj);
	name_unref(e->ns);
	name_unref(e->name);
	free(e);
}

/* The entry of `f` with this key that the new version has not taken yet, the first one. */
static struct entry *entry_find_old(const struct state *s, const struct file *f,
				    const struct piece *p)
{
	uint32_t hash = key_hash(p->kind, p->ns, p->name);
	struct entry *found = NULL;

	htable_for_each_hash (n, &s->entries, hash) {
		struct entry *e = container_of(n, struct entry, node);

		if (e->file == f && !(e->flags & ENTRY_MOVED) &&
		    entry_is(e, p->kind, p->ns, p->name) && (found == NULL || e->pos < found->pos))
			found = e;
	}
	return found;
}

/* --- files ------------------------------------------------------------------ */

void state_open(struct state **ret, struct model *m)
{
	struct state *s = xcalloc(1, sizeof(*s));

	s->model = m;
	*ret = s;
}

static void problems_clear(struct file *f)
{
	vec_for_each (p, &f->problems)
		free(p->text);
	vec_clear(&f->problems);
	f->n_problems_lost = 0;
}

static void file_free(struct state *s, struct file *f)
{
	vec_for_each (e, &f->entries)
		entry_free(s, *e);
	vec_for_each (e, &f->orphans)
		entry_free(s, *e);
	problems_clear(f);
	vec_fini(&f->problems);
	vec_fini(&f->entries);
	vec_fini(&f->orphans);
	vec_fini(&f->units);
	list_del(&f->dirty);
	htable_remove(&s->files, &f->node);
	free(f->failure);
	free(f->shown);
	free(f->name);
	free(f);
}

static void changed_clear(struct state *s)
{
	vec_for_each (k, &s->changed) {
		name_unref(k->ns);
		name_unref(k->name);
	}
	vec_clear(&s->changed);
}

void state_close(struct state *s)
{
	if (s == NULL)
		return;
	s->is_closing = true;
	htable_for_each_safe (n, tmp, &s->files)
		file_free(s, container_of(n, struct file, node));
	htable_fini(&s->files);
	htable_fini(&s->entries);
	changed_clear(s);
	vec_fini(&s->changed);
	free(s);
}

struct file *state_file_find(const struct state *s, const char *name)
{
	htable_for_each_hash (n, &s->files, hash_bytes(name, strlen(name))) {
		struct file *f = container_of(n, struct file, node);

		if (strcmp(f->name, name) == 0)
			return f;
	}
	return NULL;
}

struct file *state_file_get(struct state *s, const char *name)
{
	struct file *f = state_file_find(s, name);

	if (f != NULL)
		return f;
	f = xcalloc(1, sizeof(*f));
	f->name = xstrdup(name);
	f->shown = text_clean(xstrdup(name));
	list_init(&f->dirty);
	htable_insert(&s->files, &f->node, hash_bytes(name, strlen(name)));
	return f;
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
	htable_for_each (node, &s->files)
		v[(*n)++] = container_of(node, struct file, node);
	qsort(v, *n, sizeof(struct file *), file_cmp);
	return v;
}

/* --- problems ---------------------------------------------------------------- */

/* Takes `text`. Logged here, once: an unchanged unit brings its problems along instead. */
static void problem_add(struct file *f, uint32_t unit, uint32_t line, bool is_error, char *text)
{
	text_clean(text);
	log_warn(LOG_AREA_SOURCE, "%s:%" PRIu32 ": %s", f->shown, f->units.v[unit].line + line,
		 text);
	if (f->problems.n >= MANIFEST_NOTES_MAX) {
		f->n_problems_lost++;
		free(text);
		return;
	}
	*vec_push(&f->problems) = (struct file_problem){ unit, line, is_error, text };
}

static void unreadable_add(struct file *f, uint32_t unit, const struct piece *p)
{
	struct str text = { 0 };

	object_title(&text, p->kind, p->ns, p->name);
	str_printf(&text, ": %s; until it can be read no object leaves this file", p->why);
	problem_add(f, unit, p->why_line, true, text.text);
}

static void bad_add(struct file *f, uint32_t unit, const struct piece *p, const struct entry *e)
{
	struct str text = { 0 };

	entry_title(&text, e);
	str_printf(&text, ": %s; %s", p->why,
		   e->flags & ENTRY_HAS_GOOD ? "its last good version stays" : "it is not served");
	problem_add(f, unit, p->why_line, true, text.text);
}

/* --- a new version of a file -------------------------------------------------- */

/* The old version while the new one is built. */
struct merge {
	struct state *s;
	struct file *f;
	struct manifest *m;
	struct file old; /* its vectors only */
	bool has_unreadable;
};

static int unit_ref_cmp(const void *a, const void *b)
{
	const struct file_unit_ref *x = a;
	const struct file_unit_ref *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->unit > y->unit) - (x->unit < y->unit);
}

void state_units_reset(struct file *f)
{
	vec_for_each (u, &f->units)
		u->is_used = false;
	vec_fini(&f->index);
	f->next_unit = 0;
}

static void index_make(struct file *f)
{
	vec_reserve(&f->index, f->units.n);
	for (size_t i = 0; i < f->units.n; i++)
		*vec_push(&f->index) = (struct file_unit_ref){ f->units.v[i].hash, (uint32_t)i };
	if (f->index.n > 1)
		qsort(f->index.v, f->index.n, sizeof(*f->index.v), unit_ref_cmp);
}

/* The first unused unit with this hash; false if there is none. */
static bool index_find(struct file *f, uint64_t hash, size_t *ret)
{
	size_t lo = 0;
	size_t hi;

	if (f->index.n == 0)
		index_make(f);
	hi = f->index.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->index.v[mid].hash < hash)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < f->index.n && f->index.v[lo].hash == hash; lo++) {
		*ret = f->index.v[lo].unit;
		if (!f->units.v[*ret].is_used)
			return true;
	}
	return false;
}

static bool unit_is_wanted(const struct file *f, const struct file_unit *u)
{
	for (uint32_t i = 0; i < u->n_entries; i++)
		if (f->entries.v[u->first_entry + i]->flags & ENTRY_WANTED)
			return true;
	return false;
}

size_t state_unit_known(struct file *f, uint64_t hash)
{
	size_t at = f->next_unit; /* nearly always it is the next one */

	if (f->units.n == 0)
		return 0;
	if ((at >= f->units.n || f->units.v[at].hash != hash || f->units.v[at].is_used) &&
	    !index_find(f, hash, &at))
		return 0;
	if (unit_is_wanted(f, &f->units.v[at]))
		return 0;
	f->units.v[at].is_used = true;
	f->next_unit = at + 1;
	return at + 1;
}

/* Where the problems of unit `unit` begin; they are sorted by unit. */
static size_t problems_find(const struct file *f, uint32_t unit)
{
	size_t lo = 0;
	size_t hi = f->problems.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->problems.v[mid].unit < unit)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct file_unit *unit_add(struct merge *g, const struct unit *from)
{
	struct file_unit *u = vec_push(&g->f->units);

	*u = (struct file_unit){ .hash = from->hash,
				 .line = from->line,
				 .first_entry = (uint32_t)g->f->entries.n };
	return u;
}

static void entry_add(struct merge *g, struct entry *e, uint32_t line)
{
	struct file *f = g->f;
	uint32_t unit = (uint32_t)f->units.n - 1;

	e->unit = unit;
	e->line = line;
	e->pos = (uint32_t)f->entries.n;
	f->units.v[unit].n_entries++;
	*vec_push(&f->entries) = e;
}

/* A unit whose text did not change, from wherever it was. */
static void unit_carry(struct merge *g, const struct unit *from)
{
	const struct file_unit *was = &g->old.units.v[from->known - 1];
	struct file_unit *u = unit_add(g, from);
	uint32_t unit = (uint32_t)g->f->units.n - 1;

	u->n_others = was->n_others;
	u->is_unreadable = was->is_unreadable;
	g->has_unreadable |= was->is_unreadable;
	for (uint32_t i = 0; i < was->n_entries; i++) {
		struct entry *e = g->old.entries.v[was->first_entry + i];
		uint32_t was_pos = e->pos;

		entry_add(g, e, e->line);
		if (g->s->n_shadowed > 0 && e->pos != was_pos)
			entry_changed(g->s, e); /* another one of its name may be the first now */
	}
	for (size_t i = problems_find(&g->old, (uint32_t)from->known - 1);
	     i < g->old.problems.n && g->old.problems.v[i].unit == from->known - 1; i++) {
		struct file_problem *p = &g->old.problems.v[i];

		*vec_push(&g->f->problems) = *p;
		g->f->problems.v[g->f->problems.n - 1].unit = unit;
		p->text = NULL;
	}
}

/* Its version was lost and cannot be read again: there is none. */
static void wanted_drop(struct state *s, struct entry *e)
{
	if (!(e->flags & ENTRY_WANTED))
		return;
	e->flags &= (uint8_t) ~(ENTRY_WANTED | ENTRY_HAS_GOOD);
	entry_changed(s, e);
}

static void entry_take_good(struct merge *g, struct entry *e, struct piece *p)
{
	struct str title = { 0 };

	if (e->flags & ENTRY_BAD) {
		entry_title(&title, e);
		log_notice(LOG_AREA_SOURCE, "%s: %s: is good again", g->f->shown, str_text(&title));
		str_fini(&title);
	}
	object_fini(&e->obj);
	e->obj = p->obj;
	p->obj = (struct object){ 0 };
	e->flags &= (uint8_t) ~(ENTRY_BAD | ENTRY_IGNORED | ENTRY_APPLIED | ENTRY_WANTED);
	e->flags |= ENTRY_HAS_GOOD;
	if (p->state == PIECE_IGNORED)
		e->flags |= ENTRY_IGNORED;
	entry_changed(g->s, e);
}

/* The last good version stays, unless it was to be read again: then there is none. */
static void entry_take_bad(struct merge *g, struct entry *e, const struct piece *p)
{
	wanted_drop(g->s, e);
	e->flags |= ENTRY_BAD;
	bad_add(g->f, (uint32_t)g->f->units.n - 1, p, e);
}

static void piece_take(struct merge *g, struct piece *p)
{
	struct entry *e;

	if (p->state == PIECE_UNREADABLE) {
		g->f->units.v[g->f->units.n - 1].is_unreadable = true;
		g->has_unreadable = true;
		unreadable_add(g->f, (uint32_t)g->f->units.n - 1, p);
		return;
	}
	e = entry_find_old(g->s, g->f, p);
	if (e == NULL)
		e = entry_new(g->s, g->f, p);
	e->flags |= ENTRY_MOVED;
	entry_add(g, e, p->line);
	if (p->state == PIECE_BAD)
		entry_take_bad(g, e, p);
	else
		entry_take_good(g, e, p);
}

/* What the new version does not hold: gone, unless something in it cannot be read. */
static void leftover(struct merge *g, struct entry *e)
{
	if (e->flags & ENTRY_MOVED)
		return;
	if (g->has_unreadable && !(e->flags & ENTRY_WANTED)) {
		e->unit = UINT32_MAX;
		e->pos = (uint32_t)(g->f->entries.n + g->f->orphans.n);
		*vec_push(&g->f->orphans) = e;
		return;
	}
	entry_free(g->s, e);
}

static void moved_mark(struct merge *g)
{
	vec_for_each (u, &g->m->units)
		for (uint32_t i = 0; u->known != 0 && i < g->old.units.v[u->known - 1].n_entries;
		     i++)
			g->old.entries.v[g->old.units.v[u->known - 1].first_entry + i]->flags |=
				ENTRY_MOVED;
}

static void notes_take(struct merge *g, uint32_t unit, size_t *at)
{
	struct manifest *m = g->m;

	for (; *at < m->notes.n && m->notes.v[*at].unit <= unit; (*at)++) {
		problem_add(g->f, unit, m->notes.v[*at].line, false, m->notes.v[*at].text);
		m->notes.v[*at].text = NULL;
	}
}

static void units_take(struct merge *g)
{
	size_t note = 0;
	size_t piece = 0;

	for (size_t i = 0; i < g->m->units.n; i++) {
		const struct unit *u = &g->m->units.v[i];

		if (u->known != 0) {
			unit_carry(g, u);
			continue;
		}
		unit_add(g, u)->n_others = u->n_others;
		for (uint32_t k = 0; k < u->n_pieces; k++)
			piece_take(g, &g->m->pieces.v[piece++]);
		notes_take(g, (uint32_t)i, &note);
	}
}

/* The vectors of the old version are emptied and given back to `f` empty. */
static void old_take(struct merge *g)
{
	struct file *f = g->f;

	g->old = *f;
	memset(&f->units, 0, sizeof(f->units));
	memset(&f->entries, 0, sizeof(f->entries));
	memset(&f->orphans, 0, sizeof(f->orphans));
	memset(&f->problems, 0, sizeof(f->problems));
	vec_fini(&f->index);
}

static void old_close(struct merge *g)
{
	vec_for_each (e, &g->old.entries)
		leftover(g, *e);
	vec_for_each (e, &g->old.orphans)
		leftover(g, *e);
	vec_for_each (e, &g->f->entries)
		(*e)->flags &= (uint8_t)~ENTRY_MOVED;
	vec_for_each (p, &g->old.problems)
		free(p->text);
	vec_fini(&g->old.units);
	vec_fini(&g->old.entries);
	vec_fini(&g->old.orphans);
	vec_fini(&g->old.problems);
}

void state_file_read(struct state *s, struct file *f, struct manifest *m)
{
	struct merge g = { .s = s, .f = f, .m = m };

	state_file_failed(s, f, NULL);
	old_take(&g);
	f->n_problems_lost = m->n_notes_lost;
	if (m->other[0] != '\0')
		(void)snprintf(f->other, sizeof(f->other), "%s", m->other);
	moved_mark(&g);
	units_take(&g);
	old_close(&g);
	f->wants_reading = false;
	vec_fit(&f->units);
	vec_fit(&f->entries);
	vec_fit(&f->problems);
}

void state_file_failed(struct state *s, struct file *f, const char *why)
{
	for (size_t i = 0; why != NULL && i < f->entries.n; i++)
		wanted_drop(s, f->entries.v[i]);
	for (size_t i = 0; why != NULL && i < f->orphans.n; i++)
		wanted_drop(s, f->orphans.v[i]);
	f->wants_reading = f->wants_reading && why == NULL;
	if (why != NULL && (f->failure == NULL || strcmp(f->failure, why) != 0))
		log_warn(LOG_AREA_SOURCE, "%s: %s", f->shown, why);
	if (why == NULL && f->failure != NULL)
		log_notice(LOG_AREA_SOURCE, "%s: can be read again", f->shown);
	free(f->failure);
	f->failure = why != NULL ? text_clean(xstrdup(why)) : NULL;
}

void state_file_gone(struct state *s, struct file *f)
{
	file_free(s, f);
}

/* --- the model ----------------------------------------------------------------- */

static int key_cmp(const void *a, const void *b)
{
	const struct key *x = a;
	const struct key *y = b;
	int r;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	r = strcmp(name_text(x->ns), name_text(y->ns));
	return r != 0 ? r : strcmp(x->name->text, y->name->text);
}

static int model_put(struct model *m, struct object *o, uint64_t at_ns)
{
	struct object in = *o;

	*o = (struct object){ 0 };
	switch (in.kind) {
	case OBJECT_KIND_SERVICE:
		return model_put_service(m, in.service, at_ns);
	case OBJECT_KIND_SLICE:
		return model_put_slice(m, in.slice, at_ns);
	case OBJECT_KIND_NODE:
		return model_put_node(m, in.node, at_ns);
	case OBJECT_KIND_SERVICE_CIDR:
		return model_put_service_cidr(m, in.cidr, at_ns);
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	return 0;
}

static int model_del(struct model *m, const struct key *k, uint64_t at_ns)
{
	switch (k->kind) {
	case OBJECT_KIND_SERVICE:
		return model_del_service(m, k->ns, k->name, at_ns);
	case OBJECT_KIND_SLICE:
		return model_del_slice(m, k->ns, k->name, at_ns);
	case OBJECT_KIND_SERVICE_CIDR:
		return model_del_service_cidr(m, k->name, at_ns);
	case OBJECT_KIND_NODE: /* IN-24: its last state stays */
	case OBJECT_KIND_OTHER:
	case OBJECT_KIND_LIST:
		break;
	}
	return 0;
}

static bool entry_wins(const struct entry *a, const struct entry *b)
{
	int r = strcmp(a->file->name, b->file->name);

	return r != 0 ? r < 0 : a->pos < b->pos;
}

#define entries_for_each(n, s, k) \
	htable_for_each_hash (n, &(s)->entries, key_hash((k)->kind, (k)->ns, (k)->name))

static struct entry *winner_find(const struct state *s, const struct key *k)
{
	struct entry *winner = NULL;

	entries_for_each(n, s, k)
	{
		struct entry *e = container_of(n, struct entry, node);

		if (entry_is(e, k->kind, k->ns, k->name) && (e->flags & ENTRY_HAS_GOOD) &&
		    (winner == NULL || entry_wins(e, winner)))
			winner = e;
	}
	return winner;
}

static void shadow_text(struct str *ret, const struct entry *e, const struct entry *winner)
{
	entry_title(ret, e);
	str_printf(ret, ": is also in %s:%" PRIu32 ", which comes first and counts",
		   winner->file->shown, entry_line(winner));
}

static void shadows_update(struct state *s, const struct key *k, struct entry *winner)
{
	struct str text = { 0 };

	shadow_set(s, winner, false);
	entries_for_each(n, s, k)
	{
		struct entry *e = container_of(n, struct entry, node);

		if (e == winner || !entry_is(e, k->kind, k->ns, k->name) ||
		    !(e->flags & ENTRY_HAS_GOOD) || (e->flags & ENTRY_SHADOWED))
			continue;
		shadow_set(s, e, true);
		str_clear(&text);
		shadow_text(&text, e, winner);
		log_warn(LOG_AREA_SOURCE, "%s:%" PRIu32 ": %s", e->file->shown, entry_line(e),
			 str_text(&text));
	}
	str_fini(&text);
}

/* The model has `winner`'s version now, and nobody else's. */
static void applied_mark(struct state *s, const struct key *k, struct entry *winner)
{
	entries_for_each(n, s, k)
	{
		struct entry *e = container_of(n, struct entry, node);

		if (entry_is(e, k->kind, k->ns, k->name))
			e->flags &= (uint8_t)~ENTRY_APPLIED;
	}
	winner->flags |= ENTRY_APPLIED;
}

static int key_apply(struct state *s, const struct key *k, uint64_t at_ns)
{
	struct entry *winner = winner_find(s, k);

	if (winner == NULL)
		return model_del(s->model, k, at_ns) ? STATE_CHANGED : 0;
	shadows_update(s, k, winner);
	if (winner->flags & ENTRY_APPLIED)
		return 0;
	if (winner->flags & ENTRY_IGNORED) {
		applied_mark(s, k, winner);
		return model_del(s->model, k, at_ns) ? STATE_CHANGED : 0;
	}
	if (winner->obj.kind == OBJECT_KIND_OTHER) {
		winner->flags |= ENTRY_WANTED;
		winner->file->wants_reading = true;
		return STATE_WANTS_READING;
	}
	applied_mark(s, k, winner);
	return model_put(s->model, &winner->obj, at_ns) ? STATE_CHANGED : 0;
}

int state_apply(struct state *s, uint64_t at_ns)
{
	VEC(struct key) now = { .v = s->changed.v, .n = s->changed.n, .cap = s->changed.cap };
	int outcome = 0;

	memset(&s->changed, 0, sizeof(s->changed));
	if (now.n > 1)
		qsort(now.v, now.n, sizeof(*now.v), key_cmp);
	for (size_t i = 0; i < now.n; i++) {
		struct key *k = &now.v[i];
		bool is_done = i > 0 && key_cmp(k - 1, k) == 0;
		int r = is_done ? 0 : key_apply(s, k, at_ns);

		if (r == STATE_WANTS_READING)
			key_changed(s, k->kind, k->ns, k->name);
		outcome |= r;
	}
	vec_for_each (k, &now) {
		name_unref(k->ns);
		name_unref(k->name);
	}
	vec_fini(&now);
	return outcome;
}

/* --- for people ----------------------------------------------------------------- */

struct listed {
	uint32_t line;
	uint32_t order;
	bool is_error;
	char *text;
};

static int listed_cmp(const void *a, const void *b)
{
	const struct listed *x = a;
	const struct listed *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

struct listing {
	VEC(struct listed) v;
};

static void list_add(struct listing *l, uint32_t line, bool is_error, char *text)
{
	*vec_push(&l->v) = (struct listed){ line, (uint32_t)l->v.n, is_error, text };
}

static size_t others_count(const struct file *f)
{
	size_t n = 0;

	vec_for_each (u, &f->units)
		n += u->n_others;
	return n;
}

static void file_list(const struct state *s, const struct file *f, struct listing *l)
{
	size_t n_others = others_count(f);
	struct str text = { 0 };

	if (f->failure != NULL)
		list_add(l, 0, true, xstrdup(f->failure));
	vec_for_each (p, &f->problems)
		list_add(l, f->units.v[p->unit].line + p->line, p->is_error, xstrdup(p->text));
	for (size_t i = 0; s->n_shadowed > 0 && i < f->entries.n; i++) {
		struct key k = { f->entries.v[i]->kind, f->entries.v[i]->ns,
				 f->entries.v[i]->name };

		if (!(f->entries.v[i]->flags & ENTRY_SHADOWED))
			continue;
		shadow_text(&text, f->entries.v[i], winner_find(s, &k));
		list_add(l, entry_line(f->entries.v[i]), true, TAKE(text.text));
		text = (struct str){ 0 };
	}
	if (l->v.n > 1)
		qsort(l->v.v, l->v.n, sizeof(*l->v.v), listed_cmp);
	if (f->n_problems_lost > 0) {
		str_printf(&text, "and %zu more", f->n_problems_lost);
		list_add(l, UINT32_MAX, true, TAKE(text.text));
		text = (struct str){ 0 };
	}
	if (n_others > 0) {
		str_printf(&text,
			   n_others == 1 ? "%zu object of a kind that is not read: %s"
					 : "%zu objects of kinds that are not read, such as %s",
			   n_others, f->other);
		list_add(l, 0, false, text_clean(text.text));
	}
}

size_t state_problems(const struct state *s, void (*each)(void *arg, const struct files_problem *p),
		      void *arg)
{
	struct file **files;
	size_t n_files;
	size_t n = 0;

	files = state_files(s, &n_files);
	for (size_t i = 0; i < n_files; i++) {
		struct listing l = { 0 };

		file_list(s, files[i], &l);
		n += l.v.n;
		vec_for_each (p, &l.v) {
			struct files_problem out = { .file = files[i]->shown,
						     .line = p->line == UINT32_MAX ? 0 : p->line,
						     .is_error = p->is_error,
						     .text = p->text };

			if (each != NULL)
				each(arg, &out);
			free(p->text);
		}
		vec_fini(&l.v);
	}
	free(files);
	return n;
}

void state_stats(const struct state *s, struct files_stats *ret)
{
	ret->files = s->files.count;
	ret->objects = 0;
	ret->errors = s->n_shadowed;
	ret->notes = 0;
	htable_for_each (n, &s->files) {
		const struct file *f = container_of(n, struct file, node);

		ret->errors += f->failure != NULL;
		vec_for_each (p, &f->problems)
			*(p->is_error ? &ret->errors : &ret->notes) += 1;
	}
	htable_for_each (n, &s->entries) {
		const struct entry *e = container_of(n, struct entry, node);

		ret->objects += (e->flags & ENTRY_HAS_GOOD) && !(e->flags & ENTRY_IGNORED);
	}
}
