/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body_counts - connection counters of services, for clients that poll.
 *
 * Reads BATCH counters at a time from the kernel, in less than a millisecond. A service is
 * written after all of its counters were read; one with more than SLOTS_MAX backends
 * without counters of endpoints.
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

struct counts_body {
	struct items items;
	const struct name *ns; /* counted; of the requested service, NULL = all */
	const struct name *name;
	bool is_counted; /* at least one counter exists */
	VEC(struct plane_slot) slots;
	VEC(struct sum) sums;
};

/* The sum of a counter over all frontends of a service. */
static uint64_t read_frontends(struct counts_body *b, const struct plan_rows *rows,
			       enum plane_frontend_counter which)
{
	const struct plane *plane = b->items.ctx->plane;
	uint64_t sum = 0;
	struct err err;

	for (size_t i = 0; i < rows->frontends.n; i += BATCH) {
		size_t n = MIN(rows->frontends.n - i, (size_t)BATCH);
		struct plane_count got[BATCH];

		if (plane->ops->count_frontends(plane, which, &rows->frontends.v[i], n, got, &err) <
		    0)
			return sum;
		for (size_t k = 0; k < n; k++) {
			b->is_counted |= got[k].is_known;
			sum += got[k].is_known ? got[k].packets : 0;
		}
	}
	return sum;
}

static void slots_gather(struct counts_body *b, const struct plan_rows *rows)
{
	vec_clear(&b->slots);
	vec_for_each (pool, &rows->pools)
		for (size_t i = 0; i < plan_pool_counters(pool) && b->slots.n <= SLOTS_MAX; i++) {
			const struct plan_backend *at = plan_pool_counter(pool, i);

			*vec_push(&b->slots) = (struct plane_slot){
				.addr = at->addr,
				.port = at->port,
				.aff_id = at->aff_id,
				.pool_id = pool->id,
				.slot = (uint32_t)i,
			};
		}
}

/* A backend may be in two pools, the cluster pool and the local pool. */
static void read_slots(struct counts_body *b)
{
	const struct plane *plane = b->items.ctx->plane;
	size_t kept = 0;
	struct err err;

	vec_clear(&b->sums);
	for (size_t i = 0; i < b->slots.n; i += BATCH) {
		size_t n = MIN(b->slots.n - i, (size_t)BATCH);
		struct plane_count got[BATCH];

		if (plane->ops->count_slots(plane, &b->slots.v[i], n, got, &err) < 0)
			return;
		for (size_t k = 0; k < n; k++)
			if (got[k].is_known && got[k].packets > 0)
				*vec_push(&b->sums) = (struct sum){ { b->slots.v[i + k].addr,
								      b->slots.v[i + k].port, 0 },
								    got[k].packets };
	}
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

static void counts_item(struct items *items, const struct svc *svc)
{
	struct counts_body *b = (struct counts_body *)items;
	const struct plan_rows *rows = svc->rows;
	uint64_t attempts = rows ? read_frontends(b, rows, PLANE_FRONTEND_CONNECTIONS) : 0;
	struct jsonw *w = &items->w;

	if (attempts == 0)
		return;
	jsonw_object(w, NULL);
	jsonw_names(w, svc->ns, svc->name);
	jsonw_uint(w, "connections", attempts);
	jsonw_uint(w, "rejected", read_frontends(b, rows, PLANE_FRONTEND_REJECTED));
	jsonw_array(w, "endpoints");
	slots_gather(b, rows);
	if (b->slots.n <= SLOTS_MAX)
		read_slots(b);
	for (size_t i = 0; b->slots.n <= SLOTS_MAX && i < b->sums.n; i++) {
		jsonw_object(w, NULL);
		jsonw_endpoint(w, &b->sums.v[i].at.addr, b->sums.v[i].at.port);
		jsonw_uint(w, "connections", b->sums.v[i].n);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_end(w);
}

static bool is_requested(void *arg, const struct svc *svc)
{
	const struct counts_body *b = arg;
	const struct plane *plane = b->items.ctx->plane;

	if (plane == NULL || plane->ops->count_frontends == NULL || plane->ops->count_slots == NULL)
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
	vec_fini(&b->slots);
	vec_fini(&b->sums);
}

void body_counts(struct http_reply *reply, const struct serve_context *ctx,
		 const struct http_request *q)
{
	static const struct items_ops ops = {
		.head = counts_head, .item = counts_item, .tail = counts_tail, .close = counts_close
	};
	struct counts_body *b = xcalloc(1, sizeof(*b));
	const struct page_query query = { .is_wanted = is_requested, .arg = b };

	if (body_service_param(&b->ns, &b->name, reply, q))
		items_open(reply, &b->items, ctx, &ops, &query);
	else
		free(b);
}
