/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pure parts of the ipvs plane: marks. */
#include "plane/ipvs/marks.h"

#include "test.h"

static void test_marks(void **state)
{
	struct ipvs_marks m = ipvs_marks_from(0x5a);

	assert_int_equal(m.tag, 0x5a000000);
	assert_int_equal(m.birth, 0x5b000000);
	assert_int_equal(ipvs_mark_pool(&m, 7, PLAN_SCOPE_CLUSTER), 0x5a000007);
	assert_int_equal(ipvs_mark_pool(&m, 7, PLAN_SCOPE_LOCAL), 0x5a800007);
	assert_int_equal(ipvs_mark_id(&m, 0x5a800007), 7);
	assert_int_equal(ipvs_mark_id(&m, 0x5a000000), 0);
	assert_int_equal(ipvs_mark_id(&m, 0x5b000007), 0);
	assert_int_equal(ipvs_mark_id(&m, m.tag | IPVS_MARK_REJECT), 0);
	assert_int_equal(ipvs_mark_id(&m, m.tag | IPVS_MARK_DROP), 0);
	for (uint32_t id = 1; id <= PLAN_POOL_ID_MAX; id += id < 70000 ? 1 : 211) {
		uint32_t mark = ipvs_mark_pool(&m, id, PLAN_SCOPE_LOCAL);

		assert_true(ipvs_mark_is_ours(&m, mark) && (mark & IPVS_MARK_LOCAL) != 0);
		assert_int_equal(ipvs_mark_id(&m, mark), id);
	}
	assert_int_equal(ipvs_mark_pool(&m, 0x12345, PLAN_SCOPE_CLUSTER), 0x5a123045);
	assert_int_equal(ipvs_mark_id(&m, ipvs_mark_pool(&m, PLAN_POOL_ID_MAX, 0)),
			 PLAN_POOL_ID_MAX);
	assert_false(ipvs_mark_is_ours(&m, 0x4a000007));
	/* Cilium's: an identity in the upper half, and one of its kinds of mark (0x200 to 0xf00).
	 */
	for (uint32_t kind = 0x100; kind <= 0xf00; kind += 0x100)
		assert_false(ipvs_mark_is_ours(&m, 0x5a070000 | kind) ||
			     ipvs_mark_is_ours(&m, 0x5a000001 | kind));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
