/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body_counts - connection counters of services, for clients that poll.
 *
 * Each call reads BATCH counters of a service from the kernel, in less than a millisecond: of
 * connections to its frontends, of rejected ones, of its backends. They are copies, so that rows
 * may change meanwhile. A service is written after all of its counters were read; one with more
 * than SLOTS_MAX backends without counters of endpoints.
 */
#include "api/body.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 256
#define SLOTS_MAX 2048

struct sum {
	struct ip_endpoint at;
	uint64_t n;
};

enum step {
	STEP_NONE = 0,
	STEP_CONNECTIONS,
	STEP_REJECTED,
	STEP_SLOTS,
};

struct counts_body {
	struct items items;
	const struct name *ns; /* counted; of the requested service, NULL = all */
	const struct name *name;
	bool is_counted;             /* at least one counter exists */
	enum step step;              /* of the current service */
	size_t n_read;               /* counters in this step */
	uint64_t totals[STEP_SLOTS]; /* of all frontends, by step */
	VEC(struct plan_frontend) frontends;
	VEC(struct plane_slot) slots;
	VEC(struct sum) sums;
};

static void slots_gather(struct counts_body *b)
{
	const struct walk_key *key = b->items.key;
	const struct svc *svc = model_find(b->items.ctx->model, key->ns, key->name);
	const struct plan_rows *rows = svc != NULL ? svc->rows : NULL;

	vec_clear(&b->slots);
	vec_clear(&b->sums);
	if (rows == NULL)
		return;
	vec_for_each (pool, &rows->pools)
		for (uint32_t i = 0; i < plan_pool_counters(pool) && b->slots.n <= SLOTS_MAX; i++) {
			const struct plan_backend *at = plan_pool_counter(pool, i);

			*vec_push(&b->slots) =
				(struct plane_slot){ at->addr, pool->id, i, at->port, at->aff_id };
		}
	if (b->slots.n > SLOTS_MAX)
		vec_clear(&b->slots);
}

static void counts_item(struct items *items, const struct svc *svc)
{
	struct counts_body *b = (struct counts_body *)items;
	const struct plan_rows *rows = svc->rows;

	if (rows == NULL || rows->frontends.n == 0)
		return;
	memset(b->totals, 0, sizeof(b->totals));
	vec_clear(&b->frontends);
	vec_for_each (f, &rows->frontends)
		*vec_push(&b->frontends) = *f;
	b->step = STEP_CONNECTIONS;
}

/* Add the i-th counter of the step. */
static void count_add(struct counts_body *b, size_t i, uint64_t packets)
{
	const struct plane_slot *slot;

	b->is_counted = true;
	if (b->step != STEP_SLOTS) {
		b->totals[b->step] += packets;
	} else if (packets > 0) {
		slot = &b->slots.v[i];
		*vec_push(&b->sums) = (struct sum){ { slot->addr, slot->port, 0 }, packets };
	}
}

/* One batch of the step's `n_all` counters. A failure ends the step. */
static void batch_read(struct counts_body *b, size_t n_all)
{
	const struct plane *plane = b->items.ctx->plane;
	size_t n = MIN(n_all - b->n_read, (size_t)BATCH);
	struct plane_count got[BATCH];
	int r = 0;

	if (b->step != STEP_SLOTS)
		r = plane->ops->count_frontends(plane,
						b->step == STEP_CONNECTIONS
							? PLANE_FRONTEND_CONNECTIONS
							: PLANE_FRONTEND_REJECTED,
						&b->frontends.v[b->n_read], n, got, NULL);
	else if (n > 0)
		r = plane->ops->count_slots(plane, &b->slots.v[b->n_read], n, got, NULL);
	for (size_t i = 0; i < n && r == 0; i++)
		if (got[i].is_known)
			count_add(b, b->n_read + i, got[i].packets);
	b->n_read = r < 0 ? n_all : b->n_read + n;
}

/* A backend may be in two pools, the cluster pool and the local pool. */
static void sums_merge(struct counts_body *b)
{
	size_t kept = 0;

	if (b->sums.n == 0)
		return;
	vec_sort(&b->sums, ip_endpoint_cmp);
	for (size_t i = 1; i < b->sums.n; i++) {
		if (ip_endpoint_cmp(&b->sums.v[kept].at, &b->sums.v[i].at) == 0)
			b->sums.v[kept].n += b->sums.v[i].n;
		else
			b->sums.v[++kept] = b->sums.v[i];
	}
	vec_cut(&b->sums, kept + 1);
}

static void service_write(struct counts_body *b)
{
	struct jsonw *w = &b->items.w;

	jsonw_object(w, NULL);
	jsonw_names(w, b->items.key->ns, b->items.key->name);
	jsonw_uint(w, "connections", b->totals[STEP_CONNECTIONS]);
	jsonw_uint(w, "rejected", b->totals[STEP_REJECTED]);
	jsonw_array(w, "endpoints");
	vec_for_each (sum, &b->sums) {
		jsonw_object(w, NULL);
		jsonw_endpoint(w, &sum->at.addr, sum->at.port);
		jsonw_uint(w, "connections", sum->n);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_end(w);
}

/* The step is over. A service without connections is not written. */
static void step_next(struct counts_body *b)
{
	b->n_read = 0;
	b->step =
		b->totals[STEP_CONNECTIONS] > 0 && b->step != STEP_SLOTS ? b->step + 1 : STEP_NONE;
	if (b->step == STEP_SLOTS)
		slots_gather(b);
}

/* One batch. */
static bool counts_more(struct items *items, uint64_t deadline_ns)
{
	struct counts_body *b = (struct counts_body *)items;
	size_t n_all = b->step == STEP_SLOTS ? b->slots.n : b->frontends.n;

	(void)deadline_ns;
	if (b->step == STEP_NONE)
		return false;
	batch_read(b, n_all);
	if (b->n_read < n_all)
		return true;
	if (b->step == STEP_SLOTS) {
		sums_merge(b);
		service_write(b);
	}
	step_next(b);
	return true;
}

static bool is_requested(void *arg, const struct svc *svc)
{
	const struct counts_body *b = arg;
	const struct plane *plane = b->items.ctx->plane;

	if (plane->ops->count_frontends == NULL || plane->ops->count_slots == NULL)
		return false;
	return b->name == NULL || (svc->ns == b->ns && svc->name == b->name);
}

static void counts_head(struct items *items)
{
	jsonw_uint(&items->w, "clock_ms", now_ns() / NSEC_PER_MSEC);
}

static void counts_tail(struct items *items)
{
	jsonw_bool(&items->w, "counted", ((struct counts_body *)items)->is_counted);
}

static void counts_close(struct items *items)
{
	struct counts_body *b = (struct counts_body *)items;

	name_unref(b->ns);
	name_unref(b->name);
	vec_fini(&b->frontends);
	vec_fini(&b->slots);
	vec_fini(&b->sums);
}

void body_counts(struct http_reply *reply, const struct serve_context *ctx,
		 const struct http_request *q)
{
	static const struct items_ops ops = {
		.head = counts_head,
		.item = counts_item,
		.more = counts_more,
		.tail = counts_tail,
		.close = counts_close,
	};
	struct counts_body *b = xcalloc(1, sizeof(*b));
	const struct page_query query = { .is_wanted = is_requested, .arg = b };

	if (body_service_param(&b->ns, &b->name, reply, q))
		items_open(reply, &b->items, ctx, &ops, &query);
	else
		free(b);
}
