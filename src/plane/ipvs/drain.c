/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/drain - draining destinations: doc/design/0007-ipvs-plane.md.
 *
 *      weight 0 --connections ended, or drain timeout--> deleted
 *         \--desired again--> its weight, neither deleted nor added
 *
 *  Start and deadline of a drain are stored in the kernel, as the lower and upper threshold, which
 *  have no effect at weight 0: a restarted process continues the drain. A retiring plane (plane.h)
 *  keeps the weights. IPVS does not announce the end of a connection: services with draining
 *  destinations, and only these, are read once a second.
 *
 *  A backend that this node only does not choose any more (zone, hints, policy, ejection) has no
 *  deadline while an EndpointSlice lists it as serving. UDP has no end of a connection: a backend
 *  is deleted when no slice lists it as serving, and the next packet of a client goes to another
 *  one (expire_nodest_conn). SCTP associations end, and are treated like TCP.
 *
 *  Virtual services with a pending scheduler (IPVS_RENEWALS) are in the same list.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/log.h"
#include "model/drain.h"
#include "model/tuning.h"
#include "plane/ipvs/state.h"

#define TICK_NS NSEC_PER_SEC
/* The work of a call is that of reading IPVS_READ_DESTS. Delay before the next call. */
#define TICK_AGAIN_NS (10 * NSEC_PER_MSEC)
#define TICK_RETRY_NS (5 * NSEC_PER_SEC)
#define DEAD_S 5 /* as STALE_DEAD_NS of conntrack/stale.h */
/* Delay before UDP backends are checked against the model, without a message to the kernel. */
#define DATAGRAMS_NS (20 * NSEC_PER_MSEC)

static bool is_datagram(const struct ipvs_vs *vs)
{
	return vs->proto == L4PROTO_UDP;
}

/* Does the drain timeout apply to the endpoint though it serves? */
static bool has_timeout(const struct model *m, const struct svc *svc, const struct slice *s,
			const struct slice_endpoint *e)
{
	return e->flags & ENDPOINT_TERMINATING || model_is_drained(m, svc, e) ||
	       weights_of(service_weights(svc->service), &e->addr, e->pod, s->name) == 0;
}

/* Destinations with the address of the endpoint, which serves, are served on the slice's ports. */
static void serving_mark(struct ipvs_plane *p, struct ipvs_vs *vs, const struct svc *svc,
			 const struct slice *s, const struct slice_endpoint *e)
{
	for (size_t i = ipvs_dst_place(vs, &(struct ip_endpoint){ .addr = e->addr });
	     i < vs->dests.n && ip_addr_is_equal(&vs->dests.v[i].addr, &e->addr); i++) {
		struct ipvs_dst *d = &vs->dests.v[i];

		if (!is_datagram(vs) && !(d->flags & DST_DRAINING))
			continue; /* not needed */
		if (slice_port_at(s, vs->proto, d->port, 0, &p->n_ports_compared) == NULL)
			continue;
		d->is_serving = true;
		d->is_unlimited |= d->flags & DST_DRAINING && !has_timeout(p->model, svc, s, e);
	}
}

static struct svc *svc_of(const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	return vs->ns != NULL && p->model != NULL ? model_find(p->model, vs->ns, vs->name) : NULL;
}

/*
 * Set is_serving of all destinations: does an EndpointSlice of the Service list the address and
 * port as serving? Also is_unlimited of draining ones. Returns the number of endpoints compared.
 */
static size_t serving_read(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	const struct svc *svc = svc_of(p, vs);
	size_t n = 0;

	vec_for_each (d, &vs->dests)
		d->is_serving = d->is_unlimited = false;
	if (svc == NULL || svc->service == NULL)
		return 0;
	list_for_each_entry (of, &svc->slices, struct slice_entry, link) {
		vec_for_each (e, &of->slice->endpoints)
			if (e->flags & ENDPOINT_SERVING)
				serving_mark(p, vs, svc, of->slice, e);
		n += of->slice->endpoints.n;
	}
	p->n_compared += n;
	return n;
}

void ipvs_drain_watch(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	bool is_pending = ipvs_vs_differs(p, vs) || (vs->is_programmed && !ipvs_vs_is_desired(vs));

	if (vs->is_kept || list_is_linked(&vs->draining) ||
	    (!is_pending && !vec_has(&vs->dests, d, d->flags & DST_DRAINING)))
		return;
	list_add_tail(&p->draining, &vs->draining);
	p->tick_at = p->tick_at == 0 ? now_ns() + TICK_NS : p->tick_at;
}

uint32_t ipvs_drain_deadline(uint32_t since_s, uint32_t drain_s)
{
	uint64_t deadline_s = (uint64_t)since_s + drain_s;

	return drain_s != 0 && deadline_s < IPVS_DRAIN_UNLIMITED ? (uint32_t)deadline_s : 0;
}

/*
 * By the drain timeout in force; a virtual service that is not desired keeps its deadline. The next
 * check ends IPVS_DRAIN_UNLIMITED.
 */
static uint32_t deadline_of(const struct ipvs_vs *vs, const struct ipvs_dst *d)
{
	if (!vs->desired.exists || d->deadline_s == IPVS_DRAIN_UNLIMITED)
		return d->deadline_s;
	return ipvs_drain_deadline(d->since_s, vs->drain_s);
}

void ipvs_drain_retime(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	vec_for_each (d, &vs->dests) {
		uint32_t deadline_s = deadline_of(vs, d);
		bool is_draining = d->flags & DST_DRAINING && d->flags & DST_PROGRAMMED;
		bool has_weight = d->weight != 0 && !p->is_retiring;

		if (is_draining && d->since_s != 0 && (deadline_s != d->deadline_s || has_weight))
			ipvs_op_drain(p, vs, d, d->since_s, deadline_s);
	}
}

bool ipvs_drain_begin(struct ipvs_plane *p, struct ipvs_vs *vs, struct ipvs_dst *d)
{
	uint32_t now_s = ipvs_now_s(p);
	bool is_begun = d->flags & DST_PROGRAMMED && (d->weight == 0 || p->is_retiring) &&
			d->since_s != 0 && d->since_s <= now_s; /* by an earlier process */
	uint32_t deadline_s;

	if (is_datagram(vs) && !vs->has_serving) {
		(void)serving_read(p, vs);
		vs->has_serving = true;
	}
	if (is_datagram(vs) && !d->is_serving) {
		ipvs_op_dest(p, IPVS_CMD_DEL_DEST, vs, d, 0);
		return true;
	}
	if (is_begun) {
		deadline_s = deadline_of(vs, d);
	} else {
		d->since_s = now_s;
		deadline_s = ipvs_drain_deadline(now_s, vs->drain_s);
	}
	if (!is_begun || deadline_s != d->deadline_s) {
		d->flags &= (uint8_t)~DST_COUNTED;
		ipvs_op_drain(p, vs, d, d->since_s, deadline_s);
	}
	d->flags |= DST_DRAINING;
	return false;
}

/* --- checking --- */

static void timeout_log(const struct ipvs_vs *vs, const struct ipvs_dst *d)
{
	log_info(LOG_AREA_PLANE,
		 "service %s/%s: backend %s: drain timeout; deleted with %" PRIu32 " connections",
		 name_text(vs->ns), name_text(vs->name), ip_endpoint_str(&d->addr, d->port),
		 d->active + d->inactive);
}

/*
 * --dead-flows=reset (CT-03): no slice of any Service lists the address. All are known only in
 * normal operation.
 */
static bool is_dead(const struct ipvs_plane *p, const struct ipvs_vs *vs, struct ipvs_dst *d,
		    uint32_t now_s)
{
	bool is_gone = vs->proto == L4PROTO_TCP && p->model != NULL &&
		       p->model->config.tracks_addrs && p->common.loaded == NULL &&
		       !model_has_addr(p->model, &d->addr);

	if (!is_gone || d->gone_s < d->since_s) /* unset, or of an earlier drain */
		d->gone_s = is_gone ? now_s : 0;
	return is_gone && now_s > d->gone_s + DEAD_S;
}

static bool is_drained(struct ipvs_plane *p, const struct ipvs_vs *vs, struct ipvs_dst *d,
		       uint32_t now_s)
{
	if (d->flags & DST_COUNTED && d->active == 0 && d->inactive == 0) {
		p->drained.n_drained++;
		return true;
	}
	/* Both are rounded to seconds: at the deadline itself the timeout may not have passed. */
	if (ipvs_dst_has_deadline(d) && now_s > d->deadline_s && !d->is_unlimited) {
		p->drained.n_timed_out++;
		timeout_log(vs, d);
		return true;
	}
	return (is_datagram(vs) && !d->is_serving) || is_dead(p, vs, d, now_s);
}

/* Give the drain a deadline, or take it. True if that is an operation. */
static bool deadline_follow(struct ipvs_plane *p, struct ipvs_vs *vs, const struct ipvs_dst *d,
			    uint32_t now_s)
{
	if (d->is_unlimited && ipvs_dst_has_deadline(d))
		ipvs_op_drain(p, vs, d, d->since_s, IPVS_DRAIN_UNLIMITED);
	else if (!d->is_unlimited && d->deadline_s == IPVS_DRAIN_UNLIMITED)
		ipvs_op_drain(p, vs, d, now_s, ipvs_drain_deadline(now_s, vs->drain_s));
	else
		return false;
	return true;
}

static int place_cmp(const void *a, const void *b)
{
	const struct ipvs_dst *x = *(struct ipvs_dst *const *)a;
	const struct ipvs_dst *y = *(struct ipvs_dst *const *)b;

	return CMP(x->place, y->place);
}

/*
 * Append the deletion of drained destinations and new deadlines, at most IPVS_READ_DESTS work; 1:
 * more left. In the order of the kernel's list, which it searches for each of them: before it are
 * only those that stay. `has_dests`: any stay.
 */
static int drained_delete(struct ipvs_plane *p, struct ipvs_vs *vs, uint32_t now_s, bool *has_dests)
{
	AUTO(vec_fini) VEC(struct ipvs_dst *) draining = { 0 };
	size_t n_deleted = 0;
	size_t work = 0;
	size_t i = 0;

	(void)serving_read(p, vs);
	vec_for_each (d, &vs->dests) {
		if (d->flags & DST_DRAINING)
			*vec_push(&draining) = d;
		else /* neither: added by another process */
			*has_dests |= d->desired_weight != 0 && d->flags & DST_PROGRAMMED;
	}
	vec_sort(&draining, place_cmp);
	for (; i < draining.n && work < IPVS_READ_DESTS; i++) {
		struct ipvs_dst *d = draining.v[i];
		size_t n_before = d->place - MIN(d->place, n_deleted);

		if (is_drained(p, vs, d, now_s)) {
			work += ipvs_dests_work(vs, n_before);
			ipvs_op_dest(p, IPVS_CMD_DEL_DEST, vs, d, 0);
			n_deleted++;
		} else if (deadline_follow(p, vs, d, now_s)) {
			work += ipvs_dests_work(vs, n_before);
		}
	}
	*has_dests |= n_deleted < draining.n;
	return i < draining.n;
}

/*
 * Read one service and delete its drained destinations. 1: more left. Else the service is at the
 * end of the list, if it still drains.
 */
static int vs_check(struct ipvs_plane *p, struct ipvs_vs *vs, uint32_t now_s, struct err *err)
{
	struct plane_result res = { 0 };
	struct ipvs_tuning tuning;
	bool has_dests = false;
	int r = ipvs_dests_read(p, vs, err);
	int more;

	if (r > 0)
		return r;
	list_del(&vs->draining);
	if (r < 0) {
		list_add_tail(&p->draining, &vs->draining);
		return r;
	}
	vec_clear(&p->ops);
	more = drained_delete(p, vs, now_s, &has_dests);
	if (!has_dests && vs->is_programmed && !ipvs_vs_is_desired(vs))
		ipvs_op_service(p, IPVS_CMD_DEL_SERVICE, vs);
	r = ipvs_ops_send(p, &res, err);
	/* As after a commit: free entries that are neither programmed nor desired. */
	ipvs_vs_touch(p, vs, svc_of(p, vs));
	/* An earlier tick may have found that the kernel lacks it. */
	if (vs->svc != NULL && (p->missing_scheds & UINT32_C(1) << vs->desired.sched.no) != 0) {
		ipvs_tuning_read(&tuning, p, vs->svc->service, NULL);
		vs->desired.sched = tuning.sched;
	}
	ipvs_op_service_renew(p, vs);
	r = r == 0 ? ipvs_ops_send(p, &res, err) : r;
	if (more > 0)
		list_add_after(&p->draining, &vs->draining);
	ipvs_drain_watch(p, vs);
	ipvs_ops_done(p);
	return r < 0 ? r : more;
}

/*
 * Delete draining UDP backends that no EndpointSlice lists any more. Reads the model after each
 * change of it, and from the kernel only services with such backends, at most about IPVS_READ_DESTS
 * work; the others in the next call. False: no UDP service drains.
 */
static bool datagrams_check(struct ipvs_plane *p)
{
	struct err err = { 0 };
	uint64_t events = p->model == NULL
				  ? 0
				  : p->model->stats.slice_events + p->model->stats.service_events;
	bool has_some = false;
	size_t work = 0;

	list_for_each_entry_safe (vs, tmp, &p->draining, struct ipvs_vs, draining) {
		has_some |= is_datagram(vs);
		if (!is_datagram(vs) || vs->events_seen == events || work >= IPVS_READ_DESTS)
			continue;
		vs->events_seen = events;
		work += serving_read(p, vs) + vs->dests.n;
		/* On failure the next round retries. */
		if (vec_has(&vs->dests, d, d->flags & DST_DRAINING && !d->is_serving) &&
		    vs_check(p, vs, ipvs_now_s(p), &err) < 0)
			log_debug(LOG_AREA_PLANE, "draining UDP backends: not checked: %s",
				  err.text);
	}
	return has_some;
}

uint64_t ipvs_drain_tick(struct ipvs_plane *p, uint64_t now)
{
	struct err err = { 0 };
	size_t work = 0;
	uint64_t soon;

	p->n_renewed = 0;
	soon = datagrams_check(p) ? now + DATAGRAMS_NS : UINT64_MAX;
	if (list_is_empty(&p->draining)) {
		p->tick_at = 0;
		return 0;
	}
	if (now < p->tick_at)
		return MIN(soon, p->tick_at);
	if (p->n_round == 0) {
		p->round_at = now;
		list_for_each (l, &p->draining)
			p->n_round++;
	}
	p->tick_at = now + TICK_AGAIN_NS;
	while (!list_is_empty(&p->draining) && p->n_round > 0 && work < IPVS_READ_DESTS &&
	       p->n_renewed == 0) {
		struct ipvs_vs *vs = list_entry(p->draining.next, struct ipvs_vs, draining);
		size_t n_compared = p->n_compared;
		int r;

		work += IPVS_READ_REQUEST + vs->dests.n;
		r = vs_check(p, vs, ipvs_now_s(p), &err);
		work += p->n_compared - n_compared;
		if (r > 0)
			break;
		p->n_round--;
		if (r == 0 || r == -EAGAIN) /* -EAGAIN: the next round retries */
			continue;
		log_warn(
			LOG_AREA_PLANE,
			"draining backends and pending schedulers: not checked: %s; next attempt in 5 s",
			err.text);
		p->tick_at = now + TICK_RETRY_NS;
	}
	if (list_is_empty(&p->draining)) {
		p->n_round = p->tick_at = 0;
		return 0;
	}
	if (p->n_round == 0)
		p->tick_at = MAX(p->tick_at, p->round_at + TICK_NS);
	return MIN(soon, p->tick_at);
}

void ipvs_drain_each(const struct plane *plane, const struct svc *svc,
		     void (*fn)(void *arg, const struct plane_draining *l), void *arg)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	uint32_t now_s = ipvs_now_s(p);

	list_for_each_entry (vs, &p->draining, struct ipvs_vs, draining) {
		if (vs->ns != svc->ns || vs->name != svc->name)
			continue;
		vec_for_each (d, &vs->dests) {
			struct plane_draining draining = { .addr = d->addr,
							   .port = d->port,
							   .proto = vs->proto,
							   .is_counted = d->flags & DST_COUNTED,
							   .active = d->active,
							   .inactive = d->inactive,
							   .age_s = now_s - MIN(d->since_s, now_s),
							   .has_deadline = ipvs_dst_has_deadline(d),
							   .left_s = d->deadline_s -
								     MIN(d->deadline_s, now_s) };

			if (d->flags & DST_DRAINING)
				fn(arg, &draining);
		}
	}
}

void ipvs_drain_count(const struct plane *plane, struct plane_drains *ret)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;

	*ret = p->drained;
	list_for_each_entry (vs, &p->draining, struct ipvs_vs, draining)
		vec_for_each (d, &vs->dests)
			ret->n_draining += (d->flags & DST_DRAINING) != 0;
}
