/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan/between.h"

#include <string.h>

#define COMPARE_COST 64 /* comparisons of backends or slots that cost as much as one operation */
#define NONE UINT32_MAX

/*
 * Has the pool slots that are operations of their own, each with half the elements of an operation
 * on a backend?
 */
static bool is_by_slots(const struct plan_pool *pool)
{
	return pool->table.n > 0 || pool->hashing != PLAN_HASHING_NONE;
}

bool plan_pool_has_ids(const struct plan *p, const struct plan_pool *pool)
{
	return pool->affinity_s != 0 && p->traits->class_affinity != NULL;
}

size_t plan_pool_cost(const struct plan *p, const struct plan_pool *pool, size_t work)
{
	size_t slots = MAX(plan_table_slots(pool), plan_pool_slots(pool));
	size_t n = is_by_slots(pool) ? (pool->backends.n + slots) / 2 : pool->backends.n;

	return n * work * (plan_pool_has_ids(p, pool) ? 2 : 1) + 1;
}

bool plan_pool_is_equal(const struct plan_pool *a, const struct plan_pool *b)
{
	return a->affinity_s == b->affinity_s && a->class == b->class && a->tuning == b->tuning &&
	       a->next_aff_id == b->next_aff_id && a->is_sticky == b->is_sticky &&
	       a->hashing == b->hashing && vec_is_equal(&a->backends, &b->backends) &&
	       vec_is_equal(&a->ranges, &b->ranges) && plan_weights_are_equal(a, b) &&
	       vec_is_equal(&a->table, &b->table);
}

/* Copy `from` without backends, weights and table; room for `n` backends. */
static void pool_like(struct plan_pool *to, const struct plan_pool *from, size_t n)
{
	*to = *from;
	(void)name_ref(to->port_name);
	memset(&to->ranges, 0, sizeof(to->ranges));
	vec_append(&to->ranges, &from->ranges);
	memset(&to->backends, 0, sizeof(to->backends));
	memset(&to->table, 0, sizeof(to->table));
	to->weights = NULL;
	if (n > 0)
		vec_reserve(&to->backends, n);
}

void plan_pool_copy_backends(struct plan_pool *to, const struct plan_pool *from, size_t n)
{
	pool_like(to, from, MAX(n, (size_t)from->backends.n));
	vec_append(&to->backends, &from->backends);
	if (from->weights != NULL) {
		to->weights = xmalloc(from->backends.n);
		memcpy(to->weights, from->weights, from->backends.n);
	}
}

void plan_pool_copy(struct plan_pool *to, const struct plan_pool *from, size_t n)
{
	plan_pool_copy_backends(to, from, n);
	vec_append(&to->table, &from->table);
}

/* --- a slot for each backend --- */

static bool is_same_slot(const struct plan_pool *a, const struct plan_pool *b, size_t i)
{
	return memcmp(&a->backends.v[i], &b->backends.v[i], sizeof(struct plan_backend)) == 0 &&
	       plan_pool_weight(a, i) == plan_pool_weight(b, i);
}

/* Number of operations; sets the cost. */
static size_t plain_cost(struct plan_between *b)
{
	size_t n_was = b->was ? b->was->backends.n : 0;
	size_t n_will = b->will ? b->will->backends.n : 0;
	size_t both = MIN(n_was, n_will);
	size_t n = MAX(n_was, n_will) - both;

	for (size_t i = 0; i < both; i++)
		n += 2 * !is_same_slot(b->was, b->will, i);
	b->cost = n * b->work + both / COMPARE_COST + 1;
	return n;
}

/*
 * Remove the last slots; backends of them that stay move to their desired slot. Slots stay
 * dense, and no backend is there twice.
 */
static size_t pool_shrink(struct plan_pool *pool, const struct plan_pool *will, size_t n_min,
			  size_t max)
{
	AUTO(vec_fini) struct plan_places desired = { 0 };
	size_t cost = 0;

	if (will != NULL)
		plan_places_of(&desired, will);
	while (pool->backends.n > n_min && cost < max) {
		const struct plan_backend *last = &pool->backends.v[pool->backends.n - 1];
		const struct plan_place *to = vec_search(&desired.v, last, ip_endpoint_cmp);

		if (to != NULL && to->slot < pool->backends.n - 1) {
			pool->backends.v[to->slot] = *last;
			if (pool->weights != NULL)
				pool->weights[to->slot] = pool->weights[pool->backends.n - 1];
		}
		pool->backends.n--;
		cost += 2;
	}
	return cost;
}

static void slot_take(struct plan_pool *pool, const struct plan_pool *will, size_t i)
{
	pool->backends.v[i] = will->backends.v[i];
	if (pool->weights != NULL)
		pool->weights[i] = plan_pool_weight(will, i);
}

/* Make room for the weights of `n` backends, if either pool has weights. */
static void weights_reserve(struct plan_pool *pool, const struct plan_pool *will, size_t n)
{
	uint8_t *v;

	if (pool->weights == NULL && (will == NULL || will->weights == NULL))
		return;
	v = xmalloc(MAX(n, pool->backends.n));
	for (size_t i = 0; i < pool->backends.n; i++)
		v[i] = plan_pool_weight(pool, i);
	free(pool->weights);
	pool->weights = v;
}

static void plain_between(struct plan_pool *ret, const struct plan_between *b)
{
	const struct plan_pool *will = b->will;
	size_t n = will ? will->backends.n : 0;
	size_t max = b->max / b->work + 1;
	size_t cost = 0;

	plan_pool_copy(ret, b->was ? b->was : will, n);
	if (b->was == NULL)
		ret->backends.n = 0;
	weights_reserve(ret, will, n);
	if (ret->backends.n > n)
		cost = pool_shrink(ret, will, MAX(n, (size_t)1), max);
	for (size_t i = 0; i < MIN(n, ret->backends.n) && cost < max; i++) {
		if (is_same_slot(ret, will, i))
			continue;
		slot_take(ret, will, i);
		cost += 2;
	}
	for (; ret->backends.n < n && cost < max; cost++) {
		slot_take(ret, will, ret->backends.n);
		ret->backends.n++;
	}
	ret->class = b->p->traits->pool_class(ret->backends.n, ret->affinity_s);
}

/* --- slots of their own --- */

/* A backend of the intermediate pool. */
struct member {
	struct plan_backend b;
	uint32_t index;   /* in the desired pool, or NONE: it leaves */
	uint32_t n_slots; /* that it has */
	bool is_gone;
};

struct slots {
	const struct plan_pool *will;
	VEC(struct member) members; /* those of the programmed pool at their index, then new ones */
	size_t n_members;           /* that are not gone */
	VEC(uint32_t) table;        /* index of the member in each slot */
	size_t n_desired;           /* slots */
	uint32_t *at;               /* index of the member of each desired backend, or NONE */
	size_t left;                /* elements of this transaction, about */
	size_t n_done;
	bool are_right; /* all desired slots */
};

static bool spend(struct slots *s, size_t n)
{
	if (s->left == 0)
		return false;
	s->left -= MIN(s->left, n);
	s->n_done += n;
	return true;
}

/* Find desired backends among the programmed ones; most have their index there, too. */
static void members_match(struct slots *s)
{
	const struct plan_pool *will = s->will;
	AUTO(vec_fini) struct plan_places others = { 0 }; /* their index as the slot */

	for (uint32_t i = 0; i < s->members.n; i++) {
		struct member *m = &s->members.v[i];

		if (i < will->backends.n && ip_endpoint_cmp(&m->b, &will->backends.v[i]) == 0)
			m->index = s->at[i] = i;
		else
			*vec_push(&others.v) = (struct plan_place){ m->b, i };
	}
	vec_sort(&others.v, ip_endpoint_cmp);
	for (uint32_t i = 0; i < will->backends.n && others.v.n > 0; i++) {
		const struct plan_place *found =
			s->at[i] != NONE
				? NULL
				: vec_search(&others.v, &will->backends.v[i], ip_endpoint_cmp);

		if (found == NULL)
			continue;
		s->at[i] = found->slot;
		s->members.v[found->slot].index = i;
	}
}

static void slots_begin(struct slots *s, const struct plan_between *b)
{
	const struct plan_pool *was = b->was;
	size_t n_was = was ? was->backends.n : 0;
	size_t n_will = b->will ? b->will->backends.n : 0;

	*s = (struct slots){ .will = b->will,
			     .n_members = n_was,
			     .n_desired = b->will ? plan_pool_slots(b->will) : 0,
			     .left = 2 * b->max / b->work };
	vec_reserve(&s->members, n_was + n_will + 1);
	for (size_t i = 0; i < n_was; i++)
		*vec_push(&s->members) = (struct member){ was->backends.v[i], NONE, 0, false };
	s->at = xreallocarray(NULL, n_will + 1, sizeof(*s->at));
	memset(s->at, 0xff, (n_will + 1) * sizeof(*s->at));
	if (b->will != NULL)
		members_match(s);
	vec_reserve(&s->table, (was ? plan_pool_slots(was) : 0) + 1);
	for (size_t i = 0; was != NULL && i < plan_pool_slots(was); i++) {
		uint32_t m = was->table.n > 0 ? was->table.v[i] : (uint32_t)i;

		*vec_push(&s->table) = m;
		s->members.v[m].n_slots++;
	}
}

/* The member of desired backend `i`; NONE: not in this transaction. */
static uint32_t member_get(struct slots *s, uint32_t i)
{
	if (s->at[i] != NONE || !spend(s, 1))
		return s->at[i];
	s->at[i] = s->members.n;
	s->n_members++;
	*vec_push(&s->members) = (struct member){ s->will->backends.v[i], i, 0, false };
	return s->at[i];
}

/* A backend goes with its last slot. */
static void slot_drop(struct slots *s, uint32_t member)
{
	struct member *m = &s->members.v[member];

	if (--m->n_slots > 0 || m->index != NONE)
		return;
	m->is_gone = true;
	s->n_members--;
	(void)spend(s, 1);
}

static bool slots_set(struct slots *s)
{
	const struct plan_pool *will = s->will;

	for (uint32_t i = 0; i < s->n_desired; i++) {
		bool is_new = i == s->table.n;
		uint32_t m;

		if (s->left == 0)
			return false;
		m = member_get(s, will->table.n > 0 ? will->table.v[i] : i);
		if (!is_new && s->table.v[i] == m)
			continue;
		(void)spend(s, is_new ? 1 : 2);
		s->members.v[m].n_slots++;
		if (is_new)
			(void)vec_push(&s->table);
		else
			slot_drop(s, s->table.v[i]);
		s->table.v[i] = m;
	}
	return true;
}

/* Backends without slots, and those that changed otherwise. */
static bool members_complete(struct slots *s)
{
	for (uint32_t i = 0; i < s->will->backends.n; i++) {
		const struct plan_backend *will = &s->will->backends.v[i];
		uint32_t m = member_get(s, i);

		if (m == NONE)
			return false;
		if (memcmp(&s->members.v[m].b, will, sizeof(*will)) == 0)
			continue;
		if (!spend(s, 2))
			return false;
		s->members.v[m].b = *will;
	}
	return true;
}

static bool slots_trim(struct slots *s)
{
	while (s->table.n > MAX(s->n_desired, (size_t)1) && spend(s, 1))
		slot_drop(s, s->table.v[--s->table.n]);
	return s->table.n <= MAX(s->n_desired, (size_t)1);
}

/* Those that had no slots. */
static bool members_leave(struct slots *s)
{
	bool is_all = true;

	for (size_t i = s->members.n; i-- > 0;) {
		struct member *m = &s->members.v[i];

		if (m->index != NONE || m->is_gone)
			continue;
		m->is_gone = m->n_slots == 0 && spend(s, 1);
		s->n_members -= m->is_gone;
		is_all &= m->is_gone || (m->n_slots > 0 && s->n_desired == 0);
	}
	return is_all;
}

/*
 * Backends keep their index, or have the desired one: the order costs nothing in the kernel, but
 * equal indices need no search. Fills `order` with members and `index` of each member.
 */
static void members_order(const struct slots *s, uint32_t *order, uint32_t *index)
{
	size_t hole = 0;

	memset(order, 0xff, s->n_members * sizeof(*order));
	memset(index, 0xff, s->members.n * sizeof(*index));
	for (int pass = 0; pass < 3; pass++) {
		for (uint32_t i = 0; i < s->members.n; i++) {
			const struct member *m = &s->members.v[i];
			size_t to = pass == 0 ? m->index : i;

			if (m->is_gone || index[i] != NONE)
				continue;
			for (; pass == 2 && order[hole] != NONE; hole++)
				;
			to = pass == 2 ? hole : to;
			if (to >= s->n_members || order[to] != NONE)
				continue;
			order[to] = i;
			index[i] = (uint32_t)to;
		}
	}
}

static void slots_store(const struct slots *s, struct plan_pool *ret)
{
	AUTO(free) uint32_t *order = xreallocarray(NULL, s->n_members + 1, sizeof(*order));
	AUTO(free) uint32_t *index = xreallocarray(NULL, s->members.n + 1, sizeof(*index));

	members_order(s, order, index);
	for (size_t i = 0; i < s->n_members; i++)
		*vec_push(&ret->backends) = s->members.v[order[i]].b;
	vec_reserve(&ret->table, s->table.n + 1);
	vec_for_each (m, &s->table)
		*vec_push(&ret->table) = (uint16_t)index[*m];
}

/*
 * A frontend that balances by hash continues with a table of which a part is new. Otherwise it
 * balances at random until the table is complete.
 */
static uint16_t class_of(const struct slots *s, const struct plan_between *b)
{
	size_t n = s->table.n;

	if (n == s->n_desired &&
	    (s->are_right || (b->was != NULL && b->was->class == b->will->class)))
		return b->will->class;
	return b->p->traits->pool_class(n, 0);
}

/* Does a new backend get the local id of another one, which would still have it in a piece? */
static bool are_ids_reused(const struct plan_between *b)
{
	AUTO(free) const struct plan_backend **had = NULL;
	bool ret = false;

	if (b->was == NULL || b->will == NULL || !plan_pool_has_ids(b->p, b->will))
		return false;
	had = xcalloc(PLAN_AFFINITY_BACKENDS_MAX + 1, sizeof(const struct plan_backend *));
	vec_for_each (was, &b->was->backends)
		had[was->aff_id] = was;
	vec_for_each (will, &b->will->backends)
		ret |= had[will->aff_id] != NULL && ip_endpoint_cmp(had[will->aff_id], will) != 0;
	return ret;
}

static bool is_divisible(const struct plan_between *b)
{
	const struct plan_pool *pool = b->will ? b->will : b->was;
	bool is_table = is_by_slots(pool) || (b->was != NULL && is_by_slots(b->was));

	return !plan_pool_has_ids(b->p, pool) || (!is_table && !b->is_whole && !are_ids_reused(b));
}

/* An index of a table has 16 bits: are the backends that leave and the desired ones too many? */
static bool are_too_many(const struct slots *s)
{
	size_t n = s->will ? s->will->backends.n : 0;

	vec_for_each (m, &s->members)
		n += m->index == NONE;
	return n > UINT16_MAX + 1;
}

static bool slots_between(struct plan_pool *ret, struct plan_between *b)
{
	bool is_all = true;
	struct slots s;

	slots_begin(&s, b);
	if (are_too_many(&s) || !is_divisible(b))
		s.left = SIZE_MAX;
	if (s.n_desired > 0) {
		s.are_right = slots_set(&s);
		is_all = s.are_right && members_complete(&s);
	}
	is_all = is_all && slots_trim(&s) && members_leave(&s);
	b->cost = s.n_done * b->work / 2 + s.table.n / COMPARE_COST + 1;
	if (!is_all && ret != NULL) {
		pool_like(ret, b->was ? b->was : b->will, s.n_members);
		slots_store(&s, ret);
		ret->class = class_of(&s, b);
		ret->hashing = PLAN_HASHING_NONE; /* or the table passes for that of the backends */
	}
	vec_fini(&s.members);
	vec_fini(&s.table);
	free(s.at);
	return !is_all;
}

/* The last backend goes with its pool, however much work that is. */
static bool is_last(const struct plan_between *b)
{
	return (b->will == NULL || b->will->backends.n == 0) && b->was->backends.n == 1;
}

bool plan_pool_between(struct plan_pool *ret, struct plan_between *b)
{
	bool is_table = (b->was != NULL && is_by_slots(b->was)) ||
			(b->will != NULL && is_by_slots(b->will));

	if (b->was != NULL && b->will != NULL && plan_pool_is_equal(b->was, b->will)) {
		b->cost = plan_pool_slots(b->was) / COMPARE_COST + 1;
		return false;
	}
	b->work *= plan_pool_has_ids(b->p, b->will ? b->will : b->was) ? 2 : 1;
	if (is_table)
		return slots_between(ret, b);
	if (plain_cost(b) == 0 || b->cost <= b->max || !is_divisible(b) || is_last(b))
		return false;
	if (ret != NULL)
		plain_between(ret, b);
	return true;
}
