/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The output of log_line() is read through a pipe in place of standard error. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static int saved_stderr;
static int pipe_read;

static int journal_set(int fd)
{
	struct stat st;
	char text[64];

	if (fstat(fd, &st) == -1)
		return -1;
	(void)snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		       (unsigned long long)st.st_ino);
	return setenv("JOURNAL_STREAM", text, 1);
}

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
	log_format_set(LOG_FORMAT_TEXT);
	/* The journal's format of a line has no time. */
	return journal_set(STDERR_FILENO);
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

/* Output since the last call. A marker line keeps read() from blocking. */
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

/* One event is one line, with any characters in names. */
static void test_control_characters(void **state)
{
	struct log_site site = { 0 };

	(void)state;
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_ERR, "a\nb\x1b[31mc\td");
	assert_string_equal(written(), "<3>sync: a?b?[31mc?d\n");
	/* C1, an override of direction, a line separator, a byte that is no UTF-8; an umlaut stays
	 */
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_ERR, "\x7f\xc2\x9b|\u202e|\u2028|\xff|\u00e4");
	assert_string_equal(written(), "<3>sync: ??|?|?|?|\u00e4\n");
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

/* Ten lines at once, then one per second; the next line has the number of suppressed ones. */
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

	site.bucket_ns -= NSEC_PER_SEC; /* a second later */
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "once more");
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "too soon");
	assert_string_equal(written(), "<4>sync: once more (15 like it not shown)\n");

	site.bucket_ns = 1; /* long ago: full, not more than full */
	for (int i = 0; i < 25; i++)
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "full %d", i);
	assert_int_equal(count_lines(written()), LOG_BURST);
	assert_int_equal(log_tick(now_ns() + 7200 * NSEC_PER_SEC), 0);
	(void)written();
}

static unsigned int n_calls;
static uint64_t expected_wait_ns = LOG_QUIET_NS;

static void on_pending(void *arg, uint64_t wait_ns)
{
	assert_ptr_equal(arg, &n_calls);
	assert_int_equal(wait_ns, expected_wait_ns);
	n_calls++;
}

/* When a site stays silent, a separate line has the number and the command that shows details. */
static void test_reported_afterwards(void **state)
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
		log_line(&other, LOG_AREA_SYNC, LOG_LEVEL_NOTICE, "other %d", i);
	assert_int_equal(count_lines(written()), 2 * LOG_BURST);
	assert_int_equal(n_calls, 1);
	assert_int_equal(log_suppressed(LOG_AREA_SOURCE), before + 30);
	next = log_tick(now_ns());
	assert_true(next > now_ns()); /* still noisy */
	assert_string_equal(written(), "");
	assert_int_equal(log_tick(next + NSEC_PER_SEC), 0);
	assert_string_equal(
		written(),
		"<5>sync: 1 more line like \"other 10\" not shown: see vipctl svc --state "
		"conflict,rejected,pending\n"
		"<4>source: 30 more lines like \"web.yaml:39: bad\" not shown: see vipctl "
		"status -o json\n");
	assert_int_equal(log_tick(next + 3600 * NSEC_PER_SEC), 0);
	assert_string_equal(written(), "");
	log_on_pending(NULL, NULL);
}

/* A repeated line is logged at growing intervals. */
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

/* A repeated text: a few times, then rarely; other texts are not suppressed. */
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
	for (int i = 0; i < 9; i++) /* debug level has all lines */
		log_line(&site[0], LOG_AREA_MAIN, LOG_LEVEL_INFO, "same");
	assert_string_equal(written(), "");
	log_level_set_all(LOG_LEVEL_INFO);
	for (int i = 0; i < 5; i++)
		log_line(&site[0], LOG_AREA_MAIN, LOG_LEVEL_INFO, "same");
	assert_int_equal(count_lines(written()), 5);
}

/* --- a reader that does not read --- */

static char drained[1 << 20];

static size_t drain(int fd)
{
	size_t len = 0;
	ssize_t n;

	while ((n = recv(fd, drained + len, sizeof(drained) - 1 - len, MSG_DONTWAIT)) > 0 ||
	       (n < 0 && errno == ENOTSOCK && poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 0) == 1 &&
		(n = read(fd, drained + len, sizeof(drained) - 1 - len)) > 0))
		len += (size_t)n;
	drained[len] = '\0';
	return len;
}

/*
 * More lines than pipe and queue can store. No call blocks (the alarm would end the program), no
 * line is cut, every lost line is counted, the order is kept.
 */
static void blocked_case(int reader)
{
	struct log_site site = { 0 };
	uint64_t before = log_dropped();
	const char *at = drained;
	size_t n_lines = 0;
	unsigned long long n_told = 0;
	int last = -1;
	int i;

	n_calls = 0;
	expected_wait_ns = 100 * NSEC_PER_MSEC;
	log_level_set_all(LOG_LEVEL_INFO);
	log_on_pending(on_pending, &n_calls);
	for (i = 0; log_dropped() < before + 100; i++) {
		site.bucket_ns = 0;
		log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_INFO, "line %d", i);
	}
	assert_int_equal(n_calls, 1);
	assert_true(log_tick(now_ns()) > now_ns()); /* still blocked */
	for (size_t n = drain(reader); n > 0; n = drain(reader)) {
		for (at = drained; *at != '\0'; at = strchr(at, '\n') + 1, n_lines++) {
			int k;

			assert_non_null(strchr(at, '\n'));
			if (sscanf(at, "<6>sync: line %d\n", &k) == 1) {
				assert_int_equal(k, last + 1);
				last = k;
			} else {
				assert_int_equal(
					sscanf(at, "<4>main: log: %llu lines dropped: ", &n_told),
					1);
			}
		}
		if (n_told == 0)
			(void)log_tick(now_ns());
	}
	assert_int_equal(n_told, 100);
	assert_int_equal(n_lines, i - 100 + 1);
	assert_int_equal(log_tick(now_ns()), 0);
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "after");
	(void)drain(reader);
	assert_string_equal(drained, "<4>sync: after\n");
	assert_int_equal(log_dropped(), before + 100);
	log_on_pending(NULL, NULL);
}

static void test_blocked_pipe(void **state)
{
	(void)state;
	alarm(60);
	blocked_case(pipe_read);
	/* Standard error is shared: its file status flags stay. */
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	alarm(0);
}

static void test_blocked_socket(void **state)
{
	int pair[2];

	(void)state;
	alarm(60);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_not_equal(dup2(pair[1], STDERR_FILENO), -1);
	close(pair[1]);
	assert_int_equal(journal_set(STDERR_FILENO), 0);
	blocked_case(pair[0]);
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	close(pair[0]); /* closed: the line is lost, the process continues */
	log_err(LOG_AREA_SYNC, "nobody reads");
	log_end();
	alarm(0);
}

/* A file that other processes also write: its offset is shared, nothing is overwritten. */
static void test_file(void **state)
{
	struct log_site site = { 0 };
	char path[] = "/tmp/test_log.XXXXXX";
	int fd = mkstemp(path);
	char buf[128] = "";

	(void)state;
	assert_int_not_equal(fd, -1);
	(void)unlink(path);
	assert_int_not_equal(dup2(fd, STDERR_FILENO), -1);
	(void)log_tick(now_ns()); /* lines queued for the socket above */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(write(fd, "other\n", 6), 6);
	assert_int_equal(journal_set(fd), 0);
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "ours");
	assert_int_equal(write(fd, "other\n", 6), 6);
	assert_int_equal(pread(fd, buf, sizeof(buf) - 1, 0), 26);
	assert_string_equal(buf, "other\n<4>sync: ours\nother\n");
	close(fd);
}

/* Not the journal: the variable of the parent process names another standard error. */
static void test_not_the_journal(void **state)
{
	struct log_site site = { 0 };

	(void)state;
	setenv("JOURNAL_STREAM", "8:1", 1);
	log_line(&site, LOG_AREA_SYNC, LOG_LEVEL_WARN, "text");
	assert_non_null(strstr(written(), " warn   sync: text\n"));
}

/* --- JSON --- */

static void test_json(void **state)
{
	static struct log_site site = { .file = "../src/http/http.c", .line = 12 };
	long long ms = (long long)time(NULL) * 1000;
	const char *line;
	double ts;
	int n = 0;

	(void)state;
	log_format_set(LOG_FORMAT_JSON);
	log_line(&site, LOG_AREA_HTTP, LOG_LEVEL_WARN, "a \"b\" \\ \n\x1b\x7f\u202e\xff\u00e4");
	line = written();
	assert_int_equal(sscanf(line, "{\"ts\":%lf,%n", &ts, &n), 1);
	assert_in_range((long long)ts, ms - 1000, ms + 60000);
	assert_string_equal(line + n,
			    "\"logger\":\"http\",\"caller\":\"http/http.c:12\",\"msg\":"
			    "\"a \\\"b\\\" \\\\ \\u000a\\u001b\\u007f\\u202e\\ufffd\u00e4\","
			    "\"v\":0,\"level\":\"warn\"}\n");
	log_line(&site, LOG_AREA_MAIN, LOG_LEVEL_ERR, "bad");
	line = strstr(written(), "\"logger\"");
	assert_string_equal(line,
			    "\"logger\":\"main\",\"caller\":\"http/http.c:12\",\"msg\":\"bad\","
			    "\"err\":\"bad\",\"level\":\"error\"}\n");
}

/* A cut record is a complete JSON object and one write() to a pipe. */
static void test_json_long(void **state)
{
	static struct log_site site;
	char text[3000];
	const char *line;
	size_t len;

	(void)state;
	log_format_set(LOG_FORMAT_JSON);
	memset(text, '\x01', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_line(&site, LOG_AREA_MAIN, LOG_LEVEL_ERR, "%s", text);
	line = written();
	len = strlen(line);
	assert_in_range(len, 3000, PIPE_BUF);
	assert_string_equal(line + len - strlen("\\u0001\",\"level\":\"error\"}\n"),
			    "\\u0001\",\"level\":\"error\"}\n");
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
		cmocka_unit_test_setup_teardown(test_reported_afterwards, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tells_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same, setup, teardown),
		cmocka_unit_test_setup_teardown(test_blocked_pipe, setup, teardown),
		cmocka_unit_test_setup_teardown(test_blocked_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_the_journal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_json, setup, teardown),
		cmocka_unit_test_setup_teardown(test_json_long, setup, teardown),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
