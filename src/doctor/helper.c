/* SPDX-License-Identifier: GPL-2.0-or-later */
/* doctor/helper - both ends of the socket pair. */
#include "doctor/helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"

#define NICENESS 10 /* traffic and syncs come first */

/* A request is one byte. An answer is a report as JSON, and a NUL. */

struct check_helper {
	struct event_base *base;
	void (*done)(void *arg, const json_t *report);
	void *arg;
	struct check_env env; /* as of when it was opened */
	struct child child;
	struct event *readable;
	struct str in;
	struct check_helper_state state; /* owns its report */
	bool is_wanted_again;
	uint64_t begun_ns;
};

/* --- the helper -------------------------------------------------------------------- */

static void helper_main(void *arg, int fd)
{
	const struct check_env *env = &((const struct check_helper *)arg)->env;
	bool is_open = true;
	char request;

	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	while (is_open && child_read(fd, &request, 1)) {
		json_auto_t *report = check_run(env);
		AUTO(free) char *text = json_dumps(report, JSON_COMPACT);

		is_open = text != NULL && child_write(fd, text, strlen(text) + 1);
	}
}

/* --- the daemon's end ------------------------------------------------------------------ */

static void helper_stop(struct check_helper *h)
{
	event_drop(h->readable);
	h->readable = NULL;
	child_stop(&h->child);
	str_clear(&h->in);
}

/* Takes `report`. */
static void run_ended(struct check_helper *h, json_t *report)
{
	json_decref(h->state.report);
	h->state = (struct check_helper_state){ .report = report,
						.ended_ns = now_ns(),
						.runs = h->state.runs + 1 };
	h->state.took_ns = h->state.ended_ns - h->begun_ns;
	if (h->done != NULL)
		h->done(h->arg, report);
	if (h->is_wanted_again && !h->state.is_running)
		check_helper_run(h);
}

static void run_failed(struct check_helper *h, const char *why)
{
	json_t *report = json_array();

	check_add(report, "doctor", CHECK_ERROR, CHECK_ADVICE_FAILED, "helper: %s", why);
	run_ended(h, report);
}

static void helper_died(struct check_helper *h)
{
	helper_stop(h);
	child_reap(&h->child);
	if (h->state.is_running)
		run_failed(h, "ended");
}

/* Parse a complete answer. */
static void answer_take(struct check_helper *h)
{
	json_t *report = json_loads(h->in.text, 0, NULL);

	str_clear(&h->in);
	if (report == NULL)
		run_failed(h, "its answer is not JSON");
	else
		run_ended(h, report);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct check_helper *h = arg;
	char buf[4096];
	ssize_t n = read((int)fd, buf, sizeof(buf));

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		helper_died(h);
		return;
	}
	str_add(&h->in, buf, (size_t)n);
	if (buf[n - 1] == '\0' && h->state.is_running)
		answer_take(h);
}

static int helper_start(struct check_helper *h, struct err *err)
{
	int r = child_start(&h->child, "vipd-doctor", helper_main, h, err);

	if (r < 0)
		return r;
	h->readable = xevent_new(h->base, h->child.fd, EV_READ | EV_PERSIST, on_readable, h);
	if (event_add(h->readable, NULL) == -1) {
		helper_stop(h);
		child_reap(&h->child);
		return err_set(err, -ENOMEM, "checks: event");
	}
	return 0;
}

void check_helper_run(struct check_helper *h)
{
	struct err err = { 0 };

	h->is_wanted_again = h->state.is_running;
	if (h->state.is_running)
		return;
	h->state.is_running = true;
	h->begun_ns = now_ns();
	if (h->child.fd == -1 && helper_start(h, &err) < 0) {
		log_warn(LOG_AREA_MAIN, "%s", err.text);
		run_failed(h, "cannot be started");
		return;
	}
	/* One byte always fits an empty socket; on_readable() handles a closed one. */
	(void)!send(h->child.fd, "", 1, MSG_NOSIGNAL);
}

struct check_helper_state check_helper_state(const struct check_helper *h)
{
	return h->state;
}

int check_helper_open(struct check_helper **ret, struct event_base *base, const char *plane,
		      void (*done)(void *arg, const json_t *report), void *arg, struct err *err)
{
	AUTO(check_helper_close) struct check_helper *h = xcalloc(1, sizeof(*h));
	int r;

	h->base = base;
	h->env.plane = plane;
	h->done = done;
	h->arg = arg;
	h->child = CHILD_NONE;
	h->env.clock_offset_ns = check_clock_offset_ns();
	r = helper_start(h, err);
	if (r < 0)
		return r;
	*ret = TAKE(h);
	return 0;
}

void check_helper_close(struct check_helper *h)
{
	if (h == NULL)
		return;
	helper_stop(h);
	str_fini(&h->in);
	json_decref(h->state.report);
	free(h);
}
