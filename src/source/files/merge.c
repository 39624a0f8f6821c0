/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * files/merge - replace the old version of a file by the new one.
 *
 * Units with unchanged text are matched first, at any position: they keep their entries and
 * problems and are not parsed. Pieces of other units are matched by the object's name. The rest of
 * the old version is removed, unless the new version has an unreadable unit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "source/files/entry.h"

/* --- problems ---------------------------------------------------------------- */

/* Takes `text`. Logs it: called once, because an unchanged unit keeps its problems; not surplus. */
static void problem_add(struct file *f, uint32_t unit, uint32_t line, bool is_error, char *text)
{
	str_clean(text);
	log_warn(LOG_AREA_SOURCE, "%s:%" PRIu32 ": %s", f->shown, f->units.v[unit].line + line,
		 text);
	if (f->problems.n >= MANIFEST_NOTES_MAX) {
		f->units.v[unit].n_lost++;
		free(text);
		return;
	}
	*vec_push(&f->problems) = (struct manifest_problem){ unit, line, is_error, text };
}

static void error_add(struct file *f, uint32_t unit, const struct piece *p, const char *effect)
{
	struct str text = { 0 };

	object_title(&text, p->kind, p->ns, p->name);
	str_printf(&text, ": %s; %s", p->why, effect);
	problem_add(f, unit, p->why_line, true, text.text);
}

/* --- a new version of a file -------------------------------------------------- */

/* The old version while the new one is built. */
struct merge {
	struct state *s;
	struct file *f;
	struct manifest *m;
	struct file old; /* only vectors are used; those of `f` are the new version's */
	bool has_unreadable;
};

void state_reading_begin(struct state *s, const struct file *f)
{
	vec_for_each (e, &f->entries)
		(*e)->flags &= (uint8_t)~ENTRY_MOVED;
	htable_fini(&s->last_units);
	vec_clear(&s->unit_refs);
	vec_reserve(&s->unit_refs, f->units.n);
	for (uint32_t i = f->units.n; i-- > 0;) { /* of equal units the first is found first */
		struct unit_ref *ref = vec_push(&s->unit_refs);

		ref->unit = i;
		htable_insert(&s->last_units, &ref->node, (uint32_t)(f->units.v[i].hash >> 32));
	}
}

uint32_t state_unit_known(struct state *s, const struct file *f, uint64_t hash)
{
	struct unit_ref *ref = htable_find(&s->last_units, (uint32_t)(hash >> 32), struct unit_ref,
					   r, f->units.v[r->unit].hash == hash);
	const struct unit *u = ref != NULL ? &f->units.v[ref->unit] : NULL;

	/* Room for problems of the unit that were only counted: read it again. */
	if (u == NULL || (u->n_lost > 0 && f->problems.n < MANIFEST_NOTES_MAX))
		return 0;
	for (uint32_t i = 0; i < u->n_entries; i++)
		f->entries.v[u->first_entry + i]->flags |= ENTRY_MOVED;
	htable_remove(&s->last_units, &ref->node);
	return ref->unit + 1;
}

static void entry_add(struct merge *g, uint32_t unit, struct entry *e, uint32_t line)
{
	struct file *f = g->f;

	e->unit = unit;
	e->line = line;
	e->pos = (uint32_t)f->entries.n;
	f->units.v[unit].n_entries++;
	*vec_push(&f->entries) = e;
}

/* Keep the entries and problems of a unit with unchanged text. */
static void unit_carry(struct merge *g, uint32_t unit)
{
	struct unit *u = &g->f->units.v[unit];
	uint32_t old = u->known - 1;
	const struct unit *was = &g->old.units.v[old];
	size_t k = bisect(g->old.problems.n, i, g->old.problems.v[i].unit < old);

	u->n_others = was->n_others;
	u->n_lost = was->n_lost;
	u->is_unreadable = was->is_unreadable;
	g->has_unreadable |= was->is_unreadable;
	for (uint32_t i = 0; i < was->n_entries; i++) {
		struct entry *e = g->old.entries.v[was->first_entry + i];
		uint32_t was_pos = e->pos;

		entry_add(g, unit, e, e->line);
		if (g->f->n_shadowed > 0 && e->pos != was_pos)
			entry_key_changed(
				g->s, &e->key); /* another entry of this key may be the first now */
	}
	for (; k < g->old.problems.n && g->old.problems.v[k].unit == old; k++) {
		struct manifest_problem *p = &g->old.problems.v[k];

		*vec_push(&g->f->problems) =
			(struct manifest_problem){ unit, p->line, p->is_error, TAKE(p->text) };
	}
}

static void entry_take_good(struct merge *g, struct entry *e, struct piece *p)
{
	FINI(str_fini) struct str title = { 0 };

	if (e->flags & ENTRY_BAD) {
		object_title(&title, e->key.kind, e->key.ns, e->key.name);
		log_notice(LOG_AREA_SOURCE, "%s: %s: recovered", g->f->shown, str_text(&title));
	}
	object_fini(&e->obj);
	e->obj = p->obj;
	p->obj = (struct object){ 0 };
	e->flags &= (uint8_t) ~(ENTRY_BAD | ENTRY_IGNORED | ENTRY_APPLIED);
	e->flags |= ENTRY_HAS_GOOD;
	if (p->state == PIECE_IGNORED)
		e->flags |= ENTRY_IGNORED;
}

/* Has the model an object of this name, maybe of another file? */
static bool is_in_model(const struct model *m, const struct key *k)
{
	const struct svc *svc;

	if (k->kind == OBJECT_KIND_SLICE)
		return model_find_slice(m, k->ns, k->name) != NULL;
	svc = k->kind == OBJECT_KIND_SERVICE ? model_find(m, k->ns, k->name) : NULL;
	return svc != NULL && svc->service != NULL;
}

/* A further document of an object is not kept. Its unit is read again: it may count then. */
static void surplus_add(struct merge *g, uint32_t unit, const struct piece *p)
{
	struct str text = { 0 };

	object_title(&text, p->kind, p->ns, p->name);
	str_printf(&text, ": is in more than %d documents of this file, this one is not read",
		   ENTRIES_SAME_MAX);
	problem_add(g->f, unit, p->line, true, text.text);
	g->f->units.v[unit].hash = 0;
}

static void piece_take(struct merge *g, uint32_t unit, struct piece *p)
{
	struct entry *e;
	size_t n_same;

	if (p->state == PIECE_UNREADABLE) {
		g->f->units.v[unit].is_unreadable = true;
		g->has_unreadable = true;
		error_add(g->f, unit, p, "no object of this file is removed until it can be read");
		return;
	}
	e = entry_find_old(g->s, g->f, p, &n_same);
	if (e == NULL && n_same >= ENTRIES_SAME_MAX) {
		surplus_add(g, unit, p);
		return;
	}
	if (e == NULL)
		e = entry_new(g->s, g->f, p);
	e->flags |= ENTRY_MOVED;
	entry_add(g, unit, e, p->line);
	entry_key_changed(g->s, &e->key);
	if (p->state != PIECE_BAD) {
		entry_take_good(g, e, p);
		return;
	}
	e->flags |= ENTRY_BAD;
	error_add(g->f, unit, p,
		  e->flags & ENTRY_HAS_GOOD || is_in_model(g->s->model, &e->key)
			  ? "its last good version stays"
			  : "no good version of it is known");
}

/* Remove an entry that the new version lacks, unless the new version has an unreadable unit. */
static void leftover(struct merge *g, struct entry *e)
{
	if (e->flags & ENTRY_MOVED)
		return;
	if (g->has_unreadable) {
		e->unit = UINT32_MAX;
		e->pos = (uint32_t)g->f->entries.n;
		*vec_push(&g->f->entries) = e;
		return;
	}
	entry_free(g->s, e);
}

static void units_take(struct merge *g)
{
	struct manifest_problem *note = g->m->notes.v;
	size_t piece = 0;

	for (uint32_t i = 0; i < g->f->units.n; i++) {
		struct unit *u = &g->f->units.v[i];

		u->first_entry = (uint32_t)g->f->entries.n;
		if (u->known != 0)
			unit_carry(g, i);
		for (uint32_t k = 0; k < u->n_pieces; k++)
			piece_take(g, i, &g->m->pieces.v[piece++]);
		for (; note != vec_end(&g->m->notes) && note->unit == i; note++)
			problem_add(g->f, i, note->line, false, TAKE(note->text));
		g->f->n_others += u->n_others;
		g->f->n_problems_lost += u->n_lost;
	}
}

static void old_close(struct merge *g)
{
	vec_for_each (e, &g->old.entries)
		leftover(g, *e);
	vec_for_each (p, &g->old.problems)
		free(p->text);
	vec_fini(&g->old.units);
	vec_fini(&g->old.entries);
	vec_fini(&g->old.problems);
}

void state_file_read(struct state *s, struct file *f, struct manifest *m)
{
	struct merge g = { .s = s, .f = f, .m = m };

	htable_fini(&s->last_units);
	vec_fini(&s->unit_refs);
	state_file_failed(s, f, NULL);
	vec_move(&g.old.units, &f->units);
	vec_move(&g.old.entries, &f->entries);
	vec_move(&g.old.problems, &f->problems);
	vec_move(&f->units, &m->units);
	f->n_others = 0;
	f->n_problems_lost = 0;
	if (m->other[0] != '\0')
		(void)snprintf(f->other, sizeof(f->other), "%s", m->other);
	units_take(&g);
	old_close(&g);
	f->is_known |= !g.has_unreadable;
	vec_fit(&f->units);
	vec_fit(&f->entries);
	vec_fit(&f->problems);
	file_listed_update(s, f);
}
