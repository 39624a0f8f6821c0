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

#include "base/control.h"
#include "model/walk.h"

#define BATCH 256
#define SLOTS_MAX 2048

struct sum {
	struct ip_addr addr;
	uint16_t port;
	uint64_t n;
};

struct counts_body {
	const struct serve_context *ctx;
	struct page page;
	struct jsonw w;
	const struct name *ns; /* counted; of the requested service, NULL = all */
	const struct name *name;
	bool is_found;
	bool is_counted; /* at least one counter exists */
	VEC(struct plane_slot) slots;
	VEC(struct sum) sums;
};

/* The sum of a counter over all frontends of a service. */
static uint64_t read_frontends(struct counts_body *b, const struct plan_rows *rows,
			       enum plane_frontend_counter which)
{
	const struct plane *plane = b->ctx->plane;
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
		for (size_t i = 0; i < pool->backends.n && b->slots.n <= SLOTS_MAX; i++)
			*vec_push(&b->slots) = (struct plane_slot){
				.addr = pool->backends.v[i].addr,
				.port = pool->backends.v[i].port,
				.aff_id = pool->backends.v[i].aff_id,
				.pool_id = pool->id,
				.slot = (uint32_t)i,
			};
}

static int sum_cmp(const void *a, const void *b)
{
	const struct sum *x = a;
	const struct sum *y = b;
	int c = ip_addr_cmp(&x->addr, &y->addr);

	return c != 0 ? c : (x->port > y->port) - (x->port < y->port);
}

/* A backend may be in two pools, the cluster pool and the local pool. */
static void read_slots(struct counts_body *b)
{
	const struct plane *plane = b->ctx->plane;
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
				*vec_push(&b->sums) =
					(struct sum){ b->slots.v[i + k].addr,
						      b->slots.v[i + k].port, got[k].packets };
	}
	if (b->sums.n == 0)
		return;
	qsort(b->sums.v, b->sums.n, sizeof(*b->sums.v), sum_cmp);
	for (size_t i = 1; i < b->sums.n; i++) {
		if (sum_cmp(&b->sums.v[kept], &b->sums.v[i]) == 0)
			b->sums.v[kept].n += b->sums.v[i].n;
		else
			b->sums.v[++kept] = b->sums.v[i];
	}
	b->sums.n = kept + 1;
}

static void item_write(struct counts_body *b, const struct svc *svc)
{
	const struct plan_rows *rows = svc->rows;
	uint64_t attempts = read_frontends(b, rows, PLANE_FRONTEND_CONNECTIONS);

	if (attempts == 0)
		return;
	jsonw_object(&b->w, NULL);
	jsonw_name(&b->w, "namespace", svc->ns);
	jsonw_name(&b->w, "name", svc->name);
	jsonw_uint(&b->w, "connections", attempts);
	jsonw_uint(&b->w, "refused", read_frontends(b, rows, PLANE_FRONTEND_REJECTED));
	jsonw_array(&b->w, "endpoints");
	slots_gather(b, rows);
	if (b->slots.n <= SLOTS_MAX)
		read_slots(b);
	for (size_t i = 0; b->slots.n <= SLOTS_MAX && i < b->sums.n; i++) {
		jsonw_object(&b->w, NULL);
		jsonw_addr(&b->w, "address", &b->sums.v[i].addr);
		jsonw_uint(&b->w, "port", b->sums.v[i].port);
		jsonw_uint(&b->w, "connections", b->sums.v[i].n);
		jsonw_end(&b->w);
	}
	jsonw_end(&b->w);
	jsonw_end(&b->w);
}

static bool is_countable(const struct serve_context *ctx)
{
	return ctx->plane != NULL && ctx->plane->ops->count_frontends != NULL &&
	       ctx->plane->ops->count_slots != NULL;
}

static bool is_requested(void *arg, const struct svc *svc)
{
	const struct counts_body *b = arg;

	return b->name == NULL || (svc->ns == b->ns && svc->name == b->name);
}

static int counts_more(void *state, struct str *out, uint64_t deadline_ns)
{
	struct counts_body *b = state;

	b->w.out = out;
	if (!b->is_found) {
		if (page_more(&b->page, deadline_ns))
			return 1;
		b->is_found = true;
		jsonw_object(&b->w, NULL);
		jsonw_uint(&b->w, "api", CONTROL_API_VERSION);
		jsonw_uint(&b->w, "clock_ms", now_ns() / NSEC_PER_MSEC);
		jsonw_array(&b->w, "items");
		return 1;
	}
	do {
		const struct walk_key *key = is_countable(b->ctx) ? page_next(&b->page) : NULL;
		const struct svc *svc;

		if (key == NULL) {
			jsonw_end(&b->w);
			jsonw_bool(&b->w, "counted", b->is_counted);
			jsonw_end(&b->w);
			str_puts(out, "\n");
			return 0;
		}
		svc = model_find(b->ctx->model, key->ns, key->name);
		if (svc != NULL && svc->rows != NULL)
			item_write(b, svc);
	} while (now_ns() < deadline_ns);
	return 1;
}

static void counts_close(void *state)
{
	struct counts_body *b = state;

	page_fini(&b->page);
	name_unref(b->ns);
	name_unref(b->name);
	vec_fini(&b->slots);
	vec_fini(&b->sums);
	free(b);
}

static const struct http_body_ops counts_ops = { .more = counts_more, .close = counts_close };

void body_counts(struct http_reply *reply, const struct serve_context *ctx,
		 const struct http_request *q)
{
	const char *service = http_request_param(q, "service");
	const char *slash = service ? strchr(service, '/') : NULL;
	struct page_query query = { .is_wanted = is_requested };
	struct counts_body *b;

	if (!body_params_check(reply, q, "service"))
		return;
	if (service != NULL && slash == NULL) {
		http_reply_error(reply, 400, "service: '%.64s' is not NAMESPACE/NAME", service);
		return;
	}
	b = xcalloc(1, sizeof(*b));
	b->ctx = ctx;
	if (service != NULL) {
		b->ns = name_get(service, (size_t)(slash - service));
		b->name = name_get_str(slash + 1);
	}
	query.arg = b;
	page_init(&b->page, ctx->model, &query);
	http_reply_stream(reply, "application/json", &counts_ops, b);
}
