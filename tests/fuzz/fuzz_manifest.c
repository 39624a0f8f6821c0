/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a manifest, as YAML and as JSON: nothing crashes or leaks, what is
 * called good can be used, and the same text is known again as a whole.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "source/files/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct feed {
	const uint8_t *data;
	size_t size;
	size_t at;
	size_t step;
	VEC(uint64_t) known;
	bool knows_all;
};

static ssize_t on_read(void *arg, void *buf, size_t size)
{
	struct feed *f = arg;
	size_t n = MIN(f->size - f->at, f->step);

	n = MIN(n, size);
	if (n > 0)
		memcpy(buf, f->data + f->at, n);
	f->at += n;
	return (ssize_t)n;
}

static uint32_t on_known(void *arg, uint64_t hash)
{
	struct feed *f = arg;

	if (!f->knows_all) {
		*vec_push(&f->known) = hash;
		return 0;
	}
	vec_for_each (h, &f->known)
		if (*h == hash)
			return 1;
	return 0;
}

static struct manifest *read_all(struct feed *f, bool is_json)
{
	struct manifest_ops ops = { on_read, on_known, f, { 3, 4 }, is_json };
	struct manifest *m;
	struct err err;
	int r;

	f->at = 0;
	manifest_open(&m, &ops);
	do
		r = manifest_step(m, &err);
	while (r > 0);
	assert(r == 0);
	return m;
}

static void pieces_check(const struct manifest *m)
{
	size_t n = 0;

	vec_for_each (u, &m->units)
		n += u->n_pieces;
	assert(n == m->pieces.n);
	vec_for_each (p, &m->pieces) {
		assert((p->state == PIECE_GOOD) == (p->obj.kind != OBJECT_KIND_OTHER));
		assert((p->state == PIECE_BAD || p->state == PIECE_UNREADABLE) == (p->why != NULL));
		assert(p->state == PIECE_UNREADABLE || p->name != NULL);
	}
}

static void try(const uint8_t *data, size_t size, bool is_json)
{
	struct feed f = { .data = data, .size = size, .step = SIZE_MAX };
	struct manifest *whole = read_all(&f, is_json);
	struct manifest *parts;
	struct manifest *again;

	pieces_check(whole);
	f.knows_all = true;
	again = read_all(&f, is_json);
	assert(again->units.n == whole->units.n);
	for (size_t i = 0; i < again->units.n; i++)
		assert(again->units.v[i].hash == 0 || again->units.v[i].known != 0);
	f.knows_all = false;
	vec_clear(&f.known);
	f.step = 3;
	parts = read_all(&f, is_json);
	assert(parts->pieces.n == whole->pieces.n && parts->units.n == whole->units.n);
	for (size_t i = 0; i < parts->pieces.n; i++)
		assert(parts->pieces.v[i].state == whole->pieces.v[i].state &&
		       parts->pieces.v[i].name == whole->pieces.v[i].name);
	manifest_close(whole);
	manifest_close(again);
	manifest_close(parts);
	vec_fini(&f.known);
	assert(name_count() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try(data, size, false);
	try(data, size, true);
	return 0;
}
