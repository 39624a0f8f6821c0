/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kube/ledger - see ledger.h. Mark and sweep over names. */
#include "source/kube/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

DEFINE_AUTO(const struct name *, name_unref);

/* --- names ---------------------------------------------------------------- */

static struct ledger_key *key_find(const struct ledger *l, const struct name *ns,
				   const struct name *name)
{
	return htable_find(&l->keys, name_pair_hash(ns, name), struct ledger_key, k,
			   k->ns == ns && k->name == name);
}

/* Record that the object is on the server. Its key; without one, a new key if `is_needed`. */
static struct ledger_key *key_mark(struct ledger *l, const struct name *ns, const struct name *name,
				   bool is_needed)
{
	struct ledger_key *k = key_find(l, ns, name);

	if (k == NULL && is_needed) {
		k = xcalloc(1, sizeof(*k));
		k->ns = name_ref(ns);
		k->name = name_ref(name);
		htable_insert(&l->keys, &k->node, name_pair_hash(ns, name));
	}
	if (k != NULL)
		k->generation = l->generation;
	return k;
}

/* As key_mark(), of an object whose version in the model, if any, stays. */
static struct ledger_key *key_keep(struct ledger *l, const struct name *ns, const struct name *name)
{
	struct ledger_key *k = key_mark(l, ns, name, true);

	k->is_listed = model_list_keep(l->model, l->kind, ns, name);
	k->is_known |= k->is_listed;
	return k;
}

static void known_set(struct ledger *l, struct ledger_key *k)
{
	if (k->is_known)
		return;
	l->n_unknown -= k->is_rejected;
	k->is_known = true;
}

static void remark_drop(struct ledger *l, struct ledger_key *k)
{
	struct ledger_key **rm = k->text != NULL ? vec_find(&l->remarks, it, *it == k) : NULL;

	l->n_remarked -= k->has_remark;
	l->n_rejected -= k->is_rejected;
	l->n_unknown -= !k->is_known && k->is_rejected;
	k->has_remark = k->is_rejected = false;
	if (rm != NULL)
		*rm = l->remarks.v[--l->remarks.n];
	free(TAKE(k->text));
}

static void key_drop(struct ledger *l, struct ledger_key *k)
{
	remark_drop(l, k);
	htable_remove(&l->keys, &k->node);
	name_pair_unref(k->ns, k->name);
	free(k);
}

/* --- remarks -------------------------------------------------------------- */

static void remark_log(const struct ledger *l, const struct ledger_key *k, bool is_rejected,
		       const char *text)
{
	FINI(str_fini) struct str title = { 0 };

	object_title(&title, l->kind, k->ns, k->name);
	if (is_rejected)
		log_warn(LOG_AREA_SOURCE, "%s: rejected: %s; %s", title.text, text,
			 k->is_known ? "its last good version stays"
				     : "no good version of it is known");
	else
		log_warn(LOG_AREA_SOURCE, "%s: %s", title.text, text);
}

/* Make room for the text of a rejection: drop that of a note. */
static bool note_give_up(struct ledger *l)
{
	struct ledger_key **note = vec_find(&l->remarks, k, !(*k)->is_rejected);

	if (note == NULL)
		return false;
	free(TAKE((*note)->text));
	*note = l->remarks.v[--l->remarks.n];
	return true;
}

/* Log a remark once: an equal text about the object is not repeated. */
static void remark_put(struct ledger *l, struct ledger_key *k, bool is_rejected, const char *text)
{
	if (k->has_remark && k->is_rejected == is_rejected &&
	    (k->text == NULL || strcmp(k->text, text) == 0))
		return;
	remark_log(l, k, is_rejected, text);
	remark_drop(l, k);
	k->has_remark = true;
	k->is_rejected = is_rejected;
	l->n_remarked++;
	l->n_rejected += is_rejected;
	l->n_unknown += !k->is_known && is_rejected;
	if (l->remarks.n == LEDGER_REMARKS_MAX && !(is_rejected && note_give_up(l)))
		return;
	k->text = str_clean(xstrdup(text));
	*vec_push(&l->remarks) = k;
}

void ledger_unreadable(struct ledger *l, const json_t *obj, const char *why)
{
	AUTO(name_unref) const struct name *name = NULL;
	AUTO(name_unref) const struct name *ns = NULL;
	struct decode d = { 0 };

	if (obj == NULL || decode_key(&ns, &name, l->kind, obj, &d, NULL) < 0) {
		l->has_unknown = true;
		l->n_unreadable++;
		log_warn(LOG_AREA_SOURCE, "%s without a readable name: %s; ignored",
			 object_kind_text(l->kind), why);
		return;
	}
	remark_put(l, key_keep(l, ns, name), true, why);
}

/* --- objects -------------------------------------------------------------- */

/* The first skipped entry of an object, and the number of skipped entries. */
struct notes {
	struct err first;
	size_t n;
};

static void on_note(void *arg, const struct decode *d, const char *text)
{
	struct notes *notes = arg;

	if (notes->n++ == 0)
		(void)err_set(&notes->first, 0, "%s", text);
}

static void notes_put(struct ledger *l, struct ledger_key *k, const struct notes *notes)
{
	struct err text = notes->first;

	if (notes->n == 0) {
		remark_drop(l, k);
		return;
	}
	if (notes->n > 1)
		(void)err_set(&text, 0, "%s (and %zu more)", notes->first.text, notes->n - 1);
	remark_put(l, k, false, text.text);
}

/* A valid object of another proxy. */
static int put_ignored(struct ledger *l, const json_t *obj, const struct notes *notes,
		       uint64_t at_ns)
{
	AUTO(name_unref) const struct name *name = NULL;
	AUTO(name_unref) const struct name *ns = NULL;
	struct decode d = { 0 };
	struct ledger_key *k;

	if (decode_key(&ns, &name, l->kind, obj, &d, NULL) < 0)
		return 0; /* cannot happen: decode_object() has read them */
	k = key_keep(l, ns, name);
	known_set(l, k);
	notes_put(l, k, notes);
	k->is_listed = false;
	return model_del(l->model, l->kind, ns, name, at_ns);
}

int ledger_put(struct ledger *l, const json_t *obj, uint64_t at_ns)
{
	struct notes notes = { .n = 0 };
	bool is_listed = l->kind == OBJECT_KIND_SERVICE || l->kind == OBJECT_KIND_SLICE;
	struct decode d = { .note = on_note, .arg = &notes };
	FINI(object_fini) struct object o = { 0 };
	struct ledger_key *k;
	struct err err;
	int r = decode_object(&o, l->kind, obj, &d, &err);

	if (r == DECODE_IGNORED)
		return put_ignored(l, obj, &notes, at_ns);
	if (r < 0) {
		ledger_unreadable(l, obj, err.text);
		return 0;
	}
	k = key_mark(l, o.head->ns, o.head->name, notes.n > 0 || !is_listed);
	if (k != NULL) {
		known_set(l, k);
		notes_put(l, k, &notes);
		k->is_listed = is_listed;
		if (k->is_listed && !k->has_remark)
			key_drop(l, k);
	}
	return model_put(l->model, &o, at_ns);
}

int ledger_del(struct ledger *l, const json_t *obj, uint64_t at_ns)
{
	AUTO(name_unref) const struct name *name = NULL;
	AUTO(name_unref) const struct name *ns = NULL;
	struct decode d = { 0 };
	struct ledger_key *k;

	if (decode_key(&ns, &name, l->kind, obj, &d, NULL) < 0) {
		ledger_unreadable(l, NULL, "deletion without a name");
		return 0;
	}
	k = key_find(l, ns, name);
	if (k != NULL)
		key_drop(l, k);
	return model_del(l->model, l->kind, ns, name, at_ns);
}

/* --- lists ---------------------------------------------------------------- */

bool ledger_is_complete(const struct ledger *l, struct str *why)
{
	if (l->n_unknown == 0 && !l->is_list_partial)
		return true;
	if (why == NULL)
		return false;
	if (l->n_unknown == 0) {
		str_printf(why, "%s without a readable name", object_kind_text(l->kind));
		return false;
	}
	htable_for_each_entry (k, &l->keys, const struct ledger_key) {
		if (k->is_known || !k->is_rejected)
			continue;
		object_title(why, l->kind, k->ns, k->name);
		str_puts(why, ": no good version of it is known");
		break;
	}
	return false;
}

void ledger_list_begin(struct ledger *l)
{
	l->generation++;
	l->has_unknown = false;
	model_list_begin(l->model, l->kind);
}

size_t ledger_list_end(struct ledger *l, uint64_t at_ns)
{
	size_t n = 0;

	l->is_list_partial = l->has_unknown;
	if (l->has_unknown) {
		log_warn(LOG_AREA_SOURCE,
			 "%s: list has objects without a readable name; no object is deleted",
			 object_kind_text(l->kind));
		return 0;
	}
	htable_for_each_entry_safe (k, tmp, &l->keys, struct ledger_key) {
		if (k->generation == l->generation)
			continue;
		n += (size_t)model_del(l->model, l->kind, k->ns, k->name, at_ns);
		key_drop(l, k);
	}
	return n + model_list_end(l->model, l->kind, at_ns);
}

size_t ledger_objects(const struct ledger *l)
{
	size_t n = l->kind == OBJECT_KIND_SERVICE ? l->model->stats.services
		   : l->kind == OBJECT_KIND_SLICE ? l->model->stats.slices
						  : 0;

	htable_for_each (node, &l->keys)
		n += !container_of(node, struct ledger_key, node)->is_listed;
	return n;
}

/* --- life ----------------------------------------------------------------- */

void ledger_init(struct ledger *l, struct model *m, enum object_kind kind)
{
	*l = (struct ledger){ .model = m, .kind = kind };
}

void ledger_fini(struct ledger *l)
{
	htable_for_each_entry_safe (k, tmp, &l->keys, struct ledger_key)
		key_drop(l, k);
	htable_fini(&l->keys);
	vec_fini(&l->remarks);
}
