/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack/stale - the ledger, and the scans that are pending.
 *
 * A record per service: its frontends, and the live endpoints of each of its ports. A
 * frontend is in the record of one service, and points to the live set of its port; a service
 * that takes it over moves it, so the order in which two services of a transaction are
 * accepted does not matter.
 *
 * A scan is a frontend and a target. Scans wait in queues, one for each delay, so that
 * the first of a queue is due first; those of a recheck may wait for younger ones, for the grace
 * period at most.
 */
#include "conntrack/stale.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "conntrack/tcp.h"
#include "model/select.h"
#include "model/tuning.h"

#define SCANS 2 /* scans of each target: at once, and for late packets */
/* So many jobs in a row may be outdated: changes that never end do not prevent scans. */
#define OUTDATED_MAX 3
/* Above this number of exact targets, a frontend uses one target with its live set. */
#define FRONTEND_SCANS_MAX 32
/* Exact targets that a change of a service adds, and scans that a step drops or puts off. */
#define SERVICE_SCANS_MAX 8192
#define SKIPS_MAX 5000
/* Share of the helper: a fifth. A rest up to PACE_FREE_NS is not enforced, none exceeds
 * PACE_MAX_NS. */
#define PACE 5
#define PACE_FREE_NS (2 * NSEC_PER_SEC)
#define PACE_MAX_NS (500 * NSEC_PER_MSEC)
/* UDP frontends that stale_recheck() visits in one turn. */
#define RECHECK_PIECE 5000

enum queue {
	QUEUE_BUSY = 0, /* of jobs that met a busy flow: in jobs of their own */
	QUEUE_NOW,      /* as soon as the helper is free */
	QUEUE_AGAIN,    /* second scans */
	QUEUE_N,
};

/* The live endpoints of one service port and family. */
struct live {
	enum ipfam fam;
	uint32_t job; /* the job that contains a copy, at `at` */
	uint32_t at;
	VEC(struct ip_endpoint) v; /* sorted */
};

struct frontend {
	struct hnode node; /* in stale.frontends */
	struct list link;  /* in record.frontends */
	struct ip_tuple key;
	struct live *live; /* of its record; NULL: in no record */
	struct list scans; /* of struct scan, member `of` */
	size_t n_scans;
	bool is_direct; /* backends answer the client: valid flows are untranslated */
	uint32_t job;   /* the last job with this frontend */
};

struct scan {
	struct hnode node; /* in stale.scans, by frontend and `to` */
	struct list due;   /* in a queue or in stale.under_way */
	struct list of;    /* in frontend.scans */
	struct frontend *frontend;
	struct ip_endpoint to;
	uint8_t kind;   /* enum job_kind */
	uint8_t n_left; /* number left */
	bool is_under_way;
	uint64_t due_ns;
};

struct record {
	struct hnode node; /* in stale.records, by names */
	const struct name *ns;
	const struct name *name;
	struct list frontends;
	VEC(struct live *) lives;
};

struct stale {
	const struct model *model;
	bool is_started;
	struct htable records;
	struct htable frontends;
	struct htable scans;
	size_t recheck_bucket; /* the next one of `frontends`: a table that grows repeats some */
	uint64_t recheck_ns;   /* when stale_recheck() was called; STALE_NEVER: it is complete */
	struct list queues[QUEUE_N];
	struct list under_way;
	struct tcp tcp;
	uint32_t job;
	bool is_busy;
	bool is_outdated;    /* the job under way */
	uint32_t n_outdated; /* jobs in a row */
	uint32_t failures;
	uint64_t not_before_ns;
	uint64_t rested_ns; /* earliest start of the next job under the 20 % duty cycle */
};

/* --- scans --- */

static const struct ip_endpoint nowhere; /* `to` of targets that are not exact */

static void frontend_reap(struct stale *s, struct frontend *f)
{
	if (f->live != NULL || !list_is_empty(&f->scans))
		return;
	htable_remove(&s->frontends, &f->node);
	free(f);
}

static void scan_drop(struct stale *s, struct scan *l)
{
	list_del(&l->due);
	list_del(&l->of);
	l->frontend->n_scans--;
	htable_remove(&s->scans, &l->node);
	free(l);
}

static void scan_end(struct stale *s, struct scan *l)
{
	struct frontend *f = l->frontend;

	scan_drop(s, l);
	frontend_reap(s, f);
}

static void scan_queue(struct stale *s, struct scan *l, enum queue q, uint64_t due_ns)
{
	l->due_ns = due_ns;
	list_move_tail(&s->queues[q], &l->due);
}

/* Excludes the kind, which scan_soften() changes. */
static uint32_t scan_hash(const struct frontend *f, const struct ip_endpoint *to)
{
	struct {
		const struct frontend *f;
		struct ip_endpoint to;
	} key = { f, *to };

	return hash_bytes(&key, sizeof(key));
}

/* The scan of this target that has not begun yet, or NULL. */
static struct scan *scan_find(const struct stale *s, const struct frontend *f, enum job_kind kind,
			      const struct ip_endpoint *to)
{
	return htable_find(&s->scans, scan_hash(f, to), struct scan, l,
			   l->frontend == f && l->kind == kind && !l->is_under_way &&
				   ip_endpoint_cmp(&l->to, to) == 0);
}

/* Is a scan for all endpoints that are not live pending? */
static bool scans_not_live(const struct stale *s, const struct frontend *f)
{
	return scan_find(s, f, JOB_TARGET_NOT_LIVE, &nowhere) != NULL;
}

/* Add scans of a target; restart those that are pending already. */
static void scan_add(struct stale *s, struct frontend *f, enum job_kind kind,
		     const struct ip_endpoint *to, uint64_t now)
{
	struct scan *l = scan_find(s, f, kind, to);

	if (l == NULL) {
		l = xcalloc(1, sizeof(*l));
		l->frontend = f;
		l->kind = (uint8_t)kind;
		l->to = *to;
		list_add_tail(&f->scans, &l->of);
		f->n_scans++;
		htable_insert(&s->scans, &l->node, scan_hash(f, to));
	}
	l->n_left = SCANS;
	scan_queue(s, l, QUEUE_NOW, now);
}

static void scans_drop(struct stale *s, struct frontend *f)
{
	list_for_each_entry_safe (l, tmp, &f->scans, struct scan, of) {
		if (!l->is_under_way)
			scan_drop(s, l);
	}
}

/*
 * One target instead of all others. One that waits for its first scan stays due: restarted
 * with each of many changes, it would not be due before the last.
 */
static void scan_add_not_live(struct stale *s, struct frontend *f, uint64_t now)
{
	const struct scan *l = scan_find(s, f, JOB_TARGET_NOT_LIVE, &nowhere);

	if (l != NULL && l->n_left == SCANS)
		return;
	scans_drop(s, f);
	scan_add(s, f, JOB_TARGET_NOT_LIVE, &nowhere, now);
}

/* --- records --- */

static void record_close(struct record *r)
{
	vec_for_each (l, &r->lives) {
		vec_fini(&(*l)->v);
		free(*l);
	}
	vec_fini(&r->lives);
	name_pair_unref(r->ns, r->name);
	free(r);
}

static struct live *live_make(const struct stale *s, struct record *r, const struct svc *svc,
			      const struct plan_frontend *f)
{
	struct live *new = xcalloc(1, sizeof(*new));
	struct selection sel;

	new->fam = ip_fam(&f->addr);
	select_merged(&sel, s->model, svc, f->port_index, new->fam);
	vec_for_each (e, &sel.endpoints)
		if ((e->flags & (ENDPOINT_READY | ENDPOINT_SERVING)) != 0)
			*vec_push(&new->v) = (struct ip_endpoint){ e->addr, e->port, 0 };
	selection_fini(&sel);
	vec_fit(&new->v);
	*vec_push(&r->lives) = new;
	return new;
}

static size_t udp_count(const struct plan_rows *rows)
{
	size_t n = 0;

	vec_for_each (f, &plan_rows_or_none(rows)->frontends)
		n += f->proto == L4PROTO_UDP;
	return n;
}

/* --- scans after a change --- */

static struct frontend *frontend_get(struct stale *s, const struct ip_tuple *key)
{
	uint32_t hash = hash_bytes(key, sizeof(*key));
	struct frontend *f = htable_find(&s->frontends, hash, struct frontend, e,
					 memcmp(&e->key, key, sizeof(*key)) == 0);

	if (f != NULL)
		return f;
	f = xcalloc(1, sizeof(*f));
	f->key = *key;
	list_init(&f->link);
	list_init(&f->scans);
	htable_insert(&s->frontends, &f->node, hash);
	return f;
}

/* The live endpoints of a port, while its frontends are taken. */
struct taken {
	struct live *live;
	const struct live *old; /* compared with it once: most frontends of a port have the same */
	VEC(struct ip_endpoint) lost; /* members of `old` that are not live */
	size_t exact_max;             /* exact targets of a frontend */
};

static void taken_compare(struct taken *t, const struct live *old)
{
	size_t j = 0;

	if (t->old == old)
		return;
	t->old = old;
	vec_clear(&t->lost);
	vec_for_each (e, &old->v) {
		while (j < t->live->v.n && ip_endpoint_cmp(&t->live->v.v[j], e) < 0)
			j++;
		if (j == t->live->v.n || ip_endpoint_cmp(&t->live->v.v[j], e) != 0)
			*vec_push(&t->lost) = *e;
	}
}

/* Many exact targets of a frontend, or of its service, are one: all endpoints not live. */
static void lost_add(struct stale *s, struct frontend *f, const struct taken *t, uint64_t now)
{
	size_t n = t->lost.n;

	if (n > 0 &&
	    (f->n_scans + n > FRONTEND_SCANS_MAX || n > t->exact_max || scans_not_live(s, f))) {
		scan_add_not_live(s, f, now);
		return;
	}
	vec_for_each (to, &t->lost)
		scan_add(s, f, JOB_TARGET_EXACT, to, now);
}

/*
 * A removed frontend was added again before its flows were scanned: some of the flows
 * may be valid now.
 */
static void scan_soften(struct frontend *f)
{
	list_for_each_entry (l, &f->scans, struct scan, of) {
		if (l->kind == JOB_TARGET_TRANSLATED)
			l->kind = JOB_TARGET_NOT_LIVE;
	}
}

/* Are the flows of this target valid by now? Untranslated ones of a removed frontend are. */
static bool is_void(const struct frontend *f, const struct scan *l)
{
	if (l->kind == JOB_TARGET_EXACT)
		return f->live != NULL && vec_search(&f->live->v, &l->to, ip_endpoint_cmp) != NULL;
	return l->kind != JOB_TARGET_TRANSLATED && (f->live == NULL || f->is_direct);
}

/*
 * Would the job under way delete flows that the frontend's change has made valid? `has_more`: the
 * frontend has got endpoints.
 */
static void job_compare(struct stale *s, const struct frontend *f, bool has_more)
{
	if (!s->is_busy || s->is_outdated || f->job != s->job || s->n_outdated == OUTDATED_MAX)
		return;
	list_for_each_entry (l, &f->scans, struct scan, of)
		s->is_outdated |= l->is_under_way &&
				  (is_void(f, l) || (l->kind == JOB_TARGET_NOT_LIVE && has_more));
}

/* The frontend now belongs to the service port with the endpoints `t->live`. */
static void frontend_take(struct stale *s, struct frontend *f, struct taken *t, uint64_t now)
{
	const struct live *live = t->live;
	const struct live *old = f->live;
	bool has_more = live->v.n > 0;

	f->live = t->live;
	if (old != NULL) {
		taken_compare(t, old);
		has_more = live->v.n + t->lost.n > old->v.n;
		lost_add(s, f, t, now);
	} else {
		scan_soften(f);
	}
	job_compare(s, f, has_more);
	if (s->is_started && (old == NULL || (old->v.n == 0 && live->v.n > 0)) &&
	    !scans_not_live(s, f))
		scan_add(s, f, JOB_TARGET_UNTRANSLATED, &nowhere, now);
}

static void frontend_give_up(struct stale *s, struct frontend *f, uint64_t now)
{
	f->live = NULL;
	list_del(&f->link);
	job_compare(s, f, false);
	scans_drop(s, f);
	scan_add(s, f, JOB_TARGET_TRANSLATED, &nowhere, now);
}

/* A record that takes over the UDP frontends of `rows` (NULL: none). */
static struct record *record_make(struct stale *s, const struct svc *svc,
				  const struct plan_rows *rows, uint64_t now)
{
	struct record *r = xcalloc(1, sizeof(*r));
	AUTO(vec_fini) VEC(struct taken) taken = { 0 }; /* by port and family */
	size_t n_udp = MAX(udp_count(rows), (size_t)1);
	size_t exact_max = MAX(SERVICE_SCANS_MAX / n_udp, (size_t)1);

	r->ns = name_ref(svc->ns);
	r->name = name_ref(svc->name);
	list_init(&r->frontends);
	vec_for_each (f, &plan_rows_or_none(rows)->frontends) {
		struct ip_tuple key = { .addr = f->addr, .port = f->port, .proto = f->proto };
		size_t at = (size_t)f->port_index * IPFAM_N + ip_fam(&f->addr);
		struct frontend *to;

		if (f->proto != L4PROTO_UDP)
			continue;
		while (taken.n <= at)
			*vec_push(&taken) = (struct taken){ .exact_max = exact_max };
		if (taken.v[at].live == NULL)
			taken.v[at].live = live_make(s, r, svc, f);
		to = frontend_get(s, &key);
		list_move_tail(&r->frontends, &to->link);
		to->is_direct = f->forwarding != FORWARDING_MASQUERADE;
		frontend_take(s, to, &taken.v[at], now);
	}
	vec_for_each (t, &taken)
		vec_fini(&t->lost);
	vec_fit(&r->lives);
	return r;
}

/* Frontends of `r` that no service took over are removed. */
static void record_give_up(struct stale *s, struct record *r, uint64_t now)
{
	list_for_each_entry_safe (f, tmp, &r->frontends, struct frontend, link)
		frontend_give_up(s, f, now);
	htable_remove(&s->records, &r->node);
	record_close(r);
}

/* Frontends of address families that `rows` leave out stay as they are in the kernel. */
static void record_keep(struct record *r, struct record *old, uint8_t left_out)
{
	size_t n = 0;

	list_for_each_entry_safe (f, tmp, &old->frontends, struct frontend, link) {
		if (left_out >> ip_fam(&f->key.addr) & 1)
			list_move_tail(&r->frontends, &f->link);
	}
	vec_for_each (live, &old->lives)
		if (left_out >> (*live)->fam & 1)
			*vec_push(&r->lives) = *live;
		else
			old->lives.v[n++] = *live;
	vec_cut(&old->lives, n);
}

void stale_accepted(struct stale *s, const struct svc *svc, const struct plan_rows *rows,
		    uint8_t left_out, uint64_t now)
{
	uint32_t hash = name_pair_hash(svc->ns, svc->name);
	struct record *old = htable_find(&s->records, hash, struct record, r,
					 r->ns == svc->ns && r->name == svc->name);
	struct record *new;

	if (old == NULL && udp_count(rows) == 0)
		return;
	new = record_make(s, svc, rows, now);
	if (old != NULL && svc->service != NULL)
		record_keep(new, old, left_out);
	if (old != NULL)
		record_give_up(s, old, now);
	if (!list_is_empty(&new->frontends))
		htable_insert(&s->records, &new->node, hash);
	else
		record_close(new);
}

void stale_gone(struct stale *s, const struct ip_addr *addr, uint16_t port, uint8_t proto,
		uint64_t now)
{
	struct ip_tuple key = { .addr = *addr, .port = port, .proto = proto };
	struct frontend *f;

	if (proto == L4PROTO_TCP)
		tcp_gone(&s->tcp, addr, port);
	if (proto != L4PROTO_UDP)
		return;
	f = frontend_get(s, &key);
	if (f->live == NULL)
		scan_add(s, f, JOB_TARGET_TRANSLATED, &nowhere, now);
}

void stale_replaced(struct stale *s, const struct plan_rows *old, const struct plan_rows *new)
{
	tcp_accepted(&s->tcp, old, new);
}

void stale_addr_event(struct stale *s, const struct ip_addr *addr, bool is_listed, uint64_t now)
{
	bool is_void = tcp_addr_event(&s->tcp, addr, is_listed, now);

	s->is_outdated |= is_void && s->is_busy && s->n_outdated < OUTDATED_MAX;
}

void stale_recheck(struct stale *s, uint64_t now)
{
	tcp_recheck(&s->tcp, now);
	s->recheck_ns = MIN(s->recheck_ns, now);
	s->recheck_bucket = 0;
}

/* Visit some frontends for stale_recheck(). False: there are more. */
static bool recheck_go_on(struct stale *s, uint64_t now)
{
	const struct htable *all = &s->frontends;
	size_t n_visited = 0;

	if (s->recheck_ns > now)
		return true;
	for (; s->recheck_bucket < all->n_buckets && n_visited < RECHECK_PIECE; s->recheck_bucket++)
		for (struct hnode *n = all->buckets[s->recheck_bucket]; n != NULL; n = n->next) {
			struct frontend *f = container_of(n, struct frontend, node);

			n_visited++;
			if (f->live != NULL)
				scan_add_not_live(s, f, now);
		}
	if (s->recheck_bucket < all->n_buckets)
		return false;
	s->recheck_ns = STALE_NEVER;
	return true;
}

void stale_start(struct stale *s, uint64_t now)
{
	if (s->is_started)
		return;
	s->is_started = true;
	stale_recheck(s, now);
}

/* --- jobs --- */

uint64_t stale_next(const struct stale *s)
{
	uint64_t tcp = tcp_next(&s->tcp);
	uint64_t next = MIN(tcp, s->recheck_ns);

	if (s->is_busy || !s->is_started)
		return STALE_NEVER;
	for (int q = 0; q < QUEUE_N; q++)
		if (!list_is_empty(&s->queues[q]))
			next = MIN(next, list_entry(s->queues[q].next, struct scan, due)->due_ns);
	return next == STALE_NEVER ? next : MAX(next, s->not_before_ns);
}

/* A job that is being filled. */
struct taking {
	VEC(struct frontend *) frontends;
	size_t n_scans;
	size_t n_live;
	size_t n_skipped;
};

static void scan_take(struct stale *s, struct taking *t, struct scan *l)
{
	struct frontend *f = l->frontend;

	list_move_tail(&s->under_way, &l->due);
	l->is_under_way = true;
	t->n_scans++;
	if (f->job == s->job)
		return;
	f->job = s->job;
	t->n_live += f->live ? f->live->v.n : 0;
	*vec_push(&t->frontends) = f;
}

static bool is_full(const struct taking *t)
{
	return t->frontends.n >= JOB_FRONTENDS_MAX || t->n_scans >= JOB_TARGETS_MAX ||
	       t->n_live >= JOB_LIVE_MAX || t->n_skipped >= SKIPS_MAX;
}

static void queue_take(struct stale *s, struct taking *t, enum queue q, uint64_t now)
{
	list_for_each_entry_safe (l, tmp, &s->queues[q], struct scan, due) {
		if (l->due_ns > now || is_full(t))
			break;
		if (!is_void(l->frontend, l)) {
			scan_take(s, t, l);
			continue;
		}
		t->n_skipped++;
		scan_end(s, l);
	}
}

static void frontend_write(struct job *job, struct frontend *f)
{
	struct job_frontend to = { .key = f->key, .target = (uint32_t)job->targets.n };
	struct live *live = f->live;

	list_for_each_entry (l, &f->scans, struct scan, of) {
		if (l->is_under_way)
			*vec_push(&job->targets) =
				(struct job_target){ .to = l->to, .kind = l->kind };
	}
	to.n_targets = (uint32_t)job->targets.n - to.target;
	if (live != NULL && live->v.n > 0) {
		if (live->job != job->id) {
			live->at = (uint32_t)job->live.n;
			vec_append(&job->live, &live->v);
		}
		live->job = job->id;
		to.live = live->at;
		to.n_live = (uint32_t)live->v.n;
	}
	*vec_push(&job->frontends) = to;
}

bool stale_job_take(struct stale *s, struct job *ret, uint64_t now)
{
	struct taking t = { 0 };
	bool has_busy;

	if (stale_next(s) > now || !recheck_go_on(s, now) || !tcp_collect(&s->tcp, now))
		return false;
	s->job = s->job == UINT32_MAX ? 1 : s->job + 1;
	ret->id = s->job;
	queue_take(s, &t, QUEUE_BUSY, now);
	has_busy = t.n_scans > 0;
	for (enum queue q = QUEUE_NOW; q < QUEUE_N && !has_busy; q++)
		queue_take(s, &t, q, now);
	vec_for_each (f, &t.frontends)
		frontend_write(ret, *f);
	if (has_busy)
		tcp_collect_again(&s->tcp);
	else
		tcp_take(&s->tcp, ret, now);
	s->is_busy = t.frontends.n > 0 || ret->tcp.n > 0 || ret->dead.n > 0;
	vec_fini(&t.frontends);
	vec_sort(&ret->frontends, ip_tuple_cmp);
	return s->is_busy;
}

/* -EBUSY: the kernel did not delete a flow of one of the job's scans: which one, is not known. */
static void scan_done(struct stale *s, struct scan *l, int result, uint64_t now)
{
	l->is_under_way = false;
	if (result == -EBUSY) {
		l->n_left = 1;
		scan_queue(s, l, QUEUE_BUSY, now + STALE_BUSY_NS);
	} else if (result < 0) {
		scan_queue(s, l, QUEUE_NOW, now);
	} else if (--l->n_left > 0) {
		scan_queue(s, l, QUEUE_AGAIN, now + STALE_AGAIN_NS);
	} else {
		scan_end(s, l);
	}
}

static void job_rest(struct stale *s, uint64_t took_ns, uint64_t now)
{
	s->rested_ns = MAX(s->rested_ns, now) + took_ns * PACE;
	s->not_before_ns = 0;
	if (s->rested_ns > now + PACE_FREE_NS)
		s->not_before_ns = MIN(s->rested_ns - PACE_FREE_NS, now + PACE_MAX_NS);
}

static void job_back_off(struct stale *s, uint64_t now)
{
	uint64_t wait = STALE_RETRY_MIN_NS << MIN(s->failures, UINT32_C(16));

	s->failures++;
	s->not_before_ns = now + MIN(wait, STALE_RETRY_MAX_NS);
}

uint32_t stale_job_outdated(const struct stale *s)
{
	return s->is_outdated ? s->job : 0;
}

void stale_job_done(struct stale *s, uint32_t id, int result, uint64_t took_ns, uint64_t now)
{
	if (!s->is_busy || id != s->job)
		return;
	s->is_busy = false;
	s->is_outdated = false;
	s->n_outdated = result == -ECANCELED ? s->n_outdated + 1 : 0;
	list_for_each_entry_safe (l, tmp, &s->under_way, struct scan, due)
		scan_done(s, l, result, now);
	if (s->tcp.is_under_way)
		memory_trim(); /* the job had all TCP frontends */
	tcp_done(&s->tcp, result, now);
	if (result == 0 || result == -EBUSY)
		s->failures = 0;
	if (result == 0 || result == -EBUSY || result == -ECANCELED)
		job_rest(s, took_ns, now);
	else
		job_back_off(s, now);
}

bool stale_has_removed(const struct stale *s)
{
	htable_for_each_entry (l, &s->scans, struct scan)
		if (l->kind == JOB_TARGET_TRANSLATED && l->n_left == SCANS)
			return true;
	return false;
}

/* --- life --- */

void stale_open(struct stale **ret, const struct model *m, bool is_reset)
{
	struct stale *s = xcalloc(1, sizeof(*s));

	s->model = m;
	s->recheck_ns = STALE_NEVER;
	tcp_init(&s->tcp, m, is_reset);
	for (int q = 0; q < QUEUE_N; q++)
		list_init(&s->queues[q]);
	list_init(&s->under_way);
	*ret = s;
}

void stale_close(struct stale *s)
{
	if (s == NULL)
		return;
	htable_for_each_entry_safe (r, tmp, &s->records, struct record)
		record_close(r);
	htable_for_each_entry_safe (f, tmp, &s->frontends, struct frontend) {
		list_for_each_entry_safe (l, next, &f->scans, struct scan, of)
			free(l);
		free(f);
	}
	tcp_fini(&s->tcp);
	htable_fini(&s->records);
	htable_fini(&s->frontends);
	htable_fini(&s->scans);
	free(s);
}

struct stale_stats stale_stats_get(const struct stale *s)
{
	return (struct stale_stats){ s->frontends.count, s->scans.count + tcp_pending(&s->tcp) +
								 (s->recheck_ns != STALE_NEVER) };
}
