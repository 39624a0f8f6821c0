/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/conntrack.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/loop.h"
#include "conntrack/worker.h"

/*
 * Delay from a change to the scan: answers to requests in flight arrive, and an endpoint
 * that is removed and added again needs no scan.
 */
#define GRACE_NS (200 * NSEC_PER_MSEC)
/* Changes within this time share a pass: mostly the slices of both families. */
#define TOGETHER_NS (20 * NSEC_PER_MSEC)
/* Time for the scans of removed frontends at the end: less than the grace period of a pod. */
#define END_S 2

struct conntrack {
	struct stale *stale;
	struct worker *worker;
	struct event *timer;
	struct pass pass;           /* for the helper, which has a copy */
	_Atomic uint32_t *outdated; /* stale_job_outdated(), for the helper */
	struct conntrack_config config;
	struct pass_result total; /* of all successful passes */
	bool are_sysctls_set;
	bool is_failing;
	bool is_ending;
};

/* --- --init-only ------------------------------------------------------------------ */

static void ignore(void *arg, const struct ctnl_entry *e)
{
}

int conntrack_prepare(const struct sysctl_config *sysctls, struct err *err)
{
	AUTO(ctnl_close) struct ctnl *ctnl = NULL;
	int r = 0;

	if (!sysctl_is_there("")) {
		r = ctnl_connect(&ctnl, err);
		/* Any request loads the modules; this one has the shortest answer. */
		if (r == 0)
			r = ctnl_dump(ctnl, AF_INET, IPPROTO_SCTP, ignore, NULL, err);
	}
	if (r == 0)
		sysctl_apply(sysctls, "");
	return r;
}

/* --- in the helper --------------------------------------------------------------- */

static int helper_run(void *helper, const struct job *job, struct pass_result *ret, struct err *err)
{
	struct pass *p = helper;
	int r = p->ctnl == NULL ? ctnl_connect(&p->ctnl, err) : 0;

	return r < 0 ? r : pass_run(p, job, ret, err);
}

/* --- in the daemon ------------------------------------------------------------------ */

static void arm(struct conntrack *c)
{
	uint64_t next = stale_next(c->stale);
	uint64_t now = now_ns();
	uint64_t due = next == STALE_NEVER ? next : next + GRACE_NS + TOGETHER_NS;

	if (next != STALE_NEVER)
		event_after(c->timer, due > now ? due - now : 0);
}

static void note_success(struct conntrack *c, const struct worker_answer *a)
{
	c->total.n_matches += a->pass.n_matches;
	c->total.n_seen += a->pass.n_seen;
	c->total.n_deleted += a->pass.n_deleted;
	c->config.scanned(c->config.arg, a->took_ns, &c->total);
	if (a->result == -EBUSY)
		log_info(LOG_AREA_CONNTRACK, "stale flow scan: %s; next attempt in %d s",
			 a->err.text, (int)(STALE_BUSY_NS / NSEC_PER_SEC));
	if (c->is_failing)
		log_notice(LOG_AREA_CONNTRACK, "stale flow scan: recovered");
	c->is_failing = false;
	log_info(LOG_AREA_CONNTRACK,
		 "stale flow scan: %" PRIu64 " targets filtered by the kernel, %" PRIu64
		 " flows checked, %" PRIu64 " deleted, %" PRIu64 " ms",
		 a->pass.n_matches, a->pass.n_seen, a->pass.n_deleted, a->took_ns / NSEC_PER_MSEC);
}

static void on_done(void *arg, const struct worker_answer *a)
{
	struct conntrack *c = arg;

	if (a->result == 0 || a->result == -EBUSY) {
		note_success(c, a);
	} else if (a->result == -ECANCELED) {
		log_info(LOG_AREA_CONNTRACK, "stale flow scan: %s; the scan begins again",
			 a->err.text);
	} else if (!c->is_failing) {
		c->is_failing = true;
		log_warn(LOG_AREA_CONNTRACK,
			 "stale flow scan: %s; stale flows stay until a retry succeeds",
			 a->err.text);
	}
	stale_job_done(c->stale, a->id, a->result, a->took_ns, now_ns());
	arm(c);
	if (c->is_ending && !stale_has_removed(c->stale))
		(void)event_base_loopbreak(event_get_base(c->timer));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct conntrack *c = arg;
	FINI(job_fini) struct job job = { 0 };
	struct worker_answer failed = { 0 };

	/* None while a job is under way: the worker takes one at a time. */
	if (!stale_job_take(c->stale, &job, now_ns() - GRACE_NS)) {
		arm(c);
		return;
	}
	log_debug(LOG_AREA_CONNTRACK,
		  "job %u: %u UDP frontends, %u targets, %u TCP frontends, %u dead addresses",
		  job.id, job.frontends.n, job.targets.n, job.tcp.n, job.dead.n);
	failed.id = job.id;
	failed.result = worker_send(c->worker, &job, &failed.err);
	if (failed.result < 0)
		on_done(c, &failed);
}

void conntrack_accepted(struct conntrack *c, const struct svc *svc, const struct plan_rows *old,
			const struct plan_rows *new, bool is_whole, uint8_t left_out)
{
	stale_replaced(c->stale, old, new);
	if (!is_whole)
		return;
	stale_accepted(c->stale, svc, new, left_out, now_ns());
	*c->outdated = stale_job_outdated(c->stale);
	arm(c);
}

void conntrack_addr_event(void *arg, const struct ip_addr *addr, bool is_listed)
{
	struct conntrack *c = arg;

	stale_addr_event(c->stale, addr, is_listed, now_ns());
	*c->outdated = stale_job_outdated(c->stale);
	if (!is_listed)
		arm(c);
}

void conntrack_gone(void *arg, const struct ip_addr *addr, uint16_t port, uint8_t proto)
{
	struct conntrack *c = arg;

	stale_gone(c->stale, addr, port, proto, now_ns());
	arm(c);
}

static void sysctls_set(struct conntrack *c)
{
	if (!c->are_sysctls_set)
		sysctl_apply(&c->config.sysctls, "");
	c->are_sysctls_set = true;
}

void conntrack_limits_set(struct conntrack *c)
{
	if (sysctl_is_there(""))
		sysctls_set(c);
}

void conntrack_start(struct conntrack *c)
{
	sysctls_set(c);
	stale_start(c->stale, now_ns());
	arm(c);
}

void conntrack_recheck(struct conntrack *c)
{
	stale_recheck(c->stale, now_ns());
	arm(c);
}

void conntrack_end(struct conntrack *c)
{
	static const struct timeval limit = { .tv_sec = END_S };
	struct event_base *base = event_get_base(c->timer);

	if (c->is_ending || !stale_has_removed(c->stale))
		(void)event_base_loopbreak(base);
	else
		(void)event_base_loopexit(base, &limit);
	c->is_ending = true;
}

int conntrack_open(struct conntrack **ret, struct event_base *base, const struct model *m,
		   const struct conntrack_config *config, struct err *err)
{
	AUTO(conntrack_close) struct conntrack *c = xcalloc(1, sizeof(*c));
	struct worker_config worker = {
		.run = helper_run, .helper = &c->pass, .done = on_done, .arg = c
	};
	void *shared = mmap(NULL, sizeof(*c->outdated), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	if (shared == MAP_FAILED)
		return err_errno(err, "memory shared with the helper");
	c->outdated = shared;
	c->config = *config;
	c->pass = (struct pass){ .outdated = c->outdated, .is_ipvs = config->is_ipvs };
	r = worker_open(&c->worker, base, &worker, err);
	if (r < 0)
		return r;
	stale_open(&c->stale, m, config->is_reset);
	c->timer = xtimer_new(base, on_timer, c);
	*ret = TAKE(c);
	return 0;
}

void conntrack_close(struct conntrack *c)
{
	if (c == NULL)
		return;
	if (c->is_ending && stale_has_removed(c->stale))
		log_notice(LOG_AREA_CONNTRACK,
			   "stale flow scan: not finished at exit; UDP flows of removed frontends "
			   "stay until they expire");
	event_drop(c->timer);
	worker_close(c->worker);
	stale_close(c->stale);
	if (c->outdated != NULL)
		(void)munmap((void *)(uintptr_t)c->outdated, sizeof(*c->outdated));
	free(c);
}
