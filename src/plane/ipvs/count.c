/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/count - which chains and elements count (plane/counters.h).
 *
 *  IPVS's own counters change only while its estimator runs, and that is off (sysctl.c). vipd's are
 *  elements: of `counted` and `refused` while the frontend exists, of `reached` while the backend
 * is in its pool.
 */
#include <errno.h>

#include "nft/decode.h"
#include "plane/ipvs/state.h"

const struct plane_drop_chain ipvs_drop_chains[] = {
	{ "no_endpoints", PLANE_REJECT_NO_ENDPOINTS },
	{ "no_local", PLANE_REJECT_NO_LOCAL_ENDPOINTS },
	{ "guard4", PLANE_REJECT_SOURCE_RANGES },
	{ "guard6", PLANE_REJECT_SOURCE_RANGES },
	{ "unknown_port", PLANE_REJECT_UNKNOWN_PORT },
	{ "vip_loop", PLANE_REJECT_UNKNOWN_PORT },
	{ "unknown_address", PLANE_REJECT_UNKNOWN_ADDRESS },
	{ "no_socket", PLANE_REJECT_N },
	{ NULL },
};

int ipvs_is_in_force(const struct plane_common *c, enum ipfam fam)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)c;

	/* One table, also while the policy routing of a family has failed. */
	return p->load.loaded == NULL && p->layout->state == IPVS_LAYOUT_PRESENT ? 1 : -EAGAIN;
}

/* Mark of a pool by its id. */
static uint32_t pool_mark(const struct ipvs_plane *p, enum ipfam fam, uint32_t id)
{
	uint32_t local = ipvs_mark_pool(&p->routing.marks, id, PLAN_SCOPE_LOCAL);
	const struct ipvs_vs *vs = ipvs_vs_by_mark(p, fam, local);

	return vs != NULL && vs->desired.exists
		       ? local
		       : ipvs_mark_pool(&p->routing.marks, id, PLAN_SCOPE_CLUSTER);
}

bool ipvs_slot_counter(const struct plane_common *c, enum nft_set_id set,
		       const struct plane_slot *s, uint8_t key[static NFT_KEY_MAX],
		       uint8_t data[static NFT_DATA_MAX])
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)c;

	nft_key_reached(key, pool_mark(p, ip_fam(&s->addr), s->pool_id), &s->addr, s->port);
	return true;
}
