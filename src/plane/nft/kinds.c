/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/kinds - pick chains of a table: created when a transaction needs them, deleted when no
 * frontend leads to them.
 *
 * Only chains of affinity kinds are deleted; the number of others is small. A frontend is counted
 * once its transaction is acknowledged. Frontends that are in the kernel but not counted (the last
 * good state of a service that was rejected after a load) keep their chains until the next load.
 */
#include "plane/nft/state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"

/*
 * New affinity chains of a family in one call, and removed ones. For each rule with a map the
 * kernel visits all rules that use the map: 0.3 ms a chain beside 1,500 others.
 */
#define AFFINITY_CHAINS_MAX 32

int nft_kinds_make(struct nft_plane *p, enum ipfam fam, const struct nft_kinds *need,
		   struct plane_result *res, struct err *err)
{
	size_t n = 64 * ARRAY_SIZE(need->bits);
	AUTO(vec_fini) VEC(uint16_t) kinds = { 0 };
	bool is_partial = false;
	int r = 0;

	for (size_t kind = 0; !is_partial && (kind = bits_next(need->bits, kind, n)) < n; kind++) {
		if (nft_layout_has_kind(p->layout[fam], (uint16_t)kind))
			continue;
		is_partial = kind >= NFT_KIND_AFFINITY && kinds.n >= AFFINITY_CHAINS_MAX;
		if (!is_partial)
			*vec_push(&kinds) = (uint16_t)kind;
	}
	if (kinds.n > 0)
		r = nft_layout_chains_need(p->layout[fam], kinds.v, kinds.n, &res->done, err);
	if (r == 0)
		return !is_partial ? 0 : err_set(err, -EINPROGRESS, "more chains are to be made");
	if (r == -EOPNOTSUPP && (bit_is_set(need->bits, NFT_KIND_HASH_ADDR) ||
				 bit_is_set(need->bits, NFT_KIND_HASH_PORT))) {
		nft_hashing_lack(true);
		log_warn(LOG_AREA_PLANE, "scheduler mh: %s; its services pick endpoints at random",
			 err != NULL ? err->text : "not supported");
		return err_wrap(err, -ENOTRECOVERABLE, "scheduler mh");
	}
	if (r == -EEXIST || r == -ENOENT)
		return err_wrap(err, -ENOTRECOVERABLE, "the table was modified by another process");
	if (r == -ENOBUFS)
		return -EBUSY;
	/* The layout has to be read again before it can be written to. */
	if (nft_layout_load(p->layout[fam], NULL) < 0)
		return -EBUSY;
	return err_wrap(err, r, "chains for a new pool size");
}

/* --- counting and removing --- */

void nft_kinds_led(struct nft_plane *p, enum ipfam fam, uint16_t kind, int by)
{
	if (kind >= NFT_KIND_AFFINITY && kind < NFT_KIND_AFFINITY_END)
		*vec_push(&p->led) = (struct nft_kind_led){ kind, (uint8_t)fam, (int8_t)by };
}

void nft_kinds_applied(struct nft_plane *p)
{
	vec_for_each (led, &p->led) {
		uint32_t *n = &p->n_led[led->fam][led->kind - NFT_KIND_AFFINITY];

		assert(led->by > 0 || *n > 0);
		*n += (uint32_t)led->by;
	}
	vec_clear(&p->led);
}

void nft_kinds_restart(struct nft_plane *p, enum ipfam fam)
{
	memset(p->n_led[fam], 0, sizeof(p->n_led[fam]));
	memset(&p->kept[fam], 0, sizeof(p->kept[fam]));
}

static bool is_led(const struct nft_plane *p, enum ipfam fam, uint16_t kind)
{
	return p->n_led[fam][kind - NFT_KIND_AFFINITY] > 0 || bit_is_set(p->kept[fam].bits, kind);
}

void nft_kinds_keep(struct nft_plane *p)
{
	for (int fam = 0; fam < IPFAM_N; fam++) {
		struct nft_kinds programmed = { 0 };

		nft_loaded_kinds(nft_plane_loaded(p), fam, &programmed);
		for (uint16_t kind = NFT_KIND_AFFINITY; kind < NFT_KIND_AFFINITY_END; kind++)
			if (bit_is_set(programmed.bits, kind) && !is_led(p, fam, kind))
				bit_set(p->kept[fam].bits, kind);
	}
}

/* A failed family keeps its chains, to which its frontends in the kernel may lead, read or not. */
static bool is_held(const struct nft_plane *p, enum ipfam fam, uint16_t kind)
{
	return is_led(p, fam, kind) || (p->common.plane.family[fam].is_failed &&
					bit_is_set(p->layout[fam]->kinds.bits, kind));
}

static bool is_unused(const struct nft_plane *p, uint16_t kind)
{
	return !is_held(p, IPFAM_V4, kind) && !is_held(p, IPFAM_V6, kind);
}

void nft_kinds_find(struct nft_plane *p, bool is_short)
{
	for (uint16_t kind = NFT_KIND_AFFINITY; kind < NFT_KIND_AFFINITY_END; kind++)
		if (is_short ? is_unused(p, kind) && nft_kind_info(kind).slots != 0
			     : nft_kind_is_idle(kind))
			bit_set(p->idle.bits, kind);
}

/* Remove the chains of `idle` that no frontend of the family leads to. */
static int family_remove(struct nft_plane *p, enum ipfam fam, const struct nft_kinds *idle,
			 struct err *err)
{
	AUTO(vec_fini) VEC(uint16_t) kinds = { 0 };
	int r;

	for (uint16_t kind = NFT_KIND_AFFINITY; kind < NFT_KIND_AFFINITY_END; kind++)
		if (bit_is_set(idle->bits, kind) && !is_led(p, fam, kind))
			*vec_push(&kinds) = kind;
	if (kinds.n == 0)
		return 0;
	r = nft_layout_chains_remove(p->layout[fam], kinds.v, kinds.n, err);
	/* The layout has to be read again before it can be written to. */
	if (r < 0 && nft_layout_load(p->layout[fam], NULL) < 0)
		return -EBUSY;
	return r;
}

int nft_kinds_remove(struct nft_plane *p, struct err *err)
{
	const size_t end = 64 * ARRAY_SIZE(p->idle.bits);
	struct nft_kinds idle = { 0 };
	size_t kind = 0;

	for (int n = 0; n < AFFINITY_CHAINS_MAX; n++) {
		kind = bits_next(p->idle.bits, kind, end);
		if (kind == end)
			break;
		bit_clear(p->idle.bits, kind);
		bit_set(idle.bits, kind);
	}
	for (int fam = 0; fam < IPFAM_N; fam++) {
		int r = p->common.plane.family[fam].is_failed ? 0
							      : family_remove(p, fam, &idle, err);

		if (r < 0) {
			p->idle = (struct nft_kinds){ 0 };
			return r;
		}
	}
	for (kind = bits_next(idle.bits, 0, end); kind < end;
	     kind = bits_next(idle.bits, kind + 1, end))
		if (is_unused(p, (uint16_t)kind))
			nft_kind_release((uint16_t)kind);
	return bits_next(p->idle.bits, 0, end) < end;
}
