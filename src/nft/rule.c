/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nft/rule.h"

#include <assert.h>
#include <stdio.h> /* libnftnl/expr.h needs FILE */

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter/nf_nat.h>
#include <netinet/ip.h>
#include <stddef.h>

/* The rule, and the words that its next operation uses. */
struct nft_cursor {
	struct nft_rule *rule;
	enum ipfam fam;
	unsigned int begin; /* of its key, data or value: 0, or AT() */
	unsigned int last;  /* the first word of the last load */
	unsigned int word;  /* the first word of the next load */
	bool is_used;       /* the words were used: the next load begins at word 0 */
};

static void ops_append(struct nft_cursor *c, const struct nft_op *ops)
{
	for (; ops->append != NULL; ops++)
		ops->append(c, ops);
}

void nft_rule_add(struct nft_rules *rs, enum ipfam fam, const struct nft_op *ops)
{
	struct nft_rule r = { .r = nftnl_rule_alloc() };
	struct nft_cursor c = { .rule = &r, .fam = fam };

	assert(r.r != NULL);
	ops_append(&c, ops);
	*vec_push(&rs->v) = r;
}

/* Of two arguments, one for each family. */
static uint32_t of_family(const struct nft_cursor *c, const struct nft_op *op)
{
	return c->fam == IPFAM_V6 ? op->b : op->a;
}

void nft_op_when(struct nft_cursor *c, const struct nft_op *op)
{
	if (op->a)
		ops_append(c, op->data);
}

void nft_op_at(struct nft_cursor *c, const struct nft_op *op)
{
	c->begin = c->word = of_family(c, op);
	c->is_used = false;
}

/* --- expressions --- */

/* An attribute of an expression: NFTNL_EXPR_* of libnftnl/expr.h. */
struct attr {
	uint16_t type; /* 0: after the last one */
	uint32_t value;
};

static struct nftnl_expr *expr_add(struct nft_cursor *c, const char *name, const struct attr *attrs)
{
	struct nftnl_expr *e = nftnl_expr_alloc(name);

	assert(e != NULL);
	for (; attrs->type != 0; attrs++)
		nftnl_expr_set_u32(e, attrs->type, attrs->value);
	nftnl_rule_add_expr(c->rule->r, e);
	return e;
}

static const struct attr no_attrs;
/* Append an expression with these attributes. */
#define EXPR(c, name, ...) expr_add((c), (name), (const struct attr[]){ __VA_ARGS__, { 0 } })

/* The kernel reports words 0, 4, 8, 12 as the 128 bit registers 1..4: use the same numbers. */
static uint32_t reg(unsigned int word)
{
	assert(word < 16);
	return word % 4 == 0 ? NFT_REG_1 + word / 4 : NFT_REG32_00 + word;
}

#define WORD sizeof(uint32_t)

static unsigned int words(size_t len)
{
	return (unsigned int)((len + WORD - 1) / WORD);
}

/* The register for a load of `len` bytes, behind those that were not used yet. */
static uint32_t load(struct nft_cursor *c, size_t len)
{
	if (c->is_used)
		c->begin = c->word = 0;
	c->is_used = false;
	c->last = c->word;
	c->word += words(len);
	return reg(c->last);
}

/* --- loads --- */

static void payload(struct nft_cursor *c, uint32_t base, uint32_t offset, uint32_t len)
{
	(void)EXPR(c, "payload", { NFTNL_EXPR_PAYLOAD_BASE, base },
		   { NFTNL_EXPR_PAYLOAD_DREG, load(c, len) }, { NFTNL_EXPR_PAYLOAD_OFFSET, offset },
		   { NFTNL_EXPR_PAYLOAD_LEN, len });
}

void nft_op_address(struct nft_cursor *c, const struct nft_op *op)
{
	payload(c, NFT_PAYLOAD_NETWORK_HEADER, of_family(c, op), (uint32_t)ip_len(c->fam));
}

void nft_op_transport(struct nft_cursor *c, const struct nft_op *op)
{
	payload(c, NFT_PAYLOAD_TRANSPORT_HEADER, op->a, op->b);
}

void nft_op_socket_wildcard(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "socket", { NFTNL_EXPR_SOCKET_KEY, NFT_SOCKET_WILDCARD },
		   { NFTNL_EXPR_SOCKET_DREG, load(c, WORD) });
}

void nft_op_nexthop(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "rt", { NFTNL_EXPR_RT_KEY, of_family(c, op) },
		   { NFTNL_EXPR_RT_DREG, load(c, ip_len(c->fam)) });
}

void nft_op_meta(struct nft_cursor *c, const struct nft_op *op)
{
	bool is_name = op->a == NFT_META_IIFNAME || op->a == NFT_META_OIFNAME;

	(void)EXPR(c, "meta", { NFTNL_EXPR_META_KEY, op->a },
		   { NFTNL_EXPR_META_DREG, load(c, is_name ? IFNAMSIZ : WORD) });
}

void nft_op_ct(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "ct", { NFTNL_EXPR_CT_KEY, op->a }, { NFTNL_EXPR_CT_DREG, load(c, WORD) });
}

void nft_op_ct_original(struct nft_cursor *c, const struct nft_op *op)
{
	bool is_port = op->a == op->b; /* addresses have a key for each family */
	struct nftnl_expr *e =
		EXPR(c, "ct", { NFTNL_EXPR_CT_KEY, of_family(c, op) },
		     { NFTNL_EXPR_CT_DREG, load(c, is_port ? WORD : ip_len(c->fam)) });

	nftnl_expr_set_u8(e, NFTNL_EXPR_CT_DIR, IP_CT_DIR_ORIGINAL);
}

void nft_op_fib_type(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "fib", { NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE },
		   { NFTNL_EXPR_FIB_FLAGS, op->a }, { NFTNL_EXPR_FIB_DREG, load(c, WORD) });
}

void nft_op_value(struct nft_cursor *c, const struct nft_op *op)
{
	nftnl_expr_set(EXPR(c, "immediate", { NFTNL_EXPR_IMM_DREG, load(c, op->a) }),
		       NFTNL_EXPR_IMM_DATA, op->data, op->a);
}

void nft_op_random(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "numgen", { NFTNL_EXPR_NG_DREG, load(c, WORD) },
		   { NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM }, { NFTNL_EXPR_NG_MODULUS, op->a },
		   { NFTNL_EXPR_NG_OFFSET, 0 });
}

void nft_op_jhash(struct nft_cursor *c, const struct nft_op *op)
{
	unsigned int from = c->begin, len = 4 * (c->word - from);

	c->begin = 0;
	c->word = from - 1;
	(void)EXPR(c, "hash", { NFTNL_EXPR_HASH_SREG, reg(from) },
		   { NFTNL_EXPR_HASH_DREG, load(c, WORD) }, { NFTNL_EXPR_HASH_LEN, len },
		   { NFTNL_EXPR_HASH_MODULUS, op->a }, { NFTNL_EXPR_HASH_SEED, op->b },
		   { NFTNL_EXPR_HASH_OFFSET, 0 }, { NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS });
}

/* --- changes of the last load --- */

static void bitwise(struct nft_cursor *c, const void *mask, const void *bits, uint32_t len)
{
	struct nftnl_expr *e =
		EXPR(c, "bitwise", { NFTNL_EXPR_BITWISE_SREG, reg(c->last) },
		     { NFTNL_EXPR_BITWISE_DREG, reg(c->last) },
		     { NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL }, { NFTNL_EXPR_BITWISE_LEN, len });

	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, mask, len);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, bits, len);
}

void nft_op_mask_xor(struct nft_cursor *c, const struct nft_op *op)
{
	bitwise(c, &op->a, &op->b, sizeof(op->a));
}

void nft_op_mask_byte(struct nft_cursor *c, const struct nft_op *op)
{
	const uint8_t mask = (uint8_t)op->a, none = 0;

	bitwise(c, &mask, &none, sizeof(mask));
}

void nft_op_prefix(struct nft_cursor *c, const struct nft_op *op)
{
	uint8_t mask[16] = { 0 }, none[16] = { 0 };

	for (unsigned int bit = 0; bit < op->a; bit++)
		mask[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
	if (op->a < ip_len(c->fam) * 8) /* nft writes no mask that keeps all */
		bitwise(c, mask, none, (uint32_t)ip_len(c->fam));
}

/* --- conditions --- */

void nft_op_is(struct nft_cursor *c, const struct nft_op *op)
{
	assert(c->last == 0 && !c->is_used); /* one value was loaded */
	nftnl_expr_set(
		EXPR(c, "cmp", { NFTNL_EXPR_CMP_SREG, reg(0) }, { NFTNL_EXPR_CMP_OP, op->a }),
		NFTNL_EXPR_CMP_DATA, op->data, op->b);
	c->is_used = true;
}

void nft_op_family(struct nft_cursor *c, const struct nft_op *op)
{
	ops_append(c, OPS(META(NFPROTO), IS_BYTE(EQ, nft_family(c->fam))));
}

/* Look the loaded key up. */
static struct nftnl_expr *lookup_desc(struct nft_cursor *c, const struct nft_set_desc *set)
{
	struct nftnl_expr *e = EXPR(c, "lookup", { NFTNL_EXPR_LOOKUP_SREG, reg(0) });

	assert(c->word == words(set->key_len));
	nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set->name);
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SET_ID, 0);
	c->is_used = true;
	return e;
}

static struct nftnl_expr *lookup(struct nft_cursor *c, enum nft_set_id set)
{
	return lookup_desc(c, nft_set_desc(set, c->fam));
}

void nft_op_lookup(struct nft_cursor *c, const struct nft_op *op)
{
	struct nftnl_expr *e = lookup(c, op->b);

	if (op->a == NFT_CMP_NEQ)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
}

void nft_op_l4protos(struct nft_cursor *c, const struct nft_op *op)
{
	assert(c->rule->l4protos == NULL);
	ops_append(c, OPS(META(L4PROTO)));
	c->rule->l4protos = lookup_desc(c, nft_set_desc_l4protos());
}

void nft_op_map(struct nft_cursor *c, const struct nft_op *op)
{
	nftnl_expr_set_u32(lookup(c, op->a), NFTNL_EXPR_LOOKUP_DREG, reg(0));
}

void nft_op_vmap(struct nft_cursor *c, const struct nft_op *op)
{
	nftnl_expr_set_u32(lookup(c, op->a), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

/* --- elements and statements --- */

void nft_op_dynset(struct nft_cursor *c, const struct nft_op *op)
{
	const struct nft_set_desc *set = nft_set_desc(op->b, c->fam);
	struct nftnl_expr *e = EXPR(c, "dynset", { NFTNL_EXPR_DYNSET_OP, op->a });
	bool is_map = set->data_type != 0;

	nftnl_expr_set_str(e, NFTNL_EXPR_DYNSET_SET_NAME, set->name);
	nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SET_ID, 0);
	nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_KEY, reg(is_map ? 0 : c->begin));
	if (is_map)
		nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_DATA, reg(c->begin));
	if (op->timeout_ms != 0)
		nftnl_expr_set_u64(e, NFTNL_EXPR_DYNSET_TIMEOUT, op->timeout_ms);
	c->is_used = true;
}

void nft_op_meta_set(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "meta", { NFTNL_EXPR_META_KEY, op->a },
		   { NFTNL_EXPR_META_SREG, reg(c->begin) });
	c->is_used = true;
}

void nft_op_address_set(struct nft_cursor *c, const struct nft_op *op)
{
	struct nftnl_expr *e =
		EXPR(c, "payload", { NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER },
		     { NFTNL_EXPR_PAYLOAD_SREG, reg(0) },
		     { NFTNL_EXPR_PAYLOAD_OFFSET, of_family(c, op) },
		     { NFTNL_EXPR_PAYLOAD_LEN, (uint32_t)ip_len(c->fam) },
		     { NFTNL_EXPR_PAYLOAD_FLAGS, NFT_PAYLOAD_L4CSUM_PSEUDOHDR });

	c->is_used = true;
	if (c->fam == IPFAM_V6)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_CSUM_OFFSET, offsetof(struct iphdr, check));
}

void nft_op_counter(struct nft_cursor *c, const struct nft_op *op)
{
	struct nftnl_expr *e = expr_add(c, "counter", &no_attrs);

	nftnl_expr_set_u64(e, NFTNL_EXPR_CTR_PACKETS, 0);
	nftnl_expr_set_u64(e, NFTNL_EXPR_CTR_BYTES, 0);
}

void nft_op_dnat(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "nat", { NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT },
		   { NFTNL_EXPR_NAT_FAMILY, nft_family(c->fam) },
		   { NFTNL_EXPR_NAT_REG_ADDR_MIN, reg(0) },
		   { NFTNL_EXPR_NAT_REG_PROTO_MIN, reg(words(ip_len(c->fam))) });
}

void nft_op_masquerade(struct nft_cursor *c, const struct nft_op *op)
{
	(void)EXPR(c, "masq", { NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY });
}

void nft_op_redirect(struct nft_cursor *c, const struct nft_op *op)
{
	(void)expr_add(c, "redir", &no_attrs);
}

void nft_op_reject(struct nft_cursor *c, const struct nft_op *op)
{
	nftnl_expr_set_u8(EXPR(c, "reject", { NFTNL_EXPR_REJECT_TYPE, op->a }),
			  NFTNL_EXPR_REJECT_CODE, (uint8_t)op->b);
}

void nft_op_reject_port(struct nft_cursor *c, const struct nft_op *op)
{
	uint32_t code = c->fam == IPFAM_V6 ? ICMPV6_PORT_UNREACH : ICMP_PORT_UNREACH;

	ops_append(c, OPS(OP(reject, NFT_REJECT_ICMP_UNREACH, code)));
}

void nft_op_verdict(struct nft_cursor *c, const struct nft_op *op)
{
	struct nftnl_expr *e = EXPR(c, "immediate", { NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT },
				    { NFTNL_EXPR_IMM_VERDICT, op->a });

	if (op->data != NULL)
		nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, op->data);
}
