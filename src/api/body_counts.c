/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * api/body_counts - connection counters of services, for clients that poll.
 *
 * Each call reads BATCH counters of a service from the kernel, in less than a millisecond: of
 * connections to its frontends, of rejected ones, of its backends. They are copies, so that rows
 * may change meanwhile. A service is written after all of its counters were read. Endpoints are not
 * counted for a service whose pools together have more than SLOTS_MAX slots. A sum with an unknown
 * counter is null: a part of it would look like a restart of the counters.
 */
#include "api/body.h"

#include <stdlib.h>
#include <string.h>

#include "model/select.h"

#define BATCH 256
#define SLOTS_MAX 2048

struct sum {
	struct ip_tuple at;
	uint64_t n;
	bool is_unknown;
};

struct counts_body {
	struct items items;
	const struct name *ns; /* counted; of the requested service, NULL = all */
	const struct name *name;
	enum plane_counter step;           /* of the current service; PLANE_COUNTER_N: none */
	VEC(struct plane_counted) counted; /* in this step */
	size_t n_read;                     /* of them */
	struct sum totals[PLANE_COUNTER_BACKEND]; /* of all frontends, by step */
	VEC(struct sum) sums;
};

static void slots_gather(struct counts_body *b)
{
	const struct walk_key *key = b->items.key;
	const struct svc *svc = model_find(b->items.ctx->model, key->ns, key->name);
	const struct plan_rows *rows = svc != NULL ? svc->rows : NULL;

	vec_clear(&b->counted);
	vec_clear(&b->sums);
	if (rows == NULL || b->items.ctx->counting < PLANE_COUNT_ENDPOINTS)
		return;
	vec_for_each (pool, &rows->pools)
		for (size_t i = 0; i < plan_pool_counters(pool) && b->counted.n <= SLOTS_MAX; i++)
			*vec_push(&b->counted) = plane_counted_slot(pool, i);
	if (b->counted.n > SLOTS_MAX)
		vec_clear(&b->counted);
}

/* Do the rows lack an address family of the service, which failed? */
static bool is_in_part(const struct plan *p, const struct service *s)
{
	for (enum ipfam fam = 0; s != NULL && fam < IPFAM_N; fam++)
		if (p->left_out >> fam & 1 && service_has_family(s, fam))
			return true;
	return false;
}

static void counts_item(struct items *items, const struct svc *svc)
{
	struct counts_body *b = (struct counts_body *)items;
	const struct plan_rows *rows = svc->rows;
	const struct sum none = { .is_unknown = is_in_part(items->ctx->plan, svc->service) };

	if (rows == NULL || rows->frontends.n == 0)
		return;
	b->totals[PLANE_COUNTER_CONNECTIONS] = none;
	b->totals[PLANE_COUNTER_REJECTED] = none;
	vec_clear(&b->counted);
	vec_for_each (f, &rows->frontends)
		*vec_push(&b->counted) =
			(struct plane_counted){ .at = { f->addr, f->port, f->proto, 0 } };
	b->step = PLANE_COUNTER_CONNECTIONS;
}

/* Add the i-th counter of the step. */
static void count_add(struct counts_body *b, size_t i, const struct plane_count *c)
{
	if (b->step != PLANE_COUNTER_BACKEND) {
		b->totals[b->step].n += c->packets;
		b->totals[b->step].is_unknown |= !c->is_known;
	} else if (c->packets > 0 || !c->is_known) {
		*vec_push(&b->sums) = (struct sum){ b->counted.v[i].at, c->packets, !c->is_known };
	}
}

/* One batch of the step's counters. Those that cannot be read are unknown. */
static void batch_read(struct counts_body *b)
{
	const struct plane *plane = b->items.ctx->plane;
	size_t n = MIN(b->counted.n - b->n_read, (size_t)BATCH);
	struct plane_count got[BATCH];
	int r = 0;

	if (n > 0)
		r = plane->ops->count(plane, b->step, &b->counted.v[b->n_read], n, got, NULL);
	if (r < 0)
		memset(got, 0, sizeof(got));
	for (size_t i = 0; i < n; i++)
		count_add(b, b->n_read++, &got[i]);
}

static void sum_write(struct jsonw *w, const char *key, const struct sum *sum)
{
	jsonw_uint_if(w, key, !sum->is_unknown, sum->n);
}

static void service_write(struct counts_body *b)
{
	struct jsonw *w = &b->items.w;

	jsonw_object(w, NULL);
	jsonw_names(w, b->items.key->ns, b->items.key->name);
	sum_write(w, "connections", &b->totals[PLANE_COUNTER_CONNECTIONS]);
	sum_write(w, "rejected", &b->totals[PLANE_COUNTER_REJECTED]);
	jsonw_array(w, "endpoints");
	vec_sort(&b->sums, ip_tuple_cmp);
	for (size_t i = 0; i < b->sums.n; i++) {
		struct sum sum = b->sums.v[i];

		/* A backend may be in two pools, the cluster pool and the local pool. */
		for (; i + 1 < b->sums.n && ip_tuple_cmp(&sum, &b->sums.v[i + 1]) == 0; i++) {
			sum.n += b->sums.v[i + 1].n;
			sum.is_unknown |= b->sums.v[i + 1].is_unknown;
		}
		jsonw_object(w, NULL);
		jsonw_frontend(w, &sum.at.addr, sum.at.port, sum.at.proto);
		sum_write(w, "connections", &sum);
		jsonw_end(w);
	}
	jsonw_end(w);
	jsonw_end(w);
}

/* The step is over. A service without connections is not written. */
static void step_next(struct counts_body *b)
{
	const struct sum *all = &b->totals[PLANE_COUNTER_CONNECTIONS];
	bool is_written = all->n > 0 || all->is_unknown;

	b->n_read = 0;
	b->step = is_written ? b->step + 1 : PLANE_COUNTER_N;
	if (b->step == PLANE_COUNTER_BACKEND)
		slots_gather(b);
}

/* One batch. */
static bool counts_more(struct items *items, uint64_t deadline_ns)
{
	struct counts_body *b = (struct counts_body *)items;

	(void)deadline_ns;
	if (b->step == PLANE_COUNTER_N)
		return false;
	batch_read(b);
	if (b->n_read < b->counted.n)
		return true;
	if (b->step == PLANE_COUNTER_BACKEND)
		service_write(b);
	step_next(b);
	return true;
}

static bool is_requested(void *arg, const struct svc *svc)
{
	const struct counts_body *b = arg;

	if (b->items.ctx->counting == PLANE_COUNT_NONE)
		return false;
	return b->name == NULL || (svc->ns == b->ns && svc->name == b->name);
}

static void counts_head(struct items *items)
{
	jsonw_uint(&items->w, "clock_ms", now_ns() / NSEC_PER_MSEC);
}

static void counts_tail(struct items *items)
{
	jsonw_bool(&items->w, "counted", items->ctx->counting != PLANE_COUNT_NONE);
}

static void counts_close(struct items *items)
{
	struct counts_body *b = (struct counts_body *)items;

	name_pair_unref(b->ns, b->name);
	vec_fini(&b->counted);
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

	b->step = PLANE_COUNTER_N;
	if (body_service_param(&b->ns, &b->name, reply, q))
		items_open(reply, &b->items, ctx, &ops, &query);
	else
		free(b);
}
