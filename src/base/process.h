/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/process - run a program and collect its output on the event loop.
 *
 * The program gets /dev/null as standard input, our standard error, its own process group and no
 * other descriptors. A pidfd reports its end, without a handler of SIGCHLD. At the timeout the
 * program and its descendants are killed.
 */
#pragma once

#include <event2/event.h>

#include "base/err.h"
#include "base/str.h"

struct process;

struct process_config {
	char *const *argv; /* the first one, without a slash, is searched in PATH */
	char *const *envp;
	uint64_t timeout_ns;
	size_t output_max;
	/*
	 * Called once, from the event loop, after the process is closed. `r`: 0 for exit status 0,
	 * -ETIMEDOUT, -E2BIG (output), or -ECHILD for any other end; `why` has its text.
	 */
	void (*done)(void *arg, int r, const struct str *output, const char *why);
	void *arg;
};

MUST_USE int process_open(struct process **ret, struct event_base *base,
			  const struct process_config *config, struct err *err);
/* Kill the program and its descendants without calling `done`. Accepts NULL. */
void process_close(struct process *p);
DEFINE_AUTO(struct process *, process_close);
