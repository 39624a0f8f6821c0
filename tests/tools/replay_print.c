/* SPDX-License-Identifier: GPL-2.0-or-later */
/* replay - the elements of a kernel in memory, as JSON. */
#include "tools/replay.h"

#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#include "fake/state.h"

static void hex(const uint8_t *bytes, size_t len)
{
	(void)putchar('"');
	for (size_t i = 0; i < len; i++)
		(void)printf("%02x", bytes[i]);
	(void)putchar('"');
}

static void elem_print(const struct set *s, const struct elem *e)
{
	(void)putchar('[');
	hex(e->key, s->key_len);
	(void)printf(", ");
	if (e->has_verdict)
		(void)printf("{\"chain\": \"%s\"}", e->chain);
	else if (e->data_len > 0)
		hex(e->data, e->data_len);
	else
		(void)printf("null");
	(void)printf(", %u]", e->flags);
}

void replay_print(const struct fake *f, enum ipfam fam)
{
	const struct table *found = NULL;
	bool is_first = true;

	list_for_each (l, &f->tables) {
		const struct table *t = list_entry(l, struct table, link);

		/* The newest one during a replacement. */
		if ((t->family == 2) == (fam == IPFAM_V4) && strncmp(t->name, "vipd", 4) == 0)
			found = t;
	}
	(void)printf("\"%d\": {", fam == IPFAM_V4 ? 4 : 6);
	if (found != NULL)
		list_for_each (l, &found->sets) {
			const struct set *s = list_entry(l, struct set, link);
			const char *comma = "";

			(void)printf("%s\"%s\": [", is_first ? "" : ", ", s->name);
			is_first = false;
			list_for_each (k, &s->elems) {
				(void)printf("%s", comma);
				elem_print(s, list_entry(k, struct elem, link));
				comma = ", ";
			}
			(void)printf("]");
		}
	(void)printf("}");
}
