/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/worker - a helper process for walks that would block the event loop.
 *
 *     worker_open()       fork, before the process has allocated much memory
 *     worker_send()       send a job; done() is called with its result
 *     worker_close()      the helper ends
 *
 * A walk over the kernel's table of flows is one system call of up to hundreds of
 * milliseconds. vipd has no threads, so a helper process makes it: it inherits only one
 * end of a socket pair, reads jobs, answers them, and exits when the other end is closed.
 * A helper that dies is replaced at the next job; its current job has failed.
 * Signals: worker_open() ignores SIGPIPE.
 */
#pragma once

#include "conntrack/pass.h"

struct event_base;
struct worker;

struct worker_answer {
	uint32_t id;    /* of the job */
	int32_t result; /* 0 or a negative errno; -EPIPE: the helper died */
	uint64_t took_ns;
	struct pass_result pass;
	struct err err; /* when result is negative */
};

struct worker_config {
	/* In the helper; `helper` has its contents of the time of worker_open(). */
	int (*run)(void *helper, const struct job *job, struct pass_result *ret, struct err *err);
	void *helper;
	/* In the daemon, from the loop. May send the next job. */
	void (*done)(void *arg, const struct worker_answer *a);
	void *arg;
};

MUST_USE int worker_open(struct worker **ret, struct event_base *base,
			 const struct worker_config *config, struct err *err);
/* Ends the helper and its job; does not wait for it. */
void worker_close(struct worker *w);
DEFINE_AUTO(struct worker *, worker_close);

/*
 * The job is copied. Only when no job is under way. 0: followed by one done(), not before the next
 * turn. -errno: the job was not sent.
 */
MUST_USE int worker_send(struct worker *w, const struct job *job, struct err *err);
/* Process id of the helper, for display and tests; 0 while there is none. */
int worker_pid(const struct worker *w);
