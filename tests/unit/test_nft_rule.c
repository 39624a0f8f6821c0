/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Words that operations of a rule use. tests/kernel/test_kernel_layout.c compares whole rules with
 * those that nft makes of text.
 */
#include "test.h"

#include <stdio.h>

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>

#include "nft/rule.h"

/* Registers of an expression: ">" a word that is written, "<" one that is read. */
static const struct {
	const char *name;
	uint16_t type; /* NFTNL_EXPR_* */
	char sign;
} registers[] = {
	{ "payload", NFTNL_EXPR_PAYLOAD_SREG, '<' },
	{ "payload", NFTNL_EXPR_PAYLOAD_DREG, '>' },
	{ "meta", NFTNL_EXPR_META_SREG, '<' },
	{ "meta", NFTNL_EXPR_META_DREG, '>' },
	{ "ct", NFTNL_EXPR_CT_DREG, '>' },
	{ "rt", NFTNL_EXPR_RT_DREG, '>' },
	{ "fib", NFTNL_EXPR_FIB_DREG, '>' },
	{ "immediate", NFTNL_EXPR_IMM_DREG, '>' },
	{ "numgen", NFTNL_EXPR_NG_DREG, '>' },
	{ "hash", NFTNL_EXPR_HASH_SREG, '<' },
	{ "hash", NFTNL_EXPR_HASH_DREG, '>' },
	{ "bitwise", NFTNL_EXPR_BITWISE_SREG, '<' },
	{ "cmp", NFTNL_EXPR_CMP_SREG, '<' },
	{ "lookup", NFTNL_EXPR_LOOKUP_SREG, '<' },
	{ "lookup", NFTNL_EXPR_LOOKUP_DREG, '>' },
	{ "dynset", NFTNL_EXPR_DYNSET_SREG_KEY, '<' },
	{ "dynset", NFTNL_EXPR_DYNSET_SREG_DATA, '<' },
	{ "nat", NFTNL_EXPR_NAT_REG_ADDR_MIN, '<' },
	{ "nat", NFTNL_EXPR_NAT_REG_PROTO_MIN, '<' },
};

static int expr_print(struct nftnl_expr *e, void *arg)
{
	const char *name = nftnl_expr_get_str(e, NFTNL_EXPR_NAME);
	FILE *f = arg;

	fprintf(f, " %s", name);
	for (size_t i = 0; i < ARRAY_SIZE(registers); i++) {
		uint32_t r;

		if (strcmp(registers[i].name, name) != 0 ||
		    !nftnl_expr_is_set(e, registers[i].type))
			continue;
		r = nftnl_expr_get_u32(e, registers[i].type);
		if (r != NFT_REG_VERDICT) /* 128 bit registers have the words 0, 4, 8, 12 */
			fprintf(f, "%c%u", registers[i].sign,
				r < NFT_REG32_00 ? 4 * (r - NFT_REG_1) : r - NFT_REG32_00);
	}
	return 0;
}

static void expect(enum ipfam fam, const struct nft_op *ops, const char *words)
{
	FINI(nft_rules_fini) struct nft_rules rs = { 0 };
	char text[300] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	nft_rule_add(&rs, fam, ops);
	assert_int_equal(rs.v.n, 1);
	nftnl_expr_foreach(rs.v.v[0].r, expr_print, f);
	fclose(f);
	assert_string_equal(text, words);
}

#define BOTH(v4, v6, ...)                               \
	do {                                            \
		expect(IPFAM_V4, OPS(__VA_ARGS__), v4); \
		expect(IPFAM_V6, OPS(__VA_ARGS__), v6); \
	} while (0)
#define SAME(words, ...) BOTH(words, words, __VA_ARGS__)

static void test_words(void **state)
{
	const char name[IFNAMSIZ] = "cni";

	(void)state;
	/* loads follow one another; behind a use they begin at word 0 */
	BOTH(" payload>0 payload>1 payload>2 lookup<0 masq",
	     " payload>0 payload>4 payload>5 lookup<0 masq", SADDR, DPORT, DADDR,
	     IN(NFTSET_ENDPOINT_ADDRS), MASQUERADE);
	SAME(" payload>0 lookup<0 fib>0 cmp<0 counter immediate", DADDR, IN(NFTSET_CLUSTER_IPS),
	     FIB_TYPE(DADDR, NEQ, LOCAL), COUNTER, DROP);
	SAME(" meta>0 cmp<0 meta>0 cmp<0", META_IS(IIF, EQ, 0), IFNAME(OIFNAME, NEQ, name, true));
	/* two lookups of one key, two uses of one number */
	SAME(" payload>0 lookup<0 lookup<0", DADDR, IN(NFTSET_CLUSTER_IPS), NOT_IN(NFTSET_VIPS));
	SAME(" immediate>0 meta<0 meta<0", META_SET_TO(MARK, 1), META_SET(PRIORITY));
	/* the data of a map begin at word 0 */
	BOTH(" meta>0 lookup<0 meta>0 numgen>1 lookup<0>0 nat<0<1",
	     " meta>0 lookup<0 meta>0 numgen>1 lookup<0>0 nat<0<4", L4PROTOS, META(PRIORITY),
	     RANDOM(7), MAP(NFTSET_ENDPOINTS), DNAT);
	/* a mask changes the last load */
	SAME(" meta>0 payload>1 bitwise<1 lookup<0", META(MARK), SADDR, PREFIX(8),
	     IN(NFTSET_FW_RANGES));
}

static void test_at(void **state)
{
	(void)state;
	/* a set's key, a map's data */
	BOTH(" payload>4 payload>5 dynset<4", " payload>10 payload>14 dynset<10", AT(4, 10), SADDR,
	     SPORT, UPDATE(FAILSET_ANSWERED, 1000));
	BOTH(" meta>0 payload>1 meta>4 dynset<0<4", " meta>0 payload>1 meta>5 dynset<0<5",
	     META(PRIORITY), SADDR, AT(4, 5), META(PRIORITY), ADD(NFTSET_AFFINITY, 1000));
	/* the key of a lookup begins at word 0 */
	SAME(" meta>0 meta>1 dynset<0 meta>1 lookup<0", RETURNS(NFTSET_PAIRS));
	BOTH(" payload>0 payload>1 dynset<0 rt>1 lookup<0",
	     " payload>0 payload>4 dynset<0 rt>4 lookup<0", NEIGHBOUR(NFTSET_HOPS));
	BOTH(" meta>0 payload>2 payload>3 hash<2>1 lookup<0>0",
	     " meta>0 payload>2 payload>6 hash<2>1 lookup<0>0", META(PRIORITY), AT(2, 2), SADDR,
	     SPORT, JHASH(7, 1), MAP(NFTSET_ENDPOINTS));
}

static void test_when(void **state)
{
	(void)state;
	SAME(" meta>0 cmp<0 immediate", WHEN(true, L4PROTO(IPPROTO_TCP)), WHEN(false, COUNTER),
	     DROP);
	SAME(" payload>0 lookup<0", WHEN(true, WHEN(true, SADDR), WHEN(false, SPORT)),
	     IN(NFTSET_POD_CIDRS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_at),
		cmocka_unit_test(test_when),
	};

	return cmocka_run_group_tests_name("nft rule", tests, NULL, NULL);
}
