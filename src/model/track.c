/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "model/track.h"

#include <string.h>

void svc_track_end(struct svc *svc)
{
	struct svc_track *t = svc->track;

	if (t == NULL)
		return;
	vec_for_each (c, &t->slices)
		slice_close(c->was);
	vec_clear(&t->slices);
	t->is_on = false;
}

void svc_track_close(struct svc *svc)
{
	struct svc_track *t = svc->track;

	svc_track_end(svc);
	if (t == NULL)
		return;
	vec_fini(&t->slices);
	free(t);
	svc->track = NULL;
}

void svc_track_open(struct svc *svc, size_t n)
{
	svc_track_close(svc);
	svc->track = xcalloc(1, sizeof(*svc->track) + 2 * n * sizeof(struct selection_sums));
	svc->track->n = n;
	svc->track->next = svc->track->sums + n;
}

void svc_track_begin(struct svc *svc)
{
	struct svc_track *t = svc->track;

	if (t == NULL)
		return;
	svc_track_end(svc);
	memcpy(t->sums, t->next, t->n * sizeof(*t->sums));
	t->is_on = true;
}

bool svc_track_has_none_twice(const struct svc *svc)
{
	const struct svc_track *t = svc->track;

	return t != NULL && t->is_on && t->slices.n == 0 &&
	       !array_has(t->sums, t->n, of, of->twice > 0);
}

void svc_track_slice(const struct slice_entry *e, struct slice *was)
{
	struct svc_track *t = e->svc->track;

	if (t == NULL || !t->is_on || vec_has(&t->slices, c, c->entry == e)) {
		slice_close(was);
		return;
	}
	*vec_push(&t->slices) = (struct slice_change){ e, was };
	if (t->slices.n > TRACK_SLICES_MAX)
		svc_track_end(e->svc);
}
