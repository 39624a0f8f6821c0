/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What log_line() writes is read back through a pipe in place of standard error. */
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static int saved_stderr;
static int pipe_read;

static int setup(void **state)
{
	int fds[2];

	(void)state;
	if (pipe(fds) == -1)
		return -1;
	saved_stderr = dup(STDERR_FILENO);
	if (saved_stderr == -1 || dup2(fds[1], STDERR_FILENO) == -1)
		return -1;
	close(fds[1]);
	pipe_read = fds[0];
	log_level_set_all(LOG_LEVEL_NOTICE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (dup2(saved_stderr, STDERR_FILENO) == -1)
		return -1;
	close(saved_stderr);
	close(pipe_read);
	return 0;
}

/* All that was written since the last call. A marker line keeps read() from waiting. */
static const char *written(void)
{
	static char buf[65536];
	size_t len = 0;

	assert_int_equal(write(STDERR_FILENO, "\001", 1), 1);
	do {
		ssize_t n = read(pipe_read, buf + len, sizeof(buf) - len);

		assert_true(n > 0);
		len += (size_t)n;
	} while (buf[len - 1] != '\001');
	buf[len - 1] = '\0';
	return buf;
}

static void test_line(void **state)
{
	struct log_site site = { 0 };

	(void)state;
	log_line(&site, LOG_AREA_SOURCE, LOG_LEVEL_WARN, "service %s: bad", "shop/cart");
	assert_string_equal(written(), "<4>source: service shop/cart: bad\n");
}

/* One event is one line, whatever a name contains. */
static void test_control_characters(void **state)
{
	struct log_site site = { 0 };

	(void)state;
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_ERR, "a\nb\x1b[31mc\td");
	assert_string_equal(written(), "<3>sync: a?b?[31mc?d\n");
}

static void test_long_line(void **state)
{
	struct log_site site = { 0 };
	char text[5000];
	const char *line;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_line(&site, LOG_AREA_MAIN, LOG_LEVEL_ERR, "%s", text);
	line = written();
	assert_in_range(strlen(line), 1000, 2048);
	assert_int_equal(line[strlen(line) - 1], '\n');
	assert_null(strchr(strchr(line, '\n') + 1, '\n'));
}

static void test_levels(void **state)
{
	uint64_t before = log_count(LOG_LEVEL_INFO);

	(void)state;
	log_info(LOG_AREA_PLAN, "hidden");
	assert_string_equal(written(), "");
	assert_int_equal(log_count(LOG_LEVEL_INFO), before); /* below the level: not an event */
	log_level_set(LOG_AREA_PLAN, LOG_LEVEL_INFO);
	log_info(LOG_AREA_PLAN, "shown");
	log_info(LOG_AREA_NL, "hidden");
	assert_string_equal(written(), "<6>plan: shown\n");
	assert_int_equal(log_count(LOG_LEVEL_INFO), before + 1);
	assert_int_equal(log_level_get(LOG_AREA_PLAN), LOG_LEVEL_INFO);
	assert_int_equal(log_level_get(LOG_AREA_NL), LOG_LEVEL_NOTICE);
	log_level_set_all(LOG_LEVEL_ERR);
	log_warn(LOG_AREA_PLAN, "hidden");
	assert_string_equal(written(), "");
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text != '\0'; text++)
		n += *text == '\n';
	return n;
}

/* Ten lines at once, then one a second; the next one through tells how many were lost. */
static void test_bucket(void **state)
{
	struct log_site site = { 0 };
	struct log_site other = { 0 };
	uint64_t before = log_count(LOG_LEVEL_WARN);

	(void)state;
	for (int i = 0; i < 25; i++)
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "again");
	assert_int_equal(count_lines(written()), 10);
	assert_int_equal(log_count(LOG_LEVEL_WARN), before + 25); /* the metric counts all */
	log_line(&other, LOG_AREA_SYNC, LOG_LEVEL_WARN, "other site");
	assert_string_equal(written(), "<4>sync: other site\n");

	site.refill_ns -= NSEC_PER_SEC; /* a second later */
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "again");
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "again");
	assert_string_equal(written(), "<4>sync: again (15 like it not shown)\n");

	site.refill_ns -= 3600 * NSEC_PER_SEC; /* an hour later: full, not more than full */
	for (int i = 0; i < 25; i++)
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "again");
	assert_int_equal(count_lines(written()), 10);
}

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < LOG_AREA_N; i++)
		assert_int_equal(log_area_parse(log_area_text((enum log_area)i)), i);
	assert_int_equal(log_area_parse("nonsense"), -1);
	assert_int_equal(log_area_parse(""), -1);
	assert_int_equal(log_level_parse("error"), LOG_LEVEL_ERR);
	assert_int_equal(log_level_parse("warn"), LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("notice"), LOG_LEVEL_NOTICE);
	assert_int_equal(log_level_parse("info"), LOG_LEVEL_INFO);
	assert_int_equal(log_level_parse("debug"), LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("crit"), -1); /* not one of ours */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_control_characters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bucket, setup, teardown),
		cmocka_unit_test(test_names),
	};

	/* The journal's form of a line is the one without a clock in it. */
	setenv("JOURNAL_STREAM", "8:1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
