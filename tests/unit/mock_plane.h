/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/mock_plane - a plane whose kernel is a few arrays.
 *
 * It is strict as a kernel is (what exists cannot be added, what does not exist
 * cannot be deleted), can reject, lose answers and have state of an earlier process, and counts
 * what was written.
 */
#pragma once

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "explain/text.h"
#include "plane/plane.h"

struct mock_slot {
	uint8_t fam;
	uint32_t pool;
	uint32_t slot;
	struct plan_backend b;
	bool is_wanted;
	uint32_t next; /* of those with its hash, like mock_plane.by_hash */
};

struct mock_frontend {
	struct plan_frontend f;
	bool is_wanted;
	bool is_spared; /* of a rejected transaction: the sweep keeps it and its pool */
};

#define MOCK_HASHES 1024

struct mock_plane {
	struct plane plane;
	struct mock_plane *self; /* for hooks with a const plane */
	struct plane_rule_counts rule_counts[IPFAM_N];
	int fail_rule_counts[IPFAM_N];
	int fail_counts;
	size_t n_counted; /* counters asked for */
	VEC(struct mock_slot) slots;
	VEC(uint32_t) by_hash; /* MOCK_HASHES positions of a slot and 1, or 0 */
	VEC(struct mock_frontend) frontends;
	bool is_loaded_phase;
	bool is_comparing; /* existing objects are compared, not rejected */
	size_t n_writes;
	size_t n_commits;
	size_t n_loads;
	/* faults */
	const char *refuse_name; /* services of this name are rejected ... */
	bool is_culprit_named;
	int refuse_with;
	int fail_next_commit; /* negative errno, once, before any change */
	int fail_next_load;
	int check_answer;
	bool is_stale_once; /* -ESTALE until a commit with VERIFY */
};

static inline uint16_t mock_pool_class(size_t n, uint32_t affinity_s)
{
	return (uint16_t)(n + (affinity_s ? 0x800 : 0));
}

static inline int mock_take(int *fault)
{
	int r = *fault;

	*fault = 0;
	return r;
}

static inline struct mock_plane *mock_of(struct plane *p)
{
	return container_of(p, struct mock_plane, plane);
}

static inline uint32_t *mock_slot_first(struct mock_plane *m, uint8_t fam, uint32_t pool,
					uint32_t slot)
{
	return &m->by_hash.v[(fam + 2 * slot + 31 * pool) % MOCK_HASHES];
}

static inline struct mock_slot *mock_slot_find(struct mock_plane *m, uint8_t fam, uint32_t pool,
					       uint32_t slot)
{
	uint32_t at = *mock_slot_first(m, fam, pool, slot);

	for (struct mock_slot *s; at != 0; at = s->next) {
		s = &m->slots.v[at - 1];
		if (s->fam == fam && s->pool == pool && s->slot == slot)
			return s;
	}
	return NULL;
}

/* What leads to `s`. */
static inline uint32_t *mock_slot_link(struct mock_plane *m, const struct mock_slot *s)
{
	uint32_t *at = mock_slot_first(m, s->fam, s->pool, s->slot);

	while (&m->slots.v[*at - 1] != s)
		at = &m->slots.v[*at - 1].next;
	return at;
}

/* The last one moves to its place. */
static inline void mock_slot_remove(struct mock_plane *m, struct mock_slot *s)
{
	uint32_t *link = mock_slot_link(m, s);
	uint32_t at = *link;

	*link = s->next;
	if (at != m->slots.n) {
		*mock_slot_link(m, &m->slots.v[m->slots.n - 1]) = at;
		*s = m->slots.v[m->slots.n - 1];
	}
	m->slots.n--;
}

static inline void mock_slots_clear(struct mock_plane *m)
{
	vec_clear(&m->slots);
	memset(m->by_hash.v, 0, MOCK_HASHES * sizeof(*m->by_hash.v));
}

/* `key` begins like a struct ip_tuple. */
static inline struct mock_frontend *mock_frontend_find(struct mock_plane *m, const void *key)
{
	uint16_t port = ((const struct ip_tuple *)key)->port;

	vec_for_each (have, &m->frontends)
		if (have->f.port == port && ip_tuple_cmp(&have->f, key) == 0)
			return have;
	return NULL;
}

#define mock_remove(vec, pos)                    \
	do {                                     \
		*(pos) = (vec)->v[(vec)->n - 1]; \
		(vec)->n--;                      \
	} while (0)

static inline int mock_slot_add(struct mock_plane *m, const struct plan_op *op)
{
	struct mock_slot *have = mock_slot_find(m, op->pool->fam, op->pool->id, op->slot);
	uint32_t *first = mock_slot_first(m, op->pool->fam, op->pool->id, op->slot);

	if (have != NULL && m->is_comparing) {
		have->is_wanted = true;
		if (memcmp(&have->b, op->backend, sizeof(have->b)) == 0)
			return 0;
		mock_slot_remove(m, have);
		m->n_writes++;
	} else if (have != NULL) {
		return -EEXIST;
	}
	*vec_push(&m->slots) = (struct mock_slot){ op->pool->fam, op->pool->id, op->slot,
						   *op->backend,  true,         *first };
	*first = (uint32_t)m->slots.n;
	m->n_writes++;
	return 0;
}

static inline int mock_slot_del(struct mock_plane *m, const struct plan_op *op, uint32_t slot)
{
	struct mock_slot *have = mock_slot_find(m, op->pool->fam, op->pool->id, slot);

	/* It stays until the end of the pool; or it went there. */
	if (slot == PLAN_SLOT_NONE || (have == NULL && m->is_comparing))
		return 0;
	if (have == NULL || memcmp(&have->b, op->backend, sizeof(have->b)) != 0)
		return -ENOENT;
	mock_slot_remove(m, have);
	m->n_writes++;
	return 0;
}

static inline int mock_frontend_put(struct mock_plane *m, const struct plan_op *op)
{
	struct mock_frontend *have = mock_frontend_find(m, op->frontend);

	if (have != NULL && m->is_comparing) {
		have->is_wanted = true;
		if (memcmp(&have->f, op->frontend, sizeof(have->f)) == 0)
			return 0;
	} else if ((have != NULL) != (op->kind == PLAN_FRONTEND_CHANGE)) {
		return have ? -EEXIST : -ENOENT;
	}
	if (have != NULL)
		mock_remove(&m->frontends, have);
	*vec_push(&m->frontends) = (struct mock_frontend){ *op->frontend, true };
	m->n_writes++;
	return 0;
}

static inline void mock_pool_end(struct mock_plane *m, const struct plan_pool *pool)
{
	for (size_t i = m->slots.n; i-- > 0;) {
		struct mock_slot *s = &m->slots.v[i];

		if (s->fam != pool->fam || s->pool != pool->id || s->slot < plan_pool_slots(pool))
			continue;
		mock_slot_remove(m, s);
		m->n_writes++;
	}
}

/* Slot deletions first: the order inside a transaction does not matter. */
static inline int mock_apply_dels(struct mock_plane *m, const struct plan_op *op)
{
	struct mock_frontend *have;

	if (op->kind == PLAN_BACKEND_MOVE)
		return mock_slot_del(m, op, op->from);
	if (op->kind == PLAN_BACKEND_DEL)
		return mock_slot_del(m, op, op->slot);
	if (op->kind == PLAN_POOL_END ||
	    (op->kind == PLAN_POOL_ADD && m->is_comparing && !plan_pool_is_part(op->pool)))
		mock_pool_end(m, op->pool);
	if (op->kind == PLAN_FRONTEND_DEL) {
		have = mock_frontend_find(m, op->old_frontend);
		if (have == NULL)
			return -ENOENT;
		mock_remove(&m->frontends, have);
		m->n_writes++;
	}
	return 0;
}

static inline int mock_apply_adds(struct mock_plane *m, const struct plan_op *op)
{
	if (op->kind == PLAN_BACKEND_MOVE || op->kind == PLAN_BACKEND_ADD)
		return mock_slot_add(m, op);
	if (op->kind == PLAN_FRONTEND_ADD || op->kind == PLAN_FRONTEND_CHANGE)
		return mock_frontend_put(m, op);
	return 0;
}

static inline int mock_refuses(struct mock_plane *m, const struct plan_op *ops, size_t n,
			       enum plane_commit_mode mode, struct plane_result *res,
			       struct err *err)
{
	int r = mock_take(&m->fail_next_commit);

	if (r < 0)
		return err_set(err, r, "set to fail");
	if (m->is_stale_once && mode == PLANE_COMMIT_NORMAL)
		return err_set(err, -ESTALE, "set to be stale");
	for (size_t i = 0; m->refuse_name != NULL && i < n; i++) {
		if (strcmp(ops[i].svc->name->text, m->refuse_name) != 0)
			continue;
		res->culprit = m->is_culprit_named ? ops[i].svc : NULL;
		return err_set(err, m->refuse_with ? m->refuse_with : -EINVAL, "set to refuse %s",
			       m->refuse_name);
	}
	return 0;
}

static inline void mock_spare(struct mock_plane *m, const struct plan_op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct mock_frontend *f =
			ops[i].frontend != NULL ? mock_frontend_find(m, ops[i].frontend) : NULL;

		if (f != NULL)
			f->is_spared = true;
	}
}

/* Does a comparison contain a frontend twice? */
static inline bool mock_is_twice(const struct plan_op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (ops[i].kind == PLAN_FRONTEND_ADD && ops[k].kind == PLAN_FRONTEND_ADD &&
			    ip_tuple_cmp(ops[i].frontend, ops[k].frontend) == 0)
				return true;
	return false;
}

static inline int mock_commit(struct plane *p, const struct plan_op *ops, size_t n,
			      enum plane_commit_mode mode, struct plane_result *res,
			      struct err *err)
{
	struct mock_plane *m = mock_of(p);
	struct mock_plane was = { 0 };
	size_t before = m->n_writes;
	int r = mock_refuses(m, ops, n, mode, res, err);

	if (r < 0 && r != -EBUSY && r != -ESTALE)
		mock_spare(m, ops, n);
	if (r < 0)
		return r;
	if (mode == PLANE_COMMIT_AUDIT && mock_is_twice(ops, n))
		return err_set(err, -EINVAL, "two operations disagree");
	m->is_comparing = m->is_loaded_phase || mode == PLANE_COMMIT_AUDIT;
	vec_append(&was.by_hash, &m->by_hash);
	vec_append(&was.slots, &m->slots);
	vec_append(&was.frontends, &m->frontends);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = mock_apply_dels(m, &ops[i]);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = mock_apply_adds(m, &ops[i]);
	m->n_commits++;
	if (r < 0) { /* a transaction is applied as a whole or not at all */
		m->n_writes = before;
		vec_fini(&m->slots);
		vec_fini(&m->frontends);
		vec_fini(&m->by_hash);
		vec_move(&m->by_hash, &was.by_hash);
		vec_move(&m->slots, &was.slots);
		vec_move(&m->frontends, &was.frontends);
	}
	vec_fini(&was.by_hash);
	vec_fini(&was.slots);
	vec_fini(&was.frontends);
	res->done.n_writes = m->n_writes - before;
	return r < 0 ? err_set(err, r, "the mock kernel holds something else: %s", strerror(-r))
		     : 0;
}

static inline int mock_load(struct plane *p, struct err *err)
{
	struct mock_plane *m = mock_of(p);
	int r = mock_take(&m->fail_next_load);

	m->n_loads++;
	if (r < 0)
		return err_set(err, r, "set to fail with %d", r);
	m->is_loaded_phase = true;
	m->check_answer = 0;
	vec_for_each (s, &m->slots)
		s->is_wanted = false;
	vec_for_each (f, &m->frontends)
		f->is_wanted = f->is_spared = false;
	return 0;
}

/* Ids from the frontends in the kernel, slots from its pools. */
static inline void mock_adopt(struct plane *p, struct plan *plan, struct plan_rows *rows)
{
	struct mock_plane *m = mock_of(p);

	vec_for_each (f, &rows->frontends) {
		struct mock_frontend *have = mock_frontend_find(m, f);
		struct plan_pool *pool = plan_rows_pool_of(rows, f, f->target.scope);

		if (have == NULL || pool == NULL)
			continue;
		plan_id_reserve(plan, pool->fam, have->f.target.pool_id);
		if (pool->id == 0 && plan_id_adopt(plan, rows, pool, have->f.target.pool_id))
			pool->id = have->f.target.pool_id;
		pool->n_found = pool->id == have->f.target.pool_id;
	}
	vec_for_each (pool, &rows->pools) {
		struct plan_backend programmed[256];
		size_t n = 0;

		for (struct mock_slot *s; n < ARRAY_SIZE(programmed); n++) {
			s = mock_slot_find(m, pool->fam, pool->id, (uint32_t)n);
			if (s == NULL)
				break;
			programmed[n] = s->b;
		}
		plan_slots_arrange(pool->backends.v, pool->backends.n, programmed, n);
		pool->n_found *= (uint32_t)n;
	}
}

static inline int mock_env(struct plane *p, const struct model *m, struct plane_result *res,
			   struct err *err)
{
	return 0;
}

static inline bool mock_is_spared(const struct mock_plane *m, const struct mock_slot *s)
{
	vec_for_each (f, &m->frontends)
		if (f->is_spared && f->f.target.pool_id == s->pool && ip_fam(&f->f.addr) == s->fam)
			return true;
	return false;
}

static inline int mock_sweep(struct plane *p, struct plane_result *res, struct err *err)
{
	struct mock_plane *m = mock_of(p);

	m->is_loaded_phase = false;
	for (size_t i = m->slots.n; i-- > 0;)
		if (!m->slots.v[i].is_wanted && !mock_is_spared(m, &m->slots.v[i])) {
			mock_slot_remove(m, &m->slots.v[i]);
			res->done.n_writes++;
		}
	for (size_t i = m->frontends.n; i-- > 0;)
		if (!m->frontends.v[i].is_wanted && !m->frontends.v[i].is_spared) {
			mock_remove(&m->frontends, &m->frontends.v[i]);
			res->done.n_writes++;
		}
	m->n_writes += res->done.n_writes;
	return 0;
}

static inline size_t mock_orphaned(const struct plane *p)
{
	const struct mock_plane *m = (const struct mock_plane *)p;
	size_t n = 0;

	vec_for_each (f, &m->frontends)
		n += !f->is_wanted;
	return n;
}

static inline bool mock_is_orphaned(const struct plane *p, const struct plan_frontend *f)
{
	const struct mock_frontend *have =
		mock_frontend_find(((const struct mock_plane *)p)->self, f);

	return have != NULL && !have->is_wanted;
}

static inline bool mock_leads(const struct plane *p, const struct plan_frontend *f)
{
	const struct mock_frontend *have =
		mock_frontend_find(((const struct mock_plane *)p)->self, f);

	return have != NULL && have->f.target.verdict == PLAN_VERDICT_POOL;
}

static inline int mock_check(struct plane *p, struct err *err)
{
	return mock_take(&mock_of(p)->check_answer);
}

static inline int mock_rule_counts(const struct plane *p, enum ipfam fam,
				   struct plane_rule_counts *ret, struct err *err)
{
	const struct mock_plane *m = (const struct mock_plane *)p;

	if (m->fail_rule_counts[fam] != 0)
		return err_set(err, m->fail_rule_counts[fam], "set to fail");
	*ret = m->rule_counts[fam];
	return 0;
}

/*
 * New connections to a frontend: its port. Rejected packets: the port's last digit. Connections to
 * a backend: its port and the last byte of its address.
 */
static inline struct plane_count mock_count_of(struct mock_plane *m, enum plane_counter which,
					       const struct plane_counted *of)
{
	uint8_t fam = (uint8_t)ip_fam(&of->at.addr);
	struct plane_count c = { .packets = of->at.port };
	const struct mock_slot *have;

	if (which == PLANE_COUNTER_BACKEND) {
		have = mock_slot_find(m, fam, of->pool_id, of->slot);
		c.is_known = have != NULL && ip_addr_is_equal(&have->b.addr, &of->at.addr);
		c.packets += of->at.addr.bytes[ip_len(fam) - 1];
	} else {
		c.is_known = mock_frontend_find(m, &of->at) != NULL;
		if (which == PLANE_COUNTER_REJECTED)
			c.packets %= 10;
	}
	return c;
}

static inline int mock_count(const struct plane *p, enum plane_counter which,
			     const struct plane_counted *v, size_t n, struct plane_count *ret,
			     struct err *err)
{
	struct mock_plane *m = ((const struct mock_plane *)p)->self;

	for (size_t i = 0; i < n; i++)
		ret[i] = mock_count_of(m, which, &v[i]);
	m->n_counted += n;
	return m->fail_counts;
}

static const struct plane_ops mock_plane_ops = {
	.name = "mock",
	.traits = { .pool_class = mock_pool_class },
	.load = mock_load,
	.adopt = mock_adopt,
	.env = mock_env,
	.commit = mock_commit,
	.sweep = mock_sweep,
	.orphaned = mock_orphaned,
	.is_orphaned = mock_is_orphaned,
	.leads = mock_leads,
	.check = mock_check,
	.rule_counts = mock_rule_counts,
	.count = mock_count,
};

static inline void mock_init(struct mock_plane *m)
{
	*m = (struct mock_plane){ .plane = { &mock_plane_ops }, .self = m };
	vec_reserve(&m->by_hash, MOCK_HASHES);
	vec_cut(&m->by_hash, MOCK_HASHES);
	mock_slots_clear(m);
}

static inline void mock_fini(struct mock_plane *m)
{
	vec_fini(&m->slots);
	vec_fini(&m->by_hash);
	vec_fini(&m->frontends);
}
