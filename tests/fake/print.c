/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/fake/print - sets as sorted text. */
#include "fake/state.h"

#include <linux/netfilter/nf_tables.h>
#include <stdlib.h>
#include <string.h>

#include "nft/decode.h"

static const char *const families[IPFAM_N] = { "ip", "ip6" };

static struct table *table_ours(const struct fake *f, enum ipfam fam)
{
	list_for_each_entry (t, &f->tables, struct table, link) {
		if ((t->family == 2) == (fam == IPFAM_V4) && strncmp(t->name, "vipd", 4) == 0)
			return t;
	}
	return NULL;
}

/* Sets whose elements depend on services; packets fill the affinity map. */
static bool is_printed(enum nft_set_id set)
{
	return set < NFTSET_POD_CIDRS && set != NFTSET_AFFINITY;
}

static int line_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void each_key(const void *ctx, enum ipfam fam, enum nft_set_id id,
		     void (*fn)(void *arg, const uint8_t *key), void *arg)
{
	struct table *t = table_ours(ctx, fam);
	struct set *s = t ? set_find(t, nft_set_desc(id, fam)->name) : NULL;

	if (s == NULL)
		return;
	list_for_each (l, &s->elems)
		fn(arg, list_entry(l, struct elem, link)->key);
}

struct lines {
	const struct fake *f;
	enum ipfam fam;
	enum nft_set_id set;
	VEC(char *) v;
};

static void line_add(void *arg, const uint8_t *key)
{
	struct lines *ls = arg;
	const uint8_t *data = fake_find(ls->f, ls->fam, ls->set, key);
	struct str s = { 0 };

	str_printf(&s, "%s %s ", families[ls->fam], nft_set_desc(ls->set, ls->fam)->name);
	nft_elem_text(&s, ls->fam, ls->set, key, nft_data_len(ls->set, ls->fam) > 0 ? data : NULL);
	*vec_push(&ls->v) = s.text;
}

void fake_print_elements(const struct fake *f, struct str *out)
{
	struct lines ls = { .f = f };

	for (int fam = 0; fam < IPFAM_N; fam++)
		for (int set = 0; set < NFTSET_N; set++) {
			ls.fam = fam;
			ls.set = set;
			if (is_printed(set))
				each_key(f, fam, set, line_add, &ls);
		}
	if (ls.v.n > 0)
		qsort(ls.v.v, ls.v.n, sizeof(ls.v.v[0]), line_cmp);
	vec_for_each (line, &ls.v) {
		str_printf(out, "%s\n", *line);
		free(*line);
	}
	vec_fini(&ls.v);
}

static const uint8_t *find(const void *ctx, enum ipfam fam, enum nft_set_id set, const uint8_t *key)
{
	return fake_find(ctx, fam, set, key);
}

void fake_print_services(const struct fake *f, struct str *out)
{
	const struct nft_source src = { .find = find, .each = each_key, .ctx = f };

	nft_frontends_text(out, &src);
}
