/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/tick - periodic work of the plane: addresses after their grace period, stray addresses,
 * shorter affinity timeouts, unused affinity chains, the guard.
 */
#include "base/log.h"
#include "nft/decode.h"
#include "plane/failover.h"
#include "plane/nft/state.h"

/* Addresses deleted in one transaction of tick(), and the time to the next one. */
#define TICK_MAX 512
#define TICK_AGAIN_NS (20 * NSEC_PER_MSEC)
#define TICK_RETRY_NS (60 * NSEC_PER_SEC)
/* Interval at which affinity kinds are deleted that were unused since the last time. */
#define KINDS_PERIOD_NS (600 * NSEC_PER_SEC)
/* Delay from a shorter affinity timeout to the walk over its entries. */
#define SHORTEN_LOOK_NS (2 * NSEC_PER_SEC)
/* Time between two pieces of a walk, and between two walks. A piece takes the kernel up to 10 ms */
#define WALK_STEP_NS (100 * NSEC_PER_MSEC)
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

void nft_tick_kinds_remove(struct nft_plane *p)
{
	struct err err = { 0 };

	if (nft_kinds_remove(p, &err) < 0)
		log_info(LOG_AREA_PLANE,
			 "unused affinity chains: not removed: %s; next attempt "
			 "in %d s",
			 err.text, (int)(KINDS_PERIOD_NS / NSEC_PER_SEC));
}

/* Delete the addresses in `addrs` from the kernel. */
static int retained_end(struct nft_plane *p, enum ipfam fam, const uint8_t *addrs, size_t n,
			struct err *err)
{
	struct plane_result res = { 0 };
	size_t len = nft_data_len(NFTSET_ENDPOINTS, fam);
	int r;

	nft_changes_reset(&p->common.changes);
	for (size_t i = 0; i < n; i++) {
		uint8_t key[NFT_KEY_MAX];

		nft_key_endpoint_from(key, fam, addrs + i * len);
		nft_changes_was(&p->common.changes, fam, NFTSET_ENDPOINT_ADDRS, key, NULL, NULL);
	}
	r = plane_transact_verified(&p->common, &res, err);
	for (size_t i = 0; i < n && r == 0; i++)
		nft_refs_set(nft_endpoint_addrs(p, fam), addrs + i * len, 0);
	nft_changes_reset(&p->common.changes);
	return r;
}

static uint64_t tick_family(struct nft_plane *p, enum ipfam fam, uint64_t now)
{
	struct nft_refs *refs = nft_endpoint_addrs(p, fam);
	uint32_t now_s = (uint32_t)(now / NSEC_PER_SEC) + 1;
	struct err err = { 0 };
	uint8_t addrs[TICK_MAX * 8]; /* fewer addresses of IPv6 */
	uint32_t due_s;
	size_t n;
	int r;

	n = nft_refs_due(refs, now_s, NFT_GRACE_S, addrs,
			 sizeof(addrs) / nft_data_len(NFTSET_ENDPOINTS, fam), &due_s);
	if (n > 0) {
		r = retained_end(p, fam, addrs, n, &err);
		if (r < 0) {
			log_warn(LOG_AREA_PLANE,
				 "retained addresses: %zu not removed: %s; next attempt in %d s", n,
				 err.text, (int)(TICK_RETRY_NS / NSEC_PER_SEC));
			return now + TICK_RETRY_NS;
		}
	}
	if (due_s == 0)
		return 0;
	return due_s <= now_s ? now + TICK_AGAIN_NS : (uint64_t)due_s * NSEC_PER_SEC;
}

/* Start the grace period of a stray address. */
static int stray_found(void *arg, const uint8_t *key, const uint8_t *data, struct err *err)
{
	struct nft_plane *p = arg;
	struct nft_refs *refs = nft_endpoint_addrs(p, p->walk.fam);

	(void)data;
	(void)err;
	if (!nft_refs_is_known(refs, key))
		nft_refs_grace(refs, key);
	return 0;
}

int nft_plane_walk(struct nft_plane *p, bool is_begun, enum nft_set_id set, nft_elem_fn *fn,
		   void *arg, struct err *err)
{
	enum ipfam next = IPFAM_V4;
	struct nft_table_ref table;

	if (is_begun) {
		int r = nft_walk_step(&p->walk, fn, arg, err);

		if (r != 0 || p->walk.fam == IPFAM_V6)
			return r;
		next = IPFAM_V6;
	}
	table = nft_plane_table(p, next);
	return nft_walk_begin(&p->walk, p->walk_nl, &table, set, err) < 0 ? -EIO : 1;
}

/* Begin a walk or do one piece. Returns the time of the next call, 0 = none. */
static uint64_t tick_walk(struct nft_plane *p, uint64_t now)
{
	struct err err = { 0 };
	int r;

	if (p->walk_nl == NULL || p->n_shortening > 0)
		return 0;
	if (!(p->is_walk_wanted && !p->is_walking) && (p->walk_at == 0 || now < p->walk_at))
		return p->walk_at;
	p->is_walk_wanted &= p->is_walking;
	r = nft_plane_walk(p, p->is_walking, NFTSET_ENDPOINT_ADDRS, stray_found, p, &err);
	p->is_walking = r > 0;
	if (r == 0)
		p->walk_at = now + (p->is_walk_wanted ? WALK_STEP_NS : WALK_PERIOD_NS);
	else
		p->walk_at = now + (r > 0 ? WALK_STEP_NS : WALK_RETRY_NS);
	if (r < 0)
		log_info(LOG_AREA_PLANE, "search for stray addresses: put off: %s", err.text);
	return p->walk_at;
}

/*
 * No address is deleted during a walk: the kernel writes a part of its answer up to WALK_STEP_NS
 * before it is processed, and a deleted address would be taken for a stray one.
 */
static uint64_t tick_addresses(struct nft_plane *p, uint64_t now)
{
	uint64_t next = p->is_walking ? tick_walk(p, now) : 0;

	if (p->is_walking)
		return next;
	for (int fam = 0; fam < IPFAM_N; fam++)
		if (p->layout[fam]->state == NFT_LAYOUT_PRESENT &&
		    !p->common.plane.family[fam].is_failed)
			next = earlier(next, tick_family(p, fam, now));
	return earlier(next, tick_walk(p, now));
}

/* Both walks share a socket, one at a time. Returns the time of the next call, 0 = none. */
static uint64_t tick_shorten(struct nft_plane *p, uint64_t now)
{
	struct err err = { 0 };

	if (p->walk_nl == NULL || p->shorten.n == 0)
		return 0;
	if (p->is_walking)
		return now + SHORTEN_LOOK_NS;
	return now + (nft_shorten_step(p, &err) ? TICK_AGAIN_NS : SHORTEN_LOOK_NS);
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

static bool ready_for_kinds(const struct nft_plane *p)
{
	return p->layout[IPFAM_V4]->state == NFT_LAYOUT_PRESENT &&
	       p->layout[IPFAM_V6]->state == NFT_LAYOUT_PRESENT;
}

static uint64_t tick_kinds(struct nft_plane *p, uint64_t now)
{
	if (nft_kind_count() == 0)
		return p->kinds_at = 0;
	if (p->kinds_at != 0 && now < p->kinds_at)
		return p->kinds_at;
	if (p->kinds_at != 0 && ready_for_kinds(p))
		nft_tick_kinds_remove(p);
	p->kinds_at = now + KINDS_PERIOD_NS;
	return p->kinds_at;
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
