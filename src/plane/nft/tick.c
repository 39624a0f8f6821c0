/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/tick - periodic work of the plane: addresses after their grace period, stray addresses,
 * shorter affinity timeouts, unused affinity chains, the guard.
 */
#include "base/log.h"
#include "nft/decode.h"
#include "plane/failover.h"
#include "plane/nft/state.h"

/*
 * Addresses deleted in one transaction of tick(), 2 us each, and the time to the next one. Of those
 * above NFT_RETAINED_MAX a quarter goes at once, up to TICK_OVER_MAX, and changes do not delay the
 * next transaction: while changes never end, as many addresses must go as come.
 */
#define TICK_MAX 512
#define TICK_OVER_MAX 2048
#define TICK_AGAIN_NS (20 * NSEC_PER_MSEC)
#define TICK_RETRY_NS (60 * NSEC_PER_SEC)
/* Interval at which affinity kinds are found that were unused since the last time. */
#define KINDS_PERIOD_NS (600 * NSEC_PER_SEC)
/* Delay from a shorter affinity timeout to the walk over its entries. */
#define SHORTEN_CHECK_NS (2 * NSEC_PER_SEC)
/*
 * Time between two pieces of a walk, more for each element before the piece: the kernel passes over
 * those again, 10 ms for 200,000. So pieces take about a hundredth of the time, and delay few
 * changes.
 */
#define WALK_STEP_NS (100 * NSEC_PER_MSEC)
#define WALK_ELEMENT_NS 4000
/* Time between two walks. */
#define WALK_PERIOD_NS (UINT64_C(86400) * NSEC_PER_SEC)
#define WALK_RETRY_NS (600 * NSEC_PER_SEC)

/* The earlier of two times; 0 = never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

bool nft_plane_is_owner(const struct nft_plane *p)
{
	return nft_layout_is_owner(p->layout[IPFAM_V4]) && nft_layout_is_owner(p->layout[IPFAM_V6]);
}

void nft_plane_guard_written(struct nft_plane *p)
{
	p->common.plane.is_flush_safe = nft_guard_is_programmed(p->guard) || nft_plane_is_owner(p);
}

bool nft_tick_kinds_remove(struct nft_plane *p)
{
	struct err err = { 0 };
	int r = nft_kinds_remove(p, &err);

	if (r < 0)
		log_info(LOG_AREA_PLANE,
			 "unused affinity chains: not removed: %s; next attempt "
			 "in %d s at the latest",
			 err.text, (int)(KINDS_PERIOD_NS / NSEC_PER_SEC));
	return r > 0;
}

/* Number of retained addresses above the limit. */
static size_t retained_over(const struct nft_refs *refs)
{
	size_t n = refs->retained.count;

	return n > NFT_RETAINED_MAX ? n - NFT_RETAINED_MAX : 0;
}

/* Delete due addresses from the kernel. Returns their number in `n`. */
static int retained_end(struct nft_plane *p, enum ipfam fam, uint32_t now_s, size_t *n,
			struct err *err)
{
	struct nft_refs *refs = nft_endpoint_addrs(p, fam);
	size_t over = retained_over(refs);
	size_t max = MAX((size_t)TICK_MAX, MIN(over / 4, (size_t)TICK_OVER_MAX));
	struct plane_result res = { 0 };
	int r;

	*n = 0;
	nft_changes_reset(&p->common.changes);
	list_for_each_entry (e, &refs->in_order, struct nft_retained, order) {
		uint8_t key[NFT_KEY_MAX];

		if (*n == max || (*n >= over && e->since_s + NFT_GRACE_S > now_s))
			break;
		nft_key_endpoint_from(key, fam, e->addr);
		nft_changes_was(&p->common.changes, fam, NFTSET_ENDPOINT_ADDRS, key, NULL, NULL);
		++*n;
	}
	r = *n > 0 ? plane_transact_verified(&p->common, &res, err) : 0;
	for (size_t i = 0; i < *n && r == 0; i++)
		nft_refs_set(refs, nft_refs_oldest(refs)->addr, 0);
	nft_changes_reset(&p->common.changes);
	return r;
}

static uint64_t tick_family(struct nft_plane *p, enum ipfam fam, uint64_t now)
{
	struct nft_refs *refs = nft_endpoint_addrs(p, fam);
	uint32_t now_s = (uint32_t)(now / NSEC_PER_SEC) + 1;
	const struct nft_retained *e;
	struct err err = { 0 };
	uint32_t due_s;
	size_t n;

	nft_refs_stamp(refs, now_s);
	if (now < p->retained_at[fam])
		return p->retained_at[fam];
	if (retained_end(p, fam, now_s, &n, &err) < 0) {
		log_warn(LOG_AREA_PLANE,
			 "retained addresses: %zu not removed: %s; next attempt in %d s", n,
			 err.text, (int)(TICK_RETRY_NS / NSEC_PER_SEC));
		return p->retained_at[fam] = now + TICK_RETRY_NS;
	}
	e = nft_refs_oldest(refs);
	if (e == NULL)
		return 0;
	due_s = e->since_s + NFT_GRACE_S;
	return due_s <= now_s || retained_over(refs) > 0 ? now + TICK_AGAIN_NS
							 : (uint64_t)due_s * NSEC_PER_SEC;
}

/* Stray addresses of one piece of a walk. */
struct strays {
	struct nft_plane *p;
	enum ipfam fam;
	VEC(struct nft_lookup) v;
};

static void stray_found(void *arg, const uint8_t *key, const uint8_t *data)
{
	struct strays *s = arg;

	if (!nft_refs_is_known(nft_endpoint_addrs(s->p, s->fam), key))
		memcpy(vec_push(&s->v)->key, key, nft_key_len(NFTSET_ENDPOINT_ADDRS, s->fam));
}

/*
 * Start the grace period of stray addresses. The kernel writes a part of its answer when the part
 * before is read: an address that was deleted in between is no stray one.
 */
static int strays_retain(struct strays *s, struct err *err)
{
	struct nft_table_ref table = nft_plane_table(s->p, s->fam);
	int r = nft_elems_get(s->p->common.query, &table, NFTSET_ENDPOINT_ADDRS, s->v.v, s->v.n,
			      err);

	vec_for_each (k, &s->v)
		if (r == 0 && k->is_found)
			nft_refs_grace(nft_endpoint_addrs(s->p, s->fam), k->key);
	return r;
}

static void walk_end(struct nft_plane *p)
{
	p->walk = (struct nft_walk){ 0 };
	p->walk_fam = IPFAM_V4;
}

int nft_plane_walk(struct nft_plane *p, enum nft_set_id set, nft_elem_fn *fn, void *arg,
		   struct err *err)
{
	struct nft_table_ref table = nft_plane_table(p, p->walk_fam);
	bool is_last = p->walk_fam == IPFAM_V6;
	int r = p->common.plane.family[p->walk_fam].is_failed
			? 0
			: nft_elems_dump_step(&p->walk, p->walk_nl, &table, set, fn, arg, err);

	if (r > 0)
		return r;
	walk_end(p);
	if (r < 0 || is_last)
		return r;
	p->walk_fam = IPFAM_V6;
	return nft_plane_walk(p, set, fn, arg, err); /* its request */
}

/* Begin a walk or do one piece. Returns the time of the next call, 0 = none. */
static uint64_t tick_walk(struct nft_plane *p, uint64_t now)
{
	struct strays strays = { .p = p, .fam = p->walk_fam };
	struct err err = { 0 };
	int r;

	if (p->walk_nl == NULL || p->is_shortening)
		return 0;
	if (p->is_walk_wanted && !p->is_walking) {
		p->is_walk_wanted = false;
		p->walk_at = now;
	}
	if (p->walk_at == 0 || now < p->walk_at)
		return p->walk_at;
	r = nft_plane_walk(p, NFTSET_ENDPOINT_ADDRS, stray_found, &strays, &err);
	if (strays.v.n > 0 && r >= 0 && strays_retain(&strays, &err) < 0) {
		walk_end(p);
		r = -EIO;
	}
	vec_fini(&strays.v);
	p->is_walking = r > 0;
	if (r > 0 || p->is_walk_wanted) {
		p->walk_at = now + WALK_STEP_NS;
		if (nft_shorten_count(p) == 0) /* shorter timeouts wait for the end of this walk */
			p->walk_at += p->walk.n * WALK_ELEMENT_NS;
	} else {
		p->walk_at = now + (r == 0 ? WALK_PERIOD_NS : WALK_RETRY_NS);
	}
	if (r < 0)
		log_info(LOG_AREA_PLANE, "stray addresses: not searched: %s; next attempt in %d s",
			 err.text, (int)((p->walk_at - now) / NSEC_PER_SEC));
	return p->walk_at;
}

static uint64_t tick_addresses(struct nft_plane *p, uint64_t now)
{
	struct plane *plane = &p->common.plane;
	uint64_t next = tick_walk(p, now);

	plane->is_tick_urgent = false;
	for (int fam = 0; fam < IPFAM_N; fam++) {
		if (p->layout[fam]->state != NFT_LAYOUT_PRESENT || plane->family[fam].is_failed)
			continue;
		next = earlier(next, tick_family(p, fam, now));
		plane->is_tick_urgent |=
			retained_over(nft_endpoint_addrs(p, fam)) > 0 && now >= p->retained_at[fam];
	}
	return next;
}

/* Both walks share a socket, one at a time. Returns the time of the next call, 0 = none. */
static uint64_t tick_shorten(struct nft_plane *p, uint64_t now)
{
	struct err err = { 0 };

	if (p->walk_nl == NULL || nft_shorten_count(p) == 0)
		return 0;
	if (p->is_walking)
		return now + SHORTEN_CHECK_NS;
	if (now >= p->shorten_at)
		p->shorten_at =
			now + (nft_shorten_step(p, &err) ? TICK_AGAIN_NS : SHORTEN_CHECK_NS);
	return p->shorten_at;
}

static uint64_t tick_guard(struct nft_plane *p, uint64_t now)
{
	uint64_t next;

	if (p->guard == NULL)
		return 0;
	next = nft_guard_tick(p->guard, now);
	nft_plane_guard_written(p);
	return next;
}

/* Rows of a goal, which no transaction has programmed yet, may have numbers that seem unused. */
static uint64_t tick_kinds(struct nft_plane *p, uint64_t now)
{
	struct plane *plane = &p->common.plane;
	bool was_short = nft_kind_is_short();
	bool has_more;

	if (nft_kind_count() == 0)
		return p->kinds_at = 0;
	if (plane->has_goal || nft_plane_ready_check(p, NULL) < 0)
		return now + NSEC_PER_SEC;
	if (p->kinds_at != 0 && now >= p->kinds_at)
		nft_kinds_find(p, false);
	if (p->kinds_at == 0 || now >= p->kinds_at)
		p->kinds_at = now + KINDS_PERIOD_NS;
	if (was_short)
		nft_kinds_find(p, true);
	has_more = nft_tick_kinds_remove(p);
	plane->is_replan_wanted |= was_short && !nft_kind_is_short();
	return has_more ? now + TICK_AGAIN_NS : p->kinds_at;
}

uint64_t nft_tick(struct plane *plane, uint64_t now)
{
	struct nft_plane *p = nft_plane_of(plane);
	uint64_t next;

	if (plane_is_adopting(&p->common))
		return now + NSEC_PER_SEC;
	next = earlier(tick_guard(p, now), plane_failover_follow(&p->common, now));
	if (p->common.loaded != NULL) /* addresses in use are not all counted yet */
		return earlier(next, now + NSEC_PER_SEC);
	next = earlier(next, tick_kinds(p, now));
	next = earlier(next, tick_shorten(p, now));
	return earlier(next, tick_addresses(p, now));
}
