/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model/addrs - a counted set. */
#include "model/private.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "model/model.h"

struct counted {
	struct hnode node;
	struct ip_addr addr;
	uint32_t refs;
};

static struct counted *find(const struct htable *t, const struct ip_addr *a)
{
	return htable_find(t, hash_bytes(a, sizeof(*a)), struct counted, c,
			   ip_addr_is_equal(&c->addr, a));
}

void addrs_add(struct htable *t, const struct slice *s)
{
	vec_for_each (e, &s->endpoints) {
		struct counted *c = find(t, &e->addr);

		if (c == NULL) {
			c = xcalloc(1, sizeof(*c));
			c->addr = e->addr;
			htable_insert(t, &c->node, hash_bytes(&c->addr, sizeof(c->addr)));
		}
		c->refs++;
	}
}

void addrs_remove(struct htable *t, const struct slice *s)
{
	vec_for_each (e, &s->endpoints) {
		struct counted *c = find(t, &e->addr);

		assert(c != NULL);
		if (--c->refs > 0)
			continue;
		htable_remove(t, &c->node);
		free(c);
	}
}

bool model_has_addr(const struct model *m, const struct ip_addr *a)
{
	assert(m->config.tracks_addrs);
	return find(&m->addrs, a) != NULL;
}

void addrs_fini(struct htable *t)
{
	htable_for_each_entry_safe (c, tmp, t, struct counted)
		free(c);
	htable_fini(t);
}
