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
	static struct log_site site;
	static struct log_site other;
	uint64_t before = log_count(LOG_LEVEL_WARN);

	(void)state;
	for (int i = 0; i < 25; i++)
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "bucket %d", i);
	assert_int_equal(count_lines(written()), 10);
	assert_int_equal(log_count(LOG_LEVEL_WARN), before + 25); /* the metric counts all */
	log_line(&other, LOG_AREA_SYNC, LOG_LEVEL_WARN, "other site");
	assert_string_equal(written(), "<4>sync: other site\n");

	site.refill_ns -= NSEC_PER_SEC; /* a second later */
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "once more");
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "too soon");
	assert_string_equal(written(), "<4>sync: once more (15 like it not shown)\n");

	site.refill_ns -= 3600 * NSEC_PER_SEC; /* an hour later: full, not more than full */
	for (int i = 0; i < 25; i++)
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "full %d", i);
	assert_int_equal(count_lines(written()), LOG_BURST);
	assert_int_equal(log_tick(now_ns() + 7200 * NSEC_PER_SEC), 0);
	(void)written();
}

static unsigned int n_calls;

static void on_pending(void *arg)
{
	assert_ptr_equal(arg, &n_calls);
	n_calls++;
}

/* When nothing like it comes any more, a line of its own says how many, and where to look. */
static void test_told_afterwards(void **state)
{
	static struct log_site site;
	static struct log_site other;
	uint64_t before = log_suppressed(LOG_AREA_SOURCE);
	uint64_t next;

	(void)state;
	log_on_pending(on_pending, &n_calls);
	assert_int_equal(log_tick(now_ns()), 0);
	for (int i = 0; i < 40; i++)
		log_line(&site, LOG_AREA_SOURCE, LOG_LEVEL_WARN, "web.yaml:%d: bad", i);
	for (int i = 0; i < 11; i++)
		log_line(&other, LOG_AREA_PLAN, LOG_LEVEL_NOTICE, "other %d", i);
	assert_int_equal(count_lines(written()), 2 * LOG_BURST);
	assert_int_equal(n_calls, 1);
	assert_int_equal(log_suppressed(LOG_AREA_SOURCE), before + 30);
	next = log_tick(now_ns());
	assert_true(next > now_ns()); /* still noisy */
	assert_string_equal(written(), "");
	assert_int_equal(log_tick(next + NSEC_PER_SEC), 0);
	assert_string_equal(
		written(),
		"<5>plan: 1 more line like \"other 10\" not shown: see vipctl svc --state "
		"conflict\n"
		"<4>source: 30 more lines like \"web.yaml:39: bad\" not shown: see vipctl "
		"status -o json\n");
	assert_int_equal(log_tick(next + 3600 * NSEC_PER_SEC), 0);
	assert_string_equal(written(), "");
	log_on_pending(NULL, NULL);
}

/* What says the same for ever is told of less and less often. */
static void test_tells_are_bounded(void **state)
{
	static struct log_site site;
	size_t n_told = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) { /* one every 10 s */
		log_line(&site, LOG_AREA_NL, LOG_LEVEL_ERR, "the same for ever");
		(void)log_tick(now_ns() + (uint64_t)i * 10 * NSEC_PER_SEC);
		n_told += count_lines(written());
	}
	assert_in_range(n_told, LOG_SAME + 2, 20);
	(void)log_tick(UINT64_MAX);
	(void)written();
}

/* A text that was said before: a few times, then rarely; others are not held back by it. */
static void test_same(void **state)
{
	static struct log_site site[3];

	(void)state;
	for (int i = 0; i < 9; i++) /* from several sites, with other lines between */
		for (int k = 0; k < 3; k++)
			log_line(&site[k], LOG_AREA_MAIN, LOG_LEVEL_WARN, k < 2 ? "same" : "%d", i);
	assert_int_equal(count_lines(written()), LOG_SAME + 9);
	(void)log_tick(UINT64_MAX);
	assert_non_null(strstr(written(), "more lines like \"same\" not shown"));
	for (int i = 0; i < 9; i++) /* who asks for details gets them */
		log_line(&site[0], LOG_AREA_MAIN, LOG_LEVEL_INFO, "same");
	assert_string_equal(written(), "");
	log_level_set_all(LOG_LEVEL_INFO);
	for (int i = 0; i < 5; i++)
		log_line(&site[0], LOG_AREA_MAIN, LOG_LEVEL_INFO, "same");
	assert_int_equal(count_lines(written()), 5);
}

static void test_names(void **state)
{
	(void)state;
	for (int i = LOG_LEVEL_ERR; i <= LOG_LEVEL_DEBUG; i++)
		assert_int_equal(log_level_parse(log_level_text((enum log_level)i)), i);
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
		cmocka_unit_test_setup_teardown(test_told_afterwards, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tells_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same, setup, teardown),
		cmocka_unit_test(test_names),
	};

	/* The journal's form of a line is the one without a clock in it. */
	setenv("JOURNAL_STREAM", "8:1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
