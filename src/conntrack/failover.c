/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/failover.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/htable.h"
#include "base/list.h"

#define SEEN_MAX 32768
#define SILENT_MAX 4096
#define REPLIED_MAX 65536
/* Backends examined for one choice: pools may be large. */
#define EXAMINED_MAX ((size_t)64)
/* Backends compared with one address in the time in which one is examined. */
#define COMPARED_PER_EXAMINED 16
/* Searches in its pool that a flow causes after failover_take(). */
#define SEARCHES 3
/* Backends remembered for a handshake. */
#define TRIED_MAX 4
/* Inaccuracy of the kernel's times. */
#define SAME_NS (50 * NSEC_PER_MSEC)

/* A handshake that was considered. */
struct seen {
	struct hnode node; /* in failover.seen, by `of` */
	struct list age;   /* in failover.seen_age, oldest first */
	struct ip_flow of;
	uint64_t at_ns;
	bool is_again;              /* due again for the last SYN, as if not considered */
	bool is_early;              /* considered before its time: only a removed backend counts */
	uint64_t syn_ns;            /* of the last SYN that was due */
	bool is_counted;            /* that SYN, as failed */
	uint64_t refused_ns;        /* the last time, or later; 0 = never */
	struct ip_endpoint left_by; /* it was left with this backend; or unset */
	uint64_t checked_ns;        /* the pool of left_by was last searched for another one */
	uint64_t wait_ns;           /* due again then: the others were silent; 0 = not waiting */
	unsigned int n_moves;
	bool is_chosen;                      /* by the current step */
	struct ip_endpoint tried[TRIED_MAX]; /* the last one first; unset ones at the end */
};

/* A backend with a handshake that it did not answer. */
struct silent {
	struct hnode node;
	struct list age;
	struct failover_silence s; /* counted names */
};

/* A backend that replied to a flow of UDP. */
struct replied {
	struct hnode node;
	struct list age; /* in failover.replied_age, in the order of failover_replied() */
	struct ip_endpoint of;
	uint64_t at_ns;
	uint64_t noted_ns;
};

struct failover {
	const struct plan *plan;
	uint64_t limit_ns;
	uint64_t udp_ns;      /* 0: flows of UDP stay */
	uint64_t accepted_ns; /* rows of some service changed last, or a backend replied anew */
	struct htable replied;
	struct list replied_age;
	struct htable seen;
	struct list seen_age;
	struct htable silent;
	struct list silent_age;
	uint64_t unanswered;
	uint64_t n_work;
	failover_silence_fn *fn;
	void *arg;
	failover_failed_fn *failed; /* or NULL */
	void *failed_arg;
};

void failover_open(struct failover **ret, const struct plan *plan, uint64_t limit_ns,
		   failover_silence_fn *fn, void *arg)
{
	struct failover *f = xcalloc(1, sizeof(*f));

	f->plan = plan;
	f->limit_ns = limit_ns;
	f->fn = fn;
	f->arg = arg;
	list_init(&f->seen_age);
	list_init(&f->silent_age);
	list_init(&f->replied_age);
	*ret = f;
}

void failover_udp(struct failover *f, uint64_t limit_ns)
{
	f->udp_ns = limit_ns;
}

void failover_watch(struct failover *f, failover_failed_fn *fn, void *arg)
{
	f->failed = fn;
	f->failed_arg = arg;
}

/* An entry begins with its node. */
static void entry_drop(struct htable *t, struct hnode *entry, struct list *age)
{
	htable_remove(t, entry);
	list_del(age);
	free(entry);
}

static void silent_drop(struct failover *f, struct silent *s)
{
	name_pair_unref(s->s.ns, s->s.name);
	entry_drop(&f->silent, &s->node, &s->age);
}

void failover_close(struct failover *f)
{
	if (f == NULL)
		return;
	list_for_each_entry_safe (s, tmp, &f->seen_age, struct seen, age)
		entry_drop(&f->seen, &s->node, &s->age);
	list_for_each_entry_safe (s, tmp, &f->silent_age, struct silent, age)
		silent_drop(f, s);
	list_for_each_entry_safe (r, tmp, &f->replied_age, struct replied, age)
		entry_drop(&f->replied, &r->node, &r->age);
	htable_fini(&f->seen);
	htable_fini(&f->silent);
	htable_fini(&f->replied);
	free(f);
}

/* --- memory --- */

static struct seen *seen_find(const struct failover *f, const struct ip_flow *h)
{
	return htable_find(&f->seen, hash_bytes(h, sizeof(*h)), struct seen, s,
			   memcmp(&s->of, h, sizeof(*h)) == 0);
}

static uint64_t limit_of(const struct failover *f, const struct ip_flow *h)
{
	return h->proto == L4PROTO_UDP ? f->udp_ns : f->limit_ns;
}

static bool is_old(const struct failover *f, const struct seen *s, uint64_t now)
{
	uint64_t limit = limit_of(f, &s->of);

	return now - s->at_ns >= MAX(FAILOVER_FORGET_NS, FAILOVER_FORGET_LIMITS * limit);
}

/*
 * Drop `h` if it is too old, others that are, and the oldest if there are too many. TCP and UDP
 * differ in what is too old: some of one may stay until older ones of the other are dropped.
 */
static void forget(struct failover *f, const struct ip_flow *h, uint64_t now)
{
	struct seen *own = seen_find(f, h);

	if (own != NULL && is_old(f, own, now))
		entry_drop(&f->seen, &own->node, &own->age);
	list_for_each_entry_safe (s, tmp, &f->seen_age, struct seen, age) {
		if (f->seen.count <= SEEN_MAX && !is_old(f, s, now))
			break;
		entry_drop(&f->seen, &s->node, &s->age);
	}
}

void failover_tick(struct failover *f, uint64_t now)
{
	list_for_each_entry_safe (s, tmp, &f->silent_age, struct silent, age) {
		if (now - s->s.last_ns < FAILOVER_SILENT_NS)
			break;
		if (f->fn != NULL)
			f->fn(f->arg, &s->s, true);
		silent_drop(f, s);
	}
	list_for_each_entry_safe (r, tmp, &f->replied_age, struct replied, age) {
		if (now - r->noted_ns < FAILOVER_SILENT_NS)
			break;
		entry_drop(&f->replied, &r->node, &r->age);
	}
}

static struct seen *seen_note(struct failover *f, const struct ip_flow *h, uint64_t now)
{
	struct seen *s;

	forget(f, h, now);
	s = seen_find(f, h);
	if (s == NULL) {
		s = xcalloc(1, sizeof(*s));
		s->of = *h;
		htable_insert(&f->seen, &s->node, hash_bytes(h, sizeof(*h)));
	}
	s->at_ns = now;
	list_move_tail(&f->seen_age, &s->age);
	return s;
}

static struct silent *silent_find(const struct failover *f, const struct ip_endpoint *e)
{
	return htable_find(&f->silent, hash_bytes(e, sizeof(*e)), struct silent, s,
			   ip_endpoint_cmp(&s->s.by, e) == 0);
}

static void silent_note(struct failover *f, const struct svc *svc, const struct ip_endpoint *e,
			uint64_t now)
{
	struct silent *s = silent_find(f, e);
	bool is_new = s == NULL;

	f->unanswered++;
	if (is_new && f->silent.count >= SILENT_MAX)
		return; /* too many to name */
	if (is_new) {
		s = xcalloc(1, sizeof(*s));
		s->s = (struct failover_silence){ .ns = name_ref(svc->ns),
						  .name = name_ref(svc->name),
						  .by = *e,
						  .since_ns = now };
		htable_insert(&f->silent, &s->node, hash_bytes(e, sizeof(*e)));
	}
	s->s.unanswered++;
	s->s.last_ns = now;
	list_move_tail(&f->silent_age, &s->age);
	if (is_new && f->fn != NULL)
		f->fn(f->arg, &s->s, false);
}

const struct failover_silence *failover_silence(const struct failover *f,
						const struct ip_addr *addr, uint16_t port)
{
	struct ip_endpoint e = { *addr, port, 0 };
	const struct silent *s = silent_find(f, &e);

	return s != NULL ? &s->s : NULL;
}

size_t failover_n_silent(const struct failover *f)
{
	return f->silent.count;
}

uint64_t failover_work(const struct failover *f)
{
	return f->n_work;
}

uint64_t failover_unanswered(const struct failover *f)
{
	return f->unanswered;
}

static struct replied *replied_find(const struct failover *f, const struct ip_endpoint *e)
{
	return htable_find(&f->replied, hash_bytes(e, sizeof(*e)), struct replied, r,
			   ip_endpoint_cmp(&r->of, e) == 0);
}

void failover_replied(struct failover *f, const struct ip_endpoint *by, uint64_t at_ns,
		      uint64_t now)
{
	struct replied *r = replied_find(f, by);

	if (r == NULL && f->replied.count >= REPLIED_MAX)
		return;
	if (r == NULL) {
		r = xcalloc(1, sizeof(*r));
		r->of = *by;
		htable_insert(&f->replied, &r->node, hash_bytes(by, sizeof(*by)));
	}
	if (r->at_ns + FAILOVER_SILENT_NS <= at_ns)
		f->accepted_ns = now; /* flows that were left may move */
	r->at_ns = MAX(r->at_ns, at_ns);
	r->noted_ns = now;
	list_move_tail(&f->replied_age, &r->age);
}

/* --- the choice --- */

static struct ip_endpoint endpoint_of(const struct plan_backend *b)
{
	return (struct ip_endpoint){ b->addr, b->port, 0 };
}

static const struct plan_backend *pool_find(struct failover *f, const struct plan_pool *pool,
					    const struct ip_endpoint *e)
{
	f->n_work += 1 + pool->backends.n / COMPARED_PER_EXAMINED;
	return vec_find(&pool->backends, b, ip_endpoint_cmp(b, e) == 0);
}

static const struct plan_pool *target_pool(const struct plan_rows *rows, enum ipfam fam,
					   const struct plan_target *t)
{
	return t->verdict == PLAN_VERDICT_POOL ? plan_rows_pool(rows, fam, t->pool_id) : NULL;
}

/* The pool that the flow to `by` may be moved in; NULL: none. */
static const struct plan_pool *pool_of(struct failover *f, const struct plan_rows *rows,
				       const struct plan_frontend *fe, const struct ip_endpoint *by)
{
	enum ipfam fam = ip_fam(&fe->addr);
	const struct plan_pool *outside = target_pool(rows, fam, &fe->target);
	const struct plan_pool *inside;

	if (!fe->is_split)
		return outside;
	inside = target_pool(rows, fam, &fe->inside);
	if (outside != NULL && pool_find(f, outside, by) != NULL)
		return outside;
	return inside != NULL && pool_find(f, inside, by) != NULL ? inside : outside;
}

/* `e` becomes the first of those tried. */
static void tried_note(struct seen *s, const struct ip_endpoint *e)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(s->tried) - 1 && ip_endpoint_cmp(&s->tried[i], e) != 0)
		i++;
	memmove(&s->tried[1], &s->tried[0], i * sizeof(s->tried[0]));
	s->tried[0] = *e;
}

/* Is the backend one that the handshake may move to? */
static bool may_take(const struct failover *f, const struct seen *s, const struct ip_endpoint *e)
{
	const struct replied *r;

	if (s->of.proto != L4PROTO_UDP)
		return true;
	r = replied_find(f, e);
	return r != NULL && s->at_ns < r->at_ns + FAILOVER_SILENT_NS;
}

/* The backend of the pool that was tried longest ago, other than the last one. */
static const struct plan_backend *pick_tried(struct failover *f, const struct plan_pool *pool,
					     const struct seen *s)
{
	const struct plan_backend *b = NULL;

	for (size_t i = ARRAY_SIZE(s->tried) - 1; i > 0 && b == NULL; i--)
		if (ip_is_set(&s->tried[i].addr) && may_take(f, s, &s->tried[i]))
			b = pool_find(f, pool, &s->tried[i]);
	return b;
}

/* A backend that the handshake has not tried, at random; one that answers is preferred. */
static const struct plan_backend *pick(struct failover *f, const struct plan_pool *pool,
				       const struct seen *s)
{
	const struct plan_backend *second = NULL;
	size_t n = pool->backends.n;
	size_t from;

	if (n == 0)
		return NULL;
	from = hash_bytes(s, sizeof(*s)) % n;
	for (size_t i = 0; i < MIN(n, EXAMINED_MAX); i++) {
		const struct plan_backend *b = &pool->backends.v[(from + i) % n];
		struct ip_endpoint e = endpoint_of(b);

		f->n_work++;
		if (array_has(s->tried, ARRAY_SIZE(s->tried), t, ip_endpoint_cmp(t, &e) == 0) ||
		    !may_take(f, s, &e))
			continue;
		if (silent_find(f, &e) == NULL)
			return b;
		second = second != NULL ? second : b;
	}
	return second != NULL ? second : pick_tried(f, pool, s);
}

/* The service that has a handshake's frontend, and the pool in which the handshake may move. */
struct place {
	const struct svc *svc;
	const struct plan_pool *pool; /* NULL: none */
};

static struct place place_of(struct failover *f, const struct ip_flow *h,
			     const struct ip_endpoint *by)
{
	const struct plan_frontend key = { .addr = h->to.addr,
					   .port = h->to.port,
					   .proto = (uint8_t)h->proto };
	const struct svc *svc = plan_programmed(f->plan, &key);
	const struct plan_frontend *fe = svc != NULL ? plan_rows_frontend(svc->rows, &key) : NULL;

	return (struct place){ svc, fe != NULL ? pool_of(f, svc->rows, fe, by) : NULL };
}

/* Does the pool have another backend by now than the one that the handshake was left with? */
static bool can_leave(struct failover *f, struct seen *s, uint64_t now)
{
	const struct plan_pool *pool;

	if (!ip_is_set(&s->left_by.addr) || s->checked_ns > f->accepted_ns)
		return false;
	s->checked_ns = now;
	f->n_work++;
	pool = place_of(f, &s->of, &s->left_by).pool;
	return pool != NULL && pick(f, pool, s) != NULL;
}

bool failover_has(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *to)
{
	const struct plan_pool *pool = place_of(f, h, to).pool;

	f->n_work++;
	return pool != NULL && pool_find(f, pool, to) != NULL;
}

/* As the client doubles the time between its SYNs. */
static uint64_t patience_ns(const struct failover *f, const struct ip_flow *h, const struct seen *s)
{
	unsigned int n = s != NULL ? MIN(s->n_moves, FAILOVER_DOUBLINGS) : 0;
	uint64_t limit = limit_of(f, h);

	return MAX(limit, MIN(limit << n, FAILOVER_PATIENCE_NS));
}

/*
 * An update may have removed the backend of a handshake that has time left, also if the last SYN,
 * a repeated one, came after the update.
 */
static bool is_early(const struct failover *f, const struct ip_flow *h, const struct seen *s,
		     uint64_t age_ns)
{
	return h->proto == L4PROTO_TCP && age_ns >= FAILOVER_REMOVED_NS &&
	       (s == NULL || s->checked_ns <= f->accepted_ns);
}

bool failover_take(struct failover *f, const struct ip_flow *h, uint64_t age_ns, uint64_t now)
{
	const struct plan_pool *pool;
	struct seen *s;
	bool is_new, is_due;

	forget(f, h, now);
	s = seen_find(f, h);
	is_new = s == NULL || s->is_again || s->at_ns + age_ns < now;
	is_due = is_new ? age_ns >= patience_ns(f, h, s)
			: (s->wait_ns != 0 && now >= s->wait_ns) || can_leave(f, s, now);
	if (!is_due && !(is_new && is_early(f, h, s, age_ns)))
		return false;
	s = seen_note(f, h, now);
	s->is_early = !is_due;
	s->is_again = s->is_chosen = false;
	s->wait_ns = 0;
	if (now - age_ns > s->syn_ns + SAME_NS)
		s->is_counted = false;
	s->syn_ns = now - age_ns;
	pool = place_of(f, h, &s->left_by).pool;
	if (pool != NULL)
		f->n_work += SEARCHES * (pool->backends.n / COMPARED_PER_EXAMINED);
	return true;
}

void failover_accepted(struct failover *f, uint64_t now)
{
	f->accepted_ns = now;
}

void failover_note(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *by,
		   uint64_t now)
{
	const struct place at = place_of(f, h, by);
	struct seen *s = seen_find(f, h);

	failover_tick(f, now);
	if (s == NULL || s->is_early || at.pool == NULL || h->proto != L4PROTO_TCP)
		return;
	silent_note(f, at.svc, by, now);
	if (f->failed != NULL && !s->is_counted && pool_find(f, at.pool, by) != NULL)
		f->failed(f->failed_arg, at.svc, by, s->syn_ns, false);
	s->is_counted = true;
}

/* If the others are silent now, too, all may answer late: a move would only cost time. */
static bool has_to_wait(const struct failover *f, struct seen *s, const struct plan_backend *to,
			uint64_t now)
{
	struct ip_endpoint e = endpoint_of(to);
	const struct silent *other = s->of.proto == L4PROTO_TCP ? silent_find(f, &e) : NULL;

	if (other == NULL || now - other->s.last_ns >= FAILOVER_WAIT_NS ||
	    now - s->syn_ns >= FAILOVER_WAIT_NS)
		return false;
	s->wait_ns = s->syn_ns + FAILOVER_WAIT_NS;
	return true;
}

bool failover_choose(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *by,
		     uint64_t now, struct failover_choice *ret)
{
	const struct place at = place_of(f, h, by);
	struct seen *s = seen_note(f, h, now);
	const struct plan_backend *from, *to;

	s->left_by = *by;
	s->checked_ns = now;
	if (at.pool == NULL)
		return false;
	from = pool_find(f, at.pool, by);
	s->is_again = s->is_early && (from != NULL || plan_pool_is_part(at.pool));
	if (s->is_again)
		return false;
	tried_note(s, by);
	to = pick(f, at.pool, s);
	if (to == NULL || (from != NULL && has_to_wait(f, s, to, now)))
		return false;
	s->left_by = (struct ip_endpoint){ 0 };
	s->is_chosen = true;
	s->n_moves++;
	*ret = (struct failover_choice){
		at.svc, at.pool, { .addr = by->addr, .port = by->port }, *to
	};
	if (from != NULL)
		ret->from = *from;
	return true;
}

void failover_refused(struct failover *f, const struct ip_flow *h, const struct ip_endpoint *by,
		      uint64_t at_ns, uint64_t until_ns, uint64_t now)
{
	struct seen *s = seen_find(f, h);
	uint64_t seen_ns = s != NULL ? s->at_ns : 0;
	struct place at;

	if (s != NULL && at_ns < s->refused_ns + SAME_NS)
		return;
	s = seen_note(f, h, now);
	s->at_ns = MAX(seen_ns, at_ns); /* a SYN after the refusal is another handshake */
	s->refused_ns = until_ns;
	at = place_of(f, h, by);
	if (at.pool != NULL && pool_find(f, at.pool, by) != NULL && f->failed != NULL)
		f->failed(f->failed_arg, at.svc, by, at_ns, true);
}

void failover_again(struct failover *f, const struct ip_flow *h)
{
	struct seen *s = seen_find(f, h);

	if (s == NULL)
		return;
	s->is_again = true;
	s->checked_ns = 0;
	s->n_moves -= s->is_chosen; /* the move has failed: the patience stays */
	s->is_chosen = false;
}
