/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/nft/count - which chains and elements count (plane/counters.c).
 *
 * The element of a frontend is not rewritten while the frontend exists, so its counter continues. A
 * slot is rewritten when another backend takes it; its counter then restarts at 0. If the kernel
 * has another backend at the key, the counter is unknown.
 */
#include "plane/nft/state.h"

#include <errno.h>

#include "nft/decode.h"

const struct plane_drop_chain nft_drop_chains[] = {
	{ "reject_conn", PLANE_REJECT_NO_ENDPOINTS },
	{ "drop_conn", PLANE_REJECT_NO_LOCAL_ENDPOINTS },
	{ "fw_check", PLANE_REJECT_SOURCE_RANGES },
	{ "services", PLANE_REJECT_UNKNOWN_PORT, .leads_on = true }, /* REJ-05 to REJ-01 */
	{ "vip_loop", PLANE_REJECT_UNKNOWN_PORT },
	{ "prerouting_last", PLANE_REJECT_UNKNOWN_ADDRESS },
	{ "output_last", PLANE_REJECT_UNKNOWN_ADDRESS },
	{ "forward", PLANE_REJECT_N },
	{ "input", PLANE_REJECT_N },
	{ NULL },
};

/* Counters of a failed address family are not read. */
int nft_is_in_force(const struct plane_common *c, enum ipfam fam)
{
	const struct nft_plane *p = (const struct nft_plane *)c;

	if (p->load.loaded != NULL) /* the socket is in use */
		return -EAGAIN;
	if (c->plane.family[fam].is_failed)
		return 0;
	return p->layout[fam]->state == NFT_LAYOUT_PRESENT ? 1 : -EAGAIN;
}

/* With affinity every connection goes through the backend's local id, else through its slot. */
bool nft_slot_counter(const struct plane_common *c, enum nft_set_id set,
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
