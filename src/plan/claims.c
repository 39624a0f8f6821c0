/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/claims - which service gets a frontend that several services claim (SEL-14). */
#include "plan/private.h"

#include <assert.h>

#include "base/hash.h"

/* The claim of one service to one frontend. */
struct claim {
	struct ip_addr addr;
	uint16_t port;
	uint8_t proto;
	uint8_t kind : 4;       /* enum plan_frontend_kind */
	uint8_t is_held : 1;    /* the service has the frontend programmed */
	uint8_t is_behind : 1;  /* its end concerns no other service */
	uint8_t is_due : 1;     /* plan_claim_due() */
	uint8_t is_leaving : 1; /* no longer claimed, but still programmed for the service */
	struct svc *svc;
	struct hnode node; /* in plan.claims, unless its key has a contest */
};
_Static_assert(sizeof(struct claim) == 48, "one per frontend: kept small");
BEGINS_LIKE_TUPLE(struct claim);

/*
 * svc->claims: all claims of one service, sorted by key, then the claims with is_leaving.
 * The array is never moved.
 */
struct claims {
	uint32_t n;
	uint32_t n_desired;
	uint32_t next;     /* plan_awaits_heir() begins here: the last heir may still be awaited */
	int64_t created_s; /* of the Service then; that of its next object may differ */
	struct claim v[];
};

/* Claims of one key by precedence. */
struct ranking {
	VEC(struct claim *) claims;
};

/*
 * A key that has or had several claims. A change of one of thousands costs about as much as that of
 * the only one: no search visits all.
 */
struct contest {
	struct hnode node; /* in plan.contests */
	struct ip_tuple key;
	size_t n;             /* claims */
	struct ranking small; /* of services that are not large; without those with is_leaving */
	struct ranking large; /* of large services, likewise */
	struct ranking ready; /* with is_held or is_due, leaving or not: mostly one */
};

/* Unknown counts as newest. */
static int64_t created(const struct svc *svc)
{
	int64_t s = svc->service != NULL ? svc->service->created_s : 0;

	return s != 0 ? s : INT64_MAX;
}

int plan_kind_rank(uint8_t kind)
{
	static const uint8_t rank[] = {
		[PLAN_FRONTEND_UNSET] = 4,      [PLAN_FRONTEND_CLUSTERIP] = 0,
		[PLAN_FRONTEND_NODEPORT] = 1,   [PLAN_FRONTEND_LB] = 2,
		[PLAN_FRONTEND_EXTERNALIP] = 3,
	};

	return rank[kind];
}

static bool precedes(const struct svc *a, uint8_t kind_a, int64_t created_a, const struct svc *b,
		     uint8_t kind_b, int64_t created_b)
{
	if (kind_a != kind_b)
		return plan_kind_rank(kind_a) < plan_kind_rank(kind_b);
	return created_a != created_b ? created_a < created_b
				      : name_pair_cmp(a->ns, a->name, b->ns, b->name) < 0;
}

bool plan_precedes(const struct svc *a, uint8_t kind_a, const struct svc *b, uint8_t kind_b)
{
	return precedes(a, kind_a, created(a), b, kind_b, created(b));
}

/* Order in a contest; it does not change while both claims are in the table. */
static bool claim_precedes(const struct claim *a, const struct claim *b)
{
	const struct claims *ca = a->svc->claims;
	const struct claims *cb = b->svc->claims;

	return precedes(a->svc, a->kind, ca->created_s, b->svc, b->kind, cb->created_s);
}

/* Is the key of `c` among the frontends of `rows` from `*from` on? Raises `*from`. */
static bool rows_hold(const struct plan_rows *rows, size_t *from, const struct claim *c)
{
	while (*from < rows->frontends.n && ip_tuple_cmp(&rows->frontends.v[*from], c) < 0)
		++*from;
	return *from < rows->frontends.n && ip_tuple_cmp(&rows->frontends.v[*from], c) == 0;
}

static bool is_ready(const struct claim *c)
{
	return c->is_held || c->is_due;
}

/*
 * A large service is programmed in pieces: a service that has the frontend keeps it until the
 * piece that moves it.
 */
static bool is_deferred(const struct claim *c)
{
	return c->svc->is_large && !is_ready(c);
}

/* --- the claims of one key --- */

static struct contest *contest_find(const struct plan *p, const struct claim *c)
{
	return htable_find(&p->contests, c->node.hash, struct contest, k,
			   ip_tuple_cmp(&k->key, c) == 0);
}

/* The claim of a key that has no contest, or NULL. */
static struct claim *claim_only(const struct plan *p, const struct claim *c)
{
	return htable_find(&p->claims, c->node.hash, struct claim, o, ip_tuple_cmp(o, c) == 0);
}

/* The place of `c`. */
static size_t rank_at(const struct ranking *r, const struct claim *c)
{
	return bisect(r->claims.n, i, claim_precedes(r->claims.v[i], c));
}

static void rank_add(struct ranking *r, struct claim *c)
{
	*vec_insert(&r->claims, rank_at(r, c)) = c;
}

static void rank_del(struct ranking *r, const struct claim *c)
{
	size_t at = rank_at(r, c);

	assert(at < r->claims.n && r->claims.v[at] == c);
	vec_remove(&r->claims, at);
}

/* The first claim of another service than `svc`, or NULL. */
static struct claim *rank_first(const struct ranking *r, const struct svc *svc)
{
	size_t i = r->claims.n > 0 && r->claims.v[0]->svc == svc;

	return i < r->claims.n ? r->claims.v[i] : NULL;
}

/* Both may be NULL. */
static const struct claim *earlier(const struct claim *a, const struct claim *b)
{
	return a == NULL || (b != NULL && claim_precedes(b, a)) ? b : a;
}

static struct ranking *ranking_of(struct contest *k, const struct claim *c)
{
	return c->svc->is_large ? &k->large : &k->small;
}

static void contest_add(struct contest *k, struct claim *c)
{
	k->n++;
	if (!c->is_leaving)
		rank_add(ranking_of(k, c), c);
	if (is_ready(c))
		rank_add(&k->ready, c);
}

static void contest_del(struct contest *k, const struct claim *c)
{
	k->n--;
	if (!c->is_leaving)
		rank_del(ranking_of(k, c), c);
	if (is_ready(c))
		rank_del(&k->ready, c);
}

static struct contest *contest_open(struct plan *p, struct claim *first)
{
	struct contest *k = xcalloc(1, sizeof(*k));

	k->key = (struct ip_tuple){ first->addr, first->port, first->proto, 0 };
	htable_remove(&p->claims, &first->node);
	htable_insert(&p->contests, &k->node, first->node.hash);
	contest_add(k, first);
	return k;
}

static void contest_close(struct plan *p, struct contest *k)
{
	htable_remove(&p->contests, &k->node);
	vec_fini(&k->small.claims);
	vec_fini(&k->large.claims);
	vec_fini(&k->ready.claims);
	free(k);
}

void plan_claims_fini(struct plan *p)
{
	htable_for_each_entry_safe (k, next, &p->contests, struct contest)
		contest_close(p, k);
	htable_fini(&p->contests);
	htable_fini(&p->claims);
}

static void claim_insert(struct plan *p, struct claim *c)
{
	struct contest *k = contest_find(p, c);
	struct claim *only = k == NULL ? claim_only(p, c) : NULL;

	if (only != NULL)
		k = contest_open(p, only);
	if (k != NULL)
		contest_add(k, c);
	else
		htable_insert(&p->claims, &c->node, c->node.hash);
}

static void claim_remove(struct plan *p, struct claim *c)
{
	struct contest *k = contest_find(p, c);

	if (k == NULL) {
		htable_remove(&p->claims, &c->node);
		return;
	}
	contest_del(k, c);
	if (k->n == 0)
		contest_close(p, k);
}

static void claim_set(struct plan *p, struct claim *c, bool is_held, bool is_due)
{
	bool was_ready = is_ready(c);
	struct contest *k;

	c->is_held = is_held;
	c->is_due = is_due;
	k = is_ready(c) != was_ready ? contest_find(p, c) : NULL;
	if (k != NULL && was_ready)
		rank_del(&k->ready, c);
	else if (k != NULL)
		rank_add(&k->ready, c);
}

void plan_claims_hold(struct plan *p, const struct svc *svc)
{
	const struct plan_rows *rows = plan_rows_or_none(svc->rows);
	struct claims *cs = svc->claims;
	size_t from = 0;

	for (size_t i = 0; cs != NULL && i < cs->n; i++) {
		from = i != cs->n_desired ? from : 0;
		claim_set(p, &cs->v[i], rows_hold(rows, &from, &cs->v[i]), false);
	}
}

void plan_claims_size(struct plan *p, struct svc *svc)
{
	bool is_large = plan_is_large(p, svc);
	struct claims *cs = svc->claims;

	for (size_t i = 0; is_large != svc->is_large && cs != NULL && i < cs->n_desired; i++) {
		struct contest *k = contest_find(p, &cs->v[i]);

		if (k == NULL)
			continue;
		rank_del(is_large ? &k->small : &k->large, &cs->v[i]);
		rank_add(is_large ? &k->large : &k->small, &cs->v[i]);
	}
	svc->is_large = is_large;
}

/* --- precedence --- */

/*
 * Does a claimant that is not deferred go before `c`, which does not have its frontend? Then the
 * end of `c` concerns no other service. (Rows that this load has not compared may be outdated.)
 */
static bool is_behind(struct plan *p, const struct claim *c)
{
	const struct contest *k = contest_find(p, c);
	const struct claim *small = k != NULL ? rank_first(&k->small, NULL) : NULL;

	if (k == NULL || c->is_held)
		return false;
	p->n_claims_visited += 1 + k->ready.claims.n;
	return (small != NULL && claim_precedes(small, c)) ||
	       vec_has(&k->ready.claims, o,
		       (*o)->is_held && !(*o)->is_leaving && claim_precedes(*o, c));
}

/*
 * By the end of `c`, only the other claimant with precedence gains. If that one is large and a
 * service has the frontend, one that is not large may have it until the piece.
 */
static void wake_next(struct plan *p, const struct claim *c)
{
	const struct contest *k = contest_find(p, c);
	const struct claim *small = k != NULL ? rank_first(&k->small, c->svc) : claim_only(p, c);
	const struct claim *large = k != NULL ? rank_first(&k->large, c->svc) : NULL;

	p->n_claims_visited++;
	if (small != NULL &&
	    (small->svc == c->svc || small->is_leaving)) /* of the key's only one */
		return;
	if (large != NULL && earlier(small, large) == large)
		model_mark_dirty(p->model, large->svc, 0);
	if (small != NULL)
		model_mark_dirty(p->model, small->svc, 0);
}

static struct claim claim_of(struct svc *svc, const struct plan_frontend *f)
{
	const struct ip_tuple key = { f->addr, f->port, f->proto, 0 };

	return (struct claim){ .node.hash = hash_bytes(&key, sizeof(key)),
			       .svc = svc,
			       .addr = f->addr,
			       .port = f->port,
			       .proto = f->proto,
			       .kind = f->kind & 0xfU };
}

/* The claims of `rows`, then those to frontends that only the programmed rows have. */
static struct claims *claims_make(struct svc *svc, const struct plan_rows *rows)
{
	const struct plan_rows *programmed = plan_rows_or_none(svc->rows);
	size_t n = (size_t)rows->frontends.n + programmed->frontends.n;
	size_t from = 0;
	struct claims *cs;

	if (n == 0)
		return NULL;
	cs = xmalloc(sizeof(*cs) + n * sizeof(cs->v[0]));
	*cs = (struct claims){ .n_desired = rows->frontends.n, .created_s = created(svc) };
	vec_for_each (f, &rows->frontends) {
		struct claim c = claim_of(svc, f);

		c.is_held = rows_hold(programmed, &from, &c);
		cs->v[cs->n++] = c;
	}
	from = 0;
	vec_for_each (f, &programmed->frontends) {
		struct claim c = claim_of(svc, f);

		c.is_leaving = c.is_held = true;
		if (!rows_hold(rows, &from, &c))
			cs->v[cs->n++] = c;
	}
	return cs;
}

/* Mark the next claimant dirty where a claim ends, or changes its precedence: its kind or age. */
static void claims_wake(struct plan *p, const struct claims *old, const struct claims *new)
{
	size_t n = new ? new->n_desired : 0;
	size_t j = 0;

	for (size_t i = 0; old != NULL && i < old->n_desired; i++) {
		const struct claim *c = &old->v[i];
		bool is_claimed;

		while (j < n && ip_tuple_cmp(&new->v[j], c) < 0)
			j++;
		is_claimed = j < n && ip_tuple_cmp(&new->v[j], c) == 0;
		if (is_claimed ? new->v[j].kind != c->kind || new->created_s != old->created_s
			       : !c->is_behind)
			wake_next(p, c);
	}
}

void plan_claims_replace(struct plan *p, struct svc *svc, const struct plan_rows *rows)
{
	struct claims *old = svc->claims;
	struct claims *next = claims_make(svc, plan_rows_or_none(rows));

	for (size_t i = 0; old != NULL && i < old->n; i++) {
		old->v[i].is_behind = is_behind(p, &old->v[i]);
		claim_remove(p, &old->v[i]);
	}
	svc->claims = next;
	for (size_t i = 0; next != NULL && i < next->n; i++)
		claim_insert(p, &next->v[i]);
	claims_wake(p, old, next);
	free(old);
	p->n_claims_made += next ? next->n : 0;
}

/* Which frontends are claimed does not depend on endpoints: mostly nothing is to be done. */
void plan_claims_follow(struct plan *p, struct svc *svc, const struct plan_rows *rows)
{
	plan_claims_size(p, svc);
	if (svc->is_claimed)
		plan_claims_defer(p, svc);
	else
		plan_claims_replace(p, svc, rows);
}

size_t plan_claim_work(const struct plan *p, const struct svc *svc)
{
	const struct claims *old = svc->claims;
	size_t n = plan_rows_or_none(svc->rows)->frontends.n;

	if (svc->is_claimed)
		return 0;
	if (svc->service != NULL)
		n = MAX(n, plan_frontends_max(p, svc->service));
	return old != NULL ? MAX(n, (size_t)old->n) : n;
}

size_t plan_claims_count(const struct svc *svc)
{
	const struct claims *cs = svc->claims;

	return cs != NULL ? cs->n_desired : 0;
}

void plan_claims_left(struct plan *p, struct svc *svc)
{
	struct claims *cs = svc->claims;

	if (cs == NULL)
		return;
	while (cs->n > cs->n_desired)
		claim_remove(p, &cs->v[--cs->n]);
	if (cs->n > 0)
		return;
	free(cs);
	svc->claims = NULL;
}

static void displaced_add(struct plan_displaced *d, struct svc *svc)
{
	if (!vec_has(&d->svcs, have, *have == svc))
		*vec_push(&d->svcs) = svc;
}

/*
 * The claim with precedence for the frontend of `c` (SEL-14); `c` if there is no other. For the
 * service of `c` its own claim is due. As long as a claimant has the frontend, others that are
 * deferred do not get it.
 */
static const struct claim *claim_best(struct plan *p, const struct claim *c)
{
	const struct contest *k = contest_find(p, c);
	const struct claim *best;
	bool is_held;

	p->n_claims_visited += 1 + (k != NULL ? k->ready.claims.n : 0);
	if (k == NULL)
		return c;
	is_held = vec_has(&k->ready.claims, o,
			  (*o)->is_held && (!(*o)->is_leaving || (*o)->svc->service != NULL));
	best = earlier(rank_first(&k->small, NULL), is_held ? NULL : rank_first(&k->large, NULL));
	if (!c->is_leaving)
		best = earlier(best, c);
	vec_for_each (o, &k->ready.claims)
		if (!(*o)->is_leaving)
			best = earlier(best, *o);
	return best != NULL ? best : c;
}

/*
 * Append the services that have the frontend of `c`, another service's, programmed. It is one;
 * others that this load has not compared may have outdated rows.
 */
static void holders_add(struct plan *p, const struct claim *c, struct plan_displaced *d)
{
	const struct contest *k = contest_find(p, c);
	bool is_found = c->svc->adopted_load == p->load_no && c->is_held;

	p->n_claims_visited++;
	for (size_t i = 0; k != NULL && i < k->ready.claims.n && !is_found; i++) {
		const struct claim *o = k->ready.claims.v[i];

		p->n_claims_visited++;
		if (o->svc == c->svc || !o->is_held)
			continue;
		displaced_add(d, o->svc);
		is_found = o->svc->adopted_load == p->load_no;
	}
}

/*
 * The claim that gets the frontend of `c`. A winner of another service whose frontend is
 * not programmed yet is marked dirty. When `c` wins, services that have the frontend
 * programmed are displaced, even without a claim: loss and gain are one transaction.
 */
static const struct claim *claim_owner(struct plan *p, const struct claim *c,
				       struct plan_displaced *displaced)
{
	const struct claim *best = claim_best(p, c);

	if (best != c && !best->svc->is_in_transaction && !best->is_held)
		model_mark_dirty(p->model, best->svc, 0);
	if (best == c && displaced != NULL)
		holders_add(p, c, displaced);
	return best;
}

/* The claim of `svc` to `f`: NULL, or one that may be leaving. */
static struct claim *claim_find(const struct svc *svc, const struct plan_frontend *f)
{
	struct claims *cs = svc->claims;
	struct claim *c;

	if (cs == NULL)
		return NULL;
	c = bsearch(f, cs->v, cs->n_desired, sizeof(*c), ip_tuple_cmp);
	return c != NULL ? c
			 : bsearch(f, cs->v + cs->n_desired, cs->n - cs->n_desired, sizeof(*c),
				   ip_tuple_cmp);
}

bool plan_is_lost(struct plan *p, const struct svc *svc, const struct plan_frontend *f)
{
	const struct claim *c = claim_find(svc, f);
	const struct claim *best = c != NULL ? claim_best(p, c) : NULL;

	return best != c && best->svc->is_in_transaction && !is_deferred(best);
}

bool plan_is_claimed(const struct svc *svc, const struct plan_frontend *f)
{
	const struct claim *c = claim_find(svc, f);

	return c != NULL && !c->is_leaving;
}

bool plan_claim_due(struct plan *p, const struct svc *svc, const struct plan_frontend *f,
		    struct plan_displaced *displaced)
{
	struct claim *c = claim_find(svc, f);

	if (c == NULL || c->is_leaving || claim_best(p, c) != c)
		return false;
	claim_set(p, c, c->is_held, true);
	holders_add(p, c, displaced);
	return true;
}

void plan_claims_defer(struct plan *p, const struct svc *svc)
{
	struct claims *cs = svc->claims;

	for (size_t i = 0; cs != NULL && i < cs->n; i++)
		claim_set(p, &cs->v[i], cs->v[i].is_held, false);
}

/* The first claim of the key of `like` whose service, not `svc`, has the frontend, or NULL. */
static const struct claim *holder(const struct plan *p, const struct claim *like,
				  const struct svc *svc)
{
	const struct contest *k = contest_find(p, like);
	const struct claim *only = claim_only(p, like);

	for (size_t i = 0; k != NULL && i < k->ready.claims.n; i++)
		if (k->ready.claims.v[i]->is_held && k->ready.claims.v[i]->svc != svc)
			return k->ready.claims.v[i];
	return only != NULL && only->is_held && only->svc != svc ? only : NULL;
}

const struct svc *plan_programmed(const struct plan *p, const struct plan_frontend *f)
{
	const struct claim like = claim_of(NULL, f);
	const struct claim *c = holder(p, &like, NULL);

	return c != NULL ? c->svc : NULL;
}

struct plan_owner plan_conflict_owner(const struct plan *p, const struct svc *svc,
				      const struct plan_conflict *c)
{
	const struct plan_frontend key = { .addr = c->addr, .port = c->port, .proto = c->proto };
	const struct claim like = claim_of(NULL, &key);
	const struct contest *k = contest_find(p, &like);
	const struct claim *other = holder(p, &like, svc);

	if (other == NULL && k != NULL)
		other = earlier(rank_first(&k->small, svc), rank_first(&k->large, svc));
	return other != NULL ? (struct plan_owner){ other->svc, other->kind }
			     : (struct plan_owner){ svc, c->kind };
}

void plan_heirs(struct plan *p, const struct svc *svc, struct plan_displaced *heirs)
{
	const struct claims *cs = svc->claims;

	for (size_t i = 0; cs != NULL && i < cs->n; i++) {
		const struct claim *c = &cs->v[i];
		const struct claim *best = c->is_held ? claim_best(p, c) : c;

		if (best != c && !is_deferred(best) && !best->is_held)
			displaced_add(heirs, best->svc);
	}
}

bool plan_awaits_heir(struct plan *p, const struct svc *svc)
{
	struct claims *cs = svc->claims;

	for (uint32_t i = 0; cs != NULL && i < cs->n; i++, cs->next++) {
		const struct claim *c = &cs->v[cs->next % cs->n];
		const struct claim *best = c->is_held ? claim_best(p, c) : c;

		if (best != c && is_deferred(best) && list_is_linked(&best->svc->dirty))
			return true;
	}
	return false;
}

void plan_rows_settle(struct plan *p, struct plan_rows *rows, struct plan_displaced *displaced)
{
	struct claims *claims = rows->svc->claims;
	size_t kept = 0;

	for (size_t i = 0; i < rows->frontends.n; i++) {
		const struct claim *owner = claim_owner(p, &claims->v[i], displaced);
		const struct plan_frontend *f = &rows->frontends.v[i];

		if (owner->svc == rows->svc)
			rows->frontends.v[kept++] = *f;
		else
			*vec_push(&rows->conflicts) =
				(struct plan_conflict){ f->addr, f->port, f->proto, f->kind };
	}
	vec_cut(&rows->frontends, kept);
	plan_rows_drop_unled(rows);
	/* Rows live as long as the service. */
	vec_fit(&rows->frontends);
	vec_fit(&rows->pools);
}
