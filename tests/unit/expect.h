/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Run an event loop until the state that a test expects. */
#pragma once

#include <event2/event.h>
#include <string.h>

#include "base/str.h"
#include "base/util.h"

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
