/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/common.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nft/decode.h"
#include "nl/batch.h"

/* Elements of one transaction of the sweep. */
#define SWEEP_MAX ((size_t)2048)

/* --- opening and closing --- */

/* An address that a key begins with is repeated at the end of some keys. */
static size_t refs_key_len(enum nft_set_id set, enum ipfam fam)
{
	size_t len = nft_key_len(set, fam);

	return len > ip_len(fam) ? len - ip_len(fam) : len;
}

void plane_refs_restart(struct plane_common *c, enum ipfam fam)
{
	for (size_t i = 0; i < PLANE_COUNTED_N; i++)
		nft_refs_restart(&c->refs[fam][i]);
}

void plane_common_open(struct plane_common *c, const struct plane_ops *ops,
		       const struct plane_common_ops *common_ops, struct nl_sock *cmd,
		       struct nl_sock *query)
{
	c->plane.ops = ops;
	c->ops = common_ops;
	c->cmd = cmd;
	c->query = query;
	nl_sock_stats(cmd)->account = &c->plane.batches;
	nl_batch_open(&c->batch, cmd);
	nft_watch_init(&c->watch);
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < PLANE_COUNTED_N; i++)
			nft_refs_init(&c->refs[fam][i], refs_key_len(common_ops->counted[i], fam));
}

void plane_common_close(struct plane_common *c)
{
	plane_loaded_end(c);
	nl_batch_close(c->batch);
	nl_sock_close(c->cmd);
	nl_sock_close(c->query);
	nl_sock_close(c->watch_nl);
	nft_watch_fini(&c->watch);
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (size_t i = 0; i < PLANE_COUNTED_N; i++)
			nft_refs_clear(&c->refs[fam][i]);
	free(c->failover);
}

int plane_watch_with(struct plane *p, struct nl_sock *watch, struct err *err)
{
	struct plane_common *c = plane_common_of(p);

	c->watch_nl = watch;
	return nft_watch_join(&c->watch, watch, c->cmd, err);
}

static void genid_set(struct plane_common *c, uint32_t genid)
{
	c->genid = genid;
	c->n_commits = c->plane.batches.n_commits;
}

/* Is `genid` the generation after vipd's own transactions? Else another process changed the
 * ruleset. */
static bool is_genid_expected(const struct plane_common *c, uint32_t genid)
{
	uint32_t expected = c->genid + (uint32_t)(c->plane.batches.n_commits - c->n_commits);

	expected += expected < c->genid; /* the kernel skips 0 */
	return genid == expected;
}

void plane_loaded_begin(struct plane_common *c, struct plane_loaded *loaded, uint32_t genid)
{
	c->ops->loaded_close(c->loaded);
	c->loaded = loaded;
	genid_set(c, genid);
}

void plane_loaded_end(struct plane_common *c)
{
	c->ops->loaded_close(TAKE(c->loaded));
	nft_changes_fini(&c->changes);
}

/* --- reading and sending --- */

int plane_batch_commit(struct plane_common *c, struct err *err)
{
	int r = nl_batch_commit(c->batch, err);

	nl_batch_reset(c->batch);
	return r;
}

static bool is_copied(const struct plane_common *c, const struct nft_change *ch)
{
	return c->loaded != NULL && !c->loaded->is_fresh[ch->fam] &&
	       plane_loaded_covers(c->loaded, ch->set);
}

/* The programmed state of a change was read: update the copy. */
static void seen(struct plane_common *c, const struct nft_change *ch)
{
	if (!is_copied(c, ch))
		return;
	if (ch->has_programmed)
		plane_loaded_put(c->loaded, ch->fam, ch->set, ch->key, ch->programmed, false);
	else
		plane_loaded_del(c->loaded, ch->fam, ch->set, ch->key);
}

static int read_set(struct plane_common *c, enum ipfam fam, enum nft_set_id set, struct err *err)
{
	AUTO(vec_fini) VEC(struct nft_lookup) keys = { 0 };
	const struct nft_lookup *k;
	struct nft_table_ref table;
	int r;

	nft_changes_for_each (ch, &c->changes, fam, set)
		if (ch->needs_read)
			memcpy(vec_push(&keys)->key, ch->key, sizeof(ch->key));
	if (keys.n == 0)
		return 0;
	table = c->ops->table(c, fam);
	r = nft_elems_get(c->query, &table, set, keys.v, keys.n, err);
	k = keys.v;
	nft_changes_for_each (ch, &c->changes, fam, set) {
		if (r < 0 || !ch->needs_read)
			continue;
		ch->needs_read = false;
		ch->has_programmed = k->is_found;
		if (k->is_found)
			memcpy(ch->programmed, k->data, sizeof(k->data));
		seen(c, ch);
		k++;
	}
	return r;
}

int plane_changes_read(struct plane_common *c, struct err *err)
{
	for (int fam = 0; fam < IPFAM_N; fam++)
		for (int set = 0; set < NFTSET_END; set++) {
			int r = read_set(c, fam, set, err);

			if (r < 0)
				return r;
		}
	return 0;
}

int plane_transact_verified(struct plane_common *c, struct plane_result *res, struct err *err)
{
	int r = plane_transact(c, res, err);

	if (r != -ESTALE)
		return r;
	vec_for_each (ch, &c->changes.v)
		ch->needs_read = true;
	r = plane_changes_read(c, err);
	return r < 0 ? r : plane_transact(c, res, err);
}

/* --- a commit --- */

/* Set the count of an address, and whether it is programmed and desired. */
static void settle_counted(struct plane_common *c, struct nft_change *ch)
{
	const struct nft_refs *refs = plane_refs(c, ch->fam, ch->set);
	uint32_t base = nft_refs_count(refs, ch->key);

	assert(ch->delta >= 0 || base >= (uint32_t)-ch->delta);
	ch->count = base + (uint32_t)ch->delta;
	ch->has_programmed = base > 0 || nft_refs_in_grace(refs, ch->key);
	ch->has_new = ch->count > 0;
}

void plane_settle_copied(const struct plane_common *c, struct nft_change *ch)
{
	const uint8_t *data = plane_loaded_find(c->loaded, ch->fam, ch->set, ch->key);

	if (c->loaded->is_fresh[ch->fam])
		return;
	ch->has_programmed = data != NULL;
	if (data != NULL)
		memcpy(ch->programmed, data, nft_data_len(ch->set, ch->fam));
}

int plane_settle(struct plane_common *c, enum plane_commit_mode mode, struct err *err)
{
	int r;

	vec_for_each (ch, &c->changes.v) {
		if (mode == PLANE_COMMIT_AUDIT)
			ch->delta = 0; /* counted when it was accepted */
		if (ch->is_counted)
			settle_counted(c, ch);
		ch->needs_read = mode != PLANE_COMMIT_NORMAL;
	}
	if (mode == PLANE_COMMIT_NORMAL && c->loaded != NULL && c->ops->settle_loaded != NULL)
		c->ops->settle_loaded(c);
	else if (mode == PLANE_COMMIT_NORMAL && c->loaded != NULL)
		vec_for_each (ch, &c->changes.v)
			plane_settle_copied(c, ch);
	r = mode != PLANE_COMMIT_NORMAL || c->loaded != NULL ? plane_changes_read(c, err) : 0;
	/* Services that are not committed yet may need an address: it stays until the sweep. */
	vec_for_each (ch, &c->changes.v)
		if (ch->is_counted && (is_copied(c, ch) || ch->set == c->ops->retained_set))
			ch->has_new |= ch->has_programmed;
	return r;
}

static void applied_counted(struct plane_common *c, const struct nft_change *ch)
{
	struct nft_refs *refs = plane_refs(c, ch->fam, ch->set);

	if (ch->delta == 0)
		return;
	if (ch->count == 0 && ch->set == c->ops->retained_set)
		nft_refs_grace(refs, ch->key);
	else
		nft_refs_set(refs, ch->key, ch->count);
}

void plane_applied(struct plane_common *c)
{
	vec_for_each (ch, &c->changes.v) {
		if (ch->is_counted)
			applied_counted(c, ch);
		if (!is_copied(c, ch))
			continue;
		if (!ch->has_new)
			plane_loaded_del(c->loaded, ch->fam, ch->set, ch->key);
		else if (ch->is_counted && ch->count == 0)
			plane_loaded_desire(c->loaded, ch->fam, ch->set, ch->key, false);
		else
			plane_loaded_put(c->loaded, ch->fam, ch->set, ch->key, ch->data, true);
	}
}

/* A rejection without a culprit is due to the service of the commit, if there is only one. */
static void blame(struct plane_result *res, const struct plan_op *ops, size_t n)
{
	if (res->culprit != NULL || n == 0)
		return;
	for (size_t i = 1; i < n; i++)
		if (ops[i].svc != ops[0].svc)
			return;
	res->culprit = ops[0].svc;
}

bool plane_rejection_note(struct plane_common *c, int r, enum plane_commit_mode mode,
			  const struct plan_op *ops, size_t n, struct plane_result *res)
{
	/* A commit that has read the kernel state and gets -ESTALE is not repeated. */
	if (!plane_is_rejection(r) && !(r == -ESTALE && mode == PLANE_COMMIT_VERIFY))
		return false;
	blame(res, ops, n);
	vec_for_each (ch, &c->changes.v) {
		if (!is_copied(c, ch))
			continue;
		plane_loaded_desire(c->loaded, ch->fam, ch->set, ch->key, true);
		if (ch->is_counted && plane_loaded_find(c->loaded, ch->fam, ch->set, ch->key))
			nft_refs_keep(plane_refs(c, ch->fam, ch->set), ch->key);
	}
	return true;
}

/* --- sweep --- */

static void gone_report(const struct plane_common *c, enum ipfam fam, const uint8_t *key)
{
	struct ip_tuple t;

	nft_get_tuple(&t, fam, key);
	if (c->plane.gone != NULL)
		c->plane.gone(c->plane.gone_arg, &t.addr, t.port, t.proto);
}

/* Delete the changes; if the kernel has other elements, only what exists. */
static int sweep_batch(struct plane_common *c, struct plane_result *res, struct err *err)
{
	int r;

	if (c->ops->sweep_prepare != NULL)
		c->ops->sweep_prepare(c);
	r = plane_transact_verified(c, res, err);
	vec_for_each (ch, &c->changes.v)
		if (r == 0)
			plane_loaded_del(c->loaded, ch->fam, ch->set, ch->key);
	nft_changes_reset(&c->changes);
	return r;
}

/* Add undesired elements of a set to the changes; `left`: elements that may go in this step. */
static void sweep_set(struct plane_common *c, enum ipfam fam, size_t i, size_t *left)
{
	enum nft_set_id set = c->ops->sweep[i];
	size_t len = nft_key_len(set, fam);
	size_t n;
	AUTO(free) uint8_t *keys = plane_loaded_undesired(c->loaded, fam, set, *left, &n);

	for (size_t k = 0; *left > 0 && k < n; k++) {
		const uint8_t *key = keys + k * len;
		size_t more = c->ops->sweep_more ? c->ops->sweep_more(c, fam, set, key) : 0;

		*left -= MIN(*left, 1 + more);
		nft_changes_was(&c->changes, fam, set, key,
				plane_loaded_find(c->loaded, fam, set, key), NULL);
		if (i < c->ops->n_frontends)
			gone_report(c, fam, key);
	}
}

int plane_sweep_elements(struct plane_common *c, struct plane_result *res, struct err *err)
{
	size_t left = SWEEP_MAX;
	bool is_done;
	int r;

	nft_changes_reset(&c->changes);
	for (size_t i = 0; i < c->ops->n_sweep && left > 0; i++) {
		for (int fam = 0; fam < IPFAM_N; fam++)
			if (!c->plane.family[fam].is_failed)
				sweep_set(c, fam, i, &left);
		if (i + 1 == c->ops->n_leading && c->changes.v.n > 0)
			break;
	}
	is_done = c->changes.v.n == 0;
	r = sweep_batch(c, res, err);
	return r < 0 ? r : !is_done;
}

void plane_sweep_end(struct plane_common *c)
{
	if (c->loaded->plan != NULL)
		plan_ids_release(c->loaded->plan);
	plane_loaded_end(c);
}

size_t plane_orphaned(const struct plane *p)
{
	const struct plane_common *c = (const struct plane_common *)p;
	size_t n = 0;

	for (size_t i = 0; c->loaded != NULL && i < c->ops->n_frontends; i++)
		for (int fam = 0; fam < IPFAM_N; fam++)
			if (!p->family[fam].is_failed)
				n += plane_loaded_undesired_count(c->loaded, fam, c->ops->sweep[i]);
	return n;
}

bool plane_is_orphaned(const struct plane *p, const struct plan_frontend *f)
{
	const struct plane_common *c = (const struct plane_common *)p;
	enum ipfam fam = ip_fam(&f->addr);
	bool is_orphaned = false;
	uint8_t key[NFT_KEY_MAX];

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	for (size_t i = 0; c->loaded != NULL && i < c->ops->n_frontends; i++)
		is_orphaned |= plane_loaded_is_undesired(c->loaded, fam, c->ops->sweep[i], key);
	return is_orphaned && !p->family[fam].is_failed;
}

/* --- check --- */

int plane_check(struct plane *p, struct err *err)
{
	struct plane_common *c = plane_common_of(p);
	uint32_t genid;
	int r;

	nft_watch_begin(&c->watch);
	r = nft_genid_read(c->query, &genid, err);
	if (r < 0)
		return r;
	/* The kernel raises the generation before it sends notifications, which arrive late. */
	if (is_genid_expected(c, genid) && c->watch.touched.n == 0) {
		c->watch.is_awaited = false;
		return PLANE_CHECK_QUIET;
	}
	nft_watch_read(&c->watch);
	if (nft_watch_await(&c->watch))
		return PLANE_CHECK_QUIET;
	nft_watch_text(&c->watch, p->changed_by);
	r = c->ops->layouts_check(c, err);
	if (r < 0)
		return r;
	genid_set(c, genid);
	if (r == PLANE_CHECK_CHANGED && c->watch.is_flood)
		return err_set(err, PLANE_CHECK_LOST,
			       "many elements of vipd's tables were changed");
	return r;
}

bool plane_touched(const struct plane *p, const struct plan_rows *rows)
{
	const struct nft_watch *w = &((const struct plane_common *)p)->watch;

	/* Without a notification of each commit an element may have changed unseen. */
	if (rows == NULL)
		return w->touched.n > 0 || w->is_lost || w->pid == 0;
	if (w->touched.n == 0)
		return false;
	vec_for_each (f, &rows->frontends)
		if (nft_watch_touches_addr(w, ip_fam(&f->addr), f->addr.bytes))
			return true;
	vec_for_each (pool, &rows->pools) {
		if (nft_watch_touches_pool(w, pool->fam, pool->id))
			return true;
		vec_for_each (b, &pool->backends)
			if (nft_watch_touches_addr(w, pool->fam, b->addr.bytes))
				return true;
	}
	return false;
}
