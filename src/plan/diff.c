/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plan/diff - operations from programmed to desired rows, in the safe order of plan.h. Pools are
 * matched by id; within a pool only slots that differ are compared.
 */
#include "plan/plan.h"

#include <string.h>

void plan_ops_leave_out(const struct plan *p, struct plan_ops *ops, size_t begin)
{
	size_t kept = begin;

	if (p->left_out == 0)
		return;
	for (size_t i = begin; i < ops->ops.n; i++) {
		const struct plan_op *op = &ops->ops.v[i];
		const struct plan_frontend *f = op->frontend ? op->frontend : op->old_frontend;
		enum ipfam fam = op->pool != NULL ? op->pool->fam : ip_fam(&f->addr);

		if (!(p->left_out >> fam & 1))
			ops->ops.v[kept++] = *op;
	}
	vec_cut(&ops->ops, kept);
}

struct diff {
	struct plan_ops *out;
	struct svc *svc;
	VEC(struct plan_op) dels; /* appended after the frontends */
};

static struct plan_op *add_op(struct diff *d, enum plan_op_kind kind)
{
	struct plan_op *op = vec_push(&d->out->ops);

	*op = (struct plan_op){ .kind = (uint8_t)kind, .svc = d->svc };
	return op;
}

static struct plan_op *del_op(struct diff *d, enum plan_op_kind kind)
{
	struct plan_op *op = vec_push(&d->dels);

	*op = (struct plan_op){ .kind = (uint8_t)kind, .svc = d->svc };
	return op;
}

static void backend_op(struct plan_op *op, const struct plan_pool *pool,
		       const struct plan_backend *b, size_t slot)
{
	op->pool = pool;
	op->backend = b;
	op->slot = (uint32_t)slot;
}

/* Frontends in the kernel pick slots behind the end of a part until PLAN_POOL_END. */
static bool is_slot_kept(const struct plan_pool *new, size_t slot)
{
	return slot >= plan_pool_slots(new) && slot < new->n_found;
}

/*
 * The slot of backend `i`, or none if it stays or the slots of either pool are operations of their
 * own.
 */
static size_t slot_of(const struct plan_pool *old, const struct plan_pool *new, size_t i)
{
	bool is_none = old->table.n > 0 || new->table.n > 0 || is_slot_kept(new, i);

	return is_none ? PLAN_SLOT_NONE : i;
}

/* A backend with another local id is another one. */
static int backend_cmp(const void *a, const void *b)
{
	const struct plan_backend *x = a;
	const struct plan_backend *y = b;

	return ip_endpoint_cmp(x, y) ?: CMP(x->aff_id, y->aff_id);
}

static bool is_same_slot(const struct plan_pool *a, const struct plan_pool *b, size_t i)
{
	return i < a->backends.n && i < b->backends.n &&
	       memcmp(&a->backends.v[i], &b->backends.v[i], sizeof(struct plan_backend)) == 0;
}

struct slots {
	VEC(uint32_t) v;
};

/* The backends of `pool` in these slots, sorted by backend_cmp(). */
static void places_of(struct plan_places *ret, const struct plan_pool *pool,
		      const struct slots *slots)
{
	vec_for_each (i, &slots->v)
		if (*i < pool->backends.n)
			*vec_push(&ret->v) = (struct plan_place){ pool->backends.v[*i], *i };
	vec_sort(&ret->v, backend_cmp);
}

static void move_op(struct diff *d, const struct plan_pool *old, const struct plan_place *from,
		    const struct plan_pool *new, size_t slot)
{
	struct plan_op *op = add_op(d, PLAN_BACKEND_MOVE);

	backend_op(op, new, &new->backends.v[slot], slot_of(old, new, slot));
	op->from = (uint32_t)slot_of(old, new, from->slot);
	op->was_local = from->b.is_local;
}

static void weigh_op(struct diff *d, const struct plan_pool *old, size_t from,
		     const struct plan_pool *new, size_t slot)
{
	if (plan_pool_weight(old, from) != plan_pool_weight(new, slot))
		backend_op(add_op(d, PLAN_BACKEND_WEIGH), new, &new->backends.v[slot], slot);
}

/* Of backends that keep their slot. */
static void diff_weights(struct diff *d, const struct plan_pool *old, const struct plan_pool *new)
{
	if (old->weights == new->weights)
		return;
	for (size_t i = 0; i < new->backends.n; i++)
		if (is_same_slot(old, new, i))
			weigh_op(d, old, i, new, i);
}

static void diff_backends(struct diff *d, const struct plan_pool *old, const struct plan_pool *new)
{
	AUTO(vec_fini) struct plan_places was = { 0 };
	AUTO(vec_fini) struct plan_places will = { 0 };
	AUTO(vec_fini) struct slots slots = { 0 }; /* in which the two pools differ */

	diff_weights(d, old, new);
	if (old->backends.v == new->backends.v)
		return;
	for (uint32_t i = 0; i < MAX(old->backends.n, new->backends.n); i++)
		if (!is_same_slot(old, new, i))
			*vec_push(&slots.v) = i;
	if (slots.v.n == 0)
		return;
	places_of(&was, old, &slots);
	places_of(&will, new, &slots);
	vec_for_each (i, &slots.v) {
		const struct plan_backend *b = &new->backends.v[*i];
		const struct plan_place *from;

		if (*i >= new->backends.n)
			break;
		from = vec_search(&was.v, b, backend_cmp);
		if (from == NULL) {
			backend_op(add_op(d, PLAN_BACKEND_ADD), new, b, slot_of(old, new, *i));
		} else {
			move_op(d, old, from, new, *i);
			weigh_op(d, old, from->slot, new, *i);
		}
	}
	vec_for_each (i, &slots.v)
		if (*i < old->backends.n &&
		    vec_search(&will.v, &old->backends.v[*i], backend_cmp) == NULL)
			backend_op(del_op(d, PLAN_BACKEND_DEL), old, &old->backends.v[*i],
				   slot_of(old, new, *i));
}

/* The backend in a slot, or NULL. */
static const struct plan_backend *assigned(const struct plan_pool *pool, size_t slot)
{
	return slot < plan_pool_slots(pool) ? plan_pool_at(pool, slot) : NULL;
}

static void diff_table(struct diff *d, const struct plan_pool *old, const struct plan_pool *new)
{
	if (old->table.v == new->table.v)
		return;
	/* One of them may have a slot for each backend. */
	for (size_t i = 0; i < MAX(plan_pool_slots(old), plan_pool_slots(new)); i++) {
		const struct plan_backend *was = assigned(old, i);
		const struct plan_backend *will = assigned(new, i);

		if (was != NULL && will != NULL && backend_cmp(was, will) == 0)
			continue;
		if (will != NULL)
			backend_op(add_op(d, PLAN_SLOT_ADD), new, will, i);
		if (was != NULL && !is_slot_kept(new, i))
			backend_op(del_op(d, PLAN_SLOT_DEL), old, was, i);
	}
}

static void range_op(struct plan_op *op, const struct plan_pool *pool, const struct ip_prefix *r)
{
	op->pool = pool;
	op->range = r;
}

static void diff_ranges(struct diff *d, const struct plan_pool *old, const struct plan_pool *new)
{
	size_t i = 0;
	size_t j = 0;

	if (old->ranges.v == new->ranges.v)
		return;
	while (i < old->ranges.n || j < new->ranges.n) {
		int c = i == old->ranges.n   ? 1
			: j == new->ranges.n ? -1
					     : ip_prefix_cmp(&old->ranges.v[i], &new->ranges.v[j]);

		if (c < 0)
			range_op(del_op(d, PLAN_RANGE_DEL), old, &old->ranges.v[i]);
		else if (c > 0)
			range_op(add_op(d, PLAN_RANGE_ADD), new, &new->ranges.v[j]);
		i += c <= 0;
		j += c >= 0;
	}
}

static void diff_pools(struct diff *d, const struct plan_rows *old, const struct plan_rows *new)
{
	static const struct plan_pool none;

	vec_for_each (pool, &new->pools) {
		const struct plan_pool *was = plan_rows_pool(old, pool->fam, pool->id);

		if (was == NULL)
			add_op(d, PLAN_POOL_ADD)->pool = pool;
		else if (was->tuning != pool->tuning)
			add_op(d, PLAN_POOL_CHANGE)->pool = pool;
		diff_backends(d, was ? was : &none, pool);
		diff_table(d, was ? was : &none, pool);
		diff_ranges(d, was ? was : &none, pool);
		if (was != NULL && plan_pool_is_part(was) && !plan_pool_is_part(pool))
			add_op(d, PLAN_POOL_END)->pool = pool;
	}
	vec_for_each (pool, &old->pools) {
		if (plan_rows_pool(new, pool->fam, pool->id) != NULL)
			continue;
		diff_backends(d, pool, &none);
		diff_table(d, pool, &none);
		diff_ranges(d, pool, &none);
		if (plan_pool_is_part(pool))
			del_op(d, PLAN_POOL_END)->pool = pool;
		del_op(d, PLAN_POOL_DEL)->pool = pool;
	}
}

static bool target_is_equal(const struct plan_target *a, const struct plan_target *b)
{
	return a->verdict == b->verdict && a->class == b->class && a->pool_id == b->pool_id;
}

/* Not compared: `port_index` is for display. */
static bool frontend_is_equal(const struct plan_frontend *a, const struct plan_frontend *b)
{
	return a->kind == b->kind && a->masq == b->masq && a->is_split == b->is_split &&
	       a->is_guarded == b->is_guarded && a->forwarding == b->forwarding &&
	       target_is_equal(&a->target, &b->target) && target_is_equal(&a->inside, &b->inside);
}

static void diff_frontends(struct diff *d, const struct plan_rows *old, const struct plan_rows *new)
{
	size_t i = 0;
	size_t j = 0;

	while (i < old->frontends.n || j < new->frontends.n) {
		const struct plan_frontend *a = i < old->frontends.n ? &old->frontends.v[i] : NULL;
		const struct plan_frontend *b = j < new->frontends.n ? &new->frontends.v[j] : NULL;
		int c = a == NULL ? 1 : b == NULL ? -1 : ip_tuple_cmp(a, b);
		struct plan_op *op;

		if (c < 0) {
			add_op(d, PLAN_FRONTEND_DEL)->old_frontend = a;
		} else if (c > 0) {
			add_op(d, PLAN_FRONTEND_ADD)->frontend = b;
		} else if (!frontend_is_equal(a, b)) {
			op = add_op(d, PLAN_FRONTEND_CHANGE);
			op->frontend = b;
			op->old_frontend = a;
		}
		i += c <= 0;
		j += c >= 0;
	}
}

void plan_diff(struct plan_ops *ops, struct svc *svc, const struct plan_rows *old,
	       const struct plan_rows *new)
{
	struct diff d = { .out = ops, .svc = svc };

	old = plan_rows_or_none(old);
	new = plan_rows_or_none(new);
	diff_pools(&d, old, new);
	diff_frontends(&d, old, new);
	vec_append(&ops->ops, &d.dels);
	vec_fini(&d.dels);
}

/* Operation `k` of those that make `pool`. */
static void pool_op(struct diff *d, const struct plan_pool *pool, size_t k)
{
	if (k == 0)
		add_op(d, PLAN_POOL_ADD)->pool = pool;
	else if (k <= pool->ranges.n)
		range_op(add_op(d, PLAN_RANGE_ADD), pool, &pool->ranges.v[k - 1]);
	else if ((k -= 1 + pool->ranges.n) < pool->backends.n)
		backend_op(add_op(d, PLAN_BACKEND_ADD), pool, &pool->backends.v[k],
			   slot_of(pool, pool, k));
	else
		backend_op(add_op(d, PLAN_SLOT_ADD), pool, plan_pool_at(pool, k - pool->backends.n),
			   k - pool->backends.n);
}

size_t plan_diff_part(struct plan_ops *ops, struct svc *svc, const struct plan_rows *rows,
		      size_t from, size_t max)
{
	struct diff d = { .out = ops, .svc = svc };
	size_t end = ops->ops.n + max;
	size_t at = 0;

	vec_for_each (pool, &rows->pools) {
		size_t n = 1 + pool->ranges.n + pool->backends.n + pool->table.n;

		for (size_t k = from > at ? MIN(from - at, n) : 0; k < n; k++) {
			if (ops->ops.n >= end)
				return at + k;
			pool_op(&d, pool, k);
		}
		at += n;
	}
	for (size_t i = from > at ? from - at : 0; i < rows->frontends.n; i++) {
		if (ops->ops.n >= end)
			return at + i;
		add_op(&d, PLAN_FRONTEND_ADD)->frontend = &rows->frontends.v[i];
	}
	return 0;
}

const char *plan_op_text(enum plan_op_kind k)
{
	static const char *const texts[] = {
		[PLAN_OP_UNSET] = "-",
		[PLAN_POOL_ADD] = "pool-add",
		[PLAN_POOL_END] = "pool-end",
		[PLAN_BACKEND_ADD] = "backend-add",
		[PLAN_BACKEND_MOVE] = "backend-move",
		[PLAN_BACKEND_WEIGH] = "backend-weigh",
		[PLAN_SLOT_ADD] = "slot-add",
		[PLAN_RANGE_ADD] = "range-add",
		[PLAN_POOL_CHANGE] = "pool-change",
		[PLAN_FRONTEND_ADD] = "frontend-add",
		[PLAN_FRONTEND_CHANGE] = "frontend-change",
		[PLAN_FRONTEND_DEL] = "frontend-del",
		[PLAN_RANGE_DEL] = "range-del",
		[PLAN_SLOT_DEL] = "slot-del",
		[PLAN_BACKEND_DEL] = "backend-del",
		[PLAN_POOL_DEL] = "pool-del",
	};

	return texts[k];
}

/*
 * `b` among `n` that are sorted, or NULL; `after`: a guess, the one before it or NULL. New backends
 * fill slots in order, so neighbours often are neighbours.
 */
static struct plan_backend *sorted_find(struct plan_backend *sorted, size_t n,
					const struct plan_backend *after,
					const struct plan_backend *b)
{
	size_t next = after != NULL ? (size_t)(after - sorted) + 1 : 0;

	if (next < n && ip_endpoint_cmp(&sorted[next], b) == 0)
		return &sorted[next];
	return bsearch(b, sorted, n, sizeof(*sorted), ip_endpoint_cmp);
}

/*
 * Backends with a slot below n_desired keep it; backends with a higher slot, then new ones,
 * fill the free slots from the front. `desired` must not contain a backend twice.
 */
void plan_slots_arrange(struct plan_backend *desired, size_t n_desired,
			const struct plan_backend *programmed, size_t n_programmed)
{
	const struct plan_backend *last = NULL;
	AUTO(free) struct plan_backend *sorted = NULL;
	AUTO(free) uint8_t *is_placed = NULL;
	AUTO(free) uint8_t *is_taken = NULL;
	size_t hole = 0;

	if (n_desired == 0)
		return;
	sorted = xmalloc(n_desired * sizeof(*sorted));
	is_placed = xcalloc(n_desired, 1);
	is_taken = xcalloc(n_desired, 1);
	memcpy(sorted, desired, n_desired * sizeof(*sorted));
	vec_qsort(sorted, n_desired, sizeof(*sorted), ip_endpoint_cmp);
	for (size_t i = 0; i < n_programmed; i++) {
		struct plan_backend *b = sorted_find(sorted, n_desired, last, &programmed[i]);

		if (b == NULL || is_placed[b - sorted])
			continue;
		last = b;
		b->aff_id = programmed[i].aff_id;
		if (i < n_desired) {
			desired[i] = *b;
			is_taken[i] = 1;
			is_placed[b - sorted] = 1;
		}
	}
	for (int is_new = 0; is_new < 2; is_new++) {
		for (size_t k = 0; k < n_desired; k++) {
			if (is_placed[k] || (is_new == 0 && sorted[k].aff_id == 0))
				continue;
			while (is_taken[hole])
				hole++;
			desired[hole] = sorted[k];
			is_taken[hole] = 1;
			is_placed[k] = 1;
		}
	}
}
