/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl/top: rates between two samples, order, and a screen that fits. */
#include <stdio.h>
#include <string.h>

#include "ctl/table.h"
#include "ctl/top.h"
#include "quoted.h"

#define STATUS                                                                              \
	"{'state':'running','uptime_ms':5000,'node':{'name':'n1'},'counts':{'services':3}," \
	"'pending':{'services':0},'rejected':{'count':1},"                                  \
	"'sync':{'transactions':%d,'writes':%d,'event_to_ack':{'count':7,'p50_us':85,'p99_us':1250}}}"

static json_t *status(int transactions, int writes)
{
	return json_of(STATUS, transactions, writes);
}

static json_t *first_counts(void)
{
	return json_of(
		"{'clock_ms':1000,'counted':true,'items':["
		"{'namespace':'shop','name':'cart','connections':100,'rejected':0,'endpoints':["
		"{'address':'10.0.0.1','port':80,'protocol':'TCP','connections':50},"
		"{'address':'10.0.0.2','port':80,'protocol':'TCP','connections':50}]},"
		"{'namespace':'shop','name':'db','connections':500,'rejected':10,'endpoints':[]}]}");
}

/* Two seconds later: cart was busy, web is new, db lost a frontend or its counters. */
static json_t *second_counts(void)
{
	return json_of(
		"{'clock_ms':3000,'counted':true,'items':["
		"{'namespace':'shop','name':'cart','connections':200,'rejected':0,'endpoints':["
		"{'address':'10.0.0.1','port':80,'protocol':'TCP','connections':140},"
		"{'address':'10.0.0.2','port':80,'protocol':'TCP','connections':60}]},"
		"{'namespace':'shop','name':'db','connections':4,'rejected':4,'endpoints':[]},"
		"{'namespace':'web','name':'new','connections':30,'rejected':0,'endpoints':["
		"{'address':'fd00::1','port':80,'protocol':'TCP','connections':30}]}]}");
}

/* Line `n` of the screen. */
static void line_at(char ret[static 256], struct top *t, size_t n, size_t width, size_t height)
{
	struct str out = { 0 };
	char *rest;
	char *line = NULL;

	top_lines(&out, t, width, height);
	rest = out.text;
	for (size_t i = 0; i <= n; i++)
		line = strsep(&rest, "\n");
	assert_non_null(line);
	(void)snprintf(ret, 256, "%s", line);
	str_fini(&out);
}

static void assert_line(struct top *t, size_t n, const char *want)
{
	char line[256];

	line_at(line, t, n, 80, 24);
	assert_string_equal(line, want);
}

static void two_samples(struct top *t)
{
	*t = (struct top){ 0 };
	top_feed(t, first_counts(), status(10, 100));
	top_feed(t, second_counts(), status(14, 160));
}

/* Not on a terminal: all rows, and no latency without changes. */
static void test_batch(void **state)
{
	struct str out = { 0 };
	struct top t;
	size_t n = 0;

	(void)state;
	two_samples(&t);
	t.is_batch = true;
	json_object_set_new(json_object_get(json_object_get(t.status, "sync"), "event_to_ack"),
			    "count", json_integer(0));
	assert_line(&t, 1, "event to kernel: no change yet; 2.0 transactions/s, 30.0 operations/s");
	top_lines(&out, &t, 80, 24);
	for (const char *p = out.text; (p = strchr(p, '\n')) != NULL; p++)
		n++;
	assert_int_equal(n, 7);
	str_fini(&out);
	top_fini(&t);
}

static void test_services(void **state)
{
	struct top t;

	(void)state;
	two_samples(&t);
	assert_line(&t, 0, "vipd on n1  running  up 5 s  3 services  pending 0  rejected 1");
	assert_line(&t, 1,
		    "event to kernel: p50 85 us, p99 1.2 ms; 2.0 transactions/s, 30.0 "
		    "operations/s");
	assert_line(&t, 3, "     CONN/S REJECTED/S  CONNECTIONS   REJECTED  SERVICE");
	assert_line(&t, 4, "       50.0        0.0          200          0  shop/cart");
	assert_line(&t, 5, "          -          -           30          0  web/new");
	assert_line(&t, 6, "          -          -            4          4  shop/db");
	assert_line(&t, 7, "");
	top_key(&t, 'x', 24);
	assert_line(&t, 5, "          -          -            4          4  shop/db");
	top_key(&t, 'n', 24);
	assert_line(&t, 6, "          -          -           30          0  web/new");
	top_key(&t, 't', 24);
	assert_line(&t, 4, "       50.0        0.0          200          0  shop/cart");
	assert_line(&t, 23, "by total: r t x n to change; e: endpoints; arrows; q: quit");
	assert_false(top_key(&t, '?', 24));
	assert_true(top_key(&t, 'q', 24));
	top_fini(&t);
}

static void test_endpoints(void **state)
{
	struct top t;

	(void)state;
	two_samples(&t);
	top_key(&t, 'e', 24);
	assert_line(&t, 3, "     CONN/S  CONNECTIONS  ENDPOINT                      SERVICE");
	assert_line(&t, 4, "       45.0          140  10.0.0.1:80/TCP               shop/cart");
	assert_line(&t, 5, "        5.0           60  10.0.0.2:80/TCP               shop/cart");
	assert_line(&t, 6, "          -           30  [fd00::1]:80/TCP              web/new");
	top_fini(&t);
}

/* TCP and UDP of one address and port have a rate each. */
static void test_endpoint_protocols(void **state)
{
	static const char sample[] =
		"{'clock_ms':%d,'counted':true,'items':[{'namespace':'kube-system',"
		"'name':'dns','connections':%d,'rejected':0,'endpoints':["
		"{'address':'10.0.0.1','port':53,'protocol':'TCP','connections':%d},"
		"{'address':'10.0.0.1','port':53,'protocol':'UDP','connections':%d}]}]}";
	struct top t = { 0 };
	char text[512];

	(void)state;
	for (int i = 1; i <= 2; i++) {
		(void)snprintf(text, sizeof(text), sample, 1000 * i, 1010 * i, 10 * i, 1000 * i);
		top_feed(&t, json_of("%s", text), status(1, 1));
	}
	top_key(&t, 'e', 24);
	assert_line(&t, 4,
		    "     1000.0         2000  10.0.0.1:53/UDP               kube-system/dns");
	assert_line(&t, 5,
		    "       10.0           20  10.0.0.1:53/TCP               kube-system/dns");
	top_fini(&t);
}

/* A number that vipd could not read has no rate, in this sample and in the next one. */
static void test_unknown(void **state)
{
	struct top t;

	(void)state;
	two_samples(&t);
	top_feed(
		&t,
		json_of("{'clock_ms':5000,'counted':true,'items':[{'namespace':'shop',"
			"'name':'cart','connections':null,'rejected':null,'endpoints':["
			"{'address':'10.0.0.1','port':80,'protocol':'TCP','connections':null}]}]}"),
		status(1, 1));
	assert_line(&t, 4, "          -          -            -          -  shop/cart");
	top_key(&t, 'e', 24);
	assert_line(&t, 4, "          -            -  10.0.0.1:80/TCP               shop/cart");
	top_feed(&t, second_counts(), status(1, 1));
	assert_line(&t, 4, "          -          140  10.0.0.1:80/TCP               shop/cart");
	top_key(&t, 'e', 24);
	assert_line(&t, 4, "          -          -          200          0  shop/cart");
	top_fini(&t);
}

/* With one sample there is no rate; counters that do not exist are named. */
static void test_first_sample(void **state)
{
	struct top t = { 0 };

	(void)state;
	top_feed(&t, first_counts(), status(1, 1));
	assert_line(&t, 4, "          -          -          500         10  shop/db");
	top_feed(&t, json_of("{'clock_ms':9000,'counted':false,'items':[]}"), status(1, 1));
	assert_line(&t, 4,
		    "  no counters: start vipd with --metrics-per-service=service or =endpoint");
	top_fini(&t);
}

/* Any terminal size: this number of lines, none too long; scrolling reaches the end. */
static void test_fits(void **state)
{
	struct top t;

	(void)state;
	two_samples(&t);
	for (size_t width = 1; width < 120; width += 7)
		for (size_t height = 1; height < 40; height += 3) {
			struct str out = { 0 };
			size_t n = 0;
			char *rest;
			char *line;

			top_lines(&out, &t, width, height);
			rest = out.text;
			while ((line = strsep(&rest, "\n")) != NULL) {
				assert_true(text_width(line) <= width);
				n += rest != NULL;
			}
			assert_true(n == height || height < 6);
			str_fini(&out);
		}
	for (int i = 0; i < 10; i++)
		top_key(&t, 'j', 7);
	{
		char line[256];

		line_at(line, &t, 5, 80, 7); /* two rows: the second one is the last of the list */
		assert_non_null(strstr(line, "shop/db"));
	}
	top_key(&t, 'u', 7);
	top_key(&t, 'u', 7);
	assert_int_equal(t.first, 0);
	top_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_services),     cmocka_unit_test(test_batch),
		cmocka_unit_test(test_endpoints),    cmocka_unit_test(test_endpoint_protocols),
		cmocka_unit_test(test_first_sample), cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
