/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/expr.h"

#include <arpa/inet.h> /* before linux/in.h, which then omits duplicates */
#include <assert.h>
#include <stdio.h> /* libnftnl/expr.h needs FILE */

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/hash.h"
#include "nft/sets.h"
#include "nl/attr.h"

/* Header offsets: RFC 791 section 3.1, RFC 8200 section 3; a port's is that of TCP, UDP, SCTP. */
static const uint32_t saddr_at[IPFAM_N] = { 12, 8 };
static const uint32_t daddr_at[IPFAM_N] = { 16, 24 };
#define IP4_CSUM 10
#define TH_SPORT 0
#define TH_DPORT 2
#define TCP_FLAGS 13 /* RFC 9293 section 3.1 */

/* The largest rule of the layout has 15 expressions and takes about 1 KiB. */
#define RULE_BYTES_MAX 4096

void nft_rules_fini(struct nft_rules *rs)
{
	vec_for_each (r, &rs->v)
		nftnl_rule_free(r->r);
	vec_fini(&rs->v);
}

void nft_rule_begin(struct nft_rules *rs)
{
	struct nftnl_rule *r = nftnl_rule_alloc();

	assert(r != NULL);
	*vec_push(&rs->v) = (struct nft_rule){ .r = r };
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

/* An attribute of an expression: NFTNL_EXPR_* of libnftnl/expr.h. */
struct attr {
	uint16_t type; /* 0: after the last one */
	uint32_t value;
};

static struct nftnl_expr *expr_add(struct nft_rules *rs, const char *name, const struct attr *attrs)
{
	struct nftnl_expr *e = nftnl_expr_alloc(name);

	assert(e != NULL && rs->v.n > 0);
	for (; attrs->type != 0; attrs++)
		nftnl_expr_set_u32(e, attrs->type, attrs->value);
	nftnl_rule_add_expr(rs->v.v[rs->v.n - 1].r, e);
	return e;
}

static const struct attr no_attrs;
/* Append an expression with these attributes. */
#define EXPR(rs, name, ...) expr_add((rs), (name), (const struct attr[]){ __VA_ARGS__, { 0 } })

/* The kernel reports words 0, 4, 8, 12 as the 128 bit registers 1..4: use the same numbers. */
static uint32_t reg(unsigned int word)
{
	assert(word < 16);
	return word % 4 == 0 ? NFT_REG_1 + word / 4 : NFT_REG32_00 + word;
}

static void payload(struct nft_rules *rs, uint32_t base, uint32_t offset, uint32_t len,
		    unsigned int word)
{
	(void)EXPR(rs, "payload", { NFTNL_EXPR_PAYLOAD_BASE, base },
		   { NFTNL_EXPR_PAYLOAD_DREG, reg(word) }, { NFTNL_EXPR_PAYLOAD_OFFSET, offset },
		   { NFTNL_EXPR_PAYLOAD_LEN, len });
}

void nft_expr_saddr(struct nft_rules *rs, enum ipfam fam, unsigned int word)
{
	payload(rs, NFT_PAYLOAD_NETWORK_HEADER, saddr_at[fam], (uint32_t)ip_len(fam), word);
}

void nft_expr_daddr(struct nft_rules *rs, enum ipfam fam, unsigned int word)
{
	payload(rs, NFT_PAYLOAD_NETWORK_HEADER, daddr_at[fam], (uint32_t)ip_len(fam), word);
}

static void addr_set(struct nft_rules *rs, const struct ip_addr *addr, uint32_t offset)
{
	uint32_t len = (uint32_t)ip_len(ip_fam(addr));
	struct nftnl_expr *e = EXPR(rs, "immediate", { NFTNL_EXPR_IMM_DREG, reg(0) });

	nftnl_expr_set(e, NFTNL_EXPR_IMM_DATA, addr->bytes, len);
	e = EXPR(rs, "payload", { NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER },
		 { NFTNL_EXPR_PAYLOAD_SREG, reg(0) }, { NFTNL_EXPR_PAYLOAD_OFFSET, offset },
		 { NFTNL_EXPR_PAYLOAD_LEN, len },
		 { NFTNL_EXPR_PAYLOAD_FLAGS, NFT_PAYLOAD_L4CSUM_PSEUDOHDR });
	if (ip_fam(addr) == IPFAM_V6)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_CSUM_OFFSET, IP4_CSUM);
}

void nft_expr_saddr_set(struct nft_rules *rs, const struct ip_addr *addr)
{
	addr_set(rs, addr, saddr_at[ip_fam(addr)]);
}

void nft_expr_daddr_set(struct nft_rules *rs, const struct ip_addr *addr)
{
	addr_set(rs, addr, daddr_at[ip_fam(addr)]);
}

void nft_expr_sport(struct nft_rules *rs, unsigned int word)
{
	payload(rs, NFT_PAYLOAD_TRANSPORT_HEADER, TH_SPORT, 2, word);
}

void nft_expr_dport(struct nft_rules *rs, unsigned int word)
{
	payload(rs, NFT_PAYLOAD_TRANSPORT_HEADER, TH_DPORT, 2, word);
}

void nft_expr_meta(struct nft_rules *rs, uint32_t key, unsigned int word)
{
	(void)EXPR(rs, "meta", { NFTNL_EXPR_META_KEY, key }, { NFTNL_EXPR_META_DREG, reg(word) });
}

void nft_expr_meta_set(struct nft_rules *rs, uint32_t key, unsigned int word)
{
	(void)EXPR(rs, "meta", { NFTNL_EXPR_META_KEY, key }, { NFTNL_EXPR_META_SREG, reg(word) });
}

void nft_expr_ct(struct nft_rules *rs, uint32_t key, unsigned int word)
{
	(void)EXPR(rs, "ct", { NFTNL_EXPR_CT_KEY, key }, { NFTNL_EXPR_CT_DREG, reg(word) });
}

/* Of the original direction: the destination that the client used. */
static void ct_original(struct nft_rules *rs, uint32_t key, unsigned int word)
{
	struct nftnl_expr *e = EXPR(rs, "ct", { NFTNL_EXPR_CT_KEY, key });

	nftnl_expr_set_u8(e, NFTNL_EXPR_CT_DIR, IP_CT_DIR_ORIGINAL);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, reg(word));
}

void nft_expr_socket_wildcard(struct nft_rules *rs, unsigned int word)
{
	(void)EXPR(rs, "socket", { NFTNL_EXPR_SOCKET_KEY, NFT_SOCKET_WILDCARD },
		   { NFTNL_EXPR_SOCKET_DREG, reg(word) });
}

void nft_expr_icmp_type(struct nft_rules *rs, unsigned int word)
{
	payload(rs, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, word);
}

void nft_expr_number(struct nft_rules *rs, unsigned int word, uint32_t value)
{
	struct nftnl_expr *e = EXPR(rs, "immediate", { NFTNL_EXPR_IMM_DREG, reg(word) });

	nftnl_expr_set_data(e, NFTNL_EXPR_IMM_DATA, &value, sizeof(value));
}

void nft_expr_random(struct nft_rules *rs, unsigned int word, uint32_t modulus)
{
	(void)EXPR(rs, "numgen", { NFTNL_EXPR_NG_DREG, reg(word) },
		   { NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM }, { NFTNL_EXPR_NG_MODULUS, modulus },
		   { NFTNL_EXPR_NG_OFFSET, 0 });
}

void nft_expr_jhash(struct nft_rules *rs, unsigned int word, unsigned int from, uint32_t len,
		    uint32_t modulus, uint32_t seed)
{
	(void)EXPR(rs, "hash", { NFTNL_EXPR_HASH_SREG, reg(from) },
		   { NFTNL_EXPR_HASH_DREG, reg(word) }, { NFTNL_EXPR_HASH_LEN, len },
		   { NFTNL_EXPR_HASH_MODULUS, modulus }, { NFTNL_EXPR_HASH_SEED, seed },
		   { NFTNL_EXPR_HASH_OFFSET, 0 }, { NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS });
}

void nft_expr_mask(struct nft_rules *rs, unsigned int word, uint32_t mask)
{
	nft_expr_mask_xor(rs, word, mask, 0);
}

static void bitwise(struct nft_rules *rs, unsigned int word, const void *mask, const void *bits,
		    uint32_t len)
{
	struct nftnl_expr *e =
		EXPR(rs, "bitwise", { NFTNL_EXPR_BITWISE_SREG, reg(word) },
		     { NFTNL_EXPR_BITWISE_DREG, reg(word) },
		     { NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL }, { NFTNL_EXPR_BITWISE_LEN, len });

	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, mask, len);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, bits, len);
}

void nft_expr_mask_xor(struct nft_rules *rs, unsigned int word, uint32_t mask, uint32_t bits)
{
	bitwise(rs, word, &mask, &bits, sizeof(mask));
}

void nft_expr_mask_addr(struct nft_rules *rs, enum ipfam fam, unsigned int word, unsigned int len)
{
	uint8_t mask[16] = { 0 }, none[16] = { 0 };

	for (unsigned int bit = 0; bit < len; bit++)
		mask[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
	if (len < ip_len(fam) * 8) /* nft writes no mask that keeps all */
		bitwise(rs, word, mask, none, (uint32_t)ip_len(fam));
}

void nft_expr_cmp(struct nft_rules *rs, uint32_t op, unsigned int word, const void *data,
		  uint32_t len)
{
	struct nftnl_expr *e =
		EXPR(rs, "cmp", { NFTNL_EXPR_CMP_SREG, reg(word) }, { NFTNL_EXPR_CMP_OP, op });

	nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, data, len);
}

static struct nftnl_expr *lookup(struct nft_rules *rs, unsigned int word, const char *set)
{
	struct nftnl_expr *e = EXPR(rs, "lookup", { NFTNL_EXPR_LOOKUP_SREG, reg(word) });

	nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set);
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SET_ID, 0);
	return e;
}

void nft_expr_in(struct nft_rules *rs, unsigned int word, const char *set)
{
	(void)lookup(rs, word, set);
}

void nft_expr_not_in(struct nft_rules *rs, unsigned int word, const char *set)
{
	nftnl_expr_set_u32(lookup(rs, word, set), NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
}

void nft_expr_l4protos(struct nft_rules *rs)
{
	struct nftnl_expr *e;

	nft_expr_meta(rs, NFT_META_L4PROTO, 0);
	e = lookup(rs, 0, nft_set_desc_l4protos()->name);
	assert(rs->v.v[rs->v.n - 1].l4protos == NULL);
	rs->v.v[rs->v.n - 1].l4protos = e;
}

void nft_expr_map(struct nft_rules *rs, unsigned int word, const char *map)
{
	nftnl_expr_set_u32(lookup(rs, word, map), NFTNL_EXPR_LOOKUP_DREG, reg(word));
}

void nft_expr_vmap(struct nft_rules *rs, unsigned int word, const char *map)
{
	nftnl_expr_set_u32(lookup(rs, word, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

void nft_expr_dynset(struct nft_rules *rs, uint32_t op, const char *map, unsigned int key,
		     unsigned int data, uint64_t timeout_ms)
{
	struct nftnl_expr *e = EXPR(rs, "dynset", { NFTNL_EXPR_DYNSET_OP, op });

	nftnl_expr_set_str(e, NFTNL_EXPR_DYNSET_SET_NAME, map);
	nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SET_ID, 0);
	nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_KEY, reg(key));
	if (data != NFT_NO_DATA)
		nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_DATA, reg(data));
	if (timeout_ms != 0)
		nftnl_expr_set_u64(e, NFTNL_EXPR_DYNSET_TIMEOUT, timeout_ms);
}

void nft_match_returns(struct nft_rules *rs, const char *pairs)
{
	nft_expr_meta(rs, NFT_META_IIF, 0);
	nft_expr_meta(rs, NFT_META_IIF, 1);
	nft_expr_dynset(rs, NFT_DYNSET_OP_UPDATE, pairs, 0, NFT_NO_DATA, NFT_PAIRS_MS);
	nft_expr_meta(rs, NFT_META_OIF, 1);
	nft_expr_in(rs, 0, pairs);
}

void nft_match_neighbour(struct nft_rules *rs, enum ipfam fam, const char *hops)
{
	unsigned int n = nft_addr_words(fam);
	uint32_t key = fam == IPFAM_V6 ? NFT_RT_NEXTHOP6 : NFT_RT_NEXTHOP4;

	nft_expr_daddr(rs, fam, 0);
	nft_expr_daddr(rs, fam, n);
	nft_expr_dynset(rs, NFT_DYNSET_OP_UPDATE, hops, 0, NFT_NO_DATA, NFT_PAIRS_MS);
	(void)EXPR(rs, "rt", { NFTNL_EXPR_RT_KEY, key }, { NFTNL_EXPR_RT_DREG, reg(n) });
	nft_expr_in(rs, 0, hops);
}

void nft_expr_counter(struct nft_rules *rs)
{
	struct nftnl_expr *e = expr_add(rs, "counter", &no_attrs);

	nftnl_expr_set_u64(e, NFTNL_EXPR_CTR_PACKETS, 0);
	nftnl_expr_set_u64(e, NFTNL_EXPR_CTR_BYTES, 0);
}

void nft_expr_verdict(struct nft_rules *rs, int verdict, const char *chain)
{
	struct nftnl_expr *e = EXPR(rs, "immediate", { NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT },
				    { NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict });

	if (chain != NULL)
		nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, chain);
}

void nft_expr_dnat(struct nft_rules *rs, enum ipfam fam, unsigned int addr, unsigned int port)
{
	(void)EXPR(rs, "nat", { NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT },
		   { NFTNL_EXPR_NAT_FAMILY, nft_family(fam) },
		   { NFTNL_EXPR_NAT_REG_ADDR_MIN, reg(addr) },
		   { NFTNL_EXPR_NAT_REG_PROTO_MIN, reg(port) });
}

void nft_expr_masquerade(struct nft_rules *rs)
{
	(void)EXPR(rs, "masq", { NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY });
}

void nft_expr_redirect(struct nft_rules *rs)
{
	(void)expr_add(rs, "redir", &no_attrs);
}

static void reject(struct nft_rules *rs, uint32_t type, uint8_t code)
{
	struct nftnl_expr *e = EXPR(rs, "reject", { NFTNL_EXPR_REJECT_TYPE, type });

	nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, code);
}

void nft_expr_reject_tcp(struct nft_rules *rs)
{
	reject(rs, NFT_REJECT_TCP_RST, 0);
}

void nft_expr_reject_port(struct nft_rules *rs, enum ipfam fam)
{
	reject(rs, NFT_REJECT_ICMP_UNREACH,
	       fam == IPFAM_V6 ? ICMPV6_PORT_UNREACH : ICMP_PORT_UNREACH);
}

void nft_expr_reject_port_any(struct nft_rules *rs)
{
	reject(rs, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
}

/* --- several expressions --- */

void nft_expr_meta_number(struct nft_rules *rs, uint32_t key, uint32_t value)
{
	nft_expr_number(rs, 0, value);
	nft_expr_meta_set(rs, key, 0);
}

void nft_match_meta(struct nft_rules *rs, uint32_t key, uint32_t op, uint32_t value)
{
	nft_expr_meta(rs, key, 0);
	nft_expr_cmp(rs, op, 0, &value, sizeof(value));
}

void nft_match_family(struct nft_rules *rs, enum ipfam fam)
{
	uint8_t proto = nft_family(fam);

	nft_expr_meta(rs, NFT_META_NFPROTO, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, &proto, sizeof(proto));
}

void nft_match_l4proto(struct nft_rules *rs, uint8_t proto)
{
	nft_expr_meta(rs, NFT_META_L4PROTO, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, &proto, sizeof(proto));
}

void nft_match_ct_bits(struct nft_rules *rs, uint32_t key, uint32_t bits, uint32_t op)
{
	uint32_t none = 0;

	nft_expr_ct(rs, key, 0);
	nft_expr_mask(rs, 0, bits);
	nft_expr_cmp(rs, op, 0, &none, sizeof(none));
}

void nft_match_ct_state(struct nft_rules *rs, uint32_t state)
{
	nft_match_ct_bits(rs, NFT_CT_STATE, state, NFT_CMP_NEQ);
}

void nft_match_reply(struct nft_rules *rs)
{
	const uint8_t reply = IP_CT_DIR_REPLY;

	nft_expr_ct(rs, NFT_CT_DIRECTION, 0);
	nft_expr_cmp(rs, NFT_CMP_EQ, 0, &reply, sizeof(reply));
}

void nft_match_fib_local(struct nft_rules *rs, uint32_t flags, uint32_t op)
{
	uint32_t local = RTN_LOCAL;

	(void)EXPR(rs, "fib", { NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE },
		   { NFTNL_EXPR_FIB_FLAGS, flags }, { NFTNL_EXPR_FIB_DREG, reg(0) });
	nft_expr_cmp(rs, op, 0, &local, sizeof(local));
}

void nft_match_ifname(struct nft_rules *rs, uint32_t key, uint32_t op, const char *name,
		      bool is_prefix)
{
	nft_expr_meta(rs, key, 0);
	nft_expr_cmp(rs, op, 0, name, (uint32_t)(is_prefix ? strnlen(name, IFNAMSIZ) : IFNAMSIZ));
}

void nft_expr_tuple(struct nft_rules *rs, enum ipfam fam)
{
	unsigned int n = nft_addr_words(fam);

	nft_expr_daddr(rs, fam, 0);
	nft_expr_meta(rs, NFT_META_L4PROTO, n);
	nft_expr_dport(rs, n + 1);
}

void nft_expr_original_daddr(struct nft_rules *rs, enum ipfam fam)
{
	ct_original(rs, fam == IPFAM_V6 ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, 0);
}

void nft_expr_original_tuple(struct nft_rules *rs, enum ipfam fam)
{
	unsigned int n = nft_addr_words(fam);

	nft_expr_l4protos(rs);
	nft_expr_original_daddr(rs, fam);
	nft_expr_meta(rs, NFT_META_L4PROTO, n);
	ct_original(rs, NFT_CT_PROTO_DST, n + 1);
}

void nft_expr_related_tuple(struct nft_rules *rs, enum ipfam fam)
{
	unsigned int n = nft_addr_words(fam);

	nft_expr_original_daddr(rs, fam);
	nft_expr_ct(rs, NFT_CT_PROTOCOL, n);
	ct_original(rs, NFT_CT_PROTO_DST, n + 1);
}

void nft_expr_flow(struct nft_rules *rs, enum ipfam fam)
{
	unsigned int n = nft_addr_words(fam);

	nft_expr_saddr(rs, fam, 0);
	nft_expr_sport(rs, n);
	nft_expr_daddr(rs, fam, n + 1);
	nft_expr_dport(rs, 2 * n + 1);
}

void nft_expr_original_flow(struct nft_rules *rs, enum ipfam fam)
{
	unsigned int n = nft_addr_words(fam);

	ct_original(rs, fam == IPFAM_V6 ? NFT_CT_SRC_IP6 : NFT_CT_SRC_IP, 0);
	ct_original(rs, NFT_CT_PROTO_SRC, n);
	ct_original(rs, fam == IPFAM_V6 ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, n + 1);
	ct_original(rs, NFT_CT_PROTO_DST, 2 * n + 1);
}

void nft_match_tcp_flags(struct nft_rules *rs, uint8_t mask, uint32_t op, uint8_t value)
{
	const uint8_t none = 0;

	nft_match_l4proto(rs, IPPROTO_TCP);
	payload(rs, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1, 0);
	bitwise(rs, 0, &mask, &none, sizeof(mask));
	nft_expr_cmp(rs, op, 0, &value, sizeof(value));
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
