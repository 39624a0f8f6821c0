/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/eject - evidence for conntrack/eject from the kernel, and its probes.
 *
 *     plane.refusals(), conntrack/failover -> conntrack/eject -> connect() -> model/eject -> sync
 *
 * Refused handshakes are read every EJECT_READ_NS, and more often while there are any: a reset does
 * not delay a client, so many connections are lost in a short time.
 *
 * A probe is a TCP connection of this process to the endpoint, which is reset once it is accepted.
 */
#pragma once

#include "conntrack/eject.h"
#include "conntrack/failover.h"
#include "plane/plane.h"
#include "sync/sync.h"

#define EJECT_READ_NS (20 * NSEC_PER_MSEC)

struct event_base;
struct eject_loop;

struct eject_config {
	struct model *model;
	const struct sync *sync;
	struct plane *plane; /* with refusals() */
	struct failover *failover;
	uint64_t limit_ns; /* for probes */
	/* The model changed. */
	void (*changed)(void *arg, const struct model_ejection *e, bool is_over);
	void *arg;
};

void eject_loop_open(struct eject_loop **ret, struct event_base *base,
		     const struct eject_config *config);
/* Before the failover closes. Accepts NULL. */
void eject_loop_close(struct eject_loop *l);
/* Ejections begun since the start; `l` may be NULL. */
uint64_t eject_loop_count(const struct eject_loop *l);
