/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/tryout.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <linux/netfilter_ipv4.h>
#include <string.h>

#include "nft/rule.h"
#include "nft/write.h"
#include "plane/ipvs/layout.h"

/* Some expressions are allowed in certain hooks only. */
static const struct nft_chain on_input = { NFT_TRY_CHAIN, "filter", NF_INET_LOCAL_IN, 0 };
static const struct nft_chain on_dnat = { NFT_TRY_CHAIN, "nat", NF_INET_PRE_ROUTING,
					  NF_IP_PRI_NAT_DST };
static const struct nft_chain on_snat = { NFT_TRY_CHAIN, "nat", NF_INET_POST_ROUTING,
					  NF_IP_PRI_NAT_SRC };
static const struct nft_chain on_route = { NFT_TRY_CHAIN, "route", NF_INET_LOCAL_OUT,
					   NF_IP_PRI_MANGLE };

/* --- one rule a feature --- */

static const struct nft_feature features[] = {
	{ "tables of both families", { "CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET" } },
	{ "sets of addresses and prefixes",
	  { "CONFIG_NF_TABLES" },
	  .n_sets = 2,
	  .sets = { IPVSSET_VIPS, IPVSSET_POD_CIDRS } },
	{ "marks from maps with concatenated keys",
	  { "CONFIG_NF_TABLES" },
	  .n_sets = 1,
	  .sets = { IPVSSET_FE },
	  .rule = OPS(FAMILY, L4PROTOS, TUPLE, MAP(IPVSSET_FE), META_SET(MARK)) },
	{ "chains that route again",
	  { "CONFIG_NF_TABLES_INET of Linux 5.2" },
	  .rule = OPS(META(MARK), MASK_XOR(~IPVS_MARK_MASK, 1), META_SET(MARK)),
	  .base = &on_route },
	{ "connection tracking",
	  { "CONFIG_NFT_CT, CONFIG_NF_CONNTRACK" },
	  .rule = OPS(CT(DIRECTION), AT(0, 0), CT(STATE), AT(0, 0), CT(STATUS), AT(0, 0),
		      ORIGINAL_TUPLE) },
	{ "types of addresses",
	  { "CONFIG_NFT_FIB, CONFIG_NFT_FIB_INET" },
	  .rule = OPS(FIB_TYPE(DADDR, EQ, LOCAL)),
	  .base = &on_input },
	{ "sockets of packets",
	  { "CONFIG_NFT_SOCKET" },
	  .rule = OPS(SOCKET_WILDCARD),
	  .base = &on_input },
	{ "rejecting",
	  { "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_INET" },
	  .rule = OPS(REJECT_PORT_ANY),
	  .base = &on_input },
	{ "masquerading",
	  { "CONFIG_NFT_NAT, CONFIG_NFT_MASQ" },
	  .rule = OPS(MASQUERADE),
	  .base = &on_snat },
	{ "redirecting",
	  { "CONFIG_NFT_NAT, CONFIG_NFT_REDIR" },
	  .rule = OPS(REDIRECT),
	  .base = &on_dnat },
	{ "counters", { "CONFIG_NFT_COUNTER" }, .rule = OPS(COUNTER) },
};
_Static_assert(ARRAY_SIZE(features) <= NFT_TRIES_MAX, "they must fit what callers have");

size_t ipvs_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			 enum ipfam fam)
{
	nft_try_list(ret, nl, fam, &ipvs_schema, features, ARRAY_SIZE(features));
	return ARRAY_SIZE(features);
}

/* --- as a whole --- */

static int layout_try(struct nl_sock *nl, const struct ipvs_rules_params *params, struct err *err)
{
	FINI(ipvs_layout_fini) struct ipvs_layout l = { .nl = nl };
	int r = ipvs_layout_load(&l, err);

	if (r == 0)
		r = ipvs_layout_apply(&l, params, NULL, NULL, NULL, err);
	if (r == 0)
		r = nft_tables_delete(nl, &ipvs_schema, IPFAM_V4, NULL, err);
	return r;
}

int ipvs_try_layout(struct nl_sock *nl, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < PLANE_RULES_TRIED; i++)
		r = layout_try(nl,
			       &(struct ipvs_rules_params){
				       .common = plane_rules_tried[i],
				       .marks = ipvs_marks_from(IPVS_MARK_TAG_DEFAULT) },
			       err);
	return r;
}

/* The first is the default; mh serves pods at frontends with affinity and policy Local. */
static const char *const scheds[] = { "rr", "mh", "wrr", "lc", "wlc", "sh" };
_Static_assert(ARRAY_SIZE(scheds) <= IPVS_TRIES_MAX, "they must fit what callers have");

size_t ipvs_try_scheds(struct ipvs_try ret[static IPVS_TRIES_MAX], struct ipvs_wire *w)
{
	for (size_t i = 0; i < ARRAY_SIZE(scheds); i++) {
		struct ipvs_op op = { .cmd = IPVS_CMD_NEW_SERVICE,
				      .service.key = { .fam = IPFAM_V4, .mark = (uint32_t)i + 1 } };
		size_t n = 0;
		int r;

		memcpy(op.service.sched, scheds[i], strlen(scheds[i]) + 1);
		r = ipvs_wire_send(w, &op, 1, &n, NULL);
		ret[i] = (struct ipvs_try){ scheds[i], r == 0 || !op.is_done ? r : op.result };
	}
	return ARRAY_SIZE(scheds);
}
