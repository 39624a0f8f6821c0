/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/layout.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#include "base/log.h"
#include "nft/write.h"
#include "plane/ipvs/state.h"

void ipvs_layout_fini(struct ipvs_layout *l)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_fixed_fini(&l->fixed[fam]);
	l->state = IPVS_LAYOUT_UNKNOWN;
	l->handle = 0;
	l->is_fresh = false;
}

/* Chain `ping` is empty only while the plane retires (rules.c). */
bool ipvs_layout_is_retiring(const struct ipvs_layout *l)
{
	const struct nft_fixed_chain *c =
		l->state == IPVS_LAYOUT_PRESENT ? nft_fixed_chain(&l->fixed[0], "ping") : NULL;

	return c != NULL && c->hashes.n == 0;
}

/* --- reading --- */

static int table_read(struct ipvs_layout *l, const struct nft_fixed_table *t, struct err *err)
{
	l->handle = t->handle;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct nft_fixed *h = &l->fixed[fam];
		int r = nft_fixed_read(h, l->nl, fam, t, &ipvs_schema, NFT_COUNT_BACKENDS, err);

		if (r < 0)
			return r;
		if (l->is_readonly && t->version != ipvs_schema.version)
			return err_set(err, -EPROTO,
				       "table inet %s: %s; use the vipctl of the vipd that made it",
				       t->name, h->misfit);
		if (h->misfit[0] == '\0' || l->is_readonly)
			continue;
		log_notice(LOG_AREA_PLANE, "table inet %s: will be replaced: %s", t->name,
			   h->misfit);
		l->state = IPVS_LAYOUT_ABSENT;
	}
	return 0;
}

int ipvs_layout_load(struct ipvs_layout *l, struct err *err)
{
	struct nft_fixed_table t;
	struct ipvs_layout next = { .nl = l->nl,
				    .is_fresh = true,
				    .is_readonly = l->is_readonly,
				    .is_content_rejected = l->is_content_rejected };
	int r = nft_fixed_table_find(&t, l->nl, IPFAM_V4, &ipvs_schema, err);

	next.state = r > 0 ? IPVS_LAYOUT_PRESENT : IPVS_LAYOUT_ABSENT;
	if (r > 0)
		r = table_read(&next, &t, err);
	ipvs_layout_fini(r < 0 ? &next : l);
	if (r == 0)
		*l = next;
	return r;
}

/* --- writing --- */

/* After the rules that use the sets. */
static void sets_remove(struct ipvs_layout *l, struct nft_writer *w, enum ipfam fam)
{
	w->fam = fam;
	for (enum nft_set_id id = ipvs_schema.begin; id < ipvs_schema.end; id++) {
		if (!l->fixed[fam].has_set[id] || nft_set_exists(id, w->counting))
			continue;
		nft_write_set_del(w, id);
		l->fixed[fam].has_set[id] = false;
	}
}

/*
 * No connection notices the replacement: the new table gets all elements of the old one, unless
 * `elements` is NULL, and the previous values.
 */
static void content_add(struct nft_writer *w, const struct plane_loaded *elements,
			const uint32_t *previous)
{
	struct nft_elem_writer elems = { .batch = w->batch,
					 .tables = { ipvs_table(IPFAM_V4), ipvs_table(IPFAM_V6) } };

	for (int fam = 0; elements != NULL && fam < IPFAM_N; fam++)
		for (enum nft_set_id set = IPVSSET_BEGIN; set < IPVSSET_REMEMBERED; set++) {
			bool has_data = nft_data_len(set, fam) > 0;

			nft_keymap_for_each (e, &elements->sets[fam][set])
				nft_elem_put(&elems, NFT_WRITE_ADD, fam, set, e.key,
					     has_data ? e.val : NULL, "an element of the old one");
		}
	for (uint32_t no = 0; no < IPVS_PREVIOUS_N; no++) {
		uint8_t key[NFT_KEY_MAX] = { 0 };
		uint8_t data[NFT_DATA_MAX] = { 0 };

		if (previous[no] == 0)
			continue;
		nft_put_word(key, no);
		nft_put_word(data, previous[no]);
		nft_elem_put(&elems, NFT_WRITE_ADD, IPFAM_V4, IPVSSET_REMEMBERED, key, data,
			     "a previous value");
	}
	w->n_writes += elems.n;
}

static void transition_log(const struct ipvs_layout *l, const struct nft_writer *w, bool is_new)
{
	if (!l->is_fresh || w->n_writes == 0)
		return;
	if (is_new)
		log_info(LOG_AREA_PLANE,
			 "table inet " IPVS_TABLE ": created; kernel operations %zu", w->n_writes);
	else
		log_notice(LOG_AREA_PLANE,
			   "table inet " IPVS_TABLE
			   ": differs; repaired: kernel operations %zu, first: %s",
			   w->n_writes, w->tags.v[0]);
}

int ipvs_layout_apply(struct ipvs_layout *l, const struct ipvs_rules_params *params,
		      const struct plane_loaded *elements, const uint32_t *previous,
		      struct nft_result *res, struct err *err)
{
	struct ipvs_rules_params own = *params;
	bool is_new = l->state != IPVS_LAYOUT_PRESENT;
	bool has_elements = is_new && l->handle != 0 && elements != NULL && !l->is_content_rejected;
	struct nft_fixed_table t;
	FINI(nft_writer_fini) struct nft_writer w = { 0 };
	int r;

	if (l->state == IPVS_LAYOUT_UNKNOWN)
		return err_set(err, -EINVAL, "table inet " IPVS_TABLE " is not loaded");
	nft_writer_init(&w, l->nl, &ipvs_schema, IPFAM_V4, IPVS_TABLE);
	own.common.sets = &ipvs_plane_sets;
	w.counting = own.common.counting;
	if (is_new && l->handle != 0)
		nft_write_table_del(&w, l->handle);
	if (is_new) {
		for (int fam = 0; fam < IPFAM_N; fam++)
			nft_fixed_fini(&l->fixed[fam]);
		nft_write_table(&w, 0);
	} else if (l->fixed[0].flags & NFT_TABLE_F_DORMANT) {
		nft_write_table_flags(&w, 0);
	}
	for (int fam = 0; fam < IPFAM_N; fam++) {
		w.fam = fam;
		plane_keep_detector(&own.common, fam, &l->fixed[fam]);
		nft_ensure_sets(&w, &l->fixed[fam]);
		plane_write_ranges(&w, &l->fixed[fam], &own.common);
	}
	if (is_new && l->handle != 0)
		content_add(&w, has_elements ? elements : NULL, previous);
	nft_ensure_chains(&w, &l->fixed[0], &own);
	for (int fam = 0; fam < IPFAM_N; fam++)
		sets_remove(l, &w, fam);
	r = nft_writer_commit(&w, res, err);
	if (r == 0)
		transition_log(l, &w, is_new);
	l->is_fresh = false;
	l->is_content_rejected = has_elements && r < 0;
	if (r == 0 && is_new) {
		r = nft_fixed_table_find(&t, l->nl, IPFAM_V4, &ipvs_schema, err);
		r = r > 0 ? 0 : r < 0 ? r : err_set(err, -ENOENT, "table %s is gone", IPVS_TABLE);
		l->handle = t.handle;
	}
	if (r < 0) {
		ipvs_layout_fini(l);
		return r;
	}
	for (int fam = 0; fam < IPFAM_N; fam++) {
		l->fixed[fam].exists = true;
		l->fixed[fam].flags = 0;
	}
	l->state = IPVS_LAYOUT_PRESENT;
	return 0;
}
