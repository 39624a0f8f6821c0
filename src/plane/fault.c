/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/fault - the faults of a plane, one text for each kind. */
#include <stdio.h>
#include <string.h>

#include "plane/plane.h"

bool plane_fault_set(struct plane *p, enum plane_fault_kind kind, bool is_unready, const char *text)
{
	struct plane_fault *f = &p->faults[kind];
	char cut[sizeof(f->text)];

	(void)snprintf(cut, sizeof(cut), "%s", text);
	if (f->is_unready == is_unready && strcmp(f->text, cut) == 0)
		return false;
	f->is_unready = is_unready && cut[0] != '\0';
	memcpy(f->text, cut, sizeof(cut));
	return true;
}

bool plane_fault_clear(struct plane *p, enum plane_fault_kind kind)
{
	return plane_fault_set(p, kind, false, "");
}

const char *plane_unready(const struct plane *p)
{
	for (int i = 0; p != NULL && i < PLANE_FAULT_N; i++)
		if (p->faults[i].is_unready)
			return p->faults[i].text;
	return NULL;
}
