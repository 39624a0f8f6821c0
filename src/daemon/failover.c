/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/failover.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <stdlib.h>
#include <string.h>

#include "api/monitor.h"
#include "base/log.h"
#include "base/loop.h"
#include "conntrack/ctnl.h"
#include "daemon/eject.h"
#include "state/context.h"

/* Reads of the handshakes within one limit: a handshake is moved at 1.2 limits at the latest. */
#define READS 5
#define RETRY_NS NSEC_PER_SEC
/* Elements deleted at once, each by transactions of its own. */
#define GONE_STEP 16
/* Life of a move of UDP: as long as the kernel keeps a flow without a reply, by default. */
#define UDP_MOVE_S 30
/* While so many moves are remembered, further ones live for a shorter time: memory is bounded. */
#define MOVES_LONG 16384
#define SHORT_MOVE_S 5
/*
 * Deletions begin within this time of the claim, whose elements expire after FAILSET_CLAIMED_S:
 * this process may have been stopped meanwhile, and clients have answers then.
 */
#define CLAIM_NS (500 * NSEC_PER_MSEC)
/* Rest after work, in multiples of its CPU time: 5 % of a CPU. */
#define PACE 19
#define REST_MAX_NS (5 * NSEC_PER_SEC)

struct found {
	struct ip_flow of;
	uint64_t syn_ns; /* the last packet that made a flow */
};

/* A flow that was moved: the client's next packet goes to `to` for some time. */
struct moved {
	struct ip_flow of;
	struct ip_endpoint to;
	uint64_t end_ns;
	bool is_ended;
};

struct moved_list {
	VEC(struct moved) all; /* of a flow that moved again the last one counts */
	bool is_read;          /* with those of an earlier process */
	bool is_failing;       /* the last gone_delete() */
	/* A new transaction continues at `next`, so that every move is compared. */
	size_t next;     /* the next of them to compare with the new rows; then the first */
	size_t left;     /* moves that are not compared yet */
	uint64_t due_ns; /* when the next one is */
};

struct failover_loop {
	struct failover_config config;
	struct failover *failover;
	struct eject_loop *eject; /* NULL: no endpoint is ejected */
	struct ctnl *ctnl;
	struct event *timer;
	uint64_t read_ns;        /* between reads */
	bool has_udp;            /* the last read */
	VEC(struct found) found; /* by the last read */
	size_t next;             /* the first of them that is not worked off */
	struct moved_list moved;
	uint64_t due_ns;   /* of the next step */
	uint64_t spent_ns; /* of CPU time, for this read and what it found */
	/* Of the current step. */
	uint64_t now;
	uint64_t claimed_ns; /* before move_begin() */
	VEC(struct ip_flow) due;
	VEC(struct ip_flow) claimed;  /* of `moves` */
	VEC(struct plane_move) moves; /* first all silent flows, then those that move */
};

static void on_handshake(void *arg, const struct plane_handshake *h)
{
	struct failover_loop *l = arg;

	l->has_udp |= h->flow.proto == L4PROTO_UDP;
	*vec_push(&l->found) = (struct found){ h->flow, now_ns() - h->age_ns };
}

static void on_udp_reply(void *arg, const struct plane_handshake *h)
{
	struct failover_loop *l = arg;
	uint64_t now = now_ns();

	failover_replied(l->failover, &h->by, now - h->age_ns, now);
}

/* Take due flows of those found: at most FAILOVER_STEP, with at most FAILOVER_WORK_MAX of work. */
static void due_take(struct failover_loop *l)
{
	uint64_t until = failover_work(l->failover) + FAILOVER_WORK_MAX;

	vec_clear(&l->due);
	l->now = now_ns();
	while (l->next < l->found.n && l->due.n < FAILOVER_STEP &&
	       failover_work(l->failover) < until) {
		const struct found *f = &l->found.v[l->next++];

		if (failover_take(l->failover, &f->of, l->now - f->syn_ns, l->now))
			*vec_push(&l->due) = f->of;
	}
}

/* Translated, which the status does not show if IPVS did, and without any packet of the backend. */
static bool is_unanswered(const struct ctnl_entry *e)
{
	bool is_translated =
		e->status & IPS_DST_NAT || ip_endpoint_cmp(&e->flow.by, &e->flow.to) != 0;

	return is_translated && !(e->status & IPS_SEEN_REPLY);
}

static bool can_move(const struct failover_loop *l)
{
	return l->config.plane->ops->move_begin != NULL;
}

static void on_silence(void *arg, const struct failover_silence *s, bool is_over)
{
	const struct failover_loop *l = arg;
	const char *text = ip_endpoint_str(&s->by.addr, s->by.port);

	if (is_over)
		log_notice(LOG_AREA_CONNTRACK,
			   "service %s/%s: endpoint %s: recovered: no unanswered TCP handshake for "
			   "%d s; before that, %" PRIu64 " unanswered in %" PRIu64 " s",
			   s->ns->text, s->name->text, text,
			   (int)(FAILOVER_SILENT_NS / NSEC_PER_SEC), s->unanswered,
			   (s->last_ns - s->since_ns) / NSEC_PER_SEC + 1);
	else
		log_notice(LOG_AREA_CONNTRACK,
			   "service %s/%s: endpoint %s: TCP handshake unanswered for %u ms%s",
			   s->ns->text, s->name->text, text,
			   (unsigned int)(l->config.limit_ns / NSEC_PER_MSEC),
			   can_move(l) ? "; handshakes move to other endpoints" : "");
	monitor_silence(l->config.monitor, s, is_over);
}

static void udp_log(const struct failover_choice *c)
{
	log_info(LOG_AREA_CONNTRACK,
		 "service %s/%s: endpoint %s: UDP flow without a reply; moving to %s",
		 c->svc->ns->text, c->svc->name->text, ip_endpoint_str(&c->from.addr, c->from.port),
		 ip_endpoint_str(&c->to.addr, c->to.port));
}

static void on_due_flow(void *arg, size_t i, const struct ctnl_entry *e)
{
	struct failover_loop *l = arg;
	struct plane *p = l->config.plane;
	const struct ip_endpoint *by = &e->flow.by;

	if (!is_unanswered(e))
		return;
	/* Another program may translate a frontend's packets before vipd does. */
	if (p->ops->is_backend != NULL && !p->ops->is_backend(p, &by->addr, by->port))
		return;
	failover_note(l->failover, &l->due.v[i], by, l->now);
	/* Void until on_claimed_flow() finds the flow still unanswered, and deletes it. */
	*vec_push(&l->moves) = (struct plane_move){ .of = l->due.v[i],
						    .from = { .addr = by->addr, .port = by->port },
						    .is_void = true };
}

/* False: the flow stays. */
static bool move_choose(struct failover_loop *l, struct plane_move *m)
{
	struct ip_endpoint by = { m->from.addr, m->from.port, 0 };
	struct failover_choice c;

	if (!failover_choose(l->failover, &m->of, &by, l->now, &c) || !can_move(l))
		return false;
	m->life_s = l->moved.all.n >= MOVES_LONG ? SHORT_MOVE_S
		    : m->of.proto == L4PROTO_UDP ? UDP_MOVE_S
						 : PLANE_MOVE_MAX_S;
	m->pool = c.pool;
	m->from = c.from;
	m->to = c.to;
	if (m->of.proto == L4PROTO_UDP)
		udp_log(&c);
	return true;
}

/* The flow is claimed: the client has no answer, and gets none of this backend. */
static void on_claimed_flow(void *arg, size_t i, const struct ctnl_entry *e)
{
	struct failover_loop *l = arg;

	if (!is_unanswered(e) || now_ns() - l->claimed_ns > CLAIM_NS)
		return;
	ctnl_delete(l->ctnl, e);
	l->moves.v[i].is_void = false;
}

/* Delete the claimed flows. Returns the number of moves. */
static int claimed_delete(struct failover_loop *l, uint64_t *n_moved, struct err *err)
{
	int r, q;

	vec_clear(&l->claimed);
	vec_for_each (m, &l->moves)
		*vec_push(&l->claimed) = m->of;
	r = ctnl_lookup(l->ctnl, l->claimed.v, l->claimed.n, on_claimed_flow, l, err);
	if (now_ns() - l->claimed_ns > CLAIM_NS) {
		ctnl_delete_drop(l->ctnl);
		vec_for_each (m, &l->moves)
			m->is_void = true;
		r = r < 0 ? r : err_set(err, -EAGAIN, "the claims may have expired");
	}
	q = ctnl_delete_flush(l->ctnl, n_moved, r < 0 ? NULL : err);
	return r < 0 ? r : q;
}

/* `n_moved` lacks flows that ended meanwhile: assume that these were of TCP. */
static void moves_count(struct failover_loop *l, uint64_t n_moved)
{
	uint64_t n_udp = 0;

	vec_for_each (m, &l->moves)
		n_udp += !m->is_void && m->of.proto == L4PROTO_UDP;
	n_udp = MIN(n_udp, n_moved);
	l->config.counts->udp_moves += n_udp;
	l->config.counts->moves += n_moved - n_udp;
}

static bool is_moved(const struct moved *m, uint64_t now)
{
	return !m->is_ended && now < m->end_ns;
}

static void moved_prune(struct moved_list *d)
{
	uint64_t now = now_ns();
	size_t next = d->next;
	size_t n = 0;

	for (size_t i = 0; i < d->all.n; i++)
		if (is_moved(&d->all.v[i], now))
			d->all.v[n++] = d->all.v[i];
		else
			d->next -= i < next;
	vec_cut(&d->all, n);
	d->next = d->next < n ? d->next : 0;
	d->left = MIN(d->left, n);
}

static void moves_note(struct failover_loop *l)
{
	struct moved_list *d = &l->moved;

	vec_for_each (m, &l->moves) {
		if (m->is_void)
			continue;
		*vec_push(&d->all) =
			(struct moved){ .of = m->of,
					.to = { m->to.addr, m->to.port, 0 },
					.end_ns = now_ns() + m->life_s * NSEC_PER_SEC };
		d->left += d->left > 0; /* it may be before those that are left */
	}
}

static void on_old_move(void *arg, const struct plane_handshake *h)
{
	struct failover_loop *l = arg;
	uint64_t end_ns = now_ns() + PLANE_MOVE_MAX_S * NSEC_PER_SEC - h->age_ns;

	*vec_push(&l->moved.all) = (struct moved){ h->flow, h->by, end_ns, false };
}

/* Moves of an earlier process, whose endpoints may have left meanwhile. */
static int old_moves_read(struct failover_loop *l, struct err *err)
{
	struct plane *p = l->config.plane;
	struct moved_list *d = &l->moved;
	size_t n = d->all.n;
	int r;

	if (d->is_read || !can_move(l))
		return 0;
	r = p->ops->handshakes(p, PLANE_HANDSHAKES_MOVED, on_old_move, l, err);
	if (r < 0)
		vec_cut(&d->all, n);
	d->is_read = r == 0;
	d->left = d->all.n;
	return r;
}

/* The flow's element is that of its last move. The search is subtracted from the work left. */
static bool is_replaced(const struct moved_list *d, const struct moved *m, uint64_t *until)
{
	const struct moved *later = m + 1;
	bool ret = false;

	for (; !ret && later < d->all.v + d->all.n; later++)
		ret = memcmp(&later->of, &m->of, sizeof(m->of)) == 0;
	*until -= MIN(*until, (uint64_t)(later - m) / 16);
	return ret;
}

/*
 * End moves to endpoints that left their pools: nothing would move the client's next packet again
 * at once. One call does at most FAILOVER_WORK_MAX of work; after an error the next one repeats it.
 */
static int gone_delete(struct failover_loop *l, struct err *err)
{
	uint64_t until = failover_work(l->failover) + FAILOVER_WORK_MAX;
	struct plane *p = l->config.plane;
	struct moved_list *d = &l->moved;
	uint64_t now = now_ns();
	struct moved *ended[GONE_STEP];
	size_t first = d->next;
	size_t left = d->left;
	int r = 0;

	vec_clear(&l->moves);
	for (; d->left > 0 && l->moves.n < GONE_STEP && failover_work(l->failover) < until;
	     d->left--) {
		struct moved *m = &d->all.v[d->next];

		d->next = d->next + 1 < d->all.n ? d->next + 1 : 0;
		if (!is_moved(m, now) || failover_has(l->failover, &m->of, &m->to))
			continue;
		m->is_ended = is_replaced(d, m, &until);
		if (m->is_ended)
			continue;
		ended[l->moves.n] = m;
		*vec_push(&l->moves) = (struct plane_move){ .of = m->of, .is_void = true };
	}
	if (l->moves.n > 0)
		r = p->ops->move_end(p, l->moves.v, l->moves.n, err);
	for (size_t i = 0; i < l->moves.n; i++)
		ended[i]->is_ended = r == 0;
	if (r < 0) {
		d->next = first;
		d->left = left;
	}
	return r;
}

static int moves_make(struct failover_loop *l, struct err *err)
{
	struct plane *p = l->config.plane;
	uint64_t n_moved = 0;
	int r, q;

	if (l->moves.n == 0)
		return 0;
	l->claimed_ns = now_ns();
	r = p->ops->move_begin(p, l->moves.v, l->moves.n, err);
	if (r < 0)
		return r;
	r = claimed_delete(l, &n_moved, err);
	q = p->ops->move_end(p, l->moves.v, l->moves.n, r < 0 ? NULL : err);
	moves_count(l, n_moved);
	moves_note(l);
	return r < 0 ? r : q;
}

static void found_clear(struct failover_loop *l)
{
	vec_clear(&l->found);
	l->next = 0;
	l->has_udp = false;
	l->spent_ns = 0;
}

static int due_move(struct failover_loop *l, struct err *err)
{
	int r;

	vec_clear(&l->moves);
	if (l->due.n == 0)
		return 0;
	r = ctnl_lookup(l->ctnl, l->due.v, l->due.n, on_due_flow, l, err);
	if (r == 0) {
		vec_keep(&l->moves, m, move_choose(l, m));
		r = moves_make(l, err);
	}
	if (r < 0) /* all of the step, those that succeeded included: their flows no longer exist */
		vec_for_each (flow, &l->due)
			failover_again(l->failover, flow);
	return r;
}

static int read_all(struct failover_loop *l, struct err *err)
{
	struct plane *p = l->config.plane;
	int r, q;

	found_clear(l);
	moved_prune(&l->moved);
	r = old_moves_read(l, err);
	q = p->ops->handshakes(p, PLANE_HANDSHAKES_SILENT, on_handshake, l, r < 0 ? NULL : err);
	r = r < 0 ? r : q;
	if (l->has_udp)
		q = p->ops->handshakes(p, PLANE_UDP_REPLIES, on_udp_reply, l, r < 0 ? NULL : err);
	return r < 0 ? r : q;
}

/* After a failed read, flows that were found before are still moved. */
static int step(struct failover_loop *l, struct err *err)
{
	int r = 0, q;

	if (l->next == l->found.n)
		r = read_all(l, err);
	due_take(l);
	q = due_move(l, r < 0 ? NULL : err);
	return r < 0 ? r : q;
}

static void outcome_log(const struct failover_loop *l, int r, const struct err *err)
{
	struct plane *p = l->config.plane;
	bool was_failing = p->faults[PLANE_FAULT_MOVES].text[0] != '\0';

	if (r < 0)
		(void)plane_fault_set(
			p, PLANE_FAULT_MOVES, false,
			str_local(sizeof(err->text) + 64,
				  "failover: %s; handshakes stay with their endpoints", err->text));
	if (r < 0 && !was_failing)
		log_warn(LOG_AREA_CONNTRACK,
			 "failover: %s; handshakes stay with their endpoints; next attempt in %d s",
			 err->text, (int)(RETRY_NS / NSEC_PER_SEC));
	else if (r == 0 && plane_fault_clear(p, PLANE_FAULT_MOVES))
		log_notice(LOG_AREA_CONNTRACK, "failover: recovered");
}

/* While the sync loads or adopts, only it uses the plane. */
static bool is_running(const struct failover_loop *l)
{
	return sync_state_get(l->config.sync) == SYNC_RUNNING;
}

uint64_t failover_rest_ns(uint64_t cpu_ns)
{
	return MIN(cpu_ns * PACE, REST_MAX_NS);
}

/* Returns the time until there is more to do; UINT64_MAX: nothing. */
static uint64_t moved_step(struct failover_loop *l, uint64_t now)
{
	uint64_t begin = thread_cpu_ns();
	struct err err = { 0 };
	int r;

	if (l->moved.left == 0)
		l->moved.is_failing = false;
	if (!is_running(l) || l->moved.left == 0)
		return UINT64_MAX;
	if (now < l->moved.due_ns)
		return l->moved.due_ns - now;
	r = gone_delete(l, &err);
	l->moved.is_failing = r < 0;
	if (r < 0)
		outcome_log(l, r, &err);
	l->moved.due_ns = now + (r < 0 ? RETRY_NS : failover_rest_ns(thread_cpu_ns() - begin));
	return l->moved.left > 0 ? l->moved.due_ns - now : UINT64_MAX;
}

/* Returns the time to the next step. */
static uint64_t due_step(struct failover_loop *l)
{
	uint64_t begin = thread_cpu_ns();
	struct err err = { 0 };
	uint64_t wait = 0;
	int r = -EAGAIN;

	failover_tick(l->failover, now_ns());
	if (is_running(l))
		r = step(l, &err);
	else
		found_clear(l);
	if (r < 0 ? r != -EAGAIN : !l->moved.is_failing)
		outcome_log(l, r, &err);
	l->spent_ns += thread_cpu_ns() - begin;
	if (l->next == l->found.n)
		wait = MAX(l->read_ns, failover_rest_ns(l->spent_ns));
	return r < 0 && r != -EAGAIN ? MAX(wait, RETRY_NS) : wait;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct failover_loop *l = arg;
	uint64_t now = now_ns();
	uint64_t wait = moved_step(l, now);

	if (now >= l->due_ns)
		l->due_ns = now_ns() + due_step(l);
	now = now_ns();
	event_after(l->timer, MIN(wait, l->due_ns > now ? l->due_ns - now : 0));
}

int failover_loop_open(struct failover_loop **ret, struct event_base *base,
		       const struct failover_config *config, struct err *err)
{
	AUTO(failover_loop_close) struct failover_loop *l = xcalloc(1, sizeof(*l));
	int r = ctnl_connect(&l->ctnl, err);

	if (r < 0)
		return r;
	l->config = *config;
	l->timer = xtimer_new(base, on_timer, l);
	failover_open(&l->failover, config->plan, config->limit_ns, on_silence, l);
	failover_udp(l->failover, config->udp_ns);
	if (config->ejects)
		eject_loop_open(&l->eject, base, config, l->failover);
	l->read_ns = MIN(config->limit_ns, FAILOVER_REMOVED_NS) / READS;
	if (config->udp_ns != 0)
		l->read_ns = MIN(l->read_ns, config->udp_ns / READS);
	event_after(l->timer, l->read_ns);
	*ret = TAKE(l);
	return 0;
}

void failover_loop_close(struct failover_loop *l)
{
	if (l == NULL)
		return;
	event_drop(l->timer);
	ctnl_close(l->ctnl);
	eject_loop_close(l->eject);
	failover_close(l->failover);
	vec_fini(&l->found);
	vec_fini(&l->due);
	vec_fini(&l->claimed);
	vec_fini(&l->moves);
	vec_fini(&l->moved.all);
	free(l);
}

void failover_loop_accepted(struct failover_loop *l)
{
	if (l == NULL)
		return;
	failover_accepted(l->failover, now_ns());
	l->moved.left = l->moved.all.n;
	if (l->moved.all.n > 0)
		event_after(l->timer, 0);
}

struct failover *failover_loop_state(const struct failover_loop *l)
{
	return l != NULL ? l->failover : NULL;
}
