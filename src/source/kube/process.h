/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kube/process - run a program, wait for it on the event loop, keep what it prints.
 *
 * The program gets no standard input, our standard error, a process group of its
 * own and none of our descriptors. Its end is read from a pidfd, so nobody needs
 * a handler of SIGCHLD. When time is up the group is killed.
 */
#pragma once

#include <event2/event.h>

#include "base/err.h"
#include "base/str.h"

struct process;

struct process_config {
	const char *path; /* with a slash as it is, else looked up in PATH */
	char *const *argv;
	char *const *envp;
	uint64_t timeout_ns;
	size_t output_max;
	/*
	 * Called once, never from process_open(). `r` is 0 when the program ended with
	 * status 0, -ETIMEDOUT, -E2BIG, or -ECHILD for every other end, which `why`
	 * tells. The process is closed by then.
	 */
	void (*done)(void *arg, int r, const struct str *output, const char *why);
	void *arg;
};

MUST_USE int process_open(struct process **ret, struct event_base *base,
			  const struct process_config *config, struct err *err);
/* Kills what still runs; `done` is not called. Accepts NULL. */
void process_close(struct process *p);
