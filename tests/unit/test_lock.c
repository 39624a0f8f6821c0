/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon/lock: one holder; its name; permissions of the file; a holder that ends. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/lock.h"

#define LEFT_US 400000    /* lifetime of a process left by a dead holder */
#define STOPPED_US 300000 /* longer than the wait for a live holder */

static char dir[64];
static char file[80];
static bool *left_ended; /* shared with children */

/* errno of mkdir(2), or of openat(2), as of a full file system; 0: they work. */
static int mkdir_error;
static int openat_error;

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, mode_t mode);

int __wrap_mkdir(const char *path, mode_t mode)
{
	errno = mkdir_error;
	return mkdir_error != 0 ? -1 : __real_mkdir(path, mode);
}

int __wrap_openat64(int at, const char *path, int flags, mode_t mode)
{
	errno = openat_error;
	return openat_error != 0 ? -1 : __real_openat64(at, path, flags, mode);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/vipd-test-lock.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	left_ended = mmap(NULL, sizeof(*left_ended), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (left_ended == MAP_FAILED)
		return -1;
	(void)snprintf(file, sizeof(file), "%s/lock", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)munmap(left_ended, sizeof(*left_ended));
	(void)unlink(file);
	return rmdir(dir);
}

/* The lock belongs to a network namespace: use an own one. */
static void own_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		skip();
}

/* A process that takes the lock and stays; `left` further processes inherit its descriptors. */
static pid_t holder_start(int left)
{
	int ready[2];
	struct lock *l;
	struct err err;
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGTERM, SIG_DFL);
		if (lock_take(&l, dir, &err) < 0)
			_exit(1);
		while (left-- > 0)
			if (fork() == 0) {
				usleep(LEFT_US);
				*left_ended = true;
				_exit(0);
			}
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void test_one_at_a_time(void **state)
{
	struct lock *a = NULL;
	struct lock *b = NULL;
	char want[128];
	struct err err;
	pid_t pid;

	(void)state;
	own_namespace();
	pid = holder_start(0);
	(void)snprintf(want, sizeof(want), "another vipd serves this network namespace: process %d",
		       (int)pid);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lock_take(&b, dir, &err), -EBUSY);
		assert_null(b);
		assert_string_equal(err.text, want);
	}
	own_namespace(); /* another namespace: another lock */
	assert_int_equal(lock_take(&a, dir, &err), 0);
	lock_release(a);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A dead holder, zombie or not, has left a process with its descriptors: wait for that process. */
static void test_left_behind(void **state)
{
	struct lock *l = NULL;
	struct err err;

	(void)state;
	own_namespace();
	for (int is_reaped = 0; is_reaped < 2; is_reaped++) {
		pid_t pid;

		*left_ended = false;
		pid = holder_start(1);
		assert_int_equal(kill(pid, SIGKILL), 0);
		if (is_reaped)
			assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(lock_take(&l, dir, &err), 0);
		assert_true(*left_ended);
		if (!is_reaped)
			assert_int_equal(waitpid(pid, NULL, 0), pid);
		lock_release(l);
	}
}

/* A killed process that gets no CPU: a process stopped by a tracer looks equal. */
static void test_signalled_to_end(void **state)
{
	struct lock *l = NULL;
	struct err err;
	pid_t waker;
	pid_t pid;

	(void)state;
	own_namespace();
	pid = holder_start(0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_equal(kill(pid, SIGTERM), 0); /* stays pending in a process that is stopped */
	waker = fork();
	if (waker == 0) {
		usleep(STOPPED_US);
		_exit(kill(pid, SIGCONT));
	}
	assert_int_equal(lock_take(&l, dir, &err), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(waitpid(waker, NULL, 0), waker);
	lock_release(l);
}

/* Files that another user could have created or could lock. */
static void test_owner(void **state)
{
	struct lock *l = NULL;
	char text[160];
	struct err err;
	int fd;

	(void)state;
	if (geteuid() != 0)
		skip();
	own_namespace();
	fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(fchown(fd, 12345, 0), 0);
	assert_int_equal(lock_take(&l, dir, &err), -EPERM);
	(void)snprintf(text, sizeof(text), "lock: %s: owned by uid 12345; must be root's", file);
	assert_string_equal(err.text, text);
	assert_int_equal(fchown(fd, 0, 0), 0);
	assert_int_equal(fchmod(fd, 0644), 0); /* opening the file suffices to lock it */
	assert_int_equal(lock_take(&l, dir, &err), -EPERM);
	(void)unlink(file);
	close(fd);
	assert_int_equal(symlink("/tmp/elsewhere", file), 0);
	assert_int_equal(lock_take(&l, dir, &err), -ELOOP);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(lock_take(&l, dir, &err), -EPERM);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(lock_take(&l, dir, &err), 0);
	lock_release(l);
}

/* A process of another user with the name of the old lock, listening or not; and an old vipd. */
static void test_old_lock(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + sizeof("vipd/lock");
	struct lock *l = NULL;
	struct err err;
	char want[128];

	(void)state;
	if (geteuid() != 0)
		skip();
	own_namespace();
	memcpy(addr.sun_path + 1, "vipd/lock", sizeof("vipd/lock") - 1);
	for (int i = 0; i < 3; i++) { /* bound; listens, another user's; listens, root's */
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int r;

		assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
		if (i == 1)
			assert_int_equal(seteuid(12345), 0);
		if (i > 0)
			assert_int_equal(listen(fd, 8), 0);
		assert_int_equal(seteuid(0), 0);
		r = lock_take(&l, dir, &err);
		if (i < 2) {
			assert_int_equal(r, 0);
			lock_release(l);
		} else {
			assert_int_equal(r, -EBUSY);
			(void)snprintf(want, sizeof(want),
				       "another vipd serves this network namespace: process %d",
				       (int)getpid());
			assert_string_equal(err.text, want);
		}
		close(fd);
	}
}

/* A folder that cannot be created: a warning and no lock. */
static void test_no_folder(void **state)
{
	uint64_t before = log_count(LOG_LEVEL_WARN);
	struct lock *l = NULL;
	struct err err;

	(void)state;
	assert_int_equal(lock_take(&l, "/proc/no-such-folder", &err), 0);
	assert_int_equal(log_count(LOG_LEVEL_WARN), before + 1);
	lock_release(l);
}

/* The file system of the folder is full. */
static void test_full(void **state)
{
	static const int errors[] = { ENOSPC, EDQUOT };
	uint64_t before = log_count(LOG_LEVEL_WARN);
	struct lock *l = NULL;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		mkdir_error = errors[i];
		assert_int_equal(lock_take(&l, dir, &err), 0);
		lock_release(l);
		mkdir_error = 0;
		openat_error = errors[i];
		assert_int_equal(lock_take(&l, dir, &err), 0);
		lock_release(l);
		openat_error = 0;
	}
	assert_int_equal(log_count(LOG_LEVEL_WARN), before + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signalled_to_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_old_lock, setup, teardown),
		cmocka_unit_test(test_no_folder),
		cmocka_unit_test_setup_teardown(test_full, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
