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

static void report(const struct model *m, const struct ip_addr *a, bool is_listed)
{
	if (m->addr_event != NULL)
		m->addr_event(m->addr_event_arg, a, is_listed);
}

void addrs_add(struct model *m, const struct slice *s)
{
	if (!m->config.tracks_addrs)
		return;
	vec_for_each (e, &s->endpoints) {
		struct counted *c = find(&m->addrs, &e->addr);

		if (c == NULL) {
			c = xcalloc(1, sizeof(*c));
			c->addr = e->addr;
			htable_insert(&m->addrs, &c->node, hash_bytes(&c->addr, sizeof(c->addr)));
			report(m, &c->addr, true);
		}
		c->refs++;
	}
}

void addrs_remove(struct model *m, const struct slice *s)
{
	if (!m->config.tracks_addrs)
		return;
	vec_for_each (e, &s->endpoints) {
		struct counted *c = find(&m->addrs, &e->addr);

		assert(c != NULL);
		if (--c->refs > 0)
			continue;
		htable_remove(&m->addrs, &c->node);
		free(c);
		report(m, &e->addr, false);
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
