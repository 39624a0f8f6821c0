/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/expr.h"

#include <netinet/in.h> /* before linux/in.h, which then omits duplicates */

#include <assert.h>
#include <stdio.h> /* libnftnl/rule.h needs FILE */

#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/xt_conntrack.h>
#include <string.h>

#include "base/hash.h"
#include "nl/attr.h"

/* Header offsets: RFC 791 section 3.1, RFC 8200 section 3. */
static const uint32_t saddr_at[IPFAM_N] = { 12, 8 };
static const uint32_t daddr_at[IPFAM_N] = { 16, 24 };

/* The largest rule of the layout has 15 expressions and takes about 1 KiB. */
#define RULE_BYTES_MAX 4096

void nft_rules_fini(struct nft_rules *rs)
{
	vec_for_each (r, &rs->v)
		nftnl_rule_free(r->r);
	vec_fini(&rs->v);
}

/* The verdict of an expression "immediate", or NULL. */
static const struct nlattr *verdict_of(const struct nlattr *data)
{
	return nl_attr_find(nl_attr_find(data, NFTA_IMMEDIATE_DATA), NFTA_DATA_VERDICT);
}

const char *nft_target(const struct nlattr *expressions)
{
	nl_attr_for_each (e, expressions) {
		const char *chain = nl_attr_str(nl_attr_find(
			verdict_of(nl_attr_find(e, NFTA_EXPR_DATA)), NFTA_VERDICT_CHAIN));

		if (strcmp(nl_attr_str(nl_attr_find(e, NFTA_EXPR_NAME)), "immediate") == 0 &&
		    chain[0] != '\0')
			return chain;
	}
	return NULL;
}

uint64_t nft_target_hash(const struct nlattr *expressions)
{
	const char *chain = nft_target(expressions);

	return chain != NULL ? hash_bytes_fixed(chain, strlen(chain), 0, 2) : 0;
}

void nft_rules_hash(struct nft_rules *rs)
{
	vec_for_each (r, &rs->v) {
		const struct nlattr *tb[NFTA_RULE_MAX + 1];
		char buf[RULE_BYTES_MAX] = { 0 }; /* libmnl does not clear the padding */
		struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
		const struct nlattr *exprs;

		/* The anonymous set's id is still unset: it is not part of the hash. */
		nftnl_rule_nlmsg_build_payload(h, r->r);
		assert(h->nlmsg_len <= sizeof(buf));
		nl_attr_table(tb, NFTA_RULE_MAX, h, 0);
		exprs = tb[NFTA_RULE_EXPRESSIONS];
		assert(exprs != NULL);
		r->hash = hash_bytes_fixed(mnl_attr_get_payload(exprs),
					   mnl_attr_get_payload_len(exprs), 0x76697064, 1);
		r->hash |= r->hash == 0;
		r->target = nft_target_hash(exprs);
	}
}

uint64_t nft_counter(const struct nlattr *expression, uint16_t type)
{
	if (strcmp(nl_attr_str(nl_attr_find(expression, NFTA_EXPR_NAME)), "counter") != 0)
		return 0;
	return nl_attr_be64(nl_attr_find(nl_attr_find(expression, NFTA_EXPR_DATA), type), 0);
}

/* --- rules of other programs --- */

static uint32_t verdict_code(const struct nlattr *data)
{
	return nl_attr_be32(nl_attr_find(verdict_of(data), NFTA_VERDICT_CODE), UINT32_MAX);
}

/* Neither a condition nor a verdict. A comment of iptables is a match. */
static bool is_remark(const char *name, const struct nlattr *data)
{
	return strcmp(name, "counter") == 0 || strcmp(name, "log") == 0 ||
	       (strcmp(name, "match") == 0 &&
		strcmp(nl_attr_str(nl_attr_find(data, NFTA_MATCH_NAME)), "comment") == 0);
}

/* The name of the first expression that is no remark; "": there is none. */
static const char *first_effect(const struct nlattr *expressions, const struct nlattr **data)
{
	nl_attr_for_each (e, expressions) {
		const char *name = nl_attr_str(nl_attr_find(e, NFTA_EXPR_NAME));

		*data = nl_attr_find(e, NFTA_EXPR_DATA);
		if (!is_remark(name, *data))
			return name;
	}
	return "";
}

const struct nlattr *nft_cmp_value(const struct nlattr *data)
{
	return nl_attr_find(nl_attr_find(data, NFTA_CMP_DATA), NFTA_DATA_VALUE);
}

bool nft_rejects_all(const struct nlattr *expressions)
{
	const struct nlattr *data = NULL;
	const char *name = first_effect(expressions, &data);

	if (strcmp(name, "target") == 0)
		return strcmp(nl_attr_str(nl_attr_find(data, NFTA_TARGET_NAME)), "REJECT") == 0;
	return strcmp(name, "reject") == 0 ||
	       (strcmp(name, "immediate") == 0 && verdict_code(data) == NF_DROP);
}

bool nft_is_unconditional(const struct nlattr *expressions)
{
	const struct nlattr *data = NULL;

	return strcmp(first_effect(expressions, &data), "immediate") == 0 &&
	       verdict_of(data) != NULL;
}

#define ACCEPTS_PREFIX (NFT_ACCEPTS_ESTABLISHED | NFT_ACCEPTS_NEW)

/* The condition of a rule, as far as it was read. */
struct condition {
	const char *load; /* the expression that loads what is compared; NULL: no condition */
	uint32_t key;     /* of "ct" */
	uint32_t mask;    /* 0: the whole value is compared */
	unsigned int accepts;
};

/* xt_conntrack has the bits of nft. */
static unsigned int state_accepts(uint32_t states)
{
	return ((states & NFT_CT_STATE_ESTABLISHED) != 0 ? NFT_ACCEPTS_ESTABLISHED : 0U) |
	       ((states & NFT_CT_STATE_NEW) != 0 ? NFT_ACCEPTS_NEW : 0U);
}

static unsigned int xt_accepts(const struct nlattr *data)
{
	const struct xt_conntrack_mtinfo2 *info =
		nl_attr_bytes(nl_attr_find(data, NFTA_MATCH_INFO), sizeof(*info));

	if (strcmp(nl_attr_str(nl_attr_find(data, NFTA_MATCH_NAME)), "conntrack") != 0 ||
	    info == NULL || info->invert_flags != 0 ||
	    (info->match_flags & ~XT_CONNTRACK_STATE_ALIAS) != XT_CONNTRACK_STATE)
		return 0;
	return state_accepts(info->state_mask) |
	       ((info->state_mask & XT_CONNTRACK_STATE_DNAT) != 0 ? NFT_ACCEPTS_DNAT : 0U);
}

/* Loads a source or destination address, or the first bytes of it. */
static bool is_addr(const struct nlattr *data)
{
	uint32_t offset = nl_attr_be32(nl_attr_find(data, NFTA_PAYLOAD_OFFSET), 0);

	return nl_attr_be32(nl_attr_find(data, NFTA_PAYLOAD_BASE), UINT32_MAX) ==
		       NFT_PAYLOAD_NETWORK_HEADER &&
	       (offset == saddr_at[IPFAM_V4] || offset == daddr_at[IPFAM_V4] ||
		offset == saddr_at[IPFAM_V6] || offset == daddr_at[IPFAM_V6]);
}

static unsigned int cmp_accepts(const struct condition *c, const struct nlattr *data)
{
	bool is_equal = nl_attr_be32(nl_attr_find(data, NFTA_CMP_OP), NFT_CMP_EQ) == NFT_CMP_EQ;
	const struct nlattr *value = nft_cmp_value(data);
	uint32_t bits = is_equal ? nl_attr_u32(value, 0) : c->mask;

	if (strcmp(c->load, "payload") == 0)
		return is_equal && c->mask != 0 ? ACCEPTS_PREFIX : 0U;
	if (c->key == NFT_CT_STATE)
		return state_accepts(bits);
	return c->key == NFT_CT_STATUS && (bits & IPS_DST_NAT) != 0 ? NFT_ACCEPTS_DNAT : 0U;
}

/* False: the rule has another condition. */
static bool condition_add(struct condition *c, const char *name, const struct nlattr *data)
{
	if (strcmp(name, "bitwise") == 0) {
		c->mask = nl_attr_u32(
			nl_attr_find(nl_attr_find(data, NFTA_BITWISE_MASK), NFTA_DATA_VALUE), 0);
	} else if (strcmp(name, "cmp") == 0 && c->load != NULL) {
		c->accepts = cmp_accepts(c, data);
	} else if (strcmp(name, "lookup") == 0 && c->load != NULL) { /* the set was not read */
		c->accepts = strcmp(c->load, "payload") == 0 ? ACCEPTS_PREFIX
			     : c->key == NFT_CT_STATE        ? NFT_ACCEPTS_ESTABLISHED
							     : 0U;
	} else if (c->load != NULL) {
		return false;
	} else if (strcmp(name, "match") == 0) {
		c->accepts = xt_accepts(data);
	} else if (strcmp(name, "payload") == 0) {
		uint32_t len = nl_attr_be32(nl_attr_find(data, NFTA_PAYLOAD_LEN), 0);

		c->mask = len != 4 && len != 16; /* the first bytes of an address */
		c->accepts = 0;
		if (!is_addr(data))
			return false;
	} else {
		c->key = nl_attr_be32(nl_attr_find(data, NFTA_CT_KEY), UINT32_MAX);
		c->accepts = 0;
		if (strcmp(name, "ct") != 0)
			return false;
	}
	if (c->load == NULL)
		c->load = name;
	return true;
}

unsigned int nft_accepts(const struct nlattr *expressions)
{
	struct condition c = { .accepts = NFT_ACCEPTS_ALL };

	nl_attr_for_each (e, expressions) {
		const char *name = nl_attr_str(nl_attr_find(e, NFTA_EXPR_NAME));
		const struct nlattr *data = nl_attr_find(e, NFTA_EXPR_DATA);

		if (strcmp(name, "immediate") == 0)
			return verdict_code(data) == NF_ACCEPT ? c.accepts : 0;
		if (!is_remark(name, data) && !condition_add(&c, name, data))
			return 0;
		if (strcmp(name, "lookup") == 0 && nl_attr_find(data, NFTA_LOOKUP_DREG) != NULL)
			return c.accepts; /* a verdict map */
	}
	return 0;
}
