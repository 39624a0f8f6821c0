/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/worker - both ends of the socket pair. */
#include "conntrack/worker.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"

/* Header of a job on the socket; the three arrays follow. Both ends are this program. */
struct head {
	uint32_t id;
	uint32_t n_frontends;
	uint32_t n_targets;
	uint32_t n_live;
};

struct worker {
	struct event_base *base;
	struct worker_config config;
	struct child child;
	struct event *readable;
	struct event *writable;
	struct event *lost; /* fires for a job that could not be sent */
	uint32_t job;       /* current job; 0: none */
	VEC(uint8_t) out;   /* its unwritten rest, from out_at */
	size_t out_at;
	struct worker_answer in; /* received part of the answer */
	size_t in_len;
	uint64_t restarts;
};

/* --- the helper ------------------------------------------------------------------ */

#define read_vec(fd, vec, want)                                                        \
	({                                                                             \
		vec_reserve((vec), (want));                                            \
		(vec)->n = (want);                                                     \
		(want) == 0 || child_read((fd), (vec)->v, (want) * sizeof(*(vec)->v)); \
	})

static bool job_read(struct job *job, int fd)
{
	struct head head;

	if (!child_read(fd, &head, sizeof(head)))
		return false;
	job->id = head.id;
	return read_vec(fd, &job->frontends, head.n_frontends) &&
	       read_vec(fd, &job->targets, head.n_targets) && read_vec(fd, &job->live, head.n_live);
}

static bool job_answer(const struct worker_config *config, const struct job *job, int fd)
{
	struct worker_answer a = { .id = job->id };
	uint64_t begin = now_ns();

	a.result = config->run(config->helper, job, &a.pass, &a.err);
	a.took_ns = now_ns() - begin;
	return child_write(fd, &a, sizeof(a));
}

static void helper_main(void *arg, int fd)
{
	const struct worker_config *config = arg;
	struct job job = { 0 };

	while (job_read(&job, fd) && job_answer(config, &job, fd))
		;
	job_fini(&job);
}

/* --- the daemon's end -------------------------------------------------------------- */

/* Does not wait for a walk in progress: the helper exits after it. */
static void helper_stop(struct worker *w)
{
	if (w->readable != NULL)
		event_free(w->readable);
	if (w->writable != NULL)
		event_free(w->writable);
	w->readable = w->writable = NULL;
	child_stop(&w->child);
	w->in_len = 0;
	vec_clear(&w->out);
}

/* The job is over; the next may be sent from within done(). */
static void job_over(struct worker *w, const struct worker_answer *a)
{
	w->job = 0;
	w->config.done(w->config.arg, a);
}

static void job_fail(struct worker *w, const char *why)
{
	struct worker_answer a = { .id = w->job, .result = -EPIPE };

	(void)err_set(&a.err, -EPIPE, "the helper process %s", why);
	job_over(w, &a);
}

static void helper_died(struct worker *w)
{
	helper_stop(w);
	child_reap(&w->child);
	log_notice(LOG_AREA_CONNTRACK, "helper process: exited; the next job starts a new one");
	if (w->job != 0)
		job_fail(w, "died");
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;
	ssize_t n;

	n = read((int)fd, (uint8_t *)&w->in + w->in_len, sizeof(w->in) - w->in_len);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		helper_died(w);
		return;
	}
	w->in_len += (size_t)n;
	if (w->in_len < sizeof(w->in))
		return;
	w->in_len = 0;
	if (w->job != 0 && w->in.id == w->job)
		job_over(w, &w->in);
}

/* Write what the socket takes; wait for room for the rest. */
static void flush(struct worker *w)
{
	while (w->out_at < w->out.n) {
		ssize_t n =
			send(w->child.fd, w->out.v + w->out_at, w->out.n - w->out_at, MSG_NOSIGNAL);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN) {
			(void)event_add(w->writable, NULL);
			return;
		}
		if (n == -1) /* reading finds the end of the stream next */
			return;
		w->out_at += (size_t)n;
	}
	vec_fini(&w->out);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	flush(arg);
}

static int helper_events(struct worker *w, struct err *err)
{
	w->readable = event_new(w->base, w->child.fd, EV_READ | EV_PERSIST, on_readable, w);
	w->writable = event_new(w->base, w->child.fd, EV_WRITE, on_writable, w);
	if (w->readable == NULL || w->writable == NULL || event_add(w->readable, NULL) == -1)
		return err_set(err, -ENOMEM, "helper process: event");
	return 0;
}

static int helper_start(struct worker *w, struct err *err)
{
	int r = child_start(&w->child, "vipd-conntrack", helper_main, &w->config, err);

	if (r == 0)
		r = helper_events(w, err);
	if (r < 0) {
		helper_stop(w);
		child_reap(&w->child);
	}
	return r;
}

/* --- jobs ------------------------------------------------------------------------------ */

static void on_lost(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	if (w->job != 0 && w->child.fd == -1)
		job_fail(w, "could not be started");
}

static void out_add(struct worker *w, const void *data, size_t len)
{
	vec_reserve(&w->out, w->out.n + len);
	if (len > 0)
		memcpy(w->out.v + w->out.n, data, len);
	w->out.n += len;
}

#define out_add_vec(w, vec) out_add((w), (vec)->v, (vec)->n * sizeof(*(vec)->v))

void worker_send(struct worker *w, const struct job *job)
{
	struct head head = {
		.id = job->id,
		.n_frontends = (uint32_t)job->frontends.n,
		.n_targets = (uint32_t)job->targets.n,
		.n_live = (uint32_t)job->live.n,
	};
	struct err err = { 0 };

	assert(w->job == 0 && job->id != 0);
	w->job = job->id;
	if (w->child.fd == -1) {
		w->restarts++;
		if (helper_start(w, &err) < 0) {
			log_warn(LOG_AREA_CONNTRACK, "%s", err.text);
			event_active(w->lost, EV_TIMEOUT, 0);
			return;
		}
	}
	vec_clear(&w->out);
	w->out_at = 0;
	out_add(w, &head, sizeof(head));
	out_add_vec(w, &job->frontends);
	out_add_vec(w, &job->targets);
	out_add_vec(w, &job->live);
	flush(w);
}

bool worker_is_idle(const struct worker *w)
{
	return w->job == 0;
}

int worker_pid(const struct worker *w)
{
	return (int)w->child.pid;
}

uint64_t worker_restarts(const struct worker *w)
{
	return w->restarts;
}

/* --- life ------------------------------------------------------------------------------- */

int worker_open(struct worker **ret, struct event_base *base, const struct worker_config *config,
		struct err *err)
{
	AUTO(worker_close) struct worker *w = xcalloc(1, sizeof(*w));
	int r;

	w->base = base;
	w->config = *config;
	w->child = CHILD_NONE;
	w->lost = event_new(base, -1, 0, on_lost, w);
	if (w->lost == NULL)
		return err_set(err, -ENOMEM, "helper process: event");
	r = helper_start(w, err);
	if (r < 0)
		return r;
	*ret = TAKE(w);
	return 0;
}

void worker_close(struct worker *w)
{
	if (w == NULL)
		return;
	helper_stop(w);
	if (w->lost != NULL)
		event_free(w->lost);
	vec_fini(&w->out);
	free(w);
}
