/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/eject - evidence for conntrack/eject from the kernel, and its probes.
 *
 *     plane.handshakes(), conntrack/failover -> conntrack/eject -> connect() -> model/eject -> sync
 *
 * Refused handshakes are read every EJECT_READ_NS, and more often while there are any: a reset does
 * not delay a client, so many connections are lost in a short time.
 *
 * A probe is a TCP connection of this process to the endpoint, which is reset once it is accepted.
 */
#pragma once

#include "conntrack/eject.h"
#include "daemon/failover.h"

#define EJECT_READ_NS (20 * NSEC_PER_MSEC)

struct eject_loop;

/* With --failover=eject; the `limit_ns` of `config` is also that of probes. */
void eject_loop_open(struct eject_loop **ret, struct event_base *base,
		     const struct failover_config *config, struct failover *failover);
/* Before `failover` closes. Accepts NULL. */
void eject_loop_close(struct eject_loop *l);

/*
 * Of a non-blocking connect() at its time limit or before: 0: accepted; ETIMEDOUT: unanswered; or
 * another error. The socket decides, not the event: if this process is late, the event loop
 * reports the time limit alone, also of an endpoint that answered in time.
 */
int eject_probe_error(int fd);
