/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/worker: jobs of any size are transferred, answers return, dead helpers are replaced. */
#include "test.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "conntrack/worker.h"

/* Ids of jobs that the helper of these tests treats in special ways. */
enum {
	ID_FAILS = 13,
	ID_DIES = 66,
	ID_HANGS = 77,
	ID_FDS = 88,
};

struct world {
	struct event_base *base;
	struct worker *worker;
	struct worker_answer answer;
	size_t n_answers;
	uint32_t next; /* a job to send from within done() */
};

static uint64_t sum_of(const struct job *j)
{
	uint64_t sum = j->id;

	vec_for_each (f, &j->frontends)
		sum = sum * 31 + hash_bytes(f, sizeof(*f));
	vec_for_each (t, &j->targets)
		sum = sum * 31 + hash_bytes(t, sizeof(*t));
	vec_for_each (e, &j->live)
		sum = sum * 31 + hash_bytes(e, sizeof(*e));
	return sum;
}

/* How many descriptors from `from` on are open. */
static uint64_t open_fds(int from)
{
	uint64_t n = 0;

	for (int fd = from; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static int run(void *helper, const struct job *job, struct pass_result *ret, struct err *err)
{
	switch (job->id) {
	case ID_FAILS:
		return err_set(err, -ENOBUFS, "set to fail");
	case ID_DIES:
		_exit(3);
	case ID_HANGS:
		for (;;)
			pause();
	case ID_FDS:
		ret->n_seen = open_fds(0);
		ret->n_deleted = open_fds(4);
		return 0;
	default:
		ret->n_seen = sum_of(job);
		return 0;
	}
}

static int job_send(struct world *w, uint32_t id)
{
	struct job j = { .id = id };
	struct err err;
	int r;

	*vec_push(&j.frontends) = (struct job_frontend){ .key.port = 53, .n_targets = 1 };
	*vec_push(&j.targets) = (struct job_target){ .kind = JOB_TARGET_TRANSLATED };
	r = worker_send(w->worker, &j, &err);
	job_fini(&j);
	return r;
}

static void simple_job(struct world *w, uint32_t id)
{
	assert_int_equal(job_send(w, id), 0);
}

static void on_done(void *arg, const struct worker_answer *a)
{
	struct world *w = arg;

	w->answer = *a;
	w->n_answers++;
	if (w->next != 0) {
		uint32_t id = w->next;

		w->next = 0;
		simple_job(w, id);
	}
}

static void world_init(struct world *w)
{
	struct worker_config config = { .run = run, .done = on_done, .arg = w };
	struct err err;

	*w = (struct world){ 0 };
	log_level_set_all(LOG_LEVEL_ERR);
	w->base = event_base_new();
	assert_non_null(w->base);
	if (worker_open(&w->worker, w->base, &config, &err) < 0)
		fail_msg("%s", err.text);
}

static void world_fini(struct world *w)
{
	worker_close(w->worker);
	event_base_free(w->base);
	log_level_set_all(LOG_LEVEL_NOTICE);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void wait_answers(struct world *w, size_t n)
{
	struct timeval limit = { 60, 0 }; /* a test that hangs ends */

	(void)event_base_loopexit(w->base, &limit);
	while (w->n_answers < n && !event_base_got_exit(w->base))
		(void)event_base_loop(w->base, EVLOOP_ONCE);
	assert_int_equal(w->n_answers, n);
}

static void test_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 1000, 16384 };
	struct world w;
	int helper;

	world_init(&w);
	helper = worker_pid(w.worker);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct job j = { .id = 100 + (uint32_t)i };
		struct err err;

		for (size_t k = 0; k < sizes[i]; k++) {
			*vec_push(&j.frontends) = (struct job_frontend){ .key.port = (uint16_t)k };
			*vec_push(&j.targets) = (struct job_target){ .kind = (uint8_t)(k % 5) };
			*vec_push(&j.live) = (struct ip_endpoint){ .port = (uint16_t)(k * 7) };
			*vec_push(&j.live) = (struct ip_endpoint){ .port = (uint16_t)(k * 3) };
		}
		assert_int_equal(worker_send(w.worker, &j, &err), 0);
		wait_answers(&w, i + 1);
		assert_int_equal(w.answer.id, j.id);
		assert_int_equal(w.answer.result, 0);
		assert_true(w.answer.pass.n_seen == sum_of(&j));
		job_fini(&j);
	}
	assert_int_equal(worker_pid(w.worker), helper);
	world_fini(&w);
}

static void test_failure(void **state)
{
	struct world w;

	world_init(&w);
	simple_job(&w, ID_FAILS);
	wait_answers(&w, 1);
	assert_int_equal(w.answer.result, -ENOBUFS);
	assert_string_equal(w.answer.err.text, "set to fail");
	simple_job(&w, 1);
	wait_answers(&w, 2);
	assert_int_equal(w.answer.result, 0);
	world_fini(&w);
}

/* The helper exits or is killed during a job: the job fails, the next one gets a new helper. */
static void test_death(void **state)
{
	struct world w;
	int first, second;

	world_init(&w);
	first = worker_pid(w.worker);
	w.next = 1; /* sent from within done() */
	simple_job(&w, ID_DIES);
	wait_answers(&w, 2);
	assert_int_equal(w.answer.result, 0);
	second = worker_pid(w.worker);
	assert_int_not_equal(second, first);
	simple_job(&w, ID_HANGS);
	assert_int_equal(kill(second, SIGKILL), 0);
	wait_answers(&w, 3);
	assert_int_equal(w.answer.id, ID_HANGS);
	assert_int_equal(w.answer.result, -EPIPE);
	assert_true(w.answer.err.text[0] != '\0');
	simple_job(&w, 2);
	wait_answers(&w, 4);
	assert_int_equal(w.answer.result, 0);
	assert_int_not_equal(worker_pid(w.worker), second);
	world_fini(&w);
}

static int writes_left = -1; /* further writes fail; -1: none fails */

int __real_bufferevent_write(struct bufferevent *stream, const void *data, size_t len);
int __wrap_bufferevent_write(struct bufferevent *stream, const void *data, size_t len);

int __wrap_bufferevent_write(struct bufferevent *stream, const void *data, size_t len)
{
	if (writes_left == 0)
		return -1;
	writes_left -= writes_left > 0;
	return __real_bufferevent_write(stream, data, len);
}

/* No memory for a part of a job: it is not sent, and the next one gets a new helper. */
static void test_no_memory(void **state)
{
	struct world w;

	world_init(&w);
	for (int i = 0; i < 4; i++) {
		writes_left = i;
		assert_int_equal(job_send(&w, 1), -ENOMEM);
		writes_left = -1;
		assert_int_equal(worker_pid(w.worker), 0);
		simple_job(&w, 2);
		wait_answers(&w, (size_t)i + 1);
		assert_int_equal(w.answer.id, 2);
		assert_int_equal(w.answer.result, 0);
	}
	world_fini(&w);
}

/* Killed while idle: no caller is notified. */
static void test_death_while_idle(void **state)
{
	struct world w;

	world_init(&w);
	assert_int_equal(kill(worker_pid(w.worker), SIGKILL), 0);
	while (worker_pid(w.worker) != 0)
		(void)event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(w.n_answers, 0);
	simple_job(&w, 1);
	wait_answers(&w, 1);
	assert_int_equal(w.answer.result, 0);
	world_fini(&w);
}

/* The helper inherits only standard descriptors and its end of the socket pair. */
static void test_inheritance(void **state)
{
	int spare = open("/dev/null", O_RDONLY); /* not close-on-exec, on purpose */
	int high = fcntl(spare, F_DUPFD, 100);
	struct world w;

	world_init(&w);
	simple_job(&w, ID_FDS);
	wait_answers(&w, 1);
	assert_true(w.answer.pass.n_seen <= 4);
	assert_int_equal(w.answer.pass.n_deleted, 0);
	world_fini(&w);
	close(spare);
	close(high);
}

/*
 * When the daemon ends for any reason, the helper ends. Signals to the daemon do not reach the
 * helper.
 */
static void test_follows(void **state)
{
	struct pollfd fd;
	int pids[2];
	pid_t daemon;
	pid_t helper;

	assert_int_equal(pipe(pids), 0);
	daemon = fork();
	assert_true(daemon >= 0);
	if (daemon == 0) {
		struct world w;

		world_init(&w);
		simple_job(&w, 1); /* the helper works on the job after that time */
		wait_answers(&w, 1);
		helper = worker_pid(w.worker);
		if (write(pids[1], &helper, sizeof(helper)) != sizeof(helper))
			_exit(1);
		simple_job(&w, ID_HANGS);
		(void)event_base_dispatch(w.base);
		_exit(0);
	}
	close(pids[1]);
	assert_int_equal(read(pids[0], &helper, sizeof(helper)), sizeof(helper));
	fd = (struct pollfd){ .fd = process_fd(helper), .events = POLLIN };
	assert_true(fd.fd >= 0);
	assert_int_equal(kill(helper, SIGTERM), 0);
	assert_int_equal(kill(helper, SIGINT), 0);
	assert_int_equal(poll(&fd, 1, 20), 0);
	assert_int_equal(kill(daemon, SIGKILL), 0);
	assert_int_equal(poll(&fd, 1, 60000), 1);
	assert_int_equal(waitpid(daemon, NULL, 0), daemon);
	close(fd.fd);
	close(pids[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),     cmocka_unit_test(test_failure),
		cmocka_unit_test(test_death),     cmocka_unit_test(test_death_while_idle),
		cmocka_unit_test(test_no_memory), cmocka_unit_test(test_inheritance),
		cmocka_unit_test(test_follows),
	};

	hash_seed(1, 2); /* the same in the helper */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
