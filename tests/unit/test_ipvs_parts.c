/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pure parts of the ipvs plane: schedulers, weights, durations, marks. */
#include "plane/ipvs/marks.h"
#include "plane/ipvs/sched.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static const struct {
	const char *text;
	const char *name; /* NULL: refused */
	uint8_t flags;
	const char *why;
} scheds[] = {
	{ "rr", "rr", 0, NULL },
	{ "twos", "twos", 0, NULL },
	{ "mh,mh-fallback,mh-port", "mh", 0x18, NULL },
	{ "sh,sh-port", "sh", 0x10, NULL },
	{ "sh,sh-fallback", "sh", 0x08, NULL },
	{ "", NULL, 0, "unknown scheduler ''" },
	{ "rrr", NULL, 0, "unknown scheduler 'rrr'" },
	{ "r", NULL, 0, "unknown scheduler 'r'" },
	{ "rr,sh-port", NULL, 0, "flag 'sh-port' is not for scheduler 'rr'" },
	{ "mh,", NULL, 0, "'' is not one of sh-fallback, sh-port, mh-fallback, mh-port" },
	{ "mh,flag-3", NULL, 0,
	  "'flag-3' is not one of sh-fallback, sh-port, mh-fallback, mh-port" },
};

static void test_sched(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(scheds); i++) {
		struct ipvs_sched s = { 0 };
		struct err err;

		print_message("    '%s'\n", scheds[i].text);
		assert_int_equal(ipvs_sched_parse(&s, scheds[i].text, &err),
				 scheds[i].name ? 0 : -EINVAL);
		if (scheds[i].name == NULL) {
			assert_string_equal(err.text, scheds[i].why);
			assert_int_equal(s.no, 0); /* untouched */
			continue;
		}
		assert_string_equal(ipvs_sched_name(s.no), scheds[i].name);
		assert_int_equal(ipvs_sched_no(scheds[i].name), s.no);
		assert_int_equal(s.flags, scheds[i].flags);
		assert_int_equal(s.flags & IPVS_FLAG_OURS, 0);
	}
	assert_int_equal(ipvs_sched_no("foo"), 0);
	assert_string_equal(ipvs_sched_name(200), "");
}

static const struct {
	const char *text;
	const char *addr;
	uint16_t weight;
	bool is_good;
} weights[] = {
	{ "10.0.0.1=3,10.0.0.2=0", "10.0.0.1", 3, true },
	{ "10.0.0.1=3,10.0.0.2=0", "10.0.0.2", 0, true },
	{ "10.0.0.1=3,10.0.0.2=0", "10.0.0.3", 1, true },
	{ "fd00::1=65535", "fd00::1", 65535, true },
	{ "10.0.0.1=65536", "10.0.0.1", 1, false },
	{ "10.0.0.1=-1", "10.0.0.1", 1, false },
	{ "10.0.0.1=2x", "10.0.0.1", 1, false },
	{ "10.0.0.1", "10.0.0.1", 1, false },
	{ "10.0.0.1=", "10.0.0.1", 1, false },
	{ "", "10.0.0.1", 1, false },
	{ "x=4,10.0.0.1=5", "10.0.0.1", 5, false },
};

static void test_weights(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(weights); i++) {
		struct ip_addr a = { 0 };

		print_message("    '%s' of %s\n", weights[i].text, weights[i].addr);
		assert_int_equal(ip_addr_parse(&a, weights[i].addr, NULL), 0);
		assert_int_equal(ipvs_weight(weights[i].text, &a), weights[i].weight);
		assert_int_equal(ipvs_weights_check(weights[i].text, NULL) == 0,
				 weights[i].is_good);
	}
}

static const struct {
	const char *text;
	int64_t s; /* -1: refused */
} durations[] = {
	{ "0", 0 },     { "90", 90 },      { "90s", 90 },  { "15m", 900 },
	{ "2h", 7200 }, { "1h30m", 5400 }, { "", -1 },     { "s", -1 },
	{ "-1", -1 },   { "5d", -1 },      { "1.5h", -1 }, { "9999999999", -1 },
};

static void test_durations(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(durations); i++) {
		uint32_t s = 77;
		int r = ipvs_drain_timeout_parse(&s, durations[i].text, NULL);

		print_message("    '%s'\n", durations[i].text);
		assert_int_equal(r, durations[i].s < 0 ? -EINVAL : 0);
		assert_int_equal(s, durations[i].s < 0 ? 77 : durations[i].s);
	}
}

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
	assert_int_equal(ipvs_mark_id(&m, m.tag | IPVS_MARK_REFUSE), 0);
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
		cmocka_unit_test(test_sched),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
