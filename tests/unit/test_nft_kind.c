/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kinds of pick chains: classes, names, adoption. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "nft/kind.h"

static int reset(void **state)
{
	nft_kind_reset();
	return 0;
}

static const struct {
	size_t n;
	uint16_t kind;
	const char *chain;
	uint32_t slots;
	uint32_t safe;
} plain_cases[] = {
	{ 1, 1, "p1", 1, 1 },
	{ 64, 64, "p64", 64, 64 },
	{ 65, 0x400, "c72", 72, 65 },
	{ 72, 0x400, "c72", 72, 65 },
	{ 73, 0x401, "c81", 81, 73 },
	{ 82, 0x402, "c92", 92, 82 },
	{ 65536, 0x43a, "c65536", 65536, 61701 },
	{ 1000000, 0x43a, "c65536", 65536, 61701 }, /* balanced over the first 65536 */
};

static void test_plain(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain_cases); i++) {
		char buf[NFT_CHAIN_NAME_MAX];
		struct nft_kind_info info;
		uint16_t kind = nft_pool_class(plain_cases[i].n, 0);

		print_message("    %zu backends: 0x%x\n", plain_cases[i].n, kind);
		assert_int_equal(kind, plain_cases[i].kind);
		assert_string_equal(nft_kind_chain(kind, buf), plain_cases[i].chain);
		info = nft_kind_info(kind);
		assert_true(info.slots > 0);
		assert_int_equal(info.slots, plain_cases[i].slots);
		assert_int_equal(info.safe_slots, plain_cases[i].safe);
		assert_int_equal(info.affinity_s, 0);
		assert_int_equal(nft_kind_adopt(kind, plain_cases[i].chain), 0);
	}
}

/* Every size is in a class that is large enough; the next class begins one above its bound. */
static void test_classes_cover(void **state)
{
	uint16_t before = 0;
	uint32_t bound = NFT_KIND_EXACT_MAX;

	for (size_t n = NFT_KIND_EXACT_MAX + 1; n <= NFT_POOL_SLOTS_MAX; n++) {
		struct nft_kind_info info;
		uint16_t kind = nft_pool_class(n, 0);

		if (kind == before)
			continue;
		info = nft_kind_info(kind);
		assert_true(info.slots > 0);
		assert_int_equal(info.safe_slots, n);
		assert_int_equal(n, bound + 1);
		assert_true(info.slots >= n && info.slots <= n + n / 8 + 1);
		bound = info.slots;
		before = kind;
	}
	assert_int_equal(bound, NFT_POOL_SLOTS_MAX);
}

static void test_affinity(void **state)
{
	char buf[NFT_CHAIN_NAME_MAX];
	struct nft_kind_info info;
	uint16_t a = nft_pool_class(3, 10800);
	uint16_t b = nft_pool_class(3, 60);
	uint16_t c = nft_pool_class(70, 10800);

	assert_int_equal(a, NFT_KIND_AFFINITY);
	assert_int_equal(b, NFT_KIND_AFFINITY + 1);
	assert_int_equal(c, NFT_KIND_AFFINITY + 2);
	assert_int_equal(nft_pool_class(3, 10800), a);
	assert_int_equal(nft_pool_class(66, 10800), c); /* the same class */
	assert_string_equal(nft_kind_chain(a, buf), "a3-10800");
	assert_string_equal(nft_kind_chain(c, buf), "a72-10800");
	info = nft_kind_info(c);
	assert_true(info.slots > 0);
	assert_int_equal(info.slots, 72);
	assert_int_equal(info.safe_slots, 65);
	assert_int_equal(info.affinity_s, 10800);
	assert_null(nft_kind_chain(NFT_KIND_AFFINITY + 3, buf));
}

static const struct {
	const char *what;
	uint16_t kind;
	const char *name;
	int ret;
} adopt_cases[] = {
	{ "new", 0x805, "a3-10800", 0 },
	{ "again", 0x805, "a3-10800", 0 },
	{ "same number, other chain", 0x805, "a4-10800", -EEXIST },
	{ "same chain, other number", 0x806, "a3-10800", -EEXIST },
	{ "class bound", 0x806, "a72-10800", 0 },
	{ "no class bound", 0x807, "a73-10800", -EINVAL },
	{ "no slots", 0x807, "a0-10800", -EINVAL },
	{ "no seconds", 0x807, "a3-", -EINVAL },
	{ "leading zero", 0x807, "a3-060", -EINVAL },
	{ "sign", 0x807, "a-3-60", -EINVAL },
	{ "overflow", 0x807, "a3-4294967296", -EINVAL },
	{ "trailing text", 0x807, "a3-60x", -EINVAL },
	{ "coarse", 0x807, "b6-10800", 0 },
	{ "coarse, no such size", 0x808, "b5-10800", -EINVAL },
	{ "coarse, no such timeout", 0x808, "b6-10801", -EINVAL },
	{ "no affinity chain", 0x807, "p3", -EINVAL },
	{ "plain", 3, "p3", 0 },
	{ "plain, wrong name", 3, "p4", -EINVAL },
	{ "reject", NFT_KIND_REJECT, "reject_conn", 0 },
	{ "none", 0, "p0", -EINVAL },
	{ "between the ranges", 0x300, "p768", -EINVAL },
	{ "beyond the last class", 0x43b, "c73728", -EINVAL },
};

static void test_adopt(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(adopt_cases); i++) {
		print_message("    %s\n", adopt_cases[i].what);
		assert_int_equal(nft_kind_adopt(adopt_cases[i].kind, adopt_cases[i].name),
				 adopt_cases[i].ret);
	}
	/* Adopted numbers are returned again; others get free numbers. */
	assert_int_equal(nft_pool_class(3, 10800), 0x805);
	for (uint32_t t = 1; t <= 5; t++)
		assert_int_equal(nft_pool_class(1, t), NFT_KIND_AFFINITY + t - 1);
	assert_int_equal(nft_pool_class(1, 6), 0x808);
}

/* Services with any number of sizes and timeouts do not deprive others of affinity. */
static void test_scarce(void **state)
{
	static const struct {
		size_t n;
		uint32_t affinity_s;
		const char *chain;
	} cases[] = {
		{ 1, 50000, "a1-50000" }, /* the last exact one */
		{ 1, 3, "b1-10" },          { 5, 10800, "b6-10800" },
		{ 5, 10801, "b6-14400" },   { 6, 10800, "b6-10800" },
		{ 70, 86400, "b96-86400" }, { 4095, 10800, "b4096-10800" },
		{ 2, 1, "a2-1" },
	};
	struct nft_kind_info info;
	char buf[NFT_CHAIN_NAME_MAX];
	size_t n_coarse = 0;

	for (uint32_t t = 1; t <= 1514; t++)
		assert_int_equal(nft_pool_class(2, t), NFT_KIND_AFFINITY + t - 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(
			nft_kind_chain(nft_pool_class(cases[i].n, cases[i].affinity_s), buf),
			cases[i].chain);
	/* Every service gets affinity, with at least its timeout. */
	for (size_t n = 1; n <= 4095; n = n * 9 / 8 + 1)
		for (uint32_t t = 1; t <= 86400; t = t * 9 / 8 + 1) {
			info = nft_kind_info(nft_pool_class(n, t));
			assert_true(info.slots > 0);
			assert_true(info.affinity_s >= t);
			assert_true(info.affinity_s <= MAX(2 * t, 10U));
			assert_true(info.safe_slots <= n && n <= info.slots);
		}
	for (uint16_t kind = NFT_KIND_AFFINITY; kind < NFT_KIND_AFFINITY_END; kind++) {
		const char *name = nft_kind_chain(kind, buf);

		n_coarse += name != NULL && name[0] == 'b';
		if (name != NULL)
			assert_int_equal(nft_kind_adopt(kind, name), 0);
	}
	assert_true(n_coarse > 300 && n_coarse <= 528);
}

/* The ports of a Service have equal pools: one number for all, also when numbers are used up. */
static void test_equal_pools(void **state)
{
	uint16_t kind;

	for (uint32_t t = 1; nft_kind_count() < 1515; t++)
		(void)nft_pool_class(1, t);
	(void)nft_pool_class(4, 86400);
	kind = nft_pool_class(3, 80000);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(nft_pool_class(3, 80000), kind);
	/* Returned again, it is used; a number that is free again, or adopted, is found. */
	assert_false(nft_kind_is_idle(kind));
	assert_int_equal(nft_pool_class(3, 80000), kind);
	assert_false(nft_kind_is_idle(kind));
	assert_true(nft_kind_is_idle(kind));
	nft_kind_release(NFT_KIND_AFFINITY);
	assert_int_equal(nft_pool_class(3, 80000), NFT_KIND_AFFINITY);
	nft_kind_release(NFT_KIND_AFFINITY);
	assert_int_equal(nft_pool_class(3, 80000), NFT_KIND_AFFINITY);
	assert_int_not_equal(nft_pool_class(9, 70000), NFT_KIND_AFFINITY);
	nft_kind_release(NFT_KIND_AFFINITY);
	assert_int_equal(nft_kind_adopt(NFT_KIND_AFFINITY, "a9-70000"), 0);
	assert_int_equal(nft_pool_class(9, 70000), NFT_KIND_AFFINITY);
}

/* A released number is used for another combination. */
static void test_release(void **state)
{
	char buf[NFT_CHAIN_NAME_MAX];

	for (uint32_t t = 1; t <= 1515; t++)
		assert_int_equal(nft_pool_class(2, t), NFT_KIND_AFFINITY + t - 1);
	assert_false(nft_kind_is_short());
	assert_string_equal(nft_kind_chain(nft_pool_class(3, 600), buf), "b3-600");
	assert_true(nft_kind_is_short());
	assert_int_equal(nft_kind_count(), 1516);
	assert_false(nft_kind_is_idle(NFT_KIND_AFFINITY + 7)); /* asked for */
	assert_true(nft_kind_is_idle(NFT_KIND_AFFINITY + 7));
	nft_kind_release(NFT_KIND_AFFINITY + 7);
	assert_false(nft_kind_is_short());
	assert_false(nft_kind_is_idle(NFT_KIND_AFFINITY + 7)); /* not taken */
	assert_int_equal(nft_class_affinity(NFT_KIND_AFFINITY + 7), 0);
	assert_int_equal(nft_pool_class(3, 600), NFT_KIND_AFFINITY + 7);
	assert_string_equal(nft_kind_chain(NFT_KIND_AFFINITY + 7, buf), "a3-600");
	assert_int_equal(nft_class_affinity(NFT_KIND_AFFINITY + 7), 600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_plain, reset),
		cmocka_unit_test(test_classes_cover),
		cmocka_unit_test_setup(test_affinity, reset),
		cmocka_unit_test_setup(test_adopt, reset),
		cmocka_unit_test_setup(test_scarce, reset),
		cmocka_unit_test_setup(test_release, reset),
		cmocka_unit_test_setup(test_equal_pools, reset),
	};

	return cmocka_run_group_tests_name("nft kind", tests, NULL, NULL);
}
