/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plane/ipvs/tryout.h"

#include <netinet/in.h> /* before linux/in.h: that one then steps back */

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>

#include "plane/ipvs/layout.h"
#include "plane/ipvs/plane_ipvs.h"
#include "plane/nft/write.h"

/* Some expressions are for certain hooks only. */
static const struct nft_chain on_input = { NFT_TRY_CHAIN, "filter", NF_INET_LOCAL_IN, 0, NULL };
static const struct nft_chain on_dnat = { NFT_TRY_CHAIN, "nat", NF_INET_PRE_ROUTING,
					  NF_IP_PRI_NAT_DST, NULL };
static const struct nft_chain on_snat = { NFT_TRY_CHAIN, "nat", NF_INET_POST_ROUTING,
					  NF_IP_PRI_NAT_SRC, NULL };
static const struct nft_chain on_route = { NFT_TRY_CHAIN, "route", NF_INET_LOCAL_OUT,
					   NF_IP_PRI_MANGLE, NULL };

/* --- one function a feature --- */

static void try_table(struct nft_writer *w)
{
}

static void try_sets(struct nft_writer *w)
{
	nft_write_set(w, IPVSSET_VIPS);
	nft_write_set(w, IPVSSET_POD_CIDRS);
}

static void try_ranges(struct nft_writer *w)
{
	nft_write_set(w, IPVSSET_RANGES);
}

static void expr_map(struct nft_rules *rs, enum ipfam fam)
{
	unsigned int n = nft_addr_words(fam);
	uint8_t proto = fam == IPFAM_V6 ? NFPROTO_IPV6 : NFPROTO_IPV4;

	nft_expr_meta(rs, NFT_META_NFPROTO, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, &proto, sizeof(proto));
	nft_expr_l4protos(rs);
	nft_expr_daddr(rs, fam, 0);
	nft_expr_meta(rs, NFT_META_L4PROTO, n);
	nft_expr_dport(rs, n + 1);
	nft_expr_map(rs, 0, nft_set_desc(IPVSSET_FE, fam)->name);
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
}

static void try_map(struct nft_writer *w)
{
	nft_write_set(w, IPVSSET_FE);
	nft_try_rule(w, NULL, expr_map);
}

static void expr_mark(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_meta(rs, NFT_META_MARK, 0);
	nft_expr_mask_xor(rs, 0, ~IPVS_MARK_MASK, 1);
	nft_expr_meta_set(rs, NFT_META_MARK, 0);
}

static void try_route(struct nft_writer *w)
{
	nft_try_rule(w, &on_route, expr_mark);
}

static void expr_ct(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_ct_direction(rs, 0);
	nft_expr_ct(rs, NFT_CT_STATE, 0);
	nft_expr_ct(rs, NFT_CT_STATUS, 0);
	nft_expr_l4protos(rs);
	nft_expr_ct_original(rs, fam == IPFAM_V6 ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, 0);
	nft_expr_ct_original(rs, NFT_CT_PROTO_DST, nft_addr_words(fam));
}

static void try_ct(struct nft_writer *w)
{
	nft_try_rule(w, NULL, expr_ct);
}

static void expr_fib(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_fib_type(rs, NFTA_FIB_F_DADDR, 0);
}

static void try_fib(struct nft_writer *w)
{
	nft_try_rule(w, &on_input, expr_fib);
}

static void expr_socket(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_socket_wildcard(rs, 0);
}

static void try_socket(struct nft_writer *w)
{
	nft_try_rule(w, &on_input, expr_socket);
}

static void expr_reject(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_reject_port_any(rs);
}

static void try_reject(struct nft_writer *w)
{
	nft_try_rule(w, &on_input, expr_reject);
}

static void expr_masquerade(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_masquerade(rs);
}

static void try_masquerade(struct nft_writer *w)
{
	nft_try_rule(w, &on_snat, expr_masquerade);
}

static void expr_redirect(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_redirect(rs);
}

static void try_redirect(struct nft_writer *w)
{
	nft_try_rule(w, &on_dnat, expr_redirect);
}

static void expr_counter(struct nft_rules *rs, enum ipfam fam)
{
	nft_expr_counter(rs);
}

static void try_counter(struct nft_writer *w)
{
	nft_try_rule(w, NULL, expr_counter);
}

#define SAME(options)                \
	{                            \
		(options), (options) \
	}
static const struct nft_feature features[] = {
	{ "tables of both families", SAME("CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET"), try_table },
	{ "sets of addresses and prefixes", SAME("CONFIG_NF_TABLES"), try_sets },
	{ "sets of concatenated ranges", SAME("CONFIG_NF_TABLES of Linux 5.6"), try_ranges },
	{ "marks from maps with concatenated keys", SAME("CONFIG_NF_TABLES"), try_map },
	{ "chains that route again", SAME("CONFIG_NF_TABLES_INET of Linux 5.2"), try_route },
	{ "connection tracking", SAME("CONFIG_NFT_CT, CONFIG_NF_CONNTRACK"), try_ct },
	{ "types of addresses", SAME("CONFIG_NFT_FIB, CONFIG_NFT_FIB_INET"), try_fib },
	{ "sockets of packets", SAME("CONFIG_NFT_SOCKET"), try_socket },
	{ "rejecting", SAME("CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_INET"), try_reject },
	{ "masquerading", SAME("CONFIG_NFT_NAT, CONFIG_NFT_MASQ"), try_masquerade },
	{ "redirecting", SAME("CONFIG_NFT_NAT, CONFIG_NFT_REDIR"), try_redirect },
	{ "counters", SAME("CONFIG_NFT_COUNTER"), try_counter },
};
_Static_assert(ARRAY_SIZE(features) <= NFT_TRIES_MAX, "they must fit what callers have");

size_t ipvs_try_features(struct nft_try ret[static NFT_TRIES_MAX], struct nl_sock *nl,
			 enum ipfam fam)
{
	nft_try_list(ret, nl, fam, &ipvs_schema, features, ARRAY_SIZE(features));
	return ARRAY_SIZE(features);
}

/* --- as a whole --- */

static int layout_try(struct nl_sock *nl, const struct ipvs_rules_params *params,
		      const struct model *m, struct err *err)
{
	AUTO(ipvs_layout_close) struct ipvs_layout *l = NULL;
	struct nft_layout_result res = { 0 };
	int r;

	ipvs_layout_open(&l, nl);
	r = ipvs_layout_load(l, err);
	if (r == 0)
		r = ipvs_layout_apply(l, params, m, NULL, &res, err);
	if (r == 0)
		r = ipvs_layout_cleanup(l, err);
	return r;
}

int ipvs_try_layout(struct nl_sock *nl, struct err *err)
{
	struct ipvs_rules_params params[] = {
		{ .detect = DETECT_LOCAL_CLUSTER_CIDR, .has_detector = { true, true } },
		{ .detect = DETECT_LOCAL_BRIDGE, .has_detector = { true, true }, .ifname = "vipd" },
		{ .is_masquerade_all = true },
	};
	struct model m;
	int r = 0;

	model_init(&m);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(params); i++) {
		params[i].marks = ipvs_marks_from(IPVS_MARK_TAG_DEFAULT);
		r = layout_try(nl, &params[i], &m, err);
	}
	model_fini(&m);
	return r;
}

/* The first is the default, mh serves pods at frontends with affinity and policy Local. */
static const char *const scheds[] = { "rr", "mh", "wrr", "lc", "wlc", "sh" };
_Static_assert(ARRAY_SIZE(scheds) <= IPVS_TRIES_MAX, "they must fit what callers have");

size_t ipvs_try_scheds(struct ipvs_try ret[static IPVS_TRIES_MAX], struct ipvs_wire *w)
{
	for (size_t i = 0; i < ARRAY_SIZE(scheds); i++) {
		struct ipvs_op op = { .cmd = IPVS_SERVICE_NEW,
				      .service.key = { .fam = IPFAM_V4, .mark = (uint32_t)i + 1 } };
		size_t n = 0;
		int r;

		memcpy(op.service.sched, scheds[i], strlen(scheds[i]) + 1);
		r = ipvs_wire_send(w, &op, 1, &n, NULL);
		ret[i] = (struct ipvs_try){ scheds[i], r == 0 || !op.is_done ? r : op.result };
	}
	return ARRAY_SIZE(scheds);
}
