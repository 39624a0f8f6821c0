/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/worker - a helper process that does what must not stop the event loop.
 *
 *     worker_open()       fork, early: nothing large is held yet
 *     worker_send()       a job goes over; done() tells what became of it
 *     worker_close()      the helper ends
 *
 * A walk over the kernel's table of flows is one system call that takes up to
 * hundreds of milliseconds. There are no threads here, so another process does it:
 * it inherits nothing but one end of a socket pair, reads jobs, answers them, and
 * ends when the other end is gone, however that came about. A helper that dies
 * is replaced at the next job; the job under way counts as failed.
 */
#pragma once

#include "conntrack/pass.h"

struct event_base;
struct worker;

struct worker_answer {
	uint32_t id;    /* of the job */
	int32_t result; /* 0 or a negative errno; -EPIPE: no helper, or it died */
	uint64_t took_ns;
	struct pass_result pass;
	struct err err; /* when result is negative */
};

struct worker_config {
	/* In the helper; `helper` is what it was when worker_open() was called. */
	int (*run)(void *helper, const struct job *job, struct pass_result *ret, struct err *err);
	void *helper;
	/* Here, from the loop. May send the next job. */
	void (*done)(void *arg, const struct worker_answer *a);
	void *arg;
};

MUST_USE int worker_open(struct worker **ret, struct event_base *base,
			 const struct worker_config *config, struct err *err);
/* Ends the helper, with whatever it is doing; does not wait for it. */
void worker_close(struct worker *w);
DEFINE_AUTO(struct worker *, worker_close);

/* No job is under way. */
bool worker_is_idle(const struct worker *w);
/* The job is copied. Only when idle. Always followed by one done(), not before the next turn. */
void worker_send(struct worker *w, const struct job *job);
/* Of the helper, for people and tests; 0 while there is none. */
int worker_pid(const struct worker *w);
/* How often a helper was started again. */
uint64_t worker_restarts(const struct worker *w);
