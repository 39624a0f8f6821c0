/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "conntrack/eject.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "plan/rows.h"

/* Failed handshakes remembered for an endpoint; the last ones. */
#define EVIDENCE_MAX 8
#define SUSPECTS_MAX 1024
/* Endpoints among which other_choose() chooses. */
#define OTHERS_MAX 64
/* Slices and backends whose examination costs as much as a check. */
#define WORK_OF_COST 2000

struct failure {
	uint64_t at_ns;
	bool is_refused;
};

enum state {
	SUSPECT = 0, /* evidence, maybe too little; or admitted */
	CONFIRMING,  /* probed; serves */
	EJECTED,
	PROBING, /* ejected */
};

struct suspect {
	struct list link;         /* in eject.suspects */
	struct eject_endpoint of; /* counted names */
	enum state state;
	size_t n;
	struct failure failures[EVIDENCE_MAX]; /* in any order */
	struct ip_endpoint other;              /* of the pool: the one that answered last */
	enum eject_probe results[2];           /* its own, and of `other`; or unset */
	uint64_t last_ns;                      /* evidence, or admission */
	uint64_t period_ns;                    /* 0: was not ejected */
	uint64_t hold_ns; /* the last pause before the next confirmation; 0: none */
	uint64_t held_ns; /* its end */
};

struct eject {
	struct model *model;
	const struct eject_calls *calls;
	struct list suspects; /* the next one of eject_step() first */
	size_t n_suspects;
	size_t n_costs; /* of this step */
	uint64_t n_work;
};

void eject_open(struct eject **ret, struct model *m, const struct eject_calls *calls)
{
	struct eject *j = xcalloc(1, sizeof(*j));

	j->model = m;
	j->calls = calls;
	list_init(&j->suspects);
	*ret = j;
}

uint64_t eject_work(const struct eject *j)
{
	return j->n_work;
}

static void work_add(struct eject *j, size_t n)
{
	j->n_work += n;
	j->n_costs += n / WORK_OF_COST;
}

static void suspect_drop(struct eject *j, struct suspect *s)
{
	list_del(&s->link);
	j->n_suspects--;
	name_pair_unref(s->of.ns, s->of.name);
	free(s);
}

void eject_close(struct eject *j)
{
	if (j == NULL)
		return;
	list_for_each_entry_safe (s, tmp, &j->suspects, struct suspect, link) {
		(void)model_admit(j->model, s->of.ns, s->of.name, &s->of.by.addr, s->of.by.port, 0);
		suspect_drop(j, s);
	}
	free(j);
}

static struct suspect *suspect_find(struct eject *j, const struct eject_endpoint *e)
{
	list_for_each_entry (s, &j->suspects, struct suspect, link) {
		if (s->of.ns == e->ns && s->of.name == e->name &&
		    ip_endpoint_cmp(&s->of.by, &e->by) == 0)
			return s;
	}
	return NULL;
}

/* Those that were not ejected first, then the one with the oldest evidence or admission. */
static bool is_dropped_before(const struct suspect *a, const struct suspect *b)
{
	if ((a->period_ns == 0) != (b->period_ns == 0))
		return a->period_ns == 0;
	return a->last_ns < b->last_ns;
}

static struct suspect *suspect_oldest(struct eject *j)
{
	struct suspect *oldest = NULL;

	list_for_each_entry (s, &j->suspects, struct suspect, link) {
		if (s->state == SUSPECT && (oldest == NULL || is_dropped_before(s, oldest)))
			oldest = s;
	}
	return oldest;
}

static uint64_t doubled(uint64_t period_ns)
{
	return period_ns == 0 ? EJECT_PERIOD_NS : MIN(2 * period_ns, EJECT_PERIOD_MAX_NS);
}

/*
 * NULL: all are ejected or probed. Neither clients nor endpoints that recovered can fill the list
 * against new evidence: one suspect is dropped for it.
 */
static struct suspect *suspect_get(struct eject *j, const struct eject_endpoint *e)
{
	struct suspect *s = suspect_find(j, e);

	if (s != NULL)
		return s;
	if (j->n_suspects == SUSPECTS_MAX) {
		s = suspect_oldest(j);
		if (s == NULL)
			return NULL;
		suspect_drop(j, s);
	}
	s = xcalloc(1, sizeof(*s));
	s->of = (struct eject_endpoint){ name_ref(e->ns), name_ref(e->name), e->by };
	list_add_tail(&j->suspects, &s->link);
	j->n_suspects++;
	return s;
}

/* The ejection of `s`; NULL: none, or one by an operator. */
static struct model_ejection *ejection_of(const struct eject *j, const struct suspect *s)
{
	struct model_ejection *e =
		model_ejection(j->model, s->of.ns, s->of.name, &s->of.by.addr, s->of.by.port);

	return e != NULL && !e->is_manual ? e : NULL;
}

void eject_failed(struct eject *j, const struct svc *svc, const struct ip_endpoint *by,
		  uint64_t at_ns, bool is_refused)
{
	const struct eject_endpoint of = { svc->ns, svc->name, *by };
	struct suspect *s = suspect_get(j, &of);
	struct model_ejection *e;
	size_t i;

	if (s == NULL)
		return;
	s->last_ns = MAX(s->last_ns, at_ns);
	e = ejection_of(j, s);
	if (e != NULL) { /* the handshake began before the ejection */
		e->failed++;
		e->refused += is_refused;
		return;
	}
	i = s->n;
	if (s->n == EVIDENCE_MAX) {
		i = 0;
		for (size_t k = 1; k < s->n; k++)
			if (s->failures[k].at_ns < s->failures[i].at_ns)
				i = k;
	} else {
		s->n++;
	}
	s->failures[i] = (struct failure){ at_ns, is_refused };
}

/* Void the evidence up to `at_ns`. Returns the time of the first that is left. */
static uint64_t failures_void(struct suspect *s, uint64_t at_ns)
{
	uint64_t first = UINT64_MAX;
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->failures[i].at_ns <= at_ns)
			continue;
		first = MIN(first, s->failures[i].at_ns);
		s->failures[n++] = s->failures[i];
	}
	s->n = n;
	return first;
}

/* --- others of the pools --- */

/*
 * Begin behind the suspect, so that the suspects of a large pool have different others. An ejected
 * suspect is in no pool: begin at a backend with its port.
 */
static size_t others_add(struct endpoint_answer v[static OTHERS_MAX + 1], size_t len,
			 struct eject *j, const struct plan_pool *pool, const struct suspect *s)
{
	const struct ip_endpoint *by = &s->of.by;
	size_t n = pool->backends.n;
	size_t from = 0;

	while (from < n && (pool->backends.v[from].port != by->port ||
			    (s->state != EJECTED &&
			     !ip_addr_is_equal(&pool->backends.v[from].addr, &by->addr))))
		from++;
	work_add(j, from);
	for (size_t i = 0; from < n && i < n && len <= OTHERS_MAX; i++) {
		const struct plan_backend *b = &pool->backends.v[(from + i) % n];

		if (b->port != by->port || !ip_addr_is_equal(&b->addr, &by->addr))
			v[len++] = (struct endpoint_answer){ .by = { b->addr, b->port, 0 } };
	}
	return len;
}

/*
 * The suspect, then others of its pools. Returns their number. A service may have thousands of
 * pools, most of them with other ports.
 */
static size_t others_find(struct endpoint_answer v[static OTHERS_MAX + 1], struct eject *j,
			  const struct suspect *s)
{
	const struct svc *svc = model_find(j->model, s->of.ns, s->of.name);
	const struct plan_rows *rows = svc != NULL ? svc->rows : NULL;
	const struct name *ports[MODEL_EJECTION_PORTS_MAX];
	enum ipfam fam = ip_fam(&s->of.by.addr);
	size_t n_ports;
	size_t n = 1;

	v[0] = (struct endpoint_answer){ .by = s->of.by };
	if (rows == NULL)
		return n;
	n_ports = model_ejection_ports(ports, svc, &s->of.by.addr, s->of.by.port);
	work_add(j, svc->n_slices);
	for (size_t i = 0; i < 2 * n_ports && n <= OTHERS_MAX; i++) {
		const struct plan_pool *pool = plan_rows_pool_at(
			rows, fam, i % 2 == 0 ? PLAN_SCOPE_CLUSTER : PLAN_SCOPE_LOCAL, L4PROTO_TCP,
			ports[i / 2]);

		if (pool != NULL)
			n = others_add(v, n, j, pool, s);
	}
	return n;
}

/*
 * Choose s->other. Set the times at which the suspect and s->other last answered, 0 if unknown.
 * False: the pools have no other endpoint.
 */
static bool other_choose(struct eject *j, struct suspect *s, uint64_t now, uint64_t *own_ns,
			 uint64_t *other_ns)
{
	struct endpoint_answer v[OTHERS_MAX + 1];
	size_t n = others_find(v, j, s);
	const struct endpoint_answer *last = &v[1];
	bool is_known;

	j->n_costs++;
	if (n < 2)
		return false;
	is_known = j->calls->answers(j->calls->arg, v, n) == 0;
	for (size_t i = 2; is_known && i < n; i++)
		if (v[i].age_ns < last->age_ns)
			last = &v[i];
	s->other = last->by;
	*own_ns = is_known ? now - MIN(now, v[0].age_ns) : 0;
	*other_ns = is_known ? now - MIN(now, last->age_ns) : 0;
	return true;
}

/* Is the evidence enough for a handshake of this process? */
static bool is_suspicious(struct eject *j, struct suspect *s, uint64_t now)
{
	uint64_t own_ns, other_ns, first;

	if (now > EJECT_EVIDENCE_NS)
		(void)failures_void(s, now - EJECT_EVIDENCE_NS);
	if (now < s->held_ns || s->n < EJECT_MIN || !other_choose(j, s, now, &own_ns, &other_ns))
		return false;
	first = failures_void(s, own_ns);
	return s->n >= EJECT_MIN && other_ns >= first;
}

/* --- ejection and admission --- */

/*
 * Pause before the next confirmation: the probes did not confirm the evidence. Also the first part
 * of an ejection, for the case that a limit prevents it.
 */
static void hold(struct suspect *s, uint64_t now)
{
	s->state = SUSPECT;
	s->n = 0;
	s->last_ns = now;
	s->hold_ns = doubled(s->hold_ns);
	s->held_ns = now + s->hold_ns;
}

static void begin(struct eject *j, struct suspect *s, uint64_t now)
{
	struct model_ejection e = { .ns = s->of.ns,
				    .name = s->of.name,
				    .addr = s->of.by.addr,
				    .port = s->of.by.port,
				    .failed = (uint32_t)s->n + 1,
				    .refused = s->results[0] == EJECT_PROBE_REFUSED,
				    .since_ns = now };
	uint64_t period = doubled(s->period_ns);

	for (size_t i = 0; i < s->n; i++)
		e.refused += s->failures[i].is_refused;
	e.probe_ns = now + period;
	hold(s, now);
	if (model_ejection(j->model, e.ns, e.name, &e.addr, e.port) != NULL) /* by an operator */
		return;
	if (model_eject(j->model, &e, now) < 0) /* e.g. half of the pool is ejected */
		return;
	s->state = EJECTED;
	s->period_ns = period;
	s->hold_ns = s->held_ns = 0;
	j->calls->changed(j->calls->arg, &e, false);
}

static void end(struct eject *j, struct suspect *s, const struct model_ejection *e, uint64_t now)
{
	struct model_ejection over = *e;

	over.ns = s->of.ns; /* these stay */
	over.name = s->of.name;
	s->state = SUSPECT;
	s->n = 0;
	s->last_ns = now;
	(void)model_admit(j->model, s->of.ns, s->of.name, &s->of.by.addr, s->of.by.port, now);
	j->calls->changed(j->calls->arg, &over, true);
}

/*
 * The probe at the end of a period failed: double the period. If another endpoint does not answer
 * either after the longest period, a policy or a lost link may be the cause: admit the endpoint,
 * and let the handshakes of clients decide.
 */
static void prolong(struct eject *j, struct suspect *s, struct model_ejection *e, uint64_t now)
{
	e->failed += s->results[0] != EJECT_PROBE_UNKNOWN;
	e->refused += s->results[0] == EJECT_PROBE_REFUSED;
	if (s->period_ns == EJECT_PERIOD_MAX_NS && s->results[1] != EJECT_PROBE_ANSWERED) {
		end(j, s, e, now);
		return;
	}
	s->period_ns = doubled(s->period_ns);
	e->probe_ns = now + s->period_ns;
	s->state = EJECTED;
}

static void probe(struct eject *j, const struct suspect *s, const struct ip_endpoint *to)
{
	j->n_costs++;
	j->calls->probe(j->calls->arg, &s->of, to);
}

/* Both at once: a policy or a path that changes meanwhile changes both results. */
static void probe_begin(struct eject *j, struct suspect *s, enum state state, bool has_other)
{
	s->state = state;
	s->results[0] = EJECT_PROBE_UNSET;
	s->results[1] = has_other ? EJECT_PROBE_UNSET : EJECT_PROBE_UNKNOWN;
	if (has_other)
		probe(j, s, &s->other);
	probe(j, s, &s->of.by);
}

static void confirmed(struct eject *j, struct suspect *s, uint64_t now)
{
	bool is_failed =
		s->results[0] == EJECT_PROBE_UNANSWERED || s->results[0] == EJECT_PROBE_REFUSED;

	if (is_failed && s->results[1] == EJECT_PROBE_ANSWERED)
		begin(j, s, now);
	else
		hold(s, now);
}

enum eject_probe eject_probe_of(int error)
{
	switch (error) {
	case 0:
		return EJECT_PROBE_ANSWERED;
	case ECONNREFUSED:
		return EJECT_PROBE_REFUSED;
	case ETIMEDOUT:
	case EHOSTUNREACH:
		return EJECT_PROBE_UNANSWERED;
	default: /* EMFILE, EADDRNOTAVAIL, ENETUNREACH: of this node */
		return EJECT_PROBE_UNKNOWN;
	}
}

void eject_probed(struct eject *j, const struct eject_endpoint *of, const struct ip_endpoint *to,
		  enum eject_probe result, uint64_t now)
{
	struct suspect *s = suspect_find(j, of);
	bool is_other = ip_endpoint_cmp(to, &of->by) != 0;
	struct model_ejection *e;

	if (s == NULL || (s->state != CONFIRMING && s->state != PROBING))
		return;
	e = ejection_of(j, s);
	s->results[is_other] = result;
	if (s->state == PROBING && e != NULL && !is_other && result == EJECT_PROBE_ANSWERED)
		end(j, s, e, now);
	else if (s->results[0] == EJECT_PROBE_UNSET || s->results[1] == EJECT_PROBE_UNSET)
		return;
	else if (s->state == CONFIRMING)
		confirmed(j, s, now);
	else if (e != NULL)
		prolong(j, s, e, now);
}

static bool is_listed(struct eject *j, const struct suspect *s)
{
	const struct svc *svc = model_find(j->model, s->of.ns, s->of.name);

	if (svc == NULL || svc->service == NULL)
		return false;
	work_add(j, svc->n_slices);
	list_for_each_entry (in, &svc->slices, struct slice_entry, link)
		if (vec_search(&in->slice->endpoints, &s->of.by.addr, ip_addr_cmp) != NULL)
			return true;
	return false;
}

/* The end of a period. */
static void probe_due(struct eject *j, struct suspect *s, struct model_ejection *e, uint64_t now)
{
	uint64_t own_ns, other_ns;

	if (!is_listed(j, s))
		end(j, s, e, now);
	else
		probe_begin(j, s, PROBING,
			    s->period_ns == EJECT_PERIOD_MAX_NS &&
				    other_choose(j, s, now, &own_ns, &other_ns));
}

static void suspect_step(struct eject *j, struct suspect *s, uint64_t now)
{
	struct model_ejection *e = ejection_of(j, s);
	uint64_t keep = s->period_ns == 0 && s->hold_ns == 0 ? EJECT_EVIDENCE_NS : EJECT_MEMORY_NS;

	if (s->state >= EJECTED && e == NULL) { /* admitted by an operator */
		suspect_drop(j, s);
	} else if (s->state == EJECTED && now >= e->probe_ns) {
		probe_due(j, s, e, now);
	} else if (s->state == SUSPECT && is_suspicious(j, s, now)) {
		probe_begin(j, s, CONFIRMING, true);
	} else if (s->state == SUSPECT && now > s->last_ns + keep) {
		suspect_drop(j, s);
	}
}

void eject_step(struct eject *j, uint64_t now)
{
	j->n_costs = 0;
	for (size_t n = j->n_suspects; n > 0 && j->n_costs < EJECT_STEP; n--) {
		struct list *i = j->suspects.next;

		list_move_tail(&j->suspects, i);
		suspect_step(j, list_entry(i, struct suspect, link), now);
	}
}
