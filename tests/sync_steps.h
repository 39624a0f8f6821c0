/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tests/sync_steps - run the sync without an event loop. */
#pragma once

#include "sync/state.h"

/* Step until nothing is due at `now`. Returns the number of steps. */
static inline size_t sync_settle(struct sync *s, uint64_t now)
{
	size_t n = 0;

	while (sync_step(s, now) == SYNC_NOW)
		n++;
	return n;
}

/* Start an audit in the next step, instead of at the end of audit_period_ns. */
static inline void sync_audit(struct sync *s)
{
	s->audit.is_wanted = true;
}

/* Load the kernel state in the next step, as at the start. */
static inline void sync_reload(struct sync *s)
{
	s->is_load_wanted |= s->state != SYNC_WAITING;
}
