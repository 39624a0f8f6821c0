/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Run an event loop until the state that a test expects, or as if all timers had ended. */
#pragma once

#include <event2/event.h>
#include <string.h>

#include "base/str.h"
#include "base/util.h"
#include "base/vec.h"

#define EXPECT_NS (60 * NSEC_PER_SEC) /* ends a test that would hang; no test depends on it */

/* `text` describes the present state in an empty string. */
static inline void expect_text(struct event_base *base, const char *want,
			       void (*text)(struct str *ret, void *arg), void *arg)
{
	uint64_t end = now_ns() + EXPECT_NS;
	struct str got = { 0 };

	for (text(&got, arg); strcmp(str_text(&got), want) != 0 && now_ns() < end;
	     text(&got, arg)) {
		(void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		str_clear(&got);
	}
	assert_string_equal(str_text(&got), want);
	str_fini(&got);
}

struct timers {
	VEC(struct event *) v;
};

static inline int timer_find(const struct event_base *base, const struct event *ev, void *arg)
{
	struct timers *found = arg;

	(void)base;
	if (event_get_fd(ev) < 0 && event_pending(ev, EV_TIMEOUT, NULL))
		*vec_push(&found->v) = (struct event *)(uintptr_t)ev;
	return 0;
}

/* Call the functions of all pending timers. */
static inline void timers_end(struct event_base *base)
{
	struct timers found = { 0 };

	(void)event_base_foreach_event(base, timer_find, &found);
	vec_for_each (ev, &found.v) {
		(void)event_del(*ev);
		event_active(*ev, EV_TIMEOUT, 0);
	}
	vec_fini(&found.v);
	(void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}
