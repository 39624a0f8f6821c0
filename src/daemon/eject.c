/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/eject.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/monitor.h"
#include "base/log.h"
#include "base/loop.h"
#include "state/context.h"

/* Between reads while there are refusals. */
#define HURRY_NS (2 * NSEC_PER_MSEC)

/* A handshake of this process. */
struct probe {
	struct list link;
	struct eject_loop *loop;
	struct eject_endpoint of; /* counted names */
	struct ip_endpoint to;
	struct event *event;
	int fd;    /* -1: none */
	int error; /* of socket() or connect() */
};

struct eject_loop {
	struct failover_config config;
	struct failover *failover;
	struct eject_calls calls;
	struct eject *eject;
	struct event_base *base;
	struct event *timer;
	struct list probes;
	bool has_refusals; /* at the last read */
	uint64_t read_ns;  /* it began */
	uint64_t until;    /* failover_work() at which it ends; later ones read what is left */
};

/* --- probes --- */

static void probe_close(struct probe *p)
{
	list_del(&p->link);
	event_drop(p->event);
	if (p->fd >= 0)
		(void)close(p->fd);
	name_pair_unref(p->of.ns, p->of.name);
	free(p);
}

int eject_probe_error(int fd)
{
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return errno;
	if (error == 0 && getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0)
		return ETIMEDOUT;
	return error;
}

/* Answered, refused, or late. connect() takes an error of its own from SO_ERROR. */
static void on_probe(evutil_socket_t fd, short what, void *arg)
{
	struct probe *p = arg;
	int error = p->error != 0 ? p->error : eject_probe_error(fd);

	eject_probed(p->loop->eject, &p->of, &p->to, eject_probe_of(error), now_ns());
	probe_close(p);
}

/* Set fd and error. */
static void probe_connect(struct probe *p, const struct ip_endpoint *to)
{
	const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_storage addr;
	socklen_t len = ip_sockaddr(&addr, &to->addr, to->port);

	p->fd = socket(to->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p->fd < 0) {
		p->error = errno;
		return;
	}
	(void)setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (connect(p->fd, (const struct sockaddr *)&addr, len) < 0 && errno != EINPROGRESS)
		p->error = errno;
}

static void probe_begin(void *arg, const struct eject_endpoint *e, const struct ip_endpoint *to)
{
	struct eject_loop *l = arg;
	struct probe *p = xcalloc(1, sizeof(*p));

	p->loop = l;
	p->of = (struct eject_endpoint){ name_ref(e->ns), name_ref(e->name), e->by };
	p->to = *to;
	probe_connect(p, to);
	list_add_tail(&l->probes, &p->link);
	p->event = xevent_new(l->base, p->fd, p->fd >= 0 ? EV_WRITE : 0, on_probe, p);
	event_after(p->event, l->config.limit_ns);
}

/* --- evidence --- */

static int answers_read(void *arg, struct endpoint_answer *v, size_t n)
{
	const struct eject_loop *l = arg;

	return l->config.plane->ops->answers(l->config.plane, v, n, NULL);
}

static void on_refusal(void *arg, const struct plane_handshake *h)
{
	struct eject_loop *l = arg;
	uint64_t now = now_ns();

	l->has_refusals = true;
	if (failover_work(l->failover) >= l->until)
		return;
	/* The kernel computed the age between the two times. */
	failover_refused(l->failover, &h->flow, &h->by, l->read_ns - h->age_ns, now - h->age_ns,
			 now);
}

static void on_failed(void *arg, const struct svc *svc, const struct ip_endpoint *by,
		      uint64_t at_ns, bool is_refused)
{
	const struct eject_loop *l = arg;

	eject_failed(l->eject, svc, by, at_ns, is_refused);
}

/* The failover's read logs errors of the tables. */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct eject_loop *l = arg;
	struct plane *p = l->config.plane;
	uint64_t begin = thread_cpu_ns();
	struct err err = { 0 };

	l->has_refusals = false;
	l->read_ns = now_ns();
	l->until = failover_work(l->failover) + FAILOVER_WORK_MAX;
	if (sync_state_get(l->config.sync) == SYNC_RUNNING) {
		(void)!p->ops->handshakes(p, PLANE_HANDSHAKES_REFUSED, on_refusal, l, &err);
		eject_step(l->eject, now_ns());
	}
	event_after(l->timer, MAX(l->has_refusals ? HURRY_NS : EJECT_READ_NS,
				  failover_rest_ns(thread_cpu_ns() - begin)));
}

/* --- log --- */

static void on_changed(void *arg, const struct model_ejection *e, bool is_over)
{
	const struct eject_loop *l = arg;
	const char *text = ip_endpoint_str(&e->addr, e->port);

	l->config.counts->ejections += !is_over;
	if (is_over)
		log_notice(LOG_AREA_CONNTRACK,
			   "service %s/%s: endpoint %s: admitted after %" PRIu64 " s", e->ns->text,
			   e->name->text, text, (now_ns() - e->since_ns) / NSEC_PER_SEC);
	else
		log_notice(
			LOG_AREA_CONNTRACK,
			"service %s/%s: endpoint %s: ejected: %" PRIu32
			" handshakes in a row %s; no new connections from this node, next probe in "
			"%" PRIu64 " s",
			e->ns->text, e->name->text, text, e->failed, model_ejection_failure(e),
			(e->probe_ns - e->since_ns) / NSEC_PER_SEC);
	monitor_ejection(l->config.monitor, e, is_over);
	l->config.changed(l->config.arg);
}

/* --- life --- */

void eject_loop_open(struct eject_loop **ret, struct event_base *base,
		     const struct failover_config *config, struct failover *failover)
{
	struct eject_loop *l = xcalloc(1, sizeof(*l));

	l->config = *config;
	l->failover = failover;
	l->base = base;
	l->calls = (struct eject_calls){ answers_read, probe_begin, on_changed, l };
	list_init(&l->probes);
	l->timer = xtimer_new(base, on_timer, l);
	eject_open(&l->eject, config->plan->model, &l->calls);
	failover_watch(failover, on_failed, l);
	event_after(l->timer, EJECT_READ_NS);
	*ret = l;
}

void eject_loop_close(struct eject_loop *l)
{
	if (l == NULL)
		return;
	failover_watch(l->failover, NULL, NULL);
	list_for_each_safe (i, tmp, &l->probes)
		probe_close(list_entry(i, struct probe, link));
	event_free(l->timer);
	eject_close(l->eject);
	free(l);
}
