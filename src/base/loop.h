/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/loop - events of libevent. Aborts when no memory is left, as xmalloc(). */
#pragma once

#include <event2/event.h>

#include "base/util.h"

/* As event_new(). */
struct event *xevent_new(struct event_base *base, int fd, short what, event_callback_fn fn,
			 void *arg) __attribute__((returns_nonnull));
/* A timer that is not pending. */
struct event *xtimer_new(struct event_base *base, event_callback_fn fn, void *arg)
	__attribute__((returns_nonnull));
/* Set the timer to `ns` from now. Replaces a pending time. */
void event_after(struct event *ev, uint64_t ns);
/* For jitter: 0 to n - 1; 0 for 0. */
uint64_t random_below(uint64_t n);
/* As event_free(). Accepts NULL. */
void event_drop(struct event *ev);
