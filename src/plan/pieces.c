/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plan/pieces - intermediate rows: programmed pools, some of them replaced by desired ones. */
#include "plan/pieces.h"

#include <assert.h>
#include <string.h>

#include "plan/between.h"
#include "plan/private.h"
#include "plan/table.h"

static int waiting_cmp(const void *a, const void *b)
{
	const struct plan_waiting *x = a;
	const struct plan_waiting *y = b;

	return CMP(x->pool, y->pool) ?: CMP(x->frontend, y->frontend);
}

static uint32_t pool_index(const struct plan_rows *rows, const struct plan_frontend *f,
			   const struct plan_target *t)
{
	const struct plan_pool *pool =
		t->verdict == PLAN_VERDICT_UNSET ? NULL : plan_rows_pool_of(rows, f, t->scope);

	return pool != NULL ? (uint32_t)(pool - rows->pools.v) : 0;
}

/* The programmed pool of `t`, or NULL. */
static const struct plan_pool *led_pool(const struct plan_rows *programmed, enum ipfam fam,
					const struct plan_target *t)
{
	return t->verdict == PLAN_VERDICT_UNSET ? NULL
						: plan_rows_pool(programmed, fam, t->pool_id);
}

/*
 * The pool of `t` if it becomes empty, or 0. Its frontends stay until then: a restart finds its
 * slots through them.
 */
static uint32_t emptied_index(const struct plan_rows *goal, const struct plan_rows *programmed,
			      enum ipfam fam, const struct plan_target *t)
{
	const struct plan_pool *was = led_pool(programmed, fam, t);
	const struct plan_pool *will =
		was != NULL && was->backends.n > 0 ? plan_rows_pool_like(goal, was) : NULL;

	return will != NULL && will->id == was->id && will->backends.n == 0
		       ? (uint32_t)(will - goal->pools.v)
		       : 0;
}

/* The last pool that must be done before the frontend `f` of the goal is written. */
static uint32_t waiting_index(const struct plan_rows *goal, const struct plan_rows *programmed,
			      const struct plan_frontend *f)
{
	const struct plan_frontend *was = plan_rows_frontend(programmed, f);
	enum ipfam fam = ip_fam(&f->addr);
	uint32_t ret = pool_index(goal, f, &f->target);

	ret = MAX(ret, pool_index(goal, f, &f->inside));
	if (was == NULL)
		return ret;
	ret = MAX(ret, emptied_index(goal, programmed, fam, &was->target));
	return MAX(ret, emptied_index(goal, programmed, fam, &was->inside));
}

void plan_pieces_init(struct plan_pieces *pp, struct plan_rows *goal,
		      const struct plan_rows *programmed)
{
	*pp = (struct plan_pieces){ .goal = goal };
	if (goal == NULL)
		return;
	programmed = plan_rows_or_none(programmed);
	pp->is_selected = xcalloc(goal->frontends.n + 1, 1);
	vec_reserve(&pp->order, goal->frontends.n);
	for (size_t i = 0; i < goal->frontends.n; i++) {
		uint32_t pool = waiting_index(goal, programmed, &goal->frontends.v[i]);

		*vec_push(&pp->order) = (struct plan_waiting){ pool, (uint32_t)i };
	}
	vec_sort(&pp->order, waiting_cmp);
}

void plan_pieces_fini(struct plan_pieces *pp)
{
	vec_fini(&pp->order);
	free(pp->is_selected);
	*pp = (struct plan_pieces){ 0 };
}

/* --- adoption --- */

struct plan_rows *plan_pieces_part(struct plan_pieces *pp, size_t *pool, size_t max)
{
	struct plan_rows *goal = pp->goal;
	struct plan_rows *part;
	size_t n = 0;

	if (goal == NULL || *pool == goal->pools.n)
		return NULL;
	part = xcalloc(1, sizeof(*part));
	part->svc = goal->svc;
	/* The pools of one port stay together: a frontend may lead to both. */
	for (size_t at = *pool; at < goal->pools.n; at++, ++*pool) {
		const struct plan_pool *next = &goal->pools.v[at];

		if (n >= max && next->port_name != next[-1].port_name)
			break;
		n += next->backends.n + plan_table_slots(next) + 1;
		*vec_push(&part->pools) = *next;
	}
	for (; pp->next_waiting < pp->order.n && pp->order.v[pp->next_waiting].pool < *pool;
	     pp->next_waiting++)
		*vec_push(&part->frontends) =
			goal->frontends.v[pp->order.v[pp->next_waiting].frontend];
	vec_sort(&part->frontends, ip_tuple_cmp);
	if (*pool == goal->pools.n)
		pp->next_waiting = 0;
	return part;
}

void plan_pieces_adopted(struct plan_pieces *pp, struct plan_rows *part)
{
	vec_for_each (pool, &part->pools)
		*plan_rows_pool_like(pp->goal, pool) = *pool;
	vec_fini(&part->pools); /* the goal owns their members */
	vec_fini(&part->frontends);
	free(part);
}

/* --- one pool --- */

/* The first frontend of the goal that waits for this pool, and their number. */
static const struct plan_frontend *leading(const struct plan_pieces *pp,
					   const struct plan_pool *pool, size_t *n)
{
	bool is_desired =
		pp->goal != NULL && pool >= pp->goal->pools.v && pool < vec_end(&pp->goal->pools);
	uint32_t at = is_desired ? (uint32_t)(pool - pp->goal->pools.v) : 0;
	size_t i = pp->next_waiting;

	*n = 0;
	if (!is_desired)
		return NULL;
	while (i < pp->order.n && pp->order.v[i].pool < at)
		i++;
	while (i + *n < pp->order.n && pp->order.v[i + *n].pool == at)
		++*n;
	return *n > 0 ? &pp->goal->frontends.v[pp->order.v[i].frontend] : NULL;
}

/* --- rows --- */

/* State of a programmed pool in a piece. */
enum fate {
	UNLED = 0, /* no frontend leads there: it goes */
	KEPT,
	GONE, /* it goes with its frontends */
};

struct piece {
	struct plan_pieces *pp;
	struct plan *p;
	const struct plan_rows *goal;
	const struct plan_rows *programmed;
	struct plan_rows *rows;
	size_t max;
	size_t cost;
	size_t n_done;               /* pools of the goal that the piece completes */
	const struct plan_pool *cut; /* pool of the goal, or undesired pool, that is cut */
	bool is_yielding;            /* the piece has no programmed frontend that is lost */
	struct plan_pool between;
	uint8_t *fates; /* enum fate of the programmed pools */
	size_t n_gone;  /* those that the piece removes */
};

static struct svc *svc_of(const struct piece *pc)
{
	return pc->goal->svc != NULL ? pc->goal->svc : pc->programmed->svc;
}

static size_t backend_work(const struct piece *pc, const struct plan_pool *pool)
{
	size_t n;
	const struct plan_frontend *f = leading(pc->pp, pool, &n);

	return plan_work(pc->p, svc_of(pc), pool, f, n);
}

static const struct plan_pool *pool_programmed(const struct piece *pc, const struct plan_pool *pool)
{
	return plan_rows_pool(pc->programmed, pool->fam, pool->id);
}

static const struct plan_pool *pool_desired(const struct piece *pc, const struct plan_pool *pool)
{
	return plan_rows_pool(pc->goal, pool->fam, pool->id);
}

static void frontends_select(struct piece *pc)
{
	struct plan_pieces *pp = pc->pp;

	for (; pp->next_waiting < pp->order.n; pp->next_waiting++) {
		const struct plan_waiting *w = &pp->order.v[pp->next_waiting];

		if (w->pool >= pc->n_done)
			break;
		pp->is_selected[w->frontend] = 1;
		pc->cost++;
	}
}

static bool is_same_port(const struct plan_pool *a, const struct plan_pool *b)
{
	return a->fam == b->fam && a->port_name == b->port_name && a->proto == b->proto;
}

/*
 * Pool `at` serves: select its frontends, and those that another pool of its port only waits for.
 * Otherwise that pool may be without frontends meanwhile. Rejecting frontends follow when the pool
 * is empty: from these a restart cannot derive its number of slots.
 */
static void frontends_select_port(struct piece *pc, size_t at)
{
	const struct plan_pool *pools = pc->goal->pools.v;

	for (size_t i = pc->pp->next_waiting; i < pc->pp->order.n; i++) {
		const struct plan_waiting *w = &pc->pp->order.v[i];
		const struct plan_pool *was = pool_programmed(pc, &pools[w->pool]);

		if (pools[w->pool].backends.n == 0 ||
		    (w->pool != at && (!is_same_port(&pools[w->pool], &pools[at]) || was == NULL ||
				       was->backends.n == 0)))
			break;
		pc->pp->is_selected[w->frontend] = 1;
	}
}

static size_t drop_cost(const struct piece *pc, const struct plan_pool *was)
{
	return plan_pool_cost(pc->p, was, backend_work(pc, was)) + 1;
}

/* Of the pool that `will` replaces with another id; it goes with its last frontend. */
static size_t replaced_cost(const struct piece *pc, const struct plan_pool *will)
{
	const struct plan_pool *was = plan_rows_pool_like(pc->programmed, will);
	size_t cost = was != NULL && pool_desired(pc, was) == NULL ? drop_cost(pc, was) : 0;

	return cost > pc->max && !plan_pool_has_ids(pc->p, was) ? 0 : cost;
}

/*
 * Number of slots of desired pool `i` that frontends in the kernel use and no piece has written
 * yet; `was`: its programmed pool, or NULL.
 */
static uint32_t n_found(const struct piece *pc, size_t i, const struct plan_pool *was)
{
	return was == NULL || was->n_found > 0 ? pc->goal->pools.v[i].n_found : 0;
}

/* Must the pool be compared as a whole, to remove local ids that it does not have any more? */
static bool is_whole(const struct piece *pc, size_t i)
{
	const struct plan_pool *pool = &pc->goal->pools.v[i];

	return pool->n_found > 0 && pool_programmed(pc, pool) == NULL &&
	       plan_pool_has_ids(pc->p, pool);
}

/* Is the pool compared together with the previous one, to which frontends of this one lead, too? */
static bool is_bound(const struct piece *pc, size_t i)
{
	const struct plan_pool *pool = &pc->goal->pools.v[i];

	return i > pc->pp->next_pool && is_same_port(pool - 1, pool) && is_whole(pc, i - 1);
}

/* Source ranges that come and go with `will`, those of undesired pools of its port included. */
static size_t ranges_cost(const struct piece *pc, const struct plan_pool *was,
			  const struct plan_pool *will)
{
	size_t n = 0;

	if (was == NULL || !vec_is_equal(&was->ranges, &will->ranges))
		n = will->ranges.n + (was != NULL ? was->ranges.n : 0);
	for (int scope = PLAN_SCOPE_CLUSTER; scope <= PLAN_SCOPE_LOCAL; scope++) {
		const struct plan_pool *other =
			plan_rows_pool_at(pc->programmed, will->fam, (enum plan_scope)scope,
					  will->proto, will->port_name);

		if (other != NULL && pool_desired(pc, other) == NULL)
			n += other->ranges.n;
	}
	return n;
}

/* Pools of the goal, in order. Returns false when the piece is full. */
static bool pools_bring(struct piece *pc)
{
	for (pc->n_done = pc->pp->next_pool; pc->n_done < pc->goal->pools.n;) {
		struct plan_pool *will = &pc->goal->pools.v[pc->n_done];
		const struct plan_pool *was = pool_programmed(pc, will);
		size_t more =
			(was == NULL ? replaced_cost(pc, will) : 0) + ranges_cost(pc, was, will);
		uint32_t found = n_found(pc, pc->n_done, was);
		bool is_next = is_bound(pc, pc->n_done);
		struct plan_between b = { .p = pc->p,
					  .was = was,
					  .will = will,
					  .max = pc->max,
					  .is_whole = is_next || is_whole(pc, pc->n_done) };
		bool is_cut;

		plan_table_make(will, was);
		b.work = backend_work(pc, will);
		if (pc->cost > 0)
			b.max -= MIN(pc->max, pc->cost + more);
		is_cut = plan_pool_between(pc->cost > 0 ? NULL : &pc->between, &b);
		if (pc->cost > 0 && !is_next && (is_cut || pc->cost + b.cost + more > pc->max))
			return false;
		if (is_cut) {
			pc->cut = will;
			if (plan_pool_slots(&pc->between) >= found &&
			    (found > 0 || was == NULL || was->backends.n == 0))
				frontends_select_port(pc, pc->n_done);
			return false;
		}
		pc->cost += b.cost + more;
		pc->n_done++;
		frontends_select(pc);
		frontends_select_port(pc, pc->n_done - 1);
	}
	return true;
}

/*
 * Shrink the large ones of the undesired pools while their frontends lead there. Returns false when
 * the piece is full.
 */
static bool pools_shrink(struct piece *pc)
{
	vec_for_each (was, &pc->programmed->pools) {
		struct plan_between b = { .p = pc->p, .was = was, .max = pc->max };

		if (pool_desired(pc, was) != NULL || drop_cost(pc, was) <= pc->max)
			continue;
		if (pc->cost > 0)
			return false;
		b.work = backend_work(pc, was);
		if (!plan_pool_between(&pc->between, &b))
			continue;
		pc->cut = was;
		return false;
	}
	return true;
}

/* Number of frontends whose target is each programmed pool. The caller frees it. */
static uint32_t *led_count(const struct plan_rows *programmed)
{
	uint32_t *ret = xcalloc(programmed->pools.n + 1, sizeof(*ret));

	vec_for_each (f, &programmed->frontends) {
		const struct plan_pool *pool = led_pool(programmed, ip_fam(&f->addr), &f->target);

		if (pool != NULL)
			ret[pool - programmed->pools.v]++;
	}
	return ret;
}

/* Remove undesired pools. Returns false when the piece is full. */
static bool pools_drop(struct piece *pc)
{
	AUTO(free) uint32_t *n_led = NULL;

	if (!pools_shrink(pc))
		return false;
	for (size_t i = 0; i < pc->programmed->pools.n; i++) {
		const struct plan_pool *was = &pc->programmed->pools.v[i];
		size_t cost;

		if (pool_desired(pc, was) != NULL)
			continue;
		if (n_led == NULL)
			n_led = led_count(pc->programmed);
		cost = drop_cost(pc, was) + was->ranges.n + n_led[i];
		if (pc->cost > 0 && pc->cost + cost > pc->max)
			return false;
		pc->cost += cost;
		pc->fates[i] = GONE;
	}
	return true;
}

/* Are frontends of the port of pool `i` left for later pieces? */
static bool is_open(const struct piece *pc, size_t i)
{
	const struct plan_rows *goal = pc->goal;

	while (i + 1 < goal->pools.n && is_same_port(&goal->pools.v[i], &goal->pools.v[i + 1]))
		i++;
	return i >= pc->n_done;
}

/* Indices into the frontends of the programmed rows and of the goal. */
struct merge {
	size_t i;
	size_t j;
};

/* Have the source ranges that programmed frontend `f` checks gone? */
static bool is_guard_gone(const struct piece *pc, const struct plan_frontend *f)
{
	const struct plan_pool *pool =
		f->is_guarded ? plan_rows_pool(pc->goal, ip_fam(&f->addr), f->target.pool_id)
			      : NULL;

	return pool != NULL && pool->ranges.n == 0 &&
	       !is_open(pc, (size_t)(pool - pc->goal->pools.v));
}

/*
 * The next frontend of the piece in order of keys, or NULL: selected ones, then programmed ones. An
 * undesired frontend goes with its source ranges.
 */
static const struct plan_frontend *frontend_next(const struct piece *pc, struct merge *m)
{
	const struct plan_rows *goal = pc->goal;
	const struct plan_rows *programmed = pc->programmed;

	while (m->i < programmed->frontends.n || m->j < goal->frontends.n) {
		const struct plan_frontend *a =
			m->i < programmed->frontends.n ? &programmed->frontends.v[m->i] : NULL;
		const struct plan_frontend *b =
			m->j < goal->frontends.n ? &goal->frontends.v[m->j] : NULL;
		int c = a == NULL ? 1 : b == NULL ? -1 : ip_tuple_cmp(a, b);
		bool is_selected = c >= 0 && pc->pp->is_selected[m->j];

		m->i += c <= 0;
		m->j += c >= 0;
		if ((pc->is_yielding && plan_is_lost(pc->p, programmed->svc, a)) ||
		    (c < 0 && is_guard_gone(pc, a)))
			continue;
		if (is_selected || c <= 0)
			return is_selected ? b : a;
	}
	return NULL;
}

/* Keep the pools that a frontend leads to, unless it goes with one of them. */
static void led_note(const struct piece *pc, const struct plan_frontend *f)
{
	enum ipfam fam = ip_fam(&f->addr);
	const struct plan_pool *to[] = { led_pool(pc->programmed, fam, &f->target),
					 led_pool(pc->programmed, fam, &f->inside) };
	const struct plan_pool *first = pc->programmed->pools.v;

	for (int i = 0; i < 2; i++)
		if (to[i] != NULL && pc->fates[to[i] - first] == GONE)
			return;
	for (int i = 0; i < 2; i++)
		if (to[i] != NULL)
			pc->fates[to[i] - first] = KEPT;
}

/* May a frontend in the kernel that is not written yet lead to this pool? */
static bool is_picked(const struct piece *pc, const struct plan_pool *was)
{
	return was->n_found > 0 && (pc->is_yielding || pc->pp->next_waiting < pc->pp->order.n);
}

/*
 * Remove undesired pools with their last frontend: a restart finds pools through frontends. One
 * that must be divided stays until it has been shrunk.
 */
static void pools_drop_unled(struct piece *pc)
{
	size_t n = pc->programmed->pools.n;
	const struct plan_frontend *f;
	struct merge m = { 0 };
	size_t n_kept = 0;

	for (size_t i = 0; i < n; i++) {
		const struct plan_pool *was = &pc->programmed->pools.v[i];

		if (pc->fates[i] == GONE ||
		    (pool_desired(pc, was) == NULL && was != pc->cut && !is_picked(pc, was) &&
		     (drop_cost(pc, was) <= pc->max || plan_pool_has_ids(pc->p, was))))
			continue;
		pc->fates[i] = KEPT;
		n_kept++;
	}
	while (n_kept < n && (f = frontend_next(pc, &m)) != NULL)
		led_note(pc, f);
	for (size_t i = 0; i < n; i++)
		pc->n_gone += pc->fates[i] != KEPT;
}

/* Does the piece remove the pool of `t`? Its pools must be indexed. */
static bool is_gone(const struct piece *pc, enum ipfam fam, const struct plan_target *t)
{
	return t->verdict != PLAN_VERDICT_UNSET && pc->n_gone > 0 &&
	       plan_rows_pool(pc->rows, fam, t->pool_id) == NULL;
}

/* Keep a programmed pool: borrow its backends. */
static void pool_keep(struct piece *pc, const struct plan_pool *was)
{
	struct plan_pool *to = vec_push(&pc->rows->pools);

	*to = *was;
	(void)name_ref(to->port_name);
}

static bool is_serving(const struct piece *pc, size_t i)
{
	return i < pc->n_done || &pc->goal->pools.v[i] == pc->cut;
}

/* May frontends in this piece be the desired ones of pool `i`? See frontends_select_port(). */
static bool is_begun(const struct piece *pc, size_t i)
{
	const struct plan_pool *pool = &pc->goal->pools.v[i];

	return is_serving(pc, i) ||
	       (i > 0 && is_same_port(pool - 1, pool) && is_serving(pc, i - 1));
}

/*
 * A guarded frontend without source ranges has no clients: they are written before the first such
 * frontend, and removed after the last one.
 */
static void ranges_put(struct piece *pc, size_t i, const struct plan_pool *was)
{
	const struct plan_pool *will = &pc->goal->pools.v[i];
	struct plan_pool *to = &vec_end(&pc->rows->pools)[-1];
	bool is_desired = will->ranges.n > 0 ? is_begun(pc, i) : !is_open(pc, i);
	const struct plan_pool *from = is_desired ? will : was;

	if (vec_is_equal(&to->ranges, &from->ranges))
		return;
	if (to->ranges.v != was->ranges.v)
		vec_fini(&to->ranges);
	memset(&to->ranges, 0, sizeof(to->ranges));
	vec_append(&to->ranges, &from->ranges);
}

static void pool_put_desired(struct piece *pc, size_t i, const struct plan_pool *was)
{
	const struct plan_pool *will = &pc->goal->pools.v[i];
	bool is_brought = i >= pc->pp->next_pool && i < pc->n_done;

	if (will == pc->cut)
		*vec_push(&pc->rows->pools) = pc->between;
	else if (was != NULL && (!is_brought || plan_pool_is_equal(was, will)))
		pool_keep(pc, was);
	else if (i < pc->n_done)
		plan_pool_copy(vec_push(&pc->rows->pools), will, 0);
	else
		return;
	vec_end(&pc->rows->pools)[-1].n_found = is_open(pc, i) ? n_found(pc, i, was) : 0;
	if (was != NULL)
		ranges_put(pc, i, was);
}

static void pools_put(struct piece *pc)
{
	size_t n_desired;

	for (size_t i = 0; i < pc->goal->pools.n; i++)
		pool_put_desired(pc, i, pool_programmed(pc, &pc->goal->pools.v[i]));
	n_desired = pc->rows->pools.n;
	for (size_t i = 0; i < pc->programmed->pools.n; i++) {
		const struct plan_pool *was = &pc->programmed->pools.v[i];

		if (pc->fates[i] != KEPT || pool_desired(pc, was) != NULL)
			continue;
		if (was == pc->cut)
			*vec_push(&pc->rows->pools) = pc->between;
		else
			pool_keep(pc, was);
	}
	if (n_desired > 0 && pc->rows->pools.n > n_desired)
		vec_sort(&pc->rows->pools, plan_pool_key_cmp);
	plan_rows_index(pc->rows);
}

/*
 * Set the class in targets: it depends on the present number of backends. A frontend that stays as
 * it is until a later piece may lead to a pool that an earlier piece has changed.
 */
static void target_fit(const struct piece *pc, enum ipfam fam, struct plan_target *t)
{
	const struct plan_pool *pool =
		t->verdict == PLAN_VERDICT_POOL ? plan_rows_pool(pc->rows, fam, t->pool_id) : NULL;

	if (pool == NULL)
		return;
	t->class = pool->class;
	if (pool->backends.n == 0)
		t->verdict = PLAN_VERDICT_REJECT;
}

static void frontend_put(struct piece *pc, const struct plan_frontend *from)
{
	struct plan_frontend *f = vec_push(&pc->rows->frontends);
	enum ipfam fam;

	assert(from != NULL);
	fam = ip_fam(&from->addr);
	*f = *from;
	target_fit(pc, fam, &f->target);
	target_fit(pc, fam, &f->inside);
}

static void frontends_put(struct piece *pc)
{
	const struct plan_frontend *f;
	struct merge m = { 0 };

	vec_reserve(&pc->rows->frontends,
		    (size_t)pc->programmed->frontends.n + pc->goal->frontends.n);
	while ((f = frontend_next(pc, &m)) != NULL)
		if (!is_gone(pc, ip_fam(&f->addr), &f->target) &&
		    !is_gone(pc, ip_fam(&f->addr), &f->inside))
			frontend_put(pc, f);
}

/* Those of the last complete rows, except for frontends that the service has now. */
static void conflicts_put(struct piece *pc)
{
	const struct plan_rows *was = plan_rows_or_none(pc->rows->svc->rows);

	vec_for_each (c, &was->conflicts)
		if (vec_search(&pc->rows->frontends, c, ip_tuple_cmp) == NULL)
			*vec_push(&pc->rows->conflicts) = *c;
}

static void rows_make(struct piece *pc)
{
	pc->rows = xcalloc(1, sizeof(*pc->rows));
	pc->rows->svc = svc_of(pc);
	pc->rows->is_of_host = pc->goal->is_of_host;
	pools_put(pc);
	frontends_put(pc);
	conflicts_put(pc);
}

static struct piece piece_of(struct plan_pieces *pp, struct plan *p,
			     const struct plan_rows *programmed)
{
	programmed = plan_rows_or_none(programmed);
	return (struct piece){ .pp = pp,
			       .p = p,
			       .goal = plan_rows_or_none(pp->goal),
			       .programmed = programmed,
			       .max = p->piece_work,
			       .fates = xcalloc(programmed->pools.n, 1) };
}

static void piece_fini(struct piece *pc)
{
	free(pc->fates);
}

struct plan_rows *plan_pieces_next(struct plan_pieces *pp, struct plan *p,
				   const struct plan_rows *programmed)
{
	FINI(piece_fini) struct piece pc = piece_of(pp, p, programmed);

	pp->first_new = pp->next_waiting;
	if (pools_bring(&pc) && pools_drop(&pc))
		return NULL;
	pools_drop_unled(&pc);
	rows_make(&pc);
	pp->next_pool = pc.n_done;
	return pc.rows;
}

bool plan_pieces_claim(const struct plan_pieces *pp, struct plan *p, bool is_rest,
		       struct plan_displaced *displaced)
{
	for (size_t i = pp->first_new; i < pp->order.n; i++) {
		uint32_t f = pp->order.v[i].frontend;

		if (!is_rest && !pp->is_selected[f])
			break;
		if (!plan_claim_due(p, pp->goal->svc, &pp->goal->frontends.v[f], displaced))
			return false;
	}
	return true;
}

struct plan_rows *plan_piece_yield(struct plan *p, const struct svc *svc)
{
	struct plan_pieces pp = { 0 };
	FINI(piece_fini) struct piece pc = piece_of(&pp, p, svc->rows);

	pc.is_yielding = true;
	pools_drop_unled(&pc);
	rows_make(&pc);
	pc.rows->is_of_host = pc.programmed->is_of_host;
	return pc.rows;
}

/* --- outcomes --- */

/* `to` becomes the owner of backends that it borrowed from `from`. */
static void borrowed_forget(struct plan_rows *from, const struct plan_rows *to)
{
	vec_for_each (pool, &from->pools) {
		const struct plan_pool *other = plan_rows_pool(to, pool->fam, pool->id);

		if (other == NULL)
			continue;
		if (other->backends.v == pool->backends.v)
			memset(&pool->backends, 0, sizeof(pool->backends));
		if (other->ranges.v == pool->ranges.v)
			memset(&pool->ranges, 0, sizeof(pool->ranges));
		if (other->table.v == pool->table.v)
			memset(&pool->table, 0, sizeof(pool->table));
		if (other->weights == pool->weights)
			pool->weights = NULL;
	}
}

void plan_piece_accept(struct plan *p, struct svc *svc, struct plan_rows *piece,
		       const struct plan_rows *goal)
{
	struct plan_rows *old = svc->rows;

	plan_rows_replace(p, svc, piece, goal);
	if (old != NULL)
		borrowed_forget(old, piece);
	plan_rows_close(old);
}

void plan_piece_reject(struct svc *svc, struct plan_rows *piece)
{
	if (svc->rows != NULL)
		borrowed_forget(piece, svc->rows);
	plan_rows_close(piece);
}
