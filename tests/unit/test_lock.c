/* SPDX-License-Identifier: GPL-2.0-or-later */
/* serve/lock: one holder; who it is; one that died and left a process with its descriptors. */
#include "test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "serve/lock.h"

#define HELD_US 60000
#define STOPPED_US 300000 /* longer than a holder that lives is waited for */

/* The name belongs to the network namespace: have one of our own. */
static void own_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		skip();
}

static void test_one_at_a_time(void **state)
{
	struct lock *a = NULL;
	struct lock *b = NULL;
	char want[128];
	struct err err;

	own_namespace();
	(void)snprintf(want, sizeof(want), "another vipd serves this network namespace: process %d",
		       (int)getpid());
	assert_int_equal(lock_take(&a, &err), 0);
	for (int i = 0; i < 3; i++) { /* each leaves a question that nobody has answered yet */
		assert_int_equal(lock_take(&b, &err), -EBUSY);
		assert_null(b);
		assert_string_equal(err.text, want);
	}
	lock_release(a);
	assert_int_equal(lock_take(&b, &err), 0);
	lock_release(b);
}

/* Takes the lock, forks somebody who inherits it, says so, and is killed. */
static _Noreturn void holder(int ready)
{
	struct lock *l;
	struct err err;

	if (lock_take(&l, &err) < 0)
		_exit(1);
	if (fork() == 0) {
		if (write(ready, "x", 1) != 1)
			_exit(1);
		usleep(HELD_US);
		_exit(0);
	}
	for (;;)
		pause();
}

/* `is_reaped`: the dead holder is no zombie any more. */
static void check_left_behind(bool is_reaped)
{
	struct lock *l = NULL;
	uint64_t begin;
	int ready[2];
	struct err err;
	pid_t pid;
	char c;

	own_namespace();
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0)
		holder(ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	begin = now_ns();
	assert_int_equal(kill(pid, SIGKILL), 0);
	if (is_reaped)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(lock_take(&l, &err), 0);
	assert_true(now_ns() - begin > HELD_US * NSEC_PER_USEC / 2);
	if (!is_reaped)
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	lock_release(l);
	close(ready[0]);
}

static void test_left_behind(void **state)
{
	check_left_behind(true);
}

static void test_left_behind_zombie(void **state)
{
	check_left_behind(false);
}

/* It was killed, and does not get a CPU: stopped by a tracer it looks the same. */
static void test_told_to_end(void **state)
{
	struct lock *l = NULL;
	int ready[2];
	struct err err;
	uint64_t begin;
	pid_t waker;
	pid_t pid;
	char c;

	own_namespace();
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGTERM, SIG_DFL);
		if (lock_take(&l, &err) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_equal(kill(pid, SIGTERM), 0); /* stays pending in a process that is stopped */
	waker = fork();
	if (waker == 0) {
		usleep(STOPPED_US);
		_exit(kill(pid, SIGCONT));
	}
	begin = now_ns();
	assert_int_equal(lock_take(&l, &err), 0);
	assert_true(now_ns() - begin > STOPPED_US * NSEC_PER_USEC / 2);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(waitpid(waker, NULL, 0), waker);
	lock_release(l);
	close(ready[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_left_behind),
		cmocka_unit_test(test_left_behind_zombie),
		cmocka_unit_test(test_told_to_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
