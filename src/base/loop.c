/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/loop.h"

#include <stdlib.h>

struct event *xevent_new(struct event_base *base, int fd, short what, event_callback_fn fn,
			 void *arg)
{
	struct event *ev = event_new(base, fd, what, fn, arg);

	if (ev == NULL)
		abort();
	return ev;
}

struct event *xtimer_new(struct event_base *base, event_callback_fn fn, void *arg)
{
	return xevent_new(base, -1, 0, fn, arg);
}

void event_after(struct event *ev, uint64_t ns)
{
	const struct timeval tv = { (time_t)(ns / NSEC_PER_SEC),
				    (suseconds_t)(ns % NSEC_PER_SEC / NSEC_PER_USEC) };

	(void)event_add(ev, &tv);
}

void event_drop(struct event *ev)
{
	if (ev != NULL)
		event_free(ev);
}

uint64_t random_below(uint64_t n)
{
	uint64_t v;

	evutil_secure_rng_get_bytes(&v, sizeof(v));
	return n == 0 ? 0 : v % n;
}
