/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Annotations of a Service: schedulers, weights, durations. */
#include "model/tuning.h"

#include <errno.h>
#include <stdio.h>
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
	{ "mh", "mh", 0x08, NULL },
	{ "sh,sh-port", "sh", 0x18, NULL },
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
		struct scheduler s = { 0 };
		struct err err;

		print_message("    '%s'\n", scheds[i].text);
		assert_int_equal(scheduler_parse(&s, scheds[i].text, &err),
				 scheds[i].name ? 0 : -EINVAL);
		if (scheds[i].name == NULL) {
			assert_string_equal(err.text, scheds[i].why);
			assert_int_equal(s.no, 0); /* untouched */
			continue;
		}
		assert_string_equal(scheduler_name(s.no), scheds[i].name);
		assert_int_equal(scheduler_no(scheds[i].name), s.no);
		assert_int_equal(s.flags, scheds[i].flags);
	}
	assert_int_equal(scheduler_no("foo"), 0);
	assert_string_equal(scheduler_name(200), "");
}

static const struct {
	const char *text;
	const char *addr;
	const char *pod;   /* or NULL */
	const char *slice; /* or NULL */
	uint8_t weight;
} weights[] = {
	{ "10.0.0.1=3,10.0.0.2=0", "10.0.0.1", NULL, NULL, 3 },
	{ "10.0.0.1=3,10.0.0.2=0", "10.0.0.2", NULL, NULL, 0 },
	{ "10.0.0.1=3,10.0.0.2=0", "10.0.0.3", NULL, NULL, 1 },
	{ "fd00::1=100", "fd00::1", NULL, NULL, 100 },
	{ "10.0.0.1=003", "10.0.0.1", NULL, NULL, 3 },
	{ "web-canary-*=5,*=95", "10.0.0.1", "web-canary-x7", "web-abc", 5 },
	{ "web-canary-*=5,*=95", "10.0.0.1", "web-x7", "web-abc", 95 },
	{ "web-canary-*=5,*=95", "10.0.0.1", NULL, NULL, 95 },
	{ "web-canary-*=5", "10.0.0.1", "web-canary", "web-abc", 1 },
	/* the slice's name counts as the pod's does */
	{ "web-blue-*=0,web-green-*=7", "10.0.0.1", "p-1", "web-blue-hq2", 0 },
	{ "web-blue-*=0,web-green-*=7", "10.0.0.1", NULL, "web-green-b6", 7 },
	/* without '*': the whole name */
	{ "web-1=9", "10.0.0.1", "web-1", NULL, 9 },
	{ "web-1=9", "10.0.0.1", "web-10", NULL, 1 },
	{ "web-1=9", "10.0.0.1", "web", NULL, 1 },
	/* the first match, whatever its kind */
	{ "web-*=2,web-canary-*=5", "10.0.0.1", "web-canary-x", NULL, 2 },
	{ "web-*=2,10.0.0.1=5", "10.0.0.1", "web-x", NULL, 2 },
	{ "10.0.0.1=5,web-*=2", "10.0.0.1", "web-x", NULL, 5 },
	{ "10.0.0.2=1,10.0.0.1=5,10.0.0.1=6", "10.0.0.1", NULL, NULL, 5 },
	{ "web-*=2,web-*=5,web-canary-*=7", "10.0.0.1", "web-canary-x", NULL, 2 },
	{ "web-canary-*=7,*=3,web-*=2", "10.0.0.1", "web-x", NULL, 3 },
	{ "web-canary=7,web=4,web*=6,w*=5", "10.0.0.1", "web-ca", NULL, 6 },
	{ "web-canary=7,web*=6,web=4,w*=5", "10.0.0.1", "web", NULL, 6 },
	{ "web-canary=7,web=4,web*=6,w*=5", "10.0.0.1", "we", "web", 4 },
	{ "web-canary=7,web=4,web*=6,wa*=5", "10.0.0.1", "we", NULL, 1 },
	/* folded by YAML */
	{ " a-*=5,\n  *=95 \n", "10.0.0.1", "b", NULL, 95 },
};

static void test_weights(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(weights); i++) {
		AUTO(weights_close) struct weights *w = NULL;
		const struct name *slice =
			weights[i].slice != NULL ? name_get_str(weights[i].slice) : NULL;
		struct ip_addr a = { 0 };

		print_message("    '%s' of %s\n", weights[i].text, weights[i].addr);
		assert_int_equal(ip_addr_parse(&a, weights[i].addr, NULL), 0);
		assert_int_equal(weights_parse(&w, weights[i].text, NULL), 0);
		assert_int_equal(weights_of(w, &a, weights[i].pod, slice), weights[i].weight);
		name_unref(slice);
	}
	assert_int_equal(weights_of(NULL, &(struct ip_addr){ 0 }, "a", NULL), 1);
}

/* All but weights are parsed at each use: long texts are errors, also if all their words are valid.
 */
static void test_long_texts(void **state)
{
	static const struct {
		const char *begin; /* followed by `more` up to some length */
		const char *more;
		int64_t s; /* as a duration; -1: none */
	} cases[] = {
		{ "mh", ",mh-port", -1 },
		{ "tunnel,gue:", "0", -1 },
		{ "", "0", 0 },
		{ "", "1s", TUNING_TEXT_MAX / 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[TUNING_TEXT_MAX + 16], expected[128];
		size_t n = strlen(cases[i].more);
		size_t len = strlen(strcpy(text, cases[i].begin));
		struct scheduler sched = { 0 };
		uint32_t fwd = 77, s = 77;
		struct err err = { 0 };

		for (; len + n <= TUNING_TEXT_MAX; len += n)
			(void)strcpy(text + len, cases[i].more);
		print_message("    %zu characters, '%.20s...'\n", len, text);
		assert_int_equal(scheduler_parse(&sched, text, NULL), i == 0 ? 0 : -EINVAL);
		assert_int_equal(drain_timeout_parse(&s, text, NULL), cases[i].s < 0 ? -EINVAL : 0);
		assert_int_equal(s, cases[i].s < 0 ? 77 : cases[i].s);
		(void)strcpy(text + len, cases[i].more);
		(void)snprintf(expected, sizeof(expected), "'%.40s...' has more than %d characters",
			       text, TUNING_TEXT_MAX);
		assert_int_equal(scheduler_parse(&sched, text, &err), -EINVAL);
		assert_string_equal(err.text, expected);
		assert_int_equal(drain_timeout_parse(&s, text, &err), -EINVAL);
		assert_string_equal(err.text, expected);
		assert_int_equal(forwarding_parse(&fwd, text, &err), -EINVAL);
		assert_string_equal(err.text, expected);
		assert_int_equal(fwd, 77);
	}
}

static void test_weights_refused(void **state)
{
	static const struct {
		const char *text;
		const char *entry; /* that the error names */
	} bad[] = {
		{ "", "''" },
		{ "10.0.0.1", "'10.0.0.1'" },
		{ "10.0.0.1=", "'10.0.0.1='" },
		{ "=5", "'=5'" },
		{ "10.0.0.1=101", "'10.0.0.1=101'" },
		{ "10.0.0.1=256", "'10.0.0.1=256'" },
		{ "10.0.0.1=-1", "'10.0.0.1=-1'" },
		{ "10.0.0.1=2x", "'10.0.0.1=2x'" },
		{ "a=1,b=4294967297", "'b=4294967297'" },
		{ "a=1,", "''" },
		{ "a=1,, b=2", "''" },
		{ "10.0.0.256=1", "'10.0.0.256=1'" }, /* not a pod of this name */
		{ "10.0.0.*=1", "'10.0.0.*=1'" },
		{ "fd00::x=1", "'fd00::x=1'" },
		{ "web*x=1", "'web*x=1'" },
		{ "Web=1", "'Web=1'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };
		struct weights *w = NULL;

		print_message("    '%s'\n", bad[i].text);
		assert_int_equal(weights_parse(&w, bad[i].text, &err), -EINVAL);
		assert_null(w);
		assert_true(strncmp(err.text, bad[i].entry, strlen(bad[i].entry)) == 0);
	}
}

static size_t n_compared; /* texts */

int __real_memcmp(const void *a, const void *b, size_t n);
int __wrap_memcmp(const void *a, const void *b, size_t n);
int __wrap_memcmp(const void *a, const void *b, size_t n)
{
	n_compared++;
	return __real_memcmp(a, b, n);
}

int __real_strncmp(const char *a, const char *b, size_t n);
int __wrap_strncmp(const char *a, const char *b, size_t n);
int __wrap_strncmp(const char *a, const char *b, size_t n)
{
	n_compared++;
	return __real_strncmp(a, b, n);
}

/* An endpoint of each port of a Service is compared with few of its names. */
static void test_weights_work(void **state)
{
	AUTO(weights_close) struct weights *w = NULL;
	const struct name *slice = name_get_str("web-zzzzz");
	const struct ip_addr a = { .family = AF_INET };
	char text[WEIGHT_NAMES_MAX * 24] = "";
	size_t at = 0;

	for (int i = 1; i < WEIGHT_NAMES_MAX; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "web-%03d%s=%d,", i,
				       i % 2 == 0 ? "*" : "", i % 100);
	(void)snprintf(text + at, sizeof(text) - at, "*=99");
	assert_int_equal(weights_parse(&w, text, NULL), 0);
	n_compared = 0;
	assert_int_equal(weights_of(w, &a, "web-xxxxx", slice), 99);
	assert_int_equal(weights_of(w, &a, "web-254-x", slice), 54);
	assert_in_range(n_compared, 1, 50);
	name_unref(slice);
}

/* BAL-02: so many entries by name; any number by address. */
static void test_weights_number(void **state)
{
	AUTO(weights_close) struct weights *w = NULL, *none = NULL;
	char text[WEIGHT_NAMES_MAX * 16] = "";
	struct err err = { 0 };
	size_t at = 0;

	for (int i = 0; i < WEIGHT_NAMES_MAX; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "a%d=1,", i);
	(void)snprintf(text + at, sizeof(text) - at, "10.0.0.1=2");
	assert_int_equal(weights_parse(&w, text, &err), 0);
	(void)snprintf(text + at, sizeof(text) - at, "*=2");
	assert_int_equal(weights_parse(&none, text, &err), -EINVAL);
	assert_string_equal(err.text, "more than 256 entries by name");
}

static void test_forwarding(void **state)
{
	static const struct {
		const char *text;
		int64_t value;       /* -1: rejected */
		const char *printed; /* NULL: as `text` */
	} cases[] = {
		{ "masquerade", 0, NULL },
		{ "tunnel", 2, NULL },
		{ "route", 3, NULL },
		{ "tunnel,gue", 2 | INT64_C(6080) << 16, "tunnel,gue:6080" },
		{ "tunnel,gue:1", 2 | INT64_C(1) << 16, NULL },
		{ "tunnel,gue:65535", 2 | INT64_C(65535) << 16, NULL },
		{ "", -1, NULL },
		{ "gue", -1, NULL },
		{ "other", -1, NULL },
		{ "tunnel,", -1, NULL },
		{ "tunnel,ipip", -1, NULL },
		{ "tunnel,gue,", -1, NULL },
		{ "tunnel,gue:", -1, NULL },
		{ "tunnel,gue:0", -1, NULL },
		{ "tunnel,gue:-1", -1, NULL },
		{ "tunnel,gue: 1", -1, NULL },
		{ "tunnel,gue:6080x", -1, NULL },
		{ "tunnel,gue:65536", -1, NULL },
		{ "tunnel,gue:18446744073709551617", -1, NULL },
		{ "route,gue", -1, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = cases[i].text;
		char buf[FORWARDING_TEXT_MAX], expected[128];
		struct err err = { 0 };
		uint32_t f = 77;

		print_message("    '%s'\n", text);
		assert_int_equal(forwarding_parse(&f, text, &err),
				 cases[i].value < 0 ? -EINVAL : 0);
		if (cases[i].value < 0) {
			(void)snprintf(expected, sizeof(expected),
				       "'%s' is not one of masquerade, route, tunnel, tunnel,gue, "
				       "tunnel,gue:PORT",
				       text);
			assert_string_equal(err.text, expected);
			assert_int_equal(f, 77);
			continue;
		}
		assert_int_equal(f, cases[i].value);
		assert_string_equal(forwarding_text(f, buf),
				    cases[i].printed != NULL ? cases[i].printed : text);
	}
}

/* One slot may stand for the unit: no endpoint can have a weight between two multiples of it. */
static void test_weights_unit(void **state)
{
	static const struct {
		const char *text;
		uint8_t unit;
	} units[] = {
		{ "a*=5,*=95", 5 }, { "a*=50,b*=0,*=100", 50 }, { "*=100", 100 }, { "*=0", 1 },
		{ "a*=50", 1 },     { "10.0.0.1=0,*=7", 7 },    { "a=6,*=4", 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		AUTO(weights_close) struct weights *w = NULL;

		assert_int_equal(weights_parse(&w, units[i].text, NULL), 0);
		assert_int_equal(weights_unit(w), units[i].unit);
	}
	assert_int_equal(weights_unit(NULL), 1);
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
		int r = drain_timeout_parse(&s, durations[i].text, NULL);

		print_message("    '%s'\n", durations[i].text);
		assert_int_equal(r, durations[i].s < 0 ? -EINVAL : 0);
		assert_int_equal(s, durations[i].s < 0 ? 77 : durations[i].s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sched),           cmocka_unit_test(test_weights),
		cmocka_unit_test(test_weights_refused), cmocka_unit_test(test_weights_unit),
		cmocka_unit_test(test_weights_number),  cmocka_unit_test(test_durations),
		cmocka_unit_test(test_forwarding),      cmocka_unit_test(test_weights_work),
		cmocka_unit_test(test_long_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
