/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/translate.h"

#include <errno.h>

#include "nft/decode.h"

void plane_element(struct plane_tr *t, enum plane_side side, enum ipfam fam, enum nft_set_id set,
		   const uint8_t *key, const uint8_t *data)
{
	if (side == PLANE_WAS)
		nft_changes_was(&t->c->changes, fam, set, key, data, t->svc);
	else
		nft_changes_will(&t->c->changes, fam, set, key, data, t->svc);
}

void plane_element_word(struct plane_tr *t, enum plane_side side, enum ipfam fam,
			enum nft_set_id set, const uint8_t *key, uint32_t word)
{
	uint8_t data[NFT_DATA_MAX];

	nft_put_word(data, word);
	plane_element(t, side, fam, set, key, data);
}

void plane_element_count(struct plane_tr *t, enum plane_side side, enum ipfam fam,
			 enum nft_set_id set, const uint8_t *key)
{
	nft_changes_count(&t->c->changes, fam, set, key, side == PLANE_WILL ? 1 : -1, t->svc);
}

static void frontend_touch_loaded(struct plane_tr *t, enum ipfam fam, const uint8_t *key)
{
	const struct plane_sets *sets = t->c->ops->sets;

	for (enum nft_set_id set = sets->begin; set < sets->end; set++)
		if (nft_set_is_by_tuple(set) &&
		    plane_loaded_find(t->c->loaded, fam, set, key) != NULL)
			(void)nft_changes_touch(&t->c->changes, fam, set, key, t->svc);
}

void plane_frontend_reread(struct plane_common *c, const struct plan_frontend *f, struct svc *svc)
{
	uint8_t key[NFT_KEY_MAX];

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	for (enum nft_set_id set = c->ops->sets->begin; set < c->ops->sets->end; set++)
		if (nft_set_is_by_tuple(set) && nft_set_exists(set, c->counting))
			nft_changes_touch(&c->changes, ip_fam(&f->addr), set, key, svc)
				->needs_read = true;
}

void plane_frontend(struct plane_tr *t, enum plane_side side, const struct plan_frontend *f,
		    uint8_t key[static NFT_KEY_MAX])
{
	const struct plane_sets *sets = t->c->ops->sets;
	enum ipfam fam = ip_fam(&f->addr);

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	if (side == PLANE_WILL && t->c->loaded != NULL)
		frontend_touch_loaded(t, fam, key);
	if (f->masq == PLAN_MASQ_ALWAYS)
		plane_element(t, side, fam, sets->masq, key, NULL);
	else if (f->masq == PLAN_MASQ_HOST)
		plane_element(t, side, fam, sets->masq_hosts, key, NULL);
	if (t->c->counting >= PLANE_COUNT_SERVICES) {
		plane_element(t, side, fam, sets->counted, key, NULL);
		plane_element(t, side, fam, sets->rejected, key, NULL);
	}
	plane_element_count(t, side, fam, sets->vips, f->addr.bytes);
	if (f->kind == PLAN_FRONTEND_CLUSTERIP)
		plane_element_count(t, side, fam, sets->cluster_ips, f->addr.bytes);
}

void plane_locality(struct plane_tr *t, enum plane_side side, const struct plan_op *op,
		    bool is_local)
{
	if (is_local)
		plane_element_count(t, side, op->pool->fam, t->c->ops->sets->local_backends,
				    op->backend->addr.bytes);
}

static int conflict_check(const struct plane_common *c, struct svc **culprit, struct err *err)
{
	FINI(str_fini) struct str text = { 0 };
	const struct nft_change *ch;

	if (c->changes.conflict == 0)
		return 0;
	ch = &c->changes.v.v[c->changes.conflict - 1];
	nft_elem_text(&text, ch->fam, ch->set, ch->key, NULL);
	*culprit = ch->svc;
	return err_set(err, -EINVAL, "two operations disagree on %s of %s", str_text(&text),
		       nft_set_desc(ch->set, ch->fam)->name);
}

int plane_translate(struct plane_common *c,
		    void (*fn)(struct plane_tr *t, const struct plan_op *op), void *arg,
		    const struct plan_op *ops, size_t n, struct svc **culprit, struct err *err)
{
	struct plane_tr t = { .c = c, .arg = arg };

	for (size_t i = 0; i < n; i++) {
		t.svc = ops[i].svc;
		if (ops[i].kind == PLAN_POOL_ADD && ops[i].pool->id == 0) {
			*culprit = ops[i].svc;
			return err_set(err, -ENOSPC, "all %d pool ids are in use",
				       PLAN_POOL_ID_MAX);
		}
		fn(&t, &ops[i]);
	}
	return conflict_check(c, culprit, err);
}
