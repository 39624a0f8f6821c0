/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack - delete tracked flows that a change has made stale.
 *
 *     sync --accepted--> stale (pending targets) --job--> worker (helper process) --> kernel
 *
 * A tracked flow keeps its endpoint as long as packets arrive. A TCP connection ends
 * with its endpoint; a UDP flow would be sent to a dead address forever.
 * conntrack/stale defines "stale"; section 11 of doc/behaviour.md has the reasons.
 *
 * Targets are pending from the kernel's acknowledgement of a change until a pass has
 * succeeded: a failed pass is retried with backoff, and after a restart every frontend
 * is scanned once. Those of removed frontends are lost if vipd is killed before the pass.
 * Changes that arrive together share a pass.
 */
#pragma once

#include "conntrack/pass.h"
#include "conntrack/stale.h"
#include "conntrack/sysctl.h"

struct conntrack;
struct event_base;

struct conntrack_config {
	bool is_reset; /* --dead-flows=reset: see conntrack/stale.h */
	bool is_ipvs;  /* IPVS translates: see struct pass */
	struct sysctl_config sysctls;
	/* A pass succeeded in `took_ns`; `total`: of all passes since the start. */
	void (*scanned)(void *arg, uint64_t took_ns, const struct pass_result *total);
	void *arg;
};

/*
 * For --init-only: load connection tracking if the kernel has not done so, then set its
 * limits and timeouts. A value that cannot be set is a warning, as in conntrack_limits_set().
 */
MUST_USE int conntrack_prepare(const struct sysctl_config *sysctls, struct err *err);

/*
 * Forks the helper: call before the process has allocated much memory. Changes nothing in
 * the kernel. `m` is borrowed.
 */
MUST_USE int conntrack_open(struct conntrack **ret, struct event_base *base, const struct model *m,
			    const struct conntrack_config *config, struct err *err);
void conntrack_close(struct conntrack *c);
DEFINE_AUTO(struct conntrack *, conntrack_close);

/*
 * Set the kernel's limits and timeouts; call after every start-up step that can fail. If the
 * kernel does not track connections yet, conntrack_start() sets them.
 */
void conntrack_limits_set(struct conntrack *c);
/*
 * `new` rows (NULL: none) are programmed for `svc` instead of `old` ones. `is_whole`: these are the
 * desired ones of the current model, without the address families `left_out` (bits).
 */
void conntrack_accepted(struct conntrack *c, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole, uint8_t left_out);
/* model.addr_event; `arg` is the conntrack. */
void conntrack_addr_event(void *arg, const struct ip_addr *addr, bool is_listed);
/* plane.gone; `arg` is the conntrack. */
void conntrack_gone(void *arg, const struct ip_addr *addr, uint16_t port, uint8_t proto);
/*
 * Every service was accepted once, except for large ones that are replaced again and again: start
 * deleting flows. Later calls have no effect.
 */
void conntrack_start(struct conntrack *c);
/* After a foreign change to the rules: scan all frontends again. */
void conntrack_recheck(struct conntrack *c);
/*
 * End the event loop, after pending scans of removed frontends: 2 s later at most. A second call
 * ends it at once.
 */
void conntrack_end(struct conntrack *c);
