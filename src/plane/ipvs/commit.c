/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/commit - one commit: add to IPVS, change nf_tables, remove from IPVS.
 *
 *  The programmed state of an element is the acknowledged one (normal operation), from the loaded
 * state (loaded phase), or read (verify, audit), as in plane/nft/commit.c.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "nft/decode.h"
#include "plane/exchange.h"
#include "plane/ipvs/state.h"

void ipvs_committed(struct ipvs_plane *p, size_t n)
{
	while (n-- > 0)
		if (++p->genid == 0) /* the kernel skips it too */
			p->genid = 1;
}

/* --- reading --- */

static void tables_of(struct nft_table_ref ret[IPFAM_N])
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		ret[fam] = ipvs_table(fam);
}

/* Update the loaded state. */
static void seen(void *arg, const struct nft_change *ch)
{
	struct ipvs_plane *p = arg;

	if (p->loaded == NULL)
		return;
	if (ch->has_held)
		plane_loaded_found(p->loaded, ch->fam, ch->set, ch->key, ch->held);
	else
		plane_loaded_del(p->loaded, ch->fam, ch->set, ch->key);
}

int ipvs_changes_read(struct ipvs_plane *p, struct err *err)
{
	struct nft_table_ref tables[IPFAM_N];

	tables_of(tables);
	return plane_changes_read(&p->changes, p->query, tables, seen, p, err);
}

/* A frontend may have elements of an earlier target. */
static void frontends_touch(struct ipvs_plane *p, const struct plan_op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct plan_frontend *f = ops[i].frontend;
		enum ipfam fam;
		uint8_t key[NFT_KEY_MAX];

		if (ops[i].kind != PLAN_FRONTEND_ADD && ops[i].kind != PLAN_FRONTEND_CHANGE)
			continue;
		fam = ip_fam(&f->addr);
		nft_key_tuple(key, &f->addr, f->proto, f->port);
		for (enum nft_set_id set = IPVSSET_BEGIN; set < IPVSSET_REMEMBERED; set++)
			if (ipvs_set_is_by_tuple(set) && nft_set_exists(set, p->config.counting))
				(void)nft_changes_touch(&p->changes, fam, set, key, ops[i].svc);
	}
}

/* --- programmed and desired state of changes --- */

/* Set the count of an address, and whether it is programmed and desired. */
static void settle_counted(struct ipvs_plane *p, struct nft_change *ch)
{
	uint32_t base = nft_refs_count(ipvs_refs(p, ch->fam, ch->set), ch->key);

	assert(ch->delta >= 0 || base >= (uint32_t)-ch->delta);
	ch->count = base + (uint32_t)ch->delta;
	ch->has_held = base > 0;
	ch->has_new = ch->count > 0;
}

static void settle_loaded(const struct ipvs_plane *p, struct nft_change *ch)
{
	const uint8_t *data = plane_loaded_find(p->loaded, ch->fam, ch->set, ch->key);

	ch->has_held = data != NULL;
	if (data != NULL)
		memcpy(ch->held, data, nft_data_len(ch->set, ch->fam));
}

static int settle(struct ipvs_plane *p, enum plane_commit_mode mode, struct err *err)
{
	int r = 0;

	vec_for_each (ch, &p->changes.v) {
		if (mode == PLANE_COMMIT_AUDIT)
			ch->delta = 0; /* counted when it was accepted */
		if (ch->is_counted)
			settle_counted(p, ch);
		if (mode != PLANE_COMMIT_NORMAL)
			ch->needs_look = true;
		else if (p->loaded != NULL)
			settle_loaded(p, ch);
	}
	if (mode != PLANE_COMMIT_NORMAL)
		r = ipvs_changes_read(p, err);
	/* Services that are not committed yet may need an address: it stays until the sweep. */
	vec_for_each (ch, &p->changes.v)
		if (p->loaded != NULL && ch->is_counted)
			ch->has_new |= ch->has_held;
	return r;
}

/* Verify and audit: read the touched services. */
static int services_read(struct ipvs_plane *p, struct err *err)
{
	vec_for_each (each, &p->touched) {
		int r = ipvs_vs_read(p, *each, err);

		if (r < 0)
			return r;
		/* Else a loaded service may lack pieces (part_of in plan/rows.h). */
		(*each)->is_whole |= p->loaded == NULL;
	}
	return 0;
}

/* --- nf_tables --- */

int ipvs_transact(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	struct nft_table_ref tables[IPFAM_N];
	int r;

	tables_of(tables);
	r = plane_changes_send(&p->changes, &p->batch, p->cmd, tables, &p->plane, res, err);
	if (r > 0)
		ipvs_committed(p, 1);
	return MIN(r, 0);
}

/* --- results --- */

static void applied(struct ipvs_plane *p)
{
	vec_for_each (ch, &p->changes.v) {
		if (ch->is_counted && ch->delta != 0)
			nft_refs_set(ipvs_refs(p, ch->fam, ch->set), ch->key, ch->count);
		if (p->loaded == NULL)
			continue;
		if (!ch->has_new)
			plane_loaded_del(p->loaded, ch->fam, ch->set, ch->key);
		else if (ch->is_counted && ch->count == 0)
			plane_loaded_desire(p->loaded, ch->fam, ch->set, ch->key, false);
		else
			plane_loaded_put(p->loaded, ch->fam, ch->set, ch->key, ch->data);
	}
}

/* sweep() keeps elements of a rejected commit: the service's last acknowledged state stays. */
static void keep_rejected(struct ipvs_plane *p)
{
	vec_for_each (ch, &p->changes.v)
		plane_loaded_desire(p->loaded, ch->fam, ch->set, ch->key, true);
}

static int failed(struct ipvs_plane *p, const struct plan_op *ops, size_t n, int r,
		  enum plane_commit_mode mode, struct plane_result *res)
{
	/* A commit that has read the kernel state and gets -ESTALE is not repeated. */
	bool is_rejected = plane_is_rejection(r) || (r == -ESTALE && mode == PLANE_COMMIT_VERIFY);

	if (is_rejected) {
		plane_rejection_blame(res, ops, n);
		if (p->loaded != NULL)
			keep_rejected(p);
	}
	ipvs_ops_undo(p, is_rejected);
	return r;
}

/* Log unsupported settings at a change of the service, not at every sync. */
static void remarks_log(const struct ipvs_plane *p, const struct plan_op *ops, size_t n)
{
	const struct svc *last = NULL;

	for (size_t i = 0; i < n; i++) {
		struct ipvs_tuning tuning;
		struct str remark = { 0 };

		if ((ops[i].kind != PLAN_POOL_ADD && ops[i].kind != PLAN_POOL_CHANGE) ||
		    ops[i].svc == last)
			continue;
		last = ops[i].svc;
		ipvs_tuning_read(&tuning, p, last->service, &remark);
		if (remark.len > 0)
			log_warn(LOG_AREA_PLANE, "service %s/%s: %s", last->ns->text,
				 last->name->text, remark.text);
		str_fini(&remark);
	}
}

int ipvs_commit(struct plane *plane, const struct plan_op *ops, size_t n,
		enum plane_commit_mode mode, struct plane_result *res, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	int r;

	if (ipvs_layout_state(p->layout) != IPVS_LAYOUT_PRESENT)
		return err_set(err, -ENOTRECOVERABLE, "the layout of the table is not known");
	assert(mode != PLANE_COMMIT_AUDIT || p->loaded == NULL);
	nft_changes_reset(&p->changes);
	r = ipvs_translate(p, ops, n, &res->culprit, err);
	if (r == 0 && mode == PLANE_COMMIT_VERIFY)
		frontends_touch(p, ops, n);
	if (r == 0)
		r = settle(p, mode, err);
	if (r == 0 && mode != PLANE_COMMIT_NORMAL)
		r = services_read(p, err);
	if (r == 0)
		r = ipvs_ops_add(p, res, err);
	if (r == 0)
		r = ipvs_transact(p, res, err);
	if (r < 0)
		return failed(p, ops, n, r, mode, res);
	if (plane_fault_clear(&p->plane, PLANE_FAULT_SCHEDULER))
		log_notice(LOG_AREA_PLANE, "ipvs: recovered: the kernel has scheduler %s",
			   ipvs_sched_name(p->sched.no));
	if (mode != PLANE_COMMIT_AUDIT) {
		applied(p);
		remarks_log(p, ops, n);
	}
	r = ipvs_ops_remove(p, res, err);
	ipvs_ops_done(p);
	/* nf_tables is up to date: the next load finds what is left in IPVS. */
	return r < 0 ? -EBUSY : 0;
}
