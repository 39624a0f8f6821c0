/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl: the JSON in tests/golden/ctl is printed as the text beside it; tables on narrow terminals.
 * GOLDEN_ACCEPT=1 in the environment writes the texts again: review the difference before a commit.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ctl/run.h"
#include "ctl/show.h"
#include "ctl/value.h"

#define GOLDEN TESTS_DATA "/../golden/ctl/"

static const struct style pipe_style = { 0 };
static const struct style terminal_80 = { .width = 80, .is_utf8 = true };
static const struct style ascii_60 = { .width = 60 };
static const struct style coloured = { .has_colour = true, .is_utf8 = true };

enum what {
	STATUS = 1,
	SERVICES,
	SERVICE,
	TRACE,
	DOCTOR,
	LOG,
};

static const struct {
	const char *text; /* NAME.txt */
	const char *json; /* NAME.json */
	enum what what;
	const struct style *style;
	bool is_wide;
} cases[] = {
	{ "status", "status", STATUS, &pipe_style, false },
	{ "status.wide", "status", STATUS, &pipe_style, true },
	{ "status-problems", "status-problems", STATUS, &pipe_style, false },
	{ "status-waiting", "status-waiting", STATUS, &pipe_style, false },
	{ "services", "services", SERVICES, &pipe_style, false },
	{ "services.wide", "services", SERVICES, &pipe_style, true },
	{ "services.80", "services", SERVICES, &terminal_80, false },
	{ "services.60", "services", SERVICES, &ascii_60, false },
	{ "services.colour", "services", SERVICES, &coloured, false },
	{ "cart", "cart", SERVICE, &pipe_style, false },
	{ "cart-pending", "cart-pending", SERVICE, &terminal_80, false },
	{ "db", "db", SERVICE, &pipe_style, false },
	{ "web", "web", SERVICE, &pipe_style, false },
	{ "web-counts", "web-counts", SERVICE, &pipe_style, false },
	{ "web-undetected", "web-undetected", SERVICE, &pipe_style, false },
	{ "draining", "draining", SERVICE, &pipe_style, false },
	{ "unsticky", "unsticky", SERVICE, &pipe_style, false },
	{ "headless", "headless", SERVICE, &pipe_style, false },
	{ "typo", "typo", SERVICE, &pipe_style, false },
	{ "bad", "bad", SERVICE, &pipe_style, false },
	{ "odd", "odd", SERVICES, &pipe_style, false },
	{ "trace", "trace", TRACE, &pipe_style, false },
	{ "trace.wide", "trace", TRACE, &pipe_style, true },
	{ "trace-dropped", "trace-dropped", TRACE, &pipe_style, false },
	{ "trace-none", "trace-none", TRACE, &coloured, false },
	{ "doctor", "doctor", DOCTOR, &pipe_style, false },
	{ "doctor.colour", "doctor", DOCTOR, &coloured, false },
	{ "doctor-alone", "doctor-alone", DOCTOR, &pipe_style, false },
	{ "log", "log", LOG, &pipe_style, false },
};

static json_t *load(const char *name)
{
	char path[512];
	json_error_t e;
	json_t *json;

	(void)snprintf(path, sizeof(path), GOLDEN "%s.json", name);
	json = json_load_file(path, 0, &e);
	if (json == NULL)
		fail_msg("%s: %s", path, e.text);
	value_clean(json);
	return json;
}

static void test_doctor_exit(void **state)
{
	static const struct {
		const char *worst;
		enum doctor_exit code;
	} worsts[] = {
		{ "ok", DOCTOR_WELL },      { "note", DOCTOR_WELL }, { "warning", DOCTOR_WARNINGS },
		{ "error", DOCTOR_ERRORS }, { "", DOCTOR_ERRORS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(worsts); i++) {
		json_t *answer = json_pack("{s:s}", "worst", worsts[i].worst);

		assert_int_equal(doctor_exit(answer), worsts[i].code);
		json_decref(answer);
	}
}

static void test_golden(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str out = { 0 };
		struct str want = { 0 };
		struct style style = *cases[i].style;
		json_t *json = load(cases[i].json);
		char path[512];

		print_message("    %s\n", cases[i].text);
		style.is_wide = cases[i].is_wide;
		if (cases[i].what == STATUS)
			show_status(&out, json, &style);
		else if (cases[i].what == SERVICES)
			show_services(&out, json, &style);
		else if (cases[i].what == TRACE)
			show_trace(&out, json, &style, NULL);
		else if (cases[i].what == DOCTOR)
			show_doctor(&out, json, &style);
		else if (cases[i].what == LOG)
			show_log(&out, json, &style);
		else
			show_service(&out, json, &style);
		(void)snprintf(path, sizeof(path), GOLDEN "%s.txt", cases[i].text);
		if (getenv("GOLDEN_ACCEPT") != NULL)
			assert_int_equal(file_write(path, str_text(&out), NULL), 0);
		assert_int_equal(file_read(&want, path, SIZE_MAX, NULL), 0);
		assert_string_equal(str_text(&out), str_text(&want));
		json_decref(json);
		str_fini(&out);
		str_fini(&want);
	}
}

/* One endpoint selected by pod, by address, by address and port; and one that does not exist. */
static void test_trace_about(void **state)
{
	static const char *const about[] = { "cart-3", "10.244.1.13", "10.244.1.13:8080" };
	json_t *json = load("trace");
	struct str out = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(about); i++) {
		str_clear(&out);
		show_trace(&out, json, &pipe_style, about[i]);
		assert_non_null(strstr(out.text, "10.244.1.13:8080  cart-3"));
		assert_null(strstr(out.text, "cart-2"));
	}
	str_clear(&out);
	show_trace(&out, json, &pipe_style, "nope");
	assert_non_null(strstr(out.text, "nope is in no slice of the service"));
	assert_true(trace_is_balanced(json));
	str_fini(&out);
	json_decref(json);
}

static void test_is_well(void **state)
{
	static const struct {
		const char *json;
		bool is_well;
	} statuses[] = { { "status", true },
			 { "status-problems", false },
			 { "status-waiting", false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		json_t *json = load(statuses[i].json);

		assert_int_equal(status_is_well(json), statuses[i].is_well);
		json_decref(json);
	}
}

/* No line is wider than the terminal while columns can be cut. */
static void test_fits(void **state)
{
	json_t *json = load("services");

	(void)state;
	for (size_t width = 75; width < 200; width++) {
		struct style style = { .width = width, .is_utf8 = width % 2 };
		struct str out = { 0 };
		char *rest;
		char *line;

		show_services(&out, json, &style);
		rest = out.text;
		while ((line = strsep(&rest, "\n")) != NULL) {
			assert_true(text_width(line) <= width);
			assert_true(*line == '\0' || line[strlen(line) - 1] != ' ');
		}
		str_fini(&out);
	}
	json_decref(json);
}

static void test_columns(void **state)
{
	struct table t = { 0 };
	struct str out = { 0 };

	(void)state;
	table_print(&out, &t, &pipe_style, 0);
	assert_int_equal(out.len, 0);
	table_cell(&t, "NAME", MARK_NONE, "caf\xc3\xa9");
	table_cell(&t, "N", TABLE_RIGHT, "%d", 7);
	table_cell(&t, "LAST", MARK_NONE, "%s", "");
	table_cell(&t, "NAME", MARK_NONE, "longer");
	table_cell(&t, "N", TABLE_RIGHT, "%d", 1000);
	table_cell(&t, "LAST", MARK_NONE, "x y");
	assert_int_equal(table_rows(&t), 2);
	table_print(&out, &t, &pipe_style, 2);
	assert_string_equal(out.text, "  NAME       N  LAST\n"
				      "  caf\xc3\xa9       7\n"
				      "  longer  1000  x y\n");
	str_fini(&out);
	table_fini(&t);
}

static void test_times(void **state)
{
	static const struct {
		json_int_t ms;
		const char *text;
	} times[] = {
		{ 0, "0 ms" },           { 999, "999 ms" },
		{ 1000, "1 s" },         { 59999, "59 s" },
		{ 60000, "1 m 0 s" },    { 3599999, "59 m 59 s" },
		{ 3600000, "1 h 0 m" },  { 86399999, "23 h 59 m" },
		{ 86400000, "1 d 0 h" }, { 950400000, "11 d 0 h" },
	};
	struct str out = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		str_clear(&out);
		say_ms(&out, times[i].ms);
		assert_string_equal(out.text, times[i].text);
	}
	str_clear(&out);
	say_us(&out, 999);
	str_puts(&out, " ");
	say_us(&out, 1250);
	str_puts(&out, " ");
	say_us(&out, 3400000);
	assert_string_equal(out.text, "999 us 1.2 ms 3.4 s");
	str_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trace_about), cmocka_unit_test(test_golden),
		cmocka_unit_test(test_doctor_exit), cmocka_unit_test(test_is_well),
		cmocka_unit_test(test_fits),        cmocka_unit_test(test_columns),
		cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
