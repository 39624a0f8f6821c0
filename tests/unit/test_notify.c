/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/notify: READY=1 after the first sync, or when the latest time is over; once. */
#include "test.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "daemon/notify.h"

#define LATEST_NS NSEC_PER_MSEC
#define NEVER_NS (3600 * NSEC_PER_SEC)

/* The supervisor's socket. */
static int supervisor;
static struct event_base *base;

static int setup(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "vipd-test-notify-%d", getpid());
	char name[sizeof(a.sun_path) + 1];

	(void)state;
	(void)snprintf(name, sizeof(name), "@%s", a.sun_path + 1);
	supervisor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	base = event_base_new();
	return supervisor < 0 || base == NULL || setenv("NOTIFY_SOCKET", name, 1) != 0 ||
	       bind(supervisor, (struct sockaddr *)&a,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) != 0;
}

static int teardown(void **state)
{
	(void)state;
	event_base_free(base);
	close(supervisor);
	return 0;
}

/* Number of READY=1 that arrived. */
static int ready_count(void)
{
	char text[128];
	int found = 0;
	ssize_t n;

	while ((n = recv(supervisor, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = '\0';
		found += strcmp(text, "READY=1") == 0;
	}
	return found;
}

static void test_first_sync(void **state)
{
	struct notify *n;

	(void)state;
	notify_open(&n, base, NEVER_NS);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(ready_count(), 0);
	notify_ready(n);
	notify_ready(n);
	assert_int_equal(ready_count(), 1);
	notify_close(n);
}

/* The loop ends when no timer is pending. */
static void test_latest(void **state)
{
	struct notify *n;

	(void)state;
	notify_open(&n, base, LATEST_NS);
	assert_int_equal(ready_count(), 0);
	event_base_dispatch(base);
	assert_int_equal(ready_count(), 1);
	notify_ready(n);
	assert_int_equal(ready_count(), 0);
	notify_close(n);
}

static void test_first_sync_before_latest(void **state)
{
	struct notify *n;

	(void)state;
	notify_open(&n, base, LATEST_NS);
	notify_ready(n);
	event_base_dispatch(base);
	assert_int_equal(ready_count(), 1);
	notify_close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_sync, setup, teardown),
		cmocka_unit_test_setup_teardown(test_latest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_first_sync_before_latest, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
