/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plane/ipvs/programmed - run load() of the plane, and print the result. */
#include "plane/ipvs/programmed.h"

#include <errno.h>

#include "nft/decode.h"
#include "plane/ipvs/state.h"

#define TRIES 8

void ipvs_programmed_fini(struct ipvs_programmed *h)
{
	str_fini(&h->frontends);
	str_fini(&h->routing);
	str_fini(&h->routing_desired);
	*h = (struct ipvs_programmed){ 0 };
}

/* Tag of the first mark in the maps; 0 if they are empty. */
static uint32_t tag_of_maps(const struct plane_loaded *c)
{
	static const enum nft_set_id maps[] = { IPVSSET_FE, IPVSSET_FE_OUT };

	for (size_t i = 0; i < ARRAY_SIZE(maps) * IPFAM_N; i++)
		nft_keymap_for_each (e, &c->sets[i % IPFAM_N][maps[i / IPFAM_N]])
			return nft_get_word(e.val) & IPVS_MARK_MASK;
	return 0;
}

static int table_load(struct ipvs_plane *p, bool has_rules, struct err *err)
{
	int r = plane_load_all(&p->common.plane, err);
	uint32_t tag = r == 0 ? tag_of_maps(p->common.loaded) : 0;

	if (r < 0 || has_rules || tag == 0 || tag == p->routing.marks.tag)
		return r;
	p->routing.marks = ipvs_marks_from((uint8_t)(tag >> 24));
	return plane_load_all(&p->common.plane, err);
}

/* Returns 1 if another process changed the table meanwhile. */
static int read_once(struct ipvs_programmed *ret, struct ipvs_plane *p, struct err *err)
{
	int n_rules;
	int r;

	ipvs_programmed_fini(ret);
	n_rules = ipvs_route_config_read(p->route, &p->routing, err);
	if (n_rules < 0)
		return n_rules;
	r = ipvs_layout_load(&p->layout, err);
	ret->exists = r == 0 && p->layout.state == IPVS_LAYOUT_PRESENT;
	if (r == 0 && ret->exists)
		r = table_load(p, n_rules > 0, err);
	if (r == 0)
		r = ipvs_route_text(p->route, &p->routing, &ret->routing_desired, &ret->routing,
				    err);
	if (r < 0)
		return r == -EAGAIN ? 1 : r;
	if (ret->exists)
		ipvs_loaded_text(&ret->frontends, p);
	return 0;
}

int ipvs_programmed_read_from(struct ipvs_programmed *ret, const struct ipvs_socks *socks,
			      struct err *err)
{
	const struct ipvs_config config = { .sysctl_root = NULL };
	struct plane *plane;
	int r = ipvs_plane_open(&plane, socks, &config, err);

	if (r < 0)
		return r;
	ipvs_plane_of(plane)->layout.is_readonly = true;
	r = socks->watch != NULL ? plane_watch_with(plane, socks->watch, err) : 0;
	r = r < 0 ? r : 1;
	for (int i = 0; i < TRIES && r > 0; i++)
		r = read_once(ret, ipvs_plane_of(plane), err);
	plane->ops->close(plane);
	return r > 0 ? err_set(err, -EAGAIN, "the table of vipd changes faster than it can be read")
		     : r;
}

int ipvs_programmed_read(struct ipvs_programmed *ret, struct err *err)
{
	static const int protocols[] = { NETLINK_NETFILTER, NETLINK_NETFILTER, NETLINK_GENERIC,
					 NETLINK_ROUTE, NETLINK_NETFILTER };
	struct nl_sock *nl[ARRAY_SIZE(protocols)] = { NULL };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(protocols) && r == 0; i++)
		r = nl_sock_open(&nl[i], protocols[i], err);
	if (r == 0)
		return ipvs_programmed_read_from(ret,
						 &(struct ipvs_socks){ .nft = nl[0],
								       .query = nl[1],
								       .genl = nl[2],
								       .route = nl[3],
								       .watch = nl[4] },
						 err);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
		nl_sock_close(nl[i]);
	return r;
}

int ipvs_programmed_exists(struct err *err)
{
	AUTO(nl_sock_close) struct nl_sock *nl = NULL;
	struct nft_fixed_table t;
	int r = nl_sock_open(&nl, NETLINK_NETFILTER, err);

	return r < 0 ? r : nft_fixed_table_find(&t, nl, IPFAM_V4, &ipvs_schema, err);
}
