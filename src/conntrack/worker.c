/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conntrack/worker - both ends of the socket pair. */
#include "conntrack/worker.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>

#include "base/child.h"
#include "base/log.h"

struct worker {
	struct event_base *base;
	struct worker_config config;
	struct child child;
	struct bufferevent *stream; /* over child.fd; NULL: no helper */
	uint32_t job;               /* current job; 0: none */
};

/* --- the helper ------------------------------------------------------------------ */

/*
 * A job on the socket: the struct, whose pointers mean nothing there, then its arrays. Both ends
 * are this program.
 */
#define read_vec(fd, vec, len)                                                       \
	({                                                                           \
		vec_reserve((vec), (len));                                           \
		(vec)->n = (len);                                                    \
		(len) == 0 || child_read((fd), (vec)->v, (len) * sizeof(*(vec)->v)); \
	})

static bool job_read(struct job *job, int fd)
{
	struct job head;

	if (!child_read(fd, &head, sizeof(head)))
		return false;
	job->id = head.id;
	job->has_handshakes = head.has_handshakes;
	return read_vec(fd, &job->frontends, head.frontends.n) &&
	       read_vec(fd, &job->targets, head.targets.n) &&
	       read_vec(fd, &job->live, head.live.n) && read_vec(fd, &job->tcp, head.tcp.n) &&
	       read_vec(fd, &job->dead, head.dead.n);
}

static void helper_main(void *arg, int fd)
{
	const struct worker_config *config = arg;
	FINI(job_fini) struct job job = { 0 };

	while (job_read(&job, fd)) {
		struct worker_answer a = { .id = job.id };
		uint64_t begin = now_ns();

		job_sort(&job);
		a.result = config->run(config->helper, &job, &a.pass, &a.err);
		a.took_ns = now_ns() - begin;
		if (!child_write(fd, &a, sizeof(a)))
			break;
	}
}

/* --- the daemon's end -------------------------------------------------------------- */

/* Does not wait for a walk in progress: the helper exits after it. */
static void helper_stop(struct worker *w)
{
	if (w->stream != NULL)
		bufferevent_free(w->stream);
	w->stream = NULL;
	child_stop(&w->child);
}

/* The job is over; the next may be sent from within done(). */
static void job_over(struct worker *w, const struct worker_answer *a)
{
	w->job = 0;
	w->config.done(w->config.arg, a);
}

/* End of the stream, or an error. */
static void on_end(struct bufferevent *stream, short what, void *arg)
{
	struct worker *w = arg;
	struct worker_answer a = { .id = w->job, .result = -EPIPE };

	helper_stop(w);
	child_reap(&w->child);
	log_notice(LOG_AREA_CONNTRACK, "helper process: exited; the next job starts a new one");
	(void)err_set(&a.err, -EPIPE, "the helper process exited");
	if (w->job != 0)
		job_over(w, &a);
}

static void on_readable(struct bufferevent *stream, void *arg)
{
	struct worker *w = arg;
	struct worker_answer a;

	if (evbuffer_get_length(bufferevent_get_input(stream)) < sizeof(a))
		return;
	(void)bufferevent_read(stream, &a, sizeof(a));
	if (w->job != 0 && a.id == w->job)
		job_over(w, &a);
}

static int helper_start(struct worker *w, struct err *err)
{
	int r = child_start(&w->child, "vipd-conntrack", helper_main, &w->config, err);

	if (r < 0)
		return r;
	w->stream = bufferevent_socket_new(w->base, w->child.fd, 0);
	if (w->stream == NULL || bufferevent_enable(w->stream, EV_READ) == -1) {
		helper_stop(w);
		child_reap(&w->child);
		return err_set(err, -ENOMEM, "helper process: event");
	}
	bufferevent_setcb(w->stream, on_readable, NULL, on_end, w);
	return 0;
}

/* --- jobs ------------------------------------------------------------------------------ */

#define write_vec(w, vec) \
	(bufferevent_write((w)->stream, (vec)->v, (vec)->n * sizeof(*(vec)->v)) == 0)

static bool job_write(struct worker *w, const struct job *job)
{
	return bufferevent_write(w->stream, job, sizeof(*job)) == 0 &&
	       write_vec(w, &job->frontends) && write_vec(w, &job->targets) &&
	       write_vec(w, &job->live) && write_vec(w, &job->tcp) && write_vec(w, &job->dead);
}

int worker_send(struct worker *w, const struct job *job, struct err *err)
{
	int r;

	assert(w->job == 0 && job->id != 0);
	r = w->child.fd == -1 ? helper_start(w, err) : 0;
	if (r < 0)
		return r;
	if (!job_write(w, job)) {
		/* A helper that has the head alone waits for the rest for ever. */
		helper_stop(w);
		child_reap(&w->child);
		return err_set(err, -ENOMEM, "helper process: no memory for a job; stopped");
	}
	w->job = job->id;
	return 0;
}

int worker_pid(const struct worker *w)
{
	return (int)w->child.pid;
}

/* --- life ------------------------------------------------------------------------------- */

int worker_open(struct worker **ret, struct event_base *base, const struct worker_config *config,
		struct err *err)
{
	AUTO(worker_close) struct worker *w = xcalloc(1, sizeof(*w));
	int r;

	(void)signal(SIGPIPE, SIG_IGN); /* the helper may end before a job is written */
	w->base = base;
	w->config = *config;
	w->child = CHILD_NONE;
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
	free(w);
}
