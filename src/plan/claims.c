/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/claims - which service gets a frontend that several services claim (SEL-14). */
#include "plan/claims.h"

#include <string.h>

#include "base/hash.h"

/* The claim of one service to one frontend. */
struct claim {
	struct hnode node; /* in plan.claims, by key */
	struct svc *svc;
	struct ip_addr addr;
	uint16_t port;
	uint8_t proto;
	uint8_t kind : 6;       /* enum plan_frontend_kind */
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
	struct claim v[];
};

static uint32_t claim_hash(const struct claim *c)
{
	const struct ip_tuple key = { c->addr, c->port, c->proto, 0 };

	return hash_bytes(&key, sizeof(key));
}

static int claim_cmp(const struct claim *a, const struct claim *b)
{
	return ip_tuple_cmp(&a->addr, &b->addr);
}

static bool is_older(const struct svc *a, const struct svc *b)
{
	int64_t ca = a->service ? a->service->created_s : 0;
	int64_t cb = b->service ? b->service->created_s : 0;
	int c;

	if (ca != cb) {
		if (ca == 0 || cb == 0) /* unknown counts as newest */
			return cb == 0;
		return ca < cb;
	}
	c = strcmp(a->ns->text, b->ns->text);
	return c != 0 ? c < 0 : strcmp(a->name->text, b->name->text) < 0;
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

bool plan_precedes(const struct svc *a, uint8_t kind_a, const struct svc *b, uint8_t kind_b)
{
	return kind_a != kind_b ? plan_kind_rank(kind_a) < plan_kind_rank(kind_b) : is_older(a, b);
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

/*
 * Does a service with precedence over `c` have the frontend, and that of `c` not? Then the end of
 * `c` concerns no other service. (The rows of one that this load has not compared may be outdated.)
 */
static bool is_behind(const struct plan *p, const struct claim *c)
{
	return !rows_hold(c->svc, c) &&
	       htable_find(&p->claims, c->node.hash, struct claim, o,
			   o->svc != c->svc && !o->is_leaving && claim_cmp(o, c) == 0 &&
				   plan_precedes(o->svc, o->kind, c->svc, c->kind) &&
				   rows_hold(o->svc, o)) != NULL;
}

static void wake_others(struct plan *p, const struct claim *c)
{
	htable_for_each_hash (n, &p->claims, c->node.hash) {
		struct claim *other = container_of(n, struct claim, node);

		if (other->svc != c->svc && !other->is_leaving && claim_cmp(other, c) == 0)
			model_mark_dirty(p->model, other->svc, 0);
	}
}

static struct claim claim_of(struct svc *svc, const struct plan_frontend *f)
{
	return (struct claim){ .svc = svc,
			       .addr = f->addr,
			       .port = f->port,
			       .proto = f->proto,
			       .kind = f->kind & 0x3fU };
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

/* Mark other claimants dirty where a claim ends, or changes its kind and so its precedence. */
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
		if (is_claimed ? new->v[j].kind != c->kind : !is_behind(p, c))
			wake_others(p, c);
	}
}

void plan_claims_replace(struct plan *p, struct svc *svc, const struct plan_rows *rows)
{
	const struct plan_rows *programmed = svc->rows;
	struct claims *old = svc->claims;
	struct claims *new = claims_make(svc, rows, programmed ? programmed->frontends.n : 0);

	if (new != NULL)
		claims_add_leaving(new, svc);
	for (size_t i = 0; old != NULL && i < old->n; i++)
		htable_remove(&p->claims, &old->v[i].node);
	for (size_t i = 0; new != NULL &&i < new->n; i++)
		htable_insert(&p->claims, &new->v[i].node, claim_hash(&new->v[i]));
	claims_wake(p, old, new);
	free(old);
	svc->claims = new;
	p->n_claims_made += new ? new->n : 0;
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
		htable_remove(&p->claims, &cs->v[--cs->n].node);
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

static void conflict_add(struct plan_rows *rows, const struct plan_frontend *f,
			 const struct claim *owner)
{
	*vec_push(&rows->conflicts) = (struct plan_conflict){
		.addr = f->addr,
		.port = f->port,
		.proto = f->proto,
		.kind = f->kind,
		.owner_kind = owner->kind,
		.owner_ns = name_ref(owner->svc->ns),
		.owner_name = name_ref(owner->svc->name),
	};
}

static void owner_set(struct plan_rows *rows, const struct claim *owner)
{
	struct plan_conflict *c =
		rows != NULL ? vec_search(&rows->conflicts, &owner->addr, ip_tuple_cmp) : NULL;

	if (c == NULL)
		return;
	name_unref(c->owner_ns);
	name_unref(c->owner_name);
	c->owner_ns = name_ref(owner->svc->ns);
	c->owner_name = name_ref(owner->svc->name);
	c->owner_kind = owner->kind;
}

void plan_claims_gained(struct plan *p, struct svc *svc, const struct plan_rows *old)
{
	const struct plan_rows *new = svc->rows;

	for (size_t i = 0; new != NULL && p->n_conflicts > 0 && i < new->frontends.n; i++) {
		const struct claim owner = claim_of(svc, &new->frontends.v[i]);

		if (old != NULL && plan_rows_frontend(old, &new->frontends.v[i]) != NULL)
			continue;
		htable_for_each_hash (n, &p->claims, claim_hash(&owner)) {
			const struct claim *other = container_of(n, struct claim, node);

			if (other->svc != svc && claim_cmp(other, &owner) == 0)
				owner_set(other->svc->rows, &owner);
		}
	}
}

/* Does a service that claims the frontend of `c` have it? */
static bool is_claim_held(const struct plan *p, const struct claim *c)
{
	return htable_find(&p->claims, c->node.hash, struct claim, o,
			   !o->is_leaving && claim_cmp(o, c) == 0 && rows_hold(o->svc, o)) != NULL;
}

/*
 * The claim with precedence for the frontend of `c` (SEL-14); `c` if there is no other. For the
 * service of `c` its own claim is due.
 */
static const struct claim *claim_best(const struct plan *p, const struct claim *c)
{
	const struct claim *best = c;
	int is_held = -1; /* not known: it costs a search of all claims */

	htable_for_each_hash (n, &p->claims, c->node.hash) {
		const struct claim *other = container_of(n, struct claim, node);

		if (other->svc == best->svc || other->is_leaving || claim_cmp(other, c) != 0 ||
		    !(best->is_leaving ||
		      plan_precedes(other->svc, other->kind, best->svc, best->kind)))
			continue;
		if (is_held < 0 && is_deferred(other))
			is_held = is_claim_held(p, c);
		if (is_held <= 0 || !is_deferred(other))
			best = other;
	}
	return best;
}

/* Append the services that have the frontend of `c`, another service's, programmed. */
static void holders_add(const struct plan *p, const struct claim *c, struct plan_displaced *d)
{
	htable_for_each_hash (n, &p->claims, c->node.hash) {
		struct claim *other = container_of(n, struct claim, node);

		if (other->svc != c->svc && claim_cmp(other, c) == 0 && rows_hold(other->svc, c))
			displaced_add(d, other->svc);
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

static struct claim *claim_find(const struct plan *p, const struct svc *svc,
				const struct plan_frontend *f)
{
	const struct claim like = claim_of(NULL, f);

	return htable_find(&p->claims, claim_hash(&like), struct claim, c,
			   c->svc == svc && claim_cmp(c, &like) == 0);
}

bool plan_is_lost(const struct plan *p, const struct svc *svc, const struct plan_frontend *f)
{
	const struct claim *c = claim_find(p, svc, f);
	const struct claim *best = c != NULL ? claim_best(p, c) : NULL;

	return best != c && best->svc->is_in_transaction && !is_deferred(best);
}

bool plan_is_claimed(const struct plan *p, const struct svc *svc, const struct plan_frontend *f)
{
	const struct claim *c = claim_find(p, svc, f);

	return c != NULL && !c->is_leaving;
}

bool plan_claim_due(struct plan *p, const struct svc *svc, const struct plan_frontend *f,
		    struct plan_displaced *displaced)
{
	struct claim *c = claim_find(p, svc, f);

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
	const struct claim *owner =
		htable_find(&p->claims, claim_hash(&like), struct claim, c,
			    claim_cmp(c, &like) == 0 && rows_hold(c->svc, &like));

	return owner != NULL ? owner->svc : NULL;
}

void plan_heirs(const struct plan *p, const struct svc *svc, struct plan_displaced *heirs)
{
	const struct claims *cs = svc->claims;

	for (size_t i = 0; cs != NULL && i < cs->n; i++) {
		const struct claim *best = claim_best(p, &cs->v[i]);

		if (best != &cs->v[i] && !is_deferred(best) && rows_hold(svc, &cs->v[i]) &&
		    !rows_hold(best->svc, &cs->v[i]))
			displaced_add(heirs, best->svc);
	}
}

bool plan_awaits_heir(const struct plan *p, const struct svc *svc)
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
			conflict_add(rows, &rows->frontends.v[i], owner);
	}
	vec_cut(&rows->frontends, kept);
	plan_rows_drop_unled(rows);
	/* Rows live as long as the service. */
	vec_fit(&rows->frontends);
	vec_fit(&rows->pools);
}
