/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane/ipvs/drain - destinations on their way out.
 *
 *     weight 0 --its connections are gone, or its time is up--> deleted
 *        \--wanted again--> its weight, never deleted and made anew
 *
 * Begin and deadline are kept in the kernel, as the lower and upper threshold, which mean nothing
 * at weight 0: so a process that begins later goes on where this one ended. They are times of
 * CLOCK_BOOTTIME, which, like IPVS's state, lasts as long as the kernel runs, and which a change
 * of the wall clock does not move. IPVS does not announce the end of a connection: services with
 * such destinations, and only those, are read once a second.
 *
 * UDP has no end of a connection: each packet of a flow keeps it alive. A backend
 * keeps its flows while it serves; as soon as no slice says so, it is deleted, and
 * its clients' next packets choose another (expire_nodest_conn). Associations of SCTP have
 * an end: they are treated as TCP connections are.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "plane/ipvs/state.h"

#define TICK_NS NSEC_PER_SEC
/* Services read in one go, and how soon the rest follows. */
#define TICK_SERVICES 128
#define TICK_AGAIN_NS (10 * NSEC_PER_MSEC)
#define TICK_RETRY_NS (5 * NSEC_PER_SEC)
/* How soon it is seen that a backend of datagrams serves no more. Without a message to the kernel.
 */
#define ORPHANS_NS (20 * NSEC_PER_MSEC)

static bool is_without_end(const struct ipvs_vs *vs)
{
	return vs->proto == L4PROTO_UDP;
}

/* Does any slice of the service say that this address serves? */
static bool serves_still(const struct ipvs_plane *p, const struct ipvs_vs *vs,
			 const struct ip_addr *addr)
{
	const struct svc *svc =
		vs->ns != NULL && p->model != NULL ? model_find(p->model, vs->ns, vs->name) : NULL;

	if (svc == NULL || svc->service == NULL)
		return false;
	list_for_each (l, &svc->slices) {
		const struct slice *s = list_entry(l, struct slice_entry, link)->slice;

		vec_for_each (e, &s->endpoints)
			if (e->flags & ENDPOINT_SERVING && ip_addr_is_equal(&e->addr, addr))
				return true;
	}
	return false;
}

void ipvs_drain_watch(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	bool is_owed = vs->is_held && (!vs->is_wanted || vs->is_shadow);

	vec_for_each (d, &vs->dests)
		is_owed |= (d->flags & DST_LEAVING) != 0;
	if (!is_owed || vs->is_spared || list_is_linked(&vs->leaving))
		return;
	list_add_tail(&p->leaving, &vs->leaving);
	p->tick_at = p->tick_at == 0 ? now_ns() + TICK_NS : p->tick_at;
}

uint32_t ipvs_drain_deadline(uint32_t since_s, uint32_t drain_s)
{
	uint64_t deadline_s = (uint64_t)since_s + drain_s;

	return drain_s != 0 && deadline_s < IPVS_THRESH_NONE ? (uint32_t)deadline_s : 0;
}

/* By the timeout in force; a virtual service that is not wanted any more keeps what it had. */
static uint32_t deadline_of(const struct ipvs_vs *vs, const struct ipvs_dst *d)
{
	if (!vs->is_wanted)
		return d->deadline_s;
	return ipvs_drain_deadline(d->since_s, vs->drain_s);
}

void ipvs_drain_retime(struct ipvs_plane *p, struct ipvs_vs *vs)
{
	vec_for_each (d, &vs->dests) {
		uint32_t deadline_s = deadline_of(vs, d);
		bool is_draining = d->flags & DST_LEAVING && d->flags & DST_HELD;

		if (is_draining && d->since_s != 0 && deadline_s != d->deadline_s)
			ipvs_op_drain(p, vs, d, d->since_s, deadline_s);
	}
}

bool ipvs_drain_begin(struct ipvs_plane *p, struct ipvs_vs *vs, struct ipvs_dst *d)
{
	uint32_t now_s = ipvs_now_s(p);
	bool is_begun = d->flags & DST_HELD && d->weight == 0 && d->since_s != 0 &&
			d->since_s <= now_s; /* by an earlier process */
	uint32_t deadline_s;

	if (is_without_end(vs) && !serves_still(p, vs, &d->addr)) {
		d->flags |= DST_QUEUED;
		ipvs_op_dest(p, IPVS_DEST_DEL, vs, d, 0);
		return true;
	}
	if (is_begun) {
		deadline_s = deadline_of(vs, d);
	} else {
		d->since_s = now_s;
		deadline_s = ipvs_drain_deadline(now_s, vs->drain_s);
	}
	if (!is_begun || deadline_s != d->deadline_s) {
		d->flags |= DST_QUEUED;
		d->flags &= (uint8_t)~DST_LOOKED;
		ipvs_op_drain(p, vs, d, d->since_s, deadline_s);
	}
	d->flags |= DST_LEAVING;
	return false;
}

/* --- looking --- */

static void look_begin(void *arg)
{
	struct ipvs_vs *vs = arg;

	vec_for_each (d, &vs->dests)
		if (d->flags & DST_LEAVING)
			d->flags &= (uint8_t)~DST_HELD;
}

static void look_found(void *arg, const struct ipvs_dest *found)
{
	struct ipvs_vs *vs = arg;
	struct ipvs_dst *d = ipvs_dst_find(vs, &found->addr, found->port);

	if (d == NULL || !(d->flags & DST_LEAVING))
		return;
	d->flags |= DST_HELD | DST_LOOKED;
	d->active = found->active;
	d->inactive = found->inactive;
}

static void told_expired(const struct ipvs_vs *vs, const struct ipvs_dst *d)
{
	char ip[IP_ENDPOINT_TEXT_MAX];

	log_info(LOG_AREA_PLANE,
		 "service %s/%s: backend %s: drain timeout; deleted with %" PRIu32 " connections",
		 name_text(vs->ns), name_text(vs->name), ip_endpoint_text(&d->addr, d->port, ip),
		 d->active + d->inactive);
}

static bool is_over(struct ipvs_plane *p, const struct ipvs_vs *vs, const struct ipvs_dst *d,
		    uint32_t now_s)
{
	if (d->active == 0 && d->inactive == 0) {
		p->stats.n_drained++;
		return true;
	}
	/* Both are whole seconds: at the deadline itself less than the timeout may have passed. */
	if (d->deadline_s != 0 && now_s > d->deadline_s) {
		p->stats.n_timed_out++;
		told_expired(vs, d);
		return true;
	}
	return is_without_end(vs) && !serves_still(p, vs, &d->addr);
}

/* One service: read, delete what is over. */
static int vs_look(struct ipvs_plane *p, struct ipvs_vs *vs, uint32_t now_s, struct err *err)
{
	struct plane_result res = { 0 };
	bool has_dests = false;
	int r = ipvs_wire_dests(p->wire, &vs->key, look_begin, look_found, vs, err);

	if (r < 0)
		return r;
	vec_clear(&p->ops);
	vec_for_each (d, &vs->dests) {
		if (d->flags & DST_LEAVING && !(d->flags & DST_HELD))
			d->flags &= (uint8_t)~DST_LEAVING;
		else if (d->flags & DST_LEAVING && is_over(p, vs, d, now_s))
			ipvs_op_dest(p, IPVS_DEST_DEL, vs, d, 0);
		else
			has_dests |= (d->flags & DST_HELD) != 0;
	}
	if (!has_dests && vs->is_held && (!vs->is_wanted || vs->is_shadow))
		ipvs_op_service(p, IPVS_SERVICE_DEL, vs);
	r = ipvs_ops_send(p, &res, err);
	/* As after a commit: entries nobody has or wants are dropped, and services. */
	list_del(&vs->leaving);
	ipvs_vs_touch(p, vs, NULL);
	ipvs_drain_watch(p, vs);
	ipvs_servers_done(p);
	return r;
}

static bool has_orphans(const struct ipvs_plane *p, const struct ipvs_vs *vs)
{
	vec_for_each (d, &vs->dests)
		if (d->flags & DST_LEAVING && !serves_still(p, vs, &d->addr))
			return true;
	return false;
}

/*
 * Backends of datagrams that were leaving when the last slice let go of them: the objects
 * are asked, whenever one has changed; the kernel only about services that have some.
 * False: there are no flows of datagrams to wait for.
 */
static bool orphans_look(struct ipvs_plane *p)
{
	struct err err = { 0 };
	uint64_t events = p->model == NULL
				  ? 0
				  : p->model->stats.slice_events + p->model->stats.service_events;
	bool has_changed = events != p->events_seen;
	bool has_some = false;
	size_t n = 0;

	list_for_each (l, &p->leaving) {
		has_some |= is_without_end(list_entry(l, struct ipvs_vs, leaving));
		n++;
	}
	p->events_seen = events;
	for (; has_some && has_changed && n > 0 && !list_is_empty(&p->leaving); n--) {
		struct ipvs_vs *vs = list_entry(p->leaving.next, struct ipvs_vs, leaving);

		list_del(&vs->leaving);
		list_add_tail(&p->leaving, &vs->leaving);
		/* What fails is done by the next look at everybody. */
		if (is_without_end(vs) && has_orphans(p, vs) &&
		    vs_look(p, vs, ipvs_now_s(p), &err) < 0)
			log_debug(LOG_AREA_PLANE, "flows of datagrams wait: %s", err.text);
	}
	return has_some;
}

uint64_t ipvs_drain_tick(struct ipvs_plane *p, uint64_t now)
{
	uint64_t soon = orphans_look(p) ? now + ORPHANS_NS : UINT64_MAX;
	struct err err = { 0 };
	struct list round;
	int n = 0;

	if (list_is_empty(&p->leaving)) {
		p->tick_at = 0;
		return 0;
	}
	if (p->tick_at == 0 || now < p->tick_at) {
		p->tick_at = p->tick_at == 0 ? now + TICK_NS : p->tick_at;
		return MIN(soon, p->tick_at);
	}
	if (p->n_unlooked == 0) {
		p->round_at = now;
		list_for_each (l, &p->leaving)
			p->n_unlooked++;
	}
	/* This go's services; those that stay go to the end of the list again. */
	list_init(&round);
	while (!list_is_empty(&p->leaving) && p->n_unlooked > 0 && n < TICK_SERVICES) {
		struct list *l = p->leaving.next;

		list_del(l);
		list_add_tail(&round, l);
		p->n_unlooked--;
		n++;
	}
	p->n_unlooked = list_is_empty(&p->leaving) ? 0 : p->n_unlooked;
	p->tick_at = now + TICK_AGAIN_NS;
	if (p->n_unlooked == 0)
		p->tick_at = MAX(p->tick_at, p->round_at + TICK_NS);
	while (!list_is_empty(&round)) {
		struct ipvs_vs *vs = list_entry(round.next, struct ipvs_vs, leaving);

		if (vs_look(p, vs, ipvs_now_s(p), &err) == 0)
			continue;
		log_warn(LOG_AREA_PLANE, "end of backends put off: %s", err.text);
		p->tick_at = now + TICK_RETRY_NS;
		if (!list_is_empty(&round) && round.next == &vs->leaving) {
			list_del(&vs->leaving);
			list_add_tail(&p->leaving, &vs->leaving);
		}
	}
	if (list_is_empty(&p->leaving)) {
		p->tick_at = 0;
		return 0;
	}
	return MIN(soon, p->tick_at);
}

void ipvs_drain_tell(const struct plane *plane, const struct svc *svc,
		     void (*fn)(void *arg, const struct plane_draining *l), void *arg)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;
	uint32_t now_s = ipvs_now_s(p);

	list_for_each (l, &p->leaving) {
		const struct ipvs_vs *vs = list_entry(l, struct ipvs_vs, leaving);

		if (vs->ns != svc->ns || vs->name != svc->name)
			continue;
		vec_for_each (d, &vs->dests) {
			struct plane_draining leaving = { .addr = d->addr,
							  .port = d->port,
							  .proto = vs->proto,
							  .is_counted = d->flags & DST_LOOKED,
							  .active = d->active,
							  .inactive = d->inactive,
							  .age_s = now_s - MIN(d->since_s, now_s),
							  .has_deadline = d->deadline_s != 0,
							  .left_s = d->deadline_s -
								    MIN(d->deadline_s, now_s) };

			if (d->flags & DST_LEAVING)
				fn(arg, &leaving);
		}
	}
}

void ipvs_drain_count(const struct plane *plane, struct plane_drains *ret)
{
	const struct ipvs_plane *p = (const struct ipvs_plane *)plane;

	*ret = (struct plane_drains){ .n_drained = p->stats.n_drained,
				      .n_timed_out = p->stats.n_timed_out };
	list_for_each (l, &p->leaving)
		vec_for_each (d, &list_entry(l, struct ipvs_vs, leaving)->dests)
			ret->n_draining += (d->flags & DST_LEAVING) != 0;
}
