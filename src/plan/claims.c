/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/claims - which service gets a frontend that several services claim (SEL-14). */
#include "plan/private.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

/* The claim of one service to one frontend. */
struct claim {
	struct hnode node; /* the first claim of a key is in plan.claims */
	struct svc *svc;
	struct ip_addr addr;
	uint16_t port;
	uint8_t proto;
	uint8_t kind : 5;       /* enum plan_frontend_kind */
	uint8_t is_behind : 1;  /* its end concerns no other service */
	uint8_t is_due : 1;     /* plan_claim_due() */
	uint8_t is_leaving : 1; /* no longer claimed, but still programmed for the service */
};
_Static_assert(sizeof(struct claim) == 48, "one per frontend: kept small");
_Static_assert(offsetof(struct claim, proto) - offsetof(struct claim, addr) ==
		       offsetof(struct ip_tuple, proto),
	       "claim_cmp()");

/*
 * svc->claims: all claims of one service, sorted by key, then the claims with is_leaving.
 * The array is never moved.
 */
struct claims {
	uint32_t n;
	uint32_t n_desired;
	int64_t created_s; /* of the Service then; that of its next object may differ */
	struct claim v[];
};

/*
 * All claims of one key, if there are several: a change of one of thousands costs about as much as
 * that of the only one.
 */
struct contest {
	struct hnode node;          /* in plan.contests, by key */
	VEC(struct claim *) claims; /* by precedence */
};

static int claim_cmp(const struct claim *a, const struct claim *b)
{
	return ip_tuple_cmp(&a->addr, &b->addr);
}

/* Unknown counts as newest. */
static int64_t created(const struct svc *svc)
{
	int64_t s = svc->service != NULL ? svc->service->created_s : 0;

	return s != 0 ? s : INT64_MAX;
}

unsigned int plan_kind_rank(uint8_t kind)
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

static bool rows_hold(const struct svc *svc, const struct claim *c)
{
	const struct plan_rows *rows = svc->rows;

	return rows != NULL && vec_search(&rows->frontends, &c->addr, ip_tuple_cmp) != NULL;
}

/*
 * A large service is programmed in pieces: a service that has the frontend keeps it until the
 * piece that moves it.
 */
static bool is_deferred(const struct claim *c)
{
	return c->svc->is_large && !c->is_due && !rows_hold(c->svc, c);
}

/* --- the claims of one key --- */

static struct contest *contest_find(const struct plan *p, const struct claim *c)
{
	return htable_find(&p->contests, c->node.hash, struct contest, k,
			   claim_cmp(k->claims.v[0], c) == 0);
}

static struct claim *claim_first(const struct plan *p, const struct claim *c)
{
	return htable_find(&p->claims, c->node.hash, struct claim, o, claim_cmp(o, c) == 0);
}

/* All claims of the key of `c`, by precedence. A single one is in `one`. */
struct claimants {
	struct claim *const *v;
	size_t n;
	struct claim *one;
};

static void claimants_of(struct claimants *ret, const struct plan *p, const struct claim *c)
{
	const struct contest *k = contest_find(p, c);

	ret->one = k == NULL ? claim_first(p, c) : NULL;
	ret->v = k != NULL ? k->claims.v : &ret->one;
	ret->n = k != NULL ? k->claims.n : ret->one != NULL;
}

/* The place of `c`. */
static size_t contest_at(const struct contest *k, const struct claim *c)
{
	return bisect(k->claims.n, i, claim_precedes(k->claims.v[i], c));
}

static void contest_add(struct contest *k, struct claim *c)
{
	size_t at = contest_at(k, c);

	(void)vec_push(&k->claims);
	memmove(&k->claims.v[at + 1], &k->claims.v[at],
		(k->claims.n - 1 - at) * sizeof(k->claims.v[0]));
	k->claims.v[at] = c;
}

static void contest_del(struct contest *k, const struct claim *c)
{
	size_t at = contest_at(k, c);

	assert(at < k->claims.n && k->claims.v[at] == c);
	vec_cut(&k->claims, k->claims.n - 1);
	memmove(&k->claims.v[at], &k->claims.v[at + 1],
		(k->claims.n - at) * sizeof(k->claims.v[0]));
}

static struct contest *contest_open(struct plan *p, struct claim *first)
{
	struct contest *k = xcalloc(1, sizeof(*k));

	vec_reserve(&k->claims, 2); /* mostly */
	contest_add(k, first);
	htable_insert(&p->contests, &k->node, first->node.hash);
	return k;
}

static void contest_close(struct plan *p, struct contest *k)
{
	htable_remove(&p->contests, &k->node);
	vec_fini(&k->claims);
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
	struct claim *first = claim_first(p, c);
	struct contest *k = first != NULL ? contest_find(p, c) : NULL;

	if (first == NULL)
		htable_insert(&p->claims, &c->node, c->node.hash);
	else
		contest_add(k != NULL ? k : contest_open(p, first), c);
}

static void claim_remove(struct plan *p, struct claim *c)
{
	struct contest *k = contest_find(p, c);

	if (k != NULL)
		contest_del(k, c);
	if (claim_first(p, c) == c) {
		htable_remove(&p->claims, &c->node);
		if (k != NULL && k->claims.n > 0)
			htable_insert(&p->claims, &k->claims.v[0]->node, c->node.hash);
	}
	if (k != NULL && k->claims.n < 2)
		contest_close(p, k);
}

/* --- precedence --- */

/*
 * Does a claimant that is not deferred go before `c`, which does not have its frontend? Then the
 * end of `c` concerns no other service. (Rows that this load has not compared may be outdated.)
 */
static bool is_behind(struct plan *p, const struct claim *c)
{
	const struct contest *k = contest_find(p, c);

	if (k == NULL || rows_hold(c->svc, c))
		return false;
	for (size_t i = 0; k->claims.v[i] != c; i++) {
		const struct claim *other = k->claims.v[i];

		p->n_claims_visited++;
		if (!other->is_leaving && (!other->svc->is_large || rows_hold(other->svc, c)))
			return true;
	}
	return false;
}

/*
 * By the end of `c`, only the other claimant with precedence gains. If that one is large and a
 * service has the frontend, one that is not large may have it until the piece.
 */
static void wake_next(struct plan *p, const struct claim *c)
{
	bool is_large = true;
	bool has_large = false;
	struct claimants all;

	claimants_of(&all, p, c);
	for (size_t i = 0; i < all.n && is_large; i++) {
		const struct claim *other = all.v[i];

		p->n_claims_visited++;
		if (other->svc == c->svc || other->is_leaving)
			continue;
		is_large = other->svc->is_large;
		if (!is_large || !has_large)
			model_mark_dirty(p->model, other->svc, 0);
		has_large |= is_large;
	}
}

static struct claim claim_of(struct svc *svc, const struct plan_frontend *f)
{
	const struct ip_tuple key = { f->addr, f->port, f->proto, 0 };

	return (struct claim){ .node.hash = hash_bytes(&key, sizeof(key)),
			       .svc = svc,
			       .addr = f->addr,
			       .port = f->port,
			       .proto = f->proto,
			       .kind = f->kind & 0x1fU };
}

/* The claims of `rows` (sorted), with room for `n_more`. */
static struct claims *claims_make(struct svc *svc, const struct plan_rows *rows, size_t n_more)
{
	size_t n = rows ? rows->frontends.n : 0;
	struct claims *cs;

	if (n + n_more == 0)
		return NULL;
	cs = xmalloc(sizeof(*cs) + (n + n_more) * sizeof(cs->v[0]));
	cs->n = cs->n_desired = (uint32_t)n;
	cs->created_s = created(svc);
	for (size_t i = 0; i < n; i++)
		cs->v[i] = claim_of(svc, &rows->frontends.v[i]);
	return cs;
}

/* Append the programmed frontends that `cs` does not claim; both are sorted. */
static void claims_add_leaving(struct claims *cs, struct svc *svc)
{
	const struct plan_rows *programmed = svc->rows;
	size_t j = 0;

	for (size_t i = 0; programmed != NULL && i < programmed->frontends.n; i++) {
		struct claim c = claim_of(svc, &programmed->frontends.v[i]);

		c.is_leaving = true;
		while (j < cs->n_desired && claim_cmp(&cs->v[j], &c) < 0)
			j++;
		if (j == cs->n_desired || claim_cmp(&cs->v[j], &c) != 0)
			cs->v[cs->n++] = c;
	}
}

/* Mark the next claimant dirty where a claim ends, or changes its kind and so its precedence. */
static void claims_wake(struct plan *p, const struct claims *old, const struct claims *new)
{
	size_t n = new ? new->n_desired : 0;
	size_t j = 0;

	for (size_t i = 0; old != NULL && i < old->n_desired; i++) {
		const struct claim *c = &old->v[i];
		bool is_claimed;

		while (j < n && claim_cmp(&new->v[j], c) < 0)
			j++;
		is_claimed = j < n && claim_cmp(&new->v[j], c) == 0;
		if (is_claimed ? new->v[j].kind != c->kind : !c->is_behind)
			wake_next(p, c);
	}
}

void plan_claims_replace(struct plan *p, struct svc *svc, const struct plan_rows *rows)
{
	const struct plan_rows *programmed = svc->rows;
	struct claims *old = svc->claims;
	struct claims *next = claims_make(svc, rows, programmed ? programmed->frontends.n : 0);

	if (next != NULL)
		claims_add_leaving(next, svc);
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
	svc->is_large = plan_is_large(p, svc);
	if (svc->is_claimed)
		plan_claims_defer(svc);
	else
		plan_claims_replace(p, svc, rows);
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

static void conflict_add(struct plan_rows *rows, const struct plan_frontend *f)
{
	*vec_push(&rows->conflicts) = (struct plan_conflict){
		.addr = f->addr,
		.port = f->port,
		.proto = f->proto,
		.kind = f->kind,
	};
}

/* Does a service that claims the frontend have it? */
static bool is_claim_held(struct plan *p, const struct claimants *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct claim *c = all->v[i];

		p->n_claims_visited++;
		if (!c->is_leaving && rows_hold(c->svc, c))
			return true;
	}
	return false;
}

/*
 * The claim with precedence for the frontend of `c` (SEL-14); `c` if there is no other. For the
 * service of `c` its own claim is due.
 */
static const struct claim *claim_best(struct plan *p, const struct claim *c)
{
	struct claimants all;
	int is_held = -1; /* not known: it costs a search of all claims */

	claimants_of(&all, p, c);
	for (size_t i = 0; i < all.n; i++) {
		const struct claim *other = all.v[i];

		p->n_claims_visited++;
		if (other->is_leaving)
			continue;
		if (other == c || !is_deferred(other))
			return other;
		if (is_held < 0)
			is_held = is_claim_held(p, &all);
		if (!is_held)
			return other;
	}
	return c;
}

/*
 * Append the services that have the frontend of `c`, another service's, programmed. It is one;
 * others that this load has not compared may have outdated rows.
 */
static void holders_add(struct plan *p, const struct claim *c, struct plan_displaced *d)
{
	bool is_found = c->svc->adopted_load == p->load_no && rows_hold(c->svc, c);
	struct claimants all;

	claimants_of(&all, p, c);
	for (size_t i = 0; i < all.n && !is_found; i++) {
		struct svc *svc = all.v[i]->svc;

		p->n_claims_visited++;
		if (svc == c->svc || !rows_hold(svc, c))
			continue;
		displaced_add(d, svc);
		is_found = svc->adopted_load == p->load_no;
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

	if (best != c) {
		if (!best->svc->is_in_transaction && !rows_hold(best->svc, c))
			model_mark_dirty(p->model, best->svc, 0);
		return best;
	}
	if (displaced != NULL)
		holders_add(p, c, displaced);
	return best;
}

static int claim_order(const void *a, const void *b)
{
	return claim_cmp(a, b);
}

/* The claim of `svc` to `f`: NULL, or one that may be leaving. */
static struct claim *claim_find(const struct svc *svc, const struct plan_frontend *f)
{
	const struct claim like = claim_of(NULL, f);
	struct claims *cs = svc->claims;
	struct claim *c;

	if (cs == NULL)
		return NULL;
	c = bsearch(&like, cs->v, cs->n_desired, sizeof(like), claim_order);
	return c != NULL ? c
			 : bsearch(&like, cs->v + cs->n_desired, cs->n - cs->n_desired,
				   sizeof(like), claim_order);
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
	c->is_due = true;
	holders_add(p, c, displaced);
	return true;
}

void plan_claims_defer(const struct svc *svc)
{
	struct claims *cs = svc->claims;

	for (size_t i = 0; cs != NULL && i < cs->n; i++)
		cs->v[i].is_due = false;
}

const struct svc *plan_programmed(const struct plan *p, const struct plan_frontend *f)
{
	const struct claim like = claim_of(NULL, f);
	struct claimants all;

	claimants_of(&all, p, &like);
	for (size_t i = 0; i < all.n; i++)
		if (rows_hold(all.v[i]->svc, &like))
			return all.v[i]->svc;
	return NULL;
}

/* Claimants with precedence that do not have a frontend, such as rejected ones, are few. */
#define OWNERS_MAX 64

struct plan_owner plan_conflict_owner(const struct plan *p, const struct svc *svc,
				      const struct plan_conflict *c)
{
	const struct plan_frontend key = { .addr = c->addr, .port = c->port, .proto = c->proto };
	const struct claim like = claim_of(NULL, &key);
	struct plan_owner ret = { svc, c->kind };
	struct claimants all;

	claimants_of(&all, p, &like);
	for (size_t i = 0; i < MIN(all.n, (size_t)OWNERS_MAX); i++) {
		const struct plan_owner other = { all.v[i]->svc, all.v[i]->kind };

		if (other.svc == svc)
			continue;
		if (rows_hold(other.svc, &like))
			return other;
		if (ret.svc == svc && !all.v[i]->is_leaving)
			ret = other;
	}
	return ret;
}

void plan_heirs(struct plan *p, const struct svc *svc, struct plan_displaced *heirs)
{
	const struct claims *cs = svc->claims;

	for (size_t i = 0; cs != NULL && i < cs->n; i++) {
		const struct claim *best = claim_best(p, &cs->v[i]);

		if (best != &cs->v[i] && !is_deferred(best) && rows_hold(svc, &cs->v[i]) &&
		    !rows_hold(best->svc, &cs->v[i]))
			displaced_add(heirs, best->svc);
	}
}

bool plan_awaits_heir(struct plan *p, const struct svc *svc)
{
	const struct claims *cs = svc->claims;

	for (size_t i = 0; cs != NULL && i < cs->n; i++) {
		const struct claim *best = claim_best(p, &cs->v[i]);

		if (best != &cs->v[i] && is_deferred(best) && rows_hold(svc, &cs->v[i]) &&
		    list_is_linked(&best->svc->dirty))
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

		if (owner->svc == rows->svc)
			rows->frontends.v[kept++] = rows->frontends.v[i];
		else
			conflict_add(rows, &rows->frontends.v[i]);
	}
	vec_cut(&rows->frontends, kept);
	plan_rows_drop_unled(rows);
	/* Rows live as long as the service. */
	vec_fit(&rows->frontends);
	vec_fit(&rows->pools);
}
