/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/nft/layout.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "nft/write.h"

/* Kinds without a pick chain: for frontends without backends or with conditions. */
static const uint16_t fixed_kinds[] = { NFT_KIND_FW, NFT_KIND_XL, NFT_KIND_DROP, NFT_KIND_REJECT };

void nft_layout_open(struct nft_layout **ret, struct nl_sock *nl, enum ipfam fam)
{
	struct nft_layout *l = xcalloc(1, sizeof(*l));

	l->nl = nl;
	l->fam = fam;
	nft_table_name(l->table, nft_schema.table, 1);
	for (uint16_t kind = 1; kind <= NFT_KIND_PRECREATED; kind++)
		bit_set(l->kinds.bits, kind);
	*ret = l;
}

void nft_layout_close(struct nft_layout *l)
{
	if (l == NULL)
		return;
	nft_fixed_fini(&l->programmed);
	vec_fini(&l->old);
	free(l);
}

void nft_layout_own(struct nft_layout *l, bool yes)
{
	l->is_owned = yes;
	l->is_owner_rejected = false;
}

bool nft_layout_is_owner(const struct nft_layout *l)
{
	return l->state == NFT_LAYOUT_PRESENT && (l->programmed.flags & NFT_TABLE_F_OWNER);
}

/* Always both: the kernel deletes an owned, not persistent table with its owner. */
static uint32_t desired_flags(const struct nft_layout *l)
{
	return l->is_owned ? NFT_TABLE_F_OWNER | NFT_FIXED_TABLE_F_PERSIST : 0;
}

/* The element of a verdict map for a kind; false: the map has none. */
static bool verdict_of(struct nft_verdict *ret, enum nft_set_id map, uint16_t kind)
{
	char buf[NFT_CHAIN_NAME_MAX];
	const char *chain = nft_kind_chain(kind, buf);
	bool is_end = kind == NFT_KIND_REJECT || kind == NFT_KIND_DROP;

	/* Each map leads only to chains that use lower maps, because the kernel rejects loops. */
	if (chain == NULL || (kind == NFT_KIND_FW && map != NFTSET_KINDS) ||
	    (kind == NFT_KIND_XL && map == NFTSET_LEAVES))
		return false;
	ret->kind = kind;
	(void)snprintf(ret->chain, sizeof(ret->chain), "%s", chain);
	/* After a miss in a pick chain, jump and goto both return behind the dispatch rule. */
	ret->code = is_end || map == NFTSET_LEAVES ? NFT_GOTO : NFT_JUMP;
	return true;
}

static bool verdict_is_programmed(const struct nft_layout *l, unsigned int map,
				  const struct nft_verdict *desired)
{
	const struct nft_verdict *v = nft_fixed_verdict(&l->programmed, map, desired->kind);

	return v != NULL && v->code == desired->code && strcmp(v->chain, desired->chain) == 0;
}

bool nft_layout_has_kind(const struct nft_layout *l, uint16_t kind)
{
	char buf[NFT_CHAIN_NAME_MAX];
	const char *chain = nft_kind_chain(kind, buf);

	if (chain == NULL || nft_fixed_chain(&l->programmed, chain) == NULL)
		return false;
	for (unsigned int map = 0; map < NFT_VERDICT_MAPS; map++) {
		struct nft_verdict desired;

		if (verdict_of(&desired, NFTSET_LEAVES + map, kind) &&
		    !verdict_is_programmed(l, map, &desired))
			return false;
	}
	return true;
}

/*
 * Adopt the affinity kinds of an earlier process. A number that has another meaning now: its chain
 * is created again when needed.
 */
static void kinds_adopt(struct nft_layout *l)
{
	for (unsigned int map = 0; map < NFT_VERDICT_MAPS; map++) {
		const struct nft_fixed_verdicts *all = l->programmed.verdicts[map];

		for (size_t i = 0; all != NULL && i < all->v.n; i++) {
			const struct nft_verdict *v = &all->v.v[i];

			if (nft_fixed_chain(&l->programmed, v->chain) != NULL &&
			    nft_kind_adopt((uint16_t)v->kind, v->chain) == 0)
				bit_set(l->kinds.bits, (uint16_t)v->kind);
		}
	}
}

/* A free name: "vipd", "vipd-2" ... */
static int name_choose(struct nft_layout *l, const struct nft_fixed_tables *tables, struct err *err)
{
	for (int i = 1; i <= NFT_TABLE_NAMES_MAX; i++) {
		nft_table_name(l->table, nft_schema.table, i);
		if (!vec_has(&tables->v, t, strcmp(t->name, l->table) == 0))
			return 0;
	}
	return err_set(
		err, -EEXIST,
		"all table names %s to %s are in use; delete a table that vipd no longer needs",
		nft_schema.table, l->table);
}

/* The reason why a table with these properties cannot be repaired; NULL: it can. */
static const char *kind_misfit(const struct nft_layout *l, const struct nft_fixed_table *t)
{
	/* The kernel accepts the flag at creation only. */
	bool is_persistent = t->flags & NFT_FIXED_TABLE_F_PERSIST;

	if (l->is_readonly || is_persistent == l->is_owned)
		return NULL;
	return l->is_owned ? "it cannot have an owner" : "it can have an owner";
}

/* Use this table if it can be repaired: returns 1, else 0. */
static int table_try(struct nft_layout *l, const struct nft_fixed_table *t, struct err *err)
{
	const char *misfit = kind_misfit(l, t);
	int r;

	if (misfit != NULL) {
		snprintf(l->misfit, sizeof(l->misfit), "%s: %s", t->name, misfit);
		return 0;
	}
	r = nft_fixed_read(&l->programmed, l->nl, l->fam, t, &nft_schema,
			   l->is_readonly ? NFT_COUNT_ANY : (unsigned int)l->counting, err);
	if (r < 0)
		return r;
	if (l->programmed.misfit[0] != '\0') {
		snprintf(l->misfit, sizeof(l->misfit), "%s: %s", t->name, l->programmed.misfit);
		nft_fixed_fini(&l->programmed);
		return 0;
	}
	snprintf(l->table, sizeof(l->table), "%s", t->name);
	l->handle = t->handle;
	return 1;
}

/*
 * Use the youngest table of ours if it can be repaired: packets pass it first, so an older one
 * would not get those that this one translates.
 */
static int table_choose(struct nft_layout *l, const struct nft_fixed_tables *tables,
			struct err *err)
{
	int r;

	vec_for_each (t, &tables->v) {
		struct err holder;

		if (!t->is_ours)
			continue;
		if (nft_fixed_owner_check(t, l->nl, &holder) < 0)
			l->holder = holder;
		*vec_push(&l->old) = *t;
	}
	if (l->old.n == 0)
		return 0;
	r = table_try(l, &l->old.v[l->old.n - 1], err);
	l->old.n -= r > 0;
	return MIN(r, 0);
}

static void forget(struct nft_layout *l)
{
	nft_fixed_fini(&l->programmed);
	vec_clear(&l->old);
	l->misfit[0] = '\0';
	l->n_orphans = 0;
	l->holder.text[0] = '\0';
	l->is_fresh = false;
	l->handle = 0;
	l->state = NFT_LAYOUT_UNKNOWN;
}

static int load(struct nft_layout *l, const struct nft_fixed_tables *tables, struct err *err)
{
	int r = table_choose(l, tables, err);

	if (r < 0)
		return r;
	if (l->programmed.exists) {
		kinds_adopt(l);
		l->state = NFT_LAYOUT_PRESENT;
		return 0;
	}
	r = name_choose(l, tables, err);
	if (r < 0)
		return r;
	/* There may be thousands: services that need them have them made again, few at a time. */
	for (uint16_t kind = NFT_KIND_AFFINITY; kind < NFT_KIND_AFFINITY_END; kind++)
		bit_clear(l->kinds.bits, kind);
	l->state = l->old.n > 0 ? NFT_LAYOUT_OBSOLETE : NFT_LAYOUT_ABSENT;
	return 0;
}

int nft_layout_load(struct nft_layout *l, struct err *err)
{
	struct nft_fixed_tables tables = { 0 };
	struct nft_layout known = *l; /* restored if nothing newer can be read */
	int r;

	memset(&l->programmed, 0, sizeof(l->programmed));
	memset(&l->old, 0, sizeof(l->old));
	forget(l);
	r = nft_fixed_tables_read(&tables, l->nl, l->fam, &nft_schema, err);
	if (r == 0)
		r = load(l, &tables, err);
	vec_fini(&tables.v);
	if (r < 0) {
		forget(l);
		vec_fini(&l->old);
		*l = known;
		return r;
	}
	l->n_orphans = l->old.n > 0 ? MAX(known.n_orphans, (size_t)1) : 0;
	forget(&known);
	vec_fini(&known.old);
	l->is_fresh = true;
	return 0;
}

/* Write the chain of a kind with a pick chain; other kinds have fixed chains. */
static void pick_rules_write(struct nft_layout *l, struct nft_writer *w, uint16_t kind)
{
	char buf[NFT_CHAIN_NAME_MAX];
	const struct nft_kind_info info = nft_kind_info(kind);
	FINI(nft_rules_fini) struct nft_rules rs = { 0 };

	if (info.slots == 0)
		return;
	nft_rules_pick(&rs, l->fam, &info);
	nft_ensure_rules(w, nft_ensure_chain(w, &l->programmed, nft_kind_chain(kind, buf), NULL),
			 &rs);
}

static void verdict_write(struct nft_layout *l, struct nft_writer *w, unsigned int map,
			  uint16_t kind, bool even_fresh)
{
	struct nft_verdict desired;
	const struct nft_fixed_chain *c;

	if (!verdict_of(&desired, NFTSET_LEAVES + map, kind) ||
	    verdict_is_programmed(l, map, &desired))
		return;
	c = nft_fixed_chain(&l->programmed, desired.chain);
	if (c == NULL || (c->is_fresh && !even_fresh))
		return;
	if (nft_fixed_verdict(&l->programmed, map, kind) != NULL) /* to another chain */
		nft_write_verdict_del(w, NFTSET_LEAVES + map, kind);
	nft_write_verdict(w, NFTSET_LEAVES + map, &desired);
	nft_fixed_verdict_put(&l->programmed, map, &desired);
}

/*
 * Lead the verdict maps to the chains of all desired kinds. `even_fresh`: also to chains created in
 * this transaction, which is correct only in a new table, through which no packet passes yet.
 */
static void verdicts_write(struct nft_layout *l, struct nft_writer *w, bool even_fresh)
{
	for (unsigned int map = 0; map < NFT_VERDICT_MAPS; map++) {
		for (uint16_t kind = 1; kind < NFT_KIND_AFFINITY_END; kind++) {
			if (bit_is_set(l->kinds.bits, kind))
				verdict_write(l, w, map, kind, even_fresh);
		}
		for (size_t i = 0; i < ARRAY_SIZE(fixed_kinds); i++)
			verdict_write(l, w, map, fixed_kinds[i], even_fresh);
	}
}

/* Update the state after a transaction with result `r`. */
static int written(struct nft_layout *l, int r)
{
	if (r < 0) {
		forget(l);
		return r;
	}
	htable_for_each_entry (c, &l->programmed.chains, struct nft_fixed_chain)
		c->is_fresh = false;
	return 0;
}

static int verdicts_lead(struct nft_layout *l, struct nft_result *res, struct err *err)
{
	FINI(nft_writer_fini) struct nft_writer w;

	nft_writer_init(&w, l->nl, &nft_schema, l->fam, l->table);
	verdicts_write(l, &w, false);
	return written(l, nft_writer_commit(&w, res, err));
}

/*
 * Log the first write after a load. `n_claims`: the first of the writes, which only claim the
 * table.
 */
static void transition_log(struct nft_layout *l, const struct nft_writer *w, size_t n_claims)
{
	const char *family = nft_fam_text(l->fam);

	if (!l->is_fresh || w->n_writes == 0)
		return;
	if (l->programmed.exists && w->n_writes == n_claims)
		log_info(LOG_AREA_PLANE, "table %s %s: claimed", family, l->table);
	else if (l->programmed.exists)
		log_notice(LOG_AREA_PLANE,
			   "table %s %s: differs; repaired: kernel operations %zu, first: %s",
			   family, l->table, w->n_writes - n_claims, w->tags.v[n_claims]);
	else if (l->misfit[0] != '\0')
		log_notice(
			LOG_AREA_PLANE,
			"table %s %s: created to replace %s; session affinity of clients starts again",
			family, l->table, l->misfit);
	else
		log_info(LOG_AREA_PLANE, "table %s %s: created", family, l->table);
}

static int apply(struct nft_layout *l, const struct plane_rules_params *params,
		 struct nft_result *res, struct err *err)
{
	bool is_new = !l->programmed.exists;
	bool is_claim = !is_new && (l->programmed.flags ^ desired_flags(l)) == NFT_TABLE_F_OWNER;
	FINI(nft_writer_fini) struct nft_writer w;
	int r;

	nft_writer_init(&w, l->nl, &nft_schema, l->fam, l->table);
	w.counting = l->counting;
	if (is_new)
		nft_write_table(&w, desired_flags(l));
	else if (l->programmed.flags != desired_flags(l)) /* dormant, or without an owner */
		nft_write_table_flags(&w, desired_flags(l));
	nft_ensure_sets(&w, &l->programmed);
	nft_ensure_chains(&w, &l->programmed, params);
	for (uint16_t kind = 1; kind < NFT_KIND_AFFINITY_END; kind++) {
		if (bit_is_set(l->kinds.bits, kind))
			pick_rules_write(l, &w, kind);
	}
	plane_write_ranges(&w, &l->programmed, params);
	verdicts_write(l, &w, is_new);
	r = nft_writer_commit(&w, res, err);
	if (r == 0)
		transition_log(l, &w, is_claim);
	l->is_owner_rejected = l->is_owned && is_new && nft_writer_is_table_rejected(&w);
	l->is_fresh = false;
	l->programmed.exists = true;
	l->programmed.flags = desired_flags(l);
	return written(l, r);
}

static int is_loaded(const struct nft_layout *l, struct err *err)
{
	return l->state != NFT_LAYOUT_UNKNOWN
		       ? 0
		       : err_set(err, -EINVAL, "table %s is not loaded", l->table);
}

int nft_layout_apply(struct nft_layout *l, const struct plane_rules_params *params,
		     struct nft_result *res, struct err *err)
{
	struct plane_rules_params own = *params;
	bool is_new = !l->programmed.exists;
	struct nft_fixed_table t;
	int r = is_loaded(l, err);

	if (r < 0)
		return r;
	if (l->holder.text[0] != '\0')
		return err_set(err, -EPERM, "%s", l->holder.text);
	own.counting = l->counting;
	own.sets = &nft_plane_sets;
	plane_keep_detector(&own, l->fam, &l->programmed);
	r = apply(l, &own, res, err);
	if (r == 0 && is_new) {
		r = nft_fixed_table_read(&t, l->nl, l->fam, &nft_schema, l->table, err);
		r = r > 0 ? 0 : r < 0 ? r : err_set(err, -ENOENT, "table %s is gone", l->table);
		l->handle = t.handle;
	}
	/* Chains created in an existing table get their map elements in a second batch. */
	if (r == 0 && !is_new)
		r = verdicts_lead(l, res, err);
	if (r < 0) {
		forget(l);
		return r;
	}
	l->state = NFT_LAYOUT_PRESENT;
	return 0;
}

int nft_layout_chains_need(struct nft_layout *l, const uint16_t *kinds, size_t n,
			   struct nft_result *res, struct err *err)
{
	const struct nft_kinds before = l->kinds;
	FINI(nft_writer_fini) struct nft_writer w = { 0 };
	bool is_complete = true;
	int r = is_loaded(l, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		char buf[NFT_CHAIN_NAME_MAX];

		if (nft_kind_chain(kinds[i], buf) == NULL)
			return err_set(err, -EINVAL, "kind 0x%x leads to no chain", kinds[i]);
	}
	nft_writer_init(&w, l->nl, &nft_schema, l->fam, l->table);
	for (size_t i = 0; i < n; i++) {
		if (kinds[i] >= NFT_KIND_AFFINITY_END || nft_layout_has_kind(l, kinds[i]))
			continue;
		is_complete = false;
		bit_set(l->kinds.bits, kinds[i]);
		pick_rules_write(l, &w, kinds[i]);
	}
	r = written(l, nft_writer_commit(&w, res, err));
	if (r < 0)
		l->kinds = before;
	return r < 0 || is_complete ? r : verdicts_lead(l, res, err);
}

/* Delete `kinds` from the verdict maps. */
static void verdicts_remove(struct nft_layout *l, struct nft_writer *w, const uint16_t *kinds,
			    size_t n)
{
	for (unsigned int map = 0; map < NFT_VERDICT_MAPS; map++)
		for (size_t i = 0; i < n; i++) {
			struct nft_verdict *v = nft_fixed_verdict(&l->programmed, map, kinds[i]);

			if (v == NULL)
				continue;
			nft_write_verdict_del(w, NFTSET_LEAVES + map, kinds[i]);
			v->exists = false;
		}
}

int nft_layout_chains_remove(struct nft_layout *l, const uint16_t *kinds, size_t n, struct err *err)
{
	FINI(nft_writer_fini) struct nft_writer w = { 0 };
	int r = is_loaded(l, err);

	if (r < 0 || !l->programmed.exists)
		return r;
	nft_writer_init(&w, l->nl, &nft_schema, l->fam, l->table);
	verdicts_remove(l, &w, kinds, n);
	for (size_t i = 0; i < n; i++) {
		char buf[NFT_CHAIN_NAME_MAX];
		const char *chain = nft_kind_chain(kinds[i], buf);

		bit_clear(l->kinds.bits, kinds[i]);
		if (chain != NULL)
			nft_remove_chain(&w, &l->programmed, chain);
	}
	return written(l, nft_writer_commit(&w, NULL, err));
}

int nft_layout_retire(struct nft_layout *l, struct nft_result *res, struct err *err)
{
	while (l->old.n > 0) {
		int r = nft_table_delete(l->nl, &nft_schema, &l->old.v[l->old.n - 1], res, err);

		if (r < 0)
			return r;
		l->old.n--;
	}
	l->n_orphans = 0;
	return 0;
}

int nft_layout_cleanup(struct nft_layout *l, struct nft_result *res, struct err *err)
{
	int r;

	forget(l);
	r = nft_tables_delete(l->nl, &nft_schema, l->fam, res, err);
	if (r == 0)
		l->state = NFT_LAYOUT_ABSENT;
	return r;
}
