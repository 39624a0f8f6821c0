/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/conntrack.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "conntrack/worker.h"

/*
 * Delay from a change to the scan: answers to requests in flight arrive, and an endpoint
 * that is removed and added again needs no scan.
 */
#define GRACE_NS (200 * NSEC_PER_MSEC)
/* Changes within this time share a pass: mostly the slices of both families. */
#define TOGETHER_NS (20 * NSEC_PER_MSEC)

struct conntrack {
	struct stale *stale;
	struct worker *worker;
	struct event *timer;
	struct pass *pass; /* in the helper only */
	struct conntrack_stats stats;
	struct sysctl_config sysctls;
	bool are_sysctls_set;
	bool is_failing;
};

static int ctnl_sockets_open(struct ctnl **ret, struct err *err)
{
	AUTO(nl_sock_close) struct nl_sock *query = NULL;
	AUTO(nl_sock_close) struct nl_sock *del = NULL;
	int r = nl_sock_open(&query, NETLINK_NETFILTER, err);

	if (r == 0)
		r = nl_sock_open(&del, NETLINK_NETFILTER, err);
	if (r == 0)
		ctnl_open(ret, TAKE(query), TAKE(del));
	return r;
}

/* --- --init-only ------------------------------------------------------------------ */

static void ignore(void *arg, const struct ctnl_entry *e)
{
	(void)arg;
	(void)e;
}

int conntrack_prepare(const struct sysctl_config *sysctls, struct err *err)
{
	AUTO(ctnl_close) struct ctnl *ctnl = NULL;
	int r = 0;

	if (!sysctl_is_there("")) {
		r = ctnl_sockets_open(&ctnl, err);
		/* Any request loads the modules; this one has the shortest answer. */
		if (r == 0)
			r = ctnl_dump(ctnl, AF_INET, IPPROTO_SCTP, ignore, NULL, err);
	}
	if (r == 0)
		(void)sysctl_apply(sysctls, "");
	return r;
}

/* --- in the helper --------------------------------------------------------------- */

static int helper_run(void *helper, const struct job *job, struct pass_result *ret, struct err *err)
{
	struct conntrack *c = helper;
	struct ctnl *ctnl;
	int r = c->pass == NULL ? ctnl_sockets_open(&ctnl, err) : 0;

	if (r < 0)
		return r;
	if (c->pass == NULL)
		pass_open(&c->pass, ctnl);
	return pass_run(c->pass, job, ret, err);
}

/* --- in the daemon ------------------------------------------------------------------ */

static void arm(struct conntrack *c)
{
	uint64_t next = worker_is_idle(c->worker) ? stale_next(c->stale) : STALE_NEVER;
	uint64_t now = now_ns();
	uint64_t due = next == STALE_NEVER ? next : next + GRACE_NS + TOGETHER_NS;
	uint64_t wait = due > now ? due - now : 0;
	struct timeval tv = { (time_t)(wait / NSEC_PER_SEC),
			      (suseconds_t)(wait % NSEC_PER_SEC / NSEC_PER_USEC) };

	if (next != STALE_NEVER)
		(void)event_add(c->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct conntrack *c = arg;
	FINI(job_fini) struct job job = { 0 };

	if (!worker_is_idle(c->worker))
		return;
	if (stale_job_take(c->stale, &job, now_ns() - GRACE_NS)) {
		log_debug(LOG_AREA_CONNTRACK, "job %u: %u frontends, %u targets", job.id,
			  job.frontends.n, job.targets.n);
		worker_send(c->worker, &job);
	} else {
		arm(c);
	}
}

static void note_success(struct conntrack *c, const struct worker_answer *a)
{
	struct conntrack_stats *s = &c->stats;

	s->passes++;
	s->n_matches += a->pass.n_matches;
	s->n_seen += a->pass.n_seen;
	s->n_deleted += a->pass.n_deleted;
	s->last_took_ns = a->took_ns;
	s->longest_ns = MAX(s->longest_ns, a->took_ns);
	if (c->is_failing)
		log_notice(LOG_AREA_CONNTRACK, "stale flow scan: recovered");
	c->is_failing = false;
	log_info(LOG_AREA_CONNTRACK,
		 "stale flow scan: %" PRIu64 " targets filtered by the kernel, %" PRIu64
		 " flows checked, %" PRIu64 " deleted, %" PRIu64 " ms",
		 a->pass.n_matches, a->pass.n_seen, a->pass.n_deleted, a->took_ns / NSEC_PER_MSEC);
}

static void note_failure(struct conntrack *c, const struct worker_answer *a)
{
	c->stats.failures++;
	if (!c->is_failing)
		log_warn(LOG_AREA_CONNTRACK,
			 "stale flow scan: %s; stale flows stay until a retry succeeds",
			 a->err.text);
	c->is_failing = true;
}

static void on_done(void *arg, const struct worker_answer *a)
{
	struct conntrack *c = arg;

	if (a->result == 0)
		note_success(c, a);
	else
		note_failure(c, a);
	stale_job_done(c->stale, a->id, a->result, a->took_ns, now_ns());
	arm(c);
}

void conntrack_accepted(struct conntrack *c, const struct svc *svc, const struct plan_rows *rows)
{
	stale_accepted(c->stale, svc, rows, now_ns());
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
		(void)sysctl_apply(&c->sysctls, "");
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

struct conntrack_stats conntrack_stats_get(const struct conntrack *c)
{
	struct stale_stats stale = stale_stats_get(c->stale);
	struct conntrack_stats s = c->stats;

	s.restarts = worker_restarts(c->worker);
	s.frontends = stale.frontends;
	s.pending = stale.pending;
	return s;
}

int conntrack_open(struct conntrack **ret, struct event_base *base, const struct model *m,
		   const struct conntrack_config *config, struct err *err)
{
	AUTO(conntrack_close) struct conntrack *c = xcalloc(1, sizeof(*c));
	struct worker_config worker = { .run = helper_run, .helper = c, .done = on_done, .arg = c };
	int r = worker_open(&c->worker, base, &worker, err);

	if (r < 0)
		return r;
	stale_open(&c->stale, m, config->is_reset);
	c->sysctls = config->sysctls;
	c->timer = event_new(base, -1, 0, on_timer, c);
	if (c->timer == NULL)
		return err_set(err, -ENOMEM, "event");
	*ret = TAKE(c);
	return 0;
}

void conntrack_close(struct conntrack *c)
{
	if (c == NULL)
		return;
	if (c->timer != NULL)
		event_free(c->timer);
	worker_close(c->worker);
	stale_close(c->stale);
	free(c);
}
