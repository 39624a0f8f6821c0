/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon/failover - a TCP handshake that its backend does not answer gets another one; a flow of
 * UDP, too.
 *
 *     plane.handshakes() -> conntrack/failover -> plane.move_begin() -> flow deleted -> move_end()
 *
 * A timer reads the handshakes in flight a few times per limit. Flows are deleted one by one, by
 * their tuple: no call walks the table of flows. A turn of the loop moves up to
 * FAILOVER_STEP handshakes; the next turn continues, without another read. After the last one of
 * a read nothing is done for failover_rest_ns().
 */
#pragma once

#include "conntrack/failover.h"
#include "plane/plane.h"
#include "sync/sync.h"

#define FAILOVER_STEP 128
/* failover_work() of those that are examined in one turn. */
#define FAILOVER_WORK_MAX 8192

struct event_base;
struct failover_loop;
struct monitor;
struct serve_failovers;

struct failover_config {
	const struct plan *plan;
	const struct sync *sync;
	struct plane *plane; /* without move_begin() no handshake moves */
	uint64_t limit_ns;
	uint64_t udp_ns; /* 0: TCP only */
	bool ejects;     /* opens daemon/eject */
	struct serve_failovers *counts;
	struct monitor *monitor; /* gets silences and ejections; may be NULL */
	/* An ejection changed the model. */
	void (*changed)(void *arg);
	void *arg;
};

/*
 * Pause after work of `cpu_ns`: the loop uses at most 5 % of a CPU. At most 5 s, because the clock
 * of CPU time also counts time for which a host stopped its virtual machine.
 */
uint64_t failover_rest_ns(uint64_t cpu_ns);
MUST_USE int failover_loop_open(struct failover_loop **ret, struct event_base *base,
				const struct failover_config *config, struct err *err);
void failover_loop_close(struct failover_loop *l);
DEFINE_AUTO(struct failover_loop *, failover_loop_close);
/* Other rows of a service are programmed; `l` may be NULL. */
void failover_loop_accepted(struct failover_loop *l);
/* Borrowed; `l` may be NULL. */
struct failover *failover_loop_state(const struct failover_loop *l);
