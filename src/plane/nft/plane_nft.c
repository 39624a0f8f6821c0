/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft - life cycle: load, environment, sweep, check, counters, cleanup.
 *
 * After load() all counts are zero: every service is compared and counted again. An address that
 * lost its last backend meanwhile gets its grace period by the walk after the sweep.
 */
#include "plane/nft/plane_nft.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "model/select.h"
#include "nft/decode.h"
#include "plane/failover.h"
#include "plane/nft/state.h"

/*
 * Pools of about this size and more change in pieces (sync/large.c) and pass through all smaller
 * classes, which differ by an eighth.
 */
#define GROWS_MIN 1000

static const struct plane_common_ops common_ops;

/* --- opening and closing --- */

void nft_plane_open(struct plane **ret, struct nl_sock *cmd, struct nl_sock *query)
{
	struct nft_plane *p = xcalloc(1, sizeof(*p));

	plane_common_open(&p->common, &nft_plane_ops, &common_ops, cmd, query);
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_layout_open(&p->layout[fam], cmd, fam);
	nft_shorten_init(p);
	*ret = &p->common.plane;
}

void nft_plane_walk_with(struct plane *plane, struct nl_sock *walk)
{
	nft_plane_of(plane)->walk_nl = walk;
}

void nft_plane_own_tables(struct plane *plane)
{
	struct nft_plane *p = nft_plane_of(plane);

	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_layout_own(p->layout[fam], true);
}

void nft_plane_guard(struct plane *plane, bool is_wanted)
{
	struct nft_plane *p = nft_plane_of(plane);

	assert(p->guard == NULL);
	nft_guard_open(&p->guard, p->common.cmd, is_wanted);
}

void nft_plane_count(struct plane *plane, enum plane_counting counting)
{
	struct nft_plane *p = nft_plane_of(plane);

	p->common.counting = counting;
	for (int fam = 0; fam < IPFAM_N; fam++)
		p->layout[fam]->counting = counting;
}

static void load_forget(struct nft_plane *p)
{
	nft_reading_close(TAKE(p->load.reading));
	nft_loaded_close(TAKE(p->load.loaded));
}

static void plane_close(struct plane *plane)
{
	struct nft_plane *p;

	if (plane == NULL)
		return;
	p = nft_plane_of(plane);
	load_forget(p);
	vec_fini(&p->led);
	nft_shorten_fini(p);
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_layout_close(p->layout[fam]);
	nft_guard_close(p->guard);
	nl_sock_close(p->walk_nl);
	plane_common_close(&p->common);
	free(p);
}

/* --- load --- */

/* Loads in a row interrupted by foreign changes before the family counts as failed. */
#define LOAD_AGAIN_MAX 3

static int load_begin(struct nft_plane *p, struct err *err)
{
	load_forget(p);
	nft_watch_load_begin(&p->common.watch);
	nft_loaded_open(&p->load.loaded);
	p->load.fam = IPFAM_V4;
	return nft_genid_read(p->common.query, &p->load.genid, err);
}

/* Returns 0 also when the family failed and is left out. */
static int load_family_failed(struct nft_plane *p, int r, struct err *err)
{
	enum ipfam fam = p->load.fam;

	nft_loaded_forget(p->load.loaded, fam);
	if (r == -ENOTRECOVERABLE || r == -ENOENT) /* deleted while it was read */
		r = -EAGAIN;
	if (r == -EAGAIN && ++p->common.plane.family[fam].n_again < LOAD_AGAIN_MAX)
		return r;
	return plane_family_fail(&p->common.plane, fam, r, err);
}

/* Read the layout of a family, or its next elements. 0: the family is complete. */
static int load_family(struct nft_plane *p, struct err *err)
{
	enum ipfam fam = p->load.fam;
	int r = 0;

	if (p->load.reading == NULL && p->common.plane.family[fam].is_failed)
		return 0;
	if (p->load.reading != NULL) {
		r = nft_reading_step(p->load.reading, err);
	} else {
		r = nft_layout_load(p->layout[fam], err);
		nft_reading_open(&p->load.reading, p->load.loaded, p->common.query, p->layout[fam]);
		r = r < 0 ? r : 1;
	}
	if (r > 0)
		return r;
	nft_reading_close(TAKE(p->load.reading));
	if (r < 0)
		return load_family_failed(p, r, err);
	p->common.plane.family[fam].n_again = 0;
	return 0;
}

/* Read layouts and elements of both families. 1: more left. */
static int load_step(struct nft_plane *p, struct err *err)
{
	int r = 0;

	nft_watch_read(&p->common.watch);
	if (p->load.loaded == NULL)
		r = load_begin(p, err);
	if (r == 0)
		r = load_family(p, err);
	if (r == 0 && ++p->load.fam < IPFAM_N)
		return 1;
	if (r != 0)
		return r;
	r = nft_watch_load_end(&p->common.watch, err);
	if (r <= 0)
		return r;
	r = load_begin(p, err);
	return r < 0 ? r : 1;
}

static int plane_load(struct plane *plane, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	int r = load_step(p, err);

	if (r != 0) {
		if (r < 0)
			load_forget(p);
		return r;
	}
	for (int fam = 0; fam < IPFAM_N; fam++) {
		plane_refs_restart(&p->common, fam);
		if (p->load.loaded->elems.is_fresh[fam]) /* else grace periods continue */
			nft_refs_clear(nft_endpoint_addrs(p, fam));
		nft_kinds_restart(p, fam);
	}
	plane_loaded_begin(&p->common, &TAKE(p->load.loaded)->elems, p->load.genid);
	return 0;
}

/* An element of the loaded phase may replace another one. */
static size_t backend_work(const struct plane *plane, const struct svc *svc,
			   const struct plan_pool *pool, const struct plan_frontend *leading,
			   size_t n_leading)
{
	const struct plane_loaded *loaded = ((const struct nft_plane *)plane)->common.loaded;

	return pool != NULL && loaded != NULL && !loaded->is_fresh[pool->fam] ? 2 : 1;
}

/* --- environment --- */

/*
 * A new rule that looks up `endpoints` makes the kernel walk that map once. So the chains that
 * services will probably need are created while it is empty; a wrong guess costs an unused chain. A
 * large pool grows through all smaller classes.
 */
static void kinds_foresee(struct nft_kinds need[static IPFAM_N], const struct model *m)
{
	list_for_each_entry (svc, &m->all, struct svc, all) {
		size_t n[IPFAM_N] = { 0 };

		if (!service_is_proxied(svc->service))
			continue;
		list_for_each_entry (e, &svc->slices, struct slice_entry, link)
			n[e->slice->fam] += e->slice->endpoints.n;
		for (int fam = 0; fam < IPFAM_N; fam++) {
			if (n[fam] == 0)
				continue;
			bit_set(need[fam].bits, nft_pool_class(n[fam], svc->service->affinity_s));
			for (; n[fam] > GROWS_MIN; n[fam] -= n[fam] / 9)
				bit_set(need[fam].bits, nft_pool_class(n[fam], 0));
		}
	}
}

/* Serve without table ownership: log once; neither family tries again. */
static void owner_give_up(struct nft_plane *p)
{
	log_warn(LOG_AREA_PLANE,
		 "--nft-table-owner: no effect: this kernel deletes a table when its owner exits "
		 "(Linux 6.9 can keep it); a flush of the ruleset deletes the tables");
	for (int fam = 0; fam < IPFAM_N; fam++)
		nft_layout_own(p->layout[fam], false);
}

static int env_family(struct nft_plane *p, enum ipfam fam, const struct model *m,
		      const struct nft_kinds *foreseen, struct plane_result *res, struct err *err)
{
	struct plane_rules_params params = plane_rules_params_from(m);
	int r = nft_layout_apply(p->layout[fam], &params, &res->done, err);

	if (r < 0) {
		if (p->layout[fam]->is_owner_rejected) {
			owner_give_up(p);
			return -EAGAIN;
		}
		return r == -ENOBUFS ? -EBUSY : r;
	}
	if (p->common.loaded != NULL && p->common.loaded->is_fresh[fam])
		r = nft_kinds_make(p, fam, foreseen, res, err);
	return r == -EINPROGRESS ? 0 : r; /* commits make the others */
}

/* --- the guard (guard.h) --- */

void nft_plane_guard_follow(struct nft_plane *p)
{
	if (p->guard == NULL || plane_is_adopting(&p->common) ||
	    p->common.plane.batches.n_commits == 0)
		return;
	nft_guard_follow(p->guard);
	nft_plane_guard_written(p);
}

static int plane_env(struct plane *plane, const struct model *m, struct plane_result *res,
		     struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	const struct plane_loaded *loaded = p->common.loaded;
	struct nft_kinds foreseen[IPFAM_N] = { 0 };
	struct err own[IPFAM_N] = { 0 };

	if (loaded != NULL && (loaded->is_fresh[IPFAM_V4] || loaded->is_fresh[IPFAM_V6]))
		kinds_foresee(foreseen, m);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		int r = p->common.plane.family[fam].is_failed
				? 0
				: env_family(p, fam, m, &foreseen[fam], res, &own[fam]);

		if (r < 0 && r != -EAGAIN) /* -EAGAIN: retry with other table flags */
			r = plane_family_fail(&p->common.plane, fam, r, &own[fam]);
		if (r < 0) {
			*err = own[0].text[0] != '\0' ? own[0] : own[fam];
			return r;
		}
		if (p->common.plane.family[fam].is_failed && p->common.loaded != NULL)
			nft_loaded_forget(nft_plane_loaded(p), fam);
	}
	if (p->guard != NULL) {
		nft_guard_desire(p->guard, m->env.service_cidrs.v, m->env.service_cidrs.n);
		nft_plane_guard_written(p);
	}
	return 0;
}

/* --- sweep --- */

/* Also delete pools that only swept elements name. */
static void sweep_prepare(struct plane_common *c)
{
	nft_loaded_touch_unled(nft_loaded_of(c->loaded), &c->changes);
}

/* Number of elements of the pool that the element names. */
static size_t sweep_more(const struct plane_common *c, enum ipfam fam, enum nft_set_id set,
			 const uint8_t *key)
{
	const struct nft_loaded *h = nft_loaded_of(c->loaded);
	struct nft_loaded_pool pool = { 0 };

	if (nft_set_is_leading(set))
		(void)nft_loaded_pool_get(h, fam, nft_word_pool(nft_loaded_word(h, fam, set, key)),
					  &pool);
	return (size_t)pool.n_slots * (pool.has_affinity ? 3 : 1);
}

static int sweep_retire(struct nft_plane *p, struct plane_result *res, struct err *err)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		int r = p->common.plane.family[fam].is_failed
				? 0
				: nft_layout_retire(p->layout[fam], &res->done, err);

		if (r < 0) {
			res->families = (uint8_t)(1u << fam);
			return r;
		}
	}
	return 0;
}

static int plane_sweep(struct plane *plane, struct plane_result *res, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	int r;

	if (p->common.loaded == NULL)
		return 0;
	r = plane_sweep_elements(&p->common, res, err);
	if (r == 0)
		r = sweep_retire(p, res, err);
	if (r != 0)
		return r;
	nft_kinds_keep(p);
	nft_shorten_loaded(p);
	plane_sweep_end(&p->common);
	nft_kinds_find(p, false);
	(void)nft_tick_kinds_remove(p); /* tick() continues */
	p->kinds_at = 0;
	p->is_walk_wanted = true;
	nft_plane_guard_follow(p);
	return 0;
}

static bool is_to_pool(uint32_t word)
{
	return word != 0 && nft_word_kind(word) != NFT_KIND_REJECT &&
	       nft_word_kind(word) != NFT_KIND_DROP;
}

static bool plane_leads(const struct plane *plane, const struct plan_frontend *f)
{
	const struct nft_plane *p = (const struct nft_plane *)plane;
	uint8_t key[NFT_KEY_MAX];
	struct nft_led led;

	nft_key_tuple(key, &f->addr, f->proto, f->port);
	return p->common.loaded != NULL &&
	       nft_loaded_led(nft_plane_loaded(p), ip_fam(&f->addr), key, &led) &&
	       (is_to_pool(led.target) || is_to_pool(led.inside));
}

/* --- check --- */

/* Read the layout again; env() then repairs differences. */
static int check_layout(struct nft_plane *p, enum ipfam fam, struct err *err)
{
	const char *family = nft_fam_text(fam);
	struct nft_layout *l = p->layout[fam];
	uint64_t handle = l->handle;
	char table[NFT_TABLE_NAME_MAX];
	int r;

	(void)snprintf(table, sizeof(table), "%s", l->table);
	r = nft_layout_load(l, err);
	if (r < 0)
		return r;
	if (l->state != NFT_LAYOUT_PRESENT)
		return err_set(err, PLANE_CHECK_LOST, "table %s %s is %s", family, table,
			       l->state == NFT_LAYOUT_ABSENT ? "gone" : "beyond repair");
	if (l->handle != handle)
		return err_set(err, PLANE_CHECK_LOST, "table %s %s was replaced", family, table);
	return PLANE_CHECK_CHANGED;
}

/*
 * Check the layouts of all families. If another process deletes the table of one family again and
 * again, that family fails, so that the other need not be loaded each time. A flush of the whole
 * ruleset is not counted.
 */
static int layouts_check(struct plane_common *c, struct err *err)
{
	struct nft_plane *p = nft_plane_of(&c->plane);
	unsigned int lost = 0;

	plane_failover_recheck(c);
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct err own = { 0 };
		int r = p->common.plane.family[fam].is_failed ? 0 : check_layout(p, fam, &own);

		if (r < 0 && r != -EAGAIN)
			r = plane_family_fail(&p->common.plane, fam, r, &own);
		if (r < 0 || (r == PLANE_CHECK_LOST && lost == 0))
			*err = own; /* report the first of several lost families */
		if (r < 0)
			return r;
		if (r == PLANE_CHECK_LOST)
			lost |= 1u << fam;
	}
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (lost == 1u << fam && plane_family_lost(&p->common.plane, fam) == 0)
			lost = 0;
	return lost != 0 ? PLANE_CHECK_LOST : PLANE_CHECK_CHANGED;
}

/* --- counters (plane/counters.c) --- */

/*
 * The element of a frontend is not rewritten while the frontend exists, so its counter continues. A
 * slot is rewritten when another backend takes it; its counter then restarts at 0. If the kernel
 * has another backend at the key, the counter is unknown.
 */
const struct plane_counting_chain nft_counting_chains[] = {
	{ "reject_conn", PLANE_REJECT_NO_ENDPOINTS },
	{ "drop_conn", PLANE_REJECT_NO_LOCAL_ENDPOINTS },
	{ "fw_check", PLANE_REJECT_SOURCE_RANGES },
	{ "services", PLANE_REJECT_UNKNOWN_PORT, .leads_on = true }, /* REJ-05 to REJ-01 */
	{ "vip_loop", PLANE_REJECT_UNKNOWN_PORT },
	{ "prerouting_last", PLANE_REJECT_UNKNOWN_ADDRESS },
	{ "output_last", PLANE_REJECT_UNKNOWN_ADDRESS },
	{ "forward", PLANE_INVALID_DROPPED },
	{ "input", PLANE_INVALID_DROPPED },
	{ "aff_full", PLANE_AFFINITY_FULL },
	{ NULL },
};

/* Counters of a failed address family are not read. */
static int is_in_force(const struct plane_common *c, enum ipfam fam)
{
	const struct nft_plane *p = (const struct nft_plane *)c;

	if (p->load.loaded != NULL) /* the socket is in use */
		return -EAGAIN;
	if (c->plane.family[fam].is_failed)
		return 0;
	return p->layout[fam]->state == NFT_LAYOUT_PRESENT ? 1 : -EAGAIN;
}

/* With affinity every connection goes through the backend's local id, else through its slot. */
static bool slot_counter(const struct plane_common *c, enum nft_set_id set,
			 const struct plane_counted *s, uint8_t key[static NFT_KEY_MAX],
			 uint8_t data[static NFT_DATA_MAX])
{
	if (s->aff_id == 0)
		nft_key_slot(key, s->pool_id, s->slot);
	else
		nft_put_word(key, nft_word(s->pool_id, s->aff_id));
	nft_data_endpoint(data, &s->at.addr, s->at.port);
	return set == (s->aff_id == 0 ? NFTSET_ENDPOINTS : NFTSET_AFF_ENDPOINTS);
}

/* --- cleanup --- */

static int plane_cleanup(struct plane *plane, struct err *err)
{
	struct nft_plane *p = nft_plane_of(plane);
	int r;

	for (int fam = 0; fam < IPFAM_N; fam++) {
		r = nft_layout_load(p->layout[fam], err);
		if (r == 0)
			r = nft_layout_cleanup(p->layout[fam], NULL, err);
		if (r < 0)
			return r;
	}
	r = plane_failover_cleanup(&p->common, NFT_FAILOVER_TABLE, err);
	return r < 0 ? r : nft_guard_cleanup(p->common.cmd, err);
}

/* Established connections do not need the tables: conntrack translates their packets. */
static int plane_retire(struct plane *plane, const struct model *m, uint64_t now, uint64_t *again,
			struct err *err)
{
	*again = 0;
	return plane_cleanup(plane, err);
}

/* Delete elements before the elements that they refer to. */
static const enum nft_set_id sweep_order[] = {
	NFTSET_FRONTENDS,      NFTSET_FW_FRONTENDS,  NFTSET_XL_CLUSTER,     NFTSET_XL_LOCAL,
	NFTSET_MASQ_FRONTENDS, NFTSET_MASQ_HOSTS,    NFTSET_COUNTED,        NFTSET_REJECTED,
	NFTSET_VIPS,           NFTSET_CLUSTER_IPS,   NFTSET_FW_RANGES,      NFTSET_ENDPOINTS,
	NFTSET_AFF_SLOTS,      NFTSET_AFF_ENDPOINTS, NFTSET_LOCAL_BACKENDS,
};

static struct nft_table_ref table(const struct plane_common *c, enum ipfam fam)
{
	return nft_plane_table((const struct nft_plane *)c, fam);
}

static void loaded_close(struct plane_loaded *l)
{
	nft_loaded_close(l != NULL ? nft_loaded_of(l) : NULL);
}

static const struct plane_common_ops common_ops = {
	.table = table,
	.sets = &nft_plane_sets,
	.counted = { NFTSET_ENDPOINT_ADDRS, NFTSET_VIPS, NFTSET_CLUSTER_IPS,
		     NFTSET_LOCAL_BACKENDS },
	.retained_set = NFTSET_ENDPOINT_ADDRS,
	.sweep = sweep_order,
	.n_sweep = ARRAY_SIZE(sweep_order),
	.n_frontends = 1,
	.n_leading = 4,
	.settle_loaded = nft_settle_loaded,
	.sweep_more = sweep_more,
	.sweep_prepare = sweep_prepare,
	.layouts_check = layouts_check,
	.loaded_close = loaded_close,
	.is_in_force = is_in_force,
	.counting_chains = nft_counting_chains,
	.slot_counters = (const enum nft_set_id[]){ NFTSET_ENDPOINTS, NFTSET_AFF_ENDPOINTS },
	.n_slot_counters = 2,
	.slot_counter = slot_counter,
};

const struct plane_ops nft_plane_ops = {
	.name = "nftables",
	.traits = { .shares_affinity = true,
		    .pool_class = nft_pool_class,
		    .class_affinity = nft_class_affinity,
		    .weighs_by_slots = true,
		    .hashing = nft_hashing,
		    .hash_class = nft_hash_class },
	.load = plane_load,
	.adopt = nft_adopt,
	.env = plane_env,
	.backend_work = backend_work,
	.commit = nft_commit,
	.sweep = plane_sweep,
	.supersede = nft_supersede,
	.orphaned = nft_orphaned,
	.is_orphaned = nft_is_orphaned,
	.leads = plane_leads,
	.check = plane_check,
	.touched = plane_touched,
	.tick = nft_tick,
	.rule_counts = plane_rule_counts,
	.count = plane_count,
	.remark = nft_remark,
	.handshakes = plane_handshakes,
	.answers = plane_answers,
	.is_backend = nft_is_backend,
	.move_begin = nft_move_begin,
	.move_end = nft_move_end,
	.retire = plane_retire,
	.cleanup = plane_cleanup,
	.close = plane_close,
};
