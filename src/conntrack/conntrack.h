/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack - flows that the kernel goes on translating after a change made them stale.
 *
 *     sync --accepted--> stale (what is owed) --job--> worker (helper process) --> kernel
 *
 * A tracked flow keeps the endpoint it once got, for as long as packets come. TCP
 * ends by itself when its endpoint does; UDP would talk to a dead address for good.
 * What is stale says conntrack/stale; section 11 of doc/behaviour.md says why.
 *
 * What the kernel took is owed at once and until a pass has succeeded: a pass that
 * fails is repeated with backoff, and after a restart every frontend is looked at
 * once. Changes that come together share a pass.
 */
#pragma once

#include "conntrack/stale.h"
#include "conntrack/sysctl.h"

struct conntrack;
struct event_base;

struct conntrack_stats {
	uint64_t passes;    /* that succeeded */
	uint64_t failures;  /* that did not */
	uint64_t n_matches; /* targets that the kernel looked for and deleted, uncounted */
	uint64_t n_seen;    /* flows that were judged */
	uint64_t n_deleted; /* of those */
	uint64_t last_took_ns;
	uint64_t longest_ns;
	uint64_t restarts; /* of the helper */
	size_t frontends;  /* watched over */
	size_t owed;       /* targets not settled */
};

struct conntrack_config {
	bool is_reset; /* --dead-flows=reset: see conntrack/stale.h */
	struct sysctl_config sysctls;
};

/*
 * For --init-only: load connection tracking if the kernel has not done so, then set its
 * limits and timeouts. A value that cannot be set is a warning, as in conntrack_limits_set().
 */
MUST_USE int conntrack_prepare(const struct sysctl_config *sysctls, struct err *err);

/*
 * Forks the helper: call before anything large is held. Changes nothing in the kernel.
 * `m` is borrowed.
 */
MUST_USE int conntrack_open(struct conntrack **ret, struct event_base *base, const struct model *m,
			    const struct conntrack_config *config, struct err *err);
void conntrack_close(struct conntrack *c);
DEFINE_AUTO(struct conntrack *, conntrack_close);

/*
 * Set the kernel's limits and timeouts, once all that can fail at the start has succeeded. If
 * the kernel does not track connections yet, conntrack_start() does it.
 */
void conntrack_limits_set(struct conntrack *c);
/* sync_config.accepted; `arg` is the conntrack. */
void conntrack_accepted(void *arg, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new);
/* plane.gone; `arg` is the conntrack. */
void conntrack_gone(void *arg, const struct ip_addr *addr, uint16_t port, uint8_t proto);
/* Every service was accepted once. Nothing is removed before; only the first call counts. */
void conntrack_start(struct conntrack *c);
/* Somebody else's hand was in the rules: look at everything once more. */
void conntrack_recheck(struct conntrack *c);

struct conntrack_stats conntrack_stats_get(const struct conntrack *c);
