/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/rendezvous: which slots change hands, how even shares are, and the kernel's jhash. */
#include "test.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rendezvous.h"
#include "base/util.h"

#define MEMBERS_MAX 1001

static struct rendezvous_member members[MEMBERS_MAX];
static uint16_t table[2][RENDEZVOUS_SLOTS];

/* `n` members of weight 1, other ones for each `series`. */
static void members_make(size_t n, uint32_t series)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t name[] = { htole32(series), htole32(i) };

		members[i] =
			(struct rendezvous_member){ hash_bytes_fixed(name, sizeof(name), 1, 2), 1 };
	}
}

static void shares_count(size_t shares[static MEMBERS_MAX], const uint16_t *t)
{
	memset(shares, 0, MEMBERS_MAX * sizeof(*shares));
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++)
		shares[t[i]]++;
}

static double distance(double x)
{
	return x < 0 ? -x : x;
}

/* Adding a member moves slots to it only: 1/(n+1) of them, by 1 % of all slots at most. */
static void test_member_joins_and_leaves(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 7, 20, 100, 1000 };

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		size_t n = sizes[k];
		size_t moved = 0;

		members_make(n + 1, (uint32_t)k);
		rendezvous_assign(table[0], members, n);
		rendezvous_assign(table[1], members, n + 1);
		for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++) {
			if (table[0][i] == table[1][i])
				continue;
			assert_int_equal(table[1][i], n);
			moved++;
		}
		assert_true(moved > 0);
		assert_true(distance((double)moved / RENDEZVOUS_SLOTS - 1.0 / (double)(n + 1)) <=
			    0.01);
	}
}

/* Any member that leaves gives up its own slots and no other moves. */
static void test_each_member_leaves(void **state)
{
	const size_t n = 12;

	for (size_t gone = 0; gone < n; gone++) {
		members_make(n, 77);
		rendezvous_assign(table[0], members, n);
		members[gone] = members[n - 1];
		rendezvous_assign(table[1], members, n - 1);
		for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++) {
			size_t was = table[0][i] == n - 1 && gone != n - 1 ? gone : table[0][i];

			if (table[0][i] != gone)
				assert_int_equal(table[1][i], was);
		}
	}
}

static void test_order_has_no_effect(void **state)
{
	const size_t n = 50;

	members_make(n, 5);
	members[7].weight = 3;
	rendezvous_assign(table[0], members, n);
	for (size_t i = 0; i < n / 2; i++) {
		struct rendezvous_member m = members[i];

		members[i] = members[n - 1 - i];
		members[n - 1 - i] = m;
	}
	rendezvous_assign(table[1], members, n);
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++)
		assert_int_equal(table[0][i], n - 1 - table[1][i]);
}

/* The variance of a share is half of its mean at most; 40 % of that for chance. */
static void test_shares_are_even(void **state)
{
	static const size_t sizes[] = { 2, 3, 10, 100, 1000 };

	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		double sum = 0, mean = (double)RENDEZVOUS_SLOTS / (double)sizes[k];
		size_t shares[MEMBERS_MAX];

		for (uint32_t series = 0; series < 20; series++) {
			members_make(sizes[k], 100 + series);
			rendezvous_assign(table[0], members, sizes[k]);
			shares_count(shares, table[0]);
			for (size_t i = 0; i < sizes[k]; i++) {
				assert_true(shares[i] > 0);
				sum += ((double)shares[i] - mean) * ((double)shares[i] - mean);
			}
		}
		sum /= 20 * (double)sizes[k];
		assert_true(sum <= 1.4 * mean / 2);
	}
}

/* A share follows the weight, and a higher weight takes slots and gives none. */
static void test_weights(void **state)
{
	size_t shares[MEMBERS_MAX];

	members_make(4, 9);
	members[1].weight = 2;
	members[2].weight = 100;
	members[3].weight = 97;
	rendezvous_assign(table[0], members, 4);
	shares_count(shares, table[0]);
	for (size_t i = 0; i < 4; i++)
		assert_true(distance((double)shares[i] / RENDEZVOUS_SLOTS -
				     members[i].weight / 200.0) < 0.01);
	members[1].weight = 10;
	rendezvous_assign(table[1], members, 4);
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++)
		assert_true(table[1][i] == table[0][i] || table[1][i] == 1);
}

/* More contenders than slots: all slots are assigned, and no rank but the first is reached. */
static void test_more_contenders_than_slots(void **state)
{
	size_t shares[MEMBERS_MAX];

	members_make(1000, 3);
	for (size_t i = 0; i < 1000; i++)
		members[i].weight = i == 0 ? 100 : 99;
	rendezvous_assign(table[0], members, 1000);
	shares_count(shares, table[0]);
	for (size_t i = 0; i < 1000; i++)
		assert_true(shares[i] > 0 && shares[i] < 48);
}

/* Values of a table that never changes: other nodes and later versions agree on the slots. */
static void test_constants(void **state)
{
	struct in_addr v4;
	struct in6_addr v6;
	uint8_t flow[8] = { 0 };
	uint64_t digest;

	members_make(5, 1);
	rendezvous_assign(table[0], members, 5);
	for (size_t i = 0; i < RENDEZVOUS_SLOTS; i++)
		table[1][i] = htole16(table[0][i]);
	digest = hash_bytes_fixed(table[1], sizeof(table[1]), 0, 0);
	assert_true(digest == UINT64_C(0x1ef5c05489a8f2bd));
	/* as packets of these clients met them on Linux 6.18 (tests/net/test_hashing.py) */
	assert_int_equal(inet_pton(AF_INET, "10.0.0.1", &v4), 1);
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &v6), 1);
	assert_int_equal(rendezvous_slot(&v4, 4, 0x76697064), 14764);
	assert_int_equal(rendezvous_slot(&v6, 16, 0x76697064), 1911);
	memcpy(flow, &v4, 4);
	flow[4] = 4242 >> 8;
	flow[5] = 4242 & 0xff;
	assert_int_equal(rendezvous_slot(flow, 8, 0x76697064), 2640);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_joins_and_leaves),
		cmocka_unit_test(test_each_member_leaves),
		cmocka_unit_test(test_order_has_no_effect),
		cmocka_unit_test(test_shares_are_even),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_more_contenders_than_slots),
		cmocka_unit_test(test_constants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
