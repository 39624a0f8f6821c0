/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/util.h"

#define SEEDED_K0 UINT64_C(0x12c874a1806f0e3d)
#define SEEDED_K1 UINT64_C(0x470a89d2f9d2784f)

/*
 * SipHash-1-3 of the bytes 0, 1, 2, ... as CPython 3.11 computes it:
 * hash(bytes(range(n))) with PYTHONHASHSEED=0 (the zero key) and with 7.
 */
static const struct {
	uint64_t k0;
	uint64_t k1;
	size_t len;
	uint64_t hash;
} vectors[] = {
	{ 0, 0, 1, UINT64_C(0x68a914128e01e473) },
	{ 0, 0, 3, UINT64_C(0x4d4c9a4a8ef6e0ad) },
	{ 0, 0, 7, UINT64_C(0x2f098ab0c751325a) },
	{ 0, 0, 8, UINT64_C(0xead411e67ebe2eea) },
	{ 0, 0, 9, UINT64_C(0x75927f9d95124362) },
	{ 0, 0, 15, UINT64_C(0xf30eb725bb91c9ea) },
	{ 0, 0, 16, UINT64_C(0x8972188433a5c5b7) },
	{ 0, 0, 31, UINT64_C(0x169739443111d49b) },
	{ 0, 0, 64, UINT64_C(0x75e05fd5bbc870c6) },
	{ SEEDED_K0, SEEDED_K1, 1, UINT64_C(0x7e255bf0210f9775) },
	{ SEEDED_K0, SEEDED_K1, 3, UINT64_C(0x3e839792e48ebc29) },
	{ SEEDED_K0, SEEDED_K1, 7, UINT64_C(0x987cfd95990dd34b) },
	{ SEEDED_K0, SEEDED_K1, 8, UINT64_C(0x8450991e34fe08de) },
	{ SEEDED_K0, SEEDED_K1, 9, UINT64_C(0xa0a0a12bd6c44f35) },
	{ SEEDED_K0, SEEDED_K1, 15, UINT64_C(0x1517e7dc54a43f5b) },
	{ SEEDED_K0, SEEDED_K1, 16, UINT64_C(0x642bba6a6c24ebf5) },
	{ SEEDED_K0, SEEDED_K1, 31, UINT64_C(0xadf091e03303fd2d) },
	{ SEEDED_K0, SEEDED_K1, 64, UINT64_C(0x2128138620d8ef33) },
};

static void test_vectors(void **state)
{
	unsigned char data[64 + 1];

	(void)state;
	for (size_t shift = 0; shift < 2; shift++) { /* aligned and not: the same */
		for (size_t i = 0; i < 64; i++)
			data[i + shift] = (unsigned char)i;
		for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
			assert_true(hash_bytes_fixed(data + shift, vectors[i].len, vectors[i].k0,
						     vectors[i].k1) == vectors[i].hash);
	}
}

/* Without hash_seed() each process has a random key; with it, runs are comparable. */
static void test_seed(void **state)
{
	uint32_t first;
	uint32_t second;

	(void)state;
	hash_seed(1, 2);
	first = hash_bytes("shop", 4);
	assert_int_equal(hash_bytes("shop", 4), first);
	assert_int_equal(first, (uint32_t)hash_bytes_fixed("shop", 4, 1, 2));
	hash_seed(1, 3);
	second = hash_bytes("shop", 4);
	assert_int_not_equal(first, second);
	hash_seed(1, 2);
	assert_int_equal(hash_bytes("shop", 4), first);
}

/* Trailing zero bytes count: the length is part of the hash. */
static void test_length_counts(void **state)
{
	static const char zeros[32];

	(void)state;
	for (size_t a = 0; a < sizeof(zeros); a++)
		for (size_t b = a + 1; b < sizeof(zeros); b++)
			assert_true(hash_bytes_fixed(zeros, a, 1, 2) !=
				    hash_bytes_fixed(zeros, b, 1, 2));
}

/* Changing one bit of input or key changes about half of the output bits. */
static void test_avalanche(void **state)
{
	struct rng rng = { 11 };
	uint64_t turned = 0;
	uint64_t tries = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint64_t in[5];
		uint64_t hash;

		for (size_t i = 0; i < ARRAY_SIZE(in); i++)
			in[i] = rng_next(&rng);
		hash = hash_bytes_fixed(in, 24, in[3], in[4]);
		for (size_t bit = 0; bit < 64 * ARRAY_SIZE(in); bit++) {
			uint64_t other;
			int distance;

			in[bit / 64] ^= UINT64_C(1) << bit % 64;
			other = hash_bytes_fixed(in, 24, in[3], in[4]);
			in[bit / 64] ^= UINT64_C(1) << bit % 64;
			distance = __builtin_popcountll(hash ^ other);
			assert_in_range(distance, 8, 56);
			turned += (uint64_t)distance;
			tries += 64;
		}
	}
	assert_in_range(turned * 1000 / tries, 495, 505);
}

/* Consecutive addresses are distributed over buckets like random ones. */
static void test_spread(void **state)
{
	unsigned int load[1024] = { 0 };
	unsigned int most = 0;

	(void)state;
	hash_seed(1, 2);
	for (uint32_t i = 0; i < 16 * 1024; i++) {
		uint32_t addr = UINT32_C(0x0a000000) + i;

		most = MAX(most, ++load[hash_bytes(&addr, sizeof(addr)) % 1024]);
	}
	assert_in_range(most, 17, 48);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),       cmocka_unit_test(test_seed),
		cmocka_unit_test(test_length_counts), cmocka_unit_test(test_avalanche),
		cmocka_unit_test(test_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
